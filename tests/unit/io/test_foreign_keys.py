"""Primary and foreign keys of databases, read as relations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from database_files import contents, make_duckdb, make_sqlite
from gaifman import KnowledgeBase, read
from gaifman.io.foreign_keys import ForeignKey, KeySchema, TableKeys

Maker = Callable[..., Path]


@pytest.fixture(params=[make_sqlite, make_duckdb])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., KnowledgeBase]:
    """Read a database of either kind, which statements make."""

    def make(*statements: str, table: str | None = None) -> KnowledgeBase:
        path = tmp_path / "x.db"
        path.unlink(missing_ok=True)
        request.param(path, *statements)
        return read(path, table=table)

    return make


Database = Callable[..., KnowledgeBase]
DEPT = ("CREATE TABLE dept (id INTEGER PRIMARY KEY, title VARCHAR)", "INSERT INTO dept VALUES (1, 'Sales')")


def test_employees_and_departments(database: Database) -> None:
    kb = database(
        *DEPT,
        "CREATE TABLE employee (id INTEGER PRIMARY KEY, name VARCHAR, salary INTEGER, rating DOUBLE, active BOOLEAN, "
        "dept_id INTEGER REFERENCES dept (id))",
        "INSERT INTO employee VALUES (7, 'ann', 5000, 0.5, TRUE, 1), (8, '', NULL, NULL, FALSE, NULL)",
    )
    assert contents(kb) == [
        "active('employee/7').",
        "dept('employee/7', 'dept/1').",
        "employee('employee/7').",
        "employee('employee/8').",
        "is_dept('dept/1').",
        "name('employee/7', ann).",
        "title('dept/1', Sales).",
        "rating(employee/7) = 0.5",
        "salary(employee/7) = 5000.0",
    ]
    assert "2 tables read by their keys" in " ".join(map(str, kb.notes))


def test_a_link_table_is_a_relation(database: Database) -> None:
    kb = database(
        *DEPT,
        "CREATE TABLE person (code VARCHAR PRIMARY KEY, age INTEGER)",
        "CREATE TABLE works_in (person VARCHAR REFERENCES person (code), dept INTEGER REFERENCES dept (id), "
        "since DATE, hours INTEGER, confidence DOUBLE, PRIMARY KEY (person, dept))",
        "INSERT INTO person VALUES ('ann', 30), ('bob', 40)",
        "INSERT INTO works_in VALUES ('ann', 1, '2000-01-01', 5, 0.25), ('bob', 1, NULL, NULL, NULL)",
    )
    assert contents(kb)[-4:] == [
        "0.25::works_in(ann, 'dept/1').",
        "works_in(bob, 'dept/1').",
        "age(ann) = 30.0",
        "age(bob) = 40.0",
    ]
    assert "2 columns of other kinds skipped" in " ".join(map(str, kb.notes))  # the pair has no attributes


@pytest.mark.parametrize(
    ("columns", "links"),
    [
        ("a INTEGER REFERENCES dept (id), b INTEGER REFERENCES dept (id)", True),
        ("a INTEGER REFERENCES dept (id), b INTEGER REFERENCES dept (id), PRIMARY KEY (b, a)", True),
        ("id INTEGER PRIMARY KEY, a INTEGER REFERENCES dept (id), b INTEGER REFERENCES dept (id), UNIQUE (a, b)", True),
        ("id INTEGER PRIMARY KEY, a INTEGER REFERENCES dept (id), b INTEGER REFERENCES dept (id)", False),
    ],
)
def test_which_tables_are_link_tables(database: Database, columns: str, links: bool) -> None:
    names = "(id, a, b) VALUES (5, 1, 2)" if columns.startswith("id") else "(a, b) VALUES (1, 2)"
    kb = database(
        *DEPT, "INSERT INTO dept VALUES (2, 'x')", f"CREATE TABLE near ({columns})", f"INSERT INTO near {names}"
    )
    assert (("near", "dept/1", "dept/2") in kb) == links
    assert (("a", "near/5", "dept/1") in kb) != links


def test_a_key_that_is_a_foreign_key_names_the_other_object(database: Database) -> None:
    kb = database(
        *DEPT,
        "CREATE TABLE shop (id INTEGER PRIMARY KEY REFERENCES dept (id), sales INTEGER)",
        "CREATE TABLE kiosk (id INTEGER PRIMARY KEY REFERENCES shop (id), street VARCHAR)",
        "INSERT INTO shop VALUES (1, 9)",
        "INSERT INTO kiosk VALUES (1, 'High Street')",
    )
    assert ("shop", "dept/1") in kb
    assert ("street", "dept/1", "High Street") in kb
    assert kb.value("sales", "dept/1") == 9


def test_keys_of_several_columns(database: Database) -> None:
    kb = database(
        *DEPT,
        "CREATE TABLE seat (dept_id INTEGER REFERENCES dept (id), line VARCHAR, price INTEGER, "
        "PRIMARY KEY (dept_id, line))",
        "CREATE TABLE guest (name VARCHAR PRIMARY KEY, place INTEGER, line VARCHAR, "
        "FOREIGN KEY (place, line) REFERENCES seat (dept_id, line))",
        "INSERT INTO seat VALUES (1, 'a/b', 30)",
        "INSERT INTO guest VALUES ('ann', 1, 'a/b'), ('bob', 1, NULL)",
    )
    assert ("is_seat", "seat/1/a%2Fb") in kb
    assert ("dept", "seat/1/a%2Fb", "dept/1") in kb
    assert [*map(str, kb.facts("seat"))] == ["seat(ann, 'seat/1/a%2Fb')."]
    assert ("guest", "bob") in kb


def test_a_key_that_foreign_keys_do_not_refer_to(database: Database) -> None:
    kb = database(
        "CREATE TABLE land (id INTEGER PRIMARY KEY, code VARCHAR UNIQUE, area INTEGER)",
        "CREATE TABLE town (id INTEGER PRIMARY KEY, land VARCHAR REFERENCES land (code))",
        "INSERT INTO land VALUES (1, 'DE', 357)",
        "INSERT INTO town VALUES (1, 'DE')",
    )
    assert contents(kb) == ["is_land(DE).", "land('town/1', DE).", "town('town/1').", "area(DE) = 357.0"]


def test_two_foreign_keys_to_one_table_and_a_loop(database: Database) -> None:
    kb = database(
        "CREATE TABLE person (id INTEGER PRIMARY KEY, mother_id INTEGER REFERENCES person (id), "
        "fatherId INTEGER REFERENCES person (id), father VARCHAR)",
        "INSERT INTO person VALUES (1, NULL, NULL, NULL)",
        "INSERT INTO person VALUES (2, 1, 1, 'x')",
    )
    assert contents(kb) == [
        "father('person/2', x).",
        "fatherId('person/2', 'person/1').",
        "mother('person/2', 'person/1').",
        "person('person/1').",
        "person('person/2').",
    ]


def test_names_mean_one_thing(database: Database) -> None:
    kb = database(
        "CREATE TABLE likes (a VARCHAR, b VARCHAR, c VARCHAR)",
        "CREATE TABLE x (id INTEGER PRIMARY KEY, likes VARCHAR, done BOOLEAN)",
        "CREATE TABLE y (id INTEGER PRIMARY KEY, done VARCHAR, x INTEGER)",
        "INSERT INTO likes VALUES ('p', 'q', 'r')",
        "INSERT INTO x VALUES (1, 'tea', TRUE)",
        "INSERT INTO y VALUES (1, 'no', 5)",
    )
    assert contents(kb) == [
        "is_x('x/1').",
        "likes(p, q, r).",
        "'x.done'('x/1').",
        "'x.likes'('x/1', tea).",
        "y('y/1').",
        "'y.done'('y/1', no).",
        "x(y/1) = 5.0",
    ]


def test_a_number_of_rows_beside_facts_is_skipped(database: Database) -> None:
    kb = database(
        "CREATE TABLE facts (id INTEGER PRIMARY KEY, head VARCHAR, relation VARCHAR, tail VARCHAR)",
        "INSERT INTO facts VALUES (1, 'ann', 'parent', 'bob')",
    )
    assert contents(kb) == ["parent(ann, bob)."]
    assert "column that numbers the rows skipped" in " ".join(map(str, kb.notes))


def test_tables_with_a_key_that_mean_the_same_as_before(database: Database) -> None:
    kb = database(
        "CREATE TABLE age (person VARCHAR PRIMARY KEY, years DOUBLE)",
        "CREATE TABLE capital (land VARCHAR PRIMARY KEY, town VARCHAR)",
        "CREATE TABLE likes (a VARCHAR, b VARCHAR, PRIMARY KEY (a, b))",
        "INSERT INTO age VALUES ('ann', 80)",
        "INSERT INTO capital VALUES ('france', 'paris')",
        "INSERT INTO likes VALUES ('ann', 'bob')",
    )
    assert contents(kb) == ["capital(france, paris).", "likes(ann, bob).", "years(ann) = 80.0"]


def test_one_table_keeps_the_names_of_the_whole_database(database: Database) -> None:
    statements = [
        *DEPT,
        "CREATE TABLE employee (id INTEGER PRIMARY KEY, dept_id INTEGER REFERENCES dept (id))",
        "INSERT INTO employee VALUES (7, 1)",
    ]
    assert contents(database(*statements, table="dept")) == ["is_dept('dept/1').", "title('dept/1', Sales)."]
    assert contents(database(*statements, table="employee")) == [
        "dept('employee/7', 'dept/1').",
        "employee('employee/7').",
    ]


def test_sqlite_ignores_capitals_and_may_leave_columns_out(tmp_path: Path) -> None:
    path = make_sqlite(
        tmp_path / "x.db",
        "CREATE TABLE Dept (Id INTEGER PRIMARY KEY, Title TEXT)",
        "CREATE TABLE employee (id INTEGER PRIMARY KEY, DEPT_ID INTEGER, gone_id INTEGER REFERENCES gone, "
        "FOREIGN KEY (dept_id) REFERENCES DEPT)",
        "INSERT INTO Dept VALUES (1, 'Sales')",
        "INSERT INTO employee VALUES (7, 1, 4), (8, 99, NULL)",
    )
    assert contents(read(path)) == [
        "DEPT('employee/7', 'Dept/1').",
        "DEPT('employee/8', 'Dept/99').",  # SQLite checks foreign keys on request only
        "Dept('Dept/1').",
        "Title('Dept/1', Sales).",
        "employee('employee/7').",
        "employee('employee/8').",
        "gone_id(employee/7) = 4.0",
    ]


def test_rows_without_a_key_are_skipped_and_noted(tmp_path: Path) -> None:
    path = make_sqlite(
        tmp_path / "x.db",
        "CREATE TABLE person (code TEXT PRIMARY KEY, age INTEGER, town TEXT)",  # SQLite allows NULL in such a key
        "INSERT INTO person VALUES ('ann', 30, 'rome'), (NULL, 40, 'rome'), ('', 40, 'rome')",
    )
    kb = read(path)
    assert contents(kb) == ["person(ann).", "town(ann, rome).", "age(ann) = 30.0"]
    assert [str(note) for note in kb.notes] == [
        f"1 table read by its keys, such as {path}, table person: person, age, town",
        f"2 rows with NULL skipped, such as {path}, table person",
        f"1 file read as sqlite, such as {path}",
    ]


def test_many_rows_come_in_batches(database: Database) -> None:
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) SELECT i"
    kb = database(
        "CREATE TABLE node (id INTEGER PRIMARY KEY)",
        "CREATE TABLE item (id INTEGER PRIMARY KEY, node_id INTEGER REFERENCES node (id))",
        f"INSERT INTO node {rows} FROM n",
        f"INSERT INTO item {rows}, i FROM n",
    )
    assert len([*kb.facts("node")]) == 30_000
    assert ("node", "item/29999", "node/29999") in kb


def test_keys_that_form_a_loop_have_an_end() -> None:
    loop = [
        TableKeys("a", {"id": "integer"}, ("id",), (ForeignKey(("id",), "b"),)),
        TableKeys("b", {"id": "integer"}, ("id",), (ForeignKey(("id",), "a"),)),
    ]
    plan = KeySchema(loop).plan("a")
    assert plan is not None
    assert plan.columns == ("id",)
