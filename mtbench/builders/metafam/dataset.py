"""MetaFam rebuilt from a seed and an ontology: as published, and as the paper means it (the strict variant)."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import numpy as np

from mtbench.builders.metafam.ontology import LocalTriple, Ontology, derive, read_ontology
from mtbench.builders.metafam.trees import Tree, first_names, grow_forest, largest_size
from mtbench.data.catalog import Parameter, Record
from mtbench.data.splits import Dataset, NamedTriple, Split, from_named, together
from mtbench.errors import UsageError
from mtbench.files.hashing import file_hash
from mtbench.names import RELATION

Rule: TypeAlias = Literal["mother/father", "son/daughter"]
NEEDED = ("motherOf", "fatherOf", "sonOf", "daughterOf", "sisterOf")
"""The relations that the masking rules speak of."""

LEAST = {"seed": 0, "train_trees": 1, "test_trees": 1, "size": 2, "depth": 1, "branching": 1}
"""The options that are whole numbers, and the least each can be."""


class Hide(Protocol):
    """A function that splits the closure of a tree into observable and hidden triples by one of the rules."""

    def __call__(
        self, rule: Rule, tree: Tree, closure: Collection[LocalTriple], program: Ontology, /
    ) -> tuple[list[LocalTriple], list[LocalTriple]]: ...


def build(record: Record, parameters: Mapping[str, Parameter]) -> Dataset:
    """Build MetaFam, or a variant of it, from a seed: no file is read but the ontology.

    With its defaults this gives the four released files row by row; any other seed gives a fresh test
    set that no model has been tuned on, and another ontology gives another synthetic benchmark. Of the
    training trees the first half, the odd one included, is masked by the mother/father rule and the
    rest by the son/daughter rule; the test trees all by the mother/father rule.

    ``seed`` starts the one stream of random numbers; ``train_trees`` and ``test_trees`` count family
    trees; ``size`` is the number of persons at which a tree stops growing (it may get one more),
    ``depth`` the largest difference between levels, ``branching`` the most children of a couple;
    ``ontology`` is the path of an answer-set program, empty for the family ontology, and ``ontology_sha256`` the hash
    of that file, which is recorded and, where it is given, checked.

    Raises `UsageError` when an option has no such value, when there are not enough different trees of
    that shape, when the ontology cannot be used, and when the masking rules find nothing to hide.
    Source: Zhou, Bevilacqua and Ribeiro (2023), appendix on datasets, which follows Hohenecker and
    Lukasiewicz, Ontology Reasoning with Deep Neural Networks (JAIR 68, 2020).
    """
    return assemble(record, parameters, split_closure)


def assemble(record: Record, parameters: Mapping[str, Parameter], hide: Hide) -> Dataset:
    """Grow the forest, hide triples of each tree and return the dataset; ``hide`` is what variants differ in."""
    _check(parameters)
    seed, train_trees, test_trees, size, depth, branching = (int(parameters[option]) for option in LEAST)
    _check_size(size, branching)
    program = read_ontology(str(parameters["ontology"]))
    check_maskable(program)
    parameters = {**parameters, "ontology_sha256": _hash(parameters, program)}
    forest = grow_forest(seed, train_trees + test_trees, size=size, depth=depth, branching=branching)
    half = (train_trees + 1) // 2
    rules: list[Rule] = ["mother/father" if number < half else "son/daughter" for number in range(train_trees)]
    train = _rows(forest[:train_trees], rules, program, hide, first_number=0)
    test = _rows(
        forest[train_trees:],
        ["mother/father"] * test_trees,
        program,
        hide,
        first_number=sum(len(tree.persons) for tree in forest[:train_trees]),
    )
    name = variant_name(record.id, parameters, record.parameters)
    for split, (_, masked) in (("valid", train), ("test", test)):
        if not masked:
            raise UsageError(
                f"{name}: the masking rules hide no triple of the {split} split; ask for more trees or a larger size"
            )
    valid, unseen = (from_named(name, "test", *rows, program.slots, program.tasks) for rows in (train, test))
    return together(record, name, valid, unseen, parameters)


def split_closure(
    rule: Rule, tree: Tree, closure: Collection[LocalTriple], program: Ontology
) -> tuple[list[LocalTriple], list[LocalTriple]]:
    """Return the observable and the hidden triples of a tree, together its closure, as the release has them."""
    masked = mask(rule, tree, closure, program)
    return observable(closure, masked), masked


def _check(parameters: Mapping[str, Parameter]) -> None:
    for option, least in LEAST.items():
        if int(parameters[option]) < least:
            raise UsageError(f"{option} must be a whole number of at least {least}, not {parameters[option]}")


def _hash(parameters: Mapping[str, Parameter], program: Ontology) -> str:
    """Return the SHA-256 of the ontology's file, empty for the family ontology."""
    if not parameters["ontology"]:
        return ""
    found = file_hash(program.path)
    if parameters["ontology_sha256"] not in ("", found):
        raise UsageError(
            f"{program.path} has the SHA-256 {found}, not {parameters['ontology_sha256']}: "
            "it is another file than meant"
        )
    return found


def _check_size(size: int, branching: int) -> None:
    largest = largest_size(first_names(), branching)
    if size > largest:
        raise UsageError(
            f"size must be between 2 and {largest} when branching={branching}, not {size}: a larger tree could run "
            "out of first names"
        )


def _rows(
    trees: Sequence[Tree], rules: Sequence[Rule], program: Ontology, hide: Hide, first_number: int
) -> tuple[list[NamedTriple], list[NamedTriple]]:
    """Return the observable and the hidden triples of trees by name, in the order of the published files."""
    observable_rows: list[NamedTriple] = []
    masked_rows: list[NamedTriple] = []
    for tree, rule in zip(trees, rules, strict=True):
        entities = [f"{person.name}{first_number + number}" for number, person in enumerate(tree.persons)]
        visible, masked = hide(rule, tree, derive(program, tree), program)
        observable_rows.extend(_named(visible, entities, program))
        masked_rows.extend(_named(masked, entities, program))
        first_number += len(tree.persons)
    return observable_rows, masked_rows


def _named(triples: Sequence[LocalTriple], entities: Sequence[str], program: Ontology) -> list[NamedTriple]:
    return [(entities[head], program.relations[relation].name, entities[tail]) for head, relation, tail in triples]


def variant_name(dataset: str, parameters: Mapping[str, Parameter], released: Mapping[str, Parameter]) -> str:
    """Return the name of a build: the dataset's, and in brackets the parameters that differ from the release's."""
    changed = {key: value for key, value in parameters.items() if value != released[key]}
    if "ontology" in changed:
        changed["ontology"] = Path(str(changed["ontology"])).name
        changed.pop("ontology_sha256", None)
    options = ",".join(f"{key}={value}" for key, value in changed.items())
    return f"{dataset}[{options}]" if options else dataset


SIBLINGS = ("sisterOf", "brotherOf")
CHILDREN = ("sonOf", "daughterOf")


def build_strict(record: Record, parameters: Mapping[str, Parameter]) -> Dataset:
    """Build the corrected MetaFam from a seed: the trees of ``metafam`` with the same parameters, masked anew.

    In the release the inverse of every target is observable and one of the two patterns is absent, so it
    cannot tell whether a model copes with both. Here, in the mother/father half and in test, a target
    (mother, motherOf, child) is recovered by motherOf + sisterOf through a sister whose parents' links
    stay; in the son/daughter half a target (child, sonOf, parent) by brotherOf + sonOf through a brother
    whose links stay, daughters likewise by sisters. No triple from a target's tail to its head is
    observable, or a target. Test relations are called ``relation00`` and on, numbered by a seeded
    permutation; ``tasks`` of each split keeps the ground truth.

    The parameters are those of `mtbench.builders.metafam.dataset.build`, and the same errors are raised. Source:
    Zhou, Bevilacqua and Ribeiro (2023), figure of the conflicting patterns and appendix on datasets.
    """
    data = assemble(record, parameters, split_strictly)
    return replace(data, test=rename_relations(data.test, int(parameters["seed"])))


def split_strictly(
    rule: Rule, tree: Tree, closure: Collection[LocalTriple], program: Ontology
) -> tuple[list[LocalTriple], list[LocalTriple]]:
    """Return the observable and the hidden triples of a tree; those from tail to head of a hidden one are neither."""
    if rule == "mother/father":
        masked = mask(rule, tree, closure, program)
    else:
        check_maskable(program, SIBLINGS)
        masked = _links_of_children(tree, closure, program)
    backwards = {(tail, head) for head, _, tail in masked}
    kept = [triple for triple in closure if (triple[0], triple[2]) not in backwards]
    return observable(kept, masked), masked


def _links_of_children(tree: Tree, closure: Collection[LocalTriple], program: Ontology) -> list[LocalTriple]:
    """Of each couple's children with a sibling of their own gender, the first loses both links to its parents."""
    siblings = [program.indices[name] for name in SIBLINGS]
    alike = {
        head
        for head, relation, tail in closure
        if relation in siblings
        and tree.persons[head].female == tree.persons[tail].female
        and tree.persons[head].parents == tree.persons[tail].parents
    }
    first: dict[tuple[int, int], int] = {}
    # "First" compares decimal strings, as the rules of the release do.
    for number in sorted(alike, key=str):
        parents = tree.persons[number].parents
        if parents is not None:
            first.setdefault(parents, number)
    order = [program.indices[name] for name in CHILDREN]
    wanted = {(child, relation, parent) for parents, child in first.items() for parent in parents for relation in order}
    return sorted(wanted.intersection(closure), key=lambda triple: (order.index(triple[1]), triple[0], triple[2]))


def shuffled(rng: random.Random, items: Sequence[int]) -> list[int]:
    """Return the items in a drawn order, by `randrange` alone, which no version of Python changes."""
    found = list(items)
    for last in range(len(found) - 1, 0, -1):
        other = rng.randrange(last + 1)
        found[last], found[other] = found[other], found[last]
    return found


def rename_relations(split: Split, seed: int) -> Split:
    """Return the split with its relation types renamed to ``relation00`` and on, in an order drawn from ``seed``.

    A model that remembers names, or the place of a name in the sorted vocabulary, gains nothing from them.
    """
    numbers = shuffled(random.Random(f"{seed} relation names"), range(split.num_relations))
    width = max(2, len(str(len(numbers) - 1)))
    new = np.array(numbers, dtype=np.int64)
    names = np.array([f"relation{number:0{width}d}" for number in range(len(numbers))], dtype=np.str_)
    graph, targets = split.graph.copy(), split.targets.copy()
    graph[:, RELATION], targets[:, RELATION] = new[graph[:, RELATION]], new[targets[:, RELATION]]
    tasks = {
        str(names[new[number]]): split.tasks[name]
        for number, name in enumerate(split.relations.tolist())
        if name in split.tasks
    }
    return replace(split, graph=graph, targets=targets, relations=names, tasks=dict(sorted(tasks.items())))


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
