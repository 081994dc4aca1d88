"""The first page: who stands where, what a cell says that has no figure, badges, and the pictures."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from site_toys import offline, standing_board

from leaderboard.board import ranking
from leaderboard.board.board import STANDARD, Figure, Overlap, command, estimate
from leaderboard.board.ranking import rank
from leaderboard.entries import checks, entries
from leaderboard.site import detail, front
from leaderboard.site.cells import DASH, MISSING, Cell, Column, Group, Row, Table, filled
from mtbench.data import catalog

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
PUBLISHED = Path(__file__).resolve().parents[2] / "leaderboard" / "results"
MT1 = ("wikitopics-mt1/health", "wikitopics-mt1/taxonomy")


@pytest.fixture(scope="module")
def board(toy_board):
    suite = toy_board.paper
    told = {
        "good": dict.fromkeys(suite, 0.75),
        "bad": dict.fromkeys(suite, 0.25),
        "most": dict.fromkeys(suite[:-1], 0.5),
        "few-low": {"metafam": 0.25, MT1[0]: 0.5},
        "few-high": {"metafam": 1.0, MT1[0]: 0.5},
        "none": {},
    }
    return standing_board(toy_board, told)


def cells(table, name) -> dict[str, Cell]:
    (row,) = [row for group in table.groups for row in group.rows if row.label == name]
    return dict(zip([column.label for column in table.columns], row.cells, strict=True))


def test_entries_stand_by_coverage_then_by_lift_and_only_complete_ones_have_a_rank(board):
    found = [(one.entry.slug, len(one.covered), one.lift, one.rank) for one in board.standings]
    assert found == [
        ("good", 10, 0.25, 1),
        ("bad", 10, -0.25, 2),
        ("most", 9, 0.0, None),
        ("few-high", 2, 0.25, None),
        ("few-low", 2, -0.125, None),
        ("none", 0, None, None),
    ]
    table = front.standings(board)
    assert [row.label for row in table.groups[1].rows] == [slug for slug, *_ in found]
    assert [cells(table, slug)["Rank"].text for slug, *_ in found] == ["1", "2", *[DASH] * 4]
    assert cells(table, "few-low")["Coverage"].text == "2/10"


def test_the_best_heuristic_baseline_stays_above_all_others(board):
    pinned, others = front.standings(board).groups
    (row,) = pinned.rows
    assert (row.label, row.kind) == ("Best heuristic baseline", "baseline")
    assert len(others.rows) == 6
    cell = cells(front.standings(board), row.label)["MT1"]
    assert (cell.text, cell.tip.typed) == ("0.500", f"mtbench baselines {MT1[0]}")
    assert cell.tip.said == "; ".join(f"{name}: half link memory, 0.500" for name in MT1)


def test_a_scenario_shows_the_mean_of_its_two_and_each_when_it_is_opened(board):
    table = front.standings(board)
    opened = {
        column.opens: [one.label for one in table.columns if one.part == column.opens] for column in table.columns
    }
    assert {key: parts for key, parts in opened.items() if key} == {
        "metafam": [],
        "fbnell": [],
        "mt1": ["health", "taxonomy"],
        "mt2": ["location", "science"],
        "mt3": ["art", "infrastructure"],
        "mt4": ["health", "science"],
    }
    assert cells(table, "good")["MT1"].best
    assert not cells(table, "bad")["MT1"].best
    (strict,) = front.scenarios(replace(board, datasets=tuple(named(board, "metafam", "metafam-strict"))))
    assert [part.name for part in strict.datasets] == ["metafam"]
    assert [part.name for part in strict.each] == ["metafam-strict"]


def named(board, *names):
    return [replace(board.datasets[0], record=catalog.record(name)) for name in names]


def test_what_is_not_run_says_how_and_about_how_long_it_takes(board):
    table = front.standings(board)
    cell = cells(table, "few-low")["FBNELL"]
    assert (cell.text, cell.kind) == ("not run", "missing")
    assert "Estimated at " in cell.tip.said
    assert cell.tip.typed == command("isdea", ["fbnell"])
    half = cells(table, "few-low")["MT1"]
    assert (half.text, half.kind) == ("1 of 2", "missing")
    assert MT1[1] in half.tip.typed
    assert MT1[0] not in half.tip.typed
    assert "is not known" in cells(table, "none")["FBNELL"].tip.said


def test_an_estimate_grows_with_the_training_graph(board):
    (line, _) = board.lines("few-low")
    lines = [replace(line, seconds=60.0, seeds=(0,))]
    sizes = [catalog.record(name).parts["train/graph"].triples for name in ("metafam", *MT1)]
    assert estimate(lines, MT1) == pytest.approx(60 * sum(sizes[1:]) / sizes[0])
    assert estimate(lines, ["metafam"]) == 60
    assert estimate([replace(lines[0], seconds=None)], MT1) is None


def test_a_command_runs_what_the_package_has_and_names_what_it_has_not():
    assert command("mtdea-k4", ["fbnell"]).startswith("mtbench grid mtdea:tasks=4 --dataset fbnell --seeds 0-2 ")
    assert command("tally-adapted", ["fbnell"]).startswith("mtbench grid tally-adapted --dataset fbnell ")
    assert command("; rm -r", ["fbnell"]).startswith("mtbench grid MODULE:MODEL --dataset fbnell ")


def labels(board, slug):
    return {one.label: one for one in front.badges(board, next(one for one in board.entries if one.slug == slug))}


def test_badges_are_given_where_the_data_say_so(board):
    assert set(labels(board, "good")) == {"verified ranks", "retrained by us"}
    broken = replace(board, problems={"good": ("a figure is wrong",)})
    assert "verified ranks" not in labels(broken, "good")
    assert labels(broken, "good")["does not hold"].tip.said == "a figure is wrong"
    (first, *others) = board.entries
    assert first.slug == "good"
    card = replace(first.card, retrained=False, leaks=("metafam", "fbnell"))
    own = replace(board, entries=(replace(first, card=card, runs={"metafam": ()}), *others))
    assert set(labels(own, "good")) == {"verified ranks", "leak: metafam"}


@pytest.mark.parametrize(
    ("overlap", "touched"),
    [
        (Overlap("metafam/train", 9, 10), False),
        (Overlap("fb15k-237", None, 10), False),
        (Overlap("fbnell", 0, 10), False),
        (Overlap("fbnell", 1, 20), False),
        (Overlap("fbnell", 2, 20), True),
        (Overlap("metafam", None, 10), True),
    ],
)
def test_who_learned_from_test_targets_is_contaminated(board, overlap, touched):
    line = next(line for line in board.lines("good") if line.dataset == "metafam")
    assert replace(line, overlaps=(overlap,)).contaminated == ((f"it learned from {overlap}",) if touched else ())


def test_many_graphs_that_have_a_little_each_are_contaminated_together(board):
    line = next(line for line in board.lines("good") if line.dataset == "metafam")
    some = tuple(Overlap(name, seen, 100) for name, seen in (("a", 3), ("b", 2), ("c", 0), ("metafam/train", 99)))
    assert replace(line, overlaps=some).contaminated == ()
    more = (*some, Overlap("d", 1, 100))
    assert replace(line, overlaps=more).seen == (more[0], more[1], more[4])


def test_what_is_contaminated_is_shown_and_not_ranked(toy_entries, toy_board):
    entry = entries.load(toy_entries / "isdea")
    graphs = replace(entry.card, pretraining_graphs=("metafam",))
    found = rank([replace(entry, card=graphs)], draws=100)
    (line,) = found.lines("isdea")
    assert line.place is None
    assert "contaminated: it learned from metafam, which has 184 of the 184 test triples" in line.remarks
    (one,) = found.standings
    assert one.covered == ()
    badge = labels(found, "isdea")["contaminated: metafam"]
    assert badge.tip.said == "on metafam it learned from metafam, which has 184 of the 184 test triples."


def test_what_was_scored_again_is_said_while_its_ranks_are_those(tmp_path, monkeypatch):
    entry = entries.load(PUBLISHED / "isdea-homo")
    with offline(tmp_path):
        board = rank([entry], draws=100)
    assert labels(board, "isdea-homo")["re-scored from weights"].tip.said.endswith("metafam seed 0.")
    monkeypatch.setattr(ranking, "_ranks", lambda run: "0" * 64)
    assert "re-scored from weights" not in labels(board, "isdea-homo")


def test_a_run_out_of_memory_that_left_weights_is_shown(toy_entries, tmp_path):
    shutil.copytree(toy_entries / "out-of-memory", tmp_path / "entries" / "out-of-memory")
    (tmp_path / "entries" / "out-of-memory" / "metafam" / "seed0" / "checkpoints").mkdir()
    found = rank(*checks.gather(tmp_path / "entries"), draws=100)
    assert cells(front.standings(found), "Out of memory")["MetaFam"].text == "OOM"
    assert "re-scored from weights" not in labels(found, "out-of-memory")


def test_what_a_card_calls_contaminated_is_shown_everywhere_and_not_ranked(toy_entries):
    entry = entries.load(toy_entries / "isdea")
    found = rank(
        [replace(entry, card=replace(entry.card, contaminated="It learned from graphs like these."))], draws=100
    )
    assert all(line.place is None for line in found.lines("isdea"))
    assert all("contaminated: It learned from graphs like these." in line.remarks for line in found.lines("isdea"))
    assert found.standings[0].covered == ()
    shown = labels(found, "isdea")
    assert shown["contaminated"].tip.said == "It learned from graphs like these."
    assert not [label for label in shown if label.startswith("contaminated:")]


def test_columns_without_a_figure_are_left_out():
    rows = [Row("a", [MISSING, Cell("1")]), Row("b", [MISSING, MISSING])]
    table = filled(Table("t", "", "", [Column("empty"), Column("some")], [Group(rows)]))
    assert [column.label for column in table.columns] == ["some"]
    assert [row.cells for row in table.groups[0].rows] == [[Cell("1")], [MISSING]]


def test_the_pictures_show_the_best_of_each_dataset_and_every_lift(board):
    said = front.best(board)
    assert "metafam: few-high 1.000, 0.5" in said
    assert "fbnell: good 0.750, 0.5" in said
    picture = front.scatter(board)
    assert "good +0.250" in picture
    assert "few-low -0.125" in picture
    assert ">none<" not in picture
    assert picture.count('fill="var(--surface)"') == 3 + 1  # hollow marks, and the one of the legend


def test_few_seeds_are_told_and_never_bold_on_any_page(toy_board):
    assert "fbnell: not run" in front.drawing(toy_board)[1]
    table = front.standings(toy_board)
    assert cells(table, "MTDEA, K = 2")["MetaFam"].detail == "(2 seeds)"
    assert not cells(table, "ISDEA-homo")["FBNELL"].best
    (part,) = (one for one in toy_board.datasets if one.name == "metafam")
    ranked = {line.entry.slug: line for line in part.of("trained") if line.place is not None}
    seeds = {"isdea": 3, "hostile": 1}
    assert {slug: len(ranked[slug].seeds) for slug in seeds} == seeds
    figures = {slug: {(STANDARD, "dual"): {"mrr": Figure(0.9 / count, seeds=count)}} for slug, count in seeds.items()}
    lines = [replace(ranked[slug], figures=some) for slug, some in figures.items()]
    rows = detail.standings(replace(part, lines=tuple(lines)))[0].groups[0].rows
    assert [(row.cells[1].text, row.cells[1].detail, row.cells[1].best) for row in rows] == [
        ("0.300", "", True),
        ("0.900", "(1 seed)", False),
    ]
