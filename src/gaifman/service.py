"""What can be asked of a knowledge base and a model, as plain fields: what the server says, without the web.

>>> import gaifman
>>> service = Service(gaifman.demo())
>>> found = service.objects("franc", Page(rows=2))
>>> [row["name"] for row in found["objects"]], found["truncated"]
(['france', 'burundian_franc'], True)
>>> from gaifman.cancellation import never
>>> service.query(ExactQuery("borders('portugal', y)"), never())["answers"]
[['spain']]

A service never changes: one with further facts is another one, and who asks the old one is not disturbed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, islice
from typing import Any, TypeVar

import numpy as np

from gaifman._serialization import used_symbols
from gaifman.cancellation import Deadline
from gaifman.completion import Completion
from gaifman.config import DEFAULT_SERVER_LIMITS, Budget, ServerLimits
from gaifman.errors import GaifmanError, KnowledgeBaseError
from gaifman.finder import NameIndex
from gaifman.kb.facts import Fact
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import FactTable, Longs
from gaifman.logic.names import similar_names
from gaifman.logic.printer import format_relation
from gaifman.model import GaifmanModel
from gaifman.model_card import model_card
from gaifman.predict import extend_schema
from gaifman.queries.answers import count_answers, fetch_answers, prepare
from gaifman.queries.engine import Engine, get_engine
from gaifman.queries.witnesses import witness_facts
from gaifman.ranking.candidates import CandidateStrategy
from gaifman.ranking.ranked_answers import RankingOptions
from gaifman.sampling.neighbourhoods import named_neighbourhoods

Model = GaifmanModel | Completion
T = TypeVar("T")
WARM_UP_AFTER = 5
"""Rankings after which what they share is made, beside further ones: whoever asks once need not pay for it."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of many."""

    skip: int = 0
    """Rows before the first."""
    rows: int = 100
    """How many at most."""


@dataclass(frozen=True, slots=True)
class ExactQuery:
    """A query over the whole knowledge base."""

    query: str
    bindings: Mapping[str, str] = field(default_factory=dict)
    """Variable → name of the object that it stands for."""
    page: Page = field(default_factory=Page)
    count: bool = False
    """Whether the number of all answers is wanted too."""
    why: bool = False
    """Whether the facts behind each answer are wanted too."""


@dataclass(frozen=True, slots=True)
class RankedQuery:
    """A question to the model."""

    query: str | None = None
    """None for the query of the model itself, with objects for some of its variables."""
    bindings: Mapping[str, str] = field(default_factory=dict)
    top: int = 10
    known: str = "mark"
    restrict_to: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    candidates: str = "auto"
    draws: int | None = None
    prior: float | None = None


@dataclass(frozen=True, slots=True)
class NeighbourhoodQuery:
    """What is to be drawn around some objects."""

    objects: Sequence[str]
    radius: int = 1
    size: int = 20
    draws: int = 1
    seed: int = 0


class Service:
    """One knowledge base, perhaps a model that answers from it, and the limits of what is given."""

    def __init__(
        self,
        kb: KnowledgeBase,
        model: Model | None = None,
        limits: ServerLimits = DEFAULT_SERVER_LIMITS,
        warm_up_lock: threading.Lock | None = None,
    ) -> None:
        """`hastening` is held by whoever makes what rankings share: one at a time, of all that follow each other."""
        self.kb, self.limits = kb, limits
        self.model: Model | None = None if model is None else model.with_kb(kb)
        self.engine: Engine = get_engine(kb)
        self._rankings, self._warmed_up = count(1), False
        self._warm_up_lock, self._retired = warm_up_lock or threading.Lock(), Deadline()

    @cached_property
    def graph(self) -> GaifmanGraph:
        """The Gaifman graph, made when it is first needed."""
        return build_graph(self.kb)

    @cached_property
    def _object_index(self) -> NameIndex:
        return NameIndex(self.kb.objects)

    @cached_property
    def _relation_index(self) -> NameIndex:
        return NameIndex(tuple(self.kb.relations))

    def check_model(self) -> None:
        """Raise where the knowledge base has nothing that the model speaks of: it could answer no question."""
        if isinstance(self.model, Completion):
            _ = self.model.extended_kb
        elif self.model is not None:
            extend_schema(self.kb, *used_symbols(self.model.features, self.model.trained_query))

    def preload(self) -> None:
        """Make what the first questions would have to wait for."""
        _ = self.graph, self._object_index
        if isinstance(self.model, Completion):
            for relation in {self.model.arity(name): name for name in self.model.scorers}.values():
                self.model.predictor(relation)
        elif self.model is not None:
            _ = self.model.predictor

    def with_facts(self, facts: Iterable[Fact]) -> Service:
        """One that knows more; what was learnt stays as it is."""
        return Service(self.kb.with_facts(facts), self.model, self.limits, self._warm_up_lock)

    def retire(self) -> None:
        """Stop what is made for further rankings: there will be none."""
        self._retired.cancel()

    def _warm_up(self) -> None:
        """Make what rankings share; it is a matter of speed alone, so what goes wrong is not told."""
        if self.model is None or not self._warm_up_lock.acquire(blocking=False):
            return
        try:
            self.model.warm_up(self._retired)
        except (GaifmanError, MemoryError):
            return
        finally:
            self._warmed_up = True
            self._warm_up_lock.release()

    # What is known

    def about(self) -> dict[str, Any]:
        """The knowledge base and the model in a few numbers."""
        kb, model = self.kb, self.model
        return {
            "objects": len(kb.objects),
            "facts": len(kb),
            "relations": len(kb.relations),
            "attributes": len(kb.attributes),
            "fingerprint": kb.fingerprint,
            "notes": [str(note) for note in kb.notes],
            "model": None if model is None else _model_summary(model),
        }

    def find_objects(self, text: str, page: Page) -> dict[str, Any]:
        """Objects whose name has a text in it: those that begin with it first."""
        if len(text) > self.limits.max_name_length:
            raise GaifmanError(
                f"a text to look for has at most {self.limits.max_name_length:,} characters, not {len(text):,}"
            )
        found, truncated = self._paginate(self._object_index.search(text), page)
        near = similar_names(text, self.kb.objects, 5) if text and not found and not page.skip else ()
        rows = [{"name": self.kb.object_name(number), "degree": int(self.graph.degrees[number])} for number in found]
        return {"objects": rows, "near": list(near), "skipped": page.skip, "truncated": truncated}

    def describe_object(self, name: str) -> dict[str, Any]:
        """What one object is: its types and numbers, and how many facts it stands in."""
        number = self.kb.object_id(name)
        values = {each: self.kb.value(each, name) for each in self.kb.attributes}
        held = [table.relation[table.rows_with_object(number)] for table in self.kb.fact_tables.values()]
        kinds, counts = np.unique(np.concatenate([np.zeros(0, np.int32), *held]), return_counts=True)
        names = [self.kb.content.relations[kind] for kind in kinds.tolist()]
        return {
            "name": name,
            "types": list(self.kb.types(name)),
            "values": {attribute: value for attribute, value in values.items() if value is not None},
            "facts": int(counts.sum()),
            "relations": dict(zip(names, counts.tolist(), strict=True)),
            "degree": int(self.graph.degrees[number]),
        }

    def find_relations(self, text: str, page: Page) -> dict[str, Any]:
        """Relations whose name has a text in it, with their places and facts, and whether a model was learnt."""
        found, truncated = self._paginate(self._relation_index.search(text), page)
        known = list(self.kb.relations.values())
        rows = [self._relation_row(known[number].name) for number in found]
        return {"relations": rows, "skipped": page.skip, "truncated": truncated}

    def _relation_row(self, name: str) -> dict[str, Any]:
        relation = self.kb.relations[name]
        trained = name in self.model.scorers if isinstance(self.model, Completion) else None
        written = f"{format_relation(name)}({', '.join(_variable_names(relation.arity))})"
        return {
            "name": name,
            "arity": relation.arity,
            "facts": relation.count,
            "trained": trained,
            "query": written,
        }

    def facts(self, page: Page, relation: str | None = None, obj: str | None = None) -> dict[str, Any]:
        """Facts in their order: all, or those of a relation, or with an object, or both."""
        number = None if obj is None else self.kb.object_id(obj)
        wanted = None if relation is None else self._relation_id(relation)
        parts = [(table, _matching_rows(table, wanted, number)) for table in self.kb.fact_tables.values()]
        relations = np.concatenate([np.zeros(0, np.int32), *(table.relation[rows] for table, rows in parts)])
        self._check_page(page)
        chosen = np.argsort(relations, kind="stable")[page.skip : page.skip + page.rows].tolist()
        flat = [(table, int(row)) for table, row in _pick_rows(parts, chosen)]
        return {
            "facts": [self._fact(table, row) for table, row in flat],
            "count": len(relations),
            "skipped": page.skip,
            "truncated": page.skip + len(flat) < len(relations),
        }

    def _relation_id(self, relation: str) -> int:
        number = self.kb.content.relations.find(relation)
        if number is None:
            near = similar_names(relation, self.kb.relations)
            hint = "" if near else "GET /api/relations lists those there are"
            raise KnowledgeBaseError(f"there is no relation {relation}", suggestions=near, hint=hint)
        return number

    def _fact(self, table: FactTable, row: int) -> dict[str, Any]:
        confidence = 1.0 if table.confidence is None else float(table.confidence[row])
        names = [self.kb.object_name(number) for number in table.objects[row].tolist()]
        return {
            "relation": self.kb.content.relations[int(table.relation[row])],
            "objects": names,
            "confidence": confidence,
        }

    # Questions

    def query(self, query: ExactQuery, deadline: Deadline) -> dict[str, Any]:
        """Exact answers, in a stable order."""
        self._check_page(query.page)
        budget = Budget(rows=query.page.rows)
        prepared = prepare(self.engine, query.query, query.bindings, budget)
        found = fetch_answers(self.engine, prepared, deadline.limit_budget(budget), skip=query.page.skip)
        body = {**prepared.as_dict(), "note": prepared.note, "answers": [list(names) for names in found]}
        body |= {"count": count_answers(self.engine, prepared, deadline.limit_budget()) if query.count else None}
        ways = None
        if query.why:
            witnessed = witness_facts(
                self.engine, prepared.query, found.tuples, max_witnesses=3, budget=deadline.limit_budget()
            )
            ways = [[[str(fact) for fact in facts] for facts in each] for each in witnessed]
        return {**body, "facts": ways, "skipped": query.page.skip, "truncated": found.truncated}

    def answers(self, query: RankedQuery, deadline: Deadline) -> dict[str, Any]:
        """The most probable answers."""
        self.check_limit("top", query.top, self.limits.max_rows)
        self.check_limit("draws", query.draws or 1, self.limits.max_draws)
        choice = CandidateStrategy(query.candidates, self.limits.max_candidates)
        ranking = RankingOptions(query.top, query.known, query.restrict_to, choice, deadline)
        model = self.require_model()
        settings: dict[str, Any] = {"draws": query.draws, "prior": query.prior}
        found = model.rank(query.query, query.bindings, ranking, **settings)
        if next(self._rankings) % WARM_UP_AFTER == 0 and not self._warmed_up:
            threading.Thread(target=self._warm_up, name="gaifman-hasten", daemon=True).start()
        return {**found.as_dict(), "truncated": found.considered.count > len(found)}

    def neighbourhood(self, query: NeighbourhoodQuery, deadline: Deadline) -> dict[str, Any]:
        """What is drawn around some objects."""
        self.check_limit("radius", query.radius, self.limits.max_radius)
        self.check_limit("size", query.size, self.limits.max_rows)
        self.check_limit("draws", query.draws, self.limits.max_draws)
        self.check_limit("size × draws", query.size * query.draws, self.limits.max_members)
        shown = min(self.limits.max_rows, self.limits.max_members // query.draws)
        deadline.check()
        settings = {"radius": query.radius, "size": query.size, "seed": query.seed}
        found = named_neighbourhoods(self.graph, list(query.objects), draws=query.draws, **settings)
        drawn = []
        for one in found:
            deadline.check()
            fields = one.as_dict()
            facts = fields["facts"]
            drawn.append({**fields, "facts": facts[:shown], "truncated": len(facts) > shown})
        return {"objects": list(query.objects), **settings, "draws": drawn}

    def degrees(self) -> dict[str, Any]:
        """How many objects have how many neighbours."""
        return self.graph.summary()

    def model_card(self) -> dict[str, Any]:
        """What the model is: all that its file says, and the same as a text for people."""
        meta = self.require_model().meta
        return {"meta": meta, "card": model_card(meta)}

    def require_model(self) -> Model:
        if self.model is None:
            raise KnowledgeBaseError(
                "there is no model here: exact queries alone are answered",
                hint="train one and serve it: gaifman train KB -o MODEL, then gaifman serve KB MODEL",
            )
        return self.model

    # Limits

    def check_limit(self, name: str, value: int, limit: int) -> None:
        if value > limit:
            raise GaifmanError(f"{name} is at most {limit:,} here, not {value:,}")

    def _check_page(self, page: Page) -> None:
        self.check_limit("rows", page.rows, self.limits.max_rows)

    def _paginate(self, found: Iterable[T], page: Page) -> tuple[list[T], bool]:
        """The rows of a page, and whether there are more."""
        self._check_page(page)
        rows = list(islice(found, page.skip, page.skip + page.rows + 1))
        return rows[: page.rows], len(rows) > page.rows


def _model_summary(model: Model) -> dict[str, Any]:
    if isinstance(model, Completion):
        return {"kind": "completion", "query": None, "variables": [], "relations": len(model.relations)}
    query = model.trained_query
    names = [variable.name for variable in query.variables]
    return {"kind": "model", "query": str(query), "variables": names, "relations": None}


def _variable_names(arity: int) -> list[str]:
    return [f"x{place + 1}" for place in range(arity)] if arity > 3 else list("xyz"[:arity])


def _matching_rows(table: FactTable, relation: int | None, number: int | None) -> Longs:
    rows = np.arange(len(table)) if relation is None else np.array(table.rows(relation), np.int64)
    return rows if number is None else rows[(table.objects[rows] == number).any(axis=1)]


def _pick_rows(parts: Sequence[tuple[FactTable, Longs]], chosen: Sequence[int]) -> Iterable[tuple[FactTable, int]]:
    """Rows by their places in all parts, one after another."""
    ends = np.cumsum([len(rows) for _, rows in parts])
    for place in chosen:
        part = int(np.searchsorted(ends, place, side="right"))
        table, rows = parts[part]
        yield table, rows[place - (ends[part - 1] if part else 0)]
