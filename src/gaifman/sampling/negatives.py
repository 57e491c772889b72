"""Negative sampling: answers with one object replaced.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> from gaifman.sampling.rng import make_key
>>> kb = KnowledgeBase.from_facts([("born_in", "ann", "rome"), ("born_in", "bob", "oslo")], objects=["cleo"])
>>> answers = kb.fact_tables[2].objects
>>> sampler = NegativeSampler(kb, answers, negative_sampling="typed")
>>> negatives = sampler.sample(np.arange(2), 2, make_key(0, "corrupt"))
>>> for row, source in zip(negatives.tuples, negatives.sources):
...     print(*(kb.object_name(obj) for obj in row), "from", *(kb.object_name(obj) for obj in answers[source]))
bob rome from ann rome
ann oslo from ann rome
ann oslo from bob oslo
bob rome from bob oslo

A known answer is never a negative. In a hard negative the new object is a few steps from one that stays. A negative
depends only on the key, the answer and the number of the negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gaifman.config import NEGATIVE_SAMPLING, check_choice, check_fraction
from gaifman.errors import KnowledgeBaseError, similar_names
from gaifman.kb.gaifman_graph import GaifmanGraph, graph_of
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, Longs, freeze
from gaifman.sampling.constraints import QueryConstraints

if TYPE_CHECKING:
    from gaifman.kernels.negatives import CandidatePools, HardNegativeWalks, KnownRuns, KnownTuples

BoolArray = npt.NDArray[np.bool_]
UNIFORM_POOL, TYPED_POOL, MIXED_POOLS = range(3)
"""The pools, and the kinds of sampling that use one of them or both: the indices of `NEGATIVE_SAMPLING`."""


@dataclass(frozen=True, slots=True)
class Negatives:
    """Negatives, each with the answer that it was made from."""

    tuples: Ints
    """Shape (c, n), int32: objects."""
    sources: Longs
    """Shape (c,), int64, ascending: the index of each one's answer in the rows asked for."""

    def __len__(self) -> int:
        return len(self.sources)


class NegativeSampler:
    """Makes negatives of a query's answers. It is immutable, so threads can share it."""

    def __init__(
        self,
        kb: KnowledgeBase,
        answers: Ints,
        *,
        negative_sampling: str = "mixed",
        constraints: QueryConstraints | None = None,
        known: Ints | None = None,
        hard_negative_fraction: float = 0.0,
    ) -> None:
        """Prepare for all answers (a, n) of a query.

        `known` (k, n) are more true tuples, which are never negatives. `hard_negative_fraction` is the fraction of hard
        negatives.
        """
        check_choice("negative_sampling", negative_sampling, NEGATIVE_SAMPLING)
        check_fraction("hard_negative_fraction", hard_negative_fraction)
        constraints = constraints or QueryConstraints((), (None,) * answers.shape[1])
        rows = freeze(answers if known is None else np.concatenate([answers, known]))
        self._answers = freeze(answers)
        self._pools = _pools(kb, answers, NEGATIVE_SAMPLING.index(negative_sampling), constraints)
        self._runs = _known_runs(rows, len(answers), self._pools)
        self._walks = _hard_negative_walks(
            graph_of(kb) if hard_negative_fraction else None,
            hard_negative_fraction,
            constraints,
            answers.shape[1],
        )
        self._known = _known_tables(
            rows, len(answers), constraints if hard_negative_fraction or self._pools.bound.any() else None
        )
        self._certain = _certain_positions(constraints, answers.shape[1])
        self._seen_again = np.array([_share_seen_again(column) for column in answers.T])
        self._seen_again[[kind is not None for kind in constraints.types]] = 1.0

    def sample(self, rows: Longs, count: int, key: np.uint64) -> Negatives:
        """Make `count` negatives of each of some rows of the answers; fewer if no other tuple can be false.

        Negative j of an answer replaces the object at position j + a number that depends on the answer, modulo n.
        """
        from gaifman.kernels.negatives import corrupt

        capacity = len(rows) * count
        tuples, sources = np.empty((capacity, self._answers.shape[1]), np.int32), np.empty(capacity, np.int64)
        prepared = self._known, self._runs, self._pools, self._walks
        total = corrupt(self._answers, freeze(rows), key, count, *prepared, tuples, sources)
        return Negatives(freeze(tuples[:total]), freeze(sources[:total]))

    def true_shares(self, rows: Longs, negatives: Negatives, missing: float) -> Floats:
        """Shape (c,), float64: the probability that each negative of some rows is true, by the known answers alone.

        A share m = `missing` of all answers is assumed to be missing, at random. If k other known answers differ from
        a row at one position only, k · m / (1 - m) missing ones are expected there, among the unknown objects of the
        pool. Of these, the typed pool has those that occur in another answer. Where a constraint says that a negative
        is false, the probability is 0.
        """
        sources = rows[negatives.sources]
        position = (self._answers[sources] != negatives.tuples).argmax(axis=1)
        odds, kind = missing / (1 - missing), self._pools.kind
        shares = [
            self._shares_of_pool(pool, position, sources, odds)
            for pool in (UNIFORM_POOL, TYPED_POOL)
            if kind in (pool, MIXED_POOLS)
        ]
        # A coin decides between two pools, and an exhausted typed pool falls back to the uniform one.
        filled = [np.where(np.isnan(share), shares[0], share) for share in shares]
        expected = np.nan_to_num(np.mean(filled, axis=0))
        return np.where(self._certain[position], 0.0, expected)

    def _shares_of_pool(self, pool: int, position: Longs, sources: Longs, odds: float) -> Floats:
        """Shape (c,), float64: the share of true ones among the unknown objects of a pool; NaN if there are none."""
        runs, pools = self._runs, self._pools
        at = runs.offsets[position, pool] + runs.groups[position, sources]
        known = runs.starts[at + 1] - runs.starts[at]
        unknown = pools.sizes[position, pool] - known
        inside = self._seen_again[position] if pool == TYPED_POOL else 1.0
        expected = np.maximum(known - 1, 0) * odds * inside
        return np.asarray(np.minimum(expected / np.where(unknown > 0, unknown, np.nan), 1.0))


def _hard_negative_walks(
    graph: GaifmanGraph | None, fraction: float, constraints: QueryConstraints, arity: int
) -> HardNegativeWalks:
    """Return the graph that random walks go over; without a graph there are none."""
    from gaifman.kernels.negatives import HardNegativeWalks

    starts = np.zeros(1, np.int64) if graph is None else graph.starts
    neighbours = np.zeros(0, np.int32) if graph is None else graph.neighbours
    return HardNegativeWalks(
        np.uint64(round(fraction * 2**53)),
        freeze(starts),
        freeze(neighbours),
        freeze(_bound_positions(constraints, arity)),
    )


def _pools(kb: KnowledgeBase, answers: Ints, kind: int, constraints: QueryConstraints) -> CandidatePools:
    """Return the pools of each position."""
    from gaifman.kernels.negatives import UNIFORM, CandidatePools

    arity = answers.shape[1]
    bound = _bound_positions(constraints, arity)
    starts, sizes = np.zeros((arity, 2), np.int64), np.zeros((arity, 2), np.int64)
    parts, offset = [np.zeros(0, np.int32)], 0
    for position in range(arity):
        # The typed pool is not needed for uniform sampling, and all objects need no list.
        seen = np.unique(answers[:, position]) if bound[position] or kind != UNIFORM else parts[0]
        typed = seen if constraints.types[position] is None else _objects_of_type(kb, constraints.types[position])
        if bound[position]:  # a determining object occurs in an answer
            typed = np.intersect1d(typed, seen, assume_unique=True)
        for number, pool in enumerate((seen if bound[position] else None, typed)):
            starts[position, number] = -1 if pool is None else offset
            sizes[position, number] = len(kb.objects) if pool is None else len(pool)
            if pool is not None:
                parts.append(pool)
                offset += len(pool)
    members = np.concatenate(parts).astype(np.int32, copy=False)
    # In a pair, an object that occurs and gives no known answer determines another one: no look-up is needed.
    looked_up = bound if arity > 2 else np.zeros(arity, np.uint8)
    return CandidatePools(kind, freeze(starts), freeze(sizes), freeze(members), freeze(looked_up))


def _known_runs(rows: Ints, count: int, pools: CandidatePools) -> KnownRuns:
    """Return for each position and pool the known objects, grouped by the other objects of the rows (k, n)."""
    from gaifman.kernels.negatives import TYPED, UNIFORM, KnownRuns

    arity = rows.shape[1]
    groups, offsets = np.zeros((arity, count), np.int32), np.zeros((arity, 2), np.int64)
    starts, ranks = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for position in np.flatnonzero(pools.bound == 0).tolist():
        order, new_group, distinct = _group_rows(rows, position)
        group = np.empty(len(rows), np.int32)
        group[order] = np.cumsum(new_group) - 1
        groups[position] = group[:count]
        for pool in (UNIFORM, TYPED):
            if pools.kind != 1 - pool:  # only pools that are used
                indices, inside = _pool_positions(pools, position, pool, rows[order, position])
                used = distinct & inside
                before = np.append(0, np.cumsum(used))
                offsets[position, pool] = sum(map(len, starts))
                starts.append(np.append(before[:-1][new_group], before[-1]) + sum(map(len, ranks)))
                ranks.append(indices[used])
    return KnownRuns(freeze(groups), freeze(offsets), freeze(np.concatenate(starts)), freeze(np.concatenate(ranks)))


def _group_rows(rows: Ints, position: int) -> tuple[Longs, BoolArray, BoolArray]:
    """Return an order that puts rows together which differ only at a position, ascending there.

    Also, in that order, which rows start a new group, and which differ from the row before.
    """
    rest = [rows[:, i] for i in range(rows.shape[1]) if i != position]
    order = np.lexsort([rows[:, position], *rest])
    new_group = np.zeros(len(rows), bool)
    for column in rest:
        new_group[1:] |= np.diff(column[order]) != 0
    new_group[:1] = True
    distinct = new_group.copy()
    distinct[1:] |= np.diff(rows[order, position]) != 0
    return order, new_group, distinct


def _pool_positions(pools: CandidatePools, position: int, pool: int, objects: Ints) -> tuple[Ints, BoolArray]:
    """Return the index of each object in a pool, and whether it is in the pool."""
    begin, size = int(pools.starts[position, pool]), int(pools.sizes[position, pool])
    if begin < 0:
        return objects, np.ones(len(objects), bool)
    members = pools.members[begin : begin + size]
    indices = np.searchsorted(members, objects).astype(np.int32)
    inside = indices < size
    inside[inside] = members[indices[inside]] == objects[inside]
    return indices, inside


def _known_tables(rows: Ints, count: int, constraints: QueryConstraints | None) -> KnownTuples:
    """Return hash tables of the rows (k, n), if constraints need them. The first `count` rows are the answers."""
    from gaifman.kernels.negatives import KnownTuples, fill_table

    masks = [(1 << rows.shape[1]) - 1]
    for determining, determined in constraints.functional if constraints else ():
        mask = sum(1 << position for position in determining)
        masks += [mask, mask | 1 << determined]
    slots = 1 << (2 * len(rows)).bit_length() if constraints else 1
    known = KnownTuples(rows, freeze(np.array(masks, np.int64)), np.empty((len(masks), slots), np.int32))
    for number in range(len(masks) if constraints else 0):
        # Determining objects must come from an answer; other rows are only known to be true.
        fill_table(known, number, count if number % 2 else len(rows))
    return known._replace(tables=freeze(known.tables))


def _bound_positions(constraints: QueryConstraints, arity: int) -> npt.NDArray[np.uint8]:
    """Return 1 at the positions that determine others and are not determined themselves.

    Another object there may be true too, unless it is known to determine another one. At a determined position every
    other object is false.
    """
    bound = np.zeros(arity, np.uint8)
    for determining, _ in constraints.functional:
        bound[list(determining)] = 1
    for _, determined in constraints.functional:
        bound[determined] = 0
    return bound


def _share_seen_again(objects: Ints) -> float:
    """Return the share of answers whose object at one position (a,) occurs there in another answer.

    >>> _share_seen_again(np.array([5, 5, 7]))
    0.6666666666666666
    """
    counts = np.unique(objects, return_counts=True)[1]
    return float(counts[counts > 1].sum() / max(1, len(objects)))


def _certain_positions(constraints: QueryConstraints, arity: int) -> BoolArray:
    """Return the positions at which a constraint says that every negative is false: all that a function names."""
    certain = np.zeros(arity, bool)
    for determining, determined in constraints.functional:
        certain[[*determining, determined]] = True
    return certain


def _objects_of_type(kb: KnowledgeBase, name: str | None) -> Ints:
    """Return the objects of a type, ascending."""
    number = kb.content.relations.find(name or "")
    if number is None or kb.content.arities[number] != 1:
        suggestions = similar_names(name or "", kb.types())
        raise KnowledgeBaseError(f"there is no type {name}", suggestions=suggestions, hint="a type is a unary relation")
    table = kb.fact_tables.get(1)
    return np.zeros(0, np.int32) if table is None else table.objects[table.rows(number), 0]
