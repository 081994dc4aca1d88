import math

import numpy as np
import pytest
import torch
from literal import affine
from literal import scrambled as fully_scrambled
from scipy import sparse
from scipy.sparse.csgraph import connected_components

import mtbench
from mtbench.errors import DatasetError, UsageError
from mtbench.training.models import Context
from reference_models import ingram
from reference_models.ingram import InGram, Splitter, always_shown, corrupted, features, margin_loss, score
from reference_models.layers import attention
from reference_models.layers.attention import (
    Edges,
    EntityAttention,
    Messages,
    RelationAttention,
    affinities,
    binned,
    messages_of,
)
from reference_models.training import recipe

CPU = torch.device("cpu")
QUICK = {"steps": "2", "every": "1", "width": "8", "entity_layers": "1", "heads": "4"}


def graph(seed=0, nodes=9, slots=4, edges=20):
    """Draw triples with repeats and self-loops; the last node is isolated, the last slot empty."""
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(0, limit, edges) for limit in (nodes - 1, slots - 1, nodes - 1)], axis=1)
    rows[0], rows[1, 2] = rows[2], rows[1, 0]
    return rows


def random(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def scrambled(module):
    return fully_scrambled(module, scale=0.5)


def softmax(values):
    weights = [math.exp(value) for value in values]
    return [weight / sum(weights) for weight in weights]


def leaky(x):
    return torch.where(x > 0, x, 0.2 * x)


def heads_of(layer, before, values, offsets=None):
    """One receiver by its definition: per head a softmax over the edges, the heads side by side."""
    heads, width = layer.vectors.shape[1:]
    out = []
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        logits = [(layer.vectors[0, head] @ leaky(row)[part]).item() for row in before]
        if offsets is not None:
            logits = [logit + row[head].item() for logit, row in zip(logits, offsets, strict=True)]
        terms = [share * row[part] for share, row in zip(softmax(logits), values, strict=True)]
        out.append(sum(terms, torch.zeros(width, dtype=torch.float64)))
    return torch.cat(out)


def test_relation_attention_is_a_softmax_over_neighbours_with_an_offset_per_bin():
    layer, z = scrambled(RelationAttention(6, 2, 3)), random(5, 6)
    receivers, senders, bins = (
        torch.tensor(row) for row in ([0, 0, 0, 1, 2, 2], [0, 1, 2, 1, 3, 0], [0, 2, 1, 0, 2, 2])
    )
    expected = []
    for i in range(5):
        edges = [edge for edge in range(6) if receivers[edge] == i]
        neighbours = [int(senders[edge]) for edge in edges]
        before = [affine(layer.before, torch.cat([z[i], z[j]])) for j in neighbours]
        values = [affine(layer.values, z[j]) for j in neighbours]
        found = heads_of(layer, before, values, [layer.offsets[bins[edge]] for edge in edges])
        expected.append(torch.relu(found + affine(layer.residual, z[i])))
    torch.testing.assert_close(
        layer(z, Edges.of((receivers, 5), (senders, 5)), bins), torch.stack(expected), rtol=1e-10, atol=1e-10
    )


def test_entity_attention_is_a_softmax_over_in_edges_and_oneself():
    layer, e, z = scrambled(EntityAttention(6, 4, 2)), random(5, 6), random(3, 4, seed=1)
    edges = [(0, 0, 1), (2, 1, 1), (2, 2, 1), (1, 2, 0), (3, 0, 3), (2, 1, 1)]
    nothing = torch.empty(0, dtype=torch.int64)
    messages = Messages.of(torch.tensor(edges), (nothing, nothing, nothing), 5, 3)
    expected = []
    for i in range(5):
        into = [(j, z[r]) for j, r, tail in edges if tail == i]
        mean = sum((row for _, row in into), torch.zeros(4, dtype=torch.float64)) / max(len(into), 1)
        into.append((i, mean))
        before = [affine(layer.before, torch.cat([e[i], e[j], row])) for j, row in into]
        values = [affine(layer.values, torch.cat([e[j], row])) for j, row in into]
        expected.append(torch.relu(heads_of(layer, before, values) + affine(layer.residual, e[i])))
    torch.testing.assert_close(layer(e, z, messages), torch.stack(expected), rtol=1e-10, atol=1e-10)


def gradients_agree(layer, call, *inputs):
    """Compare the gradients of inputs and parameters with differences."""
    names, parameters = zip(*layer.named_parameters(), strict=True)

    def out(*tensors):
        given = dict(zip(names, tensors[: len(names)], strict=True))
        return torch.func.functional_call(layer, given, call(*tensors[len(names) :]))

    leaves = [tensor.detach().requires_grad_() for tensor in (*parameters, *inputs)]
    return torch.autograd.gradcheck(out, leaves, fast_mode=True)


def test_gradients_are_those_of_the_definition_by_blocks(monkeypatch):
    monkeypatch.setitem(attention.EDGES, "cpu", 2)
    messages = messages_of(graph(), 9, 4, 3, CPU)
    e, z, first = random(9, 6), random(8, 4, seed=1), scrambled(torch.nn.Linear(3, 6))
    entities, relations = scrambled(EntityAttention(6, 4, 2)), scrambled(RelationAttention(4, 2, 3))
    assert gradients_agree(entities, lambda e, z: (e, z, messages), e, z)
    assert gradients_agree(entities, lambda f, z: (f, z, messages, first), random(9, 3, seed=2), z)
    assert gradients_agree(relations, lambda z: (z, messages.near, messages.bins), z)


def test_large_logits_do_not_overflow():
    layer, z = RelationAttention(4, 2, 1).double(), 1e4 * random(3, 4)
    pairs = torch.cartesian_prod(torch.arange(3), torch.arange(3))
    found = layer(z, Edges.of((pairs[:, 0], 3), (pairs[:, 1], 3)), torch.zeros(9, dtype=torch.int64))
    assert torch.isfinite(found).all()


def test_affinities_count_shared_heads_and_tails_over_squared_degrees():
    triples, nodes, slots = graph(), 9, 4
    expected = np.zeros((slots, slots))
    for column in (0, 2):
        for node in range(nodes):
            relations = triples[triples[:, column] == node, 1]
            for i in relations:
                for j in relations:
                    expected[i, j] += 1 / len(relations) ** 2
    np.testing.assert_allclose(affinities(triples, nodes, slots).toarray(), expected, rtol=1e-12)


def test_bins_follow_the_rank_of_the_weight():
    weights = sparse.csr_array(np.array([[0.9, 0.5, 0.0], [0.4, 0.3, 0.8], [0.0, 0.1, 0.2]]))
    rows, columns, bins = binned(weights, 3)
    found = dict(zip(zip(rows.tolist(), columns.tolist(), strict=True), bins.tolist(), strict=True))
    ranks = {(0, 0): 1, (1, 2): 2, (0, 1): 3, (1, 0): 4, (1, 1): 5, (2, 2): 6, (2, 1): 7}
    assert found == {pair: math.ceil(rank * 3 / 7) - 1 for pair, rank in ranks.items()}
    assert sorted(set(bins.tolist())) == [0, 1, 2]


def test_equal_weights_share_the_bin_of_their_first():
    weights = sparse.csr_array(np.array([[0.5, 0.1 + 0.2], [0.3, 0.5]]))
    rows, columns, bins = binned(weights, 4)
    assert dict(zip(zip(rows.tolist(), columns.tolist(), strict=True), bins.tolist(), strict=True)) == {
        (0, 0): 0,
        (1, 1): 0,
        (0, 1): 2,
        (1, 0): 2,
    }


@pytest.mark.parametrize("rows", [10, 2000])
def test_first_features_have_a_scale_that_depends_on_how_many_there_are(rows):
    drawn = torch.cat([features(rows, 32, np.random.default_rng(seed)) for seed in range(4000 // rows)])
    assert drawn.dtype == torch.float32
    assert drawn.mean().abs() < 0.01
    assert float(drawn.std()) == pytest.approx(math.sqrt(2) * math.sqrt(2 / (rows + 32)), rel=0.02)


def small_recipe(**settings):
    return recipe.read(ingram.Recipe, "ingram", "metafam", {**QUICK, **settings})


def test_renaming_nodes_and_relations_leaves_the_law_of_the_scores_as_it_is():
    """With the features renamed too the scores are the same, and independent features have one law under any names."""
    network = scrambled(InGram(small_recipe(relation_layers="2", entity_layers="2")))
    triples, nodes, slots = graph(3), 9, 4
    rng = np.random.default_rng(1)
    node, slot = rng.permutation(nodes), rng.permutation(slots)
    moved = np.stack([node[triples[:, 0]], slot[triples[:, 1]], node[triples[:, 2]]], axis=1)
    e, z = random(nodes, 8), random(2 * slots, 8, seed=1)
    both = np.concatenate([slot, slot + slots])
    renamed_e, renamed_z = torch.empty_like(e), torch.empty_like(z)
    renamed_e[node], renamed_z[both] = e, z
    asked = np.stack(np.meshgrid(range(nodes), range(slots), range(nodes), indexing="ij"), axis=-1).reshape(-1, 3)
    asked_moved = np.stack([node[asked[:, 0]], slot[asked[:, 1]], node[asked[:, 2]]], axis=1)
    before = score(*network(messages_of(triples, nodes, slots, 10, CPU), e, z), torch.from_numpy(asked))
    order = rng.permutation(len(moved))
    after = score(
        *network(messages_of(moved[order], nodes, slots, 10, CPU), renamed_e, renamed_z), torch.from_numpy(asked_moved)
    )
    torch.testing.assert_close(after, before, rtol=1e-9, atol=1e-9)
    assert before.std() > 1e-3


def test_a_score_is_the_sum_of_elementwise_products_of_what_the_network_returns():
    network = scrambled(InGram(small_recipe()))
    e, z = random(9, 8), random(8, 8, seed=1)
    messages = messages_of(graph(), 9, 4, 10, CPU)
    entities, relations = affine(network.entities_in, e), affine(network.relations_in, z)
    for layer in network.relation_layers:
        relations = layer(relations, messages.near, messages.bins)
    for layer in network.entity_layers:
        entities = layer(entities, relations, messages)
    entities = affine(network.entities_out, entities)
    weights = affine(network.weighting, affine(network.relations_out, relations))
    found = score(*network(messages, e, z), torch.tensor([[[2, 1, 5]], [[0, 3, 0]]]))
    expected = [[(entities[2] * weights[1] * entities[5]).sum()], [(entities[0] * weights[3] * entities[0]).sum()]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-10)


def test_inverses_are_edges_with_slots_of_their_own():
    messages = messages_of(np.array([[0, 1, 2], [3, 0, 3]]), 5, 2, 10, CPU)
    tails, heads, slots = (end.places.tolist() for end in messages.entities.ends)
    triples = sorted(zip(heads, slots, tails, strict=True))
    assert triples == sorted(
        [(0, 1, 2), (3, 0, 3), (2, 3, 0), (3, 2, 3)] + [(node, 4 + node, node) for node in range(5)]
    )
    assert sorted(zip(*(end.places.tolist() for end in messages.relations.ends), strict=True)) == [
        (0, 3), (2, 1), (3, 0), (3, 2)
    ]  # fmt: skip
    assert (messages.num_nodes, messages.num_slots) == (5, 4)


def components_of(triples, nodes):
    links = sparse.coo_array((np.ones(len(triples)), (triples[:, 0], triples[:, 2])), shape=(nodes, nodes))
    return connected_components(links, directed=False)[0]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_always_shown_is_a_forest_that_spans_and_one_triple_of_every_relation_left(seed):
    triples, nodes = graph(seed, nodes=12, slots=9, edges=30), 12
    kept = triples[always_shown(triples, nodes, np.random.default_rng(seed))]
    pieces = components_of(triples, nodes)
    assert components_of(kept, nodes) == pieces
    assert set(kept[:, 1]) == set(triples[:, 1])
    assert len(kept) <= nodes - pieces + len(set(triples[:, 1]))


@pytest.fixture(scope="module")
def data(small):
    return mtbench.load(small)


def test_every_step_hides_another_quarter_and_never_the_forest(data):
    splitter, total = Splitter(data.train, 0.75, np.random.default_rng(0)), len(data.train.graph)
    hidden = []
    for seed in range(2):
        shown, targets = splitter.draw(np.random.default_rng(seed))
        assert len(shown) == round(0.75 * total)
        assert sorted(map(tuple, np.concatenate([shown, targets]))) == sorted(map(tuple, data.train.graph))
        assert set(map(tuple, splitter.fixed)) <= set(map(tuple, shown))
        assert set(shown[:, 1]) == set(data.train.graph[:, 1])
        hidden.append(set(map(tuple, targets)))
    assert hidden[0] != hidden[1]


def test_a_share_that_leaves_nothing_to_predict_is_refused(data):
    with pytest.raises(DatasetError, match="leaves none to predict; try a smaller one: --set messages="):
        Splitter(data.train, 0.9999, np.random.default_rng(0))


def test_a_corruption_replaces_head_or_tail_by_any_other_entity():
    targets = np.array([[0, 7, 3], [2, 8, 2]])
    found = corrupted(targets, 4000, 5, np.random.default_rng(0))
    assert found.shape == (2, 4000, 3)
    changed = found != targets[:, None]
    assert not changed[..., 1].any()
    assert (changed.sum(axis=2) == 1).all()
    assert changed[..., 0].mean() == pytest.approx(0.5, abs=0.02)
    replaced = found[0, changed[0, :, 2], 2]
    assert np.bincount(replaced, minlength=5) / len(replaced) == pytest.approx([0.25, 0.25, 0.25, 0, 0.25], abs=0.04)


def test_the_loss_is_the_mean_shortfall_of_the_margin():
    scores = torch.tensor([[1.0, 0.0, -3.0], [0.0, 2.0, -1.0]])
    assert margin_loss(scores, 2.0).item() == pytest.approx((1 + 0 + 4 + 1) / 4)


def test_a_loss_and_its_gradients_are_the_same_bits_with_one_thread_and_with_two(same_bits):
    network = scrambled(InGram(small_recipe(width="32", entity_layers="2"))).float()
    messages = messages_of(graph(5, nodes=900, slots=4, edges=4000), 900, 4, 10, CPU)
    e, z = random(900, 32).float(), random(8, 32, seed=1).float()
    triples = torch.from_numpy(np.random.default_rng(0).integers(0, 8, size=(20_000, 11, 3)))

    def loss_and_gradients():
        loss = margin_loss(score(*network(messages, e, z), triples), 2.0)
        return [loss, *torch.autograd.grad(loss, list(network.parameters()))]

    same_bits(loss_and_gradients)


def test_first_weights_are_xavier_normal_and_offsets_and_biases_zero():
    torch.manual_seed(0)
    network = InGram(recipe.read(ingram.Recipe, "ingram", "metafam", {}))
    for name, module in network.named_modules():
        if isinstance(module, torch.nn.Linear):
            wanted = math.sqrt(2) * math.sqrt(2 / (module.in_features + module.out_features))
            assert float(module.weight.std()) == pytest.approx(wanted, rel=0.1), name
            assert not module.bias.any()
    assert not network.relation_layers[0].offsets.any()


def fitted(data, make, **settings):
    model = make(Context("metafam", 0, "cpu", None, {**QUICK, **settings}))
    model.fit(data.train, data.valid)
    return model


def test_deq_ingram_has_the_weights_of_ingram_and_averages_its_scores(data):
    plain, averaged = fitted(data, ingram.build), fitted(data, ingram.build_deq)
    single = fitted(data, ingram.build_deq, draws="1")
    for name, value in plain.network.state_dict().items():
        assert torch.equal(averaged.network.state_dict()[name], value)
    assert [model.info.hyperparameters["draws"] for model in (plain, averaged)] == [1, 10]
    observable, triples = data.test.observable(), data.test.targets
    one, ten = plain.scorer(observable)(triples), averaged.scorer(observable)(triples)
    assert torch.equal(single.scorer(observable)(triples), one)
    assert torch.equal(averaged.scorer(observable)(triples), ten)
    assert (one - ten).abs().max() > 0.01 * one.abs().max()
    assert {model.info.regime for model in (plain, averaged)} == {"zero-shot"}


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (ingram.build, {"draws": "5"}, "^ingram has one draw, not 5: run deq-ingram with --set draws=5$"),
        (ingram.build_deq, {"draws": "0"}, "^draws must be at least 1, not 0$"),
        (ingram.build, {"heads": "7"}, r"^heads must divide relation_scale \* width = 128, which 7 does not$"),
        (ingram.build, {"selection": "relation"}, "^selection must be one of dual, entity, none, not 'relation'$"),
    ],
)
def test_a_bad_value_is_refused(make, settings, message):
    with pytest.raises(UsageError, match=message):
        make(Context("metafam", 0, "cpu", None, settings))
