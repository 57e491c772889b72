"""The facts that make an answer true.

>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "ann", "bea"), ("parent", "bob", "cleo")])
>>> for facts in why(kb, "exists z. parent(x, z) & parent(z, y)", ("ann", "cleo")):
...     print(*facts)
parent(ann, bob). parent(bob, cleo).

A *witness* is a set of facts, one for each atom of one way to make the query true. What is not an atom (=, ≠, numbers,
and whatever stands behind ¬, ↔ or ∀) must hold, and has no facts. Of a query of ∃, ∧, ∨ and atoms an answer is true
exactly as long as one of its witnesses is known: see `hiding`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.cancellation import Deadline
from gaifman.config import DEFAULT_BUDGET, Budget
from gaifman.errors import KnowledgeBaseError, LimitError, StoppedError
from gaifman.io.duckdb import create_table
from gaifman.kb.facts import Fact
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints, Longs
from gaifman.logic.ast import (
    And,
    Atom,
    Comparison,
    Equal,
    Exists,
    Formula,
    Iff,
    Not,
    Or,
    Query,
    Truth,
    all_free_variables,
    walk,
)
from gaifman.queries.answers import Queryable, prepare
from gaifman.queries.engine import Engine, get_engine
from gaifman.queries.sql import SelectBuilder, Translator, normalize_for_kb

MAX_ALTERNATIVES = 256
"""Ways to choose among the parts of ∨ at most."""
MAX_WITNESSES = 20_000_000
"""Witnesses that are looked at in one go at most."""
FEW_WITNESSES = 100
"""So many witnesses of an answer are found without keeping all of them."""
OVERSAMPLING = 24
"""Rows that are kept for each of them at first: four atoms of one relation find the same facts in so many orders."""
ANSWERS_TABLE = "asked"


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Witnesses of some answers, by answer; each set of facts once for an answer."""

    answer: Longs
    """Shape (witnesses,), int64, ascending: which of the answers it is a witness of."""
    facts: Longs
    """Shape (witnesses, most atoms), int64: numbers of its facts as in `Graph.facts`, ascending; then −1, for none."""

    def __len__(self) -> int:
        return len(self.answer)


def why(
    kb: Queryable,
    query: str | Query,
    answer: Sequence[str],
    *,
    max_witnesses: int = 10,
    budget: Budget = DEFAULT_BUDGET,
) -> list[tuple[Fact, ...]]:
    """The first witnesses of an answer given by name, as facts; none where it is no answer.

    Where the query is true without facts, as `x = 'ann'` is of ann, there is one witness without facts.
    """
    engine = get_engine(kb)
    known = engine.kb
    query = prepare(engine, query, budget=budget).query
    if isinstance(answer, str) or len(answer) != len(query.variables):
        raise KnowledgeBaseError(
            f"an answer has {len(query.variables)} objects here, not {answer!r}",
            hint=f"write a tuple: ({', '.join(v.name for v in query.variables)},)",
        )
    row = np.array([[known.object_id(name) for name in answer]], np.int32).reshape(1, len(query.variables))
    return witness_facts(engine, query, row, max_witnesses=max_witnesses, budget=budget)[0]


def witness_facts(
    kb: Queryable,
    query: str | Query,
    answers: npt.ArrayLike,
    *,
    max_witnesses: int = 10,
    budget: Budget = DEFAULT_BUDGET,
) -> list[list[tuple[Fact, ...]]]:
    """For each of some answers (b, variables) by number, the facts of its first witnesses."""
    engine = get_engine(kb)
    numbers = _first_witnesses if max_witnesses <= FEW_WITNESSES else _all_witnesses
    found = numbers(engine, prepare(engine, query, budget=budget).query, answers, max_witnesses, budget)
    return [[tuple(engine.kb.fact_by_id(number) for number in facts) for facts in each] for each in found]


def _all_witnesses(
    engine: Engine, query: Query, answers: npt.ArrayLike, max_witnesses: int, budget: Budget
) -> list[list[list[int]]]:
    """The first witnesses of each answer, by way of all of them."""
    found = witnesses(engine, query, answers, budget=budget)
    starts = np.searchsorted(found.answer, np.arange(len(np.asarray(answers)) + 1)).tolist()
    rows = [found.facts[begin : min(end, begin + max_witnesses)].tolist() for begin, end in itertools.pairwise(starts)]
    return [[[number for number in facts if number >= 0] for facts in each] for each in rows]


def _first_witnesses(
    engine: Engine, query: Query, answers: npt.ArrayLike, max_witnesses: int, budget: Budget
) -> list[list[list[int]]]:
    """The same, where the database gives no more than are wanted: an answer may have millions."""
    rows, deadline = as_answer_rows(query, answers), Deadline(budget.seconds)
    ways = list(alternatives(normalize_for_kb(query.formula, engine.kb)))
    cursor = engine.cursor()
    engine.run_job(lambda c: _load_answers(c, rows), deadline.limit_budget(budget).seconds, cursor)
    found: list[set[tuple[int, ...]]] = [set() for _ in rows]
    for way in ways:
        for distinct in (False, True):
            text = _first_witnesses_sql(engine.kb, query, way, max_witnesses * OVERSAMPLING, distinct=distinct)
            lists = engine.run_job(partial(_fetch_rows, text), deadline.limit_budget(budget).seconds, cursor)
            sets = {n: {tuple(facts) for facts in own} for n, own in lists}
            if all(len(own) < max_witnesses * OVERSAMPLING or len(sets[n]) >= max_witnesses for n, own in lists):
                break  # else one set of facts came so often that others had no place
        for n, own in sets.items():
            found[n] |= own
    return [[[*facts] for facts in sorted(each)[:max_witnesses]] for each in found]


def _first_witnesses_sql(kb: KnowledgeBase, query: Query, way: list[Formula], count: int, *, distinct: bool) -> str:
    """SQL for so many of the smallest sets of facts of one way, for each answer."""
    frame, first = _witness_select(kb, query, way), kb.fact_offsets
    numbers = ", ".join(f"{alias}.rowid + {first[arity]}" for arity, alias in frame.fact_tables)
    chosen = ["a0.n AS n", f"list_sort(list_distinct(CAST([{numbers}] AS BIGINT[]))) AS facts"]
    inner = frame.to_sql(chosen, distinct=distinct)
    return f"SELECT n, min(facts, {count:d}) FROM ({inner}) GROUP BY n"  # noqa: S608 (made of numbers and our own names)


def witnesses(
    kb: Queryable,
    query: str | Query,
    answers: npt.ArrayLike,
    *,
    max_witnesses: int = MAX_WITNESSES,
    budget: Budget = DEFAULT_BUDGET,
) -> Witnesses:
    """All witnesses of some answers (b, variables) by number; refused where there are more than `most`."""
    engine = get_engine(kb)
    query = prepare(engine, query, budget=budget).query
    return _find_witnesses(
        engine, query, list(alternatives(normalize_for_kb(query.formula, engine.kb))), answers, max_witnesses, budget
    )


def ground_instances(
    kb: Queryable,
    query: str | Query,
    answers: npt.ArrayLike,
    *,
    max_witnesses: int = MAX_WITNESSES,
    budget: Budget = DEFAULT_BUDGET,
) -> Witnesses:
    """The facts that atoms of the query are when the answers stand for its variables, each as a witness of one fact."""
    engine = get_engine(kb)
    query = prepare(engine, query, budget=budget).query
    atoms = (part for part in walk(normalize_for_kb(query.formula, engine.kb)) if isinstance(part, Atom))
    ways: list[list[Formula]] = [
        [atom] for atom in dict.fromkeys(atoms) if all_free_variables(atom) <= frozenset(query.variables)
    ]
    return _find_witnesses(engine, query, ways, answers, max_witnesses, budget)


def are_answers(
    kb: Queryable, query: str | Query, answers: npt.ArrayLike, *, budget: Budget = DEFAULT_BUDGET
) -> npt.NDArray[np.bool_]:
    """Shape (b,): which of some tuples (b, variables) by number are answers; whatever the query is made of."""
    engine, deadline = get_engine(kb), Deadline(budget.seconds)
    query = prepare(engine, query, budget=budget).query
    rows = as_answer_rows(query, answers)
    cursor, found = engine.cursor(), np.zeros(len(rows), bool)
    engine.run_job(lambda c: _load_answers(c, rows), deadline.limit_budget(budget).seconds, cursor)
    whole = Not(Not(normalize_for_kb(query.formula, engine.kb)))  # behind ¬ it is a condition, whatever its parts are
    text = _witness_select(engine.kb, query, [whole]).to_sql(["a0.n"])
    (numbers,) = engine.run_job(partial(_fetch_columns, text), deadline.limit_budget(budget).seconds, cursor)
    found[numbers.astype(np.int64)] = True
    return found


def is_monotone(query: Query, kb: KnowledgeBase) -> bool:
    """Whether an answer can become false only by losing facts, and true only by gaining them: no ¬, ↔ or ∀ of atoms."""
    parts = walk(normalize_for_kb(query.formula, kb))
    return not any(
        isinstance(part, Iff) or (isinstance(part, Not) and not isinstance(part.body, Equal | Comparison))
        for part in parts
    )


def alternatives(formula: Formula) -> Iterator[list[Formula]]:
    """The ways to make a tidy formula true: the parts that must all hold, for each choice of a part of every ∨."""
    if _count_alternatives(formula) > MAX_ALTERNATIVES:
        raise LimitError(
            f"there are {_count_alternatives(formula):,} ways to choose among the parts of ∨, and the limit is {MAX_ALTERNATIVES}"
        )
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
    alternatives: list[list[Formula]],
    answers: npt.ArrayLike,
    max_witnesses: int,
    budget: Budget,
) -> Witnesses:
    """The facts of every way, for every answer, in one statement each; the time is for all of them together."""
    rows, deadline = as_answer_rows(query, answers), Deadline(budget.seconds)
    statements = [_witnesses_sql(engine.kb, query, way, max_witnesses) for way in alternatives]
    cursor = engine.cursor()
    engine.run_job(lambda c: _load_answers(c, rows), deadline.limit_budget(budget).seconds, cursor)
    parts = []
    for statement, arities in statements:
        columns = engine.run_job(partial(_fetch_columns, statement), deadline.limit_budget(budget).seconds, cursor)
        if len(columns[0]) > max_witnesses:
            raise StoppedError(
                f"the answers have more than {max_witnesses:,} witnesses",
                hint="ask for those of fewer answers at a time",
            )
        parts.append((columns[0], _fact_numbers(engine.kb, columns[1:], arities)))
    deadline.check()
    return _collect_witnesses(parts)


def as_answer_rows(query: Query, answers: npt.ArrayLike) -> Ints:
    """Answers to a query as an array (b, variables) of numbers."""
    rows = np.asarray(answers)
    if rows.shape == (0,):
        rows = rows.reshape(0, len(query.variables))
    if rows.ndim != 2 or rows.shape[1] != len(query.variables) or (rows.size and rows.dtype.kind not in "iu"):
        raise KnowledgeBaseError(f"answers to {query} are rows of {len(query.variables)} numbers, not {rows.shape}")
    return rows.astype(np.int32, copy=False)


def _load_answers(cursor: Any, rows: Ints) -> None:
    columns = {f"c{place}": rows[:, place].copy() for place in range(rows.shape[1])}  # DuckDB knows no backward arrays
    create_table(cursor, ANSWERS_TABLE, {"n": np.arange(len(rows), dtype=np.int32), **columns}, temporary=True)


def _fetch_columns(text: str, cursor: Any) -> list[npt.NDArray[Any]]:
    return list(cursor.execute(text).fetchnumpy().values())


def _fetch_rows(text: str, cursor: Any) -> list[tuple[int, list[list[int]]]]:
    return list(cursor.execute(text).fetchall())


def _witnesses_sql(
    kb: KnowledgeBase, query: Query, alternative: list[Formula], max_witnesses: int
) -> tuple[str, list[int]]:
    """SQL for the rows of all facts of one way, and the arities of the facts."""
    frame = _witness_select(kb, query, alternative)
    chosen = ["a0.n", *(f"{alias}.rowid AS w{place}" for place, (_, alias) in enumerate(frame.fact_tables))]
    return f"{frame.to_sql(chosen)} LIMIT {max_witnesses + 1:d}", [arity for arity, _ in frame.fact_tables]


def _witness_select(kb: KnowledgeBase, query: Query, alternative: list[Formula]) -> SelectBuilder:
    """The tables of all facts of one way, beside the answers."""
    frame = SelectBuilder({v: f"a0.c{place}" for place, v in enumerate(query.variables)})
    frame.join(f"{ANSWERS_TABLE} a0", [])
    translator = Translator(kb, And((Truth(True), Truth(True), *alternative)))
    return translator.select(alternative, (), frame.env, base=frame)


def _fact_numbers(kb: KnowledgeBase, columns: list[npt.NDArray[Any]], arities: list[int]) -> list[Longs]:
    """Rows of tables as numbers of facts, over all tables, smallest arity first."""
    first = kb.fact_offsets
    return [column.astype(np.int64) + first[arity] for column, arity in zip(columns, arities, strict=True)]


def _collect_witnesses(parts: list[tuple[npt.NDArray[Any], list[Longs]]]) -> Witnesses:
    """The rows of all ways together, sorted, each set of facts once."""
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
    """Each row ascending, a fact once, −1 at the end for those that stood twice."""
    ascending = np.sort(facts, axis=1)
    twice = np.zeros(ascending.shape, bool)
    twice[:, 1:] = ascending[:, 1:] == ascending[:, :-1]
    largest = np.iinfo(np.int64).max
    ascending[twice] = largest
    ascending.sort(axis=1)
    ascending[ascending == largest] = -1
    return ascending
