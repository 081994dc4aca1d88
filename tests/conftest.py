"""Fixtures every test may use; what needs PyTorch is left out where there is none, and what is skipped is said."""

import ast
import copyreg
import gc
import json
import os
import pickle
import shutil
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType

import pytest
import thirdparty
import toys
from filelock import FileLock
from hypothesis import HealthCheck, settings

from leaderboard.entries import checks
from leaderboard.entries.checks import Examined
from mtbench.cli import app as cli
from mtbench.training import models

# How long a draw takes says how busy the machine is, nothing about the code.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

PUBLISHED = Path(__file__).resolve().parents[1] / "leaderboard" / "results"
TORCH = find_spec("torch") is not None
FRAMEWORKS = {"torch", "pyg", "pykeen"}
"""Fixtures of libraries that bring PyTorch, or need it."""
collect_ignore = (
    []
    if TORCH
    else [
        "reference_models",
        "adapters/test_adapter_pages.py",
        "leaderboard/external",
        "leaderboard/grid/test_grid_ray.py",
    ]
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the long tests first; leave out those that need PyTorch where it is not installed: `tox -e models` has it."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    if not TORCH:
        left = [item for item in items if FRAMEWORKS & set(getattr(item, "fixturenames", ()))]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def pytest_collection_finish() -> None:
    """Leave out of every collection of garbage what is there until the end: tests and modules."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what no test has looked at here: why, and what it would have protected, which is what its module is about."""
    skipped: dict[str, Counter[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        skipped.setdefault(reason, Counter())[report.nodeid.partition("::")[0]] += 1
    for reason, modules in sorted(skipped.items(), key=lambda pair: -pair[1].total()):
        terminalreporter.write_line(f"skipped: {modules.total()} {reason}")
        for module, count in modules.most_common():
            source = terminalreporter.config.rootpath / module
            promise = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
            terminalreporter.write_line(f"  {count} of {module}: {promise.partition(chr(10))[0]}")
    if not TORCH:
        terminalreporter.write_line("skipped: what needs torch is left to tox -e models")
    elif not skipped:
        terminalreporter.write_line("skipped: nothing")


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk():
    """Nothing is made durable here but where a test looks at just that, as those of the store do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _settings(shared):
    """A test that sets none has these, in its child processes too: a cache of the tests, no mirror, no network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTBENCH_CACHE", str(shared / "cache"))
        patch.delenv("MTBENCH_MIRROR", raising=False)
        patch.setenv("MTBENCH_OFFLINE", "1")
        yield


@pytest.fixture(scope="session", autouse=True)
def _models_read_once():
    """Finding which models are installed takes longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "entry_points", cache(entry_points))
        yield


@pytest.fixture
def command(capsys) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; returns exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return call


@pytest.fixture
def toy_cache(monkeypatch, tmp_path) -> Path:
    """Put the toy into the catalogue, and give the test a cache of its own; returns where the toy is stored there."""
    toys.install(monkeypatch.setattr)
    monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "datasets" / "toy" / "2.0.0"


@pytest.fixture
def somebodys_models(toy_cache, monkeypatch, tmp_path) -> ModuleType:
    """Return the models that somebody else's package would bring; the toy is in the catalogue."""
    (tmp_path / "elsewhere").mkdir()
    return thirdparty.install(monkeypatch, tmp_path / "elsewhere")


@pytest.fixture
def printed(command) -> Callable[..., str]:
    """Run a command that must succeed without a word on stderr; returns what it prints."""

    def call(*arguments: object) -> str:
        code, out, err = command(*arguments)
        assert (code, err) == (0, "")
        return out

    return call


@pytest.fixture
def listed(printed) -> Callable[..., object]:
    """Run a command that must succeed; returns what it gives as JSON."""
    return lambda *arguments: json.loads(printed(*arguments, "--json"))


@pytest.fixture
def refused(command) -> Callable[..., str]:
    """Run a command that is wrong usage, which must print nothing; returns what it says on stderr."""

    def call(*arguments: object) -> str:
        code, out, err = command(*arguments)
        assert (code, out) == (2, "")
        return err

    return call


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Path:
    """The folder that all workers of this run have in common."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def once(shared) -> Callable[[str, Callable[[Path], object]], Path]:
    """Return a function that gives a folder by name, filled by whichever worker asks first; nobody may change it."""

    def folder(name: str, fill: Callable[[Path], object]) -> Path:
        place = shared / name
        with FileLock(shared / f"{name}.lock"):
            if not place.exists():
                begun = shared / f"{name}-begun"
                shutil.rmtree(begun, ignore_errors=True)
                fill(begun)
                begun.rename(place)
        return place

    return folder


@pytest.fixture
def examined(once, monkeypatch) -> list[Examined]:
    """Have each entry of the repository examined once for all tests; returns what was found, as it is asked for."""
    examine, asked = checks.examine, []
    copyreg.pickle(MappingProxyType, lambda proxy: (dict, (dict(proxy),)))  # a record has some

    def write(folder: Path, directory: Path) -> None:
        folder.mkdir()
        (folder / "found").write_bytes(pickle.dumps(examine(directory)))

    def found(directory: Path) -> Examined:
        if directory.resolve().parent != PUBLISHED:
            return examine(directory)
        folder = once(f"examined-{directory.name}", lambda place: write(place, directory))
        asked.append(pickle.loads((folder / "found").read_bytes()))
        return asked[-1]

    monkeypatch.setattr(checks, "examine", found)
    return asked


@pytest.fixture(scope="session")
def torch():
    """PyTorch, with one thread: the tests' tensors are small."""
    module = pytest.importorskip("torch")
    module.set_num_threads(1)
    return module


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of released files, laid out as HOST/PATH; tests that need it are skipped without it."""
    default = Path(__file__).resolve().parents[1] / ".." / "shared" / "mirror"
    folder = Path(os.environ.get("MTBENCH_TEST_MIRROR", default)).resolve()
    if not folder.is_dir():
        pytest.skip(f"no released files at {folder}: set MTBENCH_TEST_MIRROR to a folder laid out as HOST/PATH")
    return folder


@pytest.fixture(scope="session")
def excerpt() -> Path:
    """A file of 1.2 million lines of Wikidata5M; tests that need it are skipped without it."""
    default = Path(__file__).resolve().parents[1] / ".." / "shared" / "dumps" / "wikidata5m_excerpt.txt.gz"
    path = Path(os.environ.get("MTBENCH_TEST_DUMP", default)).resolve()
    if not path.exists():
        pytest.skip(f"no excerpt of Wikidata5M at {path}: set MTBENCH_TEST_DUMP to one")
    return path
