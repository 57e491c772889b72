"""Probabilities beside the confidences of facts: NL27k, whose facts have confidences between 0.1 and 1.

python benchmarks/confidences.py [--quick]

A completion of the training facts predicts the validation and the test facts. Correlation and mean absolute error (MAE)
are those of the model's probabilities and the facts' confidences; beside them, the MAE of the median confidence of the
relation's training facts. The settings were chosen on the validation facts. `--quick` takes the twelve largest
relations and the validation facts. Without GAIFMAN_DATA there is nothing to measure.
"""

from __future__ import annotations

import sys

import numpy as np

import gaifman
from common import arguments, data, report
from gaifman.completion import Completion
from gaifman.kb.knowledge_base import KnowledgeBase

DRAWS = 200


def compare(completion: Completion, kb: KnowledgeBase, facts: KnowledgeBase) -> dict[str, float]:
    """Correlation and MAE over the facts whose relation and objects the model knows."""
    predicted, true, constant = [], [], []
    for relation in completion.relations:
        median = float(np.median([fact.confidence for fact in kb.facts(relation)]))
        asked = facts.facts(relation) if relation in facts.relations else ()
        own = [fact for fact in asked if all(name in kb.objects for name in fact.objects)]
        if own:
            estimates = completion.probabilities(relation, [fact.objects for fact in own], draws=DRAWS)
            predicted += estimates.values.tolist()
        true += [fact.confidence for fact in own]
        constant += [median] * len(own)
    p, c, m = np.array(predicted), np.array(true), np.array(constant)
    return {
        "correlation": float(np.corrcoef(p, c)[0, 1]),
        "mae": float(np.abs(p - c).mean()),
        "relation_median_mae": float(np.abs(m - c).mean()),
        "facts": len(p),
    }


def main() -> None:
    quick = arguments(__doc__).quick
    folder = data("NL27k")
    if folder is None:
        sys.stderr.write("GAIFMAN_DATA names no folder with NL27k\n")
        report("confidences", {})
        return
    kb = gaifman.read(folder / "train.txt.gz")
    largest = sorted(kb.relations.values(), key=lambda relation: (-relation.count, relation.name))[:12]
    names = [relation.name for relation in largest] if quick else None
    negatives = 5 if quick else 25
    completion = gaifman.complete(kb, names, base="mlp", negative_sampling="uniform", negatives=negatives, seed=0)
    figures: dict[str, float | int] = {}
    for split in ("valid",) if quick else ("valid", "test"):
        found = compare(completion, kb, gaifman.read(folder / f"{split}.txt.gz"))
        figures |= {f"nl27k_{split}_{name}": figure for name, figure in found.items()}
    report("confidences", figures)


if __name__ == "__main__":
    main()
