"""Render a board as a folder of static pages: complete or absent, and the same bytes for the same entries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from leaderboard.board import readings
from leaderboard.board.board import Board, DatasetBoard
from leaderboard.entries.cards import TRAIN
from leaderboard.entries.entries import Entry
from leaderboard.site import detail, facts, front
from leaderboard.site.cells import slug
from leaderboard.site.strata import Data, strata
from mtbench.errors import MissingExtraError, UsageError
from mtbench.files import atomic
from mtbench.ranking.candidates import STANDARD
from mtbench.results.result import EVALUATOR_VERSION
from mtbench.results.runs import REGIMES

if TYPE_CHECKING:
    from jinja2 import Environment

LISTING = "SHA256SUMS"
"""Names every file of a site with its hash, for readers, and so that no other folder is taken for a site."""
ASSETS = ("site.css", "site.js")
LARGEST = 50_000_000
"""Bytes of a file of a run that is offered for download."""


def render(board: Board, entries: Path, out: Path, *, force: bool = False) -> list[Path]:
    """Write the pages of a board into a folder and return the files; ``entries`` is the folder it was read from.

    The folder is complete or what it was before. A site that is there already is replaced only with ``force``, and
    any other folder never. Raises `UsageError` for such a folder and `MissingExtraError` without the extra ``site``.
    """
    expect_free(out, force=force)
    made = files(board, entries)
    made[LISTING] = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(made.items())
    ).encode()
    with atomic.locked(out):
        expect_free(out, force=force)
        atomic.replace_directory(out, made)
    return [out / name for name in made]


def expect_free(out: Path, *, force: bool = False) -> None:
    """Raise what would stop a rendering before any work: a missing extra, or a folder that would be lost."""
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


def files(board: Board, entries: Path) -> dict[str, bytes]:
    """Return every file of the site of a board, path to bytes."""
    downloads = dict(_downloads(board))
    made = {name: data.encode() for name, data in _pages(board, entries, downloads)}
    assets = resources.files("leaderboard.site") / "assets"
    made |= {name: (assets / name).read_bytes() for name in ASSETS}
    return made | {"/".join(parts): path.read_bytes() for path, parts in downloads.items()}


def _downloads(board: Board) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Give the files of runs with their places in the site; what a link or a size hides is left out."""
    for entry in board.entries:
        root = entry.directory.resolve()
        for runs in entry.runs.values():
            for run in runs:
                for folder in [run.directory, *sorted(path for path in run.directory.iterdir() if path.is_dir())]:
                    for name in detail.FILES:
                        path = folder / name
                        if not path.is_file() or path.stat().st_size > LARGEST:
                            continue
                        if path.resolve().is_relative_to(root) and not path.is_symlink():
                            yield path, ("runs", entry.slug, *path.relative_to(entry.directory).parts)


def _pages(board: Board, entries: Path, downloads: Mapping[Path, Sequence[str]]) -> Iterator[tuple[str, str]]:
    environment = _environment()
    data = Data()
    transfers = facts.transfers(entries)
    shared: dict[str, object] = {
        "readings": readings.READINGS,
        "default": readings.STANDARD.key,
        "has_transfer": bool(transfers),
        "datasets": [(part.name, front.dataset_page(part.name)) for part in board.datasets],
        "models": [(entry.card.name, front.model_page(entry.slug)) for entry in board.entries],
        "evaluator": EVALUATOR_VERSION,
    }

    def page(template: str, up: str, **values: object) -> str:
        return environment.get_template(template).render(up=up, **shared, **values)

    yield "index.html", page("index.html", "", **_index(board))
    for part in board.datasets:
        yield f"datasets/{slug(part.name)}.html", page("dataset.html", "../", **_dataset(part, data, board))
    for entry in board.entries:
        values = _model(board, entry, data, downloads)
        yield f"models/{entry.slug}.html", page("model.html", "../", **values)
    yield "about.html", page("about.html", "", regimes=front.REGIME_NAMES, protocols=detail.PROTOCOLS)
    if transfers:
        yield "transfer.html", page("transfer.html", "", tables_shown=transfers)


def _index(board: Board) -> dict[str, object]:
    return {
        "regimes": [
            (
                front.REGIME_NAMES[regime],
                regime,
                front.matrices(board, regime),
                front.standings(board.datasets, regime),
            )
            for regime in board.overall
        ],
        "one_sided": any(line.one_sided for part in board.datasets for line in part.lines),
        "unranked": front.unranked((line for part in board.datasets for line in part.lines), board.unread),
        "counts": (
            len(board.entries),
            len(board.datasets),
            sum(len(runs) for entry in board.entries for runs in entry.runs.values()),
        ),
        "suite": len(board.suite),
    }


def _dataset(part: DatasetBoard, data: Data, board: Board) -> dict[str, object]:
    names = {entry.slug: entry.card.name for entry in board.entries}
    audit, why = facts.findings(part, data)
    best = sorted(
        (line for line in part.lines if line.place is not None),
        key=lambda line: (-(figure.mean if (figure := line.figure()) else 0.0), line.entry.slug),
    )
    picture, tables, no_strata = strata("strata", best, data)
    return {
        "part": part,
        "record": part.record,
        "standings": [table for regime in REGIMES for table in front.standings([part], regime, "../")],
        "unranked": front.unranked(part.lines, {}, "../"),
        "protocols": [
            (name, title, found)
            for name, title in detail.PROTOCOLS.items()
            if (found := detail.of_dataset(part, name, names)) or name in STANDARD
        ],
        "audit": audit,
        "no_audit": why,
        "paper": facts.paper_against_ours(part, names),
        "strata": picture,
        "strata_tables": tables,
        "no_strata": no_strata,
    }


def _model(board: Board, entry: Entry, data: Data, downloads: Mapping[Path, Sequence[str]]) -> dict[str, object]:
    lines = board.lines(entry.slug)
    pictures = []
    for line in lines:
        picture, tables, why = strata(f"strata-{slug(line.dataset)}", [line], data)
        learned = (facts.curves(entry, line.dataset), facts.tasks(entry, line.dataset))
        pictures.append((line.dataset, picture, tables, why, *learned))

    def published(path: Path) -> Sequence[str]:
        return downloads.get(path, ())

    return {
        "entry": entry,
        "card": entry.card,
        "learns": all(
            f"{name}{TRAIN}" in run.headline.run.pretraining_graphs for name, runs in entry.runs.items() for run in runs
        ),
        "regime": front.REGIME_NAMES[entry.card.regime],
        "problems": board.problems.get(entry.slug, ()),
        "unranked": front.unranked(lines, {}, "../"),
        "protocols": [(name, title, detail.of_entry(lines, name)) for name, title in detail.PROTOCOLS.items()],
        "pictures": pictures,
        "runs": detail.runs_table(entry, published),
        "further": detail.further_files(entry, published),
        "settings": detail.settings(entry),
    }


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("leaderboard.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
