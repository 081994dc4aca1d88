"""The recipe of TRIX, on a checkout of a few lines that looks like the authors' to it."""

import hashlib
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from ranking_toys import random_split

from leaderboard.external import trix
from leaderboard.external.queries import Queries
from mtbench.evaluation.tasks import evaluate
from mtbench.names import RELATION, BetweenScorer
from mtbench.training.models import Context

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
PARTS = """
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear, self.layer_norm, self.activation = nn.Linear(2 * width, width), nn.LayerNorm(width), torch.relu
        self.relation_projection = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

class Relations(nn.Module):
    def __init__(self, input_dim, hidden_dims, **kind):
        super().__init__()
        self.node_mlp = nn.Linear(2 * input_dim, input_dim)
        for part in ("hh", "ht", "th", "tt"):
            setattr(self, f"layers_{part}", nn.ModuleList(Layer(width) for width in hidden_dims))

class Entities(nn.Module):
    def __init__(self, out, input_dim, hidden_dims, **kind):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for width in hidden_dims)
        self.mlp = nn.Linear(2 * input_dim, out)
"""
FOR_ENTITIES = """
from torch import nn
from torch_scatter import scatter
from trix.parts import Entities, Relations

class TRIX(nn.Module):
    def __init__(self, relations, one, two):
        super().__init__()
        self.relation_model, self.entity_model_1, self.entity_model_2 = (
            Relations(**relations), Entities(1, **one), Entities(1, **two)
        )
"""
FOR_RELATIONS = """
from torch import nn
from torch_scatter import scatter
from trix.parts import Entities, Relations

class TRIX(nn.Module):
    def __init__(self, relations, entities, layers):
        super().__init__()
        rounds = range(layers.num_layer)
        self.relation_model = nn.ModuleList(Relations(**relations) for _ in rounds)
        self.entity_model = nn.ModuleList(Entities(layers.feature_dim, **entities) for _ in rounds)
        self.mlp = nn.Linear(layers.feature_dim, 1)
"""


@pytest.fixture
def checkout(written, committed, monkeypatch):
    """Return a checkout with one commit and weights of both networks, under the names they have there."""
    texts = {"__init__": "", "parts": PARTS, "models_entity": FOR_ENTITIES, "models_relation": FOR_RELATIONS}
    place = written("TRIX", {f"src/trix/{name}.py": text for name, text in texts.items()})
    torch.manual_seed(3)
    for name in trix.SINCE:
        (place / name).write_text("not yet", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(trix.Trix, "load", lambda *_: None)
        models = made(place).models
    for name, model in models.items():
        before = {since: old for old, since in trix.SINCE[name].items()}
        parts = ((*key.split(".", 1), values) for key, values in model.state_dict().items())
        called = {f"{before.get(first, first)}.{rest}": values for first, rest, values in parts}
        torch.save({"model": called}, place / name)
    return committed(place)


def made(checkout, workdir=None, device="cpu", **settings):
    return trix.build(Context("toy", device=device, workdir=workdir, settings={"checkout": str(checkout), **settings}))


@pytest.fixture
def asked(noted):
    """Return every question that reaches either network, with its name."""
    return noted(Queries, trix.RelationQueries)


def test_every_question_is_asked_once_and_relations_of_their_own_network(checkout, asked):
    split = random_split(1, graph=60, targets=8)
    scorer = made(checkout).scorer(split.observable())
    for protocol in ("dual", "entity", "relation"):
        for vocabulary in ("present", "slots"):
            evaluate(scorer, split, protocol, vocabulary, ask_again=False)  # which asks for other triples, too
    assert max(Counter(asked).values()) == 1
    head, relation, tail = split.targets[0].tolist()
    kind, half = int(scorer.kinds.of_slot[relation]), scorer.kinds.half
    assert (Queries, head, kind, tail) in asked
    assert (Queries, tail, kind + half, head) in asked
    assert (trix.RelationQueries, head, tail, kind) in asked
    ends = {question[1:3] for question in asked if question[0] is Queries}
    kinds = scorer.kinds.of_slot[split.targets[:, RELATION]]
    assert ends == {*zip(split.targets[:, 0], kinds, strict=True), *zip(split.targets[:, 2], kinds + half, strict=True)}


def test_the_network_for_entities_scores_relations_too_if_it_is_to(checkout, asked):
    split = random_split(1, graph=60, targets=8)
    scorer = made(checkout, relations=trix.OF_ENTITIES).scorer(split.observable())
    assert not isinstance(scorer, BetweenScorer)
    evaluate(scorer, split, "relation")
    assert {question[0] for question in asked} == {Queries}


def test_whole_rows_are_the_scores_of_their_triples_on_either_device(checkout, by_rows):
    by_rows(lambda device: made(checkout, device=device))


def test_a_run_tells_what_was_run(checkout, ran):
    _, info = ran("trix", checkout=str(checkout))
    sha256 = {
        f"{name}_sha256": hashlib.sha256((checkout / name).read_bytes()).hexdigest()
        for name in (trix.OF_ENTITIES, trix.OF_RELATIONS)
    }
    assert info.hyperparameters == {"relations": trix.OF_RELATIONS, **sha256}
    assert info.pretraining_graphs == ("FB15k-237", "WN18RR", "CoDEx-Medium")
    assert (info.model, info.url, info.commit) == ("trix", trix.ADDRESS, trix.commit(checkout))


@pytest.mark.skipif("MTBENCH_TEST_TRIX" not in os.environ, reason="of a checkout of TRIX (MTBENCH_TEST_TRIX)")
def test_the_scores_are_those_of_the_authors_code(monkeypatch):
    data, inspector = pytest.importorskip("torch_geometric.data"), pytest.importorskip("torch_geometric.inspector")
    later = inspector.Inspector.collect_param_data  # which their code calls as it was called before PyG 2.5
    monkeypatch.setattr(inspector.Inspector, "distribute", later, raising=False)
    model = made(Path(os.environ["MTBENCH_TEST_TRIX"]))
    split = random_split(2, graph=200, targets=8)
    scorer = model.scorer(split.observable())
    half, nodes, of_slot = scorer.kinds.half, split.num_entities, scorer.kinds.of_slot
    head, relation, tail = torch.from_numpy(scorer.kinds.triples.T)
    graph = data.Data(
        edge_index=torch.stack((torch.cat((head, tail)), torch.cat((tail, head)))),
        edge_type=torch.cat((relation, relation + half)),
        num_nodes=nodes,
        num_relations=2 * half,
    )
    graph = trix.imported(Path(os.environ["MTBENCH_TEST_TRIX"]) / "src", "", "trix.tasks", {}).build_relation_graph(
        graph
    )
    every, slots = np.arange(nodes), np.arange(split.relation_slots)

    def theirs(name, heads, slots, tails):
        batch = np.stack(np.broadcast_arrays(heads, tails, of_slot[slots]), axis=1)
        with torch.inference_mode():
            return model.models[name](graph, torch.from_numpy(batch)[None])[0]

    def triples(*columns):
        return np.stack(np.broadcast_arrays(*columns), axis=1)

    for head, slot, tail in split.targets.tolist():
        for ours, name, columns in (
            (scorer.score, trix.OF_ENTITIES, (head, slot, every)),
            (scorer.score_inverses, trix.OF_ENTITIES, (every, slot, tail)),
            (scorer.score_between, trix.OF_RELATIONS, (head, slots, tail)),
        ):
            np.testing.assert_allclose(ours(triples(*columns)), theirs(name, *columns), rtol=0, atol=1e-4)
