"""A folder of entries for the tests of the site: published runs, and copies of them that are broken or hostile."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from forging import copy_entry, edit, published

from leaderboard.board.board import STANDARD, Board, Figure
from leaderboard.board.ranking import _standings, rank
from leaderboard.entries import checks, entries

HOSTILE = 'O\'Neill & "onload="alert(1)" {{ 7 * 7 }} $x_1$ | **bold**'
SCRIPT = "<script>alert('page')</script>"
CARD = """
name = {name}
model = "toy"
authors = ["A. Author", {name}]
url = "https://example.org/?a=1&b=2"
licence = "MIT"
regime = "zero-shot"
hardware = "one CPU core"
"""
EMPTY: dict[str, object] = {"status": "oom", "tie_rate": None, "ranks_sha256": None, "targets": 0}
EMPTY |= {key: {} for key in ("metrics", "optimistic", "pessimistic", "chance", "floors")}


@contextmanager
def offline(cache: Path) -> Iterator[None]:
    """Let only MetaFam be had, which is made here: a cache of its own has no other dataset."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTBENCH_CACHE", str(cache))
        yield


def make(folder: Path) -> Path:
    """Fill a folder with entries: published, one of them as it is, hostile, incomplete, out of memory; two regimes."""
    copy_entry(folder, "isdea", (0, 1, 2))
    copy_entry(folder, "mtdea-k2", (0, 1))
    copy_entry(folder, "isdea-homo", (0,), dataset="fbnell")
    hostile = _toy(folder, "hostile", HOSTILE)
    edit(hostile / "result.json", device=SCRIPT, hyperparameters={SCRIPT: SCRIPT, "width": 8})
    incomplete = _toy(folder, "incomplete", "Incomplete", 'pretraining_graphs = ["fb15k-237"]\n')
    edit(incomplete / "result.json", pretraining_graphs=["fb15k-237"])
    shutil.rmtree(incomplete / "dual-slots")
    oom = _toy(folder, "out-of-memory", "Out of memory")
    edit(oom / "result.json", **EMPTY, pretraining_graphs=[])
    for path in oom.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    for name in ("ranks.parquet", "conventions.json"):
        (oom / name).unlink()
    return folder


def board(folder: Path) -> Board:
    """Return the board of a folder; a few draws are enough for tests, and one entry has a problem."""
    found = [entries.load(one) for one in checks.folders(folder)]
    return rank(found, {"unreadable": [f"result.json is not JSON {SCRIPT}"]}, draws=100)


def standing_board(found: Board, told: Mapping[str, Mapping[str, float]]) -> Board:
    """Return a board of entries with an MRR per dataset, by their slugs, beside baselines of one half."""
    (line,) = (one for one in found.lines("isdea") if one.dataset == "metafam")
    entries = {
        slug: replace(line.entry, directory=Path(slug), card=replace(line.entry.card, name=slug), runs={})
        for slug in told
    }
    boards = [
        replace(
            part,
            baseline=("half_link_memory", 0.5),
            lines=tuple(
                replace(
                    line,
                    entry=entries[slug],
                    dataset=part.name,
                    figures={(STANDARD, "dual"): {"mrr": Figure(figures[part.name])}},
                    baseline=("half_link_memory", 0.5),
                    overlaps=(),
                )
                for slug, figures in told.items()
                if part.name in figures
            ),
        )
        for part in found.datasets
    ]
    made = _standings(tuple(entries.values()), boards, found.paper)
    return replace(found, datasets=tuple(boards), entries=tuple(entries.values()), standings=made, problems={})


def _toy(folder: Path, slug: str, name: str, more: str = "") -> Path:
    shutil.copytree(published("nbfnet-homo"), folder / slug / "metafam" / "seed0")
    (folder / slug / "card.toml").write_text(CARD.format(name=json.dumps(name)) + more, encoding="utf-8")
    return folder / slug / "metafam" / "seed0"
