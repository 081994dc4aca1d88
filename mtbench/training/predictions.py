"""What a finished model is asked: the most plausible triples of a graph by name, and why a run ranked some so."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mtbench.builders import folders
from mtbench.data import catalog
from mtbench.data.graphs import keys
from mtbench.data.loading import load
from mtbench.data.ragged import evenly
from mtbench.data.splits import Dataset, Split, among, unique
from mtbench.errors import UnknownNameError, UsageError, nearest, shown, typed
from mtbench.files.reading import expanded
from mtbench.names import COLUMN, KEPT, SIDES, FloatArray, IntArray, NameArray, Scorer, Side
from mtbench.ranking.scorers import joined, score_listed, ways
from mtbench.runs import result as results
from mtbench.runs.directory import CHECKPOINTS, RunDirectory, find
from mtbench.runs.origin import splits_of
from mtbench.training import models
from mtbench.training.models import Context, Explanation, Model, context_of, remaking

ENDINGS = ("-3g", "-foundation")
"""What names of models with weights of their own end in: the first there is is meant where a name needs training."""

BATCH = 1 << 16

EXPLAINED = 3
"""So many targets are explained where none is named."""

MOST_COMPARED = 100_000
"""Of so many names at most, the nearest to one that is not there are looked for: it takes seconds."""


@dataclass(frozen=True)
class Question:
    """Two names of a triple: what is asked for is the third. Raises `UsageError` for one name, or three."""

    head: str | None = None
    relation: str | None = None
    tail: str | None = None

    def __post_init__(self) -> None:
        if sum(name is None for name in self.names.values()) != 1:
            raise UsageError("give two of head, relation and tail: the third is what is asked for")

    @property
    def names(self) -> Mapping[Side, str | None]:
        """The names by side, None for what is asked for."""
        return {"head": self.head, "relation": self.relation, "tail": self.tail}

    @property
    def side(self) -> Side:
        """What is asked for."""
        return next(side for side in SIDES if self.names[side] is None)

    def __str__(self) -> str:
        return f"({', '.join(name or '?' for name in self.names.values())})"


@dataclass(frozen=True)
class Prediction:
    """A triple by name, its score, and whether it is in the graph already, or known besides."""

    head: str
    relation: str
    tail: str
    score: float
    known: bool


def predict(
    model: str,
    graph: str | Path | Split,
    head: str | None = None,
    relation: str | None = None,
    tail: str | None = None,
    *,
    top: int = 10,
    known: bool = False,
) -> list[Prediction]:
    """Return the ``top`` triples of a graph that a model with weights of its own finds most plausible, best first.

    Two of ``head``, ``relation`` and ``tail`` are given by name, the third is asked for: every entity, or every
    relation with an observable triple, takes its place. Triples that are in the graph or known besides are left out, as
    in filtered rankings, unless they are wanted as ``known``. ``graph`` is what `graph_of` takes. A score says nothing
    but which of two triples of one answer is more plausible.

    Raises `UsageError` for names that the graph does not have, with the nearest it has.
    """
    split = graph if isinstance(graph, Split) else graph_of(graph)
    return answers(model, split, Question(head, relation, tail), top=top, known=known)[1]


def graph_of(source: str | Path) -> Split:
    """Return the observable graph of a file of triples by name (text, CSV or Parquet), or of a dataset.

    Of a dataset, by name or directory, it is the test graph, with what is known besides. A name of the catalogue is no
    file.
    """
    path = expanded(source)
    named = isinstance(source, str) and catalog.find(source) is not None
    if path.is_file() and not named:
        return folders.read_graph(path)
    try:
        test = load(source).test
        return replace(test.observable(), known=test.known)
    except UnknownNameError as error:
        if named or path.is_dir():
            raise
        beside = [str(path.with_name(other.name)) for other in path.parent.glob("*")]
        near = nearest(str(path), beside) or nearest(str(source), catalog.choices(str(source)))
        hint = f"did you mean {' or '.join(near)}?" if near else "mtbench list shows the datasets"
        raise UsageError(f"{source} is no file, directory or dataset: {hint}") from error


def answers(
    model: str,
    split: Split,
    question: Question,
    *,
    run: Path | None = None,
    dataset: str | None = None,
    top: int = 10,
    known: bool = False,
) -> tuple[str, list[Prediction]]:
    """Return the name of the model that answered, and its ``top`` answers to a question; see `predict`.

    Its weights are its own or those of a ``run`` of it, made on ``dataset`` where that is not released; one that
    adapts is trained for a graph other than the run's own. Raises `UsageError` for names that the graph does not
    have, for a model that has to be trained first, and for a run that is unfinished or has no checkpoints;
    `ResultError` for a run on another dataset.
    """
    triples = asked(split, question, top)
    with ExitStack() as stack:
        if run is None:
            made = _ready(model, split)
        else:
            made = _trained(model, run, dataset, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        score = made.scorer(split.observable())
        return made.info.name, best(score, split, question.side, triples, top=top, known=known)


def _ready(name: str, split: Split) -> Model:
    installed = models.names()
    name = next((other for ending in ENDINGS if (other := f"{name}{ending}") in installed), name)
    model = models.factory(name)(Context(split.dataset))
    if model.info.pretraining_graphs is None:
        ready = [other for other in installed if other.endswith(ENDINGS)]
        raise UsageError(
            f"{name} has no weights before it is trained: name a run of it with --run RUN, or take a model that brings "
            f"weights ({', '.join(ready) or 'none is installed'})"
        )
    return model


def _trained(name: str, run: Path, dataset: str | None, folder: Path) -> Model:
    directory = find(run)
    result = results.load(directory)
    made = result.run.model
    if made != name and made in models.names():
        again = typed("score-with", made, "...", "--run", run)
        raise UsageError(f"{run} is a run of {made}, not of {name}: {again}")
    if result.run.status != "ok":
        raise UsageError(f"{run} did not finish ({result.run.status}): run its command again, with --force")
    given = load(dataset) if dataset is not None else None
    splits_of(result, given)
    data = given or load(result.dataset)
    RunDirectory(directory).copy_checkpoints(folder / CHECKPOINTS)
    make = models.factory(name)
    with remaking(result.run, result.dataset, directory):
        model = make(context_of(result.run, result.dataset, "auto", folder / CHECKPOINTS))
        model.fit(data.train, data.valid)
    return model


def asked(split: Split, question: Question, top: int) -> IntArray:
    """Return the triples ``(n, 3)`` that may answer a question; raises `UsageError` for one that cannot be asked."""
    if top < 1:
        raise UsageError(f"top must be at least 1, not {top}")
    side = question.side
    pair = [_id(split, other, str(question.names[other])) for other in KEPT[side]]
    ids: IntArray = unique(split.graph[:, COLUMN[side]]) if side == "relation" else np.arange(split.num_entities)
    return joined(side, np.array([pair]), np.zeros(len(ids), dtype=np.int64), ids)


def best(
    score: Scorer, split: Split, side: Side, triples: IntArray, *, top: int = 10, known: bool = False
) -> list[Prediction]:
    """Return the ``top`` of triples ``(n, 3)`` alike but on one side by a scorer, best first, equal ones in order."""
    there = among(keys(split, triples), keys(split, np.concatenate((split.graph, split.known))))
    if not known:
        triples, there = triples[~there], there[~there]
    scores = score_listed(ways(score), split, triples, {side: np.arange(len(triples))}, BATCH, None)[side].scores
    order = np.argsort(-scores, kind="stable")[:top]
    return [
        Prediction(*row, score=float(value), known=bool(seen))
        for row, value, seen in zip(split.named(triples[order]), scores[order], there[order], strict=True)
    ]


def _id(split: Split, side: Side, name: str) -> int:
    """Return the id of a name of one side; an unknown one raises `UsageError` with the nearest there are."""
    kind, names = ("relation", split.relations) if side == "relation" else ("entity", split.entities)
    ids = np.flatnonzero(names == name)
    if len(ids):
        if side == "relation" and not (split.graph[:, COLUMN[side]] == ids[0]).any():
            raise UsageError(f"{split.dataset} has no triple of the relation {name!r}: nothing is known of it")
        return int(ids[0])
    other_kind = split.entities if side == "relation" else split.relations
    if (other_kind == name).any():
        raise UsageError(
            f"{name!r} is {'an entity' if side == 'relation' else 'a relation'}, no {kind} of {split.dataset}"
        )
    raise UsageError(f"{split.dataset} has no {kind} {name!r}: {_hint(name, kind, names)}")


def _hint(name: str, kind: str, names: NameArray) -> str:
    if near := nearest(name, names.tolist()) if len(names) <= MOST_COMPARED else []:
        return f"did you mean {' or '.join(near)}?"
    return f"it has {shown(names.tolist())}"


def explain(directory: Path, targets: Sequence[str] = (), data: Dataset | None = None) -> Explanation:
    """Remake the model of a run from its checkpoints, without training, and let it say why it ranked some targets so.

    ``targets`` are written "HEAD RELATION TAIL"; without any, some are taken that are spread over the run's ranks.
    ``data`` is the dataset of a run on one that is not released. Nothing is written. Raises `UsageError` for a run
    without ranks or checkpoints, for a model that does not explain its scores and for what is no target.
    """
    result = results.load(directory)
    if not len(result.ranks):
        raise UsageError(f"{directory}: the run is {result.run.status} and has no ranks to explain")
    name, instead = result.run.model, f"--explain is for runs of tally: mtbench run tally --dataset {result.dataset}"
    if ":" not in name and name not in models.names():
        raise UsageError(f"{directory} is a run of {name}, which no installed model is called; {instead}")
    split, _ = splits_of(result, data)
    rows = rows_of(split, targets) if targets else _over_all_ranks(result.ranks.mean)
    make, checkpoints = models.factory(name), RunDirectory(directory).kept_checkpoints
    with remaking(result.run, result.dataset, directory):
        if type(make(context_of(result.run, result.dataset, "cpu", checkpoints))).explain is Model.explain:
            raise UsageError(f"{directory} is a run of {name}, which does not explain its scores; {instead}")
        model = models.remade(make, result.run, data or load(result.dataset), "cpu", checkpoints)
        return model.explain(model.scorer(split.observable()), split, result, rows)


def rows_of(split: Split, targets: Sequence[str]) -> list[int]:
    """Return the rows of targets written "HEAD RELATION TAIL" or "(HEAD, RELATION, TAIL)", each once.

    Raises `UsageError` for an observable triple and for what is no target, with the nearest there are.
    """
    known, rows = _written(split, split.targets), []
    for text in targets:
        plain = text if text in known else " ".join(text.split())
        if plain not in known:
            if plain in _written(split, split.graph):
                where = f"{split.dataset} {split.name}"
                raise UsageError(f"{plain!r} is an observable triple of {where}, which is not ranked: name a target")
            if near := nearest(plain, known):
                raise UnknownNameError("target", text, near)
            raise UsageError(
                f'unknown target {text!r}: write "HEAD RELATION TAIL", as in --target "{next(iter(known))}"'
            )
        rows.append(known[plain])
    return list(dict.fromkeys(rows))


def _written(split: Split, triples: IntArray) -> dict[str, int]:
    """Return the row of each triple by what it may be written as."""
    named = enumerate(split.named(triples))
    return {form: row for row, name in named for form in (" ".join(name), f"({', '.join(name)})")}


def _over_all_ranks(ranks: FloatArray) -> list[int]:
    rows: list[int] = np.argsort(ranks, kind="stable")[evenly(len(ranks), EXPLAINED)].tolist()
    return rows
