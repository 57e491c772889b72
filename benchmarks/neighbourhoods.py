"""Neighbourhoods drawn per second, compared with plain Python, and on 21 times as many facts.

    GAIFMAN_DATA=… python benchmarks/neighbourhoods.py [--quick]

One draw per pair (w = 1, radius 1) on all processors: nothing of a pair is in the cache. *Random* pairs are any two
objects; *training* pairs are those of random facts, also drawn with their fact hidden. The plain algorithm takes any
radius, as ours does, and works on a dictionary of sets, which is faster than a graph of networkx. `ratio_rows` compares
with one that takes neighbours only and finds each pool ready as a set. All alternate.

The large graph is a random cover of FB15k: 21 copies of every object, and for each linked pair a random matching of
their copies. Every object keeps its number of neighbours, and the numbering is shuffled. Without the data, everything
runs on a generated knowledge base, and the figures say `generated`.
"""

from __future__ import annotations

import random
import resource
import statistics
import time
from functools import partial

import numpy as np

import common
import gaifman
from gaifman.config import SamplingConfig
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints, RawFacts, build_tables
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import draw_neighbourhoods

SIZES = (5, 10, 20, 50, 100)
COPIES = 21


def generated(objects: int, facts: int, relations: int) -> KnowledgeBase:
    """A generated knowledge base with a few objects in very many facts."""
    rng = np.random.default_rng(0)
    pairs = (rng.random((facts, 2)) ** 2.5 * objects).astype(np.int32)
    return numbered(rng.integers(0, relations, facts).astype(np.int32), pairs, objects, relations)


def numbered(relation: Ints, pairs: Ints, objects: int, relations: int) -> KnowledgeBase:
    """A knowledge base whose names are numbers."""
    heap = RawFacts([f"o{i:08}" for i in range(objects)], [f"r{i:05}" for i in range(relations)], [2] * relations)
    heap.add_facts(relation, pairs)
    return KnowledgeBase(build_tables(heap)[0])


def covered(kb: KnowledgeBase, copies: int) -> KnowledgeBase:
    """A random cover: `copies` of every object, each with as many neighbours as the object has."""
    rng, table, objects = np.random.default_rng(1), kb.fact_tables[2], len(kb.objects)
    low, high = table.objects.min(axis=1).astype(np.int64), table.objects.max(axis=1)
    pairs, which = np.unique(low * objects + high, return_inverse=True)
    shift = rng.integers(0, copies, len(pairs))[which]  # copy c of the one is linked with copy c + shift of the other
    names = rng.permutation(objects * copies).astype(np.int32)
    shift[low == high] = 0  # an object with itself is no pair
    turned = table.objects[:, 0] > table.objects[:, 1]
    chunks = []
    for copy in range(copies):
        far = (copy + shift) % copies
        first, second = np.where(turned, far, copy), np.where(turned, copy, far)
        heads, tails = table.objects[:, 0] + first * objects, table.objects[:, 1] + second * objects
        chunks.append(np.stack([names[heads], names[tails]], axis=1))
    return numbered(np.tile(table.relation, copies), np.concatenate(chunks), objects * copies, len(kb.relations))


Sets = dict[int, set[int]]


def ball(rows: Sets, obj: int, radius: int) -> set[int]:
    """All objects within the radius, in plain Python."""
    seen, ring = {obj}, {obj}
    for _ in range(radius):
        ring = set().union(*(rows[other] for other in ring)) - seen
        seen |= ring
    return seen


def drawn_plainly(rows: Sets, pairs: list[tuple[int, ...]], size: int, radius: int | None = 1) -> list[set[int]]:
    """Algorithm 1 in plain Python; without a radius, for neighbours only."""
    found = []
    for objects in pairs:
        own = set(objects)
        pools = [(rows[obj] if radius is None else ball(rows, obj, radius)) - own for obj in objects]
        drawn: set[int] = set()
        for pool in pools:
            drawn.update(random.sample(list(pool), min(size // len(objects), len(pool))))
        if len(drawn) < size:
            left = list(set().union(*pools) - drawn)
            drawn.update(random.sample(left, min(size - len(drawn), len(left))))
        found.append(own | drawn)
    return found


def kinds(graph: GaifmanGraph, count: int) -> dict[str, Ints]:
    """Random pairs, and the pairs of random facts."""
    rng = np.random.default_rng(2)
    table = graph.kb.fact_tables[2].objects
    return {
        "random": rng.integers(0, len(graph), (count, 2)).astype(np.int32),
        "training": table[rng.integers(0, len(table), count)],
    }


def against_python(name: str, graph: GaifmanGraph, count: int, runs: int) -> dict[str, float]:
    """Rates for every size and kind of pairs, and the ratio to plain Python."""
    rows = {number: set(graph.neighbour_ids(number).tolist()) for number in range(len(graph))}
    figures = {}
    for size in SIZES:
        for kind, pairs in kinds(graph, count).items():
            some = [tuple(pair) for pair in pairs[: count // 100].tolist()]
            seconds = common.interleaved(
                runs,
                ours=partial(draw_neighbourhoods, graph, pairs, SamplingConfig(size=size)),
                plain=partial(drawn_plainly, rows, some, size),
                rows=partial(drawn_plainly, rows, some, size, None),
            )
            figures[f"{name}_k{size}_{kind}_draws_per_s"] = count / statistics.median(seconds["ours"])
            figures[f"{name}_k{size}_{kind}_ratio"] = 100 * common.median_ratio(seconds["plain"], seconds["ours"])
            figures[f"{name}_k{size}_{kind}_ratio_rows"] = 100 * common.median_ratio(seconds["rows"], seconds["ours"])
    return figures


def per_processor(graph: GaifmanGraph, count: int) -> float:
    """Draws at k = 20 per second of processor time, which depends less on other load."""
    pairs = kinds(graph, count)["random"]
    seconds = []
    for _ in range(5):
        start = time.process_time()
        draw_neighbourhoods(graph, pairs)
        seconds.append(time.process_time() - start)
    return count / statistics.median(seconds)


def hiding(name: str, graph: GaifmanGraph, count: int, runs: int) -> dict[str, float]:
    """The rate at k = 20 with the pair's own fact found and hidden; and at radius 2."""
    table = graph.kb.fact_tables[2]
    facts = np.random.default_rng(2).integers(0, len(table), count)
    pairs, relation = table.objects[facts], table.relation[facts]
    few = pairs[:2000]
    seconds = common.interleaved(
        runs,
        hidden=lambda: draw_neighbourhoods(
            graph, pairs, SamplingConfig(), HiddenFacts.one_per_tuple(graph.kb.fact_ids(relation, pairs))
        ),
        radius=lambda: draw_neighbourhoods(graph, few, SamplingConfig(radius=2, draws=10)),
    )
    return {
        f"{name}_k20_hidden_draws_per_s": count / statistics.median(seconds["hidden"]),
        f"{name}_k20_radius2_draws_per_s": 10 * len(few) / statistics.median(seconds["radius"]),
    }


def grown(small: GaifmanGraph, count: int, runs: int) -> dict[str, float]:
    """The change of the rate at k = 20 on a cover with 21 times the facts, alternating."""
    kb = covered(small.kb, COPIES)
    start = time.perf_counter()
    large = build_graph(kb)
    figures: dict[str, float] = {"large_facts": len(kb), "large_graph_s": time.perf_counter() - start}
    assert len(large) == COPIES * len(small)
    assert large.degrees.sum() == COPIES * small.degrees.sum()
    for kind in ("random", "training"):
        few, many = kinds(small, count)[kind], kinds(large, count)[kind]
        seconds = common.interleaved(
            runs, small=partial(draw_neighbourhoods, small, few), large=partial(draw_neighbourhoods, large, many)
        )
        figures[f"large_k20_{kind}_draws_per_s"] = count / statistics.median(seconds["large"])
        figures[f"large_k20_{kind}_over_small"] = common.median_ratio(seconds["small"], seconds["large"])
    return figures


def main() -> None:
    """Run all and print the figures."""
    quick = common.arguments(__doc__).quick
    count, runs = (100_000, 3) if quick else (400_000, 7)
    figures: dict[str, float] = {}
    graphs = {}
    for name, folder, size in (("fb15k", "FB15k", (15_000, 480_000, 1345)), ("wn18", "WN18", (41_000, 141_000, 18))):
        path = common.data(f"{folder}/train.txt.gz")
        figures[f"{name}_generated"] = int(path is None)
        if path is None:
            print(f"no {folder} in GAIFMAN_DATA: using generated data")
        graphs[name] = build_graph(gaifman.read(path) if path else generated(*size))
    start = time.perf_counter()
    draw_neighbourhoods(graphs["wn18"], [[0, 1]])
    figures["first_draw_s"] = time.perf_counter() - start  # with compilation, if no kernel is on disk yet
    for name, graph in graphs.items():
        figures |= against_python(name, graph, count, runs) | hiding(name, graph, count, runs)
    figures["fb15k_k20_draws_per_processor_s"] = per_processor(graphs["fb15k"], count)
    figures |= grown(graphs["fb15k"], count, runs)
    figures["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    lower = [f"fb15k_k20_{kind}" for kind in ("random", "training")]
    figures["fb15k_k20_draws_per_s"] = min(figures[f"{name}_draws_per_s"] for name in lower)
    figures["ratio_to_python"] = min(figures[f"{name}_ratio"] for name in lower)
    figures["ratio_to_python_rows"] = min(figures[f"{name}_ratio_rows"] for name in lower)
    figures["rate_1e7_over_rate_fb15k"] = min(figures[f"large_k20_{k}_over_small"] for k in ("random", "training"))
    common.report("neighbourhoods", figures)


if __name__ == "__main__":
    main()
