"""``mtbench build`` and ``import``: a dataset made from its seed, from raw files, or from files of your own."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from mtbench.analysis.auditing import audit
from mtbench.builders import making, wikitopics
from mtbench.builders.folders import from_files
from mtbench.builders.making import compare_structure
from mtbench.cli import options
from mtbench.cli.audits import show_audit
from mtbench.cli.output import AsJson, Cell, doing, fail, records, say, say_json, say_table
from mtbench.data import catalog, store
from mtbench.data.catalog import Parameter
from mtbench.data.loading import Parameters, derive, is_release, keep, load, parse_parameter, resolve
from mtbench.data.splits import Dataset, PartMatch, match_parts
from mtbench.errors import UsageError, typed
from mtbench.evaluation.tasks import measure, task
from mtbench.files import tables
from mtbench.files.atomic import is_free
from mtbench.files.reading import expanded
from mtbench.heuristics.figures import BASELINES
from mtbench.names import COLUMNS

BITS = ("Dataset", "Part", "Triples", "Release triples", "Content SHA-256", "Same")
STRUCTURE = ("Dataset", "Part", "Statistic", "Rebuilt", "Release", "Alike")


def rebuild(
    name: str,
    raw: list[Path],
    seed: int | None,
    settings: list[str] | None,
    *,
    scenario: Path | None,
    check: bool,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Make the datasets that a name stands for and store them; with ``check``, compare them first."""
    if check and scenario is not None:
        raise UsageError("a scenario of your own has no release to compare with: leave out --check")
    target = making.target(name, scenario)
    recipe = target.recipe
    values = resolve(target.name, recipe.options, _given(target.name, recipe.options, seed, settings))
    store_them = out is not None or not check or recipe.gives_release(values)
    places = making.places(target, out, values, force=force) if store_them else {}
    made = recipe.rebuild(target.datasets, raw, values)
    headings, rows = _compared(made.datasets, recipe.mixed) if check else (BITS, [])
    differing = [f"{row[0]} {row[1]}" for row in rows if not row[-1]]
    stored = []
    for wanted, dataset in zip(target.datasets, made.datasets, strict=True):
        if wanted in places and not differing:
            keep(dataset.info, dataset.parameters, out=places[wanted], force=force, made=dataset)
            stored.append({"name": dataset.name, "version": dataset.version, "directory": str(places[wanted])})
    if as_json:
        say_json({"note": made.note, "datasets": stored, "comparison": records(headings, rows)})
    else:
        if made.note:
            say(made.note)
        if check:
            say_table(headings, rows)
        for row in stored:
            say(f"{row['name']} {row['version']} is stored in {row['directory']}")
    if differing:
        fail(f"{', '.join(dict.fromkeys(differing))} differ from the release; nothing was stored")
        raise typer.Exit(1)


def _given(name: str, defaults: Parameters, seed: int | None, settings: list[str] | None) -> dict[str, Parameter]:
    found: dict[str, Parameter] = {} if seed is None else {"seed": seed}
    for setting in settings or []:
        key, value = parse_parameter(name, defaults, setting)
        if key in found:
            raise UsageError(f"{key} is given twice")
        found[key] = value
    return found


def _compared(datasets: tuple[Dataset, ...], mixed: Collection[str]) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    """Compare bit by bit what claims to be the release, and by structure what is another sample of it."""
    if all(is_release(dataset.info, dataset.parameters) for dataset in datasets):
        rows: list[tuple[Cell, ...]] = [
            (dataset.name, row.part, row.triples, row.expected_triples, row.sha256, row.same)
            for dataset in datasets
            for row in match_parts(dataset, dataset.info)
        ]
        return BITS, rows
    return STRUCTURE, [
        (dataset.info.id, row.part, row.statistic, _shown(row.rebuilt), _shown(row.released), row.alike)
        for dataset in datasets
        for row in compare_structure(dataset, load(dataset.info.id), mixed=dataset.info.id in mixed)
    ]


def _shown(value: float) -> int | float:
    return int(value) if float(value).is_integer() else round(value, 4)


HEADINGS = ("Part", "Triples", "Release triples", "Content SHA-256", "Same")


def build(
    name: Annotated[
        str, typer.Argument(metavar="NAME", autocompletion=options.datasets, help="A dataset of the catalogue.")
    ],
    seed: Annotated[int | None, typer.Option(help="Another seed gives a fresh dataset; it needs --out.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another parameter of the builder; may be repeated."),
    ] = None,
    raw: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Rebuild from raw files: a dump, or a folder; may be repeated."),
    ] = None,
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
    """Build a dataset from its parameters, or from raw files, and store it.

    Example: mtbench build metafam --check

    Example: mtbench build metafam --seed 7 --out fresh-metafam

    Example: mtbench build wikitopics-mt --raw wikidata5m_all_triplet.txt.gz --seed 7 --out fresh-wikitopics

    Example: mtbench build wikitopics --raw wikidata5m_all_triplet.txt.gz --scenario mine.toml --out mine
    """
    if raw:
        rebuild(name, raw, seed, settings, scenario=scenario, check=check, out=out, force=force, as_json=as_json)
        return
    if scenario is not None or name == wikitopics.BUILDER:
        raise UsageError(
            "scenarios are drawn from a dump: mtbench build wikitopics --raw DUMP --scenario FILE --out DIR"
        )
    record = catalog.record(name)
    values = resolve(record.id, record.parameters, _given(record.id, record.parameters, seed, settings))
    release = is_release(record, values)
    if not (release or check or out is not None):
        raise UsageError(f"this is not {record.id}'s release, so the cache is not its place: add --out DIR")
    fresh = derive(record, values) if check else None
    if fresh is not None:
        rows = match_parts(fresh, record)
        _report(rows, fresh.name, as_json=as_json)
        if differing := [row.part for row in rows if not row.same]:
            fail(f"{', '.join(differing)} differ from the release; nothing was stored")
            raise typer.Exit(1)
    dataset = keep(record, values, out=out, force=force, made=fresh)
    directory = store.cached(record) if out is None else out
    if not check:
        if as_json:
            say_json({"name": dataset.name, "version": dataset.version, "directory": str(directory)})
        else:
            say(f"{dataset.name} {dataset.version} is stored in {directory}")


def _report(rows: list[PartMatch], name: str, *, as_json: bool) -> None:
    cells = [(row.part, row.triples, row.expected_triples, row.sha256, row.same) for row in rows]
    identical = all(row.same for row in rows)
    if as_json:
        say_json({"name": name, "identical": identical, "parts": records(HEADINGS, cells)})
        return
    say_table(HEADINGS, cells)
    if identical:
        say(f"\n{name} is identical to the release")


def import_files(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Files of triples, as InGram, GraIL, ULTRA, PyKEEN or you name them."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the dataset is stored.  [required]")] = None,
    train: Annotated[Path | None, typer.Option(metavar="FILE", help="The training graph.")] = None,
    valid: Annotated[Path | None, typer.Option(metavar="FILE", help="What to predict in it, if anything.")] = None,
    inference: Annotated[Path | None, typer.Option(metavar="FILE", help="The test graph that is shown.")] = None,
    test: Annotated[Path | None, typer.Option(metavar="FILE", help="What to predict in the test graph.")] = None,
    known: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What is known of the test graph besides, if anything.")
    ] = None,
    columns: Annotated[
        str,
        typer.Option(metavar="NAMES", help="The order of the columns in files without a heading: head,tail,relation."),
    ] = ",".join(COLUMNS),
    hide: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Predict this share of --test, the rest being its graph."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which triples --hide draws.")] = 0,
    name: Annotated[str | None, typer.Option(help="What it is called.  [default: as the folder]")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is stored there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a dataset of your own files of triples.

    It is stored, audited, and told what a model has to beat on it. A file that is named takes the place of DIR's.

    Example: mtbench import mykg --out mydata

    Example: mtbench import --train train.tsv --inference shown.tsv --test missing.tsv --out mydata

    Example: mtbench import --train train.tsv --test whole.tsv --hide 0.2 --seed 1 --out mydata
    """
    if out is None:
        raise UsageError("say where the dataset is to be stored: add --out DIR")
    place = expanded(out).absolute()
    if not force and not is_free(place):
        raise UsageError(f"{out} exists already: name another directory, or replace it with --force")
    store.expect_replaceable(place)
    order = tuple(column.strip() for column in columns.split(","))
    files = {"train": train, "valid": valid, "inference": inference, "test": test, "known": known}
    made = from_files(folder, **files, name=name, columns=order, hide=hide, seed=seed)
    data = store.obtain(place, lambda: made, force=force)
    with doing("measuring") as tell:
        tell("the audit")
        found = audit(data)
        asked, figures = task(data.test), {}
        for baseline in BASELINES:
            tell(baseline.replace("_", " "))
            (figures[baseline],) = measure(baseline, [asked])
    figures = dict(sorted(figures.items(), key=lambda pair: -pair[1]["mrr"]))
    if as_json:
        about = {"name": data.name, "directory": str(out), **data.parameters}
        say_json(about | {"baselines": figures, "audit": found.to_dict()})
        return
    say(f"read as {data.parameters['layout']}, and stored in {out}\n\n{data.parameters['files']}\n\n{data!r}\n")
    show_audit(found, data.label)
    rows = [(baseline.replace("_", " "), values) for baseline, values in figures.items()]
    say(f"\nHeuristic baselines on {asked.name}, which a model has to beat\n\n{tables.render(rows)}\n")
    for note in data.info.defects:
        say(f"note: {note}")
    model, does = ("tally", "trains") if len(data.train.graph) else ("tally-foundation", "ranks")
    say(f'mtbench.load("{out}") loads it; {typed("run", model, "--dataset", out)} {does} a model on it')
