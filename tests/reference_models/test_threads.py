"""Blocks computed side by side: the same numbers, errors and settings as one after the other."""

import threading

import literal
import pytest
import torch
from planned import Plan, run
from resumed import assert_same_run
from test_baselines import QUICK
from torch.utils._python_dispatch import TorchDispatchMode

from mtbench.training.models import names
from reference_models.equivariant.soft import Input, SoftGIN, SoftLinear
from reference_models.ingram import margin_loss
from reference_models.layers import basic, blocks
from reference_models.layers.blocks import in_threads
from reference_models.layers.propagation import LayerNorm

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


def test_layers_give_the_same_bits_with_one_thread_and_with_two(same_bits, monkeypatch):
    graph = literal.random_graph(5, nodes=40, slots=6, edges=300)
    torch.manual_seed(0)
    features, logits = (torch.randn(*shape, dtype=graph.dtype, requires_grad=True) for shape in ((40, 6, 4), (6, 3)))
    gin, linear = SoftGIN(4, 8, 3).to(graph.dtype), SoftLinear(8, 3).to(graph.dtype)
    monkeypatch.setitem(blocks.CELLS, "cpu", 6 * 8 * 4)
    assert len(blocks.node_blocks(40, 6 * 8, CPU)) == 10

    def layers_and_gradients():
        attention = torch.softmax(logits, dim=1)
        out = linear(Input(gin(features, graph.everyone, attention), rectified=True), attention)
        trained = [features, logits, *gin.parameters(), *linear.parameters()]
        return [out, *torch.autograd.grad((out * out).sum(), trained)]

    same_bits(layers_and_gradients)


@pytest.mark.parametrize("model", EQUIVARIANT)
def test_a_whole_run_gives_the_same_bits_with_one_thread_and_with_two(two_threads, monkeypatch, small, tmp_path, model):
    """That of the others is in `test_baselines`."""
    monkeypatch.setitem(blocks.CELLS, "cpu", 1 << 12)
    settings = EQUIVARIANT[model] | {"adaptation_epochs": "1", "width": "8", "batch": "500"}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        run(Plan(model, tmp_path / str(threads), dataset=str(small), device="cpu", settings=settings))
    assert_same_run(tmp_path / "1", tmp_path / "2")


def test_every_model_is_run_with_both():
    assert {*QUICK, *EQUIVARIANT} == {*names()} - {
        "tally-foundation",
        "tally-3g",
        "tally-open",
    }  # which are not trained


DENSE = {"mm", "addmm", "mv", "addmv", "dot", "linear"}
"""Products that threads would share; of many at once, each has one thread."""


class Shared(TorchDispatchMode):
    """Collects the dense products that are asked for where threads would share one."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__.rstrip("_")
        dense = all(one.layout == torch.strided for one in args if isinstance(one, torch.Tensor))
        if name in DENSE and dense and torch.get_num_threads() > 1:
            self.found.append(str(function))
        return function(*args, **kwargs or {})


@pytest.mark.parametrize("model", ["isdea", "mtdea", *QUICK])
def test_no_dense_product_is_shared_by_threads(two_threads, small, tmp_path, model):
    """On some processors the library adds it up in another order then."""
    settings = QUICK.get(model) or {**EQUIVARIANT[model], "adaptation_epochs": "1", "width": "8", "batch": "500"}
    with Shared() as shared:
        torch.ones(2, 2) @ torch.ones(2, 2)
        assert shared.found == ["aten.mm.default"]
        run(Plan(model, tmp_path / "run", dataset=str(small), device="cpu", settings=settings))
    assert shared.found == ["aten.mm.default"]


def test_a_linear_map_by_blocks_of_rows_is_that_of_the_library(monkeypatch):
    monkeypatch.setitem(blocks.CELLS, "cpu", 3 * 6)
    for shape in ((8, 5), (2, 4, 5), (1, 5), (0, 5)):
        inputs = [torch.randn(one, dtype=torch.float64, requires_grad=True) for one in (shape, (6, 5), (6,))]
        torch.testing.assert_close(basic.linear(*inputs), torch.nn.functional.linear(*inputs))
        torch.testing.assert_close(basic.linear(*inputs[:2]), torch.nn.functional.linear(*inputs[:2]))
        torch.autograd.gradcheck(basic.linear, inputs)
        for used in ((0,), (1,), (2,), (0, 2)):
            leaves = [one if place in used else one.detach() for place, one in enumerate(inputs)]
            found, wanted = (
                torch.autograd.grad(made(*leaves).square().sum(), [inputs[place] for place in used])
                for made in (basic.linear, torch.nn.functional.linear)
            )
            for one, two in zip(found, wanted, strict=True):
                torch.testing.assert_close(one, two)


@pytest.mark.parametrize("made", ["norm", "loss", "linear"])
def test_sums_over_many_rows_are_the_same_with_both(same_bits, made):
    torch.manual_seed(0)
    rows = torch.randn(20_000, 11)

    def loss_and_gradients():
        torch.manual_seed(1)
        leaf, layer = rows.clone().requires_grad_(), LayerNorm(11) if made == "norm" else basic.Linear(11, 11)
        loss = margin_loss(leaf, 1.0) if made == "loss" else (layer(leaf) * rows).square().sum(dim=0).sum()
        loss.backward()
        return [loss, leaf.grad, *(one.grad for one in layer.parameters() if made != "loss")]

    same_bits(loss_and_gradients)
