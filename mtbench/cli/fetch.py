"""``mtbench fetch``: have datasets on this machine before they are needed."""

from __future__ import annotations

import typer

from mtbench.cli.chosen import All, Names, chosen
from mtbench.cli.output import AsJson, Cell, fail, records, say, say_json
from mtbench.errors import MtbenchError

HEADINGS = ("Name", "Version", "Directory", "Problem")


def command(names: Names = None, every: All = False, as_json: AsJson = False) -> None:
    """Download or build datasets, and check them.

    What is stored already is only checked. A dataset that cannot be had does not keep the others from being fetched.

    Example: mtbench fetch wikitopics-mt1/health fbnell

    Example: mtbench fetch --all
    """
    from mtbench.data import store
    from mtbench.data.load import load

    rows: list[tuple[Cell, ...]] = []
    for record in chosen(names, every):
        directory = str(store.cached(record))
        try:
            load(record.id)
        except MtbenchError as error:
            fail(f"{record.id}: {error}")
            rows.append((record.id, record.version, None, str(error)))
        else:
            rows.append((record.id, record.version, directory, None))
            if not as_json:
                say(f"{record.id} {record.version} is stored in {directory}")
    if as_json:
        say_json(records(HEADINGS, rows))
    if any(problem for *_, problem in rows):
        raise typer.Exit(1)
