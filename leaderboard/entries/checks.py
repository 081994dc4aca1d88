"""Is an entry what it says it is: every file, figure, hash and claim checked offline, problems by name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from leaderboard.entries import runs as run_checks
from leaderboard.entries.cards import (
    CARD_FILE,
    SLUG,
    TRAIN,
    Card,
    Problem,
    SubmissionError,
    parse,
    quote,
    read_table,
    skeleton,
)
from leaderboard.entries.entries import Entry, Watch, account, folders, of_runs, unwatched
from leaderboard.entries.runs import RunRead
from mtbench.ranking.ranks import Ranks
from mtbench.runs.directory import Run, RunDirectory
from mtbench.runs.result import FIGURES, of_saved
from mtbench.settings.setting import Setting
from mtbench.settings.table import HEADLINE


@dataclass(frozen=True)
class Examined:
    """One entry by itself: what is wrong with it, whether it can be read at all, and what compares it with others."""

    slug: str
    problems: tuple[Problem, ...]
    readable: bool
    card: Card | None = None
    runs: tuple[RunRead, ...] = ()

    def prints(self) -> Iterator[tuple[tuple[str, Setting, str], RunRead]]:
        """Return the fingerprints of ranks that no other model has by chance, by dataset and setting, with the runs."""
        for run in self.runs:
            for setting, scored in run.results.items():
                if scored.ranks is not None and (print_ := run_checks.fingerprint(scored.ranks)):
                    yield (run.headline.dataset, setting, print_), run


def check(directory: Path, others: Iterable[Path] = ()) -> list[Problem]:
    """Return everything that does not hold of an entry, remarks included; ``others`` are entries it must not repeat.

    Nothing is downloaded and no dataset is needed: figures are recomputed from the counts beside them, hashes are
    compared with the catalogue, claims of the card with what the runs say. Files are accounted for by name, kind
    and size before they are opened, and nothing outside of the entry is. Baselines cannot be recomputed, but they
    are published. Nothing is raised for an entry that is broken or hostile; that the counts came from the model
    which the card names is for people to believe.
    """
    found = examine(directory)
    compared = _compared([found, *map(examine, others)])
    return [*found.problems, *compared[found.slug]]


def check_all(root: Path) -> dict[str, list[Problem]]:
    """Return what does not hold of each entry below ``root``, by slug; raises `SubmissionError` where there is none."""
    return {one.slug: list(one.problems) for one in _examined(root)}


def gather(root: Path, watch: Watch = unwatched) -> tuple[list[Entry], dict[str, tuple[str, ...]]]:
    """Return the entries below ``root`` that are safe to show, and by slug why entries are not ranked, as sentences.

    An entry with a file that cannot be read, or must not be shown, is left out of the first; remarks are left out of
    the second: what is incomplete or outdated a board says of itself (`leaderboard.board.ranking.rank`).
    """
    found = _examined(root, watch)
    wrong = {one.slug: tuple(str(problem) for problem in one.problems if not problem.remark) for one in found}
    entries = [_entry(root / one.slug, one.card, one.runs) for one in found if one.readable and one.card]
    return entries, {slug: some for slug, some in wrong.items() if some}


def _entry(directory: Path, card: Card, runs: Iterable[RunRead]) -> Entry:
    made = []
    for run in runs:
        results = {setting: of_saved(one.saved, one.ranks or Ranks.empty()) for setting, one in run.results.items()}
        made.append(Run(RunDirectory(directory.parent / run.where), results))
    return of_runs(directory, card, made)


def _examined(root: Path, watch: Watch = unwatched) -> list[Examined]:
    alone = [examine(directory) for directory in watch(folders(root), "reading entries")]
    compared = _compared(alone)
    return [replace(one, problems=(*one.problems, *compared[one.slug])) for one in alone]


def examine(directory: Path) -> Examined:
    """Return what is wrong with an entry by itself."""
    directory = directory if directory.is_symlink() else directory.resolve()
    slug = directory.name
    try:
        inside = account(directory)
    except OSError as error:
        return Examined(slug, (Problem("unreadable", slug, f"cannot be listed ({error.strerror})"),), readable=False)
    problems = list(inside.problems)
    if not SLUG.fullmatch(slug):
        message = "an entry is named with small letters, digits, dots, hyphens and underscores, 64 at most: rename it"
        problems.append(Problem("slug", slug, message))
    card: Card | None = None
    try:
        if CARD_FILE in inside.files or not (directory / CARD_FILE).exists():
            card = parse(read_table(directory / CARD_FILE))
    except SubmissionError as error:
        sentence = f"{error}; mtbench submit --help lists its fields"
        problems.append(Problem("card", f"{slug}/{CARD_FILE}", sentence))
    read = []
    for folder in sorted({"/".join(name.split("/")[:2]) for name in inside.files if name.count("/") >= 2}):
        run, found = run_checks.read(directory, folder, inside.files)
        problems += found
        read += [run] if run.results else []
    if not read:
        problems.append(Problem("empty", slug, "holds no runs: mtbench submit lays them out"))
    readable = not problems
    for run in read:
        problems += run_checks.held(run)
    # What contradicts its own counts is no figure to show, ranked or not.
    readable = readable and not any(one.name in FIGURES for one in problems)
    if card is not None and read:
        problems += _claims(slug, card, read)
    problems += _layout(read)
    problems += _seeds(slug, read)
    return Examined(slug, tuple(problems), readable, card, tuple(read))


def _layout(read: Sequence[RunRead]) -> Iterator[Problem]:
    for run in read:
        name, seed = run.headline.dataset, run.headline.seed
        folder = f"{name.replace('/', '-')}/seed{seed}"
        if run.where.partition("/")[2] != folder:
            yield Problem("folder", run.where, f"holds {name}, seed {seed}: it belongs into {folder}")


def _seeds(slug: str, read: Sequence[RunRead]) -> Iterator[Problem]:
    """Check that the runs on a dataset are seeds of one model: the same settings, and no seed twice."""
    by_dataset: dict[str, list[RunRead]] = defaultdict(list)
    for run in read:
        by_dataset[run.headline.dataset].append(run)
    for name, some in by_dataset.items():
        seeds = [run.headline.seed for run in some]
        for seed in sorted({seed for seed in seeds if seeds.count(seed) > 1}):
            yield Problem("seed", slug, f"seed {seed} of {name} is there {seeds.count(seed)} times: keep one run of it")
        finished = [run for run in some if run.headline.status == "ok"]
        for run in finished[1:]:
            yield from _settings(finished[0], run)


def _settings(first: RunRead, run: RunRead) -> Iterator[Problem]:
    one, other = first.headline.hyperparameters, run.headline.hyperparameters
    for key in sorted(one.keys() & other.keys()):
        if one[key] != other[key]:
            sentence = f"{key} is {quote(other[key])}, in {{other}} {quote(one[key])}: submit them as two entries"
            yield Problem("settings", run.where, sentence, first.where)
    if unsaid := sorted(one.keys() ^ other.keys()):
        sentence = f"{', '.join(unsaid[:8])}: recorded here or in {{other}}, not in both"
        yield Problem("settings", run.where, sentence, first.where, remark=True)


def _claims(slug: str, card: Card, read: Sequence[RunRead]) -> Iterator[Problem]:
    """Compare what the card says with what the runs say; a run that never began knows no more than its name."""
    for run in read:
        info = run.headline
        if info.model != card.model:
            yield Problem("model", run.where, f"is of {quote(info.model)}, the card says {quote(card.model)}: {_MEND}")
        if info.regime != card.regime and info.status == "ok":
            yield Problem("regime", run.where, f"is {info.regime}, the card says {card.regime}: {_MEND}")
    graphs = foreign((run.headline.dataset, run.headline.pretraining_graphs) for run in read)
    for graph in sorted(graphs - set(card.pretraining_graphs)):
        yield Problem("pretraining", slug, f"the runs learned from {quote(graph)}, the card lacks it: {_MEND}")
    for graph in sorted(set(card.pretraining_graphs) - graphs):
        yield Problem("pretraining", slug, f"the card names {quote(graph)}, no run learned from it: {_MEND}")


_MEND = f"mend {CARD_FILE}, or submit the right runs"


def foreign(learned: Iterable[tuple[str, Iterable[str]]]) -> set[str]:
    """Return the graphs that runs on datasets learned from besides the training graph of each dataset."""
    return {graph for dataset, graphs in learned for graph in graphs if graph != f"{dataset}{TRAIN}"}


def _taken(one: Examined, entries: Sequence[Examined]) -> Iterator[Problem]:
    """Say which of its names an entry does not own: whose folder is called as its own name does, else the oldest."""
    for name in dict.fromkeys((one.card.model, one.card.name) if one.card else ()):
        claims = [
            _claim(other, theirs)
            for other in entries
            for theirs in ((other.card.model, other.card.name) if other.card else ())
            if skeleton(name) == skeleton(theirs)
        ]
        if (owner := min(claims)[-1]) != one.slug:
            message = f"{quote(name)} is, or looks like, the name of the entry {owner}: choose another"
            yield Problem("name", f"{one.slug}/{CARD_FILE}", message)


LATEST = "9999-12-31"
"""The day of a card that tells none."""


def _claim(one: Examined, name: str) -> tuple[bool, str, str]:
    """Return what is least for the owner of what several entries have: whose folder its name is, else the oldest."""
    return skeleton(name) != skeleton(one.slug), (one.card and one.card.date) or LATEST, one.slug


def _compared(entries: Sequence[Examined]) -> dict[str, list[Problem]]:
    """Compare entries with each other: no name and no ranks twice; who owns them has no problem."""
    found: dict[str, list[Problem]] = {one.slug: list(_taken(one, entries)) for one in entries}
    claims = {one.slug: _claim(one, one.card.model if one.card else "") for one in entries}

    def owned(run: RunRead) -> tuple[tuple[bool, str, str], str]:
        return claims[run.where.partition("/")[0]], run.where

    owners: dict[tuple[str, Setting, str], list[RunRead]] = defaultdict(list)
    headlines: dict[str, list[RunRead]] = defaultdict(list)
    for entry in entries:
        for (dataset, setting, hashed), run in entry.prints():
            owners[dataset, setting, hashed].append(run)
            if setting == HEADLINE:
                headlines[dataset].append(run)
    copies: dict[tuple[str, str], list[str]] = defaultdict(list)
    runs: dict[str, RunRead] = {}
    for (_, setting, _), some in owners.items():
        source, *others = sorted(some, key=owned)
        for run in others:
            runs[run.where] = run
            copies[run.where, source.where].append(setting.name)
    for (where, of), tasks in sorted(copies.items()):
        slug, drawn = where.partition("/")[0], run_checks.drawn(runs[where].headline)
        if other := slug != of.partition("/")[0]:
            told = "submit what your own model scored, or delete one of the two"
        elif drawn:
            told = f"{', '.join(drawn)} make a run depend on its seed; run each seed, or submit one of them"
        else:
            told = "a model without randomness, or a copy"
        sentence = f"the ranks of {', '.join(sorted(tasks))} are those of {{other}}: {told}"
        found[slug].append(Problem("copy", where, sentence, of, remark=not (other or drawn)))
    for some in headlines.values():
        for problem in _nearly(sorted(some, key=owned)):
            found[problem.where.partition("/")[0]].append(problem)
    return found


def _nearly(runs: Sequence[RunRead]) -> Iterator[Problem]:
    """Say of which earlier run a run has all but a few ranks of the headline."""
    counts = [
        (run.where, Counter(run_checks.rows(ranks)))
        for run in runs
        if (ranks := run.results[HEADLINE].ranks) is not None
    ]
    told = set()
    for (source, theirs), (where, own) in combinations(counts, 2):
        apart = own.total() - (own & theirs).total()
        if where not in told and 0 < apart <= max(1, own.total() // run_checks.NEAR):
            told.add(where)
            what = f"all but {apart} of {own.total()} ranks of {HEADLINE.name} are those of {{other}}"
            sentence = f"{what}: a copy, or two models that are very much alike"
            yield Problem("near_copy", where, sentence, source, remark=True)
