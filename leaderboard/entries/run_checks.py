"""What has to hold of one run of an entry: its files can be read, its figures follow, its hashes are the release's."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from leaderboard.entries.cards import Problem, quote
from leaderboard.entries.entries import TASKS
from leaderboard.entries.files import RUN_FILES, SIZES
from leaderboard.entries.reading import expect_ranks, read_json, unplain
from leaderboard.entries.shapes import (
    HEADER,
    bounds,
    conventions_shape,
    history_shape,
    result_shape,
    tasks_shape,
    without_slots,
)
from mtbench.conventions.reading import STANDARD
from mtbench.data import catalog
from mtbench.errors import ResultError
from mtbench.experiments.run import CONVENTIONS_FILE
from mtbench.experiments.told import HISTORY_FILE, TASKS_FILE
from mtbench.heuristics.figures import FLOORS
from mtbench.names import METRICS
from mtbench.ranking.ranks import Ranks
from mtbench.results import result as results
from mtbench.results import runs
from mtbench.results.rescoring import FORGIVEN
from mtbench.results.result import EVALUATOR_VERSION, TOLERANCE, Metrics
from mtbench.results.runs import RANKS_FILE, RESULT_FILE

TELLING = 8
"""Different counts that ranks must have before two models cannot have them by chance."""

Task = tuple[str, str]


@dataclass
class RunRead:
    """One run as it was read: its results by task, of which the first is the headline, and what tells it from others.

    ``places`` are the folders of the results within the run; ``prints`` fingerprints of its ranks by task, of those
    that no other model has by chance; ``floors`` what scorers that learn nothing reach on each task, which cannot
    be recomputed from counts.
    """

    where: str
    payloads: dict[Task, dict[str, Any]] = field(default_factory=dict)
    places: dict[Task, str] = field(default_factory=dict)
    prints: dict[Task, str] = field(default_factory=dict)
    floors: dict[Task, Mapping[str, Metrics]] = field(default_factory=dict)

    @property
    def headline(self) -> Mapping[str, Any]:
        """What ``result.json`` of the run itself holds."""
        return next(iter(self.payloads.values()))


def may_name_targets(dataset: str) -> bool:
    """Tell whether the triples of a dataset may be passed on, by name, with the ranks of a run."""
    return catalog.record(dataset).generated


def content_sha256(dataset: str) -> str:
    """Return the content hash of the test split of a released dataset, from its record alone."""
    record = catalog.record(dataset)
    graph, targets = (record.parts[f"test/{part}"].content_sha256 for part in ("graph", "targets"))
    text = f"graph {graph}\ntargets {targets}\nslots {record.graphs['test'].relation_slots}\n"
    return hashlib.sha256(text.encode()).hexdigest()


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
        ranks = f"{place}/{RANKS_FILE}".lstrip("/")
        payload, found = _result(directory / folder / place, where, ranks in inside)
        problems += found
        if payload is None:
            continue
        task = (payload["protocol"], payload["vocabulary"])
        if place not in ("", "-".join(task)):
            problems.append(Problem("folder", where, f"holds {quote('-'.join(task))}: name the folder after it"))
        if task in run.payloads:
            problems.append(Problem("duplicate", where, f"{quote('-'.join(task))} is there twice: keep one"))
            continue
        run.payloads[task], run.places[task] = payload, place
        if payload["floors"]:
            run.floors[task] = payload["floors"]
    for name in RUN_FILES[2:]:
        if name in inside:
            problems += _beside(directory / folder / name, run)
    return run, problems


def _result(folder: Path, where: str, has_ranks: bool) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Read one result, and make sure of its ranks before anything else opens them."""
    try:
        payload = read_json(folder / RESULT_FILE, SIZES[RESULT_FILE])
    except ResultError as error:
        return None, [Problem("json", f"{where}/{RESULT_FILE}", f"{error}: evaluate again")]
    problems = [
        Problem("shape", f"{where}/{RESULT_FILE}", f"{message}: evaluate again") for message in result_shape(payload)
    ]
    if wrong := unplain(payload):
        problems.append(Problem("text", f"{where}/{RESULT_FILE}", f"{wrong}; a page shows it: run again without it"))
    if problems or not isinstance(payload, dict):
        return None, problems
    name = payload["dataset"]
    if name not in catalog.names():
        message = f"{quote(name)} is no released dataset (mtbench list): only these can be compared"
        return None, [Problem("dataset", f"{where}/{RESULT_FILE}", message)]
    if has_ranks:
        record = catalog.record(name)
        graph = record.graphs["test"]
        most = max(graph.entities, graph.relation_slots, 50)
        try:
            expect_ranks(folder / RANKS_FILE, record.parts["test/targets"].triples, most)
        except ResultError as error:
            return None, [Problem("ranks", f"{where}/{RANKS_FILE}", f"{error}: evaluate again")]
    elif payload["ranks_sha256"] is not None:
        message = f"is missing, and {RESULT_FILE} names its hash: submit the whole run"
        return None, [Problem("missing", f"{where}/{RANKS_FILE}", message)]
    if has_ranks and payload["ranks_sha256"] is None:
        return None, [Problem("ranks", f"{where}/{RANKS_FILE}", f"{RESULT_FILE} knows of no ranks: delete it")]
    return payload, []


def _beside(path: Path, run: RunRead) -> Iterator[Problem]:
    """Check that a file beside a result can be read, has its shape, and holds nothing a page should not show."""
    where = f"{run.where}/{path.name}"
    try:
        payload = read_json(path, SIZES[path.name])
    except ResultError as error:
        yield Problem("json", where, f"{error}: delete it, or run again")
        return
    shown = without_slots(payload) if path.name == TASKS_FILE else payload
    if wrong := unplain(shown):
        yield Problem("text", where, f"{wrong}; a page shows it: delete the file, or run again")
    shapes = {HISTORY_FILE: history_shape, TASKS_FILE: tasks_shape, CONVENTIONS_FILE: conventions_shape}
    if wrong := shapes[path.name](payload):
        yield Problem("shape", where, f"{wrong}: delete it, or run again")
    elif path.name == CONVENTIONS_FILE and run.payloads and isinstance(payload, dict):
        for message in _unlike(payload, run):
            yield Problem("conventions", where, f"{message}: delete it, or run again with --paper")
    if path.name == TASKS_FILE and run.payloads and not may_name_targets(run.headline["dataset"]):
        yield Problem("names", where, "names relations of data that may not be passed on: delete it")


def held(directory: Path, run: RunRead) -> Iterator[Problem]:
    """Check a run that could be read: figures from counts, hashes of the release, versions, completeness."""
    for task, payload in run.payloads.items():
        where = f"{run.where}/{run.places[task]}".rstrip("/")
        folder = directory.parent / where
        yield from _figures(folder, where, payload)
        yield from _released(where, payload)
        yield from _ranks(folder, where, task, payload, run)
    first = run.headline
    for task, payload in run.payloads.items():
        for key in ("dataset", "dataset_version", "model", "seed", "regime", "pretraining_graphs", "hyperparameters"):
            if payload["status"] == first["status"] and payload[key] != first[key]:
                message = f"{key} of {'-'.join(task)} is not that of the run: {quote(payload[key])}"
                yield Problem("run", run.where, f"{message}; put the results of one run together")
    if first["status"] != "ok":
        yield Problem("unfinished", run.where, f"{first['status']}: shown, not ranked", remark=True)
    elif missing := [task for task in TASKS if task not in run.payloads]:
        message = f"lacks {', '.join(map('-'.join, missing))}: shown, not ranked; run --protocol all --vocabulary all"
        yield Problem("incomplete", run.where, message, remark=True)


def _figures(folder: Path, where: str, payload: Mapping[str, Any]) -> Iterator[Problem]:
    """Compare a result with its counts; one of an earlier evaluator may have other figures and is not ranked."""
    version = payload["evaluator_version"]
    earlier = version.isdecimal() and version.isascii() and int(version) < int(EVALUATOR_VERSION)
    if earlier:
        message = f"evaluator version {version}, now {EVALUATOR_VERSION}: shown, not ranked; mtbench verify --rescore"
        yield Problem("outdated", where, message, remark=True)
    for problem in results.verify(folder).problems:
        if earlier and problem.name in FORGIVEN:
            continue
        message = problem.message
        for name in (RESULT_FILE, RANKS_FILE):
            message = message.removeprefix(f"{folder / name}: ")
        yield Problem(problem.name, where, f"{message}; evaluate again and submit that")
    if not earlier and set(payload["floors"]) != set(FLOORS):
        yield Problem("floors", where, f"floors must be exactly {', '.join(FLOORS)}; evaluate again and submit that")
    for message in bounds(payload):
        yield Problem("bounds", where, f"{message}; evaluate again and submit that")
    if payload["ranks_sha256"] is None and any(payload[name] for name in ("metrics", "optimistic", "pessimistic")):
        yield Problem("metrics", where, "figures without ranks: only what follows from counts is shown")


def _released(where: str, payload: Mapping[str, Any]) -> Iterator[Problem]:
    """Compare what was scored with the catalogue."""
    name, record = payload["dataset"], catalog.record(payload["dataset"])
    if payload["split"] != "test":
        yield Problem("split", where, f"scored on {quote(payload['split'])}: a leaderboard compares on test")
    if payload["candidate_seed"] != 0:
        yield Problem("candidate_seed", where, f"candidates {payload['candidate_seed']}: run with --candidate-seed 0")
    if payload["dataset_version"] != record.version:
        message = f"dataset version {quote(payload['dataset_version'])}, now {record.version}: shown, not ranked"
        yield Problem("outdated", where, message, remark=True)
        return
    if payload["content_sha256"] != content_sha256(name):
        message = f"made on other data than {name} {record.version}: mtbench fetch {name}, and evaluate again"
        yield Problem("content_sha256", where, message)
    if payload["targets"] not in (0, record.parts["test/targets"].triples):
        yield Problem(
            "targets", where, f"{payload['targets']} targets, {name} has {record.parts['test/targets'].triples}"
        )


def _ranks(folder: Path, where: str, task: Task, payload: Mapping[str, Any], run: RunRead) -> Iterator[Problem]:
    if payload["ranks_sha256"] is None:
        return
    ranks = runs.read_ranks(folder / RANKS_FILE)
    if ranks.named and not may_name_targets(payload["dataset"]):
        message = "names targets of data that may not be passed on: submit the run again, which leaves them out"
        yield Problem("names", f"{where}/{RANKS_FILE}", message)
    if print_ := fingerprint(ranks):
        run.prints[task] = print_


def fingerprint(ranks: Ranks) -> str | None:
    """Return a hash of the counts, whatever their order; None for counts that different models may well have.

    A model that ties or that finds everything has the counts of every other one of its kind. The order is left out
    because whoever copies ranks may shuffle them.
    """
    sides = ranks.sides.values()
    if all((counts.greater == 0).all() and (counts.equal == counts.count).all() for counts in sides):
        return None
    columns = [getattr(counts, name) for counts in sides for name in ("greater", "equal", "count")]
    rows, numbers = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    if len(rows) < TELLING:
        return None
    return hashlib.sha256(np.column_stack((rows, numbers)).astype("<i8").tobytes()).hexdigest()


def _unlike(payload: Mapping[str, Any], run: RunRead) -> Iterator[str]:
    """Say where the conventions of a run are not about that run: another header, or other standard figures."""
    for key in sorted(HEADER):
        if payload[key] != run.headline[key]:
            yield f"{key} is {quote(payload[key])}, {RESULT_FILE} has {quote(run.headline[key])}"
    for protocol, found in payload["protocols"].items():
        result = run.payloads.get((protocol, STANDARD.relations.name))
        if result is None or not result["metrics"]:
            continue
        standard = found[0]
        if standard["candidates_sha256"] != result["candidates_sha256"]:
            yield f"the standard of {protocol} was read on other candidates"
        for key in ("metrics", "expected"):
            for name in METRICS:
                ours, theirs = standard[key][name], result["metrics"][name]
                if not math.isclose(ours, theirs, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
                    yield f"the standard of {protocol} has {name} {ours}, the result {theirs}"
