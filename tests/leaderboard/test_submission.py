"""Runs become an entry that holds, whole or not at all; what does not belong together is refused with what to type."""

import os
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import forging
import pytest
import toys
from forging import CARD, PUBLISHED, edit, edit_all, read, tree, write
from hypothesis import given
from hypothesis import strategies as st
from ranking_toys import hashed

from leaderboard.entries import cards, checks, entries
from leaderboard.entries.cards import Card, SubmissionError
from leaderboard.entries.submission import as_toml, find, submit
from mtbench.evaluation.tasks import GIVEN, NOT_ASKED, evaluate, task
from mtbench.runs import result as results
from mtbench.runs.origin import REGIMES, RunInfo
from mtbench.settings.table import MAIN, VOCABULARIES

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
ISDEA = PUBLISHED / "isdea"


@pytest.fixture
def to(tmp_path):
    return tmp_path / "board"


@pytest.fixture
def runs(tmp_path):
    """Two runs as somebody keeps them: elsewhere, under names of their own, with more files than an entry has."""
    folder = tmp_path / "runs"
    for seed in (0, 1):
        shutil.copytree(ISDEA / "metafam" / f"seed{seed}", folder / f"isdea-metafam-{seed}")
        (folder / f"isdea-metafam-{seed}" / "training.png").write_bytes(b"picture")
    (folder / "isdea-metafam-1" / "failure.txt").write_text("Traceback in /home/me", encoding="utf-8")
    return folder


@pytest.fixture
def toy_run(tmp_path, monkeypatch):
    """Return a function that saves a run on a released dataset whose triples may not be passed on."""
    toys.install(monkeypatch.setattr)
    split = toys.dataset().test

    def make(name="toy", seed=0, **info):
        info = RunInfo(**{"model": "mine", "seed": seed, "device": "cpu", **info})
        directory = tmp_path / "toys" / name
        for protocol in MAIN:
            for vocabulary in VOCABULARIES:
                place = directory if (protocol, vocabulary) == ("dual", "present") else f"{protocol}-{vocabulary}"
                evaluate(lambda triples: hashed(triples, 3 + seed), split, protocol, vocabulary).save(
                    directory / place, info
                )
        return directory

    return make


def test_runs_become_an_entry_that_holds(runs, to):
    made = submit([runs], to, card=CARD)
    assert (made.directory, made.seeds, made.unnamed) == (to / "isdea", {"metafam": (0, 1)}, ())
    assert [one for one in checks.check(made.directory) if not one.remark] == []
    entry = entries.load(made.directory)
    assert entry.card == made.card
    assert [run.headline.run.seed for run in entry.runs["metafam"]] == [0, 1]
    assert all(not run.missing for run in entry.runs["metafam"])


def test_what_runs_lack_is_said_with_what_is_typed_for_it(runs, to):
    assert submit([runs], to, card=CARD).lacking == ()
    for path in runs.rglob("entity-present"):
        shutil.rmtree(path)
    edit_all(runs / "isdea-metafam-1", environment={"command": "mtbench run mine:Model --dataset metafam --seed 1"})
    first, second = submit([runs], to, card=CARD, force=True).lacking
    more = f"--protocol all --vocabulary all --out {runs / 'isdea-metafam'}"
    assert first == f"mtbench run isdea --dataset metafam --seed 0 {more}-0"
    assert second == f"mtbench run mine:Model --dataset metafam --seed 1 {more}-1"


def test_what_all_runs_of_a_grid_lack_is_one_command(runs, to, tmp_path):
    for seed in (0, 1):
        run = tmp_path / "my grid" / "isdea-epochs-2" / "metafam" / f"seed{seed}"
        shutil.copytree(runs / f"isdea-metafam-{seed}", run)
        shutil.rmtree(run / "entity-present")
        (run / "conventions.json").unlink()
        begun = f"mtbench run isdea --dataset metafam --set epochs=2 --seed {seed}"
        edit_all(run, environment={"command": begun})
    assert submit([tmp_path / "my grid"], to, card=CARD).lacking == (
        "mtbench grid isdea:epochs=2 --dataset metafam --seeds 0-1 --protocol all --vocabulary all --paper "
        f"--out '{tmp_path}/my grid'",
    )


def test_of_a_run_only_what_is_shown_is_copied_and_that_to_the_byte(runs, to):
    made = submit([runs], to, card=CARD)
    found = tree(made.directory)
    names = {"result.json", "ranks.parquet", "conventions.json", "history.json", "card.toml"}
    assert {path.name for path in found} == names
    for path, data in found.items():
        if path.name != "card.toml":
            assert data == (ISDEA / path).read_bytes()


def test_the_card_says_what_the_runs_say(runs, to):
    card = submit([runs], to, card=CARD).card
    assert (card.name, card.model, card.regime, card.pretraining_graphs) == ("isdea", "isdea", "zero-shot", ())
    assert card.hardware.startswith("cpu, 1 thread, Linux")
    assert card.authors == ("A. Author",)
    other = {"name": "Mine", "hardware": "a laptop", "parameters": 7, "summary": 'Two\nlines and "quotes" \\ '}
    made = submit([runs], to, card=CARD | other | {"url": "https://example.org/a"}, force=True)
    assert cards.read(made.directory / "card.toml") == made.card
    assert (made.card.name, made.card.parameters, made.card.summary) == ("Mine", 7, other["summary"])


def test_address_and_pretraining_graphs_come_from_the_runs(runs, to):
    edit_all(runs, url="https://example.org/model", pretraining_graphs=["metafam/train", "fb15k-237"])
    card = submit([runs], to, card={"authors": ["A"], "licence": "MIT"}).card
    assert card.url == "https://example.org/model"
    assert card.pretraining_graphs == ("fb15k-237",)


def test_a_model_that_is_described_here_alone_has_no_address(runs, to):
    made = submit([runs], to, card=CARD | {"url": ""})
    assert "url" not in (made.directory / "card.toml").read_text(encoding="utf-8")
    assert cards.read(made.directory / "card.toml") == made.card
    assert made.card.url == ""


def test_everything_the_card_lacks_is_asked_for_at_once(runs, to):
    message = (
        r"""type --authors 'A. Author, B. Author' --url https://\.\.\. \(or ""\) --licence NAME, or give --card FILE"""
    )
    with pytest.raises(SubmissionError, match=message):
        submit([runs], to)
    assert not to.exists()


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ({"url": "example.org"}, "url must be an address that begins with https://"),
        ({"name": "<b>ISDEA</b>"}, "name must be plain text, without '<'"),
        ({"nmae": "ISDEA"}, "unknown key 'nmae': did you mean name"),
        ({"model": "mtdea"}, "the card says model = 'mtdea', the runs 'isdea'"),
        ({"regime": "supervised"}, "the card says regime = 'supervised', the runs 'zero-shot'"),
        ({"pretraining_graphs": ["wikidata"]}, "the card names 'wikidata', no run learned from it"),
    ],
)
def test_a_card_that_does_not_hold(runs, to, card, message):
    with pytest.raises(SubmissionError, match=message):
        submit([runs], to, card=CARD | card)
    assert not any(to.glob("isdea*"))


def test_names_of_data_that_may_not_be_passed_on_are_left_out(toy_run, to):
    run = toy_run()
    assert results.load(run).ranks.named
    told = read(forging.published("mtdea-k2") / "tasks.json")
    write(run / "tasks.json", told)
    write(run / "history.json", {"train": [{"epoch": 1, "loss": 0.5, "valid_mrr": None}]})
    made = submit([run], to, card=CARD)
    assert made.unnamed == ("toy",)
    found = tree(made.directory)
    assert {path.name for path in found} == {"card.toml", "result.json", "ranks.parquet", "history.json"}
    for path, data in found.items():
        assert b"hunts" not in data, path
        if path.name == "result.json":
            saved = results.load(made.directory / path.parent)
            assert not saved.ranks.named
            before = results.load(run if path.parent.name == "seed0" else run / path.parent.name)
            assert (saved.metrics, saved.run) == (before.metrics, before.run)
    assert [one for one in checks.check(made.directory) if not one.remark] == []
    assert submit([made.directory], to.parent / "other", card=CARD).unnamed == ()


@pytest.mark.parametrize("status", ["oom", "failed"])
def test_a_run_that_did_not_finish_is_shown(toy_run, to, status):
    finished = toy_run("first")
    split, failed = toys.dataset().test, finished.parent / "second"
    message = "ScoreError: toy test: (x 1, hunts [red], z) scored nan <object at 0x7f>"
    result = replace(task(split).unfinished(status), warnings=(message,))
    result.save(failed, RunInfo(model="mine", seed=1, status=status, regime="supervised"))
    (failed / "failure.txt").write_text("Traceback", encoding="utf-8")
    made = submit([finished, failed], to, card=CARD)
    assert made.seeds == {"toy": (0, 1)}
    assert [one.name for one in made.remarks] == ["unfinished"]
    shown = results.load(made.directory / "toy" / "seed1")
    assert (shown.run.status, shown.warnings) == (status, ("ScoreError",))
    assert not any(path.name == "failure.txt" for path in tree(made.directory))


def test_markup_in_the_message_of_an_error_is_no_reason_to_refuse_the_run(runs, to):
    failed = runs / "isdea-metafam-1"
    for path in sorted(failed.rglob("result.json")):
        payload = {"status": "failed", "ranks_sha256": None, "targets": 0, "tie_rate": None}
        edit(path, **payload, metrics={}, optimistic={}, pessimistic={}, warnings=["TypeError: '<' on\n<object>"])
        path.with_name("ranks.parquet").unlink()
    made = submit([runs], to, card=CARD)
    (warning,) = read(made.directory / "metafam" / "seed1" / "result.json")["warnings"]
    assert warning.startswith("TypeError: '")
    assert "<" not in warning


class TestFind:
    """Runs below what is named."""

    def test_parents_runs_and_files_give_each_run_once(self, runs):
        one = runs / "isdea-metafam-0"
        both = [runs / "isdea-metafam-0", runs / "isdea-metafam-1"]
        assert find([runs]) == both
        assert find([one, runs, one / "result.json"]) == both
        assert find([ISDEA]) == sorted(path.parent for path in ISDEA.glob("*/*/result.json"))

    def test_hidden_folders_are_runs_at_work(self, runs):
        (runs / "isdea-metafam-0").rename(runs / ".isdea-metafam-0.partial")
        assert find([runs]) == [runs / "isdea-metafam-1"]
        with pytest.raises(SubmissionError, match="has not finished: the command that began it goes on with it"):
            find([runs / ".isdea-metafam-0.partial"])

    def test_a_part_of_a_run_is_none(self, runs):
        with pytest.raises(SubmissionError, match=r"is a part of the run .*isdea-metafam-0: name that"):
            find([runs / "isdea-metafam-0" / "dual-slots"])

    def test_half_a_run(self, runs):
        (runs / "isdea-metafam-0" / "result.json").unlink()
        with pytest.raises(SubmissionError, match=r"has ranks\.parquet and no result\.json: it is half a run"):
            find([runs])

    def test_nothing_there(self, tmp_path):
        with pytest.raises(SubmissionError, match="holds no finished run"):
            find([tmp_path])
        with pytest.raises(SubmissionError, match="does not exist: name what mtbench run --out"):
            find([tmp_path / "runs"])


class TestRefused:
    """Runs that do not hold, or do not belong together."""

    def refused(self, given, to, message, **options):
        with pytest.raises(SubmissionError, match=message):
            submit(given, to, **{"card": CARD, **options})
        assert not any(path.name[0] != "." for path in to.glob("*"))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"tie_rate": 0.5}, r"isdea-metafam-1/result.json: tie_rate is 0\.5, the counts give .*: evaluate again"),
            ({"evaluator_version": "0"}, "isdea-metafam-1: evaluator_version is '0', expected '2'"),
            ({"schema": 1}, "-1/result.json: written with schema '1', this version reads 2: evaluate again"),
            ({"asked_again": NOT_ASKED}, "-1: scores were not asked for again .*: leave out ask_again=False"),
            ({"regime": "fine-tuned"}, "isdea-metafam-1: is fine-tuned, the card says zero-shot"),
            ({"hyperparameters": {"width": 64}}, "-1: width is 64, in .*-metafam-0 32: submit them as two entries"),
            ({"hyperparameters": ["a"]}, "isdea-metafam-1/result.json: .*hyperparameters must be an object, not"),
            ({"dataset": "metafam[seed=3]"}, r"'metafam\[seed=3\]' is no released dataset.*mtbench list"),
            ({"dataset_version": "0.9.0"}, r"isdea-metafam-1: dataset version '0\.9\.0', now 1\.0\.0"),
            ({"content_sha256": "0" * 64}, r"-1: made on other data than metafam 1\.0\.0: mtbench fetch metafam, and"),
            ({"commit": "<b>"}, "nothing was submitted: .*isdea-metafam-1/result.json: commit must be plain text"),
        ],
        ids=lambda value: None if isinstance(value, str) else next(iter(value)),
    )
    def test_what_a_run_says(self, runs, to, changes, message):
        edit_all(runs / "isdea-metafam-1", **changes)
        self.refused([runs], to, message)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[" * 100_000, "nested too deeply"),
            ("[]", "holds a list, expected"),
            ("{}", "missing asked, .*; the file was edited: evaluate again"),
        ],
    )
    def test_a_result_that_is_none(self, runs, to, text, message):
        (runs / "isdea-metafam-1" / "result.json").write_text(text, encoding="utf-8")
        self.refused([runs], to, f"isdea-metafam-1/result.json: .*{message}")

    def test_two_models(self, runs, to):
        given = [runs / "isdea-metafam-0", forging.published("ingram", seed=1)]
        self.refused(given, to, "submitted: .*ingram/metafam/seed1: is of 'ingram', the card says 'isdea'")

    def test_settings_may_differ_between_datasets(self, to):
        made = submit([ISDEA], to, card=CARD)
        assert made.seeds["metafam"] == (0, 1, 2)
        assert sum(map(len, made.seeds.values())) == len(find([ISDEA]))

    def test_a_seed_twice(self, runs, to):
        given = [runs, ISDEA / "metafam" / "seed1"]
        self.refused(given, to, "isdea-metafam-1 and .*seed1 are both metafam, seed 1: give one of them")

    def test_a_file_that_is_too_large(self, runs, to):
        with (runs / "isdea-metafam-1" / "history.json").open("r+b") as stream:
            stream.truncate(2**23)
        self.refused([runs], to, "has 8,388,608 bytes, at most 4,194,304 are read")

    @pytest.mark.parametrize("slug", ["../mine", "/tmp/mine", ".mine", "Mine", "a b", "", "x" * 65, "a/b"])
    def test_a_name_that_leads_elsewhere(self, runs, to, slug):
        if slug:
            self.refused([runs], to, "an entry cannot be named", slug=slug)
        else:
            assert submit([runs], to, slug=slug, card=CARD).directory.name == "isdea"

    def test_a_copy_of_another_entry(self, runs, to):
        shutil.copytree(ISDEA, to / "isdea")
        before = tree(to)
        with pytest.raises(SubmissionError, match=r"isdea-metafam-0: the ranks of .* are those of isdea/metafam/seed0"):
            submit([runs], to, slug="mine", card=CARD)
        assert tree(to) == before


class TestReplacing:
    """An entry that exists stays as it is, or is replaced whole."""

    def test_an_existing_entry_is_kept_unless_forced(self, runs, to):
        submit([runs / "isdea-metafam-0"], to, card=CARD)
        before = tree(to)
        with pytest.raises(SubmissionError, match="isdea exists already: replace it with --force, or choose another"):
            submit([runs], to, card=CARD)
        assert tree(to) == before
        made = submit([runs / "isdea-metafam-1"], to, card=CARD, force=True)
        assert not (made.directory / "metafam" / "seed0").exists()
        made = submit([made.directory, runs / "isdea-metafam-0"], to, card=CARD, force=True)
        assert made.seeds == {"metafam": (0, 1)}

    @pytest.mark.parametrize("what", ["notes.txt", "metafam/seed0/thesis.pdf", None])
    def test_a_folder_that_is_more_than_an_entry_is_never_replaced(self, runs, to, what):
        if what is None:
            (to / "isdea").mkdir(parents=True)
            (to / "isdea" / "notes.txt").touch()
        else:
            submit([runs], to, card=CARD)
            (to / "isdea" / what).touch()
        before = tree(to)
        with pytest.raises(SubmissionError, match="holds other things than an entry, which --force would delete"):
            submit([runs], to, card=CARD, force=True)
        assert tree(to) == before

    def test_a_link_is_never_replaced(self, runs, to, tmp_path):
        to.mkdir()
        (tmp_path / "elsewhere").mkdir()
        (to / "isdea").symlink_to(tmp_path / "elsewhere")
        for force in (False, True):
            with pytest.raises(SubmissionError, match=r"isdea (exists already|holds other things)"):
                submit([runs], to, card=CARD, force=force)
        assert list((tmp_path / "elsewhere").iterdir()) == []

    @pytest.mark.parametrize("existing", [False, True])
    def test_a_full_disk_leaves_what_was_there(self, runs, to, monkeypatch, existing):
        if existing:
            submit([runs / "isdea-metafam-0"], to, card=CARD)
        before = tree(to)
        original, calls = Path.rename, []

        def failing(self, target):
            calls.append(target)
            if self.name.endswith(".new"):
                raise OSError(28, "No space left on device")
            return original(self, target)

        monkeypatch.setattr(Path, "rename", failing)
        with pytest.raises(cards.MtbenchError, match="No space left on device"):
            submit([runs], to, card=CARD, force=True)
        assert calls
        left = {path: data for path, data in tree(to).items() if not path.name.endswith(".lock")}
        assert left == {path: data for path, data in before.items() if not path.name.endswith(".lock")}

    def test_a_killed_submission_leaves_no_entry_and_the_next_one_succeeds(self, runs, to):
        def killed():
            Path.rename = lambda self, target: os.kill(os.getpid(), signal.SIGKILL)
            submit([runs], to, card=CARD)

        _, status = os.waitpid(toys.fork(killed), 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        left = [path.name for path in to.iterdir()]
        assert all(name.startswith(".") for name in left)
        assert any(path.name == "card.toml" for path in to.rglob("*"))  # it was killed in the middle
        with pytest.raises(SubmissionError, match="holds no entries"):
            checks.folders(to)
        submit([runs], to, card=CARD)
        assert [path.name for path in checks.folders(to)] == ["isdea"]
        assert not any(path.name.endswith(".new") for path in to.iterdir())
        assert checks.gather(to)[1] == {}


PLAIN = st.text(st.characters(exclude_characters="<>", exclude_categories=["C", "Z", "M"]), min_size=1, max_size=40)
NAMES = st.from_regex(cards.NAME, fullmatch=True).filter(lambda text: cards.skeleton(text) and not {*text} & {*"<>"})


@given(
    texts=st.tuples(NAMES, NAMES, PLAIN, PLAIN).filter(lambda texts: not any(map(cards.INVISIBLE.search, texts))),
    several=st.lists(NAMES, min_size=1, max_size=3).map(tuple),
    parameters=st.none() | st.integers(0, 10**15),
    regime=st.sampled_from(REGIMES),
)
def test_a_card_survives_being_written(texts, several, parameters, regime):
    name, model, licence, hardware = texts
    card = Card(
        name=name,
        model=model,
        authors=several,
        url="https://example.org/a?b=c&d",
        licence=licence,
        regime=regime,
        hardware=hardware,
        pretraining_graphs=several,
        parameters=parameters,
        summary=f"{name}\n{model}",
    )
    assert cards.parse(cards.tomllib.loads(as_toml(card))) == card


class TestCommand:
    """``mtbench submit`` as it is typed."""

    OPTIONS = ("--authors", "A. Author, B. Author", "--url", "https://example.org", "--licence", "MIT")

    def test_the_next_command_is_printed_and_works(self, command, runs, to):
        code, out, err = command("submit", runs, "--to", to, *self.OPTIONS)
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == "metafam: seeds 0, 1 of isdea"
        assert lines[-2] == f"{to}/isdea holds the entry; read {to}/isdea/card.toml, then type"
        assert lines[-1] == f"mtbench leaderboard check {to}/isdea"
        assert cards.read(to / "isdea" / "card.toml").authors == ("A. Author", "B. Author")
        code, out, _ = command(*lines[-1].split()[1:])
        assert code == 0
        assert out.endswith("every file, figure, hash and claim holds\n")

    def test_scores_that_were_given_are_a_remark(self, command, runs, to):
        edit_all(runs, asked_again=GIVEN)
        code, out, _ = command("submit", runs, "--to", to, *self.OPTIONS)
        assert code == 0
        assert out.count("scores were given as numbers, which cannot be asked for again") == 2

    def test_what_was_left_out_is_said(self, command, toy_run, to):
        code, out, _ = command("submit", toy_run(), "--to", to, *self.OPTIONS)
        assert code == 0
        assert "written without names, because the data may not be passed on: toy\n" in out

    def test_a_card_of_ones_own_whole_or_in_part(self, command, runs, to, tmp_path):
        card = tmp_path / "mine.toml"
        text = (ISDEA / "card.toml").read_text(encoding="utf-8").replace("retrained = true\n", "")
        older = re.sub("(?m)^date = .*", 'date = "2023-02-28"', text)
        card.write_text(older, encoding="utf-8")
        assert command("submit", runs, "--to", to, "--card", card, "--title", "Mine", "--name", "mine")[0] == 0
        made = cards.read(to / "mine" / "card.toml")
        assert made == replace(cards.read(card), name="Mine", date=made.date)
        assert made.date > cards.read(card).date  # of the day it was made
        card.write_text('licence = "MIT"\n', encoding="utf-8")
        code, _, err = command("submit", runs, "--to", to, "--card", card)
        assert code == 1
        assert """type --authors 'A. Author, B. Author' --url https://... (or ""), or give --card FILE""" in err
        assert err.count("\n") == 1

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            ([], 2, "'RUN...'"),
            (["runs"], 2, "'--to'"),
            (["nowhere", "--to", "x"], 1, "nowhere does not exist"),
            (["nowhere", "--to", "x", "--licens", "MIT"], 2, "--licen"),
            (["nowhere", "--to", "x", "--card", "no.toml"], 1, "no.toml: cannot be read"),
            (["nowhere", "--to", "x", "--titel", "many"], 2, "--title"),
        ],
    )
    def test_wrong_usage(self, command, tmp_path, monkeypatch, arguments, code, message):
        monkeypatch.chdir(tmp_path)
        found, out, err = command("submit", *arguments)
        assert (found, out) == (code, "")
        assert message in err
        assert "Traceback" not in err
        assert not (tmp_path / "x").exists()
