"""``mtbench verify``: is a stored dataset, or a run, what it says it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtbench.cli import completion
from mtbench.cli.chosen import All
from mtbench.cli.output import AsJson, Cell, fail, records, say, say_json, say_table
from mtbench.errors import MtbenchError, UsageError

HEADINGS = ("Part", "Triples", "Content SHA-256", "Same")
PROBLEMS = ("Name", "Message")
DATASETS = ("Name", "Stored", "Valid")


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|RUN",
            autocompletion=completion.datasets,
            help="A dataset, its directory, or a run's directory.",
        ),
    ] = None,
    every: All = False,
    rescore: Annotated[
        bool, typer.Option("--rescore", help="Recompute a run's figures with this evaluator, keeping the old ones.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a stored dataset or run, or all datasets.

    Example: mtbench verify metafam

    Example: mtbench verify --all

    Example: mtbench verify runs/isdea-metafam

    Example: mtbench verify runs/isdea-metafam --rescore
    """
    if (name is None) is not every:
        raise UsageError("give either 'NAME|RUN' or --all")
    is_run = name is not None and any((Path(name) / file).exists() for file in ("result.json", "ranks.parquet"))
    if rescore and not is_run:
        raise UsageError(f"--rescore takes the directory of a run, not {name or '--all'}: there is no result.json")
    if name is None:
        _verify_all(as_json=as_json)
    elif rescore:
        _rescore(Path(name), as_json=as_json)
    elif is_run:
        _verify_run(Path(name), as_json=as_json)
    else:
        _verify_dataset(name, as_json=as_json)


def _verify_dataset(name: str, *, as_json: bool) -> None:
    from mtbench.data import store
    from mtbench.data.load import locate

    directory, remedy = locate(name)
    rows = store.verify(directory, remedy)
    cells = [(row.part, row.triples, row.sha256, row.same) for row in rows]
    differing = [row.part for row in rows if not row.same]
    if as_json:
        say_json({"directory": str(directory), "valid": not differing, "parts": records(HEADINGS, cells)})
    else:
        say_table(HEADINGS, cells)
    if differing:
        fail(f"{directory}: {', '.join(differing)} differ from the manifest: {remedy}")
        raise typer.Exit(1)
    if not as_json:
        say(f"\n{directory}: every file and every content hash is as recorded")


def _verify_all(*, as_json: bool) -> None:
    from mtbench.data import catalog, store
    from mtbench.files import atomic

    rows: list[tuple[Cell, ...]] = []
    for record in map(catalog.record, catalog.names()):
        directory, remedy = store.cached(record), store.mend(record.id)
        stored, valid = not atomic.is_free(directory), None
        if stored:
            try:
                differing = [row.part for row in store.verify(directory, remedy) if not row.same]
                if differing:
                    fail(f"{directory}: {', '.join(differing)} differ from the manifest: {remedy}")
                valid = not differing
            except MtbenchError as error:
                fail(str(error))
                valid = False
        rows.append((record.id, stored, valid))
    if as_json:
        say_json(records(DATASETS, rows))
    else:
        say_table(DATASETS, rows)
    if any(valid is False for *_, valid in rows):
        raise typer.Exit(1)


def _verify_run(directory: Path, *, as_json: bool) -> None:
    from mtbench.results import result as results

    problems = results.verify(directory).problems
    if as_json:
        rows = [(problem.name, problem.message) for problem in problems]
        say_json({"directory": str(directory), "valid": not problems, "problems": records(PROBLEMS, rows)})
    elif not problems:
        say(f"{directory}: every figure follows from the ranks")
    for problem in problems:
        fail(problem.message)
    if problems:
        raise typer.Exit(1)


def _rescore(directory: Path, *, as_json: bool) -> None:
    from mtbench.results.rescore import rescore

    done = rescore(directory)
    if not as_json:
        say(str(done))
        return
    changed = {name: {"old": old, "new": new} for name, (old, new) in done.changed.items()}
    versions = {"old_version": done.old_version, "new_version": done.new_version}
    say_json({"directory": str(directory), **versions, "changed": changed})
