"""MetaFam rebuilt from a seed and an ontology: as published, and as the paper means it (the strict variant)."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

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


Named: TypeAlias = tuple[list[NamedTriple], list[NamedTriple]]
Halves: TypeAlias = tuple[list[LocalTriple], list[LocalTriple]]
Hide: TypeAlias = Callable[[Rule, Tree, Collection[LocalTriple], Ontology], Halves]
"""From a rule, a tree, its closure and the ontology to the observable and the hidden triples."""


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
    for option, least in LEAST.items():
        if int(parameters[option]) < least:
            raise UsageError(f"{option} must be a whole number of at least {least}, not {parameters[option]}")
    seed, train_trees, test_trees, size, depth, branching = (int(parameters[option]) for option in LEAST)
    if size > (largest := largest_size(first_names(), branching)):
        raise UsageError(
            f"size must be between 2 and {largest} when branching={branching}, not {size}: a larger tree could run "
            "out of first names"
        )
    program = read_ontology(str(parameters["ontology"]))
    check_maskable(program)
    if parameters["ontology"]:
        parameters = {**parameters, "ontology_sha256": _expected_hash(parameters, program.path)}
    forest = grow_forest(seed, train_trees + test_trees, size=size, depth=depth, branching=branching)
    name, half = variant_name(record.id, parameters, record.parameters), (train_trees + 1) // 2
    rows: dict[str, Named] = {"valid": ([], []), "test": ([], [])}
    first = 0
    for number, tree in enumerate(forest):
        split = "valid" if number < train_trees else "test"
        rule: Rule = "son/daughter" if half <= number < train_trees else "mother/father"
        entities = [f"{person.name}{first + place}" for place, person in enumerate(tree.persons)]
        # In the order of the published files: tree after tree.
        for part, triples in zip(rows[split], hide(rule, tree, derive(program, tree), program), strict=True):
            part += [
                (entities[head], program.relations[relation].name, entities[tail]) for head, relation, tail in triples
            ]
        first += len(tree.persons)
    for split, (_, masked) in rows.items():
        if not masked:
            raise UsageError(
                f"{name}: the masking rules hide no triple of the {split} split; ask for more trees or a larger size"
            )
    valid, unseen = (from_named(name, "test", *rows[split], program.slots, program.tasks) for split in rows)
    return together(record, name, valid, unseen, parameters)


def _expected_hash(parameters: Mapping[str, Parameter], file: Path) -> str:
    """Return the SHA-256 of the ontology's file, if it is the one that was meant."""
    found = file_hash(file)
    if parameters["ontology_sha256"] not in ("", found):
        raise UsageError(
            f"{file} has the SHA-256 {found}, not {parameters['ontology_sha256']}: it is another file than meant"
        )
    return found


def split_closure(rule: Rule, tree: Tree, closure: Collection[LocalTriple], program: Ontology) -> Halves:
    """Return the observable and the hidden triples of a tree, together its closure, as the release has them."""
    masked = mask(rule, tree, closure, program)
    return observable(closure, masked), masked


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


def split_strictly(rule: Rule, tree: Tree, closure: Collection[LocalTriple], program: Ontology) -> Halves:
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
    named = ontology.indices
    wanted: set[LocalTriple] = set()
    if rule == "mother/father":
        order = [named["motherOf"], named["fatherOf"]]
        with_sister = {tail for _, relation, tail in triples if relation == named["sisterOf"]}
        children: dict[tuple[int, int], list[int]] = {}
        for number, person in enumerate(tree.persons):
            if person.parents is not None and number in with_sister:
                children.setdefault(person.parents, []).append(number)
        for parents, candidates in children.items():
            wanted |= {
                (parent, relation, min(candidates, key=str)) for parent, relation in zip(parents, order, strict=True)
            }
    else:
        order = [named["sonOf"], named["daughterOf"]]
        for number, person in enumerate(tree.persons):
            if person.parents is not None:
                wanted.add((number, order[person.female], min(person.parents, key=str)))
    return sorted(wanted & set(triples), key=lambda triple: (order.index(triple[1]), triple[0], triple[2]))


def observable(triples: Collection[LocalTriple], masked: Collection[LocalTriple]) -> list[LocalTriple]:
    """Return the triples that stay visible, sorted as the strings ``head relation tail`` of their numbers."""
    return sorted(set(triples).difference(masked), key=lambda triple: " ".join(map(str, triple)))
