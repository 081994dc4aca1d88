"""``mtbench build``: make a dataset on this machine, and compare it with the release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtbench.cli import completion
from mtbench.cli.output import AsJson, fail, records, say, say_json, say_table
from mtbench.errors import UsageError

if TYPE_CHECKING:
    from mtbench.data.catalog import Parameter
    from mtbench.data.parts import Comparison

HEADINGS = ("Part", "Triples", "Release triples", "Content SHA-256", "Same")


def command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", autocompletion=completion.datasets, help="A dataset of the catalogue.")
    ],
    seed: Annotated[int | None, typer.Option(help="Another seed gives a fresh dataset; it needs --out.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another parameter of the builder; may be repeated."),
    ] = None,
    raw: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Rebuild from raw files: a dump, or a folder; more may follow."),
    ] = None,
    more: Annotated[list[Path] | None, typer.Argument(metavar="[PATH]...", help="More raw files, after --raw.")] = None,
    scenario: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Topics and scenarios of your own, for NAME wikitopics.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Build afresh and compare with the release.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Store it in this directory instead of the cache.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is stored there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build a dataset from its parameters and store it.

    Example: mtbench build metafam --check

    Example: mtbench build metafam --seed 7 --out fresh-metafam

    Example: mtbench build wikitopics-mt --raw wikidata5m_all_triplet.txt.gz --seed 7 --out fresh-wikitopics

    Example: mtbench build wikitopics --raw wikidata5m_all_triplet.txt.gz --scenario mine.toml --out mine
    """
    if raw:
        from mtbench.cli.raw import rebuild

        paths = [*raw, *(more or [])]
        rebuild(
            *(name, paths, seed, settings or []),
            scenario=scenario,
            check=check,
            out=out,
            force=force,
            as_json=as_json,
        )
        return
    if more:
        raise UsageError(f"{more[0]}: raw files follow --raw")
    if scenario is not None or name == "wikitopics":
        raise UsageError(
            "scenarios are drawn from a dump: mtbench build wikitopics --raw DUMP --scenario FILE --out DIR"
        )
    from mtbench.data import catalog, store
    from mtbench.data.building import check as compare
    from mtbench.data.building import derive, is_release, keep, resolve

    record = catalog.record(name)
    values = resolve(record, _parameters(name, seed, settings or []))
    release = is_release(record, values)
    if not (release or check or out is not None):
        raise UsageError(f"this is not {record.id}'s release, so the cache is not its place: add --out DIR")
    made = None
    if check:
        made = derive(record.id, **values)
        rows = compare(made)
        _report(rows, made.name, as_json=as_json)
        if differing := [row.part for row in rows if not row.same]:
            fail(f"{', '.join(differing)} differ from the release; nothing was stored")
            raise typer.Exit(1)
    dataset = keep(record, values, out=out, force=force, made=made)
    directory = store.cached(record) if out is None else out
    if not check:
        if as_json:
            say_json({"name": dataset.name, "version": dataset.version, "directory": str(directory)})
        else:
            say(f"{dataset.name} {dataset.version} is stored in {directory}")


def _parameters(name: str, seed: int | None, settings: list[str]) -> dict[str, Parameter]:
    from mtbench.data import catalog
    from mtbench.data.building import parse_parameter

    found: dict[str, Parameter] = {} if seed is None else {"seed": seed}
    for setting in settings:
        key, value = parse_parameter(catalog.record(name), setting)
        if key in found:
            raise UsageError(f"{key} is given twice")
        found[key] = value
    return found


def _report(rows: list[Comparison], name: str, *, as_json: bool) -> None:
    cells = [(row.part, row.triples, row.expected_triples, row.sha256, row.same) for row in rows]
    identical = all(row.same for row in rows)
    if as_json:
        say_json({"name": name, "identical": identical, "parts": records(HEADINGS, cells)})
        return
    say_table(HEADINGS, cells)
    if identical:
        say(f"\n{name} is identical to the release")
