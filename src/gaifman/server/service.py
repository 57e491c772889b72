"""The operations of the HTTP interface, without HTTP: each takes a request model and returns a response model.

>>> import gaifman
>>> from gaifman.server.schemas import ObjectsRequest
>>> Service(gaifman.demo()).find_objects(ObjectsRequest(text="fran", rows=1)).objects
[ObjectSummary(name='france', degree=107)]
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import TypeVar

import numpy as np

from gaifman import __version__
from gaifman.completion import Completion
from gaifman.config import Budget, Deadline
from gaifman.errors import GaifmanError, KnowledgeBaseError, similar_names
from gaifman.explain.svg import Diagram
from gaifman.kb.gaifman_graph import GaifmanGraph, graph_of
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.labels import NOTHING, Labels, chosen_labels, label_fact, label_formula
from gaifman.logic.ast import Bindings, relation_query, to_bracketed
from gaifman.logic.parser import parse_query
from gaifman.model import GaifmanModel, Model
from gaifman.model_card import model_card
from gaifman.queries.answers import Answers, PreparedQuery, count_answers, fetch_answers, prepare
from gaifman.queries.engine import Engine, get_engine
from gaifman.queries.witnesses import witness_facts
from gaifman.ranking.candidates import RankingOptions
from gaifman.sampling.neighbourhoods import Neighbourhood, named_neighbourhoods
from gaifman.server.middleware import DEFAULT_SERVER_LIMITS, ServerLimits
from gaifman.server.schemas import (
    AnswersRequest,
    AnswersResponse,
    DegreesResponse,
    DiagramFact,
    DiagramFields,
    ErrorDetail,
    ExplanationRequest,
    ExplanationResponse,
    FactRow,
    FactsRequest,
    FactsResponse,
    Member,
    ModelCardResponse,
    ModelSummary,
    NeighbourhoodRequest,
    NeighbourhoodRow,
    NeighbourhoodsResponse,
    ObjectResponse,
    ObjectsRequest,
    ObjectsResponse,
    ObjectSummary,
    ParseRequest,
    ParseResponse,
    QueryRequest,
    QueryResponse,
    RelationsRequest,
    RelationsResponse,
    RelationSummary,
    ServiceSummary,
)
from gaifman.threads import cached_property

SEPARATOR = "\0"
"""Between two names: no name contains it."""


class NameIndex:
    """All names as one string, which Python searches fast: milliseconds for a hundred thousand names.

    >>> index = NameIndex(["Ann Lee", "Joann", "bob", "Anna"])
    >>> [index.names[number] for number in index.search("ann")]
    ['Ann Lee', 'Anna', 'Joann']
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        folded = [name.casefold() for name in names]
        self._text = SEPARATOR + SEPARATOR.join(folded) + SEPARATOR
        self._starts = list(accumulate((len(name) + 1 for name in folded), initial=1))

    def search(self, text: str) -> Iterator[int]:
        """Yield the positions of the names that contain `text`, ignoring case: first those that start with it."""
        folded = text.casefold()
        if not folded:
            yield from range(len(self.names))
            return
        if SEPARATOR in folded:
            return
        yield from (number for number, _ in self._matches(SEPARATOR + folded, 1))
        yield from (number for number, at_start in self._matches(folded, 0) if not at_start)

    def _matches(self, text: str, shift: int) -> Iterator[tuple[int, bool]]:
        """Yield the position of each name that contains `text`, and whether the name starts with it."""
        at = self._text.find(text)
        while at >= 0:
            number = bisect_right(self._starts, at + shift) - 1
            yield number, self._text.startswith(SEPARATOR, at + shift - 1)
            at = self._text.find(text, self._starts[number + 1] - shift)


T = TypeVar("T")
MAX_WITNESSES = 3
"""Sets of supporting facts for each exact answer."""


class Service:
    """One knowledge base, optionally a model, and the limits of requests. Facts are added by making another service."""

    def __init__(
        self,
        kb: KnowledgeBase,
        model: Model | None = None,
        limits: ServerLimits = DEFAULT_SERVER_LIMITS,
    ) -> None:
        self.kb, self.limits = kb, limits
        self.model: Model | None = None if model is None else model.with_kb(kb)
        self.engine: Engine = get_engine(kb)
        database = self.engine.database
        database.limit(database.table_mb + limits.max_query_memory_mb, limits.max_query_disk_mb)

    @cached_property
    def graph(self) -> GaifmanGraph:
        """The Gaifman graph."""
        return graph_of(self.kb)

    @cached_property
    def _object_index(self) -> NameIndex:
        """The names of all objects, and their labels after them."""
        return NameIndex([*self.kb.objects, *self.kb.labels.values()])

    @cached_property
    def _labelled_objects(self) -> list[int]:
        """The number of each object with a label."""
        return [self.kb.object_id(name) for name in self.kb.labels]

    def _search_objects(self, text: str) -> Iterator[int]:
        """Yield the objects whose name or label contains a text, each once."""
        own = len(self.kb.objects)
        found = self._object_index.search(text) if text else iter(range(own))
        numbers = (at if at < own else self._labelled_objects[at - own] for at in found)
        return iter(dict.fromkeys(numbers)) if self.kb.labels else numbers

    def labels_of(self, names: Iterable[str]) -> dict[str, str] | None:
        """Return how objects are shown, of those that have a label; None if the knowledge base has no labels."""
        return chosen_labels(names, self.kb.display) if self.kb.labels else None

    def _labels_in(self, facts: Iterable[Fact], names: Iterable[str] = ()) -> dict[str, str] | None:
        return self.labels_of([*names, *(name for fact in facts for name in fact.objects)])

    @cached_property
    def _relation_index(self) -> NameIndex:
        return NameIndex(tuple(self.kb.relations))

    @cached_property
    def version(self) -> str:
        """A digest of all that determines a reply: the knowledge base, the model and the version of gaifman."""
        digest = hashlib.sha256(f"{__version__} {self.kb.fingerprint} ".encode())
        if self.kb.labels:
            digest.update(json.dumps(dict(self.kb.labels)).encode())
        if self.model is not None:
            arrays, meta = self.model.state()
            digest.update(json.dumps(meta, sort_keys=True, default=str).encode())
            for name, array in sorted(arrays.items()):
                digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:32]

    @property
    def trained_relations(self) -> Collection[str] | None:
        """The relations of a completion that have a model; None without a completion."""
        return self.model.trained_relations if isinstance(self.model, Completion) else None

    def check_model(self) -> None:
        """Raise an error if the knowledge base has no relation that the model uses."""
        if self.model is not None:
            self.model.check_kb()

    def preload(self) -> None:
        """Build what the first requests would otherwise wait for."""
        _ = self.graph, self._object_index
        if self.model is not None:
            self.model.preload()

    def with_facts(self, facts: Iterable[Fact]) -> Service:
        """Return a service with more facts and the same model."""
        return Service(self.kb.with_facts(facts), self.model, self.limits)

    # Lookups

    def about(self) -> ServiceSummary:
        """Return the sizes of the knowledge base, and what the model answers."""
        return ServiceSummary(
            objects=len(self.kb.objects),
            facts=len(self.kb),
            relations=len(self.kb.relations),
            attributes=len(self.kb.attributes),
            fingerprint=self.kb.fingerprint,
            notes=[str(note) for note in self.kb.notes],
            model=None if self.model is None else _model_summary(self.model),
        )

    def find_objects(self, request: ObjectsRequest) -> ObjectsResponse:
        """Find objects whose name contains a text; names that start with it come first."""
        limit, length = self.limits.max_name_length, len(request.text)
        if length > limit:
            raise GaifmanError(f"a search text has at most {limit:,} characters, not {length:,}")
        found, truncated = self._paginate(self._search_objects(request.text), request)
        missing = request.text and not found and not request.skip
        return ObjectsResponse(
            objects=[
                ObjectSummary(name=self.kb.object_name(number), degree=int(self.graph.degrees[number]))
                for number in found
            ],
            suggestions=self._similar_objects(request.text) if missing else [],
            skipped=request.skip,
            truncated=truncated,
            labels=self.labels_of(map(self.kb.object_name, found)),
        )

    def _similar_objects(self, text: str) -> list[str]:
        return list(self.kb.display.similar(text) if self.kb.labels else similar_names(text, self.kb.objects, 5))

    def describe_object(self, name: str) -> ObjectResponse:
        """Return the types, numbers and counts of one object, by its name or label."""
        number = self.kb.object_id(name)
        name = self.kb.object_name(number)
        values = {attribute: self.kb.value(attribute, name) for attribute in self.kb.attributes}
        relations = [table.relation[table.rows_with_object(number)] for table in self.kb.fact_tables.values()]
        ids, counts = np.unique(np.concatenate([np.zeros(0, np.int32), *relations]), return_counts=True)
        names = [self.kb.content.relations[relation] for relation in ids.tolist()]
        return ObjectResponse(
            name=name,
            types=list(self.kb.types(name)),
            values={attribute: value for attribute, value in values.items() if value is not None},
            facts=int(counts.sum()),
            relations=dict(zip(names, counts.tolist(), strict=True)),
            degree=int(self.graph.degrees[number]),
            labels=self.labels_of([name]),
        )

    def find_relations(self, request: RelationsRequest) -> RelationsResponse:
        """Find relations whose name contains a text."""
        found, truncated = self._paginate(self._relation_index.search(request.text), request)
        rows = [self._relation_summary(self._relation_index.names[number]) for number in found]
        return RelationsResponse(relations=rows, skipped=request.skip, truncated=truncated)

    def _relation_summary(self, name: str) -> RelationSummary:
        relation, trained = self.kb.relations[name], self.trained_relations
        return RelationSummary(
            name=name,
            arity=relation.arity,
            facts=relation.count,
            trained=None if trained is None else name in trained,
            query=str(relation_query(name, relation.arity).formula),
        )

    def facts(self, request: FactsRequest) -> FactsResponse:
        """Return a page of facts, sorted by relation and objects."""
        self._check_rows(request.rows)
        number = None if request.object_name is None else self.kb.object_id(request.object_name)
        relation = None if request.relation is None else self._relation_id(request.relation)
        ids, relations = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        for arity, table in self.kb.fact_tables.items():
            rows = np.arange(len(table)) if relation is None else np.array(table.rows(relation), np.int64)
            rows = rows if number is None else rows[(table.objects[rows] == number).any(axis=1)]
            ids.append(self.kb.fact_offsets[arity] + rows)
            relations.append(table.relation[rows])
        order = np.argsort(np.concatenate(relations), kind="stable")
        page = np.concatenate(ids)[order[request.skip : request.skip + request.rows]]
        facts = [self.kb.fact_by_id(fact_id) for fact_id in page.tolist()]
        return FactsResponse(
            facts=[FactRow.from_fact(fact) for fact in facts],
            count=len(order),
            skipped=request.skip,
            truncated=request.skip + len(page) < len(order),
            labels=self._labels_in(facts),
        )

    def _relation_id(self, relation: str) -> int:
        number = self.kb.content.relations.find(relation)
        if number is None:
            similar = similar_names(relation, self.kb.relations)
            hint = "" if similar else "GET /api/relations lists the relations"
            raise KnowledgeBaseError(f"there is no relation {relation}", suggestions=similar, hint=hint)
        return number

    def degrees(self) -> DegreesResponse:
        """Return the degree distribution."""
        summary = self.graph.summary()
        return DegreesResponse(**{**summary, "degrees": [list(pair) for pair in summary["degrees"]]})

    def model_card(self) -> ModelCardResponse:
        """Return the metadata of the model and its card."""
        meta = self.require_model().meta
        return ModelCardResponse(meta=meta, card=model_card(meta))

    def parse(self, request: ParseRequest) -> ParseResponse:
        """Return how a query is parsed and whether the model can rank it; an error is a part of the reply."""
        try:
            query = parse_query(request.query, self.kb.schema)
        except GaifmanError as error:
            return ParseResponse(
                bracketed=None,
                variables=[],
                rankable=False,
                not_rankable_reason=None,
                error=ErrorDetail.from_error(error),
            )
        reason = self._not_rankable_reason(request.query, request.bindings)
        return ParseResponse(
            bracketed=to_bracketed(query),
            variables=[variable.name for variable in query.variables],
            rankable=reason is None,
            not_rankable_reason=reason,
            error=None,
            bracketed_labels=to_bracketed(label_formula(query, self.kb.display)) if self.kb.labels else None,
        )

    def _not_rankable_reason(self, text: str, bindings: Bindings) -> str | None:
        if self.model is None:
            return "there is no model"
        try:
            self.model.match_query(text, bindings)
        except GaifmanError as error:
            return error.message
        return None

    # Queries and computations

    def query(self, request: QueryRequest, deadline: Deadline) -> QueryResponse:
        """Return exact answers, in a stable order."""
        self._check_rows(request.rows)
        budget = Budget(rows=request.rows)
        prepared = prepare(self.engine, request.query, request.bindings, budget)
        found = fetch_answers(self.engine, prepared, deadline.limit_budget(budget), skip=request.skip)
        witnesses = self._witnesses(prepared, found, deadline) if request.why else []
        used = [fact for answer in witnesses for facts in answer for fact in facts]
        return QueryResponse(
            query=str(prepared.query),
            bracketed=to_bracketed(prepared.query),
            variables=[variable.name for variable in prepared.query.variables],
            bindings=dict(prepared.bindings),
            unrestricted=list(prepared.statement.unrestricted),
            combinations=prepared.statement.combinations,
            note=prepared.note,
            answers=[list(names) for names in found],
            count=count_answers(self.engine, prepared, deadline.limit_budget()) if request.count else None,
            witnesses=_texts(witnesses, NOTHING) if request.why else None,
            skipped=request.skip,
            truncated=found.truncated,
            labels=self._labels_in(used, found.labels),
            query_labels=found.shown_query if self.kb.labels else None,
            witnesses_labels=_texts(witnesses, self.kb.display) if request.why and self.kb.labels else None,
        )

    def _witnesses(self, prepared: PreparedQuery, found: Answers, deadline: Deadline) -> Witnesses:
        budget = deadline.limit_budget()
        witnesses = witness_facts(self.engine, prepared.query, found.tuples, max_witnesses=MAX_WITNESSES, budget=budget)
        return [[list(facts) for facts in answer] for answer in witnesses]

    def answers(self, request: AnswersRequest, deadline: Deadline) -> AnswersResponse:
        """Return the most probable answers."""
        self._check_limit("top", request.top, self.limits.max_rows)
        self._check_limit("draws", request.draws or 1, self.limits.max_draws)
        options = RankingOptions(
            request.top,
            request.known,
            request.restrict_to,
            request.candidates,
            self.limits.max_candidates,
            request.covered,
            deadline,
        )
        found = self.require_model().rank(
            request.query,
            request.bindings,
            options,
            draws=request.draws,
            prior=request.prior,
            constraints=request.constraints,
        )
        return AnswersResponse(**found.as_dict(), truncated=found.considered.count > len(found))

    def explain(self, request: ExplanationRequest, deadline: Deadline) -> ExplanationResponse:
        """Return the formulas for and against an answer, a counterfactual, and one neighbourhood."""
        self._check_limit("top", request.top, self.limits.max_rows)
        self._check_limit("draws", request.draws or 1, self.limits.max_draws)
        found = self.require_model().explain_answer(
            request.query,
            request.bindings,
            request.answer,
            draws=request.draws,
            prior=request.prior,
            top=request.top,
            constraints=request.constraints,
            deadline=deadline,
        )
        return ExplanationResponse(
            **found.as_dict(),
            diagram=None if found.diagram is None else diagram_fields(found.diagram, self.limits.max_rows),
            picture=strip_svg_style(found.svg()),
        )

    def neighbourhoods(self, request: NeighbourhoodRequest, deadline: Deadline) -> NeighbourhoodsResponse:
        """Draw neighbourhoods around a tuple of objects."""
        self._check_limit("radius", request.radius, self.limits.max_radius)
        self._check_limit("size", request.size, self.limits.max_rows)
        self._check_limit("draws", request.draws, self.limits.max_draws)
        self._check_limit("size × draws", request.size * request.draws, self.limits.max_members)
        max_facts = min(self.limits.max_rows, self.limits.max_members // request.draws)
        deadline.check()
        found = named_neighbourhoods(
            self.graph,
            request.objects,
            radius=request.radius,
            size=request.size,
            draws=request.draws,
            seed=request.seed,
        )
        labels = {name: label for drawn in found for name, label in drawn.labels.items()}
        return NeighbourhoodsResponse(
            objects=list(found[0].objects),
            radius=request.radius,
            size=request.size,
            seed=request.seed,
            draws=[_neighbourhood_row(drawn, max_facts, deadline) for drawn in found],
            labels=labels if self.kb.labels else None,
        )

    def require_model(self) -> Model:
        """Return the model, or raise an error."""
        if self.model is None:
            raise KnowledgeBaseError(
                "there is no model: this server answers exact queries only",
                hint="train a model and serve it: gaifman train KB -o MODEL, then gaifman serve KB MODEL",
            )
        return self.model

    # Limits

    def _check_limit(self, name: str, value: int, limit: int) -> None:
        if value > limit:
            raise GaifmanError(f"{name} is at most {limit:,} here, not {value:,}")

    def _check_rows(self, rows: int) -> None:
        self._check_limit("rows", rows, self.limits.max_rows)

    def _paginate(self, found: Iterable[T], page: ObjectsRequest) -> tuple[list[T], bool]:
        """Return the rows of a page, and whether there are more."""
        self._check_rows(page.rows)
        rows = list(islice(found, page.skip, page.skip + page.rows + 1))
        return rows[: page.rows], len(rows) > page.rows


Witnesses = list[list[list[Fact]]]
"""For each answer, some sets of facts that make it true."""


def _texts(witnesses: Witnesses, labels: Labels) -> list[list[list[str]]]:
    """Return witnesses as texts, with labels."""
    return [[[str(label_fact(fact, labels)) for fact in facts] for facts in answer] for answer in witnesses]


def _model_summary(model: Model) -> ModelSummary:
    if isinstance(model, GaifmanModel):
        names = [variable.name for variable in model.query.variables]
        return ModelSummary(
            kind="model", query=str(model.query), variables=names, relations=None, missing=model.assumed_missing
        )
    trained = model.trained_relations if isinstance(model, Completion) else ()
    return ModelSummary(
        kind="completion", query=None, variables=[], relations=len(trained), missing=model.assumed_missing
    )


def _neighbourhood_row(drawn: Neighbourhood, max_facts: int, deadline: Deadline) -> NeighbourhoodRow:
    deadline.check()
    return NeighbourhoodRow(
        members=[Member(name=name, distance=distance) for name, distance in drawn.members],
        facts=[FactRow.from_fact(fact) for fact in drawn.facts[:max_facts]],
        not_drawn={str(distance): number for distance, number in drawn.not_drawn.items()},
        truncated=len(drawn.facts) > max_facts,
    )


def diagram_fields(diagram: Diagram, max_facts: int) -> DiagramFields:
    """Return the fields of a diagram, with at most `max_facts` facts: decisive and highlighted ones first."""
    ordered = sorted(diagram.facts, key=lambda fact: (fact not in diagram.decisive, fact not in diagram.highlighted))
    facts = [
        DiagramFact(
            relation=fact.relation,
            objects=list(fact.objects),
            confidence=fact.confidence,
            direction=diagram.highlighted.get(fact, 0),
            decisive=fact in diagram.decisive,
        )
        for fact in ordered[:max_facts]
    ]
    return DiagramFields(objects=list(diagram.objects), members=list(diagram.members)[:max_facts], facts=facts)


def strip_svg_style(svg: str) -> str:
    """Return a picture without styles, which the page's content security policy refuses.

    >>> strip_svg_style('<svg width="9" style="height:auto"><style>.a{}</style><text class="a">b</text></svg>')
    '<svg width="9"><text class="a">b</text></svg>'
    """
    return re.sub(r' style="[^"]*"', "", re.sub(r"<style>.*?</style>", "", svg, flags=re.DOTALL))
