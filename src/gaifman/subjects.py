"""What an evaluation ranks: test facts by relation, what is visible of the knowledge base, and what is known besides.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> kb = KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "bob", "cleo")])
>>> test = KnowledgeBase.from_facts([("likes", "bob", "cleo"), ("likes", "dan", "ann")])
>>> ground = EvaluationData(kb, test)
>>> print(*ground.visible.facts(), ground.hidden)              # a test fact is never visible
likes(ann, bob). 1
>>> list(ground.visible.objects)                               # an object that only the test has is a candidate too
['ann', 'bob', 'cleo', 'dan']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from gaifman._serialization import used_symbols
from gaifman.completion import Completion, fallback_probabilities
from gaifman.errors import KnowledgeBaseError
from gaifman.kb.facts import plural
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.knowledge_base import KnowledgeBase, union
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.logic.names import similar_names
from gaifman.model import GaifmanModel
from gaifman.models.mlp import MLP
from gaifman.predict import DrawBudget, Predictor, extend_schema, prefix_means
from gaifman.queries.answers import answers
from gaifman.ranking.fast_scoring import BLOCK_SIZE, DirectScorer, ObjectFeatures, supports_fast_scoring
from gaifman.sampling.neighbourhoods import HiddenFacts
from gaifman.sampling.rng import fold_in_rows, make_key
from gaifman.training import Scorer, TrainingConfig

Model = GaifmanModel | Completion
MAX_CELLS = 1 << 18
"""Scores that a thread has in memory at once, for each number of draws."""
MANY_THRESHOLD = 1.5
"""Objects for one on the other side, on average, from which on there are said to be many."""


class CandidateScorer(Protocol):
    """Scores tuples of one relation; the higher, the likelier."""

    @property
    def block_size(self) -> int:
        """Scores to ask for at once: a second's work or so, because only between blocks can it be stopped."""

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (counts, b, objects), float64: of the tuples (b, n) with every object put at `position`.

        There is one mean for each number of draws that was asked for.
        """

    def tuple_scores(self, tuples: Ints) -> Floats:
        """Shape (counts, b), float64: of the tuples as they are."""


class ModelScorer:
    """What a trained model says."""

    def __init__(
        self,
        predictor: Predictor,
        scorer: Scorer,
        config: TrainingConfig,
        counts: Sequence[int],
        threads: int | None,
        object_features: ObjectFeatures | None = None,
    ) -> None:
        self._direct, self._object_features = (
            DirectScorer(predictor, scorer, config, counts, threads=threads),
            object_features,
        )

    @property
    def block_size(self) -> int:
        """Fewer where every tuple is drawn by itself."""
        return BLOCK_SIZE // self._direct.sampling.draws if self._object_features is None else MAX_CELLS

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Of every candidate; split where there is a field."""
        if self._object_features is None:
            return self._direct.scores(tuples, position)
        return self._object_features.scorer_for(self._direct.scorer, self._direct.counts).scores(tuples, position)

    def tuple_scores(self, tuples: Ints) -> Floats:
        """With the same draws as among all candidates."""
        plan, nothing = self._direct, HiddenFacts.one_per_tuple(np.full(len(tuples), -1, np.int64))
        each: Floats = plan.predictor.probabilities_per_draw(plan.scorer, tuples, plan.sampling, nothing)
        return prefix_means(each, plan.counts)


class FallbackScorer:
    """What a completion says of a relation that it could not learn."""

    def __init__(self, graph: GaifmanGraph, relation: str, counts: Sequence[int]) -> None:
        self._graph, self._relation, self._counts = graph, relation, counts

    @property
    def block_size(self) -> int:
        """As many as are kept in memory: nothing is drawn."""
        return MAX_CELLS

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Of every candidate, row by row."""
        found, objects = [], np.arange(len(self._graph), dtype=np.int32)
        for row in tuples:
            candidates = np.repeat(row[None].astype(np.int32), len(objects), axis=0)
            candidates[:, position] = objects
            found.append(self.tuple_scores(candidates))
        return np.array(found).reshape(len(tuples), len(self._counts), len(objects)).swapaxes(0, 1)

    def tuple_scores(self, tuples: Ints) -> Floats:
        """By the share of places whose object stands there in another fact."""
        return np.tile(fallback_probabilities(self._graph, self._relation, tuples), (len(self._counts), 1))


@dataclass(frozen=True, slots=True)
class EvaluationTask:
    """One relation, or query, and its test facts."""

    name: str
    scorer: CandidateScorer
    tuples: Ints
    """Shape (facts, n), int32, each once: the test facts, as objects of the visible knowledge base."""
    visible: Ints
    """Shape (v, n), int32: the facts, or answers, that are visible."""
    known: Ints
    """Shape (k, n), int32, each once, sorted: all that is known to be true, the test facts included."""

    def __len__(self) -> int:
        return len(self.tuples)

    @property
    def trained(self) -> bool:
        """Whether a model was learnt."""
        return isinstance(self.scorer, ModelScorer)

    @property
    def category(self) -> str:
        """`1-1`, `1-n`, `n-1` or `n-n`, by what is visible; `none` without facts, `other` but for two places.

        In a relation that is `1-n` one object at the first place has many at the second: at least 1.5 on average.
        """
        if self.tuples.shape[1] != 2:
            return "other"
        if not len(self.visible):
            return "none"
        # Facts for each object at one place are the objects that it has at the other.
        few = [len(self.visible) / len(np.unique(column)) < MANY_THRESHOLD for column in self.visible.T]
        return f"{'1' if few[1] else 'n'}-{'1' if few[0] else 'n'}"


class EvaluationData:
    """A knowledge base to judge from, the facts to be judged, and others that are known to be true.

    A test fact that is in the knowledge base is taken out: it must not be seen while it is judged. Objects that only
    the test facts or the others have stand in the visible knowledge base without facts: they are never forgotten.
    """

    def __init__(self, kb: KnowledgeBase, test: KnowledgeBase, known: Sequence[KnowledgeBase] = ()) -> None:
        self.test, self.known = test, tuple(known)
        shown = [fact for fact in test.facts() if fact in kb]
        self.hidden_count = len(shown)
        self.new_names = sorted({name for other in (test, *known) for name in other.objects}.difference(kb.objects))
        visible = kb.without_facts(shown) if shown else kb
        # As a union, because that takes arrays as they are.
        more = [KnowledgeBase.from_facts([], objects=self.new_names)] if self.new_names else []
        self.visible = union([visible, *more]) if more else visible
        places = {name: number for number, name in enumerate(self.visible.objects)}
        self._object_ids = {
            id(other): np.fromiter((places[name] for name in other.objects), np.int32, len(other.objects))
            for other in (self.visible, test, *known)
        }

    def facts_of(self, kb: KnowledgeBase, relation: str, arity: int) -> Ints:
        """Shape (facts, width), int32: facts of a relation in one of the knowledge bases, as visible objects."""
        if relation not in kb.relations:
            return np.zeros((0, arity), np.int32)
        if kb.relations[relation].arity != arity:
            found = plural(kb.relations[relation].arity, "place")
            raise KnowledgeBaseError(f"{relation} has {plural(arity, 'place')} in the model and {found} in the facts")
        table, number = kb.fact_tables.get(arity), kb.content.relations.find(relation)
        if table is None or number is None:
            return np.zeros((0, arity), np.int32)
        return np.ascontiguousarray(self._object_ids[id(kb)][table.objects[table.rows(number)]])

    def count_unseen(self, tasks: Sequence[EvaluationTask]) -> int:
        """How many objects of the test facts the knowledge base does not have."""
        found = np.unique(np.concatenate([np.zeros(0, np.int32), *(subject.tuples.ravel() for subject in tasks)]))
        fresh = np.array([self.visible.object_id(name) for name in self.new_names], np.int32)
        return len(np.intersect1d(found, fresh))


def build_tasks(
    model: Model,
    data: EvaluationData,
    relations: Sequence[str] | None = None,
    draws: Sequence[int] | None = None,
    threads: int = 1,
) -> list[EvaluationTask]:
    """What there is to rank, by name; `draws` are one or several numbers of draws to average over.

    `threads` are those of a subject that is alone.
    """
    counts = [DrawBudget(count).draws for count in draws or (model.config.draws,)]
    if isinstance(model, Completion):
        names = _relations_to_rank(model, data.test, relations)
        found = _completion_tasks(model.with_kb(data.visible), data, names, counts, threads if len(names) == 1 else 1)
    elif relations is not None:
        raise KnowledgeBaseError("relations are chosen of a completion; this is the model of one query")
    else:
        found = [_query_task(model.with_kb(data.visible), data, counts, threads)]
    found = [subject for subject in found if len(subject)]
    if not found:
        raise KnowledgeBaseError("there are no test facts to rank: none is of a relation that the model is asked for")
    return found


def _relations_to_rank(model: Completion, test: KnowledgeBase, relations: Sequence[str] | None) -> list[str]:
    """The relations to rank: all that have test facts, or those that were chosen."""
    if isinstance(relations, str):
        raise KnowledgeBaseError(f"several relations are meant: write [{relations!r}], not {relations!r}")
    held = [name for name, relation in test.relations.items() if relation.count]
    for name in held if relations is None else relations:
        if name not in model.relations:
            others = [other for other in held if other in model.relations]
            hint = (
                "to leave it out, name the relations to evaluate: relations=[…], or --relation NAME"
                if relations is None and others
                else ""
            )
            raise KnowledgeBaseError(
                f"there is no model of {name}", suggestions=similar_names(name, model.relations), hint=hint
            )
    return sorted(held if relations is None else set(relations))


def _completion_tasks(
    model: Completion, data: EvaluationData, names: Sequence[str], counts: Sequence[int], threads: int
) -> list[EvaluationTask]:
    found, fields = [], dict[int, ObjectFeatures | None]()
    for name in names:
        judge, scorer, width = model.predictor(name), model.scorers.get(name), model.arity(name)
        tuples, visible = data.facts_of(data.test, name, width), data.facts_of(data.visible, name, width)
        known = np.concatenate([tuples, visible, *(data.facts_of(other, name, width) for other in data.known)])
        ranker: CandidateScorer = FallbackScorer(judge.graph, name, counts)
        if scorer is not None:
            if width not in fields:
                fields[width] = _shared_object_features(judge, scorer, model.config, max(counts))
            ranker = ModelScorer(judge, scorer, model.config, counts, threads, fields[width])
        found.append(EvaluationTask(name, ranker, tuples, visible, np.unique(known, axis=0)))
    return found


def _shared_object_features(
    predictor: Predictor, scorer: Scorer, config: TrainingConfig, draws: int
) -> ObjectFeatures | None:
    """What is around every object, where scores can be split; all relations of an arity share it."""
    split = supports_fast_scoring(predictor.evaluator.plan.features, config, predictor.width) and isinstance(
        scorer.base, MLP
    )
    return ObjectFeatures(predictor, config, draws) if split else None


def _query_task(model: GaifmanModel, data: EvaluationData, counts: Sequence[int], threads: int) -> EvaluationTask:
    """What the test facts make an answer is judged, as far as it is none without them."""
    query, scorer, judge = model.query, model.trained_scorer(), model.predictor
    assert not isinstance(query, str), "a trained model has read its query"
    words = used_symbols((), query)
    first = extend_schema(data.visible, *words)
    second = first.with_facts(data.test.facts())
    third = second.with_facts(fact for other in data.known for fact in other.facts())
    visible, tested, whole = (answers(kb, query).tuples.astype(np.int32) for kb in (first, second, third))
    known = np.unique(np.concatenate([visible, tested, whole]), axis=0)
    ranker = ModelScorer(judge, scorer, model.config, counts, threads)
    return EvaluationTask(str(query), ranker, _rows_not_in(np.unique(tested, axis=0), visible), visible, known)


def _rows_not_in(rows: Ints, others: Ints) -> Ints:
    """The rows (b, n), each different, that are none of the others."""
    which = np.unique(np.concatenate([others, rows]), axis=0, return_inverse=True)[1].ravel()
    return rows[~np.isin(which[len(others) :], which[: len(others)])]


def sample_tasks(tasks: Sequence[EvaluationTask], count: int, seed: int) -> list[EvaluationTask]:
    """So many test facts of all, whichever relations they are of; keyed by the fact, so their order does not matter."""
    keys = [fold_in_rows(make_key(seed, "evaluation", subject.name), subject.tuples) for subject in tasks]
    order = np.argsort(np.concatenate(keys), kind="stable")[:count]
    ends = np.cumsum([len(subject) for subject in tasks])
    found = []
    for subject, end in zip(tasks, ends.tolist(), strict=True):
        rows: Longs = np.sort(order[(order >= end - len(subject)) & (order < end)]) - (end - len(subject))
        if len(rows):
            found.append(replace(subject, tuples=subject.tuples[rows]))
    return found
