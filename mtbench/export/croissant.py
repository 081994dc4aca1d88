"""Export with Croissant metadata: Parquet files, and JSON-LD that says what is in them and how to check them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mtbench.data.splits import Dataset
from mtbench.export.hub import Table, tables
from mtbench.export.writers import store

METADATA = "croissant.json"
CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
HOME = "https://arxiv.org/abs/2310.06046"
"""The page of a dataset that no published file holds: it is built by the package."""
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


def write(dataset: Dataset, directory: Path, *, force: bool = False) -> list[Path]:
    """Write Parquet files and ``croissant.json``, which describes them by Croissant 1.0, and return the files."""
    parts = tables(dataset)
    text = f"{json.dumps(metadata(dataset, parts), ensure_ascii=False, indent=2)}\n"
    return store(directory, {**{part.path: part.data for part in parts}, METADATA: text.encode()}, force=force)


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
        "distribution": [_file(part) for part in parts],
        "recordSet": [_records(part, parts) for part in parts],
    }
    if found := re.search(r"\byear\s*=\s*[{\"]?(\d{4})", record.citation):
        described["datePublished"] = f"{found[1]}-01-01"
    return described


def _authors(citation: str) -> list[str]:
    """Return the authors of the first BibTeX entry, given name first."""
    found = re.search(r"\bauthor\s*=\s*[{\"](.*?)[}\"]\s*,?\s*\n", citation, re.DOTALL)
    names = re.split(r"\s+and\s+", found[1].strip()) if found else []
    return [" ".join(reversed(name.split(", ", 1))) for name in names]


def _file(part: Table) -> dict[str, object]:
    return {
        "@type": "cr:FileObject",
        "@id": part.path,
        "name": part.path,
        "contentUrl": part.path,
        "contentSize": f"{len(part.data)} B",
        "encodingFormat": "application/x-parquet",
        "sha256": hashlib.sha256(part.data).hexdigest(),
    }


def _records(part: Table, parts: Sequence[Table]) -> dict[str, object]:
    records = _id(part)
    described: dict[str, object] = {
        "@type": "cr:RecordSet",
        "@id": records,
        "name": records,
        "description": f"{part.rows} rows of {part.name}, {part.split}.",
        "field": [_field(part, column, parts) for column in part.columns],
    }
    if part.name not in ("graph", "targets"):
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
    if part.name in ("graph", "targets"):
        table, _, key = VOCABULARIES[column].partition("/")
        # Validation shares the vocabulary of train.
        split = "test" if part.split == "test" else "train"
        owner = next(other for other in parts if (other.name, other.split) == (table, split))
        described["references"] = {"field": {"@id": f"{_id(owner)}/{key}"}}
    return described


def _id(part: Table) -> str:
    return f"{part.name}-{part.split}"
