"""What is proposed is what scoring every candidate finds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import gaifman
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import rows_in
from gaifman.listwise.proposer import Proposer, without
from gaifman.listwise.scoring import ListwisePredictor
from gaifman.sampling.constraints import hide_nothing


@pytest.fixture(scope="module")
def incomplete() -> KnowledgeBase:
    """The demo without every ninth fact."""
    kb = gaifman.demo()
    return kb.without_facts([*kb.facts()][::9])


@pytest.fixture(scope="module")
def proposers(incomplete: KnowledgeBase) -> dict[str, Proposer]:
    """Of relations of each kind."""
    completion = gaifman.complete(incomplete, ["capital", "located_in", "borders", "official_language", "city"], seed=1)
    found = {}
    for name in completion.trained_relations:
        predictor = completion.predictor(name)
        assert isinstance(predictor, ListwisePredictor)
        found[name] = Proposer.of(predictor)
    return found


@pytest.mark.parametrize("above", [0.02, 0.3])
def test_all_candidates_that_reach_the_threshold_are_proposed(proposers: dict[str, Proposer], above: float) -> None:
    count = 0
    for proposer in proposers.values():
        every = np.array([*product(*(pool.tolist() for pool in proposer.pools))], np.int32)
        every = every[~rows_in(every, proposer.facts)]
        assert proposer.candidates == len(every)
        predictor = proposer.predictor
        p = predictor.estimate(every, hide_nothing(len(every)), predictor.budget()).values
        excluded = proposer._excluded(every, predictor.budget().deadline)
        wanted = {tuple(row): value for row, value in zip(every.tolist(), p.tolist(), strict=True)}
        wanted = {row: wanted[row] for row in map(tuple, every[(p >= above) & ~excluded].tolist())}
        tuples, found = proposer.propose(above)
        assert dict(zip(map(tuple, tuples.tolist()), found.tolist(), strict=True)) == wanted
        assert (np.diff(found) <= 0).all()
        count += len(found)
    assert count > 5


def test_three_positions_are_proposed_from_known_pairs(incomplete: KnowledgeBase) -> None:
    predictor = gaifman.complete(incomplete, ["separates"], seed=1).predictor("separates")
    assert isinstance(predictor, ListwisePredictor)
    proposer = Proposer.of(predictor)
    tuples, p = proposer.propose(0.05)
    assert len(tuples)
    assert len(np.unique(tuples, axis=0)) == len(tuples)
    assert not rows_in(tuples, proposer.facts).any()
    again = predictor.estimate(tuples, hide_nothing(len(tuples)), predictor.budget()).values
    assert again.tolist() == p.tolist()
    for position in range(3):
        asked = proposer.questions(position)
        assert rows_in(asked, without(proposer.facts, position)).all()
