"""A small catalogued dataset and random datasets, for tests of everything that stores, loads or prints."""

import os
import signal
import subprocess
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mtbench.data import catalog
from mtbench.data.splits import Dataset, Split, encode, vocabulary
from mtbench.errors import DatasetError
from mtbench.files.hashing import content_hash

TRAIN = [("ann", "knows", "bob"), ("bob", "knows", "çelik öz"), ("çelik öz", "likes", "ann"), ("ann", "likes", "ann")]
MASKED = [("ann", "knows", "çelik öz")]
TEST = [("x 1", "eats", "y\u4e2d"), ("y\u4e2d", "eats", "z"), ("z", "hunts [red]", "x 1")]
KNOWN = ([("bob", "likes", "ann")], [("z", "eats", "x 1"), ("y\u4e2d", "eats", "x 1")])
MISSING = [("x 1", "hunts [red]", "z"), ("x 1", "eats", "z")]
BUILDER = 'builder = "toy"\nrecipe = "toys:make"'
RECORD = """
id = "toy"
title = "Toy [bold]"
version = "2.0.0"
builder = "toy"
recipe = "toys:make"
summary = "A few people."
licence = "CC0"
citation = '''
@misc{toy,
  title = {Toy},
}
'''
aliases = ["Toy_v1"]
defects = ["It is [red]tiny[/red]."]
sources = []

[parameters]
seed = 1
scale = 0.5
label = "plain"
loud = false

[graphs]
train = { entities = 3, relations = 2, relation_slots = 5 }
test = { entities = 3, relations = 2, relation_slots = 2 }

[parts]
"train/graph" = { triples = 4, content_sha256 = "TRAIN" }
"valid/targets" = { triples = 1, content_sha256 = "MASKED" }
"test/graph" = { triples = 3, content_sha256 = "TEST" }
"test/targets" = { triples = 2, content_sha256 = "MISSING" }

[candidates]
"""


def dataset(
    name="toy",
    info=None,
    parameters=None,
    *,
    parts=(TRAIN, MASKED, TEST, MISSING),
    known=((), ()),
    slots=(5, 2),
    tasks=None,
):
    """Make a dataset of named triples, with vocabularies that also hold an entity no triple uses."""
    train_rows, masked, test_rows, missing = parts
    splits = {}
    for key, *rows in (("train", train_rows, masked, known[0]), ("test", test_rows, missing, known[1])):
        entities, relations = vocabulary(*rows)
        graph, targets, besides = (encode(part, entities, relations, key) for part in rows)
        splits[key] = Split(
            dataset=name,
            name=key,
            graph=graph,
            targets=targets,
            known=besides,
            entities=entities,
            relations=relations,
            relation_slots=max(slots[key == "test"], len(relations)),
            tasks={} if tasks is None else dict.fromkeys(relations.tolist()[:1], tasks),
        )
    info = info or catalog.record("toy")
    return Dataset(
        name=name,
        version=info.version,
        train=splits["train"].observable(),
        valid=replace(splits["train"], name="valid"),
        test=splits["test"],
        info=info,
        parameters=dict(info.parameters) if parameters is None else parameters,
    )


def make(info, parameters):
    """Build the toy and log it; seed 1 is the release, other seeds drop a training triple, other labels fail."""
    if log := os.environ.get("TOY_LOG"):
        with Path(log).open("a") as stream:
            stream.write("built\n")
    if parameters["label"] == "interrupt":
        raise KeyboardInterrupt
    if parameters["label"] == "fail":
        raise DatasetError("the toy is broken")
    release = parameters == dict(info.parameters)
    rows = TRAIN if release else TRAIN[parameters["seed"] % 4 :] + TRAIN[: parameters["seed"] % 4 - 1]
    name = "toy" if release else f"toy[seed={parameters['seed']}]"
    return dataset(name, parameters=parameters, parts=(rows, MASKED, TEST, MISSING))


def record_text():
    """Return the toy's record as TOML, its hashes computed."""
    text = RECORD
    for key, rows in {"TRAIN": TRAIN, "MASKED": MASKED, "TEST": TEST, "MISSING": MISSING}.items():
        text = text.replace(f'"{key}"', f'"{content_hash(rows)}"')
    return text


def record():
    return catalog.parse(record_text(), "toy.toml")


def install(setattr_=setattr, toy=None):
    """Put the toy into the catalogue; tests pass ``monkeypatch.setattr``."""
    records = MappingProxyType({**catalog._records(), "toy": toy or record()})
    aliases = MappingProxyType({**catalog._aliases(), "toy": records["toy"], "toy_v1": records["toy"]})
    setattr_(catalog, "_records", lambda: records)
    setattr_(catalog, "_aliases", lambda: aliases)


def python(*arguments, **options):
    """Start another Python that can import the package and this module, its output captured as text.

    Ctrl-C reaches it even where the tests themselves run in the background, which ignores it.
    """
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, **options.pop("env", {})}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if os.name == "posix":
        options.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    return subprocess.Popen([sys.executable, *arguments], env=environment, text=True, **{**pipes, **options})


def fork(work):
    """Begin a piece of work in a child of this process, which has what this one has imported; returns its id.

    The child ends with code 0 once the work is done, and with 1 and a traceback if that fails.
    """
    if child := os.fork():
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001  the child ends here, whatever it is
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def assert_same(left, right):
    """Compare two datasets by everything a user can see."""
    assert (left.name, left.version, dict(left.parameters)) == (right.name, right.version, dict(right.parameters))
    for name in ("train", "valid", "test"):
        ours, theirs = left.split(name), right.split(name)
        for part in ("graph", "targets", "known", "entities", "relations"):
            np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part))
        assert ours.graph.dtype == ours.targets.dtype == np.int64
        assert (ours.dataset, ours.name, ours.relation_slots) == (theirs.dataset, theirs.name, theirs.relation_slots)
        assert dict(ours.tasks) == dict(theirs.tasks)
