"""A knowledge base in an embedded DuckDB, and statements run on it under limits.

>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo")])
>>> with Engine(kb) as engine:
...     engine.run("SELECT a1, a2 FROM facts2 ORDER BY ALL").tolist()
[[0, 1], [1, 2]]

The tables have the names and columns of the file that `gaifman convert` saves, so a statement runs on both. They are
made once; an engine can be used by many threads at a time. A statement that is stopped, by its time or by Ctrl-C, stops
at once, and what it wrote to disk is removed with the engine.
"""

# ruff: noqa: S608 - table and column names are ours
from __future__ import annotations

import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np

from gaifman.cancellation import current_deadline
from gaifman.config import check_int, cpu_count
from gaifman.errors import StoppedError
from gaifman.io.duckdb import create_table
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints

T = TypeVar("T")
MAX_CONCURRENCY = 32
"""Statements that run at a time; others wait. A server lets half as many queries in, so rankings can ask too."""
MIN_MEMORY_MB = 64
"""Megabytes without which DuckDB cannot even begin."""
STOP_GRACE_SECONDS = 0.4
"""Seconds that a statement has to stop before its caller goes on without it."""
_STOP_POLL_SECONDS = 0.02
"""Seconds between two calls to stop: one that comes before the statement has begun is forgotten."""


class Engine:
    """DuckDB with the facts, numbers and names of one knowledge base."""

    def __init__(self, kb: KnowledgeBase, *, memory_mb: int | None = None, threads: int | None = None) -> None:
        """At most `memory` megabytes (by default most of the machine's) are used, then the disk."""
        import duckdb

        _check(memory_mb, threads)
        self.kb = kb
        self.memory_mb = memory_mb
        self.temp_dir = tempfile.mkdtemp(prefix="gaifman-")
        """Where statements write what does not fit into memory."""
        self._remove_temp_dir = weakref.finalize(self, shutil.rmtree, self.temp_dir, ignore_errors=True)
        settings: dict[str, Any] = {
            "temp_directory": self.temp_dir,
            "threads": threads or cpu_count(),
        }
        if memory_mb is not None:
            settings["memory_limit"] = f"{memory_mb}MB"
        self._connection = duckdb.connect(":memory:", config=settings)
        self._workers = ThreadPoolExecutor(MAX_CONCURRENCY, thread_name_prefix="gaifman-query")
        self._idle: list[Any] = []
        self._running: dict[Future[Any], Any] = {}
        self.cache: dict[Hashable, Any] = {}
        """What others keep with the engine: statements that were translated before."""
        try:
            with _translate_errors(self):
                _load_tables(self._connection, kb)
                self._connection.execute("SET enable_external_access = false")  # statements reach nothing else
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the tables and the disk."""
        self._workers.shutdown(wait=False)
        self._idle.clear()
        self._connection.close()
        self._remove_temp_dir()

    def interrupt(self) -> None:
        """Stop all that runs, from another thread: whoever waits for it gets a `StoppedError`."""
        for future, cursor in list(self._running.items()):
            _stop(cursor, future)

    def cursor(self) -> Any:
        """A connection of its own, with temporary tables of its own; whoever takes it closes it."""
        return self._connection.cursor()

    def _idle_cursor(self) -> Any:
        """One that nobody uses, or a new one."""
        try:
            return self._idle.pop()  # without looking first: another thread may take the last one in between
        except IndexError:
            return self.cursor()

    def fetch_rows(self, sql: str, seconds: float | None = None) -> Ints:
        """The rows (b, columns) of a statement that gives numbers of objects; stopped after so many seconds."""
        return self.run_job(partial(_rows, sql), seconds)

    def fetch_scalar(self, sql: str, seconds: float | None = None) -> int:
        """The one number that a statement gives; 0 where it gives no row."""
        row = self.run_job(lambda cursor: cursor.execute(sql).fetchone(), seconds)
        return int(row[0]) if row else 0

    def run_job(self, job: Callable[[Any], T], seconds: float | None = None, cursor: Any = None) -> T:
        """What a job makes with a connection of its own, on a thread of its own, so that it can be stopped.

        It is stopped with the deadline `within` which it is asked for, too.
        """
        own = cursor or self._idle_cursor()
        future = self._workers.submit(job, own)
        self._running[future] = own
        end = current_deadline()
        try:
            ends: list[Future[Any]] = [future, *([] if end is None else [end.cancelled])]
            wait(ends, seconds, FIRST_COMPLETED)
        finally:
            late = not future.done()
            _stop(own, future)
            self._running.pop(future)
        if late and end is not None and end.cancelled.done():
            raise StoppedError("the query was cancelled")
        if late:
            raise StoppedError(
                f"the query was stopped after {seconds:g} seconds",
                hint="ask for less, give some variables, or allow more time",
            )
        with _translate_errors(self):
            result = future.result()
        if cursor is None:
            self._idle.append(own)  # a new one costs a tenth of a millisecond
        return result

    def fetch_batches(self, sql: str, batch_size: int, seconds: float | None = None) -> Iterator[Ints]:
        """The rows of a statement in its order, so many at a time: the result is kept by DuckDB, on disk if need be.

        The seconds are those of the whole evaluation; reading what was found takes as long as the reader takes.
        """
        cursor = self.cursor()  # the table goes with it, when the reader has gone
        self.run_job(lambda c: c.execute(f"CREATE TEMP TABLE found AS {sql}"), seconds, cursor)
        (count,) = self.run_job(lambda c: c.execute("SELECT count(*) FROM found").fetchone(), None, cursor)
        for first in range(0, count, batch_size):
            page = f"SELECT * FROM found WHERE rowid BETWEEN {first} AND {first + batch_size - 1} ORDER BY rowid"
            yield self.run_job(partial(_rows, page), None, cursor)


def get_engine(kb: KnowledgeBase | Engine) -> Engine:
    """The engine of a knowledge base: made when it is first asked for, then kept with it as long as it lives."""
    if isinstance(kb, Engine):
        return kb
    kept = vars(kb)
    if _KEPT not in kept:
        kept[_KEPT] = Engine(kb)
    engine: Engine = kept[_KEPT]
    return engine


_KEPT = "_engine"
"""Where a knowledge base keeps its engine: beside its cached properties, left behind as they are when it is copied."""


def _rows(sql: str, cursor: Any) -> Ints:
    columns = cursor.execute(sql).fetchnumpy().values()
    return np.stack([column.astype(np.int32, copy=False) for column in columns], axis=1)


def _stop(cursor: Any, future: Future[Any]) -> None:
    """Tell the engine to stop until it has; after a moment another thread goes on with that, and the caller goes on."""
    given_up = time.monotonic() + STOP_GRACE_SECONDS
    future.cancel()
    while not future.done():
        cursor.interrupt()
        wait([future], _STOP_POLL_SECONDS)
        if time.monotonic() > given_up:
            threading.Thread(target=_keep_interrupting, args=(cursor, future), name="gaifman-stop").start()
            return


def _keep_interrupting(cursor: Any, future: Future[Any]) -> None:
    while not future.done():
        cursor.interrupt()
        wait([future], _STOP_POLL_SECONDS)


def _load_tables(connection: Any, kb: KnowledgeBase) -> None:
    """Make the tables of a saved file, without the names: statements do not use them."""
    create_table(connection, "objects", {"id": np.arange(len(kb.objects), dtype=np.int32)})
    arities = np.array(kb.content.arities, np.int32)
    create_table(connection, "relations", {"id": np.arange(len(arities), dtype=np.int32), "arity": arities})
    for arity, table in kb.fact_tables.items():
        columns = {"relation": table.relation} | {f"a{i + 1}": table.objects[:, i] for i in range(arity)}
        create_table(connection, f"facts{arity}", columns)
    numbers = kb.value_table
    columns = {"attribute": numbers.attribute, "object": numbers.objects}
    create_table(connection, "attribute_values", {**columns, "value": numbers.value})


def _check(memory: int | None, threads: int | None) -> None:
    if memory is not None:
        check_int("memory_mb", memory, MIN_MEMORY_MB)
    if threads is not None:
        check_int("threads", threads, 1)


@contextmanager
def _translate_errors(engine: Engine) -> Iterator[None]:
    """DuckDB's refusals as ours."""
    import duckdb

    try:
        yield
    except (duckdb.InterruptException, CancelledError):
        raise StoppedError("the query was cancelled") from None
    except duckdb.OutOfMemoryException:
        allowed = f"{engine.memory_mb:,} MB" if engine.memory_mb else "what there is"
        raise StoppedError(
            f"the query needs more memory than {allowed}",
            hint="ask for less, give some variables, or allow more memory",
        ) from None
    except duckdb.IOException as error:
        message = str(error).split("\n", 1)[0].replace(engine.temp_dir, "the temporary folder")
        raise StoppedError(f"the query cannot use the disk: {message}") from None
