"""The README's Python examples run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=[str(number) for number in range(len(EXAMPLES))])
@pytest.mark.filterwarnings("ignore::mtbench.results.MtbenchWarning")
def test_example_runs(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    exec(compile(example, str(README), "exec"), {"__name__": "example"})


def test_ci_runs_exactly_the_readmes_test_command() -> None:
    script = (README.parent / ".ci" / "run").read_text(encoding="utf-8").strip().splitlines()
    assert f"```console\n{script[-1]}\n```" in README.read_text(encoding="utf-8")
