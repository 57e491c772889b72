"""The numbers of groundings of a formula on a knowledge base, with facts hidden.

>>> from gaifman.logic.parser import parse
>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo"), ("parent", "bob", "dan")])
>>> counter = GroundingCounter.of(kb)
>>> both = Countable.of(parse("parent(s1, x) & parent(x, s2)"))
>>> table = counter.table(both)
>>> [[kb.object_name(number) for number in row] for row in table.objects.tolist()], table.counts.tolist()
([['ann', 'cleo'], ['ann', 'dan']], [1.0, 1.0])

An uncertain fact counts with its confidence. The expected number of groundings is exact if the facts of different ways
to make one grounding true are different; a formula with ¬, ↔ or ∀ over uncertain facts is evaluated in the most
probable world, which has the facts with a confidence of at least 0.5.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from gaifman.config import current_deadline
from gaifman.errors import LimitError
from gaifman.io.duckdb import create_table
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.logic.ast import (
    And,
    Atom,
    Equal,
    Exists,
    Forall,
    Formula,
    Node,
    Not,
    Or,
    Query,
    RelationVariable,
    Term,
    Truth,
    Variable,
    free_variables,
    map_children,
    query_position,
    relation_arities,
    substitute_relations,
    walk,
)
from gaifman.queries.answers import prepare
from gaifman.queries.engine import Engine
from gaifman.queries.sql import SelectBuilder, Translator, normalize_for_kb
from gaifman.queries.witnesses import alternatives, is_monotone
from gaifman.threads import ProcessLock

T = TypeVar("T")
MAX_TABLE = 4_000_000
"""Tuples with a grounding: the table of a formula with more is not made, it is evaluated question by question."""
MAX_ROWS = 20_000_000
"""Rows of one statement."""
MAX_COMBINATIONS = 50_000_000
"""Combinations of objects for variables that no fact restricts, in one statement."""
LIKELY = 0.5
"""Least confidence of a fact in the most probable world."""
ASKED = "asked"


class VisibleFact(NamedTuple):
    """A fact by its relation and the numbers of its objects."""

    relation: str
    objects: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Countable:
    """A formula with its query variables, by position, and the variables whose groundings are counted."""

    formula: Formula
    places: tuple[Variable, ...]
    counted: tuple[Variable, ...]

    @classmethod
    def of(cls, formula: Formula) -> Countable:
        """Divide the free variables of a formula."""
        free = free_variables(formula)
        places = sorted((v for v in free if query_position(v)), key=query_position)
        return cls(formula, tuple(places), tuple(v for v in free if not query_position(v)))

    @property
    def atoms(self) -> list[Atom]:
        """The atoms."""
        return [part for part in walk(self.formula) if isinstance(part, Atom)]


@dataclass(frozen=True, slots=True)
class GroundingTable:
    """The tuples with a grounding, in order."""

    objects: Ints
    """Shape (rows, places), int32."""
    counts: Floats
    """Shape (rows,), float64."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Objects for some query variables, and the facts that are hidden meanwhile."""

    objects: tuple[int, ...]
    hidden: tuple[VisibleFact, ...] = ()


class Counted(NamedTuple):
    """Numbers of groundings, by question and candidate, in order."""

    questions: Longs
    """Shape (rows,), int64."""
    candidates: Longs
    """Shape (rows,), int64: the number of an object."""
    counts: Floats
    """Shape (rows,), float64."""


class GroundingCounter:
    """Counts groundings on one knowledge base, which owns it. Several threads can use it."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._content, self._notes = kb.content, kb.notes
        self._uncertain = frozenset(name for name in kb.relations if (kb.confidences_of(name) < 1).any())
        self._shared: dict[Hashable, Any] = {}
        self._likely: KnowledgeBase | None = None
        self._lock = ProcessLock()

    @classmethod
    def of(cls, kb: KnowledgeBase) -> BoundCounter:
        """The counter of a knowledge base."""
        return BoundCounter(kb, kb.resources.get(cls, lambda: cls(kb)))

    def is_uncertain(self, countable: Countable) -> bool:
        """Whether the formula mentions a relation with uncertain facts."""
        names = {atom.relation for atom in countable.atoms}
        over_relations = not all(isinstance(name, str) for name in names)
        return bool(self._uncertain) and (over_relations or not self._uncertain.isdisjoint(names))

    def likely_world(self, kb: KnowledgeBase) -> KnowledgeBase:
        """The knowledge base without the facts that are more probably false."""
        with self._lock:
            if self._likely is None:
                unlikely = np.flatnonzero(kb.confidences < LIKELY).tolist()
                self._likely = kb.without_facts([kb.fact_by_id(number) for number in unlikely])
            return self._likely

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What all models of the knowledge base share, made once."""
        with self._lock:
            if key not in self._shared:
                self._shared[key] = make()
            found: T = self._shared[key]
            return found


@dataclass(frozen=True, slots=True)
class BoundCounter:
    """A counter with its knowledge base."""

    kb: KnowledgeBase
    shared: GroundingCounter

    def table(self, countable: Countable) -> GroundingTable | None:
        """The tuples with a grounding; None if there are too many for a table."""
        return self.shared.get(countable, partial(self._make_table, countable))

    def count(self, countable: Countable, candidate: Variable, asked: Sequence[Asked]) -> Counted:
        """The groundings of several questions, for each candidate.

        `asked` has the objects of all other query variables, in order; or also that of the candidate, if only one
        candidate is asked for. All questions hide the same number of facts of each relation.
        """
        fixed = [v for v in countable.places if v != candidate]
        given = [*fixed, candidate] if asked and len(asked[0].objects) > len(fixed) else fixed
        if self._by_expectation(countable):
            return self._expected(countable, candidate, given, asked)
        return self._counted(countable, candidate, given, asked)

    def _by_expectation(self, countable: Countable) -> bool:
        if not self.shared.is_uncertain(countable):
            return False
        return is_monotone(Query((*countable.places, *countable.counted), countable.formula), self.kb)

    def _world(self, countable: Countable) -> KnowledgeBase:
        return self.shared.likely_world(self.kb) if self.shared.is_uncertain(countable) else self.kb

    # Tables

    def _make_table(self, countable: Countable) -> GroundingTable | None:
        try:
            if self._by_expectation(countable):
                return self._expected_table(countable)
            return self._counted_table(countable)
        except LimitError:
            return None

    def _counted_table(self, countable: Countable) -> GroundingTable | None:
        kb, places = self._world(countable), len(countable.places)
        prepared = prepare(kb, Query((*countable.places, *countable.counted), countable.formula))
        if prepared.statement.combinations > MAX_COMBINATIONS:
            return None
        names = [f"c{at}" for at in range(places + len(countable.counted))]
        keys = ", ".join(names[:places])
        sql = (
            f"SELECT {keys}, count(*) AS k FROM ({prepared.statement.sql}) found({', '.join(names)}) "  # noqa: S608
            f"GROUP BY {keys} ORDER BY {keys} LIMIT {MAX_TABLE + 1}"
        )
        columns = _fetch(kb, {}, sql)
        if len(columns[0]) > MAX_TABLE:
            return None
        return GroundingTable(np.stack(columns[:-1], axis=1).astype(np.int32), columns[-1].astype(np.float64))

    def _expected_table(self, countable: Countable) -> GroundingTable:
        rows = self._expected_rows(countable, (), [Asked(())], MAX_TABLE)
        width = len(countable.places)
        kept, sums = _sum_by(rows[0][:, 1 : 1 + width], rows[1])
        return GroundingTable(kept.astype(np.int32), sums)

    # Questions

    def _counted(
        self, countable: Countable, candidate: Variable, given: Sequence[Variable], asked: Sequence[Asked]
    ) -> Counted:
        """Count in SQL. Hidden facts are excluded from the atoms that could match them."""
        kb = self._world(countable)
        sizes = _hidden_sizes(asked[0].hidden)
        hidden = {
            name: [tuple(Variable(f"hidden {name} {i} {j}") for j in range(arity)) for i in range(count)]
            for (name, arity), count in sizes.items()
        }
        variables = [*given, *(v for facts in hidden.values() for fact in facts for v in fact)]
        formula = exclude_facts(countable.formula, hidden, kb.schema.relations)
        frame = _asked_frame(variables)
        normal = normalize_for_kb(formula, kb)
        wanted = tuple(v for v in (candidate, *countable.counted) if v not in variables)
        translator = Translator(kb, And((Truth(True), normal)))
        frame = translator.select([normal], wanted, frame.env, base=frame)
        self._check_combinations(countable, frame.combinations, len(asked))
        columns = ["a0.n AS n", f"CAST({frame.env[candidate]} AS BIGINT) AS o"]
        columns += [f"CAST({frame.env[v]} AS BIGINT) AS k{at}" for at, v in enumerate(countable.counted)]
        sql = (
            f"SELECT n, o, count(*) AS k FROM ({frame.to_sql(columns, distinct=True)}) "  # noqa: S608
            f"GROUP BY n, o ORDER BY n, o LIMIT {MAX_ROWS + 1}"
        )
        found = _fetch(kb, _asked_columns(asked, hidden), sql)
        self._check_rows(countable, len(found[0]))
        return Counted(found[0].astype(np.int64), found[1].astype(np.int64), found[2].astype(np.float64))

    def _expected(
        self, countable: Countable, candidate: Variable, given: Sequence[Variable], asked: Sequence[Asked]
    ) -> Counted:
        """Add up the probabilities of groundings."""
        rows, chances = self._expected_rows(countable, given, asked, MAX_ROWS)
        if candidate in given:
            values = np.array([each.objects[-1] for each in asked], np.int64)
            keys = np.stack([rows[:, 0], values[rows[:, 0]]], axis=1)
        else:
            keys = rows[:, [0, 1 + [v for v in countable.places if v not in given].index(candidate)]]
        kept, sums = _sum_by(keys, chances)
        return Counted(kept[:, 0], kept[:, 1], sums)

    def _expected_rows(
        self, countable: Countable, given: Sequence[Variable], asked: Sequence[Asked], limit: int
    ) -> tuple[Longs, Floats]:
        """Shape (groundings, 1 + variables): question and objects of each grounding; its probability.

        A grounding is true unless all ways to make it true have an absent fact, taken as independent.
        """
        outputs = [v for v in (*countable.places, *countable.counted) if v not in given]
        hidden = [set(self._fact_numbers(each.hidden)) for each in asked]
        parts, facts = list[Longs](), list[Longs]()
        for way in alternatives(normalize_for_kb(countable.formula, self.kb)):
            frame = _asked_frame(given)
            translator = Translator(self.kb, And((Truth(True), Truth(True), *way)))
            frame = translator.select(way, tuple(outputs), frame.env, base=frame)
            self._check_combinations(countable, frame.combinations, len(asked))
            columns = ["a0.n AS n", *(f"CAST({frame.env[v]} AS BIGINT) AS k{at}" for at, v in enumerate(outputs))]
            columns += [f"{alias}.rowid AS w{at}" for at, (_, alias) in enumerate(frame.fact_tables)]
            sql = f"{frame.to_sql(columns, distinct=True)} LIMIT {limit + 1}"
            found = np.stack(_fetch(self.kb, _asked_columns(asked, {}), sql), axis=1).astype(np.int64)
            self._check_rows(countable, len(found), limit)
            parts.append(found[:, : 1 + len(outputs)])
            offsets = np.array([self.kb.fact_offsets[arity] for arity, _ in frame.fact_tables], np.int64)
            facts.append(found[:, 1 + len(outputs) :] + offsets)
        width = max([1, *(each.shape[1] for each in facts)])
        padded = [np.pad(each, ((0, 0), (0, width - each.shape[1])), constant_values=-1) for each in facts]
        rows = np.concatenate([np.zeros((0, 1 + len(outputs)), np.int64), *parts])
        used = np.sort(np.concatenate([np.zeros((0, width), np.int64), *padded]), axis=1)
        used[:, 1:][used[:, 1:] == used[:, :-1]] = -1
        used = np.sort(used, axis=1)
        whole = np.unique(np.concatenate([rows, used], axis=1), axis=0)
        rows, used = whole[:, : rows.shape[1]], whole[:, rows.shape[1] :]
        for number, own in enumerate(hidden):
            if own:
                keep = (rows[:, 0] != number) | ~np.isin(used, list(own)).any(axis=1)
                rows, used = rows[keep], used[keep]
        chances = np.append(self.kb.confidences, 1.0)[used].prod(axis=1)
        with np.errstate(divide="ignore"):  # a certain way: −∞
            kept, absent = _sum_by(rows, np.log1p(-chances))
        return kept, -np.expm1(absent)

    def _fact_numbers(self, facts: Sequence[VisibleFact]) -> list[int]:
        found = []
        for relation, objects in facts:
            number = self.kb.content.relations.find(relation)
            if number is not None:
                found += self.kb.fact_ids(number, np.array([objects], np.int32)).tolist()
        return [each for each in found if each >= 0]

    def _check_combinations(self, countable: Countable, combinations: int, questions: int) -> None:
        if combinations > MAX_COMBINATIONS:
            raise LimitError(
                f"{countable.formula} ranges over {combinations:,} combinations of objects for one tuple, "
                f"more than {MAX_COMBINATIONS:,}",
                hint="restrict its variables by facts, as in person(x) & …",
            )

    def _check_rows(self, countable: Countable, rows: int, limit: int = MAX_ROWS) -> None:
        if rows > limit:
            raise LimitError(
                f"{countable.formula} has more than {limit:,} groundings",
                hint="restrict its variables by more facts, or write ∃ for those that need not be counted",
            )


def exclude_facts(
    formula: Formula, hidden: Mapping[str, Sequence[tuple[Term, ...]]], relations: Mapping[str, int]
) -> Formula:
    """The formula as it is without some facts: each atom must not be one of them.

    >>> from gaifman.logic.ast import Constant
    >>> from gaifman.logic.parser import parse
    >>> print(exclude_facts(parse("r(x, y) & p(x)"), {"r": [(Constant("a"), Constant("b"))]}, {"r": 2, "p": 1}))
    (r(x, y) ∧ ¬(x = 'a' ∧ y = 'b')) ∧ p(x)

    ∃ and ∀ over relations become ∨ and ∧ over their names.
    """
    if not hidden:
        return formula
    arities = {len(facts[0]) for facts in hidden.values()}

    def change(node: Node) -> Any:
        match node:
            case Exists(variables, body) | Forall(variables, body):
                own = relation_arities(body)
                expanded = [v for v in variables if isinstance(v, RelationVariable) and own.get(v) in arities]
                if expanded:
                    return change(_expand(node, expanded, own, relations))
            case Atom(str(name), terms) if name in hidden:
                return And((node, *(_differs(terms, fact) for fact in hidden[name])))
        return map_children(node, change)

    changed: Formula = change(formula)
    return changed


def _expand(
    node: Exists | Forall,
    variables: Sequence[RelationVariable],
    arities: Mapping[RelationVariable, int],
    relations: Mapping[str, int],
) -> Formula:
    """∃r φ(r) as the ∨ of φ(name), ∀r φ(r) as their ∧."""
    names = [[name for name, arity in relations.items() if arity == arities[v]] for v in variables]
    bodies = [
        substitute_relations(node.body, dict(zip(variables, choice, strict=True)))
        for choice in itertools.product(*names)
    ]
    some = isinstance(node, Exists)
    body: Formula = Truth(not some)
    if bodies:
        body = bodies[0] if len(bodies) == 1 else (Or if some else And)(tuple(bodies))
    rest = tuple(v for v in node.variables if v not in variables)
    return type(node)(rest, body) if rest else body


def _differs(terms: Sequence[Term], fact: Sequence[Term]) -> Formula:
    """That some of the terms is not that of the fact."""
    same: list[Formula] = [Equal(one, other) for one, other in zip(terms, fact, strict=True)]
    return Not(same[0] if len(same) == 1 else And(tuple(same)))


def _hidden_sizes(hidden: Sequence[VisibleFact]) -> dict[tuple[str, int], int]:
    """Relation with its arity → number of hidden facts."""
    sizes: dict[tuple[str, int], int] = {}
    for relation, objects in hidden:
        sizes[relation, len(objects)] = sizes.get((relation, len(objects)), 0) + 1
    return sizes


def _asked_frame(variables: Sequence[Variable]) -> SelectBuilder:
    """A SELECT from the questions, which have columns for some variables."""
    frame = SelectBuilder({v: f"a0.c{at}" for at, v in enumerate(variables)})
    frame.join(f"{ASKED} a0", [])
    return frame


def _asked_columns(
    asked: Sequence[Asked], hidden: Mapping[str, Sequence[tuple[Variable, ...]]]
) -> dict[str, npt.NDArray[Any]]:
    """The columns of the questions: their number, the given objects, the objects of hidden facts."""
    rows = []
    for each in asked:
        row = list(each.objects)
        for name in hidden:
            row += [obj for fact in each.hidden if fact.relation == name for obj in fact.objects]
        rows.append(row)
    values = np.array(rows, np.int32).reshape(len(asked), -1)
    columns: dict[str, npt.NDArray[Any]] = {"n": np.arange(len(asked), dtype=np.int32)}
    return columns | {f"c{at}": values[:, at].copy() for at in range(values.shape[1])}


def _fetch(kb: KnowledgeBase, columns: dict[str, npt.NDArray[Any]], sql: str) -> list[npt.NDArray[Any]]:
    """Run a statement that can join a temporary table of these columns."""
    database, deadline = Engine.shared(kb).database, current_deadline()
    seconds = None if deadline is None else deadline.limit_budget().seconds
    cursor = database.cursor()

    def job(own: Any) -> list[npt.NDArray[Any]]:
        if columns:
            create_table(own, ASKED, columns, temporary=True)
        return list(own.execute(sql).fetchnumpy().values())

    try:
        return [np.asarray(column) for column in database.run_job(job, seconds, cursor)]
    finally:
        cursor.close()


def _sum_by(keys: Longs, values: Floats) -> tuple[Longs, Floats]:
    """The different keys, sorted, and the sums of their values."""
    kept, owner = np.unique(keys, axis=0, return_inverse=True)
    sums: Floats = np.bincount(owner.reshape(-1), values, len(kept)).astype(np.float64)
    return kept, sums
