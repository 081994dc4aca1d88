"""What has to hold of one run of an entry: its files can be read, its figures follow, its hashes are the release's."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from leaderboard.entries.cards import TRAIN, Problem, quote, unplain
from leaderboard.entries.files import CHECKPOINT_SIZES, RUN_FILES, SIZES
from leaderboard.entries.shapes import BESIDE, HEADER, Conventions, Shown, Stage, bounds, shaped, without_slots
from mtbench.data import catalog
from mtbench.data.ragged import counted_rows
from mtbench.errors import ResultError
from mtbench.evaluation.tasks import GIVEN, NOT_ASKED
from mtbench.files.hashing import file_hash
from mtbench.heuristics.figures import BASELINES
from mtbench.names import METRICS
from mtbench.ranking.ranks import Ranks
from mtbench.runs.directory import CHECKPOINTS, STANDARD_TASKS, TASKS_FILE, Task
from mtbench.runs.files import RANKS_FILE, RESULT_FILE, SCHEMA, read_json
from mtbench.runs.result import TOLERANCE, contradictions
from mtbench.runs.saved import Limits, Saved, read_ranks
from mtbench.settings.table import HEADLINE, PROTOCOLS, setting_of

BASELINE_TOLERANCE = 1e-3
"""Baselines of two machines may differ by a tie that rounding broke; more than that moves the lift a table shows."""

TELLING = 8
"""Different shares of candidates above and equal that ranks must have before two models cannot have them by chance."""

NEAR = 200
"""One in so many rows of counts differs between near-copies, at most; of two honest models, four or more."""

LEAST = 1e-5
"""Seconds that no run scores a triple in, with its candidates: what is above is a matter of machines."""

CHANCE = {"epochs", "steps", "dropout", "negatives", "draws"}
"""Words of settings that make what a model learned depend on its seed."""


@dataclass
class RunRead:
    """One run as it was read: its results by task, of which the first is the headline, and their ranks.

    ``places`` are the folders of the results within the run.
    """

    where: str
    saved: dict[Task, Saved] = field(default_factory=dict)
    places: dict[Task, str] = field(default_factory=dict)
    ranks: dict[Task, Ranks] = field(default_factory=dict)

    @property
    def headline(self) -> Saved:
        """What ``result.json`` of the run itself holds."""
        return next(iter(self.saved.values()))


def may_name_targets(dataset: str) -> bool:
    """Tell whether the triples of a dataset may be passed on, by name, with the ranks of a run."""
    return catalog.record(dataset).generated


def read(directory: Path, folder: str, files: Collection[str]) -> tuple[RunRead, list[Problem]]:
    """Read the run ``folder`` of an entry, of whose ``files`` nothing else is opened; problems are of reading alone.

    A result that cannot be read is left out of what is returned.
    """
    run, problems = RunRead(f"{directory.name}/{folder}"), []
    inside = sorted(name.removeprefix(f"{folder}/") for name in files if name.startswith(f"{folder}/"))
    places = [name.removesuffix(RESULT_FILE).rstrip("/") for name in inside if name.endswith(RESULT_FILE)]
    if "" not in places:
        return run, [Problem("missing", run.where, f"there is no {RESULT_FILE} in it: submit the whole run")]
    for place in sorted(places):
        where = f"{run.where}/{place}".rstrip("/")
        try:
            found, ranks = _result(directory / folder / place, f"{place}/{RANKS_FILE}".lstrip("/") in inside)
        except _Unreadable as error:
            problems.append(Problem(error.name, f"{where}/{error.file}", error.message))
            continue
        task = (found.protocol, found.vocabulary)
        if place not in ("", "-".join(task)):
            problems.append(Problem("folder", where, f"holds {quote('-'.join(task))}: name the folder after it"))
        if task in run.saved:
            problems.append(Problem("duplicate", where, f"{quote('-'.join(task))} is there twice: keep one"))
            continue
        run.saved[task], run.places[task] = found, place
        if ranks is not None:
            run.ranks[task] = ranks
    for name in inside:
        if name in RUN_FILES[2:] or (name.startswith(f"{CHECKPOINTS}/") and name.endswith(".json")):
            problems += _beside(directory / folder / name, f"{run.where}/{name}", run)
    return run, problems


@dataclass(eq=False)
class _Unreadable(Exception):  # noqa: N818
    """Why a result is left out."""

    name: str
    message: str
    file: str = RESULT_FILE


def _result(folder: Path, has_ranks: bool) -> tuple[Saved, Ranks | None]:
    """Read one result with its ranks, which are made sure of before anything else opens them."""
    try:
        payload = read_json(folder / RESULT_FILE, SIZES[RESULT_FILE])
    except ResultError as error:
        raise _Unreadable("json", f"{error}: evaluate again") from error
    if isinstance(payload, dict) and payload.get("schema", SCHEMA) != SCHEMA:
        raise _Unreadable("schema", f"written with another schema than {SCHEMA}, which alone is read: evaluate again")
    if wrong := unplain(payload):
        raise _Unreadable("text", f"{wrong}; a page shows it: run again without it")
    try:
        found = shaped(payload, Shown)
    except ResultError as error:
        raise _Unreadable("shape", f"{error}: evaluate again") from error
    if (record := catalog.by_id(found.dataset)) is None:
        message = f"{quote(found.dataset)} is no released dataset (mtbench list): only these can be compared"
        raise _Unreadable("dataset", message)
    if has_ranks and found.ranks_sha256 is None:
        raise _Unreadable("ranks", f"{RESULT_FILE} knows of no ranks: delete it", RANKS_FILE)
    if found.ranks_sha256 is None:
        return found, None
    if not has_ranks:
        message = f"is missing, and {RESULT_FILE} names its hash: submit the whole run"
        raise _Unreadable("missing", message, RANKS_FILE)
    graph = record.graph("test")
    limits = Limits(record.part("test", "targets").triples, max(graph.entities, graph.relation_slots, 50))
    try:
        return found, read_ranks(folder / RANKS_FILE, limits)
    except ResultError as error:
        raise _Unreadable("ranks", str(error), RANKS_FILE) from error


def _beside(path: Path, where: str, run: RunRead) -> Iterator[Problem]:
    """Check that a file beside a result can be read, has its shape, and holds nothing a page should not show."""
    try:
        payload = read_json(path, SIZES.get(path.name, CHECKPOINT_SIZES[path.suffix]))
    except ResultError as error:
        yield Problem("json", where, f"{error}: delete it, or run again")
        return
    if wrong := unplain(without_slots(payload) if path.name == TASKS_FILE else payload):
        yield Problem("text", where, f"{wrong}; a page shows it: delete the file, or run again")
    try:
        found = shaped(payload, BESIDE.get(path.name, Stage))
        for message in _unlike(found, run) if run.saved and isinstance(found, Conventions) else ():
            yield Problem("conventions", where, f"{message}: delete it, or run again with --paper")
    except ResultError as error:
        yield Problem("shape", where, f"{error}: delete it, or run again")
    if path.name == TASKS_FILE and run.saved and not may_name_targets(run.headline.dataset):
        yield Problem("names", where, "names relations of data that may not be passed on: delete it")


def held(directory: Path, run: RunRead) -> Iterator[Problem]:
    """Check a run that could be read: figures from counts, hashes of the release, versions, completeness."""
    for task, found in run.saved.items():
        where = f"{run.where}/{run.places[task]}".rstrip("/")
        yield from _figures(directory.parent / where, where, found, run.ranks.get(task))
        yield from _released(where, found)
        if task in run.ranks and run.ranks[task].named and not may_name_targets(found.dataset):
            message = "names triples of data that may not be passed on: submit the run again, which leaves them out"
            yield Problem("names", f"{where}/{RANKS_FILE}", message)
    yield from _told(run)
    yield from _times(run)
    first = run.headline
    for task, found in run.saved.items():
        for key in ("dataset", "dataset_version", "model", "seed", "regime", "pretraining_graphs", "hyperparameters"):
            if found.status == first.status and getattr(found, key) != getattr(first, key):
                message = f"{key} of {'-'.join(task)} is not that of the run: {quote(getattr(found, key))}"
                yield Problem("run", run.where, f"{message}; put the results of one run together")
    if first.status != "ok":
        yield Problem("unfinished", run.where, f"{first.status}: shown, not ranked", remark=True)
    elif missing := [task for task in STANDARD_TASKS if task not in run.saved]:
        message = f"lacks {', '.join(map('-'.join, missing))}: shown, not ranked; run --protocol all --vocabulary all"
        yield Problem("incomplete", run.where, message, remark=True)


def _figures(folder: Path, where: str, found: Saved, ranks: Ranks | None) -> Iterator[Problem]:
    """Compare a result with its counts."""
    ranks_sha256 = None if ranks is None else file_hash(folder / RANKS_FILE)
    wrong = [(name, message) for name, _, message in contradictions(vars(found), ranks, ranks_sha256)]
    if found.status == "ok" and ranks is None:
        wrong.append(("ranks", "a finished run has ranks"))
    if set(found.floors) != set(BASELINES):
        wrong.append(("baselines", f"heuristic baselines must be exactly {', '.join(BASELINES)}"))
    if found.protocol in PROTOCOLS and found.metrics:
        wrong += _asked(found)
    wrong += [("bounds", message) for message in bounds(found)]
    for name, message in wrong:
        yield Problem(name, where, f"{message}; evaluate again and submit that")
    if found.ranks_sha256 is None and (found.metrics or found.optimistic or found.pessimistic):
        yield Problem("metrics", where, "figures without ranks: only what follows from counts is shown")


def _asked(found: Saved) -> Iterator[tuple[str, str]]:
    """Say what a result lacks of how the model was asked."""
    if set(found.asked) != set(ways := setting_of(found.protocol).directions):
        yield "asked", f"asked must tell how the model was asked for {' and '.join(f'{way}s' for way in ways)}"
    if found.asked_again in ("", NOT_ASKED):
        yield "asked_again", f"scores were {NOT_ASKED} in other batches: leave out ask_again=False"


def _told(run: RunRead) -> Iterator[Problem]:
    """Remark once for all results of a run which are of scores that were given as numbers."""
    if given := ["-".join(task) for task, found in run.saved.items() if found.asked_again == GIVEN]:
        message = f"{', '.join(given)}: scores were {GIVEN} in other batches: nobody knows whether they depend on them"
        yield Problem("given", run.where, message, remark=True)


def _times(run: RunRead) -> Iterator[Problem]:
    for task, found in run.saved.items():
        seconds, where = found.wall_seconds, f"{run.where}/{run.places[task]}".rstrip("/")
        if found.status == "ok" and seconds is not None and seconds <= LEAST * found.targets:
            message = f"wall_seconds is {seconds}, in which nothing scores {found.targets} triples: run it again"
            yield Problem("wall_seconds", where, message)


def _released(where: str, found: Saved) -> Iterator[Problem]:
    """Compare what was scored with the catalogue."""
    name, record = found.dataset, catalog.record(found.dataset)
    if found.split != "test":
        yield Problem("split", where, f"scored on {quote(found.split)}: a leaderboard compares on test")
    if found.candidate_seed != 0:
        yield Problem("candidate_seed", where, f"candidates {found.candidate_seed}: run with --candidate-seed 0")
    if found.dataset_version != record.version:
        version = f"{quote(found.dataset_version)}, now {record.version}"
        message = f"dataset version {version}: shown, not ranked; run it again"
        yield Problem("outdated", where, message, remark=True)
        return
    if found.content_sha256 != record.content_sha256("test"):
        message = f"made on other data than {name} {record.version}: mtbench fetch {name}, and evaluate again"
        yield Problem("content_sha256", where, message)
    published = record.baselines_of(found.split, found.protocol, found.vocabulary, found.candidate_seed)
    for baseline, values in found.floors.items():
        for metric, value in published.get(baseline, {}).items():
            if abs(values[metric] - value) > BASELINE_TOLERANCE * max(1, value):
                key = setting_of(found.protocol, found.vocabulary).key(found.split, found.candidate_seed)
                message = (
                    f"heuristic baseline {quote(baseline)} of {key}: {metric} is {values[metric]}, published is {value}"
                )
                yield Problem("baselines", where, f"{message}; evaluate again")
    targets = record.part("test", "targets").triples
    if found.targets not in (0, targets):
        yield Problem("targets", where, f"{found.targets} targets, {name} has {targets}")


def fingerprint(ranks: Ranks) -> str | None:
    """Return a hash of the counts, whatever their order; None for counts that different models may well have.

    A model that ties or that finds everything has the counts of every other one of its kind: as shares of the
    candidates they are the same for all targets. The order is left out because whoever copies ranks may shuffle them.
    """
    parts = ranks.parts.values()
    shares = [some / np.maximum(counts.count, 1) for counts in parts for some in (counts.greater, counts.equal)]
    if len(counted_rows(shares)[0]) < TELLING:
        return None
    rows, numbers = counted_rows([getattr(counts, name) for counts in parts for name in ("greater", "equal", "count")])
    return hashlib.sha256(np.column_stack((rows, numbers)).astype("<i8").tobytes()).hexdigest()


def rows(ranks: Ranks) -> list[tuple[int, ...]]:
    """Return the counts of each target."""
    names = ("greater", "equal", "count")
    columns = [getattr(counts, name) for counts in ranks.parts.values() for name in names]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def drawn(found: Saved) -> list[str]:
    """Return the settings by which a run on a dataset depends on its seed; none of a model that learned nothing there.

    They are known by their names, and so a guess: that of a model of one's own may be called otherwise.
    """
    learned = f"{found.dataset}{TRAIN}" in found.pretraining_graphs or found.regime != "zero-shot"
    return sorted(
        key for key, value in found.hyperparameters.items() if learned and value and CHANCE & {*key.split("_")}
    )


def _unlike(told: Conventions, run: RunRead) -> Iterator[str]:
    """Say where ``conventions.json`` of a run is not about that run: another header, or other standard figures."""
    for key in sorted(HEADER):
        if (theirs := getattr(told, key)) != (ours := getattr(run.headline, key)):
            yield f"{key} is {quote(theirs)}, {RESULT_FILE} has {quote(ours)}"
    for protocol, read_ in told.protocols.items():
        found = run.saved.get((protocol, HEADLINE.vocabulary))
        if found is None or not found.metrics:
            continue
        standard = read_[0]
        if standard.candidates_sha256 != found.candidates_sha256:
            yield f"the standard of {protocol} was read on other candidates"
        for values in (standard.metrics, standard.expected):
            for name in METRICS:
                if not math.isclose(values[name], found.metrics[name], rel_tol=TOLERANCE, abs_tol=TOLERANCE):
                    yield f"the standard of {protocol} has {name} {values[name]}, the result {found.metrics[name]}"
