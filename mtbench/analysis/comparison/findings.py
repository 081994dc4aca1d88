"""What a comparison holds: models with intervals, pairs with p-values, runs that were left out."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

from mtbench.analysis.comparison.clusters import CLUSTERS
from mtbench.files import tables
from mtbench.files.tables import Cell
from mtbench.names import DIRECTIONS, Direction


@dataclass(frozen=True)
class Row:
    """One model: its mean over seeds, interval, and the ranks that remain possible for it.

    ``per_seed`` is aligned with ``seeds``, ``deviation`` the standard deviation over them: None for a single
    seed, whose interval ``covers`` targets only. Models that share a letter of ``group`` do not differ.
    ``adjusted`` and ``z`` hold every metric adjusted for chance, as means over seeds, and ``directions`` the
    metrics of each direction where there are two.
    """

    model: str
    seeds: tuple[int, ...]
    per_seed: tuple[float, ...]
    mean: float
    deviation: float | None
    low: float
    high: float
    covers: str
    best_rank: int
    worst_rank: int
    group: str
    adjusted: Mapping[str, float | None]
    z: Mapping[str, float | None]
    directions: Mapping[Direction, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """The difference between a better and a worse model on the same targets.

    ``difference`` is the value of ``first`` less that of ``second``; ``corrected`` is the p-value after
    Holm's correction for all pairs, ``detectable`` the smallest difference found with a power of 80 %.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float
    corrected: float
    detectable: float
    covers: str


@dataclass(frozen=True)
class Unfinished:
    """A run without ranks, shown but not compared."""

    source: str
    model: str
    seed: int
    status: str


@dataclass(frozen=True)
class Comparison:
    """Models on one task, best first, with all that tells a difference from chance.

    ``bound`` is what two models of independent errors can need at most, and ``detectable`` the median
    over the pairs compared; the first stands in where there is no pair.
    """

    dataset: str
    dataset_version: str
    split: str
    protocol: str
    vocabulary: str
    candidate_seed: int
    metric: str
    level: float
    draws: int
    seed: int
    cluster: str
    clusters: int
    targets: int
    chance: float
    bound: float
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...]
    unfinished: tuple[Unfinished, ...] = ()

    @property
    def detectable(self) -> float | None:
        """The median over pairs of the smallest difference that is found with a power of 80 %; None without pairs."""
        return statistics.median(pair.detectable for pair in self.pairs) if self.pairs else None

    @property
    def task(self) -> str:
        """Dataset, split, protocol, vocabulary and candidate seed, separated by slashes."""
        parts = (self.dataset, self.split, self.protocol, self.vocabulary, str(self.candidate_seed))
        return "/".join(parts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences a reader should know: what intervals cover, what was left out, what the targets can show."""
        alone = ", ".join(row.model for row in self.rows if len(row.seeds) == 1)
        found = (
            [f"one seed only ({alone}): the interval covers the choice of test triples, not that of seeds"]
            if alone
            else []
        )
        found += [
            f"{run.source} ({run.model}, seed {run.seed}) ended as {run.status} and is not compared"
            for run in self.unfinished
        ]
        return (*found, self._resolves())

    def _resolves(self) -> str:
        sample = f"{self.targets} test triples in {self.clusters} {CLUSTERS[self.cluster]}"
        if self.cluster == "none":
            sample = f"{self.targets} test triples, taken as independent,"
        sample += f" ({1 - self.level:.2g} level, 80 % power)"
        needed, unit = [pair.detectable for pair in self.pairs], tables.heading(self.metric)
        if not needed:
            return (
                f"{sample} tell apart any two models whose errors are not opposed if they differ by "
                f"{self._number(self.bound)} {unit}, most by less; the spread over seeds comes on top"
            )
        least, typical, most = map(self._number, (min(needed), statistics.median(needed), max(needed)))
        over = f" (median of {len(needed)} pairs, {least} to {most})" if len(needed) > 1 else ""
        return f"{sample} and these seeds tell apart models that differ by {typical} {unit}{over}"

    def _number(self, value: float | None) -> str:
        return "" if value is None else tables.number(self.metric, value)

    def table(self, format: str = "text") -> str:  # noqa: A002
        """Return a row per model, then one per run that was left out, in ``text``, ``markdown``, ``latex`` or ``csv``.

        CSV is for programs and has all digits.
        """
        metric = self.metric
        if format == "csv":
            names = ["mean", "deviation", "low", "high", "covers", "best_rank", "worst_rank", "group"]
            headings = ["model", "status", "seeds", *names, "adjusted", "z", *(f"{way}s" for way in DIRECTIONS)]
            exact: list[list[Cell]] = [
                [
                    *(row.model, "ok", len(row.seeds), *map(vars(row).get, names), row.adjusted[metric], row.z[metric]),
                    *(row.directions.get(way, {}).get(metric) for way in DIRECTIONS),
                ]
                for row in self.rows
            ]
            exact += [[run.model, run.status, *[None] * (len(headings) - 2)] for run in self.unfinished]
            return tables.lay_out(headings, exact, format)
        ways = DIRECTIONS if any(row.directions for row in self.rows) else ()
        adjusted = "AMRI" if metric == "mr" else f"Adjusted {tables.heading(metric)}"
        level = f"{100 * self.level:g} % from"
        headings = [
            "Model",
            "Seeds",
            tables.heading(metric),
            "SD",
            level,
            "to",
            "Covers",
            "Rank",
            "Group",
            adjusted,
            "z",
            *(f"{way}s" for way in ways),
        ]
        rows: list[list[Cell]] = [
            [
                row.model,
                len(row.seeds),
                *map(self._number, (row.mean, row.deviation, row.low, row.high)),
                row.covers,
                row.best_rank if row.best_rank == row.worst_rank else f"{row.best_rank}-{row.worst_rank}",
                row.group,
                None if (index := row.adjusted[metric]) is None else f"{index:.4f}",
                None if (z := row.z[metric]) is None else f"{z:.1f}",
                *(self._number(row.directions[way][metric]) for way in ways),
            ]
            for row in self.rows
        ]
        left_out = [f"{run.model} seed {run.seed}: {run.status}" for run in self.unfinished]
        rows += [[label, *[None] * (len(headings) - 1)] for label in left_out]
        return tables.lay_out(headings, rows, format)

    def pair_table(self, format: str = "text") -> str:  # noqa: A002
        """Return the differences between models as a table in the same formats; CSV has all digits."""
        if format == "csv":
            exact = [list(vars(pair).values()) for pair in self.pairs]
            return tables.lay_out([one.name for one in fields(Pair)], exact, format)
        headings = [
            "Better",
            "Worse",
            "Difference",
            f"{100 * self.level:g} % from",
            "to",
            "p",
            "p (Holm)",
            "Detectable",
        ]
        rows = [
            [
                *(pair.first, pair.second),
                *map(self._number, (pair.difference, pair.low, pair.high)),
                *map(_probability, (pair.p_value, pair.corrected)),
                self._number(pair.detectable),
            ]
            for pair in self.pairs
        ]
        return tables.lay_out(headings, rows, format, left=2)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain values, ready for JSON."""
        return asdict(self) | {"detectable": self.detectable, "notes": list(self.notes)}

    def __str__(self) -> str:
        sections = [f"{self.task}: {tables.heading(self.metric)}", self.table()]
        if self.pairs:
            sections.append(self.pair_table())
        return "\n\n".join([*sections, "\n".join(self.notes)])


SMALLEST = 0.0001
"""P-values below this are shown as such."""


def _probability(value: float) -> str:
    return f"<{SMALLEST}" if value < SMALLEST else f"{value:.4f}"
