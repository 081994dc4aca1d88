"""The reference leaves nothing out: public names, verbs and their options, and what is known to be wrong."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import mtbench
from leaderboard.board import reported
from mtbench.cli import app as cli
from mtbench.data import catalog

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
TAGS = re.compile(r"<[^>]+>")


def text(path: Path) -> str:
    """Return what a page of the site says, tags taken out."""
    return html.unescape(TAGS.sub("", path.read_text(encoding="utf-8")))


def test_every_public_name_is_there():
    page = (REFERENCE / "python.md").read_text(encoding="utf-8")
    expected = {f"mtbench.{name}" for name in mtbench.__all__ if name != "__version__"}
    assert set(re.findall(r"\.\. auto\w+:: (\S+)", page)) == expected


def test_docstrings_reach_the_page(site):
    page = text(site / "reference" / "python.html")
    assert "Rank the triples to predict of a split, or the test triples of a dataset, and return the metrics" in page
    assert "batch_size: int = BATCH_SIZE" in page


def verbs(command, name: str) -> Iterator[tuple[str, object]]:
    """Return a command and all below it, each with what has to be typed."""
    yield name, command
    for verb, below in getattr(command, "commands", {}).items():
        yield from verbs(below, f"{name} {verb}")


def test_every_verb_and_option_is_in_the_command_reference(site):
    page = text(site / "reference" / "commands.html")
    found = list(verbs(typer.main.get_command(cli.make_app()), "mtbench"))
    assert len(found) > len(cli.VERBS)
    for name, command in found[1:]:
        _, heading, section = page.partition(f"\n{name}¶")
        assert heading, name
        section = section.partition("¶")[0]
        missing = [
            flag for option in command.params for flag in option.opts if flag[:2] == "--" and flag not in section
        ]
        assert missing == [], name


@pytest.mark.parametrize("name", catalog.names())
def test_every_defect_is_on_the_page_of_defects(name, site):
    page = text(site / "published.html")
    for defect in catalog.record(name).defects:
        assert " ".join(defect.split()) in " ".join(page.split())


def test_every_erratum_is_on_the_page_of_defects(site):
    page = text(site / "published.html")
    wrong = [cell for cell in reported.cells() if cell.erratum]
    assert wrong
    for cell in wrong:
        assert cell.erratum in page
        assert f"{cell.model} {cell.protocol} {cell.metric} {cell}" in page
