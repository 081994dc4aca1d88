"""Copies of published entries, and the edits of somebody who wants a better place."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from mtbench.files.hashing import file_hash

PUBLISHED = Path(__file__).resolve().parents[2] / "leaderboard" / "results"

CARD = {"authors": ["A. Author"], "url": "https://example.org", "licence": "MIT"}


def published(slug, dataset="metafam", seed=0):
    """Return a published run."""
    return PUBLISHED / slug / dataset / f"seed{seed}"


def copy_entry(root, slug="isdea", seeds=(0, 1), name=None, dataset="metafam"):
    """Copy some seeds of a published entry on one dataset."""
    entry = root / (name or slug)
    for seed in seeds:
        leave = shutil.ignore_patterns("checkpoints")
        shutil.copytree(published(slug, dataset, seed), entry / dataset / f"seed{seed}", ignore=leave)
    card = (PUBLISHED / slug / "card.toml").read_text(encoding="utf-8")
    # Only an entry of ours says so.
    (entry / "card.toml").write_text(card if name is None else card.replace("retrained = true\n", ""), encoding="utf-8")
    return entry


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def write(path, payload):
    path.write_text(json.dumps(payload), encoding="utf-8")


def edit(path, **changes):
    """Replace keys of a JSON file."""
    write(path, read(path) | changes)


def edit_all(entry, **changes):
    """Replace keys of every result of an entry."""
    for path in sorted(entry.rglob("result.json")):
        edit(path, **changes)


def edit_card(entry, old, new):
    path = entry / "card.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def drop_doubled(path):
    """Take the readings over doubled relation ids out of the evaluation settings of a run: a model without inverses."""
    told = read(path)
    for protocol, some in told["protocols"].items():
        told["protocols"][protocol] = [one for one in some if one["convention"] != "isdea-doubled"]
    write(path, told)


def edit_ranks(run, *, rehash=True, **columns):
    """Put other counts into the ranks of a run, with or without telling its result."""
    path = run / "ranks.parquet"
    table = parquet.read_table(path)
    for name, change in columns.items():
        values = change(table.column(name).to_pylist())
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    write_ranks(run, table, rehash=rehash)


def write_ranks(run, table, *, rehash=True, **options):
    path = run / "ranks.parquet"
    parquet.write_table(table, path, **{"compression": "zstd", **options})
    if rehash:
        edit(run / "result.json", ranks_sha256=file_hash(path))


def tree(directory):
    """Return every file below a directory with its bytes."""
    return {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
