"""Formulas with constants are what the language says, and are counted as a slow count says."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.tables import freeze
from gaifman.kernels.walks import FEW
from gaifman.listwise.added import AddedFormulas
from gaifman.listwise.mining import (
    CONFIDENCE_PRIOR,
    CONSTANT_WALKS,
    LINKS,
    MIN_SUPPORT,
    MinedConstants,
    MinedFormulas,
    MiningConfig,
    Reacher,
    WalkBound,
    mine_constants,
    mine_formulas,
)
from gaifman.listwise.ranker import ListwiseConfig, _drop_facts, _Problem, held_out_rows
from gaifman.listwise.steps import StepIndex, build_steps, constant_feature
from gaifman.logic.semantics import feature_value

RELATIONS = {"p": 1, "r": 2, "q": 2, "t": 3}
OBJECTS = [f"o{i}" for i in range(6)]
MANY = 100_000


@st.composite
def knowledge_bases(draw: st.DrawFn, max_facts: int = 25) -> KnowledgeBase:
    """Facts with repeated objects, of up to three places; some knowledge bases are uncertain."""
    facts = draw(
        st.sets(
            st.sampled_from(sorted(RELATIONS)).flatmap(
                lambda name: st.tuples(st.just(name), *[st.sampled_from(OBJECTS)] * RELATIONS[name])
            ),
            min_size=1,
            max_size=max_facts,
        )
    )
    chances = st.sampled_from([0.25, 0.5, 1.0]) if draw(st.booleans()) else st.just(1.0)
    known = [Fact(name, tuple(rest), draw(chances)) for name, *rest in sorted(facts)]
    return KnowledgeBase.from_facts(known, objects=OBJECTS).extend_schema(RELATIONS)


@st.composite
def constants_of(draw: st.DrawFn, index: StepIndex) -> MinedConstants:
    """Any formulas with constants, sorted."""
    count = len(index.kb.objects)
    number = st.integers(0, count - 1)
    rows = draw(st.sets(st.tuples(st.integers(0, len(index.labels) - 1), number, number), max_size=40))
    codes = [(label * count + constant, candidate) for label, constant, candidate in rows]
    columns = np.array(sorted(codes), np.int64).reshape(-1, 2)
    ones = np.ones(len(columns))
    return MinedConstants(
        freeze(columns[:, 0].copy()), freeze(columns[:, 1].astype(np.int32)), ones.astype(np.int64), ones, count
    )


def presence(kb: KnowledgeBase, facts: list[int], constants: MinedConstants, row: int, start: int) -> float:
    """The probability that a formula with a constant is true of an object and its candidate, in some of the facts.

    One fact is enough to make it true, and facts are present independently.
    """
    index = build_steps(kb)
    label, names = index.labels[int(constants.labels[row])], OBJECTS
    constant, candidate = names[int(constants.constants[row])], names[int(constants.candidates[row])]
    feature = constant_feature(label, RELATIONS[label.relation], constant, candidate, 1, 2)
    absent = 1.0
    for number in facts:
        fact = kb.fact_by_id(number)
        alone = KnowledgeBase.from_facts([(fact.relation, *fact.objects)], objects=OBJECTS).extend_schema(RELATIONS)
        if feature_value(alone.structure(), feature, [names[start], candidate]):
            absent *= 1 - fact.confidence
    visible = kb.without_facts([kb.fact_by_id(number) for number in set(range(len(kb))) - set(facts)])
    assert feature_value(visible.structure(), feature, [names[start], candidate]) == (absent < 1)
    return 1 - absent


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_formula_with_a_constant_has_the_value_that_the_language_says(data: st.DataObject) -> None:
    kb = data.draw(knowledge_bases())
    index, start = build_steps(kb), data.draw(st.integers(0, len(OBJECTS) - 1))
    constants = data.draw(constants_of(index))
    hidden = data.draw(st.lists(st.integers(0, len(kb) - 1), unique=True, max_size=10))
    unseen = np.array(sorted(hidden) if len(hidden) > FEW else hidden, np.int64)
    bounded = data.draw(st.booleans())
    members = {start, *data.draw(st.sets(st.integers(0, len(OBJECTS) - 1)))} if bounded else set(range(len(OBJECTS)))
    reacher = Reacher(index, 1, 100, WalkBound(size=2) if bounded else None)
    reacher.drawer.mark([np.array(sorted(members), np.int32)] if bounded else [], 0)
    end = reacher.match(start, freeze(unseen), constants, 7)
    rows = zip(reacher.formulas[:end].tolist(), reacher.objects[:end].tolist(), reacher.counts[:end], strict=True)
    found = {(formula - 7, obj): float(count) / CONSTANT_WALKS for formula, obj, count in rows}
    inside = [
        number
        for number in range(len(kb))
        if number not in hidden and {kb.object_id(name) for name in kb.fact_by_id(number).objects} <= members
    ]
    expected = {
        (row, int(constants.candidates[row])): presence(kb, inside, constants, row, start)
        for row in range(len(constants))
        if constants.candidates[row] != start
    }
    assert len(found) == end
    assert found == pytest.approx({key: value for key, value in expected.items() if value}, abs=1e-6)


def test_buffers_grow_while_formulas_are_matched() -> None:
    kb = KnowledgeBase.from_facts([("r", "a", "b")], objects=[f"c{i}" for i in range(40)])
    index, count = build_steps(kb), len(kb.objects)
    others = freeze(np.array([i for i in range(count) if i != kb.object_id("a")], np.int32))
    code = index.label_id("r", 0, 1) * count + kb.object_id("b")
    ones = np.ones(len(others))
    many = MinedConstants(freeze(np.full(len(others), code)), others, ones.astype(np.int64), ones, count)
    reacher = Reacher(index, 1, 100)
    for name in ("objects", "formulas", "counts", "masses", "values"):
        setattr(reacher, name, getattr(reacher, name)[:1].copy())
    end = reacher.match(kb.object_id("a"), freeze(np.zeros(0, np.int64)), many, 0)
    assert reacher.objects[:end].tolist() == others.tolist()


def slow_count(
    kb: KnowledgeBase, relation: str, fixed: int, position: int, left_out: set[int]
) -> dict[tuple[int, int, int], tuple[int, float, float]]:
    """(label, constant, candidate) → support, confidence and gain, by definition."""
    index = build_steps(kb)
    pairs = {(row[fixed], row[position]) for at, row in enumerate(kb.tuples(relation).tolist()) if at not in left_out}
    fixed_objects, found = {first for first, _ in pairs}, {}
    for number, label in enumerate(index.labels):
        for constant in range(len(kb.objects)):
            links = {row[label.source] for row in kb.tuples(label.relation).tolist() if row[label.target] == constant}
            holders = links & fixed_objects
            for candidate in range(len(kb.objects)):
                support = sum((holder, candidate) in pairs for holder in holders)
                if support >= MIN_SUPPORT and candidate != constant:
                    confidence = support / (len(holders) + CONFIDENCE_PRIOR)
                    usual = sum(second == candidate for _, second in pairs) / len(fixed_objects)
                    gain = support * math.log(confidence / usual)
                    found[number, constant, candidate] = support, confidence, gain
    return found


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_support_and_confidence_are_those_of_a_slow_count(data: st.DataObject) -> None:
    kb = data.draw(knowledge_bases(max_facts=80))
    relation = data.draw(st.sampled_from(["r", "t"]))
    fixed, position = data.draw(st.permutations(range(RELATIONS[relation])))[:2]
    count = len(kb.tuples(relation))
    rows = data.draw(st.sets(st.integers(0, count - 1), max_size=count)) if count else set[int]()
    left_out = np.array(sorted(rows), np.int64) if data.draw(st.booleans()) else None
    expected = slow_count(kb, relation, fixed, position, rows if left_out is not None else set())
    mined = mine_constants(build_steps(kb), relation, fixed, position, MANY, left_out)
    found = {
        (label, constant, candidate): (support, confidence)
        for label, constant, candidate, support, confidence in zip(
            mined.labels.tolist(),
            mined.constants.tolist(),
            mined.candidates.tolist(),
            mined.support.tolist(),
            mined.confidence.tolist(),
            strict=True,
        )
    }
    sure = {key for key, (_, _, gain) in expected.items() if gain > 1e-9}
    assert sure <= set(found) <= {key for key, (_, _, gain) in expected.items() if gain > -1e-9}
    assert all(found[key] == pytest.approx(expected[key][:2]) for key in found)
    assert (np.diff(mined.codes) >= 0).all()
    few = mine_constants(build_steps(kb), relation, fixed, position, 3, left_out)
    kept = set(zip(few.labels.tolist(), few.constants.tolist(), few.candidates.tolist(), strict=True))
    assert len(kept) == min(3, len(found))
    least = min((expected[key][2] for key in kept), default=0.0)
    assert all(expected[key][2] <= least + 1e-9 for key in set(found) - kept)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_a_problem_without_constants_is_one_posed_without_them(data: st.DataObject) -> None:
    kb = data.draw(knowledge_bases(max_facts=60))
    relation = data.draw(st.sampled_from(["r", "t"]))
    position = data.draw(st.integers(0, RELATIONS[relation] - 1))
    if len(kb.tuples(relation)) < 2:
        return
    index, config = build_steps(kb), ListwiseConfig(MiningConfig(max_steps=2))
    held_out = held_out_rows(kb, relation, config)
    added = AddedFormulas(index, RELATIONS[relation], position, [])
    problems = []
    for most in (1_000, 0):
        own = replace(config, mining=replace(config.mining, max_constants=most))
        fixed = [i for i in range(RELATIONS[relation]) if i != position]
        mined = tuple(mine_formulas(index, relation, i, position, own.mining, held_out) for i in fixed)
        problems.append(_Problem(index, relation, position, mined, own, held_out, added))
    posed, without = problems[1], problems[0].without(MinedFormulas.without_constants)
    assert all(len(one) == len(one.paths) + len(LINKS) for one in without.mined)
    assert posed.prior.tolist() == without.prior.tolist()
    for one, other in zip(posed._questions, without._questions, strict=True):
        assert np.asarray(one).tolist() == np.asarray(other).tolist()
    weights = [each.fit_trial(0.01, 2) for each in (posed, without)]
    assert [each.tobytes() for each in weights[0]] == [each.tobytes() for each in weights[1]]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_dropped_facts_are_facts_of_fixed_objects(data: st.DataObject) -> None:
    kb = data.draw(knowledge_bases())
    if not len(kb.tuples("t")):
        return
    index = build_steps(kb)
    fact, fixed = kb.tuples("t")[0], [0, 2]
    hidden = freeze(np.array([len(kb) - 1], np.int64))
    dropped = [
        set(_drop_facts(index, fact, fixed, hidden, ListwiseConfig(fact_dropout=share)).tolist())
        for share in (0.0, 0.3, 0.6, 0.999999)
    ]
    objects = {int(fact[i]) for i in fixed}
    members = {number: index.fact(number)[1] for number in range(len(kb))}
    [answer] = np.delete(fact, fixed).tolist()

    def steps_to(number: int, targets: set[int]) -> bool:
        pairs = itertools.permutations(members[number], 2)
        return any(source in objects and target in targets for source, target in pairs)

    own = {number for number in members if steps_to(number, {*range(len(OBJECTS))}) and not steps_to(number, {answer})}
    assert dropped[0] == {len(kb) - 1}
    assert dropped[0] <= dropped[1] <= dropped[2] <= dropped[3]
    assert dropped[3] == own | {len(kb) - 1}


def test_the_share_of_dropped_facts() -> None:
    kb = KnowledgeBase.from_facts([("r", "hub", f"o{i}") for i in range(3_000)])
    fact = kb.tuples("r")[0]
    dropped = _drop_facts(build_steps(kb), fact, [0], freeze(np.zeros(0, np.int64)), ListwiseConfig(fact_dropout=0.2))
    assert len(dropped) / 3_000 == pytest.approx(0.2, abs=0.03)
