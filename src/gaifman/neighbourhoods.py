"""Bounded random neighbourhoods of tuples: Algorithm 1 of the paper, with what `docs/neighbourhoods.md` decides.

>>> from gaifman.kb import KnowledgeBase
>>> kb = KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "bob", "cleo"), ("likes", "cleo", "dan")])
>>> (found,) = neighbourhoods(kb, ("ann", "bob"), radius=2, size=1, seed=0)
>>> found.members, found.left_out
((('ann', 0), ('bob', 0), ('cleo', 1)), {2: 1})
>>> print(*found.facts)
likes(ann, bob). likes(bob, cleo).

Stages that compute ask for many at once, by number:

>>> graph = graph_of(kb)
>>> found = draw(graph, np.array([[0, 1], [3, 3]]), Sampling(size=None, draws=1))
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

from gaifman.errors import KnowledgeError
from gaifman.facts import Fact
from gaifman.graph import Graph, check_radius, graph_of, ranges
from gaifman.kb import KnowledgeBase
from gaifman.keys import Words, joined, start
from gaifman.tables import Ints, Longs

if TYPE_CHECKING:
    from gaifman.drawing import Job, Part


MOST = 1_000_000
"""Draws for one tuple at most: they are in memory together."""


@dataclass(frozen=True, slots=True)
class Sampling:
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
    shared: bool = False
    """Whether all tuples that have an object at one position share the random order of what is around it.

    For each tuple the distribution is the same; over tuples the draws are then not independent, and work can be shared.
    """

    def __post_init__(self) -> None:
        check_radius(self.radius)
        if self.size is not None and not _whole(self.size, 1):
            raise KnowledgeError(
                f"the size k is a whole number, 1 or more, or None, not {self.size!r}",
                hint="the tuple's own objects are members anyway: for them alone write r=0; for all objects k=None",
            )
        check_draws(self.draws)
        if not _whole(self.seed, 0) or self.seed >= 1 << 64:
            raise KnowledgeError(f"a seed is a whole number from 0 to 2**64 - 1, not {self.seed!r}")

    def keys(self) -> Words:
        """Shape (w,), uint64: a key for each draw, of the seed, the purpose and the draw's number."""
        return joined(start(self.seed, self.purpose), np.arange(self.draws))


@dataclass(frozen=True, slots=True)
class Hidden:
    """Facts that are not visible while the neighbourhoods of a tuple are drawn."""

    starts: Longs
    """Shape (b + 1,), int64: those of tuple `t` are `facts[starts[t] : starts[t + 1]]`."""
    facts: Longs
    """Shape (all hidden,), int64: fact numbers, as in `Graph.facts`."""

    @classmethod
    def one_each(cls, numbers: Longs) -> Hidden:
        """At most one for each tuple: `numbers` (b,), where −1 hides nothing, as `fact_numbers` gives them."""
        return cls(np.append(0, np.cumsum(numbers >= 0)), numbers[numbers >= 0])

    def of(self, tuples: Longs) -> Hidden:
        """What is hidden from some of the tuples, by their places, in that order."""
        first, last = self.starts[tuples], self.starts[tuples + 1]
        return Hidden(np.append(0, np.cumsum(last - first)), self.facts[ranges(first, last)])


@dataclass(frozen=True, slots=True)
class Neighbourhoods:
    """What was drawn: for each tuple and draw, the members by number."""

    starts: Longs
    """Shape (b · w + 1,), int64: the members of draw `j` of tuple `t` begin at `starts[t * w + j]`."""
    members: Ints
    """Shape (all members,), int32: first the tuple's different objects in their order, then those drawn, ascending."""
    own: Ints
    """Shape (b,), int32: how many different objects the tuple has."""
    draws: int
    """w."""
    places: Ints
    """Shape (b, n), int32: where among the members each object of the tuple stands."""
    edges: Ints
    """Shape as members, int32: an edge of the graph from one of the tuple's objects to the member, −1 for their own.

    Shape (0,) where it is not known: at a radius above 1. Whoever reads the facts between the two need not search.
    """

    def __len__(self) -> int:
        """The number of neighbourhoods."""
        return len(self.starts) - 1

    def of(self, t: int, draw: int = 0) -> Ints:
        """The members of one draw of one tuple."""
        at = t * self.draws + draw
        return self.members[self.starts[at] : self.starts[at + 1]]


def draw(
    graph: Graph,
    tuples: npt.ArrayLike,
    sampling: Sampling | None = None,
    hidden: Hidden | None = None,
    threads: int | None = None,
) -> Neighbourhoods:
    """Draw neighbourhoods of tuples (b, n) of object numbers, by Algorithm 1.

    The result depends on the graph, the tuple, what is hidden from it and the sampling: never on other tuples, their
    order, or the number of threads (by default one for each processor).
    """
    threads = len(os.sched_getaffinity(0)) if threads is None else threads
    if not _whole(threads, 1):
        raise KnowledgeError(f"the number of threads is a whole number, 1 or more, not {threads!r}")
    numbers = checked_tuples(graph, tuples)
    job = job_of(graph, numbers, sampling or Sampling(), hidden)
    return neighbourhoods_of(job, numbers, job.drawn(int(threads)))


def job_of(graph: Graph, tuples: Ints, sampling: Sampling, hidden: Hidden | None) -> Job:
    """What there is to draw, for those who do it in blocks."""
    from gaifman import drawing  # here, because numba takes a quarter of a second to import
    from gaifman.kernels.pools import EVERYTHING, Plan

    size = sampling.size
    if size is None or size >= max(1, tuples.shape[1] * len(graph)):  # the share of each pool is then all of it
        size = EVERYTHING
    plan = Plan(drawing.frozen(sampling.keys()), int(size), bool(sampling.shared), drawing.PATIENCE)
    unseen = checked_hidden(graph, hidden, len(tuples))
    return drawing.Job(graph, drawing.frozen(tuples), int(sampling.radius), plan, *unseen)


def neighbourhoods_of(job: Job, tuples: Ints, part: Part) -> Neighbourhoods:
    """What a job has drawn for its tuples, or some of them."""
    from gaifman.drawing import frozen

    members, spots, ends = part
    count, places = _own(tuples)
    starts = frozen(np.append(0, ends))
    return Neighbourhoods(starts, frozen(members), count, len(job.plan.keys), places, job.edges(spots))


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """One neighbourhood of one tuple, for people."""

    objects: tuple[str, ...]
    """The tuple."""
    members: tuple[tuple[str, int], ...]
    """Each member and its distance from the tuple's nearest object: the tuple's own first, then by distance, name."""
    facts: tuple[Fact, ...]
    """All that is known of the members alone: the substructure that formulas are evaluated on."""
    left_out: dict[int, int]
    """Distance → how many objects at that distance could have been drawn and were not; only where some were not."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "members": [{"name": name, "distance": distance} for name, distance in self.members],
            "facts": [{"relation": f.relation, "objects": f.objects, "confidence": f.confidence} for f in self.facts],
            "left_out": {str(distance): count for distance, count in self.left_out.items()},
        }


def neighbourhoods(
    source: KnowledgeBase | Graph,
    objects: Sequence[str],
    *,
    radius: int = 1,
    size: int | None = 20,
    draws: int = 1,
    seed: int = 0,
) -> tuple[Neighbourhood, ...]:
    """Draw neighbourhoods of one tuple of names: `draws` of them.

    Of a knowledge base the graph is built first; whoever asks often builds it once, with `graph_of`, and gives that.
    """
    if isinstance(objects, str):
        raise KnowledgeError(f"a tuple of names is meant: write ({objects!r},), not {objects!r}")
    graph = source if isinstance(source, Graph) else graph_of(source)
    numbers = [graph.kb.id(name) for name in objects]
    found = draw(graph, np.array([numbers], np.int32), Sampling(radius, size, draws, seed))
    distances = graph.distances(numbers, radius)
    return tuple(_named(graph, tuple(objects), found.of(0, number), distances) for number in range(draws))


def _named(graph: Graph, objects: tuple[str, ...], members: Ints, distances: Ints) -> Neighbourhood:
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


def checked_tuples(graph: Graph, tuples: npt.ArrayLike) -> Ints:
    """The tuples as int32 (b, n), or what is wrong with them."""
    array = np.asarray(tuples)
    if array.ndim != 2 or array.shape[1] == 0 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise KnowledgeError(
            f"tuples are whole numbers of shape (tuples, places), not {array.dtype} of shape {array.shape}",
            hint="one tuple of two objects is [[3, 5]]; a tuple has at least one place",
        )
    wrong = array[(array < 0) | (array >= len(graph))]
    if len(wrong):
        raise KnowledgeError(f"objects are numbered from 0 to {len(graph) - 1}, not {wrong[0]}")
    return array.astype(np.int32)


def checked_hidden(graph: Graph, hidden: Hidden | None, count: int) -> tuple[Longs, Longs]:
    """Starts and facts as int64, or what is wrong with them."""
    if hidden is None:
        return np.zeros(count + 1, np.int64), np.zeros(0, np.int64)
    starts, facts = np.asarray(hidden.starts, np.int64), np.asarray(hidden.facts, np.int64)
    ends = starts[:1].tolist() + starts[-1:].tolist()
    if starts.shape != (count + 1,) or ends != [0, len(facts)] or (np.diff(starts) < 0).any():
        raise KnowledgeError(
            f"the starts of hidden facts must rise from 0 to {len(facts)}, one for each of {count} tuples and the end"
        )
    wrong = facts[(facts < 0) | (facts >= len(graph.kb))]
    if len(wrong):
        raise KnowledgeError(
            f"facts are numbered from 0 to {len(graph.kb) - 1}, not {wrong[0]}",
            hint="fact_numbers() finds them; Hidden.one_each() leaves out the unknown ones, -1",
        )
    return starts, facts


def _own(tuples: Ints) -> tuple[Ints, Ints]:
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


def check_draws(draws: int, name: str = "the number of draws", most: int = MOST) -> None:
    """Refuse what cannot be a number of draws."""
    if not _whole(draws, 1) or draws > most:
        raise KnowledgeError(f"{name} is a whole number from 1 to {most:,}, not {draws!r}")


def _whole(number: object, least: int) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and int(number) >= least
