"""A checkout of somebody's repository: what is imported from it, its weights, and which commit of it that is."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from mtbench.errors import UsageError


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
