"""Splits and datasets: the arrays every other part works on, and whether two datasets are the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from itertools import product
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from mtbench.data import catalog
from mtbench.data.catalog import Graph, Parameter, Part, Record
from mtbench.errors import DatasetError, UnknownNameError
from mtbench.files.hashing import CONTENT_HASH_OF_NOTHING, content_hash, split_hash
from mtbench.names import HEAD, RELATION, TAIL, BoolArray, IntArray, NameArray

Integer = TypeVar("Integer", bound=np.integer)
SplitName: TypeAlias = Literal["train", "valid", "test"]
NamedTriple: TypeAlias = tuple[str, str, str]
SPLIT_NAMES: tuple[SplitName, ...] = ("train", "valid", "test")
PARTS = ("graph", "targets", "known")
ARRAYS = (*PARTS, "entities", "relations")
SIZES = (
    "entities",
    "relations",
    "relation ids incl. unused",
    "triples in the graph",
    "triples to predict",
    "known besides",
)


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """One graph, and the missing triples to predict in it: in the test split, the inference graph and the test triples.

    ``graph`` is int64 ``(n, 3)`` and ``targets`` int64 ``(m, 3)``, both head, relation, tail, in the
    order of the release. ``known`` ``(k, 3)`` are triples known to be true that are neither observable nor to be
    predicted, such as the validation triples of an inference graph: no candidate is one of them, no model sees them,
    and most datasets have none. Ids index ``entities`` and ``relations``, arrays of names sorted by name and
    frozen with the dataset. All five arrays are read-only: work on a copy, ``split.graph.copy()`` or
    ``torch.tensor(split.graph)``. ``relation_slots`` is the
    size of the relation dictionary the graph was published with: ids from ``num_relations`` up to it
    are the empty slots, unused. ``num_relations`` never counts inverses. ``tasks`` maps a relation to the
    predictive pattern it follows, where the ground truth is known (the synthetic datasets), and is
    empty elsewhere.
    """

    dataset: str
    name: SplitName
    graph: IntArray
    targets: IntArray
    entities: NameArray
    relations: NameArray
    relation_slots: int
    tasks: Mapping[str, str] = field(default_factory=dict)
    known: IntArray = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))

    def __post_init__(self) -> None:
        for part in PARTS:
            self._check(getattr(self, part), part)
        if self.relation_slots < self.num_relations:
            raise DatasetError(
                f"{self.dataset} {self.name}: {self.relation_slots} relation ids cannot hold "
                f"{self.num_relations} relations"
            )
        for name in ARRAYS:
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __repr__(self) -> str:
        known = f", {len(self.known):,} known besides" if len(self.known) else ""
        return (
            f"<{self.dataset} {self.name}: {len(self.graph):,} triples in the graph, of {self.num_entities:,} entities "
            f"and {self.num_relations:,} relations ({self.relation_slots:,} ids), {len(self.targets):,} to predict"
            f"{known}>"
        )

    def _check(self, array: IntArray, part: str) -> None:
        if array.dtype != np.int64 or array.ndim != 2 or array.shape[1] != 3:
            raise DatasetError(
                f"{self.dataset} {self.name}: {part} must be int64 of shape (n, 3), "
                f"not {array.dtype} of shape {array.shape}"
            )
        limits = np.array([self.num_entities, self.num_relations, self.num_entities])
        columns = zip(array.T, limits.tolist(), strict=True)
        if not len(array) or all(column.min() >= 0 and column.max() < limit for column, limit in columns):
            return
        bad = ((array < 0) | (array >= limits)).any(axis=1)
        raise DatasetError(
            f"{self.dataset} {self.name}: {int(bad.sum())} rows of {part} have ids outside the "
            f"vocabulary, first at row {int(np.flatnonzero(bad)[0])}: {array[bad][0].tolist()}"
        )

    @property
    def num_entities(self) -> int:
        """How many entities the vocabulary holds."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """How many relation types the vocabulary holds, inverses and empty slots not counted."""
        return len(self.relations)

    @property
    def triples(self) -> IntArray:
        """The observable triples, ``graph`` under the name most loaders use."""
        return self.graph

    mapped_triples = triples

    @property
    def true_triples(self) -> IntArray:
        """Every triple that is known to be true ``(n + m + k, 3)``, and so is no candidate: graph, targets, known."""
        return np.concatenate((self.graph, self.targets, self.known))

    @cached_property
    def graph_sha256(self) -> str:
        """Content hash of the observable triples."""
        return content_hash(self.named(self.graph))

    @cached_property
    def targets_sha256(self) -> str:
        """Content hash of the missing triples."""
        return content_hash(self.named(self.targets))

    @cached_property
    def known_sha256(self) -> str:
        """Content hash of the triples that are known besides."""
        return content_hash(self.named(self.known))

    @cached_property
    def tasks_sha256(self) -> str:
        """Content hash of the ground-truth tasks, each as a triple (relation, "task", label); of nothing without."""
        return content_hash([(relation, "task", label) for relation, label in self.tasks.items()])

    @property
    def changed(self) -> list[str]:
        """The parts that somebody has written into after all, as their hashes tell that were taken before."""
        return [
            part for part in PARTS if getattr(self, f"{part}_sha256") != content_hash(self.named(getattr(self, part)))
        ]

    @cached_property
    def content_sha256(self) -> str:
        """Hash of everything a rank depends on: the content hashes and the number of slots."""
        return split_hash(self.graph_sha256, self.targets_sha256, self.relation_slots, self.known_sha256)

    @cached_property
    def release(self) -> Record | None:
        """The record of the catalogue whose released split this is exactly, by name and content; None of any other."""
        record = catalog.by_id(self.dataset)
        return record if record and record.content_sha256(self.name) == self.content_sha256 else None

    def relation_name(self, relation: int) -> str:
        """Return the name of a relation id; ids of empty slots read ``<empty slot 28>``."""
        if relation < self.num_relations:
            return str(self.relations[relation])
        return f"<empty slot {relation}>"

    def named(self, triples: IntArray) -> list[NamedTriple]:
        """Return triples of ids ``(n, 3)`` as tuples of names, in the same order."""
        heads = self.entities[triples[:, HEAD]].tolist()
        tails = self.entities[triples[:, TAIL]].tolist()
        slots = triples[:, RELATION]
        if slots.max(initial=-1) < self.num_relations:
            relations = self.relations[slots].tolist()
        else:
            names = {relation: self.relation_name(relation) for relation in unique(slots).tolist()}
            relations = [names[relation] for relation in slots.tolist()]
        return list(zip(heads, relations, tails, strict=True))

    def observable(self) -> Split:
        """Return the split with its graph alone: the observable (inference) graph, all that a model may look at."""
        nothing = np.empty((0, 3), dtype=np.int64)
        return replace(self, targets=nothing, known=nothing)

    def with_known_asked(self) -> Split:
        """Return the split whose targets are also the triples that are known besides, after its own."""
        return replace(self, targets=np.concatenate((self.targets, self.known)), known=self.known[:0])

    def with_inverses(self) -> Split:
        """Return the split that a network with inverse relations sees, of 2R slots for the R of the dictionary.

        Slot r + R is the inverse of slot r. Every observable triple (h, r, t) is followed, after all of them, by
        its inverse (t, r + R, h), and so is every target, and every triple known besides: to ask for the tails and
        relations of both is to ask for a target both ways. Each slot has a name, empty ones too.
        """
        names = [self.relation_name(slot) for slot in range(self.relation_slots)]
        graph, targets, known = (
            np.concatenate((part, inverted(part, self.relation_slots)))
            for part in (self.graph, self.targets, self.known)
        )
        relations = np.array([*names, *(f"{name} (inverse)" for name in names)], dtype=np.str_)
        return replace(
            self, graph=graph, targets=targets, known=known, relations=relations, relation_slots=len(relations)
        )


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A benchmark dataset: ``train`` and ``valid`` share one graph, ``test`` has entities and relations of its own.

    ``parameters`` are those the dataset was built with; ``info`` is the catalogue's record of the
    dataset it is, or is a variant of.
    """

    name: str
    version: str
    train: Split
    valid: Split
    test: Split
    info: Record
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self._title}\n\n{self._table('simple')}\n\n{self._next}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._title)}</p>{self._table('html')}<p>{escape(self._next)}</p>"

    @property
    def _title(self) -> str:
        return f"{self.label}: {self.info.summary}"

    @cached_property
    def is_release(self) -> bool:
        """Whether it is, by what it says of itself and by its content, the release of a record of the catalogue."""
        return catalog.by_id(self.name) == self.info and not differences(self, self.info)

    def measured(self) -> Record:
        """Return the record that this dataset would have as a release: its counts and hashes, of its own triples."""
        graphs = {"train": self.valid, "test": self.test}
        parts = {
            "train/graph": Part(len(self.valid.graph), self.valid.graph_sha256),
            "valid/targets": Part(len(self.valid.targets), self.valid.targets_sha256),
            "test/graph": Part(len(self.test.graph), self.test.graph_sha256),
            "test/targets": Part(len(self.test.targets), self.test.targets_sha256),
        }
        for split in (self.valid, self.test):
            if len(split.known):
                parts[f"{split.name}/known"] = Part(len(split.known), split.known_sha256)
        return replace(
            self.info,
            id=self.name,
            version=self.version,
            aliases=(),
            sources=(),
            graphs={
                name: Graph(split.num_entities, split.num_relations, split.relation_slots)
                for name, split in graphs.items()
            },
            parts=parts,
            parameters=dict(self.parameters),
            candidates={},
            baselines={},
            tasks={name: split.tasks_sha256 for name, split in graphs.items()},
        )

    @property
    def caveat(self) -> str:
        """What is said behind its name: nothing of a release, else that it is none, or what a release lacks."""
        if not len(self.train.graph) and self.test.release == self.info:
            return ", without its training graph"
        return "" if self.is_release else ", not a release"

    @property
    def label(self) -> str:
        """Its name and version, and that it is not a release where it is none."""
        return f"{self.name} {self.version}{self.caveat}"

    @property
    def _next(self) -> str:
        return (
            "Arrays int64 (n, 3) of head, relation, tail: .train.graph, .test.graph, .test.targets; "
            "names: .test.entities, .test.relations\n"
            "mtbench.evaluate(score, data) ranks a model, mtbench.audit(data) looks for defects"
        )

    def _table(self, form: str) -> str:
        splits = (self.train, self.valid, self.test)
        sizes = [(split.num_entities, split.num_relations, split.relation_slots) for split in splits]
        parts = PARTS if any(len(split.known) for split in splits) else PARTS[:-1]
        rows = [
            (split.name, *counts, *(len(getattr(split, part)) for part in parts))
            for split, counts in zip(splits, sizes, strict=True)
        ]
        return str(tabulate(rows, ("", *SIZES)[: len(rows[0])], form, intfmt=","))

    def split(self, name: str) -> Split:
        """Return a split by name; an unknown name raises `UnknownNameError`."""
        splits = {"train": self.train, "valid": self.valid, "test": self.test}
        if name not in splits:
            raise UnknownNameError("split", name, splits)
        return splits[name]


def inverted(triples: IntArray, slots: int) -> IntArray:
    """Return the inverses of triples ``(m, 3)``, tail first: of slot r under r + ``slots``, and the other way round."""
    heads, relations, tails = triples.T
    return np.stack((tails, (relations + slots) % (2 * slots), heads), axis=1)


def vocabulary(*parts: Sequence[NamedTriple]) -> tuple[NameArray, NameArray]:
    """Return the entity names and the relation names of named triples, each sorted by name."""
    entities = _sorted({name for part in parts for head, _, tail in part for name in (head, tail)})
    return entities, _sorted({relation for part in parts for _, relation, _ in part})


def _sorted(names: Set[str]) -> NameArray:
    return np.array(sorted(names), dtype=np.str_)


def encode(rows: Sequence[NamedTriple], entities: NameArray, relations: NameArray, where: str) -> IntArray:
    """Return named triples as ids ``(n, 3)``; an unknown name raises `DatasetError` naming ``where``."""
    entity_ids = {name: index for index, name in enumerate(entities.tolist())}
    relation_ids = {name: index for index, name in enumerate(relations.tolist())}
    try:
        ids = [(entity_ids[head], relation_ids[rel], entity_ids[tail]) for head, rel, tail in rows]
    except KeyError as error:
        unknown = [
            row
            for row in rows
            if row[HEAD] not in entity_ids or row[RELATION] not in relation_ids or row[TAIL] not in entity_ids
        ]
        raise DatasetError(
            f"{where}: {len(unknown)} of {len(rows)} triples name an entity or relation outside the "
            f"vocabulary, first {unknown[0]}"
        ) from error
    return np.array(ids, dtype=np.int64).reshape(-1, 3)


def from_named(
    dataset: str,
    name: SplitName,
    graph: Sequence[NamedTriple],
    targets: Sequence[NamedTriple],
    slots: int,
    tasks: Mapping[str, str] | None = None,
) -> Split:
    """Return named triples as a split, rows in the same order; ``tasks`` may speak of more relations than occur.

    The entities of a graph are those of its observable triples, so that a target naming another one is a
    `DatasetError`; its relation types are those of its observable triples and of its targets, because three
    releases have targets on types without any observable triple.
    """
    entities = _sorted({name for head, _, tail in graph for name in (head, tail)})
    relations = _sorted({relation for part in (graph, targets) for _, relation, _ in part})
    return Split(
        dataset=dataset,
        name=name,
        graph=encode(graph, entities, relations, f"{dataset} {name} graph"),
        targets=encode(targets, entities, relations, f"{dataset} {name} targets"),
        entities=entities,
        relations=relations,
        relation_slots=slots,
        tasks={relation: tasks[relation] for relation in relations.tolist()} if tasks else {},
    )


def with_known(split: Split, rows: Iterable[NamedTriple]) -> tuple[Split, int]:
    """Return the split with triples by name that are known besides, and how many of them were left out.

    Each is kept once, and none that is observable or to be predicted. Left out are those that name an entity or a
    relation outside the vocabulary: no candidate can be one of them.
    """
    entities, relations = set(split.entities.tolist()), set(split.relations.tolist())
    distinct = dict.fromkeys(rows)
    fitting = [
        row for row in distinct if row[HEAD] in entities and row[RELATION] in relations and row[TAIL] in entities
    ]
    known = encode(fitting, split.entities, split.relations, f"{split.dataset} {split.name} known")
    steps = np.array([split.num_relations * split.num_entities, split.num_entities, 1])  # a triple is one number
    shown = among(known @ steps, np.concatenate((split.graph, split.targets)) @ steps)
    return replace(split, known=known[~shown]), len(distinct) - len(fitting)


def together(info: Record, name: str, valid: Split, test: Split, parameters: Mapping[str, Parameter]) -> Dataset:
    """Return the dataset of two graphs: training is validation without its targets; both splits get the name."""
    valid = replace(valid, dataset=name, name="valid")
    return Dataset(
        name=name,
        version=info.version,
        train=replace(valid.observable(), name="train"),
        valid=valid,
        test=replace(test, dataset=name, name="test"),
        info=info,
        parameters=dict(parameters),
    )


def own_release(dataset: Dataset) -> Dataset:
    """Return a dataset of somebody's own with the counts and hashes of its triples in its record."""
    made = dataset.measured()
    return replace(dataset, info=replace(dataset.info, graphs=made.graphs, parts=made.parts))


def among(values: NDArray[Integer], known: NDArray[Integer]) -> BoolArray:
    """Return which of some numbers ``(n,)`` are among the known ones ``(k,)``, sooner than `numpy.isin`."""
    ordered = np.sort(known)
    return np.searchsorted(ordered, values, side="right") > np.searchsorted(ordered, values)


def unique(values: NDArray[Integer]) -> NDArray[Integer]:
    """Return the different ones of some numbers in increasing order; `numpy.unique` hashes them, which is slow."""
    ordered = np.sort(values, axis=None)
    new = np.ones(len(ordered), dtype=np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]


@dataclass(frozen=True)
class PartMatch:
    """One set of triples beside what it should be: counts and content hashes of both."""

    part: str
    triples: int
    expected_triples: int
    sha256: str
    expected_sha256: str

    @property
    def same(self) -> bool:
        """Whether both are the same set of triples, as far as it is known what it should be."""
        return not self.expected_sha256 or (self.sha256, self.triples) == (self.expected_sha256, self.expected_triples)


def match_parts(dataset: Dataset, record: Record) -> list[PartMatch]:
    """Return the parts of each split, computed from the triples, beside what a record declares."""
    made = dataset.measured()
    rows = []
    for split, kind in product(SPLIT_NAMES, PARTS):
        here, there = made.part(split, kind), record.part(split, kind)
        if kind == "known" and not here.triples + there.triples:
            continue
        name = f"{split}/{kind}"
        rows.append(PartMatch(name, here.triples, there.triples, here.content_sha256, there.content_sha256))
    return rows


def differences(dataset: Dataset, record: Record) -> list[str]:
    """Return in what a dataset is not the release of a record, by name: in nothing if it is.

    A training graph that nobody has seen, so that the record has no hash of it, is only not to be empty.
    """
    made = dataset.measured()
    compared: dict[str, tuple[object, object]] = {
        "id": (dataset.name.partition("[")[0], record.id),
        "record": (dataset.info, record),
        "version": (dataset.version, record.version),
        "parameters": (made.parameters, dict(record.parameters)),
    }
    for split, graph in made.graphs.items():
        for key, number in vars(graph).items() if record.part(split, "graph").content_sha256 else ():
            compared[f"{split}/{key}"] = number, getattr(record.graphs[split], key)
    for key in dict.fromkeys((*made.parts, *record.parts)):
        split, _, kind = key.partition("/")
        here, there = made.part(split, kind), record.part(split, kind)
        compared[key] = (here, there) if there.content_sha256 else (here.triples > 0, True)
    for split, labels in made.tasks.items():
        compared[f"{split}/tasks"] = labels, record.tasks.get(split, CONTENT_HASH_OF_NOTHING)
    return [key for key, (here, there) in compared.items() if here != there]
