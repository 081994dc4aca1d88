"""Wrong spellings, interruptions and closed pipes: one clear line, the right exit code, never a traceback."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint

import pytest
import toys

from mtbench.cli import app as cli
from mtbench.cli import output

VERBS = [command.name for command in cli.make_app().registered_commands]
INSTALLED = "import sys, toys; toys.install(); from mtbench.cli.app import main; main(sys.argv[1:])"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("lst", "No such command 'lst'. Did you mean 'list'?"),
        ("train toy", "No such command 'train'. Did you mean 'run'?"),
        ("download", "No such command 'download'. Did you mean 'fetch'?"),
        ("list --jsn", "--json"),
        ("build toy --chek", "--check"),
        ("export toy --out x --formt tsv", "--format"),
        ("build toy --seed seven", "--seed"),
        ("build", "'NAME'"),
        ("cite", "'NAME...'"),
        ("export toy", "'--out'"),
        ("info toyy", "error: unknown dataset or directory 'toyy': did you mean toy"),
        ("build toyy", "error: unknown dataset 'toyy': did you mean toy"),
        ("cite toy toyy", "error: unknown dataset 'toyy': did you mean toy"),
        ("verify toyy", "error: unknown dataset or directory 'toyy': did you mean toy"),
        ("export toyy --out x", "error: unknown dataset or directory 'toyy': did you mean toy"),
        ("export toy --format tvs --out x", "error: unknown format 'tvs': did you mean tsv?"),
        ("build toy --set sede=3", "error: unknown toy parameter 'sede': did you mean seed?"),
        ("build toy --set seed", "error: 'seed' is not key=value: for example seed=1"),
        ("build toy --set seed=x", "error: toy: seed must be a whole number, not 'x'"),
        ("build toy --seed 1 --set seed=1", "error: seed is given twice"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_what_was_meant(run, arguments, message):
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_other_words_for_a_verb_are_none_and_mean_one():
    assert set(cli.MEANT.values()) <= set(VERBS)
    assert not set(cli.MEANT) & set(VERBS)


def test_a_package_error_is_one_line_and_exits_with_1(run, tmp_path):
    code, out, err = run("build", "toy", "--set", "label=fail", "--out", str(tmp_path / "made"))
    assert (code, out, err) == (1, "", "error: the toy is broken\n")


def test_an_error_is_one_line_whatever_it_quotes(capsys):
    output.fail("first\nsecond [red]third[/red] :smile: " + "long " * 60)
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith("error: first second [red]third[/red] :smile: long")


def test_an_interruption_is_one_line_and_exits_with_130(run, tmp_path):
    made = tmp_path / "made"
    code, out, err = run("build", "toy", "--set", "label=interrupt", "--out", str(made))
    assert (code, out, err) == (130, "", "error: interrupted\n")
    assert not made.exists()


def test_without_a_verb_the_help_is_shown(run):
    code, out, err = run()
    assert code == 2
    assert "Usage: mtbench" in out + err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(run, verb):
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert f"Usage: mtbench {verb}" in out
    assert f"Example: mtbench {verb}" in " ".join(out.split())
    _, overview, _ = run("--help")
    listed = next(line for line in overview.splitlines() if line.split()[:1] == [verb])
    assert listed.endswith(".")
    assert not listed.endswith("...")


def test_a_verb_of_another_package_is_offered(monkeypatch, run):
    brought = [EntryPoint("juggle", "mtbench.cli.datasets:cite", cli.VERBS_GROUP)]
    monkeypatch.setattr(cli, "entry_points", lambda group: brought if group == cli.VERBS_GROUP else [])
    assert [command.name for command in cli.make_app().registered_commands] == [*cli.VERBS, "juggle"]
    assert run("juggle", "metafam") == run("cite", "metafam")


def test_a_verb_that_cannot_be_imported_is_told_and_leaves_the_others(monkeypatch, run):
    monkeypatch.setattr(cli, "entry_points", lambda group: [EntryPoint("tame", "circus.cli:tame", group)])
    code, out, err = run("cite", "metafam")
    assert (code, out[:1]) == (0, "@")
    assert err == "error: circus.cli:tame gives no verb 'tame': No module named 'circus'\n"


def test_a_reader_that_leaves_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    process = toys.python("-c", INSTALLED, "info", "toy", stdout=writing)
    os.close(writing)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")


def test_a_reader_that_leaves_does_not_hide_a_failed_check():
    reading, writing = os.pipe()
    os.close(reading)
    process = toys.python("-c", INSTALLED, "build", "toy", "--seed", "3", "--check", stdout=writing)
    os.close(writing)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert errors.startswith("error: train/graph")


def test_a_name_the_terminal_cannot_show_is_escaped():
    process = toys.python("-m", "mtbench", "info", "metafm\u4e2d", env={"PYTHONIOENCODING": "ascii"})
    _, errors = process.communicate()
    assert process.returncode == 2
    assert errors.startswith("error: unknown dataset or directory 'metafm\\u4e2d'")


def test_the_package_runs_as_a_module():
    printed, errors = toys.python("-m", "mtbench", "--version").communicate()
    assert printed.startswith("mtbench ")
    assert not errors


def test_tables_are_neither_cut_nor_wrapped_when_piped(capsys):
    output.say_table(("Name", "Number", "Text"), [("n" * 300, 1234567, None), ("[b]:cat:", 2, "t" * 300)])
    out = capsys.readouterr().out
    assert "n" * 300 in out
    assert "t" * 300 in out
    assert [line.split()[1] for line in out.splitlines()[2:]] == ["1,234,567", "2"]
    assert out.splitlines()[3].startswith("[b]:cat: ")


def test_json_is_laid_out_and_names_are_left_as_they_are(capsys):
    output.say_json({"são": [1]})
    assert capsys.readouterr().out == '{\n  "são": [\n    1\n  ]\n}\n'
