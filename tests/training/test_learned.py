"""What a model tells about its training stands in the run directory, in figures and in pictures."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import thirdparty
import toys
from planned import Plan, run

from mtbench.files import pictures
from mtbench.training import learned
from mtbench.training.learned import draw, draw_assignments, draw_training
from mtbench.training.models import Assignment

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
drawn = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
HISTORY = {
    "train": [{"epoch": 1, "loss": 0.9, "valid_mrr": 0.1, "moves": 3}, {"epoch": 2, "loss": 0.7, "valid_mrr": 0.3}],
    "adapt": [{"epoch": 1, "loss": 0.8}],
}
TRUTH = {"knows": "social", "likes": "social", "eats": "nature", "hunts [red]": "nature", "sees": "nature"}


@pytest.fixture
def split():
    rows = [("a", relation, "b") for relation in TRUTH]
    return replace(toys.dataset(info=toys.record(), parts=(rows, rows[:1], rows, rows[:1])).test, tasks=TRUTH)


def assignment(relations, rows):
    return Assignment(relations, np.array(rows, dtype=float))


def test_the_agreement_with_the_ground_truth_leaves_out_what_has_none(split):
    found = learned.agreement(
        assignment(
            ["<empty slot 5>", "knows", "likes", "eats", "hunts [red]", "sees", "knows (inverse)"],
            [[0.1, 0.9], [0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.1, 0.9], [0.0, 1.0], [1.0, 0.0]],
        ),
        split,
    )
    assert found["without_truth"] == ["<empty slot 5>", "knows (inverse)"]
    assert [found[name] for name in ("tasks", "tasks_used", "patterns", "compared")] == [2, 2, 2, 5]
    assert found["hard"] == {"ari": pytest.approx(1), "nmi": pytest.approx(1)}
    assert 0 < found["soft"]["ari"] < 1
    assert 0 < found["soft"]["nmi"] < 1
    assert found["relations"]["likes"] == {"truth": "social", "task": 0, "alpha": [0.8, 0.2]}
    assert found["relations"]["<empty slot 5>"]["truth"] is None


def test_without_ground_truth_there_is_nothing_to_agree_with(split):
    found = learned.agreement(assignment(["knows", "eats"], [[1, 0], [1, 0]]), replace(split, tasks={}))
    assert (found["hard"], found["soft"], found["compared"], found["tasks_used"]) == (None, None, 0, 1)


@pytest.fixture
def telling(somebodys_models, monkeypatch, tmp_path):
    """Return a plan for a model that tells everything."""
    model = somebodys_models.Hashing
    monkeypatch.setattr(model, "history", lambda self: HISTORY, raising=False)
    names = {"train": ["knows", "likes"], "test": ["eats", "hunts [red]"]}
    found = {name: assignment(relations, [[0.6, 0.4], [0.2, 0.8]]) for name, relations in names.items()}
    monkeypatch.setattr(model, "assignments", lambda self: found, raising=False)
    monkeypatch.setattr(model, "peak_memory", lambda self: 12345, raising=False)
    return Plan(f"{thirdparty.NAME}:Hashing", tmp_path / "run")


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


@drawn
def test_a_run_keeps_what_its_model_tells_and_may_be_replaced(telling):
    directory, (result,) = run(telling)
    draw(directory, "title")
    expected = ["alpha.png", "history.json", "ranks.parquet", "result.json", "tasks.json", "training.png"]
    assert names_in(directory) == expected
    assert json.loads((directory / "history.json").read_text(encoding="utf-8")) == HISTORY
    told = json.loads((directory / "tasks.json").read_text(encoding="utf-8"))
    assert (told["dataset"], told["model"], list(told["graphs"])) == ("toy", "hashing", ["train", "test"])
    assert told["graphs"]["test"]["hard"] is None
    assert learned.summarise(directory) == []
    assert result.run.peak_memory_bytes == 12345
    run(replace(telling, force=True))
    assert names_in(directory) == [name for name in expected if not name.endswith("png")]


def test_without_matplotlib_only_the_pictures_are_missing(telling, monkeypatch):
    monkeypatch.setattr(pictures, "available", lambda: False)
    directory, _ = run(telling)
    draw(directory, "title")
    assert names_in(directory) == ["history.json", "ranks.parquet", "result.json", "tasks.json"]


def test_a_run_without_names_names_no_relation(telling, monkeypatch):
    monkeypatch.setattr(pictures, "available", lambda: False)
    directory, _ = run(replace(telling, with_names=False))
    assert names_in(directory) == ["history.json", "ranks.parquet", "result.json"]
    texts = [path.read_text(errors="replace") for path in directory.iterdir()]
    assert not any(name in text for text in texts for name in ("hunts", "likes"))


def test_a_line_per_graph_says_how_the_tasks_agree(split, tmp_path):
    told = {"test": learned.agreement(assignment(list(TRUTH), np.eye(2)[[0, 0, 1, 1, 1]]), split)}
    (tmp_path / "tasks.json").write_text(json.dumps({"graphs": told}), encoding="utf-8")
    assert learned.summarise(tmp_path) == [
        "test graph: 2 of 2 tasks used, 2 patterns in the ground truth; ARI 1.000 (soft 1.000), "
        "NMI 1.000 (soft 1.000) over 5 relations; 0 without ground truth left out"
    ]
    assert learned.summarise(tmp_path / "nowhere") == []


@pytest.fixture
def figures(monkeypatch):
    """Return the figures that are drawn, to be looked at."""
    made, page = [], pictures.page

    @contextmanager
    def looked_at(*arguments):
        with page(*arguments) as figure:
            made.append(figure)
            yield figure

    monkeypatch.setattr(pictures, "page", looked_at)
    return made


@drawn
def test_the_curves_are_the_history_and_the_best_epoch_is_marked(figures, tmp_path):
    draw_training(HISTORY, "a $ and a $", tmp_path / "training.png")
    loss, mrr, moves = figures[0].axes
    assert [list(line.get_ydata()) for line in loss.get_lines()] == [[0.9, 0.7], [0.8]]
    assert [axes.get_legend() is not None for axes in (loss, mrr, moves)] == [True, False, True]
    assert [text.get_text() for text in mrr.texts] == ["0.300 in epoch 2"]
    titles = [axes.get_title() for axes in (loss, mrr, moves)]
    assert titles == ["Training loss", "Validation MRR", "Relations moved to another task"]
    assert (tmp_path / "training.png").stat().st_size > 10_000


@drawn
@pytest.mark.parametrize("number", [3, 130])
def test_relations_stand_in_the_order_of_their_pattern_and_are_named_while_that_can_be_read(
    figures, tmp_path, split, number
):
    names = [*TRUTH, *(f"<empty slot {slot}>" for slot in range(number))]
    shares = np.random.default_rng(0).dirichlet([1, 1, 1], len(names))
    told = learned.agreement(Assignment(names, shares), split)
    draw_assignments({"test": told}, "title", tmp_path / "alpha.png")
    axes = figures[0].axes[0]
    assert axes.get_title() == "test graph"
    labels = [label.get_text() for label in axes.get_yticklabels()]
    order = ["eats", "hunts [red]", "sees", "knows", "likes"]
    assert labels[:5] == ([] if number > 100 else order)
    np.testing.assert_allclose(axes.images[0].get_array()[:5], shares[[names.index(name) for name in order]], atol=1e-6)
