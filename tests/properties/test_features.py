"""Features equal the definition: random knowledge bases, formulas of every kind, neighbourhoods, hidden facts."""

from __future__ import annotations

from feature_cases import case, check, features, hide
from generators import over_seeds


@over_seeds(120)
def test_features_equal_the_definition(seed: int) -> None:
    rng, graph, drawn = case(seed)
    assert check(graph, drawn, features(rng, 8)) > 0


@over_seeds(60)
def test_hidden_facts_and_values_are_not_seen(seed: int) -> None:
    rng, graph, drawn = case(seed)
    check(graph, drawn, features(rng, 6), hide(rng, graph.kb, len(drawn.own_positions), range(7)))
