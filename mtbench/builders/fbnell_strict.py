"""Corrected variants that drop what a released dataset should not have held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mtbench.data import catalog
from mtbench.data.splits import Dataset
from mtbench.errors import DatasetError
from mtbench.names import RELATION


def keep_new_relations(data: Dataset, name: str) -> Dataset:
    """Return a dataset called ``name`` without the test targets whose relation type occurs in training.

    The question of these benchmarks is prediction on *new* relation types; a target on a trained one is
    answered by memory. Names are compared; the training targets count as training. Graphs, vocabularies
    and validation stay as they are. Raises `DatasetError` where no target is left.
    """
    train, test = data.valid, data.test
    used = np.unique(np.concatenate((train.graph, train.targets))[:, RELATION])
    old = np.isin(test.relations[test.targets[:, RELATION]], train.relations[used])
    if old.all():
        raise DatasetError(f"{data.name}: every test target is on a relation type of training; none is left for {name}")
    return replace(
        data,
        name=name,
        train=replace(data.train, dataset=name),
        valid=replace(data.valid, dataset=name),
        test=replace(data.test, dataset=name, targets=test.targets[~old]),
    )


def build() -> Dataset:
    """Build ``fbnell-strict``: FBNELL with the 397 targets on relation types that are absent from training."""
    from mtbench.data.building import derive

    record = catalog.record("fbnell-strict")
    data = keep_new_relations(derive("fbnell"), record.id)
    return replace(data, version=record.version, info=record, parameters=dict(record.parameters))
