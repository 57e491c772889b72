"""Exact answers to any first-order query over a whole knowledge base.

>>> import gaifman
>>> kb = gaifman.demo()
>>> found = answers(kb, "exists z. borders(x, z) & borders(z, y) & x != y & ~borders(x, y)", x="portugal")
>>> list(found)
[('portugal', 'andorra'), ('portugal', 'france'), ('portugal', 'morocco')]
>>> count(kb, "population(x) > 100000000"), exists(kb, "borders('france', 'brazil')")
(16, False)

A query becomes one SQL statement, which DuckDB runs on all cores: joins, order, spilling to disk and stopping are its.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gaifman._html import bold, code, muted, paragraph, stack, table
from gaifman.config import DEFAULT_BUDGET, Budget, check_int
from gaifman.errors import FormulaError, LimitError, plural, similar_names
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints, freeze
from gaifman.logic.ast import Bindings, Query, Variable, free_relation_variables, free_variables, to_bracketed
from gaifman.logic.parser import parse_query
from gaifman.queries.engine import Engine, get_engine
from gaifman.queries.sql import Statement, translate

BATCH_SIZE = 100_000
"""Answers in one part of a stream."""
MAX_CACHED_QUERIES = 1_000
"""Translated queries that an engine keeps."""
MAX_PRINTED = 20
"""Answers that are printed."""

Queryable = KnowledgeBase | Engine
"""What is asked: a knowledge base, whose engine is kept with it, or an engine with settings of its own."""


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query read, checked and translated."""

    query: Query
    bindings: Mapping[str, str]
    """Variable → object, for those that were given one."""
    statement: Statement

    @property
    def note(self) -> str:
        """What ranges over the whole domain, in words; empty where nothing does."""
        names = self.statement.unrestricted
        if not names:
            return ""
        verb = "range" if len(names) > 1 else "ranges"
        return f"{', '.join(names)} {verb} over the whole domain: {self.statement.combinations:,} combinations"

    def as_dict(self) -> dict[str, Any]:
        """What was asked, for JSON."""
        return {
            "query": str(self.query),
            "reading": to_bracketed(self.query),
            "variables": [variable.name for variable in self.query.variables],
            "bindings": dict(self.bindings),
            "unrestricted": list(self.statement.unrestricted),
            "combinations": self.statement.combinations,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Answers of a query, by number of the first object, then of the second and so on; numbers follow names.

    A sentence, which has no variables, has one empty answer where it is true.
    """

    kb: KnowledgeBase
    prepared: PreparedQuery
    tuples: Ints
    """Shape (answers, variables), int32: numbers of objects."""
    skipped: int = 0
    """Answers before the first of these that were asked to be left out."""
    truncated: bool = False
    """Whether there are more behind the last."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the query's variables: those of the columns."""
        return tuple(variable.name for variable in self.prepared.query.variables)

    @property
    def reading(self) -> str:
        """The query with every bracket: how it was read."""
        return to_bracketed(self.prepared.query)

    def __len__(self) -> int:
        return len(self.tuples)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """The answers by name."""
        name = self.kb.objects.__getitem__
        return (tuple(map(name, row)) for row in self.tuples.tolist())

    def __repr__(self) -> str:
        more = " and more" if self.truncated else ""
        return f"<Answers: {len(self):,}{more} to {self.reading}>"

    def __str__(self) -> str:
        rows = [self.variables, *islice(self, MAX_PRINTED)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        rest = len(self) - MAX_PRINTED
        lines += [f"… and {rest:,} more"] if rest > 0 else []
        return "\n".join([self.reading, *lines] if self.variables else [self.reading, str(len(self) > 0).lower()])

    def _repr_html_(self) -> str:
        """In a notebook: the same as a table; how many there are stands below."""
        if not self.variables:
            return stack(paragraph(code(self.reading), ": ", bold(str(len(self) > 0).lower())))
        rest = len(self) - MAX_PRINTED
        more = [paragraph(f"… and {rest:,} more")] if rest > 0 else []
        count = f"{plural(len(self), 'answer')}{', and there are more' * self.truncated}"
        return stack(
            paragraph(code(self.reading)),
            table(self.variables, islice(self, MAX_PRINTED)),
            *more,
            paragraph(muted(count)),
        )


def answers(
    kb: Queryable,
    query: str | Query,
    bindings: Bindings | None = None,
    *,
    skip: int = 0,
    budget: Budget = DEFAULT_BUDGET,
    **objects: str,
) -> Answers:
    """The answers of a query, in a stable order: all, or `budget.rows` of them behind the first `skip`.

    Variables can be given objects by name, as keywords (`x="ann"`) or in `given`.
    """
    engine = get_engine(kb)
    return fetch_answers(engine, prepare(engine, query, {**(bindings or {}), **objects}, budget), budget, skip=skip)


def fetch_answers(
    engine: Engine, prepared: PreparedQuery, budget: Budget = DEFAULT_BUDGET, *, skip: int = 0
) -> Answers:
    """The answers of a prepared query."""
    check_int("skip", skip, 0)
    limit = None if budget.rows is None else budget.rows + 1
    rows = engine.fetch_rows(prepared.statement.ordered_sql(limit, skip), budget.seconds)[
        :, : len(prepared.query.variables)
    ]
    truncated = limit is not None and len(rows) == limit
    kept = rows[: budget.rows] if truncated else rows
    return Answers(engine.kb, prepared, freeze(kept), skip, truncated)


query = answers
"""The name under which `gaifman.query` has it."""


def count(
    kb: Queryable,
    query: str | Query,
    bindings: Bindings | None = None,
    *,
    budget: Budget = DEFAULT_BUDGET,
    **objects: str,
) -> int:
    """How many answers a query has."""
    engine = get_engine(kb)
    return count_answers(engine, prepare(engine, query, {**(bindings or {}), **objects}, budget), budget)


def count_answers(engine: Engine, prepared: PreparedQuery, budget: Budget = DEFAULT_BUDGET) -> int:
    """How many answers a prepared query has."""
    return engine.fetch_scalar(prepared.statement.count_sql(), budget.seconds)


def exists(
    kb: Queryable,
    query: str | Query,
    bindings: Bindings | None = None,
    *,
    budget: Budget = DEFAULT_BUDGET,
    **objects: str,
) -> bool:
    """Whether a query has an answer: of a sentence, whether it is true."""
    engine = get_engine(kb)
    prepared = prepare(engine, query, {**(bindings or {}), **objects}, budget, sentence=True)
    return engine.fetch_scalar(prepared.statement.sql, budget.seconds) > 0


def stream(
    kb: Queryable,
    query: str | Query,
    bindings: Bindings | None = None,
    *,
    batch_size: int = BATCH_SIZE,
    budget: Budget = DEFAULT_BUDGET,
    **objects: str,
) -> Iterator[Ints]:
    """The answers in the same order, as arrays (at most `batch`, variables): never more than one part in memory.

    Mistakes in the query are found at once, not with the first part.
    """
    engine = get_engine(kb)
    return stream_answers(
        engine, prepare(engine, query, {**(bindings or {}), **objects}, budget), budget, batch_size=batch_size
    )


def stream_answers(
    engine: Engine,
    prepared: PreparedQuery,
    budget: Budget = DEFAULT_BUDGET,
    *,
    skip: int = 0,
    batch_size: int = BATCH_SIZE,
) -> Iterator[Ints]:
    """The answers of a prepared query, part by part."""
    check_int("skip", skip, 0)
    check_int("batch_size", batch_size, 1)
    width = len(prepared.query.variables)
    parts = engine.fetch_batches(prepared.statement.ordered_sql(budget.rows, skip), batch_size, budget.seconds)
    return (part[:, :width] for part in parts)


def prepare(
    kb: Queryable,
    query: str | Query,
    bindings: Bindings | None = None,
    budget: Budget = DEFAULT_BUDGET,
    *,
    sentence: bool = False,
) -> PreparedQuery:
    """Read, check and translate a query; refused where it implies more combinations than the budget allows.

    As a `sentence` it asks only whether there is an answer.
    """
    if isinstance(kb, Engine) and isinstance(query, str):
        prepared = _prepare_cached(kb, query, bindings or {}, sentence)
    else:
        prepared = _prepare(kb.kb if isinstance(kb, Engine) else kb, query, bindings or {}, sentence)
    statement = prepared.statement
    if statement.combinations > budget.combinations:
        raise LimitError(
            f"{prepared.note}, and the limit is {budget.combinations:,}",
            hint=f"tie {statement.unrestricted[0]} to facts, as in person({statement.unrestricted[0]}) & …, or give it an object",
        )
    return prepared


def _prepare_cached(engine: Engine, text: str, bindings: Bindings, sentence: bool) -> PreparedQuery:
    """A query that is asked again is not read and translated again."""
    key = (text, *bindings.items(), sentence)
    if key not in engine.cache:
        prepared = _prepare(engine.kb, text, bindings, sentence)
        if len(engine.cache) >= MAX_CACHED_QUERIES:
            engine.cache.clear()
        engine.cache[key] = prepared
        return prepared
    found: PreparedQuery = engine.cache[key]
    return found


def _prepare(kb: KnowledgeBase, question: str | Query, bindings: Bindings, sentence: bool) -> PreparedQuery:
    query = parse_query(question, kb) if isinstance(question, str) else _check_query(question, kb)
    numbers = _bind_objects(kb, query, bindings)
    statement = translate(query, kb, numbers, sentence=sentence)
    return PreparedQuery(query, {v.name: kb.object_name(number) for v, number in numbers.items()}, statement)


def _check_query(query: Query, kb: KnowledgeBase) -> Query:
    """A query that was made by hand, whose constants need be no objects."""
    kb.schema.check(query, allow_unknown_objects=True)
    missing = [v for v in free_variables(query.formula) if v not in query.variables]
    if missing or len(set(query.variables)) < len(query.variables):
        raise FormulaError(f"the variables of a query are those that are free in it, each once, not {query.variables}")
    if relations := free_relation_variables(query.formula):
        raise FormulaError(f"{relations[0].name} stands for no relation", hint=f"write: exists {relations[0].name}. …")
    return query


def _bind_objects(kb: KnowledgeBase, query: Query, bindings: Bindings) -> dict[Variable, int]:
    numbers = {}
    for name, obj in bindings.items():
        variable = Variable(name.removeprefix("?"))
        if variable not in query.variables:
            known = [v.name for v in query.variables]
            listed = f"its variables are {', '.join(known)}" if known else "it has no free variables"
            raise FormulaError(f"the query has no variable {name}", suggestions=similar_names(name, known), hint=listed)
        numbers[variable] = kb.object_id(obj)
    return numbers
