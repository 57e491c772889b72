"""One model for each relation of a knowledge base: what facts are missing.

>>> import gaifman
>>> completion = gaifman.complete(gaifman.demo(), ["continent", "capital"], options={"epochs": 1}, seed=1)
>>> completion
<Completion: 2 relations, 2 with a trained model>
>>> completion.probability("capital", "france", "paris").value > 0.5
True

Relations are learnt abreast, each by one thread, so the result does not hang on how many threads there are. A relation
with fewer than two answers, of which every tuple is known, or of which no feature speaks, has nothing to learn from:
its fallback is the share of places whose object stands at the same place of another fact of the relation,
(m + 1/2) / (n + 1).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman._serialization import (
    feature_metadata,
    features_from_metadata,
    losses_as_json,
    prune_features,
    read_model_state,
    schema_from_metadata,
    scorer_arrays,
    scorer_from_arrays,
    training_metadata,
)
from gaifman.cancellation import Deadline
from gaifman.config import cpu_count
from gaifman.errors import InputError, KnowledgeBaseError, similar_names
from gaifman.explain.attribution import DEFAULT_TOP, Explainer
from gaifman.explain.explanation import Explanation
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet, resolve_feature_set
from gaifman.io.model_file import Arrays, strip_prefix, write_model
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints
from gaifman.logic.ast import Bindings, Feature, Query, free_variables, query_position, relation_query
from gaifman.logic.transforms import used_symbols
from gaifman.model import GaifmanModel, Tuples, as_tuple_ids
from gaifman.model_card import summary_html
from gaifman.models.base import BaseModel
from gaifman.models.calibration import Calibration, HeldOut, HeldOutReport, auc, fit_calibration
from gaifman.models.registry import make_base_model
from gaifman.models.scaling import feature_kinds
from gaifman.predict import DrawBudget, Estimate, Estimates, Predictor
from gaifman.ranking.candidates import (
    UNRESTRICTED,
    CandidateStrategy,
    QueryPattern,
    Restriction,
    as_strategy,
    atom_pattern,
    fill_pattern,
)
from gaifman.ranking.fast_scoring import FastScorer
from gaifman.ranking.ranked_answers import RankedAnswers, RankingOptions, rank_candidates
from gaifman.sampling.constraints import Constraints
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.neighbourhoods import HiddenFacts
from gaifman.threads import map_threaded
from gaifman.training import Callback, Scorer, Trainer, TrainingConfig, TrainingSource

RelationModel = tuple[Arrays, dict[str, Any]]
"""What was learnt of one relation: arrays, and words about it."""


class Completion:
    """Models of relations, asked by the relation's name."""

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
        self.config, self.relations, self.features, self.scorers = (
            config,
            dict(relations),
            dict(features),
            dict(scorers),
        )
        self.calibration, self.meta, self._kb = calibration, dict(meta), kb
        self.held_out_report = held_out_report
        """How held-out tuples were judged; not kept in files, which have the figures."""
        self._predictors: dict[int, Predictor] = {}
        self._fast_scorers: dict[int, FastScorer] = {}

    def __repr__(self) -> str:
        return f"<Completion: {len(self.relations):,} relations, {len(self.scorers):,} with a trained model>"

    def _repr_html_(self) -> str:
        return summary_html(repr(self)[1:-1], self.meta)

    def with_kb(self, kb: KnowledgeBase) -> Completion:
        """The same, which answers from another knowledge base."""
        parts = (self.config, self.relations, self.features, self.scorers, self.calibration, self.meta)
        return Completion(*parts, kb)

    @property
    def kb(self) -> KnowledgeBase:
        """What it answers from."""
        if self._kb is None:
            raise KnowledgeBaseError(
                "the completion has no knowledge base to answer from",
                hint="completion.on(kb), or gaifman.load(file, kb)",
            )
        return self._kb

    def probability(self, relation: str, *objects: str, **settings: Any) -> Estimate:
        """The probability of a fact: `completion.probability("capital", "france", "paris")`. See `probabilities`."""
        return self.probabilities(relation, [objects], **settings)[0]

    def probabilities(
        self,
        relation: str,
        tuples: Tuples,
        *,
        draws: int | None = None,
        max_error: float | None = None,
        max_draws: int = 1_000,
        prior: float | None = None,
    ) -> Estimates:
        """The probabilities of facts of one relation, as `GaifmanModel.probabilities` has them."""
        judge = self.predictor(relation)
        numbers = as_tuple_ids(judge, tuples)
        hidden = judge.hidden_facts(relation_query(relation, judge.width), numbers, self.config.seed)
        wanted = DrawBudget(self.config.draws if draws is None else draws, max_error, max_draws)
        return self._estimates(relation, numbers, hidden, wanted, prior)

    def _estimates(
        self, relation: str, numbers: Ints, hidden: HiddenFacts, draw_budget: DrawBudget, prior: float | None
    ) -> Estimates:
        judge, scorer = self.predictor(relation), self.scorers.get(relation)
        if scorer is None:
            values = fallback_probabilities(judge.graph, relation, numbers)
            values = values if prior is None else Calibration.identity().with_prior(prior).apply(values)
            return Estimates(values, np.zeros(len(values)), np.zeros(len(values), np.int32))
        calibration = self.calibration if prior is None else self.calibration.with_prior(prior)
        return judge.estimate(scorer, calibration, self.config, numbers, hidden, draw_budget)

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
        """The most probable facts of a relation: `completion.answers("located_in('france', y)", top=5)`.

        The question is one atom with objects and variables. The settings are those of `GaifmanModel.answers`.
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
        relation, pattern = self._pattern(query, bindings)
        judge = self.predictor(relation)

        def estimate(tuples: Ints, hidden: HiddenFacts, draws: int) -> Estimates:
            return self._estimates(relation, tuples, hidden, DrawBudget(draws, deadline=options.deadline), prior)

        def glance(tuples: Ints, hidden: HiddenFacts) -> Floats:
            return self._fast_scorer(judge).scores(self.scorers[relation], tuples, hidden, options.deadline)

        own_query, looking = relation_query(relation, judge.width), glance if relation in self.scorers else None
        return rank_candidates(judge, own_query, pattern, estimate, looking, wanted.draws, self.config.seed, options)

    def _pattern(self, query: str | Query | None, bindings: Bindings) -> tuple[str, QueryPattern]:
        """The relation that is asked for, and its objects and variables."""
        if query is None:
            relation, arity = next(iter(self.relations.items()))
            raise KnowledgeBaseError(
                f"the model is a completion of {len(self.relations):,} relations: say what to answer",
                hint=f'as in "{relation_query(relation, arity)}"',
            )
        return atom_pattern(query, self.extended_kb, self.relations, bindings)

    def warm_up(self, deadline: Deadline | None = None) -> None:
        """Make what rankings of all objects share: some seconds for a large knowledge base, for whoever asks often."""
        for relation in {self.relations[name]: name for name in self.scorers}.values():
            self._fast_scorer(self.predictor(relation)).prepare(deadline)

    def _fast_scorer(self, predictor: Predictor) -> FastScorer:
        return self._fast_scorers.setdefault(predictor.width, FastScorer(predictor, self.config))

    def explain(
        self,
        relation: str,
        *objects: str,
        draws: int | None = None,
        prior: float | None = None,
        top: int = DEFAULT_TOP,
        deadline: Deadline | None = None,
    ) -> Explanation:
        """Why a fact is as probable as `probability` says: `completion.explain("capital", "france", "paris")`.

        As `GaifmanModel.explain` has it.
        """
        judge, scorer = self.predictor(relation), self._scorer(relation)
        calibration = self.calibration if prior is None else self.calibration.with_prior(prior)
        case = Explainer(judge, scorer, calibration, self.config, relation_query(relation, judge.width))
        return case.explain(as_tuple_ids(judge, [objects]), draws, top, deadline)

    def answer_tuple(self, query: str | Query | None, bindings: Bindings, answer: Sequence[str]) -> tuple[str, ...]:
        """The relation of a question, and the objects of an answer to it: what `explain` wants."""
        relation, pattern = self._pattern(query, bindings)
        return relation, *fill_pattern(pattern, self.extended_kb, answer)

    def raw_scores(self, relation: str, tuples: Tuples, *, draws: int | None = None) -> Floats:
        """Shape (tuples,), float64: the mean of the base model's own probabilities, not calibrated."""
        judge = self.predictor(relation)
        numbers = as_tuple_ids(judge, tuples)
        count = self.config.draws if draws is None else draws
        hidden = judge.hidden_facts(relation_query(relation, judge.width), numbers, self.config.seed)
        sampling = self.config.sampling(count, "answer 0")
        return np.asarray(judge.probabilities_per_draw(self.scorers[relation], numbers, sampling, hidden).mean(axis=1))

    def model(self, relation: str) -> GaifmanModel:
        """The model of one relation by itself."""
        scorer = self._scorer(relation)
        learning, width = self.config, self.arity(relation)
        model = GaifmanModel(
            relation_query(relation, width), learning.radius, learning.size, FeatureSet((), learning.phi), scorer.base
        )
        model.config, model.calibration = learning, self.calibration
        model.features, model._scorer = prune_features(scorer, self.features[width])
        about = next(row for row in self.meta["relations"] if row["name"] == relation)
        model.meta = {name: value for name, value in self.meta.items() if name not in ("relations", "metrics")} | {
            "kind": "model",
            "query": str(model.query),
            "features": len(model.features),
            "metrics": {"answers": about["answers"], "losses": about["losses"]},
        }
        model._kb = self._kb
        return model

    def _scorer(self, relation: str) -> Scorer:
        self.arity(relation)
        if relation not in self.scorers:
            raise KnowledgeBaseError(
                f"{relation} has no trained model, only the fallback", hint="see docs/completion.md"
            )
        return self.scorers[relation]

    def arity(self, relation: str) -> int:
        """Places of a relation of this completion."""
        if relation not in self.relations:
            raise KnowledgeBaseError(
                f"there is no model of {relation}", suggestions=similar_names(relation, self.relations)
            )
        return self.relations[relation]

    def predictor(self, relation: str) -> Predictor:
        """The knowledge base made ready for relations of this arity."""
        width = self.arity(relation)
        if width not in self._predictors:
            self._predictors[width] = Predictor(self.extended_kb, self.features.get(width, ()), width, self._graph)
        return self._predictors[width]

    @cached_property
    def extended_kb(self) -> KnowledgeBase:
        relations = dict(self.relations)
        attributes = set[str]()
        for width, features in self.features.items():
            spoken_of, numbers = used_symbols(features, relation_query("", width))
            relations |= {name: arity for name, arity in spoken_of.items() if name}
            attributes |= set(numbers)
        return self.kb.extend_schema(relations, sorted(attributes))

    @cached_property
    def _graph(self) -> GaifmanGraph:
        return build_graph(self.extended_kb)

    # Files

    def save(self, path: str | Path) -> None:
        """Write it to one file, whole or not at all."""
        write_model(path, *self.state())

    def state(self) -> RelationModel:
        """What the file holds."""
        arrays: Arrays = {f"calibration/{name}": array for name, array in self.calibration.arrays().items()}
        for number, relation in enumerate(self.relations):
            if relation in self.scorers:
                arrays |= scorer_arrays(self.scorers[relation], f"{number}/")
        widths = {
            str(width): feature_metadata(own, relation_query("", width)) for width, own in sorted(self.features.items())
        }
        return arrays, self.meta | {"arities": widths}

    @classmethod
    def from_state(cls, arrays: Arrays, meta: Mapping[str, Any]) -> Completion:
        """The completion of a file."""
        features = {
            int(width): features_from_metadata(own, schema_from_metadata(own)) for width, own in meta["arities"].items()
        }
        config = TrainingConfig.from_settings(meta["config"])
        relations = {row["name"]: row["arity"] for row in meta["relations"]}
        parts: dict[int, Arrays] = {}
        for name, array in arrays.items():
            first, _, rest = name.partition("/")
            if first.isdecimal():
                parts.setdefault(int(first), {})[rest] = array
        scorers, kinds = {}, {width: feature_kinds(own) for width, own in features.items()}
        for number, (relation, width) in enumerate(relations.items()):
            if number in parts:
                base = make_base_model(meta["base"]["kind"], meta["base"]["settings"])
                scorers[relation] = scorer_from_arrays(parts[number], kinds[width], base)
        calibration = Calibration.from_arrays(strip_prefix(arrays, "calibration/"))
        own = {name: value for name, value in meta.items() if name != "arities"}
        return cls(config, relations, features, scorers, calibration, own)


def fallback_probabilities(graph: GaifmanGraph, relation: str, tuples: Ints) -> Floats:
    """For each tuple the share of its objects that another fact of the relation has at the same place, smoothed."""
    width = tuples.shape[1]
    number, table = graph.kb.content.relations.find(relation), graph.kb.fact_tables.get(width)
    seen = np.zeros(len(tuples))
    if table is not None and number is not None:
        own = graph.kb.fact_ids(number, tuples) >= 0  # the tuple's own fact is not another
        for place in range(width):
            counts = np.bincount(table.objects[table.rows(number), place], minlength=len(graph))
            seen += counts[tuples[:, place]] > own
    values: Floats = (seen + 0.5) / (width + 1)
    return values


def load(
    path: str | Path, kb: KnowledgeBase | None = None, *, base: BaseModel | None = None
) -> GaifmanModel | Completion:
    """A saved model or completion, to answer from a knowledge base; a base model that is not ours must be given."""
    arrays, meta = read_model_state(path)
    if base is not None and meta["kind"] == "completion":
        raise InputError(f"{path} is a completion, which makes its base models itself", hint="leave out base=…")
    try:
        found = (
            Completion.from_state(arrays, meta)
            if meta["kind"] == "completion"
            else GaifmanModel.from_state(arrays, meta, base)
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:  # whole, but not written by us
        raise InputError(f"{path} has not what a {meta['kind']} has: {error!r}") from error
    return found if kb is None else found.with_kb(kb)


MIN_FACTS = 2
"""Answers a relation must have to be learnt."""


class PartStore:
    """Where the work on relations is written down: this one keeps all in memory and watches nothing."""

    def load(self, relation: str) -> RelationModel | None:
        """What was learnt of a relation before."""
        return None

    def save(self, relation: str, part: RelationModel) -> None:
        """A relation is learnt."""

    def callback(self, relation: str) -> Callback:
        """What looks on while a relation is learnt."""
        return Callback()


def complete(
    kb: KnowledgeBase,
    relations: Iterable[str] | None = None,
    *,
    phi: str | FeatureSet = "default",
    constraints: Constraints | None = None,
    threads: int | None = None,
    store: PartStore | None = None,
    **settings: Any,
) -> Completion:
    """Learn every relation of a knowledge base, or some. The settings are those of `TrainingConfig`."""
    named = phi if isinstance(phi, str) else phi.name or "custom"
    learning = TrainingConfig.from_settings({"phi": named, **settings})
    names = _check_relations(kb, relations)
    school = RelationTrainer(build_graph(kb), phi, learning, constraints)
    parts = school.train_all(names, threads or cpu_count(), store or PartStore())
    return school.build_completion(names, parts)


def _check_relations(kb: KnowledgeBase, relations: Iterable[str] | None) -> list[str]:
    if isinstance(relations, str):
        raise KnowledgeBaseError(f"several relations are meant: write [{relations!r}], not {relations!r}")
    names = sorted(kb.relations) if relations is None else sorted(set(relations))
    for name in names:
        if name not in kb.relations:
            raise KnowledgeBaseError(f"there is no relation {name}", suggestions=similar_names(name, kb.relations))
    if not names:
        raise KnowledgeBaseError("the knowledge base has no relations to learn")
    return names


class RelationTrainer:
    """Learns relations of one knowledge base; what they share is made once."""

    def __init__(
        self, graph: GaifmanGraph, phi: str | FeatureSet, config: TrainingConfig, constraints: Constraints | None
    ) -> None:
        self.graph, self.phi, self.config, self.constraints = graph, phi, config, constraints
        self._prepared: dict[int, tuple[FeatureEvaluator, Ints]] = {}
        self._lock = threading.Lock()

    def evaluator_and_kinds(self, arity: int) -> tuple[FeatureEvaluator, Ints]:
        """The features of tuples of so many objects, made ready once, and their kinds."""
        with self._lock:
            if arity not in self._prepared:
                kb = self.graph.kb
                arities = {name: relation.arity for name, relation in kb.relations.items()}
                plan = compile_features(
                    _features_of_arity(resolve_feature_set(self.phi, arity, arities, kb.attributes, kb), arity),
                    kb,
                    arity,
                )
                self._prepared[arity] = FeatureEvaluator(self.graph, plan), feature_kinds(plan.features)
            return self._prepared[arity]

    def train_all(self, names: Sequence[str], threads: int, store: PartStore) -> dict[str, RelationModel]:
        """What is learnt of each relation: the largest first, so that no thread is left with one at the end."""
        kb = self.graph.kb

        def train(name: str) -> RelationModel:
            part = store.load(name)
            if part is None:
                part = self.train(name, store.callback(name))
                store.save(name, part)
            return part

        order = sorted(names)
        parts = map_threaded(train, order, threads, cost=lambda name: kb.relations[name].count)
        return dict(zip(order, parts, strict=True))

    def train(self, name: str, callback: Callback) -> RelationModel:
        """Learn one relation; where that cannot be, only say so."""
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
        held = trainer.held_out(scorer)
        arrays = scorer_arrays(scorer) | {"held/means": held.means, "held/targets": held.targets}
        area = auc(held.means, held.targets)
        measured = {"held_out": len(held.means), "auc": None if area is None else round(area, 6)}
        return arrays, about | {"trained": True, "losses": losses_as_json(scorer), **measured}

    def build_completion(self, names: Sequence[str], parts: Mapping[str, RelationModel]) -> Completion:
        """All parts as one, with one calibration for all: a small relation has too few held-out tuples for its own."""
        trained = {name: arrays for name in names if (arrays := parts[name][0])}
        held = HeldOut(
            *(_concatenate(trained.values(), f"held/{field}", np.zeros(0)) for field in ("means", "targets"))
        )
        trust = HeldOutReport.from_held_out(held, self.config.negative_ratio)
        calibration = fit_calibration(held.means, held.targets, ratio=self.config.negative_ratio)
        kb = self.graph.kb
        arities = {name: kb.relations[name].arity for name in names}
        scorers: dict[str, Scorer] = {}
        features: dict[int, tuple[Feature, ...]] = {}
        for width in sorted({arities[name] for name in trained}):
            own = {name: arrays for name, arrays in trained.items() if arities[name] == width}
            used = np.unique(_concatenate(own.values(), "scaler/features", np.zeros(0, np.int32)))
            evaluator, kinds = self.evaluator_and_kinds(width)
            features[width] = tuple(evaluator.plan.features[number] for number in used.tolist())
            scorers |= {
                name: _renumber_features(arrays, used, kinds[used], self.config.make_base_model())
                for name, arrays in own.items()
            }
        meta: dict[str, Any] = {"kind": "completion", "relations": [parts[name][1] for name in names]}
        meta |= training_metadata(self.config, self.config.make_base_model(), [kb])
        meta["features"] = sum(map(len, features.values()))
        meta["metrics"] = {"answers": sum(kb.relations[name].count for name in names), **trust.metrics()}
        meta["calibration"] = trust.reliability_table()
        return Completion(self.config, arities, features, scorers, calibration, meta, kb, trust)


def _features_of_arity(features: FeatureSet, arity: int) -> FeatureSet:
    """Without the features that speak of more objects: one set serves relations of all arities."""
    own = tuple(f for f in features if all(query_position(variable) <= arity for variable in free_variables(f)))
    return FeatureSet(own, features.name)


def _concatenate(parts: Iterable[Arrays], name: str, none: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One array of all parts, one after another."""
    return np.concatenate([none, *(arrays[name] for arrays in parts)])


def _renumber_features(arrays: Arrays, used: Ints, kinds: Ints, base: BaseModel) -> Scorer:
    """A scorer whose features are numbered among those that are used."""
    numbered = np.searchsorted(used, arrays["scaler/features"]).astype(np.int32)
    return scorer_from_arrays(arrays | {"scaler/features": numbered}, kinds, base)
