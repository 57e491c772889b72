"""Twins: negatives that fulfil as much of the query as an answer from which something is hidden.

>>> import gaifman
>>> kb = gaifman.KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "ann", "cleo"), ("old", "bob")])
>>> for slot in find_slots(kb, gaifman.parse_query("likes(x, y) & old(y)", kb)):
...     print("without", slot.literal, "it is", slot.relaxed, "and positions", slot.positions, "are replaced")
without likes(x, y) it is old(y) and positions (0, 1) are replaced
without old(y) it is likes(x, y) and positions (1,) are replaced

From the answer (ann, bob), either likes(ann, bob) or old(bob) is hidden. If it is the latter, likes(ann, bob) is still
seen, and few negatives with a random object have such a fact: a model would tell them apart by the query's own parts,
also where all facts are random. (ann, cleo) is a twin: someone whom ann likes, and who is not known to be old.

What is hidden from an answer is hidden from a negative too: if the age of an answer is hidden, so is the negative's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gaifman.errors import LimitError
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints, Longs, freeze
from gaifman.logic.ast import (
    And,
    Atom,
    Attribute,
    Comparison,
    Exists,
    Formula,
    Not,
    Or,
    Query,
    Term,
    Truth,
    Variable,
    all_free_variables,
)
from gaifman.queries.sql import normalize_for_kb
from gaifman.queries.witnesses import find_replacements
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.negatives import Negatives, NegativeSampler
from gaifman.sampling.neighbourhoods import fact_rows
from gaifman.sampling.refutation import expand_equivalences
from gaifman.sampling.rng import fold_in, fold_in_rows, make_key

MAX_REPLACEMENTS = 64
"""Objects that are considered for one position of an answer."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of a query that a fact or value makes true."""

    literal: Atom | Attribute
    relaxed: Formula
    """The query without this part, in normal form."""
    positions: tuple[int, ...]
    """Positions of the query's variables that the part depends on; all if it depends on none."""


def find_slots(kb: KnowledgeBase, query: Query) -> list[Slot]:
    """Return the parts of a query that facts and values make true; none if it has too many ↔."""
    try:
        formula = expand_equivalences(normalize_for_kb(query.formula, kb))
    except LimitError:
        return []
    slots = []
    for path, part in _positive_parts(formula):
        relaxed = normalize_for_kb(_replace(formula, path, Truth(True)), kb)
        quantities = (part,) if isinstance(part, Atom) else (part.left, part.right)
        for literal in quantities:
            if isinstance(literal, Atom | Attribute):
                own = [at for at, v in enumerate(query.variables) if v in all_free_variables(literal)]
                slots.append(Slot(literal, relaxed, tuple(own or range(len(query.variables)))))
    return slots


def _positive_parts(formula: Formula, positive: bool = True) -> Iterator[tuple[tuple[int, ...], Atom | Comparison]]:
    """Yield the atoms and comparisons below an even number of ¬, each with its place in the formula."""
    match formula:
        case Atom() | Comparison():
            if positive:
                yield (), formula
        case And(parts) | Or(parts):
            for at, part in enumerate(parts):
                yield from (((at, *path), found) for path, found in _positive_parts(part, positive))
        case Exists(_, body):
            yield from (((0, *path), found) for path, found in _positive_parts(body, positive))
        case Not(body):
            yield from (((0, *path), found) for path, found in _positive_parts(body, not positive))


def _replace(formula: Formula, path: tuple[int, ...], new: Formula) -> Formula:
    """Return the formula with another part at a place."""
    if not path:
        return new
    match formula:
        case And(parts) | Or(parts):
            changed = _replace(parts[path[0]], path[1:], new)
            return replace(formula, parts=(*parts[: path[0]], changed, *parts[path[0] + 1 :]))
        case Exists(_, body) | Not(body):
            return replace(formula, body=_replace(body, path[1:], new))
    raise AssertionError(f"{type(formula).__name__} has no parts")


class TwinSampler:
    """Finds twins of the answers of a query. It is immutable, so threads can share it."""

    def __init__(self, graph: GaifmanGraph, query: Query, answers: Ints, hidden: HiddenFacts) -> None:
        """Prepare for all answers (a, n) of a query, and what is hidden from them."""
        self._kb, self._query, self._answers = graph.kb, query, answers
        self._slots = find_slots(graph.kb, query)
        self._slot_of_answer = _match_slots(graph, query, self._slots, answers, hidden)
        self._ground = [slot for slot in self._slots if _terms(slot.literal) <= {*query.variables}]
        self._hides = [_contains(hidden, self._ground_numbers(slot, answers)) for slot in self._ground]

    def sample(self, rows: Longs, count: int, key: np.uint64, sampler: NegativeSampler, known: Ints) -> Negatives:
        """Return up to `count` twins of each of some rows of the answers; `known` (k, n) are true tuples.

        An object that only the hidden part depends on is replaced as `sampler` does. Otherwise the rest of the query
        must hold for the new object.
        """
        parts = [self._free_twins(rows, count, key, sampler)]
        for number, slot in enumerate(self._slots):
            own = np.flatnonzero(self._slot_of_answer[rows] == number)
            bound = [at for at in slot.positions if self._query.variables[at] in all_free_variables(slot.relaxed)]
            parts += [self._bound_twins(slot, rows, own, at) for at in bound if len(own)]
        tuples = np.concatenate([part.tuples for part in parts])
        sources = np.concatenate([part.sources for part in parts])
        new = ~np.isin(fold_in_rows(make_key(0), tuples), fold_in_rows(make_key(0), known))
        return _choose(self._answers[rows], Negatives(tuples[new], sources[new]), count, key)

    def _free_twins(self, rows: Longs, count: int, key: np.uint64, sampler: NegativeSampler) -> Negatives:
        """Return negatives of which the new object is at a position that the rest of the query does not mention."""
        found = sampler.sample(rows, count * self._answers.shape[1], key)
        replaced = (found.tuples != self._answers[rows[found.sources]]).argmax(axis=1)
        free = np.zeros((len(self._slots) + 1, self._answers.shape[1]), bool)  # the last row: no slot, −1
        for number, slot in enumerate(self._slots):
            free[number, list(slot.positions)] = True
            free[number] &= [v not in all_free_variables(slot.relaxed) for v in self._query.variables]
        kept = free[self._slot_of_answer[rows[found.sources]], replaced]
        return Negatives(found.tuples[kept], found.sources[kept])

    def _bound_twins(self, slot: Slot, rows: Longs, own: Longs, position: int) -> Negatives:
        """Return the answers `rows[own]` with other objects at a position for which the rest of the query holds."""
        asked = self._answers[rows[own]]
        found, objects = find_replacements(self._kb, self._query, slot.relaxed, asked, position, MAX_REPLACEMENTS)
        tuples = asked[found]
        tuples[:, position] = objects
        return Negatives(tuples, own[found])

    def hide_from_negatives(self, hidden: HiddenFacts, rows: Longs, negatives: Ints) -> HiddenFacts:
        """Hide from negatives (c, n) of the answers `rows` (c,) what corresponds to what is hidden from these."""
        owners = [np.repeat(np.arange(len(negatives)), np.diff(hidden.starts))]
        numbers = [hidden.facts]
        for slot, hides in zip(self._ground, self._hides, strict=True):
            asked = np.flatnonzero(hides[rows])
            found = self._ground_numbers(slot, negatives[asked])
            owners.append(asked[found >= 0])
            numbers.append(found[found >= 0])
        if not sum(map(len, numbers[1:])):
            return hidden
        return HiddenFacts.from_pairs(len(negatives), np.concatenate(owners), np.concatenate(numbers))

    def _ground_numbers(self, slot: Slot, tuples: Ints) -> Longs:
        """Return the number of the fact or value that the slot is for each tuple (b, n), or −1."""
        literal = slot.literal
        terms = literal.terms if isinstance(literal, Atom) else (literal.term,)
        columns = [self._column(term, tuples) for term in terms]
        if isinstance(literal, Attribute):
            return _value_numbers(self._kb, literal.name, columns[0])
        relation = self._kb.content.relations.find(str(literal.relation))
        assert relation is not None, "the query was checked"
        return self._kb.fact_ids(relation, np.stack(columns, axis=1))

    def _column(self, term: Term, tuples: Ints) -> Ints:
        if isinstance(term, Variable):
            return tuples[:, self._query.variables.index(term)]
        return np.full(len(tuples), self._kb.object_id(term.name), np.int32)


def _terms(literal: Atom | Attribute) -> frozenset[object]:
    """Return the variables of a literal, of objects and of relations."""
    return frozenset(all_free_variables(literal))


def _value_numbers(kb: KnowledgeBase, attribute: str, objects: Ints) -> Longs:
    """Return the number of the value of each object, or −1."""
    number = kb.content.attributes.find(attribute)
    assert number is not None, "the query was checked"
    rows = kb.value_table.rows(number)
    holders = kb.value_table.objects[rows]
    at = np.searchsorted(holders, objects)
    known = np.append(holders, -1)[at] == objects
    return np.where(known, len(kb) + rows.start + at, -1).astype(np.int64)


def _contains(hidden: HiddenFacts, numbers: Longs) -> npt.NDArray[np.bool_]:
    """Return for each tuple whether its number is among what is hidden from it."""
    owners = np.repeat(np.arange(len(numbers)), np.diff(hidden.starts))
    found = np.zeros(len(numbers), bool)
    found[owners[hidden.facts == numbers[owners]]] = True
    return found


def _match_slots(
    graph: GaifmanGraph, query: Query, slots: Sequence[Slot], answers: Ints, hidden: HiddenFacts
) -> npt.NDArray[np.intp]:
    """Return for each answer the slot that the first of its hidden facts and values fills; −1 if nothing is hidden."""
    with_hidden = np.flatnonzero(np.diff(hidden.starts))
    numbers, tuples = hidden.facts[hidden.starts[with_hidden]], answers[with_hidden]
    facts = fact_rows(graph, freeze(numbers))
    values = np.maximum(numbers - len(graph.kb), 0)
    found = np.full(len(numbers), -1)
    for number in reversed(range(len(slots))):  # the first one that fits stays
        literal = slots[number].literal
        if isinstance(literal, Atom):
            fits = _fits(graph.kb, literal, query, facts, tuples)
        else:
            fits = (numbers >= len(graph.kb)) & _value_fits(graph.kb, literal, query, values, tuples)
        found[fits] = number
    slot_of_answer = np.full(len(answers), -1)
    slot_of_answer[with_hidden] = found
    return slot_of_answer


def _fits(kb: KnowledgeBase, atom: Atom, query: Query, facts: Ints, tuples: Ints) -> npt.NDArray[np.bool_]:
    """Return which facts (b, 1 + arity) an atom can be, with the objects of the tuples for the query's variables."""
    arity = np.array([*kb.content.arities, 0])[facts[:, 0]]
    fits: npt.NDArray[np.bool_] = arity == len(atom.terms)
    if isinstance(atom.relation, str):
        fits &= facts[:, 0] == kb.content.relations.find(atom.relation)
    for at, term in enumerate(atom.terms, start=1):
        if at < facts.shape[1]:
            fits &= _term_fits(kb, term, query, facts[:, at], tuples)
    return fits


def _value_fits(
    kb: KnowledgeBase, quantity: Attribute, query: Query, rows: Longs, tuples: Ints
) -> npt.NDArray[np.bool_]:
    if not len(kb.value_table):
        return np.zeros(len(rows), bool)
    rows = np.minimum(rows, len(kb.value_table) - 1)
    same = kb.value_table.attribute[rows] == kb.content.attributes.find(quantity.name)
    fits: npt.NDArray[np.bool_] = same & _term_fits(kb, quantity.term, query, kb.value_table.objects[rows], tuples)
    return fits


def _term_fits(kb: KnowledgeBase, term: Term, query: Query, objects: Ints, tuples: Ints) -> npt.NDArray[np.bool_]:
    if isinstance(term, Variable) and term not in query.variables:
        return np.ones(len(objects), bool)
    wanted = tuples[:, query.variables.index(term)] if isinstance(term, Variable) else kb.object_id(term.name)
    fits: npt.NDArray[np.bool_] = objects == wanted
    return fits


def _choose(answers: Ints, found: Negatives, count: int, key: np.uint64) -> Negatives:
    """Return `count` of the negatives found for each answer, in a random order, with all positions in turn."""
    own = answers[found.sources]
    replaced = (found.tuples != own).argmax(axis=1)
    keys = fold_in_rows(fold_in_rows(key, own), found.tuples)
    arity = answers.shape[1]
    turn = (replaced + fold_in(fold_in_rows(key, own), np.array([arity])) % np.uint64(arity)) % np.uint64(arity)
    order = np.lexsort([keys, replaced, found.sources])
    rank = _rank_in_group(np.stack([found.sources[order], replaced[order]], axis=1))
    order = order[np.lexsort([turn[order], rank, found.sources[order]])]
    kept = order[_rank_in_group(found.sources[order][:, None]) < count]
    return Negatives(freeze(found.tuples[kept]), freeze(found.sources[kept]))


def _rank_in_group(groups: npt.NDArray[np.integer]) -> Longs:
    """Return the place of each row among adjacent equal rows (b, columns)."""
    new = np.ones(len(groups), bool)
    new[1:] = (groups[1:] != groups[:-1]).any(axis=1)
    places = np.arange(len(groups))
    return places - np.maximum.accumulate(np.where(new, places, 0))
