"""What is shared of the board: a table for a paper, the snippet of an entry, and how far it is."""

import re
import sys
from dataclasses import replace

import pytest
from site_toys import HOSTILE, standing_board

from leaderboard.board import tables
from leaderboard.cli.entries import watching

ROW = re.compile(r"^(.*) \\\\$", re.MULTILINE)


@pytest.fixture(scope="module")
def board(toy_board):
    told = {"good": dict.fromkeys(toy_board.paper, 0.75), "some": {"metafam": 0.25}, "none": {}}
    return standing_board(toy_board, told)


def test_the_latex_table_is_whole_and_every_row_has_as_many_cells(board):
    text = tables.latex(board)
    begun, ended = (re.findall(rf"\\{word}{{(.*?)}}", text) for word in ("begin", "end"))
    assert begun == ended[::-1] == ["table*", "tabular"]
    for rule in ("toprule", "bottomrule"):
        assert text.count(rf"\{rule}") == 1
    assert text.count(r"\midrule") == 2
    head, baseline, good, some = [row.replace(r"\\\\", " ").split(" & ") for row in ROW.findall(text)]
    assert len(head) == len(baseline) == len(good) == len(some) == 14
    assert baseline[0].strip() == "best heuristic baseline"
    assert [cell.strip() for cell in good[:5]] == ["good", "elsewhere", "10/10", "+0.250", r"\textbf{0.750}"]
    assert [cell.strip() for cell in some[2:6]] == ["1/10", "-0.250", "0.250", "-"]
    assert r"\shortstack{mt1\\health}" in text
    assert not re.search("[\ue000-\ue00f]", text)
    assert "\\resizebox{\\textwidth}{!}{%\n\\begin{tabular}" in text
    assert "\\end{tabular}\n}\n" in text


def test_the_markdown_table_has_the_same_rows(board):
    head, _, baseline, good, some = tables.markdown(board).split("\n\n")[0].splitlines()
    assert "mt1/health" in head
    assert "**0.750**" in good
    assert len({len(line) for line in (head, baseline, good, some)}) == 1


def test_the_snippet_is_bibtex_and_the_row_of_the_table(board):
    (entry, *_) = board.entries
    bibtex, told = tables.snippet(board, entry).split("\n\n")
    comment, row = told.splitlines()
    assert bibtex.startswith("@misc{mtbench-good,\n")
    assert bibtex.count("{") == bibtex.count("}")
    assert "author = {Jianfei Gao and Yangze Zhou and Jincheng Zhou and Bruno Ribeiro}," in bibtex
    assert comment.count(" & ") == row.count(" & ") == 13
    assert row.startswith("good & elsewhere & 10/10 & +0.250 & ")


def test_names_are_text_in_bibtex(toy_board):
    (entry,) = (one for one in toy_board.entries if one.slug == "hostile")
    card = replace(entry.card, authors=("{x", "The A_B team"), name=r"50% {of} \input$", url="https://a.org/{x}")
    text = tables.bibtex("hostile", card)
    assert text.count("{") == text.count("}")
    assert r"{{50\% (of) /input\$}}" in text
    assert r"{(x and {The A\_B team}}" in text
    assert HOSTILE not in tables.bibtex("hostile", entry.card)


def test_cite_prints_the_snippet_of_an_entry(command, toy_board, toy_entries, monkeypatch):
    monkeypatch.setattr("leaderboard.cli.entries._board", lambda entries: toy_board)
    code, said, _ = command("leaderboard", "render", "--cite", "isdea", "--entries", toy_entries)
    (entry,) = (one for one in toy_board.entries if one.slug == "isdea")
    assert (code, said) == (0, f"{tables.snippet(toy_board, entry)}\n")
    code, _, err = command("leaderboard", "render", "--cite", "isdae", "--entries", toy_entries)
    assert code == 2
    assert "isdea" in err


def test_whoever_waits_at_a_terminal_sees_how_far_it_is(monkeypatch, capsys):
    assert list(watching([1, 2], "counting")) == [1, 2]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(watching([1, 2], "counting")) == [1, 2]
    assert "counting" in capsys.readouterr().err
