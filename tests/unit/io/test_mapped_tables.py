"""Tables that are read by a mapping: the same facts from text files, databases and lists of rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.config import Limits
from gaifman.errors import InputError
from gaifman.io import read
from gaifman.io.mapped_tables import ListBatch, TableColumns, TableMapper
from gaifman.io.mapping import make_mapping
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.knowledge_base import KnowledgeBase

STAFF = "employee,boss,dept,age\nann,bob,sales,34\nbob,,hr,\n"


def contents(kb: KnowledgeBase) -> list[str]:
    return [str(fact) for fact in kb.facts()] + [f"{name}({one}) = {value:g}" for name, one, value in kb.values()]


def read_text(folder: Path, text: str, name: str = "staff.csv", **how: Any) -> KnowledgeBase:
    (folder / name).write_text(text)
    return read(folder / name, **how)


def notes(kb: KnowledgeBase) -> list[str]:
    return [str(note) for note in kb.notes]


@pytest.mark.parametrize(
    ("text", "how", "expected"),
    [
        (STAFF, {"map": "employee works_in dept"}, ["works_in(ann, sales).", "works_in(bob, hr)."]),
        (STAFF, {"map": ["employee boss boss"]}, ["boss(ann, bob)."]),
        (STAFF, {"map": ["employee is person", "employee age"]}, ["person(ann).", "person(bob).", "age(ann) = 34"]),
        (STAFF, {"map": "employee is [dept]"}, ["hr(bob).", "sales(ann)."]),
        (STAFF, {"map": "employee years = age"}, ["years(ann) = 34"]),
        (STAFF, {"map": "knows(employee, boss, dept)"}, ["knows(ann, bob, sales)."]),
        (STAFF, {"map": "employee:p boss boss:p"}, ["boss('p/ann', 'p/bob')."]),
        (STAFF, {"map": "EMPLOYEE works_in Dept"}, ["works_in(ann, sales).", "works_in(bob, hr)."]),
        (STAFF, {"map": "staff.employee in staff.dept"}, ["in(ann, sales).", "in(bob, hr)."]),
        (
            STAFF,
            {"wide": True, "id": "employee"},
            ["boss(ann, bob).", "dept(ann, sales).", "dept(bob, hr).", "age(ann) = 34"],
        ),
        (STAFF, {"wide": True, "ignore": ["boss", "age"]}, ["dept(ann, sales).", "dept(bob, hr)."]),
        (
            STAFF,
            {"wide": True, "map": "employee works_in dept", "ignore": "age"},
            ["boss(ann, bob).", "works_in(ann, sales).", "works_in(bob, hr)."],
        ),
        (
            "user_id,item_id,rating\n7,7,5\n7,8,3\n",
            {"map": "user_id rated item_id"},
            ["rated('user/7', 'item/7').", "rated('user/7', 'item/8')."],
        ),
        ("user_id,item_id\n7,7\n", {"map": "user_id:- rated item_id:-"}, ["rated(7, 7)."]),
        ("employee,boss\n7,8\n", {"map": "employee:person boss boss:person"}, ["boss('person/7', 'person/8')."]),
        (
            "employee,boss\n7,8\n",
            {"map": ["employee:person boss boss:person", "employee is manager"]},
            ["boss('person/7', 'person/8').", "manager('person/7')."],
        ),
        ("id,boss_id\n7,8.0\n8,\n", {"wide": True}, ["boss('staff/7', 'boss/8')."]),
        ("h,link,t\n1,likes,1\n", {"map": "h [link] t"}, ["likes(1, 1)."]),
        ("a_id,link,b_id\n1,likes,1\n", {"map": "a_id [link] b_id"}, ["likes('a/1', 'b/1')."]),
        ("a,b,w\nx,y,0.5\nx,z,\n", {"map": "w :: a likes b"}, ["0.5::likes(x, y).", "likes(x, z)."]),
        (
            "name,speaks\nann,french; dutch;;french\nbob,\n",
            {"map": "name speaks speaks", "separator": ";"},
            ["speaks(ann, dutch).", "speaks(ann, french)."],
        ),
        (
            "title;by\nA | B;ann | bob\n",
            {"wide": True, "separator": "|"},
            ["by('A | B', ann).", "by('A | B', bob)."],
        ),
        ("Full Name,Job\n ann , cook \n", {"map": 'full_name job "Job"'}, ["job(ann, cook)."]),
        ("ann,bob\nbob,cleo\n", {"map": "1 boss 2"}, ["boss(ann, bob).", "boss(bob, cleo)."]),
        ("a,b\nc,d\n", {"map": "1 boss 2", "header": False}, ["boss(a, b).", "boss(c, d)."]),
        ("a,b\nc,d\n", {"map": "1 boss 2", "header": True}, ["boss(c, d)."]),
        (",name,dept\n0,ann,hr\n", {"wide": True, "id": "name"}, ["dept(ann, hr)."]),
        ('a\tb\nx\t"y, z"\n', {"map": "a r b"}, ["r(x, 'y, z')."]),
        ('\ufeffname;city\r\nann;"Köln;\r\nRhein"\r\n', {"wide": True}, ["city(ann, 'Köln;\\r\\nRhein')."]),
    ],
)
def test_tables_become_facts(tmp_path: Path, text: str, how: dict[str, Any], expected: list[str]) -> None:
    assert contents(read_text(tmp_path, text, **how)) == expected


def test_the_reading_is_in_the_notes(tmp_path: Path) -> None:
    kb = read_text(tmp_path, "user_id,item,age,x\n7,book,30,\n8,,,\n", wide=True, ignore="x")
    path = tmp_path / "staff.csv"
    assert notes(kb) == [
        f"1 table read with one object per row, such as {path}",
        f"1 column not read, such as {path}: x",
        "1 column whose objects are named by their kind, such as user/7 for 7 in user_id",
        "1 fact item(user_id, item), such as item('user/7', book)",
        "1 value age(user_id) = age, such as age('user/7') = 30",
        f"2 empty cells skipped: nothing is known, such as {path}, line 3, column item",
        f"1 file read as table, such as {path}",
    ]
    assert list(kb.objects) == ["book", "user/7", "user/8"]


@pytest.mark.parametrize(
    ("text", "how", "message", "place"),
    [
        (STAFF, {"map": "employee works_in dpt"}, "staff.csv has no column dpt", ("mapping", 1, 19)),
        (STAFF, {"map": ["employee age", "employe is x"]}, "staff.csv has no column employe", ("mapping", 1, 1)),
        (STAFF, {"wide": True, "id": "employe"}, "staff.csv has no column employe", ("id", 1, 1)),
        (STAFF, {"wide": True, "ignore": "ages"}, "staff.csv has no column ages", ("ignore", 1, 1)),
        (STAFF, {"map": "employee dept"}, "not a finite number: 'sales'", ("staff.csv", 2, 9)),
        (
            "a,b\nx,1\ny,n/a\nz,3\n",
            {"wide": True},
            "the column b holds numbers, but 'n/a' is none",
            ("staff.csv", 3, 3),
        ),
        ("a;b\nx;1,5\n", {"wide": True}, "the column b holds numbers, but '1,5' is none", ("staff.csv", 2, 3)),
        ("a;b\nx;1,5\n", {"map": "a b"}, "not a finite number: '1,5'", ("staff.csv", 2, 3)),
        ("a,b\nx,nan\n", {"map": "a b"}, "not a finite number: 'nan'", ("staff.csv", 2, 3)),
        ("a,b,b\nx,y,z\n", {"map": "a r b"}, "two columns are called b: 2 and 3", ("staff.csv", 1, 5)),
        ("a,b,b\nx,y,z\n", {"wide": True}, "two columns are called b: 2 and 3", ("staff.csv", 1, 5)),
        ("a,B,b \nx,y,z\n", {"map": 'a r "B "'}, "2 and 3 are columns called b, but for", ("staff.csv", 1, 5)),
        ("a,b\nx\n", {"map": "a r b"}, "expected 2 columns (a, b), got 1", ("staff.csv", 2, 1)),
        ("a,b\nx,y,z\n", {"map": "a r b"}, "expected 2 columns (a, b), got 3", ("staff.csv", 2, 5)),
        ("a,b\nc,d\n", {"map": "1 r 2"}, "the first row may be a header or data", ("staff.csv", 1, 1)),
        ('a,b\n"x,y\n', {"map": "a r b"}, "invalid quotation marks", ("staff.csv", 2, 1)),
        ("a,w\nx,2\n", {"map": "w :: a is x"}, "a confidence must be above 0", ("staff.csv", 2, 3)),
        (STAFF, {"map": "a r b", "format": "triples"}, "the format triples and a mapping both say", None),
        ("p(a).", {"map": "a r b", "format": "facts"}, "there is no table for the mapping", ("mapping", 1, 1)),
    ],
)
def test_a_mistake_is_one_error_with_its_place(
    tmp_path: Path, text: str, how: dict[str, Any], message: str, place: tuple[str, int, int] | None
) -> None:
    with pytest.raises(InputError) as caught:
        read_text(tmp_path, text, **how)
    error = caught.value
    assert message in error.message
    assert bool(error.location) == bool(place)
    if error.location and place:
        assert (error.location.source.rpartition("/")[2], error.location.line, error.location.column) == place
        assert error.hint or error.suggestions or "confidence" in message


def test_near_names_are_suggested(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_text(tmp_path, STAFF, map="employee works_in dpt")
    assert caught.value.suggestions == ("dept",)
    assert caught.value.hint == "its columns are employee, boss, dept, age"


def test_each_clause_is_for_the_tables_that_have_its_columns(tmp_path: Path) -> None:
    (tmp_path / "dept.csv").write_text("dept,city\nsales,rome\n")
    (tmp_path / "more.tsv").write_text("ann\tknows\tbob\nbob\tknows\tann\n")
    (tmp_path / "staff.csv").write_text(STAFF)
    paths = [tmp_path / name for name in ("staff.csv", "dept.csv", "more.tsv")]
    kb = read(*paths, map=["employee works_in dept", "dept in city"])
    assert contents(kb) == [
        "in(sales, rome).",
        "knows(ann, bob).",
        "knows(bob, ann).",
        "works_in(ann, sales).",
        "works_in(bob, hr).",
    ]
    with pytest.raises(InputError, match=r"dept\.csv has no column citty"):
        read(*paths, map=["employee works_in dept", "dept in citty"])


TYPED = "CREATE TABLE staff (employee_id INTEGER, name VARCHAR, zip VARCHAR, boss_id INTEGER, pay DOUBLE)"
ROWS = "INSERT INTO staff VALUES (7, 'ann', '123', 8, 10.5), (8, 'bob', NULL, NULL, NULL)"
WIDE = ["boss('employee/7', 'boss/8').", "name('employee/7', ann).", "name('employee/8', bob)."]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "parquet"])
def test_databases_are_read_by_the_same_mapping(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"staff.{kind}"
    if kind == "sqlite":
        with sqlite3.connect(path) as lite:
            lite.execute(TYPED)
            lite.execute(ROWS)
        lite.close()
    else:
        with duckdb.connect(str(path) if kind == "duckdb" else ":memory:") as connection:
            connection.execute(TYPED)
            connection.execute(ROWS)
            if kind == "parquet":
                connection.execute(f"COPY staff TO '{path}' (FORMAT parquet)")
    expected = [*WIDE, "zip('employee/7', 123).", "pay(employee/7) = 10.5"]
    assert contents(read(path, wide=True, id="employee_id")) == expected
    found = read(path, map=["employee_id:person boss boss_id:person", "employee_id pay"])
    assert contents(found) == ["boss('person/7', 'person/8').", "pay(person/7) = 10.5"]
    with pytest.raises(InputError, match="has no column salary") as caught:
        read(path, map="employee_id salary")
    assert caught.value.hint == "its columns are employee_id, name, zip, boss_id, pay"
    with pytest.raises(InputError, match="neither a relation nor attributes") as caught:
        read(path)
    assert "--wide --id employee_id" in caught.value.hint


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "records", "tuples"])
def test_python_objects_are_read_by_the_same_mapping(kind: str) -> None:
    columns = {"employee_id": [7, 8], "name": ["ann", "bob"], "boss_id": [8, None], "pay": [10.5, None]}
    rows = list(zip(*columns.values(), strict=True))
    objects: dict[str, Callable[[], object]] = {
        "pandas": lambda: pd.DataFrame(columns),
        "polars": lambda: pl.DataFrame(columns),
        "arrow": lambda: pa.table(columns),
        "records": lambda: [dict(zip(columns, row, strict=True)) for row in rows],
        "tuples": lambda: [tuple(columns), *rows[:1]],  # rows of tuples with None are skipped
    }
    found = objects[kind]()
    expected = ["boss('employee/7', 'boss/8').", "name('employee/7', ann).", "name('employee/8', bob)."]
    kb = read(found, wide=True, id="employee_id")
    assert contents(kb) == [*(expected[:2] if kind == "tuples" else expected), "pay(employee/7) = 10.5"]
    with pytest.raises(InputError, match="has no column bos_id") as caught:
        read(found, map="employee_id boss bos_id")
    assert caught.value.suggestions == ("boss_id",)


def test_rows_without_names_have_numbers() -> None:
    kb = read([(7, 8), (8, 9)], map="1:node next 2:node")
    assert contents(kb) == ["next('node/7', 'node/8').", "next('node/8', 'node/9')."]
    with pytest.raises(InputError, match="expected 2 columns"):
        read([(7, 8), (8, 9, 10)], map="1:node next 2:node")


def test_a_relation_over_integers_needs_no_mapping(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE rated AS SELECT 7 AS user_id, 7 AS item_id")
    kb = read(path)
    assert contents(kb) == ["rated('user/7', 'item/7')."]
    assert not any("mapping" in note for note in notes(kb))


KEYS = [
    "CREATE TABLE dept (id INTEGER PRIMARY KEY, name VARCHAR)",
    "CREATE TABLE staff (id INTEGER PRIMARY KEY, dept_id INTEGER REFERENCES dept (id))",
    "INSERT INTO dept VALUES (1, 'hr')",
    "INSERT INTO staff VALUES (7, 1)",
]


def test_a_mapping_comes_before_keys(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as connection:
        for statement in KEYS:
            connection.execute(statement)
    kb = read(path, map="staff.id works_in dept_id")
    assert "works_in('staff/7', 'dept/1')." in contents(kb)
    assert "name('dept/1', hr)." in contents(kb)


def test_a_table_without_rows_has_no_facts(tmp_path: Path) -> None:
    assert not len(read_text(tmp_path, "a,b\n", map="a r b"))
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (a VARCHAR, b VARCHAR)")
    assert not len(read(path, map="a r b"))


def test_rows_of_empty_cells_count_too(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="more than 10 facts"):
        read_text(tmp_path, "a,b\n" + "x,\n" * 11, map="a r b", limits=Limits(facts=10))


# By definition


def plain(rows: Sequence[Sequence[str]]) -> set[tuple[str, ...]]:
    """The facts of `a r b:k`, `p(b, a)` and `a is [c]`, row by row; a is of whole numbers or not."""
    firsts = [row[0].strip() for row in rows if row[0].strip()]
    whole = bool(firsts) and all(name.isdigit() for name in firsts)
    facts: set[tuple[str, ...]] = set()
    for row in rows:
        a, b, c = (cell.strip() for cell in row)
        kind = f"a/{a}" if whole else a
        facts |= {("r", kind, f"k/{b}"), ("p", f"k/{b}", kind)} if a and b else set()
        facts |= {(c, a)} if a and c else set()  # where a column names the types, names are as they are
    return facts


cells = st.sampled_from(["", " ", "ann", "7", " 8", "bob "])


@given(st.lists(st.tuples(cells, cells, st.sampled_from(["", "t", "u "])), min_size=1, max_size=12), st.integers(1, 5))
def test_facts_are_those_of_the_definition(rows: list[tuple[str, str, str]], size: int) -> None:
    mapper = TableMapper(make_mapping(["a r b:k", "p(b, a)", "a is [c]"]))
    plan = mapper.plan(TableColumns("x", "x", ("a", "b", "c")), ListBatch("x", rows))
    assert plan
    builder = KnowledgeBaseBuilder()
    for start in range(0, len(rows), size):
        plan.add(ListBatch("x", rows[start : start + size], start + 1), builder)
    assert {(fact.relation, *fact.objects) for fact in builder.build().facts()} == plain(rows)
