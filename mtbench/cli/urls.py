"""``mtbench urls``: the published files, for a machine that cannot reach the internet."""

from __future__ import annotations

from mtbench.cli.chosen import All, Names, chosen
from mtbench.cli.output import AsJson, Cell, records, say, say_json, say_table

HEADINGS = ("Bytes", "SHA256", "URL", "Place")


def command(names: Names = None, every: All = False, as_json: AsJson = False) -> None:
    """List the published files of datasets, each once.

    Besides address, size and hash it shows each file's place in a mirror. For a machine without internet,
    copy each file to its place in a directory there, and name that directory: MTBENCH_MIRROR=DIRECTORY.

    Example: mtbench urls --all --json
    """
    from mtbench.data import downloads as sources

    files = {source.sha256: source for record in chosen(names, every) for source in record.sources}
    rows: list[tuple[Cell, ...]] = [
        (source.bytes, source.sha256, source.url, sources.place(source.url)) for source in files.values()
    ]
    if as_json:
        say_json(
            [
                {**row, "mirrors": list(source.mirrors)}
                for row, source in zip(records(HEADINGS, rows), files.values(), strict=True)
            ]
        )
        return
    say_table(HEADINGS, rows)
    total = sum(source.bytes for source in files.values())
    say(f"\n{len(rows)} files, {total:,} bytes; MTBENCH_MIRROR=DIRECTORY finds them at their places in DIRECTORY")
