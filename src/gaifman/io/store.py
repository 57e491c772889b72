"""Our own DuckDB file, which holds everything, and what else DuckDB writes: Parquet.

    objects(id, name)   relations(id, name, arity)   attributes(id, name)   gaifman(key, value)
    facts1(relation, a1, confidence)   facts2(relation, a1, a2, confidence)   …   facts8(…)
    attribute_values(attribute, object, value)

and, for people, the views `facts(relation, objects, confidence)` and `"values"(attribute, object, value)` with names.
"""

# ruff: noqa: S608 - table and column names are ours, or quoted; values are never put into SQL text
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.draft import Draft
from gaifman.errors import InputError, OutputError, Place
from gaifman.io.databases import duckdb_errors, literal, quoted, read_duckdb_tables, unpacked
from gaifman.kb import KnowledgeBase
from gaifman.tables import LARGEST_ARITY, Ints

VERSION = 1
"""Version of the layout; a reader refuses a later one."""


@contextmanager
def _writing(path: Path) -> Iterator[Any]:
    """A DuckDB connection that makes a new file; its errors are ours."""
    import duckdb

    try:
        with duckdb.connect(str(path)) as connection:
            yield connection
    except duckdb.Error as error:
        message = str(error).split("\n", 1)[0]
        raise OutputError(f"the file cannot be written: {message}") from None


def write_duckdb(kb: KnowledgeBase, path: Path) -> None:
    """Write everything into a new DuckDB file."""
    path.unlink(missing_ok=True)  # DuckDB takes an empty file for a damaged one
    with _writing(path) as connection:
        _put_names(connection, kb)
        for arity, table in kb.tables.items():
            columns = {"relation": table.relation} | {f"a{i + 1}": table.objects[:, i] for i in range(arity)}
            confidence = np.ones(len(table)) if table.confidence is None else table.confidence
            _put(connection, f"facts{arity}", columns | {"confidence": confidence})
        numbers = kb.numbers
        _put(
            connection,
            "attribute_values",
            {"attribute": numbers.attribute, "object": numbers.object, "value": numbers.value},
        )
        _views(connection, list(kb.tables))
        about = {"version": str(VERSION), "fingerprint": kb.fingerprint, "format": "gaifman knowledge base"}
        _put(connection, "gaifman", {"key": _texts(about), "value": _texts(about.values())})


def _put_names(connection: Any, kb: KnowledgeBase) -> None:
    for table, names in (("objects", kb.objects), ("attributes", kb.content.attributes)):
        _put(connection, table, {"id": np.arange(len(names), dtype=np.int32), "name": _texts(names)})
    names = kb.content.relations
    columns: dict[str, npt.NDArray[Any]] = {"id": np.arange(len(names), dtype=np.int32), "name": _texts(names)}
    _put(connection, "relations", columns | {"arity": np.array(kb.content.arities, np.int32)})


def _texts(names: Any) -> npt.NDArray[Any]:
    return np.array([*names], object)


def _put(connection: Any, table: str, columns: dict[str, npt.NDArray[Any]]) -> None:
    """Make a table of arrays."""
    kinds = {"i": "INTEGER", "f": "DOUBLE", "O": "VARCHAR"}
    spelled = ", ".join(f"{quoted(name)} {kinds[array.dtype.kind]} NOT NULL" for name, array in columns.items())
    connection.execute(f"CREATE TABLE {quoted(table)} ({spelled})")
    if len(next(iter(columns.values()))):
        connection.register("gaifman_columns", {name: np.ascontiguousarray(a) for name, a in columns.items()})
        connection.execute(f"INSERT INTO {quoted(table)} SELECT * FROM gaifman_columns")
        connection.unregister("gaifman_columns")


def _views(connection: Any, arities: list[int]) -> None:
    """Views with names, so that a person sees what the numbers mean."""
    parts = []
    for arity in arities:
        names = ", ".join(f"o{place + 1}.name" for place in range(arity))
        joins = " ".join(f"JOIN objects o{p + 1} ON o{p + 1}.id = f.a{p + 1}" for p in range(arity))
        parts.append(
            f"SELECT r.name AS relation, [{names}] AS objects, f.confidence "
            f"FROM facts{arity} f JOIN relations r ON r.id = f.relation {joins}"
        )
    empty = "SELECT ''::VARCHAR AS relation, []::VARCHAR[] AS objects, 1.0::DOUBLE AS confidence WHERE false"
    connection.execute(f"CREATE VIEW facts AS {' UNION ALL '.join(parts or [empty])}")
    connection.execute(
        'CREATE VIEW "values" AS SELECT a.name AS attribute, o.name AS object, v.value FROM attribute_values v '
        "JOIN attributes a ON a.id = v.attribute JOIN objects o ON o.id = v.object"
    )


def read_duckdb(path: Path, table: str | None, draft: Draft) -> None:
    """Put a DuckDB file into a draft: one of ours, or tables that others made."""
    import duckdb

    closed: Any = {"enable_external_access": "false"}  # a file from elsewhere gets no way to reach other files
    with (
        unpacked(path) as file,
        duckdb_errors(path),
        duckdb.connect(str(file), read_only=True, config=closed) as connection,
    ):
        if table is None and _is_ours(connection):
            _read_ours(path, connection, draft)
        else:
            read_duckdb_tables(path, connection, table, draft)


def _is_ours(connection: Any) -> bool:
    found = connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
    return {"gaifman", "objects", "relations"} <= {name for (name,) in found}


def _read_ours(path: Path, connection: Any, draft: Draft) -> None:
    about = dict(connection.execute("SELECT key, value FROM gaifman").fetchall())
    if about.get("version") != str(VERSION):
        raise InputError(
            f"{path} has version {about.get('version')} of the layout, and this gaifman reads {VERSION}",
            hint="a newer gaifman may have written it",
        )
    source = _Source(path, connection, draft)
    objects, relations, attributes = (source.names(table) for table in ("objects", "relations", "attributes"))
    arities = source.column("relations", "arity")
    if not ((arities >= 1) & (arities <= LARGEST_ARITY)).all():
        raise source.wrong("relations", "an arity must be 1 to 8")
    draft.declare(objects, relations, arities, attributes, lambda row, _: source.place("relations", row))
    for table in source.tables():
        arity = int(table[5:])
        relation = source.numbers(table, "relation", relations)
        members = [source.numbers(table, f"a{place + 1}", objects) for place in range(arity)]
        confidence = source.column(table, "confidence").astype(np.float64)
        draft.facts(relation, np.stack(members, axis=1), confidence, lambda row, _, t=table: source.place(t, row))  # type: ignore[misc]
    draft.values(
        source.numbers("attribute_values", "attribute", attributes),
        source.numbers("attribute_values", "object", objects),
        source.column("attribute_values", "value").astype(np.float64),
        lambda row, _: source.place("attribute_values", row),
    )


class _Source:
    """Columns of one of our files, checked: another tool may have changed it."""

    def __init__(self, path: Path, connection: Any, draft: Draft) -> None:
        self._path, self._connection, self._draft = path, connection, draft

    def tables(self) -> list[str]:
        found = self._connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
        wanted = [f"facts{arity}" for arity in range(1, LARGEST_ARITY + 1)]
        return [name for name in wanted if (name,) in found]

    def column(self, table: str, column: str) -> npt.NDArray[Any]:
        """A column in the order of the table; numbers that are null are refused."""
        fetched = self._connection.execute(f"SELECT {quoted(column)} FROM {quoted(table)}").fetchnumpy()[column]
        if np.ma.is_masked(fetched):
            raise self.wrong(table, f"{column} is null", int(np.argmax(np.ma.getmaskarray(fetched))))
        return np.ma.getdata(fetched)

    def names(self, table: str) -> Ints:
        """Numbers in the draft by id in the file, shape (names,)."""
        ids, names = self.column(table, "id"), self.column(table, "name").tolist()
        if sorted(ids.tolist()) != list(range(len(ids))):
            raise self.wrong(table, "the ids must be 0, 1, 2 and so on")
        numbers = np.empty(len(ids), np.int32)
        numbers[ids] = self._draft.numbers(names, lambda position: self.place(table, position))
        return numbers

    def numbers(self, table: str, column: str, numbers: Ints) -> Ints:
        """A column of ids as numbers in the draft."""
        ids = self.column(table, column)
        outside = (ids < 0) | (ids >= len(numbers))
        if outside.any():
            row = int(np.argmax(outside))
            raise self.wrong(table, f"{column} {ids[row]} is not an id", row)
        found: Ints = numbers[ids]
        return found

    def place(self, table: str, row: int) -> Place:
        """A row as a place, with its content."""
        found = self._connection.execute(f"SELECT * FROM {quoted(table)} LIMIT 1 OFFSET {int(row)}").fetchone()
        return Place(f"{self._path}, table {table}", row + 1, 1, "\t".join(map(str, found or ())))

    def wrong(self, table: str, message: str, row: int = 0) -> InputError:
        return InputError(message, place=self.place(table, row))


def write_parquet(kb: KnowledgeBase, path: Path) -> None:
    """Write facts and values as one table of names: relation, a1 to aN, confidence, value."""
    widest = max([1, *kb.tables])
    with _writing(Path(":memory:")) as connection:
        columns = ", ".join(f"a{place + 1} VARCHAR" for place in range(widest))
        connection.execute(f"CREATE TABLE out (relation VARCHAR, {columns}, confidence DOUBLE, value DOUBLE)")
        _put_names(connection, kb)
        for arity, table in kb.tables.items():
            part = {f"a{i + 1}": np.ascontiguousarray(table.objects[:, i]) for i in range(arity)}
            confidence = np.ones(len(table)) if table.confidence is None else table.confidence
            connection.register("part", {"relation": table.relation, **part, "confidence": confidence})
            names = "".join(f", o{place + 1}.name" for place in range(arity)) + ", NULL" * (widest - arity)
            joins = " ".join(f"JOIN objects o{p + 1} ON o{p + 1}.id = f.a{p + 1}" for p in range(arity))
            connection.execute(
                f"INSERT INTO out SELECT r.name{names}, f.confidence, NULL FROM part f "
                f"JOIN relations r ON r.id = f.relation {joins}"
            )
        if len(kb.numbers):
            numbers = kb.numbers
            connection.register("part", {"a": numbers.attribute, "o": numbers.object, "v": numbers.value})
            connection.execute(
                f"INSERT INTO out SELECT a.name, o.name{', NULL' * (widest - 1)}, NULL, v "
                "FROM part f JOIN attributes a ON a.id = f.a JOIN objects o ON o.id = f.o"
            )
        connection.execute(f"COPY (FROM out ORDER BY ALL) TO {literal(str(path))} (FORMAT parquet)")
