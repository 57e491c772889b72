"""The folder of a run: what belongs to it, its record, and who works in it.

    run.json      the settings, written first; at the end also that the result is there
    lock          held by the process that works here
    log.jsonl     one line for each event
    done/         finished tasks, each a file like a model's
    doing/        checkpoints of tasks under way
    final         the result while it is written

`gaifman.jobs.run` is what a reader wants.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gaifman import __version__
from gaifman.errors import InputError, OutputError, shorten, similar_names
from gaifman.io.files import atomic_write, display_path, leftover_files
from gaifman.io.model_file import Arrays, Meta, canonical_json, read_model, write_model

FORMAT = "gaifman run"
VERSION = 1
"""Raised when folders are written that older versions of gaifman would misread."""

RECORD, LOCK, LOG, DONE, CHECKPOINTS, RESULT = "run.json", "lock", "log.jsonl", "done", "checkpoints", "result"
_RUN_FILES = {RECORD, LOCK, LOG, DONE, CHECKPOINTS, RESULT}


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


class Run:
    """A folder in which work goes on; one process at a time, any number of its threads.

    `Run.create` begins one, `Run.open` goes on; `with` lets go of the folder at the end.
    """

    def __init__(
        self, folder: Path, settings: Meta, lock: int, checkpoint_seconds: float, finished: Meta | None = None
    ) -> None:
        """Not for callers: `create` and `open` make runs."""
        self.folder = folder
        self.settings = settings
        """What the run was begun with, as JSON gives it back."""
        self.checkpoint_seconds = checkpoint_seconds
        """Between two checkpoints of a task, at least."""
        self._lock = lock
        self._finished = finished
        self._resumed = False
        self._names: set[str] | None = None
        self._clocks: dict[str, float] = {}
        self._mutex = threading.RLock()

    @classmethod
    def create(
        cls, folder: Path | str, settings: Mapping[str, Any], *, checkpoint_seconds: float = 30, force: bool = False
    ) -> Run:
        """Begin a run; with `force` in the place of one that is there, unless a process works on it."""
        folder, kept = Path(folder), json.loads(canonical_json(settings))
        make_folder(folder)
        lock = acquire_lock(folder)
        try:
            if (folder / RECORD).exists() and not force:
                raise OutputError(
                    f"{display_path(folder)} holds a run already",
                    hint=f"gaifman resume {display_path(folder)} goes on with it, --force begins anew",
                )
            killed = (folder / RECORD).exists()
            remove_entries(folder, (DONE, CHECKPOINTS, RESULT, LOG, RECORD))
            remove_partial_files(folder)
            run = cls(folder, kept, lock, checkpoint_seconds)
            run._resumed = killed
            write_record(folder, kept, None)
        except BaseException:
            os.close(lock)
            raise
        return run

    @classmethod
    def open(cls, folder: Path | str, *, checkpoint_seconds: float = 30) -> Run:
        """Go on with a run."""
        folder = Path(folder)
        require_run(folder)
        lock = acquire_lock(folder)
        try:
            record = read_record(folder)
            run = cls(folder, record["settings"], lock, checkpoint_seconds, record["finished"])
            run._resumed = True
            remove_partial_files(folder)
            run._end_line()
        except BaseException:
            os.close(lock)
            raise
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder: another process may go on."""
        with self._mutex:
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    def discard(self) -> None:
        """Remove the run and all that it kept."""
        remove_entries(self.folder, (DONE, CHECKPOINTS, RESULT, LOG, LOCK, RECORD))
        remove_partial_files(self.folder)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()
        self.close()

    @property
    def result_path(self) -> Path | None:
        """Where the result stands, where it was written before the folder could be removed."""
        target = Path(self._finished["target"]) if self._finished else None
        return target if target and target.is_file() else None

    def finished_tasks(self) -> set[str]:
        """The names of the finished tasks. A damaged one is not finished, and the log says so."""
        with self._mutex:
            if self._finished and self.result_path:
                return set(self._finished["done"])  # their files may be gone already
            return set(self._finished_names())

    def save_task(self, name: str, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Keep what a task gave; its checkpoint is not needed any more."""
        self._write_task(DONE, name, arrays, meta)
        with self._mutex:
            self._finished_names().add(name)
            self._clocks.pop(name, None)
        self._task_path(CHECKPOINTS, name).unlink(missing_ok=True)

    def load_task(self, name: str) -> tuple[Arrays, Meta]:
        """What a finished task gave."""
        path = self._task_path(DONE, name)
        if not path.exists():
            raise InputError(
                f"the task {shorten(name)} is not done", suggestions=similar_names(name, sorted(self.finished_tasks()))
            )
        return _read_task(path)[1:]

    def has_checkpoints(self) -> bool:
        """Whether some task under way has left a checkpoint."""
        return any((self.folder / CHECKPOINTS).glob("[!.]*.part"))

    @property
    def was_resumed(self) -> bool:
        """Whether another process may have been killed while it worked on this run, or on one in its place."""
        return self._resumed

    def checkpoint_due(self, name: str) -> bool:
        """Whether `seconds` have passed since a task's last checkpoint or, before it, since this was first asked."""
        now = time.monotonic()
        with self._mutex:
            return now - self._clocks.setdefault(name, now) >= self.checkpoint_seconds

    def checkpoint(
        self, name: str, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any], *, force: bool = False
    ) -> bool:
        """Keep how far a task is, where it is `due` or must be `now`; whether it was done."""
        if not (force or self.checkpoint_due(name)):
            return False
        self._write_task(CHECKPOINTS, name, arrays, meta)
        with self._mutex:
            self._clocks[name] = time.monotonic()
        return True

    def load_checkpoint(self, name: str) -> tuple[Arrays, Meta] | None:
        """How far a task was; None where it has to begin at its beginning."""
        path = self._task_path(CHECKPOINTS, name)
        if not path.exists():
            return None
        try:
            return _read_task(path)[1:]
        except InputError as error:
            self.log("damaged", file=f"{CHECKPOINTS}/{path.name}", task=name, why=error.message)
            return None

    def log(self, event: str, **fields: Any) -> None:
        """Add a line to the log: the time, the event, the fields."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        text = json.dumps({"time": moment, "event": event, **_loggable(fields)}, ensure_ascii=False) + "\n"
        # A name may hold half a surrogate pair, which UTF-8 has no bytes for; \ud800 is right JSON.
        self._append(text.encode(errors="backslashreplace"))

    def finish(self, target: Path | str, write: Callable[[Path], None]) -> None:
        """Let `write` write the result, put it in its place, and remove the folder; the log goes beside the result.

        A run killed in here is opened again: all its tasks are done, and `finish` does what is left to do.
        """
        target, written = Path(target), self.result_path
        if written != target.absolute():
            final = self.folder / RESULT
            if written:
                shutil.copyfile(written, final)
            else:
                write(final)  # here, not beside the target: it may take long, and a kill should leave nothing there
            for path in leftover_files(target) if self._resumed else ():
                path.unlink(missing_ok=True)
            with atomic_write(target) as temporary:
                shutil.move(final, temporary)
            self._finished = {"target": str(target.absolute()), "done": sorted(self.finished_tasks())}
            write_record(self.folder, self.settings, self._finished)
        if (self.folder / LOG).exists():
            shutil.move(self.folder / LOG, _log_path(target))
        remove_entries(self.folder, (DONE, CHECKPOINTS, RESULT))
        remove_partial_files(self.folder)
        # The record goes last: as long as it is there, the run can be opened and ended.
        remove_entries(self.folder, (LOCK, RECORD))
        if not any(self.folder.iterdir()):
            self.folder.rmdir()
        self.close()

    def _finished_names(self) -> set[str]:
        """Names of finished tasks: read once, then kept up to date."""
        if self._names is None:
            self._names = set()
            for path in sorted((self.folder / DONE).glob("[!.]*.part")):
                try:
                    self._names.add(_read_task(path)[0])
                except InputError as error:
                    self.log("damaged", file=f"{DONE}/{path.name}", why=error.message)
        return self._names

    def _task_path(self, kind: str, name: str) -> Path:
        """Where a task's file is: names may hold what file names cannot."""
        return self.folder / kind / f"{_task_digest(name)}.part"

    def _write_task(
        self, kind: str, name: str, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]
    ) -> None:
        path = self._task_path(kind, name)
        path.parent.mkdir(exist_ok=True)
        write_model(path, arrays, {"name": name, "meta": meta})

    def _append(self, data: bytes) -> None:
        path, written = self.folder / LOG, self.result_path
        if written and not path.exists():
            path = _log_path(written)  # where the log went before the kill
        try:
            with self._mutex, path.open("ab", buffering=0) as file:  # one write a line: lines do not mix
                file.write(data)
        except OSError as error:
            raise OutputError(f"{display_path(path)} cannot be written: {error.strerror}") from None

    def _end_line(self) -> None:
        """A kill in the middle of a line leaves it without its end; the next line must not be glued to it."""
        path = self.folder / LOG
        data = path.read_bytes() if path.exists() else b""
        if data and not data.endswith(b"\n"):
            self._append(b"\n")


def read_log(path: Path | str) -> list[dict[str, Any]]:
    """The events of a log; lines that a kill has torn are left out."""
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"{display_path(Path(path))} cannot be read: {error.strerror}") from None
    found = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            found.append(event)
    return found


class InterruptHandler:
    """Between `with` and its end, the first Ctrl-C (or SIGTERM) asks to stop, and the second stops.

    The work looks at `interrupted()` between two blocks, writes its checkpoints and ends. `note` is printed to standard
    error at the first signal, so that nobody wonders whether it was heard.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, message: str = "") -> None:
        self.message = message
        self.received: int | None = None
        """The signal that came."""
        self._event = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python lets nobody handle signals
            for number in self.SIGNALS:
                # What is ignored stays so: a job in the background of a shell is not to be stopped by Ctrl-C.
                if (before := signal.getsignal(number)) not in (signal.SIG_IGN, None):
                    self._before[number] = before
                    signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def stop_requested(self) -> bool:
        """Whether to stop; any thread may ask."""
        return self._event.is_set()

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._event.is_set():
            raise KeyboardInterrupt
        self.received = number
        self._event.set()
        if self.message:
            os.write(2, f"\n{self.message}\n".encode())  # not print: it may be what was interrupted


def _task_digest(name: str) -> str:
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _log_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.{LOG}")


def _loggable(value: Any) -> Any:
    """The nearest that JSON has: a log must not end the work that it tells of."""
    match value:
        case Mapping():
            return {str(key): _loggable(inner) for key, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_loggable(inner) for inner in value]
        case np.generic() | np.ndarray():
            return _loggable(value.tolist())
        case float():
            return value if math.isfinite(value) else str(value)
        case None | str() | int():
            return value
    return str(value)


def _read_task(path: Path) -> tuple[str, Arrays, Meta]:
    """A task's name, arrays and description."""
    arrays, meta = read_model(path)
    name = meta.get("name")
    if not isinstance(name, str) or path.stem != _task_digest(name):
        raise InputError(f"{display_path(path)} holds another task than it should")
    return name, arrays, meta["meta"]
