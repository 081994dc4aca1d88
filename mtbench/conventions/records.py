"""The evaluation settings behind the rows of the paper's tables, as declared records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mtbench.errors import UnknownNameError, UsageError
from mtbench.names import Side
from mtbench.ranking.candidates import PROTOCOLS, VOCABULARIES, Protocol, Vocabulary

Ties: TypeAlias = Literal["expected", "pessimistic"]
Known: TypeAlias = Literal["all", "graph"]


@dataclass(frozen=True)
class Lists:
    """What a target is ranked against under one protocol.

    ``protocol`` says how many candidates there are on each side. ``ranks`` says what ranks a target has: ``one``
    among all of them; one per side (``sides``); or one per direction (``directions``), as itself among tails and
    relations and as its inverse, the tail first, among heads and relations. ``invented`` stands for
    that many candidates nobody scores: an integer between 0 and it, drawn uniformly, is added to a rank.
    """

    protocol: Protocol
    ranks: Literal["one", "sides", "directions"] = "one"
    invented: int = 0

    @property
    def groups(self) -> tuple[tuple[Side, ...], ...]:
        """The sides whose candidates a target is ranked among together, a tuple per rank it has."""
        sides = self.protocol.sides
        if self.ranks == "sides":
            return tuple((side,) for side in sides)
        if self.ranks == "directions":
            return tuple(tuple(side for side in sides if side != other) for other in ("head", "tail"))
        return (sides,)


@dataclass(frozen=True)
class Convention:
    """An evaluation setting: how one code base turned scores into the figures of the paper's tables.

    ``rows`` are the models it scored. ``entities`` and ``relations`` say what candidates are drawn from
    and whether with replacement; ``distinct`` counts a candidate drawn twice once. ``known`` is what no
    candidate may be: any known triple (``all``), or an observable one and the target itself (``graph``),
    so that another missing triple can be a candidate. With ``inverses`` targets and candidates are those of
    `Split.with_inverses`: relations come from 2R slots, and only a scorer of inverses can be read so.
    ``last_excluded`` never draws the candidate with the largest id, as a bound that is one too low does.
    ``sampled_hits`` estimates Hits@k as NBFNet's evaluation does, see `sampled_hits`. ``differs`` says in words
    what is not as in the standard, and ``nearest`` which protocol of ours its dual is nearest to.
    """

    name: str
    rows: tuple[str, ...]
    source: str
    lists: Mapping[str, Lists]
    entities: Vocabulary
    relations: Vocabulary
    known: Known
    ties: Ties
    inverses: bool = False
    distinct: bool = False
    last_excluded: bool = False
    sampled_hits: bool = False
    differs: tuple[str, ...] = ()
    nearest: str = "dual"

    def __post_init__(self) -> None:
        if self.last_excluded and (self.known != "all" or self.relations.empty_slots):
            raise UsageError(
                f'evaluation setting {self.name}: last_excluded needs known="all" and relations without empty slots'
            )
        random = self.sampled_hits or any(lists.invented for lists in self.lists.values())
        if random and self.ties == "expected":
            raise UsageError(
                f'evaluation setting {self.name}: sampled hits and invented candidates need ties="pessimistic"'
            )


def _twice(source: str) -> Vocabulary:
    return Vocabulary("present, repeated", empty_slots=False, replacement=True, source=source)


_PAPER = "Zhou et al. 2023, section 5"
_ISDEA, _INGRAM, _NBFNET = (
    "code published with ISDEA (Gao et al. 2023), state of May 2023",
    "InGram (Lee et al. 2023) with the dual metric added in September 2023",
    "NBFNet (Zhu et al. 2021) made homogeneous; its dual row inferred from the printed figures",
)

STANDARD = Convention(
    name="standard",
    rows=(),
    source="this package: present relations, ties averaged",
    lists={
        "dual": Lists(PROTOCOLS["dual"], ranks="directions"),
        "entity": Lists(PROTOCOLS["entity"], ranks="directions"),
        "relation": Lists(PROTOCOLS["relation"]),
    },
    entities=VOCABULARIES["present"],
    relations=VOCABULARIES["present"],
    known="all",
    ties="expected",
)
_ISDEA_ROWS = ("isdea-homo", "isdea", "mtdea")
CONVENTIONS: Mapping[str, Convention] = {
    declared.name: declared
    for declared in (
        Convention(
            name="isdea",
            rows=_ISDEA_ROWS,
            source=_ISDEA,
            lists={
                "dual": Lists(Protocol("dual", 24, 26, _ISDEA, heads=24), ranks="directions"),
                "entity": Lists(Protocol("entity", 50, 0, _ISDEA, heads=50), ranks="directions"),
                "relation": Lists(Protocol("relation", 0, 50, _ISDEA), ranks="directions"),
            },
            entities=VOCABULARIES["slots"],
            relations=VOCABULARIES["slots"],
            known="graph",
            ties="pessimistic",
            differs=(
                "a tie counts against the true triple",
                "relation-type centric: two ranks per test triple, as itself and as its inverse",
                "relations come from all relation ids, unused ones included",
                "a candidate drawn twice counts twice",
                "other missing triples may be candidates",
            ),
        ),
        Convention(
            name="isdea-doubled",
            rows=_ISDEA_ROWS,
            source=_ISDEA,
            lists={
                "dual": Lists(Protocol("dual", 24, 26, _ISDEA)),
                "entity": Lists(Protocol("entity", 50, 0, _ISDEA)),
                "relation": Lists(Protocol("relation", 0, 50, _ISDEA)),
            },
            entities=VOCABULARIES["slots"],
            relations=VOCABULARIES["slots"],
            known="graph",
            ties="pessimistic",
            inverses=True,
            differs=(
                "a tie counts against the true triple",
                "relation-type centric: two ranks per test triple, as itself and as its inverse",
                "relations come from all relation ids and their inverses, unused ones included",
                "a candidate drawn twice counts twice",
                "other missing triples may be candidates",
            ),
        ),
        Convention(
            name="ingram",
            rows=("ingram",),
            source=_INGRAM,
            lists={
                "dual": Lists(Protocol("dual", 12, 26, _INGRAM, heads=12)),
                "entity": Lists(Protocol("entity", 50, 0, _INGRAM, heads=50), ranks="sides"),
                "relation": Lists(Protocol("relation", 0, 50, _INGRAM)),
            },
            entities=_twice(_INGRAM),
            relations=_twice(_INGRAM),
            known="all",
            ties="pessimistic",
            distinct=True,
            last_excluded=True,
            differs=(
                "a tie counts against the true triple",
                "dual: one list of 12 tails, 12 heads and 26 relations",
                "candidates are drawn with replacement, but one drawn twice counts once",
                "the candidate with the largest id is never drawn",
            ),
        ),
        Convention(
            name="nbfnet",
            rows=("nbfnet-homo",),
            source=_NBFNET,
            lists={
                "dual": Lists(Protocol("dual", 25, 0, _NBFNET, heads=25), ranks="sides", invented=25),
                "entity": Lists(Protocol("entity", 50, 0, _NBFNET, heads=50), ranks="sides"),
                "relation": Lists(Protocol("relation", 0, 50, _NBFNET)),
            },
            entities=VOCABULARIES["present"],
            relations=VOCABULARIES["slots"],
            known="graph",
            ties="pessimistic",
            sampled_hits=True,
            nearest="entity",
            differs=(
                "a tie counts against the true triple",
                "dual: no relation is scored, a random integer from 0 to 25 is added to the rank",
                "Hits@k is estimated for a list of 50 by sampling below the rank",
                "other missing triples may be candidates",
            ),
        ),
    )
}


def conventions_of(model: str) -> tuple[Convention, ...]:
    """Return the settings a row of the paper can be scored in, that of its own code first; none for other models.

    ISDEA's code has inverse relations and their slots among its candidates; a model without them is scored in the
    setting that draws from the dictionary alone.
    """
    found = [one for one in CONVENTIONS.values() if model.partition("-k")[0] in one.rows]
    return tuple(sorted(found, key=lambda one: not one.inverses))


def convention_named(name: str) -> Convention:
    """Return an evaluation setting by name, ``standard`` included; an unknown name raises `UnknownNameError`."""
    known = {STANDARD.name: STANDARD, **CONVENTIONS}
    if name not in known:
        raise UnknownNameError("evaluation setting", name, known)
    return known[name]
