"""The figures that training claims beside those of a test set."""

from __future__ import annotations

from typing import Any

import gaifman
from gaifman.evaluation.evaluate import evaluate
from gaifman.kb.knowledge_base import KnowledgeBase

TOLERANCE = 0.04


def claimed_and_tested(kb: KnowledgeBase, test: KnowledgeBase, *known: KnowledgeBase, **settings: Any) -> list[float]:
    """The AUC that training claims, and that of the test facts with negatives drawn in the same way."""
    completion = gaifman.complete(kb, **settings)
    tested = evaluate(completion, kb, test, known, negative_sampling="mixed", seed=completion.config.seed)
    return [completion.meta["metrics"]["auc"], tested.classification.metrics()["auc"]]
