"""What a release says of itself: the files that others read about it agree, and no data but ours is in it."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import mtbench
from mtbench.data import catalog

ROOT = Path(__file__).resolve().parents[2]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


PROJECT = tomllib.loads(text("pyproject.toml"))["project"]
CITATION, ZENODO = yaml.safe_load(text("CITATION.cff")), json.loads(text(".zenodo.json"))


def person(author):
    """Return a name as one says it, of one for citations (two fields) or for Zenodo (``Family, Given``)."""
    if "family-names" in author:
        return f"{author['given-names']} {author['family-names']}"
    return " ".join(reversed(author["name"].split(", ")))


@pytest.mark.parametrize(
    "told",
    [
        [
            mtbench.__version__,
            str(CITATION["version"]),
            ZENODO["version"],
            re.search(r"^## ([\d.]+)", text("CHANGELOG.md"), re.M)[1],
        ],
        [PROJECT["license"], CITATION["license"], ZENODO["license"], text("LICENSE").partition(" ")[0]],
        [list(map(person, authors)) for authors in (PROJECT["authors"], CITATION["authors"], ZENODO["creators"])],
        [PROJECT["keywords"], CITATION["keywords"], ZENODO["keywords"]],
        [
            CITATION["title"],
            ZENODO["title"],
            f"mtbench: {PROJECT['description'][0].lower()}{PROJECT['description'][1:]}",
        ],
        [CITATION["abstract"], ZENODO["description"]],
    ],
    ids=["version", "licence", "authors", "keywords", "title", "description"],
)
def test_the_files_that_describe_a_release_agree(told):
    assert told == [told[0]] * len(told)


@pytest.mark.parametrize(
    "command", [r"mtbench export (\S+) --format croissant", r"mlcroissant validate --jsonld dist/croissant/(\S+)/"]
)
def test_a_release_has_the_data_that_may_be_shared_and_no_other(command):
    assert re.findall(command, text("tox.ini")) == sorted(catalog.generated())
