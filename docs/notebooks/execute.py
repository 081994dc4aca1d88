"""Execute the notebooks and keep their outputs: python docs/notebooks/execute.py, after a change of what they show."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent


def notebooks() -> list[Path]:
    """Return the notebooks of the documentation."""
    return sorted(FOLDER.glob("*.ipynb"))


def execute(path: Path) -> NotebookNode:
    """Return a notebook with the outputs of running it in its folder; an exception in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=120,
        resources={"metadata": {"path": str(FOLDER)}},
        record_timing=False,
        # How much of what is printed comes in one piece depends on the moment.
        coalesce_streams=True,
    )
    client.execute()
    # The rest of it names the interpreter it was executed with.
    notebook.metadata.language_info = {"name": "python"}
    return notebook


if __name__ == "__main__":
    for notebook in notebooks():
        nbformat.write(execute(notebook), notebook)
