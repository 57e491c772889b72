r"""The file of added facts: a `.facts` file that only grows, with a checksum on each line.

    % gaifman edits 1: 0000000002 lines, checksum 8a1f6c2b9d3e4f50
    person(bob). % 1 0b6a9d1e2f3c4a5b
    parent(ann, bob). % 2 8a1f6c2b9d3e4f50

A line's checksum covers the line and the checksum before it. The first line states the last number and its checksum.
An addition appends its lines, waits until they are on disk, then replaces the first line and waits again: only then is
it confirmed. So every confirmed line is covered by the first line:

- a line that was changed, removed or moved, and an end that was cut off, also at the end of a line, are errors;
- lines after the last confirmed one are the rest of an addition that was interrupted, and are dropped;
- a file that was removed, or replaced by an older copy, cannot be told from a right one.

A file without the first line is a `.facts` file as people write it: it is read as it is, and gets checksums when a
server locks it. The lock is on the file itself: a server writes only while the path still leads to the file it locked.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gaifman.config import DEFAULT_LIMITS
from gaifman.errors import InputError, Location, OutputError, plural
from gaifman.io.facts_file import read_facts_file
from gaifman.io.files import TextBlock, atomic_write, leftover_files, temporary_path, translate_read_errors
from gaifman.io.writers import fact_lines
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.knowledge_base import Fact, KnowledgeBase

EDITS_SUFFIX = ".edits.facts"
"""Appended to the name of the knowledge base's file."""
MAGIC = b"% gaifman edits "
"""Start of a file with checksums."""
VERSION = 1
READ_ATTEMPTS = 3
"""How often a file is read that another server writes meanwhile."""

_HEADER = re.compile(rb"% gaifman edits (\d+): (\d{10}) lines, checksum ([0-9a-f]{16})")
_LINE = re.compile(rb"(.*) % (\d+) ([0-9a-f]{16})", re.DOTALL)
_START = hashlib.sha256(MAGIC).hexdigest()[:16]
_ACCEPT_HINT = "restore it from a backup; to accept it as it is, delete its first line"


def checksum(before: str, text: bytes) -> str:
    """Return the checksum of a line's text after the checksum before it, 16 hexadecimal digits."""
    return hashlib.sha256(before.encode() + text).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class EditsLog:
    """The confirmed lines of a file."""

    lines: int = 0
    last: str = _START
    """Checksum of the last line."""
    end: int = 0
    """Bytes of the first line and all confirmed lines."""
    dropped: int = 0
    """Lines of an interrupted addition after them."""

    def header(self) -> bytes:
        """Return the first line. Its length is always the same, so that it can be replaced."""
        return f"{MAGIC.decode()}{VERSION}: {self.lines:010} lines, checksum {self.last}\n".encode()

    def append(self, texts: Iterable[bytes]) -> tuple[EditsLog, bytes]:
        """Return the log with more lines, and the bytes to append."""
        last, number, added = self.last, self.lines, bytearray()
        for number, text in enumerate(texts, start=self.lines + 1):
            last = checksum(last, text)
            added += text + f" % {number} {last}\n".encode()
        return EditsLog(number, last, self.end + len(added)), bytes(added)


EMPTY_LOG = EditsLog(end=len(EditsLog().header()))


def parse_log(name: str, data: bytes) -> EditsLog | None:
    """Check a file and return its log; None if the file has no checksums."""
    if not data:
        raise InputError(
            f"{name} is empty: its facts are lost, or it was never written",
            hint="restore it from a backup, or delete it to begin without added facts",
        )
    first, newline, _ = data.partition(b"\n")
    found = _HEADER.fullmatch(first)
    if not found or not newline:
        cut = not newline and MAGIC.startswith(first)
        if not cut and not first.startswith(MAGIC):
            return None
        raise _damage(name, 1, first, "the first line is damaged")
    if int(found[1]) != VERSION:
        raise InputError(f"{name} has version {int(found[1])}; this version of gaifman reads {VERSION}")
    return _check_lines(name, data, int(found[2]), found[3].decode())


def _check_lines(name: str, data: bytes, count: int, last: str) -> EditsLog:
    """Check the confirmed lines of a file, and that what follows them was written by a server too."""
    lines = data.split(b"\n")
    rest = lines.pop()  # after the last newline
    log = confirmed = EMPTY_LOG
    for line in lines[1:]:
        if log.lines >= count and b"\0" in line:  # blocks that never reached the disk
            break
        log = _check_line(name, log, line)
        confirmed = log if log.lines <= count else confirmed
    if log.lines < count:
        raise _damage(name, log.lines + 2, rest, f"the file ends after {log.lines:,} of {plural(count, 'added line')}")
    if confirmed.last != last:
        raise _damage(name, 1, lines[0], "the first line has a wrong checksum")
    return replace(confirmed, dropped=len(lines) - 1 - count + bool(rest))


def _check_line(name: str, log: EditsLog, line: bytes) -> EditsLog:
    """Return the log with one more line, which must be the next one."""
    found = _LINE.fullmatch(line)
    if not found:
        raise _damage(name, log.lines + 2, line, "the line has no checksum: it was not added by a server")
    after, written = log.append([found[1]])
    if written != line + b"\n":
        message = "the line has a wrong checksum: it was changed, or a line before it is missing"
        raise _damage(name, log.lines + 2, line, message)
    return after


def _damage(name: str, line: int, text: bytes, message: str) -> InputError:
    location = Location(name, line, 1, text[:200].decode(errors="replace"))
    return InputError(message, location=location, hint=_ACCEPT_HINT)


def _parse_facts(name: str, data: bytes) -> KnowledgeBase:
    builder = KnowledgeBaseBuilder()
    text = data.removeprefix(b"\xef\xbb\xbf")
    block = TextBlock(name, 1, text if text.endswith(b"\n") else text + b"\n")
    read_facts_file(iter([block]), DEFAULT_LIMITS, builder)
    return builder.build()


class EditsFile:
    """The facts of one file; while it is locked, no other server writes it."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._target = self.path.resolve()  # a link stays a link, and two links to one file share its lock
        self._file: int | None = None
        """Descriptor of the locked file."""
        self._created = False
        self._log: EditsLog | None = None
        """None if the file has no checksums yet."""
        self.notes: list[str] = []
        """What is unusual about the file as it was read last."""
        self.kb = self._read_unlocked()

    def _read_unlocked(self) -> KnowledgeBase:
        for _ in range(READ_ATTEMPTS - 1):
            try:
                return self._parse(self._read_path())
            except InputError:  # the first line may be read while it is replaced
                continue
        return self._parse(self._read_path())

    def _read_path(self) -> bytes | None:
        with translate_read_errors(str(self.path)):
            return self._target.read_bytes() if self._target.exists() else None

    def _parse(self, data: bytes | None) -> KnowledgeBase:
        """Check and keep what the file holds, and return its facts; without a file there are none."""
        self.notes = []
        if data is None:
            self._log = EMPTY_LOG
            return KnowledgeBase.from_facts([])
        self._log = parse_log(str(self.path), data)
        if self._log is None:
            self.notes = [f"{self.path} has no checksums: it is read as it is"]
        elif self._log.dropped:
            what = plural(self._log.dropped, "line")
            self.notes = [f"{self.path}: {what} of an addition that was not completed is left out"]
        return _parse_facts(str(self.path), data if self._log is None else data[: self._log.end])

    def __len__(self) -> int:
        return len(self.kb)

    def __bool__(self) -> bool:
        """True, also without facts."""
        return True

    # Lock

    def lock(self) -> None:
        """Lock the file until `close` or the end of the process, and read it again: another server may have written it.

        Without a file an empty one is made. Temporary files that a killed server left behind are removed.
        """
        if self._file is not None:
            return
        folder = self._target.parent
        if not folder.is_dir():
            raise OutputError(f"cannot write {self.path}: there is no folder {folder}")
        try:
            while self._file is None:  # until the path leads to what was locked
                self._file = self._open_locked()
            self._prepare()
        except OSError as error:
            self.close()
            raise OutputError(f"cannot write {self.path}: {error.strerror or error}") from None
        except BaseException:
            self.close()
            raise

    def _open_locked(self) -> int | None:
        """Open and lock the file, or create it; None if it was replaced meanwhile."""
        try:
            file = os.open(self._target, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return self._create()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._leads_to(file):
                return file
        except BlockingIOError:
            os.close(file)
            raise OutputError(
                f"{self.path} is in use by another server", hint="stop it, or name another file with --edits"
            ) from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        return None

    def _create(self) -> int | None:
        """Create the file, locked and complete from its first moment; None if another server was faster."""
        temporary = temporary_path(self._target)
        file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            _write_at(file, EMPTY_LOG.header(), 0)
            os.fsync(file)
            os.link(temporary, self._target)  # fails if the file exists, unlike a rename
        except (FileExistsError, FileNotFoundError):  # another server has linked its own, and removed ours
            os.close(file)
            return None
        except BaseException:
            os.close(file)
            raise
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(self._target.parent)
        self._created = True
        return file

    def _prepare(self) -> None:
        """Read the locked file, add checksums if it has none, and remove the rest of an interrupted addition."""
        assert self._file is not None
        self.kb = self._parse(_read_all(self._file))
        if self._log is None:
            self._add_checksums()
        elif self._log.dropped:
            os.ftruncate(self._file, self._log.end)
            os.fsync(self._file)
        for left in leftover_files(self._target):
            left.unlink(missing_ok=True)

    def _add_checksums(self) -> None:
        """Replace a file without checksums by one with them, which is locked before it has the file's name."""
        log, added = EMPTY_LOG.append(line.rstrip("\n").encode() for line in fact_lines(self.kb))
        assert self._file is not None
        with atomic_write(self._target) as temporary:
            file = os.open(temporary, os.O_RDWR | os.O_CLOEXEC)
            fcntl.flock(file, fcntl.LOCK_EX)
            before, self._file = self._file, file
            try:
                _write_at(file, log.header() + added, 0)
            finally:
                os.close(before)
        self._log = log

    def _leads_to(self, file: int) -> bool:
        """Whether the path still leads to an open file."""
        try:
            return os.path.samestat(self._target.stat(), os.fstat(file))
        except OSError:
            return False

    def close(self) -> None:
        """Release the lock; a file that was made for nothing is removed."""
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            unused = self._created and self._log == EMPTY_LOG and os.fstat(file).st_size == EMPTY_LOG.end
            if unused and self._leads_to(file):
                self._target.unlink()
        except OSError:
            pass  # it does no harm
        finally:
            self._created = False
            os.close(file)

    # Facts

    def apply_to(self, kb: KnowledgeBase) -> KnowledgeBase:
        """Return a knowledge base with these facts."""
        return kb.with_facts(self.kb.facts()) if len(self) else kb

    def add(self, facts: Sequence[Fact]) -> None:
        """Add facts to the file: all are on disk on return, none after an error."""
        if self._file is None:
            self.lock()
            try:
                self.add(facts)
            finally:
                self.close()
            return
        whole = self.kb.with_facts(facts)
        texts = [str(fact).encode() for fact in facts]
        if any(len(text) + len(EMPTY_LOG.header()) > DEFAULT_LIMITS.line for text in texts):
            raise OutputError(f"{self.path} cannot hold a fact of more than {DEFAULT_LIMITS.line:,} bytes")
        assert self._log is not None
        log, added = self._log.append(texts)
        self._check_unchanged(self._file, self._log)
        try:
            _append(self._file, self._log, log, added)
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror or error}") from None
        self._check_unchanged(self._file, log)  # if it was replaced meanwhile, the facts are not where people look
        self._log, self.kb = log, whole

    def _check_unchanged(self, file: int, log: EditsLog) -> None:
        """Raise if the path leads to another file, or another program has written the file."""
        hint = "stop the server, look at the file, and start the server again"
        if not self._leads_to(file):
            raise OutputError(f"{self.path} was removed or replaced while the server ran", hint=hint)
        if os.fstat(file).st_size != log.end:
            raise OutputError(f"{self.path} was changed by another program while the server ran", hint=hint)


def _append(file: int, before: EditsLog, after: EditsLog, added: bytes) -> None:
    """Write lines, then the first line that confirms them, each time to the disk; after an error, take both back."""
    try:
        _write_at(file, added, before.end)
        os.fsync(file)
        _write_at(file, after.header(), 0)
        os.fsync(file)
    except BaseException:
        _write_at(file, before.header(), 0)
        os.ftruncate(file, before.end)
        os.fsync(file)
        raise


def _write_at(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        if not written:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        view, offset = view[written:], offset + written


def _read_all(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as copy:
        copy.seek(0)
        return copy.read()


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
