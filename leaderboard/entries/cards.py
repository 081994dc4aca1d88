"""The card of an entry: what ``card.toml`` says of a model, which texts may be shown, and problems of entries."""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mtbench.errors import MtbenchError
from mtbench.files import schema
from mtbench.files.reading import LIMITS, read_bytes
from mtbench.runs.files import naming
from mtbench.runs.origin import Regime

LONGEST_REMARK = 600
"""The most characters of a sentence: the text that it quotes may be a megabyte long."""


@dataclass(frozen=True)
class Problem:
    """Something about an entry: its code, its place and a sentence.

    ``where`` is a file or folder, beginning with the name of the entry; ``{other}`` in the sentence stands for
    ``other``, a second place. A ``remark`` breaks nothing, but may keep an entry from being ranked. Sentences may quote
    a hostile text, so that all texts here lose markup and control characters, and can be shown on a terminal and on a
    page.
    """

    name: str
    where: str
    sentence: str
    other: str = ""
    remark: bool = False

    def __post_init__(self) -> None:
        for name in ("where", "sentence", "other"):
            object.__setattr__(self, name, plain(getattr(self, name)))  # the dataclass is frozen

    @property
    def message(self) -> str:
        """The sentence, with the second place in it."""
        return self.sentence.replace("{other}", self.other)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def plain(text: str) -> str:
    """Return a text without markup and control characters, cut after `LONGEST_REMARK` characters."""
    text = text if len(text) <= LONGEST_REMARK else f"{text[:LONGEST_REMARK]}..."
    text = text.replace("<", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}")
    text = text.replace(">", "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}")
    return "".join(character if character.isprintable() else "?" for character in text)


def quote(value: object) -> str:
    """Return a value as a sentence quotes it, in 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


CARD_FILE = "card.toml"
TRAIN = "/train"
"""The end of a training graph's name in results and cards."""

SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
LONGEST = 2_000
"""The most characters of a text, because a card is read by people."""
MOST_PARAMETERS = 10**15


class SubmissionError(MtbenchError):
    """An entry of the leaderboard that does not hold: what is wrong, where, and what to type next."""


ADDRESS = re.compile(r"https://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?([/?#][!-\[\]-~]*)?")
"""An address that a page may link to: https and a host, without a user, a port or a backslash."""

NAME = re.compile(r"[ -~\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e]+")
"""The characters of names: printable ASCII, and the letters with marks of Latin-1 and Latin Extended-A."""

INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that Python calls printable, but that show nothing."""

MOST_MARKS = 4
"""The most marks on a letter: more of them cover its neighbours (Unicode TS 39, section 5.4)."""

ALIKE = str.maketrans("0l15\u00f8\u0142\u0111\u00f0\u0127\u0167\u0131\u0138\u014b|!$", "oiisoiddhtikniis")
"""Characters that look alike, mapped to one of them; NFKD takes care of letters with marks."""


def skeleton(name: str) -> str:
    """Return what a name is compared by: names with the same skeleton can be mistaken for each other.

    It has small letters and digits alone, without marks; o and 0, i, l, 1, | and !, s, 5 and $, m and rn are the same.
    """
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    return "".join(filter(str.isalnum, text.translate(ALIKE))).replace("rn", "m")


@dataclass(frozen=True)
class Card:
    """What an entry says of itself.

    ``model`` is its name in the runs, ``name`` the one that is shown. ``pretraining_graphs`` are the graphs it learned
    from besides the training graph of each dataset; ``parameters`` is the number of trained ones on the largest
    dataset, None if unknown. ``url`` and ``year`` are those of the paper, ``code`` is the address of the code; they are
    empty for a model that is only described here. ``date`` is the day (YYYY-MM-DD) of the entry's last change.
    ``retrained`` means that the leaderboard's maintainers made the runs of a model that is not theirs; ``leaks`` are
    the datasets whose known leak the model can see. ``contaminated`` says how the model came to know the test graphs
    where no overlap of graphs shows it, and keeps it from being ranked. ``alike`` says why its weights, or nearly all
    of its ranks, are another entry's. Raises `SubmissionError` for text that no page
    should show (markup, control characters, more than `LONGEST` characters), a name with other characters than `NAME`,
    an address that is not plain https, and a date that is none.
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
    alike: str = ""

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
        if not all(graph.strip() for graph in self.pretraining_graphs):
            raise SubmissionError("pretraining_graphs names a graph without a name: leave it out")
        for shown in ("name", "model"):
            text = getattr(self, shown)
            if not NAME.fullmatch(text) or not skeleton(text):
                raise SubmissionError(
                    f"{shown} must have a letter or digit, and all be ASCII or Latin letters (U+00C0 to U+017E), so "
                    f"that it passes for no other name: {ascii(text)[:LONGEST_REMARK]}"
                )
        for name in ("url", "code"):
            if (address := getattr(self, name)) and not ADDRESS.fullmatch(address):
                raise SubmissionError(f"{name} must be an address that begins with https://, or empty, not {address!r}")
        if self.date and not is_day(self.date):
            raise SubmissionError(f"date must be a day as 2026-12-31, or empty, not {self.date!r}")


def read(path: Path) -> Card:
    """Read a card; raises `SubmissionError` naming the file for one that is missing, no TOML, or has a wrong field."""
    with naming(path):
        return parse(read_table(path))


def read_table(path: Path) -> dict[str, object]:
    """Read the fields of a card; raises `SubmissionError`, without the path, if it is missing, huge or no TOML."""
    try:
        data = read_bytes(path, LIMITS[CARD_FILE])
    except OSError as error:
        raise SubmissionError(f"cannot be read ({error.strerror}); an entry needs its card, a page of text") from error
    try:
        return tomllib.loads(data.decode("utf-8"))
    except ValueError as error:  # also for a number with thousands of digits, and bytes that are not UTF-8
        raise SubmissionError(f"not valid TOML ({error})") from error
    except RecursionError as error:
        raise SubmissionError("not valid TOML (nested too deeply)") from error


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
    """Raise `SubmissionError` for text that no page should show: markup, control characters, or more than `LONGEST`.

    With ``lines`` it may have several lines.
    """
    if len(text) > LONGEST:
        raise SubmissionError(f"{name} has {len(text)} characters, at most {LONGEST} are shown")
    shown = text.replace("\n", "") if lines else text
    if not shown.isprintable() or "<" in shown or ">" in shown:
        character = next(letter for letter in shown if letter in "<>" or not letter.isprintable())
        raise SubmissionError(f"{name} must be plain text, without {character!r}: {text[:60]!r}")
    if invisible := INVISIBLE.search(shown):
        raise SubmissionError(
            f"{name} must be plain text, without the invisible character U+{ord(invisible[0]):04X}: {text[:60]!a}"
        )
    # Marks in a row after NFD are those of one letter.
    marks = 0
    for character in unicodedata.normalize("NFD", shown):
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if marks > MOST_MARKS:
            raise SubmissionError(
                f"{name} must be plain text, with at most {MOST_MARKS} marks on a letter: {text[:60]!a}"
            )


def texts(value: object, where: str = "") -> Iterator[tuple[str, str]]:
    """Give every text in a value read from JSON, keys included, with the keys that lead to it."""
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
"""Matches the JSON of every value with a text that is not plain, and of some others: a fast test before a slow one."""


def unplain(value: object) -> str | None:
    """Return what is wrong with the first text in a value that no page should show, None if all are plain."""
    if not SUSPECT.search(json.dumps(value, ensure_ascii=False)):
        return None
    for where, text in texts(value):
        try:
            expect_plain(where, text)
        except SubmissionError as error:
            return str(error)
    return None
