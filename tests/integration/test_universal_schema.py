"""Universal Schema is a Gaifman model: r = 0, k = 2, w = 1, w̃ = 0, and whatever else links the pair as features.

Its neighbour model is written down here as its paper has it: the score of a pair for a relation is a weighted sum over
the other relations of the pair, learnt by logistic regression. It shares with ours only the order of the examples and
the first weights, which are random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.model import GaifmanModel
from gaifman.models.mlp import INITIAL_SQUARES, Logistic
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.rng import fold_in, make_key
from trained import demo, network

RATE, BATCH, EPOCHS, SEED = 0.1, 16, 3, 5
Link = tuple[str, bool]
"""A relation that links a pair, and whether it does so the other way round."""


@dataclass
class Schema:
    """The neighbour model of one relation, in plain Python."""

    facts: set[tuple[str, ...]]
    target: str
    columns: list[Link]
    weights: dict[Link, float]
    bias: float = 0.0
    squares: dict[Link | None, float] = field(default_factory=dict)

    def links(self, pair: tuple[str, ...], hidden: tuple[str, ...]) -> list[Link]:
        """The links of the pair, without one hidden fact of the target relation."""
        (x, y), seen = pair, self.facts - {(self.target, *hidden)}
        return [(r, back) for r, back in self.columns if ((r, y, x) if back else (r, x, y)) in seen]

    def score(self, links: list[Link]) -> float:
        """Log-odds."""
        return self.bias + sum(self.weights[link] for link in links)

    def learn(self, batch: list[tuple[list[Link], float]]) -> None:
        """One step of Adagrad on the mean cross-entropy."""
        gradient: dict[Link | None, float] = {None: 0.0}
        for links, target in batch:
            delta = (1 / (1 + math.exp(-self.score(links))) - target) / len(batch)
            for link in [None, *links]:
                gradient[link] = gradient.get(link, 0.0) + delta
        for link, g in gradient.items():
            square = self.squares.get(link, INITIAL_SQUARES) + g * g
            self.squares[link] = square
            step = RATE * g / math.sqrt(square)
            if link is None:
                self.bias -= step
            else:
                self.weights[link] -= step


def settings(negatives: int) -> dict[str, Any]:
    options = {"learning_rate": RATE, "epochs": EPOCHS, "batch_size": BATCH}
    own = {"radius": 0, "size": 2, "positives": 1, "negatives": negatives, "holdout": 0.0, "draws": 1}
    return {
        **own,
        "phi": "universal-schema",
        "base": "logistic",
        "options": options,
        "min_examples": 0,
        "min_feature_count": 1,
        "seed": SEED,
    }


def link_of(text: str) -> Link:
    """Of the text of a feature: `r(s2, s1)` is the other way round."""
    relation, _, places = text.partition("(")
    return relation, places == "s2, s1)"


def direct(model: GaifmanModel, kb: KnowledgeBase, target: str) -> Schema:
    """The same model, trained in plain Python on the same examples in the same order."""
    columns = [link_of(str(feature)) for feature in model.features]
    first = Logistic(learning_rate=RATE, epochs=EPOCHS, batch_size=BATCH)
    first.reset(len(columns), SEED)
    state = first.state()
    weights = dict(zip(columns, state["weights/1"][:, 0].tolist(), strict=True))
    facts: set[tuple[str, ...]] = {(fact.relation, *fact.objects) for fact in kb.facts() if len(fact.objects) == 2}
    twin = Schema(facts, target, columns, weights, float(state["biases/1"][0]))
    examples = TrainingExamples(kb, gaifman.parse_query(f"{target}(x, y)"), model.config)
    for epoch in range(EPOCHS):
        for at, block in enumerate(examples.blocks(epoch)):
            answers = [(kb.object_name(x), kb.object_name(y)) for x, y in block.answers]
            rows = [(twin.links(pair, hidden=pair), 1.0) for pair in answers]
            corrupted = [(kb.object_name(x), kb.object_name(y)) for x, y in block.negatives]
            sources = [answers[source] for source in block.sources]
            rows += [(twin.links(pair, hidden=own), 0.0) for pair, own in zip(corrupted, sources, strict=True)]
            order = np.argsort(fold_in(make_key(SEED, "shuffle", epoch, at), np.arange(len(rows))), kind="stable")
            shuffled = [rows[number] for number in order]
            for begin in range(0, len(shuffled), BATCH):
                twin.learn(shuffled[begin : begin + BATCH])
    return twin


def multigraph(objects: int = 25, facts: int = 260) -> KnowledgeBase:
    """Random links, many pairs with several, in both directions and from an object to itself."""
    rng = np.random.default_rng(2)
    pairs = rng.integers(0, objects, (facts // 4, 2))
    rows = [(f"r{rng.integers(5)}", *pairs[rng.integers(len(pairs))].tolist()) for _ in range(facts)]
    return KnowledgeBase.from_facts(
        [(r, f"o{y}", f"o{x}") if rng.random() < 0.3 else (r, f"o{x}", f"o{y}") for r, x, y in rows]
    )


@pytest.mark.parametrize("negatives", [0, 3])
@pytest.mark.parametrize(("name", "target"), [("random", "r0"), ("demo", "capital")])
def test_the_scores_are_those_of_the_neighbour_model(name: str, target: str, negatives: int) -> None:
    kb = multigraph() if name == "random" else demo()
    model = gaifman.fit(kb, f"{target}(x, y)", **settings(negatives))
    twin = direct(model, kb, target)
    answers = [fact.objects for fact in kb.facts(target)]
    others = [(x, y) for x in kb.objects[:12] for y in kb.objects[:12] if (target, x, y) not in kb]
    pairs = [*answers[:60], *others]
    assert len({tuple(twin.links(pair, hidden=pair)) for pair in pairs}) > (5 if name == "random" else 1)
    ratio = negatives or 1
    scores = np.array([twin.score(twin.links(pair, hidden=pair)) + math.log(ratio) for pair in pairs])
    np.testing.assert_allclose(
        model.probabilities(pairs, constraints=False).values, 1 / (1 + np.exp(-scores)), atol=1e-6
    )


def test_the_features_are_the_other_links_of_the_pair() -> None:
    """In both directions; only the fact of the pair itself is hidden."""
    kb = multigraph()
    model = gaifman.fit(kb, "r0(x, y)", **settings(0))
    twin = direct(model, kb, "r0")
    wanted = [(f"r{i}", back) for back in (False, True) for i in range(5) if (f"r{i}", back) != ("r0", False)]
    assert sorted(twin.columns) == sorted(wanted)
    pairs = [fact.objects for fact in kb.facts("r0")]
    tuples = model.predictor.tuple_ids(pairs)
    sampling = model.config.sampling(1, "answer 0")
    hidden = model.predictor.hidden_facts(tuples)
    matrix = network(model.predictor).evaluator.sample_and_evaluate(tuples, sampling, hidden)
    for row, pair in enumerate(pairs):
        ids = matrix.ids[matrix.starts[row] : matrix.starts[row + 1]]
        assert {twin.columns[i] for i in ids} == set(twin.links(pair, hidden=pair))


def test_without_negatives_no_feature_opposes_a_pair() -> None:
    """With w̃ = 0 every weight rises. With negatives, features of negatives fall."""
    kb = demo()
    first = Logistic(learning_rate=RATE, epochs=EPOCHS, batch_size=BATCH)
    none, some = (gaifman.fit(kb, "capital(x, y)", **settings(negatives)) for negatives in (0, 5))
    for model, up in ((none, True), (some, False)):
        first.reset(len(model.features), SEED)
        last = network(model.predictor).scorer.base.state()
        moved = [last[name] - first.state()[name] for name in ("weights/1", "biases/1")]
        assert bool((moved[0] > 0).all() and (moved[1] > 0).all()) == up
    unlinked, linked = ("france", "tokyo"), ("france", "paris")
    assert none.probability(*unlinked, constraints=False).value > 0.5, "it has never seen a pair that is no answer"
    assert some.probability(*unlinked).value < 0.5 < some.probability(*linked).value
