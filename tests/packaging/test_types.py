"""The types hold, as mypy reads them with the libraries of every extra that has some."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
@pytest.mark.skipif("MTBENCH_TEST_TYPES" not in os.environ, reason="only tox -e models checks the types")
def test_the_types_hold():
    checked = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
