"""WikiTopics and WikiTopics-MT rebuilt from a Wikidata5M dump: any topics, any size, any seed, in one pass."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from mtbench.builders.dumps.dump import Columns, Dump, read_dump
from mtbench.builders.dumps.sampling import Ids, Stream, forest_fire, hold_out, largest_component, neighbours
from mtbench.data import catalog
from mtbench.data.catalog import Parameter, Record
from mtbench.data.loading import RawRecipe, Rebuilt
from mtbench.data.splits import Dataset, Split, together
from mtbench.errors import DatasetError, UnknownNameError, UsageError
from mtbench.names import IntArray

GROUPS = ("wikitopics-mt", "wikitopics-v1", "wikitopics-v2")
"""What can be built in one pass over a dump: the eight datasets of the scenarios, or eleven single topics."""

VERSIONS = ("v1", "v2")
"""The published topic lists."""

EXPECTED = "the triples of Wikidata5M: wikidata5m_all_triplet.txt.gz, or wikidata5m_transductive.tar.gz"

DEFAULTS: Mapping[str, Parameter] = {"seed": 0, "entities": 10_000, "share": 0.1}
"""The size of the released graphs; the seed of the release is not known."""

BUILDER = "wikitopics"
"""What the manifest of a dataset that was drawn from a dump calls its builder."""


@dataclass(frozen=True)
class Sample:
    """One graph to draw: the properties it is made of, and a label that starts its own random stream.

    With its own stream a graph is the same whichever others are drawn in the same pass.
    """

    label: str
    relations: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """One dataset to make: its name and the samples it trains and tests on."""

    name: str
    train: Sample
    test: Sample


@dataclass(frozen=True, eq=False)
class Drawn:
    """A drawn sample: ids of the dump, the triples ``(n,)`` by column, and which of them are hidden."""

    columns: Columns
    hidden: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def topics(version: str) -> dict[str, tuple[str, ...]]:
    """Return the properties of each topic of ``v1`` or ``v2``, in the order of the published dictionaries."""
    table = _facts()["topics"]
    if version not in table:
        raise UnknownNameError("version of WikiTopics", version, table)
    return {topic: tuple(text.split()) for topic, text in table[version].items()}


def sample(version: str, names: Sequence[str], side: str, lists: Mapping[str, tuple[str, ...]] | None = None) -> Sample:
    """Return the sample over the union of some topics' properties; ``side`` is ``train`` or ``test``.

    Training and test graphs of a topic are two independent samples, so their labels differ. ``lists`` are the
    topics, by default the published ones of the version, which may be empty where they are given.
    """
    lists = topics(version) if lists is None else lists
    if unknown := [name for name in names if name not in lists]:
        raise UnknownNameError(f"topic of WikiTopics {version}", unknown[0], lists)
    label = "/".join(filter(None, (version, "+".join(names), side)))
    return Sample(label, tuple(dict.fromkeys(p for name in names for p in lists[name])))


def plan(name: str) -> Plan:
    """Return the plan of a catalogued dataset, such as ``wikitopics-mt1/health`` or ``wikitopics-v2/art``."""
    found = {one.name: one for group in GROUPS for one in plans(group)}
    if name not in found:
        raise UnknownNameError("dataset of WikiTopics", name, found)
    return found[name]


def plans(group: str) -> list[Plan]:
    """Return the plans of a group of `GROUPS`: two datasets per scenario, or one per topic."""
    if group not in GROUPS:
        raise UnknownNameError("group of WikiTopics", group, GROUPS)
    if group != "wikitopics-mt":
        version = group.removeprefix("wikitopics-")
        return [
            Plan(f"{group}/{topic}", sample(version, [topic], "train"), sample(version, [topic], "test"))
            for topic in topics(version)
        ]
    return [
        Plan(
            f"wikitopics-{scenario}/{topic}",
            sample(row["version"], row["train"], "train"),
            sample(row["version"], [topic], "test"),
        )
        for scenario, row in _facts()["scenarios"].items()
        for topic in row["test"]
    ]


def properties(wanted: Iterable[Plan]) -> set[str]:
    """Return all properties some plans need: what to keep while reading the dump."""
    return {name for one in wanted for part in (one.train, one.test) for name in part.relations}


def from_raw() -> RawRecipe:
    """Return how the catalogued datasets are made of a dump: any of them, or a group in one pass."""
    groups = {group: plans(group) for group in GROUPS}
    return RawRecipe(
        options=DEFAULTS,
        rebuild=_from_raw,
        groups={group: tuple(one.name for one in found) for group, found in groups.items()},
        # A training graph over several topics.
        mixed={one.name for found in groups.values() for one in found if "+" in one.train.label},
    )


def _from_raw(names: Sequence[str], raw: Sequence[Path], options: Mapping[str, Parameter]) -> Rebuilt:
    wanted = [plan(name) for name in names]
    dump = read_for(wanted, raw, "WikiTopics")
    records = {name: catalog.record(name) for name in names}
    seed, entities, share = int(options["seed"]), int(options["entities"]), float(options["share"])
    return Rebuilt(tuple(rebuild(dump, wanted, records, seed=seed, entities=entities, share=share)), note(dump))


def read_for(wanted: Iterable[Plan], raw: Sequence[Path], drawn: str) -> Dump:
    """Read the triples of some plans from raw files; an error says what ``drawn`` is drawn from."""
    try:
        return read_dump(raw, properties(wanted))
    except DatasetError as error:
        raise DatasetError(f"{error}; {drawn} is drawn from {EXPECTED}") from error


def note(dump: Dump) -> str:
    """Return a line on what was met while a dump was read."""
    return (
        f"read {dump.lines:,} lines: {dump.others:,} of other properties and {dump.duplicates:,} duplicates dropped, "
        f"{dump.loops:,} self-loops kept"
    )


def rebuild(
    dump: Dump,
    wanted: Sequence[Plan],
    records: Mapping[str, Record],
    *,
    seed: int = 0,
    entities: int = 10_000,
    share: float = 0.1,
) -> list[Dataset]:
    """Make datasets from a dump that was read once; a sample that several of them use is drawn once.

    The recipe of a graph: the triples of the listed properties, their largest weakly connected
    component, ``entities`` of it by forest fire, all triples among them, and ``share`` of those hidden
    as targets so that every entity stays in the graph. ``records`` maps the plans' names to the records
    the datasets are variants of. The release was drawn with a seed nobody knows, so that these are
    other samples of the same distribution; the same seed and dump give the same datasets.

    Raises `UsageError` for a size or share that cannot be, `DatasetError` where a topic's component is
    smaller than ``entities`` or too sparse for ``share``.
    Source: Zhou, Bevilacqua and Ribeiro (2023), appendix on datasets.
    """
    parameters: dict[str, Parameter] = {"seed": seed, "entities": entities, "share": share}
    splits = draw_all(dump, wanted, seed=seed, entities=entities, share=share)
    changed = [f"{key}={value}" for key, value in parameters.items() if key == "seed" or value != DEFAULTS[key]]
    return [
        together(
            replace(records[one.name], builder=BUILDER),
            f"{one.name}[rebuilt,{','.join(changed)}]",
            splits[one.train],
            splits[one.test],
            parameters,
        )
        for one in wanted
    ]


def draw_all(dump: Dump, wanted: Iterable[Plan], *, seed: int, entities: int, share: float) -> dict[Sample, Split]:
    """Draw the samples of some plans, each once; see `rebuild` for the recipe and the errors."""
    if seed < 0 or entities < 2 or not 0 < share < 1:
        raise UsageError(f"no such sample: seed={seed}, entities={entities}, share={share}")
    parts = dict.fromkeys(part for one in wanted for part in (one.train, one.test))
    return {part: as_split(dump, draw(dump, part, seed=seed, entities=entities, share=share), part) for part in parts}


def draw(dump: Dump, wanted: Sample, *, seed: int, entities: int, share: float) -> Drawn:
    """Return one sample of a dump, as ids of the dump; see `rebuild` for the recipe and the errors."""
    head, relation, tail = dump.select(wanted.relations)
    if not len(head):
        raise DatasetError(f"{wanted.label}: the dump has no triple of its {len(wanted.relations)} properties")
    graph = neighbours(head, tail, dump.num_entities)
    try:
        chosen = forest_fire(graph, largest_component(graph), entities, Stream(seed, f"{wanted.label}/fire"))
        inside = np.zeros(dump.num_entities, dtype=np.bool_)
        inside[chosen] = True
        among = inside[head] & inside[tail]
        columns = (head[among], relation[among], tail[among])
        return Drawn(columns, hold_out(columns[0], columns[2], share, Stream(seed, f"{wanted.label}/hidden")))
    except DatasetError as error:
        raise DatasetError(f"{wanted.label}: {error}") from error


def as_split(dump: Dump, drawn: Drawn, wanted: Sample) -> Split:
    """Return a drawn sample as a split with vocabularies of its own, rows sorted by the names' ids.

    The slots are all properties of the list, used or not: the size of the published dictionary.
    """
    head, relation, tail = drawn.columns
    used, types = _distinct(dump.num_entities, head, tail), _distinct(len(dump.relations), relation)
    by_name = dump.name_order(used)
    type_names = np.array([dump.relations[index] for index in types.tolist()], dtype=np.str_)
    types_by_name = np.argsort(type_names, kind="stable")
    entity_ids, type_ids = _ids(dump.num_entities, used[by_name]), _ids(len(dump.relations), types[types_by_name])
    rows = np.column_stack((entity_ids[head], type_ids[relation], entity_ids[tail]))
    # As one number each rows sort several times faster; a dump's keys of 63 bits leave room for that.
    order = np.argsort((rows[:, 0] * len(types) + rows[:, 1]) * len(used) + rows[:, 2])
    rows, hidden = rows[order], drawn.hidden[order]
    return Split(
        dataset=wanted.label,
        name="test",
        graph=rows[~hidden],
        targets=rows[hidden],
        entities=dump.entity_names(used[by_name]),
        relations=type_names[types_by_name],
        relation_slots=len(wanted.relations),
    )


def _distinct(limit: int, *columns: Ids) -> IntArray:
    seen = np.zeros(limit, dtype=np.bool_)
    for column in columns:
        seen[column] = True
    return np.flatnonzero(seen)


def _ids(limit: int, in_order: IntArray) -> IntArray:
    table = np.empty(limit, dtype=np.int64)
    table[in_order] = np.arange(len(in_order))
    return table


@cache
def _facts() -> Mapping[str, dict[str, dict[str, str]]]:
    text = (resources.files("mtbench.builders") / "wikitopics.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
