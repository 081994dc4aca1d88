import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import mtbench
from mtbench.errors import DatasetError
from mtbench.evaluation.tasks import task
from mtbench.names import HEAD, TAIL
from mtbench.training.models import Context
from reference_models import double_equivariant, isdea, mtdea
from reference_models.equivariant.network import Architecture, TripleNetwork, attention_logits
from reference_models.graphs.graph import typed_graph
from reference_models.mtdea import MTDEA
from reference_models.training.batches import Negatives, graph_stage, prepare, reassign, step, task_loss
from reference_models.training.fitting import hold_out, validation
from reference_models.training.loop import State
from reference_models.training.recipe import Recipe, read

BUILDERS = {"isdea": isdea.build, "mtdea": mtdea.build}
# Without MetaFam's search for an assignment, which takes longer than the rest of a small training.
QUICK = {"epochs": "3", "adaptation_epochs": "2", "width": "6"}


@pytest.fixture(scope="module")
def data(small):
    return mtbench.load(small)


@pytest.fixture
def seen(monkeypatch):
    """Return the batches of triples that training scores, as they come."""
    found, score = [], TripleNetwork.score

    def record(network, features, triples, distances):
        if network.training:
            found.append(triples.numpy().copy())
        return score(network, features, triples, distances)

    monkeypatch.setattr(TripleNetwork, "score", record)
    return found


def trained(data, name="mtdea", workdir=None, report=None, seed=0, **settings):
    context = Context("metafam", seed, "cpu", workdir, {**QUICK, **settings}, *([] if report is None else [report]))
    model = BUILDERS[name](context)
    model.fit(data.train, data.valid)
    return model


def copied(model):
    return {name: value.clone() for name, value in model.network.state_dict().items()}


def test_adaptation_leaves_every_weight_and_running_statistic_alone(data):
    model = trained(data)
    before = copied(model)
    triples = data.test.targets
    first = model.scorer(data.test.observable())(triples)
    assert all(torch.equal(value, before[name]) for name, value in copied(model).items())
    assert torch.equal(model.scorer(data.test.observable())(triples), first)


@pytest.mark.parametrize("patience", ["1", "3"])
@pytest.mark.parametrize("name", ["isdea", "mtdea"])
def test_training_stops_after_patience_epochs_and_keeps_the_best(data, tmp_path, name, patience):
    model = trained(data, name, tmp_path, epochs="12", patience=patience, learning_rate="0.05")
    state = json.loads((tmp_path / "train.json").read_text(encoding="utf-8"))
    found = [record["valid_mrr"] for record in state["history"]]
    best = int(np.argmax(found)) + 1
    assert (state["best_epoch"], state["best_value"]) == (best, max(found))
    assert len(found) == min(12, best + int(patience))
    assert [record["epoch"] for record in state["history"]] == list(range(1, len(found) + 1))
    kept = load_file(tmp_path / state["weights"])
    assert {key.partition(".")[0] for key in kept} == {"weights"}
    shorter = trained(data, name, tmp_path / "shorter", epochs=str(best), patience=patience, learning_rate="0.05")
    expected = shorter.network.state_dict()
    for key, value in model.network.state_dict().items():
        assert torch.equal(value, kept[f"weights.{key}"]), key
        assert torch.equal(value, expected[key]), key


def test_reports_count_epochs_and_batches_and_carry_the_validation(data):
    reports = []
    model = trained(data, report=reports.append, positives="graph", inverses="true", batch="900", epochs="2")
    model.scorer(data.test.observable())
    steps = [(report.stage, report.epoch, report.batch) for report in reports]
    edges = {"train": 2 * len(data.train.graph), "adapt": 2 * len(data.test.graph)}
    expected = [
        (stage, epoch, batch)
        for stage in ("train", "adapt")
        for epoch in (1, 2)
        for batch in range(-(-edges[stage] // 900) + 1)
    ]
    assert steps == expected
    for report in reports:
        assert report.epochs == 2
        assert report.batches == -(-edges[report.stage] // 900)
        assert np.isfinite(report.loss)
        assert (report.valid_mrr is None) == (
            report.stage == "adapt" or (report.epoch, report.batch) < (1, report.batches)
        )


@pytest.mark.parametrize("name", ["isdea", "mtdea"])
def test_every_epoch_has_all_positives_in_a_new_order_with_new_corruptions(data, seen, name):
    trained(data, name, positives="graph", inverses="true", batch="3000", epochs="2")
    first, second = seen
    assert first.shape == second.shape == (2 * len(data.train.graph), 5, 3)
    (order, again), (sorted_first, sorted_second) = zip(*map(sorted_by_positive, seen), strict=True)
    assert (order != again).any()
    np.testing.assert_array_equal(sorted_first[:, 0], sorted_second[:, 0])
    redrawn = (sorted_first[:, 1:] != sorted_second[:, 1:]).any(axis=-1).mean()
    assert redrawn > 0.9


def sorted_by_positive(batch):
    order = np.lexsort(batch[:, 0].T)
    return order, batch[order]


def test_the_loss_falls(data, tmp_path):
    trained(data, workdir=tmp_path, seed=1, epochs="8", learning_rate="0.01", width="16")
    history = json.loads((tmp_path / "train.json").read_text(encoding="utf-8"))["history"]
    assert history[-1]["loss"] < 0.8 * history[0]["loss"]


@pytest.mark.parametrize("clip", [0.05, 1e6])
@pytest.mark.parametrize("epoch", [1, 4])
def test_a_step_follows_the_clipped_gradient_of_the_loss_and_its_grown_regularisers(data, epoch, clip):
    chosen = replace(
        read(Recipe, "mtdea", "metafam", {}),
        width=6,
        one_hot=0.3,
        concentration=0.7,
        anneal=2.0,
        clip=clip,
    )
    graph = typed_graph(data.test, inverses=True, device=torch.device("cpu"))
    torch.manual_seed(1)
    network = MTDEA(Architecture(width=6, gin_layers=1, tasks=2, hops=3))
    logits = attention_logits(graph.num_slots, 2, torch.device("cpu"))
    trained = [*network.parameters(), logits]
    batch = prepare(graph_stage("train", graph), chosen, np.arange(60), Negatives(graph), np.random.default_rng(0))

    attention = torch.softmax(logits, dim=1)
    entropy = -(attention * attention.log()).sum()
    sizes = torch.lgamma(1 + attention.sum(dim=0)).sum()
    loss = task_loss(network, logits, batch, chosen)
    objective = loss + 2.0 ** (epoch - 1) * (0.3 * entropy - 0.7 * sizes)
    expected = torch.autograd.grad(objective, trained, allow_unused=True)
    expected = [torch.zeros_like(part) if grad is None else grad for part, grad in zip(trained, expected, strict=True)]
    norm = torch.cat([part.flatten() for part in expected]).norm().item()

    before = [parameter.detach().clone() for parameter in trained]
    optimizer = torch.optim.Adam(trained, lr=0.01, weight_decay=0.1)
    reported = step(State(network, logits, optimizer), batch, chosen, epoch)
    assert reported == pytest.approx(loss.item(), rel=1e-5)
    for parameter, old, gradient in zip(trained, before, expected, strict=True):
        clipped = gradient * min(1.0, clip / norm)
        found = torch.zeros_like(old) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(found, clipped, rtol=1e-3, atol=1e-6)
        moved = parameter.grad is not None
        whole = found + 0.1 * old
        torch.testing.assert_close(parameter.detach(), old - moved * 0.01 * whole / (whole.abs() + 1e-8))


@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_searching_the_assignment_never_raises_the_loss_and_only_swaps_shares(data, tasks):
    chosen = replace(read(Recipe, "mtdea", "metafam", {}), width=6, tasks=tasks)
    graph = typed_graph(data.test, inverses=True, device=torch.device("cpu"))
    torch.manual_seed(1)
    network = MTDEA(Architecture(width=6, gin_layers=1, tasks=tasks, hops=3))
    logits = attention_logits(graph.num_slots, tasks, torch.device("cpu"))
    batch = prepare(graph_stage("adapt", graph), chosen, np.arange(60), Negatives(graph), np.random.default_rng(0))
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    before, drawn = task_loss(network.eval(), logits, batch, chosen).item(), logits.detach().clone()
    moves = reassign(network, logits, batch, chosen)
    after = task_loss(network, logits, batch, chosen).item()
    assert all(torch.equal(value, weights[name]) for name, value in network.state_dict().items())
    assert torch.equal(logits.detach().sort(dim=1).values, drawn.sort(dim=1).values)
    if tasks == 1:
        assert moves == 0
        assert after == before
    else:
        assert moves > 0
        assert after < before


@pytest.mark.parametrize("seed", range(2))
def test_whole_families_are_held_out(data, seed):
    held_out = hold_out(data.valid, 0.3, seed)
    assert held_out.dtype == bool
    assert held_out.shape == (len(data.valid.targets),)
    assert held_out.any()
    assert not held_out.all()
    np.testing.assert_array_equal(hold_out(data.valid, 0.3, seed), held_out)
    family = np.arange(data.valid.num_entities)
    changed = True
    while changed:
        before = family.copy()
        for head, tail in data.valid.graph[:, [HEAD, TAIL]]:
            family[head] = family[tail] = min(family[head], family[tail])
        changed = not np.array_equal(before, family)
    kept, other = (set(family[data.valid.targets[part, HEAD]].tolist()) for part in (held_out, ~held_out))
    assert not kept & other
    assert len(kept) == round(0.3 * len(kept | other))


@pytest.mark.parametrize("name", ["isdea", "mtdea"])
def test_held_out_targets_are_never_trained_on_and_all_others_are(data, seen, name):
    trained(data, name, positives="targets", holdout="0.3", epochs="1", inverses="false", seed=1)
    expected = data.valid.targets[~hold_out(data.valid, 0.3, 1)]
    assert 0 < len(expected) < len(data.valid.targets)
    assert sorted(np.concatenate(seen)[:, 0].tolist()) == sorted(expected.tolist())


@pytest.mark.parametrize("inverses", [True, False])
@pytest.mark.parametrize("name", ["isdea", "mtdea"])
def test_with_inverses_an_epoch_is_judged_by_targets_both_ways_over_twice_the_slots(data, monkeypatch, name, inverses):
    asked = []
    monkeypatch.setattr(double_equivariant, "validation", lambda *given: asked.append(given) or (lambda: (0.5, 0.5)))
    trained(data, name, positives="targets", holdout="0.3", epochs="1", inverses=str(inverses).lower(), seed=1)
    ((dual, held_out, score, *_),) = asked
    targets, slots = data.valid.targets, data.valid.relation_slots
    turned = np.stack([targets[:, 2], targets[:, 1] + slots, targets[:, 0]], axis=1)
    assert np.array_equal(dual.split.targets, np.concatenate([targets, turned]) if inverses else targets)
    assert np.array_equal(held_out, np.tile(hold_out(data.valid, 0.3, 1), 2 if inverses else 1))
    assert {*dual.triples[:, 1]} == {*range(2 * slots if inverses else slots)}
    assert score(dual.triples).shape == (len(dual.triples),)


def test_an_epoch_is_judged_by_the_held_out_targets_alone(data):
    dual, held_out = task(data.valid, "dual-tail", "slots"), hold_out(data.valid, 0.3, 0)
    scores = torch.from_numpy(np.random.default_rng(0).permutation(len(dual.triples)).astype(np.float64))
    reciprocal = 1 / (1 + dual.rank(scores.numpy()).greater)
    value, mrr = validation(dual, held_out, lambda triples: scores, 0.1)()
    assert value == mrr == pytest.approx(reciprocal[held_out].mean())
    assert mrr != pytest.approx(reciprocal.mean(), rel=1e-3)


def test_by_hits_an_epoch_is_judged_in_the_order_of_the_published_code_with_ties_against_the_target(data):
    dual, every = task(data.valid, "dual-tail", "slots"), np.ones(len(data.valid.targets), dtype=bool)
    judged = []
    for seed in range(40):  # few different scores, so that ties and equal Hits are common
        scores = torch.from_numpy(np.random.default_rng(seed).integers(0, 4, len(dual.triples)).astype(np.float64))
        ranks = 1 + (counts := dual.rank(scores.numpy())).greater + counts.equal
        order = [*((ranks <= k).sum() for k in (10, 5, 3, 1)), (1 / ranks).mean()]
        judged.append((order, validation(dual, every, lambda triples, scores=scores: scores, 0.1, "hits")()[0]))
    assert len({tuple(order[:1]) for order, _ in judged}) < 40
    assert [order for order, _ in sorted(judged, key=lambda pair: pair[1])] == sorted(order for order, _ in judged)


@pytest.mark.parametrize(("chosen_by", "untrained"), [("hits", True), ("mrr", False)])
def test_by_hits_the_untrained_network_can_be_chosen(data, monkeypatch, chosen_by, untrained):
    falling = iter([0.9, 0.2, 0.1])
    monkeypatch.setattr(double_equivariant, "validation", lambda *given: lambda: (next(falling), 0.5))
    model = trained(data, "isdea", epochs="2", chosen_by=chosen_by)
    start = isdea.build(model.context).network.state_dict()
    assert all(torch.equal(value, start[name]) for name, value in copied(model).items()) is untrained


def test_targets_that_cannot_be_held_out_name_the_way_out(data):
    with pytest.raises(DatasetError, match=r"47 targets in 4 components .*--set positives=graph"):
        hold_out(data.valid, 0.05, 0)


def test_with_two_threads_the_same_seed_gives_the_same_run():
    """On graphs of real size some operations split their work; their sums must not depend on who is first."""
    data, threads = mtbench.load("metafam"), torch.get_num_threads()
    context = Context("metafam", 0, "cpu", None, {"epochs": "1"})
    torch.set_num_threads(2)
    try:
        models = [isdea.build(context) for _ in range(2)]
        for model in models:
            model.fit(data.train, data.valid)
    finally:
        torch.set_num_threads(threads)
    first, *others = [model.network.state_dict() for model in models]
    assert [name for name in first if any(not torch.equal(first[name], other[name]) for other in others)] == []
