"""Softmax over all candidates of a question: loss, gradient and scores.

The score of a candidate is its own score (marks and statistics, the same for every question) plus the weighted values
of the formulas that reach it. Only reached candidates are visited; the sum over all others is kept as one number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.jit import kernel

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Reals = npt.NDArray[np.float32]


class Questions(NamedTuple):
    """Questions with one answer each, and what formulas reach."""

    answers: Ints
    """Shape (q,): the answer."""
    weights: Floats
    """Shape (q,): the confidence of the fact that is asked for."""
    known_starts: Longs
    """Shape (q + 1,)."""
    known: Ints
    """Other known answers of each question, which are no candidates."""
    starts: Longs
    """Shape (q + 1,): the entries of each question."""
    objects: Ints
    """Shape (entries,)."""
    formulas: Ints
    """Shape (entries,)."""
    values: Reals
    """Shape (entries,)."""


class Marks(NamedTuple):
    """The marks of each row, with their values."""

    starts: Longs
    """Shape (rows + 1,)."""
    marks: Ints
    """Shape (marks of all rows,)."""
    values: Reals
    """Shape (marks of all rows,): 1, or the probability of a mark by uncertain facts; of a change, what is added."""


class Profiles(NamedTuple):
    """The kinds of objects: those of a kind have the same marks and statistics, and so the same own score."""

    of: Ints
    """Shape (objects,): the kind of each object."""
    sizes: Floats
    """Shape (kinds,): the number of objects."""
    marks: Marks
    """The marks of each kind."""
    stats: Floats
    """Shape (kinds, s): the statistics."""


@kernel
def own_scores(marks: Marks, mark_weights: Floats, stats: Floats, weights: Floats, out: Floats) -> None:
    """Write the own score of each object or kind: its marks and its statistics (rows, s) times their weights."""
    for obj in range(len(out)):
        total = 0.0
        for i in range(marks.starts[obj], marks.starts[obj + 1]):
            total += mark_weights[marks.marks[i]] * marks.values[i]
        for j in range(stats.shape[1]):
            total += stats[obj, j] * weights[j]
        out[obj] = total


@kernel
def batch_gradient(
    rows: Longs,
    questions: Questions,
    weights: Floats,
    kinds: Ints,
    sizes: Floats,
    own: Floats,
    answer_own: Floats,
    sums: Floats,
    seen: Longs,
    reached: Ints,
    stamp: Longs,
    weight_gradient: Floats,
    kind_gradient: Floats,
    answer_gradient: Floats,
) -> float:
    """Add up the loss and the gradient of some questions.

    `kinds` (objects,) and `sizes` (kinds,) are those of `Profiles`. `own` (kinds,) are exponentials of own scores,
    `answer_own` (q,) those of the answers without the hidden fact. `kind_gradient` (kinds,) and `weight_gradient`
    (formulas,) are added to; `answer_gradient` (q,) is written: the answer's probability − 1, times the weight of the
    question. The part of `kind_gradient` that is `own` times a factor is applied at the end.
    """
    everything, factor, loss = 0.0, 0.0, 0.0
    for kind in range(len(own)):
        everything += sizes[kind] * own[kind]
    for row in rows:
        stamp[0] += 1
        now, count = stamp[0], 0
        for entry in range(questions.starts[row], questions.starts[row + 1]):
            obj = questions.objects[entry]
            if seen[obj] != now:
                seen[obj] = now
                sums[obj] = 0.0
                reached[count] = obj
                count += 1
            sums[obj] += weights[questions.formulas[entry]] * questions.values[entry]
        answer = questions.answers[row]
        if seen[answer] != now:
            seen[answer] = now
            sums[answer] = 0.0
            reached[count] = answer
            count += 1
        total = everything
        for i in range(questions.known_starts[row], questions.known_starts[row + 1]):
            obj = questions.known[i]
            if seen[obj] != now:
                seen[obj] = now
                reached[count] = obj
                count += 1
            sums[obj] = -np.inf
        for i in range(count):
            obj = reached[i]
            total -= own[kinds[obj]]
        total = max(total, 0.0)
        for i in range(count):
            obj = reached[i]
            sums[obj] = np.exp(min(sums[obj], 500.0)) * (answer_own[row] if obj == answer else own[kinds[obj]])
            total += sums[obj]
        weight = questions.weights[row]
        loss -= weight * np.log(max(sums[answer] / total, 1e-300))
        factor += weight / total
        for i in range(count):
            obj = reached[i]
            sums[obj] *= weight / total
            if obj == answer:
                sums[obj] -= weight
                answer_gradient[row] = sums[obj]
                kind_gradient[kinds[obj]] -= weight * own[kinds[obj]] / total
            else:
                kind_gradient[kinds[obj]] += sums[obj] - weight * own[kinds[obj]] / total
        for entry in range(questions.starts[row], questions.starts[row + 1]):
            weight_gradient[questions.formulas[entry]] += sums[questions.objects[entry]] * questions.values[entry]
    for kind in range(len(own)):
        kind_gradient[kind] += factor * sizes[kind] * own[kind]
    return loss


@kernel
def own_gradient(
    marks: Marks,
    stats: Floats,
    kind_gradient: Floats,
    rows: Longs,
    answers: Ints,
    answer_gradient: Floats,
    answer_stats: Floats,
    changes: Marks,
    mark_gradient: Floats,
    stat_gradient: Floats,
) -> None:
    """Add the gradient of own scores to that of marks and statistics; `kind_gradient` is set to zero.

    `answers` are kinds of objects. The answer of each of the rows has its own statistics, and its marks change without
    the hidden facts.
    """
    for kind in range(len(kind_gradient)):
        slope = kind_gradient[kind]
        kind_gradient[kind] = 0.0
        if abs(slope) > 1e-9:
            for i in range(marks.starts[kind], marks.starts[kind + 1]):
                mark_gradient[marks.marks[i]] += slope * marks.values[i]
            for j in range(stats.shape[1]):
                stat_gradient[j] += slope * stats[kind, j]
    for row in rows:
        kind, slope = answers[row], answer_gradient[row]
        for i in range(marks.starts[kind], marks.starts[kind + 1]):
            mark_gradient[marks.marks[i]] += slope * marks.values[i]
        for i in range(changes.starts[row], changes.starts[row + 1]):
            mark_gradient[changes.marks[i]] += slope * changes.values[i]
        for j in range(stats.shape[1]):
            stat_gradient[j] += slope * answer_stats[row, j]


@kernel
def answer_scores(
    marks: Marks,
    mark_weights: Floats,
    rows: Longs,
    answers: Ints,
    answer_stats: Floats,
    changes: Marks,
    weights: Floats,
    out: Floats,
) -> None:
    """Write the own scores of the answers of some rows, as if their fact were not known; `answers` are kinds."""
    for row in rows:
        kind, total = answers[row], 0.0
        for i in range(marks.starts[kind], marks.starts[kind + 1]):
            total += mark_weights[marks.marks[i]] * marks.values[i]
        for i in range(changes.starts[row], changes.starts[row + 1]):
            total += mark_weights[changes.marks[i]] * changes.values[i]
        for j in range(answer_stats.shape[1]):
            total += answer_stats[row, j] * weights[j]
        out[row] = total


@kernel
def adagrad(weights: Floats, gradient: Floats, squares: Floats, prior: Floats, penalty: float, rate: float) -> None:
    """Take one step towards less loss and towards the prior; the gradient is set to zero."""
    for i in range(len(weights)):
        slope = gradient[i]
        if slope != 0.0:
            slope += penalty * (weights[i] - prior[i])
            squares[i] += slope * slope
            weights[i] -= rate * slope / np.sqrt(squares[i] + 1e-8)
            gradient[i] = 0.0


class SumScratch(NamedTuple):
    """Scratch space for the sums of candidates. A stamp marks the candidates of the current question."""

    seen: Longs
    """Shape (objects,), zeros."""
    sums: Floats
    """Shape (objects,): the weighted values of each candidate that the formulas reach."""
    reached: Ints
    """Shape (objects,): these candidates."""
    stamp: Longs
    """Shape (1,): the last stamp."""


@kernel
def add_entries(
    begin: int, end: int, objects: Ints, formulas: Ints, values: Reals, weights: Floats, out: Floats
) -> None:
    """Add the weighted values of some entries to the scores of their objects."""
    for entry in range(begin, end):
        out[objects[entry]] += weights[formulas[entry]] * values[entry]


@kernel
def score_targets(
    objects: Ints,
    formulas: Ints,
    values: Reals,
    weights: Floats,
    own: Floats,
    everything: float,
    known: Ints,
    targets: Ints,
    scratch: SumScratch,
    out: Floats,
) -> float:
    """Write the scores of targets; return log Σ exp(score) over all candidates but the known ones.

    `own` (objects,) are own scores, and `everything` is the sum of their exponentials. Only reached candidates are
    visited.
    """
    scratch.stamp[0] += 1
    now, count = scratch.stamp[0], 0
    for entry in range(len(objects)):
        obj = objects[entry]
        if scratch.seen[obj] != now:
            scratch.seen[obj] = now
            scratch.sums[obj] = 0.0
            scratch.reached[count] = obj
            count += 1
        scratch.sums[obj] += weights[formulas[entry]] * values[entry]
    for i in range(len(targets)):
        obj = targets[i]
        out[i] = own[obj] + (scratch.sums[obj] if scratch.seen[obj] == now else 0.0)
    for i in range(len(known)):
        obj = known[i]
        if scratch.seen[obj] != now:
            scratch.seen[obj] = now
            scratch.reached[count] = obj
            count += 1
        scratch.sums[obj] = -np.inf
    rest, top = everything, 0.0
    for i in range(count):
        rest -= np.exp(own[scratch.reached[i]])
        top = max(top, own[scratch.reached[i]] + scratch.sums[scratch.reached[i]])
    total = max(rest, 0.0) * np.exp(-top)
    for i in range(count):
        total += np.exp(own[scratch.reached[i]] + scratch.sums[scratch.reached[i]] - top)
    return float(top + np.log(max(total, 1e-300)))
