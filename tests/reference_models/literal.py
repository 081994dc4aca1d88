"""The layers as their formulas read: dense matrices, and one loop for every sum. Slow, and plainly right.

Everything here is float64. ``X`` has shape ``(N, R, d)``, ``A`` is the stack of dense adjacencies
``(R, N, N)`` with ``A[r, v, u]`` the number of edges of type r from u to v.
"""

import numpy as np
import torch

from reference_models.graphs.graph import TypedGraph


def dense(graph):
    A = torch.zeros(graph.num_slots, graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    for u, r, v in zip(graph.heads.tolist(), graph.slots.tolist(), graph.tails.tolist(), strict=True):
        A[r, v, u] += 1
    return A


def affine(map_, x):
    return x @ map_.weight.T + map_.bias


def gin(perceptron, x, matrix, epsilon=0.0):
    summed = (1 + epsilon) * x + matrix @ x
    return affine(perceptron.second, torch.relu(affine(perceptron.first, summed)))


def others(r, R):
    return [other for other in range(R) if other != r]


def total(terms, like):
    found = torch.zeros_like(like)
    for term in terms:
        found = found + term
    return found


def mean_of_others(X, r):
    return context(X, torch.ones(X.shape[1], 1, dtype=X.dtype), r, 0)


def equivariant_gin(layer, X, graph):
    A, R = dense(graph), graph.num_slots
    out = []
    for r in range(R):
        rest = total((A[other] for other in others(r, R)), A[r])
        own = gin(layer.own, X[:, r], A[r], layer.epsilon[0])
        out.append(own + gin(layer.others, mean_of_others(X, r), rest, layer.epsilon[1]))
    return torch.stack(out, dim=1)


def equivariant_nodewise(layer, X):
    means = [mean_of_others(X, r) for r in range(X.shape[1])]
    return torch.stack([mapped(layer.own, X[:, r]) + mapped(layer.others, S) for r, S in enumerate(means)], dim=1)


def context(X, attention, r, k, mean="literal"):
    """S_rk, the mean over the other relations of their features times their share in task k."""
    R = X.shape[1]
    summed = total((attention[other, k] * X[:, other] for other in others(r, R)), X[:, r])
    if mean == "literal":
        return summed / max(R - 1, 1)
    return summed / total((attention[other, k] for other in others(r, R)), attention[r, k]).clamp(min=1e-6)


def assigned(attention, r):
    """The task a relation belongs to, the lowest where shares are equal."""
    row = attention[r].tolist()
    return row.index(max(row))


def soft_gin(layer, X, graph, attention):
    A, R = dense(graph), graph.num_slots
    adjacency, mean, epsilon = reading_of(layer)
    counted = attention if adjacency == "tasks" else torch.ones_like(attention)
    out = []
    for r in range(R):
        found = gin(layer.own, X[:, r], A[r], epsilon[0])
        for k in range(attention.shape[1]):
            matrix = total((counted[other, k] * A[other] for other in others(r, R)), A[r])
            seen = layer.positions[k] + context(X, attention, r, k, mean)
            seen = (1 + epsilon[1]) * seen + matrix @ seen
            found = found + mapped(chosen(layer, attention, r, k), seen)
        out.append(found)
    return torch.stack(out, dim=1)


def reading_of(layer):
    """Adjacency, mean and both epsilons of a soft layer; those that are factorised have one reading."""
    epsilon = getattr(layer, "epsilon", None)
    return (
        getattr(layer, "adjacency", "others"),
        getattr(layer, "mean", "literal"),
        (0, 0) if epsilon is None else epsilon,
    )


def chosen(layer, attention, r, k):
    """L2 for the task of a relation, L3 for all others."""
    return layer.same_task if k == assigned(attention, r) else layer.other_tasks


def mapped(module, x):
    if hasattr(module, "second"):
        return affine(module.second, torch.relu(affine(module.first, x)))
    return affine(module, x)


def soft_nodewise(layer, X, attention):
    """A soft layer without adjacency, of linear maps or of perceptrons."""
    out = []
    for r in range(X.shape[1]):
        found = mapped(layer.own, X[:, r])
        for k in range(attention.shape[1]):
            seen = layer.positions[k] + context(X, attention, r, k, reading_of(layer)[1])
            found = found + mapped(chosen(layer, attention, r, k), seen)
        out.append(found)
    return torch.stack(out, dim=1)


def scrambled(module, seed=0, scale=1.0):
    """Give a module random parameters, biases and offsets among them, and running statistics, in float64."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.double().parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.copy_(torch.randn(buffer.shape, generator=generator, dtype=torch.float64))
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 2.0, generator=generator)
    return module


def random_graph(seed, nodes=6, slots=4, edges=20, dtype=torch.float64):
    """Draw edges with repeats and self-loops; the last node is isolated, and with three or more slots one is empty."""
    rng = np.random.default_rng(seed)
    ends = max(nodes - 1, 1)
    used = slots - 1 if slots > 2 else slots
    rows = np.stack([rng.integers(0, limit, edges) for limit in (ends, used, ends)])
    rows[:, : edges // 4] = rows[:, edges // 4 : 2 * (edges // 4)]
    rows[2, edges // 2 : edges // 2 + 1] = rows[0, edges // 2 : edges // 2 + 1]
    return TypedGraph(*torch.from_numpy(rows).unbind(), nodes, slots, dtype)
