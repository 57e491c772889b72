"""A first look at many candidates: which of them are worth all their draws?

>>> import numpy as np
>>> import gaifman
>>> from gaifman.deadlines import never
>>> from gaifman.neighbourhoods import Hidden
>>> kb = gaifman.demo()
>>> completion = gaifman.complete(kb, ["capital"], size=10, options={"epochs": 1}, seed=1)
>>> glances = Glances(completion.judge("capital"), completion.learning)
>>> pairs = np.array([[kb.id("france"), number] for number in range(len(kb.objects))], np.int32)
>>> nothing = Hidden.one_each(np.full(len(pairs), -1))
>>> drawn = glances.values(completion.scorers["capital"], pairs, nothing, never())
>>> glances.prepare()                               # what is around each object, once for all questions
>>> looked_up = glances.values(completion.scorers["capital"], pairs, nothing, never())
>>> bool(np.abs(looked_up - drawn).max() < 1e-5)
True

Candidates share the draws of a look, so that two of them differ by what they are and not by luck.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from gaifman.deadlines import Deadline
from gaifman.judging import Judge
from gaifman.learning import Learning, Scorer
from gaifman.neighbourhoods import Hidden
from gaifman.network import Network
from gaifman.splits import SUMS, Field, Split, splittable
from gaifman.tables import Floats, Ints

LOOK = 2
"""Draws of a first look."""
PURPOSE = "look"
OBJECTS = 1 << 18
"""With more objects a field takes too much memory, and one step of its work too long between two deadlines."""
DRAWN = 16_000_000
"""With more members to be drawn a field takes some ten seconds, or half a gigabyte: FB15k at k = 20 has 7 million."""
SHARE = 0.5
"""Candidates, as a share of all objects, from which on scoring all objects at once is quicker than those alone."""


class Pool:
    """Splits that nobody uses at the moment, with the sums they keep; each is of one thread while it is used."""

    def __init__(self, field: Field, most: int = SUMS) -> None:
        """`most` bytes of sums are kept, those of the models asked last."""
        self.field, self._most = field, most
        self._idle: list[Split] = []
        self._guard = threading.Lock()

    @contextmanager
    def taken(self, scorer: Scorer) -> Iterator[Split]:
        """A split of a model, from those asked last where there is one."""
        with self._guard:
            own = next((split for split in reversed(self._idle) if split.scorer is scorer), None)
            if own is not None:
                self._idle.remove(own)
        own = own or Split(self.field, scorer)
        yield own  # one whose work was broken off is not given back
        with self._guard:
            self._idle.append(own)
            while self._idle and sum(split.kept for split in self._idle) > self._most:
                del self._idle[0]

    def __len__(self) -> int:
        return len(self._idle)


class Glances:
    """First looks at candidates, of one knowledge base made ready and one way of drawing."""

    def __init__(self, judge: Judge, learning: Learning) -> None:
        self._judge, self._learning = judge, learning
        self._sampling = replace(learning.sampling(LOOK, PURPOSE), shared=True)
        self._pool: Pool | None = None
        self._guard = threading.Lock()

    @property
    def prepared(self) -> bool:
        """Whether what questions share is there."""
        return self._pool is not None

    def prepare(self, deadline: Deadline | None = None) -> None:
        """Make what all questions share, where scores can be split: seconds for a large knowledge base, once.

        Nothing is made where it would take too much; a deadline is asked between its parts.
        """
        judge = self._judge
        fits = splittable(judge.evaluator.plan.features, self._learning, judge.width)
        with self._guard:
            if self._pool is not None or not fits or not 0 < len(judge.graph) <= OBJECTS:
                return
            field = Field(judge, self._learning, LOOK, PURPOSE)
            if field.cost > DRAWN:
                return
            for position in range(judge.width):
                field.around(position, deadline)
            self._pool = Pool(field)

    def values(self, scorer: Scorer, tuples: Ints, hidden: Hidden, deadline: Deadline) -> Floats:
        """Shape (b,), float64: the base model's mean over the draws of a look, from which facts are hidden."""
        pool, position = self._pool, _varied(tuples, len(self._judge.graph))
        if pool is None or position is None or not isinstance(scorer.base, Network):
            return self._drawn(scorer, tuples, hidden, deadline)
        deadline.check()
        with pool.taken(scorer) as split:
            found: Floats = split.scores(tuples[:1], position)[0, 0, tuples[:, position]]
        own = np.flatnonzero(np.diff(hidden.starts))  # a split sees every fact
        found[own] = self._drawn(scorer, tuples[own], hidden.of(own), deadline)
        return found

    def _drawn(self, scorer: Scorer, tuples: Ints, hidden: Hidden, deadline: Deadline) -> Floats:
        return np.asarray(self._judge.each(scorer, tuples, self._sampling, hidden, deadline).mean(axis=1))


def _varied(tuples: Ints, objects: int) -> int | None:
    """The place at which pairs differ, where it is one alone and they are many of what can stand there.

    >>> pairs = np.array([[7, 0], [7, 1], [7, 2]], np.int32)
    >>> _varied(pairs, 4), _varied(pairs[:, ::-1], 4), _varied(pairs, 100), _varied(np.eye(2, dtype=np.int32), 2)
    (1, 0, None, None)
    """
    if tuples.shape[1] != 2 or len(tuples) < max(1, SHARE * objects):
        return None
    same = (tuples == tuples[0]).all(axis=0)
    return 1 - int(np.argmax(same)) if same.any() else None
