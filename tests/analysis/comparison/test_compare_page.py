"""The page on comparisons: its example runs, and its table is what the package computes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import released

from mtbench.analysis.comparison.comparing import minimum_detectable

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "comparing-models.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([\w/-]+)` \| (.*) \|$", PAGE, re.M))


def test_the_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "comparing-models.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out == "25 0.143 0.405\n"


def test_the_table_has_every_benchmark_dataset():
    assert list(ROWS) == list(released.FOLDERS)


@pytest.mark.parametrize("name", released.FOLDERS)
def test_the_table_is_what_is_computed(name, mirror):
    found = minimum_detectable(released.dataset(name, mirror).test)
    cells = f"{found.targets:,} | {found.clusters:,} | {found.independent:.3f} | {found.bound:.3f}"
    assert ROWS[name] == cells
