"""Python objects that hold tables."""

from __future__ import annotations

import decimal
import sqlite3
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaifman
from database_files import contents
from gaifman import ArgumentError, InputError, KnowledgeBase, Limits, read
from processes import python, run

FAMILY = [("ann", "parent", "bob"), ("bob", "parent", "cleo")]
KB = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo")])
NAMES = ("head", "relation", "tail")


class Stream:
    """An object of an unknown library with an Arrow stream that can be read once."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        table, self._table = self._table, None
        return table.__arrow_c_stream__(requested_schema)


class OtherFrame:
    """A data frame of an unknown library."""

    columns = NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def to_pandas(self) -> pd.DataFrame:
        return frame()


def frame(rows: Any = FAMILY, names: Any = NAMES) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(names))


def table() -> pa.Table:
    return pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in FAMILY])


@pytest.mark.parametrize(
    "make",
    [
        lambda: FAMILY,
        lambda: tuple(FAMILY),
        lambda: set(FAMILY),
        lambda: (row for row in FAMILY),
        lambda: [list(row) for row in FAMILY],
        lambda: [tuple(name.encode() for name in row) for row in FAMILY],
        lambda: [NAMES, *FAMILY],
        lambda: [dict(zip(NAMES, row, strict=True)) for row in FAMILY],
        lambda: {name: list(column) for name, column in zip(NAMES, zip(*FAMILY, strict=True), strict=True)},
        lambda: {"parent": [("ann", "bob"), ("bob", "cleo")]},
        lambda: {"parent": frame([("ann", "bob"), ("bob", "cleo")], ["elder", "child"])},
        lambda: {"parent": np.array([("ann", "bob"), ("bob", "cleo")])},
        lambda: {"parent": {"head": ["ann", "bob"], "tail": ["bob", "cleo"]}},
        KB.facts,
        lambda: np.array(FAMILY),
        lambda: np.array(FAMILY, "S"),
        lambda: np.array(FAMILY, object),
        lambda: np.array(FAMILY, dtype=[(name, "U9") for name in NAMES]),
        frame,
        lambda: pd.DataFrame(FAMILY),
        lambda: frame().astype("category"),
        lambda: frame().set_index("head"),
        lambda: frame()[["tail", "head", "relation"]],
        lambda: pl.DataFrame(FAMILY, schema=list(NAMES), orient="row"),
        lambda: pl.DataFrame(FAMILY, orient="row"),
        lambda: pl.DataFrame(FAMILY, schema=list(NAMES), orient="row").lazy(),
        lambda: pl.DataFrame(FAMILY, schema=list(NAMES), orient="row").cast(pl.Categorical),
        lambda: pl.DataFrame(FAMILY, schema=list(NAMES), orient="row").cast(pl.Binary),
        table,
        lambda: table().to_batches()[0],
        lambda: table().to_reader(),
        lambda: pyarrow.dataset.dataset(table()),
        lambda: pyarrow.dataset.dataset(table()).scanner(),
        lambda: Stream(table()),
    ],
)
def test_the_same_facts_from_every_kind(make: Callable[[], object]) -> None:
    assert read(make()) == KB


def test_relations_and_connections_of_duckdb() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE parent AS FROM (VALUES ('ann', 'bob'), ('bob', 'cleo')) t(elder, child)")
        assert read(connection) == read(connection, table="parent") == KB
        assert read(connection.table("parent")) == KB
        assert read(connection.sql("SELECT elder AS head, 'parent' AS relation, child AS tail FROM parent")) == KB
        assert connection.execute("SELECT count(*) FROM parent").fetchone() == (2,)  # it is still open
        with pytest.raises(InputError, match="DuckDB Connection has no table parents\ndid you mean: parent"):
            read(connection, table="parents")


def test_a_connection_to_a_database_of_gaifman(tmp_path: Path) -> None:
    gaifman.write(KB, tmp_path / "kb.duckdb")
    with duckdb.connect(str(tmp_path / "kb.duckdb"), read_only=True) as connection:
        assert read(connection) == KB


def test_connections_of_sqlite() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE parent (elder TEXT, child TEXT)")
        connection.executemany("INSERT INTO parent VALUES (?, ?)", [("ann", "bob"), ("bob", "cleo")])
        connection.row_factory, connection.text_factory = sqlite3.Row, bytes
        assert read(connection) == KB
        assert connection.row_factory is sqlite3.Row
        assert connection.text_factory is bytes


def test_objects_and_files_together(tmp_path: Path) -> None:
    path = tmp_path / "ages.tsv"
    path.write_text("ann\tage\t80\n")
    kb = read(path, FAMILY[:1], frame(FAMILY[1:]))
    assert contents(kb) == ["parent(ann, bob).", "parent(bob, cleo).", "age(ann) = 80.0"]


# Names and numbers


def test_integers_are_names_as_their_decimal_text() -> None:
    rows = [(1, 5, -2), (2, 5, 10**30)]
    expected = ["5(1, '-2').", "5(2, 1000000000000000000000000000000)."]
    assert contents(read(rows)) == expected
    assert contents(read(np.array([(1, 5, 3)], np.uint8))) == ["5(1, 3)."]
    assert contents(read(pd.DataFrame(rows[:1], columns=list(NAMES)))) == expected[:1]
    assert contents(read(pl.DataFrame(rows[:1], schema=list(NAMES), orient="row"))) == expected[:1]


def test_integers_that_pandas_made_floats_are_integers_again() -> None:
    kb = read(pd.DataFrame({"head": [1, None, 3], "relation": "p", "tail": [4, 5, 6]}))
    assert contents(kb) == ["p(1, 4).", "p(3, 6)."]
    assert "1 row with NULL skipped, such as pandas DataFrame" in map(str, kb.notes)


def test_uuids_are_names() -> None:
    one = uuid.UUID(int=1)
    assert (str(one), "a", "b") in read([("a", one, "b")])


def test_a_confidence() -> None:
    expected = ["0.5::parent(ann, bob)."]
    assert contents(read([("ann", "parent", "bob", 0.5)])) == expected
    assert contents(read({"parent": [("ann", "bob", 0.5)]})) == expected
    assert contents(read(pd.DataFrame({"h": ["ann"], "r": ["parent"], "t": ["bob"], "confidence": [0.5]}))) == expected
    assert contents(read(pl.DataFrame({"h": ["ann"], "r": ["parent"], "t": ["bob"], "score": [0.5]}))) == expected
    assert contents(read({"parent": pl.DataFrame({"a": ["ann"], "b": ["bob"], "confidence": [0.5]})})) == expected


def test_types_and_attributes() -> None:
    assert contents(read([("ann", "person")])) == ["person(ann)."]
    assert contents(read({"person": ["ann", 5, None]})) == ["person(5).", "person(ann)."]
    assert contents(read({"person": np.array([["ann"]])})) == ["person(ann)."]
    assert contents(read([("ann", "age", 80), ("bob", "age", 5.5)])) == ["age(ann) = 80.0", "age(bob) = 5.5"]
    assert contents(read({"age": [("ann", 80.0)]})) == ["age(ann) = 80.0"]
    numbers = {"name": ["ann", "bob"], "age": [80.5, None], "size": [decimal.Decimal("1.5"), decimal.Decimal(2)]}
    expected = ["age(ann) = 80.5", "size(ann) = 1.5", "size(bob) = 2.0"]
    assert contents(read(pd.DataFrame(numbers))) == contents(read(pl.DataFrame(numbers))) == expected
    assert contents(read(pl.DataFrame(numbers).lazy())) == contents(read(Stream(pl.DataFrame(numbers)))) == expected


def test_missing_values_are_skipped_and_noted() -> None:
    rows = [("ann", "p", "bob"), ("ann", "p", None), (None, "p", float("nan")), (pd.NA, "p", "x"), (pd.NaT, "p", "x")]
    for data in (rows, frame(rows), table_of(rows[:2] + [(None, "p", "x")] * 3)):
        kb = read(data)
        assert contents(kb) == ["p(ann, bob)."]
        (note,) = [note for note in kb.notes if note.text == "rows with NULL skipped"]
        assert note.count == 4


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in rows])


def test_a_column_without_values() -> None:
    kb = read(pa.table({"name": ["ann"], "age": [80.0], "size": pa.nulls(1)}))
    assert contents(kb) == ["age(ann) = 80.0"]
    assert "1 column without values skipped, such as pyarrow Table" in map(str, kb.notes)


def test_facts_of_several_arities() -> None:
    rows = [("gave", "ann", "book", "bob"), ("person", "ann")]
    assert contents(read(rows)) == ["gave(ann, book, bob).", "person(ann)."]
    kb = read(pl.DataFrame({"relation": ["gave", "person"], "arg1": ["ann", "ann"], "arg2": ["book", None]}))
    assert contents(kb) == ["gave(ann, book).", "person(ann)."]
    assert contents(read(rows, format="nary")) == ["gave(ann, book, bob).", "person(ann)."]


def test_format_and_header_of_rows() -> None:
    assert contents(read([("1", "2")], format="types")) == ["2(1)."]
    assert contents(read([("head", "relation", "tail")], header=False)) == ["relation(head, tail)."]
    assert contents(read([("who", "how", "whom"), *FAMILY], header=True)) == contents(KB)


def test_many_rows_come_in_batches() -> None:
    rows = [(f"a{i}", "p", f"b{i}") for i in range(50_001)]
    kb = read(rows)
    assert len(kb) == 50_001
    assert read(pd.DataFrame(rows, columns=list(NAMES))) == kb
    assert read(np.array(rows)) == kb
    assert read(Stream(pl.DataFrame(rows, schema=list(NAMES), orient="row"))) == kb
    with pytest.raises(InputError, match="more than 100 facts"):
        read(rows, limits=Limits(facts=100))


names = st.one_of(st.integers(-3, 12), st.sampled_from(["a", "b c", "é", "'", "NULL", "1.5", "\t", "nan"]))


@given(st.lists(st.tuples(names, names, names), min_size=1, max_size=8))
def test_every_kind_of_table_holds_the_same_facts(rows: list[tuple[Any, ...]]) -> None:
    expected = KnowledgeBase.from_facts([(str(r), str(h), str(t)) for h, r, t in rows])
    texts = [tuple(map(str, row)) for row in rows]
    columns = {name: [row[c] for row in rows] for c, name in enumerate(NAMES)}
    for data in (
        columns,
        pd.DataFrame(columns),
        pl.DataFrame(texts, schema=list(NAMES), orient="row"),
        pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in texts]),
        [dict(zip(NAMES, row, strict=True)) for row in rows],
        np.array([tuple(row) for row in texts], dtype=[(name, "O") for name in NAMES]),
    ):
        kb = read(data)
        assert kb == expected
    assert read(rows, format="triples", header=False) == expected


# Errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: 5, "5 cannot be read\nhint: make a list of tuples of it"),
        (lambda: None, "None cannot be read"),
        (lambda: b"x", "write the bytes to a file and give its name"),
        (lambda: KB, "gaifman KnowledgeBase cannot be read\nhint: it is a knowledge base already; gaifman.union joins"),
        (lambda: pd.Series(["a"]), r"pandas Series cannot be read\nhint: give its .to_frame\(\)"),
        (lambda: pl.Series(["a"]), r"polars Series cannot be read\nhint: give its .to_frame\(\)"),
        (lambda: pa.array(["a"]), "pyarrow StringArray cannot be read"),
        (OtherFrame, r"OtherFrame cannot be read\nhint: give its .to_pandas\(\)"),
        (lambda: sys.stdin, "cannot be read\nhint: give the name of the file"),
        (lambda: sqlite3, "give the URL of the database: postgresql://user@host/db"),
        (lambda: ("ann", "parent", "bob"), r"tuple, row 1: 'ann' is not a tuple\nhint: give files one by one"),
        (lambda: ["a.tsv", "b.tsv"], r"give files one by one: gaifman.read\(\*names\)"),
        (lambda: [("a", "p", "b"), 5], "list, row 2: 5 is not a tuple\nhint: write each row as a tuple"),
    ],
)
def test_objects_that_cannot_be_read(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        read(make())


def broken_reader() -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        yield table().to_batches()[0]
        raise ValueError("the connection is lost")

    return pa.RecordBatchReader.from_batches(table().schema, batches())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: [("a", b"\xff", "b")], "list, line 1, column 3: these bytes are not UTF-8"),
        (lambda: [("a", "p", "b"), ("a", True, "b")], "list, line 2, column 3: a name must be text or an integer"),
        (lambda: [("a", [1], "b")], "a name must be text or an integer, got list"),
        (lambda: [("a", 0.5, "b")], "list, line 1, column 3: a name must be text or an integer, got 0.5"),
        (lambda: [("a", "p", "b"), ("a", "p")], "list, line 2, column 3: expected 3 columns"),
        (lambda: [("a", "p", "")], "list, line 1, column 5: a name cannot be empty"),
        (lambda: [("ann", 1), ("bob", 2)], 'the name of the attribute is missing\n.*\n.*\n.*pass format="types"'),
        (lambda: [("a", "p", "b", 7.5)] * 2, "a confidence must be above 0 and at most 1"),
        (lambda: np.array(["a"]), "numpy array: the array must have two dimensions, got 1"),
        (lambda: np.array([[1.5, 2, 3]]), r"got 1.5\n.*\n.*\nhint: convert integers with array.astype\(int\)"),
        (lambda: np.array([[True]]), "an array of bool holds no names"),
        (dict, "dict is empty"),
        (lambda: {("age", "ann"): 80}, r"the key \('age', 'ann'\) is not text\nhint: keys are relations"),
        (lambda: {"likes": "likes.csv"}, r"likes is 'likes.csv', not a table\nhint: .* gaifman.read\('likes.csv'\)"),
        (lambda: {"likes": 5}, "dict: likes is 5, not a table"),
        (
            lambda: {"head": ["a"], "relation": ["p", "q"], "tail": ["b"]},
            r"different lengths: head \(1\), relation \(2\)",
        ),
        (lambda: frame([("a", "b")], ["who", "boss"]), r"no column names the relation: who, boss\nhint: give the rel"),
        (lambda: pl.DataFrame({"who": ["a"], "boss": ["b"]}), "polars DataFrame: no column names the relation"),
        (lambda: frame([("a", "b", "c")], ["head", "head", "tail"]), "pandas DataFrame has several columns head"),
        (lambda: frame([("a", "p", [1])]), "pandas DataFrame, column tail, line 1, column 1: a name must be text"),
        (lambda: frame([("a", "p", b"\xff")]), "column tail, line 1, column 1: these bytes are not UTF-8"),
        (lambda: pl.DataFrame({"h": ["a"], "r": ["p"], "t": [b"\xff"]}), "the column t holds bytes that are not UTF-8"),
        (lambda: pl.scan_csv("/nowhere.csv"), "polars LazyFrame cannot be read: No such file"),
        (lambda: pa.table({"a": pa.nulls(1)}), "pyarrow Table has no columns with values"),
        (
            lambda: pa.table({"head": ["a"], "relation": ["p"], "tail": ["b"], "date": ["c"]}),
            "the column date is unknown",
        ),
        (broken_reader, "pyarrow RecordBatchReader cannot be read: .*the connection is lost"),
    ],
)
def test_bad_content(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=f"(?s){message}"):
        read(make())


def test_options_of_files_are_refused_for_objects() -> None:
    with pytest.raises(InputError, match="list is not a database and has no table likes"):
        read(FAMILY, table="likes")
    with pytest.raises(InputError, match="list cannot be read as parquet\nhint: formats of rows"):
        read(FAMILY, format="parquet")
    with duckdb.connect() as connection, pytest.raises(InputError, match="DuckDB Connection has no format"):
        read(connection, format="triples")


def test_no_library_is_needed(tmp_path: Path) -> None:
    """Without pyarrow, pandas and polars: an Arrow stream, rows and columns are read all the same."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "for name in ('pyarrow', 'pandas', 'polars', 'networkx', 'rdflib', 'adbc_driver_manager'):\n"
        "    sys.modules[name] = None\n"
        "import duckdb, gaifman\n"
        "rows = duckdb.sql(\"SELECT 'ann' AS head, 'parent' AS relation, 'bob' AS tail\")\n"
        "kb = gaifman.read(rows)\n"
        "assert kb == gaifman.read([('ann', 'parent', 'bob')]) == gaifman.read({'parent': [('ann', 'bob')]}), kb\n"
    )
    run(python(str(script)), check=True)
