"""URLs of databases, without a server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli_runner import json_output, run
from database_files import contents, make_sqlite
from gaifman import InputError, read
from gaifman.io.database_urls import database_error, hide_password, url_to_record
from gaifman.io.files import is_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:secret@host:5432/db", "postgresql://ann@host:5432/db"),
        ("postgres://ann@host/db", "postgres://ann@host/db"),
        ("postgresql://ann:se/cr@et@host/db?sslmode=require", "postgresql://ann@host/db?sslmode=require"),
        ("postgresql://host/db?user=ann&password=secret&x=1", "postgresql://host/db?user=ann&x=1"),
        ("postgresql+psycopg://ann:secret@host/db", "postgresql+psycopg://ann@host/db"),
        ("mysql://ann:secret@host", "mysql://ann@host"),
        ("sqlite:///a@b.db", "sqlite:///a@b.db"),
        ("a:b@c", "a:b@c"),
    ],
)
def test_passwords_are_hidden(url: str, shown: str) -> None:
    assert hide_password(url) == shown


def test_what_is_a_url() -> None:
    assert is_url("sqlite:///x.db")
    assert not is_url("x.db")
    assert not is_url(Path("postgresql://x/y"))
    assert url_to_record("postgresql://ann:secret@host/db") == "postgresql://ann@host/db"


def test_an_sqlite_url_reads_as_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_sqlite(
        tmp_path / "it's ☃ 100%.db",
        "CREATE TABLE likes (a TEXT, b TEXT)",
        "CREATE TABLE size (name TEXT, metres REAL, odd NUMERIC)",
        "CREATE TABLE mixed (a, b)",
        "INSERT INTO likes VALUES ('ann', '☃'), (NULL, 'x'), ('=', 'z')",
        "INSERT INTO size VALUES ('a', 0.1, 1e300), ('b', NULL, 3), ('c', 1e-320, NULL)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) "
        "INSERT INTO mixed SELECT CASE WHEN i < 25000 THEN NULL ELSE i END, i / 2.0 FROM n",
    )
    monkeypatch.chdir(tmp_path)
    expected = read(path)
    assert len(expected) == 2 + 5001
    assert read("sqlite:///it's%20%E2%98%83%20100%25.db") == expected
    url = f"sqlite:///{str(path).replace('%', '%25')}"
    assert contents(read(url, table="likes")) == ["=(=, z)."] or read(url) == expected
    assert url_to_record(url).startswith("sqlite:////")
    assert read(url_to_record(url)) == expected


def test_commands_take_a_url(tmp_path: Path) -> None:
    make_sqlite(tmp_path / "x.db", "CREATE TABLE likes (a TEXT, b TEXT)", "INSERT INTO likes VALUES ('x', 'y')")
    assert json_output("info", f"sqlite:///{tmp_path}/x.db")["facts"] == 1
    done = run("info", f"sqlite:///{tmp_path}/y.db")
    assert done.returncode == 1
    assert "there is no file" in done.stderr
    assert "did you mean: x.db" in done.stderr


def test_a_run_with_a_relative_url_is_resumed_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    rows = ", ".join(f"('a{i}', 'b{i % 4}')" for i in range(30))
    make_sqlite(tmp_path / "x.db", "CREATE TABLE likes (a TEXT, b TEXT)", f"INSERT INTO likes VALUES {rows}")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("gaifman.jobs.train.run_training", interrupt)
        words = ("train", "sqlite:///x.db", "-o", "m", "--base", "mlp", "--option", "epochs=1", "--min-examples", "5")
        assert run(*words).returncode == 130
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = run("resume", "../m")
    assert done.returncode == 0, done.stderr
    assert f"gaifman answer ../m sqlite:///{tmp_path}/x.db" in done.stderr


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://ann:secret@host/db", "mysql://ann@host/db: there is no reader for mysql://\nhint: URLs of databases"),
        ("postgrsql://ann@host/db", "there is no reader for postgrsql://\ndid you mean: postgresql"),
        ("https://example.org/x.tsv", "hint: download the file and give its name"),
        ("file:///x.tsv", "hint: give the name of the file"),
        ("sqlite://x.db", "sqlite://x.db names no file\nhint: write sqlite:///family.db"),
        ("sqlite:///nowhere.db", "there is no file nowhere.db"),
        ("postgresql://ann@127.0.0.1:1/x?bogus=1", "invalid URI query parameter"),
    ],
)
def test_urls_that_cannot_be_read(url: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(url)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("hello\n" * 100)
    with pytest.raises(InputError, match=r"x.db cannot be read: .*not a database"):
        read(f"sqlite:///{tmp_path}/x.db")


def test_formats_are_for_files() -> None:
    with pytest.raises(InputError, match="has no format; format=triples is for files"):
        read("sqlite:///x.db", format="triples")


@pytest.mark.parametrize(
    ("url", "more"), [("postgresql://ann:secret@host/db", ""), ("sqlite:///x.db", "or give the name")]
)
def test_a_missing_driver(url: str, more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_sqlite(tmp_path / "x.db", "CREATE TABLE likes (a TEXT, b TEXT)")
    monkeypatch.setitem(sys.modules, "adbc_driver_manager", None)
    with pytest.raises(
        InputError, match=r"driver is not installed\nhint: pip install 'gaifman\[databases\]'"
    ) as caught:
        read(url)
    assert more in caught.value.hint
    assert "secret" not in str(caught.value)


def test_a_driver_that_repeats_a_password() -> None:
    error = database_error("postgresql://ann@host/db", ValueError('IO: [libpq] invalid port "secret"'), {"secret"})
    assert str(error) == 'postgresql://ann@host/db cannot be read: invalid port "…"'
