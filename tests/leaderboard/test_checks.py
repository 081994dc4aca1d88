"""Every forgery somebody may try is refused by name; what is merely incomplete or old is a remark."""

import json
import os
import pickle
import re
import shutil
from pathlib import Path

import forging
import numpy as np
import pyarrow as pa
import pytest
from forging import copy_entry, edit, edit_all, edit_card, edit_ranks, read, write, write_ranks
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from ranking_toys import hashed, random_split

from leaderboard.entries import cards, checks, entries, verified
from leaderboard.entries.cards import Problem, plain, skeleton, unplain
from leaderboard.entries.checks import check, gather
from leaderboard.entries.runs import Shown, fingerprint, may_name_targets, shaped
from leaderboard.entries.verified import verified_by
from mtbench.errors import ResultError
from mtbench.evaluation.tasks import GIVEN, NOT_ASKED, evaluate
from mtbench.files.hashing import file_hash
from mtbench.files.reading import read_json
from mtbench.ranking.ranks import Counts, Ranks
from mtbench.runs import result as results
from mtbench.runs.directory import missing_of
from mtbench.runs.origin import RunInfo

SCRIPT = "<script>alert(1)</script>"
FILES = ("result.json", "history.json", "conventions.json", "tasks.json")
every_file = pytest.mark.parametrize("name", FILES)


@pytest.fixture
def entry(tmp_path):
    """One seed of a published entry."""
    return copy_entry(tmp_path / "entries", seeds=(0,))


@pytest.fixture
def second(entry):
    """The second seed of the entry, for what takes two."""
    copy_entry(entry.parent, seeds=(1,))
    return entry / "metafam" / "seed1"


@pytest.fixture
def run(entry):
    return entry / "metafam" / "seed0"


def problems(entry, *others):
    """Return the problems of an entry by name, after the rules every one of them keeps."""
    found = [one for one in check(entry, others) if not one.remark]
    for one in found:
        assert re.fullmatch("[a-z0-9_.]+", one.name), one.name
        assert one.where.split("/")[0] == plain(entry.name)
        assert str(entry.parent) not in one.message
        assert plain(str(one)) == str(one)
    return {one.name: one for one in reversed(found)}


def remarks(entry):
    return {one.name: one for one in check(entry) if one.remark}


def test_a_copy_of_an_entry_holds_without_the_others(entry):
    assert problems(entry) == {}


@pytest.mark.parametrize("name", ["metrics", "optimistic", "pessimistic", "chance"])
def test_a_forged_metric(entry, run, name):
    values = read(run / "result.json")[name]
    edit(run / "result.json", **{name: values | {"mrr": values["mrr"] + 1e-4}})
    found = problems(entry)
    assert found[name].where == "isdea/metafam/seed0"
    assert f"{name} mrr is {values['mrr'] + 1e-4}, the counts give {values['mrr']}" in found[name].message


OTHER = {"mr": 3.0, "mrr": 1.1, "hits@1": 0.5, "hits@3": 0.5, "hits@5": 0.5, "hits@10": 0.5}


@pytest.mark.parametrize(
    ("place", "changes", "name", "message"),
    [
        ("", {"tie_rate": 0.0}, "tie_rate", "tie_rate is 0.0, the counts give 0.6684782608695652"),
        ("relation-slots", {"tie_rate": 0.5}, "tie_rate", "tie_rate is 0.5, the counts give"),
        ("", {"content_sha256": "0" * 64}, "content_sha256", "made on other data than metafam 1.0.0"),
        ("", {"candidates_sha256": "0" * 64}, "candidates_sha256", "candidates test/dual/present/0 are published with"),
        ("", {"candidate_seed": 1}, "candidates_sha256", "candidates test/dual/present/1 are published with the hash"),
        ("", {"candidate_seed": 17}, "candidate_seed", "candidates 17: run with --candidate-seed 0"),
        ("", {"split": "valid"}, "split", "scored on 'valid'"),
        ("", {"dataset": "metafam[seed=1]"}, "dataset", "'metafam[seed=1]' is no released dataset"),
        ("", {"dataset": "../../etc/passwd"}, "dataset", "'../../etc/passwd' is no released dataset"),
        ("", {"schema": 1}, "schema", "written with another schema than 2, alone read here: evaluate again"),
        ("", {"evaluator_version": "1"}, "evaluator_version", "evaluator_version is '1', expected '2'"),
        ("", {"evaluator_version": "\u0660"}, "evaluator_version", "expected '2'"),
        ("", {"asked": {"both": "score(triples)"}}, "shape", "asked"),
        ("", {"asked": {"tail": "score(triples)", "head": "a trick"}}, "shape", "asked"),
        ("", {"asked_again": "the same, believe me"}, "shape", "asked_again must be"),
        ("", {"asked_again": "the same within rounding: 1e-7 apart or so"}, "shape", "asked_again must be"),
        ("dual-slots", {"asked_again": NOT_ASKED}, "asked_again", "in other batches: leave out ask_again=False"),
        ("entity-slots", {"model": "ingram"}, "run", "model of entity-slots is not that of the run: 'ingram'"),
        ("", {"hyperparameters": {"recipe": "as-run"}}, "as_run", "trains with what is asked in sight"),
        ("", {"hyperparameters": {"mask": "none"}}, "as_run", "trains with what is asked in sight"),
        ("", {"metrics": OTHER}, "shape", "metrics must be "),
        ("", {"optimistic": OTHER | {"mrr": -0.1}}, "shape", "optimistic must be "),
        ("", {"floors": {"random": OTHER | {"mrr": 0.5, "mr": 0.5}}}, "shape", "floors must be "),
        ("", {"wall_seconds": 0}, "wall_seconds", "wall_seconds is 0.0, in which nothing scores 184 triples"),
        ("", {"wall_seconds": 0.001}, "wall_seconds", "in which nothing scores 184 triples: run it again"),
        ("", {"wall_seconds": -1}, "shape", "wall_seconds must be"),
        ("", {"wall_seconds": float("inf")}, "json", "Infinity is not a number"),
    ],
)
def test_a_result_that_says_what_is_not_so(entry, run, place, changes, name, message):
    edit(run / place / "result.json", **changes)
    found = problems(entry)[name]
    assert message in found.message
    assert found.where.startswith(
        "isdea/metafam/seed0" if name == "run" else f"isdea/metafam/seed0/{place}".rstrip("/")
    )


def test_what_is_missing_is_named_and_all_problems_are_told_at_once(entry, run):
    edit_all(entry, regime="supervised")
    (entry / "readme.html").touch()
    (run / "ranks.parquet").unlink()
    (run / "dual-slots" / "result.json").unlink()
    found = problems(entry)
    assert "is supervised, the card says zero-shot" in found["regime"].message
    assert found["missing"].where == "isdea/metafam/seed0/ranks.parquet"
    assert "unexpected" in found
    (run / "result.json").unlink()
    assert problems(entry)["missing"].where == "isdea/metafam/seed0"
    shutil.rmtree(entry / "metafam")
    assert "mtbench submit lays them out" in problems(entry)["empty"].message


@pytest.mark.parametrize("rehash", [False, True])
def test_edited_ranks_are_not_those_of_the_result_and_do_not_give_its_figures(entry, run, rehash):
    edit_ranks(run, rehash=rehash, tail_greater=lambda values: [0] * len(values))
    expected = {"metrics"} if rehash else {"metrics", "ranks_sha256"}
    assert {"ranks_sha256", "metrics", "conventions"} & set(problems(entry)) == expected


@pytest.mark.parametrize("value", [-1, 10**9, 2**31 - 1])
def test_impossible_counts(entry, run, value):
    edit_ranks(run, rehash=True, tail_greater=lambda values: [value, *values[1:]])
    assert {"counts", "ranks"} & set(problems(entry))


def test_a_forged_standard_beside_the_result(entry, run):
    payload = read(run / "conventions.json")
    payload["protocols"]["dual"][0]["metrics"]["mrr"] = 0.9
    write(run / "conventions.json", payload)
    assert "the standard of dual has mrr 0.9, the result 0.35786686417829605" in problems(entry)["conventions"].message


@pytest.mark.parametrize("key", ["content_sha256", "model", "seed", "dataset", "split", "dataset_version"])
def test_settings_of_another_run(entry, run, key):
    value = "fbnell" if key == "dataset" else 1 if key == "seed" else "0" * 64
    edit(run / "conventions.json", **{key: value})
    assert f"{key} is {value!r}" in problems(entry)["conventions"].message


def test_a_copy_of_another_entry(tmp_path, entry):
    other = copy_entry(tmp_path / "entries", name="mine")
    found = problems(other, entry)
    assert found["copy"].where == "mine/metafam/seed0"
    assert re.search("the ranks of .*dual-present.* are those of isdea/metafam/seed0", found["copy"].message)
    assert problems(other) == {}


def test_a_copy_is_found_under_another_seed_without_its_names_and_in_another_order(tmp_path, entry):
    other = copy_entry(tmp_path / "entries", name="mine", seeds=(0,))
    other.joinpath("metafam", "seed0").rename(other / "metafam" / "seed7")
    for path in sorted(other.rglob("ranks.parquet")):
        table = parquet.read_table(path).drop_columns(["head", "relation", "tail"])
        write_ranks(path.parent, table.take(pa.array(np.random.default_rng(0).permutation(len(table)))))
    edit_all(other, seed=7)
    edit(other / "metafam" / "seed7" / "conventions.json", seed=7)
    found = problems(other, entry)
    assert set(found) == {"copy", "name"}
    assert "are those of isdea/metafam/seed0" in found["copy"].message


@pytest.mark.parametrize("older", [True, False])
@pytest.mark.parametrize("model", ["isdea", "mine"])
def test_a_copy_does_not_unrank_what_it_is_of(entry, model, older):
    """The owner is what the maintainers ran."""
    mine = copy_entry(entry.parent, name="mine", seeds=(0,))
    edit_all(mine, model=model)
    edit(mine / "metafam" / "seed0" / "conventions.json", model=model)
    edit_card(mine, 'model = "isdea"', f'model = "{model}"')
    edit_card(mine, 'name = "ISDEA"', 'name = "Mine"')
    edit_card(entry.parent / ("isdea" if older else "mine"), 'date = "2026', 'date = "2025')
    _, wrong = gather(entry.parent)
    (copier,) = wrong
    assert copier == "mine"  # the maintainers ran isdea, whatever a date says
    assert "the ranks of dual-present" in str(wrong[copier])


@pytest.mark.parametrize(("changed", "told"), [(0, False), (1, True), (20, False)])
def test_a_near_copy_is_a_problem_of_it_alone_until_its_card_says_why(entry, changed, told):
    other = copy_entry(entry.parent, name="mine", seeds=(0,))

    def elsewhere(greater):
        return [abs(value - 1) if place < changed else value for place, value in enumerate(greater)]

    edit_ranks(other / "metafam" / "seed0", rehash=True, tail_greater=elsewhere)
    found = {one.name: one.message for one in check(other, [entry]) if not one.remark}
    assert ("near_copy" in found) == told
    if told:
        assert "all but 1 of 184 ranks of dual-present are those of isdea/metafam/seed0" in found["near_copy"]
        edit_card(other, 'name = "', 'alike = "The same network."\nname = "')
        assert [one.remark for one in check(other, [entry]) if one.name == "near_copy"] == [True]
    assert [one.name for one in check(entry, [other]) if one.name in ("copy", "near_copy")] == []


def test_targets_with_fewer_candidates_than_elsewhere(entry):
    other = copy_entry(entry.parent, name="mine", seeds=(0,))
    assert "numbers" not in problems(other, entry)
    none = dict.fromkeys(("tail_greater", "tail_equal", "tail_count"), lambda values: [0] * len(values))
    edit_ranks(other / "metafam" / "seed0" / "entity-present", **none)
    expected = "the targets of entity-present have other numbers of candidates than in isdea/metafam/seed0"
    assert expected in problems(other, entry)["numbers"].message
    assert "numbers" not in problems(entry, other)


def test_what_finished_is_of_one_model_whatever_the_first_result_says(entry, run):
    empty = {key: {} for key in ("metrics", "optimistic", "pessimistic", "chance", "floors")}
    edit(run / "result.json", **empty, status="failed", ranks_sha256=None, tie_rate=None, model="?", regime="trained")
    (run / "ranks.parquet").unlink()
    assert "run" not in problems(entry)
    edit(run / "entity-slots" / "result.json", model="ingram")
    assert "model of entity-slots is not that of the run: 'ingram'" in problems(entry)["run"].message
    for folder in ("dual-slots", "entity-present", "entity-slots", "relation-present", "relation-slots"):
        edit(run / folder / "result.json", model="isdea", regime="test-time-adaptation")
    assert problems(entry)["regime"].message.startswith("is test-time-adaptation, the card says ")


def test_a_run_that_is_said_to_have_failed_has_no_figures(entry, run):
    edit_all(run, status="failed")
    assert "status is 'failed', but there are figures" in problems(entry)["status"].message


def test_a_part_that_did_not_finish_is_lacking(entry, run):
    empty = {key: {} for key in ("metrics", "optimistic", "pessimistic", "chance", "floors")}
    edit(run / "dual-slots" / "result.json", **empty, status="oom", ranks_sha256=None, tie_rate=None)
    (run / "dual-slots" / "ranks.parquet").unlink()
    assert "lacks dual-slots" in remarks(entry)["incomplete"].message


def test_nobody_stands_for_figures_without_weights_or_a_rebuild(entry, monkeypatch):
    mine = copy_entry(entry.parent, name="mine", seeds=(0,))
    assert verified_by(entries.load(entry), "metafam") == "maintainers"
    assert verified_by(entries.load(mine), "metafam") == ""
    known = {"mine": {"metafam seed 0": file_hash(mine / "metafam" / "seed0" / "ranks.parquet")}}
    monkeypatch.setattr(verified, "rescored_ranks", lambda: known)
    assert verified_by(entries.load(mine), "metafam") == "weights"
    copy_entry(entry.parent, name="mine", seeds=(1,))
    assert verified_by(entries.load(mine), "metafam") == ""
    edit_card(mine, 'regime = "zero-shot"', 'regime = "zero-shot"\nretrained = true')
    assert "which only the maintainers say" in problems(mine)["retrained"].message


def test_one_run_as_several_seeds_is_a_remark_only_of_a_model_without_randomness(entry):
    for seed in (1, 2):
        again = entry / "metafam" / f"seed{seed}"
        shutil.copytree(entry / "metafam" / "seed0", again)
        for path in (*sorted(again.rglob("result.json")), again / "conventions.json"):
            edit(path, seed=seed)
    wrong = [one for one in check(entry) if one.name == "copy"]
    assert [(one.where, one.remark) for one in wrong] == [(f"isdea/metafam/seed{seed}", False) for seed in (1, 2)]
    assert "adaptation_epochs" not in wrong[0].message  # which are none
    assert "anneal_epochs, epochs, " in wrong[0].message
    for changes in ({"hyperparameters": {"width": 8}}, {"pretraining_graphs": []}):
        edit_all(entry, **changes)
        assert "copy" not in problems(entry)
        assert "a model without randomness, or a copy" in remarks(entry)["copy"].message


def test_ranks_that_every_model_of_a_kind_has_are_no_copy():
    """Both homogeneous models tie on all relations, and one of them ranks 183 of 184 alike: that tells nothing."""

    def prints(slug, *place):
        return fingerprint(results.load(forging.published(slug).joinpath(*place)).ranks)

    assert prints("isdea-homo", "relation-present") is prints("nbfnet-homo", "relation-present") is None
    assert prints("nbfnet-homo") is None
    telling = [prints("isdea"), prints("ingram"), prints("mtdea-k2"), prints("mtdea-k4")]
    assert None not in telling
    assert len(set(telling)) == 4


def test_lists_of_different_lengths_do_not_tell_models_of_a_kind_apart():
    def told(greater, equal, count):
        return fingerprint(Ranks.unnamed({"tail": Counts(greater, equal, count)}))

    lengths, none = np.arange(1, 41), np.zeros(40, int)
    assert told(none, lengths, lengths) is told(none, none, lengths) is told(lengths, none, lengths) is None
    assert told(none, lengths % 7, none + 50) is None
    assert told(none, lengths % 8, none + 50) is not None


def test_lowered_baselines_are_not_those_that_are_published(entry, run):
    payload = read(run / "result.json")
    baselines = {name: values | {"mrr": 0.01} for name, values in payload["floors"].items()}
    edit(run / "result.json", floors=baselines)
    found = problems(entry)
    assert set(found) == {"baselines"}
    published = f"{payload['floors']['random']['mrr']:.6g}"
    told = found["baselines"].message
    assert f"heuristic baseline 'random' of test/dual/present/0: mrr is 0.01, published is {published}" in told
    edit(run / "result.json", floors=dict(list(payload["floors"].items())[:3]))
    assert "baselines must be exactly random, " in problems(entry)["baselines"].message


@pytest.mark.parametrize("place", ["metafam/seed0/result.json", "metafam/seed0/entity-slots", "metafam", "card.toml"])
@pytest.mark.parametrize("absolute", [True, False])
def test_a_link_out_of_the_entry(tmp_path, entry, place, absolute):
    outside = tmp_path / "outside"
    (entry / place).rename(outside)
    target = outside if absolute else Path(os.path.relpath(outside, (entry / place).parent))
    (entry / place).symlink_to(target)
    found = problems(entry)
    assert found["symlink"].where == f"isdea/{place}"
    assert gather(entry.parent)[0] == []
    linked = entry.with_name("linked")
    linked.symlink_to(entry)
    assert problems(linked)["symlink"].where == "linked"


def test_a_huge_file_is_not_read(entry, run):
    huge = [run / "ranks.parquet", run / "result.json", entry / "card.toml"]
    for path in huge:
        os.truncate(path, 2**30)
    sizes = {one.where: one.message for one in check(entry) if one.name == "size"}
    assert set(sizes) == {path.relative_to(entry.parent).as_posix() for path in huge}
    assert "has 1,073,741,824 bytes, at most 8,388,608 are read" in sizes["isdea/metafam/seed0/ranks.parquet"]


def test_an_entry_is_small_in_all(entry):
    for number in range(10, 20):
        path = entry / "metafam" / f"seed{number}" / "ranks.parquet"
        path.parent.mkdir()
        path.touch()
        os.truncate(path, 8 * 2**20)
    assert problems(entry)["size"].message.startswith("more than 64 MiB in all")


def test_as_many_files_and_bytes_as_may_be_are_read(entry, monkeypatch):
    found = list(entry.rglob("*"))
    size = sum(path.stat().st_size for path in found if path.is_file())
    monkeypatch.setattr(entries, "MOST_FILES", len(found))
    monkeypatch.setattr(entries, "MOST_BYTES", size)
    assert problems(entry) == {}
    monkeypatch.setattr(entries, "MOST_BYTES", size - 1)
    assert set(problems(entry)) >= {"size"}
    monkeypatch.setattr(entries, "MOST_FILES", len(found) - 1)
    assert problems(entry)["number"].message.startswith(f"more than {len(found) - 1} files and folders")


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("model.pkl", "pickle"),
        ("metafam/seed0/checkpoints/weights.pt", "pickle"),
        ("metafam/seed0/ranks.PICKLE", "pickle"),
        (".gitattributes", "hidden"),
        ("metafam/seed0/.run-x", "hidden"),
        ("metafam/seed0/training.png", "unexpected"),
        ("metafam/seed0/failure.txt", "unexpected"),
        ("metafam/seed0/dual-tail/result.html", "unexpected"),
        ("metafam/seed0/checkpoints/run.sh", "unexpected"),
        ("metafam/seed00/result.json", "unexpected"),
        ("metafam/seed0/deep/er/result.json", "unexpected"),
        ("readme.html", "unexpected"),
        (f"{SCRIPT[:8]}.json", "unexpected"),
        ("a\x1b[2J\nb", "unexpected"),
        ("Metafam/seed0/result.json", "unexpected"),
    ],
)
def test_files_that_do_not_belong_there(entry, place, name):
    path = entry / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(print))
    found = problems(entry)
    assert set(found) == {name}
    assert found[name].where.startswith("isdea/")


@pytest.mark.parametrize(
    ("file", "changed", "name", "message"),
    [
        ("cost.json", {"seconds": "long"}, "shape", "seconds must be a valid number"),
        ("cost.json", {"threads": {"train": ["many"]}}, "shape", "threads.train.0 must be a number"),
        ("cost.json", {"note": "call me"}, "shape", "unknown key 'note'"),
        ("train.json", {"weights": "../../card.toml"}, "shape", "weights must be a file of weights beside it"),
        ("train.json", {"history": [{"loss": SCRIPT}]}, "text", "history loss must be plain text"),
        ("free.json", {"any": "text"}, "shape", "unknown key 'any'"),
    ],
)
def test_checkpoints_hold_what_training_writes(entry, run, file, changed, name, message):
    shutil.copytree(forging.published("isdea-homo") / "checkpoints", run / "checkpoints")
    assert problems(entry) == {}
    place = run / "checkpoints" / file
    write(place, (read(place) if place.exists() else {}) | changed)
    found = problems(entry)[name]
    assert found.where == f"isdea/metafam/seed0/checkpoints/{file}"
    assert message in found.message


@pytest.mark.parametrize("year", ["2025", "2027"])
@pytest.mark.parametrize(
    "name",
    ["ISDEA", "isdea", "lSDEA", " ISDEA ", "I5DEA", "I S D E A", "1.s-d_e a", "\u00cdSD\u00c9A", "|SDEA", "!$\u00d0EA"],
)
def test_a_name_that_looks_like_anothers_is_taken_whoever_is_older(entry, name, year):
    other = copy_entry(entry.parent, "mtdea-k2")
    edit_card(other, 'date = "2026', f'date = "{year}')
    edit_card(other, 'name = "MTDEA, K = 2"', f'name = "{name}"')
    assert problems(entry, other) == {}
    message = "is, or looks like, the name of the entry isdea: choose another"
    assert message in {**problems(other, entry)}["name"].message
    _, wrong = gather(entry.parent)
    assert [slug for slug, said in wrong.items() if message in str(said)] == ["mtdea-k2"]


def test_names_are_compared_by_letters_and_digits_of_which_some_look_alike():
    assert skeleton("Stra\u00dfe 10") == skeleton("strasse-lo")
    names = [cards.read(path).name for path in forging.PUBLISHED.glob("*/card.toml")]
    assert len({*map(skeleton, names)}) == len(names) == len(list(forging.PUBLISHED.iterdir()))


def test_a_name_that_is_no_folders_is_whose_entry_is_older(entry):
    other = copy_entry(entry.parent, "mtdea-k2")
    for card in (entry / "card.toml", other / "card.toml"):
        card.write_text(re.sub("(?m)^name = .*", 'name = "The model"', card.read_text()))
    edit_card(other, f'date = "{cards.read(other / "card.toml").date}"', 'date = "2099-01-01"')
    assert problems(entry, other) == {}
    assert "the name of the entry isdea" in problems(other, entry)["name"].message


@pytest.mark.parametrize("version", ["0", "1", "2", "3", "x"])
def test_figures_that_contradict_their_counts_are_not_shown_whatever_the_version(entry, run, version):
    perfect = dict.fromkeys(read(run / "result.json")["metrics"], 1.0)
    edit(
        run / "result.json",
        evaluator_version=version,
        **dict.fromkeys(("metrics", "optimistic", "pessimistic"), perfect),
    )
    assert ("evaluator_version" in problems(entry)) == (version != "2")
    assert "the counts give" in problems(entry)["metrics"].message
    assert gather(entry.parent)[0] == []


def test_a_pipe_is_not_waited_for(entry, run):
    (run / "history.json").unlink()
    os.mkfifo(run / "history.json")
    assert problems(entry)["special"].where == "isdea/metafam/seed0/history.json"


def test_a_pickle_under_another_name(entry, run):
    (run / "ranks.parquet").write_bytes(pickle.dumps([1, 2, 3]))
    edit(run / "result.json", ranks_sha256=forging.file_hash(run / "ranks.parquet"))
    assert "cannot be read as Parquet" in problems(entry)["ranks"].message


@pytest.mark.parametrize(
    "change",
    [
        {"model": SCRIPT},
        {"device": "<img src=x onerror=alert(1)>"},
        {"commit": "a\x1b[2Jb"},
        {"hyperparameters": {SCRIPT: 1}},
        {"hyperparameters": {"width": SCRIPT}},
        {"environment": {"python": SCRIPT}},
        {"warnings": [SCRIPT]},
        {"warnings": ["\u202egnp.exe"]},
        {"warnings": ["\ud800"]},
        {"pretraining_graphs": [SCRIPT]},
        {"warnings": ["a" * 3000]},
    ],
    ids=lambda change: ascii(change)[:40],
)
def test_markup_and_control_characters_in_a_result(entry, run, change):
    edit(run / "result.json", **change)
    found = problems(entry)
    assert found["json" if change == {"warnings": ["\ud800"]} else "text"].where == "isdea/metafam/seed0/result.json"
    assert gather(entry.parent)[0] == []


def test_markup_beside_a_result(entry, run):
    write(run / "history.json", {SCRIPT: [{"epoch": 1, "loss": 0.5}]})
    assert problems(entry)["text"].where == "isdea/metafam/seed0/history.json"
    write(run / "history.json", {"train": []})
    told = read(forging.published("mtdea-k2") / "tasks.json")
    assert {"<empty slot 28>", "<empty slot 28> (inverse)"} <= {*told["graphs"]["train"]["without_truth"]}
    write(run / "tasks.json", told)
    assert problems(entry) == {}
    told["graphs"]["train"]["without_truth"].append("<empty slot 28><b>")
    write(run / "tasks.json", told)
    assert problems(entry)["text"].where == "isdea/metafam/seed0/tasks.json"


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "https://",
        "https://[",
        "//example.org",
        "http://example.org",
        "https://arxiv.org@evil.example/",
        "https://\u0430rxiv.org/",
        "https://arxiv.org:8443/",
    ],
)
def test_an_address_that_is_none(entry, run, url):
    edit(run / "result.json", url=url)
    assert "url must be empty or https://" in problems(entry)["shape"].message
    edit(run / "result.json", url="")
    edit_card(entry, 'url = "https://arxiv.org/abs/2302.01313"', f'url = "{url}"')
    assert "url must be an address" in problems(entry)["card"].message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "ISDEA"', f'name = "{SCRIPT}"', "name must be plain text, without"),
        ('name = "ISDEA"', 'name = "IS\\nDEA"', "name must be plain text"),
        ('name = "ISDEA"', 'name = "  "', "name must not be empty"),
        ('name = "ISDEA"', 'name = "\u3164"', "name must be plain text, without the invisible character U+3164"),
        (
            'name = "ISDEA"',
            f'name = "A{1500 * chr(0x301)}"',
            "name must be plain text, with at most 4 marks on a letter",
        ),
        (
            'name = "ISDEA"',
            'name = "\u0406SDEA"',
            "name must have a letter or digit, and all be ASCII or Latin letters",
        ),
        ('name = "ISDEA"', 'name = "\uff29SDEA"', "that it passes for no other name: '\\uff29SDEA'"),
        ('name = "ISDEA"', 'name = "--"', "name must have a letter or digit"),
        ('name = "ISDEA"', 'nmae = "ISDEA"', "unknown key 'nmae': did you mean name"),
        ('name = "ISDEA"', "", "the card: missing name"),
        ('name = "ISDEA"', "name = 1", "name must be a valid string, not 1"),
        ('name = "ISDEA"', "name = " + "[" * 20_000, "not valid TOML (nested too deeply)"),
        ("parameters = 13061", f"parameters = {'1' * 5000}", "not valid TOML"),
        ("parameters = 13061", f"parameters = {10**16}", "parameters must be"),
        ("parameters = 13061", "parameters = true", "parameters must be a valid integer, not True"),
        (
            'regime = "zero-shot"',
            'regime = "zeroshot"',
            "must be 'zero-shot', 'test-time-adaptation', 'fine-tuned' or 'supervised', not 'zeroshot'",
        ),
        ('authors = ["Jianfei Gao"', 'authors = [""', "authors must not be empty"),
        ('name = "ISDEA"', 'name = "ISDEA', "not valid TOML"),
    ],
)
def test_a_card_that_does_not_hold(entry, old, new, message):
    edit_card(entry, old, new)
    found = problems(entry)
    assert set(found) == {"card"}
    assert found["card"].where == "isdea/card.toml"
    assert message in found["card"].message


def test_an_entry_without_a_card(entry):
    (entry / "card.toml").unlink()
    assert "an entry needs its card" in problems(entry)["card"].message
    (entry / "card.toml").mkdir()
    assert "unexpected" in problems(entry)
    assert set(checks.check_all(entry.parent)) == {"isdea"}


def test_an_entry_whose_name_is_no_slug(entry):
    renamed = entry.rename(entry.parent / "My Model")
    assert problems(renamed)["slug"].where == "My Model"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"mrr": NaN}', "NaN is not a number"),
        ('{"mrr": -Infinity}', "-Infinity is not a number"),
        ('{"mrr": 1e999}', "1e999 is beyond any number"),
        ('{"seed": 1, "seed": 2}', "the key 'seed' is there twice"),
        (f'{{"seed": {"9" * 100}}}', "a whole number of 100 digits"),
        (f'{{"seed": {"9" * 100_000}}}', "a whole number of 100000 digits"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 30_000, "nested too deeply"),
        ('{"seed": 1', "not valid JSON"),
        ("", "not valid JSON"),
        ("\udcff", "not valid JSON"),
    ],
    ids=lambda text: ascii(text)[:20],
)
@every_file
def test_json_that_says_more_than_one_thing(entry, run, name, text, message):
    (run / name).write_bytes(text.encode(errors="surrogateescape"))
    found = problems(entry)
    assert found["json"].where == f"isdea/metafam/seed0/{name}"
    assert message in found["json"].message


@every_file
@pytest.mark.parametrize("payload", [None, [], 1, "x", {}, {"dataset": {}}, [[]], {"train": [[1]]}])
def test_json_of_another_shape(entry, run, name, payload):
    write(run / name, payload)
    found = problems(entry)
    if (name, payload) == ("history.json", {}):
        assert found == {}
    else:
        assert found["shape"].where == f"isdea/metafam/seed0/{name}"


def test_every_key_of_a_result_may_be_anything_without_a_traceback(entry, run):
    for task in run.glob("*-*"):
        shutil.rmtree(task)
    payload = read(run / "result.json")
    for key in payload:
        for value in (None, [], {}, -1, 0.5, "x", [[]], {"a": {"b": []}}, 10**17):
            write(run / "result.json", payload | {key: value})
            found = problems(entry)
            fine = key in ("environment", "hyperparameters") and value == {}
            fine |= key in ("wall_seconds", "peak_memory_bytes") and value in (None, 0.5)
            fine |= key in ("warnings", "pretraining_graphs") and value == []
            fine |= key in ("device", "commit") and value == "x"
            fine |= key == "peak_memory_bytes" and value == 10**17
            assert fine or found, (key, value)


def test_broken_bytes_are_problems_and_nothing_else(entry, run):
    """Cut off or changed anywhere, a file ends in named problems, or in none where the byte said nothing."""
    for task in [path for path in run.glob("*-*") if path.name != "entity-slots"]:
        shutil.rmtree(task)
    whole = {path: path.read_bytes() for path in (run / "ranks.parquet", run / "result.json", entry / "card.toml")}

    @settings(max_examples=60)
    @given(st.data())
    def broken(data):
        path = data.draw(st.sampled_from(list(whole)))
        content = bytearray(whole[path])
        place = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content = content[:place]
        else:
            content[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        found = problems(entry)
        path.write_bytes(whole[path])
        if path.name == "ranks.parquet":
            assert found

    broken()


def test_metrics_outside_of_their_own_bounds(entry, run):
    payload = read(run / "result.json")
    edit(run / "result.json", metrics=payload["optimistic"], optimistic=payload["metrics"])
    assert "outside of its own bounds" in problems(entry)["bounds"].message


@pytest.mark.parametrize(("key", "value"), [("asked", {"tail": "score(triples)"}), ("asked", {}), ("asked_again", "")])
def test_how_the_model_was_asked_is_told(entry, run, key, value):
    edit(run / "relation-present" / "result.json", asked={"tail": "score_relations(heads, tails)"})
    edit(run / "relation-slots" / "result.json", asked={"tail": "score_between(triples)"})
    assert problems(entry) == {}
    edit(run / "result.json", **{key: value})
    assert set(problems(entry)) == {key}


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
@pytest.mark.parametrize(("rounding", "told"), [(0, "the same"), (1e-9, "the same within rounding: ")])
@pytest.mark.parametrize("protocol", ["dual", "relation", "full"])
def test_what_an_evaluation_writes_has_the_shape_of_an_entry(tmp_path, rounding, told, protocol):
    def score(triples):
        return (hashed(triples) / 7 + rounding * len(triples)).astype(np.float32)

    evaluate(score, random_split(0), protocol).save(tmp_path, RunInfo(device="cpu"))
    assert shaped(read(tmp_path / "result.json"), Shown).asked_again.startswith(told)


def test_scores_that_were_given_are_a_remark(entry):
    edit_all(entry, asked_again=GIVEN)
    assert problems(entry) == {}
    (told,) = (one for one in check(entry) if one.remark)
    assert (told.name, told.where) == ("given", "isdea/metafam/seed0")
    assert "dual-present, dual-slots, " in told.message


def test_an_earlier_dataset_is_shown_but_not_ranked(entry, run):
    edit_all(entry, dataset_version="0.9.0", content_sha256="0" * 64)
    edit(run / "conventions.json", dataset_version="0.9.0", content_sha256="0" * 64)
    assert problems(entry) == {}
    assert "dataset version '0.9.0', now 1.0.0: shown, not ranked" in remarks(entry)["outdated"].message


@pytest.mark.parametrize("status", ["oom", "failed"])
def test_an_unfinished_run_is_shown(entry, run, second, status):
    edit(run / "result.json", status=status, metrics={}, optimistic={}, pessimistic={}, ranks_sha256=None)
    assert "knows of no ranks" in problems(entry)["ranks"].message
    (run / "ranks.parquet").unlink()
    edit(run / "result.json", tie_rate=None, targets=0)
    assert problems(entry) == {}
    assert remarks(entry)["unfinished"].message.startswith(status)
    edit(run / "result.json", metrics=read(second / "result.json")["metrics"])
    assert {"metrics", "bounds"} <= set(problems(entry))


def test_two_models_in_one_entry(entry, run):
    shutil.rmtree(run)
    shutil.copytree(forging.published("ingram"), run)
    assert "is of 'ingram', the card says 'isdea'" in problems(entry)["model"].message


def test_graphs_the_card_keeps_quiet_about_and_such_that_no_run_knows(entry):
    edit_all(entry, pretraining_graphs=["metafam/train", "fb15k-237"])
    assert "the runs learned from 'fb15k-237', the card lacks it" in problems(entry)["pretraining"].message
    edit_card(entry, 'name = "ISDEA"', 'name = "ISDEA"\npretraining_graphs = ["fb15k-237"]')
    assert problems(entry) == {}
    edit_all(entry, pretraining_graphs=["metafam/train"])
    assert "the card names 'fb15k-237', no run learned from it" in problems(entry)["pretraining"].message


def test_seeds_with_other_settings(entry, run, second):
    payload = read(run / "result.json")
    edit_all(run, hyperparameters=payload["hyperparameters"] | {"width": 64})
    assert "width is 32, in isdea/metafam/seed0 64" in problems(entry)["settings"].message


def test_a_seed_in_the_folder_of_another(entry, run, second):
    edit_all(run, seed=1)
    edit(run / "conventions.json", seed=1)
    found = problems(entry)
    assert "seed 1 of metafam is there 2 times" in found["seed"].message
    assert "it belongs into metafam/seed1" in found["folder"].message


def test_a_task_in_the_folder_of_another(entry, run):
    (run / "entity-slots").rename(run / "full-tail-slots")
    assert "holds 'entity-slots': name the folder after it" in problems(entry)["folder"].message
    shutil.copytree(run / "full-tail-slots", run / "entity-slots")
    assert "'entity-slots' is there twice" in problems(entry)["duplicate"].message


def test_names_that_may_not_be_passed_on(tmp_path):
    entry = copy_entry(tmp_path, dataset="fbnell", seeds=(0,))
    assert problems(entry) == {}
    run = entry / "fbnell" / "seed0"
    table = parquet.read_table(run / "ranks.parquet")
    names = {name: pa.array([f"{name} {row}" for row in range(len(table))]) for name in ("head", "relation", "tail")}
    write_ranks(run, pa.table(names | dict(zip(table.column_names, table.columns, strict=True))))
    assert problems(entry)["names"].where == "isdea/fbnell/seed0/ranks.parquet"
    told = read(forging.published("mtdea-k2") / "tasks.json")
    write(run / "tasks.json", told)
    assert "isdea/fbnell/seed0/tasks.json" in {one.where for one in check(entry) if one.name == "names"}


class TestParquet:
    """Ranks that are not what they seem are refused before they are unpacked."""

    def refused(self, entry, table, **options):
        write_ranks(entry / "metafam" / "seed0", table, **options)
        return problems(entry)["ranks"].message

    @pytest.fixture
    def table(self, run):
        return parquet.read_table(run / "ranks.parquet")

    def test_more_rows_than_targets(self, entry):
        rows = pa.table({"tail_greater": pa.array(np.zeros(5_000_000, dtype=np.int32))})
        assert "5,000,000 rows, at most 184 can be targets" in self.refused(entry, rows)

    def test_names_that_unpack_to_more_than_memory(self, entry, table):
        long = pa.array(["a" * 100_000] * 184)
        bomb = table.set_column(0, "head", long)
        message = self.refused(entry, bomb, use_dictionary=False)
        assert "bytes once unpacked, at most 16,777,216 are read" in message
        assert "name of more than 1,000 bytes" in self.refused(entry, bomb)

    def test_a_name_of_many_rows_is_not_multiplied(self, entry, table):
        """The dictionary has one text of 16 MB, the column would be of 3 GB."""
        names = pa.DictionaryArray.from_arrays(pa.array([0] * 184, pa.int32()), pa.array(["a" * 16_000_000]))
        schema = table.schema.set(0, pa.field("head", pa.string())).remove_metadata()
        plain_table = table.set_column(0, "head", names).replace_schema_metadata(None)
        path = entry / "metafam" / "seed0" / "ranks.parquet"
        with parquet.ParquetWriter(path, plain_table.schema, compression="zstd", store_schema=False) as writer:
            writer.write_table(plain_table)
        assert parquet.read_schema(path).types == schema.types
        assert "name of more than 1,000 bytes" in problems(entry)["ranks"].message

    def test_a_footer_that_lies_about_its_pages(self, entry, table, run):
        """A small size in place of the true one, in as many bytes: pages are refused by their own headers, unread."""
        write_ranks(run, table.set_column(0, "head", pa.array(["a" * 2_000_000] * 184)), use_dictionary=False)
        path = run / "ranks.parquet"
        for size in footer_sizes(path):
            old, new = varint(2 * size), varint(2 * 1000, len(varint(2 * size)))
            if size > 2**24:
                path.write_bytes(path.read_bytes().replace(old, new))
        assert max(footer_sizes(path)) < 2**16
        before = pa.total_allocated_bytes(), pa.default_memory_pool().max_memory()
        assert "bytes once unpacked, at most 16,777,216 are read" in problems(entry)["ranks"].message
        assert pa.default_memory_pool().max_memory() == before[1]

    def test_other_columns(self, entry, table):
        extra = table.append_column(SCRIPT, table.column(3))
        assert "does not belong there" in self.refused(entry, extra)
        twice = pa.table([*table.columns, table.column(3)], names=[*table.column_names, table.column_names[3]])
        assert "a column is there twice" in self.refused(entry, twice)

    def test_counts_that_are_no_numbers(self, entry, table):
        place = table.column_names.index("tail_equal")
        for values in (pa.array(["1"] * 184), pa.array([1.0] * 184), pa.array([1] * 184, pa.uint64())):
            other = table.set_column(place, "tail_equal", values)
            assert "column tail_equal has the type" in self.refused(entry, other)
        none = table.set_column(place, "tail_equal", pa.array([None] * 184, pa.int32()))
        assert "column tail_equal has 184 empty cells" in self.refused(entry, none)
        coded = table.set_column(0, "head", table.column("head").dictionary_encode())
        assert "column head has the type dictionary" in self.refused(entry, coded)

    def test_names_that_are_no_text(self, entry, table):
        bytes_ = pa.array([b"\xff"] * 184, pa.binary()).view(pa.string())
        assert "cannot be read as Parquet" in self.refused(entry, table.set_column(0, "head", bytes_))


def footer_sizes(path):
    """Return the bytes of each column and of all, unpacked, as the footer tells them."""
    with parquet.ParquetFile(path) as file:
        group = file.metadata.row_group(0)
        return [
            *(group.column(place).total_uncompressed_size for place in range(group.num_columns)),
            group.total_byte_size,
        ]


def varint(value, length=1):
    """Return a number as Thrift writes it, filled up to a length."""
    parts = [value >> shift & 127 for shift in range(0, max(value.bit_length(), 1), 7)]
    parts += [0] * (length - len(parts))
    return bytes([*(part | 128 for part in parts[:-1]), parts[-1]])


def test_a_board_shows_what_can_be_read_and_ranks_what_holds(tmp_path, entry, run):
    bad = copy_entry(tmp_path / "entries", "ingram")
    copy_entry(tmp_path / "entries", "mtdea-k2")
    edit(run / "result.json", candidate_seed=1)
    (bad / "metafam" / "seed0" / "result.json").write_text("{", encoding="utf-8")
    (tmp_path / "entries" / ".torso.new").mkdir()
    shutil.copyfile(entry / "card.toml", tmp_path / "entries" / ".torso.new" / "card.toml")
    loaded, broken = gather(tmp_path / "entries")
    assert [one.slug for one in loaded] == ["isdea", "mtdea-k2"]
    assert set(broken) == {"isdea", "ingram"}
    assert "candidates 1: run with --candidate-seed 0" in " ".join(broken["isdea"])
    assert [path.name for path in entries.folders(tmp_path / "entries")] == ["ingram", "isdea", "mtdea-k2"]


@pytest.mark.parametrize("shown", [SCRIPT, "\x1b[31mred", "a\nb", "\u202e", "x" * 5000])
def test_a_problem_never_shows_what_it_quotes(shown):
    problem = Problem("name", f"entry/{shown}", f"is {shown}")
    assert unplain([problem.where, problem.message]) is None
    assert len(problem.message) < 700


def test_json_beyond_its_size_is_not_parsed(tmp_path):
    (tmp_path / "x.json").write_text("[1, 2, 3]", encoding="utf-8")
    with pytest.raises(ResultError, match="more than 5 bytes"):
        read_json(tmp_path / "x.json", 5)


def test_strict_json_reads_what_python_wrote(tmp_path):
    path = tmp_path / "x.json"

    @given(st.recursive(st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.text(), st.lists, max_leaves=8))
    def reads(value):
        path.write_text(json.dumps({"a": value}), encoding="utf-8")
        assert read_json(path, 10_000) == {"a": value}

    reads()


class TestCommand:
    """``mtbench leaderboard check`` as it is typed."""

    def test_all_entries_of_the_repository(self, command, examined, monkeypatch):
        """They hold, tell names of no other data than ours, and have every task of the leaderboard."""
        monkeypatch.chdir(forging.PUBLISHED.parents[1])
        code, out, err = command("leaderboard", "check")
        assert (code, err) == (0, "")
        heading, _, *rows, _, _ = out.splitlines()
        assert heading.split() == ["Entry", "Problems", "Remarks"]
        slugs = sorted(path.parent.name for path in forging.PUBLISHED.glob("*/card.toml"))
        assert [row.split() for row in rows] == [[slug, "0", "0"] for slug in slugs]
        assert out.endswith("every file, figure, hash and claim holds\n")
        runs = [run for one in examined for run in one.runs]
        for run in runs:
            named = {one.ranks.named for one in run.results.values()}
            assert named <= {may_name_targets(run.headline.dataset)}, run.where
            assert missing_of(run.results) == (), run.where
        assert sum(len(run.results) for run in runs) == len(list(forging.PUBLISHED.rglob("result.json")))

    def test_one_entry_by_name_and_by_folder(self, command, entry, monkeypatch):
        for arguments in (["isdea", "--entries", entry.parent], [entry], [f"{entry}/"]):
            assert command("leaderboard", "check", *arguments)[0] == 0
        monkeypatch.chdir(entry)
        assert command("leaderboard", "check", ".")[0] == 0

    def test_a_forgery_is_one_line_and_exits_with_1(self, command, entry, run):
        edit(run / "result.json", tie_rate=0.0)
        code, out, err = command("leaderboard", "check", entry)
        assert code == 1
        assert err == (
            "error: isdea/metafam/seed0: tie_rate is 0.0, the counts give 0.6684782608695652; evaluate again "
            "and submit that\n"
        )
        assert "holds" not in out

    def test_a_copy_is_found_beside_it(self, command, entry):
        code, _, err = command("leaderboard", "check", copy_entry(entry.parent, name="mine", seeds=(0,)))
        assert (code, "are those of isdea/metafam/seed0" in err) == (1, True)

    def test_a_remark_is_said_and_is_no_problem(self, command, entry, run):
        shutil.rmtree(run / "dual-slots")
        code, out, err = command("leaderboard", "check", entry)
        assert (code, err) == (0, "")
        _, _, row, remark, *_ = out.splitlines()
        assert row.split()[-2:] == ["0", "1"]
        assert remark.startswith("remark: isdea/metafam/seed0: lacks dual-slots: shown, not ranked")

    def test_json(self, command, entry, run, second):
        edit(run / "result.json", tie_rate=0.0)
        shutil.rmtree(second / "dual-slots")
        code, out, _ = command("leaderboard", "check", "--entries", entry.parent, "--json")
        (told,) = json.loads(out)
        assert (code, told["entry"], told["valid"]) == (1, "isdea", False)
        assert [one["name"] for one in told["problems"]] == ["tie_rate"]
        assert "incomplete" in [one["name"] for one in told["remarks"]]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["check", "isdae", "--entries"], "unknown entry 'isdae': did you mean isdea"),
            (["check", "../../nowhere", "--entries"], "unknown entry '../../nowhere'"),
            (["check", "nowhere"], "unknown entry 'nowhere'"),
            (["chek"], "No such command 'chek'. Did you mean 'check'?"),
            ([], "Usage: mtbench leaderboard"),
        ],
    )
    def test_wrong_usage(self, command, entry, arguments, message):
        more = [entry.parent] if "--entries" in arguments else []
        code, out, err = command("leaderboard", *arguments, *more)
        assert code == 2
        assert message in out + err
        assert "Traceback" not in err

    def test_a_folder_that_is_no_entry(self, command, entry, run):
        code, _, err = command("leaderboard", "check", run)
        advice = "there is no card.toml in it: mtbench submit RUN... --to DIR makes one\n"
        assert (code, advice in err) == (1, True)

    def test_a_folder_of_entries_is_named_as_an_entry_or_by_its_option(self, command, entry):
        (by_option,), (by_name,) = (
            json.loads(command("leaderboard", "check", *arguments, "--json")[1])
            for arguments in (["--entries", entry.parent], [entry.parent])
        )
        assert by_name == by_option | {"entry": str(entry)}

    def test_of_many_problems_the_first_are_printed(self, command, entry):
        for number in range(30):
            (entry / f"{number}.html").touch()
        code, out, err = command("leaderboard", "check", "--entries", entry.parent)
        assert code == 1
        assert out.splitlines()[2].split()[:2] == ["isdea", "30"]
        assert err.splitlines()[-1] == "error: isdea: and 10 more, which --json lists"
        assert len(err.splitlines()) == 21
        assert err.splitlines()[0].startswith("error: isdea/0.html: ")

    def test_a_folder_without_entries(self, command, tmp_path):
        code, _, err = command("leaderboard", "check", "--entries", tmp_path)
        assert code == 1
        assert "holds no entries" in err
        assert err.count("\n") == 1


def test_weights_of_another_entry_are_a_problem_until_its_card_says_why(tmp_path):
    entry, mine = (copy_entry(tmp_path, "tally", (0,), name) for name in ("tally", "mine"))
    for path in (entry, mine):
        shutil.copytree(forging.published("tally") / "checkpoints", path / "metafam" / "seed0" / "checkpoints")
    found = {one.name: one for one in check(mine, [entry])}
    assert found["weights"].where.startswith("mine/metafam/seed0/checkpoints/")
    assert "this one tally/metafam/seed0/checkpoints/" in str(found["weights"])
    assert not found["weights"].remark
    assert "weights" not in {one.name for one in check(entry, [mine])}
    edit_card(mine, 'name = "', 'alike = "The same network."\nname = "')
    assert [one.remark for one in check(mine, [entry]) if one.name == "weights"] == [True]


def test_the_hash_of_weights_in_a_result_tells_whose_they_are(tmp_path):
    entry, mine = (copy_entry(tmp_path, "ultra-3g", (0,), name) for name in ("ultra-3g", "mine"))
    found = problems(mine, entry)["weights"]
    assert found.where == "mine/metafam/seed0 (checkpoint_sha256)"
    assert "this one ultra-3g/metafam/seed0 (checkpoint_sha256)" in found.message
    assert "weights" not in problems(entry, mine)
    edit_card(mine, 'name = "', 'alike = "The same network, asked otherwise."\nname = "')
    assert "weights" not in problems(mine, entry)


def test_an_entry_has_the_same_weights_on_all_datasets(tmp_path):
    entry = copy_entry(tmp_path, "ultra-3g", (0,))
    copy_entry(tmp_path, "ultra-3g", (0,), dataset="fbnell")
    assert "settings" not in problems(entry)
    results_there = sorted((entry / "metafam").rglob("result.json"))
    for path in results_there:
        edit(path, hyperparameters=read(path)["hyperparameters"] | {"checkpoint_sha256": "0" * 64})
    message = problems(entry)["settings"].message
    assert message.startswith("checkpoint_sha256 is ")
    assert "submit them as two entries" in message
