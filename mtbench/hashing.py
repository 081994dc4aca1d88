"""Content hashes: what makes two sets of triples the same, whatever file, order or ids hold them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

CONTENT_HASH_OF_NOTHING = hashlib.sha256().hexdigest()


def content_hash(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return the SHA-256 of named triples ``(head, relation, tail)`` as a set of lines.

    The UTF-8 lines ``head TAB relation TAB tail LF`` are sorted bytewise, so the hash does not depend
    on row order, file format or integer ids: it is how a rebuilt split is compared with a release.
    """
    lines = sorted("\t".join(row).encode() + b"\n" for row in rows)
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
