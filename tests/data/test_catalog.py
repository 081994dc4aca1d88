"""The catalogue: every record declared whole, every name leading to one dataset, every release as declared."""

import itertools
import pkgutil
import re
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import toys

import mtbench
from mtbench.analysis.clusters import CLUSTERS
from mtbench.builders import release
from mtbench.data import catalog, downloads, loading, store
from mtbench.data.loading import RELEASE
from mtbench.data.splits import differences, match_parts
from mtbench.errors import DatasetError, UnknownNameError
from mtbench.evaluation.tasks import Task, measure
from mtbench.heuristics.figures import BASELINES
from mtbench.names import METRICS
from mtbench.ranking import candidates
from mtbench.settings.table import MAIN, RECORDED, VOCABULARIES, setting_of

NAMES = catalog.names()
RELEASES = [name for name in NAMES if catalog.record(name).builder == RELEASE]
UNPUBLISHED = [name for name in RELEASES if not catalog.record(name).candidates]
NEEDED = {"train/graph", "test/graph", "test/targets"}
PARTS = NEEDED | {"valid/targets", "valid/known", "test/known"}
LARGE = 150_000
"""Triples of the graphs of a dataset that takes a test too long to make; only its files are looked at."""
GROUPS = {"entities+relations": 23, "entities": 17, "one graph": 8, "others": 28}
SHA256 = re.compile(r"[0-9a-f]{64}")
TOPICS = (
    *("art", "award", "education", "health", "infrastructure", "location"),
    *("organization", "people", "science", "sport", "taxonomy"),
)
PAIRS = (
    *("mt1/health", "mt1/taxonomy", "mt2/location", "mt2/science"),
    *("mt3/art", "mt3/infrastructure", "mt4/health", "mt4/science"),
)
PUBLISHED = {"metafam", "fbnell", *(f"wikitopics-{pair}" for pair in PAIRS)} | {
    f"wikitopics-{version}/{topic}" for version in ("v1", "v2") for topic in TOPICS
}
SAME = {
    "Metafam": "metafam",
    "ultra:Metafam": "metafam",
    "FBNELL": "fbnell",
    "FBNELL_v1": "fbnell",
    "ultra:FBNELL": "fbnell",
    "WikiTopics-MT1/Health": "wikitopics-mt1/health",
    "mt1-health-v1": "wikitopics-mt1/health",
    "ultra:WikiTopicsMT1/tax": "wikitopics-mt1/taxonomy",
    "ultra:WikiTopicsMT1:tax": "wikitopics-mt1/taxonomy",
    "ultra:WikiTopicsMT2:sci": "wikitopics-mt2/science",
    "ultra:WikiTopicsMT3:infra": "wikitopics-mt3/infrastructure",
    "WikiTopicsMT4:health": "wikitopics-mt4/health",
    "mt4-science-v2": "wikitopics-mt4/science",
    "ultra:WikiTopicsMT2:org": "wikitopics-mt2/organization",
    "FB-25": "ingram-fb-25",
    "ultra:FBIngram:25": "ingram-fb-25",
    "NLIngram:0": "ingram-nl-0",
    "fb237_v1_ind": "grail-fb237-v1",
    "FB15k237Inductive:v1": "grail-fb237-v1",
    "ultra:NELLInductive/v4": "grail-nell-v4",
    "ILPC2022:small": "ilpc-small",
    "HM:1k": "hm-1k",
    "FB15k237": "fb15k-237",
    "CoDEx-S": "codex-s",
    "ultra:CoDExMedium": "codex-m",
    "ConceptNet100k": "conceptnet100k",
    "FB15k-237(10)": "fb15k-237-10",
    "wikidata_eduv2": "wikitopics-v2/education",
}
STRIPPED = "\n {=,[]"
MISSPELT = {
    "\nlicence = ": "\nlicense = ",
    "\n[graphs]": "\n[grafs]",
    ", relation_slots = ": ", relation_slot = ",
    "{ triples = ": "{ triplets = ",
    ", content_sha256 = ": ", content_sha = ",
    "\nsha256 = ": "\nsha265 = ",
    "\n[candidates]": "\n[candidate]",
}


def test_every_published_dataset_is_there():
    assert set(NAMES) >= PUBLISHED
    assert len(PUBLISHED) == 32


@pytest.mark.parametrize("name", NAMES)
def test_a_record_is_whole(name):
    record = catalog.record(name)
    assert record.id == name
    assert re.fullmatch(r"\d+\.\d+\.\d+", record.version)
    assert (record.builder == RELEASE) == record.recipe.startswith("mtbench.builders.release:")
    assert record.clusters in CLUSTERS
    for place in filter(None, (record.recipe, record.raw)):
        assert callable(pkgutil.resolve_name(place))
    assert record.title
    assert record.summary.endswith(".")
    assert record.licence
    assert record.citation.count("@") == record.citation.count("\n}") > 0
    assert all(defect.endswith(".") for defect in record.defects)
    assert record.graphs.keys() == {"train", "test"}
    for graph in record.graphs.values():
        assert 0 < graph.relations <= graph.relation_slots
        assert graph.entities > 0
    assert record.parts.keys() >= NEEDED
    assert record.parts.keys() <= PARTS
    unseen = {source.part for source in record.sources if source.git_blob}
    for name, part in record.parts.items():
        assert part.triples > 0
        assert SHA256.fullmatch(part.content_sha256) or (part.content_sha256 == "" and name in unseen)
    for key, sha256 in record.candidates.items():
        assert re.fullmatch(r"(valid|test)/[\w-]+/(slots|present)/\d+", key)
        assert SHA256.fullmatch(sha256)


@pytest.mark.parametrize("name", NAMES)
def test_the_sources_of_a_record_are_files_that_stay(name):
    record = catalog.record(name)
    assert record.builder != RELEASE or {source.part for source in record.sources} == record.parts.keys()
    for source in record.sources:
        assert (source.bytes > 0, bool(SHA256.fullmatch(source.sha256))) == (not source.git_blob,) * 2
        assert re.fullmatch("|[0-9a-f]{40}", source.git_blob)
        assert len(set(source.urls)) == len(source.urls)
        for url in source.urls:
            parts = urlsplit(url)
            assert (parts.scheme, parts.query, parts.fragment) == ("https", "", "")
            if parts.netloc == "raw.githubusercontent.com":  # a branch moves on, a commit does not
                assert re.fullmatch(r"[0-9a-f]{40}", parts.path.split("/")[3])
            assert downloads.place(url) == f"{parts.netloc}{parts.path}"


@pytest.mark.parametrize("name", NAMES)
def test_every_alias_leads_to_its_record(name):
    record = catalog.record(name)
    for alias in (name, *record.aliases):
        for spelling in (alias, alias.lower(), alias.upper()):
            assert catalog.record(spelling) is record


def test_no_name_leads_to_two_datasets():
    spellings = [{known.casefold() for known in (name, *catalog.record(name).aliases)} for name in NAMES]
    assert [spelling for spelling, times in Counter(itertools.chain(*spellings)).items() if times > 1] == []


@pytest.mark.parametrize("name", SAME)
def test_names_of_other_suites_are_known(name):
    assert catalog.record(name).id == SAME[name]


@pytest.mark.parametrize(
    ("typed", "proposed"),
    [
        ("wikitopics-mt1/helth", "wikitopics-mt1/health"),
        ("wikitopics-mt3/infra-structure", "wikitopics-mt3/infrastructure"),
        ("fbnel", "fbnell"),
        ("ultra:WikiTopicsMT1:tx", "wikitopics-mt1/taxonomy"),
        ("wikidata_eduv3", "wikidata_eduv1"),
        ("ingram-fb25", "ingram-fb-25"),
        ("ultra:FBIngram-25", "ingram-fb-25"),
        ("grail-fb237v1", "grail-fb237-v1"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(typed, proposed):
    with pytest.raises(UnknownNameError, match=f"did you mean .*{proposed}"):
        catalog.record(typed)


def test_names_that_begin_as_typed_come_first_and_a_long_list_is_not_printed():
    with pytest.raises(UnknownNameError, match="did you mean wikitopics-mt1/health or wikitopics-mt1/taxonomy or "):
        catalog.record("wikitopics-mt1")
    with pytest.raises(UnknownNameError, match=r"known: codex-m, .* and \d+ more$"):
        catalog.record("zzz")


def text_of(name: str) -> str:
    return (Path(catalog.__file__).parent / "records" / f"{name}.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["metafam", "wikitopics-mt1/health"])
def test_a_misspelt_key_fails_and_is_named(name):
    text = text_of(name)
    for old, new in MISSPELT.items():
        assert old in text
        with pytest.raises(DatasetError, match=rf"^here\.toml: .*unknown key '{new.strip(STRIPPED)}': did you mean"):
            catalog.parse(text.replace(old, new, 1), "here.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\nsummary = ", "\n# summary = ", "missing summary"),
        ("relations = 28", 'relations = "28"', "graphs.train.relations must be a valid integer, not '28'"),
        ("bytes = 454474", "bytes = 454474\nmirrors = [1]", r"sources.0.mirrors.0 must be a valid string, not 1"),
        ("bytes = 454474", 'bytes = 1\nmirrors = "x"', "sources.0.mirrors must be a valid array, not 'x'"),
    ],
)
def test_a_missing_or_mistyped_value_fails(old, new, message):
    text = text_of("metafam")
    with pytest.raises(DatasetError, match=f"^here.toml: {message}"):
        catalog.parse(text.replace(old, new, 1), "here.toml")


def test_a_record_stands_in_the_file_of_its_id(tmp_path):
    text = text_of("metafam")
    (tmp_path / "group").mkdir()
    (tmp_path / "group" / "family.toml").write_text(text, encoding="utf-8")
    found = catalog._Files(tmp_path)
    assert list(found) == ["group/family"]
    with pytest.raises(DatasetError, match=r"group/family.toml: .* this id is 'metafam'"):
        _ = found["group/family"]


def test_loading_one_dataset_reads_one_record(monkeypatch):
    files = catalog._Files(Path(catalog.__file__).parent / "records")
    monkeypatch.setattr(catalog, "_records", lambda: files)
    assert catalog.record("fbnell").id == "fbnell"
    assert list(files._read) == ["fbnell"]
    assert catalog.find("graphs/mine.tsv") is None
    assert list(files._read) == ["fbnell"]


@pytest.fixture(scope="module")
def stored(tmp_path_factory, mirror):
    """A cache that starts empty, filled from the mirror."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("MTBENCH_MIRROR", str(mirror))
        yield


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("name", sorted({*RELEASES} - {*UNPUBLISHED}))
def test_a_release_loads_as_declared_and_its_baselines_are_published(name):
    record = catalog.record(name)
    made = mtbench.load(name)
    assert all(row.same for row in match_parts(made, made.info))
    read = mtbench.load(name)
    assert read is not made
    toys.assert_same(read, made)
    drawn = {}
    # What was made has the same triples, and knows the hashes of them by now.
    for split, declared in ((made.valid, record.graphs["train"]), (made.test, record.graphs["test"])):
        assert (split.num_entities, split.num_relations) == (declared.entities, declared.relations)
        assert split.relation_slots == declared.relation_slots
        # Raises if these are not the published candidates.
        for protocol in RECORDED:
            assert f"{split.name}/{protocol}/present/0" in record.candidates
            drawn[split.name, protocol] = candidates.draw(split, setting_of(protocol))
    for protocol, vocabulary in itertools.product(RECORDED, VOCABULARIES):
        assert set(record.baselines[f"test/{protocol}/{vocabulary}/0"]) == set(BASELINES)
    tasks = [Task(made.test, drawn["test", protocol]) for protocol in MAIN]
    for asked, found in zip(tasks, measure("half_link_memory", tasks), strict=True):
        published = record.baselines[asked.name.removeprefix(f"{name}/")]["half_link_memory"]
        assert published == pytest.approx([found[metric] for metric in METRICS], rel=1e-5)


@pytest.mark.usefixtures("stored")
def test_rows_keep_the_order_of_the_published_file(mirror):
    source = next(source for source in catalog.record("wikitopics-mt1/health").sources if source.part == "test/targets")
    lines = (mirror / downloads.place(source.url)).read_text(encoding="utf-8").splitlines()
    split = mtbench.load("wikitopics-mt1/health").test
    assert [" ".join(row) for row in split.named(split.targets)] == lines


@pytest.mark.parametrize("name", RELEASES)
def test_mirrors_hold_the_very_same_bytes(name, mirror):
    absent = []
    for source in catalog.record(name).sources:
        for url in source.urls:
            if source.git_blob and not (mirror / downloads.place(url)).exists():
                absent.append(downloads.place(url))
            else:
                assert downloads.problem(mirror / downloads.place(url), source) == ""
    if absent:
        pytest.skip(f"the mirror lacks {', '.join(absent)}")


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("name", UNPUBLISHED)
def test_a_graph_of_the_field_is_made_of_its_files_as_declared(name, mirror):
    record = catalog.record(name)
    triples = sum(record.part(split, "graph").triples for split in ("train", "test"))
    if triples > LARGE and "targets" not in record.parameters:
        for source in record.sources:
            rows = release.read_triples(mirror / downloads.place(source.url), "", source.columns, source.member)
            assert len(rows) == record.parts[source.part].triples
        return
    try:
        dataset = loading.derive(record)
        differing = differences(dataset, record)
    except loading.UntrainedError as error:
        differing = [] if error.dataset.test.release is record else ["test"]
        dataset = error.dataset
    assert differing == []
    tasks = [Task(dataset.test, candidates.draw(dataset.test, setting_of("full-relation")))]
    published = record.baselines["test/full-relation/present/0"]
    assert set(published) == set(record.baselines["test/full/present/0"]) == set(BASELINES)
    (found,) = measure("half_link_memory", tasks)
    assert published["half_link_memory"] == pytest.approx([found[metric] for metric in METRICS], rel=1e-5)
    if any(source.git_blob for source in record.sources):
        pytest.skip(f"the mirror lacks the training graph of {name}; its test graph is as declared")


@pytest.mark.usefixtures("stored")
def test_a_test_graph_is_read_without_the_training_graph_and_nothing_is_stored():
    with pytest.warns(UserWarning, match=r"ingram-fb-100 is read without its training graph, .*: mtbench fetch "):
        data = mtbench.load("FB-100")
    assert (len(data.train.graph), len(data.test.graph), data.is_release) == (0, 6987, False)
    assert data.label == "ingram-fb-100 1.0.0, without its training graph"
    assert not store.cached(data.info).exists()


def test_groups_are_those_of_the_field_and_every_dataset_is_in_one():
    assert {group: len(catalog.names(group)) for group in catalog.GROUPS} == GROUPS
    assert sum(GROUPS.values()) == len(NAMES)
    with pytest.raises(UnknownNameError, match=r"unknown group 'entities\+relation': did you mean entities\+relations"):
        catalog.names("entities+relation")


def test_a_sample_of_targets_depends_on_the_triples_alone():
    rows = [(f"e{number}", "r", f"e{number + 1}") for number in range(40)]
    sample, others = release._sampled(rows, 12)
    again, _ = release._sampled(rows[::-1], 12)
    assert (len(sample), sorted(sample + others)) == (12, sorted(rows))
    assert sample == again[::-1] == [row for row in rows if row in set(sample)]
