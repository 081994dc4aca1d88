"""The two masking rules: which triples of a family tree become the missing ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

from mtbench.builders.metafam.ontology import LocalTriple, Ontology
from mtbench.builders.metafam.trees import Tree
from mtbench.errors import UsageError

Rule: TypeAlias = Literal["mother/father", "son/daughter"]
NEEDED = ("motherOf", "fatherOf", "sonOf", "daughterOf", "sisterOf")


def check_maskable(ontology: Ontology, needed: Sequence[str] = NEEDED) -> None:
    """Raise `UsageError` when the ontology lacks a relation that the masking rules speak of."""
    if lacking := [name for name in needed if name not in ontology.indices]:
        raise UsageError(
            f"{ontology.path}: the ontology exports no {', '.join(lacking)}, which the masking rules need; "
            f'declare each as relation(INDEX, "{lacking[0]}", PATTERN). and derive its triples'
        )


def mask(rule: Rule, tree: Tree, triples: Collection[LocalTriple], ontology: Ontology) -> list[LocalTriple]:
    """Return the triples that the rule hides, relation by relation, heads in numeric order.

    The two rules ask for different predictive patterns, which is the multi-task conflict the dataset
    is about. ``mother/father``: of every couple's children who have a sister, the first loses both
    (mother, motherOf, child) and (father, fatherOf, child). ``son/daughter``: every child who has
    parents loses the sonOf or daughterOf triple to the first of the two. "First" compares the numbers
    of persons as decimal strings, as the published files do. Only triples the ontology derives are
    hidden, so that observable and missing ones together are its closure.

    Source: MetaFam (Zhou, Bevilacqua and Ribeiro, 2023, appendix on datasets).
    """
    closure = set(triples)
    if rule == "mother/father":
        order = [ontology.indices["motherOf"], ontology.indices["fatherOf"]]
        wanted = _links_to_sisters_siblings(tree, closure, ontology)
    else:
        order = [ontology.indices["sonOf"], ontology.indices["daughterOf"]]
        wanted = _links_from_children(tree, ontology)
    return sorted(wanted & closure, key=lambda triple: (order.index(triple[1]), triple[0], triple[2]))


def observable(triples: Collection[LocalTriple], masked: Collection[LocalTriple]) -> list[LocalTriple]:
    """Return the triples that stay visible, sorted as the strings ``head relation tail`` of their numbers."""
    return sorted(set(triples).difference(masked), key=lambda triple: " ".join(map(str, triple)))


def _first(numbers: Sequence[int]) -> int:
    return min(numbers, key=str)


def _links_to_sisters_siblings(tree: Tree, closure: set[LocalTriple], ontology: Ontology) -> set[LocalTriple]:
    sister = ontology.indices["sisterOf"]
    with_sister = {tail for _, relation, tail in closure if relation == sister}
    children: dict[tuple[int, int], list[int]] = {}
    for number, person in enumerate(tree.persons):
        if person.parents is not None and number in with_sister:
            children.setdefault(person.parents, []).append(number)
    wanted: set[LocalTriple] = set()
    for (mother, father), candidates in children.items():
        child = _first(candidates)
        wanted.add((mother, ontology.indices["motherOf"], child))
        wanted.add((father, ontology.indices["fatherOf"], child))
    return wanted


def _links_from_children(tree: Tree, ontology: Ontology) -> set[LocalTriple]:
    relations = {True: ontology.indices["daughterOf"], False: ontology.indices["sonOf"]}
    return {
        (number, relations[person.female], _first(person.parents))
        for number, person in enumerate(tree.persons)
        if person.parents is not None
    }
