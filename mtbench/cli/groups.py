"""A group of graphs as several verbs show it: a row per graph, the means over them, and which graphs have no figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mtbench.analysis.groups import group_table, mean_over
from mtbench.cli.output import say, say_json
from mtbench.errors import SHOWN, MtbenchError
from mtbench.names import METRICS
from mtbench.runs.result import Result
from mtbench.settings.setting import Setting


def folder_of(dataset: str) -> str:
    """Return what the folder or the file of a dataset of a group is called: its name, which may have slashes."""
    return dataset.replace("/", "-")


def show(
    results: Mapping[str, Sequence[Result]],
    errors: Mapping[str, str],
    settings: Sequence[Setting],
    place: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print the results by dataset and their means in each setting, and ``place``, where they are kept.

    Raises `MtbenchError` for datasets without a figure, after the figures of the others.
    """
    by_setting = {
        setting: [result for each in results.values() for result in each if result.setting == setting]
        for setting in settings
        if results
    }
    if as_json:
        say_json(
            {
                "directory": place and str(place),
                "runs": {name: described(each) for name, each in results.items()},
                "means": {
                    setting.name: means({metric: by_graph(each, metric) for metric in METRICS})
                    for setting, each in by_setting.items()
                },
                "errors": errors,
            }
        )
    else:
        for setting, each in by_setting.items():
            say(f"{each[0].run.model}: {setting.protocol}, {setting.vocabulary} relations\n\n{group_table(each)}\n")
        if results:
            say(
                f"{place} holds the runs, one folder for each dataset"
                if place
                else "not saved: --out DIR keeps the runs"
            )
    expect_all(errors, len(results) + len(errors))


def described(results: Sequence[Result]) -> list[dict[str, object]]:
    """Return the figures of the results of a run, for JSON."""
    fields = ("protocol", "vocabulary", "metrics", "optimistic", "pessimistic")
    return [
        {name: getattr(result, name) for name in fields}
        | {"tie_rate": result.tie_rate if len(result.ranks) else None, "status": result.run.status}
        for result in results
    ]


def by_graph(results: Sequence[Result], metric: str) -> dict[str, float]:
    """Return a metric of results by dataset."""
    return {result.dataset: result.metrics[metric] for result in results}


def means(values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float | None]]:
    """Return the mean over graphs, with its interval, of each metric of ``values``, for JSON."""
    return {metric: mean_over(graphs).to_dict() for metric, graphs in values.items()}


def expect_all(errors: Mapping[str, str], number: int) -> None:
    """Raise `MtbenchError` that names the datasets without a figure, of a number, and says why for the first few."""
    if errors:
        reasons = [f"{name}: {error}" for name, error in errors.items()][:SHOWN]
        rest = [f"also {', '.join(list(errors)[SHOWN:])}"] if len(errors) > SHOWN else []
        raise MtbenchError(
            f"{len(errors)} of {number} datasets have no figure, and the means are without them: "
            f"{'; '.join([*reasons, *rest])}"
        )
