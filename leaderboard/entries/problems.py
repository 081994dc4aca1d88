"""What is wrong with an entry: a short name for programs, the place, a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 600
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
    """Return a text without markup and control characters, and not longer than `LONGEST`."""
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    text = text.replace("<", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}")
    text = text.replace(">", "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}")
    return "".join(character if character.isprintable() else "?" for character in text)


def quote(value: object) -> str:
    """Return a value as a sentence quotes it: short."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
