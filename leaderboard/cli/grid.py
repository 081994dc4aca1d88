"""``mtbench grid``: many models on many datasets with many seeds, in one process or on Ray."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from leaderboard.entries.commands import label
from leaderboard.grid.drive import Ended, drive, survey
from leaderboard.grid.engines import Attempt, Engine, Outcome, Watch, in_this_process, on_ray
from leaderboard.grid.jobs import Chosen, Grid, check, jobs, named, read_declared, typed_model, typed_seeds
from leaderboard.grid.state import PENDING, Look, OverGroup, estimates, matrices, over_group, publish
from mtbench.analysis.groups import COLUMNS, mean_over
from mtbench.analysis.matrix import scenario_table
from mtbench.cli import groups, options
from mtbench.cli.output import AsJson, doing, fail, say, say_json, say_table
from mtbench.data import catalog
from mtbench.errors import RunInterrupted, UnknownNameError, UsageError, shown
from mtbench.files import pictures, tables
from mtbench.training.models import Progress, parse_settings

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
            "--dataset",
            "--test",
            metavar="NAME",
            autocompletion=options.datasets,
            help=f"A dataset of the catalogue, {options.FOLDERS}, or several as 'wikitopics-v1/*'; may be repeated.",
        ),
    ] = None,
    group: options.Group = None,
    train: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            autocompletion=options.datasets,
            help="Learn from the training graph of another dataset, and be scored on each --test; may be repeated.  "
            "[--test then: the same]",
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="A grid declared in TOML.")] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="SEEDS", help="0-2, or 0,3,7.  [default: 0, or those of the file]")
    ] = None,
    settings: options.Settings = None,
    protocol: options.Protocols = None,
    vocabulary: options.Vocabularies = None,
    paper: options.Paper = False,
    without_names: options.WithoutNames = False,
    device: options.Device = "auto",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the runs are kept.")] = Path("runs/grid"),
    engine: Annotated[str, typer.Option(help="local: one run after the other here; ray: as many as fit.")] = "local",
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

    Finished runs are kept: the same command goes on where it was stopped. With --train a model learns once from each
    of these datasets, and a matrix shows what it reaches on every --test. With --group, the mean over its datasets
    closes the grid, for every model that has them all.

    Example: mtbench grid isdea mtdea:tasks=4 --dataset metafam --dataset fbnell --seeds 0-2

    Example: mtbench grid isdea --train 'wikitopics-v1/*' --out runs/transfer

    Example: mtbench grid tally-foundation mtdea --group entities+relations --protocol full

    Example: mtbench grid --file grid.toml --engine ray --budget 1h30m
    """
    seconds = None if budget is None else duration(budget)
    deadline = None if seconds is None else time.time() + seconds
    options.look_here_for_modules()
    if group and (dataset or file):
        raise UsageError(f"--group is all datasets to be scored on: leave out {'--dataset' if dataset else '--file'}")
    tested = catalog.names(group) if group else named(options.separated(dataset))
    asked = _asked(models or [], tested, named(options.separated(train)), file, settings or [])
    asked = replace(
        asked,
        seeds=asked.seeds if seeds is None else typed_seeds(seeds),
        protocols=options.separated(protocol) or asked.protocols,
        vocabularies=options.separated(vocabulary) or asked.vocabularies,
        paper=asked.paper or paper,
        with_names=asked.with_names and not without_names,
        device=device,
    )
    work = _engine(engine, cpus, gpus, device)
    planned = jobs(asked, out)
    check(planned, here=engine == "local")
    looks = survey(planned, out, retry_failed=retry_failed)
    if plan:
        show_plan(looks, out, group or "", as_json=as_json)
        return
    with ExitStack() as stack:
        if as_json:
            # Ray prints its messages to stdout, which is for the JSON alone.
            stack.enter_context(redirect_stdout(sys.stderr))
        watch = stack.enter_context(watching(silent=as_json))
        try:
            ended = drive(looks, out, work, watch, retry_failed=retry_failed, deadline=deadline)
        except KeyboardInterrupt:
            stack.close()
            raise RunInterrupted(f"interrupted; checkpoints are kept, go on with: {again(context)}") from None
    made = matrices(planned) if asked.train else {}
    written = publish(out, planned, made)
    rows = over_group(planned) if group else []
    if as_json:
        matrices_shown = {"matrices": {label: matrix.to_dict() for label, matrix in made.items()}} if made else {}
        say_json({"directory": str(out), "runs": [record(each) for each in ended], **matrices_shown, **_means(rows)})
    else:
        for matrix in made.values():
            say(f"\n{matrix.model}, {matrix.name}: MRR\n\n{matrix.table()}\n")
            if scenarios := matrix.scenarios():
                say(f"{scenario_table(scenarios)}\n")
        _show_group(rows, group or "")
        for path in written:
            say(str(path))
        if made and not pictures.available():
            say('no picture: python -m pip install "mtbench-kg[plots]" draws it')
        say(f"{out}: {count(ended)}")
    conclude(ended, budget, again(context))


def _asked(
    names: Sequence[str], datasets: Sequence[str], train: Sequence[str], file: Path | None, settings: Sequence[str]
) -> Grid:
    """Return the grid of the arguments, or that of the file with the models and datasets chosen."""
    if file is not None:
        if settings:
            raise UsageError(f"--set is for models on the command line: write set = {{...}} into {file}")
        grid = read_declared(file)
        labels = {chosen.label: chosen for chosen in grid.models}
        for kind, wanted, known in (
            ("label", names, labels),
            ("dataset of the file", datasets, grid.datasets),
            ("training dataset of the file", train, grid.train),
        ):
            for name in wanted:
                if name not in known:
                    raise UnknownNameError(kind, name, known)
        chosen = [labels[name] for name in names] if names else grid.models
        return replace(grid, models=chosen, datasets=datasets or grid.datasets, train=train or grid.train)
    if not names or not (datasets or train):
        raise UsageError("a grid needs MODEL... and --dataset NAME or --group NAME, or --file grid.toml")
    common = parse_settings(settings)
    models = [Chosen(label(model, own), model, {**common, **own}) for model, own in map(typed_model, names)]
    return Grid(models, datasets or train, train)


def _engine(name: str, cpus: float | None, gpus: float | None, device: str) -> Engine:
    if name not in ENGINES:
        raise UnknownNameError("engine", name, ENGINES)
    for option, share, bound in (("--cpus", cpus, "more than 0"), ("--gpus", gpus, "0 or more")):
        if share is None:
            continue
        if name == "local":
            raise UsageError(f"{option} is for runs on Ray: add --engine ray")
        if share < 0 or (share == 0 and option == "--cpus"):
            raise UsageError(f"{option} must be {bound}, not {share:g}")
        if share > 1 and not share.is_integer():
            raise UsageError(f"{option} above 1 must be a whole number, not {share:g}")
    if name == "local":
        return in_this_process
    if gpus is None:
        gpus = {"cpu": 0.0, "cuda": 1.0}.get(device)
    return on_ray(1 if cpus is None else cpus, gpus)


_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def duration(text: str) -> int:
    """Return the seconds of ``25m``, ``1h30m`` or ``90s``; raises `UsageError` for another form, or no time at all."""
    matched = _DURATION.fullmatch(text.strip())
    if matched is None or not text.strip():
        raise UsageError(f"a budget is written 25m, 1h30m or 90s, not {text!r}")
    hours, minutes, seconds = (int(part or 0) for part in matched.groups())
    total = 3600 * hours + 60 * minutes + seconds
    if not total:
        raise UsageError(f"a budget of {text.strip()} leaves no time for anything")
    return total


def spoken(seconds: float) -> str:
    """Return a length of time as it is typed: ``42s``, ``25m``, ``1h05m``; seconds only below ten minutes."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 10:
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m"


HEADINGS = ("Model", "Dataset", "Seed", "State", "Estimate")


def show_plan(looks: Sequence[Look], out: Path, group: str = "", *, as_json: bool) -> None:
    """Print the state of every run, how long those to be done will take if that is known, and a group's means."""
    times = estimates([each.job for each in looks], out)
    pending = [seconds for each, seconds in zip(looks, times, strict=True) if each.state in PENDING]
    over = over_group([each.job for each in looks]) if group else []
    total, unknown = sum(seconds for seconds in pending if seconds is not None), pending.count(None)
    if as_json:
        runs = [record(each) | {"estimated_seconds": seconds} for each, seconds in zip(looks, times, strict=True)]
        plan = {"directory": str(out), "runs": runs, "estimated_seconds": round(total, 3), "unknown": unknown}
        say_json(plan | _means(over))
        return
    rows = []
    for each, seconds in zip(looks, times, strict=True):
        estimate = "" if each.state not in PENDING else "unknown" if seconds is None else spoken(seconds)
        rows.append((each.job.label, each.job.folder, each.job.plan.seed, each.state, estimate))
    say_table(HEADINGS, rows)
    time_left = f", about {spoken(total)} one after the other" if total else ""
    more = f" and {unknown} of unknown length" if unknown and total else ""
    say(f"\n{len(pending)} of {len(looks)} runs to do{time_left}{more}; nothing was trained")
    _show_group(over, group)


def _show_group(rows: Sequence[OverGroup], group: str) -> None:
    """Print, in each setting, the means over a group of the models that have all of it, and what the others lack."""
    for setting in dict.fromkeys(row.setting for row in rows):
        of_setting = [row for row in rows if row.setting == setting]
        complete = [
            [
                row.label,
                *(str(mean_over(row.values[metric])) for metric in COLUMNS),
                str(mean_over(row.values["mrr"], row.floors)) if row.floors.keys() == row.values["mrr"].keys() else "",
            ]
            for row in of_setting
            if not row.lacking
        ]
        say(f"\n{group}: {setting.protocol}, {setting.vocabulary} relations, mean over the datasets\n")
        if complete:
            headings = ["Model", *map(tables.heading, COLUMNS), "MRR above the best baseline"]
            say(f"{tables.lay_out(headings, complete, 'text')}\n")
        for row in of_setting:
            if row.lacking:
                number = len(row.lacking) + len(row.values["mrr"])
                say(f"{row.label} has no mean yet: it lacks {len(row.lacking)} of {number}, {shown(row.lacking)}")


def _means(rows: Sequence[OverGroup]) -> dict[str, object]:
    """Return the means over a group of the models that have all of it, and what the others lack, for JSON."""
    if not rows:
        return {}
    means = defaultdict[str, dict[str, object]](dict)
    for row in rows:
        if not row.lacking:
            means[row.setting.name][row.label] = groups.means(row.values)
    return {"means": means, "lacking": {row.label: list(row.lacking) for row in rows if row.lacking}}


def record(each: Look | Ended) -> dict[str, str | int | float | None]:
    """Return what there is, or what became, of a run as a JSON object."""
    job = each.job
    names = {"label": job.label, "dataset": job.test.source, "directory": str(job.directory)}
    return {**names, "seed": job.plan.seed, "state": each.state, "error": each.error}


def count(ended: Sequence[Ended]) -> str:
    """Return how many runs came to what."""
    counts = [f"{number} {state}" for state, number in Counter(each.state for each in ended).items()]
    return f"{len(ended)} run{'s' * (len(ended) != 1)}, {', '.join(counts)}"


def conclude(ended: Sequence[Ended], budget: str | None, command: str) -> None:
    """Say what is left and why, and exit with 1 where something has to be seen to."""
    left = [each for each in ended if each.state == "left"]
    if left:
        begun = sum(each.job.directory.partial.path.exists() for each in left)
        kept = f" ({begun} with checkpoints)" if begun else ""
        over = f"the budget of {budget} is over: {len(left)} of {len(ended)} runs left{kept}"
        sys.stderr.write(f"{over}; go on with: {command}\n")
    elsewhere = [each for each in ended if each.state == "elsewhere"]
    if elsewhere:
        sys.stderr.write(f"another process is at work on {', '.join(str(each.job) for each in elsewhere)}\n")
    wrong = [each for each in ended if each.state in ("failed", "blocked")]
    for each in wrong:
        fail(f"{each.job} {each.state}: {each.error or 'see grid.jsonl'}")
    if any(each.state == "failed" for each in wrong):
        fail(f"what failed twice is left alone; to try it again: {command} --retry-failed")
    if wrong:
        raise typer.Exit(1)


def again(context: typer.Context) -> str:
    """Return the command that was typed, without --retry-failed, which is meant for once."""
    words = ["mtbench", context.info_name or "grid"]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        unset = value is None or value is False or value == parameter.get_default(context)
        if unset or parameter.name == "retry_failed":
            continue
        values = value if isinstance(value, list | tuple) else [value]
        option = parameter.opts[0] if parameter.param_type_name == "option" else None
        for item in values:
            words += [str(item)] if option is None else [option] if item is True else [option, str(item)]
    return shlex.join(words)


@contextmanager
def watching(*, silent: bool) -> Iterator[Watch]:
    """Say one line per run that ended, unless ``silent``; a terminal also shows what is running, on stderr."""
    with doing("grid") as tell:
        yield Lines(tell, silent=silent)


class Lines(Watch):
    """Says one line per run that ended, and tells what is running."""

    def __init__(self, tell: Callable[[str], None], *, silent: bool) -> None:
        self.tell, self.silent = tell, silent

    def started(self, attempt: Attempt) -> None:
        self.tell(str(attempt.job))

    def progressed(self, attempt: Attempt, progress: Progress) -> None:
        self.tell(f"{attempt.job}  {progress.stage}: {progress.told}")

    def finished(self, outcome: Outcome) -> None:
        if not self.silent:
            say(describe(outcome))


def describe(outcome: Outcome) -> str:
    """Return one line on how an attempt ended."""
    attempt = outcome.attempt
    number = f" (attempt {attempt.number})" if attempt.number > 1 else ""
    error = f": {outcome.error}" if outcome.error else ""
    return f"{attempt.job} {outcome.ending} after {spoken(outcome.seconds)}{number}{error}"
