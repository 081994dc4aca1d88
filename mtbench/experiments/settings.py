"""Hyper-parameters as they are typed: KEY=VALUE, each once."""

from __future__ import annotations

from collections.abc import Sequence

from mtbench.errors import UsageError


def parse(texts: Sequence[str], wanted: str = "--set takes KEY=VALUE") -> dict[str, str]:
    """Return settings given as ``KEY=VALUE``; `UsageError` says what is ``wanted`` for another form, or a repeat."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise UsageError(f"{wanted}, not {text!r}")
        if key in found:
            raise UsageError(f"{wanted}: {key} is given twice")
        found[key] = value
    return found
