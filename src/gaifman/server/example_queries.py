"""Example queries of a knowledge base, for the page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

import numpy as np

from gaifman.config import Budget, Deadline, no_deadline
from gaifman.errors import GaifmanError
from gaifman.logic.ast import Atom, Constant, Number, Term, format_relation, query_variables
from gaifman.logic.verbalize import readable_name
from gaifman.model import GaifmanModel
from gaifman.queries.answers import exists
from gaifman.server.schemas import ExampleQuery
from gaifman.server.service import Service

EXAMPLE_RELATIONS = 4
"""Relations that get an example each."""
SAME_TYPE_SAMPLE = 8
"""Objects of the same type whose relations are looked at."""
READABLE_LENGTH = 40
"""Characters of a relation's name that still read well in an example."""
HUB_SAMPLE = 1_000
"""Facts of a relation in which the best connected object is looked for."""
EXAMPLE_TIMEOUT = 0.5
"""Seconds for the check that an example has an answer."""


def example_queries(service: Service, deadline: Deadline | None = None) -> list[ExampleQuery]:
    """Return queries of this knowledge base that have answers: first those for the model, then exact ones."""
    deadline = deadline or no_deadline()
    found = [*_rankable_examples(service), *_exact_examples(service, deadline)]
    return [row for row in found if row.rankable or _has_answer(service, row.query, deadline)]


def queries_about(service: Service, name: str) -> list[ExampleQuery]:
    """Return queries about one object: the relations in which it, or others of its type, occur."""
    name = service.kb.object_name(service.kb.object_id(name))
    shown, found = service.kb.display.show(name), []
    for relation, arity, position in _relation_positions(service, name):
        query = _atom_query(relation, arity, {position: shown})
        row = _example(query, f"{readable_name(shown)}: {readable_name(relation)}")
        objects = [name if at == position else None for at in range(arity)]
        found.append(row.model_copy(update={"relation": relation, "objects": objects}))
    return found


def _example(query: str, description: str, *, rankable: bool = True) -> ExampleQuery:
    return ExampleQuery(query=query, description=description, rankable=rankable, relation=None, objects=[])


def _atom_query(relation: str, arity: int, constants: Mapping[int, str]) -> str:
    """Return a relation with objects at some positions and variables at the others."""
    terms: list[Term] = list(query_variables(arity))
    for position, name in constants.items():
        terms[position] = Constant(name)
    return str(Atom(relation, tuple(terms)))


def _trained_relations(service: Service) -> list[str]:
    """Return the relations with a model, binary ones first, and those with most facts first."""
    relations = service.kb.relations
    own = [name for name in service.trained_relations or () if name in relations and relations[name].arity > 1]
    return sorted(own, key=lambda name: (relations[name].arity, -relations[name].count, name))


def _rankable_examples(service: Service) -> Iterator[ExampleQuery]:
    """Yield the model's own query, or relations of a completion, each with another well connected object."""
    model, used = service.model, set[str]()
    if isinstance(model, GaifmanModel):
        yield _example(str(model.query), "answers of the model, most probable first")
    for turn, relation in enumerate(_trained_relations(service)[:EXAMPLE_RELATIONS]):
        arity, position = service.kb.relations[relation].arity, turn % 2
        for name in _best_connected(service, relation, position, used):
            used.add(name)
            shown = service.kb.display.show(name)
            description = f"{readable_name(shown)}: {readable_name(relation)}, known and predicted"
            yield _example(_atom_query(relation, arity, {position: shown}), description)


def _best_connected(service: Service, relation: str, position: int, exclude: Collection[str] = ()) -> list[str]:
    """Return the object with most neighbours at a position of a relation; no object if all are excluded."""
    kb = service.kb
    objects = np.unique(kb.tuples(relation)[:HUB_SAMPLE, position])
    ordered = objects[np.argsort(-service.graph.degrees[objects], kind="stable")]
    names = (kb.object_name(int(number)) for number in ordered[: len(exclude) + 1])
    return [name for name in names if name not in exclude][:1]


def _exact_examples(service: Service, deadline: Deadline) -> Iterator[ExampleQuery]:
    """Yield two steps of a relation, a negation and a number; without a model also facts of well connected objects."""
    kb = service.kb
    binary = [relation for relation in kb.relations.values() if relation.arity == 2 and relation.count]
    best = [r.name for r in sorted(binary, key=lambda r: (len(r.name) > READABLE_LENGTH, -r.count, r.name))]
    chained = (name for name in best if _has_answer(service, _two_steps(name), deadline))
    for name in islice(chained, 1):
        words = readable_name(name)
        yield _example(_two_steps(name), f"two steps of {words} apart, not one", rankable=False)
        types = [kind for hub in _best_connected(service, name, 0) for kind in kb.types(hub)]
        for kind in types[:1]:
            query = f"{format_relation(kind)}(x) & ~(exists y. {format_relation(name)}(x, y))"
            yield _example(query, f"each {readable_name(kind)} without {words}", rankable=False)
    for number, name in enumerate(islice(kb.attributes, 1)):
        values = kb.value_table.value[kb.value_table.rows(number)]
        bound = Number(float(f"{np.quantile(values, 0.9):.1e}")) if len(values) else Number(0.0)
        yield _example(f"{format_relation(name)}(x) > {bound}", f"the largest by {readable_name(name)}", rankable=False)
    if service.model is None:
        used = set[str]()
        for turn, relation in enumerate(best[:2]):
            for name in _best_connected(service, relation, 1 - turn, used):
                used.add(name)
                shown = kb.display.show(name)
                description = f"{readable_name(shown)}: {readable_name(relation)}"
                yield _example(_atom_query(relation, 2, {1 - turn: shown}), description, rankable=False)


def _two_steps(name: str) -> str:
    own = format_relation(name)
    return f"exists z. {own}(x, z) & {own}(z, y) & x != y & ~{own}(x, y)"


def _has_answer(service: Service, query: str, deadline: Deadline) -> bool:
    """Whether a query has an answer, found in little time."""
    seconds = EXAMPLE_TIMEOUT if deadline.remaining is None else max(0.001, min(EXAMPLE_TIMEOUT, deadline.remaining))
    try:
        return exists(service.engine, query, budget=Budget(seconds=seconds))
    except GaifmanError:
        return False


def _relation_positions(service: Service, name: str) -> Iterable[tuple[str, int, int]]:
    """Return relation, arity and position of an object and of others of its type, for relations of the model."""
    kb, model = service.kb, service.model
    if isinstance(model, GaifmanModel) and isinstance(model.query.formula, Atom):
        relations = {str(model.query.formula.relation)}
    else:
        relations = set(_trained_relations(service)) if model else set(kb.relations)
    objects = [
        kb.object_id(name),
        *(int(number) for kind in kb.types(name) for number in _objects_of_type(service, kind)),
    ]
    found = set[tuple[str, int, int]]()
    for arity, table in kb.fact_tables.items():
        if arity > 1:
            rows, positions = np.nonzero(np.isin(table.objects, objects))
            pairs = np.unique(np.column_stack([table.relation[rows], positions]), axis=0)
            found |= {(kb.content.relations[relation], arity, position) for relation, position in pairs.tolist()}
    return sorted(row for row in found if row[0] in relations)


def _objects_of_type(service: Service, kind: str) -> list[int]:
    return [int(number) for number in service.kb.tuples(kind)[:SAME_TYPE_SAMPLE, 0]]
