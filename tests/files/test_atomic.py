"""Files and directories that are complete or absent, and who is told what where that cannot be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mtbench.errors import AtWorkError, MtbenchError
from mtbench.files import atomic


def test_a_file_that_cannot_be_read_is_not_said_to_be_one_that_cannot_be_written(tmp_path):
    place, missing = tmp_path / "out" / "copy", tmp_path / "in" / "run.json"
    place.parent.mkdir()
    told = f"^cannot read {missing}: No such file or directory; nothing was stored$"
    with pytest.raises(MtbenchError, match=told), atomic.storage_errors(place):
        shutil.copy(missing, place)
    with pytest.raises(MtbenchError, match=f"^cannot write {place}: "), atomic.storage_errors(place):
        shutil.copy(__file__, place / "deeper" / "still")


def test_a_directory_at_work_is_told_to_whoever_does_not_wait(tmp_path):
    place = tmp_path / "run"
    told = f"another process is at work on {place}"
    with atomic.locked(place), pytest.raises(AtWorkError, match=told), atomic.locked(place, wait=False):
        pytest.fail("two at work")
    with atomic.locked(place, wait=False):
        pass


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder in which nobody can make a file")
def test_a_lock_that_cannot_be_made_is_not_waited_for():
    with (
        pytest.raises(MtbenchError, match="cannot write /proc/run: No such file"),
        atomic.locked(Path("/proc/run"), wait=False),
    ):
        pytest.fail("locked")


def test_a_kill_between_the_two_renames_loses_neither_directory(tmp_path, monkeypatch):
    place, new = tmp_path / "run", tmp_path / ".run.partial"
    for folder in (place, new):
        folder.mkdir()
        (folder / "result").write_text(folder.name)
    rename = Path.rename

    def killed(path: Path, target: Path) -> Path:
        if path == new:
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        patch.setattr(atomic, "_tidy", lambda directory: None)  # a killed process does not tidy up either
        with pytest.raises(KeyboardInterrupt):
            atomic.put_in_place(new, place)
    assert not place.exists()
    with atomic.locked(place):
        assert (place / "result").read_text() == "run"
        assert (new / "result").read_text() == ".run.partial"
        atomic.put_in_place(new, place)
    assert (place / "result").read_text() == ".run.partial"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".run.lock", "run"]
