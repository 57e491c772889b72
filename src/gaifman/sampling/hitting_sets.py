"""Smallest sets of numbers that meet all of some sets.

>>> sorted(minimum_hitting_set([frozenset({1, 2}), frozenset({2, 3}), frozenset({3, 4})], {1: 5, 2: 3, 3: 8, 4: 1}))
[2, 4]
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

MAX_SEARCH_STEPS = 20_000
"""Choices tried for one tuple before a small set, perhaps not the smallest, is taken."""
MAX_SEARCH_DEPTH = 200
"""Largest set for which the smallest one is searched: the search is recursive."""


def minimum_hitting_set(
    sets: Iterable[frozenset[int]], key: dict[int, int], max_steps: int = MAX_SEARCH_STEPS
) -> set[int]:
    """Return a smallest set of numbers that meets all of the sets; the keys decide between equal sizes.

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
