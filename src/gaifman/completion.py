"""Completions: one model for each relation of a knowledge base, to find missing facts.

>>> import gaifman
>>> completion = gaifman.complete(gaifman.demo(), ["continent", "capital"], options={"epochs": 1}, seed=1)
>>> completion
<Completion: 2 relations, 2 with a trained model>
>>> completion.probability("capital", "france", "paris").value > 0.5
True

Threads train whole relations, so the result does not depend on their number. A relation with fewer than two facts,
without unknown tuples, or without features cannot be trained. Its tuples get the fallback probability
(m + ½) / (arity + 1), where m of the objects are at the same position of another fact of the relation.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman._serialization import (
    feature_metadata,
    features_from_metadata,
    losses_as_json,
    read_model_state,
    scorer_arrays,
    scorer_from_arrays,
    training_metadata,
)
from gaifman.cancellation import Deadline
from gaifman.config import cpu_count
from gaifman.errors import InputError, KnowledgeBaseError, similar_names
from gaifman.explain.attribution import DEFAULT_TOP, explain_prediction
from gaifman.explain.explanation import Explanation
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet, resolve_feature_set
from gaifman.io.model_file import Arrays, strip_prefix
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.logic.ast import Bindings, Feature, Query, free_variables, query_position, relation_query
from gaifman.logic.transforms import used_symbols
from gaifman.model import DEFAULT_CONFIG, GaifmanModel, Model
from gaifman.models.base import BaseModel
from gaifman.models.calibration import Calibration, HeldOut, HeldOutReport, auc_metrics
from gaifman.models.registry import make_base_model
from gaifman.models.scaling import feature_kinds
from gaifman.predict import DEFAULT_MAX_DRAWS, DrawBudget, Estimate, Estimates, Predictor, Tuples
from gaifman.ranking.candidates import QueryPattern, atom_pattern
from gaifman.ranking.held_out import HeldOutRanks, rank_held_out
from gaifman.sampling.constraints import Constraints
from gaifman.sampling.examples import TrainingExamples
from gaifman.threads import map_threaded
from gaifman.training import Callback, Scorer, Trainer, TrainingConfig, TrainingSource

RelationModel = tuple[Arrays, dict[str, Any]]
"""The trained model of one relation: arrays and metadata. The arrays are empty if it was not trained."""


class Completion(Model):
    """One model for each relation of a knowledge base; relations are addressed by name."""

    def __init__(
        self,
        config: TrainingConfig,
        relations: Mapping[str, int],
        features: Mapping[int, tuple[Feature, ...]],
        scorers: Mapping[str, Scorer],
        calibration: Calibration,
        meta: Mapping[str, Any],
        kb: KnowledgeBase | None = None,
        held_out_report: HeldOutReport | None = None,
    ) -> None:
        super().__init__(config, calibration, meta, kb, held_out_report)
        self.relations = dict(relations)
        """Relation → arity."""
        self.features = dict(features)
        """Arity → the features of relations of that arity."""
        self.scorers = dict(scorers)
        """Relation → its trained model; relations that could not be trained are missing."""

    def __repr__(self) -> str:
        return f"<Completion: {len(self.relations):,} relations, {len(self.scorers):,} with a trained model>"

    @property
    def trained_relations(self) -> list[str]:
        """The relations that have a trained model."""
        return list(self.scorers)

    def arity(self, relation: str) -> int:
        """The arity of a relation of this completion."""
        if relation not in self.relations:
            raise KnowledgeBaseError(
                f"there is no model of {relation}", suggestions=similar_names(relation, self.relations)
            )
        return self.relations[relation]

    # Predictions

    def probability(
        self,
        relation: str,
        *objects: str,
        draws: int | None = None,
        max_error: float | None = None,
        max_draws: int = DEFAULT_MAX_DRAWS,
        prior: float | None = None,
        constraints: bool = True,
    ) -> Estimate:
        """The probability of a fact: `completion.probability("capital", "france", "paris")`. See `probabilities`."""
        return self.probabilities(
            relation,
            [objects],
            draws=draws,
            max_error=max_error,
            max_draws=max_draws,
            prior=prior,
            constraints=constraints,
        )[0]

    def probabilities(
        self,
        relation: str,
        tuples: Tuples,
        *,
        draws: int | None = None,
        max_error: float | None = None,
        max_draws: int = DEFAULT_MAX_DRAWS,
        prior: float | None = None,
        constraints: bool = True,
    ) -> Estimates:
        """The probabilities of facts of one relation; the arguments are those of `GaifmanModel.probabilities`."""
        predictor = self.predictor(relation).with_prior(prior).with_constraints(constraints)
        budget = DrawBudget(predictor.budget(draws).draws, max_error, max_draws)
        return predictor.probabilities(tuples, budget)

    def explain(
        self,
        relation: str,
        *objects: str,
        draws: int | None = None,
        prior: float | None = None,
        top: int = DEFAULT_TOP,
        constraints: bool = True,
        deadline: Deadline | None = None,
    ) -> Explanation:
        """Explain the probability of a fact: `completion.explain("capital", "france", "paris")`.

        The explanation is that of `GaifmanModel.explain`.
        """
        predictor = self.predictor(relation).with_prior(prior).with_constraints(constraints)
        return explain_prediction(predictor, predictor.tuple_ids([objects]), draws, top, deadline)

    def predictor(self, relation: str) -> Predictor:
        """The predictor of a relation for the knowledge base."""
        query = relation_query(relation, self.arity(relation))
        compiled = self._compile()
        evaluator, checker = compiled.evaluator(self.arity(relation)), compiled.constraint_checker(query)
        scorer = self.scorers.get(relation)
        return Predictor(query, evaluator, scorer, self.calibration, self.config, constraints=checker)

    def model(self, relation: str) -> GaifmanModel:
        """The model of one relation by itself."""
        scorer, arity = self.predictor(relation).trained_scorer(), self.arity(relation)
        features, pruned = scorer.prune(self.features[arity])
        query = relation_query(relation, arity)
        about = next(row for row in self.meta["relations"] if row["name"] == relation)
        meta = {name: value for name, value in self.meta.items() if name not in ("relations", "metrics")} | {
            "kind": "model",
            "query": str(query),
            "features": len(features),
            "metrics": {key: value for key, value in about.items() if key not in ("name", "arity", "trained")},
        }
        return GaifmanModel.from_parts(query, self.config, features, pruned, self.calibration, meta, self._kb)

    def match_query(self, query: str | Query | None, bindings: Bindings | None = None) -> tuple[Query, QueryPattern]:
        """Match a query against the relations: it is one atom of one of them."""
        if query is None:
            relation, arity = next(iter(self.relations.items()))
            raise KnowledgeBaseError(
                f"the model is a completion of {len(self.relations):,} relations and needs a query",
                hint=f'such as "{relation_query(relation, arity)}"',
            )
        relation, pattern = atom_pattern(query, self._compile().kb, self.relations, bindings)
        return relation_query(relation, self.arity(relation)), pattern

    def _predictor_of(self, query: Query) -> Predictor:
        return self.predictor(query.atomic_relation or "")

    def _features_by_arity(self) -> Mapping[int, Sequence[Feature]]:
        return self.features

    def _example_queries(self) -> Sequence[Query | None]:
        by_arity = {self.relations[name]: name for name in self.scorers}
        return [relation_query(name, arity) for arity, name in by_arity.items()]

    def _symbols(self) -> tuple[dict[str, int], list[str]]:
        relations, attributes = dict(self.relations), set[str]()
        for arity, features in self.features.items():
            used, numeric = used_symbols(features, relation_query("", arity))
            relations |= {name: arity for name, arity in used.items() if name}
            attributes |= set(numeric)
        return relations, sorted(attributes)

    # Files

    def state(self) -> RelationModel:
        """The arrays and the metadata that `save` writes."""
        arrays = self._calibration_arrays()
        for number, relation in enumerate(self.relations):
            if relation in self.scorers:
                arrays |= scorer_arrays(self.scorers[relation], f"{number}/")
        arities = {
            str(arity): feature_metadata(features, relation_query("", arity))
            for arity, features in sorted(self.features.items())
        }
        return arrays, self.meta | {"arities": arities}

    @classmethod
    def from_state(cls, arrays: Arrays, meta: Mapping[str, Any]) -> Completion:
        """The completion of a file."""
        features = {int(arity): features_from_metadata(texts) for arity, texts in meta["arities"].items()}
        relations = {row["name"]: row["arity"] for row in meta["relations"]}
        parts: dict[int, Arrays] = {}
        for name, array in arrays.items():
            number, _, rest = name.partition("/")
            if number.isdecimal():
                parts.setdefault(int(number), {})[rest] = array
        scorers, kinds = {}, {arity: feature_kinds(own) for arity, own in features.items()}
        for index, (relation, arity) in enumerate(relations.items()):
            if index in parts:
                base = make_base_model(meta["base"]["kind"], meta["base"]["settings"])
                scorers[relation] = scorer_from_arrays(parts[index], kinds[arity], base)
        return cls(
            TrainingConfig.from_settings(meta["config"]),
            relations,
            features,
            scorers,
            Calibration.from_arrays(strip_prefix(arrays, "calibration/")),
            {name: value for name, value in meta.items() if name != "arities"},
        )


def load(
    path: str | Path, kb: KnowledgeBase | None = None, *, base: BaseModel | None = None
) -> GaifmanModel | Completion:
    """Load a saved model or completion.

    Args:
        path: The file.
        kb: The knowledge base to answer from; `with_kb` sets it later.
        base: An untrained base model, for a file whose base model is not one of gaifman's own.
    """
    arrays, meta = read_model_state(path)
    if base is not None and meta["kind"] == "completion":
        raise InputError(f"{path} is a completion, which makes its base models itself", hint="leave out base=…")
    try:
        model = (
            Completion.from_state(arrays, meta)
            if meta["kind"] == "completion"
            else GaifmanModel.from_state(arrays, meta, base)
        )
        _ = model.constraints  # parsed: damaged ones are found now, not at the first answer
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:  # intact, but not our format
        raise InputError(f"{path} is not a valid {meta['kind']}: {error!r}") from error
    return model if kb is None else model.with_kb(kb)


# Training


MIN_FACTS = 2
"""Facts that a relation needs to be trained."""


class PartStore:
    """Stores the models of relations while a completion is trained. This one stores nothing."""

    def load(self, relation: str) -> RelationModel | None:
        """The stored model of a relation, or None."""
        return None

    def save(self, relation: str, part: RelationModel) -> None:
        """Store the model of a relation."""

    def callback(self, relation: str) -> Callback:
        """The training callback for a relation."""
        return Callback()


def complete(
    kb: KnowledgeBase,
    relations: Iterable[str] | None = None,
    *,
    radius: int = DEFAULT_CONFIG.radius,
    size: int | None = DEFAULT_CONFIG.size,
    phi: str | FeatureSet = DEFAULT_CONFIG.phi,
    base: str = DEFAULT_CONFIG.base,
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
    missing: float = DEFAULT_CONFIG.missing,
    seed: int = DEFAULT_CONFIG.seed,
    block_size: int = DEFAULT_CONFIG.block_size,
    constraints: Constraints | None = None,
    threads: int | None = None,
) -> Completion:
    """Train one model for each relation of a knowledge base.

    Args:
        kb: The knowledge base.
        relations: The relations; None for all.
        radius: r, the largest distance of a member from the tuple's objects.
        size: k, the number of members besides the tuple's objects; None for all.
        phi: Φ, the features: `default`, `paper`, `universal-schema`, a `.phi` file, or a `FeatureSet`.
        base: M, the base model: `mlp` or `logistic`.
        options: Options of the base model, such as `{"hidden": [50], "epochs": 5}`.
        positives: w, neighbourhoods of each fact per epoch.
        negatives: w̃, negatives of each fact per epoch, with one neighbourhood each.
        negative_sampling: Where the objects of negatives come from: `uniform`, `typed` or `mixed`.
        hard_negative_fraction: The share of negatives whose object is two or three steps from one that stays.
        hide: What an example cannot see: the `facts` that make it true, or also all `links` between its objects.
        holdout: The share of facts that is held out for calibration and early stopping.
        max_held_out: Limit on the held-out tuples.
        min_examples: Train more epochs until this many examples were seen.
        min_feature_count: Drop features that were seen less often.
        patience: Stop after this many epochs without a better loss on held-out tuples; 0 never stops early.
        draws: N, neighbourhoods per prediction.
        missing: The share of true facts that the knowledge base is assumed to miss; probabilities and held-out figures
            are corrected for it. 0 counts every negative as false.
        seed: The seed of all random draws.
        block_size: Answers per block of examples, which is in memory at once.
        constraints: Types and functional relations, which decide what a negative can be, and which answers respect.
        threads: The number of threads; None for all processors. The result does not depend on it.
    """
    config = TrainingConfig(
        radius=radius,
        size=size,
        phi=phi if isinstance(phi, str) else phi.name or "custom",
        base=base,
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
    return train_completion(kb, config, relations, phi=phi, constraints=constraints, threads=threads)


def train_completion(
    kb: KnowledgeBase,
    config: TrainingConfig,
    relations: Iterable[str] | None = None,
    *,
    phi: str | FeatureSet | None = None,
    constraints: Constraints | None = None,
    threads: int | None = None,
    store: PartStore | None = None,
) -> Completion:
    """Train a completion with these settings; `phi` replaces a name in the settings."""
    names = check_relations(kb, relations)
    trainer = RelationTrainer(build_graph(kb), config.phi if phi is None else phi, config, constraints)
    parts = trainer.train_all(names, threads or cpu_count(), store or PartStore())
    return trainer.build_completion(names, parts)


def check_relations(kb: KnowledgeBase, relations: Iterable[str] | None) -> list[str]:
    """The relations to train, sorted; None for all. Raises KnowledgeBaseError for one that does not exist."""
    if isinstance(relations, str):
        raise KnowledgeBaseError(f"relations is a list: write [{relations!r}], not {relations!r}")
    names = sorted(kb.relations) if relations is None else sorted(set(relations))
    for name in names:
        if name not in kb.relations:
            raise KnowledgeBaseError(f"there is no relation {name}", suggestions=similar_names(name, kb.relations))
    if not names:
        raise KnowledgeBaseError("there are no relations to train")
    return names


class RelationTrainer:
    """Trains the relations of one knowledge base, which share graph and compiled features."""

    def __init__(
        self, graph: GaifmanGraph, phi: str | FeatureSet, config: TrainingConfig, constraints: Constraints | None
    ) -> None:
        self.graph, self.phi, self.config, self.constraints = graph, phi, config, constraints
        self._prepared: dict[int, tuple[FeatureEvaluator, Ints]] = {}
        self._lock = threading.Lock()

    def evaluator_and_kinds(self, arity: int) -> tuple[FeatureEvaluator, Ints]:
        """The compiled features of relations of this arity, and their kinds."""
        with self._lock:
            if arity not in self._prepared:
                kb = self.graph.kb
                arities = {name: relation.arity for name, relation in kb.relations.items()}
                features = resolve_feature_set(self.phi, arity, arities, kb.attributes, kb)
                plan = compile_features(_features_of_arity(features, arity), kb, arity)
                self._prepared[arity] = FeatureEvaluator(self.graph, plan), feature_kinds(plan.features)
            return self._prepared[arity]

    def train_all(self, names: Sequence[str], threads: int, store: PartStore) -> dict[str, RelationModel]:
        """Relation → its model: from the store, or trained now."""
        kb = self.graph.kb

        def train(name: str) -> RelationModel:
            part = store.load(name)
            if part is None:
                part = self.train(name, store.callback(name), len(names))
                store.save(name, part)
            return part

        order = sorted(names)
        parts = map_threaded(train, order, threads, cost=lambda name: kb.relations[name].count)
        return dict(zip(order, parts, strict=True))

    def train(self, name: str, callback: Callback, models: int = 1) -> RelationModel:
        """Train one of some relations; if that is impossible, the metadata say why."""
        relation = self.graph.kb.relations[name]
        about: dict[str, Any] = {"name": name, "arity": relation.arity, "answers": relation.count, "trained": False}
        if relation.count < MIN_FACTS:
            return {}, about | {"reason": "fewer than two facts"}
        examples = TrainingExamples(self.graph, relation_query(name, relation.arity), self.config, self.constraints)
        if self.config.negatives and not len(next(examples.blocks(0)).negatives):
            return {}, about | {"reason": "every tuple is known"}
        evaluator, kinds = self.evaluator_and_kinds(relation.arity)
        if not len(kinds):
            return {}, about | {"reason": "no feature fits"}
        trainer = Trainer([TrainingSource(evaluator, examples, kinds)], self.config, self.config.make_base_model())
        scorer = trainer.train(callback)
        held_out, ranks = trainer.held_out(scorer), rank_held_out(trainer, scorer, models)
        arrays = scorer_arrays(scorer) | _held_out_arrays(held_out, ranks)
        metrics = auc_metrics(held_out, relation.count) | ranks.metrics()
        return arrays, about | {"trained": True, "losses": losses_as_json(scorer), **metrics}

    def build_completion(self, names: Sequence[str], parts: Mapping[str, RelationModel]) -> Completion:
        """Join the models. They share one calibration: most relations have too few held-out tuples for their own."""
        trained = {name: arrays for name in names if (arrays := parts[name][0])}
        held_out, ranks = _pool_held_out(trained.values(), bool(self.config.missing))
        report = HeldOutReport.from_held_out(held_out, self.config.negative_ratio)
        calibration = held_out.fit_calibration(self.config.negative_ratio)
        kb = self.graph.kb
        features, scorers = self._shared_features(trained)
        answers = sum(kb.relations[name].count for name in names)
        meta: dict[str, Any] = {
            "kind": "completion",
            "relations": [parts[name][1] for name in names],
            **training_metadata(self.config, self.config.make_base_model(), [kb], self.constraints),
            "features": sum(map(len, features.values())),
            "metrics": {"answers": answers, **report.metrics(answers), **ranks.metrics()},
            "calibration": report.reliability_table(),
        }
        arities = {name: kb.relations[name].arity for name in names}
        return Completion(self.config, arities, features, scorers, calibration, meta, kb, report)

    def _shared_features(
        self, trained: Mapping[str, Arrays]
    ) -> tuple[dict[int, tuple[Feature, ...]], dict[str, Scorer]]:
        """Arity → the features that its relations use; relation → scorer, which counts among these features."""
        scorers: dict[str, Scorer] = {}
        features: dict[int, tuple[Feature, ...]] = {}
        arities = {name: self.graph.kb.relations[name].arity for name in trained}
        for arity in sorted(set(arities.values())):
            own = {name: arrays for name, arrays in trained.items() if arities[name] == arity}
            used = np.unique(_concatenate(own.values(), "scaler/features", np.zeros(0, np.int32)))
            evaluator, kinds = self.evaluator_and_kinds(arity)
            features[arity] = tuple(evaluator.plan.features[number] for number in used.tolist())
            for name, arrays in own.items():
                scorers[name] = _renumber_features(arrays, used, kinds[used], self.config.make_base_model())
        return features, scorers


def _features_of_arity(features: FeatureSet, arity: int) -> FeatureSet:
    """The features that mention at most s1 … s_arity."""
    own = tuple(f for f in features if all(query_position(variable) <= arity for variable in free_variables(f)))
    return FeatureSet(own, features.name)


def _concatenate(parts: Iterable[Arrays], name: str, none: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The arrays of one name, concatenated."""
    return np.concatenate([none, *(arrays[name] for arrays in parts)])


def _held_out_arrays(held_out: HeldOut, ranks: HeldOutRanks) -> Arrays:
    """The arrays of a relation's held-out tuples, which the completion pools."""
    shares = np.zeros(len(held_out.means)) if held_out.true_shares is None else held_out.true_shares
    return {
        "held/means": held_out.means,
        "held/targets": held_out.targets,
        "held/shares": shares,
        "held/ranks": ranks.counts,
        "held/ranked": np.array(ranks.facts, np.int64),
        "held/available": ranks.available,
    }


def _pool_held_out(parts: Collection[Arrays], corrected: bool) -> tuple[HeldOut, HeldOutRanks]:
    """The held-out tuples and ranks of all relations."""
    means, targets, shares = (
        _concatenate(parts, f"held/{field}", np.zeros(0)) for field in ("means", "targets", "shares")
    )
    ranks = [
        HeldOutRanks(arrays["held/ranks"], int(arrays["held/ranked"]), arrays["held/available"]) for arrays in parts
    ]
    return HeldOut(means, targets, shares if corrected else None), HeldOutRanks.concatenate(ranks)


def _renumber_features(arrays: Arrays, used: Ints, kinds: Ints, base: BaseModel) -> Scorer:
    """The scorer with features numbered among the used ones."""
    numbered = np.searchsorted(used, arrays["scaler/features"]).astype(np.int32)
    return scorer_from_arrays(arrays | {"scaler/features": numbered}, kinds, base)
