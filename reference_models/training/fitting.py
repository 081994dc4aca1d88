"""Common to all reference models: seeds, training from checkpoints, choice by validation, and scoring."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Generic

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from mtbench.data.splits import Split, inverted, unique
from mtbench.errors import DatasetError, UsageError
from mtbench.evaluation.tasks import Task, task
from mtbench.metrics import closed as metrics
from mtbench.names import HEAD, TAIL, BoolArray, IntArray
from mtbench.runs.origin import Regime
from mtbench.training.models import Context, Model, ModelInfo
from reference_models.training.checkpoint import Checkpoints
from reference_models.training.loop import Network, State, Validation, Work, expect_finite_scores, train
from reference_models.training.recipe import Kind

SIZES = (
    "width",
    "layers",
    "gin_layers",
    "relation_layers",
    "entity_layers",
    "relation_scale",
    "entity_scale",
    "heads",
    "tasks",
    "hops",
    "bins",
    "typed",
)
"""The settings that a network grows with."""


class ReferenceModel(Model, Generic[Kind]):
    """A recipe and a device for one run, and the training loop with its checkpoints.

    Runs that learn the same share checkpoints (`ModelInfo.trained_as`). Everything random follows from
    ``context.seed``: on the CPU the same seed gives the same metrics, and a run continued from a checkpoint equals an
    uninterrupted one. Raises `UsageError` for a device that is not there.
    """

    def __init__(self, name: str, context: Context, recipe: Kind, *, adapts: bool = False) -> None:
        self.context = context
        self.recipe = recipe
        self._histories: dict[str, list[dict[str, float]]] = {}
        self._device = torch_device(context.device)
        device = "cpu"
        if self._device.type == "cuda":
            device = torch.cuda.get_device_name(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)  # or a model before this one would count
        regime: Regime = "test-time-adaptation" if adapts else "zero-shot"
        self.info = ModelInfo(name, regime, recipe.as_parameters(), device, trained_as={})

    def _built(self, make: Callable[[], Network]) -> Network:
        """Return a network made by the seed, refused before it takes any memory if the weights there cannot be its.

        Its sizes may be those of a result that somebody else wrote. Raises `UsageError`.
        """
        places = self.context.workdir.glob("*.safetensors") if self.context.workdir else ()
        if held := max((path.stat().st_size for path in places), default=0):
            sizes = {name: value for name, value in self.info.hyperparameters.items() if name in SIZES}
            too_large = [f"{name}={value}" for name, value in sizes.items() if isinstance(value, int) and value > held]
            if not too_large:
                with torch.device("meta"):
                    needed = sum(weight.nbytes for weight in make().state_dict().values())
                too_large = [f"{needed:,} bytes"] if needed > held else []
            if too_large:
                raise UsageError(
                    f"the weights in {self.context.workdir} have {held:,} bytes, too few for a network of "
                    f"{', '.join(too_large)}: give the options they were trained with, or discard them with --restart"
                )
        with seeded(self.context.seed, "network"):
            network = make()
        network.to(self._device)
        return network

    def _train(
        self,
        stage: str,
        state: State[Network],
        split: Split,
        work: Work,
        *,
        epochs: int,
        patience: int,
        validate: Validation | None,
        from_start: bool = False,
    ) -> None:
        """Run the loop on a stage, from its checkpoint if there is one; a run without a folder keeps none."""
        checkpoints = None
        if self.context.workdir:
            identity = {
                "model": self.info.name,
                "seed": self.context.seed,
                "dataset": split.dataset,
                "content_sha256": split.content_sha256,
                **self.info.hyperparameters,
                **(self.info.trained_as or {}),
            }
            checkpoints = Checkpoints(self.context.workdir, identity)
            checkpoints.restore(stage, state)
        restored = state.epoch
        train(
            state,
            work,
            stage=stage,
            seed=self.context.seed,
            epochs=epochs,
            patience=patience,
            validate=validate,
            from_start=from_start,
            report=self.context.report,
            save=partial(checkpoints.save, stage) if checkpoints else None,
        )
        if checkpoints and state.epoch > restored:
            checkpoints.save(stage, state, finished=True)
        self._histories[stage] = state.history

    def history(self) -> Mapping[str, Sequence[Mapping[str, float]]]:
        """Return the records of all epochs of ``train`` and, where the model adapts, of ``adapt``."""
        return self._histories

    def peak_memory(self) -> int | None:
        """Return the peak of bytes that PyTorch held on a CUDA device since the model was made, None on the CPU."""
        return torch.cuda.max_memory_allocated(self._device) if self._device.type == "cuda" else None


def hold_out(valid: Split, share: float, seed: int) -> BoolArray:
    """Return which targets are kept for early stopping, bool ``(m,)``: those in a share of the components.

    Whole connected components of the graph (on MetaFam: family trees) are held out, so that no validation target shares
    a neighbourhood with a training positive. Raises `DatasetError` if either side would be empty.
    """
    nodes = valid.num_entities
    links = (np.ones(len(valid.graph), dtype=np.int8), (valid.graph[:, HEAD], valid.graph[:, TAIL]))
    _, component = connected_components(sparse.coo_array(links, shape=(nodes, nodes)), directed=False)
    of_target = component[valid.targets[:, HEAD]]
    components = np.random.default_rng([seed, *b"hold out"]).permutation(np.unique(of_target))
    held_out = np.isin(of_target, components[: round(share * len(components))])
    if not held_out.any() or held_out.all():
        raise DatasetError(
            f"{valid.dataset} {valid.name}: {len(valid.targets)} targets in {len(components)} components cannot be "
            f"split into training positives and a share of {share} for early stopping; try --set positives=graph"
        )
    return held_out


def can_stop_early(valid: Split) -> bool:
    """Return whether there are validation triples to stop by; without any, warn that all epochs are gone through."""
    if not len(valid.targets):
        warnings.warn(
            f"{valid.dataset} has no validation triples: training goes through all epochs, without early stopping",
            stacklevel=3,
        )
    return len(valid.targets) > 0


def validation(
    task: Task, held_out: BoolArray, score: Callable[[IntArray], Tensor], learning_rate: float, chosen_by: str = "mrr"
) -> Validation:
    """Return the early-stopping criterion: the expected MRR of a task over the held-out targets.

    With ``chosen_by="hits"`` it is as in the code published with ISDEA (Gao et al. 2023): Hits@10, then Hits@5, @3 and
    @1, then the MRR, with ties against the target. The criterion raises `DivergenceError`, with a smaller learning rate
    to try, for scores that are not finite.
    """
    triples = task.triples

    def judge() -> tuple[float, float]:
        scores = score(triples)
        expect_finite_scores(scores, task.name, learning_rate)
        ranks = task.rank(scores.numpy())
        greater, equal = ranks.greater[held_out], ranks.equal[held_out]
        mrr = metrics.expected(greater, equal)["mrr"]
        if chosen_by == "mrr":
            return mrr, mrr
        worst = metrics.expected(greater + equal, np.zeros_like(equal))
        # One number in the order of all five: a share of ranks moves by 1 / n at least, what comes after it by less.
        names = ("hits@10", "hits@5", "hits@3", "hits@1", "mrr")
        return sum(worst[name] / (2 * len(greater)) ** place for place, name in enumerate(names)), mrr

    return judge


def chosen_by_tails(
    valid: Split, selection: str, score: Callable[[IntArray], Tensor], learning_rate: float
) -> Validation | None:
    """Return the criterion of a model whose epoch is chosen by the tails of all validation triples.

    ``selection`` is the protocol, ``dual`` or ``entity``. It is None, so that the last epoch is taken, for ``none`` and
    where there are no validation triples.
    """
    if selection == "none" or not can_stop_early(valid):
        return None
    return validation(
        task(valid, f"{selection}-tail", "slots"), np.ones(len(valid.targets), dtype=bool), score, learning_rate
    )


def torch_device(name: str) -> torch.device:
    """Return the device meant by ``auto``, ``cpu`` or ``cuda``; raises `UsageError` if it is not there."""
    if name not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device must be auto, cpu or cuda, not {name!r}")
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise UsageError("--device cuda: PyTorch sees no CUDA device here; use --device cpu or auto")
    return torch.device("cuda" if has_cuda and name != "cpu" else "cpu")


@contextmanager
def seeded(seed: int, purpose: str) -> Iterator[None]:
    """Seed PyTorch's CPU generator inside the block and leave the caller's generators as they were."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(np.random.SeedSequence([seed, *purpose.encode()]).generate_state(1)[0]))
        yield


class PairScores:
    """A triple scorer that computes the score of every pair of nodes once, and gives it to all relations.

    A network's rounding depends on what else is in the batch: ``(u, r, v)`` and ``(u, r', v)`` scored apart may differ
    in the last bit, and break a tie that the model cannot break. ``compute`` scores distinct pairs, int64 ``(p, 2)``
    sorted by head and tail, and returns ``(p,)`` on the CPU; pairs asked for before are looked up.
    """

    def __init__(self, num_nodes: int, compute: Callable[[IntArray], Tensor]) -> None:
        self._num_nodes = num_nodes
        self._compute = compute
        self._keys = np.empty(0, dtype=np.int64)
        self._scores = np.empty(0, dtype=np.float32)

    def __call__(self, triples: IntArray) -> Tensor:
        """Return the scores ``(m,)`` of triples ``(m, 3)``."""
        keys = triples[:, HEAD] * self._num_nodes + triples[:, TAIL]
        asked = unique(keys)
        places = np.searchsorted(self._keys, asked)
        known = places < len(self._keys)
        known[known] = self._keys[places[known]] == asked[known]
        if not known.all():
            new, places = asked[~known], places[~known]
            scores = self._compute(np.stack(np.divmod(new, self._num_nodes), axis=1)).numpy()
            # Kept sorted, in the type of the network's scores, which is known from the first of them.
            self._keys = np.insert(self._keys, places, new)
            self._scores = np.insert(self._scores.astype(scores.dtype, copy=False), places, scores)
        return torch.from_numpy(self._scores[np.searchsorted(self._keys, keys)])


class BothWays:
    """Scores triples and, for a network with inverse relations, their inverses."""

    def __init__(self, score: Callable[[IntArray], Tensor], slots: int) -> None:
        self._score = score
        self._slots = slots

    def __call__(self, triples: IntArray) -> Tensor:
        """Return the scores ``(m,)`` of triples ``(m, 3)``."""
        return self._score(triples)

    def score_inverses(self, triples: IntArray) -> Tensor:
        """Return the scores ``(m,)`` of the inverses of triples ``(m, 3)``."""
        return self._score(inverted(triples, self._slots))
