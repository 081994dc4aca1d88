"""Scenarios of one's own: a file of topics and of what to train and test on, made into datasets like WikiTopics-MT."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mtbench.builders import wikitopics
from mtbench.builders.wikitopics import Plan
from mtbench.data import catalog
from mtbench.data.catalog import Parameter
from mtbench.data.loading import RawRecipe, Rebuilt
from mtbench.data.splits import own_release, together
from mtbench.errors import DatasetError, UnknownNameError, UsageError
from mtbench.files.schema import read_toml

NAME = "wikitopics"
"""The name such scenarios are built by: the recipe, without a dataset of the catalogue behind it."""

LICENCE = "that of the dump: CC0 1.0 for the triples of Wikidata"

_WORD = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_TOPIC = 'such as art = "P50 P58"'
_SCENARIO = 'such as mine = { train = ["art", "people"], test = ["health"] }'


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
    datasets = [
        own
        for name, scenario in found.scenarios.items()
        for own in _datasets(name, scenario, lists, listed, f"{file}: scenarios.{name}")
    ]
    return Scenarios(file, hashlib.sha256(data).hexdigest(), tuple(datasets), listed)


def from_raw(file: Path) -> RawRecipe:
    """Return how the datasets of a scenario file are made of a dump; raises what `read` raises.

    Their parameters hold the topics, properties and the hash of the file besides the options, so that
    the manifest says all that is needed to make them again. Making them raises `UsageError` for a size or share
    that cannot be, `DatasetError` where the dump lacks a property that the file lists, or a topic is too small or
    too sparse for what is asked.
    """
    wanted = read(file)

    def rebuild(_: Sequence[str], raw: Sequence[Path], options: Mapping[str, Parameter]) -> Rebuilt:
        return _rebuild(wanted, raw, options)

    return RawRecipe(options=wikitopics.DEFAULTS, rebuild=rebuild, groups={NAME: wanted.names})


def _rebuild(wanted: Scenarios, raw: Sequence[Path], options: Mapping[str, Parameter]) -> Rebuilt:
    plans = [own.plan for own in wanted.datasets]
    dump = wikitopics.read_for(plans, raw, str(wanted.file))
    present = set(dump.relations)
    for topic, names in wanted.listed.items():
        if absent := [name for name in names if name not in present]:
            raise DatasetError(
                f"{wanted.file}: topic {topic}: the dump has no triple of {', '.join(absent)}: "
                "correct the spelling, or take it from the list"
            )
    seed, entities, share = int(options["seed"]), int(options["entities"]), float(options["share"])
    try:
        splits = wikitopics.draw_all(dump, plans, seed=seed, entities=entities, share=share)
    except DatasetError as error:
        raise DatasetError(
            f"{wanted.file}: {error}; give its topics more properties there, "
            "or ask for less with --set entities=N --set share=X"
        ) from error
    changed = [f"{key}={value}" for key, value in options.items() if value != wikitopics.DEFAULTS[key]]
    suffix = f"[{','.join(changed)}]" if changed else ""
    # The recipe is theirs, whatever the topics.
    citation = catalog.record(wikitopics.plans(wikitopics.GROUPS[0])[0].name).citation
    made = []
    for own in wanted.datasets:
        name, train, test = own.plan.name, splits[own.plan.train], splits[own.plan.test]
        parameters = {
            **options,
            "train": "+".join(own.train),
            "train_properties": " ".join(own.plan.train.relations),
            "test": own.test,
            "test_properties": " ".join(own.plan.test.relations),
            "scenario_sha256": wanted.sha256,
        }
        info = catalog.own(catalog.SCENARIO, name, parameters, LICENCE, citation)
        made.append(own_release(together(info, name + suffix, train, test, parameters)))
    return Rebuilt(tuple(made), wikitopics.note(dump))


def _listed(name: str, text: str, where: str) -> tuple[str, ...]:
    _expect_word(name, where)
    if not text.split():
        raise UsageError(f"{where}: {name} is empty: list its properties, {_TOPIC}")
    return tuple(dict.fromkeys(text.split()))


def _datasets(
    name: str,
    scenario: _Scenario,
    lists: Mapping[str, Mapping[str, tuple[str, ...]]],
    listed: dict[str, tuple[str, ...]],
    where: str,
) -> list[Own]:
    """Return the datasets of a scenario; ``listed`` gains those of the file's own topics that it uses."""
    _expect_word(name, where)
    for key, names in (("train", scenario.train), ("test", scenario.test)):
        if not names:
            raise UsageError(f"{where}: {key} must be a list of topics, {_SCENARIO}")
        if len(set(names)) < len(names):
            raise UsageError(f"{where}: {key} names a topic twice: {', '.join(names)}")
    published = {version: wikitopics.topics(version) for version in wikitopics.VERSIONS}
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
    train = wikitopics.sample(scenario.version, scenario.train, "train", known)
    found = []
    for topic in scenario.test:
        if catalog.find(f"{name}/{topic}") is not None:
            raise UsageError(f"{where}: {name}/{topic} is a dataset of the catalogue: name the scenario differently")
        test = wikitopics.sample(scenario.version, [topic], "test", known)
        found.append(Own(Plan(f"{name}/{topic}", train, test), scenario.train, topic))
    return found


def _expect_word(name: str, where: str) -> None:
    # The names become folders.
    if _WORD.fullmatch(name) is None:
        raise UsageError(f"{where}: {name!r} is no name: use letters, digits, dots, - and _")
