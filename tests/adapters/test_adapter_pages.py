"""The pages on other libraries' models: their examples run as they stand, with the real libraries."""

import pages
import pytest


@pytest.mark.parametrize(("name", "library"), [("pyg.md", "torch_geometric"), ("pykeen.md", "pykeen")])
@pytest.mark.filterwarnings("ignore")
def test_the_examples_of_a_page_run(name, library, tmp_path, request, monkeypatch):
    pytest.importorskip(library)
    found = pages.blocks(pages.DOCS / name)
    assert pages.needs(found, f"mtbench.adapters import {name.removesuffix('.md')}")
    pages.play(found, tmp_path, request, monkeypatch, set())
