"""What a target is ranked against: the declared protocols, and candidates that every model shares.

Candidates are a pure function of a split's content, the protocol, the vocabulary and a seed. The draw
is counter-based (the splitmix64 generator, keyed by the target's own ids), so it depends on no
library's random generator, on no platform and not on the order of the targets.
"""

from __future__ import annotations

import hashlib
import operator
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import SupportsIndex

import numpy as np

from mtbench.data.graphs import keys
from mtbench.data.ragged import splitmix64
from mtbench.data.splits import Split, among
from mtbench.errors import DatasetError, UnknownNameError, UsageError
from mtbench.names import (
    DIRECTIONS,
    HEAD,
    PARTS,
    RELATION,
    SIDES,
    TAIL,
    BoolArray,
    Direction,
    IntArray,
    Part,
    Side,
    UIntArray,
)
from mtbench.ranking.filtered import filter_side

CANDIDATES_VERSION = 1
"""Raised whenever the same arguments would draw other candidates; part of every candidates hash."""

LAST_SEED = 2**63 - 1
EVERY = 2**31 - 1
"""The number of candidates of a protocol that asks for all there are."""


@dataclass(frozen=True)
class Protocol:
    """How many candidates of each kind a target is ranked against, in one list for every direction it is asked for.

    A list of a direction has the candidates of that end and the relations, which both directions share; the
    metrics are means over all lists. Under a ``full`` protocol no candidate is drawn: all of them are counted.
    ``draw`` names the draw; protocols that share one have the same candidates.
    """

    name: str
    tails: int
    relations: int
    source: str
    heads: int = 0
    full: bool = False
    draw: str = ""

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides that are corrupted."""
        return tuple(side for side in SIDES if self.number(side))

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions a target is asked for in: those of the ends that are corrupted, ``tail`` where none is."""
        return tuple(direction for direction in DIRECTIONS if self.number(direction)) or DIRECTIONS[:1]

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the lists consist of, in the order ranks are reported."""
        return tuple(part for part, (way, side) in PARTS.items() if way in self.directions and self.number(side))

    def number(self, side: Side) -> int:
        """How many candidates are asked for on one side."""
        return {"head": self.heads, "relation": self.relations, "tail": self.tails}[side]


@dataclass(frozen=True)
class Vocabulary:
    """Which relations can be candidates, and whether a candidate may be drawn twice for a target."""

    name: str
    empty_slots: bool
    replacement: bool
    source: str


PROTOCOLS = {
    declared.name: declared
    for declared in (
        Protocol("dual", 24, 26, "Zhou et al. 2023, dual-sampling metrics", heads=24),
        Protocol("entity", 50, 0, "Zhou et al. 2023, entity-centric metrics", heads=50),
        Protocol("relation", 0, 50, "Zhou et al. 2023, relation-type centric metrics"),
        Protocol("dual-tail", 24, 26, "the list of dual among tails and relations", draw="dual"),
        Protocol("dual-head", 0, 26, "the list of dual among heads and relations", heads=24, draw="dual"),
        Protocol("entity-tail", 50, 0, "the list of entity among tails", draw="entity"),
        Protocol("entity-head", 0, 0, "the list of entity among heads", heads=50, draw="entity"),
        Protocol("full", EVERY, 0, "Bordes et al. 2013, filtered ranking of tails and heads", heads=EVERY, full=True),
        Protocol("full-tail", EVERY, 0, "Bordes et al. 2013, filtered ranking of all tails", full=True),
        Protocol("full-head", 0, 0, "Bordes et al. 2013, filtered ranking of all heads", heads=EVERY, full=True),
        Protocol("full-relation", 0, EVERY, "filtered ranking of all relations of the vocabulary", full=True),
    )
}
SAMPLED = tuple(name for name, declared in PROTOCOLS.items() if not declared.full)
STANDARD = tuple(name for name in SAMPLED if not PROTOCOLS[name].draw)
"""The sampled protocols that rank all a target can be asked for; the others are a list of one of these."""
VOCABULARIES = {
    declared.name: declared
    for declared in (
        Vocabulary("present", empty_slots=False, replacement=False, source="relation types of the split's graph"),
        Vocabulary("slots", empty_slots=True, replacement=True, source="Zhou et al. 2023, whole relation dictionary"),
    )
}


def protocol_named(name: str) -> Protocol:
    """Return a protocol by name; an unknown name raises `UnknownNameError`."""
    if name not in PROTOCOLS:
        raise UnknownNameError("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]


def vocabulary_named(name: str) -> Vocabulary:
    """Return a relation vocabulary by name; an unknown name raises `UnknownNameError`."""
    if name not in VOCABULARIES:
        raise UnknownNameError("vocabulary", name, VOCABULARIES)
    return VOCABULARIES[name]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The frozen candidates of every target of one split.

    ``targets`` is int64 ``(m, 3)``; ``drawn`` holds per corrupted side int64 ids ``(m, k)`` in increasing
    order per row and their number ``(m,)``, from which on a row is padded with -1. Equal ids in a row are
    separate candidates: they count with multiplicity. Under a full protocol the ids are ``(m, 0)``: nothing
    is drawn, the numbers are those of all filtered candidates, and the seed is 0.
    """

    protocol: str
    vocabulary: str
    seed: int
    content_sha256: str
    targets: IntArray
    drawn: Mapping[Side, tuple[IntArray, IntArray]]

    @cached_property
    def sha256(self) -> str:
        """Hash of what was drawn and for what: part of a task's identity, whatever the order of the targets."""
        order = np.lexsort((self.targets[:, TAIL], self.targets[:, RELATION], self.targets[:, HEAD]))
        if self.full:
            ordered = {side: counts[order] for side, (_, counts) in self.drawn.items()}
            return full_hash(self.content_sha256, self.protocol, self.vocabulary, ordered)
        header = _header(self.content_sha256, draw_of(self.protocol), self.vocabulary, self.seed)
        # Tails and relations are in the hash of every protocol, also of one that corrupts neither.
        hashed: tuple[Side, ...] = ("tail", "relation", *(side for side in self.drawn if side == "head"))
        columns = [self.targets]
        for side in hashed:
            ids, counts = self.drawn.get(side, _none(len(self.targets)))
            columns += [counts[:, None], ids]
        digest = hashlib.sha256(header.encode())
        digest.update(np.hstack(columns)[order].astype("<i8").tobytes())
        return digest.hexdigest()

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the lists consist of; candidates of no protocol, as the paper's settings draw, are all in one list."""
        return PROTOCOLS[self.protocol].parts if self.protocol in PROTOCOLS else tuple(self.drawn)

    @property
    def counts(self) -> Mapping[Part, IntArray]:
        """Candidates per target in every part of its lists, ``(m,)``."""
        return {part: self.drawn[PARTS[part][1]][1] for part in self.parts}

    @property
    def lengths(self) -> IntArray:
        """Candidates per target in each of its lists, ``(l, m)``."""
        found: dict[Direction, IntArray] = {}
        for part, counts in self.counts.items():
            direction = PARTS[part][0]
            found[direction] = found[direction] + counts if direction in found else counts
        return np.stack(list(found.values()))

    @property
    def full(self) -> bool:
        """Whether nothing is drawn, because every filtered candidate is ranked."""
        return self.protocol in PROTOCOLS and PROTOCOLS[self.protocol].full

    def side(self, side: Side) -> tuple[IntArray, BoolArray]:
        """Return the ids of one side ``(m, k)`` and which of them are candidates, not padding."""
        ids, counts = self.drawn.get(side, _none(len(self.targets)))
        return ids, np.arange(ids.shape[1]) < counts[:, None]


def draw(split: Split, protocol: str = "dual", vocabulary: str = "present", seed: int = 0) -> Candidates:
    """Draw the candidates of every target of a split, filtered against all its known triples.

    The graph and the targets are both known, so no candidate is ever a true triple. ``slots`` draws
    with replacement from all entities and all relation slots; ``present`` draws distinct tails and
    distinct relations among those the graph uses, and takes all of them where there are fewer than
    the protocol asks for. Under a full protocol all of them are only counted, and any seed gives the
    same. Raises `UnknownNameError` for a protocol or vocabulary that does not exist, `UsageError` for a
    split without targets, and `DatasetError` when the catalogue publishes another hash for this split.
    Source: Zhou et al. 2023, section 5, with its sampling frozen.
    """
    asked, pool = protocol_named(protocol), vocabulary_named(vocabulary)
    if not len(split.targets):
        raise UsageError(
            f"{split.dataset} {split.name}: there are no triples to rank; those of the training graph are in "
            f"data.valid, the test graph in data.test"
        )
    seed = seed_of(seed, "the candidate seed")
    if asked.full:
        seed = 0
    header = _header(split.content_sha256, draw_of(protocol), vocabulary, seed)
    sides = {
        side: _count_side(split, side, pool) if asked.full else draw_side(split, side, asked.number(side), pool, header)
        for side in asked.sides
    }
    drawn = Candidates(protocol, vocabulary, seed, split.content_sha256, split.targets, sides)
    _check_published(drawn, split)
    return drawn


def seed_of(seed: object, what: str) -> int:
    """Return a seed as an int; raises `UsageError` for what is no whole number from 0 to `LAST_SEED`."""
    if not isinstance(seed, bool | np.bool_) and isinstance(seed, SupportsIndex):
        found = operator.index(seed)
        if 0 <= found <= LAST_SEED:
            return found
    raise UsageError(f"{what} must be a whole number from 0 to {LAST_SEED}, not {reprlib.repr(seed)}")


def full_hash(content_sha256: str, protocol: str, vocabulary: str, counts: Mapping[Side, IntArray]) -> str:
    """Return the candidates hash of a full protocol; ``counts`` are in the order of head, relation and tail.

    Names are sorted as ids are, and the content hash fixes the targets, so the hash can be recomputed from
    the ranks of a run alone.
    """
    digest = hashlib.sha256(_header(content_sha256, protocol, vocabulary, 0).encode())
    for side in SIDES:
        if side in counts:
            digest.update(f"side {side}\n".encode() + counts[side].astype("<i8").tobytes())
    return digest.hexdigest()


def _count_side(split: Split, side: Side, pool: Vocabulary) -> tuple[IntArray, IntArray]:
    found = filter_side(split, side, empty_slots=pool.empty_slots)
    counts = found.numbers[found.row]
    counts.flags.writeable = False
    return _none(len(counts))[0], counts


def _none(number: int) -> tuple[IntArray, IntArray]:
    return np.empty((number, 0), dtype=np.int64), np.zeros(number, dtype=np.int64)


def draw_of(protocol: str) -> str:
    """Return the name of the draw that a protocol's candidates are of: its own, unless it is a part of another."""
    return (protocol in PROTOCOLS and PROTOCOLS[protocol].draw) or protocol


def _header(content_sha256: str, protocol: str, vocabulary: str, seed: int) -> str:
    return (
        f"mtbench candidates {CANDIDATES_VERSION}\ncontent {content_sha256}\n"
        f"protocol {protocol}\nvocabulary {vocabulary}\nseed {seed}\n"
    )


def draw_side(split: Split, side: Side, width: int, pool: Vocabulary, header: str) -> tuple[IntArray, IntArray]:
    """Draw up to ``width`` candidates of one side per target; ``header`` names the draw, an equal one repeats it.

    Returns int64 ids ``(m, width)``, sorted per row and padded with -1, and their number ``(m,)``.
    """
    found = filter_side(split, side, empty_slots=pool.empty_slots)
    universe, row, starts = found.universe, found.row, found.starts
    size = len(universe)
    allowed = found.numbers[row]
    stream = _streams(f"{header}side {side}\n", split.targets)
    picks = _repeated(stream, allowed, width) if pool.replacement else _distinct(stream, allowed, width)
    counts = np.where(allowed, width, 0).astype(np.int64) if pool.replacement else np.minimum(allowed, width)
    valid = np.arange(width) < counts[:, None]
    picks = np.sort(np.where(valid, picks, size), axis=1)
    # The u-th allowed id is u plus the number of known ids with at most u allowed ids below them.
    owner = np.repeat(np.arange(len(found.pairs)), np.diff(starts))
    below = found.members - (np.arange(len(owner)) - starts[owner])
    passed = np.searchsorted(owner * (size + 1) + below, row[:, None] * (size + 1) + picks, side="right")
    passed -= starts[row][:, None]
    ids = np.full(picks.shape, -1, dtype=np.int64)
    ids[valid] = universe[(picks + passed)[valid]]
    ids.flags.writeable = counts.flags.writeable = False
    return ids, counts


def is_known(split: Split, triples: IntArray) -> BoolArray:
    """Return which triples ``(n, 3)`` are observable or missing ones of the split: no candidate may be, ``(n,)``."""
    return among(keys(split, triples), keys(split, np.concatenate((split.graph, split.targets))))


def _streams(header: str, targets: IntArray) -> UIntArray:
    """Return the state of one splitmix64 generator per target, a function of the header and its ids only."""
    base = int.from_bytes(hashlib.sha256(header.encode()).digest()[:8], "little")
    state = np.full(len(targets), base, dtype=np.uint64)
    for column in (HEAD, RELATION, TAIL):
        state = splitmix64(state ^ targets[:, column].astype(np.uint64))
    return state


def _below(stream: UIntArray, number: int, limits: IntArray) -> IntArray:
    """Return draw ``number`` of each stream as an integer below its limit; 0 where the limit is 0."""
    return (splitmix64(stream, number) % np.maximum(limits, 1).astype(np.uint64)).astype(np.int64)


def _repeated(stream: UIntArray, allowed: IntArray, width: int) -> IntArray:
    return np.stack([_below(stream, number, allowed) for number in range(width)], axis=1)


def _distinct(stream: UIntArray, allowed: IntArray, width: int) -> IntArray:
    """Draw ``width`` distinct integers below ``allowed`` by Floyd's method, or all where there are fewer."""
    picks = np.full((width, len(stream)), -1, dtype=np.int64)
    first = np.maximum(allowed - width, 0)
    for number in range(width):
        pick = _below(stream, number, first + number + 1)
        taken = (picks[:number] == pick).any(axis=0)
        picks[number] = np.where(taken, first + number, pick)
    return picks.T


def _check_published(drawn: Candidates, split: Split) -> None:
    asked = (split.name, drawn.protocol, drawn.vocabulary, drawn.seed)
    published = split.release.candidates_sha256(*asked) if split.release else None
    if published is not None and published != drawn.sha256:
        key = "/".join(map(str, asked))
        if changed := split.changed:
            raise DatasetError(
                f"{split.dataset} {split.name}: something has written into {' and '.join(changed)} since the dataset "
                "was loaded: load it again, and work on a copy (array.copy())"
            )
        raise DatasetError(
            f"{split.dataset} {split.name}: the candidates {key} have the hash {drawn.sha256}, published is "
            f"{published}: scores would not be comparable; reinstall mtbench-kg, or report this with the versions of "
            f"Python and NumPy"
        )
