"""``mtbench conventions``: one scorer under the standard and under each convention of the paper's tables."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from mtbench.cli import completion
from mtbench.cli.output import AsJson, say, say_json

if TYPE_CHECKING:
    from mtbench.data.splits import Split
    from mtbench.names import Scorer


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", autocompletion=completion.datasets, help="A dataset, or a directory made by build."
        ),
    ],
    scorer: Annotated[
        list[str] | None,
        typer.Option(
            help="oracle, blind-oracle, relation-frequency, entity-degree, or package.module:factory, which is called "
            "with the test split without its targets; may be repeated.  [default: the four]"
        ),
    ] = None,
    protocol: Annotated[
        str, typer.Option(autocompletion=completion.protocols, help="dual, entity or relation.")
    ] = "dual",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the candidates and of the random integer.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show how far the paper's conventions move a scorer.

    Example: mtbench conventions metafam

    Example: mtbench conventions fbnell --scorer my_package.model:make --protocol relation
    """
    from mtbench.conventions.reading import CONVENTIONS, STANDARD, compare_conventions, table
    from mtbench.data.load import load
    from mtbench.errors import UnknownNameError
    from mtbench.heuristics.oracles import YARDSTICKS

    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # as "python -m mtbench" does, so that a scorer beside us can be named
    if protocol not in STANDARD.lists:
        raise UnknownNameError("protocol", protocol, STANDARD.lists)
    chosen = list(dict.fromkeys(scorer or YARDSTICKS))
    makers = {label: _maker(label) for label in chosen}
    data = load(name)
    read = {label: compare_conventions(make(data.test), data.test, protocol, seed) for label, make in makers.items()}
    if as_json:
        scorers = {label: [result.to_dict() for result in results] for label, results in read.items()}
        say_json({"dataset": data.name, "version": data.version, "split": "test", "scorers": scorers})
        return
    say(f"{data.name} {data.version} test: protocol {protocol}, seed {seed}")
    for label, results in read.items():
        say(f"\n{label}\n\n{table(results)}")
    say("\nAgainst the standard (present relations, distinct candidates, expected ties):")
    for convention in CONVENTIONS.values():
        say(f"  {convention.name}: {'; '.join(convention.differs)}")


def _maker(label: str) -> Callable[[Split], Scorer]:
    """Return what makes the scorer for a split; somebody's own is handed the split without its targets."""
    from mtbench.errors import UnknownNameError
    from mtbench.experiments import models
    from mtbench.heuristics.oracles import YARDSTICKS

    if label in YARDSTICKS:
        return YARDSTICKS[label]
    if ":" not in label:
        raise UnknownNameError("scorer", label, YARDSTICKS)
    make = cast("Callable[[Split], Scorer]", models.factory(label))
    return lambda split: make(split.observable())
