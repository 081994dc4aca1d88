"""Building a dataset of the catalogue: the release, a variant of it, or one made anew from raw files.

And is what was made anew the same kind of dataset: its structure beside the release's, where bits cannot agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mtbench.builders import wikitopics
from mtbench.data import catalog, store
from mtbench.data.catalog import Parameter
from mtbench.data.loading import Parameters, RawRecipe, derive, is_release, keep, raw_recipe, resolve
from mtbench.data.splits import Dataset, Split
from mtbench.errors import UsageError
from mtbench.files import atomic
from mtbench.files.reading import expanded
from mtbench.names import HEAD, RELATION, TAIL, IntArray


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
    form of a scenario file see `mtbench.builders.wikitopics.read_scenarios`.

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
    if scenario is not None and name != wikitopics.BUILDER:
        raise UsageError(f"a scenario file says itself what to make: mtbench build {wikitopics.BUILDER}, not {name}")
    recipes = [wikitopics.from_scenarios(scenario)] if scenario is not None else []
    if scenario is None:  # those that records name, each once
        by_place = {record.raw: record for record in catalog.records()}
        recipes = list(filter(None, map(raw_recipe, by_place.values())))
    for recipe in recipes:
        if name in recipe.groups:
            return Target(name, recipe.groups[name], recipe)
    if name == wikitopics.BUILDER:
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


def places(wanted: Target, out: str | Path | None, values: Parameters, *, force: bool) -> dict[str, Path]:
    """Return the directory of each dataset of a target, before anything is read.

    A group's datasets go into folders of their names in ``out``; without it, only a release has a
    place, the cache. Raises `UsageError` where there is none, or where something is in the way.
    """
    if out is None:
        if wanted.recipe.gives_release(values):
            return {wanted.name: store.cached(catalog.record(wanted.name))}
        raise UsageError(f"a rebuilt {wanted.name} is not the release, so the cache is not its place: add --out DIR")
    root = expanded(out).absolute()
    found = {name: root / name if wanted.is_group else root for name in wanted.datasets}
    for directory in found.values():
        store.expect_replaceable(directory)
        if not (force or atomic.is_free(directory)):
            raise UsageError(f"{directory} holds a dataset: name another directory, or add --force to replace it")
    return found


def _rebuild(
    wanted: Target, raw: str | Path | Sequence[str | Path], given: Parameters, *, out: str | Path | None, force: bool
) -> tuple[Dataset, ...]:
    values = resolve(wanted.name, wanted.recipe.options, given)
    stored = out is not None or wanted.recipe.gives_release(values)
    directories = places(wanted, out, values, force=force) if stored else {}
    paths = [Path(path) for path in ([raw] if isinstance(raw, str | Path) else raw)]
    made = wanted.recipe.rebuild(wanted.datasets, paths, values).datasets
    return tuple(
        keep(dataset.info, dataset.parameters, out=directories[name], force=force, made=dataset)
        if name in directories
        else dataset
        for name, dataset in zip(wanted.datasets, made, strict=True)
    )


COUNT_LIMIT = 0.25
RELATION_LIMIT = 0.35
DISTANCE_LIMIT = 0.25
"""How far two samples of one topic may be apart. The two released graphs of a topic, which are independent samples,
differ by up to 11 % in triples, 30 % in relation types, 0.10 in degrees and 0.23 in relation frequencies."""


@dataclass(frozen=True)
class Likeness:
    """One statistic of a graph in the rebuilt dataset and in the release.

    ``statistic`` ends in ``distance`` for distances between the two (then ``released`` is 0), and
    ``limit`` says how far they may differ: relatively for counts, absolutely for distances, never for
    None, which is for information.
    """

    part: str
    statistic: str
    rebuilt: float
    released: float
    limit: float | None

    @property
    def alike(self) -> bool:
        """Whether the two differ by no more than the limit."""
        if self.limit is None:
            return True
        scale = 1.0 if self.statistic.endswith("distance") else max(abs(self.released), 1.0)
        return abs(self.rebuilt - self.released) <= self.limit * scale


def compare_structure(made: Dataset, release: Dataset, *, mixed: bool = False) -> list[Likeness]:
    """Return the structure of two datasets side by side: sizes, degrees, relation frequencies, overlaps.

    Targets count as triples of their graph. The degree distance is the largest difference between the
    cumulative distributions (Kolmogorov and Smirnov), the relation distance half the sum of the
    differences between the relations' shares (total variation); both lie between 0 and 1.

    ``mixed`` says that the training graph is one sample over several topics. A fire rarely leaves the
    topic it starts in, so the mix of topics differs from seed to seed (over eight seeds on 1.2 million
    real triples the relation distance of MT4's training graph to the release was 0.30 to 0.80, that of
    MT1's 0.15 to 0.56): everything but the number of entities is then for information.
    """
    rows = _compare("train", made.valid, release.valid)
    if mixed:
        rows = [row if row.statistic == "entities" else replace(row, limit=None) for row in rows]
    rows += _compare("test", made.test, release.test)
    for statistic, kind in (("entities in both graphs", "entities"), ("relations in both graphs", "relations")):
        here, there = (
            float(len(np.intersect1d(getattr(data.train, kind), getattr(data.test, kind)))) for data in (made, release)
        )
        rows.append(Likeness("train and test", statistic, here, there, None))
    return rows


STATISTICS: tuple[tuple[str, Callable[[Split], float], float | None], ...] = (
    ("entities", lambda split: split.num_entities, COUNT_LIMIT),
    ("relations", lambda split: split.num_relations, RELATION_LIMIT),
    ("observable triples", lambda split: len(split.graph), COUNT_LIMIT),
    ("targets", lambda split: len(split.targets), COUNT_LIMIT),
    ("median degree", lambda split: float(np.percentile(_degrees(split), 50)), None),
    ("90th percentile of degrees", lambda split: float(np.percentile(_degrees(split), 90)), None),
    ("largest degree", lambda split: float(_degrees(split).max()), None),
    ("self-loops", lambda split: float(np.count_nonzero(_all(split)[:, HEAD] == _all(split)[:, TAIL])), None),
)
"""What is counted in a graph, and by how much two may differ, relatively."""


def _compare(part: str, ours: Split, theirs: Split) -> list[Likeness]:
    rows = [Likeness(part, name, measure(ours), measure(theirs), limit) for name, measure, limit in STATISTICS]
    degrees, relations = degree_distance(_degrees(ours), _degrees(theirs)), relation_distance(ours, theirs)
    rows.append(Likeness(part, "degree distance", degrees, 0.0, DISTANCE_LIMIT))
    rows.append(Likeness(part, "relation distance", relations, 0.0, DISTANCE_LIMIT))
    same = float(len(np.intersect1d(ours.entities, theirs.entities)))
    rows.append(Likeness(part, "entities shared with the release", same, float(theirs.num_entities), None))
    return rows


def degree_distance(one: IntArray, other: IntArray) -> float:
    """Return the largest difference between the cumulative distributions of two sets of degrees."""
    values = np.union1d(one, other)
    shares = [np.searchsorted(np.sort(degrees), values, side="right") / len(degrees) for degrees in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def relation_distance(one: Split, other: Split) -> float:
    """Return the total variation between the relation frequencies of two graphs, relations told by name."""
    shares: list[dict[str, float]] = []
    for split in (one, other):
        counts = np.bincount(_all(split)[:, RELATION], minlength=split.num_relations)
        shares.append(dict(zip(split.relations.tolist(), (counts / counts.sum()).tolist(), strict=True)))
    names = shares[0].keys() | shares[1].keys()
    return 0.5 * sum(abs(shares[0].get(name, 0.0) - shares[1].get(name, 0.0)) for name in names)


def _all(split: Split) -> IntArray:
    return np.concatenate((split.graph, split.targets))


def _degrees(split: Split) -> IntArray:
    return np.bincount(_all(split)[:, [HEAD, TAIL]].ravel(), minlength=split.num_entities).astype(np.int64)
