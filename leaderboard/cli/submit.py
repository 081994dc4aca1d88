"""``mtbench submit``: finished runs become an entry of a leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtbench.cli.output import say


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run directories of one model, or folders with runs below them."),
    ],
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the leaderboard, as leaderboard/results.")],
    name: Annotated[
        str | None, typer.Option(metavar="SLUG", help="The entry's folder in DIR.  [default: from the model]")
    ] = None,
    card: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A card.toml, whole or in part; the options below come first.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The model's name as shown.  [default: that of the runs]")] = None,
    authors: Annotated[list[str] | None, typer.Option(help="Names with commas between them; may be repeated.")] = None,
    url: Annotated[str | None, typer.Option(help="Where the model is described.  [default: that of the runs]")] = None,
    licence: Annotated[str | None, typer.Option("--licence", "--license", help="Of the model's code.")] = None,
    hardware: Annotated[str | None, typer.Option(help="What it ran on.  [default: as the runs say]")] = None,
    parameters: Annotated[int | None, typer.Option(min=0, help="Trained ones, on the largest dataset.")] = None,
    summary: Annotated[str | None, typer.Option(help="A sentence on the model.")] = None,
    citation: Annotated[str | None, typer.Option(help="How to cite it.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the entry of that name, its runs too.")] = False,
) -> None:
    """Make an entry of runs, checked and with a card.

    Regime and pre-training graphs are what the runs say. Names of targets are published for metafam alone: other data
    may not be passed on.

    Example: mtbench submit runs/mine-* --to leaderboard/results --authors "A. Author" --licence MIT --url https://...
    """
    from leaderboard.entries import cards, submission

    told = {
        "name": title,
        "authors": [one.strip() for some in authors for one in some.split(",") if one.strip()] if authors else None,
        "url": url,
        "licence": licence,
        "hardware": hardware,
        "parameters": parameters,
        "summary": summary,
        "citation": citation,
    }
    table = cards.read_table(card) if card is not None else {}
    table |= {key: value for key, value in told.items() if value is not None}
    made = submission.submit(runs, to, slug=name, card=table, force=force)
    for dataset, seeds in made.seeds.items():
        say(f"{dataset}: seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))} of {made.card.model}")
    if made.unnamed:
        say(f"written without names, because the data may not be passed on: {', '.join(made.unnamed)}")
    for remark in made.remarks:
        say(f"remark: {remark}")
    say(f"{made.directory} holds the entry; read {made.directory / cards.CARD_FILE}, then type")
    say(f"mtbench leaderboard check {made.directory}")
