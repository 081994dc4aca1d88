"""The page on the graphs of the field has every one of them, with the figures of its triples."""

import importlib.util
from pathlib import Path

from mtbench.data import catalog

PLACE = Path(__file__).resolve().parents[2] / "docs" / "suite.py"
LOOKED_AT = ("ingram-fb-100", "ingram-nl-25", "grail-nell-v1", "hm-1k", "wd-singer")
"""A graph of each layout, all of them small; of the others the counts alone are compared."""


def test_the_tables_are_those_of_the_graphs(mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("MTBENCH_MIRROR", str(mirror))
    monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path))
    described = importlib.util.spec_from_file_location("suite", PLACE)
    suite = importlib.util.module_from_spec(described)
    described.loader.exec_module(suite)
    text = suite.PAGE.read_text(encoding="utf-8")
    shown = {line.split("`")[1]: line.strip("| ").split(" | ") for line in text.splitlines() if line[:3] == "| `"}

    def row(name: str) -> list[str]:
        if name in LOOKED_AT:
            return suite.measured(name)
        test, record = shown[name], catalog.record(name)
        sizes = record.graphs["test"].entities, record.graphs["test"].relations
        counts = *sizes, record.part("test", "graph").triples, record.part("test", "targets").triples
        return [f"`{name}`", *(f"{count:,}" for count in counts), *test[5:]]

    assert suite.filled(text, row) == text, "run: python docs/suite.py"
