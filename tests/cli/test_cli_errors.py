"""Wrong spellings, interruptions and closed pipes: one clear line, the right exit code, never a traceback."""

import os
import platform
from importlib.metadata import EntryPoint

import pytest
import toys
import typer

from mtbench.cli import app as cli
from mtbench.cli import output

APP = typer.main.get_command(cli.make_app())
INSTALLED = "import sys, toys; toys.install(); from mtbench.cli.app import main; main(sys.argv[1:])"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("lst", "No such command 'lst'. Did you mean 'list'?"),
        ("train toy", "No such command 'train': type mtbench run MODEL --dataset NAME"),
        ("contaminaton toy", "No such command 'contaminaton': type mtbench audit NAME --against"),
        ("download", "No such command 'download': type mtbench fetch NAME"),
        ("list --jsn", "--json"),
        ("build toy --chek", "--check"),
        ("export toy --out x --formt tsv", "--format"),
        ("build toy --seed seven", "--seed"),
        ("build", "'NAME'"),
        ("info --cite", "'NAME...'"),
        ("export toy", "'--out'"),
        ("info toyy", "error: unknown dataset or directory 'toyy': did you mean toy"),
        ("build toyy", "error: unknown dataset 'toyy': did you mean toy"),
        ("info --cite toy toyy", "error: unknown dataset 'toyy': did you mean toy"),
        ("info --files toyy", "error: unknown dataset 'toyy': did you mean toy"),
        ("fetch toyy", "error: unknown dataset 'toyy': did you mean toy"),
        ("verify toyy", "error: unknown dataset or directory 'toyy': did you mean toy"),
        ("export toyy --out x", "error: unknown dataset or directory 'toyy': did you mean toy"),
        ("export toy --format tvs --out x", "error: unknown format 'tvs': did you mean tsv?"),
        ("build toy --set sede=3", "error: unknown toy parameter 'sede': did you mean seed?"),
        ("build toy --set seed", "error: 'seed' is not key=value: for example seed=1"),
        ("build toy --set seed=x", "error: toy: seed must be a whole number, not 'x'"),
        ("build toy --seed 1 --set seed=1", "error: seed is given twice"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_what_was_meant(refused, arguments, message):
    err = refused(*arguments.split())
    assert message in err
    assert "Traceback" not in err


def test_other_words_for_a_verb_are_none_and_mean_one():
    assert not set(cli.MEANT) & set(APP.commands)
    assert {meant.split()[0] for meant in cli.MEANT.values()} <= {*APP.commands, "--help", "--version"}


@pytest.mark.parametrize("gone", ["urls", "cite", "contamination", "settings", "transfer"])
def test_a_verb_that_there_was_is_answered_with_what_to_type(run, gone):
    code, out, err = run(gone, "toy")
    assert (code, out) == (2, "")
    words = err.strip().partition(f"No such command {gone!r}: type mtbench ")[2].split()
    command = APP.commands[words[0]]
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert {word for word in words if word[:2] == "--"} <= flags | {"--to"}


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


def every_command(command, *words):
    """Give each command below one with what is typed for it."""
    for name, below in getattr(command, "commands", {}).items():
        if hasattr(below, "commands"):
            yield from every_command(below, *words, name)
        else:
            yield (*words, name), below


def test_there_are_few_verbs_and_few_options():
    own = [verb for verb in cli.VERBS.values() if verb.place]
    assert len(own) <= 16
    assert sum(len(command.params) for (verb, *_), command in every_command(APP) if cli.VERBS[verb].place) <= 123


@pytest.mark.parametrize(
    "words", [words for words, command in every_command(APP) if "group" in {each.name for each in command.params}]
)
def test_a_group_whose_blank_is_not_in_quotes_is_told_so(refused, words):
    told = "unknown group 'one': did you mean one graph? A name with a blank stands in quotes: --group 'one graph'"
    assert told in refused(*words, "--group", "one", "graph")


@pytest.mark.parametrize(("words", "explained"), list(every_command(APP)), ids=str)
def test_every_verb_explains_itself_with_an_example(words, explained, printed):
    out = printed(*words, "--help")
    assert f"Usage: mtbench {' '.join(words)}" in out
    assert f"Example: mtbench {' '.join(words)}" in " ".join(out.split())
    assert words[1:] or cli.VERBS[words[0]].summary == explained.get_short_help_str(100)


def test_the_help_has_a_line_for_every_verb(run):
    _, overview, _ = run("--help")
    assert set(cli.VERBS) <= {line.split()[0] for line in overview.splitlines() if line.startswith("  ")}


def test_a_verb_of_another_package_is_offered_and_one_that_is_broken_leaves_the_others(monkeypatch, run):
    brought = [
        EntryPoint("juggle", "mtbench.cli.datasets:list_datasets", cli.VERBS_GROUP),
        EntryPoint("tame", "circus.cli:tame", cli.VERBS_GROUP),
    ]
    known = cli.places() | {place.name: place for place in brought}
    monkeypatch.setattr(cli, "places", lambda: known)
    assert run("juggle") == run("list")
    told = "circus.cli:tame gives no verb 'tame': No module named 'circus'"
    assert run("tame") == (1, "", f"error: {told}\n")
    _, out, _ = run("--help")
    assert f"juggle  List the datasets of the catalogue. tame    ({told})" in " ".join(
        out.split("Other:\n  ")[1].split("\n  ")
    )


@pytest.mark.parametrize("chosen", [{}, {"GOMP_SPINCOUNT": "7"}, dict.fromkeys(cli.SETTINGS, "7")])
def test_a_setting_of_the_allocator_that_is_chosen_stays_and_the_others_are_added(monkeypatch, chosen):
    started = []
    for name in cli.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.39"))
    monkeypatch.setattr(os, "execve", lambda program, arguments, environment: started.append(environment))
    cli.restart_with_settings()
    expected = [] if chosen.keys() == cli.SETTINGS.keys() else [cli.SETTINGS | chosen]
    assert [{name: one[name] for name in cli.SETTINGS} for one in started] == expected


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [(("info", "toy"), 0, ""), (("build", "toy", "--seed", "3", "--check"), 1, "error: train/graph")],
)
def test_a_reader_that_leaves_is_no_error_and_hides_none(arguments, code, message):
    reading, writing = os.pipe()
    os.close(reading)
    process = toys.python("-c", INSTALLED, *arguments, stdout=writing)
    os.close(writing)
    _, errors = process.communicate()
    assert process.returncode == code
    assert errors.startswith(message)
    assert bool(errors) == bool(message)


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
