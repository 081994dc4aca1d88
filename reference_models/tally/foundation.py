"""Tally with published weights: trained once on some graphs, zero-shot on any other.

``python -m reference_models.tally.foundation NAME`` trains one and writes the weights that ship with the package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata, resources
from pathlib import Path
from typing import Annotated

import typer
from safetensors import safe_open
from safetensors.torch import load_file, save

from mtbench.cli.output import say
from mtbench.data.loading import load
from mtbench.data.splits import Split
from mtbench.errors import CorruptedFileError, UnknownNameError, UsageError
from mtbench.files.atomic import replace_file
from mtbench.files.hashing import file_hash
from mtbench.training.models import Context
from mtbench.version import __version__
from reference_models.tally.carving import carve
from reference_models.tally.model import Recipe, TallyModel
from reference_models.tally.statistics import NAMES
from reference_models.training.recipe import read

NAME, OF_THREE, OPEN = "tally-foundation", "tally-3g", "tally-open"


@dataclass(frozen=True)
class Diet:
    """What a set of weights is made of: the training graphs of ``datasets``, and ``carved`` parts of each of them."""

    file: str
    datasets: tuple[str, ...]
    carved: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)


SPARSE = {"masks": "2", "lists": "600", "loops": "false"}

DIETS: Mapping[str, Diet] = {
    # One dataset per training graph of the paper: the two datasets of a WikiTopics-MT pair share theirs, and so do both
    # FBNELL. That of metafam-strict is metafam's without the inverses of missing triples; the released one is used.
    NAME: Diet(
        "tally.safetensors",
        (
            "fbnell",
            "metafam",
            "wikitopics-mt1/health",
            "wikitopics-mt2/location",
            "wikitopics-mt3/art",
            "wikitopics-mt4/health",
        ),
    ),
    # The graphs of ULTRA 3g, TRIX and MOTIF. Chosen on graphs carved from others (docs/tally-details.md): on the three
    # whole graphs alone the network learns what dense graphs have.
    OF_THREE: Diet("tally-3g.safetensors", ("fb15k-237", "wn18rr", "codex-m"), 10, SPARSE),
    # The graphs of the suite that hold at most 1.1 % of the test triples of any of the 40 that models are compared on,
    # and are no pair's training graph.
    OPEN: Diet("tally-open.safetensors", ("conceptnet100k", "wd-singer"), 15, SPARSE),
}
"""The sets of weights by the name of their model."""

KEY = "tally"
"""The metadata are one text under one key, because safetensors writes several keys in no fixed order."""


def weights_of(name: str) -> Path:
    """Return the file of the weights of a model."""
    return Path(str(resources.files("reference_models") / "weights" / DIETS[name].file))


WEIGHTS = weights_of(NAME)


def pretrain(
    graphs: Mapping[str, Split], seed: int = 0, settings: Mapping[str, str] | None = None, carved: int = 0
) -> bytes:
    """Return the weights of tally, trained by its recipe on several graphs (by name), as a safetensors file.

    With ``carved`` it is trained on so many parts of each graph, too. The same graphs, seed and libraries give the same
    bytes. The metadata say what the weights were made of.
    """
    recipe = read(Recipe, "tally", "", settings or {})
    model = TallyModel(NAME, Context("", seed, "cpu"), recipe)
    parts = [part for graph in graphs.values() for part in carve(graph, carved, seed)]
    model.learn("train", [*graphs.values(), *parts], recipe.epochs)
    described = {
        "recipe": recipe.as_parameters(),
        "seed": seed,
        "graphs": {name: graph.content_sha256 for name, graph in graphs.items()},
        **({"carved": carved} if carved else {}),
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

    def __init__(self, context: Context, weights: Path = WEIGHTS, name: str = NAME) -> None:
        made_of = describe(weights)
        if made_of["statistics"] != _statistics():
            raise CorruptedFileError(
                f"{weights} was made for other statistics: python -m reference_models.tally.foundation {name}"
            )
        if context.settings and read(Recipe, "tally", "", context.settings).as_parameters() != made_of["recipe"]:
            raise UsageError(f"{name} is trained already: it has no settings; train tally with --set instead")
        if context.seed != made_of["seed"]:
            raise UsageError(f"{name} has one set of weights, of seed {made_of['seed']}: leave out --seed")
        super().__init__(name, context, Recipe(**made_of["recipe"]))  # type: ignore[arg-type]
        self.info = replace(self.info, pretraining_graphs=tuple(made_of["graphs"]))  # type: ignore[arg-type]
        self.network.load_state_dict(load_file(weights))

    def fit(self, train: Split, valid: Split) -> None:
        """Do nothing: the weights are trained already."""


def build(context: Context) -> Foundation:
    """Return tally with the weights made of the training graphs of the paper's datasets."""
    return Foundation(context)


def build_of_three(context: Context) -> Foundation:
    """Return tally with the weights made of the graphs that ULTRA 3g, TRIX and MOTIF learned from."""
    return Foundation(context, weights_of(OF_THREE), OF_THREE)


def build_open(context: Context) -> Foundation:
    """Return tally with the weights made of graphs that share next to nothing with those models are compared on."""
    return Foundation(context, weights_of(OPEN), OPEN)


def _statistics() -> list[str]:
    return [" ".join(name) for name in NAMES]


def main(
    name: Annotated[str, typer.Argument(help=f"Which: {', '.join(DIETS)}.")] = NAME,
    out: Annotated[Path | None, typer.Option(help="Where to write the weights.")] = None,
) -> None:
    """Train tally on graphs, and write its weights."""
    if name not in DIETS:
        raise UnknownNameError("set of weights", name, DIETS)
    diet, out = DIETS[name], out or weights_of(name)
    graphs = {f"{dataset}/train": load(dataset).train for dataset in diet.datasets}
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(out, pretrain(graphs, settings=diet.settings, carved=diet.carved))
    say(f"{out}: {out.stat().st_size:,} bytes, SHA-256 {file_hash(out)}")


if __name__ == "__main__":
    typer.run(main)
