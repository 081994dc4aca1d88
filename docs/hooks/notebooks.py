"""The notebooks as pages: each is converted, with the outputs it is committed with, when the site is built."""

from __future__ import annotations

from pathlib import PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

NOTE = "\n*This page is the notebook `docs/{}`: a test executes it and compares every output.*\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put a page in the place of each notebook of the same name."""
    for file in list(files):
        if PurePosixPath(file.src_uri).suffix == ".ipynb":
            text, _ = MarkdownExporter().from_filename(file.abs_src_path)
            files.remove(file)
            place = str(PurePosixPath(file.src_uri).with_suffix(".md"))
            files.append(File.generated(config, place, content=text + NOTE.format(file.src_uri)))
    return files
