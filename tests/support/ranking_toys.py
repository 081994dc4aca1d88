"""Small splits, and scores as a framework returns them, for the tests of the evaluator."""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import strategies as st

from mtbench.data.splits import Split, encode, vocabulary
from mtbench.metrics import closed

GRAPH = [("ann", "knows", "bob"), ("bob", "knows", "cem"), ("cem", "likes", "ann"), ("ann", "likes", "dee")]
TARGETS = [("ann", "knows", "cem"), ("dee", "hates", "bob"), ("bob", "likes", "cem")]
ties_expected = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


def small():
    """Return four people and three relations, one of which only a target has, in a dictionary of six slots."""
    entities, relations = vocabulary(GRAPH, TARGETS)
    graph, targets = (encode(rows, entities, relations, "toy") for rows in (GRAPH, TARGETS))
    return Split("toy", "test", graph, targets, entities, relations, relation_slots=6)


def true_triples(split):
    """Return every triple of a split that is known to be true, as a set: what no candidate may be."""
    return {tuple(row) for part in (split.graph, split.targets, split.known) for row in part.tolist()}


def splitmix(state, number):
    """Return one output of the generator as Python's whole numbers have it."""
    word = (state + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


def plainly_drawn(text, target, pool, width, *, repeated):
    """Draw from a pool for one target, one number after the other: nothing in common with the package."""
    state = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    for number in target:
        state = splitmix(state ^ number, 0)
    if repeated:
        return sorted(pool[splitmix(state, number) % len(pool)] for number in range(width)) if pool else []
    if len(pool) <= width:
        return list(pool)
    chosen = set()
    for number in range(width):
        last = len(pool) - width + number
        pick = splitmix(state, number) % (last + 1)
        chosen.add(last if pick in chosen else pick)
    return sorted(pool[pick] for pick in chosen)


def random_split(seed, entities=60, relations=8, slots=20, graph=300, targets=40, known=0):
    """Return a split of distinct random triples; names are in the order of the ids."""
    rng = np.random.default_rng(seed)
    total = entities * relations * entities
    flat = rng.choice(total, size=min(graph + targets + known, total), replace=False)
    pairs, tails = np.divmod(flat, entities)
    triples = np.stack((pairs // relations, pairs % relations, tails), axis=1).astype(np.int64)
    targets = min(targets, len(triples) - 1)
    shown = max(targets + 1, len(triples) - known)
    return Split(
        dataset="random",
        name="test",
        graph=triples[targets:shown],
        targets=triples[:targets],
        known=triples[shown:],
        entities=np.array([f"e{i:04d}" for i in range(entities)]),
        relations=np.array([f"r{i:03d}" for i in range(relations)]),
        relation_slots=slots,
    )


@st.composite
def splits(draw):
    """Draw splits from nearly complete (few or no candidates left) to sparse."""
    entities, relations = draw(st.integers(2, 12)), draw(st.integers(1, 6))
    total = entities * entities * relations
    return random_split(
        seed=draw(st.integers(0, 10**6)),
        entities=entities,
        relations=relations,
        slots=relations + draw(st.integers(0, 3)),
        graph=draw(st.integers(1, min(total - 1, 120))),
        targets=draw(st.integers(1, 8)),
        known=draw(st.integers(0, 20)),
    )


def hashed(triples, levels=7):
    """Score triples by a fixed function with many ties: small integers that look random."""
    return (triples @ np.array([7919, 104729, 1299709])) % 1000003 % levels


def scorer(split, *methods, function=hashed, slots=True):
    """Return an object with some of the four methods, all of which agree with ``function`` of triples.

    Rows of relations have a column per slot, or with ``slots`` false only one per relation type.
    """
    relations = split.relation_slots if slots else split.num_relations

    def rows(first, second, width, columns):
        pairs = np.repeat(np.stack((first, second), axis=1), width, axis=0)
        table = np.column_stack((pairs, np.tile(np.arange(width), len(first))))
        return function(table[:, columns]).reshape(len(first), width)

    offered = {
        "score": function,
        "score_tails": lambda heads, relations: rows(heads, relations, split.num_entities, [0, 1, 2]),
        "score_heads": lambda relations, tails: rows(relations, tails, split.num_entities, [2, 0, 1]),
        "score_relations": lambda heads, tails: rows(heads, tails, relations, [0, 2, 1]),
    }
    return SimpleNamespace(**{name: offered[name] for name in methods})


def turned(triples):
    """Score triples as `hashed` does, by another function."""
    return hashed(triples[:, ::-1])


def by_direction(split):
    """Return scorers that answer (h, r, ?) by `hashed` and (?, r, t) by `turned`: of triples, and of rows."""
    heads = scorer(split, "score_heads", function=turned).score_heads
    tails = scorer(split, "score_tails").score_tails
    return SimpleNamespace(score=hashed, score_inverses=turned), SimpleNamespace(score_tails=tails, score_heads=heads)


def one(function):
    """Return a function of a single triple, for plain loops."""
    return lambda triple: int(function(np.array([triple]))[0])


def counted(counts):
    """Return (above, tied, candidates) of every target."""
    return list(zip(counts.greater.tolist(), counts.equal.tolist(), counts.count.tolist(), strict=True))


def counted_parts(ranks):
    """Return what `counted` does for every part of a ranking, by its name."""
    return {part: counted(counts) for part, counts in ranks.parts.items()}


def figures(result):
    return result.metrics, result.optimistic, result.pessimistic, result.tie_rate, result.chance


class FakeTensor:
    """Behaves like a PyTorch tensor on another device: NumPy can read it only after ``detach().cpu()``."""

    def __init__(self, array, dtype, state="cuda"):
        self.array, self.dtype, self.state = array, f"torch.{dtype}", state

    def detach(self):
        return FakeTensor(self.array, self.dtype.removeprefix("torch."), "detached")

    def cpu(self):
        assert self.state == "detached"
        return FakeTensor(self.array, self.dtype.removeprefix("torch."), "cpu")

    def float(self):
        return FakeTensor(self.array.astype(np.float32), "float32", self.state)

    def __array__(self, dtype=None, copy=None):
        if self.state != "cpu" or self.dtype == "torch.bfloat16":
            raise TypeError(f"can't convert a {self.dtype} tensor on {self.state} to numpy")
        return self.array


def optimistic(greater, equal):
    """Return the mean metrics with every target above its ties."""
    return closed.expected(greater, np.zeros_like(equal))


def pessimistic(greater, equal):
    """Return the mean metrics with every target below its ties."""
    return closed.expected(greater + equal, np.zeros_like(equal))
