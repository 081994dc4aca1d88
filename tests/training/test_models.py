import importlib.metadata

import numpy as np
import pytest
import thirdparty
import toys

from mtbench.errors import MissingExtraError, UnknownNameError, UsageError
from mtbench.training import models


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        *(("mtdae", "did you mean .*mtdea"), ("ISDEA", "did you mean .*isdea"), ("isdea2", "did you mean .*isdea")),
        ("zzz", r"known: .*isdea.*mtdea.*; one that is not installed is package\.module:factory"),
    ],
)
def test_an_unknown_model_is_answered_with_the_nearest_or_all_of_them(name, answer):
    with pytest.raises(UnknownNameError, match=f"unknown model '{name}': {answer}"):
        models.factory(name)


def test_a_model_is_found_by_module_and_name(monkeypatch, tmp_path):
    module = thirdparty.install(monkeypatch, tmp_path)
    make = models.factory(f"{thirdparty.NAME}:Hashing")
    assert isinstance(make(models.Context("toy")), module.Hashing)


class Attributes:
    """What a model was before `Model`: it tells of itself in attributes."""

    name, regime, device, hyperparameters = "old", "zero-shot", "cpu", None

    def __init__(self, context):
        pass

    def fit(self, train, valid):
        pass

    def scorer(self, observable):
        pass


class Unnamed(Attributes, models.Model):
    """Lacks its info."""


@pytest.mark.parametrize("kind", [Attributes, Unnamed])
def test_what_is_no_model_is_refused_with_what_to_write(kind):
    make = models.factory(f"{__name__}:{kind.__name__}")
    message = f"makes {kind.__name__}, which is no model: derive it from mtbench.training.models.Model and set info = "
    with pytest.raises(UsageError, match=message):
        make(models.Context("toy"))


def test_what_a_model_tells_of_itself_is_checked():
    with pytest.raises(UnknownNameError, match="unknown regime 'zeroshot': did you mean zero-shot"):
        models.ModelInfo("mine", "zeroshot")
    for wrong, message in (
        ({"pretraining_graphs": "wikidata5m"}, "mine: pretraining_graphs must be a list of names of graphs, not 'wiki"),
        ({"pretraining_graphs": [1]}, "mine: pretraining_graphs must be a list of names of graphs, not \\[1\\]"),
        ({"name": ""}, "name must not be empty"),
        ({"name": 5}, "name must be a text, not 5"),
        ({"device": None}, "device must be a text, not None"),
        ({"hyperparameters": [("width", 3)]}, "hyperparameters must be a mapping"),
        ({"hyperparameters": {"width": np.int64(3)}}, "'width' is .*3.*, of type int64"),
        ({"hyperparameters": {"rate": float("nan")}}, "'rate' is nan, of type float"),
        ({"trained_as": {"depth": None}}, "trained_as must be texts, .*: 'depth' is None"),
    ):
        with pytest.raises(UsageError, match=message):
            models.ModelInfo(**{"name": "mine", **wrong})
    with pytest.raises(TypeError, match="pretrained"):
        models.ModelInfo("mine", pretrained=["wikidata5m"])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("somebodys_models:missing", "cannot import the model 'somebodys_models:missing' .*no attribute 'missing'"),
        ("nobodys_models:make", "cannot import the model 'nobodys_models:make' .*No module named 'nobodys_models'"),
        ("somebodys_models:number", "'somebodys_models:number' is of type int, not a function that makes a model"),
        ("somebodys_models:", "'somebodys_models:' does not name a model"),
        (":make", "':make' does not name a model"),
        (".models:make", "'.models:make' does not name a model"),
        ("models.py:make()", r"'models\.py:make\(\)' does not name a model"),
        ("a:b:c", "'a:b:c' does not name a model"),
    ],
)
def test_a_path_that_leads_nowhere_is_one_clear_error(monkeypatch, tmp_path, path, message):
    thirdparty.install(monkeypatch, tmp_path)
    with pytest.raises(UsageError, match=f"^{message}.*expected package.module:factory"):
        models.factory(path)


def test_an_error_inside_somebodys_module_says_where(monkeypatch, tmp_path):
    (tmp_path / "faulty_models.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match=r"ZeroDivisionError: division by zero .*faulty_models\.py, line 1") as raised:
        models.factory("faulty_models:make")
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


class Entry:
    """An entry point that needs a library which is not there."""

    def __init__(self, library):
        self.name, self.library = "needy", library

    def load(self):
        raise ModuleNotFoundError(f"No module named {self.library!r}", name=self.library)


@pytest.mark.parametrize("library", ["torch", "torch_geometric", "safetensors"])
def test_a_model_whose_library_is_missing_names_the_command_that_installs_it(monkeypatch, library):
    monkeypatch.setattr(models, "entry_points", lambda group: [Entry(library)])
    with pytest.raises(MissingExtraError, match=rf'{library} is not installed.*pip install "mtbench-kg\[models\]"'):
        models.factory("needy")


def test_another_missing_library_is_not_taken_for_ours(monkeypatch):
    monkeypatch.setattr(models, "entry_points", lambda group: [Entry("numpyy")])
    with pytest.raises(ModuleNotFoundError, match="numpyy"):
        models.factory("needy")


BLOCKED = """
import sys
sys.modules["torch"] = None
from mtbench.cli.app import main
for name in sys.argv[1:]:
    try:
        main(["run", name, "--dataset", "metafam"])
    except SystemExit as stopped:
        assert stopped.code == 2, stopped.code
"""


def test_without_torch_a_reference_model_asks_for_the_extra(tmp_path):
    where, names = {"MTBENCH_CACHE": str(tmp_path / "cache")}, ["ingram", "isdea", "mtdea", "nbfnet-homo"]
    process = toys.python("-c", BLOCKED, *names, cwd=tmp_path, env=where)
    printed, errors = process.communicate()
    assert (process.returncode, printed) == (0, ""), errors
    for name, line in zip(names, errors.splitlines(), strict=True):
        assert line.startswith(f"error: model {name} (torch is not installed) needs the extra")
        assert 'python -m pip install "mtbench-kg[models]"' in line
    assert list(tmp_path.iterdir()) == []


def test_the_entry_points_are_those_of_the_package_and_are_listed_by_name():
    points = importlib.metadata.entry_points(group=models.GROUP)
    own = {point.name for point in points if point.value.startswith("reference_models.")}
    assert own == {"deq-ingram", "ingram", "isdea", "isdea-homo", "mtdea", "mtdea-search", "nbfnet-homo"} | {
        "tally",
        "tally-3g",
        "tally-adapted",
        "tally-foundation",
        "tally-open",
    }
    assert models.names() == sorted(point.name for point in points)
