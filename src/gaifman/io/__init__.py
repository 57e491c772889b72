"""Reading knowledge bases from files and tables, and writing them.

kb = read("family.tsv")                        what the file holds is guessed, and said in kb.notes
kb = read("facts.tsv.gz", "ages.tsv")          several files make one knowledge base
write(kb, "family.duckdb")                     whole or not at all
"""

from __future__ import annotations

import re
from pathlib import Path

from gaifman.config import LIMITS, Limits
from gaifman.draft import Draft
from gaifman.errors import GaifmanError, InputError, OutputError, shorten
from gaifman.io.databases import read_parquet, read_sqlite
from gaifman.io.datalog import read_facts
from gaifman.io.delimited import read_table
from gaifman.io.files import Progress, blocks, head, replaced
from gaifman.io.rdf import Iris, read_rdf
from gaifman.io.store import read_duckdb, write_duckdb, write_parquet
from gaifman.io.texts import fact_lines, losses, table_lines, text_file
from gaifman.kb import KnowledgeBase
from gaifman.names import nearest

TABLES = ("triples", "nary", "types", "attributes")
"""Formats that are tables of text, told apart by their columns."""

FORMATS = (*TABLES, "facts", "parquet", "ntriples", "turtle", "duckdb", "sqlite")
"""All formats that can be read."""

WRITTEN = ("facts", "triples", "nary", "parquet", "duckdb")
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


def read(
    *sources: str | Path,
    format: str | None = None,  # noqa: A002
    limits: Limits = LIMITS,
    table: str | None = None,
    iris: Iris = "full",
    progress: Progress | None = None,
) -> KnowledgeBase:
    """One knowledge base of all the files.

    `format` is one of `FORMATS`, and guessed for each file where it is not given; `table` names the table of a
    database; `iris="local"` shortens the names of RDF to what follows the last `#` or `/`.
    """
    if not sources:
        raise InputError("nothing to read: name at least one file")
    check_format(format, FORMATS, InputError)
    draft = Draft()
    for scope, path in enumerate(map(Path, sources)):
        found = _read(path, format or known(path), draft, limits, table, iris, progress, scope)
        draft.note(1, f"read as {found}", str(path))
    return draft.finish()


def _read(
    path: Path,
    form: str,
    draft: Draft,
    limits: Limits,
    table: str | None,
    iris: Iris,
    progress: Progress | None,
    scope: int,
) -> str:
    """Put one file into a draft; the format it was read as."""
    if table is not None and form not in ("duckdb", "sqlite"):
        raise InputError(f"{path} is no database, so it has no table {table}")
    match form:
        case "parquet":
            read_parquet(path, draft)
        case "duckdb":
            read_duckdb(path, table, draft)
        case "sqlite":
            read_sqlite(path, table, draft)
        case "facts":
            read_facts(blocks(path, limits, progress), limits, draft)
        case "ntriples" | "turtle":
            read_rdf(blocks(path, limits, progress), str(path), form, iris, scope, draft)
        case _:
            asked = form if form in TABLES else None
            return read_table(blocks(path, limits, progress), path.name, suffix(path), asked, draft)
    return form


def suffix(path: Path) -> str:
    """The end of the name, without `.gz`.

    >>> suffix(Path("train.TSV.gz")), suffix(Path("train"))
    ('.tsv', '')
    """
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


_MAGIC = ((0, b"SQLite format 3\0", "sqlite"), (8, b"DUCK", "duckdb"), (0, b"PAR1", "parquet"))
_FACT = re.compile(rb"\s*(?:[%]|[\d.]+\s*::|(?:[\w/:.-]+|'[^'\n]*'|\"[^\"\n]*\")\s*\([^\t\n]*\)\s*(?:=[^\n]*)?\.)")
_TRIPLE = re.compile(rb"\s*(?:<[^<>\s]*>|_:\S+)\s+<[^<>\s]*>\s+[<_\"]")
_PREFIX = re.compile(rb"\s*@?(?:prefix|base)\s+[\w.-]*:?\s*<", re.IGNORECASE)


def known(path: Path) -> str:
    """The format of a file by its content and name, as far as they tell: `table` is one of text."""
    begin = head(path, 4096)
    for offset, magic, form in _MAGIC:
        if begin[offset:].startswith(magic):
            return form
    end = suffix(path)
    if end in SUFFIXES:
        return SUFFIXES[end]
    if end not in (".tsv", ".csv"):
        for pattern, form in ((_PREFIX, "turtle"), (_TRIPLE, "ntriples"), (_FACT, "facts")):
            if pattern.match(begin.removeprefix(b"\xef\xbb\xbf")):
                return form
    return "table"


def check_format(form: str | None, formats: tuple[str, ...], error: type[GaifmanError]) -> None:
    """Raise unless the format is one of those, or not given."""
    if form is not None and form not in formats:
        near = nearest(form, formats)
        raise error(f"there is no format {shorten(form)}", near=near, hint=f"formats: {', '.join(formats)}")


def write(
    kb: KnowledgeBase,
    path: str | Path,
    format: str | None = None,  # noqa: A002
    lossy: bool = False,
) -> None:
    """Write a knowledge base, by the end of the name or in one of `WRITTEN`: whole, or not at all.

    Where the format cannot hold something that is known, that is an error, unless `lossy`.
    """
    path = Path(path)
    check_format(format, WRITTEN, OutputError)
    form = format or _format_for(kb, path)
    packed, delimiter = path.name.lower().endswith(".gz"), "," if suffix(path) == ".csv" else "\t"
    if packed and form in ("duckdb", "parquet"):
        raise OutputError(f"{path}: a {form} file is packed inside, not by gzip", hint="leave out .gz")
    lost = [] if form == "duckdb" or lossy else losses(kb, form, delimiter)
    if lost:
        raise OutputError(
            f"{path} cannot hold {'; '.join(lost)}",
            hint="a .duckdb file holds everything; lossy writes without them",
        )
    with replaced(path) as temporary:
        match form:
            case "duckdb":
                write_duckdb(kb, temporary)
            case "parquet":
                write_parquet(kb, temporary)
            case _:
                lines = fact_lines(kb) if form == "facts" else table_lines(kb, form, delimiter)
                with text_file(temporary, packed) as file:
                    file.writelines(lines)


def _format_for(kb: KnowledgeBase, path: Path) -> str:
    end = suffix(path)
    form = SUFFIXES.get(end, "")
    if end in (".tsv", ".csv", ".txt"):
        binary = all(relation.arity == 2 for relation in kb.relations.values() if relation.count)
        form = "triples" if binary else "nary"
    if form not in WRITTEN:
        raise OutputError(
            f"what to write into {path} cannot be told from its name",
            hint="end the name with .facts, .tsv, .csv, .parquet or .duckdb, or give a format",
        )
    return form
