"""A checkout of somebody's repository: what is imported from it, and what a result says of it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from mtbench.errors import UsageError


def imported(checkout: Path, address: str, modules: Sequence[str], stand_ins: Mapping[str, Mapping[str, object]]) -> Any:
    """Import modules from a checkout and return the last; ``stand_ins`` are attributes of modules to do without.

    These are what has to be compiled. Raises `UsageError` for a folder that is no checkout of ``address``.
    """
    if not (checkout / modules[0].split(".")[0]).is_dir():
        raise UsageError(f"{checkout} is no checkout: git clone {address}, and give its folder by --set checkout=DIR")
    for name, attributes in stand_ins.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(attributes)
    sys.path.insert(0, str(checkout))
    try:
        return [importlib.import_module(name) for name in modules][-1]
    finally:
        sys.path.remove(str(checkout))


def commit(checkout: Path) -> str:
    """Return the commit of a checkout, marked where files differ from it; empty where git knows none."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
