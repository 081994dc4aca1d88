"""A board as Markdown and LaTeX: the figures of the board, names that stay text, and the best in bold."""

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from forging import PUBLISHED, copy_entry, drop_doubled
from site_toys import HOSTILE, offline

from leaderboard.board import ranking, reported, tables
from leaderboard.board.board import PAPER, STANDARD
from leaderboard.board.ranking import overlap, rank
from leaderboard.entries import checks, entries
from leaderboard.entries.cards import CARD_FILE, SubmissionError
from mtbench.analysis.leakage import contamination
from mtbench.data import catalog
from mtbench.data.loading import load
from mtbench.files.reading import LIMITS
from mtbench.files.tables import MARKDOWN


def line_of(board, slug: str):
    return next(line for line in board.lines(slug) if line.dataset in ("metafam", "fbnell"))


def test_fewer_than_three_seeds_are_told_and_neither_the_best_nor_in_its_way(toy_board):
    (part,) = (one for one in toy_board.datasets if one.name == "metafam")
    isdea = part.line(line_of(toy_board, "isdea").entry)
    picked = replace(
        isdea,
        entry=replace(isdea.entry, directory=Path("picked")),
        figures={(STANDARD, "dual"): {"mrr": replace(isdea.figure(), mean=0.999, deviation=None, seeds=1)}},
    )
    beside = replace(part, lines=(picked, isdea))
    assert (beside.leader, beside.leads(picked), beside.leads(isdea)) == (isdea, False, True)
    assert beside.leads(isdea, regime="trained")
    alone = replace(toy_board, datasets=(replace(part, lines=(picked,)),), paper=("metafam",))
    standing = replace(toy_board.standings[0], entry=picked.entry, covered=("metafam",))
    for text in (tables.markdown, tables.latex):
        shown = text(replace(alone, standings=(standing,)))
        assert "0.999" in shown
        assert "**0.999" not in shown
        assert "textbf" not in shown
    assert r"0.999\*" in tables.markdown(replace(alone, standings=(standing,)))
    assert r"0.999\rlap{$^{*}$} \\" in tables.latex(replace(alone, standings=(standing,)))
    three = replace(isdea, entry=picked.entry, figures={(STANDARD, "dual"): {"mrr": replace(isdea.figure(), mean=0.9)}})
    assert replace(part, lines=(three, isdea)).leads(three)


def test_baselines_and_chance_are_those_of_finished_runs(toy_board):
    (part,) = (one for one in toy_board.datasets if one.name == "metafam")
    result = line_of(toy_board, "isdea").entry.runs["metafam"][0].headline
    found = part.baselines[result.setting]
    assert list(found) == [*result.baselines, "chance"]
    assert found["chance"] == result.chance
    published = {metric: float(f"{value:.6g}") for metric, value in result.baselines["half_link_memory"].items()}
    assert found["half_link_memory"] == published


def test_without_the_dataset_entries_are_ranked_by_their_means(tmp_path):
    slugs = ("isdea", "isdea-homo", "nbfnet-homo")
    for slug in slugs:
        copy_entry(tmp_path, slug, seeds=(0, 1, 2), dataset="fbnell")
    with offline(tmp_path / "cache"):
        found = rank([entries.load(tmp_path / slug) for slug in slugs])
    (part,) = (one for one in found.datasets if one.name == "fbnell")
    assert part.remarks[0].startswith("no intervals and no tied groups")
    assert [(line.place.best, line.place.worst) for line in part.lines] == [(1, 1), (2, 2), (3, 3)]
    means = [line.figure().mean for line in part.lines]
    assert means == sorted(means, reverse=True)


def test_names_are_text_in_both_formats(toy_board):
    assert MARKDOWN.sub(r"\\\1", HOSTILE) in tables.markdown(toy_board)
    text = tables.latex(toy_board)
    assert r"\& " in text
    assert r"\$x\_1\$" in text


def test_of_several_printed_cells_one_without_an_error_is_quoted(toy_board):
    right = line_of(toy_board, "isdea").reported["dual", "mrr"]
    wrong = replace(right, erratum="printed twice")
    assert reported.best([wrong, right]) == right
    assert reported.best([wrong]) == wrong
    assert reported.best([]) is None


def test_every_entry_of_a_model_of_the_paper_stands_beside_its_row(tmp_path):
    for slug in ("isdea", "isdea-variant"):
        copy_entry(tmp_path, seeds=(0,), name=slug)
    found = rank([entries.load(folder) for folder in checks.folders(tmp_path)], draws=100)
    (part,) = (one for one in found.datasets if one.name == "metafam")
    assert [line.own for line in part.lines] == ["isdea-doubled", "isdea-doubled"]
    own, variant = (line.reported for line in sorted(part.lines, key=lambda line: line.entry.slug))
    assert own == variant == part.reported["isdea"]


def test_a_model_with_inverses_is_read_as_the_papers_code_ranked_once_all_its_runs_are(tmp_path):
    entry = copy_entry(tmp_path, "isdea", (0, 1))

    paths = [entry / "metafam" / f"seed{seed}" / "conventions.json" for seed in (0, 1)]

    def mean(convention):
        told = [json.loads(path.read_text(encoding="utf-8"))["protocols"]["dual"] for path in paths]
        return np.mean([one["metrics"]["mrr"] for run in told for one in run if one["convention"] == convention])

    def read():
        (line,) = rank([entries.load(entry)], draws=100).lines("isdea")
        return line.own, line.figure(PAPER).mean

    assert read() == ("isdea-doubled", pytest.approx(mean("isdea-doubled")))
    drop_doubled(paths[1])
    assert read() == ("isdea", pytest.approx(mean("isdea")))


def test_what_is_no_entry_is_refused(tmp_path):
    (tmp_path / "Not a slug").mkdir()
    with pytest.raises(SubmissionError, match="an entry is named with small letters"):
        entries.load(tmp_path / "Not a slug")
    (tmp_path / "empty").mkdir()
    shutil.copy(PUBLISHED / "isdea" / "card.toml", tmp_path / "empty")
    with pytest.raises(SubmissionError, match="no run directories in it"):
        entries.load(tmp_path / "empty")
    (tmp_path / "empty" / "card.toml").write_text("#" * (LIMITS[CARD_FILE] + 1), encoding="utf-8")
    with pytest.raises(SubmissionError, match=f"more than {LIMITS[CARD_FILE]:,} bytes"):
        entries.load(tmp_path / "empty")


def test_runs_on_another_version_of_the_dataset_are_not_ranked(tmp_path):
    entry = copy_entry(tmp_path, "isdea", (0,))
    for path in entry.rglob("result.json"):
        payload = json.loads(path.read_text(encoding="utf-8")) | {"dataset_version": "0.9"}
        path.write_text(json.dumps(payload), encoding="utf-8")
    (line,) = rank([entries.load(entry)], draws=100).lines("isdea")
    assert line.place is None
    assert any("outdated: dataset version 0.9, now" in remark for remark in line.remarks)


def test_of_a_graph_that_nobody_counted_nothing_is_known(monkeypatch):
    assert overlap("metafam", "somebodys-graph/train").seen is None
    assert overlap("metafam", "YAGO3-10").seen == 0  # of other names
    assert overlap("fbnell", "FB-25").seen is None  # of the same
    monkeypatch.setattr(ranking, "content_hash", lambda record: "another release")
    assert overlap("metafam", "metafam/train").seen is None


def test_who_learned_from_a_graph_that_nobody_counted_is_shown_and_not_ranked(tmp_path):
    entry = entries.load(copy_entry(tmp_path, "isdea", (0,)))
    card = replace(entry.card, pretraining_graphs=("somebodys-graph",))
    with offline(tmp_path / "cache"):
        (line,) = rank([replace(entry, card=card)], draws=100).lines("isdea")
    (remark,) = line.remarks
    assert line.place is None
    assert "the test triples in somebodys-graph" in remark
    assert "mtbench audit metafam --against FILE" in remark


def test_every_pair_of_released_datasets_is_counted_where_all_files_are_known():
    unseen = {record.id for record in catalog.records() if not record.part("train", "graph").content_sha256}
    assert unseen == {f"ingram-fb-{share}" for share in (25, 50, 75, 100)}
    graphs = [f"{name}{end}" for name in catalog.names() if name not in unseen for end in ("", "/train")]
    pairs = itertools.product(catalog.names(), graphs)
    assert [(name, graph) for name, graph in pairs if overlap(name, graph).seen is None] == []
    assert [overlap(name, "ingram-fb-25/train").seen for name in ("wn18rr", "fbnell")] == [0, None]


COUNTED = (
    ("wikitopics-mt4/health", "wikitopics-mt1/health"),
    ("wikitopics-mt3/art/train", "wikitopics-mt1/health"),
    ("fbnell/train", "fbnell-strict"),
    ("metafam/train", "metafam-strict"),
)
FILES = {
    "CoDEx-Small": "tsafavi/codex/*/data/triples/codex-s/train.txt",
    "NELL-995-inductive-v1": "kkteru/grail/*/data/nell_v1/train.txt",
    "WK-75": "bdi-lab/InGram/*/data/WK-75/train.txt",
}


def test_the_counts_are_those_of_the_files(mirror, monkeypatch):
    monkeypatch.setenv("MTBENCH_MIRROR", str(mirror))
    for graph, dataset in COUNTED:
        assert overlap(dataset, graph).seen == counted(dataset, graph)
    for graph, place in FILES.items():
        (path,) = (mirror / "raw.githubusercontent.com").glob(place)
        for dataset in ("fbnell", "wikitopics-mt1/taxonomy", "metafam"):
            assert overlap(dataset, graph).seen == counted(dataset, path), (dataset, graph)


def counted(dataset, graph):
    if str(graph).endswith("/train"):
        graph = load(str(graph).removesuffix("/train")).valid
    return contamination(load(dataset).test, graph).targets.exact.seen


def test_who_learned_from_many_test_targets_is_not_ranked(tmp_path):
    copy_entry(tmp_path, "tally", (0,), dataset="fbnell-strict")
    card = tmp_path / "tally" / "card.toml"
    for graphs, seen in (("", 0), ('pretraining_graphs = ["WN18RR", "FB15k-237"]\n', 233)):
        card.write_text(card.read_text(encoding="utf-8") + graphs, encoding="utf-8")
        with offline(tmp_path / "cache"):
            (line,) = rank([entries.load(tmp_path / "tally")], draws=100).lines("tally")
        assert (line.place is None) == (seen > 0)
    assert line.remarks == ("contaminated: it learned from FB15k-237, which has 233 of the 397 test triples",)
