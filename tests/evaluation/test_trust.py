"""What no scorer can do: gain a rank without knowing anything.

The single steps have tests of their own (scores that are refused, closed forms, frozen candidates); here
they are tried together, through the whole evaluator, as somebody would who wants a better figure.
"""

from functools import cache

import numpy as np
import pytest
from ranking_toys import random_split, ties_expected

from mtbench.evaluation.tasks import task
from mtbench.settings.table import PROTOCOLS, VOCABULARIES, setting_of

SAMPLED = [name for name in ("dual", "entity", "relation") if name in PROTOCOLS]
every_task = pytest.mark.parametrize(
    ("protocol", "vocabulary"), [(protocol, vocabulary) for protocol in SAMPLED for vocabulary in VOCABULARIES]
)

LIMIT = 4
"""Standard errors a figure may be from chance: one test in ten thousand would fail by bad luck, and seeds are fixed."""


def uninformed(seed=0):
    """Return a split in which nothing, not even an id, says which triples are targets."""
    return random_split(seed, entities=300, relations=40, slots=40, graph=6000, targets=1000)


def random_scores(triples):
    return np.random.default_rng(len(triples)).random(len(triples))


UNINFORMED = {
    "random": random_scores,
    "constant": lambda triples: np.zeros(len(triples)),
    "binary": lambda triples: (random_scores(triples) > 0.5) * 1.0,
    "float16": lambda triples: (1000 + random_scores(triples)).astype(np.float16),
    "saturated": lambda triples: (1 / (1 + np.exp(-60 * (random_scores(triples) - 0.5)))).astype(np.float16),
    "tail id": lambda triples: triples[:, 2],
    "minus tail id": lambda triples: -triples[:, 2],
    "relation id": lambda triples: triples[:, 1],
    "minus relation id": lambda triples: -triples[:, 1],
    "position": lambda triples: np.arange(len(triples)),
    "minus position": lambda triples: -np.arange(len(triples)),
    "first of a batch": lambda triples: (np.arange(len(triples)) == 0) * 1.0,
    "last of a batch": lambda triples: (np.arange(len(triples)) == len(triples) - 1) * 1.0,
}
"""Scorers that know nothing of the graph: most of them have won a ranking elsewhere."""
SEE_THE_BATCH = [name for name in UNINFORMED if name != "constant" and not name.endswith(" id")]
"""Those whose score of a triple depends on the others that are asked for with it."""


@cache
def level(protocol, vocabulary):
    """Return the task, and the mean metrics of fifty random scorers, each of which has no ties."""
    chosen, rng = task(uninformed(), protocol, vocabulary), np.random.default_rng(7)
    found = [chosen.evaluate(rng.random(len(chosen.triples))).metrics for _ in range(50)]
    return chosen, {name: np.mean([metrics_[name] for metrics_ in found]) for name in found[0]}


@ties_expected
@every_task
@pytest.mark.parametrize(
    ("name", "batch_size"), [*((name, 10**6) for name in UNINFORMED), *((name, 51) for name in SEE_THE_BATCH)]
)
def test_who_knows_nothing_gains_no_rank(protocol, vocabulary, name, batch_size):
    chosen, random = level(protocol, vocabulary)
    result = chosen.run(UNINFORMED[name], batch_size=batch_size, ask_again=False)
    for metric, values in result.per_target().items():
        error = values.std(ddof=1) / np.sqrt(len(values))
        sign = -1 if metric == "mr" else 1
        best = max(sign * result.chance[metric], sign * random[metric])
        assert sign * result.metrics[metric] <= best + LIMIT * error + 1e-12, metric


@every_task
def test_chance_is_the_level_of_a_random_scorer_unless_candidates_are_drawn_twice(protocol, vocabulary):
    chosen, random = level(protocol, vocabulary)
    chance = chosen.evaluate(np.arange(len(chosen.triples))).chance
    assert random["mr"] == pytest.approx(chance["mr"], rel=0.01)
    if setting_of(protocol, vocabulary).repeated and protocol != "entity":
        # Equal candidates have one score, so fewer than fifty places are left in which they can be.
        assert random["mrr"] > 1.02 * chance["mrr"]
    else:
        assert random["mrr"] == pytest.approx(chance["mrr"], rel=0.03)


@pytest.mark.parametrize("name", ["position", "minus position"])
def test_where_a_target_stands_is_not_seen_by_a_scorer(name):
    split = uninformed()
    chosen = task(split, "entity-tail")
    asked = []
    chosen.run(lambda triples: asked.append(triples) or UNINFORMED[name](triples), ask_again=False)
    shown = np.concatenate(asked)
    keys = shown @ np.array([10**8, 10**4, 1])
    assert (np.diff(keys) > 0).all()
    # Sorted by id, targets are neither first nor last among the triples of their head and relation.
    targets = set(map(tuple, split.targets.tolist()))
    starts = np.flatnonzero(np.diff(keys // 10**4, prepend=-1))
    first = np.mean([tuple(shown[row].tolist()) in targets for row in starts])
    share = np.mean([tuple(row) in targets for row in shown.tolist()])
    assert abs(first - share) < 0.02
