"""Between two runs of one process: give memory back, so that the peak of the second is its own."""

from __future__ import annotations

import ctypes
import gc
import platform
import sys
from contextlib import suppress
from pathlib import Path


def fresh() -> None:
    """Return freed memory to the system and begin a new peak, of the process and of every CUDA device in use.

    `mtbench.experiments.run` records the largest size its process ever had: after a large model a small one would
    look as large. Only Linux lets a process begin again; elsewhere the peak of a run is the largest so far, unless
    every run has a process of its own, as on Ray.
    """
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
        for device in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(device)
    if platform.libc_ver()[0] == "glibc":
        # The allocator's settings of the command line keep all freed memory for the next tensors.
        ctypes.CDLL(None).malloc_trim(0)
    # A container may forbid it.
    with suppress(OSError):
        peak = Path("/proc/self/clear_refs")
        if peak.exists():
            peak.write_text("5", encoding="ascii")
