"""A released graph where there is one, random graphs elsewhere, and the real libraries or a visible skip."""

import pytest
from ranking_toys import random_split

import mtbench


@pytest.fixture(scope="session")
def metafam(tmp_path_factory):
    """The test graph of MetaFam, which is built without network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        return mtbench.load("metafam").test


@pytest.fixture
def split():
    """Sixty entities, eight relations, and a dictionary of twenty slots."""
    return random_split(1)


@pytest.fixture(scope="session")
def pykeen(torch, tmp_path_factory):
    """PyKEEN, which makes a folder when it is imported: a temporary one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSTOW_HOME", str(tmp_path_factory.mktemp("pystow")))
        return pytest.importorskip("pykeen")


@pytest.fixture(scope="session")
def pyg(torch):
    """PyTorch Geometric."""
    return pytest.importorskip("torch_geometric")
