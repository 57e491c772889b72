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

from gaifman.answers import Ranked, Ranking, ranked
from gaifman.calibration import Calibration, fit_calibration
from gaifman.candidates import EVERYTHING, Among, Choice, choice_of
from gaifman.cards import brief
from gaifman.constraints import Constraints
from gaifman.deadlines import Deadline
from gaifman.errors import FormulaError, GaifmanError, KnowledgeError
from gaifman.examples import Examples
from gaifman.explain import TOP, Case
from gaifman.explanations import Explanation
from gaifman.features import Evaluator
from gaifman.glances import Glances
from gaifman.graph import graph_of
from gaifman.inputs import kinds_of
from gaifman.judging import Estimate, Estimates, Judge, Wanted, knowing
from gaifman.kb import KnowledgeBase
from gaifman.learning import Arrays, Learning, Scorer, Source, Trainer, Watch
from gaifman.markup import together
from gaifman.modelfile import write_model
from gaifman.neighbourhoods import Hidden, checked_tuples
from gaifman.network import BaseModel, Reals
from gaifman.parser import parse_query
from gaifman.parts import (
    Trust,
    below,
    described,
    features_of,
    known_losses,
    made_base,
    restricted,
    scorer_arrays,
    scorer_of,
    spoken,
    untaught,
    vocabulary_of,
    words_of,
)
from gaifman.patterns import Given, answered, model_pattern
from gaifman.phi import FeatureSet, chosen
from gaifman.plans import plan_of
from gaifman.questions import Feature, Query
from gaifman.tables import Floats, Ints

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
        named = phi if isinstance(phi, str) else phi.name or "given"
        kind = base if isinstance(base, str) else base.kind
        given = {"radius": radius, "size": size, "phi": named, "base": kind, **settings}
        self.learning = Learning.of(given)
        if self.learning.options and not isinstance(base, str):
            raise KnowledgeError(
                f"{next(iter(self.learning.options))} is a setting of the network, and another base model is given",
                hint="set the base model where it is made",
            )
        self.query, self._phi = query, phi
        self.base = self.learning.new_base() if isinstance(base, str) else base
        self.features: tuple[Feature, ...] = ()
        self.meta: dict[str, Any] = {}
        self._scorer: Scorer | None = None
        self.calibration = Calibration.identity()
        self._kb: KnowledgeBase | None = None
        self.trust: Trust | None = None
        """How held-out tuples were judged; not kept in files, which have the figures."""

    def __repr__(self) -> str:
        learning = self.learning
        size = "all" if learning.size is None else learning.size
        trained = "not trained"
        if self._scorer:
            trained = f"{len(self.features):,} features, trained on {self.meta['metrics']['answers']:,} answers"
        return f"<GaifmanModel: {self.query}, radius {learning.radius}, size {size}, {trained}>"

    def _repr_html_(self) -> str:
        return brief(repr(self)[1:-1], self.meta) if self._scorer else together(repr(self)[1:-1])

    def fit(
        self,
        kb: KnowledgeBase | Sequence[KnowledgeBase],
        *,
        constraints: Constraints | None = None,
        threads: int | None = None,
        watch: Watch | None = None,
    ) -> Self:
        """Learn from one knowledge base, or from several that share relations but no objects."""
        kbs = [kb] if isinstance(kb, KnowledgeBase) else list(kb)
        kbs, query, features = prepared(kbs, self.query, self._phi)
        self.base = untaught(self.base)
        trainer = Trainer(sources(kbs, query, features, self.learning, constraints), self.learning, self.base, threads)
        scorer = trainer.train(watch)
        held = trainer.held_out(scorer)
        self.query, self._kb = query, kbs[0] if len(kbs) == 1 else None
        self.calibration = fit_calibration(held.means, held.targets, ratio=self.learning.ratio)
        self.features, self._scorer = restricted(scorer, features)
        self.meta = {"kind": "model", "query": str(query), **described(self.learning, self.base, kbs)}
        self.meta["features"] = len(self.features)
        answers = sum(len(source.examples.training) for source in trainer.sources)
        self.trust = Trust.of(held, self.learning.ratio)
        self.meta["metrics"] = {"answers": answers, "losses": known_losses(scorer), **self.trust.metrics()}
        self.meta["calibration"] = self.trust.table()
        self._forget()
        return self

    # What it says

    def on(self, kb: KnowledgeBase) -> GaifmanModel:
        """The same model, which answers from another knowledge base."""
        other = GaifmanModel.__new__(GaifmanModel)
        other.__dict__.update(self.__dict__)
        other._forget()
        other._kb = kb
        return other

    def probability(
        self,
        *objects: str,
        draws: int | None = None,
        error: float | None = None,
        most: int = 1_000,
        prior: float | None = None,
    ) -> Estimate:
        """The probability that a tuple is an answer: `model.probability("ann", "cleo")`. See `probabilities`."""
        return self.probabilities([objects], draws=draws, error=error, most=most, prior=prior)[0]

    def probabilities(
        self,
        tuples: Tuples,
        *,
        draws: int | None = None,
        error: float | None = None,
        most: int = 1_000,
        prior: float | None = None,
    ) -> Estimates:
        """The probabilities of tuples, each the mean over `draws` neighbourhoods, with its standard error.

        With a bound `error`, drawing goes on until the standard error is below it, or `most` are drawn. The
        probability is that of a tuple which before anything is known of it is as likely an answer as a corruption;
        another `prior` says how likely an answer is. A known answer is judged as if it were not known.
        """
        numbers = self._numbers(tuples)
        wanted = Wanted(self.learning.draws if draws is None else draws, error, most)
        hidden = self._judge.secret(self._asked, numbers, self.learning.seed)
        return self._estimates(numbers, hidden, wanted, prior)

    def _estimates(self, numbers: Ints, hidden: Hidden, wanted: Wanted, prior: float | None) -> Estimates:
        calibration = self.calibration if prior is None else self.calibration.at(prior)
        return self._judge.estimates(self._trained(), calibration, self.learning, numbers, hidden, wanted)

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
        """The most probable answers: `model.answers(x="ann", top=5)`, where the query's variable x is given an object.

        Or the query may be written again with objects in it. `known` answers are marked; "leave out" drops them, "only"
        ranks nothing else. `among` limits variables to a type or to names. `candidates` says what is looked at where
        several variables have no objects; docs/candidates.md has the ways.
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
        judge = self._judge
        pattern = model_pattern(self._asked, judge.kb, question, given)

        def estimate(tuples: Ints, hidden: Hidden, draws: int) -> Estimates:
            return self._estimates(tuples, hidden, Wanted(draws, deadline=ranking.deadline), prior)

        def glance(tuples: Ints, hidden: Hidden) -> Floats:
            return self._glances.values(self._trained(), tuples, hidden, ranking.deadline)

        return ranked(judge, self._asked, pattern, estimate, glance, wanted.draws, self.learning.seed, ranking)

    def hasten(self, deadline: Deadline | None = None) -> None:
        """Make what rankings of all objects share: some seconds for a large knowledge base, for whoever asks often."""
        self._glances.prepare(deadline)

    def explain(
        self,
        *objects: str,
        draws: int | None = None,
        prior: float | None = None,
        top: int = TOP,
        deadline: Deadline | None = None,
    ) -> Explanation:
        """Why a tuple is as probable as `probability` says: `model.explain("ann", "cleo")`.

        The `top` formulas that spoke for it and against it, with the facts that witness them, and what would be said
        without the facts it hangs on; a `deadline` stops the work between its parts. See docs/explain.md.
        """
        calibration = self.calibration if prior is None else self.calibration.at(prior)
        case = Case(self._judge, self._trained(), calibration, self.learning, self._asked)
        return case.explain(self._numbers([objects]), draws, top, deadline)

    def tuple_of(self, question: str | Query | None, given: Given, answer: Sequence[str]) -> tuple[str, ...]:
        """The objects of an answer to a question, in the order of the model's query: what `explain` wants."""
        return answered(model_pattern(self._asked, self._judge.kb, question, given), self._judge.kb, answer)

    def embed(self, tuples: Tuples, *, draws: int | None = None) -> Reals:
        """Shape (tuples, units), float32: the last hidden layer's mean over neighbourhoods of each tuple."""
        scorer, numbers = self._trained(), self._numbers(tuples)
        sampling = self.learning.sampling(self.learning.draws if draws is None else draws, "answer 0")
        hidden = self._judge.secret(self._asked, numbers, self.learning.seed)
        return self._judge.embed(scorer, numbers, sampling, hidden)

    @property
    def kb(self) -> KnowledgeBase:
        """What it answers from."""
        if self._kb is None:
            raise KnowledgeError(
                "the model has no knowledge base to answer from", hint="model.on(kb), or gaifman.load(file, kb)"
            )
        return self._kb

    @property
    def _asked(self) -> Query:
        assert isinstance(self.query, Query), "a trained model has read its query"
        return self.query

    @cached_property
    def _judge(self) -> Judge:
        self._trained()
        relations, attributes = spoken(self.features, self._asked)
        return Judge(knowing(self.kb, relations, attributes), self.features, len(self._asked.free))

    @cached_property
    def _glances(self) -> Glances:
        return Glances(self._judge, self.learning)

    def _forget(self) -> None:
        """What was made ready for one knowledge base."""
        for name in ("_judge", "_glances"):
            self.__dict__.pop(name, None)

    def _trained(self) -> Scorer:
        if self._scorer is None:
            raise KnowledgeError("the model is not trained yet", hint="model.fit(kb) trains it")
        return self._scorer

    def _numbers(self, tuples: Tuples) -> Ints:
        return tuple_numbers(self._judge, tuples)

    # Files

    def save(self, path: str | Path) -> None:
        """Write the model to a file: one safetensors file, whole or not at all."""
        self._trained()
        arrays, meta = self.state()
        write_model(path, arrays, meta)

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """What the file holds."""
        scorer = self._trained()
        arrays: Arrays = {f"calibration/{name}": array for name, array in self.calibration.arrays().items()}
        arrays |= scorer_arrays(scorer)
        return arrays, self.meta | vocabulary_of(self.features, self._asked)

    @classmethod
    def from_state(cls, arrays: Arrays, meta: Mapping[str, Any], base: BaseModel | None = None) -> GaifmanModel:
        """The model of a file."""
        words = words_of(meta)
        query = parse_query(meta["query"])
        learning = Learning.of(meta["learning"])
        model = cls(query, learning.radius, learning.size, FeatureSet((), learning.phi), made_base(meta, base))
        model.learning = learning
        model.features = features_of(meta, words)
        model._scorer = scorer_of(arrays, kinds_of(model.features), model.base)
        model.calibration = Calibration.from_arrays(below(arrays, "calibration/"))
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
    watch: Watch | None = None,
    **settings: Any,
) -> GaifmanModel:
    """Learn which tuples are answers of a query. The settings are those of `Learning`."""
    model = GaifmanModel(query, phi=phi, base=base, **settings)
    return model.fit(kb, constraints=constraints, threads=threads, watch=watch)


# From knowledge bases to sources


def prepared(
    kbs: Sequence[KnowledgeBase], query: str | Query, phi: str | FeatureSet
) -> tuple[list[KnowledgeBase], Query, tuple[Feature, ...]]:
    """Knowledge bases that know each other's relations, the query read, and the features over all relations."""
    if not kbs:
        raise KnowledgeError("there is no knowledge base to learn from")
    relations = {name: relation.arity for kb in kbs for name, relation in kb.relations.items()}
    attributes = sorted({name for kb in kbs for name in kb.attributes})
    kbs = [knowing(kb, relations, attributes) for kb in kbs]
    asked = parse_query(query, kbs[0]) if isinstance(query, str) else query
    if not asked.free:
        raise FormulaError(f"{asked} has no free variables: it is true or false, and has no answers to learn")
    width = len(asked.free)
    features = chosen(phi, width, relations, attributes, kbs[0]).expanded(relations, width)
    return kbs, asked, features


def sources(
    kbs: Sequence[KnowledgeBase],
    query: Query,
    features: Sequence[Feature],
    learning: Learning,
    constraints: Constraints | None,
) -> list[Source]:
    """Examples of each knowledge base; one without answers is left out where others have some."""
    found, trouble, kinds = [], list[GaifmanError](), kinds_of(features)
    for kb in kbs:
        graph = graph_of(kb)
        try:
            examples = Examples(graph, query, learning.recipe(), constraints)
        except KnowledgeError as error:
            trouble.append(error)
            continue
        plan = plan_of(FeatureSet(tuple(features)), kb, len(query.free))
        found.append(Source(Evaluator(graph, plan), examples, kinds))
    if not found:
        raise trouble[0]
    return found


def tuple_numbers(judge: Judge, tuples: Tuples) -> Ints:
    """Tuples by name or number, as numbers."""
    if isinstance(tuples, np.ndarray) and np.issubdtype(tuples.dtype, np.integer):
        if tuples.ndim != 2 or tuples.shape[1] != judge.width:
            raise KnowledgeError(f"tuples have shape (tuples, {judge.width}), not {tuples.shape}")
        return checked_tuples(judge.graph, tuples)
    return judge.numbers(list(tuples))
