"""Blocks computed side by side: the same numbers, errors and settings as one after the other."""

from __future__ import annotations

import threading

import literal
import pytest
import torch
from resumed import assert_same_run
from test_baselines import QUICK

from mtbench.experiments.models import names
from mtbench.experiments.run import Plan, run
from reference_models.equivariant.linear import SoftLinear
from reference_models.equivariant.soft import Input, SoftGIN
from reference_models.layers import blocks
from reference_models.layers.pna import LayerNorm
from reference_models.layers.threads import in_threads
from reference_models.training.ingram import margin_loss

CPU = torch.device("cpu")
EQUIVARIANT = {
    "isdea": {"epochs": "2", "gin_layers": "2"},
    "mtdea": {"epochs": "2", "gin_layers": "2"},
    "mtdea-search": {"epochs": "1", "gin_layers": "1"},
}


def test_results_come_in_order_from_workers_with_one_thread_each(two_threads):
    met = threading.Barrier(2)

    def call(index: int) -> tuple[int, str, int]:
        met.wait(timeout=60)  # two calls are under way at once
        return index, threading.current_thread().name, torch.get_num_threads()

    found = list(in_threads(call, 8, CPU))
    assert [index for index, _, _ in found] == list(range(8))
    assert len({name for _, name, _ in found}) == 2
    assert {threads for _, _, threads in found} == {1}
    assert torch.get_num_threads() == 2


def test_with_one_thread_the_caller_works(two_threads):
    torch.set_num_threads(1)
    names = set(in_threads(lambda index: threading.current_thread().name, 4, CPU))
    assert names == {threading.current_thread().name}


@pytest.mark.parametrize("graded", [True, False])
def test_gradients_are_recorded_as_outside(two_threads, graded):
    with torch.set_grad_enabled(graded):
        assert set(in_threads(lambda index: torch.is_grad_enabled(), 4, CPU)) == {graded}


def test_an_error_ends_it_and_what_has_not_begun_is_dropped(two_threads):
    begun, gate = [], threading.Event()

    def call(index: int) -> int:
        begun.append(index)
        if index == 1:
            raise ValueError("block 1")
        if index > 1:
            assert gate.wait(timeout=60)
        return index

    with pytest.raises(ValueError, match="block 1"):
        list(in_threads(call, 20, CPU))
    gate.set()
    assert list(in_threads(lambda index: index, 3, CPU)) == [0, 1, 2]
    assert set(begun) <= {0, 1, 2, 3}


def test_layers_give_the_same_bits_with_one_thread_and_with_two(two_threads, monkeypatch):
    graph = literal.random_graph(5, nodes=40, slots=6, edges=300)
    torch.manual_seed(0)
    features, logits = (torch.randn(*shape, dtype=graph.dtype, requires_grad=True) for shape in ((40, 6, 4), (6, 3)))
    gin, linear = SoftGIN(4, 8, 3).to(graph.dtype), SoftLinear(8, 3).to(graph.dtype)
    monkeypatch.setitem(blocks.CELLS, "cpu", 6 * 8 * 4)
    assert len(blocks.node_blocks(40, 6 * 8, CPU)) == 10
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        attention = torch.softmax(logits, dim=1)
        out = linear(Input(gin(features, graph.everyone, attention), rectified=True), attention)
        trained = [features, logits, *gin.parameters(), *linear.parameters()]
        found.append([out, *torch.autograd.grad((out * out).sum(), trained)])
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


@pytest.mark.parametrize("model", EQUIVARIANT)
def test_a_whole_run_gives_the_same_bits_with_one_thread_and_with_two(two_threads, monkeypatch, small, tmp_path, model):
    """That of the others is in `test_baselines`."""
    monkeypatch.setitem(blocks.CELLS, "cpu", 1 << 12)
    settings = EQUIVARIANT[model] | {"adaptation_epochs": "1", "width": "8", "batch": "500"}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        run(Plan(model, str(small), device="cpu", settings=settings, out=tmp_path / str(threads)))
    assert_same_run(tmp_path / "1", tmp_path / "2")


def test_every_model_is_run_with_both():
    assert {*QUICK, *EQUIVARIANT} == {*names()} - {"tally-foundation"}  # which is not trained


@pytest.mark.parametrize("made", ["norm", "loss"])
def test_sums_over_many_rows_are_the_same_with_both(two_threads, made):
    torch.manual_seed(0)
    rows, found = torch.randn(20_000, 11), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        norm, leaf = LayerNorm(11), rows.clone().requires_grad_()
        loss = margin_loss(leaf, 1.0) if made == "loss" else (norm(leaf) * rows).square().sum(dim=0).sum()
        loss.backward()
        found.append([loss, leaf.grad, *(one.grad for one in norm.parameters() if made == "norm")])
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))
