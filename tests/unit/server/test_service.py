"""The operations of the HTTP interface, without HTTP."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaifman
from gaifman.config import Deadline, no_deadline
from gaifman.errors import FormulaError, GaifmanError, KnowledgeBaseError, StoppedError
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.server.middleware import ServerLimits
from gaifman.server.schemas import (
    AnswersRequest,
    ExplanationRequest,
    ExplanationResponse,
    FactsRequest,
    ModelSummary,
    NeighbourhoodRequest,
    ObjectsRequest,
    ObjectSummary,
    ParseRequest,
    ParseResponse,
    QueryRequest,
    RelationsRequest,
    RelationSummary,
)
from gaifman.server.service import NameIndex, Service, strip_svg_style
from processes import PATIENCE
from trained import FEW, demo, neighbour, towns, worker
from worst_queries import crowded


@pytest.fixture(scope="module")
def bare() -> Service:
    """A service without a model."""
    return Service(demo())


def test_about(bare: Service, query_service: Service, completion_service: Service) -> None:
    found = bare.about()
    assert (found.objects, found.facts, found.model) == (1833, 9632, None)
    assert query_service.about().model == ModelSummary(
        kind="model", query="works_in(x, y)", variables=["x", "y"], relations=None, missing=None
    )
    assert completion_service.about().model == ModelSummary(
        kind="completion", query=None, variables=[], relations=2, missing=None
    )


def test_objects_are_found_by_a_part_of_their_name(bare: Service) -> None:
    found = bare.find_objects(ObjectsRequest(text="FRAN", rows=1))
    assert found.objects == [ObjectSummary(name="france", degree=107)]
    assert found.truncated
    following = bare.find_objects(ObjectsRequest(text="FRAN", skip=1, rows=1))
    assert following.objects[0].name != "france"
    assert following.skipped == 1
    none = bare.find_objects(ObjectsRequest(text="frnce"))
    assert none.objects == []
    assert "france" in none.suggestions
    with pytest.raises(GaifmanError, match="at most 1,000 characters"):
        bare.find_objects(ObjectsRequest(text="x" * 1001))


def test_pages_together_are_all(bare: Service) -> None:
    names = [
        row.name
        for skip in range(0, 1833, 500)
        for row in bare.find_objects(ObjectsRequest(skip=skip, rows=500)).objects
    ]
    assert names == [*demo().objects]
    facts: list[Any] = []
    while True:
        page = bare.facts(FactsRequest(skip=len(facts), rows=1000))
        facts += page.facts
        if not page.truncated:
            break
    assert [(f.relation, tuple(f.objects), f.confidence) for f in facts] == [tuple(f) for f in demo().facts()]
    assert page.count == len(facts)


def test_facts_of_a_relation_with_an_object(query_service: Service) -> None:
    kb = query_service.kb
    for relation, name in ((None, "t1"), ("moved", None), ("moved", "t1"), ("town_of", "p00")):
        found = query_service.facts(FactsRequest(relation=relation, object=name, rows=1000)).facts
        wanted = [fact for fact in kb.facts(relation) if name is None or name in fact.objects]
        assert [(fact.relation, *fact.objects) for fact in found] == [(f.relation, *f.objects) for f in wanted]
    with pytest.raises(KnowledgeBaseError, match="no relation moves"):
        query_service.facts(FactsRequest(relation="moves"))
    with pytest.raises(KnowledgeBaseError, match="no object tt"):
        query_service.facts(FactsRequest(object="tt"))


def test_an_object(query_service: Service) -> None:
    found = query_service.describe_object("p03")
    assert found.types == ["person"]
    assert found.values == {"age": 23.0}
    assert found.facts == len([*query_service.kb.facts(obj="p03")])
    assert found.relations == Counter(fact.relation for fact in query_service.kb.facts(obj="p03"))
    assert found.degree == len(query_service.graph.neighbours_of("p03"))


def test_relations_say_whether_they_have_a_model(completion_service: Service, query_service: Service) -> None:
    trained = {row.name: row.trained for row in completion_service.find_relations(RelationsRequest()).relations}
    assert trained["works_in"] is True
    assert trained["moved"] is False
    found = query_service.find_relations(RelationsRequest(text="of")).relations
    assert found == [RelationSummary(name="town_of", arity=2, facts=5, trained=None, query="town_of(x, y)")]


def test_the_query_of_a_relation_of_any_arity_is_valid() -> None:
    service = Service(KnowledgeBase.from_facts([("it's", "a", "b", "c", "d")]))
    (row,) = service.find_relations(RelationsRequest()).relations
    assert service.query(QueryRequest(query=row.query), no_deadline()).answers == [["a", "b", "c", "d"]]


def test_exact_queries(bare: Service) -> None:
    found = bare.query(
        QueryRequest(query="borders(x, y)", bindings={"x": "portugal"}, count=True, why=True), no_deadline()
    )
    assert found.answers == [["portugal", "spain"]]
    assert found.count == 1
    assert found.witnesses == [[["borders(portugal, spain)."]]]
    assert not found.truncated
    page = bare.query(QueryRequest(query="borders(x, y)", skip=3, rows=2), no_deadline())
    assert (len(page.answers), page.skipped, page.truncated) == (2, 3, True)
    assert bare.query(QueryRequest(query="x = x & country(y)", rows=1), no_deadline()).note.startswith("x ranges")
    with pytest.raises(FormulaError):
        bare.query(QueryRequest(query="borders(x"), no_deadline())


def test_a_query_without_end_is_stopped(bare: Service) -> None:
    untied = " & ".join(f"country(x{i}) & country(y{i}) & x{i} != y{i}" for i in range(6))
    with pytest.raises(StoppedError):
        bare.query(
            QueryRequest(query=f"exists {', '.join(f'y{i}' for i in range(6))}. {untied}", count=True), Deadline(0.3)
        )


def test_ranked_answers_are_those_of_the_model(query_service: Service, completion_service: Service) -> None:
    found = query_service.answers(AnswersRequest(bindings={"x": "p01"}, top=3), no_deadline())
    own = worker().with_kb(towns()).answers(x="p01", top=3).as_dict()
    assert found.model_dump() == {**own, "truncated": True}
    assert not query_service.answers(AnswersRequest(query="works_in('p01', 't1')"), no_deadline()).truncated
    ranked = completion_service.answers(
        AnswersRequest(query="works_in('p01', y)", top=2, restrict_to={"y": ["t1", "t2"]}), no_deadline()
    )
    assert {row.names[0] for row in ranked.answers} == {"t1", "t2"}
    with pytest.raises(KnowledgeBaseError, match="needs a query"):
        completion_service.answers(AnswersRequest(), no_deadline())


def test_without_a_model_nothing_is_ranked(bare: Service) -> None:
    with pytest.raises(KnowledgeBaseError, match="there is no model"):
        bare.answers(AnswersRequest(), no_deadline())
    with pytest.raises(KnowledgeBaseError, match="there is no model"):
        bare.model_card()


def test_a_ranking_is_stopped(query_service: Service) -> None:
    deadline = Deadline(10)
    deadline.cancel()
    with pytest.raises(StoppedError):
        query_service.answers(AnswersRequest(bindings={"x": "p01"}), deadline)


def test_neighbourhoods(bare: Service) -> None:
    found = bare.neighbourhoods(
        NeighbourhoodRequest(object=["france", "spain"], size=4, draws=2, seed=3), no_deadline()
    )
    assert [len(one.members) for one in found.draws] == [6, 6]
    assert not any(one.truncated for one in found.draws)
    small = Service(demo(), limits=ServerLimits(max_rows=3)).neighbourhoods(
        NeighbourhoodRequest(object=["france"], size=3), no_deadline()
    )
    assert all(len(one.facts) <= 3 for one in small.draws)


def test_neighbourhoods_have_a_limit_on_members_and_facts() -> None:
    """A reply once had twelve megabytes."""
    few = Service(demo(), limits=ServerLimits(max_members=40))
    with pytest.raises(GaifmanError, match="size × draws is at most 40 here, not 42"):
        few.neighbourhoods(NeighbourhoodRequest(object=["united_nations"], size=21, draws=2), no_deadline())
    request = NeighbourhoodRequest(object=["united_nations"], radius=2, size=10, draws=4)
    found = few.neighbourhoods(request, no_deadline()).draws
    assert [len(one.facts) for one in found] == [10] * 4
    assert all(one.truncated for one in found)


def parse(service: Service, query: str) -> ParseResponse:
    return service.parse(ParseRequest(query=query))


def explain(service: Service, deadline: Deadline | None = None, **fields: Any) -> ExplanationResponse:
    return service.explain(ExplanationRequest(**fields), deadline or no_deadline())


def test_a_query_is_parsed(query_service: Service, completion_service: Service) -> None:
    assert parse(query_service, "works_in('p01', y)") == ParseResponse(
        bracketed="works_in('p01', y)",
        variables=["y"],
        rankable=True,
        not_rankable_reason=None,
        error=None,
    )
    assert "works_in(x, y)" in str(parse(query_service, "lives_in(x, y)").not_rankable_reason)
    assert parse(completion_service, "citizen(x, 'c0')").rankable
    assert not parse(completion_service, "citizen(x, y) & person(x)").rankable
    assert parse(Service(towns()), "person(x)").not_rankable_reason == "there is no model"


@pytest.mark.parametrize("text", ["", "(", "works_in(x", "werks_in(x, y)", "works_in(x)", "works_in('p0', y)", "\x00"])
def test_an_error_is_part_of_the_reply(query_service: Service, text: str) -> None:
    found = parse(query_service, text)
    assert found.bracketed is None
    assert found.error is not None
    assert found.error.message
    assert found.error.line == (1 if text else None)


def test_an_explanation_is_that_of_the_model(query_service: Service, completion_service: Service) -> None:
    found = explain(query_service, query="works_in('p01', y)", answer=["t1"], top=3)
    own = worker().with_kb(towns()).explain("p01", "t1", top=3)
    descriptions = {reason.formula: reason.description for reason in found.reasons}
    assert descriptions["lives_in('p01', 't1')"] == "p01 lives in t1"
    fields = found.model_dump()
    assert {name: fields[name] for name in own.as_dict()} == own.as_dict()
    assert found.diagram is not None
    assert own.diagram is not None
    assert found.diagram.objects == ["p01", "t1"]
    assert sum(fact.direction != 0 for fact in found.diagram.facts) == len(own.diagram.highlighted)
    assert found.picture.startswith("<svg ")
    assert "style" not in found.picture
    assert explain(query_service, bindings={"x": "p01", "y": "t1"}, top=3) == found
    assert explain(completion_service, query="citizen('p01', y)", answer=["c1"]).query == "citizen('p01', 'c1')"


def test_objects_and_relations_named_like_variables_are_explained() -> None:
    """The description of a reason was once made from its text, in which x may be an object."""
    names = ["x", "y", "s1", "r", *(f"o{i}" for i in range(20))]
    facts = [("knows", one, other) for one, other in zip(names, names[1:] + names[:1], strict=True)]
    kb = KnowledgeBase.from_facts([*facts, *(("likes", other, one) for _, one, other in facts)])
    model = gaifman.complete(kb, ["knows"], **FEW)
    for one, other in (("x", "y"), ("s1", "r")):
        found = explain(Service(kb, model), query="knows(?a, ?b)", bindings={"a": one, "b": other})
        assert any(reason.description for reason in found.reasons)
    bare = KnowledgeBase.from_facts([("likes", "x", "s1")])
    assert explain(Service(bare, model), query="knows(?a, ?b)", bindings={"a": "s1", "b": "x"}).reasons


def test_explanations_have_limits(query_service: Service) -> None:
    with pytest.raises(GaifmanError, match="draws is at most 100"):
        explain(query_service, answer=["p01", "t1"], draws=101)
    with pytest.raises(KnowledgeBaseError, match="there is no model"):
        explain(Service(towns()), query="person(x)", answer=["p01"])
    stopped = Deadline(10)
    stopped.cancel()
    with pytest.raises(StoppedError):
        explain(query_service, stopped, answer=["p01", "t1"])
    few = explain(Service(towns(), worker(), ServerLimits(max_rows=3)), answer=["p01", "t1"], top=1)
    assert few.diagram is not None
    assert len(few.diagram.facts) <= 3


def test_names_in_a_picture_keep_what_looks_like_a_style() -> None:
    assert strip_svg_style('<text>&lt;style&gt;x style=&quot;a&quot;</text><a style="b"/>').endswith(
        "&quot;a&quot;</text><a/>"
    )


def test_the_version_changes_with_facts_and_models(
    bare: Service, query_service: Service, completion_service: Service
) -> None:
    assert bare.version == Service(demo()).version
    versions = {
        one.version
        for one in (bare, query_service, completion_service, query_service.with_facts([Fact("person", ("t0",))]))
    }
    assert len(versions) == 4
    assert Service(towns(), worker()).version == query_service.version


def test_a_model_fits_where_the_knowledge_base_has_some_of_its_relations(bare: Service, query_service: Service) -> None:
    for one in (bare, query_service, Service(towns().with_facts([("eats", "p00", "p01")]), worker())):
        one.check_model()
    other = KnowledgeBase.from_facts([("eats", "cat", "mouse")])
    for model in (worker(), gaifman.complete(towns(), ["works_in"], **FEW)):
        with pytest.raises(KnowledgeBaseError, match="has none of the"):
            Service(other, model).check_model()


def test_degrees_are_those_of_the_graph(bare: Service) -> None:
    found = bare.degrees()
    assert sum(count for _, count in found.degrees) == found.objects == 1833


def test_the_card(query_service: Service) -> None:
    found = query_service.model_card()
    assert found.card.startswith("# Model of")
    assert found.meta["query"] == "works_in(x, y)"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda s: s.find_objects(ObjectsRequest(rows=6)), "rows is at most 5"),
        (lambda s: s.facts(FactsRequest(rows=6)), "rows is at most 5"),
        (lambda s: s.query(QueryRequest(query="person(x)", rows=6), no_deadline()), "rows is at most 5"),
        (lambda s: s.answers(AnswersRequest(top=6), no_deadline()), "top is at most 5"),
        (lambda s: s.answers(AnswersRequest(top=5, draws=101), no_deadline()), "draws is at most 100"),
        (
            lambda s: s.neighbourhoods(NeighbourhoodRequest(object=["p00"], radius=4), no_deadline()),
            "radius is at most 3",
        ),
        (lambda s: s.neighbourhoods(NeighbourhoodRequest(object=["p00"], size=6), no_deadline()), "size is at most 5"),
        (
            lambda s: s.neighbourhoods(NeighbourhoodRequest(object=["p00"], size=1, draws=101), no_deadline()),
            "draws is at most 100",
        ),
    ],
)
def test_limits(ask: Any, message: str) -> None:
    with pytest.raises(GaifmanError, match=message):
        ask(Service(towns(), worker(), ServerLimits(max_rows=5)))


def test_facts_are_added_by_another_service(query_service: Service) -> None:
    query_service.preload()
    more = query_service.with_facts([gaifman.Fact("person", ("t0",))])
    more.preload()
    assert len(more.kb) == len(query_service.kb) + 1
    assert more.model is not query_service.model
    Service(demo(), neighbour()).preload()
    Service(towns(), gaifman.complete(towns(), ["citizen"], **FEW)).preload()


def test_all_queries_of_a_server_share_its_memory() -> None:
    """Thirty heavy ones once took two gigabytes."""
    kb = crowded(2_000, 20_000)
    list(gaifman.query(kb, "p(x)"))  # the database exists before the service
    service = Service(kb, limits=ServerLimits(max_query_memory_mb=64, max_query_disk_mb=1))
    database = service.engine.database
    assert (database.memory_mb, database.disk_mb) == (database.table_mb + 64, 1)
    refused = list[str]()

    def ask(number: int) -> None:
        try:
            heavy = f"(forall y. r(x, y) -> (exists z. s(y, z) & t(z, u))) & age(x) < {number}"
            service.query(QueryRequest(query=heavy), Deadline(PATIENCE))
        except StoppedError as error:
            refused.append(error.message)

    asking = [threading.Thread(target=ask, args=(90 + number,)) for number in range(8)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(refused) == 8
    assert all("more memory than" in message for message in refused)
    after = service.with_facts([Fact("p", ("new",))]).engine.database
    assert (after.memory_mb, after.disk_mb) == (after.table_mb + 64, 1)
    service.query(QueryRequest(query="p(x)"), no_deadline())


# Search of names


NAMES = st.lists(st.text(st.sampled_from("abAB ßİ\n"), min_size=1, max_size=5), unique=True).map(sorted)


def plain(names: list[str], text: str) -> list[int]:
    """The definition."""
    wanted = text.casefold()
    inside = [number for number, name in enumerate(names) if wanted in name.casefold()]
    return sorted(inside, key=lambda number: not names[number].casefold().startswith(wanted))


@given(NAMES, st.text(st.sampled_from("abAB ßİ\n"), max_size=3))
def test_it_finds_what_a_plain_search_finds(names: list[str], text: str) -> None:
    assert list(NameIndex(names).search(text)) == plain(names, text)


def test_an_empty_text_is_in_every_name() -> None:
    assert list(NameIndex(["ann", "bob"]).search("")) == [0, 1]
    assert list(NameIndex([]).search("")) == []
    assert list(NameIndex([]).search("a")) == []


def test_what_stands_between_names_is_in_none() -> None:
    assert list(NameIndex(["a", "b"]).search("a\0b")) == []
