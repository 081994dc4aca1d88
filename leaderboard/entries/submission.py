"""Making an entry of runs: validated, laid out beside a card, and put in place whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from leaderboard.entries import cards, checks, commands, entries
from leaderboard.entries.cards import CARD_FILE, SLUG, Card, Problem, SubmissionError, plain
from leaderboard.entries.entries import RUN_FILES, TASK_FILES, account
from leaderboard.entries.runs import may_name_targets
from mtbench.data import catalog
from mtbench.errors import ResultError
from mtbench.files import atomic
from mtbench.runs import result
from mtbench.runs.directory import CONVENTIONS_FILE, TASK_FOLDERS, TASKS_FILE, Run, RunDirectory
from mtbench.runs.files import RANKS_FILE, RESULT_FILE
from mtbench.runs.origin import RunInfo
from mtbench.settings.table import ALL

SHOWN = 3
"""The most problems of a submission that are shown: the first usually explain the others."""

OPTIONS = {
    "name": "--title TEXT",
    "authors": "--authors 'A. Author, B. Author'",
    "url": '--url https://... (or "")',
    "licence": "--licence NAME",
    "hardware": "--hardware TEXT",
}
"""The option for each field of the card that the runs may not know."""


@dataclass(frozen=True)
class Submitted:
    """A finished entry, its seeds by dataset, and the ``remarks`` of its check.

    ``unnamed`` are the datasets whose targets' names were left out; ``lacking`` are the commands that complete its
    runs.
    """

    directory: Path
    card: Card
    seeds: Mapping[str, tuple[int, ...]]
    unnamed: tuple[str, ...]
    remarks: tuple[Problem, ...]
    lacking: tuple[str, ...]


def submit(
    given: Sequence[Path],
    to: Path,
    *,
    slug: str | None = None,
    card: Mapping[str, object] | None = None,
    force: bool = False,
) -> Submitted:
    """Make an entry of the runs at or below ``given`` in the folder ``to`` and return it.

    The runs are those of one model on all its datasets and seeds. ``card`` has fields as they stand in ``card.toml``;
    model, regime, pre-training graphs and hardware are filled in from the runs, the name of the entry, ``slug``, from
    the model, and the date is today's. Only results, ranks, conventions, history and tasks are copied, without the
    names of data that may not be passed on. The entry is checked (`leaderboard.entries.checks.check`) before it is
    renamed into place, so that an error or a kill leaves no entry. With ``force`` it replaces the entry of that name
    and all its runs.
    Raises `SubmissionError` for runs that do not hold or do not belong together, a card that lacks fields, and an
    entry that exists.
    """
    runs = [read(directory) for directory in find(given)]
    _expect_apart(runs)
    filled = fill(card or {}, runs)
    slug = slug or re.sub(r"[^a-z0-9._-]+", "-", filled.model.lower()).strip("-._")
    if not SLUG.fullmatch(slug):
        raise SubmissionError(
            f"an entry cannot be named {slug!r}: give --name with small letters, digits, dots, hyphens and "
            "underscores, 64 at most"
        )
    target = to / slug
    _expect_replaceable(target, force=force)
    # Made and checked elsewhere, then renamed into place: an error or a kill leaves the folder as it was.
    with tempfile.TemporaryDirectory(prefix="mtbench-") as temporary, atomic.storage_errors(to):
        entry = Path(temporary) / slug
        for run in runs:
            _copy(run, RunDirectory(entry / _folder(run)))
        (entry / CARD_FILE).write_text(as_toml(filled), encoding="utf-8")
        problems = checks.check(entry, entries.siblings(target, to))
        # An outdated run is only a remark in an entry that exists, but nobody submits one on purpose.
        if wrong := [
            str(_moved(problem, slug, runs)) for problem in problems if not problem.remark or problem.name == "outdated"
        ]:
            more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
            raise SubmissionError(f"nothing was submitted: {'; '.join(wrong[:SHOWN])}{more}")
        paths = sorted(path for path in entry.rglob("*") if path.is_file())
        with atomic.locked(target):
            _expect_replaceable(target, force=force)  # another process may have been here
            atomic.replace_directory(target, {str(path.relative_to(entry)): path.read_bytes() for path in paths})
    by_dataset = entries.of_runs(target, filled, runs).runs.items()
    seeds = {dataset: tuple(run.headline.run.seed for run in of_dataset) for dataset, of_dataset in by_dataset}
    hidden = {run.headline.dataset for run in runs if _withholds(run)}
    remarks = tuple(problem for problem in problems if problem.remark and problem.name != "incomplete")
    return Submitted(target, filled, seeds, tuple(sorted(hidden)), remarks, _completing(runs))


def _completing(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return the commands that score runs on the standard tasks that they lack."""
    lacking = [run for run in runs if run.headline.run.status == "ok" and run.missing]
    paper = all((run.directory.path / CONVENTIONS_FILE).exists() for run in lacking)
    options = ["--protocol", ALL, "--vocabulary", ALL, *["--paper"] * (not paper)]
    wanted = [(commands.origin(run), run.headline.dataset, run.headline.run.seed, run) for run in lacking]
    return tuple(commands.filling(wanted, options))


def find(given: Iterable[Path]) -> list[Path]:
    """Return the run directories at or below some paths, each once; raises `SubmissionError` where there are none.

    Hidden folders are left out, because they are runs that have not finished.
    """
    by_path: dict[Path, Path] = {}
    for path in given:
        start = path.parent if path.name == RESULT_FILE else path
        if not start.is_dir():
            what = "is a file" if start.exists() else "does not exist"
            raise SubmissionError(f"{path} {what}: name what mtbench run --out or mtbench grid --out wrote")
        below = list(_runs_below(start))
        if not below:
            raise SubmissionError(
                f"{path} holds no finished run (a folder with {RESULT_FILE}): name one, or its parent"
            )
        by_path |= {folder.resolve(): folder for folder in below}
    return list(by_path.values())


def fill(given: Mapping[str, object], runs: Sequence[Run]) -> Card:
    """Return the card of some runs: the fields ``given``, and the others as the runs have them.

    Raises one `SubmissionError` for all fields that are missing, with the options that give them.
    """
    infos = [run.headline.run for run in runs]
    finished = [info for info in infos if info.status == "ok"] or infos
    graphs = checks.foreign((run.headline.dataset, run.headline.run.pretraining_graphs) for run in runs)
    of_runs: dict[str, object] = {
        "name": infos[0].model,
        "model": infos[0].model,
        "regime": finished[0].regime,
        "hardware": "; ".join(sorted({text for run in runs if (text := _hardware(run.headline.run))})),
        "pretraining_graphs": sorted(graphs),
    }
    addresses = {info.url for info in infos}
    of_runs |= {"url": addresses.pop()} if len(addresses) == 1 else {}
    table = {key: value for key, value in of_runs.items() if value} | dict(given)
    table["date"] = datetime.now(UTC).date().isoformat()
    if missing := [option for name, option in OPTIONS.items() if name not in table]:
        raise SubmissionError(
            f"the card lacks what the runs do not tell: type {' '.join(missing)}, or give --card FILE"
        )
    for key in ("model", "regime"):
        if key in table and table[key] != of_runs[key]:
            raise SubmissionError(f"the card says {key} = {table[key]!r}, the runs {of_runs[key]!r}: leave it to them")
    return cards.parse(table)


def as_toml(card: Card) -> str:
    """Return a card as the text of ``card.toml``, without empty fields."""
    values = ((declared.name, getattr(card, declared.name)) for declared in fields(Card))
    # JSON writes texts and lists as TOML does: the only control character of a card is the end of a line.
    return "".join(
        f"{name} = {json.dumps(value, ensure_ascii=False)}\n"
        for name, value in values
        if value is not False and value not in (None, "", ())
    )


def _runs_below(start: Path) -> Iterable[Path]:
    if start.parent.joinpath(RESULT_FILE).exists() and start.name in TASK_FOLDERS:
        raise SubmissionError(f"{start} is a part of the run {start.parent}: name that")
    if RunDirectory(start).is_partial:
        raise SubmissionError(f"{start} is a run that has not finished: the command that began it goes on with it")
    for folder, inside, files in os.walk(start):
        if RESULT_FILE in files:
            inside.clear()  # the folders in a run are its tasks
            yield Path(folder)
        elif RANKS_FILE in files:
            raise SubmissionError(f"{folder} has {RANKS_FILE} and no {RESULT_FILE}: it is half a run, run it again")
        inside[:] = sorted(name for name in inside if not name.startswith("."))


def read(directory: Path) -> Run:
    """Read a run with all its results; raises `SubmissionError` for one that cannot be read, or be compared at all."""
    try:
        run = RunDirectory(directory).read()
    except ResultError as error:
        raise SubmissionError(str(error)) from error
    for scored in run.results.values():
        if catalog.by_id(scored.dataset) is None:
            raise SubmissionError(
                f"{directory}: {scored.dataset!r} is no released dataset, and only these can be compared: mtbench list"
            )
    return run


def _folder(run: Run) -> str:
    """Return the folder of a run in an entry."""
    return f"{run.headline.dataset.replace('/', '-')}/seed{run.headline.run.seed}"


def _expect_apart(runs: Sequence[Run]) -> None:
    """Raise `SubmissionError` for two runs of a dataset and seed, which would lie in one folder."""
    taken: dict[str, Run] = {}
    for run in runs:
        before = taken.setdefault(_folder(run), run)
        if before is not run:
            what = f"{run.headline.dataset}, seed {run.headline.run.seed}"
            raise SubmissionError(f"{before.directory} and {run.directory} are both {what}: give one of them")


def _moved(problem: Problem, slug: str, runs: Iterable[Run]) -> Problem:
    """Return a problem with the paths of the runs that the entry was made of."""

    def moved(place: str) -> str:
        for run in runs:
            if (path := Path(place)).is_relative_to(folder := Path(slug) / _folder(run)):
                return str(run.directory.path / path.relative_to(folder))
        return place

    return replace(problem, where=moved(problem.where), other=moved(problem.other))


def _expect_replaceable(target: Path, *, force: bool) -> None:
    if atomic.is_free(target) and not target.is_symlink():
        return
    if not force:
        raise SubmissionError(f"{target} exists already: replace it with --force, or choose another with --name")
    if target.is_symlink() or not target.is_dir() or account(target).problems or not (target / CARD_FILE).exists():
        raise SubmissionError(f"{target} holds other things than an entry, which --force would delete: choose another")


def _hardware(info: RunInfo) -> str:
    threads = info.environment.get("threads", "")
    parts = (
        info.device,
        f"{threads} thread{'s' * (threads != '1')}" * bool(threads),
        info.environment.get("platform", ""),
    )
    return ", ".join(part for part in parts if part)


def _withholds(run: Run) -> bool:
    """Tell whether a part of a run is left out because its data may not be passed on."""
    named = any(len(scored.ranks) and scored.ranks.named for scored in run.results.values())
    return not may_name_targets(run.headline.dataset) and (named or (run.directory.path / TASKS_FILE).exists())


def _copy(run: Run, folder: RunDirectory) -> None:
    """Write the parts of a run that an entry keeps."""
    open_ = may_name_targets(run.headline.dataset)
    first = next(iter(run.results))
    for setting, scored in run.results.items():
        source, into = run.directory.place(setting, first), folder.place(setting, first)
        if scored.run.status != "ok":
            # An error's message may quote triples, and has the angle brackets of Python's representations.
            kept = tuple(plain(text if open_ else text.partition(":")[0]) for text in scored.warnings)
            replace(scored, warnings=kept).save(into, with_names=open_)
        elif open_ or not scored.ranks.named:
            into.mkdir(parents=True, exist_ok=True)
            for path in (source / name for name in TASK_FILES):
                if path.is_file():
                    shutil.copyfile(path, into / path.name)
        else:
            # Without names nobody can see again whose targets these are: it is verified now.
            if wrong := result.verify(source).problems:
                raise SubmissionError(f"{wrong[0].message}; run it again")
            scored.save(into, with_names=False)
    for name in RUN_FILES[2:]:
        path = run.directory.path / name
        if path.is_file() and not path.is_symlink() and (open_ or name != TASKS_FILE):
            shutil.copyfile(path, folder.path / name)
