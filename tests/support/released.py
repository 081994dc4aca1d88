"""Datasets made of the released files, or built as they were, for tests that measure what was published."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import toys

from mtbench.data import catalog, loading
from mtbench.data.splits import Dataset

COMMIT = "raw.githubusercontent.com/TownesZhou/InGram/d3200b62dad5c4b0c0ffe69f79049b7a0f634a76/data"
FILES = ("train.txt", "valid.txt", "msg.txt", "test.txt")
FOLDERS = {
    "metafam": "Metafam",
    "fbnell": "FBNELL/FBNELL_v1",
    "wikitopics-mt1/health": "WikiTopics-MT/mt1-health-v1",
    "wikitopics-mt1/taxonomy": "WikiTopics-MT/mt1-taxonomy-v1",
    "wikitopics-mt2/location": "WikiTopics-MT/mt2-location-v1",
    "wikitopics-mt2/science": "WikiTopics-MT/mt2-science-v1",
    "wikitopics-mt3/art": "WikiTopics-MT/mt3-art-v2",
    "wikitopics-mt3/infrastructure": "WikiTopics-MT/mt3-infrastructure-v2",
    "wikitopics-mt4/health": "WikiTopics-MT/mt4-health-v2",
    "wikitopics-mt4/science": "WikiTopics-MT/mt4-science-v2",
}
SLOTS = {
    "metafam": (29, 29),
    "fbnell": (100, 200),
    "wikitopics-mt1/health": (35, 8),
    "wikitopics-mt1/taxonomy": (35, 10),
    "wikitopics-mt2/location": (19, 11),
    "wikitopics-mt2/science": (19, 17),
    "wikitopics-mt3/art": (99, 65),
    "wikitopics-mt3/infrastructure": (99, 37),
    "wikitopics-mt4/health": (94, 31),
    "wikitopics-mt4/science": (94, 65),
}


@cache
def dataset(name: str, mirror: Path) -> Dataset:
    """Return a dataset of the release as its four files have it; read once, so nobody may change it."""
    rows = []
    for file in FILES:
        lines = (mirror / COMMIT / FOLDERS[name] / file).read_text(encoding="utf-8").splitlines()
        rows.append([tuple(line.split("\t" if "\t" in line else " ")) for line in lines])
    return named(name, *rows, slots=SLOTS[name])


@cache
def derived(name: str) -> Dataset:
    """Return a dataset that the catalogue says how to build, with its own options; built once, as above."""
    return loading.derive(catalog.record(name))


def named(name, *parts, slots) -> Dataset:
    """Return a dataset of four lists of named triples, and that many relation ids in train and test."""
    return toys.dataset(name, catalog.record("metafam"), {}, parts=parts, slots=slots)
