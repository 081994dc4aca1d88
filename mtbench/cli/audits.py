"""``mtbench audit``: what is wrong with a dataset, and which of its triples are in another graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer

from mtbench.analysis import auditing
from mtbench.analysis import fingerprints as files
from mtbench.analysis.auditing import Audit
from mtbench.analysis.contents import TargetAudit
from mtbench.analysis.leakage import Contamination, Overlap, Seen, contaminations, parts_of
from mtbench.analysis.pictures import draw_audit
from mtbench.cli import options
from mtbench.cli.output import AsJson, Cell, fail, say, say_json, say_table
from mtbench.data.loading import load
from mtbench.errors import UsageError
from mtbench.files.formats import expect_free

GRAPHS = (
    "Graph",
    "Entities",
    "Triples",
    "To predict",
    "Types used",
    "Relation ids",
    "Effective types",
    "Types of 99 %",
)
TARGETS = ("Triples to predict", "valid", "test")
RELATIONS = ("Graph", "Relation", "Other", "Kind", "Jaccard", "Pairs")
PATTERNS = ("Triples of", "Relation", "First step", "Second step", "Recovers", "Of")
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
EXPOSURE = ("Part", "Triples", "Exact", "Same pair", "Reversed", "Reversed pair", "Entities", "Relations")
LONGEST = 12
"""How many rows of a long table are shown; --json has them all."""


def audit(
    name: options.DatasetIfAny = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw degrees and relation frequencies: FILE.png or FILE.svg.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|DATASET",
            help="Count instead what a pre-training graph holds of it: a file of triples (tab-separated, .csv, .gz, "
            ".parquet), of fingerprints, a dataset, or one split of it (metafam/train).",
        ),
    ] = None,
    fail_above: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            help="For --against: exit with 1 if more of the inference graph or of the test triples is there.",
        ),
    ] = None,
    fingerprints: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write fingerprints of --against: what others need to check your graph."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of fingerprints.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure what is wrong with a dataset, and who has seen it.

    Its defects are those that its triples show. With --against, the share of its triples that a model has seen which
    learned from another graph is counted instead.

    Example: mtbench audit metafam --plot metafam.png

    Example: mtbench audit wikitopics-mt1/health --against wikidata5m.txt.gz --fail-above 0

    Example: mtbench audit --against mine.tsv --fingerprints mine.parquet
    """
    if against is not None:
        if plot is not None:
            raise UsageError("--against counts triples of both graphs: leave out --plot, which is of the dataset alone")
        _expose(name, against, fail_above, fingerprints, force=force, as_json=as_json)
        return
    if name is None:
        raise UsageError("give the dataset to audit, NAME (mtbench list shows the names)")
    if fail_above is not None or fingerprints is not None:
        option = "--fail-above" if fingerprints is None else "--fingerprints"
        raise UsageError(f"{option} is of a graph that a model learned from: name it with --against FILE|DATASET")
    options.check_output(plot=plot)
    data = load(name)
    measured = auditing.audit(data)
    if plot is not None:
        draw_audit(measured, plot)
    if as_json:
        say_json(measured.to_dict())
        return
    show_audit(measured, data.label)
    if plot is not None:
        say(f"\n{plot} shows the degrees and relation frequencies")


def show_audit(measured: Audit, label: str) -> None:
    """Print the tables of an audit of the dataset with this label."""
    say(f"{label}\n")
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
            for name, graph in measured.graphs.items()
        ],
    )
    say("")
    say_table(TARGETS, _target_rows(measured))
    if measured.candidates:
        seeds = sorted({part.seed for part in measured.candidates})
        say(f"\nTest candidates, mean of seeds {', '.join(map(str, seeds))}\n")
        say_table(CANDIDATES, _candidate_rows(measured))
    similar = [
        (graph, pair.relation, pair.other, pair.kind, f"{pair.jaccard:.2f}", pair.pairs)
        for graph, pairs in measured.similar_relations.items()
        for pair in pairs
    ]
    _show_first(f"Relations with a Jaccard index of at least {measured.threshold:g}", RELATIONS, similar)
    # Half for each split, so that the patterns of validation do not push those of test out of the table.
    recovered = [
        (split, row.relation, row.first, row.second, row.covered, row.targets)
        for split, rows in measured.patterns.items()
        for row in sorted(rows, key=lambda row: -row.covered)[: LONGEST // 2]
    ]
    _show_first("Two steps in the graph from head to tail (^ is against its direction)", PATTERNS, recovered)
    say("\nFindings" if measured.findings else "\nFindings: none")
    for sentence in measured.findings:
        say(f"  - {sentence}")


def _show_first(title: str, headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    if not rows:
        say(f"\n{title}: none")
        return
    say(f"\n{title}\n")
    say_table(headings, rows[:LONGEST])
    if len(rows) > LONGEST:
        say(f"... and {len(rows) - LONGEST} more with --json")


def _target_rows(measured: Audit) -> list[tuple[Cell, ...]]:
    parts = [measured.targets["valid"], measured.targets["test"]]
    rows: list[tuple[Cell, ...]] = [("all", *(part.targets for part in parts))]

    def add(label: str, *counts: int) -> None:
        rows.append((label, *(_percent(count, part) for count, part in zip(counts, parts, strict=True))))

    add("a triple from tail to head is in the graph", *(part.reversed_pair for part in parts))
    add("... of the same relation", *(part.reversed_same for part in parts))
    add("another relation from head to tail is in the graph", *(part.same_pair for part in parts))
    for case in parts[0].half_links:
        add(f"half-links (h, r, .) and (., r, t) in the graph: {case}", *(part.half_links[case] for part in parts))
    add("an entity without a triple in the graph", *(part.unseen_entities for part in parts))
    add("a relation type without a triple in the graph", *(part.unseen_relations for part in parts))
    add("head and tail in two components of the graph", *(part.apart for part in parts))
    on_old = measured.overlap.targets_on_training_relations
    rows.append(("on a relation type of train", None, _percent(on_old, parts[1])))
    for protocol, asked in parts[0].candidates_asked.items():
        label = f"relation candidates found of the {asked} of protocol {protocol}"
        rows.append((label, *(f"{part.candidates[protocol]:.1f}" for part in parts)))
    return rows


def _candidate_rows(measured: Audit) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys((part.protocol, part.vocabulary) for part in measured.candidates):
        seeds = [part for part in measured.candidates if (part.protocol, part.vocabulary) == name]
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


def _percent(count: int, part: TargetAudit) -> str:
    return f"{count:,} ({100 * count / part.targets:.1f} %)" if part.targets else "0"


def _expose(
    name: str | None, against: str, fail_above: float | None, fingerprints: Path | None, *, force: bool, as_json: bool
) -> None:
    """Count which triples of a dataset are in a graph, and write the fingerprints of that graph."""
    if name is None and fingerprints is None:
        raise UsageError("give the dataset to check, NAME, or the file to write, --fingerprints FILE")
    if name is None and fail_above is not None:
        raise UsageError("--fail-above checks a dataset: give its NAME")
    if fingerprints is not None:
        expect_free(fingerprints, force=force)
    data = None if name is None else load(name)
    parts = parts_of(against)
    # Collected first: a dump is read once, a block at a time, and its parts are gone when they have been counted.
    if fingerprints is not None:
        collected = files.collect(parts)
        files.write(collected, fingerprints, force=force)
        parts = parts_of(collected)
        if not as_json:
            say(f"{fingerprints} holds the fingerprints of {collected.lines:,} triples")
    exposed = [] if data is None else contaminations([data.valid, data.test], parts)
    if as_json:
        written = None if fingerprints is None else str(fingerprints)
        say_json({"against": against, "fingerprints": written, "splits": [part.to_dict() for part in exposed]})
    elif exposed:
        _show_exposure(exposed, against)
    # Of the test split alone: a model may learn from the training graph, that is what it is for.
    if exposed and fail_above is not None:
        test = exposed[-1]
        over = {"inference graph": test.graph.exact, "test triples": test.targets.exact}
        shown = [f"{count.share:.4f} of its {part}" for part, count in over.items() if count.share > fail_above]
        if shown:
            fail(f"{test.dataset}: {' and '.join(shown)} were seen, more than {fail_above:g}")
            raise typer.Exit(1)


def _show_exposure(exposed: list[Contamination], against: str) -> None:
    rows = []
    # Validation shares the graph of training, which is shown under the name that people look for.
    for part in exposed:
        rows.append(_row(f"{'train' if part.split == 'valid' else part.split} graph", part.graph))
        rows.append(_row(f"{part.split} triples", part.targets))
    say(f"{exposed[0].dataset}: seen in the {exposed[0].triples:,} triples of {against}\n")
    say_table(EXPOSURE, rows)


def _row(label: str, part: Overlap) -> tuple[Cell, ...]:
    shown = part.exact, part.same_pair, part.reversed_triple, part.reversed_pair, part.entities, part.relations
    return (label, part.exact.of, *map(_cell, shown))


def _cell(count: Seen) -> str:
    return f"{count.seen:,} ({100 * count.share:.1f} %)" if count.seen else "0"
