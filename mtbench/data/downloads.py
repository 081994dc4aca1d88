"""Published files over HTTP: at hand in the cache or a mirror, else downloaded; none used before its hash is right."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from filelock import FileLock

from mtbench.data import store
from mtbench.data.catalog import Source
from mtbench.errors import DownloadError, UsageError
from mtbench.files.atomic import storage_errors
from mtbench.files.hashing import file_hash

if TYPE_CHECKING:
    import requests


WAITS = (1.0, 4.0, 16.0)
"""Seconds before an address that did not answer, or broke off, is asked again."""


def fetch(sources: Sequence[Source]) -> list[Path]:
    """Return a local file for each source, downloaded where it is not at hand, its size and SHA-256 checked.

    The cache is asked first, then what ``MTBENCH_MIRROR`` names (a directory or a base address laid out
    as ``HOST/PATH``), then the published addresses. A file is kept under its SHA-256, so that datasets
    share it, and only when every byte is right; a download that broke off goes on where it stopped.

    Raises `DownloadError` naming every address and what came from it, or, where ``MTBENCH_OFFLINE``
    forbids the network, every missing file and the place to copy it to.
    """
    distinct: dict[str, Source] = {}
    for source in sources:
        distinct.setdefault(source.sha256, source)
    problems = {key: list[str]() for key in distinct}
    found = {key: _at_hand(source, problems[key]) for key, source in distinct.items()}
    missing = {key: source for key, source in distinct.items() if found[key] is None}
    if missing and offline():
        raise DownloadError(_what_to_copy(list(missing.values()), problems))
    for key, source in missing.items():
        found[key] = _download(source, problems[key])
    return [path for source in sources if (path := found[source.sha256]) is not None]


def kept(source: Source) -> Path:
    """Return where the cache keeps a published file, whether it is there or not."""
    return store.cache_root() / "files" / source.sha256


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
    if size != source.bytes:
        return f"{path} has {size} bytes instead of {source.bytes}"
    if (found := file_hash(path)) != source.sha256:
        return f"{path} has other bytes than published (SHA-256 {found} instead of {source.sha256})"
    return ""


def _mirror() -> tuple[Path | None, str]:
    """Return the mirror's directory, or its base address: one of them, or neither."""
    named = os.environ.get("MTBENCH_MIRROR", "")
    if not named or named.startswith(("http://", "https://")):
        return None, named.rstrip("/")
    folder = Path(named).expanduser()
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


def _addresses(source: Source) -> Iterator[str]:
    _, base = _mirror()
    if base:
        yield from (f"{base}/{place(url)}" for url in source.urls)
    yield from source.urls


def _download(source: Source, problems: list[str]) -> Path:
    path = kept(source)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another process may be downloading the same file: the second one finds it there.
        with FileLock(path.with_name(f".{path.name}.lock")):
            if _is_right(path, source, problems):
                return path
            for url in _addresses(source):
                if failure := _try(url, source, path):
                    problems.append(failure)
                else:
                    return path
    raise DownloadError(
        f"cannot get {source.part}: {'; '.join(problems)}. Try again later, or copy the file to {_destination(source)}"
    )


def _try(url: str, source: Source, path: Path) -> str:
    failure = ""
    for wait in (0.0, *WAITS):
        time.sleep(wait)
        try:
            download(url, source, path)
        except RefusedError as error:
            return str(error)
        except BrokenOffError as error:
            failure = f"{error} ({len(WAITS) + 1} attempts)"
        else:
            return ""
    return failure


def _what_to_copy(missing: Sequence[Source], problems: dict[str, list[str]]) -> str:
    files = [
        f"{source.url} ({source.bytes} bytes, SHA-256 {source.sha256}) to {_destination(source)}" for source in missing
    ]
    wrong = [f"; {text}" for source in missing for text in problems[source.sha256]]
    return f"MTBENCH_OFFLINE forbids the network; copy {', and '.join(files)}{''.join(wrong)}"


def _destination(source: Source) -> Path:
    folder, _ = _mirror()
    return kept(source) if folder is None else folder / place(source.url)


TIMEOUT = (10.0, 60.0)
"""Seconds to wait for a connection, and for the next bytes of an answer."""

CHUNK = 1 << 16
TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
"""Statuses that a server may not answer with the next time."""


class RefusedError(Exception):
    """The address has something else than the file: asking again would bring the same."""


class BrokenOffError(Exception):
    """The address did not answer, or broke off: it may do better the next time."""


def download(url: str, source: Source, path: Path) -> None:
    """Download one file from one address to ``path``, which appears only when every byte is right.

    What came of a download that broke off stays beside it, named ``SHA256.part``, and the next one asks
    for the rest. Raises `RefusedError` or `BrokenOffError`, each with the address and what came from it.
    """
    import pooch  # type: ignore[import-untyped]

    part = path.with_name(f"{path.name}.part")
    # Received before pooch makes its temporary file, which a killed process would leave behind.
    _receive(url, source, part)

    def hand_over(_: str, output_file: str, __: object) -> None:
        part.replace(output_file)

    pooch.get_logger().setLevel("WARNING")
    pooch.retrieve(url, f"sha256:{source.sha256}", fname=path.name, path=path.parent, downloader=hand_over)


def _receive(url: str, source: Source, part: Path) -> None:
    """Complete the partial file, or start it anew; it is right afterwards, or an exception says why not."""
    import requests

    start = part.stat().st_size if part.exists() else 0
    if start >= source.bytes:
        part.unlink()
        start = 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    answered = False
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            answered = True
            start = _check_answer(response, url, part, start)
            try:
                _write(response, url, source, part, start)
            except RefusedError:
                part.unlink()
                raise
    except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
        got = part.stat().st_size if part.exists() else 0
        came = f"broke off after {got} of {source.bytes} bytes" if answered else "cannot be reached"
        raise BrokenOffError(f"{url} {came} ({type(error).__name__})") from error
    except requests.RequestException as error:
        raise RefusedError(f"{url} cannot be asked ({error})") from error
    if (found := file_hash(part)) != source.sha256:
        part.unlink()
        wrong = f"{url} sent other bytes than published (SHA-256 {found} instead of {source.sha256})"
        # What was resumed may have begun as another file: only a whole answer is final.
        raise BrokenOffError(wrong) if start else RefusedError(wrong)


def _check_answer(response: requests.Response, url: str, part: Path, start: int) -> int:
    """Return the position in the file at which the answer's body begins."""
    status = response.status_code
    if status == 416:
        part.unlink(missing_ok=True)
        raise BrokenOffError(f"{url} cannot go on where a download broke off")
    if status >= 400:
        answer = f"{url} answered {status} {response.reason}"
        raise BrokenOffError(answer) if status in TEMPORARY else RefusedError(answer)
    if "html" in response.headers.get("Content-Type", "").casefold():
        raise RefusedError(f"{url} sent an HTML page instead of the file")
    resumed = status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
    return start if resumed else 0


def _write(response: requests.Response, url: str, source: Source, part: Path, start: int) -> None:
    size = start
    with part.open("ab" if start else "wb") as stream, _progress(url, source, start) as advance:
        for chunk in response.iter_content(CHUNK):
            if not size and chunk.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
                raise RefusedError(f"{url} sent an HTML page instead of the file")
            size += len(chunk)
            if size > source.bytes:
                raise RefusedError(f"{url} sent more than the published {source.bytes} bytes")
            stream.write(chunk)
            advance(len(chunk))
    if size < source.bytes:
        came = f"{url} sent {size} of {source.bytes} bytes"
        # An answer that tells its length and keeps to it is whole: the file itself is shorter.
        raise RefusedError(came) if "Content-Length" in response.headers else BrokenOffError(came)


@contextmanager
def _progress(url: str, source: Source, start: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal, and nothing elsewhere; yields the function that moves it on."""
    if not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    name = TextColumn("{task.description}", markup=False)
    with Progress(name, BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("/".join(url.split("/")[-2:]), total=source.bytes, completed=start)
        yield lambda size: bar.advance(task, size)
