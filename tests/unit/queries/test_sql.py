"""The statements: what joins, what is tried, what ranges, and that names cannot break out."""

from __future__ import annotations

import duckdb
import pytest

from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import Atom, Query, Variable
from gaifman.logic.parser import parse_query
from gaifman.queries.answers import answers, count
from gaifman.queries.sql import quoted_columns, translate
from kbs import HOSTILE

KB = KnowledgeBase.from_facts(
    [("r", "a", "b"), ("s", "b", "c"), ("t", "a", "c"), ("p", "a"), ("f", "a", "b", "c")], {("age", "a"): 1.0}
)


def text(query: str, **given: int) -> str:
    """The statement of a query."""
    return translate(parse_query(query, KB), KB, {Variable(name): number for name, number in given.items()}).sql


@pytest.mark.parametrize(
    "query",
    [
        "r(x, y)",
        "r(x, y) & s(y, z)",
        "exists z. r(x, z) & s(z, y)",
        "r(x, y) & s(y, z) & t(x, z)",
        "exists z. r(x, y) & s(y, z) & t(z, x)",
        "r(x, x)",
        "r('a', y)",
    ],
)
def test_conjunctive_queries_are_plain_joins(query: str) -> None:
    statement = text(query)
    assert not any(word in statement for word in ("EXISTS", "UNION", "LATERAL", "IN (", "objects"))


def test_atoms_join_by_equal_columns() -> None:
    assert text("exists z. r(x, z) & s(z, y)") == (
        'SELECT DISTINCT f1.a1 AS "x", f2.a2 AS "y"\nFROM facts2 f1\n'
        "JOIN facts2 f2 ON f2.relation = 3 /* s */ AND f2.a1 = f1.a2\nWHERE f1.relation = 2 /* r */"
    )


def test_distinct_only_where_something_is_left_out() -> None:
    assert "DISTINCT" not in text("r(x, y) & p(x)")
    assert "DISTINCT" not in text("r(x, 'b')")
    assert "DISTINCT" in text("q(x) :- r(x, y)")
    assert "DISTINCT" not in text("q(x) :- r(x, y), y = 'b'")


def test_what_need_only_be_there_is_a_semijoin() -> None:
    assert text("p(x) & exists y, z. r(x, y) & s(y, z)").count("SEMI JOIN") == 2
    assert "ANTI JOIN facts2" in text("p(x) & ~(exists y. r(x, y))")
    assert "ANTI JOIN attribute_values" in text("p(x) & ~(age(x) > 3)")


def test_what_shares_no_variable_is_no_semijoin() -> None:
    """DuckDB 2.0 loses rows of a semi-join whose condition is about one side only (found by random queries)."""
    assert "JOIN" not in text("p(x) & exists y. r(y, y)")
    assert "JOIN" not in text("p(x) & ~(exists y. r(y, y))")
    assert "EXISTS" not in text("exists x. p(x) & exists y. r(y, y)")


def test_disjunctions_that_tie_their_variables_are_unions() -> None:
    assert "UNION" in text("r(x, y) | s(x, y)")
    assert "LATERAL" in text("p(x) & (x = y | r(x, y))")
    assert "objects" not in text("p(x) & (x = y | r(x, y))")
    assert " OR " in text("r(x, y) & (~p(x) | ~p(y))")


@pytest.mark.parametrize(
    ("query", "ranging", "size"),
    [
        ("r(x, y)", (), 1),
        ("~r(x, y)", ("x", "y"), 9),
        ("p(x) | r(x, y)", ("x", "y"), 9),
        ("p(x) & ~r(x, y)", ("y",), 3),
        ("p(x) & forall y. r(x, y)", ("y",), 3),
        ("p(x) & forall y. r(x, y) -> s(y, x)", (), 1),
        ("x = y", ("x",), 3),
        ("forall q. q(x, x)", ("x", "q"), 9),
        ("p(x) & ~(exists y. ~r(x, y) & ~(exists z. ~s(y, z)))", ("y", "z"), 9),
    ],
)
def test_what_ranges_over_the_domain_is_counted(query: str, ranging: tuple[str, ...], size: int) -> None:
    statement = translate(parse_query(query, KB), KB)
    assert (set(statement.unrestricted), statement.combinations) == (set(ranging), size)


def test_given_variables_are_numbers_in_the_statement() -> None:
    assert text("r(x, y)", x=0).startswith('SELECT 0 AS "x", f1.a2 AS "y"')
    assert "f1.a1 = 0" in text("r(x, y)", x=0)


def test_pages_and_counts() -> None:
    statement = translate(parse_query("r(x, y)", KB), KB)
    assert statement.ordered_sql(10, 5).endswith("ORDER BY ALL\nLIMIT 10\nOFFSET 5")
    assert statement.count_sql().startswith("SELECT count(*) FROM (")
    assert "ORDER" not in translate(Query((), parse_query("r('a', 'b')").formula), KB).ordered_sql()


def test_columns_differ_whatever_the_case() -> None:
    assert quoted_columns([Variable(name) for name in ("x", "X", "x_2", 'a"b')]) == [
        '"x"',
        '"X_2"',
        '"x_2_3"',
        '"a""b"',
    ]


def test_hostile_names_do_not_leave_their_place() -> None:
    names = [*HOSTILE, "*/ DROP TABLE facts2; --", "/*", "x */ y"]
    kb = KnowledgeBase.from_facts([(name, name, "other") for name in names])
    for name in names:
        variables = (Variable(name), Variable("y"))
        assert list(answers(kb, Query(variables, Atom(name, variables)))) == [(name, "other")]
    assert count(kb, "exists r. r(x, y)") == len(names)


def test_numbers_are_compared_to_the_last_bit() -> None:
    kb = KnowledgeBase.from_facts(
        [], {("v", "a"): 0.1, ("v", "b"): 0.1 + 1e-17 + 1.5e-17, ("v", "c"): 1e300, ("v", "d"): 2.0}
    )
    assert count(kb, "v(x) = 0.1") == sum(kb.value("v", name) == 0.1 for name in "abcd")
    assert list(answers(kb, "v(x) >= 1e300")) == [("c",)]
    assert list(answers(kb, "v(x) > 1 & v(x) < 1e299")) == [("d",)]
    assert list(answers(kb, "v(x) = 2")) == [("d",)]


def test_every_statement_is_one_statement() -> None:
    for query in ("r(x, y)", "~r(x, y) & p(x)", "exists x. p(x)"):
        assert len(duckdb.extract_statements(text(query))) == 1
