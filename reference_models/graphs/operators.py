"""Constant sparse matrices of counts, with their transposes, and patterns for those that change with hidden edges."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn.functional import embedding_bag

BAGS = ("cpu",)
"""Devices on which PyTorch's ``embedding_bag`` is two to three times as fast as its sparse products."""


class _Multiply(torch.autograd.Function):
    """``matrix @ dense`` whose backward pass uses a transpose built once, not once per call."""

    @staticmethod
    def forward(ctx: FunctionCtx, dense: Tensor, matrix: Tensor, transposed: Tensor) -> Tensor:
        ctx.transposed = transposed  # type: ignore[attr-defined]
        return product(matrix, dense)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None, None]:
        return product(ctx.transposed, gradient.contiguous()), None, None  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Operator:
    """A constant sparse matrix in CSR form together with its transpose."""

    matrix: Tensor
    transposed: Tensor

    @classmethod
    def from_edges(cls, rows: Tensor, columns: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Operator:
        """Build the matrix that counts the entries ``(rows[i], columns[i])``, repeats added up."""
        return cls(_csr(rows, columns, shape, dtype), _csr(columns, rows, (shape[1], shape[0]), dtype))

    @classmethod
    def choosing(cls, places: Tensor, number: int, weights: Tensor) -> Operator:
        """Build the matrix ``(m, number)`` whose row i is ``weights[i]`` in column ``places[i]``."""
        items = torch.arange(len(places) + 1, device=places.device)
        order = torch.argsort(places, stable=True)
        return cls(
            _matrix(items.int(), places.int(), weights, (len(places), number)),
            _matrix(_starts(places[order], number), order.int(), weights[order], (number, len(places))),
        )

    @property
    def back(self) -> Operator:
        """The transposed operator."""
        return Operator(self.transposed, self.matrix)

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Return the product with a dense matrix of shape ``(columns, features)``."""
        return _Multiply.apply(dense, self.matrix, self.transposed)  # type: ignore[no-any-return, no-untyped-call]


def _csr(rows: Tensor, columns: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
    rows, order = torch.sort(rows, stable=True)
    values = torch.ones(len(rows), dtype=dtype, device=rows.device)
    return _matrix(_starts(rows, shape[0]), columns[order].int(), values, shape)


@dataclass(frozen=True, eq=False)
class Pattern:
    """The entries of a sparse matrix of counts ``(rows, columns)``, and the edges that each of them counts.

    Item i adds 1 to entry ``entries[i]`` unless edge ``edges[i]`` is hidden. ``order`` sorts the entries as the
    transpose has them.
    """

    starts: Tensor
    columns: Tensor
    starts_back: Tensor
    columns_back: Tensor
    order: Tensor
    entries: Tensor
    edges: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, rows: Tensor, columns: Tensor, edges: Tensor, shape: tuple[int, int]) -> Pattern:
        """Find the entries of items ``(i,)`` at ``rows`` and ``columns``; item i counts while ``edges[i]`` is shown."""
        keys, entries = torch.unique(rows * shape[1] + columns, return_inverse=True)
        row, column = keys // shape[1], keys % shape[1]
        order = torch.argsort(column * shape[0] + row)
        starts, back = _starts(row, shape[0]), _starts(column[order], shape[1])
        # The libraries behind a product take 32-bit indices, and would convert others at every call.
        return cls(starts, column.int(), back, row[order].int(), order, entries, edges, shape)

    def operator(self, kept: Tensor | None, dtype: torch.dtype) -> Operator:
        """Return the matrix of the edges marked in ``kept`` ``(E,)``, of all if None."""
        if kept is None:
            there = torch.ones(len(self.edges), dtype=dtype, device=self.edges.device)
        else:
            there = kept.to(dtype).index_select(0, self.edges)
        values = torch.zeros(len(self.columns), dtype=dtype, device=there.device).index_add_(0, self.entries, there)
        rows, columns = self.shape
        return Operator(
            _matrix(self.starts, self.columns, values, (rows, columns)),
            _matrix(self.starts_back, self.columns_back, values[self.order], (columns, rows)),
        )


def _starts(rows: Tensor, number: int) -> Tensor:
    """Return where each of ``number`` rows begins in increasing ``rows``, int32 ``(number + 1,)``."""
    return torch.searchsorted(rows, torch.arange(number + 1, device=rows.device), out_int32=True)


def _matrix(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        return torch.sparse_csr_tensor(starts, columns, values, size=shape, check_invariants=False)


def product(matrix: Tensor, dense: Tensor) -> Tensor:
    """Return ``matrix @ dense``, in halves of the columns where a device's library cannot take them all at once.

    On devices in `BAGS` the product is computed as a sum of bags of rows.
    """
    if dense.device.type in BAGS:
        return embedding_bag(
            matrix.col_indices(),
            dense.detach().contiguous(),
            matrix.crow_indices(),
            mode="sum",
            per_sample_weights=matrix.values(),
            include_last_offset=True,
        )
    try:
        return matrix @ dense
    except torch.OutOfMemoryError:  # a RuntimeError too, but one that must not be tried again
        raise
    except RuntimeError:
        if dense.shape[1] < 2:
            raise
        halves = dense.tensor_split(2, dim=1)
        return torch.cat([product(matrix, half.contiguous()) for half in halves], dim=1)
