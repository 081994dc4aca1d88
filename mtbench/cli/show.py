"""``mtbench show``: print or draw runs, one or several side by side, whole or by stratum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtbench.cli.output import AsJson, say, say_json
from mtbench.errors import UnknownNameError, UsageError, nearest

if TYPE_CHECKING:
    from mtbench.data.splits import Dataset
    from mtbench.results.result import Result
    from mtbench.results.strata import Strata

KINDS = ("ranks", "strata", "models")
SHOWN = 5


def command(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run directories.")],
    by: Annotated[
        str | None,
        typer.Option(
            metavar="STRATUM",
            help="half_link, relation, relation_seen, inverse_visible, degree, head_degree, tail_degree, distance "
            "or task.",
        ),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="DIR", help="For --by: the dataset of runs on one that is not released.")
    ] = None,
    format: Annotated[str, typer.Option(help="text, markdown, latex or csv.")] = "text",  # noqa: A002
    metric: Annotated[str, typer.Option(help="For several runs --by, and for pictures: mr, mrr, hits@1 ...")] = "mrr",
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw into FILE.png or FILE.svg as well.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="The picture: ranks, strata or models.  [default: strata with --by, else ranks]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print runs, whole or by stratum, and draw them.

    Several runs stand side by side, with mean and standard deviation over the seeds of a model.

    Example: mtbench show runs/isdea-metafam-seed0 --by half_link

    Example: mtbench show runs/* --format markdown

    Example: mtbench show runs/a runs/b --plot models.png --kind models
    """
    from mtbench.files import pictures, tables
    from mtbench.names import METRICS

    if format not in tables.FORMATS:
        raise UnknownNameError("table format", format, tables.FORMATS)
    if metric not in METRICS:
        raise UnknownNameError("metric", metric, METRICS)
    drawing = _kind(kind, by, plot, len(runs))
    if dataset is not None and by is None:
        raise UsageError("--dataset is for --by STRATUM, which sorts targets by their graph")
    if plot is not None:
        pictures.check(plot)
    results = [_load(name) for name in dict.fromkeys(runs)]
    strata = _strata(results, by, dataset) if by is not None else []
    if plot is not None:
        _draw(drawing, results, strata, plot, metric)
    if as_json:
        say_json(_payload(results, strata))
    else:
        say(_text(results, strata, format, metric))
        if plot is not None and format == "text":
            say(f"\n{plot} shows the {drawing}")


def _kind(kind: str | None, by: str | None, plot: Path | None, number: int) -> str:
    if kind is None:
        return "ranks" if by is None else "strata"
    if kind not in KINDS:
        raise UnknownNameError("kind of picture", kind, KINDS)
    if plot is None:
        raise UsageError(f"--kind {kind} is a picture: add --plot FILE.png")
    if kind == "strata" and by is None:
        raise UsageError("--kind strata needs a stratum: add --by half_link")
    if kind == "models" and number != 2:
        raise UsageError(f"--kind models draws one run against another: give two runs, not {number}")
    return kind


def _load(name: str) -> Result:
    from mtbench.results import result as results
    from mtbench.results.runs import RANKS_FILE, RESULT_FILE

    directory = Path(name)
    if directory.is_file() and directory.name in (RESULT_FILE, RANKS_FILE):
        directory = directory.parent
    if (directory / RESULT_FILE).exists() or (directory / RANKS_FILE).exists():
        return results.load(directory)
    below = sorted(str(path.parent) for path in directory.glob(f"*/{RESULT_FILE}")) if directory.is_dir() else []
    if below:
        more = f" and {len(below) - SHOWN} more" if len(below) > SHOWN else ""
        raise UsageError(f"{name} is no run, but holds some: {', '.join(below[:SHOWN])}{more}; type {name}/* for all")
    folder = directory.parent
    beside = {path.parent.name: str(path.parent) for path in folder.glob(f"*/{RESULT_FILE}")} if folder.is_dir() else {}
    near = [beside[match] for match in nearest(directory.name, beside)]
    hint = f"did you mean {' or '.join(near)}?" if near else "mtbench run MODEL --dataset NAME makes one"
    raise UsageError(f"no run at {name} (there is no {RESULT_FILE}): {hint}")


def _strata(results: Sequence[Result], by: str, dataset: str | None) -> list[Strata]:
    from mtbench.data.load import load

    given: Dataset | None = load(dataset) if dataset is not None else None
    return [result.by(by, split=given) for result in results]


def _draw(kind: str, results: Sequence[Result], strata: Sequence[Strata], path: Path, metric: str) -> None:
    from mtbench.results import plot as plots

    if kind == "ranks":
        plots.draw_ranks(results, path)
    elif kind == "models":
        plots.draw_models(results[0], results[1], path, metric)
    elif len(strata) == 1:
        plots.draw_strata(strata[0], path, metric)
    else:
        raise UsageError(f"--kind strata draws one run, not {len(strata)}: draw each, or print them side by side")


def _text(results: Sequence[Result], strata: Sequence[Strata], format: str, metric: str) -> str:  # noqa: A002
    from mtbench.results import overview
    from mtbench.results.strata import side_by_side

    if len(strata) > 1:
        return side_by_side(strata, metric, format)
    if strata:
        return str(strata[0]) if format == "text" else strata[0].table(format)
    if len(results) > 1:
        return overview.table(overview.overview(results), format)
    return str(results[0]) if format == "text" else results[0].table(format)


def _payload(results: Sequence[Result], strata: Sequence[Strata]) -> object:
    from mtbench.results import overview

    if strata:
        return [asdict(found) for found in strata]
    found: list[Mapping[str, object]] = [asdict(row) for row in overview.overview(results)]
    return found
