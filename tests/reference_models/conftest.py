"""The reference models need PyTorch: where it is not installed, nothing in this folder is collected."""

import warnings
from importlib.util import find_spec

import pytest

import mtbench
from mtbench.files import pictures

if find_spec("torch") is None:
    collect_ignore_glob = ["*.py"]

warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Give every test a cache of its own."""
    monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Run as where matplotlib is not installed: the pictures of a toy run take longer than its training."""
    monkeypatch.setattr(pictures, "available", lambda: False)


@pytest.fixture
def drawn(monkeypatch, undrawn):
    """Draw pictures where matplotlib is installed, as a user's run does; returns whether it is."""
    found = find_spec("matplotlib") is not None
    monkeypatch.setattr(pictures, "available", lambda: found)
    return found


@pytest.fixture
def two_threads(torch):
    """Let the library use two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def same_bits(torch, two_threads):
    """Return a function that asserts that the tensors of a computation have the same bits with one and two threads."""

    def check(compute):
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(compute())
        assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))

    return check


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """Return the directory of a small MetaFam, built once."""
    folder = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTBENCH_CACHE", str(folder / "cache"))
        mtbench.build("metafam", seed=3, train_trees=4, test_trees=2, out=folder / "metafam")
    return folder / "metafam"
