"""A grid declared in a file, ``grid.toml``, checked key by key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from leaderboard.grid.jobs import Chosen, Grid
from mtbench.errors import UnknownNameError, UsageError

Kind = TypeVar("Kind")
_WORDS = {str: "a text", int: "a whole number, 0 or more", bool: "true or false", dict: "a table"}


def read(path: Path) -> Grid:
    """Return the grid a file declares.

    The file has the list ``datasets`` and tables ``[models.LABEL]`` with ``model`` and, if need be, ``set``; where a
    dataset needs other settings, ``[models.LABEL.datasets.NAME]`` with ``set``. The lists ``seeds``, ``protocols``
    and ``vocabularies`` and the values ``paper``, ``without_names`` and ``candidate_seed`` may be left out. Raises
    `UsageError` naming the file, the key and what was expected there.
    """
    try:
        table: dict[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}): name a grid with --file grid.toml") from error
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    where, default = str(path), Grid((), ())
    known = "datasets models seeds protocols vocabularies paper without_names candidate_seed"
    _expect_known(where, table, known)
    for name in ("datasets", "models"):
        if not table.get(name):
            raise UsageError(f"{where}: {name} is missing: a grid needs datasets = [...] and [models.LABEL]")
    datasets = _list(where, table, "datasets", str, ())
    return Grid(
        models=[
            _chosen(where, label, value, datasets) for label, value in _value(where, table, "models", dict, {}).items()
        ],
        datasets=datasets,
        seeds=_list(where, table, "seeds", int, default.seeds),
        protocols=_list(where, table, "protocols", str, default.protocols),
        vocabularies=_list(where, table, "vocabularies", str, default.vocabularies),
        candidate_seed=_value(where, table, "candidate_seed", int, default.candidate_seed),
        paper=_value(where, table, "paper", bool, default.paper),
        with_names=not _value(where, table, "without_names", bool, not default.with_names),
    )


def _chosen(path: str, label: str, value: object, datasets: Sequence[str]) -> Chosen:
    where = f"{path}: models.{label}"
    table = _expect(where, value, dict)
    _expect_known(where, table, "model set datasets")
    if "model" not in table:
        raise UsageError(f'{where}: model is missing, as in model = "mtdea"')
    overrides = {}
    for name, given in _value(where, table, "datasets", dict, {}).items():
        part = f"{where}.datasets.{name}"
        if name not in datasets:
            raise UnknownNameError(f"dataset in {where}:", name, datasets)
        _expect_known(part, _expect(part, given, dict), "set")
        overrides[name] = _settings(part, given)
    return Chosen(label, _value(where, table, "model", str, ""), _settings(where, table), overrides)


def _settings(where: str, table: Mapping[str, object]) -> dict[str, str]:
    """Return the table ``set`` as the texts that would be typed."""
    found = {}
    for key, value in _value(where, table, "set", dict, {}).items():
        if not isinstance(value, str | int | float):
            raise UsageError(f"{where}: set.{key} must be a text, a number, true or false, not {value!r}")
        found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _list(where: str, table: Mapping[str, object], key: str, kind: type[Kind], default: Sequence[Kind]) -> list[Kind]:
    values = table.get(key, list(default))
    if not isinstance(values, list) or not values:
        raise UsageError(f"{where}: {key} must be a list of at least one value, not {values!r}")
    found = [_expect(f"{where}: {key}", value, kind) for value in values]
    return list(dict.fromkeys(found))


def _value(where: str, table: Mapping[str, object], key: str, kind: type[Kind], default: Kind) -> Kind:
    return _expect(f"{where}: {key}", table[key], kind) if key in table else default


def _expect(where: str, value: object, kind: type[Kind]) -> Kind:
    # To Python True is a number, to whoever writes a file it is none.
    wrong = not isinstance(value, kind) or (kind is int and isinstance(value, bool))
    if wrong or (isinstance(value, int) and value < 0):
        raise UsageError(f"{where} must be {_WORDS[kind]}, not {value!r}")
    assert isinstance(value, kind)
    return value


def _expect_known(where: str, table: Mapping[str, object], known: str) -> None:
    for key in table:
        if key not in known.split():
            raise UnknownNameError(f"key in {where}:", key, known.split())
