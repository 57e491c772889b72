"""Frequent patterns around a query's answers, as features: the paper's structure learning.

>>> import gaifman
>>> from gaifman.kb.gaifman_graph import graph_of
>>> from gaifman.logic.parser import parse_query
>>> kb = gaifman.demo()
>>> graph = graph_of(kb)
>>> mined = mine(graph, *known_answers(graph, parse_query("capital(x, y)", kb)), MiningConfig(limit=3, sample=100))
>>> print(mined.features().text())
city_in(s2, s1)
largest_city(s1, s2)
country(s1)
<BLANKLINE>

Patterns are the paths of one to three facts from s1 to s2, facts with a constant, and types. They are looked for in
neighbourhoods drawn around a sample of the answers, an answer's own fact hidden; then they are evaluated exactly there
and around corruptions of the answers, and the best are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gaifman.config import check_fraction, check_int
from gaifman.errors import FormulaError, KnowledgeBaseError
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.tables import Floats, Ints, Longs, concatenate_ranges
from gaifman.logic.ast import And, Atom, Constant, Exists, Feature, Formula, Query, Term, Variable
from gaifman.queries.answers import answers
from gaifman.sampling.hiding import hide
from gaifman.sampling.neighbourhoods import HiddenFacts, NeighbourhoodBatch, SamplingConfig, draw_neighbourhoods
from gaifman.sampling.rng import fold_in_rows, make_key

MAX_CANDIDATES = 5_000
"""Patterns that are evaluated at most: the most frequent."""
MAX_TRIES = 32
"""Objects tried for a place of a corruption before it is given up."""
PAIRS_PER_BLOCK = 1 << 21
"""Pairs of members looked up at once."""

Step = tuple[int, bool]
"""A relation of two places, and whether it is gone along from its first place to its second."""


@dataclass(frozen=True, slots=True)
class MiningConfig:
    """What is looked for, and where."""

    max_features: int = 200
    """Features kept at most."""
    min_support: float = 0.02
    """The share of the answers' neighbourhoods a feature must hold in."""
    radius: int = 1
    size: int | None = 20
    draws: int = 1
    sample: int = 2_000
    """Answers looked at, drawn by key from all of them."""
    seed: int = 0
    max_path_length: int = 3
    """Facts of a path at most, 1 to 3."""

    def __post_init__(self) -> None:
        check_int("max_features", self.max_features, 1)
        check_int("sample", self.sample, 1)
        check_int("max_path_length", self.max_path_length, 1, 3)
        check_fraction("min_support", self.min_support, zero=False)
        self.sampling()

    def sampling(self) -> SamplingConfig:
        """How neighbourhoods are drawn."""
        return SamplingConfig(self.radius, self.size, self.draws, self.seed, purpose="mine")


@dataclass(frozen=True, slots=True)
class MinedFeature:
    """A feature with what is known of it."""

    feature: Feature
    support: float
    """The share of the answers' neighbourhoods it holds in."""
    negative_support: float
    """The share of the corruptions' neighbourhoods it holds in."""
    gain: float
    """Bits it tells of whether a tuple is an answer, where half of the tuples are: 0 to 1."""

    def __str__(self) -> str:
        """As a line of a `.phi` file."""
        shares = f"{self.support:.1%} of answers, {self.negative_support:.1%} of corruptions"
        return f"{self.feature}  # {shares}, {self.gain:.3f} bits"


@dataclass(frozen=True, slots=True)
class MiningResult:
    """What was found, the best first."""

    mined_features: tuple[MinedFeature, ...]
    frequent_count: int
    """Frequent patterns, kept or not."""
    answer_count: int
    """Answers looked at."""
    negative_count: int
    """Corruptions looked at."""

    def feature_set(self, name: str = "") -> FeatureSet:
        """The features alone."""
        return FeatureSet(tuple(pattern.feature for pattern in self.mined_features), name)

    def to_text(self, title: str) -> str:
        """A `.phi` file that says of each feature why it is there."""
        looked = f"{self.answer_count:,} answers and {self.negative_count:,} corruptions of them"
        head = [
            f"# {title}",
            f"# {len(self.mined_features):,} of {self.frequent_count:,} frequent patterns around {looked}",
        ]
        return "\n".join([*head, *map(str, self.mined_features), ""])


def known_answers(graph: GaifmanGraph, query: Query, seed: int = 0) -> tuple[Ints, HiddenFacts]:
    """The known answers (b, 2) of a query over two variables, and the facts to hide from each."""
    if len(query.variables) != 2:
        raise FormulaError(
            f"patterns are mined for a query over two variables, not {len(query.variables)}: {query}",
            hint="write: borders(x, y)",
        )
    found = answers(graph.kb, query).tuples
    if not len(found):
        raise KnowledgeBaseError(f"{query} has no answers: there is nothing to learn from")
    return found, hide(graph.kb, query, found, seed=seed)


def mine(
    graph: GaifmanGraph, answers: Ints, hidden_facts: HiddenFacts, config: MiningConfig | None = None
) -> MiningResult:
    """The patterns that are frequent around answers (b, 2) and tell them from corruptions.

    `secret` are the facts that are hidden from each answer and its corruptions. The result depends on what is known and
    the settings, never on the order of the answers.
    """
    config = config or MiningConfig()
    chosen = _sample_answers(answers, config)
    taken, hidden = answers[chosen], hidden_facts.select(chosen)
    source, corrupted = _corrupt_answers(graph, answers, chosen, config)
    if not len(corrupted):
        raise KnowledgeBaseError("every other pair is an answer too: there is nothing to tell them from")
    unseen = hidden_facts.select(source)
    drawn = draw_neighbourhoods(graph, taken, config.sampling(), hidden)
    plan = compile_features(
        frequent_patterns(graph, drawn, hidden, config.min_support, max_path_length=config.max_path_length), graph.kb, 2
    )
    evaluator = FeatureEvaluator(graph, plan)
    hits = [
        np.bincount(found.ids[found.values != 0], minlength=len(plan.features)) / len(found)
        for found in (
            evaluator.evaluate(drawn, hidden),
            evaluator.evaluate(draw_neighbourhoods(graph, corrupted, config.sampling(), unseen), unseen),
        )
    ]
    gains = information_gain(hits[0], len(drawn), hits[1], len(corrupted) * config.draws)
    patterns = [
        MinedFeature(feature, float(p), float(q), float(g))
        for feature, p, q, g in zip(plan.features, *hits, gains, strict=True)
    ]
    patterns.sort(key=lambda pattern: (-pattern.gain, -pattern.support, str(pattern.feature)))
    return MiningResult(tuple(patterns[: config.max_features]), len(patterns), len(taken), len(corrupted))


def information_gain(p: Floats, n: int, q: Floats, m: int) -> Floats:
    """Information gain in bits where both classes weigh the same; half a hit and half a miss are added to each.

    >>> information_gain(np.array([1.0, 0.5, 0.5]), 1000, np.array([0.0, 0.5, 0.0]), 1000).round(2).tolist()
    [0.99, 0.0, 0.31]
    """
    a, b = (p * n + 0.5) / (n + 1), (q * m + 0.5) / (m + 1)
    # Rounded, because the order must not hang on the last bits of a logarithm.
    gained: Floats = np.round(_entropy((a + b) / 2) - (_entropy(a) + _entropy(b)) / 2, 9)
    return gained


def _entropy(share: Floats) -> Floats:
    entropy: Floats = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
    return entropy


# Which tuples


def _sample_answers(answers: Ints, config: MiningConfig) -> Longs:
    """Rows of at most `sample` answers, by the smallest keys, in the order of their objects."""
    rows = np.arange(len(answers))
    if len(answers) > config.sample:
        rows = np.argsort(fold_in_rows(make_key(config.seed, "mine sample"), answers), kind="stable")[: config.sample]
    order: Longs = rows[np.lexsort(answers[rows].T[::-1])]
    return order


def _corrupt_answers(graph: GaifmanGraph, answers: Ints, chosen: Longs, config: MiningConfig) -> tuple[Longs, Ints]:
    """For each chosen answer and place, the answer with another object there: its row, and the corruption.

    One half of the objects is drawn from those that answers have there, the other half from all. A known answer is no
    corruption; where every try gives one, there is none.
    """
    known = np.sort(_pack_pairs(answers))
    sources, found = [], []
    for place in range(2):
        seen = np.unique(answers[:, place])
        rows, tuples = chosen, answers[chosen]
        for attempt in range(MAX_TRIES):
            keys = fold_in_rows(make_key(config.seed, "mine corrupt", place, attempt), tuples)
            index = keys >> np.uint64(1)
            typed, uniform = seen[index % np.uint64(len(seen))], (index % np.uint64(len(graph))).astype(np.int32)
            changed = tuples.copy()
            changed[:, place] = np.where(keys & np.uint64(1), typed, uniform)
            packed = _pack_pairs(changed)
            fresh = known[np.minimum(np.searchsorted(known, packed), len(known) - 1)] != packed
            sources.append(rows[fresh])
            found.append(changed[fresh])
            rows, tuples = rows[~fresh], tuples[~fresh]
    return np.concatenate(sources), np.concatenate(found)


def _pack_pairs(tuples: Ints) -> Longs:
    packed: Longs = (tuples[:, 0].astype(np.int64) << 32) | tuples[:, 1]
    return packed


# Which patterns


class PathPattern(NamedTuple):
    """Facts from s1 to s2."""

    steps: tuple[Step, ...]


class ConstantPattern(NamedTuple):
    """A fact of a query variable with a constant; a type where there is no constant."""

    position: int
    relation: int
    forward: bool
    constant: int


PatternShape = PathPattern | ConstantPattern


def frequent_patterns(
    graph: GaifmanGraph,
    drawn: NeighbourhoodBatch,
    hidden: HiddenFacts,
    min_support: float,
    limit: int = MAX_CANDIDATES,
    max_path_length: int = 3,
) -> FeatureSet:
    """The patterns that hold in at least a share of neighbourhoods of pairs, the most frequent first."""
    counts = _count_types(graph, drawn)
    for row, links in _iterate_links(graph, drawn, hidden):
        own = drawn.own_positions[row // drawn.draws].tolist()
        members = drawn.members[drawn.starts[row] : drawn.starts[row + 1]].tolist()
        counts.update(_patterns_between(links, own[0], own[1], members, max_path_length))
    least = max(1, int(np.ceil(min_support * len(drawn) - 1e-9)))
    kept = sorted((-count, len(shape), shape) for shape, count in counts.items() if count >= least)
    return FeatureSet(tuple(_feature(graph, shape) for _, _, shape in kept[:limit]))


def _patterns_between(
    links: dict[int, dict[int, set[Step]]], s1: int, s2: int, members: list[int], max_path_length: int
) -> set[PatternShape]:
    """The shapes of one neighbourhood: `links` has for each member those it is linked to, and by which steps."""
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
    found: set[PatternShape] = {PathPattern(path) for path in paths}
    for position, own in enumerate((s1, s2)):
        for x, facts in links.get(own, none).items():
            found.update(ConstantPattern(position, r, forward, members[x]) for r, forward in facts)
    return found


def _count_types(graph: GaifmanGraph, drawn: NeighbourhoodBatch) -> Counter[PatternShape]:
    """How many neighbourhoods have each type at each place."""
    counts: Counter[PatternShape] = Counter()
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
    """Each neighbourhood with the links between its members by visible facts of two places."""
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
    """For neighbourhoods `begin` to `end`, of each link: row, one member, another, relation, whether forward."""
    sizes = np.diff(drawn.starts)[begin:end]
    upper = [np.triu_indices(int(size), 1) for size in sizes]
    rows = np.repeat(np.arange(begin, end), [len(i) for i, _ in upper])
    i, j = (np.concatenate([pair[side] for pair in upper]) for side in range(2))
    one, other = drawn.members[drawn.starts[rows] + i], drawn.members[drawn.starts[rows] + j]
    degrees = graph.degrees
    swap = degrees[one] > degrees[other]  # the shorter row is searched
    one, other, i, j = (np.where(swap, b, a) for a, b in ((one, other), (other, one), (i, j), (j, i)))
    edges = _find_edges(graph, one, other)
    rows, i, j, edges = (array[edges >= 0] for array in (rows, i, j, edges))
    starts, stops = graph.label_starts[edges], graph.label_starts[edges + 1]
    at = concatenate_ranges(starts, stops)
    rows, i, j = (np.repeat(array, stops - starts) for array in (rows, i, j))
    labels = graph.label_table[graph.labels[at]]
    secret = np.repeat(np.arange(len(hidden.starts) - 1), np.diff(hidden.starts)) << 32 | hidden.facts
    binary = np.array(graph.kb.content.arities)[labels[:, 0]] == 2
    seen = binary & ~np.isin((rows // drawn.draws) << 32 | graph.label_facts[at], secret)
    columns = (rows, i, j, labels[:, 0], labels[:, 1] == 0)
    return tuple(column[seen].tolist() for column in columns)


def _find_edges(graph: GaifmanGraph, one: Ints, other: Ints) -> Longs:
    """The edge from each of some objects to another, −1 where there is none: all bisections at once."""
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


def _feature(graph: GaifmanGraph, shape: PatternShape) -> Feature:
    """The formula of a shape."""
    relations = graph.kb.content.relations
    s1, s2, x, y = map(Variable, ("s1", "s2", "x", "y"))
    if isinstance(shape, ConstantPattern):
        own: Variable = (s1, s2)[shape.position]
        if shape.constant < 0:
            return Feature(Atom(relations[shape.relation], (own,)))
        return Feature(
            _step(relations[shape.relation], shape.forward, own, Constant(graph.kb.object_name(shape.constant)))
        )
    stops = (s1, *(x, y)[: len(shape.steps) - 1], s2)
    atoms = tuple(_step(relations[r], ahead, stops[i], stops[i + 1]) for i, (r, ahead) in enumerate(shape.steps))
    return Feature(atoms[0] if len(atoms) == 1 else Exists(stops[1:-1], And(atoms)))


def _step(relation: str, forward: bool, one: Term, other: Term) -> Formula:
    return Atom(relation, (one, other) if forward else (other, one))
