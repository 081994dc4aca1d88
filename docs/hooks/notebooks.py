"""The notebooks as pages: each is read with the outputs it is committed with."""

from __future__ import annotations

from pathlib import Path

import nbformat
from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx

NOTE = "*This page is the notebook `docs/notebooks/{}`: a test executes it and compares every output.*\n"


class NotebookParser(MystParser):
    """A notebook read as Markdown."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Read a notebook."""
        name = Path(document["source"]).name
        super().parse(f"{markdown(nbformat.reads(inputstring, as_version=4))}\n{NOTE.format(name)}", document)


def markdown(notebook: nbformat.NotebookNode) -> str:
    """Return the cells in Markdown, each output below its cell; all of them are text."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts.append(f"```python\n{cell.source}\n```")
            texts = [output.get("text") or output["data"]["text/plain"] for output in cell.outputs]
            parts.extend(f"```text\n{text.rstrip()}\n```" for text in texts)
    return "\n\n".join(parts)


def setup(app: Sphinx) -> None:
    """Read notebooks as pages."""
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
