"""Queries and features as values."""

from __future__ import annotations

import pytest

from gaifman.errors import FormulaError
from gaifman.logic.ast import (
    Aggregate,
    Atom,
    Attribute,
    Feature,
    Query,
    RelationVariable,
    Variable,
    free_relation_variables,
    free_variables,
    query_position,
)
from gaifman.logic.parser import parse_feature, parse_query

X, Y = Variable("x"), Variable("y")


def test_a_query_without_head_that_reorders_its_variables_prints_one() -> None:
    query = Query((Y, X), Atom("r", (X, Y)))
    assert str(query) == "q(y, x) :- r(x, y)"
    assert parse_query(str(query)).variables == (Y, X)


def test_free_variables_of_a_query_are_its_answer_variables() -> None:
    assert free_variables(parse_query("h(y, x) :- r(x, z), r(z, y)")) == (Y, X)


@pytest.mark.parametrize(("name", "position"), [("s1", 1), ("s12", 12), ("s0", 0), ("s", 0), ("x1", 0), ("s01", 0)])
def test_query_variables_are_s1_s2_and_so_on(name: str, position: int) -> None:
    assert query_position(Variable(name)) == position


def test_each_binds_its_relation_variables() -> None:
    assert free_relation_variables(parse_feature("each r. exists x. r(s1, x)")) == ()


def test_only_count_does_without_a_quantity() -> None:
    atom = Atom("r", (X, Y))
    assert Aggregate("count", None, atom).quantity is None
    with pytest.raises(FormulaError, match="sum needs an attribute"):
        Aggregate("sum", None, atom)


def test_an_aggregate_has_a_known_kind() -> None:
    with pytest.raises(FormulaError, match="aggregate must be one of count, sum"):
        Aggregate("median", Attribute("age", X), Atom("r", (X, Y)))


def test_a_relation_variable_of_a_feature_shadows_a_relation_in_print() -> None:
    r = RelationVariable("r")
    feature = Feature(Atom("r", (X, Y)), (r,))
    assert str(feature) == "each r. 'r'(x, y)"
