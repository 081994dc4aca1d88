"""Export to a record of the catalogue: what a new dataset has to declare of itself, measured."""

from __future__ import annotations

from mtbench.data.splits import Dataset, Split
from mtbench.evaluation.tasks import Task
from mtbench.heuristics import figures
from mtbench.names import METRICS
from mtbench.ranking.candidates import draw
from mtbench.settings.setting import Setting
from mtbench.settings.table import PROTOCOLS, VOCABULARIES, setting_of

FILE = "record.toml"
PUBLISHED_SEEDS = (0, 1, 2)


def files(dataset: Dataset) -> dict[str, bytes]:
    """Return the tables of a dataset's record as ``record.toml``; see `tables`."""
    return {FILE: tables(dataset).encode()}


def tables(dataset: Dataset) -> str:
    """Return the tables ``[graphs]``, ``[parts]``, ``[candidates]`` and ``[baselines]`` of a dataset's record as TOML.

    They are the counts, the content hash of every part, the hash of every published list of candidates, and what
    the heuristic baselines reach on those of the test targets with seed 0: all that a record says of a dataset
    beyond what somebody has to write. A dataset whose record has empty
    tables is made by ``mtbench.data.loading.derive``.
    """
    made = dataset.measured()
    lines = ["[graphs]"]
    for name, graph in made.graphs.items():
        counts = f"entities = {graph.entities}, relations = {graph.relations}"
        lines.append(f"{name} = {{ {counts}, relation_slots = {graph.relation_slots} }}")
    lines += ["", "[parts]"]
    for name, part in made.parts.items():
        lines.append(f'"{name}" = {{ triples = {part.triples}, content_sha256 = "{part.content_sha256}" }}')
    lines += ["", "[candidates]"]
    lines += [line for split in (dataset.valid, dataset.test) for line in _candidates(split)]
    lines += ["", "[baselines]", *_baselines(dataset.test)]
    return "\n".join(lines) + "\n"


def _candidates(split: Split) -> list[str]:
    return [
        f'"{setting.key(split.name, seed)}" = "{draw(split, setting, seed).sha256}"'
        for setting in _settings(reverse=True)
        for seed in ((0,) if setting.full else PUBLISHED_SEEDS)
    ]


def _baselines(split: Split) -> list[str]:
    tasks = [Task.of(split, setting) for setting in _settings()]
    found = {name: figures.measure(name, tasks) for name in figures.BASELINES}
    lines = []
    for number, one in enumerate(tasks):
        reached = (f"{name} = [{', '.join(f'{of[number][key]:.6g}' for key in METRICS)}]" for name, of in found.items())
        lines.append(f'"{one.setting.key(split.name, one.candidates.seed)}" = {{ {", ".join(reached)} }}')
    return lines


def _settings(*, reverse: bool = False) -> list[Setting]:
    """Return our settings in the order of the records."""
    vocabularies = sorted(VOCABULARIES, reverse=reverse)
    return [setting_of(protocol, vocabulary) for protocol in PROTOCOLS for vocabulary in vocabularies]
