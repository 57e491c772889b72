"""Bounded random neighbourhoods of tuples: Algorithm 1 of the paper, with what `docs/neighbourhoods.md` decides.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> kb = KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "bob", "cleo"), ("likes", "cleo", "dan")])
>>> (found,) = named_neighbourhoods(kb, ("ann", "bob"), radius=2, size=1, seed=0)
>>> found.members, found.left_out
((('ann', 0), ('bob', 0), ('cleo', 1)), {2: 1})
>>> print(*found.facts)
likes(ann, bob). likes(bob, cleo).

Stages that compute ask for many at once, by number:

>>> graph = build_graph(kb)
>>> found = draw_neighbourhoods(graph, np.array([[0, 1], [3, 3]]), SamplingConfig(size=None, draws=1))
>>> found.of(0).tolist(), found.of(1).tolist()
([0, 1, 2], [3, 2])
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gaifman.errors import KnowledgeBaseError
from gaifman.kb.facts import Fact
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph, check_radius, concatenate_ranges
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints, Longs
from gaifman.keys import Keys, fold_in, make_key

if TYPE_CHECKING:
    from gaifman.drawing import DrawJob, DrawnPart


MAX_DRAWS = 1_000_000
"""Draws for one tuple at most: they are in memory together."""


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """How neighbourhoods are drawn; the words of the paper are r, k and w."""

    radius: int = 1
    """r: how far from an object of the tuple a member may be."""
    size: int | None = 20
    """k: how many members there may be besides the tuple's own objects; None for all."""
    draws: int = 1
    """w: how many neighbourhoods for each tuple."""
    seed: int = 0
    purpose: str = "draw"
    """What the draws are for: the same seed gives other draws for another purpose."""
    shared_order: bool = False
    """Whether all tuples that have an object at one position share the random order of what is around it.

    For each tuple the distribution is the same; over tuples the draws are then not independent, and work can be shared.
    """

    def __post_init__(self) -> None:
        check_radius(self.radius)
        if self.size is not None and not _is_whole(self.size, 1):
            raise KnowledgeBaseError(
                f"the size k is a whole number, 1 or more, or None, not {self.size!r}",
                hint="the tuple's own objects are members anyway: for them alone write r=0; for all objects k=None",
            )
        check_draws(self.draws)
        if not _is_whole(self.seed, 0) or self.seed >= 1 << 64:
            raise KnowledgeBaseError(f"a seed is a whole number from 0 to 2**64 - 1, not {self.seed!r}")

    def keys(self) -> Keys:
        """Shape (w,), uint64: a key for each draw, of the seed, the purpose and the draw's number."""
        return fold_in(make_key(self.seed, self.purpose), np.arange(self.draws))


@dataclass(frozen=True, slots=True)
class HiddenFacts:
    """Facts that are not visible while the neighbourhoods of a tuple are drawn."""

    starts: Longs
    """Shape (b + 1,), int64: those of tuple `t` are `facts[starts[t] : starts[t + 1]]`."""
    facts: Longs
    """Shape (all hidden,), int64: fact numbers, as in `GaifmanGraph.facts`."""

    @classmethod
    def one_per_tuple(cls, numbers: Longs) -> HiddenFacts:
        """At most one for each tuple: `numbers` (b,), where −1 hides nothing, as `fact_numbers` gives them."""
        return cls(np.append(0, np.cumsum(numbers >= 0)), numbers[numbers >= 0])

    def select(self, tuples: Longs) -> HiddenFacts:
        """What is hidden from some of the tuples, by their places, in that order."""
        first, last = self.starts[tuples], self.starts[tuples + 1]
        return HiddenFacts(np.append(0, np.cumsum(last - first)), self.facts[concatenate_ranges(first, last)])


@dataclass(frozen=True, slots=True)
class NeighbourhoodBatch:
    """What was drawn: for each tuple and draw, the members by number."""

    starts: Longs
    """Shape (b · w + 1,), int64: the members of draw `j` of tuple `t` begin at `starts[t * w + j]`."""
    members: Ints
    """Shape (all members,), int32: first the tuple's different objects in their order, then those drawn, ascending."""
    distinct_counts: Ints
    """Shape (b,), int32: how many different objects the tuple has."""
    draws: int
    """w."""
    own_positions: Ints
    """Shape (b, n), int32: where among the members each object of the tuple stands."""
    edges: Ints
    """Shape as members, int32: an edge of the graph from one of the tuple's objects to the member, −1 for their own.

    Shape (0,) where it is not known: at a radius above 1. Whoever reads the facts between the two need not search.
    """

    def __len__(self) -> int:
        """The number of neighbourhoods."""
        return len(self.starts) - 1

    def members_of(self, t: int, draw: int = 0) -> Ints:
        """The members of one draw of one tuple."""
        at = t * self.draws + draw
        return self.members[self.starts[at] : self.starts[at + 1]]


def draw_neighbourhoods(
    graph: GaifmanGraph,
    tuples: npt.ArrayLike,
    sampling: SamplingConfig | None = None,
    hidden: HiddenFacts | None = None,
    threads: int | None = None,
) -> NeighbourhoodBatch:
    """Draw neighbourhoods of tuples (b, n) of object numbers, by Algorithm 1.

    The result depends on the graph, the tuple, what is hidden from it and the sampling: never on other tuples, their
    order, or the number of threads (by default one for each processor).
    """
    threads = len(os.sched_getaffinity(0)) if threads is None else threads
    if not _is_whole(threads, 1):
        raise KnowledgeBaseError(f"the number of threads is a whole number, 1 or more, not {threads!r}")
    numbers = check_tuples(graph, tuples)
    job = make_draw_job(graph, numbers, sampling or SamplingConfig(), hidden)
    return collect_neighbourhoods(job, numbers, job.draw(int(threads)))


def make_draw_job(graph: GaifmanGraph, tuples: Ints, sampling: SamplingConfig, hidden: HiddenFacts | None) -> DrawJob:
    """What there is to draw, for those who do it in blocks."""
    from gaifman.drawing import TRIAL_FACTOR, DrawJob, freeze
    from gaifman.kernels.sampling import UNBOUNDED, DrawPlan

    size = sampling.size
    if size is None or size >= max(1, tuples.shape[1] * len(graph)):  # the share of each pool is then all of it
        size = UNBOUNDED
    plan = DrawPlan(freeze(sampling.keys()), int(size), bool(sampling.shared_order), TRIAL_FACTOR)
    unseen = check_hidden(graph, hidden, len(tuples))
    return DrawJob(graph, freeze(tuples), int(sampling.radius), plan, *unseen)


def collect_neighbourhoods(job: DrawJob, tuples: Ints, part: DrawnPart) -> NeighbourhoodBatch:
    """What a job has drawn for its tuples, or some of them."""
    from gaifman.drawing import freeze

    members, spots, ends = part
    count, places = _distinct_objects(tuples)
    starts = freeze(np.append(0, ends))
    return NeighbourhoodBatch(starts, freeze(members), count, len(job.plan.keys), places, job.edge_indices(spots))


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """One neighbourhood of one tuple, for people."""

    objects: tuple[str, ...]
    """The tuple."""
    members: tuple[tuple[str, int], ...]
    """Each member and its distance from the tuple's nearest object: the tuple's own first, then by distance, name."""
    facts: tuple[Fact, ...]
    """All that is known of the members alone: the substructure that formulas are evaluated on."""
    not_drawn: dict[int, int]
    """Distance → how many objects at that distance could have been drawn and were not; only where some were not."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "members": [{"name": name, "distance": distance} for name, distance in self.members],
            "facts": [{"relation": f.relation, "objects": f.objects, "confidence": f.confidence} for f in self.facts],
            "left_out": {str(distance): count for distance, count in self.not_drawn.items()},
        }


def named_neighbourhoods(
    source: KnowledgeBase | GaifmanGraph,
    objects: Sequence[str],
    *,
    radius: int = 1,
    size: int | None = 20,
    draws: int = 1,
    seed: int = 0,
) -> tuple[Neighbourhood, ...]:
    """Draw neighbourhoods of one tuple of names: `draws` of them.

    Of a knowledge base the graph is built first; whoever asks often builds it once, with `build_graph`, and gives that.
    """
    if isinstance(objects, str):
        raise KnowledgeBaseError(f"a tuple of names is meant: write ({objects!r},), not {objects!r}")
    graph = source if isinstance(source, GaifmanGraph) else build_graph(source)
    numbers = [graph.kb.object_id(name) for name in objects]
    found = draw_neighbourhoods(graph, np.array([numbers], np.int32), SamplingConfig(radius, size, draws, seed))
    distances = graph.distances(numbers, radius)
    return tuple(
        _name_members(graph, tuple(objects), found.members_of(0, number), distances) for number in range(draws)
    )


def _name_members(graph: GaifmanGraph, objects: tuple[str, ...], members: Ints, distances: Ints) -> Neighbourhood:
    left = distances.copy()
    left[members] = 0
    at, counts = np.unique_counts(left[left > 0])
    ordered = sorted(members.tolist(), key=lambda member: int(distances[member]))  # stable: own objects stay in front
    names = [graph.kb.objects[member] for member in ordered]
    return Neighbourhood(
        objects,
        tuple((name, int(distances[member])) for name, member in zip(names, ordered, strict=True)),
        tuple(graph.kb.induced(names).facts()),
        dict(zip(at.tolist(), counts.tolist(), strict=True)),
    )


def check_tuples(graph: GaifmanGraph, tuples: npt.ArrayLike) -> Ints:
    """The tuples as int32 (b, n), or what is wrong with them."""
    array = np.asarray(tuples)
    if array.ndim != 2 or array.shape[1] == 0 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise KnowledgeBaseError(
            f"tuples are whole numbers of shape (tuples, places), not {array.dtype} of shape {array.shape}",
            hint="one tuple of two objects is [[3, 5]]; a tuple has at least one place",
        )
    wrong = array[(array < 0) | (array >= len(graph))]
    if len(wrong):
        raise KnowledgeBaseError(f"objects are numbered from 0 to {len(graph) - 1}, not {wrong[0]}")
    return array.astype(np.int32)


def check_hidden(graph: GaifmanGraph, hidden: HiddenFacts | None, count: int) -> tuple[Longs, Longs]:
    """Starts and facts as int64, or what is wrong with them."""
    if hidden is None:
        return np.zeros(count + 1, np.int64), np.zeros(0, np.int64)
    starts, facts = np.asarray(hidden.starts, np.int64), np.asarray(hidden.facts, np.int64)
    ends = starts[:1].tolist() + starts[-1:].tolist()
    if starts.shape != (count + 1,) or ends != [0, len(facts)] or (np.diff(starts) < 0).any():
        raise KnowledgeBaseError(
            f"the starts of hidden facts must rise from 0 to {len(facts)}, one for each of {count} tuples and the end"
        )
    wrong = facts[(facts < 0) | (facts >= len(graph.kb))]
    if len(wrong):
        raise KnowledgeBaseError(
            f"facts are numbered from 0 to {len(graph.kb) - 1}, not {wrong[0]}",
            hint="fact_numbers() finds them; Hidden.one_each() leaves out the unknown ones, -1",
        )
    return starts, facts


def _distinct_objects(tuples: Ints) -> tuple[Ints, Ints]:
    """How many different objects each tuple has (b,), and where each object stands among them (b, n)."""
    places = np.zeros(tuples.shape, np.int32)
    count = np.ones(len(tuples), np.int32)
    for i in range(1, tuples.shape[1]):
        same = tuples[:, :i] == tuples[:, i : i + 1]
        fresh = ~same.any(axis=1)
        places[:, i] = np.where(fresh, count, places[np.arange(len(tuples)), same.argmax(axis=1)])
        count += fresh
    for array in (count, places):
        array.setflags(write=False)
    return count, places


def check_draws(draws: int, name: str = "the number of draws", maximum: int = MAX_DRAWS) -> None:
    """Refuse what cannot be a number of draws."""
    if not _is_whole(draws, 1) or draws > maximum:
        raise KnowledgeBaseError(f"{name} is a whole number from 1 to {maximum:,}, not {draws!r}")


def _is_whole(number: object, minimum: int) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and int(number) >= minimum
