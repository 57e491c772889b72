"""Parsing, and its error messages."""

from __future__ import annotations

import pytest

import gaifman
from gaifman.config import DEFAULT_LIMITS, Limits
from gaifman.errors import ArgumentError, FormulaError, LimitError
from gaifman.logic.ast import (
    Aggregate,
    And,
    Atom,
    Attribute,
    Constant,
    Difference,
    Exists,
    Feature,
    Forall,
    Implies,
    Query,
    RelationVariable,
    Variable,
)
from gaifman.logic.parser import FOREIGN_SYMBOLS, SPELLINGS, TokenStream, parse, parse_feature, parse_query, tokenise
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
def test_unicode_ascii_and_words_give_the_same_formula(text: str) -> None:
    assert str(parse(text)) == "∀x p(x) ∧ ¬q(x) → (∃y r(x, y) ∨ x ≠ y)"


# Queries


def test_a_query_without_head_takes_its_free_variables_in_order_of_first_use() -> None:
    assert parse_query("exists z. r(y, z) & r(z, x)").variables == (Y, X)


def test_a_rule_quantifies_the_variables_that_are_not_in_its_head() -> None:
    query = parse_query("grandparent(x, y) :- parent(x, z), parent(z, y).")
    body = And((r(X, Z, name="parent"), r(Z, Y, name="parent")))
    assert query == Query((X, Y), Exists((Z,), body), "grandparent")


def test_a_comma_binds_as_and_does() -> None:
    assert parse_query("h(x) :- p(x), q(x) | p(x)") == parse_query("h(x) :- p(x) & q(x) | p(x)")


def test_a_sentence_is_a_query_without_free_variables() -> None:
    assert parse_query("exists x. p(x)").variables == ()


# Features


def test_a_feature_template() -> None:
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


def test_the_schema_decides_between_an_attribute_and_a_type() -> None:
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
    ("for(x)", 1, "unexpected for", "quote it to use it as a name: 'for'"),
    ("exists x y. r(x, y)", 10, "a comma is missing between two variables", "exists x, y."),
    ("exists x, x. p(x)", 11, "the quantifier binds x twice", ""),
    ("h(x, w) :- r(x, y)", 6, "the variable w of the head is not in the body", ""),
    ("h(x, 'a') :- r(x, y)", 6, "a head has only variables", "x = 'ada'"),
    ("h(x, x) :- p(x)", 6, "the variable x occurs twice in the head", ""),
    ("p(x) :- q(x) :- q(y)", 14, "unexpected :-", "a rule has one head"),
    ("p(x", 4, "the query ends too early", ""),
    ("p(x))", 5, "unexpected )", ""),
    ("(p(x)", 6, "the query ends too early", ""),
    ("p()", 3, "unexpected )", ""),
    ("p(x) &", 7, "the query ends too early", ""),
    ("x", 1, "x alone is not a formula", "write a relation"),
    ("p(x) q(x)", 6, "unexpected q", ""),
    ("p('ann)", 3, "the quote ' is not closed", "close it with '"),
    ("p('')", 3, "a name cannot be empty", ""),
    ("p(_)", 3, "_ is not a variable", "its own name"),
    ("p(?)", 3, "a variable name is missing after ?", "?x"),
    ("p(x) @ q(x)", 6, "unexpected character @ (commercial at)", "quoted"),
    ("p(x) \u202e", 6, r"unexpected character \u202e (right-to-left override)", ""),
    ("exists p. p(x) & p(x, y)", 18, "p has 1 argument above, not 2", ""),
    ("exists p. r(p, p) & p(x)", 21, "p is an object variable and cannot be a relation here", ""),
    ("exists p. p(x) & r(p, x)", 20, "p is a relation variable and cannot be an object here", ""),
    ("r(x, y) > 3", 1, "takes one argument, not 2", ""),
    ("age(x) > y", 10, "y is not a number", "population(x) > 1000000"),
    ("age(x) > 1e999", 10, "1e999 is not a number", ""),
    ("r(a,b,c,d,e,f,g,h,i)", 20, "at most 8 arguments, not 9", ""),
]


@pytest.mark.parametrize(("text", "column", "message", "hint"), MISTAKES)
def test_mistakes_have_a_message_and_a_location(text: str, column: int, message: str, hint: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_query(text)
    error = caught.value
    assert message in error.message
    assert hint in error.hint
    assert error.location is not None
    assert (error.location.line, error.location.column) == (1, column)
    assert "^" in str(error)


FEATURE_MISTAKES = [
    ("sum r(s1, x)", "sum needs an attribute", "sum population(x) for"),
    ("exists s1. p(s1)", "s1 belongs to the query and cannot be bound", "rename"),
    ("each rel. p(s1)", "rel is not used as a relation in this feature", "write for example rel(s1, x)"),
    ("age(s1) - 5", "unexpected 5", ""),
    ("count", "the feature ends too early", ""),
    ("age(s1, s2) - age(s2)", "age is an attribute here and takes one argument, not 2", ""),
    ("count r(s1, x) for p(x)", "r is an attribute here and takes one argument, not 2", ""),
]


@pytest.mark.parametrize(("text", "message", "hint"), FEATURE_MISTAKES)
def test_a_mistake_in_a_feature(text: str, message: str, hint: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_feature(text)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [("exists. p(x)", "a variable"), (":- p(x)", "a relation"), ("age(x) > -y", "a number"), ("p(", "a variable")],
)
def test_expected_tokens_are_described(text: str, expected: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_query(text)
    assert caught.value.expected[0] == expected


@pytest.mark.parametrize("text", [None, 5, b"p(x)"])
def test_other_types_than_text_are_refused(text: object) -> None:
    with pytest.raises(ArgumentError, match="text must be a string, got"):
        parse(text)  # type: ignore[arg-type]


def test_a_knowledge_base_can_be_passed_for_its_schema() -> None:
    kb = gaifman.demo()
    assert parse("borders(x, 'france')", kb) == parse("borders(x, 'france')", kb.schema)
    with pytest.raises(FormulaError, match="there is no relation bordrs"):
        parse("bordrs(x, y)", kb)


@pytest.mark.parametrize("text", ["age(x)", "age(x) - age(s1)", "age(s1) - age(x)"])
def test_an_attribute_outside_an_aggregate_needs_a_bound_variable(text: str) -> None:
    with pytest.raises(FormulaError, match="x is not bound here"):
        parse_feature(text, VOCABULARY)


def test_expected_tokens_are_listed() -> None:
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


# Text into tokens


@pytest.mark.parametrize(("kind", "spelling"), [(kind, s) for kind, spellings in SPELLINGS.items() for s in spellings])
def test_every_spelling_gives_the_canonical_symbol(kind: str, spelling: str) -> None:
    assert [token.kind for token in tokenise(f"a {spelling} b")] == ["word", kind, "word", "end"]


@pytest.mark.parametrize("sign", FOREIGN_SYMBOLS)
def test_symbols_of_other_languages_get_a_hint(sign: str) -> None:
    with pytest.raises(FormulaError) as caught:
        tokenise(f"a {sign} b")
    assert caught.value.message == f"{sign} is not used here"
    assert caught.value.hint == FOREIGN_SYMBOLS[sign]


def test_longest_symbol_first() -> None:
    assert [t.kind for t in tokenise("a<->b<=c!=d:-e")] == [
        "word",
        "↔",
        "word",
        "≤",
        "word",
        "≠",
        "word",
        ":-",
        "word",
        "end",
    ]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("/m/01.", ["path", ".", "end"]),
        ("1.5.", ["path", ".", "end"]),
        ("5->6", ["path", "→", "path", "end"]),
        ("x-y", ["word", "-", "word", "end"]),
        ("?x.", ["variable", ".", "end"]),
        ("exists_x", ["word", "end"]),
        ("format", ["word", "end"]),
    ],
)
def test_where_names_end(text: str, kinds: list[str]) -> None:
    assert [token.kind for token in tokenise(text)] == kinds


def test_spans_point_into_the_text() -> None:
    text = "  p ( 'a b' )"
    assert [text[slice(*token.span)] for token in tokenise(text)] == ["p", "(", "'a b'", ")", ""]


def test_names_lose_their_quotes_and_question_marks() -> None:
    assert [token.name for token in tokenise("'a\\'b' ?x y")][:3] == ["a'b", "x", "y"]


def test_too_many_tokens_are_refused_at_the_first_one_too_many() -> None:
    with pytest.raises(LimitError) as caught:
        tokenise("p(x) & q(y)", Limits(nodes=3))
    assert caught.value.location is not None
    assert caught.value.location.column == 8


def test_a_stream_reads_from_left_to_right_and_stays_at_the_end() -> None:
    cursor = TokenStream("p(x)", DEFAULT_LIMITS, "formula")
    assert cursor.next_token.kind == "("
    assert [cursor.advance().kind for _ in range(6)] == ["word", "(", "word", ")", "end", "end"]
    assert cursor.next_token.kind == "end"
