"""What a model with weights of its own finds most plausible, asked for by name, in Python and as it is typed."""

import json

import numpy as np
import pytest
import thirdparty
from hypothesis import given
from hypothesis import strategies as st
from planned import Plan
from planned import run as run_plan
from ranking_toys import random_split, small

from mtbench.errors import UsageError
from mtbench.settings.table import settings_of
from mtbench.training import models, predictions
from mtbench.training.predictions import ENDINGS, Question, asked, best, graph_of, predict

READY = f"{thirdparty.NAME}:Ready"
TRIPLES = "ann\tknows\tbob\nbob\tknows\tcem\ncem\tlikes\tann\nann\tlikes\tdee\n"


@pytest.fixture
def folder(somebodys_models, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.tsv").write_text(TRIPLES, encoding="utf-8")
    return tmp_path


def answer(score, split, question, top, *, known=False):
    return best(score, split, question.side, asked(split, question, top), top=top, known=known)


def ids_of(triples):
    """Score a triple by its ids, so that no two are alike."""
    return triples @ np.array([10_000.0, -100.0, 1.0])


@given(seed=st.integers(0, 9), side=st.sampled_from(["head", "relation", "tail"]), known=st.booleans())
def test_answers_are_those_of_a_plain_loop(seed, side, known):
    split = random_split(seed, entities=12, relations=4, graph=90, known=90)
    given_names = dict(zip(("head", "relation", "tail"), split.named(split.graph[:1])[0], strict=True)) | {side: None}
    found = answer(ids_of, split, Question(**given_names), 5, known=known)
    names = split.relations if side == "relation" else split.entities
    rows = [tuple({**given_names, side: name}.values()) for name in names.tolist()]
    there = {*split.named(split.graph), *split.named(split.known)}
    rows = [row for row in rows if known or row not in there]
    order = {"head": 1, "relation": -1, "tail": 1}[side]
    expected = sorted(rows, key=lambda row: row[("head", "relation", "tail").index(side)], reverse=order > 0)[:5]
    assert [(row.head, row.relation, row.tail) for row in found] == expected
    assert [row.known for row in found] == [row in there for row in expected]
    assert [row.score for row in found] == sorted((row.score for row in found), reverse=True)


def test_of_equal_answers_those_first_by_name_come_first():
    found = answer(lambda triples: np.zeros(len(triples)), small(), Question(head="dee", relation="knows"), 3)
    assert [row.tail for row in found] == ["ann", "bob", "cem"]


def test_a_scorer_of_whole_rows_is_asked_for_one():
    class Rows:
        asked = 0

        def score_tails(self, heads, relations):
            self.asked += len(heads)
            return np.arange(4.0)[None].repeat(len(heads), axis=0)

    rows = Rows()
    assert [row.tail for row in answer(rows, small(), Question("ann", "likes"), 9)] == ["cem", "bob", "ann"]
    assert rows.asked == 1


def test_predictions_of_a_file_and_of_a_dataset(folder):
    of_file = predict(READY, "people.tsv", head="ann", relation="knows", top=9)
    assert {row.tail for row in of_file} == {"ann", "cem", "dee"}
    assert {row.relation for row in predict(READY, "toy", head="x 1", tail="z")} == {"eats", "hunts [red]"}
    assert predict(READY, "people.tsv", "ann", "knows", top=9, known=True) != of_file


@pytest.mark.parametrize("endings", [ENDINGS, ENDINGS[1:]])
def test_the_name_of_a_model_also_means_the_first_of_it_that_has_weights(
    folder, somebodys_models, monkeypatch, endings
):
    monkeypatch.setattr(models, "names", lambda: ["mine", *sorted(f"mine{ending}" for ending in endings)])
    made = []
    monkeypatch.setattr(models, "factory", lambda name: made.append(name) or somebodys_models.Ready)
    predict("mine", "people.tsv", "ann", "knows")
    assert made == [f"mine{endings[0]}"]


def test_answers_are_shown_as_a_table_as_json_and_as_csv(folder, printed, listed):
    people = ("score-with", READY, "people.tsv")
    title, _, headings, _, *rows = printed(*people, "--head", "ann", "--relation", "knows", "--known").splitlines()
    assert title == "(ann, knows, ?) in people.tsv, by ready: 4 triples, 4 entities"
    assert headings.split() == ["Head", "Relation", "Tail", "Score", "Known"]
    assert {row.split()[2]: row.split()[4] for row in rows} == {"ann": "no", "bob": "yes", "cem": "no", "dee": "no"}
    found = listed(*people, "--tail", "ann", "--relation", "likes", "--top", "2")
    assert found["model"] == "ready"
    assert found["question"] == {"head": None, "relation": "likes", "tail": "ann"}
    assert len(found["predictions"]) == 2
    assert found["predictions"][0].keys() == {"head", "relation", "tail", "score", "known"}
    heading, *rows = printed(*people, "--tail", "ann", "--head", "bob", "--format", "csv").splitlines()
    assert heading == "head,relation,tail,score,known"
    assert {row.split(",")[1] for row in rows} == {"knows", "likes"}


def test_where_everything_is_known_that_is_said(printed, folder):
    (folder / "one.tsv").write_text("ann\tknows\tann\n")
    out = printed("score-with", READY, "one.tsv", "--head", "ann", "--relation", "knows")
    assert out.endswith("nothing is left: all of them are in the graph already; --known shows them\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("people.tsv --head anne --relation knows", "people.tsv has no entity 'anne': did you mean ann?"),
        ("people.tsv --head ann --relation know", "people.tsv has no relation 'know': did you mean knows?"),
        ("people.tsv --head ann --relation zz", "people.tsv has no relation 'zz': it has knows, likes"),
        ("people.tsv --head knows --relation likes", "'knows' is a relation, no entity of people.tsv"),
        ("people.tsv --head ann --relation bob", "'bob' is an entity, no relation of people.tsv"),
        ("people.tsv --head ann", "give two of head, relation and tail: the third is what is asked for"),
        ("people.tsv --head a --relation b --tail c", "give two of head, relation and tail: the third is what"),
        ("people.tsv --head ann --relation knows --top 0", "top must be at least 1, not 0"),
        ("peple.tsv --head a --relation b", "peple.tsv is no file, directory or dataset: did you mean people.tsv?"),
        ("metafan --head a --relation b", "metafan is no file, directory or dataset: did you mean metafam or"),
        ("0 --head a --relation b", "0 is no file, directory or dataset: mtbench list shows the datasets"),
        ("people.tsv --head ann --relation knows --run nowhere", "no run at nowhere (there is no result.json)"),
        ("people.tsv --head ann --relation knows --dataset toy", "--dataset names the dataset of a run: give --run"),
    ],
)
def test_a_name_that_is_spelled_wrong_is_one_clear_error(folder, refused, words, message):
    assert refused("score-with", READY, *words.split()).startswith(f"error: {message}")


def test_names_are_checked_before_a_model_is_made(folder):
    with pytest.raises(UsageError, match=r"people.tsv has no entity 'anne'"):
        predict("no model at all", "people.tsv", "anne", "knows")


def test_of_very_many_names_none_is_compared(folder, monkeypatch):
    monkeypatch.setattr(predictions, "MOST_COMPARED", 3)
    with pytest.raises(UsageError, match="no entity 'anne': it has ann, bob, cem, dee"):
        predict(READY, "people.tsv", "anne", "knows")


def test_a_file_called_like_a_dataset_does_not_hide_it(folder):
    (folder / "toy").write_text(TRIPLES, encoding="utf-8")
    assert "x 1" in graph_of("toy").entities
    for path in ("./toy", folder / "toy"):
        assert graph_of(path).entities.tolist() == ["ann", "bob", "cem", "dee"]


@pytest.fixture
def run(command, folder):
    """Make a run of a model without checkpoints, and give it a folder that holds some."""
    run_plan(Plan(READY, folder / "run", tasks=settings_of(("dual", "entity"), ["present"])))
    (folder / "run" / "checkpoints").mkdir()
    words = "people.tsv --head ann --relation knows --run"
    return lambda *more: command("score-with", READY, *words.split(), *more)


@pytest.mark.parametrize("path", ["run", "run/result.json", "run/entity-present"])
def test_a_run_is_named_by_its_folder_a_file_of_it_or_a_further_task(run, path):
    assert run(path)[0] == 0


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def test_a_run_that_cannot_be_used_says_why(run, folder):
    result, kept = folder / "run" / "result.json", folder / "run" / "checkpoints"
    kept.rmdir()
    assert "error: run holds no checkpoints: name the directory of a run" in run("run")[2]
    kept.mkdir()
    told = json.loads(result.read_text(encoding="utf-8"))
    without_ranks = {key: {} for key in ("metrics", "optimistic", "pessimistic")} | {
        "tie_rate": None,
        "ranks_sha256": None,
    }
    for changes, message in (
        ({"dataset": "mine"}, "mine test is not in the catalogue: pass the dataset of the run"),
        ({"content_sha256": "0" * 64}, "toy test: the run was made on content 000000000000, toy test has"),
        (without_ranks | {"status": "oom"}, "run did not finish (oom): run its command again, with --force"),
    ):
        edit(result, **changes)
        code, out, err = run("run")
        assert (code > 0, out) == (True, "")
        assert err.startswith(f"error: {message}")
        edit(result, **told)


def test_a_model_that_cannot_be_remade_says_how_to_train_again(run, somebodys_models, monkeypatch):
    def fit(self, train, valid):
        raise UsageError("the checkpoint is wider")

    monkeypatch.setattr(somebodys_models.Ready, "fit", fit)
    code, _, err = run("run")
    assert code == 2
    assert err.startswith("error: run: the model cannot be remade (the checkpoint is wider): train again with mtbench")


def test_a_relation_without_a_triple_cannot_be_asked_about(folder):
    with pytest.raises(UsageError, match="toy has no triple of the relation 'hates': nothing is known of it"):
        predict(READY, small(), head="ann", relation="hates")


def test_a_model_that_has_to_be_trained_says_so(folder, refused):
    err = refused("score-with", f"{thirdparty.NAME}:Hashing", "people.tsv", "--head", "ann", "--relation", "knows")
    assert "has no weights before it is trained: name a run of it with --run RUN, or take a model" in err
