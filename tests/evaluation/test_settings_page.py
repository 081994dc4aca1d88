"""The page on ties and evaluation settings: its example runs, and its table is what the package computes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import released

from mtbench.evaluation.paper import read_all
from mtbench.heuristics.figures import BASELINES
from mtbench.heuristics.oracles import blind_oracle, oracle

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ties-and-settings.md").read_text(encoding="utf-8")
CELLS = re.findall(
    r"^\| (\w+), `([\w-]+)` \| MR \| (.*) \|\n\|  \| MRR \| (.*) \|\n\|  \| Hits@10 \| (.*) \|$", PAGE, re.M
)

SCORERS = {
    "oracle": oracle,
    "blind-oracle": blind_oracle,
    "relation-frequency": BASELINES["relation_frequency"],
    "entity-degree": BASELINES["entity_degree"],
}


def test_the_table_has_every_yardstick_on_two_datasets():
    assert [cell[:2] for cell in CELLS] == [(data, name) for data in ("metafam", "fbnell") for name in SCORERS]


@pytest.mark.parametrize("data", ["metafam", "fbnell"])
def test_the_table_is_what_is_computed(data, mirror):
    split = released.dataset(data, mirror).test
    for _, name, *rows in (cell for cell in CELLS if cell[0] == data):
        results = read_all(SCORERS[name](split), split)
        for metric, places, row in zip(("mr", "mrr", "hits@10"), (2, 3, 3), rows, strict=True):
            assert row.split(" | ") == [f"{result.metrics[metric]:.{places}f}" for result in results]
