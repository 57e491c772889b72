"""Formulas into formulas."""

from __future__ import annotations

import random

import pytest

from gaifman.errors import LimitError
from gaifman.logic.ast import (
    Constant,
    Formula,
    RelationVariable,
    Variable,
    _normal_sizes,
    free_variables,
    instantiate,
    negation_normal_form,
    relation_arities,
    relativise,
    substitute,
    substitute_relations,
    walk,
)
from gaifman.logic.parser import parse, parse_feature
from generators import Generator

X, Y = Variable("x"), Variable("y")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p(x) & exists x. q(x)", "p(y) ∧ (∃x q(x))"),
        ("exists y. r(x, y)", "∃y1 r(y, y1)"),
        ("exists y, y1. r(x, y) & p(y1)", "∃y2, y1 r(y, y2) ∧ p(y1)"),
        ("exists z. r(x, z)", "∃z r(y, z)"),
        ("age(x) > 3 & x != y", "age(y) > 3 ∧ y ≠ y"),
        ("forall y. p(x) -> exists y. r(x, y)", "∀y1 p(y) → (∃y1 r(y, y1))"),
    ],
)
def test_substitution_never_captures(text: str, expected: str) -> None:
    assert str(substitute(parse(text), {X: Y})) == expected


def test_substitution_is_simultaneous() -> None:
    assert str(substitute(parse("r(x, y)"), {X: Y, Y: X})) == "r(y, x)"


def test_substitution_of_objects() -> None:
    assert str(substitute(parse("exists y. r(x, y)"), {X: Constant("ann")})) == "∃y r('ann', y)"


def test_bound_variables_stay() -> None:
    formula = parse("exists x. p(x)")
    assert substitute(formula, {X: Y}) == formula


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("~(p(x) & q(x))", "¬p(x) ∨ ¬q(x)"),
        ("~(p(x) -> q(x))", "p(x) ∧ ¬q(x)"),
        ("~exists x. p(x)", "∀x ¬p(x)"),
        ("p(x) <-> q(x)", "p(x) ∧ q(x) ∨ ¬p(x) ∧ ¬q(x)"),
        ("~~p(x)", "p(x)"),
        ("~true", "false"),
        ("~(x = y)", "x ≠ y"),
        ("~(age(x) < 3)", "¬(age(x) < 3)"),
    ],
)
def test_negation_normal_form(text: str, expected: str) -> None:
    assert str(negation_normal_form(parse(text))) == expected


def test_too_large_a_normal_form_is_refused_before_it_is_built() -> None:
    chain = "p(x)"
    for _ in range(30):
        chain = f"({chain}) <-> q(x)"
    with pytest.raises(LimitError, match=r"would have [\d,]+ parts; the limit is 100,000"):
        negation_normal_form(parse(chain))


def test_the_size_of_a_normal_form_is_known_beforehand() -> None:
    for seed in range(200):
        formula = Generator(random.Random(seed)).formula(depth=4)
        parts = [p for p in walk(negation_normal_form(formula)) if isinstance(p, Formula)]
        assert len(parts) <= _normal_sizes(formula)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exists x. p(x)", "∃x near(x) ∧ p(x)"),
        ("forall x, y. r(x, y)", "∀x, y near(x) ∧ near(y) → r(x, y)"),
        ("exists rel. rel(x, y)", "∃rel rel(x, y)"),
        ("p(x) & ~exists x. q(x)", "p(x) ∧ (¬∃x near(x) ∧ q(x))"),
    ],
)
def test_relativisation_bounds_object_quantifiers_only(text: str, expected: str) -> None:
    assert str(relativise(parse(text), "near")) == expected


def test_relations_replace_free_relation_variables_only() -> None:
    feature = parse_feature("each rel. rel(s1, s2) & exists rel. rel(s1)")
    rel = RelationVariable("rel")
    assert str(substitute_relations(feature.body, {rel: "borders"})) == "borders(s1, s2) ∧ (∃rel rel(s1))"


def test_arities_of_free_relation_variables() -> None:
    feature = parse_feature("each rel, other. rel(s1, s2) & other(s1) & exists own. own(s1, s2, x)")
    assert relation_arities(feature.body) == {RelationVariable("rel"): 2, RelationVariable("other"): 1}


def test_a_template_has_one_instance_for_each_choice_of_relations() -> None:
    schema = parse_feature("each rel, other. rel(s1, x) & other(x, s2)")
    features = list(instantiate(schema, {"a": 2, "b": 2, "c": 1}))
    assert [str(feature) for feature in features] == [
        "a(s1, x) ∧ a(x, s2)",
        "a(s1, x) ∧ b(x, s2)",
        "b(s1, x) ∧ a(x, s2)",
        "b(s1, x) ∧ b(x, s2)",
    ]
    assert all(not feature.each for feature in features)


def test_a_template_with_too_many_instances_is_refused() -> None:
    schema = parse_feature("each r, t, u. exists x, y. r(s1, x) & t(x, y) & u(y, s2)")
    with pytest.raises(LimitError, match=r"stands for 1,030,301 features; the limit is 1,000,000"):
        next(instantiate(schema, {f"r{i}": 2 for i in range(101)}))
    next(instantiate(schema, {f"r{i}": 2 for i in range(100)}))


def test_a_feature_without_each_is_its_own_only_instance() -> None:
    feature = parse_feature("count r(s1, x)")
    assert list(instantiate(feature, {"r": 2, "q": 2})) == [feature]
    assert free_variables(feature) == (Variable("s1"), X)
