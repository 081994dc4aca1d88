"""What metafam-hard gives away, on builds of other seeds than the released one.

    python benchmarks/metafam_hard.py [--seeds 1 2 3] [--set targets=10]

Of each build: the statistic that alone is clearest (test targets against the candidates of dual, and of the same type);
the MRR of tally, of its network trained on the missing triples of the training graph instead of masks, of the rules of
the dataset, and of the rules without the task. The network is the hardest check: it has the answers of one graph and
all 65 statistics, and nothing is left to learn but how to put them together.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace

import numpy as np
import torch

import mtbench
from mtbench.auditing.giveaways import AGAINST, giveaways
from mtbench.data.building import derive
from mtbench.data.splits import Split
from mtbench.experiments.models import Context
from mtbench.heuristics.echoes import echo_oracle, single_task
from mtbench.names import Scorer
from mtbench.ranking.candidates import draw
from mtbench.results.result import MtbenchWarning
from mtbench.statistics.features import Statistics
from reference_models.tally import Ranker, TallyScores, build

PROTOCOLS = ("dual", "full", "full-relation")
EPOCHS, DRAWS = 30, 4


def told(valid: Split, seed: int) -> Ranker:
    """Return tally's network, trained to tell the targets of a split from their dual candidates."""
    statistics = Statistics(valid.observable())
    lists = []
    for number in range(DRAWS):
        drawn = draw(valid, "dual", seed=100 + number)
        for column, side in enumerate(("head", "relation", "tail")):
            ids = drawn.side(side)[0][:, :24]
            rows = np.repeat(valid.targets[:, None], 1 + ids.shape[1], axis=1)
            rows[:, 1:, column] = ids
            lists.append(statistics.of(rows.reshape(-1, 3)).reshape(*rows.shape[:2], -1))
    features = torch.from_numpy(np.concatenate(lists))
    torch.manual_seed(seed)
    network = Ranker(64, 0.3, 5.0)
    network.standardise(features.reshape(-1, features.shape[2]))
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=0.01)
    for _ in range(EPOCHS):
        for some in torch.randperm(len(features)).split(64):
            loss = -torch.log_softmax(network(features[some]), dim=1)[:, 0].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


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
        data = derive("metafam-hard", seed=seed, **options)
        print(f"{data.name}: {len(data.test.graph)} observable triples, {len(data.test.targets)} targets", flush=True)
        rows = giveaways(data.test)
        for against in AGAINST:
            row = next(row for row in rows if row.against == against)
            print(f"  clearest against {against}: {row.family} {row.statistic} of the {row.side}s, AUC {row.auc:.3f}")
        test = data.test.observable()
        tally = build(Context(data.name))
        tally.fit(data.train, replace(data.valid, targets=data.valid.targets[:0]))
        scorers = {
            "tally": tally.scorer(test),
            "its network, told the missing training triples": TallyScores(
                told(data.valid, seed), test, torch.device("cpu")
            ),
            "the rules": echo_oracle(test),
            "the rules without the task": single_task(test),
        }
        for name, scorer in scorers.items():
            print(f"  {name}: {mrr(scorer, data.test)}", flush=True)
        print(f"  chance: {mrr(lambda triples: np.zeros(len(triples)), data.test)}", flush=True)


if __name__ == "__main__":
    main()
