"""What the tests of the leaderboard share."""

from pathlib import Path

import pytest
import site_toys

from leaderboard.site import render


@pytest.fixture(scope="session")
def toy_entries(once) -> Path:
    """The folder of toy entries; nobody changes it."""
    return once("toy-entries", site_toys.make)


@pytest.fixture(scope="session")
def toy_board(toy_entries, shared):
    """The board of the toy entries."""
    with site_toys.offline(shared / "cache-offline"):
        return site_toys.board(toy_entries)


@pytest.fixture(scope="session")
def toy_site(toy_entries, toy_board, once, shared) -> Path:
    """The rendered site of the toy entries; nobody changes it."""
    pytest.importorskip("jinja2")
    with site_toys.offline(shared / "cache-offline"):
        return once("toy-site", lambda folder: render.render(toy_board, toy_entries, folder))
