"""What clingo derives, against the definitions written out in Python; other ontologies; bad ones."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtbench.builders.metafam.dataset import check_maskable
from mtbench.builders.metafam.ontology import derive, read_ontology
from mtbench.builders.metafam.trees import Tree, first_names, grow
from mtbench.errors import UsageError

Pairs = set[tuple[int, int]]
GENDERED = {
    "sibling": ("sisterOf", "brotherOf"),
    "parent": ("motherOf", "fatherOf"),
    "grandparent": ("grandmotherOf", "grandfatherOf"),
    "greatGrandparent": ("greatGrandmotherOf", "greatGrandfatherOf"),
    "auntUncle": ("auntOf", "uncleOf"),
    "greatAuntUncle": ("greatAuntOf", "greatUncleOf"),
    "secondAuntUncle": ("secondAuntOf", "secondUncleOf"),
    "cousin": ("girlCousinOf", "boyCousinOf"),
    "secondCousin": ("girlSecondCousinOf", "boySecondCousinOf"),
    "firstCousinOnceRemoved": ("girlFirstCousinOnceRemovedOf", "boyFirstCousinOnceRemovedOf"),
    "child": ("daughterOf", "sonOf"),
    "grandchild": ("granddaughterOf", "grandsonOf"),
    "greatGrandchild": ("greatGranddaughterOf", "greatGrandsonOf"),
    "nieceNephew": ("nieceOf", "nephewOf"),
}
seeds = st.integers(min_value=0, max_value=2**32)


def compose(left: Pairs, right: Pairs) -> Pairs:
    return {(x, y) for x, middle in left for other, y in right if middle == other}


def inverse(pairs: Pairs) -> Pairs:
    return {(y, x) for x, y in pairs}


def patterns(tree: Tree) -> dict[str, Pairs]:
    """The definitions, as compositions of relations."""
    parent = {(p, child) for child, person in enumerate(tree.persons) for p in person.parents or ()}
    grandparent = compose(parent, parent)
    great_grandparent = compose(grandparent, parent)
    sibling = {(x, y) for x, y in compose(inverse(parent), parent) if x != y}
    aunt_uncle = compose(sibling, parent)
    great_aunt_uncle = compose(sibling, grandparent)
    second_aunt_uncle = compose(inverse(parent), great_aunt_uncle)
    cousin = compose(inverse(parent), aunt_uncle)
    second_cousin = compose(inverse(parent), second_aunt_uncle)
    return {
        "parent": parent,
        "grandparent": grandparent,
        "greatGrandparent": great_grandparent,
        "sibling": sibling,
        "auntUncle": aunt_uncle,
        "greatAuntUncle": great_aunt_uncle,
        "secondAuntUncle": second_aunt_uncle,
        "cousin": cousin | inverse(cousin),
        "secondCousin": second_cousin | inverse(second_cousin),
        "firstCousinOnceRemoved": compose(inverse(parent), cousin | inverse(cousin)),
        "child": inverse(parent),
        "grandchild": inverse(grandparent),
        "greatGrandchild": inverse(great_grandparent),
        "nieceNephew": inverse(aunt_uncle),
    }


def random_tree(seed: int, size: int = 26) -> Tree:
    return grow(random.Random(seed), first_names(), size=size, depth=5, branching=5)


@settings(max_examples=20)
@given(seed=seeds, size=st.integers(2, 45))
def test_closure_is_the_definitions(seed: int, size: int) -> None:
    tree = random_tree(seed, size)
    ontology = read_ontology()
    expected = sorted(
        (x, ontology.indices[GENDERED[pattern][0 if tree.persons[x].female else 1]], y)
        for pattern, pairs in patterns(tree).items()
        for x, y in pairs
    )
    assert derive(ontology, tree) == expected


def test_relations_tasks_and_slots_of_the_family() -> None:
    ontology = read_ontology()
    assert sorted(ontology.relations) == list(range(1, 29))
    assert ontology.slots == 29
    assert ontology.tasks == {name: pattern for pattern, names in GENDERED.items() for name in names}
    by_index = " ".join(ontology.relations[index].name for index in (1, 3, 4, 15, 20, 28))
    assert by_index == "sisterOf motherOf fatherOf girlCousinOf boyFirstCousinOnceRemovedOf nephewOf"


SMALL = """
relation(0, "motherOf", parent).   relation(1, "fatherOf", parent).
relation(2, "daughterOf", child).  relation(3, "sonOf", child).
relation(4, "sisterOf", sibling).  relation(6, "ancestorOf", ancestor).
relation(5, "spouseOf", marriage). reserved(7, "unused").
triple(X, 0, Y) :- parent(X, Y), female(X).   triple(X, 1, Y) :- parent(X, Y), male(X).
triple(X, 2, Y) :- parent(Y, X), female(X).   triple(X, 3, Y) :- parent(Y, X), male(X).
triple(X, 4, Y) :- parent(Z, X), parent(Z, Y), X != Y, female(X).
triple(X, 5, Y) :- married(X, Y).
ancestor(X, Y) :- parent(X, Y).  ancestor(X, Y) :- parent(X, Z), ancestor(Z, Y).
triple(X, 6, Y) :- ancestor(X, Y).
"""


def write(folder: Path, program: str) -> str:
    path = folder / "other.lp"
    path.write_text(program, encoding="utf-8")
    return str(path)


def test_another_ontology(tmp_path: Path) -> None:
    ontology = read_ontology(write(tmp_path, SMALL))
    check_maskable(ontology)
    tree = random_tree(4)
    triples = derive(ontology, tree)
    assert ontology.slots == 8
    assert ontology.tasks["ancestorOf"] == "ancestor"
    married = sorted([*tree.couples, *inverse(set(tree.couples))])
    assert [(x, y) for x, relation, y in triples if relation == 5] == married
    parent = patterns(tree)["parent"]
    ancestor = parent
    while not compose(ancestor, parent) <= ancestor:
        ancestor = ancestor | compose(ancestor, parent)
    assert {(x, y) for x, relation, y in triples if relation == 6} == ancestor


def test_what_a_file_shows_does_not_matter(tmp_path: Path) -> None:
    tree = random_tree(4)
    plain = derive(read_ontology(write(tmp_path, SMALL)), tree)
    assert derive(read_ontology(write(tmp_path, SMALL + "#show ancestor/2.")), tree) == plain


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param('relation(0, "a", b).\ntriple(X 0, Y).\n', r"(?s)other\.lp.*:2:10.*syntax error", id="syntax"),
        pytest.param('relation(0, "a", b).\ntriple(X, 0, Y).\n', r"(?s)other\.lp.*:2:1.*unsafe", id="unsafe variable"),
        pytest.param("triple(X, 0, Y) :- parent(X, Y).", r"no fact relation\(INDEX", id="no relations"),
        pytest.param('relation(0, "a", b) :- person(0).', r"no fact relation\(INDEX", id="relations are no facts"),
        pytest.param('relation(0, "a", b). relation(2, "c", b).', "numbered 0 to 1, each once, not 0, 2", id="gap"),
        pytest.param('relation(0, "a", b). reserved(0, "c").', "each once, not 0, 0", id="index twice"),
        pytest.param('relation(0, "a", b). relation(1, "a", b).', "more than once: a", id="name twice"),
        pytest.param("relation(0, a, b).", 'a name in quotes, as in 1, "sisterOf", not: 0, a, b', id="no quotes"),
        pytest.param('relation(x, "a", b).', "expected a number", id="no number"),
    ],
)
def test_file_that_cannot_be_read(tmp_path: Path, program: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_ontology(write(tmp_path, program))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        pytest.param(":- person(0).", "no answer set for a tree", id="unsatisfiable"),
        pytest.param("{ odd }.", "several answer sets", id="a choice"),
        pytest.param("triple(0, 7, 1).", r"triple\(0, 7, 1\) must join two persons", id="reserved index"),
        pytest.param("triple(0, 0, 99).", r"triple\(0, 0, 99\)", id="no such person"),
        pytest.param("triple(anna, 0, 1).", r"triple\(anna, 0, 1\)", id="no number"),
        pytest.param("triple(0, 1) .", r"triple\(0, 1\)", id="no tail"),
    ],
)
def test_program_that_cannot_be_used(tmp_path: Path, extra: str, message: str) -> None:
    ontology = read_ontology(write(tmp_path, SMALL + extra))
    with pytest.raises(UsageError, match=message):
        derive(ontology, random_tree(1))


@pytest.mark.parametrize("name", ["motherOf", "fatherOf", "sonOf", "daughterOf", "sisterOf"])
def test_masking_needs_its_relations(tmp_path: Path, name: str) -> None:
    ontology = read_ontology(write(tmp_path, SMALL.replace(f'"{name}"', '"renamed"')))
    with pytest.raises(UsageError, match=f"exports no {re.escape(name)}, which the masking rules need"):
        check_maskable(ontology)
