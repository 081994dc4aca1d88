"""The questions over groups of graphs: regimes by what was learned from, means, clean graphs, strata, the page."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import mtbench
from leaderboard.board import groups, reported, tables
from leaderboard.board.board import PESSIMISTIC, STANDARD, Figure, Overlap, Place, regime_of
from leaderboard.board.groups import RELATIONS, SUITE, group_board
from leaderboard.board.ranking import _below_first, rank
from leaderboard.entries import checks, entries
from leaderboard.entries.submission import submit
from leaderboard.site import groups as pages
from leaderboard.site.cells import MISSING
from leaderboard.site.facts import Data
from leaderboard.site.front import badges
from mtbench.data import catalog
from mtbench.runs.directory import RunDirectory
from mtbench.runs.origin import RunInfo
from mtbench.settings.table import setting_of

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
GRAPHS = ("fbnell", "metafam", "wikitopics-mt1/health")
CARD = {"authors": ["A. Author"], "url": "", "licence": "MIT", "hardware": "a core"}


@pytest.mark.parametrize(
    ("dataset", "declared", "graphs", "regime"),
    [
        ("fbnell", "zero-shot", (), "elsewhere"),
        ("fbnell", "zero-shot", ("metafam/train", "FB15k-237"), "elsewhere"),
        ("fbnell", "zero-shot", ("fbnell/train",), "trained"),
        ("grail-nell-v1", "zero-shot", ("NELL-995-inductive-v1",), "trained"),
        ("ingram-wk-25", "zero-shot", ("WK-25",), "trained"),
        ("fb15k-237", "zero-shot", ("WN18RR", "FB15k-237"), "trained"),
        ("fbnell", "zero-shot", ("FBNELL/Train ",), "trained"),
        ("wn18rr", "zero-shot", ("WN18RR/train",), "trained"),
        ("codex-m", "zero-shot", ("CoDEx-Small",), "elsewhere"),
        ("fbnell", "test-time-adaptation", (), "adapted"),
        ("fbnell", "supervised", ("fbnell/train",), "adapted"),
    ],
)
def test_a_regime_is_what_was_learned_from(dataset, declared, graphs, regime):
    assert regime_of(dataset, declared, graphs) == regime


@pytest.fixture
def board(toy_board, monkeypatch):
    """Entries that differ in their MRR, their graphs, and what they have seen, on a group of three graphs."""
    monkeypatch.setattr(groups.catalog, "names", lambda group: list(GRAPHS))
    (line,) = (line for line in toy_board.lines("isdea") if line.dataset == "metafam")
    card = replace(line.entry.card, contaminated="It learned from everything.")
    told = {
        "best": (0.9, GRAPHS, (), line.entry.card),
        "seen": (0.5, GRAPHS, (Overlap("FB15k-237", 9, 10),), line.entry.card),
        "few": (0.95, GRAPHS[:2], (), line.entry.card),
        "unknown": (0.7, GRAPHS, (Overlap("a dump", None, 10),), line.entry.card),
        "leaky": (1.0, GRAPHS, (), card),
        "adapted": (0.8, GRAPHS, (), replace(line.entry.card, regime="fine-tuned")),
    }
    made = {slug: replace(line.entry, directory=Path(slug), card=replace(card_, name=slug), runs={})
            for slug, (_, _, _, card_) in told.items()}  # fmt: skip
    by_name = {part.name: part for part in toy_board.datasets}
    parts = []
    for name in GRAPHS:
        lines = [
            replace(
                line,
                entry=made[slug],
                dataset=name,
                figures={
                    (STANDARD, "full"): {"mrr": Figure(mrr - 0.3 * (name == "fbnell")), "hits@10": Figure(mrr)},
                    (PESSIMISTIC, "full"): {"mrr": Figure(mrr - 0.3)},
                    (STANDARD, "full-relation"): {"mrr": Figure(mrr), "hits@10": Figure(1.0)},
                    (PESSIMISTIC, "full-relation"): {"mrr": Figure(mrr)},
                },
                overlaps=overlaps if name == "fbnell" else (),
                faults=(),
            )
            for slug, (mrr, graphs, overlaps, _) in told.items()
            if name in graphs
        ]
        parts.append(replace(by_name[name], lines=tuple(lines)))
    return replace(toy_board, datasets=tuple(parts), entries=tuple(made.values()))


def test_who_has_all_graphs_is_ranked_by_the_mean_within_its_regime(board):
    found = group_board(board, SUITE, "entities+relations")
    ranks = {member.entry.slug: member.rank for member in found.members}
    assert ranks == {"best": 1, "seen": 2, "few": None, "unknown": None, "leaky": None, "adapted": 1}
    assert [member.entry.slug for member in found.of("adapted")] == ["adapted"]
    why = {member.entry.slug: " ".join(member.remarks) for member in found.members}
    assert "not run on wikitopics-mt1/health" in why["few"]
    assert "nobody has counted" in why["unknown"]
    assert "It learned from everything." in why["leaky"]


def test_the_mean_over_unseen_graphs_is_over_the_same_ones_for_all(board):
    found = group_board(board, SUITE, "entities+relations")
    assert found.clean("elsewhere") == ("metafam", "wikitopics-mt1/health")
    assert found.clean("adapted") == GRAPHS
    best = found.of("elsewhere")[0]
    assert found.unseen(best) == pytest.approx(0.9)
    few, adapted = (next(one for one in found.members if one.entry.slug == slug) for slug in ("few", "adapted"))
    assert found.unseen(few) is None
    assert found.unseen(adapted) == pytest.approx((0.5 + 0.8 + 0.8) / 3)
    baselines = [catalog.record(name).baselines_of("test/full/present/0") for name in GRAPHS]
    floor = sum(max(values["mrr"] for values in of.values()) for of in baselines) / 3
    assert found.lift(best).mean == pytest.approx(0.8 - floor)


def test_who_saw_the_pair_of_one_graph_is_compared_with_those_who_did(board):
    part = board.by_name["metafam"]
    lines = [replace(line, overlaps=(Overlap("metafam/train", 0, 10),)) for line in part.lines]
    touched = replace(board, datasets=(board.datasets[0], replace(part, lines=tuple(lines)), board.datasets[2]))
    found = group_board(touched, SUITE, "entities+relations")
    assert found.of("elsewhere") == ()
    assert [member.entry.slug for member in found.of("trained") if member.rank] == ["best", "seen"]


def score(triples):
    return (triples.sum(axis=1) * 7919 % 101).astype(float)


def test_a_full_run_is_submitted_checked_and_stands_on_the_page(tmp_path, monkeypatch):
    scored = mtbench.evaluate(score, mtbench.load("metafam").test, protocol="full")
    result = replace(scored, run=RunInfo(model="mod"))
    RunDirectory(tmp_path / "run").keep([result])
    made = submit([tmp_path / "run"], tmp_path / "results", slug="mod", card=CARD)
    assert made.lacking == ()
    assert not [problem for problem in checks.check(made.directory) if not problem.remark]
    monkeypatch.setattr(groups.catalog, "names", lambda group: ["metafam"])
    board = rank([entries.load(made.directory)], draws=10)
    (section, *_) = pages.sections(board, SUITE, Data())
    table = section.standings
    rows = {row.label: row for group in table.groups for row in group.rows}
    shown = dict(zip([column.label for column in table.columns], rows["mod"].cells, strict=True))
    strata = {row.label: row.metrics["mrr"] for row in result.by("query_half_link")}
    assert shown["MRR"].text == f"{result.metrics['mrr']:.3f}"
    assert shown["Pessimistic"].text == f"{result.pessimistic['mrr']:.3f}"
    assert len(strata) > 1
    assert {name: shown[pages.STRATA[name][0]].text for name in strata} == {
        name: f"{mrr:.3f}" for name, mrr in strata.items()
    }
    assert "Best heuristic baseline" in rows
    semma = reported.elsewhere()["semma"].figures["metafam"][0]
    reported_cells = dict(zip([column.label for column in table.columns], rows["SEMMA"].cells, strict=True))
    assert reported_cells["Pessimistic"].text == f"{semma:.3f}"


def test_a_group_is_a_table_for_a_paper(board):
    found = group_board(board, SUITE, "entities+relations")
    table = tables.group_table(found, "markdown")
    assert f"| 2 | seen | elsewhere | 3/3 | {0.4:.3f} | {0.5:.3f} |" in " ".join(table.split())
    assert re.search(r"\| - \| few \| elsewhere \| 2/3 (\| \(0\.\d{3}\) ){3}\|", " ".join(table.split()))
    assert len(re.findall(r"\(0\.\d{3}\)", table)) == 3 * len(re.findall(r"\b[12]/3\b", table))
    assert tables.group_table(found, "latex").count(r"\\") == 1 + 1 + 6


def test_the_figures_of_others_are_of_graphs_there_are():
    group = set(catalog.names("entities+relations"))
    for model, measured in reported.elsewhere().items():
        assert {catalog.find(name).id for name in measured.figures} == set(measured.figures), model
        mean = sum(mrr for name, (mrr, _) in measured.figures.items() if name in group) / len(group)
        assert model == "flock" or mean == pytest.approx(
            {"ultra-3g": 0.342, "motif": 0.349, "semma": 0.352, "trix": 0.368, "kg-icl-6l": 0.372}[model], abs=6e-4
        )
    assert setting_of("full") == SUITE.setting


def test_nobody_is_first_for_whose_ranks_nobody_stands(board, toy_board):
    parts = [
        replace(
            part,
            lines=tuple(replace(line, verified="" if line.entry.slug == "best" else "weights") for line in part.lines),
        )
        for part in board.datasets
    ]
    found = group_board(replace(board, datasets=tuple(parts)), SUITE, "entities+relations")
    assert {member.entry.slug: member.rank for member in found.of("elsewhere")}["seen"] == 1
    (best,) = (member for member in found.members if member.entry.slug == "best")
    assert (best.rank, best.remarks) == (None, ("unverified by us on fbnell, metafam, wikitopics-mt1/health",))
    (metafam,) = (part for part in toy_board.datasets if part.name == "metafam")
    first, *others = [line for line in metafam.lines if line.place is not None]
    assert metafam.leader == first
    changed = replace(metafam, lines=(replace(first, verified=""), *others))
    assert changed.leader != first
    assert not changed.leads(changed.lines[0])
    assert _below_first(changed.lines[0], Place(1, 3)) == Place(2, 3)
    assert _below_first(first, Place(1, 3)) == Place(1, 3)
    assert "unverified by us" in {badge.label for badge in badges(replace(toy_board, datasets=(changed,)), first.entry)}


def test_the_page_says_who_is_not_ranked_and_what_each_graph_has_shown(board):
    (section, *_) = pages.sections(board, RELATIONS, Data())
    rows = {row.label: row for group in section.standings.groups for row in group.rows}
    columns = [column.label for column in section.standings.columns]
    few = dict(zip(columns, rows["few"].cells, strict=True))
    assert (few["MRR"].detail, few["Graphs"].text) == ("not ranked", "2/3")
    assert few["Graphs"].tip.typed == "mtbench run isdea --group entities+relations --protocol full-relation"
    assert not {"Both", "Asked", "SEMMA"} & {*columns, *rows}  # queries of relations have no half-links
    (elsewhere, *_) = section.by_graph
    fbnell = next(row for row in elsewhere.groups[0].rows if row.label == "fbnell")
    shown = dict(zip([column.label for column in elsewhere.columns], fbnell.cells, strict=True))
    assert (shown["best"].detail, shown["best"].best) == ("", True)
    assert (shown["seen"].detail, shown["seen"].best) == ("90.0 % seen", False)
    assert shown["unknown"].detail == "seen: unknown"
    health = next(row for row in elsewhere.groups[0].rows if row.label == "mt1/health")
    assert dict(zip([column.label for column in elsewhere.columns], health.cells, strict=True))["few"] == MISSING


def test_a_group_is_rendered_for_a_paper_and_a_site_has_them_all(command, board, toy_entries, monkeypatch):
    monkeypatch.setattr("leaderboard.cli.entries._board", lambda entries, datasets: board)
    render = ("leaderboard", "render", "--entries", toy_entries, "--group", "entities+relations")
    code, text, _ = command(*render, "--format", "latex")
    assert code == 0
    assert text.count(r"\begin{tabular}") == 2
    code, _, err = command(*render)
    assert (code, "--group is of tables: add --format markdown or latex" in err) == (2, True)
    monkeypatch.setattr("leaderboard.cli.entries._board", lambda entries, datasets: replace(board, entries=()))
    code, _, err = command(*render, "--format", "markdown")
    assert code == 2
    assert "no entry was run on a graph of entities+relations yet: mtbench run MODULE:MODEL --group" in err


def test_scored_again_is_said_or_what_differs(command, toy_entries, monkeypatch):
    check = ("leaderboard", "check", toy_entries / "isdea", "--from-weights")
    monkeypatch.setattr("leaderboard.cli.entries.rescore", lambda entry: iter([("metafam seed 0", "abc", [])]))
    code, out, _ = command(*check)
    assert (code, out.splitlines()[-2:]) == (0, ["[isdea]", '"metafam seed 0" = "abc"'])
    monkeypatch.setattr("leaderboard.cli.entries.rescore", lambda entry: iter([("metafam seed 0", "abc", ["differs"])]))
    code, _, err = command(*check)
    assert (code, "differs" in err) == (1, True)
    assert command("leaderboard", "check", "--from-weights", "--entries", toy_entries)[0] == 2
