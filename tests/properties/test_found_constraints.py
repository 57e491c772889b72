"""The constraints that are found in the data equal their definition."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.sampling.constraints import found_from_dict, parse_constraints
from gaifman.sampling.found_constraints import find_constraints
from reference_constraints import kinds_found, reference_constraints

KINDS = ("random", "function", "inverse", "symmetric", "ordered", "triple")


def random_kb(kinds: list[str], size: int, noise: int, seed: int) -> KnowledgeBase:
    """Relations of some kinds, each with some other facts, on typed objects."""
    rng = random.Random(seed)
    objects = [f"o{i:02d}" for i in range(size)]
    facts: list[tuple[str, ...]] = [("thing", obj) for obj in objects]
    facts += [("small", obj) for obj in objects[: size // 2]]
    half = objects[: size // 2]
    for number, kind in enumerate(kinds):
        name = f"r{number}"
        rows = [tuple(rng.sample(objects, 2)) for _ in range(size)]
        match kind:
            case "function":
                rows = [(obj, rng.choice(objects)) for obj in rng.choice([objects, half])]
            case "inverse":
                rows = [(rng.choice(half), obj) for obj in objects]
            case "symmetric":
                rows = [pair for row in rows for pair in (row, row[::-1])]
            case "ordered":
                rows = [(min(row), max(row)) for row in rows]
            case "triple":
                rows = [(*row, rng.choice(objects)) for row in rows]
        extra = [tuple(rng.choice(objects) for _ in rows[0]) for _ in range(noise)]
        facts += [(name, *row) for row in {*rows, *extra}]
    return KnowledgeBase.from_facts(facts)


@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    st.integers(10, 60),
    st.integers(0, 4),
    st.integers(0, 2**32),
)
def test_what_is_found_equals_its_definition(kinds: list[str], size: int, noise: int, seed: int) -> None:
    kb = random_kb(kinds, size, noise, seed)
    found = [(str(one.constraint), one.holds, one.instances) for one in find_constraints(kb)]
    assert sorted(found) == sorted(reference_constraints(kb))
    for one in find_constraints(kb):
        assert found_from_dict(one.as_dict()) == one
        assert parse_constraints(str(one.constraint), kb).declared == (one.constraint,)
        assert all(f"{count:,}" in one.evidence for count in {one.instances} - {one.holds})


@pytest.mark.parametrize(
    ("kind", "found"),
    [("function", "functional"), ("inverse", "functional"), ("symmetric", "symmetric"), ("ordered", "asymmetric")],
)
def test_each_kind_is_found(kind: str, found: str) -> None:
    kb = random_kb([kind], 300, 1, 3)
    assert kinds_found(reference_constraints(kb))[found] == 1
    assert [str(one.constraint).partition(":")[0] for one in find_constraints(kb)].count(found) == 1


def test_random_facts_keep_no_constraint_but_that_objects_differ() -> None:
    """100 facts of 10,000 objects look functional in both directions; chance says so, too."""
    rng = random.Random(1)
    for size, facts in ((10_000, 100), (300, 300), (60, 300)):
        objects = [f"o{i}" for i in range(size)]
        rows = {(rng.choice(objects), rng.choice(objects)) for _ in range(facts)}
        kb = KnowledgeBase.from_facts(
            [("r", f"o{a}", f"o{b}") for a, b in rows], objects=[f"o{i}" for i in range(size)]
        )
        kinds = {str(one.constraint).partition(":")[0] for one in find_constraints(kb)}
        assert kinds <= {"irreflexive", "asymmetric"}
        assert "functional" not in kinds
