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

from gaifman.config import BUDGET, Budget
from gaifman.engine import Engine, engine_of
from gaifman.errors import FormulaError, LimitError
from gaifman.facts import some
from gaifman.formulas import Variable, bracketed, free, free_relations
from gaifman.kb import KnowledgeBase
from gaifman.markup import bold, code, line, quiet, table, together
from gaifman.names import nearest
from gaifman.parser import parse_query
from gaifman.questions import Query
from gaifman.sql import Statement, translate
from gaifman.tables import Ints

BATCH = 100_000
"""Answers in one part of a stream."""
KEPT = 1_000
"""Translated queries that an engine keeps."""
SHOWN = 20
"""Answers that are printed."""

Known = KnowledgeBase | Engine
"""What is asked: a knowledge base, whose engine is kept with it, or an engine with settings of its own."""
Given = Mapping[str, str]
"""Variable → name of the object that it stands for."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query read, checked and translated."""

    query: Query
    named: Mapping[str, str]
    """Variable → object, for those that were given one."""
    statement: Statement

    @property
    def note(self) -> str:
        """What ranges over the whole domain, in words; empty where nothing does."""
        names = self.statement.ranging
        if not names:
            return ""
        verb = "range" if len(names) > 1 else "ranges"
        return f"{', '.join(names)} {verb} over the whole domain: {self.statement.size:,} combinations"

    def as_dict(self) -> dict[str, Any]:
        """What was asked, for JSON."""
        return {
            "query": str(self.query),
            "reading": bracketed(self.query),
            "variables": [variable.name for variable in self.query.free],
            "given": dict(self.named),
            "ranging": list(self.statement.ranging),
            "combinations": self.statement.size,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Answers of a query, by number of the first object, then of the second and so on; numbers follow names.

    A sentence, which has no variables, has one empty answer where it is true.
    """

    kb: KnowledgeBase
    prepared: Prepared
    tuples: Ints
    """Shape (answers, variables), int32: numbers of objects."""
    skipped: int = 0
    """Answers before the first of these that were asked to be left out."""
    truncated: bool = False
    """Whether there are more behind the last."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the query's variables: those of the columns."""
        return tuple(variable.name for variable in self.prepared.query.free)

    @property
    def reading(self) -> str:
        """The query with every bracket: how it was read."""
        return bracketed(self.prepared.query)

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
        rows = [self.variables, *islice(self, SHOWN)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        rest = len(self) - SHOWN
        lines += [f"… and {rest:,} more"] if rest > 0 else []
        return "\n".join([self.reading, *lines] if self.variables else [self.reading, str(len(self) > 0).lower()])

    def _repr_html_(self) -> str:
        """In a notebook: the same as a table; how many there are stands below."""
        if not self.variables:
            return together(line(code(self.reading), ": ", bold(str(len(self) > 0).lower())))
        rest = len(self) - SHOWN
        more = [line(f"… and {rest:,} more")] if rest > 0 else []
        count = f"{some(len(self), 'answer')}{', and there are more' * self.truncated}"
        return together(line(code(self.reading)), table(self.variables, islice(self, SHOWN)), *more, line(quiet(count)))


def answers(
    kb: Known,
    question: str | Query,
    given: Given | None = None,
    *,
    skip: int = 0,
    budget: Budget = BUDGET,
    **objects: str,
) -> Answers:
    """The answers of a query, in a stable order: all, or `budget.rows` of them behind the first `skip`.

    Variables can be given objects by name, as keywords (`x="ann"`) or in `given`.
    """
    engine = engine_of(kb)
    return answered(engine, prepare(engine, question, {**(given or {}), **objects}, budget), budget, skip=skip)


def answered(engine: Engine, prepared: Prepared, budget: Budget = BUDGET, *, skip: int = 0) -> Answers:
    """The answers of a prepared query."""
    _check_whole("answers to skip", skip, 0)
    limit = None if budget.rows is None else budget.rows + 1
    rows = engine.run(prepared.statement.ordered(limit, skip), budget.seconds)[:, : len(prepared.query.free)]
    truncated = limit is not None and len(rows) == limit
    kept = rows[: budget.rows] if truncated else rows
    kept.setflags(write=False)
    return Answers(engine.kb, prepared, kept, skip, truncated)


query = answers
"""The name under which `gaifman.query` has it."""


def count(
    kb: Known, question: str | Query, given: Given | None = None, *, budget: Budget = BUDGET, **objects: str
) -> int:
    """How many answers a query has."""
    engine = engine_of(kb)
    return counted(engine, prepare(engine, question, {**(given or {}), **objects}, budget), budget)


def counted(engine: Engine, prepared: Prepared, budget: Budget = BUDGET) -> int:
    """How many answers a prepared query has."""
    return engine.number(prepared.statement.counted(), budget.seconds)


def exists(
    kb: Known, question: str | Query, given: Given | None = None, *, budget: Budget = BUDGET, **objects: str
) -> bool:
    """Whether a query has an answer: of a sentence, whether it is true."""
    engine = engine_of(kb)
    prepared = prepare(engine, question, {**(given or {}), **objects}, budget, sentence=True)
    return engine.number(prepared.statement.text, budget.seconds) > 0


def stream(
    kb: Known,
    question: str | Query,
    given: Given | None = None,
    *,
    batch: int = BATCH,
    budget: Budget = BUDGET,
    **objects: str,
) -> Iterator[Ints]:
    """The answers in the same order, as arrays (at most `batch`, variables): never more than one part in memory.

    Mistakes in the query are found at once, not with the first part.
    """
    engine = engine_of(kb)
    return streamed(engine, prepare(engine, question, {**(given or {}), **objects}, budget), budget, batch=batch)


def streamed(
    engine: Engine, prepared: Prepared, budget: Budget = BUDGET, *, skip: int = 0, batch: int = BATCH
) -> Iterator[Ints]:
    """The answers of a prepared query, part by part."""
    _check_whole("answers to skip", skip, 0)
    _check_whole("answers of a batch", batch, 1)
    width = len(prepared.query.free)
    parts = engine.batches(prepared.statement.ordered(budget.rows, skip), batch, budget.seconds)
    return (part[:, :width] for part in parts)


def _check_whole(what: str, value: int, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise FormulaError(f"the {what} are a whole number, {least} or more, not {value!r}")


def prepare(
    kb: Known,
    question: str | Query,
    given: Given | None = None,
    budget: Budget = BUDGET,
    *,
    sentence: bool = False,
) -> Prepared:
    """Read, check and translate a query; refused where it implies more combinations than the budget allows.

    As a `sentence` it asks only whether there is an answer.
    """
    if isinstance(kb, Engine) and isinstance(question, str):
        prepared = _kept(kb, question, given or {}, sentence)
    else:
        prepared = _prepared(kb.kb if isinstance(kb, Engine) else kb, question, given or {}, sentence)
    statement = prepared.statement
    if statement.size > budget.combinations:
        raise LimitError(
            f"{prepared.note}, and the limit is {budget.combinations:,}",
            hint=f"tie {statement.ranging[0]} to facts, as in person({statement.ranging[0]}) & …, or give it an object",
        )
    return prepared


def _kept(engine: Engine, text: str, given: Given, sentence: bool) -> Prepared:
    """A query that is asked again is not read and translated again."""
    key = (text, *given.items(), sentence)
    if key not in engine.kept:
        prepared = _prepared(engine.kb, text, given, sentence)
        if len(engine.kept) >= KEPT:
            engine.kept.clear()
        engine.kept[key] = prepared
        return prepared
    found: Prepared = engine.kept[key]
    return found


def _prepared(kb: KnowledgeBase, question: str | Query, given: Given, sentence: bool) -> Prepared:
    query = parse_query(question, kb) if isinstance(question, str) else _checked(question, kb)
    numbers = _numbers(kb, query, given)
    statement = translate(query, kb, numbers, sentence=sentence)
    return Prepared(query, {v.name: kb.name(number) for v, number in numbers.items()}, statement)


def _checked(query: Query, kb: KnowledgeBase) -> Query:
    """A query that was made by hand, whose constants need be no objects."""
    kb.vocabulary.check(query, unknown_objects=True)
    missing = [v for v in free(query.formula) if v not in query.free]
    if missing or len(set(query.free)) < len(query.free):
        raise FormulaError(f"the variables of a query are those that are free in it, each once, not {query.free}")
    if relations := free_relations(query.formula):
        raise FormulaError(f"{relations[0].name} stands for no relation", hint=f"write: exists {relations[0].name}. …")
    return query


def _numbers(kb: KnowledgeBase, query: Query, given: Given) -> dict[Variable, int]:
    numbers = {}
    for name, obj in given.items():
        variable = Variable(name.removeprefix("?"))
        if variable not in query.free:
            known = [v.name for v in query.free]
            listed = f"its variables are {', '.join(known)}" if known else "it has no free variables"
            raise FormulaError(f"the query has no variable {name}", near=nearest(name, known), hint=listed)
        numbers[variable] = kb.id(obj)
    return numbers
