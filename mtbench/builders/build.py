"""Build a dataset of the catalogue: the release, a variant of it, or one made anew from raw files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mtbench.builders.raw import build_one
from mtbench.data import catalog
from mtbench.data.building import derive, is_release, keep, resolve
from mtbench.data.catalog import Parameter
from mtbench.data.splits import Dataset


def build(
    name: str,
    *,
    seed: int | None = None,
    out: str | Path | None = None,
    force: bool = False,
    raw: str | Path | Sequence[str | Path] = (),
    **parameters: Parameter,
) -> Dataset:
    """Build a dataset of the catalogue from its parameters, and store it.

    What is not given has the value of the release. The release itself goes to the cache, where `load`
    finds it, unless ``out`` names a directory; any other dataset is stored only if ``out`` is given.
    A directory that holds the same dataset already is read, one that holds another is an error;
    ``force`` replaces either. With ``raw``, the paths of dumps, FBNELL and WikiTopics are rebuilt from
    those instead; `mtbench.builders.raw` also makes several datasets in one pass.

    Raises `UnknownNameError` for an unknown dataset or parameter, `UsageError` for a value of the wrong
    type, and `DatasetError` if the release's parameters give anything but the release.
    """
    given = parameters if seed is None else {"seed": seed, **parameters}
    if raw:
        paths = [raw] if isinstance(raw, str | Path) else raw
        return build_one(name, [Path(path) for path in paths], given, out=out, force=force)
    record = catalog.record(name)
    values = resolve(record, given)
    if out is None and not is_release(record, values):
        return derive(name, **values)
    return keep(record, values, out=out, force=force)
