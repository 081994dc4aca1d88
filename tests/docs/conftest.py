"""What the tests of pages share: the site, built once, and the example that two pages run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """Build the site, warnings being errors, and return its folder; skipped where its builder is not installed."""
    for library in ("furo", "myst_parser", "nbformat", "sphinx_copybutton", "ziamath"):
        pytest.importorskip(library, reason="the extra docs is not installed")
    return once("docs-site", build)


def build(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--keep-going",
        "--doctree-dir",
        f"{folder}-doctrees",
    ]
    done = subprocess.run([*command, "docs", str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable) -> Iterator[Callable[..., str]]:
    """Return a function that runs a line beside the example of docs/your-model.md, with more options or none."""
    page = (ROOT / "docs" / "your-model.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "example", raising=False)

    def call(line: str, *more: str) -> str:
        program, *arguments = shlex.split(line)
        assert program == "mtbench"
        code, out, _ = command(*arguments, *more)
        assert code == 0
        return out

    yield call
    sys.modules.pop("example", None)
