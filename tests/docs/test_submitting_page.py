"""The page on submitting: its commands are run exactly as printed, and print what the page says."""

import re
import shutil
import tomllib
from pathlib import Path

from leaderboard.entries import cards, entries
from leaderboard.entries.entries import RUN_FILES

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "submitting.md").read_text(encoding="utf-8")
BEFORE = (DOCS / "your-model.md").read_text(encoding="utf-8")
(ALONE,) = re.findall(r"```console\n(.*?)\n```", BEFORE, re.DOTALL)
COMMANDS, REPLACE = re.findall(r"```console\n(.*?)\n```", PAGE, re.DOTALL)
(PRINTED,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
(CARD,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def test_the_commands_of_the_page_make_an_entry_that_holds(run, tmp_path):
    first, second, submit, check = COMMANDS.splitlines()
    run(ALONE)
    lacking = run(submit).splitlines()
    assert lacking[2] == f"{first} --out runs/example-Counts-metafam-seed0"
    run(first)
    run(second)
    assert run(submit, "--force") == PRINTED
    assert PRINTED.splitlines()[-1] == check
    assert run(check).endswith("every file, figure, hash and claim holds\n")
    entry = entries.load(tmp_path / "leaderboard" / "results" / "evidence")
    assert [run.missing for run in entry.runs["metafam"]] == [(), ()]
    (tmp_path / "mine.toml").write_text(CARD, encoding="utf-8")
    run(submit, "--card", "mine.toml", "--force")
    assert cards.read(entry.directory / "card.toml").summary == tomllib.loads(CARD)["summary"]
    shutil.rmtree(entry.directory / "metafam" / "seed1")
    made = next((tmp_path / "runs").glob("*seed1"))
    made.rename(tmp_path / "runs" / "new")
    assert run(REPLACE.replace("\\\n", "")).startswith("metafam: seeds 0, 1 of evidence\n")


def test_the_page_names_every_file_that_is_published():
    assert set(RUN_FILES) == set(re.findall(r"`(\w+\.(?:json|parquet))`", PAGE))
