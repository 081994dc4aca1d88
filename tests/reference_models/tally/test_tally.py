from dataclasses import replace

import numpy as np
import pytest
import torch
from ranking_toys import random_split

import mtbench
from mtbench.data.doubled import Doubled
from mtbench.errors import DatasetError, UsageError
from mtbench.evaluation.tasks import evaluate
from mtbench.training.models import Context
from reference_models.tally import lists
from reference_models.tally import model as tally
from reference_models.tally.lists import Lists, leave_out
from reference_models.tally.model import UNSEEN, Ranker, list_loss, one_cycle
from reference_models.tally.statistics import FAMILIES, NAMES, WIDTH, Statistics

TOY = {"epochs": "2", "width": "4", "masks": "2", "lists": "40", "batch": "16"}
pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


def random_ranker(seed=0):
    torch.manual_seed(seed)
    network = Ranker(8, 0.3, 5.0)
    network.standardise(torch.randn(50, WIDTH))
    return network


@pytest.fixture
def seen(monkeypatch):
    """Record the split whose statistics a list is made of, and the triples it asks for."""
    found = []

    class Recorded(Statistics):
        def __init__(self, split):
            super().__init__(split)
            self.split = split

        def of(self, triples):
            found.append((self.split, triples))
            return super().of(triples)

    monkeypatch.setattr(lists, "Statistics", Recorded)
    return found


SIDES = np.array([-1] + [0] * 24 + [1] * 26 + [2] * 24)
"""The column of the triple that a list's column puts another entity or relation in."""


@pytest.mark.parametrize("share", [0.05, 0.3, 0.999])
def test_a_list_has_one_hidden_triple_among_triples_that_are_none(seen, share):
    split = random_split(2)
    made = leave_out(split, share, 30, 0, seed=1)
    (shown, triples), known = seen[0], {tuple(row) for row in split.graph.tolist()}
    hidden = known - {tuple(row) for row in shown.graph.tolist()}
    assert len(hidden) == min(max(1, round(share * len(known))), len(known) - 1)
    assert not len(shown.targets)
    assert len(made) == min(30, len(hidden))
    assert made.features.shape == (len(triples), WIDTH)
    assert made.rows.shape == (len(made), len(SIDES))
    tails, heads = made.offsets.numpy()
    assert set(np.unique(made.offsets)) == {-np.inf, 0}
    assert (tails[:, SIDES == 0] < 0).all()
    assert (heads[:, SIDES == 2] < 0).all()
    np.testing.assert_array_equal(tails[:, np.isin(SIDES, (-1, 1))], heads[:, np.isin(SIDES, (-1, 1))])
    for rows, valid in zip(made.rows.numpy(), (tails == 0) | (heads == 0), strict=True):
        own, *others = triples[rows[valid]]
        assert valid[0]
        assert tuple(own) in hidden
        assert not known & {tuple(row) for row in others}
        columns = [np.flatnonzero(row != own).tolist() for row in triples[rows[1:]][valid[1:]]]
        assert columns == [[side] for side in SIDES[1:][valid[1:]].tolist()]


@pytest.mark.parametrize(("number", "sizes"), [(2, {}), (50, {}), (4, {"entities": 12, "graph": 150})])
def test_typed_candidates_are_other_entities_at_that_end(seen, number, sizes):
    split = random_split(2, **sizes)
    made = leave_out(split, 0.3, 30, number, seed=1)
    (shown, triples), known = seen[0], {tuple(row) for row in split.graph.tolist()}
    assert made.rows.shape == (30, len(SIDES) + 2 * number)
    assert made.offsets.shape == (4, *made.rows.shape)
    found = 0
    for place, side in enumerate((2, 0)):
        columns = slice(len(SIDES) + place * number, len(SIDES) + (place + 1) * number)
        offsets = made.offsets[2 + place].numpy()
        assert (offsets[:, np.isin(SIDES, (1, 2 - side)).nonzero()[0]] < -1e9).all()
        for list_, (rows, own) in enumerate(zip(made.rows[:, columns].numpy(), made.rows[:, 0].tolist(), strict=True)):
            relation, there = triples[own, 1], offsets[list_, columns] > -np.inf
            at_end = {row[side] for row in shown.graph.tolist() if row[1] == relation}
            chosen = triples[rows[there]]
            assert (np.delete(chosen, side, axis=1) == np.delete(triples[own], side)).all()
            assert not known & {tuple(row) for row in chosen.tolist()}
            ids = chosen[:, side].tolist()
            assert len(set(ids)) == len(ids)
            assert set(ids) <= at_end
            other = {(*triples[own][:side], e, *triples[own][side + 1 :]) for e in at_end}
            if len(at_end) <= number:
                assert len(ids) == len(other - known)
            found += len(ids)
            uniform_chance = min(1, 24 / split.num_entities)
            chance = uniform_chance + min(1, number / max(1, len(at_end)))
            assert offsets[list_, columns][there] == pytest.approx(-np.log(chance), rel=1e-5)
            uniform = np.flatnonzero((side == SIDES) & (offsets[list_, : len(SIDES)] > -np.inf))
            of = [triples[made.rows[list_, column]][side] in at_end for column in uniform]
            expected = [-np.log(chance if there else uniform_chance) for there in of]
            assert offsets[list_][uniform] == pytest.approx(expected, rel=1e-5)
    assert found > 30


def test_every_typed_candidate_is_drawn_as_often():
    split, drawn = random_split(2, relations=2), np.zeros(100)
    graph = Doubled.of(split)
    for seed in range(300):
        typed = lists._Typed(replace(split, targets=split.targets[:1]), graph, 1, 2, seed)
        triples, _ = typed.drawn("tail")
        np.add.at(drawn, triples[0, :, 2], 1)
    there = set(split.graph[split.graph[:, 1] == split.targets[0, 1], 2].tolist())
    assert set(np.flatnonzero(drawn)) == there
    assert drawn[list(there)] == pytest.approx(600 / len(there), abs=5 * np.sqrt(600 / len(there)))


def test_lists_of_several_graphs_are_one(seen):
    parts = [leave_out(random_split(seed), 0.2, 10, 3, seed) for seed in (0, 1)]
    whole = Lists.together(parts)
    assert len(whole) == 20
    for part, rows in zip(parts, whole.rows.split(10), strict=True):
        assert torch.equal(whole.features[rows], part.features[part.rows])
    assert torch.equal(whole.offsets, torch.cat([part.offsets for part in parts], dim=1))


def test_a_graph_of_one_triple_is_refused():
    split = random_split(0)
    with pytest.raises(DatasetError, match="1 triples are too few to hide some and learn"):
        leave_out(replace(split, graph=split.graph[:1]), 0.1, 10, 0, 0)


def test_the_loss_is_the_plain_one():
    made = leave_out(random_split(4, relations=3), 0.3, 12, 4, 0)
    numbers = torch.tensor([3, 5, 0])
    logits = torch.randn(3, made.rows.shape[1], dtype=torch.float64)
    expected = []
    for row, number in zip(logits.tolist(), numbers.tolist(), strict=True):
        for offsets in made.offsets[:, number].tolist():
            weights = [np.exp(value + offset) for value, offset in zip(row, offsets, strict=True)]
            assert 0 in weights
            expected.append(np.log(sum(weights)) - row[0])
    assert len(expected) == 12
    assert float(list_loss(logits, made, numbers)) == pytest.approx(sum(expected) / 3)


def test_the_learning_rate_goes_as_pytorchs_one_cycle():
    parameter, steps = torch.nn.Parameter(torch.zeros(1)), 1000
    optimizer = torch.optim.AdamW([parameter], 1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 1.0, total_steps=steps, div_factor=1 / tally.BEGIN, final_div_factor=tally.BEGIN / tally.END
    )
    found = []
    for _ in range(steps):
        found.append(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()
    ours = [one_cycle(step / (steps - 1)) for step in range(steps)]
    # Theirs begins to fall at a whole step, ours at the share itself.
    assert ours == pytest.approx(found, abs=0.005)
    assert (ours[0], ours[-1]) == pytest.approx((tally.BEGIN, tally.END))


def test_a_relation_without_an_observable_triple_ranks_last():
    split = random_split(1, relations=4)
    split = replace(split, graph=split.graph[split.graph[:, 1] != 2])
    triples = np.array([(0, relation, 1) for relation in range(split.relation_slots)])
    scores = tally.TallyScores(random_ranker(), split.observable(), torch.device("cpu")).score(triples)
    empty = ~np.isin(triples[:, 1], split.graph[:, 1])
    assert empty[2]
    assert (scores.numpy() == UNSEEN).tolist() == empty.tolist()


def test_without_loops_a_loop_ranks_last_where_its_relation_has_none():
    split = random_split(1, relations=4)
    loops = split.graph[:, 0] == split.graph[:, 2]
    split = replace(split, graph=np.concatenate((split.graph[~loops], [[3, 1, 3]])))
    triples = np.array([(0, relation, tail) for relation in np.unique(split.graph[:, 1]) for tail in range(2)])
    with_loops, without = (
        tally.TallyScores(network, split.observable(), torch.device("cpu"), loops).score(triples)
        for network in [random_ranker()]
        for loops in (True, False)
    )
    last = (triples[:, 2] == 0) & (triples[:, 1] != 1)
    assert (without.numpy()[last] == UNSEEN).all()
    assert torch.equal(without[~last], with_loops[~last])
    assert (with_loops.numpy() != UNSEEN).all()


def test_statistics_that_are_not_shown_count_as_mean():
    network, features = random_ranker().eval(), torch.randn(3, 5, WIDTH)
    shown = torch.rand(3, WIDTH) < 0.5
    means = torch.where(shown[:, None], features, network.mean)
    assert torch.equal(network(features, shown), network(means))
    assert not torch.equal(network(features, shown), network(features))


@pytest.mark.parametrize("chance", [0, 0.3])
def test_a_list_is_learned_without_some_families(small, monkeypatch, chance):
    forward, found, data = Ranker.forward, [], mtbench.load(small)

    def recorded(network, features, shown=None):
        if shown is not None:
            assert (len(shown), features.shape[1]) == (len(features), len(SIDES))
            found.append(shown)
        return forward(network, features, shown)

    monkeypatch.setattr(Ranker, "forward", recorded)
    model = tally.build(Context(data.name, settings={**TOY, "family_dropout": str(chance)}, device="cpu"))
    model.fit(data.train, data.valid)
    if not chance:
        assert not found
        return
    shown = torch.cat(found)
    columns = [[NAMES.index((family, name)) for name in names] for family, names in FAMILIES.items()]
    assert all(torch.equal(shown[:, held].any(dim=1), shown[:, held].all(dim=1)) for held in columns)
    families = torch.stack([shown[:, held[0]] for held in columns]).double()
    assert families.shape == (len(FAMILIES), 80)
    assert float(families.mean()) == pytest.approx(1 - chance, abs=0.1)
    assert len(set(map(tuple, families.T.tolist()))) > 20


def test_training_never_looks_at_the_validation_targets(small):
    data = mtbench.load(small)
    weights = []
    for targets in (data.valid.targets, data.valid.targets[:3]):
        model = tally.build(Context(data.name, settings=TOY, device="cpu"))
        model.fit(data.train, replace(data.valid, targets=targets))
        weights.append(model.network.state_dict())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_it_learns_on_a_small_metafam_what_counting_does_not_tell(small):
    data = mtbench.load(small)
    model = tally.build(Context(data.name, device="cpu", settings={"masks": "2", "lists": "600", "epochs": "6"}))
    model.fit(data.train, data.valid)
    result = evaluate(model.scorer(data.test.observable()), data.test)
    assert result.metrics["mrr"] > 0.8 > 4 * result.baselines["half_link_memory"]["mrr"]
    assert result.asked_again.startswith("the same")


@pytest.mark.parametrize(
    ("key", "value"),
    [("masks", "0"), ("least", "0"), ("most", "1"), ("outliers", "-1"), ("typed", "-1"), ("family_dropout", "1")],
)
def test_settings_outside_their_limits_are_refused(key, value):
    with pytest.raises(UsageError, match=f"^{key} must be "):
        tally.build(Context("metafam", settings={key: value}))
