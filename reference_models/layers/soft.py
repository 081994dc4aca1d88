"""Soft multi-task double-equivariant layers (MTDEA), as an exact leave-one-out factorisation.

A literal layer sums, for every relation and every task, over all other relations: O(R^2 K N d). Here each
sum is taken once over *all* relations and the relation's own share is taken off again, which is exact
because every map up to the first ReLU is linear (`docs/models.md`, Soft layer). Notation: a = alpha[r, k],
c = R - 1, T_k = sum over r of alpha[r, k] X_r, S_rk = (T_k - a X_r) / c.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_models.graph import TypedGraph
from reference_models.layers.basic import Linear, Perceptron, uniform_


def task_sums(features: Tensor, attention: Tensor) -> Tensor:
    """Return T_k, the attention-weighted sums over all slots: ``(N, R, d), (R, K) -> (N, K, d)``."""
    return torch.einsum("nrd,rk->nkd", features, attention)


class SoftGIN(nn.Module):
    """A GIN soft layer under reading A: contexts aggregate over the edges of all other relations.

    Out_r = L1(X_r; A_r) + L2(p_i + S_ri; A - A_r) + sum over k != i of L3(p_k + S_rk; A - A_r), where
    i = argmax_k alpha[r, k] (the lowest index on a tie) carries no gradient and each L is a GIN with
    epsilon 0. Source: equation 4 of the paper, adjacency as in `docs/models.md`, Soft layer.
    """

    def __init__(self, width_in: int, width: int, tasks: int) -> None:
        super().__init__()
        self.width_in = width_in
        self.own = Perceptron(width_in, width)
        self.same_task = Perceptron(width_in, width)
        self.other_tasks = Perceptron(width_in, width)
        self.positions = nn.Parameter(uniform_(torch.empty(tasks, width_in), 1, width_in))

    def forward(self, features: Tensor, graph: TypedGraph, attention: Tensor) -> Tensor:
        """Map ``(N, R, width_in)`` to ``(N, R, width)`` given the attention ``(R, K)``."""
        num_tasks = attention.shape[1]
        assigned = attention.argmax(dim=1)
        own = graph.sum_own(features)
        rest = features + graph.sum_all(features) - own
        sums = task_sums(features, attention)

        out = self.own(features + own)
        context = _Context(self.same_task.first, graph, sums, rest, self.positions)
        out = out + self.same_task.second(torch.relu(context.of_assigned(assigned, attention)))
        if num_tasks > 1:
            context = _Context(self.other_tasks.first, graph, sums, rest, self.positions)
            is_other = torch.ones_like(attention).scatter_(1, assigned.unsqueeze(1), 0.0)
            hidden = torch.zeros((), device=out.device)
            for task in range(num_tasks):
                hidden = hidden + is_other[:, task].view(1, -1, 1) * torch.relu(context.of_task(task, attention))
            last = self.other_tasks.second
            out = out + hidden @ last.weight.T + (num_tasks - 1) * last.bias
        return out  # type: ignore[no-any-return]


class _Context:
    """The pre-activations of one GIN over the contexts: W Z_rk + b for one task per slot at a time.

    Z_rk = (T_k + (A - A_r) T_k) / c + (1 + deg - deg_r) p_k - (a / c) (X_r + (A - A_r) X_r). The first
    linear map is applied before the sums over neighbours where it makes the features no wider, and
    after them where it does (the one-dimensional input of the first layer).
    """

    def __init__(self, first: Linear, graph: TypedGraph, sums: Tensor, rest: Tensor, positions: Tensor) -> None:
        self.first = first
        self.graph = graph
        self.late = first.in_features < first.out_features
        self.sums, self.rest, self.positions = (
            (sums, rest, positions) if self.late else (part @ first.weight.T for part in (sums, rest, positions))
        )
        self.reached = self.sums + graph.sum_all(self.sums)
        self.reach = (1 + graph.degrees).unsqueeze(1) - graph.typed_degrees

    def of_task(self, task: int, attention: Tensor) -> Tensor:
        """Return the pre-activations ``(N, R, width)`` of every slot with the context of one task."""
        own = self.graph.sum_each(self.sums[:, task])
        return self._combine(self.reached[:, task : task + 1], own, self.positions[task], attention[:, task])

    def of_assigned(self, assigned: Tensor, attention: Tensor) -> Tensor:
        """Return the pre-activations ``(N, R, width)`` of slot r with the context of task ``assigned[r]``."""
        own = self.graph.sum_own(self.sums.index_select(1, assigned))
        share = attention.gather(1, assigned.unsqueeze(1)).squeeze(1)
        return self._combine(
            self.reached.index_select(1, assigned), own, self.positions.index_select(0, assigned), share
        )

    def _combine(self, reached: Tensor, own: Tensor, positions: Tensor, attention: Tensor) -> Tensor:
        others = max(self.graph.num_slots - 1, 1)
        value = (reached - own - attention.view(1, -1, 1) * self.rest) / others + self.reach.unsqueeze(2) * positions
        return self.first(value) if self.late else value + self.first.bias


class SoftLinear(nn.Module):
    """A soft layer of single linear maps, in closed form: O(R N d^2 + K N d), exact.

    With W1, W2, W3 for the own features, the own task and the others, and i = argmax_k alpha[r, k]:
    Out_r = X_r (W1 - W3 / c) - (a / c) X_r (W2 - W3) + (T_i / c + p_i) (W2 - W3)
    + (sum of X / c + sum of p) W3 + biases.
    """

    def __init__(self, width: int, tasks: int) -> None:
        super().__init__()
        self.own = Linear(width, width)
        self.same_task = Linear(width, width)
        self.other_tasks = Linear(width, width)
        self.positions = nn.Parameter(uniform_(torch.empty(tasks, width), 1, width))

    def forward(self, features: Tensor, attention: Tensor) -> Tensor:
        """Map ``(N, R, width)`` to ``(N, R, width)`` given the attention ``(R, K)``."""
        num_tasks = attention.shape[1]
        others = max(features.shape[1] - 1, 1)
        assigned = attention.argmax(dim=1)
        share = attention.gather(1, assigned.unsqueeze(1)).view(1, -1, 1)
        own, same = self.own.weight.T, self.same_task.weight.T
        node = self.own.bias + self.same_task.bias
        if num_tasks > 1:
            rest = self.other_tasks.weight.T
            own, same = own - rest / others, same - rest
            everything = features.sum(dim=1, keepdim=True) / others + self.positions.sum(dim=0)
            node = everything @ rest + node + (num_tasks - 1) * self.other_tasks.bias
        contexts = (task_sums(features, attention) / others + self.positions) @ same
        apart = features @ own - share * (features @ (same / others))
        return apart + contexts.index_select(1, assigned) + node
