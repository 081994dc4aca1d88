"""A checkout of somebody's repository: what is imported from it, its weights, its commit, and a model of those."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from mtbench.data.splits import Split
from mtbench.errors import UsageError
from mtbench.training.models import Context, Model


class Published(Model):
    """A model whose weights are published: it learns nothing here.

    ``settings`` has one of the ``choices`` of each key, the first unless another is asked for. Raises `UsageError` for
    another setting or value, and without ``checkout``, the folder with the authors' repository.
    """

    def __init__(self, context: Context, name: str, choices: Mapping[str, Sequence[str]]) -> None:
        asked = dict(context.settings)
        checkout = asked.pop("checkout", "")
        self.settings = {key: asked.pop(key, values[0]) for key, values in choices.items()}
        if asked or not checkout or any(self.settings[key] not in values for key, values in choices.items()):
            known = (f"{key}={'|'.join(values)}" for key, values in choices.items())
            raise UsageError(f"{name} takes --set {', '.join(['checkout=DIR', *known])}")
        self.checkout, self.seed, self.workdir = Path(checkout), context.seed, context.workdir

    def fit(self, train: Split, valid: Split) -> None:
        """Learn nothing: the weights are there."""

    @property
    def made_of(self) -> str:
        """What tells the answers of one such model from those of another."""
        return " ".join((self.info.commit, *map(str, self.info.hyperparameters.values())))


def imported(checkout: Path, address: str, module: str, stand_ins: Mapping[str, Mapping[str, object]]) -> Any:
    """Import a module from a checkout; ``stand_ins`` are modules it is not to import, such as compiled ones, by name.

    Raises `UsageError` for a folder that is no checkout of the repository at ``address``.
    """
    if not checkout.joinpath(*module.split(".")).with_suffix(".py").is_file():
        raise UsageError(f"{checkout} has no {module}: git clone {address}, and name its folder by --set checkout=DIR")
    for name, attributes in stand_ins.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(attributes)
    sys.path.insert(0, str(checkout))
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(str(checkout))


def weights(file: Path, address: str) -> dict[str, Any]:
    """Return what a checkpoint holds; raises `UsageError` where it is not there, or is none."""
    try:
        found: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        why = "is no checkpoint" if file.is_file() else "is not there"
        raise UsageError(f"{file} {why}: git clone {address} again, with its large files") from error
    return found


def commit(checkout: Path) -> str:
    """Return the commit of a checkout, marked where its files differ from that; empty where git knows of none."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
