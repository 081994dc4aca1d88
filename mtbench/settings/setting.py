"""A setting: what a target is ranked against, what no candidate may be, and how its ranks and their ties count."""

from __future__ import annotations

import operator
import reprlib
from dataclasses import dataclass
from typing import Literal, SupportsIndex, TypeAlias

import numpy as np

from mtbench.errors import UsageError
from mtbench.names import DIRECTIONS, PARTS, SIDES, Direction, Part, Side

EVERY = 2**31 - 1
"""The number of candidates of a setting that asks for all there are."""

LAST_SEED = 2**63 - 1

STANDARD = "standard"
"""The code of this package's own settings, which every result is of."""

Known: TypeAlias = Literal["all", "graph"]
RankedIn: TypeAlias = Literal["directions", "sides", "one list"]
Ties: TypeAlias = Literal["expected", "pessimistic"]


@dataclass(frozen=True, repr=False)
class Setting:
    """What a figure is of: all that must be the same for two figures to be comparable, but the split and the seed.

    ``protocol`` and ``vocabulary`` are its two public names, and ``code`` whose rule it is: ``standard`` for this
    package's own, else the code base behind ``rows`` of the paper's tables, with its ``source`` and, in words, what
    ``differs`` from the standard.

    **Candidates.** ``heads``, ``relations`` and ``tails`` are how many a target has of each kind; `EVERY` asks for all
    there are, which are counted, not drawn. Relations are those of the graph or, with ``empty_slots``, all ids of the
    dictionary. Sides that are ``repeated`` are drawn with replacement: a candidate drawn twice counts twice, or once
    with ``distinct``. ``draw`` names the protocol whose candidates these are a part of. With ``last_excluded`` the
    candidate with the largest id is never drawn, an off-by-one error that is kept. ``inverses`` takes targets and
    candidates from `Split.with_inverses`, with relations from 2R slots: only a scorer of inverses can be ranked so.

    **Filter.** No candidate is a ``known`` triple: any of `Split.true_triples` (``all``), or an observable one and the
    target itself (``graph``), so that another missing triple can be a candidate.

    **Targets** are those of the split; in the test split of a dataset whose name begins with one of ``known_asked``,
    its known triples are asked for, too.

    **Ranks.** A target has a rank per direction that is asked for (``directions``), per side (``sides``) or a single
    rank among all its candidates (``one list``). ``invented`` is a number of candidates that are not scored: an
    integer from 0 to it, drawn uniformly, is added to each rank. ``ties`` count as their expectation over all orders,
    or all against the target: what is tied with it is then counted above it. ``sampled_hits`` estimates Hits@k as
    NBFNet's evaluation does.
    """

    protocol: str
    vocabulary: str
    heads: int = 0
    relations: int = 0
    tails: int = 0
    draw: str = ""
    empty_slots: bool = False
    repeated: tuple[Side, ...] = ()
    known: Known = "all"
    known_asked: tuple[str, ...] = ()
    ranked_in: RankedIn = "directions"
    ties: Ties = "expected"
    code: str = STANDARD
    source: str = ""
    rows: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    nearest: str = "dual"
    inverses: bool = False
    distinct: bool = False
    last_excluded: bool = False
    sampled_hits: bool = False
    invented: int = 0

    def __post_init__(self) -> None:
        # No setting of the paper needs these combinations, and the draw would get them wrong in silence.
        if self.last_excluded and (self.known != "all" or self.empty_slots):
            raise UsageError(f'setting {self.name}: last_excluded needs known="all" and relations without empty slots')
        if (self.sampled_hits or self.invented) and self.ties == "expected":
            raise UsageError(f'setting {self.name}: sampled hits and invented candidates need ties="pessimistic"')

    def __repr__(self) -> str:
        return f"Setting({self.name})"

    @property
    def name(self) -> str:
        """Its name and that of its folder in a run: ``dual-present``; ``isdea:dual`` for a code base of the paper."""
        return f"{self.protocol}-{self.vocabulary}" if self.standard else f"{self.code}:{self.protocol}"

    @property
    def standard(self) -> bool:
        """Whether it is this package's own, so that a `Result` can be of it."""
        return self.code == STANDARD

    @property
    def full(self) -> bool:
        """Whether nothing is drawn, because every candidate is ranked."""
        return EVERY in (self.heads, self.relations, self.tails)

    @property
    def drawn_as(self) -> str:
        """What the hash of its candidates calls its protocol: that of the draw they are a part of."""
        return (self.draw or self.protocol) if self.standard else self.name

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides that are corrupted."""
        return tuple(side for side in SIDES if self.number(side))

    @property
    def lists(self) -> tuple[tuple[Part, ...], ...]:
        """The parts whose candidates a target is ranked among together, a tuple per rank it has."""
        if self.ranked_in == "directions":
            # Relations alone have no direction of their own: they are ranked in both, as by ISDEA's code.
            corrupted = tuple(direction for direction in DIRECTIONS if self.number(direction)) or DIRECTIONS
            return tuple(
                tuple(part for part, (way, side) in PARTS.items() if way == direction and self.number(side))
                for direction in corrupted
            )
        return (self.sides,) if self.ranked_in == "one list" else tuple((side,) for side in self.sides)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the lists consist of, in the order ranks are reported."""
        return tuple(part for parts in self.lists for part in parts)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions a target is asked for in."""
        return tuple(dict.fromkeys(PARTS[part][0] for part in self.parts))

    def asks_known(self, dataset: str, split: str) -> bool:
        """Whether the known triples of a dataset's split are asked for like its targets."""
        return split == "test" and dataset.startswith(self.known_asked)

    def number(self, side: Side) -> int:
        """How many candidates are asked for on one side."""
        return {"head": self.heads, "relation": self.relations, "tail": self.tails}[side]

    def key(self, split: str, seed: int) -> str:
        """Return what names its candidates for a split and a seed, as in a record: ``test/dual/present/0``."""
        return f"{split}/{self.protocol}/{self.vocabulary}/{seed}"


def seed_of(seed: object, what: str) -> int:
    """Return a seed as an int; raises `UsageError` for what is no whole number from 0 to `LAST_SEED`."""
    # True is an index too, but nobody who passes it means seed 1.
    if not isinstance(seed, bool | np.bool_) and isinstance(seed, SupportsIndex):
        number = operator.index(seed)
        if 0 <= number <= LAST_SEED:
            return number
    raise UsageError(f"{what} must be a whole number from 0 to {LAST_SEED}, not {reprlib.repr(seed)}")
