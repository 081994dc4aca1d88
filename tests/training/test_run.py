from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import thirdparty
import toys
from planned import Plan, run

from mtbench.errors import MtbenchError, UsageError
from mtbench.evaluation import paper
from mtbench.runs.directory import RunDirectory
from mtbench.runs.result import load, verify
from mtbench.settings.table import MAIN, VOCABULARIES, settings_of
from mtbench.training.run import folder_name
from mtbench.training.run import run as carry_out

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


@pytest.fixture(autouse=True)
def module(somebodys_models):
    return somebodys_models


@pytest.fixture
def plan(tmp_path):
    return Plan(f"{thirdparty.NAME}:Hashing", tmp_path / "runs" / "one")


def tree(directory):
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def test_somebodys_model_is_trained_scored_and_kept(module, plan):
    reports = []
    directory, results = run(replace(plan, seed=5, settings={"depth": "2"}), reports.append)
    assert directory == plan.out
    assert verify(directory).ok
    assert tree(directory) == ["ranks.parquet", "result.json"]
    saved = load(directory)
    assert saved.metrics == results[0].metrics
    assert (saved.dataset, saved.split, saved.protocol, saved.vocabulary) == ("toy", "test", "dual", "present")
    info = saved.run
    assert (info.model, info.seed, info.regime, info.device) == ("hashing", 5, "zero-shot", "abacus")
    assert info.hyperparameters == {"width": 3, "depth": "2"}
    assert info.pretraining_graphs == ("toy/train",)
    assert info.wall_seconds >= 0
    assert info.peak_memory_bytes is None or info.peak_memory_bytes > 2**20
    assert list(dict.fromkeys(report.stage for report in reports)) == ["train", "scoring dual-present"]


def test_a_model_that_learned_before_says_from_what_and_where_it_comes_from(plan):
    directory, _ = run(replace(plan, model=f"{thirdparty.NAME}:Ready"))
    info = load(directory).run
    assert info.pretraining_graphs == ("somewhere else", "metafam/train")
    assert (info.url, info.commit) == ("https://example.org/ready", "0a1b2c")


def test_a_model_that_learns_needs_a_training_graph_and_one_that_brings_weights_none(module, plan):
    data = toys.dataset(parts=([], [], toys.TEST, toys.MISSING))
    with pytest.raises(UsageError, match="toy has no training graph, which hashing learns from: take a model that"):
        carry_out(plan, data)
    assert [call[0] for call in module.calls] == ["made"]
    directory, _ = carry_out(replace(plan, model=f"{thirdparty.NAME}:Ready"), data)
    assert verify(directory).ok


def test_a_model_is_told_about_its_run_and_never_sees_a_test_target(module, plan):
    run(replace(plan, seed=2, device="cuda", settings={"depth": "2"}))
    (_, context), (_, train, valid), (_, observable) = module.calls
    assert (context.dataset, context.seed, context.device, context.settings) == ("toy", 2, "cuda", {"depth": "2"})
    assert context.workdir is not None
    toy = toys.dataset()
    assert len(train.targets) == 0
    np.testing.assert_array_equal(train.graph, toy.train.graph)
    np.testing.assert_array_equal(valid.targets, toy.valid.targets)
    np.testing.assert_array_equal(observable.graph, toy.test.graph)
    assert observable.targets.shape == (0, 3)
    assert observable.relation_slots == toy.test.relation_slots


def test_every_protocol_and_vocabulary_is_scored_by_one_training(module, plan):
    directory, results = run(replace(plan, tasks=settings_of(("all",), ("all",)), candidate_seed=3))
    assert [call[0] for call in module.calls] == ["made", "fitted", "applied"]
    pairs = [(protocol, vocabulary) for protocol in MAIN for vocabulary in VOCABULARIES]
    assert [(result.protocol, result.vocabulary) for result in results] == pairs
    below = [directory / f"{protocol}-{vocabulary}" for protocol, vocabulary in pairs[1:]]
    assert sorted(path for path in directory.iterdir() if path.is_dir()) == sorted(below)
    for place, pair in zip([directory, *below], pairs, strict=True):
        saved = load(place)
        assert verify(place).ok
        assert ((saved.protocol, saved.vocabulary), saved.candidate_seed) == (pair, 3)


def test_rankings_against_every_candidate_have_no_seed(plan):
    names = ("full-head", "full", "full-relation")
    directory, results = run(replace(plan, tasks=settings_of(names, ["present"]), candidate_seed=3))
    assert [(result.protocol, result.candidate_seed) for result in results] == [(name, 0) for name in names]
    below = [directory / f"{name}-present" for name in names[1:]]
    assert all(verify(place).ok for place in (directory, *below))
    run(replace(plan, force=True))
    assert tree(directory) == ["ranks.parquet", "result.json"]


def test_the_first_protocol_is_the_headline_and_repeats_count_once(plan):
    directory, results = run(replace(plan, tasks=settings_of(("entity", "dual", "entity"), ("slots", "slots"))))
    assert [(result.protocol, result.vocabulary) for result in results] == [("entity", "slots"), ("dual", "slots")]
    assert load(directory).protocol == "entity"
    assert load(directory / "dual-slots").protocol == "dual"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--protocol duel", "unknown protocol 'duel': did you mean dual"),
        ("--vocabulary presnt", "unknown vocabulary 'presnt': did you mean present"),
        ("--protocol dual --protocol side", "unknown protocol 'side'"),
        ("--protocol all --protocol ful", "unknown protocol 'ful': did you mean full"),
        ("--vocabulary full", "unknown vocabulary 'full'"),
        ("--seed -1", "Input should be greater than or equal to 0"),
        ("--dataset toyy", "unknown dataset or directory 'toyy': did you mean toy"),
    ],
)
def test_a_wrong_name_is_refused_before_anything_is_done(refused, module, plan, words, message):
    assert message in refused("run", plan.model, "--dataset", "toy", "--out", str(plan.out), *words.split())
    assert module.calls == []
    assert not plan.out.parent.exists()


def test_an_unknown_model_is_refused_before_a_dataset_is_built(refused):
    assert "unknown model 'mtdae': did you mean" in refused("run", "mtdae", "--dataset", "nothing")


@pytest.mark.parametrize("name", ["seed", "candidate_seed"])
def test_a_negative_seed_is_refused(plan, name):
    with pytest.raises(UsageError, match=f"^{name} must be a whole number from 0 to {2**63 - 1}, not -1$"):
        replace(plan, **{name: -1})


def test_memory_that_runs_out_after_all_is_scored_is_told(plan, monkeypatch):
    def fail(*_):
        raise MemoryError

    run(plan)
    monkeypatch.setattr(paper, "read_all", fail)
    with pytest.raises(MtbenchError, match="everything is scored, but then MemoryError"):
        run(replace(plan, paper=True))
    assert verify(plan.out).ok
    assert "failure.txt" not in tree(plan.out)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_of_the_papers_settings_keeps_the_run_an_interruption_what_goes_on(plan, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(paper, "read_all", fail)
    with pytest.raises(error):
        run(replace(plan, paper=True))
    assert plan.out.exists() == (error is ValueError)
    if plan.out.exists():
        assert verify(plan.out).ok
        assert tree(plan.out) == ["ranks.parquet", "result.json"]


def test_the_settings_of_the_paper_are_written_on_request(module, plan):
    directory, results = run(
        replace(plan, paper=True, tasks=settings_of(("dual", "entity"), ["present"]), candidate_seed=1)
    )
    assert [call[0] for call in module.calls] == ["made", "fitted", "applied"]
    saved = json.loads((directory / "conventions.json").read_text(encoding="utf-8"))
    assert (saved["dataset"], saved["split"], saved["model"]) == ("toy", "test", "hashing")
    assert saved["content_sha256"] == results[0].content_sha256
    assert list(saved["protocols"]) == ["dual", "entity"]
    for result in results:
        read = saved["protocols"][result.protocol]
        assert [part["convention"] for part in read] == ["standard", "isdea", "ingram", "nbfnet"]
        assert {part["seed"] for part in read} == {1}
        assert read[0]["metrics"] == result.metrics
    run(replace(plan, force=True))
    assert tree(directory) == ["ranks.parquet", "result.json"]


def test_a_model_with_inverses_is_read_among_the_slots_of_the_dictionary_and_among_twice_as_many(plan):
    directory, _ = run(replace(plan, model=f"{thirdparty.NAME}:BothWays", paper=True))
    saved = json.loads((directory / "conventions.json").read_text(encoding="utf-8"))
    found = {part["convention"]: part for part in saved["protocols"]["dual"]}
    assert list(found) == ["standard", "isdea", "isdea-doubled", "ingram", "nbfnet"]
    assert found["isdea"]["candidates_sha256"] != found["isdea-doubled"]["candidates_sha256"]


@pytest.mark.parametrize("restart", [False, True])
def test_an_interrupted_run_leaves_no_run_directory_and_keeps_its_checkpoints_but_for_restart(plan, restart):
    with pytest.raises(KeyboardInterrupt):
        run(replace(plan, model=f"{thirdparty.NAME}:Interrupted"))
    assert not plan.out.exists()
    directory, _ = run(replace(plan, restart=restart))
    assert (directory / "checkpoints").exists() == (directory / "checkpoints" / "state").is_dir() == (not restart)
    assert verify(directory).ok


def test_results_of_an_interrupted_run_that_are_not_asked_for_again_do_not_stay(monkeypatch, plan):
    """Stopped after everything was scored, asked again for less: the run holds what was asked for."""

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "finish", stop)
        with pytest.raises(KeyboardInterrupt):
            run(replace(plan, tasks=settings_of(["dual"], ("all",)), candidate_seed=1))
    directory, _ = run(plan)
    assert tree(directory) == ["ranks.parquet", "result.json"]
    assert load(directory).candidate_seed == 0


def test_an_existing_run_is_refused_and_replaced_on_request(module, plan):
    run(plan)
    before = load(plan.out).run
    with pytest.raises(UsageError, match="one exists already: name another with --out DIR, or replace it with --force"):
        run(replace(plan, seed=1))
    assert load(plan.out).run == before
    assert len(module.calls) == 3
    directory, _ = run(replace(plan, seed=1, force=True))
    assert load(directory).run.seed == 1
    assert sorted(path.name for path in directory.parent.iterdir()) == [".one.lock", "one"]


def test_a_run_is_completed_by_the_tasks_it_lacks(module, plan, tmp_path):
    directory, _ = run(plan)
    before = {path: (directory / path).read_bytes() for path in tree(directory)}
    more = replace(plan, tasks=settings_of(("all",), ("all",)), paper=True)
    _, results = run(more)
    assert [one.setting for one in results] == list(more.tasks)
    assert {path: (directory / path).read_bytes() for path in before} == before
    whole, expected = run(replace(more, out=tmp_path / "whole"))
    assert tree(directory) == tree(whole)
    assert [one.metrics for one in results] == [one.metrics for one in expected]
    read = [json.loads((path / "conventions.json").read_text(encoding="utf-8")) for path in (directory, whole)]
    assert read[0] == read[1]
    with pytest.raises(UsageError, match="one exists already"):
        run(more)
    assert len([what for what, *_ in module.calls if what == "fitted"]) == 3


def test_a_ranking_among_all_is_completed_whatever_the_seed_of_the_candidates(plan):
    run(replace(plan, tasks=settings_of(["full"], ["present"]), candidate_seed=3))
    _, results = run(replace(plan, tasks=settings_of(["full", "dual"], ["present"]), candidate_seed=3))
    assert [result.candidate_seed for result in results] == [0, 3]


def test_the_paper_alone_can_be_what_a_run_lacks(plan):
    run(plan)
    directory, results = run(replace(plan, paper=True))
    assert tree(directory) == ["conventions.json", "ranks.parquet", "result.json"]
    assert len(results) == 1


def test_a_run_of_another_model_is_not_completed(plan):
    directory, _ = run(plan)
    before = tree(directory)
    for other in (replace(plan, model=f"{thirdparty.NAME}:Ready"), replace(plan, settings={"depth": "2"})):
        with pytest.raises(UsageError, match="one holds other ranks than this model gives now: name another with"):
            run(replace(other, tasks=settings_of(["dual"], ("all",))))
    assert tree(directory) == before


def test_an_error_while_a_run_is_completed_costs_it_nothing(module, plan):
    """What lies beside the run are the checkpoints of an interrupted one of another seed."""
    kept = replace(plan, model=f"{thirdparty.NAME}:Kept")
    run(kept)
    with pytest.raises(KeyboardInterrupt):
        run(replace(kept, model=f"{thirdparty.NAME}:Interrupted", seed=1, force=True))
    before = tree(plan.out)
    with pytest.raises(IsADirectoryError):  # as Kept's state is a file and the other model's a directory
        run(replace(kept, paper=True))
    assert tree(plan.out) == before


@pytest.mark.parametrize("damaged", ["{", "[]", '{"protocols": 1}', "\xff"])
def test_damaged_figures_of_the_paper_are_made_again(plan, damaged):
    directory, _ = run(replace(plan, paper=True))
    file = directory / "conventions.json"
    whole = file.read_bytes()
    file.write_bytes(damaged.encode("latin-1"))
    run(replace(plan, paper=True))
    assert file.read_bytes() == whole


def test_what_a_killed_process_was_writing_beside_its_checkpoints_goes(module, plan):
    kept = replace(plan, model=f"{thirdparty.NAME}:Kept")
    (checkpoints := RunDirectory(plan.out).partial.checkpoints).mkdir(parents=True)
    (checkpoints / ".cost.json.77.new").write_text("{", encoding="utf-8")
    directory, _ = run(kept)
    assert tree(directory / "checkpoints") == ["cost.json", "state"]


def test_an_empty_directory_may_become_a_run(plan):
    plan.out.mkdir(parents=True)
    directory, _ = run(plan)
    assert verify(directory).ok


@pytest.mark.parametrize("out", [".", ".."])
def test_the_working_directory_and_its_parent_cannot_become_a_run(module, plan, monkeypatch, tmp_path, out):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(UsageError, match=r"cannot become a run directory: name a new one, as in --out \.*/?run"):
        run(replace(plan, out=Path(out), force=True))
    assert module.calls == []


def test_force_never_deletes_what_is_no_run(module, plan):
    plan.out.mkdir(parents=True)
    (plan.out / "thesis.tex").write_text("dear", encoding="utf-8")
    with pytest.raises(UsageError, match=r"holds more than a run \(thesis\.tex\)"):
        run(replace(plan, force=True))
    file = plan.out / "thesis.tex"
    with pytest.raises(UsageError, match=r"thesis\.tex"):
        run(replace(plan, force=True, out=file))
    assert file.read_text(encoding="utf-8") == "dear"
    assert module.calls == []


def test_a_run_directory_is_named_after_what_was_chosen():
    settings = {"tasks": "4", "batch": "8"}
    assert folder_name(("mtdea", "metafam"), settings, 3) == "mtdea-metafam-batch=8-tasks=4-seed3"
    assert folder_name(("package.module:make", "topics-1/health"), {}, 0) == "package.module-make-topics-1-health-seed0"


def test_a_run_that_another_process_finished_meanwhile_is_not_replaced(monkeypatch, plan):
    """The other process is quicker by the whole run while this one still waits for the directory."""
    alone = RunDirectory.alone

    def after_another(directory):
        monkeypatch.setattr(RunDirectory, "alone", alone)
        run(replace(plan, seed=7))
        return alone(directory)

    monkeypatch.setattr(RunDirectory, "alone", after_another)
    with pytest.raises(UsageError, match="exists already"):
        run(plan)
    assert load(plan.out).run.seed == 7


def test_the_recorded_versions_do_not_load_torch_to_name_it(plan):
    directory, _ = run(plan)
    environment = json.loads((directory / "result.json").read_text(encoding="utf-8"))["environment"]
    assert {"python", "platform", "numpy", "mtbench-kg"} <= set(environment)
