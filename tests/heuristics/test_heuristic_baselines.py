import pickle
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import released
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_toys import hashed, random_split, small, splits

from mtbench.builders.release import read_triples
from mtbench.data import catalog, downloads
from mtbench.data.splits import Split, from_named, with_known
from mtbench.errors import UnknownNameError
from mtbench.evaluation import tasks
from mtbench.evaluation.tasks import evaluate, measure, task
from mtbench.heuristics import baselines, figures
from mtbench.heuristics.baselines import DAMPING, STEPS, Together
from mtbench.heuristics.figures import BASELINES, Baselines, baseline
from mtbench.metrics.closed import chance
from mtbench.names import METRICS
from mtbench.settings.table import MAIN, PROTOCOLS, SAMPLED, VOCABULARIES

NAMES = tuple(BASELINES)
RELATION_BLIND = ("entity_degree", "common_neighbours", "personalised_pagerank", "inverse_visible")


def every_triple(split):
    """Return all triples of a split's vocabulary, empty slots included, ``(n, 3)``."""
    sizes = split.num_entities, split.relation_slots, split.num_entities
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), axis=-1).reshape(-1, 3)


def neighbours(split):
    found = [set() for _ in range(split.num_entities)]
    for head, _, tail in split.graph.tolist():
        if head != tail:
            found[head].add(tail)
            found[tail].add(head)
    return found


def walk(split, head):
    """Follow the walk with restart from one entity, a step at a time."""
    links = neighbours(split)
    place = np.zeros(split.num_entities)
    place[head] = 1
    total = place.copy()
    for _ in range(STEPS):
        moved = np.zeros_like(place)
        for entity, weight in enumerate(place):
            for other in links[entity]:
                moved[other] += weight / len(links[entity])
        place = DAMPING * moved
        total += place
    return total


def plain(name, split):
    """Return a baseline's scores of every triple, counted one triple at a time."""
    graph = split.graph.tolist()
    links = neighbours(split)
    walks = [walk(split, head) for head in range(split.num_entities)] if name == "personalised_pagerank" else []

    def one(head, relation, tail):
        if name == "relation_frequency":
            return sum(row[1] == relation for row in graph)
        if name == "entity_degree":
            return sum(row[0] == head for row in graph) + sum(row[2] == tail for row in graph)
        if name == "common_neighbours":
            return len(links[head] & links[tail])
        if name == "personalised_pagerank":
            return walks[head][tail]
        if name == "half_link_memory":
            starts = sum(row[:2] == [head, relation] for row in graph)
            return (1 + starts) * (1 + sum(row[1:] == [relation, tail] for row in graph))
        return any((row[0], row[2]) == (tail, head) for row in graph)

    return np.array([one(*row) for row in every_triple(split).tolist()], dtype=float)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "random"])
@settings(max_examples=15)
@given(split=splits())
def test_scores_are_those_of_a_plain_loop(name, split):
    scores = baseline(name, split)(every_triple(split))
    assert scores.shape == (len(every_triple(split)),)
    tolerance = 2.0**-11 if name == "personalised_pagerank" else 0
    np.testing.assert_allclose(scores, plain(name, split), rtol=tolerance)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10)
@given(split=splits(), seed=st.integers(0, 99))
def test_scores_do_not_depend_on_batches_order_or_targets(name, split, seed):
    triples = every_triple(split)
    scores = baseline(name, split)(triples)
    order = np.random.default_rng(seed).permutation(len(triples))
    tolerance = 2.0**-10 if name == "personalised_pagerank" else 0
    assert not len(baseline(name, split)(triples[:0]))
    shuffled = baseline(name, replace(split, targets=split.targets[:0]))(triples[order])
    np.testing.assert_allclose(shuffled, scores[order], rtol=tolerance)
    one_tail = triples[triples[:, 2] == triples[seed % len(triples), 2]]
    np.testing.assert_allclose(
        baseline(name, split)(one_tail), scores[triples[:, 2] == one_tail[0, 2]], rtol=tolerance, atol=0
    )


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(split=splits(), number=st.integers(1, 40), seed=st.integers(0, 99))
def test_rows_hold_the_scores_of_their_triples(name, split, number, seed):
    scorer, rng = baseline(name, split), np.random.default_rng(seed)
    sizes = split.num_entities, split.relation_slots, split.num_entities
    whole = baseline(name, split)(every_triple(split)).reshape(sizes)
    head, relation, tail = (rng.integers(size, size=number) for size in sizes)
    tolerance = 2.0**-10 if name == "personalised_pagerank" else 0
    for rows, expected in (
        (scorer.score_tails(head, relation), whole[head, relation]),
        (scorer.score_heads(relation, tail), whole[:, relation, tail].T),
        (scorer.score_relations(head, tail), whole[head, :, tail]),
    ):
        np.testing.assert_allclose(rows, expected, rtol=tolerance, atol=0)


@given(split=splits())
def test_in_a_large_graph_only_what_is_near_is_looked_at_and_scores_are_the_same(split):
    triples, plain = every_triple(split), {}
    for many in (baselines.MANY, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(baselines, "MANY", many)
            # All at once, and a head at a time: most of a graph is far from all of a few heads.
            asked = [triples, *(triples[triples[:, 0] == head] for head in range(split.num_entities))]
            plain[many] = [np.concatenate([baseline(name, split).score(of) for of in asked]) for name in RELATION_BLIND]
    np.testing.assert_array_equal(plain[0], plain[baselines.MANY])


def test_pairs_are_counted_in_any_layout_also_where_a_side_has_one_id():
    for sizes in ((1, 1), (1, 5), (5, 1), (4, 6)):
        rng = np.random.default_rng(0)
        first, second = (rng.integers(size, size=12) for size in sizes)
        table = np.zeros(sizes, dtype=int)
        np.add.at(table, (first, second), 1)
        together = Together(first, second, sizes)
        some, others = (np.arange(size)[None] for size in sizes)
        for ids in (np.array([[0]]), np.repeat(np.arange(sizes[0]), 2)[:, None]):
            assert (together(ids, others) == table[ids, others]).all()
        for ids in (np.array([[0]]), np.repeat(np.arange(sizes[1]), 2)[:, None]):
            assert (together(some, ids) == table[some, ids]).all()
        assert (together(first, second) == table[first, second]).all()
        assert not Together(first[:0], second[:0], sizes)(first, second).any()


def test_random_is_the_same_everywhere_and_knows_nothing():
    split = random_split(3)
    triples = every_triple(split)[::7]
    scores = baseline("random", split)(triples)
    expected = [0.13870941014555427, 0.18436667429957676, 0.6935121390102292]
    assert baseline("random", small())(np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0]])).tolist() == expected
    assert ((scores >= 0) & (scores < 1)).all()
    assert len(np.unique(scores)) == len(scores)
    assert abs(scores.mean() - 0.5) < 0.01
    for column in range(3):
        assert abs(np.corrcoef(scores, triples[:, column])[0, 1]) < 0.02


def test_equal_places_tie_although_sums_are_rounded():
    # Copies of one gadget around a hub: an end that is reached through three nodes of different degrees.
    number = 60
    ids = np.random.default_rng(0).permutation(7 * number).reshape(number, 7) + 1
    links = []
    for x, y, z, end, *leaves in ids.tolist():
        links += [(0, x), (0, y), (0, z), (x, end), (y, end), (z, end), (y, leaves[0]), (z, leaves[1]), (z, leaves[2])]
    graph = np.array([(head, 0, tail) for head, tail in links])
    names = np.array([f"e{number:03d}" for number in range(ids.max() + 1)])
    split = Split("gadgets", "test", graph, graph[:0], names, np.array(["r"]), 1)
    asked = np.array([(0, 0, end) for end in ids[:, 3]])
    assert len(np.unique(baseline("personalised_pagerank", split)(asked))) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_baseline_is_evaluated_like_any_other_scorer(protocol, vocabulary, name):
    chosen = task(random_split(1), protocol, vocabulary)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = chosen.run(baseline(name, chosen.split))
    assert result.baselines[name] == chosen.baselines[name] == result.metrics


@pytest.mark.parametrize("name", NAMES)
def test_tasks_of_one_split_are_measured_together(name):
    several = [task(random_split(4), protocol) for protocol in PROTOCOLS]
    assert measure(name, several) == [chosen.baselines[name] for chosen in several]


def test_what_several_tasks_ask_for_is_scored_once(monkeypatch):
    asked = []
    monkeypatch.setattr(tasks, "baseline", lambda name, split: lambda triples: asked.append(triples) or hashed(triples))
    measure("any", [task(random_split(4), protocol) for protocol in SAMPLED])
    triples = np.concatenate(asked)
    assert len(np.unique(triples, axis=0)) == len(triples)


@pytest.mark.parametrize("name", RELATION_BLIND)
def test_baselines_that_know_no_relation_are_chance_on_relations(name):
    chosen = task(random_split(2), "relation")
    assert chosen.baselines[name] == chance(chosen.candidates.lengths.ravel())


def test_baselines_never_see_the_targets(monkeypatch):
    seen = []
    monkeypatch.setattr(figures, "BASELINES", {"spy": lambda split: seen.append(len(split.targets)) or hashed})
    assert baseline("spy", small()) is hashed
    assert seen == [0]


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
def test_baselines_are_computed_when_looked_at_and_once(monkeypatch):
    asked = []
    monkeypatch.setattr(figures, "baseline", lambda name, split: asked.append(name) or baseline(name, split))
    result = evaluate(hashed, small())
    assert asked == []
    assert result.baselines["half_link_memory"] == result.baselines["half_link_memory"]
    assert asked == ["half_link_memory"]
    assert list(result.baselines) == list(NAMES)
    assert repr(result.baselines) == repr(dict(result.baselines))
    assert sorted(asked) == sorted(NAMES)
    with pytest.raises(KeyError, match="half_link"):
        result.baselines["half_link"]


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
def test_baselines_are_printed_and_travel_as_plain_figures():
    result = evaluate(hashed, small())
    for name in NAMES:
        assert f"\n{name.replace('_', ' ')} " in result.table()
    assert isinstance(result.baselines, Baselines)
    sent = pickle.loads(pickle.dumps(result.baselines))
    assert type(sent) is dict
    assert sent == result.baselines


def test_unknown_baselines():
    with pytest.raises(UnknownNameError, match="baseline 'pagerank': did you mean personalised_pagerank"):
        baseline("pagerank", small())


@pytest.mark.parametrize("name", NAMES)
def test_figures_of_a_release(name, mirror):
    chosen = [task(released.dataset("fbnell", mirror).test, protocol) for protocol in MAIN]
    for protocol, found in zip(MAIN, measure(name, chosen), strict=True):
        expected = catalog.record("fbnell").baselines[f"test/{protocol}/present/0"][name]
        assert [found[metric] for metric in METRICS] == pytest.approx(expected, rel=1e-5)


DOCS = (Path(__file__).parents[2] / "docs" / "baselines.md").read_text(encoding="utf-8")


SHOWN = [(MAIN[0], name) for name in NAMES]
SHOWN += [("entity", name) for name in ("personalised_pagerank", "half_link_memory", "inverse_visible")]
SHOWN += [("relation", name) for name in ("relation_frequency", "half_link_memory")]


@pytest.mark.parametrize("dataset", ["metafam", "fbnell"])
def test_the_page_names_every_baseline_and_has_the_figures_of_the_release(dataset):
    assert re.findall(r"^\| `(\w+)` \| [a-z(1].*\|$", DOCS, re.MULTILINE) == list(NAMES)
    dual, both = [line.split("|")[2:-1] for line in DOCS.splitlines() if line.startswith(f"| `{dataset}` |")][:2]
    published = catalog.record(dataset).baselines
    expected = [published[f"test/{protocol}/present/0"][name][1] for protocol, name in SHOWN]
    shown = [float(cell) for cell in (*dual[:-1], *both[:3], *both[4:6])]
    assert shown == pytest.approx(expected, abs=0.00051)


# Measured by others: how often (., r, x) occurs, among all entities, ties averaged, validation triples filtered.
ONE_COUNT = {"nl-0": 0.234, "nl-25": 0.324, "nl-50": 0.359, "nl-75": 0.288, "nl-100": 0.412, "wk-25": 0.249}
ONE_COUNT |= {"wk-75": 0.280, "fb-75": 0.294, "fb-100": 0.358}


@pytest.mark.parametrize(("name", "mrr"), ONE_COUNT.items())
def test_under_full_the_half_link_memory_is_one_count_as_others_measured_it(name, mrr, mirror):
    record = catalog.record(f"ingram-{name}")
    graph, known, targets = (
        read_triples(mirror / downloads.place(source.url))
        for source in sorted(record.sources, key=lambda source: source.part)
        if source.part.startswith("test/")
    )
    split, left_out = with_known(from_named(record.id, "test", graph, targets, record.graphs["test"].relations), known)
    assert (left_out, split.content_sha256) == (0, record.content_sha256("test"))
    assert task(split, "full").baselines["half_link_memory"]["mrr"] == pytest.approx(mrr, abs=0.001)
