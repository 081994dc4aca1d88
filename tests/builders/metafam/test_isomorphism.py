"""Canonical forms against a search for an actual isomorphism."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtbench.builders.metafam.trees import Tree, canonical_form, first_names, grow, grow_forest
from mtbench.errors import UsageError

seeds = st.integers(min_value=0, max_value=2**32)


def small_tree(seed: int, size: int) -> Tree:
    return grow(random.Random(seed), first_names(), size=size, depth=3, branching=3)


def form(tree: Tree) -> str:
    return canonical_form([person.parents for person in tree.persons], tree.couples)


def edges(tree: Tree) -> set[tuple[int, int]]:
    """Child -> parent and spouse <-> spouse."""
    found = {(child, parent) for child, person in enumerate(tree.persons) for parent in person.parents or ()}
    return found | {(a, b) for a, person in enumerate(tree.persons) if (b := person.spouse) is not None}


def isomorphic(one: Tree, other: Tree) -> bool:
    """Backtracking search for a bijection that keeps every edge and every absent edge."""
    count = len(one.persons)
    mine, theirs = edges(one), edges(other)
    if count != len(other.persons) or len(mine) != len(theirs):
        return False

    def extend(image: list[int]) -> bool:
        new = len(image)
        if new == count:
            return True
        return any(
            all(
                ((new, old) in mine) == ((candidate, image[old]) in theirs)
                and ((old, new) in mine) == ((image[old], candidate) in theirs)
                for old in range(new)
            )
            and extend([*image, candidate])
            for candidate in range(count)
            if candidate not in image
        )

    return extend([])


@settings(max_examples=50)
@given(seed=seeds, size=st.integers(2, 59), shuffle=st.randoms(use_true_random=False))
def test_relabelling_keeps_the_form(seed: int, size: int, shuffle: random.Random) -> None:
    tree = small_tree(seed, size)
    label = list(range(len(tree.persons)))
    shuffle.shuffle(label)
    parents: list[tuple[int, int] | None] = [None] * len(label)
    for number, person in enumerate(tree.persons):
        if person.parents is not None:
            mother, father = person.parents
            parents[label[number]] = (label[father], label[mother])
    couples = [(label[husband], label[wife]) for wife, husband in tree.couples]
    shuffle.shuffle(couples)
    assert canonical_form(parents, couples) == form(tree)


@given(one=seeds, other=seeds, size=st.integers(2, 7))
def test_equal_forms_mean_isomorphic(one: int, other: int, size: int) -> None:
    first, second = small_tree(one, size), small_tree(other, size)
    assert (form(first) == form(second)) == isomorphic(first, second)


def test_every_pair_of_a_stream_is_told_apart_exactly() -> None:
    rng = random.Random(3)
    trees = [grow(rng, first_names(), size=6, depth=3, branching=3) for _ in range(30)]
    verdicts = [(form(a) == form(b), isomorphic(a, b)) for a, b in combinations(trees, 2)]
    assert all(claimed == true for claimed, true in verdicts)
    assert {true for _, true in verdicts} == {True, False}


# A root couple (0, 1) has children 2 and 3; 2 and 4 have 6 and 7; 3 and 5 have 8; one grandchild and 9 have 10.
PARENTS = [None, None, (0, 1), (0, 1), None, None, (2, 4), (2, 4), (3, 5), None]
COUPLES = [(0, 1), (2, 4), (3, 5)]


def family(married_grandchild: int) -> tuple[list[tuple[int, int] | None], list[tuple[int, int]]]:
    return [*PARENTS, (married_grandchild, 9)], [*COUPLES, (married_grandchild, 9)]


def test_same_degrees_but_not_isomorphic() -> None:
    with_sibling, without_sibling = family(6), family(8)

    def degrees(parents: list[tuple[int, int] | None], couples: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
        return sorted(
            (
                0 if pair is None else 2,
                sum(person in couple for couple in couples),
                sum(person in other for other in parents if other is not None),
            )
            for person, pair in enumerate(parents)
        )

    assert degrees(*with_sibling) == degrees(*without_sibling)
    assert canonical_form(*with_sibling) != canonical_form(*without_sibling)
    assert canonical_form(*with_sibling) == canonical_form(*family(7))


@pytest.mark.parametrize(
    ("parents", "couples"),
    [
        pytest.param([None, None, None, None], [(0, 1), (2, 3)], id="two families"),
        pytest.param([None, None, (0, 1), (0, 1), (2, 3)], [(0, 1), (2, 3)], id="siblings marry"),
        pytest.param([None, None, (0, 1), (0, 1), (2, 3), None], [(0, 1), (2, 3)], id="siblings marry, and a stranger"),
    ],
)
def test_what_is_no_tree_is_refused(parents: list[tuple[int, int] | None], couples: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="not a tree"):
        canonical_form(parents, couples)


@settings(max_examples=30)
@given(seed=seeds)
def test_forest_is_the_stream_without_repeats(seed: int) -> None:
    rng = random.Random(seed)
    expected: list[Tree] = []
    while len(expected) < 5:  # of the six shapes there are
        tree = grow(rng, first_names(), size=6, depth=3, branching=3)
        if not any(isomorphic(tree, earlier) for earlier in expected):
            expected.append(tree)
    assert grow_forest(seed, 5, size=6, depth=3, branching=3) == expected


def test_too_few_shapes_is_an_error() -> None:
    # A couple and a child is the only family of three.
    assert len(grow_forest(0, 1, size=3, depth=5, branching=5)) == 1
    with pytest.raises(UsageError, match="only 1 of 500 family trees of different shape with size=3"):
        grow_forest(0, 500, size=3, depth=5, branching=5)
