"""Reading knowledge bases from files and tables, and writing them.

kb = read("family.tsv")                        what the file holds is guessed, and said in kb.notes
kb = read("facts.tsv.gz", "ages.tsv")          several files make one knowledge base
write(kb, "family.duckdb")                     whole or not at all
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from gaifman.config import DEFAULT_LIMITS, Limits, ProgressCallback
from gaifman.errors import InputError, OutputError
from gaifman.io.databases import read_parquet, read_sqlite
from gaifman.io.duckdb import read_duckdb, write_duckdb, write_parquet
from gaifman.io.facts_file import read_facts_file
from gaifman.io.files import STDIN, InputFile, atomic_write, open_input, read_blocks
from gaifman.io.formats import (
    READ_FORMATS,
    SUFFIXES,
    TABLE_FORMATS,
    WRITE_FORMATS,
    check_format,
    detect_format,
    file_suffix,
)
from gaifman.io.rdf import IriStyle, NodeNamer, read_rdf
from gaifman.io.tabular import read_table
from gaifman.io.writers import fact_lines, find_losses, open_text, table_lines
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.facts import Note
from gaifman.kb.knowledge_base import KnowledgeBase

__all__ = ["READ_FORMATS", "SUFFIXES", "TABLE_FORMATS", "WRITE_FORMATS", "detect_format", "read", "write"]


def read(
    *sources: str | Path,
    format: str | None = None,  # noqa: A002
    limits: Limits = DEFAULT_LIMITS,
    table: str | None = None,
    iris: IriStyle = "full",
    progress: ProgressCallback | None = None,
) -> KnowledgeBase:
    """One knowledge base of all the files; `-` is standard input.

    `format` is one of `READ_FORMATS`, and guessed for each file where it is not given; `table` names the table of a
    database; `iris="local"` shortens the names of RDF to what follows the last `#` or `/`.
    """
    if not sources:
        raise InputError("nothing to read: name at least one file")
    check_format(format, READ_FORMATS, InputError)
    if iris not in get_args(IriStyle):
        raise InputError(f"iris is one of {', '.join(get_args(IriStyle))}, not {iris!r}")
    if sum(str(source) == STDIN for source in sources) > 1:
        raise InputError("standard input can be read only once")
    reading = _Reader(limits, table, NodeNamer(iris), progress)
    for name in sources:
        with open_input(name) as source:
            found = reading.read_file(source, format or detect_format(source))
            reading.builder.add_note(1, f"read as {found}", source.name)
    return reading.finish()


@dataclass
class _Reader:
    """One reading of several files."""

    limits: Limits
    table: str | None
    namer: NodeNamer
    progress: ProgressCallback | None
    builder: KnowledgeBaseBuilder = field(default_factory=KnowledgeBaseBuilder)
    files: int = 0
    fingerprint: str | None = None
    """Of our own file, as it was when it was written."""

    def read_file(self, source: InputFile, form: str) -> str:
        """Put one file into the draft; the format it was read as."""
        self.files += 1
        if self.table is not None and form not in ("duckdb", "sqlite"):
            raise InputError(f"{source.name} is no database, so it has no table {self.table}")
        match form:
            case "parquet":
                read_parquet(source, self.builder, self.progress)
            case "duckdb":
                self.fingerprint = read_duckdb(source, self.table, self.builder, self.progress)
            case "sqlite":
                read_sqlite(source, self.table, self.builder, self.progress)
            case _:
                return self._read_text_file(source, form)
        return form

    def _read_text_file(self, source: InputFile, form: str) -> str:
        parts = read_blocks(source, self.limits, self.progress)
        match form:
            case "facts":
                read_facts_file(parts, self.limits, self.builder)
            case "ntriples" | "turtle":
                read_rdf(parts, source.name, form, self.namer, self.builder)
            case _:
                return read_table(
                    parts, file_suffix(source.name), form if form in TABLE_FORMATS else None, self.builder
                )
        return form

    def finish(self) -> KnowledgeBase:
        """The knowledge base; a note says so where a file of ours is no longer what it was."""
        kb = self.builder.build()
        if self.files == 1 and self.fingerprint not in (None, kb.fingerprint):
            note = Note(1, "fingerprint that no longer fits: the file was changed since", str(self.fingerprint))
            return replace(kb, notes=(*kb.notes, note))
        return kb


def write(
    kb: KnowledgeBase,
    path: str | Path,
    format: str | None = None,  # noqa: A002
    lossy: bool = False,
) -> None:
    """Write a knowledge base, by the end of the name or in one of `WRITE_FORMATS`: whole, or not at all.

    Where the format cannot hold something that is known, that is an error, unless `lossy`.
    """
    if not isinstance(path, str | os.PathLike):
        raise OutputError(f"a file is named by a text or a path, not by {path!r}")
    path, end = Path(path), file_suffix(str(path))
    check_format(format, WRITE_FORMATS, OutputError)
    form = format or _format_for(kb, path, end)
    packed = path.name.lower().endswith(".gz")
    if packed and form in ("duckdb", "parquet"):
        raise OutputError(f"{path}: a {form} file is packed inside, not by gzip", hint="leave out .gz")
    lost = [] if form == "duckdb" or lossy else find_losses(kb, form, end)
    if lost:
        raise OutputError(
            f"{path} cannot hold {'; '.join(lost)}",
            hint="a .duckdb file holds everything; lossy writes without them",
        )
    with atomic_write(path) as temporary:
        match form:
            case "duckdb":
                write_duckdb(kb, temporary, str(path))
            case "parquet":
                write_parquet(kb, temporary, str(path))
            case _:
                lines = fact_lines(kb) if form == "facts" else table_lines(kb, form, end)
                with open_text(temporary, packed) as file:
                    file.writelines(lines)


def _format_for(kb: KnowledgeBase, path: Path, end: str) -> str:
    form = SUFFIXES.get(end, "")
    if end in (".tsv", ".csv", ".txt"):
        binary = all(relation.arity == 2 for relation in kb.relations.values() if relation.count)
        form = "triples" if binary else "nary"
    if form not in WRITE_FORMATS:
        raise OutputError(
            f"what to write into {path} cannot be told from its name",
            hint="end the name with .facts, .tsv, .csv, .parquet or .duckdb, or give a format",
        )
    return form
