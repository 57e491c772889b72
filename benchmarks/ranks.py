"""Ranks and metrics compared with PyKEEN's rank-based evaluator on the same scores: equality and time.

python benchmarks/ranks.py [--quick]

Generated triples in three splits, and scores with many ties, for both positions. Both go from scores to mean rank, MRR
and hits, with all three treatments of ties and the known triples of all splits filtered out; neither computes
intervals. A difference is an error. PyKEEN is no dependency (it takes more than a gigabyte): without it, only ours is
measured.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import numpy as np

from common import arguments, interleaved, median_ratio, report
from gaifman.kb.tables import Floats, Ints
from gaifman.ranking.ranks import HITS_AT, TIES, CandidateFilter, Ranks, compute_ranks

BATCH = 128
Metrics = dict[tuple[int, str, str], float]
"""By position, treatment of ties and metric."""
METRICS = {
    "arithmetic_mean_rank": "mean",
    "inverse_harmonic_mean_rank": "mrr",
    **{f"hits_at_{k}": f"{k}" for k in HITS_AT},
}


@dataclass(frozen=True)
class Case:
    """Test pairs of one relation, the known facts, and the scores of every object at both positions."""

    test: Ints
    known: Ints
    scores: tuple[Floats, Floats]

    @classmethod
    def drawn(cls, facts: int, objects: int, seed: int) -> Case:
        """Objects with the frequencies of real data: few often, most rarely. Scores in steps of 1/50."""
        rng = np.random.default_rng(seed)
        pairs = np.unique((objects * rng.random((12 * facts, 2)) ** 3).astype(np.int32), axis=0)
        test = rng.permutation(pairs)[:facts]
        scores = [np.round(rng.random((facts, objects)) * 50) / 50 for _ in range(2)]
        return cls(test, pairs, (scores[0], scores[1]))


def ours(case: Case) -> Metrics:
    """The metrics by gaifman."""
    metrics: Metrics = {}
    for position, scores in enumerate(case.scores):
        filters, parts = CandidateFilter(case.known, case.test, position), []
        for begin in range(0, len(case.test), BATCH):
            rows = np.arange(begin, min(begin + BATCH, len(case.test)))
            parts.append(compute_ranks(scores[rows], case.test[rows, position], filters.excluded(rows)))
        whole = Ranks.concatenate(parts)
        for ties in TIES:
            found = whole.with_ties(ties)
            metrics[position, ties, "mean"], metrics[position, ties, "mrr"] = (
                float(found.mean()),
                float((1 / found).mean()),
            )
            metrics |= {(position, ties, f"{k}"): float((found <= k).mean()) for k in HITS_AT}
    return metrics


def theirs(case: Case) -> Metrics:
    """The metrics by PyKEEN, batch by batch as in its evaluation loop."""
    import torch
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.evaluation.evaluator import create_sparse_positive_filter_, filter_scores_

    def triples(pairs: Ints) -> torch.Tensor:
        return torch.as_tensor(np.stack([pairs[:, 0], np.zeros(len(pairs), np.int32), pairs[:, 1]], axis=1)).long()

    settings = [None, None, *({"k": k} for k in HITS_AT)]
    evaluator = RankBasedEvaluator(
        metrics=["mr", "mrr", *["hits@k"] * len(HITS_AT)], metrics_kwargs=settings, add_defaults=False
    )
    known, test = triples(case.known), triples(case.test)
    for side, column, scores in zip(("head", "tail"), (0, 2), case.scores, strict=True):
        for begin in range(0, len(test), BATCH):
            batch = test[begin : begin + BATCH]
            own = torch.as_tensor(scores[begin : begin + BATCH]).clone()
            right = own[torch.arange(len(batch)), batch[:, column]].unsqueeze(1).clone()
            positive, _ = create_sparse_positive_filter_(batch, known, filter_col=column)
            own = filter_scores_(own, positive)
            own[torch.arange(len(batch)), batch[:, column]] = right.squeeze(1)
            evaluator.process_scores_(batch, side, own, right)
    result = evaluator.finalize()
    return {
        (position, ties, name): float(result.get_metric(f"{side}.{ties}.{metric}"))
        for position, side in enumerate(("head", "tail"))
        for ties in TIES
        for metric, name in METRICS.items()
    }


def differences(one: Metrics, other: Metrics) -> list[str]:
    """Where the two differ; PyKEEN's realistic ranks have single precision."""
    assert one.keys() == other.keys()
    return [f"{key}: {one[key]} and {other[key]}" for key in one if not np.isclose(one[key], other[key], rtol=1e-6)]


def main() -> None:
    """Compare, measure and print."""
    quick = arguments(__doc__).quick
    case = Case.drawn(500 if quick else 1_000, 2_000 if quick else 15_000, 0)
    peer = importlib.util.find_spec("pykeen") is not None
    figures: dict[str, float | int] = {"compared_with_pykeen": int(peer)}
    if peer:
        for seed in range(3):
            small = Case.drawn(300, 400, seed)
            assert not (wrong := differences(ours(small), theirs(small))), wrong
    jobs = {"ours": lambda: ours(case)} | ({"pykeen": lambda: theirs(case)} if peer else {})
    seconds = interleaved(3, **jobs)
    figures["ranks_per_s"] = 2 * len(case.test) / min(seconds["ours"])
    figures["million_scores_per_s"] = 2 * case.scores[0].size / min(seconds["ours"]) / 1e6
    if peer:
        figures["seconds_over_pykeen"] = median_ratio(seconds["ours"], seconds["pykeen"])
    report("ranks", figures)


if __name__ == "__main__":
    main()
