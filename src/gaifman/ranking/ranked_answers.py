"""Ranked answers: candidates in the order of their probability.

Every candidate is scored. If that takes long, each first gets two draws, and only a shortlist of the best gets the
model's number of draws. A known answer is scored as if it were not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman._html import bar, code, muted, paragraph, stack, table
from gaifman.cancellation import Deadline, no_deadline
from gaifman.errors import escape_unprintable, plural
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, rows_in
from gaifman.predict import Estimate, Estimates, Predictor
from gaifman.queries.answers import answers as exact_answers
from gaifman.ranking.candidates import DEFAULT_OPTIONS, QueryPattern, RankingOptions, select_candidates
from gaifman.ranking.fast_scoring import FIRST_PASS_DRAWS, FastScorer

MAX_FULL_DRAWS = 20_000
"""Up to this many draws in total, there is no first pass."""
SHORTLIST_PER_ANSWER, MIN_SHORTLIST = 20, 1_000
"""The size of the shortlist, per requested answer, and at least. With 200 candidates the shortlist missed a quarter of
the ten best pairs of four relations of the demo, with 1,000 none; nor did it miss one of the ten best objects of 24
queries to FB15k."""
FIRST_PASS_DIGITS = 5
"""Scores of the first pass are rounded: the two ways to compute them differ in the last bits, and ties go by id."""
MAX_PRINTED = 50
"""Answers that are printed."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Answer:
    """One ranked answer.

    >>> print(Answer(("paris",), Estimate(0.97, 0.01, 10), known=True))
    paris  0.970 ± 0.010  known
    """

    names: tuple[str, ...]
    """The objects of the variables."""
    estimate: Estimate
    """The probability, with standard error and number of draws."""
    known: bool
    """Whether it is an answer in the knowledge base."""

    @property
    def probability(self) -> float:
        """The value of the estimate."""
        return self.estimate.value

    def __str__(self) -> str:
        cells = [*map(escape_unprintable, self.names), str(self.estimate), *(["known"] if self.known else [])]
        return "  ".join(cells)

    def as_dict(self) -> dict[str, Any]:
        """The answer as JSON types."""
        return {"names": list(self.names), **self.estimate.as_dict(), "known": self.known}


@dataclass(frozen=True, slots=True)
class CandidateSummary:
    """Which candidates were scored, and how.

    >>> print(CandidateSummary(25_600, "pairs of country and city", 10, 200, 2))
    25,600 candidates: pairs of country and city; the best 200 by 2 draws got 10 draws
    """

    count: int
    """Candidates, without excluded ones."""
    description: str
    """Where they come from."""
    draws: int
    """Draws of each candidate, or of each shortlisted one; 0 if the relation has no trained model."""
    shortlisted: int
    """Candidates that got these draws."""
    first_pass_draws: int = 0
    """Draws of the first pass; 0 if there was none."""

    def __str__(self) -> str:
        text = f"{plural(self.count, 'candidate')}: {self.description}"
        if not self.first_pass_draws:
            return text
        first, full = plural(self.first_pass_draws, "draw"), plural(self.draws, "draw")
        return f"{text}; the best {self.shortlisted:,} by {first} got {full}"

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON types."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class RankedAnswers:
    """Answers, the most probable first; ties are ordered by object id.

    Iterate over it, index it, or print it as a table.
    """

    kb: KnowledgeBase
    pattern: QueryPattern
    values: Ints
    """Shape (answers, variables), int32: object ids."""
    estimates: Estimates
    """The probability of each answer."""
    known: Bools
    """Shape (answers,): whether it is an answer in the knowledge base."""
    considered: CandidateSummary
    """Which candidates were scored."""
    tuples: Ints = field(repr=False)
    """Shape (answers, arity), int32: the tuples, with the fixed objects."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the query, in the order of an answer's names."""
        return self.pattern.variables

    @property
    def bracketed(self) -> str:
        """The query with all brackets."""
        return self.pattern.bracketed

    @property
    def probabilities(self) -> Floats:
        """Shape (answers,), float64: the values of the estimates."""
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
        return f"<RankedAnswers: {plural(len(self), 'answer')} to {self.bracketed}, of {self.considered}>"

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
        """The same table with bars, for a notebook."""
        rows = [
            (*one.names, bar(one.probability, one.estimate), muted("known" * one.known))
            for one in islice(self, MAX_PRINTED)
        ]
        rest = len(self) - MAX_PRINTED
        more = [paragraph(f"… and {rest:,} more")] if rest > 0 else []
        found = table((*self.variables, "probability", ""), rows)
        return stack(paragraph(code(self.bracketed)), found, *more, paragraph(muted(self.considered)))

    def as_dict(self) -> dict[str, Any]:
        """The query, the answers and the candidates as JSON types."""
        return {
            "query": self.bracketed,
            "variables": list(self.variables),
            "answers": [answer.as_dict() for answer in self],
            "considered": self.considered.as_dict(),
        }


def rank_candidates(
    predictor: Predictor,
    pattern: QueryPattern,
    fast_scorer: FastScorer | None = None,
    draws: int | None = None,
    options: RankingOptions = DEFAULT_OPTIONS,
) -> RankedAnswers:
    """Return the most probable answers to a pattern of the predictor's query.

    Without a fast scorer there is no first pass: all candidates get all draws.
    """
    budget = predictor.budget(draws, options.deadline)
    answers = known_answers(predictor, pattern, options.deadline)
    candidates = select_candidates(predictor.graph, predictor.query, pattern, answers, options)
    tuples = pattern.tuples(candidates.values)
    known = rows_in(tuples, answers)
    description = candidates.description
    if options.known == "exclude":
        tuples, known, description = tuples[~known], known[~known], f"{description}, without known answers"
    hidden = predictor.hidden_facts(tuples, options.deadline.limit_budget())
    shortlist, first_pass_draws = np.arange(len(tuples)), 0
    if fast_scorer is not None and _needs_first_pass(len(tuples), budget.draws, options.top):
        scores = fast_scorer.scores(predictor, tuples, hidden, options.deadline)
        order = _rank_order(np.round(scores, FIRST_PASS_DIGITS), tuples)
        shortlist, first_pass_draws = np.sort(order[: _shortlist_size(options.top)]), FIRST_PASS_DRAWS
    estimates = predictor.estimate(tuples[shortlist], hidden.select(shortlist), budget)
    order = _rank_order(estimates.values, tuples[shortlist])[: options.top]
    best, full_draws = shortlist[order], int(estimates.draws.max(initial=0))
    return RankedAnswers(
        predictor.kb,
        pattern,
        pattern.values(tuples[best]),
        estimates.select(order),
        known[best],
        CandidateSummary(len(tuples), description, full_draws, len(shortlist), first_pass_draws),
        tuples[best],
    )


def known_answers(predictor: Predictor, pattern: QueryPattern, deadline: Deadline | None = None) -> Ints:
    """Shape (b, arity), int32: known answers of the query; with one free variable, only those that can match."""
    query, kb = predictor.query, predictor.kb
    relation = query.atomic_relation
    if relation is not None:
        return kb.tuples(relation)
    fixed = zip(query.variables, pattern.terms, strict=True)
    one_free = len(pattern.variables) < 2
    bindings = {v.name: kb.object_name(term) for v, term in fixed if one_free and not isinstance(term, str)}
    return exact_answers(kb, query, bindings, budget=(deadline or no_deadline()).limit_budget()).tuples


def _needs_first_pass(count: int, draws: int, top: int | None) -> bool:
    """Whether a first pass saves work."""
    if top is None or draws <= FIRST_PASS_DRAWS:
        return False
    return count > _shortlist_size(top) and count * draws > MAX_FULL_DRAWS


def _shortlist_size(top: int | None) -> int:
    return max(MIN_SHORTLIST, SHORTLIST_PER_ANSWER * (top or 0))


def _rank_order(values: Floats, tuples: Ints) -> npt.NDArray[np.intp]:
    """The rows from the largest value to the smallest; ties by object id."""
    return np.lexsort((*tuples.T[::-1], -values))
