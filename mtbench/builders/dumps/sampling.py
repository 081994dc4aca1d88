"""Sampling a benchmark graph from a large one: components, forest fire, hold-out, all from one seed.

Every draw comes from the raw 64-bit output of NumPy's PCG64, whose stream for a seed NumPy keeps, and is
turned into numbers here, by integer arithmetic: the library's own distributions may change between
versions, these do not.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from mtbench.errors import DatasetError

BURNING = 0.8
BACKLOG = 100
RESTARTS = 10
"""How many unburnt neighbours a fire remembers, and how many of them it restarts from, as in the sampler of
the release (littleballoffur's ForestFireSampler, whose defaults these are)."""

HUB = 64
"""Neighbours from which on NumPy is faster than a loop."""

Ids: TypeAlias = npt.NDArray[np.int32]
Mask: TypeAlias = npt.NDArray[np.bool_]


class Stream:
    """Random numbers for one purpose: the same seed and label give the same draws on every platform."""

    def __init__(self, seed: int, label: str) -> None:
        digest = hashlib.sha256(f"{seed}\t{label}".encode()).digest()
        self._bits = np.random.PCG64(int.from_bytes(digest[:16], "big"))
        self.word: Callable[[], int] = chain.from_iterable(self._batches()).__next__
        """Return 64 random bits; no method, because a fire calls it at every entity."""

    def _batches(self) -> Iterator[list[int]]:
        while True:
            yield self._bits.random_raw(1024).tolist()

    def below(self, limit: int) -> int:
        """Return a whole number from 0 to ``limit - 1``, uniform up to a bias of ``limit / 2**64``."""
        return (self.word() * limit) >> 64

    def geometric(self, success: float) -> int:
        """Return how many trials it takes until the first success, at least 1."""
        position = (self.word() >> 11) * 2**-53
        trials, failing = 1, 1 - success
        while position >= 1 - failing and trials < 1000:
            trials, failing = trials + 1, failing * (1 - success)
        return trials

    def choose(self, items: list[int], count: int) -> list[int]:
        """Return up to ``count`` different items in random order; ``items`` is reordered."""
        size, word = len(items), self.word
        if count > size:
            count = size
        for place in range(count):
            other = place + ((word() * (size - place)) >> 64)
            items[place], items[other] = items[other], items[place]
        return items[:count]

    def order(self, count: int) -> npt.NDArray[np.int64]:
        """Return the numbers from 0 to ``count - 1`` in random order."""
        return np.argsort(self._bits.random_raw(count), kind="stable").astype(np.int64)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """An undirected graph in compressed rows: ``ids[starts[v] : starts[v + 1]]`` are the neighbours of v.

    They are sorted and distinct, and no entity is its own neighbour.
    """

    starts: npt.NDArray[np.integer]
    ids: npt.NDArray[np.integer]

    @property
    def num_entities(self) -> int:
        """How many entities the graph has, isolated ones included."""
        return len(self.starts) - 1


def neighbours(head: Ids, tail: Ids, num_entities: int) -> Neighbours:
    """Return the undirected graph of some triples, relation types and directions forgotten."""
    proper = head != tail
    one, other = head[proper], tail[proper]
    places = (np.concatenate((one, other)), np.concatenate((other, one)))
    pairs = sparse.coo_array((np.ones(2 * len(one), dtype=np.int8), places), shape=(num_entities, num_entities))
    # Each conversion is a counting sort, by one end and by the other, which is several times faster than
    # sorting pairs. Repeats are told to be none until they lie side by side: SciPy would sort for them.
    pairs.has_canonical_format = True
    rows = pairs.tocsr().tocsc()
    rows.sum_duplicates()
    return Neighbours(rows.indptr, rows.indices)


def largest_component(graph: Neighbours) -> Ids:
    """Return the entities of the largest connected component, in increasing order.

    Of several equally large ones it is that of the smallest entity.
    """
    shape = (graph.num_entities, graph.num_entities)
    matrix = sparse.csr_array((np.ones(len(graph.ids)), graph.ids, graph.starts), shape=shape)
    degrees = np.diff(graph.starts)
    around_hub = csgraph.breadth_first_order(matrix, int(np.argmax(degrees)), return_predecessors=False)
    if 2 * len(around_hub) > np.count_nonzero(degrees):
        # More than half of all that have a neighbour: no other component can be as large.
        return np.sort(around_hub).astype(np.int32)
    _, labels = csgraph.connected_components(matrix, directed=False)
    sizes = np.bincount(labels, minlength=1)
    first = int(np.argmax(sizes[labels] == sizes.max()))
    return np.flatnonzero(labels == labels[first]).astype(np.int32)


def forest_fire(graph: Neighbours, members: Ids, count: int, stream: Stream, burning: float = BURNING) -> Ids:
    """Return ``count`` entities sampled by a forest fire among ``members``, a connected component.

    At a burning entity the fire spreads to as many unburnt neighbours as a geometric draw says (success
    probability ``burning``, so 1.25 on average at 0.8), drawn without replacement. A dead fire restarts
    from unburnt neighbours it passed by, the latest first, then from a new random entity.

    Raises `DatasetError` if the component is smaller than ``count``.
    Source: Leskovec and Faloutsos, Sampling from Large Graphs (2006), as implemented in littleballoffur.
    """
    if count > len(members):
        raise DatasetError(f"only {len(members)} entities in the largest component: a sample of {count} is too large")
    ids = graph.ids
    # Single numbers and short slices are taken from a view of the memory in half the time an array needs.
    starts, few_ids = graph.starts.data, graph.ids.data
    burnt = bytearray(graph.num_entities)
    is_burnt = np.frombuffer(burnt, dtype=np.bool_)
    sampled: list[int] = []
    passed: deque[int] = deque(maxlen=BACKLOG)
    fire: deque[int] = deque()
    while len(sampled) < count:
        if not fire:
            fire.extend(passed.popleft() for _ in range(min(RESTARTS, len(passed))))
        if not fire:
            fire.append(int(members[stream.below(len(members))]))
        entity = fire.popleft()
        if burnt[entity]:
            continue
        burnt[entity] = 1
        sampled.append(entity)
        start, end = starts[entity], starts[entity + 1]
        if end - start > HUB:
            around = ids[start:end]
            unburnt = around[~is_burnt[around]].tolist()
        else:
            unburnt = [other for other in few_ids[start:end].tolist() if not burnt[other]]
        size = len(unburnt)
        if size < 2:
            # The fire reaches at least one neighbour, so there is nothing to draw.
            fire.extend(unburnt)
            continue
        spread = min(stream.geometric(burning), size)
        fire.extend(stream.choose(unburnt, spread))
        if spread < size:
            # A random turn of the rest, so that of a hub's million neighbours any may be remembered.
            first = spread + stream.below(size - spread)
            turn = unburnt[first : first + BACKLOG]
            passed.extendleft(turn)
            passed.extendleft(unburnt[spread : min(first, spread + BACKLOG - len(turn))])
    return np.array(sorted(sampled), dtype=np.int32)


def hold_out(head: Ids, tail: Ids, share: float, stream: Stream, eligible: Mask | None = None) -> Mask:
    """Return which triples ``(n,)`` to hide: ``share`` of them, every entity of a hidden one staying in the graph.

    Triples are drawn in random order; one that would leave an entity without any triple is passed over
    and another drawn in its place. The number is that share of the ``eligible`` triples (by default all)
    rounded down, as in the release, but at least one.

    Raises `DatasetError` where so many cannot be hidden.
    """
    candidates = np.arange(len(head)) if eligible is None else np.flatnonzero(eligible)
    wanted = max(1, int(share * len(candidates)))
    counts = np.bincount(np.concatenate((head, tail)))
    rows = candidates[stream.order(len(candidates))]
    # Uses only ever fall, so most triples that cannot be hidden are known before the first is.
    rows = rows[(counts[head[rows]] > 1) & (counts[tail[rows]] > 1)]
    uses = counts.data
    hidden: list[int] = []
    for row, one, other in zip(rows.data, head[rows].data, tail[rows].data, strict=True):
        if len(hidden) == wanted:
            break
        uses[one] -= 1
        uses[other] -= 1
        if uses[one] and uses[other]:
            hidden.append(row)
        else:
            uses[one] += 1
            uses[other] += 1
    if len(hidden) < wanted:
        raise DatasetError(
            f"only {len(hidden)} of {len(candidates)} triples can be hidden without losing an entity, "
            f"not {wanted}: ask for a smaller share"
        )
    mask = np.zeros(len(head), dtype=np.bool_)
    mask[hidden] = True
    return mask
