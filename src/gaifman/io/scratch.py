"""Temporary folders for what does not fit into memory; those of processes that were killed are removed.

Each folder holds a file that its process locks. The system releases the lock when the process ends, however it ends, so
a folder whose file can be locked belongs to nobody.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

PREFIX = "gaifman-scratch-"
"""Start of the name of every folder."""
LOCK_NAME = "lock"

_NAME = re.compile(re.escape(PREFIX) + r"\w{8}")


class ScratchFolder:
    """A temporary folder, removed by `remove`, with this object, or at the end of the process.

    After a kill the next process that makes such a folder removes it.
    """

    def __init__(self) -> None:
        remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        unnamed = self.path / f"{LOCK_NAME}.part"
        lock = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / LOCK_NAME)  # nobody sees the file before it is locked
        self.remove = weakref.finalize(self, _remove, self.path, lock, os.getpid())
        """Remove the folder and all that is in it."""


def _remove(path: Path, lock: int, process: int) -> None:
    if os.getpid() == process:  # in a forked child the folder is still the parent's
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def remove_abandoned() -> None:
    """Remove the folders that killed processes of this user left behind."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                _remove_if_abandoned(entry)


def _remove_if_abandoned(entry: os.DirEntry[str]) -> None:
    with suppress(OSError):
        if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid != os.getuid():
            return
        lock = os.open(Path(entry.path) / LOCK_NAME, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry.path, ignore_errors=True)
        finally:
            os.close(lock)
