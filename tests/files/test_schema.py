"""Tables from outside: what is wrong is said in words, with its place, whatever form the table came in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from mtbench.errors import DatasetError, UsageError
from mtbench.files.schema import convert, read_toml


@dataclass(frozen=True)
class Stop:
    name: str
    minutes: int
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    id: str
    stops: tuple[Stop, ...]
    prices: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    ends: Mapping[str, Stop] = field(default_factory=dict)
    night: bool = False


GOOD = {"id": "u8", "stops": [{"name": "A", "minutes": 0}, {"name": "B", "minutes": 3, "also": ["b"]}]}


def changed(**keys: object) -> dict[str, object]:
    return {key: value for key, value in {**GOOD, **keys}.items() if value is not None}


def test_a_table_becomes_the_class_lists_become_tuples_and_nothing_is_coerced():
    prices = {"day": 1, "week": 9.0, "name": "3", "free": True}
    found = convert(changed(prices=prices, ends={"north": GOOD["stops"][0]}), Line, "here")
    assert found == Line("u8", (Stop("A", 0), Stop("B", 3, ("b",))), prices, {"north": Stop("A", 0)})
    assert [type(value) for value in found.prices.values()] == [int, float, str, bool]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed(nihgt=True), "here: unknown key 'nihgt': did you mean night?"),
        (changed(nihgt=True, id=None), "here: unknown key 'nihgt': did you mean night?"),
        (changed(stops=[{"nmae": "A", "minutes": 0}]), "here: stops.0: unknown key 'nmae': did you mean name?"),
        (
            changed(ends={"north": {"name": "A", "minutes": 0, "x": 1}}),
            "here: ends.north: unknown key 'x': known: also, minutes, name",
        ),
        (changed(id=None, stops=[{"name": "A"}]), "here: missing id, stops.0.minutes"),
        (changed(id=3), "here: id must be a valid string, not 3"),
        (changed(night="yes"), "here: night must be a valid boolean, not 'yes'"),
        (changed(stops="A"), "here: stops must be a valid array, not 'A'"),
        (
            changed(stops=[*GOOD["stops"], {"name": "C", "minutes": "5"}]),
            "here: stops.2.minutes must be a valid integer, not '5'",
        ),
        (
            changed(stops=[{"name": "C", "minutes": True}]),
            "here: stops.0.minutes must be a valid integer, not True",
        ),
        (
            changed(prices={"day": None}),
            "here: prices.day must be a valid integer or a valid number or a valid string or a valid boolean, not None",
        ),
        (changed(id=["x" * 99]), f"here: id must be a valid string, not ['{'x' * 58}..."),
        ([], "here: it must be an object, not []"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(table, message):
    with pytest.raises(DatasetError) as caught:
        convert(table, Line, "here")
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["id = ", b"id = '\xff'", f"id = {'9' * 5000}", "id = " + "[" * 5000])
def test_what_is_no_toml_is_said_with_the_error_asked_for(text):
    with pytest.raises(UsageError, match=r"^here: not valid TOML \("):
        read_toml(text, Line, "here", UsageError)


def test_toml_is_read():
    text = 'id = "u8"\n[[stops]]\nname = "A"\nminutes = 0\n[[stops]]\nname = "B"\nminutes = 3\nalso = ["b"]\n'
    assert read_toml(text, Line, "here") == convert(GOOD, Line, "here")
