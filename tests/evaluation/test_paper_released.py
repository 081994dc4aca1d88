"""The evaluation settings on the released data: what the paper's printed figures and the page on settings rest on."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import released

from mtbench.evaluation import paper
from mtbench.evaluation.paper import read_all
from mtbench.heuristics.figures import BASELINES
from mtbench.heuristics.oracles import blind_oracle, oracle
from mtbench.ranking.candidates import draw
from mtbench.settings.table import setting_in


@pytest.fixture(scope="module")
def metafam(mirror):
    return released.dataset("metafam", mirror).test


def read(score, split, name, protocol="dual"):
    return paper.read(score, split, setting_in(name, protocol))


def drawn_distinct(pool, number):
    """Return how many distinct values to expect in so many draws with replacement."""
    return pool * (1 - (1 - 1 / pool) ** number)


@pytest.mark.parametrize(("last_excluded", "pool"), [(True, 26), (False, 27)])
def test_relation_candidates_that_count_on_metafam(metafam, last_excluded, pool):
    """28 types are present, one is the target's, and one can never be drawn."""
    for protocol, number in (("dual", 26), ("relation", 50)):
        setting = replace(setting_in("ingram", protocol), last_excluded=last_excluded)
        seeds = [draw(metafam, setting, seed).drawn["relation"][1].mean() for seed in range(3)]
        assert np.mean(seeds) == pytest.approx(drawn_distinct(pool, number), abs=0.15)


def test_five_relation_candidates_at_most_on_wikitopics_mt1_health(mirror):
    split = released.dataset("wikitopics-mt1/health", mirror).test
    counts = draw(split, setting_in("ingram", "relation")).drawn["relation"][1]
    assert counts.max() == 5


def test_a_homogeneous_model_on_metafam(metafam):
    """The two homogeneous models of the paper: 27 and 0.000 in one row, 14 and 0.400 in the other."""
    score = blind_oracle(metafam)
    assert read(score, metafam, "isdea", "relation").metrics["mr"] == 51
    assert read(score, metafam, "isdea").metrics == pytest.approx(
        {"mr": 27.03, "mrr": 1 / 27} | dict.fromkeys(("hits@1", "hits@3", "hits@5", "hits@10"), 0), abs=0.01
    )
    other = read(score, metafam, "nbfnet").expected
    assert other["mr"] == pytest.approx(13.5, abs=0.05)
    assert other["hits@10"] == pytest.approx(0.404, abs=0.002)


def test_where_targets_may_be_candidates_nobody_is_perfect(mirror):
    split = released.dataset("fbnell", mirror).test
    for name, perfect in (("standard", True), ("ingram", True), ("isdea", False), ("nbfnet", False)):
        assert (read(oracle(split), split, name, "entity").metrics["mrr"] == 1) is perfect


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ties-and-settings.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([\w-]+)` \| (\d.*) \|$", PAGE, re.M)

SCORERS = {
    "oracle": oracle,
    "blind-oracle": blind_oracle,
    "relation-frequency": BASELINES["relation_frequency"],
    "entity-degree": BASELINES["entity_degree"],
}


def test_the_table_is_what_is_computed(mirror):
    split = released.dataset("metafam", mirror).test
    assert [name for name, _ in ROWS] == list(SCORERS)
    for name, row in ROWS:
        metrics = [result.metrics for result in read_all(SCORERS[name](split), split)]
        computed = [f"{of['mr']:.2f} / {of['mrr']:.3f} / {of['hits@10']:.3f}" for of in metrics]
        assert row.split(" | ") == computed
