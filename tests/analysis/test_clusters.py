"""Clusters of targets, and the resolution of a dataset that follows from them: also that of the page."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import released
from ranking_toys import random_split, small

from mtbench.analysis import clusters
from mtbench.analysis.clusters import bound, minimum_detectable
from mtbench.errors import UnknownNameError, UsageError
from mtbench.ranking.ranks import Ranks

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "comparing-models.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([\w/-]+)` \| (.*) \|$", PAGE, re.M))


def ranks_of(*triples):
    heads, relations, tails = (np.array(column) for column in zip(*triples, strict=True))
    return Ranks(heads, relations, tails, {})


RANKS = ranks_of(("a", "r", "b"), ("a", "s", "b"), ("a", "r", "c"), ("x", "r", "y"), ("as", "r", "y"))


def same(labels):
    return (labels[:, None] == labels[None, :]).tolist()


def test_pairs_are_told_apart_by_head_and_relation():
    assert same(clusters.label(RANKS, "pair")) == same(np.array([0, 1, 0, 2, 3]))
    assert clusters.label(RANKS, "none").tolist() == [0, 1, 2, 3, 4]


def test_components_are_those_of_the_graph_and_not_only_of_the_targets():
    entities = np.array(["a", "as", "b", "c", "w", "x", "y"])
    # b and c hang together with a by the targets, x and as only by the observable w.
    graph = np.array([[4, 0, 5], [4, 0, 1]])
    targets = np.array([[0, 0, 2], [0, 0, 3], [5, 0, 6], [1, 0, 6]])
    split = replace(small(), graph=graph, targets=targets, entities=entities)
    assert same(clusters.label(RANKS, "component", split)) == same(np.array([0, 0, 0, 1, 1]))


def test_the_kind_is_declared_in_one_place():
    kinds = {"metafam": "component", "metafam-strict": "component", "wikitopics-mt1/health": "pair", "my own": "pair"}
    assert {name: clusters.choose(name) for name in kinds} == kinds
    assert clusters.choose("metafam", "none") == "none"
    with pytest.raises(UnknownNameError, match="kind of cluster 'pairs': did you mean pair"):
        clusters.choose("metafam", "pairs")


def test_refusals():
    with pytest.raises(UsageError, match="need the graph"):
        clusters.label(RANKS, "component")
    message = r"all 2 test triples are in one cluster \(\(head, relation\) pairs\).*choose the clusters none"
    with pytest.raises(UsageError, match=message):
        clusters.label(ranks_of(("a", "r", "b"), ("a", "r", "c")), "pair")
    with pytest.raises(UsageError, match="all 1 test triples are in one cluster"):
        clusters.label(ranks_of(("a", "r", "b")), "none")


def test_the_bound_by_hand():
    counts, labels = np.full((2, 4), 9), np.array([0, 0, 0, 1])
    assert bound("hits@1", counts, labels) == pytest.approx(2.8016 * (10 / 2) ** 0.5 / 4, abs=1e-3)
    assert bound("mrr", counts, labels) == pytest.approx(0.9 * bound("hits@1", counts, labels))
    assert bound("mr", counts, labels) == pytest.approx(9 * bound("hits@1", counts, labels))
    assert bound("mrr", counts, labels, 0.99) > bound("mrr", counts, labels)
    uneven = np.array([[9] * 4, [4] * 4])  # a target's value is the mean over its lists, and so is its range
    assert bound("mrr", uneven, labels) == pytest.approx(0.85 * bound("hits@1", uneven, labels))
    assert bound("mr", uneven, labels) == pytest.approx(6.5 * bound("hits@1", uneven, labels))


def test_the_resolution_of_a_split():
    split = random_split(1, entities=5, relations=4, graph=30)
    found = minimum_detectable(split)
    assert (found.dataset, found.targets, found.cluster) == ("random", 40, "pair")
    pairs = {(head, relation) for head, relation, _ in split.targets.tolist()}
    assert found.clusters == len(pairs) < 40
    assert found.independent < found.bound
    assert minimum_detectable(split, cluster="none").bound == found.independent
    with pytest.raises(UnknownNameError, match="metric 'MRR': did you mean mrr"):
        minimum_detectable(split, "MRR")


def test_the_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "comparing-models.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out == "25 0.143 0.405\n"


def test_the_table_has_every_benchmark_dataset():
    assert list(ROWS) == list(released.NAMES)


@pytest.mark.parametrize("name", released.NAMES)
def test_the_table_is_what_is_computed(name, mirror):
    found = minimum_detectable(released.dataset(name, mirror).test)
    cells = f"{found.targets:,} | {found.clusters:,} | {found.independent:.3f} | {found.bound:.3f}"
    assert ROWS[name] == cells
