"""The record of a dataset that no catalogue declares: made of a scenario of the user's, restored from its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mtbench.data.catalog import Graph, Parameter, Part, Record

BUILDER = "scenario"
"""The builder that marks such a dataset: its record is not looked up but made by `record`."""


def record(
    name: str,
    version: str,
    licence: str,
    citation: str,
    parameters: Mapping[str, Parameter],
    graphs: Mapping[str, Graph],
    parts: Mapping[str, Part],
) -> Record:
    """Return the record of a scenario's dataset, whose only release is the dataset itself.

    All of it stands in the manifest, so that what is loaded has the record that was stored.
    ``parameters`` are the options of the sample, the topics and properties of ``train`` and ``test``,
    and the SHA-256 of the scenario file; ``graphs`` and ``parts`` have the keys of `Record`.
    """
    train, test = str(parameters.get("train", "")), str(parameters.get("test", ""))
    return Record(
        id=name,
        title=f"{name}, a scenario of one's own",
        version=version,
        builder=BUILDER,
        summary=(
            f"Triples of a dump: train on {' and '.join(train.split('+'))}, predict in {test} "
            f"({parameters.get('entities')} entities each, share {parameters.get('share')} of the triples hidden, "
            f"seed {parameters.get('seed')})."
        ),
        licence=licence,
        citation=citation,
        aliases=(),
        defects=(),
        graphs=graphs,
        parts={key: part for key, part in parts.items() if key not in ("train/targets", "valid/graph")},
        sources=(),
        parameters=MappingProxyType(dict(parameters)),
        candidates=MappingProxyType({}),
    )


def build_arguments(parameters: Mapping[str, Parameter]) -> str:
    """Return the words after ``mtbench build`` that make such a dataset again, the two files left to fill in."""
    options = " ".join(f"--set {key}={parameters[key]}" for key in ("entities", "share") if key in parameters)
    return f"wikitopics --raw DUMP --scenario FILE.toml --seed {parameters.get('seed', 0)} {options}"
