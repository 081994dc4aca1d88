"""The recipe of ULTRA, on a checkout of a few lines that looks like the authors' to it."""

import hashlib
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from ranking_toys import random_split

from leaderboard.external import ultra
from leaderboard.external.propagation import CPU
from leaderboard.external.queries import Answers, Kinds
from mtbench.errors import UsageError
from mtbench.evaluation.tasks import evaluate
from mtbench.names import HEAD, RELATION, TAIL
from mtbench.training.models import Context

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
MODELS = """
import torch
from torch import nn
from torch_scatter import scatter_add
from . import tasks

class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear, self.layer_norm = nn.Linear(2 * width, width), nn.LayerNorm(width)
        self.relation_projection, self.activation = nn.Linear(width, width), torch.relu

class Relations(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, graph, query):
        kinds = torch.arange(graph.num_relations, device=query.device)
        return torch.sin(self.scale + 3 * query[:, None, None] + kinds[None, :, None])

class Entities(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for width in widths)
        self.mlp = nn.Linear(2 * widths[-1], 1)

class Ultra(nn.Module):
    def __init__(self, relations, entities):
        super().__init__()
        assert (relations.pop("class"), entities.pop("class")) == ("RelNBFNet", "EntityNBFNet")
        self.relation_model, self.entity_model = Relations(relations["input_dim"]), Entities(entities["hidden_dims"])
"""
TASKS = """
from types import SimpleNamespace

class Graph(SimpleNamespace):
    def to(self, device):
        return self

def build_relation_graph(graph):
    graph.relation_graph = Graph(num_relations=graph.num_relations)
    return graph
"""


@pytest.fixture
def checkout(written, committed, monkeypatch):
    """Return a checkout with one commit and the weights ``ultra_3g.pth``."""
    texts = {"__init__": "", "models": MODELS, "tasks": TASKS}
    place = written("ULTRA", {f"ultra/{name}.py": text for name, text in texts.items()})
    (place / "ckpts").mkdir()
    monkeypatch.setattr(ultra, "KIND", {"input_dim": 4, "hidden_dims": [4] * 3})
    weights(place, "ultra_3g.pth")
    return committed(place)


def weights(place, name):
    models = ultra.imported(place, "", "ultra.models", {"torch_scatter": {"scatter_add": None}})
    torch.manual_seed(3)
    kind = {"input_dim": 4, "hidden_dims": [4] * 3}
    model = models.Ultra({"class": "RelNBFNet", **kind}, {"class": "EntityNBFNet", **kind})
    torch.save({"model": model.state_dict()}, place / "ckpts" / name)


def made(checkout, workdir=None, device="cpu", **settings):
    return ultra.build(Context("toy", device=device, workdir=workdir, settings={"checkout": str(checkout), **settings}))


@pytest.fixture
def asked(noted):
    """Return every question that reaches a network, after its name."""
    return noted(ultra.OnGraph)


def test_every_question_is_asked_once_by_its_direction_whatever_the_tasks(checkout, asked):
    split = random_split(1, graph=60, targets=8)
    scorer = made(checkout).scorer(split.observable())
    for protocol in ("dual", "entity", "relation"):
        for vocabulary in ("present", "slots"):
            evaluate(scorer, split, protocol, vocabulary)
    assert max(Counter(asked).values()) == 1
    head, relation, tail = split.targets[0].tolist()
    kinds = Kinds(split)
    assert (ultra.OnGraph, head, kinds.of_slot[relation], tail) in asked
    assert (ultra.OnGraph, tail, kinds.of_slot[relation] + kinds.half, head) in asked


def test_slots_without_an_edge_are_one_type_and_no_inverse(checkout, asked):
    split = random_split(1, graph=60, targets=8)
    empty = sorted(set(range(split.relation_slots)) - set(split.graph[:, RELATION].tolist()))
    assert len(empty) > 1
    triples = np.array([[0, slot, 5] for slot in range(split.relation_slots)])
    scores = made(checkout).scorer(split.observable()).score(triples)
    assert len(set(scores[empty].tolist())) == 1
    assert {question[2] for question in asked} == set(range(split.relation_slots - len(empty) + 1))


@pytest.mark.parametrize("heads", ultra.HEADS)
def test_a_head_is_asked_for_by_the_inverse_as_the_relation_or_the_inverse_sees_it(checkout, heads):
    split = random_split(1, graph=60, targets=8)
    scorer = made(checkout, heads=heads).scorer(split.observable())
    network, kinds = scorer.ends.network, scorer.kinds
    inverse = int(kinds.of_slot[0]) + kinds.half
    seen_from = torch.tensor([inverse if heads == "tail" else inverse - kinds.half])
    with torch.inference_mode():
        representations = network.model.relation_model(network.of_relations(CPU), seen_from).transpose(0, 1)
        shared = network.network.relations(representations, torch.tensor([inverse]))
        expected = network.network.scores(shared, np.array([0]), 5, np.arange(split.num_entities))[:, 0].numpy()
    triples = np.array([[node, 0, 5] for node in range(split.num_entities)])
    np.testing.assert_allclose(scorer.score_inverses(triples), expected, rtol=1e-5, atol=1e-5)


def test_whole_rows_are_the_scores_of_their_triples_on_either_device(checkout, by_rows):
    by_rows(lambda device: made(checkout, device=device))


def test_what_is_not_held_is_computed_again_once_for_all_that_is_asked_together(checkout, monkeypatch):
    split = random_split(1, graph=60, targets=8)
    held = made(checkout).scorer(split.observable()).score(split.targets)
    monkeypatch.setattr(ultra, "HELD", 0)
    scorer = made(checkout).scorer(split.observable())
    blocks, shared = [], ultra.OnGraph._shared
    monkeypatch.setattr(ultra.OnGraph, "_shared", lambda self, block: blocks.append(block) or shared(self, block))
    np.testing.assert_array_equal(scorer.score(split.targets), held)
    assert (blocks, scorer.ends.network.shared) == ([0], {})


def test_an_interrupted_run_knows_its_answers_and_no_others(checkout, asked, tmp_path):
    split = random_split(1, graph=60, targets=8)
    first = made(checkout, tmp_path).scorer(split.observable()).score(split.targets)
    known = len(asked)
    again = made(checkout, tmp_path).scorer(split.observable())
    np.testing.assert_array_equal(again.score(split.targets), first)
    assert len(asked) == known
    again.score(split.targets[:, [TAIL, RELATION, HEAD]])
    assert len(asked) > known
    with pytest.raises(UsageError, match="has the answers of another model: begin anew with --restart"):
        made(checkout, tmp_path, heads="tail").scorer(split.observable())


def test_answers_of_code_that_was_changed_since_are_another_models(checkout, tmp_path):
    split = random_split(1, graph=60, targets=8)
    for text in (f"{TASKS}\n# changed\n", f"{TASKS}\n# changed again\n"):
        (checkout / "ultra" / "tasks.py").write_text(text, encoding="utf-8")
        model = made(checkout, tmp_path)
        if "again" in text:
            with pytest.raises(UsageError, match="has the answers of another model"):
                model.scorer(split.observable())
        else:
            model.scorer(split.observable()).score(split.targets)


def test_a_second_checkout_is_run_by_a_process_of_its_own(checkout, tmp_path):
    made(checkout)
    other = shutil.copytree(checkout, tmp_path / "other")
    with pytest.raises(UsageError, match=r"ultra\.models is that of .*: run .*other by a command of its own"):
        made(other)


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ([1], "is no checkpoint"),
        ({"state_dict": {}}, "holds no weights of this network"),
        ({"model": {}}, "holds no weights of this network"),
        ({"model": [1]}, "holds no weights of this network"),
        (None, "is not there"),
    ],
)
def test_a_file_that_holds_no_weights_of_the_network_is_refused(checkout, stored, why):
    file = checkout / "ckpts" / "ultra_3g.pth"
    file.unlink()
    if stored is None:
        os.mkfifo(file)  # which nobody writes into
    else:
        torch.save(stored, file)
    with pytest.raises(UsageError, match=f"{file} {why}: git clone {ultra.ADDRESS} again, with its large files"):
        made(checkout)


def test_a_run_tells_what_was_run(checkout, ran, tmp_path):
    directory, info = ran("ultra", checkout=str(checkout), checkpoint="ultra_3g.pth")
    sha256 = hashlib.sha256((checkout / "ckpts" / "ultra_3g.pth").read_bytes()).hexdigest()
    assert info.hyperparameters == {"checkpoint": "ultra_3g.pth", "checkpoint_sha256": sha256, "heads": "inverse"}
    assert info.pretraining_graphs == ("FB15k-237", "WN18RR", "CoDEx-Medium")
    head = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert (info.model, info.url, info.commit) == ("ultra-3g", ultra.ADDRESS, head.stdout.strip())
    assert str(tmp_path) not in (directory / "result.json").read_text(encoding="utf-8")


def test_what_differs_from_the_commit_is_marked(checkout):
    (checkout / "ultra" / "tasks.py").write_text(f"{TASKS}\n# changed\n", encoding="utf-8")
    assert made(checkout).info.commit.endswith("-dirty")
    assert ultra.commit(checkout.parent) == ""
    assert ultra.commit(checkout / "ultra") == ""  # git knows the folder above, which may be anything


def test_there_are_fifty_graphs_less_those_that_pairs_share():
    assert len(set(ultra.FIFTY)) == 50 - 4


@pytest.mark.skipif("MTBENCH_TEST_ULTRA" not in os.environ, reason="of a checkout of ULTRA (MTBENCH_TEST_ULTRA)")
@pytest.mark.parametrize("heads", ultra.HEADS)
def test_the_scores_are_those_of_the_authors_code(heads):
    pytest.importorskip("torch_geometric")
    model = made(Path(os.environ["MTBENCH_TEST_ULTRA"]), heads=heads)
    split = random_split(2, graph=200, targets=8)
    scorer = model.scorer(split.observable())
    assert isinstance(scorer, Answers)
    on_graph, half, nodes = scorer.ends.network, scorer.kinds.half, split.num_entities
    graph = split.graph.copy()
    graph[:, RELATION] = scorer.kinds.of_slot[graph[:, RELATION]]
    head, relation, tail = torch.from_numpy(graph.T)
    graph = SimpleNamespace(
        edge_index=torch.stack((torch.cat((head, tail)), torch.cat((tail, head)))),
        edge_type=torch.cat((relation, relation + half)),
        relation_graph=on_graph.of_relations(CPU),
        num_nodes=nodes,
        num_edges=2 * len(head),
        num_relations=2 * half,
    )
    every = torch.arange(nodes)
    for head, slot, tail in split.targets.tolist():
        kind = int(scorer.kinds.of_slot[slot])
        of_tails = torch.stack((torch.full_like(every, head), every, torch.full_like(every, kind)), dim=1)
        of_heads = torch.stack((every, torch.full_like(every, tail), torch.full_like(every, kind)), dim=1)
        if heads == "tail":
            of_heads = torch.stack((torch.full_like(every, tail), every, torch.full_like(every, kind + half)), dim=1)
        with torch.inference_mode():
            expected = model.model(graph, torch.stack((of_tails,)))[0], model.model(graph, torch.stack((of_heads,)))[0]
        tails = np.stack(np.broadcast_arrays(head, slot, np.arange(nodes)), axis=1)
        heads_of = np.stack(np.broadcast_arrays(np.arange(nodes), slot, tail), axis=1)
        np.testing.assert_allclose(scorer.score(tails), expected[0], rtol=0, atol=1e-4)
        np.testing.assert_allclose(scorer.score_inverses(heads_of), expected[1], rtol=0, atol=1e-4)
