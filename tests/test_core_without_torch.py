"""The core knows no framework: nothing in it imports one, whether or not one is installed."""

import json
import os
from importlib.util import find_spec

import pytest
import toys

SCORE = """
import json, pkgutil, importlib, sys
import numpy as np
import toys
toys.install()
import mtbench

for module in pkgutil.walk_packages(mtbench.__path__, "mtbench."):
    # The adapters are where other frameworks begin.
    if not module.name.endswith("__main__") and not module.name.startswith("mtbench.adapters."):
        importlib.import_module(module.name)
split = mtbench.load("toy").test
result = mtbench.evaluate(lambda triples: triples @ np.array([0.5, 0.1, 1]), split)
frameworks = ("torch", "torch_geometric", "pykeen", "tensorflow", "jax", "reference_models")
print(json.dumps([result.metrics["mrr"], [name for name in frameworks if name in sys.modules]]))
"""


def test_loading_and_evaluating_imports_no_framework(tmp_path):
    where = {"MTBENCH_CACHE": str(tmp_path / "cache"), "PYTHONWARNINGS": "ignore"}
    printed, errors = toys.python("-c", SCORE, env=where).communicate()
    assert not errors
    mrr, loaded = json.loads(printed)
    assert loaded == []
    assert 0 < mrr <= 1


@pytest.mark.skipif(os.environ.get("MTBENCH_TEST_WITHOUT_TORCH") != "1", reason="not the environment without PyTorch")
def test_the_environment_without_torch_has_none():
    assert find_spec("torch") is None
