"""Why a run ranked a triple first, what each family of statistics is worth, and which statistics give targets away."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtbench.data.graphs import keys
from mtbench.data.ragged import evenly
from mtbench.data.splits import NamedTriple, Split, among
from mtbench.files import pictures
from mtbench.metrics import closed
from mtbench.names import COLUMN, PARTS, RELATION, BoolArray, Direction, IntArray, ScoreArray, Side
from mtbench.ranking.candidates import draw, filter_side
from mtbench.ranking.lists import Layout
from mtbench.ranking.ranks import Counts, count
from mtbench.runs.result import Result
from mtbench.settings.setting import Setting
from mtbench.settings.table import setting_of
from reference_models.tally.statistics import FAMILIES, FAMILY, NAMES, Statistics

RULES = 3
"""The most rules of a kind that explain a triple, the surest ones."""

MOST, REPEATS = 1000, 5
"""The most targets, evenly spread, in whose lists families are permuted, and the number of permutations."""

TRIPLES = 1 << 19
"""The most triples in the lists of those targets, which bounds memory where all entities are candidates."""

AGAINST = {"dual": "dual", "same type": "entity"}
"""The candidates that targets are compared with, and the protocol that draws them; `giveaways` says which are kept."""

WORDS = {
    "half": "half-links",
    "type": "types",
    "rel": "size of the relation",
    "deg": "degrees",
    "pair": "pair rules",
    "path": "path rules",
    "assoc": "association rules",
    "walk": "random walks",
}
"""The names of the families in tables and pictures."""


class StatisticsScorer(Protocol):
    """A scorer that sees nothing of a triple but its ``statistics``."""

    statistics: Statistics

    def score_statistics(self, statistics: NDArray[np.float32], triples: IntArray, /) -> ArrayLike:
        """Return the scores ``(m,)`` that triples ``(m, 3)`` would have with these statistics ``(m, WIDTH)``."""


@dataclass(frozen=True)
class Reason:
    """A rule in words that holds in ``hits`` of the ``cases`` of its body; ``of`` is the end it is about, or empty."""

    family: str
    of: str
    rule: str
    hits: int
    cases: int
    confidence: float


@dataclass(frozen=True)
class Scored:
    """A triple of a list, its score and the surest rules behind it.

    ``half_links`` are the numbers of the relation's triples with this head, with this tail, and of all of them.
    """

    triple: NamedTriple
    score: float
    half_links: tuple[int, int, int]
    reasons: Sequence[Reason]


@dataclass(frozen=True)
class Question:
    """One list of a target: its mean rank over ties, the triple ranked first, and the one that is compared with it.

    ``other`` is the target, or the second triple where the target is first. ``moves`` has the part of each family of
    statistics in the difference of the two scores: its Shapley value, the mean change of the score over all orders in
    which the families of ``other`` can be replaced by those of ``first``. The parts add up to the difference, unless
    ``other`` ranks last because its relation has no observable triple.
    Source: Shapley 1953; Sundararajan and Najmi 2020 (baseline Shapley).
    """

    target: NamedTriple
    direction: Direction
    rank: float
    length: int
    first: Scored
    other: Scored
    moves: Mapping[str, float]


@dataclass(frozen=True)
class Importance:
    """How much the expected MRR of some targets falls when a family's statistics are permuted within each list.

    ``falls`` has a number per permutation. Families overlap: what one loses, another may make up for.
    """

    mrr: float
    targets: int
    falls: Mapping[str, Sequence[float]]

    @property
    def whole(self) -> str:
        """The MRR with all families, and of how many targets."""
        return f"{self.mrr:.3f} over {self.targets:,} test triples"

    @property
    def ordered(self) -> list[tuple[str, float, float]]:
        """The families with mean and standard deviation of their falls, the largest first."""
        families = [(name, float(np.mean(falls)), float(np.std(falls, ddof=1))) for name, falls in self.falls.items()]
        return sorted(families, key=lambda family: -family[1])


@dataclass(frozen=True)
class StatisticsExplanation:
    """Some targets of a run explained, under its own protocol.

    ``changed`` counts the targets that rank otherwise than the run recorded, of those whose lists were made.
    """

    model: str
    dataset: str
    split: str
    protocol: str
    vocabulary: str
    candidate_seed: int
    changed: int
    importance: Importance
    questions: Sequence[Question]

    def to_dict(self) -> dict[str, object]:
        """Return all of it as plain values."""
        return asdict(self)

    @property
    def title(self) -> str:
        """What was explained."""
        return f"{self.model} on {self.dataset} {self.split}, protocol {self.protocol}, {self.vocabulary} relations"

    def draw(self, path: Path) -> None:
        """Draw the importance, a bar each with its deviation; raises the errors of `mtbench.files.pictures.page`."""
        importance = self.importance
        names, *figures = zip(*reversed(importance.ordered), strict=True)
        means, deviations = np.array(figures)
        with pictures.page(path, 7, 1.5 + 0.32 * len(names)) as figure:
            axes = figure.subplots()
            words = [WORDS.get(name, name) for name in names]
            line = {"ecolor": "black", "elinewidth": 1.2, "capsize": 3}
            axes.barh(words, means, xerr=deviations, height=0.66, color=pictures.COLOURS[0], error_kw=line)
            for place, (mean, end) in enumerate(zip(means, np.maximum(means, 0) + deviations, strict=True)):
                # The space keeps the figure apart from the end of its line.
                axes.text(end, place, f"  {mean:.3f}", fontsize=9, va="center")
            title = self.title.replace(", protocol", "\nprotocol")
            below = "Fall of the MRR where a family is permuted within each list"
            below += f"\nmean and standard deviation over {REPEATS} permutations"
            pictures.plain(axes, pictures.literal(f"{title}: MRR {importance.whole}"), below, "")
            low, high = min(0, *(means - deviations)), max(1e-3, *(means + deviations))
            axes.set_xlim(1.05 * low, high + 0.12 * (high - low))
            axes.axvline(0, color="black", linewidth=0.8)
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", length=0)
            axes.grid(visible=False, axis="y")

    def __str__(self) -> str:
        importance = self.importance
        lines = [f"{self.title}, candidate seed {self.candidate_seed}"]
        if self.changed:
            lines.append(
                f"warning: {self.changed} test triples rank otherwise than the run recorded: rounded otherwise on "
                "another machine"
            )
        lines += [
            f"\nFall of the MRR ({importance.whole}) where one family is permuted "
            f"within each list, mean and standard deviation over {REPEATS} permutations:",
            *(f"  {name:5}  {mean:6.3f}  {sd:.3f}  {WORDS.get(name, name)}" for name, mean, sd in importance.ordered),
        ]
        for _, asked in itertools.groupby(
            self.questions, key=lambda question: (question.target, question.first, question.other)
        ):
            lines += ["", *_lines(list(asked))]
        return "\n".join(lines)


def explain(scorer: StatisticsScorer, split: Split, result: Result, rows: Sequence[int]) -> StatisticsExplanation:
    """Return why a run ranked some targets of a split (``rows``) as it did, and what each family is worth over all."""
    setting, seed = result.setting, result.candidate_seed
    lists = _Lists(split, scorer, setting, seed, rows)
    questions = [question for row in rows for way in lists.tables if (question := lists.question(way, row)) is not None]
    where = (result.run.model, split.dataset, split.name, setting.protocol, setting.vocabulary, seed)
    return StatisticsExplanation(*where, lists.changed(result), lists.importance(), questions)


class _Lists:
    """The lists of targets in a setting, with the statistics and scores of all triples in them.

    Drawn candidates are listed for all targets. Where every entity is one, lists are made of the targets at ``rows``
    and of others, evenly spread.
    """

    def __init__(
        self, split: Split, scorer: StatisticsScorer, setting: Setting, seed: int, rows: Sequence[int]
    ) -> None:
        self.split, self.scorer = split, scorer
        number = len(split.targets)
        self.listed = np.arange(number)
        if setting.full:
            width = sum(split.relation_slots if side == "relation" else split.num_entities for side in setting.sides)
            self.sampled = evenly(number, min(MOST, max(1, TRIPLES // width)))
            self.listed = np.union1d(self.sampled, np.array(rows, dtype=np.int64))
            left = np.setdiff1d(np.arange(number), self.listed)
            known = np.concatenate((split.known, split.targets[left]))
            split = replace(split, targets=split.targets[self.listed], known=known)
            sides = {side: filter_side(split, side, empty_slots=setting.empty_slots).listed() for side in setting.sides}
        else:
            self.sampled = evenly(number, MOST)
            drawn = draw(split, setting, seed)
            sides = {side: drawn.side(side) for side in drawn.drawn}
        layout = Layout(split, setting.parts, sides)
        self.triples = layout.triples
        self.statistics = scorer.statistics.of(self.triples)
        self.scores = self._scored(self.statistics, self.triples)
        self.tables: dict[Direction, tuple[IntArray, BoolArray]] = {}
        for way in setting.directions:
            own = [PARTS[part][1] for part in setting.parts if PARTS[part][0] == way]
            places = [layout.targets[:, None], *(layout.rows[side] for side in own)]
            valid = [np.ones((len(split.targets), 1), dtype=np.bool_), *(sides[side][1] for side in own)]
            self.tables[way] = np.concatenate(places, axis=1), np.concatenate(valid, axis=1)
        # All are as wide, so that the lists of both directions can be taken together; what is added is not valid.
        longest = max(there.shape[1] for _, there in self.tables.values())
        for way, table in self.tables.items():
            padding = ((0, 0), (0, longest - table[1].shape[1]))
            self.tables[way] = np.pad(table[0], padding), np.pad(table[1], padding)

    def _scored(self, statistics: NDArray[np.float32], triples: IntArray) -> ScoreArray:
        return np.asarray(self.scorer.score_statistics(statistics, triples))

    def changed(self, result: Result) -> int:
        """Return how many targets with lists rank otherwise than in a result."""
        changed = np.zeros(len(self.listed), dtype=np.bool_)
        for way, (rows, valid) in self.tables.items():
            ranks = result.ranks.lists[way]
            then = Counts(ranks.greater[self.listed], ranks.equal[self.listed], ranks.count[self.listed])
            changed |= count(self.scores, rows[:, 0], rows[:, 1:], valid[:, 1:]).differs(then)
        return int(changed.sum())

    def question(self, way: Direction, target: int) -> Question | None:
        """Return why a target ranks as it does in one direction, None where it has no candidate."""
        rows, valid = (table[np.searchsorted(self.listed, target)] for table in self.tables[way])
        rows = rows[valid]
        if len(rows) == 1:
            return None
        scores = self.scores[rows]
        best = int(np.argmax(scores))
        against = 1 + int(np.argmax(scores[1:])) if best == 0 else 0
        first, other = rows[best], rows[against]
        (named,) = self.split.named(self.split.targets[[target]])
        # The mean rank over ties; the target is one of those equal to it.
        rank = float((scores > scores[0]).sum() + ((scores == scores[0]).sum() + 1) / 2)
        return Question(named, way, rank, len(rows), self._of(first), self._of(other), self.moves(first, other))

    def _of(self, row: int) -> Scored:
        triple, known = self.triples[row], self.scorer.statistics
        reasons = list[Reason]()
        for (family, _), kind in itertools.groupby(known.rules(triple), key=lambda rule: (rule.family, rule.end)):
            rules = list(kind)
            # A type whose entities never have the relation says as much as one whose entities all do.
            shown = [rules[0], *rules[1:][-1:]] if family == "type" else [rule for rule in rules if rule.hits][:RULES]
            for rule in shown:
                of, text = rule.named(self.split, triple)
                reasons.append(Reason(family, of, text, rule.hits, rule.cases, rule.confidence))
        (named,) = self.split.named(triple[None])
        return Scored(named, float(self.scores[row]), known.half_links(triple), reasons)

    def moves(self, first: int, other: int) -> dict[str, float]:
        """Return the Shapley value of each family between two triples (their rows), see `Question`."""
        # All mixtures are scored at once: bit k of a mixture's number says that family k is from ``first``.
        number = len(FAMILIES)
        chosen = (np.arange(2**number)[:, None] >> np.arange(number)) % 2 == 1
        mixed = np.where(chosen[:, FAMILY], self.statistics[first], self.statistics[other])
        values = self._scored(mixed, np.repeat(self.triples[[first]], len(mixed), axis=0)).astype(np.float64)
        size, values_of = chosen.sum(axis=1), {}
        for place, name in enumerate(FAMILIES):
            without = np.flatnonzero(~chosen[:, place])
            orders = [math.factorial(k) * math.factorial(number - 1 - k) for k in size[without].tolist()]
            gains = values[without + 2**place] - values[without]
            values_of[name] = float(gains @ np.array(orders)) / math.factorial(number)
        return values_of

    def importance(self) -> Importance:
        """Return how much the expected MRR falls without what a family says, see `Importance`."""
        sampled = np.searchsorted(self.listed, self.sampled)
        valid = np.concatenate([valid[sampled] for _, valid in self.tables.values()])
        # The place of every triple in the lists among those that are there, list by list.
        where = np.cumsum(valid).reshape(valid.shape) - 1
        rows = np.concatenate([rows[sampled] for rows, _ in self.tables.values()])[valid]
        triples, statistics = self.triples[rows], self.statistics[rows]

        def mrr(known: NDArray[np.float32]) -> float:
            ranks = count(self._scored(known, triples), where[:, 0], where[:, 1:], valid[:, 1:])
            return closed.expected(ranks.greater, ranks.equal)["mrr"]

        whole, falls = mrr(statistics), {name: list[float]() for name in FAMILIES}
        for repeat in range(REPEATS):
            # By list, and at random within each: statistics move between the triples of a list only.
            order = np.lexsort(
                (np.random.default_rng([repeat, *b"importance"]).random(len(rows)), np.nonzero(valid)[0])
            )
            for place, name in enumerate(FAMILIES):
                falls[name].append(whole - mrr(np.where(place == FAMILY, statistics[order], statistics)))
        return Importance(whole, len(sampled), falls)


def _lines(questions: Sequence[Question]) -> list[str]:
    """Return the lines on questions about a target whose first and other triples are the same."""
    (shared, *_), ranks = questions, []
    for question in questions:
        asked = list(question.target)
        asked[COLUMN[question.direction]] = "?"
        ranks.append(f"({', '.join(asked)}): rank {question.rank:g} of {question.length}")
    right = shared.first.triple == shared.target
    names = ("first, the target", "second") if right else ("first", "the target")
    ordered = sorted(shared.moves.items(), key=lambda move: -abs(move[1]))
    moves = ", ".join(f"{name} {move:+.2f}" for name, move in ordered if abs(move) >= 0.005)
    return [
        "; ".join(ranks),
        *(
            f"  {name:18}{scored.score:7.2f}  {' '.join(scored.triple)}"
            for name, scored in zip(names, (shared.first, shared.other), strict=True)
        ),
        f"  ahead by {sum(shared.moves.values()):.2f}: {moves or 'no family'}",
        *_behind(names[0], shared.first),
        *_behind(names[1], shared.other),
    ]


def _behind(name: str, scored: Scored) -> list[str]:
    (head, relation, tail), (of_head, of_tail, size) = scored.triple, scored.half_links
    half = f"({head}, {relation}, ?): {of_head:,} triples; (?, {relation}, {tail}): {of_tail:,}; all: {size:,}"
    lines = [f"  behind the {name.removeprefix('the ')}", f"    half   {half}"]
    for reason in scored.reasons:
        of = f"{reason.of}: " if reason.of else ""
        lines += [f"    {reason.family:6} {of}{reason.rule}: {reason.hits:,} of {reason.cases:,}"]
    return lines


@dataclass(frozen=True)
class Giveaway:
    """How well a single statistic tells targets from the candidates of one side.

    ``auc`` is the mean over targets of the share of candidates with less of the statistic, equal ones counting half:
    0.5 is chance, and values far above or below give targets away. ``targets`` is the number of those with a candidate.
    """

    against: str
    side: Side
    family: str
    statistic: str
    auc: float
    targets: int

    @property
    def gain(self) -> float:
        """The distance of the AUC from chance, from 0 to 0.5."""
        return abs(self.auc - 0.5)


def giveaways(split: Split, seed: int = 0) -> tuple[Giveaway, ...]:
    """Return how well each of the 65 statistics alone tells the targets of a split, the clearest first.

    Statistics are those of the observable graph. Targets are compared with the candidates of ``dual``, and with heads
    and tails of the *same type*: candidates of the protocol ``entity`` that are already a head, or a tail, of the
    relation. Raises `UsageError` for a split without targets.
    """
    statistics = Statistics(split.observable())
    rows = [row for against in AGAINST for row in _against(split, against, statistics, seed)]
    return tuple(sorted(rows, key=lambda row: -row.gain))


def _against(split: Split, against: str, statistics: Statistics, seed: int) -> list[Giveaway]:
    drawn = draw(split, setting_of(AGAINST[against]), seed)
    sides = {side: drawn.side(side) for side in drawn.setting.sides}
    if against == "same type":
        sides = {side: (ids, valid & _has_slot(split, side, ids)) for side, (ids, valid) in sides.items()}
    layout = Layout(split, drawn.setting.parts, sides)
    features = statistics.of(layout.triples)
    own = features[layout.targets][:, None]
    rows: list[Giveaway] = []
    for side, (_, valid) in sides.items():
        asked = valid.any(axis=1)
        if not asked.any():
            continue
        others = features[layout.rows[side]]
        less = np.where(valid[..., None], (own > others) + (own == others) / 2, 0).sum(axis=1)[asked]
        auc = (less / valid.sum(axis=1)[asked, None]).mean(axis=0)
        rows += [
            Giveaway(against, side, family, name, float(value), int(asked.sum()))
            for (family, name), value in zip(NAMES, auc, strict=True)
        ]
    return rows


def _has_slot(split: Split, side: Side, ids: IntArray) -> BoolArray:
    """Return which entities ``(m, k)`` are on this side of some observable triple of the target's relation."""
    column, asked = COLUMN[side], np.repeat(split.targets, ids.shape[1], axis=0)
    asked[:, column] = ids.ravel()
    there = keys(split, split.graph, RELATION, column)
    return among(keys(split, asked, RELATION, column), there).reshape(ids.shape)
