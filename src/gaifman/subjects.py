"""What an evaluation ranks: test facts by relation, what is visible of the knowledge base, and what is known besides.

>>> from gaifman.kb import KnowledgeBase
>>> kb = KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "bob", "cleo")])
>>> test = KnowledgeBase.from_facts([("likes", "bob", "cleo"), ("likes", "dan", "ann")])
>>> ground = Ground(kb, test)
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

from gaifman.completion import Completion, fallback
from gaifman.errors import KnowledgeError
from gaifman.facts import some
from gaifman.graph import Graph
from gaifman.judging import Judge, Wanted, averages, knowing
from gaifman.kb import KnowledgeBase, union
from gaifman.keys import of_rows, start
from gaifman.learning import Learning, Scorer
from gaifman.model import GaifmanModel
from gaifman.names import nearest
from gaifman.neighbourhoods import Hidden
from gaifman.network import Network
from gaifman.parts import spoken
from gaifman.queries import answers
from gaifman.ranking import BLOCK, Plain
from gaifman.splits import Field, splittable
from gaifman.tables import Floats, Ints, Longs

Model = GaifmanModel | Completion
CELLS = 1 << 18
"""Scores that a thread has in memory at once, for each number of draws."""
MANY = 1.5
"""Objects for one on the other side, on average, from which on there are said to be many."""


class Ranker(Protocol):
    """Scores tuples of one relation; the higher, the likelier."""

    @property
    def cells(self) -> int:
        """Scores to ask for at once: a second's work or so, because only between blocks can it be stopped."""

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (counts, b, objects), float64: of the tuples (b, n) with every object put at `position`.

        There is one mean for each number of draws that was asked for.
        """

    def judged(self, tuples: Ints) -> Floats:
        """Shape (counts, b), float64: of the tuples as they are."""


class Learnt:
    """What a trained model says."""

    def __init__(
        self,
        judge: Judge,
        scorer: Scorer,
        learning: Learning,
        counts: Sequence[int],
        threads: int | None,
        field: Field | None = None,
    ) -> None:
        self._plan, self._field = Plain(judge, scorer, learning, counts, threads=threads), field

    @property
    def cells(self) -> int:
        """Fewer where every tuple is drawn by itself."""
        return BLOCK // self._plan.sampling.draws if self._field is None else CELLS

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Of every candidate; split where there is a field."""
        if self._field is None:
            return self._plan.scores(tuples, position)
        return self._field.split(self._plan.scorer, self._plan.counts).scores(tuples, position)

    def judged(self, tuples: Ints) -> Floats:
        """With the same draws as among all candidates."""
        plan, nothing = self._plan, Hidden.one_each(np.full(len(tuples), -1, np.int64))
        each: Floats = plan.judge.each(plan.scorer, tuples, plan.sampling, nothing)
        return averages(each, plan.counts)


class Fallback:
    """What a completion says of a relation that it could not learn."""

    def __init__(self, graph: Graph, relation: str, counts: Sequence[int]) -> None:
        self._graph, self._relation, self._counts = graph, relation, counts

    @property
    def cells(self) -> int:
        """As many as are kept in memory: nothing is drawn."""
        return CELLS

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Of every candidate, row by row."""
        found, objects = [], np.arange(len(self._graph), dtype=np.int32)
        for row in tuples:
            candidates = np.repeat(row[None].astype(np.int32), len(objects), axis=0)
            candidates[:, position] = objects
            found.append(self.judged(candidates))
        return np.array(found).reshape(len(tuples), len(self._counts), len(objects)).swapaxes(0, 1)

    def judged(self, tuples: Ints) -> Floats:
        """By the share of places whose object stands there in another fact."""
        return np.tile(fallback(self._graph, self._relation, tuples), (len(self._counts), 1))


@dataclass(frozen=True, slots=True)
class Subject:
    """One relation, or query, and its test facts."""

    name: str
    ranker: Ranker
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
        return isinstance(self.ranker, Learnt)

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
        few = [len(self.visible) / len(np.unique(column)) < MANY for column in self.visible.T]
        return f"{'1' if few[1] else 'n'}-{'1' if few[0] else 'n'}"


class Ground:
    """A knowledge base to judge from, the facts to be judged, and others that are known to be true.

    A test fact that is in the knowledge base is taken out: it must not be seen while it is judged. Objects that only
    the test facts or the others have stand in the visible knowledge base without facts: they are never forgotten.
    """

    def __init__(self, kb: KnowledgeBase, test: KnowledgeBase, known: Sequence[KnowledgeBase] = ()) -> None:
        self.test, self.known = test, tuple(known)
        shown = [fact for fact in test.facts() if fact in kb]
        self.hidden = len(shown)
        self.fresh = sorted({name for other in (test, *known) for name in other.objects}.difference(kb.objects))
        visible = kb.without(shown) if shown else kb
        # As a union, because that takes arrays as they are.
        more = [KnowledgeBase.from_facts([], objects=self.fresh)] if self.fresh else []
        self.visible = union([visible, *more]) if more else visible
        places = {name: number for number, name in enumerate(self.visible.objects)}
        self._numbers = {
            id(other): np.fromiter((places[name] for name in other.objects), np.int32, len(other.objects))
            for other in (self.visible, test, *known)
        }

    def rows(self, kb: KnowledgeBase, relation: str, width: int) -> Ints:
        """Shape (facts, width), int32: facts of a relation in one of the knowledge bases, as visible objects."""
        if relation not in kb.relations:
            return np.zeros((0, width), np.int32)
        if kb.relations[relation].arity != width:
            found = some(kb.relations[relation].arity, "place")
            raise KnowledgeError(f"{relation} has {some(width, 'place')} in the model and {found} in the facts")
        table, number = kb.tables.get(width), kb.content.relations.number(relation)
        if table is None or number is None:
            return np.zeros((0, width), np.int32)
        return np.ascontiguousarray(self._numbers[id(kb)][table.objects[table.rows(number)]])

    def unseen(self, subjects: Sequence[Subject]) -> int:
        """How many objects of the test facts the knowledge base does not have."""
        found = np.unique(np.concatenate([np.zeros(0, np.int32), *(subject.tuples.ravel() for subject in subjects)]))
        fresh = np.array([self.visible.id(name) for name in self.fresh], np.int32)
        return len(np.intersect1d(found, fresh))


def subjects_of(
    model: Model,
    ground: Ground,
    relations: Sequence[str] | None = None,
    draws: Sequence[int] | None = None,
    threads: int = 1,
) -> list[Subject]:
    """What there is to rank, by name; `draws` are one or several numbers of draws to average over.

    `threads` are those of a subject that is alone.
    """
    counts = [Wanted(count).draws for count in draws or (model.learning.draws,)]
    if isinstance(model, Completion):
        names = _names(model, ground.test, relations)
        found = _of_completion(model.on(ground.visible), ground, names, counts, threads if len(names) == 1 else 1)
    elif relations is not None:
        raise KnowledgeError("relations are chosen of a completion; this is the model of one query")
    else:
        found = [_of_query(model.on(ground.visible), ground, counts, threads)]
    found = [subject for subject in found if len(subject)]
    if not found:
        raise KnowledgeError("there are no test facts to rank: none is of a relation that the model is asked for")
    return found


def _names(model: Completion, test: KnowledgeBase, relations: Sequence[str] | None) -> list[str]:
    """The relations to rank: all that have test facts, or those that were chosen."""
    if isinstance(relations, str):
        raise KnowledgeError(f"several relations are meant: write [{relations!r}], not {relations!r}")
    held = [name for name, relation in test.relations.items() if relation.count]
    for name in held if relations is None else relations:
        if name not in model.relations:
            others = [other for other in held if other in model.relations]
            hint = (
                "to leave it out, name the relations to evaluate: relations=[…], or --relation NAME"
                if relations is None and others
                else ""
            )
            raise KnowledgeError(f"there is no model of {name}", near=nearest(name, model.relations), hint=hint)
    return sorted(held if relations is None else set(relations))


def _of_completion(
    model: Completion, ground: Ground, names: Sequence[str], counts: Sequence[int], threads: int
) -> list[Subject]:
    found, fields = [], dict[int, Field | None]()
    for name in names:
        judge, scorer, width = model.judge(name), model.scorers.get(name), model.arity(name)
        tuples, visible = ground.rows(ground.test, name, width), ground.rows(ground.visible, name, width)
        known = np.concatenate([tuples, visible, *(ground.rows(other, name, width) for other in ground.known)])
        ranker: Ranker = Fallback(judge.graph, name, counts)
        if scorer is not None:
            if width not in fields:
                fields[width] = _field(judge, scorer, model.learning, max(counts))
            ranker = Learnt(judge, scorer, model.learning, counts, threads, fields[width])
        found.append(Subject(name, ranker, tuples, visible, np.unique(known, axis=0)))
    return found


def _field(judge: Judge, scorer: Scorer, learning: Learning, draws: int) -> Field | None:
    """What is around every object, where scores can be split; all relations of an arity share it."""
    split = splittable(judge.evaluator.plan.features, learning, judge.width) and isinstance(scorer.base, Network)
    return Field(judge, learning, draws) if split else None


def _of_query(model: GaifmanModel, ground: Ground, counts: Sequence[int], threads: int) -> Subject:
    """What the test facts make an answer is judged, as far as it is none without them."""
    query, scorer, judge = model.query, model._trained(), model._judge
    assert not isinstance(query, str), "a trained model has read its query"
    words = spoken((), query)
    first = knowing(ground.visible, *words)
    second = first.with_facts(ground.test.facts())
    third = second.with_facts(fact for other in ground.known for fact in other.facts())
    visible, tested, whole = (answers(kb, query).tuples.astype(np.int32) for kb in (first, second, third))
    known = np.unique(np.concatenate([visible, tested, whole]), axis=0)
    ranker = Learnt(judge, scorer, model.learning, counts, threads)
    return Subject(str(query), ranker, _without(np.unique(tested, axis=0), visible), visible, known)


def _without(rows: Ints, others: Ints) -> Ints:
    """The rows (b, n), each different, that are none of the others."""
    which = np.unique(np.concatenate([others, rows]), axis=0, return_inverse=True)[1].ravel()
    return rows[~np.isin(which[len(others) :], which[: len(others)])]


def chosen(subjects: Sequence[Subject], wanted: int, seed: int) -> list[Subject]:
    """So many test facts of all, whichever relations they are of; keyed by the fact, so their order does not matter."""
    keys = [of_rows(start(seed, "evaluation", subject.name), subject.tuples) for subject in subjects]
    order = np.argsort(np.concatenate(keys), kind="stable")[:wanted]
    ends = np.cumsum([len(subject) for subject in subjects])
    found = []
    for subject, end in zip(subjects, ends.tolist(), strict=True):
        rows: Longs = np.sort(order[(order >= end - len(subject)) & (order < end)]) - (end - len(subject))
        if len(rows):
            found.append(replace(subject, tuples=subject.tuples[rows]))
    return found
