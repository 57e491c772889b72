"""How texts are read, answers explained, and what is worth asking."""

from __future__ import annotations

import json

import pytest

import gaifman
from gaifman.cancellation import Deadline, no_deadline
from gaifman.config import ServerLimits
from gaifman.errors import GaifmanError, KnowledgeBaseError, StoppedError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.queries.answers import exists
from gaifman.server.schemas import ExamplesResponse, ExplanationResponse, ParseResponse
from gaifman.server.service import (
    ExplanationQuery,
    Service,
    example_queries,
    explain_answer,
    parse_for_page,
    queries_about,
    strip_svg_style,
)
from trained import FEW, demo, towns, worker


def test_a_text_is_read(learnt: Service, whole: Service) -> None:
    found = parse_for_page(learnt, "works_in('p01', y)")
    assert found == {
        "bracketed": "works_in('p01', y)",
        "variables": ["y"],
        "rankable": True,
        "not_rankable_reason": None,
        "restrict_to": {},
        "error": None,
    }
    assert "has learnt" in parse_for_page(learnt, "lives_in(x, y)")["not_rankable_reason"]
    assert parse_for_page(whole, "citizen(x, 'c0')")["rankable"]
    assert parse_for_page(whole, "citizen(who, what)")["restrict_to"] == {"who": "person"}
    assert not parse_for_page(whole, "citizen(x, y) & person(x)")["rankable"]
    assert parse_for_page(Service(towns()), "person(x)")["not_rankable_reason"] == "there is no model here"


@pytest.mark.parametrize("text", ["", "(", "works_in(x", "werks_in(x, y)", "works_in(x)", "works_in('p0', y)", "\x00"])
def test_a_mistake_is_what_there_is_to_say(learnt: Service, text: str) -> None:
    found = parse_for_page(learnt, text)
    ParseResponse.model_validate(found, strict=True)
    assert found["bracketed"] is None
    assert found["error"]["message"]
    assert found["error"]["line"] == (1 if text else None)


def test_an_explanation_is_that_of_the_model(learnt: Service, whole: Service) -> None:
    found = explain_answer(learnt, ExplanationQuery("works_in('p01', y)", {}, ["t1"], top=3), no_deadline())
    own = worker().with_kb(towns()).explain("p01", "t1", top=3)
    ExplanationResponse.model_validate(json.loads(json.dumps(found, allow_nan=False)), strict=True)
    said = {reason["formula"]: reason["description"] for reason in found["reasons"]}
    assert said["lives_in('p01', 't1')"] == "p01 lives in t1"
    assert {name: found[name] for name in own.as_dict()} == own.as_dict()
    assert found["diagram"]["objects"] == ["p01", "t1"]
    assert sum(fact["direction"] != 0 for fact in found["diagram"]["facts"]) == len(own.diagram.highlighted)  # type: ignore[union-attr]
    assert found["picture"].startswith("<svg ")
    assert "style" not in found["picture"]
    same = explain_answer(learnt, ExplanationQuery(None, {"x": "p01", "y": "t1"}, top=3), no_deadline())
    assert same == found
    assert (
        explain_answer(whole, ExplanationQuery("citizen('p01', y)", {}, ["c1"]), no_deadline())["query"]
        == "citizen('p01', 'c1')"
    )


def test_objects_and_relations_named_like_variables_are_explained() -> None:
    """The words of a reason were once read from its text, in which x may be an object."""
    names = ["x", "y", "s1", "r", *(f"o{i}" for i in range(20))]
    facts = [("knows", one, other) for one, other in zip(names, names[1:] + names[:1], strict=True)]
    kb = KnowledgeBase.from_facts([*facts, *(("likes", other, one) for _, one, other in facts)])
    model = gaifman.complete(kb, ["knows"], **FEW)
    for one, other in (("x", "y"), ("s1", "r")):
        found = explain_answer(
            Service(kb, model), ExplanationQuery("knows(?a, ?b)", {"a": one, "b": other}), no_deadline()
        )
        assert any(reason["description"] for reason in found["reasons"])
    bare = KnowledgeBase.from_facts([("likes", "x", "s1")])
    assert explain_answer(
        Service(bare, model), ExplanationQuery("knows(?a, ?b)", {"a": "s1", "b": "x"}), no_deadline()
    )["reasons"]


def test_explanations_have_limits(learnt: Service) -> None:
    with pytest.raises(GaifmanError, match="draws is at most 100"):
        explain_answer(learnt, ExplanationQuery(None, {}, ["p01", "t1"], draws=101), no_deadline())
    with pytest.raises(KnowledgeBaseError, match="no model here"):
        explain_answer(Service(towns()), ExplanationQuery("person(x)", {}, ["p01"]), no_deadline())
    stopped = Deadline(10)
    stopped.cancel()
    with pytest.raises(StoppedError):
        explain_answer(learnt, ExplanationQuery(None, {}, ["p01", "t1"]), stopped)
    few = Service(towns(), worker(), ServerLimits(max_rows=3))
    assert (
        len(explain_answer(few, ExplanationQuery(None, {}, ["p01", "t1"], top=1), no_deadline())["diagram"]["facts"])
        <= 3
    )


def test_names_in_a_picture_keep_what_looks_like_a_style() -> None:
    assert strip_svg_style('<text>&lt;style&gt;x style=&quot;a&quot;</text><a style="b"/>').endswith(
        "&quot;a&quot;</text><a/>"
    )


def test_examples_have_answers(whole: Service, learnt: Service) -> None:
    for service in (whole, learnt, Service(demo())):
        found = example_queries(service)
        ExamplesResponse.model_validate({"examples": found}, strict=True)
        assert found
        for row in found:
            assert row["description"]
            assert parse_for_page(service, row["query"])["rankable"] >= row["rankable"]
            assert row["rankable"] or exists(service.kb, row["query"])
    assert example_queries(Service(demo()))[0]["query"].startswith("exists z. ")
    assert example_queries(Service(KnowledgeBase.from_facts([]))) == []


def test_examples_are_of_various_objects_and_read_well() -> None:
    kb = demo()
    found = example_queries(Service(kb, gaifman.complete(kb, ["borders", "capital", "member_of"], **FEW)))
    ranked = [row["query"] for row in found if row["rankable"]]
    assert ranked == ["member_of('united_kingdom', y)", "borders(x, 'france')", "capital('russia', y)"]
    long = "/award/award_nominee/award_nominations./award/award_nomination/award_nominee"
    chains = [(name, f"o{i}", f"o{i + 1}") for name in (long, "short") for i in range(4)]
    shown = example_queries(Service(KnowledgeBase.from_facts([*chains, (long, "o7", "o9")])))
    assert shown[0]["query"] == "exists z. short(x, z) & short(z, y) & x != y & ~short(x, y)"
    assert [row["query"] for row in shown[1:]] == ["short(x, 'o1')", f"{long}('o2', y)"]


def test_what_is_asked_of_an_object_is_what_others_of_its_type_stand_in(whole: Service, learnt: Service) -> None:
    assert [row["query"] for row in queries_about(whole, "p01")] == ["citizen('p01', y)", "works_in('p01', y)"]
    assert [row["query"] for row in queries_about(whole, "t1")] == ["works_in(x, 't1')"]
    assert [row["query"] for row in queries_about(learnt, "p01")] == ["works_in('p01', y)"]
    assert queries_about(whole, "t1")[0]["restrict_to"] == {"x": "person"}
    assert queries_about(whole, "t1")[0]["relation"] == "works_in"
    assert queries_about(whole, "t1")[0]["objects"] == [None, "t1"]
    assert queries_about(whole, "p01")[0]["restrict_to"] == {}
    odd = Service(KnowledgeBase.from_facts([("p", "it's", "b"), ("t", "it's"), ("t", "c")]))
    assert [row["query"] for row in queries_about(odd, "c")] == [r"p('c', y)"]
    assert parse_for_page(odd, queries_about(odd, "it's")[0]["query"])["error"] is None
    with pytest.raises(KnowledgeBaseError, match="no object nobody"):
        queries_about(whole, "nobody")
