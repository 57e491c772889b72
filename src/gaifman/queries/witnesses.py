"""Witnesses: the facts that make an answer true.

>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "ann", "bea"), ("parent", "bob", "cleo")])
>>> for facts in why(kb, "exists z. parent(x, z) & parent(z, y)", ("ann", "cleo")):
...     print(*facts)
parent(ann, bob). parent(bob, cleo).

A *witness* is a set of facts, one for each atom of one way to make the query true. Other parts (=, ≠, comparisons, and
what is inside ¬, ↔ or ∀) must hold, but have no facts. An answer of a query of ∃, ∧, ∨ and atoms is true as long as
one of its witnesses is known, see `gaifman.sampling.hiding`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gaifman.config import DEFAULT_BUDGET, Budget, Deadline, checked
from gaifman.errors import KnowledgeBaseError, LimitError, StoppedError, plural
from gaifman.io.duckdb import create_table
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.tables import Ints, Longs
from gaifman.logic.ast import (
    And,
    Comparison,
    Equal,
    Exists,
    Formula,
    Iff,
    Not,
    Or,
    Query,
    Truth,
    walk,
)
from gaifman.queries.answers import Queryable, prepare
from gaifman.queries.engine import Engine, get_engine
from gaifman.queries.sql import SelectBuilder, Translator, normalize_for_kb

T = TypeVar("T")
MAX_ALTERNATIVES = 256
"""Maximum number of ways to choose among the parts of ∨."""
MAX_WITNESSES = 20_000_000
"""Maximum number of witnesses of all answers together."""
FEW_WITNESSES = 100
"""Up to this number per answer, the database does not return all witnesses."""
OVERSAMPLING = 24
"""Rows fetched per witness at first: four atoms of one relation give the same facts in 24 orders."""
ANSWERS_TABLE = "asked"
MIXING_FACTOR, MIXING_PRIME = 2_654_435_761, 4_294_967_291
"""Numbers that put objects in an arbitrary order: that of a database's own hash may change with its version."""


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Witnesses of answers, sorted by answer; a set of facts comes once for an answer."""

    answer: Longs
    """Shape (witnesses,), int64, ascending: the row of the answer."""
    facts: Longs
    """Shape (witnesses, maximum number of atoms), int64: fact numbers, ascending, padded with −1."""

    def __len__(self) -> int:
        return len(self.answer)


class _AnswerTable:
    """A temporary table of answers, and statements that join it, all within one budget."""

    def __init__(self, engine: Engine, query: Query, answers: npt.ArrayLike, budget: Budget) -> None:
        self.rows = as_answer_rows(query, answers)
        self._budget, self._deadline = budget, Deadline(budget.seconds)
        self._database, self._cursor = engine.database, engine.database.cursor()
        columns = {f"c{at}": self.rows[:, at].copy() for at in range(self.rows.shape[1])}  # DuckDB needs strides > 0
        columns = {"n": np.arange(len(self.rows), dtype=np.int32), **columns}
        self._run(lambda cursor: create_table(cursor, ANSWERS_TABLE, columns, temporary=True))

    def _run(self, job: Callable[[Any], T]) -> T:
        return self._database.run_job(job, self._deadline.limit_budget(self._budget).seconds, self._cursor)

    def check_deadline(self) -> None:
        """Raise `StoppedError` if the time is up."""
        self._deadline.check()

    def fetch_columns(self, sql: str) -> list[npt.NDArray[Any]]:
        """Run a statement; return its columns as arrays."""
        return self._run(lambda cursor: list(cursor.execute(sql).fetchnumpy().values()))

    def fetch_tuples(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows as Python objects."""
        return self._run(lambda cursor: list(cursor.execute(sql).fetchall()))


@checked
def why(
    kb: Queryable,
    query: str | Query,
    answer: Sequence[str],
    *,
    max_witnesses: int = 10,
    budget: Budget = DEFAULT_BUDGET,
) -> list[tuple[Fact, ...]]:
    """Return the first witnesses of an answer given by name, as facts; none if it is not an answer.

    A query that is true without facts, as `x = 'ann'` is for ann, has one witness without facts.
    """
    engine = get_engine(kb)
    query = prepare(engine, query, budget=budget).query
    if isinstance(answer, str) or len(answer) != len(query.variables):
        raise KnowledgeBaseError(
            f"an answer of {query} must have {plural(len(query.variables), 'object')}, got {answer!r}",
            hint=f"write a tuple: ({', '.join(v.name for v in query.variables)},)",
        )
    row = np.array([[engine.kb.object_id(name) for name in answer]], np.int32).reshape(1, len(query.variables))
    return witness_facts(engine, query, row, max_witnesses=max_witnesses, budget=budget)[0]


def witness_facts(
    kb: Queryable,
    query: str | Query,
    answers: npt.ArrayLike,
    *,
    max_witnesses: int = 10,
    budget: Budget = DEFAULT_BUDGET,
) -> list[list[tuple[Fact, ...]]]:
    """Return the facts of the first witnesses of each answer; `answers` (b, variables) are numbers of objects."""
    engine = get_engine(kb)
    find = _first_witnesses if max_witnesses <= FEW_WITNESSES else _all_witnesses
    found = find(engine, prepare(engine, query, budget=budget).query, answers, max_witnesses, budget)
    return [[tuple(engine.kb.fact_by_id(number) for number in facts) for facts in each] for each in found]


def _all_witnesses(
    engine: Engine, query: Query, answers: npt.ArrayLike, max_witnesses: int, budget: Budget
) -> list[list[list[int]]]:
    """Return the first witnesses of each answer, from all of them."""
    found = witnesses(engine, query, answers, budget=budget)
    starts = np.searchsorted(found.answer, np.arange(len(np.asarray(answers)) + 1)).tolist()
    rows = [found.facts[begin : min(end, begin + max_witnesses)].tolist() for begin, end in itertools.pairwise(starts)]
    return [[[number for number in facts if number >= 0] for facts in each] for each in rows]


def _first_witnesses(
    engine: Engine, query: Query, answers: npt.ArrayLike, max_witnesses: int, budget: Budget
) -> list[list[list[int]]]:
    """Return the first witnesses of each answer, without fetching all: an answer may have millions."""
    ways = list(alternatives(normalize_for_kb(query.formula, engine.kb)))
    table = _AnswerTable(engine, query, answers, budget)
    limit = max_witnesses * OVERSAMPLING
    found: list[set[tuple[int, ...]]] = [set() for _ in table.rows]
    for way in ways:
        for distinct in (False, True):
            lists = table.fetch_tuples(_first_witnesses_sql(engine.kb, query, way, limit, distinct=distinct))
            sets = {n: {tuple(facts) for facts in own} for n, own in lists}
            if all(len(own) < limit or len(sets[n]) >= max_witnesses for n, own in lists):
                break  # else repetitions of one set of facts left no room for others
        for n, own in sets.items():
            found[n] |= own
    return [[[*facts] for facts in sorted(each)[:max_witnesses]] for each in found]


def _first_witnesses_sql(kb: KnowledgeBase, query: Query, way: list[Formula], count: int, *, distinct: bool) -> str:
    """Return SQL for the `count` smallest sets of facts of one way, for each answer."""
    frame, first = _witness_select(kb, query, way), kb.fact_offsets
    numbers = ", ".join(f"{alias}.rowid + {first[arity]}" for arity, alias in frame.fact_tables)
    columns = ["a0.n AS n", f"list_sort(list_distinct(CAST([{numbers}] AS BIGINT[]))) AS facts"]
    inner = frame.to_sql(columns, distinct=distinct)
    return f"SELECT n, min(facts, {count:d}) FROM ({inner}) GROUP BY n"  # noqa: S608 - numbers and our own names


def witnesses(
    kb: Queryable,
    query: str | Query,
    answers: npt.ArrayLike,
    *,
    max_witnesses: int = MAX_WITNESSES,
    budget: Budget = DEFAULT_BUDGET,
    with_values: bool = False,
) -> Witnesses:
    """Return all witnesses of answers (b, variables), given by numbers; refuse more than `max_witnesses`.

    With `with_values`, the values that the query compares belong to a witness; their numbers follow those of facts.
    """
    engine = get_engine(kb)
    query = prepare(engine, query, budget=budget).query
    ways = list(alternatives(normalize_for_kb(query.formula, engine.kb)))
    statements = [_witnesses_sql(engine.kb, query, way, max_witnesses, with_values) for way in ways]
    return _find_witnesses(engine, query, statements, answers, max_witnesses, budget)


def are_answers(
    kb: Queryable, query: str | Query, answers: npt.ArrayLike, *, budget: Budget = DEFAULT_BUDGET
) -> npt.NDArray[np.bool_]:
    """Return shape (b,): which of some tuples (b, variables), given by numbers, are answers of any query."""
    engine = get_engine(kb)
    query = prepare(engine, query, budget=budget).query
    table = _AnswerTable(engine, query, answers, budget)
    condition = Not(Not(normalize_for_kb(query.formula, engine.kb)))  # behind ¬ everything becomes a condition
    (numbers,) = table.fetch_columns(_witness_select(engine.kb, query, [condition]).to_sql(["a0.n"]))
    found = np.zeros(len(table.rows), bool)
    found[numbers.astype(np.int64)] = True
    return found


def find_replacements(
    kb: Queryable,
    query: Query,
    formula: Formula,
    tuples: npt.ArrayLike,
    position: int,
    limit: int,
) -> tuple[Longs, Ints]:
    """Return the rows (r,) of tuples (b, variables), and objects (r,) that make a normal formula true at a position.

    At most `limit` objects for each tuple: an arbitrary choice, which depends on the tuple only.
    """
    engine = get_engine(kb)
    table = _AnswerTable(engine, query, tuples, DEFAULT_BUDGET)
    variable = query.variables[position]
    frame = SelectBuilder({v: f"a0.c{at}" for at, v in enumerate(query.variables) if v != variable})
    frame.join(f"{ANSWERS_TABLE} a0", [])
    frame = Translator(engine.kb, formula).select([formula], (variable,), frame.env, base=frame)
    places = range(len(query.variables))
    columns = ["a0.n AS n", f"CAST({frame.env[variable]} AS BIGINT) AS o"]
    columns += [f"CAST(a0.c{at} AS BIGINT) AS c{at}" for at in places]
    mixed = " + ".join([f"o * {MIXING_FACTOR}", *(f"c{at} * {MIXING_FACTOR >> (at + 1)}" for at in places)])
    inner = frame.to_sql(columns, distinct=True)
    found = table.fetch_columns(
        f"SELECT n, o FROM ({inner}) "  # noqa: S608 - numbers and our own names
        f"QUALIFY row_number() OVER (PARTITION BY n ORDER BY ({mixed}) % {MIXING_PRIME}, o) <= {limit:d} ORDER BY n, o"
    )
    return found[0].astype(np.int64), found[1].astype(np.int32)


def is_monotone(query: Query, kb: KnowledgeBase, *, in_values: bool = False) -> bool:
    """Return whether more facts never make an answer false: no ¬, ↔ or ∀ of atoms.

    With `in_values`, more values never do so either: no ¬ of a comparison, which is true for a missing value.
    """
    parts, harmless = walk(normalize_for_kb(query.formula, kb)), Equal if in_values else Equal | Comparison
    return not any(
        isinstance(part, Iff) or (isinstance(part, Not) and not isinstance(part.body, harmless)) for part in parts
    )


def alternatives(formula: Formula) -> Iterator[list[Formula]]:
    """Yield the ways to make a normal formula true: the parts that must hold, for each choice of a part of every ∨."""
    count = _count_alternatives(formula)
    if count > MAX_ALTERNATIVES:
        raise LimitError(f"the query has {count:,} ways to choose among the parts of ∨, more than {MAX_ALTERNATIVES}")
    yield from _alternatives(formula)


def _alternatives(formula: Formula) -> Iterator[list[Formula]]:
    match formula:
        case Truth(value):
            yield from [[]] if value else []
        case Or(parts):
            for part in parts:
                yield from _alternatives(part)
        case And(parts):
            for choice in itertools.product(*(list(_alternatives(part)) for part in parts)):
                yield [piece for pieces in choice for piece in pieces]
        case Exists(_, body):
            yield from _alternatives(body)
        case _:
            yield [formula]


def _count_alternatives(formula: Formula) -> int:
    match formula:
        case Or(parts):
            return sum(map(_count_alternatives, parts))
        case And(parts):
            return int(np.prod([_count_alternatives(part) for part in parts], dtype=object))
        case Exists(_, body):
            return _count_alternatives(body)
    return 1


def _find_witnesses(
    engine: Engine,
    query: Query,
    statements: list[tuple[str, list[int]]],
    answers: npt.ArrayLike,
    max_witnesses: int,
    budget: Budget,
) -> Witnesses:
    """Return the facts of all ways, for every answer, with one statement for each way."""
    table, parts = _AnswerTable(engine, query, answers, budget), []
    for statement, offsets in statements:
        columns = table.fetch_columns(statement)
        if len(columns[0]) > max_witnesses:
            raise StoppedError(
                f"the answers have more than {max_witnesses:,} witnesses", hint="ask about fewer answers at a time"
            )
        parts.append((columns[0], [c.astype(np.int64) + first for c, first in zip(columns[1:], offsets, strict=True)]))
    table.check_deadline()
    return _collect_witnesses(parts)


def as_answer_rows(query: Query, answers: npt.ArrayLike) -> Ints:
    """Return answers of a query as an array (b, variables) of object numbers."""
    rows = np.asarray(answers)
    if rows.shape == (0,):
        rows = rows.reshape(0, len(query.variables))
    if rows.ndim != 2 or rows.shape[1] != len(query.variables) or (rows.size and rows.dtype.kind not in "iu"):
        raise KnowledgeBaseError(
            f"answers of {query} must be integers of shape (answers, {len(query.variables)}), "
            f"got {rows.dtype} of shape {rows.shape}"
        )
    return rows.astype(np.int32, copy=False)


def _witnesses_sql(
    kb: KnowledgeBase, query: Query, alternative: list[Formula], max_witnesses: int, with_values: bool
) -> tuple[str, list[int]]:
    """Return SQL for the table rows of all facts, and values, of one way, and the number of each table's first row."""
    frame = _witness_select(kb, query, alternative)
    sources = [(alias, kb.fact_offsets[arity]) for arity, alias in frame.fact_tables]
    sources += [(alias, len(kb)) for alias in frame.value_tables if with_values]
    columns = ["a0.n", *(f"{alias}.rowid AS w{at}" for at, (alias, _) in enumerate(sources))]
    return f"{frame.to_sql(columns)} LIMIT {max_witnesses + 1:d}", [first for _, first in sources]


def _witness_select(kb: KnowledgeBase, query: Query, alternative: list[Formula]) -> SelectBuilder:
    """Return a SELECT that joins the answers with the facts of one way."""
    frame = SelectBuilder({v: f"a0.c{at}" for at, v in enumerate(query.variables)})
    frame.join(f"{ANSWERS_TABLE} a0", [])
    translator = Translator(kb, And((Truth(True), Truth(True), *alternative)))
    return translator.select(alternative, (), frame.env, base=frame)


def _collect_witnesses(parts: list[tuple[npt.NDArray[Any], list[Longs]]]) -> Witnesses:
    """Merge the rows of all ways, sorted, each set of facts once."""
    width = max([1, *(len(columns) for _, columns in parts)])
    tables = [np.zeros((0, width + 1), np.int64)]
    for answer, columns in parts:
        table = np.full((len(answer), width + 1), -1, np.int64)
        table[:, 0] = answer
        if columns:
            table[:, 1 : len(columns) + 1] = _sort_fact_sets(np.stack(columns, axis=1))
        tables.append(table)
    rows = np.concatenate(tables)
    rows = rows[np.lexsort(rows.T[::-1])]
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    rows = rows[first]
    return Witnesses(rows[:, 0].copy(), rows[:, 1:].copy())


def _sort_fact_sets(facts: Longs) -> Longs:
    """Sort each row and replace repeated facts by −1 at the end."""
    ascending = np.sort(facts, axis=1)
    twice = np.zeros(ascending.shape, bool)
    twice[:, 1:] = ascending[:, 1:] == ascending[:, :-1]
    largest = np.iinfo(np.int64).max
    ascending[twice] = largest
    ascending.sort(axis=1)
    ascending[ascending == largest] = -1
    return ascending
