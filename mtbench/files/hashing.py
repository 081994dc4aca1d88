"""Content hashes: what makes two sets of triples the same, whatever file, order or ids hold them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from mtbench.files.reading import opened

CONTENT_HASH_OF_NOTHING = hashlib.sha256().hexdigest()


def content_hash(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return the SHA-256 of named triples ``(head, relation, tail)`` as a set of lines.

    The UTF-8 lines ``head TAB relation TAB tail LF`` are sorted bytewise, so the hash does not depend
    on row order, file format or integer ids: it is how a rebuilt split is compared with a release.
    """
    # Text is sorted by code points, as its UTF-8 is by bytes.
    lines = sorted([f"{head}\t{relation}\t{tail}\n" for head, relation, tail in rows])
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def split_hash(graph: str, targets: str, slots: int, known: str = CONTENT_HASH_OF_NOTHING) -> str:
    """Return the SHA-256 of all a rank depends on: the content hashes of graph and targets, and how many slots.

    ``known`` is the content hash of what else is known; a split without any has the hash that it always had.
    """
    besides = "" if known == CONTENT_HASH_OF_NOTHING else f"known {known}\n"
    return hashlib.sha256(f"graph {graph}\ntargets {targets}\nslots {slots}\n{besides}".encode()).hexdigest()


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with opened(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def blob_hash(data: bytes) -> str:
    """Return the SHA-1 by which git knows a file of these bytes, in hexadecimal."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
