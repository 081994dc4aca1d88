"""What is typed on the command line of a grid: models with settings, seeds, and lengths of time."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mtbench.errors import UsageError
from mtbench.training import models

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_SEEDS = re.compile(r"(\d+)(?:-(\d+))?")


def model(text: str) -> tuple[str, dict[str, str]]:
    """Return the model and the settings of ``MODEL`` or ``MODEL:KEY=VALUE,...``.

    A model may be ``package.module:factory``, whose settings follow after one more colon. Raises `UsageError` for
    settings of another form.
    """
    name, colon, last = text.rpartition(":")
    if not colon or ("=" not in last and name not in models.names()):
        return text, {}
    return name, models.parse_settings(last.split(","), f"the settings in {text!r} must be {name}:KEY=VALUE,...")


def label(name: str, given: Mapping[str, str]) -> str:
    """Return the label of a model with settings, ``mtdea-tasks-4``: a slug, which names the folder of its runs."""
    text = "-".join([name, *(f"{key}={value}" for key, value in given.items())])
    return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-._")


def seeds(text: str) -> list[int]:
    """Return the seeds of ``3``, ``0-2`` or ``0,2,5-7``, each once; raises `UsageError` for another form."""
    found: list[int] = []
    for part in text.split(","):
        matched = _SEEDS.fullmatch(part.strip())
        if matched is None:
            raise UsageError(f"seeds are written 0-2, or 0,3,7, not {text!r}")
        first = int(matched[1])
        last = first if matched[2] is None else int(matched[2])
        if last < first:
            raise UsageError(f"the seeds {part.strip()} go from a larger number to a smaller one")
        found += range(first, last + 1)
    return list(dict.fromkeys(found))


def duration(text: str) -> int:
    """Return the seconds of ``25m``, ``1h30m`` or ``90s``; raises `UsageError` for another form, or no time at all."""
    matched = _DURATION.fullmatch(text.strip())
    if matched is None or not text.strip():
        raise UsageError(f"a budget is written 25m, 1h30m or 90s, not {text!r}")
    hours, minutes, seconds = (int(part or 0) for part in matched.groups())
    found = 3600 * hours + 60 * minutes + seconds
    if not found:
        raise UsageError(f"a budget of {text.strip()} leaves no time for anything")
    return found


def spoken(seconds: float) -> str:
    """Return a length of time as it is typed: ``42s``, ``25m``, ``1h05m``; seconds only below ten minutes."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 10:
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m"
