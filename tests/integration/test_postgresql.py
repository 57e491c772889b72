"""Read PostgreSQL databases of a real server, which these tests start."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import duckdb
import pytest

import gaifman
from cli_runner import json_output, output, run
from database_files import contents
from gaifman import InputError, Limits, read
from postgres import PASSWORD, READER, Server, server
from processes import children

COMPANY = (
    "CREATE TABLE dept (id INTEGER PRIMARY KEY, title VARCHAR, budget DOUBLE PRECISION, open BOOLEAN)",
    "CREATE TABLE country (code VARCHAR PRIMARY KEY, people BIGINT, area DOUBLE PRECISION)",
    """CREATE TABLE employee (id INTEGER PRIMARY KEY, name VARCHAR, salary DOUBLE PRECISION,
    dept_id INTEGER REFERENCES dept (id), boss_id INTEGER REFERENCES employee (id),
    country VARCHAR REFERENCES country (code))""",
    "CREATE TABLE project (id INTEGER PRIMARY KEY, topic VARCHAR, size INTEGER)",
    """CREATE TABLE works_on (employee_id INTEGER REFERENCES employee (id),
    project_id INTEGER REFERENCES project (id), PRIMARY KEY (employee_id, project_id))""",
    "CREATE TABLE likes (who VARCHAR, what VARCHAR)",
    "INSERT INTO dept VALUES (1, 'Sales', 0.1, TRUE), (2, '', NULL, FALSE)",
    "INSERT INTO country VALUES ('DE', 80, 357.5), ('FR', 68, NULL)",
    "INSERT INTO employee VALUES (7, 'ann', 1e-7, 1, NULL, 'DE')",
    "INSERT INTO employee VALUES (8, 'bob ☃', 2.5, 2, 7, NULL)",
    "INSERT INTO project VALUES (1, 'x', 3)",
    "INSERT INTO works_on VALUES (7, 1), (8, 1)",
    "INSERT INTO likes VALUES ('ann', 'tea'), (NULL, 'tea')",
)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    """One server for all tests of this file."""
    with server() as found:
        yield found


def test_a_database_reads_the_same_from_postgresql_sqlite_and_duckdb(postgres: Server, tmp_path: Path) -> None:
    url = postgres.create_database("company", *COMPANY)
    with closing(sqlite3.connect(tmp_path / "company.db")) as connection:
        for statement in COMPANY:
            connection.execute(statement)
        connection.commit()
    with duckdb.connect(str(tmp_path / "company.duckdb")) as connection:
        for statement in COMPANY:
            connection.execute(statement)
    kb = read(url)
    assert contents(kb) == contents(read(tmp_path / "company.db"))
    assert kb == read(tmp_path / "company.duckdb") == read(f"sqlite:///{tmp_path}/company.db")
    assert ("boss", "employee/8", "employee/7") in kb
    assert ("works_on", "employee/7", "project/1") in kb
    assert kb.value("salary", "employee/7") == 1e-7


def test_one_table_of_a_schema(postgres: Server) -> None:
    url = postgres.create_database(
        "schemas",
        "CREATE SCHEMA old",
        "CREATE TABLE likes (a TEXT, b TEXT)",
        "CREATE TABLE old.likes (a TEXT, b TEXT)",
        "CREATE TABLE old.hates (a TEXT, b TEXT)",
        "CREATE VIEW fans AS SELECT a, b FROM likes",
        "CREATE TABLE cut (a TEXT, b TEXT) PARTITION BY LIST (a)",
        "CREATE TABLE cut_x PARTITION OF cut FOR VALUES IN ('x')",
        "INSERT INTO likes VALUES ('ann', 'bob')",
        "INSERT INTO old.likes VALUES ('x', 'y')",
        "INSERT INTO old.hates VALUES ('x', 'z')",
        "INSERT INTO cut VALUES ('x', 'q')",
    )
    assert contents(read(url)) == ["cut(x, q).", "hates(x, z).", "likes(ann, bob).", "'old.likes'(x, y)."]
    assert contents(read(url, table="likes")) == ["likes(ann, bob)."]
    assert contents(read(url, table="old.likes")) == ["'old.likes'(x, y)."]
    assert contents(read(url, table="fans")) == ["fans(ann, bob)."]
    with pytest.raises(InputError, match=r"has no table old.like\n.*did you mean: old.likes"):
        read(url, table="old.like")


def test_kinds_of_columns(postgres: Server) -> None:
    url = postgres.create_database(
        "kinds",
        "CREATE TYPE mood AS ENUM ('glad', 'sad')",
        "CREATE DOMAIN score AS NUMERIC(5, 2)",
        "CREATE TABLE person (id UUID PRIMARY KEY, name CHAR(5), mood mood, score score, born DATE, tags TEXT[], "
        "photo BYTEA, awake BOOLEAN, size REAL, odd DOUBLE PRECISION)",
        "INSERT INTO person VALUES ('10eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ann', 'glad', 1.25, '2000-01-01', "
        "'{a,b}', 'x', TRUE, 0.5, 'NaN')",
    )
    kb = read(url)
    assert contents(kb) == [
        "awake(10eebc99-9c0b-4ef8-bb6d-6bb9bd380a11).",
        "mood(10eebc99-9c0b-4ef8-bb6d-6bb9bd380a11, glad).",
        "name(10eebc99-9c0b-4ef8-bb6d-6bb9bd380a11, ann).",
        "person(10eebc99-9c0b-4ef8-bb6d-6bb9bd380a11).",
        "score(10eebc99-9c0b-4ef8-bb6d-6bb9bd380a11) = 1.25",
        "size(10eebc99-9c0b-4ef8-bb6d-6bb9bd380a11) = 0.5",
    ]
    (note,) = [note for note in kb.notes if "other kinds" in note.text]
    assert note.count == 3


def test_triples_and_names_that_need_quotes(postgres: Server) -> None:
    url = postgres.create_database(
        "triples",
        'CREATE TABLE "my ""facts""" ("Head" TEXT, relation TEXT, tail INTEGER, confidence NUMERIC)',
        "INSERT INTO \"my \"\"facts\"\"\" VALUES ('o''hara', 'r', 5, 0.25), ('x', 'r', 6, NULL)",
    )
    assert contents(read(url)) == [r"0.25::r('o\'hara', 5).", "r(x, 6)."]


def test_a_password_appears_nowhere(postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres.create_database(
        "secret",
        "CREATE TABLE likes (a TEXT, b TEXT)",
        "INSERT INTO likes SELECT 'p' || i, 'q' || i % 5 FROM generate_series(1, 40) i",
        f"GRANT SELECT ON likes TO {READER}",
    )
    monkeypatch.chdir(tmp_path)
    raw, coded = f"127.0.0.1:{postgres.port}/secret", quote(PASSWORD, safe="")
    url = f"postgresql://{READER}:{coded}@{raw}"
    kb = read(url)
    assert len(kb) == 40
    assert any(f"{READER}@127.0.0.1" in note.example for note in kb.notes)
    texts = [str(kb.notes), repr(kb)]
    for wrong in (f"postgresql://{READER}:{coded}x@{raw}", f"{url}nothing", f"{url}?port=1"):
        with pytest.raises(InputError) as caught:
            read(wrong)
        texts.append(f"{caught.value} {caught.value.as_dict()}")
    with pytest.raises(InputError, match="set PGPASSWORD"):
        read(f"postgresql://{READER}:wrong@{raw}")
    done = run("train", url, "-o", "m.gaifman", "--base", "mlp", "--option", "epochs=1", "--min-examples", "5")
    texts += [done.stdout, done.stderr]
    assert done.returncode == 0, done.stderr
    texts += [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    for text in texts:
        assert PASSWORD not in text
        assert coded not in text
        assert "p@ss" not in text


def test_a_run_records_no_password_and_is_resumed_with_one_of_the_environment(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.create_database(
        "stopped",
        "CREATE TABLE likes (a TEXT, b TEXT)",
        "INSERT INTO likes SELECT 'p' || i, 'q' || i % 5 FROM generate_series(1, 40) i",
        f"GRANT SELECT ON likes TO {READER}",
    )
    monkeypatch.chdir(tmp_path)
    coded = quote(PASSWORD, safe="")
    url = f"postgresql://{READER}:{coded}@127.0.0.1:{postgres.port}/stopped"
    with monkeypatch.context() as patched:
        patched.setattr("gaifman.jobs.train.run_training", interrupt)
        words = ("train", url, "-o", "m.gaifman", f"--with={url}", "--base", "mlp", "--option", "epochs=1")
        stopped = run(*words, "--min-examples", "5")
    assert stopped.returncode == 130
    for text in (stopped.stderr, *(path.read_text() for path in (tmp_path / "m.gaifman.run").iterdir())):
        assert coded not in text
        assert "p@ss" not in text
    without = run("resume", "m.gaifman")
    assert without.returncode == 1
    assert "set PGPASSWORD" in without.stderr
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert run("resume", "m.gaifman").returncode == 0


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_password_of_the_environment(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres.create_database(
        "quiet",
        "CREATE TABLE likes (a TEXT, b TEXT)",
        "INSERT INTO likes VALUES ('x', 'y')",
        f"GRANT SELECT ON likes TO {READER}",
    )
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert len(read(f"postgresql://{READER}@127.0.0.1:{postgres.port}/quiet")) == 1


def test_only_what_the_user_may_read(postgres: Server) -> None:
    postgres.create_database(
        "locked",
        "CREATE TABLE likes (a TEXT, b TEXT)",
        "CREATE TABLE hidden (a TEXT, b TEXT)",
        "INSERT INTO likes VALUES ('x', 'y')",
        f"GRANT SELECT ON likes TO {READER}",
    )
    url = f"postgresql://{READER}:{quote(PASSWORD, safe='')}@127.0.0.1:{postgres.port}/locked"
    kb = read(url)
    assert contents(kb) == ["likes(x, y)."]
    assert "tables without permission to read skipped" in [note.text for note in kb.notes]


def test_a_view_that_never_answers_is_stopped(postgres: Server) -> None:
    url = postgres.create_database(
        "slow", "CREATE VIEW slow AS SELECT 'a'::text AS a, pg_sleep(600)::text AS b, 'c'::text AS c"
    )
    with pytest.raises(InputError, match="table slow: no rows within 1 seconds"):
        read(url, table="slow", limits=Limits(database_seconds=1))


def test_a_bad_value_is_one_error_and_closes_the_connection(postgres: Server) -> None:
    url = postgres.create_database(
        "bad",
        "CREATE TABLE facts (head TEXT, relation TEXT, tail TEXT)",
        "INSERT INTO facts SELECT 'a', 'r', 'b' || i FROM generate_series(1, 50000) i",
        "INSERT INTO facts VALUES ('a', '', 'c')",
        "INSERT INTO facts SELECT 'a', 'r', 'd' || i FROM generate_series(1, 50000) i",
    )
    with pytest.raises(InputError, match="line 50001, column 3: a name cannot be empty"):
        read(url)
    postgres.execute('ALTER DATABASE "bad" RENAME TO "was_bad"')  # fails while someone is connected


def test_views_and_functions_cannot_write(postgres: Server) -> None:
    url = postgres.create_database(
        "trap",
        "CREATE TABLE log (a TEXT, b TEXT)",
        "CREATE FUNCTION put() RETURNS TEXT LANGUAGE sql AS $$ INSERT INTO log VALUES ('x', 'y'); SELECT 'a' $$",
        "CREATE VIEW trap AS SELECT put() AS a, 'b'::text AS b",
    )
    with pytest.raises(InputError, match="cannot execute INSERT in a read-only transaction"):
        read(url, table="trap")


def test_an_empty_database(postgres: Server) -> None:
    with pytest.raises(InputError, match="has no table\nhint: read a view with table="):
        read(postgres.create_database("empty"))


def test_commands_take_a_url(postgres: Server) -> None:
    url = postgres.create_database("company", *COMPANY)
    assert json_output("info", url)["by_relation"]["dept"] == {"arity": 2, "facts": 2}
    assert "employee/8" in output("query", url, "boss(?who, ?boss)")
    done = run("info", url, "--table", "like")
    assert done.returncode == 1
    assert "did you mean: likes" in done.stderr


def test_a_server_is_stopped_when_a_test_fails() -> None:
    before = children()
    folders: list[Path] = []

    def fail() -> None:
        with server() as found:
            folders.append(found.folder)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert children() == before
    assert not folders[0].exists()


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"ann@127.0.0.1:1/x cannot be read: .*refused") as caught:
        gaifman.read("postgresql://ann:secret@127.0.0.1:1/x")
    assert "secret" not in str(caught.value)
