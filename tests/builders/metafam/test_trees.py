"""Every tree is a proper family within its bounds, whatever the seed, and no two of a forest are isomorphic."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtbench.builders.metafam.trees import Tree, canonical_form, first_names, grow, grow_forest, largest_size
from mtbench.errors import UsageError

seeds = st.integers(min_value=0, max_value=2**32)
shapes = st.fixed_dictionaries({"size": st.integers(2, 50), "depth": st.integers(1, 7), "branching": st.integers(1, 7)})


def children_per_couple(tree: Tree) -> Counter[tuple[int, int]]:
    return Counter(person.parents for person in tree.persons if person.parents is not None)


def span(tree: Tree) -> int:
    levels = [person.level for person in tree.persons]
    return max(levels) - min(levels)


@given(seed=seeds, shape=shapes)
def test_tree_is_a_family_within_its_bounds(seed: int, shape: dict[str, int]) -> None:
    tree = grow(random.Random(seed), first_names(), **shape)
    families = children_per_couple(tree)
    assert 3 <= len(tree.persons) <= shape["size"] + 1
    assert len(tree.persons) == families.total() + len(tree.couples) + 1
    assert span(tree) <= shape["depth"]
    assert max(families.values()) <= shape["branching"]
    assert set(families) == set(tree.couples)
    form(tree)  # which no family has that falls apart


@given(seed=seeds, shape=shapes)
def test_everybody_is_placed_properly(seed: int, shape: dict[str, int]) -> None:
    tree = grow(random.Random(seed), first_names(), **shape)
    persons = tree.persons
    assert persons[0].level == 0
    assert len({person.name for person in persons}) == len(persons)
    for number, person in enumerate(persons):
        assert person.name in (first_names().female if person.female else first_names().male)
        if person.spouse is not None:
            assert persons[person.spouse].spouse == number
            assert persons[person.spouse].female != person.female
        if person.parents is not None:
            mother, father = person.parents
            assert persons[mother].female
            assert persons[mother].spouse == father
            # One parent is a level up; the other too, or on the child's own level, or a level further up.
            assert person.level - 1 in {persons[mother].level, persons[father].level}
            assert abs(persons[mother].level - persons[father].level) <= 1


@pytest.mark.parametrize(("depth", "branching"), [(1, 5), (2, 5), (4, 1), (4, 2), (4, 3), (4, 6), (6, 5)])
def test_depth_and_branching_are_reached(depth: int, branching: int) -> None:
    trees = [grow(random.Random(seed), first_names(), size=30, depth=depth, branching=branching) for seed in range(20)]
    assert max(span(tree) for tree in trees) == depth
    assert max(max(children_per_couple(tree).values()) for tree in trees) == branching


def test_growth_stops_where_no_step_is_possible() -> None:
    forest = [grow(random.Random(seed), first_names(), size=50, depth=1, branching=1) for seed in range(20)]
    # Two levels, one child a couple: a couple, its child, and the parents of one spouse.
    assert max(len(tree.persons) for tree in forest) == 5


def test_smaller_forest_is_a_prefix() -> None:
    forest = grow_forest(9, 12, size=20, depth=4, branching=3)
    assert grow_forest(9, 7, size=20, depth=4, branching=3) == forest[:7]


class OneSided(random.Random):
    """A stream in which free genders nearly always fall on the same side, to exhaust its names."""

    def __init__(self, seed: int, female: bool) -> None:
        super().__init__(seed)
        self.female = female

    def random(self) -> float:
        usual = super().random() < 0.95
        return 0.9 if usual == self.female else 0.1

    def getrandbits(self, k: int, /) -> int:
        return super().getrandbits(k)


@given(seed=seeds, female=st.booleans(), branching=st.integers(1, 60), depth=st.integers(1, 9))
def test_names_never_run_out_at_the_largest_size(seed: int, female: bool, branching: int, depth: int) -> None:
    size = largest_size(first_names(), branching)
    tree = grow(OneSided(seed, female), first_names(), size=size, depth=depth, branching=branching)
    assert len(tree.persons) <= size + 1


def test_largest_size_is_exact() -> None:
    # With one child a couple, n persons have (n - 1) / 2 couples: 100 persons may be 50 and 50, 101 may not.
    assert largest_size(first_names(), 1) == 99
    # With any number of children all but one person may share a gender.
    assert largest_size(first_names(), 1000) == 50
    assert largest_size(first_names(), 5) == 59


# Canonical forms, against a search for an actual isomorphism.


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
