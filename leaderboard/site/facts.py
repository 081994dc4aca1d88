"""What a page says beyond the board: the audit of a dataset, curves of a training, tasks of relation types, transfer.

Each part needs something that may be absent: the dataset, a file of the run, a folder. Then the page says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from leaderboard.board import readings
from leaderboard.board.board import DatasetBoard, Figure
from leaderboard.entries.entries import Entry
from leaderboard.entries.runs import may_name_targets
from leaderboard.site import pictures
from leaderboard.site.cells import Cell, Column, Group, Row, Table, slug
from leaderboard.site.pictures import Pair
from leaderboard.site.strata import Data
from mtbench.analysis.auditing import audit
from mtbench.errors import MtbenchError
from mtbench.runs.directory import HISTORY_FILE, TASKS_FILE


def findings(part: DatasetBoard, data: Data) -> tuple[Sequence[str], str]:
    """Return what the audit of a dataset finds, or why there is none; its candidates are known by their hashes."""
    found = data.get(part.name)
    return ((), found) if isinstance(found, str) else (audit(found, seeds=()).findings, "")


def paper_against_ours(part: DatasetBoard, names: Mapping[str, str]) -> str:
    """Return a picture of all reported MRRs beside ours in the same evaluation setting; empty where none are reported.

    ``names`` are those of the entries, by slug.
    """
    panels: dict[str, list[Pair]] = {}
    said = []
    for protocol in ("dual", "entity", "relation"):
        for model in part.reported:
            cell = part.paper(model, protocol)
            if cell is None:
                continue
            printed = None if cell.mean is None else Figure(cell.mean, cell.std)
            found = [line for line in part.lines if line.entry.card.model == model]
            pairs = [(line.name, line.figure(readings.PAPER, protocol)) for line in found] or [
                (names.get(model, model), None)
            ]
            for label, ours in pairs:
                panels.setdefault(protocol, []).append(Pair(label, printed, ours, "" if printed else "out of memory"))
                said.append(f"{protocol} {label}: reported {cell}, here {ours or 'not run'}")
    if not panels:
        return ""
    title = f"Reported and re-evaluated MRR on {part.name}, each row in its own evaluation setting. {'; '.join(said)}."
    return pictures.inline(pictures.draw_pairs(panels), f"{slug(part.name)}-paper", title)


def curves(entry: Entry, dataset: str) -> str:
    """Return the learning curves of an entry on a dataset, a line per seed; empty where no run kept any."""
    history: dict[str, Sequence[Mapping[str, float]]] = {}
    for run in entry.runs[dataset]:
        path = run.directory.path / HISTORY_FILE
        if path.is_file():
            for stage, records in json.loads(path.read_text(encoding="utf-8")).items():
                if records and "valid_mrr" in records[0]:
                    history[f"seed {run.headline.run.seed}" + (f", {stage}" if stage != "train" else "")] = records
    if not history:
        return ""
    said = []
    for stage, records in history.items():
        best = max(records, key=lambda record: record.get("valid_mrr", -math.inf))
        said.append(f"{stage}: best validation MRR {best['valid_mrr']:.3f} in epoch {best['epoch']:.0f}")
    title = f"Training of {entry.card.name} on {dataset}. {'; '.join(said)}."
    return pictures.inline(pictures.draw_curves(history), f"{slug(dataset)}-curves", title)


def tasks(entry: Entry, dataset: str) -> list[Table]:
    """Return the shares of relation types in tasks that the first run of an entry kept, a table per graph.

    Only of datasets made by this package: the names of others are not ours to publish.
    """
    path = entry.runs[dataset][0].directory.path / TASKS_FILE
    if not may_name_targets(dataset) or not path.is_file():
        return []
    found = []
    for graph, told in json.loads(path.read_text(encoding="utf-8"))["graphs"].items():
        columns = [Column("Ground truth", sort="text"), *(Column(f"Task {k + 1}") for k in range(told["tasks"]))]
        relations = sorted(told["relations"].items(), key=lambda one: (one[1]["truth"] or "~", one[0]))
        rows = [
            Row(
                relation,
                [
                    Cell(one["truth"] or "unknown"),
                    *(Cell(f"{share:.2f}", value=share, shade=shade(share)) for share in one["alpha"]),
                ],
                words=relation,
            )
            for relation, one in relations
        ]
        hard = told["hard"]
        agreement = f"; agreement with the ground truth: ARI {hard['ari']:.3f}, NMI {hard['nmi']:.3f}" if hard else ""
        seed = entry.runs[dataset][0].headline.run.seed
        caption = f"{graph.capitalize()} graph, seed {seed}: share of each relation type in each task{agreement}"
        found.append(Table(f"tasks-{slug(dataset)}-{slug(graph)}", caption, "Relation type", columns, [Group(rows)]))
    return found


def transfers(entries: Path) -> list[Table]:
    """Return the matrices of `mtbench grid --train` that lie beside the entries, in ``transfer/``, as shaded tables."""
    folder = entries.parent / "transfer"
    found = []
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/matrix.json")]):
        name = slug(path.parent.name if path.name == "matrix.json" else path.stem)
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            topics = [str(topic) for topic in told["topics"]]
            tests = [str(topic) for topic in told.get("tests", topics)]
            missing = {(one["train"], one["test"]): str(one["status"]) for one in told["not_scored"]}
            rows = [
                Row(
                    topic,
                    [
                        _transfer_cell(mrr, missing.get((topic, other), ""))
                        for other, mrr in zip(tests, line, strict=True)
                    ],
                    words=topic,
                )
                for topic, line in zip(topics, told["mrr"], strict=True)
            ]
            settings = _settings(path.with_name("plan.json"))
            caption = f"{told['model']}{settings}, {told['name']}: MRR, trained on the row and tested on the column"
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MtbenchError(f"{path}: no matrix of mtbench grid ({error}); remove it, or make it again") from error
        columns = [Column(topic) for topic in tests]
        found.append(Table(f"transfer-{name}", caption, "Trained on", columns, [Group(rows)], dense=True))
    return found


def _settings(plan: Path) -> str:
    """Return the hyper-parameters that were given to a transfer, in brackets, from the plan beside its matrix."""
    if not plan.exists():
        return ""
    given = json.loads(plan.read_text(encoding="utf-8"))["settings"]
    return f" ({', '.join(f'{key}={value}' for key, value in sorted(given.items()))})" if given else ""


def _transfer_cell(mrr: float | None, status: str) -> Cell:
    if mrr is None:
        return Cell(status or "-", kind="oom" if status == "oom" else "missing")
    return Cell(f"{mrr:.3f}", value=mrr, shade=shade(mrr))


def shade(share: float) -> int:
    """Return one of ten steps of shading for a number from 0 to 1."""
    return min(9, max(0, int(10 * share)))
