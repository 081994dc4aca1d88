"""Canonical forms of family trees: equal exactly when two trees are isomorphic."""

from __future__ import annotations

from collections.abc import Sequence

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
