"""A plan with the dataset that it is carried out on, by name."""

from dataclasses import dataclass

import mtbench
from mtbench.training import run as training


@dataclass(frozen=True)
class Plan(training.Plan):
    dataset: str = "toy"


def run(plan, *arguments, **options):
    return training.run(plan, mtbench.load(plan.dataset), *arguments, **options)
