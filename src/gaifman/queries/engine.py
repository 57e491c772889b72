"""A knowledge base in an embedded DuckDB, and statements that run on it within limits.

>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo")])
>>> with Engine(kb) as engine:
...     engine.database.fetch_rows("SELECT a1, a2 FROM facts2 ORDER BY ALL").tolist()
[[0, 1], [1, 2]]

The tables have the names and columns of a file saved by `gaifman convert`, so a statement runs on both. They are
created once, and many threads can query them at a time. A statement stops at once when its time is up or on Ctrl-C.
"""

# ruff: noqa: S608 - table and column names are ours
from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn, Self, TypeVar

import numpy as np

from gaifman.config import check_int, check_threads, checked_methods, current_deadline
from gaifman.errors import GaifmanError, KnowledgeBaseError, StoppedError
from gaifman.io.duckdb import create_table
from gaifman.io.files import ScratchFolder
from gaifman.kb.knowledge_base import KnowledgeBase, ResourceCache
from gaifman.kb.tables import Ints
from gaifman.threads import process_key

T = TypeVar("T")
MAX_CONCURRENCY = 32
"""Maximum number of statements that run at a time. A server allows half as many queries, so rankings can run too."""
MIN_MEMORY_MB = 64
"""DuckDB does not start with less memory."""
MAX_MB = 1_000_000_000
"""A petabyte: DuckDB reads larger limits wrongly."""
DEFAULT_DISK_MB = 20_000
"""Disk that the statements of one database use beyond its memory."""
STOP_GRACE_SECONDS = 0.4
"""Time that a statement has to stop before its caller continues without it."""
_STOP_POLL_SECONDS = 0.02
"""Time between two interrupts: DuckDB ignores one that comes before the statement has started."""


class Database:
    """DuckDB with the facts and values of a knowledge base, by the numbers of its objects and relations.

    It does not refer to the knowledge base, which owns it. It belongs to the process that created it: a forked child
    has none of its threads, and neither uses nor frees it.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        *,
        memory_mb: int | None = None,
        disk_mb: int | None = None,
        threads: int | None = None,
    ) -> None:
        """Create the tables; statements that need more than `memory_mb` use up to `disk_mb` of the disk."""
        import duckdb

        if memory_mb is not None:
            check_int("memory_mb", memory_mb, MIN_MEMORY_MB, limit=MAX_MB)
        if disk_mb is not None:
            check_int("disk_mb", disk_mb, 0, limit=MAX_MB)
        self.memory_mb = memory_mb
        self._process, self._closed = process_key(), False
        self._scratch = ScratchFolder()
        self.temp_dir = str(self._scratch.path)
        """Where statements write what does not fit into memory."""
        settings: dict[str, Any] = {"temp_directory": self.temp_dir, "threads": check_threads(threads)}
        self._connection = duckdb.connect(":memory:", config=settings)
        self._workers = ThreadPoolExecutor(MAX_CONCURRENCY, thread_name_prefix="gaifman-query")
        self._idle_cursors: list[Any] = []
        self._running: dict[Future[Any], Any] = {}
        self.cache: dict[Hashable, Any] = {}
        """Translated queries, see `gaifman.queries.answers`."""
        try:
            with self._translate_errors():
                self.limit(memory_mb, disk_mb)
                _create_tables(self._connection, kb)
                self._connection.execute("SET enable_external_access = false")  # no files, no network
                self.table_mb = _used_mb(self._connection)
                """Memory of the tables, rounded up."""
        except BaseException:
            self.close()
            raise

    def limit(self, memory_mb: int | None, disk_mb: int | None) -> None:
        """Set the memory of all statements together, and the disk that they use beyond it.

        None leaves the memory as it is (most of the machine's at first), and sets the disk to `DEFAULT_DISK_MB`.
        """
        if memory_mb is not None:
            check_int("memory_mb", memory_mb, MIN_MEMORY_MB, limit=MAX_MB)
            self.memory_mb = memory_mb
        self.disk_mb = DEFAULT_DISK_MB if disk_mb is None else disk_mb
        check_int("disk_mb", self.disk_mb, 0, limit=MAX_MB)
        with self._translate_errors():
            self._connection.execute(f"SET max_temp_directory_size = '{self.disk_mb}MB'")
            if memory_mb is not None:
                self._connection.execute(f"SET memory_limit = '{memory_mb}MB'")

    def close(self) -> None:
        """Free the tables and remove the temporary folder."""
        if self._process != process_key():
            return
        self._closed = True
        self._workers.shutdown(wait=False)
        self._idle_cursors.clear()
        self._connection.close()
        self._scratch.remove()

    def __del__(self) -> None:
        # Freeing the connection in a forked child stops threads that it does not have: it would hang or crash.
        if getattr(self, "_process", None) != process_key() and hasattr(self, "_idle_cursors"):
            for left in (self._connection, self._idle_cursors, self._running):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(left))

    def __reduce__(self) -> NoReturn:
        raise KnowledgeBaseError(
            "a database cannot be copied or pickled", hint="pass the Engine or the knowledge base, which can"
        )

    @property
    def running(self) -> int:
        """Number of statements that are running."""
        return len(self._running)

    def interrupt(self) -> None:
        """Stop all running statements from another thread; their callers get a `StoppedError`."""
        for future, cursor in list(self._running.items()):
            _stop(cursor, future)

    def cursor(self) -> Any:
        """Return a new connection with its own temporary tables. The caller closes it."""
        if self._closed:
            raise closed_engine()
        return self._connection.cursor()

    def _idle_cursor(self) -> Any:
        try:
            return self._idle_cursors.pop()  # not after a test: another thread may take the last one
        except IndexError:
            return self.cursor()

    def fetch_rows(self, sql: str, seconds: float | None = None) -> Ints:
        """Run a statement that selects numbers of objects; return shape (rows, columns), int32."""
        return self.run_job(partial(_fetch_rows, sql), seconds)

    def fetch_scalar(self, sql: str, seconds: float | None = None) -> int:
        """Run a statement that selects one number; return 0 if there is no row."""
        row = self.run_job(lambda cursor: cursor.execute(sql).fetchone(), seconds)
        return int(row[0]) if row else 0

    def run_job(self, job: Callable[[Any], T], seconds: float | None = None, cursor: Any = None) -> T:
        """Run a function of a cursor on its own thread, so that it can be stopped.

        It stops after `seconds`, and when the active deadline is cancelled.
        """
        if self._closed:
            raise closed_engine()
        own = cursor or self._idle_cursor()
        future = self._workers.submit(job, own)
        self._running[future] = own
        deadline = current_deadline()
        ends: list[Future[Any]] = [future, *([] if deadline is None else [deadline.cancelled])]
        try:
            wait(ends, seconds, FIRST_COMPLETED)
        finally:
            late = not future.done()
            _stop(own, future)
            self._running.pop(future)
        if late and deadline is not None and deadline.cancelled.done():
            raise StoppedError("the query was cancelled")
        if late:
            raise StoppedError(
                f"the query was stopped after {seconds:g} seconds",
                hint="ask for less, bind some variables, or allow more time",
            )
        with self._translate_errors():
            result = future.result()
        if cursor is None:
            self._idle_cursors.append(own)  # creating one takes 0.1 ms
        return result

    def fetch_batches(self, sql: str, batch_size: int, seconds: float | None = None) -> Iterator[Ints]:
        """Yield the rows of a statement in order, in batches; DuckDB keeps the result, on disk if needed.

        The time limit applies to the evaluation, not to the reader.
        """
        cursor = self.cursor()  # its temporary table is dropped with it
        self.run_job(lambda c: c.execute(f"CREATE TEMP TABLE found AS {sql}"), seconds, cursor)
        (count,) = self.run_job(lambda c: c.execute("SELECT count(*) FROM found").fetchone(), None, cursor)
        for first in range(0, count, batch_size):
            page = f"SELECT * FROM found WHERE rowid BETWEEN {first} AND {first + batch_size - 1} ORDER BY rowid"
            yield self.run_job(partial(_fetch_rows, page), None, cursor)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn DuckDB's errors into ours."""
        import duckdb

        try:
            yield
        except (duckdb.InterruptException, CancelledError):
            raise StoppedError("the query was cancelled") from None
        except duckdb.OutOfMemoryException as error:
            memory = f"{self.memory_mb:,} MB" if self.memory_mb else "the available memory"
            disk = f" and {self.disk_mb:,} MB of disk" if "max_temp_directory_size" in str(error) else ""
            raise StoppedError(
                f"the query needs more memory than {memory}{disk}",
                hint=f"ask for less, bind some variables, or allow more memory{' or disk' if disk else ''}",
            ) from None
        except duckdb.IOException as error:
            message = str(error).split("\n", 1)[0].replace(self.temp_dir, "the temporary folder")
            raise StoppedError(f"the query cannot use the disk: {message}") from None


@checked_methods
class Engine:
    """A knowledge base with its database: what exact queries run on.

    `gaifman.query(kb, …)` uses the database that the knowledge base owns. Create an engine to set the memory and the
    number of threads, and close it after use. A forked child, a copy and a pickle create a database of their own.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        *,
        memory_mb: int | None = None,
        disk_mb: int | None = None,
        threads: int | None = None,
    ) -> None:
        """Create a database. By default it uses 80 % of the memory, then 20 GB of disk, and all processors."""
        self.kb = kb
        self._settings = {"memory_mb": memory_mb, "disk_mb": disk_mb, "threads": threads}
        self._resources, self._closed = ResourceCache(), False
        _ = self.database  # now, so that the first query is as fast as the others

    @classmethod
    def shared(cls, kb: KnowledgeBase) -> Engine:
        """Return an engine on the database that the knowledge base owns; the first call creates it."""
        engine = cls.__new__(cls)
        engine.kb, engine._settings, engine._resources, engine._closed = kb, {}, kb.resources, False
        return engine

    @property
    def database(self) -> Database:
        """The database of this process."""
        if self._closed:
            raise closed_engine()
        return self._resources.get(Database, lambda: Database(self.kb, **self._settings))

    def __reduce__(self) -> tuple[object, ...]:
        if self._closed:
            raise closed_engine()
        shared = self._resources is self.kb.resources
        return (Engine.shared, (self.kb,)) if shared else (_make_engine, (self.kb, self._settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database. A knowledge base creates a new one when it is queried again."""
        self._closed = True
        if database := self._resources.pop(Database):
            database.close()


def _make_engine(kb: KnowledgeBase, settings: dict[str, int | None]) -> Engine:
    return Engine(kb, **settings)


def closed_engine() -> GaifmanError:
    """Return the error of a query on a closed engine."""
    return KnowledgeBaseError("the engine is closed", hint="make another one: Engine(kb), or query the knowledge base")


def get_engine(kb: KnowledgeBase | Engine) -> Engine:
    """Return the engine itself, or the shared one of a knowledge base."""
    return kb if isinstance(kb, Engine) else Engine.shared(kb)


def _fetch_rows(sql: str, cursor: Any) -> Ints:
    columns = cursor.execute(sql).fetchnumpy().values()
    return np.stack([column.astype(np.int32, copy=False) for column in columns], axis=1)


def _stop(cursor: Any, future: Future[Any]) -> None:
    """Interrupt a statement until it stops. After a grace time a new thread takes over, and the caller continues."""
    give_up = time.monotonic() + STOP_GRACE_SECONDS
    future.cancel()
    while not future.done():
        cursor.interrupt()
        wait([future], _STOP_POLL_SECONDS)
        if time.monotonic() > give_up:
            threading.Thread(target=_keep_interrupting, args=(cursor, future), name="gaifman-stop").start()
            return


def _keep_interrupting(cursor: Any, future: Future[Any]) -> None:
    while not future.done():
        cursor.interrupt()
        wait([future], _STOP_POLL_SECONDS)


def _used_mb(connection: Any) -> int:
    (used,) = connection.execute(
        "SELECT sum(memory_usage_bytes + temporary_storage_bytes) FROM duckdb_memory()"
    ).fetchone()
    return int(used) // 1_000_000 + 1


def _create_tables(connection: Any, kb: KnowledgeBase) -> None:
    """Create the tables of a saved file without the names, which statements do not use."""
    create_table(connection, "objects", {"id": np.arange(len(kb.objects), dtype=np.int32)})
    arities = np.array(kb.content.arities, np.int32)
    create_table(connection, "relations", {"id": np.arange(len(arities), dtype=np.int32), "arity": arities})
    for arity, table in kb.fact_tables.items():
        columns = {"relation": table.relation} | {f"a{i + 1}": table.objects[:, i] for i in range(arity)}
        create_table(connection, f"facts{arity}", columns)
    values = kb.value_table
    columns = {"attribute": values.attribute, "object": values.objects}
    create_table(connection, "attribute_values", {**columns, "value": values.value})
