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

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gaifman.answers import RankedAnswers, RankingOptions, rank_candidates
from gaifman.cancellation import Deadline
from gaifman.candidates import UNRESTRICTED, CandidateStrategy, Restriction, as_strategy
from gaifman.cards import summary_html
from gaifman.errors import InputError, KnowledgeBaseError
from gaifman.explain import DEFAULT_TOP, Explainer
from gaifman.explanations import Explanation
from gaifman.features.feature_sets import FeatureSet
from gaifman.glances import FastScorer
from gaifman.io.model_file import write_model
from gaifman.judging import DrawBudget, Estimate, Estimates, Predictor, extend_schema, query_variables
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph, fact_ids
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints
from gaifman.learning import Arrays, Scorer, TrainingConfig
from gaifman.logic.ast import Atom, Feature, Query
from gaifman.logic.names import similar_names
from gaifman.model import GaifmanModel, Tuples, as_tuple_ids
from gaifman.models.calibration import Calibration
from gaifman.models.mlp import BaseModel, make_base_model
from gaifman.models.scaling import feature_kinds
from gaifman.parts import (
    HeldOutReport,
    feature_metadata,
    features_from_metadata,
    prune_features,
    read_model_state,
    schema_from_metadata,
    scorer_arrays,
    scorer_from_arrays,
    strip_prefix,
    used_symbols,
)
from gaifman.patterns import Bindings, QueryPattern, atom_pattern, fill_pattern
from gaifman.sampling.neighbourhoods import HiddenFacts

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
        return extend_schema(self.kb, relations, sorted(attributes))

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
        return arrays, self.meta | {"widths": widths}

    @classmethod
    def from_state(cls, arrays: Arrays, meta: Mapping[str, Any]) -> Completion:
        """The completion of a file."""
        features = {
            int(width): features_from_metadata(own, schema_from_metadata(own)) for width, own in meta["widths"].items()
        }
        learning = TrainingConfig.from_settings(meta["learning"])
        relations = {row["name"]: row["arity"] for row in meta["relations"]}
        parts: dict[int, Arrays] = {}
        for name, array in arrays.items():
            first, _, rest = name.partition("/")
            if first.isdecimal():
                parts.setdefault(int(first), {})[rest] = array
        scorers, kinds = {}, {width: feature_kinds(own) for width, own in features.items()}
        for number, (relation, width) in enumerate(relations.items()):
            if number in parts:
                base = make_base_model(meta["base"]["kind"], **meta["base"]["settings"])
                scorers[relation] = scorer_from_arrays(parts[number], kinds[width], base)
        calibration = Calibration.from_arrays(strip_prefix(arrays, "calibration/"))
        own = {name: value for name, value in meta.items() if name != "widths"}
        return cls(learning, relations, features, scorers, calibration, own)


def relation_query(relation: str, arity: int) -> Query:
    """The query for the facts of a relation."""
    own = query_variables(arity)
    return Query(own, Atom(relation, own))


def fallback_probabilities(graph: GaifmanGraph, relation: str, tuples: Ints) -> Floats:
    """For each tuple the share of its objects that another fact of the relation has at the same place, smoothed."""
    width = tuples.shape[1]
    number, table = graph.kb.content.relations.find(relation), graph.kb.fact_tables.get(width)
    seen = np.zeros(len(tuples))
    if table is not None and number is not None:
        own = fact_ids(graph, number, tuples) >= 0  # the tuple's own fact is not another
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
