"""Tables of other programs: DuckDB, SQLite and Parquet."""

from __future__ import annotations

import gzip
from pathlib import Path

import duckdb
import pytest

from database_files import changed, contents, make_duckdb, make_sqlite
from gaifman.errors import InputError
from gaifman.io import read, write
from gaifman.kb.knowledge_base import KnowledgeBase

SCHEMAS = [
    (
        "CREATE TABLE edges (head VARCHAR, relation VARCHAR, tail VARCHAR)",
        "INSERT INTO edges VALUES ('ann', 'parent', 'bob'), ('bob', 'parent', 'cleo')",
        ["parent(ann, bob).", "parent(bob, cleo)."],
    ),
    (
        "CREATE TABLE edges (weight DOUBLE, target VARCHAR, predicate VARCHAR, source VARCHAR)",
        "INSERT INTO edges VALUES (0.5, 'bob', 'parent', 'ann'), (NULL, 'cleo', 'parent', 'ann')",
        ["0.5::parent(ann, bob).", "parent(ann, cleo)."],
    ),
    (
        "CREATE TABLE gave (who VARCHAR, what_id INTEGER, whom VARCHAR)",
        "INSERT INTO gave VALUES ('ann', 7, 'bob'), ('ann', 8, NULL)",
        ["gave(ann, 'what/7', bob)."],
    ),
    (
        "CREATE TABLE rated (user_id INTEGER, item_id INTEGER, confidence DOUBLE)",
        "INSERT INTO rated VALUES (7, 7, 0.5), (7, 8, NULL)",
        ["0.5::rated('user/7', 'item/7').", "rated('user/7', 'item/8')."],
    ),
    (
        "CREATE TABLE city (id INTEGER, area DOUBLE)",
        "INSERT INTO city VALUES (7, 105.5), (8, NULL)",
        ["area(city/7) = 105.5"],
    ),
    ("CREATE TABLE person (id INTEGER)", "INSERT INTO person VALUES (7)", ["person('person/7')."]),
    (
        "CREATE TABLE likes (a VARCHAR, confidence DOUBLE, b VARCHAR)",
        "INSERT INTO likes VALUES ('ann', 0.25, 'bob')",
        ["0.25::likes(ann, bob)."],
    ),
    ("CREATE TABLE person (name VARCHAR)", "INSERT INTO person VALUES ('ann')", ["person(ann)."]),
    (
        "CREATE TABLE cities (name VARCHAR, area DOUBLE, height DOUBLE)",
        "INSERT INTO cities VALUES ('paris', 105.5, 35), ('oslo', NULL, 23)",
        ["area(paris) = 105.5", "height(oslo) = 23.0", "height(paris) = 35.0"],
    ),
    (
        "CREATE TABLE t (object VARCHAR, attribute VARCHAR, value DOUBLE)",
        "INSERT INTO t VALUES ('ann', 'age', 80)",
        ["age(ann) = 80.0"],
    ),
    (
        "CREATE TABLE t (entity VARCHAR, class VARCHAR)",
        "INSERT INTO t VALUES ('ann', 'person')",
        ["person(ann)."],
    ),
]


@pytest.mark.parametrize(("schema", "rows", "expected"), SCHEMAS)
def test_tables_are_read_by_column_names_or_kinds(tmp_path: Path, schema: str, rows: str, expected: list[str]) -> None:
    duck, lite = make_duckdb(tmp_path / "x.duckdb", schema, rows), make_sqlite(tmp_path / "x.db", schema, rows)
    assert contents(read(duck)) == expected
    assert contents(read(lite)) == expected
    for path in (duck, lite):
        packed = tmp_path / f"{path.name}.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert contents(read(packed)) == expected


@pytest.mark.parametrize(("schema", "rows", "expected"), SCHEMAS)
def test_parquet_of_other_programs(tmp_path: Path, schema: str, rows: str, expected: list[str]) -> None:
    table = schema.split()[2]
    path = tmp_path / f"{table}.parquet"
    with duckdb.connect() as connection:
        connection.execute(schema)
        connection.execute(rows)
        connection.execute(f"COPY {table} TO '{path}' (FORMAT parquet)")
    assert contents(read(path)) == expected
    (tmp_path / f"{table}.parquet.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert contents(read(tmp_path / f"{table}.parquet.gz")) == expected


@pytest.mark.parametrize("make", [make_duckdb, make_sqlite])
def test_every_table_is_read_or_the_named_one(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    path = make(
        tmp_path / "x.db",
        "CREATE TABLE person (name VARCHAR)",
        "INSERT INTO person VALUES ('ann')",
        'CREATE TABLE "lives ""in""" (who VARCHAR, town VARCHAR)',
        'INSERT INTO "lives ""in""" VALUES (\'ann\', \'oslo\')',
        "CREATE VIEW everybody AS SELECT name FROM person",
    )
    assert contents(read(path)) == ["'lives \"in\"'(ann, oslo).", "person(ann)."]
    assert contents(read(path, table="person")) == ["person(ann)."]
    assert contents(read(path, table="everybody")) == ["everybody(ann)."]
    with pytest.raises(InputError) as caught:
        read(path, table="persons")
    assert caught.value.suggestions == ("person",)


@pytest.mark.parametrize("make", [make_duckdb, make_sqlite])
def test_a_row_with_a_null_name_is_skipped_and_noted(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    path = make(
        tmp_path / "x.db",
        "CREATE TABLE t (head VARCHAR, relation VARCHAR, tail VARCHAR)",
        "INSERT INTO t VALUES ('a', 'r', 'b'), ('a', NULL, 'c')",
    )
    kb = read(path)
    assert contents(kb) == ["r(a, b)."]
    assert f"1 row with NULL skipped, such as {path}, table t" in map(str, kb.notes)


@pytest.mark.parametrize("make", [make_duckdb, make_sqlite])
def test_an_empty_name_is_an_error_with_its_row(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    path = make(
        tmp_path / "x.db",
        "CREATE TABLE t (head VARCHAR, relation VARCHAR, tail VARCHAR)",
        "INSERT INTO t VALUES ('a', 'r', 'b'), ('a', '', 'c')",
    )
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.message == "a name cannot be empty"
    assert caught.value.location
    assert caught.value.location.source == f"{path}, table t"
    assert (caught.value.location.line, caught.value.location.column, caught.value.location.text) == (2, 3, "a\t\tc")


@pytest.mark.parametrize("make", [make_duckdb, make_sqlite])
def test_a_confidence_out_of_range_is_an_error(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    path = make(
        tmp_path / "x.db",
        "CREATE TABLE t (head VARCHAR, relation VARCHAR, tail VARCHAR, confidence DOUBLE)",
        "INSERT INTO t VALUES ('a', 'r', 'b', 1), ('a', 'r', 'c', 1.5)",
    )
    with pytest.raises(InputError, match="a confidence must be above 0") as caught:
        read(path)
    assert caught.value.location
    assert (caught.value.location.line, caught.value.location.column) == (2, 7)


@pytest.mark.parametrize("make", [make_duckdb, make_sqlite])
def test_columns_of_other_kinds_are_listed(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    path = make(tmp_path / "x.db", "CREATE TABLE t (a VARCHAR, b VARCHAR, c DOUBLE)")
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.message.endswith(
        "table t: the columns are neither a relation nor attributes: a (text), b (text), c (float)"
    )
    assert "head, relation, tail" in caught.value.hint
    path.unlink()
    columns = ", ".join(f"c{number} VARCHAR" for number in range(9))
    with pytest.raises(InputError, match="neither a relation nor attributes"):
        read(make(tmp_path / "x.db", f"CREATE TABLE t ({columns})"))
    (tmp_path / "x.db").unlink()
    with pytest.raises(InputError, match="neither a relation nor attributes"):
        read(make(tmp_path / "x.db", "CREATE TABLE t (a VARCHAR, b BLOB)"))


@pytest.mark.parametrize("make", [make_duckdb, make_sqlite])
def test_an_empty_database_is_an_error(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    path = make(tmp_path / "x.db", "CREATE TABLE t (a VARCHAR)", "DROP TABLE t")
    with pytest.raises(InputError, match="has no table"):
        read(path)


@pytest.mark.parametrize("name", ["x.duckdb", "x.parquet", "x.sqlite"])
def test_files_that_are_not_databases_are_errors(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"this is no database at all, just text\n" * 20)
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / name)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(InputError):
        read(tmp_path / name)


def test_cut_databases_are_errors(tmp_path: Path) -> None:
    kb = KnowledgeBase.from_facts([("p", f"a{number}") for number in range(2000)])
    write(kb, tmp_path / "x.duckdb")
    write(kb, tmp_path / "x.parquet")
    for name in ("x.duckdb", "x.parquet"):
        whole = (tmp_path / name).read_bytes()
        for size in (6, 100, len(whole) // 2):
            (tmp_path / name).write_bytes(whole[:size])
            with pytest.raises(InputError):
                read(tmp_path / name)


def test_sqlite_text_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    path = make_sqlite(tmp_path / "x.db", "CREATE TABLE t (a TEXT)", "INSERT INTO t VALUES (CAST(x'ff41' AS TEXT))")
    with pytest.raises(InputError, match="cannot be read"):
        read(path)


def test_a_nul_inside_a_database_is_an_error(tmp_path: Path) -> None:
    path = make_duckdb(tmp_path / "x.duckdb", "CREATE TABLE t (a VARCHAR)", "INSERT INTO t VALUES ('x' || chr(0))")
    with pytest.raises(InputError, match="NUL"):
        read(path)


def test_a_database_cannot_reach_other_files(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    path = make_duckdb(
        tmp_path / "x.duckdb", f"CREATE VIEW spy AS SELECT * FROM read_csv('{tmp_path}/secret.csv', all_varchar=true)"
    )
    with pytest.raises(InputError, match="cannot be read"):
        read(path, table="spy")


def test_names_of_files_are_not_patterns(tmp_path: Path) -> None:
    write(KnowledgeBase.from_facts([("p", "a")]), tmp_path / "x1.parquet")
    write(KnowledgeBase.from_facts([("q", "b")]), tmp_path / "x[1]'*.parquet")
    assert contents(read(tmp_path / "x[1]'*.parquet")) == ["q(b)."]


# Our own file, changed by others


def test_facts_that_were_added_with_duckdb_are_read(tmp_path: Path) -> None:
    kb = read(changed(tmp_path, "INSERT INTO facts2 VALUES (1, 1, 0, 0.5)"))
    assert contents(kb) == ["p(a).", "r(a, b).", "0.5::r(b, a).", "v(a) = 1.0"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO facts2 VALUES (1, 7, 0, 1)", "a1 7 is not an id"),
        ("INSERT INTO facts2 VALUES (5, 1, 0, 1)", "relation 5 is not an id"),
        ("INSERT INTO facts2 VALUES (0, 1, 0, 1)", "p has 1 argument, not 2"),
        ("INSERT INTO facts2 VALUES (1, 1, 0, 2)", "a confidence must be above 0 and at most 1"),
        ("INSERT INTO attribute_values VALUES (0, 1, 'nan')", "a value must be a finite number"),
        ("INSERT INTO objects VALUES (9, 'z')", "the ids must be 0, 1, 2 and so on"),
        ("INSERT INTO objects VALUES (2, '')", "a name cannot be empty"),
        ("UPDATE relations SET arity = 9", "an arity must be 1 to 8"),
        ("UPDATE gaifman SET value = '99' WHERE key = 'version'", "has layout version 99"),
        ("DROP TABLE facts2 CASCADE", ""),
        ("ALTER TABLE facts2 DROP COLUMN confidence", "cannot be read"),
        ("DROP TABLE attributes CASCADE", "cannot be read"),
    ],
)
def test_damaged_files_of_ours_are_errors(tmp_path: Path, statement: str, message: str) -> None:
    path = changed(tmp_path, statement)
    if not message:
        assert len(read(path)) == 1
        return
    with pytest.raises(InputError) as caught:
        read(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
