"""What is hidden from a tuple: the facts by which its truth could be read off.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "ann", "bea"), ("parent", "bob", "cleo")])
>>> hidden = hide(kb, "exists z. parent(x, z)", [[0]])
>>> [str(kb.fact_by_id(number)) for number in hidden.facts.tolist()]
['parent(ann, bea).', 'parent(ann, bob).']
>>> len(hide(kb, "exists z. parent(x, z) & parent(z, y)", [[0, 3]]).facts)
1

For a query of ∃, ∧, ∨, atoms and comparisons: a smallest set of facts and values without which the tuple is no answer,
that is, one with a fact or value of each witness. Among several smallest sets one is chosen at random, keyed by seed
and tuple. For a query with ¬, ↔ or ∀, `gaifman.sampling.refutation` searches: hiding may make such a part true
elsewhere, so it hides again until the tuple is no answer. An answer that is true for the lack of a fact cannot be
hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaifman.config import DEFAULT_BUDGET, Budget, Deadline
from gaifman.errors import LimitError
from gaifman.kb.tables import Ints, Longs, concatenate_ranges
from gaifman.logic.ast import Query
from gaifman.queries.answers import Queryable, prepare
from gaifman.queries.engine import Engine, get_engine
from gaifman.queries.witnesses import MAX_WITNESSES, Witnesses, are_answers, as_answer_rows, is_monotone, witnesses
from gaifman.sampling.hitting_sets import minimum_hitting_set
from gaifman.sampling.refutation import Refuter
from gaifman.sampling.rng import Keys, fold_in, fold_in_rows, mix

HIDING_PURPOSE = 0x68696465
"""Purpose of the random keys, so that they differ from others with the same seed."""


@dataclass(frozen=True, slots=True)
class HiddenFacts:
    """Facts and values of attributes that are hidden from each tuple."""

    starts: Longs
    """Shape (b + 1,), int64: the facts of tuple `t` are `facts[starts[t] : starts[t + 1]]`."""
    facts: Longs
    """Shape (all hidden,), int64: fact numbers, and numbers of values, which follow (`KnowledgeBase.value_id`)."""

    @classmethod
    def one_per_tuple(cls, numbers: Longs) -> HiddenFacts:
        """Hide at most one fact per tuple: `numbers` (b,), with −1 for none, as `fact_ids` returns them."""
        return cls(np.append(0, np.cumsum(numbers >= 0)), numbers[numbers >= 0])

    @classmethod
    def from_pairs(cls, count: int, owners: Longs, numbers: Longs) -> HiddenFacts:
        """Hide numbers (p,) from the tuples `owners` (p,), of `count`; those of a tuple are distinct and ascending."""
        pairs = np.unique(np.stack([owners, numbers], axis=1), axis=0)
        starts = np.searchsorted(pairs[:, 0], np.arange(count + 1)).astype(np.int64)
        return cls(starts, pairs[:, 1].copy())

    def first(self) -> Longs:
        """Return the first number (b,) hidden from each tuple, or −1."""
        return np.where(np.diff(self.starts) > 0, np.append(self.facts, -1)[self.starts[:-1]], -1)

    def owners(self) -> Longs:
        """Return the tuple (all hidden,) that each number is hidden from."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def of(self, tuple_number: int) -> Longs:
        """Return what is hidden from one tuple."""
        return self.facts[self.starts[tuple_number] : self.starts[tuple_number + 1]]

    def select(self, tuples: Longs) -> HiddenFacts:
        """Return what is hidden from some tuples, given by index, in that order."""
        first, last = self.starts[tuples], self.starts[tuples + 1]
        return HiddenFacts(np.append(0, np.cumsum(last - first)), self.facts[concatenate_ranges(first, last)])

    def with_facts(self, tuples: Longs, more: HiddenFacts) -> HiddenFacts:
        """Return what is hidden if `more` is hidden as well from some tuples, given by index; each fact once.

        >>> one = HiddenFacts(np.array([0, 1, 2]), np.array([7, 7]))
        >>> joined = one.with_facts(np.array([1]), HiddenFacts(np.array([0, 2]), np.array([7, 9])))
        >>> joined.starts.tolist(), joined.facts.tolist()
        ([0, 1, 3], [7, 7, 9])
        """
        owners = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        others = np.repeat(tuples, np.diff(more.starts))
        span = 1 + max(self.facts.max(initial=0), more.facts.max(initial=0))
        new = ~np.isin(others * span + more.facts, owners * span + self.facts)
        owners = np.concatenate([owners, others[new]])
        order = np.argsort(owners, kind="stable")
        starts = np.searchsorted(owners[order], np.arange(len(self.starts)))
        return HiddenFacts(starts, np.concatenate([self.facts, more.facts[new]])[order])


@dataclass(frozen=True, slots=True)
class Hiding:
    """What to hide from some tuples."""

    hidden: HiddenFacts
    """Facts and values, by number."""
    complete: npt.NDArray[np.bool_]
    """Shape (b,): whether the tuple is no answer without them. If not, nothing is hidden from it."""


def hide(
    kb: Queryable,
    query: str | Query,
    answers: npt.ArrayLike,
    *,
    seed: int = 0,
    max_witnesses: int = MAX_WITNESSES,
    budget: Budget = DEFAULT_BUDGET,
) -> HiddenFacts:
    """Return the facts and values to hide from each of some answers (b, variables), by object number.

    Nothing is hidden from a tuple that is no answer, or is one whatever is hidden. The result depends on the knowledge
    base, the query, the tuple and the seed, never on the other tuples or their order.
    """
    return find_hiding(kb, query, answers, seed=seed, max_witnesses=max_witnesses, budget=budget).hidden


def find_hiding(
    kb: Queryable,
    query: str | Query,
    answers: npt.ArrayLike,
    *,
    seed: int = 0,
    max_witnesses: int = MAX_WITNESSES,
    budget: Budget = DEFAULT_BUDGET,
) -> Hiding:
    """Return what `hide` returns, and from which tuples enough is hidden."""
    engine, deadline = get_engine(kb), Deadline(budget.seconds)
    query = prepare(engine, query, budget=budget).query
    rows = as_answer_rows(query, answers)
    key = fold_in(mix(np.array([seed & 0xFFFFFFFFFFFFFFFF], np.uint64)), np.array([HIDING_PURPOSE]))
    keys = fold_in_rows(key, rows)
    if not is_monotone(query, engine.kb, in_values=True):
        return _refute(engine, query, rows, keys, budget, deadline)
    found = witnesses(engine, query, rows, max_witnesses=max_witnesses, budget=budget, with_values=True)
    complete = np.ones(len(rows), bool)
    complete[found.answer[(found.facts < 0).all(axis=1)]] = False
    return Hiding(HiddenFacts.from_pairs(len(rows), *_choose_facts(found, complete, keys, deadline)), complete)


def _refute(engine: Engine, query: Query, rows: Ints, keys: Keys, budget: Budget, deadline: Deadline) -> Hiding:
    """Search for each answer of any query; what is no answer needs nothing."""
    answered = np.flatnonzero(are_answers(engine, query, rows, budget=deadline.limit_budget(budget)))
    complete = np.ones(len(rows), bool)
    owners, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    try:
        refuter = Refuter(engine.kb, query)
    except LimitError:  # too many ↔
        answered, complete = answered[:0], complete & ~np.isin(np.arange(len(rows)), answered)
    for number in answered.tolist():
        deadline.check()
        found = refuter.refute(rows[number].tolist(), int(keys[number]))
        complete[number] = found is not None
        owners.append(np.full(len(found or ()), number, np.int64))
        numbers.append(np.array(found or (), np.int64))
    return Hiding(HiddenFacts.from_pairs(len(rows), np.concatenate(owners), np.concatenate(numbers)), complete)


def _choose_facts(
    found: Witnesses, complete: npt.NDArray[np.bool_], tuple_keys: Keys, deadline: Deadline
) -> tuple[Longs, Longs]:
    """Return pairs of answer and fact: for each answer a smallest set with a fact of each witness."""
    used = complete[found.answer]
    answer, facts = found.answer[used], found.facts[used]
    if not len(answer):
        return answer, np.zeros(0, np.int64)
    keys = fold_in(tuple_keys[answer][:, None], facts)
    keys[facts < 0] = np.iinfo(np.uint64).max
    sharing = np.zeros(len(complete), bool)
    sharing[_answers_with_shared_facts(answer, facts)] = True
    simple = ~sharing[answer]
    first = facts[np.arange(len(facts)), np.argmin(keys, axis=1)]  # enough for witnesses without a common fact
    answers, chosen = [answer[simple]], [first[simple]]
    for begin, end in _witness_ranges(answer, np.flatnonzero(sharing)):
        deadline.check()
        order = dict(zip(facts[begin:end].ravel().tolist(), keys[begin:end].ravel().tolist(), strict=True))
        sets = [frozenset(n for n in row if n >= 0) for row in facts[begin:end].tolist()]
        taken = np.array(sorted(minimum_hitting_set(sets, order)), np.int64)
        answers.append(np.full(len(taken), answer[begin], np.int64))
        chosen.append(taken)
    return np.concatenate(answers), np.concatenate(chosen)


def _answers_with_shared_facts(answer: Longs, facts: Longs) -> Longs:
    """Return the answers that have two witnesses with a common fact."""
    owners = np.repeat(answer, facts.shape[1])[facts.ravel() >= 0]
    flat = facts.ravel()[facts.ravel() >= 0]
    order = np.lexsort((flat, owners))
    owners, flat = owners[order], flat[order]
    same = (owners[1:] == owners[:-1]) & (flat[1:] == flat[:-1])
    return np.unique(owners[1:][same])


def _witness_ranges(answer: Longs, chosen: Longs) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of the witnesses of each of some answers."""
    yield from zip(
        np.searchsorted(answer, chosen).tolist(), np.searchsorted(answer, chosen, side="right").tolist(), strict=True
    )
