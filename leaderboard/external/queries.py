"""Common to published models: the authors' checkouts, and queries whose answers are computed once and kept."""

from __future__ import annotations

import copy
import hashlib
import importlib
import io
import math
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeAlias
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from mtbench.data.splits import Split, unique
from mtbench.errors import UsageError
from mtbench.files.atomic import replace_file
from mtbench.files.reading import expanded
from mtbench.names import HEAD, RELATION, TAIL, BoolArray, IntArray
from mtbench.training.models import Context, Model
from reference_models.training.fitting import torch_device


class Published(Model):
    """A model whose weights are published: it learns nothing here.

    ``settings`` has one of the ``choices`` of each key, by default the first. Raises `UsageError` for other settings
    and values, and without ``checkout``, the folder with the authors' repository.
    """

    def __init__(self, context: Context, name: str, choices: Mapping[str, Sequence[str]]) -> None:
        asked = dict(context.settings)
        checkout = asked.pop("checkout", "")
        self.settings = {key: asked.pop(key, values[0]) for key, values in choices.items()}
        wrong = [f"{key}={value}" for key, value in asked.items()]
        wrong += [f"{key}={self.settings[key]}" for key, some in choices.items() if self.settings[key] not in some]
        if wrong or not checkout:
            known = (f"{key}={'|'.join(values)}" for key, values in choices.items())
            why = f"not {', '.join(wrong)}" if wrong else "checkout is missing"
            raise UsageError(f"{name} takes --set {', '.join(['checkout=DIR', *known])}: {why}")
        self.checkout, self.seed, self.workdir = expanded(checkout), context.seed, context.workdir
        self.device = torch_device(context.device)

    def fit(self, train: Split, valid: Split) -> None:
        """Do nothing: the weights are trained already."""

    def peak_memory(self) -> int | None:
        """Return the peak of bytes that PyTorch held on a CUDA device, None on the CPU."""
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None

    def placed(self, network: Any) -> Any:
        """Return a network on the device of whole rows; lists of candidates are scored on the CPU by the one given."""
        return network if self.device.type == "cpu" else copy.deepcopy(network).to(self.device)

    @property
    def made_of(self) -> str:
        """A text that differs for models with different answers: also while a checkout is being changed."""
        code = hashlib.sha256()
        for file in sorted(self.checkout.rglob("*.py")):
            code.update(file.read_bytes())
        return " ".join((self.info.commit, *map(str, self.info.hyperparameters.values()), code.hexdigest()))


def imported(checkout: Path, address: str, module: str, stand_ins: Mapping[str, Mapping[str, object]]) -> Any:
    """Import a module from a checkout; ``stand_ins`` replace modules that it imports, such as compiled ones, by name.

    Raises `UsageError` for a folder that is no checkout of the repository at ``address``, and where this process has
    the module of another one.
    """
    if not checkout.joinpath(*module.split(".")).with_suffix(".py").is_file():
        raise UsageError(f"{checkout} has no {module}: git clone {address}, and name its folder by --set checkout=DIR")
    for name, attributes in stand_ins.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(attributes)
    sys.path.insert(0, str(checkout))
    try:
        found = importlib.import_module(module)
    finally:
        sys.path.remove(str(checkout))
    if not Path(str(found.__file__)).resolve().is_relative_to(checkout.resolve()):
        raise UsageError(f"{module} is that of {found.__file__} here: run {checkout} by a command of its own")
    return found


def load(
    network: torch.nn.Module, file: Path, address: str, part: str, named: Callable[[str], str] = lambda name: name
) -> None:
    """Give a network the weights that a part of a checkpoint holds, by the names they have in it; none for "".

    Raises `UsageError` if the file is missing, is no checkpoint, or is that of another network.
    """

    def refused(why: str) -> UsageError:
        return UsageError(f"{file} {why}: git clone {address} again, with its large files")

    if not file.is_file():  # nothing, or a pipe that nobody writes into
        raise refused("is not there")
    try:
        # Only weights: unpickling anything else would run code of the file.
        stored: object = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        raise refused("is no checkpoint") from error
    if not isinstance(stored, dict):
        raise refused("is no checkpoint")
    try:
        network.load_state_dict({name: value for key, value in stored[part].items() if (name := named(key))})
    except (AttributeError, KeyError, TypeError, RuntimeError) as error:
        raise refused("holds no weights of this network") from error
    network.eval()


def commit(checkout: Path) -> str:
    """Return the commit of a checkout, marked as dirty if its files differ; empty if git knows none of its own."""
    if not (checkout / ".git").exists():  # git would tell that of a repository around it
        return ""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


AT_ONCE = 2**29
"""The most numbers that queries for whole rows take at once: 2 GB."""

FILE = "answers.npz"
ANEW = "begin anew with --restart, or with --force where a finished run lies"
FEW = 8
"""The most ends of a query that is computed together with others from its start."""

START, QUERY, END = 0, 1, 2
"""Columns of questions, int64 ``(m, 3)``: where a query starts, its relation, and the node to score."""

Scores: TypeAlias = NDArray[np.float32]


class Answering(Protocol):
    """Answers queries on one graph."""

    def answer(self, questions: IntArray, /) -> Scores:
        """Return the scores ``(m,)`` of different questions ``(m, 3)``, ordered by start, relation and end."""
        ...


class FromStart(Protocol):
    """A network that answers queries from one start together."""

    def scores(self, start: int, asked: IntArray, ends: IntArray, /) -> torch.Tensor:
        """Return the scores ``(e, q)`` of some ends for queries from a start by some relations ``(q,)``."""
        ...


class Rows(Protocol):
    """A network that answers for all ends of queries from different starts at once."""

    width: int
    """How many numbers a query takes at once."""

    def rows(self, starts: IntArray, asked: IntArray, /) -> torch.Tensor:
        """Return the scores ``(q, n)`` of all ends of queries ``(q,)``."""
        ...


def whole_rows(
    network: Callable[[IntArray, IntArray], torch.Tensor], width: int, first: IntArray, second: IntArray
) -> Scores:
    """Return the scores ``(q, n)`` by queries of two columns ``(q,)``, so many at a time as fit into `AT_ONCE`."""
    step = max(1, AT_ONCE // width)
    parts = [slice(begin, begin + step) for begin in range(0, len(first), step)]
    return np.concatenate([network(first[part], second[part]).cpu().numpy() for part in parts])


class Queries:
    """Asks a network for queries from one start with few ends together, ``at_once`` relations at a time."""

    def __init__(self, network: FromStart, at_once: int) -> None:
        self.network, self.at_once = network, at_once

    @torch.inference_mode()
    def answer(self, questions: IntArray) -> Scores:
        """Return the scores of questions."""
        scores = np.empty(len(questions), dtype=np.float32)
        for rows in together(questions, self.at_once):
            queries, column = np.unique(questions[rows, QUERY], return_inverse=True)
            nodes, place = np.unique(questions[rows, END], return_inverse=True)
            answers = self.network.scores(int(questions[rows[0], START]), queries, nodes)
            scores[rows] = answers.numpy()[place, column]
        return scores


class Kinds:
    """The relation types of a graph as a network has them: those with an edge, one without, and their inverses.

    ``of_slot`` has the type of every relation slot of the dictionary; its inverse is ``half`` further. Slots without an
    edge are one type, because they only differ in names, which such a network does not know. ``triples`` are those of
    the graph with types in place of relations.
    """

    def __init__(self, split: Split) -> None:
        known = np.unique(split.graph[:, RELATION])
        self.of_slot = np.full(split.relation_slots, len(known))
        self.of_slot[known] = np.arange(len(known))
        self.half = len(known) + 1
        self.triples = split.graph.copy()
        self.triples[:, RELATION] = self.of_slot[split.graph[:, RELATION]]


def together(questions: IntArray, at_once: int) -> list[IntArray]:
    """Return the rows of questions that are computed together: those of one start and of ``at_once`` relation ids.

    Queries with more than `FEW` ends are computed apart from others. Groups with the same relations are in a row.
    """
    _, query, ends = np.unique(questions[:, :END], axis=0, return_inverse=True, return_counts=True)
    columns = ends[query] > FEW, questions[:, START], questions[:, QUERY] // at_once
    order = np.lexsort(columns)
    changes = np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0)
    return np.split(order, np.flatnonzero(changes) + 1)


class Kept:
    """Asks a network for answers that are not known yet, and keeps all answers in a file.

    Questions are below ``sizes``. ``made_of`` tells answers of different networks apart: raises `UsageError` if those
    in the file are another's, or if it cannot be read. A question asked again has its first answer; that answers do not
    depend on what is asked together must be shown by the tests of a network.
    """

    def __init__(self, network: Answering, sizes: tuple[int, int, int], file: Path | None, made_of: str) -> None:
        self.network, self.sizes, self.file, self.made_of = network, sizes, file, made_of
        self.parts: list[tuple[IntArray, Scores]] = []
        self.written, self.writing = -math.inf, 0.0
        if self.file and self.file.exists():
            self.parts = [self._stored(self.file)]

    def _stored(self, file: Path) -> tuple[IntArray, Scores]:
        try:
            with np.load(file) as stored:
                made_of, keys, scores = str(stored["made_of"]), stored["keys"], stored["scores"]
        except (OSError, EOFError, KeyError, ValueError, BadZipFile) as error:
            raise UsageError(f"{file} cannot be read: {ANEW}") from error
        if made_of != self.made_of:
            raise UsageError(f"{file} has the answers of another model: {ANEW}")
        if not len(keys) or keys.shape != scores.shape or (np.diff(keys) <= 0).any():
            raise UsageError(f"{file} holds no answers: {ANEW}")
        return keys, scores

    def __call__(self, *columns: IntArray) -> Scores:
        """Return the scores of questions, given by their columns."""
        keys = np.ravel_multi_index(columns, self.sizes)
        scores, answered = self._looked_up(keys)
        if not answered.all():
            new = unique(keys[~answered])
            self._add(new, self.network.answer(np.stack(np.unravel_index(new, self.sizes), axis=1)))
            scores, _ = self._looked_up(keys)
            self._keep()
        return scores

    def _looked_up(self, keys: IntArray) -> tuple[Scores, BoolArray]:
        """Return the scores of the keys, and which of them are answered."""
        scores, answered = np.zeros(len(keys), dtype=np.float32), np.zeros(len(keys), dtype=np.bool_)
        for known, of_known in self.parts:
            place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            here = known[place] == keys
            scores[here], answered = of_known[place[here]], answered | here
        return scores, answered

    def _add(self, keys: IntArray, scores: Scores) -> None:
        # A full ranking has millions of answers in hundreds of batches: as in a merge sort, parts are merged with those
        # of their size, so that a batch does not move everything before it.
        while self.parts and len(self.parts[-1][0]) < 2 * len(keys):
            keys, scores = _merged([self.parts.pop(), (keys, scores)])
        self.parts.append((keys, scores))

    def _keep(self) -> None:
        # Written again only after ten times as long as it took: the file grows with every batch.
        if self.file and (begin := time.monotonic()) >= self.written + 10 * self.writing:
            page, (keys, scores) = io.BytesIO(), _merged(self.parts)
            np.savez(page, made_of=np.array(self.made_of), keys=keys, scores=scores)
            self.file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.file, page.getvalue())
            self.written = time.monotonic()
            self.writing = self.written - begin


def _merged(parts: Sequence[tuple[IntArray, Scores]]) -> tuple[IntArray, Scores]:
    """Return the keys ``(k,)`` of parts, in increasing order, and their scores."""
    keys, scores = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(keys, kind="stable")  # which merges what is in order already
    return keys[order], scores[order]


class Answers:
    """A scorer by queries: a tail from the head by the relation, a head from the tail by the inverse.

    Lists of candidates are asked for triple by triple, and full rankings row by row.
    """

    def __init__(self, network: Answering, rows: Rows, split: Split, folder: Path | None, made_of: str) -> None:
        self.kinds, self.rows = Kinds(split), rows
        sizes = split.num_entities, 2 * self.kinds.half, split.num_entities
        self.ends = Kept(network, sizes, folder / FILE if folder else None, f"{split.content_sha256} {made_of}")

    def score(self, triples: IntArray) -> Scores:
        """Return the scores of the tails of triples ``(m, 3)``."""
        return self.ends(triples[:, HEAD], self.kinds.of_slot[triples[:, RELATION]], triples[:, TAIL])

    def score_inverses(self, triples: IntArray) -> Scores:
        """Return the scores of the heads of triples ``(m, 3)``."""
        inverses = self.kinds.of_slot[triples[:, RELATION]] + self.kinds.half
        return self.ends(triples[:, TAIL], inverses, triples[:, HEAD])

    def score_tails(self, heads: IntArray, relations: IntArray) -> Scores:
        """Return the scores ``(q, n)`` of all tails of heads and relations ``(q,)``."""
        return whole_rows(self.rows.rows, self.rows.width, heads, self.kinds.of_slot[relations])

    def score_heads(self, relations: IntArray, tails: IntArray) -> Scores:
        """Return the scores ``(q, n)`` of all heads of relations and tails ``(q,)``."""
        return whole_rows(self.rows.rows, self.rows.width, tails, self.kinds.of_slot[relations] + self.kinds.half)
