"""What the tests of audits share: the audit of each released dataset, made once."""

import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import released

import mtbench
from mtbench.analysis.auditing import Audit


@pytest.fixture(scope="session")
def audited(once, mirror: Path) -> Callable[[str], Audit]:
    """Return the function from a released dataset's name to its audit, made by whichever worker asks first."""

    def write(folder: Path, name: str) -> None:
        folder.mkdir()
        (folder / "audit").write_bytes(pickle.dumps(mtbench.audit(released.dataset(name, mirror))))

    def read(name: str) -> Audit:
        folder = once(f"audit-{name.replace('/', '-')}", lambda place: write(place, name))
        return pickle.loads((folder / "audit").read_bytes())

    return cache(read)
