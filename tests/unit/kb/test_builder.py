"""The builder: many blocks, one numbering, errors with the location of the first wrong row."""

from __future__ import annotations

import numpy as np
import pytest

from gaifman.errors import InputError, Location
from gaifman.kb.builder import NUMBER_FIELD, KnowledgeBaseBuilder, Locator
from gaifman.kb.knowledge_base import KnowledgeBase, Note
from gaifman.kb.tables import Ints


def place(row: int, field: int = 0) -> Location:
    return Location("x", row + 1, field + 2, "text")


def add(
    builder: KnowledgeBaseBuilder, *rows: str, confidence: list[float] | None = None, where: Locator = place
) -> None:
    """Add rows such as "parent ann bob", all of one arity."""
    width = len(rows[0].split())
    words = [word for row in rows for word in row.split()]
    table = builder.encode_names(words, lambda position: where(position // width, position % width)).reshape(-1, width)
    builder.add_facts(table[:, 0], table[:, 1:], None if confidence is None else np.array(confidence), where)


def value(builder: KnowledgeBaseBuilder, attribute: str, obj: str, number: float) -> None:
    numbers = builder.encode_names([attribute, obj], place)
    builder.add_values(numbers[:1], numbers[1:], np.array([number]), place)


def test_blocks_of_several_arities_make_one_knowledge_base() -> None:
    builder = KnowledgeBaseBuilder()
    add(builder, "parent ann bob", "parent bob cleo", confidence=[1, 0.5])
    add(builder, "person ann")
    add(builder, "parent cleo ann")
    value(builder, "age", "ann", 80)
    kb = builder.build()
    assert [str(fact) for fact in kb.facts()] == [
        *("parent(ann, bob).", "0.5::parent(bob, cleo).", "parent(cleo, ann).", "person(ann)."),
    ]
    assert kb.value("age", "ann") == 80


def test_one_name_may_be_an_object_a_relation_and_an_attribute() -> None:
    builder = KnowledgeBaseBuilder()
    add(builder, "x x x")
    value(builder, "x", "x", 1)
    assert builder.build() == KnowledgeBase.from_facts([("x", "x", "x")], {("x", "x"): 1})


def test_names_of_relations_are_not_objects() -> None:
    builder = KnowledgeBaseBuilder()
    add(builder, "parent ann bob")
    assert list(builder.build().objects) == ["ann", "bob"]


def test_declared_names_need_no_facts() -> None:
    builder = KnowledgeBaseBuilder()
    numbers = builder.encode_names(["ann", "p", "r", "v"], place)
    builder.declare(numbers[:1], numbers[1:3], np.array([1, 2], np.int32), numbers[3:], place)
    kb = builder.build()
    assert (list(kb.objects), list(kb.attributes)) == (["ann"], ["v"])
    assert [(r.name, r.arity, r.count) for r in kb.relations.values()] == [("p", 1, 0), ("r", 2, 0)]


def refused(builder: KnowledgeBaseBuilder, *rows: str, confidence: list[float] | None = None) -> InputError:
    with pytest.raises(InputError) as caught:
        add(builder, *rows, confidence=confidence)
    return caught.value


def test_the_first_wrong_row_is_named() -> None:
    builder = KnowledgeBaseBuilder()
    add(builder, "p a b", "q a b")
    error = refused(builder, "r a", "q a", "p a")
    assert (error.message, error.location, error.hint) == (
        *("q has 2 arguments, not 1", place(1, 0), "its first fact is in x, line 2, column 2"),
    )


def test_arities_are_checked_in_the_order_of_rows() -> None:
    builder = KnowledgeBaseBuilder()
    relation: Ints = builder.encode_names(["p", "q", "p", "q"], place)
    builder.check_arities(relation, np.array([1, 2, 1, 2]), place)
    with pytest.raises(InputError) as caught:
        builder.check_arities(relation, np.array([1, 2, 3, 1]), place)
    assert (caught.value.message, caught.value.location) == ("p has 1 argument, not 3", place(2, 0))
    assert caught.value.hint == "its first fact is in x, line 1, column 2"


@pytest.mark.parametrize("wrong", [0, -0.5, 1.01, float("nan"), float("inf")])
def test_confidences_out_of_range_are_refused(wrong: float) -> None:
    error = refused(KnowledgeBaseBuilder(), "p a", "p b", confidence=[0.5, wrong])
    assert error.message == "a confidence must be above 0 and at most 1"
    assert error.location == place(1, NUMBER_FIELD)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_values_must_be_finite(wrong: float) -> None:
    with pytest.raises(InputError, match="a value must be a finite number"):
        value(KnowledgeBaseBuilder(), "age", "ann", wrong)


def test_an_invalid_name_has_its_location() -> None:
    builder = KnowledgeBaseBuilder()
    with pytest.raises(InputError) as caught:
        builder.encode_names(["ann", "", "bob"], place)
    assert caught.value.location == place(1)


def test_a_name_cannot_be_a_type_and_an_attribute() -> None:
    builder = KnowledgeBaseBuilder()
    value(builder, "age", "ann", 3)
    assert "both a type and an attribute" in refused(builder, "age ann").message
    builder = KnowledgeBaseBuilder()
    add(builder, "age ann")
    with pytest.raises(InputError, match="both a type and an attribute"):
        value(builder, "age", "ann", 3)


def test_notes_of_one_kind_are_added_up() -> None:
    builder = KnowledgeBaseBuilder()
    builder.add_note(2, "odd things", "this")
    builder.add_note(3, "odd things", "that")
    assert builder.build().notes == (Note(5, "odd things", "this"),)


def test_an_empty_builder_gives_an_empty_knowledge_base() -> None:
    assert KnowledgeBaseBuilder().build() == KnowledgeBase.from_facts([])
