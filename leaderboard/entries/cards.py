"""The card of an entry: what a model says of itself, in ``card.toml``, and how what is wrong with an entry is said."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import Field

from leaderboard.entries.naming import hidden, is_address, is_mixed
from mtbench.errors import MtbenchError
from mtbench.files import schema
from mtbench.runs.origin import Regime

LONGEST_REMARK = 600
"""Characters of a sentence: what it quotes may be a megabyte long."""


@dataclass(frozen=True)
class Problem:
    """Something about an entry; a ``remark`` breaks nothing, but an entry may be shown and not ranked for it.

    ``where`` is a file or folder, beginning with the name of the entry. What a sentence quotes may come from
    somebody hostile, so that neither ``where`` nor ``message`` keeps markup or control characters, and they can be
    shown on a terminal and on a page.
    """

    name: str
    where: str
    message: str
    remark: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", plain(self.where))
        object.__setattr__(self, "message", plain(self.message))

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def plain(text: str) -> str:
    """Return a text without markup and control characters, and not longer than `LONGEST_REMARK`."""
    text = text if len(text) <= LONGEST_REMARK else f"{text[:LONGEST_REMARK]}..."
    text = text.replace("<", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}")
    text = text.replace(">", "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}")
    return "".join(character if character.isprintable() else "?" for character in text)


def quote(value: object) -> str:
    """Return a value as a sentence quotes it: short."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


CARD_FILE = "card.toml"
TRAIN = "/train"
"""Ends the name of a training graph in results and cards."""

SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
CARD_BYTES = 64 * 1024
LONGEST = 2_000
"""Characters of a text: a card is read by people."""
MOST_PARAMETERS = 10**15


class SubmissionError(MtbenchError):
    """An entry of the leaderboard that does not hold: what is wrong, where, and what to type next."""


@dataclass(frozen=True)
class Card:
    """What an entry says of itself.

    ``model`` is the name its runs carry; ``name`` is shown. ``pretraining_graphs`` are the graphs it learned
    from besides the training graph of each dataset, where its runs name that; ``parameters`` is the
    number of trained ones on the largest dataset, None where nobody counted. ``url`` and ``year`` are of the paper,
    ``code`` is where the code lies; they are empty for a model that is described nowhere but here. ``date`` is the day
    (YYYY-MM-DD) of the last change of the entry. ``retrained`` tells that the leaderboard's maintainers made the runs
    of a model that is not theirs; ``leaks`` are the datasets whose known leak the model can see; ``contaminated`` says
    how it came to know the test graphs where no overlap of graphs shows it, and keeps it from being ranked. Raises
    `SubmissionError` for text that no page should show (markup, control characters, more than `LONGEST` characters),
    for a name that mixes letters which look alike, for an address that is not plain https, and for a date that is none.
    """

    name: str
    model: str
    authors: tuple[str, ...]
    licence: str
    regime: Regime
    hardware: str
    url: str = ""
    pretraining_graphs: tuple[str, ...] = ()
    parameters: Annotated[int, Field(ge=0, le=MOST_PARAMETERS)] | None = None
    summary: str = ""
    citation: str = ""
    year: Annotated[int, Field(ge=1900, le=9999)] | None = None
    code: str = ""
    date: str = ""
    retrained: bool = False
    leaks: tuple[str, ...] = ()
    contaminated: str = ""

    def __post_init__(self) -> None:
        for declared in fields(self):
            value = getattr(self, declared.name)
            for text in value if isinstance(value, tuple) else [value]:
                if isinstance(text, str):
                    expect_plain(declared.name, text, lines=declared.name in ("summary", "citation"))
        for needed in ("name", "model", "authors", "licence", "hardware"):
            value = getattr(self, needed)
            if not value or not all(text.strip() for text in (value if isinstance(value, tuple) else [value])):
                raise SubmissionError(f"{needed} must not be empty")
        for shown in ("name", "model"):
            if is_mixed(getattr(self, shown)):
                raise SubmissionError(
                    f"{shown} mixes scripts whose letters look alike, so that it may pass for another name: "
                    f"{ascii(getattr(self, shown))[:LONGEST_REMARK]}"
                )
        for name in ("url", "code"):
            if (address := getattr(self, name)) and not is_address(address):
                raise SubmissionError(f"{name} must be an address that begins with https://, or empty, not {address!r}")
        if self.date and not is_day(self.date):
            raise SubmissionError(f"date must be a day as 2026-12-31, or empty, not {self.date!r}")


def read(path: Path) -> Card:
    """Read a card; raises `SubmissionError` naming the file for one that is missing, no TOML, or has a wrong field."""
    table = read_table(path)
    try:
        return parse(table)
    except SubmissionError as error:
        raise SubmissionError(f"{path}: {error}") from error


def read_table(path: Path) -> dict[str, object]:
    """Read the fields of a card as they stand; raises `SubmissionError` for a file that is missing, huge or no TOML."""
    try:
        with path.open("rb") as stream:
            data = stream.read(CARD_BYTES + 1)
    except OSError as error:
        raise SubmissionError(f"{path}: cannot be read ({error.strerror}); an entry needs its card") from error
    if len(data) > CARD_BYTES:
        raise SubmissionError(f"{path}: more than {CARD_BYTES:,} bytes; a card is a page of text")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except ValueError as error:  # also a number of thousands of digits, and bytes that are no text
        raise SubmissionError(f"{path}: not valid TOML ({error})") from error
    except RecursionError as error:
        raise SubmissionError(f"{path}: not valid TOML (nested too deeply)") from error


def parse(table: Mapping[str, object]) -> Card:
    """Return the card of a table; raises `SubmissionError` for a field that is missing, unknown or of another type."""
    return schema.convert(table, Card, "the card", SubmissionError)


def is_day(text: str) -> bool:
    """Tell whether a text is a day as YYYY-MM-DD."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def expect_plain(name: str, text: str, *, lines: bool = False) -> None:
    """Raise `SubmissionError` for text no page should show: markup, control characters, or more than `LONGEST`.

    ``lines`` says whether it may have several of them.
    """
    if len(text) > LONGEST:
        raise SubmissionError(f"{name} has {len(text)} characters, at most {LONGEST} are shown")
    shown = text.replace("\n", "") if lines else text
    if not shown.isprintable() or "<" in shown or ">" in shown:
        character = next(one for one in shown if one in "<>" or not one.isprintable())
        raise SubmissionError(f"{name} must be plain text, without {character!r}: {text[:60]!r}")
    if wrong := hidden(shown):
        raise SubmissionError(f"{name} must be plain text, {wrong}: {text[:60]!a}")


def texts(value: object, where: str = "") -> Iterator[tuple[str, str]]:
    """Return every text in a value that was read as JSON, keys too, with the keys that lead there."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield f"a key of {where}" if where else "a key", key
            yield from texts(inner, f"{where} {key}".strip()[:80])
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, where)


SUSPECT = re.compile(rf'[<>\\]|[^ -~]|"[^"]{{{LONGEST + 1}}}')
"""Is in the JSON of every value that has a text which is not plain, and of some others."""


def unplain(value: object) -> str | None:
    """Return what is wrong with the first text in a value that no page should show, None where all are plain."""
    if not SUSPECT.search(json.dumps(value, ensure_ascii=False)):
        return None
    for where, text in texts(value):
        try:
            expect_plain(where, text)
        except SubmissionError as error:
            return str(error)
    return None
