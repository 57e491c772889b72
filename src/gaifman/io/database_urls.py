"""Databases by URL: PostgreSQL and SQLite, through the Arrow streams of ADBC.

    postgresql://user@host:5432/family          sqlite:///family.db          sqlite:////home/ann/family.db

The drivers are the extra `gaifman[databases]`. A password never appears in a message, a note or a file.
"""

# ruff: noqa: S608 - names from a database are quoted, and values are never put into SQL text
from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from gaifman.config import Limits, ProgressCallback
from gaifman.errors import InputError, shorten, similar_names
from gaifman.io.databases import (
    NO_DISK,
    Cell,
    ColumnKind,
    KeyCatalog,
    TableId,
    label_tables,
    quote_identifier,
    quote_literal,
    read_sqlite_tables,
    read_tables,
    select_tables,
    sqlite_columns,
)
from gaifman.io.files import BATCH_SIZE, URL, check_exists
from gaifman.io.foreign_keys import KeySchema
from gaifman.io.mapped_tables import TableMapper
from gaifman.kb.builder import KnowledgeBaseBuilder

CONNECT_SECONDS = 15
"""Seconds until a server must answer, unless the URL says otherwise."""

SCHEMES = {"postgresql": "postgresql", "postgres": "postgresql", "sqlite": "sqlite"}
"""Scheme of a URL → driver."""

_SECRETS = ("password", "sslpassword")


def hide_password(url: str) -> str:
    """Return a URL without its password; other names as they are.

    >>> hide_password("postgresql://ann:secret@localhost/family?password=secret&sslmode=require")
    'postgresql://ann@localhost/family?sslmode=require'
    """
    match = URL.fullmatch(url)
    if match is None:
        return url
    place, mark, query = match[2].partition("?")
    authority, slash, path = place.partition("/") if "@" not in place else _split_authority(place)
    user, at, host = authority.rpartition("@")
    kept = [part for part in query.split("&") if part.split("=", 1)[0].lower() not in _SECRETS] if mark else []
    rest = f"?{'&'.join(kept)}" if kept else ""
    return f"{url[: match.start(2)]}{user.partition(':')[0]}{at}{host}{slash}{path}{rest}"


def url_to_record(url: str) -> str:
    """Return a URL to store: without its password, and with the full path of an SQLite file.

    >>> url_to_record("sqlite:////data/family.db"), url_to_record("postgres://ann:secret@localhost/family")
    ('sqlite:////data/family.db', 'postgres://ann@localhost/family')
    """
    hidden = hide_password(url)
    if SCHEMES.get(URL.fullmatch(url)[1].lower()) != "sqlite":  # type: ignore[index]
        return hidden
    return f"sqlite:///{quote(str(_sqlite_path(url).absolute()))}"


def _split_authority(place: str) -> tuple[str, str, str]:
    """Return what stands before the path, the slash, and the path; a password may hold a slash by mistake."""
    at = place.rindex("@")
    host, slash, path = place[at + 1 :].partition("/")
    return place[: at + 1] + host, slash, path


def _passwords(url: str) -> set[str]:
    """Return the passwords in a URL, as they are written and decoded."""
    match = URL.fullmatch(url)
    place, _, query = match[2].partition("?") if match else ("", "", "")
    found = {value for name, value in parse_qsl(query) if name.lower() in _SECRETS}
    if "@" in place:
        found.add(_split_authority(place)[0].rpartition("@")[0].partition(":")[2])
    return {text for one in found for text in (one, unquote(one), quote(one, safe="")) if text}


def read_url(
    url: str,
    table: str | None,
    limits: Limits,
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None,
    mapper: TableMapper | None = None,
) -> str:
    """Read tables of a database into the builder and return the kind of the database."""
    scheme = URL.fullmatch(url)[1].lower()  # type: ignore[index]
    if scheme not in SCHEMES:
        raise _unknown_scheme(url, scheme)
    source = hide_password(url)
    if SCHEMES[scheme] == "sqlite":
        path = _sqlite_path(url)
        check_exists(path)
        with _connect("sqlite", f"file:{quote(str(path.resolve()))}?mode=ro", source, set()) as connection:
            read_sqlite_tables(source, connection, table, limits, builder, progress, mapper, SQLiteStream)
        return "sqlite"
    with _connect("postgresql", _libpq_url(url), source, _passwords(url)) as connection:
        connection.begin_read_only()
        _read_postgresql(connection, source, table, limits, builder, progress, mapper)
    return "postgresql"


def _unknown_scheme(url: str, scheme: str) -> InputError:
    known = "postgresql://user@host/db and sqlite:///file.db"
    hint = f"URLs of databases are {known}; of other databases, export tables to Parquet or CSV"
    if scheme in ("http", "https", "ftp", "s3"):
        hint = "download the file and give its name"
    elif scheme in ("file", "duckdb"):
        hint = "give the name of the file"
    message = f"{shorten(hide_password(url), 120)}: there is no reader for {shorten(scheme)}://"
    return InputError(message, hint=hint, suggestions=similar_names(scheme, SCHEMES))


def _sqlite_path(url: str) -> Path:
    """Return the path of a file: `sqlite:///a.db` is relative, `sqlite:////home/a.db` is not."""
    host, _, path = URL.fullmatch(url)[2].partition("?")[0].partition("/")  # type: ignore[index]
    if host or not path:
        hint = "write sqlite:///family.db, or sqlite:////home/ann/family.db with a folder that begins with /"
        raise InputError(f"{url} names no file", hint=hint)
    return Path(unquote(path))


def _libpq_url(url: str) -> str:
    """Return a URL as libpq needs it: the password encoded, and a limit for connecting."""
    place, _, query = URL.fullmatch(url)[2].partition("?")  # type: ignore[index]
    authority, slash, path = _split_authority(place) if "@" in place else place.partition("/")
    login, at, host = authority.rpartition("@")
    user, colon, password = login.partition(":")
    options = dict(parse_qsl(query, keep_blank_values=True))
    options.setdefault("connect_timeout", str(CONNECT_SECONDS))
    options.setdefault("application_name", "gaifman")
    login = f"{quote(unquote(user), safe='')}{colon}{quote(unquote(password), safe='')}"
    return f"postgresql://{login}{at}{host}{slash}{path}?{urlencode(options, quote_via=quote)}"


@dataclass
class Connection:
    """An open connection; SQL that reads gives Arrow streams, which DuckDB takes apart."""

    adbc: Any
    """The module `adbc_driver_manager`."""
    raw: Any
    source: str
    secrets: set[str] = field(repr=False)
    _running: Any = None
    _open: ExitStack = field(default_factory=ExitStack)
    """Closes the running query."""

    def begin_read_only(self) -> None:
        """Read all tables as they are now, and change nothing."""
        with self.translate_errors():
            self.raw.set_autocommit(False)
            statement = self.adbc.AdbcStatement(self.raw)
            try:
                statement.set_sql_query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                statement.execute_update()
            finally:
                statement.close()

    def stream(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield batches of the rows of a query."""
        import duckdb

        with self.translate_errors(), ExitStack() as stack:
            self._open = stack
            statement = self._running = self.adbc.AdbcStatement(self.raw)
            stack.callback(statement.close)
            statement.set_sql_query(sql)
            rows, _ = statement.execute_query()
            stack.callback(rows.release)
            reader = stack.enter_context(duckdb.connect(config=dict(NO_DISK)))
            reader.register("arrow_rows", rows)
            reader.execute("FROM arrow_rows")
            while batch := reader.fetchmany(BATCH_SIZE):
                yield batch

    def execute(self, sql: str) -> Connection:
        """Run a query whose rows `fetchall` returns, as a connection of Python's sqlite3 does."""
        self._rows = [row for batch in self.stream(sql) for row in batch]
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows of the last `execute`."""
        return self._rows

    def close_query(self) -> None:
        """Close a query whose rows were not read to the end: a connection with an open one cannot be closed."""
        self._open.close()

    def interrupt(self) -> None:
        """Stop a running query, from another thread."""
        if self._running is not None:
            self._running.cancel()

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise InputError for the errors of drivers and DuckDB, without passwords."""
        import duckdb

        try:
            yield
        except (self.adbc.Error, duckdb.Error) as error:
            raise database_error(self.source, error, self.secrets) from None


def database_error(source: str, error: Exception, secrets: set[str]) -> InputError:
    """Return the error of a database, on one line and without passwords."""
    text = re.sub(r"^[A-Z_ ]+: (?:\[\w+\] )?|\n?Query was: .*|\s*\.?\s*SQLSTATE: \w+", "", str(error), flags=re.DOTALL)
    text = re.sub(r"^Invalid Input Error: reading the stream registered as '\w+' failed: (?:\[\w+\] )?", "", text)
    text = " ".join(text.split())
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "…")
    lowered, hint = text.lower(), ""
    if "password" in lowered or "no pg_hba" in lowered:
        hint = "set PGPASSWORD, or write the password to ~/.pgpass, which PostgreSQL's own commands read, too"
    elif "does not exist" in lowered and "database" in lowered:
        hint = "the URL is postgresql://user@host:port/database"
    elif any(words in lowered for words in ("refused", "could not translate host", "timeout", "no such file")):
        hint = "check host and port, and that the server accepts connections from here"
    return InputError(f"{source} cannot be read: {shorten(text, 300)}", hint=hint)


@contextmanager
def _connect(driver: str, uri: str, source: str, secrets: set[str]) -> Iterator[Connection]:
    """Open a database by its ADBC driver."""
    adbc, path = _load_driver(driver, source)
    with ExitStack() as stack:
        try:
            database = adbc.AdbcDatabase(driver=path, uri=uri)
            stack.callback(database.close)
            raw = adbc.AdbcConnection(database)
            stack.callback(raw.close)
        except adbc.Error as error:
            raise database_error(source, error, secrets) from None
        connection = Connection(adbc, raw, source, secrets)
        stack.callback(connection.close_query)
        yield connection


def _load_driver(driver: str, source: str) -> tuple[Any, str]:
    """Return the driver manager and the path of the driver."""
    try:
        manager, module = import_module("adbc_driver_manager"), import_module(f"adbc_driver_{driver}")
    except ImportError:
        path = " (or give the name of the file, which needs no driver)" if driver == "sqlite" else ""
        raise InputError(
            f"{source} cannot be read: the driver is not installed",
            hint=f"pip install 'gaifman[databases]'{path}",
        ) from None
    return manager, module._driver_path()


# PostgreSQL

_USER_SCHEMAS = (
    "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)' "
    "AND has_schema_privilege(n.oid, 'USAGE')"
)
_USER_TABLES = (
    f"FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {_USER_SCHEMAS} AND c.relkind IN "
    "('r', 'p', 'f', 'v', 'm') AND NOT c.relispartition AND NOT EXISTS "  # partitions are read by their table
    "(SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e')"
)
"""Tables and views of users, not those of extensions."""

_COLUMNS = f"""
SELECT t.schema, t.name, a.attname::text, CASE
  WHEN b.oid IN (20, 21, 23) THEN 'integer'
  WHEN b.oid IN (700, 701, 1700) THEN 'float'
  WHEN b.oid = 16 THEN 'boolean'
  WHEN b.oid = 2950 OR b.typtype = 'e' OR b.typcategory = 'S' THEN 'text'
  ELSE 'other' END::text
FROM (SELECT c.oid, n.nspname::text AS schema, c.relname::text AS name {_USER_TABLES}) t
JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type d ON d.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE WHEN d.typbasetype = 0 THEN d.oid ELSE d.typbasetype END
ORDER BY t.oid, a.attnum
"""

_KEYS = f"""
SELECT t.schema, t.name, k.oid::int8, k.contype::text, a.attname::text, tn.nspname::text, tc.relname::text,
  ta.attname::text
FROM (SELECT c.oid, n.nspname::text AS schema, c.relname::text AS name {_USER_TABLES}) t
JOIN pg_constraint k ON k.conrelid = t.oid AND k.contype IN ('p', 'u', 'f')
CROSS JOIN LATERAL generate_subscripts(k.conkey, 1) AS place
JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[place]
LEFT JOIN pg_class tc ON tc.oid = k.confrelid
LEFT JOIN pg_namespace tn ON tn.oid = tc.relnamespace
LEFT JOIN pg_attribute ta ON ta.attrelid = k.confrelid AND ta.attnum = k.confkey[place]
ORDER BY k.oid, place
"""


def _read_postgresql(
    connection: Connection,
    source: str,
    table: str | None,
    limits: Limits,
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None,
    mapper: TableMapper | None,
) -> None:
    """Read tables of a PostgreSQL database; without `table`, those that the user may read, but no views."""
    main = connection.execute("SELECT coalesce(current_schema(), 'public')::text").fetchall()[0][0]
    listed = connection.execute(
        "SELECT n.nspname::text, c.relname::text, c.relkind IN ('v', 'm'), has_table_privilege(c.oid, 'SELECT') "
        f"{_USER_TABLES} ORDER BY 1, 2"
    ).fetchall()
    for schema, name, _, readable in listed:
        if not readable and table in (None, name, f"{schema}.{name}"):
            builder.add_note(1, "tables without permission to read skipped", f"{source}, table {schema}.{name}")
    tables = [(schema, name) for schema, name, is_view, readable in listed if readable and not is_view]
    views = [(schema, name) for schema, name, is_view, readable in listed if readable and is_view]
    chosen = select_tables(source, tables, table, views, main)
    names = label_tables(tables, main)
    columns: dict[TableId, dict[str, ColumnKind]] = defaultdict(dict)
    for schema, name, column, kind in connection.execute(_COLUMNS).fetchall():
        columns[schema, name][column] = kind
    streams = [
        PostgreSQLStream(
            connection,
            f"{source}, table {name}" if schema == main else f"{source}, table {schema}.{name}",
            names.get((schema, name), name),
            columns[schema, name],
            f"{quote_identifier(schema)}.{quote_identifier(name)}",
        )
        for schema, name in chosen
    ]
    read_tables(streams, limits, builder, progress, mapper, _postgresql_keys(connection, names, columns))


def _postgresql_keys(
    connection: Connection, names: Mapping[TableId, str], columns: Mapping[TableId, Mapping[str, ColumnKind]]
) -> KeySchema:
    """Return the keys of the tables of a PostgreSQL database."""
    catalog = KeyCatalog(names)
    for table, kinds in columns.items():
        for column, kind in kinds.items():
            catalog.add_column(table, column, kind)
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for row in connection.execute(_KEYS).fetchall():
        found[row[2]].append(row)
    kinds_of_keys = {"p": "PRIMARY KEY", "u": "UNIQUE", "f": "FOREIGN KEY"}
    for rows in found.values():
        schema, name, _, kind, _, target_schema, target, _ = rows[0]
        own, other = tuple(row[4] for row in rows), tuple(row[7] for row in rows if row[7])
        catalog.add_key((schema, name), kinds_of_keys[kind], own, (target_schema or "", target or ""), other)
    return catalog.schema()


@dataclass
class PostgreSQLStream:
    """A table or view of a PostgreSQL database."""

    connection: Connection
    source: str
    name: str
    columns: Mapping[str, ColumnKind]
    table: str
    """Its name in SQL."""

    def fetch(
        self, columns: Sequence[str], not_null: str | None, is_null: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Yield batches of rows; other kinds than numbers are fetched as text."""
        casts = {"float": "float8"}
        parts = [f"{quote_identifier(name)}::{casts.get(self.columns[name], 'text')}" for name in columns]
        conditions = [f"{quote_identifier(not_null)} IS NOT NULL"] if not_null else []
        conditions += [f"{quote_identifier(is_null)} IS NULL"] if is_null else []
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return self.connection.stream(f"SELECT {', '.join(parts)} FROM {self.table}{where}")

    def interrupt(self) -> None:
        """Stop a running `fetch`."""
        self.connection.interrupt()


# SQLite


class SQLiteStream:
    """A table of an SQLite database."""

    def __init__(self, connection: Connection, source: str, name: str) -> None:
        self.source, self.name = source, name
        self.columns: Mapping[str, ColumnKind] = sqlite_columns(connection, name)
        self._connection = connection

    def fetch(
        self, columns: Sequence[str], not_null: str | None, is_null: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Yield batches of rows as text.

        The driver guesses the type of a column by its first rows, but a column of SQLite may hold anything: every cell
        becomes text with a letter before it, and NULL becomes the empty text.
        """
        parts = [f"coalesce({quote_literal('=')} || {_sqlite_text(name)}, '')" for name in columns]
        conditions = [f"{quote_identifier(not_null)} IS NOT NULL"] if not_null else []
        conditions += [f"{quote_identifier(is_null)} IS NULL"] if is_null else []
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        sql = f"SELECT {', '.join(parts)} FROM {quote_identifier(self.name)}{where}"
        for batch in self._connection.stream(sql):
            yield [[cell[1:] if cell else None for cell in row] for row in batch]

    def interrupt(self) -> None:
        """Stop a running `fetch`."""
        self._connection.interrupt()


def _sqlite_text(column: str) -> str:
    """Return SQL for a cell as text, with all digits of a number."""
    name = quote_identifier(column)
    return f"CASE typeof({name}) WHEN 'real' THEN printf('%!.17g', {name}) ELSE CAST({name} AS TEXT) END"
