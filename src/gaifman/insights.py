"""What the page asks beyond the service: how a text is read, why an answer is probable, what is worth asking.

>>> import gaifman
>>> service = Service(gaifman.demo())
>>> reading(service, "exists z. borders(x, z) & borders(z, y)")["reading"]
'∃z (borders(x, z) ∧ borders(z, y))'
>>> print(reading(service, "bordrs(x, y)")["error"]["caret"])
bordrs(x, y)
^^^^^^
>>> [row["query"] for row in questions(service, "france")][:2]
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

from gaifman.candidates import fitting_types, types_at
from gaifman.completion import Completion
from gaifman.config import Budget
from gaifman.deadlines import Deadline, never
from gaifman.errors import GaifmanError
from gaifman.explain import TOP
from gaifman.explanations import Explanation, facts_as_dicts
from gaifman.formulas import Atom, Constant, Number, Term, Variable, bracketed
from gaifman.messages import refusal
from gaifman.model import GaifmanModel
from gaifman.parser import parse_query
from gaifman.patterns import atom_pattern, model_pattern
from gaifman.phrases import plain
from gaifman.printing import relation_text
from gaifman.queries import exists
from gaifman.scenes import Scene
from gaifman.service import Service

SHOWN = 4
"""Relations of which an example is made."""
ALIKE = 8
"""Objects of the same type that say what can be asked of one."""
READABLE = 40
"""Characters of a relation's name that still read well in an example."""
SECONDS = 0.5
"""Time for the check that an example has an answer."""


@dataclass(frozen=True, slots=True)
class Doubted:
    """An answer of the model that is to be explained."""

    query: str | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    answer: Sequence[str] = ()
    """Names for the variables of the query, in their order."""
    top: int = TOP
    draws: int | None = None
    prior: float | None = None


# While somebody types


def reading(service: Service, text: str, given: Mapping[str, str] | None = None) -> dict[str, Any]:
    """How a query is read, whether the model can be asked it, or what is wrong with it."""
    try:
        query = parse_query(text, service.kb.vocabulary)
    except GaifmanError as error:
        return {"reading": None, "variables": [], "ranked": False, "why_not": None, "among": {}, **refusal(error)}
    why_not = _why_not(service, text, given or {})
    names = [variable.name for variable in query.free]
    read = {"reading": bracketed(query), "variables": names, "error": None}
    among = {} if why_not else fitting_types(service.kb, query)
    return {**read, "ranked": why_not is None, "why_not": why_not, "among": among}


def _why_not(service: Service, text: str, given: Mapping[str, str]) -> str | None:
    """Why the model has no answer to a query."""
    model = service.model
    if model is None:
        return "there is no model here"
    try:
        if isinstance(model, Completion):
            atom_pattern(text, service.kb, model.relations, given)
        else:
            model_pattern(model._asked, service.kb, text, given)
    except GaifmanError as error:
        return error.message
    return None


# Why an answer is probable


def explanation(service: Service, doubted: Doubted, deadline: Deadline) -> dict[str, Any]:
    """What spoke for an answer and against it, what it would be without the facts it hangs on, and the picture."""
    service._most("top", doubted.top, service.serving.rows)
    service._most("draws", doubted.draws or 1, service.serving.draws)
    settings: dict[str, Any] = {
        "draws": doubted.draws,
        "prior": doubted.prior,
        "top": doubted.top,
        "deadline": deadline,
    }
    model = service._learnt()
    objects = model.tuple_of(doubted.query, doubted.given, doubted.answer)
    found: Explanation = model.explain(*objects, **settings)
    scene = None if found.scene is None else scene_of(found.scene, service.serving.rows)
    return {**found.as_dict(), "scene": scene, "picture": bare(found.svg())}


def scene_of(scene: Scene, most: int) -> dict[str, Any]:
    """What the picture shows, as fields: those facts first that stand out."""
    facts = sorted(scene.facts, key=lambda fact: (fact not in scene.chief, fact not in scene.lit))[:most]
    marks = [{"speaks": scene.lit.get(fact, 0), "chief": fact in scene.chief} for fact in facts]
    rows = [{**row, **mark} for row, mark in zip(facts_as_dicts(facts), marks, strict=True)]
    return {"objects": list(scene.objects), "members": list(scene.members)[:most], "facts": rows}


def bare(picture: str) -> str:
    """A picture without its own style, which a strict page refuses: whoever shows it styles its classes.

    >>> bare('<svg width="9" style="height:auto"><style>.a{}</style><text class="a">b</text></svg>')
    '<svg width="9"><text class="a">b</text></svg>'
    """
    return re.sub(r' style="[^"]*"', "", re.sub(r"<style>.*?</style>", "", picture, flags=re.DOTALL))


# What is worth asking


def examples(service: Service, deadline: Deadline | None = None) -> list[dict[str, Any]]:
    """Queries of this very knowledge base that have answers: first what the model predicts, then what is known."""
    found = [*_predicted(service), *_known(service)]
    return [row for row in found if row["ranked"] or _holds(service, row["query"], deadline or never())]


def questions(service: Service, name: str) -> list[dict[str, Any]]:
    """What the model can be asked of one object: the relations in which it, or others of its type, stand."""
    service.kb.id(name)
    found = []
    for relation, arity, place in _places(service, name):
        kinds = {
            _variable(at, arity): kind for at, kind in types_at(service.kb, relation, arity).items() if at != place
        }
        query = _asked(relation, arity, {place: name})
        row = _row(query, f"{plain(name)}: {plain(relation)}", among=kinds)
        found.append({**row, "relation": relation, "objects": [name if at == place else None for at in range(arity)]})
    return found


def _row(query: str, words: str, *, ranked: bool = True, among: Mapping[str, str] | None = None) -> dict[str, Any]:
    fields = {"query": query, "words": words, "ranked": ranked, "among": dict(among or {})}
    return {**fields, "relation": None, "objects": []}


def _asked(relation: str, arity: int, given: Mapping[int, str]) -> str:
    """A relation with objects at some places and variables at the others."""
    terms: list[Term] = [Variable(_variable(place, arity)) for place in range(arity)]
    for place, name in given.items():
        terms[place] = Constant(name)
    return str(Atom(relation, tuple(terms)))


def _variable(place: int, arity: int) -> str:
    return "xyz"[place] if arity <= 3 else f"x{place + 1}"


def _learnt(service: Service) -> list[str]:
    """Relations that a completion has a model of, pairs first, and those with most facts."""
    model, kb = service.model, service.kb
    trained = model.scorers if isinstance(model, Completion) else ()
    own = [name for name in trained if name in kb.relations and kb.relations[name].arity > 1]
    return sorted(own, key=lambda name: (kb.relations[name].arity, -kb.relations[name].count, name))


def _predicted(service: Service) -> Iterator[dict[str, Any]]:
    """Of the model: what it was made for, each time asked of another well-known object, from either side."""
    model, told = service.model, set[str]()
    if isinstance(model, GaifmanModel):
        yield _row(str(model._asked), "what the model has learnt, most probable first")
    for turn, relation in enumerate(_learnt(service)[:SHOWN]):
        arity, place = service.kb.relations[relation].arity, turn % 2
        for name in _prominent(service, relation, place, told):
            told.add(name)
            yield _row(_asked(relation, arity, {place: name}), f"{plain(name)}: {plain(relation)}, known and missing")


def _prominent(service: Service, relation: str, place: int, told: Collection[str] = ()) -> list[str]:
    """The object with most neighbours at a place of a relation, by the first thousand facts; none that was told."""
    kb = service.kb
    table, number = kb.tables[kb.relations[relation].arity], kb.content.relations.number(relation) or 0
    rows = table.rows(number)[:1000]
    there = np.unique(table.objects[rows.start : rows.stop, place])
    ordered = there[np.argsort(-service.graph.degrees[there], kind="stable")]
    names = (kb.name(int(one)) for one in ordered[: len(told) + 1])
    return [name for name in names if name not in told][:1]


def _known(service: Service) -> Iterator[dict[str, Any]]:
    """Exact ones: two steps, what is lacking, a number; and without a model what is known of well-known objects."""
    kb = service.kb
    pairs = [r for r in kb.relations.values() if r.arity == 2 and r.count]
    best = [r.name for r in sorted(pairs, key=lambda r: (len(r.name) > READABLE, -r.count, r.name))]
    chained = (name for name in best if _holds(service, _two_steps(name), never()))
    for name in islice(chained, 1):
        yield _row(_two_steps(name), f"two steps of {plain(name)} apart, not one", ranked=False)
        types = [kind for one in _prominent(service, name, 0) for kind in kb.types(one)]
        written = relation_text(name)
        for kind in types[:1]:
            lacking = f"{relation_text(kind)}(x) & ~(exists y. {written}(x, y))"
            yield _row(lacking, f"each {plain(kind)} without {plain(name)}", ranked=False)
    for name in list(kb.attributes)[:1]:
        values = kb.content.values
        own = values.value[values.rows(list(kb.attributes).index(name))]
        bound = Number(float(f"{np.quantile(own, 0.9):.1e}")) if len(own) else Number(0.0)
        yield _row(f"{relation_text(name)}(x) > {bound}", f"the largest by {plain(name)}", ranked=False)
    if service.model is None:
        told = set[str]()
        for turn, relation in enumerate(best[:2]):
            for name in _prominent(service, relation, 1 - turn, told):
                told.add(name)
                yield _row(_asked(relation, 2, {1 - turn: name}), f"{plain(name)}: {plain(relation)}", ranked=False)


def _two_steps(name: str) -> str:
    own = relation_text(name)
    return f"exists z. {own}(x, z) & {own}(z, y) & x != y & ~{own}(x, y)"


def _holds(service: Service, query: str, deadline: Deadline) -> bool:
    """Whether a query has an answer; one that takes long is no example."""
    seconds = SECONDS if deadline.left is None else max(0.001, min(SECONDS, deadline.left))
    try:
        return exists(service.engine, query, budget=Budget(seconds=seconds))
    except GaifmanError:
        return False


def _places(service: Service, name: str) -> Iterable[tuple[str, int, int]]:
    """Relations of the model, with their places, at which an object or others of its type stand."""
    kb, model = service.kb, service.model
    if isinstance(model, GaifmanModel) and isinstance(model._asked.formula, Atom):
        wanted = {str(model._asked.formula.relation)}
    else:
        wanted = set(_learnt(service)) if model else set(kb.relations)
    alike = [kb.id(name), *(number for kind in kb.types(name) for number in _of_type(service, kind))]
    found = set[tuple[str, int, int]]()
    for arity, table in kb.tables.items():
        if arity > 1:
            rows, places = np.nonzero(np.isin(table.objects, alike))
            pairs = np.unique(np.column_stack([table.relation[rows], places]), axis=0)
            found |= {(kb.content.relations[relation], arity, place) for relation, place in pairs.tolist()}
    return sorted(row for row in found if row[0] in wanted)


def _of_type(service: Service, kind: str) -> list[int]:
    """Some objects of a type."""
    kb = service.kb
    table, number = kb.tables[1], kb.content.relations.number(kind) or 0
    rows = table.rows(number)[:ALIKE]
    return [int(one) for one in table.objects[rows.start : rows.stop, 0]]
