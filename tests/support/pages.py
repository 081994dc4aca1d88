"""Pages of the documentation as sessions: their files written, their Python and commands run, in order.

What stands in a ``text`` block is compared with what the block above printed, a line of three dots meaning any
lines.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from mtbench.cli import app as cli

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
EXIT = re.compile(r"# exit code (\d)$")
COMMENT = re.compile(r"\s+# .*$")
DUMP = "wikidata5m_all_triplet.txt.gz"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it is to be saved as, and its text."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    return [Block(*found) for found in FENCE.findall(page.read_text(encoding="utf-8"))]


def commands(found: Sequence[Block]) -> Iterator[str]:
    """Return the lines of the console blocks, without their comments."""
    for block in found:
        if block.language == "console":
            yield from (COMMENT.sub("", line) for line in _lines(block))


def _lines(block: Block) -> list[str]:
    return re.sub(r"\\\n *", "", block.text).splitlines()


def needs(found: Sequence[Block], *words: str) -> bool:
    """Tell whether what is run has one of these words."""
    return any(word in block.text for block in found if block.language != "text" for word in words)


def play(
    found: Sequence[Block],
    folder: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    omit: set[str],
) -> None:
    """Run the blocks of a page in a folder with what pages say is there."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    if needs(found, "fbnell", "wikitopics"):
        mirror = request.getfixturevalue("mirror")
        monkeypatch.setenv("MTBENCH_MIRROR", str(mirror))
        (folder / "mirror").symlink_to(mirror)
        (folder / "grail").mkdir()
        (data,) = mirror.glob("raw.githubusercontent.com/kkteru/grail/*/data")
        (folder / "grail" / "data").symlink_to(data)
    if needs(found, DUMP):
        (folder / DUMP).symlink_to(request.getfixturevalue("excerpt"))
    modules = set(sys.modules)
    try:
        _session(found, folder, monkeypatch, omit)
    finally:
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(folder)):
                del sys.modules[name]


def _session(found: Sequence[Block], folder: Path, monkeypatch: pytest.MonkeyPatch, omit: set[str]) -> None:
    names: dict[str, object] = {"__name__": "example"}
    printed = ""
    for block in found:
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as page:
                exec(compile(block.text, "example", "exec"), names)
            printed = page.getvalue()
        elif block.language == "console":
            lines = (line for line in _lines(block) if COMMENT.sub("", line) not in omit)
            printed = "".join(run(line, monkeypatch) for line in lines)
        elif block.language == "text":
            assert re.fullmatch(_pattern(block.text), printed), f"shown:\n{block.text}\nprinted:\n{printed}"


def _pattern(shown: str) -> str:
    kept = [r"(?:.*\n)*?" if line == "..." else rf"{re.escape(line.rstrip())} *\n" for line in shown.splitlines()]
    return "".join(kept) + r"\n*"


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a line and return what it prints: in this process if `mtbench` alone is called, else by the shell."""
    code = int(found[1]) if (found := EXIT.search(line)) else 0
    text = COMMENT.sub("", line)
    program, *words = shlex.split(text)
    if program == "export":
        for setting in words:
            monkeypatch.setenv(*setting.split("=", 1))
        return ""
    if program == "mtbench" and not re.search(r"[|<>$]", text):
        with contextlib.redirect_stdout(io.StringIO()) as page, pytest.raises(SystemExit) as stopped:
            cli.main(words)
        assert stopped.value.code == code, f"{line}: exit code {stopped.value.code}\n{page.getvalue()}"
        return page.getvalue()
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{line}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout
