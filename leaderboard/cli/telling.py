"""What ``mtbench grid`` says: the plan, how it gets on, what became of the runs, and how to go on."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from leaderboard.grid.declared import spoken
from leaderboard.grid.state import PENDING, Look
from leaderboard.grid.work import Attempt, Outcome, Watch
from mtbench.cli.output import fail, say, say_json, say_table
from mtbench.experiments.models import Progress

if TYPE_CHECKING:
    from rich.table import Table

    from leaderboard.grid.drive import Ended
    from leaderboard.grid.jobs import Job
    from leaderboard.grid.state import Look


SHOWN = 8
"""Finished runs that stay in the table; those before have scrolled away."""


@contextmanager
def watching(looks: Sequence[Look], *, silent: bool) -> Iterator[Watch]:
    """Show a grid's progress on stderr where that is a terminal; else print a line per run, nothing if ``silent``."""
    pending = sum(each.state in PENDING for each in looks)
    if not pending or not sys.stderr.isatty():
        yield Quiet() if silent else Lines()
        return
    from rich.console import Console
    from rich.live import Live

    table = LiveTable(len(looks), len(looks) - pending)
    with Live(console=Console(stderr=True), get_renderable=table.render, refresh_per_second=2, transient=False):
        yield table


class Quiet:
    """Says nothing."""

    def started(self, attempt: Attempt) -> None: ...

    def progressed(self, attempt: Attempt, progress: Progress) -> None: ...

    def finished(self, outcome: Outcome) -> None: ...


class Lines(Quiet):
    """Says one line per run that ended."""

    def finished(self, outcome: Outcome) -> None:
        say(describe(outcome))


def describe(outcome: Outcome) -> str:
    """Return one line on how an attempt ended."""
    attempt = outcome.attempt
    number = f" (attempt {attempt.number})" if attempt.number > 1 else ""
    error = f": {outcome.error}" if outcome.error else ""
    return f"{attempt.job} {outcome.ending} after {spoken(outcome.seconds)}{number}{error}"


@dataclass(eq=False)
class LiveTable:
    """The state of the table: what is running, what ended last, and the counts."""

    total: int
    before: int
    running: dict[str, float] = field(default_factory=dict)
    reports: dict[str, Progress] = field(default_factory=dict)
    last: deque[Outcome] = field(default_factory=lambda: deque(maxlen=SHOWN))
    counts: Counter[str] = field(default_factory=Counter)

    def started(self, attempt: Attempt) -> None:
        self.running[str(attempt.job)] = time.monotonic()

    def progressed(self, attempt: Attempt, progress: Progress) -> None:
        self.reports[str(attempt.job)] = progress

    def finished(self, outcome: Outcome) -> None:
        name = str(outcome.attempt.job)
        self.running.pop(name, None)
        self.reports.pop(name, None)
        self.last.append(outcome)
        self.counts[outcome.ending] += 1

    def render(self) -> Table:
        """Return the table as it is now; rich calls it twice a second."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        ended = ", ".join(f"{number} {ending}" for ending, number in self.counts.items())
        caption = Text(f"{self.total} runs, {self.before} finished before; now {ended or 'none yet'}")
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, caption=caption, caption_justify="left")
        for heading in ("Run", "State", "Time"):
            table.add_column(heading, overflow="fold")
        for outcome in self.last:
            state = f"{outcome.ending}: {outcome.error}" if outcome.error else outcome.ending
            table.add_row(Text(str(outcome.attempt.job)), Text(state), spoken(outcome.seconds))
        for name, begun in list(self.running.items()):
            state = _progress(self.reports.get(name))
            table.add_row(Text(name), Text(state), spoken(time.monotonic() - begun), style="bold")
        return table


def _progress(progress: Progress | None) -> str:
    if progress is None:
        return "running"
    mrr = "" if progress.valid_mrr is None else f"  valid MRR {progress.valid_mrr:.3f}"
    return f"{progress.stage}: epoch {progress.epoch}/{progress.epochs}  loss {progress.loss:.3f}{mrr}"


HEADINGS = ("Model", "Dataset", "Seed", "State", "Estimate")


def show_plan(looks: Sequence[Look], out: Path, *, as_json: bool) -> None:
    """Print the state of every run, and how long those to be done will take as far as that is known."""
    from leaderboard.grid.declared import spoken
    from leaderboard.grid.state import PENDING, estimates

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
