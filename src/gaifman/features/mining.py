"""Mine frequent patterns around a query's answers as features: the paper's structure learning.

>>> import gaifman
>>> from gaifman.kb.gaifman_graph import build_graph
>>> from gaifman.logic.parser import parse_query
>>> kb = gaifman.demo()
>>> graph = build_graph(kb)
>>> answers, hidden = known_answers(graph, parse_query("capital(x, y)", kb))
>>> print(mine(graph, answers, hidden, MiningConfig(max_features=3, sample=100)).feature_set().to_text())
city_in(s2, s1)
largest_city(s1, s2)
∃x, y city_in(x, s1) ∧ city_on(x, y) ∧ city_on(s2, y)
<BLANKLINE>

Patterns are paths of one to three facts from s1 to s2, facts with a constant, and types. Candidates are counted in
neighbourhoods drawn around a sample of the answers, with the facts of the answer hidden. They are then evaluated around
the answers and around negatives, and the best are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gaifman.config import SamplingConfig, check_fraction, check_int
from gaifman.errors import FormulaError, KnowledgeBaseError
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.tables import Floats, Ints, Longs, concatenate_ranges
from gaifman.logic.ast import And, Atom, Constant, Exists, Feature, Formula, Query, Term, Variable
from gaifman.queries.answers import answers
from gaifman.sampling.hiding import HiddenFacts, hide
from gaifman.sampling.neighbourhoods import NeighbourhoodBatch, draw_neighbourhoods
from gaifman.sampling.rng import fold_in_rows, make_key

MAX_CANDIDATES = 5_000
"""Largest number of patterns that are evaluated: the most frequent ones."""
MAX_TRIES = 32
"""Objects tried for a negative before it is given up."""
PAIRS_PER_BLOCK = 1 << 21
"""Pairs of members looked up at once."""

Step = tuple[int, bool]
"""A binary relation, and whether it is followed from its first argument to its second."""


@dataclass(frozen=True, slots=True)
class MiningConfig:
    """What to mine, and where."""

    max_features: int = 200
    """Largest number of features kept."""
    min_support: float = 0.02
    """Smallest fraction of the answers' neighbourhoods in which a feature holds."""
    radius: int = 1
    size: int | None = 20
    draws: int = 1
    sample: int = 2_000
    """Largest number of answers, chosen at random."""
    seed: int = 0
    max_path_length: int = 3
    """Largest number of facts of a path, 1 to 3."""

    def __post_init__(self) -> None:
        check_int("max_features", self.max_features, 1)
        check_int("sample", self.sample, 1)
        check_int("max_path_length", self.max_path_length, 1, 3)
        check_fraction("min_support", self.min_support, zero=False)
        self.sampling()

    def sampling(self) -> SamplingConfig:
        """Return how neighbourhoods are drawn."""
        return SamplingConfig(self.radius, self.size, self.draws, self.seed, purpose="mine")


@dataclass(frozen=True, slots=True)
class MinedFeature:
    """A feature and its statistics."""

    feature: Feature
    support: float
    """The fraction of the answers' neighbourhoods in which it holds."""
    negative_support: float
    """The fraction of the negatives' neighbourhoods in which it holds."""
    gain: float
    """Information gain in bits about whether a tuple is an answer, with prior 0.5: 0 to 1."""

    def __str__(self) -> str:
        """Return a line of a `.phi` file."""
        supports = f"{self.support:.1%} of answers, {self.negative_support:.1%} of negatives"
        return f"{self.feature}  # {supports}, {self.gain:.3f} bits"


@dataclass(frozen=True, slots=True)
class MiningResult:
    """Mined features, best first."""

    mined_features: tuple[MinedFeature, ...]
    frequent_count: int
    """Number of frequent patterns, kept or not."""
    answer_count: int
    """Number of answers in the sample."""
    negative_count: int
    """Number of negatives."""

    def feature_set(self, name: str = "") -> FeatureSet:
        """Return the features alone."""
        return FeatureSet(tuple(pattern.feature for pattern in self.mined_features), name)

    def to_text(self, title: str) -> str:
        """Return a `.phi` file with the statistics of each feature."""
        tuples = f"{self.answer_count:,} answers and {self.negative_count:,} negatives"
        head = [
            f"# {title}",
            f"# {len(self.mined_features):,} of {self.frequent_count:,} frequent patterns around {tuples}",
        ]
        return "\n".join([*head, *map(str, self.mined_features), ""])


def known_answers(graph: GaifmanGraph, query: Query, seed: int = 0) -> tuple[Ints, HiddenFacts]:
    """Return the known answers (b, 2) of a query over two variables, and the facts to hide from each."""
    if len(query.variables) != 2:
        raise FormulaError(
            f"mining needs a query over two variables, got {len(query.variables)}: {query}",
            hint="write: borders(x, y)",
        )
    found = answers(graph.kb, query).tuples
    if not len(found):
        raise KnowledgeBaseError(f"{query} has no answers to mine")
    return found, hide(graph.kb, query, found, seed=seed)


def mine(
    graph: GaifmanGraph, answers: Ints, hidden_facts: HiddenFacts, config: MiningConfig | None = None
) -> MiningResult:
    """Return the patterns that are frequent around answers (b, 2) and separate them from negatives.

    `hidden_facts` are hidden from each answer and its negatives. The result does not depend on the order of the
    answers.
    """
    config = config or MiningConfig()
    chosen = _sample_answers(answers, config)
    sampled, hidden = answers[chosen], hidden_facts.select(chosen)
    sources, negatives = _corrupt_answers(graph, answers, chosen, config)
    if not len(negatives):
        raise KnowledgeBaseError("every other pair is an answer too, so there are no negatives")
    negatives_hidden = hidden_facts.select(sources)
    drawn = draw_neighbourhoods(graph, sampled, config.sampling(), hidden)
    plan = compile_features(
        frequent_patterns(graph, drawn, hidden, config.min_support, max_path_length=config.max_path_length), graph.kb, 2
    )
    evaluator = FeatureEvaluator(graph, plan)
    negatives_drawn = draw_neighbourhoods(graph, negatives, config.sampling(), negatives_hidden)
    matrices = evaluator.evaluate(drawn, hidden), evaluator.evaluate(negatives_drawn, negatives_hidden)
    supports = [
        np.bincount(matrix.ids[matrix.values != 0], minlength=len(plan.features)) / len(matrix) for matrix in matrices
    ]
    gains = information_gain(supports[0], len(drawn), supports[1], len(negatives) * config.draws)
    mined = [
        MinedFeature(feature, float(p), float(q), float(g))
        for feature, p, q, g in zip(plan.features, *supports, gains, strict=True)
    ]
    mined.sort(key=lambda one: (-one.gain, -one.support, str(one.feature)))
    return MiningResult(tuple(mined[: config.max_features]), len(mined), len(sampled), len(negatives))


def information_gain(p: Floats, n: int, q: Floats, m: int) -> Floats:
    """Return the information gain in bits for two classes of equal weight.

    Half a hit and half a miss are added to each class.

    >>> information_gain(np.array([1.0, 0.5, 0.5]), 1000, np.array([0.0, 0.5, 0.0]), 1000).round(2).tolist()
    [0.99, 0.0, 0.31]
    """
    a, b = (p * n + 0.5) / (n + 1), (q * m + 0.5) / (m + 1)
    # Rounded, so that the order does not depend on the last bits of a logarithm.
    gained: Floats = np.round(_entropy((a + b) / 2) - (_entropy(a) + _entropy(b)) / 2, 9)
    return gained


def _entropy(share: Floats) -> Floats:
    entropy: Floats = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
    return entropy


# Tuples


def _sample_answers(answers: Ints, config: MiningConfig) -> Longs:
    """Return the rows of at most `sample` answers with the smallest keys, in the order of their objects."""
    rows = np.arange(len(answers))
    if len(answers) > config.sample:
        rows = np.argsort(fold_in_rows(make_key(config.seed, "mine sample"), answers), kind="stable")[: config.sample]
    order: Longs = rows[np.lexsort(answers[rows].T[::-1])]
    return order


def _corrupt_answers(graph: GaifmanGraph, answers: Ints, chosen: Longs, config: MiningConfig) -> tuple[Longs, Ints]:
    """Return negatives: for each chosen answer and position, its row and the answer with another object there.

    Half of the replacements come from objects that answers have there, half from all objects. A known answer is no
    negative; if every try gives one, there is none. `NegativeSampler` would draw other negatives, and so mine other
    files.
    """
    known = np.sort(_pack_pairs(answers))
    sources, negatives = [], []
    for position in range(2):
        seen = np.unique(answers[:, position])
        rows, tuples = chosen, answers[chosen]
        for attempt in range(MAX_TRIES):
            keys = fold_in_rows(make_key(config.seed, "mine corrupt", position, attempt), tuples)
            index = keys >> np.uint64(1)
            typed, uniform = seen[index % np.uint64(len(seen))], (index % np.uint64(len(graph))).astype(np.int32)
            changed = tuples.copy()
            changed[:, position] = np.where(keys & np.uint64(1), typed, uniform)
            packed = _pack_pairs(changed)
            unknown = known[np.minimum(np.searchsorted(known, packed), len(known) - 1)] != packed
            sources.append(rows[unknown])
            negatives.append(changed[unknown])
            rows, tuples = rows[~unknown], tuples[~unknown]
    return np.concatenate(sources), np.concatenate(negatives)


def _pack_pairs(tuples: Ints) -> Longs:
    packed: Longs = (tuples[:, 0].astype(np.int64) << 32) | tuples[:, 1]
    return packed


# Patterns


class PathPattern(NamedTuple):
    """Facts from s1 to s2."""

    steps: tuple[Step, ...]


class ConstantPattern(NamedTuple):
    """A fact of a query variable with a constant, or a type if `constant` is −1."""

    position: int
    relation: int
    forward: bool
    constant: int


Pattern = PathPattern | ConstantPattern


def frequent_patterns(
    graph: GaifmanGraph,
    drawn: NeighbourhoodBatch,
    hidden: HiddenFacts,
    min_support: float,
    limit: int = MAX_CANDIDATES,
    max_path_length: int = 3,
) -> FeatureSet:
    """Return the patterns that hold in at least a fraction of the neighbourhoods of pairs, most frequent first."""
    counts = _count_types(graph, drawn)
    for row, links in _iterate_links(graph, drawn, hidden):
        own = drawn.own_positions[row // drawn.draws].tolist()
        members = drawn.members[drawn.starts[row] : drawn.starts[row + 1]].tolist()
        counts.update(_patterns_between(links, own[0], own[1], members, max_path_length))
    minimum = max(1, int(np.ceil(min_support * len(drawn) - 1e-9)))
    kept = sorted((-count, len(pattern), pattern) for pattern, count in counts.items() if count >= minimum)
    return FeatureSet(tuple(_feature(graph, pattern) for _, _, pattern in kept[:limit]))


def _patterns_between(
    links: dict[int, dict[int, set[Step]]], s1: int, s2: int, members: list[int], max_path_length: int
) -> set[Pattern]:
    """Return the patterns of one neighbourhood. `links` maps a member to its neighbours and their steps."""
    none: dict[int, set[Step]] = {}
    first = links.get(s1, none)
    last = {y: {(r, not forward) for r, forward in steps} for y, steps in links.get(s2, none).items()}
    paths: set[tuple[Step, ...]] = {(a,) for a in first.get(s2, ())}
    for x, starts in first.items():
        if x == s2 or max_path_length == 1:
            continue
        if x in last:
            paths.update((a, b) for a in starts for b in last[x])
        for y, middle in links[x].items() if max_path_length == 3 else ():
            if y in last and y not in (s1, s2):
                paths.update((a, b, c) for b in middle for c in last[y] for a in starts)
    found: set[Pattern] = {PathPattern(path) for path in paths}
    for position, own in enumerate((s1, s2)):
        for x, facts in links.get(own, none).items():
            found.update(ConstantPattern(position, r, forward, members[x]) for r, forward in facts)
    return found


def _count_types(graph: GaifmanGraph, drawn: NeighbourhoodBatch) -> Counter[Pattern]:
    """Count the neighbourhoods that have each type at each position."""
    counts: Counter[Pattern] = Counter()
    unary = [number for number, arity in enumerate(graph.kb.content.arities) if arity == 1]
    first = drawn.starts[:-1].reshape(-1, drawn.draws)[:, 0] if len(drawn) else np.zeros(0, np.int64)
    for position in range(2):
        objects, times = np.unique_counts(drawn.members[first + drawn.own_positions[:, position]])
        for relation in unary:
            holders = int(times[graph.kb.fact_ids(relation, objects[:, None]) >= 0].sum())
            if holders:
                counts[ConstantPattern(position, relation, True, -1)] = holders * drawn.draws
    return counts


def _iterate_links(
    graph: GaifmanGraph, drawn: NeighbourhoodBatch, hidden: HiddenFacts
) -> Iterator[tuple[int, dict[int, dict[int, set[Step]]]]]:
    """Yield each neighbourhood with the links between its members by visible binary facts."""
    sizes = np.diff(drawn.starts)
    begin = 0
    while begin < len(drawn):
        total = np.cumsum(sizes[begin:] ** 2)
        end = begin + max(1, int(np.searchsorted(total, 2 * PAIRS_PER_BLOCK)))
        found: list[dict[int, dict[int, set[Step]]]] = [{} for _ in range(begin, end)]
        for row, i, j, relation, forward in zip(*_links(graph, drawn, hidden, begin, end), strict=True):
            links = found[row - begin]
            links.setdefault(i, {}).setdefault(j, set()).add((relation, forward))
            links.setdefault(j, {}).setdefault(i, set()).add((relation, not forward))
        yield from enumerate(found, start=begin)
        begin = end


def _links(
    graph: GaifmanGraph, drawn: NeighbourhoodBatch, hidden: HiddenFacts, begin: int, end: int
) -> tuple[list[int], ...]:
    """Return for each link of neighbourhoods `begin` to `end`: row, member, other member, relation, forward."""
    sizes = np.diff(drawn.starts)[begin:end]
    upper = [np.triu_indices(int(size), 1) for size in sizes]
    rows = np.repeat(np.arange(begin, end), [len(i) for i, _ in upper])
    i, j = (np.concatenate([pair[side] for pair in upper]) for side in range(2))
    one, other = drawn.members[drawn.starts[rows] + i], drawn.members[drawn.starts[rows] + j]
    degrees = graph.degrees
    swap = degrees[one] > degrees[other]  # search the shorter row
    one, other, i, j = (np.where(swap, b, a) for a, b in ((one, other), (other, one), (i, j), (j, i)))
    edges = _find_edges(graph, one, other)
    rows, i, j, edges = (array[edges >= 0] for array in (rows, i, j, edges))
    starts, stops = graph.label_starts[edges], graph.label_starts[edges + 1]
    at = concatenate_ranges(starts, stops)
    rows, i, j = (np.repeat(array, stops - starts) for array in (rows, i, j))
    labels = graph.label_table[graph.labels[at]]
    hidden_keys = np.repeat(np.arange(len(hidden.starts) - 1), np.diff(hidden.starts)) << 32 | hidden.facts
    binary = np.array(graph.kb.content.arities)[labels[:, 0]] == 2
    visible = binary & ~np.isin((rows // drawn.draws) << 32 | graph.label_facts[at], hidden_keys)
    columns = (rows, i, j, labels[:, 0], labels[:, 1] == 0)
    return tuple(column[visible].tolist() for column in columns)


def _find_edges(graph: GaifmanGraph, one: Ints, other: Ints) -> Longs:
    """Return the edge from each object to another, or −1, by simultaneous bisection."""
    low, high = graph.starts[one], graph.starts[one + 1]
    end, last = high, len(graph.neighbours) - 1
    if last < 0:
        return np.full(len(one), -1)
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        less = graph.neighbours[np.minimum(middle, last)] < other
        searched = low < high
        low, high = np.where(searched & less, middle + 1, low), np.where(searched & ~less, middle, high)
    hit = (low < end) & (graph.neighbours[np.minimum(low, last)] == other)
    return np.where(hit, low, -1)


def _feature(graph: GaifmanGraph, pattern: Pattern) -> Feature:
    """Return the formula of a pattern."""
    relations = graph.kb.content.relations
    s1, s2, x, y = map(Variable, ("s1", "s2", "x", "y"))
    if isinstance(pattern, ConstantPattern):
        own: Variable = (s1, s2)[pattern.position]
        if pattern.constant < 0:
            return Feature(Atom(relations[pattern.relation], (own,)))
        return Feature(
            _step(relations[pattern.relation], pattern.forward, own, Constant(graph.kb.object_name(pattern.constant)))
        )
    stops = (s1, *(x, y)[: len(pattern.steps) - 1], s2)
    atoms = tuple(_step(relations[r], forward, stops[i], stops[i + 1]) for i, (r, forward) in enumerate(pattern.steps))
    return Feature(atoms[0] if len(atoms) == 1 else Exists(stops[1:-1], And(atoms)))


def _step(relation: str, forward: bool, one: Term, other: Term) -> Formula:
    return Atom(relation, (one, other) if forward else (other, one))
