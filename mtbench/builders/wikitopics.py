"""WikiTopics and WikiTopics-MT rebuilt from a Wikidata5M dump: any topics, any size, any seed, in one pass."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import numpy as np

from mtbench.builders.dumps.dump import Columns, Dump
from mtbench.builders.dumps.sampling import Ids, Stream, forest_fire, hold_out, largest_component, neighbours
from mtbench.data.catalog import Parameter, Record
from mtbench.data.splits import Dataset, Split
from mtbench.errors import DatasetError, UnknownNameError, UsageError
from mtbench.names import IntArray

GROUPS = ("wikitopics-mt", "wikitopics-v1", "wikitopics-v2")
"""What can be built in one pass over a dump: the eight datasets of the scenarios, or eleven single topics."""

VERSIONS = ("v1", "v2")
"""The published topic lists."""

EXPECTED = "the triples of Wikidata5M: wikidata5m_all_triplet.txt.gz, or wikidata5m_transductive.tar.gz"

DEFAULTS: Mapping[str, Parameter] = {"seed": 0, "entities": 10_000, "share": 0.1}
"""The size of the released graphs; the seed of the release is not known."""


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


def sample(version: str, names: Sequence[str], side: str) -> Sample:
    """Return the sample over the union of some topics' properties; ``side`` is ``train`` or ``test``.

    Training and test graphs of a topic are two independent samples, so their labels differ.
    """
    lists = topics(version)
    if unknown := [name for name in names if name not in lists]:
        raise UnknownNameError(f"topic of WikiTopics {version}", unknown[0], lists)
    return Sample(f"{version}/{'+'.join(names)}/{side}", tuple(dict.fromkeys(p for name in names for p in lists[name])))


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
        assemble(
            one,
            splits,
            f"{one.name}[rebuilt,{','.join(changed)}]",
            replace(records[one.name], builder="wikitopics"),
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


def assemble(
    wanted: Plan, splits: Mapping[Sample, Split], name: str, info: Record, parameters: Mapping[str, Parameter]
) -> Dataset:
    """Return the dataset of a plan from the splits of its samples, under a name and with a record."""
    valid = replace(splits[wanted.train], dataset=name, name="valid")
    return Dataset(
        name=name,
        version=info.version,
        train=replace(valid.observable(), name="train"),
        valid=valid,
        test=replace(splits[wanted.test], dataset=name, name="test"),
        info=info,
        parameters=parameters,
    )


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
