"""A picture as part of a page: the SVG matplotlib writes, with the page's own colours and without its style sheet.

A strict content policy allows no ``style``, and colours that are written into a picture do not follow the theme. So
declarations become attributes, and each known colour becomes a variable of the style sheet.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from mtbench.files.pictures import COLOURS, GREY

SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}href"
THEME = {
    "#000000": "currentColor",
    "black": "currentColor",
    "#ffffff": "var(--surface)",
    "white": "var(--surface)",
    GREY: "var(--muted)",
    "#dddddd": "var(--line)",
    **{colour: f"var(--series-{number})" for number, colour in enumerate(COLOURS, start=1)},
}
KEPT = re.compile(r"fill|stroke|opacity|clip|text-anchor|font-size|font-weight|font-style|visibility")


def draw(name: str, drawing: Callable[[Path], None], description: str) -> str:
    """Return a picture as SVG for a page; ``name`` begins all its ids, ``description`` is read in its place.

    ``drawing`` draws into the SVG file it is given, as all pictures of `mtbench` do. Raises what it raises.
    """
    import matplotlib as mpl

    with tempfile.TemporaryDirectory(prefix="mtbench-") as folder, mpl.rc_context({"svg.fonttype": "none"}):
        path = Path(folder) / "picture.svg"
        drawing(path)
        return themed(path.read_text(encoding="utf-8"), name, description)


def themed(text: str, name: str, description: str) -> str:
    """Return the text of an SVG file as part of a page."""
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{SVG}metadata", f"{SVG}style", f"{SVG}title"):
                parent.remove(child)
    for element in root.iter():
        _restyle(element, name)
    attributes = {
        "viewBox": root.get("viewBox") or "0 0 100 100",
        "role": "img",
        "class": "picture",
        "aria-labelledby": f"{name}-title",
        "stroke-linejoin": "round",
        "fill": "currentColor",
    }
    root.attrib.clear()
    root.attrib.update(attributes)
    title = ElementTree.Element("title", {"id": f"{name}-title"})
    title.text = description
    root.insert(0, title)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _restyle(element: ElementTree.Element, name: str) -> None:
    element.tag = element.tag.removeprefix(SVG)
    found: dict[str, str] = {}
    for key, value in element.attrib.items():
        if key == XLINK:
            key = "href"
        if key == "id":
            found[key] = f"{name}-{value}"
        elif key == "href" and value.startswith("#"):
            found[key] = f"#{name}-{value[1:]}"
        elif key == "style":
            for property_, stated in _declarations(value):
                found[property_] = THEME.get(stated.lower(), stated)
        else:
            found[key] = THEME.get(value.lower(), value)
        if key in found:
            found[key] = _local(found[key], name)
    for key in list(found):
        found[key] = _local(found[key], name) if key == "clip-path" else found[key]
    element.attrib.clear()
    element.attrib.update(found)


def _local(value: str, name: str) -> str:
    return re.sub(rf"url\(#(?!{re.escape(name)}-)", f"url(#{name}-", value)


def _declarations(style: str) -> list[tuple[str, str]]:
    """Return the declarations of a style that are attributes of SVG; of a font only its size and weight."""
    found = []
    for declaration in style.split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key == "font":
            if size := re.search(r"([\d.]+)px", value):
                found.append(("font-size", size[1]))
            if re.search(r"\b(bold|[6-9]00)\b", value):
                found.append(("font-weight", "600"))
        elif KEPT.match(key) and value:
            found.append((key, value.removesuffix("px") if key in ("font-size", "stroke-width") else value))
    return found
