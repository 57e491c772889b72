"""Gaifman models: train on the answers of a query, then predict, rank, explain and save.

>>> import gaifman
>>> kb = gaifman.demo()
>>> model = gaifman.fit(kb, "borders(x, y)", size=10, options={"epochs": 1}, seed=1)
>>> model
<GaifmanModel: borders(x, y), radius 1, size 10, ... features, trained on 567 answers>
>>> model.probability("portugal", "spain").value > model.probability("portugal", "japan").value
True
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from gaifman._html import stack
from gaifman._serialization import (
    base_from_metadata,
    feature_metadata,
    features_from_metadata,
    losses_as_json,
    scorer_arrays,
    scorer_from_arrays,
    untrained_copy,
)
from gaifman.config import Deadline, check_int, check_threads, checked, checked_methods
from gaifman.errors import KnowledgeBaseError, similar_names
from gaifman.explain.attribution import explain_network
from gaifman.explain.explanation import DEFAULT_TOP, MAX_DRAWS, Explanation
from gaifman.explain.ranking import explain_ranking
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator, Reals
from gaifman.features.feature_sets import FeatureSet, Phi, added_features, phi_name
from gaifman.io.model_file import Arrays, model_bytes, parse_model, strip_prefix, translate_state_errors, write_model
from gaifman.kb.gaifman_graph import graph_of
from gaifman.kb.knowledge_base import KnowledgeBase, KnowledgeBases, as_collection, join_collection, unify_schemas
from gaifman.kb.tables import Floats, Ints
from gaifman.listwise.added import check_formulas
from gaifman.listwise.expert import BoundExpert, Expert
from gaifman.listwise.hide_choice import HideChoice, ValidationFacts
from gaifman.listwise.odds import fit_odds
from gaifman.listwise.ranker import Vocabulary, listwise_config
from gaifman.listwise.scoring import (
    ListwiseFirstPass,
    ListwisePredictor,
    RelationRankers,
    RelationScorer,
    Workspaces,
    expert_arrays,
    expert_metadata,
    rankers_arrays,
    rankers_from_arrays,
)
from gaifman.listwise.steps import StepIndex, build_steps
from gaifman.listwise.training import (
    ListwiseTrainer,
    check_expert_kbs,
    check_validation,
    listwise_report,
    measure_relation,
    rank_validation_facts,
    resolve_config,
    settings_for,
    train_beside_expert,
    train_expert,
)
from gaifman.logic.ast import Bindings, Feature, Query, used_symbols
from gaifman.logic.parser import parse_query
from gaifman.model_card import summary_html, training_metadata
from gaifman.models.base import BaseModel
from gaifman.models.calibration import Calibration, HeldOutReport
from gaifman.models.mlp import BASE_MODELS
from gaifman.models.scaling import feature_kinds
from gaifman.predict import (
    DEFAULT_MAX_DRAWS,
    DrawBudget,
    Estimate,
    Estimates,
    FallbackPredictor,
    NetworkPredictor,
    Predictor,
    Tuples,
)
from gaifman.ranking.candidates import (
    MAX_CANDIDATES,
    UNRESTRICTED,
    QueryPattern,
    RankingOptions,
    Restriction,
    model_pattern,
)
from gaifman.ranking.ranked_answers import FirstPass, NetworkFirstPass, RankedAnswers, rank_candidates
from gaifman.ranking.ranks import RANK_FIGURES, rank_held_out
from gaifman.sampling.constraints import (
    FOUND,
    Constraint,
    ConstraintChecker,
    Constraints,
    FoundConstraint,
    as_constraints,
    found_from_dict,
    parse_constraints,
)
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.found_constraints import constraints_to_use
from gaifman.threads import ProcessLock
from gaifman.training import (
    LISTWISE,
    Callback,
    Scorer,
    Trainer,
    TrainingConfig,
    prepare_training,
    training_sources,
)

DEFAULT_CONFIG = TrainingConfig()
"""The default of every training setting."""


@checked_methods
class Model(ABC):
    """A trained model with the knowledge base that it answers from: a `GaifmanModel` or a `Completion`.

    Predictions are safe to make from several threads.
    """

    config: TrainingConfig
    """The settings it was trained with."""
    calibration: Calibration
    """The map from mean scores to probabilities."""
    meta: dict[str, Any]
    """What its file says about it: settings, sizes, metrics."""
    held_out_report: HeldOutReport | None
    """Reliability on held-out tuples; None for a loaded model, whose file stores only the metrics."""
    _kb: KnowledgeBase | None
    _compiled: _CompiledFeatures | None

    def __init__(
        self,
        config: TrainingConfig,
        calibration: Calibration,
        meta: Mapping[str, Any],
        kb: KnowledgeBase | None,
        held_out_report: HeldOutReport | None,
    ) -> None:
        self.config, self.calibration, self.meta = config, calibration, dict(meta)
        self.held_out_report = held_out_report
        self._bind(kb)

    def _bind(self, kb: KnowledgeBase | None) -> None:
        """Answer from `kb` from now on."""
        self._kb, self._compiled, self._lock = kb, None, ProcessLock()

    def __getstate__(self) -> dict[str, Any]:
        """The model with its knowledge base, but without the features compiled for it."""
        return {name: value for name, value in vars(self).items() if name not in ("_compiled", "_lock")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._bind(self._kb)

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__setstate__(self.__getstate__())
        return other

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the bytes of the model's file, with the knowledge base; the state if there can be no file."""
        if not self._has_file():
            return _restore_state, (type(self), self.__getstate__())
        kept = {name: value for name, value in self.__getstate__().items() if name in _NOT_IN_FILE}
        return _restore_file, (type(self), model_bytes(*self.state()), kept)

    @abstractmethod
    def _has_file(self) -> bool:
        """Whether `save` writes a file that needs nothing else to be loaded."""

    def _repr_html_(self) -> str:
        title = repr(self)[1:-1]
        return summary_html(title, self.meta) if self.meta else stack(title)

    # What a subclass defines

    @abstractmethod
    def match_query(self, query: str | Query | None, bindings: Bindings | None = None) -> tuple[Query, QueryPattern]:
        """Match a query against the model: the query it was trained on, and the pattern of the given one.

        Raises FormulaError if the model cannot answer it.
        """

    @abstractmethod
    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """The arrays and the metadata that `save` writes."""

    @abstractmethod
    def _predictor_of(self, query: Query) -> Predictor:
        """The predictor for a query that the model was trained on."""

    @abstractmethod
    def _features_by_arity(self) -> Mapping[int, Sequence[Feature]]:
        """Arity → the features of tuples of that length."""

    @abstractmethod
    def _rankers(self) -> Sequence[RelationRankers]:
        """The rankers of the relations that ranked lists were trained for."""

    @abstractmethod
    def _example_queries(self) -> Sequence[Query | None]:
        """One query per arity that the model can answer; None is its own query."""

    @abstractmethod
    def _symbols(self) -> tuple[dict[str, int], list[str]]:
        """The relations (name → arity) and attributes of the model."""

    def _predictor(self, query: Query, scorer: Scorer | RelationRankers | None) -> Predictor:
        """The predictor of a query by its trained model; by the fallback without one."""
        compiled = self._compile()
        checker, arity = compiled.constraint_checker(query), len(query.variables)
        match scorer:
            case None:
                return FallbackPredictor(query, compiled.kb, self.config, constraints=checker)
            case RelationRankers():
                bound = compiled.relation_scorer(scorer)
                odds = scorer.odds.at(self.config.assumed_missing)
                return ListwisePredictor(query, compiled.kb, self.config, bound, scorer.odds, odds, constraints=checker)
            case _:
                evaluator = compiled.evaluator(arity)
                return NetworkPredictor(
                    query, compiled.kb, self.config, evaluator, scorer, self.calibration, constraints=checker
                )

    @property
    def assumed_missing(self) -> float | None:
        """The share of facts that probabilities assume to be missing; None for a network, which has a prior."""
        return self.config.assumed_missing if self.config.base == LISTWISE else None

    @property
    def constraints(self) -> Constraints:
        """The constraints that were declared for training. Answers respect them too."""
        declared = parse_constraints(self.meta.get("constraints", ""))
        return replace(declared, find="found_constraints" in self.meta)

    @property
    def found_constraints(self) -> tuple[FoundConstraint, ...]:
        """The constraints that were found in the facts of the training. Answers respect them, too."""
        return tuple(found_from_dict(fields) for fields in self.meta.get("found_constraints", ()))

    # The knowledge base

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base that the model answers from."""
        if self._kb is None:
            raise KnowledgeBaseError(
                "the model has no knowledge base to answer from", hint="model.with_kb(kb), or gaifman.load(file, kb)"
            )
        return self._kb

    def with_kb(self, kb: KnowledgeBase) -> Self:
        """The same model, answering from another knowledge base."""
        other = copy.copy(self)
        other._bind(kb)
        return other

    def check_kb(self) -> None:
        """Raise KnowledgeBaseError if the knowledge base has no relation of the model, or one of another arity."""
        self._compile()

    def preload(self) -> None:
        """Compile the features for the knowledge base now, not at the first prediction."""
        compiled = self._compile()
        for arity in self._features_by_arity():
            compiled.evaluator(arity)
        for rankers in self._rankers():
            compiled.relation_scorer(rankers)

    def compile_kernels(self) -> None:
        """Compile the kernels of predictions now. It takes seconds on the first run on a machine, and none later."""
        relations, _ = self._symbols()
        facts = [(name, *(f"o{i}" for i in range(arity))) for name, arity in relations.items()]
        tiny = self.with_kb(KnowledgeBase.from_facts(facts))
        for query in self._example_queries():
            tiny.rank(query, {}, RankingOptions(top=1))

    def _compile(self) -> _CompiledFeatures:
        with self._lock:
            if self._compiled is None:
                features = self._features_by_arity()
                extended = self.kb.extend_schema(*self._symbols())
                found = [one.constraint for one in self.found_constraints]
                self._compiled = _CompiledFeatures(extended, features, self.config, self.constraints, found)
            return self._compiled

    # Predictions

    def answers(
        self,
        query: str | Query | None = None,
        bindings: Bindings | None = None,
        *,
        top: int | None = 10,
        known: str = "mark",
        restrict_to: Restriction = UNRESTRICTED,
        candidates: str = "auto",
        max_candidates: int = MAX_CANDIDATES,
        draws: int | None = None,
        prior: float | None = None,
        constraints: bool = True,
        covered: bool = False,
        **objects: str,
    ) -> RankedAnswers:
        """Rank the answers of a query by probability.

        `model.answers(x="ann", top=5)` binds the variable x of the model's query to an object;
        `completion.answers("capital('france', y)")` asks for the facts of one relation.

        Args:
            query: The query, with objects in place of some variables. A `GaifmanModel` has one query, which can be left
                out.
            bindings: Variable → object; the same as keyword arguments.
            top: The number of answers; None for all candidates.
            known: `mark` known answers, `exclude` them, or rank `only` them.
            restrict_to: Variable → the type of its objects, or a list of names.
            candidates: `auto`, `all`, `typed`, `seen` or `near`. By default a variable ranges over the objects seen at
                its position or of the type of these; `all` ranks all objects.
            max_candidates: Limit on the candidates for several variables.
            draws: Neighbourhoods per candidate; None for the model's setting.
            prior: The share of candidates that are answers; None for the model's own, which is one half for a network.
            constraints: Whether constraints lower the probabilities of answers in conflict with known facts. By
                default, objects without the declared type and facts such as borders(x, x) are not proposed at all.
            covered: Whether to leave out answers about which the model has little to go on: no formula reaches them,
                and an object was never seen at its position. Known answers stay.
            objects: Variable → object.
        """
        options = RankingOptions(top, known, restrict_to, candidates, max_candidates, covered)
        given = {**(bindings or {}), **objects}
        return self.rank(query, given, options, draws=draws, prior=prior, constraints=constraints)

    def rank(
        self,
        query: str | Query | None,
        bindings: Bindings,
        options: RankingOptions,
        *,
        draws: int | None = None,
        prior: float | None = None,
        constraints: bool = True,
    ) -> RankedAnswers:
        """Rank answers as `answers` does, with all options in one object, which can have a deadline."""
        predictor, pattern = self._resolve(query, bindings)
        predictor = predictor.with_prior(prior).with_constraints(constraints)
        return rank_candidates(predictor, pattern, self._compile().first_pass(predictor), draws, options)

    def explain_answer(
        self,
        query: str | Query | None,
        bindings: Bindings,
        answer: Sequence[str],
        *,
        draws: int | None = None,
        prior: float | None = None,
        top: int = DEFAULT_TOP,
        constraints: bool = True,
        deadline: Deadline | None = None,
    ) -> Explanation:
        """Explain the probability of an answer to a query; `answer` names an object for each free variable."""
        predictor, pattern = self._resolve(query, bindings)
        ids = pattern.fill(predictor.kb, answer)
        predictor = predictor.with_prior(prior).with_constraints(constraints)
        return self._explain(predictor, ids, draws, top, deadline)

    def _explain(
        self, predictor: Predictor, tuples: Ints, draws: int | None, top: int, deadline: Deadline | None
    ) -> Explanation:
        """Explain the probability of one tuple (1, arity); the deadline is checked between steps."""
        check_int("top", top, 1)
        check_int("draws", self.config.draws if draws is None else draws, 1, MAX_DRAWS)
        budget = predictor.budget(draws, deadline)
        hidden = predictor.hidden_facts(tuples, budget.deadline.limit_budget())
        match predictor:
            case ListwisePredictor():
                return explain_ranking(predictor, tuples, hidden, top, budget)
            case NetworkPredictor():
                return explain_network(predictor, tuples, hidden, top, budget)
        raise KnowledgeBaseError(
            f"{predictor.query.atomic_relation} has no trained model, only the fallback",
            hint="a relation needs two facts, and tuples that are not known",
        )

    def _resolve(self, query: str | Query | None, bindings: Bindings) -> tuple[Predictor, QueryPattern]:
        target, pattern = self.match_query(query, bindings)
        return self._predictor_of(target), pattern

    # Files

    def save(self, path: str | Path) -> None:
        """Write the model to one safetensors file, atomically."""
        write_model(path, *self.state())

    def _calibration_arrays(self) -> Arrays:
        return {f"calibration/{name}": array for name, array in self.calibration.arrays().items()}


_NOT_IN_FILE = ("_kb", "held_out_report", "_params", "_source", "_phi", "_hide")
"""What a pickled model has beside the content of its file."""


def _restore_state(kind: type[Model], state: Mapping[str, Any]) -> Model:
    """A pickled model that has no file."""
    model = kind.__new__(kind)
    model.__setstate__(state)
    return model


def _restore_file(kind: type[GaifmanModel], data: bytes, kept: Mapping[str, Any]) -> Model:
    """A pickled model of the bytes of its file, which are checked as a file is."""
    model = kind.from_state(*parse_model(data, "the pickled model"))
    model.__setstate__({**model.__getstate__(), **kept})
    return model


class _CompiledFeatures:
    """The features of a model, compiled for one knowledge base. Everything is built on first use."""

    def __init__(
        self,
        kb: KnowledgeBase,
        features: Mapping[int, Sequence[Feature]],
        config: TrainingConfig,
        constraints: Constraints,
        found: Sequence[Constraint] = (),
    ) -> None:
        self.kb, self._features, self._config, self._constraints = kb, features, config, constraints
        self._found = found
        self._evaluators: dict[int, FeatureEvaluator] = {}
        self._relation_scorers: dict[str, RelationScorer] = {}
        self._index: StepIndex | None = None
        self._workspaces: Workspaces | None = None
        self._expert: BoundExpert | None = None
        self._checkers: dict[Query, ConstraintChecker] = {}
        self._lock = ProcessLock()

    def evaluator(self, arity: int) -> FeatureEvaluator:
        """The evaluator for tuples of this length."""
        with self._lock:
            if arity not in self._evaluators:
                plan = compile_features(FeatureSet(tuple(self._features.get(arity, ()))), self.kb, arity)
                self._evaluators[arity] = FeatureEvaluator(graph_of(self.kb), plan)
            return self._evaluators[arity]

    def relation_scorer(self, rankers: RelationRankers) -> RelationScorer:
        """The scorer of a relation's ranked lists."""
        with self._lock:
            if rankers.relation not in self._relation_scorers:
                index, settings = self._step_index(rankers.vocabulary.thresholds), listwise_config(self._config)
                if self._workspaces is None:
                    self._workspaces = Workspaces(index, settings, rankers.max_steps)
                self._relation_scorers[rankers.relation] = rankers.bind(
                    index, settings, self._workspaces, self._bind_expert(rankers.expert)
                )
            return self._relation_scorers[rankers.relation]

    def _step_index(self, thresholds: tuple[tuple[str, float], ...]) -> StepIndex:
        """The steps with the thresholds of the model; all its relations share them."""
        if self._index is None:
            self._index = build_steps(self.kb).with_thresholds(thresholds)
        return self._index

    def _bind_expert(self, expert: Expert | None) -> BoundExpert | None:
        """The expert of the model, which all its relations share."""
        if self._expert is None and expert is not None:
            self._expert = expert.bind(self.kb)
        return self._expert

    def first_pass(self, predictor: Predictor) -> FirstPass | None:
        """The first pass of a ranking; none for the fallback."""
        match predictor:
            case ListwisePredictor():
                return ListwiseFirstPass(predictor)
            case NetworkPredictor():
                return NetworkFirstPass(predictor)
        return None

    def constraint_checker(self, query: Query) -> ConstraintChecker:
        """The checker of a query's tuples."""
        with self._lock:
            if query not in self._checkers:
                self._checkers[query] = ConstraintChecker(self.kb, query, self._constraints, self._found)
            return self._checkers[query]


@checked_methods
class GaifmanModel(Model):
    """A Gaifman model (q, r, k, Φ, M): target query, radius and size of neighbourhoods, features, base model class.

    A new model is untrained; `fit` trains it. `gaifman.fit` does both, and documents the settings. A trained model
    predicts on any knowledge base with its relations.
    """

    def __init__(
        self,
        query: str | Query,
        radius: int | str = DEFAULT_CONFIG.radius,
        size: int | str | None = DEFAULT_CONFIG.size,
        phi: Phi = DEFAULT_CONFIG.phi,
        base: str | BaseModel = DEFAULT_CONFIG.base,
        *,
        expert: str = DEFAULT_CONFIG.expert,
        options: Mapping[str, Any] | None = None,
        positives: int = DEFAULT_CONFIG.positives,
        negatives: int = DEFAULT_CONFIG.negatives,
        negative_sampling: str = DEFAULT_CONFIG.negative_sampling,
        hard_negative_fraction: float = DEFAULT_CONFIG.hard_negative_fraction,
        hide: str = DEFAULT_CONFIG.hide,
        holdout: float = DEFAULT_CONFIG.holdout,
        max_held_out: int = DEFAULT_CONFIG.max_held_out,
        min_examples: int = DEFAULT_CONFIG.min_examples,
        min_feature_count: int = DEFAULT_CONFIG.min_feature_count,
        patience: int = DEFAULT_CONFIG.patience,
        draws: int = DEFAULT_CONFIG.draws,
        missing: float | None = DEFAULT_CONFIG.missing,
        seed: int = DEFAULT_CONFIG.seed,
        block_size: int = DEFAULT_CONFIG.block_size,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self._params: dict[str, Any] = given
        config = TrainingConfig(
            radius=radius,
            size=size,
            phi=phi_name(phi),
            base=base if isinstance(base, str) else base.kind,
            expert=expert,
            options=options or {},
            positives=positives,
            negatives=negatives,
            negative_sampling=negative_sampling,
            hard_negative_fraction=hard_negative_fraction,
            hide=hide,
            holdout=holdout,
            max_held_out=max_held_out,
            min_examples=min_examples,
            min_feature_count=min_feature_count,
            patience=patience,
            draws=draws,
            missing=missing,
            seed=seed,
            block_size=block_size,
        )
        if config.options and not isinstance(base, str):
            raise KnowledgeBaseError(
                f"{next(iter(config.options))} is an option of a named base model, and a base model is given",
                hint="set it where the base model is made",
            )
        super().__init__(config, Calibration.identity(), {}, None, None)
        self.query: Query = parse_query(query) if isinstance(query, str) else query
        """The target query."""
        self._hide = config.hide
        self.config = config = resolve_config(config, self.query)
        self.base: BaseModel | None = base if isinstance(base, BaseModel) else _base_model(config)
        """The base model; None for ranked lists."""
        self.features: tuple[Feature, ...] = ()
        """The features that the base model uses; empty before training, and for ranked lists."""
        self._scorer: Scorer | RelationRankers | None = None
        self._source, self._phi = query, phi

    @classmethod
    def from_config(
        cls,
        query: str | Query,
        config: TrainingConfig,
        phi: Phi | None = None,
    ) -> GaifmanModel:
        """An untrained model with these settings; `phi` replaces the name in the settings."""
        settings = config.as_dict() | ({} if phi is None else {"phi": phi})
        return cls(query, **settings)

    @classmethod
    def from_parts(
        cls,
        query: Query,
        config: TrainingConfig,
        features: tuple[Feature, ...],
        scorer: Scorer | RelationRankers,
        calibration: Calibration,
        meta: Mapping[str, Any],
        kb: KnowledgeBase | None = None,
    ) -> GaifmanModel:
        """A trained model made of its parts."""
        base = LISTWISE if isinstance(scorer, RelationRankers) else scorer.base
        model = cls(query, phi="default" if base == LISTWISE else FeatureSet((), config.phi), base=base)
        model.config, model.features, model._scorer = config, features, scorer
        model.calibration, model.meta, model._kb = calibration, dict(meta), kb
        model._params |= config.as_dict() | {"query": str(query), "base": base}
        if isinstance(base, BaseModel) and base.kind in BASE_MODELS:
            model._params["base"] = base.kind
        return model

    def __repr__(self) -> str:
        size = "all" if self.config.size is None else self.config.size
        trained = "not trained"
        if self._scorer:
            trained = f"{self.meta['features']:,} features, trained on {self.meta['metrics']['answers']:,} answers"
        if self.config.base == LISTWISE:
            bound = "" if self.config.size is None else f", size {size}"
            return f"<GaifmanModel: {self.query}, ranked lists{bound}, {trained}>"
        return f"<GaifmanModel: {self.query}, radius {self.config.radius}, size {size}, {trained}>"

    # As an estimator of scikit-learn

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, as `sklearn.base.clone` needs them: an untrained copy has the same."""
        return dict(self._params)

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor. The model is untrained then."""
        for name in params:
            if name not in self._params:
                raise KnowledgeBaseError(
                    f"there is no setting {name}",
                    suggestions=similar_names(name, self._params),
                    hint=f"settings: {', '.join(self._params)}",
                )
        fresh = type(self)(**{**self._params, **params})
        self.__setstate__(fresh.__getstate__())
        return self

    def predict_proba(self, tuples: Tuples) -> Floats:
        """Shape (tuples, 2): the probabilities that tuples are no answers and that they are, as classifiers give them.

        >>> import gaifman
        >>> model = gaifman.GaifmanModel("capital(x, y)", options={"epochs": 1}).fit(gaifman.demo())
        >>> model.predict_proba([("france", "paris"), ("france", "oslo")]).argmax(axis=1).tolist()
        [1, 0]
        """
        found = self.probabilities(tuples).values
        return np.stack([1 - found, found], axis=1)

    def fit(
        self,
        kb: KnowledgeBases,
        *,
        constraints: Constraints | str | Path | None = FOUND,
        valid: KnowledgeBase | None = None,
        threads: int | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Train on one knowledge base, or on several that share relations but no objects.

        What ranked lists hide is chosen by the ranks of validation facts, if there are some.
        """
        as_constraints(constraints)  # an error now, not after the training
        given = as_collection(kb)
        if valid is not None:
            check_validation(replace(self.config, hide=self._hide), self.query)
        if self.base is None:
            return self._fit_listwise(given, constraints, valid, threads, callback)
        kbs, query, features = prepare_training(given, self._source, self._phi)
        self.base = untrained_copy(self.base)
        rules = as_constraints(constraints, kbs[0], query)
        sources = training_sources(kbs, query, features, self.config, rules)
        trainer = Trainer(sources, self.config, self.base, threads)
        scorer = trainer.train(callback)
        held_out = trainer.held_out(scorer)
        self.query = query
        self.calibration = held_out.fit_calibration(self.config.negative_ratio)
        self.features, self._scorer = scorer.prune(features)
        self.held_out_report = HeldOutReport.from_held_out(held_out, self.config.negative_ratio)
        ranks = rank_held_out(trainer, scorer)
        answers = sum(len(source.examples.training_rows) for source in trainer.sources)
        total = sum(len(source.examples.answers) for source in trainer.sources)
        claimed = {**self.held_out_report.metrics(total), **ranks.metrics(), **trainer.hiding_metrics(held_out)}
        if reason := claimed.get("auc_reason"):  # the ranks rest on the same answers
            claimed |= {**dict.fromkeys(RANK_FIGURES), "mrr_reason": reason}
        self.meta = {
            "kind": "model",
            "query": str(query),
            **training_metadata(self.config, self.base, given, rules, found=_constraints_of(rules, kbs, query)),
            "features": len(self.features),
            "metrics": {"answers": answers, "losses": losses_as_json(scorer), **claimed},
            "calibration": self.held_out_report.reliability_table(),
        }
        self._bind(kbs[0] if len(kbs) == 1 else None)
        return self

    def _fit_listwise(
        self,
        given: Sequence[KnowledgeBase],
        constraints: Constraints | str | Path | None,
        valid: KnowledgeBase | None,
        threads: int | None,
        callback: Callback | None,
    ) -> Self:
        """Train ranked lists for the relation of the query."""
        kbs = unify_schemas(given)
        query = parse_query(self._source, kbs[0]) if isinstance(self._source, str) else self._source
        kb, schema = join_collection(kbs), kbs[0].schema
        formulas = added_features(
            self._phi, [len(query.variables)], schema.relations, sorted(schema.attributes), kbs[0]
        )
        if formulas:
            check_formulas(formulas, constants=len(kbs) == 1)
        rules = as_constraints(constraints, kb, query)
        choice = None if valid is None else self._choose_hiding(kb, query, valid, len(kbs), rules)
        if choice is not None or "hide_choice" in self.meta:
            self.config = replace(self.config, hide="facts" if choice is None else choice.chosen)
        config = settings_for(self.config, len(kbs))
        examples = TrainingExamples(kb, query, config, rules)
        check_expert_kbs(config, len(kbs))
        expert = None
        if config.expert != "none":
            expert = train_expert(kb, config, callback and callback.for_expert(), check_threads(threads))
        trainer = ListwiseTrainer(examples, config, formulas)
        if expert is None:
            trained = measure_relation(trainer, trainer.train(callback))
        else:
            trained = train_beside_expert(trainer, expert, callback)
        rankers = replace(trained.rankers, odds=fit_odds(trained.proposals), expert=expert and expert.final)
        self.query, self._scorer = query, rankers
        self.held_out_report = listwise_report([replace(trained, rankers=rankers)], self.config)
        answers = len(examples.answers)
        claimed = {**self.held_out_report.metrics(answers), **trained.ranks.metrics()}
        if reason := claimed.get("auc_reason"):
            claimed |= {**dict.fromkeys(RANK_FIGURES), "mrr_reason": reason}
        self.meta = {
            "kind": "model",
            "query": str(query),
            **training_metadata(self.config, None, given, rules, formulas, _constraints_of(rules, [kb], query)),
            **({"hide_choice": choice.as_dict()} if choice else {}),
            **expert_metadata([rankers]),
            "features": rankers.formula_count,
            "metrics": {"answers": len(examples.training_rows), **claimed},
            "calibration": self.held_out_report.reliability_table(),
        }
        self._bind(kbs[0] if len(kbs) == 1 else None)
        return self

    def _choose_hiding(
        self, kb: KnowledgeBase, query: Query, valid: KnowledgeBase, kbs: int, constraints: Constraints | None
    ) -> HideChoice:
        """Choose what to hide by the ranks of validation facts."""
        if kbs > 1:
            raise KnowledgeBaseError("validation facts are for one knowledge base, and several are given")
        name = query.atomic_relation or ""
        facts = ValidationFacts.of(kb, valid, [name])
        tuples = facts.sample(self.config.seed).tuples[name]
        found = rank_validation_facts(kb, query, self.config, constraints, tuples, facts.tuples[name])
        return HideChoice.of({choice: [ranks] for choice, ranks in found.items()}, facts.left_out)

    # Predictions

    def probability(
        self,
        *objects: str,
        draws: int | None = None,
        max_error: float | None = None,
        max_draws: int = DEFAULT_MAX_DRAWS,
        prior: float | None = None,
        constraints: bool = True,
    ) -> Estimate:
        """The probability that a tuple is an answer: `model.probability("ann", "cleo")`. See `probabilities`.

        The estimate has the conflicts of the tuple, and says whether the model has little to go on.
        """
        predictor = self.predictor.with_prior(prior).with_constraints(constraints)
        return predictor.probability(objects, DrawBudget(predictor.budget(draws).draws, max_error, max_draws))

    def probabilities(
        self,
        tuples: Tuples,
        *,
        draws: int | None = None,
        max_error: float | None = None,
        max_draws: int = DEFAULT_MAX_DRAWS,
        prior: float | None = None,
        constraints: bool = True,
    ) -> Estimates:
        """The probabilities that tuples are answers, with standard errors.

        Each is the mean over sampled neighbourhoods. A known answer is scored as if it were not known.

        Args:
            tuples: Tuples of names, or an integer array of object ids, (tuples, arity).
            draws: Neighbourhoods per tuple; None for the model's setting.
            max_error: Sample until the standard error is at most this.
            max_draws: Limit on the draws if `max_error` is set.
            prior: The share of tuples that are answers; None for the model's own, which is one half for a network.
            constraints: Whether constraints lower the probabilities of tuples in conflict with known facts.
        """
        predictor = self.predictor.with_prior(prior).with_constraints(constraints)
        budget = DrawBudget(predictor.budget(draws).draws, max_error, max_draws)
        return predictor.probabilities(tuples, budget)

    def explain(
        self,
        *objects: str,
        draws: int | None = None,
        prior: float | None = None,
        top: int = DEFAULT_TOP,
        constraints: bool = True,
        deadline: Deadline | None = None,
    ) -> Explanation:
        """Explain the probability of a tuple: `model.explain("ann", "cleo")`.

        The explanation has the `top` formulas for and against it with their witnesses, its conflicts with constraints,
        and the probability without the decisive facts.
        """
        predictor = self.predictor.with_prior(prior).with_constraints(constraints)
        return self._explain(predictor, predictor.tuple_ids([objects]), draws, top, deadline)

    def embed(self, tuples: Tuples, *, draws: int | None = None) -> Reals:
        """Shape (tuples, units), float32: the last hidden layer, as the mean over neighbourhoods of each tuple."""
        predictor = self.predictor
        if not isinstance(predictor, NetworkPredictor):
            raise KnowledgeBaseError("ranked lists have no hidden layer", hint='base="mlp" has one')
        return predictor.embed(tuples, draws)

    @property
    def scorer(self) -> Scorer | RelationRankers:
        """The trained base model with its scaler, or the ranked lists."""
        if self._scorer is None:
            raise KnowledgeBaseError("the model is not trained yet", hint="model.fit(kb) trains it")
        return self._scorer

    def _compile(self) -> _CompiledFeatures:
        _ = self.scorer  # an untrained model has no features to compile
        return super()._compile()

    @property
    def predictor(self) -> Predictor:
        """The predictor for the knowledge base."""
        return self._predictor(self.query, self.scorer)

    def _has_file(self) -> bool:
        return self._scorer is not None and (self.base is None or self.base.kind in BASE_MODELS)

    def match_query(self, query: str | Query | None, bindings: Bindings | None = None) -> tuple[Query, QueryPattern]:
        """Match a query against the model's own query; None for that query itself."""
        return self.query, model_pattern(self.query, self._compile().kb, query, bindings)

    def _predictor_of(self, query: Query) -> Predictor:
        return self.predictor

    def _features_by_arity(self) -> Mapping[int, Sequence[Feature]]:
        return {} if isinstance(self._scorer, RelationRankers) else {len(self.query.variables): self.features}

    def _rankers(self) -> Sequence[RelationRankers]:
        return [self._scorer] if isinstance(self._scorer, RelationRankers) else []

    def _example_queries(self) -> Sequence[Query | None]:
        return [None]

    def _symbols(self) -> tuple[dict[str, int], list[str]]:
        if isinstance(self._scorer, RelationRankers):
            return dict(self._scorer.vocabulary.relations), self._scorer.vocabulary.attributes
        return used_symbols(self.features, self.query)

    # Files

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """The arrays and the metadata that `save` writes."""
        scorer = self.scorer
        if isinstance(scorer, RelationRankers):
            return rankers_arrays(scorer) | expert_arrays([scorer]), self.meta | {
                "vocabulary": scorer.vocabulary.as_json()
            }
        arrays = self._calibration_arrays() | scorer_arrays(scorer)
        return arrays, self.meta | feature_metadata(self.features, self.query)

    @classmethod
    @translate_state_errors("model")
    def from_state(cls, arrays: Arrays, meta: Mapping[str, Any], base: BaseModel | None = None) -> GaifmanModel:
        """The model of a file."""
        query = parse_query(meta["query"])
        check_int("the number of variables of the query", len(query.variables), 1)
        config = TrainingConfig.from_settings(meta["config"])
        if "vocabulary" in meta:
            vocabulary = Vocabulary.from_json(meta["vocabulary"], meta.get("added_formulas", ()))
            relation = query.atomic_relation or ""
            expert = Expert.from_arrays(arrays) if "expert" in meta else None
            rankers = rankers_from_arrays(arrays, relation, len(query.variables), vocabulary, expert)
            rest = {name: value for name, value in meta.items() if name != "vocabulary"}
            return cls.from_parts(query, config, (), rankers, Calibration.identity(), rest)
        features = features_from_metadata(meta, len(query.variables))
        scorer = scorer_from_arrays(arrays, feature_kinds(features), base_from_metadata(meta, base))
        texts = ("feature_texts", "relations_used", "attributes_used")
        return cls.from_parts(
            query,
            config,
            features,
            scorer,
            Calibration.from_arrays(strip_prefix(arrays, "calibration/")),
            {name: value for name, value in meta.items() if name not in texts},
        )


def _constraints_of(
    constraints: Constraints, kbs: Sequence[KnowledgeBase], query: Query
) -> list[FoundConstraint] | None:
    """The constraints of the relation of a query that were found, if they are to act."""
    relation = query.atomic_relation
    return constraints_to_use(constraints, join_collection(kbs), [relation] if relation else [])


def _base_model(config: TrainingConfig) -> BaseModel | None:
    return None if config.base == LISTWISE else config.make_base_model()


@checked
def fit(
    kb: KnowledgeBases,
    query: str | Query,
    *,
    radius: int | str = DEFAULT_CONFIG.radius,
    size: int | str | None = DEFAULT_CONFIG.size,
    phi: Phi = DEFAULT_CONFIG.phi,
    base: str | BaseModel = DEFAULT_CONFIG.base,
    expert: str = DEFAULT_CONFIG.expert,
    options: Mapping[str, Any] | None = None,
    positives: int = DEFAULT_CONFIG.positives,
    negatives: int = DEFAULT_CONFIG.negatives,
    negative_sampling: str = DEFAULT_CONFIG.negative_sampling,
    hard_negative_fraction: float = DEFAULT_CONFIG.hard_negative_fraction,
    hide: str = DEFAULT_CONFIG.hide,
    holdout: float = DEFAULT_CONFIG.holdout,
    max_held_out: int = DEFAULT_CONFIG.max_held_out,
    min_examples: int = DEFAULT_CONFIG.min_examples,
    min_feature_count: int = DEFAULT_CONFIG.min_feature_count,
    patience: int = DEFAULT_CONFIG.patience,
    draws: int = DEFAULT_CONFIG.draws,
    missing: float | None = DEFAULT_CONFIG.missing,
    seed: int = DEFAULT_CONFIG.seed,
    block_size: int = DEFAULT_CONFIG.block_size,
    constraints: Constraints | str | Path | None = FOUND,
    valid: KnowledgeBase | None = None,
    threads: int | None = None,
    callback: Callback | None = None,
) -> GaifmanModel:
    """Train a model on the answers of a query.

    Args:
        kb: The knowledge base, or several that share relations but no objects.
        query: The target query q, with at least one free variable.
        radius: r, the largest distance of a member from the tuple's objects. `auto` is 1 for networks; for ranked
            lists with a size it holds all paths.
        size: k, the number of members besides the tuple's objects; None for all, `auto` for the default of the base
            model.
        phi: Φ, the features: `default`, `paper`, `universal-schema`, a `.phi` file, a `FeatureSet`, or several of
            these. Ranked lists mine their formulas (`default`), and add all others.
        base: M, the base model: `listwise`, `mlp`, `logistic`, or an untrained base model. `auto` is `listwise` for a
            relation, and `mlp` for other queries, with a size, and with `paper` or `universal-schema` alone.
        expert: `complex` adds an expert to ranked lists, which knows the similar objects of the training facts.
        options: Options of a named base model, such as `{"hidden": [50], "epochs": 5}`.
        positives: w, neighbourhoods of each answer per epoch.
        negatives: w̃, negatives of each answer per epoch, with one neighbourhood each.
        negative_sampling: Where the objects of negatives come from: `uniform`, `typed` or `mixed`.
        hard_negative_fraction: The share of negatives whose object is two or three steps from one that stays.
        hide: What an example cannot see: the `facts` that make it true, or also all `links` between its objects. `auto`
            is `facts`, or what `valid` chooses.
        holdout: The share of answers that is held out for calibration and early stopping.
        max_held_out: Limit on the held-out tuples.
        min_examples: Train more epochs until this many examples were seen.
        min_feature_count: Drop features that were seen less often.
        patience: Stop after this many epochs without a better loss on held-out tuples; 0 never stops early.
        draws: N, neighbourhoods per prediction.
        missing: The share of true answers that the knowledge base is assumed to miss. None is 0.1 for the probabilities
            of ranked lists, and 0 for networks, whose probabilities and figures are corrected for it.
        seed: The seed of all random draws.
        block_size: Answers per block of examples, which is in memory at once.
        constraints: What answers respect: constraints that are `found` in the data; also declared ones, from a file
            or `parse_constraints`, which negatives respect, too; or `none`.
        valid: Validation facts, which are not trained on: what ranked lists hide is chosen by their ranks.
        threads: The number of threads; None for all processors. The model does not depend on it.
        callback: Called during training.
    """
    model = GaifmanModel(
        query,
        radius,
        size,
        phi,
        base,
        expert=expert,
        options=options,
        positives=positives,
        negatives=negatives,
        negative_sampling=negative_sampling,
        hard_negative_fraction=hard_negative_fraction,
        hide=hide,
        holdout=holdout,
        max_held_out=max_held_out,
        min_examples=min_examples,
        min_feature_count=min_feature_count,
        patience=patience,
        draws=draws,
        missing=missing,
        seed=seed,
        block_size=block_size,
    )
    return model.fit(kb, constraints=constraints, valid=valid, threads=threads, callback=callback)
