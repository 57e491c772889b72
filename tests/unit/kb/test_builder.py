"""The builder: many blocks, one numbering, errors with the location of the first wrong row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.errors import InputError, Location
from gaifman.kb import builder as kb_builder
from gaifman.kb.builder import NUMBER_FIELD, KnowledgeBaseBuilder, Locator, RowStore
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


# Repeated rows are folded as they come


@given(
    blocks=st.lists(
        st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from("abc"), st.sampled_from("ab")), max_size=8),
        max_size=12,
    ),
    certain=st.booleans(),
    fold_rows=st.integers(1, 40),
)
def test_folding_changes_nothing(blocks: list[list[tuple[str, str, str]]], certain: bool, fold_rows: int) -> None:
    """Facts, confidences, values and the counts of the notes are those of the definition, whatever is folded when."""
    facts, values = dict[tuple[str, ...], float](), dict[tuple[str, str], float]()
    builder, rows = KnowledgeBaseBuilder(), 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kb_builder, "FOLD_ROWS", fold_rows)
        for block in filter(None, blocks):
            confidence = [1.0 if certain else 1 / (1 + number) for number in range(rows, rows + len(block))]
            add(builder, *(f"{r} {x} {y}" for r, x, y in block), confidence=None if certain else confidence)
            rows += len(block)
            for (relation, one, other), share in zip(block, confidence, strict=True):
                key = (relation, one, other)
                facts[key] = max(share, facts.get(key, 0))
                value(builder, "age", one, share)
                values["age", one] = max(share, values.get(("age", one), 0))
        kb = builder.build()
    assert {(fact.relation, *fact.objects): fact.confidence for fact in kb.facts()} == facts
    assert {(attribute, name): number for attribute, name, number in kb.values()} == values
    counts = {note.text: note.count for note in kb.notes}
    assert counts.get("repeated facts, kept once", 0) == rows - len(facts)
    assert counts.get("repeated values of an attribute, the largest kept", 0) == rows - len(values)


def test_equal_rows_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 million equal lines once took 2.3 GB."""
    monkeypatch.setattr(kb_builder, "FOLD_ROWS", 1_000)
    builder = KnowledgeBaseBuilder()
    most = 0
    for _ in range(100):
        add(builder, *["parent ann bob"] * 100)
        most = max(most, sum(len(chunk[0]) for chunk in builder._facts[2].chunks))
    assert most < 2_000
    assert builder.build().notes == (Note(9_999, "repeated facts, kept once", "parent(ann, bob)."),)


def test_distinct_rows_are_not_sorted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kb_builder, "FOLD_ROWS", 10_000)
    store, numbers = RowStore(), np.arange(60_000, dtype=np.int32)
    monkeypatch.setattr(store, "_fold", lambda: pytest.fail("nothing is repeated"))
    for first in range(0, 60_000, 5_000):
        part = numbers[first : first + 5_000]
        store.add((part // 9_000, np.stack([part % 300, part // 300], axis=1), None))


def test_rows_beyond_the_limit_are_refused() -> None:
    builder = KnowledgeBaseBuilder(max_rows=3)
    add(builder, "parent ann bob", "parent ann bob")
    value(builder, "age", "ann", 80)
    error = refused(builder, "parent bob cleo")
    assert "more than 3 facts and values, repeated ones included" in error.message
