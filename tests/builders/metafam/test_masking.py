"""The two masking rules, on families small enough to check by eye and on random ones."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtbench.builders.metafam.dataset import Rule, mask, observable
from mtbench.builders.metafam.ontology import LocalTriple, derive, read_ontology
from mtbench.builders.metafam.trees import Person, Tree, first_names, grow

ONTOLOGY = read_ontology()
MOTHER, FATHER, SON, DAUGHTER = (ONTOLOGY.indices[name] for name in ("motherOf", "fatherOf", "sonOf", "daughterOf"))
rules = st.sampled_from(["mother/father", "son/daughter"])


def household(daughters: set[int], mother: int, father: int, persons: int = 12) -> Tree:
    """One couple; everybody else is their child, a daughter or a son."""
    return Tree(
        tuple(
            Person(f"person{number}", True, 0, None, father)
            if number == mother
            else Person(f"person{number}", False, 0, None, mother)
            if number == father
            else Person(f"person{number}", number in daughters, 1, (mother, father), None)
            for number in range(persons)
        )
    )


@pytest.mark.parametrize(
    ("daughters", "masked_children"),
    [
        pytest.param({5, 6}, [10], id="10 comes before 2 as a string"),
        pytest.param({10}, [11], id="an only daughter has no sister"),
        pytest.param({10, 11}, [10], id="but each of two has one"),
        pytest.param(set(), [], id="no sisters"),
    ],
)
def test_mother_father_masks_the_first_child_with_a_sister(daughters: set[int], masked_children: list[int]) -> None:
    tree = household(daughters, mother=0, father=1)
    masked = mask("mother/father", tree, derive(ONTOLOGY, tree), ONTOLOGY)
    assert masked == [row for child in masked_children for row in ((0, MOTHER, child), (1, FATHER, child))]


@pytest.mark.parametrize(("mother", "father", "first"), [(9, 10, 10), (2, 11, 11), (3, 4, 3), (0, 10, 0)])
def test_son_daughter_masks_the_first_parent(mother: int, father: int, first: int) -> None:
    tree = household({5, 6}, mother, father)
    masked = mask("son/daughter", tree, derive(ONTOLOGY, tree), ONTOLOGY)
    sons = [number for number in range(12) if number not in {mother, father, 5, 6}]
    assert masked == [*((son, SON, first) for son in sons), (5, DAUGHTER, first), (6, DAUGHTER, first)]


def test_observable_rows_are_sorted_as_strings() -> None:
    triples = [(2, 1, 0), (10, 2, 3), (1, 10, 2), (1, 9, 2), (0, 21, 1)]
    assert observable(triples, [(0, 21, 1)]) == [(1, 10, 2), (1, 9, 2), (10, 2, 3), (2, 1, 0)]


def masked_tree(seed: int, rule: Rule) -> tuple[Tree, list[LocalTriple], list[LocalTriple]]:
    tree = grow(random.Random(seed), first_names(), size=26, depth=5, branching=5)
    closure = derive(ONTOLOGY, tree)
    return tree, closure, mask(rule, tree, closure, ONTOLOGY)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), rule=rules)
def test_observable_and_masked_are_the_closure(seed: int, rule: Rule) -> None:
    _, closure, masked = masked_tree(seed, rule)
    visible = observable(closure, masked)
    assert Counter([*visible, *masked]) == Counter(closure)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_mother_father_counts(seed: int) -> None:
    tree, _, masked = masked_tree(seed, "mother/father")
    kinds = Counter(relation for _, relation, _ in masked)
    assert kinds[MOTHER] == kinds[FATHER]
    assert set(kinds) <= {MOTHER, FATHER}
    of_mothers, of_fathers = ({row[2] for row in masked if row[1] == parent} for parent in (MOTHER, FATHER))
    assert of_mothers == of_fathers
    children = Counter(person.parents for person in tree.persons if person.parents is not None)
    daughters = Counter(person.parents for person in tree.persons if person.parents is not None and person.female)
    # Somebody has a sister where there is a daughter and another child.
    assert kinds[MOTHER] == sum(children[couple] > 1 and daughters[couple] > 0 for couple in children)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_son_daughter_counts(seed: int) -> None:
    tree, _, masked = masked_tree(seed, "son/daughter")
    with_parents = {number for number, person in enumerate(tree.persons) if person.parents is not None}
    assert sorted(head for head, _, _ in masked) == sorted(with_parents)
    assert all((relation == DAUGHTER) == tree.persons[head].female for head, relation, _ in masked)
