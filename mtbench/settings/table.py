"""Every setting there is: our protocols in both vocabularies, and the settings of the code behind the paper's tables.

The paper (Zhou et al. 2023, section 5) states one protocol, but its rows come from three code bases that drew different
candidates, broke ties in different ways and counted Hits@k in different ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from mtbench.errors import UnknownNameError
from mtbench.names import SIDES
from mtbench.settings.setting import EVERY, Setting

ALL = "all"
"""Stands for several protocols, or for both vocabularies, where several can be named."""

_PRESENT, _SLOTS = "present", "slots"
_AGAINST = "a tie counts against the true triple"
_OURS = Setting("", _PRESENT, source="this package: present relations, ties averaged")
_PROTOCOLS = (
    # Zhou et al. 2023: dual-sampling, entity-centric and relation-type centric metrics.
    replace(_OURS, protocol="dual", heads=24, relations=26, tails=24),
    replace(_OURS, protocol="entity", heads=50, tails=50),
    replace(_OURS, protocol="relation", relations=50, ranked_in="one list"),
    # One list of these, with the same candidates.
    replace(_OURS, protocol="dual-tail", relations=26, tails=24, draw="dual"),
    replace(_OURS, protocol="dual-head", heads=24, relations=26, draw="dual"),
    replace(_OURS, protocol="entity-tail", tails=50, draw="entity"),
    replace(_OURS, protocol="entity-head", heads=50, draw="entity"),
    # Bordes et al. 2013: filtered ranking among all.
    replace(_OURS, protocol="full", heads=EVERY, tails=EVERY),
    replace(_OURS, protocol="full-tail", tails=EVERY),
    replace(_OURS, protocol="full-head", heads=EVERY),
    replace(_OURS, protocol="full-relation", relations=EVERY, ranked_in="one list"),
    # Galkin et al. 2024, the published script/run.py (427966a): to meet its figures and those of its successors.
    replace(
        _OURS,
        protocol="full-ultra",
        heads=EVERY,
        tails=EVERY,
        draw="full",
        ties="pessimistic",
        known_asked=("grail-",),
        differs=(_AGAINST, "validation triples of GraIL's test graphs are asked for with the test triples"),
    ),
)

_TWO_RANKS = "relation-type centric: two ranks per test triple, as itself and as its inverse"
_TWICE = "a candidate drawn twice counts twice"
_MISSING = "other missing triples may be candidates"
_ISDEA = Setting(
    "dual",
    _SLOTS,
    heads=24,
    relations=26,
    tails=24,
    empty_slots=True,
    repeated=SIDES,
    known="graph",
    ties="pessimistic",
    code="isdea",
    source="code published with ISDEA (Gao et al. 2023), state of May 2023",
    rows=("isdea-homo", "isdea", "mtdea"),
    differs=(_AGAINST, _TWO_RANKS, "relations come from all relation ids, unused ones included", _TWICE, _MISSING),
)
_DOUBLED = replace(
    _ISDEA,
    code="isdea-doubled",
    heads=0,
    ranked_in="one list",
    inverses=True,
    differs=(
        _AGAINST,
        _TWO_RANKS,
        "relations come from all relation ids and their inverses, unused ones included",
        _TWICE,
        _MISSING,
    ),
)
_INGRAM = Setting(
    "dual",
    "present, repeated",
    heads=12,
    relations=26,
    tails=12,
    repeated=SIDES,
    ranked_in="one list",
    ties="pessimistic",
    code="ingram",
    source="InGram (Lee et al. 2023) with the dual metric added in September 2023",
    rows=("ingram",),
    distinct=True,
    last_excluded=True,
    differs=(
        _AGAINST,
        "dual: one list of 12 tails, 12 heads and 26 relations",
        "candidates are drawn with replacement, but one drawn twice counts once",
        "the candidate with the largest id is never drawn",
    ),
)
_NBFNET = Setting(
    "dual",
    _SLOTS,
    heads=25,
    tails=25,
    empty_slots=True,
    repeated=("relation",),
    known="graph",
    ties="pessimistic",
    code="nbfnet",
    source="NBFNet (Zhu et al. 2021) made homogeneous, heads asked for by the inverse; "
    "its dual row inferred from figures",
    rows=("nbfnet-homo",),
    invented=25,
    sampled_hits=True,
    nearest="entity",
    differs=(
        _AGAINST,
        "dual: no relation is scored, a random integer from 0 to 25 is added to the rank",
        "Hits@k is estimated for a list of 50 by sampling below the rank",
        _MISSING,
    ),
)


def _three(dual: Setting) -> Iterable[Setting]:
    """Give the settings of a code base: it ranks 50 tails and, unless targets are doubled, 50 heads; 50 relations."""
    # A doubled target has its inverse in place of a rank among heads.
    heads = 0 if dual.inverses else 50
    # InGram's dual metric joins heads, tails and relations in a list; its entity metric ranks heads and tails apart.
    ends = "sides" if dual.ranked_in == "one list" and heads else dual.ranked_in
    # NBFNet asks for heads by the inverse of the relation, but does not double targets: among relations, one rank.
    between = "one list" if dual.invented else dual.ranked_in
    yield dual
    yield replace(dual, protocol="entity", heads=heads, relations=0, tails=50, ranked_in=ends, invented=0)
    yield replace(dual, protocol="relation", heads=0, relations=50, tails=0, ranked_in=between, invented=0)


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.name: setting
        for setting in (
            *_PROTOCOLS,
            *(
                replace(
                    setting,
                    vocabulary=_SLOTS,
                    empty_slots=True,
                    repeated=SIDES,
                    source="this package: all relation ids, ties averaged",
                )
                for setting in _PROTOCOLS
            ),
            *(setting for dual in (_ISDEA, _DOUBLED, _INGRAM, _NBFNET) for setting in _three(dual)),
        )
    }
)
"""Every setting by its name, ours first."""

HEADLINE = SETTINGS["dual-present"]
"""The default, and what the leaderboard ranks by."""

OURS = tuple(setting for setting in SETTINGS.values() if setting.standard)
PROTOCOLS = tuple(dict.fromkeys(setting.protocol for setting in OURS))
RECORDED = tuple(dict.fromkeys(setting.protocol for setting in OURS if setting.ties == "expected"))
"""Those whose candidates and baselines stand in the record of a dataset: not the one that counts ties as others do."""

VOCABULARIES = tuple(dict.fromkeys(setting.vocabulary for setting in OURS))
SAMPLED = tuple(dict.fromkeys(setting.protocol for setting in OURS if not setting.full))
"""The protocols that draw candidates."""

MAIN = tuple(dict.fromkeys(setting.protocol for setting in OURS if not setting.full and not setting.draw))
"""The paper's: those that draw candidates and rank all a target can be asked for."""

CODES = tuple(dict.fromkeys(setting.code for setting in SETTINGS.values()))
"""Whose settings there are: ``standard``, then the code bases of the paper."""

MODELS = {f"mtdea-k{number}": "mtdea" for number in (2, 4, 6)}
"""Models that stand in the paper's tables under another name."""


def setting_of(protocol: str = HEADLINE.protocol, vocabulary: str = HEADLINE.vocabulary) -> Setting:
    """Return our setting of a protocol and a vocabulary; raises `UnknownNameError` for an unknown name of either."""
    if protocol not in PROTOCOLS:
        raise UnknownNameError("protocol", protocol, PROTOCOLS)
    if vocabulary not in VOCABULARIES:
        raise UnknownNameError("vocabulary", vocabulary, VOCABULARIES)
    return SETTINGS[f"{protocol}-{vocabulary}"]


def settings_of(
    protocols: Sequence[str], vocabularies: Sequence[str], every: Sequence[str] = MAIN
) -> tuple[Setting, ...]:
    """Return our settings of protocols and vocabularies, each once.

    ``all`` stands for ``every`` protocol, or both vocabularies. Raises `UnknownNameError` for a name that does not
    exist.
    """
    chosen = []
    for kind, names, known, members in (
        ("protocol", protocols, PROTOCOLS, every),
        ("vocabulary", vocabularies, VOCABULARIES, VOCABULARIES),
    ):
        for name in names:
            if name not in known and name != ALL:
                raise UnknownNameError(kind, name, [*known, ALL])
        chosen.append(dict.fromkeys(member for name in names for member in (members if name == ALL else (name,))))
    return tuple(setting_of(protocol, vocabulary) for protocol in chosen[0] for vocabulary in chosen[1])


def setting_in(code: str, protocol: str = HEADLINE.protocol) -> Setting:
    """Return the setting of a code base for a protocol of the paper; ``standard`` is ours, among present relations.

    Raises `UnknownNameError` for an unknown code base or protocol.
    """
    if code not in CODES:
        raise UnknownNameError("evaluation setting", code, CODES)
    if protocol not in MAIN:
        raise UnknownNameError("protocol", protocol, MAIN)
    # Each of ours comes in two vocabularies, present relations first in the table.
    return next(setting for setting in SETTINGS.values() if (setting.code, setting.protocol) == (code, protocol))


def codes_of(model: str) -> tuple[str, ...]:
    """Return the code bases whose settings a row of the paper can be scored in, its own first; none if it has no row.

    ISDEA's code has inverse relations and their slots among its candidates; a model without them is scored in the
    setting that draws from the dictionary alone.
    """
    row = MODELS.get(model, model)
    inverses = {setting.code: setting.inverses for setting in SETTINGS.values() if row in setting.rows}
    return tuple(sorted(inverses, key=lambda code: not inverses[code]))
