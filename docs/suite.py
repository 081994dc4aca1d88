"""Fill in the statistics of `suite.md`: ``python docs/suite.py``, which reads every graph of the field."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

from mtbench.analysis.contents import audit_targets
from mtbench.analysis.groups import mean_over
from mtbench.data import catalog
from mtbench.data.graphs import HALF_LINKS
from mtbench.data.loading import load
from mtbench.evaluation.tasks import task

PAGE = Path(__file__).resolve().parent / "suite.md"
HEADINGS = (
    *("Graph", "Entities", "Relation types", "Inference graph", "Test triples"),
    *("Both halves seen, %", "Two components, %", "Reversed pair, %", "Baseline MRR"),
)
FIELD = list(catalog.GROUPS)[:-1]


def filled(text: str, row: Callable[[str], list[str]]) -> str:
    """Return the page with a table for each group of the field; ``row`` gives that of a dataset."""
    parts = {"one training graph": shared()}
    for group in FIELD:
        rows = [row(name) for name in catalog.names(group)]
        mean = mean_over({cells[0]: float(cells[-1]) for cells in rows})
        # Of rounded figures, so three digits are sure.
        shown = f"{mean.mean:.3f} [{mean.low:.3f}, {mean.high:.3f}]"
        closing = [f"mean over {len(rows)}", *[""] * (len(HEADINGS) - 2), shown]
        lines = [HEADINGS, ("---", *("---:",) * (len(HEADINGS) - 1)), *rows, closing]
        parts[group] = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    for name, part in parts.items():
        before, mark, rest = text.partition(f"<!-- {name} -->")
        _, end, after = rest.partition("<!-- end -->")
        text = f"{before}{mark}\n\n{part}\n\n{end}{after}"
    return text


def shared() -> str:
    """Return the graphs of the field that have a training graph in common, a line for each such graph."""
    field = [record for group in FIELD for record in catalog.records(group)]
    sets = dict.fromkeys(tuple(sorted({record.id, *catalog.same_training(record)})) for record in field)
    return "\n".join(f"* {', '.join(f'`{name}`' for name in names)}" for names in sets if len(names) > 1)


def measured(name: str) -> list[str]:
    """Return the row of a dataset: counts of its test graph, and what share of the test triples is how exposed.

    The best heuristic baseline is that of ``full``, which takes minutes for the largest graphs.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a graph that is trained on and cannot be had
        split = load(name).test
    counts = (split.num_entities, split.num_relations, len(split.graph), len(split.targets))
    targets = audit_targets(split)
    shares = (targets.half_links[HALF_LINKS[0]], targets.apart, targets.reversed_pair)
    best = max(of["mrr"] for of in task(split, "full").baselines.values())
    return [
        f"`{name}`",
        *(f"{n:,}" for n in counts),
        *(_percent(n, targets.targets) for n in shares),
        f"{best:.4f}",
    ]


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.1f}" if count else "0"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), measured), encoding="utf-8")
