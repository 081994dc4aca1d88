"""A web server on the loopback that serves files, and misbehaves when told to."""

import hashlib
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import toys

from mtbench.data import catalog
from mtbench.data.catalog import Record

PAGE = b"<!DOCTYPE html><html><title>Sign in</title></html>"
FILES = {
    "/data/train.txt": toys.TRAIN,
    "/data/valid.txt": toys.MASKED,
    "/data/msg.txt": toys.TEST,
    "/data/test.txt": toys.MISSING,
}
PARTS = ("train/graph", "valid/targets", "test/graph", "test/targets")


@dataclass
class Served:
    """What a server has, how it answers next, and what it was asked: lists of path and first byte wanted.

    ``behaviour`` maps a path to what it does at its next requests, one each; after them it behaves.
    """

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    folder: Path | None = None
    behaviour: dict[str, list[str]] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)
    stalled: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def body(self, path: str) -> bytes | None:
        if path in self.files or self.folder is None:
            return self.files.get(path)
        file = self.folder / path.lstrip("/")
        return file.read_bytes() if file.is_file() else None


def _handler(served: Served) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "bytes=0-")
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
            served.asked.append((self.path, start))
            planned = served.behaviour.get(self.path, [])
            how = planned.pop(0) if planned else ""
            body = served.body(self.path)
            if how[:3].isdigit() or body is None:
                status, _, later = how.partition(" ")
                self.answer(int(status or 404), b"no", later=later)
            elif how == "hang up":
                self.close_connection = True
            elif how == "page":
                self.answer(200, PAGE, kind="text/html; charset=utf-8")
            elif how == "page as text":
                self.answer(200, PAGE.ljust(len(body)))
            elif how == "wrong":
                self.answer(200, body[::-1])
            elif how == "short":
                self.answer(200, body[: len(body) // 2])
            elif how == "long":
                self.answer(200, body + b"more")
            elif how == "break off":
                self.answer(200, body[: len(body) // 2], length=len(body))
                self.close_connection = True
            elif how in ("trickle", "drip"):
                self.drip(body, 0.05 if how == "drip" else 0.0)
            elif how.startswith("to no"):
                self.send_response(302)
                self.send_header("Location", "http://[::bad" if how == "to nowhere" else "/\xff\xfe")
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif how == "loud":
                self.wfile.write(b"HTTP/1.1 404 \x1b[31mred\r\nContent-Length: 0\r\n\r\n")
            elif how == "stall":
                self.answer(200, body[: len(body) // 2], length=len(body))
                served.stalled.set()
                served.go_on.wait()
                self.close_connection = True
            else:
                self.answer(200, body)

        def answer(self, status, body, *, kind="text/plain; charset=utf-8", length=None, later="") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body) if length is None else length))
            if later:
                self.send_header("Retry-After", later)
            self.end_headers()
            self.wfile.write(body)

        def drip(self, body, seconds) -> None:
            """Send a byte at a time, in chunks whose number nobody knows before."""
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for byte in body:
                self.wfile.write(b"1\r\n%c\r\n" % byte)
                self.wfile.flush()
                time.sleep(seconds)
            self.wfile.write(b"0\r\n\r\n")

    return Handler


class _Server(ThreadingHTTPServer):
    """Keeps its own faults for the test to fail with; that a client hangs up is none, and nothing is printed."""

    def __init__(self, served: Served) -> None:
        super().__init__(("127.0.0.1", 0), _handler(served))
        self.faults: list[BaseException | None] = []

    def handle_error(self, *_: object) -> None:
        if not isinstance(fault := sys.exception(), ConnectionError):
            self.faults.append(fault)


@contextmanager
def serving(**options) -> Iterator[Served]:
    """Serve on a free port of the loopback until the block ends; a fault of the server itself is raised there."""
    served = Served(**options)
    server = _Server(served)
    served.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield served
    finally:
        served.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
    if server.faults:
        raise AssertionError("the server of the test failed") from server.faults[0]


def text(rows, separator="\t") -> bytes:
    return "".join(f"{separator.join(row)}\n" for row in rows).encode()


def release(address: str, files: dict[str, bytes] | None = None) -> Record:
    """Return the toy as a record whose dataset is four published files."""
    files = files or {path: text(rows) for path, rows in FILES.items()}
    start, parameters = toys.record_text().split("[parameters]")
    graphs = parameters[parameters.index("[graphs]") :]
    sources = "".join(
        f'[[sources]]\npart = "{part}"\nurl = "{address}{path}"\nbytes = {len(data)}\n'
        f'sha256 = "{hashlib.sha256(data).hexdigest()}"\n\n'
        for part, (path, data) in zip(PARTS, files.items(), strict=True)
    )
    start = start.replace("sources = []", "").replace(toys.BUILDER, 'builder = "release"')
    return catalog.parse(f"{start}[parameters]\n\n{sources}{graphs}", "toy.toml")
