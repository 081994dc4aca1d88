"""The site as files: every link leads somewhere, nothing is loaded from elsewhere, names are text, the same bytes."""

import hashlib
import json
import re
import shutil
import statistics
import zipfile
from dataclasses import replace
from email.message import Message
from html.parser import HTMLParser
from itertools import combinations, islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
import site_toys
from site_toys import HOSTILE, SCRIPT

from leaderboard.board.board import OPTIMISTIC, PAPER, PESSIMISTIC, STANDARD, VIEWS, Figure
from leaderboard.site import cells as views
from leaderboard.site import detail, facts, pictures, render
from leaderboard.site.facts import Data
from mtbench.data.loading import load
from mtbench.errors import MissingExtraError, MtbenchError, UsageError
from mtbench.names import HEAD, METRICS, TAIL
from mtbench.runs.directory import Run
from mtbench.settings.table import HEADLINE

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
VOID = {"meta", "link", "input", "br", "img", "hr"}
LOADING = {("link", "href"), ("script", "src"), ("img", "src"), ("image", "href"), ("use", "href"), ("iframe", "src")}
DATASETS = 10
ERRATUM = "std .178 beside a Hits@1 std of .023: probably .018"


class Page(HTMLParser):
    """The elements of a page with their attributes, what is open around each, and their text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.headings: list[int] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        assert len({key for key, _ in attrs}) == len(attrs), f"an attribute comes twice: {tag} {attrs}"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch(r"h\d", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.elements if attributes.get("id")]


@pytest.fixture(scope="module", autouse=True)
def _no_network(shared):
    pytest.importorskip("jinja2")
    with site_toys.offline(shared / "cache-offline"):
        yield


@pytest.fixture(scope="module")
def pages(toy_site) -> dict[str, Page]:
    return {
        path.relative_to(toy_site).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(toy_site.rglob("*.html"))
    }


@pytest.fixture
def line(toy_board):
    """The line of a published entry on MetaFam."""
    (found,) = [line for line in toy_board.lines("isdea") if line.dataset == "metafam"]
    return found


def test_there_is_a_page_for_everything(pages, toy_board):
    entries = {f"models/{entry.slug}.html" for entry in toy_board.entries}
    assert {"index.html", "about.html", *entries} < set(pages)
    assert len([name for name in pages if name.startswith("datasets/")]) == DATASETS
    assert "transfer.html" not in pages


def test_every_link_and_anchor_leads_somewhere(toy_site, pages):
    checked = 0
    for name, page in pages.items():
        for tag, attributes in page.elements:
            address = attributes.get("href") or attributes.get("src")
            if not address or urlsplit(address).scheme:
                continue
            path, _, anchor = address.partition("#")
            target = (toy_site / name).parent / unquote(path) if path else toy_site / name
            assert target.is_file(), f"{name}: {tag} {address}"
            assert target.resolve().is_relative_to(toy_site.resolve())
            if anchor:
                assert anchor in pages[target.resolve().relative_to(toy_site.resolve()).as_posix()].ids, (
                    f"{name}: {address}"
                )
            checked += 1
    assert checked > 400


def test_ids_are_unique_and_references_hold(pages):
    for name, page in pages.items():
        assert len(set(page.ids)) == len(page.ids), name
        for _, attributes in page.elements:
            for key in ("for", "aria-labelledby", "aria-describedby"):
                for one in (attributes.get(key) or "").split():
                    assert one in page.ids, f"{name}: {key}={one}"
            for value in attributes.values():
                for one in re.findall(r"url\(#([^)]+)\)", value or ""):
                    assert one in page.ids, f"{name}: url(#{one})"


def test_nothing_is_loaded_from_elsewhere(toy_site, pages):
    for name, page in pages.items():
        for tag, attributes in page.elements:
            for key, value in attributes.items():
                if (tag, key) in LOADING:
                    assert urlsplit(value).scheme in ("", "data"), f"{name}: {tag} {key}={value}"
                assert not key.startswith("on"), f"{name}: {tag} {key}"
                assert key not in ("style", "srcset", "ping", "formaction", "xmlns"), f"{name}: {tag} {key}"
            assert tag not in ("style", "iframe", "object", "embed", "base", "form"), f"{name}: {tag}"
        (policy,) = [one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert [one.get("src") for one in page.all("script")] == ["../" * name.count("/") + "site.js"]
    style = (toy_site / "site.css").read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style
    script = (toy_site / "site.js").read_text(encoding="utf-8")
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|eval\(|innerHTML|https?:", script)


def test_names_are_text_wherever_they_stand(toy_site, pages):
    assert HOSTILE in " ".join(pages["index.html"].text.split())
    page = pages["models/hostile.html"]
    assert SCRIPT in page.text
    assert SCRIPT in pages["datasets/metafam.html"].text  # the device
    assert SCRIPT in pages["index.html"].text  # the reason of what could not be read
    for path in toy_site.rglob("*.html"):
        assert "<script>" not in path.read_text(encoding="utf-8")
    assert {"https://example.org/?a=1&b=2"} <= {one.get("href") for one in page.all("a")}


def test_headings_and_tables_are_in_order(pages):
    for name, page in pages.items():
        assert page.headings[0] == 1, name
        assert page.headings.count(1) == 1, name
        assert all(after <= before + 1 for before, after in zip(page.headings, page.headings[1:], strict=False)), name
        assert len(page.all("caption")) == len(page.all("table")), name
        assert all(one.get("scope") in ("col", "row", "rowgroup") for one in page.all("th")), name
        assert all(one.get("role") == "img" for one in page.all("svg")), name


def test_rows_have_as_many_cells_as_the_heading(toy_site):
    for path in toy_site.rglob("*.html"):
        for table in re.findall(r"<table.*?</table>", path.read_text(encoding="utf-8"), re.DOTALL):
            head, *rows = [len(re.findall(r"<t[hd][ >]", row)) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)]
            assert set(rows) <= {head, 1}, path


def test_figures_are_those_of_the_board(pages, line):
    assert f"{line.figure().mean:.3f}" in pages["index.html"].text
    page = pages["datasets/metafam.html"].text
    assert f"reported {line.reported['dual', 'mrr'].mean:.3f}" in page
    assert views.signed(line.lift).text in page
    for view in VIEWS:
        for protocol in ("dual", "entity", "relation"):
            found = line.read(view, protocol)
            assert set(found) == set(METRICS)
            for metric, figure in found.items():
                assert views.number(metric, figure.mean) in page


def test_the_best_of_several_is_marked_but_not_in_the_papers_settings(toy_board):
    (part,) = (part for part in toy_board.datasets if part.name == "metafam")
    standard, *_, paper = detail.standings(part)
    marked = [row.label for row in standard.groups[0].rows if any(cell.best for cell in row.cells)]
    assert marked == ["ISDEA"]
    assert not any(cell.best for row in paper.groups[0].rows for cell in row.cells)


def test_a_row_by_the_paper_says_in_which_setting(toy_board):
    found = {table.view: table.groups[0].rows[0].detail for table in detail.of_entry(toy_board.lines("isdea"), "dual")}
    told = {view.key: "" for view in VIEWS}
    assert found == told | {PAPER.key: "setting isdea-doubled"}


def test_what_is_not_ranked_says_why(pages):
    text = pages["datasets/metafam.html"].text
    assert "Shown, but not ranked" in text
    assert "incomplete: lacks dual-slots (seed 0)" in text
    assert "out of memory (seed 0)" in text
    assert "unreadable" in pages["index.html"].text
    assert "OOM" in pages["models/out-of-memory.html"].text


def test_the_paper_stands_beside_with_its_errata(pages, toy_board, line):
    assert "OOM" in pages["datasets/wikitopics-mt3-art.html"].text
    told = f"dual ISDEA: reported {line.reported['dual', 'mrr']}, here {line.figure(PAPER)}"
    assert told in pages["datasets/metafam.html"].text
    printed = " ".join(page.text for page in pages.values())
    for erratum in {
        cell.erratum for part in toy_board.datasets for cells in part.reported.values() for cell in cells.values()
    }:
        assert erratum in printed
    assert f"Printed in the paper, with an error: {ERRATUM}." in pages["datasets/wikitopics-mt2-location.html"].text


def test_a_dataset_that_is_not_here_says_so(pages):
    for name in ("fbnell", "wikitopics-mt1-health"):
        text = pages[f"datasets/{name}.html"].text
        assert "No audit: this needs the dataset, which was not at hand" in text
        assert "known defects" in text
    assert "No audit" not in pages["datasets/metafam.html"].text
    assert "test graph" in pages["datasets/metafam.html"].text
    assert "Nothing is ranked on this dataset yet" in pages["datasets/wikitopics-mt1-health.html"].text
    assert "reported in the paper, not re-evaluated yet" in pages["datasets/wikitopics-mt1-health.html"].text


def test_no_page_knows_this_machine(toy_site, tmp_path_factory):
    for path in [*toy_site.rglob("*.html"), toy_site / render.LISTING]:
        assert str(tmp_path_factory.getbasetemp()) not in path.read_text(encoding="utf-8")
        assert "/home/" not in path.read_text(encoding="utf-8")


def test_runs_are_offered_as_they_are(toy_site, toy_entries, pages):
    with zipfile.ZipFile(toy_site / "runs" / "isdea.zip") as archive:
        names = archive.namelist()
        assert {Path(name).name for name in names} == {"result.json", "ranks.parquet", "conventions.json"}
        assert "isdea/metafam/seed0/entity-slots/ranks.parquet" in names
        for name in names:
            assert archive.read(name) == (toy_entries / name).read_bytes()
    assert "../runs/isdea.zip" in {one.get("href") for one in pages["models/isdea.html"].all("a")}


def test_a_link_out_of_an_entry_is_not_followed(toy_entries, tmp_path):
    copied = tmp_path / "results"
    shutil.copytree(toy_entries / "mtdea-k2", copied / "mtdea-k2")
    secret = tmp_path / "secret.json"
    path = copied / "mtdea-k2" / "metafam" / "seed0" / "conventions.json"
    path.rename(secret)
    path.symlink_to(secret)
    board = site_toys.board(copied)
    (entry,) = (entry for entry in board.entries if entry.slug == "mtdea-k2")
    names = {path.relative_to(entry.directory).as_posix() for path in dict(render._files(entry)).values()}
    assert "metafam/seed0/result.json" in names
    assert "metafam/seed0/conventions.json" not in names


def test_the_same_entries_give_the_same_bytes(toy_board, toy_entries, toy_site):
    """Of what is rendered the front, the first datasets and the learning curves: every kind of picture is drawn."""
    for name, page in islice(render._pages(toy_board, toy_entries, Data()), 3):
        assert (toy_site / name).read_text(encoding="utf-8") == page(), name
    (entry,) = (entry for entry in toy_board.entries if entry.slug == "isdea")
    assert render._packed(render._files(entry)) == (toy_site / "runs" / "isdea.zip").read_bytes()
    assert facts.curves(entry, "metafam") in (toy_site / "models" / "isdea.html").read_text(encoding="utf-8")


def test_the_code_is_at_the_address_of_the_project_and_until_there_is_one_in_an_archive(toy_site, monkeypatch):
    with zipfile.ZipFile(toy_site / views.CODE) as archive:
        assert {f"{package}/__init__.py" for package in ("leaderboard", "mtbench", "reference_models")} <= set(
            archive.namelist()
        )
        assert not [name for name in archive.namelist() if name.startswith("leaderboard/results")]
    about = Message()
    about["Project-URL"] = "Repository, https://example.org/mtbench"
    monkeypatch.setattr(views.metadata, "metadata", lambda name: about)
    assert views.code() == "https://example.org/mtbench"


def test_every_file_is_listed_with_its_hash(toy_site):
    listed = dict(
        line.split("  ")[::-1] for line in (toy_site / render.LISTING).read_text(encoding="utf-8").splitlines()
    )
    files = [path for path in toy_site.rglob("*") if path.is_file() and path.name != render.LISTING]
    assert {
        path.relative_to(toy_site).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    } == listed


def test_a_site_is_replaced_only_when_asked_and_another_folder_never(toy_board, toy_entries, tmp_path, monkeypatch):
    monkeypatch.setattr(render, "files", lambda *given: ({"index.html": b"new"}, []))
    out = tmp_path / "site"
    render.render(toy_board, toy_entries, out)
    with pytest.raises(UsageError, match="add --force"):
        render.render(toy_board, toy_entries, out)
    monkeypatch.setattr(render, "files", lambda *given: ({"other.html": b"newer"}, []))
    render.render(toy_board, toy_entries, out, force=True)
    assert sorted(path.name for path in out.iterdir()) == [render.LISTING, "other.html"]
    (out / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"mine\.txt"):
        render.render(toy_board, toy_entries, out, force=True)
    other = tmp_path / "other"
    other.mkdir()
    (other / "index.html").write_text("mine")
    with pytest.raises(UsageError, match="no rendered site"):
        render.render(toy_board, toy_entries, other, force=True)
    with pytest.raises(UsageError, match="is a file"):
        render.render(toy_board, toy_entries, other / "index.html", force=True)


def test_without_the_extra_nothing_is_read(toy_board, toy_entries, tmp_path, monkeypatch):
    monkeypatch.setattr(render, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'extra "site"'):
        render.render(toy_board, toy_entries, tmp_path / "site")


def test_a_matrix_of_transfer_has_a_page(toy_board, toy_entries, tmp_path):
    entries = tmp_path / "results"
    entries.mkdir()
    place = tmp_path / "transfer" / "v1"
    place.mkdir(parents=True)
    told = {
        "name": "wikitopics-v1, protocol dual",
        "model": SCRIPT,
        "topics": ["art", "people"],
        "mrr": [[0.75, 0.031], [None, 0.5]],
        "not_scored": [{"train": "people", "test": "art", "status": "oom"}],
        "scenarios": [],
    }
    (place / "matrix.json").write_text(json.dumps(told))
    made, _ = render.files(replace(toy_board, datasets=(), entries=(), standings=()), entries)
    page = Page(made["transfer.html"].decode())
    assert "0.750 0.031" in page.text
    assert "oom" in page.text
    assert SCRIPT in page.text
    assert "transfer.html" in made["index.html"].decode()
    (place / "matrix.json").write_text("{}")
    with pytest.raises(MtbenchError, match="no matrix of mtbench grid"):
        facts.transfers(entries)


def test_a_mark_stands_at_its_mean_between_its_deviations():
    drawn = pictures.draw_panels({"dual": [pictures.Row("a", (Figure(0.25), Figure(0.5, 0.1)))]}, ("x", "y"), hollow=0)
    first, deviation, second = drawn.axes[0].lines
    assert [(*one.get_xdata(),) for one in (first, deviation, second)] == [(0.25,), (0.4, 0.6), (0.5,)]
    assert first.get_markerfacecolor() == pictures.SURFACE
    assert second.get_color() == deviation.get_color() == pictures.SERIES[1]
    assert deviation.get_ydata()[0] == second.get_ydata()[0] > first.get_ydata()[0]


def test_a_picture_names_what_it_shows_as_text():
    rows = [pictures.Best("<a>", 0.25, SCRIPT, 0.5), pictures.Best("$b$", 0.5, "", None)]
    page = Page(pictures.inline(pictures.draw_best(rows), "x", 'said "<so>"'))
    for text in (SCRIPT, "<a>", "$b$", "not run", 'said "<so>"'):
        assert text in page.text
    assert page.all("title") == [{"id": "x-title"}]


def test_a_picture_has_the_colours_of_the_page_and_no_style_of_its_own():
    history = {f"seed {number}": [{"epoch": 1, "loss": 2.0, "valid_mrr": 0.5}] for number in range(3)}
    drawn = pictures.draw_curves(history)
    found = pictures.inline(drawn, "x", "said")
    assert not re.search("#[0-9a-f]{6}|style|xmlns|font-family", found)
    assert {f"var(--series-{number})" for number in (1, 2, 3)} <= set(re.findall(r"var\(.*?\)", found))
    assert pictures.inline(drawn, "x", "said") == found
    alone = pictures.alone(drawn, "said")
    for number, colour in enumerate(pictures.SERIES[:2], 1):
        assert f"--series-{number}:{colour};" in alone
    assert "prefers-color-scheme:dark" in alone


def test_the_style_sheet_has_every_colour_of_the_pictures(toy_site):
    style = (toy_site / "site.css").read_text(encoding="utf-8")
    for colour, variable in pictures.VARIABLES.items():
        assert f"--{variable}: {colour};" in style or (variable, colour) == ("surface", "#ffffff")


def test_labels_stand_at_their_points_and_keep_apart():
    points = [pictures.Point(f"model {place}", 60.0 + place % 3, 0.001 * place) for place in range(12)]
    figure = pictures.draw_points([*points, pictures.Point("alone", 3600.0, 0.1)], {60: "1 min"}, ("ranked", "not"))
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert "alone" in {text.get_text() for text in figure.axes[0].texts}
    assert 2 <= len(boxes) < 13
    assert not [(one, other) for one, other in combinations(boxes, 2) if one.overlaps(other)]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (views.duration(59.4), "59 s"),
        (views.duration(61), "1.0 min"),
        (views.duration(7200), "2.0 h"),
        (views.duration(None), views.DASH),
        (views.memory(999_000_000), "999 MB"),
        (views.memory(1_250_000_000), "1.2 GB"),
        (views.signed(0.0004), "0.000"),
        (views.signed(-0.1), f"{views.MINUS}0.100"),
        (views.signed(0.25), "+0.250"),
        (views.count(12_345), "12,345"),
        (views.seen([views.Overlap("a", 0, 10), views.Overlap("b", None, 10)]), "unknown"),
        (views.seen([views.Overlap("a", 1, 10), views.Overlap("b", 0, 10)]), "10.0 %"),
        (views.seen([]), "no graph"),
        (views.Cell(views.seen([views.Overlap("a", 5, 10), views.Overlap("b", None, 10)]).detail), "at least 50.0 %"),
    ],
)
def test_numbers_are_written_to_be_read(cell, text):
    assert cell.text == text


def test_errata_are_numbered_from_1(line):
    notes = {}
    printed = [replace(line.reported["dual", "mrr"], erratum=text) for text in ("one", "", "two", "one")]
    assert [views.paper_cell(cell, notes).note for cell in printed] == [1, None, 2, 1]
    assert notes == {"one": 1, "two": 2}


def test_bounds_stand_below_a_figure_where_ties_decide():
    tied, plain = (detail._cell(Figure(0.5, None, low, 0.5), None, "mrr", {}) for low in (0.25, 0.5))
    assert (tied.below, plain.below) == ("0.250 to 0.500", "")


def test_settings_that_datasets_share_are_told_once(toy_board):
    (entry,) = (entry for entry in toy_board.entries if entry.slug == "hostile")
    (run,) = entry.runs["metafam"]

    def setting(**values):
        info = replace(run.headline.run, hyperparameters=values)
        return (replace(run, results={HEADLINE: replace(run.headline, run=info)}),)

    runs = {"metafam": setting(width=8, depth=1), "fbnell": setting(width=8, depth=2)}
    told = detail.settings(replace(entry, runs=runs))
    assert told == [
        ("On all datasets", [("width", "8")]),
        ("On metafam", [("depth", "1")]),
        ("On fbnell", [("depth", "2")]),
    ]


@pytest.mark.parametrize(
    ("slug", "told"),
    [
        ("isdea", "the training graph of each dataset"),
        ("incomplete", "fb15k-237"),
        ("out-of-memory", "not told"),
    ],
)
def test_what_a_model_learned_from_is_what_its_runs_say(pages, slug, told):
    text = pages[f"models/{slug}.html"].text
    assert text.partition("Learned from ")[2].startswith(f"{told} Evaluation setting")


def test_bounds_are_those_of_the_runs(line):
    runs = [run.headline for run in line.entry.runs["metafam"]]
    best, worst = line.read(OPTIMISTIC), line.read(PESSIMISTIC)
    for metric in METRICS:
        assert best[metric].mean == statistics.fmean(run.optimistic[metric] for run in runs)
        assert worst[metric].mean == statistics.fmean(run.pessimistic[metric] for run in runs)
    found = line.read(STANDARD)
    assert (found["mr"].low, found["mr"].high) == (best["mr"].mean, worst["mr"].mean)
    assert (found["mrr"].low, found["mrr"].high) == (worst["mrr"].mean, best["mrr"].mean)
    assert isinstance(line.entry.runs["metafam"][0], Run)


def test_strata_are_those_of_the_package(line):
    data = Data()
    found = data.get("metafam")
    results = [run.headline for run in line.entry.runs["metafam"]]
    expected = [result.by("degree", found) for result in results]
    rows = facts.stratum_rows("degree", [line], found, data, HEADLINE)
    assert len(rows) == len(expected[0]) > 1
    for row, *each in zip(rows, *expected, strict=True):
        assert {f"{one.label} ({one.targets:,})" for one in each} == {row.label}
        assert row.chance == pytest.approx(each[0].chance["mrr"])
        (figure,) = row.means
        assert figure.mean == pytest.approx(np.mean([one.metrics["mrr"] for one in each]))
        assert figure.deviation == pytest.approx(np.std([one.metrics["mrr"] for one in each], ddof=1))
    assert facts.stratum_rows("relation_seen", [], found, data, HEADLINE) == []


def test_strata_are_shown_where_there_are_several_of_so_many_entries(toy_board, monkeypatch):
    lines = [line for line in toy_board.datasets[0].lines if line.dataset == "metafam" and line.place is not None]
    monkeypatch.setattr(facts, "MOST", 2)
    picture, (table,), why = facts.strata("x", lines, Data(), HEADLINE)
    assert (table.caption, why) == ("By the degree of the ends", "")
    names = [line.name for line in lines]
    assert len(names) == 3
    assert [column.label for column in table.columns] == [*names[:2], "Chance"]
    assert Page(picture).all("svg")
    assert facts.strata("x", lines, Data(), HEADLINE, drawn=False)[0] == ""


def test_a_run_on_another_version_of_the_dataset_has_no_strata(line):
    data = Data()
    found = data.get("metafam")
    run = line.entry.runs["metafam"][0]
    assert data.by_target(run, found, HEADLINE) is not None
    other = replace(run, results={HEADLINE: replace(run.headline, content_sha256="other")})
    assert data.by_target(other, found, HEADLINE) is None
    assert data.by_target(replace(run, results={}), found, HEADLINE) is None


@pytest.fixture
def at_hand(mirror, tmp_path):
    """Every dataset is at hand, in a cache of the test's own: to the other tests only MetaFam is."""
    with site_toys.offline(tmp_path / "cache"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTBENCH_MIRROR", str(mirror))
        yield


@pytest.mark.usefixtures("at_hand")
def test_with_the_dataset_there_is_an_audit_and_no_name_of_a_target(toy_entries, tmp_path):
    only = tmp_path / "results"
    shutil.copytree(toy_entries / "isdea-homo", only / "isdea-homo")
    board = site_toys.board(only)
    made, _ = render.files(
        replace(board, datasets=tuple(part for part in board.datasets if part.name == "fbnell")), only
    )
    page = Page(made["datasets/fbnell.html"].decode())
    assert "No audit" not in page.text
    assert "By half-links in the inference graph" in page.text
    assert "unknown" not in page.text
    split = load("fbnell").test
    names = {str(name) for name in split.entities[np.unique(split.targets[:, [HEAD, TAIL]])]}
    assert len(names) > 100
    pages = " ".join(data.decode() for name, data in made.items() if name.endswith((".html", ".json")))
    assert [name for name in names if len(name) > 4 and name in pages] == []


def test_the_command_writes_pages(command, toy_entries, tmp_path, monkeypatch):
    # The figures of the paper are drawn by the tests of the site.
    monkeypatch.setattr(facts, "paper_against_ours", lambda part, names: "")
    few = tmp_path / "results"
    shutil.copytree(toy_entries / "out-of-memory", few / "out-of-memory")
    out = tmp_path / "site"
    code, said, err = command("leaderboard", "render", "--entries", few, "--out", out)
    assert (code, err) == (0, "")
    missing, written = said.splitlines()
    assert missing.startswith("left out, because these datasets are not here: intervals, strata and audits of ")
    assert "mtbench fetch " in missing
    assert " metafam " not in missing
    assert written.endswith(f"open {out / 'index.html'}")
    assert "Out of memory" in (out / "index.html").read_text(encoding="utf-8")
    assert command("leaderboard", "render", "--entries", few, "--out", out)[0] == 2
    code, said, _ = command("leaderboard", "render", few, "--format", "markdown")
    assert code == 0
    assert command("leaderboard", "render", few, "--entries", few)[0] == 2
    assert "| best heuristic baseline |" in said
    table = tmp_path / "board.tex"
    assert command("leaderboard", "render", "--entries", few, "--format", "latex", "--out", table)[0] == 0
    assert r"\toprule" in table.read_text(encoding="utf-8")
    assert command("leaderboard", "render", "--entries", few, "--format", "latex", "--out", table)[0] == 2


def test_the_command_refuses_before_it_reads(command, tmp_path):
    code, _, err = command("leaderboard", "render", "--format", "markdwon")
    assert code == 2
    assert "did you mean markdown" in err
    code, _, err = command("leaderboard", "render", "--entries", tmp_path, "--out", tmp_path / "site")
    assert code == 1
    assert "holds no entries" in err
    assert not (tmp_path / "site").exists()


def test_what_cannot_be_read_is_named_on_the_page(command, toy_entries, tmp_path):
    few = tmp_path / "results"
    shutil.copytree(toy_entries / "out-of-memory", few / "good")
    shutil.copytree(toy_entries / "out-of-memory", few / "broken")
    (few / "broken" / "metafam" / "seed0" / "result.json").write_text("{")
    code, said, err = command("leaderboard", "render", "--entries", few, "--format", "markdown")
    assert code == 0
    assert "broken" not in said
    assert "left out: broken: broken/metafam/seed0/result.json: not valid JSON" in err
