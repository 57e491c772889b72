"""Links between relations: facts of one that hold in another too, perhaps with two objects exchanged.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> facts = [("parent", f"p{i}", f"c{i}") for i in range(12)] + [("child", f"c{i}", f"p{i}") for i in range(12)]
>>> for link in find_links(KnowledgeBase.from_facts(facts).content):
...     print(link.kind, link, link.evidence, sep=": ")
inverse: child(x, y) ↔ parent(y, x): 12 of 12 and 12 facts

A relation is linked to another if at most a quarter of its facts lack their counterpart, and chance would leave more of
them without one. By chance, the facts of the other relation are spread over all tuples of the objects at its positions,
or over all tuples that are facts of some relation, if these are more.

| kind | r(x, y) | linked |
| --- | --- | --- |
| symmetric | r(y, x) | with itself |
| inverse | s(y, x) | both ways |
| duplicate | s(x, y) | both ways |
| subset | s(x, y) | one way |
| inverse subset | s(y, x) | one way |

In relations of more objects, any two positions can be exchanged. Facts that the exchange does not change, such as
r(x, x), do not count. Constraints are found by the same measures of few exceptions: `is_rare` and `is_below_chance`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from gaifman.kb.tables import FactTable, Longs, Tables, concatenate_ranges, row_ids
from gaifman.logic.ast import format_relation

KINDS = ("inverse", "duplicate", "symmetric", "subset", "inverse subset")
VARIABLES = "xyzuvwst"
MAX_JOINED = 5_000_000
"""Pairs of facts in memory at once."""
MIN_INSTANCES = 10
MAX_EXCEPTIONS = 0.05
"""Largest share of exceptions among the instances."""
MAX_MISSING_INVERSES = 0.25
"""The same for a symmetric relation: a knowledge base misses facts."""
UNCERTAINTY = 4
"""The share of exceptions could be this many times larger, at the upper end of what the sample allows."""
SIGNIFICANCE = 0.1
"""Probability of so few exceptions at that share, or by chance, up to which they count as few."""
CHANCE_SHARE = 1 / 3
"""Exceptions are also at most this share of those that chance gives."""

Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RelationLink:
    """That facts of one relation hold in another, too: `relation(x, y)` and `other(y, x)`."""

    kind: str
    """One of `symmetric`, `inverse`, `duplicate`, `subset` and `inverse subset`."""
    relation: str
    other: str
    """The other relation; the same one if it is symmetric."""
    order: Order
    """The positions of `relation` that the positions of `other` repeat: (1, 0) if two objects are exchanged."""
    shared: int
    """Facts of `relation` whose counterpart is a fact of `other`."""
    facts: int
    """Facts of `relation`."""
    other_facts: int
    """Facts of `other`."""

    @property
    def is_mutual(self) -> bool:
        """Whether facts of each relation imply those of the other."""
        return not self.kind.endswith("subset")

    @property
    def evidence(self) -> str:
        """How many facts have their counterpart."""
        if self.kind == "symmetric":
            return f"{self.shared:,} of {self.facts:,} facts are known both ways"
        others = f" and {self.other_facts:,}" if self.is_mutual else ""
        return f"{self.shared:,} of {self.facts:,}{others} facts"

    def __str__(self) -> str:
        names = VARIABLES[: len(self.order)]
        left = f"{format_relation(self.relation)}({', '.join(names)})"
        right = f"{format_relation(self.other)}({', '.join(names[i] for i in self.order)})"
        return f"{left} {'↔' if self.is_mutual else '→'} {right}"

    def as_dict(self) -> dict[str, Any]:
        """The link as JSON types."""
        return {
            "kind": self.kind,
            "relation": self.relation,
            "other": self.other,
            "order": list(self.order),
            "shared": self.shared,
            "facts": self.facts,
            "other_facts": self.other_facts,
            "text": str(self),
        }


def find_links(tables: Tables) -> list[RelationLink]:
    """Find the links of all relations: by kind, those of the most facts first."""
    orders = [(table, order) for table in tables.facts.values() for order in _orders(table.arity)]
    found = [link for table, order in orders for link in _links_of(tables, table, order)]
    symmetric = {(link.relation, link.order) for link in found if link.kind == "symmetric"}
    plain = {(link.relation, link.other) for link in found if not link.kind.startswith("inverse")}
    plain |= {(other, relation) for relation, other in plain}

    def follows(link: RelationLink) -> bool:
        """Whether a link with an exchange follows from the one without: one of the relations is symmetric."""
        exchanged = link.kind.startswith("inverse") and (link.relation, link.other) in plain
        return exchanged and any((name, link.order) in symmetric for name in (link.relation, link.other))

    kept = [link for link in found if not follows(link)]
    return sorted(kept, key=lambda link: (KINDS.index(link.kind), -link.shared, link.relation, link.other, link.order))


def _orders(arity: int) -> Iterator[Order]:
    """The order of positions as it is, and with two exchanged."""
    yield tuple(range(arity))
    for first, second in combinations(range(arity), 2):
        order = list(range(arity))
        order[first], order[second] = second, first
        yield tuple(order)


def _links_of(tables: Tables, table: FactTable, order: Order) -> Iterator[RelationLink]:
    """The links of relations of one arity with one order of positions."""
    same = order == tuple(range(len(order)))
    moved = (table.objects != table.objects[:, order]).any(axis=1) | same
    counts = np.bincount(table.relation[moved], minlength=len(tables.relations)).tolist()
    possible = _possible_tuples(table, len(tables.relations))
    for first, second, shared in _shared_counts(table, order, len(tables.relations)):
        if first > second or (same and first == second) or shared < MIN_INSTANCES / 2:
            continue
        forward = _implies(shared, counts[first], counts[second] / possible[second])
        backward = _implies(shared, counts[second], counts[first] / possible[first])
        if not forward and not backward:
            continue
        kind = _kind(first == second, same, forward and backward)
        source, target = (first, second) if forward else (second, first)
        names = tables.relations[source], tables.relations[target]
        yield RelationLink(kind, *names, order, shared, counts[source], counts[target])


def _kind(itself: bool, same: bool, mutual: bool) -> str:
    """The kind of a link: of a relation with itself, with positions in the same order, and both ways."""
    if itself:
        return "symmetric"
    if mutual:
        return "duplicate" if same else "inverse"
    return "subset" if same else "inverse subset"


def _implies(shared: int, facts: int, density: float) -> bool:
    """Whether facts of a relation imply those of another, of which they share some: a share of the possible ones."""
    missing = facts - shared
    return is_rare(missing, facts, MAX_MISSING_INVERSES) and is_below_chance(missing, facts * (1 - min(1.0, density)))


def _possible_tuples(table: FactTable, relations: int) -> list[float]:
    """For each relation, the tuples over which chance spreads its facts."""
    pairs = [np.unique(np.stack([table.relation, column], axis=1), axis=0) for column in table.objects.T]
    sizes = [np.bincount(own[:, 0], minlength=relations).astype(np.float64) for own in pairs]
    tuples = int(row_ids(table.objects)[0].max(initial=-1)) + 1
    possible: list[float] = np.maximum(np.prod(sizes, axis=0), tuples).tolist()
    return possible


def _shared_counts(table: FactTable, order: Order, relations: int) -> Iterator[tuple[int, int, int]]:
    """Pairs of relations, and how many facts of the first one have their counterpart in the second one."""
    codes, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for facts, others in _join(table, order):
        code = table.relation[facts].astype(np.int64) * relations + table.relation[others]
        own, number = np.unique(code, return_counts=True)
        codes, places = np.unique(np.concatenate([codes, own]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, number]), len(codes)).astype(np.int64)
    for pair, count in zip(codes.tolist(), counts.tolist(), strict=True):
        yield *divmod(pair, relations), count


def _join(table: FactTable, order: Order) -> Iterator[tuple[Longs, Longs]]:
    """Rows of a table, in blocks of pairs: a fact, and one with its objects in this order that is not itself."""
    own, wanted = row_ids(table.objects, np.ascontiguousarray(table.objects[:, order]))
    by_tuple = np.argsort(own, kind="stable")
    sorted_ids = own[by_tuple]
    starts, stops = np.searchsorted(sorted_ids, wanted), np.searchsorted(sorted_ids, wanted, side="right")
    if order != tuple(range(len(order))):
        stops = np.where(own == wanted, starts, stops)  # r(x, x) has no other way round
    ends = np.cumsum(stops - starts)
    begin = 0
    while begin < len(own):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + MAX_JOINED, side="right")))
        facts = np.repeat(np.arange(begin, end), (stops - starts)[begin:end])
        others = by_tuple[concatenate_ranges(starts[begin:end], stops[begin:end])]
        different = facts != others
        yield facts[different], others[different]
        begin = end


def linked_facts(tables: Tables, links: Sequence[RelationLink]) -> Iterator[tuple[RelationLink, int, Longs, Longs]]:
    """The facts that are linked: the link, their arity, and rows of facts with the rows of what these imply.

    A mutual link comes twice, once for each relation.
    """
    for link in links:
        first, second = tables.relations.find(link.relation), tables.relations.find(link.other)
        table = tables.facts.get(len(link.order))
        if first is None or second is None or table is None:
            continue
        rows, others = _counterparts(table, first, second, link.order)
        yield link, table.arity, rows, others
        if link.is_mutual and first != second:
            yield link, table.arity, others, rows


def _counterparts(table: FactTable, first: int, second: int, order: Order) -> tuple[Longs, Longs]:
    """The rows of a relation's facts whose counterpart is a fact of another, and the rows of these."""
    rows, others = np.array(table.rows(first), np.int64), np.array(table.rows(second), np.int64)
    wanted, own = row_ids(np.ascontiguousarray(table.objects[rows][:, order]), table.objects[others])
    by_tuple = np.argsort(own, kind="stable")
    places = np.searchsorted(own[by_tuple], wanted)
    known = np.append(own[by_tuple], -1)[places] == wanted
    rows, found = rows[known], others[by_tuple[places[known]]]
    return rows[rows != found], found[rows != found]


def describe_links(links: Sequence[RelationLink]) -> str:
    """How many links there are of each kind.

    >>> describe_links([])
    'no linked relations'
    """
    counts = {kind: sum(link.kind == kind for link in links) for kind in KINDS}
    nouns = ("pair|s| of inverses", "pair|s| of duplicates", "symmetric relation|s", "subset|s", "inverse subset|s")
    words = [
        f"{count:,} {noun.replace('|s', '' if count == 1 else 's').replace('|', '')}"
        for count, noun in zip(counts.values(), nouns, strict=True)
        if count
    ]
    return ", ".join(words) or "no linked relations"


# Few exceptions: whether what nearly all facts keep could be chance


def is_rare(exceptions: int, instances: int, share: float = MAX_EXCEPTIONS) -> bool:
    """Whether exceptions are few, also at the upper end of what the sample allows.

    >>> [is_rare(0, 5), is_rare(0, 12), is_rare(1, 12), is_rare(1, 25), is_rare(9, 196)]
    [False, True, False, True, True]
    """
    if instances < MIN_INSTANCES or exceptions > share * instances:
        return False
    return binomial_tail(exceptions, instances, min(UNCERTAINTY * share, 0.5)) <= SIGNIFICANCE


def is_below_chance(exceptions: int, expected: float) -> bool:
    """Whether exceptions are fewer than chance gives.

    >>> [is_below_chance(0, 0.5), is_below_chance(0, 3.0), is_below_chance(5, 30.0), is_below_chance(15, 30.0)]
    [False, True, True, False]
    """
    return exceptions <= CHANCE_SHARE * expected and poisson_tail(exceptions, expected) <= SIGNIFICANCE


def expected_repeats(facts: int, keys: int) -> float:
    """How many of some keys have several facts if each fact has a random key.

    >>> round(expected_repeats(100, 100)), round(expected_repeats(100, 10_000), 2)
    (26, 0.5)
    """
    mean = facts / keys
    return -keys * (math.expm1(-mean) + mean * math.exp(-mean)) if mean > 1e-4 else 0.5 * mean * facts


def binomial_tail(most: int, count: int, share: float) -> float:
    """The probability of at most this many successes."""
    return min(1.0, math.fsum(math.exp(_log_binomial(k, count, share)) for k in range(most + 1)))


def _log_binomial(k: int, count: int, share: float) -> float:
    ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
    return ways + k * math.log(share) + (count - k) * math.log1p(-share)


def poisson_tail(most: int, mean: float) -> float:
    """The probability of at most this many events."""
    if mean <= 0:
        return 1.0
    return min(1.0, math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(most + 1)))
