"""PyKEEN: a split as its triples factory, with our ids, and its models as scorers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mtbench.adapters.requirements import batches, expect, refuse_empty_slots, scoring
from mtbench.data.splits import Split
from mtbench.errors import UsageError
from mtbench.names import HEAD, RELATION, TAIL, IntArray
from mtbench.ranking.scorers import batch_limit

if TYPE_CHECKING:
    from pykeen.models import Model
    from pykeen.triples import TriplesFactory
    from torch import Tensor

BATCH_SIZE = 8192


def triples_factory(split: Split, *, create_inverse_triples: bool = False, empty_slots: bool = False) -> TriplesFactory:
    """Return the observable triples of a split as a factory whose ids are the split's.

    A model trained on another factory has different ids, and its scores would be those of different triples.
    With ``empty_slots`` the relations are all ``relation_slots`` of the dictionary, for the vocabulary
    ``slots``; inverse relations are PyKEEN's own affair and never counted. Raises `MissingExtraError`
    without PyKEEN.
    """
    expect("a triples factory of PyKEEN", "torch", "pykeen")
    import torch
    from pykeen.triples import TriplesFactory

    number = split.relation_slots if empty_slots else split.num_relations
    # Not from_labeled_triples, which would number names by its own sorting, and only those that occur.
    return TriplesFactory(
        mapped_triples=torch.from_numpy(np.array(split.graph)),
        entity_to_id={name: index for index, name in enumerate(split.entities.tolist())},
        relation_to_id={split.relation_name(index): index for index in range(number)},
        create_inverse_triples=create_inverse_triples,
    )


@dataclass(frozen=True, eq=False)
class Scorer:
    """A PyKEEN model behind the interface of a scorer; `scorer` makes it and checks that it fits the split.

    Every method scores without gradients and in evaluation mode, and leaves the model in the mode it was
    in. All four give a triple the same score, up to rounding, even for a model with inverse relations,
    where PyKEEN's own ``predict_h`` gives the score of (t, inverse of r, h), which is different.
    """

    model: Model
    split: Split
    batch_size: int = BATCH_SIZE

    @property
    def num_relations(self) -> int:
        """The relations the model can score: inverses not counted, empty slots counted where it has them."""
        return int(self.model.num_real_relations)

    def score(self, triples: IntArray, /) -> Tensor:
        """Return the scores ``(m,)`` of triples int64 ``(m, 3)``, with ``predict_hrt``."""
        self._refuse(triples)
        return self._predict(self.model.predict_hrt, triples).reshape(-1)

    def score_tails(self, heads: IntArray, relations: IntArray, /) -> Tensor:
        """Return the scores ``(b, num_entities)`` of every tail of (head, relation), with ``predict_t``."""
        return self._predict(self.model.predict_t, np.stack((heads, relations), axis=1))

    def score_relations(self, heads: IntArray, tails: IntArray, /) -> Tensor:
        """Return the scores ``(b, num_relations)`` of every relation of (head, tail), with ``predict_r``."""
        scores = self._predict(self.model.predict_r, np.stack((heads, tails), axis=1))
        # PyKEEN's relation r is column 2r of a model with inverses, and its inverse the column after it.
        return scores[:, ::2] if self.model.use_inverse_triples else scores

    def score_heads(self, relations: IntArray, tails: IntArray, /) -> Tensor:
        """Return the scores ``(b, num_entities)`` of every head of (relation, tail).

        With ``predict_h``, except for a model with inverse relations, where each head is scored as a triple.
        """
        if not self.model.use_inverse_triples:
            return self._predict(self.model.predict_h, np.stack((relations, tails), axis=1))
        nodes = self.split.num_entities
        triples = np.empty((len(tails) * nodes, 3), dtype=np.int64)
        triples[:, HEAD] = np.tile(np.arange(nodes), len(tails))
        triples[:, RELATION], triples[:, TAIL] = np.repeat(relations, nodes), np.repeat(tails, nodes)
        return self.score(triples).reshape(-1, nodes)

    def _refuse(self, triples: IntArray) -> None:
        refuse_empty_slots(
            triples,
            self.num_relations,
            self.split,
            'train it on triples_factory(split, empty_slots=True), or use vocabulary="present"',
        )

    def _predict(self, method: Callable[[Tensor], Tensor], ids: IntArray) -> Tensor:
        import torch

        with scoring(self.model):
            return torch.cat([method(batch).cpu() for batch in batches(ids, self.batch_size)])


@dataclass(frozen=True, eq=False)
class BothWays(Scorer):
    """A PyKEEN model that is asked for the head of (h, r, t) as PyKEEN does, by (t, inverse of r, h)."""

    def score_inverses(self, triples: IntArray, /) -> Tensor:
        """Return the scores ``(m,)`` of the inverses of triples int64 ``(m, 3)``."""
        self._refuse(triples)
        return self._predict(self._inverses, triples).reshape(-1)

    def score_heads(self, relations: IntArray, tails: IntArray, /) -> Tensor:
        """Return the scores ``(b, num_entities)`` of every head of (relation, tail), with ``predict_h``."""
        return self._predict(self.model.predict_h, np.stack((relations, tails), axis=1))

    def _inverses(self, batch: Tensor) -> Tensor:
        # PyKEEN has no predict_hrt for inverses: this is what its predict_h does, for single triples.
        ids = self.model.relation_inverter.map(batch=batch.to(self.model.device), index=RELATION)
        scores = self.model.score_hrt_inverse(ids)
        return scores.sigmoid() if self.model.predict_with_sigmoid else scores


def scorer(
    model: Model,
    split: Split,
    *,
    factory: TriplesFactory | None = None,
    batch_size: int = BATCH_SIZE,
    inverses: bool = False,
) -> Scorer:
    """Return a PyKEEN model as a scorer of a split, to be handed to `mtbench.evaluate`.

    The model must have been trained with the split's ids, as `triples_factory` gives them: its numbers
    of entities and relations are compared, and with ``factory``, the one it was trained on, every name.
    At most ``batch_size`` triples or rows are scored at a time, where the model's parameters are. With
    ``inverses``, for a model with inverse relations, it is asked for heads through them. Raises
    `UsageError` for a model or factory that does not fit, and `MissingExtraError` without PyKEEN.
    """
    expect("a scorer for PyKEEN", "torch", "pykeen")
    where, size = f"{split.dataset} {split.name}", batch_limit(batch_size)
    # With or without the empty slots; inverse relations are not counted by PyKEEN either.
    allowed = sorted({split.num_relations, split.relation_slots})
    if model.num_entities != split.num_entities or model.num_real_relations not in allowed:
        raise UsageError(
            f"{where}: the model has {model.num_entities} entities and {model.num_real_relations} relations, expected "
            f"{split.num_entities} and {' or '.join(map(str, allowed))}: train it on "
            f"mtbench.adapters.pykeen.triples_factory(split)"
        )
    if factory is not None:
        _expect_same_ids(factory.entity_to_id, split.entities.tolist(), "entities", where)
        relations = [split.relation_name(index) for index in range(model.num_real_relations)]
        _expect_same_ids(factory.relation_to_id, relations, "relations", where)
    if inverses and not model.use_inverse_triples:
        raise UsageError(f"{where}: the model has no inverse relations: train it with create_inverse_triples=True")
    return (BothWays if inverses else Scorer)(model, split, size)


def _expect_same_ids(ids: Mapping[str, int], names: Sequence[str], what: str, where: str) -> None:
    wrong = [(index, name) for index, name in enumerate(names) if ids.get(name) != index]
    if wrong:
        index, name = wrong[0]
        raise UsageError(
            f"{where}: {len(wrong)} of {len(names)} {what} have another id in the factory, first {name!r} with "
            f"{ids.get(name, 'none')} instead of {index}: train on mtbench.adapters.pykeen.triples_factory(split)"
        )
