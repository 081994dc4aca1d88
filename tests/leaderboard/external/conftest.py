"""Folders that look like a checkout of somebody's repository."""

import subprocess
import sys

import numpy as np
import pytest
from planned import Plan, run
from pretend import pretended
from ranking_toys import random_split

from mtbench.runs.result import load, verify


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that writes the files of a checkout; what is imported from it is forgotten after the test."""

    def write(name, files):
        place = tmp_path / name
        for path, text in files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(text, encoding="utf-8")
            module = path.removesuffix(".py").removeprefix("src/").removesuffix("/__init__").replace("/", ".")
            monkeypatch.setitem(sys.modules, module, None)
            del sys.modules[module]
        return place

    for name in (
        "torch_scatter",
        "torch_geometric.utils.degree",
        "motif.rspmm",
        "motif.util",
        "trix.rspmm",
        "ultra.rspmm",
    ):
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return write


@pytest.fixture
def committed():
    """Return a function that makes what a folder holds a commit."""

    def commit(place):
        git = ["git", "-C", str(place), "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "theirs"]):
            subprocess.run([*git, *words], check=True)
        return place

    return commit


@pytest.fixture
def noted(monkeypatch):
    """Return a function that makes networks note every question that reaches them; it returns the notes."""

    def note(*networks):
        questions = []

        def noting(network, answer):
            def asked(self, block):
                questions.extend((network, *question) for question in block.tolist())
                return answer(self, block)

            return asked

        for network in networks:
            monkeypatch.setattr(network, "answer", noting(network, network.answer))
        return questions

    return note


@pytest.fixture
def tangled():
    """Return triples of 18 nodes with parallel edges, leaves that are alike, parts, a loop, and no type but 0 and 1."""
    rng = np.random.default_rng(1)
    drawn = np.stack((rng.integers(9, size=11), rng.integers(2, size=11), rng.integers(9, size=11)), axis=1)
    leaves = [[3, 0, 12], [3, 0, 13], [14, 1, 4], [15, 1, 4], [15, 1, 4], [14, 1, 4]]
    return np.concatenate((drawn, drawn[:2], leaves, [[9, 0, 10], [10, 1, 9], [11, 1, 11]]))


@pytest.fixture
def ran(toy_cache, tmp_path):
    """Return a function that runs a recipe on a toy dataset, and returns the directory and what the run tells."""

    def run_it(recipe, **settings):
        plan = Plan(f"leaderboard.external.{recipe}:build", tmp_path / "run", settings=settings)
        directory, _ = run(plan)
        assert verify(directory).ok
        return directory, load(directory).run

    return run_it


@pytest.fixture
def by_rows():
    """Return a function that compares whole rows of a model, on either device, with its scores triple by triple."""

    def compare(make, split=None):
        split = split or random_split(1, entities=30, graph=60, targets=8)
        heads, relations, tails = split.targets.T
        every, slots = np.arange(split.num_entities), np.arange(split.relation_slots)
        scorer = make("cpu").scorer(split.observable())
        asked = [
            ("score_tails", (heads, relations), scorer.score, (heads, relations, every)),
            ("score_heads", (relations, tails), scorer.score_inverses, (every, relations, tails)),
        ]
        if hasattr(scorer, "score_relations"):
            asked.append(("score_relations", (heads, tails), scorer.score_between, (heads, slots, tails)))
        with pretended():
            model = make("cuda")
            on_device = model.scorer(split.observable())
            there = [getattr(on_device, rows)(*columns) for rows, columns, _, _ in asked]
            assert model.info.device == "cuda"
            assert model.peak_memory() > 0
        for (rows, columns, by_triples, cells), found in zip(asked, there, strict=True):
            cells = np.broadcast_arrays(
                *(values if values is every or values is slots else values[:, None] for values in cells)
            )
            expected = by_triples(np.stack(cells, axis=-1).reshape(-1, 3)).reshape(cells[0].shape)
            for answer in (getattr(scorer, rows)(*columns), found):
                np.testing.assert_allclose(answer, expected, rtol=0, atol=1e-4)

    return compare
