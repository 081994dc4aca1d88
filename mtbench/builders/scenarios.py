"""Scenarios of one's own: a file of topics and of what to train and test on, made into datasets like WikiTopics-MT."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mtbench.builders import wikitopics
from mtbench.builders.dumps.dump import Dump
from mtbench.builders.wikitopics import Plan, Sample
from mtbench.data import catalog, manifest
from mtbench.data.catalog import Graph, Parameter, Part, Record
from mtbench.data.splits import Dataset, Split
from mtbench.errors import DatasetError, UnknownNameError, UsageError

NAME = "wikitopics"
"""The name such scenarios are built by: the recipe, without a dataset of the catalogue behind it."""

VERSION = "1.0.0"
LICENCE = "that of the dump: CC0 1.0 for the triples of Wikidata"

_WORD = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_TOPIC = 'such as art = "P50 P58"'
_SCENARIO = 'such as mine = { train = ["art", "people"], test = ["health"] }'


@dataclass(frozen=True)
class Own:
    """One dataset of a scenario: its plan, and the names of the topics it trains and tests on."""

    plan: Plan
    train: tuple[str, ...]
    test: str


@dataclass(frozen=True)
class Scenarios:
    """What a scenario file says: the datasets, the SHA-256 of its bytes, and the properties it lists itself.

    ``listed`` maps the file's own topics, as far as they are used, to their properties.
    """

    file: Path
    sha256: str
    datasets: tuple[Own, ...]
    listed: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the datasets, ``SCENARIO/TOPIC``, which are also their folders."""
        return tuple(own.plan.name for own in self.datasets)


def read(file: Path) -> Scenarios:
    """Read a scenario file, of the form of ``mtbench/builders/wikitopics.toml``.

    A scenario takes its topics from ``[topics]`` or, if it has a ``version``, also from
    ``[topics.VERSION]`` and from the published lists of that version, the file's own first. Reading
    it needs no dump, so everything that is spelled wrong is told before hours of work.

    Raises `UsageError` that names the file and what to change there.
    """
    try:
        data = file.read_bytes()
        table = tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read, {error.strerror or error}: name a scenario file") from error
    except ValueError as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    _expect_known("key", table, ("scenarios", "topics"), str(file))
    lists = _topics(_table(table.get("topics", {}), f"{file}: topics"), f"{file}: topics")
    scenarios = _table(table.get("scenarios", {}), f"{file}: scenarios")
    if not scenarios:
        raise UsageError(f"{file}: scenarios: there is none; add one, {_SCENARIO}")
    listed: dict[str, tuple[str, ...]] = {}
    datasets = [
        own for name, row in scenarios.items() for own in _scenario(name, row, lists, listed, f"{file}: scenarios")
    ]
    return Scenarios(file, hashlib.sha256(data).hexdigest(), tuple(datasets), listed)


def properties(wanted: Scenarios) -> set[str]:
    """Return all properties the datasets need: what to keep while reading the dump."""
    return wikitopics.properties(own.plan for own in wanted.datasets)


def rebuild(dump: Dump, wanted: Scenarios, *, seed: int, entities: int, share: float) -> list[Dataset]:
    """Make the datasets of a scenario file from a dump that was read once, by `wikitopics.rebuild`'s recipe.

    Their parameters hold the topics, properties and the hash of the file besides the options, so that
    the manifest says all that is needed to make them again.

    Raises `UsageError` for a size or share that cannot be, `DatasetError` where the dump lacks a
    property that the file lists, or a topic is too small or too sparse for what is asked.
    """
    present = set(dump.relations)
    for topic, names in wanted.listed.items():
        if absent := [name for name in names if name not in present]:
            raise DatasetError(
                f"{wanted.file}: topic {topic}: the dump has no triple of {', '.join(absent)}: "
                "correct the spelling, or take it from the list"
            )
    plans = [own.plan for own in wanted.datasets]
    try:
        splits = wikitopics.draw_all(dump, plans, seed=seed, entities=entities, share=share)
    except DatasetError as error:
        raise DatasetError(
            f"{wanted.file}: {error}; give its topics more properties there, "
            "or ask for less with --set entities=N --set share=X"
        ) from error
    options: dict[str, Parameter] = {"seed": seed, "entities": entities, "share": share}
    changed = [f"{key}={value}" for key, value in options.items() if value != wikitopics.DEFAULTS[key]]
    suffix = f"[{','.join(changed)}]" if changed else ""
    made = []
    for own in wanted.datasets:
        parameters = {**options, **_parameters(own), "scenario_sha256": wanted.sha256}
        info = _record(own.plan, splits, parameters)
        made.append(wikitopics.assemble(own.plan, splits, own.plan.name + suffix, info, parameters))
    return made


def _parameters(own: Own) -> dict[str, Parameter]:
    return {
        "train": "+".join(own.train),
        "train_properties": " ".join(own.plan.train.relations),
        "test": own.test,
        "test_properties": " ".join(own.plan.test.relations),
    }


def _record(plan: Plan, splits: Mapping[Sample, Split], parameters: Mapping[str, Parameter]) -> Record:
    train, test = splits[plan.train], splits[plan.test]
    # The recipe is theirs, whatever the topics.
    citation = catalog.record("wikitopics-mt1/health").citation
    graphs = {
        name: Graph(split.num_entities, split.num_relations, split.relation_slots)
        for name, split in (("train", train), ("test", test))
    }
    parts = {
        "train/graph": Part(len(train.graph), train.graph_sha256),
        "valid/targets": Part(len(train.targets), train.targets_sha256),
        "test/graph": Part(len(test.graph), test.graph_sha256),
        "test/targets": Part(len(test.targets), test.targets_sha256),
    }
    return manifest.record(plan.name, VERSION, LICENCE, citation, parameters, graphs, parts)


def _topics(table: Mapping[str, object], where: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the lists by version and topic; those of no version under an empty one."""
    lists: dict[str, dict[str, tuple[str, ...]]] = {"": {}}
    for name, value in table.items():
        if isinstance(value, dict):
            lists[name] = {topic: _listed(topic, text, f"{where}.{name}") for topic, text in value.items()}
        else:
            lists[""][name] = _listed(name, value, where)
    return lists


def _listed(name: str, value: object, where: str) -> tuple[str, ...]:
    _expect_word(name, where)
    if not isinstance(value, str):
        raise UsageError(f"{where}: {name} must be properties in one text, {_TOPIC}")
    if not value.split():
        raise UsageError(f"{where}: {name} is empty: list its properties, {_TOPIC}")
    return tuple(dict.fromkeys(value.split()))


def _scenario(
    name: str,
    value: object,
    lists: Mapping[str, Mapping[str, tuple[str, ...]]],
    listed: dict[str, tuple[str, ...]],
    where: str,
) -> list[Own]:
    _expect_word(name, where)
    where = f"{where}.{name}"
    row = _table(value, where)
    _expect_known("key", row, ("train", "test", "version"), where)
    train, test = (_names(row, key, where) for key in ("train", "test"))
    version = row.get("version", "")
    versions = {*wikitopics.VERSIONS, *lists} - {""}
    if not isinstance(version, str) or version not in {"", *versions}:
        raise UsageError(f"{where}: {UnknownNameError('version', str(version), versions)}")
    own = {**lists.get(version, {}), **lists[""]}
    known = {**(wikitopics.topics(version) if version in wikitopics.VERSIONS else {}), **own}
    for topic in (*train, *test):
        if topic not in known:
            others = [other for other in sorted(versions) if topic in _every(other, lists)]
            hint = "".join(f'; {topic} is a topic of {other}: add version = "{other}"' for other in others)
            raise UsageError(f"{where}: {UnknownNameError('topic', topic, known)}{hint}")
        if topic in own:
            listed[topic] = own[topic] if topic not in listed else tuple(dict.fromkeys((*listed[topic], *own[topic])))
    found = []
    for topic in test:
        if _is_catalogued(f"{name}/{topic}"):
            raise UsageError(f"{where}: {name}/{topic} is a dataset of the catalogue: name the scenario differently")
        samples = _sample(version, train, known, "train"), _sample(version, [topic], known, "test")
        found.append(Own(Plan(f"{name}/{topic}", *samples), train, topic))
    return found


def _sample(version: str, names: Iterable[str], known: Mapping[str, tuple[str, ...]], side: str) -> Sample:
    # Published topics have the labels of `wikitopics.sample`, so that the same seed gives the same graphs.
    label = "/".join(filter(None, (version, "+".join(names), side)))
    return Sample(label, tuple(dict.fromkeys(name for topic in names for name in known[topic])))


def _every(version: str, lists: Mapping[str, Mapping[str, tuple[str, ...]]]) -> set[str]:
    return {*lists.get(version, {}), *(wikitopics.topics(version) if version in wikitopics.VERSIONS else {})}


def _names(row: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
    names = row.get(key)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{where}: {key} must be a list of topics, {_SCENARIO}")
    if len(set(names)) < len(names):
        raise UsageError(f"{where}: {key} names a topic twice: {', '.join(names)}")
    return tuple(names)


def _table(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a table, not {value!r}: {_TOPIC}, or {_SCENARIO}")
    return cast(dict[str, object], value)


def _expect_known(kind: str, table: Mapping[str, object], choices: Iterable[str], where: str) -> None:
    for name in table:
        if name not in choices:
            raise UsageError(f"{where}: {UnknownNameError(kind, name, choices)}")


def _expect_word(name: str, where: str) -> None:
    # The names become folders.
    if _WORD.fullmatch(name) is None:
        raise UsageError(f"{where}: {name!r} is no name: use letters, digits, dots, - and _")


def _is_catalogued(name: str) -> bool:
    try:
        catalog.record(name)
    except UnknownNameError:
        return False
    return True
