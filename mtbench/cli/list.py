"""``mtbench list``: the catalogue."""

from __future__ import annotations

from mtbench.cli.output import AsJson, Cell, records, say_json, say_table

HEADINGS = ("Name", "Version", "Train triples", "Valid targets", "Test triples", "Test targets", "Stored")


def command(as_json: AsJson = False) -> None:
    """List the datasets of the catalogue.

    Example: mtbench list --json
    """
    from mtbench.data import catalog, store
    from mtbench.files import atomic

    rows: list[tuple[Cell, ...]] = []
    for record in map(catalog.record, catalog.names()):
        parts = ("train/graph", "valid/targets", "test/graph", "test/targets")
        stored = not atomic.is_free(store.cached(record))
        rows.append((record.id, record.version, *(record.parts[part].triples for part in parts), stored))
    if as_json:
        say_json(records(HEADINGS, rows))
    else:
        say_table(HEADINGS, rows)
