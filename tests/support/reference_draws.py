"""Algorithm 1 in plain Python: probabilities by definition, and a reference implementation with the same keys."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product

from gaifman.config import SamplingConfig
from gaifman.kb.knowledge_base import KnowledgeBase
from reference_graph import adjacent, reached
from reference_rng import MASK, plain_mix

GAMMA = 0x9E3779B97F4A7C15


def pools(kb: KnowledgeBase, objects: tuple[str, ...], radius: int) -> list[set[str]]:
    """The definition: N_r of each object, without the tuple's own."""
    rows = adjacent(kb)
    return [set(reached(rows, {obj}, radius)) - set(objects) for obj in objects]


def distribution(sets: list[set[str]], size: int | None) -> dict[frozenset[str], Fraction]:
    """The probability of every S that Algorithm 1 can draw, by enumeration."""
    union = frozenset().union(*sets)
    if size is None:
        return {union: Fraction(1)}
    found: Counter[frozenset[str]] = Counter()
    shares = [list(combinations(sorted(pool), min(size // len(sets), len(pool)))) for pool in sets]
    for parts in product(*shares):
        drawn = frozenset().union(*parts)
        left = sorted(union - drawn)
        fills = list(combinations(left, min(size - len(drawn), len(left))))
        for fill in fills:
            found[drawn | set(fill)] += Fraction(1, len(fills))  # type: ignore[assignment]
    total = sum(found.values())
    return {members: Fraction(weight, total) for members, weight in found.items()}


def plain_join(key: int, value: int) -> int:
    return plain_mix(((key ^ plain_mix((value + GAMMA) & MASK)) + GAMMA) & MASK)


def plain_below(key: int, i: int, bound: int) -> int:
    bits = plain_mix((key + (i + 1) * GAMMA) & MASK)
    while ((bits >> 32) * bound) % 2**32 < 2**32 % bound:
        bits = plain_mix((bits + GAMMA) & MASK)
    return ((bits >> 32) * bound) >> 32


def plain_order(key: int, row: list[int]) -> Iterator[int]:
    """A random order of the row (Fisher–Yates)."""
    row = list(row)
    for s in range(len(row)):
        other = s + plain_below(key, s, len(row) - s)
        row[s], row[other] = row[other], row[s]
        yield row[s]


def plain_key(sampling: SamplingConfig, number: int) -> int:
    purpose = int.from_bytes(hashlib.blake2b(sampling.purpose.encode(), digest_size=8).digest(), "little")
    return plain_join(plain_join(plain_join(0, sampling.seed), purpose), number)


def plain_draw(
    kb: KnowledgeBase, seen: KnowledgeBase, objects: list[int], sampling: SamplingConfig, number: int
) -> set[int]:
    """S of one draw: `seen` is the knowledge base without what is hidden."""
    names = tuple(kb.object_name(obj) for obj in objects)
    rows = adjacent(kb)
    whole = [
        sorted(kb.object_id(name) for name in set(reached(rows, {name}, sampling.radius)) - {name}) for name in names
    ]
    allowed = [{kb.object_id(name) for name in pool} for pool in pools(seen, names, sampling.radius)]
    if sampling.size is None:
        return set().union(*allowed)
    base = plain_key(sampling, number)
    key = base
    for obj in objects:
        key = plain_join(key, obj)
    drawn: set[int] = set()
    for i, (row, pool) in enumerate(zip(whole, allowed, strict=True)):
        own = plain_join(plain_join(base, objects[i]) if sampling.shared_order else key, i)
        order = [obj for obj in plain_order(own, row) if obj in pool]
        drawn.update(order[: sampling.size // len(objects)])
    longer = [i for i, row in enumerate(whole) if len(row) > sampling.size // len(objects)]
    order = list(plain_order(plain_join(key, len(objects)), sorted(set().union(*(allowed[i] for i in longer)))))
    if sampling.shared_order and len(longer) == 1:  # the order that was begun goes on
        (i,) = longer
        order = [o for o in plain_order(plain_join(plain_join(base, objects[i]), i), whole[i]) if o in allowed[i]]
    for obj in order:
        if len(drawn) < sampling.size:
            drawn.add(obj)
    return drawn
