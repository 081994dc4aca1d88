"""Link prediction with new relation types and new nodes: datasets, candidates, evaluator.

The public names are those in ``__all__``, imported when first used; everything else is private until
someone needs it.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mtbench.audit import Audit as Audit
    from mtbench.audit import audit as audit
    from mtbench.build import build as build
    from mtbench.catalog import Record as Record
    from mtbench.compare import Comparison as Comparison
    from mtbench.compare import compare as compare
    from mtbench.contamination import contamination as contamination
    from mtbench.datasets import load as load
    from mtbench.errors import MtbenchError as MtbenchError
    from mtbench.evaluate import Task as Task
    from mtbench.evaluate import evaluate as evaluate
    from mtbench.results import Result as Result
    from mtbench.runs import RunInfo as RunInfo
    from mtbench.splits import Dataset as Dataset
    from mtbench.splits import Split as Split
    from mtbench.tasks import task as task

_HOME = {
    "Audit": "mtbench.audit",
    "Comparison": "mtbench.compare",
    "Dataset": "mtbench.splits",
    "MtbenchError": "mtbench.errors",
    "Record": "mtbench.catalog",
    "Result": "mtbench.results",
    "RunInfo": "mtbench.runs",
    "Split": "mtbench.splits",
    "Task": "mtbench.evaluate",
    "audit": "mtbench.audit",
    "build": "mtbench.build",
    "compare": "mtbench.compare",
    "contamination": "mtbench.contamination",
    "evaluate": "mtbench.evaluate",
    "load": "mtbench.datasets",
    "task": "mtbench.tasks",
}
"""The module that defines each public name."""

__all__ = [*sorted(_HOME), "__version__"]


class _CallableModule(ModuleType):
    """A module that holds the public function of its own name, and can be called as that function."""

    def __call__(self, *arguments: object, **options: object) -> object:
        return self.__wrapped__(*arguments, **options)

    @property
    def __wrapped__(self):  # type: ignore[no-untyped-def]
        return vars(self)[self.__name__.rpartition(".")[2]]


class _Package(ModuleType):
    """The package: whichever is imported first, ``mtbench.build`` the module is ``mtbench.build`` the function."""

    def __setattr__(self, name: str, value: object) -> None:
        # The import system binds a submodule here after it has run.
        if isinstance(value, ModuleType) and _HOME.get(name) == value.__name__:
            value.__class__ = _CallableModule
        super().__setattr__(name, value)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(_HOME[name])
    found = home if home.__name__ == f"{__name__}.{name}" else getattr(home, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Package
