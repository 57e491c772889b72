"""Formulas that are added to the mined ones, and their values for the candidates of a question.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> from gaifman.listwise.steps import build_steps
>>> from gaifman.logic.parser import parse_feature
>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo"), ("rich", "cleo")])
>>> features = [parse_feature(text) for text in ("parent(s1, x) & parent(x, s2)", "rich(s2)", "rich(s1)")]
>>> added = AddedFormulas(build_steps(kb), 2, 1, features)
>>> [str(each.shown) for each in added.formulas]
['parent(s1, x) ∧ parent(x, s2)', 'rich(s2)']
>>> [entries] = added.answer([((kb.object_id("ann"), 0), np.zeros(0, np.int64))])
>>> kb.object_name(int(entries.objects[0])), entries.counts.tolist()
('cleo', [1.0])

The value of a formula is a number of groundings on the whole knowledge base without the hidden facts. A formula about
the candidate alone is part of what the candidate scores by itself, and only what hidden facts change is an entry of a
question. A formula without the candidate is left out: it cannot change an order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from gaifman.errors import FormulaError, LimitError
from gaifman.kb.tables import Floats, Ints, Longs, freeze
from gaifman.kernels.listwise import Marks
from gaifman.listwise.groundings import Asked, BoundCounter, Countable, Counted, GroundingCounter, VisibleFact
from gaifman.listwise.mining import Reals, formula_values, own_values
from gaifman.listwise.steps import StepIndex
from gaifman.logic.ast import (
    Aggregate,
    And,
    Attribute,
    Comparison,
    Constant,
    Difference,
    Feature,
    Formula,
    Not,
    Query,
    Term,
    Variable,
    query_position,
    used_symbols,
    walk,
)
from gaifman.queries.normalize import Domain, negate, normalize, restricted_variables
from gaifman.threads import ProcessLock, cached_property

MAX_FORMULAS = 5_000
"""Formulas that can be added, after `each` was replaced by every relation."""
BLOCK = 64
"""Questions whose values are computed together."""
MAX_ENTRIES = 4_000_000
"""Entries of such a block that one formula can have."""
SCALE = 2.0
"""Values of added formulas are multiplied by this: their weights begin at 0, and few updates must make them count."""
MAX_CACHED = 200_000
"""Entries of questions that are kept."""
PLACES = range(1, 9)

T = TypeVar("T")
Question = tuple[Sequence[int], Longs]
"""The objects of a tuple, of which that of the candidate is ignored, and the numbers of hidden facts."""


def countable_formula(feature: Feature) -> Formula:
    """The formula whose groundings are counted; raises FormulaError for a feature that is a number."""
    match feature.body:
        case Aggregate("count", quantity, formula):
            if quantity is None:
                return formula
            return And((formula, Comparison(quantity, "=", quantity)))  # that it has a value
        case Attribute() | Difference() | Aggregate():
            raise FormulaError(
                f"{feature} is a number, and ranked lists take formulas, whose groundings they count",
                hint="compare it, as in population(s2) > 1000000, or train a network: base='mlp', --base mlp",
            )
    return feature.body


def check_formulas(features: Sequence[Feature], *, constants: bool = True) -> None:
    """Raise an error for what ranked lists cannot add; a collection has no constants, for its objects are renamed."""
    if len(features) > MAX_FORMULAS:
        raise LimitError(
            f"the feature set stands for {len(features):,} formulas; ranked lists add at most {MAX_FORMULAS:,}",
            hint="name relations instead of an each variable, or train a network: base='mlp', --base mlp",
        )
    for feature in features:
        countable_formula(feature)
        named = next((part for part in walk(feature) if isinstance(part, Constant)), None)
        if named is not None and not constants:
            raise FormulaError(
                f"{feature} names the object {named}, and objects of several knowledge bases are different ones",
                hint="train on one knowledge base, or a network: base='mlp', --base mlp",
            )


class Entries(NamedTuple):
    """What added formulas contribute to the candidates of one question."""

    objects: Ints
    """Shape (entries,), int32."""
    formulas: Ints
    """Shape (entries,), int32: numbered from 0."""
    values: Reals
    """Shape (entries,), float32. For a formula about the candidate alone, what hidden facts change."""
    counts: Floats
    """Shape (entries,), float64: groundings."""


class _Sparse(NamedTuple):
    """Numbers of groundings of one formula, by candidate, ascending."""

    objects: Longs
    counts: Floats

    def at(self, objects: Longs) -> Floats:
        """The counts of some candidates."""
        if not len(self.objects):
            return np.zeros(len(objects))
        rows = np.minimum(np.searchsorted(self.objects, objects), len(self.objects) - 1)
        return np.where(self.objects[rows] == objects, self.counts[rows], 0.0)


@dataclass(frozen=True, slots=True)
class AddedFormula:
    """A formula at one open position."""

    number: int
    """Among all formulas of the model."""
    feature: Feature
    """As it was given."""
    countable: Countable
    """What is counted: ¬φ instead of φ where fewer candidates satisfy it. Its weight has the opposite sign."""
    shown: Feature
    """What is counted, as a feature."""
    candidate: Variable
    fixed: tuple[int, ...]
    """The other positions of the tuple that it mentions, from 0."""

    @classmethod
    def make(cls, number: int, feature: Feature, arity: int, position: int) -> AddedFormula | None:
        """The formula for an open position; None if it does not mention it, or is for longer tuples."""
        formula, candidate = countable_formula(feature), Variable(f"s{position + 1}")
        countable, shown = Countable.of(formula), feature
        if candidate not in countable.places or query_position(countable.places[-1]) > arity:
            return None
        if not countable.counted and _is_sparser_negated(countable, candidate):
            formula = formula.body if isinstance(formula, Not) else Not(formula)
            countable, shown = Countable.of(formula), Feature(formula)
        fixed = tuple(query_position(v) - 1 for v in countable.places if v != candidate)
        return cls(number, feature, countable, shown, candidate, fixed)

    @property
    def own(self) -> bool:
        """Whether it is about the candidate alone."""
        return not self.fixed


def _is_sparser_negated(countable: Countable, candidate: Variable) -> bool:
    """Whether facts restrict the candidates of ¬φ, and not those of φ."""
    relations = used_symbols([], Query(countable.places, countable.formula))[0]
    domain = Domain({**{f"any of {arity}": arity for arity in PLACES}, **relations})
    normal, fixed = normalize(countable.formula, domain), frozenset(countable.places) - {candidate}
    if candidate in restricted_variables(normal, fixed):
        return False
    return candidate in restricted_variables(negate(normal), fixed)


class AddedFormulas:
    """The added formulas of one relation and open position, on a knowledge base. Several threads can use it."""

    def __init__(
        self,
        index: StepIndex,
        arity: int,
        position: int,
        features: Sequence[Feature] = (),
        numbers: Iterable[int] | None = None,
    ) -> None:
        """`numbers` are those of the features to use; None for all that fit the tuples and mention the candidate."""
        chosen = range(len(features)) if numbers is None else numbers
        found = [AddedFormula.make(number, features[number], arity, position) for number in chosen]
        self.index, self.position = index, position
        self.formulas = tuple(formula for formula in found if formula is not None)
        everything = (AddedFormula.make(number, each, arity, position) for number, each in enumerate(features))
        self._all = tuple(formula for formula in everything if formula is not None)
        self._local = np.full(len(features), -1, np.int64)  # number among all formulas → number here
        self._local[self.numbers] = np.arange(len(self.formulas))
        self._lock = ProcessLock()
        self._cache: dict[tuple[tuple[int, ...], bytes], Entries] = {}
        self._cached = 0

    def __len__(self) -> int:
        return len(self.formulas)

    @cached_property
    def own(self) -> Longs:
        """The formulas about the candidate alone, by number here."""
        return np.array([at for at, each in enumerate(self.formulas) if each.own], np.int64)

    @cached_property
    def numbers(self) -> Ints:
        """The number of each formula among all formulas of the model."""
        return np.array([each.number for each in self.formulas], np.int32)

    def prepare(self) -> None:
        """Make the tables now, not at the first question."""
        if self.formulas:
            _ = self._own_counts, self._lookups

    def marks(self) -> Marks:
        """The marks of the knowledge base, and after them one for each formula about the candidate alone."""
        marks, first = self.index.marks, self.index.mark_count
        if not len(self.own):
            return marks
        counts = [self._own_counts[at] for at in self.own.tolist()]
        owners = np.concatenate(
            [np.repeat(np.arange(len(marks.starts) - 1), np.diff(marks.starts)), *(each.objects for each in counts)]
        )
        numbers = np.concatenate(
            [marks.marks, *(np.full(len(each.objects), first + at) for at, each in enumerate(counts))]
        )
        values = np.concatenate([marks.values, *(SCALE * own_values(each.counts) for each in counts)])
        order = np.lexsort((numbers, owners))
        starts = np.searchsorted(owners[order], np.arange(len(marks.starts))).astype(np.int64)
        return Marks(freeze(starts), freeze(numbers[order].astype(np.int32)), freeze(values[order].astype(np.float32)))

    # Tables

    @cached_property
    def _counter(self) -> BoundCounter:
        return GroundingCounter.of(self.index.kb)

    @cached_property
    def _own_counts(self) -> dict[int, _Sparse]:
        """Formula → the candidates that have groundings."""
        own = {at: self.formulas[at] for at in self.own.tolist()}
        shared = self._counter.shared
        return {at: shared.get(("own", each.countable), partial(self._count_own, each)) for at, each in own.items()}

    def _count_own(self, formula: AddedFormula) -> _Sparse:
        table = self._counter.table(formula.countable)
        if table is not None:
            return _Sparse(table.objects[:, 0].astype(np.int64), table.counts)
        counted = self._checked(formula, [Asked(())])
        return _Sparse(counted.candidates, counted.counts)

    @cached_property
    def _lookups(self) -> dict[tuple[int, ...], _Lookup]:
        """Fixed positions → what is found by their objects, for all formulas: the relations of a model share it."""
        groups: dict[tuple[int, ...], list[AddedFormula]] = {}
        for formula in self._all:
            if formula.fixed:
                groups.setdefault(formula.fixed, []).append(formula)
        used = {formula.fixed for formula in self.formulas}
        found = {}
        for fixed, members in groups.items():
            if fixed in used:
                key = "lookup", self.position, tuple((formula.number, formula.countable) for formula in members)
                found[fixed] = self._counter.shared.get(key, partial(self._make_lookup, members))
        return found

    def _make_lookup(self, members: Sequence[AddedFormula]) -> _Lookup:
        keys, objects, formulas, counts = list[Ints](), list[Ints](), list[Longs](), list[Floats]()
        for formula in members:
            table = self._counter.table(formula.countable)
            if table is not None:
                place = formula.countable.places.index(formula.candidate)
                keys.append(np.delete(table.objects, place, axis=1))
                objects.append(table.objects[:, place])
                formulas.append(np.full(len(table.objects), formula.number))
                counts.append(table.counts)
        return _Lookup.make(len(members[0].fixed), keys, objects, formulas, counts)

    @cached_property
    def _dense(self) -> tuple[int, ...]:
        """The formulas without a table, which has too many rows: they are evaluated for each question."""
        pairs = [at for at, formula in enumerate(self.formulas) if formula.fixed]
        return tuple(at for at in pairs if self._counter.table(self.formulas[at].countable) is None)

    # Questions

    def answer(self, questions: Iterable[Question]) -> Iterator[Entries]:
        """Yield the entries of questions, one after the other; some are computed together."""
        if not self.formulas:
            for _ in questions:
                yield NO_ENTRIES
            return
        for block in _blocks(questions, BLOCK):
            yield from self._answer_block(block)

    def values_at(self, objects: Sequence[int], hidden: Longs) -> dict[int, tuple[float, float]]:
        """Formula → its value and the number of its groundings, for the candidate of a whole tuple."""
        obj = objects[self.position]
        [entries] = self.answer([(objects, hidden)])
        rows = np.flatnonzero(entries.objects == obj)
        new = dict(zip(entries.formulas[rows].tolist(), entries.counts[rows].tolist(), strict=True))
        values = dict(zip(entries.formulas[rows].tolist(), entries.values[rows].tolist(), strict=True))
        found = {at: (values[at], count) for at, count in new.items() if self.formulas[at].fixed}
        for at in self.own.tolist():
            count = new.get(at, float(self._own_counts[at].at(np.array([obj]))[0]))
            found[at] = SCALE * float(own_values(np.array([count]))[0]), count
        return {at: pair for at, pair in sorted(found.items()) if pair[1]}

    def _answer_block(self, block: Sequence[Question]) -> list[Entries]:
        found: dict[int, Entries] = {}
        open_rows, keys = list[int](), list[tuple[tuple[int, ...], bytes]]()
        for row, (objects, hidden) in enumerate(block):
            fixed = tuple(obj for at, obj in enumerate(objects) if at != self.position)
            keys.append((fixed, hidden.tobytes()))
            with self._lock:
                cached = self._cache.get(keys[-1])
            if cached is not None:
                found[row] = cached
            else:
                open_rows.append(row)
        changed = self._changes([block[row] for row in open_rows])
        for row, changes in zip(open_rows, changed, strict=True):
            found[row] = self._entries(block[row][0], changes)
            if changes:
                self._remember(keys[row], found[row])
        return [found[row] for row in range(len(block))]

    def _remember(self, key: tuple[tuple[int, ...], bytes], entries: Entries) -> None:
        with self._lock:
            if self._cached + len(entries.objects) > MAX_CACHED:
                self._cache, self._cached = {}, 0
            if len(entries.objects) <= MAX_CACHED:
                self._cache[key] = entries
                self._cached += len(entries.objects) + 1

    def _changes(self, block: Sequence[Question]) -> list[dict[int, _Change]]:
        """For each question, formula → what replaces its table."""
        found: list[dict[int, _Change]] = [{} for _ in block]
        tasks: dict[tuple[int, tuple[tuple[str, int], ...], bool], list[tuple[int, Asked]]] = {}
        for row, (objects, hidden) in enumerate(block):
            facts = [VisibleFact(*self.index.fact(number)) for number in hidden.tolist()]
            for at, candidates, relevant in self._affected(objects, facts):
                fixed = tuple(int(objects[i]) for i in self.formulas[at].fixed)
                signature = tuple(sorted((name, len(members)) for name, members in relevant))
                if candidates is None:
                    tasks.setdefault((at, signature, False), []).append((row, Asked(fixed, relevant)))
                    found[row][at] = _Change(None, [], [])
                    continue
                found[row][at] = _Change(np.array(sorted(candidates), np.int64), [], [])
                for candidate in sorted(candidates):
                    asked = Asked((*fixed, candidate), relevant)
                    tasks.setdefault((at, signature, True), []).append((row, asked))
        for (at, _, single), rows in tasks.items():
            self._ask(at, rows, found, single=single)
        return found

    def _affected(
        self, objects: Sequence[int], facts: Sequence[VisibleFact]
    ) -> Iterator[tuple[int, set[int] | None, tuple[VisibleFact, ...]]]:
        """The formulas whose values the hidden facts can change, with the candidates (None for all) and these facts."""
        for at in sorted({*self._dense, *(at for fact in facts for at in self._mentioning(fact))}):
            formula = self.formulas[at]
            known = {Variable(f"s{i + 1}"): int(objects[i]) for i in formula.fixed}
            relevant, candidates = list[VisibleFact](), set[int]()
            everything = at in self._dense
            for fact in facts:
                own = [
                    found
                    for relation, terms in self._patterns[at]
                    if relation in (None, fact.relation)
                    for found in self._matches(terms, fact, formula.candidate, known)
                ]
                if own:
                    relevant.append(fact)
                    everything |= None in own
                    candidates |= {each for each in own if each is not None}
            if relevant or everything:
                yield at, None if everything else candidates, tuple(sorted(relevant))

    def _matches(
        self, terms: Sequence[Term], fact: VisibleFact, candidate: Variable, known: Mapping[Variable, int]
    ) -> list[int | None]:
        """How an atom can be a fact: not at all, for one candidate, or for any (None)."""
        if len(terms) != len(fact.objects):
            return []
        found: int | None = None
        for term, obj in zip(terms, fact.objects, strict=True):
            if isinstance(term, Constant):
                if term.name not in self.index.kb.objects or self.index.kb.object_id(term.name) != obj:
                    return []
            elif term == candidate:
                if found not in (None, obj):
                    return []
                found = obj
            elif known.get(term, obj) != obj:
                return []
        return [found]

    @cached_property
    def _patterns(self) -> list[list[tuple[str | None, tuple[Term, ...]]]]:
        """For each formula, the relation of each atom (None for a variable) and its terms, bound variables renamed."""
        found = []
        for formula in self.formulas:
            free = {*formula.countable.places}
            bound = {v for part in walk(formula.countable.formula) for v in part.bound_variables}
            rows: list[tuple[str | None, tuple[Term, ...]]] = []
            for atom in formula.countable.atoms:
                # a query variable that is also bound somewhere can be any object here
                terms = tuple(
                    Variable("") if isinstance(term, Variable) and (term not in free or term in bound) else term
                    for term in atom.terms
                )
                rows.append((atom.relation if isinstance(atom.relation, str) else None, terms))
            found.append(rows)
        return found

    @cached_property
    def _by_relation(self) -> dict[str | int, set[int]]:
        """Relation, or arity of a relation variable → formulas with such an atom."""
        found: dict[str | int, set[int]] = {}
        for at, rows in enumerate(self._patterns):
            for relation, terms in rows:
                found.setdefault(len(terms) if relation is None else relation, set()).add(at)
        return found

    def _mentioning(self, fact: VisibleFact) -> set[int]:
        return self._by_relation.get(fact.relation, set()) | self._by_relation.get(len(fact.objects), set())

    def _ask(
        self, at: int, asked: Sequence[tuple[int, Asked]], found: Sequence[dict[int, _Change]], *, single: bool
    ) -> None:
        """Evaluate one formula for some questions."""
        formula, objects = self.formulas[at], max(1, len(self.index.kb.objects))
        size = len(asked) if single else max(1, MAX_ENTRIES // objects)
        for begin in range(0, len(asked), size):
            part = asked[begin : begin + size]
            counted = self._checked(formula, [each for _, each in part])
            bounds = np.searchsorted(counted.questions, np.arange(len(part) + 1))
            for (row, _), first, last in zip(part, bounds[:-1], bounds[1:], strict=True):
                change = found[row][at]
                change.objects.append(counted.candidates[first:last])
                change.counts.append(counted.counts[first:last])

    def _checked(self, formula: AddedFormula, asked: Sequence[Asked]) -> Counted:
        try:
            return self._counter.count(formula.countable, formula.candidate, asked)
        except LimitError as error:
            raise LimitError(
                f"{formula.feature} cannot be added to ranked lists: {error.message}", hint=error.hint
            ) from error

    def _entries(self, objects: Sequence[int], changes: Mapping[int, _Change]) -> Entries:
        """The entries of one question."""
        parts: list[tuple[Longs, Longs, Floats]] = []
        replaced = np.array(sorted(changes), np.int64)
        for fixed, lookup in self._lookups.items():
            rows = lookup.rows(tuple(int(objects[i]) for i in fixed))
            found, formulas, counts = lookup.objects[rows], self._local[lookup.formulas[rows]], lookup.counts[rows]
            if len(self.formulas) < len(self._all):
                used = formulas >= 0
                found, formulas, counts = found[used], formulas[used], counts[used]
            if len(replaced) and len(found):
                keep = ~np.isin(formulas, replaced)
                for at in np.unique(formulas[~keep]).tolist():
                    candidates = changes[at].candidates
                    if candidates is not None:
                        keep |= (formulas == at) & ~np.isin(found, candidates)
                found, formulas, counts = found[keep], formulas[keep], counts[keep]
            parts.append((found, formulas, counts))
        owned: list[tuple[Longs, Longs, Reals, Floats]] = []
        for at, change in changes.items():
            new = change.sparse()
            if self.formulas[at].own:
                owned.append(self._own_change(at, change.candidates, new))
            else:
                parts.append((new.objects, np.full(len(new.objects), at), new.counts))
        found, formulas, counts = (np.concatenate(each) for each in zip(NO_PART, *parts, strict=True))
        totals = np.bincount(formulas, counts, len(self.formulas))
        values = SCALE * formula_values(counts, counts / np.maximum(totals, 1.0)[formulas])
        return Entries(
            np.concatenate([found, *(each[0] for each in owned)]).astype(np.int32),
            np.concatenate([formulas, *(each[1] for each in owned)]).astype(np.int32),
            np.concatenate([values, *(each[2] for each in owned)]).astype(np.float32),
            np.concatenate([counts, *(each[3] for each in owned)]),
        )

    def _own_change(self, at: int, candidates: Longs | None, new: _Sparse) -> tuple[Longs, Longs, Reals, Floats]:
        """How the value of a formula about the candidate alone changes."""
        old = self._own_counts[at]
        objects = np.union1d(old.objects, new.objects) if candidates is None else candidates
        before, after = old.at(objects), new.at(objects)
        rows = np.flatnonzero(before != after)
        values = SCALE * (own_values(after[rows]) - own_values(before[rows]))
        return objects[rows], np.full(len(rows), at), values, after[rows]


@dataclass(frozen=True, slots=True)
class _Change:
    """What replaces the counts of one formula in one question."""

    candidates: Longs | None
    """Whose counts are replaced; None for all."""
    objects: list[Longs]
    counts: list[Floats]

    def sparse(self) -> _Sparse:
        """The new counts."""
        none = np.zeros(0, np.int64)
        return _Sparse(np.concatenate([none, *self.objects]), np.concatenate([np.zeros(0), *self.counts]))


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Numbers of groundings, by the objects at some fixed positions."""

    rows_of: Callable[[tuple[int, ...]], slice]
    objects: Longs
    formulas: Longs
    """Numbers among all formulas of the model."""
    counts: Floats

    def rows(self, key: tuple[int, ...]) -> slice:
        """The rows of some fixed objects."""
        return self.rows_of(key)

    @classmethod
    def make(
        cls,
        width: int,
        keys: Sequence[Ints],
        objects: Sequence[Ints],
        formulas: Sequence[Longs],
        counts: Sequence[Floats],
    ) -> _Lookup:
        """Join the tables of several formulas."""
        key = np.concatenate([np.zeros((0, width), np.int32), *keys])
        found = np.concatenate([np.zeros(0, np.int32), *objects])
        formula = np.concatenate([np.zeros(0, np.int64), *formulas])
        count = np.concatenate([np.zeros(0), *counts])
        order = np.lexsort((found, formula, *key.T[::-1]))
        key = key[order]
        first = np.ones(len(key), bool)
        first[1:] = (key[1:] != key[:-1]).any(axis=1)
        starts = np.flatnonzero(first)
        bounds = np.append(starts, len(key))
        where = {each: slice(*bounds[at : at + 2].tolist()) for at, each in enumerate(map(tuple, key[starts].tolist()))}
        return cls(
            lambda each: where.get(each, slice(0, 0)),
            freeze(found[order].astype(np.int64)),
            freeze(formula[order]),
            freeze(count[order]),
        )


NO_PART = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
NO_ENTRIES = Entries(
    freeze(np.zeros(0, np.int32)), freeze(np.zeros(0, np.int32)), freeze(np.zeros(0, np.float32)), freeze(np.zeros(0))
)


def _blocks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    block: list[T] = []
    for item in items:
        block.append(item)
        if len(block) == size:
            yield block
            block = []
    if block:
        yield block
