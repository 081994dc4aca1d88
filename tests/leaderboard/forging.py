"""Copies of published entries, and the edits of somebody who wants a better place."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from mtbench.data import catalog
from mtbench.files.hashing import file_hash
from mtbench.metrics import closed, summary
from mtbench.names import METRICS
from mtbench.ranking.candidates import PROTOCOLS
from mtbench.results import result as results
from mtbench.results.result import EVALUATOR_VERSION

PUBLISHED = Path(__file__).resolve().parents[2] / "leaderboard" / "results"
_FOLDER = tempfile.TemporaryDirectory(prefix="mtbench-tests-")
NOW = Path(_FOLDER.name)
"""Published runs as if they were of this evaluator, see `now`; nobody changes them."""

CARD = {"authors": ["A. Author"], "url": "https://example.org", "licence": "MIT"}


def now(slug, dataset="metafam", seed=0):
    """Return a published run as if this evaluator had made it: heads are ranked as tails were."""
    run = NOW / slug / dataset / f"seed{seed}"
    if not run.exists():
        leave = shutil.ignore_patterns("checkpoints")
        shutil.copytree(PUBLISHED / slug / dataset / f"seed{seed}", run, ignore=leave)
        shutil.copyfile(PUBLISHED / slug / "card.toml", NOW / slug / "card.toml")
        for path in run.rglob("result.json"):
            _in_both_directions(path.parent)
        told = read(run / "conventions.json")
        for protocol, (standard, *others) in [*told["protocols"].items()]:
            place = run if protocol == "dual" else run / f"{protocol}-present"
            made = read(place / "result.json")
            standard |= {"candidates_sha256": made["candidates_sha256"]}
            standard |= dict.fromkeys(("metrics", "expected"), made["metrics"])
            # As of a model without inverses: tests add the reading of one with them.
            told["protocols"][protocol] = [standard, *(one for one in others if one["convention"] != "isdea-doubled")]
        write(run / "conventions.json", told)
    return run


def _in_both_directions(folder):
    one = results.load(folder)
    protocol = one.protocol.removesuffix("-tail")
    parts = dict(one.ranks.parts)
    if protocol != one.protocol:
        parts |= {"head" if part == "tail" else "head_relation": counts for part, counts in parts.items()}
    ranks = replace(one.ranks, parts=parts)
    record, key = catalog.record(one.dataset), f"test/{protocol}/{one.vocabulary}/0"
    made = replace(
        one,
        protocol=protocol,
        ranks=ranks,
        **summary.figures(ranks, protocol, one.vocabulary),
        tie_rate=closed.tie_rate(ranks.equal),
        candidates_sha256=record.candidates[key],
        baselines={name: dict(zip(METRICS, values, strict=True)) for name, values in record.baselines[key].items()},
        asked=dict.fromkeys(PROTOCOLS[protocol].directions, "score(triples)"),
        asked_again="the same",
        evaluator_version=EVALUATOR_VERSION,
    )
    made.save(folder, force=True, with_names=ranks.named)


def copy_entry(root, slug="isdea", seeds=(0, 1), name=None, dataset="metafam", run=now):
    """Copy some seeds of a published entry on one dataset, made with this evaluator or as they are."""
    entry = root / (name or slug)
    for seed in seeds:
        leave = shutil.ignore_patterns("checkpoints")
        shutil.copytree(run(slug, dataset, seed), entry / dataset / f"seed{seed}", ignore=leave)
    shutil.copyfile(PUBLISHED / slug / "card.toml", entry / "card.toml")
    return entry


def as_published(slug, dataset="metafam", seed=0):
    """Return a published run."""
    return PUBLISHED / slug / dataset / f"seed{seed}"


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


def edit_ranks(run, *, rehash, **columns):
    """Put other counts into the ranks of a run, with or without telling its result."""
    path = run / "ranks.parquet"
    table = parquet.read_table(path)
    for name, change in columns.items():
        values = change(table.column(name).to_pylist())
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.int32()))
    write_ranks(run, table, rehash=rehash)


def write_ranks(run, table, *, rehash=True, **options):
    path = run / "ranks.parquet"
    parquet.write_table(table, path, **{"compression": "zstd", **options})
    if rehash:
        edit(run / "result.json", ranks_sha256=file_hash(path))


def tree(directory):
    """Return every file below a directory with its bytes."""
    return {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
