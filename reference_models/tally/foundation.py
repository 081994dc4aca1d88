"""Tally with published weights: trained once on the training graphs of the whole suite, zero-shot on any graph.

``python -m reference_models.tally.foundation`` trains it and writes the weights that ship with the package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata, resources
from pathlib import Path
from typing import Annotated

import typer
from safetensors import safe_open
from safetensors.torch import load_file, save

from mtbench.cli.output import say
from mtbench.data.loading import load
from mtbench.data.splits import Split
from mtbench.errors import CorruptedFileError, UsageError
from mtbench.files.atomic import replace_file
from mtbench.files.hashing import file_hash
from mtbench.training.models import Context
from mtbench.version import __version__
from reference_models.tally.model import Recipe, TallyModel
from reference_models.tally.statistics import NAMES
from reference_models.training.recipe import read

NAME = "tally-foundation"
DATASETS = (
    "fbnell",
    "metafam",
    "wikitopics-mt1/health",
    "wikitopics-mt2/location",
    "wikitopics-mt3/art",
    "wikitopics-mt4/health",
)
"""One dataset per training graph: the two datasets of a WikiTopics-MT pair share theirs, and so do both FBNELL.

The training graph of metafam-strict is metafam's without the inverses of missing triples; the released one is used.
"""

KEY = "tally"
"""The metadata are one text under one key, because safetensors writes several keys in no fixed order."""

WEIGHTS = Path(str(resources.files("reference_models") / "weights" / "tally.safetensors"))


def pretrain(graphs: Mapping[str, Split], seed: int = 0, settings: Mapping[str, str] | None = None) -> bytes:
    """Return the weights of tally, trained by its recipe on several graphs (by name), as a safetensors file.

    The same graphs, seed and libraries give the same bytes. The metadata say what the weights were made of.
    """
    recipe = read(Recipe, "tally", "", settings or {})
    model = TallyModel(NAME, Context("", seed, "cpu"), recipe)
    model.learn("train", list(graphs.values()), recipe.epochs)
    described = {
        "recipe": recipe.as_parameters(),
        "seed": seed,
        "graphs": {name: graph.content_sha256 for name, graph in graphs.items()},
        "statistics": _statistics(),
        "versions": {"mtbench-kg": __version__}
        | {name: metadata.version(name) for name in ("numpy", "scipy", "torch")},
    }
    weights = {name: value.contiguous() for name, value in model.network.state_dict().items()}
    return save(weights, {KEY: json.dumps(described, sort_keys=True)})


def describe(weights: Path) -> dict[str, object]:
    """Return the metadata of a file of weights: recipe, seed, graphs, statistics and versions."""
    with safe_open(weights, "pt") as file:
        described: dict[str, object] = json.loads(file.metadata()[KEY])
    return described


class Foundation(TallyModel):
    """Tally with the weights of a file: nothing is trained; its info names every graph that it learned from."""

    def __init__(self, context: Context, weights: Path = WEIGHTS) -> None:
        made_of = describe(weights)
        if made_of["statistics"] != _statistics():
            raise CorruptedFileError(
                f"{weights} was made for other statistics than these: python -m reference_models.tally.foundation"
            )
        if context.settings and read(Recipe, "tally", "", context.settings).as_parameters() != made_of["recipe"]:
            raise UsageError(f"{NAME} is trained already: it has no settings; train tally with --set instead")
        if context.seed != made_of["seed"]:
            raise UsageError(f"{NAME} has one set of weights, of seed {made_of['seed']}: leave out --seed")
        super().__init__(NAME, context, Recipe(**made_of["recipe"]))  # type: ignore[arg-type]
        self.info = replace(self.info, pretraining_graphs=tuple(made_of["graphs"]))  # type: ignore[arg-type]
        self.network.load_state_dict(load_file(weights))

    def fit(self, train: Split, valid: Split) -> None:
        """Do nothing: the weights are trained already."""


def build(context: Context) -> Foundation:
    """Return tally with the weights that ship with the package."""
    return Foundation(context)


def _statistics() -> list[str]:
    return [" ".join(name) for name in NAMES]


def main(out: Annotated[Path, typer.Option(help="Where to write the weights.")] = WEIGHTS) -> None:
    """Train tally on the training graphs of the whole suite, and write its weights."""
    graphs = {f"{name}/train": load(name).train for name in DATASETS}
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(out, pretrain(graphs))
    say(f"{out}: {out.stat().st_size:,} bytes, SHA-256 {file_hash(out)}")


if __name__ == "__main__":
    typer.run(main)
