r"""Names found by a part of them, as somebody types.

>>> finder = NameIndex(["Ann Lee", "Joann", "bob", "Anna"])
>>> [finder.names[number] for number in finder.search("ann")]
['Ann Lee', 'Anna', 'Joann']

First the names that begin with the text, then those that have it inside, each in their order; large and small letters
are the same.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, count, islice
from typing import Any, TypeVar

import numpy as np

from gaifman.cancellation import Deadline, no_deadline
from gaifman.completion import Completion
from gaifman.config import DEFAULT_SERVER_LIMITS, Budget, ServerLimits
from gaifman.errors import GaifmanError, KnowledgeBaseError, similar_names
from gaifman.explain.attribution import DEFAULT_TOP
from gaifman.explain.explanation import Explanation, facts_as_dicts
from gaifman.explain.svg import Diagram
from gaifman.kb.facts import Fact
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import FactTable, Longs
from gaifman.logic.ast import Atom, Constant, Number, Term, Variable, relation_query, to_bracketed
from gaifman.logic.parser import parse_query
from gaifman.logic.printer import format_relation
from gaifman.logic.transforms import used_symbols
from gaifman.logic.verbalize import readable_name
from gaifman.model import GaifmanModel
from gaifman.model_card import model_card
from gaifman.queries.answers import count_answers, exists, fetch_answers, prepare
from gaifman.queries.engine import Engine, get_engine
from gaifman.queries.witnesses import witness_facts
from gaifman.ranking.candidates import CandidateStrategy, atom_pattern, model_pattern, position_types, variable_types
from gaifman.ranking.ranked_answers import RankingOptions
from gaifman.sampling.neighbourhoods import named_neighbourhoods
from gaifman.server.schemas import error_body

SEPARATOR = "\0"
"""Between two names: no name can hold it."""


class NameIndex:
    """All names as one text, in which the machine's own search is quick: milliseconds for a hundred thousand."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        folded = [name.casefold() for name in names]
        self._text = SEPARATOR + SEPARATOR.join(folded) + SEPARATOR
        self._starts = list(accumulate((len(name) + 1 for name in folded), initial=1))

    def search(self, text: str) -> Iterator[int]:
        """The numbers of the names that have the text, one by one; all of them where it is empty."""
        wanted = text.casefold()
        if not wanted:
            yield from range(len(self.names))
            return
        if SEPARATOR in wanted:
            return
        yield from (number for number, _ in self._matches(SEPARATOR + wanted, 1))
        yield from (number for number, first in self._matches(wanted, 0) if not first)

    def _matches(self, wanted: str, shift: int) -> Iterator[tuple[int, bool]]:
        """The number of each name with the text in it, and whether it begins with it."""
        at = self._text.find(wanted)
        while at >= 0:
            number = bisect_right(self._starts, at + shift) - 1
            yield number, self._text.startswith(SEPARATOR, at + shift - 1)
            at = self._text.find(wanted, self._starts[number + 1] - shift)


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
            self.kb.extend_schema(*used_symbols(self.model.features, self.model.trained_query))

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
        return {"objects": rows, "suggestions": list(near), "skipped": page.skip, "truncated": truncated}

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
        return {
            "name": name,
            "arity": relation.arity,
            "facts": relation.count,
            "trained": trained,
            "query": str(relation_query(name, relation.arity)),
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
        fact = self.kb.fact_at(table, row)
        return {"relation": fact.relation, "objects": list(fact.objects), "confidence": fact.confidence}

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
        return {**body, "witnesses": ways, "skipped": query.page.skip, "truncated": found.truncated}

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
            threading.Thread(target=self._warm_up, name="gaifman-warm-up", daemon=True).start()
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


EXAMPLE_RELATIONS = 4
"""Relations of which an example is made."""
SAME_TYPE_SAMPLE = 8
"""Objects of the same type that say what can be asked of one."""
READABLE_LENGTH = 40
"""Characters of a relation's name that still read well in an example."""
EXAMPLE_TIMEOUT = 0.5
"""Time for the check that an example has an answer."""


@dataclass(frozen=True, slots=True)
class ExplanationQuery:
    """An answer of the model that is to be explained."""

    query: str | None = None
    bindings: Mapping[str, str] = field(default_factory=dict)
    answer: Sequence[str] = ()
    """Names for the variables of the query, in their order."""
    top: int = DEFAULT_TOP
    draws: int | None = None
    prior: float | None = None


# While somebody types


def parse_for_page(service: Service, text: str, bindings: Mapping[str, str] | None = None) -> dict[str, Any]:
    """How a query is read, whether the model can be asked it, or what is wrong with it."""
    try:
        query = parse_query(text, service.kb.schema)
    except GaifmanError as error:
        return {
            "bracketed": None,
            "variables": [],
            "rankable": False,
            "not_rankable_reason": None,
            "restrict_to": {},
            **error_body(error),
        }
    why_not = _not_rankable_reason(service, text, bindings or {})
    names = [variable.name for variable in query.variables]
    read = {"bracketed": to_bracketed(query), "variables": names, "error": None}
    among = {} if why_not else variable_types(service.kb, query)
    return {**read, "rankable": why_not is None, "not_rankable_reason": why_not, "restrict_to": among}


def _not_rankable_reason(service: Service, text: str, bindings: Mapping[str, str]) -> str | None:
    """Why the model has no answer to a query."""
    model = service.model
    if model is None:
        return "there is no model here"
    try:
        if isinstance(model, Completion):
            atom_pattern(text, service.kb, model.relations, bindings)
        else:
            model_pattern(model.trained_query, service.kb, text, bindings)
    except GaifmanError as error:
        return error.message
    return None


# Why an answer is probable


def explain_answer(service: Service, query: ExplanationQuery, deadline: Deadline) -> dict[str, Any]:
    """What spoke for an answer and against it, what it would be without the facts it hangs on, and the picture."""
    service.check_limit("top", query.top, service.limits.max_rows)
    service.check_limit("draws", query.draws or 1, service.limits.max_draws)
    settings: dict[str, Any] = {
        "draws": query.draws,
        "prior": query.prior,
        "top": query.top,
        "deadline": deadline,
    }
    model = service.require_model()
    objects = model.answer_tuple(query.query, query.bindings, query.answer)
    found: Explanation = model.explain(*objects, **settings)
    scene = None if found.diagram is None else scene_fields(found.diagram, service.limits.max_rows)
    return {**found.as_dict(), "diagram": scene, "picture": strip_svg_style(found.svg())}


def scene_fields(scene: Diagram, max_facts: int) -> dict[str, Any]:
    """What the picture shows, as fields: those facts first that stand out."""
    facts = sorted(scene.facts, key=lambda fact: (fact not in scene.decisive, fact not in scene.highlighted))[
        :max_facts
    ]
    marks = [{"direction": scene.highlighted.get(fact, 0), "decisive": fact in scene.decisive} for fact in facts]
    rows = [{**row, **mark} for row, mark in zip(facts_as_dicts(facts), marks, strict=True)]
    return {"objects": list(scene.objects), "members": list(scene.members)[:max_facts], "facts": rows}


def strip_svg_style(svg: str) -> str:
    """A picture without its own style, which a strict page refuses: whoever shows it styles its classes.

    >>> strip_svg_style('<svg width="9" style="height:auto"><style>.a{}</style><text class="a">b</text></svg>')
    '<svg width="9"><text class="a">b</text></svg>'
    """
    return re.sub(r' style="[^"]*"', "", re.sub(r"<style>.*?</style>", "", svg, flags=re.DOTALL))


# What is worth asking


def example_queries(service: Service, deadline: Deadline | None = None) -> list[dict[str, Any]]:
    """Queries of this very knowledge base that have answers: first what the model predicts, then what is known."""
    found = [*_rankable_examples(service), *_exact_examples(service)]
    return [row for row in found if row["rankable"] or _has_answer(service, row["query"], deadline or no_deadline())]


def queries_about(service: Service, name: str) -> list[dict[str, Any]]:
    """What the model can be asked of one object: the relations in which it, or others of its type, stand."""
    service.kb.object_id(name)
    found = []
    for relation, arity, place in _relation_positions(service, name):
        kinds = {
            _variable_name(at, arity): kind
            for at, kind in position_types(service.kb, relation, arity).items()
            if at != place
        }
        query = _atom_query(relation, arity, {place: name})
        row = _example_row(query, f"{readable_name(name)}: {readable_name(relation)}", restrict_to=kinds)
        found.append({**row, "relation": relation, "objects": [name if at == place else None for at in range(arity)]})
    return found


def _example_row(
    query: str, description: str, *, rankable: bool = True, restrict_to: Mapping[str, str] | None = None
) -> dict[str, Any]:
    fields = {"query": query, "description": description, "rankable": rankable, "restrict_to": dict(restrict_to or {})}
    return {**fields, "relation": None, "objects": []}


def _atom_query(relation: str, arity: int, constants: Mapping[int, str]) -> str:
    """A relation with objects at some places and variables at the others."""
    terms: list[Term] = [Variable(_variable_name(place, arity)) for place in range(arity)]
    for place, name in constants.items():
        terms[place] = Constant(name)
    return str(Atom(relation, tuple(terms)))


def _variable_name(position: int, arity: int) -> str:
    return "xyz"[position] if arity <= 3 else f"x{position + 1}"


def _trained_relations(service: Service) -> list[str]:
    """Relations that a completion has a model of, pairs first, and those with most facts."""
    model, kb = service.model, service.kb
    trained = model.scorers if isinstance(model, Completion) else ()
    own = [name for name in trained if name in kb.relations and kb.relations[name].arity > 1]
    return sorted(own, key=lambda name: (kb.relations[name].arity, -kb.relations[name].count, name))


def _rankable_examples(service: Service) -> Iterator[dict[str, Any]]:
    """Of the model: what it was made for, each time asked of another well-known object, from either side."""
    model, told = service.model, set[str]()
    if isinstance(model, GaifmanModel):
        yield _example_row(str(model.trained_query), "what the model has learnt, most probable first")
    for turn, relation in enumerate(_trained_relations(service)[:EXAMPLE_RELATIONS]):
        arity, place = service.kb.relations[relation].arity, turn % 2
        for name in _best_connected(service, relation, place, told):
            told.add(name)
            yield _example_row(
                _atom_query(relation, arity, {place: name}),
                f"{readable_name(name)}: {readable_name(relation)}, known and missing",
            )


def _best_connected(service: Service, relation: str, position: int, exclude: Collection[str] = ()) -> list[str]:
    """The object with most neighbours at a place of a relation, by the first thousand facts; none that was told."""
    kb = service.kb
    table, number = kb.fact_tables[kb.relations[relation].arity], kb.content.relations.find(relation) or 0
    rows = table.rows(number)[:1000]
    there = np.unique(table.objects[rows.start : rows.stop, position])
    ordered = there[np.argsort(-service.graph.degrees[there], kind="stable")]
    names = (kb.object_name(int(one)) for one in ordered[: len(exclude) + 1])
    return [name for name in names if name not in exclude][:1]


def _exact_examples(service: Service) -> Iterator[dict[str, Any]]:
    """Exact ones: two steps, what is lacking, a number; and without a model what is known of well-known objects."""
    kb = service.kb
    pairs = [r for r in kb.relations.values() if r.arity == 2 and r.count]
    best = [r.name for r in sorted(pairs, key=lambda r: (len(r.name) > READABLE_LENGTH, -r.count, r.name))]
    chained = (name for name in best if _has_answer(service, _two_steps(name), no_deadline()))
    for name in islice(chained, 1):
        yield _example_row(_two_steps(name), f"two steps of {readable_name(name)} apart, not one", rankable=False)
        types = [kind for one in _best_connected(service, name, 0) for kind in kb.types(one)]
        written = format_relation(name)
        for kind in types[:1]:
            lacking = f"{format_relation(kind)}(x) & ~(exists y. {written}(x, y))"
            yield _example_row(lacking, f"each {readable_name(kind)} without {readable_name(name)}", rankable=False)
    for name in list(kb.attributes)[:1]:
        values = kb.content.values
        own = values.value[values.rows(list(kb.attributes).index(name))]
        bound = Number(float(f"{np.quantile(own, 0.9):.1e}")) if len(own) else Number(0.0)
        yield _example_row(
            f"{format_relation(name)}(x) > {bound}", f"the largest by {readable_name(name)}", rankable=False
        )
    if service.model is None:
        told = set[str]()
        for turn, relation in enumerate(best[:2]):
            for name in _best_connected(service, relation, 1 - turn, told):
                told.add(name)
                yield _example_row(
                    _atom_query(relation, 2, {1 - turn: name}),
                    f"{readable_name(name)}: {readable_name(relation)}",
                    rankable=False,
                )


def _two_steps(name: str) -> str:
    own = format_relation(name)
    return f"exists z. {own}(x, z) & {own}(z, y) & x != y & ~{own}(x, y)"


def _has_answer(service: Service, query: str, deadline: Deadline) -> bool:
    """Whether a query has an answer; one that takes long is no example."""
    seconds = EXAMPLE_TIMEOUT if deadline.remaining is None else max(0.001, min(EXAMPLE_TIMEOUT, deadline.remaining))
    try:
        return exists(service.engine, query, budget=Budget(seconds=seconds))
    except GaifmanError:
        return False


def _relation_positions(service: Service, name: str) -> Iterable[tuple[str, int, int]]:
    """Relations of the model, with their places, at which an object or others of its type stand."""
    kb, model = service.kb, service.model
    if isinstance(model, GaifmanModel) and isinstance(model.trained_query.formula, Atom):
        wanted = {str(model.trained_query.formula.relation)}
    else:
        wanted = set(_trained_relations(service)) if model else set(kb.relations)
    alike = [kb.object_id(name), *(number for kind in kb.types(name) for number in _of_type(service, kind))]
    found = set[tuple[str, int, int]]()
    for arity, table in kb.fact_tables.items():
        if arity > 1:
            rows, places = np.nonzero(np.isin(table.objects, alike))
            pairs = np.unique(np.column_stack([table.relation[rows], places]), axis=0)
            found |= {(kb.content.relations[relation], arity, place) for relation, place in pairs.tolist()}
    return sorted(row for row in found if row[0] in wanted)


def _of_type(service: Service, kind: str) -> list[int]:
    """Some objects of a type."""
    kb = service.kb
    table, number = kb.fact_tables[1], kb.content.relations.find(kind) or 0
    rows = table.rows(number)[:SAME_TYPE_SAMPLE]
    return [int(one) for one in table.objects[rows.start : rows.stop, 0]]
