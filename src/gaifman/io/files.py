"""Files: blocks of lines with locations for errors, formats and their detection, atomic writes, temporary folders."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np

from gaifman.config import DEFAULT_LIMITS, Limits, ProgressCallback, raise_limit_hint
from gaifman.errors import GaifmanError, InputError, Location, OutputError, shorten, similar_names

BLOCK_SIZE = 1 << 21
"""Bytes of a block."""
UNCHECKED_EXPANSION = 100_000_000
"""Bytes that a compressed file of any size may have after decompression."""
BATCH_SIZE = 20_000
"""Rows that a reader passes on at once."""

_SAVE_AS_UTF_8 = 'save the file as UTF-8 (in a spreadsheet as "CSV UTF-8"), or convert it:'
_GZIP_MAGIC = b"\x1f\x8b"
_DUCKDB_MAGIC = b"DUCK"


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Some whole lines of a file."""

    source: str
    line: int
    """Number of the first line."""
    data: bytes
    """UTF-8 text that ends with a newline, without byte order mark; not checked yet."""

    def normalise_newlines(self) -> TextBlock:
        """Return the block with newlines for carriage returns and newlines."""
        return replace(self, data=self.data.replace(b"\r\n", b"\n")) if b"\r" in self.data else self

    def location(self, offset: int, width: int = 1) -> Location:
        """Return the location of a byte."""
        start = self.data.rfind(b"\n", 0, offset) + 1
        end = self.data.find(b"\n", offset)
        before = self.data[start:offset].decode(errors="replace")
        after = self.data[offset:end].removesuffix(b"\r").decode(errors="replace")
        line = self.line + self.data.count(b"\n", 0, offset)
        return Location(self.source, line, len(before) + 1, before + after, width)

    def text_of_line(self, number: int) -> str | None:
        """Return the text of a line, or None if the block does not have it."""
        lines = self.data.split(b"\n")[:-1]
        inside = 0 <= number - self.line < len(lines)
        return lines[number - self.line].decode(errors="replace") if inside else None

    def check_no_nul(self) -> None:
        """Raise if the block contains a NUL, as binary files do."""
        offset = self.data.find(b"\0")
        if offset >= 0:
            wide = self.line == 1 and self.data[:40].count(b"\0") >= len(self.data[:40]) // 3
            hint = f"perhaps it is UTF-16: {_SAVE_AS_UTF_8} iconv -f UTF-16LE -t UTF-8 OLD > NEW" if wide else ""
            message = "the file contains a NUL character; it is not text"
            raise InputError(message, location=self.location(offset), hint=hint)

    def decode(self) -> str:
        """Return the text; raise at the first byte that is not UTF-8."""
        self.check_no_nul()
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"the byte 0x{self.data[error.start]:02x} is not UTF-8",
                location=self.location(error.start),
                hint=f"{_SAVE_AS_UTF_8} iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW",
            ) from None


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read; it can be opened more than once."""

    name: str
    """Name for messages."""
    path: Path
    """Path of the file; of a pipe, the path of a copy."""

    @classmethod
    def from_path(cls, path: Path) -> InputFile:
        """Return the input file of a path."""
        return cls(str(path), path)


STDIN = "-"
"""File name that means standard input."""
URL = re.compile(r"([A-Za-z][A-Za-z0-9.-]*)(?:\+[A-Za-z0-9_]+)?://(.*)", re.DOTALL)
"""Scheme and rest of a URL, which is not the name of a file but of a database."""


def is_url(name: object) -> bool:
    """Whether a source is a URL, not the name of a file.

    >>> is_url("postgresql://ann@localhost/family"), is_url("family.tsv")
    (True, False)
    """
    return isinstance(name, str) and URL.fullmatch(name) is not None


@contextmanager
def open_input(name: str | Path, limits: Limits = DEFAULT_LIMITS) -> Iterator[InputFile]:
    """Open a file by name. Pipes can be read only once, so they are copied to disk first. Devices are refused."""
    if not isinstance(name, str | os.PathLike):
        raise InputError(f"a file name must be a string or path, got {name!r}")
    path = Path(name)
    if str(name) == STDIN:
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None:
            raise InputError("there is no standard input to read")
        with _copied(stream, "standard input", limits) as source:
            yield source
        return
    check_exists(path)
    if path.is_file():
        yield InputFile.from_path(path)
        return
    check_not_device(path)
    with translate_read_errors(str(path)):
        file = path.open("rb")
    with file, _copied(file, str(path), limits) as source:
        yield source


@contextmanager
def _copied(stream: BinaryIO, name: str, limits: Limits, packed: int | None = None) -> Iterator[InputFile]:
    """Yield a copy of a stream on disk; `packed` is the size of the compressed file that the stream comes from."""
    scratch = ScratchFolder()
    try:
        copy, size = scratch.path / "copy", 0
        with translate_read_errors(name), copy.open("wb") as file:
            while data := stream.read(BLOCK_SIZE):
                size += len(data)
                check_size(name, size, packed, limits)
                file.write(data)
        yield InputFile(name, copy)
    finally:
        scratch.remove()


def check_size(name: str, size: int, packed: int | None, limits: Limits) -> None:
    """Raise if a file has become too large: `size` bytes so far, decompressed from `packed` bytes if not None."""
    if size > limits.bytes:
        after = "" if packed is None else " after decompression"
        raise InputError(f"{name} has more than {limits.bytes:,} bytes{after}", hint=raise_limit_hint("bytes"))
    if packed is not None and size > max(UNCHECKED_EXPANSION, limits.expansion * packed):
        raise InputError(
            f"{name} becomes more than {limits.expansion:,} times as large by decompression: "
            f"{packed:,} bytes gave {size:,} and more",
            hint=raise_limit_hint("expansion"),
        )


def check_not_device(path: Path) -> None:
    """Raise if the path is a device, which may have no end."""
    with translate_read_errors(str(path)):
        mode = path.stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise InputError(
            f"{display_path(path)} is a device, not a file",
            hint=f"pass what you need of it to standard input, which is the file name {STDIN}",
        )


def check_exists(path: Path) -> None:
    """Raise unless the file exists."""
    suggestions: tuple[str, ...] = ()
    try:
        if path.is_dir():
            raise InputError(f"{display_path(path)} is a folder, not a file")
        if path.exists():
            return
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {display_path(path.parent)}")
        suggestions = similar_names(path.name, [entry.name for entry in path.parent.iterdir()])
    except (OSError, ValueError) as error:
        raise InputError(f"{display_path(path)} cannot be read: {_reason(error)}") from None
    raise InputError(f"there is no file {display_path(path)}", suggestions=suggestions)


def display_path(path: Path | str) -> str:
    """Return a path for messages, shortened."""
    return shorten(str(path), 120)


def _reason(error: Exception) -> str:
    """Return the system's message, without the path."""
    return getattr(error, "strerror", None) or str(error)


def read_head(source: InputFile, size: int = 64) -> bytes:
    """Return the first bytes, decompressed."""
    with open_binary(source) as file:
        return file.read(size)


def _is_gzip(head: bytes) -> bool:
    """Whether a file that starts like this is gzip; a DuckDB file starts with a checksum, which can be any bytes."""
    return head.startswith(_GZIP_MAGIC) and head[8:12] != _DUCKDB_MAGIC


@contextmanager
def open_binary(source: InputFile) -> Iterator[BinaryIO]:
    """Open the file for reading bytes; gzip is decompressed, whatever the file's name."""
    with translate_read_errors(source.name), source.path.open("rb") as file:
        if not _is_gzip(file.peek(12)[:12]):
            yield file
            return
        import gzip

        with gzip.GzipFile(fileobj=file) as unpacked:
            yield unpacked  # type: ignore[misc]  # a GzipFile reads as a binary file does


@contextmanager
def uncompressed_path(source: InputFile, limits: Limits = DEFAULT_LIMITS) -> Iterator[Path]:
    """Return the path of the file, or of a decompressed copy: a database is not read as a stream."""
    with translate_read_errors(source.name), source.path.open("rb") as start:
        compressed = _is_gzip(start.read(12))
    if not compressed:
        yield source.path
        return
    with open_binary(source) as file, _copied(file, source.name, limits, source.path.stat().st_size) as copy:
        yield copy.path


@contextmanager
def translate_read_errors(name: str) -> Iterator[None]:
    """Raise InputError for the errors of reading and decompressing."""
    import zlib

    try:
        yield
    except EOFError:
        raise InputError(f"{name} is truncated: the gzip data has no end") from None
    except zlib.error as error:
        raise InputError(f"{name} is damaged: {error}") from None
    except PermissionError:
        raise InputError(f"{name} cannot be read: permission denied") from None
    except OSError as error:
        raise InputError(f"{name} cannot be read: {_reason(error)}") from None


def read_text(path: str | Path) -> str:
    """Return the UTF-8 text of a small file."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        unreadable = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else "no file can have that name"
        reason = error.strerror if isinstance(error, OSError) else unreadable
        raise InputError(f"cannot read {path}: {reason}") from None


def read_blocks(
    source: InputFile, limits: Limits, progress: ProgressCallback | None = None, size: int = BLOCK_SIZE
) -> Iterator[TextBlock]:
    """Yield the file in blocks of whole lines, which end with a newline also in files of old Macs."""
    name, line, rest, done = source.name, 1, b"", 0
    returns = has_returns(read_head(source, BLOCK_SIZE))
    with open_binary(source) as file:
        total = source.path.stat().st_size
        packed = None if _on_disk(file) is file else total
        while data := file.read(size):
            done += len(data)
            check_size(name, done, packed, limits)
            if line == 1 and not rest:
                data = _strip_bom(name, data)
            data = data.replace(b"\r", b"\n") if returns else data
            cut = data.rfind(b"\n") + 1
            if cut:
                block = TextBlock(name, line, rest + data[:cut])
                _check_line_lengths(block, limits)
                yield block
                line += int(np.count_nonzero(np.frombuffer(block.data, np.uint8) == 10))  # faster than bytes.count
                rest = data[cut:]
            else:
                rest += data
            if len(rest) > limits.line:
                _raise_line_too_long(TextBlock(name, line, rest[:400] + b"\n"), 0, limits)
            if progress:
                progress(f"reading {Path(name).name}", _on_disk(file).tell(), total)
    if rest:
        yield TextBlock(name, line, rest + b"\n")


def _on_disk(file: BinaryIO) -> BinaryIO:
    """Return the file on disk that is being decompressed, or the file itself."""
    return getattr(file, "fileobj", None) or file


def has_returns(data: bytes) -> bool:
    """Return whether lines end with carriage returns alone, as on old Macs, by the first bytes of a file."""
    return b"\r" in data and b"\n" not in data


def _strip_bom(name: str, data: bytes) -> bytes:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        location = Location(name, 1, 1, data[:40].decode("utf-16", errors="ignore"))
        hint = f"{_SAVE_AS_UTF_8} iconv -f UTF-16 -t UTF-8 OLD > NEW"
        raise InputError("the file is UTF-16, not UTF-8", location=location, hint=hint)
    return data.removeprefix(b"\xef\xbb\xbf")


def _check_line_lengths(block: TextBlock, limits: Limits) -> None:
    # A line that is too long fills one of these windows. Most windows have a newline near their start.
    window = limits.line // 2 + 1
    if all(block.data.find(b"\n", at, at + window) >= 0 for at in range(0, len(block.data), window)):
        return
    ends = np.flatnonzero(np.frombuffer(block.data, np.uint8) == 10)
    lengths = np.diff(ends, prepend=-1) - 1
    if (lengths > limits.line).any():
        row = int(np.argmax(lengths > limits.line))
        _raise_line_too_long(block, int(ends[row] - lengths[row]), limits)


def _raise_line_too_long(block: TextBlock, offset: int, limits: Limits) -> NoReturn:
    raise InputError(
        f"the line is longer than {limits.line:,} bytes",
        location=block.location(offset),
        hint=f"perhaps the file does not have one fact per line; {raise_limit_hint('line')}",
    )


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside the file; it replaces the file on success and is removed on an error.

    A link stays a link, and its target is replaced. An existing file keeps its mode.
    """
    target, mode = _target(path)
    temporary = temporary_path(target)
    try:
        # Not by tempfile, whose files are private: the result has the user's default mode.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else 0o600))
    except OSError as error:
        raise OutputError(f"{display_path(path)} cannot be written: {_reason(error)}") from None
    try:
        yield temporary
        if mode is not None:
            temporary.chmod(mode)
        _commit(temporary, target)
    except OSError as error:
        raise OutputError(f"{display_path(path)} cannot be written: {_reason(error)}") from None
    finally:
        temporary.unlink(missing_ok=True)
        temporary.with_name(f"{temporary.name}.wal").unlink(missing_ok=True)  # of DuckDB, after an error


def temporary_path(target: Path) -> Path:
    """Return a new name beside a file; `leftover_files` finds it."""
    return target.parent / f".{_short_name(target.name)}.{secrets.token_hex(4)}.part"


def check_writable(path: Path) -> None:
    """Raise if the file cannot be written, before a long computation starts."""
    _target(path)


def leftover_files(path: Path) -> list[Path]:
    """Return the temporary files beside a file that killed processes left."""
    target, _ = _target(path)
    ours = re.compile(re.escape(f".{_short_name(target.name)}.") + r"[0-9a-f]{8}\.part")
    return sorted(entry for entry in target.parent.iterdir() if ours.fullmatch(entry.name))


def _short_name(name: str) -> str:
    """Return a name of at most 40 characters; different long names stay different.

    >>> _short_name("family.facts"), len(_short_name("x" * 250))
    ('family.facts', 40)
    """
    return name if len(name) <= 40 else f"{name[:31]}~{zlib.crc32(os.fsencode(name)):08x}"


def _target(path: Path) -> tuple[Path, int | None]:
    """Return the target of a path and the mode of an existing file; only a regular file can be replaced."""
    try:
        mode = path.stat().st_mode if path.exists() else None  # before links are resolved, for /dev/stdout
        if mode is not None and stat.S_ISDIR(mode):
            raise OutputError(f"{display_path(path)} is a folder, not a file")
        if mode is not None and not stat.S_ISREG(mode):
            raise OutputError(
                f"{display_path(path)} is not a regular file",
                hint="write a file, then copy it there",
            )
        target = path.resolve()
        if not target.parent.is_dir():
            raise OutputError(f"there is no folder {display_path(path.parent)}")
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links is a RuntimeError
        raise OutputError(f"{display_path(path)} cannot be written: {_reason(error)}") from None
    return target, None if mode is None else stat.S_IMODE(mode)


def _commit(temporary: Path, path: Path) -> None:
    """Write the bytes to disk before the name points to them."""
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


# Formats

TABLE_FORMATS = ("triples", "nary", "types", "attributes")
"""Text tables, told apart by their columns."""

RDF_FORMATS = ("ntriples", "nquads", "turtle", "trig", "rdfxml", "jsonld")
"""Formats of RDF."""

READ_FORMATS = (*TABLE_FORMATS, "facts", "parquet", *RDF_FORMATS, "jsonlines", "graphml", "duckdb", "sqlite")
"""Formats that `read` accepts."""

WRITE_FORMATS = ("facts", "triples", "nary", "parquet", "ntriples", "turtle", "duckdb")
"""Formats that `write` accepts."""

SUFFIXES = {
    ".facts": "facts",
    ".pl": "facts",
    ".dl": "facts",
    ".parquet": "parquet",
    ".nt": "ntriples",
    ".nq": "nquads",
    ".ttl": "turtle",
    ".trig": "trig",
    ".rdf": "rdfxml",
    ".owl": "rdfxml",
    ".jsonld": "jsonld",
    ".jsonl": "jsonlines",
    ".ndjson": "jsonlines",
    ".graphml": "graphml",
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}
"""Suffix → format; other formats are detected by content."""

OTHER_FILES = {
    "json": (
        "JSON that is neither JSON-LD nor JSON lines",
        'write one object per line: {"head": …, "relation": …, "tail": …}; or add a @context for JSON-LD',
    ),
    "html": ("a web page (HTML)", "perhaps a download failed: open it to see what it says"),
    "xml": ("XML that is neither RDF/XML nor GraphML", "write its facts as lines: head, relation, tail, with tabs"),
}
"""Files that are text but not facts: what they are, and what to do."""
_OVERRIDE = "if it is a table, set --input-format (in Python format=…)"

_MAGIC = ((0, b"SQLite format 3\0", "sqlite"), (8, _DUCKDB_MAGIC, "duckdb"), (0, b"PAR1", "parquet"))
_FACT = re.compile(rb"\s*(?:[%]|[\d.]+\s*::|(?:[\w/:.-]+|'[^'\n]*'|\"[^\"\n]*\")\s*\([^\t\n]*\)\s*(?:=[^\n]*)?\.)")
_TRIPLE = re.compile(rb"\s*(?:<[^<>\s]*>|_:\S+)\s+<[^<>\s]*>\s+[<_\"]")
_PREFIX = re.compile(rb"\s*@?(?:prefix|base)\s+[\w.-]*:?\s*<", re.IGNORECASE)
_JSON = re.compile(
    rb"""\s*(?:\{\s*(?:"(?:[^"\\\n]|\\.)*"\s*:|\}\s)"""
    rb"""|\[\s*(?:\]\s|"(?:[^"\\\n]|\\.)*"\s*[,\]]|-?\d[\d.eE+-]*\s*[,\]]|[\[{]\s*["\[{\]}\d-]))"""
)
_HTML = re.compile(rb"\s*<(?:!doctype\s+html|(?:html|head|body|table|div|script|title)[\s>])", re.IGNORECASE)
_XML = re.compile(rb"""\s*<(?:\?xml\s|!--|!doctype\s|[a-z][\w.:-]*\s+[a-z][\w.:-]*\s*=\s*["'])""", re.IGNORECASE)
_JSON_LD = re.compile(rb'"@(?:context|graph|id|type)"\s*:')
_JSON_LINE = re.compile(rb'\s*\{(?=[^\n]*"(?:relation|type|attribute|label)"\s*:)[^\n]*\}\s*(?:\n|\Z)')
"""An object on one line that can be a fact."""
_RDF_XML = re.compile(rb"<(?:[\w.-]+:)?RDF[\s>]|http://www\.w3\.org/1999/02/22-rdf-syntax-ns#")
_GRAPHML = re.compile(rb"\s*<(?:[\w.-]+:)?graphml[\s>]")
_GRAPH = re.compile(rb"(?mi)^\s*(?:GRAPH\s+)?(?:<[^<>\s]*>|[\w.-]*:[\w.-]*)?\s*\{")
_TERM = rb"(?:<[^<>\s]*>|_:\S+)"
_QUAD = re.compile(
    rb"\s*" + _TERM + rb"\s+<[^<>\s]*>\s+(?:" + _TERM + rb'|"(?:[^"\\\n]|\\.)*"\S*)\s+' + _TERM + rb"\s*\."
)
"""The first line of N-Quads."""
_COMMENTS = re.compile(rb"(?:[^\S\n]*(?:#[^\n]*)?\n)+")
"""Blank lines and comments at the start of a file."""


def is_rdf(name: str) -> bool:
    """Return whether the suffix of a file's name is one of RDF."""
    return SUFFIXES.get(file_suffix(name)) in RDF_FORMATS


def file_suffix(name: str) -> str:
    """Return the suffix of a file name, without `.gz`.

    >>> file_suffix("data/train.TSV.gz"), file_suffix("train"), file_suffix(".csv")
    ('.tsv', '', '')
    """
    match = re.fullmatch(r".*[^/](\.[^./]*)", name.lower().removesuffix(".gz"), re.DOTALL)
    return match[1] if match else ""


def file_stem(name: str) -> str:
    """Return the name of a file without its folder and suffixes.

    >>> file_stem("data/likes.parquet.gz")
    'likes'
    """
    return name.rpartition("/")[2].split(".")[0]


def detect_format(source: InputFile) -> str:
    """Return the format of a file, by its content and suffix; `table` for any text table.

    Raises InputError for files of other kinds, which can look like tables.
    """
    head = read_head(source, 1 << 16)
    file_format = detect_format_of(head.replace(b"\r", b"\n") if has_returns(head) else head, file_suffix(source.name))
    if file_format in OTHER_FILES:
        what, hint = OTHER_FILES[file_format]
        raise InputError(f"{display_path(source.name)} is {what}, not a table of facts", hint=f"{hint}; {_OVERRIDE}")
    return file_format


def detect_format_of(head: bytes, suffix: str) -> str:
    r"""Return the format of a file by its first bytes and its suffix.

    A file with the magic bytes of a database but without a NUL is text.

    >>> detect_format_of(b"p(a, b).", ".txt"), detect_format_of(b"%a\tp\tb", ".txt")
    ('facts', 'table')
    >>> detect_format_of(b"PAR1\tbinds\tx", ".tsv"), detect_format_of(b'{"head": "ann"}', ".csv")
    ('table', 'json')
    """
    for offset, magic, file_format in _MAGIC:
        if head[offset:].startswith(magic) and b"\0" in head:
            return file_format
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    text = head.removeprefix(b"\xef\xbb\xbf")
    if other := _other_kind(text):
        return other
    if suffix in (".tsv", ".csv"):
        return "table"
    comments = _COMMENTS.match(text)
    text = text[comments.end() :] if comments else text
    graphs = _GRAPH.search(text) is not None
    quads = _QUAD.match(text) is not None
    turtle, ntriples = "trig" if graphs else "turtle", "nquads" if quads else "ntriples"
    patterns = [(_PREFIX, turtle), (_TRIPLE, ntriples), (_FACT, "facts")]
    first = text.split(b"\n", 1)[0].rstrip()
    if b"\t" in first:  # a table, unless it is RDF with tabs between its terms
        patterns = patterns[:2] if re.search(rb"\s\.$", first) else []
    return next((name for pattern, name in patterns if pattern.match(text)), "table")


def _other_kind(text: bytes) -> str:
    """Return which format of JSON or XML a text has, or which of `OTHER_FILES` it is, or "".

    A tab in its first line makes it a table.
    """
    if b"\t" in text.lstrip().split(b"\n", 1)[0] and not _JSON_LINE.match(text):
        return ""
    if _JSON.match(text):
        if _JSON_LD.search(text):
            return "jsonld"
        return "jsonlines" if _JSON_LINE.match(text) else "json"
    if _HTML.match(text):
        return "html"
    if _XML.match(text) or _GRAPHML.match(text):
        return "rdfxml" if _RDF_XML.search(text) else "graphml" if _GRAPHML.search(text) else "xml"
    return ""


def check_format(file_format: str | None, formats: tuple[str, ...], error: type[GaifmanError]) -> None:
    """Raise unless the format is None or one of `formats`."""
    if file_format is None or file_format in formats:
        return
    suggestions = similar_names(file_format, formats) if isinstance(file_format, str) else ()
    message, hint = f"there is no format {shorten(str(file_format))}", f"formats: {', '.join(formats)}"
    raise error(message, suggestions=suggestions, hint=hint)


# Temporary folders for what does not fit into memory

SCRATCH_PREFIX = "gaifman-scratch-"
"""Start of the name of every folder."""
SCRATCH_LOCK = "lock"

_SCRATCH_NAME = re.compile(re.escape(SCRATCH_PREFIX) + r"\w{8}")


class ScratchFolder:
    """A temporary folder, removed by `remove`, with this object, or at the end of the process.

    It holds a file that its process locks. The system releases the lock when the process ends, however it ends, so a
    folder whose file can be locked belongs to nobody: the next process that makes such a folder removes it.
    """

    def __init__(self) -> None:
        remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
        unnamed = self.path / f"{SCRATCH_LOCK}.part"
        lock = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / SCRATCH_LOCK)  # nobody sees the file before it is locked
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
            if _SCRATCH_NAME.fullmatch(entry.name):
                _remove_if_abandoned(entry)


def _remove_if_abandoned(entry: os.DirEntry[str]) -> None:
    with suppress(OSError):
        if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid != os.getuid():
            return
        lock = os.open(Path(entry.path) / SCRATCH_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry.path, ignore_errors=True)
        finally:
            os.close(lock)
