"""Ranked answers: candidates in the order of their probability.

Every candidate is scored. If that takes long, each first gets two draws, and only a shortlist of the best gets the
model's number of draws. A known answer is scored as if it were not known.

Constraints lower the probability of candidates in conflict with known facts. Two kinds of conflict leave a candidate
out, unless it is known or was asked for by name: an object without the declared type of its position, and the same
object twice where no known fact has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gaifman._html import bar, code, muted, paragraph, stack, table
from gaifman._tables import Columns, TableResult, name_columns
from gaifman.config import Deadline, no_deadline
from gaifman.errors import escape_unprintable, plural
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.labels import chosen_labels, label_names
from gaifman.kb.tables import Floats, Ints, rows_in
from gaifman.models.calibration import mean_over_draws
from gaifman.predict import LITTLE_TO_GO_ON, Estimate, Estimates, NetworkPredictor, Predictor
from gaifman.queries.answers import answers as exact_answers
from gaifman.ranking.candidates import DEFAULT_OPTIONS, NO_TYPES, QueryPattern, RankingOptions, select_candidates
from gaifman.sampling.constraints import Conflict, Rule, TypeRule
from gaifman.sampling.hiding import HiddenFacts

MAX_FULL_DRAWS = 20_000
"""Up to this many draws in total, there is no first pass."""
SHORTLIST_PER_ANSWER, MIN_SHORTLIST = 20, 1_000
"""The size of the shortlist, per requested answer, and at least. With 1,000 candidates it missed one of the ten best
pairs of one of four relations of the demo, and none of the ten best objects of 24 queries to FB15k."""
FIRST_PASS_DRAWS, FIRST_PASS_PURPOSE, FIRST_PASS_DIGITS = 2, "look", 5
"""The draws of each candidate in the first pass, the purpose of their keys, and the digits of its scores."""
MAX_SET_NAMES, COVERAGE, MIN_EXPECTED = 8, 0.9, 0.1
"""Objects of an answer set that are printed, how often the missing answer is among them, and how many answers are
expected to be missing before there is a set."""
MAX_PRINTED = 50
"""Answers that are printed."""
COVERED_BLOCK = 50
"""Answers that are checked together for what the model has to go on."""
UNCOVERED_FOOTNOTE = f"{LITTLE_TO_GO_ON}: no formula reaches it, and an object was never seen at its position"

Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]


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
    conflicts: tuple[Conflict, ...] = ()
    """The constraints that make it improbable."""
    uncovered_reason: str = ""
    """Why the model has little to go on, or empty."""
    labels: tuple[str, ...] = ()
    """How the objects are shown; empty if the knowledge base has no labels."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The objects as they are shown: labels for those that have one."""
        return self.labels or self.names

    @property
    def covered(self) -> bool:
        """Whether a formula reaches it, or all its objects were seen at their positions."""
        return not self.uncovered_reason

    @property
    def probability(self) -> float:
        """The value of the estimate."""
        return self.estimate.value

    def __str__(self) -> str:
        cells = [*map(escape_unprintable, self.shown), str(self.estimate), self.note]
        return "  ".join(cell for cell in cells if cell)

    @property
    def note(self) -> str:
        """Whether it is known, its conflicts, and whether the model has little to go on."""
        notes = ["known" * self.known, *(escape_unprintable(conflict.message) for conflict in self.conflicts)]
        notes += [] if self.covered else [LITTLE_TO_GO_ON]
        return "; ".join(note for note in notes if note)

    def as_dict(self) -> dict[str, Any]:
        """The answer as JSON types."""
        conflicts = [conflict.as_dict() for conflict in self.conflicts]
        coverage = {"covered": self.covered, "uncovered_reason": self.uncovered_reason}
        found = {"names": list(self.names), **self.estimate.as_dict(), "known": self.known}
        return found | {"conflicts": conflicts} | coverage


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
    left_out: int = 0
    """Candidates that constraints leave out; not in `count`."""
    uncovered: int = 0
    """Answers that are left out because the model has little to go on."""

    def __str__(self) -> str:
        text = f"{plural(self.count, 'candidate')}: {self.description}"
        if self.left_out:
            text += f", {self.left_out:,} left out by constraints"
        if self.uncovered:
            text += f", {self.uncovered:,} with {LITTLE_TO_GO_ON} left out"
        if not self.first_pass_draws:
            return text
        if self.draws == 1:
            return f"{text}; the best {self.shortlisted:,} of a first pass were scored in full"
        first, full = plural(self.first_pass_draws, "draw"), plural(self.draws, "draw")
        return f"{text}; the best {self.shortlisted:,} by {first} got {full}"

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON types."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class AnswerSet:
    """Candidates among which the answer is, if one is missing: in nine of ten such questions.

    >>> print(AnswerSet(("paris", "lyon"), 0.9))
    If an answer is missing, it is one of 2 in 9 of 10 cases: paris, lyon
    """

    names: tuple[str, ...]
    """The objects, the likeliest first."""
    coverage: float
    """The share of such questions, by held-out facts."""
    labels: tuple[str, ...] = ()
    """How the objects are shown; empty if the knowledge base has no labels."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The objects as they are shown."""
        return self.labels or self.names

    def __str__(self) -> str:
        shown = ", ".join(map(escape_unprintable, self.shown[:MAX_SET_NAMES]))
        more = f", … and {len(self.names) - MAX_SET_NAMES:,} more" if len(self.names) > MAX_SET_NAMES else ""
        cases = f"in {10 * self.coverage:g} of 10 cases"
        if len(self.names) == 1:
            return f"If an answer is missing, it is {shown} {cases}."
        return f"If an answer is missing, it is one of {len(self.names):,} {cases}: {shown}{more}"

    def as_dict(self) -> dict[str, Any]:
        """The set as JSON types."""
        return {"names": list(self.names), "coverage": self.coverage}


class _Once:
    """Calls a function once; it can be pickled."""

    def __init__(self, compute: Callable[[], Sequence[str]]) -> None:
        self._compute = compute
        self._found: Sequence[str] | None = None

    def __call__(self) -> Sequence[str]:
        if self._found is None:
            self._found = self._compute()
        return self._found


@dataclass(frozen=True, slots=True, eq=False)
class RankedAnswers(TableResult):
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
    find_conflicts: Callable[[int], tuple[Conflict, ...]] = field(default=lambda _: (), repr=False)
    """Row → the conflicts of the answer."""
    find_uncovered: Callable[[], Sequence[str]] = field(default=tuple, repr=False)
    """Why the model has little to go on, for each answer; empty for others."""
    answer_set: AnswerSet | None = None
    """Where a missing answer is, nine times in ten; None for several variables, if hardly any answer is missing, and if
    the model does not know it."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the query, in the order of an answer's names."""
        return self.pattern.variables

    @property
    def bracketed(self) -> str:
        """The query with all brackets."""
        return self.pattern.bracketed

    @property
    def shown_query(self) -> str:
        """The query with all brackets, and labels for its objects."""
        return self.pattern.labelled or self.pattern.bracketed

    @property
    def labels(self) -> dict[str, str]:
        """Object → how it is shown, for all objects with a label in the query, the answers and their conflicts."""
        if not self.kb.labels:
            return {}
        numbers = np.unique(np.concatenate([self.tuples.ravel(), self.values.ravel()])).tolist()
        names = [self.kb.object_name(number) for number in numbers]
        facts = (fact for row in range(len(self)) for one in self.find_conflicts(row) for fact in one.facts)
        more = () if self.answer_set is None else self.answer_set.names
        return chosen_labels([*names, *(name for fact in facts for name in fact.objects), *more], self.kb.display)

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
        reasons = self.find_uncovered()
        reason = reasons[row] if reasons else ""
        labels = label_names(names, self.kb.display) if self.kb.labels else ()
        return Answer(names, self.estimates[row], bool(self.known[row]), self.find_conflicts(row), reason, labels)

    def __iter__(self) -> Iterator[Answer]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"<RankedAnswers: {plural(len(self), 'answer')} to {self.bracketed}, of {self.considered}>"

    def __str__(self) -> str:
        rows = [
            (*self.variables, "probability", ""),
            *((*map(escape_unprintable, one.shown), str(one.estimate), one.note) for one in islice(self, MAX_PRINTED)),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        rest = len(self) - MAX_PRINTED
        more = [f"… and {rest:,} more"] if rest > 0 else []
        among = [] if self.answer_set is None else [str(self.answer_set)]
        return "\n".join([self.shown_query, *lines, *more, *self.footnotes, *among, str(self.considered)])

    def columns(self) -> Columns:
        """The variables, then the probability with its standard error, and the note on each answer."""
        listed = list(self)
        own = {
            **self.estimates.columns(),
            "known": [one.known for one in listed],
            "conflicts": ["; ".join(conflict.message for conflict in one.conflicts) for one in listed],
            "covered": [one.covered for one in listed],
        }
        shown = [one.shown for one in listed] if self.kb.labels else None
        return name_columns(self.variables, [one.names for one in listed], own, shown)

    @property
    def footnotes(self) -> list[str]:
        """What the notes of answers mean, if that is not plain."""
        return [UNCOVERED_FOOTNOTE] if any(self.find_uncovered()[:MAX_PRINTED]) else []

    def _repr_html_(self) -> str:
        """The same table with bars, for a notebook."""
        rows = [(*one.shown, bar(one.probability, one.estimate), muted(one.note)) for one in islice(self, MAX_PRINTED)]
        rest = len(self) - MAX_PRINTED
        more = [paragraph(f"… and {rest:,} more")] if rest > 0 else []
        found = table((*self.variables, "probability", ""), rows)
        more += [] if self.answer_set is None else [paragraph(self.answer_set)]
        notes = [paragraph(muted(note)) for note in self.footnotes]
        return stack(paragraph(code(self.shown_query)), found, *more, *notes, paragraph(muted(self.considered)))

    def as_dict(self) -> dict[str, Any]:
        """The query, the answers and the candidates as JSON types."""
        return {
            "query": self.bracketed,
            "variables": list(self.variables),
            "answers": [answer.as_dict() for answer in self],
            "answer_set": None if self.answer_set is None else self.answer_set.as_dict(),
            "considered": self.considered.as_dict(),
            **({"labels": self.labels, "query_labels": self.shown_query} if self.kb.labels else {}),
        }


class FirstPass(Protocol):
    """Scores all candidates quickly, so that only the best are scored in full."""

    @property
    def draws(self) -> int:
        """Draws of each candidate."""

    def shortlist_size(self, candidates: int, draws: int, top: int | None) -> int | None:
        """How many candidates are scored in full; None for all, without a first pass."""

    def scores(self, tuples: Ints, hidden: HiddenFacts, deadline: Deadline) -> Floats:
        """Shape (tuples,), float64: a higher score means a likelier answer."""

    def probabilities(self, scores: Floats) -> Floats:
        """Rough probabilities of tuples with these scores."""


@dataclass(frozen=True, slots=True)
class NetworkFirstPass:
    """A first pass with two draws."""

    predictor: NetworkPredictor

    @property
    def draws(self) -> int:
        """Draws of each candidate."""
        return FIRST_PASS_DRAWS

    def shortlist_size(self, candidates: int, draws: int, top: int | None) -> int | None:
        """How many candidates get all draws; None if a first pass saves no work."""
        size = max(MIN_SHORTLIST, SHORTLIST_PER_ANSWER * (top or 0))
        saves = candidates > size and candidates * draws > MAX_FULL_DRAWS
        return size if top is not None and draws > FIRST_PASS_DRAWS and saves else None

    def scores(self, tuples: Ints, hidden: HiddenFacts, deadline: Deadline) -> Floats:
        """Mean scores over the draws, rounded: ties go by id."""
        sampling = replace(self.predictor.config.sampling(self.draws, FIRST_PASS_PURPOSE), shared_order=True)
        per_draw = self.predictor.probabilities_per_draw(tuples, sampling, hidden, deadline)
        return np.round(mean_over_draws(per_draw, self.predictor.draw_ratio), FIRST_PASS_DIGITS)

    def probabilities(self, scores: Floats) -> Floats:
        """Calibrated scores."""
        return self.predictor.calibration.apply(scores)


def rank_candidates(
    predictor: Predictor,
    pattern: QueryPattern,
    first_pass: FirstPass | None = None,
    draws: int | None = None,
    options: RankingOptions = DEFAULT_OPTIONS,
) -> RankedAnswers:
    """Return the most probable answers to a pattern of the predictor's query.

    Without a first pass all candidates are scored in full.
    """
    budget = predictor.budget(draws, options.deadline)
    chosen = _choose_tuples(predictor, pattern, options)
    tuples, hidden = chosen.tuples, chosen.hidden
    shortlist, first_pass_draws = np.arange(len(tuples)), 0
    size = None if first_pass is None else first_pass.shortlist_size(len(tuples), budget.draws, options.top)
    if first_pass is not None and size is not None:
        order = _rank_order(_first_scores(first_pass, predictor, tuples, hidden, options.deadline), tuples)
        shortlist, first_pass_draws = np.sort(order[:size]), first_pass.draws
    estimates = predictor.estimate(tuples[shortlist], hidden.select(shortlist), budget)
    order, uncovered = _rank_order(estimates.values, tuples[shortlist]), 0
    if options.covered:
        seen = tuples[shortlist], hidden.select(shortlist), chosen.known[shortlist]
        order, uncovered = _best_covered(predictor, order, *seen, options)
    order = order[: options.top]
    best, full_draws = shortlist[order], int(estimates.draws.max(initial=0))
    expected = float(estimates.values[~chosen.known[shortlist]].sum())
    among = _answer_set(predictor, pattern, tuples[~chosen.known], options) if expected >= MIN_EXPECTED else None
    return RankedAnswers(
        predictor.kb,
        pattern,
        pattern.values(tuples[best]),
        estimates.select(order),
        chosen.known[best],
        CandidateSummary(
            len(tuples), chosen.description, full_draws, len(shortlist), first_pass_draws, chosen.left_out, uncovered
        ),
        tuples[best],
        partial(_conflicts_of, predictor, tuples[best], hidden.select(best)),
        _Once(partial(predictor.uncovered_reasons, tuples[best], hidden.select(best))),
        among,
    )


def _answer_set(predictor: Predictor, pattern: QueryPattern, tuples: Ints, options: RankingOptions) -> AnswerSet | None:
    """The answer set of a question for the object at one position, among the candidates that are not known."""
    positions = [position for name in pattern.variables for position in pattern.positions_of(name)]
    if len(positions) != 1 or options.restrict_to or options.known == "only":
        return None
    rows = predictor.answer_set(tuples, positions[0], options.deadline)
    if rows is None:
        return None
    names = tuple(predictor.kb.object_name(obj) for obj in tuples[rows, positions[0]].tolist())
    return AnswerSet(names, COVERAGE, label_names(names, predictor.kb.display) if predictor.kb.labels else ())


def _conflicts_of(predictor: Predictor, tuples: Ints, hidden: HiddenFacts, row: int) -> tuple[Conflict, ...]:
    """The conflicts of one of some tuples."""
    at = np.array([row % len(tuples)])
    return predictor.conflicts(tuples[at], hidden.select(at))


def _best_covered(
    predictor: Predictor, order: Rows, tuples: Ints, hidden: HiddenFacts, known: Bools, options: RankingOptions
) -> tuple[Rows, int]:
    """The first rows of an order that are known or covered, and how many others come before the last of them."""
    kept, left_out = list[int](), 0
    for begin in range(0, len(order), COVERED_BLOCK):
        rows = order[begin : begin + COVERED_BLOCK]
        uncovered = predictor.uncovered(tuples[rows], hidden.select(rows), options.deadline) & ~known[rows]
        for row, leave_out in zip(rows.tolist(), uncovered.tolist(), strict=True):
            if len(kept) == options.top:
                return np.array(kept, np.intp), left_out
            left_out += leave_out
            kept += [] if leave_out else [row]
    return np.array(kept, np.intp), left_out


def _first_scores(
    first_pass: FirstPass, predictor: Predictor, tuples: Ints, hidden: HiddenFacts, deadline: Deadline
) -> Floats:
    """Scores (b,) of the first pass; with conflicts, as probabilities with constraints."""
    scores = first_pass.scores(tuples, hidden, deadline)
    if predictor.constraints is None:
        return scores
    probabilities = first_pass.probabilities(scores)
    factors = predictor.constraints.factors(tuples, hidden, probabilities, deadline)
    return scores if (factors == 1).all() else probabilities * factors


@dataclass(frozen=True, slots=True)
class _ChosenTuples:
    """The tuples that a ranking scores."""

    tuples: Ints
    """Shape (b, arity), int32."""
    known: Bools
    """Shape (b,): whether it is a known answer."""
    hidden: HiddenFacts
    """What each may not see."""
    description: str
    left_out: int
    """Candidates that constraints leave out."""


def _choose_tuples(predictor: Predictor, pattern: QueryPattern, options: RankingOptions) -> _ChosenTuples:
    """The candidates as tuples, without excluded ones."""
    answers, checker = known_answers(predictor, pattern, options.deadline), predictor.constraints
    types = NO_TYPES if checker is None else checker.allowed_objects(options.deadline)
    candidates = select_candidates(predictor.kb, predictor.query, pattern, answers, options, types)
    tuples, description = pattern.tuples(candidates.values), candidates.description
    known, rows = rows_in(tuples, answers), np.arange(len(tuples))
    if options.known == "exclude":
        rows, description = rows[~known], f"{description}, without known answers"
    false = _known_negatives(predictor, tuples[rows])
    if false.any():
        rows, description = rows[~false], f"{description}, without {plural(int(false.sum()), 'known negative')}"
    hidden = predictor.hidden_facts(tuples[rows], options.deadline.limit_budget())
    kept = known[rows] | ~_left_out(predictor, pattern, tuples[rows], hidden, options)
    tuples, known = tuples[rows[kept]], known[rows[kept]]
    return _ChosenTuples(tuples, known, hidden.select(np.flatnonzero(kept)), description, int((~kept).sum()))


def _known_negatives(predictor: Predictor, tuples: Ints) -> Bools:
    """Shape (b,): which tuples a person rejected; only of a relation."""
    relation = predictor.query.atomic_relation
    if relation is None or relation not in predictor.kb.relations:
        return np.zeros(len(tuples), bool)
    return rows_in(tuples, predictor.kb.rejected_tuples(relation))


def _left_out(
    predictor: Predictor, pattern: QueryPattern, tuples: Ints, hidden: HiddenFacts, options: RankingOptions
) -> Bools:
    """Shape (b,): which tuples are not even proposed, by constraints."""
    excluded = np.zeros(len(tuples), bool)
    if predictor.constraints is None or options.candidates == "all" or options.known == "only":
        return excluded
    for rule in predictor.constraints.rules(options.deadline):
        if rule.excludes and not _asked_directly(rule, pattern, options):
            excluded |= rule.certainty(tuples, hidden) >= 1
    return excluded


def _asked_directly(rule: Rule, pattern: QueryPattern, options: RankingOptions) -> bool:
    """Whether the query itself names the objects that a rule is about, or repeats a variable there."""
    terms = [pattern.terms[position] for position in rule.positions]
    named = {
        name
        for name, objects in options.restrict_to.items()
        if isinstance(rule, TypeRule) or not isinstance(objects, str)
    }
    return len(set(terms)) < len(terms) or all(not isinstance(term, str) or term in named for term in terms)


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


def _rank_order(values: Floats, tuples: Ints) -> npt.NDArray[np.intp]:
    """The rows from the largest value to the smallest; ties by object id."""
    return np.lexsort((*tuples.T[::-1], -values))
