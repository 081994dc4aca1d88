"""The plain engine: one run after the other, in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial

from leaderboard.grid import memory
from leaderboard.grid.work import Attempt, Outcome, Watch, do, over


def in_this_process(queue: deque[Attempt], deadline: float | None, watch: Watch) -> Iterator[Outcome]:
    """Do the attempts of a queue in turn; an `Engine`."""
    while queue and not over(deadline):
        attempt = queue.popleft()
        watch.started(attempt)
        memory.fresh()
        yield do(attempt, deadline, partial(watch.progressed, attempt))
