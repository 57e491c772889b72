"""The loss of a ranker and its gradient, compared with a dense softmax by definition."""

from __future__ import annotations

import numpy as np
import pytest

from gaifman.kb.tables import Floats, freeze
from gaifman.kernels.listwise import Marks, Questions, answer_scores, batch_gradient, own_gradient, own_scores
from gaifman.listwise.ranker import group_profiles

OBJECTS, FORMULAS, MARKS, STATS, ASKED = 12, 5, 4, 3, 6


class Case:
    """Random questions, with several entries for some objects, reached known answers and unreached answers."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.kinds = np.sort(rng.integers(OBJECTS, size=OBJECTS)) if seed % 2 else np.arange(OBJECTS)
        """Objects of a kind have the same marks and statistics."""
        self.has_mark = (rng.random((OBJECTS, MARKS)) < 0.4)[self.kinds]
        self.stats = rng.normal(size=(OBJECTS, STATS))[self.kinds]
        self.answers = rng.integers(OBJECTS, size=ASKED).astype(np.int32)
        self.answer_stats = rng.normal(size=(ASKED, STATS))
        self.lone = rng.random(ASKED) < 0.5
        self.vanishing = np.array([True, False, False, True])
        self.confidences = rng.random(ASKED)
        self.known = [
            np.array(sorted({*rng.integers(OBJECTS, size=3).tolist()} - {answer}), np.int32)
            for answer in self.answers.tolist()
        ]
        self.values = np.zeros((ASKED, OBJECTS, FORMULAS))
        entries = []
        for row in range(ASKED):
            cells = rng.permutation(OBJECTS * FORMULAS)[: rng.integers(0, 25)]
            objects, formulas = cells // FORMULAS, cells % FORMULAS
            values = rng.random(len(cells)).astype(np.float32) + 0.5
            self.values[row, objects, formulas] = values
            entries.append((objects.astype(np.int32), formulas.astype(np.int32), values))
        lengths = [len(objects) for objects, _, _ in entries]
        self.questions = Questions(
            freeze(self.answers),
            freeze(self.confidences),
            freeze(np.append(0, np.cumsum([len(one) for one in self.known])).astype(np.int64)),
            freeze(np.concatenate(self.known)),
            freeze(np.append(0, np.cumsum(lengths)).astype(np.int64)),
            *(freeze(np.concatenate(column)) for column in zip(*entries, strict=True)),
        )
        self.weights = rng.normal(size=FORMULAS), rng.normal(size=MARKS), rng.normal(size=STATS)
        starts = np.append(0, np.cumsum(self.has_mark.sum(axis=1))).astype(np.int64)
        marks = np.nonzero(self.has_mark)[1].astype(np.int32)
        self.mark_values = np.where(self.has_mark, rng.random((OBJECTS, MARKS)).astype(np.float32)[self.kinds], 0)
        self.mark_table = Marks(freeze(starts), freeze(marks), freeze(self.mark_values[self.has_mark]))
        gone = [
            np.flatnonzero(self.has_mark[a] & self.vanishing & lone)
            for a, lone in zip(self.answers, self.lone, strict=True)
        ]
        self.changes = Marks(
            freeze(np.append(0, np.cumsum([len(one) for one in gone])).astype(np.int64)),
            freeze(np.concatenate(gone).astype(np.int32)),
            freeze(
                np.concatenate([-self.mark_values[a, one] for a, one in zip(self.answers, gone, strict=True)]).astype(
                    np.float32
                )
            ),
        )

    def loss(self, weights: tuple[Floats, Floats, Floats]) -> float:
        """The sum of −log softmax of the answers, by definition."""
        formulas, marks, stats = weights
        total = 0.0
        for row in range(ASKED):
            scores = self.values[row] @ formulas + self.mark_values @ marks + self.stats @ stats
            answer = self.answers[row]
            kept = self.mark_values[answer] * ~(self.vanishing & self.lone[row])
            scores[answer] = self.values[row, answer] @ formulas + kept @ marks + self.answer_stats[row] @ stats
            candidates = np.setdiff1d(np.arange(OBJECTS), self.known[row])
            total += float(np.log(np.exp(scores[candidates]).sum()) - scores[answer]) * self.confidences[row]
        return total

    def kernel(self) -> tuple[float, tuple[Floats, Floats, Floats]]:
        """The loss and the gradients by the kernels."""
        formulas, marks, stats = self.weights
        profiles = group_profiles(self.mark_table, self.kinds, self.stats[:, 0], self.stats[:, 1])
        first = np.array([np.flatnonzero(profiles.of == kind)[0] for kind in range(len(profiles.sizes))])
        own_stats = freeze(self.stats[first])
        rows, own, answer_own = freeze(np.arange(ASKED)), np.empty(len(first)), np.empty(ASKED)
        own_scores(profiles.marks, marks, own_stats, stats, own)
        answer_stats, answer_kinds = freeze(self.answer_stats), freeze(profiles.of[self.answers])
        answer_scores(profiles.marks, marks, rows, answer_kinds, answer_stats, self.changes, stats, answer_own)
        gradients = np.zeros(FORMULAS), np.zeros(MARKS), np.zeros(STATS)
        by_kind, by_answer = np.zeros(len(first)), np.zeros(ASKED)
        loss = batch_gradient(
            rows,
            self.questions,
            formulas,
            profiles.of,
            profiles.sizes,
            np.exp(own),
            np.exp(answer_own),
            np.zeros(OBJECTS),
            np.zeros(OBJECTS, np.int64),
            np.empty(OBJECTS, np.int32),
            np.zeros(1, np.int64),
            gradients[0],
            by_kind,
            by_answer,
        )
        own_gradient(
            profiles.marks,
            own_stats,
            by_kind,
            rows,
            answer_kinds,
            by_answer,
            answer_stats,
            self.changes,
            *gradients[1:],
        )
        assert len(first) <= len({*self.kinds.tolist()})
        assert not by_kind.any()
        return loss, gradients


@pytest.mark.parametrize("seed", range(30))
def test_the_loss_is_that_of_a_softmax_over_all_candidates(seed: int) -> None:
    case = Case(seed)
    assert case.kernel()[0] == pytest.approx(case.loss(case.weights), rel=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_the_gradient_is_the_slope_of_the_loss(seed: int) -> None:
    case = Case(seed)
    _, gradients = case.kernel()
    for group, gradient in enumerate(gradients):
        for at in range(len(gradient)):
            sides = []
            for change in (1e-5, -1e-5):
                moved = [weights.copy() for weights in case.weights]
                moved[group][at] += change
                sides.append(case.loss((moved[0], moved[1], moved[2])))
            assert gradient[at] == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-4, abs=1e-6)
