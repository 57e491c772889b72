"""Decisions about proposed facts in a knowledge base."""

from __future__ import annotations

import pickle

import pytest

from gaifman.errors import KnowledgeBaseError
from gaifman.kb.knowledge_base import KnowledgeBase, union
from gaifman.kb.reviews import Provenance

BASE = KnowledgeBase.from_facts(
    [("capital", "france", "paris"), ("city", "paris"), ("city", "lima"), ("city", "cusco"), ("country", "peru")]
)
MADE = Provenance("m.gaifman", "2026-05-01", 0.93)
LIMA, CUSCO = ("capital", "peru", "lima"), ("capital", "peru", "cusco")
REVIEWED = BASE.with_reviews({LIMA: MADE}, {CUSCO: MADE._replace(probability=0.4)})


def test_an_accepted_fact_is_a_fact_that_says_where_it_comes_from() -> None:
    assert LIMA in REVIEWED
    assert dict(REVIEWED.provenance) == {LIMA: MADE}
    assert len(REVIEWED) == len(BASE) + 1
    assert repr(REVIEWED).endswith("6 facts, 1 known negative>")


def test_a_rejected_fact_is_a_known_negative() -> None:
    assert CUSCO not in REVIEWED
    assert list(REVIEWED.rejected) == [CUSCO]
    names = [tuple(map(REVIEWED.object_name, row)) for row in REVIEWED.rejected_tuples("capital").tolist()]
    assert names == [CUSCO[1:]]
    assert REVIEWED.rejected_tuples("city").shape == (0, 1)


def test_known_negatives_are_content_and_provenance_is_not() -> None:
    assert BASE.with_reviews({}, {CUSCO: MADE}).fingerprint != BASE.fingerprint
    assert BASE.with_reviews({}, {CUSCO: MADE}) == BASE.with_reviews({}, {CUSCO: Provenance()})
    assert BASE.with_reviews({LIMA: MADE}, {}) == BASE.with_facts([LIMA])


def test_decisions_survive_what_is_made_of_a_knowledge_base() -> None:
    copies = [
        pickle.loads(pickle.dumps(REVIEWED)),
        REVIEWED.with_facts([("city", "a new first object")]),
        REVIEWED.without_facts([("city", "paris")]),
        REVIEWED.extend_schema({"city": 1, "river": 1}),
        REVIEWED.induced(["peru", "lima", "cusco"]),
    ]
    for kb in copies:
        assert (dict(kb.provenance), list(kb.rejected)) == ({LIMA: MADE}, [CUSCO])
        assert [kb.object_name(number) for number in kb.rejected_tuples("capital")[0]] == ["peru", "cusco"]


def test_a_part_has_the_decisions_about_its_objects_only() -> None:
    assert not REVIEWED.induced(["france", "paris"]).rejected
    assert not REVIEWED.without_facts([LIMA]).provenance


def test_a_union_has_all_decisions() -> None:
    both = union([REVIEWED, BASE], prefixes=["1/", "2/"])
    assert list(both.rejected) == [("capital", "1/peru", "1/cusco")]
    assert list(both.provenance) == [("capital", "1/peru", "1/lima")]


def test_the_last_decision_counts() -> None:
    again = REVIEWED.with_reviews({CUSCO: MADE}, {})
    assert (list(again.rejected), {*again.provenance}) == ([], {LIMA, CUSCO})
    assert not REVIEWED.with_facts([CUSCO]).rejected, "a fact is no known negative"


@pytest.mark.parametrize(
    ("accepted", "rejected", "words"),
    [
        ([], [("capital", "france", "paris")], r"capital\(france, paris\) is rejected, and it is a fact"),
        ([LIMA], [LIMA], "both accepted and rejected"),
        ([], [("capital", "peru", "quito")], "there is no object quito"),
        ([], [("capitol", "peru", "lima")], "there is no relation capitol"),
        ([], [("capital", "peru")], "capital has 2 arguments, not 1"),
        ([("capital", "peru")], [], "the relation has 2 arguments elsewhere"),
    ],
)
def test_wrong_decisions(accepted: list[tuple[str, ...]], rejected: list[tuple[str, ...]], words: str) -> None:
    with pytest.raises(KnowledgeBaseError, match=words):
        BASE.with_reviews(dict.fromkeys(accepted, MADE), dict.fromkeys(rejected, MADE))
