"""Temporary folders, and those of processes that are no more."""

from __future__ import annotations

import fcntl
import gc
import os
import tempfile
from pathlib import Path

import pytest

from gaifman.io.files import SCRATCH_LOCK, SCRATCH_PREFIX, ScratchFolder, remove_abandoned


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let temporary folders be made in the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_removed_with_its_object(temporary: Path) -> None:
    one, two = ScratchFolder(), ScratchFolder()
    (one.path / "much").write_bytes(bytes(1_000))
    one.remove()
    assert list(temporary.iterdir()) == [two.path]
    one.remove()  # once more does no harm
    del two
    gc.collect()
    assert not list(temporary.iterdir())


def test_a_folder_in_use_stays() -> None:
    one = ScratchFolder()
    remove_abandoned()
    assert one.path.is_dir()
    one.remove()


def abandoned(name: str, folder: Path) -> Path:
    """Make what a killed process leaves behind."""
    path = folder / name
    path.mkdir()
    (path / SCRATCH_LOCK).touch()
    (path / "much").write_bytes(bytes(1_000))
    return path


def test_only_our_own_abandoned_folders_are_removed(temporary: Path) -> None:
    ours = abandoned(f"{SCRATCH_PREFIX}abcd1234", temporary)
    others = [
        abandoned(name, temporary)
        for name in (f"{SCRATCH_PREFIX}abcd12345", "scratch-abcd1234", f"x{SCRATCH_PREFIX}abcd1234")
    ]
    unlocked = temporary / f"{SCRATCH_PREFIX}efgh5678"  # being made: it has no lock yet
    unlocked.mkdir()
    target = abandoned("target", temporary)
    link = temporary / f"{SCRATCH_PREFIX}ijkl9012"
    link.symlink_to(target)
    remove_abandoned()
    assert not ours.exists()
    assert all((path / "much").exists() for path in (*others, target, link))
    assert unlocked.is_dir()


def test_a_folder_of_another_user_is_left_alone(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = abandoned(f"{SCRATCH_PREFIX}abcd1234", temporary)
    monkeypatch.setattr(os, "getuid", lambda: 12_345_678)
    remove_abandoned()
    assert path.is_dir()


def test_a_lock_that_is_a_link_is_not_followed(temporary: Path) -> None:
    path = temporary / f"{SCRATCH_PREFIX}abcd1234"
    path.mkdir()
    (temporary / "elsewhere").touch()
    (path / SCRATCH_LOCK).symlink_to(temporary / "elsewhere")
    remove_abandoned()
    assert path.is_dir()


def test_a_folder_that_another_process_removes_is_left_to_it(temporary: Path) -> None:
    path = abandoned(f"{SCRATCH_PREFIX}abcd1234", temporary)
    with (path / SCRATCH_LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_abandoned()
        assert path.is_dir()
    remove_abandoned()
    assert not path.exists()


def test_a_forked_child_leaves_the_folder_to_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ScratchFolder()
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as in a child
    folder.remove()
    assert folder.path.is_dir()
