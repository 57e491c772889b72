"""Trees, their free variables and their print."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gaifman.config import MAX_FORMULA_DEPTH, Limits
from gaifman.errors import FormulaError, LimitError
from gaifman.logic.ast import (
    And,
    Atom,
    Comparison,
    Constant,
    Exists,
    Forall,
    Formula,
    Node,
    Not,
    Number,
    RelationVariable,
    Truth,
    Variable,
    _normal_sizes,
    children,
    free_relation_variables,
    free_variables,
    instantiate,
    negation_normal_form,
    relation_arities,
    relativise,
    substitute,
    substitute_relations,
    to_ascii,
    to_bracketed,
    walk,
)
from gaifman.logic.parser import parse, parse_feature, parse_query
from generators import VOCABULARY, Generator

IDENTITY = [
    line
    for line in (Path(__file__).parents[2] / "support" / "fixtures" / "identity.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def read(line: str) -> tuple[Node, str]:
    """A line of the fixture: its tree and its text."""
    kind, colon, text = line.partition(": ")
    if not colon:
        return parse(line), line
    return (parse_query(text) if kind == "query" else parse_feature(text, VOCABULARY, allow_unknown_objects=True)), text


@pytest.mark.parametrize("line", IDENTITY)
def test_canonical_text_parses_and_prints_as_itself(line: str) -> None:
    node, text = read(line)
    assert str(node) == text


@pytest.mark.parametrize("line", IDENTITY)
@pytest.mark.parametrize("write", [to_ascii, to_bracketed])
def test_every_print_parses_to_the_same_tree(line: str, write: type[str]) -> None:
    node, _ = read(line)
    kind = line.partition(": ")[0] if ": " in line else ""
    assert read(f"{kind}: {write(node)}" if kind else write(node))[0] == node


@pytest.mark.parametrize("line", [line for line in IDENTITY if "naïve" not in line])
def test_the_ascii_print_is_ascii(line: str) -> None:
    assert to_ascii(read(line)[0]).isascii()


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("∃x r(s1, x) ∧ r(x, s2)", "∃x (r(s1, x) ∧ r(x, s2))"),
        ("∀x,y r(x, y) ⇒ r(y, x)", "∀x, y (r(x, y) → r(y, x))"),
        ("p(x) | q(x) & p(y)", "p(x) ∨ (q(x) ∧ p(y))"),
        ("p(x) -> q(x) -> p(y)", "p(x) → (q(x) → p(y))"),
        ("~exists x. p(x) & q(x)", "¬∃x (p(x) ∧ q(x))"),
        ("p(x) & exists y. q(y) | p(y)", "p(x) ∧ (∃y (q(y) ∨ p(y)))"),
        ("~p(x) & q(x)", "¬p(x) ∧ q(x)"),
        ("~x = y & q(x)", "x ≠ y ∧ q(x)"),
    ],
)
def test_the_bracketed_reading_shows_scope_and_precedence(text: str, reading: str) -> None:
    assert to_bracketed(parse(text)) == reading


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("r(y, x)", "y x"),
        ("exists x. r(x, y)", "y"),
        ("p(x) & exists x. q(x)", "x"),
        ("exists x. p(x) & exists y. r(x, y) & q(z)", "z"),
        ("x = y | age(z) > 3", "x y z"),
        ("r('ann', 7)", ""),
        ("exists rel. rel(x, y)", "x y"),
    ],
)
def test_free_variables_come_in_order_of_first_use(text: str, names: str) -> None:
    assert [v.name for v in free_variables(parse(text))] == names.split()


def test_free_relation_variables_are_those_no_quantifier_binds() -> None:
    r, x = RelationVariable("r"), Variable("x")
    assert free_relation_variables(Atom(r, (x,))) == (r,)
    assert free_relation_variables(Exists((r,), Atom(r, (x,)))) == ()


def test_positions_are_kept_and_never_compared() -> None:
    near, far = parse("p(x)"), parse("   p( x )")
    assert near == far
    assert hash(near) == hash(far)
    assert isinstance(far, Atom)
    assert far.span == (3, 4)
    assert far.terms[0].span == (6, 7)


def test_walking_reaches_every_part_once() -> None:
    formula = parse("exists x, y. r(x, y) & (p(x) -> age(y) > 3)")
    parts = list(walk(formula))
    assert [type(part).__name__ for part in parts[:3]] == ["Exists", "Variable", "Variable"]
    assert len(parts) == 1 + sum(len(children(part)) for part in parts)


def test_walking_a_deep_tree_needs_no_recursion() -> None:
    formula: Node = Truth(True)
    for _ in range(50_000):
        formula = Not(formula)  # type: ignore[arg-type]
    assert sum(1 for _ in walk(formula)) == 50_001


def test_trees_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        parse("p(x)").relation = "q"  # type: ignore[misc, union-attr]


def test_a_conjunction_has_two_parts_at_least() -> None:
    with pytest.raises(FormulaError, match="at least two parts"):
        And((Truth(True),))


def test_a_comparison_has_a_known_operator() -> None:
    with pytest.raises(FormulaError, match="operator must be one of"):
        Comparison(Number(1), "~", Number(2))


def test_lists_become_tuples_so_that_trees_can_be_hashed() -> None:
    x = Variable("x")
    atom = Atom("p", [x])  # type: ignore[arg-type]
    assert free_variables(Exists([x], And([atom, atom]))) == ()  # type: ignore[arg-type]
    assert hash(atom) == hash(Atom("p", (x,)))


def test_the_deepest_formula_prints_whatever_it_is_made_of() -> None:
    text = "p(x)"
    for _ in range(MAX_FORMULA_DEPTH // 2 - 1):
        text = f"({text} & p(x))"
    formula = parse(text, limits=Limits(depth=MAX_FORMULA_DEPTH, nodes=5000))
    assert str(formula)
    assert repr(formula)
    assert to_bracketed(formula)


def test_a_relation_named_as_a_bound_variable_is_printed_quoted() -> None:
    x, y = Variable("x"), Variable("y")
    assert str(Forall((x,), Atom("x", (y,)))) == "∀x 'x'(y)"


# Formulas into formulas


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
