"""The rankers of a relation, one for each position, and what they say about tuples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gaifman.config import Deadline, current_deadline, no_deadline
from gaifman.errors import InputError, shorten
from gaifman.io.model_file import Arrays, strip_prefix
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, Longs, freeze, row_ids
from gaifman.listwise.added import Entries
from gaifman.listwise.mining import NOTHING
from gaifman.listwise.odds import MIN_LOG_SHARE, Odds
from gaifman.listwise.ranker import ListwiseConfig, Ranker
from gaifman.listwise.scoring import Scorer, Workspaces
from gaifman.listwise.serialization import Vocabulary, ranker_from_arrays
from gaifman.listwise.steps import StepIndex, build_steps
from gaifman.sampling.hiding import HiddenFacts

SHORTLIST, OTHERS_WEIGHT = 50, 0.5
"""Candidates of a question whose shares at its other positions are found, and the weight of these; chosen on validation
facts."""
NO_OBJECTS = freeze(np.zeros(0, np.int32))


@dataclass(frozen=True, slots=True)
class RelationRankers:
    """The trained model of a relation, for any knowledge base."""

    relation: str
    arity: int
    arrays: Arrays
    """The arrays of the ranker of each position: `0/…`, `1/…`."""
    vocabulary: Vocabulary
    odds: Odds

    @property
    def formula_count(self) -> int:
        """The number of formulas, over all positions."""
        names = [
            f"{position}/{kind}" for position in range(self.arity) for kind in ("formula_weights", "added_weights")
        ]
        return sum(len(self.arrays[name]) for name in names)

    @property
    def max_steps(self) -> int:
        """The length of the longest paths."""
        return max((array.shape[1] for name, array in self.arrays.items() if "/paths/" in name), default=1)

    def rankers(self, index: StepIndex) -> tuple[Ranker, ...]:
        """The rankers for a knowledge base, by position; the index has the thresholds of the vocabulary."""
        return tuple(
            ranker_from_arrays(
                strip_prefix(self.arrays, f"{position}/"), self.relation, position, self.arity, index, self.vocabulary
            )
            for position in range(self.arity)
        )

    def bind(self, index: StepIndex, config: ListwiseConfig, workspaces: Workspaces) -> RelationScorer:
        """The scorer for a knowledge base; the index has the thresholds of the vocabulary."""
        return RelationScorer(index, self.rankers(index), config, workspaces)


def rankers_arrays(rankers: RelationRankers, prefix: str = "") -> Arrays:
    """The arrays of a relation's model; their names begin with `prefix`."""
    arrays = rankers.arrays | rankers.odds.arrays()
    return {f"{prefix}listwise/{name}": array for name, array in arrays.items()}


def rankers_from_arrays(arrays: Arrays, relation: str, arity: int, vocabulary: Vocabulary) -> RelationRankers:
    """The model of arrays without a prefix; they are checked."""
    own = strip_prefix(arrays, "listwise/")
    odds = Odds.from_arrays(own, arity)
    rankers = RelationRankers(
        relation, arity, {name: array for name, array in own.items() if name != "odds"}, vocabulary, odds
    )
    tiny = KnowledgeBase.from_facts([(name, *["o"] * places) for name, places in vocabulary.relations])
    if dict(vocabulary.relations).get(relation) != arity:
        raise InputError(f"the vocabulary has no relation {shorten(relation)} of {arity} places")
    rankers.rankers(build_steps(tiny).with_thresholds(vocabulary.thresholds))
    return rankers


class Share(NamedTuple):
    """The parts of a log share: `score - competition`."""

    score: float
    """The weighted values of the candidate."""
    competition: float
    """The logarithm of the sum of exponentials over all candidates."""


class RelationScorer:
    """Scores tuples of a relation in one knowledge base. Several threads can use it."""

    def __init__(
        self, index: StepIndex, rankers: Sequence[Ranker], config: ListwiseConfig, workspaces: Workspaces | None = None
    ) -> None:
        spaces = workspaces or Workspaces(index, config)
        self.index, self.relation = index, rankers[0].relation
        self.scorers = tuple(Scorer(index, ranker, config, spaces) for ranker in rankers)

    @property
    def arity(self) -> int:
        """The number of positions."""
        return len(self.scorers)

    def evidence(self, tuples: Ints, hidden: HiddenFacts, deadline: Deadline | None = None) -> Floats:
        """Shape (tuples, 2 · arity), float64: log shares and log(1 + known answers), by position."""
        found = np.empty((len(tuples), 2 * self.arity))
        for position in range(self.arity):
            shares, known = self.position_evidence(tuples, hidden, position, deadline)
            found[:, position], found[:, self.arity + position] = shares, known
        return found

    def position_evidence(
        self, tuples: Ints, hidden: HiddenFacts, position: int, deadline: Deadline | None = None
    ) -> tuple[Floats, Floats]:
        """The log shares and log(1 + known answers) of tuples at one position, each of shape (tuples,)."""
        deadline = deadline or current_deadline() or no_deadline()
        shares, known = np.empty(len(tuples)), np.empty(len(tuples))
        groups = self.group_questions(tuples, hidden, position)
        questions = [(tuples[rows[0]].tolist(), freeze(hidden.of(int(rows[0])))) for rows in groups]
        with deadline.activate():
            for rows, added in zip(groups, self.scorers[position].added(questions), strict=True):
                deadline.check()
                shares[rows], known[rows] = self._question(tuples[rows], hidden.of(int(rows[0])), position, added)
        return np.maximum(shares, MIN_LOG_SHARE), np.log1p(known)

    def candidate_scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (tuples, objects), float64: a score of every object at a position of the tuples, for ranks.

        To the best candidates, by the ranker of the position, the log shares at the other positions are added: of the
        fixed objects among all candidates, if the candidate is given. All other candidates come after them.
        """
        own, questions = self.scorers[position], [(objects, NOTHING) for objects in tuples.tolist()]
        asked = zip(questions, own.added(questions), strict=True)
        found = np.array([own.scores(objects, hidden, added) for (objects, hidden), added in asked])
        if self.arity == 1:
            return found
        known = [self.known_answers(objects, NOTHING, position) for objects in tuples.tolist()]
        best = [_shortlist(scores, answers) for scores, answers in zip(found, known, strict=True)]
        sizes = np.array([len(one) for one in best], np.int64)
        listed = np.repeat(tuples, sizes, axis=0)
        listed[:, position] = np.concatenate([NO_OBJECTS, *best])
        nothing = HiddenFacts.one_per_tuple(np.full(len(listed), -1, np.int64))
        others = [other for other in range(self.arity) if other != position]
        added = sum(self.position_evidence(listed, nothing, other)[0] for other in others) / len(others)
        for row, one in enumerate(np.split(OTHERS_WEIGHT * added, np.cumsum(sizes)[:-1])):
            _add_to_best(found[row], known[row], best[row], one)
        return found

    def group_questions(self, tuples: Ints, hidden: HiddenFacts, position: int) -> list[Longs]:
        """The rows of the tuples that differ only at the position, and from which the same facts are hidden."""
        if not len(tuples):
            return []
        unseen = hidden.first()
        if (np.diff(hidden.starts) > 1).any():
            numbers: dict[bytes, int] = {}
            unseen = np.array([numbers.setdefault(hidden.of(row).tobytes(), row) for row in range(len(tuples))])
        others = np.delete(tuples, position, axis=1).astype(np.int64)
        groups = row_ids(np.column_stack([others, unseen - unseen.min()]))[0]
        order = np.argsort(groups, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)

    def _question(self, tuples: Ints, hidden: Longs, position: int, added: Entries) -> tuple[Floats, int]:
        """The log shares of the candidates of one question, and the number of known answers."""
        scorer, objects, hidden = self.scorers[position], tuples[0].tolist(), freeze(hidden)
        targets, known = freeze(tuples[:, position]), self.known_answers(objects, hidden, position)
        scores, total = scorer.target_scores(objects, targets, hidden, known, added)
        if not len(hidden):
            return scores - total, len(known)
        changes = np.zeros(len(targets))
        for obj in {obj for fact in hidden.tolist() for obj in self.index.fact(fact)[1]}:
            changes[targets == obj] = scorer.own_change(obj, hidden)
        return scores + changes - _replaced(total, scores, scores + changes), len(known)

    def share(self, objects: Sequence[int], hidden: Longs, position: int) -> Share:
        """The parts of the log share of one tuple."""
        hidden, target = freeze(hidden), freeze(np.array([objects[position]], np.int32))
        known = self.known_answers(objects, hidden, position)
        scores, total = self.scorers[position].target_scores(objects, target, hidden, known)
        changed = scores + self.scorers[position].own_change(int(target[0]), hidden)
        competition = _replaced(total, scores, changed) if len(hidden) else np.array([total])
        return Share(float(changed[0]), float(competition[0]))

    def known_answers(self, objects: Sequence[int], hidden: Longs, position: int) -> Ints:
        """The objects that make a known fact at the position, given the others; hidden facts are not known."""
        fixed = [i for i in range(self.arity) if i != position]
        kb = self.index.kb
        if not fixed:
            facts = kb.tuples(self.relation)
            ids = kb.fact_ids(kb.content.relations.find(self.relation) or 0, facts)
            return freeze(facts[~np.isin(ids, hidden), 0])
        label = self.index.label_id(self.relation, fixed[0], position)
        targets, ids = self.index.steps(objects[fixed[0]], label)
        keep = ~np.isin(ids, hidden)
        if len(fixed) > 1 and len(ids):
            rows = kb.fact_tables[self.arity].objects[ids - kb.fact_offsets[self.arity]]
            keep &= (rows[:, fixed] == np.array([objects[i] for i in fixed])).all(axis=1)
        return freeze(targets[keep])


def _shortlist(scores: Floats, known: Ints) -> Ints:
    """The candidates with the highest scores; those that tie with one that is left out are left out too."""
    scores = scores.copy()
    scores[known] = -np.inf
    bound = -np.inf
    if len(scores) > SHORTLIST:
        bound = float(np.partition(scores, -SHORTLIST - 1)[-SHORTLIST - 1])
    return np.flatnonzero(scores > bound).astype(np.int32)


def _add_to_best(scores: Floats, known: Ints, best: Ints, added: Floats) -> None:
    """Add to the scores of the best candidates, and keep them above all others that are not known answers."""
    if not len(best):
        return
    others = np.ones(len(scores), bool)
    others[known] = others[best] = False
    scores[best] += added - added.max()
    if others.any():
        gap = float(scores[others].max() - scores[best].min())
        scores[others] -= max(0.0, gap + 1.0)


def _replaced(total: float, before: Floats, after: Floats) -> Floats:
    """The logarithm of a sum of exponentials in which one term is replaced, for each of some terms."""
    rest = np.log(np.maximum(-np.expm1(np.minimum(before - total, 0.0)), 1e-300)) + total
    return np.logaddexp(rest, after)
