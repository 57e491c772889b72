"""Example queries."""

from __future__ import annotations

import pytest

import gaifman
from gaifman.errors import KnowledgeBaseError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.queries.answers import exists
from gaifman.server.example_queries import example_queries, queries_about
from gaifman.server.schemas import ParseRequest
from gaifman.server.service import Service
from trained import FEW, demo


def test_examples_have_answers(completion_service: Service, query_service: Service) -> None:
    for service in (completion_service, query_service, Service(demo())):
        found = example_queries(service)
        assert found
        for row in found:
            assert row.description
            assert service.parse(ParseRequest(query=row.query)).rankable >= row.rankable
            assert row.rankable or exists(service.kb, row.query)
    assert example_queries(Service(demo()))[0].query.startswith("exists z. ")
    assert example_queries(Service(KnowledgeBase.from_facts([]))) == []


def test_examples_are_of_various_objects_and_read_well() -> None:
    kb = demo()
    found = example_queries(Service(kb, gaifman.complete(kb, ["borders", "capital", "member_of"], **FEW)))
    ranked = [row.query for row in found if row.rankable]
    assert ranked == ["member_of('france', y)", "borders(x, 'united_kingdom')", "capital('united_states', y)"]
    long = "/award/award_nominee/award_nominations./award/award_nomination/award_nominee"
    chains = [(name, f"o{i}", f"o{i + 1}") for name in (long, "short") for i in range(4)]
    examples = example_queries(Service(KnowledgeBase.from_facts([*chains, (long, "o7", "o9")])))
    assert examples[0].query == "exists z. short(x, z) & short(z, y) & x != y & ~short(x, y)"
    assert [row.query for row in examples[1:]] == ["short(x, 'o1')", f"{long}('o2', y)"]


def test_queries_about_an_object_use_the_relations_of_its_type(
    completion_service: Service, query_service: Service
) -> None:
    assert [row.query for row in queries_about(completion_service, "p01")] == [
        "citizen('p01', y)",
        "works_in('p01', y)",
    ]
    assert [row.query for row in queries_about(query_service, "p01")] == ["works_in('p01', y)"]
    (row,) = queries_about(completion_service, "t1")
    assert (row.query, row.relation, row.objects) == ("works_in(x, 't1')", "works_in", [None, "t1"])
    odd = Service(KnowledgeBase.from_facts([("p", "it's", "b"), ("t", "it's"), ("t", "c")]))
    assert [row.query for row in queries_about(odd, "c")] == [r"p('c', y)"]
    assert odd.parse(ParseRequest(query=queries_about(odd, "it's")[0].query)).error is None
    with pytest.raises(KnowledgeBaseError, match="no object nobody"):
        queries_about(completion_service, "nobody")
