"""Exact answers of first-order queries over a knowledge base.

>>> import gaifman
>>> kb = gaifman.demo()
>>> borders = answers(kb, "exists z. borders(x, z) & borders(z, y) & x != y & ~borders(x, y)", x="portugal")
>>> list(borders)
[('portugal', 'andorra'), ('portugal', 'france'), ('portugal', 'morocco')]
>>> count(kb, "population(x) > 100000000"), exists(kb, "borders('france', 'brazil')")
(16, False)

A query becomes one SQL statement that DuckDB runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from gaifman._html import bold, code, muted, paragraph, stack, table
from gaifman._tables import Columns, TableResult, name_columns
from gaifman.config import DEFAULT_BUDGET, Budget, check_int, checked
from gaifman.errors import FormulaError, LimitError, plural, similar_names
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.labels import Labels, chosen_labels, constants_of, label_formula, label_names
from gaifman.kb.tables import Ints, freeze
from gaifman.logic.ast import Bindings, Query, Variable, free_relation_variables, free_variables, to_bracketed
from gaifman.logic.parser import parse_query
from gaifman.queries.engine import Engine, get_engine
from gaifman.queries.sql import Statement, translate

BATCH_SIZE = 100_000
"""Default number of answers in a batch of a stream."""
MAX_CACHED_QUERIES = 1_000
"""Maximum number of translated queries in a database's cache."""
MAX_PRINTED = 20
"""Number of answers that `print` shows."""

Queryable = KnowledgeBase | Engine
"""A knowledge base, which has a shared database, or an engine with its own."""


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A parsed, checked and translated query."""

    query: Query
    bindings: Mapping[str, str]
    """Variable → name of its object."""
    statement: Statement

    def shown(self, labels: Labels) -> str:
        """Return the query with all brackets, and labels for its objects."""
        return to_bracketed(label_formula(self.query, labels))

    @property
    def note(self) -> str:
        """A warning about variables that range over the whole domain, or an empty text."""
        names = self.statement.unrestricted
        if not names:
            return ""
        verb = "range" if len(names) > 1 else "ranges"
        return f"{', '.join(names)} {verb} over the whole domain: {self.statement.combinations:,} combinations"

    def as_dict(self) -> dict[str, Any]:
        """Return the query as JSON values."""
        return {
            "query": str(self.query),
            "bracketed": to_bracketed(self.query),
            "variables": [variable.name for variable in self.query.variables],
            "bindings": dict(self.bindings),
            "unrestricted": list(self.statement.unrestricted),
            "combinations": self.statement.combinations,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Answers(TableResult):
    """Answers of a query, sorted by the names of their objects.

    A sentence, a query without variables, has one empty answer if it is true.
    """

    kb: KnowledgeBase
    prepared: PreparedQuery
    tuples: Ints
    """Shape (answers, variables), int32: object numbers."""
    skipped: int = 0
    """Number of skipped answers before the first one."""
    truncated: bool = False
    """Whether there are more answers after the last one."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the query's variables, the columns."""
        return tuple(variable.name for variable in self.prepared.query.variables)

    @property
    def bracketed(self) -> str:
        """The query with all brackets: how it was parsed."""
        return to_bracketed(self.prepared.query)

    @property
    def shown_query(self) -> str:
        """The query with all brackets, and labels for its objects."""
        return self.prepared.shown(self.kb.display)

    @property
    def labels(self) -> dict[str, str]:
        """Object → how it is shown, for all objects with a label in the query and the answers."""
        if not self.kb.labels:
            return {}
        names = (self.kb.object_name(number) for number in np.unique(self.tuples).tolist())
        asked = [*constants_of(self.prepared.query), *self.prepared.bindings.values()]
        return chosen_labels([*asked, *names], self.kb.display)

    def shown(self) -> Iterator[tuple[str, ...]]:
        """Yield the answers as they are shown: labels for objects that have one."""
        return (label_names(names, self.kb.display) for names in self)

    def __len__(self) -> int:
        return len(self.tuples)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yield the answers by name."""
        name = self.kb.objects.__getitem__
        return (tuple(map(name, row)) for row in self.tuples.tolist())

    def columns(self) -> Columns:
        """One column for each variable, and one of labels if there are some; of a sentence, whether it is true."""
        if not self.variables:
            return {"answer": [len(self) > 0]}
        return name_columns(self.variables, list(self), shown=list(self.shown()) if self.kb.labels else None)

    def __repr__(self) -> str:
        more = " and more" if self.truncated else ""
        return f"<Answers: {len(self):,}{more} of {self.bracketed}>"

    def __str__(self) -> str:
        rows = [self.variables, *islice(self.shown(), MAX_PRINTED)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        rest = len(self) - MAX_PRINTED
        lines += [f"… and {rest:,} more"] if rest > 0 else []
        return "\n".join([self.shown_query, *(lines if self.variables else [str(len(self) > 0).lower()])])

    def _repr_html_(self) -> str:
        if not self.variables:
            return stack(paragraph(code(self.shown_query), ": ", bold(str(len(self) > 0).lower())))
        rest = len(self) - MAX_PRINTED
        more = [paragraph(f"… and {rest:,} more")] if rest > 0 else []
        count = f"{plural(len(self), 'answer')}{', and there are more' * self.truncated}"
        return stack(
            paragraph(code(self.shown_query)),
            table(self.variables, islice(self.shown(), MAX_PRINTED)),
            *more,
            paragraph(muted(count)),
        )


@checked
def answers(
    kb: Queryable,
    query: str | Query,
    bindings: Bindings | None = None,
    *,
    skip: int = 0,
    budget: Budget = DEFAULT_BUDGET,
    **objects: str,
) -> Answers:
    """Return the answers of a query in a fixed order: all, or `budget.rows` of them after the first `skip`.

    Bind variables to objects with keywords (`x="ann"`) or with `bindings`.
    """
    engine = get_engine(kb)
    return fetch_answers(engine, prepare(engine, query, {**(bindings or {}), **objects}, budget), budget, skip=skip)


def fetch_answers(
    engine: Engine, prepared: PreparedQuery, budget: Budget = DEFAULT_BUDGET, *, skip: int = 0
) -> Answers:
    """Return the answers of a prepared query."""
    check_int("skip", skip, 0)
    limit = None if budget.rows is None else budget.rows + 1
    rows = engine.database.fetch_rows(prepared.statement.ordered_sql(limit, skip), budget.seconds)
    tuples = rows[: budget.rows, : len(prepared.query.variables)]
    return Answers(engine.kb, prepared, freeze(tuples), skip, truncated=len(rows) > len(tuples))


query = answers
"""The same function as `gaifman.query`."""


@checked
def count(
    kb: Queryable,
    query: str | Query,
    bindings: Bindings | None = None,
    *,
    budget: Budget = DEFAULT_BUDGET,
    **objects: str,
) -> int:
    """Return the number of answers of a query."""
    engine = get_engine(kb)
    return count_answers(engine, prepare(engine, query, {**(bindings or {}), **objects}, budget), budget)


def count_answers(engine: Engine, prepared: PreparedQuery, budget: Budget = DEFAULT_BUDGET) -> int:
    """Return the number of answers of a prepared query."""
    return engine.database.fetch_scalar(prepared.statement.count_sql(), budget.seconds)


@checked
def exists(
    kb: Queryable,
    query: str | Query,
    bindings: Bindings | None = None,
    *,
    budget: Budget = DEFAULT_BUDGET,
    **objects: str,
) -> bool:
    """Return whether a query has an answer, or a sentence is true."""
    engine = get_engine(kb)
    prepared = prepare(engine, query, {**(bindings or {}), **objects}, budget, sentence=True)
    return engine.database.fetch_scalar(prepared.statement.sql, budget.seconds) > 0


@checked
def stream(
    kb: Queryable,
    query: str | Query,
    bindings: Bindings | None = None,
    *,
    batch_size: int = BATCH_SIZE,
    budget: Budget = DEFAULT_BUDGET,
    **objects: str,
) -> Iterator[Ints]:
    """Yield the answers in the same order, as arrays of shape (at most `batch_size`, variables).

    Only one batch is in memory. Errors in the query are raised at once.
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
    """Yield the answers of a prepared query in batches."""
    check_int("skip", skip, 0)
    check_int("batch_size", batch_size, 1)
    width = len(prepared.query.variables)
    batches = engine.database.fetch_batches(
        prepared.statement.ordered_sql(budget.rows, skip), batch_size, budget.seconds
    )
    return (batch[:, :width] for batch in batches)


def prepare(
    kb: Queryable,
    query: str | Query,
    bindings: Bindings | None = None,
    budget: Budget = DEFAULT_BUDGET,
    *,
    sentence: bool = False,
) -> PreparedQuery:
    """Parse, check and translate a query; refuse it if it implies more combinations than the budget allows.

    With `sentence`, the statement only tests whether there is an answer.
    """
    if isinstance(kb, Engine) and isinstance(query, str):
        prepared = _prepare_cached(kb, query, bindings or {}, sentence)
    else:
        prepared = _prepare(kb.kb if isinstance(kb, Engine) else kb, query, bindings or {}, sentence)
    statement = prepared.statement
    if statement.combinations > budget.combinations:
        name = statement.unrestricted[0]
        raise LimitError(
            f"{prepared.note}, more than {budget.combinations:,}",
            hint=f"restrict {name} by facts, as in person({name}) & …, or bind it to an object",
        )
    return prepared


def _prepare_cached(engine: Engine, text: str, bindings: Bindings, sentence: bool) -> PreparedQuery:
    """Return the translation of a query from the cache, or add it."""
    cache, key = engine.database.cache, (text, *bindings.items(), sentence)
    prepared: PreparedQuery | None = cache.get(key)
    if prepared is None:
        prepared = _prepare(engine.kb, text, bindings, sentence)
        if len(cache) >= MAX_CACHED_QUERIES:
            cache.clear()
        cache[key] = prepared
    return prepared


def _prepare(kb: KnowledgeBase, query: str | Query, bindings: Bindings, sentence: bool) -> PreparedQuery:
    query = parse_query(query, kb) if isinstance(query, str) else _check_query(query, kb)
    numbers = _bind_objects(kb, query, bindings)
    statement = translate(query, kb, numbers, sentence=sentence)
    return PreparedQuery(query, {v.name: kb.object_name(number) for v, number in numbers.items()}, statement)


def _check_query(query: Query, kb: KnowledgeBase) -> Query:
    """Check a query that was not parsed; its constants need not be objects."""
    kb.schema.check(query, allow_unknown_objects=True)
    missing = [v for v in free_variables(query.formula) if v not in query.variables]
    if missing or len(set(query.variables)) < len(query.variables):
        raise FormulaError(f"the variables of a query must be its free variables, each once, got {query.variables}")
    if relations := free_relation_variables(query.formula):
        raise FormulaError(
            f"the relation variable {relations[0].name} is not bound", hint=f"write: exists {relations[0].name}. …"
        )
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
