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

from gaifman.candidates import CHOICE, Among, Candidates, Choice, candidates, known_candidates
from gaifman.deadlines import Deadline, never
from gaifman.errors import KnowledgeError, visible
from gaifman.facts import some
from gaifman.glances import LOOK
from gaifman.judging import Estimate, Estimates, Judge, own_fact
from gaifman.kb import KnowledgeBase
from gaifman.markup import bar, code, line, quiet, table, together
from gaifman.names import nearest
from gaifman.neighbourhoods import Hidden
from gaifman.patterns import Pattern
from gaifman.queries import answers as exact
from gaifman.questions import Query
from gaifman.tables import Floats, Ints

KNOWN = ("mark", "leave out", "only")
"""What happens to known answers."""
PLENTY = 20_000
"""Neighbourhoods that are drawn without a first look: all candidates get their full draws."""
TIMES, LEAST = 20, 1_000
"""Candidates that a first look keeps: so many for each answer wanted, and so many at least. Of the ten best pairs of
four relations of the demo, 200 missed a quarter, 1,000 none; nor of the ten best objects of 24 questions to FB15k."""
DIGITS = 5
"""Of a first look: drawn or looked up it is the same but for the last bits, and who looks alike must go by number."""
SHOWN = 50
"""Answers that are printed."""

Bools = npt.NDArray[np.bool_]
Estimating = Callable[[Ints, Hidden, int], Estimates]
"""What a model says of tuples (b, places), from which facts are hidden, over so many draws."""
Glancing = Callable[[Ints, Hidden], Floats]
"""How such tuples look at first: a number for each, the larger the better."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What is wanted of answers."""

    top: int | None = 10
    """How many; None for all candidates."""
    known: str = "mark"
    """Known answers are marked (`mark`), left out (`leave out`), or the `only` candidates."""
    among: Among = field(default_factory=dict)
    """What variables are limited to: a type, or names."""
    choice: Choice = CHOICE
    """Where candidates come from."""
    deadline: Deadline = field(default_factory=never)
    """When the ranking is stopped; asked between blocks of candidates."""

    def __post_init__(self) -> None:
        if self.known not in KNOWN:
            raise KnowledgeError(
                f"known answers are treated by one of {', '.join(map(repr, KNOWN))}, not {self.known!r}",
                near=nearest(str(self.known), KNOWN),
            )
        whole = isinstance(self.top, int) and not isinstance(self.top, bool)
        if self.top is not None and (not whole or self.top < 1):
            raise KnowledgeError(f"top is a whole number, 1 or more, or None for all, not {self.top!r}")


RANKING = Ranking()


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
        cells = [*map(visible, self.names), str(self.estimate), *(["known"] if self.known else [])]
        return "  ".join(cells)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: an error that is not known, of a single draw, is null."""
        value, error, draws = self.estimate.value, self.estimate.error, self.estimate.draws
        said = {"probability": value, "error": None if np.isnan(error) else error, "draws": draws}
        return {"names": list(self.names), **said, "known": self.known}


@dataclass(frozen=True, slots=True)
class Considered:
    """What was looked at.

    >>> print(Considered(25_600, "pairs of objects seen at these places", 10, 200, 2))
    25,600 candidates: pairs of objects seen at these places; the best 200 by 2 draws got 10 draws
    """

    count: int
    """Candidates, without those left out."""
    words: str
    """Where they come from."""
    draws: int
    """Draws for each, or for each that a first look kept; 0 where nothing was learnt, and nothing is drawn."""
    kept: int
    """Candidates that got them."""
    look: int = 0
    """Draws of the first look; 0 where there was none."""

    def __str__(self) -> str:
        text = f"{some(self.count, 'candidate')}: {self.words}"
        if not self.look:
            return text
        return f"{text}; the best {self.kept:,} by {some(self.look, 'draw')} got {some(self.draws, 'draw')}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name) for name in ("count", "words", "draws", "kept", "look")}


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Answers, the most probable first; of those equally probable the one whose objects have lower numbers."""

    kb: KnowledgeBase
    pattern: Pattern
    values: Ints
    """Shape (answers, variables), int32: numbers of objects."""
    estimates: Estimates
    """The probability of each."""
    known: Bools
    """Shape (answers,): whether the knowledge base has it."""
    considered: Considered
    """What was looked at."""
    tuples: Ints = field(repr=False)
    """Shape (answers, places), int32: the whole tuples."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.pattern.variables

    @property
    def reading(self) -> str:
        """What was asked, with every bracket."""
        return self.pattern.reading

    @property
    def probabilities(self) -> Floats:
        """Shape (answers,), float64."""
        return self.estimates.values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, row: int) -> Answer:
        if not -len(self) <= row < len(self):
            raise IndexError(f"there are {some(len(self), 'answer')}")
        names = tuple(self.kb.name(number) for number in self.values[row].tolist())
        return Answer(names, self.estimates[row], bool(self.known[row]))

    def __iter__(self) -> Iterator[Answer]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"<Ranked: {some(len(self), 'answer')} to {self.reading}, of {self.considered}>"

    def __str__(self) -> str:
        rows = [
            (*self.variables, "probability", ""),
            *((*map(visible, one.names), str(one.estimate), "known" * one.known) for one in islice(self, SHOWN)),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        rest = len(self) - SHOWN
        more = [f"… and {rest:,} more"] if rest > 0 else []
        return "\n".join([self.reading, *lines, *more, str(self.considered)])

    def _repr_html_(self) -> str:
        """In a notebook: the same table, with bars."""
        rows = [
            (*one.names, bar(one.probability, one.estimate), quiet("known" * one.known)) for one in islice(self, SHOWN)
        ]
        rest = len(self) - SHOWN
        more = [line(f"… and {rest:,} more")] if rest > 0 else []
        found = table((*self.variables, "probability", ""), rows)
        return together(line(code(self.reading)), found, *more, line(quiet(self.considered)))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "query": self.reading,
            "variables": list(self.variables),
            "answers": [answer.as_dict() for answer in self],
            "considered": self.considered.as_dict(),
        }


def ranked(
    judge: Judge,
    query: Query,
    pattern: Pattern,
    estimate: Estimating,
    glance: Glancing | None,
    draws: int,
    seed: int,
    ranking: Ranking = RANKING,
) -> Ranked:
    """The most probable answers to a pattern of a query; without a `glance` all candidates are judged in full."""
    seen = known_answers(judge, query, pattern, ranking.deadline)
    found = _candidates(judge, pattern, seen, ranking)
    tuples = pattern.tuples(found.values)
    known = _within(tuples, seen)
    if ranking.known == "leave out":
        tuples, known = tuples[~known], known[~known]
    hidden = judge.secret(query, tuples, seed, ranking.deadline.budget())
    count, look = len(tuples), 0 if glance is None else _look(len(tuples), draws, ranking.top)
    kept = np.arange(count)
    if glance and look:
        first = _order(np.round(glance(tuples, hidden), DIGITS), tuples)
        kept = np.sort(first[: _survivors(ranking.top)])
    estimates = estimate(tuples[kept], hidden.of(kept), draws)
    order = _order(estimates.values, tuples[kept])[: ranking.top]
    drawn = int(estimates.draws.max(initial=0))
    best = kept[order]
    return Ranked(
        judge.kb,
        pattern,
        pattern.values(tuples[best]),
        Estimates(estimates.values[order], estimates.errors[order], estimates.draws[order]),
        known[best],
        Considered(count, _said(found.words, ranking.known), drawn, len(kept), look),
        tuples[best],
    )


def known_answers(judge: Judge, query: Query, pattern: Pattern, deadline: Deadline | None = None) -> Ints:
    """Shape (b, places), int32: known answers of the query; where one variable is left, only those that can fit."""
    relation = own_fact(query)
    if relation is None:
        few = len(pattern.variables) < 2
        objects = zip(query.free, pattern.places, strict=True)
        given = {v.name: judge.kb.name(what) for v, what in objects if few and not isinstance(what, str)}
        return exact(judge.kb, query, given, budget=(deadline or never()).budget()).tuples
    number, table = judge.kb.content.relations.number(relation), judge.kb.tables.get(judge.width)
    if number is None or table is None:
        return np.zeros((0, judge.width), np.int32)
    return table.objects[table.rows(number)]


def _candidates(judge: Judge, pattern: Pattern, seen: Ints, ranking: Ranking) -> Candidates:
    if ranking.known == "only":
        return known_candidates(judge.kb, pattern, seen, ranking.among)
    return candidates(judge.graph, pattern, seen, ranking.among, ranking.choice, ranking.deadline)


def _said(words: str, known: str) -> str:
    return f"{words}, without known answers" if known == "leave out" else words


def _look(count: int, draws: int, top: int | None) -> int:
    """Draws of a first look; 0 where it would spare nothing."""
    if top is None or draws <= LOOK or count <= _survivors(top) or count * draws <= PLENTY:
        return 0
    return LOOK


def _survivors(top: int | None) -> int:
    """Candidates that a first look keeps."""
    return max(LEAST, TIMES * (top or 0))


def _order(values: Floats, tuples: Ints) -> npt.NDArray[np.intp]:
    """The most probable first, then by the numbers of the objects."""
    return np.lexsort((*tuples.T[::-1], -values))


def _within(tuples: Ints, others: Ints) -> Bools:
    """Which of the tuples are among the others."""
    both = np.concatenate([tuples, others])
    codes = np.zeros(len(both), np.int64)
    for column in both.T:  # made small again after each column: no product of objects is too large
        codes = np.unique(codes * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
    return np.isin(codes[: len(tuples)], codes[len(tuples) :])
