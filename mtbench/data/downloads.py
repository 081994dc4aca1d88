"""Published files over HTTP: at hand in the cache or a mirror, else downloaded; none used before its hash is right."""

from __future__ import annotations

import hashlib
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import requests
import urllib3
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from urllib3 import Retry

from mtbench.data import store
from mtbench.data.catalog import Source
from mtbench.errors import DownloadError, UsageError, printable
from mtbench.files.atomic import locked, replace_file
from mtbench.files.hashing import blob_hash, file_hash
from mtbench.files.reading import expanded

RETRY = Retry(total=3, backoff_factor=2, status_forcelist=(408, 425, 429, 500, 502, 503, 504))
"""How often an address is asked again that answers so, does not answer or breaks off, and the waits in between."""

TIMEOUT = (10.0, 60.0)
"""Seconds to wait for a connection, and for the next bytes of an answer."""

PATIENCE, SLOWEST = 60.0, 10_000
"""A whole file may take so many seconds, and one more for every so many bytes; no longer is a server waited for."""

LARGEST = 1 << 25
"""No more bytes are taken of a file whose size nobody knows."""

REMEMBERED = 300.0
"""For so many seconds a host that could not be reached is not asked again by this process."""

HINT = "MTBENCH_MIRROR=DIR takes files from a folder laid out as HOST/PATH, and metafam needs none"

CHUNK = 1 << 16

_unreachable: dict[str, float] = {}
"""When a host could not be reached, by the clock of `time.monotonic`."""


def fetch(sources: Sequence[Source]) -> list[Path]:
    """Return a local file for each source, downloaded where it is not at hand, its size and SHA-256 checked.

    The cache is asked first, then what ``MTBENCH_MIRROR`` names (a directory or a base address laid out
    as ``HOST/PATH``), then the published addresses. A file is kept under its SHA-256, so that datasets
    share it, and only when every byte is right.

    Raises `DownloadError` naming every address and what came from it, or, where ``MTBENCH_OFFLINE``
    forbids the network, every missing file and the place to copy it to.
    """
    distinct = {source.hash: source for source in reversed(sources)}
    problems = {key: list[str]() for key in distinct}
    found = {key: _at_hand(source, problems[key]) for key, source in distinct.items()}
    missing = [source for key, source in distinct.items() if found[key] is None][::-1]
    if missing and offline():
        folder, _ = _mirror()
        wanted = (f"{source.url} ({source.fingerprint}) to {_destination(source, folder)}" for source in missing)
        wrong = [f"; {text}" for source in missing for text in problems[source.hash]]
        raise DownloadError(
            f"MTBENCH_OFFLINE forbids the network ({HINT}); copy {', and '.join(wanted)}{''.join(wrong)}"
        )
    return [found[key] or _download(distinct[key], problems[key]) for key in (source.hash for source in sources)]


def kept(source: Source) -> Path:
    """Return where the cache keeps a published file, whether it is there or not."""
    return store.cache_root() / "files" / source.hash


def place(url: str) -> str:
    """Return where a mirror keeps the file of an address: ``HOST/PATH``."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path}"


def offline() -> bool:
    """Tell whether ``MTBENCH_OFFLINE`` forbids the network."""
    return os.environ.get("MTBENCH_OFFLINE", "") not in ("", "0")


def problem(path: Path, source: Source) -> str:
    """Say what is wrong with a file that should be a published one: empty if nothing is."""
    size = path.stat().st_size
    if source.bytes and size != source.bytes:
        return f"{path} has {size} bytes instead of {source.bytes}"
    found = file_hash(path) if source.sha256 else blob_hash(path.read_bytes())
    return "" if found == source.hash else f"{path} has {_other_bytes(found, source)}"


def _mirror() -> tuple[Path | None, str]:
    """Return the mirror's directory, or its base address: one of them, or neither."""
    named = os.environ.get("MTBENCH_MIRROR", "")
    if not named or named.startswith(("http://", "https://")):
        return None, named.rstrip("/")
    folder = expanded(named)
    if not folder.is_dir():
        raise UsageError(f"MTBENCH_MIRROR={named} is neither a directory nor an http address")
    return folder, ""


def _at_hand(source: Source, problems: list[str]) -> Path | None:
    if _is_right(kept(source), source, problems):
        return kept(source)
    folder, _ = _mirror()
    mirrored = [] if folder is None else [folder / place(url) for url in source.urls]
    return next((path for path in mirrored if _is_right(path, source, problems)), None)


def _is_right(path: Path, source: Source, problems: list[str]) -> bool:
    if not path.is_file():
        return False
    try:
        wrong = problem(path, source)
    except OSError as error:
        wrong = f"{path} cannot be read ({error.strerror})"
    if wrong and wrong not in problems:
        problems.append(wrong)
    return not wrong


def _destination(source: Source, folder: Path | None) -> Path:
    return kept(source) if folder is None else folder / place(source.url)


def _download(source: Source, problems: list[str]) -> Path:
    path = kept(source)
    folder, base = _mirror()
    mirrored = [f"{base}/{place(url)}" for url in source.urls] if base else []
    # Another process may be downloading the same file: the second one finds it there.
    with locked(path):
        if _is_right(path, source, problems):
            return path
        for url in (*mirrored, *source.urls):
            data, failure = _ask(url, source)
            if not failure:
                replace_file(path, data)
                return path
            problems.append(f"{url} {failure}")
    raise DownloadError(
        f"cannot get {source.part}: {'; '.join(problems)}. Try again later, or copy the file to "
        f"{_destination(source, folder)}. {HINT}; MTBENCH_OFFLINE=1 asks no server"
    )


def _ask(url: str, source: Source) -> tuple[bytes, str]:
    """Return what an address sends, or why it is not the file; whatever may be better the next time is asked again."""
    host, retry, reached = urlsplit(url).netloc, RETRY, False
    if time.monotonic() - _unreachable.get(host, -math.inf) < REMEMBERED:
        return b"", "was not asked: its host could not be reached just now"
    _tell(f"asking {host}")
    while True:
        got, answered, asked_for = b"", False, 0.0
        most = source.bytes or LARGEST
        until = time.monotonic() + PATIENCE + most / SLOWEST
        try:
            with requests.get(url, headers={"Accept-Encoding": "identity"}, stream=True, timeout=TIMEOUT) as response:
                answered = reached = True
                if not retry.is_retry("GET", response.status_code):
                    for chunk in _shown(_pieces(response), url, source):
                        got += chunk
                        if len(got) > most:
                            break
                        if time.monotonic() > until:
                            return b"", f"is too slow: {len(got)} of {source.bytes or '?'} bytes came in time"
                    return got, _wrong(got, source, response)
                failure = _answered(response)
                with suppress(urllib3.exceptions.InvalidHeader):
                    asked_for = retry.get_retry_after(response.raw) or 0.0
        except (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError) as error:
            came = f"broke off after {len(got)} of {source.bytes or '?'} bytes" if answered else "cannot be reached"
            failure = f"{came} ({type(error).__name__})"
        except (requests.RequestException, ValueError) as error:
            # A ValueError is what an address makes of it that a server forwards to, and that is none.
            return b"", f"cannot be asked ({printable(str(error))})"
        if asked_for > PATIENCE:
            return b"", f"{failure}, and wants to be asked in {asked_for:.0f} s"
        try:
            retry = retry.increment("GET", url)
        except urllib3.exceptions.MaxRetryError:
            break
        wait = asked_for or retry.get_backoff_time()
        _tell(f"{host} {failure}: asking again in {wait:.0f} s")
        time.sleep(wait)
    if not reached:
        _unreachable[host] = time.monotonic()
    return b"", f"{failure} ({1 + int(RETRY.total or 0)} attempts)"


def _pieces(response: requests.Response) -> Iterator[bytes]:
    """Yield what has come of an answer, at most `CHUNK` bytes at a time, and wait for some but not for all of these."""
    while piece := response.raw.read1(CHUNK, decode_content=True):
        yield piece


def _wrong(data: bytes, source: Source, response: requests.Response) -> str:
    """Say what a whole answer is instead of the file: empty if it is the file."""
    if response.status_code >= 400:
        return _answered(response)
    page = data.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html"))
    if page or "html" in response.headers.get("Content-Type", "").casefold():
        return "sent an HTML page instead of the file"
    if source.bytes and len(data) != source.bytes:
        return (
            f"sent {'more than the published' if len(data) > source.bytes else f'{len(data)} of'} {source.bytes} bytes"
        )
    found = hashlib.sha256(data).hexdigest() if source.sha256 else blob_hash(data)
    return "" if found == source.hash else f"sent {_other_bytes(found, source)}"


def _answered(response: requests.Response) -> str:
    return f"answered {response.status_code} {printable(response.reason or '')}".rstrip()


def _tell(text: str) -> None:
    """Say on a terminal what is being waited for."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{text}\n")


def _other_bytes(found: str, source: Source) -> str:
    return f"other bytes than published ({'SHA-256' if source.sha256 else 'git blob'} {found} instead of {source.hash})"


def _shown(chunks: Iterator[bytes], url: str, source: Source) -> Iterator[bytes]:
    """Yield the chunks of an answer, beside a bar on a terminal and nothing elsewhere."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("/".join(url.split("/")[-2:]), total=source.bytes or None)
        for chunk in chunks:
            bar.advance(task, len(chunk))
            yield chunk
