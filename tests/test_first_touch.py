"""What a newcomer sees first: a dataset printed, a result printed, and evaluating on a name."""

import pytest
import released
from ranking_toys import hashed

import mtbench
from mtbench.analysis.overview import tasks_table
from mtbench.errors import UnknownNameError, UsageError

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


class Scorer:
    def score(self, triples):
        return hashed(triples)


def mine(triples):
    return hashed(triples, 40)


@pytest.fixture(scope="module")
def data():
    return released.derived("metafam")


def test_a_dataset_is_printed_in_ten_lines(data):
    shown = repr(data)
    assert len(shown.splitlines()) <= 10
    assert max(map(len, shown.splitlines())) <= 160
    assert shown.startswith("metafam 1.0.0: Family trees")
    assert [line.split()[0] for line in shown.splitlines()[4:7]] == ["train", "valid", "test"]
    assert f"{len(data.train.graph):,}" in shown
    assert len(repr(data.test)) < 120
    assert "<table>" in data._repr_html_()


def test_a_dataset_and_its_name_stand_for_its_test_split(data):
    wanted = mtbench.evaluate(mine, data.test)
    for source in (data, "metafam"):
        found = mtbench.evaluate(mine, source)
        assert (found.metrics, found.dataset_version) == (wanted.metrics, "1.0.0")
    with pytest.raises(UsageError, match="NoneType is nothing to evaluate on: pass a dataset, its name, "):
        mtbench.evaluate(mine, None)
    with pytest.raises(UnknownNameError, match="did you mean metafam"):
        mtbench.evaluate(mine, "metafma")


def test_a_result_is_printed_in_four_rows(data):
    result = mtbench.evaluate(mine, data)
    assert repr(result) == str(result)
    table = str(result).split("\n\n")[1].splitlines()
    labels = [line.split("  ")[0] for line in table[2:6]]
    assert labels == ["mine", "best heuristic baseline: inverse visible", "chance", "pessimistic to optimistic"]
    assert f"{result.pessimistic['mrr']:.4f} to {result.optimistic['mrr']:.4f}" in table[5]
    assert [line for line in table[6:] if not line.startswith("warning: ")] == []
    every = result.table("all")
    assert "ties optimistic" in every
    assert every == result.table()
    assert result.text("all").endswith("\n".join([every, *(f"warning: {one}" for one in result.warnings)]))
    assert result.table("short", "markdown").startswith("|")
    with pytest.raises(UnknownNameError, match="unknown rows of a result 'markdown': known: all, short"):
        result.table("markdown")


def test_several_tasks_have_a_line_each(data):
    found = [mtbench.evaluate(mine, data, protocol) for protocol in ("dual", "entity")]
    lines = tasks_table(found).splitlines()
    assert [line.split("  ")[0] for line in lines[2:]] == ["dual, present", "entity, present"]
    assert f"inverse visible {found[0].baselines['inverse_visible']['mrr']:.4f}" in lines[2]


@pytest.mark.parametrize(
    ("scorer", "name"), [(mine, "mine"), (Scorer(), "Scorer"), (lambda triples: mine(triples), "unnamed")]
)
def test_a_model_is_called_what_its_scorer_is(data, scorer, name):
    assert mtbench.evaluate(scorer, data).run.model == name


def test_a_notebook_shows_the_same_four_rows_as_a_table(data):
    result = mtbench.evaluate(mine, data)
    shown = result._repr_html_()
    assert shown.count("<tr>") == 5
    assert "<td>best heuristic baseline: inverse visible" in shown
    assert all(f"{result.metrics[name]:.4f}" in shown for name in ("mrr", "hits@10"))
