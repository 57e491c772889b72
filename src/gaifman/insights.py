"""What the page asks beyond the service: how a text is read, why an answer is probable, what is worth asking.

>>> import gaifman
>>> service = Service(gaifman.demo())
>>> parse_for_page(service, "exists z. borders(x, z) & borders(z, y)")["reading"]
'∃z (borders(x, z) ∧ borders(z, y))'
>>> print(parse_for_page(service, "bordrs(x, y)")["error"]["caret"])
bordrs(x, y)
^^^^^^
>>> [row["query"] for row in queries_about(service, "france")][:2]
["borders('france', y)", "borders(x, 'france')"]

A mistake in a text that is being typed is no failure but what there is to say of it, so a reading always comes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from gaifman.cancellation import Deadline, no_deadline
from gaifman.completion import Completion
from gaifman.config import Budget
from gaifman.errors import GaifmanError
from gaifman.explain.attribution import DEFAULT_TOP
from gaifman.explain.explanation import Explanation, facts_as_dicts
from gaifman.explain.svg import Diagram
from gaifman.logic.ast import Atom, Constant, Number, Term, Variable, to_bracketed
from gaifman.logic.parser import parse_query
from gaifman.logic.printer import format_relation
from gaifman.logic.verbalize import readable_name
from gaifman.messages import error_body
from gaifman.model import GaifmanModel
from gaifman.queries.answers import exists
from gaifman.ranking.candidates import atom_pattern, model_pattern, position_types, variable_types
from gaifman.service import Service

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
        return {"reading": None, "variables": [], "ranked": False, "why_not": None, "among": {}, **error_body(error)}
    why_not = _not_rankable_reason(service, text, bindings or {})
    names = [variable.name for variable in query.variables]
    read = {"reading": to_bracketed(query), "variables": names, "error": None}
    among = {} if why_not else variable_types(service.kb, query)
    return {**read, "ranked": why_not is None, "why_not": why_not, "among": among}


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
    return {**found.as_dict(), "scene": scene, "picture": strip_svg_style(found.svg())}


def scene_fields(scene: Diagram, max_facts: int) -> dict[str, Any]:
    """What the picture shows, as fields: those facts first that stand out."""
    facts = sorted(scene.facts, key=lambda fact: (fact not in scene.decisive, fact not in scene.highlighted))[
        :max_facts
    ]
    marks = [{"speaks": scene.highlighted.get(fact, 0), "chief": fact in scene.decisive} for fact in facts]
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
    return [row for row in found if row["ranked"] or _has_answer(service, row["query"], deadline or no_deadline())]


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
    fields = {"query": query, "words": description, "ranked": rankable, "among": dict(restrict_to or {})}
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
