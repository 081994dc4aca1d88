"""Link prediction with new relation types and new nodes: datasets, candidates, evaluator.

The public names are those in ``__all__``, imported when first used; everything else is private until
someone needs it. Functions are verbs and modules nouns, so that no public function shares a module's name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from mtbench.version import __version__ as __version__

if TYPE_CHECKING:
    from mtbench.analysis.auditing import Audit as Audit
    from mtbench.analysis.auditing import audit as audit
    from mtbench.analysis.comparison import Comparison as Comparison
    from mtbench.analysis.comparison import compare as compare
    from mtbench.analysis.leakage import contamination as contamination
    from mtbench.builders.folders import from_files as from_files
    from mtbench.builders.making import build as build
    from mtbench.data.catalog import Record as Record
    from mtbench.data.loading import load as load
    from mtbench.data.splits import Dataset as Dataset
    from mtbench.data.splits import Split as Split
    from mtbench.errors import MtbenchError as MtbenchError
    from mtbench.evaluation.tasks import Task as Task
    from mtbench.evaluation.tasks import evaluate as evaluate
    from mtbench.evaluation.tasks import task as task
    from mtbench.runs.origin import RunInfo as RunInfo
    from mtbench.runs.result import Result as Result

_HOME = {
    "Audit": "analysis.auditing",
    "Comparison": "analysis.comparison",
    "Dataset": "data.splits",
    "MtbenchError": "errors",
    "Record": "data.catalog",
    "Result": "runs.result",
    "RunInfo": "runs.origin",
    "Split": "data.splits",
    "Task": "evaluation.tasks",
    "audit": "analysis.auditing",
    "build": "builders.making",
    "compare": "analysis.comparison",
    "contamination": "analysis.leakage",
    "evaluate": "evaluation.tasks",
    "from_files": "builders.folders",
    "load": "data.loading",
    "task": "evaluation.tasks",
}
__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
