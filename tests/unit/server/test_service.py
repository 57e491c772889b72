"""What can be asked, without the web."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

import pytest

import gaifman
from gaifman.cancellation import Deadline, no_deadline
from gaifman.config import ServerLimits
from gaifman.errors import FormulaError, GaifmanError, KnowledgeBaseError, StoppedError
from gaifman.kb.facts import Fact
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.model import GaifmanModel
from gaifman.server.service import WARM_UP_AFTER, ExactQuery, NeighbourhoodQuery, Page, RankedQuery, Service
from trained import FEW, demo, neighbour, towns, worker


@pytest.fixture(scope="module")
def bare() -> Service:
    """A service without a model."""
    return Service(demo())


def test_about(bare: Service, learnt: Service, whole: Service) -> None:
    found = bare.about()
    assert (found["objects"], found["facts"], found["model"]) == (1155, 5757, None)
    assert learnt.about()["model"] == {
        "kind": "model",
        "query": "works_in(x, y)",
        "variables": ["x", "y"],
        "relations": None,
    }
    assert whole.about()["model"]["kind"] == "completion"


def test_objects_are_found_by_a_part_of_their_name(bare: Service) -> None:
    found = bare.find_objects("FRAN", Page(rows=1))
    assert found["objects"] == [{"name": "france", "degree": 81}]
    assert found["truncated"]
    following = bare.find_objects("FRAN", Page(skip=1, rows=1))
    assert following["objects"][0]["name"] != "france"
    assert following["skipped"] == 1
    none = bare.find_objects("frnce", Page())
    assert none["objects"] == []
    assert "france" in none["suggestions"]
    with pytest.raises(GaifmanError, match="at most 1,000 characters"):
        bare.find_objects("x" * 1001, Page())


def test_pages_together_are_all(bare: Service) -> None:
    names = [row["name"] for skip in range(0, 1155, 500) for row in bare.find_objects("", Page(skip, 500))["objects"]]
    assert names == [*demo().objects]
    facts: list[Any] = []
    while True:
        page = bare.facts(Page(len(facts), 1000))
        facts += page["facts"]
        if not page["truncated"]:
            break
    assert [(f["relation"], tuple(f["objects"]), f["confidence"]) for f in facts] == [tuple(f) for f in demo().facts()]
    assert page["count"] == len(facts)


def test_facts_of_a_relation_with_an_object(learnt: Service) -> None:
    kb = learnt.kb
    for relation, name in ((None, "t1"), ("moved", None), ("moved", "t1"), ("town_of", "p00")):
        found = learnt.facts(Page(rows=1000), relation, name)["facts"]
        wanted = [fact for fact in kb.facts(relation) if name is None or name in fact.objects]
        assert [(fact["relation"], *fact["objects"]) for fact in found] == [(f.relation, *f.objects) for f in wanted]
    with pytest.raises(KnowledgeBaseError, match="no relation moves"):
        learnt.facts(Page(), "moves")
    with pytest.raises(KnowledgeBaseError, match="no object tt"):
        learnt.facts(Page(), None, "tt")


def test_an_object(learnt: Service) -> None:
    found = learnt.describe_object("p03")
    assert found["types"] == ["person"]
    assert found["values"] == {"age": 23.0}
    assert found["facts"] == len([*learnt.kb.facts(obj="p03")])
    assert found["relations"] == Counter(fact.relation for fact in learnt.kb.facts(obj="p03"))
    assert found["degree"] == len(learnt.graph.neighbours_of("p03"))


def test_relations_say_whether_they_were_learnt(whole: Service, learnt: Service) -> None:
    trained = {row["name"]: row["trained"] for row in whole.find_relations("", Page())["relations"]}
    assert trained["works_in"] is True
    assert trained["moved"] is False
    found = learnt.find_relations("of", Page())["relations"]
    assert found == [{"name": "town_of", "arity": 2, "facts": 5, "trained": None, "query": "town_of(x, y)"}]


def test_a_relation_of_many_places_has_a_query_that_can_be_asked() -> None:
    service = Service(KnowledgeBase.from_facts([("it's", "a", "b", "c", "d")]))
    (row,) = service.find_relations("", Page())["relations"]
    assert service.query(ExactQuery(row["query"]), no_deadline())["answers"] == [["a", "b", "c", "d"]]


def test_exact_queries(bare: Service) -> None:
    found = bare.query(ExactQuery("borders(x, y)", {"x": "portugal"}, count=True, why=True), no_deadline())
    assert found["answers"] == [["portugal", "spain"]]
    assert found["count"] == 1
    assert found["witnesses"] == [[["borders(portugal, spain)."]]]
    assert not found["truncated"]
    page = bare.query(ExactQuery("borders(x, y)", page=Page(3, 2)), no_deadline())
    assert (len(page["answers"]), page["skipped"], page["truncated"]) == (2, 3, True)
    assert bare.query(ExactQuery("x = x & country(y)", page=Page(0, 1)), no_deadline())["note"].startswith("x ranges")
    with pytest.raises(FormulaError):
        bare.query(ExactQuery("borders(x"), no_deadline())


def test_a_query_without_end_is_stopped(bare: Service) -> None:
    untied = " & ".join(f"country(x{i}) & country(y{i}) & x{i} != y{i}" for i in range(6))
    with pytest.raises(StoppedError):
        bare.query(ExactQuery(f"exists {', '.join(f'y{i}' for i in range(6))}. {untied}", count=True), Deadline(0.3))


def test_ranked_answers_are_those_of_the_model(learnt: Service, whole: Service) -> None:
    found = learnt.answers(RankedQuery(bindings={"x": "p01"}, top=3), no_deadline())
    assert found == {**worker().with_kb(towns()).answers(x="p01", top=3).as_dict(), "truncated": True}
    assert not learnt.answers(RankedQuery("works_in('p01', 't1')"), no_deadline())["truncated"]
    ranked = whole.answers(RankedQuery("works_in('p01', y)", top=2, restrict_to={"y": ["t1", "t2"]}), no_deadline())
    assert {row["names"][0] for row in ranked["answers"]} == {"t1", "t2"}
    with pytest.raises(KnowledgeBaseError, match="say what to answer"):
        whole.answers(RankedQuery(), no_deadline())
    json.dumps(found, allow_nan=False)


def test_without_a_model_nothing_is_ranked(bare: Service) -> None:
    with pytest.raises(KnowledgeBaseError, match="no model here"):
        bare.answers(RankedQuery(), no_deadline())
    with pytest.raises(KnowledgeBaseError, match="no model here"):
        bare.model_card()


def test_a_ranking_is_stopped(learnt: Service) -> None:
    deadline = Deadline(10)
    deadline.cancel()
    with pytest.raises(StoppedError):
        learnt.answers(RankedQuery(bindings={"x": "p01"}), deadline)


def joined() -> None:
    """Wait for what is made beside rankings."""
    for thread in threading.enumerate():
        if thread.name == "gaifman-warm-up":
            thread.join()


@pytest.mark.parametrize("trouble", [None, MemoryError, StoppedError])
def test_what_rankings_share_is_made_once_when_they_are_many(
    monkeypatch: pytest.MonkeyPatch, trouble: type[Exception] | None
) -> None:
    warmed_up = list[tuple[GaifmanModel, Deadline | None]]()

    def warm_up(model: GaifmanModel, deadline: Deadline | None = None) -> None:
        warmed_up.append((model, deadline))
        if trouble:
            raise trouble("no longer wanted")  # nothing is said of it: it is a matter of speed

    monkeypatch.setattr(GaifmanModel, "warm_up", warm_up)
    service = Service(towns(), worker())
    for number in range(1, 3 * WARM_UP_AFTER):
        service.answers(RankedQuery(bindings={"x": "p01"}), no_deadline())
        joined()
        assert len(warmed_up) == (number >= WARM_UP_AFTER)
    ((model, deadline),) = warmed_up
    assert model is service.model
    assert deadline is not None
    assert not deadline.cancelled.done()
    service.retire()
    assert deadline.cancelled.done()


def test_one_service_at_a_time_makes_what_rankings_share(monkeypatch: pytest.MonkeyPatch) -> None:
    warmed_up, going, release = list[GaifmanModel](), threading.Event(), threading.Event()

    def warm_up(model: GaifmanModel, _: Deadline | None = None) -> None:
        warmed_up.append(model)
        going.set()
        release.wait(60)

    monkeypatch.setattr(GaifmanModel, "warm_up", warm_up)
    first = Service(towns(), worker())
    second = first.with_facts([Fact("lives_in", ("p01", "t2"))])
    for service in (first, second):
        for _ in range(WARM_UP_AFTER):
            service.answers(RankedQuery(bindings={"x": "p01"}), no_deadline())
        assert going.wait(60)
    assert warmed_up == [first.model], "the other comes later"
    release.set()
    joined()
    for _ in range(WARM_UP_AFTER):
        second.answers(RankedQuery(bindings={"x": "p01"}), no_deadline())
    joined()
    assert warmed_up == [first.model, second.model]


def test_neighbourhoods(bare: Service) -> None:
    found = bare.neighbourhood(NeighbourhoodQuery(["france", "spain"], size=4, draws=2, seed=3), no_deadline())
    assert [len(one["members"]) for one in found["draws"]] == [6, 6]
    assert not any(one["truncated"] for one in found["draws"])
    small = Service(demo(), limits=ServerLimits(max_rows=3)).neighbourhood(
        NeighbourhoodQuery(["france"], size=3), no_deadline()
    )
    assert all(len(one["facts"]) <= 3 for one in small["draws"])


def test_neighbourhoods_of_one_request_have_so_many_members_and_facts_in_all() -> None:
    """A hundred of a thousand members were twelve megabytes."""
    few = Service(demo(), limits=ServerLimits(max_members=40))
    with pytest.raises(GaifmanError, match="size × draws is at most 40 here, not 42"):
        few.neighbourhood(NeighbourhoodQuery(["united_nations"], size=21, draws=2), no_deadline())
    found = few.neighbourhood(NeighbourhoodQuery(["united_nations"], radius=2, size=10, draws=4), no_deadline())[
        "draws"
    ]
    assert [len(one["facts"]) for one in found] == [10] * 4
    assert all(one["truncated"] for one in found)


def test_a_model_fits_where_the_knowledge_base_has_some_of_its_relations(bare: Service, learnt: Service) -> None:
    for one in (bare, learnt, Service(towns().with_facts([("eats", "p00", "p01")]), worker())):
        one.check_model()
    other = KnowledgeBase.from_facts([("eats", "cat", "mouse")])
    for model in (worker(), gaifman.complete(towns(), ["works_in"], **FEW)):
        with pytest.raises(KnowledgeBaseError, match="has none of the"):
            Service(other, model).check_model()


def test_degrees_are_those_of_the_graph(bare: Service) -> None:
    found = bare.degrees()
    assert sum(count for _, count in found["degrees"]) == found["objects"] == 1155


def test_the_card(learnt: Service) -> None:
    found = learnt.model_card()
    assert found["card"].startswith("# A model of")
    assert found["meta"]["query"] == "works_in(x, y)"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda s: s.find_objects("", Page(0, 6)), "rows is at most 5"),
        (lambda s: s.facts(Page(0, 6)), "rows is at most 5"),
        (lambda s: s.query(ExactQuery("person(x)", page=Page(0, 6)), no_deadline()), "rows is at most 5"),
        (lambda s: s.answers(RankedQuery(top=6), no_deadline()), "top is at most 5"),
        (lambda s: s.answers(RankedQuery(top=5, draws=101), no_deadline()), "draws is at most 100"),
        (lambda s: s.neighbourhood(NeighbourhoodQuery(["p00"], radius=4), no_deadline()), "radius is at most 3"),
        (lambda s: s.neighbourhood(NeighbourhoodQuery(["p00"], size=6), no_deadline()), "size is at most 5"),
        (
            lambda s: s.neighbourhood(NeighbourhoodQuery(["p00"], size=1, draws=101), no_deadline()),
            "draws is at most 100",
        ),
    ],
)
def test_limits(ask: Any, message: str) -> None:
    with pytest.raises(GaifmanError, match=message):
        ask(Service(towns(), worker(), ServerLimits(max_rows=5)))


def test_one_that_knows_more_is_another_one(learnt: Service) -> None:
    learnt.preload()
    more = learnt.with_facts([gaifman.Fact("person", ("t0",))])
    more.preload()
    assert len(more.kb) == len(learnt.kb) + 1
    assert more.model is not learnt.model
    Service(demo(), neighbour()).preload()
    Service(towns(), gaifman.complete(towns(), ["citizen"], **FEW)).preload()
