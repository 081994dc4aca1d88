"""Runs become an entry: validated, laid out beside a card, and put in place whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from leaderboard.entries import cards, checks
from leaderboard.entries.cards import CARD_FILE, SLUG, TRAIN, Card, Problem, SubmissionError, plain
from leaderboard.entries.files import RUN_FILES, SIZES, TASK_FOLDERS, account
from leaderboard.entries.reading import read_json
from leaderboard.entries.run_checks import content_sha256, may_name_targets
from leaderboard.entries.shapes import result_shape
from mtbench.data import catalog
from mtbench.errors import ResultError
from mtbench.experiments.told import TASKS_FILE
from mtbench.files import atomic
from mtbench.results import result as results
from mtbench.results.rescoring import FORGIVEN
from mtbench.results.result import Result
from mtbench.results.runs import RANKS_FILE, RESULT_FILE

SHOWN = 3
"""Of the problems of one submission: the first ones usually explain the others."""

OPTIONS = {
    "name": "--title TEXT",
    "authors": "--authors 'A. Author, B. Author'",
    "url": "--url https://...",
    "licence": "--licence NAME",
    "hardware": "--hardware TEXT",
}
"""What is typed for a field of the card that the runs do not tell."""


@dataclass(frozen=True)
class Submitted:
    """A finished entry; ``unnamed`` are the datasets whose targets' names were left out, ``remarks`` worth knowing."""

    directory: Path
    card: Card
    seeds: Mapping[str, tuple[int, ...]]
    unnamed: tuple[str, ...]
    remarks: tuple[Problem, ...]


@dataclass(frozen=True, eq=False)
class _Run:
    """A run that was found: its results by the folder they lie in, "" for the run's own."""

    directory: Path
    results: Mapping[str, Result]

    @property
    def headline(self) -> Result:
        return self.results[""]

    @property
    def folder(self) -> str:
        return f"{self.headline.dataset.replace('/', '-')}/seed{self.headline.run.seed}"


def submit(
    given: Sequence[Path],
    to: Path,
    *,
    slug: str | None = None,
    card: Mapping[str, object] | None = None,
    force: bool = False,
) -> Submitted:
    """Make an entry of the runs at or below ``given`` in the folder ``to`` and return it.

    The runs are those of one model: all its datasets and seeds. ``card`` has fields of the card as they stand in
    ``card.toml``; what the runs tell (model, regime, pre-training graphs, hardware) is filled in from them, and the
    name of the entry, ``slug``, from the model. Only results, ranks, conventions, history and tasks are copied, and
    of data that may not be passed on no names. The entry is checked as `leaderboard.entries.checks.check` does before
    it is renamed into place, so that whatever fails or is killed leaves no entry. With ``force`` it takes the
    place of the entry of that name, whose runs are kept only if they are among those given.
    Raises `SubmissionError` for runs that do not hold or do not belong together, a card that lacks fields, and an
    entry that exists.
    """
    runs = [_read(directory) for directory in find(given)]
    _expect_one_model(runs)
    filled = fill(card or {}, runs)
    slug = _slug(slug or re.sub(r"[^a-z0-9._-]+", "-", filled.model.lower()).strip("-._"))
    target = to / slug
    _expect_replaceable(target, force=force)
    with tempfile.TemporaryDirectory(prefix="mtbench-") as temporary, atomic.storage_errors(to):
        entry = Path(temporary) / slug
        for run in runs:
            _copy(run, entry / run.folder)
        (entry / CARD_FILE).write_text(as_toml(filled), encoding="utf-8")
        others = [path for path in _siblings(to) if path.name != slug]
        found = checks.check(entry, others)
        if wrong := [str(problem) for problem in found if not problem.remark]:
            more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
            raise SubmissionError(f"nothing was submitted: {'; '.join(wrong[:SHOWN])}{more}")
        files = {str(path.relative_to(entry)): path.read_bytes() for path in _files(entry)}
        with atomic.locked(target):
            _expect_replaceable(target, force=force)  # another process may have been here
            atomic.replace_directory(target, files)
    seeds: dict[str, tuple[int, ...]] = {}
    for run in sorted(runs, key=lambda run: (run.headline.dataset, run.headline.run.seed)):
        seeds[run.headline.dataset] = (*seeds.get(run.headline.dataset, ()), run.headline.run.seed)
    hidden = {run.headline.dataset for run in runs if _withholds(run)}
    return Submitted(target, filled, seeds, tuple(sorted(hidden)), tuple(one for one in found if one.remark))


def find(given: Iterable[Path]) -> list[Path]:
    """Return the run directories at or below some paths, each once; raises `SubmissionError` where there are none.

    Hidden folders are left out: they are runs that have not finished.
    """
    found: dict[Path, Path] = {}
    for path in given:
        start = path.parent if path.name == RESULT_FILE else path
        if not start.is_dir():
            raise SubmissionError(f"{path} does not exist: name what mtbench run --out or mtbench grid --out wrote")
        below = list(_runs_below(start))
        if not below:
            raise SubmissionError(
                f"{path} holds no finished run (a folder with {RESULT_FILE}): name one, or its parent"
            )
        found |= {one.resolve(): one for one in below}
    return list(found.values())


def fill(given: Mapping[str, object], runs: Sequence[_Run]) -> Card:
    """Return the card of some runs: the fields given, and what the runs tell for the others.

    Raises `SubmissionError` once for all fields that nobody tells, with the options that give them.
    """
    infos = [run.headline.run for run in runs]
    finished = [info for info in infos if info.status == "ok"] or infos
    graphs = {
        graph
        for run in runs
        for graph in run.headline.run.pretraining_graphs
        if graph != f"{run.headline.dataset}{TRAIN}"
    }
    told: dict[str, object] = {
        "name": infos[0].model,
        "model": infos[0].model,
        "regime": finished[0].regime,
        "hardware": "; ".join(sorted({text for run in runs if (text := _hardware(run.headline))})),
        "pretraining_graphs": sorted(graphs),
    }
    addresses = {info.url for info in infos}
    told |= {"url": addresses.pop()} if len(addresses) == 1 else {}
    table = {key: value for key, value in told.items() if value} | dict(given)
    if missing := [option for name, option in OPTIONS.items() if name not in table]:
        raise SubmissionError(
            f"the card lacks what the runs do not tell: type {' '.join(missing)}, or give --card FILE"
        )
    for key in ("model", "regime"):
        if key in table and table[key] != told[key]:
            raise SubmissionError(f"the card says {key} = {table[key]!r}, the runs {told[key]!r}: leave it to them")
    return cards.parse(table)


def as_toml(card: Card) -> str:
    """Return a card as the text of ``card.toml``, without the fields that say nothing."""
    lines = []
    for declared in fields(Card):
        value = getattr(card, declared.name)
        if value in (None, "", ()):
            continue
        if isinstance(value, tuple):
            shown = f"[{', '.join(map(_quoted, value))}]"
        else:
            shown = str(value) if isinstance(value, int) else _quoted(value)
        lines.append(f"{declared.name} = {shown}\n")
    return "".join(lines)


def _quoted(text: str) -> str:
    # Cards hold no control characters but the end of a line.
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _runs_below(start: Path) -> Iterable[Path]:
    if start.parent.joinpath(RESULT_FILE).exists() and start.name in TASK_FOLDERS:
        raise SubmissionError(f"{start} is a part of the run {start.parent}: name that")
    if start.name.startswith(".") and start.name.endswith(".partial"):
        raise SubmissionError(f"{start} is a run that has not finished: the command that began it goes on with it")
    for folder, inside, files in os.walk(start):
        if RESULT_FILE in files:
            inside.clear()
            yield Path(folder)
        elif RANKS_FILE in files:
            raise SubmissionError(f"{folder} has {RANKS_FILE} and no {RESULT_FILE}: it is half a run, run it again")
        inside[:] = sorted(name for name in inside if not name.startswith("."))


def _read(directory: Path) -> _Run:
    """Read a run with all its results; raises `SubmissionError` for one that does not hold."""
    places = ["", *sorted(name for name in TASK_FOLDERS if (directory / name / RESULT_FILE).exists())]
    read: dict[str, Result] = {}
    for place in places:
        folder = directory / place
        _expect_shape(folder / RESULT_FILE)
        if problems := results.verify(folder).problems:
            remedy = "run it again"
            names = {problem.name for problem in problems}
            if "evaluator_version" in names and names <= set(FORGIVEN):
                remedy = f"mtbench verify {folder} --rescore"
            raise SubmissionError(f"{folder} does not hold: {'; '.join(p.message for p in problems)}; {remedy}")
        try:
            read[place] = results.load(folder)
        except ResultError as error:
            raise SubmissionError(str(error)) from error
        _expect_released(folder, read[place])
    return _Run(directory, read)


def _expect_shape(path: Path) -> None:
    try:
        wrong = list(result_shape(read_json(path, SIZES[RESULT_FILE])))
    except ResultError as error:
        raise SubmissionError(f"{path}: {error}; run it again") from error
    if wrong:
        raise SubmissionError(f"{path}: {'; '.join(wrong[:SHOWN])}; run it again")


def _expect_released(folder: Path, result: Result) -> None:
    name = result.dataset
    if name not in catalog.names():
        raise SubmissionError(
            f"{folder}: {name!r} is no released dataset, and only these can be compared: mtbench list"
        )
    version = catalog.record(name).version
    if result.dataset_version != version:
        raise SubmissionError(f"{folder}: {name} {result.dataset_version}, the release is {version}: run it again")
    if result.split == "test" and result.content_sha256 != content_sha256(name):
        raise SubmissionError(
            f"{folder} was made on other data than {name} {version} (content {result.content_sha256[:12]}, released "
            f"{content_sha256(name)[:12]}): run on the released dataset, mtbench run MODEL --dataset {name}"
        )


def _expect_one_model(runs: Sequence[_Run]) -> None:
    """Raise `SubmissionError` for runs of different models, regimes or settings, or two of a dataset and seed."""
    model = runs[0].headline.run.model
    if other := next((run for run in runs if run.headline.run.model != model), None):
        raise SubmissionError(
            f"{runs[0].directory} is of {model}, {other.directory} of {other.headline.run.model}: an entry is one "
            "model, submit them one after the other"
        )
    taken: dict[str, _Run] = {}
    for run in runs:
        before = taken.setdefault(run.folder, run)
        if before is not run:
            what = f"{run.headline.dataset}, seed {run.headline.run.seed}"
            raise SubmissionError(f"{before.directory} and {run.directory} are both {what}: give one of them")
    # What was never made is described by what was asked for, so that only finished runs are compared.
    finished = [run for run in runs if run.headline.run.status == "ok"]
    first: dict[str, _Run] = {}
    for run in finished:
        start, info = finished[0], run.headline.run
        if info.regime != start.headline.run.regime:
            raise SubmissionError(
                f"{start.directory} is {start.headline.run.regime}, {run.directory} {info.regime}: an entry is one "
                "regime, submit them one after the other under two names (--name)"
            )
        beside = first.setdefault(run.headline.dataset, run)
        ours, theirs = info.hyperparameters, beside.headline.run.hyperparameters
        if differing := [key for key in ours if key in theirs and ours[key] != theirs[key]]:
            key = differing[0]
            raise SubmissionError(
                f"{key} is {theirs[key]!r} in {beside.directory} and {ours[key]!r} in {run.directory}: seeds of an "
                "entry have the same settings, submit the others under another name (--name)"
            )


def _slug(slug: str) -> str:
    if not SLUG.fullmatch(slug):
        raise SubmissionError(
            f"an entry cannot be named {slug!r}: give --name with small letters, digits, dots, hyphens and "
            "underscores, 64 at most"
        )
    return slug


def _expect_replaceable(target: Path, *, force: bool) -> None:
    if atomic.is_free(target) and not target.is_symlink():
        return
    if not force:
        raise SubmissionError(f"{target} exists already: replace it with --force, or choose another with --name")
    if target.is_symlink() or not target.is_dir() or account(target).problems or not (target / CARD_FILE).exists():
        raise SubmissionError(f"{target} holds other things than an entry, which --force would delete: choose another")


def _hardware(result: Result) -> str:
    info = result.run
    threads = info.environment.get("threads", "")
    parts = (
        info.device,
        f"{threads} thread{'s' * (threads != '1')}" * bool(threads),
        info.environment.get("platform", ""),
    )
    return ", ".join(part for part in parts if part)


def _withholds(run: _Run) -> bool:
    """Tell whether something of a run is left out because its data may not be passed on."""
    named = any(len(one.ranks) and one.ranks.named for one in run.results.values())
    return not may_name_targets(run.headline.dataset) and (named or (run.directory / TASKS_FILE).exists())


def _copy(run: _Run, folder: Path) -> None:
    """Write what an entry keeps of a run, and nothing else of it."""
    open_ = may_name_targets(run.headline.dataset)
    for place, result in run.results.items():
        into = folder / place
        if result.run.status != "ok":
            # The message of an error: it may quote triples, and has the markup of Python's representations.
            kept = tuple(plain(text if open_ else text.partition(":")[0]) for text in result.warnings)
            replace(result, warnings=kept).save(into, with_names=open_)
        elif open_ or not result.ranks.named:
            into.mkdir(parents=True, exist_ok=True)
            for name in (RESULT_FILE, RANKS_FILE):
                shutil.copyfile(run.directory / place / name, into / name)
        else:
            result.save(into, with_names=False)
    for name in RUN_FILES[2:]:
        source = run.directory / name
        if source.is_file() and not source.is_symlink() and (open_ or name != TASKS_FILE):
            shutil.copyfile(source, folder / name)


def _siblings(to: Path) -> list[Path]:
    return sorted(path.parent for path in to.glob(f"*/{CARD_FILE}") if not path.parent.name.startswith("."))


def _files(entry: Path) -> list[Path]:
    return sorted(path for path in entry.rglob("*") if path.is_file())
