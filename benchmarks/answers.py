"""Answers per second, beside the limit of the second layer and beside a dense scorer.

    GAIFMAN_DATA=… python benchmarks/answers.py [--quick]

An answer is one candidate: sample a neighbourhood, evaluate its features, run the network. `ranking` scores every
object at one position of facts of several relations, with split scores and shared draws; `pairs` scores random pairs
one by one. Radius 1, the `paper` features, two hidden layers of 100, one draw, one thread per processor. Features of
single objects are computed before, once for all relations, in `_precompute_seconds`. One model is used with every size
k; `all` has no bound.
The limit is one 100 × 100 product per candidate by numpy's BLAS, one thread per processor. The dense scorer is DistMult
with 200 numbers per object, 64 queries at a time: PyKEEN's if installed (`dense_scorer_is_pykeen`), else a product in
PyTorch. Both run in turns with the ranking of FB15k at k = 20; ratios are medians over the turns.
`own_product_over_blas` is the time of the network's own product beside BLAS, on the same blocks and one thread. Without
the data, generated knowledge bases are used. A full run also draws the paper's runtime figure:
docs/pictures/answers-wn18.svg and docs/pictures/answers-fb15k.svg.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import common
import gaifman
from gaifman.completion import Completion
from gaifman.config import cpu_count
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.kernels import mlp as layers
from gaifman.kernels.jit import kernel
from gaifman.plots import MARKER_COLOUR, SECOND_COLOUR, TEXT_COLOUR, new_figure, save_figure, style_axes
from gaifman.ranking.fast_scoring import ObjectFeatures, SplitScorer
from gaifman.sampling.hiding import HiddenFacts
from training import loaded

NETWORK = {"epochs": 1, "activation": "sigmoid", "batch_size": 128}
SETTINGS: dict[str, Any] = {
    "base": "mlp",
    "phi": "paper",
    "positives": 2,
    "negatives": 6,
    "min_examples": 0,
    "options": NETWORK,
}

SIZES = (5, 10, 20, 50, 100, None)
"""k of the paper's figure; None for all objects."""
PAPER_ANSWERS_PER_SECOND = 5_000
QUESTIONS = 64
PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
PEER = importlib.util.find_spec("pykeen") is not None


def with_size(model: Completion, size: int | None) -> Completion:
    """Return the model with neighbourhoods of another size; its weights do not change its speed."""
    config = replace(model.config, size=size)
    return Completion(config, model.relations, model.features, model.scorers, model.calibration, {**model.meta})


def at_once(jobs: Sequence[Callable[[], object]]) -> float:
    """Return the seconds for all jobs, with one thread per processor."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(cpu_count()) as pool:
        for future in [pool.submit(job) for job in jobs]:
            future.result()
    return time.perf_counter() - begin


def relations(kb: KnowledgeBase, count: int) -> list[str]:
    """Return binary relations of all sizes but the smallest."""
    names = sorted((r.count, r.name) for r in kb.relations.values() if r.arity == 2 and r.count >= 50)
    step = max(1, len(names) // count)
    return [name for _, name in names[::-1][::step][:count]]


def facts(kb: KnowledgeBase, name: str, count: int) -> Ints:
    """Return the objects of some facts of a relation."""
    number = kb.content.relations.find(name)
    assert number is not None
    rows = kb.fact_tables[2].objects[kb.fact_tables[2].rows(number)]
    return rows[np.random.default_rng(0).permutation(len(rows))[:count]]


def ranking(completion: Completion, questions: int) -> tuple[Callable[[], float], float]:
    """Return a measurement of answers per second over all objects, and the seconds of what is computed before."""
    kb, names = completion.kb, list(completion.scorers)
    begin = time.perf_counter()
    shared = ObjectFeatures(common.network(completion, names[0]).evaluator, completion.config, 1)
    for position in (0, 1):
        shared.at_position(position)
    ready = time.perf_counter() - begin

    def job(name: str, position: int) -> Callable[[], object]:
        scorer = common.network(completion, name).scorer
        return lambda: SplitScorer(shared, scorer).scores(facts(kb, name, questions), position)[0]

    jobs = [job(name, position) for name in names for position in (0, 1)]
    jobs[0]()
    count = sum(2 * len(facts(kb, name, questions)) for name in names) * len(kb.objects)
    return lambda: count / at_once(jobs), ready


def pairs(completion: Completion, count: int) -> float:
    """Return independent pairs per second."""
    names = list(completion.scorers)
    predictors = {name: common.network(completion, name) for name in names}
    predictor, sampling = predictors[names[0]], completion.config.sampling(1, "answer 0")
    tuples = np.random.default_rng(1).integers(0, len(predictor.graph), (count, 2)).astype(np.int32)

    def job(begin: int, name: str) -> Callable[[], object]:
        part = tuples[begin : begin + 4096]
        nothing = HiddenFacts.one_per_tuple(np.full(len(part), -1, np.int64))

        def score() -> object:
            matrix = predictor.evaluator.sample_and_evaluate(part, sampling, nothing, threads=1)
            return predictors[name].scorer.probabilities(matrix)

        return score

    jobs = [job(begin, names[at % len(names)]) for at, begin in enumerate(range(0, count, 4096))]
    jobs[0]()
    return count / at_once(jobs)


def product_limit(blocks: int = 500) -> float:
    """Return candidates per second if a 100 × 100 product were the only work."""
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
    """Return the time of the network's own product over that of BLAS, on one thread each, in turns."""
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
    """Return answers per second of DistMult over all objects."""
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
    """Score a batch of queries over all objects by a product."""
    import torch

    table, asked = torch.rand(objects, 200), torch.rand(QUESTIONS, 200)
    return lambda: asked @ table.T


def theirs(objects: int) -> Callable[[], object]:
    """Score a batch of queries over all objects by PyKEEN."""
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
    """Return answers per second for each size."""
    names = relations(kb, 6 if quick else 20)
    model = gaifman.complete(kb, names, size=20, **SETTINGS)
    found: dict[str, float] = {}
    for size in sizes:
        sys.stderr.write(f"{short}, k = {size or 'all'} …\n")
        completion, own = with_size(model, size).with_kb(kb), f"{short}_k{size}" if size else f"{short}_all"
        rate, found[f"{own}_precompute_seconds"] = ranking(completion, 4 if quick else 12)
        found |= side_by_side(rate, len(kb.objects)) if own == "fb15k_k20" else {f"{own}_ranking_per_s": rate()}
        found[f"{own}_pairs_per_s"] = pairs(completion, 200_000 if quick or not size else 1_000_000)
    return found


def side_by_side(ours: Callable[[], float], objects: int, turns: int = 5) -> dict[str, float]:
    """Measure the ranking of FB15k, the limit and a dense scorer in turns."""
    found = [(ours(), product_limit(), dense(objects, 1.0)) for _ in range(turns)]
    rates = np.array(found).T
    names = ("fb15k_k20_ranking_per_s", "product_limit_per_s", "dense_scorer_per_s")
    figures = dict(zip(names, np.median(rates, axis=1).tolist(), strict=True))
    ratios = np.median(rates[0] / rates[1:], axis=1).tolist()
    return figures | {"ratio_to_flop_limit": ratios[0], "ratio_to_dense_scorer": ratios[1]}


def draw(figures: Mapping[str, float], short: str, name: str) -> None:
    """Draw the paper's runtime figure: answers per second against k, on a logarithmic axis."""
    keys = [f"{short}_k{size}" if size else f"{short}_all" for size in SIZES]
    lines = [
        ("all candidates ranked", "ranking_per_s", MARKER_COLOUR, "o"),
        ("independent pairs", "pairs_per_s", SECOND_COLOUR, "s"),
    ]
    figure = new_figure()
    axes, positions = figure.add_subplot(), np.arange(len(SIZES))
    for label, what, colour, marker in lines:
        heights = [figures.get(f"{key}_{what}", np.nan) for key in keys]
        axes.plot(positions, heights, color=colour, marker=marker, markersize=5, linewidth=1.6, label=label)
    axes.axhline(PAPER_ANSWERS_PER_SECOND, color="#888888", linewidth=1, linestyle=(0, (4, 3)))
    above = axes.get_yaxis_transform()  # at the right end of the line, above it, away from the legend
    text = f"paper: {PAPER_ANSWERS_PER_SECOND:,}"
    axes.text(1, PAPER_ANSWERS_PER_SECOND * 1.1, text, transform=above, ha="right", va="bottom", color="#555555")
    axes.set_yscale("log")
    axes.set_xticks(positions, [f"{size:,}" if size else "∞" for size in SIZES])
    axes.set_xlabel("k: sampled objects per neighbourhood")
    axes.set_ylabel("answers per second")
    axes.set_title(f"{name}: answers per second", loc="left", color=TEXT_COLOUR, fontsize=11)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 0.12), frameon=False)
    style_axes(axes)
    save_figure(figure, PICTURES / f"answers-{short}.svg")


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
