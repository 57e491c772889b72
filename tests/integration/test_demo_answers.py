"""The default learner on the bundled knowledge base: what it answers, and what it does not propose."""

from __future__ import annotations

from functools import cache

import pytest

import gaifman
from gaifman.completion import Completion
from gaifman.logic.ast import relation_query
from gaifman.ranking.candidates import atom_pattern, select_candidates
from gaifman.ranking.ranked_answers import RankedAnswers
from trained import demo

IMPROBABLE = 0.05
"""No wrong proposal is more probable."""
FUNCTIONAL = ["capital", "located_in", "part_of"]
"""Relations that have one second object for each first."""


@cache
def trained() -> Completion:
    """Models of all facts of these relations."""
    return gaifman.complete(demo(), FUNCTIONAL, seed=1)


@cache
def without_paris() -> Completion:
    """A model that has not seen the capital of France."""
    return gaifman.complete(demo().without_facts([("capital", "france", "paris")]), ["capital"], seed=1)


def only_paris(answers: RankedAnswers) -> None:
    """Paris is first, and no other city is probable."""
    first, *others = answers
    assert first.names == ("paris",)
    assert first.probability > 0.5
    assert max(answer.probability for answer in others) <= IMPROBABLE


def test_the_capital_of_france() -> None:
    answers = trained().answers("capital('france', y)", top=100)
    assert answers[0].known
    only_paris(answers)


def test_the_capital_of_france_if_nobody_told() -> None:
    answers = without_paris().answers("capital('france', y)", top=100)
    assert not answers[0].known
    only_paris(answers)


@pytest.mark.parametrize("relation", FUNCTIONAL)
def test_no_second_capital_region_or_continent_is_proposed(relation: str) -> None:
    proposed = trained().answers(relation_query(relation, 2), known="exclude", top=50)
    assert len(proposed) > 20
    assert max(answer.probability for answer in proposed) <= IMPROBABLE


@pytest.mark.parametrize("position", [0, 1])
def test_a_side_of_the_road_is_a_candidate_of_nothing_else(position: int) -> None:
    kb = demo()
    sides = {kb.object_id("left"), kb.object_id("right")}
    for name, relation in kb.relations.items():
        if relation.arity != 2:
            continue
        fixed = next(iter(kb.facts(name))).objects[1 - position]
        text = f"{name}(x, '{fixed}')" if position == 0 else f"{name}('{fixed}', y)"
        pattern = atom_pattern(text, kb, [name])[1]
        found = select_candidates(kb, relation_query(name, 2), pattern, kb.tuples(name)).values[:, 0].tolist()
        assert bool(sides & {*found}) == (name == "drives_on" and position == 1), text
