"""Blocks computed side by side: one thread per block instead of many threads per operation.

An operation on a block takes a millisecond or less, and threads that share it spend as long on meeting. Each
worker therefore computes whole blocks, with one thread for its operations. Nor does a number then depend on how many
there are: a dense product that threads share is added up in another order on some processors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Barrier
from typing import TypeVar

import torch

Result = TypeVar("Result")


def in_threads(function: Callable[[int], Result], number: int, device: torch.device) -> Iterator[Result]:
    """Yield function(i) for all i below ``number``, in order, computed by as many threads as the library uses.

    On other devices than processors, and with one thread, by none but the caller's; a single call, too, whose
    operations take one thread as those of many do. Gradients are recorded or not as they are where the iteration
    begins. What a call raises ends the iteration; calls that have not begun are dropped then.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        yield from map(function, range(number))
        return
    if number == 1:
        with one_thread():
            result = function(0)
        yield result
        return
    graded = torch.is_grad_enabled()

    def call(index: int) -> Result:
        with torch.set_grad_enabled(graded):
            return function(index)

    futures = [_workers(threads).submit(call, index) for index in range(number)]
    try:
        for future in futures:
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute inside the block with one thread, so that sums are added up in one order on any machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def _workers(threads: int) -> ThreadPoolExecutor:
    """Return that many workers, which stay: the mathematics library keeps memory for every thread it ever met."""
    pool, met = ThreadPoolExecutor(threads, "mtbench-block"), Barrier(threads)
    before = torch.get_num_threads()

    def start() -> None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # a thread settles its number when first asked, from what was set last anywhere
        met.wait()

    for future in [pool.submit(start) for _ in range(threads)]:
        future.result()
    torch.set_num_threads(before)  # which is each thread's own, and that of threads to come
    return pool


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.cache_clear)  # threads do not survive a fork
