"""The table of a paper: a user's models beside others, the best in bold, and where a difference is no chance."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from string import ascii_lowercase

from leaderboard.board import reported
from leaderboard.board.board import MOST_SEEN, REGIME_NAMES, REGIMES
from leaderboard.board.rows import BEST, Column, Row, named, of_baseline, of_entry, own_models, scored
from leaderboard.board.tables import BOLD_FROM, BOLD_TO, NONE, OVER, escaped, plain, short
from leaderboard.entries.commands import filling, origin
from leaderboard.entries.entries import Entry
from leaderboard.entries.runs import in_sight
from mtbench.analysis import comparison, seeds
from mtbench.analysis.groups import p_value_over
from mtbench.analysis.significance import holm
from mtbench.data import catalog
from mtbench.errors import DownloadError, shown, typed
from mtbench.files import tables
from mtbench.runs.result import EVALUATOR_VERSION, Result
from mtbench.settings.table import HEADLINE, PROTOCOLS, setting_of, settings_of
from mtbench.version import __version__

KINDS = ("baseline", "printed", "published", "own")
"""The order of the rows."""
LEVEL = 0.05
UP = "\ue004"
"""A mark before letters that a table raises."""
RAISED = {"text": r" \1", "markdown": r"<sup>\1</sup>", "latex": r"\\textsuperscript{\1}"}
WIDE = 4
"""More columns are made as narrow as the text of a paper."""


@dataclass(frozen=True, eq=False)
class PaperTable:
    """A table in a metric, its ``caption``, and ``notes`` below it; ``commands`` make what the user's models lack.

    ``differs`` has the letters of the rows from which a row, by its number, differs in a column.
    """

    metric: str
    rows: Sequence[Row]
    columns: Sequence[Column]
    differs: Mapping[tuple[int, Column], str]
    caption: Sequence[str]
    notes: Sequence[str]
    commands: Sequence[str]

    def leads(self, row: Row, column: Column) -> bool:
        """Tell whether a figure is the best of its column as it is shown, which no printed one or few seeds can be.

        Nothing is the best where a model with few seeds has a better figure. A model that trained with what is asked in
        sight does not count.
        """
        figures = {each: each.figure(column) for each in self.rows if each.kind != "printed" and not _leaked(each)}
        means = {each: round(figure.mean, 3) for each, figure in figures.items() if figure}
        best = (min if self.metric == "mr" else max)(means.values(), default=None)
        return means.get(row) == best and (figure := figures.get(row)) is not None and not figure.few

    def text(self, format: str = "text") -> str:  # noqa: A002
        """Return the table in ``text``, ``markdown``, ``latex`` (with the packages booktabs and graphicx) or ``csv``.

        CSV is for programs: it has a line for each figure, with all digits, and no notes.
        """
        if format == "csv":
            return self._csv()
        headings = ["Model", *(f"{short(column.place)}{OVER}{column.setting.protocol}" for column in self.columns)]
        cells = [
            [
                f"{row.name}{UP * bool(row.letter)}{row.letter}",
                *(self._cell(number, row, each) for each in self.columns),
            ]
            for number, row in enumerate(self.rows)
        ]
        table = re.sub(f"{UP}([a-z]+)", RAISED[format], plain(tables.lay_out(headings, cells, format), format))
        if format == "latex":
            return self._latex(table)
        lacking = ["What lacks is made by", *self.commands] if self.commands else []
        return "\n\n".join([table, ("\n" if format == "text" else "\n\n").join([*self.caption, *self.notes, *lacking])])

    def _cell(self, number: int, row: Row, column: Column) -> str:
        figure, letters = row.figure(column), self.differs.get((number, column), "")
        if figure is None:
            failed = {line.failed for graph, line in row.lines.items() if graph in column.graphs and not line.seeds}
            return ", ".join(sorted(failed)) or NONE
        best = self.leads(row, column)
        return f"{BOLD_FROM * best}{figure}{BOLD_TO * best}{UP * bool(letters)}{letters}"

    def _latex(self, table: str) -> str:
        head, rule, body = table.partition("\\midrule\n")
        lines = body.splitlines()
        for number in reversed(range(1, len(self.rows))):
            if self.rows[number].kind != self.rows[number - 1].kind:
                lines.insert(number, r"\midrule")
        tabular = "\n".join([f"{head}{rule.strip()}", *lines])
        narrow = f"\\resizebox{{\\textwidth}}{{!}}{{%\n{tabular}\n}}"
        return "\n".join(
            [
                *(f"% What lacks is made by {command}" for command in self.commands),
                r"\begin{table*}",
                r"\centering\small",
                rf"\caption{{{' '.join(map(escaped, self.caption))}}}",
                r"\label{tab:mtbench}",
                narrow if len(self.columns) > WIDE else tabular,
                rf"\par\smallskip{{\raggedright\footnotesize {' '.join(map(escaped, self.notes))}\par}}",
                r"\end{table*}",
            ]
        )

    def _csv(self) -> str:
        kept, names = ("mean", "deviation", "seeds"), {row.letter: row.name for row in self.rows}
        headings = ["model", "kind", "graphs", "protocol", "vocabulary", "metric", *kept, "differs_from"]
        cells: list[list[tables.Cell]] = [
            [
                *(row.name, row.kind, column.place, column.setting.protocol, column.setting.vocabulary, self.metric),
                *(getattr(row.figure(column), name, None) for name in kept),
                "; ".join(names[letter] for letter in self.differs.get((number, column), "")),
            ]
            for (number, row), column in product(enumerate(self.rows), self.columns)
        ]
        return tables.lay_out(headings, cells, "csv")


def paper_table(
    folders: Sequence[Path],
    against: Sequence[str] = (),
    *,
    published: Path | None = None,
    datasets: Sequence[str] = (),
    group: str = "",
    protocols: Sequence[str] = (),
    metric: str = "mrr",
) -> PaperTable:
    """Return the table of a paper from the runs in ``folders``, beside the rows of the names ``against``.

    Columns are the ``datasets``, by default those of the runs, or the means over a ``group``, in each of the
    ``protocols``, by default those of the runs, among relations that are present. On a graph differences are tested as
    by `mtbench.compare`, over a group by a paired t-test over its graphs; Holm's correction is for all tests of the
    table. Raises what `leaderboard.board.rows` does, and `UsageError` for runs of different tasks.
    """
    own = own_models(folders)
    runs = [run for entry in own.values() for of_dataset in entry.runs.values() for run in of_dataset]
    asked = {setting for run in runs for setting in run.results}
    protocols = protocols or [name for name in PROTOCOLS if setting_of(name) in asked] or [HEADLINE.protocol]
    settings = settings_of(protocols, [HEADLINE.vocabulary])
    places = {run.headline.dataset for run in runs} or {*reported.datasets()}
    graphs = [catalog.record(name).id for name in datasets] or [name for name in catalog.names() if name in places]
    grouped = [catalog.names(group)] if group else [[graph] for graph in graphs]
    columns = [Column(setting, tuple(each), group) for each in grouped for setting in settings]
    rows = [of_baseline("", columns, metric), *(named(name, published, columns, metric) for name in against)]
    rows += [of_entry(entry, name, "own", columns, metric) for name, entry in own.items()]
    rows.sort(key=lambda row: KINDS.index(row.kind))
    letters = iter(ascii_lowercase)
    tested = [own and row.kind in ("baseline", "published") and row.name != BEST for row in rows]
    rows = [replace(row, letter=next(letters, "")) if test else row for row, test in zip(rows, tested, strict=True)]
    p_values: dict[tuple[int, Column, str], float] = {}
    untested = []
    for column in columns:
        try:
            p_values |= {(number, column, letter): p for number, letter, p in _p_values(rows, column)}
        except DownloadError:
            untested.append(column.place)
    corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    differs = defaultdict[tuple[int, Column], str](str)
    for (number, column, letter), p_value in sorted(corrected.items(), key=lambda item: item[0][2]):
        differs[number, column] += letter * (p_value < LEVEL)
    caption = list(_about(rows, columns, len(corrected)))
    notes = [f"mtbench {__version__}, evaluator version {EVALUATOR_VERSION}."]
    if untested:
        names = list(dict.fromkeys(untested))
        notes.append(f"Not tested, because the data are not here: {shown(names)} ({typed('fetch', *names)}).")
    notes += filter(None, (_about_runs(row, columns) for row in rows))
    return PaperTable(metric, rows, columns, differs, caption, notes, _lacking(rows, columns))


def _leaked(row: Row) -> bool:
    return any(in_sight(result.run.hyperparameters) for results in row.results.values() for result in results)


def _p_values(rows: Sequence[Row], column: Column) -> Iterator[tuple[int, str, float]]:
    """Give the number of a row of the user's, the letter of one it is compared with, and the p-value of a column."""
    own = [number for number, row in enumerate(rows) if row.kind == "own" and row.figure(column)]
    lettered = [number for number, row in enumerate(rows) if row.letter and row.figure(column)]
    if column.group:
        for number, other in product(own, lettered):
            values = [
                [rows[each].figures[graph, column.setting].mean for graph in column.graphs] for each in (number, other)
            ]
            yield number, rows[other].letter, p_value_over(*values)
        return
    key = column.graphs[0], column.setting
    results = {
        number: rows[number].results.get(key) or [scored(rows[number].name.replace(" ", "_"), *key)]
        for number in (*own, *(lettered if own else ()))
    }
    if results:
        seeds.same_task([seeds.Run(rows[number].name, each) for number, of_row in results.items() for each in of_row])
    if own and lettered:
        renamed = [_renamed(each, number) for number, of_row in results.items() for each in of_row]
        for pair in comparison.compare(renamed, rows[0].metric).pairs:
            for number, other in ((int(pair.first), int(pair.second)), (int(pair.second), int(pair.first))):
                if number in own and other in lettered:
                    yield number, rows[other].letter, pair.p_value


def _renamed(result: Result, number: int) -> Result:
    """Return a result whose model is a row: `compare` would tell models by the settings of their runs, too."""
    run = replace(result.run, model=str(number), hyperparameters={}, pretraining_graphs=(), regime="zero-shot")
    return replace(result, run=run)


def _about(rows: Sequence[Row], columns: Sequence[Column], tests: int) -> Iterator[str]:
    """Give what is to be known of a whole table."""
    group = columns[0].group
    yield (
        f"{tables.heading(rows[0].metric)}, {f'mean over the graphs of {group}, ' * bool(group)}mean over seeds and "
        "deviation, ties averaged, relation types that are present. Bold: the best, unless it has fewer than three "
        "seeds. A dash: not run."
    )
    if names := [f"{row.letter}: {row.name}" for row in rows if row.letter]:
        sampled = "t-test over graphs" if group else "bootstrap over seeds and test triples"
        yield (
            f"Letters: differs from {', '.join(names)} at the level {LEVEL:g} (paired {sampled}, Holm's correction for "
            f"{tests} test{'s' * (tests != 1)})."
        )
    for regime in REGIMES:
        if names := [row.name for row in rows if regime in {line.regime for line in row.lines.values()}]:
            yield f"{REGIME_NAMES[regime]}: {', '.join(names)}."


def _about_runs(row: Row, columns: Sequence[Column]) -> str:
    """Return what is to be known of a row: coverage, seeds, ties, what ended early, and what it may have seen."""
    if row.entry is None:
        return row.remark
    keys = [(graph, column.setting) for column in columns for graph in column.graphs]
    if not row.results and (known := _protocols(row.entry, {graph for graph, _ in keys})):
        protocols = ", ".join(f"--protocol {name}" for name in known)
        return f"{row.name}: no figure in these columns; its runs have {protocols}."
    numbers = sorted({len(of_task) for of_task in row.results.values()})
    seeded = " to ".join(map(str, dict.fromkeys(numbers[:1] + numbers[-1:]))) or "none"
    ties = max((each.tie_rate for of_task in row.results.values() for each in of_task), default=0.0)
    remarks = ["trained with what is asked in sight, a leak: not to be reported"] if _leaked(row) else []
    remarks += [f"{len(row.results)} of {len(keys)} figures", f"seeds: {seeded}", f"at most {ties:.1%} of ranks tied"]
    for graph, line in row.lines.items():
        remarks += [f"{status} on {graph}, seed {seed}" for seed, status in line.unfinished.items()]
    absent = [graph for graph in dict.fromkeys(graph for graph, _ in keys) if graph not in row.lines]
    for what, graphs in (
        ("not run on", absent),
        (
            f"has seen more than {MOST_SEEN:.0%} of the test triples of",
            [name for name, each in row.lines.items() if each.seen],
        ),
        ("nobody has counted what it has seen of", [name for name, each in row.lines.items() if each.unmeasured]),
    ):
        remarks += [f"{what} {shown(graphs)}"] if graphs else []
    declared = [f"contaminated: {row.entry.card.contaminated}"] if row.entry.card.contaminated else []
    return f"{row.name}: {'; '.join([*remarks, *declared])}."


def _protocols(entry: Entry, graphs: Collection[str]) -> list[str]:
    """Return the protocols that finished runs of an entry on some graphs were scored in."""
    runs = [run for graph in graphs for run in entry.runs.get(graph, ()) if run.headline.run.status == "ok"]
    return sorted({setting.protocol for run in runs for setting in run.results})


def _lacking(rows: Sequence[Row], columns: Sequence[Column]) -> list[str]:
    """Return the commands that make what the user's models lack: one, where all of it belongs into one grid."""
    settings = dict.fromkeys(column.setting for column in columns)
    graphs = dict.fromkeys(graph for column in columns for graph in column.graphs)
    lacking = []
    for entry in (row.entry for row in rows if row.kind == "own" and row.entry):
        runs = {(graph, run.headline.run.seed): run for graph, of_graph in entry.runs.items() for run in of_graph}
        for graph, seed in product(graphs, sorted({seed for _, seed in runs})):
            run = runs.get((graph, seed))
            if run is None or (run.headline.run.status == "ok" and not settings.keys() <= run.results.keys()):
                lacking.append((origin(run or next(iter(runs.values()))), graph, seed, run))
    return filling(lacking, [word for setting in settings for word in ("--protocol", setting.protocol)])
