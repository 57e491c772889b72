"""Training as a run: stopped or killed at any time, it is resumed, and ends with the same bytes.

What a run was asked for stands in its folder before anything else is done. A relation that is learnt is kept there at
once; one that takes long leaves a checkpoint now and then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from gaifman.cards import card
from gaifman.completion import Completion, Part, load
from gaifman.constraints import Constraints, parse_constraints
from gaifman.errors import InputError
from gaifman.io.files import replaced
from gaifman.kb import KnowledgeBase
from gaifman.learning import Arrays, Learning, Watch
from gaifman.model import GaifmanModel
from gaifman.phi import FeatureSet, parse_phi
from gaifman.runs import Run
from gaifman.school import Desk, complete

Report = Callable[[str, int, int | None], None]
KNOWN, MODEL = "knowledge base", "model"
"""Names of tasks; relations have a prefix."""
PREFIX = "relation "


class Interrupted(Exception):
    """The work was asked to stop, and has written down how far it is."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be trained, as a run keeps it."""

    learning: Mapping[str, Any]
    """Settings of `Learning`."""
    query: str | None = None
    """None for a completion."""
    relations: tuple[str, ...] | None = None
    """Of a completion; None for all."""
    phi: str | None = None
    """The text of a `.phi` file; None for a named set."""
    constraints: str = ""
    """The text of a file of constraints."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        relations = None if self.relations is None else list(self.relations)
        return {
            "learning": dict(self.learning),
            "query": self.query,
            "relations": relations,
            "phi": self.phi,
            "constraints": self.constraints,
        }

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Order:
        """What `as_dict` gave."""
        relations = fields["relations"]
        return cls(
            fields["learning"],
            fields["query"],
            None if relations is None else tuple(relations),
            fields["phi"],
            fields["constraints"],
        )

    def features(self, kb: KnowledgeBase) -> str | FeatureSet:
        """Φ."""
        named = str(self.learning["phi"])
        if self.phi is None:
            return named
        return FeatureSet(parse_phi(self.phi, kb, source=f"{named}.phi", unknown_objects=True).features, named)

    def rules(self, kb: KnowledgeBase) -> Constraints | None:
        """The constraints."""
        return parse_constraints(self.constraints, kb) if self.constraints else None


@dataclass(slots=True)
class Tally:
    """Counts examples of all threads, tells whoever wants to know, and says when to stop."""

    report: Report | None
    stop: Callable[[], bool]
    total: int = 0
    done: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, total: int, done: int) -> None:
        """A task of `total` examples begins, where `done` are behind it; a completion has its total already."""
        self.total = self.total or total
        self.add(done)

    def add(self, examples: int) -> None:
        """So many more."""
        with self._guard:
            self.done += examples
            if self.report:
                self.report("learning", self.done, max(self.total, self.done))


class RunWatch(Watch):
    """Looks on for one task of a run: checkpoints, the log, the tally."""

    def __init__(self, run: Run, task: str, tally: Tally) -> None:
        self._run, self._task, self._tally = run, task, tally

    def saved(self) -> tuple[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]] | None:
        found = self._run.checkpointed(self._task)
        if found:
            self._run.log("resume", task=self._task, at=found[1]["at"])
        return found

    def begins(self, total: int, done: int) -> None:
        self._tally.begin(total, done)

    def block(self, examples: int, state: Callable[[], tuple[Arrays, dict[str, Any]]]) -> None:
        self._tally.add(examples)
        stop = self._tally.stop()
        if stop or self._run.due(self._task):
            self._run.checkpoint(self._task, *state(), now=True)
        if stop:
            raise Interrupted

    def passed(self, number: int, loss: float, held: float | None) -> None:
        self._run.log("pass", task=self._task, number=number, loss=loss, held=held)


class RunDesk(Desk):
    """Keeps the relations of a completion in a run."""

    def __init__(self, run: Run, tally: Tally, sizes: Mapping[str, int]) -> None:
        self._run, self._tally, self._sizes, self._done = run, tally, sizes, run.done()

    def kept(self, relation: str) -> Part | None:
        task = PREFIX + relation
        if task not in self._done:
            if self._tally.stop():
                raise Interrupted
            return None
        self._tally.add(self._sizes[relation])
        return self._run.taken(task)

    def keep(self, relation: str, part: Part) -> None:
        self._run.keep(PREFIX + relation, *part)
        about = {name: value for name, value in part[1].items() if name != "name"}
        self._run.log("relation", relation=relation, **about)

    def watch(self, relation: str) -> Watch:
        return RunWatch(self._run, PREFIX + relation, self._tally)


def carry_on(
    run: Run,
    kb: KnowledgeBase,
    target: Path,
    *,
    threads: int | None = None,
    report: Report | None = None,
    stop: Callable[[], bool] = lambda: False,
    command: str = "",
) -> GaifmanModel | Completion:
    """Train what a run was begun for, from where it stands, and write the model and its card."""
    if run.finished:  # killed while it was tidying up: nothing is left to learn
        run.finish(target, lambda _: None)
        return load(target, kb)
    order = Order.of(run.settings["order"])
    _same(run, kb)
    run.log("start", facts=len(kb), fingerprint=kb.fingerprint, done=len(run.done()))
    model = _trained(run, order, kb, Tally(report, stop), threads)
    with replaced(target.with_name(f"{target.name}.md")) as temporary:
        temporary.write_text(card({**model.meta, "file": target.name, "command": command}), encoding="utf-8")
    run.log("end", **model.meta["metrics"])
    run.finish(target, model.save)
    return model


def _trained(run: Run, order: Order, kb: KnowledgeBase, tally: Tally, threads: int | None) -> GaifmanModel | Completion:
    learning = Learning.of(order.learning)
    passes, examples = learning.new_base().passes, learning.positives + learning.negatives
    settings = {name: value for name, value in learning.as_dict().items() if name != "phi"}
    phi, rules = order.features(kb), order.rules(kb)
    if order.query is not None:
        model = GaifmanModel(order.query, phi=phi, **settings)
        return model.fit(kb, constraints=rules, threads=threads, watch=RunWatch(run, MODEL, tally))
    names = sorted(kb.relations) if order.relations is None else order.relations
    sizes = {name: kb.relations[name].count * passes * examples for name in names if name in kb.relations}
    tally.total = sum(sizes.values())
    desk = RunDesk(run, tally, sizes)
    return complete(kb, order.relations, phi=phi, constraints=rules, threads=threads, desk=desk, **settings)


def _same(run: Run, kb: KnowledgeBase) -> None:
    """A run goes on with the knowledge base it was begun with, or not at all."""
    if KNOWN not in run.done():
        run.keep(KNOWN, {}, {"fingerprint": kb.fingerprint})
    elif run.taken(KNOWN)[1]["fingerprint"] != kb.fingerprint:
        raise InputError(
            "the knowledge base is not the one that the run was begun with",
            hint="gaifman train --force begins anew with what it is now",
        )
