"""The knowledge base: canonical, immutable, and derived ones equal their definition."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gaifman
from gaifman.errors import FormulaError, GaifmanError, KnowledgeBaseError
from gaifman.kb.knowledge_base import (
    Fact,
    FactLike,
    KnowledgeBase,
    Note,
    as_collection,
    shared_names,
    unify_schemas,
    union,
)
from gaifman.logic.parser import parse
from gaifman.logic.semantics import holds
from kbs import HOSTILE, knowledge_bases, plain_names
from trained import FEW, towns

FAMILY: list[FactLike] = [
    ("parent", "ann", "bob"),
    ("parent", "bob", "cleo"),
    Fact("parent", ("bob", "dan"), 0.5),
    ("person", "ann"),
    ("gave", "ann", "book", "cleo"),
]


@pytest.fixture
def family() -> KnowledgeBase:
    return KnowledgeBase.from_facts(FAMILY, {("age", "ann"): 80, ("age", "bob"): 55.5}, ["ghost"])


def everything(kb: KnowledgeBase) -> tuple[object, ...]:
    """All that a knowledge base holds, by its public interface."""
    relations = [(relation.name, relation.arity) for relation in kb.relations.values()]
    return list(kb.objects), relations, list(kb.attributes), list(kb.facts()), list(kb.values())


# Names in, names out


def test_objects_relations_and_attributes_are_named_and_counted(family: KnowledgeBase) -> None:
    assert list(family.objects) == ["ann", "bob", "book", "cleo", "dan", "ghost"]
    assert {r.name: (r.arity, r.count) for r in family.relations.values()} == {
        "gave": (3, 1),
        "parent": (2, 3),
        "person": (1, 1),
    }
    assert {a.name: a.count for a in family.attributes.values()} == {"age": 2}
    assert len(family) == 5
    assert repr(family) == "<KnowledgeBase: 6 objects, 3 relations, 5 facts, 1 attribute with 2 values>"


def test_facts_come_sorted_by_relation_and_object(family: KnowledgeBase) -> None:
    assert [str(fact) for fact in family.facts()] == [
        "gave(ann, book, cleo).",
        "parent(ann, bob).",
        "parent(bob, cleo).",
        "0.5::parent(bob, dan).",
        "person(ann).",
    ]
    assert [fact.objects for fact in family.facts("parent", "bob")] == [("ann", "bob"), ("bob", "cleo"), ("bob", "dan")]
    assert [fact.relation for fact in family.facts(obj="cleo")] == ["gave", "parent"]
    assert list(family.facts(obj="ghost")) == []


def test_membership_types_and_values(family: KnowledgeBase) -> None:
    assert ("parent", "ann", "bob") in family
    assert Fact("parent", ("bob", "dan"), 0.1) in family
    for absent in [("parent", "bob", "ann"), ("parent", "ann"), ("likes", "ann", "bob"), ("parent", "ann", "zoe")]:
        assert absent not in family
    assert family.types() == ("person",)
    assert family.types("ann") == ("person",)
    assert family.types("bob") == ()
    assert family.value("age", "bob") == 55.5
    assert family.value("age", "cleo") is None


def test_ids_are_positions_among_the_sorted_names(family: KnowledgeBase) -> None:
    assert [family.object_id(name) for name in family.objects] == list(range(6))
    assert family.object_name(3) == "cleo"
    with pytest.raises(KnowledgeBaseError, match="numbered from 0 to 5, got 6"):
        family.object_name(6)
    with pytest.raises(KnowledgeBaseError, match="got -1"):
        family.object_name(-1)


@pytest.mark.parametrize(
    ("ask", "message", "suggestions"),
    [
        (lambda kb: kb.object_id("anne"), "there is no object anne", ("ann",)),
        (lambda kb: kb.types("bobb"), "there is no object bobb", ("bob",)),
        (lambda kb: kb.facts("parents"), "there is no relation parents", ("parent",)),
        (lambda kb: kb.facts(obj="cloe"), "there is no object cloe", ("cleo",)),
        (lambda kb: kb.value("agee", "ann"), "there is no attribute agee", ("age",)),
        (lambda kb: kb.value("age", "anne"), "there is no object anne", ("ann",)),
        (lambda kb: kb.without_facts([("parents", "ann", "bob")]), "there is no relation parents", ("parent",)),
        (lambda kb: kb.without_facts([("parent", "anne", "bob")]), "there is no object anne", ("ann",)),
        (lambda kb: kb.induced(["anne"]), "there is no object anne", ("ann",)),
        (
            lambda kb: kb.without_facts([("parent", "bob", "ann")]),
            "the fact parent(bob, ann). is not known",
            ("parent(ann, bob).", "parent(bob, cleo).", "0.5::parent(bob, dan)."),
        ),
        (lambda kb: kb.without_facts([("parent", "bob")]), "parent has 2 arguments, not 1", ()),
    ],
)
def test_unknown_names_are_errors_with_suggestions(family, ask, message, suggestions) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KnowledgeBaseError) as caught:
        ask(family)
    assert caught.value.message == message
    assert caught.value.suggestions[: len(suggestions)] == suggestions


# One canonical form


@given(knowledge_bases(isolated=True), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_the_order_of_facts_changes_nothing(kb: KnowledgeBase, order: random.Random) -> None:
    facts, values, objects = list(kb.facts()), list(kb.values()), list(kb.objects)
    for part in (facts, values, objects):
        order.shuffle(part)
    again = KnowledgeBase.from_facts(facts, {(a, o): v for a, o, v in values}, objects)
    empty = {name for name, relation in kb.relations.items() if not relation.count}
    if not empty:
        assert again == kb
        assert hash(again) == hash(kb)
    assert list(again.facts()) == list(kb.facts())


@given(knowledge_bases(isolated=True))
@settings(max_examples=50)
def test_arrays_are_sorted_read_only_and_of_the_stated_shape(kb: KnowledgeBase) -> None:
    for arity, table in kb.fact_tables.items():
        assert table.objects.shape == (len(table), arity) == (len(table.relation), table.arity)
        kinds = [str(array.dtype) for array in (table.relation, table.objects, table.starts)]
        assert kinds == ["int32", "int32", "int64"]
        rows = [tuple(row) for row in np.column_stack([table.relation, table.objects]).tolist()]
        assert rows == sorted(set(rows))
        for number in range(len(kb.relations)):
            assert all(table.relation[row] == number for row in table.rows(number))
        assert table.starts[-1] == len(table)
        for array in (table.relation, table.objects, table.starts):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
        assert table.confidence is None or not (table.confidence == 1).all()
    assert kb.value_table.starts[-1] == len(kb.value_table)


def test_facts_too_wide_to_pack_into_64_bits_sort_the_same_way() -> None:
    names = [f"n{number}" for number in range(400)]
    draw = random.Random(1)
    facts = [("p", *(draw.choice(names) for _ in range(8))) for _ in range(300)]
    kb = KnowledgeBase.from_facts([*facts, *facts[:5]], objects=names)
    assert len(kb.fact_tables[8]) == 300
    assert [(fact.relation, *fact.objects) for fact in kb.facts()] == sorted(facts)
    assert all(fact in kb for fact in facts)
    assert kb.notes[0].count == 5
    halves: list[FactLike] = [Fact("p", fact[1:], 0.5) for fact in facts]
    weighted = KnowledgeBase.from_facts([*halves, *facts[:2]], objects=names)
    assert sorted(fact.confidence for fact in weighted.facts())[-3:] == [0.5, 1.0, 1.0]


def test_repeated_facts_are_kept_once_with_the_highest_confidence() -> None:
    facts: list[FactLike] = [Fact("p", ("a",), 0.3), Fact("p", ("a",), 0.9), Fact("p", ("a",), 0.5), ("p", "b")]
    kb = KnowledgeBase.from_facts(facts)
    assert [fact.confidence for fact in kb.facts()] == [0.9, 1.0]
    assert kb.notes == (Note(2, "repeated facts, kept once", "p(a)."),)
    assert str(kb.notes[0]) == "2 repeated facts, kept once, such as p(a)."


def test_minus_zero_is_zero() -> None:
    one, other = (KnowledgeBase.from_facts([], {("v", "a"): zero}) for zero in (0.0, -0.0))
    assert one == other


def test_different_content_has_different_fingerprints(family: KnowledgeBase) -> None:
    others = [
        family.with_facts([("parent", "ann", "dan")]),
        family.with_facts([("parent", "bob", "dan")]),
        family.with_facts([], {("age", "cleo"): 20}),
        family.with_facts([], {("age", "ann"): 81}),
        family.without_facts([("person", "ann")]),
        family.induced(["ann", "bob", "book", "cleo", "dan"]),
        union([family], prefixes=["x"]),
        KnowledgeBase.from_facts([]),
        KnowledgeBase.from_facts([], objects=["a"]),
        KnowledgeBase.from_facts([], objects=["a", "b"]),
        KnowledgeBase.from_facts([("b", "a")]),
        KnowledgeBase.from_facts([("a", "b")]),
    ]
    assert len({kb.fingerprint for kb in [family, *others]}) == len(others) + 1
    assert len(family.fingerprint) == 32


def test_the_fingerprint_is_the_same_in_every_version_and_machine(family: KnowledgeBase) -> None:
    assert family.fingerprint == "8d3d20a5c59c4fd8b39bc1bd5dc66a68"


def test_notes_do_not_count(family: KnowledgeBase) -> None:
    assert KnowledgeBase(family.content, (Note(1, "said"),)) == family


def test_it_is_immutable(family: KnowledgeBase) -> None:
    with pytest.raises(AttributeError):
        family.notes = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        family.relations["x"] = None  # type: ignore[index]
    with pytest.raises(TypeError):
        family.fact_tables[2] = None  # type: ignore[index]


# What cannot be known


@pytest.mark.parametrize(
    ("facts", "values", "message"),
    [
        ([("p", "a"), ("p", "a", "b")], {}, "p(a, b).: the relation has 1 argument elsewhere"),
        ([("p",)], {}, "a relation has 1 to 8 arguments, not 0"),
        ([("p", *"abcdefghi")], {}, "a relation has 1 to 8 arguments, not 9"),
        ([()], {}, "a fact must be a tuple"),
        (["p(a)"], {}, "a fact must be a tuple"),
        ([("p", 1)], {}, "relations and objects must be strings"),
        ([("p", "")], {}, "a name cannot be empty"),
        ([("", "a")], {}, "a name cannot be empty"),
        ([("p", "a\0")], {}, "NUL"),
        ([("p", "\ud800")], {}, "surrogate"),
        ([Fact("p", ("a",), 0)], {}, "a confidence must be above 0 and at most 1, got 0"),
        ([Fact("p", ("a",), 1.5)], {}, "at most 1, got 1.5"),
        ([Fact("p", ("a",), float("nan"))], {}, "got nan"),
        ([], {("v", "a"): float("inf")}, "v(a) must be a finite number, got inf"),
        ([], {("v", "a"): "3"}, "v(a) must be a finite number, got '3'"),
        ([], {("v", 3): 3}, "the key of a value must be"),
        ([("p", "a")], {("p", "b"): 1}, "p cannot be both a type and an attribute"),
    ],
)
def test_invalid_facts_are_refused(facts, values, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KnowledgeBaseError) as caught:
        KnowledgeBase.from_facts(facts, values)
    assert message in caught.value.message


def test_a_binary_relation_may_share_its_name_with_an_attribute() -> None:
    kb = KnowledgeBase.from_facts([("size", "a", "b")], {("size", "a"): 3})
    assert kb.value("size", "a") == 3


def test_arity_conflicts_with_what_was_known_before(family: KnowledgeBase) -> None:
    with pytest.raises(KnowledgeBaseError, match="the relation has 2 arguments elsewhere"):
        family.with_facts([("parent", "ann")])
    with pytest.raises(KnowledgeBaseError, match="both a type and an attribute"):
        family.with_facts([("age", "ann")])


# Others made from it, as by definition


@given(knowledge_bases(isolated=True), st.lists(st.tuples(st.just("new"), plain_names, plain_names), max_size=4))
@settings(max_examples=50)
def test_more_facts(kb: KnowledgeBase, new: list[tuple[str, str, str]]) -> None:
    if "new" in kb.relations:
        return
    more = kb.with_facts(new, {("new size", "ann"): 1.5})
    assert {fact for fact in more.facts() if fact.relation != "new"} == set(kb.facts())
    assert {(f.relation, *f.objects) for f in more.facts() if f.relation == "new"} == set(new)
    assert more.value("new size", "ann") == 1.5
    assert kb.with_facts([]) == kb


@given(knowledge_bases(), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_fewer_facts_keep_objects_and_relations(kb: KnowledgeBase, draw: random.Random) -> None:
    facts = list(kb.facts())
    hidden = draw.sample(facts, draw.randint(0, len(facts)))
    less = kb.without_facts(hidden)
    assert list(less.facts()) == [fact for fact in facts if fact not in hidden]
    assert (list(less.objects), list(less.relations), list(less.values())) == (
        list(kb.objects),
        list(kb.relations),
        list(kb.values()),
    )
    assert less.with_facts(hidden) == kb


@given(knowledge_bases(isolated=True), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_the_induced_substructure(kb: KnowledgeBase, draw: random.Random) -> None:
    members = set(draw.sample(list(kb.objects), draw.randint(0, len(kb.objects))))
    part = kb.induced(members)
    assert set(part.objects) == members
    assert list(part.relations) == list(kb.relations)
    assert list(part.facts()) == [fact for fact in kb.facts() if members.issuperset(fact.objects)]
    assert list(part.values()) == [value for value in kb.values() if value[1] in members]
    assert kb.induced(kb.objects) == kb


@given(st.lists(knowledge_bases(names=plain_names, attributes=False, largest_arity=2, smallest_arity=2), max_size=3))
@settings(max_examples=50)
def test_the_union_of_prefixed_ones(kbs: list[KnowledgeBase]) -> None:
    prefixes = [f"{number}/" for number in range(len(kbs))]
    whole = union(kbs, prefixes)
    assert set(whole.facts()) == {
        Fact(fact.relation, tuple(prefix + name for name in fact.objects), fact.confidence)
        for kb, prefix in zip(kbs, prefixes, strict=True)
        for fact in kb.facts()
    }
    assert len(whole.objects) == sum(len(kb.objects) for kb in kbs)
    assert union(kbs[::-1], prefixes[::-1]) == whole


def test_a_union_keeps_values_and_unary_and_wide_facts(family: KnowledgeBase) -> None:
    other = KnowledgeBase.from_facts(
        [("person", "zoe"), ("likes", "zoe", "zoe")], {("age", "zoe"): 7, ("size", "zoe"): 1}
    )
    whole = union([family, other])
    assert set(whole.facts()) == set(family.facts()) | set(other.facts())
    assert set(whole.values()) == set(family.values()) | set(other.values())


def test_a_union_needs_disjoint_objects_and_equal_arities(family: KnowledgeBase) -> None:
    with pytest.raises(KnowledgeBaseError) as caught:
        union([family, family])
    assert caught.value.message == "6 objects in more than one knowledge base: ann, bob, book, …"
    assert "prefixes=" in caught.value.hint
    with pytest.raises(KnowledgeBaseError, match="parent has 2 arguments in one knowledge base, 1 in another"):
        union([family, KnowledgeBase.from_facts([("parent", "x")])])
    with pytest.raises(KnowledgeBaseError, match="both a type and an attribute"):
        union([family, KnowledgeBase.from_facts([("age", "x")])])
    with pytest.raises(KnowledgeBaseError, match="1 knowledge bases but 2 prefixes"):
        union([family], ["a", "b"])


# As others see it


def test_the_structure_has_the_facts(family: KnowledgeBase) -> None:
    structure = family.structure()
    assert structure.domain == frozenset(family.objects)
    assert structure.relations["parent"].tuples == {("ann", "bob"), ("bob", "cleo"), ("bob", "dan")}
    assert structure.attributes == {"age": {"ann": 80.0, "bob": 55.5}}
    assert holds(structure, parse("∃x, y, z parent(x, y) ∧ parent(y, z)"))


def test_the_schema(family: KnowledgeBase) -> None:
    words = family.schema
    assert dict(words.relations) == {"gave": 3, "parent": 2, "person": 1}
    assert "age" in words.attributes
    assert "ghost" in words.objects
    assert "zoe" not in words.objects


@given(knowledge_bases(isolated=True))
@settings(max_examples=50)
def test_everything_public_works_on_anything(kb: KnowledgeBase) -> None:
    structure = kb.structure()
    assert sum(len(extension.tuples) for extension in structure.relations.values()) == len(kb)
    assert everything(kb.induced(kb.objects)) == everything(kb)
    assert bool(kb) == bool(len(kb.objects))
    for fact in kb.facts():
        assert fact in kb
        assert all(fact in kb.facts(fact.relation, name) for name in fact.objects)
    for attribute, name, value in kb.values():
        assert kb.value(attribute, name) == value


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_survive(name: str) -> None:
    kb = KnowledgeBase.from_facts([(name, name, name)], {(name, name): 1.0})
    assert (name, name, name) in kb
    assert kb.object_name(kb.object_id(name)) == name


def test_errors_are_gaifman_errors() -> None:
    assert issubclass(KnowledgeBaseError, GaifmanError)


def test_facts_are_numbered_by_arity_then_relation_then_objects() -> None:
    kb = KnowledgeBase.from_facts([("r", "b", "a"), ("r", "a", "b"), ("p", "b"), Fact("t", ("a", "a", "b"), 0.5)])
    assert dict(kb.fact_offsets) == {1: 0, 2: 1, 3: 3}
    assert [str(kb.fact_by_id(number)) for number in range(len(kb))] == [
        "p(b).",
        "r(a, b).",
        "r(b, a).",
        "0.5::t(a, a, b).",
    ]
    assert [*kb.fact_ids(1, np.array([[1, 0], [0, 1], [0, 0]]))] == [2, 1, -1]
    assert [*kb.fact_ids(1, np.zeros((2, 4), np.int32))] == [-1, -1]
    for wrong in (-1, 4):
        with pytest.raises(KnowledgeBaseError, match=f"numbered from 0 to 3, got {wrong}"):
            kb.fact_by_id(wrong)


def test_values_are_numbered_after_the_facts_by_attribute_then_object(family: KnowledgeBase) -> None:
    numbers = [family.value_id(attribute, family.object_id(obj)) for attribute, obj, _ in family.values()]
    assert numbers == [*range(len(family), len(family) + len(family.value_table))]
    for attribute, offset in family.value_offsets.items():
        assert offset == min(
            family.value_id(attribute, family.object_id(o)) for a, o, _ in family.values() if a == attribute
        )
    for attribute in family.attributes:
        for number, name in enumerate(family.objects):
            assert (family.value_id(attribute, number) >= 0) == (family.value(attribute, name) is not None)
    with pytest.raises(KnowledgeBaseError, match="there is no attribute agee"):
        family.value_id("agee", 0)


# Collections: one schema, no order, names that several have


ONE = KnowledgeBase.from_facts([("likes", "ann", "bob")], {("age", "ann"): 80})
TWO = KnowledgeBase.from_facts([("likes", "ann", "eve"), ("old", "eve")])


def test_the_order_does_not_matter() -> None:
    assert as_collection([ONE, TWO]) == as_collection((TWO, ONE))
    assert as_collection(ONE) == as_collection([ONE]) == [ONE]


def test_each_has_the_relations_and_attributes_of_all() -> None:
    for kb in unify_schemas([ONE, TWO]):
        assert {name: relation.arity for name, relation in kb.relations.items()} == {"likes": 2, "old": 1}
        assert list(kb.attributes) == ["age"]
    assert unify_schemas([ONE]) == [ONE]


def test_names_of_several_are_found() -> None:
    assert shared_names([ONE, TWO, ONE]) == ["ann", "bob"]
    assert shared_names([ONE]) == []


@pytest.mark.parametrize(
    ("kbs", "message"),
    [
        ([], "there is no knowledge base to train on"),
        ([ONE, "two.tsv"], "kb must be a KnowledgeBase or a sequence of KnowledgeBases"),
        ([ONE, KnowledgeBase.from_facts([])], "a knowledge base of the collection has no facts"),
        (
            [ONE, KnowledgeBase.from_facts([("likes", "a", "b", "c")])],
            "likes has . arguments in one knowledge base and . in another",
        ),
    ],
)
def test_wrong_collections_are_refused(kbs: list[Any], message: str) -> None:
    for train in (lambda: gaifman.complete(kbs, **FEW), lambda: gaifman.fit(kbs, "likes(x, y)", **FEW)):
        with pytest.raises(KnowledgeBaseError, match=message):
            train()


def test_an_object_of_the_query_must_be_in_every_knowledge_base() -> None:
    for kbs in ([towns(), towns(9, "other ")], [towns(9, "other "), towns()]):
        with pytest.raises(FormulaError, match="there is no object"):
            gaifman.fit(kbs, "works_in(x, 't1')", **FEW)
