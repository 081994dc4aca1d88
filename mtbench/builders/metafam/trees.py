"""Random family trees from one stream of random numbers, no two of them isomorphic: their canonical forms tell."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from mtbench.errors import UsageError

CHILD, SPOUSE = "c", "s"


def canonical_form(parents: Sequence[tuple[int, int] | None], couples: Sequence[tuple[int, int]]) -> str:
    """Return a text that two family trees share exactly when they are isomorphic.

    Isomorphic means as directed graphs of child -> parent and spouse <-> spouse edges, names and
    genders aside. ``parents[i]`` is the couple that person i descends from, in either order, or None;
    ``couples`` are the married pairs. A set of these texts replaces pairwise graph matching.

    Why it is exact: only spouses are joined both ways, and a child points at both members of one
    couple, so the directed graph and the graph of persons joined to the couples they belong to or
    descend from determine one another. The latter has a vertex per person and couple and an edge per
    child and spouse, in a family grown person by person one edge fewer than vertices, so it is a tree,
    and trees have canonical forms (Aho, Hopcroft and Ullman, 1974, section 3.2): the nested sorted
    list of subtrees, seen from the centre.

    Raises `ValueError` when the family is not such a tree.
    """
    neighbours = _person_couple_graph(parents, couples)
    return _encode(neighbours, _centre(neighbours), None, len(parents))


def _person_couple_graph(
    parents: Sequence[tuple[int, int] | None], couples: Sequence[tuple[int, int]]
) -> list[list[tuple[int, str]]]:
    persons = len(parents)
    neighbours: list[list[tuple[int, str]]] = [[] for _ in range(persons + len(couples))]
    couple_of = {frozenset(couple): persons + number for number, couple in enumerate(couples)}
    links = [(person, couple, SPOUSE) for pair, couple in couple_of.items() for person in pair]
    links += [(child, couple_of[frozenset(pair)], CHILD) for child, pair in enumerate(parents) if pair is not None]
    for person, couple, kind in links:
        neighbours[person].append((couple, kind))
        neighbours[couple].append((person, kind))
    return neighbours


def _centre(neighbours: Sequence[Sequence[tuple[int, str]]]) -> int:
    """Strip leaves until one or two vertices remain; of two, one is a couple, which has the larger number."""
    degrees = [len(around) for around in neighbours]
    if sum(degrees) != 2 * (len(neighbours) - 1):
        raise ValueError("the family is not a tree of persons and couples")
    left = len(neighbours)
    leaves = [vertex for vertex, degree in enumerate(degrees) if degree <= 1]
    while left > 2:
        if not leaves:
            raise ValueError("the family is not a tree of persons and couples")
        left -= len(leaves)
        inner: list[int] = []
        for leaf in leaves:
            degrees[leaf] = 0
            for vertex, _ in neighbours[leaf]:
                degrees[vertex] -= 1
                if degrees[vertex] == 1:
                    inner.append(vertex)
        leaves = inner
    return max(leaves)


def _encode(neighbours: Sequence[Sequence[tuple[int, str]]], vertex: int, source: int | None, persons: int) -> str:
    branches = sorted(
        kind + _encode(neighbours, other, vertex, persons) for other, kind in neighbours[vertex] if other != source
    )
    return ("p" if vertex < persons else "m") + "(" + "".join(branches) + ")"


STEPS_PER_PERSON = 10
PATIENCE = 1000
"""How many trees in a row may repeat an earlier one before the search for another is given up."""


@dataclass(frozen=True)
class FirstNames:
    """First names by gender, in the order in which random draws index them."""

    female: tuple[str, ...]
    male: tuple[str, ...]


@dataclass(frozen=True)
class Person:
    """One person; people are numbered by their position in the tree, in order of creation.

    ``level`` counts generations downwards from the first person, who is on level 0. A spouse who was
    made so that a child could be is on the child's level, as in the published generator.
    ``parents`` holds the mother first, then the father; ``spouse`` is the one partner.
    """

    name: str
    female: bool
    level: int
    parents: tuple[int, int] | None
    spouse: int | None


@dataclass(frozen=True)
class Tree:
    """A family tree: connected, everybody with two parents or none and with at most one spouse."""

    persons: tuple[Person, ...]

    @property
    def couples(self) -> tuple[tuple[int, int], ...]:
        """The married pairs, wife first, in order of the wives' numbers."""
        return tuple(
            (number, person.spouse)
            for number, person in enumerate(self.persons)
            if person.female and person.spouse is not None
        )


@cache
def first_names() -> FirstNames:
    """Return the first names that ship with the package, 50 for each gender."""
    text = (resources.files("mtbench.builders.metafam") / "names.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    return FirstNames(female=tuple(table["female"]), male=tuple(table["male"]))


def largest_size(names: FirstNames, branching: int) -> int:
    """Return the largest ``size`` for which no tree can run out of first names, whatever is drawn.

    A tree of n persons has at least (n - 1) / (branching + 1) couples, because everybody but one is a
    spouse or one of at most ``branching`` children of a couple; each couple has one person of either
    gender, so the other persons and half of the couples are the most that share a gender. A tree may
    outgrow ``size`` by one, as parents come in pairs.
    """
    available = min(len(names.female), len(names.male))
    size = available
    while size + 1 + 1 - -(-(size + 1) // (branching + 1)) <= available:
        size += 1
    return size


def grow_forest(seed: int, count: int, *, size: int, depth: int, branching: int) -> list[Tree]:
    """Return ``count`` trees, no two of them isomorphic, all drawn from the stream ``Random(seed)``.

    Training on a tree and testing on a copy of it would measure memory, so a tree that repeats the
    shape of an earlier one is dropped and the next is drawn. ``size`` is the number of persons at
    which a tree stops growing, ``depth`` the largest difference between levels, ``branching`` the
    most children a couple has. Only ``random``, ``randrange`` and ``choice`` of `random.Random` are
    used: what they return for a seed is the same on every platform and has been since Python 3.2.

    Raises `UsageError` when so many trees in a row repeat earlier ones that there are too few shapes.
    Source: the generator of MetaFam (Zhou, Bevilacqua and Ribeiro, 2023, appendix on datasets), which
    follows Hohenecker and Lukasiewicz (2020).
    """
    rng = random.Random(seed)
    names = first_names()
    trees: list[Tree] = []
    shapes: set[str] = set()
    repeats = 0
    while len(trees) < count:
        tree = grow(rng, names, size=size, depth=depth, branching=branching)
        shape = canonical_form([person.parents for person in tree.persons], tree.couples)
        if shape not in shapes:
            shapes.add(shape)
            trees.append(tree)
            repeats = 0
            continue
        repeats += 1
        if repeats == PATIENCE:
            raise UsageError(
                f"found only {len(trees)} of {count} family trees of different shape with size={size}, "
                f"depth={depth}, branching={branching}: {PATIENCE} trees in a row repeated earlier ones; "
                "ask for fewer trees or allow a larger size, depth or branching"
            )
    return trees


def grow(rng: random.Random, names: FirstNames, *, size: int, depth: int, branching: int) -> Tree:
    """Return one random tree that stops at ``size`` persons, or one more, or after ``10 * size`` steps.

    Each step picks a person and gives them parents or a child, whichever is possible. The order of
    the draws is what makes a seed give the released trees: change it and every build changes.
    """
    unused = {True: list(names.female), False: list(names.male)}
    persons: list[Person] = []
    children: list[list[int]] = []  # by person; the two of a couple share one list

    def add(female: bool, level: int, parents: tuple[int, int] | None = None) -> int:
        name = unused[female].pop(rng.randrange(len(unused[female])))
        persons.append(Person(name, female, level, parents, None))
        children.append([])
        return len(persons) - 1

    def marry(one: int, other: int, offspring: list[int]) -> None:
        persons[one], persons[other] = replace(persons[one], spouse=other), replace(persons[other], spouse=one)
        children[one] = children[other] = offspring

    add(rng.random() > 0.5, 0)
    for _ in range(STEPS_PER_PERSON * size):
        if len(persons) >= size:
            break
        number = rng.choice(range(len(persons)))
        person = persons[number]
        lowest, highest = min(one.level for one in persons), max(one.level for one in persons)
        room = highest - lowest < depth
        may_get_parents = person.parents is None and (person.level > lowest or room)
        may_get_child = len(children[number]) < branching and (person.level < highest or room)
        if may_get_parents and may_get_child:
            may_get_child = not rng.random() > 0.5
        if may_get_child:
            spouse = person.spouse
            if spouse is None:
                spouse = add(not person.female, person.level + 1)
                marry(number, spouse, [])
            parents = (number, spouse) if person.female else (spouse, number)
            children[number].append(add(rng.random() > 0.5, person.level + 1, parents))
        elif may_get_parents:
            mother, father = add(True, person.level - 1), add(False, person.level - 1)
            marry(mother, father, [number])
            persons[number] = replace(persons[number], parents=(mother, father))
    return Tree(tuple(persons))
