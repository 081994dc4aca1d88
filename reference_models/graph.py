"""A typed multigraph as sparse operators: the sums over neighbours every double-equivariant layer needs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from mtbench.names import HEAD, RELATION, TAIL, IntArray
from mtbench.splits import Split


class _Multiply(torch.autograd.Function):
    """``matrix @ dense`` whose backward pass uses a transpose built once, not once per call."""

    @staticmethod
    def forward(ctx: FunctionCtx, dense: Tensor, matrix: Tensor, transposed: Tensor) -> Tensor:
        ctx.transposed = transposed  # type: ignore[attr-defined]
        return matrix @ dense

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.transposed @ gradient.contiguous(), None, None  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Operator:
    """A constant sparse matrix in CSR form together with its transpose."""

    matrix: Tensor
    transposed: Tensor

    @classmethod
    def from_edges(cls, rows: Tensor, columns: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Operator:
        """Build the matrix that counts the entries ``(rows[i], columns[i])``, repeats added up."""
        return cls(_csr(rows, columns, shape, dtype), _csr(columns, rows, (shape[1], shape[0]), dtype))

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Return the product with a dense matrix of shape ``(columns, features)``."""
        return _Multiply.apply(dense, self.matrix, self.transposed)  # type: ignore[no-any-return, no-untyped-call]


def _csr(rows: Tensor, columns: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
    order = torch.argsort(rows * shape[1] + columns)
    starts = torch.zeros(shape[0] + 1, dtype=torch.int64, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=shape[0]), 0, out=starts[1:])
    values = torch.ones(len(rows), dtype=dtype, device=rows.device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(starts, columns[order], values, size=shape, check_invariants=False)


@dataclass(frozen=True, eq=False)
class TypedGraph:
    """Directed typed edges on ``num_nodes`` nodes and ``num_slots`` relation slots.

    ``heads``, ``slots`` and ``tails`` are int64 of shape ``(E,)``. With inverses every triple
    ``(u, r, v)`` stands twice, as itself and as ``(v, r + R, u)``, in the two halves of the arrays, and
    ``num_slots`` is ``2 R``. Messages go from head to tail; edges count with multiplicity.
    """

    heads: Tensor
    slots: Tensor
    tails: Tensor
    num_nodes: int
    num_slots: int
    dtype: torch.dtype = torch.float32

    def without(self, dropped: Tensor) -> TypedGraph:
        """Return the graph without the edges marked in ``dropped``, bool of shape ``(E,)``."""
        kept = ~dropped
        return TypedGraph(
            self.heads[kept], self.slots[kept], self.tails[kept], self.num_nodes, self.num_slots, self.dtype
        )

    @cached_property
    def union(self) -> Operator:
        """A: all edges whatever their type, ``(N, N)``."""
        return Operator.from_edges(self.tails, self.heads, (self.num_nodes, self.num_nodes), self.dtype)

    @cached_property
    def typed(self) -> Operator:
        """The block of all A_r: row and column ``v * R + r``, shape ``(N R, N R)``."""
        size = self.num_nodes * self.num_slots
        rows = self.tails * self.num_slots + self.slots
        return Operator.from_edges(rows, self.heads * self.num_slots + self.slots, (size, size), self.dtype)

    @cached_property
    def fan(self) -> Operator:
        """All A_r applied to the same node features: row ``v * R + r``, column ``u``, shape ``(N R, N)``."""
        rows = self.tails * self.num_slots + self.slots
        shape = (self.num_nodes * self.num_slots, self.num_nodes)
        return Operator.from_edges(rows, self.heads, shape, self.dtype)

    @cached_property
    def typed_degrees(self) -> Tensor:
        """In-degree per node and slot, ``(N, R)``."""
        counts = torch.bincount(self.tails * self.num_slots + self.slots, minlength=self.num_nodes * self.num_slots)
        return counts.to(self.dtype).view(self.num_nodes, self.num_slots)

    @cached_property
    def degrees(self) -> Tensor:
        """In-degree per node over all slots, ``(N,)``."""
        return self.typed_degrees.sum(dim=1)

    def sum_all(self, features: Tensor) -> Tensor:
        """Return A X for features ``(N, *, d)``: per node the sum over all its in-edges."""
        flat = self.union @ features.reshape(self.num_nodes, -1)
        return flat.view(features.shape)

    def sum_own(self, features: Tensor) -> Tensor:
        """Return A_r X_r for features ``(N, R, d)``: each slot summed over its own in-edges."""
        flat = self.typed @ features.reshape(self.num_nodes * self.num_slots, -1)
        return flat.view(features.shape)

    def sum_each(self, features: Tensor) -> Tensor:
        """Return A_r X for every slot and features ``(N, d)`` without a slot axis: ``(N, R, d)``."""
        return (self.fan @ features).view(self.num_nodes, self.num_slots, -1)


def typed_graph(split: Split, *, inverses: bool, device: torch.device) -> TypedGraph:
    """Return the observable triples of a split as a graph over all its relation slots, empty ones included."""
    return TypedGraph(
        *doubled(split.graph, split.relation_slots, inverses=inverses, device=device),
        num_nodes=split.num_entities,
        num_slots=split.relation_slots * (2 if inverses else 1),
    )


def doubled(triples: IntArray, slots: int, *, inverses: bool, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return heads, slots and tails of triples ``(m, 3)``, followed by their inverses if asked for."""
    columns = torch.from_numpy(triples).to(device).unbind(dim=1)
    if not inverses:
        return columns[HEAD], columns[RELATION], columns[TAIL]
    return (
        torch.cat([columns[HEAD], columns[TAIL]]),
        torch.cat([columns[RELATION], columns[RELATION] + slots]),
        torch.cat([columns[TAIL], columns[HEAD]]),
    )
