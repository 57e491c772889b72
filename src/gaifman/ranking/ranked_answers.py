"""Answers in the order of their probability: of objects for one variable of a query, of pairs for two.

Every candidate is judged. Where that would take long, each gets a few neighbourhoods first; those that look best then
get as many as any answer, and only these are ranked. A known answer is judged as if it were not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman._html import bar, code, muted, paragraph, stack, table
from gaifman.cancellation import Deadline, no_deadline
from gaifman.config import check_choice, check_int
from gaifman.errors import escape_unprintable, plural
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints
from gaifman.logic.ast import Query
from gaifman.predict import Estimate, Estimates, Predictor
from gaifman.queries.answers import answers as exact
from gaifman.ranking.candidates import (
    DEFAULT_STRATEGY,
    Candidates,
    CandidateStrategy,
    QueryPattern,
    Restriction,
    select_candidates,
    select_known_candidates,
)
from gaifman.ranking.fast_scoring import FIRST_PASS_DRAWS
from gaifman.sampling.neighbourhoods import HiddenFacts

KNOWN_MODES = ("mark", "exclude", "only")
"""What happens to known answers."""
MAX_FULL_DRAWS = 20_000
"""Neighbourhoods that are drawn without a first look: all candidates get their full draws."""
SHORTLIST_PER_ANSWER, MIN_SHORTLIST = 20, 1_000
"""Candidates that a first look keeps: so many for each answer wanted, and so many at least. Of the ten best pairs of
four relations of the demo, 200 missed a quarter, 1,000 none; nor of the ten best objects of 24 questions to FB15k."""
FIRST_PASS_DIGITS = 5
"""Of a first look: drawn or looked up it is the same but for the last bits, and who looks alike must go by number."""
MAX_PRINTED = 50
"""Answers that are printed."""

Bools = npt.NDArray[np.bool_]
EstimateFunction = Callable[[Ints, HiddenFacts, int], Estimates]
"""What a model says of tuples (b, places), from which facts are hidden, over so many draws."""
FirstPassFunction = Callable[[Ints, HiddenFacts], Floats]
"""How such tuples look at first: a number for each, the larger the better."""


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """What is wanted of answers."""

    top: int | None = 10
    """How many; None for all candidates."""
    known: str = "mark"
    """Known answers are marked (`mark`), left out (`leave out`), or the `only` candidates."""
    restrict_to: Restriction = field(default_factory=dict)
    """What variables are limited to: a type, or names."""
    strategy: CandidateStrategy = DEFAULT_STRATEGY
    """Where candidates come from."""
    deadline: Deadline = field(default_factory=no_deadline)
    """When the ranking is stopped; asked between blocks of candidates."""

    def __post_init__(self) -> None:
        check_choice("known", self.known, KNOWN_MODES)
        if self.top is not None:
            check_int("top", self.top, 1)


DEFAULT_OPTIONS = RankingOptions()


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer.

    >>> print(Answer(("paris",), Estimate(0.97, 0.01, 10), known=True))
    paris  0.970 ± 0.010  known
    """

    names: tuple[str, ...]
    """The objects that the variables stand for."""
    estimate: Estimate
    """Its probability, with the standard error and the draws."""
    known: bool
    """Whether the knowledge base has it."""

    @property
    def probability(self) -> float:
        """How probable it is."""
        return self.estimate.value

    def __str__(self) -> str:
        cells = [*map(escape_unprintable, self.names), str(self.estimate), *(["known"] if self.known else [])]
        return "  ".join(cells)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: an error that is not known, of a single draw, is null."""
        value, error, draws = self.estimate.value, self.estimate.error, self.estimate.draws
        said = {"probability": value, "standard_error": None if np.isnan(error) else error, "draws": draws}
        return {"names": list(self.names), **said, "known": self.known}


@dataclass(frozen=True, slots=True)
class CandidateSummary:
    """What was looked at.

    >>> print(CandidateSummary(25_600, "pairs of objects seen at these places", 10, 200, 2))
    25,600 candidates: pairs of objects seen at these places; the best 200 by 2 draws got 10 draws
    """

    count: int
    """Candidates, without those left out."""
    description: str
    """Where they come from."""
    draws: int
    """Draws for each, or for each that a first look kept; 0 where nothing was learnt, and nothing is drawn."""
    shortlisted: int
    """Candidates that got them."""
    first_pass_draws: int = 0
    """Draws of the first look; 0 where there was none."""

    def __str__(self) -> str:
        text = f"{plural(self.count, 'candidate')}: {self.description}"
        if not self.first_pass_draws:
            return text
        return f"{text}; the best {self.shortlisted:,} by {plural(self.first_pass_draws, 'draw')} got {plural(self.draws, 'draw')}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            name: getattr(self, name) for name in ("count", "description", "draws", "shortlisted", "first_pass_draws")
        }


@dataclass(frozen=True, slots=True, eq=False)
class RankedAnswers:
    """Answers, the most probable first; of those equally probable the one whose objects have lower numbers."""

    kb: KnowledgeBase
    pattern: QueryPattern
    values: Ints
    """Shape (answers, variables), int32: numbers of objects."""
    estimates: Estimates
    """The probability of each."""
    known: Bools
    """Shape (answers,): whether the knowledge base has it."""
    considered: CandidateSummary
    """What was looked at."""
    tuples: Ints = field(repr=False)
    """Shape (answers, places), int32: the whole tuples."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.pattern.variables

    @property
    def bracketed(self) -> str:
        """What was asked, with every bracket."""
        return self.pattern.bracketed

    @property
    def probabilities(self) -> Floats:
        """Shape (answers,), float64."""
        return self.estimates.values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, row: int) -> Answer:
        if not -len(self) <= row < len(self):
            raise IndexError(f"there are {plural(len(self), 'answer')}")
        names = tuple(self.kb.object_name(number) for number in self.values[row].tolist())
        return Answer(names, self.estimates[row], bool(self.known[row]))

    def __iter__(self) -> Iterator[Answer]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"<Ranked: {plural(len(self), 'answer')} to {self.bracketed}, of {self.considered}>"

    def __str__(self) -> str:
        rows = [
            (*self.variables, "probability", ""),
            *(
                (*map(escape_unprintable, one.names), str(one.estimate), "known" * one.known)
                for one in islice(self, MAX_PRINTED)
            ),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        rest = len(self) - MAX_PRINTED
        more = [f"… and {rest:,} more"] if rest > 0 else []
        return "\n".join([self.bracketed, *lines, *more, str(self.considered)])

    def _repr_html_(self) -> str:
        """In a notebook: the same table, with bars."""
        rows = [
            (*one.names, bar(one.probability, one.estimate), muted("known" * one.known))
            for one in islice(self, MAX_PRINTED)
        ]
        rest = len(self) - MAX_PRINTED
        more = [paragraph(f"… and {rest:,} more")] if rest > 0 else []
        found = table((*self.variables, "probability", ""), rows)
        return stack(paragraph(code(self.bracketed)), found, *more, paragraph(muted(self.considered)))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "query": self.bracketed,
            "variables": list(self.variables),
            "answers": [answer.as_dict() for answer in self],
            "considered": self.considered.as_dict(),
        }


def rank_candidates(
    predictor: Predictor,
    query: Query,
    pattern: QueryPattern,
    estimate: EstimateFunction,
    first_pass: FirstPassFunction | None,
    draws: int,
    seed: int,
    options: RankingOptions = DEFAULT_OPTIONS,
) -> RankedAnswers:
    """The most probable answers to a pattern of a query; without a `glance` all candidates are judged in full."""
    seen = known_answers(predictor, query, pattern, options.deadline)
    found = _select(predictor, pattern, seen, options)
    tuples = pattern.tuples(found.values)
    known = _rows_in(tuples, seen)
    if options.known == "exclude":
        tuples, known = tuples[~known], known[~known]
    hidden = predictor.hidden_facts(query, tuples, seed, options.deadline.limit_budget())
    count, look = len(tuples), 0 if first_pass is None else _first_pass_draws(len(tuples), draws, options.top)
    kept = np.arange(count)
    if first_pass and look:
        first = _rank_order(np.round(first_pass(tuples, hidden), FIRST_PASS_DIGITS), tuples)
        kept = np.sort(first[: _shortlist_size(options.top)])
    estimates = estimate(tuples[kept], hidden.select(kept), draws)
    order = _rank_order(estimates.values, tuples[kept])[: options.top]
    drawn = int(estimates.draws.max(initial=0))
    best = kept[order]
    return RankedAnswers(
        predictor.kb,
        pattern,
        pattern.values(tuples[best]),
        Estimates(estimates.values[order], estimates.errors[order], estimates.draws[order]),
        known[best],
        CandidateSummary(count, _describe(found.description, options.known), drawn, len(kept), look),
        tuples[best],
    )


def known_answers(predictor: Predictor, query: Query, pattern: QueryPattern, deadline: Deadline | None = None) -> Ints:
    """Shape (b, places), int32: known answers of the query; where one variable is left, only those that can fit."""
    relation = query.atomic_relation
    if relation is None:
        few = len(pattern.variables) < 2
        objects = zip(query.variables, pattern.terms, strict=True)
        given = {v.name: predictor.kb.object_name(what) for v, what in objects if few and not isinstance(what, str)}
        return exact(predictor.kb, query, given, budget=(deadline or no_deadline()).limit_budget()).tuples
    number, table = predictor.kb.content.relations.find(relation), predictor.kb.fact_tables.get(predictor.width)
    if number is None or table is None:
        return np.zeros((0, predictor.width), np.int32)
    return table.objects[table.rows(number)]


def _select(predictor: Predictor, pattern: QueryPattern, known: Ints, options: RankingOptions) -> Candidates:
    if options.known == "only":
        return select_known_candidates(predictor.kb, pattern, known, options.restrict_to)
    return select_candidates(predictor.graph, pattern, known, options.restrict_to, options.strategy, options.deadline)


def _describe(words: str, known: str) -> str:
    return f"{words}, without known answers" if known == "exclude" else words


def _first_pass_draws(count: int, draws: int, top: int | None) -> int:
    """Draws of a first look; 0 where it would spare nothing."""
    if top is None or draws <= FIRST_PASS_DRAWS or count <= _shortlist_size(top) or count * draws <= MAX_FULL_DRAWS:
        return 0
    return FIRST_PASS_DRAWS


def _shortlist_size(top: int | None) -> int:
    """Candidates that a first look keeps."""
    return max(MIN_SHORTLIST, SHORTLIST_PER_ANSWER * (top or 0))


def _rank_order(values: Floats, tuples: Ints) -> npt.NDArray[np.intp]:
    """The most probable first, then by the numbers of the objects."""
    return np.lexsort((*tuples.T[::-1], -values))


def _rows_in(tuples: Ints, others: Ints) -> Bools:
    """Which of the tuples are among the others."""
    both = np.concatenate([tuples, others])
    codes = np.zeros(len(both), np.int64)
    for column in both.T:  # made small again after each column: no product of objects is too large
        codes = np.unique(codes * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
    return np.isin(codes[: len(tuples)], codes[len(tuples) :])
