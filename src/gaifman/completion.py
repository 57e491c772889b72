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

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman._serialization import (
    base_from_metadata,
    feature_metadata,
    features_from_metadata,
    losses_as_json,
    scorer_arrays,
    scorer_from_arrays,
)
from gaifman.config import MAX_ARITY, Deadline, ProgressCallback, check_int, check_threads, checked, checked_methods
from gaifman.errors import InputError, KnowledgeBaseError, shorten, similar_names
from gaifman.explain.explanation import DEFAULT_TOP, Explanation
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet, Phi, added_features, phi_name, resolve_feature_set
from gaifman.io.model_file import Arrays, read_model_state, strip_prefix, translate_state_errors
from gaifman.kb.gaifman_graph import graph_of
from gaifman.kb.knowledge_base import KnowledgeBase, KnowledgeBases, as_collection, join_collection, unify_schemas
from gaifman.kb.tables import Floats, Ints
from gaifman.listwise.added import check_formulas
from gaifman.listwise.expert import Expert, TrainedExpert
from gaifman.listwise.expert_weights import choose_mixtures
from gaifman.listwise.hide_choice import CHOICES, HideChoice, ValidationFacts
from gaifman.listwise.odds import fit_odds
from gaifman.listwise.ranker import Vocabulary
from gaifman.listwise.scoring import (
    RelationRankers,
    expert_arrays,
    expert_metadata,
    rankers_arrays,
    rankers_from_arrays,
)
from gaifman.listwise.steps import build_steps
from gaifman.listwise.training import (
    ListwiseTrainer,
    TrainedRelation,
    WeightedExpert,
    check_expert_kbs,
    check_validation,
    fit_all_odds,
    fit_beside_expert,
    listwise_report,
    measure_relation,
    rank_validation_facts,
    resolve_config,
    settings_for,
    train_expert,
    train_relation,
)
from gaifman.logic.ast import Bindings, Feature, Query, free_variables, query_position, relation_query, used_symbols
from gaifman.missing import DEFAULT_THRESHOLD, MissingFacts, ProposalStore, SearchOptions, find_missing
from gaifman.model import DEFAULT_CONFIG, GaifmanModel, Model
from gaifman.model_card import training_metadata
from gaifman.models.base import BaseModel
from gaifman.models.calibration import Calibration, HeldOut, HeldOutReport, auc_metrics
from gaifman.models.scaling import feature_kinds
from gaifman.predict import DEFAULT_MAX_DRAWS, DrawBudget, Estimate, Estimates, Predictor, Tuples
from gaifman.ranking.candidates import QueryPattern, atom_pattern
from gaifman.ranking.ranks import HeldOutRanks, rank_held_out
from gaifman.sampling.constraints import FOUND, Constraints, FoundConstraint, as_constraints
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.found_constraints import constraints_to_use
from gaifman.threads import ProcessLock, cached_property, map_threaded
from gaifman.training import LISTWISE, Callback, Scorer, Trainer, TrainingConfig, TrainingSource

RelationModel = tuple[Arrays, dict[str, Any]]
"""The trained model of one relation: arrays and metadata. The arrays are empty if it was not trained."""


@checked_methods
class Completion(Model):
    """One model for each relation of a knowledge base; relations are addressed by name."""

    def __init__(
        self,
        config: TrainingConfig,
        relations: Mapping[str, int],
        features: Mapping[int, tuple[Feature, ...]],
        scorers: Mapping[str, Scorer | RelationRankers],
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
        predictor = self.predictor(relation).with_prior(prior).with_constraints(constraints)
        return predictor.probability(objects, DrawBudget(predictor.budget(draws).draws, max_error, max_draws))

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
        return self._explain(predictor, predictor.tuple_ids([objects]), draws, top, deadline)

    def missing(
        self,
        above: float = DEFAULT_THRESHOLD,
        relations: Sequence[str] | None = None,
        *,
        top: int | None = None,
        per_relation: int | None = None,
        why: bool = False,
        covered: bool = False,
        threads: int | None = None,
        progress: ProgressCallback | None = None,
    ) -> MissingFacts:
        """All facts that are probable and not known, the most probable first.

        Args:
            above: The smallest probability.
            relations: The relations to look at; None for all.
            top: The largest number of facts; None for all.
            per_relation: The largest number of facts of each relation; None for all.
            why: Also find the best reason for each fact: some milliseconds each.
            covered: Leave out facts about which the model has little to go on.
            threads: The number of threads; None for all processors. The result does not depend on it.
            progress: Called with the phase, what is done and the total.
        """
        options = SearchOptions(above, top, per_relation, why, covered)
        return self.find_missing(relations, options, threads=threads, progress=progress)

    def find_missing(
        self,
        relations: Sequence[str] | None,
        options: SearchOptions,
        *,
        threads: int | None = None,
        progress: ProgressCallback | None = None,
        store: ProposalStore | None = None,
    ) -> MissingFacts:
        """Find missing facts as `missing` does; what is proposed of each relation can be stored."""
        names = list(self.relations) if relations is None else list(dict.fromkeys(relations))
        predictors, known = {name: self.predictor(name) for name in names}, self.meta.get("calibration", ())
        return find_missing(predictors, options, threads=threads, progress=progress, store=store, reliability=known)

    def predictor(self, relation: str) -> Predictor:
        """The predictor of a relation for the knowledge base."""
        query = relation_query(relation, self.arity(relation))
        return self._predictor(query, self.scorers.get(relation))

    def model(self, relation: str) -> GaifmanModel:
        """The model of one relation by itself."""
        arity, scorer = self.arity(relation), self.scorers.get(relation)
        if scorer is None:
            raise KnowledgeBaseError(
                f"{relation} has no trained model, only the fallback",
                hint="a relation needs two facts, and tuples that are not known",
            )
        features: tuple[Feature, ...] = ()
        if isinstance(scorer, Scorer):
            features, scorer = scorer.prune(self.features[arity])
        count = len(features) if isinstance(scorer, Scorer) else scorer.formula_count
        query = relation_query(relation, arity)
        about = next(row for row in self.meta["relations"] if row["name"] == relation)
        meta = {name: value for name, value in self.meta.items() if name not in ("relations", "metrics")} | {
            "kind": "model",
            "query": str(query),
            "features": count,
            "metrics": {key: value for key, value in about.items() if key not in ("name", "arity", "trained")},
        }
        return GaifmanModel.from_parts(query, self.config, features, scorer, self.calibration, meta, self._kb)

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

    def _has_file(self) -> bool:
        return True

    def _predictor_of(self, query: Query) -> Predictor:
        return self.predictor(query.atomic_relation or "")

    def _features_by_arity(self) -> Mapping[int, Sequence[Feature]]:
        return self.features

    def _rankers(self) -> Sequence[RelationRankers]:
        return [scorer for scorer in self.scorers.values() if isinstance(scorer, RelationRankers)]

    def _example_queries(self) -> Sequence[Query | None]:
        by_arity = {self.relations[name]: name for name in self.scorers}
        return [relation_query(name, arity) for arity, name in by_arity.items()]

    def _symbols(self) -> tuple[dict[str, int], list[str]]:
        relations, attributes = dict(self.relations), set[str]()
        for rankers in self._rankers()[:1]:  # all have the same vocabulary
            relations |= dict(rankers.vocabulary.relations)
            attributes |= set(rankers.vocabulary.attributes)
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
            match self.scorers.get(relation):
                case RelationRankers() as rankers:
                    arrays |= rankers_arrays(rankers, f"{number}/")
                case Scorer() as scorer:
                    arrays |= scorer_arrays(scorer, f"{number}/")
        arities = {
            str(arity): feature_metadata(features, relation_query("", arity))
            for arity, features in sorted(self.features.items())
        }
        arrays |= expert_arrays(self._rankers())
        vocabulary = [rankers.vocabulary.as_json() for rankers in self._rankers()[:1]]
        return arrays, self.meta | {"arities": arities} | ({"vocabulary": vocabulary[0]} if vocabulary else {})

    @classmethod
    @translate_state_errors("completion")
    def from_state(cls, arrays: Arrays, meta: Mapping[str, Any]) -> Completion:
        """The completion of a file."""
        features = {int(arity): features_from_metadata(texts, int(arity)) for arity, texts in meta["arities"].items()}
        relations = _relations_from_metadata(meta)
        parts: dict[int, Arrays] = {}
        for name, array in arrays.items():
            number, _, rest = name.partition("/")
            if number.isdecimal():
                parts.setdefault(int(number), {})[rest] = array
        if parts and max(parts) >= len(relations):
            raise InputError(f"there are arrays of relation {max(parts)}, and {len(relations):,} relations")
        scorers, kinds = dict[str, Scorer | RelationRankers](), {a: feature_kinds(own) for a, own in features.items()}
        formulas, expert = meta.get("added_formulas", ()), Expert.from_arrays(arrays) if "expert" in meta else None
        vocabulary = Vocabulary.from_json(meta["vocabulary"], formulas) if "vocabulary" in meta else None
        for index, (relation, arity) in enumerate(relations.items()):
            if index in parts and vocabulary is not None:
                scorers[relation] = rankers_from_arrays(parts[index], relation, arity, vocabulary, expert)
            elif index in parts:
                scorers[relation] = scorer_from_arrays(parts[index], kinds[arity], base_from_metadata(meta, None))
        return cls(
            TrainingConfig.from_settings(meta["config"]),
            relations,
            features,
            scorers,
            Calibration.from_arrays(strip_prefix(arrays, "calibration/")),
            {name: value for name, value in meta.items() if name not in ("arities", "vocabulary")},
        )


def _relations_from_metadata(meta: Mapping[str, Any]) -> dict[str, int]:
    """Relation → arity, as in a file: the arrays of a relation are numbered by its position."""
    relations: dict[str, int] = {}
    for row in meta["relations"]:
        name, arity = row["name"], row["arity"]
        check_int("the arity of a relation", arity, 1, MAX_ARITY)
        if not isinstance(name, str) or name in relations:
            raise InputError(f"the names of relations must be different texts, got {shorten(repr(name))}")
        relations[name] = arity
    used = {(name, arity) for texts in meta["arities"].values() for name, arity in texts["relations_used"].items()}
    for name, arity in used:
        if relations.get(name, arity) != arity:
            raise InputError(f"{shorten(name)} is a relation of {relations[name]} places and of {arity}")
    return relations


@checked
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
        with translate_state_errors("model"):
            _ = repr(model), model.constraints, model.found_constraints  # the metadata that every use needs
    except InputError as error:  # intact, but not our format
        name = shorten(str(path), 120)
        raise InputError(f"{name}: {error.message}", suggestions=error.suggestions, hint=error.hint) from error
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

    def load_fitted(self, relation: str) -> Arrays | None:
        """The stored rankers of a relation whose model waits for the weights of the expert, or None."""
        return None

    def save_fitted(self, relation: str, arrays: Arrays) -> None:
        """Store the rankers of a relation."""

    def expert_callback(self) -> Callback:
        """The training callback for the expert."""
        return Callback()

    def load_choice(self) -> HideChoice | None:
        """What validation facts have chosen to hide, or None if that is still to be chosen."""
        return None

    def save_choice(self, choice: HideChoice) -> None:
        """Store what validation facts have chosen to hide."""

    def check_stop(self) -> None:
        """Raise an error if training is to stop."""


@checked
def complete(
    kb: KnowledgeBases,
    relations: Iterable[str] | None = None,
    *,
    radius: int | str = DEFAULT_CONFIG.radius,
    size: int | str | None = DEFAULT_CONFIG.size,
    phi: Phi = DEFAULT_CONFIG.phi,
    base: str = DEFAULT_CONFIG.base,
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
) -> Completion:
    """Train one model for each relation of a knowledge base.

    Args:
        kb: The knowledge base, or several that share relations but no objects.
        relations: The relations; None for all.
        radius: r, the largest distance of a member from the tuple's objects. `auto` is 1 for networks; for ranked
            lists with a size it holds all paths.
        size: k, the number of members besides the tuple's objects; None for all, `auto` for the default of the base
            model.
        phi: Φ, the features: `default`, `paper`, `universal-schema`, a `.phi` file, a `FeatureSet`, or several of
            these. Ranked lists mine their formulas (`default`), and add all others.
        base: M, the base model: `listwise`, `mlp` or `logistic`. `auto` is `listwise`, and `mlp` with a size, and with
            `paper` or `universal-schema` alone.
        expert: `complex` adds an expert to ranked lists, which knows the similar objects of the training facts.
        options: Options of the base model, such as `{"hidden": [50], "epochs": 5}`.
        positives: w, neighbourhoods of each fact per epoch.
        negatives: w̃, negatives of each fact per epoch, with one neighbourhood each.
        negative_sampling: Where the objects of negatives come from: `uniform`, `typed` or `mixed`.
        hard_negative_fraction: The share of negatives whose object is two or three steps from one that stays.
        hide: What an example cannot see: the `facts` that make it true, or also all `links` between its objects. `auto`
            is `facts`, or what `valid` chooses.
        holdout: The share of facts that is held out for calibration and early stopping.
        max_held_out: Limit on the held-out tuples.
        min_examples: Train more epochs until this many examples were seen.
        min_feature_count: Drop features that were seen less often.
        patience: Stop after this many epochs without a better loss on held-out tuples; 0 never stops early.
        draws: N, neighbourhoods per prediction.
        missing: The share of true facts that the knowledge base is assumed to miss. None is 0.1 for the probabilities
            of ranked lists, and 0 for networks, whose probabilities and figures are corrected for it.
        seed: The seed of all random draws.
        block_size: Answers per block of examples, which is in memory at once.
        constraints: What answers respect: constraints that are `found` in the data; also declared ones, from a file
            or `parse_constraints`, which negatives respect, too; or `none`.
        valid: Validation facts, which are not trained on: what ranked lists hide is chosen by their ranks.
        threads: The number of threads; None for all processors. The result does not depend on it.
    """
    config = TrainingConfig(
        radius=radius,
        size=size,
        phi=phi_name(phi),
        base=base,
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
    return train_completion(kb, config, relations, phi=phi, constraints=constraints, valid=valid, threads=threads)


def train_completion(
    kb: KnowledgeBases,
    config: TrainingConfig,
    relations: Iterable[str] | None = None,
    *,
    phi: Phi | None = None,
    constraints: Constraints | str | Path | None = FOUND,
    valid: KnowledgeBase | None = None,
    threads: int | None = None,
    store: PartStore | None = None,
) -> Completion:
    """Train a completion with these settings; `phi` replaces a name in the settings."""
    trainer = RelationTrainer(kb, config.phi if phi is None else phi, config, constraints)
    names = check_relations(trainer.kbs[0], relations)
    threads, store = check_threads(threads), store or PartStore()
    if valid is not None:
        check_validation(config, relation_query("r", 2))
        trainer.choose_hiding(valid, names, threads, store)
    parts = trainer.train_all(names, threads, store)
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
    """Trains the relations of one knowledge base or a collection, which share graphs and compiled features."""

    def __init__(
        self,
        kb: KnowledgeBases,
        phi: Phi,
        config: TrainingConfig,
        constraints: Constraints | str | Path | None = FOUND,
    ) -> None:
        self._given = as_collection(kb)
        self.kbs = unify_schemas(self._given)
        """The knowledge bases, each with the relations and attributes of all."""
        self.phi, self.constraints = phi, as_constraints(constraints, self.kbs[0])
        resolved = resolve_config(replace(config, phi=phi_name(phi)), relation_query("r", 2))
        self.config = settings_for(resolved, len(self.kbs))
        """The settings, with a base model."""
        self.choice: HideChoice | None = None
        """What validation facts have chosen to hide."""
        self.formulas: tuple[Feature, ...] = ()
        """What ranked lists add to the mined formulas."""
        self.expert: TrainedExpert | None = None
        check_expert_kbs(self.config, len(self.kbs))
        self._prepared: dict[int, tuple[list[FeatureEvaluator], Ints]] = {}
        self._lock = ProcessLock()

    @cached_property
    def whole(self) -> KnowledgeBase:
        """All knowledge bases together, for ranked lists."""
        return join_collection(self.kbs)

    def evaluators_and_kinds(self, arity: int) -> tuple[list[FeatureEvaluator], Ints]:
        """The features of relations of this arity, compiled for each knowledge base, and their kinds."""
        with self._lock:
            if arity not in self._prepared:
                kb = self.kbs[0]
                arities = {name: relation.arity for name, relation in kb.relations.items()}
                features = resolve_feature_set(self.phi, arity, arities, kb.attributes, kb)
                own = _features_of_arity(features, arity)
                plans = [compile_features(own, kb, arity) for kb in self.kbs]
                evaluators = [FeatureEvaluator(graph_of(kb), plan) for kb, plan in zip(self.kbs, plans, strict=True)]
                self._prepared[arity] = evaluators, feature_kinds(plans[0].features)
            return self._prepared[arity]

    def prepare_formulas(self, names: Iterable[str]) -> None:
        """Collect the formulas that ranked lists add for some relations."""
        if self.config.base == LISTWISE:
            kb = self.kbs[0]
            arities = [kb.relations[name].arity for name in names]
            relations, attributes = kb.schema.relations, sorted(kb.schema.attributes)
            self.formulas = added_features(self.phi, arities, relations, attributes, kb)
            if self.formulas:
                check_formulas(self.formulas, constants=len(self.kbs) == 1)

    def count_facts(self, name: str) -> int:
        """The number of facts of a relation in all knowledge bases."""
        return sum(kb.relations[name].count for kb in self.kbs)

    def choose_hiding(self, valid: KnowledgeBase, names: Sequence[str], threads: int, store: PartStore) -> None:
        """Hide from now on what gives validation facts the better ranks, on some relations."""
        if len(self._given) > 1:
            raise KnowledgeBaseError("validation facts are for one knowledge base, and several are given")
        facts = ValidationFacts.of(self.kbs[0], valid, names)
        sample = facts.sample(self.config.seed).tuples

        def rank(name: str) -> dict[str, Floats]:
            store.check_stop()
            query = relation_query(name, self.kbs[0].relations[name].arity)
            asked = sample[name], facts.tuples[name]
            return rank_validation_facts(self.whole, query, self.config, self.constraints, *asked)

        self.choice = store.load_choice()
        if self.choice is None:
            ranked = map_threaded(rank, list(sample), threads, cost=self.count_facts)
            found = {choice: [one[choice] for one in ranked] for choice in CHOICES}
            self.choice = HideChoice.of(found, facts.left_out)
            store.save_choice(self.choice)
        self.config = replace(self.config, hide=self.choice.chosen)

    def train_all(self, names: Sequence[str], threads: int, store: PartStore) -> dict[str, RelationModel]:
        """Relation → its model: from the store, or trained now."""

        def train(name: str) -> RelationModel:
            part = store.load(name)
            if part is None:
                part = self.train(name, store.callback(name), len(names))
                store.save(name, part)
            return part

        self.prepare_formulas(names)
        order = sorted(names)
        if self.config.expert != "none":
            self.expert = train_expert(self.whole, self.config, store.expert_callback(), threads)
        weigh = self._weigh_expert(self.expert, order, threads, store) if self.expert else None
        parts = map_threaded(weigh or train, order, threads, cost=self.count_facts)
        return dict(zip(order, parts, strict=True))

    def _weigh_expert(
        self, expert: TrainedExpert, names: Sequence[str], threads: int, store: PartStore
    ) -> Callable[[str], RelationModel]:
        """Fit the rankers of all relations and the weights of the expert; return what measures a relation with them."""
        trial, final = expert.trial.bind(self.whole), expert.final.bind(self.whole)

        def fit(name: str) -> Arrays:
            arrays = store.load_fitted(name)
            if arrays is None:
                trainer = self._listwise_trainer(name)
                arrays = {} if trainer is None else fit_beside_expert(trainer, trial, store.callback(name))
                store.save_fitted(name, arrays)
            return arrays

        fitted = dict(zip(names, map_threaded(fit, names, threads, cost=self.count_facts), strict=True))
        mixtures = choose_mixtures({name: arrays["losses"] for name, arrays in fitted.items() if arrays})

        def measure(name: str) -> RelationModel:
            part = store.load(name)
            if part is not None:
                return part
            trainer = self._listwise_trainer(name) if fitted[name] else None
            if trainer is None:
                part = self.train(name, store.callback(name), len(names))
            else:
                trained, weighted = trainer.restore(fitted[name]), WeightedExpert(trial, final, mixtures[name])
                part = self._listwise_part(name, measure_relation(trainer, trained, len(names), weighted))
            store.save(name, part)
            return part

        return measure

    def _listwise_trainer(self, name: str) -> ListwiseTrainer | None:
        """The trainer of a relation; None if it cannot be trained."""
        if self.count_facts(name) < MIN_FACTS:
            return None
        examples = self._examples(self.whole, relation_query(name, self.kbs[0].relations[name].arity), name)
        return None if examples is None else ListwiseTrainer(examples, self.config, self.formulas)

    def train(self, name: str, callback: Callback, models: int = 1) -> RelationModel:
        """Train one of some relations; if that is impossible, the metadata say why."""
        arity, count = self.kbs[0].relations[name].arity, self.count_facts(name)
        about: dict[str, Any] = {"name": name, "arity": arity, "answers": count, "trained": False}
        if count < MIN_FACTS:
            return {}, about | {"reason": "fewer than two facts"}
        if self.config.base == LISTWISE:
            return self._train_listwise(name, about, callback, models)
        examples = [self._examples(kb, relation_query(name, arity), name) for kb in self.kbs]
        if not any(examples):
            return {}, about | {"reason": "every tuple is known"}
        evaluators, kinds = self.evaluators_and_kinds(arity)
        if not len(kinds):
            return {}, about | {"reason": "no feature fits"}
        pairs = zip(evaluators, examples, strict=True)
        sources = [TrainingSource(evaluator, own, kinds) for evaluator, own in pairs if own is not None]
        trainer = Trainer(sources, self.config, self.config.make_base_model())
        scorer = trainer.train(callback)
        held_out, ranks = trainer.held_out(scorer), rank_held_out(trainer, scorer, models)
        arrays = scorer_arrays(scorer) | _held_out_arrays(held_out, ranks)
        metrics = auc_metrics(held_out, count) | ranks.metrics()
        return arrays, about | {"trained": True, "losses": losses_as_json(scorer), **metrics}

    def _train_listwise(self, name: str, about: Mapping[str, Any], callback: Callback, models: int) -> RelationModel:
        examples = self._examples(self.whole, relation_query(name, about["arity"]), name)
        if examples is None:
            return {}, {**about, "reason": "every tuple is known"}
        return self._listwise_part(name, train_relation(examples, self.config, callback, models, self.formulas))

    def _listwise_part(self, name: str, trained: TrainedRelation) -> RelationModel:
        odds = fit_odds(trained.proposals).at(self.config.assumed_missing)
        held_out = trained.held_out(odds, bool(self.config.missing))
        answers = self.count_facts(name)
        about: dict[str, Any] = {"name": name, "arity": trained.rankers.arity, "answers": answers, "trained": True}
        metrics = auc_metrics(held_out, answers) | trained.ranks.metrics()
        return trained.arrays(), {**about, "formulas": trained.rankers.formula_count, **metrics}

    def _examples(self, kb: KnowledgeBase, query: Query, name: str) -> TrainingExamples | None:
        """The examples of a relation in one knowledge base; None if it has no facts there, or no unknown tuples."""
        if not kb.relations[name].count:
            return None
        examples = TrainingExamples(kb, query, self.config, self.constraints)
        usable = not self.config.negatives or len(next(examples.blocks(0)).negatives)
        return examples if usable else None

    def build_completion(self, names: Sequence[str], parts: Mapping[str, RelationModel]) -> Completion:
        """Join the models. They share one calibration: most relations have too few held-out tuples for their own."""
        if self.config.base == LISTWISE:
            return self._build_listwise(names, parts)
        trained = {name: arrays for name in names if (arrays := parts[name][0])}
        held_out, ranks = _pool_held_out(trained.values(), bool(self.config.missing))
        report = HeldOutReport.from_held_out(held_out, self.config.negative_ratio)
        calibration = held_out.fit_calibration(self.config.negative_ratio)
        features, scorers = self._shared_features(trained)
        answers = sum(map(self.count_facts, names))
        meta: dict[str, Any] = {
            "kind": "completion",
            "relations": [parts[name][1] for name in names],
            **training_metadata(
                self.config, self.config.make_base_model(), self._given, self.constraints, found=self._found(names)
            ),
            "features": sum(map(len, features.values())),
            "metrics": {"answers": answers, **report.metrics(answers), **ranks.metrics()},
            "calibration": report.reliability_table(),
        }
        arities = {name: self.kbs[0].relations[name].arity for name in names}
        kb = self.kbs[0] if len(self.kbs) == 1 else None
        return Completion(self.config, arities, features, scorers, calibration, meta, kb, report)

    def _build_listwise(self, names: Sequence[str], parts: Mapping[str, RelationModel]) -> Completion:
        """Join the ranked lists. Relations with few facts share the odds of the others."""
        vocabulary = Vocabulary.of(build_steps(self.whole), self.formulas)
        trained = [
            TrainedRelation.from_arrays(parts[name][0], name, parts[name][1]["arity"], vocabulary)
            for name in names
            if parts[name][0]
        ]
        odds = fit_all_odds({one.rankers.relation: one.proposals for one in trained})
        trained = [replace(one, rankers=replace(one.rankers, odds=odds[one.rankers.relation])) for one in trained]
        report = listwise_report(trained, self.config)
        ranks = HeldOutRanks.concatenate([one.ranks for one in trained])
        expert = self.expert.final if self.expert else None
        scorers = {one.rankers.relation: replace(one.rankers, expert=expert) for one in trained}
        answers = sum(map(self.count_facts, names))
        meta: dict[str, Any] = {
            "kind": "completion",
            "relations": [parts[name][1] for name in names],
            **training_metadata(self.config, None, self._given, self.constraints, self.formulas, self._found(names)),
            **({"hide_choice": self.choice.as_dict()} if self.choice else {}),
            **expert_metadata(scorers.values()),
            "features": sum(scorer.formula_count for scorer in scorers.values()),
            "metrics": {"answers": answers, **report.metrics(answers), **ranks.metrics()},
            "calibration": report.reliability_table(),
        }
        arities = {name: self.kbs[0].relations[name].arity for name in names}
        kb = self.kbs[0] if len(self.kbs) == 1 else None
        return Completion(self.config, arities, {}, scorers, Calibration.identity(), meta, kb, report)

    def _found(self, names: Sequence[str]) -> list[FoundConstraint] | None:
        """The constraints that were found for some relations, if they are to act."""
        return constraints_to_use(self.constraints, self.whole, names)

    def _shared_features(
        self, trained: Mapping[str, Arrays]
    ) -> tuple[dict[int, tuple[Feature, ...]], dict[str, Scorer]]:
        """Arity → the features that its relations use; relation → scorer, which counts among these features."""
        scorers: dict[str, Scorer] = {}
        features: dict[int, tuple[Feature, ...]] = {}
        arities = {name: self.kbs[0].relations[name].arity for name in trained}
        for arity in sorted(set(arities.values())):
            own = {name: arrays for name, arrays in trained.items() if arities[name] == arity}
            used = np.unique(_concatenate(own.values(), "scaler/features", np.zeros(0, np.int32)))
            evaluators, kinds = self.evaluators_and_kinds(arity)
            features[arity] = tuple(evaluators[0].plan.features[number] for number in used.tolist())
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
