"""The house: imports point down the list of docs/house.md, without a circle.

Every import counts, also one inside a function or for types alone.
"""

import ast
import importlib.util
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from html import unescape
from pathlib import Path

import pytest

import mtbench

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("leaderboard", "reference_models", "mtbench")
FILES = sorted(path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MODULES = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}

spec = importlib.util.spec_from_file_location("house", ROOT / "docs" / "house.py")
assert spec is not None
assert spec.loader is not None
house = importlib.util.module_from_spec(spec)
spec.loader.exec_module(house)
FLOORS = {
    house.path(package, room).relative_to(ROOT): number
    for number, (package, rooms) in enumerate(reversed(house.floors()))
    for room in rooms
}


@cache
def imports(path: Path, text: str | None = None) -> list[Path]:
    """Return the files of this project that a file imports, wherever in it the import stands."""
    every: list[Path] = []
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8") if text is None else text)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: a relative import"
            for alias in node.names:
                found = MODULES.get(f"{node.module}.{alias.name}", MODULES.get(node.module or ""))
                if found is not None:
                    every.append(found)
        elif isinstance(node, ast.Import):
            every += [MODULES[alias.name] for alias in node.names if alias.name in MODULES]
    return every


def floor(path: Path) -> int:
    """Return the floor of a file: that of the innermost room it is in."""
    return next(FLOORS[place] for place in (path, *path.parents) if place in FLOORS)


def room(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place in FLOORS)


def runs_up(path: Path, found: Path) -> bool:
    return floor(found) >= floor(path) and room(found) != room(path)


def test_the_list_names_what_there_is():
    for place in FLOORS:
        assert (ROOT / place).exists()
    unplaced = [str(path) for path in FILES if path.name != "__init__.py" and not {path, *path.parents} & set(FLOORS)]
    assert unplaced == []


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_down_the_list(package):
    up = [
        f"{path} -> {found}"
        for path in FILES
        if path.parts[0] == package
        for found in imports(path)
        if runs_up(path, found)
    ]
    assert up == []


def test_no_files_import_each_other_in_a_circle():
    graph = {path: {found for found in imports(path) if found != path} for path in FILES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(map(str, error.args[1])))


def test_imports_inside_functions_and_for_types_count():
    text = "def f():\n    from mtbench.evaluation import tasks\nif TYPE_CHECKING:\n    import leaderboard.board.board\n"
    path = Path("mtbench/data/store.py")
    assert [str(found) for found in imports(path, text) if runs_up(path, found)] == [
        "mtbench/evaluation/tasks.py",
        "leaderboard/board/board.py",
    ]


def test_no_module_has_the_name_of_a_public_function():
    assert {name: str(MODULES[name]) for name in MODULES if name.split(".")[-1] in mtbench.__all__} == {}


def test_the_picture_is_of_the_list():
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", house.PICTURE.read_text(encoding="utf-8"))
    lines = [line for _, rooms in house.told() for room in rooms for line in room]
    assert list(map(unescape, shown)) == lines, "run python docs/house.py"


def test_the_ways_of_the_page_lead_somewhere():
    page = house.PAGE.read_text(encoding="utf-8")
    places = re.findall(r"`((?:[a-z_]+/)+[a-z_.]*|[a-z_]+/[a-z_]+\.py)`", page)
    assert len(places) > 10
    for place in places:
        assert any((ROOT / base / place).exists() for base in (".", "mtbench", "leaderboard")), place
