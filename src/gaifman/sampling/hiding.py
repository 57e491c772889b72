"""Which facts to hide from a training tuple, so that its truth cannot be read off.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "ann", "bea"), ("parent", "bob", "cleo")])
>>> hidden = hide(kb, "exists z. parent(x, z)", [[0]])
>>> [str(kb.fact_by_id(number)) for number in hidden.facts.tolist()]
['parent(ann, bea).', 'parent(ann, bob).']
>>> len(hide(kb, "exists z. parent(x, z) & parent(z, y)", [[0, 3]]).facts)
1

For a query of ∃, ∧, ∨ and atoms: a smallest set of facts without which the tuple is no answer, that is, one with a fact
of each witness. Among several smallest sets one is chosen at random, keyed by seed and tuple. For a query with ¬, ↔ or
∀: the facts of its atoms with the tuple's objects in place of its variables.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from gaifman.cancellation import Deadline
from gaifman.config import DEFAULT_BUDGET, Budget
from gaifman.kb.tables import Ints, Longs
from gaifman.logic.ast import Query
from gaifman.queries.answers import Queryable, prepare
from gaifman.queries.engine import get_engine
from gaifman.queries.witnesses import (
    MAX_WITNESSES,
    Witnesses,
    are_answers,
    as_answer_rows,
    ground_instances,
    is_monotone,
    witnesses,
)
from gaifman.sampling.neighbourhoods import HiddenFacts
from gaifman.sampling.rng import fold_in, fold_in_rows, mix

MAX_SEARCH_STEPS = 20_000
"""Choices tried for one tuple before a small set, perhaps not the smallest, is taken."""
MAX_SEARCH_DEPTH = 200
"""Largest set for which the smallest one is searched: the search is recursive."""
HIDING_PURPOSE = 0x68696465
"""Purpose of the random keys, so that they differ from others with the same seed."""


def hide(
    kb: Queryable,
    query: str | Query,
    answers: npt.ArrayLike,
    *,
    seed: int = 0,
    max_witnesses: int = MAX_WITNESSES,
    budget: Budget = DEFAULT_BUDGET,
) -> HiddenFacts:
    """Return the facts to hide from each of some answers (b, variables), by object number.

    Nothing is hidden from a tuple that is no answer or is true without facts. The result depends on the knowledge base,
    the query, the tuple and the seed, never on the other tuples or their order.
    """
    engine, deadline = get_engine(kb), Deadline(budget.seconds)
    query = prepare(engine, query, budget=budget).query
    rows = as_answer_rows(query, answers)
    if not is_monotone(query, engine.kb):
        instances = ground_instances(engine, query, rows, max_witnesses=max_witnesses, budget=budget)
        answered = are_answers(engine, query, rows, budget=deadline.limit_budget(budget))[instances.answer]
        return _group_by_answer(len(rows), instances.answer[answered], instances.facts[answered, 0])
    found = witnesses(engine, query, rows, max_witnesses=max_witnesses, budget=budget)
    return _group_by_answer(len(rows), *_choose_facts(found, rows, seed, deadline))


def _group_by_answer(count: int, answer: Longs, facts: Longs) -> HiddenFacts:
    """Return pairs of answer and fact as rows; facts are distinct and ascending."""
    pairs = np.unique(np.stack([answer, facts], axis=1), axis=0)
    starts = np.searchsorted(pairs[:, 0], np.arange(count + 1)).astype(np.int64)
    return HiddenFacts(starts, pairs[:, 1].copy())


def _choose_facts(found: Witnesses, rows: Ints, seed: int, deadline: Deadline) -> tuple[Longs, Longs]:
    """Return pairs of answer and fact: for each answer a smallest set with a fact of each witness."""
    factless = np.zeros(len(rows), bool)
    factless[found.answer[(found.facts < 0).all(axis=1)]] = True
    used = ~factless[found.answer]
    answer, facts = found.answer[used], found.facts[used]
    if not len(answer):
        return answer, np.zeros(0, np.int64)
    key = fold_in(mix(np.array([seed & 0xFFFFFFFFFFFFFFFF], np.uint64)), np.array([HIDING_PURPOSE]))
    tuple_keys = fold_in_rows(key, rows)
    keys = fold_in(tuple_keys[answer][:, None], facts)
    keys[facts < 0] = np.iinfo(np.uint64).max
    sharing = np.zeros(len(rows), bool)
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


# Smallest sets


def minimum_hitting_set(
    sets: Iterable[frozenset[int]], key: dict[int, int], max_steps: int = MAX_SEARCH_STEPS
) -> set[int]:
    """Return a smallest set of numbers that meets all of the sets; the keys decide between equal sizes.

    >>> sorted(minimum_hitting_set([frozenset({1, 2}), frozenset({2, 3}), frozenset({3, 4})], {1: 5, 2: 3, 3: 8, 4: 1}))
    [2, 4]

    Exact unless it takes more than `max_steps` choices or a connected part needs more than 200 numbers. Even then every
    number of the result is needed.
    """
    chosen: set[int] = set()
    for component in _components(_minimal(sets)):
        greedy = _drop_redundant(_greedy(component, key), component, key)
        chosen |= _branch_and_bound(component, key, greedy, max_steps)
    return chosen


def _minimal(sets: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """Return the sets of which no other set is a subset."""
    holders: dict[int, list[frozenset[int]]] = {}
    minimal: list[frozenset[int]] = []
    for candidate in sorted(set(sets), key=lambda s: (len(s), sorted(s))):
        if not any(other <= candidate for number in candidate for other in holders.get(number, ())):
            minimal.append(candidate)
            holders.setdefault(min(candidate), []).append(candidate)
    return minimal


def _components(sets: list[frozenset[int]]) -> list[list[frozenset[int]]]:
    """Return the sets grouped into connected components by common numbers."""
    group = {number: number for one in sets for number in one}

    def root(number: int) -> int:
        while group[number] != number:
            group[number] = number = group[group[number]]
        return number

    for one in sets:
        first = root(min(one))
        for number in one:
            group[root(number)] = first
    found: dict[int, list[frozenset[int]]] = {}
    for one in sets:
        found.setdefault(root(min(one)), []).append(one)
    return list(found.values())


def _greedy(sets: list[frozenset[int]], key: dict[int, int]) -> set[int]:
    """Return a small hitting set: repeatedly the number that meets most of the remaining sets."""
    left: dict[int, set[int]] = {}
    for i, one in enumerate(sets):
        for number in one:
            left.setdefault(number, set()).add(i)
    heap = [(-len(members), key[number], number) for number, members in left.items()]
    heapq.heapify(heap)
    unmet, chosen = set(range(len(sets))), set[int]()
    while unmet:
        size, order, number = heapq.heappop(heap)
        members = left[number] & unmet
        if len(members) == -size:
            chosen.add(number)
            unmet -= members
        elif members:
            heapq.heappush(heap, (-len(members), order, number))
    return chosen


def _drop_redundant(chosen: set[int], sets: list[frozenset[int]], key: dict[int, int]) -> set[int]:
    """Remove numbers whose sets are all met by others."""
    kept = set(chosen)
    for number in sorted(chosen, key=key.__getitem__):
        if all(len(one & kept) > 1 for one in sets if number in one):
            kept.discard(number)
    return kept


def _branch_and_bound(sets: list[frozenset[int]], key: dict[int, int], known: set[int], steps: int) -> set[int]:
    """Improve a known solution by branch and bound.

    Some number of the smallest unmet set must be taken; they are tried by key.
    """
    best, left = [known], [steps if len(known) <= MAX_SEARCH_DEPTH else 0]

    def descend(unmet: list[frozenset[int]], taken: set[int]) -> None:
        if not unmet:
            best[0] = set(taken)
            return
        if len(taken) + _disjoint_lower_bound(unmet) >= len(best[0]) or left[0] <= 0:
            return
        first: frozenset[int] = min(unmet, key=len)
        for number in sorted(first, key=key.__getitem__):
            left[0] -= 1
            descend([one for one in unmet if number not in one], taken | {number})

    descend(sets, set())
    return best[0]


def _disjoint_lower_bound(sets: list[frozenset[int]]) -> int:
    """Return the size of a family of disjoint sets: a lower bound of the choices needed."""
    used: set[int] = set()
    count = 0
    for one in sets:
        if used.isdisjoint(one):
            used |= one
            count += 1
    return count
