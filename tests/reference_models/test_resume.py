"""A run is decided by its options and its seed, however often it is stopped on the way."""

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from planned import Plan, run
from resumed import Stop, assert_goes_on, assert_same_run, weights

import mtbench
import reference_models
from mtbench.errors import CorruptedFileError, MtbenchError, UsageError
from mtbench.runs.result import load, verify
from mtbench.settings.table import settings_of
from mtbench.training.models import Context
from reference_models import mtdea
from reference_models.training.loop import State

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
QUICK = {
    "epochs": "3",
    "adaptation_epochs": "2",
    "width": "8",
    "tasks": "3",
    "learning_rate": "0.001",
    "positives": "targets",
}


def plan_for(small, out, model="mtdea", **options):
    settings = {**QUICK, **options.pop("settings", {})}
    return Plan(model, out, dataset=str(small), device="cpu", settings=settings, **options)


@pytest.fixture(scope="module")
def uninterrupted(small, tmp_path_factory):
    """Run directories of runs that nobody stopped, by what positives they train on; made once."""
    made = {}

    def get(positives):
        if positives not in made:
            out = tmp_path_factory.mktemp("uninterrupted") / positives
            run(plan_for(small, out, settings=chosen(positives)))
            made[positives] = out
        return made[positives]

    return get


def chosen(positives):
    return {
        "targets": {},
        # On the graph's 2188 edges an epoch has three batches.
        "graph": {"positives": "graph", "batch": "800"},
        "reassign": {"reassign": "true", "tasks": "2"},
    }[positives]


def test_another_seed_gives_other_weights(small, tmp_path, uninterrupted):
    run(plan_for(small, tmp_path / "other", seed=1))
    ours, theirs = weights(tmp_path / "other"), weights(uninterrupted("targets"))
    for name in ("train-finished.safetensors/weights.head.0.weight", "adapt-finished.safetensors/weights.attention"):
        assert not torch.equal(ours[name], theirs[name])


def test_the_same_seed_gives_the_same_bits_and_the_callers_generators_are_left_alone(small, tmp_path, uninterrupted):
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002
    before, legacy = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    run(plan_for(small, tmp_path / "again"))
    assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], legacy)  # noqa: NPY002
    assert_same_run(tmp_path / "again", uninterrupted("targets"))


@pytest.mark.parametrize(
    ("positives", "where"),
    [
        ("targets", ("train", 1, 0)),
        ("targets", ("train", 3, 1)),
        ("targets", ("adapt", 2, 3)),
        ("graph", ("train", 2, 2)),
        ("graph", ("adapt", 2, 1)),
        ("reassign", ("train", 3, 0)),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value)),
)
def test_an_interrupted_run_goes_on_to_the_same_end(small, tmp_path, uninterrupted, positives, where):
    plan = plan_for(small, tmp_path / "run", settings=chosen(positives))
    assert_goes_on(plan, where, uninterrupted(positives))
    assert not (tmp_path / ".run.partial").exists()


def test_a_run_may_be_stopped_again_and_again(small, tmp_path, uninterrupted):
    plan = plan_for(small, tmp_path / "run")
    for where in (("train", 2, 0), ("train", 3, 0), ("adapt", 1, 0), ("adapt", 2, 0)):
        with pytest.raises(KeyboardInterrupt):
            run(plan, Stop(*where))
    run(plan)
    assert_same_run(plan.out, uninterrupted("targets"))


@pytest.fixture(scope="module")
def stopped(small, tmp_path_factory):
    """Return the function that leaves a folder as a run leaves it that is stopped somewhere, and the run's plan."""
    made = {}

    def leave(tmp_path, where=("train", 3, 0)):
        if where not in made:
            made[where] = tmp_path_factory.mktemp("stopped")
            with pytest.raises(KeyboardInterrupt):
                run(plan_for(small, made[where] / "run"), Stop(*where))
        shutil.copytree(made[where] / ".run.partial", tmp_path / ".run.partial")
        return plan_for(small, tmp_path / "run"), tmp_path / ".run.partial" / "checkpoints"

    return leave


def truncate(path):
    path.write_bytes(path.read_bytes()[:-20])


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def change(**values):
    def edit(path):
        payload = json.loads(path.read_text(encoding="utf-8"))
        for key, value in values.items():
            if value is None:
                del payload[key]
            else:
                payload[key] = value
        path.write_text(json.dumps(payload), encoding="utf-8")

    return edit


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("train-0002.safetensors", truncate),
        ("train-0002.safetensors", flip_a_bit),
        ("train-0002.safetensors", lambda path: path.unlink()),
        ("train.json", truncate),
        ("train.json", lambda path: path.write_text("[]", encoding="utf-8")),
        ("train.json", change(schema=99)),
        ("train.json", change(epoch=1)),
        ("train.json", change(best_value=0.9)),
        ("train.json", change(identity=None)),
        ("train.json", change(weights="gone.safetensors")),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_name_and_discarded_on_request(
    tmp_path, stopped, uninterrupted, name, damage
):
    plan, checkpoints = stopped(tmp_path)
    damage(checkpoints / name)
    with pytest.raises(CorruptedFileError, match=r"train\.json: .*; discard it with --restart$"):
        run(plan)
    assert not plan.out.exists()
    if name.endswith("safetensors"):
        run(replace(plan, restart=True))
        assert_same_run(plan.out, uninterrupted("targets"))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"settings": {"width": "16"}}, r"\(width: 8 there, 16 here\)"),
        ({"settings": {"learning_rate": "0.01", "mask": "none"}}, r"learning_rate: 0.001 there, 0.01 here; mask: trip"),
        ({"seed": 4}, r"\(seed: 0 there, 4 here\)"),
        ({"model": "isdea", "settings": {"tasks": "1"}}, "model: mtdea-k3 there, isdea here"),
    ],
)
def test_a_checkpoint_of_other_options_is_refused_by_what_differs(small, tmp_path, stopped, other, message):
    stopped(tmp_path)
    plan = plan_for(small, tmp_path / "run", **other)
    with pytest.raises(UsageError, match=message) as refused:
        run(plan)
    assert "--restart" in str(refused.value)
    assert not plan.out.exists()


@pytest.mark.parametrize(("shown", "there"), [("hidden.weight: absent there", None), ("head.0.weight", (2, 2))])
def test_a_checkpoint_of_a_network_that_was_built_differently_is_refused_by_layer(
    tmp_path, stopped, monkeypatch, shown, there
):
    """The package changed between two processes: the options are the same, the network is not."""
    plan, _ = stopped(tmp_path)
    weights = State.weights

    def changed(state):
        found = weights(state)
        return found | ({"hidden.weight": torch.ones(1)} if there is None else {"head.0.weight": torch.ones(there)})

    monkeypatch.setattr(State, "weights", changed)
    with pytest.raises(UsageError, match=rf"built differently \({shown}.*here\).*--restart"):
        run(plan)


@pytest.mark.parametrize("name", ["train.pt", "best.PTH", "model.pkl"])
def test_a_pickled_checkpoint_is_refused_by_name_and_never_opened(tmp_path, stopped, name):
    plan, checkpoints = stopped(tmp_path)
    (checkpoints / name).write_bytes(b"cos\nsystem\n(S'touch opened'\ntR.")
    with pytest.raises(UsageError, match=rf"{name} is a pickled checkpoint, which is never loaded"):
        run(plan)
    assert not list(tmp_path.rglob("opened"))
    run(replace(plan, restart=True))
    assert verify(plan.out).ok


def test_the_reference_models_neither_write_nor_read_pickles():
    for path in Path(reference_models.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not names & {"pickle", "joblib", "dill", "cloudpickle", "shelve", "marshal"}, path
        calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
        assert not {"torch.load", "torch.save", "np.load"} & set(calls), path


def test_the_memory_that_a_network_asks_for_and_does_not_get_is_a_result(small, tmp_path):
    directory, (result,) = run(plan_for(small, tmp_path / "run", "isdea", settings={"tasks": "1", "width": f"{2**23}"}))
    assert (result.run.status, load(directory).run.status) == ("oom", "oom")
    assert "memory" in result.warnings[0]


def test_the_cost_of_a_resumed_run_is_that_of_both_processes(tmp_path, stopped):
    plan, checkpoints = stopped(tmp_path)
    file = checkpoints / "cost.json"
    assert json.loads(file.read_text(encoding="utf-8"))["seconds"] > 0
    file.write_text(json.dumps({"seconds": 7000, "peak": None}), encoding="utf-8")
    run(plan)
    assert 7000 < load(plan.out).run.wall_seconds < 8000


def stages(reports):
    """Return the stages of training among what a run reported."""
    return {report.stage for report in reports if report.loss is not None}


def test_a_run_that_goes_on_tells_the_threads_of_every_stage(small, tmp_path, two_threads):
    def told(*stops):
        out = tmp_path / "-".join(map(str, stops)) / "run"
        for number, stop in enumerate(stops):
            torch.set_num_threads(number % 2 + 1)
            with pytest.raises(KeyboardInterrupt):
                run(plan_for(small, out), Stop(*stop))
        torch.set_num_threads(2)
        run(plan_for(small, out))
        return load(out).run.environment["threads"]

    assert told(("adapt", 1, 0)) == "train 1; adapt 2; scoring 2"
    assert told(("train", 2, 0), ("train", 3, 0), ("adapt", 2, 0)) == "train 1 and 2; adapt 1 and 2; scoring 2"


def test_restart_trains_anew(tmp_path, stopped):
    plan, _ = stopped(tmp_path)
    reports = []
    run(replace(plan, settings={**plan.settings, "width": "4"}, restart=True), reports.append)
    assert (reports[0].stage, reports[0].epoch) == ("train", 1)
    assert load(plan.out).run.hyperparameters["width"] == 4


def test_a_finished_training_is_not_repeated_for_more_tasks(tmp_path, stopped):
    plan, _ = stopped(tmp_path, where=("adapt", 1, 0))
    reports = []
    run(replace(plan, tasks=settings_of(("all",), ("all",))), reports.append)
    assert stages(reports) == {"adapt"}
    assert len([path for path in plan.out.rglob("result.json") if verify(path.parent).ok]) == 6


def test_what_a_run_learned_is_scored_again_without_training(small, tmp_path, uninterrupted):
    seen = []
    plan = plan_for(small, tmp_path / "again", tasks=settings_of(("entity",), ["present"]))
    run(replace(plan, start=uninterrupted("targets")), seen.append)
    assert stages(seen) == set()
    trained = plan_for(small, tmp_path / "trained", tasks=settings_of(("entity",), ["present"]))
    run(trained)
    assert_same_run(plan.out, trained.out)
    with pytest.raises(UsageError, match=r"\(seed: 0 there, 1 here\)"):
        run(replace(plan, out=tmp_path / "other", seed=1, start=uninterrupted("targets")))
    with pytest.raises(UsageError, match="holds no checkpoints: name the directory"):
        run(replace(plan, out=tmp_path / "none", start=tmp_path))


def test_a_dataset_with_the_same_training_graph_takes_over_the_training_and_adapts_itself(
    small, tmp_path, uninterrupted
):
    mtbench.build("metafam", seed=3, train_trees=4, test_trees=3, out=tmp_path / "sibling")
    seen, trained = [], []
    plan = plan_for(tmp_path / "sibling", tmp_path / "taken")
    run(replace(plan, start=uninterrupted("targets")), seen.append)
    run(replace(plan, out=tmp_path / "trained"), trained.append)
    assert stages(seen) == {"adapt"}
    assert stages(trained) == {"train", "adapt"}
    assert_same_run(tmp_path / "taken", tmp_path / "trained")


def test_an_unfinished_adaptation_to_another_graph_is_refused(tmp_path, stopped):
    stopped(tmp_path, where=("adapt", 2, 0))
    mtbench.build("metafam", seed=3, train_trees=4, test_trees=3, out=tmp_path / "sibling")
    with pytest.raises(UsageError, match=r"test_trees=2\] there, metafam\[seed=3,train_trees=4,test_trees=3\] here"):
        run(plan_for(tmp_path / "sibling", tmp_path / "run"))


def test_without_a_working_directory_nothing_is_written(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = mtbench.load(small)
    before = sorted(tmp_path.rglob("*"))
    model = mtdea.build(Context("metafam", device="cpu", settings={**QUICK, "epochs": "1"}))
    model.fit(data.train, data.valid)
    triples = data.test.targets
    assert model.scorer(data.test.observable())(triples).shape == (len(triples),)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_that_cannot_be_written_is_one_clear_error(small, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    data = mtbench.load(small)
    model = mtdea.build(Context("metafam", device="cpu", workdir=tmp_path / "file" / "below", settings=QUICK))
    with pytest.raises(MtbenchError, match=r"cannot write .*below"):
        model.fit(data.train, data.valid)


WAITS = """
import threading
from dataclasses import replace
from reference_models import mtdea

def build(context):
    def report(progress):
        context.report(progress)
        if (progress.stage, progress.epoch) == ("train", 3):
            threading.Event().wait()

    return mtdea.build(replace(context, report=report))
"""


def wait_for(path, process):
    """Return once a file is there; fail if the process ends first or takes more than ten minutes."""
    deadline = time.monotonic() + 600
    while not path.exists():
        try:
            process.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            assert time.monotonic() < deadline, "no checkpoint appeared"
        else:
            pytest.fail(f"ended with {process.returncode}: {process.communicate()}")


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", ["SIGINT", "SIGKILL"])
def test_a_process_that_is_stopped_leaves_a_run_that_goes_on(small, tmp_path, uninterrupted, number):
    """It is stopped somewhere in its second epoch, or at the latest before the third, where it waits for that."""
    (tmp_path / "waits.py").write_text(WAITS, encoding="utf-8")
    where = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    plan = plan_for(small, tmp_path / "run")
    options = [part for key, value in plan.settings.items() for part in ("--set", f"{key}={value}")]
    command = ["run", "waits:build", "--dataset", str(small), "--device", "cpu", "--out", str(plan.out), *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "mtbench", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": where},
        # A test run in the background of a shell would hand on that SIGINT is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        wait_for(tmp_path / ".run.partial" / "checkpoints" / "train.json", process)
        process.send_signal(getattr(signal, number))
        printed, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert printed == ""
    if number == "SIGINT":
        assert process.returncode == 130
        assert errors.startswith("error: interrupted; the same command goes on")
        assert errors.count("\n") == 1
    else:
        assert process.returncode == -signal.SIGKILL
    assert not plan.out.exists()
    reports = []
    run(plan, reports.append)
    assert (reports[0].stage, reports[0].epoch) in [("train", 2), ("train", 3)]
    assert_same_run(plan.out, uninterrupted("targets"))
