"""The grammar of formulas: precedence, terms, comparisons, scopes, and the limits that hold while reading."""

from __future__ import annotations

import sys

import pytest

from gaifman.config import DEFAULT_LIMITS, MAX_FORMULA_DEPTH, Limits
from gaifman.errors import LimitError
from gaifman.logic.ast import (
    And,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Equal,
    Exists,
    Iff,
    Implies,
    Not,
    Number,
    Or,
    RelationVariable,
    Truth,
    Variable,
)
from gaifman.logic.parser import parse

X, Y, S1, S2 = map(Variable, ["x", "y", "s1", "s2"])
P, Q = Atom("p", (X,)), Atom("q", (X,))


def test_precedence_from_strong_to_weak() -> None:
    assert parse("p(x) | q(x) & p(x) -> q(x) <-> p(x)") == Iff(Implies(Or((P, And((Q, P)))), Q), P)
    assert parse("~p(x) & q(x)") == And((Not(P), Q))


def test_implication_and_equivalence_group_to_the_right() -> None:
    assert parse("p(x) -> p(x) -> p(x)") == Implies(P, Implies(P, P))
    assert parse("p(x) <-> p(x) <-> p(x)") == Iff(P, Iff(P, P))


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("x", X),
        ("?x", X),
        ("?for", Variable("for")),
        ("s₁", S1),
        ("'x'", Constant("x")),
        ('"x y"', Constant("x y")),
        (r"'it\'s'", Constant("it's")),
        (r"'\u00e9\n'", Constant("é\n")),
        ("/m/01", Constant("/m/01")),
        ("2010-01-01", Constant("2010-01-01")),
        ("007", Constant("007")),
    ],
)
def test_bare_names_are_variables_and_objects_are_quoted_or_begin_with_digit_or_slash(
    text: str, term: Variable | Constant
) -> None:
    assert parse(f"p({text})") == Atom("p", (term,))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("'has part'(x)", "has part"),
        ("/film/film/./cast(x)", "/film/film/./cast"),
        ("_hypernym(x)", "_hypernym"),
        ("'not'(x)", "not"),
        ("naïve(x)", "naïve"),
    ],
)
def test_relations_are_bare_or_quoted(text: str, name: str) -> None:
    assert parse(text) == Atom(name, (X,))


def test_truth_equality_and_inequality() -> None:
    assert parse("true") == Truth(True)
    assert parse("x = 'ann'") == Equal(X, Constant("ann"))
    assert parse("x != y") == Not(Equal(X, Y)) == parse("~(x = y)")


def test_comparisons_of_attributes_and_numbers() -> None:
    age = Attribute("age", X)
    assert parse("age(x) >= 60") == Comparison(age, "≥", Number(60.0))
    assert parse("-1.5 < age(x)") == Comparison(Number(-1.5), "<", age)
    assert parse("age(x) = age(y)") == Comparison(age, "=", Attribute("age", Y))
    assert parse("age(x) <-5") == Comparison(age, "<", Number(-5.0))
    assert parse("age(x) > 1_000_000") == Comparison(age, ">", Number(1e6))


def test_a_bound_name_used_as_a_relation_is_second_order() -> None:
    rel = RelationVariable("rel")
    assert parse("exists rel. rel(s1, s2)") == Exists((rel,), Atom(rel, (S1, S2)))
    mixed = parse("exists rel, x. rel(s1, x)")
    assert isinstance(mixed, Exists)
    assert mixed.variables == (rel, X)


def test_a_quoted_relation_is_never_a_variable() -> None:
    assert parse("exists rel. 'rel'(x)") == Exists((Variable("rel"),), Atom("rel", (X,)))


def test_brackets_after_the_variables_of_a_quantifier() -> None:
    assert parse("∃x, y (r(x, y) ∧ p(x))") == parse("∃x, y r(x, y) ∧ p(x)")


@pytest.mark.parametrize("text", ["p(x½)", "p(ﷺ)", "∃² ²(x)", "∃ｎｏｔ ｎｏｔ(x)", "∃₁ ₁(x)", "∃s₁ s₁(x)"])
def test_odd_letters_print_and_parse_to_the_same_tree(text: str) -> None:
    assert parse(str(parse(text))) == parse(text)


# Limits

HUGE = {
    "deep brackets": "(" * 100_000 + "p(x)" + ")" * 100_000,
    "deep negation": "~" * 100_000 + "p(x)",
    "deep quantifiers": "∃x " * 100_000 + "p(x)",
    "deep implication": "p(x) -> " * 100_000 + "p(x)",
    "deep equivalence": "p(x) <-> " * 100_000 + "p(x)",
    "wide": "p(x) & " * 100_000 + "p(x)",
    "long name": "p" * 1_000_000 + "(x)",
    "a megabyte of spaces": " " * 1_000_000,
    "a megabyte of quotes": "'" * 1_000_000,
}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_formula_is_refused_by_its_length(name: str) -> None:
    with pytest.raises(LimitError, match=r"characters; the limit is 8,192"):
        parse(HUGE[name])


@pytest.mark.parametrize("name", [name for name in HUGE if name.startswith("deep") or name == "wide"])
def test_a_huge_formula_is_refused_however_long_a_text_may_be(name: str) -> None:
    with pytest.raises(LimitError, match=r"nested deeper than 64|more than 1,000 names"):
        parse(HUGE[name], limits=Limits(characters=10_000_000))


@pytest.mark.parametrize("name", [name for name in HUGE if name.startswith("deep")])
def test_no_setting_lets_a_deep_formula_reach_the_stack(name: str) -> None:
    with pytest.raises(LimitError, match=f"nested deeper than {MAX_FORMULA_DEPTH}"):
        parse(HUGE[name], limits=Limits(characters=10_000_000, nodes=10_000_000, depth=MAX_FORMULA_DEPTH))


@pytest.mark.parametrize("depth", [1, 2, 63, 64])
def test_depth_is_that_of_the_tree(depth: int) -> None:
    text = "¬" * (depth - 1) + "p(x)"
    assert parse(text, limits=Limits(depth=depth))
    with pytest.raises(LimitError, match="nested deeper"):
        parse("¬" + text, limits=Limits(depth=depth))


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "(" * n + "p(x)" + ")" * n,
        lambda n: "~" * n + "p(x)",
        lambda n: "∃x " * n + "p(x)",
        lambda n: "p(x) -> " * n + "p(x)",
        lambda n: "p(x) <-> " * n + "p(x)",
        lambda n: "p(x) & (" * (n // 2) + "p(x)" + ")" * (n // 2),
    ],
)
def test_the_deepest_formula_a_setting_can_allow_is_read_printed_and_compared(make: object) -> None:
    assert callable(make)
    limits = Limits(depth=MAX_FORMULA_DEPTH, nodes=5000)
    formula = parse(make(MAX_FORMULA_DEPTH - 2), limits=limits)
    assert parse(str(formula), limits=limits) == formula
    assert hash(formula) == hash(formula)
    assert sys.getrecursionlimit() == 1000


def test_sixteen_variables_are_allowed_and_seventeen_are_not() -> None:
    sixteen = " & ".join(f"p(x{i})" for i in range(DEFAULT_LIMITS.variables))
    assert parse(sixteen)
    with pytest.raises(LimitError, match="more than 16 variables"):
        parse(sixteen + " & p(y)")
