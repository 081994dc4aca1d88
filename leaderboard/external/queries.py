"""What is common to models that answer one query, a start and a relation, at a time: each answer is computed once."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mtbench.data.splits import Split
from mtbench.errors import UsageError
from mtbench.files.atomic import replace_file
from mtbench.names import HEAD, RELATION, TAIL, IntArray
from mtbench.results.runs import Regime

FILE = "answers.npz"
START, QUERY, END = 0, 1, 2
"""Columns of what a network is asked, int64 ``(m, 3)``: where a query starts, its relation, and the node to score."""


class Network(Protocol):
    """What answers queries on one graph."""

    def answer(self, asked: IntArray, /) -> NDArray[np.float32]:
        """Return the scores ``(m,)`` of distinct questions ``(m, 3)`` in increasing order of start, relation and end."""
        ...


class Kinds:
    """The relation types of a graph as a network has them: those with an edge, one for all others, and all inverses.

    A type without an edge is nothing but a name to a network that knows no names, so that all empty slots are one, and
    so are their inverses.
    """

    def __init__(self, split: Split) -> None:
        self.known = np.unique(split.graph[:, RELATION])
        self.forward = np.full(split.relation_slots, len(self.known))
        self.forward[self.known] = np.arange(len(self.known))
        self.half = len(self.known) + 1
        self.inverse = np.where(self.forward < len(self.known), self.forward + self.half, self.forward)


class Tails:
    """Answers (h, r, ?), and (?, r, t) by the same: a head is scored by the query that starts at it."""

    def __init__(self, network: Network, split: Split, place: Path | None, made_of: str) -> None:
        self.network, self.kinds, self.place = network, Kinds(split), place
        self.steps = np.array([2 * self.kinds.half * split.num_entities, split.num_entities, 1])
        self.made_of = f"{split.content_sha256} {made_of}"
        self.keys, self.scores = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        if place is not None and (place / FILE).exists():
            with np.load(place / FILE) as found:
                if str(found["made_of"]) != self.made_of:
                    raise UsageError(f"{place / FILE} has answers of another model: begin anew with --restart")
                self.keys, self.scores = found["keys"], found["scores"]

    def score(self, triples: IntArray) -> NDArray[np.float32]:
        """Return the scores of ends at tails."""
        return self._answers(triples[:, HEAD], self.kinds.forward[triples[:, RELATION]], triples[:, TAIL])

    def _answers(self, *columns: IntArray) -> NDArray[np.float32]:
        keys = np.stack(columns, axis=1) @ self.steps
        new = np.setdiff1d(keys, self.keys)
        if len(new):
            asked = np.stack((new // self.steps[0], new // self.steps[1] % (2 * self.kinds.half), new % self.steps[1]), 1)
            self._keep(new, self.network.answer(asked))
        return self.scores[np.searchsorted(self.keys, keys)]

    def _keep(self, keys: IntArray, scores: NDArray[np.float32]) -> None:
        keys, scores = np.concatenate((self.keys, keys)), np.concatenate((self.scores, scores))
        order = np.argsort(keys)
        self.keys, self.scores = keys[order], scores[order]
        if self.place is not None:
            page = io.BytesIO()
            np.savez(page, made_of=self.made_of, keys=self.keys, scores=self.scores)
            self.place.mkdir(parents=True, exist_ok=True)
            replace_file(self.place / FILE, page.getvalue())


class BothWays(Tails):
    """Answers (?, r, t) by the inverse relation from t, as these networks are trained to."""

    def score_inverses(self, triples: IntArray) -> NDArray[np.float32]:
        """Return the scores of ends at heads."""
        return self._answers(triples[:, TAIL], self.kinds.inverse[triples[:, RELATION]], triples[:, HEAD])


HEADS: Mapping[str, type[Tails]] = {"inverse": BothWays, "query": BothWays, "forward": Tails}
"""How heads are asked for, by the setting ``heads``."""
