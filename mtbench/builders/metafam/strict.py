"""MetaFam as the paper means it: two patterns that conflict, no inverse to look up, new relation names in test."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from mtbench.builders.metafam.dataset import assemble
from mtbench.builders.metafam.masking import Rule, check_maskable, mask, observable
from mtbench.builders.metafam.ontology import LocalTriple, Ontology
from mtbench.builders.metafam.trees import Tree
from mtbench.data import catalog
from mtbench.data.splits import Dataset, Split
from mtbench.names import RELATION

SIBLINGS = ("sisterOf", "brotherOf")
CHILDREN = ("sonOf", "daughterOf")


def build(
    *,
    seed: int = 88564,
    train_trees: int = 50,
    test_trees: int = 25,
    size: int = 26,
    depth: int = 5,
    branching: int = 5,
    ontology: str = "",
    ontology_sha256: str = "",
) -> Dataset:
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
    parameters: dict[str, catalog.Parameter] = {
        "seed": seed,
        "train_trees": train_trees,
        "test_trees": test_trees,
        "size": size,
        "depth": depth,
        "branching": branching,
        "ontology": ontology,
        "ontology_sha256": ontology_sha256,
    }
    data = assemble(catalog.record("metafam-strict"), parameters, split_strictly)
    return replace(data, test=rename_relations(data.test, seed))


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


def rename_relations(split: Split, seed: int) -> Split:
    """Return the split with its relation types renamed to ``relation00`` and on, in an order drawn from ``seed``.

    A model that remembers names, or the place of a name in the sorted vocabulary, gains nothing from them.
    """
    rng = random.Random(f"{seed} relation names")
    numbers = list(range(split.num_relations))
    for last in range(len(numbers) - 1, 0, -1):
        # random.shuffle is not promised to stay the same between versions of Python; randrange is.
        other = rng.randrange(last + 1)
        numbers[last], numbers[other] = numbers[other], numbers[last]
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
