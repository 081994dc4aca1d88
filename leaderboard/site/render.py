"""Render a board as a folder of static pages: complete or absent, and the same bytes for the same entries."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from leaderboard.board.board import REGIME_NAMES, REGIMES, SEEDS, STANDARD, VIEWS, Board, DatasetBoard, Line
from leaderboard.board.groups import QUESTIONS, SUITE, Question
from leaderboard.board.tables import snippet
from leaderboard.entries.cards import TRAIN
from leaderboard.entries.entries import Entry, Watch, unwatched
from leaderboard.site import detail, facts, front, groups
from leaderboard.site.cells import CODE, code, dataset_page, model_page, slug
from leaderboard.site.facts import Data, strata
from mtbench.data import catalog
from mtbench.errors import MissingExtraError, UsageError
from mtbench.files import atomic
from mtbench.runs.result import EVALUATOR_VERSION
from mtbench.settings.setting import Setting
from mtbench.settings.table import HEADLINE

LISTING = "SHA256SUMS"
"""The file with the hash of every file of a site; a folder without it is not taken for a site, and never replaced."""
ASSETS = ("site.css", "site.js")
DATA = ("results", "replication", "transfer")
"""The folders of `leaderboard` that are no code."""
LARGEST = 50_000_000
"""The most bytes of a file of a run that is offered for download."""


def render(
    board: Board, entries: Path, out: Path, *, force: bool = False, watch: Watch = unwatched
) -> tuple[list[Path], list[str]]:
    """Write the pages of a board into a folder; ``entries`` is the folder it was read from.

    Returns the files, and the datasets that are not at hand, whose intervals, strata and audits are left out. ``watch``
    shows the progress. After an error the folder is what it was before. A site is replaced only with ``force``, any
    other folder never: then raises `UsageError`. Raises `MissingExtraError` without the extra ``site``.
    """
    expect_free(out, force=force)  # before minutes of work, and again when the folder is locked
    made, absent = files(board, entries, watch)
    made[LISTING] = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(made.items())
    ).encode()
    with atomic.locked(out):
        expect_free(out, force=force)
        atomic.replace_directory(out, made)
    return [out / name for name in made], absent


def expect_free(out: Path, *, force: bool = False) -> None:
    """Raise the errors of `render` before any work is done: a missing extra, or a folder that would be lost."""
    if any(find_spec(name) is None for name in ("jinja2", "matplotlib")):
        raise MissingExtraError("mtbench leaderboard render", "site")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file: name a folder with --out DIR")
    if atomic.is_free(out):
        return
    listing = out / LISTING
    if not listing.is_file():
        raise UsageError(f"{out} holds other files, no rendered site: name a new folder with --out DIR")
    if not force:
        raise UsageError(f"{out} holds a rendered site already: add --force to replace it")
    names = [line.partition("  ")[2] for line in listing.read_text(encoding="utf-8").splitlines()]
    atomic.expect_replaceable(out, (LISTING, *names))


def files(board: Board, entries: Path, watch: Watch = unwatched) -> tuple[dict[str, bytes], list[str]]:
    """Return the bytes of every file of a board's site, by path, and the datasets that are not at hand."""
    data = Data()
    made = {name: page().encode() for name, page in watch(list(_pages(board, entries, data)), "writing pages")}
    assets = resources.files("leaderboard.site") / "assets"
    made |= {name: (assets / name).read_bytes() for name in ASSETS}
    made |= {runs_file(entry): packed for entry in board.entries if (packed := _packed(_files(entry)))}
    made |= {CODE: _packed(_sources())} if code() == CODE else {}
    return made, data.absent


def runs_file(entry: Entry) -> str:
    """Return the address of the archive of an entry's runs."""
    return f"runs/{entry.slug}.zip"


def _packed(named: Iterable[tuple[str, Path]]) -> bytes:
    """Return files under their names as one archive, the same bytes for the same files; empty without files."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, path in named:
            # With neither the time nor the rights of the file: the archive depends on contents alone.
            about = zipfile.ZipInfo(name)
            about.external_attr = 0o644 << 16
            archive.writestr(about, path.read_bytes(), zipfile.ZIP_DEFLATED)
        empty = not archive.namelist()
    return b"" if empty else packed.getvalue()


def _files(entry: Entry) -> Iterator[tuple[str, Path]]:
    """Give the files of an entry's runs that are published; links and files above `LARGEST` are left out."""
    root = entry.directory.resolve()
    for run in (run for runs in entry.runs.values() for run in runs):
        for folder in run.directory.places():
            for path in (folder / name for name in detail.FILES):
                if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
                    continue
                if path.resolve().is_relative_to(root):  # no folder above it is a link out of the entry either
                    yield f"{entry.slug}/{path.relative_to(entry.directory).as_posix()}", path


def _sources() -> Iterator[tuple[str, Path]]:
    """Give the files of this package, for pages that know no public address of it."""
    for package in ("leaderboard", "mtbench", "reference_models"):
        root = Path(str(resources.files(package)))
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root)
            if path.is_file() and "__pycache__" not in name.parts and name.parts[0] not in DATA:
                yield f"{package}/{name.as_posix()}", path


def _pages(board: Board, entries: Path, data: Data) -> Iterator[tuple[str, Callable[[], str]]]:
    """Give the address of each page, and the function that writes it."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("leaderboard.site"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    transfers = facts.transfers(entries)
    shared: dict[str, object] = {
        "views": VIEWS,
        "default": STANDARD.key,
        "has_transfer": bool(transfers),
        "tabs": [("This paper's task", "index.html"), *((asked.label, f"{asked.key}.html") for asked in QUESTIONS)],
        "datasets": [(part.name, dataset_page(part.name)) for part in board.datasets],
        "evaluator": EVALUATOR_VERSION,
        "code": code(),
        "changed": max((entry.card.date for entry in board.entries), default=""),
    }

    def page(template: str, up: str, values: Callable[[], Mapping[str, object]]) -> Callable[[], str]:
        return lambda: environment.get_template(template).render(up=up, **shared, **values())

    yield "index.html", page("index.html", "", partial(_index, board))
    for question in QUESTIONS:
        yield f"{question.key}.html", page("group.html", "", partial(_question, board, question, data))
    for part in board.datasets:
        yield dataset_page(part.name), page("dataset.html", "../", partial(_dataset, part, data, board))
    for entry in board.entries:
        yield model_page(entry.slug), page("model.html", "../", partial(_model, board, entry, data))
    about = {"regimes": REGIME_NAMES, "said": front.REGIMES_SAID, "protocols": detail.PROTOCOLS, "seeds": SEEDS}
    about["groups"] = [f"{group}, {catalog.GROUPS[group]}" for group in SUITE.groups]
    yield "about.html", page("about.html", "", lambda: about)
    if transfers:
        yield "transfer.html", page("transfer.html", "", lambda: {"tables_shown": transfers})


def _index(board: Board) -> dict[str, object]:
    regimes = {standing.regime for standing in board.standings}
    return {
        "best": front.best(board),
        "leaders": front.leaders(board),
        "standings": front.standings(board),
        "scatter": front.scatter(board),
        "regimes": [(regime, REGIME_NAMES[regime]) for regime in REGIMES if regime in regimes],
        "unread": board.unread,
    }


def _question(board: Board, question: Question, data: Data) -> dict[str, object]:
    return {"question": question, "sections": groups.sections(board, question, data), "said": front.REGIMES_SAID}


def _ranked(part: DatasetBoard) -> tuple[list[Line], Setting]:
    """Return the lines to divide into strata, the best first, and in which setting: the headline, else the field's."""
    if ranked := [line for line in part.lines if line.place is not None]:
        setting = HEADLINE
    else:
        setting = SUITE.setting
        ranked = [line for line in part.lines if not line.faults and line.figure(STANDARD, setting.protocol)]

    def best_first(line: Line) -> tuple[float, str]:
        figure = line.figure(STANDARD, setting.protocol)
        return (-figure.mean if figure else 0.0), line.entry.slug

    return sorted(ranked, key=best_first), setting


def _dataset(part: DatasetBoard, data: Data, board: Board) -> dict[str, object]:
    names = {entry.slug: entry.card.name for entry in board.entries}
    audit, why = facts.findings(part, data)
    best, setting = _ranked(part)
    picture, tables, no_strata = strata("strata", best, data, setting)
    return {
        "part": part,
        "record": part.record,
        "standings": detail.standings(part),
        "unranked": detail.unranked(part.lines),
        "protocols": [(name, title, detail.of_dataset(part, name, names)) for name, title in detail.PROTOCOLS.items()],
        "audit": audit,
        "no_audit": why,
        "paper": facts.paper_against_ours(part, names),
        "strata": picture,
        "strata_of": setting.protocol,
        "full": detail.among_all(part),
        "strata_tables": tables,
        "no_strata": no_strata,
    }


def _model(board: Board, entry: Entry, data: Data) -> dict[str, object]:
    lines = board.lines(entry.slug)
    learned = []
    for line in lines:
        if not any(HEADLINE in run.results for run in entry.runs[line.dataset]):
            continue  # the pages of the groups have the strata of full rankings
        _, tables, why = strata(f"strata-{slug(line.dataset)}", [line], data, HEADLINE, drawn=False)
        learned.append((line.dataset, tables, why, facts.curves(entry, line.dataset), facts.tasks(entry, line.dataset)))
    return {
        "entry": entry,
        "card": entry.card,
        "own": entry.card.authors == front.OWN,
        "learns": all(
            f"{name}{TRAIN}" in run.headline.run.pretraining_graphs for name, runs in entry.runs.items() for run in runs
        ),
        "badges": front.badges(board, entry),
        "problems": board.problems.get(entry.slug, ()),
        "unranked": detail.unranked(lines),
        "protocols": [(name, title, detail.of_entry(lines, name)) for name, title in detail.PROTOCOLS.items()],
        "learned": learned,
        "runs": detail.runs_table(entry),
        "archive": runs_file(entry) if any(_files(entry)) else "",
        "snippet": snippet(board, entry),
        "settings": detail.settings(entry),
    }
