"""Corruptions: answers with one object changed, to learn what is false.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> from gaifman.sampling.rng import start
>>> kb = KnowledgeBase.from_facts([("born_in", "ann", "rome"), ("born_in", "bob", "oslo")], objects=["cleo"])
>>> answers = kb.tables[2].objects
>>> found = NegativeSampler(kb, answers, pool="typed").corrupted(np.arange(2), 2, start(0, "corrupt"))
>>> for row, source in zip(found.tuples, found.sources):
...     print(*(kb.name(obj) for obj in row), "of", *(kb.name(obj) for obj in answers[source]))
bob rome of ann rome
ann oslo of ann rome
ann oslo of bob oslo
bob rome of bob oslo

A share of them can be near: then the new object is a few steps from one that stays. A known answer is never one. Which
object is put where hangs on the key, the answer and the corruption's number alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gaifman.config import check_choice, check_fraction
from gaifman.errors import KnowledgeBaseError, similar_names
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints, Longs
from gaifman.sampling.constraints import QueryConstraints

if TYPE_CHECKING:
    from gaifman.kernels.negatives import CandidatePools, HardNegativeWalks, KnownRuns, KnownTuples

BoolArray = npt.NDArray[np.bool_]
NEGATIVE_SAMPLING = ("uniform", "typed", "mixed")
"""Where other objects are drawn from: all objects; those that answers have there; a coin decides each time."""


@dataclass(frozen=True, slots=True)
class Negatives:
    """Tuples that are no known answers, each with the answer that it was made of."""

    tuples: Ints
    """Shape (c, n), int32: objects."""
    sources: Longs
    """Shape (c,), int64, ascending: places among the answers that were asked for."""

    def __len__(self) -> int:
        return len(self.sources)


class NegativeSampler:
    """Makes corruptions of a query's answers. It never changes: threads can share it."""

    def __init__(
        self,
        kb: KnowledgeBase,
        answers: Ints,
        *,
        negative_sampling: str = "mixed",
        constraints: QueryConstraints | None = None,
        known: Ints | None = None,
        hard_negative_fraction: float = 0.0,
        graph: GaifmanGraph | None = None,
    ) -> None:
        """For all answers (a, n) of a query; `known` (k, n) are further tuples that are true, `own` its constraints.

        `near` is the share of corruptions whose new object is near; `graph` that of `kb`, where it is there already.
        """
        from gaifman.kb.tables import freeze  # here: numba takes a quarter of a second to import

        check_negative_sampling(negative_sampling)
        check_hard_negative_fraction(hard_negative_fraction)
        constraints = constraints or QueryConstraints((), (None,) * answers.shape[1])
        rows = freeze(answers if known is None else np.concatenate([answers, known]))
        self._answers = freeze(answers)
        self._pools = _pools(kb, answers, NEGATIVE_SAMPLING.index(negative_sampling), constraints)
        self._runs = _known_runs(rows, len(answers), self._pools)
        self._near = _hard_negative_graph(
            graph or build_graph(kb) if hard_negative_fraction else None,
            hard_negative_fraction,
            constraints,
            answers.shape[1],
        )
        self._known = _known_tables(
            rows, len(answers), constraints if hard_negative_fraction or self._pools.bound.any() else None
        )

    def sample(self, rows: Longs, count: int, key: np.uint64) -> Negatives:
        """So many corruptions of each of some rows of the answers; fewer where there is no other that could be false.

        Corruption j of an answer changes the object at position j + a number of the answer's key, modulo n.
        """
        from gaifman.kb.tables import freeze
        from gaifman.kernels.negatives import corrupt

        room = len(rows) * count
        tuples, sources = np.empty((room, self._answers.shape[1]), np.int32), np.empty(room, np.int64)
        made = self._known, self._runs, self._pools, self._near
        found = corrupt(self._answers, freeze(rows), key, count, *made, tuples, sources)
        return Negatives(freeze(tuples[:found]), freeze(sources[:found]))


def check_negative_sampling(value: str) -> None:
    """Refuse a way of sampling negatives that does not exist."""
    check_choice("negative_sampling", value, NEGATIVE_SAMPLING)


def check_hard_negative_fraction(value: float) -> None:
    """Refuse a fraction of hard negatives that is not a number from 0 to 1."""
    check_fraction("hard_negative_fraction", value)


def _hard_negative_graph(
    graph: GaifmanGraph | None, fraction: float, constraints: QueryConstraints, arity: int
) -> HardNegativeWalks:
    """Where strolls go; without a graph there are none."""
    from gaifman.kb.tables import freeze
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
    """The pools of each position."""
    from gaifman.kb.tables import freeze
    from gaifman.kernels.negatives import UNIFORM, CandidatePools

    width = answers.shape[1]
    bound = _bound_positions(constraints, width)
    starts, sizes = np.zeros((width, 2), np.int64), np.zeros((width, 2), np.int64)
    parts, at = [np.zeros(0, np.int32)], 0
    for position in range(width):
        # Nobody asks for the typed pool of a uniform recipe, and all objects are no list.
        seen = np.unique(answers[:, position]) if bound[position] or kind != UNIFORM else parts[0]
        typed = seen if constraints.types[position] is None else _objects_of_type(kb, constraints.types[position])
        if bound[position]:  # what determines something is seen there
            typed = np.intersect1d(typed, seen, assume_unique=True)
        for number, pool in enumerate((seen if bound[position] else None, typed)):
            starts[position, number] = -1 if pool is None else at
            sizes[position, number] = len(kb.objects) if pool is None else len(pool)
            if pool is not None:
                parts.append(pool)
                at += len(pool)
    members = np.concatenate(parts).astype(np.int32, copy=False)
    # Of a pair that one object determines, all that is seen and not known there is determined otherwise: no look-up.
    looked_up = bound if width > 2 else np.zeros(width, np.uint8)
    return CandidatePools(kind, freeze(starts), freeze(sizes), freeze(members), freeze(looked_up))


def _known_runs(rows: Ints, count: int, pools: CandidatePools) -> KnownRuns:
    """For each position and pool the places of what is known there, by what stands elsewhere in the rows (k, n)."""
    from gaifman.kb.tables import freeze
    from gaifman.kernels.negatives import TYPED, UNIFORM, KnownRuns

    width = rows.shape[1]
    groups, offsets = np.zeros((width, count), np.int32), np.zeros((width, 2), np.int64)
    starts, ranks = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for position in np.flatnonzero(pools.bound == 0).tolist():
        order, other, fresh = _group_rows(rows, position)
        group = np.empty(len(rows), np.int32)
        group[order] = np.cumsum(other) - 1
        groups[position] = group[:count]
        for pool in (UNIFORM, TYPED):
            if pools.kind != 1 - pool:  # what nobody asks for is not made
                places, inside = _pool_positions(pools, position, pool, rows[order, position])
                kept = fresh & inside
                before = np.append(0, np.cumsum(kept))
                offsets[position, pool] = sum(map(len, starts))
                starts.append(np.append(before[:-1][other], before[-1]) + sum(map(len, ranks)))
                ranks.append(places[kept])
    return KnownRuns(freeze(groups), freeze(offsets), freeze(np.concatenate(starts)), freeze(np.concatenate(ranks)))


def _group_rows(rows: Ints, position: int) -> tuple[Longs, BoolArray, BoolArray]:
    """An order in which rows that differ at a position alone stand together, ascending there.

    And in that order, which row differs from the one before elsewhere, and which differs at all.
    """
    rest = [rows[:, i] for i in range(rows.shape[1]) if i != position]
    order = np.lexsort([rows[:, position], *rest])
    other = np.zeros(len(rows), bool)
    for column in rest:
        other[1:] |= np.diff(column[order]) != 0
    other[:1] = True
    fresh = other.copy()
    fresh[1:] |= np.diff(rows[order, position]) != 0
    return order, other, fresh


def _pool_positions(pools: CandidatePools, position: int, pool: int, objects: Ints) -> tuple[Ints, BoolArray]:
    """Where in a pool each of some objects stands, and whether it does."""
    begin, size = int(pools.starts[position, pool]), int(pools.sizes[position, pool])
    if begin < 0:
        return objects, np.ones(len(objects), bool)
    members = pools.members[begin : begin + size]
    places = np.searchsorted(members, objects).astype(np.int32)
    inside = places < size
    inside[inside] = members[places[inside]] == objects[inside]
    return places, inside


def _known_tables(rows: Ints, count: int, constraints: QueryConstraints | None) -> KnownTuples:
    """Tables to look rows up in, where constraints ask for it; of the rows (k, n) the first are the answers."""
    from gaifman.kb.tables import freeze
    from gaifman.kernels.negatives import KnownTuples, fill_table

    masks = [(1 << rows.shape[1]) - 1]
    for determining, determined in constraints.functional if constraints else ():
        mask = sum(1 << position for position in determining)
        masks += [mask, mask | 1 << determined]
    slots = 1 << (2 * len(rows)).bit_length() if constraints else 1
    known = KnownTuples(rows, freeze(np.array(masks, np.int64)), np.empty((len(masks), slots), np.int32))
    for number in range(len(masks) if constraints else 0):
        # What determines must be an answer; of the others it is only known that they are true.
        fill_table(known, number, count if number % 2 else len(rows))
    return known._replace(tables=freeze(known.tables))


def _bound_positions(constraints: QueryConstraints, arity: int) -> npt.NDArray[np.uint8]:
    """1 at the positions that determine others, and are determined by none.

    There another object may be true as well, unless it is known to determine something else. An object at a position
    that is determined is false, whatever it is.
    """
    bound = np.zeros(arity, np.uint8)
    for determining, _ in constraints.functional:
        bound[list(determining)] = 1
    for _, determined in constraints.functional:
        bound[determined] = 0
    return bound


def _objects_of_type(kb: KnowledgeBase, name: str | None) -> Ints:
    """The objects of a type, ascending."""
    number = kb.content.relations.find(name or "")
    if number is None or kb.content.arities[number] != 1:
        near = similar_names(name or "", kb.types())
        raise KnowledgeBaseError(
            f"there is no type {name}", suggestions=near, hint="a type is a relation with one place"
        )
    table = kb.fact_tables.get(1)
    return np.zeros(0, np.int32) if table is None else table.objects[table.rows(number), 0]
