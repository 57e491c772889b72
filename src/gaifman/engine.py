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

import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np

from gaifman.errors import KnowledgeError, StoppedError
from gaifman.io.store import put_table
from gaifman.kb import KnowledgeBase
from gaifman.tables import Ints

T = TypeVar("T")
AT_ONCE = 16
"""Statements that run at a time; others wait."""
SMALLEST = 64
"""Megabytes without which DuckDB cannot even begin."""
GRACE = 0.4
"""Seconds that a statement has to stop before its caller goes on without it."""
_STOPPING = 0.02
"""Seconds between two calls to stop: one that comes before the statement has begun is forgotten."""


class Engine:
    """DuckDB with the facts, numbers and names of one knowledge base."""

    def __init__(self, kb: KnowledgeBase, *, memory: int | None = None, threads: int | None = None) -> None:
        """At most `memory` megabytes (by default most of the machine's) are used, then the disk."""
        import duckdb

        _check(memory, threads)
        self.kb = kb
        self.memory = memory
        self.folder = tempfile.mkdtemp(prefix="gaifman-")
        """Where statements write what does not fit into memory."""
        self._emptied = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        settings: dict[str, Any] = {
            "temp_directory": self.folder,
            "threads": threads or len(os.sched_getaffinity(0)),
        }
        if memory is not None:
            settings["memory_limit"] = f"{memory}MB"
        self._connection = duckdb.connect(":memory:", config=settings)
        self._slots = threading.Semaphore(AT_ONCE)
        try:
            with _errors(self):
                _fill(self._connection, kb)
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
        self._connection.close()
        self._emptied()

    def cursor(self) -> Any:
        """A connection of its own, with temporary tables of its own; whoever takes it closes it."""
        return self._connection.cursor()

    def run(self, sql: str, seconds: float | None = None) -> Ints:
        """The rows (b, columns) of a statement that gives numbers of objects; stopped after so many seconds."""
        return self.work(partial(_rows, sql), seconds)

    def number(self, sql: str, seconds: float | None = None) -> int:
        """The one number that a statement gives; 0 where it gives no row."""
        row = self.work(lambda cursor: cursor.execute(sql).fetchone(), seconds)
        return int(row[0]) if row else 0

    def work(self, job: Callable[[Any], T], seconds: float | None = None, cursor: Any = None) -> T:
        """What a job makes with a connection of its own, on a thread of its own, so that it can be stopped."""
        ends = None if seconds is None else time.monotonic() + seconds
        if not self._slots.acquire(timeout=-1 if seconds is None else seconds):
            raise StoppedError(f"{AT_ONCE} other queries took all of the {seconds:g} seconds", hint="try again later")
        running = _Job(job, self.cursor() if cursor is None else cursor, self._slots)
        running.start()
        try:
            late = not running.done.wait(None if ends is None else max(0.0, ends - time.monotonic()))
        except BaseException:
            running.stop()
            raise
        if late:
            running.stop()
            raise StoppedError(
                f"the query was stopped after {seconds:g} seconds",
                hint="ask for less, give some variables, or allow more time",
            )
        with _errors(self):
            if running.error is not None:
                raise running.error
            result: T = running.result
            return result

    def batches(self, sql: str, rows: int, seconds: float | None = None) -> Iterator[Ints]:
        """The rows of a statement in its order, so many at a time: the result is kept by DuckDB, on disk if need be.

        The seconds are those of the whole evaluation; reading what was found takes as long as the reader takes.
        """
        cursor = self.cursor()  # the table goes with it, when the reader has gone
        self.work(lambda c: c.execute(f"CREATE TEMP TABLE found AS {sql}"), seconds, cursor)
        (count,) = self.work(lambda c: c.execute("SELECT count(*) FROM found").fetchone(), None, cursor)
        for first in range(0, count, rows):
            page = f"SELECT * FROM found WHERE rowid BETWEEN {first} AND {first + rows - 1} ORDER BY rowid"
            yield self.work(partial(_rows, page), None, cursor)


def engine_of(kb: KnowledgeBase | Engine) -> Engine:
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


class _Job(threading.Thread):
    """One statement on its way; a daemon, so that the process can end whatever the engine does."""

    def __init__(self, job: Callable[[Any], Any], cursor: Any, slots: threading.Semaphore) -> None:
        super().__init__(name="gaifman-query", daemon=True)
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self._job, self._cursor, self._slots = job, cursor, slots

    def run(self) -> None:
        """Do it; whatever happens, say that it is done."""
        try:
            self.result = self._job(self._cursor)
        except BaseException as error:  # raised where the result is asked for
            self.error = error
        finally:
            self._slots.release()
            self.done.set()

    def stop(self) -> None:
        """Tell the engine to stop until it has; after a moment others go on telling it, and the caller goes on."""
        given_up = time.monotonic() + GRACE
        while not self.done.is_set() and time.monotonic() < given_up:
            self._cursor.interrupt()
            self.done.wait(_STOPPING)
        if not self.done.is_set():
            threading.Thread(target=self._insist, name="gaifman-stop", daemon=True).start()

    def _insist(self) -> None:
        while not self.done.wait(_STOPPING):
            self._cursor.interrupt()


def _fill(connection: Any, kb: KnowledgeBase) -> None:
    """Make the tables of a saved file, without the names: statements do not use them."""
    put_table(connection, "objects", {"id": np.arange(len(kb.objects), dtype=np.int32)})
    arities = np.array(kb.content.arities, np.int32)
    put_table(connection, "relations", {"id": np.arange(len(arities), dtype=np.int32), "arity": arities})
    for arity, table in kb.tables.items():
        columns = {"relation": table.relation} | {f"a{i + 1}": table.objects[:, i] for i in range(arity)}
        put_table(connection, f"facts{arity}", columns)
    numbers = kb.numbers
    columns = {"attribute": numbers.attribute, "object": numbers.object}
    put_table(connection, "attribute_values", {**columns, "value": numbers.value})


def _check(memory: int | None, threads: int | None) -> None:
    if memory is not None and (not isinstance(memory, int) or memory < SMALLEST):
        raise KnowledgeError(f"the memory is a whole number of megabytes, {SMALLEST} or more, not {memory!r}")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise KnowledgeError(f"the number of threads is a whole number, 1 or more, not {threads!r}")


@contextmanager
def _errors(engine: Engine) -> Iterator[None]:
    """DuckDB's refusals as ours."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        allowed = f"{engine.memory:,} MB" if engine.memory else "what there is"
        raise StoppedError(
            f"the query needs more memory than {allowed}",
            hint="ask for less, give some variables, or allow more memory",
        ) from None
    except duckdb.IOException as error:
        message = str(error).split("\n", 1)[0].replace(engine.folder, "the temporary folder")
        raise StoppedError(f"the query cannot use the disk: {message}") from None
