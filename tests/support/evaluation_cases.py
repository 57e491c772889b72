"""An evaluation of a small completion, which tests stop, kill and resume."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import gaifman
from gaifman.completion import Completion
from gaifman.evaluation.evaluate import Evaluation, evaluate_draw_counts
from gaifman.kb.knowledge_base import KnowledgeBase
from trained import FEW, towns

HELD: list[tuple[str, ...]] = [
    *(("works_in", f"p{i:02d}", f"t{i % 5}") for i in (3, 4, 7, 9, 19)),
    ("moved", "p03", "t0", "t3"),
    ("person", "p05"),
    ("citizen", "newcomer", "c1"),
]


TEST = KnowledgeBase.from_facts(HELD)


DRAWS = [1, 3]


@cache
def train() -> KnowledgeBase:
    return towns().without_facts([fact for fact in HELD if fact in towns()])


@cache
def completed() -> Completion:
    return gaifman.complete(train(), **FEW)


def ranked(folder: Path | None, **more: Any) -> list[Evaluation]:
    given: dict[str, Any] = {"draws": DRAWS, "threads": 1, **more}
    return evaluate_draw_counts(completed(), train(), TEST, checkpoint_dir=folder, **given)
