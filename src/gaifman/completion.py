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

from gaifman.answers import Ranked, Ranking, ranked
from gaifman.calibration import Calibration
from gaifman.candidates import EVERYTHING, Among, Choice, choice_of
from gaifman.cards import brief
from gaifman.deadlines import Deadline
from gaifman.errors import InputError, KnowledgeError
from gaifman.explain import TOP, Case
from gaifman.explanations import Explanation
from gaifman.formulas import Atom
from gaifman.glances import Glances
from gaifman.graph import Graph, fact_numbers, graph_of
from gaifman.inputs import kinds_of
from gaifman.judging import Estimate, Estimates, Judge, Wanted, knowing, variables
from gaifman.kb import KnowledgeBase
from gaifman.learning import Arrays, Learning, Scorer
from gaifman.model import GaifmanModel, Tuples, tuple_numbers
from gaifman.modelfile import write_model
from gaifman.names import nearest
from gaifman.neighbourhoods import Hidden
from gaifman.network import BaseModel, base_model
from gaifman.parts import (
    Trust,
    below,
    features_of,
    open_model,
    restricted,
    scorer_arrays,
    scorer_of,
    spoken,
    vocabulary_of,
    words_of,
)
from gaifman.patterns import Given, Pattern, answered, atom_pattern
from gaifman.phi import FeatureSet
from gaifman.questions import Feature, Query
from gaifman.tables import Floats, Ints

Part = tuple[Arrays, dict[str, Any]]
"""What was learnt of one relation: arrays, and words about it."""


class Completion:
    """Models of relations, asked by the relation's name."""

    def __init__(
        self,
        learning: Learning,
        relations: Mapping[str, int],
        features: Mapping[int, tuple[Feature, ...]],
        scorers: Mapping[str, Scorer],
        calibration: Calibration,
        meta: Mapping[str, Any],
        kb: KnowledgeBase | None = None,
        trust: Trust | None = None,
    ) -> None:
        self.learning, self.relations, self.features, self.scorers = (
            learning,
            dict(relations),
            dict(features),
            dict(scorers),
        )
        self.calibration, self.meta, self._kb = calibration, dict(meta), kb
        self.trust = trust
        """How held-out tuples were judged; not kept in files, which have the figures."""
        self._judges: dict[int, Judge] = {}
        self._glances: dict[int, Glances] = {}

    def __repr__(self) -> str:
        return f"<Completion: {len(self.relations):,} relations, {len(self.scorers):,} with a trained model>"

    def _repr_html_(self) -> str:
        return brief(repr(self)[1:-1], self.meta)

    def on(self, kb: KnowledgeBase) -> Completion:
        """The same, which answers from another knowledge base."""
        parts = (self.learning, self.relations, self.features, self.scorers, self.calibration, self.meta)
        return Completion(*parts, kb)

    @property
    def kb(self) -> KnowledgeBase:
        """What it answers from."""
        if self._kb is None:
            raise KnowledgeError(
                "the completion has no knowledge base to answer from",
                hint="completion.on(kb), or gaifman.load(file, kb)",
            )
        return self._kb

    def probability(self, relation: str, *objects: str, **wanted: Any) -> Estimate:
        """The probability of a fact: `completion.probability("capital", "france", "paris")`. See `probabilities`."""
        return self.probabilities(relation, [objects], **wanted)[0]

    def probabilities(
        self,
        relation: str,
        tuples: Tuples,
        *,
        draws: int | None = None,
        error: float | None = None,
        most: int = 1_000,
        prior: float | None = None,
    ) -> Estimates:
        """The probabilities of facts of one relation, as `GaifmanModel.probabilities` has them."""
        judge = self.judge(relation)
        numbers = tuple_numbers(judge, tuples)
        hidden = judge.secret(query_of(relation, judge.width), numbers, self.learning.seed)
        wanted = Wanted(self.learning.draws if draws is None else draws, error, most)
        return self._estimates(relation, numbers, hidden, wanted, prior)

    def _estimates(
        self, relation: str, numbers: Ints, hidden: Hidden, wanted: Wanted, prior: float | None
    ) -> Estimates:
        judge, scorer = self.judge(relation), self.scorers.get(relation)
        if scorer is None:
            values = fallback(judge.graph, relation, numbers)
            values = values if prior is None else Calibration.identity().at(prior).apply(values)
            return Estimates(values, np.zeros(len(values)), np.zeros(len(values), np.int32))
        calibration = self.calibration if prior is None else self.calibration.at(prior)
        return judge.estimates(scorer, calibration, self.learning, numbers, hidden, wanted)

    def answers(
        self,
        question: str | Query | None = None,
        given: Given | None = None,
        *,
        top: int | None = 10,
        known: str = "mark",
        among: Among = EVERYTHING,
        candidates: str | Choice = "auto",
        draws: int | None = None,
        prior: float | None = None,
        **objects: str,
    ) -> Ranked:
        """The most probable facts of a relation: `completion.answers("located_in('france', y)", top=5)`.

        The question is one atom with objects and variables. The settings are those of `GaifmanModel.answers`.
        """
        ranking = Ranking(top, known, among, choice_of(candidates))
        return self.ranked(question, {**(given or {}), **objects}, ranking, draws=draws, prior=prior)

    def ranked(
        self,
        question: str | Query | None,
        given: Given,
        ranking: Ranking,
        *,
        draws: int | None = None,
        prior: float | None = None,
    ) -> Ranked:
        """The same, where what is wanted is one object, which may have a deadline."""
        wanted = Wanted(self.learning.draws if draws is None else draws)
        relation, pattern = self._pattern(question, given)
        judge = self.judge(relation)

        def estimate(tuples: Ints, hidden: Hidden, draws: int) -> Estimates:
            return self._estimates(relation, tuples, hidden, Wanted(draws, deadline=ranking.deadline), prior)

        def glance(tuples: Ints, hidden: Hidden) -> Floats:
            return self._glancing(judge).values(self.scorers[relation], tuples, hidden, ranking.deadline)

        query, looking = query_of(relation, judge.width), glance if relation in self.scorers else None
        return ranked(judge, query, pattern, estimate, looking, wanted.draws, self.learning.seed, ranking)

    def _pattern(self, question: str | Query | None, given: Given) -> tuple[str, Pattern]:
        """The relation that is asked for, and its objects and variables."""
        if question is None:
            relation, arity = next(iter(self.relations.items()))
            raise KnowledgeError(
                f"the model is a completion of {len(self.relations):,} relations: say what to answer",
                hint=f'as in "{query_of(relation, arity)}"',
            )
        return atom_pattern(question, self._known, self.relations, given)

    def hasten(self, deadline: Deadline | None = None) -> None:
        """Make what rankings of all objects share: some seconds for a large knowledge base, for whoever asks often."""
        for relation in {self.relations[name]: name for name in self.scorers}.values():
            self._glancing(self.judge(relation)).prepare(deadline)

    def _glancing(self, judge: Judge) -> Glances:
        return self._glances.setdefault(judge.width, Glances(judge, self.learning))

    def explain(
        self,
        relation: str,
        *objects: str,
        draws: int | None = None,
        prior: float | None = None,
        top: int = TOP,
        deadline: Deadline | None = None,
    ) -> Explanation:
        """Why a fact is as probable as `probability` says: `completion.explain("capital", "france", "paris")`.

        As `GaifmanModel.explain` has it.
        """
        judge, scorer = self.judge(relation), self._scorer(relation)
        calibration = self.calibration if prior is None else self.calibration.at(prior)
        case = Case(judge, scorer, calibration, self.learning, query_of(relation, judge.width))
        return case.explain(tuple_numbers(judge, [objects]), draws, top, deadline)

    def tuple_of(self, question: str | Query | None, given: Given, answer: Sequence[str]) -> tuple[str, ...]:
        """The relation of a question, and the objects of an answer to it: what `explain` wants."""
        relation, pattern = self._pattern(question, given)
        return relation, *answered(pattern, self._known, answer)

    def raw(self, relation: str, tuples: Tuples, *, draws: int | None = None) -> Floats:
        """Shape (tuples,), float64: the mean of the base model's own probabilities, not calibrated."""
        judge = self.judge(relation)
        numbers = tuple_numbers(judge, tuples)
        count = self.learning.draws if draws is None else draws
        hidden = judge.secret(query_of(relation, judge.width), numbers, self.learning.seed)
        sampling = self.learning.sampling(count, "answer 0")
        return np.asarray(judge.each(self.scorers[relation], numbers, sampling, hidden).mean(axis=1))

    def model(self, relation: str) -> GaifmanModel:
        """The model of one relation by itself."""
        scorer = self._scorer(relation)
        learning, width = self.learning, self.arity(relation)
        model = GaifmanModel(
            query_of(relation, width), learning.radius, learning.size, FeatureSet((), learning.phi), scorer.base
        )
        model.learning, model.calibration = learning, self.calibration
        model.features, model._scorer = restricted(scorer, self.features[width])
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
            raise KnowledgeError(f"{relation} has no trained model, only the fallback", hint="see docs/completion.md")
        return self.scorers[relation]

    def arity(self, relation: str) -> int:
        """Places of a relation of this completion."""
        if relation not in self.relations:
            raise KnowledgeError(f"there is no model of {relation}", near=nearest(relation, self.relations))
        return self.relations[relation]

    def judge(self, relation: str) -> Judge:
        """The knowledge base made ready for relations of this arity."""
        width = self.arity(relation)
        if width not in self._judges:
            self._judges[width] = Judge(self._known, self.features.get(width, ()), width, self._graph)
        return self._judges[width]

    @cached_property
    def _known(self) -> KnowledgeBase:
        relations = dict(self.relations)
        attributes = set[str]()
        for width, features in self.features.items():
            spoken_of, numbers = spoken(features, query_of("", width))
            relations |= {name: arity for name, arity in spoken_of.items() if name}
            attributes |= set(numbers)
        return knowing(self.kb, relations, sorted(attributes))

    @cached_property
    def _graph(self) -> Graph:
        return graph_of(self._known)

    # Files

    def save(self, path: str | Path) -> None:
        """Write it to one file, whole or not at all."""
        write_model(path, *self.state())

    def state(self) -> Part:
        """What the file holds."""
        arrays: Arrays = {f"calibration/{name}": array for name, array in self.calibration.arrays().items()}
        for number, relation in enumerate(self.relations):
            if relation in self.scorers:
                arrays |= scorer_arrays(self.scorers[relation], f"{number}/")
        widths = {str(width): vocabulary_of(own, query_of("", width)) for width, own in sorted(self.features.items())}
        return arrays, self.meta | {"widths": widths}

    @classmethod
    def from_state(cls, arrays: Arrays, meta: Mapping[str, Any]) -> Completion:
        """The completion of a file."""
        features = {int(width): features_of(own, words_of(own)) for width, own in meta["widths"].items()}
        learning = Learning.of(meta["learning"])
        relations = {row["name"]: row["arity"] for row in meta["relations"]}
        parts: dict[int, Arrays] = {}
        for name, array in arrays.items():
            first, _, rest = name.partition("/")
            if first.isdecimal():
                parts.setdefault(int(first), {})[rest] = array
        scorers, kinds = {}, {width: kinds_of(own) for width, own in features.items()}
        for number, (relation, width) in enumerate(relations.items()):
            if number in parts:
                base = base_model(meta["base"]["kind"], **meta["base"]["settings"])
                scorers[relation] = scorer_of(parts[number], kinds[width], base)
        calibration = Calibration.from_arrays(below(arrays, "calibration/"))
        own = {name: value for name, value in meta.items() if name != "widths"}
        return cls(learning, relations, features, scorers, calibration, own)


def query_of(relation: str, width: int) -> Query:
    """The query for the facts of a relation."""
    own = variables(width)
    return Query(own, Atom(relation, own))


def fallback(graph: Graph, relation: str, tuples: Ints) -> Floats:
    """For each tuple the share of its objects that another fact of the relation has at the same place, smoothed."""
    width = tuples.shape[1]
    number, table = graph.kb.content.relations.number(relation), graph.kb.tables.get(width)
    seen = np.zeros(len(tuples))
    if table is not None and number is not None:
        own = fact_numbers(graph, number, tuples) >= 0  # the tuple's own fact is not another
        for place in range(width):
            counts = np.bincount(table.objects[table.rows(number), place], minlength=len(graph))
            seen += counts[tuples[:, place]] > own
    values: Floats = (seen + 0.5) / (width + 1)
    return values


def load(
    path: str | Path, kb: KnowledgeBase | None = None, *, base: BaseModel | None = None
) -> GaifmanModel | Completion:
    """A saved model or completion, to answer from a knowledge base; a base model that is not ours must be given."""
    arrays, meta = open_model(path)
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
    return found if kb is None else found.on(kb)
