"""Random answers, known tuples and constraints for negative sampling."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence

import numpy as np

from gaifman.config import NEGATIVE_SAMPLING
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.sampling.constraints import QueryConstraints
from gaifman.sampling.negatives import Negatives, NegativeSampler
from gaifman.sampling.rng import make_key
from reference_negatives import Plain, Row

KEY = make_key(3, "corrupt", 1)


def names(count: int) -> list[str]:
    """Names whose order is that of their numbers."""
    return [f"o{i:04d}" for i in range(count)]


def knowledge(
    objects: int, types: dict[str, set[int]] | None = None, around: Sequence[Sequence[int]] = ()
) -> KnowledgeBase:
    own = names(objects)
    facts: list[tuple[str, ...]] = [(name, own[i]) for name, members in (types or {}).items() for i in members]
    facts += [("beside", own[i], own[j]) for i, others in enumerate(around) for j in others if i < j]
    return KnowledgeBase.from_facts(facts, objects=own)


def made(
    plain: Plain, count: int, types: dict[str, set[int]] | None = None, typed: tuple[str | None, ...] = ()
) -> Negatives:
    width = len(plain.answers[0])
    own = QueryConstraints(plain.functional, typed or (None,) * width)
    sampler = NegativeSampler(
        knowledge(plain.objects, types, plain.around),
        np.array(plain.answers, np.int32),
        negative_sampling=plain.pool,
        constraints=own,
        known=np.array(sorted(plain.known), np.int32) if plain.known else None,
        hard_negative_fraction=plain.near,
    )
    return sampler.sample(np.arange(len(plain.answers)), count, KEY)


def rows(found: Ints) -> list[Row]:
    return [tuple(row) for row in found.tolist()]


def differing(found: Negatives, answers: Sequence[Row]) -> list[int]:
    """The one position that each negative changes."""
    positions = []
    for row, source in zip(rows(found.tuples), found.sources.tolist(), strict=True):
        changed = [i for i, (one, other) in enumerate(zip(row, answers[source], strict=True)) if one != other]
        assert len(changed) == 1
        positions += changed
    return positions


def random_plain(rng: random.Random) -> tuple[Plain, dict[str, set[int]], tuple[str | None, ...]]:
    width, objects = rng.choice([1, 2, 2, 3, 3, 4]), rng.randint(1, 9)
    tuples = list(itertools.product(range(objects), repeat=width)) if objects**width < 800 else []
    tuples = tuples or [tuple(rng.choices(range(objects), k=width)) for _ in range(40)]
    chosen = sorted(set(rng.sample(tuples, rng.randint(1, min(len(tuples), 30)))))
    known = set(rng.sample(tuples, rng.randint(0, min(6, len(tuples))))) if rng.random() < 0.5 else set()
    functional = []
    for _ in range(rng.choice([0, 0, 1, 1, 2]) if width > 1 else 0):
        places = rng.sample(range(width), rng.randint(2, width))
        functional.append((tuple(sorted(places[1:])), places[0]))
    types = {"even": {i for i in range(objects) if i % 2 == 0}, "none": set[int](), "some": {0, objects - 1}}
    typed = tuple(rng.choice([None, None, "even", "some"]) for _ in range(width))
    sets = [None if name is None else types[name] for name in typed]
    return Plain(objects, chosen, rng.choice(NEGATIVE_SAMPLING), tuple(functional), sets, known), types, typed


def neighbours(rng: random.Random, objects: int) -> list[list[int]]:
    """Random adjacent objects; some have no neighbour."""
    pairs = {(i, j) for i in range(objects) for j in range(i) if rng.random() < rng.choice([0.1, 0.4])}
    return [sorted({*(j for i, j in pairs if i == o), *(i for i, j in pairs if j == o)}) for o in range(objects)]


def counted(plain: Plain, position: int, count: int, **more: object) -> Counter[int]:
    """How often each object is put at a position of the first answer."""
    found = made(plain, count, **more)  # type: ignore[arg-type]
    first = found.tuples[found.sources == 0]
    return Counter(first[first[:, position] != plain.answers[0][position], position].tolist())
