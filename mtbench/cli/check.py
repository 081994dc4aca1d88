"""``mtbench check``: does a scorer give the same answers to the same questions."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from mtbench.cli import completion
from mtbench.cli.output import AsJson, records, say, say_json, say_table

HEADINGS = ("Check", "Verdict", "Message")


def command(
    scorer: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:SCORER",
            help="A function of the split that returns a scorer, or a scorer: a function whose parameter is called "
            "'triples', or an object with a method score.",
        ),
    ],
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=completion.datasets,
            help="A dataset to check on.  [default: a small graph made for it]",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a scorer before its figures are believed.

    Are its scores finite and repeatable, whatever the batch, the order and the names, and without the answers?

    Example: mtbench check mymodel:build

    Example: mtbench check mypackage.models:build --dataset metafam
    """
    from mtbench.data.load import load
    from mtbench.evaluation.check import check
    from mtbench.experiments import models

    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # as "python -m mtbench" does, so that a scorer beside us can be named
    expected = "expected package.module:name, importable from here"
    found = models.attribute(scorer, "scorer", expected)
    report = check(found, load(dataset).test if dataset else None)
    rows = [(finding.name, finding.verdict, finding.message) for finding in report.findings]
    if as_json:
        say_json({"scorer": scorer, "dataset": report.dataset, "ok": report.ok, "checks": records(HEADINGS, rows)})
    else:
        say_table(HEADINGS, rows)
        counts = Counter(finding.verdict for finding in report.findings)
        numbers = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("pass", "fail", "not applicable"))
        say(f"\n{scorer} on {report.dataset}: {numbers}")
    if not report.ok:
        raise typer.Exit(1)
