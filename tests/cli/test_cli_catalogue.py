"""The verbs about many datasets and their published files."""

import json

import pytest
import servers
import toys

import mtbench
from mtbench.data import catalog, downloads, store


@pytest.fixture
def server(monkeypatch):
    """A server that has the toy's files, and a catalogue in which the toy is those files."""
    monkeypatch.delenv("MTBENCH_OFFLINE")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(downloads, "RETRY", downloads.RETRY.new(total=0))
    with servers.serving(files={path: servers.text(rows) for path, rows in servers.FILES.items()}) as served:
        toys.install(monkeypatch.setattr, servers.release(served.address))
        yield served


@pytest.fixture
def small(monkeypatch):
    """A catalogue of the toy alone, for verbs about everything."""
    monkeypatch.setattr(catalog, "names", lambda group="": ["toy"])


def test_fetch_stores_each_dataset_once(run, server, cache):
    code, out, err = run("fetch", "toy", "Toy_v1")
    assert (code, out, err) == (0, f"toy 2.0.0 is stored in {cache}\n", "")
    assert len(server.asked) == 4
    assert run("fetch", "toy", "--json")[0] == 0
    assert len(server.asked) == 4


@pytest.mark.usefixtures("small")
def test_fetch_all(listed, server, cache):
    assert listed("fetch", "--all") == [{"name": "toy", "version": "2.0.0", "directory": str(cache), "problem": None}]
    assert len(server.asked) == 4


def test_fetch_goes_on_after_a_dataset_that_cannot_be_had(run, server, monkeypatch):
    record = catalog.record("toy")
    monkeypatch.setattr("mtbench.cli.datasets.chosen", lambda names, *_: [catalog.record(name) for name in names])
    server.behaviour["/data/msg.txt"] = ["page"]
    code, out, err = run("fetch", "toy", "toy")
    assert code == 1
    assert out == f"toy 2.0.0 is stored in {store.cached(record)}\n"
    assert err.startswith(f"error: toy: cannot get test/graph: {server.address}/data/msg.txt sent an HTML page")
    server.behaviour["/data/msg.txt"] = ["404"]
    (store.cache_root() / "files" / record.sources[2].sha256).unlink()
    code, out, _ = run("build", "toy", "--force", "--json")
    assert code == 1
    assert run("verify", "toy")[0] == 0


@pytest.mark.parametrize("verb", ["fetch", "info", "info --files", "info --cite", "baselines"])
@pytest.mark.parametrize("arguments", [[], ["toy", "--all"], ["toy", "--group", "entities"]])
def test_names_or_all_or_a_group_but_not_two_of_them(refused, verb, arguments):
    assert "give 'NAME...', --all or --group NAME, one of them" in refused(*verb.split(), *arguments)


@pytest.mark.parametrize("verb", ["list", "fetch", "baselines", "score scores", "leaderboard render --format latex"])
def test_an_empty_group_is_unknown_to_every_verb(refused, verb):
    assert "unknown group ''" in refused(*verb.split(), "--group", "")


@pytest.mark.parametrize("arguments", [[], ["toy", "--all"]])
def test_a_name_or_all_but_not_both(refused, arguments):
    assert "give either 'NAME|RUN' or --all" in refused("verify", *arguments)


def test_a_group_is_fetched_and_described(listed, cache, monkeypatch):
    monkeypatch.setattr(catalog, "names", lambda group="": ["toy"] if group == "one graph" else [])
    assert [row["directory"] for row in listed("fetch", "--group", "one-graph")] == [str(cache)]
    assert listed("info", "--group", "one graph")["name"] == "toy"
    assert [row["name"] for row in listed("info", "--group", "one graph", "--cite")] == ["toy"]


def test_urls_says_what_to_copy_and_where(run, listed, monkeypatch, tmp_path, server):
    rows = listed("info", "--files", "toy", "toy")
    assert [row["url"] for row in rows] == [f"{server.address}{path}" for path in servers.FILES]
    for row in rows:
        place = tmp_path / "mirror" / row["place"]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(server.files[row["url"].removeprefix(server.address)])
        assert place.stat().st_size == row["bytes"]
        assert downloads.file_hash(place) == row["sha256"]
        assert row["mirrors"] == []
    monkeypatch.setenv("MTBENCH_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("MTBENCH_OFFLINE", "1")
    assert run("fetch", "toy")[0] == 0
    assert server.asked == []


def test_urls_names_a_shared_file_once(run, printed):
    out = printed("info", "--files", "wikitopics-mt1/health", "wikitopics-mt1/taxonomy")
    assert out.count("mt1-health-v1/train.txt") == 2  # its address and its place
    assert "\n6 files, 1,523,080 bytes; MTBENCH_MIRROR=DIRECTORY" in out
    hashes = [row["sha256"] for row in json.loads(run("info", "--files", "--all", "--json")[1])]
    assert len(hashes) == len(set(hashes))
    assert set(hashes) == {
        source.sha256 or source.fingerprint for name in catalog.names() for source in catalog.record(name).sources
    }


def test_verify_all_checks_what_is_stored(run, printed, cache):
    out = printed("verify", "--all", "--json")
    assert {row["name"]: row["stored"] for row in json.loads(out)} == dict.fromkeys(catalog.names(), False)
    mtbench.load("toy")
    out = printed("verify", "--all")
    assert ["toy", "yes", "yes"] in [line.split() for line in out.splitlines()]
    (cache / "test/graph.parquet").write_bytes(b"")
    code, out, err = run("verify", "--all", "--json")
    assert code == 1
    assert {"name": "toy", "stored": True, "valid": False} in json.loads(out)
    assert err.endswith("mtbench build toy --force\n")


def test_info_and_its_json_of_every_dataset(run):
    code, out, _ = run("info", "--all")
    assert (code, out.count("\nLicence: ")) == (0, len(catalog.names()))
    found = json.loads(run("info", "--all", "--json")[1])
    for row, record in zip(found, map(catalog.record, catalog.names()), strict=True):
        assert (row["name"], row["defects"], row["aliases"]) == (record.id, list(record.defects), list(record.aliases))
        assert [source["url"] for source in row["sources"]] == [source.url for source in record.sources]


def test_cite_prints_shared_entries_once(printed):
    out = printed("info", "--cite", "wikitopics-mt1/health", "wikitopics-v2/art", "fbnell", "metafam", "MetaFam")
    entries = [line for line in out.splitlines() if line.startswith("@")]
    assert len(entries) == len(set(entries)) == 6
    out = printed("info", "--cite", "--all", "--json")
    found = {row["name"]: row for row in json.loads(out)}
    assert found["fbnell"]["licence"].startswith("Not stated")
    assert found["wikitopics-v2/art"]["entries"][0].startswith("@article{gao2023double,")


def test_info_of_a_directory_has_its_own_counts(run, tmp_path):
    data = mtbench.build("metafam", seed=3, train_trees=4, test_trees=2, out=tmp_path / "kin")
    code, out, _ = run("info", str(tmp_path / "kin"), "--json")
    found = json.loads(out)
    assert (code, found["name"], found["stored"]) == (0, data.name, str(tmp_path / "kin"))
    assert found["parameters"]["train_trees"] == 4
    assert {row["part"]: row["triples"] for row in found["parts"]}["test/targets"] == len(data.test.targets)
    assert "defects of the release" in run("info", str(tmp_path / "kin"))[1]


def test_info_of_a_folder_of_files_has_no_release_and_no_citation(printed, tmp_path):
    for name, row in (("train", "a\tr\tb"), ("msg", "c\tr\td"), ("test", "d\tr\tc"), ("valid", "c\tr\tc")):
        (tmp_path / f"{name}.txt").write_text(f"{row}\n", encoding="utf-8")
    out = printed("info", str(tmp_path))
    assert "valid.txt: 1 triples of the inference graph that are known, not shown" in out
    assert "Cite it" not in out
