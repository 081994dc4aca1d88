"""Checks of entries: every file, figure, hash and claim, offline, with problems by name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from leaderboard.entries.verified import OURS
from mtbench.files.hashing import file_hash
from mtbench.ranking.ranks import Ranks
from mtbench.runs.directory import Run, RunDirectory
from mtbench.runs.result import FIGURES, of_saved
from mtbench.settings.setting import Setting
from mtbench.settings.table import HEADLINE, setting_of

FULL = setting_of("full")


@dataclass(frozen=True)
class Examined:
    """One entry by itself: its problems, whether it is safe to show, and what is compared with other entries.

    ``weights`` are the hashes of its files of weights, each with the first place where it lies.
    """

    slug: str
    problems: tuple[Problem, ...]
    readable: bool
    card: Card | None = None
    runs: tuple[RunRead, ...] = ()
    weights: Mapping[str, str] = field(default_factory=dict)

    @property
    def alike(self) -> bool:
        """Whether its card says why its weights or its ranks are those of another entry."""
        return self.card is not None and bool(self.card.alike)

    def prints(self) -> Iterator[tuple[tuple[str, Setting, str], RunRead]]:
        """Give dataset, setting and fingerprint of all ranks that no two models have by chance, with their runs."""
        for run in self.runs:
            for setting, scored in run.results.items():
                if scored.ranks is not None and (print_ := run_checks.fingerprint(scored.ranks)):
                    yield (run.headline.dataset, setting, print_), run


def check(directory: Path, others: Iterable[Path] = ()) -> list[Problem]:
    """Return all problems of an entry, remarks included; ``others`` are entries that it must not repeat.

    Nothing is downloaded and no dataset is needed: figures are recomputed from the counts beside them, hashes are
    compared with the catalogue, and claims of the card with the runs. Files are checked by name, kind and size before
    they are opened, and nothing outside of the entry is opened. Baselines cannot be recomputed, and are compared with
    the published ones. A broken or hostile entry raises nothing. Whether the counts come from the model that the card
    names, no check can tell.
    """
    entry = examine(directory)
    compared = _compared([entry, *map(examine, others)])
    return [*entry.problems, *compared[entry.slug]]


def check_all(root: Path) -> dict[str, list[Problem]]:
    """Return the problems of all entries below ``root``, by slug; raises `SubmissionError` where there is no entry."""
    return {entry.slug: list(entry.problems) for entry in _examined(root)}


def gather(root: Path, watch: Watch = unwatched) -> tuple[list[Entry], dict[str, tuple[str, ...]]]:
    """Return the entries below ``root`` that are safe to show, and by slug the sentences why entries are not ranked.

    The first leaves out entries with a file that cannot be read or must not be shown. The second leaves out remarks: a
    board finds by itself what is incomplete or outdated (`leaderboard.board.ranking.rank`).
    """
    examined = _examined(root, watch)
    wrong = {entry.slug: tuple(str(problem) for problem in entry.problems if not problem.remark) for entry in examined}
    entries = [_entry(root / entry.slug, entry.card, entry.runs) for entry in examined if entry.readable and entry.card]
    return entries, {slug: sentences for slug, sentences in wrong.items() if sentences}


def _entry(directory: Path, card: Card, runs: Iterable[RunRead]) -> Entry:
    made = []
    for run in runs:
        results = {
            setting: of_saved(scored.saved, scored.ranks or Ranks.empty()) for setting, scored in run.results.items()
        }
        made.append(Run(RunDirectory(directory.parent / run.where), results))
    return of_runs(directory, card, made)


def _examined(root: Path, watch: Watch = unwatched) -> list[Examined]:
    alone = [examine(directory) for directory in watch(folders(root), "reading entries")]
    compared = _compared(alone)
    return [replace(entry, problems=(*entry.problems, *compared[entry.slug])) for entry in alone]


def examine(directory: Path) -> Examined:
    """Return an entry by itself with its problems."""
    # A link stays one, to be refused below; any other path is resolved for the name of its folder.
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
        run, run_problems = run_checks.read(directory, folder, inside.files)
        problems += run_problems
        read += [run] if run.results else []
    if not read:
        problems.append(Problem("empty", slug, "holds no runs: mtbench submit lays them out"))
    readable = not problems
    for run in read:
        problems += run_checks.held(run)
    # Figures that contradict their own counts are not shown, ranked or not.
    readable = readable and not any(problem.name in FIGURES for problem in problems)
    if card is not None and read:
        problems += _claims(slug, card, read)
    problems += _layout(read)
    problems += _seeds(slug, read)
    blobs = {
        file_hash(directory / name): f"{slug}/{name}" for name in sorted(inside.files) if name.endswith(".safetensors")
    }
    for run in read:
        parameters = run.headline.hyperparameters.items()
        blobs |= {str(value): f"{run.where} ({key})" for key, value in parameters if key.endswith(WEIGHTS)}
    return Examined(slug, tuple(problems), readable, card, tuple(read), blobs)


WEIGHTS = "_sha256"
"""What a hyper-parameter that is the hash of a file of weights ends with."""


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
    firsts: list[RunRead] = []
    for name, of_dataset in by_dataset.items():
        seeds = [run.headline.seed for run in of_dataset]
        for seed in sorted({seed for seed in seeds if seeds.count(seed) > 1}):
            yield Problem("seed", slug, f"seed {seed} of {name} is there {seeds.count(seed)} times: keep one run of it")
        finished = [run for run in of_dataset if run.headline.status == "ok"]
        for run in finished[1:]:
            yield from _settings(finished[0], run)
        firsts += finished[:1]
    for run in firsts[1:]:
        yield from _settings(firsts[0], run, WEIGHTS)


def _settings(first: RunRead, run: RunRead, ending: str = "") -> Iterator[Problem]:
    """Give the settings, of those whose name ends so, in which two runs differ."""
    ours, theirs = (
        {key: value for key, value in each.headline.hyperparameters.items() if key.endswith(ending)}
        for each in (first, run)
    )
    for key in sorted(ours.keys() & theirs.keys()):
        if ours[key] != theirs[key]:
            sentence = f"{key} is {quote(theirs[key])}, in {{other}} {quote(ours[key])}: submit them as two entries"
            yield Problem("settings", run.where, sentence, first.where)
    if unsaid := sorted(ours.keys() ^ theirs.keys()):
        sentence = f"{', '.join(unsaid[:8])}: recorded here or in {{other}}, not in both"
        yield Problem("settings", run.where, sentence, first.where, remark=True)


def _claims(slug: str, card: Card, read: Sequence[RunRead]) -> Iterator[Problem]:
    """Compare the card with the runs; a run that failed knows no more than the name of its model."""
    for run in read:
        info = run.headline
        if info.model != card.model:
            yield Problem("model", run.where, f"is of {quote(info.model)}, the card says {quote(card.model)}: {_MEND}")
        if info.regime != card.regime and info.status == "ok":
            yield Problem("regime", run.where, f"is {info.regime}, the card says {card.regime}: {_MEND}")
    graphs = foreign((run.headline.dataset, run.headline.pretraining_graphs) for run in read)
    if card.retrained and slug not in OURS:
        sentence = "the card says retrained, which only the maintainers say of entries that they made: leave it out"
        yield Problem("retrained", f"{slug}/{CARD_FILE}", sentence)
    for graph in sorted(graphs - set(card.pretraining_graphs)):
        yield Problem("pretraining", slug, f"the runs learned from {quote(graph)}, the card lacks it: {_MEND}")
    for graph in sorted(set(card.pretraining_graphs) - graphs):
        yield Problem("pretraining", slug, f"the card names {quote(graph)}, no run learned from it: {_MEND}")


_MEND = f"mend {CARD_FILE}, or submit the right runs"


def foreign(learned: Iterable[tuple[str, Iterable[str]]]) -> set[str]:
    """Return the graphs that runs on datasets learned from besides the training graph of each dataset."""
    return {graph for dataset, graphs in learned for graph in graphs if graph != f"{dataset}{TRAIN}"}


def _taken(entry: Examined, entries: Sequence[Examined]) -> Iterator[Problem]:
    """Give the names of an entry that another one owns: see `_claim`."""
    for name in dict.fromkeys((entry.card.model, entry.card.name) if entry.card else ()):
        claims = [
            _claim(rival, theirs)
            for rival in entries
            for theirs in ((rival.card.model, rival.card.name) if rival.card else ())
            if skeleton(name) == skeleton(theirs)
        ]
        if (owner := min(claims)[-1]) != entry.slug:
            message = f"{quote(name)} is, or looks like, the name of the entry {owner}: choose another"
            yield Problem("name", f"{entry.slug}/{CARD_FILE}", message)


LATEST = "9999-12-31"
"""Stands for the date of a card without one."""


def _claim(entry: Examined, name: str) -> tuple[bool, bool, str, str]:
    """Return a key that is smallest for the owner of a name or of ranks.

    That is an entry whose runs the maintainers made, then one whose folder has the name, then the oldest: a date can be
    made up.
    """
    date = (entry.card and entry.card.date) or LATEST
    return entry.slug not in OURS, skeleton(name) != skeleton(entry.slug), date, entry.slug


def _compared(entries: Sequence[Examined]) -> dict[str, list[Problem]]:
    """Compare entries with each other: a name or ranks that two of them have are a problem of all but the owner."""
    problems: dict[str, list[Problem]] = {examined.slug: list(_taken(examined, entries)) for examined in entries}
    claims = {examined.slug: _claim(examined, examined.card.model if examined.card else "") for examined in entries}

    def owned(run: RunRead) -> tuple[tuple[bool, bool, str, str], str]:
        return claims[run.where.partition("/")[0]], run.where

    owners: dict[tuple[str, Setting, str], list[RunRead]] = defaultdict(list)
    nearly: dict[tuple[str, Setting], list[RunRead]] = defaultdict(list)
    for entry in entries:
        for (dataset, setting, hashed), run in entry.prints():
            owners[dataset, setting, hashed].append(run)
            if setting in (HEADLINE, FULL):
                nearly[dataset, setting].append(run)
    copies: dict[tuple[str, str], list[str]] = defaultdict(list)
    runs: dict[str, RunRead] = {}
    # One problem per pair of runs, with all settings in which they agree.
    for (_, setting, _), same_ranks in owners.items():
        source, *others = sorted(same_ranks, key=owned)
        for run in others:
            runs[run.where] = run
            copies[run.where, source.where].append(setting.name)
    for (where, of), tasks in sorted(copies.items()):
        slug, drawn = where.partition("/")[0], run_checks.drawn(runs[where].headline)
        if foreign_entry := slug != of.partition("/")[0]:
            advice = "submit what your own model scored, or delete one of the two"
        elif drawn:
            advice = f"{', '.join(drawn)} make a run depend on its seed; run each seed, or submit one of them"
        else:
            advice = "a model without randomness, or a copy"
        sentence = f"the ranks of {', '.join(sorted(tasks))} are those of {{other}}: {advice}"
        problems[slug].append(Problem("copy", where, sentence, of, remark=not (foreign_entry or drawn)))
    alike = {entry.slug for entry in entries if entry.alike}
    for (_, setting), of_dataset in nearly.items():
        for problem in _nearly(sorted(of_dataset, key=owned), setting, alike):
            problems[problem.where.partition("/")[0]].append(problem)
    inside = sorted((run for entry in entries for run in entry.runs), key=owned)
    for problem in (*_same_weights(sorted(entries, key=lambda entry: claims[entry.slug])), *_numbers(inside)):
        problems[problem.where.partition("/")[0]].append(problem)
    return problems


def _numbers(runs: Iterable[RunRead]) -> Iterator[Problem]:
    """Give the runs whose targets have other numbers of candidates than those of an earlier run on the same task."""
    known: dict[tuple[object, ...], tuple[str, str]] = {}
    for run in runs:
        for setting, scored in run.results.items():
            if scored.ranks is None:
                continue
            saved, own = scored.saved, run_checks.numbers(scored.ranks)
            task = saved.dataset, saved.dataset_version, saved.evaluator_version, saved.candidate_seed, setting
            theirs, of = known.setdefault(task, (own, run.where))
            if own != theirs:
                sentence = f"the targets of {setting.name} have other numbers of candidates than in {{other}}"
                yield Problem("numbers", run.where, f"{sentence}; evaluate again and submit that", of)


SAY = f'write alike = "WHY" into {CARD_FILE}, or submit your own'


def _same_weights(entries: Sequence[Examined]) -> Iterator[Problem]:
    """Give the entries with a file of weights of an earlier one, blob by blob: a problem until the card says why."""
    owners: dict[str, str] = {}
    for entry in entries:
        if taken := [(place, owners[blob]) for blob, place in entry.weights.items() if blob in owners]:
            place, of = taken[0]
            sentence = (
                f"{len(taken)} of its {len(entry.weights)} files of weights are another's, this one {{other}}: {SAY}"
            )
            yield Problem("weights", place, sentence, of, remark=entry.alike)
        owners = {**entry.weights, **owners}


def _apart(own: Counter[tuple[int, ...]], theirs: Counter[tuple[int, ...]], few: int) -> int:
    """Return how many ranks are not among others, in any order, because a copy may be shuffled; a larger number than
    ``few`` for more than those.
    """
    apart = 0
    for row, times in own.items():
        apart += max(0, times - theirs.get(row, 0))
        if apart > few:
            break
    return apart


def _nearly(runs: Sequence[RunRead], setting: Setting, alike: Collection[str]) -> Iterator[Problem]:
    """Give the runs that have all but a few ranks of an earlier run: of another entry a problem, if nobody says why."""
    counts = [
        (run.where, Counter(run_checks.rows(ranks)))
        for run in runs
        if (ranks := run.results[setting].ranks) is not None
    ]
    reported = set()
    for (source, theirs), (where, own) in combinations(counts, 2):
        few = max(1, own.total() // run_checks.NEAR)
        if where not in reported and 0 < (apart := _apart(own, theirs, few)) <= few:
            reported.add(where)
            slug = where.partition("/")[0]
            what = f"all but {apart} of {own.total()} ranks of {setting.name} are those of {{other}}"
            sentence = f"{what}: a copy, or two models that are very much alike: {SAY}"
            own_seed = slug == source.partition("/")[0]
            yield Problem("near_copy", where, sentence, source, remark=own_seed or slug in alike)
