"""Every example of the documentation runs as it stands, and prints what the page says; `pages` says how."""

import json
import shlex
import shutil
import urllib.request
from pathlib import Path

import pages
import pytest
import typer

from mtbench.cli import app as cli
from mtbench.data import downloads

TESTED_ELSEWHERE = {
    "grid.md": "leaderboard/grid/test_grid_page.py",
    "pykeen.md": "adapters/test_adapter_pages.py",
    "pyg.md": "adapters/test_adapter_pages.py",
    "submitting.md": "docs/test_submitting_page.py",
    "my-table.md": "docs/test_my_table_page.py",
    "your-model.md": "docs/test_your_model_page.py",
}
NOT_RUN = {
    "mtbench leaderboard render --cite tally": "reads the entries of the repository",
    "mtbench leaderboard render --format deviations": "reads the entries of the repository",
    "mtbench leaderboard render --format latex --out board.tex": "reads the entries of the repository",
    "mtbench leaderboard render --format markdown": "reads the entries of the repository",
    "mtbench leaderboard render --out site": "reads the entries of the repository",
    "mtbench audit --against mine.tsv --fingerprints mine.parquet": "the graph is the reader's",
    "mtbench audit wikitopics-mt1/health --against mine.parquet": "the graph is the reader's",
    "mtbench baselines --all --protocol all --protocol dual-tail --protocol dual-head --vocabulary all --json": (
        "takes minutes"
    ),
    "mtbench fetch --group entities+relations": "needs the published files",
    "mtbench fetch --all": "needs the published files",
    "mtbench info --all --json": "takes minutes",
    "mtbench baselines --group entities+relations --protocol full": "takes minutes",
    "mtbench run tally-foundation --group entities+relations --protocol full": "takes minutes, and needs PyTorch",
    "mtbench grid tally-foundation tally-adapted --group entities+relations --protocol full --seeds 0-2": (
        "takes hours, and needs PyTorch"
    ),
    "mtbench score --template triples/NAME.csv --group entities --task dual": "needs the published files",
    "mtbench score scores --group entities --task dual --out runs/mine": "the scores are the reader's",
    "mtbench run isdea --dataset metafam --paper": "trains for minutes, and needs PyTorch",
    "mtbench run isdea --dataset fbnell --set recipe=as-run --protocol all --paper": "trains for minutes",
    "mtbench run reference_models.replication:NoTraining --dataset fbnell --protocol all --paper": "needs PyTorch",
    "mtbench run reference_models.replication:rounded --dataset metafam --protocol all --paper": "needs PyTorch",
    "mtbench run tally --dataset metafam": "needs PyTorch",
    "mtbench run tally-adapted --dataset metafam": "needs PyTorch",
    'mtbench show runs/tally-metafam-seed0 --explain --target "alina1317 motherOf julian1316" --plot importance.png': (
        "needs PyTorch"
    ),
    "mtbench run tally-foundation --dataset metafam": "needs PyTorch",
    "mtbench run mtdea --dataset wikitopics-mt1/health --set recipe=fast --set mask=none --set tasks=6 --set epochs=4 "
    "--set adaptation_epochs=4 --protocol dual --protocol entity --paper": "trains for minutes",
    "mtbench run nbfnet-homo --dataset wikitopics-mt1/health --set recipe=fast --protocol dual --protocol entity "
    "--paper": "trains for minutes",
    "mtbench run nbfnet-homo --dataset wikitopics-mt2/location --set selection=none --set epochs=7 --protocol dual "
    "--protocol entity --paper": "trains for minutes",
    "mtbench run isdea-homo --dataset wikitopics-mt4/health --set recipe=as-run --protocol dual --protocol entity "
    "--paper": "trains for minutes",
    "mtbench run isdea-homo --dataset wikitopics-mt1/health --seed 3 --protocol dual --protocol entity --paper": (
        "trains for minutes"
    ),
    "mtbench run nbfnet-homo --dataset wikitopics-mt1/taxonomy --set recipe=fast --seed 3 --protocol dual --protocol "
    "entity --paper": "trains for minutes",
    "mtbench run mtdea --dataset metafam --set recipe=as-run --set tasks=4 --seed 3 --protocol dual --protocol entity "
    "--paper": "trains for minutes",
    "mtbench run tally-foundation --dataset fbnell --protocol full-ultra": "needs PyTorch",
    "mtbench run tally --dataset mine": "the dataset is the reader's",
    "mtbench score-with tally mine --head Rome --relation capitalOf": "the dataset is the reader's",
    "mtbench score-with tally towns.tsv --head Rome --relation capitalOf --top 3": "needs PyTorch",
    "mtbench score-with tally towns.tsv --head Rome --tail Italy": "needs PyTorch",
    "mtbench grid isdea --train 'wikitopics-v1/*' --out runs/transfer": "trains for hours",
    "mtbench grid mtdea:tasks=4 isdea --train wikitopics-v1/art --train wikitopics-v1/people --test 'wikitopics-v1/*' "
    "--vocabulary slots": "trains for hours",
    "mtbench grid mine.module:Model --train 'my-topics/*'": "the datasets and the model are the reader's",
    "python copy_files.py": "needs the internet; run below without",
    "python benchmarks/evaluator.py scores --targets 20000 --repeats 3": "needs OGB and PyKEEN",
}
"""Commands that are only read, not run, and why; those of mtbench must have options that exist."""

PAGES = {
    page.name: found
    for page in sorted(pages.DOCS.glob("*.md"))
    if page.name not in TESTED_ELSEWHERE and (found := pages.blocks(page))
}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
def test_the_examples_of_a_page_run(name, tmp_path, request, monkeypatch):
    pages.play(PAGES[name], tmp_path, request, monkeypatch, set(NOT_RUN))


@pytest.mark.parametrize("line", NOT_RUN)
def test_what_is_not_run_stands_in_a_page_and_has_options_that_exist(line):
    assert any(line in pages.commands(found) for found in PAGES.values())
    name, *words = shlex.split(line)
    if name == "mtbench":
        command = typer.main.get_command(cli.make_app())
        while hasattr(command, "commands"):
            name, *words = words
            command = command.commands[name]
        command.make_context(name, words)


@pytest.mark.parametrize("name", PAGES)
def test_blocks_are_of_a_known_kind(name):
    assert {block.language for block in PAGES[name] if not block.title} <= {"python", "console", "text", "sh"}


def test_pages_tested_elsewhere_are():
    for page, test in TESTED_ELSEWHERE.items():
        assert (pages.DOCS / page).is_file()
        assert (pages.ROOT / "tests" / test).is_file()


def test_the_script_of_the_page_on_mirrors_fills_one(tmp_path, mirror, monkeypatch, printed):
    (script,) = (block.text for block in PAGES["offline.md"] if block.title)
    monkeypatch.chdir(tmp_path)
    listed = printed("info", "--files", "fbnell", "metafam", "--json")
    (tmp_path / "files.json").write_text(listed, encoding="utf-8")
    monkeypatch.setattr(
        urllib.request, "urlretrieve", lambda url, to: shutil.copyfile(mirror / downloads.place(url), to)
    )
    exec(compile(script, "copy_files.py", "exec"), {})
    found = {path.relative_to("mirror").as_posix() for path in Path("mirror").rglob("*") if path.is_file()}
    assert found == {file["place"] for file in json.loads(listed)}
    assert len(found) == 8


def test_every_benchmark_stands_on_its_page():
    text = (pages.DOCS / "benchmarks.md").read_text(encoding="utf-8")
    files = (pages.ROOT / "benchmarks").glob("*.py")
    commands = [file.name for file in files if "__main__" in file.read_text(encoding="utf-8")]
    assert commands
    assert [name for name in commands if f"`{name}" not in text] == []
