"""Bounded walks: the members of a neighbourhood that walks pass through.

>>> import gaifman
>>> from gaifman.listwise.steps import build_steps
>>> index = build_steps(gaifman.demo())
>>> drawer = MemberDrawer(index, WalkBound(size=4, draws=2))
>>> [len(members) for members in drawer.draw([index.kb.object_id("france")], np.zeros(0, np.int64), steps=2)]
[5, 5]

With a size k, a question has members: its fixed objects, and at most k others from their neighbourhoods, drawn by
Algorithm 1. A walk takes facts whose objects are all members. Its last step may end at any object, because the
candidate is a member of its own neighbourhood. Values are averaged over the draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaifman.kb.tables import Ints, Longs, concatenate_ranges, freeze
from gaifman.kernels.walks import Members
from gaifman.listwise.steps import StepIndex
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import draw_neighbourhoods
from gaifman.sampling.settings import SamplingConfig

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WalkBound:
    """Which neighbourhoods walks keep to."""

    size: int
    """k: the members of a neighbourhood besides the fixed objects."""
    draws: int = 1
    """N: the neighbourhoods of a question."""
    radius: int | None = None
    """r; None for the smallest radius that holds every walk but for its end."""
    seed: int = 0

    def sampling(self, steps: int, max_arity: int) -> SamplingConfig:
        """How the members for paths of so many steps are drawn.

        All objects of a walk but the last are at most steps − 1 from its start; another object of the last fact, if it
        has more than two, is one further.

        >>> [WalkBound(20).sampling(steps, 2).radius for steps in (1, 2, 3, 5)]
        [1, 1, 2, 4]
        """
        radius = self.radius
        if radius is None:
            radius = max(1, steps - 1 if max_arity <= 2 else steps)
        return SamplingConfig(radius, self.size, self.draws, self.seed, "walk", shared_order=True)


class MemberDrawer:
    """Draws the members of questions, and marks those that walks keep to. One thread uses it at a time."""

    def __init__(self, index: StepIndex, bound: WalkBound | None) -> None:
        self.index, self.bound = index, bound
        long_facts = index.long_facts if bound else (freeze(np.zeros(0, np.int64)), freeze(np.zeros(0, np.int32)))
        count = len(index.kb.objects) if bound else 0
        self.members = Members(np.zeros(count, np.int64), np.zeros(1, np.int64), *long_facts)
        """The members of the last neighbourhood that was marked, for kernels."""

    def draw(self, fixed: Sequence[int], hidden: Longs, steps: int) -> list[Ints]:
        """The members of each draw, ascending; a single one if all are the same. None are drawn without a bound."""
        if self.bound is None or not fixed:
            return []
        sampling = self.bound.sampling(steps, max(self.index.kb.fact_tables, default=2))
        unseen = HiddenFacts(np.array([0, len(hidden)]), np.sort(hidden))
        drawn = draw_neighbourhoods(self.index.graph, [list(fixed)], sampling, unseen, threads=1)
        found = [np.sort(drawn.members_of(0, draw)) for draw in range(sampling.draws)]
        return found[:1] if all(np.array_equal(one, found[0]) for one in found) else found

    def mark(self, draws: Sequence[Ints], draw: int) -> None:
        """Let walks keep to the members of one of some draws; without a bound there are none."""
        self.members.number[0] += 1
        if draws:
            self.members.marks[draws[draw]] = self.members.number[0]

    def is_inside(self, facts: Longs, targets: Ints) -> Bools:
        """Whether all objects of facts but the targets are members."""
        starts, objects = self.members.fact_starts, self.members.fact_objects
        if not len(starts):
            return np.ones(len(facts), bool)
        rows = np.repeat(np.arange(len(facts)), starts[facts + 1] - starts[facts])
        found = objects[concatenate_ranges(starts[facts], starts[facts + 1])]
        outside = (self.members.marks[found] != self.members.number[0]) & (found != targets[rows])
        inside: Bools = np.bincount(rows[outside], minlength=len(facts)) == 0
        return inside
