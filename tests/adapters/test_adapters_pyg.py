"""A small message-passing model made of PyTorch Geometric's layers, behind our evaluator."""

import warnings

import numpy as np
import pytest
from ranking_toys import random_split

from mtbench.adapters import pyg as adapter
from mtbench.adapters import requirements as modules
from mtbench.errors import MissingExtraError, ScoreError, UsageError
from mtbench.evaluation.tasks import evaluate, task
from mtbench.runs.result import MtbenchWarning

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


def test_pytorch_takes_a_copy_of_a_split_and_shares_what_a_scorer_is_handed_without_a_warning(torch):
    split = random_split(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        torch.tensor(split.graph).fill_(0)
        warnings.simplefilter("ignore", MtbenchWarning)
        for protocol in ("dual", "full"):
            evaluate(lambda triples: torch.from_numpy(triples).sum(dim=1), split, protocol)
    assert split.graph.any()


@pytest.fixture(scope="session")
def Network(torch, pyg):  # noqa: N802
    """Messages from the head, conditioned on the relation, along relations and their inverses."""
    from torch_geometric.nn import MessagePassing

    class Layer(MessagePassing):
        def forward(self, states, edge_index, weights):
            return self.propagate(edge_index, x=states, weights=weights)

        def message(self, x_j, weights):
            return x_j * weights

    class Network(torch.nn.Module):
        def __init__(self, relations, width=8, layers=2):
            super().__init__()
            torch.manual_seed(0)
            self.queries = torch.nn.Embedding(relations, width)
            self.weights = torch.nn.ModuleList([torch.nn.Embedding(relations, width) for _ in range(layers)])
            self.layers = torch.nn.ModuleList([Layer(aggr="mean") for _ in range(layers)])
            self.dropout = torch.nn.Dropout(0.5)
            self.readout = torch.nn.Linear(2 * width, 1)

        def forward(self, data, triples):
            pairs, query = torch.unique(triples[:, :2], dim=0, return_inverse=True)
            condition = self.queries(pairs[:, 1])
            states = condition.new_zeros(len(pairs), data.num_nodes, condition.shape[1])
            states[torch.arange(len(pairs)), pairs[:, 0]] = condition
            for weights, layer in zip(self.weights, self.layers, strict=True):
                states = torch.relu(layer(states, data.edge_index, weights(data.edge_type)) + states)
            found = self.dropout(states[query, triples[:, 2]])
            return self.readout(torch.cat((found, condition[query]), dim=1)).squeeze(1)

    return Network


def train(torch, network, split, steps):
    """Tell the graph's triples from the same with another tail."""
    data, rng = adapter.to_pyg(split.observable()), np.random.default_rng(0)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(steps):
        right = split.graph[rng.choice(len(split.graph), 12)]
        wrong = right.copy()
        wrong[:, 2] = rng.integers(split.num_entities, size=len(wrong))
        scores = network(data, torch.from_numpy(np.concatenate((right, wrong))))
        labels = torch.cat((torch.ones(len(right)), torch.zeros(len(wrong))))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return network


def test_a_network_of_real_layers_is_trained_and_scored(metafam, torch, Network):
    network = Network(2 * metafam.num_relations)
    before = evaluate(adapter.scorer(network, metafam), metafam, "entity").metrics["mrr"]
    train(torch, network, metafam, 25)
    result = evaluate(adapter.scorer(network, metafam), metafam, "entity")
    assert result.metrics["mrr"] > max(before + 0.05, 3 * result.chance["mrr"])


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_batches_modes_and_gradients(size, split, torch, Network):
    network = Network(2 * split.num_relations).train()
    network.readout.eval()
    triples = task(split).triples[:30]
    sizes = []
    hook = network.register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))
    found = adapter.scorer(network, split, batch_size=size)(triples)
    hook.remove()
    assert network.training
    assert network.dropout.training
    assert not network.readout.training
    assert not found.requires_grad
    assert sizes == [len(part) for part in np.split(triples, range(size, 30, size))]
    expected = network.eval()(adapter.to_pyg(split), torch.from_numpy(triples)).detach()
    torch.testing.assert_close(found, expected)


def test_heads_are_asked_for_through_inverses(split, torch, Network):
    network, data = Network(2 * split.num_relations), adapter.to_pyg(split.observable())
    both, one = adapter.scorer(network, split, inverses=True), adapter.scorer(network, split)
    triples = task(split).triples
    inverses = np.stack((triples[:, 2], triples[:, 1] + split.num_relations, triples[:, 0]), axis=1)
    expected = network.eval()(data, torch.from_numpy(inverses)).detach()
    torch.testing.assert_close(both.score_inverses(triples), expected)
    torch.testing.assert_close(both.score(triples), one(triples))
    found, plain = evaluate(both, split), evaluate(one, split)
    assert found.asked == {"tail": "score(triples)", "head": "score_inverses(triples)"}
    np.testing.assert_array_equal(found.ranks.parts["tail"].greater, plain.ranks.parts["tail"].greater)
    assert (found.ranks.parts["head"].greater != plain.ranks.parts["head"].greater).any()
    with pytest.raises(UsageError, match=r"the graph has no inverses: make it with to_pyg\(split\)"):
        adapter.scorer(network, split, data=adapter.to_pyg(split, inverses=False), inverses=True)


def test_the_model_does_not_see_the_targets_and_sees_what_is_added(split, torch, pyg):
    seen = []

    def score(data, triples):
        seen.append(data)
        return triples.sum(dim=1)

    evaluate(adapter.scorer(score, split), split)
    assert seen[0].target_edge_index.shape == (2, 0)
    data = adapter.to_pyg(split, inverses=False)
    data.extra = torch.ones(3)
    evaluate(adapter.scorer(score, split, data=data), split)
    assert seen[-1].extra.tolist() == [1, 1, 1]
    assert seen[-1].num_relations == split.num_relations


def test_graph_and_triples_go_to_the_device_of_the_parameters(split, torch, Network):
    network = Network(2 * split.num_relations).to("meta")
    placed = []

    def forward(data, triples):
        placed.append((data.edge_index.device.type, triples.device.type))
        return torch.zeros(len(triples))

    network.forward = forward
    data = adapter.to_pyg(split)
    adapter.scorer(network, split, data=data)(split.targets)
    adapter.scorer(network, split, data=data, device="cpu")(split.targets)
    adapter.scorer(forward, split)(split.targets)
    assert placed == [("meta", "meta"), ("cpu", "cpu"), ("cpu", "cpu")]
    assert data.edge_index.device.type == "cpu"


def test_an_empty_slot_is_never_taken_for_an_inverse(split, torch, pyg):
    def score(data, triples):
        assert bool((triples[:, 1] < split.num_relations).all())
        return triples.sum(dim=1).float()

    chosen = task(split, "dual", "slots")
    message = r'triples have a relation from an empty slot \(ids 8 to 19\).*use vocabulary="pr'
    with pytest.raises(UsageError, match=message):
        chosen.run(adapter.scorer(score, split))
    found = adapter.scorer(score, split, empty_slot=-1.5)(chosen.triples).numpy()
    empty = chosen.triples[:, 1] >= split.num_relations
    assert 0 < empty.sum() < len(empty)
    np.testing.assert_array_equal(found, np.where(empty, -1.5, chosen.triples.sum(axis=1)))
    only = adapter.scorer(score, split, empty_slot=2.0)(chosen.triples[empty])
    assert only.tolist() == [2.0] * int(empty.sum())


def test_scores_of_a_wrong_shape_and_graphs_of_another_size(split, torch, pyg, metafam):
    message = r"returned the shape \(40, 3\) for a batch of 40 triples, expected \(40,\), one"
    with pytest.raises(ScoreError, match=message):
        adapter.scorer(lambda data, triples: triples, split)(split.targets)
    message = r"the graph has 656 nodes and 56 relations, expected 60 and 8, or 16 with inver"
    with pytest.raises(UsageError, match=message):
        adapter.scorer(lambda data, triples: triples[:, 0], split, data=adapter.to_pyg(metafam))
    with pytest.raises(UsageError, match=r"batch_size must be an integer, not 2\.5"):
        adapter.scorer(lambda data, triples: triples[:, 0], split, batch_size=2.5)


def test_without_pytorch_geometric_the_message_is_the_remedy(split, monkeypatch):
    monkeypatch.setattr(modules, "find_spec", lambda name: None if name == "torch_geometric" else name)
    for use in (lambda: adapter.to_pyg(split), lambda: adapter.scorer(len, split)):
        with pytest.raises(MissingExtraError, match=r'PyTorch Geometric needs the extra .*"mtbench-kg\[adapters\]"'):
            use()
