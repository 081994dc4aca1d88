"""What the site has, in this order: added to its first page as what Sphinx calls a toctree."""

from __future__ import annotations

from sphinx.application import Sphinx

CONTENTS = {
    "Begin": {"From my model to my table": "my-table"},
    "Data": {
        "Which dataset do I use?": "which-dataset",
        "What are the graphs of the field like?": "suite",
        "What is wrong with the published data and numbers?": "published",
        "How do I work without internet?": "offline",
        "How do I rebuild a dataset from dumps?": "rebuild",
        "How do I make a scenario, or use triples of my own?": "scenarios",
        "How do I make another synthetic benchmark?": "synthetic",
        "Does MetaFam need several tasks?": "several-tasks",
        "Has the model seen the answers?": "contamination",
    },
    "Evaluate your model": {
        "In NumPy": "numpy",
        "In PyTorch Geometric": "pyg",
        "In PyKEEN": "pykeen",
        "The foundation models of the field": "foundation-models",
        "In another language, or its own process": "other-languages",
        "A model that mtbench trains": "your-model",
        "Many models, or a cluster": "grid",
    },
    "Read the figures": {
        "How are ranks and ties defined?": "ties-and-settings",
        "What needs no learning?": "baselines",
        "Which differences are real?": "comparing-models",
        "What was tried against it?": "attacks",
    },
    "Leaderboard": {
        "How do I submit?": "submitting",
        "The leaderboard as pages, and as tables": "leaderboard",
        "Why are the paper's figures what they are?": "behind-the-figures",
        "How far are our figures from the paper's?": "deviations",
    },
    "Reference models": {
        "How are they built?": "models",
        "How does tally learn to rank by counts?": "tally",
        "How is tally built, and what was tried?": "tally-details",
        "How does the exact MTDEA factorisation work?": "factorisation",
        "Which topics have little in common?": "transfer",
    },
    "The code": {"Where is what?": "house"},
    "Notebooks": {"First steps": "notebooks/first-steps", "Compare models": "notebooks/compare-models"},
    "Reference": {
        "Command line": "reference/commands",
        "Python": "reference/python",
        "More of Python": "reference/modules",
        "Glossary": "glossary",
        "Benchmarks": "benchmarks",
    },
}


def setup(app: Sphinx) -> None:
    """Add the contents to the first page."""
    app.connect("source-read", add)


def add(app: Sphinx, page: str, content: list[str]) -> None:
    """Add the contents to the first page."""
    if page == "index":
        for caption, pages in CONTENTS.items():
            lines = [f"{title} <{name}>" for title, name in pages.items()]
            content[0] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {caption}", "", *lines, "```", ""])
