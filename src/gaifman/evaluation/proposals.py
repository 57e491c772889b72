"""Do the probabilities of proposed facts hold? Propose facts as a user would, and compare them with held-out ones.

>>> import gaifman
>>> kb = gaifman.demo()
>>> test = gaifman.KnowledgeBase.from_facts([*kb.facts("located_in")][::10])
>>> completion = gaifman.complete(kb.without_facts(test.facts()), ["located_in"], seed=1)
>>> proposals = measure_proposals(completion, kb, test)
>>> proposals.held_out
20
>>> 15 < proposals.expected < 25
True

Every tuple of a relation that is not known is a candidate: one of the objects that `answers` would consider at each
position. It is true if it is a held-out fact. A candidate answers a question at each position; the questions that
held-out facts answer and a sample of the others are asked. Candidates that can have a probability of `MIN_SCORED` are
all scored, a sample of the others stands for the rest.

The probabilities are those of a knowledge base that misses the share of its facts that was held out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman._tables import Columns, TableResult
from gaifman.completion import Completion
from gaifman.config import ProgressCallback, check_threads, checked, checked_methods
from gaifman.errors import KnowledgeBaseError
from gaifman.evaluation.tasks import EvaluationData, category_of
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, Longs, row_ids, rows_in
from gaifman.listwise.odds import choose_rows, sample_by_score, sample_questions
from gaifman.listwise.proposer import Proposer, Shares, without
from gaifman.listwise.scoring import ListwisePredictor
from gaifman.model import GaifmanModel
from gaifman.models.calibration import (
    Reliability,
    fit_isotonic,
    fit_platt,
    fit_temperature,
    logistic,
    reliability,
)
from gaifman.predict import Predictor
from gaifman.sampling.constraints import hide_nothing
from gaifman.sampling.rng import fold_in, make_key
from gaifman.threads import cached_property, map_threaded
from gaifman.training import LISTWISE

MIN_PROPOSED, MIN_CONFIDENT = 0.05, 0.9
"""Probabilities from which on a candidate counts as proposed, and as proposed with confidence."""
MIN_SCORED = 0.02
"""Candidates that can have this probability are all scored."""
MAX_SCORED, OTHERS = 200, 4
"""Candidates of one question: the best, and a sample of the others."""
QUESTIONS, MIN_QUESTIONS = 3_000, 60
"""Questions that held-out facts answer, of all relations at one position, and at least of each; and as many others."""
QUESTIONS_PER_BLOCK = 1_000
"""Questions whose candidates are scored together."""
NO_OBJECTS: Ints = np.zeros(0, np.int32)
FOLDS = 2
"""The rescaled scores are fitted to the other fold."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidates with their probabilities; some stand for others."""

    probabilities: Floats
    """Shape (candidates,), float64."""
    targets: Floats
    """Shape (candidates,), float64: 1 for held-out facts, or their confidence; 0 for others."""
    weights: Floats
    """Shape (candidates,), float64: how many candidates each one stands for."""
    scores: Floats
    """Shape (candidates,), float64: the mean over the positions of the log shares, before any calibration."""
    popularity: Floats
    """Shape (candidates,), float64: the probability that a held-out fact has these objects if it draws each of them by
    its frequency, alone."""
    folds: Longs
    """Shape (candidates,), int64: by the fixed objects of the question."""

    @classmethod
    def concatenate(cls, parts: Sequence[Candidates]) -> Candidates:
        """All candidates."""
        names = cls.__dataclass_fields__
        return cls(*(np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)]) for name in names))


@dataclass(frozen=True, slots=True)
class SetTest:
    """Held-out facts beside the answer sets of the questions that they answer."""

    covered: npt.NDArray[np.bool_]
    """Shape (facts,): whether the object of the fact is in the set."""
    sizes: Longs
    """Shape (facts,), int64: the objects of the set."""
    weights: Floats
    """Shape (facts,), float64: how many facts each one stands for."""
    groups: npt.NDArray[np.str_]
    """Shape (facts,): the category of the relation."""

    @classmethod
    def concatenate(cls, parts: Sequence[SetTest]) -> SetTest:
        """All facts."""
        nothing = cls(np.zeros(0, bool), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, "U1"))
        names = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(part, name) for part in (nothing, *parts)]) for name in names))

    def coverage(self, group: str | None = None) -> dict[str, float]:
        """Of all facts or a group: how many there are, the share that is covered, and the median size of the sets."""
        own = np.ones(len(self.covered), bool) if group is None else self.groups == group
        weights, sizes = self.weights[own], self.sizes[own]
        order = np.argsort(sizes, kind="stable")
        middle = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
        return {
            "facts": round(float(weights.sum()), 3),
            "coverage": round(float((weights * self.covered[own]).sum() / weights.sum()), 6),
            "median_size": int(sizes[order][min(int(middle), len(sizes) - 1)]),
        }

    def as_dict(self) -> dict[str, dict[str, float]]:
        """The coverage of all facts and of each group; nothing without facts."""
        groups = sorted(set(self.groups.tolist()))
        return {"all": self.coverage()} | {name: self.coverage(name) for name in groups} if len(self.covered) else {}


class Quality(NamedTuple):
    """How good probabilities are; sums over all candidates, per held-out fact."""

    brier: float
    log_loss: float
    ece: float | None
    """Of the candidates with at least `MIN_PROPOSED`; None if there are none."""


@checked_methods
@dataclass(frozen=True)
class ProposalTest(TableResult):
    """Proposed facts beside held-out ones."""

    candidates: Candidates
    held_out: int
    """Held-out facts, whether they were candidates or not."""
    missing: float
    """The share of the facts that was held out."""
    sets: SetTest
    """The answer sets."""
    true: float
    """The sum of the confidences of the held-out facts: how many are expected to be true."""

    @property
    def expected(self) -> float:
        """The sum of all probabilities: how many facts are expected to be missing."""
        return float((self.candidates.weights * self.candidates.probabilities).sum())

    @cached_property
    def reliability(self) -> Reliability | None:
        """Of the proposed candidates; None if nothing is proposed."""
        return self._reliability(self.candidates.probabilities)

    def _reliability(self, p: Floats) -> Reliability | None:
        rows = p >= MIN_PROPOSED
        own = self.candidates
        return reliability(p[rows], own.targets[rows], own.weights[rows]) if rows.any() else None

    def confident(self) -> tuple[float, float | None]:
        """The number of candidates with at least `MIN_CONFIDENT`, and the share of them that is true."""
        own = self.candidates
        rows = own.probabilities >= MIN_CONFIDENT
        count = float(own.weights[rows].sum())
        return count, float((own.weights * own.targets)[rows].sum()) / count if count else None

    def quality(self) -> dict[str, Quality]:
        """Of the model, of popularity, and of the raw scores rescaled on half of the held-out facts."""
        own = self.candidates
        found = {"model": own.probabilities, "popularity": np.minimum(own.popularity, 1.0)}
        for name in ("temperature", "platt", "isotonic"):
            p = np.empty(len(own.scores))
            for fold in range(FOLDS):
                rest = own.folds != fold
                p[~rest] = _rescale(name, own, rest, own.scores[~rest])
            found[name] = p
        return {name: self._quality(p) for name, p in found.items()}

    def _quality(self, p: Floats) -> Quality:
        own, inside = self.candidates, np.clip(p, 1e-12, 1 - 1e-12)
        losses = -(own.targets * np.log(inside) + (1 - own.targets) * np.log1p(-inside))
        brier, loss = ((own.weights * each).sum() / max(self.held_out, 1) for each in ((p - own.targets) ** 2, losses))
        table = self._reliability(p)
        return Quality(float(brier), float(loss), None if table is None else table.ece)

    def columns(self) -> Columns:
        """The reliability: for ranges of the probability, the candidates, their mean, and the share that is true."""
        table = self.reliability
        names = ("probability_from", "probability_to", "proposed", "predicted", "observed")
        if table is None:
            return {name: [] for name in names}
        used = table.counts > 0
        arrays = (table.edges[:-1], table.edges[1:], table.counts, table.predicted, table.observed)
        return {name: array[used].tolist() for name, array in zip(names, arrays, strict=True)}

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON types."""
        table, (count, precision) = self.reliability, self.confident()
        bins = [] if table is None else zip(table.predicted, table.observed, table.counts, strict=True)
        return {
            "held_out": self.held_out,
            "held_out_true": round(self.true, 3),
            "missing": round(self.missing, 6),
            "expected": round(self.expected, 3),
            "proposed": 0.0 if table is None else round(float(table.counts.sum()), 3),
            "ece": None if table is None else round(table.ece, 6),
            "confident": round(count, 3),
            "confident_true": None if precision is None else round(precision, 6),
            "quality": {name: _rounded(quality) for name, quality in self.quality().items()},
            "answer_sets": self.sets.as_dict(),
            "min_probability": MIN_PROPOSED,
            "reliability": [
                {"predicted": round(float(p), 6), "observed": round(float(s), 6), "count": round(float(n), 3)}
                for p, s, n in bins
                if n
            ],
        }


def _rounded(quality: Quality) -> dict[str, float | None]:
    return {name: None if value is None else round(value, 6) for name, value in quality._asdict().items()}


def _rescale(name: str, own: Candidates, rows: npt.NDArray[np.bool_], scores: Floats) -> Floats:
    """The probabilities of scores by a map that is fitted to some candidates."""
    x, targets, weights = own.scores[rows], own.targets[rows], own.weights[rows]
    if name == "isotonic":
        order = np.argsort(x, kind="stable")
        fitted, _ = fit_isotonic(targets[order], weights[order])
        at = np.searchsorted(x[order], scores, side="right") - 1
        return fitted[np.maximum(at, 0)]
    if name == "temperature":
        return logistic(fit_temperature(x, targets, weights) * scores)
    slope, offset = fit_platt(x, targets, weights)
    return logistic(slope * scores + offset)


@checked
def measure_proposals(
    model: Completion | GaifmanModel,
    kb: KnowledgeBase,
    test: KnowledgeBase,
    known: KnowledgeBase | Iterable[KnowledgeBase] = (),
    *,
    relations: Sequence[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
) -> ProposalTest:
    """Propose facts by ranked lists that see the facts of `kb`, and compare them with test facts.

    Args:
        model: A completion, or the model of one relation; `kb` can be another knowledge base than that of training.
        kb: The visible facts. Test facts in it are removed.
        test: The held-out facts.
        known: Facts that are also true, such as validation facts: they are no candidates.
        relations: The relations of a completion to measure; None for all that have a ranked list.
        seed: The seed of the sample.
        threads: The number of threads; None for all processors. The result does not depend on it.
        progress: Called with the phase, the relations done and their total.
    """
    data = EvaluationData(kb, test, (known,) if isinstance(known, KnowledgeBase) else tuple(known))
    tests = [
        _RelationTest.of(predictor, data, seed) for predictor in _predictors(model.with_kb(data.visible), relations)
    ]
    if not tests:
        raise KnowledgeBaseError("facts are proposed by ranked lists, and the model has none")
    held_out, visible = (sum(len(getattr(each, name)) for each in tests) for name in ("held_out", "visible"))
    if not held_out:
        raise KnowledgeBaseError("there are no test facts to propose: no test fact has a relation of the model")
    missing = held_out / (held_out + visible)
    done = iter(range(1, len(tests) + 1))

    def measure(one: _RelationTest) -> tuple[Candidates, SetTest]:
        found = one.measure(missing, max(MIN_QUESTIONS, -(-QUESTIONS * len(one.held_out) // held_out)))
        if progress:
            progress("proposing facts", next(done), len(tests))
        return found

    parts = map_threaded(measure, tests, check_threads(threads), cost=lambda one: len(one.held_out))
    candidates, sets = zip(*parts, strict=True)
    true = float(sum(one.confidences.sum() for one in tests))
    return ProposalTest(Candidates.concatenate(candidates), held_out, missing, SetTest.concatenate(sets), true)


def has_ranked_lists(model: Completion | GaifmanModel, relations: Sequence[str] | None = None) -> bool:
    """Whether facts can be proposed: not by networks, and not of relations without a trained model."""
    if model.config.base != LISTWISE or isinstance(model, GaifmanModel):
        return model.config.base == LISTWISE
    return bool(set(model.trained_relations) & set(model.relations if relations is None else relations))


def _predictors(model: Completion | GaifmanModel, relations: Sequence[str] | None) -> list[ListwisePredictor]:
    """The predictors that are ranked lists."""
    if isinstance(model, GaifmanModel):
        found: list[Predictor] = [model.predictor]
    else:
        found = [model.predictor(name) for name in (model.relations if relations is None else relations)]
    return [predictor for predictor in found if isinstance(predictor, ListwisePredictor)]


class _Proposed(NamedTuple):
    """Candidates of one question."""

    tuples: Ints
    """Shape (n, arity), int32."""
    weights: Floats
    """Shape (n,), float64: how many candidates each stands for."""
    fold: Longs
    """Shape (n,), int64."""


class _RelationTest(NamedTuple):
    """The held-out facts of one relation, and what is proposed."""

    proposer: Proposer
    held_out: Ints
    """Shape (facts, arity), int32: distinct."""
    confidences: Floats
    """Shape (facts,), float64: of held-out facts."""
    known: Ints
    """Shape (k, arity), int32: facts that are no candidates, but for the visible ones."""
    category: str
    """See `category_of`."""
    seed: int

    @classmethod
    def of(cls, predictor: ListwisePredictor, data: EvaluationData, seed: int) -> _RelationTest:
        """The test of a relation."""
        name, arity, proposer = predictor.scorer.relation, predictor.arity, Proposer.of(predictor)
        held_out = data.facts_of(data.test, name, arity)
        known = np.concatenate([held_out[:0], *(data.facts_of(other, name, arity) for other in data.known)])
        keep = ~rows_in(held_out, proposer.facts)
        confidences = data.confidences_of(name, held_out)[0]
        weights = np.ones(len(held_out)) if confidences is None else confidences
        return cls(proposer, held_out[keep], weights[keep], known, category_of(proposer.facts), seed)

    @property
    def visible(self) -> Ints:
        """Shape (visible facts, arity), int32."""
        return self.proposer.facts

    def measure(self, missing: float, questions: int) -> tuple[Candidates, SetTest]:
        """The candidates of some questions, with probabilities for this share of missing facts; and their sets."""
        predictor = self.proposer.predictor.with_missing(missing)
        test = self._replace(proposer=self.proposer._replace(predictor=predictor))
        parts = [part for position in range(predictor.arity) for part in test._of_position(position, questions)]
        return Candidates.concatenate([part for part, _ in parts]), SetTest.concatenate([part for _, part in parts])

    def _of_position(self, position: int, count: int) -> Iterator[tuple[Candidates, SetTest]]:
        """The candidates at one position, for the questions that held-out facts answer, and for others."""
        asked = self.proposer.questions(position, self.held_out)
        answered = rows_in(asked, without(self.held_out, position))
        held_out, known = (_by_question(tuples, position) for tuples in (self.held_out, self.known))
        key = make_key(self.seed, "measure proposals", self.proposer.predictor.scorer.relation)
        own, others = np.flatnonzero(answered), np.flatnonzero(~answered)
        chosen = choose_rows(own, asked, count, key)
        more, of_more = sample_questions(asked[others], self.visible, position, count, key)
        rows = np.concatenate([chosen, others[more]])
        stand_for = np.concatenate([np.full(len(chosen), len(own) / max(len(chosen), 1)), of_more])
        for start in range(0, len(rows), QUESTIONS_PER_BLOCK):
            asks, sets = list[_Proposed](), list[SetTest]()
            for row, weight in zip(rows[start : start + QUESTIONS_PER_BLOCK], stand_for[start:].tolist(), strict=False):
                question = asked[row]
                shares = self.proposer.shares(question, position)
                shares.log_shares[known.get(question.tobytes(), NO_OBJECTS)] = -np.inf  # true, but not known
                missing = held_out.get(question.tobytes(), NO_OBJECTS)
                asks.append(self._propose(question, position, shares, weight))
                sets.append(self._test_set(missing, position, shares.log_shares, weight))
            yield self._judge(asks), SetTest.concatenate(sets)

    def _test_set(self, answers: Ints, position: int, shares: Floats, weight: float) -> SetTest:
        """The held-out answers of a question, beside its answer set."""
        predictor, pool = self.proposer.predictor, self.proposer.pools[position]
        cutoff = float(predictor.table.cutoffs[position])
        answers = answers[:0] if cutoff > 0 else answers
        own = shares[pool]
        least = min(cutoff, float(own.max(initial=-np.inf)))
        inside = np.isin(answers, pool) & (shares[answers] >= least)
        weights = np.full(len(answers), weight / predictor.arity)
        return SetTest(
            inside, np.full(len(answers), (own >= least).sum()), weights, np.full(len(answers), self.category)
        )

    def _propose(self, question: Ints, position: int, shares: Shares, weight: float) -> _Proposed:
        """The candidates of one question: all that can be probable, and a sample of the others."""
        predictor, own = self.proposer.predictor, shares.log_shares
        pool = self.proposer.pools[position]
        possible = pool[np.isfinite(own[pool])]
        best = possible[self.proposer.bounds(shares, possible, position) >= MIN_SCORED]
        best = best[np.lexsort((best, -own[best]))[:MAX_SCORED]]
        rest = np.setdiff1d(possible, best, assume_unique=True)
        key = make_key(self.seed, "sample others", position, *question.tolist())
        others, stand_for = sample_by_score(own[rest], OTHERS, key)
        tuples = np.tile(question, (len(best) + len(others), 1))
        tuples[:, position] = np.append(best, rest[others])
        weights = weight / predictor.arity * np.append(np.ones(len(best)), stand_for)
        fold = np.full(len(tuples), int(fold_in(key, np.zeros(1, np.int32))[0] % FOLDS), np.int64)
        return _Proposed(tuples, weights, fold)

    def _judge(self, proposed: Sequence[_Proposed]) -> Candidates:
        """The probabilities of the candidates of some questions; many share the question at another position."""
        predictor = self.proposer.predictor
        tuples, weights, fold = (np.concatenate(parts) for parts in zip(*proposed, strict=True))
        nothing = hide_nothing(len(tuples))
        evidence = predictor.scorer.evidence(tuples, nothing)
        p = predictor.constrain(predictor.estimates_of(evidence), tuples, nothing).values
        raw = evidence[:, : predictor.arity].mean(axis=1)
        return Candidates(p, self._targets(tuples), weights, raw, self._popularity(tuples), fold)

    def _targets(self, tuples: Ints) -> Floats:
        ids, own = row_ids(self.held_out, tuples)
        values = np.zeros(int(max(ids.max(initial=-1), own.max(initial=-1))) + 1)
        values[ids] = self.confidences
        return values[own]

    def _popularity(self, tuples: Ints) -> Floats:
        found = np.full(len(tuples), float(len(self.held_out)))
        for most, objects in zip(self.proposer.most_known, tuples.T, strict=True):
            found *= np.expm1(most[objects]) / max(len(self.visible), 1)
        return found


def _by_question(tuples: Ints, position: int) -> dict[bytes, Ints]:
    """Question, with 0 at the position → the objects at the position."""
    found: dict[bytes, list[int]] = {}
    for question, obj in zip(without(tuples, position), tuples[:, position].tolist(), strict=True):
        found.setdefault(question.tobytes(), []).append(obj)
    return {question: np.array(objects, np.int32) for question, objects in found.items()}
