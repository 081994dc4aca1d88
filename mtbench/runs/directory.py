"""A run on disk: which files it has and where, its lock, how it is made whole or not at all, and reading it once.

::

    DIR/result.json, ranks.parquet      the first task
    DIR/PROTOCOL-VOCABULARY/            the same two files of every further task
    DIR/conventions.json, history.json, tasks.json, training.png, alpha.png, failure.txt
    DIR/checkpoints/                    what the model keeps, cost.json, and trained.json for more than one test graph
    .DIR.partial                        an unfinished run: its checkpoints outlive its process
    .DIR.ready                          a finished one that is about to be put in place
    .DIR.lock, .DIR.old                 see `mtbench.files.atomic`
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mtbench.errors import CorruptedFileError, ResultError, UsageError, nearest, shown
from mtbench.files import atomic
from mtbench.files.reading import read_json
from mtbench.runs import result
from mtbench.runs.files import RANKS_FILE, RESULT_FILE
from mtbench.runs.result import Result
from mtbench.settings.setting import Setting
from mtbench.settings.table import ALL, HEADLINE, MAIN, OURS, settings_of

CONVENTIONS_FILE, HISTORY_FILE, TASKS_FILE = "conventions.json", "history.json", "tasks.json"
FAILURE_FILE, TRAINING_PICTURE, ALPHA_PICTURE = "failure.txt", "training.png", "alpha.png"
CHECKPOINTS, COST_FILE, TRAINED_FILE = "checkpoints", "cost.json", "trained.json"

TASK_FOLDERS = tuple(setting.name for setting in OURS)
COMPLETE = settings_of([ALL], [ALL])
"""The settings that a complete run has been scored in."""


def missing_of(scored: Collection[Setting]) -> tuple[Setting, ...]:
    """Return the settings of `COMPLETE` that a run was not scored in; it lacks none if it has full rankings alone."""
    return () if all(setting.full for setting in scored) else tuple(one for one in COMPLETE if one not in scored)


BESIDE = (CONVENTIONS_FILE, HISTORY_FILE, TASKS_FILE, FAILURE_FILE, TRAINING_PICTURE, ALPHA_PICTURE)
OWN = {RESULT_FILE, RANKS_FILE, CHECKPOINTS, *BESIDE, *TASK_FOLDERS}
"""All that a run directory may hold."""


@dataclass(frozen=True, eq=False)
class Run:
    """A run as it was read: its results by their setting, the first one first."""

    directory: RunDirectory
    results: Mapping[Setting, Result]

    @property
    def headline(self) -> Result:
        """The result that stands for the run: that of `HEADLINE`, or the first there is."""
        return self.results.get(HEADLINE) or next(iter(self.results.values()))

    @property
    def missing(self) -> tuple[Setting, ...]:
        """The settings that it lacks or in which it did not finish, see `missing_of`."""
        return missing_of([setting for setting, result in self.results.items() if result.run.status == "ok"])

    def has(self, settings: Sequence[Setting], *, paper: bool) -> bool:
        """Whether it was scored in all of these settings, with ``paper`` in the paper's of the same protocols, too.

        A damaged file of the latter counts as none: it is made again.
        """
        file, wanted = self.directory.path / CONVENTIONS_FILE, {setting.protocol for setting in settings} & set(MAIN)
        kept = set[str]()
        if paper and file.exists():
            with suppress(ResultError, TypeError, KeyError):
                kept = set(read_json(file)["protocols"])
        return self.results.keys() >= set(settings) and (not paper or wanted <= kept)


@dataclass(frozen=True)
class RunDirectory:
    """The directory of one run, there or to be made."""

    path: Path

    @classmethod
    def to_make(cls, path: Path) -> RunDirectory:
        """Return the directory that a run is to be made in: of a link the one it leads to, so that the link stays."""
        return cls(path.resolve() if path.is_symlink() else path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def exists(self) -> bool:
        """Whether a run lies there: its first result is the last file to be put in place."""
        return (self.path / RESULT_FILE).exists()

    @property
    def partial(self) -> RunDirectory:
        """Where the run lies until it is finished."""
        return self._beside("partial")

    @property
    def is_partial(self) -> bool:
        """Whether it is the `partial` one of another."""
        return self.path.name.startswith(".") and self.path.name.endswith(".partial")

    @property
    def checkpoints(self) -> Path:
        """Where a model keeps what an interrupted run goes on from."""
        return self.path / CHECKPOINTS

    @property
    def has_checkpoints(self) -> bool:
        """Whether a model has kept anything there: what it cost so far is none of its."""
        return self.checkpoints.is_dir() and any(path.name != COST_FILE for path in self.checkpoints.iterdir())

    @property
    def kept_checkpoints(self) -> Path | None:
        """The checkpoints of a run, or of the run that this directory is a further task of; None if there are none."""
        return next(
            (place for folder in (self.path, self.path.parent) if (place := folder / CHECKPOINTS).is_dir()), None
        )

    def place(self, setting: Setting, first: Setting) -> Path:
        """Return where the result in a setting lies: the first one's in the directory itself, all others' below it."""
        return self.path if setting == first else self.path / setting.name

    def places(self) -> list[Path]:
        """Return the folders of all results, the first task's first; none where there is no run."""
        below = [self.path / name for name in TASK_FOLDERS if (self.path / name / RESULT_FILE).exists()]
        return [self.path, *below] if self.exists else []

    def read(self) -> Run:
        """Return the run with all its results; raises `ResultError` naming the file that cannot be read."""
        found = map(result.load, self.places() or [self.path])
        return Run(self, {one.setting: one for one in found})

    def verify(self) -> list[result.Problem]:
        """Return what does not hold of any result of the run; see `mtbench.runs.result.verify`."""
        return [problem for place in self.places() for problem in result.verify(place).problems]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the directory for this process; raises `AtWorkError` if another one is at work on it.

        The lock lies beside the directory, so that no two caches hold it at once. What a killed process left is
        undone or, where its run was finished, put in place.
        """
        with atomic.locked(self.path, wait=False):
            ready = self._beside("ready")
            if ready.exists:
                self.expect_replaceable(force=True)
                atomic.put_in_place(ready.path, self.path)
            atomic.remove(ready.path)  # what is no run was put there by hand
            yield

    def begin(self, *, restart: bool = False, start: Path | None = None, more: bool = False) -> RunDirectory:
        """Return the unfinished run that is to become this one, under its lock.

        Of an interrupted run the checkpoints stay unless ``restart`` is set; results of tasks that nobody asks for now
        do not. ``start`` is a run whose checkpoints take their place where there are none. ``more`` brings along what
        the directory holds, so that tasks are added to it.
        """
        partial = self.partial
        with atomic.storage_errors(partial.path):
            for path in partial.path.iterdir() if partial.path.exists() else ():
                if path.is_file():
                    path.unlink()
                elif restart or path.name != CHECKPOINTS:
                    shutil.rmtree(path)
            for path in partial.checkpoints.glob(".*.new"):  # what a killed process was about to write
                atomic.remove(path)
            if start is not None:
                RunDirectory(start).copy_checkpoints(partial.checkpoints)
            trained = partial.checkpoints / TRAINED_FILE
            if trained.exists():
                # What a model kept while it adapted to one test graph is none of the next one's.
                names = {*_names(trained), TRAINED_FILE, COST_FILE}
                for path in partial.checkpoints.iterdir():
                    if path.name not in names:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
            if more:
                atomic.copy(self.path, partial.path, leave=CHECKPOINTS if partial.checkpoints.exists() else "")
        return partial

    def remember_training(self) -> None:
        """Write down which checkpoints are those of the training, once it has ended: `begin` keeps no others."""
        trained = self.checkpoints / TRAINED_FILE
        if self.checkpoints.is_dir() and not trained.exists():
            names = sorted(path.name for path in self.checkpoints.iterdir())
            atomic.replace_file(trained, json.dumps(names).encode())

    def write_beside(self, files: Mapping[str, object]) -> None:
        """Write JSON files by name beside the results, each of them whole or not at all."""
        for name, payload in files.items():
            atomic.replace_file(self.path / name, f"{json.dumps(payload, ensure_ascii=False, indent=1)}\n".encode())

    def finish(self, failure: str = "") -> None:
        """Put the unfinished run in place of what is there; a process killed meanwhile loses neither.

        ``failure`` is why it has no ranks, for `FAILURE_FILE`.
        """
        partial, ready = self.partial.path, self._beside("ready").path
        with atomic.storage_errors(self.path):
            if failure:
                (partial / FAILURE_FILE).write_text(failure, "utf-8")
            atomic.flush(partial)
            partial.rename(ready)
        atomic.put_in_place(ready, self.path)

    def keep(self, results: Sequence[Result], *, force: bool = False, failure: str = "") -> None:
        """Keep results of one model on several tasks as ``mtbench run`` does, all of them or none, under the lock.

        ``failure`` is why they have no ranks, for `FAILURE_FILE`. Raises `UsageError` where the directory exists, as
        `expect_replaceable` does. An interrupted run keeps its checkpoints.
        """
        self.expect_replaceable(force=force)
        new, first = self._beside("new"), results[0].setting
        try:
            for one in results:
                one.save(new.place(one.setting, first))
            if failure:
                (new.path / FAILURE_FILE).write_text(f"{failure}\n", "utf-8")
            atomic.put_in_place(new.path, self.path)
        finally:
            shutil.rmtree(new.path, ignore_errors=True)

    def reopen(self) -> None:
        """Make the run an unfinished one again, which goes on from its checkpoints; under the lock."""
        with atomic.storage_errors(self.path):
            if self.partial.checkpoints.exists():
                shutil.rmtree(self.path)
            else:
                shutil.rmtree(self.partial.path, ignore_errors=True)
                self.path.rename(self.partial.path)

    def copy_checkpoints(self, place: Path) -> None:
        """Copy the checkpoints to a place that has none yet; raises `UsageError` for a run without any."""
        found = self.kept_checkpoints
        if found is None:
            raise UsageError(f"{self} holds no checkpoints: name the directory of a run whose model keeps them")
        if not place.exists():
            new = place.with_name(f".{place.name}.new")
            with atomic.storage_errors(place):
                shutil.rmtree(new, ignore_errors=True)
                atomic.copy(found, new)
                new.rename(place)

    def expect_replaceable(self, *, force: bool) -> None:
        """Raise `UsageError` for a directory that exists, with ``force`` only for one that holds more than a run."""
        if self.path.name in ("", ".."):
            new = shlex.quote(str(self.path / "run"))
            raise UsageError(f"{self} cannot become a run directory: name a new one, as in --out {new}")
        if atomic.is_free(self.path):
            return
        if not force:
            raise UsageError(f"{self} exists already: name another with --out DIR, or replace it with --force")
        others = sorted({path.name for path in self.path.iterdir()} - OWN) if self.path.is_dir() else [self.path.name]
        if others:
            raise UsageError(
                f"{self} holds more than a run ({others[0]}), which --force would delete: name another with --out DIR"
            )

    def _beside(self, state: str) -> RunDirectory:
        return RunDirectory(self.path.parent / f".{self.path.name}.{state}")


def _names(path: Path) -> list[str]:
    try:
        names = read_json(path)
    except ResultError as error:
        raise CorruptedFileError(f"{path}: {error}; begin the run anew with --restart") from error
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise CorruptedFileError(f"{path}: no list of names; begin the run anew with --restart")
    return names


def holds_run(directory: Path) -> bool:
    """Tell whether a directory has one of a result's files: it is meant as a run, if not a whole one."""
    return any((directory / name).exists() for name in (RESULT_FILE, RANKS_FILE))


def runs_below(directory: Path) -> list[str]:
    """Return the run directories in a folder, or in the folders of one, as an entry has them, sorted."""
    found = sorted(directory.glob(f"*/{RESULT_FILE}")) or sorted(directory.glob(f"*/*/{RESULT_FILE}"))
    return [str(one.parent) for one in found]


def find(path: Path) -> Path:
    """Return the run directory that a path names, by itself or by one of its files.

    Raises `UsageError` for a folder of runs, naming some, and for one without, with the names that look like it.
    """
    directory = path.parent if path.name in (RESULT_FILE, RANKS_FILE) else path
    if holds_run(directory):
        return directory
    if below := runs_below(directory):
        every = "/*" * len(Path(below[0]).relative_to(path).parts)
        raise UsageError(
            f"{path} is no run, but holds some: {shown(below)}; type {shlex.quote(str(path))}{every} for all"
        )
    beside = {one.parent.name: str(one.parent) for one in directory.parent.glob(f"*/{RESULT_FILE}")}
    near = [beside[match] for match in nearest(directory.name, beside)]
    hint = f"did you mean {' or '.join(near)}?" if near else "mtbench run MODEL --dataset NAME makes one"
    raise UsageError(f"no run at {path} (there is no {RESULT_FILE}): {hint}")
