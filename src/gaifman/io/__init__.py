"""Read knowledge bases from files, databases and Python objects, and write them.

kb = read("family.tsv")                        the format is detected and reported in kb.notes
kb = read("facts.tsv.gz", "ages.tsv")          several sources make one knowledge base
kb = read("postgresql://ann@localhost/family") a database; foreign keys are relations
kb = read(frame)                               a data frame, a list of tuples, a graph …
write(kb, "family.duckdb")                     atomic: an error leaves the old file
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from gaifman.config import DEFAULT_LIMITS, Limits, ProgressCallback, checked
from gaifman.errors import InputError, OutputError
from gaifman.io.database_urls import hide_password, read_url
from gaifman.io.databases import read_parquet, read_sqlite
from gaifman.io.duckdb import is_connection, read_connection, read_duckdb, write_duckdb, write_parquet
from gaifman.io.facts_file import read_facts_file
from gaifman.io.files import (
    RDF_FORMATS,
    READ_FORMATS,
    STDIN,
    SUFFIXES,
    TABLE_FORMATS,
    WRITE_FORMATS,
    InputFile,
    ScratchFolder,
    atomic_write,
    check_format,
    detect_format,
    file_suffix,
    is_url,
    open_input,
    read_blocks,
)
from gaifman.io.graphml import read_graphml
from gaifman.io.graphs import is_networkx, is_rdflib, prefixes_of, read_networkx, serialize_rdflib
from gaifman.io.json_lines import read_json_lines
from gaifman.io.labels import DEFAULT_LANGUAGES, LabelLanguages, add_labels, read_label_file
from gaifman.io.mapped_tables import TableMapper
from gaifman.io.mapping import make_mapping
from gaifman.io.objects import TableReader, describe
from gaifman.io.rdf import IriStyle, NodeNamer, RdfOptions, read_rdf
from gaifman.io.rdf_writer import RDF_WRITE_FORMATS, rdf_lines
from gaifman.io.reviewed_tables import read_any_table
from gaifman.io.writers import fact_lines, find_losses, open_text, table_lines
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.knowledge_base import KnowledgeBase, Note
from gaifman.threads import cached_property

__all__ = [
    "READ_FORMATS",
    "SUFFIXES",
    "TABLE_FORMATS",
    "WRITE_FORMATS",
    "can_hold",
    "demo",
    "detect_format",
    "read",
    "write",
]

MappingArguments = tuple[str | Sequence[str], str | None, bool, str | None, str | Sequence[str]]
"""What `read` is told about the columns of tables: `map`, `id`, `wide`, `separator` and `ignore`."""
NO_MAPPING: MappingArguments = ((), None, False, None, ())


@checked
def read(  # noqa: PLR0913 - each says something else of the data
    *sources: object,
    format: str | None = None,  # noqa: A002
    limits: Limits = DEFAULT_LIMITS,
    table: str | None = None,
    iris: IriStyle = "prefixed",
    header: bool | None = None,
    labels: str | Path | Mapping[str, str] | None = None,
    language: str = "",
    map: str | Sequence[str] = (),  # noqa: A002
    id: str | None = None,  # noqa: A002
    wide: bool = False,
    separator: str | None = None,
    ignore: str | Sequence[str] = (),
    progress: ProgressCallback | None = None,
) -> KnowledgeBase:
    """Read one or more sources into one knowledge base.

    A source is the name of a file, `-` for standard input, the URL of a database (`postgresql://user@host/db`,
    `sqlite:///file.db`), or a Python object: a data frame of pandas or polars, Arrow data, a numpy array of names, a
    list of tuples, a dictionary of relation and table, a graph of networkx or rdflib, a relation or connection of
    DuckDB, a connection of sqlite3.

    `format` is one of `READ_FORMATS`; by default it is detected for each file. `table` is the table of a database to
    read, `schema.table` if needed; by default all. Names of RDF have the prefixes of their file, `ex:berlin`; with
    `iris="full"` they are whole IRIs, with `iris="local"` the part after the last `#` or `/`. `header` says whether the
    first line of a text table names its columns; by default that is detected and reported. `labels` is a file of
    objects and labels, or a mapping; of the labels in RDF, `language` says which are shown: `de`, or `de,fr`.

    `map` says what the columns of tables are: `map=["employee works_in dept", "employee is person", "employee age"]`.
    With `wide`, a row describes the object in the column `id`, by default the first: other columns of numbers are
    attributes, columns of text are relations. `separator` separates several objects in a cell, `ignore` names columns
    that are not read.

    `limits` bounds the length of a line, the bytes and the facts. `progress` is called with the phase, the
    bytes read and the size of the file.
    """
    if not sources:
        raise InputError("nothing to read")
    check_format(format, READ_FORMATS, InputError)
    if iris not in get_args(IriStyle):
        raise InputError(f"iris must be one of {', '.join(get_args(IriStyle))}, got {iris!r}")
    if sum(isinstance(source, str) and source == STDIN for source in sources) > 1:
        raise InputError("standard input can be read only once")
    how = (map, id, wide, separator, ignore)
    mapper = None if how == NO_MAPPING else _make_mapper(how, format)
    languages = LabelLanguages(language) if language else DEFAULT_LANGUAGES
    builder = KnowledgeBaseBuilder(limits.facts)
    reader = _Reader(limits, table, iris, header, languages, mapper, progress, builder)
    for source in sources:
        reader.read(source, format)
    if isinstance(labels, Mapping):
        add_labels(labels, builder)
    elif labels is not None:
        with open_input(labels, limits) as file:
            reader.read_labels(file)
    return reader.finish()


def _make_mapper(how: MappingArguments, file_format: str | None) -> TableMapper | None:
    mapping = make_mapping(*how)
    if mapping and file_format in TABLE_FORMATS:
        raise InputError(
            f"the format {file_format} and a mapping both say what the columns are", hint="leave out one of them"
        )
    return TableMapper(mapping) if mapping else None


@dataclass
class _Reader:
    """Reads several sources into one builder."""

    limits: Limits
    table: str | None
    iris: IriStyle
    header: bool | None
    languages: LabelLanguages
    mapper: TableMapper | None
    """Reads tables by a mapping; None without one."""
    progress: ProgressCallback | None
    builder: KnowledgeBaseBuilder
    sources: int = 0
    fingerprint: str | None = None
    """Fingerprint in the last DuckDB file that gaifman wrote."""

    @cached_property
    def rdf(self) -> RdfOptions:
        """How RDF is read, over all files."""
        return RdfOptions(NodeNamer(self.iris), self.languages)

    @property
    def _how(self) -> tuple[Limits, KnowledgeBaseBuilder, ProgressCallback | None, TableMapper | None]:
        """What readers of tables need."""
        return self.limits, self.builder, self.progress, self.mapper

    @property
    def _prefixed(self) -> bool:
        """Whether names have prefixes."""
        return self.iris == "prefixed"

    def read(self, source: object, file_format: str | None) -> None:
        """Read a file, database or object into the builder."""
        self.sources += 1
        if is_url(source):
            self._check_no_format(hide_password(str(source)), file_format)
            kind = read_url(str(source), self.table, *self._how)
            text = f"databases read as {kind}", hide_password(str(source)), f"database read as {kind}"
            self.builder.add_note(1, *text)
        elif isinstance(source, str | os.PathLike):
            with open_input(source, self.limits) as file:  # type: ignore[arg-type]
                detected = self._read_file(file, file_format or detect_format(file))
                self.builder.add_note(1, f"files read as {detected}", file.name, f"file read as {detected}")
        else:
            self._read_object(source, file_format)

    def _check_no_format(self, name: str, file_format: str | None) -> None:
        if file_format is not None:
            raise InputError(f"{name} has no format; format={file_format} is for files", hint="read the files apart")

    def _read_object(self, source: Any, file_format: str | None) -> None:
        name = describe(source)
        if is_connection(source):
            self._check_no_format(name, file_format)
            kind = read_connection(source, name, self.table, *self._how, prefixed=self._prefixed)
            self.builder.add_note(1, f"databases read as {kind}", name, f"database read as {kind}")
            return
        if self.table is not None:
            raise InputError(f"{name} is not a database and has no table {self.table}")
        if is_networkx(source) or is_rdflib(source):
            self._check_no_format(name, file_format)
            self._read_graph(source, name)
            return
        if file_format not in (None, *TABLE_FORMATS):
            hint = f"formats of rows without column names: {', '.join(TABLE_FORMATS)}"
            raise InputError(f"{name} cannot be read as {file_format}", hint=hint)
        reader = TableReader(self.limits, self.builder, file_format, self.header, self.progress, self.mapper)
        reader.read(source, name)

    def _read_graph(self, graph: Any, name: str) -> None:
        library = "networkx" if is_networkx(graph) else "rdflib"
        self.builder.add_note(1, f"graphs read as {library}", name, f"graph read as {library}")
        if library == "networkx":
            read_networkx(graph, name, self.builder)
            return
        scratch = ScratchFolder()
        try:
            file = serialize_rdflib(graph, name, scratch)
            read_rdf(read_blocks(file, self.limits, self.progress), name, "ntriples", self.rdf, self.builder)
            if self._prefixed:
                self.builder.add_prefixes(prefixes_of(graph))
        finally:
            scratch.remove()

    def _read_file(self, source: InputFile, file_format: str) -> str:
        """Read a file into the builder and return its format."""
        if self.table is not None and file_format not in ("duckdb", "sqlite"):
            raise InputError(f"{source.name} is not a database and has no table {self.table}")
        match file_format:
            case "parquet":
                read_parquet(source, *self._how)
            case "duckdb":
                self.fingerprint = read_duckdb(source, self.table, *self._how, prefixed=self._prefixed)
            case "sqlite":
                read_sqlite(source, self.table, *self._how)
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
                return read_any_table(blocks, file_suffix(source.name), layout, self.builder, self.header, self.mapper)
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
        if self.mapper:
            self.mapper.check_used()
        kb = self.builder.build()
        if self.sources == 1 and self.fingerprint not in (None, kb.fingerprint):
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


def can_hold(kb: KnowledgeBase, path: str | Path) -> bool:
    """Whether a file of this name can be written and holds all of a knowledge base.

    >>> kb = KnowledgeBase.from_facts([("old", "ann")])
    >>> can_hold(kb, "kb.facts"), can_hold(kb, "kb.ttl"), can_hold(kb, "kb.graphml")
    (True, True, False)
    """
    suffix = file_suffix(str(path))
    try:
        file_format = _format_for(kb, Path(path), suffix)
    except OutputError:
        return False
    return file_format == "duckdb" or not find_losses(kb, file_format, suffix)


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
