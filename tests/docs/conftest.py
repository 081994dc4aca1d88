"""What the tests of pages share: the site, built once, and the example that two pages run."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pages
import pytest
from pages import ROOT


@pytest.fixture(scope="session")
def site(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """Build the site, warnings being errors, and return its folder; skipped where its builder is not installed."""
    for library in ("furo", "myst_parser", "nbformat", "sphinx_copybutton", "ziamath"):
        pytest.importorskip(library, reason="the extra docs is not installed")
    return once("docs-site", build)


def build(folder: Path) -> None:
    options = ["--fail-on-warning", "--keep-going", "--doctree-dir", f"{folder}-doctrees"]
    command = [sys.executable, "-m", "sphinx", *options, "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Return a function that runs a line beside the example of docs/your-model.md, with more options or none."""
    (example,) = (block for block in pages.blocks(pages.DOCS / "your-model.md") if block.language == "python")
    (tmp_path / "example.py").write_text(example.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "example", raising=False)
    yield lambda line, *more: pages.run(" ".join([line, *more]), monkeypatch)
    sys.modules.pop("example", None)
