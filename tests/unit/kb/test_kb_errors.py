"""Invalid names, unions, copies, and pickling of knowledge bases."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import numpy as np
import pytest
from hypothesis import given, settings

from gaifman.errors import KnowledgeBaseError
from gaifman.kb.knowledge_base import KnowledgeBase, Note, union
from kbs import knowledge_bases
from processes import cpu_limit

ANN = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("person", "ann")], {("age", "ann"): 80})
BOB = KnowledgeBase.from_facts([("parent", "cleo", "dan")])


# Names and numbers that are none


@pytest.mark.parametrize("name", [5, 1.5, None, b"ann", ["ann"], float("nan")])
def test_other_types_than_strings_are_refused_as_names(name: str) -> None:
    with pytest.raises(KnowledgeBaseError, match=r"must be a(?:n iterable of)? strings?.*, got"):
        ANN.object_id(name)
    with pytest.raises(KnowledgeBaseError, match=r"must be a(?:n iterable of)? strings?.*, got"):
        ANN.value(name, "ann")
    with pytest.raises(KnowledgeBaseError, match=r"must be a(?:n iterable of)? strings?.*, got"):
        ANN.value("age", name)
    with pytest.raises(KnowledgeBaseError, match=r"must be a(?:n iterable of)? strings?.*, got"):
        ANN.induced([name])
    if name is not None:  # None asks for all
        with pytest.raises(KnowledgeBaseError, match=r"must be a(?:n iterable of)? strings?.*, got"):
            ANN.types(name)
        with pytest.raises(KnowledgeBaseError, match=r"must be a(?:n iterable of)? strings?.*, got"):
            ANN.facts(name)
        with pytest.raises(KnowledgeBaseError, match=r"must be a(?:n iterable of)? strings?.*, got"):
            ANN.facts(obj=name)
    assert name not in ANN.objects


@pytest.mark.parametrize("number", [None, "0", 1.5, -1, 2, 10**30, 1j])
def test_invalid_object_numbers_are_refused(number: int) -> None:
    with pytest.raises(KnowledgeBaseError, match="objects are numbered from 0 to 1, got"):
        ANN.object_name(number)
    with pytest.raises(KnowledgeBaseError, match="there are no objects"):
        KnowledgeBase.from_facts([]).object_name(number)
    assert ANN.object_name(np.int32(1)) == "bob"  # type: ignore[arg-type]


# Unions


@pytest.mark.parametrize("prefix", ["\0", "\ud800", None, 5])
def test_a_prefix_is_checked_like_a_name(prefix: str) -> None:
    with pytest.raises(KnowledgeBaseError):
        union([ANN, ANN], prefixes=["", prefix])


def test_invalid_arguments_of_union() -> None:
    with pytest.raises(KnowledgeBaseError, match="kbs must be an iterable of KnowledgeBases"):
        union([1])  # type: ignore[list-item]
    with pytest.raises(KnowledgeBaseError, match="prefixes must be a sequence of strings or None, got '12'"):
        union([ANN, BOB], prefixes="12")
    assert len(union([ANN, BOB], prefixes=("", ""))) == 3


def test_a_union_of_many_relations_is_fast() -> None:
    kbs = [KnowledgeBase.from_facts((f"r{part}{n}", f"a{part}") for n in range(20_000)) for part in "xy"]
    with cpu_limit(10):  # a second; minutes where each relation looks at all others
        assert len(union(kbs).relations) == 40_000


def test_repeated_facts_are_noted() -> None:
    more = ANN.with_facts([("parent", "ann", "bob"), ("parent", "bob", "ann")])
    assert more.notes == (Note(1, "repeated facts, kept once", "parent(ann, bob)."),)
    assert ANN.with_facts([("person", "bob")]).notes == ()


# Copies


@given(knowledge_bases(isolated=True))
@settings(max_examples=40)
def test_copies_are_equal_and_stay_read_only(kb: KnowledgeBase) -> None:
    assert kb.schema.relations is not None  # computed once and kept: not to be copied
    for other in (copy.deepcopy(kb), copy.copy(kb), pickle.loads(pickle.dumps(kb))):
        assert other == kb
        assert other.notes == kb.notes
        assert list(other.facts()) == list(kb.facts())
        arrays = [
            array for table in other.fact_tables.values() for array in (table.relation, table.objects, table.starts)
        ]
        assert not any(array.flags.writeable for array in [*arrays, other.value_table.value, other.value_table.starts])
        with pytest.raises(TypeError):
            other.fact_tables[1] = None  # type: ignore[index]


def test_a_knowledge_base_can_be_sent_to_another_process() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(len, [ANN, BOB]) == [2, 1]
