"""FBNELL: row by row the release from the GraIL files, the paper's recipe on any two dumps, and the strict variant."""

import random
from collections import Counter

import numpy as np
import pytest
import released

import mtbench
from mtbench.builders import fbnell
from mtbench.data import catalog
from mtbench.data.splits import Dataset, differences
from mtbench.errors import DatasetError, UsageError

GRAIL = "raw.githubusercontent.com/kkteru/grail/2a3dffa719518e7e6250e355a2fb37cd932de91e/data"
RELEASE = "raw.githubusercontent.com/TownesZhou/InGram/d3200b62dad5c4b0c0ffe69f79049b7a0f634a76/data/FBNELL/FBNELL_v1"


@pytest.fixture
def record():
    return catalog.record("fbnell")


@pytest.fixture
def grail(mirror):
    return mirror / GRAIL


def test_the_grail_files_give_the_release_row_by_row(mirror, grail, record):
    data = fbnell.rebuild([grail], record)
    assert not differences(data, record)
    for name, split, part in (
        ("train", data.train, data.train.graph),
        ("valid", data.valid, data.valid.targets),
        ("msg", data.test, data.test.graph),
        ("test", data.test, data.test.targets),
    ):
        released = (mirror / RELEASE / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        assert ["\t".join(row) for row in split.named(part)] == released
    assert (data.train.relation_slots, data.test.relation_slots) == (100, 200)
    assert data.name == "fbnell"


def test_folders_and_files_may_be_named_one_by_one(grail, record):
    folders = [grail / name for name in ("nell_v3", "fb237_v2_ind", "fb237_v2", "nell_v3_ind")]
    files = [grail / name for name in fbnell.grail_files([grail])]
    expected = fbnell.rebuild([grail], record).test.content_sha256
    for raw in (folders, files, [grail.parent]):
        assert fbnell.rebuild(raw, record).test.content_sha256 == expected


def test_missing_and_foreign_files_are_named(grail, record, tmp_path):
    with pytest.raises(DatasetError) as raised:
        fbnell.rebuild([grail / "nell_v3", tmp_path], record)
    assert "not found: fb237_v2/train.txt, fb237_v2/valid.txt, fb237_v2_ind/train.txt" in str(raised.value)
    for name, path in fbnell.grail_files([grail]).items():
        copy = tmp_path / name
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes().partition(b"\n")[2] if name == "nell_v3/valid.txt" else path.read_bytes())
    with pytest.raises(DatasetError, match=r"is not GraIL's nell_v3/valid\.txt: its 1850 triples"):
        fbnell.rebuild([tmp_path], record)


@pytest.fixture
def dumps(tmp_path):
    rng = random.Random(0)
    folder = tmp_path / "FB15k-237"
    folder.mkdir()
    for prefix, path in (("/", folder / "train.txt"), ("concept:", tmp_path / "nell.tsv")):
        drawn = ((rng.randrange(60), int(12 * rng.random() ** 2), rng.randrange(60)) for _ in range(900))
        rows = {f"{prefix}e{head}\t{prefix}r{relation}\t{prefix}e{tail}\n" for head, relation, tail in drawn}
        path.write_text("".join(sorted(rows)), encoding="utf-8")
    return [folder, tmp_path / "nell.tsv"]


def paper(dumps, record, **options):
    return fbnell.rebuild_paper(dumps, record, {**fbnell.DEFAULTS, "recipe": "paper", **options})


def test_the_papers_recipe(dumps, record):
    data = paper(dumps, record, seed=3, train_relations=4, test_relations=9, share=0.2)
    rows = fbnell.named_triples(dumps)
    counts = Counter(row[1] for row in rows)
    ranked = [
        [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if name.startswith(prefix)]
        for prefix in ("/", "concept:")
    ]
    trained = {name for names in ranked for name in names[:4]}
    tested = {name for names in ranked for name in names[:9]}
    for split, kept, hidden in ((data.valid, trained, trained), (data.test, tested, tested - trained)):
        graph, targets = split.named(split.graph), split.named(split.targets)
        assert set(graph) | set(targets) == {row for row in rows if row[1] in kept}
        assert {row[1] for row in targets} <= hidden
        assert len(targets) == int(0.2 * sum(row[1] in hidden for row in rows))
        assert {name for row in targets for name in row[::2]} <= {name for row in graph for name in row[::2]}
        assert split.relation_slots == len(kept)
    assert data.name == "fbnell[recipe=paper,seed=3,train_relations=4,test_relations=9,share=0.2]"
    again = paper(dumps[::-1], record, seed=3, train_relations=4, test_relations=9, share=0.2)
    other = paper(dumps, record, seed=4, train_relations=4, test_relations=9, share=0.2)
    assert again.test.content_sha256 == data.test.content_sha256 != other.test.content_sha256


def test_what_the_papers_recipe_cannot_do(dumps, record):
    with pytest.raises(DatasetError, match="needs two dumps"):
        paper(dumps[:1], record)
    with pytest.raises(DatasetError, match="no relation type beyond"):
        paper(dumps, record, train_relations=50, test_relations=60)
    for options in ({"seed": -1}, {"train_relations": 100}, {"share": 1.0}):
        with pytest.raises(UsageError, match="no such recipe"):
            paper(dumps, record, **options)


@pytest.fixture(scope="module")
def published(mirror) -> Dataset:
    return released.dataset("fbnell", mirror)


def test_the_397_targets_on_new_relations_are_kept(published):
    data = fbnell.keep_new_relations(published, "fbnell-strict")
    assert len(data.test.targets) == 397
    assert mtbench.audit(data).overlap.targets_on_training_relations == 0
    training = np.concatenate((published.train.graph, published.valid.targets))
    known = {relation for _, relation, _ in published.valid.named(training)}
    expected = [row for row in published.test.named(published.test.targets) if row[1] not in known]
    assert data.test.named(data.test.targets) == expected
    assert {split.dataset for split in (data.train, data.valid, data.test)} == {data.name} == {"fbnell-strict"}
    for name in ("train", "valid", "test"):
        assert np.array_equal(data.split(name).graph, published.split(name).graph)
    assert np.array_equal(data.valid.targets, published.valid.targets)


def test_the_builder_takes_what_fbnell_builds(published, monkeypatch):
    monkeypatch.setattr(fbnell, "derive", lambda record: {"fbnell": published}[record.id])
    data = fbnell.build_strict(catalog.record("fbnell-strict"), {})
    assert (data.name, data.info.id, len(data.test.targets)) == ("fbnell-strict", "fbnell-strict", 397)
    assert not differences(data, catalog.record("fbnell-strict"))


def test_a_dataset_without_new_relations_is_refused():
    rows = [("a", "knows", "b")]
    data = released.named("old", rows, rows, rows, rows, slots=(1, 1))
    with pytest.raises(DatasetError, match="old: every test target is on a relation type of training; none is left"):
        fbnell.keep_new_relations(data, "new")
