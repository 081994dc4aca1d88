"""Every model on a CUDA device that is only pretended, as it is on the processor: placed right, and the same."""

import shutil
from dataclasses import replace

import gpu
import pytest
import torch
from planned import Plan, run
from pretend import pretended
from resumed import Stop, weights

import mtbench
from mtbench.runs.result import load, verify
from mtbench.training.models import Context
from reference_models import isdea
from reference_models.graphs import operators
from reference_models.graphs.operators import Operator, product
from reference_models.layers.blocks import CELLS, node_blocks

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
CUDA, CPU = torch.device("cuda"), torch.device("cpu")
DOUBLE = {"epochs": "2", "adaptation_epochs": "1", "width": "4", "batch": "1200", "reassign": "false"}
RUNS = {
    "mtdea": DOUBLE | {"tasks": "3", "gin_layers": "2"},
    "mtdea by task": DOUBLE
    | {"tasks": "2", "gin_layers": "1", "adjacency": "tasks", "mean": "normalised", "linear_layers": "perceptron"},
    "isdea": DOUBLE | {"hops": "0"},
    "isdea-homo": DOUBLE,
    "nbfnet-homo": {"epochs": "2", "width": "4", "batch": "1200"},
    "ingram": {"steps": "2", "every": "1", "width": "8"},
    "tally-adapted": {"epochs": "2", "adaptation_epochs": "1", "lists": "40", "masks": "2"},
}


@pytest.fixture
def device():
    with pretended() as found:
        yield found


@pytest.mark.parametrize("model", RUNS)
def test_a_run_that_is_stopped_on_one_device_goes_on_on_the_other(small, tmp_path, device, model, monkeypatch):
    # With the same sums on both: a norm takes its gradient from a bias before it, Adam steps by what rounding leaves.
    monkeypatch.setattr(operators, "BAGS", ())
    for first, then in (("cuda", "cpu"), ("cpu", "cuda")):
        plan = Plan(gpu.MODELS[model.split()[0]], tmp_path / then, dataset=str(small), settings=RUNS[model])
        with pytest.raises(KeyboardInterrupt):
            run(replace(plan, device=first), Stop("train", 2, 0))
        run(replace(plan, device=then))
        assert verify(plan.out).ok
    found, expected = weights(tmp_path / "cuda"), weights(tmp_path / "cpu")
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-5)
    there = load(tmp_path / "cuda").run
    assert there.device == "a pretended device"
    assert 0 < there.peak_memory_bytes <= device.peak


def test_what_a_lent_gpu_is_for_is_done_on_the_pretended_one(small, capsys, tmp_path, monkeypatch, device):
    for name, value in {
        "CHECKED": str(small),
        "GRAPHS": [str(small)],
        "DATASETS": [str(small)],
        "TASKS": [2],
        "NUMBERS": 1 << 12,
        "TIMED": 1,
        "MEASURED": gpu.MEASURED | {"positives": "graph", "batch": "120", "width": "4", "hops": "0"},
        "CELLS": {"isdea": ("isdea", {"epochs": "1", "width": "4", "inverses": "true"})},
        "ORDER": [(1, (0,))],
    }.items():
        monkeypatch.setattr(gpu, name, value)
    out = tmp_path / "results"
    assert gpu.everything(out, 0)
    shutil.rmtree(out)  # it goes on from the archive alone
    assert gpu.everything(out, 60)
    assert all(gpu.kept(out, "steps")[f"{small} K = 2"].values())
    assert list(out.glob("cells/isdea/*/seed0/result.json"))
    said = capsys.readouterr().out.splitlines()
    checked = [line.partition(":")[0] for line in said if "gradients differ" in line]
    assert len(checked) == len({*checked})  # what is done is not done again
    assert {name.split()[0] for name in checked} == {*gpu.MODELS}
    assert said[-1] == "1 of 1 cells that are missing are done"


def test_a_model_that_computes_something_else_there_is_named(small, tmp_path, device, monkeypatch):
    monkeypatch.setattr(gpu, "MODELS", {"isdea": gpu.MODELS["isdea"]})
    right = gpu.first_step
    monkeypatch.setattr(gpu, "first_step", lambda *asked: [part * (1 + (asked[2] == "cuda")) for part in right(*asked)])
    monkeypatch.setattr(gpu, "CHECKED", str(small))
    assert gpu.checks(tmp_path) == {"isdea"}


@pytest.mark.parametrize(
    "fault",
    [
        lambda there: there + torch.ones(4),
        lambda there: there @ torch.ones(4),
        lambda there: there.index_select(0, torch.tensor([1])),
        lambda there: torch.ones(4)[there.long()],
        lambda there: there[0] * torch.ones(4),
        lambda there: torch.ones(4).add_(there),
        lambda there: (
            Operator.from_edges(torch.tensor([0]), torch.tensor([0]), (1, 1), torch.float32) @ there[:1, None]
        ),
    ],
)
def test_tensors_of_two_devices_do_not_go_together(device, fault):
    there = torch.zeros(4, device=CUDA, requires_grad=True)
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu"):
        fault(there)


def test_blocks_are_as_large_as_the_device_takes(device):
    cells = CELLS["cpu"] // 4
    assert len(node_blocks(8, cells, torch.zeros(1).device)) == 2
    assert len(node_blocks(8, cells, torch.zeros(1, device=CUDA).device)) == 1


def test_the_peak_of_memory_is_that_of_the_model_alone(small, device):
    data = mtbench.load(small)

    def peak(width):
        model = isdea.build(Context(data.name, device="cuda", settings=DOUBLE | {"width": str(width)}))
        model.fit(data.train, data.valid)
        return model.peak_memory()

    first, large = peak(4), peak(16)
    assert large > 2 * first
    assert peak(4) < 1.1 * first


def test_a_product_that_the_device_cannot_do_at_once_is_done_by_columns(device, monkeypatch):
    edges = torch.tensor([[0, 1, 1, 2], [3, 0, 2, 2]])
    here = Operator.from_edges(*edges, (3, 4), torch.float32)
    there = Operator.from_edges(*edges.to(CUDA), (3, 4), torch.float32)
    assert there.matrix.col_indices().dtype == there.matrix.crow_indices().dtype == torch.int32
    dense, multiply, widths, limit = torch.randn(4, 7), torch.Tensor.__matmul__, [], 2

    def limited(matrix, dense):
        widths.append(dense.shape[1])
        if dense.shape[1] > limit:
            raise RuntimeError("CUSPARSE_STATUS_INSUFFICIENT_RESOURCES")
        return multiply(matrix, dense)

    monkeypatch.setattr(torch.Tensor, "__matmul__", limited)
    assert torch.equal(product(there.matrix, dense.to(CUDA)).cpu(), multiply(here.matrix, dense))
    assert widths == [7, 4, 2, 2, 3, 2, 1]
    torch.testing.assert_close(product(here.matrix, dense), multiply(here.matrix.to_dense(), dense))
    limit = 0
    with pytest.raises(RuntimeError, match="INSUFFICIENT"):
        product(there.matrix, dense.to(CUDA))


def test_a_step_waits_for_the_device_no_more_often_than_it_did(small, device, monkeypatch):
    monkeypatch.setattr(gpu, "TIMED", 1)
    settings = DOUBLE | {"tasks": "2", "positives": "graph", "batch": "100", "inverses": "true", "hops": "0"}
    assert gpu.Measure().of("mtdea", settings | {"gin_layers": "2"}, mtbench.load(small))["waits"] <= 33
