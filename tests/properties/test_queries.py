"""Queries: equal to the definition, in a stable order, by page and by part, with clear errors."""

from __future__ import annotations

import numpy as np
import pytest

import gaifman
import long_queries as queries_long
from gaifman.config import Budget
from gaifman.errors import FormulaError, GaifmanError, KnowledgeBaseError, LimitError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import Atom, Constant, Equal, Query, RelationVariable, Variable
from gaifman.queries.answers import answers, count, exists, prepare, stream
from gaifman.queries.engine import Engine
from generators import over_seeds

X, Y = Variable("x"), Variable("y")
FAMILY = KnowledgeBase.from_facts(
    [
        ("parent", "ann", "bob"),
        ("parent", "ann", "bea"),
        ("parent", "bob", "cleo"),
        ("parent", "bea", "dan"),
        ("person", "ann"),
        ("person", "eve"),
        ("gave", "ann", "ring", "bob"),
    ],
    {("age", "ann"): 80.0, ("age", "bob"): 50.5, ("age", "dan"): 20.0},
)


@over_seeds(72, blocks=8)
def test_random_queries_have_the_answers_of_the_definition(seed: int) -> None:
    tally = queries_long.Tally()
    queries_long.case(seed + 1_000_000, tally)
    assert not tally.wrong, tally.wrong[0]
    assert tally.pairs == queries_long.EACH


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parent('ann', y)", [("bea",), ("bob",)]),
        ("q(y, x) :- parent(x, y)", [("bea", "ann"), ("bob", "ann"), ("cleo", "bob"), ("dan", "bea")]),
        ("parent(x, x)", []),
        ("gave(x, y, z)", [("ann", "ring", "bob")]),
        ("person(x) & ~(exists y. parent(x, y))", [("eve",)]),
        ("forall y. parent(x, y) -> age(y) > 1", [(n,) for n in ("bea", "cleo", "dan", "eve", "ring")]),
        ("age(x) > 50 & age(x) <= 80", [("ann",), ("bob",)]),
        ("person(x) & ~(age(x) > 100)", [("ann",), ("eve",)]),
        ("age(x) > age(y)", [("ann", "bob"), ("ann", "dan"), ("bob", "dan")]),
        ("x = 'ann' | x = 'dan'", [("ann",), ("dan",)]),
        ("person(x) & (x = y | parent(x, y))", [("ann", "ann"), ("ann", "bea"), ("ann", "bob"), ("eve", "eve")]),
        ("exists r. r('ann', y)", [("bea",), ("bob",)]),
        ("parent(x, y) & x = 'bob'", [("bob", "cleo")]),
        ("true", [()]),
        ("exists x. parent(x, x)", []),
    ],
)
def test_answers_by_hand(text: str, expected: list[tuple[str, ...]]) -> None:
    found = answers(FAMILY, text)
    assert list(found) == expected
    assert count(FAMILY, text) == len(expected)
    assert exists(FAMILY, text) == bool(expected)
    assert [row for part in stream(FAMILY, text, batch_size=2) for row in part.tolist()] == found.tuples.tolist()


def test_the_arrays_are_numbers_of_objects_and_read_only() -> None:
    found = answers(FAMILY, "parent(x, y)")
    assert found.tuples.dtype == np.int32
    assert found.tuples.shape == (4, 2)
    assert not found.tuples.flags.writeable
    assert found.tuples.tolist() == sorted(found.tuples.tolist())
    assert answers(FAMILY, "exists x, y. parent(x, y)").tuples.shape == (1, 0)
    assert answers(FAMILY, "exists x. parent(x, x)").tuples.shape == (0, 0)


def test_pages_go_through_all_answers_in_order() -> None:
    everything = list(answers(FAMILY, "parent(x, y)"))
    pages = [answers(FAMILY, "parent(x, y)", skip=skip, budget=Budget(rows=2)) for skip in (0, 2, 4)]
    assert [names for page in pages for names in page] == everything
    assert [page.truncated for page in pages] == [True, False, False]
    assert [page.skipped for page in pages] == [0, 2, 4]


def test_variables_are_given_objects_by_name() -> None:
    assert list(answers(FAMILY, "parent(x, y)", x="bob")) == [("bob", "cleo")]
    assert list(answers(FAMILY, "parent(x, y)", {"x": "bob", "?y": "dan"})) == []
    assert count(FAMILY, "~parent(x, y)", x="ann") == 7 - 2
    assert exists(FAMILY, "parent(x, y)", y="dan")
    assert answers(FAMILY, "x = x", x="eve").prepared.statement.unrestricted == ()


def test_names_that_differ_by_case_are_two_columns() -> None:
    found = answers(FAMILY, "parent(x, X)")
    assert found.variables == ("x", "X")
    assert ("ann", "bob") in list(found)


def test_an_unrestricted_query_has_a_note_and_is_refused_above_the_limit() -> None:
    found = answers(FAMILY, "~parent(x, y)")
    assert found.prepared.note == "x, y range over the whole domain: 49 combinations"
    assert len(found) == 49 - 4
    with pytest.raises(LimitError, match="x, y range over the whole domain: 49 combinations, more than 48"):
        answers(FAMILY, "~parent(x, y)", budget=Budget(combinations=48))
    assert prepare(FAMILY, "person(x) & ~parent(x, x)").note == ""
    assert prepare(FAMILY, "x = x").note == "x ranges over the whole domain: 7 combinations"


def test_an_empty_knowledge_base_has_no_answers() -> None:
    empty = KnowledgeBase.from_facts([])
    assert list(answers(empty, "x = x")) == []
    assert not exists(empty, "exists x. x = x")
    assert exists(empty, "forall x. x != x")


def test_constants_that_are_no_objects_equal_only_themselves() -> None:
    ghost, other = Constant("ghost"), Constant("other")
    assert list(answers(FAMILY, Query((X,), Atom("parent", (X, ghost))))) == []
    assert exists(FAMILY, Query((), Equal(ghost, ghost)))
    assert not exists(FAMILY, Query((), Equal(ghost, other)))
    assert list(answers(FAMILY, Query((X,), Equal(X, ghost)))) == []


@pytest.mark.parametrize(
    ("question", "given", "message"),
    [
        ("parnt(x, y)", {}, "no relation parnt"),
        ("parent(x, y) &", {}, "ends too early"),
        ("parent(x, 'nobody')", {}, "no object 'nobody'"),
        ("parent(x, y)", {"z": "ann"}, "no variable z"),
        ("exists x. person(x)", {"x": "ann"}, "no free variables"),
        ("parent(x, y)", {"x": "anne"}, "no object anne"),
        (Query((X,), Atom("parent", (X, Y))), {}, "each once"),
        (Query((X, X), Atom("person", (X,))), {}, "each once"),
        (Query((X,), Atom("nothing", (X,))), {}, "no relation nothing"),
        (Query((X, Y), Atom(RelationVariable("r"), (X, Y))), {}, "relation variable r is not bound"),
    ],
)
def test_mistakes_are_one_clear_error(question: str | Query, given: dict[str, str], message: str) -> None:
    with pytest.raises(GaifmanError, match=message) as caught:
        answers(FAMILY, question, given)
    assert isinstance(caught.value, FormulaError | KnowledgeBaseError)


@pytest.mark.parametrize("skip", [-1, 1.5, True])
def test_skip_is_a_natural_number(skip: int) -> None:
    with pytest.raises(KnowledgeBaseError, match="skip must be an integer of at least 0"):
        answers(FAMILY, "person(x)", skip=skip)


def test_a_batch_has_at_least_one_answer() -> None:
    with pytest.raises(KnowledgeBaseError, match="batch_size must be an integer of at least 1"):
        stream(FAMILY, "person(x)", batch_size=0)
    with pytest.raises(FormulaError, match="no relation"):
        stream(FAMILY, "persn(x)")


def test_streams_hand_over_parts_of_the_size_asked_for() -> None:
    with Engine(FAMILY) as engine:
        parts = list(stream(engine, "~parent(x, y)", batch_size=10))
        assert [len(part) for part in parts] == [10, 10, 10, 10, 5]
        assert np.concatenate(parts).tolist() == answers(engine, "~parent(x, y)").tuples.tolist()
        assert sum(map(len, stream(engine, "~parent(x, y)", budget=Budget(rows=7)))) == 7


def test_answers_print_as_a_table_with_the_parsed_query() -> None:
    found = answers(FAMILY, "parent(x, y) & person(x)")
    assert repr(found) == "<Answers: 2 of parent(x, y) ∧ person(x)>"
    assert str(found) == "parent(x, y) ∧ person(x)\nx    y\nann  bea\nann  bob"
    assert str(answers(FAMILY, "exists x. person(x)")) == "∃x person(x)\ntrue"
    assert "… and 25 more" in str(answers(FAMILY, "~parent(x, y)"))
    assert "1 and more" in repr(answers(FAMILY, "person(x)", budget=Budget(rows=1)))


def test_a_query_asked_again_is_not_translated_again() -> None:
    with Engine(FAMILY) as engine:
        assert prepare(engine, "person(x)") is prepare(engine, "person(x)")
        assert prepare(engine, "person(x)", {"x": "ann"}) is not prepare(engine, "person(x)")
        assert prepare(engine, "person(x)", sentence=True).statement != prepare(engine, "person(x)").statement


def test_the_package_names_what_users_type() -> None:
    assert list(gaifman.query(FAMILY, "person(x)")) == [("ann",), ("eve",)]
    assert gaifman.count(FAMILY, "person(x)") == 2
    assert gaifman.exists(FAMILY, "person('ann')")
    assert len(gaifman.why(FAMILY, "person(x)", ("ann",))) == 1
