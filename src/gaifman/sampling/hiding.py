"""Which facts to hide from a training tuple, so that its truth cannot be read off.

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
from gaifman.kb.tables import Ints, Longs
from gaifman.logic.ast import Query
from gaifman.queries.answers import Queryable, prepare
from gaifman.queries.engine import Engine, get_engine
from gaifman.queries.witnesses import MAX_WITNESSES, Witnesses, are_answers, as_answer_rows, is_monotone, witnesses
from gaifman.sampling.hitting_sets import minimum_hitting_set
from gaifman.sampling.neighbourhoods import HiddenFacts
from gaifman.sampling.refutation import Refuter
from gaifman.sampling.rng import Keys, fold_in, fold_in_rows, mix

HIDING_PURPOSE = 0x68696465
"""Purpose of the random keys, so that they differ from others with the same seed."""


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
