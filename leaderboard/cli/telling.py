"""What ``mtbench grid`` says: the plan, what became of the runs, and how to go on."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import typer

from leaderboard.grid.drive import Ended
from leaderboard.grid.jobs import Job
from leaderboard.grid.state import PENDING, Look, estimates
from leaderboard.grid.typed import spoken
from mtbench.cli.output import fail, say, say_json, say_table

HEADINGS = ("Model", "Dataset", "Seed", "State", "Estimate")


def show_plan(looks: Sequence[Look], out: Path, *, as_json: bool) -> None:
    """Print the state of every run, and how long those to be done will take as far as that is known."""
    known = estimates(out)
    pending = [each for each in looks if each.state in PENDING]
    times = [known.of(each.job) for each in pending]
    total, unknown = sum(time for time in times if time is not None), times.count(None)
    if as_json:
        runs = [
            {**_names(each.job), "state": each.state, "estimated_seconds": known.of(each.job), "error": each.error}
            for each in looks
        ]
        say_json({"directory": str(out), "runs": runs, "estimated_seconds": round(total, 3), "unknown": unknown})
        return
    rows = []
    for each in looks:
        seconds = known.of(each.job) if each.state in PENDING else None
        estimate = "" if each.state not in PENDING else "unknown" if seconds is None else spoken(seconds)
        rows.append((each.job.label, each.job.folder, each.job.plan.seed, each.state, estimate))
    say_table(HEADINGS, rows)
    time_left = f", about {spoken(total)} one after the other" if total else ""
    more = f" and {unknown} of unknown length" if unknown and total else ""
    say(f"\n{len(pending)} of {len(looks)} runs to do{time_left}{more}; nothing was trained")


def _names(job: Job) -> dict[str, str | int]:
    names = ("label", "dataset", "seed", "directory")
    return dict(zip(names, (job.label, job.plan.dataset, job.plan.seed, str(job.directory)), strict=True))


def record(each: Ended) -> dict[str, str | int]:
    """Return what became of a run as a JSON object."""
    return {**_names(each.job), "state": each.state, "error": each.error}


def count(ended: Sequence[Ended]) -> str:
    """Return how many runs came to what."""
    counts = Counter(each.state for each in ended)
    return f"{len(ended)} run{'s' * (len(ended) != 1)}, " + ", ".join(
        f"{number} {state}" for state, number in counts.items()
    )


def conclude(ended: Sequence[Ended], budget: str | None, command: str) -> None:
    """Say what is left and why, and exit with 1 where something has to be seen to."""
    left = [each for each in ended if each.state == "left"]
    if left:
        begun = sum(each.job.partial.exists() for each in left)
        kept = f" ({begun} with checkpoints)" if begun else ""
        _tell(f"the budget of {budget} is over: {len(left)} of {len(ended)} runs left{kept}; go on with: {command}")
    elsewhere = [each for each in ended if each.state == "elsewhere"]
    if elsewhere:
        _tell(f"another process is at work on {', '.join(str(each.job) for each in elsewhere)}")
    wrong = [each for each in ended if each.state in ("failed", "blocked")]
    for each in wrong:
        fail(f"{each.job} {each.state}: {each.error or 'see grid.jsonl'}")
    if any(each.state == "failed" for each in wrong):
        fail(f"what failed twice is left alone; to try it again: {command} --retry-failed")
    if wrong:
        raise typer.Exit(1)


def _tell(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def again(context: typer.Context) -> str:
    """Return the command that was typed, without --retry-failed: that is for once."""
    words = ["mtbench", context.info_name or "grid"]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if (
            value == parameter.get_default(context)
            or value is None
            or value is False
            or parameter.name == "retry_failed"
        ):
            continue
        values = value if isinstance(value, list | tuple) else [value]
        option = parameter.opts[0] if parameter.param_type_name == "option" else None
        for one in values:
            words += [str(one)] if option is None else [option] if one is True else [option, str(one)]
    return shlex.join(words)
