from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ranking_toys import random_split, small

from mtbench import tables
from mtbench.candidates import PROTOCOLS, VOCABULARIES
from mtbench.errors import UnknownNameError
from mtbench.evaluate import task
from mtbench.floors import relation_frequency
from mtbench.metrics import METRICS, chance


def test_relation_frequency_counts_the_graph_only():
    split = small()
    scorer = relation_frequency(split)
    named = {split.relation_name(slot): int(number) for slot, number in enumerate(scorer.frequencies)}
    assert named == {
        "hates": 0,
        "knows": 2,
        "likes": 2,
        "<empty slot 3>": 0,
        "<empty slot 4>": 0,
        "<empty slot 5>": 0,
    }
    assert scorer.score(np.array([[0, 1, 2], [3, 5, 1]])).tolist() == [2, 0]


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_floor_is_the_scorer_evaluated_like_any_other(protocol, vocabulary):
    chosen = task(random_split(1), protocol, vocabulary)
    with pytest.warns(UserWarning, match="tie"):
        result = chosen.run(relation_frequency(chosen.split))
    assert chosen.floors == {"relation_frequency": result.metrics}
    assert result.floors == chosen.floors


def test_relation_frequency_is_chance_on_tails_and_informed_on_relations():
    split = random_split(2, relations=6)
    common = split.graph[:, 1] == 0
    graph = np.concatenate((split.graph[common], split.graph[~common][:20]))
    split = replace(split, graph=graph, targets=split.targets[split.targets[:, 1] == 0])
    tails, relations = (task(split, protocol) for protocol in ("entity", "relation"))
    assert tails.floors["relation_frequency"] == chance(tails.candidates.counts)
    assert relations.floors["relation_frequency"]["mrr"] == 1.0


def test_tables_in_every_format():
    rows = [("model", dict.fromkeys(METRICS, 0.25)), ("random", {"mr": 26.0, "mrr": 0.08864})]
    text, markdown, latex = (tables.render(rows, form).splitlines() for form in ("text", "markdown", "latex"))
    assert text[0].split() == ["MR", "MRR", "Hits@1", "Hits@3", "Hits@5", "Hits@10"]
    assert text[-1].split() == ["random", "26.00", "0.0886"]
    assert markdown[0].count("|") == 8
    assert latex[0] == r"\begin{tabular}{lrrrrrr}"
    assert tables.render([("failed", {})]).split() == ["------", "failed"]
    with pytest.raises(UnknownNameError, match="unknown table format 'markdwon': did you mean markdown"):
        tables.render(rows, "markdwon")
