"""Training as a run: it can be stopped or killed at any time, and resumed to the same bytes.

The settings are written to the run folder first. Each trained relation is saved there, and a relation that takes long
leaves checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from gaifman.completion import Completion, PartStore, RelationModel, check_relations, load, train_completion
from gaifman.config import ProgressCallback
from gaifman.errors import FormulaError, InputError, similar_names
from gaifman.features.feature_sets import FEATURE_SET_NAMES, FeatureSet, Phi, parse_phi
from gaifman.io.files import atomic_write, leftover_files
from gaifman.io.model_file import Arrays
from gaifman.jobs.run import ProgressCounter, Run
from gaifman.kb.knowledge_base import KnowledgeBase, KnowledgeBases, as_collection, unify_schemas
from gaifman.listwise.hide_choice import HideChoice
from gaifman.listwise.ranker import listwise_config
from gaifman.listwise.training import check_base, resolve_config
from gaifman.logic.ast import relation_query
from gaifman.logic.parser import parse_query
from gaifman.model import GaifmanModel
from gaifman.model_card import model_card
from gaifman.sampling.constraints import Constraints, parse_constraints
from gaifman.training import LISTWISE, Callback, TrainingConfig

TrainedModel = GaifmanModel | Completion
KB_TASK, HIDE_TASK, MODEL_TASK, EXPERT_TASK = "knowledge base", "hidden in training", "model", "expert"
RELATION_PREFIX, FITTED_PREFIX = "relation ", "rankers "
"""Names of tasks; those of relations, and of their rankers before the expert is weighed, begin with a prefix."""


class TrainingInterrupted(Exception):
    """Training was asked to stop, and has written its checkpoints."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file, and its name for error messages."""

    name: str
    text: str


def phi_file_name(path: str) -> str:
    """The name of the feature set in a file: without folder and ending, unless it is that of another set.

    >>> phi_file_name("sets/mine.phi"), phi_file_name("paper.phi")
    ('mine', 'paper.phi')
    """
    stem = Path(path).stem
    return Path(path).name if stem in FEATURE_SET_NAMES else stem


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """What to train, as the run folder records it."""

    config: Mapping[str, Any]
    """Settings of `TrainingConfig`."""
    query: str | None = None
    """None for a completion."""
    relations: tuple[str, ...] | None = None
    """Relations of a completion; None for all."""
    phi: tuple[str | SourceText, ...] = ()
    """Names of feature sets and texts of `.phi` files; empty for the named set of the settings."""
    constraints: SourceText | None = None
    """Declared constraints."""
    find_constraints: bool = True
    """Whether constraints that are found in the data act, too."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self) | {"config": dict(self.config)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TrainingSpec:
        """Load what `as_dict` returned."""
        phi = tuple(part if isinstance(part, str) else SourceText(**part) for part in fields["phi"])
        constraints = SourceText(**fields["constraints"]) if fields["constraints"] else None
        relations = None if fields["relations"] is None else tuple(fields["relations"])
        find = bool(fields["find_constraints"])
        return cls(fields["config"], fields["query"], relations, phi, constraints, find)

    def check(self) -> None:
        """Raise an error for what is wrong without looking at a knowledge base."""
        config = TrainingConfig.from_settings(self.config)
        if self.query is not None and self.relations:
            raise FormulaError("give a query or relations, not both", hint="--relation is for training without QUERY")
        check_base(config, relation_query("r", 2) if self.query is None else parse_query(self.query))
        for part in self.phi or (config.phi,):
            if isinstance(part, SourceText):
                parse_phi(part.text, source=part.name)
            elif part not in FEATURE_SET_NAMES:
                raise InputError(
                    f"there is no feature set or file {part}",
                    suggestions=similar_names(part, FEATURE_SET_NAMES),
                    hint=f"a .phi file, or one of {', '.join(FEATURE_SET_NAMES)}",
                )
        if self.constraints:
            parse_constraints(self.constraints.text, source=self.constraints.name)

    def feature_set(self, kb: KnowledgeBase) -> Phi:
        """Return Φ. For a network, its files must fit the arities of all relations to train."""
        name = str(self.config["phi"])
        if not self.phi:
            return name
        parts = [part if isinstance(part, str) else self._parse(part, kb) for part in self.phi]
        arities = {relation: info.arity for relation, info in kb.relations.items()}
        if self.query is None and self._resolved().base != LISTWISE:
            for arity in sorted({arities[relation] for relation in check_relations(kb, self.relations)}):
                for part in parts:
                    if isinstance(part, FeatureSet):
                        part.expand(arities, arity)
        return parts

    def _parse(self, part: SourceText, kb: KnowledgeBase) -> FeatureSet:
        features = parse_phi(part.text, kb, source=part.name, unknown_objects=True)
        return FeatureSet(features.features, phi_file_name(part.name))

    def _resolved(self) -> TrainingConfig:
        query = relation_query("r", 2) if self.query is None else parse_query(self.query)
        return resolve_config(TrainingConfig.from_settings(self.config), query)

    def load_constraints(self, kb: KnowledgeBase) -> Constraints:
        """Return the declared constraints."""
        if self.constraints is None:
            return Constraints(find=self.find_constraints)
        query = None if self.query is None else parse_query(self.query, kb)
        return parse_constraints(self.constraints.text, kb, query=query, source=self.constraints.name)


@dataclass(frozen=True, slots=True)
class RunContext:
    """A run with its progress and the function that tells whether to stop."""

    run: Run
    progress: ProgressCounter
    should_stop: Callable[[], bool]


class RunCallback(Callback):
    """Writes the checkpoints, log and progress of one task."""

    def __init__(self, context: RunContext, task: str) -> None:
        self._context, self._run, self._task = context, context.run, task

    def load_checkpoint(self) -> tuple[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]] | None:
        found = self._run.load_checkpoint(self._task)
        if found:
            epoch, block = found[1]["position"][:2]
            self._run.log("resume", task=self._task, epoch=epoch, block=block)
        return found

    def on_train_begin(self, total_examples: int, done_examples: int) -> None:
        self._context.progress.begin(self._task, total_examples, done_examples)

    def on_block(self, examples: int, state: Callable[[], tuple[Arrays, dict[str, Any]]]) -> None:
        self._context.progress.add(self._task, examples)
        stop = self._context.should_stop()
        if stop or self._run.checkpoint_due(self._task):
            self._run.checkpoint(self._task, *state(), force=True)
        if stop:
            raise TrainingInterrupted

    def on_epoch_end(self, epoch: int, loss: float, held_out_loss: float | None) -> None:
        self._run.log("epoch", task=self._task, epoch=epoch, loss=loss, held_out_loss=held_out_loss)

    def on_part_end(self, state: Callable[[], tuple[Arrays, dict[str, Any]]]) -> None:
        self._run.checkpoint(self._task, *state(), force=True)

    def for_expert(self) -> Callback:
        return RunCallback(self._context, EXPERT_TASK)


class RunPartStore(PartStore):
    """Saves the relations of a completion in a run."""

    def __init__(self, context: RunContext) -> None:
        self._context, self._run, self._done = context, context.run, context.run.finished_tasks()

    def load(self, relation: str) -> RelationModel | None:
        if RELATION_PREFIX + relation in self._done:
            return self._run.load_task(RELATION_PREFIX + relation)
        if self._context.should_stop():
            raise TrainingInterrupted
        return None

    def save(self, relation: str, part: RelationModel) -> None:
        self._run.save_task(RELATION_PREFIX + relation, *part)
        fields = {name: value for name, value in part[1].items() if name != "name"}
        self._run.log("relation", relation=relation, **fields)
        self._context.progress.end(RELATION_PREFIX + relation)

    def callback(self, relation: str) -> Callback:
        return RunCallback(self._context, RELATION_PREFIX + relation)

    def load_fitted(self, relation: str) -> Arrays | None:
        if FITTED_PREFIX + relation in self._done:
            return self._run.load_task(FITTED_PREFIX + relation)[0]
        self.check_stop()
        return None

    def save_fitted(self, relation: str, arrays: Arrays) -> None:
        self._run.save_task(FITTED_PREFIX + relation, arrays, {})
        self._run.log("rankers", relation=relation)

    def expert_callback(self) -> Callback:
        return RunCallback(self._context, EXPERT_TASK)

    def load_choice(self) -> HideChoice | None:
        return HideChoice.from_dict(self._run.load_task(HIDE_TASK)[1]["choice"]) if HIDE_TASK in self._done else None

    def save_choice(self, choice: HideChoice) -> None:
        self._run.save_task(HIDE_TASK, {}, {"choice": choice.as_dict()})
        self._run.log("hide", **choice.as_dict())

    def check_stop(self) -> None:
        if self._context.should_stop():
            raise TrainingInterrupted


def run_training(
    run: Run,
    kb: KnowledgeBases,
    target: Path,
    *,
    valid: KnowledgeBase | None = None,
    threads: int | None = None,
    report: ProgressCallback | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_model: Callable[[TrainedModel], None] = lambda _: None,
) -> TrainedModel:
    """Start or resume the training of a run, and write the model and its card.

    `on_model` gets the model before the run ends, so that its work is repeated after a kill. When `should_stop()` is
    true, `TrainingInterrupted` is raised after the checkpoints are written.
    """
    spec = TrainingSpec.from_dict(run.settings["spec"])
    kbs = as_collection(kb)
    fingerprint = "+".join(each.fingerprint for each in [*kbs, *([] if valid is None else [valid])])
    _check_same_kb(run, fingerprint)
    done = count_trained(run)
    run.log("start", facts=sum(map(len, kbs)), fingerprint=fingerprint, done=done, threads=threads)
    if report:
        report("preparing", 0, None)
    try:
        model = _train(RunContext(run, ProgressCounter("training", report), should_stop), spec, kbs, valid, threads)
    except TrainingInterrupted:
        run.log("stop")
        raise
    on_model(model)
    _write_card(run, model, target)
    run.log("end", **model.meta["metrics"])
    run.finish(target, model.save)
    return model


def finish_cleanup(run: Run, target: Path) -> TrainedModel | None:
    """Finish a run that was killed after its result was written; return None if there is more to do."""
    if not run.result_path:
        return None
    run.finish(target, lambda _: None)
    return load(target)


def has_progress(run: Run) -> bool:
    """Return whether the run has trained anything."""
    return run.has_checkpoints() or len(run.finished_tasks() - {KB_TASK, HIDE_TASK}) > 0


def count_trained(run: Run) -> int:
    """Return the number of relations, or the model, that the run has trained."""
    return sum(not name.startswith(FITTED_PREFIX) for name in run.finished_tasks() - {KB_TASK, HIDE_TASK})


def _train(
    context: RunContext,
    spec: TrainingSpec,
    kbs: list[KnowledgeBase],
    valid: KnowledgeBase | None,
    threads: int | None,
) -> TrainedModel:
    config, unified = TrainingConfig.from_settings(spec.config), unify_schemas(kbs)
    phi, constraints = spec.feature_set(unified[0]), spec.load_constraints(unified[0])
    if spec.query is not None:
        model = GaifmanModel.from_config(spec.query, config, phi)
        callback = RunCallback(context, MODEL_TASK)
        model.fit(kbs, constraints=constraints, valid=valid, threads=threads, callback=callback)
        if valid is not None:
            context.run.log("hide", **model.meta["hide_choice"])
        return model
    names = check_relations(unified[0], spec.relations)
    counts = {name: sum(kb.relations[name].count for kb in unified) for name in names}
    sizes = {
        RELATION_PREFIX + name: _expected_examples(config, count, unified[0].relations[name].arity)
        for name, count in counts.items()
    }
    context.progress.plan(sizes, context.run.finished_tasks())
    store = RunPartStore(context)
    return train_completion(
        kbs, config, names, phi=phi, constraints=constraints, valid=valid, threads=threads, store=store
    )


def _expected_examples(config: TrainingConfig, answers: int, arity: int) -> int:
    """Return the approximate number of training examples of a relation."""
    config = resolve_config(config, relation_query("r", arity))
    if config.base == LISTWISE:
        return min(answers, listwise_config(config).questions) * arity
    examples = int(answers * (1 - config.holdout)) * (config.positives + config.negatives)
    return examples * config.num_epochs(examples, config.make_base_model().epochs)


def _write_card(run: Run, model: TrainedModel, target: Path) -> None:
    path = target.with_name(f"{target.name}.md")
    for left in leftover_files(path) if run.was_resumed else ():
        left.unlink(missing_ok=True)
    command = run.settings.get("command")
    with atomic_write(path) as temporary:
        text = model_card(model.meta | ({"command": command} if command else {}))
        temporary.write_text(text, encoding="utf-8")


def _check_same_kb(run: Run, fingerprint: str) -> None:
    """Refuse to resume a run with another knowledge base."""
    if KB_TASK not in run.finished_tasks():
        run.save_task(KB_TASK, {}, {"fingerprint": fingerprint})
    elif run.load_task(KB_TASK)[1]["fingerprint"] != fingerprint:
        raise InputError(
            "the knowledge base has changed since the run was started",
            hint="restore it, or start again with the new one: gaifman train … --force",
        )
