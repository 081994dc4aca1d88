"""Content hashes: what makes two sets of triples the same, whatever file, order or ids hold them.

And `splitmix64`, the one source of numbers that look random and are the same on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mtbench.names import UIntArray

CONTENT_HASH_OF_NOTHING = hashlib.sha256().hexdigest()


def content_hash(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return the SHA-256 of named triples ``(head, relation, tail)`` as a set of lines.

    The UTF-8 lines ``head TAB relation TAB tail LF`` are sorted bytewise, so the hash does not depend
    on row order, file format or integer ids: it is how a rebuilt split is compared with a release.
    """
    # Text is sorted by code points, as its UTF-8 is by bytes.
    lines = sorted([f"{head}\t{relation}\t{tail}\n" for head, relation, tail in rows])
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def splitmix64(state: UIntArray, number: int = 0) -> UIntArray:
    """Return output ``number`` of the splitmix64 generators with these states (Steele et al. 2014)."""
    word = state + np.uint64((number + 1) * 0x9E3779B97F4A7C15 % 2**64)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
