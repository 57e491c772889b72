"""Scores of candidates by fitted rankers, with facts hidden, and the probabilities of tuples.

A question has an object at every position but one. The share of a candidate is its probability in the softmax over all
candidates of the question: all objects but the known answers, which are not asked for. A tuple answers one question at
each position; its shares at all positions give its probability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, Self

import numpy as np

from gaifman.config import Deadline, current_deadline, no_deadline
from gaifman.errors import InputError, shorten
from gaifman.io.model_file import Arrays, require_array, strip_prefix
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, Longs, freeze, row_ids
from gaifman.kernels.listwise import SumScratch, add_entries, own_scores, score_targets
from gaifman.listwise.added import NO_ENTRIES, Entries, Question
from gaifman.listwise.expert import BoundExpert, Expert, PositionExpert
from gaifman.listwise.mining import NOTHING, Reacher, Reals
from gaifman.listwise.odds import MIN_LOG_SHARE, Odds, OddsTable
from gaifman.listwise.ranker import (
    ListwiseConfig,
    Ranker,
    Vocabulary,
    count_at_position,
    ranker_from_arrays,
    reach_candidates,
    statistics,
)
from gaifman.listwise.steps import StepIndex, build_steps
from gaifman.predict import Bools, DrawBudget, Estimates, Predictor
from gaifman.sampling.hiding import HiddenFacts
from gaifman.threads import ProcessLock

SHORTLIST, OTHERS_WEIGHT = 50, 0.5
"""Candidates of a question whose shares at its other positions are found, and the weight of these; chosen on validation
facts."""
SHORTLIST_PER_ANSWER, MIN_SHORTLIST = 10, 200
"""Candidates, per requested answer and at least, whose evidence at every position is collected."""
NO_OBJECTS = freeze(np.zeros(0, np.int32))
MAX_CACHED_ENTRIES = 10_000_000
"""Entries of a `ReachCache`: 120 MB."""

Reached = tuple[Ints, Ints, Reals]
"""What formulas reach: objects, formulas and values, each of shape (entries,)."""


class ReachCache:
    """What the formulas of some rankers reach from single objects while nothing is hidden.

    Questions about facts of three or more objects share fixed objects. One thread uses it at a time.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, int], Reached] = {}
        self._entries = 0

    def get(self, key: tuple[int, int, int], reach: Callable[[], Reached]) -> Reached:
        """What is reached: for the position of a ranker, the place of a fixed object in its question, and its id."""
        found = self._found.get(key)
        if found is None:
            found = reach()
            if self._entries + len(found[0]) > MAX_CACHED_ENTRIES:
                self._found, self._entries = {}, 0
            self._found[key] = found
            self._entries += len(found[0])
        return found


class Workspace:
    """Scratch memory to score one question at a time."""

    def __init__(self, index: StepIndex, config: ListwiseConfig, max_steps: int) -> None:
        objects = len(index.kb.objects)
        self.reacher = Reacher(index, max_steps, config.mining.max_set, config.bound)
        self.sums = SumScratch(
            np.zeros(objects, np.int64), np.zeros(objects), np.empty(objects, np.int32), np.zeros(1, np.int64)
        )


class Workspaces:
    """Workspaces for several threads, which are used again."""

    def __init__(self, index: StepIndex, config: ListwiseConfig, max_steps: int | None = None) -> None:
        self._make = partial(Workspace, index, config, max_steps or config.mining.max_steps)
        self._free: list[Workspace] = []
        self._lock = ProcessLock()

    @contextmanager
    def use(self) -> Iterator[Workspace]:
        """A workspace that no other thread uses meanwhile; the active deadline stops its walks."""
        with self._lock:
            space = self._free.pop() if self._free else self._make()
        space.reacher.deadline = current_deadline()
        try:
            yield space
        finally:
            with self._lock:
                self._free.append(space)


class Scorer:
    """Scores candidates by a ranker on a knowledge base. Several threads can use it."""

    def __init__(
        self,
        index: StepIndex,
        ranker: Ranker,
        config: ListwiseConfig,
        workspaces: Workspaces | None = None,
        expert: PositionExpert | None = None,
    ) -> None:
        self.index, self.ranker, self.expert = index, ranker, expert
        objects = len(index.kb.objects)
        self._spaces = workspaces or Workspaces(index, config)
        self._weights = freeze(np.concatenate([ranker.formula_weights, ranker.added_weights]))
        if ranker.added is not None:
            ranker.added.prepare()
        facts = index.kb.tuples(ranker.relation)
        self._at_position = count_at_position(index.kb, ranker.relation, ranker.position)
        own = np.empty(objects)
        own_scores(
            index.marks if ranker.added is None else ranker.added.marks(),
            freeze(ranker.own_weights),
            freeze(statistics(self._at_position, index.degrees)),
            freeze(ranker.statistic_weights),
            own,
        )
        self._shift = float(own.max(initial=0.0))
        self._own = freeze(own - self._shift)  # a softmax does not change, and exponentials do not overflow
        self._everything = float(np.exp(self._own).sum())
        self._fixed = [i for i in range(facts.shape[1]) if i != ranker.position]

    def added(self, questions: Iterable[Question]) -> Iterator[Entries]:
        """What added formulas contribute to questions, in order; some are computed together."""
        if self.ranker.added is None:
            return (NO_ENTRIES for _ in questions)
        return self.ranker.added.answer(questions)

    def scores(self, objects: Sequence[int], hidden: Longs = NOTHING, added: Entries | None = None) -> Floats:
        """Shape (objects,), float64: the score of every candidate, given the objects of a tuple at other positions.

        Hidden facts lead nowhere; the marks and statistics of candidates are taken as known. `added` is what added
        formulas contribute; None if it is still to be computed.
        """
        found = self._own_scores(objects)[0].copy()
        with self._spaces.use() as space:
            entries = self._reach(space, objects, hidden, added)
            add_entries(0, len(entries[0]), *entries, self._weights, found)
        return found

    def target_scores(
        self,
        objects: Sequence[int],
        targets: Ints,
        hidden: Longs,
        known: Ints,
        added: Entries | None = None,
        cache: ReachCache | None = None,
    ) -> tuple[Floats, float]:
        """The scores of targets, and for the question the logarithm of the sum over all candidates.

        The scores are those without the hidden facts; `known` are known answers, which are no candidates. `added` is
        what added formulas contribute; None if it is still to be computed.
        """
        found = np.empty(len(targets))
        own, everything = self._own_scores(objects)
        with self._spaces.use() as space:
            total = score_targets(
                *self._reach(space, objects, hidden, added, cache),
                self._weights,
                own,
                everything,
                freeze(known),
                freeze(targets),
                space.sums,
                found,
            )
        return found, total

    def reached(self, objects: Sequence[int], hidden: Longs = NOTHING, added: Entries | None = None) -> Ints:
        """The candidates that a formula with a weight leads to, ascending, given the objects at other positions."""
        joins = self._weights != 0
        if self.ranker.added is not None:
            joins[self.ranker.first_added + self.ranker.added.own] = False  # about the candidate alone
        with self._spaces.use() as space:
            found, formulas, _ = self._reach(space, objects, hidden, added)
            return np.unique(found[joins[formulas]])

    def has_features(self, obj: int, hidden: Longs) -> bool:
        """Whether a formula with a weight is true of a candidate alone."""
        marks, _ = self.own_features(obj, hidden)
        if any(self.ranker.mark_weights[mark] for mark in marks):
            return True
        if self.ranker.added is None:
            return False
        return any(self.ranker.added_weights[number] for number in self.ranker.added.values_at([obj], hidden))

    def _own_scores(self, objects: Sequence[int]) -> tuple[Floats, float]:
        """The scores of all candidates without formulas, and the sum of their exponentials."""
        found = None if self.expert is None else self.expert.add_to(self._own, objects[self._fixed[0]])
        return (self._own, self._everything) if found is None else found

    def _reach(
        self,
        space: Workspace,
        objects: Sequence[int],
        hidden: Longs,
        added: Entries | None,
        cache: ReachCache | None = None,
    ) -> Reached:
        """What the formulas reach; with a cache, nothing is hidden."""
        reacher, first_added = space.reacher, self.ranker.first_added
        [entries] = self.added([(objects, hidden)]) if added is None else [added]
        reacher.clear()
        if cache is None:
            reach_candidates(reacher, [int(objects[at]) for at in self._fixed], hidden, self.ranker.mined)
        else:
            for reached in self._reach_singly(reacher, objects, cache):
                reacher.append(*reached)
        reacher.append(entries.objects, entries.formulas + first_added, entries.values)
        return _entries_of(reacher)

    def _reach_singly(self, reacher: Reacher, objects: Sequence[int], cache: ReachCache) -> list[Reached]:
        """What the formulas reach from each fixed object by itself."""

        def reach(place: int, obj: int) -> Reached:
            reacher.clear()
            reach_candidates(reacher, [obj], NOTHING, self.ranker.mined[place : place + 1])
            found, formulas, values = _entries_of(reacher)
            return found.copy(), formulas + first[place], values.copy()

        first = [0, *accumulate(len(one) for one in self.ranker.mined)]
        asked = [(place, int(objects[at])) for place, at in enumerate(self._fixed)]
        found = [cache.get((self.ranker.position, *each), partial(reach, *each)) for each in asked]
        reacher.clear()
        return found

    # One candidate

    def formula_counts(self, objects: Sequence[int], hidden: Longs) -> dict[int, tuple[float, float]]:
        """Mined formula → its value and the number of its groundings, for the candidate of a whole tuple."""
        with self._spaces.use() as space:
            found, formulas, values = self._reach(space, objects, hidden, NO_ENTRIES)
            own = found == objects[self.ranker.position]
            counts = space.reacher.counts[: space.reacher.end][own].tolist()
            return dict(zip(formulas[own].tolist(), zip(values[own].tolist(), counts, strict=True), strict=True))

    def member_sets(self, objects: Sequence[int], hidden: Longs) -> list[Ints | None]:
        """The members that walks for a tuple keep to, one set for each draw; [None] without a bound."""
        with self._spaces.use() as space:
            steps = max((one.paths.shape[1] for one in self.ranker.mined), default=1)
            return [*space.reacher.drawer.draw([int(objects[at]) for at in self._fixed], hidden, steps)] or [None]

    @property
    def shift(self) -> float:
        """What all scores are lowered by; shares do not change with it."""
        return self._shift

    def own_change(self, obj: int, hidden: Longs) -> float:
        """By how much the score that a candidate has by itself changes without the hidden facts."""
        changes = self.index.mark_changes(obj, hidden)
        before, after = self._statistics(obj, hidden[:0]), self._statistics(obj, hidden)
        total = sum(float(self.ranker.mark_weights[mark]) * change for mark, change in changes.items())
        return total + float(((after - before) * self.ranker.statistic_weights).sum())

    def own_features(self, obj: int, hidden: Longs) -> tuple[dict[int, float], list[float]]:
        """The marks of a candidate with their values, and its statistics, without the hidden facts."""
        own, changes = self.index.marks, self.index.mark_changes(obj, hidden)
        rows = slice(int(own.starts[obj]), int(own.starts[obj + 1]))
        marks = dict(zip(own.marks[rows].tolist(), own.values[rows].tolist(), strict=True))
        marks = {mark: value + changes.get(mark, 0.0) for mark, value in marks.items()}
        return {mark: value for mark, value in marks.items() if value > 1e-6}, self._statistics(obj, hidden).tolist()

    def _statistics(self, obj: int, hidden: Longs) -> Floats:
        """Shape (3,), float64: the statistics of a candidate without the hidden facts."""
        index, position = self.index, self.ranker.position
        at_position, steps = float(self._at_position[obj]), float(index.degrees[obj])
        for fact in hidden.tolist():
            relation, members = index.fact(fact)
            confidence = float(index.confidences[fact])
            at_position -= confidence * (relation == self.ranker.relation and members[position] == obj)
            steps -= confidence * members.count(obj) * (len(members) - 1)
        found: Floats = statistics(np.array([at_position]), np.array([steps]))[0]
        return found


@dataclass(frozen=True, slots=True)
class RelationRankers:
    """The trained model of a relation, for any knowledge base."""

    relation: str
    arity: int
    arrays: Arrays
    """The arrays of the ranker of each position: `0/…`, `1/…`."""
    vocabulary: Vocabulary
    odds: OddsTable
    expert: Expert | None = None
    """Its weight at each position is the array `expert_weights`."""

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

    @property
    def expert_weights(self) -> Floats:
        """Shape (positions,), float64: the weight of the expert's scores; 0 without an expert."""
        return self.arrays.get("expert_weights", np.zeros(self.arity))

    def bind(
        self, index: StepIndex, config: ListwiseConfig, workspaces: Workspaces, expert: BoundExpert | None = None
    ) -> RelationScorer:
        """The scorer for a knowledge base, with the expert bound to it.

        The index has the thresholds of the vocabulary.
        """
        experts = None if expert is None else expert.of_relation(self.relation, self.expert_weights.tolist())
        return RelationScorer(index, self.rankers(index), config, workspaces, experts)


def rankers_arrays(rankers: RelationRankers, prefix: str = "") -> Arrays:
    """The arrays of a relation's model; their names begin with `prefix`."""
    arrays = rankers.arrays | rankers.odds.arrays()
    return {f"{prefix}listwise/{name}": array for name, array in arrays.items()}


def rankers_from_arrays(
    arrays: Arrays, relation: str, arity: int, vocabulary: Vocabulary, expert: Expert | None = None
) -> RelationRankers:
    """The model of arrays without a prefix; they are checked."""
    own = strip_prefix(arrays, "listwise/")
    odds = OddsTable.from_arrays(own, arity)
    arrays = {name: array for name, array in own.items() if name not in odds.arrays()}
    rankers = RelationRankers(relation, arity, arrays, vocabulary, odds, expert)
    _check_expert_weights(rankers.arrays, arity)
    tiny = KnowledgeBase.from_facts([(name, *["o"] * places) for name, places in vocabulary.relations])
    if dict(vocabulary.relations).get(relation) != arity:
        raise InputError(f"the vocabulary has no relation {shorten(relation)} of {arity} places")
    rankers.rankers(build_steps(tiny).with_thresholds(vocabulary.thresholds))
    return rankers


def _check_expert_weights(arrays: Arrays, arity: int) -> None:
    """Refuse the arrays of a relation's model with weights of the expert that it cannot have."""
    if "expert_weights" in arrays and (require_array(arrays, "expert_weights", np.float64, (arity,)) < 0).any():
        raise InputError("the weights of an expert must be at least 0")


def expert_arrays(rankers: Iterable[RelationRankers]) -> Arrays:
    """The arrays of the expert that some rankers share; none without one."""
    expert = next((one.expert for one in rankers if one.expert), None)
    return {} if expert is None else expert.arrays()


def expert_metadata(rankers: Iterable[RelationRankers]) -> dict[str, Any]:
    """What the metadata of a model say about the expert that some rankers share; nothing without one."""
    own = [one for one in rankers if one.expert]
    if not own or own[0].expert is None:
        return {}
    expert = own[0].expert
    weights = np.concatenate([np.zeros(0), *(one.expert_weights for one in own if one.arity == 2)])
    mean = float(weights.sum() / max(len(weights), 1))
    sizes = {"objects": len(expert.objects), "relations": len(expert.relations), "rank": expert.rank}
    used = {"positions": int((weights > 0).sum()), "of_positions": len(weights)}
    return {"expert": {"kind": "complex", **sizes, "weight": round(mean, 3), **used}}


class Share(NamedTuple):
    """The parts of a log share: `score - competition`."""

    score: float
    """The weighted values of the candidate."""
    competition: float
    """The logarithm of the sum of exponentials over all candidates."""


class RelationScorer:
    """Scores tuples of a relation in one knowledge base. Several threads can use it."""

    def __init__(
        self,
        index: StepIndex,
        rankers: Sequence[Ranker],
        config: ListwiseConfig,
        workspaces: Workspaces | None = None,
        experts: Sequence[PositionExpert | None] | None = None,
    ) -> None:
        """`experts` are those of the positions."""
        spaces, own = workspaces or Workspaces(index, config), experts or [None] * len(rankers)
        self.index, self.relation, self._config = index, rankers[0].relation, config
        self.scorers = tuple(
            Scorer(index, ranker, config, spaces, expert) for ranker, expert in zip(rankers, own, strict=True)
        )

    @property
    def arity(self) -> int:
        """The number of positions."""
        return len(self.scorers)

    def can_cache(self) -> bool:
        """Whether questions share what is reached from single objects: there are several, and walks have no bound."""
        return self.arity > 2 and self._config.bound is None

    def evidence(self, tuples: Ints, hidden: HiddenFacts, deadline: Deadline | None = None) -> Floats:
        """Shape (tuples, 2 · arity), float64: log shares and log(1 + known answers), by position."""
        found = np.empty((len(tuples), 2 * self.arity))
        for position in range(self.arity):
            shares, known = self.position_evidence(tuples, hidden, position, deadline)
            found[:, position], found[:, self.arity + position] = shares, known
        return found

    def position_evidence(
        self,
        tuples: Ints,
        hidden: HiddenFacts,
        position: int,
        deadline: Deadline | None = None,
        cache: ReachCache | None = None,
    ) -> tuple[Floats, Floats]:
        """The log shares and log(1 + known answers) of tuples at one position, each of shape (tuples,).

        With a cache, nothing is hidden.
        """
        deadline = deadline or current_deadline() or no_deadline()
        shares, known = np.empty(len(tuples)), np.empty(len(tuples))
        groups = self.group_questions(tuples, hidden, position)
        questions = [(tuples[rows[0]].tolist(), freeze(hidden.of(int(rows[0])))) for rows in groups]
        with deadline.activate():
            for rows, added in zip(groups, self.scorers[position].added(questions), strict=True):
                deadline.check()
                own = tuples[rows], hidden.of(int(rows[0]))
                shares[rows], known[rows] = self._question(*own, position, added, cache)
        return np.maximum(shares, MIN_LOG_SHARE), np.log1p(known)

    def reached(self, tuples: Ints, hidden: HiddenFacts, position: int, deadline: Deadline | None = None) -> Bools:
        """Shape (b,): whether a formula with a weight leads to the object at a position, given the others.

        Of a relation of one position, whether one is true of the object.
        """
        deadline = deadline or current_deadline() or no_deadline()
        found, scorer = np.zeros(len(tuples), bool), self.scorers[position]
        if self.arity == 1:
            alone = enumerate(tuples[:, 0].tolist())
            return np.array([scorer.has_features(obj, freeze(hidden.of(row))) for row, obj in alone], bool)
        groups = self.group_questions(tuples, hidden, position)
        questions = [(tuples[rows[0]].tolist(), freeze(hidden.of(int(rows[0])))) for rows in groups]
        with deadline.activate():
            for rows, question, added in zip(groups, questions, scorer.added(questions), strict=True):
                deadline.check()
                found[rows] = np.isin(tuples[rows, position], scorer.reached(*question, added))
        return found

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
        cache = ReachCache() if self.can_cache() else None
        shares = [self.position_evidence(listed, nothing, other, cache=cache)[0] for other in others]
        added = sum(shares) / len(others)
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

    def _question(
        self, tuples: Ints, hidden: Longs, position: int, added: Entries, cache: ReachCache | None = None
    ) -> tuple[Floats, int]:
        """The log shares of the candidates of one question, and the number of known answers."""
        scorer, objects, hidden = self.scorers[position], tuples[0].tolist(), freeze(hidden)
        targets, known = freeze(tuples[:, position]), self.known_answers(objects, hidden, position)
        scores, total = scorer.target_scores(objects, targets, hidden, known, added, cache)
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


def _entries_of(reacher: Reacher) -> Reached:
    """Views of all entries of a reacher."""
    rows = slice(reacher.end)
    return freeze(reacher.objects[rows]), freeze(reacher.formulas[rows]), freeze(reacher.values[rows])


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


@dataclass(frozen=True, slots=True)
class ListwisePredictor(Predictor):
    """Predicts by the shares that the objects of a tuple have among all candidates of their positions."""

    scorer: RelationScorer
    table: OddsTable
    odds: Odds
    """Those of the table for the share of facts that is assumed to be missing."""

    def with_prior(self, prior: float | None) -> Self:
        """The same predictor for candidates of which another share is true."""
        if prior is None:
            return self
        return replace(self, prior=prior, odds=self.table.at(self.config.assumed_missing, prior))

    def with_missing(self, missing: float) -> Self:
        """The same predictor for a knowledge base that misses another share of its facts."""
        return replace(self, odds=self.table.at(missing))

    def answer_set(self, tuples: Ints, position: int, deadline: Deadline | None = None) -> Longs | None:
        """The rows of the tuples with the largest shares at the position; at least one."""
        cutoff = float(self.table.cutoffs[position])
        if cutoff > 0 or not len(tuples):
            return None
        nothing = HiddenFacts.one_per_tuple(np.full(len(tuples), -1, np.int64))
        shares, _ = self.scorer.position_evidence(tuples, nothing, position, deadline)
        order = np.lexsort((tuples[:, position], -shares))
        return order[: max(1, int((shares >= cutoff).sum()))]

    def model_estimates(self, tuples: Ints, hidden: HiddenFacts, budget: DrawBudget) -> Estimates:
        """The probabilities of tuples. Draws are averaged in the values of formulas: there is no sampling error."""
        return self.estimates_of(self.scorer.evidence(tuples, hidden, budget.deadline))

    def estimates_of(self, evidence: Floats) -> Estimates:
        """The probabilities of tuples by their evidence, without constraints."""
        values = self.odds.probabilities(evidence)
        draws = 1 if self.config.size is None else self.config.draws
        return Estimates(values, np.full(len(values), np.nan), np.full(len(values), draws, np.int32))

    def reached(self, tuples: Ints, hidden: HiddenFacts, deadline: Deadline | None = None) -> Bools:
        """Shape (b,): whether a formula leads to an object of a tuple from its others, and counts."""
        found = np.zeros(len(tuples), bool)
        for position in np.flatnonzero(self.odds.weights[: self.arity]).tolist():
            left = np.flatnonzero(~found)
            found[left] = self.scorer.reached(tuples[left], hidden.select(left), position, deadline)
        return found


@dataclass(frozen=True, slots=True)
class ListwiseFirstPass:
    """Finds the candidates that can be among the best answers, by the evidence of one position."""

    predictor: ListwisePredictor

    @property
    def draws(self) -> int:
        """All objects are walked once."""
        return 1

    def shortlist_size(self, candidates: int, draws: int, top: int | None) -> int | None:
        """How many candidates are scored at every position; None for all."""
        size = max(MIN_SHORTLIST, SHORTLIST_PER_ANSWER * (top or 0))
        return None if top is None or candidates <= size else size

    def scores(self, tuples: Ints, hidden: HiddenFacts, deadline: Deadline) -> Floats:
        """Shape (tuples,), float64: log-odds by the position that takes the fewest questions."""
        scorer, odds = self.predictor.scorer, self.predictor.odds
        counts = [len(np.unique(np.delete(tuples, i, axis=1), axis=0)) for i in range(scorer.arity)]
        position = int(np.argmin(counts))
        shares, known = scorer.position_evidence(tuples, hidden, position, deadline)
        weights, arity = odds.weights, scorer.arity
        found: Floats = odds.base + weights[:arity].sum() * shares + weights[arity + position] * known
        return found

    def probabilities(self, scores: Floats) -> Floats:
        """The probabilities of linear log-odds."""
        return self.predictor.odds.probabilities_of(scores)
