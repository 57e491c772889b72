"""Learning many relations of one knowledge base abreast.

Each relation is learnt by one thread, so the result does not hang on how many threads there are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.calibration import fit_calibration
from gaifman.completion import Completion, Part, query_of
from gaifman.constraints import Constraints
from gaifman.errors import KnowledgeError
from gaifman.examples import Examples
from gaifman.features import Evaluator
from gaifman.formulas import free
from gaifman.graph import Graph, graph_of
from gaifman.inputs import kinds_of
from gaifman.kb import KnowledgeBase
from gaifman.learning import Arrays, HeldOut, Learning, Scorer, Source, Trainer, Watch
from gaifman.names import nearest
from gaifman.network import BaseModel
from gaifman.parts import Trust, auc, described, known_losses, scorer_arrays, scorer_of
from gaifman.phi import FeatureSet, chosen
from gaifman.plans import plan_of
from gaifman.questions import Feature, query_position
from gaifman.tables import Ints

FEWEST = 2
"""Answers a relation must have to be learnt."""


class Desk:
    """Where the work on relations is written down: this one keeps all in memory and watches nothing."""

    def kept(self, relation: str) -> Part | None:
        """What was learnt of a relation before."""
        return None

    def keep(self, relation: str, part: Part) -> None:
        """A relation is learnt."""

    def watch(self, relation: str) -> Watch:
        """What looks on while a relation is learnt."""
        return Watch()


def complete(
    kb: KnowledgeBase,
    relations: Iterable[str] | None = None,
    *,
    phi: str | FeatureSet = "default",
    constraints: Constraints | None = None,
    threads: int | None = None,
    desk: Desk | None = None,
    **settings: Any,
) -> Completion:
    """Learn every relation of a knowledge base, or some. The settings are those of `Learning`."""
    named = phi if isinstance(phi, str) else phi.name or "given"
    learning = Learning.of({"phi": named, **settings})
    names = _chosen_relations(kb, relations)
    school = School(graph_of(kb), phi, learning, constraints)
    parts = school.parts(names, threads or len(os.sched_getaffinity(0)), desk or Desk())
    return school.completion(names, parts)


def _chosen_relations(kb: KnowledgeBase, relations: Iterable[str] | None) -> list[str]:
    if isinstance(relations, str):
        raise KnowledgeError(f"several relations are meant: write [{relations!r}], not {relations!r}")
    names = sorted(kb.relations) if relations is None else sorted(set(relations))
    for name in names:
        if name not in kb.relations:
            raise KnowledgeError(f"there is no relation {name}", near=nearest(name, kb.relations))
    if not names:
        raise KnowledgeError("the knowledge base has no relations to learn")
    return names


class School:
    """Learns relations of one knowledge base; what they share is made once."""

    def __init__(
        self, graph: Graph, phi: str | FeatureSet, learning: Learning, constraints: Constraints | None
    ) -> None:
        self.graph, self.phi, self.learning, self.constraints = graph, phi, learning, constraints
        self._ready: dict[int, tuple[Evaluator, Ints]] = {}
        self._guard = threading.Lock()

    def ready(self, width: int) -> tuple[Evaluator, Ints]:
        """The features of tuples of so many objects, made ready once, and their kinds."""
        with self._guard:
            if width not in self._ready:
                kb = self.graph.kb
                arities = {name: relation.arity for name, relation in kb.relations.items()}
                plan = plan_of(_fitting(chosen(self.phi, width, arities, kb.attributes, kb), width), kb, width)
                self._ready[width] = Evaluator(self.graph, plan), kinds_of(plan.features)
            return self._ready[width]

    def parts(self, names: Sequence[str], threads: int, desk: Desk) -> dict[str, Part]:
        """What is learnt of each relation: the largest first, so that no thread is left with one at the end."""
        kb = self.graph.kb
        waiting = iter(sorted(names, key=lambda name: (-kb.relations[name].count, name)))
        found: dict[str, Part] = {}
        failed = threading.Event()

        def work() -> None:
            try:
                for name in waiting:
                    if failed.is_set():
                        return
                    part = desk.kept(name)
                    if part is None:
                        part = self.part(name, desk.watch(name))
                        desk.keep(name, part)
                    found[name] = part
            except BaseException:
                failed.set()  # what one thread cannot do, the others need not go on for
                raise

        if threads < 2:
            work()
        else:
            with ThreadPoolExecutor(threads) as pool:
                for future in [pool.submit(work) for _ in range(threads)]:
                    future.result()
        return found

    def part(self, name: str, watch: Watch) -> Part:
        """Learn one relation; where that cannot be, only say so."""
        relation = self.graph.kb.relations[name]
        about: dict[str, Any] = {"name": name, "arity": relation.arity, "answers": relation.count, "trained": False}
        if relation.count < FEWEST:
            return {}, about | {"why": "fewer than two facts"}
        examples = Examples(self.graph, query_of(name, relation.arity), self.learning.recipe(), self.constraints)
        if self.learning.negatives and not len(next(examples.blocks(0)).corrupted):
            return {}, about | {"why": "every tuple is known"}
        evaluator, kinds = self.ready(relation.arity)
        if not len(kinds):
            return {}, about | {"why": "no feature fits"}
        trainer = Trainer([Source(evaluator, examples, kinds)], self.learning, self.learning.new_base())
        scorer = trainer.train(watch)
        held = trainer.held_out(scorer)
        arrays = scorer_arrays(scorer) | {"held/means": held.means, "held/targets": held.targets}
        area = auc(held.means, held.targets)
        measured = {"held_out": len(held.means), "auc": None if area is None else round(area, 6)}
        return arrays, about | {"trained": True, "losses": known_losses(scorer), **measured}

    def completion(self, names: Sequence[str], parts: Mapping[str, Part]) -> Completion:
        """All parts as one, with one calibration for all: a small relation has too few held-out tuples for its own."""
        trained = {name: arrays for name in names if (arrays := parts[name][0])}
        held = HeldOut(*(_together(trained.values(), f"held/{field}", np.zeros(0)) for field in ("means", "targets")))
        trust = Trust.of(held, self.learning.ratio)
        calibration = fit_calibration(held.means, held.targets, ratio=self.learning.ratio)
        kb = self.graph.kb
        arities = {name: kb.relations[name].arity for name in names}
        scorers: dict[str, Scorer] = {}
        features: dict[int, tuple[Feature, ...]] = {}
        for width in sorted({arities[name] for name in trained}):
            own = {name: arrays for name, arrays in trained.items() if arities[name] == width}
            used = np.unique(_together(own.values(), "inputs/features", np.zeros(0, np.int32)))
            evaluator, kinds = self.ready(width)
            features[width] = tuple(evaluator.plan.features[number] for number in used.tolist())
            scorers |= {
                name: _moved(arrays, used, kinds[used], self.learning.new_base()) for name, arrays in own.items()
            }
        meta: dict[str, Any] = {"kind": "completion", "relations": [parts[name][1] for name in names]}
        meta |= described(self.learning, self.learning.new_base(), [kb])
        meta["features"] = sum(map(len, features.values()))
        meta["metrics"] = {"answers": sum(kb.relations[name].count for name in names), **trust.metrics()}
        meta["calibration"] = trust.table()
        return Completion(self.learning, arities, features, scorers, calibration, meta, kb, trust)


def _fitting(features: FeatureSet, width: int) -> FeatureSet:
    """Without the features that speak of more objects: one set serves relations of all arities."""
    own = tuple(f for f in features if all(query_position(variable) <= width for variable in free(f)))
    return FeatureSet(own, features.name)


def _together(parts: Iterable[Arrays], name: str, none: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One array of all parts, one after another."""
    return np.concatenate([none, *(arrays[name] for arrays in parts)])


def _moved(arrays: Arrays, used: Ints, kinds: Ints, base: BaseModel) -> Scorer:
    """A scorer whose features are numbered among those that are used."""
    numbered = np.searchsorted(used, arrays["inputs/features"]).astype(np.int32)
    return scorer_of(arrays | {"inputs/features": numbered}, kinds, base)
