"""Building a dataset of the catalogue: the release, a variant of it, or one made anew from raw files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtbench.builders import scenarios
from mtbench.data import catalog, store
from mtbench.data.catalog import Parameter
from mtbench.data.loading import Parameters, RawRecipe, derive, is_release, keep, raw_recipe, resolve
from mtbench.data.splits import Dataset
from mtbench.errors import UsageError
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
        wanted = target(name)
        if wanted.is_group:
            raise UsageError(
                f"{name} is {len(wanted.datasets)} datasets: name one, or use mtbench.builders.making.build_all"
            )
        return _rebuild(wanted, raw, given, out=out, force=force)[0]
    record = catalog.record(name)
    values = resolve(record.id, record.parameters, given)
    if out is None and not is_release(record, values):
        return derive(record, values)
    return keep(record, values, out=out, force=force)


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
    return _rebuild(target(name, None if scenario is None else Path(scenario)), raw, given, out=out, force=force)


@dataclass(frozen=True)
class Target:
    """A name that can be built from raw files: the datasets it stands for, and how they are made."""

    name: str
    datasets: tuple[str, ...]
    recipe: RawRecipe

    @property
    def is_group(self) -> bool:
        """Whether the name stands for several datasets, made in one pass."""
        return self.name in self.recipe.groups


def target(name: str, scenario: Path | None = None) -> Target:
    """Return what a name stands for: a dataset of the catalogue, an alias of it, or a group of them.

    ``wikitopics`` stands for the datasets of a scenario file, which no other name has. Raises
    `UnknownNameError` for an unknown name, `UsageError` for a dataset that needs no raw files, and for a
    scenario file that is missing, misplaced or wrong.
    """
    if scenario is not None and name != scenarios.NAME:
        raise UsageError(f"a scenario file says itself what to make: mtbench build {scenarios.NAME}, not {name}")
    recipes = _catalogued() if scenario is None else [scenarios.from_raw(scenario)]
    for recipe in recipes:
        if name in recipe.groups:
            return Target(name, recipe.groups[name], recipe)
    if name == scenarios.NAME:
        published = [group for recipe in recipes for group in recipe.groups]
        raise UsageError(
            f"{name} makes scenarios of your own: add --scenario FILE.toml, in Python making.build_all; "
            f"those published are {', '.join(published)}"
        )
    record = catalog.record(name)
    found = raw_recipe(record)
    if found is None:
        raise UsageError(f"{record.id} is built without raw files: mtbench build {record.id}")
    return Target(record.id, (record.id,), found)


def _catalogued() -> list[RawRecipe]:
    """Return the raw recipes that records name, each once."""
    by_place = {record.raw: record for record in catalog.records()}
    return [recipe for record in by_place.values() if (recipe := raw_recipe(record)) is not None]


def places(wanted: Target, out: str | Path | None, values: Parameters, *, force: bool) -> dict[str, Path]:
    """Return the directory of each dataset of a target, before anything is read.

    A group's datasets go into folders of their names in ``out``; without it, only a release has a
    place, the cache. Raises `UsageError` where there is none, or where something is in the way.
    """
    if out is None:
        if wanted.recipe.gives_release(values):
            return {wanted.name: store.cached(catalog.record(wanted.name))}
        raise UsageError(f"a rebuilt {wanted.name} is not the release, so the cache is not its place: add --out DIR")
    root = Path(out).expanduser().absolute()
    found = {name: root / name if wanted.is_group else root for name in wanted.datasets}
    for directory in found.values():
        store.expect_replaceable(directory)
        if not (force or atomic.is_free(directory)):
            raise UsageError(f"{directory} holds a dataset: name another directory, or add --force to replace it")
    return found


def keep_rebuilt(dataset: Dataset, directory: Path, *, force: bool) -> Dataset:
    """Store a rebuilt dataset in a directory; `DatasetError` if it has the release's parameters but is not it."""
    return keep(dataset.info, dataset.parameters, out=directory, force=force, made=dataset)


def _rebuild(
    wanted: Target, raw: str | Path | Sequence[str | Path], given: Parameters, *, out: str | Path | None, force: bool
) -> tuple[Dataset, ...]:
    values = resolve(wanted.name, wanted.recipe.options, given)
    stored = out is not None or wanted.recipe.gives_release(values)
    directories = places(wanted, out, values, force=force) if stored else {}
    paths = [Path(path) for path in ([raw] if isinstance(raw, str | Path) else raw)]
    made = wanted.recipe.rebuild(wanted.datasets, paths, values).datasets
    return tuple(
        keep_rebuilt(dataset, directories[name], force=force) if name in directories else dataset
        for name, dataset in zip(wanted.datasets, made, strict=True)
    )
