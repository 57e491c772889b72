"""Draws do not depend on blocks, threads and scratch."""

from __future__ import annotations

import numpy as np
import pytest

import gaifman
from gaifman.config import SamplingConfig
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.tables import Ints, freeze
from gaifman.sampling import neighbourhoods as drawing
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import draw_neighbourhoods, find_cut_edges
from generators import over_seeds

KB = gaifman.demo()
GRAPH = build_graph(KB)


def pairs(seed: int, count: int = 40) -> Ints:
    """Random pairs of objects."""
    return np.random.default_rng(seed).integers(0, len(GRAPH), (count, 2)).astype(np.int32)


@over_seeds(6, blocks=2)
def test_a_batch_is_the_batches_it_is_made_of(seed: int) -> None:
    tuples = pairs(seed)
    for radius, size in ((1, 7), (1, None), (2, 5)):
        sampling = SamplingConfig(radius=radius, size=size, draws=2, seed=seed)
        whole = draw_neighbourhoods(GRAPH, tuples, sampling)
        for t, one in enumerate(tuples):
            alone = draw_neighbourhoods(GRAPH, one[None], sampling)
            for number in range(2):
                assert whole.members_of(t, number).tolist() == alone.members_of(0, number).tolist()


@pytest.mark.parametrize("block", [1, 50, 10_000])
@pytest.mark.parametrize("radius", [1, 2])
def test_the_size_of_a_block_does_not_matter(block: int, radius: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sampling = SamplingConfig(radius=radius, size=9, seed=3)
    expected = draw_neighbourhoods(GRAPH, pairs(1), sampling)
    monkeypatch.setattr(drawing, "MEMBERS_PER_BLOCK", block)
    monkeypatch.setattr(drawing, "OBJECTS_PER_BLOCK", block)
    found = draw_neighbourhoods(GRAPH, pairs(1), sampling, threads=3)
    assert found.members.tolist() == expected.members.tolist()
    assert found.starts.tolist() == expected.starts.tolist()


def test_an_empty_batch_draws_nothing() -> None:
    found = draw_neighbourhoods(GRAPH, np.zeros((0, 2), np.int32))
    assert (len(found), found.members.tolist(), found.starts.tolist()) == (0, [], [0])


def test_results_cannot_be_written_to() -> None:
    found = draw_neighbourhoods(GRAPH, pairs(2))
    with pytest.raises(ValueError, match="read-only"):
        found.members[0] = 1


def test_frozen_arrays_are_contiguous_and_the_original_stays_open() -> None:
    array = np.arange(10)[::2]
    view = freeze(array)
    assert view.flags.c_contiguous
    assert not view.flags.writeable
    assert array.flags.writeable


def test_a_hidden_fact_cuts_both_its_edges_unless_another_fact_gives_them() -> None:
    """Chad and N'Djamena: it is the capital, the largest city, and lies in the country."""
    chad, city = KB.object_id("chad"), KB.object_id("n_djamena")
    relations = [list(KB.relations).index(name) for name in ("capital", "city_in", "largest_city")]
    numbers = [
        GRAPH.kb.fact_ids(relation, np.array([pair], np.int32))[0]
        for relation, pair in zip(relations, ([chad, city], [city, chad], [chad, city]), strict=True)
    ]
    known = np.array(sorted(number for number in numbers if number >= 0), np.int64)
    assert len(known) >= 2
    some = HiddenFacts(np.array([0, 1]), known[:1])
    every = HiddenFacts(np.array([0, len(known)]), known)
    tuples = np.array([[chad]], np.int32)
    assert city in draw_neighbourhoods(GRAPH, tuples, SamplingConfig(size=None), some).members_of(0)
    assert city not in draw_neighbourhoods(GRAPH, tuples, SamplingConfig(size=None), every).members_of(0)
    assert len(find_cut_edges(GRAPH, some.starts, some.facts)[1]) == 0
    starts, edges = find_cut_edges(GRAPH, every.starts, every.facts)
    ends = {(int(np.searchsorted(GRAPH.starts, e, side="right")) - 1, int(GRAPH.neighbours[e])) for e in edges}
    assert ends == {(chad, city), (city, chad)}
    assert starts.tolist() == [0, 2]
