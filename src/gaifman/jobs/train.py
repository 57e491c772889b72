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

from gaifman.completion import Completion, PartStore, RelationModel, load, train_completion
from gaifman.config import ProgressCallback
from gaifman.errors import FormulaError, InputError, KnowledgeBaseError, similar_names
from gaifman.features.feature_sets import FEATURE_SET_NAMES, FeatureSet, parse_phi
from gaifman.io.files import atomic_write, leftover_files
from gaifman.io.model_file import Arrays
from gaifman.jobs.run import Run
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.parser import parse_query
from gaifman.model import GaifmanModel
from gaifman.model_card import model_card
from gaifman.sampling.constraints import Constraints, parse_constraints
from gaifman.training import Callback, TrainingConfig

Model = GaifmanModel | Completion
KB_TASK, MODEL_TASK, RELATION_PREFIX = "knowledge base", "model", "relation "
"""Names of tasks; those of relations begin with the prefix."""


class TrainingInterrupted(Exception):
    """The work was asked to stop, and has written down how far it is."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file, and the name that errors call it by."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """What is to be trained, as a run keeps it."""

    config: Mapping[str, Any]
    """Settings of `TrainingConfig`."""
    query: str | None = None
    """None for a completion."""
    relations: tuple[str, ...] | None = None
    """Of a completion; None for all."""
    phi: SourceText | None = None
    """A `.phi` file; None for a named set."""
    constraints: SourceText | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"config": dict(self.config)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TrainingSpec:
        """What `as_dict` gave, also after a way through JSON."""
        files = {name: SourceText(**fields[name]) if fields[name] else None for name in ("phi", "constraints")}
        relations = None if fields["relations"] is None else tuple(fields["relations"])
        return cls(fields["config"], fields["query"], relations, **files)

    def check(self) -> None:
        """Say what is wrong, as far as that shows without a knowledge base: before anything is begun or replaced."""
        learning = TrainingConfig.from_settings(self.config)
        learning.make_base_model()
        if self.query is not None and self.relations:
            raise FormulaError("a query is given and a relation too", hint="--relation is for training without QUERY")
        if self.query is not None:
            parse_query(self.query)
        if self.phi:
            parse_phi(self.phi.text, source=self.phi.name)
        elif learning.phi not in FEATURE_SET_NAMES:
            raise InputError(
                f"there is no feature set or file {learning.phi}",
                suggestions=similar_names(learning.phi, FEATURE_SET_NAMES),
                hint=f"a .phi file, or one of {', '.join(FEATURE_SET_NAMES)}",
            )
        if self.constraints:
            parse_constraints(self.constraints.text, source=self.constraints.name)

    def feature_set(self, kb: KnowledgeBase) -> str | FeatureSet:
        """Φ; for a completion it must fit relations of every arity that is learnt, and says so before they are."""
        named = str(self.config["phi"])
        if self.phi is None:
            return named
        found = parse_phi(self.phi.text, kb, source=self.phi.name, unknown_objects=True)
        arities = {name: relation.arity for name, relation in kb.relations.items()}
        if self.query is None:
            for width in sorted({arities[name] for name in self.relation_names(kb)}):
                found.expand(arities, width)
        return FeatureSet(found.features, named)

    def load_constraints(self, kb: KnowledgeBase) -> Constraints | None:
        """The constraints."""
        if self.constraints is None:
            return None
        query = None if self.query is None else parse_query(self.query, kb)
        return parse_constraints(self.constraints.text, kb, query=query, source=self.constraints.name)

    def relation_names(self, kb: KnowledgeBase) -> list[str]:
        """The relations of a completion."""
        names = sorted(kb.relations) if self.relations is None else sorted(set(self.relations))
        for name in names:
            if name not in kb.relations:
                raise KnowledgeBaseError(f"there is no relation {name}", suggestions=similar_names(name, kb.relations))
        return names


class ProgressCounter:
    """Counts examples of all tasks and threads, tells whoever wants to know, and says when to stop."""

    def __init__(self, report: ProgressCallback | None = None, should_stop: Callable[[], bool] = lambda: False) -> None:
        self.should_stop = should_stop
        self._report = report
        self._planned: dict[str, int] = {}
        self._done: dict[str, int] = {}
        self._mutex = threading.Lock()

    @property
    def counts(self) -> tuple[int, int]:
        """How many examples are done, of how many."""
        return sum(self._done.values()), sum(self._planned.values())

    def plan(self, sizes: Mapping[str, int], done: Iterable[str] = ()) -> None:
        """Tasks with about so many examples, of which some are done already."""
        self._planned.update(sizes)
        self._done.update({task: sizes[task] for task in done if task in sizes})

    def begin(self, task: str, total: int, done: int) -> None:
        """A task begins, or goes on: now it is known how many examples it has."""
        with self._mutex:
            self._planned[task] = total
            self._done[task] = min(done, total)
            self._send_report()

    def add(self, task: str, examples: int) -> None:
        """So many more of a task; corruptions that cannot be found make them fewer than was planned."""
        with self._mutex:
            self._done[task] = min(self._done[task] + examples, self._planned[task])
            self._send_report()

    def end(self, task: str) -> None:
        """A task is done, however many examples it took."""
        with self._mutex:
            self._done[task] = self._planned[task]
            self._send_report()

    def _send_report(self) -> None:
        if self._report:
            self._report("training", *self.counts)


class RunCallback(Callback):
    """Looks on for one task of a run: checkpoints, the log, the tally."""

    def __init__(self, run: Run, task: str, progress: ProgressCounter) -> None:
        self._run, self._task, self._tally = run, task, progress

    def load_checkpoint(self) -> tuple[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]] | None:
        found = self._run.load_checkpoint(self._task)
        if found:
            epoch, block = found[1]["position"][:2]
            self._run.log("resume", task=self._task, epoch=epoch, block=block)
        return found

    def on_train_begin(self, total_examples: int, done_examples: int) -> None:
        self._tally.begin(self._task, total_examples, done_examples)

    def on_block(self, examples: int, state: Callable[[], tuple[Arrays, dict[str, Any]]]) -> None:
        self._tally.add(self._task, examples)
        stop = self._tally.should_stop()
        if stop or self._run.checkpoint_due(self._task):
            self._run.checkpoint(self._task, *state(), force=True)
        if stop:
            raise TrainingInterrupted

    def on_epoch_end(self, epoch: int, loss: float, held_out_loss: float | None) -> None:
        self._run.log("epoch", task=self._task, epoch=epoch, loss=loss, held_out_loss=held_out_loss)


class RunPartStore(PartStore):
    """Keeps the relations of a completion in a run."""

    def __init__(self, run: Run, progress: ProgressCounter) -> None:
        self._run, self._tally, self._done = run, progress, run.finished_tasks()

    def load(self, relation: str) -> RelationModel | None:
        if RELATION_PREFIX + relation in self._done:
            return self._run.load_task(RELATION_PREFIX + relation)
        if self._tally.should_stop():
            raise TrainingInterrupted
        return None

    def save(self, relation: str, part: RelationModel) -> None:
        self._run.save_task(RELATION_PREFIX + relation, *part)
        about = {name: value for name, value in part[1].items() if name != "name"}
        self._run.log("relation", relation=relation, **about)
        self._tally.end(RELATION_PREFIX + relation)

    def callback(self, relation: str) -> Callback:
        return RunCallback(self._run, RELATION_PREFIX + relation, self._tally)


def run_training(
    run: Run,
    kb: KnowledgeBase,
    target: Path,
    *,
    threads: int | None = None,
    report: ProgressCallback | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_model: Callable[[Model], None] = lambda _: None,
) -> Model:
    """Train what a run was begun for, from where it stands, and write the model and its card.

    `ready` is given the model before the run ends, so that what it makes of it survives a kill too. Where `stop` says
    so, `TrainingInterrupted` is raised once all is kept.
    """
    order = TrainingSpec.from_dict(run.settings["spec"])
    _check_same_kb(run, kb)
    run.log(
        "start", facts=len(kb), fingerprint=kb.fingerprint, done=len(run.finished_tasks() - {KB_TASK}), threads=threads
    )
    if report:
        report("preparing", 0, None)
    try:
        model = _train(run, order, kb, ProgressCounter(report, should_stop), threads)
    except TrainingInterrupted:
        run.log("stop")
        raise
    on_model(model)
    _write_card(run, model, target)
    run.log("end", **model.meta["metrics"])
    run.finish(target, model.save)
    return model


def finish_cleanup(run: Run, target: Path) -> Model | None:
    """The model of a run that was killed while it tidied up, which is done now; None where there is more to do."""
    if not run.result_path:
        return None
    run.finish(target, lambda _: None)
    return load(target)


def has_progress(run: Run) -> bool:
    """Whether anything was learnt that would be lost with the run."""
    return run.has_checkpoints() or bool(run.finished_tasks() - {KB_TASK})


def _train(run: Run, spec: TrainingSpec, kb: KnowledgeBase, progress: ProgressCounter, threads: int | None) -> Model:
    learning = TrainingConfig.from_settings(spec.config)
    phi, rules = spec.feature_set(kb), spec.load_constraints(kb)
    if spec.query is not None:
        model = GaifmanModel.from_config(spec.query, learning, phi)
        return model.fit(kb, constraints=rules, threads=threads, callback=RunCallback(run, MODEL_TASK, progress))
    names = spec.relation_names(kb)
    progress.plan(
        {RELATION_PREFIX + name: _expected_examples(learning, kb.relations[name].count) for name in names},
        run.finished_tasks(),
    )
    desk = RunPartStore(run, progress)
    return train_completion(kb, learning, names, phi=phi, constraints=rules, threads=threads, store=desk)


def _expected_examples(config: TrainingConfig, answers: int) -> int:
    """How many examples a relation will be learnt from, about."""
    examples = int(answers * (1 - config.holdout)) * (config.positives + config.negatives)
    return examples * config.num_epochs(examples, config.make_base_model().epochs)


def _write_card(run: Run, model: Model, target: Path) -> None:
    path = target.with_name(f"{target.name}.md")
    for left in leftover_files(path) if run.was_resumed else ():
        left.unlink(missing_ok=True)
    command = run.settings.get("command")
    with atomic_write(path) as temporary:
        text = model_card(model.meta | ({"command": command} if command else {}))
        temporary.write_text(text, encoding="utf-8")


def _check_same_kb(run: Run, kb: KnowledgeBase) -> None:
    """A run goes on with the knowledge base it was begun with, or not at all."""
    if KB_TASK not in run.finished_tasks():
        run.save_task(KB_TASK, {}, {"fingerprint": kb.fingerprint})
    elif run.load_task(KB_TASK)[1]["fingerprint"] != kb.fingerprint:
        raise InputError(
            "the knowledge base is not the one that the run was begun with",
            hint="put it back as it was, or begin anew with what it is now: gaifman train … --force",
        )
