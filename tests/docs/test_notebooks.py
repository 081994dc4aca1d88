"""The notebooks: what they are committed with is what executing them gives."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def outputs(cells: list[dict]) -> list[tuple[str, list[str]]]:
    """Return source and printed text of every code cell; nothing but text may be in an output."""
    found = []
    for cell in cells:
        if cell["cell_type"] == "code":
            assert {kind for output in cell["outputs"] for kind in output.get("data", ())} <= {"text/plain"}
            printed = [
                joined(output["text"] if "text" in output else output["data"]["text/plain"])
                for output in cell["outputs"]
            ]
            found.append((joined(cell["source"]), printed))
    return found


def joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_executing_gives_the_committed_outputs(path):
    for library in ("nbclient", "ipykernel"):
        pytest.importorskip(library, reason="the extra docs is not installed")
    spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    committed = json.loads(path.read_text(encoding="utf-8"))
    found, expected = outputs(script.execute(path).cells), outputs(committed["cells"])
    assert found == expected, "if that is meant: python docs/notebooks/execute.py, and look at what changed"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_committed_small_and_name_no_folder(path):
    committed = json.loads(path.read_text(encoding="utf-8"))
    shown = outputs(committed["cells"])
    assert any(printed for _, printed in shown)
    assert path.stat().st_size < 40_000
    for _, printed in shown:
        assert not re.search(r"(?<![\w.])/(?:\w+/)+|Warning|Traceback", "".join(printed))


def test_there_are_two():
    assert len(NOTEBOOKS) == 2
