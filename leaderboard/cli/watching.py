"""How a grid gets on: a live table on a terminal, one line per finished run elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from leaderboard.grid.state import PENDING, Look
from leaderboard.grid.typed import spoken
from leaderboard.grid.work import Attempt, Outcome, Watch
from mtbench.cli.output import say
from mtbench.training.models import Progress

SHOWN = 8
"""Finished runs that stay in the table; those before have scrolled away."""


@contextmanager
def watching(looks: Sequence[Look], *, silent: bool) -> Iterator[Watch]:
    """Show a grid's progress on stderr where that is a terminal; else print a line per run, nothing if ``silent``."""
    pending = sum(each.state in PENDING for each in looks)
    if not pending or not sys.stderr.isatty():
        yield Watch() if silent else Lines()
        return

    table = LiveTable(len(looks), len(looks) - pending)
    with Live(console=Console(stderr=True), get_renderable=table.render, refresh_per_second=2, transient=False):
        yield table


class Lines(Watch):
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
class LiveTable(Watch):
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
