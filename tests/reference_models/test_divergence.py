"""Numbers that are none stop a training by name, before they reach a weight."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from planned import Plan, run

import mtbench
from mtbench.errors import DivergenceError, MtbenchError
from mtbench.evaluation.tasks import task
from reference_models.equivariant.network import Architecture, attention_logits
from reference_models.graphs.graph import typed_graph
from reference_models.mtdea import MTDEA
from reference_models.training import batches as training
from reference_models.training.batches import Negatives, graph_stage, prepare, step
from reference_models.training.fitting import validation
from reference_models.training.loop import State
from reference_models.training.recipe import Recipe, read

CPU = torch.device("cpu")
CHOSEN = replace(read(Recipe, "mtdea", "metafam", {}), width=6, learning_rate=0.004)


@pytest.fixture
def state():
    torch.manual_seed(1)
    network = MTDEA(Architecture(width=6, gin_layers=1, tasks=2, hops=3))
    logits = attention_logits(58, 2, CPU)
    return State(network, logits, torch.optim.Adam([*network.parameters(), logits], lr=0.004), epoch=2)


@pytest.fixture
def batch(small):
    graph = typed_graph(mtbench.load(small).test, inverses=True, device=CPU)
    assert graph.num_slots == 58
    return prepare(graph_stage("train", graph), CHOSEN, np.arange(60), Negatives(graph), np.random.default_rng(0))


def weights_of(state):
    return {name: value.clone() for name, value in state.weights().items() if "running" not in name}


def assert_stops(state, batch, match, chosen=CHOSEN):
    before = weights_of(state)
    with pytest.raises(DivergenceError, match=f"^training diverged: {match}; .*--set learning_rate=0.0004$"):
        step(state, batch, chosen, 3)
    after = weights_of(state)
    assert all(torch.equal(after[name], before[name]) for name in before)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_task_loss_that_is_no_number_is_named(state, batch, monkeypatch, number):
    step(state, batch, CHOSEN, 3)
    step(state, batch, CHOSEN, 3)
    loss = training.task_loss
    monkeypatch.setattr(training, "task_loss", lambda *arguments: loss(*arguments) * number)
    assert_stops(state, batch, f"in step 3, epoch 3, the task loss is {number}")


@pytest.mark.parametrize("penalty", ["one_hot", "concentration"])
def test_a_penalty_that_is_no_number_is_named(state, batch, penalty):
    chosen = replace(CHOSEN, **{penalty: 1e300}, anneal=1e8)
    assert_stops(state, batch, f"in step 1, epoch 3, the {penalty} penalty is -?inf", chosen)


@pytest.mark.parametrize(
    ("parameter", "change", "message"),
    [
        (
            lambda state: state.network.head[0].weight,
            lambda gradient: gradient.index_fill(0, torch.tensor([1]), float("inf")),
            r"gradient of head\.0\.weight is not finite",
        ),
        (
            lambda state: state.attention,
            lambda gradient: gradient * float("nan"),
            "gradient of the task logits is not finite",
        ),
        # A gradient of finite numbers, whose length overflows.
        (
            lambda state: state.network.head[0].weight,
            lambda gradient: torch.full_like(gradient, 3e38),
            "gradient is too long for its type",
        ),
    ],
)
def test_a_gradient_that_is_no_number_is_named_by_its_parameter(state, batch, parameter, change, message):
    parameter(state).register_hook(change)
    assert_stops(state, batch, f"in step 1, epoch 3, the {message}")


@pytest.mark.parametrize("number", [float("nan"), float("-inf")])
def test_validation_scores_that_are_no_numbers_are_named_by_their_task(small, number):
    dual = task(mtbench.load(small).valid, "dual-tail", "slots")
    scores = torch.zeros(len(dual.triples))
    validate = validation(dual, np.ones(47, dtype=bool), lambda triples: scores, 0.004)
    assert 0 < validate()[0] < 1
    scores[3] = number
    with pytest.raises(DivergenceError, match=r"^training diverged: on metafam.* scores are not finite; .*=0\.0004$"):
        validate()


def test_a_run_that_diverges_is_one_sentence_or_a_failed_result(small, tmp_path):
    settings = {"epochs": "3", "width": "6", "learning_rate": "1e30", "positives": "graph", "batch": "800"}
    plan = Plan("isdea", tmp_path / "run", dataset=str(small), device="cpu", settings=settings)
    with pytest.raises(MtbenchError, match=r"^training diverged: in step \d, epoch 1, the .*learning_rate=1e\+29$"):
        run(plan)
    _, (result,) = run(plan, keep_failures=True)
    assert result.run.status == "failed"
    assert "DivergenceError: training diverged" in result.warnings[0]
