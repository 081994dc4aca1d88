"""Names that pass for another's: what a text looks like (Unicode TS 39), and addresses that lead where they say."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that Python calls printable and that show nothing."""

MOST_MARKS = 4
"""Marks on one letter; more are forbidden by TS 39, section 5.4."""

ADDRESS = re.compile(r"https://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?([/?#][!-\[\]-~]*)?")


def is_address(text: str) -> bool:
    """Tell whether a text is an address a page may link to: https and a host, without a user, a port or a backslash."""
    return ADDRESS.fullmatch(text) is not None


def hidden(text: str) -> str:
    """Say what of a text cannot be seen or covers its neighbours: empty if nothing does."""
    if found := INVISIBLE.search(text):
        return f"without the invisible character U+{ord(found[0]):04X}"
    marks = 0
    for character in unicodedata.normalize("NFD", text):
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if marks > MOST_MARKS:
            return f"with at most {MOST_MARKS} marks on a letter"
    return ""


def is_mixed(name: str) -> bool:
    """Tell whether a word of a name mixes scripts with letters that pass for those of another script."""
    from confusable_homoglyphs import confusables

    letters = "".join(one for one in unicodedata.normalize("NFD", name) if unicodedata.category(one) != "Mn")
    return any(confusables.is_dangerous(word) for word in re.findall(r"\w+", letters))


def looks(name: str) -> frozenset[str]:
    """Return what a name is compared by: two names that share one of these are taken for each other."""
    text = " ".join(unicodedata.normalize("NFKC", name).split())
    seen = "".join(map(_prototype, unicodedata.normalize("NFD", text)))
    return frozenset((text.casefold(), seen.casefold()))


@cache
def _prototype(character: str) -> str:
    """Return the one that stands for all characters that look like this one, as the skeleton of TS 39 has it."""
    from confusable_homoglyphs import confusables

    alike = [one["c"] for one in confusables.confusables_data.get(character, ())]
    if len(alike) != 1:
        return character  # many look like it: it stands for itself, as what looks like nothing does
    (other,) = alike
    return str(other) if len(confusables.confusables_data[other]) > 1 else min(character, str(other))
