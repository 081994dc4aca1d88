"""A function of the features of one node at a time, computed block by block and again in the backward pass.

Features of shape ``(N, R, d)`` are far larger than a processor's cache, and a layer has dozens of
intermediate results of that shape. In blocks of nodes they stay in the cache, and because the backward pass
computes each block anew, none of them is kept: memory is that of the inputs and the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

CELLS = {"cpu": 1 << 20, "cuda": 1 << 26}
"""How many numbers a block of features may hold, by the kind of device."""

Block: TypeAlias = tuple[slice, ...]
Function: TypeAlias = Callable[..., Tensor]


def node_blocks(nodes: int, cells_per_node: int, device: torch.device) -> list[slice]:
    """Return slices of nodes whose features fit in a block."""
    size = max(1, CELLS[device.type] // cells_per_node)
    return [slice(start, min(start + size, nodes)) for start in range(0, nodes, size)]


def blockwise(function: Function, blocks: Sequence[Block], parts: Sequence[Tensor], shared: Sequence[Tensor]) -> Tensor:
    """Return ``function(i, *parts of block i, *shared)`` for all blocks, put together along the first axis.

    Block i takes the slice ``blocks[i][j]`` of ``parts[j]``, and its result goes where its slice of the
    first part is; ``shared`` tensors go into every block. Gradients reach all tensors. ``function`` is kept
    until the backward pass, and so is whatever it refers to.
    """
    return _Blockwise.apply(function, blocks, len(parts), *parts, *shared)  # type: ignore[no-any-return, no-untyped-call]


class _Blockwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Function, blocks: Sequence[Block], split: int, *tensors: Tensor) -> Tensor:
        ctx.function, ctx.blocks, ctx.split = function, blocks, split
        ctx.save_for_backward(*tensors)
        out: Tensor | None = None
        for index, block in enumerate(blocks):
            found = function(index, *_cut(tensors[:split], block), *tensors[split:])
            if out is None:
                out = found.new_empty(tensors[0].shape[0], *found.shape[1:])
            out[block[0]] = found
        if out is None:
            raise ValueError("blockwise needs at least one block")
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tensors, split = ctx.saved_tensors, ctx.split
        wanted = ctx.needs_input_grad[3:]
        found = [
            (torch.empty_like if place < split else torch.zeros_like)(tensor) if wanted[place] else None
            for place, tensor in enumerate(tensors)
        ]
        shared = [tensor.detach().requires_grad_(want) for tensor, want in zip(tensors, wanted, strict=True)][split:]
        for index, block in enumerate(ctx.blocks):
            parts = [
                part.detach().requires_grad_(want)
                for part, want in zip(_cut(tensors[:split], block), wanted[:split], strict=True)
            ]
            inputs = [*parts, *shared]
            places = [place for place, want in enumerate(wanted) if want]
            with torch.enable_grad():
                out = ctx.function(index, *inputs)
            gradients = torch.autograd.grad(
                out, [inputs[place] for place in places], gradient[block[0]], allow_unused=True, materialize_grads=True
            )
            for place, part in zip(places, gradients, strict=True):
                whole = found[place]
                assert whole is not None
                if place < split:
                    whole[block[place]] = part
                else:
                    whole += part
        return None, None, None, *found


def _cut(tensors: Sequence[Tensor], block: Block) -> list[Tensor]:
    return [tensor[rows] for tensor, rows in zip(tensors, block, strict=True)]
