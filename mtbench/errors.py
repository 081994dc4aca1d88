"""Every error the package raises on purpose, each saying what, where and what to type next."""

from __future__ import annotations

import difflib
import re
import shlex
import traceback
from collections.abc import Iterable, Sequence

SHOWN = 5
FEW = 12
"""So many names are listed in full."""


class MtbenchError(Exception):
    """Base class of the package's own errors; the command line prints its message and exits with 1."""

    exit_code = 1


def raised(error: Exception) -> str:
    """Return an error of somebody else's code in a line: its type, its message, its notes, and where it was raised."""
    message = "; ".join([str(error), *getattr(error, "__notes__", ())])
    where = traceback.extract_tb(error.__traceback__)[-1]
    # A file that cannot be compiled was not run: its error names it.
    place = "" if isinstance(error, SyntaxError) else f" ({where.filename}, line {where.lineno})"
    return f"{type(error).__name__}: {message}{place}"


class UsageError(MtbenchError):
    """What was asked for cannot be meant: an unknown name or option; the command line exits with 2."""

    exit_code = 2


def typed(*words: object) -> str:
    """Return a command of ours as it is to be typed: each word is quoted for the shell where it has to be."""
    return shlex.join(["mtbench", *map(str, words)])


class UnknownNameError(UsageError):
    """A dataset, model, relation or option that does not exist, reported with the nearest names, or with a few.

    Where none is near, ``besides`` says what else may stand there.
    """

    def __init__(self, kind: str, name: str, choices: Iterable[str], besides: str = "") -> None:
        if not isinstance(name, str):  # a caller's mistake is told by what is there instead of a name
            name = type(name).__name__
        known = sorted(set(choices))
        near = nearest(name, known)
        some = shown(known) if len(known) > FEW else ", ".join(known)
        far = "; ".join(filter(None, (f"known: {some or 'none'}", besides)))
        hint = f"did you mean {' or '.join(near)}?" if near else far
        super().__init__(f"unknown {kind} {name!r}: {hint}")


class AtWorkError(UsageError):
    """Another process is at work on the same directory: it finishes what was asked for, or leaves it to go on."""


class MissingExtraError(UsageError):
    """Something needs an optional part of the package; the message is the command that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f'{what} needs the extra "{extra}": python -m pip install "mtbench-kg[{extra}]"')


class DatasetError(MtbenchError):
    """A dataset is inconsistent: an unknown entity, an empty graph, a build that differs from its record."""


class CorruptedFileError(MtbenchError):
    """A stored file is missing, truncated or edited; the message names it and the command that mends it."""


class DownloadError(MtbenchError):
    """A published file cannot be had; the message names every address that was asked, and what came from it."""


class ScoreError(MtbenchError):
    """Scores that cannot be ranked (NaN, infinite, missing, wrong shape or type): refused, never repaired."""


class DivergenceError(MtbenchError):
    """Training came to a number that is none; the message names the step, the epoch and the term."""


class NotFiniteError(ScoreError):
    """Scores that are NaN or infinite; a comparison with them is false in silence, so they rank first or last."""


class RunInterrupted(MtbenchError):
    """Somebody pressed Ctrl-C in a run that can be continued; the message says how."""

    exit_code = 130


class BatchError(ScoreError):
    """Scores that depend on what else is scored with a triple: they are no property of it, and can tell the targets."""


class ResultError(MtbenchError):
    """A run directory is incomplete, or its numbers do not follow from its rank counts."""


def nearest(name: str, choices: Iterable[str]) -> list[str]:
    """Return up to three of ``choices``: those that begin with ``name``, then those most like it, ignoring case."""
    by_folded = {choice.casefold(): choice for choice in choices}
    begun = [folded for folded in sorted(by_folded) if name and folded.startswith(name.casefold())]
    found = [*begun, *difflib.get_close_matches(name.casefold(), by_folded, n=3, cutoff=0.5)]
    return [by_folded[folded] for folded in dict.fromkeys(found)][:3]


def shown(names: Sequence[str]) -> str:
    """Return the first few of some names in a row, and how many more there are."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys instead of showing it, and what turns the direction of a line; no tabs and ends of lines."""


def printable(text: str) -> str:
    """Return a text as a terminal can show it: what it would obey is spelt out, as JSON does it."""
    return CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text)
