"""``mtbench grid``: many models on many datasets with many seeds, in one process or on Ray."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from leaderboard.cli.telling import again, conclude, count, record, show_plan
from leaderboard.cli.watching import watching
from leaderboard.grid import declared, typed
from leaderboard.grid.drive import drive, survey
from leaderboard.grid.engines import in_this_process, on_ray
from leaderboard.grid.jobs import Chosen, Grid, check, jobs
from leaderboard.grid.work import Engine
from mtbench.cli import options
from mtbench.cli.output import AsJson, say, say_json
from mtbench.errors import RunInterrupted, UnknownNameError, UsageError
from mtbench.training.models import parse_settings

ENGINES = ("local", "ray")


def command(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL...",
            autocompletion=options.models,
            help="Models, with settings as in mtdea:tasks=4,epochs=5; with --file, labels of the file.",
        ),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            autocompletion=options.datasets,
            help=f"A dataset of the catalogue, {options.FOLDERS}; may be repeated.",
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="A grid declared in TOML.")] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="SEEDS", help="0-2, or 0,3,7.  [default: 0, or those of the file]")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter of every model; may be repeated."),
    ] = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option(autocompletion=options.protocols, help="As of mtbench run; may be repeated.  [default: dual]"),
    ] = None,
    vocabulary: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=options.vocabularies,
            help="present, slots (relation ids incl. unused) or all; may be repeated.  [default: present]",
        ),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Also score every model in the evaluation settings of the paper.")
    ] = False,
    without_names: Annotated[bool, typer.Option("--without-names", help="Leave names out of the ranks.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    candidate_seed: Annotated[
        int | None, typer.Option(min=0, help="Which frozen candidates to rank against.  [default: 0]")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the runs are kept.")] = Path("runs/grid"),
    engine: Annotated[str, typer.Option(help="local: one run after the other here; ray: as many as fit.")] = "local",
    address: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Ray cluster, as auto or HOST:6379.  [default: this machine]"),
    ] = None,
    cpus: Annotated[float | None, typer.Option(help="CPUs of a run on Ray.  [default: 1]")] = None,
    gpus: Annotated[float | None, typer.Option(help="GPUs of a run on Ray.  [default: 1 where there are any]")] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after 25m, 1h30m or 90s; checkpoints stay.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show what would run, and for how long; train nothing.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also try the runs again that failed twice.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run models on datasets with several seeds, each run once.

    Finished runs are kept: the same command goes on where it was stopped.

    Example: mtbench grid isdea mtdea:tasks=4 --dataset metafam --dataset fbnell --seeds 0-2

    Example: mtbench grid --file grid.toml --engine ray --budget 1h30m
    """
    seconds = None if budget is None else typed.duration(budget)
    deadline = None if seconds is None else time.time() + seconds
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # as "python -m mtbench" does, so that a model beside us can be named
    asked = _asked(models or [], _split(dataset), file, settings or [])
    asked = replace(
        asked,
        seeds=asked.seeds if seeds is None else typed.seeds(seeds),
        protocols=_split(protocol) or asked.protocols,
        vocabularies=_split(vocabulary) or asked.vocabularies,
        candidate_seed=asked.candidate_seed if candidate_seed is None else candidate_seed,
        paper=asked.paper or paper,
        with_names=asked.with_names and not without_names,
        device=device,
    )
    work = _engine(engine, address, cpus, gpus, device)
    found = jobs(asked, out)
    check(found, here=engine == "local")
    looks = survey(found, out, retry_failed=retry_failed)
    if plan:
        show_plan(looks, out, as_json=as_json)
        return
    with ExitStack() as stack:
        if as_json:
            # Ray prints what befalls it to stdout, which is for the JSON alone.
            stack.enter_context(redirect_stdout(sys.stderr))
        watch = stack.enter_context(watching(looks, silent=as_json))
        try:
            ended = drive(looks, out, work, watch, retry_failed=retry_failed, deadline=deadline)
        except KeyboardInterrupt:
            stack.close()
            raise RunInterrupted(f"interrupted; checkpoints are kept, go on with: {again(context)}") from None
    if as_json:
        say_json({"directory": str(out), "runs": [record(each) for each in ended]})
    else:
        say(f"{out}: {count(ended)}")
    conclude(ended, budget, again(context))


def _asked(names: Sequence[str], datasets: Sequence[str], file: Path | None, settings: Sequence[str]) -> Grid:
    """Return the grid of the arguments, or that of the file with the models and datasets chosen."""
    if file is not None:
        if settings:
            raise UsageError(f"--set is for models on the command line: write set = {{...}} into {file}")
        grid = declared.read(file)
        labels = {chosen.label: chosen for chosen in grid.models}
        for kind, wanted, known in (("label", names, labels), ("dataset of the file", datasets, grid.datasets)):
            for name in wanted:
                if name not in known:
                    raise UnknownNameError(kind, name, known)
        chosen = [labels[name] for name in names] if names else grid.models
        return replace(grid, models=chosen, datasets=datasets or grid.datasets)
    if not names or not datasets:
        raise UsageError("a grid needs MODEL... and --dataset NAME, or --file grid.toml")
    common = parse_settings(settings)
    models = map(typed.model, names)
    return Grid([Chosen(typed.label(model, own), model, {**common, **own}) for model, own in models], datasets)


def _split(texts: Sequence[str] | None) -> list[str]:
    """Return the values of an option that may be repeated, or hold several values with commas between them."""
    return list(dict.fromkeys(part.strip() for text in texts or () for part in text.split(",") if part.strip()))


def _engine(name: str, address: str | None, cpus: float | None, gpus: float | None, device: str) -> Engine:
    if name not in ENGINES:
        raise UnknownNameError("engine", name, ENGINES)
    given = {"--address": address, "--cpus": cpus, "--gpus": gpus}
    if name == "local":
        for option, value in given.items():
            if value is not None:
                raise UsageError(f"{option} is for runs on Ray: add --engine ray")
        return in_this_process
    if cpus is not None and cpus <= 0:
        raise UsageError(f"--cpus must be more than 0, not {cpus:g}")
    if gpus is not None and gpus < 0:
        raise UsageError(f"--gpus must be 0 or more, not {gpus:g}")
    for option, share in (("--cpus", cpus), ("--gpus", gpus)):
        if share is not None and share > 1 and not share.is_integer():
            raise UsageError(f"{option} above 1 must be a whole number, not {share:g}")
    if gpus is None:
        gpus = {"cpu": 0.0, "cuda": 1.0}.get(device)
    return on_ray(address, 1 if cpus is None else cpus, gpus)
