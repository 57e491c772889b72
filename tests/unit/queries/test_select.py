"""A SELECT under construction."""

from __future__ import annotations

from gaifman.logic.ast import Variable
from gaifman.queries.sql import SelectBuilder

X, Y, Z = map(Variable, "xyz")


def test_the_first_table_has_its_conditions_in_where() -> None:
    frame = SelectBuilder({})
    frame.join("facts2 f1", ["f1.relation = 1"])
    frame.join("facts2 f2", ["f2.a1 = f1.a1"])
    frame.join("objects o3", [])
    frame.join("facts1 f4", [], "SEMI")
    assert frame.to_sql(["1"]) == (
        "SELECT 1\nFROM facts2 f1\nJOIN facts2 f2 ON f2.a1 = f1.a1\nCROSS JOIN objects o3\n"
        "SEMI JOIN facts1 f4 ON true\nWHERE f1.relation = 1"
    )


def test_rows_repeat_where_a_column_is_left_out() -> None:
    frame = SelectBuilder({X: "f1.a1", Y: "f1.a2", Z: "f1.a1"}, own_variables={X, Y})
    assert frame.may_repeat([X])
    assert not frame.may_repeat([X, Y])
    assert not frame.may_repeat([Z, Y])
    assert not SelectBuilder({}).may_repeat([])


def test_constants_are_seen_by_every_select_within() -> None:
    assert SelectBuilder({X: "17", Y: "f1.a2"}).constants() == {X: "17"}
