"""A block that is to be saved as a file shows its name: ``title="FILE"``, which other readers of Markdown pass over."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

FENCE = re.compile(r'^```(\w+) title="([^"]+)"$', re.MULTILINE)


def setup(app: Sphinx) -> None:
    """Read every page with titles as captions."""
    app.connect("source-read", caption)


def caption(app: Sphinx, page: str, content: list[str]) -> None:
    """Make a title the caption of its block."""
    content[0] = FENCE.sub("```{code-block} \\1\n:caption: \\2", content[0])
