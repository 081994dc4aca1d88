"""The lowest versions that are promised are the ones that are tested."""

import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

LOWEST = Path(__file__).with_name("lowest.txt")
PINNED = dict(re.findall(r"^([\w-]+)==(.+)$", LOWEST.read_text(encoding="utf-8"), re.MULTILINE))


def numbers(version):
    """Return a version without the zeros at its end, as 2.1 is 2.1.0."""
    return tuple(map(int, re.sub(r"(\.0)+$", "", version).split(".")))


def test_every_lower_bound_of_the_core_and_its_plots_is_pinned_and_no_other():
    declared = tomllib.loads((LOWEST.parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = dict(
        re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,!=[\d.*]+)?", one).groups()
        for one in [*declared["dependencies"], *declared["optional-dependencies"]["plots"]]
    )
    declared, pinned = ({name: numbers(version) for name, version in found.items()} for found in (bounds, PINNED))
    assert declared == pinned


@pytest.mark.skipif("MTBENCH_TEST_LOWEST" not in os.environ, reason="only tox -e lowest has these versions")
def test_the_environment_for_the_lowest_versions_has_them():
    assert {name: metadata.version(name) for name in PINNED} == PINNED
