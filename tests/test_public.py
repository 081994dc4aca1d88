"""The public names: there, lazy, and no module of the package has the name of one."""

import inspect
import tomllib
from pathlib import Path

import pytest
import toys

import mtbench

HEAVY = ("numpy", "pandas", "pyarrow", "scipy", "torch", "rich", "typer")


def run(script: str) -> str:
    output, errors = toys.python("-c", script).communicate()
    assert not errors
    return output


@pytest.mark.parametrize("name", mtbench.__all__)
def test_every_public_name_is_there(name):
    assert getattr(mtbench, name) is not None
    assert name in dir(mtbench)


def test_names_are_listed_before_they_are_used():
    assert run("import mtbench; print(set(mtbench.__all__) - set(dir(mtbench)))") == "set()\n"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'laod'"):
        _ = mtbench.laod


def test_the_version_is_the_projects():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert mtbench.__version__ == project.get("version", mtbench.__version__)


@pytest.mark.parametrize("statement", ["import mtbench", "from mtbench.cli import app as cli; cli.make_app"])
def test_importing_the_package_imports_nothing_heavy(statement):
    heavy = HEAVY if "cli" not in statement else HEAVY[:5]
    script = f"import sys; {statement}; print(sorted(set(sys.modules) & set({heavy})))"
    assert run(script) == "[]\n"


def test_help_imports_no_arrays():
    script = (
        "import sys; from mtbench.cli import app as cli\n"
        "try: cli.main(['--help'])\n"
        f"finally: print(sorted(set(sys.modules) & set({HEAVY[:5]})))"
    )
    assert run(script).endswith("\n[]\n")


def test_build_shows_its_parameters():
    assert list(inspect.signature(mtbench.build).parameters) == ["name", "seed", "out", "force", "raw", "parameters"]
