"""Formulas as pictures made when the site is built: no script and no font is needed to see them."""

from __future__ import annotations

from html import escape

import ziamath
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

ziamath.config.svg2 = False  # nothing in a picture has a name that another could have, too
SIZE = 18


def setup(app: Sphinx) -> None:
    """Offer formulas as pictures."""
    app.add_html_math_renderer("pictures", inline_renderers=(inline, None), block_renderers=(block, None))


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    writer.body.append(picture(node.astext(), inline=True))
    raise nodes.SkipNode


def block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    writer.body.append(f'<div class="formula">{picture(node.astext(), inline=False)}</div>')
    raise nodes.SkipNode


def picture(text: str, *, inline: bool) -> str:
    """Return a formula as SVG on the line of the text around it, with its source for those who hear it."""
    drawn = ziamath.Latex(text, size=SIZE, color="currentColor", inline=inline)
    said = f'role="img" aria-label="{escape(text)}" style="vertical-align: {drawn.getyofst():.1f}px"'
    return drawn.svg().replace("<svg ", f"<svg {said} ", 1)
