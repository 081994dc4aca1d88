"""``mtbench export``: a dataset in another tool's file format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtbench.cli import completion
from mtbench.cli.output import AsJson, say, say_json


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", autocompletion=completion.datasets, help="A dataset, or a directory made by build."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The directory to write.")],
    format: Annotated[  # noqa: A002
        str,
        typer.Option(
            help="tsv: the published train.txt, valid.txt, msg.txt and test.txt. npz: ids and names for NumPy. pyg: "
            "tensors for PyTorch Geometric. huggingface: Parquet and a dataset card. croissant: Parquet and JSON-LD. "
            "record: the counts and hashes of a record of the catalogue."
        ),
    ] = "tsv",
    force: Annotated[bool, typer.Option("--force", help="Replace an export that is there already.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a dataset in another file format.

    Example: mtbench export metafam --format tsv --out metafam-tsv

    Example: mtbench export metafam --format huggingface --out metafam-hf
    """
    from mtbench.data.load import load
    from mtbench.export import writers as export

    write = export.writer(format)
    files = write(load(name), out, force=force)
    if as_json:
        say_json([{"file": str(file), "bytes": file.stat().st_size} for file in files])
    else:
        for file in files:
            say(str(file))
