"""Building a dataset of the catalogue: the release, a variant of it, or one made anew from raw files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from mtbench.builders import fbnell, scenarios, wikitopics
from mtbench.builders.dumps.dump import Dump, read_dump
from mtbench.builders.scenarios import Scenarios
from mtbench.data import catalog, store
from mtbench.data.building import derive, expect_release, is_release, keep, resolve
from mtbench.data.catalog import Parameter, Record
from mtbench.data.splits import Dataset
from mtbench.errors import DatasetError, UsageError
from mtbench.files import atomic


def build(
    name: str,
    *,
    seed: int | None = None,
    out: str | Path | None = None,
    force: bool = False,
    raw: str | Path | Sequence[str | Path] = (),
    **parameters: Parameter,
) -> Dataset:
    """Build a dataset of the catalogue from its parameters, and store it.

    What is not given has the value of the release. The release itself goes to the cache, where `load`
    finds it, unless ``out`` names a directory; any other dataset is stored only if ``out`` is given.
    A directory that holds the same dataset already is read, one that holds another is an error;
    ``force`` replaces either. With ``raw``, the paths of dumps, FBNELL and WikiTopics are rebuilt from
    those instead; `mtbench.builders.making` also makes several datasets in one pass.

    Raises `UnknownNameError` for an unknown dataset or parameter, `UsageError` for a value of the wrong
    type, and `DatasetError` if the release's parameters give anything but the release.
    """
    given = parameters if seed is None else {"seed": seed, **parameters}
    if raw:
        paths = [raw] if isinstance(raw, str | Path) else raw
        return build_one(name, [Path(path) for path in paths], given, out=out, force=force)
    record = catalog.record(name)
    values = resolve(record, given)
    if out is None and not is_release(record, values):
        return derive(name, **values)
    return keep(record, values, out=out, force=force)


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """What was made of raw files: the datasets, and a line on what was met while reading them."""

    datasets: tuple[Dataset, ...]
    note: str


@dataclass(frozen=True)
class Target:
    """A name that can be built from raw files: the datasets it stands for and its options with their defaults.

    ``scenarios`` is what the user's scenario file says, where there is one.
    """

    name: str
    datasets: tuple[str, ...]
    options: Mapping[str, Parameter]
    scenarios: Scenarios | None = None

    @property
    def is_group(self) -> bool:
        """Whether the name stands for several datasets, made in one pass."""
        return self.name in (*wikitopics.GROUPS, scenarios.NAME)


def target(name: str, scenario: Path | None = None) -> Target:
    """Return what a name stands for: a dataset of the catalogue, an alias of it, or a group of WikiTopics.

    ``wikitopics`` stands for the datasets of a scenario file, which no other name has. Raises
    `UnknownNameError` for an unknown name, `UsageError` for a dataset that needs no raw files, and for a
    scenario file that is missing, misplaced or wrong.
    """
    if name == scenarios.NAME and scenario is not None:
        read = scenarios.read(scenario)
        return Target(name, read.names, wikitopics.DEFAULTS, read)
    if name == scenarios.NAME:
        raise UsageError(
            f"{name} makes scenarios of your own: add --scenario FILE.toml, in Python making.build_all; "
            f"those published are {', '.join(wikitopics.GROUPS)}"
        )
    if scenario is not None:
        raise UsageError(f"a scenario file says itself what to make: mtbench build {scenarios.NAME}, not {name}")
    if name in wikitopics.GROUPS:
        return Target(name, tuple(plan.name for plan in wikitopics.plans(name)), wikitopics.DEFAULTS)
    found = catalog.record(name).id
    if found == "fbnell":
        return Target(found, (found,), fbnell.DEFAULTS)
    if found.startswith("wikitopics-"):
        return Target(found, (found,), wikitopics.DEFAULTS)
    raise UsageError(f"{found} is built without raw files: mtbench build {found}")


def options(wanted: Target, given: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return all options of a target, the given ones in place of the defaults.

    Raises `UnknownNameError` for an option it does not have, `UsageError` for a value of another type
    or one that the recipe does not use.
    """
    values = resolve(stand_in(wanted), given)
    if wanted.name == "fbnell":
        if values["recipe"] not in ("release", "paper"):
            raise UsageError(f"fbnell: recipe must be release or paper, not {values['recipe']!r}")
        if gives_release(values) and values != fbnell.DEFAULTS:
            raise UsageError("fbnell: the release has no options; a larger dataset from full dumps: --set recipe=paper")
    return values


def gives_release(values: Mapping[str, Parameter]) -> bool:
    """Tell whether a recipe with these options gives the release bit by bit, not another sample like it."""
    return values.get("recipe") == "release"


def stand_in(wanted: Target) -> Record:
    """Return a record that has the options of a raw build as parameters, for what reads parameters of records."""
    # Any record will do: nothing else of it is read, and a scenario's datasets have none yet.
    record = catalog.record(catalog.names()[0])
    return replace(record, id=wanted.name, parameters=MappingProxyType(dict(wanted.options)))


def rebuild(wanted: Target, raw: Sequence[Path], values: Mapping[str, Parameter]) -> Rebuilt:
    """Make the datasets of a target from raw files, in memory; ``values`` as from `options`.

    Raises `DatasetError` that says which files are expected, or what is wrong with those given.
    """
    if wanted.name == "fbnell":
        record = catalog.record(wanted.name)
        if gives_release(values):
            dataset = fbnell.rebuild(raw, record)
        else:
            dataset = fbnell.rebuild_paper(
                raw,
                record,
                seed=int(values["seed"]),
                train_relations=int(values["train_relations"]),
                test_relations=int(values["test_relations"]),
                share=float(values["share"]),
            )
        return Rebuilt((dataset,), "")
    seed, entities, share = int(values["seed"]), int(values["entities"]), float(values["share"])
    if wanted.scenarios is not None:
        dump = _read(wanted, raw, scenarios.properties(wanted.scenarios))
        datasets = scenarios.rebuild(dump, wanted.scenarios, seed=seed, entities=entities, share=share)
    else:
        plans = [wikitopics.plan(name) for name in wanted.datasets]
        dump = _read(wanted, raw, wikitopics.properties(plans))
        records = {name: catalog.record(name) for name in wanted.datasets}
        datasets = wikitopics.rebuild(dump, plans, records, seed=seed, entities=entities, share=share)
    note = (
        f"read {dump.lines:,} lines: {dump.others:,} of other properties and {dump.duplicates:,} duplicates dropped, "
        f"{dump.loops:,} self-loops kept"
    )
    return Rebuilt(tuple(datasets), note)


def _read(wanted: Target, raw: Sequence[Path], properties: set[str]) -> Dump:
    try:
        return read_dump(raw, properties)
    except DatasetError as error:
        drawn = wanted.name if wanted.scenarios is None else str(wanted.scenarios.file)
        raise DatasetError(f"{error}; {drawn} is drawn from {wikitopics.EXPECTED}") from error


def places(wanted: Target, out: Path | None, values: Mapping[str, Parameter], *, force: bool) -> dict[str, Path]:
    """Return the directory of each dataset of a target, before anything is read.

    A group's datasets go into folders of their names in ``out``; without it, only a release has a
    place, the cache. Raises `UsageError` where there is none, or where something is in the way.
    """
    if out is None:
        if gives_release(values):
            return {wanted.name: store.cached(catalog.record(wanted.name))}
        raise UsageError(f"a rebuilt {wanted.name} is not the release, so the cache is not its place: add --out DIR")
    root = out.expanduser().absolute()
    found = {name: root / name if wanted.is_group else root for name in wanted.datasets}
    for directory in found.values():
        atomic.expect_replaceable(directory, (store.MANIFEST, *store.FILES))
        if not (force or atomic.is_free(directory)):
            raise UsageError(f"{directory} holds a dataset: name another directory, or add --force to replace it")
    return found


def keep_rebuilt(dataset: Dataset, directory: Path, *, force: bool) -> Dataset:
    """Store a rebuilt dataset in a directory; one with the release's parameters must be the release.

    Raises `DatasetError` where it is not.
    """
    if is_release(dataset.info, dataset.parameters):
        expect_release(dataset, dataset.info)
    return store.obtain(directory, lambda: dataset, force=force)


def build_one(
    name: str,
    raw: Sequence[Path],
    given: Mapping[str, Parameter],
    *,
    out: str | Path | None = None,
    force: bool = False,
) -> Dataset:
    """Rebuild one dataset from raw files, and store it if it is a release or ``out`` names a directory.

    Raises `UsageError` for a group, which is several datasets.
    """
    wanted = target(name)
    if wanted.is_group:
        raise UsageError(
            f"{name} is {len(wanted.datasets)} datasets: name one, or use mtbench.builders.making.build_all"
        )
    values = options(wanted, given)
    if out is None and not gives_release(values):
        return rebuild(wanted, raw, values).datasets[0]
    directory = places(wanted, None if out is None else Path(out), values, force=force)[wanted.name]
    return keep_rebuilt(rebuild(wanted, raw, values).datasets[0], directory, force=force)


def build_all(
    name: str,
    raw: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    scenario: str | Path | None = None,
    force: bool = False,
    **given: Parameter,
) -> tuple[Dataset, ...]:
    """Make all datasets of a group, or of a scenario file, in one pass over raw files, and store them below ``out``.

    Each goes to the folder of its name, where `mtbench.load` takes it; ``given`` are the options
    ``seed``, ``entities`` and ``share``. Nothing is stored unless all of them could be made. For the
    form of a scenario file see `mtbench.builders.scenarios.read`.

    Raises `UsageError` for what is spelled wrong or in the way, `DatasetError` for what the raw files
    cannot give.
    """
    wanted = target(name, None if scenario is None else Path(scenario))
    values = options(wanted, given)
    directories = places(wanted, Path(out), values, force=force)
    paths = [raw] if isinstance(raw, str | Path) else raw
    made = rebuild(wanted, [Path(path) for path in paths], values)
    return tuple(
        keep_rebuilt(dataset, directories[name], force=force)
        for name, dataset in zip(wanted.datasets, made.datasets, strict=True)
    )
