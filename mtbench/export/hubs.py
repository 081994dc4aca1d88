"""Export for dataset hubs: Parquet files, a folder per table and a file per split, with their description.

The description is a card that the Hugging Face hub reads, or Croissant metadata (JSON-LD).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mtbench.data.splits import Dataset, Split
from mtbench.files.formats import encode_table
from mtbench.names import COLUMNS, IntArray


@dataclass(frozen=True)
class Table:
    """A Parquet file: ``name`` of the table, ``split`` as hubs call it, columns, number of rows, bytes."""

    name: str
    split: str
    columns: tuple[str, ...]
    rows: int
    data: bytes

    @property
    def path(self) -> str:
        """Where the file is in the export."""
        return f"{self.name}/{self.split}.parquet"


def tables(dataset: Dataset) -> list[Table]:
    """Return the files of a dataset: its triples by name, and its vocabularies in id order.

    ``graph`` has the splits train and test, ``targets`` validation and test, as has ``known`` where there are any;
    ``entities`` and
    ``relations`` train (which validation shares) and test; ``relations`` has the column ``task``, empty
    where it is not known.
    """
    train, valid, test = dataset.train, dataset.valid, dataset.test
    files = [
        _triples("graph", "train", train, train.graph),
        _triples("graph", "test", test, test.graph),
        _triples("targets", "validation", valid, valid.targets),
        _triples("targets", "test", test, test.targets),
    ]
    for name, split in (("validation", valid), ("test", test)):
        if len(split.known):
            files.append(_triples("known", name, split, split.known))
    files += [_table("entities", split.name, ("entity",), [split.entities.tolist()]) for split in (train, test)]
    for split in (train, test):
        names = split.relations.tolist()
        tasks = [split.tasks.get(name, "") for name in names]
        files.append(_table("relations", split.name, ("relation", "task"), [names, tasks]))
    return files


def _triples(name: str, split_name: str, split: Split, triples: IntArray) -> Table:
    rows = split.named(triples)
    return _table(name, split_name, COLUMNS, [[row[column] for row in rows] for column in range(len(COLUMNS))])


def _table(name: str, split: str, columns: tuple[str, ...], values: Sequence[Sequence[str]]) -> Table:
    # Plain text columns: not every reader knows Arrow's dictionary type, and Parquet encodes repeats anyway.
    texts = [pa.array(list(column), type=pa.string()) for column in values]
    return Table(name, split, columns, len(values[0]), encode_table(pa.table(texts, names=list(columns))))


CARD = "README.md"
CONTENTS = {
    "graph": "the triples of the graphs: training graph and inference graph",
    "targets": "missing triples, to predict",
    "known": "triples known besides: neither observable nor to predict, and no candidates",
    "entities": "the entity vocabulary in id order",
    "relations": "the relation types in id order, with their ground-truth task where it is known",
}
"""The configurations of the dataset on the hub, and what each holds."""

TRIPLES = ("graph", "targets", "known")


def huggingface(dataset: Dataset) -> dict[str, bytes]:
    """Return Parquet files and ``README.md``, the dataset card whose front matter makes them load.

    The directory can be passed to ``datasets.load_dataset(DIR, "graph")``, and uploaded to the Hugging Face hub as it
    is. Configurations: see `CONTENTS`.
    """
    parts = tables(dataset)
    return {**{part.path: part.data for part in parts}, CARD: card(dataset, parts).encode()}


def card(dataset: Dataset, parts: Sequence[Table]) -> str:
    """Return the dataset card: YAML front matter for the hub's machines, Markdown for people."""
    return f"---\n{_front_matter(dataset, parts)}---\n\n{_body(dataset, parts)}"


def _front_matter(dataset: Dataset, parts: Sequence[Table]) -> str:
    record = dataset.info
    # Text is quoted as JSON, which YAML reads as the same text whatever is in it.
    lines = [f"pretty_name: {_quoted(record.title)}"]
    # The hub accepts its own list of licences; any other is "other" with a name and a link.
    if record.licence.split()[:1] == ["MIT"]:
        lines.append("license: mit")
    else:
        lines += ["license: other", "license_name: see-below", "license_link: README.md"]
    lines += ["task_categories:", "- graph-ml", "tags:", "- knowledge-graph", "- link-prediction", "configs:"]
    for name in (name for name in CONTENTS if any(part.name == name for part in parts)):
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
    besides = [split for split in (dataset.valid, dataset.test) if len(split.known)]
    known = "".join(f"\n- known besides, {split.name}: `{split.known_sha256}`" for split in besides)
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
- test triples: `{dataset.test.targets_sha256}`{known}

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


METADATA = "croissant.json"
CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
HOME = "https://arxiv.org/abs/2310.06046"
"""The page of a dataset without published files, which the package builds: the paper's."""
_TERMS = """
citeAs column extract field fileProperty fileObject fileSet format includes isLiveDataset jsonPath key md5 parentField
path recordSet references regex repeated replace separator source subField transform
"""
CONTEXT: Mapping[str, object] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
"""The context of the Croissant 1.0 specification, appendix 1."""

MEANINGS = {
    "head": "The entity the triple starts from.",
    "relation": "The relation type.",
    "tail": "The entity the triple leads to.",
    "entity": "The name of the entity.",
    "task": "The predictive pattern the relation type follows, empty where it is not known.",
}
VOCABULARIES = {"head": "entities/entity", "tail": "entities/entity", "relation": "relations/relation"}
"""The table and the column that a column of triples refers to."""


def croissant(dataset: Dataset) -> dict[str, bytes]:
    """Return Parquet files and ``croissant.json``, which describes them and their hashes by Croissant 1.0."""
    parts = tables(dataset)
    text = f"{json.dumps(metadata(dataset, parts), ensure_ascii=False, indent=2)}\n"
    return {**{part.path: part.data for part in parts}, METADATA: text.encode()}


def metadata(dataset: Dataset, parts: Sequence[Table]) -> dict[str, object]:
    """Return the JSON-LD description of a dataset's Parquet files, the SHA-256 of each included."""
    record = dataset.info
    described: dict[str, object] = {
        "@context": dict(CONTEXT),
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": re.sub(r"[^\w-]+", "-", dataset.name).strip("-"),
        "alternateName": dataset.name,
        "description": record.summary,
        "license": record.licence,
        "url": record.sources[0].url if record.sources else HOME,
        "version": dataset.version,
        "citeAs": record.citation.strip(),
        "creator": [{"@type": "sc:Person", "name": name} for name in _authors(record.citation)],
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": part.path,
                "name": part.path,
                "contentUrl": part.path,
                "contentSize": f"{len(part.data)} B",
                "encodingFormat": "application/x-parquet",
                "sha256": hashlib.sha256(part.data).hexdigest(),
            }
            for part in parts
        ],
        "recordSet": [_records(part, parts) for part in parts],
    }
    if year := re.search(r"\byear\s*=\s*[{\"]?(\d{4})", record.citation):
        # The property takes a whole date, of which a citation gives the year alone.
        described["datePublished"] = f"{year[1]}-01-01"
    return described


def _authors(citation: str) -> list[str]:
    """Return the authors of the first BibTeX entry, given name first."""
    field = re.search(r"\bauthor\s*=\s*[{\"](.*?)[}\"]\s*,?\s*\n", citation, re.DOTALL)
    names = re.split(r"\s+and\s+", field[1].strip()) if field else []
    return [" ".join(reversed(name.split(", ", 1))) for name in names]


def _records(part: Table, parts: Sequence[Table]) -> dict[str, object]:
    records = _id(part)
    described: dict[str, object] = {
        "@type": "cr:RecordSet",
        "@id": records,
        "name": records,
        "description": f"{part.rows} rows of {part.name}, {part.split}.",
        "field": [_field(part, column, parts) for column in part.columns],
    }
    # Names are unique in a vocabulary; rows of triples have no key of one column.
    if part.name not in TRIPLES:
        described["key"] = {"@id": f"{records}/{part.columns[0]}"}
    return described


def _field(part: Table, column: str, parts: Sequence[Table]) -> dict[str, object]:
    described: dict[str, object] = {
        "@type": "cr:Field",
        "@id": f"{_id(part)}/{column}",
        "name": f"{_id(part)}/{column}",
        "description": MEANINGS[column],
        "dataType": "sc:Text",
        "source": {"fileObject": {"@id": part.path}, "extract": {"column": column}},
    }
    if part.name in TRIPLES:
        table, _, key = VOCABULARIES[column].partition("/")
        # Validation shares the vocabulary of train, whose table is not written twice.
        split = "test" if part.split == "test" else "train"
        owner = next(part for part in parts if (part.name, part.split) == (table, split))
        described["references"] = {"field": {"@id": f"{_id(owner)}/{key}"}}
    return described


def _id(part: Table) -> str:
    return f"{part.name}-{part.split}"
