"""The folder of a run: what belongs to it, its record, and who works in it.

    run.json      the settings, written first; at the end also that the result is there
    lock          held by the process that works here
    log.jsonl     one line for each event
    done/         finished tasks, each a file like a model's
    doing/        checkpoints of tasks under way
    final         the result while it is written

`gaifman.runs` is what a reader wants.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaifman import __version__
from gaifman.errors import InputError, OutputError, shorten
from gaifman.io.files import atomic_write
from gaifman.io.model_file import Meta, canonical_json

FORMAT = "gaifman run"
VERSION = 1
"""Raised when folders are written that older versions of gaifman would misread."""

RECORD, LOCK, LOG, DONE, CHECKPOINTS, RESULT = "run.json", "lock", "log.jsonl", "done", "doing", "final"
_RUN_FILES = {RECORD, LOCK, LOG, DONE, CHECKPOINTS, RESULT}


def display_path(path: Path) -> str:
    """A path as messages have it."""
    return shorten(str(path), 120)


def make_folder(folder: Path) -> None:
    """Make the folder, or raise where it holds what is not a run's: it would be removed with the run."""
    try:
        folder.mkdir(exist_ok=True)
        strange = sorted(
            entry.name for entry in folder.iterdir() if entry.name not in _RUN_FILES and not _is_partial(entry)
        )
    except (OSError, ValueError) as error:  # ValueError: a name with NUL
        why = getattr(error, "strerror", None) or error
        raise OutputError(f"{display_path(folder)} cannot be the folder of a run: {why}") from None
    if strange:
        raise OutputError(
            f"{display_path(folder)} holds other things than a run, such as {shorten(strange[0])}",
            hint="name a new folder",
        )


def require_run(folder: Path) -> None:
    """Raise where no run is."""
    if not (folder / RECORD).is_file():
        raise InputError(
            f"there is no run in {display_path(folder)}",
            hint="it has ended, or never began: its folder holds a file run.json",
        )


def acquire_lock(folder: Path) -> int:
    """A file descriptor that holds the lock for as long as it is open, however the process ends."""
    path = folder / LOCK
    while True:
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise OutputError(f"{display_path(path)} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock), path.stat()):  # it may have been removed by the run's end meanwhile
                break
        except FileNotFoundError:
            pass
        except OSError as error:
            holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
            os.close(lock)
            if not isinstance(error, BlockingIOError):
                raise OutputError(f"{display_path(path)} cannot be locked: {error.strerror}") from None
            raise OutputError(
                f"{f'process {shorten(holder)}' if holder else 'another process'} works on the run in {display_path(folder)}",
                hint="wait for it, or end it; the run can be resumed",
            ) from None
        os.close(lock)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def write_record(folder: Path, settings: Meta, finished: Meta | None) -> None:
    """Write the record whole: the settings and, at the end, where the result is and which tasks it is made of."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        "gaifman": __version__,
        "settings": settings,
        "finished": finished,
    }
    with atomic_write(folder / RECORD) as temporary:
        temporary.write_text(json.dumps({**record, "checksum": _checksum(record)}, indent=2) + "\n")


def read_record(folder: Path) -> Meta:
    """The record of a run that this version can go on with."""
    require_run(folder)
    name, again = display_path(folder / RECORD), "begin the run anew, with --force"
    try:
        record = json.loads((folder / RECORD).read_bytes())
        checksum = record.pop("checksum", None)
        ours, version, maker = record.get("format") == FORMAT, record.get("version"), record.get("gaifman")
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from None
    except (ValueError, AttributeError, RecursionError):
        raise InputError(f"{name} is damaged: it is no JSON object", hint=again) from None
    if not ours:
        raise InputError(f"{name} is no record of a run of gaifman", hint=again)
    if isinstance(version, int) and version > VERSION:
        raise InputError(f"{name} was made by a newer gaifman", hint="pip install --upgrade gaifman")
    if not _checksum_matches(record, checksum):
        raise InputError(f"{name} is damaged: its checksum does not fit what it holds", hint=again)
    if maker != __version__:
        # Another version may draw, learn or round otherwise: the result would be neither's.
        why = f"gaifman {maker} began this run, and this is {__version__}"
        raise InputError(f"{name}: {why}", hint=f"go on with gaifman {maker}, or begin the run anew with --force")
    return dict(record)


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.blake2b(canonical_json(record).encode(), digest_size=32).hexdigest()


def _checksum_matches(record: Meta, checksum: Any) -> bool:
    try:
        return bool(_checksum(record) == checksum)
    except OutputError:  # NaN, for one
        return False


def _is_partial(path: Path) -> bool:
    """Whether a file is one that was being written when the process was killed."""
    return path.name.startswith(".") and path.name.endswith(".part")


def remove_partial_files(folder: Path) -> None:
    """Remove what a killed process was writing."""
    for inside in (folder, folder / DONE, folder / CHECKPOINTS):
        for path in inside.glob(".*.part"):
            path.unlink(missing_ok=True)


def remove_entries(folder: Path, names: tuple[str, ...]) -> None:
    """Remove some of what belongs to a run."""
    for name in names:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
