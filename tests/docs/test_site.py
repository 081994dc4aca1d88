"""The built site: every link leads somewhere inside it, and nothing is loaded from anywhere else."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESOURCES = {"link", "script", "img", "iframe", "source", "object", "embed", "video", "audio"}
ADDRESSES = ("href", "src", "srcset", "data", "poster")
LOADED = re.compile(r"""url\(\s*["']?(?!data:|#)([^"')]+)|@import\s+["']([^"']+)""")


class Page(HTMLParser):
    """What a page points to, as (tag, address), and the anchors it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ADDRESSES and value:
                self.links.append((tag, value))


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_of_the_folder_is_built(pages, site):
    sources = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    expected = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in sources}
    made = {"genindex.html", "py-modindex.html", "search.html"}
    assert {path.relative_to(site).as_posix() for path in pages} == expected | made
    assert not list(site.rglob("*.py"))


def test_every_link_leads_to_a_file_and_anchor_of_the_site(pages, site):
    broken = []
    for path, page in pages.items():
        for _, address in page.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            # The page for what is not found may be shown anywhere: its links begin at the root.
            base = site if parts.path.startswith("/") else path.parent
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            anchor = unquote(parts.fragment) if target.suffix == ".html" else ""
            if not target.is_relative_to(site.resolve()) or not target.is_file():
                broken.append(f"{path.relative_to(site)}: {address}: no such file")
            elif anchor and anchor not in pages[site / target.relative_to(site.resolve())].anchors:
                broken.append(f"{path.relative_to(site)}: {address}: no such anchor")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(pages, site):
    loaded = [
        f"{path.relative_to(site)}: {tag} {address}"
        for path, page in pages.items()
        for tag, address in page.links
        if tag in RESOURCES and (urlsplit(address).netloc or urlsplit(address).scheme not in ("", "data"))
    ]
    for sheet in site.rglob("*.css"):
        for found in LOADED.findall(sheet.read_text(encoding="utf-8")):
            loaded.extend(f"{sheet.relative_to(site)}: {address}" for address in found if urlsplit(address).netloc)
    assert loaded == []


def test_links_to_the_web_are_secure(pages):
    schemes = {urlsplit(address).scheme for page in pages.values() for _, address in page.links}
    assert schemes <= {"", "https", "data"}


def test_no_mark_of_a_table_is_left(pages, site):
    for path in pages:
        assert "<!-- table:" not in path.read_text(encoding="utf-8"), path.relative_to(site)
