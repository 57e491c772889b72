"""Found constraints on held-out facts: how well the probabilities of candidates in conflict fit what is true.

python benchmarks/constraints.py [--quick]

A tenth of the demo's binary facts are held out; of FB15k-237, the validation and test facts. A completion of the other
facts scores the candidates of sampled questions at both positions: the 100 best, and 40 others that stand for the rest.
Of those that conflict with a functional or asymmetric relation that was found, log loss and sum of probabilities are
compared with the number that is true, for four ways to treat conflicts: none; the probability times the rate of
exceptions; at most that rate; and the odds against both, which answers use. `--quick` takes some relations of the
demo.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

import gaifman
from common import arguments, data, report
from gaifman.completion import Completion
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.tables import Floats, Ints, rows_in
from gaifman.listwise.scoring import ListwisePredictor
from gaifman.sampling.constraints import hide_nothing

QUESTIONS, BEST, OTHERS = 25, 100, 40
"""Questions per relation and position, and candidates of each."""
RELATIONS = 14
"""Relations of FB15k-237: of those with a functional or asymmetric constraint, those with the most held-out facts."""
QUICK = ["capital", "located_in", "uses_currency"]
KINDS = ("functional", "asymmetric")


@dataclass
class Candidates:
    """Candidates of one question."""

    probabilities: Floats
    """Without constraints."""
    limits: Floats
    """What a certain answer is multiplied by; 1 without a conflict."""
    targets: Floats
    """1 for a held-out fact."""
    weights: Floats
    """How many candidates each stands for."""


def candidates_of(
    predictor: ListwisePredictor, held_out: Ints, position: int, rng: np.random.Generator, count: int
) -> Iterator[Candidates]:
    """The candidates of some questions with an object at the other position that is known there."""
    assert predictor.constraints is not None
    facts = predictor.kb.tuples(predictor.query.atomic_relation or "")
    asked, pool = np.unique(facts[:, 1 - position]), np.unique(facts[:, position])
    chosen = rng.permutation(asked)[:count]
    for obj in chosen.tolist():
        tuples = np.full((len(pool), 2), obj, np.int32)
        tuples[:, position] = pool
        tuples = tuples[~rows_in(tuples, facts)]
        shares = predictor.scorer.position_evidence(tuples, hide_nothing(len(tuples)), position)[0]
        order = np.argsort(-shares, kind="stable")
        rest = rng.permutation(order[BEST:])
        tuples = tuples[np.concatenate([order[:BEST], rest[:OTHERS]])]
        weights = np.full(len(tuples), len(asked) / len(chosen) / 2)
        weights[BEST:] *= len(rest) / max(len(rest[:OTHERS]), 1)
        nothing = hide_nothing(len(tuples))
        values = predictor.model_estimates(tuples, nothing, predictor.budget()).values
        limits = predictor.constraints.factors(tuples, nothing, np.ones(len(tuples)))
        yield Candidates(values, limits, rows_in(tuples, held_out).astype(float), weights)


def measure(completion: Completion, held_out: Mapping[str, list[Fact]], count: int) -> dict[str, float]:
    """Log loss and sums over the candidates in conflict, by treatment."""
    rng, known, found = np.random.default_rng(0), set(completion.kb.objects), []
    for relation in sorted(held_out):
        predictor = completion.predictor(relation)
        if not isinstance(predictor, ListwisePredictor):
            continue
        names = [fact.objects for fact in held_out[relation] if known.issuperset(fact.objects)]
        tuples = predictor.tuple_ids(names)
        for position in range(2):
            found += [*candidates_of(predictor, tuples, position, rng, count)]
    fields = ("probabilities", "limits", "targets", "weights")
    p, limits, targets, weights = (np.concatenate([getattr(one, field) for one in found]) for field in fields)
    at = limits < 1
    p, limits, targets, weights = p[at], limits[at], targets[at], weights[at]
    treatments = {
        "none": p,
        "times": p * limits,
        "at_most": np.minimum(p, limits),
        "odds": 1 / (1 + (1 / p - 1) + (1 / limits - 1)),
    }
    figures = {"true": float((weights * targets).sum())}
    for name, values in treatments.items():
        losses = -np.where(targets > 0, np.log(values), np.log1p(-values))
        figures |= {f"{name}_log_loss": float((weights * losses).sum()), f"{name}_sum": float((weights * values).sum())}
    return figures


def by_relation(facts: list[Fact]) -> dict[str, list[Fact]]:
    """Relation → its facts."""
    found = defaultdict(list)
    for fact in facts:
        found[fact.relation].append(fact)
    return dict(found)


def constrained_relations(kb: KnowledgeBase) -> set[str]:
    """The relations with a functional or asymmetric constraint."""
    return {one.constraint.relation for one in gaifman.find_constraints(kb) if str(one.constraint).startswith(KINDS)}


def demo(quick: bool) -> dict[str, float]:
    """The demo, without a tenth of its binary facts."""
    rng, kb = np.random.default_rng(7), gaifman.demo()
    held_out = [fact for fact in kb.facts() if len(fact.objects) == 2 and rng.random() < 0.1]
    train = kb.without_facts(held_out)
    names = QUICK if quick else sorted(constrained_relations(train) & {fact.relation for fact in held_out})
    parts = by_relation([fact for fact in held_out if fact.relation in names])
    return measure(gaifman.complete(train, names), parts, QUESTIONS if quick else 60)


def freebase(folder: str) -> dict[str, float]:
    """FB15k-237: trained on the training facts, held out are all others."""
    files = [data(f"{folder}/{split}.txt.gz") for split in ("train", "valid", "test")]
    train, *others = (gaifman.read(path) for path in files if path)
    held_out = [fact for kb in others for fact in kb.facts()]
    counts = Counter(fact.relation for fact in held_out)
    names = sorted(constrained_relations(train), key=lambda name: (-counts[name], name))[:RELATIONS]
    parts = by_relation([fact for fact in held_out if fact.relation in names])
    return measure(gaifman.complete(train, names), parts, QUESTIONS)


def main() -> None:
    """Measure and print."""
    quick = arguments(__doc__).quick
    figures = {f"demo_{name}": figure for name, figure in demo(quick).items()}
    if not quick and data("FB15k-237/train.txt.gz"):
        figures |= {f"fb15k237_{name}": figure for name, figure in freebase("FB15k-237").items()}
    report("constraints", figures)


if __name__ == "__main__":
    main()
