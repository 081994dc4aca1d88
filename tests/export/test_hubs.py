"""Exports for dataset hubs: the Parquet files, the card and the Croissant description agree with the dataset."""

import hashlib
import json
import re
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtbench.data import catalog
from mtbench.export import hubs
from mtbench.export.writers import write

PATHS = [
    *("graph/train.parquet", "graph/test.parquet", "targets/validation.parquet", "targets/test.parquet"),
    *("entities/train.parquet", "entities/test.parquet", "relations/train.parquet", "relations/test.parquet"),
]


def front_matter(text: str) -> list[str]:
    found = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    assert found is not None
    return found[1].splitlines()


def test_parquet_files_hold_names_as_plain_text(toy, tmp_path):
    files = write(toy, tmp_path / "out", "huggingface")
    assert [file.relative_to(tmp_path / "out").as_posix() for file in files] == [*PATHS, "README.md"]
    for path, split, part in (
        (PATHS[0], toy.train, toy.train.graph),
        (PATHS[1], toy.test, toy.test.graph),
        (PATHS[2], toy.valid, toy.valid.targets),
        (PATHS[3], toy.test, toy.test.targets),
    ):
        table = pq.ParquetFile(tmp_path / "out" / path).read()
        assert table.schema.equals(pa.schema([(name, pa.string()) for name in ("head", "relation", "tail")]))
        assert list(zip(*table.to_pydict().values(), strict=True)) == split.named(part)
    for split in (toy.train, toy.test):
        entities = pq.ParquetFile(tmp_path / "out" / f"entities/{split.name}.parquet").read()
        relations = pq.ParquetFile(tmp_path / "out" / f"relations/{split.name}.parquet").read()
        assert entities.to_pydict() == {"entity": split.entities.tolist()}
        tasks = [split.tasks.get(name, "") for name in split.relations.tolist()]
        assert relations.to_pydict() == {"relation": split.relations.tolist(), "task": tasks}


def test_the_card_names_every_file_and_says_what_is_known(toy, tmp_path):
    write(toy, tmp_path / "out", "huggingface")
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    lines = front_matter(text)
    assert [line.split()[1].strip('"') for line in lines if line.startswith("    path:")] == PATHS
    configs = [line.split()[-1] for line in lines if "config_name:" in line]
    assert configs == ["graph", "targets", "entities", "relations"]
    assert lines[0] == 'pretty_name: "Toy [bold]"'
    assert "license: other" in lines
    for words in ("- It is [red]tiny[/red].", "@misc{toy,", "CC0", toy.test.graph_sha256, "| `targets` | `test` | 2 |"):
        assert words in text


def test_the_front_matter_is_yaml_that_the_hub_understands(toy):
    yaml = pytest.importorskip("yaml")
    awkward = replace(toy, info=replace(toy.info, title='A: "quoted" # títle\\', licence="MIT (ours)"))
    lines = front_matter(hubs.card(awkward, hubs.tables(awkward)))
    assert "títle" in lines[0]
    found = yaml.safe_load("\n".join(lines))
    assert found["pretty_name"] == 'A: "quoted" # títle\\'
    assert found["license"] == "mit"
    assert found["configs"][0] == {
        "config_name": "graph",
        "default": True,
        "data_files": [{"split": "train", "path": PATHS[0]}, {"split": "test", "path": PATHS[1]}],
    }


def test_a_variant_says_so(toy):
    variant = replace(toy, name="toy[seed=2]")
    assert "This is the variant `toy[seed=2]`." in hubs.card(variant, hubs.tables(variant))
    described = hubs.metadata(variant, hubs.tables(variant))
    assert (described["name"], described["alternateName"]) == ("toy-seed-2", "toy[seed=2]")


def test_croissant_describes_the_files_beside_it(toy, tmp_path):
    files = write(toy, tmp_path / "out", "croissant")
    found = json.loads((tmp_path / "out" / "croissant.json").read_text(encoding="utf-8"))
    assert [file.relative_to(tmp_path / "out").as_posix() for file in files] == [*PATHS, "croissant.json"]
    assert found["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    for key in ("@context", "name", "description", "license", "url", "creator", "citeAs", "version"):
        assert key in found
    assert [row["@id"] for row in found["distribution"]] == PATHS
    for row in found["distribution"]:
        data = (tmp_path / "out" / row["contentUrl"]).read_bytes()
        assert row["sha256"] == hashlib.sha256(data).hexdigest()
        assert row["contentSize"] == f"{len(data)} B"
    fields = {field["@id"]: field for records in found["recordSet"] for field in records["field"]}
    for field in fields.values():
        columns = pq.ParquetFile(tmp_path / "out" / field["source"]["fileObject"]["@id"]).schema_arrow.names
        assert field["source"]["extract"]["column"] in columns
        if "references" in field:
            assert field["references"]["field"]["@id"] in fields
    assert {row["@id"]: row["key"]["@id"] for row in found["recordSet"] if "key" in row} == {
        f"{table}-{split}": f"{table}-{split}/{column}"
        for table, column in (("entities", "entity"), ("relations", "relation"))
        for split in ("train", "test")
    }
    assert fields["targets-validation/head"]["references"]["field"]["@id"] == "entities-train/entity"
    assert fields["targets-test/relation"]["references"]["field"]["@id"] == "relations-test/relation"
    ids = {row["@id"] for row in [*found["distribution"], *found["recordSet"], *fields.values()]}
    assert len(ids) == 16 + len(fields)


def test_croissant_takes_authors_and_year_from_the_citation(toy):
    data = replace(toy, info=catalog.record("metafam"))
    found = hubs.metadata(data, hubs.tables(data))
    assert [row["name"] for row in found["creator"]] == ["Jincheng Zhou", "Beatrice Bevilacqua", "Bruno Ribeiro"]
    assert found["datePublished"] == "2023-01-01"
    assert found["url"] == data.info.sources[0].url
    assert "datePublished" not in hubs.metadata(toy, hubs.tables(toy))
