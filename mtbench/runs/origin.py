"""How a result came about: its run, the split it was made on, and the names of its targets."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np

from mtbench.data import catalog
from mtbench.data.catalog import Parameter
from mtbench.data.splits import Dataset, Split
from mtbench.errors import ResultError, UnknownNameError, UsageError
from mtbench.names import HEAD, RELATION, TAIL
from mtbench.ranking.ranks import Ranks
from mtbench.settings.setting import Setting
from mtbench.settings.table import setting_of

Regime: TypeAlias = Literal["zero-shot", "test-time-adaptation", "fine-tuned", "supervised"]
Status: TypeAlias = Literal["ok", "oom", "failed"]
REGIMES: tuple[Regime, ...] = get_args(Regime)
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True)
class RunInfo:
    """How a result came about: what the evaluator cannot know and a leaderboard has to show.

    ``seed`` is the model's, not that of the candidates; ``pretraining_graphs`` names every graph the
    model learned from before it saw this dataset; ``wall_seconds`` and ``peak_memory_bytes`` cover the
    whole run; an empty ``environment`` is filled in on saving. Raises `UnknownNameError` for a regime
    or status that does not exist.
    """

    model: str = "unnamed"
    seed: int = 0
    regime: Regime = "zero-shot"
    hyperparameters: Mapping[str, Parameter] = field(default_factory=dict)
    pretraining_graphs: tuple[str, ...] = ()
    url: str = ""
    commit: str = ""
    device: str = ""
    wall_seconds: float | None = None
    peak_memory_bytes: int | None = None
    status: Status = "ok"
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.regime not in REGIMES:
            raise UnknownNameError("regime", self.regime, REGIMES)
        if self.status not in STATUSES:
            raise UnknownNameError("status", self.status, STATUSES)


def environment() -> dict[str, str]:
    """Return the versions a run depends on: Python, platform, this package, NumPy, and PyTorch where it is loaded."""
    versions = {"python": platform.python_version(), "platform": platform.platform(), "numpy": np.__version__}
    for name, module in (("mtbench-kg", "mtbench"), ("torch", "torch"), ("torch_geometric", "torch_geometric")):
        if module in sys.modules:  # what was not imported had no part in the run, and PyTorch takes seconds to import
            try:
                versions[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                versions[name] = "unknown"
    if "torch" in sys.modules:
        # On a CPU a seed gives the same figures only with the same number of threads, which divide PyTorch's sums.
        versions["threads"] = str(sys.modules["torch"].get_num_threads())
    return versions


@dataclass(frozen=True, eq=False)
class Evaluated:
    """Ranks, and what says where they come from; a `mtbench.Result` adds the figures that follow from them."""

    dataset: str
    dataset_version: str
    split: str
    content_sha256: str
    protocol: str
    vocabulary: str
    candidate_seed: int
    candidates_sha256: str
    ranks: Ranks = field(kw_only=True)
    run: RunInfo = field(default_factory=RunInfo, kw_only=True)

    @property
    def setting(self) -> Setting:
        """What its figures are of; raises `UnknownNameError` if a run directory names no setting of ours."""
        return setting_of(self.protocol, self.vocabulary)


AnyEvaluated = TypeVar("AnyEvaluated", bound=Evaluated)


def with_names(result: AnyEvaluated, source: Split | Dataset | None = None) -> AnyEvaluated:
    """Return a result whose targets have names, taken from its split where they are missing; see `splits_of`."""
    if result.ranks.named:
        return result
    split, _ = splits_of(result, source)
    if len(split.targets) != len(result.ranks):
        raise ResultError(
            f"{result.dataset} {result.split}: {len(result.ranks)} ranks without names, the split has "
            f"{len(split.targets)} triples to rank; evaluate again"
        )
    heads, relations, tails = split.targets.T[[HEAD, RELATION, TAIL]]
    ranks = Ranks(split.entities[heads], split.relations[relations], split.entities[tails], result.ranks.parts)
    return replace(result, ranks=ranks)


def splits_of(result: Evaluated, source: Split | Dataset | None) -> tuple[Split, Split | None]:
    """Return the split a run was made on and its training split, None where only the test split is known.

    ``source`` is that split or its dataset; left out, the dataset is loaded by the name and version the run
    has. Raises `UsageError` for a dataset that is not released, and `ResultError` for another split.
    """
    where = f"{result.dataset} {result.split}"
    remedy = "pass the dataset of the run: split=mtbench.load(DIR), on the command line --dataset DIR"
    if source is None:
        if (record := catalog.by_id(result.dataset)) is None:
            raise UsageError(f"{where} is not in the catalogue: {remedy}")
        if result.dataset_version != record.version:
            raise UsageError(
                f"{where}: the run has version {result.dataset_version}, here is {record.version}: {remedy}"
            )
        from mtbench.data.loading import load  # the evaluator alone needs no files

        source = load(result.dataset)
    train: Split | None
    if isinstance(source, Dataset):
        split, train = source.split(result.split), source.train
    else:
        # Training and validation share a graph, so either serves as the training split.
        split, train = source, None if source.name == "test" else source
    if result.setting.asks_known(result.dataset, result.split):
        split = split.with_known_asked()
    if split.content_sha256 != result.content_sha256:
        raise ResultError(
            f"{where}: the run was made on content {result.content_sha256[:12]}, {split.dataset} {split.name} has "
            f"{split.content_sha256[:12]}: {remedy}"
        )
    return split, train
