"""How likely a walk of a few steps leads from head to tail, whatever its relations."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mtbench.data.doubled import Doubled
from mtbench.data.ragged import batches
from mtbench.names import HEAD, TAIL, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LENGTHS = (2, 3, 4, 5)
NAMES = tuple(f"walk of {length}" for length in LENGTHS)
BLOCK, PLACES = 64, 1 << 26
"""Entities that walks begin at together, fewer where they and all entities would be more places than these."""

STEP = 256
"""Logs are rounded to one part in so many: equal places stay equal. Walks are followed in double precision, as single
precision lost so much in adding up that one in a thousand was rounded another way from its other end."""


class Walks:
    """Random walks on the undirected graph, an edge wherever a triple links two different entities."""

    def __init__(self, graph: Doubled) -> None:
        self.graph = graph

    @cached_property
    def _step(self) -> tuple[csr_array, FloatArray]:
        """The probability of a step to each entity (row) from each other (column), and the degrees ``(N,)``."""
        from scipy.sparse import csr_array

        links = self.graph.links
        degrees = np.maximum(links.sum(axis=0), 1).astype(np.float64)
        shares = (1 / degrees)[links.indices]
        return csr_array((shares, links.indices, links.indptr), shape=links.shape), degrees

    def walks(self, triples: IntArray) -> FloatArray:
        """Return log(p_k / degree of the tail * volume + .001) of each triple for walks of k steps, ``(m, 4)``.

        Divided by the degree of where it ends, a walk and its reverse are as likely: walks begin at the end that more
        triples share. They are followed to all entities at once, but for their last step.
        """
        step, degree = self._step
        uses = [
            np.bincount(triples[:, end], minlength=self.graph.num_entities)[triples[:, end]] for end in (HEAD, TAIL)
        ]
        turned = uses[1] > uses[0]
        begin = np.where(turned, triples[:, TAIL], triples[:, HEAD])
        end = np.where(turned, triples[:, HEAD], triples[:, TAIL])
        sources, column = np.unique(begin, return_inverse=True)
        found = np.empty((len(triples), len(LENGTHS)))
        block = max(1, min(BLOCK, PLACES // max(1, self.graph.num_entities)))
        for start, stop, members in batches(column, len(sources), block):
            ends, place = np.unique(end[members], return_inverse=True)
            last, source = step[ends], column[members] - start
            weights: FloatArray = step[:, sources[start:stop]].toarray()
            for length in LENGTHS[:-1]:
                weights = step @ weights
                found[members, LENGTHS.index(length)] = weights[end[members], source]
            found[members, -1] = (last @ weights)[place, source]
        found = np.log(found / degree[end][:, None] * degree.sum() + 1e-3)
        rounded: FloatArray = np.round(found * STEP) / STEP
        return rounded
