"""Features equal the definition: random knowledge bases, formulas of every kind, neighbourhoods, hidden facts."""

from __future__ import annotations

import numpy as np

from feature_cases import case, check, features
from gaifman.sampling.neighbourhoods import HiddenFacts
from generators import over_seeds


@over_seeds(120)
def test_features_equal_the_definition(seed: int) -> None:
    rng, graph, drawn = case(seed)
    assert check(graph, drawn, features(rng, 8)) > 0


@over_seeds(60)
def test_hidden_facts_are_not_seen(seed: int) -> None:
    rng, graph, drawn = case(seed)
    every = len(graph.kb)
    chosen = [sorted(rng.sample(range(every), min(every, rng.randint(0, 6)))) for _ in range(len(drawn.own_positions))]
    starts = np.append(0, np.cumsum([len(numbers) for numbers in chosen])).astype(np.int64)
    hidden = HiddenFacts(starts, np.array([n for numbers in chosen for n in numbers], np.int64))
    check(graph, drawn, features(rng, 6), hidden)
