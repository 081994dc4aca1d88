"""What is built of a checkout: the same bytes every time, what a user needs, and nothing of other people's data.

The builds need the package `build` and its back end: tox's environment ``core`` has them.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

# Asked for as a distribution: tests/build can be imported under the same name.
if not {"build", "hatchling"} <= {found.name for found in metadata.distributions()}:
    pytest.skip("build and hatchling are not installed here; tox -e core has them", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
DATA = (".parquet", ".txt", ".tsv", ".csv", ".npz", ".gz", ".safetensors", ".png")
LARGEST = 1_000_000
RESULTS = "leaderboard/results/"
ENTRY = RESULTS + "isdea/"
"""The one entry of the leaderboard that is among what is built: what becomes of it becomes of all."""
EXCLUDED = tuple(f"leaderboard/{name}/" for name in ("results", "replication", "transfer"))
HOOKS = "import sys; from hatchling import build; build.build_sdist(sys.argv[1]); build.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def built(once):
    """Return the folders of wheel and sdist from two copies of the tracked files."""
    folder = once("built", build)
    return [folder / name for name in ("out1", "out2")]


def tracked():
    """Return the names of the files of the repository."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True).stdout
    return [name for name in listed.decode().split("\0") if name]


def build(folder):
    """Build from copies that are made at other times and with other permissions."""
    copied = [name for name in tracked() if name.startswith(ENTRY) or not name.startswith(RESULTS)]
    for number in (1, 2):
        copy = folder / f"copy{number}" / "mtbench"
        for name in copied:
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)
            target.chmod(0o644 if number == 1 else 0o664)
        out = folder / f"out{number}"
        build = ["-m", "build", "--no-isolation", "--skip-dependency-check", "-o", out, "."]
        # Its wheel is of the tree, not of the sdist.
        hooks = ["-c", HOOKS, out]
        subprocess.run([sys.executable, *(build if number == 1 else hooks)], cwd=copy, check=True)


def only(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_the_same_sources_give_the_same_bytes(built, pattern):
    first, second = (hashlib.sha256(only(folder, pattern).read_bytes()).hexdigest() for folder in built)
    assert first == second


def test_the_wheel_has_the_packages_their_types_and_no_data(built):
    with zipfile.ZipFile(only(built[0], "*.whl")) as wheel:
        names = {info.filename: info.file_size for info in wheel.infolist()}
    packages = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert packages == {"mtbench", "reference_models", "leaderboard"}
    assert {f"{package}/py.typed" for package in packages} <= set(names)
    assert not [name for name in names if name.startswith(EXCLUDED)]
    assert {"mtbench/data/records/metafam.toml", "reference_models/recipes/mtdea.toml"} <= set(names)
    assert {"leaderboard/board/paper.json"} <= set(names)
    metadata = ("entry_points.txt", "top_level.txt")
    assert all(
        names.pop(f"reference_models/weights/{name}.safetensors") < 100_000
        for name in ("tally", "tally-3g", "tally-open")
    )
    assert not [name for name in names if name.endswith(DATA) and not name.endswith(metadata)]
    assert sum(names.values()) < 4 * LARGEST


def test_the_sdist_has_the_tests_and_papers_of_the_project_but_no_large_file(built):
    with tarfile.open(only(built[0], "*.tar.gz")) as sdist:
        sizes = {member.name.partition("/")[2]: member.size for member in sdist.getmembers()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "tox.ini"} <= set(sizes)
    assert {"tests/conftest.py", "constraints.txt"} <= set(sizes)
    assert any(name.startswith(ENTRY) for name in sizes)
    assert max(*sizes.values(), *((ROOT / name).stat().st_size for name in tracked())) < LARGEST
