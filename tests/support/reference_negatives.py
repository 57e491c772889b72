"""Reference implementation of negative sampling in plain Python, with the keys of the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from reference_draws import plain_below, plain_join
from reference_rng import MASK, plain_mix

TRIES, STEPS, WALK_KEY = 32, 3, 64
GAMMA = 0x9E3779B97F4A7C15
Row = tuple[int, ...]
Rule = tuple[tuple[int, ...], int]


@dataclass
class Plain:
    """The inputs of negative sampling."""

    objects: int
    answers: Sequence[Row]
    pool: str = "mixed"
    functional: tuple[Rule, ...] = ()
    types: Sequence[set[int] | None] = ()
    known: set[Row] = field(default_factory=set)
    """Further true tuples."""
    near: float = 0.0
    around: Sequence[Sequence[int]] = ()
    """The neighbours of each object, ascending."""

    @property
    def true(self) -> set[Row]:
        return {*self.answers, *self.known}

    def restricted(self, position: int) -> bool:
        """Whether the position determines another and is not determined itself."""
        determining = any(position in places for places, _ in self.functional)
        return determining and all(position != determined for _, determined in self.functional)

    def universe(self, position: int, typed: bool) -> list[int]:
        """The pool of a position, ascending; where only what is seen can be allowed, only that."""
        seen = {row[position] for row in self.answers}
        pool = set(range(self.objects))
        if typed:
            given = self.types[position] if self.types else None
            pool = seen if given is None else given
        return sorted(pool & seen if self.restricted(position) else pool)

    def false(self, row: Row, position: int) -> bool:
        """Whether a tuple, changed at a position, is a valid negative."""
        if row in self.true:
            return False
        return not self.restricted(position) or any(
            self.determined_otherwise(row, rule) for rule in self.functional if position in rule[0]
        )

    def determined_otherwise(self, row: Row, rule: Rule) -> bool:
        """Whether a constraint makes the tuple false: its determining objects have other values."""
        places, determined = rule
        alike = [other for other in self.true if all(other[i] == row[i] for i in places)]
        return any(other in self.answers for other in alike) and all(o[determined] != row[determined] for o in alike)

    def allowed(self, row: Row, position: int, typed: bool) -> list[int]:
        """The objects of a pool that make a tuple false at a position."""
        pool = self.universe(position, typed)
        return [obj for obj in pool if self.false(changed(row, position, obj), position)]

    def chosen(self, key: int, row: Row, position: int, typed: bool) -> int | None:
        pool, free = self.universe(position, typed), self.allowed(row, position, typed)
        if not free:
            return None
        if not self.restricted(position) or len(row) < 3:
            return free[plain_below(key, 0, len(free))]
        for attempt in range(TRIES):
            obj = pool[plain_below(key, attempt, len(pool))]
            if obj in free:
                return obj
        return free[plain_below(key, TRIES, len(free))]

    def corrupted(self, rows: Sequence[int], count: int, key: int) -> Iterator[tuple[Row, int]]:
        """Return negatives, each with the row of its answer."""
        for place, number in enumerate(rows):
            row, own = self.answers[number], key
            for obj in row:
                own = plain_join(own, obj)
            for j in range(count):
                found = self.one(row, plain_join(own, j), own % len(row) + j)
                if found is not None:
                    yield found, place

    def walked(self, key: int, row: Row, position: int) -> Row | None:
        """A hard negative: an object at the end of a random walk, if it makes the tuple false."""
        width = len(row)
        begun = here = row[(position + 1 + plain_below(key, 0, width - 1)) % width] if width > 1 else row[0]
        for step in range(2 + plain_below(key, 1, STEPS - 1)):
            if self.around[here]:
                here = self.around[here][plain_below(key, 2 + step, len(self.around[here]))]
        found = changed(row, position, here)
        fresh = here not in row and here not in self.around[begun]
        return found if fresh and self.false(found, position) else None

    def one(self, row: Row, key: int, first: int) -> Row | None:
        coin = plain_mix((key + GAMMA) & MASK) & 1
        if plain_mix((key + 2 * GAMMA) & MASK) >> 11 < round(self.near * 2**53):
            found = self.walked(plain_join(key, WALK_KEY), row, first % len(row))
            if found is not None:
                return found
        pools = {"uniform": [False], "typed": [True], "mixed": [True, False] if coin else [False]}[self.pool]
        for step in range(len(row)):
            position = (first + step) % len(row)
            for typed in pools:
                obj = self.chosen(plain_join(key, 2 * position + typed), row, position, typed)
                if obj is not None:
                    return changed(row, position, obj)
        return None


def changed(row: Row, position: int, obj: int) -> Row:
    return (*row[:position], obj, *row[position + 1 :])
