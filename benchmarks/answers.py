"""Candidates scored per second, compared with the second layer alone and with a dense scorer.

    GAIFMAN_DATA=… python benchmarks/answers.py [--quick]

To score a candidate is to draw its neighbourhood, evaluate its features and run the network. `ranking` scores every
object at one position of facts of several relations, by fast scoring with shared draws; `pairs` are random pairs, each
scored on its own. Radius 1, the `paper` features, two hidden layers of 100, one draw, one thread per processor. What is
around every object is computed first, once for all relations, in `_field_seconds`. One model is used with every size k;
`none` is no bound.

The limit is one 100 × 100 product per candidate by numpy's BLAS, one thread per processor. The dense scorer is DistMult
with 200 numbers per object, 64 queries at a time: PyKEEN's if it is installed (`dense_scorer_is_pykeen`), else a
product in PyTorch. Both alternate with the ranking of FB15k at k = 20; ratios are medians over the runs.
`own_product_over_blas` is the time of the network's own product over that of BLAS, on the same blocks and one thread.
Without the data, knowledge bases are generated. With all sizes, the pictures docs/pictures/answers-wn18.svg and
docs/pictures/answers-fb15k.svg are drawn.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import common
import gaifman
from gaifman.completion import Completion
from gaifman.config import cpu_count
from gaifman.experiments.speeds import PAPER_ANSWERS_PER_SECOND, SIZES, with_size
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.kernels import mlp as layers
from gaifman.kernels.jit import kernel
from gaifman.plots import plot_throughput
from gaifman.ranking.fast_scoring import ObjectFeatures, SplitScorer
from gaifman.sampling.neighbourhoods import HiddenFacts
from training import loaded

SETTINGS = {"phi": "paper", "positives": 2, "negatives": 6, "epochs": 1, "activation": "sigmoid", "batch_size": 128}

QUESTIONS = 64
PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
PEER = importlib.util.find_spec("pykeen") is not None


def at_once(jobs: Sequence[Callable[[], object]]) -> float:
    """Seconds for all jobs, on one thread per processor."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(cpu_count()) as pool:
        for future in [pool.submit(job) for job in jobs]:
            future.result()
    return time.perf_counter() - begin


def relations(kb: KnowledgeBase, count: int) -> list[str]:
    """Binary relations of all sizes except the smallest."""
    names = sorted((r.count, r.name) for r in kb.relations.values() if r.arity == 2 and r.count >= 50)
    step = max(1, len(names) // count)
    return [name for _, name in names[::-1][::step][:count]]


def facts(kb: KnowledgeBase, name: str, count: int) -> Ints:
    """Objects of some facts of a relation."""
    number = kb.content.relations.find(name)
    assert number is not None
    rows = kb.fact_tables[2].objects[kb.fact_tables[2].rows(number)]
    return rows[np.random.default_rng(0).permutation(len(rows))[:count]]


def ranking(completion: Completion, questions: int) -> tuple[Callable[[], float], float]:
    """A function that gives the candidates scored per second over all objects, and the seconds of the shared part."""
    kb, names = completion.kb, list(completion.scorers)
    begin = time.perf_counter()
    field = ObjectFeatures(completion.predictor(names[0]).evaluator, completion.config, 1)
    for position in (0, 1):
        field.at_position(position)
    ready = time.perf_counter() - begin

    def job(name: str, position: int) -> Callable[[], object]:
        return lambda: SplitScorer(field, completion.scorers[name]).scores(facts(kb, name, questions), position)[0]

    jobs = [job(name, position) for name in names for position in (0, 1)]
    jobs[0]()
    count = sum(2 * len(facts(kb, name, questions)) for name in names) * len(kb.objects)
    return lambda: count / at_once(jobs), ready


def pairs(completion: Completion, count: int) -> float:
    """Independent pairs scored per second."""
    names = list(completion.scorers)
    judge, sampling = completion.predictor(names[0]), completion.config.sampling(1, "answer 0")
    tuples = np.random.default_rng(1).integers(0, len(judge.graph), (count, 2)).astype(np.int32)

    def job(begin: int, name: str) -> Callable[[], object]:
        part = tuples[begin : begin + 4096]
        nothing = HiddenFacts.one_per_tuple(np.full(len(part), -1, np.int64))

        def judged() -> object:
            matrix = judge.evaluator.sample_and_evaluate(part, sampling, nothing, threads=1)
            return completion.scorers[name].probabilities(matrix)

        return judged

    jobs = [job(begin, names[at % len(names)]) for at, begin in enumerate(range(0, count, 4096))]
    jobs[0]()
    return count / at_once(jobs)


def product_limit(blocks: int = 500) -> float:
    """Candidates per second if a 100 × 100 product were the only work."""
    rows, weights = np.ones((4096, 100), np.float32), np.ones((100, 100), np.float32)

    def job() -> None:
        out = np.empty_like(rows)
        for _ in range(blocks):
            np.matmul(rows, weights, out=out)

    jobs = [job] * cpu_count()
    with threadpool_limits(1, "blas"):
        return len(jobs) * blocks * len(rows) / at_once(jobs)


@kernel
def _products(left: Any, weights: Any, rows: int, width: int, out: Any, times: int) -> None:
    for _ in range(times):
        layers.add_product(left, 0, weights, 0, rows, width, width, out, 0)


def own_product(runs: int = 9, blocks: int = 2_000) -> float:
    """The time of the network's own product over that of BLAS, on one thread each, alternating."""
    rows, width = 64, 100
    left, weights, out = (np.ones(shape * width, np.float32) for shape in (rows, width, rows))
    a, b, c = (array.reshape(-1, width) for array in (left, weights, out))

    def ours() -> None:
        _products(left, weights, rows, width, out, blocks)

    def theirs() -> None:
        for _ in range(blocks):
            np.matmul(a, b, out=c)

    ours()
    with threadpool_limits(1, "blas"):
        seconds = common.interleaved(runs, ours=ours, theirs=theirs)
    return common.median_ratio(seconds["ours"], seconds["theirs"])


def dense(objects: int, seconds: float) -> float:
    """Candidates per second of DistMult over all objects: PyKEEN's if installed, else a product in PyTorch."""
    import torch

    torch.set_num_threads(cpu_count())
    score = theirs(objects) if PEER else product(objects)
    score()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        score()
        count += QUESTIONS * objects
    return count / (time.perf_counter() - begin)


def product(objects: int) -> Callable[[], object]:
    """Score some queries against all objects."""
    import torch

    table, asked = torch.rand(objects, 200), torch.rand(QUESTIONS, 200)
    return lambda: asked @ table.T


def theirs(objects: int) -> Callable[[], object]:
    """The same by PyKEEN."""
    import torch
    from pykeen.models import DistMult
    from pykeen.triples import CoreTriplesFactory

    triples = torch.stack([torch.arange(QUESTIONS), torch.zeros(QUESTIONS), torch.arange(QUESTIONS)], dim=1).long()
    factory = CoreTriplesFactory(triples, num_entities=objects, num_relations=1)
    model = DistMult(triples_factory=factory, embedding_dim=200, random_seed=0).eval()

    def score() -> object:
        with torch.inference_mode():
            return model.score_t(triples[:, :2])

    return score


def measured(kb: KnowledgeBase, short: str, sizes: Sequence[int | None], quick: bool) -> dict[str, float]:
    """Candidates per second for each size."""
    names = relations(kb, 6 if quick else 20)
    model = gaifman.complete(kb, names, size=20, min_examples=0, **SETTINGS)  # type: ignore[arg-type]
    found: dict[str, float] = {}
    for size in sizes:
        sys.stderr.write(f"{short}, k = {size or 'none'} …\n")
        completion, own = with_size(model, size).with_kb(kb), f"{short}_k{size}" if size else f"{short}_none"
        rate, found[f"{own}_field_seconds"] = ranking(completion, 4 if quick else 12)
        found |= side_by_side(rate, len(kb.objects)) if own == "fb15k_k20" else {f"{own}_ranking_per_s": rate()}
        found[f"{own}_pairs_per_s"] = pairs(completion, 200_000 if quick or not size else 1_000_000)
    return found


def side_by_side(ours: Callable[[], float], objects: int, turns: int = 5) -> dict[str, float]:
    """FB15k's ranking, the limit and a dense scorer, alternating."""
    found = [(ours(), product_limit(), dense(objects, 1.0)) for _ in range(turns)]
    rates = np.array(found).T
    names = ("fb15k_k20_ranking_per_s", "product_limit_per_s", "dense_scorer_per_s")
    figures = dict(zip(names, np.median(rates, axis=1).tolist(), strict=True))
    ratios = np.median(rates[0] / rates[1:], axis=1).tolist()
    return figures | {"ratio_to_flop_limit": ratios[0], "ratio_to_dense_scorer": ratios[1]}


def draw(figures: dict[str, float], short: str, name: str) -> None:
    """Draw the paper's runtime figure."""
    keys = [f"{short}_k{size}" if size else f"{short}_none" for size in SIZES]
    lines = {"all candidates ranked": "ranking_per_s", "independent pairs": "pairs_per_s"}
    drawn = {label: [figures.get(f"{key}_{what}") for key in keys] for label, what in lines.items()}
    plot_throughput(
        SIZES,
        drawn,
        PICTURES / f"answers-{short}.svg",
        f"{name}: answers a second",
        ("the paper: 5,000", PAPER_ANSWERS_PER_SECOND),
    )


def main() -> None:
    """Measure and report."""
    quick = common.arguments(__doc__).quick
    figures: dict[str, float] = {}
    shapes = {"wn18": ("WN18", 40_943, 141_442, 18), "fb15k": ("FB15k", 14_951, 483_142, 1_345)}
    for short, (name, *shape) in shapes.items():
        sys.stderr.write(f"{name} …\n")
        kb = loaded(name, *shape)
        figures |= measured(kb, short, (20,) if quick else SIZES, quick)
        if not quick:
            draw(figures, short, name)
    figures |= {"dense_scorer_is_pykeen": int(PEER), "own_product_over_blas": own_product()}
    common.report("answers", figures)


if __name__ == "__main__":
    main()
