"""Tables in four formats: every name comes out as it went in, whatever it holds."""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtbench.errors import UnknownNameError
from mtbench.files.tables import FORMATS, NO_RANGE, bounds, lay_out, render

ROWS = [("my_model, v|2", {"mr": 8.0405, "mrr": 0.27261}), ("50 % & *more*", {"mrr": 1 / 3})]


def test_text_shows_names_as_they_are_and_leaves_gaps_empty():
    lines = render(ROWS).splitlines()
    assert lines[0].split() == ["MR", "MRR"]
    assert lines[2].split("  ")[0] == "my_model, v|2"
    assert lines[2].endswith("8.04  0.2726")
    assert lines[3].split() == ["50", "%", "&", "*more*", "0.3333"]


def test_markdown_escapes_what_it_would_read_as_markup():
    lines = render(ROWS, "markdown").splitlines()
    assert lines[2].startswith(r"| my\_model, v\|2 |")
    assert lines[3].startswith(r"| 50 % & \*more\*")
    assert {line.replace(r"\|", "").count("|") for line in lines} == {4}


def test_latex_escapes_what_it_would_read_as_commands():
    found = render(ROWS, "latex")
    assert r"my\_model, v|2" in found
    assert r"50 \% \& *more*" in found
    assert r"a\textbackslash{}b" in lay_out(["x"], [["a\\b"]], "latex")


def test_csv_has_every_digit_and_quotes_commas():
    assert render(ROWS, "csv").split("\n") == [
        "name,mr,mrr",
        '"my_model, v|2",8.0405,0.27261',
        f"50 % & *more*,,{1 / 3!r}",
    ]


@settings(max_examples=50)
@given(st.lists(st.lists(st.text(), min_size=3, max_size=3), min_size=1, max_size=4))
def test_csv_reads_back(rows):
    rows = [[f"x{cell}".replace("\r", " ").replace("\0", "") for cell in row] for row in rows]
    found = lay_out(["a", "b", "c"], rows, "csv")
    assert list(csv.reader(io.StringIO(found, newline=""))) == [["a", "b", "c"], *rows]


@given(st.text(alphabet="ab|_\\*`<[\n ", min_size=1))
def test_a_markdown_cell_stays_one_cell_on_one_line(name):
    lines = lay_out(["name", "n"], [[f"x{name}x", 1]], "markdown").split("\n")
    assert len(lines) == 3
    # A bar that no odd run of backslashes precedes ends a cell.
    bars = [i for i, sign in enumerate(lines[2]) if sign == "|"]
    runs = [len(lines[2][:i]) - len(lines[2][:i].rstrip("\\")) for i in bars]
    assert sum(run % 2 == 0 for run in runs) == 3


@pytest.mark.parametrize(
    ("name", "kind", "shown"),
    [
        ("=cmd()", "csv", "'=cmd()"),
        ("+1+cmd()", "csv", "'+1+cmd()"),
        ("-", "csv", "-"),
        ("-0.5", "csv", "-0.5"),
        ("[2pt]", "latex", "{}[2pt]"),
        ("*2", "latex", "{}*2"),
        ("https://a.org", "markdown", r"https\://a.org"),
        ("www.a.org", "markdown", r"www\.a.org"),
        ("&copy;$x$", "markdown", r"\&copy;\$x\$"),
        ("\x1b[31m\u202e", "text", r"\u001b[31m\u202e"),
        ("<b>\x9b", "html", r"&lt;b&gt;\u009b"),
    ],
)
def test_a_name_is_nothing_but_a_name_wherever_it_is_shown(name, kind, shown):
    assert shown in re.split(r"[ |,\n]+|</?td>", lay_out(["x", "y"], [[name, 1]], kind))


@pytest.mark.parametrize("kind", FORMATS)
def test_no_rows_are_an_empty_table(kind):
    assert "x" in lay_out(["x", "y"], [], kind)


def test_an_unknown_format_gets_the_nearest():
    with pytest.raises(UnknownNameError, match="unknown table format 'markdwn': did you mean markdown"):
        render(ROWS, "markdwn")


def test_bounds_that_print_alike_are_no_range():
    assert bounds({"mrr": 0.65}, {"mrr": 0.135}, 2) == "0.14 to 0.65"
    assert bounds({"mrr": 0.651}, {"mrr": 0.649}, 2) == NO_RANGE
