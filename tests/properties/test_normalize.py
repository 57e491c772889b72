"""Tidying keeps the meaning; restriction says what is tied."""

from __future__ import annotations

import math
import random

import pytest

from gaifman.errors import FormulaError
from gaifman.logic.ast import (
    And,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Equal,
    Exists,
    Forall,
    Formula,
    Iff,
    Implies,
    Not,
    Number,
    Or,
    Truth,
    Variable,
    all_free_variables,
    free_variables,
    walk,
)
from gaifman.logic.parser import parse
from gaifman.logic.semantics import holds
from gaifman.queries.normalize import Domain, conjuncts, normalize, restricted_variables
from generators import OBJECTS, RELATIONS, Generator, assignment, over_seeds

X = Variable("x")


@over_seeds(1_500)
def test_a_tidy_formula_means_the_same(seed: int) -> None:
    rng = random.Random(seed)
    generator = Generator(rng)
    formula, structure = generator.formula(depth=rng.randint(1, 6)), generator.structure()
    domain = Domain(RELATIONS, sorted(map(str, structure.domain)))
    plain = normalize(formula, domain)
    assert set(free_variables(plain)) <= set(free_variables(formula))
    for _ in range(3):
        env = assignment(rng, structure, formula)
        assert holds(structure, plain, env) == holds(structure, formula, env), f"{formula} became {plain}"


@over_seeds(400)
def test_a_tidy_formula_is_of_few_kinds_with_names_of_their_own(seed: int) -> None:
    formula = Generator(random.Random(seed)).formula(depth=6)
    plain = normalize(formula, Domain(RELATIONS, OBJECTS))
    parts = list(walk(plain))
    assert not any(isinstance(part, Forall | Implies) for part in parts)
    assert plain in (Truth(True), Truth(False)) or not any(isinstance(part, Truth) for part in parts)
    for part in parts:
        if isinstance(part, Not):
            assert isinstance(part.body, Atom | Equal | Comparison | Exists)
        if isinstance(part, And | Or):
            assert not any(isinstance(below, type(part)) for below in part.parts)
        if isinstance(part, Exists):
            assert all_free_variables(part.body).issuperset(part.variables)
            assert not isinstance(part.body, Or | Exists)
        if isinstance(part, And):
            bound = [v for below in part.parts for v in _bound(below)]
            assert len(bound) == len(set(bound))
            assert not all_free_variables(plain).intersection(bound)


def _bound(formula: Formula) -> list[object]:
    return list(formula.variables) if isinstance(formula, Exists) else []


@pytest.mark.parametrize(
    ("text", "tied"),
    [
        ("r(x, y)", "xy"),
        ("r(x, y) & ~p(z)", "xy"),
        ("p(x) | p(y)", ""),
        ("r(x, y) | p(x)", "x"),
        ("x = 'ann'", "x"),
        ("x = y", ""),
        ("x = y & y = z & p(z)", "xyz"),
        ("age(x) > 3", "x"),
        ("age(x) > age(y)", "xy"),
        ("~(age(x) > 3)", ""),
        ("p(x) & (x = y | r(x, y))", "xy"),
        ("exists z. r(x, z) & r(z, y)", "xy"),
        ("~(exists z. r(x, z))", ""),
        ("~~p(x)", "x"),
        ("~(~p(x) | ~p(y))", "xy"),
        ("p(x) <-> p(y)", ""),
        ("p(x) -> p(x)", ""),
        ("~(p(x) -> q(y))", "x"),
    ],
)
def test_what_facts_names_and_numbers_tie(text: str, tied: str) -> None:
    plain = normalize(parse(text), Domain(RELATIONS, OBJECTS))
    assert {variable.name for variable in restricted_variables(plain)} == set(tied)


def test_what_others_tie_helps() -> None:
    either = normalize(parse("x = y | r(x, y)"), Domain(RELATIONS))
    assert restricted_variables(either) == frozenset()
    assert restricted_variables(either, frozenset({X})) == {X, Variable("y")}


@pytest.mark.parametrize(
    ("formula", "truth"),
    [
        (Equal(Constant("a"), Constant("a")), True),
        (Equal(Constant("a"), Constant("b")), False),
        (Equal(X, X), True),
        (Equal(X, Constant("ghost")), False),
        (Atom("p", (Constant("ghost"),)), False),
        (Comparison(Number(1.0), "<", Number(2.0)), True),
        (Comparison(Attribute("age", Constant("ghost")), "<", Number(2.0)), False),
        (Comparison(Attribute("age", X), "=", Number(math.nan)), False),
        (Exists((Variable("z"),), Truth(True)), True),
        (Iff(Atom("p", (X,)), Atom("p", (X,))), True),
    ],
)
def test_what_names_and_numbers_alone_decide(formula: Formula, truth: bool) -> None:
    assert normalize(formula, Domain(RELATIONS, ("a", "b"))) == Truth(truth)
    assert normalize(Not(formula), Domain(RELATIONS, ("a", "b"))) == Truth(not truth)


def test_in_an_empty_domain_nothing_exists() -> None:
    assert normalize(parse("exists x. x = x"), Domain({}, ())) == Truth(False)
    assert normalize(parse("forall x. x != x"), Domain({}, ())) == Truth(True)
    assert normalize(parse("exists r. r(x, y)"), Domain({"p": 1}, ("a",))) == Truth(False)


def test_relations_without_facts_of_their_arity_are_false() -> None:
    assert normalize(parse("r(x, y)"), Domain(RELATIONS, OBJECTS, (1,))) == Truth(False)
    assert normalize(parse("p(x)"), Domain(RELATIONS, OBJECTS, (1,))) == Atom("p", (X,))


def test_a_wrong_arity_is_an_error() -> None:
    with pytest.raises(FormulaError, match="there is no relation r of arity 1"):
        normalize(Atom("r", (X,)), Domain(RELATIONS))


def test_conjuncts_reach_below_quantifiers() -> None:
    plain = normalize(parse("p(x) & (exists y. r(x, y) & ~q(y))"), Domain(RELATIONS))
    assert [str(piece) for piece in conjuncts(plain)] == ["p(x)", "r(x, y)", "¬q(y)"]
    assert conjuncts(Truth(True)) == []
