"""``mtbench score``: rank the scores of a file, from whatever language wrote it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from mtbench.cli import completion
from mtbench.cli.output import AsJson, say, say_json
from mtbench.errors import UsageError

if TYPE_CHECKING:
    from mtbench.evaluation.task import Task
    from mtbench.results.result import Result
    from mtbench.results.runs import Regime


def command(
    task: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=completion.datasets,
            help="DATASET, or DATASET/SPLIT/PROTOCOL/VOCABULARY/SEED or part of it.",
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Columns head, relation, tail, score: .parquet, .feather, .csv, .tsv [.gz]"
        ),
    ] = None,
    template: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the triples to score to this file, and stop.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="train, valid or test.  [default: test]")] = None,
    protocol: Annotated[
        str | None,
        typer.Option(autocompletion=completion.protocols, help="Any of those of mtbench run.  [default: dual]"),
    ] = None,
    vocabulary: Annotated[
        str | None, typer.Option(autocompletion=completion.vocabularies, help="present or slots.  [default: present]")
    ] = None,
    candidate_seed: Annotated[int | None, typer.Option(min=0, help="Which frozen candidates.  [default: 0]")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Save the result as a run directory.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model.  [default: the file's name]")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the model's own randomness.")] = 0,
    regime: Annotated[
        str, typer.Option(help="zero-shot, test-time-adaptation, fine-tuned or supervised.")
    ] = "zero-shot",
    pretraining_graph: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A graph the model learned from; may be repeated.")
    ] = None,
    url: Annotated[str, typer.Option(help="Where the model is published.")] = "",
    commit: Annotated[str, typer.Option(help="Its revision.")] = "",
    device: Annotated[str, typer.Option(help="What it was scored on.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the run directory or the template.")] = False,
    as_json: AsJson = False,
) -> None:
    """Rank the scores of a file, written by any language.

    Example: mtbench score --template triples.parquet --task metafam

    Example: mtbench score scores.parquet --task metafam/dual/present/0 --out runs/mine --model mine
    """
    from mtbench.evaluation import named as tasks
    from mtbench.results.result import MtbenchWarning
    from mtbench.results.runs import RunInfo

    if (file is None) == (template is None):
        raise UsageError("give either FILE, with scores, or --template FILE, to be filled with them")
    info = RunInfo(
        model=model or (file.name.partition(".")[0] if file else "unnamed"),
        seed=seed,
        regime=cast("Regime", regime),
        pretraining_graphs=tuple(pretraining_graph or ()),
        url=url,
        commit=commit,
        device=device,
    )
    chosen = tasks.named(
        task,
        split=split,
        protocol=protocol,
        vocabulary=vocabulary,
        candidate_seed=None if candidate_seed is None else str(candidate_seed),
    )
    if template is not None:
        _write_template(chosen, template, force, as_json)
    elif file is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MtbenchWarning)
            result = replace(chosen.evaluate_file(file), run=info)
        directory = result.save(out, force=force) if out else None
        _show(chosen.name, result, directory, as_json)


def _write_template(task: Task, path: Path, force: bool, as_json: bool) -> None:
    triples = len(task.triples)
    task.write_triples(path, force=force)
    if as_json:
        say_json({"task": task.name, "file": str(path), "triples": triples})
        return
    say(
        f"{path} holds the {triples} triples of {task.name}, by name and by id: add a column score, higher meaning "
        f"more plausible, then\nmtbench score {path} --task {task.name}"
    )


def _show(name: str, result: Result, directory: Path | None, as_json: bool) -> None:
    if as_json:
        fields = ("metrics", "optimistic", "pessimistic", "tie_rate", "chance", "warnings")
        about = {"task": name, "model": result.run.model, "directory": None if directory is None else str(directory)}
        say_json(about | {field: getattr(result, field) for field in fields} | {"floors": dict(result.floors)})
        return
    say(f"{result}\n")
    if directory is None:
        say("not saved: --out DIR keeps the result as a run directory")
    else:
        say(f"{directory} holds the result; mtbench verify {directory} recomputes it")
