"""Formats: their names, the ends of names that stand for them, and how they are told by content."""

from __future__ import annotations

import re

from gaifman.errors import GaifmanError, shorten, similar_names
from gaifman.io.files import InputFile, read_head

TABLE_FORMATS = ("triples", "nary", "types", "attributes")
"""Formats that are tables of text, told apart by their columns."""

READ_FORMATS = (*TABLE_FORMATS, "facts", "parquet", "ntriples", "turtle", "duckdb", "sqlite")
"""All formats that can be read."""

WRITE_FORMATS = ("facts", "triples", "nary", "parquet", "duckdb")
"""All formats that can be written."""

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
"""Formats known by the end of a name; `.db` and the rest are known by their content."""

_MAGIC = ((0, b"SQLite format 3\0", "sqlite"), (8, b"DUCK", "duckdb"), (0, b"PAR1", "parquet"))
_FACT = re.compile(rb"\s*(?:[%]|[\d.]+\s*::|(?:[\w/:.-]+|'[^'\n]*'|\"[^\"\n]*\")\s*\([^\t\n]*\)\s*(?:=[^\n]*)?\.)")
_TRIPLE = re.compile(rb"\s*(?:<[^<>\s]*>|_:\S+)\s+<[^<>\s]*>\s+[<_\"]")
_PREFIX = re.compile(rb"\s*@?(?:prefix|base)\s+[\w.-]*:?\s*<", re.IGNORECASE)
_COMMENTS = re.compile(rb"(?:[^\S\n]*(?:#[^\n]*)?\n)+")
"""Blank lines and those that begin with `#`, at the beginning."""


def file_suffix(name: str) -> str:
    """The end of the name, without `.gz`.

    >>> file_suffix("data/train.TSV.gz"), file_suffix("train"), file_suffix(".csv")
    ('.tsv', '', '')
    """
    found = re.fullmatch(r".*[^/](\.[^./]*)", name.lower().removesuffix(".gz"), re.DOTALL)
    return found[1] if found else ""


def file_stem(name: str) -> str:
    """The name of a file without its folder and its ends.

    >>> file_stem("data/likes.parquet.gz")
    'likes'
    """
    return name.rpartition("/")[2].split(".")[0]


def detect_format(source: InputFile) -> str:
    """The format of a file by its content and name, as far as they tell: `table` is one of text."""
    return detect_format_of(read_head(source, 1 << 16), file_suffix(source.name))


def detect_format_of(head: bytes, suffix: str) -> str:
    r"""The format of a file that begins with these bytes, and whose name ends so.

    A text that begins like a database is still a text: databases have a NUL among their first bytes.

    >>> detect_format_of(b"p(a, b).", ".txt"), detect_format_of(b"%a\tp\tb", ".txt"), detect_format_of(b"PAR1\tbinds\tx", ".tsv")
    ('facts', 'table', 'table')
    """
    for offset, magic, form in _MAGIC:
        if head[offset:].startswith(magic) and b"\0" in head:
            return form
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    if suffix in (".tsv", ".csv"):
        return "table"
    text = head.removeprefix(b"\xef\xbb\xbf")
    comments = _COMMENTS.match(text)
    text = text[comments.end() :] if comments else text
    patterns = [(_PREFIX, "turtle"), (_TRIPLE, "ntriples"), (_FACT, "facts")]
    first = text.split(b"\n", 1)[0].rstrip()
    if b"\t" in first:  # a table, but for RDF with tabs between its terms
        patterns = patterns[:2] if re.search(rb"\s\.$", first) else []
    return next((form for pattern, form in patterns if pattern.match(text)), "table")


def check_format(form: str | None, formats: tuple[str, ...], error: type[GaifmanError]) -> None:
    """Raise unless the format is one of those, or not given."""
    if form is None or form in formats:
        return
    near = similar_names(form, formats) if isinstance(form, str) else ()
    raise error(f"there is no format {shorten(str(form))}", suggestions=near, hint=f"formats: {', '.join(formats)}")
