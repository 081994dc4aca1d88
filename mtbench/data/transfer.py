"""One published file over HTTP: streamed, resumed where it broke off, and handed over only when it is right."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mtbench.data.catalog import Source
from mtbench.files.hashing import file_hash

if TYPE_CHECKING:
    import requests

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
