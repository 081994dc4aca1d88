"""From a record to its dataset: the builder it names is called, and what it makes is compared and stored."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

from mtbench.data import catalog, store
from mtbench.data import splits as comparison
from mtbench.data.catalog import Parameter, Record
from mtbench.data.splits import Comparison, Dataset
from mtbench.errors import DatasetError, UnknownNameError, UsageError
from mtbench.files.atomic import expect_replaceable
from mtbench.files.hashing import file_hash

BUILDERS: dict[str, str] = {
    "fbnell-strict": "mtbench.builders.fbnell:build_strict",
    "metafam": "mtbench.builders.metafam.dataset:build",
    "metafam-strict": "mtbench.builders.metafam.dataset:build_strict",
    "release": "mtbench.builders.release:build",
}
"""The builder a record names, and the function behind it, imported when it is first used."""

RELEASE = "release"
"""The builder of records whose dataset is its published files: it needs their sources, not parameters."""

_KINDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def derive(name: str, **parameters: Parameter) -> Dataset:
    """Make a dataset in memory, without storing it and without comparing it with the release.

    A record with the builder ``release`` is made of its published files, which are downloaded unless
    they are at hand; any other is built from its parameters, without reading any file.
    """
    record = catalog.record(name)
    if record.builder not in BUILDERS:
        raise DatasetError(f"{record.id}: {UnknownNameError('builder', record.builder, BUILDERS)}")
    values = resolve(record, parameters)
    module, _, function = BUILDERS[record.builder].partition(":")
    builder = getattr(importlib.import_module(module), function)
    made: Dataset = builder(record) if record.builder == RELEASE else builder(**values)
    return made


def keep(
    record: Record,
    values: Mapping[str, Parameter],
    *,
    out: str | Path | None = None,
    force: bool = False,
    made: Dataset | None = None,
) -> Dataset:
    """Store the dataset with these parameters in the cache or in ``out``, building it unless it is ``made``."""
    directory = store.cached(record) if out is None else Path(out).expanduser().absolute()
    remedy = store.mend(record.id) if out is None else ""
    if out is not None:
        expect_replaceable(directory, (store.MANIFEST, *store.FILES))

    def make() -> Dataset:
        dataset = derive(record.id, **values) if made is None else made
        if is_release(record, values):
            expect_release(dataset, record)
        return dataset

    dataset = store.obtain(directory, make, force=force, remedy=remedy)
    if dict(dataset.parameters) != dict(values) or dataset.info.id != record.id:
        raise UsageError(f"{directory} holds {dataset.name}: name another directory, or add --force to replace it")
    return dataset


def check(dataset: Dataset) -> list[Comparison]:
    """Return the six parts of a dataset beside those of the catalogue's release, by content hash."""
    return comparison.compare(dataset, comparison.released(dataset.info))


def expect_release(dataset: Dataset, record: Record) -> None:
    """Raise `DatasetError` naming every part in which a dataset differs from the release."""
    differing = [row.part for row in comparison.compare(dataset, comparison.released(record)) if not row.same]
    differing += [
        f"{split.name}/relation_slots"
        for split in (dataset.train, dataset.test)
        if split.relation_slots != record.graphs[split.name].relation_slots
    ]
    if differing:
        raise DatasetError(
            f"{record.id}: {', '.join(differing)} differ from the release although the parameters are the release's; "
            "please report this with the output of: mtbench build " + record.id + " --check"
        )


def is_release(record: Record, values: Mapping[str, Parameter]) -> bool:
    """Tell whether these parameters are those that give the release."""
    return dict(values) == dict(record.parameters)


def resolve(record: Record, given: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return all parameters of a record, the given ones in place of the release's.

    A parameter ``KEY_sha256`` that is not given is the hash of the file that the parameter ``KEY`` names.

    Raises `UnknownNameError` for a parameter the builder does not have, `UsageError` for a value of
    another type than the release's.
    """
    for key, value in given.items():
        if key not in record.parameters:
            raise UnknownNameError(f"{record.id} parameter", key, record.parameters)
        kind = type(record.parameters[key])
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise UsageError(f"{record.id}: {key} must be {_KINDS[kind]}, not {value!r}")
    values = {key: given.get(key, default) for key, default in record.parameters.items()}
    for key in values:
        # A file may change under its name: what was built from it is known by its bytes.
        named = str(values.get(key.removesuffix("_sha256"), ""))
        if key.endswith("_sha256") and not values[key] and named and Path(named).expanduser().is_file():
            values[key] = file_hash(Path(named).expanduser())
    return values


def parse_parameter(record: Record, text: str) -> tuple[str, Parameter]:
    """Read ``key=value`` as a parameter of a record, its type that of the release's value."""
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{text!r} is not key=value: for example {_example(record)}")
    if key not in record.parameters:
        raise UnknownNameError(f"{record.id} parameter", key, record.parameters)
    kind = type(record.parameters[key])
    if kind is bool:
        choices: Mapping[str, Parameter] = {"true": True, "false": False}
        if value.casefold() in choices:
            return key, choices[value.casefold()]
    else:
        try:
            return key, kind(value)
        except ValueError:
            pass
    raise UsageError(f"{record.id}: {key} must be {_KINDS[kind]}, not {value!r}")


def _example(record: Record) -> str:
    return next((f"{key}={value}" for key, value in record.parameters.items() if value != ""), "seed=7")
