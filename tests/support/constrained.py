"""Countries with one capital each, and models that were trained with that constraint."""

from __future__ import annotations

from functools import cache

import gaifman
from gaifman.completion import Completion
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.model import GaifmanModel
from gaifman.sampling.constraints import parse_constraints
from trained import GOOD

DECLARED = "functional: capital 1→2\ntypes: capital country, city\n"
COUNTRIES = 40


def countries(*more: tuple[str, ...] | Fact) -> KnowledgeBase:
    """Each country has two cities; the one with a palace is the capital. The last country's capital is not known.

    Countries are near the next one.
    """
    facts: list[tuple[str, ...] | Fact] = [("river", "nile"), ("flows", "nile", "country00"), *more]
    for i in range(COUNTRIES):
        country, first, second = f"country{i:02d}", f"first{i:02d}", f"second{i:02d}"
        facts += [("country", country), ("city", first), ("city", second), ("palace", first)]
        facts += [
            ("in", first, country),
            ("in", second, country),
            ("near", country, f"country{(i + 1) % COUNTRIES:02d}"),
        ]
        facts += [("capital", country, first)] if i < COUNTRIES - 1 else []
    return KnowledgeBase.from_facts(facts, objects=["atlantis"])


@cache
def completed() -> Completion:
    """A completion of a functional relation with types, and of another one, by networks."""
    constraints = parse_constraints(DECLARED, countries())
    return gaifman.complete(countries(), ["capital", "near"], constraints=constraints, **GOOD)


@cache
def completed_by_default() -> Completion:
    """The same with the default settings: ranked lists."""
    return gaifman.complete(countries(), ["capital", "near"], constraints=parse_constraints(DECLARED, countries()))


@cache
def model() -> GaifmanModel:
    """A model of the functional relation."""
    return gaifman.fit(countries(), "capital(x, y)", constraints=parse_constraints(DECLARED), **GOOD)
