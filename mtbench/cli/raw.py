"""``mtbench build NAME --raw PATH...``: make datasets from raw files, and compare them with the release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mtbench.cli.output import fail, records, say, say_json, say_table
from mtbench.errors import UsageError

if TYPE_CHECKING:
    from mtbench.builders.raw import Target
    from mtbench.cli.output import Cell
    from mtbench.data.catalog import Parameter
    from mtbench.data.splits import Dataset

BITS = ("Dataset", "Part", "Triples", "Release triples", "Content SHA-256", "Same")
STRUCTURE = ("Dataset", "Part", "Statistic", "Rebuilt", "Release", "Alike")


def rebuild(
    name: str,
    raw: list[Path],
    seed: int | None,
    settings: list[str],
    *,
    scenario: Path | None,
    check: bool,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Make the datasets that a name stands for and store them; with ``check``, compare them first."""
    from mtbench.builders import raw as builder

    target = builder.target(name, scenario)
    if check and target.scenarios is not None:
        raise UsageError("a scenario of your own has no release to compare with: leave out --check")
    values = builder.options(target, _given(target, seed, settings))
    store_them = out is not None or not check or builder.gives_release(values)
    places = builder.places(target, out, values, force=force) if store_them else {}
    made = builder.rebuild(target, raw, values)
    headings, rows = _compared(made.datasets) if check else (BITS, [])
    differing = [f"{row[0]} {row[1]}" for row in rows if not row[-1]]
    if differing:
        places = {}
    for wanted, dataset in zip(target.datasets, made.datasets, strict=True):
        if wanted in places:
            builder.keep(dataset, places[wanted], force=force)
    stored = [
        {"name": dataset.name, "version": dataset.version, "directory": str(places[wanted])}
        for wanted, dataset in zip(target.datasets, made.datasets, strict=True)
        if wanted in places
    ]
    if as_json:
        say_json({"note": made.note, "datasets": stored, "comparison": records(headings, rows)})
    else:
        for line in filter(None, [made.note]):
            say(line)
        if check:
            say_table(headings, rows)
        for row in stored:
            say(f"{row['name']} {row['version']} is stored in {row['directory']}")
    if differing:
        fail(f"{', '.join(dict.fromkeys(differing))} differ from the release; nothing was stored")
        raise typer.Exit(1)


def _given(target: Target, seed: int | None, settings: list[str]) -> dict[str, Parameter]:
    from mtbench.builders.raw import stand_in
    from mtbench.data.building import parse_parameter

    found: dict[str, Parameter] = {} if seed is None else {"seed": seed}
    for setting in settings:
        key, value = parse_parameter(stand_in(target), setting)
        if key in found:
            raise UsageError(f"{key} is given twice")
        found[key] = value
    return found


def _compared(datasets: tuple[Dataset, ...]) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    """Compare bit by bit what claims to be the release, and by structure what is another sample of it."""
    from mtbench.builders.structure import compare_structure
    from mtbench.data.building import check, is_release
    from mtbench.data.load import load

    if all(is_release(dataset.info, dataset.parameters) for dataset in datasets):
        rows: list[tuple[Cell, ...]] = [
            (dataset.name, row.part, row.triples, row.expected_triples, row.sha256, row.same)
            for dataset in datasets
            for row in check(dataset)
        ]
        return BITS, rows
    return STRUCTURE, [
        (dataset.info.id, row.part, row.statistic, _shown(row.rebuilt), _shown(row.released), row.alike)
        for dataset in datasets
        for row in compare_structure(dataset, load(dataset.info.id), mixed=dataset.info.id.startswith("wikitopics-mt"))
    ]


def _shown(value: float) -> int | float:
    return int(value) if float(value).is_integer() else round(value, 4)
