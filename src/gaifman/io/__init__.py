"""Read knowledge bases from files and databases, and write them.

kb = read("family.tsv")                        the format is detected and reported in kb.notes
kb = read("facts.tsv.gz", "ages.tsv")          several files make one knowledge base
write(kb, "family.duckdb")                     atomic: an error leaves the old file
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import get_args

from gaifman.config import DEFAULT_LIMITS, Limits, ProgressCallback, checked
from gaifman.errors import InputError, OutputError
from gaifman.io.databases import read_parquet, read_sqlite
from gaifman.io.duckdb import read_duckdb, write_duckdb, write_parquet
from gaifman.io.facts_file import read_facts_file
from gaifman.io.files import (
    RDF_FORMATS,
    READ_FORMATS,
    STDIN,
    SUFFIXES,
    TABLE_FORMATS,
    WRITE_FORMATS,
    InputFile,
    atomic_write,
    check_format,
    detect_format,
    file_suffix,
    open_input,
    read_blocks,
)
from gaifman.io.graphml import read_graphml
from gaifman.io.json_lines import read_json_lines
from gaifman.io.labels import LabelLanguages, add_labels, read_label_file
from gaifman.io.rdf import IriStyle, NodeNamer, RdfOptions, read_rdf
from gaifman.io.rdf_writer import RDF_WRITE_FORMATS, rdf_lines
from gaifman.io.tabular import read_table
from gaifman.io.writers import fact_lines, find_losses, open_text, table_lines
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.knowledge_base import KnowledgeBase, Note
from gaifman.threads import cached_property

__all__ = ["READ_FORMATS", "SUFFIXES", "TABLE_FORMATS", "WRITE_FORMATS", "demo", "detect_format", "read", "write"]


@checked
def read(
    *sources: str | Path,
    format: str | None = None,  # noqa: A002
    limits: Limits = DEFAULT_LIMITS,
    table: str | None = None,
    iris: IriStyle = "prefixed",
    header: bool | None = None,
    labels: str | Path | Mapping[str, str] | None = None,
    language: str = "",
    progress: ProgressCallback | None = None,
) -> KnowledgeBase:
    """Read one or more files into one knowledge base; `-` is standard input.

    `format` is one of `READ_FORMATS`; by default it is detected for each file. `table` is the table of a database to
    read; by default all. Names of RDF have the prefixes of their file, `ex:berlin`; with `iris="full"` they are whole
    IRIs, with `iris="local"` the part after the last `#` or `/`. `header` says whether the first line of a text table
    names its columns; by default that is detected and reported. `labels` is a file of objects and labels, or a mapping;
    of the labels in RDF, `language` says which are shown: `de`, or `de,fr`. `limits` bounds the length of a line, the
    bytes and the facts. `progress` is called with the phase, the bytes read and the size of the file.
    """
    if not sources:
        raise InputError("no file to read")
    check_format(format, READ_FORMATS, InputError)
    if iris not in get_args(IriStyle):
        raise InputError(f"iris must be one of {', '.join(get_args(IriStyle))}, got {iris!r}")
    if sum(str(source) == STDIN for source in sources) > 1:
        raise InputError("standard input can be read only once")
    builder = KnowledgeBaseBuilder(limits.facts)
    reader = _Reader(limits, table, iris, header, LabelLanguages(language), progress, builder)
    for name in sources:
        with open_input(name, limits) as source:
            detected = reader.read_file(source, format or detect_format(source))
            reader.builder.add_note(1, f"files read as {detected}", source.name, f"file read as {detected}")
    if isinstance(labels, Mapping):
        add_labels(labels, builder)
    elif labels is not None:
        with open_input(labels, limits) as source:
            reader.read_labels(source)
    return reader.finish()


@dataclass
class _Reader:
    """Reads several files into one builder."""

    limits: Limits
    table: str | None
    iris: IriStyle
    header: bool | None
    languages: LabelLanguages
    progress: ProgressCallback | None
    builder: KnowledgeBaseBuilder
    files: int = 0
    fingerprint: str | None = None
    """Fingerprint in the last DuckDB file that gaifman wrote."""

    @cached_property
    def rdf(self) -> RdfOptions:
        """How RDF is read, over all files."""
        return RdfOptions(NodeNamer(self.iris), self.languages)

    def read_file(self, source: InputFile, file_format: str) -> str:
        """Read a file into the builder and return its format."""
        self.files += 1
        if self.table is not None and file_format not in ("duckdb", "sqlite"):
            raise InputError(f"{source.name} is not a database and has no table {self.table}")
        match file_format:
            case "parquet":
                read_parquet(source, self.limits, self.builder, self.progress)
            case "duckdb":
                prefixed = self.iris == "prefixed"
                self.fingerprint = read_duckdb(
                    source, self.table, self.limits, self.builder, self.progress, prefixed=prefixed
                )
            case "sqlite":
                read_sqlite(source, self.table, self.limits, self.builder, self.progress)
            case _:
                return self._read_text_file(source, file_format)
        return file_format

    def _read_text_file(self, source: InputFile, file_format: str) -> str:
        blocks = read_blocks(source, self.limits, self.progress)
        match file_format:
            case "facts":
                read_facts_file(blocks, self.limits, self.builder)
            case "jsonlines":
                read_json_lines(blocks, source.name, self.builder)
            case "graphml":
                read_graphml(blocks, source.name, self.limits.line, self.builder)
            case _ if file_format in RDF_FORMATS:
                read_rdf(blocks, source.name, file_format, self.rdf, self.builder)
            case _:
                layout = file_format if file_format in TABLE_FORMATS else None
                return read_table(blocks, file_suffix(source.name), layout, self.builder, self.header)
        return file_format

    def read_labels(self, source: InputFile) -> None:
        """Read a file of labels: RDF, or a table with two columns."""
        blocks, suffix = read_blocks(source, self.limits, self.progress), file_suffix(source.name)
        file_format = SUFFIXES.get(suffix)
        if file_format in RDF_FORMATS:
            read_rdf(blocks, source.name, file_format, replace(self.rdf, labels_only=True), self.builder)
        elif file_format is None:
            read_label_file(blocks, source.name, suffix, self.builder)
        else:
            raise InputError(
                f"labels are not read from {file_format} files: {source.name}",
                hint="write a .tsv file: an object and its label on each line, with a tab between them",
            )

    def finish(self) -> KnowledgeBase:
        """Return the knowledge base, with a note if a file of gaifman was changed by another program."""
        kb = self.builder.build()
        if self.files == 1 and self.fingerprint not in (None, kb.fingerprint):
            note = Note(1, "fingerprint mismatch: the file has changed since it was written", str(self.fingerprint))
            return replace(kb, notes=(*kb.notes, note))
        return kb


@checked
def write(
    kb: KnowledgeBase,
    path: str | Path,
    format: str | None = None,  # noqa: A002
    lossy: bool = False,
) -> None:
    """Write a knowledge base in one of `WRITE_FORMATS`, by default that of the file's suffix.

    The write is atomic. If the format cannot hold all the data, an error says what would be lost; with `lossy` that is
    skipped.
    """
    if not isinstance(path, str | os.PathLike):
        raise OutputError(f"a file name must be a string or path, got {path!r}")
    path, suffix = Path(path), file_suffix(str(path))
    check_format(format, WRITE_FORMATS, OutputError)
    file_format = format or _format_for(kb, path, suffix)
    compressed = path.name.lower().endswith(".gz")
    if compressed and file_format in ("duckdb", "parquet"):
        raise OutputError(f"{path}: a {file_format} file cannot be compressed with gzip", hint="remove .gz")
    lost = [] if file_format == "duckdb" or lossy else find_losses(kb, file_format, suffix)
    if lost:
        raise OutputError(
            f"{path} cannot hold {'; '.join(lost)}",
            hint="write a .duckdb file, which holds everything, or skip them with lossy",
        )
    with atomic_write(path) as temporary:
        match file_format:
            case "duckdb":
                write_duckdb(kb, temporary, str(path))
            case "parquet":
                write_parquet(kb, temporary, str(path))
            case _:
                with open_text(temporary, compressed) as file:
                    file.writelines(_lines(kb, file_format, suffix))


def _lines(kb: KnowledgeBase, file_format: str, suffix: str) -> Iterator[str]:
    """Yield the lines of a text file."""
    if file_format == "facts":
        return fact_lines(kb)
    return rdf_lines(kb, file_format) if file_format in RDF_WRITE_FORMATS else table_lines(kb, file_format, suffix)


def _format_for(kb: KnowledgeBase, path: Path, suffix: str) -> str:
    file_format = SUFFIXES.get(suffix, "")
    if suffix in (".tsv", ".csv", ".txt"):
        binary = all(relation.arity == 2 for relation in kb.relations.values() if relation.count)
        file_format = "triples" if binary else "nary"
    if file_format not in WRITE_FORMATS:
        raise OutputError(
            f"the name of {path} does not determine a format",
            hint="use the suffix .facts, .tsv, .csv, .nt, .ttl, .parquet or .duckdb, or set the format",
        )
    return file_format


def demo() -> KnowledgeBase:
    """Return the bundled knowledge base of countries: their borders, regions, capitals, languages and more.

    >>> ("borders", "france", "spain") in demo()
    True
    """
    with resources.as_file(resources.files("gaifman").joinpath("data", "countries.facts")) as path:
        return read(path)
