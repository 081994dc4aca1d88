"""Export for the Hugging Face hub: Parquet files and the dataset card that makes them load."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from mtbench.data.splits import Dataset
from mtbench.export.hub import Table, tables
from mtbench.export.writers import store

CARD = "README.md"
CONTENTS = {
    "graph": "the triples of the graphs: training graph and inference graph",
    "targets": "missing triples, to predict",
    "entities": "the entity vocabulary in id order",
    "relations": "the relation types in id order, with their ground-truth task where it is known",
}
"""The configurations of the dataset, and what each holds."""


def write(dataset: Dataset, directory: Path, *, force: bool = False) -> list[Path]:
    """Write Parquet files and ``README.md``, whose front matter names them, and return the files.

    The directory is what ``datasets.load_dataset(DIR, "graph")`` takes, and what is uploaded to the hub
    as it stands. Configurations: see `CONTENTS`.
    """
    parts = tables(dataset)
    files = {part.path: part.data for part in parts}
    return store(directory, {**files, CARD: card(dataset, parts).encode()}, force=force)


def card(dataset: Dataset, parts: Sequence[Table]) -> str:
    """Return the dataset card: YAML front matter for the hub's machines, Markdown for people."""
    return f"---\n{_front_matter(dataset, parts)}---\n\n{_body(dataset, parts)}"


def _front_matter(dataset: Dataset, parts: Sequence[Table]) -> str:
    record = dataset.info
    # Text is quoted as JSON, which YAML reads as the same text whatever is in it.
    lines = [f"pretty_name: {_quoted(record.title)}"]
    if record.licence.split()[:1] == ["MIT"]:
        lines.append("license: mit")
    else:
        lines += ["license: other", "license_name: see-below", "license_link: README.md"]
    lines += ["task_categories:", "- graph-ml", "tags:", "- knowledge-graph", "- link-prediction", "configs:"]
    for name in CONTENTS:
        lines += [f"- config_name: {name}", *(["  default: true"] if name == "graph" else []), "  data_files:"]
        for part in parts:
            if part.name == name:
                lines += [f"  - split: {part.split}", f"    path: {_quoted(part.path)}"]
    return "\n".join(lines) + "\n"


def _body(dataset: Dataset, parts: Sequence[Table]) -> str:
    record = dataset.info
    variant = "" if dataset.name == record.id else f"\n\nThis is the variant `{dataset.name}`."
    rows = [f"| `{part.name}` | `{part.split}` | {part.rows:,} | {CONTENTS[part.name]} |" for part in parts]
    slots = f"{dataset.train.relation_slots} in train, {dataset.test.relation_slots} in test"
    defects = "\n".join(f"- {defect}" for defect in record.defects) or "None."
    table = "\n".join(rows)
    return f"""\
# {record.title}

{record.summary}{variant}

Version {dataset.version}, exported by mtbench (`mtbench export {record.id} --format huggingface`). \
Train and test have entities and relation types of their own; validation shares the graph and the vocabulary \
of train. Relation ids of the published dictionaries, unused ones included: {slots}.

| configuration | split | rows | what it holds |
|---|---|---|---|
{table}

```python
from datasets import load_dataset

graph = load_dataset("DIRECTORY OR HUB NAME", "graph")["test"]  # columns head, relation, tail
targets = load_dataset("DIRECTORY OR HUB NAME", "targets")["test"]
```

## Content hashes

SHA-256 of the sorted lines `head TAB relation TAB tail LF`.

- train graph: `{dataset.train.graph_sha256}`
- validation triples: `{dataset.valid.targets_sha256}`
- inference graph: `{dataset.test.graph_sha256}`
- test triples: `{dataset.test.targets_sha256}`

## Known defects

{defects}

## Licence

{record.licence}

## Citation

```bibtex
{record.citation.strip()}
```
"""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
