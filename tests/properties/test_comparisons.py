"""Comparisons of numbers are what the language says, and are counted as a slow count says."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comparison_cases import make_comparisons
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.listwise.added import AddedFormulas
from gaifman.listwise.mining import (
    COMPARISON_WALKS,
    COMPARISONS,
    MIN_COMPARED,
    MIN_DEVIATION,
    MinedComparisons,
    MinedFormulas,
    MiningConfig,
    Reacher,
    WalkBound,
    mine_comparisons,
    mine_formulas,
)
from gaifman.listwise.ranker import ListwiseConfig, _Problem, held_out_rows
from gaifman.listwise.steps import StepIndex, build_steps, comparison_feature
from gaifman.logic.parser import parse_feature
from gaifman.logic.semantics import COMPARISONS as DEFINED
from gaifman.logic.semantics import feature_value

RELATIONS = {"r": 2, "t": 3}
OBJECTS = [f"o{i:02}" for i in range(14)]
NUMBERS = st.sampled_from([0.0, 1.0, 2.0, 2.5, -3.0, 1e300])


@st.composite
def knowledge_bases(draw: st.DrawFn, max_facts: int = 40, lift: bool = False) -> KnowledgeBase:
    """Facts of two and three places, and two attributes; some objects have no number, and some numbers are equal.

    With `lift`, most facts lead to larger ages.
    """
    attributes = st.sampled_from(["age", "size"])
    values = draw(st.dictionaries(st.tuples(attributes, st.sampled_from(OBJECTS)), NUMBERS, max_size=28))
    rows = draw(
        st.sets(
            st.sampled_from(sorted(RELATIONS)).flatmap(
                lambda name: st.tuples(st.just(name), *[st.sampled_from(OBJECTS)] * RELATIONS[name])
            ),
            min_size=1,
            max_size=max_facts,
        )
    )
    facts = sorted(rows)
    if lift:
        facts = [(name, *sorted(rest, key=lambda obj: values.get(("age", obj), 0.0))) for name, *rest in facts]
    return KnowledgeBase.from_facts(facts, values, objects=OBJECTS).extend_schema(RELATIONS, ["age", "size"])


def with_all_attributes(kb: KnowledgeBase) -> StepIndex:
    """The steps, with a threshold of each attribute: without enough values there are none."""
    return build_steps(kb).with_thresholds((("age", 1.0), ("size", 1.0)))


def every_comparison() -> MinedComparisons:
    """All comparisons of two attributes."""
    return make_comparisons(itertools.product(range(2), range(len(COMPARISONS))))


@settings(max_examples=60, deadline=None)
@given(knowledge_bases(), st.integers(0, len(OBJECTS) - 1), st.booleans())
def test_a_comparison_is_true_of_what_the_language_says(kb: KnowledgeBase, start: int, bounded: bool) -> None:
    index, comparisons = with_all_attributes(kb), every_comparison()
    reacher = Reacher(index, 1, 100, WalkBound(size=2) if bounded else None)
    end = reacher.compare(start, comparisons, 5)
    assert (reacher.counts[:end] == COMPARISON_WALKS).all()
    found = set(zip((reacher.formulas[:end] - 5).tolist(), reacher.objects[:end].tolist(), strict=True))
    structure, expected = kb.structure(), set()
    for number, (attribute, operator) in enumerate(
        zip(comparisons.attributes.tolist(), comparisons.operators.tolist(), strict=True)
    ):
        pairs = ((1, 2), (2, 1))
        forward, backward = (
            comparison_feature(index.attributes[attribute], COMPARISONS[operator], *pair) for pair in pairs
        )
        for other in range(len(OBJECTS)):
            value = feature_value(structure, forward, [OBJECTS[start], OBJECTS[other]])
            assert value == feature_value(structure, backward, [OBJECTS[other], OBJECTS[start]])
            if value:
                expected.add((number, other))
    assert len(found) == end
    assert found == expected


@pytest.mark.parametrize("operator", COMPARISONS)
def test_a_comparison_is_read_as_it_is_written(operator: str) -> None:
    for pair in ((1, 2), (2, 1), (3, 1)):
        feature = comparison_feature("age", operator, *pair)
        assert str(parse_feature(str(feature))) == str(feature)
        assert str(feature).startswith(f"age(s{min(pair)})")


Figures = tuple[int, int, float, float]
"""Support, answers, expected share and deviation."""


def slow_count(
    kb: KnowledgeBase, relation: str, fixed: int, position: int, left_out: set[int]
) -> dict[tuple[str, str], Figures]:
    """(attribute, operator) → its figures, by definition."""
    facts = [row for at, row in enumerate(kb.tuples(relation).tolist()) if at not in left_out]
    pairs = {(OBJECTS[row[fixed]], OBJECTS[row[position]]) for row in facts if row[fixed] != row[position]}
    found = {}
    for attribute, values in kb.structure().attributes.items():
        own = sorted((one, other) for one, other in pairs if one in values and other in values)
        for operator in COMPARISONS:
            true = DEFINED[operator]
            support, surplus, variance = 0, dict.fromkeys([one for one, _ in own], 0.0), 0.0
            shares = []
            for one, other in own:
                rivals = [candidate for _, candidate in own if candidate != one]
                share = sum(true(values[one], values[candidate]) for candidate in rivals) / max(len(rivals), 1)
                shares.append(share)
                holds = true(values[one], values[other])
                support += holds
                surplus[one] += holds - share
                variance += share * (1 - share)
            variance = max(variance, sum(each**2 for each in surplus.values()))
            deviation = sum(surplus.values()) / math.sqrt(variance) if variance else 0.0
            found[attribute, operator] = support, len(own), float(np.mean(shares or [0.0])), deviation
    return found


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_figures_are_those_of_a_slow_count(data: st.DataObject) -> None:
    kb = data.draw(knowledge_bases(max_facts=100, lift=data.draw(st.booleans())))
    relation = data.draw(st.sampled_from(["r", "t"]))
    fixed, position = data.draw(st.permutations(range(RELATIONS[relation])))[:2]
    count = len(kb.tuples(relation))
    rows = data.draw(st.sets(st.integers(0, count - 1), max_size=5)) if count else set[int]()
    index = with_all_attributes(kb)
    mined = mine_comparisons(index, relation, fixed, position, 100, np.array(sorted(rows), np.int64))
    columns = mined.attributes, mined.operators, mined.support, mined.answers, mined.expected
    found = {
        (index.attributes[attribute], COMPARISONS[operator]): figures
        for attribute, operator, *figures in zip(*(column.tolist() for column in columns), strict=True)
    }
    slow = slow_count(kb, relation, fixed, position, rows)
    assert all(figures == pytest.approx(slow[key][:3]) for key, figures in found.items())
    for attribute in index.attributes:
        for some in (("<", "≤"), (">", "≥"), ("=",)):
            own = [slow[attribute, operator] for operator in some]
            best = max(each[3] for each in own)
            kept = [operator for operator in some if (attribute, operator) in found]
            assert len(kept) <= 1
            enough = own[0][1] >= MIN_COMPARED
            if kept:
                assert enough
                assert slow[attribute, kept[0]][3] == pytest.approx(best)
                assert best > MIN_DEVIATION - 1e-9
            else:
                assert not enough or best < MIN_DEVIATION + 1e-9
    few = mine_comparisons(index, relation, fixed, position, 1, np.array(sorted(rows), np.int64))
    assert len(few) == min(1, len(found))
    for attribute, operator in zip(few.attributes.tolist(), few.operators.tolist(), strict=True):
        key = index.attributes[attribute], COMPARISONS[operator]
        assert slow[key][3] == pytest.approx(max(slow[each][3] for each in found))


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_a_problem_without_comparisons_is_one_posed_without_them(data: st.DataObject) -> None:
    kb = data.draw(knowledge_bases(max_facts=80, lift=True))
    relation = data.draw(st.sampled_from(["r", "t"]))
    position = data.draw(st.integers(0, RELATIONS[relation] - 1))
    if len(kb.tuples(relation)) < 2:
        return
    index, config = with_all_attributes(kb), ListwiseConfig(MiningConfig(max_steps=2))
    held_out = held_out_rows(kb, relation, config)
    added = AddedFormulas(index, RELATIONS[relation], position, [])
    fixed = [i for i in range(RELATIONS[relation]) if i != position]
    plain = tuple(mine_formulas(index, relation, i, position, config.mining, held_out) for i in fixed)
    mined = tuple(replace(one, comparisons=every_comparison()) for one in plain)
    plain = tuple(replace(one, comparisons=MinedComparisons.none()) for one in plain)
    posed = _Problem(index, relation, position, plain, config, held_out, added)
    full = _Problem(index, relation, position, mined, config, held_out, added)
    without = full.without(MinedFormulas.without_comparisons)
    assert posed.prior.tolist() == without.prior.tolist()
    assert len(full.prior) == len(posed.prior) + len(fixed) * len(every_comparison())
    for one, other in zip(posed._questions, without._questions, strict=True):
        assert np.asarray(one).tolist() == np.asarray(other).tolist()
    weights = [each.fit_trial(0.01, 2) for each in (posed, without)]
    assert [each.tobytes() for each in weights[0]] == [each.tobytes() for each in weights[1]]
