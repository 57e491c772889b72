"""Conflicts with constraints equal their definition, for any hidden facts and confidences."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.logic.ast import relation_query
from gaifman.logic.parser import parse_query
from gaifman.sampling.constraints import (
    Constraint,
    ConstraintChecker,
    Constraints,
    FunctionalConstraint,
    PairConstraint,
    TypeConstraint,
    hide_nothing,
    lower,
)
from gaifman.sampling.hiding import HiddenFacts
from reference_conflicts import reference_probability

NAMES = ("a", "b", "c", "d")
ARITIES = {"p": 1, "q": 1, "r": 2, "t": 3}
objects = st.sampled_from(NAMES)
likely = st.floats(1e-6, 1.0, exclude_max=True)
confidences = st.sampled_from([1.0, 1.0, 0.9, 0.25])


@st.composite
def facts(draw: st.DrawFn) -> list[Fact]:
    """Facts of all relations, without repetitions."""
    found = {}
    for name, arity in ARITIES.items():
        for row in draw(st.lists(st.tuples(*[objects] * arity), max_size=7)):
            found[name, row] = Fact(name, row, draw(confidences))
    return [*found.values()]


@st.composite
def declared_constraints(draw: st.DrawFn) -> tuple[str, Constraints]:
    """A relation and some constraints on it."""
    relation = draw(st.sampled_from([*ARITIES]))
    arity, functional = ARITIES[relation], []
    for dependent in draw(st.lists(st.integers(0, arity - 1), max_size=2, unique=True)) if arity > 1 else []:
        rest = [position for position in range(arity) if position != dependent]
        chosen = draw(st.lists(st.sampled_from(rest), min_size=1, max_size=2, unique=True))
        functional.append(FunctionalConstraint(relation, tuple(sorted(chosen)), dependent))
    types = draw(st.lists(st.sampled_from(["p", "q", None]), min_size=arity, max_size=arity))
    typed = (TypeConstraint(relation, tuple(types)),) if draw(st.booleans()) else ()
    kinds = st.sampled_from(["symmetric", "asymmetric", "irreflexive"])
    chosen_pairs = draw(st.lists(st.tuples(kinds, st.sampled_from(pairs_of(arity))), max_size=2)) if arity > 1 else []
    pairs = [PairConstraint(relation, kind, pair, arity) for kind, pair in chosen_pairs]
    return relation, Constraints(tuple(functional), typed, tuple(pairs), find=draw(st.booleans()))


def pairs_of(arity: int) -> list[tuple[int, int]]:
    return [(first, second) for second in range(arity) for first in range(second)]


@st.composite
def found_constraints(draw: st.DrawFn) -> list[Constraint]:
    """Constraints as they are found: one position, or pair of positions, at a time."""
    _, drawn = draw(declared_constraints())
    return [*drawn.functional, *(typed for rule in drawn.types for typed in by_position(rule)), *drawn.pairs]


def by_position(rule: TypeConstraint) -> list[TypeConstraint]:
    return [
        TypeConstraint(rule.relation, tuple(name if i == position else None for i in range(len(rule.types))))
        for position, name in enumerate(rule.types)
        if name
    ]


def all_tuples(arity: int) -> np.ndarray:
    return np.array([*product(range(len(NAMES)), repeat=arity)], np.int32)


@given(facts(), declared_constraints(), found_constraints(), st.data())
def test_factors_equal_their_definition(
    known: list[Fact], declared: tuple[str, Constraints], found: list[Constraint], data: st.DataObject
) -> None:
    kb = KnowledgeBase.from_facts(
        [*known, ("p", "a"), ("r", "a", "b"), ("t", "a", "b", "c"), ("q", "b")], objects=NAMES
    )
    relation, constraints = declared
    found = [*dict.fromkeys(found)]
    checker = ConstraintChecker(kb, relation_query(relation, ARITIES[relation]), constraints, found)
    tuples = all_tuples(ARITIES[relation])
    own = kb.fact_ids(kb.content.relations.find(relation) or 0, tuples)
    also = data.draw(st.lists(st.integers(0, len(kb) - 1), max_size=3))
    numbers = [sorted({*also[: row % 4], *([own[row]] if own[row] >= 0 else [])}) for row in range(len(tuples))]
    starts = np.append(0, np.cumsum([len(row) for row in numbers])).astype(np.int64)
    hidden = HiddenFacts(starts, np.array([number for row in numbers for number in row], np.int64))
    probabilities = np.array(data.draw(st.lists(likely, min_size=len(tuples), max_size=len(tuples))))
    expected = [
        reference_probability(
            kb,
            relation,
            constraints,
            found,
            tuple(NAMES[i] for i in row),
            {kb.fact_by_id(int(number)) for number in unseen},
            before,
        )
        for row, unseen, before in zip(tuples.tolist(), numbers, probabilities.tolist(), strict=True)
    ]
    factors = checker.factors(tuples, hidden, probabilities)
    assert probabilities * factors == pytest.approx(np.array(expected), abs=1e-12)
    for row in range(len(tuples)):
        single = np.array([row])
        conflicts = checker.conflicts(tuples[single], hidden.select(single))
        lowered = reduce(lower, conflicts, float(probabilities[row]))
        assert lowered == pytest.approx(expected[row], abs=1e-12)
        assert bool(conflicts) == (factors[row] < 1)


@given(facts(), st.booleans())
def test_a_query_with_another_order_of_positions_has_the_same_conflicts(known: list[Fact], by_head: bool) -> None:
    kb = KnowledgeBase.from_facts([*known, ("r", "a", "b")], objects=NAMES)
    plain = Constraints((FunctionalConstraint("r", (0,), 1),))
    swapped = Constraints((FunctionalConstraint("turned", (1,), 0),)) if by_head else plain
    one = ConstraintChecker(kb, relation_query("r", 2), plain)
    other = ConstraintChecker(kb, parse_query("turned(y, x) :- r(x, y)"), swapped)
    rows, nothing = all_tuples(2), hide_nothing(len(NAMES) ** 2)
    some = np.linspace(0.1, 0.9, len(rows))
    assert one.factors(rows, nothing, some).tolist() == other.factors(rows[:, ::-1], nothing, some).tolist()
