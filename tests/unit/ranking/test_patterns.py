"""Patterns: atoms with objects and variables, and instances of a model's query."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaifman
from gaifman.errors import FormulaError, KnowledgeBaseError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import Atom, Constant, Query, Variable
from gaifman.logic.parser import parse_query
from gaifman.ranking.candidates import QueryPattern, atom_pattern, model_pattern

KB = KnowledgeBase.from_facts(
    [("parent", "ann", "bob"), ("parent", "bob", "cleo"), ("gave", "ann", "bob", "cup"), ("old", "ann")],
    {("age", "ann"): 80},
)
ANN, BOB, CLEO, CUP = range(4)
GRANDPARENT = parse_query("exists z. parent(x, z) & parent(z, y)", KB)


def atom(text: str, **given: str) -> QueryPattern:
    return atom_pattern(text, KB, list(KB.relations), given)[1]


# Atoms


@pytest.mark.parametrize(
    ("text", "places", "variables"),
    [
        ("parent(x, y)", ("x", "y"), ("x", "y")),
        ("parent('ann', y)", (ANN, "y"), ("y",)),
        ("parent(x, 'cleo')", ("x", CLEO), ("x",)),
        ("parent(x, x)", ("x", "x"), ("x",)),
        ("parent('ann', 'bob')", (ANN, BOB), ()),
        ("gave(x, y, x)", ("x", "y", "x"), ("x", "y")),
        ("gave(?ann, 'bob', z)", ("ann", BOB, "z"), ("ann", "z")),
        ("child(y, x) :- parent(x, y)", ("x", "y"), ("y", "x")),
        ("old(x)", ("x",), ("x",)),
    ],
)
def test_atoms(text: str, places: tuple[int | str, ...], variables: tuple[str, ...]) -> None:
    relation, found = atom_pattern(text, KB, list(KB.relations))
    assert relation == text.removeprefix("child(y, x) :- ").partition("(")[0]
    assert (found.terms, found.variables) == (places, variables)


def test_objects_for_variables() -> None:
    assert atom("parent(x, y)", x="ann") == atom("parent('ann', y)")
    assert atom("parent(x, x)", x="ann").terms == (ANN, ANN)
    assert atom("gave(x, y, x)", y="bob").terms == ("x", BOB, "x")
    assert atom_pattern("parent(?x, y)", KB, ["parent"], {"?x": "ann"})[1].terms == (ANN, "y")


def test_the_bracketed_query_has_the_bindings() -> None:
    assert atom("parent(x, y)", x="ann").bracketed == "parent('ann', y)"
    assert atom("child(y, x) :- parent(x, y)", x="ann").bracketed == "child(y) :- parent('ann', y)"
    assert atom("child(y, x) :- parent(x, y)", x="ann", y="bob").bracketed == "parent('ann', 'bob')"


def test_a_query_made_by_hand() -> None:
    x = Variable("x")
    found = atom_pattern(Query((x,), Atom("parent", (Constant("ann"), x))), KB, ["parent"])[1]
    assert found == QueryPattern((ANN, "x"), ("x",), "parent('ann', x)")
    with pytest.raises(FormulaError, match="there is no object 'dan'"):
        atom_pattern(Query((x,), Atom("parent", (Constant("dan"), x))), KB, ["parent"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parnt(x, y)", "there is no relation parnt"),
        ("parent(x)", "parent has 2 arguments, not 1"),
        ("parent('dan', y)", "there is no object 'dan'"),
        ("parent(ann, y)", "also the name of an object"),
        ("parent(x, y) & old(x)", "a completion answers queries of one relation"),
        ("exists y. parent(x, y)", "a completion answers queries of one relation"),
        ("exists r. r(x, y)", "a completion answers queries of one relation"),
        ("age(x) > 3", "a completion answers queries of one relation"),
        ("parent(x, y", "query, line 1"),
    ],
)
def test_mistakes_in_atoms(text: str, message: str) -> None:
    with pytest.raises(FormulaError) as caught:
        atom(text)
    assert message in str(caught.value)


def test_a_relation_without_a_model_is_pointed_at() -> None:
    with pytest.raises(FormulaError, match="there is no model of parent") as caught:
        atom_pattern("p(x) :- parent(x, 'bob')", KB, ["parents", "old"])
    assert caught.value.suggestions == ("parents",)
    assert caught.value.hint == "there are models of parents, old"
    assert caught.value.location is not None
    assert (caught.value.location.column, caught.value.location.width) == (9, 6)
    with pytest.raises(FormulaError, match="there is no model") as caught:
        atom_pattern("old(x)", KB, [f"r{i}" for i in range(9)])
    assert caught.value.hint == "there are models of r0, r1, r2, r3, r4, …"


def test_mistakes_in_what_is_given() -> None:
    with pytest.raises(FormulaError, match="the query has no variable z") as caught:
        atom("parent(x, y)", z="ann")
    assert caught.value.hint == "its variables are x, y"
    with pytest.raises(FormulaError, match="it has no free variables"):
        atom("parent('ann', 'bob')", x="ann")
    with pytest.raises(KnowledgeBaseError, match="there is no object ane") as other:
        atom("parent(x, y)", x="ane")
    assert "ann" in other.value.suggestions


# Instances of a query


@pytest.mark.parametrize(
    ("text", "places", "variables"),
    [
        ("exists z. parent(x, z) & parent(z, y)", ("x", "y"), ("x", "y")),
        ("exists w. parent(a, w) & parent(w, b)", ("a", "b"), ("a", "b")),
        ("exists z. parent('ann', z) & parent(z, y)", (ANN, "y"), ("y",)),
        ("exists x. parent(z, x) & parent(x, z)", ("z", "z"), ("z",)),
        ("exists x. parent(y, x) & parent(x, z)", ("y", "z"), ("y", "z")),
        ("g(b, a) :- parent(a, z), parent(z, b)", ("a", "b"), ("b", "a")),
        ("exists z. parent('ann', z) & parent(z, 'cleo')", (ANN, CLEO), ()),
    ],
)
def test_instances(text: str, places: tuple[int | str, ...], variables: tuple[str, ...]) -> None:
    found = model_pattern(GRANDPARENT, KB, text)
    assert (found.terms, found.variables) == (places, variables)


@pytest.mark.parametrize(
    "text",
    [
        "parent(x, y)",
        "forall z. parent(x, z) & parent(z, y)",
        "exists z. parent(x, z) | parent(z, y)",
        "exists z. parent(x, z) & parent(y, z)",
        "exists z. parent(x, z) & parent(z, z)",
        "exists z. parent(z, z) & parent(z, y)",
        "exists z. parent(x, y) & parent(y, z)",
        "exists z. parent(x, z) & parent(z, y) & old(x)",
        "exists z. parent(x, 'bob') & parent('bob', y)",
        "exists z, w. parent(x, z) & parent(z, y)",
        "exists z. old(x) & parent(z, y)",
        "exists z. exists w. parent(x, z) & parent(z, y)",
    ],
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(FormulaError, match="the model was trained on"):
        model_pattern(GRANDPARENT, KB, text)


def test_bound_names_are_followed_into_inner_quantifiers() -> None:
    own = parse_query("exists z. parent(x, z) & (exists z. parent(z, y))", KB)
    assert model_pattern(own, KB, "exists v. parent(x, v) & (exists w. parent(w, y))").terms == ("x", "y")
    assert model_pattern(own, KB, "exists w. parent(x, w) & (exists w. parent(w, 'cleo'))").terms == ("x", CLEO)
    other = parse_query("exists z. exists w. parent(x, z) & parent(z, w)", KB)
    with pytest.raises(FormulaError, match="the model was trained on"):
        model_pattern(other, KB, "exists w. exists w. parent(x, w) & parent(w, w)")


def test_numbers_and_relation_variables_are_compared() -> None:
    old = parse_query("age(x) > 60 & (exists r. r(x, y))", KB)
    assert model_pattern(old, KB, "age('ann') > 60 & (exists s. s('ann', y))").terms == (ANN, "y")
    for text in (
        "age(x) > 61 & (exists r. r(x, y))",
        "age(x) < 60 & (exists r. r(x, y))",
        "age(x) > 60 & parent(x, y)",
    ):
        with pytest.raises(FormulaError, match="the model was trained on"):
            model_pattern(old, KB, text)


def test_a_query_with_an_object_wants_that_object() -> None:
    own = parse_query("parent(x, y) & parent('ann', y)", KB)
    assert model_pattern(own, KB, "parent('ann', u) & parent('ann', u)").terms == (ANN, "u")
    with pytest.raises(FormulaError, match="the model was trained on"):
        model_pattern(own, KB, "parent(x, u) & parent('bob', u)")


def test_without_a_question_the_query_itself_is_meant() -> None:
    found = model_pattern(GRANDPARENT, KB, bindings={"x": "ann"})
    assert found == QueryPattern((ANN, "y"), ("y",), "∃z (parent('ann', z) ∧ parent(z, y))")
    assert model_pattern(GRANDPARENT, KB).variables == ("x", "y")
    with pytest.raises(FormulaError, match="the query has no variable w"):
        model_pattern(GRANDPARENT, KB, bindings={"w": "ann"})


def test_the_names_of_what_is_given_are_those_of_the_question() -> None:
    found = model_pattern(GRANDPARENT, KB, "exists z. parent(a, z) & parent(z, b)", {"b": "cleo"})
    assert (found.terms, found.variables) == (("a", CLEO), ("a",))


# Tuples


def test_tuples_and_values() -> None:
    pattern = atom("gave(x, 'bob', x)")
    tuples = pattern.tuples(np.array([[ANN], [CUP]], np.int32))
    assert tuples.tolist() == [[ANN, BOB, ANN], [CUP, BOB, CUP]]
    assert pattern.values(tuples).tolist() == [[ANN], [CUP]]
    assert pattern.matches(np.array([[0, 1, 0], [0, 2, 0], [0, 1, 3]])).tolist() == [True, False, False]
    assert pattern.positions_of("x") == [0, 2]
    nothing = atom("parent('ann', 'bob')")
    assert nothing.tuples(np.zeros((1, 0), np.int32)).tolist() == [[ANN, BOB]]
    assert nothing.values(np.array([[ANN, BOB]])).shape == (1, 0)


@given(st.data(), st.integers(1, 4), st.integers(1, 3))
def test_values_come_back_from_tuples(data: st.DataObject, width: int, rows: int) -> None:
    places = tuple(
        data.draw(st.lists(st.one_of(st.integers(0, 3), st.sampled_from("xyz")), min_size=width, max_size=width))
    )
    variables = tuple(data.draw(st.permutations(sorted({what for what in places if isinstance(what, str)}))))
    pattern = QueryPattern(places, variables, "")
    values = np.array(
        data.draw(
            st.lists(
                st.lists(st.integers(0, 9), min_size=len(variables), max_size=len(variables)),
                min_size=rows,
                max_size=rows,
            )
        ),
        np.int32,
    )
    tuples = pattern.tuples(values.reshape(rows, len(variables)))
    assert pattern.matches(tuples).all()
    assert np.array_equal(pattern.values(tuples), values)
    every = np.array(np.meshgrid(*[range(4)] * width)).reshape(width, -1).T.astype(np.int32)
    fitting = every[pattern.matches(every)]
    assert np.array_equal(pattern.tuples(pattern.values(fitting)), fitting), "what fits is made of its values"


@pytest.mark.parametrize("question", [5, None, ["borders(x, y)"]])
def test_a_question_is_a_text_or_a_query(question: Any) -> None:
    with pytest.raises(FormulaError, match="a query is a text or a Query"):
        atom_pattern(question, gaifman.demo(), ["borders"])
