"""MetaFam, hard: what a pattern means depends on the task of its relation.

No statistic of a single triple shows the task.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from mtbench.builders.metafam.dataset import rename_relations, shuffled, variant_name
from mtbench.builders.metafam.ontology import LocalTriple, facts, ground
from mtbench.builders.metafam.trees import first_names
from mtbench.data.catalog import Parameter, Record
from mtbench.data.splits import Dataset, NamedTriple, from_named, together
from mtbench.errors import UsageError

End: TypeAlias = Literal["tail", "head"]
ENDS: tuple[End, ...] = ("tail", "head")
RULES = Path(__file__).with_name("echo.lp")
LEAST = {"seed": 0, "train_persons": 24, "test_persons": 24, "bonds": 1, "loud": 1, "quiet": 1, "targets": 1}
"""The options, all whole numbers, and the least each can be."""

MARKED = 6
"""Words show that they belong together by agreeing on one in so many persons."""


@dataclass(frozen=True)
class Pair:
    """Two words of which each echoes the other: their numbers, the bond and the end of the reading."""

    words: tuple[int, int]
    bond: int
    end: End
    quiet: bool


@dataclass(frozen=True)
class World:
    """Persons: x is bound to ``bonds[k][x]`` by bond k, and calls ``calls[w][x]`` by word w."""

    bonds: Sequence[Sequence[int]]
    calls: Sequence[Sequence[int]]
    pairs: Sequence[Pair]


def build(record: Record, parameters: Mapping[str, Parameter]) -> Dataset:
    """Build the hard MetaFam from a seed: both readings of a pattern occur, and only the task of a word tells which.

    Everybody calls one person by each word and is called so by one, so that no degree, half-link or type differs.
    A word and its echo are a pair, and a pair has a task: a bond and an end. With the end ``tail``, whom h calls u,
    the person bound to them h calls v; with ``head`` the person bound to h calls them v. The echoes of a *loud*
    pair are observable. Of a *quiet* pair none is: some of them are the targets, the others are neither observable
    nor a target, and what is observable of both words is drawn without it. One of them agrees with a loud word of
    their task on a sixth of the persons, the other with it on another sixth; no target comes from there.
    Test relations are called ``relation00`` and on, numbered by a seeded permutation; ``tasks`` keeps the truth.

    ``train_persons`` and ``test_persons`` are the sizes of the two worlds; ``bonds`` times the two ends are the
    tasks; ``loud`` and ``quiet`` count the pairs of each task; ``targets`` the missing triples of each quiet word.

    Raises `UsageError` when an option has no such value, or when a word has not so many triples to hide.
    """
    options = {option: int(parameters[option]) for option in LEAST}
    for option, least in LEAST.items():
        if options[option] < least:
            raise UsageError(f"{option} must be a whole number of at least {least}, not {options[option]}")
        if option.endswith("persons") and options[option] % 2:
            raise UsageError(f"{option} must be even, as everybody is bound to somebody, not {options[option]}")
    name = variant_name(record.id, parameters, record.parameters)
    rng = random.Random(options["seed"])
    splits, first = [], 0
    for persons in (options["train_persons"], options["test_persons"]):
        world = grow(rng, persons, options["bonds"], options["loud"], options["quiet"])
        graph, targets = _rows(world, rng, options["targets"], first)
        splits.append(from_named(name, "test", graph, targets, len(world.bonds) + len(world.calls), _tasks(world)))
        first += persons
    return together(record, name, splits[0], rename_relations(splits[1], options["seed"]), parameters)


def grow(rng: random.Random, persons: int, bonds: int, loud: int, quiet: int) -> World:
    """Return a world whose bonds and words are drawn from ``rng``; for the parameters see `build`."""
    bound = [_matching(rng, persons) for _ in range(bonds)]
    calls: list[Sequence[int]] = []
    pairs: list[Pair] = []

    for bond, mates in enumerate(bound):
        for end in ENDS:
            begun = len(calls)
            for number in range(loud + quiet):
                if number < loud:
                    one = shuffled(rng, range(persons))
                    other = _echo(one, mates, end)
                else:
                    marked = shuffled(rng, range(persons))
                    cut = persons // MARKED
                    one = _agreeing(rng, calls[begun + rng.randrange(2 * loud)], marked[:cut])
                    other = _agreeing(rng, one, marked[cut : 2 * cut])
                pairs.append(Pair((len(calls), len(calls) + 1), bond, end, quiet=number >= loud))
                calls += [one, other]
    return World(bound, calls, pairs)


def _matching(rng: random.Random, persons: int) -> list[int]:
    order, mates = shuffled(rng, range(persons)), [0] * persons
    for one, other in zip(order[::2], order[1::2], strict=True):
        mates[one], mates[other] = other, one
    return mates


def _echo(word: Sequence[int], mates: Sequence[int], end: End) -> list[int]:
    return [mates[called] if end == "tail" else word[mates[caller]] for caller, called in enumerate(word)]


def _agreeing(rng: random.Random, word: Sequence[int], marked: Sequence[int]) -> list[int]:
    """Return another word by which the marked persons call whom they call by this one, and others anybody left."""
    kept = set(marked)
    free = [caller for caller in range(len(word)) if caller not in kept]
    found = list(word)
    for caller, other in zip(free, shuffled(rng, free), strict=True):
        found[caller] = word[other]
    return found


def hidden(world: World) -> list[LocalTriple]:
    """Return all triples that the rules derive and that are not observable, sorted: the echoes of quiet pairs."""
    given = [f"bond({k}, {x}, {y})." for k, mates in enumerate(world.bonds) for x, y in enumerate(mates)]
    for pair in world.pairs:
        one, other = pair.words
        given += [f"echo({u}, {v}, {pair.bond}, {pair.end})." for u, v in ((one, other), (other, one))]
    given += [f"says({x}, {word}, {y})." for word, called in enumerate(world.calls) for x, y in enumerate(called)]
    control = ground(RULES, "\n".join(given))  # its symbols do not outlive it
    triples = (tuple(argument.number for argument in arguments) for arguments in facts(control, "triple", 3))
    return sorted((x, word, y) for x, word, y in triples if world.calls[word][x] != y)


def askable(world: World) -> dict[int, list[LocalTriple]]:
    """Return of each quiet word the hidden triples that may be targets.

    One is not asked for whose rule begins at a triple where words agree, and none between two persons between whom
    another hidden one is: only one relation is right.
    """
    every = hidden(world)
    between = Counter((head, tail) for head, _, tail in every)
    of_word: dict[int, list[LocalTriple]] = {}
    for pair in world.pairs:
        if not pair.quiet:
            continue
        task = [w for other in world.pairs if (other.bond, other.end) == (pair.bond, pair.end) for w in other.words]
        mates = world.bonds[pair.bond]
        for source, word in (pair.words, pair.words[::-1]):
            agrees = {
                x
                for x, called in enumerate(world.calls[source])
                if any(world.calls[other][x] == called for other in task if other != source)
            }
            of_word[word] = [
                (head, relation, tail)
                for head, relation, tail in every
                if relation == word
                and between[head, tail] == 1
                and (head if pair.end == "tail" else mates[head]) not in agrees
            ]
    return of_word


def _rows(world: World, rng: random.Random, number: int, first: int) -> tuple[list[NamedTriple], list[NamedTriple]]:
    """Return the observable and the missing triples of a world by name; its persons are numbered from ``first``."""
    names = [name for both in zip(*vars(first_names()).values(), strict=True) for name in both]
    persons = [f"{names[x % len(names)]}{first + x}" for x in range(len(world.bonds[0]))]
    bonds, words = [f"bond{k}" for k in range(len(world.bonds))], _words(world)
    graph = [
        (persons[x], name, persons[y])
        for name, called in zip((*bonds, *words), (*world.bonds, *world.calls), strict=True)
        for x, y in enumerate(called)
    ]
    targets: list[NamedTriple] = []
    askable_of = askable(world)
    fewest = min(map(len, askable_of.values()))
    if fewest < number:
        raise UsageError(
            f"targets must be at most {fewest} in this world of {len(persons)} persons, not {number}: some quiet word "
            "has no more to hide; ask for fewer, or for more persons"
        )
    for word, triples in askable_of.items():
        chosen = sorted(shuffled(rng, range(len(triples)))[:number])
        targets += [(persons[triples[place][0]], words[word], persons[triples[place][2]]) for place in chosen]
    return graph, targets


def _words(world: World) -> list[str]:
    """Return the names of the words of a world: their task, whether they are loud, their number and which of two."""
    found: list[str] = []
    for number, pair in enumerate(world.pairs):
        kind = "quiet" if pair.quiet else "loud"
        found += [f"{pair.end}{pair.bond}-{kind}{number:02d}{which}" for which in "ab"]
    return found


def _tasks(world: World) -> dict[str, str]:
    tasks = {f"bond{k}": "bond" for k in range(len(world.bonds))}
    of_words = [f"{pair.end} of bond {pair.bond}" for pair in world.pairs for _ in pair.words]
    return tasks | dict(zip(_words(world), of_words, strict=True))
