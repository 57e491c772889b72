"""Limits of what is read: bombs, devices, and tables without an end."""

from __future__ import annotations

import gzip
import os
import sqlite3
import sys
import tempfile
import threading
from contextlib import suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path

import duckdb
import pytest

from gaifman.config import FILE_LIMITS, Limits
from gaifman.errors import InputError, KnowledgeBaseError
from gaifman.io import files, read, write
from gaifman.kb.knowledge_base import KnowledgeBase
from processes import python, run

ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT 'a' AS head, 'b' AS tail FROM t"
"""A view of equal rows without an end."""
SILENT = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x FROM t) SELECT 'a' AS p, 'b' AS q FROM t WHERE x = 2"
"""A view that never gives a row."""
NULLS = (
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT 'a' AS p, CAST(NULL AS VARCHAR) AS q FROM t"
)
"""A view whose rows are all skipped."""


def make_view(path: Path, kind: str, view: str) -> Path:
    """Write a database with one view."""
    connect = duckdb.connect if kind == "duckdb" else sqlite3.connect
    connection = connect(str(path))
    connection.execute(f"CREATE VIEW v AS {view}")
    connection.close()
    return path


# Decompression


def packed(path: Path, data: bytes, times: int) -> Path:
    with gzip.open(path, "wb") as file:
        for _ in range(times):
            file.write(data)
    return path


def test_a_file_that_decompression_makes_huge_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 million equal lines in 524 kB once took 2.3 GB."""
    monkeypatch.setattr(files, "UNCHECKED_EXPANSION", 1_000_000)
    path = packed(tmp_path / "bomb.tsv.gz", b"a\tr\tb\n" * 100_000, 10)
    with pytest.raises(InputError, match=r"bomb\.tsv\.gz becomes more than 250 times as large") as caught:
        read(path)
    assert "--limit expansion=NUMBER" in caught.value.hint
    assert len(read(path, limits=Limits(expansion=2_000))) == 1
    monkeypatch.setattr(files, "UNCHECKED_EXPANSION", 10_000_000)
    assert len(read(path)) == 1, "a small file may be as dense as it likes"


@pytest.mark.parametrize("name", ["x.sqlite.gz", "x.duckdb.gz", "x.parquet.gz"])
def test_a_packed_database_has_the_same_limits(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "UNCHECKED_EXPANSION", 1_000_000)
    starts = {"x.sqlite.gz": b"SQLite format 3\0", "x.duckdb.gz": bytes(8) + b"DUCK", "x.parquet.gz": b"PAR1\0"}
    with gzip.open(tmp_path / name, "wb") as file:
        file.write(starts[name])
        for _ in range(10):
            file.write(bytes(1_000_000))
    with pytest.raises(InputError, match="becomes more than 250 times as large"):
        read(tmp_path / name)
    with pytest.raises(InputError, match="has more than 5,000 bytes after decompression"):
        read(tmp_path / name, limits=Limits(bytes=5_000))


def test_a_file_has_at_most_so_many_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(b"a\tr\tb\n" * 100)
    assert len(read(path, limits=Limits(bytes=600))) == 1
    with pytest.raises(InputError, match="has more than 599 bytes") as caught:
        read(path, limits=Limits(bytes=599))
    assert "Limits(bytes=NUMBER)" in caught.value.hint


# Devices and pipes


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/null", "/dev/full"])
def test_a_device_is_refused(device: str) -> None:
    """/dev/zero was once copied to disk without end."""
    with pytest.raises(InputError, match=f"{device} is a device, not a file") as caught:
        read(device)
    assert "standard input" in caught.value.hint


class Endless(BytesIO):
    """Standard input that never ends."""

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert size > 0, "it is not read whole"
        return b"a\tr\tb\n" * (size // 6)


def test_standard_input_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(Endless()))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InputError, match="standard input has more than 20,000,000 bytes"):
        read("-", limits=Limits(bytes=20_000_000))
    assert not list(tmp_path.iterdir()), "the copy is removed"


def test_a_pipe_without_an_end_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write_on() -> None:
        with suppress(BrokenPipeError), path.open("wb", buffering=0) as file:
            while True:
                file.write(b"a\tr\tb\n" * 1_000)

    writer = threading.Thread(target=write_on)
    writer.start()
    with pytest.raises(InputError, match="pipe has more than 5,000,000 bytes"):
        read(path, limits=Limits(bytes=5_000_000))
    writer.join()


# Rows


def test_more_facts_than_allowed_are_refused_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("".join(f"a{number}\tr\tb\n" for number in range(10)))
    (tmp_path / "y.facts").write_text("p(a). age(a) = 5.\n")
    assert len(read(tmp_path / "x.tsv", tmp_path / "y.facts", limits=Limits(facts=12))) == 11
    with pytest.raises(InputError, match=r"y\.facts, line 1, .*more than 11 facts and values") as caught:
        read(tmp_path / "x.tsv", tmp_path / "y.facts", limits=Limits(facts=11))
    assert "--limit facts=NUMBER" in caught.value.hint
    with pytest.raises(InputError, match="more than 9 facts"):
        read(tmp_path / "x.tsv", limits=Limits(facts=9))


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize("view", [ENDLESS, NULLS])
def test_a_view_without_an_end_is_stopped(kind: str, view: str, tmp_path: Path) -> None:
    path = make_view(tmp_path / f"x.{kind}", kind, view)
    with pytest.raises(InputError, match="more than 100,000 facts and values"):
        read(path, table="v", limits=Limits(facts=100_000))


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_view_that_never_gives_a_row_is_stopped(kind: str, tmp_path: Path) -> None:
    path = make_view(tmp_path / f"x.{kind}", kind, SILENT)
    with pytest.raises(InputError, match="table v: no rows within 1 seconds") as caught:
        read(path, table="v", limits=Limits(database_seconds=1))
    assert "--limit database_seconds=NUMBER" in caught.value.hint


def test_a_view_that_needs_more_memory_than_there_is_writes_nothing_beside_the_file(tmp_path: Path) -> None:
    path = make_view(tmp_path / "x.duckdb", "duckdb", "SELECT 'a' AS p, i::VARCHAR AS q FROM range(10) t(i) ORDER BY q")
    assert len(read(path, table="v")) == 10
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.duckdb"]


@pytest.mark.parametrize("table", ["objects", "facts2", "attribute_values"])
def test_a_small_database_file_with_a_huge_table_is_refused_before_it_is_in_memory(table: str, tmp_path: Path) -> None:
    """Equal rows take no space in a DuckDB file: 270 kB hold 100 million."""
    path = tmp_path / "x.duckdb"
    write(KnowledgeBase.from_facts([("r", "a", "b")], {("age", "a"): 5.0}), path)
    with duckdb.connect(str(path)) as connection:
        columns = {"objects": "0, 'a'", "facts2": "0, 0, 1, 1.0", "attribute_values": "0, 0, 1.0"}[table]
        connection.execute(f"INSERT INTO {table} SELECT {columns} FROM range(1000000)")
    with pytest.raises(InputError, match=f"table {table}, .*more than 500,000 facts"):
        read(path, limits=Limits(facts=500_000))


# Settings


def test_every_limit_of_a_file_is_a_positive_integer() -> None:
    for name in FILE_LIMITS:
        with pytest.raises(KnowledgeBaseError, match=rf"Limits\.{name} must be an integer"):
            Limits(**{name: 0})


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("fact=5", "there is no limit fact"),
        ("depth=5", "there is no limit depth"),
        ("facts", "needs NAME=NUMBER"),
        ("facts=0", "needs NAME=NUMBER"),
        ("facts=many", "needs NAME=NUMBER"),
    ],
)
def test_a_mistake_in_a_limit_of_the_command_line(limit: str, message: str) -> None:
    done = run(python("-m", "gaifman", "info", "demo", "--limit", limit))
    assert (done.returncode, message in done.stderr, "Traceback" in done.stderr) == (1, True, False)


def test_the_command_line_sets_limits(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tr\tb\nb\tr\tc\n")
    done = run(python("-m", "gaifman", "info", "x.tsv", "--limit", "facts=1"), cwd=tmp_path)
    assert done.returncode == 1
    assert "more than 1 facts and values" in done.stderr
    more = ("--limit", "facts=1_000", "--limit", "bytes=50")
    run(python("-m", "gaifman", "info", "x.tsv", *more), cwd=tmp_path, check=True)
