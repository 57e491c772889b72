"""Walks that keep to drawn members: equal to the definition, and to all walks if everything is drawn."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.config import Deadline
from gaifman.errors import StoppedError
from gaifman.explain.ranking import walk_facts
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.tables import freeze
from gaifman.listwise import mining
from gaifman.listwise.mining import MemberDrawer, MinedFormulas, Reacher, WalkBound, formula_values
from gaifman.listwise.ranker import reach_candidates
from gaifman.listwise.steps import Label, StepIndex, build_steps

MAX_STEPS = 4
Found = dict[tuple[int, int], float]


class Case:
    """A random knowledge base with self-loops and facts of three places, a question, and paths."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.arities = {"p": 1, "r": 2, "t": 2} | ({"u": 3} if seed % 2 else {})
        names = [f"o{i}" for i in range(rng.randint(1, 8))]
        facts = {
            (name, *rng.choices(names, k=arity))
            for name, arity in self.arities.items()
            for _ in range(rng.randint(1, 3 * len(names)))
        }
        sure = seed % 3 > 0
        self.kb = KnowledgeBase.from_facts(
            [Fact(name, tuple(rest), 1.0 if sure else rng.random() + 1e-9) for name, *rest in sorted(facts)],
            objects=names,
        )
        self.index = build_steps(self.kb)
        self.fixed = [rng.randrange(len(names)) for _ in range(rng.randint(1, 2))]
        count = rng.randint(0, min(3, len(self.kb)))
        self.hidden = freeze(np.array(sorted(rng.sample(range(len(self.kb)), count)), np.int64))
        self.mined = [self.random_paths() for _ in self.fixed]

    def random_paths(self) -> MinedFormulas:
        steps, labels = self.rng.randint(1, MAX_STEPS), range(len(self.index.labels))
        paths = {tuple(self.rng.choices(labels, k=self.rng.randint(1, steps))) for _ in range(8)}
        rows = np.array(sorted([*path, *[-1] * (steps - len(path))] for path in paths), np.int32)
        return MinedFormulas(self.index.labels, freeze(rows), np.ones(len(rows), np.int64), np.ones(len(rows)))

    def reached(self, bound: WalkBound | None) -> Reacher:
        reacher = Reacher(self.index, MAX_STEPS, 100, bound)
        reach_candidates(reacher, self.fixed, self.hidden, self.mined)
        return reacher


def entries(reacher: Reacher) -> Found:
    rows = slice(reacher.end)
    keys = zip(reacher.formulas[rows].tolist(), reacher.objects[rows].tolist(), strict=True)
    found = dict(zip(keys, reacher.values[rows].tolist(), strict=True))
    assert len(found) == reacher.end
    return found


def definition(case: Case, bound: WalkBound) -> Found:
    """The values of formulas: means over the draws of what is counted walk by walk."""
    steps = max(one.paths.shape[1] for one in case.mined)
    draws = MemberDrawer(case.index, bound).draw(case.fixed, case.hidden, steps)
    sums: Found = defaultdict(float)
    for members in draws:
        first = 0
        for start, one in zip(case.fixed, case.mined, strict=True):
            for row in range(len(one.paths)):
                for obj, (count, share) in walks(case, start, one.path(row), {*members.tolist()}).items():
                    sums[first + row, obj] += value(count, share)
            for (kind, obj), chance in links(case, start, {*members.tolist()}).items():
                sums[first + len(one.paths) + kind, obj] += value(mining.LINK_WALKS * chance, chance)
            first += len(one)
    return {key: total / len(draws) for key, total in sums.items()}


def value(count: float, share: float) -> float:
    return float(formula_values(np.array([count], np.float32), np.array([share], np.float32))[0])


def walks(case: Case, start: int, path: tuple[Label, ...], members: set[int]) -> dict[int, tuple[float, float]]:
    """Object → the number of walks to it, and the probability that a random walk among the members ends there."""
    found = {start: (1.0, 1.0)}
    for number, (relation, source, target) in enumerate(path, start=1):
        moved: dict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for obj, (count, share) in found.items():
            facts = [fact for fact in visible(case) if fact[0] == relation and fact[1][source] == obj]
            for _, objects, chance in facts:
                end = objects[target]
                inside = members if number < len(path) else members | {end}
                if end != start and inside.issuperset(objects):
                    before = moved[end]
                    moved[end] = before[0] + count * chance, before[1] + share * chance / len(facts)
        found = dict(moved)
    return found


def links(case: Case, start: int, members: set[int]) -> Found:
    """The probability that an object is in a fact with the start and members: any, with it later, with it earlier."""
    absent: Found = defaultdict(lambda: 1.0)
    for _, objects, chance in visible(case):
        for i, first in enumerate(objects):
            for j, other in enumerate(objects):
                if first == start != other and i != j and (members | {other}).issuperset(objects):
                    for kind in (0, 1 if i < j else 2):
                        absent[kind, other] *= 1 - min(chance, 1 - 1e-12)
    return {key: 1 - chance for key, chance in absent.items()}


def visible(case: Case) -> list[tuple[str, tuple[int, ...], float]]:
    numbers = [fact for fact in range(len(case.kb)) if fact not in case.hidden]
    return [(*case.index.fact(fact), float(case.index.confidences[fact])) for fact in numbers]


@given(
    seed=st.integers(0, 10**9), size=st.integers(1, 4), draws=st.integers(1, 3), radius=st.sampled_from([None, 0, 1, 2])
)
def test_values_are_means_of_walks_among_the_members(seed: int, size: int, draws: int, radius: int | None) -> None:
    case, bound = Case(seed), WalkBound(size, draws, radius, seed=seed % 5)
    assert entries(case.reached(bound)) == pytest.approx(definition(case, bound), abs=1e-5)


@given(seed=st.integers(0, 10**9))
def test_a_size_of_everything_is_no_size_to_the_last_bit(seed: int) -> None:
    case = Case(seed)
    whole, bounded = case.reached(None), case.reached(WalkBound(len(case.kb.objects), 3))
    for name in ("objects", "formulas", "values", "counts"):
        one, other = getattr(whole, name)[: whole.end], getattr(bounded, name)[: bounded.end]
        assert one.tobytes() == other.tobytes(), name


@given(seed=st.integers(0, 10**9), size=st.integers(1, 4))
def test_a_formula_with_a_value_has_facts_and_others_have_none(seed: int, size: int) -> None:
    case, bound = Case(seed), WalkBound(size, 2)
    steps, found = max(one.paths.shape[1] for one in case.mined), entries(case.reached(bound))
    drawn = MemberDrawer(case.index, bound).draw(case.fixed, case.hidden, steps)
    members = [set(one.tolist()) for one in drawn]
    start, one = case.fixed[0], case.mined[0]
    for row in range(len(one.paths)):
        for obj in range(len(case.kb.objects)):
            facts = walk_facts(case.index, one.path(row), start, obj, case.hidden, members)
            assert bool(facts) == ((row, obj) in found)
            assert not set(facts) & set(case.hidden.tolist())


def hubs(count: int, paths: int) -> tuple[StepIndex, MinedFormulas]:
    """Some objects, each linked to all others by every relation, and all paths of three steps."""
    names = [f"o{i}" for i in range(count)]
    facts = [(relation, a, b) for relation in ("r", "t") for a in names for b in names if a != b]
    index = build_steps(KnowledgeBase.from_facts(facts))
    rows = np.array(sorted(np.ndindex(4, 4, 4)), np.int32)[:paths]
    return index, MinedFormulas(index.labels, freeze(rows), np.ones(len(rows), np.int64), np.ones(len(rows)))


class CheckedDeadline(Deadline):
    """A deadline that passes at a certain check."""

    def __init__(self, checks: int) -> None:
        super().__init__()
        self.left = checks

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.cancel()
        super().check()


@pytest.mark.parametrize("bound", [None, WalkBound(30, 2)])
def test_a_question_over_hubs_stops_between_steps(monkeypatch: pytest.MonkeyPatch, bound: WalkBound | None) -> None:
    monkeypatch.setattr(mining, "STEPS_PER_CHECK", 1_000)
    index, mined = hubs(60, 64)
    nothing = freeze(np.zeros(0, np.int64))
    whole = Reacher(index, 3, 100, bound)
    reach_candidates(whole, [0], nothing, [mined])
    stopped = Reacher(index, 3, 100, bound)
    stopped.deadline = CheckedDeadline(5)
    with pytest.raises(StoppedError):
        reach_candidates(stopped, [0], nothing, [mined])
    assert stopped.steps <= 5 * (1_000 + 60)  # at most one object's steps more than allowed
    assert whole.steps > 10 * stopped.steps
    stopped.deadline, stopped.steps = None, 0
    stopped.clear()
    reach_candidates(stopped, [0], nothing, [mined])  # it can be used again
    assert entries(stopped) == entries(whole)


def test_pauses_do_not_change_what_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    index, mined = hubs(12, 64)
    nothing = freeze(np.zeros(0, np.int64))
    whole = Reacher(index, 3, 100)
    reach_candidates(whole, [0], nothing, [mined])
    monkeypatch.setattr(mining, "STEPS_PER_CHECK", 1)
    paused = Reacher(index, 3, 100)
    reach_candidates(paused, [0], nothing, [mined])
    assert paused.values[: paused.end].tobytes() == whole.values[: whole.end].tobytes()
    assert paused.steps == whole.steps
