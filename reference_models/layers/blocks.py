"""A function of the features of each node by itself, computed in blocks of nodes and again in the backward pass.

Features of shape ``(N, R, d)`` are far larger than a processor's cache, and a layer has dozens of intermediate results
of that shape. In blocks of nodes they stay in the cache, and because the backward pass computes each block again, none
of them is kept: memory is that of the inputs and the output.

On a processor, blocks are computed side by side with one thread each, instead of many threads for each operation. An
operation on a block takes a millisecond or less, and threads that share it would spend as long on waiting for each
other. It also keeps numbers independent of how many threads there are: on some processors a dense product is added up
in another order when threads share it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Barrier
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

CELLS = {"cpu": 1 << 19, "cuda": 1 << 26}
"""The most numbers in a block of features, by the kind of device."""
EDGES = {"cpu": 1 << 12, "cuda": 1 << 22}
"""Edges whose vectors are held at once, by the kind of device; on a processor as many as its cache can hold."""

Block: TypeAlias = tuple[slice, ...]


@dataclass(frozen=True, eq=False)
class Products:
    """``base`` plus the sum over ``factors`` of rows ``(*, a)`` times the transpose of a weight ``(b, a)``.

    The last products of a block are kept as factors, whose gradients do not need the result: the backward pass does not
    compute it again. With a weight per slot, ``(s, b, a)``, rows are ``(m, s, a)``. ``base`` is ``(b,)``, or of the
    shape of the result, ``(*, b)``, or, with the task of every slot in ``tasks`` ``(s,)``, one row per task,
    ``(m, K, b)``. At ``places`` ``(P,)``, counted over all axes but the last, the result is that of ``apart``,
    ``(P, b)``, instead.
    """

    base: Tensor
    factors: Sequence[tuple[Tensor, Tensor]] = ()
    tasks: Tensor | None = None
    places: Tensor | None = None
    apart: Products | None = None

    def shape(self) -> tuple[int, ...]:
        """Return the shape of the result."""
        if not self.factors:
            return tuple(self.base.shape)
        rows, weight = self.factors[0]
        return (*rows.shape[:-1], weight.shape[-2])

    def write(self, out: Tensor) -> None:
        """Put the result into ``out``."""
        if self.tasks is None:
            out.copy_(self.base)
        else:
            torch.index_select(self.base, 1, self.tasks, out=out)
        for rows, weight in self.factors:
            if weight.dim() == 3:
                out.transpose(0, 1).baddbmm_(rows.transpose(0, 1), weight.transpose(1, 2))
            else:
                out.flatten(0, -2).addmm_(rows.flatten(0, -2), weight.T)
        if self.apart is not None:
            special = out.new_empty(self.apart.shape())
            self.apart.write(special)
            out.flatten(0, -2)[self.places] = special.flatten(0, -2)

    def gradients(self, gradient: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return base, rows and weights that need a gradient, each with it, given that of the result."""
        pairs = []
        if self.apart is not None:
            pairs = self.apart.gradients(gradient.flatten(0, -2)[self.places].view(self.apart.shape()))
            # The result of ``base`` and ``factors`` was overwritten there, and the caller's gradient stays as it is.
            gradient = gradient.clone()
            gradient.flatten(0, -2)[self.places] = 0
        if self.base.requires_grad:
            pairs.append((self.base, self._of_base(gradient)))
        for rows, weight in self.factors:
            if rows.requires_grad:
                pairs.append((rows, _of_rows(gradient, weight)))
            if weight.requires_grad:
                pairs.append((weight, _of_weight(gradient, rows, weight)))
        return pairs

    def _of_base(self, gradient: Tensor) -> Tensor:
        if self.tasks is None:
            return gradient.sum_to_size(self.base.shape)
        return torch.zeros_like(self.base).index_add_(1, self.tasks, gradient)


def _of_rows(gradient: Tensor, weight: Tensor) -> Tensor:
    if weight.dim() == 3:
        return torch.bmm(gradient.transpose(0, 1), weight).transpose(0, 1)
    return gradient @ weight


def _of_weight(gradient: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    if weight.dim() == 3:
        return torch.bmm(gradient.permute(1, 2, 0), rows.transpose(0, 1))
    return gradient.flatten(0, -2).T @ rows.flatten(0, -2)


Function: TypeAlias = Callable[..., Products]


def node_blocks(nodes: int, cells_per_node: int, device: torch.device) -> list[slice]:
    """Return slices of nodes whose features fit into a block, at least one node each."""
    size = max(1, CELLS[device.type] // cells_per_node)
    return [slice(start, min(start + size, nodes)) for start in range(0, nodes, size)]


def blockwise(
    function: Function, blocks: Sequence[Block], parts: Sequence[Tensor], shared: Sequence[Tensor | None]
) -> Tensor:
    """Return ``function(i, *parts of block i, *shared)`` of all blocks, put together along the first axis.

    Block i takes the slice ``blocks[i][j]`` of ``parts[j]``, and its result has the place of its slice of the first
    part; every block gets all ``shared`` tensors. Gradients reach all tensors. ``function``, and whatever it refers to,
    is kept until the backward pass.
    """
    return _Blockwise.apply(function, blocks, len(parts), *parts, *shared)  # type: ignore[no-any-return, no-untyped-call]


class _Blockwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Function, blocks: Sequence[Block], split: int, *tensors: Any) -> Tensor:
        ctx.function, ctx.blocks, ctx.split = function, blocks, split
        ctx.save_for_backward(*tensors)
        if not blocks:
            raise ValueError("blockwise needs at least one block")

        def result(index: int) -> Products:
            return function(index, *_cut(tensors[:split], blocks[index]), *tensors[split:])

        # The first block tells what shape and type the output has.
        with one_thread():
            first = result(0)
            out = first.base.new_empty(len(tensors[0]), *first.shape()[1:])
            first.write(out[blocks[0][0]])
        done = in_threads(lambda index: result(index + 1).write(out[blocks[index + 1][0]]), len(blocks) - 1, out.device)
        deque(done, maxlen=0)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tensors, split = ctx.saved_tensors, ctx.split
        wanted = ctx.needs_input_grad[3:]
        gradient = gradient.contiguous()
        of_tensors: list[Any] = [
            (torch.empty_like if place < split else torch.zeros_like)(tensor) if wanted[place] else None
            for place, tensor in enumerate(tensors)
        ]
        shared = [_leaf(tensor, want) for tensor, want in zip(tensors[split:], wanted[split:], strict=True)]
        places = [place for place, want in enumerate(wanted) if want]

        def gradients(index: int) -> list[Tensor]:
            block = ctx.blocks[index]
            cut = _cut(tensors[:split], block)
            inputs = [*(_leaf(part, want) for part, want in zip(cut, wanted[:split], strict=True)), *shared]
            with torch.enable_grad():
                products = ctx.function(index, *inputs)
            outputs, of_outputs = zip(*products.gradients(gradient[block[0]]), strict=True)
            of_inputs = torch.autograd.grad(
                outputs, [inputs[place] for place in places], of_outputs, allow_unused=True, materialize_grads=True
            )
            own = sum(place < split for place in places)
            for place, part in zip(places[:own], of_inputs[:own], strict=True):
                of_tensors[place][block[place]] = part
            return list(of_inputs[own:])

        # Added up in the order of the blocks, whichever thread was first: the same bits with any number of them.
        wholes = [of_tensors[place] for place in places if place >= split]
        for parts in in_threads(gradients, len(ctx.blocks), gradient.device):
            for whole, part in zip(wholes, parts, strict=True):
                whole += part
        return None, None, None, *of_tensors


def _leaf(tensor: Tensor | None, want: bool) -> Any:
    return None if tensor is None else tensor.detach().requires_grad_(want)


def _cut(tensors: Sequence[Tensor], block: Block) -> list[Tensor]:
    return [tensor[rows] for tensor, rows in zip(tensors, block, strict=True)]


Result = TypeVar("Result")


def in_threads(function: Callable[[int], Result], number: int, device: torch.device) -> Iterator[Result]:
    """Yield function(i) for all i below ``number``, in order, computed by as many threads as PyTorch uses.

    On other devices than processors, with one thread, and for a single call, the caller's thread computes; on a
    processor every operation takes one thread in any case. Gradients are recorded if they are where the iteration
    begins. An error of a call ends the iteration, and calls that have not begun are dropped.
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
    graded = torch.is_grad_enabled()  # every thread has this setting for itself

    def call(index: int) -> Result:
        with torch.set_grad_enabled(graded):
            return function(index)

    futures = deque(_workers(threads).submit(call, index) for index in range(number))
    try:
        while futures:
            yield futures.popleft().result()  # and drop it: the gradients of a block can be large
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread inside the block, so that sums are added up in the same order on any machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def _workers(threads: int) -> ThreadPoolExecutor:
    """Return so many workers, made once: the mathematics library keeps memory for every thread that ever called it."""
    # With the barrier, no worker ends its start before all have begun: each of them runs it exactly once.
    pool, met = ThreadPoolExecutor(threads, "mtbench-block"), Barrier(threads)
    before = torch.get_num_threads()

    def start() -> None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # the first question fixes a thread's number, to what any thread set last
        met.wait()

    for future in [pool.submit(start) for _ in range(threads)]:
        future.result()
    torch.set_num_threads(before)  # for this thread, and for those made later
    return pool


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.cache_clear)  # threads do not survive a fork
