"""The README does what it says: examples and commands run as they stand, and print what it shows."""

import importlib.util
import re
from functools import cache
from pathlib import Path

import pages
import pytest

from mtbench.analysis import comparison
from mtbench.data import loading

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
FOUND = pages.blocks(README)
MAIN, *_, TESTS = (block.text for block in FOUND if block.language == "console")


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
def test_its_examples_run(tmp_path, request, monkeypatch):
    pages.play(FOUND, tmp_path, request, monkeypatch, {MAIN.strip(), TESTS.strip()})


def test_it_is_short_and_begins_with_what_is_run():
    assert len(README.read_text(encoding="utf-8").split()) < 700
    assert MAIN.endswith("&& mtbench run tally --dataset metafam\n")  # run by the tests of the models


def test_ci_runs_exactly_the_readmes_test_command():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").strip().splitlines()
    assert f"{script[-1]}\n" == TESTS


@pytest.mark.once
@pytest.mark.usefixtures("examined")
def test_picture_and_table_are_of_this_board(mirror, monkeypatch):
    monkeypatch.setenv("MTBENCH_MIRROR", str(mirror))
    # Forty runs are on ten datasets: each is read once.
    for module in (loading, comparison):
        monkeypatch.setattr(module, "load", cache(loading.load))
    described = importlib.util.spec_from_file_location("readme", ROOT / "docs" / "readme.py")
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    text = module.PAGE.read_text(encoding="utf-8")
    assert module.filled(text) == text, "run: python docs/readme.py"
    # Its title says every figure; where lines run to is matplotlib's, which differs by version.
    words = re.compile(r"<(title|text)[^>]*>([^<]*)<")
    drawings = {module.PICTURE: module.picture, module.SEEN: module.seen, module.MODELS: module.models}
    for place, draw in drawings.items():
        assert words.findall(place.read_text(encoding="utf-8")) == words.findall(draw()), "run: python docs/readme.py"
