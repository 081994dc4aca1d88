"""Runs saved without the names of their targets: counts alone, named again from the split."""

from __future__ import annotations

import numpy as np
import pytest
from pyarrow import parquet
from ranking_toys import hashed, random_split

from mtbench.analysis import comparison
from mtbench.errors import ResultError, UsageError
from mtbench.evaluation.tasks import evaluate
from mtbench.names import PARTS
from mtbench.runs import result as results
from mtbench.runs.origin import RunInfo, with_names

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
SPLIT = random_split(4)


def saved(directory, **options):
    return evaluate(hashed, SPLIT).save(directory, RunInfo(model="m"), **options)


def test_the_file_holds_counts_alone_and_everything_follows_from_it(tmp_path):
    plain, bare = saved(tmp_path / "plain"), saved(tmp_path / "bare", with_names=False)
    columns = parquet.read_schema(bare / "ranks.parquet").names
    assert columns == [f"{part}_{name}" for part in PARTS for name in ("greater", "equal", "count")]
    assert not any(name in (bare / "result.json").read_text() for name in SPLIT.entities.tolist())
    assert results.verify(bare).ok
    ours, theirs = results.load(plain), results.load(bare)
    assert (ours.ranks.named, theirs.ranks.named) == (True, False)
    assert theirs.metrics == ours.metrics
    again = with_names(theirs, SPLIT)
    for name in ("heads", "relations", "tails"):
        np.testing.assert_array_equal(getattr(again.ranks, name), getattr(ours.ranks, name))
    assert with_names(ours) is ours


def test_strata_and_comparisons_name_the_targets_themselves(tmp_path):
    plain, bare = (results.load(saved(tmp_path / name, with_names=name == "plain")) for name in ("plain", "bare"))
    assert bare.by("relation", SPLIT).rows == plain.by("relation", SPLIT).rows
    found, expected = (comparison.compare([run], split=SPLIT, draws=100) for run in (bare, plain))
    assert (found.rows[0].low, found.rows[0].high) == (expected.rows[0].low, expected.rows[0].high)


def test_saving_what_was_loaded_without_names_adds_none(tmp_path):
    bare = results.load(saved(tmp_path / "bare", with_names=False))
    again = bare.save(tmp_path / "again")
    assert (again / "ranks.parquet").read_bytes() == (tmp_path / "bare" / "ranks.parquet").read_bytes()


def test_names_of_another_split_are_refused(tmp_path):
    bare = results.load(saved(tmp_path / "bare", with_names=False))
    with pytest.raises(ResultError, match="the run was made on content"):
        with_names(bare, random_split(5))
    with pytest.raises(UsageError, match="random test is not in the catalogue"):
        with_names(bare)
