"""What the benchmarks share: sides that take turns, a process of its own for each case, and peak memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

Measured = TypeVar("Measured")
STATUS = Path("/proc/self/status")


def in_turns(sides: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of every side, which take turns: what else the machine does slows all of them."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            start = time.perf_counter()
            side()
            times[name].append(time.perf_counter() - start)
    return times


def alone(measure: Callable[..., Measured], *arguments: object) -> Measured:
    """Return what a function of a benchmark measures in a new process, whose peak memory is then its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(measure, *arguments).result()


def peak_mb() -> float:
    """Return the largest resident size of this process so far, in megabytes."""
    if STATUS.exists():
        # What getrusage says includes the process that started this one.
        return resident_mb("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def resident_mb(field: str) -> float:
    """Return a field of the process's status on Linux, in megabytes."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return float(line.split()[1]) * 1.024e-3
