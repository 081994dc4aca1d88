"""``mtbench check`` as it is typed, with scorers that lie in the working directory."""

import sys
import textwrap

import pytest

NAME = "somebodys_scorers"
SOURCE = """
    import numpy as np

    from mtbench.training import models

    def by_degree(split):
        degree = np.bincount(split.graph[:, 2], minlength=split.num_entities)
        return lambda triples: degree[triples[:, 2]] + 0.01 * degree[triples[:, 0]]

    def by_id(split):
        return lambda triples: -1.0 * triples[:, 2]

    def score(triples):
        return triples @ np.array([0.3, 0.1, 1.0])

    number = 3

    class Model:
        def fit(self, train, valid): ...
        def scorer(self, observable): ...

    class Mine(models.Model):
        def __init__(self, context):
            self.info = models.ModelInfo("mine")

        def fit(self, train, valid):
            self.weight = 1 / len(train.graph)

        def scorer(self, observable):
            degree = np.bincount(observable.graph[:, 2], minlength=observable.num_entities) + self.weight
            return lambda triples: degree[triples[:, 2]] + 0.01 * degree[triples[:, 0]]

    def broken(triples):
        return 1 / 0

    def of_nothing():
        return score
"""


@pytest.fixture(autouse=True)
def module(monkeypatch, tmp_path):
    (tmp_path / f"{NAME}.py").write_text(textwrap.dedent(SOURCE), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    yield
    sys.modules.pop(NAME, None)


def test_a_sound_scorer_passes(printed):
    out = printed("check", f"{NAME}:by_degree")
    assert "entity names     pass      exactly the same scores" in out
    assert out.endswith(f"{NAME}:by_degree on synthetic, 40 triples to rank: 10 pass, 0 fail, 0 not applicable\n")


def test_a_model_is_trained_and_then_checked(printed):
    out = printed("check", f"{NAME}:Mine")
    assert out.endswith(f"{NAME}:Mine on metafam, 100 triples to rank: 10 pass, 0 fail, 0 not applicable\n")


def test_a_module_beside_us_is_found_before_one_of_the_same_name(run, monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / f"{NAME}.py").write_text("by_degree = None\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    assert run("check", f"{NAME}:by_degree")[0] == 0


def test_a_failed_check_is_exit_code_1(run):
    code, out, _ = run("check", f"{NAME}:by_id")
    assert code == 1
    assert "entity names     fail      scores differ by up to 5" in out
    assert out.endswith("9 pass, 1 fail, 0 not applicable\n")


def test_json_on_a_dataset(listed):
    payload = listed("check", f"{NAME}:score", "--dataset", "toy")
    assert (payload["scorer"], payload["dataset"], payload["ok"]) == (f"{NAME}:score", "toy", True)
    assert len(payload["checks"]) == 10
    first = {"check": "shape and type", "verdict": "pass", "message": "one real number per triple"}
    assert payload["checks"][0] == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'MODULE:SCORER'"),
        (("mtdea",), "'mtdea' does not name a scorer: expected package.module:name"),
        ((f"{NAME}:by_degre",), "has no attribute 'by_degre'"),
        ((f"{NAME}.py:by_degree",), f"No module named '{NAME}.py'"),
        ((f"{NAME}:number",), "int cannot score"),
        (("wrong:score",), "cannot import the scorer 'wrong:score': RuntimeError: no ("),
        (("unfinished:score",), "cannot import the scorer 'unfinished:score': SyntaxError: "),
        ((f"{NAME}:score", "--dataset", "tyo"), "unknown dataset or directory 'tyo': did you mean toy"),
    ],
)
def test_wrong_usage(refused, arguments, message, tmp_path):
    (tmp_path / "wrong.py").write_text('raise RuntimeError("no")', encoding="utf-8")
    (tmp_path / "unfinished.py").write_text("def (", encoding="utf-8")
    assert message in refused("check", *arguments)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", "broken raised ZeroDivisionError: division by zero ("),
        ("of_nothing", "calls its parameter 'triples' ("),
    ],
)
def test_what_a_scorer_raises_is_one_error(run, name, message):
    code, out, err = run("check", f"{NAME}:{name}")
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
