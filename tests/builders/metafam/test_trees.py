"""Every tree is a proper family within its bounds, whatever the seed."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtbench.builders.metafam.trees import Tree, first_names, grow, grow_forest, largest_size

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


@given(seed=seeds)
def test_tree_is_connected(seed: int) -> None:
    tree = grow(random.Random(seed), first_names(), size=26, depth=5, branching=5)
    linked: dict[int, set[int]] = {number: set() for number in range(len(tree.persons))}
    for number, person in enumerate(tree.persons):
        for relative in (*(person.parents or ()), *(() if person.spouse is None else (person.spouse,))):
            linked[number].add(relative)
            linked[relative].add(number)
    reached, frontier = {0}, [0]
    while frontier:
        new = linked[frontier.pop()] - reached
        reached |= new
        frontier.extend(new)
    assert reached == set(range(len(tree.persons)))


@given(seed=seeds)
def test_release_parameters_give_26_or_27_persons(seed: int) -> None:
    forest = grow_forest(seed, 5, size=26, depth=5, branching=5)
    assert {len(tree.persons) for tree in forest} <= {26, 27}


@pytest.mark.parametrize("depth", [1, 2, 4, 6])
def test_depth_is_reached(depth: int) -> None:
    trees = [grow(random.Random(seed), first_names(), size=30, depth=depth, branching=5) for seed in range(20)]
    assert max(span(tree) for tree in trees) == depth


@pytest.mark.parametrize("branching", [1, 2, 3, 6])
def test_branching_is_reached(branching: int) -> None:
    trees = [grow(random.Random(seed), first_names(), size=30, depth=4, branching=branching) for seed in range(20)]
    assert max(max(children_per_couple(tree).values()) for tree in trees) == branching


def test_growth_stops_where_no_step_is_possible() -> None:
    forest = [grow(random.Random(seed), first_names(), size=50, depth=1, branching=1) for seed in range(20)]
    # Two levels, one child a couple: a couple, its child, and the parents of one spouse.
    assert max(len(tree.persons) for tree in forest) == 5


def test_same_seed_same_forest_other_seed_other_forest() -> None:
    grown = [grow_forest(seed, 10, size=26, depth=5, branching=5) for seed in (5, 5, 6)]
    assert grown[0] == grown[1] != grown[2]


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


def test_names_are_fifty_and_fifty_and_distinct() -> None:
    names = first_names()
    assert len(names.female) == len(names.male) == 50
    assert len({*names.female, *names.male}) == 100
