"""``mtbench audit``: what is wrong with a dataset, as far as its triples show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from mtbench.cli import completion
from mtbench.cli.output import AsJson, Cell, say, say_json, say_table

if TYPE_CHECKING:
    from mtbench.auditing.audit import Audit, TargetAudit

GRAPHS = ("Graph", "Entities", "Triples", "Targets", "Types used", "Slots", "Effective types", "Types of 99 %")
TARGETS = ("Targets", "valid", "test")
RELATIONS = ("Graph", "Relation", "Other", "Kind", "Jaccard", "Pairs")
PATTERNS = ("Targets", "Relation", "First step", "Second step", "Recovers", "Of")
CANDIDATES = (
    "Protocol",
    "Relations",
    "Asked",
    "Drawn",
    "Distinct",
    "Short lists",
    "Known triples",
    "Chance MRR",
    "Chance Hits@10",
)
LONGEST = 12
"""Rows shown of a long table; --json has them all."""


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", autocompletion=completion.datasets, help="A dataset, or a directory made by build."
        ),
    ],
    threshold: Annotated[
        float, typer.Option(help="Jaccard index from which two relations are inverses or near-duplicates.")
    ] = 0.8,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw degrees and relation frequencies: FILE.png or FILE.svg.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the defects of a dataset that its triples show.

    Example: mtbench audit metafam

    Example: mtbench audit metafam --plot metafam.png
    """
    from mtbench.auditing import plot as picture
    from mtbench.auditing.audit import audit
    from mtbench.data.load import load
    from mtbench.files import pictures

    if plot is not None:
        pictures.check(plot)
    found = audit(load(name), threshold=threshold)
    if plot is not None:
        picture.draw(found, plot)
    if as_json:
        say_json(found.to_dict())
        return
    _show(found)
    if plot is not None:
        say(f"\n{plot} shows the degrees and relation frequencies")


def _show(found: Audit) -> None:
    say(f"{found.dataset} {found.version}\n")
    say_table(
        GRAPHS,
        [
            (
                name,
                graph.entities,
                graph.triples,
                graph.targets,
                graph.relation_types,
                graph.relation_slots,
                f"{graph.effective_relations:.1f}",
                graph.relations_of_most,
            )
            for name, graph in found.graphs.items()
        ],
    )
    say("")
    say_table(TARGETS, _target_rows(found))
    if found.candidates:
        say(f"\nTest candidates, mean of seeds {_listed(sorted({part.seed for part in found.candidates}))}\n")
        say_table(CANDIDATES, _candidate_rows(found))
    similar = [
        (graph, pair.relation, pair.other, pair.kind, f"{pair.jaccard:.2f}", pair.pairs)
        for graph, pairs in found.similar_relations.items()
        for pair in pairs
    ]
    _show_some(f"Relations with a Jaccard index of at least {found.threshold:g}", RELATIONS, similar)
    recovered = [
        (split, row.relation, row.first, row.second, row.covered, row.targets)
        for split, rows in found.patterns.items()
        for row in sorted(rows, key=lambda row: -row.covered)[: LONGEST // 2]
    ]
    _show_some("Two observable steps from head to tail (^ is against its direction)", PATTERNS, recovered)
    say("\nFindings" if found.findings else "\nFindings: none")
    for sentence in found.findings:
        say(f"  - {sentence}")


def _show_some(title: str, headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    if not rows:
        say(f"\n{title}: none")
        return
    say(f"\n{title}\n")
    say_table(headings, rows[:LONGEST])
    if len(rows) > LONGEST:
        say(f"... and {len(rows) - LONGEST} more with --json")


def _target_rows(found: Audit) -> list[tuple[Cell, ...]]:
    parts = [found.targets["valid"], found.targets["test"]]
    rows: list[tuple[Cell, ...]] = [("all", *(part.targets for part in parts))]

    def add(label: str, *counts: int) -> None:
        rows.append((label, *(_percent(count, part) for count, part in zip(counts, parts, strict=True))))

    add("a triple from tail to head is observable", *(part.reversed_pair for part in parts))
    add("... of the same relation", *(part.reversed_same for part in parts))
    add("another relation from head to tail is observable", *(part.same_pair for part in parts))
    for case in parts[0].half_links:
        add(f"half-links (h, r, .) and (., r, t) observable: {case}", *(part.half_links[case] for part in parts))
    add("an entity without an observable triple", *(part.unseen_entities for part in parts))
    add("a relation type without an observable triple", *(part.unseen_relations for part in parts))
    on_old = found.overlap.targets_on_training_relations
    rows.append(("on a relation type of train", None, _percent(on_old, parts[1])))
    for protocol, asked in parts[0].candidates_asked.items():
        label = f"relation candidates found of the {asked} of protocol {protocol}"
        rows.append((label, *(f"{part.candidates[protocol]:.1f}" for part in parts)))
    return rows


def _candidate_rows(found: Audit) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys((part.protocol, part.vocabulary) for part in found.candidates):
        seeds = [part for part in found.candidates if (part.protocol, part.vocabulary) == name]
        sides = list(seeds[0].asked)
        rows.append(
            (
                *name,
                ", ".join(f"{seeds[0].asked[side]} {side}s" for side in sides),
                " + ".join(f"{fmean(part.drawn[side] for part in seeds):.1f}" for side in sides),
                " + ".join(f"{fmean(part.distinct[side] for part in seeds):.1f}" for side in sides),
                f"{100 * fmean(part.short for part in seeds):.1f} %",
                sum(part.false_negatives for part in seeds),
                f"{fmean(part.chance['mrr'] for part in seeds):.4f}",
                f"{fmean(part.chance['hits@10'] for part in seeds):.4f}",
            )
        )
    return rows


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _percent(count: int, part: TargetAudit) -> str:
    return f"{count:,} ({100 * count / part.targets:.1f} %)" if part.targets else "0"
