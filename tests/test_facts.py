"""Facts as people write them, and how they are put on a heap."""

from __future__ import annotations

import pytest

from gaifman.errors import KnowledgeError
from gaifman.facts import Fact, Note, check_kinds, dropped_notes, fact_of, pile, some, written
from gaifman.tables import Dropped, Heap, assemble


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


def test_names_stand_bare_where_they_can() -> None:
    assert [written(name) for name in ("ann", "/m/1", "12", "a b", "", "é", "a-b")] == [
        *("ann", "/m/1", "12", "'a b'", "''", "é", "'a-b'"),
    ]


def test_a_tuple_is_a_fact() -> None:
    assert fact_of(("p", "a", "b")) == Fact("p", ("a", "b"), 1.0)
    assert fact_of(Fact("p", ("a",), 0.5)).confidence == 0.5
    with pytest.raises(KnowledgeError, match="not 'text'"):
        fact_of("text")  # type: ignore[arg-type]


def test_a_heap_keeps_the_numbers_it_had() -> None:
    heap = Heap(["z"], ["s"], [1], ["w"])
    pile(heap, [("r", "a", "z"), ("s", "a")], {("v", "b"): 2}, ["lonely"])
    assert heap.objects == ["z", "a", "b", "lonely"]
    assert (heap.relations, heap.arities, heap.attributes) == (["s", "r"], [1, 2], ["w", "v"])
    assert heap.facts[2][0][1].tolist() == [[1, 0]]


def test_a_type_is_no_attribute() -> None:
    check_kinds(Heap([], ["p", "q"], [2, 1], ["p"]))
    with pytest.raises(KnowledgeError, match="q cannot be both a type and an attribute"):
        check_kinds(Heap([], ["p", "q"], [2, 1], ["q"]))


def test_notes_say_how_often_and_what() -> None:
    assert str(Note(1200, "names")) == "1,200 names"
    assert str(Note(1, "repeated facts", "p(a).")) == "1 repeated facts, such as p(a)."
    tables, _ = assemble(Heap(["a"], ["p"], [1], ["v"]))
    assert dropped_notes(tables, Dropped(0, None, 0, None)) == ()
    found = dropped_notes(tables, Dropped(3, (0, 0), 2, (0, 0)))
    assert [(note.count, note.example) for note in found] == [(3, "p(a)."), (2, "v(a)")]


def test_one_place_and_two_places() -> None:
    assert [some(count, "place") for count in (0, 1, 2000)] == ["0 places", "1 place", "2,000 places"]
