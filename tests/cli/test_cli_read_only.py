"""A cache and runs that somebody else has filled and nobody may write to, as they are on a cluster."""

from __future__ import annotations

import ctypes
import os
import textwrap

import pytest
import thirdparty
import toys

DROP, OVERRIDE, SEARCH = 24, 1, 2
"""Of Linux: prctl's PR_CAPBSET_DROP, and the two capabilities with which root minds no permissions."""

TYPED = """
import shlex, sys
import thirdparty, toys
from mtbench.cli.app import main

toys.install()
for line in sys.argv[1:]:
    try:
        main(shlex.split(line))
    except SystemExit as stopped:
        print(f"exit {stopped.code}: {line}")
"""


def mind_permissions():
    if os.geteuid() == 0:
        for capability in (OVERRIDE, SEARCH):
            ctypes.CDLL(None).prctl(DROP, capability, 0, 0, 0)


@pytest.fixture
def typed(toy_cache, printed, tmp_path):
    """Return a function that types commands where the cache, which holds the toy, and a run of it are read-only."""
    (tmp_path / f"{thirdparty.NAME}.py").write_text(textwrap.dedent(thirdparty.SOURCE), encoding="utf-8")
    cache = toy_cache.parents[2]
    printed("fetch", "toy")
    run = ("run", f"{thirdparty.NAME}:Kept", "--dataset", "toy", "--out", tmp_path / "theirs" / "run")

    def child(*lines: str) -> tuple[str, str]:
        options = {"cwd": tmp_path, "env": {"MTBENCH_CACHE": str(cache)}, "preexec_fn": mind_permissions}
        return toys.python("-c", TYPED, *lines, **options).communicate()

    child(" ".join(map(str, run)))
    folders = [path for part in (cache, tmp_path / "theirs") for path in (part, *part.rglob("*"))]
    for path in folders:
        path.chmod(path.stat().st_mode & ~0o222)
    out, _ = toys.python(
        "-c", f"import os; print(os.access({str(cache)!r}, os.W_OK))", preexec_fn=mind_permissions
    ).communicate()
    if out != "False\n":
        pytest.skip("nothing is read-only to this user, who may write everywhere")
    yield child
    for path in folders:
        path.chmod(path.stat().st_mode | 0o200)


def test_a_full_read_only_cache_serves_every_verb_and_what_it_lacks_is_named_with_its_place(typed, tmp_path):
    lines = [
        *(
            "list",
            "info toy",
            "verify toy",
            "fetch toy",
            "build toy",
            "audit toy",
            "baselines toy",
            "export toy --out x",
        ),
        f"run {thirdparty.NAME}:Hashing --dataset toy --out mine",
        "import x --out y",
        "verify theirs/run",
        "show theirs/run",
    ]
    out, err = typed(*lines)
    assert err == ""
    assert [line for line in out.splitlines() if line.startswith("exit")] == [f"exit 0: {line}" for line in lines]
    place = tmp_path / "cache" / "datasets" / "metafam" / "1.0.0"
    out, err = typed("fetch metafam", "build toy --force")
    assert [line.partition(":")[0] for line in out.splitlines()] == ["exit 1", "exit 1"]
    message = "Permission denied; nothing was stored (name another place with --out or MTBENCH_CACHE)"
    assert f"cannot write {place}: {message}" in err
    assert f"cannot write {place.parents[1] / 'toy' / '2.0.0'}: {message}" in err


def test_what_a_read_only_run_learned_can_be_gone_on_with(typed, tmp_path):
    out, err = typed(f"run {thirdparty.NAME}:Kept --dataset toy --protocol entity --from theirs/run --out mine")
    assert (err, out.splitlines()[-1][:7]) == ("", "exit 0:")
    assert (tmp_path / "mine" / "checkpoints" / "state").read_text() == "learned"
