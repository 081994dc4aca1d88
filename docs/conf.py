"""The documentation as pages: ``sphinx-build -W docs site/docs`` makes them, and they load nothing from elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

from pygments.lexers.shell import BashLexer
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

project = "mtbench"
copyright = "2026 The mtbench authors, MIT licence"  # noqa: A001
html_title = "mtbench"
html_theme = "furo"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
exclude_patterns = ["hooks"]
default_role = "code"
smartquotes = False

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "hooks.contents",
    "hooks.maths",
    "hooks.notebooks",
    "hooks.tables",
    "hooks.titles",
]
myst_enable_extensions = ["dollarmath"]
# Pages that are made of data begin below their title.
suppress_warnings = ["myst.header"]
myst_heading_anchors = 4
html_math_renderer = "pictures"

# Everything is documented where PyTorch is not installed, too.
autodoc_mock_imports = ["pykeen", "torch", "torch_geometric"]
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    name: name
    for name in (
        "BoolArray",
        "Direction",
        "FloatArray",
        "IntArray",
        "NameArray",
        "Part",
        "ScoreArray",
        "Scorer",
        "Side",
    )
}
maximum_signature_line_length = 80
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"


def setup(app: Sphinx) -> None:
    """Colour commands as Bash: they have no prompts, so that they can be copied whole."""
    app.add_lexer("console", BashLexer)
    app.add_lexer("tsv", TextLexer)
