"""The card of an entry: what a model says of itself, in ``card.toml``, read field by field and checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit

from mtbench.errors import MtbenchError, UnknownNameError
from mtbench.runs import REGIMES, Regime

CARD_FILE = "card.toml"
SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
LONGEST = 2_000
"""Characters of a text: a card is read by people."""


class SubmissionError(MtbenchError):
    """An entry of the leaderboard that does not hold: what is wrong, where, and what to type next."""


@dataclass(frozen=True)
class Card:
    """What an entry says of itself.

    ``model`` is the name its runs carry; ``name`` is shown. ``pretraining_graphs`` are the graphs it learned
    from besides the training graph of each dataset, which every run names on its own; ``parameters`` is the
    number of trained ones on the largest dataset, None where nobody counted. Raises `SubmissionError` for text
    that no page should show (markup, control characters, more than `LONGEST` characters) and for a URL
    that is not http or https.
    """

    name: str
    model: str
    authors: tuple[str, ...]
    url: str
    licence: str
    regime: Regime
    hardware: str
    pretraining_graphs: tuple[str, ...] = ()
    parameters: int | None = None
    summary: str = ""
    citation: str = ""

    def __post_init__(self) -> None:
        for declared in fields(self):
            value = getattr(self, declared.name)
            for text in value if isinstance(value, tuple) else [value]:
                if isinstance(text, str):
                    _expect_plain(declared.name, text)
        for needed in ("name", "model", "authors", "licence", "hardware"):
            if not getattr(self, needed):
                raise SubmissionError(f"{needed} must not be empty")
        if self.regime not in REGIMES:
            raise SubmissionError(str(UnknownNameError("regime", self.regime, REGIMES)))
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).hostname:
            raise SubmissionError(f"url must be an address that begins with https://, not {self.url!r}")
        if self.parameters is not None and self.parameters < 0:
            raise SubmissionError(f"parameters must be 0 or more, not {self.parameters}")


def read(path: Path) -> Card:
    """Read a card; raises `SubmissionError` naming the file for one that is missing, no TOML, or has a wrong field."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SubmissionError(f"{path}: cannot be read ({error.strerror}); an entry needs its card") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SubmissionError(f"{path}: not valid TOML ({error})") from error
    try:
        return parse(table)
    except SubmissionError as error:
        raise SubmissionError(f"{path}: {error}") from error


def parse(table: Mapping[str, object]) -> Card:
    """Return the card of a table; raises `SubmissionError` for a field that is missing, unknown or of another type."""
    declared = {one.name: one for one in fields(Card)}
    for key in table:
        if key not in declared:
            raise SubmissionError(str(UnknownNameError("field of a card", key, declared)))
    needed = [name for name, one in declared.items() if one.default is MISSING]
    if missing := [name for name in needed if name not in table]:
        raise SubmissionError(f"the card lacks {', '.join(missing)}")
    values: dict[str, object] = {}
    for key, value in table.items():
        kind = str(declared[key].type)
        if "tuple" in kind:
            good = isinstance(value, list) and all(isinstance(one, str) for one in value)
            values[key] = tuple(value) if isinstance(value, list) else value
        elif "int" in kind:
            good = isinstance(value, int) and not isinstance(value, bool)
            values[key] = value
        else:
            good = isinstance(value, str)
            values[key] = value
        if not good:
            wanted = "a list of texts" if "tuple" in kind else "a whole number" if "int" in kind else "a text"
            raise SubmissionError(f"{key} must be {wanted}, not {value!r}")
    return Card(**values)  # type: ignore[arg-type]


def _expect_plain(name: str, text: str) -> None:
    if len(text) > LONGEST:
        raise SubmissionError(f"{name} has {len(text)} characters, at most {LONGEST} are shown")
    for character in text:
        if character in "<>" or (not character.isprintable() and character != "\n"):
            raise SubmissionError(f"{name} must be plain text, without {character!r}: {text[:60]!r}")
