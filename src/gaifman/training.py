"""Training as a run: stopped or killed at any time, it is resumed, and ends with the same bytes.

What a run was asked for stands in its folder before anything else is done. A relation that is learnt is kept there at
once; one that takes long leaves a checkpoint now and then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from gaifman.cards import card
from gaifman.completion import Completion, Part, load
from gaifman.constraints import Constraints, parse_constraints
from gaifman.errors import FormulaError, InputError, KnowledgeError
from gaifman.io.files import abandoned, replaced
from gaifman.kb import KnowledgeBase
from gaifman.learning import Arrays, Learning, Watch
from gaifman.model import GaifmanModel
from gaifman.names import nearest
from gaifman.parser import parse_query
from gaifman.phi import NAMED, FeatureSet, parse_phi
from gaifman.runs import Run
from gaifman.school import Desk, complete

Report = Callable[[str, int, int | None], None]
Model = GaifmanModel | Completion
KNOWN, MODEL, PREFIX = "knowledge base", "model", "relation "
"""Names of tasks; those of relations begin with the prefix."""


class Interrupted(Exception):
    """The work was asked to stop, and has written down how far it is."""


@dataclass(frozen=True, slots=True)
class Given:
    """The text of a file, and the name that errors call it by."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be trained, as a run keeps it."""

    learning: Mapping[str, Any]
    """Settings of `Learning`."""
    query: str | None = None
    """None for a completion."""
    relations: tuple[str, ...] | None = None
    """Of a completion; None for all."""
    phi: Given | None = None
    """A `.phi` file; None for a named set."""
    constraints: Given | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"learning": dict(self.learning)}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Order:
        """What `as_dict` gave, also after a way through JSON."""
        files = {name: Given(**fields[name]) if fields[name] else None for name in ("phi", "constraints")}
        relations = None if fields["relations"] is None else tuple(fields["relations"])
        return cls(fields["learning"], fields["query"], relations, **files)

    def check(self) -> None:
        """Say what is wrong, as far as that shows without a knowledge base: before anything is begun or replaced."""
        learning = Learning.of(self.learning)
        learning.new_base()
        if self.query is not None and self.relations:
            raise FormulaError("a query is given and a relation too", hint="--relation is for training without QUERY")
        if self.query is not None:
            parse_query(self.query)
        if self.phi:
            parse_phi(self.phi.text, source=self.phi.name)
        elif learning.phi not in NAMED:
            raise InputError(
                f"there is no feature set or file {learning.phi}",
                near=nearest(learning.phi, NAMED),
                hint=f"a .phi file, or one of {', '.join(NAMED)}",
            )
        if self.constraints:
            parse_constraints(self.constraints.text, source=self.constraints.name)

    def features(self, kb: KnowledgeBase) -> str | FeatureSet:
        """Φ; for a completion it must fit relations of every arity that is learnt, and says so before they are."""
        named = str(self.learning["phi"])
        if self.phi is None:
            return named
        found = parse_phi(self.phi.text, kb, source=self.phi.name, unknown_objects=True)
        arities = {name: relation.arity for name, relation in kb.relations.items()}
        if self.query is None:
            for width in sorted({arities[name] for name in self.names(kb)}):
                found.expanded(arities, width)
        return FeatureSet(found.features, named)

    def rules(self, kb: KnowledgeBase) -> Constraints | None:
        """The constraints."""
        if self.constraints is None:
            return None
        query = None if self.query is None else parse_query(self.query, kb)
        return parse_constraints(self.constraints.text, kb, query=query, source=self.constraints.name)

    def names(self, kb: KnowledgeBase) -> list[str]:
        """The relations of a completion."""
        names = sorted(kb.relations) if self.relations is None else sorted(set(self.relations))
        for name in names:
            if name not in kb.relations:
                raise KnowledgeError(f"there is no relation {name}", near=nearest(name, kb.relations))
        return names


class Tally:
    """Counts examples of all tasks and threads, tells whoever wants to know, and says when to stop."""

    def __init__(self, report: Report | None = None, stop: Callable[[], bool] = lambda: False) -> None:
        self.stop = stop
        self._report = report
        self._planned: dict[str, int] = {}
        self._done: dict[str, int] = {}
        self._guard = threading.Lock()

    @property
    def state(self) -> tuple[int, int]:
        """How many examples are done, of how many."""
        return sum(self._done.values()), sum(self._planned.values())

    def plan(self, sizes: Mapping[str, int], done: Iterable[str] = ()) -> None:
        """Tasks with about so many examples, of which some are done already."""
        self._planned.update(sizes)
        self._done.update({task: sizes[task] for task in done if task in sizes})

    def begin(self, task: str, total: int, done: int) -> None:
        """A task begins, or goes on: now it is known how many examples it has."""
        with self._guard:
            self._planned[task] = total
            self._done[task] = min(done, total)
            self._tell()

    def add(self, task: str, examples: int) -> None:
        """So many more of a task; corruptions that cannot be found make them fewer than was planned."""
        with self._guard:
            self._done[task] = min(self._done[task] + examples, self._planned[task])
            self._tell()

    def end(self, task: str) -> None:
        """A task is done, however many examples it took."""
        with self._guard:
            self._done[task] = self._planned[task]
            self._tell()

    def _tell(self) -> None:
        if self._report:
            self._report("learning", *self.state)


class RunWatch(Watch):
    """Looks on for one task of a run: checkpoints, the log, the tally."""

    def __init__(self, run: Run, task: str, tally: Tally) -> None:
        self._run, self._task, self._tally = run, task, tally

    def saved(self) -> tuple[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]] | None:
        found = self._run.checkpointed(self._task)
        if found:
            passed, block = found[1]["at"][:2]
            self._run.log("resume", task=self._task, passed=passed, block=block)
        return found

    def begins(self, total: int, done: int) -> None:
        self._tally.begin(self._task, total, done)

    def block(self, examples: int, state: Callable[[], tuple[Arrays, dict[str, Any]]]) -> None:
        self._tally.add(self._task, examples)
        stop = self._tally.stop()
        if stop or self._run.due(self._task):
            self._run.checkpoint(self._task, *state(), now=True)
        if stop:
            raise Interrupted

    def passed(self, number: int, loss: float, held: float | None) -> None:
        self._run.log("pass", task=self._task, number=number, loss=loss, held=held)


class RunDesk(Desk):
    """Keeps the relations of a completion in a run."""

    def __init__(self, run: Run, tally: Tally) -> None:
        self._run, self._tally, self._done = run, tally, run.done()

    def kept(self, relation: str) -> Part | None:
        if PREFIX + relation in self._done:
            return self._run.taken(PREFIX + relation)
        if self._tally.stop():
            raise Interrupted
        return None

    def keep(self, relation: str, part: Part) -> None:
        self._run.keep(PREFIX + relation, *part)
        about = {name: value for name, value in part[1].items() if name != "name"}
        self._run.log("relation", relation=relation, **about)
        self._tally.end(PREFIX + relation)

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
    ready: Callable[[Model], None] = lambda _: None,
) -> Model:
    """Train what a run was begun for, from where it stands, and write the model and its card.

    `ready` is given the model before the run ends, so that what it makes of it survives a kill too. Where `stop` says
    so, `Interrupted` is raised once all is kept.
    """
    order = Order.of(run.settings["order"])
    _same(run, kb)
    run.log("start", facts=len(kb), fingerprint=kb.fingerprint, done=len(run.done() - {KNOWN}), threads=threads)
    if report:
        report("preparing", 0, None)
    try:
        model = _trained(run, order, kb, Tally(report, stop), threads)
    except Interrupted:
        run.log("stop")
        raise
    ready(model)
    _write_card(run, model, target)
    run.log("end", **model.meta["metrics"])
    run.finish(target, model.save)
    return model


def ended(run: Run, target: Path) -> Model | None:
    """The model of a run that was killed while it tidied up, which is done now; None where there is more to do."""
    if not run.finished:
        return None
    run.finish(target, lambda _: None)
    return load(target)


def begun(run: Run) -> bool:
    """Whether anything was learnt that would be lost with the run."""
    return run.doing() or bool(run.done() - {KNOWN})


def _trained(run: Run, order: Order, kb: KnowledgeBase, tally: Tally, threads: int | None) -> Model:
    learning = Learning.of(order.learning)
    settings = {name: value for name, value in learning.as_dict().items() if name != "phi"}
    phi, rules = order.features(kb), order.rules(kb)
    if order.query is not None:
        model = GaifmanModel(order.query, phi=phi, **settings)
        return model.fit(kb, constraints=rules, threads=threads, watch=RunWatch(run, MODEL, tally))
    names = order.names(kb)
    tally.plan({PREFIX + name: _size(learning, kb.relations[name].count) for name in names}, run.done())
    desk = RunDesk(run, tally)
    return complete(kb, names, phi=phi, constraints=rules, threads=threads, desk=desk, **settings)


def _size(learning: Learning, answers: int) -> int:
    """How many examples a relation will be learnt from, about."""
    examples = int(answers * (1 - learning.holdout)) * (learning.positives + learning.negatives)
    return examples * learning.passes(examples, learning.new_base().passes)


def _write_card(run: Run, model: Model, target: Path) -> None:
    path = target.with_name(f"{target.name}.md")
    for left in abandoned(path) if run.resumed else ():
        left.unlink(missing_ok=True)
    command = run.settings.get("command")
    with replaced(path) as temporary:
        text = card(model.meta | ({"command": command} if command else {}))
        temporary.write_text(text, encoding="utf-8")


def _same(run: Run, kb: KnowledgeBase) -> None:
    """A run goes on with the knowledge base it was begun with, or not at all."""
    if KNOWN not in run.done():
        run.keep(KNOWN, {}, {"fingerprint": kb.fingerprint})
    elif run.taken(KNOWN)[1]["fingerprint"] != kb.fingerprint:
        raise InputError(
            "the knowledge base is not the one that the run was begun with",
            hint="put it back as it was, or begin anew with what it is now: gaifman train … --force",
        )
