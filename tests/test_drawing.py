"""Blocks, threads and scratch: nothing of them shows in what is drawn."""

from __future__ import annotations

import numpy as np
import pytest

import gaifman
from gaifman import drawing
from gaifman.drawing import cuts, frozen
from gaifman.graph import fact_numbers, graph_of
from gaifman.neighbourhoods import Hidden, Sampling, draw
from gaifman.tables import Ints
from generators import over_seeds

KB = gaifman.demo()
GRAPH = graph_of(KB)


def pairs(seed: int, count: int = 40) -> Ints:
    """Random pairs of objects."""
    return np.random.default_rng(seed).integers(0, len(GRAPH), (count, 2)).astype(np.int32)


@over_seeds(6, blocks=2)
def test_a_batch_is_the_batches_it_is_made_of(seed: int) -> None:
    tuples = pairs(seed)
    for radius, size in ((1, 7), (1, None), (2, 5)):
        sampling = Sampling(radius=radius, size=size, draws=2, seed=seed)
        whole = draw(GRAPH, tuples, sampling)
        for t, one in enumerate(tuples):
            alone = draw(GRAPH, one[None], sampling)
            for number in range(2):
                assert whole.of(t, number).tolist() == alone.of(0, number).tolist()


@pytest.mark.parametrize("block", [1, 50, 10_000])
@pytest.mark.parametrize("radius", [1, 2])
def test_the_size_of_a_block_does_not_show(block: int, radius: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sampling = Sampling(radius=radius, size=9, seed=3)
    expected = draw(GRAPH, pairs(1), sampling)
    monkeypatch.setattr(drawing, "BLOCK", block)
    monkeypatch.setattr(drawing, "BALLS", block)
    found = draw(GRAPH, pairs(1), sampling, threads=3)
    assert found.members.tolist() == expected.members.tolist()
    assert found.starts.tolist() == expected.starts.tolist()


def test_an_empty_batch_draws_nothing() -> None:
    found = draw(GRAPH, np.zeros((0, 2), np.int32))
    assert (len(found), found.members.tolist(), found.starts.tolist()) == (0, [], [0])


def test_results_cannot_be_written_to() -> None:
    found = draw(GRAPH, pairs(2))
    with pytest.raises(ValueError, match="read-only"):
        found.members[0] = 1


def test_frozen_arrays_are_contiguous_and_the_original_stays_open() -> None:
    array = np.arange(10)[::2]
    view = frozen(array)
    assert view.flags.c_contiguous
    assert not view.flags.writeable
    assert array.flags.writeable


def test_a_hidden_fact_cuts_both_its_edges_unless_another_fact_gives_them() -> None:
    """Chad and N'Djamena: it is the capital, the largest city, and lies in the country."""
    chad, city = KB.id("chad"), KB.id("n_djamena")
    relations = [list(KB.relations).index(name) for name in ("capital", "city_in", "largest_city")]
    numbers = [
        fact_numbers(GRAPH, relation, np.array([pair], np.int32))[0]
        for relation, pair in zip(relations, ([chad, city], [city, chad], [chad, city]), strict=True)
    ]
    known = np.array(sorted(number for number in numbers if number >= 0), np.int64)
    assert len(known) >= 2
    some = Hidden(np.array([0, 1]), known[:1])
    every = Hidden(np.array([0, len(known)]), known)
    tuples = np.array([[chad]], np.int32)
    assert city in draw(GRAPH, tuples, Sampling(size=None), some).of(0)
    assert city not in draw(GRAPH, tuples, Sampling(size=None), every).of(0)
    assert len(cuts(GRAPH, some.starts, some.facts)[1]) == 0
    starts, edges = cuts(GRAPH, every.starts, every.facts)
    ends = {(int(np.searchsorted(GRAPH.starts, e, side="right")) - 1, int(GRAPH.neighbours[e])) for e in edges}
    assert ends == {(chad, city), (city, chad)}
    assert starts.tolist() == [0, 2]
