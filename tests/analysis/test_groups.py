import math

import numpy as np
import pytest
from scipy import stats

from mtbench.analysis.groups import mean_over, p_value_over
from mtbench.errors import UsageError

VALUES = {"a": 0.2, "b": 0.5, "c": 0.35, "d": 0.9}


def test_the_interval_over_graphs_is_students():
    group = mean_over(VALUES)
    numbers = list(VALUES.values())
    interval = stats.t.interval(0.95, 3, np.mean(numbers), stats.sem(numbers))
    assert (group.mean, group.low, group.high) == pytest.approx((np.mean(numbers), *interval))
    assert str(group) == f"{group.mean:.4f} [{group.low:.4f}, {group.high:.4f}]"


def test_two_models_are_compared_graph_by_graph():
    better = {name: value + 0.1 + 0.01 * number for number, (name, value) in enumerate(VALUES.items())}
    lift = mean_over(better, VALUES, level=0.9)
    tested = stats.ttest_rel(list(better.values()), list(VALUES.values()))
    interval = tested.confidence_interval(0.9)
    assert (lift.low, lift.high) == pytest.approx((interval.low, interval.high))
    assert p_value_over(list(better.values()), list(VALUES.values())) == pytest.approx(tested.pvalue)


def test_a_difference_on_one_graph_or_none_at_all_tells_nothing():
    assert p_value_over([0.5], [0.1]) == p_value_over([0.5, 0.25], [0.5, 0.25]) == 1.0
    assert p_value_over([0.5, 0.25], [0.375, 0.125]) == 0.0


def test_a_single_graph_has_a_mean_and_no_interval():
    assert (str(mean_over({"a": 0.25})), mean_over({"a": 0.25}).high) == ("0.2500", math.inf)


@pytest.mark.parametrize(("values", "less", "message"), [({}, None, "at least one"), (VALUES, {"a": 1.0}, "b, c, d")])
def test_a_mean_needs_graphs_and_a_difference_the_same_ones(values, less, message):
    with pytest.raises(UsageError, match=message):
        mean_over(values, less)
