"""The baselines as ``mtbench run`` trains, stops, continues and records them."""

from dataclasses import replace

import pytest
from planned import Plan, run
from resumed import assert_goes_on, assert_same_run

from mtbench.errors import UsageError
from mtbench.runs.result import load, verify
from reference_models.layers.blocks import one_thread

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")

QUICK = {
    "isdea-homo": {"epochs": "3", "width": "4"},
    "ingram": {"steps": "5", "every": "2", "width": "8", "patience": "9"},
    "deq-ingram": {"steps": "5", "every": "2", "width": "8", "patience": "9", "draws": "3"},
    "nbfnet-homo": {"epochs": "3", "width": "4", "batch": "512"},
    "tally": {"epochs": "3", "width": "4", "masks": "2", "lists": "60", "batch": "20"},
    "tally-adapted": {
        "epochs": "3",
        "width": "4",
        "masks": "2",
        "lists": "60",
        "batch": "20",
        "adaptation_epochs": "2",
    },
}


def plan_for(small, out, model, **settings):
    return Plan(model, out, dataset=str(small), device="cpu", settings={**QUICK[model], **settings})


@pytest.fixture(scope="module")
def uninterrupted(small, tmp_path_factory):
    """Run directories of runs that nobody stopped, made once and with one thread."""
    made = {}

    def get(model):
        if model not in made:
            made[model] = tmp_path_factory.mktemp("uninterrupted") / model
            with one_thread():
                run(plan_for(small, made[model], model))
        return made[model]

    return get


@pytest.mark.parametrize("model", QUICK)
def test_a_run_records_what_it_did_and_is_the_same_again_with_two_threads(
    small, tmp_path, torch, uninterrupted, two_threads, model
):
    info = load(uninterrupted(model)).run
    regime = "test-time-adaptation" if model == "tally-adapted" else "zero-shot"
    assert (info.model, info.regime, info.device) == (model, regime, "cpu")
    assert {key: str(info.hyperparameters[key]) for key in QUICK[model]} == QUICK[model]
    run(plan_for(small, tmp_path / "again", model))
    assert (info.environment["threads"], torch.get_num_threads()) == ("1", 2)
    assert_same_run(tmp_path / "again", uninterrupted(model))


@pytest.mark.parametrize("where", [("train", 2, 1), ("train", 3, 0)], ids=str)
@pytest.mark.parametrize("model", QUICK)
def test_an_interrupted_run_goes_on_to_the_same_end(small, tmp_path, uninterrupted, model, where):
    assert_goes_on(plan_for(small, tmp_path / "run", model), where, uninterrupted(model))


@pytest.mark.parametrize(("model", "source"), [("deq-ingram", "ingram"), ("ingram", "deq-ingram")])
def test_ingram_and_deq_ingram_go_on_from_what_the_other_learned(small, tmp_path, uninterrupted, model, source):
    reports = []
    run(replace(plan_for(small, tmp_path / "run", model), start=uninterrupted(source)), reports.append)
    assert [report for report in reports if report.loss is not None] == []  # nothing is trained
    assert_same_run(tmp_path / "run", uninterrupted(model))


def test_other_steps_are_not_what_deq_ingram_learns_from(small, tmp_path, uninterrupted):
    plan = replace(plan_for(small, tmp_path / "run", "deq-ingram", steps="4"), start=uninterrupted("ingram"))
    with pytest.raises(UsageError, match=r"belongs to another run \(steps: 5 there, 4 here\)"):
        run(plan)


@pytest.mark.parametrize("model", QUICK)
def test_another_seed_is_another_run(small, tmp_path, uninterrupted, model):
    plan = plan_for(small, tmp_path / "run", model)
    run(replace(plan, seed=1))
    assert not load(plan.out).ranks.to_frame().equals(load(uninterrupted(model)).ranks.to_frame())
    assert verify(plan.out).ok
