"""Possible worlds: a fact of confidence c is present with probability c, independently of other facts.

>>> from gaifman.kb.gaifman_graph import build_graph
>>> from gaifman.kb.knowledge_base import Fact, KnowledgeBase
>>> kb = KnowledgeBase.from_facts([Fact("likes", ("ann", f"b{i}"), 0.3) for i in range(1000)])
>>> worlds = [World(build_graph(kb), key) for key in world_keys(SamplingConfig(draws=2))]
>>> [round(float(world.present(np.arange(1000)).mean()), 1) for world in worlds]
[0.3, 0.3]

Every draw of a neighbourhood sees a world of its own: the members are drawn from the Gaifman graph of all facts, and
formulas see the facts among them that are present. Which facts these are depends on the seed, the purpose and number of
the draw, the tuple and the fact. With `shared_order` all tuples see the same world in a draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gaifman.config import SamplingConfig
from gaifman.kb.gaifman_graph import GaifmanGraph, labelled_graph
from gaifman.kb.tables import Ints, Longs, freeze
from gaifman.kernels.evaluate import KnowledgeBaseArrays
from gaifman.kernels.local_facts import find_present_facts
from gaifman.sampling.rng import Keys, draw_keys, fold_in, fold_in_rows
from gaifman.threads import cached_property

Bools = npt.NDArray[np.bool_]

WORLD_PURPOSE = 0x776F726C64
"""Purpose of the keys of worlds, so that they differ from the keys of the draws."""


def world_keys(sampling: SamplingConfig) -> Keys:
    """Return the keys (w,), uint64, of the worlds of the draws."""
    return fold_in(draw_keys(sampling), np.array([WORLD_PURPOSE]))


def worlds_of_tuple(graph: GaifmanGraph, sampling: SamplingConfig, objects: Ints) -> list[World]:
    """Return the world that a tuple (n,) sees in each draw."""
    keys = world_keys(sampling)
    if not sampling.shared_order:
        keys = fold_in_rows(keys, np.repeat(objects[None], len(keys), axis=0))
    return [World(graph, key) for key in keys]


@dataclass(frozen=True)
class World:
    """One possible world of a knowledge base."""

    graph: GaifmanGraph
    """The graph of all facts."""
    key: np.uint64
    """Decides which facts are present."""

    def present(self, facts: npt.NDArray[np.integer]) -> Bools:
        """Return for each of some facts (b,), by id, whether it is present."""
        confidence = self.graph.arrays.facts.confidence
        found = np.ones(len(facts), np.bool_)
        if len(confidence):
            find_present_facts(confidence, freeze(facts.astype(np.int64)), self.key | np.uint64(1), found)
        return found

    def absent(self, facts: Longs) -> Longs:
        """Return those of some facts, by id, that are not present."""
        return facts[~self.present(facts)]

    @cached_property
    def arrays(self) -> KnowledgeBaseArrays:
        """The knowledge base without the absent facts, as the kernels read it.

        Facts and edges keep their numbers; an edge of absent facts has no labels.
        """
        graph, facts = self.graph, self.graph.arrays.facts
        if not len(facts.confidence):
            return graph.arrays
        kept, own = (self.present(numbers) for numbers in (graph.label_facts, facts.own))
        less = replace(
            graph,
            label_starts=_count_before(kept, graph.label_starts),
            labels=freeze(graph.labels[kept]),
            label_facts=freeze(graph.label_facts[kept]),
        )
        own_starts, certain = _count_before(own, facts.own_starts), freeze(np.zeros(0))
        present = facts._replace(own_starts=own_starts, own=freeze(facts.own[own]), confidence=certain)
        return graph.arrays._replace(graph=labelled_graph(less), facts=present)


def _count_before(kept: Bools, ends: Longs) -> Longs:
    """Return how many rows are kept before each of some rows, given by index."""
    return freeze(np.append(0, np.cumsum(kept))[ends].astype(np.int64))
