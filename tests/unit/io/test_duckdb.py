"""Tables of other programs: schemas, NULLs, numbered columns, odd kinds; and our own file, changed."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from database_files import changed, contents, make_duckdb, make_sqlite
from gaifman.errors import InputError, OutputError
from gaifman.io import read, write
from gaifman.io.files import InputFile, detect_format, uncompressed_path
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from processes import cpu_limit

FAMILY = KnowledgeBase.from_facts([("p", "a"), ("r", "a", "b")], {("v", "a"): 1})


def make_parquet(path: Path, *statements: str) -> Path:
    """The table `t` as a file."""
    with duckdb.connect() as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    return path


MAKERS = [make_duckdb, make_sqlite, make_parquet]


def notes(kb: KnowledgeBase) -> dict[str, int]:
    return {note.text: note.count for note in kb.notes}


# Columns by their names


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("columns", "values", "expected"),
    [
        ("relation TEXT, a2 TEXT, a1 TEXT", "'parent', 'bob', 'ann'", ["parent(ann, bob)."]),
        ("a2 TEXT, confidence DOUBLE, relation TEXT, a1 TEXT", "'bob', 0.5, 'p', 'ann'", ["0.5::p(ann, bob)."]),
        ("arg1 TEXT, predicate TEXT, arg2 TEXT, score DOUBLE", "'ann', 'p', 'bob', NULL", ["p(ann, bob)."]),
        ("value DOUBLE, a2 TEXT, a1 TEXT, relation TEXT", "3, NULL, 'ann', 'age'", ["age(ann) = 3.0"]),
        ("value DOUBLE, a2 TEXT, a1 TEXT, relation TEXT", "NULL, NULL, 'ann', 'old'", ["old(ann)."]),
    ],
)
def test_numbered_columns_are_read_by_number(tmp_path: Path, make, columns, values, expected) -> None:  # type: ignore[no-untyped-def]
    path = make(tmp_path / "x.db", f"CREATE TABLE t ({columns})", f"INSERT INTO t VALUES ({values})")
    assert contents(read(path)) == expected


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("columns", "unknown"),
    [
        ("head TEXT, relation TEXT, tail TEXT, confidence DOUBLE, note TEXT", "the column note is unknown"),
        ("relation TEXT, a1 TEXT, a3 TEXT", "its columns are not those of facts"),
    ],
)
def test_unknown_columns_beside_known_ones_are_an_error(tmp_path: Path, make, columns: str, unknown: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="the columns look like those of facts") as caught:
        read(make(tmp_path / "x.db", f"CREATE TABLE t ({columns})"))
    assert caught.value.message.endswith(unknown)


@pytest.mark.parametrize("make", MAKERS)
def test_a_table_of_one_relation_may_use_such_words(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    path = make(tmp_path / "t.db", "CREATE TABLE t (source TEXT, target TEXT)", "INSERT INTO t VALUES ('a', 'b')")
    assert contents(read(path)) == ["t(a, b)."]


# NULLs


@pytest.mark.parametrize("make", MAKERS)
def test_a_null_does_not_change_the_arity_of_a_relation(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    path = make(
        tmp_path / "t.db",
        "CREATE TABLE t (who TEXT, town TEXT, country TEXT)",
        "INSERT INTO t VALUES ('ann', 'oslo', 'norway'), ('bob', 'rome', NULL), ('cleo', NULL, NULL)",
    )
    kb = read(path)
    assert contents(kb) == ["t(ann, oslo, norway)."]
    assert notes(kb)["rows with NULL skipped"] == 2
    assert kb.relations["t"].arity == 3


@pytest.mark.parametrize("make", MAKERS)
def test_a_null_value_is_skipped(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    path = make(
        tmp_path / "x.db",
        "CREATE TABLE t (object TEXT, attribute TEXT, value DOUBLE)",
        "INSERT INTO t VALUES ('ann', 'age', 80), ('bob', 'age', NULL)",
    )
    kb = read(path)
    assert contents(kb) == ["age(ann) = 80.0"]
    assert notes(kb)["rows with NULL skipped"] == 1


def test_locations_count_skipped_rows(tmp_path: Path) -> None:
    path = make_duckdb(
        tmp_path / "x.db",
        "CREATE TABLE t (a TEXT, b TEXT)",
        "INSERT INTO t VALUES (NULL, 'x'), ('a', 'b'), ('', 'c')",
    )
    with pytest.raises(InputError, match="a name cannot be empty") as caught:
        read(path)
    assert caught.value.location
    assert caught.value.location.line == 3


# Schemas


def with_schemas(tmp_path: Path) -> Path:
    return make_duckdb(
        tmp_path / "x.duckdb",
        "CREATE SCHEMA s2",
        'CREATE SCHEMA "s 3"',
        "CREATE TABLE likes (a TEXT, b TEXT)",
        "INSERT INTO likes VALUES ('ann', 'bob')",
        "CREATE TABLE s2.likes (a TEXT, b TEXT)",
        "INSERT INTO s2.likes VALUES ('cleo', 'dan')",
        'CREATE TABLE "s 3"."old "" one" (a TEXT)',
        'INSERT INTO "s 3"."old "" one" VALUES (\'eve\')',
    )


def test_each_schema_is_read_once(tmp_path: Path) -> None:
    path = with_schemas(tmp_path)
    assert contents(read(path)) == ["likes(ann, bob).", "'old \" one'(eve).", "'s2.likes'(cleo, dan)."]
    assert contents(read(path, table="likes")) == ["likes(ann, bob)."]
    assert contents(read(path, table="main.likes")) == ["likes(ann, bob)."]
    assert contents(read(path, table="s2.likes")) == ["'s2.likes'(cleo, dan)."]
    assert contents(read(path, table='old " one')) == ["'old \" one'(eve)."]


def test_a_table_of_two_schemas_must_be_named_with_one(tmp_path: Path) -> None:
    path = with_schemas(tmp_path)
    with duckdb.connect(str(path)) as connection:
        connection.execute("DROP TABLE main.likes")
        connection.execute('CREATE TABLE "s 3".likes (a TEXT)')
    with pytest.raises(InputError) as caught:
        read(path, table="likes")
    assert caught.value.hint == "use one of s 3.likes, s2.likes"
    with pytest.raises(InputError) as caught:
        read(path, table="s2.like")
    assert caught.value.suggestions[0] == "s2.likes"


# Kinds of columns in SQLite


def test_dates_and_booleans_are_names_as_they_are_stored(tmp_path: Path) -> None:
    path = make_sqlite(
        tmp_path / "x.db",
        "CREATE TABLE met (who TEXT, day DATE, hour DATETIME, happy BOOLEAN)",
        "INSERT INTO met VALUES ('ann', '2010-01-01', '2010-01-01 12:00:00', 1)",
        "CREATE TABLE size (name TEXT, length NUMERIC, width DECIMAL(5,2))",
        "INSERT INTO size VALUES ('box', 5, 2.5)",
    )
    assert contents(read(path)) == [
        "met(ann, 2010-01-01, '2010-01-01 12:00:00', 1).",
        "length(box) = 5.0",
        "width(box) = 2.5",
    ]


def test_computed_columns_are_columns(tmp_path: Path) -> None:
    path = make_sqlite(
        tmp_path / "x.db",
        "CREATE TABLE t (a TEXT, b TEXT GENERATED ALWAYS AS (a || '!') VIRTUAL, c TEXT AS (a || '?') STORED)",
        "INSERT INTO t (a) VALUES ('x')",
    )
    assert contents(read(path)) == ["t(x, 'x!', 'x?')."]


def test_virtual_tables_are_not_read(tmp_path: Path) -> None:
    path = make_sqlite(
        tmp_path / "x.db",
        "CREATE VIRTUAL TABLE texts USING fts5(title, body)",
        "INSERT INTO texts VALUES ('a', 'b')",
        "CREATE TABLE person (name TEXT)",
        "INSERT INTO person VALUES ('ann')",
    )
    assert contents(read(path)) == ["person(ann)."]
    assert contents(read(path, table="texts")) == ["texts(a, b)."]


# Our own file


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE objects SET name = 'a' WHERE id = 1", "the name a occurs twice"),
        ("ALTER TABLE facts2 ALTER a1 TYPE VARCHAR", "the column a1 must hold integers"),
        ("ALTER TABLE facts2 ALTER a1 TYPE DOUBLE", "the column a1 must hold integers"),
        ("ALTER TABLE facts2 ALTER relation TYPE BOOLEAN", "the column relation must hold integers"),
        ("ALTER TABLE facts2 ALTER confidence TYPE VARCHAR", "the column confidence must hold numbers"),
        ("ALTER TABLE attribute_values ALTER value TYPE VARCHAR", "the column value must hold numbers"),
        ("ALTER TABLE objects ALTER id TYPE VARCHAR", "the column id must hold integers"),
        ("ALTER TABLE objects ALTER name TYPE BLOB USING name::BLOB", "the column name must hold text"),
        ("ALTER TABLE relations ALTER arity TYPE DOUBLE", "the column arity must hold integers"),
    ],
)
def test_changed_columns_of_our_file_are_errors(tmp_path: Path, statement: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(changed(tmp_path, statement))
    assert caught.value.message == message
    assert caught.value.location
    assert caught.value.location.text


def test_a_changed_file_has_a_note(tmp_path: Path) -> None:
    what = "fingerprint mismatch: the file has changed since it was written"
    path = changed(tmp_path, "UPDATE facts2 SET confidence = 0.5")
    assert notes(read(path))[what] == 1
    write(FAMILY, path)
    assert what not in notes(read(path))


def test_errors_in_our_file_show_the_row(tmp_path: Path) -> None:
    path = changed(tmp_path, "INSERT INTO facts2 VALUES (0, 1, 0, 1)")
    with pytest.raises(InputError, match="p has 1 argument, not 2") as caught:
        read(path)
    assert caught.value.location
    assert (caught.value.location.line, caught.value.location.text) == (2, "0\t1\t0\t1.0")
    assert caught.value.hint == f"its first fact is in {path}, table relations, line 1, column 1"


def test_a_file_that_is_open_elsewhere_is_an_error_with_a_hint(tmp_path: Path) -> None:
    write(FAMILY, tmp_path / "x.duckdb")
    with (
        duckdb.connect(str(tmp_path / "x.duckdb")),
        pytest.raises(InputError, match="cannot be read") as caught,
    ):
        read(tmp_path / "x.duckdb")
    assert caught.value.hint == "close the other connection to the file"


@pytest.mark.parametrize("name", ["x.duckdb", "x.parquet", "x.tsv", "x.facts.gz"])
def test_a_private_file_stays_private(tmp_path: Path, name: str) -> None:
    kb = KnowledgeBase.from_facts([("r", "a", "b")])
    (tmp_path / name).touch(0o600)
    (tmp_path / f"link-{name}").symlink_to(name)
    write(kb, tmp_path / f"link-{name}")
    assert (tmp_path / f"link-{name}").is_symlink()
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert read(tmp_path / name) == kb


def test_a_database_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(connection: duckdb.DuckDBPyConnection, _: list[int]) -> None:
        connection.execute("SELECT nothing")

    monkeypatch.setattr("gaifman.io.duckdb._create_views", fail)
    with pytest.raises(OutputError) as caught:
        write(FAMILY, tmp_path / "x.duckdb")
    assert caught.value.message.startswith(f"{tmp_path / 'x.duckdb'} cannot be written: Binder Error")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", [".duckdb", ".facts", ".parquet"])
def test_many_relations_are_read_fast(tmp_path: Path, end: str) -> None:
    kb = KnowledgeBase.from_facts(Fact(f"r{number}", ("a", "b")) for number in range(20_000))
    write(kb, tmp_path / f"x{end}")
    with cpu_limit(30):  # a few seconds; minutes where each relation is read by itself
        assert read(tmp_path / f"x{end}") == kb


@pytest.mark.parametrize("end", [".duckdb", ".parquet"])
def test_progress_of_databases(tmp_path: Path, end: str) -> None:
    write(FAMILY, tmp_path / f"x{end}")
    told: list[tuple[str, int, int | None]] = []
    read(tmp_path / f"x{end}", progress=lambda *news: told.append(news))
    assert told
    assert all(phase.startswith("reading") and total is None for phase, _, total in told)


def test_a_database_whose_checksum_starts_as_gzip_does_is_not_decompressed(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    data = b"\x1f\x8b" + bytes(6) + b"DUCK" + bytes(4096)
    path.write_bytes(data)
    source = InputFile.from_path(path)
    assert detect_format(source) == "duckdb"
    with uncompressed_path(source) as opened:
        assert opened == path
