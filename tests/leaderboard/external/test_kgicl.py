"""The recipe of KG-ICL, on a checkout of a few lines that looks like the authors' to it."""

import hashlib
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from ranking_toys import random_split
from torch import nn

from leaderboard.external import kgicl
from leaderboard.external.kgicl import HOPS, OPEN, SHOTS, Prompts
from leaderboard.external.queries import Kinds, imported
from mtbench.errors import UsageError
from mtbench.names import HEAD, RELATION, TAIL
from mtbench.training.models import Context

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
ENCODER = """
import torch
from torch import nn
from torch_scatter import scatter_add, scatter_max

class Prompts(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.of_edges, self.of_staying = nn.Linear(6, width), nn.Parameter(torch.ones(width))

    def forward(self, edges, kinds, heads, tails, asked, by_edge, labels, nodes, loader, shot):
        every, places = loader.kg.relation_num, torch.stack((heads, tails))
        at_ends = (edges[:, None] == places[..., None]).any(1).float()
        told = torch.cat((labels[edges[0]], labels[edges[1]], at_ends.T), dim=1)
        states = scatter_add(told, kinds, dim=0, dim_size=shot * every) + scatter_max(told, by_edge, 0, shot * every)[0]
        states = torch.sin(self.of_edges(states)).view(1, shot, every, -1).mean(1)
        return torch.cat((states, self.of_staying.expand(1, 1, -1)), dim=1), None, None

class Layer(nn.Module):
    def __init__(self, width, attention):
        super().__init__()
        self.Ws_attn, self.Wr_attn = (nn.Linear(width, attention, bias=False) for _ in range(2))
        self.Wqr_attn, self.w_alpha = nn.Linear(width, attention), nn.Linear(attention, 1)
        self.W_h, self.act = nn.Linear(width, width, bias=False), nn.RReLU()

class EntityEncoder(nn.Module):
    def __init__(self, options):
        super().__init__()
        width, layers = options.hidden_dim, range(options.n_layer)
        self.relation_encoder = Prompts(width)
        self.gnn_layers = nn.ModuleList(Layer(width, options.attn_dim) for _ in layers)
        self.rel_transfer = nn.ModuleList(nn.Linear(width, width) for _ in layers)
        self.layer_norms = nn.ModuleList(nn.LayerNorm(width) for _ in layers)
        self.layer_norms_rel = nn.ModuleList(nn.LayerNorm(width) for _ in layers)
        self.gate, self.W_final = nn.GRU(width, width), nn.Linear(width, 1, bias=False)
"""


@pytest.fixture
def checkout(written, committed, monkeypatch):
    """Return a checkout with one commit and the weights of four layers."""
    place = written("KG-ICL", {"src/encoder/__init__.py": "", "src/encoder/EntityEncoder.py": ENCODER})
    monkeypatch.setattr(kgicl, "WIDTH", 4)
    monkeypatch.setattr(kgicl, "ATTENTION", 2)
    folder = place / "checkpoint" / "KG-ICL-4L"
    folder.mkdir(parents=True)
    torch.manual_seed(3)
    scatter = {"torch_scatter": {"scatter_add": kgicl.scatter_add, "scatter_max": kgicl.scatter_max}}
    weights = kgicl.network(imported(place / "src", "", "encoder.EntityEncoder", scatter), 4).state_dict()
    weights["gnn_layers.0.conv.linear.weight"] = torch.ones(1)  # of the compiled kernel
    torch.save({"state_dict": weights, "epoch_id": 1}, folder / "model_best.tar")
    return committed(place)


def made(checkout, workdir=None, seed=0, device="cpu", **settings):
    given = {"checkout": str(checkout), "checkpoint": "KG-ICL-4L", **settings}
    return kgicl.build(Context("toy", seed=seed, device=device, workdir=workdir, settings=given))


def sparse(seed, *more, entities=60):
    """Return a split of a graph that falls into parts, with a loop, a hub and leaves that are alike."""
    split = random_split(seed, entities=60, relations=6, slots=8, graph=90, targets=6)
    leaves = [(0, 1, node) for node in range(40, 50)]
    graph = split.graph[(split.graph[:, [HEAD, TAIL]] < 40).all(axis=1) & (split.graph[:, RELATION] < 4)]
    graph = np.unique(np.concatenate((graph, leaves, [(3, 2, 3)], *more)), axis=0)
    return replace(split, graph=graph, entities=np.array([f"e{number:04d}" for number in range(entities)]))


def plain(model, query, triples, half, start, nodes):
    """Return the score of every node, edge by edge."""
    slope, back = 11 / 48, triples[:, [TAIL, RELATION, HEAD]] + [0, half, 0]
    state = {start: query.own}
    for number, layer in enumerate(model.gnn_layers):
        stays = [(node, 2 * half, node) for node in state]
        sums: dict[int, torch.Tensor] = {}
        for head, kind, tail in [*triples.tolist(), *back.tolist(), *stays]:
            if head in state:
                felt = layer.Ws_attn(state[head]) + query.parts[number][kind]
                counts = torch.sigmoid(layer.w_alpha(torch.where(felt > 0, felt, slope * felt)))
                sums[tail] = sums.get(tail, 0) + counts * (state[head] + query.states[number][kind])
        before = state if number else {}
        state = {}
        for node, added in sums.items():
            now = layer.W_h(added)
            now = model.layer_norms[number](torch.where(now > 0, now, slope * now))
            held = before.get(node, torch.zeros_like(now))
            state[node] = model.gate(now[None, None], held[None, None])[0].flatten()
    return torch.stack([model.W_final(state[node])[0] if node in state else torch.zeros(()) for node in range(nodes)])


def test_scores_are_those_of_a_plain_loop_over_edges(checkout):
    model, split = made(checkout), sparse(1)
    scorer = model.scorer(split.observable())
    passing, kinds, every = scorer.ends.network.network, scorer.kinds, np.arange(split.num_entities)
    assert len(passing.twins.sizes) < len(every)
    unreached = 0
    for head, slot, tail in split.targets.tolist():
        kind = int(kinds.of_slot[slot])
        for start, asked, triples, score in (
            (head, kind, (head, slot, every), scorer.score),
            (tail, kind + kinds.half, (every, slot, tail), scorer.score_inverses),
        ):
            with torch.inference_mode():
                theirs = plain(model.model, passing.query(asked), kinds.triples, kinds.half, start, len(every))
            triples = np.stack(np.broadcast_arrays(*triples), axis=1)
            ours = score(triples)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
            unreached += int((theirs == 0).sum())
            one_by_one = [score(triple[None])[0] for triple in triples[:9]]
            np.testing.assert_allclose(ours[:9], one_by_one, rtol=0, atol=1e-5)
    assert unreached > 0


def test_a_relation_is_seen_in_relation_to_the_one_asked_for(checkout):
    """The layers' tables as the authors' code makes them, one after the other."""
    model = made(checkout)
    passing = model.scorer(sparse(1).observable()).ends.network.network
    with torch.inference_mode():
        query, states = passing.query(2), passing.prompts.encoded(model.model.relation_encoder, 2)
        assert torch.equal(query.own, states[2])
        for number, layer in enumerate(model.model.gnn_layers):
            states = states + torch.relu(model.model.rel_transfer[number](states))
            states = model.model.layer_norms_rel[number](states)
            torch.testing.assert_close(query.states[number], states)
            torch.testing.assert_close(query.parts[number], layer.Wr_attn(states) + layer.Wqr_attn(states[2]))
            states = model.model.layer_norms_rel[number](states)


def test_whole_rows_are_the_scores_of_their_triples_on_either_device(checkout, by_rows):
    by_rows(lambda device: made(checkout, device=device), sparse(1))


def test_answers_are_of_one_seed(checkout, tmp_path):
    split = random_split(1, graph=60, targets=8)
    made(checkout, tmp_path).scorer(split.observable()).score(split.targets)
    with pytest.raises(UsageError, match="has the answers of another model: begin anew with --restart"):
        made(checkout, tmp_path, seed=1).scorer(split.observable())


class TestPrompts:
    @pytest.fixture
    def split(self):
        hub = [(5, 0, node) for node in range(60, 260)]
        chain = [(node, 3, node + 1) for node in range(60, 258, 2)]
        return sparse(4, hub, chain, [(3, 5, 3)], entities=260)

    def test_examples_are_of_the_type_with_what_is_between_and_some_of_the_rest(self, split):
        kinds = Kinds(split)
        prompts, several, many = Prompts(kinds, split.num_entities, seed=0), 0, 0
        near = [set() for _ in range(split.num_entities)]
        for head, _, tail in kinds.triples.tolist():
            near[head].add(tail)
            near[tail].add(head)
        for head, kind, tail in kinds.triples[kinds.triples[:, HEAD] != kinds.triples[:, TAIL]][::7].tolist():
            steps = []
            for root in (head, tail):
                far, ring = {root: 0}, {root}
                for number in range(1, HOPS + 1):
                    ring = {other for node in ring for other in near[node]} - set(far)
                    far |= dict.fromkeys(ring, number)
                steps.append(far)
            both = {node: (steps[0][node], steps[1][node]) for node in steps[0].keys() & steps[1].keys()}
            between = {node for node, (one, other) in both.items() if one + other <= HOPS}
            rest = both.keys() - between
            found = prompts._around(head, tail, np.random.default_rng(0))
            assert found.labels[:2].tolist() == [[0, 1], [1, 0]]
            others = Counter(map(tuple, found.labels[2:].tolist()))
            assert others >= Counter(both[node] for node in between - {head, tail})
            assert len(found.labels) == len(between) + min(len(rest), OPEN)
            assert (0, kind, 1) in map(tuple, found.triples.tolist())
            several, many = several + len(between), many + (len(rest) > OPEN)
        assert several > 100
        assert many

    def test_the_graph_of_an_example_has_all_triples_of_its_nodes_both_ways(self, split):
        kinds = Kinds(split)
        prompts = Prompts(kinds, split.num_entities, seed=0)
        head, _, tail = next(one for one in kinds.triples.tolist() if one[0] < 40 and one[2] < 40)
        found = prompts._around(head, tail, np.random.default_rng(0))
        steps = np.stack((prompts._steps(head), prompts._steps(tail)), axis=1)
        inside = kinds.triples[(steps.max(axis=1) <= HOPS)[kinds.triples[:, [HEAD, TAIL]]].all(axis=1)]
        assert len(found.labels) == (steps.max(axis=1) <= HOPS).sum()
        assert len(found.triples) == 2 * len(inside)
        there, back = np.split(found.triples, 2)
        assert sorted(there[:, RELATION]) == sorted(inside[:, RELATION])
        np.testing.assert_array_equal(back, there[:, [TAIL, RELATION, HEAD]] + [0, kinds.half, 0])

    def test_a_seed_draws_them_once_and_few_are_repeated(self, split):
        kinds, nodes = Kinds(split), split.num_entities
        one, same, other = (Prompts(kinds, nodes, seed) for seed in (0, 0, 1))
        few = int(kinds.of_slot[2])
        triples = kinds.triples[
            (kinds.triples[:, RELATION] == few) & (kinds.triples[:, HEAD] != kinds.triples[:, TAIL])
        ]
        assert len(triples) > SHOTS
        for first, second in zip(one[few], same[few], strict=True):
            np.testing.assert_array_equal(first.triples, second.triples)
        assert one[few] == one[few + kinds.half]
        assert any(
            first.triples.shape != second.triples.shape or (first.triples != second.triples).any()
            for first, second in zip(one[few], other[few], strict=True)
        )
        only = replace(split, graph=split.graph[np.r_[np.flatnonzero(split.graph[:, RELATION] == 2)[:2], 0]])
        kinds = Kinds(only)
        shots = Prompts(kinds, nodes, seed=0)[int(kinds.of_slot[2])]
        assert len(shots) == SHOTS
        assert len(set(map(id, shots))) < SHOTS
        assert shots[0] is shots[len(set(map(id, shots)))]

    def test_without_an_example_there_is_the_bare_triple(self, split):
        kinds = Kinds(split)
        prompts, loops = Prompts(kinds, split.num_entities, seed=0), int(kinds.of_slot[5])
        for asked in (loops, kinds.half - 1, 2 * kinds.half - 1):
            assert [prompt.triples.tolist() for prompt in prompts[asked]] == [[[0, asked, 1]]] * SHOTS
        given = []

        def encoder(*batch):
            given.append(batch)
            return torch.zeros(1, 2 * kinds.half + 1, 4), None, None

        prompts.encoded(encoder, 2 * kinds.half - 1)
        edges, types, heads, tails, relations, by_edge, labels, nodes, loader, shot = given[0]
        assert edges.T.tolist() == [[2 * number, 2 * number + 1] for number in range(SHOTS)]
        assert types.tolist() == by_edge.tolist() == [(number + 1) * 2 * kinds.half - 1 for number in range(SHOTS)]
        assert tails.tolist() == [2 * number for number in range(SHOTS)]  # an inverse leads from tail to head
        assert heads.tolist() == [2 * number + 1 for number in range(SHOTS)]
        assert (relations.tolist(), nodes, shot) == ([2 * kinds.half - 1] * SHOTS, 2 * SHOTS, SHOTS)
        assert labels.tolist() == [[0, 1], [1, 0]] * SHOTS
        assert loader.kg.relation_num == 2 * kinds.half


def test_a_run_tells_what_was_run(checkout, ran):
    _, info = ran("kgicl", checkout=str(checkout), checkpoint="KG-ICL-4L")
    weights = checkout / "checkpoint" / "KG-ICL-4L" / "model_best.tar"
    sha256 = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert info.hyperparameters == {"checkpoint": "KG-ICL-4L", "checkpoint_sha256": sha256}
    assert info.pretraining_graphs == ("FB15k-237-inductive-v1", "NELL-995-inductive-v1", "CoDEx-Small")
    assert (info.model, info.url, info.commit) == ("kg-icl-4l", kgicl.ADDRESS, kgicl.commit(checkout))


@pytest.mark.parametrize("held", [None, b"", b"version https://git-lfs.example", b"PK\x03\x04 cut off"])
def test_weights_that_are_not_there_or_are_none_are_refused(checkout, held):
    file = checkout / "checkpoint" / "KG-ICL-5L" / "model_best.tar"
    if held is not None:
        file.parent.mkdir()
        file.write_bytes(held)
    why = "is not there" if held is None else "is no checkpoint"
    message = rf"model_best\.tar {why}: git clone https://github\.com/nju-websoft/KG-ICL again"
    with pytest.raises(UsageError, match=message):
        made(checkout, checkpoint="KG-ICL-5L")


class TestTheirs:
    """Beside the authors' code."""

    pytestmark = pytest.mark.skipif(
        "MTBENCH_TEST_KGICL" not in os.environ, reason="of a checkout of KG-ICL (MTBENCH_TEST_KGICL)"
    )

    @pytest.fixture
    def theirs(self):
        return Path(os.environ["MTBENCH_TEST_KGICL"])

    @pytest.mark.filterwarnings("ignore::UserWarning")
    @pytest.mark.parametrize("checkpoint", kgicl.CHECKPOINTS)
    def test_the_scores_are_those_of_their_code_with_our_prompts_and_no_random_slope(
        self, checkpoint, theirs, monkeypatch
    ):
        model, split = made(theirs, checkpoint=checkpoint), random_split(2, graph=200, targets=8)
        scorer = model.scorer(split.observable())
        passing, kinds, kind = scorer.ends.network.network, scorer.kinds, nn.RReLU
        monkeypatch.setattr(nn, "RReLU", lambda: kind().eval())
        monkeypatch.syspath_prepend(str(theirs / "src"))
        module = imported(theirs / "src", "", "data_loader", {})
        loader = object.__new__(module.DataLoader)
        loader.args, sizes = SimpleNamespace(device="cpu"), (split.num_entities, 2 * kinds.half)
        loader.kg = SimpleNamespace(entity_num=sizes[0], relation_num=sizes[1], answer_distance=[1.0] * 10)
        head, relation, tail = kinds.triples.T
        loader.build_graph(np.concatenate((kinds.triples, np.stack((tail, relation + kinds.half, head), axis=1))))

        def batch(asked, _):
            given = []

            def encoder(*batch):
                given.extend(batch[:8])
                return torch.zeros(1, 1, 1), None, None

            passing.prompts.encoded(encoder, int(asked[0]))
            return given

        loader.get_case_graph = batch
        every = np.arange(split.num_entities)
        for head, slot, tail in split.targets.tolist():
            for start, asked, triples, score in (
                (head, kinds.of_slot[slot], (head, slot, every), scorer.score),
                (tail, kinds.of_slot[slot] + kinds.half, (every, slot, tail), scorer.score_inverses),
            ):
                with torch.inference_mode():
                    found, _, _ = model.model(np.array([start]), np.array([asked]), loader=loader, training=False)
                ours = score(np.stack(np.broadcast_arrays(*triples), axis=1))
                assert ours.std() > 0.01
                np.testing.assert_allclose(ours, found[0], rtol=0, atol=1e-4)

    def test_the_graphs_of_examples_are_those_of_their_code(self, theirs):
        """Their code gives nodes the labels of others, where Python's sets are in another order than numbers."""
        kinds = Kinds(split := sparse(7))
        module = imported(theirs / "run_your_own_dataset", "", "utils_all", {"torch_scatter": {"scatter_add": None}})
        graph = module.KG(list(map(tuple, kinds.triples.tolist())), split.num_entities, kinds.half)
        graph.ht2r = module.get_ht2r(graph.triples)
        graph.build_nx_graph()
        prompts = Prompts(kinds, split.num_entities, seed=0)
        for head, kind, tail in kinds.triples[(kinds.triples[:, HEAD] != kinds.triples[:, TAIL])].tolist():
            triples, labels, nodes = graph.build_subgraph_large(graph.G, (head, kind, tail), enclosing=False)
            found = prompts._around(head, tail, np.random.default_rng(0))
            assert Counter(map(tuple, labels.values())) == Counter(map(tuple, found.labels.tolist()))
            ours = found.triples[: len(found.triples) // 2, RELATION].tolist()
            assert sorted({tuple(one) for one in triples})[0][0] == 0
            assert sorted(one[1] for one in {tuple(one) for one in triples}) == sorted(ours)
            assert {nodes[0], nodes[1]} == {head, tail}
