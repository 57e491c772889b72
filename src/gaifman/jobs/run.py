"""Runs: folders with the state of a job, so that it can be killed at any time and resumed.

    run.json        the settings, written first; at the end also where the result is
    lock            locked by the process that works on the run, whose id it holds
    log.jsonl       one line for each event
    done/           results of finished tasks, in the format of model files
    checkpoints/    states of unfinished tasks
    result          the result while it is written

A resumed job gives the same result as one that was never stopped.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from gaifman import __version__
from gaifman.config import ProgressCallback
from gaifman.errors import InputError, OutputError, shorten, similar_names
from gaifman.io.files import atomic_write, display_path, leftover_files
from gaifman.io.model_file import Arrays, Meta, canonical_json, read_model, write_model


class InterruptHandler:
    """In its `with` block, the first Ctrl-C (or SIGTERM) asks to stop, and the second one stops.

    The work checks `stop_requested` between two blocks, writes its checkpoints and ends. The message is printed to
    standard error at the first signal.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, message: str = "") -> None:
        self.message = message
        self.received: int | None = None
        """The signal that was received."""
        self._event = threading.Event()
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # other threads cannot handle signals
            for number in self.SIGNALS:
                # An ignored signal stays ignored: Ctrl-C must not stop a background job of a shell.
                if (previous := signal.getsignal(number)) not in (signal.SIG_IGN, None):
                    self._previous[number] = previous
                    signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        self._previous.clear()

    def stop_requested(self) -> bool:
        """Return whether to stop; any thread may ask."""
        return self._event.is_set()

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._event.is_set():
            raise KeyboardInterrupt
        self.received = number
        self._event.set()
        if self.message:
            os.write(2, f"\n{self.message}\n".encode())  # not print: the signal may have interrupted it


class WorkStopped(Exception):
    """The work of all tasks was stopped, because one of them failed."""


class ProgressCounter:
    """Counts the finished units of all tasks and reports them. Threads can share it.

    >>> progress = ProgressCounter("training", lambda *state: print(*state))
    >>> progress.plan({"a": 10, "b": 5}, done=["b"])
    training 5 15
    >>> progress.add("a", 4)
    training 9 15
    """

    def __init__(self, phase: str, report: ProgressCallback | None = None) -> None:
        self._phase, self._report = phase, report
        self._planned: dict[str, int] = {}
        self._done: dict[str, int] = {}
        self._lock, self._stopped = threading.Lock(), False

    @property
    def counts(self) -> tuple[int, int]:
        """The number of finished units, and of all units."""
        return sum(self._done.values()), sum(self._planned.values())

    def plan(self, sizes: Mapping[str, int], done: Iterable[str] = ()) -> None:
        """Set the approximate sizes of tasks, some of which may be done already."""
        with self._lock:
            self._planned.update(sizes)
            self._done.update(dict.fromkeys(sizes, 0))
            self._done.update({task: sizes[task] for task in done if task in sizes})
            if any(self._done.values()):
                self._send_report()

    def begin(self, task: str, total: int, done: int = 0) -> None:
        """Begin or resume a task, with its exact size."""
        with self._lock:
            self._planned[task], self._done[task] = total, min(done, total)
            self._send_report()

    def add(self, task: str, units: int) -> None:
        """Count units of a task, up to its size; raise `WorkStopped` after `stop`."""
        with self._lock:
            if self._stopped:
                raise WorkStopped
            self._done[task] = min(self._done[task] + units, self._planned[task])
            self._send_report()

    def end(self, task: str) -> None:
        """End a task, whatever its count."""
        with self._lock:
            self._done[task] = self._planned[task]
            self._send_report()

    def stop(self) -> None:
        """Stop the other tasks at their next `add`."""
        self._stopped = True

    def _send_report(self) -> None:
        if self._report:
            self._report(self._phase, *self.counts)


FORMAT = "gaifman run"
VERSION = 3
"""Raise it when the format of the folder changes."""

RECORD, LOCK, LOG, DONE, CHECKPOINTS, RESULT = "run.json", "lock", "log.jsonl", "done", "checkpoints", "result"
_RUN_FILES = {RECORD, LOCK, LOG, DONE, CHECKPOINTS, RESULT}
LOCK_SECONDS = 0.2
"""Time for retries: a lock file may be removed by the end of another run while it is being locked."""


class Run:
    """A run folder that this process works on; its threads can share it.

    `Run.create` starts a run and `Run.open` resumes one. Use it in a `with` block, which releases the folder.
    """

    def __init__(
        self, folder: Path, settings: Meta, lock: FileLock, checkpoint_seconds: float, finished: Meta | None = None
    ) -> None:
        """Not for callers: use `create` or `open`."""
        self.folder = folder
        self.settings = settings
        """The settings of the job, as JSON values."""
        self.checkpoint_seconds = checkpoint_seconds
        """Minimum time between two checkpoints of a task."""
        self.was_resumed = False
        """Whether another process may have been killed while it worked on this run, or on the one it replaces."""
        self._lock = lock
        self._finished = finished
        self._names: set[str] | None = None
        self._clocks: dict[str, float] = {}
        self._mutex = threading.RLock()

    @classmethod
    def create(
        cls, folder: Path | str, settings: Mapping[str, Any], *, checkpoint_seconds: float = 30, force: bool = False
    ) -> Run:
        """Start a run. With `force`, replace an existing one, unless a process works on it."""
        folder, recorded = Path(folder), json.loads(canonical_json(settings))
        _make_folder(folder)
        with _locked(folder) as lock:
            exists = (folder / RECORD).exists()
            if exists and not force:
                raise OutputError(
                    f"{display_path(folder)} already has a run",
                    hint=f"gaifman resume {display_path(folder)} resumes it, --force starts again",
                )
            remove_entries(folder, (DONE, CHECKPOINTS, RESULT, LOG, RECORD))
            _remove_partial_files(folder)
            run = cls(folder, recorded, lock, checkpoint_seconds)
            run.was_resumed = exists
            write_record(folder, recorded, None)
            return run

    @classmethod
    def open(cls, folder: Path | str, *, checkpoint_seconds: float = 30) -> Run:
        """Resume a run."""
        folder = Path(folder)
        _require_run(folder)
        with _locked(folder) as lock:
            record = read_record(folder)
            run = cls(folder, record["settings"], lock, checkpoint_seconds, record["finished"])
            run.was_resumed = True
            _remove_partial_files(folder)
            run._end_torn_line()
            return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the folder: another process may work on it."""
        with self._mutex:
            self._lock.release()

    def discard(self) -> None:
        """Remove the run."""
        self._remove()

    def _remove(self) -> None:
        """Remove the files of the run, the record last: while it exists, the run can be opened and finished."""
        remove_entries(self.folder, (DONE, CHECKPOINTS, RESULT, LOG))
        _remove_partial_files(self.folder)
        remove_entries(self.folder, (LOCK, RECORD))
        if not any(self.folder.iterdir()):
            self.folder.rmdir()
        self.close()

    @property
    def result_path(self) -> Path | None:
        """The result, if it was written but the folder not yet removed."""
        target = Path(self._finished["target"]) if self._finished else None
        return target if target and target.is_file() else None

    def finished_tasks(self) -> set[str]:
        """Return the names of the finished tasks. A damaged task is logged and does not count."""
        with self._mutex:
            if self._finished and self.result_path:
                return set(self._finished["done"])  # their files may be removed already
            return set(self._finished_names())

    def save_task(self, name: str, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Save the result of a task and remove its checkpoint."""
        self._write_task(DONE, name, arrays, meta)
        with self._mutex:
            self._finished_names().add(name)
            self._clocks.pop(name, None)
        self._task_path(CHECKPOINTS, name).unlink(missing_ok=True)

    def load_task(self, name: str) -> tuple[Arrays, Meta]:
        """Return the result of a finished task."""
        path = self._task_path(DONE, name)
        if not path.exists():
            raise InputError(
                f"the task {shorten(name)} is not done", suggestions=similar_names(name, sorted(self.finished_tasks()))
            )
        return _read_task(path)[1:]

    def has_checkpoints(self) -> bool:
        """Return whether an unfinished task has a checkpoint."""
        return any((self.folder / CHECKPOINTS).glob("[!.]*.part"))

    def checkpoint_due(self, name: str) -> bool:
        """Return whether a task's last checkpoint, or else the first call of this, was `checkpoint_seconds` ago."""
        now = time.monotonic()
        with self._mutex:
            return now - self._clocks.setdefault(name, now) >= self.checkpoint_seconds

    def checkpoint(
        self, name: str, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any], *, force: bool = False
    ) -> bool:
        """Save the state of a task if it is due or with `force`; return whether it was saved."""
        if not (force or self.checkpoint_due(name)):
            return False
        self._write_task(CHECKPOINTS, name, arrays, meta)
        with self._mutex:
            self._clocks[name] = time.monotonic()
        return True

    def load_checkpoint(self, name: str) -> tuple[Arrays, Meta] | None:
        """Return the state of a task, or None to start it from the beginning."""
        path = self._task_path(CHECKPOINTS, name)
        if not path.exists():
            return None
        try:
            return _read_task(path)[1:]
        except InputError as error:
            self.log("damaged", file=f"{CHECKPOINTS}/{path.name}", task=name, reason=error.message)
            return None

    def log(self, event: str, **fields: Any) -> None:
        """Append a line to the log: the time, the event and its fields."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        text = json.dumps({"time": now, "event": event, **_loggable(fields)}, ensure_ascii=False) + "\n"
        # A name may have a lone surrogate, which UTF-8 cannot encode; \ud800 is valid JSON.
        self._append(text.encode(errors="backslashreplace"))

    def finish(self, target: Path | str, write: Callable[[Path], None]) -> None:
        """Write the result with `write`, move it to the target with the log beside it, and remove the folder.

        A run that is killed here can be opened again: its tasks are all done, and `finish` does the rest.
        """
        target, written = Path(target), self.result_path
        if written != target.absolute():
            result = self.folder / RESULT
            if written:
                shutil.copyfile(written, result)
            else:
                write(result)  # not beside the target: it may take long, and a kill should leave nothing there
            for path in leftover_files(target) if self.was_resumed else ():
                path.unlink(missing_ok=True)
            with atomic_write(target) as temporary:
                shutil.move(result, temporary)
            self._finished = {"target": str(target.absolute()), "done": sorted(self.finished_tasks())}
            write_record(self.folder, self.settings, self._finished)
        if (self.folder / LOG).exists():
            shutil.move(self.folder / LOG, _log_path(target))
        self._remove()

    def _finished_names(self) -> set[str]:
        """Return the names of finished tasks; they are read once."""
        if self._names is None:
            self._names = set()
            for path in sorted((self.folder / DONE).glob("[!.]*.part")):
                try:
                    self._names.add(_read_task(path)[0])
                except InputError as error:
                    self.log("damaged", file=f"{DONE}/{path.name}", reason=error.message)
        return self._names

    def _task_path(self, kind: str, name: str) -> Path:
        """Return the path of a task's file: a hash, because a task may have any name."""
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
            path = _log_path(written)  # it was moved before the kill
        try:
            with self._mutex, path.open("ab", buffering=0) as file:  # one write per line: lines do not mix
                file.write(data)
        except OSError as error:
            raise OutputError(f"cannot write {display_path(path)}: {error.strerror}") from None

    def _end_torn_line(self) -> None:
        """End a line that a kill has torn, so that the next one is whole."""
        path = self.folder / LOG
        data = path.read_bytes() if path.exists() else b""
        if data and not data.endswith(b"\n"):
            self._append(b"\n")


def read_log(path: Path | str) -> list[dict[str, Any]]:
    """Return the events of a log, without torn lines."""
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"cannot read {display_path(Path(path))}: {error.strerror}") from None
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


# The folder


def _make_folder(folder: Path) -> None:
    """Create the folder; refuse one with other files, which would be removed with the run."""
    try:
        folder.mkdir(exist_ok=True)
        foreign = sorted(
            entry.name for entry in folder.iterdir() if entry.name not in _RUN_FILES and not _is_partial(entry)
        )
    except (OSError, ValueError) as error:  # ValueError: a name with NUL
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"cannot use {display_path(folder)} as a run folder: {reason}") from None
    if foreign:
        raise OutputError(
            f"{display_path(folder)} has files that are not a run's, such as {shorten(foreign[0])}",
            hint="choose a new folder",
        )


def _require_run(folder: Path) -> None:
    if not (folder / RECORD).is_file():
        raise InputError(f"there is no run in {display_path(folder)}", hint="a run folder has a file run.json")


@contextmanager
def _locked(folder: Path) -> Iterator[FileLock]:
    """Lock the folder, and release it after an error in the block. The end of the process releases it too."""
    path = folder / LOCK
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=LOCK_SECONDS, poll_interval=LOCK_SECONDS / 20)
        path.write_text(f"{os.getpid()}\n")
    except Timeout:
        raise OutputError(
            f"{_lock_holder(path)} works on the run in {display_path(folder)}",
            hint="wait for it, or stop it and resume the run",
        ) from None
    except OSError as error:
        lock.release()
        raise OutputError(f"cannot lock {display_path(path)}: {error.strerror or error}") from None
    try:
        yield lock
    except BaseException:
        lock.release()
        raise


def _lock_holder(path: Path) -> str:
    try:
        number = path.read_text(errors="replace").strip()
    except OSError:
        number = ""
    return f"process {shorten(number)}" if number else "another process"


def write_record(folder: Path, settings: Meta, finished: Meta | None) -> None:
    """Write the settings and, at the end of a run, where the result is and which tasks it has."""
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
    """Return the record of a run; refuse one of another version."""
    _require_run(folder)
    name, restart = display_path(folder / RECORD), "start the run again with --force"
    try:
        record = json.loads((folder / RECORD).read_bytes())
        checksum = record.pop("checksum", None)
        ours, version, maker = record.get("format") == FORMAT, record.get("version"), record.get("gaifman")
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from None
    except (ValueError, AttributeError, RecursionError):
        raise InputError(f"{name} is damaged: not a JSON object", hint=restart) from None
    if not ours:
        raise InputError(f"{name} is not the record of a run", hint=restart)
    if isinstance(version, int) and version > VERSION:
        raise InputError(f"{name} was written by a newer version", hint="pip install --upgrade gaifman")
    if not _checksum_matches(record, checksum):
        raise InputError(f"{name} is damaged: the checksum does not match", hint=restart)
    if (version, maker) != (VERSION, __version__):
        # Another version may draw, train or round differently: the result would be neither's.
        raise InputError(
            f"{name} was started with gaifman {maker}, this is {__version__}",
            hint=f"resume it with gaifman {maker}, or {restart}",
        )
    return dict(record)


def check_same_settings(folder: Path, recorded: Meta, requested: Meta, what: str, hint: str) -> None:
    """Refuse a folder that was begun with other settings; `what` names its content in the error."""
    differing = [name for name in requested if recorded.get(name) != requested[name]]
    if differing or recorded.keys() != requested.keys():
        names = ", ".join(differing) or "the settings"
        raise InputError(f"{display_path(folder)} has {what}; different: {names}", hint=hint)


def remove_entries(folder: Path, names: tuple[str, ...]) -> None:
    """Remove some files and folders of a run."""
    for name in names:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_partial(path: Path) -> bool:
    """Return whether a killed process was writing this file."""
    return path.name.startswith(".") and path.name.endswith(".part")


def _remove_partial_files(folder: Path) -> None:
    for inside in (folder, folder / DONE, folder / CHECKPOINTS):
        for path in inside.glob(".*.part"):
            path.unlink(missing_ok=True)


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.blake2b(canonical_json(record).encode(), digest_size=32).hexdigest()


def _checksum_matches(record: Meta, checksum: Any) -> bool:
    try:
        return bool(_checksum(record) == checksum)
    except OutputError:  # such as NaN
        return False


def _task_digest(name: str) -> str:
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _log_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.{LOG}")


def _loggable(value: Any) -> Any:
    """Return the closest JSON value: a log entry must never stop the job."""
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
    """Return a task's name, arrays and metadata."""
    arrays, meta = read_model(path)
    name = meta.get("name")
    if not isinstance(name, str) or path.stem != _task_digest(name):
        raise InputError(f"{display_path(path)} has the data of another task")
    return name, arrays, meta["meta"]
