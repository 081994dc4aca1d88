"""The recipe of MOTIF, on a checkout of a few lines that looks like the authors' to it."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from ranking_toys import random_split

from leaderboard.external import motif, ultra
from leaderboard.external.propagation import CPU
from leaderboard.external.queries import Kinds
from mtbench.names import HEAD, RELATION, TAIL
from mtbench.training.models import Context

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
MODELS = """
import torch
from torch import nn
from motif.util import static_positional_encoding

class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear, self.layer_norm = nn.Linear(2 * width, width), nn.LayerNorm(width)
        self.relation_projection, self.activation = nn.Linear(width, width), torch.relu

class Motifs(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear, self.norm = nn.Linear(2 * width, width), nn.LayerNorm(width)
        self.rel_embedding, self.pos_embedding = nn.Embedding(7, width), nn.Embedding(7, width)

class Relations(nn.Module):
    def __init__(self, input_dim, hidden_dims, **kind):
        super().__init__()
        self.position = nn.Embedding.from_pretrained(static_positional_encoding(4, input_dim))
        self.layers = nn.ModuleList(Motifs(width) for width in hidden_dims)
        self.mlp = nn.Linear(input_dim, input_dim)

class Entities(nn.Module):
    def __init__(self, input_dim, hidden_dims, **kind):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for width in hidden_dims)
        self.mlp = nn.Linear(2 * input_dim, 1)

class MOTIF(nn.Module):
    def __init__(self, relations, entities):
        super().__init__()
        self.relation_model, self.entity_model = Relations(**relations), Entities(**entities)
"""


@pytest.fixture
def checkout(written, committed, monkeypatch):
    """Return a checkout with one commit and the weights ``motif_3g.pth``."""
    place = written("MOTIF", {"motif/__init__.py": "", "motif/models.py": MODELS})
    (place / "ckpts").mkdir()
    monkeypatch.setattr(ultra, "KIND", {"input_dim": 4, "hidden_dims": [4] * 3})
    util = {"motif.util": {"static_positional_encoding": lambda places, size: torch.ones(places + 1, size)}}
    models = motif.imported(place, "", "motif.models", util)
    torch.manual_seed(3)
    model = models.MOTIF(ultra.KIND, ultra.KIND)
    torch.save({"model": model.state_dict()}, place / "ckpts" / motif.CHECKPOINT)
    return committed(place)


def made(checkout, device="cpu", **settings):
    return motif.build(Context("toy", device=device, settings={"checkout": str(checkout), **settings}))


def hyperedges(triples, half):
    """Yield how relations meet: the number of the way, and two or three relations, each once."""
    edges = [*map(tuple, triples.tolist()), *((tail, kind + half, head) for head, kind, tail in triples.tolist())]
    heads, tails = set(), set()
    for head, kind, tail in edges:
        heads.add((head, kind))
        tails.add((tail, kind))
    found = set()
    for way, (first, last) in enumerate(((heads, heads), (tails, tails), (heads, tails))):
        found |= {(way, one, other) for node, one in first for place, other in last if node == place}
    for way, (first, last) in enumerate(((tails, heads), (tails, tails), (heads, tails), (heads, heads)), start=3):
        for head, kind, tail in edges:
            before, after = ([of for node, of in ends if node == at] for ends, at in ((first, head), (last, tail)))
            found |= {(way, one, kind, other) for one in before for other in after}
    return sorted(found)


@torch.inference_mode()
def test_relations_are_those_of_a_loop_over_all_motifs(checkout):
    split = random_split(1, entities=12, graph=25, targets=8)
    kinds, relations = Kinds(split), made(checkout).model.relation_model
    query = torch.arange(2 * kinds.half)
    found = relations(motif.Motifs(kinds, split.num_entities, CPU), query)
    motifs = hyperedges(kinds.triples, kinds.half)
    assert {way for way, *_ in motifs} == set(range(7))
    for asked in query.tolist()[::3]:
        state = torch.zeros(2 * kinds.half, 4)
        state[asked] = 1
        for layer in relations.theirs.layers:
            added = torch.zeros_like(state)
            for way, *types in motifs:
                told = [state[kind] + layer.pos_embedding.weight[place] for place, kind in enumerate(types, start=1)]
                for place, kind in enumerate(types):
                    others = torch.stack([values for other, values in enumerate(told) if other != place])
                    added[kind] += layer.rel_embedding.weight[way] * others.prod(0)
            state = state + torch.relu(layer.norm(layer.linear(torch.cat((added, state), dim=1))))
        torch.testing.assert_close(found[asked], relations.theirs.mlp(state), rtol=1e-4, atol=1e-4)


def test_representations_are_the_same_however_many_are_made_at_once(checkout, monkeypatch):
    split = random_split(1, graph=60, targets=8)
    scores = made(checkout).scorer(split.observable()).score(split.targets)
    monkeypatch.setattr(motif, "AT_ONCE", 1)
    again = made(checkout).scorer(split.observable()).score(split.targets)
    np.testing.assert_allclose(again, scores, rtol=0, atol=1e-5)


def test_whole_rows_are_the_scores_of_their_triples_on_either_device(checkout, by_rows):
    by_rows(lambda device: made(checkout, device=device))


def test_a_run_tells_what_was_run(checkout, ran):
    _, info = ran("motif", checkout=str(checkout))
    sha256 = hashlib.sha256((checkout / "ckpts" / motif.CHECKPOINT).read_bytes()).hexdigest()
    assert info.hyperparameters == {"checkpoint": motif.CHECKPOINT, "checkpoint_sha256": sha256}
    assert info.pretraining_graphs == ("FB15k-237", "WN18RR", "CoDEx-Medium")
    assert (info.model, info.url, info.commit) == ("motif", motif.ADDRESS, motif.commit(checkout))


@pytest.mark.skipif("MTBENCH_TEST_MOTIF" not in os.environ, reason="of a checkout of MOTIF (MTBENCH_TEST_MOTIF)")
def test_the_scores_are_those_of_the_authors_code():
    data = pytest.importorskip("torch_geometric.data")
    place = Path(os.environ["MTBENCH_TEST_MOTIF"])
    model, split = made(place), random_split(2, graph=200, targets=8)
    scorer = model.scorer(split.observable())
    half, nodes = scorer.kinds.half, split.num_entities
    head, relation, tail = torch.from_numpy(scorer.kinds.triples.T.copy())
    graph = data.Data(
        edge_index=torch.stack((torch.cat((head, tail)), torch.cat((tail, head)))),
        edge_type=torch.cat((relation, relation + half)),
        num_nodes=nodes,
        num_relations=2 * half,
        device=CPU,
    )
    graph = motif.imported(place, "", "motif.tasks", {}).build_relation_hypergraph(graph)
    theirs, entities = model.model.relation_model.theirs, model.model.entity_model
    for layer in (*theirs.layers, *entities.layers):
        layer.use_triton = False  # a kernel of a GPU
    every = np.arange(nodes)
    for triple in split.targets:
        for column, ours in ((TAIL, scorer.score), (HEAD, scorer.score_inverses)):
            triples = np.repeat(triple[None], nodes, axis=0)
            triples[:, column] = every
            kind = scorer.kinds.of_slot[triples[:, RELATION]]
            batch = torch.from_numpy(np.stack((triples[:, HEAD], triples[:, TAIL], kind), axis=1))[None]
            # Their code counts one relation more in every call.
            graph.relation_hypergraph.num_nodes = torch.tensor(2 * half)
            with torch.inference_mode():
                expected = entities(graph, batch, theirs, relation_hyper_flag=True)[0]
            np.testing.assert_allclose(ours(triples), expected, rtol=0, atol=5e-4)
