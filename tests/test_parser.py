"""Text into trees: what is read, and what is refused with which words."""

from __future__ import annotations

import sys

import pytest

from gaifman.config import DEEPEST, LIMITS, Limits
from gaifman.errors import FormulaError, LimitError
from gaifman.formulas import (
    And,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Equal,
    Exists,
    Forall,
    Iff,
    Implies,
    Not,
    Number,
    Or,
    RelationVariable,
    Truth,
    Variable,
)
from gaifman.parser import parse, parse_feature, parse_query
from gaifman.questions import Aggregate, Difference, Feature, Query
from generators import VOCABULARY

X, Y, Z, S1, S2 = map(Variable, ["x", "y", "z", "s1", "s2"])


def r(*terms: Variable | Constant, name: str = "r") -> Atom:
    """An atom of the relation r."""
    return Atom(name, terms)


PAPER = {
    "∃x r(s1, x)": Exists((X,), r(S1, X)),
    "∃x r(s1, x) ∧ r(x, s2)": Exists((X,), And((r(S1, X), r(X, S2)))),
    "∃x, y r1(s1, x) ∧ r2(x, y) ∧ r3(y, s2)": Exists(
        (X, Y), And((r(S1, X, name="r1"), r(X, Y, name="r2"), r(Y, S2, name="r3")))
    ),
    "∀x,y r(x, y) ⇒ r(y, x)": Forall((X, Y), Implies(r(X, Y), r(Y, X))),
    "∃x,y r(x, y)": Exists((X, Y), r(X, Y)),
    "∀x,y,z r(x, y) ∧ r(y, z) ⇒ r(x, z)": Forall((X, Y, Z), Implies(And((r(X, Y), r(Y, Z))), r(X, Z))),
    "r(s1, x)": r(S1, X),
}


@pytest.mark.parametrize("text", PAPER)
def test_the_formulas_of_the_paper_are_read_as_printed_there(text: str) -> None:
    assert parse(text) == PAPER[text]


@pytest.mark.parametrize(
    "text",
    [
        "∀x p(x) ∧ ¬q(x) → ∃y r(x, y) ∨ x ≠ y",
        "forall x. p(x) & ~q(x) -> exists y. r(x, y) | x != y",
        "forall x: p(x) and not q(x) implies exists y: r(x, y) or x != y",
        "∀x (p(x) & !q(x) => ∃y (r(x,y) | ?x≠?y))",
        "  ∀\nx\tp ( x ) ∧ ¬ q(x) ⇒ ∃ y r(x,y) ∨ x≠y .",
    ],
)
def test_unicode_ascii_and_words_say_the_same(text: str) -> None:
    assert str(parse(text)) == "∀x p(x) ∧ ¬q(x) → (∃y r(x, y) ∨ x ≠ y)"


def test_precedence_from_strong_to_weak() -> None:
    p, q = r(X, name="p"), r(X, name="q")
    assert parse("p(x) | q(x) & p(x) -> q(x) <-> p(x)") == Iff(Implies(Or((p, And((q, p)))), q), p)
    assert parse("~p(x) & q(x)") == And((Not(p), q))


def test_implication_and_equivalence_group_to_the_right() -> None:
    p = r(X, name="p")
    assert parse("p(x) -> p(x) -> p(x)") == Implies(p, Implies(p, p))
    assert parse("p(x) <-> p(x) <-> p(x)") == Iff(p, Iff(p, p))


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


# Queries


def test_a_query_without_head_takes_its_free_variables_in_order_of_first_use() -> None:
    assert parse_query("exists z. r(y, z) & r(z, x)").free == (Y, X)


def test_a_rule_quantifies_what_its_head_does_not_name() -> None:
    query = parse_query("grandparent(x, y) :- parent(x, z), parent(z, y).")
    body = And((r(X, Z, name="parent"), r(Z, Y, name="parent")))
    assert query == Query((X, Y), Exists((Z,), body), "grandparent")


def test_a_comma_binds_as_and_does() -> None:
    assert parse_query("h(x) :- p(x), q(x) | p(x)") == parse_query("h(x) :- p(x) & q(x) | p(x)")


def test_a_sentence_is_a_query_without_free_variables() -> None:
    assert parse_query("exists x. p(x)").free == ()


# Features


def test_a_feature_schema() -> None:
    rel = RelationVariable("rel")
    assert parse_feature("each rel. exists x. rel(s1, x)") == Feature(Exists((X,), Atom(rel, (S1, X))), (rel,))


def test_aggregates() -> None:
    age, atom = Attribute("age", X), r(S1, X)
    assert parse_feature("count r(s1, x)").body == Aggregate("count", None, atom)
    assert parse_feature("mean age(x) for r(s1, x)").body == Aggregate("mean", age, atom)
    assert parse_feature("count age(x) for r(s1, x)").body == Aggregate("count", age, atom)


def test_differences() -> None:
    ages = Difference(Attribute("age", S1), Attribute("age", S2))
    assert parse_feature("age(s1) - age(s2)").body == ages == parse_feature("age(s1) − age(s2)").body
    body = parse_feature("count r(s1, x) - max age(x) for r(s1, x)").body
    assert isinstance(body, Difference)
    assert isinstance(body.right, Aggregate)


def test_an_attribute_alone_is_told_from_a_type_by_the_vocabulary() -> None:
    assert parse_feature("age(s1)").body == r(S1, name="age")
    assert parse_feature("age(s1)", VOCABULARY).body == Attribute("age", S1)
    assert parse_feature("p(s1)", VOCABULARY).body == r(S1, name="p")


# Mistakes: each has its own words

MISTAKES = [
    ("p(x) && q(x)", 6, "&& is not used here", "and is written ∧, & or the word and"),
    ("p(x) || q(x)", 6, "|| is not used here", "or is written ∨, | or the word or"),
    (r"\+ p(x)", 1, r"\+ is not used here", "not is written ¬, ~, ! or the word not"),
    (r"p(x) /\ q(x)", 6, r"/\ is not used here", "and is written"),
    ("p(x); q(x)", 5, "; is not used here", "or is written"),
    ("x == y", 3, "== is not used here", "equality is written ="),
    ("x <> y", 3, "<> is not used here", "inequality is written"),
    ("h(x) <- p(x)", 6, "<- is not used here", "a rule is written head(x) :- body"),
    ("∃!x p(x)", 1, "∃! is not used here", "there is exactly one"),
    ("SELECT x FROM p", 1, "this looks like SQL", "capital(x, y)"),
    ("p(x), q(x)", 5, "unexpected ,", "a comma means ∧ only in a rule"),
    ("p(x) AND q(x)", 6, "unexpected AND", "lower case: and"),
    ("NOT p(x)", 1, "unexpected NOT", "lower case: not"),
    ("for(x)", 1, "unexpected for", "a name is quoted: 'for'"),
    ("exists x y. r(x, y)", 10, "a comma is missing between two variables", "exists x, y."),
    ("exists x, x. p(x)", 11, "x is bound twice by one quantifier", ""),
    ("h(x, w) :- r(x, y)", 6, "the variable w of the head is not in the body", ""),
    ("h(x, 'a') :- r(x, y)", 6, "the head takes variables only", "x = 'ada'"),
    ("h(x, x) :- p(x)", 6, "the variable x is twice in the head", ""),
    ("p(x) :- q(x) :- q(y)", 14, "unexpected :-", "a rule has one head"),
    ("p(x", 4, "the query ends too early", ""),
    ("p(x))", 5, "unexpected )", ""),
    ("(p(x)", 6, "the query ends too early", ""),
    ("p()", 3, "unexpected )", ""),
    ("p(x) &", 7, "the query ends too early", ""),
    ("x", 1, "x alone is no formula", "write a relation"),
    ("p(x) q(x)", 6, "unexpected q", ""),
    ("p('ann)", 3, "the quote ' that opens here is never closed", "close it with '"),
    ("p('')", 3, "a name cannot be empty", ""),
    ("p(_)", 3, "_ is no variable here", "a name of its own"),
    ("p(?)", 3, "? begins a variable", "?x"),
    ("p(x) @ q(x)", 6, "the character @ (commercial at) has no meaning here", "quoted"),
    ("p(x) \u202e", 6, r"the character \u202e (right-to-left override)", ""),
    ("exists p. p(x) & p(x, y)", 18, "p has another number of places here than above", ""),
    ("exists p. r(p, p) & p(x)", 21, "p stands for an object, and for a relation here", ""),
    ("exists p. p(x) & r(p, x)", 20, "p stands for a relation, and for an object here", ""),
    ("r(x, y) > 3", 1, "it takes one object, not 2", ""),
    ("age(x) > y", 10, "y is no number", "population(x) > 1000000"),
    ("age(x) > 1e999", 10, "1e999 is no number", ""),
    ("r(a,b,c,d,e,f,g,h,i)", 20, "at most 8 places, not 9", ""),
]


@pytest.mark.parametrize(("text", "column", "message", "hint"), MISTAKES)
def test_a_mistake_has_its_own_words_and_its_place(text: str, column: int, message: str, hint: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_query(text)
    error = caught.value
    assert message in error.message
    assert hint in error.hint
    assert error.place is not None
    assert (error.place.line, error.place.column) == (1, column)
    assert "^" in str(error)


FEATURE_MISTAKES = [
    ("sum r(s1, x)", "sum needs an attribute", "sum population(x) for"),
    ("exists s1. p(s1)", "s1 is given by the query and cannot be bound here", "otherwise"),
    ("each rel. p(s1)", "rel is no relation in this feature", "use it as one"),
    ("age(s1) - 5", "unexpected 5", ""),
    ("count", "the feature ends too early", ""),
    ("age(s1, s2) - age(s2)", "unexpected -", ""),
]


@pytest.mark.parametrize(("text", "message", "hint"), FEATURE_MISTAKES)
def test_a_mistake_in_a_feature(text: str, message: str, hint: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_feature(text)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_what_could_stand_at_the_place_is_listed() -> None:
    with pytest.raises(FormulaError) as caught:
        parse("p(x) q(x)")
    assert caught.value.expected == ("↔", "→", "∨", "∧", "the end")


def test_the_line_and_column_of_a_text_of_several_lines() -> None:
    with pytest.raises(FormulaError) as caught:
        parse("p(x)\n& q(x) &&\np(y)", source="rules.phi")
    assert str(caught.value).startswith("rules.phi, line 2, column 8: && is not used here\n  & q(x) &&\n         ^^")


@pytest.mark.parametrize("text", ["", "  \n ", "."])
def test_an_empty_text(text: str) -> None:
    with pytest.raises(FormulaError, match=r"empty|unexpected"):
        parse(text)


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
    with pytest.raises(LimitError, match=f"nested deeper than {DEEPEST}"):
        parse(HUGE[name], limits=Limits(characters=10_000_000, nodes=10_000_000, depth=DEEPEST))


@pytest.mark.parametrize("depth", [1, 2, 63, 64])
def test_depth_is_counted_as_the_tree_is_deep(depth: int) -> None:
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
    limits = Limits(depth=DEEPEST, nodes=5000)
    formula = parse(make(DEEPEST - 2), limits=limits)
    assert parse(str(formula), limits=limits) == formula
    assert hash(formula) == hash(formula)
    assert sys.getrecursionlimit() == 1000


def test_sixteen_variables_are_allowed_and_seventeen_are_not() -> None:
    sixteen = " & ".join(f"p(x{i})" for i in range(LIMITS.variables))
    assert parse(sixteen)
    with pytest.raises(LimitError, match="more than 16 variables"):
        parse(sixteen + " & p(y)")
