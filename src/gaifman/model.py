"""Gaifman models: what a query's answers look like, learnt, kept and asked.

>>> import gaifman
>>> kb = gaifman.demo()
>>> model = gaifman.fit(kb, "borders(x, y)", size=10, options={"epochs": 1}, seed=1)
>>> model
<GaifmanModel: borders(x, y), radius 1, size 10, ... features, trained on 567 answers>
>>> model.probability("portugal", "spain").value > model.probability("portugal", "japan").value
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gaifman._html import stack
from gaifman._serialization import (
    base_from_metadata,
    feature_metadata,
    features_from_metadata,
    losses_as_json,
    prune_features,
    schema_from_metadata,
    scorer_arrays,
    scorer_from_arrays,
    training_metadata,
    untrained_copy,
)
from gaifman.cancellation import Deadline
from gaifman.errors import FormulaError, GaifmanError, KnowledgeBaseError
from gaifman.explain.attribution import DEFAULT_TOP, Explainer
from gaifman.explain.explanation import Explanation
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet, resolve_feature_set
from gaifman.features.matrix import Reals
from gaifman.io.model_file import Arrays, strip_prefix, write_model
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints
from gaifman.logic.ast import Bindings, Feature, Query
from gaifman.logic.parser import parse_query
from gaifman.logic.transforms import used_symbols
from gaifman.model_card import summary_html
from gaifman.models.base import BaseModel
from gaifman.models.calibration import Calibration, HeldOutReport, fit_calibration
from gaifman.models.scaling import feature_kinds
from gaifman.predict import DrawBudget, Estimate, Estimates, Predictor
from gaifman.ranking.candidates import (
    UNRESTRICTED,
    CandidateStrategy,
    Restriction,
    as_strategy,
    fill_pattern,
    model_pattern,
)
from gaifman.ranking.fast_scoring import FastScorer
from gaifman.ranking.ranked_answers import RankedAnswers, RankingOptions, rank_candidates
from gaifman.sampling.constraints import Constraints
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.neighbourhoods import HiddenFacts, check_tuples
from gaifman.training import Callback, Scorer, Trainer, TrainingConfig, TrainingSource

Tuples = Sequence[Sequence[str]] | npt.NDArray[np.integer]
"""Tuples by name, or by number (b, n)."""


class GaifmanModel:
    """A model (q, r, k, Φ, M): the query, radius and size of neighbourhoods, features, and the base model.

    Made untrained; `fit` trains it. Then it gives probabilities for tuples of any knowledge base with its relations.
    """

    def __init__(
        self,
        query: str | Query,
        radius: int = 1,
        size: int | None = 20,
        phi: str | FeatureSet = "default",
        base: str | BaseModel = "mlp",
        **settings: Any,
    ) -> None:
        named = phi if isinstance(phi, str) else phi.name or "custom"
        kind = base if isinstance(base, str) else base.kind
        given = {"radius": radius, "size": size, "phi": named, "base": kind, **settings}
        self.config = TrainingConfig.from_settings(given)
        if self.config.options and not isinstance(base, str):
            raise KnowledgeBaseError(
                f"{next(iter(self.config.options))} is a setting of the network, and another base model is given",
                hint="set the base model where it is made",
            )
        self.query, self._phi = query, phi
        self.base = self.config.make_base_model() if isinstance(base, str) else base
        self.features: tuple[Feature, ...] = ()
        self.meta: dict[str, Any] = {}
        self._scorer: Scorer | None = None
        self.calibration = Calibration.identity()
        self._kb: KnowledgeBase | None = None
        self.held_out_report: HeldOutReport | None = None
        """How held-out tuples were judged; not kept in files, which have the figures."""

    def __repr__(self) -> str:
        learning = self.config
        size = "all" if learning.size is None else learning.size
        trained = "not trained"
        if self._scorer:
            trained = f"{len(self.features):,} features, trained on {self.meta['metrics']['answers']:,} answers"
        return f"<GaifmanModel: {self.query}, radius {learning.radius}, size {size}, {trained}>"

    def _repr_html_(self) -> str:
        return summary_html(repr(self)[1:-1], self.meta) if self._scorer else stack(repr(self)[1:-1])

    def fit(
        self,
        kb: KnowledgeBase | Sequence[KnowledgeBase],
        *,
        constraints: Constraints | None = None,
        threads: int | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Learn from one knowledge base, or from several that share relations but no objects."""
        kbs = [kb] if isinstance(kb, KnowledgeBase) else list(kb)
        kbs, query, features = prepare_training(kbs, self.query, self._phi)
        self.base = untrained_copy(self.base)
        trainer = Trainer(
            training_sources(kbs, query, features, self.config, constraints), self.config, self.base, threads
        )
        scorer = trainer.train(callback)
        held = trainer.held_out(scorer)
        self.query, self._kb = query, kbs[0] if len(kbs) == 1 else None
        self.calibration = fit_calibration(held.means, held.targets, ratio=self.config.negative_ratio)
        self.features, self._scorer = prune_features(scorer, features)
        self.meta = {"kind": "model", "query": str(query), **training_metadata(self.config, self.base, kbs)}
        self.meta["features"] = len(self.features)
        answers = sum(len(source.examples.training_rows) for source in trainer.sources)
        self.held_out_report = HeldOutReport.from_held_out(held, self.config.negative_ratio)
        self.meta["metrics"] = {"answers": answers, "losses": losses_as_json(scorer), **self.held_out_report.metrics()}
        self.meta["calibration"] = self.held_out_report.reliability_table()
        self._clear_caches()
        return self

    # What it says

    def with_kb(self, kb: KnowledgeBase) -> GaifmanModel:
        """The same model, which answers from another knowledge base."""
        other = GaifmanModel.__new__(GaifmanModel)
        other.__dict__.update(self.__dict__)
        other._clear_caches()
        other._kb = kb
        return other

    def probability(
        self,
        *objects: str,
        draws: int | None = None,
        max_error: float | None = None,
        max_draws: int = 1_000,
        prior: float | None = None,
    ) -> Estimate:
        """The probability that a tuple is an answer: `model.probability("ann", "cleo")`. See `probabilities`."""
        return self.probabilities([objects], draws=draws, max_error=max_error, max_draws=max_draws, prior=prior)[0]

    def probabilities(
        self,
        tuples: Tuples,
        *,
        draws: int | None = None,
        max_error: float | None = None,
        max_draws: int = 1_000,
        prior: float | None = None,
    ) -> Estimates:
        """The probabilities of tuples, each the mean over `draws` neighbourhoods, with its standard error.

        With a bound `error`, drawing goes on until the standard error is below it, or `most` are drawn. The
        probability is that of a tuple which before anything is known of it is as likely an answer as a corruption;
        another `prior` says how likely an answer is. A known answer is judged as if it were not known.
        """
        numbers = self._tuple_ids(tuples)
        wanted = DrawBudget(self.config.draws if draws is None else draws, max_error, max_draws)
        hidden = self.predictor.hidden_facts(self.trained_query, numbers, self.config.seed)
        return self._estimates(numbers, hidden, wanted, prior)

    def _estimates(self, numbers: Ints, hidden: HiddenFacts, draw_budget: DrawBudget, prior: float | None) -> Estimates:
        calibration = self.calibration if prior is None else self.calibration.with_prior(prior)
        return self.predictor.estimate(self.trained_scorer(), calibration, self.config, numbers, hidden, draw_budget)

    def answers(
        self,
        query: str | Query | None = None,
        bindings: Bindings | None = None,
        *,
        top: int | None = 10,
        known: str = "mark",
        restrict_to: Restriction = UNRESTRICTED,
        candidates: str | CandidateStrategy = "auto",
        draws: int | None = None,
        prior: float | None = None,
        **objects: str,
    ) -> RankedAnswers:
        """The most probable answers: `model.answers(x="ann", top=5)`, where the query's variable x is given an object.

        Or the query may be written again with objects in it. `known` answers are marked; "exclude" drops them, "only"
        ranks nothing else. `among` limits variables to a type or to names. `candidates` says what is looked at where
        several variables have no objects; docs/candidates.md has the ways.
        """
        ranking = RankingOptions(top, known, restrict_to, as_strategy(candidates))
        return self.rank(query, {**(bindings or {}), **objects}, ranking, draws=draws, prior=prior)

    def rank(
        self,
        query: str | Query | None,
        bindings: Bindings,
        options: RankingOptions,
        *,
        draws: int | None = None,
        prior: float | None = None,
    ) -> RankedAnswers:
        """The same, where what is wanted is one object, which may have a deadline."""
        wanted = DrawBudget(self.config.draws if draws is None else draws)
        judge = self.predictor
        pattern = model_pattern(self.trained_query, judge.kb, query, bindings)

        def estimate(tuples: Ints, hidden: HiddenFacts, draws: int) -> Estimates:
            return self._estimates(tuples, hidden, DrawBudget(draws, deadline=options.deadline), prior)

        def glance(tuples: Ints, hidden: HiddenFacts) -> Floats:
            return self._fast_scorer.scores(self.trained_scorer(), tuples, hidden, options.deadline)

        return rank_candidates(
            judge, self.trained_query, pattern, estimate, glance, wanted.draws, self.config.seed, options
        )

    def warm_up(self, deadline: Deadline | None = None) -> None:
        """Make what rankings of all objects share: some seconds for a large knowledge base, for whoever asks often."""
        self._fast_scorer.prepare(deadline)

    def explain(
        self,
        *objects: str,
        draws: int | None = None,
        prior: float | None = None,
        top: int = DEFAULT_TOP,
        deadline: Deadline | None = None,
    ) -> Explanation:
        """Why a tuple is as probable as `probability` says: `model.explain("ann", "cleo")`.

        The `top` formulas that spoke for it and against it, with the facts that witness them, and what would be said
        without the facts it hangs on; a `deadline` stops the work between its parts. See docs/explain.md.
        """
        calibration = self.calibration if prior is None else self.calibration.with_prior(prior)
        case = Explainer(self.predictor, self.trained_scorer(), calibration, self.config, self.trained_query)
        return case.explain(self._tuple_ids([objects]), draws, top, deadline)

    def answer_tuple(self, query: str | Query | None, bindings: Bindings, answer: Sequence[str]) -> tuple[str, ...]:
        """The objects of an answer to a question, in the order of the model's query: what `explain` wants."""
        return fill_pattern(
            model_pattern(self.trained_query, self.predictor.kb, query, bindings), self.predictor.kb, answer
        )

    def embed(self, tuples: Tuples, *, draws: int | None = None) -> Reals:
        """Shape (tuples, units), float32: the last hidden layer's mean over neighbourhoods of each tuple."""
        scorer, numbers = self.trained_scorer(), self._tuple_ids(tuples)
        sampling = self.config.sampling(self.config.draws if draws is None else draws, "answer 0")
        hidden = self.predictor.hidden_facts(self.trained_query, numbers, self.config.seed)
        return self.predictor.embed(scorer, numbers, sampling, hidden)

    @property
    def kb(self) -> KnowledgeBase:
        """What it answers from."""
        if self._kb is None:
            raise KnowledgeBaseError(
                "the model has no knowledge base to answer from", hint="model.on(kb), or gaifman.load(file, kb)"
            )
        return self._kb

    @property
    def trained_query(self) -> Query:
        assert isinstance(self.query, Query), "a trained model has read its query"
        return self.query

    @cached_property
    def predictor(self) -> Predictor:
        self.trained_scorer()
        relations, attributes = used_symbols(self.features, self.trained_query)
        return Predictor(self.kb.extend_schema(relations, attributes), self.features, len(self.trained_query.variables))

    @cached_property
    def _fast_scorer(self) -> FastScorer:
        return FastScorer(self.predictor, self.config)

    def _clear_caches(self) -> None:
        """What was made ready for one knowledge base."""
        for name in ("predictor", "_fast_scorer"):
            self.__dict__.pop(name, None)

    def trained_scorer(self) -> Scorer:
        if self._scorer is None:
            raise KnowledgeBaseError("the model is not trained yet", hint="model.fit(kb) trains it")
        return self._scorer

    def _tuple_ids(self, tuples: Tuples) -> Ints:
        return as_tuple_ids(self.predictor, tuples)

    # Files

    def save(self, path: str | Path) -> None:
        """Write the model to a file: one safetensors file, whole or not at all."""
        self.trained_scorer()
        arrays, meta = self.state()
        write_model(path, arrays, meta)

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """What the file holds."""
        scorer = self.trained_scorer()
        arrays: Arrays = {f"calibration/{name}": array for name, array in self.calibration.arrays().items()}
        arrays |= scorer_arrays(scorer)
        return arrays, self.meta | feature_metadata(self.features, self.trained_query)

    @classmethod
    def from_state(cls, arrays: Arrays, meta: Mapping[str, Any], base: BaseModel | None = None) -> GaifmanModel:
        """The model of a file."""
        words = schema_from_metadata(meta)
        query = parse_query(meta["query"])
        config = TrainingConfig.from_settings(meta["config"])
        model = cls(query, config.radius, config.size, FeatureSet((), config.phi), base_from_metadata(meta, base))
        model.config = config
        model.features = features_from_metadata(meta, words)
        model._scorer = scorer_from_arrays(arrays, feature_kinds(model.features), model.base)
        model.calibration = Calibration.from_arrays(strip_prefix(arrays, "calibration/"))
        texts = ("feature_texts", "relations_used", "attributes_used")
        model.meta = {name: value for name, value in meta.items() if name not in texts}
        return model


def fit(
    kb: KnowledgeBase | Sequence[KnowledgeBase],
    query: str | Query,
    *,
    phi: str | FeatureSet = "default",
    base: str | BaseModel = "mlp",
    constraints: Constraints | None = None,
    threads: int | None = None,
    callback: Callback | None = None,
    **settings: Any,
) -> GaifmanModel:
    """Learn which tuples are answers of a query. The settings are those of `TrainingConfig`."""
    model = GaifmanModel(query, phi=phi, base=base, **settings)
    return model.fit(kb, constraints=constraints, threads=threads, callback=callback)


# From knowledge bases to sources


def prepare_training(
    kbs: Sequence[KnowledgeBase], query: str | Query, phi: str | FeatureSet
) -> tuple[list[KnowledgeBase], Query, tuple[Feature, ...]]:
    """Knowledge bases that know each other's relations, the query read, and the features over all relations."""
    if not kbs:
        raise KnowledgeBaseError("there is no knowledge base to learn from")
    relations = {name: relation.arity for kb in kbs for name, relation in kb.relations.items()}
    attributes = sorted({name for kb in kbs for name in kb.attributes})
    kbs = [kb.extend_schema(relations, attributes) for kb in kbs]
    asked = parse_query(query, kbs[0]) if isinstance(query, str) else query
    if not asked.variables:
        raise FormulaError(f"{asked} has no free variables: it is true or false, and has no answers to learn")
    width = len(asked.variables)
    features = resolve_feature_set(phi, width, relations, attributes, kbs[0]).expand(relations, width)
    return kbs, asked, features


def training_sources(
    kbs: Sequence[KnowledgeBase],
    query: Query,
    features: Sequence[Feature],
    config: TrainingConfig,
    constraints: Constraints | None,
) -> list[TrainingSource]:
    """Examples of each knowledge base; one without answers is left out where others have some."""
    found, trouble, kinds = [], list[GaifmanError](), feature_kinds(features)
    for kb in kbs:
        graph = build_graph(kb)
        try:
            examples = TrainingExamples(graph, query, config, constraints)
        except KnowledgeBaseError as error:
            trouble.append(error)
            continue
        plan = compile_features(FeatureSet(tuple(features)), kb, len(query.variables))
        found.append(TrainingSource(FeatureEvaluator(graph, plan), examples, kinds))
    if not found:
        raise trouble[0]
    return found


def as_tuple_ids(predictor: Predictor, tuples: Tuples) -> Ints:
    """Tuples by name or number, as numbers."""
    if isinstance(tuples, np.ndarray) and np.issubdtype(tuples.dtype, np.integer):
        if tuples.ndim != 2 or tuples.shape[1] != predictor.width:
            raise KnowledgeBaseError(f"tuples have shape (tuples, {predictor.width}), not {tuples.shape}")
        return check_tuples(predictor.graph, tuples)
    return predictor.tuple_ids(list(tuples))
