"""Datasets made of the released files, or built as they were, for tests that measure what was published."""

from functools import cache
from pathlib import Path

import toys

from mtbench.data import catalog, downloads, loading
from mtbench.data.splits import Dataset

MIXED = ("mt1/health", "mt1/taxonomy", "mt2/location", "mt2/science", "mt3/art", "mt3/infrastructure", "mt4/health")
NAMES = ("metafam", "fbnell", *(f"wikitopics-{name}" for name in (*MIXED, "mt4/science")))


@cache
def dataset(name: str, mirror: Path) -> Dataset:
    """Return a dataset of the release as its four files have it; read once, so nobody may change it."""
    record, rows = catalog.record(name), []
    folder = (mirror / downloads.place(record.sources[-1].url)).parent
    for file in ("train.txt", "valid.txt", "msg.txt", "test.txt"):
        lines = (folder / file).read_text(encoding="utf-8").splitlines()
        rows.append([tuple(line.split("\t" if "\t" in line else " ")) for line in lines])
    return named(name, *rows, slots=[record.graphs[split].relation_slots for split in ("train", "test")])


@cache
def derived(name: str) -> Dataset:
    """Return a dataset that the catalogue says how to build, with its own options; built once, as above."""
    return loading.derive(catalog.record(name))


def named(name, *parts, slots) -> Dataset:
    """Return a dataset of four lists of named triples, and that many relation ids in train and test."""
    return toys.dataset(name, catalog.record("metafam"), {}, parts=parts, slots=slots)
