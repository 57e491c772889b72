"""The kernels of the expert are the definition of ComplEx, its loss and its gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import freeze
from gaifman.kernels.complex import TILE, add_similar, weight_losses
from gaifman.listwise import expert
from gaifman.listwise.expert import ComplexModel, ExpertConfig, ExpertQuestions, expert_questions, expert_relations

RANK, PENALTY = 3, 0.07


def random_case(seed: int, objects: int) -> tuple[ComplexModel, ExpertQuestions]:
    """A model with random vectors, and the questions of random facts, some of them uncertain."""
    rng = np.random.default_rng(seed)
    facts = [(f"r{rng.integers(3)}", f"o{rng.integers(objects)}", f"o{rng.integers(objects)}") for _ in range(30)]
    kb = KnowledgeBase.from_facts(facts, objects=[f"o{number}" for number in range(objects)])
    questions = expert_questions(kb)
    weights = rng.uniform(0.2, 1, len(questions.answers)).astype(np.float32)
    model = ComplexModel(
        len(kb.objects), 2 * len(expert_relations(kb)), ExpertConfig(expert_rank=RANK, expert_penalty=PENALTY)
    )
    model.objects[: objects * 2 * RANK] = rng.normal(size=objects * 2 * RANK)
    model.relations[:] = rng.normal(size=len(model.relations))
    return model, replace(questions, weights=freeze(weights))


def as_complex(rows: Any) -> Any:
    own = np.asarray(rows, np.float64).reshape(-1, 2 * RANK)
    return own[:, :RANK] + 1j * own[:, RANK:]


def slow_losses(objects: Any, relations: Any, questions: ExpertQuestions, rows: Any) -> tuple[float, float]:
    """The cross-entropy of some questions by definition, and the penalty on the vectors of their facts."""
    e, r, loss, cubes = as_complex(objects), as_complex(relations), 0.0, 0.0
    for row in rows:
        fixed, code = questions.fixed[row], questions.codes[row]
        scores = np.real(e[fixed] * r[code] @ e.conj().T)
        for entry in range(questions.starts[row], questions.starts[row + 1]):
            answer, weight = questions.answers[entry], float(questions.weights[entry])
            loss += weight * (np.log(np.exp(scores).sum()) - scores[answer])
            cubes += weight * sum((np.abs(x) ** 3).sum() for x in (e[fixed], r[code], e[answer]))
    return float(loss), float(PENALTY * cubes)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([2, 7, TILE, TILE + 1, 9 * TILE, 20 * TILE + 5]))
def test_a_step_follows_the_gradient_of_the_definition(seed: int, objects: int) -> None:
    model, questions = random_case(seed, objects)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(questions))[: rng.integers(1, len(questions) + 1)]
    own = objects * 2 * RANK
    before, relations = model.objects[:own].copy(), model.relations.copy()
    data, _ = slow_losses(before, relations, questions, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expert, "adagrad_step", lambda *_: None)  # the gradient stays
        loss = model.step(questions, rows, threads=2)
    assert loss == pytest.approx(data, rel=1e-5, abs=1e-4)
    gradients = model._gradients
    for array, slopes in ((before, gradients[0][:own]), (relations, gradients[1])):
        for at in rng.integers(len(array), size=4).tolist():
            changed = [array.astype(np.float64), array.astype(np.float64)]
            changed[0][at] += 1e-6
            changed[1][at] -= 1e-6
            pairs = [(one, relations) if array is before else (before, one) for one in changed]
            high, low = (sum(slow_losses(pair[0], pair[1], questions, rows)) for pair in pairs)
            assert slopes[at] == pytest.approx((high - low) / 2e-6, rel=1e-3, abs=1e-3)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, TILE - 1, TILE, 2 * TILE + 7]))
def test_scores_and_their_sum_are_the_definition(seed: int, objects: int) -> None:
    rng = np.random.default_rng(seed)
    vectors, question = rng.normal(size=(objects, 8)).astype(np.float32), rng.normal(size=8).astype(np.float32)
    padded = np.zeros((-(-objects // TILE) * TILE, 8), np.float32)
    padded[:objects] = vectors
    tiles = freeze(padded.reshape(-1, TILE, 8).transpose(0, 2, 1).reshape(-1))
    own, out = rng.normal(size=objects), np.empty(objects)
    scratch = np.empty(TILE, np.float32), np.empty(TILE)
    total = add_similar(tiles, freeze(question), 0.7, freeze(own), *scratch, out)
    expected = own + 0.7 * (vectors.astype(np.float64) @ question.astype(np.float64))
    np.testing.assert_allclose(out, expected, atol=1e-5)
    assert total == pytest.approx(np.exp(out).sum(), rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 200))
def test_losses_of_mixtures_are_those_of_a_softmax(seed: int, objects: int) -> None:
    rng = np.random.default_rng(seed)
    scores, similar = rng.normal(size=objects) * 5, rng.normal(size=objects) * 5
    mixtures = np.array([(1.0, 0.0), (1.0, 0.3), (0.5, 2.0)])
    answer, *known = rng.permutation(objects)[: rng.integers(1, objects)].tolist()
    out = np.empty(3)
    weight_losses(scores, similar, freeze(np.array(known, np.int32)), answer, mixtures, np.empty(objects), out)
    others = np.setdiff1d(np.arange(objects), known)
    for (scale, weight), loss in zip(mixtures, out, strict=True):
        mixed = scale * scores + weight * similar
        assert loss == pytest.approx(np.log(np.exp(mixed[others] - mixed[answer]).sum()), rel=1e-9, abs=1e-9)
