"""Collections: one schema, no order, names that several have."""

from __future__ import annotations

from typing import Any

import pytest

import gaifman
from gaifman.errors import FormulaError, KnowledgeBaseError
from gaifman.kb.knowledge_base import KnowledgeBase, as_collection, shared_names, unify_schemas
from trained import FEW, towns

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
