"""WikiTopics, WikiTopics-MT and scenarios like them, drawn from a Wikidata5M dump: any topics, size and seed."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from mtbench.builders.dumps.dump import Dump, read_dump
from mtbench.builders.dumps.sampling import Ids, Stream, forest_fire, hold_out, largest_component, neighbours
from mtbench.data import catalog
from mtbench.data.catalog import Parameter, Record
from mtbench.data.loading import RawRecipe, Rebuilt
from mtbench.data.splits import Dataset, Split, own_release, together
from mtbench.errors import DatasetError, UnknownNameError, UsageError
from mtbench.files.schema import read_toml
from mtbench.names import IntArray

GROUPS = ("wikitopics-mt", "wikitopics-v1", "wikitopics-v2")
"""What can be built in one pass over a dump: the eight datasets of the scenarios, or eleven single topics."""

VERSIONS = ("v1", "v2")
"""The published topic lists."""

EXPECTED = "the triples of Wikidata5M: wikidata5m_all_triplet.txt.gz, or wikidata5m_transductive.tar.gz"

DEFAULTS: Mapping[str, Parameter] = {"seed": 0, "entities": 10_000, "share": 0.1}
"""The size of the released graphs; the seed of the release is not known."""

BUILDER = "wikitopics"
"""What the manifest of a dataset that was drawn from a dump calls its builder, and the name scenarios are built by."""

LICENCE = "that of the dump: CC0 1.0 for the triples of Wikidata"
"""Of the datasets of a scenario file."""

_WORD = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_TOPIC = 'such as art = "P50 P58"'
_SCENARIO = 'such as mine = { train = ["art", "people"], test = ["health"] }'


@dataclass(frozen=True)
class Sample:
    """One graph to draw: its topics, their properties, and a label that starts its own random stream.

    With its own stream a graph is the same whichever others are drawn in the same pass.
    """

    label: str
    relations: tuple[str, ...]
    topics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """One dataset to make: its name and the samples it trains and tests on."""

    name: str
    train: Sample
    test: Sample


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
    return Sample(label, tuple(dict.fromkeys(p for name in names for p in lists[name])), tuple(names))


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
    return {part: draw(dump, part, seed=seed, entities=entities, share=share) for part in parts}


def draw(dump: Dump, wanted: Sample, *, seed: int, entities: int, share: float) -> Split:
    """Return one sample of a dump, with vocabularies of its own; see `rebuild` for the recipe and the errors.

    Rows are sorted by the names' ids. The slots are all properties of the list, used or not: the size of the
    published dictionary.
    """
    head, relation, tail = dump.select(wanted.relations)
    if not len(head):
        raise DatasetError(f"{wanted.label}: the dump has no triple of its {len(wanted.relations)} properties")
    graph = neighbours(head, tail, dump.num_entities)
    try:
        chosen = forest_fire(graph, largest_component(graph), entities, Stream(seed, f"{wanted.label}/fire"))
        inside = np.zeros(dump.num_entities, dtype=np.bool_)
        inside[chosen] = True
        among = inside[head] & inside[tail]
        head, relation, tail = head[among], relation[among], tail[among]
        hidden = hold_out(head, tail, share, Stream(seed, f"{wanted.label}/hidden"))
    except DatasetError as error:
        raise DatasetError(f"{wanted.label}: {error}") from error
    used, types = _distinct(dump.num_entities, head, tail), _distinct(len(dump.relations), relation)
    by_name = dump.name_order(used)
    type_names = np.array([dump.relations[index] for index in types.tolist()], dtype=np.str_)
    types_by_name = np.argsort(type_names, kind="stable")
    entity_ids, type_ids = _ids(dump.num_entities, used[by_name]), _ids(len(dump.relations), types[types_by_name])
    rows = np.column_stack((entity_ids[head], type_ids[relation], entity_ids[tail]))
    # As one number each rows sort several times faster; a dump's keys of 63 bits leave room for that.
    order = np.argsort((rows[:, 0] * len(types) + rows[:, 1]) * len(used) + rows[:, 2])
    rows, hidden = rows[order], hidden[order]
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


@dataclass(frozen=True)
class _Scenario:
    train: tuple[str, ...]
    test: tuple[str, ...]
    version: str = ""


@dataclass(frozen=True)
class _File:
    topics: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    scenarios: Mapping[str, _Scenario] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenarios:
    """What a scenario file says: the datasets, the SHA-256 of its bytes, and the properties it lists itself.

    The datasets are called ``SCENARIO/TOPIC``, as their folders. ``listed`` maps the file's own topics, as far as they
    are used, to their properties.
    """

    file: Path
    sha256: str
    plans: tuple[Plan, ...]
    listed: Mapping[str, tuple[str, ...]]


def read_scenarios(file: Path) -> Scenarios:
    """Read a scenario file, of the form of ``mtbench/builders/wikitopics.toml``.

    A scenario takes its topics from ``[topics]`` or, if it has a ``version``, also from
    ``[topics.VERSION]`` and from the published lists of that version, the file's own first. Reading
    it needs no dump, so everything that is spelled wrong is told before hours of work.

    Raises `UsageError` that names the file and what to change there.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read, {error.strerror or error}: name a scenario file") from error

    def wrong(message: str) -> UsageError:
        return UsageError(f"{message}; a topic is {_TOPIC}, a scenario {_SCENARIO}")

    found = read_toml(data, _File, str(file), wrong)
    if not found.scenarios:
        raise UsageError(f"{file}: scenarios: there is none; add one, {_SCENARIO}")
    lists: dict[str, dict[str, tuple[str, ...]]] = {"": {}}
    for name, value in found.topics.items():
        if isinstance(value, str):
            lists[""][name] = _listed(name, value, f"{file}: topics")
        else:
            lists[name] = {topic: _listed(topic, text, f"{file}: topics.{name}") for topic, text in value.items()}
    listed: dict[str, tuple[str, ...]] = {}
    wanted = [
        plan
        for name, scenario in found.scenarios.items()
        for plan in _plans(name, scenario, lists, listed, f"{file}: scenarios.{name}")
    ]
    return Scenarios(file, hashlib.sha256(data).hexdigest(), tuple(wanted), listed)


def from_scenarios(file: Path) -> RawRecipe:
    """Return how the datasets of a scenario file are made of a dump; raises what `read_scenarios` raises.

    Their parameters hold the topics, properties and the hash of the file besides the options, so that
    the manifest says all that is needed to make them again. Making them raises `UsageError` for a size or share
    that cannot be, `DatasetError` where the dump lacks a property that the file lists, or a topic is too small or
    too sparse for what is asked.
    """
    wanted = read_scenarios(file)

    def rebuild(_: Sequence[str], raw: Sequence[Path], options: Mapping[str, Parameter]) -> Rebuilt:
        return _rebuild_scenarios(wanted, raw, options)

    return RawRecipe(options=DEFAULTS, rebuild=rebuild, groups={BUILDER: tuple(plan.name for plan in wanted.plans)})


def _rebuild_scenarios(wanted: Scenarios, raw: Sequence[Path], options: Mapping[str, Parameter]) -> Rebuilt:
    dump = read_for(wanted.plans, raw, str(wanted.file))
    present = set(dump.relations)
    for topic, names in wanted.listed.items():
        if absent := [name for name in names if name not in present]:
            raise DatasetError(
                f"{wanted.file}: topic {topic}: the dump has no triple of {', '.join(absent)}: "
                "correct the spelling, or take it from the list"
            )
    seed, entities, share = int(options["seed"]), int(options["entities"]), float(options["share"])
    try:
        splits = draw_all(dump, wanted.plans, seed=seed, entities=entities, share=share)
    except DatasetError as error:
        raise DatasetError(
            f"{wanted.file}: {error}; give its topics more properties there, "
            "or ask for less with --set entities=N --set share=X"
        ) from error
    changed = [f"{key}={value}" for key, value in options.items() if value != DEFAULTS[key]]
    suffix = f"[{','.join(changed)}]" if changed else ""
    # The recipe is theirs, whatever the topics.
    citation = catalog.record(plans(GROUPS[0])[0].name).citation
    made = []
    for one in wanted.plans:
        parameters = {
            **options,
            "train": "+".join(one.train.topics),
            "train_properties": " ".join(one.train.relations),
            "test": "+".join(one.test.topics),
            "test_properties": " ".join(one.test.relations),
            "scenario_sha256": wanted.sha256,
        }
        info = catalog.own(catalog.SCENARIO, one.name, parameters, LICENCE, citation)
        drawn = together(info, one.name + suffix, splits[one.train], splits[one.test], parameters)
        made.append(own_release(drawn))
    return Rebuilt(tuple(made), note(dump))


def _listed(name: str, text: str, where: str) -> tuple[str, ...]:
    _expect_word(name, where)
    if not text.split():
        raise UsageError(f"{where}: {name} is empty: list its properties, {_TOPIC}")
    return tuple(dict.fromkeys(text.split()))


def _plans(
    name: str,
    scenario: _Scenario,
    lists: Mapping[str, Mapping[str, tuple[str, ...]]],
    listed: dict[str, tuple[str, ...]],
    where: str,
) -> list[Plan]:
    """Return the plans of a scenario; ``listed`` gains those of the file's own topics that it uses."""
    _expect_word(name, where)
    for key, names in (("train", scenario.train), ("test", scenario.test)):
        if not names:
            raise UsageError(f"{where}: {key} must be a list of topics, {_SCENARIO}")
        if len(set(names)) < len(names):
            raise UsageError(f"{where}: {key} names a topic twice: {', '.join(names)}")
    published = {version: topics(version) for version in VERSIONS}
    every = {version: {**published.get(version, {}), **lists.get(version, {})} for version in {*published, *lists}}
    if scenario.version not in every:
        raise UsageError(f"{where}: {UnknownNameError('version', scenario.version, every.keys() - {''})}")
    own = {**lists.get(scenario.version, {}), **lists[""]}
    known = {**every[scenario.version], **own}
    for topic in (*scenario.train, *scenario.test):
        if topic not in known:
            others = [other for other, topics in sorted(every.items()) if topic in topics]
            hint = "".join(f'; {topic} is a topic of {other}: add version = "{other}"' for other in others)
            raise UsageError(f"{where}: {UnknownNameError('topic', topic, known)}{hint}")
        if topic in own:
            listed[topic] = tuple(dict.fromkeys((*listed.get(topic, ()), *own[topic])))
    train = sample(scenario.version, scenario.train, "train", known)
    found = []
    for topic in scenario.test:
        if catalog.find(f"{name}/{topic}") is not None:
            raise UsageError(f"{where}: {name}/{topic} is a dataset of the catalogue: name the scenario differently")
        found.append(Plan(f"{name}/{topic}", train, sample(scenario.version, [topic], "test", known)))
    return found


def _expect_word(name: str, where: str) -> None:
    # The names become folders.
    if _WORD.fullmatch(name) is None:
        raise UsageError(f"{where}: {name!r} is no name: use letters, digits, dots, - and _")
