"""The page on models of one's own: its example is run exactly as printed, and prints what the page says."""

import re
from pathlib import Path

from mtbench.runs.result import load, verify

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "your-model.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(COMMAND,) = re.findall(r"```console\n(.*?)\n```", PAGE, re.DOTALL)
(PRINTED,) = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)


def test_the_example_is_short():
    assert len(EXAMPLE.splitlines()) <= 60


def test_the_command_prints_what_the_page_says(run, tmp_path):
    assert run(COMMAND).startswith(f"{PRINTED}\n")
    (made,) = (path for path in (tmp_path / "runs").iterdir() if not path.name.startswith("."))
    assert verify(made).ok
    assert load(made).run.hyperparameters == {"epochs": 20}


def test_the_figures_on_the_strict_variant_are_those_of_the_page(run, tmp_path):
    run(f"{COMMAND}-strict", "--out", "strict")
    saved = load(tmp_path / "strict")
    assert f"an MRR of {saved.metrics['mrr']:.4f}, little more than chance ({saved.chance['mrr']:.4f})" in PAGE


def test_settings_and_seeds_reach_the_model(run, tmp_path):
    for name in ("one", "two"):
        run(COMMAND, "--set", "epochs=2", "--seed", "3", "--out", name)
    one, two = (load(tmp_path / name) for name in ("one", "two"))
    assert one.run.hyperparameters == {"epochs": 2}
    assert one.metrics == two.metrics
