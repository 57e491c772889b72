"""An expert with memory: ComplEx, trained on all facts of two objects.

It has a vector for each object and for each position of a relation. A question is a fixed object turned by the position
that is asked for, and the score of a candidate is the inner product of both: high if facts like the one in question are
known of similar objects. It remembers its training facts, so its weight beside the formulas is fitted on facts that it
has not seen: a *trial* is trained without the held-out facts of all relations, and the *final* expert goes on from the
trial with all facts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.config import check_int, check_positive
from gaifman.errors import InputError, plural
from gaifman.io.model_file import Arrays, require_array, strip_prefix
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, Longs, concatenate_ranges, freeze
from gaifman.kernels.complex import (
    LANES,
    TILE,
    Facts,
    Sizes,
    Softmax,
    adagrad_step,
    add_cubes,
    add_similar,
    block_gradient,
    normalise,
    score_block,
    turn,
    turn_gradient,
)
from gaifman.kernels.mlp import fill_uniform
from gaifman.sampling.rng import fold_in_rows, make_key
from gaifman.threads import map_threaded
from gaifman.training import Callback

Reals = npt.NDArray[np.float32]

MAX_BLOCKS = 16
"""Blocks of tiles that threads share; their number does not depend on that of threads."""
MIN_TILES = 8
"""Tiles of a block, at least."""
MAX_CELLS = 1 << 24
"""Scores of a batch in memory: 64 MB."""
SMALLEST_BATCH, MIN_BATCHES = 16, 64
"""Questions of a batch, at least; and batches of an epoch, if there are enough questions."""
MAX_SIMILAR_FACTS, MIN_COSINE = 2, 0.3
"""Facts with similar objects that an explanation names, and how similar these are at least, on average."""
UNIT = 64
"""Questions that take about as long as one question of a ranker: what progress counts."""
INITIAL_SIZE = 1e-3
"""Bound of the first random numbers."""


@dataclass(frozen=True, slots=True)
class ExpertConfig:
    """How the expert is trained."""

    expert_rank: int = 96
    """Complex numbers of each vector: memory and time are proportional to it."""
    expert_epochs: int = 25
    """Passes over the facts that are not held out."""
    expert_final_epochs: int = 8
    """Passes over all facts that follow."""
    expert_penalty: float = 0.05
    """Of the sum of the cubes of the sizes of all numbers of a fact (N3)."""
    expert_rate: float = 0.1
    """Learning rate of Adagrad."""
    expert_batch: int = 512
    """Questions of a batch."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("expert_rank", "expert_epochs", "expert_final_epochs", "expert_batch"):
            check_int(name, getattr(self, name), 1)
        for name in ("expert_penalty", "expert_rate"):
            check_positive(name, getattr(self, name))


# Questions


@dataclass(frozen=True, slots=True)
class ExpertQuestions:
    """The questions of facts of two objects: at each position, given the object at the other one."""

    fixed: Ints
    """Shape (questions,)."""
    codes: Ints
    """Shape (questions,): twice the number of the relation, plus the position that is asked for."""
    starts: Longs
    """Shape (questions + 1,)."""
    answers: Ints
    """Shape (2 · facts,)."""
    weights: Reals
    """Shape (2 · facts,): the confidences of the facts."""

    def __len__(self) -> int:
        return len(self.fixed)


def expert_relations(kb: KnowledgeBase) -> list[str]:
    """The relations that the expert learns: those of two objects with facts, by name."""
    return sorted(name for name, info in kb.relations.items() if info.arity == 2 and info.count)


def expert_questions(kb: KnowledgeBase, left_out: Mapping[str, Longs] | None = None) -> ExpertQuestions:
    """All questions; without some rows of relations' facts."""
    parts = []
    for number, name in enumerate(expert_relations(kb)):
        facts, weights = kb.tuples(name), kb.confidences_of(name)
        keep = np.ones(len(facts), bool)
        keep[(left_out or {}).get(name, np.zeros(0, np.int64))] = False
        for position in range(2):
            code = np.full(int(keep.sum()), 2 * number + position)
            parts.append(np.stack([code, facts[keep, 1 - position], facts[keep, position], weights[keep]]))
    codes, fixed, answers, weights = np.concatenate([np.zeros((4, 0)), *parts], axis=1)
    order = np.lexsort([answers, fixed, codes])
    codes, fixed, answers = (each[order].astype(np.int32) for each in (codes, fixed, answers))
    first = np.flatnonzero((np.diff(codes, prepend=-1) != 0) | (np.diff(fixed, prepend=-1) != 0))
    starts = np.append(first, len(codes)).astype(np.int64)
    confidences = freeze(weights[order].astype(np.float32))
    return ExpertQuestions(freeze(fixed[first]), freeze(codes[first]), freeze(starts), freeze(answers), confidences)


# Training


class _Space:
    """Scratch memory of batches of one size."""

    def __init__(self, sizes: Sizes, tiles: int, blocks: int) -> None:
        rows = sizes.questions
        self.questions = np.empty(rows * sizes.columns, np.float32)
        self.question_gradients = np.empty(blocks * rows * sizes.columns, np.float32)
        self.exponentials = np.empty(tiles * rows * TILE, np.float32)
        self.tops, self.sums = np.empty(tiles * rows, np.float32), np.empty(tiles * rows, np.float32)
        self.transposed = [np.empty(TILE * sizes.columns + LANES, np.float32) for _ in range(blocks)]


class ComplexModel:
    """The vectors of objects and relations while they are trained."""

    def __init__(self, objects: int, codes: int, config: ExpertConfig) -> None:
        self.count, self.config = objects, config
        self.columns = 2 * config.expert_rank
        self.tiles = -(-objects // TILE)
        self.objects = np.zeros(self.tiles * TILE * self.columns, np.float32)
        self.relations = np.zeros(codes * self.columns, np.float32)
        for name, array in (("objects", self.objects[: objects * self.columns]), ("relations", self.relations)):
            fill_uniform(make_key(config.seed, "expert", name), INITIAL_SIZE, array)
        self.squares = np.zeros_like(self.objects), np.zeros_like(self.relations)
        self._gradients = np.zeros_like(self.objects), np.zeros_like(self.relations)
        blocks = max(1, min(MAX_BLOCKS, self.tiles // MIN_TILES))
        bounds = np.linspace(0, self.tiles, blocks + 1).astype(int).tolist()
        self._blocks = list(pairwise(bounds))
        self._space: _Space | None = None

    @property
    def max_batch(self) -> int:
        """The largest number of questions whose scores fit into memory."""
        return max(SMALLEST_BATCH, MAX_CELLS // (self.tiles * TILE))

    def batch_size(self, questions: int) -> int:
        """Questions of a batch."""
        few = max(SMALLEST_BATCH, questions // MIN_BATCHES)
        return min(self.config.expert_batch, few, self.max_batch)

    def arrays(self) -> Arrays:
        """The state, for a checkpoint."""
        return {
            "objects": self.objects,
            "relations": self.relations,
            "squares/objects": self.squares[0],
            "squares/relations": self.squares[1],
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from a state."""
        for name, own in self.arrays().items():
            own[:] = arrays[name]

    def loss(self, questions: ExpertQuestions, rows: Longs, threads: int) -> float:
        """The loss of some questions, in nats."""
        return sum(
            self._score(questions, rows[begin : begin + self.max_batch], threads)[0]
            for begin in range(0, len(rows), self.max_batch)
        )

    def step(self, questions: ExpertQuestions, rows: Longs, threads: int) -> float:
        """Take one step with some questions; return their loss in nats."""
        loss, batch = self._score(questions, rows, threads)
        space, facts, sizes = batch.space, batch.facts, batch.sizes
        gradient, relation_gradient = self._gradients

        def differentiate(number: int) -> None:
            first, last = self._blocks[number]
            begin = number * sizes.questions * self.columns
            part = space.question_gradients[begin : begin + sizes.questions * self.columns]
            block_gradient(self.objects, space.questions, sizes, first, last, facts, batch.softmax, gradient, part)

        map_threaded(differentiate, range(len(self._blocks)), threads)
        fixed, codes, strength = questions.fixed[rows], questions.codes[rows], self.config.expert_penalty
        turn_gradient(
            self.objects,
            self.relations,
            fixed,
            codes,
            self.columns,
            len(self._blocks),
            space.question_gradients,
            gradient,
            relation_gradient,
        )
        add_cubes(fixed, batch.counts, self.objects, self.columns, strength, gradient)
        add_cubes(codes, batch.counts, self.relations, self.columns, strength, relation_gradient)
        add_cubes(facts.answers, facts.weights, self.objects, self.columns, strength, gradient)
        scale, rate = 1 / float(batch.counts.sum()), self.config.expert_rate

        def update(number: int) -> None:
            first, last = (TILE * self.columns * tile for tile in self._blocks[number])
            adagrad_step(self.objects[first:last], gradient[first:last], self.squares[0][first:last], scale, rate)

        map_threaded(update, range(len(self._blocks)), threads)
        adagrad_step(self.relations, relation_gradient, self.squares[1], scale, rate)
        return loss

    def _score(self, questions: ExpertQuestions, rows: Longs, threads: int) -> tuple[float, _Batch]:
        """The loss of a batch, and what its gradient needs."""
        starts, stops = questions.starts[rows], questions.starts[rows + 1]
        entries, owners = concatenate_ranges(starts, stops), np.repeat(np.arange(len(rows)), stops - starts)
        order = np.argsort(questions.answers[entries], kind="stable")
        entries, owners = entries[order], owners[order]
        facts = Facts(
            freeze(owners.astype(np.int32)), freeze(questions.answers[entries]), freeze(questions.weights[entries])
        )
        sizes = Sizes(self.columns, self.count, len(rows), len(entries))
        counts = np.bincount(owners, facts.weights, len(rows)).astype(np.float32)
        if self._space is None or len(self._space.questions) != len(rows) * self.columns:
            self._space = _Space(sizes, self.tiles, len(self._blocks))
        space = self._space
        softmax = Softmax(space.exponentials, space.tops, space.sums, np.empty(len(entries), np.float32))
        turn(self.objects, self.relations, questions.fixed[rows], questions.codes[rows], self.columns, space.questions)

        def score(number: int) -> None:
            score_block(
                self.objects, space.questions, sizes, *self._blocks[number], space.transposed[number], facts, softmax
            )

        map_threaded(score, range(len(self._blocks)), threads)
        loss = normalise(sizes, self.tiles, counts, facts, softmax)
        return loss, _Batch(space, sizes, facts, counts, softmax)


class _Batch(NamedTuple):
    space: _Space
    sizes: Sizes
    facts: Facts
    counts: Reals
    softmax: Softmax


# What training gives


@dataclass(frozen=True, slots=True)
class Expert:
    """The vectors of the objects and relations of a knowledge base, by name."""

    objects: tuple[str, ...]
    """The objects that it knows: those with facts that it has learned."""
    relations: tuple[str, ...]
    object_vectors: Reals
    """Shape (objects, 2 · rank), float32: real parts, then imaginary ones; their mean is 0, so that the mean of the
    scores of all candidates is 0."""
    relation_vectors: Reals
    """Shape (2 · relations, 2 · rank), float32: for each relation, of questions at its first and second position."""
    center: Reals
    """Shape (2 · rank,), float32: what was subtracted from the vectors of objects."""

    @property
    def rank(self) -> int:
        """Complex numbers of each vector."""
        return len(self.center) // 2

    def arrays(self) -> Arrays:
        """The arrays for a file."""
        return {
            "expert/objects": _pack_names(self.objects),
            "expert/relations": _pack_names(self.relations),
            "expert/object_vectors": self.object_vectors,
            "expert/relation_vectors": self.relation_vectors,
            "expert/center": self.center,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Expert | None:
        """The expert of a file; None if it has none."""
        if not any(name.startswith("expert/") for name in arrays):
            return None
        own = strip_prefix(arrays, "expert/")
        objects, relations = _unpack_names(own, "objects"), _unpack_names(own, "relations")
        center = require_array(own, "center", np.float32, (None,))
        columns = len(center)
        if not columns or columns % 2:
            raise InputError(f"the vectors of an expert must have an even length, got {columns}")
        vectors = require_array(own, "object_vectors", np.float32, (len(objects), columns))
        codes = require_array(own, "relation_vectors", np.float32, (2 * len(relations), columns))
        return cls(objects, relations, freeze(vectors), freeze(codes), freeze(center))

    def bind(self, kb: KnowledgeBase) -> BoundExpert:
        """The expert for a knowledge base, which can number objects differently or have others."""
        return BoundExpert(self, kb)


def describe_expert(about: Mapping[str, Any]) -> str:
    """What the metadata of a model say about its expert, in words.

    >>> about = {"kind": "complex", "rank": 96, "objects": 1100, "relations": 20, "weight": 0.31}
    >>> describe_expert(about | {"positions": 38, "of_positions": 40})
    'ComplEx of rank 96, knows 1,100 objects and 20 relations; mean weight 0.31, above 0 at 38 of 40 positions'
    """
    knows = f"knows {plural(about['objects'], 'object')} and {plural(about['relations'], 'relation')}"
    used = f"above 0 at {about['positions']:,} of {plural(about['of_positions'], 'position')}"
    return f"ComplEx of rank {about['rank']}, {knows}; mean weight {about['weight']:.3g}, {used}"


def _pack_names(names: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Names as the bytes of a JSON list."""
    return np.frombuffer(json.dumps(names).encode(), np.uint8)


def _unpack_names(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> tuple[str, ...]:
    names = json.loads(require_array(arrays, name, np.uint8, (None,)).tobytes())
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names) or len(set(names)) < len(names):
        raise InputError(f"the {name} of an expert must be different names")
    return tuple(names)


class TrainedExpert(NamedTuple):
    """The expert before and after it has seen the held-out facts."""

    trial: Expert
    final: Expert


class ExpertTrainer:
    """Trains the expert of a knowledge base, from a callback's checkpoint if it has one."""

    def __init__(self, kb: KnowledgeBase, held_out: Mapping[str, Longs], config: ExpertConfig) -> None:
        """`held_out` has rows of relations' facts that the trial does not see."""
        self.kb, self.config, self.relations = kb, config, expert_relations(kb)
        self._stages = expert_questions(kb, held_out), expert_questions(kb)
        self._epochs = config.expert_epochs, config.expert_final_epochs
        self._model = ComplexModel(len(kb.objects), 2 * len(self.relations), config)
        self._trial: Arrays = {}
        self._epoch, self._done, self._loss = 0, 0, 0.0

    def train(self, callback: Callback | None = None, threads: int = 1) -> TrainedExpert:
        """Train the trial, and then the final expert."""
        callback = callback or Callback()
        self._restore(callback.load_checkpoint())
        sizes = [len(stage) for stage, epochs in zip(self._stages, self._epochs, strict=True) for _ in range(epochs)]
        done = sum(sizes[: self._epoch]) + self._done
        callback.on_train_begin(-(-sum(sizes) // UNIT), -(-done // UNIT))
        while self._epoch < len(sizes):
            self._run_epoch(self._stages[self._epoch >= self._epochs[0]], callback, threads)
        callback.on_part_end(self._state)
        return TrainedExpert(self._expert(self._trial, 0), self._expert(self._model.arrays(), 1))

    def _run_epoch(self, questions: ExpertQuestions, callback: Callback, threads: int) -> None:
        """Take a step with each batch that is left of an epoch."""
        key = make_key(self.config.seed, "expert epoch", self._epoch)
        keys = fold_in_rows(key, np.stack([questions.codes, questions.fixed], axis=1))
        order, size = np.argsort(keys, kind="stable"), self._model.batch_size(len(questions))
        for begin in range(self._done, len(order), size):
            rows = order[begin : begin + size]
            self._loss += self._model.step(questions, rows, threads)
            self._done = begin + len(rows)
            if self._done == len(order):
                self._end_epoch(questions, callback)
            callback.on_block(-(-len(rows) // UNIT), self._state)

    def _end_epoch(self, questions: ExpertQuestions, callback: Callback) -> None:
        callback.on_epoch_end(self._epoch + 1, self._loss / len(questions.answers), None)
        self._epoch, self._done, self._loss = self._epoch + 1, 0, 0.0
        if self._epoch == self._epochs[0]:
            self._trial = {"objects": self._model.objects.copy(), "relations": self._model.relations.copy()}

    def _state(self) -> tuple[Arrays, dict[str, Any]]:
        """The state, for a checkpoint."""
        trial = {f"trial/{name}": array for name, array in self._trial.items()}
        return self._model.arrays() | trial, {"position": [self._epoch, self._done], "loss": self._loss}

    def _restore(self, saved: tuple[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]] | None) -> None:
        if saved:
            arrays, meta = saved
            self._model.restore(arrays)
            self._trial = strip_prefix(arrays, "trial/")
            (self._epoch, self._done), self._loss = meta["position"], meta["loss"]

    def _expert(self, arrays: Arrays, stage: int) -> Expert:
        """The vectors of the objects that occur in the facts of a stage."""
        columns, questions = self._model.columns, self._stages[stage]
        known = np.union1d(questions.fixed, questions.answers)
        vectors = arrays["objects"].reshape(-1, columns)[known]
        center = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        relations = arrays["relations"].reshape(-1, columns).copy()
        names = tuple(self.kb.object_name(obj) for obj in known.tolist())
        return Expert(names, tuple(self.relations), freeze(vectors - center), freeze(relations), freeze(center))


# Scores


class BoundExpert:
    """The expert for the objects of one knowledge base. Several threads can use it."""

    def __init__(self, expert: Expert, kb: KnowledgeBase) -> None:
        self.expert, self._numbers = expert, {name: number for number, name in enumerate(expert.relations)}
        numbers = {name: number for number, name in enumerate(expert.objects)}
        self.rows: Ints = freeze(np.array([numbers.get(name, -1) for name in kb.objects], np.int32))
        """Shape (objects,): the row of each object; −1 for those that the expert does not know."""
        columns = 2 * expert.rank
        padded = np.zeros((-(-len(self.rows) // TILE) * TILE, columns), np.float32)
        padded[: len(self.rows)] = np.where(self.rows[:, None] >= 0, expert.object_vectors[self.rows], 0)
        tiles = padded.reshape(-1, TILE, columns).transpose(0, 2, 1)
        self.tiles: Reals = freeze(tiles.reshape(-1))

    def question(self, code: int, fixed: int) -> Reals | None:
        """Shape (2 · rank,): the fixed object turned by a relation's position; None if the object is not known."""
        row = int(self.rows[fixed])
        if row < 0:
            return None
        own = self.expert.object_vectors[row] + self.expert.center
        turned = np.empty(len(own), np.float32)
        nothing = np.zeros(1, np.int32)
        turn(own, self.expert.relation_vectors[code], nothing, nothing, len(own), turned)
        return freeze(turned)

    def code(self, relation: str, position: int) -> int | None:
        """The number of a relation's position; None if the expert does not know the relation."""
        number = self._numbers.get(relation)
        return None if number is None else 2 * number + position

    def similar_facts(self, kb: KnowledgeBase, relation: str, objects: Sequence[int], hidden: Longs) -> list[int]:
        """The known facts of a relation with the most similar objects, by id: those of the largest mean cosine."""
        facts = kb.tuples(relation)
        ids = kb.fact_ids(kb.content.relations.find(relation) or 0, facts)
        known = (self.rows[facts] >= 0).all(axis=1) & ~np.isin(ids, hidden) & (facts != np.array(objects)).any(axis=1)
        facts, ids = facts[known], ids[known]
        cosines = sum((self._cosines(facts[:, i], objects[i]) for i in range(2)), np.zeros(len(facts))) / 2
        best = np.argsort(-cosines, kind="stable")[:MAX_SIMILAR_FACTS]
        return [int(ids[row]) for row in best.tolist() if cosines[row] >= MIN_COSINE]

    def _cosines(self, others: Ints, obj: int) -> Floats:
        """Shape (others,), float64: the cosine between the vectors of one object and of each of others."""
        distinct, rows = np.unique(others, return_inverse=True)
        vectors = self.expert.object_vectors[self.rows[distinct]].astype(np.float64)
        own = self.expert.object_vectors[self.rows[obj]].astype(np.float64)
        sizes = np.sqrt((vectors * vectors).sum(axis=1) * (own * own).sum())
        cosines: Floats = (vectors * own).sum(axis=1) / np.maximum(sizes, 1e-12)
        return cosines[rows]

    def of_relation(self, relation: str, weights: Sequence[float]) -> tuple[PositionExpert | None, ...]:
        """The expert at each position of a relation, with its weight there."""
        found = []
        for position, weight in enumerate(weights):
            code = self.code(relation, position)
            known = code is not None and weight > 0
            found.append(PositionExpert(self, int(code or 0), float(weight)) if known else None)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class PositionExpert:
    """The expert at one position of a relation, with its weight."""

    bound: BoundExpert
    code: int
    weight: float

    def add_to(self, own: Floats, fixed: int) -> tuple[Floats, float] | None:
        """The scores of all candidates with the expert's share, and the sum of their exponentials.

        None if the expert does not know the fixed object.
        """
        question = self.bound.question(self.code, fixed)
        if question is None:
            return None
        out = np.empty(len(own))
        total = add_similar(
            self.bound.tiles, question, self.weight, own, np.empty(TILE, np.float32), np.empty(TILE), out
        )
        return freeze(out), total

    def score(self, fixed: int, candidate: int) -> float | None:
        """What the expert says of one candidate, without weight; None if it does not know the fixed object."""
        found = self.scores(fixed)
        return None if found is None else float(found[candidate])

    def scores(self, fixed: int) -> Floats | None:
        """Shape (objects,), float64: what the expert says of each candidate, relative to their mean; without weight."""
        own = np.zeros(len(self.bound.rows))
        found = PositionExpert(self.bound, self.code, 1.0).add_to(freeze(own), fixed)
        return None if found is None else found[0]
