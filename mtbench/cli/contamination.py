"""``mtbench contamination``: how much of a dataset a pre-training graph has already shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtbench.cli import completion
from mtbench.cli.output import AsJson, Cell, fail, say, say_json, say_table
from mtbench.errors import UsageError

if TYPE_CHECKING:
    from mtbench.leakage.contamination import Contamination, Overlap, Seen

HEADINGS = ("Part", "Triples", "Exact", "Same pair", "Reversed", "Reversed pair", "Entities", "Relations")


def command(
    against: Annotated[
        str,
        typer.Option(
            metavar="FILE|DATASET",
            help="The pre-training graph: a file of triples (tab-separated, .csv, .gz, .parquet), of fingerprints, "
            "or a dataset.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", autocompletion=completion.datasets, help="A dataset, or a directory made by build."
        ),
    ] = None,
    fail_above: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", min=0, max=1, help="Exit with 1 if more of the test graph or targets is there exactly."
        ),
    ] = None,
    fingerprints: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write fingerprints of --against: what others need to check your graph."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of fingerprints.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare a dataset with a graph that a model was trained on.

    Example: mtbench contamination wikitopics-mt1/health --against wikidata5m.txt.gz --fail-above 0

    Example: mtbench contamination --against mine.tsv --fingerprints mine.parquet
    """
    from mtbench.data.load import load
    from mtbench.leakage import files as fingerprint_files
    from mtbench.leakage.contamination import compare, parts_of
    from mtbench.leakage.fingerprints import collect

    if name is None and fingerprints is None:
        raise UsageError("give the dataset to check, NAME, or the file to write, --fingerprints FILE")
    if name is None and fail_above is not None:
        raise UsageError("--fail-above checks a dataset: give its NAME")
    if fingerprints is not None:
        fingerprint_files.expect_free(fingerprints, force=force)
    data = None if name is None else load(name)
    parts = parts_of(against)
    if fingerprints is not None:
        collected = collect(parts)
        fingerprint_files.write(collected, fingerprints, force=force)
        parts = parts_of(collected)
        if not as_json:
            say(f"{fingerprints} holds the fingerprints of {collected.lines:,} triples")
    found = [] if data is None else compare([data.valid, data.test], parts)
    if as_json:
        written = None if fingerprints is None else str(fingerprints)
        say_json({"against": against, "fingerprints": written, "splits": [part.to_dict() for part in found]})
    elif found:
        _show(found, against)
    if found and fail_above is not None:
        _judge(found[-1], fail_above)


def _show(found: list[Contamination], against: str) -> None:
    rows = []
    for part in found:
        rows.append(_row(f"{'train' if part.split == 'valid' else part.split} graph", part.graph))
        rows.append(_row(f"{part.split} targets", part.targets))
    say(f"{found[0].dataset}: seen in the {found[0].triples:,} triples of {against}\n")
    say_table(HEADINGS, rows)


def _row(label: str, part: Overlap) -> tuple[Cell, ...]:
    shown = part.exact, part.same_pair, part.reversed_triple, part.reversed_pair, part.entities, part.relations
    return (label, part.exact.of, *map(_cell, shown))


def _cell(count: Seen) -> str:
    return f"{count.seen:,} ({100 * count.share:.1f} %)" if count.seen else "0"


def _judge(test: Contamination, limit: float) -> None:
    over = {"graph": test.graph.exact, "targets": test.targets.exact}
    shown = [f"{count.share:.4f} of its test {part}" for part, count in over.items() if count.share > limit]
    if shown:
        fail(f"{test.dataset}: {' and '.join(shown)} were seen, more than {limit:g}")
        raise typer.Exit(1)
