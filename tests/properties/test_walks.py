"""Walks reach what the definition of their formulas says."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from gaifman.kb.gaifman_graph import build_graph, induced_facts
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import freeze
from gaifman.kernels.walks import DEPTH, END, PAUSED, UNREACHED, Members, PathScratch, WalkScratch, find_paths, reach
from gaifman.listwise.mining import FIRST_SETS, Reacher
from gaifman.listwise.steps import StepIndex, build_steps, path_feature
from gaifman.logic.semantics import feature_value

ARITIES = {"p": 1, "r": 2, "t": 2, "u": 3}
MAX_STEPS = 3


def random_kb(rng: random.Random) -> KnowledgeBase:
    objects = [f"o{i}" for i in range(rng.randint(1, 5))]
    facts = [
        (name, *rng.choices(objects, k=arity))
        for name, arity in ARITIES.items()
        for _ in range(rng.randint(1, 2 * len(objects)))
    ]
    return KnowledgeBase.from_facts(facts, objects=objects)


def walk_scratch(objects: int) -> WalkScratch:
    shape = (MAX_STEPS, objects + 1)
    return WalkScratch(
        np.zeros(objects, np.int64),
        np.zeros(objects, np.int32),
        np.empty(shape, np.int32),
        np.empty(shape),
        np.empty(shape),
        np.zeros(MAX_STEPS, np.int64),
        np.zeros(1, np.int64),
        np.zeros(7, np.int64),
    )


NO_BOUND = Members(
    np.zeros(0, np.int64), np.zeros(1, np.int64), freeze(np.zeros(0, np.int64)), freeze(np.zeros(0, np.int32))
)


def sorted_paths(paths: list[list[int]]) -> np.ndarray:
    return freeze(np.array(sorted(path + [-1] * (MAX_STEPS - len(path)) for path in paths), np.int32))


def reached(
    index: StepIndex,
    start: int,
    hidden: list[int],
    paths: np.ndarray,
    max_set: int = 100,
    budget: int = 1,
    max_first: int = 0,
) -> dict[tuple[int, int], float]:
    scratch, unseen = walk_scratch(len(index.kb.objects)), freeze(np.array(hidden, np.int64))
    objects, formulas = np.empty(1, np.int32), np.empty(1, np.int32)
    counts, masses = np.empty(1, np.float32), np.empty(1, np.float32)
    scratch.state[DEPTH] = -1
    while True:
        arguments = (index.table, NO_BOUND, start, unseen, paths, 0, max_set, max_first or max_set, budget, scratch)
        status = reach(*arguments, objects, formulas, counts, masses)
        if status >= 0:
            end = int(scratch.state[END])
            return {
                (int(f), int(o)): float(c) for f, o, c in zip(formulas[:end], objects[:end], counts[:end], strict=True)
            }
        if status != PAUSED:
            objects, formulas = np.resize(objects, 2 * len(objects)), np.resize(formulas, 2 * len(objects))
            counts, masses = np.resize(counts, 2 * len(counts)), np.resize(masses, 2 * len(masses))


@pytest.mark.parametrize("seed", range(40))
def test_walks_count_the_groundings_of_their_formulas(seed: int) -> None:
    rng = random.Random(seed)
    kb = random_kb(rng)
    index, start = build_steps(kb), rng.randrange(len(kb.objects))
    facts = list(kb.facts())
    hidden = rng.sample(range(len(facts)), rng.randint(0, min(3, len(facts))))
    paths = sorted_paths(
        [[rng.randrange(len(index.labels)) for _ in range(rng.randint(1, MAX_STEPS))] for _ in range(12)]
    )
    found = reached(index, start, hidden, paths)
    visible = kb.without_facts([kb.fact_by_id(fact) for fact in hidden]).extend_schema(ARITIES)
    structure = visible.structure()
    for number, path in enumerate(paths.tolist()):
        feature = path_feature([index.labels[label] for label in path if label >= 0], ARITIES)
        for obj in range(len(kb.objects)):
            names = [kb.object_name(start), kb.object_name(obj)]
            assert found.get((number, obj), 0.0) == feature_value(structure, feature, names), (feature, names)


@pytest.mark.parametrize("seed", range(40))
def test_shares_are_those_of_random_walks_along_visible_facts(seed: int) -> None:
    rng = random.Random(seed)
    kb = random_kb(rng)
    index, start = build_steps(kb), rng.randrange(len(kb.objects))
    hidden = freeze(np.array(rng.sample(range(len(kb)), rng.randint(0, min(3, len(kb)))), np.int64))
    path = [rng.randrange(len(index.labels)) for _ in range(rng.randint(1, MAX_STEPS))]
    reacher = Reacher(index, MAX_STEPS, 100)
    end = reacher.walk(start, hidden, sorted_paths([path]))
    found = dict(zip(reacher.objects[:end].tolist(), reacher.masses[:end].tolist(), strict=True))
    assert found == pytest.approx(walk_shares(index, start, set(hidden.tolist()), path))


def walk_shares(index: StepIndex, start: int, hidden: set[int], path: list[int]) -> dict[int, float]:
    """Where a walk ends that takes a random visible step at a time and stops when it returns, by definition."""
    shares = {start: 1.0}
    for label in path:
        moved: dict[int, float] = {}
        for obj, share in shares.items():
            steps = zip(index.targets(obj, label).tolist(), step_facts(index, obj, label), strict=True)
            targets = [target for target, fact in steps if fact not in hidden]
            for target in targets:
                moved[target] = moved.get(target, 0.0) + share / len(targets)
        shares = {obj: share for obj, share in moved.items() if obj != start}
    return shares


@pytest.mark.parametrize("seed", range(20))
def test_links_are_visible_facts_with_both_objects(seed: int) -> None:
    rng = random.Random(seed)
    kb = random_kb(rng)
    index, start = build_steps(kb), rng.randrange(len(kb.objects))
    hidden = freeze(np.array(rng.sample(range(len(kb)), rng.randint(0, min(3, len(kb)))), np.int64))
    reacher = Reacher(index, MAX_STEPS, 100)
    end = reacher.link(start, hidden, 7)
    expected = set()
    for number in set(range(len(kb))) - set(hidden.tolist()):
        members = index.fact(number)[1]
        for first, second in itertools.combinations(members, 2):
            if first != second and start in (first, second):
                other = second if first == start else first
                expected |= {(other, 7), (other, 8 if first == start else 9)}
    assert set(zip(reacher.objects[:end].tolist(), reacher.formulas[:end].tolist(), strict=True)) == expected
    assert end == len(expected)


@pytest.mark.parametrize("seed", range(20))
def test_a_path_with_a_large_set_reaches_nothing(seed: int) -> None:
    rng = random.Random(seed)
    index = build_steps(random_kb(rng))
    paths = sorted_paths(
        [[rng.randrange(len(index.labels)) for _ in range(rng.randint(1, MAX_STEPS))] for _ in range(6)]
    )
    all_of_it, bounded = reached(index, 0, [], paths), reached(index, 0, [], paths, max_set=1)
    assert bounded.items() <= all_of_it.items()
    assert all(sum(f == g for g, _ in bounded) == 1 for f, _ in bounded)


@pytest.mark.parametrize("seed", range(40))
def test_a_path_of_one_step_may_reach_more_objects(seed: int) -> None:
    rng = random.Random(seed)
    kb = random_kb(rng)
    index, hidden = build_steps(kb), rng.sample(range(len(kb)), rng.randint(0, min(3, len(kb))))
    labels = range(len(index.labels))
    longer = {tuple(rng.choices(labels, k=rng.randint(2, MAX_STEPS))) for _ in range(12)}
    paths = sorted_paths([[label] for label in labels] + [[*path] for path in longer])
    max_set, max_first = rng.randint(1, 2), 3
    wanted: dict[tuple[int, int], float] = {}
    all_of_it = reached(index, 0, hidden, paths)
    for number, path in enumerate(paths.tolist()):
        own = [label for label in path if label >= 0]
        sizes = [len(walk_shares(index, 0, set(hidden), own[:length])) for length in range(1, len(own) + 1)]
        if max(sizes) <= (max_first if len(own) == 1 else max_set):
            wanted |= {key: count for key, count in all_of_it.items() if key[0] == number}
    assert reached(index, 0, hidden, paths, max_set=max_set, max_first=max_first) == wanted


@pytest.mark.parametrize("first_alone", [True, False])
def test_a_hub_is_the_end_of_a_path_and_not_its_middle(first_alone: bool) -> None:
    facts = [("wide", "hub", f"o{i}") for i in range(FIRST_SETS * 2)]
    facts += [("too_wide", "hub", f"o{i}") for i in range(FIRST_SETS * 2 + 1)]
    facts += [("narrow", "hub", f"o{i}") for i in range(2)]
    facts += [("next", f"o{i}", f"o{i + 1}") for i in range(FIRST_SETS * 2)]
    kb = KnowledgeBase.from_facts(facts)
    index, reacher = build_steps(kb), Reacher(build_steps(kb), 2, 2)
    onward, *first = (index.label_id(name, 0, 1) for name in ("next", "wide", "too_wide", "narrow"))
    paths = sorted([[label, -1] for label in first if first_alone] + [[label, onward] for label in first])
    end = reacher.walk(kb.object_id("hub"), freeze(np.zeros(0, np.int64)), freeze(np.array(paths, np.int32)))
    counts = np.bincount(reacher.formulas[:end], minlength=len(paths)).tolist()
    found: list[dict[str, int]] = [{}, {}]
    for (label, then), count in zip(paths, counts, strict=True):
        found[then >= 0][index.labels[label].relation] = count
    assert found[0] == ({"wide": FIRST_SETS * 2, "too_wide": 0, "narrow": 2} if first_alone else {})
    assert found[1] == {"wide": 0, "too_wide": 0, "narrow": 2}


@pytest.mark.parametrize("seed", range(40))
def test_paths_found_are_those_that_lead_to_the_end(seed: int) -> None:
    rng = random.Random(seed)
    kb = random_kb(rng)
    index = build_steps(kb)
    start, end = rng.randrange(len(kb.objects)), rng.randrange(len(kb.objects))
    hidden, base = rng.randrange(len(kb)), len(index.labels) + 1
    scratch = PathScratch(
        np.zeros(len(kb.objects), np.uint8),
        np.full(len(kb.objects), UNREACHED, np.int8),
        np.empty(len(kb.objects), np.int32),
        np.zeros((4, MAX_STEPS + 1), np.int64),
    )
    codes = np.empty(100_000, np.int64)
    unseen = freeze(np.array([hidden], np.int64))
    redundant = freeze(np.array([rng.random() < 0.3 for _ in index.labels], bool))
    labels = index.step_labels, redundant
    arguments = (index.table, start, end, unseen, base, MAX_STEPS, 1_000, 10**9, *labels, scratch, codes)
    count = find_paths(*arguments, 0)
    found = set(codes[:count].tolist())
    every = simple_paths(index, start, end, hidden, base) if start != end else set()
    assert found == {code for code in every if code < base or not redundant[labels_of_code(code, base)].any()}
    assert (scratch.distance == UNREACHED).all()
    assert not scratch.on_path.any()
    assert find_paths(*arguments, count) == 2 * count  # the scratch space is clean


def simple_paths(index: StepIndex, start: int, end: int, hidden: int, base: int) -> set[int]:
    """The codes of all paths without a repeated object, by definition."""
    found: set[int] = set()

    def extend(objects: list[int], code: int) -> None:
        for label in range(len(index.labels)):
            group = index.targets(objects[-1], label)
            facts = step_facts(index, objects[-1], label)
            for target, fact in zip(group.tolist(), facts, strict=True):
                if fact == hidden or target in objects:
                    continue
                if target == end:
                    found.add(code * base + label + 1)
                elif len(objects) < MAX_STEPS:
                    extend([*objects, target], code * base + label + 1)

    extend([start], 0)
    return found


def labels_of_code(code: int, base: int) -> list[int]:
    labels = []
    while code:
        code, last = divmod(code, base)
        labels.append(last - 1)
    return labels


def step_facts(index: StepIndex, obj: int, label: int) -> list[int]:
    begin, stop = index.table.group_starts[index.table.starts[[obj, obj + 1]]]
    rows = range(int(begin), int(stop))
    return [int(index.table.facts[row]) for row in rows if index.step_labels[row] == label]


@pytest.mark.parametrize("seed", range(40))
def test_the_facts_among_objects_are_those_of_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    kb = random_kb(rng)
    facts = list(kb.facts())
    members = sorted(rng.sample(range(len(kb.objects)), rng.randint(1, len(kb.objects))))
    hidden = np.array(sorted(rng.sample(range(len(facts)), rng.randint(0, 3))), np.int64)
    index = build_steps(kb)
    found = index.facts_among(np.array(members, np.int32), hidden).tolist()
    wanted = [
        number
        for number in range(len(facts))
        if {*index.fact(number)[1]} <= {*members} and number not in hidden.tolist()
    ]
    assert found == wanted
    assert found == induced_facts(build_graph(kb), np.array(members, np.int32), hidden).tolist()
