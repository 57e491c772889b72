"""Files as blocks of whole lines: opened, unpacked, decoded, with clear errors; and written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np

from gaifman.config import Limits
from gaifman.errors import InputError, OutputError, Place, shorten
from gaifman.names import nearest

Progress = Callable[[str, int, int | None], None]
"""Told the phase, how much is done and, where known, of how much."""

BLOCK = 1 << 21
"""Bytes read at once: enough to work on whole arrays, and memory stays small."""

GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole lines of a file."""

    source: str
    line: int
    """Number of the first line."""
    data: bytes
    """UTF-8 text that ends with a newline, without byte order mark; not checked yet."""

    def plain(self) -> Block:
        """The same with newlines alone at the ends of lines; only a quoted CSV field may hold others."""
        return replace(self, data=self.data.replace(b"\r\n", b"\n")) if b"\r" in self.data else self

    def place(self, offset: int, width: int = 1) -> Place:
        """The place of a byte."""
        start = self.data.rfind(b"\n", 0, offset) + 1
        end = self.data.find(b"\n", offset)
        before = self.data[start:offset].decode(errors="replace")
        after = self.data[offset:end].removesuffix(b"\r").decode(errors="replace")
        line = self.line + self.data.count(b"\n", 0, offset)
        return Place(self.source, line, len(before) + 1, before + after, width)

    def refuse_nul(self) -> None:
        """Raise at the first NUL, which files that are no text are full of."""
        zero = self.data.find(b"\0")
        if zero >= 0:
            raise InputError("the character NUL is not text", place=self.place(zero))

    def text(self) -> str:
        """The decoded text, or an error at the first byte that is none."""
        self.refuse_nul()
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            wrong = self.data[error.start]
            raise InputError(
                f"the byte 0x{wrong:02x} is not UTF-8",
                place=self.place(error.start),
                hint="save the file as UTF-8",
            ) from None


def exists(path: Path) -> None:
    """Raise unless a file is there."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    if not path.exists():
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {shorten(str(path.parent), 120)}")
        near = nearest(path.name, [entry.name for entry in path.parent.iterdir()])
        raise InputError(f"there is no file {shorten(str(path), 120)}", near=near)


def head(path: Path, size: int = 64) -> bytes:
    """The first bytes, unpacked."""
    with opened(path) as file, damage(path):
        return file.read(size)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked where they are gzip, whatever the name says."""
    exists(path)
    try:
        with path.open("rb") as file:
            if file.peek(2)[:2] != GZIP:
                yield file
                return
            import gzip

            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked  # type: ignore[misc]  # a GzipFile reads as a binary file does
    except PermissionError:
        raise InputError(f"{path} may not be read by this user") from None


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Turn what the unpacking of damaged files raises into one error."""
    import zlib

    try:
        yield
    except EOFError:
        raise InputError(f"{path} is cut off: the gzip data has no end") from None
    except zlib.error as error:
        raise InputError(f"{path} is damaged: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def blocks(path: Path, limits: Limits, progress: Progress | None = None, size: int = BLOCK) -> Iterator[Block]:
    """The file in blocks of whole lines."""
    total = path.stat().st_size if path.is_file() else None
    line, rest = 1, b""
    with opened(path) as file, damage(path):
        while data := file.read(size):
            if line == 1 and not rest:
                data = _unmarked(path, data)
            cut = data.rfind(b"\n") + 1
            if cut:
                block = Block(str(path), line, rest + data[:cut])
                _refuse_long(block, limits)
                yield block
                line += int(np.count_nonzero(np.frombuffer(block.data, np.uint8) == 10))  # faster than bytes.count
                rest = data[cut:]
            else:
                rest += data
            if len(rest) > limits.line:
                _too_long(Block(str(path), line, rest[:400] + b"\n"), 0, limits)
            if progress:
                progress(f"reading {path.name}", _position(file), total)
    if rest:
        yield Block(str(path), line, rest + b"\n")


def _position(file: BinaryIO) -> int:
    """Bytes of the file on disk that have been read."""
    inner = getattr(file, "fileobj", None)
    return (inner or file).tell()


def _unmarked(path: Path, data: bytes) -> bytes:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        place = Place(str(path), 1, 1, data[:40].decode("utf-16", errors="ignore"))
        raise InputError("the file is UTF-16, not UTF-8", place=place, hint="save the file as UTF-8")
    return data.removeprefix(b"\xef\xbb\xbf")


def _refuse_long(block: Block, limits: Limits) -> None:
    # A line that is too long fills one of these windows. Most hold a newline near their start, so looking is quick.
    window = limits.line // 2 + 1
    if all(block.data.find(b"\n", at, at + window) >= 0 for at in range(0, len(block.data), window)):
        return
    ends = np.flatnonzero(np.frombuffer(block.data, np.uint8) == 10)
    lengths = np.diff(ends, prepend=-1) - 1
    if (lengths > limits.line).any():
        row = int(np.argmax(lengths > limits.line))
        _too_long(block, int(ends[row] - lengths[row]), limits)


def _too_long(block: Block, offset: int, limits: Limits) -> NoReturn:
    raise InputError(
        f"the line is longer than {limits.line:,} bytes",
        place=block.place(offset),
        hint="is this a text file of one fact a line? The limit is Limits(line=…)",
    )


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, which takes its place when all went well and vanishes when not."""
    if path.is_dir():
        raise OutputError(f"{path} is a folder, not a file")
    if not path.parent.is_dir():
        raise OutputError(f"there is no folder {path.parent}")
    temporary = path.parent / f".{path.name[:40]}.{secrets.token_hex(4)}.part"
    try:
        # Not tempfile: its files are private, and the result should be as readable as any file the user writes.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
    try:
        yield temporary
        _keep(temporary, path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _keep(temporary: Path, path: Path) -> None:
    """Make sure that the bytes are on the disk before the name points to them."""
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
