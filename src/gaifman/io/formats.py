"""File formats: their names, their suffixes, and detection by content."""

from __future__ import annotations

import re

from gaifman.errors import GaifmanError, InputError, shorten, similar_names
from gaifman.io.files import InputFile, display_path, has_returns, read_head

TABLE_FORMATS = ("triples", "nary", "types", "attributes")
"""Text tables, told apart by their columns."""

READ_FORMATS = (*TABLE_FORMATS, "facts", "parquet", "ntriples", "turtle", "duckdb", "sqlite")
"""Formats that `read` accepts."""

WRITE_FORMATS = ("facts", "triples", "nary", "parquet", "duckdb")
"""Formats that `write` accepts."""

SUFFIXES = {
    ".facts": "facts",
    ".pl": "facts",
    ".dl": "facts",
    ".parquet": "parquet",
    ".nt": "ntriples",
    ".ttl": "turtle",
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}
"""Suffix → format; other formats are detected by content."""

OTHER_FILES = {
    "json": ("JSON", "write head, relation and tail of a fact on each line, with tabs between them"),
    "html": ("a web page (HTML)", "perhaps a download failed: open it to see what it says"),
    "xml": ("XML", "convert RDF/XML to Turtle (.ttl) or N-Triples (.nt), and other XML to a table"),
}
"""Files that are text but not facts: what they are, and what to do."""
_OVERRIDE = "if it is a table, set --format (in Python format=…)"

_MAGIC = ((0, b"SQLite format 3\0", "sqlite"), (8, b"DUCK", "duckdb"), (0, b"PAR1", "parquet"))
_FACT = re.compile(rb"\s*(?:[%]|[\d.]+\s*::|(?:[\w/:.-]+|'[^'\n]*'|\"[^\"\n]*\")\s*\([^\t\n]*\)\s*(?:=[^\n]*)?\.)")
_TRIPLE = re.compile(rb"\s*(?:<[^<>\s]*>|_:\S+)\s+<[^<>\s]*>\s+[<_\"]")
_PREFIX = re.compile(rb"\s*@?(?:prefix|base)\s+[\w.-]*:?\s*<", re.IGNORECASE)
_JSON = re.compile(
    rb"""\s*(?:\{\s*(?:"(?:[^"\\\n]|\\.)*"\s*:|\}\s)"""
    rb"""|\[\s*(?:\]\s|"(?:[^"\\\n]|\\.)*"\s*[,\]]|-?\d[\d.eE+-]*\s*[,\]]|[\[{]\s*["\[{\]}\d-]))"""
)
_HTML = re.compile(rb"\s*<(?:!doctype\s+html|(?:html|head|body|table|div|script|title)[\s>])", re.IGNORECASE)
_XML = re.compile(rb"""\s*<(?:\?xml\s|!--|!doctype\s|[a-z][\w.:-]*\s+[a-z][\w.:-]*\s*=\s*["'])""", re.IGNORECASE)
_COMMENTS = re.compile(rb"(?:[^\S\n]*(?:#[^\n]*)?\n)+")
"""Blank lines and comments at the start of a file."""


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
    patterns = [(_PREFIX, "turtle"), (_TRIPLE, "ntriples"), (_FACT, "facts")]
    first = text.split(b"\n", 1)[0].rstrip()
    if b"\t" in first:  # a table, unless it is RDF with tabs between its terms
        patterns = patterns[:2] if re.search(rb"\s\.$", first) else []
    return next((name for pattern, name in patterns if pattern.match(text)), "table")


def _other_kind(text: bytes) -> str:
    """Return which of `OTHER_FILES` a text is, or "". A tab in its first line makes it a table."""
    if b"\t" in text.lstrip().split(b"\n", 1)[0]:
        return ""
    patterns = (_JSON, "json"), (_HTML, "html"), (_XML, "xml")
    return next((name for pattern, name in patterns if pattern.match(text)), "")


def check_format(file_format: str | None, formats: tuple[str, ...], error: type[GaifmanError]) -> None:
    """Raise unless the format is None or one of `formats`."""
    if file_format is None or file_format in formats:
        return
    suggestions = similar_names(file_format, formats) if isinstance(file_format, str) else ()
    message, hint = f"there is no format {shorten(str(file_format))}", f"formats: {', '.join(formats)}"
    raise error(message, suggestions=suggestions, hint=hint)
