"""``mtbench floors``: what scorers that learn nothing reach on a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mtbench.cli import completion
from mtbench.cli.chosen import All
from mtbench.cli.output import AsJson, say, say_json

if TYPE_CHECKING:
    from mtbench.evaluation.task import Task
    from mtbench.heuristics.figures import Figures

ALL = "all"


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...", autocompletion=completion.datasets, help="Datasets, or directories made by build."
        ),
    ] = None,
    every: All = False,
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=completion.protocols, help="dual, entity, relation or all; may be repeated.  [default: dual]"
        ),
    ] = None,
    vocabulary: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=completion.vocabularies, help="present, slots or all; may be repeated.  [default: present]"
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="valid or test.")] = "test",
    candidate_seed: Annotated[int, typer.Option(min=0, help="Which frozen candidates to rank against.")] = 0,
    format: Annotated[str, typer.Option(help="text, markdown or latex.")] = "text",  # noqa: A002
    as_json: AsJson = False,
) -> None:
    """Show what a model has to beat: scorers that learn nothing.

    Example: mtbench floors metafam

    Example: mtbench floors --all --protocol all --vocabulary all --json
    """
    from mtbench.data import catalog
    from mtbench.errors import UnknownNameError, UsageError
    from mtbench.files import tables
    from mtbench.ranking.candidates import PROTOCOLS, VOCABULARIES, protocol_named, vocabulary_named

    if bool(names) == every:
        raise UsageError("give either 'NAME...' or --all (mtbench list shows the names)")
    if format not in tables.FORMATS:
        raise UnknownNameError("table format", format, tables.FORMATS)
    if split not in ("valid", "test"):
        raise UnknownNameError("split with targets", split, ("valid", "test"))
    asked = [
        (one, other)
        for one in _expand(protocol or ["dual"], PROTOCOLS, protocol_named)
        for other in _expand(vocabulary or ["present"], VOCABULARIES, vocabulary_named)
    ]
    found = []
    for name in dict.fromkeys(catalog.names() if every else names or []):
        for task, figures in _measure(name, split, asked, candidate_seed):
            if as_json:
                found.append(_described(task, figures))
                continue
            rows = [(label.replace("_", " "), values) for label, values in figures.items()]
            drawn = task.candidates
            say(
                f"{task.split.dataset} {split}: protocol {drawn.protocol}, {drawn.vocabulary} relations, "
                f"candidate seed {drawn.seed}\n\n{tables.render(rows, format)}\n"
            )
    if as_json:
        say_json(found)


def _expand(given: Sequence[str], known: Iterable[str], check: Callable[[str], object]) -> list[str]:
    names = list(known) if ALL in given else list(dict.fromkeys(given))
    for name in names:
        check(name)
    return names


def _measure(name: str, split: str, asked: list[tuple[str, str]], seed: int) -> Iterator[tuple[Task, Figures]]:
    from mtbench.data.load import load
    from mtbench.evaluation.task import task
    from mtbench.heuristics.figures import FLOORS, measure
    from mtbench.metrics.summary import chance

    data = load(name)
    tasks = [task(data.split(split), *pair, seed, dataset_version=data.version) for pair in asked]
    by_floor = {floor: measure(floor, tasks) for floor in FLOORS}
    for number, chosen in enumerate(tasks):
        figures = {floor: values[number] for floor, values in by_floor.items()}
        yield (
            chosen,
            {
                **figures,
                "chance": chance(chosen.candidates.numbers, chosen.candidates.protocol, chosen.candidates.vocabulary),
            },
        )


def _described(task: Task, figures: Figures) -> dict[str, object]:
    return {
        "dataset": task.split.dataset,
        "dataset_version": task.dataset_version,
        "split": task.split.name,
        "protocol": task.candidates.protocol,
        "vocabulary": task.candidates.vocabulary,
        "candidate_seed": task.candidates.seed,
        "candidates_sha256": task.candidates.sha256,
        "floors": figures,
    }
