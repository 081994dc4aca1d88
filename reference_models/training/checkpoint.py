"""Checkpoints: the state of a training loop in one safetensors file and one JSON file, never pickled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from mtbench.errors import CorruptedFileError, UsageError
from mtbench.files.atomic import storage_errors
from mtbench.files.hashing import file_hash
from mtbench.files.reading import read_bytes
from mtbench.files.schema import convert
from reference_models.training.loop import Network, State

SCHEMA = 1
ADAPTATION = "adapt"
Epoch = Annotated[int, Field(ge=0, lt=2**31)]
_FINISHED = "finished"
_DATA = {"dataset", "content_sha256"}
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")
_NAMED = 4
_PICKLED = (".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle")


@dataclass(frozen=True)
class Kept:
    """The JSON file of a checkpoint."""

    schema: int
    identity: Mapping[str, Any]
    weights: Annotated[str, Field(pattern=r"^[a-z0-9-]+\.safetensors$")]
    epoch: Epoch
    best_epoch: Epoch
    best_value: float | None
    history: list[dict[str, float | None]]
    sha256: str


class Checkpoints:
    """The checkpoints of one run in one directory, one per stage, replaced after every epoch.

    ``identity`` says which run they belong to (model, seed, hyper-parameters, dataset); a checkpoint of another run is
    refused. The JSON file is renamed into place after the weights are written, and holds a SHA-256 of itself and of the
    weights file it names. So a killed process leaves a whole checkpoint, of this epoch or the last, and an edited one
    is noticed.
    """

    def __init__(self, directory: Path, identity: Mapping[str, object]) -> None:
        self.directory = directory
        self.identity = json.loads(json.dumps(identity))

    def save(self, stage: str, state: State[Network], *, finished: bool = False) -> None:
        """Write the state after an epoch and delete the one before; of a ``finished`` stage, the chosen weights alone.

        Raises `MtbenchError` for a full or read-only disk.
        """
        weights = self.directory / f"{stage}-{_FINISHED if finished else f'{state.epoch:04d}'}.safetensors"
        tensors = _flatten(state, weights_alone=finished)
        with storage_errors(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            weights.write_bytes(save({name: value.contiguous() for name, value in tensors.items()}))
            payload = {
                "schema": SCHEMA,
                "identity": self.identity,
                "weights": weights.name,
                "epoch": state.epoch,
                "best_epoch": state.best_epoch,
                "best_value": state.best_value,
                "history": state.history,
            }
            payload["sha256"] = _digest(payload, weights)
            temporary = self.directory / f"{stage}.json.new"
            temporary.write_text(json.dumps(payload, indent=1) + "\n", encoding="utf-8")
            temporary.replace(self._path(stage))
            # Only now: until the rename, the JSON file names the older weights.
            for older in self.directory.glob(f"{stage}-*.safetensors"):
                if older != weights:
                    older.unlink()

    def restore(self, stage: str, state: State[Network]) -> bool:
        """Set ``state`` from the stage's checkpoint and return whether there was one to continue.

        Data with the same content are the same: training on ``wikitopics-mt1/health`` also serves
        ``wikitopics-mt1/taxonomy``, which has the same training graph. Each adapts to its own test graph, so that a
        finished adaptation to another graph is ignored.

        Raises `UsageError` for a checkpoint of another run or another network, and for a pickled one, which is never
        opened, because that would run the code in it; `CorruptedFileError` for a damaged one.
        """
        self._expect_no_pickles()
        path = self._path(stage)
        if not path.exists():
            return False
        try:
            payload = json.loads(read_bytes(path))
            convert(payload, Kept, "it", ValueError)
            weights = self.directory / payload["weights"]
            damaged = payload["schema"] != SCHEMA or _digest(payload, weights) != payload["sha256"]
            tensors = {} if damaged else load_file(weights)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
            raise self._corrupted(path, f"{type(error).__name__}: {error}") from error
        if damaged:
            raise self._corrupted(path, f"it or {weights.name} is not what was written")
        there = payload["identity"]
        if there.get("content_sha256") == self.identity.get("content_sha256"):
            there = there | {"dataset": self.identity.get("dataset")}
        if differing := _differences(there, self.identity):
            finished = payload["weights"] == f"{stage}-{_FINISHED}.safetensors"
            if stage == ADAPTATION and finished and set(differing) <= _DATA:
                return False
            raise UsageError(
                f"the checkpoint in {self.directory} belongs to another run ({'; '.join(differing.values())}): "
                "give the same options to continue it, --restart to discard it, or another --out"
            )
        if unlike := _unlike(tensors, state):
            raise UsageError(
                f"the checkpoint in {self.directory} is of a network built differently ({'; '.join(unlike)}), by "
                "another version of the package: discard it with --restart, or name another --out"
            )
        try:
            _unflatten(state, tensors)
        except (ValueError, LookupError, RuntimeError) as error:
            raise self._corrupted(path, f"{weights.name} holds other tensors than were written, {error!r}") from error
        state.epoch, state.best_epoch = payload["epoch"], payload["best_epoch"]
        state.best_value, state.history = payload["best_value"], payload["history"]
        # The checkpoint of a finished stage has the best weights alone, which the network has now.
        if state.best_epoch and not state.best:
            state.best = state.weights()
        return True

    def _expect_no_pickles(self) -> None:
        pickled = sorted(path.name for path in self.directory.glob("*") if path.suffix.lower() in _PICKLED)
        if pickled:
            raise UsageError(
                f"{self.directory / pickled[0]} is a pickled checkpoint, which is never loaded because that runs the "
                "code in it: remove it, or discard all checkpoints there with --restart"
            )

    def _path(self, stage: str) -> Path:
        return self.directory / f"{stage}.json"

    def _corrupted(self, path: Path, why: str) -> CorruptedFileError:
        return CorruptedFileError(f"{path}: the checkpoint cannot be read ({why}); discard it with --restart")


def _digest(payload: Mapping[str, object], weights: Path) -> str:
    """Return a SHA-256 that changes with either of a checkpoint's two files."""
    described = {key: value for key, value in payload.items() if key != "sha256"}
    return hashlib.sha256(f"{json.dumps(described)}{file_hash(weights)}".encode()).hexdigest()


def _differences(there: Mapping[str, object], here: Mapping[str, object]) -> dict[str, str]:
    """Return the keys whose values differ, each with a text that names both values."""
    keys = [key for key in sorted({*there, *here}) if there.get(key) != here.get(key)]
    return {key: f"{key}: {there.get(key)} there, {here.get(key)} here" for key in keys}


def _unlike(tensors: Mapping[str, Tensor], state: State[Network]) -> list[str]:
    """Return how the weights of a checkpoint differ from the network's in names and shapes, the first `_NAMED`."""
    here = {name: tuple(value.shape) for name, value in state.weights().items()}
    there = {
        name.removeprefix("weights."): tuple(value.shape)
        for name, value in tensors.items()
        if name.startswith("weights.")
    }
    keys = [key for key in sorted({*there, *here}) if there.get(key) != here.get(key)]
    return [f"{key}: {there.get(key, 'absent')} there, {here.get(key, 'absent')} here" for key in keys[:_NAMED]]


def _flatten(state: State[Network], *, weights_alone: bool) -> dict[str, Tensor]:
    tensors = {f"weights.{name}": value for name, value in state.weights().items()}
    if weights_alone:
        return tensors
    tensors |= {f"best.{name}": value for name, value in state.best.items()}
    for index, moments in state.optimizer.state_dict()["state"].items():
        tensors |= {f"adam.{index}.{name}": moments[name].clone() for name in _MOMENTS}
    return tensors


def _unflatten(state: State[Network], tensors: Mapping[str, Tensor]) -> None:
    parts: dict[str, dict[str, Tensor]] = {"weights": {}, "best": {}, "adam": {}}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = value
    device = next(state.network.parameters()).device
    state.restore(parts["weights"])
    shapes = ({name: value.shape for name, value in some.items()} for some in (parts["best"], state.weights()))
    if parts["best"] and next(shapes) != next(shapes):
        raise ValueError("the best weights are of another network")
    state.best = {name: value.to(device) for name, value in parts["best"].items()}
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in parts["adam"].items():
        index, _, moment = name.partition(".")
        moments.setdefault(int(index), {})[moment] = value
    groups = state.optimizer.state_dict()["param_groups"]
    state.optimizer.load_state_dict({"state": moments, "param_groups": groups})
