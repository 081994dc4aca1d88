import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from forging import edit, edit_ranks, read, write
from pyarrow import parquet
from ranking_toys import hashed, random_split, small

from mtbench.analysis import comparison
from mtbench.data import catalog
from mtbench.data.catalog import Graph, Part
from mtbench.errors import MtbenchError, ResultError, UnknownNameError, UsageError
from mtbench.evaluation.tasks import evaluate, task
from mtbench.files import reading
from mtbench.files.hashing import file_hash
from mtbench.names import PARTS
from mtbench.ranking.candidates import draw
from mtbench.runs import origin
from mtbench.runs import result as results
from mtbench.runs.origin import RunInfo, with_names
from mtbench.runs.result import load, verify
from mtbench.runs.saved import Saved
from mtbench.settings.table import PROTOCOLS, SAMPLED, VOCABULARIES

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
KEYS = [declared.name for declared in fields(Saved)]
INFO = RunInfo(
    model="öquivariant",
    seed=3,
    regime="test-time-adaptation",
    hyperparameters={"layers": 2, "rate": 1e-3, "name": "gin", "inverses": True},
    pretraining_graphs=("metafam/train",),
    url="https://example.org/model",
    commit="abc",
    device="cpu",
    wall_seconds=1.5,
    peak_memory_bytes=2**33,
)


@pytest.fixture
def run(tmp_path):
    """A saved run whose targets have ties."""
    return evaluate(hashed, random_split(1)).save(tmp_path / "runs" / "one", INFO)


def problems(directory):
    return [problem.name for problem in verify(directory).problems]


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_saved_run_loads_and_verifies(tmp_path, protocol, vocabulary):
    before = evaluate(hashed, random_split(1), protocol, vocabulary, seed=2)
    directory = before.save(tmp_path / "run", INFO)
    assert sorted(path.name for path in directory.iterdir()) == ["ranks.parquet", "result.json"]
    assert verify(directory).ok
    assert str(verify(directory)) == f"{directory}: verified"
    after = load(directory)
    for name in results._OWN_KEYS:
        assert getattr(after, name) == getattr(before, name), name
    assert before.ranks.to_frame().equals(after.ranks.to_frame()[before.ranks.to_frame().columns.tolist()])
    assert replace(after.run, environment={}) == INFO
    assert {"python", "numpy", "platform"} <= set(after.run.environment)
    assert str(after) == str(replace(before, run=after.run))


def test_the_small_toy_with_names_beyond_ascii_round_trips(tmp_path):
    split = small()
    names = np.array(["çelik öz", "b\tob", "中", "d e"])
    directory = evaluate(hashed, replace(split, entities=names)).save(tmp_path / "seed=0" / "run")
    frame = load(directory).ranks.to_frame()
    assert frame["head"].tolist() == names[split.targets[:, 0]].tolist()
    assert verify(directory).ok


def test_result_json_has_every_promised_field(run):
    payload = read(run / "result.json")
    assert {*payload} == {*KEYS}
    promised = (
        "schema dataset dataset_version content_sha256 protocol vocabulary candidates_sha256 evaluator_version model "
        "seed regime metrics optimistic pessimistic tie_rate status device wall_seconds peak_memory_bytes "
        "candidate_seed split pretraining_graphs url commit hyperparameters environment ranks_sha256 chance "
        "floors warnings asked asked_again"
    )
    assert set(promised.split()) <= set(payload)
    assert (payload["model"], payload["seed"], payload["candidate_seed"]) == ("öquivariant", 3, 0)
    assert payload["ranks_sha256"] == file_hash(run / "ranks.parquet")
    assert payload["metrics"]["mrr"] == load(run).metrics["mrr"]


def test_ranks_are_plain_columns_any_reader_understands(run):
    table = parquet.read_table(run / "ranks.parquet")
    counts = [f"{part}_{name}" for part in PARTS for name in ("greater", "equal", "count")]
    assert table.column_names == ["head", "relation", "tail", *counts]
    assert {str(table.schema.field(name).type) for name in counts} == {"int32"}
    assert table.num_rows == 40


def test_an_existing_run_is_kept_unless_forced(run):
    other = evaluate(lambda triples: hashed(triples, 100), random_split(2))
    before = (run / "result.json").read_bytes()
    with pytest.raises(UsageError, match=r"result\.json already exists: .*force=True"):
        other.save(run)
    assert (run / "result.json").read_bytes() == before
    other.save(run, INFO, force=True)
    assert load(run).metrics == other.metrics
    assert verify(run).ok


def test_other_files_in_the_directory_are_left_alone(tmp_path):
    (tmp_path / "model.log").write_text("epoch 1", encoding="utf-8")
    evaluate(hashed, small()).save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.log", "ranks.parquet", "result.json"]


@pytest.mark.parametrize(("call", "existing"), [(1, False), (2, False), (1, True), (2, True)])
def test_nothing_half_written_is_left_when_a_rename_fails(tmp_path, monkeypatch, call, existing):
    target = tmp_path / "deep" / "run"
    result = evaluate(hashed, small())
    if existing:
        result.save(target)
    calls, original = [], Path.replace

    def failing(self, other):
        calls.append(other)
        if len(calls) == call:
            raise OSError(28, "No space left on device")
        return original(self, other)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(MtbenchError, match=r"cannot write .*run: No space left on device"):
        result.save(target, force=True)
    assert len(calls) == call
    left = list(tmp_path.rglob("*"))
    assert left == ([tmp_path / "deep", target] if existing else [])


@pytest.mark.parametrize("existing", [False, True])
def test_a_failure_while_writing_keeps_what_was_there(tmp_path, monkeypatch, existing):
    target = tmp_path / "run"
    result = evaluate(hashed, small())
    if existing:
        result.save(target, INFO)
    before = {path: path.read_bytes() for path in target.rglob("*")}

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "write_table", full)
    with pytest.raises(MtbenchError, match="No space left"):
        result.save(target, force=True)
    assert {path: path.read_bytes() for path in target.rglob("*")} == before
    assert target.exists() == existing


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}])
def test_run_information_that_is_not_json_is_refused(tmp_path, value):
    with pytest.raises(UsageError, match="run information cannot be written as JSON"):
        evaluate(hashed, small()).save(tmp_path / "run", RunInfo(hyperparameters={"rate": value}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"regime": "zeroshot"}, "unknown regime 'zeroshot': did you mean zero-shot"),
        ({"status": "dead"}, "unknown status 'dead'"),
    ],
)
def test_run_information_names_what_exists(arguments, message):
    with pytest.raises(UnknownNameError, match=message):
        RunInfo(**arguments)


@pytest.mark.parametrize("status", ["oom", "failed"])
def test_a_run_without_ranks_keeps_its_status(tmp_path, status):
    chosen = task(small())
    result = chosen.unfinished(status)
    assert f"no ranks: {status}" in str(result)
    with pytest.raises(UsageError, match="cannot have the status ok"):
        result.save(tmp_path / "run", INFO)
    directory = result.save(tmp_path / "run", replace(INFO, status=status))
    assert [path.name for path in directory.iterdir()] == ["result.json"]
    assert verify(directory).ok
    after = load(directory)
    assert (after.run.status, after.metrics, len(after.ranks)) == (status, {}, 0)
    assert np.isnan(after.tie_rate)
    assert after.baselines == chosen.baselines
    edit(directory / "result.json", status="ok")
    assert problems(directory) == ["ranks.parquet"]


@pytest.mark.parametrize("name", ["metrics", "optimistic", "pessimistic", "chance"])
@pytest.mark.parametrize("key", ["mr", "mrr", "hits@10"])
def test_an_edited_metric_is_found(run, name, key):
    values = read(run / "result.json")[name]
    edit(run / "result.json", **{name: values | {key: values[key] + 1e-6}})
    (problem,) = verify(run).problems
    assert problem.name == name
    assert problem.message.startswith(f"{run / 'result.json'}: {name} {key} is {values[key] + 1e-6}, the counts give")
    assert not verify(run).ok


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"tie_rate": 0.0}, ["tie_rate"]),
        ({"tie_rate": None}, ["tie_rate"]),
        ({"metrics": {}}, ["metrics"]),
        ({"metrics": [1]}, ["metrics"]),
        ({"metrics": {"mrr": float("nan")}}, ["result.json"]),
        ({"optimistic": {"mrr": "high"}}, ["optimistic"]),
        ({"schema": 1}, ["result.json"]),
        ({"evaluator_version": "0"}, ["evaluator_version"]),
        ({"candidates_version": 0}, ["candidates_version"]),
        ({"protocol": "best"}, ["protocol"]),
        ({"protocol": ["dual"]}, ["protocol"]),
        ({"protocol": "entity"}, ["candidates"]),
        ({"vocabulary": "slots", "protocol": "relation"}, ["candidates"]),
        ({"vocabulary": "half"}, ["vocabulary"]),
        ({"split": "dev"}, ["split"]),
        ({"regime": "oracle"}, ["regime"]),
        ({"status": "fine"}, ["status"]),
        ({"targets": 39}, ["targets"]),
        ({"ranks_sha256": "0" * 64}, ["ranks_sha256"]),
        ({"ranks_sha256": None}, ["ranks_sha256"]),
    ],
)
def test_an_edited_field_is_found_by_name(run, changes, expected):
    edit(run / "result.json", **changes)
    assert problems(run) == expected
    assert all(str(run) in problem.message for problem in verify(run).problems)


@pytest.mark.parametrize("key", KEYS)
def test_a_missing_key_is_named(run, key):
    payload = read(run / "result.json")
    del payload[key]
    write(run / "result.json", payload)
    (problem,) = verify(run).problems
    assert problem.name == "keys"
    assert problem.message.startswith(f"{run / 'result.json'}: missing {key}; ")
    with pytest.raises(ResultError, match=rf"result\.json: missing {key}; "):
        load(run)


def test_edited_ranks_are_found_by_their_hash_and_by_their_figures(run):
    edit_ranks(run, rehash=False, tail_greater=lambda values: [0] * len(values))
    assert problems(run)[0] == "ranks_sha256"
    assert set(problems(run)[1:]) == {"metrics", "optimistic", "pessimistic"}
    with pytest.raises(ResultError, match=r"ranks\.parquet: not the file"):
        load(run)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"tail_greater": lambda values: [-1, *values[1:]]}, "counts"),
        ({"tail_equal": lambda values: [*values[:-1], -2]}, "counts"),
        ({"relation_greater": lambda values: [27, *values[1:]]}, "counts"),
        ({name: lambda values: [13, *values[1:]] for name in ("tail_greater", "tail_equal")}, "counts"),
        ({name: lambda values: [2**62, *values[1:]] for name in ("tail_greater", "tail_equal")}, "counts"),
        ({"tail_count": lambda values: [25, *values[1:]]}, "candidates"),
        ({"head_count": lambda values: [25, *values[1:]]}, "candidates"),
        ({"head_relation_greater": lambda values: [27, *values[1:]]}, "counts"),
        ({"head_relation_count": lambda values: [values[0] - 1, *values[1:]]}, "candidates"),
        ({"relation_equal": lambda values: [str(value) for value in values]}, "ranks.parquet"),
        ({"head": lambda values: [None, *values[1:]]}, "ranks.parquet"),
    ],
)
def test_impossible_ranks_are_found_by_name(run, columns, expected):
    edit_ranks(run, **columns)
    assert expected in problems(run)


def test_a_candidate_count_that_only_repetition_can_give_is_checked(tmp_path):
    directory = evaluate(hashed, random_split(1), vocabulary="slots").save(tmp_path / "run")
    edit_ranks(directory, tail_count=lambda values: [23, *values[1:]])
    assert "candidates" in problems(directory)


def test_missing_columns_are_named(run):
    path = run / "ranks.parquet"
    parquet.write_table(parquet.read_table(path).drop_columns(["tail", "tail_equal"]), path)
    (problem,) = verify(run).problems
    assert problem.name == "ranks.parquet"
    assert "the columns tail, tail_equal are missing" in problem.message


@pytest.mark.parametrize("name", ["result.json", "ranks.parquet"])
def test_a_truncated_or_missing_file_is_named(run, name):
    path = run / name
    path.write_bytes(path.read_bytes()[:-20])
    for damage in (lambda: None, path.unlink):
        damage()
        assert problems(run) == [name]
        with pytest.raises(ResultError, match=name):
            load(run)


@pytest.mark.parametrize("text", ["[1, 2]", '"run"', "[" * 100_000])
def test_json_that_is_no_object_is_named(run, text):
    (run / "result.json").write_text(text, encoding="utf-8")
    assert problems(run) == ["result.json"]


@pytest.mark.parametrize(
    "changes", [{"schema": 1}, {"regime": "oracle"}, {"warnings": None}, {"pretraining_graphs": 3}]
)
def test_values_that_cannot_be_loaded_name_the_file(run, changes):
    edit(run / "result.json", **changes)
    with pytest.raises(ResultError, match=r"result\.json: .*evaluate again"):
        load(run)


def test_runs_on_a_released_dataset_are_compared_with_the_catalogue(tmp_path, published, monkeypatch):
    record = replace(published.release, candidates={"test/dual/present/0": draw(published).sha256})
    monkeypatch.setattr(catalog, "by_id", {"toy": record}.get)
    result = evaluate(hashed, replace(published))
    assert result.dataset_version == "2.1"
    run = result.save(tmp_path / "run")
    assert verify(run).ok
    edit_ranks(run, head=lambda values: ["ann"] * 3)
    edit(run / "result.json", candidates_sha256="0" * 64)
    assert problems(run) == ["candidates_sha256", "targets"]
    edit(run / "result.json", dataset_version="unversioned")
    assert verify(run).ok


@pytest.fixture
def published(monkeypatch):
    """The small toy as a released dataset of the catalogue, without published candidates."""
    split = small()
    record = replace(
        catalog.record("metafam"),
        id="toy",
        version="2.1",
        graphs={"test": Graph(4, 3, 6)},
        parts={"test/graph": Part(4, split.graph_sha256), "test/targets": Part(3, split.targets_sha256)},
        candidates={},
    )
    monkeypatch.setattr(catalog, "by_id", {"toy": record}.get)
    return split


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name not in SAMPLED])
def test_the_numbers_of_all_candidates_are_those_of_the_hash(tmp_path, published, protocol, vocabulary):
    result = evaluate(hashed, published, protocol, vocabulary)
    run = result.save(tmp_path / "run")
    assert verify(run).ok
    side = next(iter(result.ranks.parts))
    edit_ranks(run, **{f"{side}_count": lambda values: [values[0] + 1, *values[1:]]})
    found = {problem.name: problem.message for problem in verify(run).problems}
    assert "numbers of candidates are not those" in found["candidates"]


def test_more_candidates_than_the_graph_has_are_found_at_once(tmp_path, published):
    run = evaluate(hashed, published, "full-tail").save(tmp_path / "run")
    edit_ranks(run, tail_count=lambda values: [*values[:-1], 4])
    assert "4 tail candidates at row 2, there are at most 3" in str(verify(run))
    run = evaluate(hashed, published, "full-relation", "slots").save(tmp_path / "slots")
    edit_ranks(run, relation_count=lambda values: [6, *values[1:]])
    assert "6 relation candidates at row 0, there are at most 5" in str(verify(run))


def test_one_full_protocol_does_not_pass_for_another(tmp_path, published):
    run = evaluate(hashed, published, "full-tail").save(tmp_path / "run")
    edit(run / "result.json", protocol="full-head")
    assert problems(run) == ["candidates"]
    edit(run / "result.json", protocol="full", vocabulary="half")
    assert "vocabulary" in problems(run)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_metrics_are_the_means_of_the_figures_per_target(protocol):
    result = evaluate(hashed, random_split(1), protocol)
    values = result.per_target()
    assert {name: array.shape for name, array in values.items()} == dict.fromkeys(result.metrics, (40,))
    assert {name: array.mean() for name, array in values.items()} == pytest.approx(result.metrics)


def test_loaded_results_can_be_saved_again(run, tmp_path):
    again = load(run).save(tmp_path / "again")
    assert read(again / "result.json") == read(run / "result.json")


def test_the_environment_names_what_is_loaded(monkeypatch):
    found = origin.environment()
    assert found["numpy"] == np.__version__
    monkeypatch.setitem(origin.sys.modules, "torch_geometric", np)
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"{name} 1")
    assert origin.environment()["torch_geometric"] == "torch_geometric 1"


SPLIT = random_split(4)


def saved_as_m(directory, **options):
    return evaluate(hashed, SPLIT).save(directory, RunInfo(model="m"), **options)


def test_the_file_holds_counts_alone_and_everything_follows_from_it(tmp_path):
    plain, bare = saved_as_m(tmp_path / "plain"), saved_as_m(tmp_path / "bare", with_names=False)
    columns = parquet.read_schema(bare / "ranks.parquet").names
    assert columns == [f"{part}_{name}" for part in PARTS for name in ("greater", "equal", "count")]
    assert not any(name in (bare / "result.json").read_text() for name in SPLIT.entities.tolist())
    assert results.verify(bare).ok
    ours, theirs = results.load(plain), results.load(bare)
    assert (ours.ranks.named, theirs.ranks.named) == (True, False)
    assert theirs.metrics == ours.metrics
    again = with_names(theirs, SPLIT)
    for name in ("heads", "relations", "tails"):
        np.testing.assert_array_equal(getattr(again.ranks, name), getattr(ours.ranks, name))
    assert with_names(ours) is ours


def test_strata_and_comparisons_name_the_targets_themselves(tmp_path):
    plain, bare = (results.load(saved_as_m(tmp_path / name, with_names=name == "plain")) for name in ("plain", "bare"))
    assert bare.by("relation", SPLIT).rows == plain.by("relation", SPLIT).rows
    found, expected = (comparison.compare([run], split=SPLIT, draws=100) for run in (bare, plain))
    assert (found.rows[0].low, found.rows[0].high) == (expected.rows[0].low, expected.rows[0].high)


def test_saving_what_was_loaded_without_names_adds_none(tmp_path):
    bare = results.load(saved_as_m(tmp_path / "bare", with_names=False))
    again = bare.save(tmp_path / "again")
    assert (again / "ranks.parquet").read_bytes() == (tmp_path / "bare" / "ranks.parquet").read_bytes()


def test_names_of_another_split_are_refused(tmp_path):
    bare = results.load(saved_as_m(tmp_path / "bare", with_names=False))
    with pytest.raises(ResultError, match="the run was made on content"):
        with_names(bare, random_split(5))
    with pytest.raises(UsageError, match="random test is not in the catalogue"):
        with_names(bare)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"dataset": ["metafam"]}, "dataset"),
        ({"candidate_seed": None}, "candidate_seed"),
        ({"asked": 3}, "asked"),
        ({"floors": {"random": {"mrr": {"of": 1}}}}, "floors"),
        ({"floors": {"random": {"mr": 1.0}}}, "floors"),
        ({"model": "half \ud800"}, "result.json"),
        ({"oracle": True}, "keys"),
    ],
)
def test_values_of_other_types_are_refused_wherever_a_result_is_read(run, changes, expected):
    edit(run / "result.json", **changes)
    assert problems(run) == [expected]
    with pytest.raises(ResultError, match=r"result\.json: .*evaluate again"):
        load(run)


@pytest.mark.parametrize("name", ["result.json", "ranks.parquet"])
def test_a_pipe_or_a_huge_file_is_refused_at_once(run, name, monkeypatch):
    (run / name).unlink()
    os.mkfifo(run / name)
    assert "a named pipe" in str(verify(run))
    with pytest.raises(ResultError, match=f"{name}: .*a named pipe"):
        load(run)
    (run / name).unlink()
    monkeypatch.setitem(reading.LIMITS, name, 1000)
    (run / name).touch()
    os.truncate(run / name, 2**40)
    assert "more than 1,000 bytes" in str(verify(run))


@pytest.mark.parametrize(
    "changes",
    [{"metrics": {"mrr": 1.0}}, {"tie_rate": 0.5}, {"status": "failed"}, {"chance": {"mrr": 0.1}}],
    ids=lambda changes: next(iter(changes)),
)
def test_figures_that_do_not_follow_from_the_ranks_are_not_shown(run, changes):
    payload = read(run / "result.json")
    merged = {key: payload[key] | value if isinstance(value, dict) else value for key, value in changes.items()}
    edit(run / "result.json", **merged)
    with pytest.raises(ResultError, match=r"result\.json: .*; the file was edited: evaluate again"):
        load(run)
