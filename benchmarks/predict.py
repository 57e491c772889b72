"""All probable missing facts of a knowledge base: time, memory, and how many of them are true.

python benchmarks/predict.py [--quick] [--model FILE]

Of FB15k-237, in the folder `GAIFMAN_DATA`, all 237 relations are searched for facts with a probability of 0.5 or more;
the validation and the test facts are held out together, and links are hidden in training. Without the data, and with
`--quick`, it is the demo without the facts that `gaifman demo` holds out. `--model` is a trained completion; without it
one is trained.

The held-out facts are few of those that are missing, so `true_share` is a lower bound; `expected_share` is the mean
probability. Probabilities assume that as many facts are missing as were held out. `popular_true_share` is the share of
held-out facts among as many tuples of the same relations that are the most frequent: the product of the frequencies of
their objects. `bound_speed` is the time of scoring every tuple of a small relation by the time of the search.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence

import numpy as np

import gaifman
from common import data, report
from gaifman.cli.demo import hold_out_facts
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints, rows_in
from gaifman.listwise.proposer import Proposer
from gaifman.listwise.scoring import ListwisePredictor
from gaifman.missing import MissingFacts, SearchOptions, find_missing
from gaifman.sampling.constraints import hide_nothing

ABOVE = 0.5
MAX_EVERY = 400_000
"""Tuples of the relation whose tuples are all scored."""


def read_split(quick: bool) -> tuple[KnowledgeBase, KnowledgeBase]:
    """The visible and the held-out facts."""
    files = [data(f"FB15k-237/{split}.txt.gz") for split in ("train", "valid", "test")]
    if quick or None in files:
        kb = gaifman.demo()
        facts = [(name, *objects) for name, own in hold_out_facts(kb).items() for objects in own]
        return kb.without_facts(facts), KnowledgeBase.from_facts(facts)
    train, *held_out = (gaifman.read(path) for path in files if path is not None)
    return train, KnowledgeBase.from_facts([fact for kb in held_out for fact in kb.facts()])


def search(model: gaifman.Completion, missing: float) -> MissingFacts:
    """All facts that are probable if this share of the facts is missing."""
    predictors = {}
    for name in model.trained_relations:
        predictor = model.predictor(name)
        assert isinstance(predictor, ListwisePredictor)
        predictors[name] = predictor.with_missing(missing)
    return find_missing(predictors, SearchOptions(ABOVE))


def bound_speed(model: gaifman.Completion) -> float:
    """How much longer it takes to score every tuple of the largest relation with few enough."""
    proposers = [
        Proposer.of(own) for own in map(model.predictor, model.relations) if isinstance(own, ListwisePredictor)
    ]
    binary = [one for one in proposers if one.predictor.arity == 2 and one.candidates <= MAX_EVERY]
    chosen = max(binary, key=lambda one: one.candidates)
    start = time.perf_counter()
    chosen.propose(ABOVE)
    middle = time.perf_counter()
    every = np.stack([axis.ravel() for axis in np.meshgrid(*chosen.pools, indexing="ij")], axis=1).astype(np.int32)
    every = every[~rows_in(every, chosen.facts)]
    predictor = chosen.predictor
    predictor.estimate(every, hide_nothing(len(every)), predictor.budget())
    return (time.perf_counter() - middle) / (middle - start)


def popular_true_share(visible: KnowledgeBase, held_out: KnowledgeBase, counts: dict[str, int]) -> float:
    """The share of held-out facts among the most frequent tuples that are not known, as many of each relation."""
    true = 0
    for name, count in counts.items():
        facts = visible.tuples(name)
        if facts.shape[1] == 2 and name in held_out.relations:
            true += sum((name, *own) in held_out for own in _popular(visible, facts, count))
    return true / max(sum(counts.values()), 1)


def _popular(visible: KnowledgeBase, facts: Ints, count: int) -> Sequence[tuple[str, ...]]:
    most = [np.bincount(column, minlength=len(visible.objects)) for column in facts.T]
    best = [np.argsort(-own, kind="stable")[: 2 * count + 200] for own in most]
    pairs = np.stack([axis.ravel() for axis in np.meshgrid(*best, indexing="ij")], axis=1).astype(np.int32)
    scores = most[0][pairs[:, 0]] * most[1][pairs[:, 1]]
    order = np.argsort(-scores, kind="stable")[: count + len(facts)]
    unknown = pairs[order][~rows_in(pairs[order], facts)][:count]
    return [tuple(map(visible.object_name, row)) for row in unknown.tolist()]


def main() -> None:
    """Train or load, search, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the demo")
    parser.add_argument("--model", help="a trained completion")
    options = parser.parse_args()
    visible, held_out = read_split(options.quick)
    if options.model:
        model = gaifman.load(options.model, visible)
        assert isinstance(model, gaifman.Completion)
    else:
        linked = len(visible) > 100_000
        model = gaifman.complete(visible, sorted(held_out.relations), hide="links" if linked else "auto")
    share = len(held_out) / (len(held_out) + len(visible))
    before, start = time.process_time(), time.perf_counter()
    found = search(model, share)
    counts: dict[str, int] = {}
    for name, _ in found.order:
        counts[name] = counts.get(name, 0) + 1
    figures = {
        "relations": found.summary.relations,
        "candidates": found.summary.candidates,
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - before,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "proposed": len(found),
        "expected_share": found.expected / max(len(found), 1),
        "true_share": sum((one.relation, *one.objects) in held_out for one in found) / max(len(found), 1),
        "popular_true_share": popular_true_share(visible, held_out, counts),
        "bound_speed": bound_speed(model),
    }
    report("predict", figures)


if __name__ == "__main__":
    main()
