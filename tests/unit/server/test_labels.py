"""Labels over HTTP: replies have them in fields of their own, searches find them, and requests may use them."""

from __future__ import annotations

from functools import cache

import pytest

import gaifman
from gaifman.config import no_deadline
from gaifman.errors import KnowledgeBaseError
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.server.example_queries import example_queries, queries_about
from gaifman.server.schemas import (
    AnswersRequest,
    ExplanationRequest,
    FactsRequest,
    NeighbourhoodRequest,
    ObjectsRequest,
    ParseRequest,
    QueryRequest,
)
from gaifman.server.service import Service
from gaifman.server.state import validate_facts

FACTS = [("capital", "Q142", "Q90"), ("capital", "Q230", "Q994"), ("state", "Q1428"), ("near", "Q142", "Q183")]
LABELS = {"Q142": "France", "Q90": "Paris", "Q230": "Georgia", "Q1428": "Georgia", "Q994": "Tbilisi"}
KB = KnowledgeBase.from_facts(FACTS, labels=LABELS)


@cache
def service() -> Service:
    return Service(KB)


def test_a_search_finds_names_and_labels() -> None:
    found = service().find_objects(ObjectsRequest(text="geo"))
    assert [row.name for row in found.objects] == ["Q1428", "Q230"]
    assert found.labels == {"Q1428": "Georgia (Q1428)", "Q230": "Georgia (Q230)"}
    assert [row.name for row in service().find_objects(ObjectsRequest(text="q1")).objects] == ["Q142", "Q1428", "Q183"]
    assert [row.name for row in service().find_objects(ObjectsRequest(text="ari")).objects] == ["Q90"]
    assert len(service().find_objects(ObjectsRequest(text="")).objects) == 6
    assert service().find_objects(ObjectsRequest(text="Frnace")).suggestions == ["France"]


def test_requests_may_use_labels() -> None:
    found = service().describe_object("France")
    assert (found.name, found.labels) == ("Q142", {"Q142": "France"})
    facts = service().facts(FactsRequest(object="Paris"))
    assert (len(facts.facts), facts.facts[0].objects) == (1, ["Q142", "Q90"])
    assert facts.labels == {"Q142": "France", "Q90": "Paris"}
    drawn = service().neighbourhoods(NeighbourhoodRequest(object=["France"]), no_deadline())
    assert drawn.objects == ["Q142"]
    assert drawn.labels == {"Q142": "France", "Q90": "Paris"}
    with pytest.raises(KnowledgeBaseError, match="'Georgia' is the label of 2 objects"):
        service().describe_object("Georgia")


def test_exact_queries() -> None:
    found = service().query(QueryRequest(query="capital('France', y)", why=True), no_deadline())
    assert (found.query, found.query_labels) == ("capital('Q142', y)", "capital('France', y)")
    assert (found.answers, found.labels) == ([["Q90"]], {"Q142": "France", "Q90": "Paris"})
    assert found.witnesses == [[["capital(Q142, Q90)."]]]
    assert found.witnesses_labels == [[["capital(France, Paris)."]]]
    parsed = service().parse(ParseRequest(query="capital('Q142', y)"))
    assert (parsed.bracketed, parsed.bracketed_labels) == ("capital('Q142', y)", "capital('France', y)")


def test_examples_use_labels_and_can_be_asked() -> None:
    examples = queries_about(service(), "France")
    assert examples[0].query == "capital('France', y)"
    assert examples[0].objects == ["Q142", None]
    for example in (*examples, *example_queries(service())):
        service().query(QueryRequest(query=example.query), no_deadline())


def test_ranked_answers_and_explanations() -> None:
    facts = [(name, f"p{i}", f"t{i % 3}") for i in range(18) for name in (("lives", "works") if i else ("lives",))]
    kb = KnowledgeBase.from_facts(facts, labels={"p0": "Ann", "t0": "Ulm"})
    found = Service(kb, gaifman.complete(kb, ["works"], seed=1))
    ranked = found.answers(AnswersRequest(query="works('Ann', y)"), no_deadline())
    assert (ranked.query_labels, ranked.labels) == ("works('Ann', y)", {"p0": "Ann", "t0": "Ulm"})
    explained = found.explain(ExplanationRequest(query="works('Ann', y)", answer=["Ulm"]), no_deadline())
    assert explained.query_labels == "works('Ann', 'Ulm')"
    assert any(reason.labelled == "lives('Ann', 'Ulm')" for reason in explained.reasons)
    assert ">Ulm</text>" in explained.picture


def test_replies_without_labels_have_no_fields_for_them() -> None:
    bare, request = Service(KnowledgeBase(KB.content)), QueryRequest(query="capital('Q142', y)", why=True)
    replies = [
        bare.query(request, no_deadline()),
        bare.find_objects(ObjectsRequest()),
        bare.describe_object("Q142"),
        bare.facts(FactsRequest()),
        bare.parse(ParseRequest(query="capital('Q142', y)")),
        bare.degrees(),
    ]
    assert not any("label" in name for reply in replies for name in reply.model_dump())
    assert "labels" in service().degrees().model_dump()


def test_labels_are_part_of_the_version() -> None:
    bare = Service(KnowledgeBase(KB.content))
    assert len({bare.version, service().version, Service(KB.with_labels({"Q183": "Germany"})).version}) == 3


def test_added_facts_may_use_labels() -> None:
    assert validate_facts(KB, [Fact("near", ("France", "Georgia (Q230)"))]) == [Fact("near", ("Q142", "Q230"))]
    with pytest.raises(KnowledgeBaseError, match="'Georgia' is the label of 2 objects"):
        validate_facts(KB, [Fact("near", ("France", "Georgia"))], allow_new_objects=True)
    [new] = validate_facts(KB, [Fact("near", ("France", "Spain"))], allow_new_objects=True)
    assert new.objects == ("Q142", "Spain")
    assert service().with_facts([new]).kb.labels == LABELS
