"""Facts as names: printing, checks and encoding."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from gaifman.errors import KnowledgeBaseError, plural
from gaifman.kb.knowledge_base import (
    Fact,
    FactLike,
    Note,
    append_facts,
    as_fact,
    check_types_and_attributes,
    duplicate_notes,
    format_name,
)
from gaifman.kb.tables import Duplicates, RawFacts, build_tables


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (Fact("p", ("a",)), "p(a)."),
        (Fact("has part", ("it's", "B")), "'has part'('it\\'s', B)."),
        (Fact("p", ("a", "b"), 0.25), "0.25::p(a, b)."),
        (Fact("0.9::p", ("3.5",)), "'0.9::p'(3.5)."),
        (Fact("exists", ("_",)), "'exists'('_')."),
    ],
)
def test_facts_print_as_in_a_file(fact: Fact, text: str) -> None:
    assert str(fact) == text


def test_names_are_quoted_only_where_necessary() -> None:
    assert [format_name(name) for name in ("ann", "/m/1", "12", "a b", "", "é", "a-b")] == [
        *("ann", "/m/1", "12", "'a b'", "''", "é", "'a-b'"),
    ]


def test_a_tuple_is_a_fact() -> None:
    assert as_fact(("p", "a", "b")) == Fact("p", ("a", "b"), 1.0)
    assert as_fact(Fact("p", ("a",), 0.5)).confidence == 0.5
    with pytest.raises(KnowledgeBaseError, match="got 'text'"):
        as_fact("text")  # type: ignore[arg-type]


def test_appending_keeps_the_old_numbers() -> None:
    raw = RawFacts(["z"], ["s"], [1], ["w"])
    append_facts(raw, [("r", "a", "z"), ("s", "a")], {("v", "b"): 2}, ["lonely"])
    assert raw.objects == ["z", "a", "b", "lonely"]
    assert (raw.relations, raw.arities, raw.attributes) == (["s", "r"], [1, 2], ["w", "v"])
    assert raw.facts[2][0][1].tolist() == [[1, 0]]


def test_a_type_cannot_be_an_attribute_too() -> None:
    check_types_and_attributes(RawFacts([], ["p", "q"], [2, 1], ["p"]))
    with pytest.raises(KnowledgeBaseError, match="q cannot be both a type and an attribute"):
        check_types_and_attributes(RawFacts([], ["p", "q"], [2, 1], ["q"]))


def test_notes_say_how_often_and_what() -> None:
    assert str(Note(1200, "names")) == "1,200 names"
    assert str(Note(1, "repeated facts", "p(a).")) == "1 repeated facts, such as p(a)."
    tables, _ = build_tables(RawFacts(["a"], ["p"], [1], ["v"]))
    assert duplicate_notes(tables, Duplicates(0, None, 0, None)) == ()
    found = duplicate_notes(tables, Duplicates(3, (0, 0), 2, (0, 0)))
    assert [(note.count, note.example) for note in found] == [(3, "p(a)."), (2, "v(a)")]


def test_plural() -> None:
    assert [plural(count, "fact") for count in (0, 1, 2000)] == ["0 facts", "1 fact", "2,000 facts"]


# What a user may write by mistake


@pytest.mark.parametrize(
    "fact",
    [
        *(Fact("person", "ann"), Fact("person", None), Fact("person", 5), Fact(5, ("ann",))),  # type: ignore[arg-type]
        *(Fact("p", ("a",), "0.9"), Fact("p", ("a",), None), Fact("p", ("a",), 1j)),  # type: ignore[arg-type]
        *(Fact("p", ("a",), math.nan), Fact("p", ("a",), 10**400), Fact("p", ("a",), 0)),
        *("ann", 5, None, (), ("p",), ("p", 5), ("p", ("a", "b")), ["p", "a"]),
    ],
)
def test_invalid_facts_are_our_errors(fact: FactLike) -> None:
    with pytest.raises(KnowledgeBaseError) as caught:
        as_fact(fact)
    assert len(str(caught.value)) < 300


def test_a_fact_may_be_given_as_a_list_of_objects_and_any_number() -> None:
    odd = as_fact(Fact("p", ["a", "b"], np.float32(0.5)))  # type: ignore[arg-type]
    assert odd == Fact("p", ("a", "b"), 0.5)
    assert type(odd.confidence) is float
    assert as_fact(Fact("p", ("a",), Fraction(1, 4))).confidence == 0.25  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values",
    [
        *({("v", "a"): 10**400}, {("v", "a"): 1j}, {("v", "a"): "5"}, {("v", "a"): None}, {("v", "a"): math.inf}),
        *({"va": 1}, {("v",): 1}, {("v", "a", "b"): 1}, {("v", 5): 1}, {5: 1}, [("v", "a")], 5),
    ],
)
def test_invalid_values_are_our_errors(values: dict[tuple[str, str], float]) -> None:
    with pytest.raises(KnowledgeBaseError) as caught:
        append_facts(RawFacts([], [], []), [], values)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("objects", ["ann", [1], [None], ["ann", 2], [""], ["a\0"]])
def test_invalid_objects_are_our_errors(objects: list[str]) -> None:
    with pytest.raises(KnowledgeBaseError):
        append_facts(RawFacts([], [], []), [], {}, objects)


def test_a_note_has_a_singular() -> None:
    one, many = (Note(count, "repeated facts", "", "repeated fact") for count in (1, 2000))
    assert (str(one), str(many)) == ("1 repeated fact", "2,000 repeated facts")
