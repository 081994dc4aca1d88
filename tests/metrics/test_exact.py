"""The expectation over the draw: by enumeration, by textbook distributions, and against drawn candidates."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import released
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_toys import hashed, random_split
from scipy import stats

from mtbench.evaluation.tasks import task
from mtbench.metrics import closed as metrics
from mtbench.metrics.exact import Side, per_target
from mtbench.ranking.candidates import VOCABULARIES

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


def sides(*counts):
    """Return sides of a single target from (greater, equal, count, draws)."""
    return [Side(*(np.array([number]) for number in part[:3]), part[3]) for part in counts]


def draws(greater, equal, count, number, replacement):
    """Return all equally likely draws as (above, tied)."""
    pool = [(1, 0)] * greater + [(0, 1)] * equal + [(0, 0)] * (count - greater - equal)
    if replacement:
        lists = itertools.product(pool, repeat=number if pool else 0)
    else:
        lists = itertools.combinations(pool, min(number, count))
    return [tuple(map(sum, zip((0, 0), *drawn, strict=True))) for drawn in lists]


def enumerated(parts, replacement):
    total = [
        (first[0] + second[0], first[1] + second[1])
        for first, second in itertools.product(*(draws(*part, replacement) for part in parts))
    ]
    greater, equal = np.array(total).T
    return {name: values.mean() for name, values in metrics.per_target(greater, equal).items()}


@st.composite
def part(draw, number):
    count = draw(st.integers(0, 5))
    greater = draw(st.integers(0, count))
    return greater, draw(st.integers(0, count - greater)), count, number


@settings(max_examples=60)
@given(first=part(2), second=part(3), replacement=st.booleans())
def test_the_expectation_is_the_mean_over_all_draws(first, second, replacement):
    found = per_target(sides(first, second), replacement=replacement)
    expected = enumerated([first, second], replacement)
    assert tuple(found) == metrics.METRICS
    assert {name: values[0] for name, values in found.items()} == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("replacement", [True, False])
def test_without_ties_the_rank_is_one_plus_textbook_distributions(replacement):
    parts = (700, 0, 9000, 24), (13, 0, 61, 26)
    if replacement:
        above = [stats.binom(draws, greater / count).pmf(np.arange(draws + 1)) for greater, _, count, draws in parts]
    else:
        above = [stats.hypergeom(count, greater, draws).pmf(np.arange(draws + 1)) for greater, _, count, draws in parts]
    chances = np.convolve(*above)
    found = per_target(sides(*parts), replacement=replacement)
    assert found["mr"][0] == pytest.approx(1 + 24 * 700 / 9000 + 26 * 13 / 61, rel=1e-12)
    assert found["mrr"][0] == pytest.approx(float(chances @ (1 / np.arange(1, 52))), rel=1e-9)
    assert found["hits@5"][0] == pytest.approx(math.fsum(chances[:5]), rel=1e-9)


@pytest.mark.parametrize("replacement", [True, False])
def test_all_tied_is_the_chance_of_as_many_drawn(replacement):
    found = per_target(sides((0, 9000, 9000, 24), (0, 61, 61, 26)), replacement=replacement)
    assert {name: values[0] for name, values in found.items()} == pytest.approx(metrics.chance(np.array([50])))


def test_distinct_draws_take_all_where_there_are_fewer():
    few = (2, 3, 9, 24), (1, 0, 4, 26)
    found = per_target(sides(*few), replacement=False)
    alone = metrics.per_target(np.array([3]), np.array([3]))
    assert {name: values[0] for name, values in found.items()} == pytest.approx({n: v[0] for n, v in alone.items()})
    nothing = per_target(sides((0, 0, 0, 24), (0, 0, 0, 26)), replacement=True)
    assert {name: values[0] for name, values in nothing.items()} == {"mr": 1.0} | dict.fromkeys(metrics.METRICS[1:], 1)


def test_every_target_gets_its_own_figures_whatever_the_others_are():
    rng = np.random.default_rng(0)
    count = rng.integers(0, 60, (2, 600))
    greater = (count * rng.random(count.shape)).astype(np.int64)
    equal = ((count - greater) * rng.random(count.shape) * rng.integers(0, 2, 600)).astype(np.int64)
    parts = [Side(greater[side], equal[side], count[side], draws) for side, draws in ((0, 24), (1, 26))]
    together = per_target(parts, replacement=False)
    for row in (0, 1, 2, 300, 599):
        alone = per_target(
            [Side(*(array[row : row + 1] for array in (s.greater, s.equal, s.count)), s.draws) for s in parts],
            replacement=False,
        )
        for name, values in alone.items():
            assert together[name][row] == pytest.approx(values[0], rel=1e-12)


@pytest.fixture
def metafam():
    return released.derived("metafam").test


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("levels", [3, 1009], ids=["many ties", "few ties"])
def test_dual_exact_is_what_dual_comes_to_over_candidate_seeds(metafam, vocabulary, levels):
    def score(triples):
        return hashed(triples, levels)

    exact = task(metafam, "dual-exact", vocabulary).run(score)
    drawn = [task(metafam, "dual", vocabulary, seed).run(score) for seed in range(40)]
    for bounds in ("metrics", "optimistic", "pessimistic"):
        for name, value in getattr(exact, bounds).items():
            values = np.array([getattr(result, bounds)[name] for result in drawn])
            error = values.std(ddof=1) / math.sqrt(len(values))
            # What happens less than once in all draws shows no error of its own: the rule of three.
            unseen = 3 / (len(values) * len(metafam.targets))
            assert abs(values.mean() - value) <= 4.5 * error + unseen, (bounds, name)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_few_relations_are_drawn_as_dual_draws_them(vocabulary):
    split = random_split(4, entities=20, relations=5, slots=9, graph=250, targets=60)
    exact = task(split, "dual-exact", vocabulary).run(hashed)
    drawn = [task(split, "dual", vocabulary, seed).run(hashed) for seed in range(100)]
    for name, value in exact.metrics.items():
        values = np.array([result.metrics[name] for result in drawn])
        assert abs(values.mean() - value) <= 4.5 * values.std(ddof=1) / math.sqrt(100) + 1e-12, name
    assert exact.chance == pytest.approx(drawn[0].chance)
