"""The family ontology: an answer-set program that says which relations hold in a family tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mtbench.builders.metafam.trees import Tree
from mtbench.errors import UsageError

if TYPE_CHECKING:
    from clingo import Control, Symbol

LocalTriple: TypeAlias = tuple[int, int, int]
"""Head, relation, tail: persons by their number in the tree, the relation by its index in the ontology."""

PACKAGED = Path(__file__).with_name("family.lp")
_CONTRACT = f"{PACKAGED.name} of the package states what an ontology file must hold"


@dataclass(frozen=True)
class Relation:
    """An exported relation: its name and the predictive pattern it shares with others, its task."""

    name: str
    pattern: str


@dataclass(frozen=True)
class Ontology:
    """An answer-set program and what it declares: exported relations by index, and the number of slots."""

    path: Path
    relations: Mapping[int, Relation]
    slots: int

    @cached_property
    def indices(self) -> Mapping[str, int]:
        """The index of each exported relation, by name."""
        return {relation.name: index for index, relation in self.relations.items()}

    @cached_property
    def tasks(self) -> Mapping[str, str]:
        """The ground-truth task of each exported relation: the name of its predictive pattern."""
        return {relation.name: relation.pattern for relation in self.relations.values()}


def read_ontology(path: str = "") -> Ontology:
    """Return the ontology of a file, or the family ontology of the release when ``path`` is empty.

    The program is the whole definition of a synthetic benchmark: relation names, their order, the
    tasks behind them and the rules that derive them. Its contract stands at the top of ``family.lp``.

    Raises `UsageError` when the file is missing, when clingo cannot read it (with clingo's message
    and line), and when it does not declare its relations as facts numbered from 0 without a gap.
    """
    file = Path(path) if path else PACKAGED
    if not file.is_file():
        raise UsageError(f"there is no ontology file {path!r}; leave the option empty for the family ontology")
    control = ground(file, "")
    declared = [_declaration(file, arguments) for arguments in facts(control, "relation", 3)]
    if not declared:
        raise UsageError(
            f'{file}: no fact relation(INDEX, "name", PATTERN). declares an exported relation; {_CONTRACT}'
        )
    reserved = [_declaration(file, arguments) for arguments in facts(control, "reserved", 2)]
    indices = sorted(index for index, _ in (*declared, *reserved))
    if indices != list(range(len(indices))):
        raise UsageError(
            f"{file}: relations and reserved indices must be numbered 0 to {len(indices) - 1}, each once, "
            f"not {', '.join(map(str, indices))}"
        )
    names = sorted(relation.name for _, relation in (*declared, *reserved))
    if twice := sorted({name for name, other in pairwise(names) if name == other}):
        raise UsageError(f"{file}: relation names declared more than once: {', '.join(twice)}")
    return Ontology(path=file, relations=dict(sorted(declared, key=lambda item: item[0])), slots=len(indices))


def derive(ontology: Ontology, tree: Tree) -> list[LocalTriple]:
    """Return every triple the ontology derives for a tree, sorted: its deductive closure.

    Raises `UsageError` when clingo cannot ground the program for this tree, when it has no answer set
    or several (the dataset would depend on the solver's choice), and when a triple names no person or
    no exported relation.
    """
    control = ground(ontology.path, _tree_facts(tree))
    with control.solve(yield_=True) as answers:
        models = iter(answers)
        model = next(models, None)
        if model is None:
            raise UsageError(
                f"{ontology.path}: the program has no answer set for a tree of {len(tree.persons)} persons"
            )
        derived = [symbol.arguments for symbol in model.symbols(atoms=True) if symbol.name == "triple"]
        if next(models, None) is not None:
            raise UsageError(
                f"{ontology.path}: the program has several answer sets for one tree and leaves open which is meant; "
                "remove its choice rules, disjunctions and loops through negation"
            )
    return sorted(_triple(ontology, tree, arguments) for arguments in derived)


def _tree_facts(tree: Tree) -> str:
    facts: list[str] = []
    for number, person in enumerate(tree.persons):
        facts.append(f"person({number}). {'female' if person.female else 'male'}({number}).")
        facts.extend(f"parent({parent}, {number})." for parent in person.parents or ())
        if person.spouse is not None:
            facts.append(f"married({number}, {person.spouse}).")
    return "\n".join(facts)


def ground(file: Path, facts: str) -> Control:
    """Return a program grounded with some facts; raises `UsageError`, with clingo's message, if it cannot be read."""
    # Imported here because the solver's library is slow to load and only a build needs it.
    from clingo import Control

    messages: list[str] = []
    # Two models tell one answer set from several.
    control = Control(["--models=2"], lambda _, message: messages.append(message.strip()))
    try:
        control.load(str(file))
        control.add("base", [], facts)
        control.ground([("base", [])])
    except RuntimeError as error:
        raise UsageError(f"clingo cannot read {file}:\n" + "\n".join([*messages, str(error)])) from error
    return control


def facts(control: Control, name: str, arity: int) -> list[Sequence[Symbol]]:
    """Return the arguments of the facts of a name in a grounded program."""
    return [
        atom.symbol.arguments
        for atom in control.symbolic_atoms.by_signature(name, arity)
        if atom.is_fact and atom.symbol.positive
    ]


def _declaration(file: Path, arguments: Sequence[Symbol]) -> tuple[int, Relation]:
    from clingo import SymbolType

    index, name, *pattern = arguments
    if index.type != SymbolType.Number or name.type != SymbolType.String:
        shown = ", ".join(map(str, arguments))
        raise UsageError(f'{file}: expected a number and a name in quotes, as in 1, "sisterOf", not: {shown}')
    return index.number, Relation(name.string, str(pattern[0]) if pattern else "")


def _triple(ontology: Ontology, tree: Tree, arguments: Sequence[Symbol]) -> LocalTriple:
    try:
        head, relation, tail = (argument.number for argument in arguments)
    except (RuntimeError, ValueError):
        head, relation, tail = -1, -1, -1
    persons = range(len(tree.persons))
    if head not in persons or tail not in persons or relation not in ontology.relations:
        raise UsageError(
            f"{ontology.path}: triple({', '.join(map(str, arguments))}) must join two persons by the index of an "
            "exported relation"
        )
    return head, relation, tail
