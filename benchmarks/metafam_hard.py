"""What metafam-hard gives away, on builds of other seeds than the released one.

    python benchmarks/metafam_hard.py [--seeds 1 2 3] [--set targets=10]

Of each build: the statistic that alone is clearest (test targets against the candidates of dual, and of the same type);
the MRR of tally, of its network trained on the missing triples of the training graph instead of masks, of the rules of
the dataset, and of the rules without the task. Told the missing training triples, tally's network has the answers of
one graph and all 65 statistics, and nothing is left to learn but how to put them together.

Last, two small networks that are told the same and see how relations agree with each other. One of them also sees how
well each reading holds for the relations that a relation agrees with: that is its task, as counts.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

import mtbench
from mtbench.data.splits import Split
from mtbench.heuristics import oracles
from mtbench.names import IntArray, Scorer
from mtbench.ranking.candidates import draw
from mtbench.runs.result import MtbenchWarning
from mtbench.settings.table import HEADLINE
from mtbench.training.models import Context
from reference_models.tally.explanation import AGAINST, giveaways
from reference_models.tally.model import Ranker, TallyScores, build
from reference_models.tally.statistics import Statistics

PROTOCOLS = (HEADLINE.protocol, "full", "full-relation")
DRAWS, STEPS, BATCH = 4, 300, 32
"""How often the candidates of a target are drawn, and in how many steps of so many lists a network is trained."""

SCALE = 8.0
"""Shares of the persons times this are what a network sees."""


def target_lists(valid: Split) -> IntArray:
    """Return the targets of a split, each first of a list with candidates of one side, ``(k, 25, 3)``.

    Where there are fewer, the first comes again; a target without any is left out.
    """
    lists = []
    for number in range(DRAWS):
        drawn = draw(valid, seed=100 + number)
        for column, side in enumerate(("head", "relation", "tail")):
            ids, there = (part[:, :24] for part in drawn.side(side))
            rows = np.repeat(valid.targets[:, None], 1 + ids.shape[1], axis=1)
            rows[:, 1:, column] = np.where(there, ids, ids[:, :1])
            lists.append(rows[there[:, 0]])
    return np.concatenate(lists)


def learn(network: nn.Module, rate: float, logits: Callable[[IntArray], Tensor], lists: int, seed: int) -> None:
    """Train a network to rank the first of each list above the others."""
    optimizer = torch.optim.AdamW(network.parameters(), rate, weight_decay=0.01)
    rng = np.random.default_rng(seed)
    for _ in range(STEPS):
        loss = -torch.log_softmax(logits(rng.choice(lists, BATCH)), dim=1)[:, 0].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def ranker(valid: Split, seed: int) -> Ranker:
    """Return tally's network, trained on the targets of a split."""
    lists = target_lists(valid)
    flat = torch.from_numpy(Statistics(valid.observable()).of(lists.reshape(-1, 3)))
    features = flat.view(*lists.shape[:2], -1)
    torch.manual_seed(seed)
    network = Ranker(64, 0.3, 5.0)
    network.standardise(flat)
    learn(network, 3e-3, lambda some: network(features[torch.from_numpy(some)]), len(lists), seed)
    return network


class Agreement:
    """Scores the echoes of all relations in all readings, each as a network values the two relations and the reading.

    It sees in how many persons the two agree and, with ``task``, how well the reading holds for what they agree with.
    """

    def __init__(self, network: nn.Module, split: Split, *, task: bool) -> None:
        rules = oracles.rules(split)
        agree, holds = oracles.agreement(rules.called, rules.composed)
        pooled = np.einsum("rw,tw->tr", agree, holds.max(axis=2))
        both = pooled[:, :, None] + pooled[:, None]
        features = np.stack((np.broadcast_to(agree, both.shape), both * task), axis=3) * SCALE
        self.network, self.composed = network, rules.composed
        self.features = torch.from_numpy(features.astype(np.float32))

    def logits(self, triples: IntArray) -> Tensor:
        """Return one logit per triple."""
        values = self.network(self.features)[..., 0]
        head, relation, tail = triples.T
        echo = torch.from_numpy(self.composed[:, :, head] == tail)
        return (echo * values[:, :, torch.from_numpy(relation)]).sum(dim=(0, 1))

    def score(self, triples: IntArray) -> Tensor:
        """Return one score per triple."""
        with torch.no_grad():
            return torch.cat([self.logits(some) for some in np.array_split(triples, 1 + len(triples) // 2000)])


def agreement(valid: Split, test: Split, seed: int, *, task: bool) -> Agreement:
    """Return a network trained on the targets of one split, for another."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
    lists, seen = target_lists(valid), Agreement(network, valid.observable(), task=task)
    learn(network, 1e-2, lambda some: seen.logits(lists[some].reshape(-1, 3)).view(BATCH, -1), len(lists), seed)
    return Agreement(network, test, task=task)


def mrr(scorer: Scorer, split: Split) -> str:
    """Return the MRR of a scorer under each protocol."""
    return "  ".join(
        f"{name} {mtbench.evaluate(scorer, split, protocol=name).metrics['mrr']:.3f}" for name in PROTOCOLS
    )


def main() -> None:
    """Measure each build and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="other parameters of the build")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", MtbenchWarning)
    torch.set_num_threads(1)
    options = {key: int(value) for key, _, value in (part.partition("=") for part in asked.set)}
    for seed in asked.seeds:
        data = mtbench.build("metafam-hard", seed=seed, **options)
        print(f"{data.name}: {len(data.test.graph)} observable triples, {len(data.test.targets)} targets", flush=True)
        rows = giveaways(data.test)
        for against in AGAINST:
            row = next(row for row in rows if row.against == against)
            print(f"  clearest against {against}: {row.family} {row.statistic} of the {row.side}s, AUC {row.auc:.3f}")
        test = data.test.observable()
        tally = build(Context(data.name))
        tally.fit(data.train, replace(data.valid, targets=data.valid.targets[:0]))
        scorers: dict[str, Scorer] = {
            "chance": lambda triples: np.zeros(len(triples)),
            "tally": tally.scorer(test),
            "tally's network, told": TallyScores(ranker(data.valid, seed), test, torch.device("cpu")),
            "network of agreements without the task, told": agreement(data.valid, test, seed, task=False),
            "network of agreements, told": agreement(data.valid, test, seed, task=True),
            "the rules without the task": oracles.single_task(test),
            "the rules": oracles.echo_oracle(test),
        }
        for name, scorer in scorers.items():
            print(f"  {name}: {mrr(scorer, data.test)}", flush=True)


if __name__ == "__main__":
    main()
