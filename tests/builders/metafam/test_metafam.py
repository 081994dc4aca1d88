"""The built dataset: the release row by row, the ranges of other seeds, options."""

import hashlib
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import toys
from released import derived

import mtbench
from mtbench.builders.metafam.ontology import PACKAGED
from mtbench.builders.metafam.trees import grow_forest
from mtbench.data.splits import Dataset, differences
from mtbench.errors import UsageError

build = partial(mtbench.build, "metafam")

SMALL = {"train_trees": 3, "test_trees": 2}


@pytest.fixture
def released() -> Dataset:
    return derived("metafam")


def rows(data: Dataset, split: str, part: str) -> list[tuple[str, str, str]]:
    found = data.split(split)
    return found.named(getattr(found, part))


def test_it_is_the_release(released: Dataset) -> None:
    """That its rows have the order of the published files is what `tests/export` looks at, file by file."""
    assert not differences(released, released.info)
    for split in (released.train, released.valid, released.test):
        assert sorted(split.entities) == split.entities.tolist()
        assert sorted(split.relations) == split.relations.tolist()
    assert len(released.train.targets) == 0
    assert np.array_equal(released.train.graph, released.valid.graph)
    assert np.array_equal(released.train.entities, released.valid.entities)
    assert not set(released.train.entities) & set(released.test.entities)


def test_tasks_pair_the_two_genders(released: Dataset) -> None:
    for split in (released.train, released.valid, released.test):
        assert set(split.tasks) == set(split.relations)
        assert set(Counter(split.tasks.values()).values()) == {2}
        assert split.tasks["motherOf"] == split.tasks["fatherOf"] != split.tasks["sonOf"] == split.tasks["daughterOf"]


@pytest.mark.parametrize("seed", range(40))
def test_entities_of_other_seeds(seed: int) -> None:
    persons = [len(tree.persons) for tree in grow_forest(seed, 75, size=26, depth=5, branching=5)]
    assert 1306 <= sum(persons[:50]) <= 1326
    assert 651 <= sum(persons[50:]) <= 666


@pytest.mark.parametrize("seed", [11, 29])
def test_triples_of_other_seeds(seed: int) -> None:
    data = build(seed=seed)
    assert data.name == f"metafam[seed={seed}]"
    # The ranges count observable and missing triples together.
    assert 13193 <= len(data.train.graph) + len(data.valid.targets) <= 15216
    assert 547 <= len(data.valid.targets) <= 626
    assert 6413 <= len(data.test.graph) + len(data.test.targets) <= 7858
    assert 146 <= len(data.test.targets) <= 212


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_invariants_of_the_whole_dataset(seed: int) -> None:
    data = build(seed=seed, train_trees=6, test_trees=4)
    opposite = {"motherOf": "child", "fatherOf": "child", "sonOf": "parent", "daughterOf": "parent"}
    for split in (data.valid, data.test):
        visible, targets = split.named(split.graph), split.named(split.targets)
        assert len({(head, tail) for head, _, tail in visible + targets}) == len(visible) + len(targets)
        relations = {(head, tail): relation for head, relation, tail in visible}
        for head, relation, tail in targets:
            assert split.tasks[relations[tail, head]] == opposite[relation]
        kinds = Counter(relation for _, relation, _ in targets)
        assert kinds["motherOf"] == kinds["fatherOf"] > 0
        everybody = {name for head, _, tail in visible for name in (head, tail)}
        assert everybody == set(split.entities.tolist())
    assert {relation for _, relation, _ in rows(data, "test", "targets")} == {"motherOf", "fatherOf"}


def test_same_parameters_same_rows_other_seed_other_rows() -> None:
    first, again, other = build(seed=7, **SMALL), build(seed=7, **SMALL), build(seed=8, **SMALL)
    for split in ("train", "valid", "test"):
        assert np.array_equal(first.split(split).graph, again.split(split).graph)
        assert np.array_equal(first.split(split).targets, again.split(split).targets)
        assert first.split(split).content_sha256 == again.split(split).content_sha256
        assert first.split(split).content_sha256 != other.split(split).content_sha256


def test_rows_do_not_depend_on_hash_order() -> None:
    program = (
        "import mtbench\n"
        "data = mtbench.build('metafam', seed=3, train_trees=2, test_trees=1)\n"
        "splits = [data.valid, data.test]\n"
        "print([split.named(part) for split in splits for part in (split.graph, split.targets)])"
    )
    data = build(seed=3, train_trees=2, test_trees=1)
    expected = [rows(data, split, part) for split in ("valid", "test") for part in ("graph", "targets")]
    for hash_seed in ("1", "2"):
        printed, errors = toys.python("-c", program, env={"PYTHONHASHSEED": hash_seed}).communicate()
        assert printed == f"{expected}\n", errors


@pytest.mark.parametrize("train_trees", [1, 2, 5])
def test_first_half_of_the_training_trees_has_the_mother_father_rule(train_trees: int) -> None:
    data = build(seed=1, train_trees=train_trees, test_trees=2)
    forest = grow_forest(1, train_trees + 2, size=26, depth=5, branching=5)
    tree_of = [number for number, tree in enumerate(forest) for _ in tree.persons]
    kinds: dict[int, set[str]] = {}
    for split in ("valid", "test"):
        for head, relation, _ in rows(data, split, "targets"):
            number = int("".join(filter(str.isdigit, head)))
            kinds.setdefault(tree_of[number], set()).add(relation)
    half = (train_trees + 1) // 2
    mothers = {*range(half), train_trees, train_trees + 1}
    assert {number for number, found in kinds.items() if found == {"motherOf", "fatherOf"}} == mothers
    others = {number for number, found in kinds.items() if found <= {"sonOf", "daughterOf"}}
    assert others == set(range(half, train_trees))


def test_fewer_trees_are_the_first_of_the_release(released: Dataset) -> None:
    data = build(train_trees=10, test_trees=3)
    assert data.name == "metafam[train_trees=10,test_trees=3]"
    graph = rows(data, "test", "graph")
    first = min(int("".join(filter(str.isdigit, head))) for head, _, _ in graph)
    assert first == data.train.num_entities
    # Trees 0 to 4 have the mother/father rule in both.
    until = sum(len(tree.persons) for tree in grow_forest(88564, 5, size=26, depth=5, branching=5))
    early = [row for row in rows(data, "train", "graph") if int("".join(filter(str.isdigit, row[0]))) < until]
    assert early == rows(released, "train", "graph")[: len(early)]


def test_size_depth_and_branching_reach_the_trees() -> None:
    data = build(seed=2, size=12, depth=2, branching=2, **SMALL)
    assert data.name == "metafam[seed=2,train_trees=3,test_trees=2,size=12,depth=2,branching=2]"
    assert data.train.num_entities <= 3 * 13
    assert data.test.num_entities <= 2 * 13
    everything = rows(data, "valid", "graph") + rows(data, "valid", "targets")
    children = Counter(head for head, relation, _ in everything if relation == "motherOf")
    assert max(children.values()) == 2


def test_an_ontology_that_was_edited_is_another_dataset(tmp_path: Path) -> None:
    path, out = tmp_path / "kin.lp", tmp_path / "kin"
    path.write_text(PACKAGED.read_text(encoding="utf-8"), encoding="utf-8")
    first = mtbench.build("metafam", ontology=str(path), out=out, **SMALL)
    path.write_text(PACKAGED.read_text(encoding="utf-8").replace("auntOf", "tanteOf"), encoding="utf-8")
    with pytest.raises(UsageError, match="add --force"):
        mtbench.build("metafam", ontology=str(path), out=out, **SMALL)
    again = mtbench.build("metafam", ontology=str(path), out=out, force=True, **SMALL)
    assert "tanteOf" in again.train.relations
    with pytest.raises(UsageError, match="it is another file than meant"):
        mtbench.build("metafam", ontology=str(path), **SMALL | {"ontology_sha256": first.parameters["ontology_sha256"]})


def test_another_ontology(tmp_path: Path) -> None:
    path = tmp_path / "sisters.lp"
    path.write_text(
        'relation(0, "motherOf", parent). relation(1, "fatherOf", parent). relation(2, "sonOf", child).\n'
        'relation(3, "daughterOf", child). relation(4, "sisterOf", sibling).\n'
        "triple(X, 0, Y) :- parent(X, Y), female(X).  triple(X, 1, Y) :- parent(X, Y), male(X).\n"
        "triple(X, 2, Y) :- parent(Y, X), male(X).    triple(X, 3, Y) :- parent(Y, X), female(X).\n"
        "triple(X, 4, Y) :- parent(Z, X), parent(Z, Y), X != Y, female(X).\n",
        encoding="utf-8",
    )
    data, family = build(ontology=str(path), **SMALL), build(**SMALL)
    assert data.name == "metafam[train_trees=3,test_trees=2,ontology=sisters.lp]"
    assert data.parameters["ontology"] == str(path)
    assert data.parameters["ontology_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert family.parameters["ontology_sha256"] == ""
    assert data.train.relation_slots == data.train.num_relations == 5
    kept = set(data.train.relations.tolist())
    for split in ("train", "test"):
        expected = [row for row in rows(family, split, "graph") if row[1] in kept]
        assert sorted(rows(data, split, "graph")) == sorted(expected)
    assert set(rows(data, "test", "targets")) == set(rows(family, "test", "targets"))


def test_rules_that_hide_nothing_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "nobody.lp"
    names = ["motherOf", "fatherOf", "sonOf", "daughterOf", "sisterOf"]
    facts = " ".join(f'relation({index}, "{name}", p).' for index, name in enumerate(names))
    path.write_text(f"{facts} triple(X, 0, Y) :- parent(X, Y).", encoding="utf-8")
    with pytest.raises(UsageError, match="hide no triple of the valid split"):
        build(ontology=str(path), **SMALL)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("seed", -1, "seed must be a whole number of at least 0, not -1"),
        ("seed", True, "seed must be a whole number"),
        ("seed", 1.5, "seed must be a whole number"),
        ("train_trees", 0, "train_trees must be a whole number of at least 1"),
        ("test_trees", 0, "test_trees must be a whole number of at least 1"),
        ("size", 1, "size must be a whole number of at least 2"),
        ("size", 60, "size must be between 2 and 59 when branching=5, not 60"),
        ("depth", 0, "depth must be a whole number of at least 1"),
        ("branching", 0, "branching must be a whole number of at least 1"),
        ("ontology", 3, "metafam: ontology must be text, not 3"),
        ("ontology", "absent.lp", "no ontology file 'absent.lp'"),
    ],
)
def test_values_that_no_option_has(option: str, value: int | float | str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build(**{option: value})
