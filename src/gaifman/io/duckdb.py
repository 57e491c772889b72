"""Gaifman's DuckDB file, which holds a whole knowledge base, and Parquet.

    objects(id, name)   relations(id, name, arity)   attributes(id, name)   gaifman(key, value)
    facts1(relation, a1, confidence)   facts2(relation, a1, a2, confidence)   …   facts8(…)
    attribute_values(attribute, object, value)   labels(object, label)   prefixes(prefix, iri)

labels and prefixes only if there are some, and the views `facts(relation, objects, confidence)` and
`"values"(attribute, object, value)` with names.

If proposed facts were reviewed, the decisions, also about those that were rejected, are in

    reviews1(relation, a1, provenance, model, date, probability)   …   reviews8(…)

and, with names, in the view `reviews(relation, objects, provenance, model, date, probability)`.
"""

# ruff: noqa: S608 - table and column names are ours, or quoted; values are never put into SQL text
from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.config import MAX_ARITY, Limits, ProgressCallback
from gaifman.errors import InputError, Location, OutputError, shorten
from gaifman.io.databases import (
    MAIN_SCHEMA,
    NO_DISK,
    list_tables,
    quote_identifier,
    quote_literal,
    read_duckdb_tables,
    read_sqlite_tables,
    translate_duckdb_errors,
    translate_sqlite_errors,
)
from gaifman.io.files import InputFile, ScratchFolder, uncompressed_path
from gaifman.io.labels import STORED_RANK
from gaifman.io.mapped_tables import TableMapper
from gaifman.kb.builder import KnowledgeBaseBuilder, Locator
from gaifman.kb.knowledge_base import KnowledgeBase, format_name
from gaifman.kb.labels import NOTHING, Prefixes, expand
from gaifman.kb.reviews import PREDICTED, REJECTED, Provenance
from gaifman.kb.tables import Floats, Ints
from gaifman.logic.ast import name_problem

REVIEW_FIELDS = ("provenance", "model", "date", "probability")
LAYOUT_VERSION = 1
"""Version of the file's layout; other versions are refused."""


@contextmanager
def _connect_for_writing(database: str, path: Path, name: str) -> Iterator[Any]:
    """Open a DuckDB connection to write a file; its errors become OutputError with the file's name."""
    import duckdb

    scratch = ScratchFolder()
    try:
        with duckdb.connect(database, config={"temp_directory": str(scratch.path)}) as connection:
            yield connection
    except duckdb.Error as error:
        message = str(error).split("\n", 1)[0].replace(str(path), name)
        raise OutputError(f"{name} cannot be written: {message}") from None
    finally:
        scratch.remove()


def write_duckdb(kb: KnowledgeBase, path: Path, name: str) -> None:
    """Write a knowledge base to a new DuckDB file; `name` is its name in messages."""
    mode = path.stat().st_mode if path.exists() else None
    path.unlink(missing_ok=True)  # DuckDB refuses an empty file
    with _connect_for_writing(str(path), path, name) as connection:
        if mode is not None:
            path.chmod(mode)  # before it has any content
        _write_names(connection, kb)
        for arity, table in kb.fact_tables.items():
            columns = {"relation": table.relation} | {f"a{i + 1}": table.objects[:, i] for i in range(arity)}
            confidence = np.ones(len(table)) if table.confidence is None else table.confidence
            create_table(connection, f"facts{arity}", columns | {"confidence": confidence})
        numbers = kb.value_table
        create_table(
            connection,
            "attribute_values",
            {"attribute": numbers.attribute, "object": numbers.objects, "value": numbers.value},
        )
        _create_views(connection, list(kb.fact_tables))
        _write_labels(connection, kb)
        _write_reviews(connection, kb)
        about = {"version": str(LAYOUT_VERSION), "fingerprint": kb.fingerprint, "format": "gaifman knowledge base"}
        create_table(connection, "gaifman", {"key": _text_array(about), "value": _text_array(about.values())})


def _write_reviews(connection: Any, kb: KnowledgeBase) -> None:
    """Write the decisions about proposed facts; no table if there are none."""
    decided = [(PREDICTED, *one) for one in kb.provenance.items()] + [(REJECTED, *one) for one in kb.rejected.items()]
    arities = sorted({len(key) - 1 for _, key, _ in decided})
    for arity in arities:
        rows = sorted(row for row in decided if len(row[1]) - 1 == arity)
        ids = np.array([[kb.object_id(name) for name in key[1:]] for _, key, _ in rows], np.int32)
        relations = np.array([kb.content.relations.find(key[0]) for _, key, _ in rows], np.int32)
        columns: dict[str, npt.NDArray[Any]] = {"relation": relations} | {f"a{i + 1}": ids[:, i] for i in range(arity)}
        columns |= {"provenance": _text_array(kind for kind, _, _ in rows)}
        columns |= {name: _text_array(getattr(own, name) for *_, own in rows) for name in ("model", "date")}
        numbers = [math.nan if own.probability is None else own.probability for *_, own in rows]
        create_table(
            connection, f"reviews{arity}", columns | {"probability": np.array(numbers)}, nullable="probability"
        )
    if arities:
        own = "f.provenance, f.model, f.date, f.probability"
        parts = [_named_rows("reviews", arity, own) for arity in arities]
        connection.execute(f"CREATE VIEW reviews AS {' UNION ALL '.join(parts)}")


def _write_names(connection: Any, kb: KnowledgeBase) -> None:
    for table, names in (("objects", kb.objects), ("attributes", kb.content.attributes)):
        create_table(connection, table, {"id": np.arange(len(names), dtype=np.int32), "name": _text_array(names)})
    names = kb.content.relations
    columns: dict[str, npt.NDArray[Any]] = {"id": np.arange(len(names), dtype=np.int32), "name": _text_array(names)}
    create_table(connection, "relations", columns | {"arity": np.array(kb.content.arities, np.int32)})


def _write_labels(connection: Any, kb: KnowledgeBase) -> None:
    """Write labels and prefixes, if there are some."""
    for table, (key, value), pairs in (
        ("labels", ("object", "label"), kb.labels),
        ("prefixes", ("prefix", "iri"), kb.prefixes),
    ):
        if pairs:
            create_table(connection, table, {key: _text_array(pairs), value: _text_array(pairs.values())})


def _text_array(names: Any) -> npt.NDArray[Any]:
    return np.array([*names], object)


def create_table(
    connection: Any, table: str, columns: dict[str, npt.NDArray[Any]], *, temporary: bool = False, nullable: str = ""
) -> None:
    """Create a table from arrays; in the `nullable` column, NaN is null."""
    kinds = {"i": "INTEGER", "f": "DOUBLE", "O": "VARCHAR"}
    definition = ", ".join(
        f"{quote_identifier(name)} {kinds[array.dtype.kind]}{'' if name == nullable else ' NOT NULL'}"
        for name, array in columns.items()
    )
    connection.execute(f"CREATE {'TEMP ' if temporary else ''}TABLE {quote_identifier(table)} ({definition})")
    if len(next(iter(columns.values()))):
        connection.register("gaifman_columns", {name: np.ascontiguousarray(a) for name, a in columns.items()})
        connection.execute(f"INSERT INTO {quote_identifier(table)} SELECT * FROM gaifman_columns")
        connection.unregister("gaifman_columns")


def _create_views(connection: Any, arities: list[int]) -> None:
    """Create views with names instead of numbers."""
    parts = [_named_rows("facts", arity, "f.confidence") for arity in arities]
    empty = "SELECT ''::VARCHAR AS relation, []::VARCHAR[] AS objects, 1.0::DOUBLE AS confidence WHERE false"
    connection.execute(f"CREATE VIEW facts AS {' UNION ALL '.join(parts or [empty])}")
    connection.execute(
        'CREATE VIEW "values" AS SELECT a.name AS attribute, o.name AS object, v.value FROM attribute_values v '
        "JOIN attributes a ON a.id = v.attribute JOIN objects o ON o.id = v.object"
    )


def _named_rows(table: str, arity: int, own: str) -> str:
    """The rows of a table of one arity with names instead of numbers."""
    names = ", ".join(f"o{i + 1}.name" for i in range(arity))
    joins = " ".join(f"JOIN objects o{p + 1} ON o{p + 1}.id = f.a{p + 1}" for p in range(arity))
    return (
        f"SELECT r.name AS relation, [{names}] AS objects, {own} "
        f"FROM {table}{arity} f JOIN relations r ON r.id = f.relation {joins}"
    )


def read_duckdb(
    source: InputFile,
    table: str | None,
    limits: Limits,
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None = None,
    mapper: TableMapper | None = None,
    *,
    prefixed: bool = True,
) -> str | None:
    """Read a DuckDB file into the builder; return the fingerprint if gaifman wrote the file.

    `prefixed` says whether names keep the prefixes that the file has; otherwise they become IRIs.
    """
    import duckdb

    with (
        uncompressed_path(source, limits) as file,
        translate_duckdb_errors(source),
        duckdb.connect(str(file), read_only=True, config=dict(NO_DISK)) as connection,
    ):
        connection.execute("SET enable_external_access = false")  # an untrusted file must not reach other files
        return _read_database(source.name, connection, table, limits, builder, progress, mapper, prefixed=prefixed)


def _read_database(
    source: str,
    connection: Any,
    table: str | None,
    limits: Limits,
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None,
    mapper: TableMapper | None,
    *,
    prefixed: bool,
) -> str | None:
    """Read an open database; return the fingerprint if gaifman wrote it."""
    names = {name for schema, name in list_tables(connection) if schema == MAIN_SCHEMA}
    if table is None and {"gaifman", "objects", "relations"} <= names:
        return _read_native(_ColumnReader(source, connection, builder), names, builder, progress, prefixed)
    read_duckdb_tables(source, connection, table, limits, builder, progress, mapper)
    return None


def is_connection(found: object) -> bool:
    """Whether an object is an open connection to DuckDB, or one of Python's sqlite3."""
    name = f"{type(found).__module__}.{type(found).__name__}"
    return name.endswith("duckdb.DuckDBPyConnection") or any(
        f"{cls.__module__}.{cls.__name__}" == "sqlite3.Connection" for cls in type(found).__mro__
    )


def read_connection(
    connection: Any,
    source: str,
    table: str | None,
    limits: Limits,
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None = None,
    mapper: TableMapper | None = None,
    *,
    prefixed: bool = True,
) -> str:
    """Read tables of a connection that the user opened, and return the kind of the database.

    `source` is its name for messages; `prefixed` is as for `read_duckdb`.
    """
    if hasattr(connection, "row_factory"):
        with translate_sqlite_errors(source), _plain_rows(connection):
            read_sqlite_tables(source, connection, table, limits, builder, progress, mapper)
        return "sqlite"
    with translate_duckdb_errors(source):
        _read_database(source, connection.cursor(), table, limits, builder, progress, mapper, prefixed=prefixed)
    return "duckdb"


@contextmanager
def _plain_rows(connection: Any) -> Iterator[None]:
    """Let an SQLite connection return tuples of text, and restore what the user has set."""
    kept = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield
    finally:
        connection.row_factory, connection.text_factory = kept


def _read_native(
    columns: _ColumnReader,
    names: set[str],
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None,
    prefixed: bool,
) -> str | None:
    """Read a file that gaifman wrote, and return its fingerprint."""
    about = columns.metadata()
    if "prefixes" in names:
        columns.prefixes = dict(columns.text_pairs("prefixes", "prefix", "iri"))
        if prefixed:
            builder.add_prefixes(columns.prefixes)
    for table in ("objects", "relations", "attributes"):
        columns.count_rows(table)
    objects, relations, attributes = (columns.names(table) for table in ("objects", "relations", "attributes"))
    arities = columns.integers("relations", "arity")
    if not ((arities >= 1) & (arities <= MAX_ARITY)).all():
        raise columns.error("relations", f"an arity must be 1 to {MAX_ARITY}")
    with columns.locating_errors("relations") as locate:
        builder.declare(objects, relations, arities.astype(np.int32), attributes, locate)
    for arity in range(1, MAX_ARITY + 1):
        table = f"facts{arity}"
        if table not in names:
            continue
        if progress:
            progress(f"reading {table}", 0, None)
        columns.count_rows(table)
        relation = columns.ids(table, "relation", relations)
        members = [columns.ids(table, f"a{i + 1}", objects) for i in range(arity)]
        confidence = columns.floats(table, "confidence")
        with columns.locating_errors(table) as locate:
            builder.add_facts(relation, np.stack(members, axis=1), confidence, locate)
    for arity in range(1, MAX_ARITY + 1):
        if f"reviews{arity}" in names:
            columns.read_reviews(f"reviews{arity}", arity)
    columns.count_rows("attribute_values")
    attribute = columns.ids("attribute_values", "attribute", attributes)
    holder = columns.ids("attribute_values", "object", objects)
    with columns.locating_errors("attribute_values") as locate:
        builder.add_values(attribute, holder, columns.floats("attribute_values", "value"), locate)
    if "labels" in names:
        columns.count_rows("labels")
        for name, label in columns.text_pairs("labels", "object", "label"):
            builder.add_label(expand(name, columns.prefixes), label, STORED_RANK)
    return about.get("fingerprint")


class _ColumnReader:
    """Reads and checks the columns of a file that gaifman wrote; another program may have changed it."""

    def __init__(self, source: str, connection: Any, builder: KnowledgeBaseBuilder) -> None:
        self._source, self._connection, self._builder = source, connection, builder
        self.prefixes: Prefixes = NOTHING
        """The prefixes of names."""

    def metadata(self) -> dict[str, str]:
        """Return the metadata of the file; other versions of the layout are refused."""
        about = dict(self._connection.execute("SELECT key, value FROM gaifman").fetchall())
        if about.get("version") != str(LAYOUT_VERSION):
            version = about.get("version")
            raise InputError(
                f"{self._source} has layout version {version}; this version of gaifman reads {LAYOUT_VERSION}",
                hint="install a newer version of gaifman",
            )
        return about

    def count_rows(self, table: str) -> None:
        """Refuse a table with too many rows before its columns are in memory: a small file can hold billions."""
        (count,) = self._connection.execute(f"SELECT count(*) FROM {quote_identifier(table)}").fetchone()
        self._builder.check_row_count(count, lambda: Location(f"{self._source}, table {table}", 1, 1, ""))

    def column(self, table: str, column: str, kinds: str, what: str) -> npt.NDArray[Any]:
        """Return a column in the order of the table; nulls and other kinds of cells are refused."""
        fetched = self._connection.execute(
            f"SELECT {quote_identifier(column)} FROM {quote_identifier(table)}"
        ).fetchnumpy()[column]
        if np.ma.is_masked(fetched):
            raise self.error(table, f"{column} is null", int(np.argmax(np.ma.getmaskarray(fetched))))
        plain = np.ma.getdata(fetched)
        if plain.dtype.kind not in kinds:
            raise self.error(table, f"the column {column} must hold {what}")
        return plain

    def integers(self, table: str, column: str) -> npt.NDArray[Any]:
        """Return a column of integers."""
        return self.column(table, column, "iu", "integers")

    def floats(self, table: str, column: str) -> Floats:
        """Return a column of numbers."""
        return self.column(table, column, "iuf", "numbers").astype(np.float64)

    def names(self, table: str) -> Ints:
        """Return the builder's numbers by id in the file, shape (names,)."""
        ids, names = self.integers(table, "id"), self.column(table, "name", "O", "text").tolist()
        if sorted(ids.tolist()) != list(range(len(ids))):
            raise self.error(table, "the ids must be 0, 1, 2 and so on")
        if not all(isinstance(name, str) for name in names):
            raise self.error(table, "the column name must hold text")
        seen: set[str] = set()
        for row, name in enumerate(names if len(set(names)) < len(names) else ()):
            if name in seen:
                raise self.error(table, f"the name {shorten(format_name(name))} occurs twice", row)
            seen.add(name)
        names = [expand(name, self.prefixes) for name in names] if self.prefixes else names
        numbers = np.empty(len(ids), np.int32)
        numbers[ids] = self._builder.encode_names(names, lambda row: self.location(table, row))
        return numbers

    def text_pairs(self, table: str, key: str, value: str) -> Iterator[tuple[str, str]]:
        """Yield the rows of a table of two columns of text."""
        keys, values = (self.column(table, column, "O", "text").tolist() for column in (key, value))
        for row, pair in enumerate(zip(keys, values, strict=True)):
            if not all(isinstance(text, str) and "\0" not in text for text in pair) or name_problem(pair[1]):
                raise self.error(table, f"the columns {key} and {value} must hold text", row)
            yield pair

    def ids(self, table: str, column: str, numbers: Ints) -> Ints:
        """Return a column of ids as the builder's numbers."""
        ids = self.integers(table, column)
        outside = (ids < 0) | (ids >= len(numbers))
        if outside.any():
            row = int(np.argmax(outside))
            raise self.error(table, f"{column} {ids[row]} is not an id", row)
        encoded: Ints = numbers[ids]
        return encoded

    def read_reviews(self, table: str, arity: int) -> None:
        """Read the decisions about proposed facts of one arity."""
        self.count_rows(table)
        relations, objects = (self._names_by_id(kind) for kind in ("relations", "objects"))
        columns = ", ".join(["relation", *(f"a{i + 1}" for i in range(arity)), *REVIEW_FIELDS])
        found = self._connection.execute(f"SELECT {columns} FROM {quote_identifier(table)}").fetchall()
        for row, (relation, *members, kind, model, date, p) in enumerate(found):
            names = (relations.get(relation, ""), *(objects.get(number, "") for number in members))
            if "" in names:
                raise self.error(table, "a number is not an id", row)
            if kind not in (PREDICTED, REJECTED):
                raise self.error(table, f"the provenance is {PREDICTED} or {REJECTED}, not {shorten(str(kind))}", row)
            if not isinstance(p, float | None) or not (isinstance(model, str) and isinstance(date, str)):
                raise self.error(table, "the model and the date must be texts, and the probability a number", row)
            locate = partial(self.location, table, row)
            key = tuple(expand(name, self.prefixes) for name in names)
            self._builder.add_review(key, Provenance(model, date, p), kind == PREDICTED, locate)

    def _names_by_id(self, table: str) -> dict[int, str]:
        return dict(zip(self.integers(table, "id").tolist(), self.column(table, "name", "O", "text"), strict=True))

    @contextmanager
    def locating_errors(self, table: str) -> Iterator[Locator]:
        """Yield a locator of a table's rows; the content of a row is fetched only for an error."""
        try:
            yield lambda row, _: Location(f"{self._source}, table {table}", row + 1, 1, "")
        except InputError as error:
            if error.location:
                error.location = self.location(table, error.location.line - 1)
            raise

    def location(self, table: str, row: int) -> Location:
        """Return the location of a row, with its content."""
        found = self._connection.execute(
            f"SELECT * FROM {quote_identifier(table)} LIMIT 1 OFFSET {int(row)}"
        ).fetchone()
        return Location(f"{self._source}, table {table}", row + 1, 1, "\t".join(map(str, found or ())))

    def error(self, table: str, message: str, row: int = 0) -> InputError:
        return InputError(message, location=self.location(table, row))


def write_parquet(kb: KnowledgeBase, path: Path, name: str) -> None:
    """Write facts and values as one Parquet table: relation, a1 to aN, confidence, value."""
    widest = max([1, *kb.fact_tables])
    with _connect_for_writing(":memory:", path, name) as connection:
        columns = ", ".join(f"a{i + 1} VARCHAR" for i in range(widest))
        connection.execute(f"CREATE TABLE out (relation VARCHAR, {columns}, confidence DOUBLE, value DOUBLE)")
        _write_names(connection, kb)
        for arity, table in kb.fact_tables.items():
            part = {f"a{i + 1}": np.ascontiguousarray(table.objects[:, i]) for i in range(arity)}
            confidence = np.ones(len(table)) if table.confidence is None else table.confidence
            connection.register("part", {"relation": table.relation, **part, "confidence": confidence})
            names = "".join(f", o{i + 1}.name" for i in range(arity)) + ", NULL" * (widest - arity)
            joins = " ".join(f"JOIN objects o{p + 1} ON o{p + 1}.id = f.a{p + 1}" for p in range(arity))
            connection.execute(
                f"INSERT INTO out SELECT r.name{names}, f.confidence, NULL FROM part f "
                f"JOIN relations r ON r.id = f.relation {joins}"
            )
        if len(kb.value_table):
            numbers = kb.value_table
            connection.register("part", {"a": numbers.attribute, "o": numbers.objects, "v": numbers.value})
            connection.execute(
                f"INSERT INTO out SELECT a.name, o.name{', NULL' * (widest - 1)}, NULL, v "
                "FROM part f JOIN attributes a ON a.id = f.a JOIN objects o ON o.id = f.o"
            )
        connection.execute(f"COPY (FROM out ORDER BY ALL) TO {quote_literal(str(path))} (FORMAT parquet)")
