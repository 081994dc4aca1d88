"""Tables from outside, TOML or JSON, as the classes that declare their keys: one reader, one way to say what is wrong.

The classes are plain frozen dataclasses; pydantic reads their annotations. It is imported when a table is read, so
that whatever only names a class stays light.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

from mtbench.errors import DatasetError, UnknownNameError

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

Kind = TypeVar("Kind")
LONGEST = 60
"""Characters of a wrong value that a message repeats."""


def read_toml(
    text: str | bytes, kind: type[Kind], where: str, error: Callable[[str], Exception] = DatasetError
) -> Kind:
    """Return what TOML says as a dataclass; ``error`` is raised as in `convert`, also for text that is no TOML."""
    try:
        table = tomllib.loads(text if isinstance(text, str) else text.decode())
    except ValueError as wrong:  # also bytes that are no text, and a number of thousands of digits
        raise error(f"{where}: not valid TOML ({wrong})") from wrong
    except RecursionError as wrong:
        raise error(f"{where}: not valid TOML (nested too deeply)") from wrong
    return convert(table, kind, where, error)


def convert(table: object, kind: type[Kind], where: str, error: Callable[[str], Exception] = DatasetError) -> Kind:
    """Return a table of texts, numbers, lists and tables as a dataclass, nested ones included.

    Nothing is coerced: ``"5"`` is no number and ``true`` is no 1; lists become tuples where the class has tuples.
    An unknown, missing or mistyped key raises ``error``, which names ``where``, the key's path and what was expected,
    and proposes the key that looks like an unknown one.
    """
    from pydantic import ValidationError

    try:
        # By way of JSON, where lists may stand for tuples although nothing else is coerced.
        declared: Any = kind
        reader: TypeAdapter[Kind] = _reader(declared)
        return reader.validate_json(json.dumps(table, default=str), strict=True, extra="forbid")
    except ValidationError as wrong:
        raise error(f"{where}{': ' * bool(where)}{_told(kind, table, wrong.errors(include_url=False))}") from wrong


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _told(kind: type, table: object, errors: Sequence[ErrorDetails]) -> str:
    """Return what is wrong in one sentence: the unknown key first, then all that are missing, then the first value."""
    by_type: dict[str, list[ErrorDetails]] = {}
    for each in errors:
        by_type.setdefault(each["type"], []).append(each)
    if unknown := by_type.get("extra_forbidden", by_type.get("unexpected_keyword_argument")):
        *inside, key = unknown[0]["loc"]
        return f"{_prefix(inside)}{UnknownNameError('key', str(key), _keys(kind, inside))}"
    if missing := by_type.get("missing"):
        return f"missing {', '.join(sorted('.'.join(map(str, each['loc'])) for each in missing))}"
    place, given = _place(table, errors[0]["loc"]), repr(errors[0]["input"])
    # A value that may be of several kinds has an error for each.
    kinds = dict.fromkeys(each["msg"] for each in errors if _place(table, each["loc"]) == place)
    expected = " or ".join(re.sub("^(Input should be|Value error, must be) ", "", message) for message in kinds)
    return f"{place or 'it'} must be {expected}, not {given if len(given) <= LONGEST else given[:LONGEST] + '...'}"


def _place(table: Any, steps: Sequence[Any]) -> str:
    """Return the path of a value in the table; steps that name a kind the value may be of are none in the table."""
    found = []
    for step in steps:
        if (isinstance(table, dict) and step in table) or (isinstance(table, list | tuple) and type(step) is int):
            table = table[step]
            found.append(str(step))
    return ".".join(found)


def _prefix(place: Sequence[int | str]) -> str:
    return f"{'.'.join(map(str, place))}: " if place else ""


def _keys(kind: Any, place: Sequence[int | str]) -> list[str]:
    """Return the keys that a class has at a place inside of it."""
    for step in place:
        if dataclasses.is_dataclass(kind):
            kind = get_type_hints(kind)[str(step)]
        else:  # a list, a tuple or a mapping: what it holds
            kind = next(one for one in reversed(get_args(kind)) if one is not Ellipsis)
    return [each.name for each in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
