"""Training: examples per second, the network compared with PyTorch, memory, and calibration.

    GAIFMAN_DATA=… python benchmarks/training.py [--quick]

Completion with w = 5, w̃ = 25, radius 1, size 20, the `paper` features and the paper's network, three epochs, one
thread per processor. An example is one neighbourhood: drawn, evaluated and trained on; negatives and hidden facts are
found on the way. `_seconds` is the whole time from a knowledge base in memory to a model; quick runs, which train some
relations only, have none. `network_ratio_to_torch` is the network alone, compared with PyTorch on the same sparse
batches, alternating, one thread each; PyTorch's first layer is an embedding bag with sparse gradients, its fastest way.
`attributes_over_plain_rate` is the rate of training with the `default` features on FB15k-237 with FB15k's numeric
attributes, divided by the rate without them, alternating: one epoch of some relations.
`_calibration_error` is the expected calibration error of validation facts and one negative for each, in ten bins, by
probabilities calibrated on training facts only; `_uncalibrated` is that of the raw network. For the demo, a tenth of
the facts is validation. Without the data, knowledge bases are generated.
"""

from __future__ import annotations

import gzip
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import common
import gaifman
from gaifman.completion import Completion, PartStore, RelationTrainer
from gaifman.config import ExampleConfig
from gaifman.io.model_file import Arrays
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats
from gaifman.logic.ast import relation_query
from gaifman.models.base import Batch, SparseRows
from gaifman.models.calibration import reliability
from gaifman.models.mlp import MLP
from gaifman.sampling.examples import TrainingExamples
from gaifman.training import Callback, TrainingConfig
from neighbourhoods import generated

PAPER = {"activation": "sigmoid", "batch_size": 128, "epochs": 3}
SETTINGS: dict[str, Any] = {
    "base": "mlp",
    "phi": "paper",
    "positives": 5,
    "negatives": 25,
    "min_examples": 0,
    "options": PAPER,
}
BATCH = 128


class Counting(Callback, PartStore):
    """Counts training examples and keeps some of the batches' rows."""

    def __init__(self) -> None:
        self.examples = 0

    def callback(self, relation: str) -> Callback:
        return self

    def on_block(self, examples: int, state: Callable[[], tuple[Arrays, dict[str, object]]]) -> None:
        self.examples += examples


def loaded(name: str, objects: int, facts: int, relations: int) -> KnowledgeBase:
    """A data set, or a generated knowledge base like it."""
    path = common.data(f"{name}/train.txt.gz")
    return gaifman.read(path) if path else generated(objects, facts, relations)


def some(kb: KnowledgeBase, answers: int) -> list[str]:
    """Relations of all sizes with about `answers` answers in total."""
    names = sorted(kb.relations, key=lambda name: (kb.relations[name].count, name))
    share = max(1, round(len(kb) / answers))
    chosen = [name for name in names[share // 2 :: share] if kb.relations[name].count <= answers]
    return chosen or names[:1]


def trained(kb: KnowledgeBase, names: list[str], settings: dict[str, Any]) -> tuple[Completion, float, float]:
    """A completion, its seconds, and examples per second of training."""
    gaifman.complete(kb, names[-1:], threads=1, **SETTINGS | {"options": PAPER | {"epochs": 1}})
    counting, begin = Counting(), time.perf_counter()
    trainer = RelationTrainer(kb, "paper", TrainingConfig.from_settings(settings), None)
    for arity in {kb.relations[name].arity for name in names}:
        trainer.evaluators_and_kinds(arity)
    ready = time.perf_counter()
    parts = trainer.train_all(names, threads=2, store=counting)
    done = time.perf_counter()
    completion = trainer.build_completion(names, parts)
    return completion, time.perf_counter() - begin, counting.examples / (done - ready)


# Attributes


def with_values(kb: KnowledgeBase) -> KnowledgeBase:
    """FB15k-237 with the numeric attributes of its objects, or a generated one with two values for each object."""
    path = common.data("FB15k-numeric/numerical_triples.txt.gz")
    if path is None:
        rng = np.random.default_rng(0)
        drawn = zip(rng.integers(0, 116, 2 * len(kb.objects)).tolist(), [*kb.objects] * 2, strict=True)
        return kb.with_facts([], {(f"a{number:03}", name): float(rng.normal()) for number, name in drawn})
    values: dict[tuple[str, str], float] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            name, attribute, value = line.rstrip("\n").split("\t")
            if name in kb.objects:
                values[attribute.strip("<>"), name] = float(value)
    return kb.with_facts([], values)


def attributes(quick: bool) -> dict[str, float]:
    """Training with and without attributes."""
    plain = loaded("FB15k-237", 14_541, 272_115, 237)
    names = some(plain, 3_000 if quick else 20_000)
    config = TrainingConfig.from_settings(SETTINGS | {"phi": "default", "options": PAPER | {"epochs": 1}})
    trainers = [RelationTrainer(kb, "default", config, None) for kb in (plain, with_values(plain))]
    counting = Counting()
    for trainer in trainers:
        trainer.train_all(names[:1], threads=1, store=counting)
    before = counting.examples
    jobs = {
        name: partial(trainer.train_all, names, threads=2, store=counting)
        for name, trainer in zip(("plain", "attributes"), trainers, strict=True)
    }
    runs = 3 if quick else 5
    taken = common.interleaved(runs, **jobs)
    return {
        "attributes_examples_per_s": (counting.examples - before) / (2 * runs) / min(taken["attributes"]),
        "attributes_over_plain_rate": common.median_ratio(taken["plain"], taken["attributes"]),
    }


# The network alone


def batches(kb: KnowledgeBase, name: str, count: int) -> list[Batch]:
    """Batches of a relation's training, 128 rows each."""
    from gaifman.features.compiler import compile_features
    from gaifman.features.evaluator import FeatureEvaluator
    from gaifman.features.feature_sets import named_feature_set
    from gaifman.models.scaling import feature_kinds
    from gaifman.training import Trainer, TrainingSource

    graph, config = build_graph(kb), TrainingConfig.from_settings(SETTINGS)
    plan = compile_features(named_feature_set("paper", 2, kb.schema.relations), kb, 2)
    examples = TrainingExamples(graph.kb, relation_query(name, 2), ExampleConfig(holdout=0.0))
    source = TrainingSource(FeatureEvaluator(graph, plan), examples, feature_kinds(plan.features))
    trainer = Trainer([source], config, config.make_base_model())
    inputs, found = trainer.fit_scaler(), list[Batch]()
    for block in trainer.batches(inputs, 0):
        rows = block.rows
        for first, last in pairwise(range(0, len(rows) + 1, BATCH)):
            low, high = rows.starts[first], rows.starts[last]
            part = SparseRows(
                rows.starts[first : last + 1] - low, rows.columns[low:high], rows.values[low:high], rows.width
            )
            found.append(Batch(part, block.targets[first:last]))
        if len(found) >= count:
            break
    return found[:count]


def torch_learner(width: int, given: list[Batch]) -> Callable[[], None]:
    """The same network and steps in PyTorch, on one thread, with prepared batches."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.sparse.check_sparse_tensor_invariants.disable()  # explicit, or torch warns
    first = nn.EmbeddingBag(width, 100, mode="sum", sparse=True)
    rest = nn.Sequential(nn.Sigmoid(), nn.Linear(100, 100), nn.Sigmoid(), nn.Linear(100, 1))
    bias = nn.Parameter(torch.zeros(100))
    steps = torch.optim.Adagrad([first.weight, bias, *rest.parameters()], lr=0.05, initial_accumulator_value=1e-3)
    tensors = [
        (torch.from_numpy(b.rows.columns.astype(np.int64)), torch.from_numpy(b.rows.starts[:-1].copy()),
         torch.from_numpy(b.rows.values.copy()), torch.from_numpy(b.targets.copy()))
        for b in given
    ]  # fmt: skip

    def learn() -> None:
        for columns, starts, values, targets in tensors:
            kept = nn.functional.dropout(values, 0.2)
            logits = rest(first(columns, starts, per_sample_weights=kept) + bias)[:, 0]
            loss = nn.functional.binary_cross_entropy_with_logits(logits, targets)
            steps.zero_grad()
            loss.backward()
            steps.step()

    return learn


def network(given: list[Batch], runs: int) -> dict[str, float]:
    """Our network and PyTorch's, alternating."""
    ours = MLP(epochs=1)
    width = given[0].rows.width
    ours.reset(width, 0)

    def learn() -> None:
        for batch in given:
            ours.fit_batch(batch)

    theirs = torch_learner(width, given)
    for job in (learn, theirs):
        job()
    seconds = common.interleaved(runs, ours=learn, torch=theirs)
    rows = len(given) * BATCH
    return {
        "network_examples_per_s": rows / min(seconds["ours"]),
        "torch_examples_per_s": rows / min(seconds["torch"]),
        "network_ratio_to_torch": common.median_ratio(seconds["torch"], seconds["ours"]),
    }


# What probabilities mean


def calibration(completion: Completion, kb: KnowledgeBase, facts: list[tuple[str, ...]]) -> tuple[float, float]:
    """Expected calibration error of held-out facts and one negative for each; and the same without calibration."""
    means, fair, targets = list[Floats](), list[Floats](), list[Floats]()
    by_relation: dict[str, list[tuple[str, ...]]] = {}
    for relation, *objects in facts:
        if relation in completion.scorers and all(name in kb.objects for name in objects):
            by_relation.setdefault(relation, []).append(tuple(objects))
    for relation, tuples in sorted(by_relation.items()):
        numbers = np.array([[kb.object_id(name) for name in row] for row in tuples], np.int32)
        whole = kb.with_facts([(relation, *row) for row in tuples])
        examples = TrainingExamples(whole, relation_query(relation, numbers.shape[1]), ExampleConfig(holdout=0.0))
        rows = [int(np.flatnonzero((examples.answers == row).all(axis=1))[0]) for row in numbers]
        corrupted = examples.sample_negatives(np.array(rows), 1)
        asked, wanted = np.concatenate([numbers, corrupted]), np.repeat([1.0, 0.0], [len(numbers), len(corrupted)])
        fair.append(completion.probabilities(relation, asked).values)
        predictor, sampling = (
            common.network(completion, relation),
            completion.config.sampling(completion.config.draws, "answer 0"),
        )
        per_draw = predictor.probabilities_per_draw(asked, sampling, predictor.hidden_facts(asked))
        means.append(per_draw.mean(axis=1))
        targets.append(wanted)
    calibrated, raw, truth = np.concatenate(fair), np.concatenate(means), np.concatenate(targets)
    return reliability(calibrated, truth).ece, reliability(raw, truth).ece


def split(kb: KnowledgeBase) -> tuple[KnowledgeBase, list[tuple[str, ...]]]:
    """Hold out a tenth of the facts."""
    facts = [(fact.relation, *fact.objects) for fact in kb.facts()]
    chosen = [facts[number] for number in np.random.default_rng(0).permutation(len(facts))[: len(facts) // 10]]
    return kb.without_facts(chosen), chosen


def validation(name: str) -> list[tuple[str, ...]]:
    """The validation facts of a data set."""
    path = common.data(f"{name}/valid.txt.gz")
    return [(fact.relation, *fact.objects) for fact in gaifman.read(path).facts()] if path else []


def main() -> None:
    """Measure and report."""
    quick = common.arguments(__doc__).quick
    figures: dict[str, float] = {}
    demo, taken = split(gaifman.demo())
    error = calibration(gaifman.complete(demo, base="mlp"), demo, taken)
    figures |= dict(zip(("demo_calibration_error", "demo_uncalibrated"), error, strict=True))
    shapes = {"wn18": ("WN18", 40_943, 141_442, 18), "fb15k": ("FB15k", 14_951, 483_142, 1_345)}
    for short, (name, *shape) in shapes.items():
        sys.stderr.write(f"{name} …\n")
        kb = loaded(name, *shape)
        settings, names = SETTINGS, sorted(kb.relations)
        if quick and short == "wn18":
            settings = SETTINGS | {"positives": 1, "negatives": 5}
        elif quick:
            names = some(kb, 6_000)
        completion, seconds, rate = trained(kb, names, settings)
        figures[f"{short}_examples_per_s"] = rate
        if not quick:
            figures[f"{short}_seconds"] = seconds
        if short == "wn18" and (facts := validation(name)):
            facts = facts[:: 5 if quick else 1]
            error = calibration(completion, kb, facts)
            figures |= dict(zip(("wn18_calibration_error", "wn18_uncalibrated"), error, strict=True))
    figures["peak_memory_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    largest = max(kb.relations.values(), key=lambda relation: (relation.count, relation.name)).name
    figures |= attributes(quick)
    figures |= network(batches(kb, largest, 50 if quick else 400), 5 if quick else 9)
    common.report("training", figures)


if __name__ == "__main__":
    main()
