"""What a target is ranked against: candidates that every model shares.

Candidates are a pure function of a split's content, the setting and a seed. The draw
is counter-based (the splitmix64 generator, keyed by the target's own ids), so it depends on no
library's random generator, on no platform and not on the order of the targets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mtbench.data.graphs import keys
from mtbench.data.ragged import splitmix64
from mtbench.data.splits import Split, among, unique
from mtbench.errors import DatasetError, UsageError
from mtbench.names import COLUMN, HEAD, KEPT, PARTS, RELATION, SIDES, TAIL, BoolArray, IntArray, Side, UIntArray
from mtbench.settings.setting import Setting, seed_of
from mtbench.settings.table import HEADLINE

CANDIDATES_VERSION = 1
"""Raised whenever the same arguments would draw other candidates; part of every candidates hash."""

CONVENTIONS_VERSION = 1
"""The same for the settings of the paper's rows: part of what their draws are named by."""


@dataclass(frozen=True, eq=False)
class Filtered:
    """The candidates of a side, stored as the ids that are left out.

    A row is a distinct pair of the fixed sides, such as (head, relation) for tails: ``pairs`` is int64
    ``(g, 2)`` in column order, and ``row`` ``(m,)`` the row of each target. ``universe`` ``(c,)`` holds the
    ids that may be candidates, in increasing order; those at ``members[starts[i]:starts[i + 1]]`` of it are
    known triples in row i, also in increasing order.
    """

    side: Side
    pairs: IntArray
    row: IntArray
    universe: IntArray
    starts: IntArray
    members: IntArray
    width: int

    @property
    def numbers(self) -> IntArray:
        """Candidates per row, ``(g,)``."""
        return len(self.universe) - np.diff(self.starts)

    def allowed(self, start: int, stop: int) -> BoolArray:
        """Return which ids are candidates in the rows from ``start`` to ``stop``, ``(stop - start, width)``."""
        allowed = np.zeros((stop - start, self.width), dtype=np.bool_)
        allowed[:, self.universe] = True
        known = self.members[self.starts[start] : self.starts[stop]]
        owner = np.repeat(np.arange(stop - start), np.diff(self.starts[start : stop + 1]))
        allowed[owner, self.universe[known]] = False
        return allowed

    def listed(self) -> tuple[IntArray, BoolArray]:
        """Return the ids of all candidates of every target ``(m, k)``, and which of them are not padding."""
        # Row by row, so the candidates of a row lie together in `ids`, the smallest first.
        rows, ids = np.nonzero(self.allowed(0, len(self.pairs)))
        numbers = self.numbers[self.row, None]
        place = np.arange(int(numbers.max(initial=0)))
        valid = place < numbers
        starts = np.searchsorted(rows, self.row)[:, None]
        # Padding looks up index -1, where a -1 is appended: without it a split without candidates has nothing there.
        return np.where(valid, np.append(ids, -1)[np.where(valid, starts + place, -1)], -1), valid


def filter_side(split: Split, side: Side, *, empty_slots: bool) -> Filtered:
    """Return all candidates of a side of every target, filtered against all that is known to be true.

    Heads and tails are all entities; relations are those of the graph, or with ``empty_slots`` the whole
    dictionary.
    """
    sizes = {"head": split.num_entities, "relation": split.relation_slots, "tail": split.num_entities}
    universe = np.arange(sizes[side])
    if side == "relation" and not empty_slots:
        universe = unique(split.graph[:, RELATION])
    first, second = (COLUMN[kept] for kept in KEPT[side])
    size = sizes[KEPT[side][1]]
    position = np.full(sizes[side], -1)
    position[universe] = np.arange(len(universe))
    known = split.true_triples
    # A pair is one integer, so that a single binary search finds the row of every known triple.
    codes, members = known[:, first] * size + known[:, second], position[known[:, COLUMN[side]]]
    rows, row = np.unique(split.targets[:, first] * size + split.targets[:, second], return_inverse=True)
    owner = np.searchsorted(rows, codes)
    # The search also gives a place, which may lie beyond the last row, to a pair that no target has.
    asked = (rows[np.minimum(owner, len(rows) - 1)] == codes) & (members >= 0)
    # Sorted by row and member; a triple that is both in the graph and a target is left out once.
    flat = unique(owner[asked] * len(universe) + members[asked])
    owner = flat // len(universe)
    return Filtered(
        side=side,
        pairs=np.stack(np.divmod(rows, size), axis=1),
        row=row,
        universe=universe,
        starts=np.searchsorted(owner, np.arange(len(rows) + 1)),
        members=flat - owner * len(universe),
        width=sizes[side],
    )


@dataclass(frozen=True, eq=False)
class Candidates:
    """The frozen candidates of every target of a split.

    ``targets`` is int64 ``(m, 3)``; ``drawn`` holds per corrupted side int64 ids ``(m, k)`` in increasing
    order per row and their number ``(m,)``, from which on a row is padded with -1. Equal ids in a row are
    separate candidates: they count with multiplicity. In a full setting the ids are ``(m, 0)``: nothing
    is drawn, the numbers are those of all filtered candidates, and the seed is 0.
    """

    setting: Setting
    seed: int
    content_sha256: str
    targets: IntArray
    drawn: Mapping[Side, tuple[IntArray, IntArray]]

    @cached_property
    def sha256(self) -> str:
        """Hash of what was drawn and for what: part of a task's identity, whatever the order of the targets."""
        order = np.lexsort((self.targets[:, TAIL], self.targets[:, RELATION], self.targets[:, HEAD]))
        if self.setting.full:
            ordered = {side: counts[order] for side, (_, counts) in self.drawn.items()}
            return full_hash(self.content_sha256, self.setting, ordered)
        header = _hashed_header(self.content_sha256, self.setting, self.seed)
        # Tails and relations are hashed even where a protocol corrupts neither: published hashes were made like this.
        hashed: tuple[Side, ...] = ("tail", "relation", *(side for side in self.drawn if side == "head"))
        columns = [self.targets]
        for side in hashed:
            ids, counts = self.drawn.get(side, _none(len(self.targets)))
            columns += [counts[:, None], ids]
        digest = hashlib.sha256(header.encode())
        digest.update(np.hstack(columns)[order].astype("<i8").tobytes())
        return digest.hexdigest()

    @property
    def lengths(self) -> IntArray:
        """Candidates per target in each of its lists, ``(l, m)``."""
        lists = ([PARTS[part][1] for part in parts] for parts in self.setting.lists)
        return np.stack([np.sum([self.drawn[side][1] for side in sides], axis=0) for sides in lists])

    def side(self, side: Side) -> tuple[IntArray, BoolArray]:
        """Return the ids of a side ``(m, k)`` and which of them are candidates, not padding."""
        ids, counts = self.drawn.get(side, _none(len(self.targets)))
        return ids, np.arange(ids.shape[1]) < counts[:, None]


def draw(split: Split, setting: Setting = HEADLINE, seed: int = 0) -> Candidates:
    """Draw the candidates of every target of a split, filtered against its known triples.

    These are the graph, the targets and what is known besides in our settings, so no candidate is ever a true triple.
    Of a side that is drawn without replacement, distinct candidates are taken, and all of them where there are fewer
    than the setting asks for. In a full setting all of them are only counted, and any seed gives the same. Candidates
    of a setting with inverses are those of `Split.with_inverses`. Raises `UsageError` for a split without targets, and
    `DatasetError` when the catalogue publishes another hash for this split.
    Source: Zhou et al. 2023, section 5, with its sampling frozen.
    """
    if not len(split.targets):
        raise UsageError(
            f"{split.dataset} {split.name}: there are no triples to rank; those of the training graph are in "
            f"data.valid, the test graph in data.test"
        )
    seed = seed_of(seed, "the candidate seed")
    if setting.full:
        seed = 0  # nothing is drawn: the same candidates must not have a hash per seed
    if setting.inverses:
        split = split.with_inverses()
    header = _draw_header(split, setting, seed)
    sides = {
        side: _count_side(split, side, setting) if setting.full else _draw_side(split, side, setting, header)
        for side in setting.sides
    }
    drawn = Candidates(setting, seed, split.content_sha256, split.targets, sides)
    if setting.standard:
        _check_published(drawn, split)
    return drawn


def integers(split: Split, setting: Setting, seed: int) -> IntArray:
    """Draw an integer from 0 to the setting's ``invented`` per rank ``(n,)``, a function of the seed and ids only."""
    header = _draw_header(split, setting, seed)
    texts = (f"{header}integer {parts[0]}\ntarget {row}\n" for parts in setting.lists for row in split.targets.tolist())
    # A hash per target, like the candidates' streams: the integer does not depend on which other targets there are.
    words = (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") for text in texts)
    return np.array([word % (setting.invented + 1) for word in words], dtype=np.int64)


def full_hash(content_sha256: str, setting: Setting, counts: Mapping[Side, IntArray]) -> str:
    """Return the candidates hash of a full setting; ``counts`` are in the order of head, relation and tail.

    Names are sorted as ids are, and the content hash fixes the targets, so the hash can be recomputed from
    the ranks of a run alone.
    """
    digest = hashlib.sha256(_hashed_header(content_sha256, setting, 0).encode())
    for side in SIDES:
        if side in counts:
            digest.update(f"side {side}\n".encode() + counts[side].astype("<i8").tobytes())
    return digest.hexdigest()


def _count_side(split: Split, side: Side, setting: Setting) -> tuple[IntArray, IntArray]:
    filtered = filter_side(split, side, empty_slots=setting.empty_slots)
    counts = filtered.numbers[filtered.row]
    counts.flags.writeable = False  # a task is used for many models, which must not change it for the next
    return _none(len(counts))[0], counts


def _none(number: int) -> tuple[IntArray, IntArray]:
    return np.empty((number, 0), dtype=np.int64), np.zeros(number, dtype=np.int64)


def _hashed_header(content_sha256: str, setting: Setting, seed: int) -> str:
    return (
        f"mtbench candidates {CANDIDATES_VERSION}\ncontent {content_sha256}\n"
        f"protocol {setting.drawn_as}\nvocabulary {setting.vocabulary}\nseed {seed}\n"
    )


def _draw_header(split: Split, setting: Setting, seed: int) -> str:
    """Return the text that a draw is a function of, besides the target: equal texts give equal draws."""
    if setting.standard:
        return _hashed_header(split.content_sha256, setting, seed)
    # Without the protocol in it, so that the lists of dual are the beginnings of those of 50.
    return (
        f"mtbench convention {CONVENTIONS_VERSION}\ncontent {split.content_sha256}\n"
        f"convention {setting.code}\nseed {seed}\n"
    )


def _draw_side(split: Split, side: Side, setting: Setting, header: str) -> tuple[IntArray, IntArray]:
    """Draw candidates of a side for every target, as many as the setting asks for.

    Returns int64 ids ``(m, width)``, sorted per row and padded with -1, and their number ``(m,)``.
    """
    if setting.last_excluded:
        split = _without_last(split, side)
    draw_from = _draw_filtered if setting.known == "all" else _draw_against_graph
    ids, counts = draw_from(split, side, setting, header)
    return _collapsed(ids) if setting.distinct else (ids, counts)


def _draw_filtered(split: Split, side: Side, setting: Setting, header: str) -> tuple[IntArray, IntArray]:
    """Draw candidates that are no known triples."""
    width, again = setting.number(side), side in setting.repeated
    filtered = filter_side(split, side, empty_slots=setting.empty_slots)
    universe, row, starts = filtered.universe, filtered.row, filtered.starts
    size = len(universe)
    allowed = filtered.numbers[row]
    stream = _streams(f"{header}side {side}\n", split.targets)
    if again:
        picks = np.stack([_below(stream, number, allowed) for number in range(width)], axis=1)
    else:
        picks = _distinct(stream, allowed, width)
    counts = np.where(allowed, width, 0).astype(np.int64) if again else np.minimum(allowed, width)
    valid = np.arange(width) < counts[:, None]
    picks = np.sort(np.where(valid, picks, size), axis=1)
    # The u-th allowed id is u plus the number of known ids with at most u allowed ids below them. Counting them takes
    # memory for the known triples alone, where a mask of all ids would take targets times entities.
    owner = np.repeat(np.arange(len(filtered.pairs)), np.diff(starts))
    below = filtered.members - (np.arange(len(owner)) - starts[owner])
    # With the row as the leading digit, one search serves all rows.
    passed = np.searchsorted(owner * (size + 1) + below, row[:, None] * (size + 1) + picks, side="right")
    passed -= starts[row][:, None]
    ids = np.full(picks.shape, -1, dtype=np.int64)
    ids[valid] = universe[(picks + passed)[valid]]
    ids.flags.writeable = counts.flags.writeable = False
    return ids, counts


def _draw_against_graph(split: Split, side: Side, setting: Setting, header: str) -> tuple[IntArray, IntArray]:
    """Draw candidates that are neither observable nor the target, but may be other missing or known triples."""
    fixed = [column for column in (HEAD, RELATION, TAIL) if column != COLUMN[side]]
    steps = np.array([max(split.num_entities, split.relation_slots), 1])
    pairs, group, sizes = np.unique(split.targets[:, fixed] @ steps, return_inverse=True, return_counts=True)
    asked = split.graph[:, fixed] @ steps
    place = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
    # An observable triple filters the turns of the targets it shares a pair with; the other turns go without it.
    turns_of_row = np.where(pairs[place] == asked, sizes[place], 0)
    order = np.argsort(group, kind="stable")
    turn = np.empty_like(group)
    turn[order] = np.arange(len(group)) - np.searchsorted(group[order], group[order])
    ids = np.empty((len(group), setting.number(side)), dtype=np.int64)
    counts = np.empty(len(group), dtype=np.int64)
    # Filtering leaves out all targets. So targets that share a pair take turns, and none is filtered for another.
    for number in range(int(turn.max()) + 1):
        rows = turn == number
        turn_split = replace(split, targets=split.targets[rows], known=split.known[:0])
        if side != "relation":  # where the graph also says which relations are present
            turn_split = replace(turn_split, graph=split.graph[turns_of_row > number])
        ids[rows], counts[rows] = _draw_filtered(turn_split, side, setting, header)
    return ids, counts


def _without_last(split: Split, side: Side) -> Split:
    """Return the split with every target's last possible candidate among its observable triples."""
    universe = np.unique(split.graph[:, RELATION]) if side == "relation" else np.arange(split.num_entities)
    place = np.full(len(split.targets), len(universe) - 1)
    last = split.targets.copy()
    while len(universe):
        # A place of -1 means no candidate is left; the id at the other end that it reads is never used.
        last[:, COLUMN[side]] = universe[place]
        taken = is_known(split, last) & (place >= 0)
        if not taken.any():
            return replace(split, graph=np.concatenate((split.graph, last[place >= 0])))
        place[taken] -= 1
    return split


def _collapsed(ids: IntArray) -> tuple[IntArray, IntArray]:
    """Return each row's distinct ids, sorted and padded with -1, and their number."""
    beyond = np.iinfo(np.int64).max  # sorts behind every id
    repeated = np.zeros(ids.shape, dtype=np.bool_)
    repeated[:, 1:] = ids[:, 1:] == ids[:, :-1]
    packed = np.sort(np.where(repeated | (ids < 0), beyond, ids), axis=1)
    return np.where(packed == beyond, -1, packed), (packed != beyond).sum(axis=1)


def is_known(split: Split, triples: IntArray) -> BoolArray:
    """Return which triples ``(n, 3)`` of the split are known to be true: no candidate may be one of them, ``(n,)``."""
    return among(keys(split, triples), keys(split, split.true_triples))


def _streams(header: str, targets: IntArray) -> UIntArray:
    """Return the state of a splitmix64 generator per target, a function of the header and its ids only."""
    base = int.from_bytes(hashlib.sha256(header.encode()).digest()[:8], "little")
    state = np.full(len(targets), base, dtype=np.uint64)
    for column in (HEAD, RELATION, TAIL):
        state = splitmix64(state ^ targets[:, column].astype(np.uint64))
    return state


def _below(stream: UIntArray, number: int, limits: IntArray) -> IntArray:
    """Return draw ``number`` of each stream as an integer below its limit; 0 where the limit is 0."""
    # The remainder of 64 bits prefers small numbers by less than limit / 2**64, which no sample can show.
    return (splitmix64(stream, number) % np.maximum(limits, 1).astype(np.uint64)).astype(np.int64)


def _distinct(stream: UIntArray, allowed: IntArray, width: int) -> IntArray:
    """Draw ``width`` distinct integers below ``allowed`` by Floyd's method, or all where there are fewer."""
    picks = np.full((width, len(stream)), -1, dtype=np.int64)
    # Step n draws up to first + n, and takes that newest number where the pick is taken: no step before could reach it.
    # Unlike a rejection of repeats this takes the same number of draws for every target, all targets at once.
    first = np.maximum(allowed - width, 0)
    for number in range(width):
        pick = _below(stream, number, first + number + 1)
        taken = (picks[:number] == pick).any(axis=0)
        picks[number] = np.where(taken, first + number, pick)
    return picks.T


def _check_published(drawn: Candidates, split: Split) -> None:
    key = drawn.setting.key(split.name, drawn.seed)
    published = split.release.candidates.get(key) if split.release else None
    if published is not None and published != drawn.sha256:
        # By far the likeliest cause: arrays of a split are the caller's, and NumPy lets anybody write into them.
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
