"""Training examples in a form that tests compare."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gaifman.config import ExampleConfig
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.logic.parser import parse_query
from gaifman.sampling.examples import ExampleBlock, TrainingExamples
from gaifman.sampling.hiding import HiddenFacts

Row = tuple[int, ...]


def examples(kb: KnowledgeBase, query: str, config: ExampleConfig | None = None, **more: object) -> TrainingExamples:
    return TrainingExamples(kb, parse_query(query, kb), config or ExampleConfig(negatives=4), **more)  # type: ignore[arg-type]


def rows(tuples: Ints) -> list[Row]:
    return [tuple(row) for row in tuples.tolist()]


def facts(hidden: HiddenFacts, t: int) -> list[int]:
    return list(hidden.facts[hidden.starts[t] : hidden.starts[t + 1]].tolist())


def named(kb: KnowledgeBase, hidden: HiddenFacts, t: int) -> set[str]:
    return {str(kb.fact_by_id(number)) for number in facts(hidden, t)}


def whole(blocks: Iterable[ExampleBlock]) -> list[object]:
    """The contents of blocks, one answer after another, however they are cut."""
    found: list[object] = []
    for block in blocks:
        for t, row in enumerate(rows(block.answers)):
            corrupted = np.flatnonzero(block.sources == t)
            found.append((row, float(block.targets[t]), facts(block.hidden, t)))
            found.append(
                [(tuple(block.negatives[c].tolist()), facts(block.negatives_hidden, int(c))) for c in corrupted]
            )
    return found


def towns(count: int = 40) -> KnowledgeBase:
    known = [("born_in", f"p{i:02d}", f"t{i % 5}") for i in range(count)]
    return KnowledgeBase.from_facts(known + [("near", f"t{i}", f"t{(i + 1) % 5}") for i in range(5)])
