"""ComplEx with a softmax over all objects: scores, loss, gradients and steps of Adagrad.

A vector of a complex space of rank k is a row of 2k float32: the real parts, then the imaginary ones. A question is an
object turned by a relation: their product, number by number. The score of a candidate is the inner product of its row
with that of the question.

Matrices lie row by row in flat arrays. Objects are cut into tiles, and tiles into blocks: threads share the blocks of a
batch, and what blocks add up is added in the order of the blocks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.jit import fma_kernel, inline_kernel, kernel
from gaifman.kernels.mlp import add_product, add_transposed_product

TILE = 96
"""Objects of a tile: six vectors of 16 numbers, of which three rows are summed in registers at once."""
QUESTIONS_AT_ONCE = 64
"""Questions whose gradients are added to a tile at once, so that they stay in the fastest cache."""
LANES = 16

_LOG2E, _LN2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
_MAGIC = np.float32(12582912.0)
"""1.5 · 2²³: added to a small number it leaves the nearest integer in the low bits."""
_MIN_EXPONENT = np.float32(-125.0)
_LOG2E64, _LN264, _MAGIC64 = 1.4426950408889634, 0.6931471805599453, 6755399441055744.0
_C2, _C3, _C4, _C5, _C6, _C7 = 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5_040
_C8, _C9, _C10, _C11, _C12 = 1 / 40_320, 1 / 362_880, 1 / 3_628_800, 1 / 39_916_800, 1 / 479_001_600
"""1 / i!: coefficients of the series of eˣ."""
_ZERO, _ONE, _TINY = np.float32(0.0), np.float32(1.0), np.float32(1e-10)
_P1, _P2, _P3 = np.float32(0.6931471805599453), np.float32(0.2402265069591007), np.float32(0.05550410866482158)
_P4, _P5, _P6 = np.float32(0.009618129107628477), np.float32(0.0013333558146428443), np.float32(0.00015403530393381608)
"""ln(2)ⁱ / i!: coefficients of the series of 2ˣ."""

Reals = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Sizes(NamedTuple):
    """Sizes of a batch."""

    columns: int
    """Numbers of a row: twice the rank."""
    objects: int
    """Objects; rows up to a whole number of tiles are zero."""
    questions: int
    facts: int


class Softmax(NamedTuple):
    """What a batch leaves between its passes."""

    exponentials: Reals
    """Shape (tiles, questions, TILE): of scores minus the largest of their tile; then the gradient of scores."""
    tops: Reals
    """Shape (tiles, questions): the largest score of a tile."""
    sums: Reals
    """Shape (tiles, questions): of the exponentials."""
    answer_scores: Reals
    """Shape (facts,)."""


class Facts(NamedTuple):
    """The facts of a batch: questions with their answers, sorted by answer."""

    questions: Ints
    """Shape (facts,)."""
    answers: Ints
    """Shape (facts,)."""
    weights: Reals
    """Shape (facts,): their confidences."""


@kernel
def turn(objects: Reals, relations: Reals, fixed: Ints, codes: Ints, columns: int, out: Reals) -> None:
    """Write the rows of questions: fixed objects times relations."""
    k = columns // 2
    for row in range(len(fixed)):
        h, r, q = fixed[row] * columns, codes[row] * columns, row * columns
        for i in range(k):
            a, b, c, d = objects[h + i], objects[h + k + i], relations[r + i], relations[r + k + i]
            out[q + i] = a * c - b * d
            out[q + k + i] = a * d + b * c


@fma_kernel
def _largest(scores: Any, lanes: Any) -> Any:
    """Return the largest score of a tile, by 16 lanes."""
    for j in range(LANES):
        a, b, c = scores[j], scores[LANES + j], scores[2 * LANES + j]
        d, e, f = scores[3 * LANES + j], scores[4 * LANES + j], scores[5 * LANES + j]
        lanes[j] = max(a, b, c, d, e, f)
    top = lanes[0]
    for j in range(1, LANES):
        top = max(top, lanes[j])
    return top


@fma_kernel
def _total(numbers: Any, lanes: Any) -> Any:
    """Return the sum of a tile, by 16 lanes."""
    for j in range(LANES):
        a, b, c = numbers[j], numbers[LANES + j], numbers[2 * LANES + j]
        d, e, f = numbers[3 * LANES + j], numbers[4 * LANES + j], numbers[5 * LANES + j]
        lanes[j] = ((a + b) + (c + d)) + (e + f)
    total = _ZERO
    for j in range(4):
        total += (lanes[j] + lanes[4 + j]) + (lanes[8 + j] + lanes[12 + j])
    return total


@fma_kernel
def _exponentials(scores: Any, top: Any, valid: int, lanes: Any) -> Any:
    """Replace scores by the exponentials of their differences to the largest one; return their sum.

    eˣ is a power of two, made of bits, times a short series: within 2 · 10⁻⁷, and vectorised.
    """
    for i in range(len(scores)):
        t = max((scores[i] - top) * _LOG2E, _MIN_EXPONENT)
        shifted = t + _MAGIC
        f = t - (shifted - _MAGIC)
        power = np.int32((np.float32(shifted).view(np.int32) << 23) + 0x3F800000).view(np.float32)
        scores[i] = power * (_ONE + f * (_P1 + f * (_P2 + f * (_P3 + f * (_P4 + f * (_P5 + f * _P6))))))
    for i in range(valid, len(scores)):
        scores[i] = _ZERO
    return _total(scores, lanes)


@fma_kernel
def exp_of(numbers: Any, out: Any) -> None:
    """Write the exponentials of float64 numbers up to 700, to the last bits, vectorised."""
    for i in range(len(numbers)):
        t = min(max(numbers[i], -700.0), 700.0) * _LOG2E64
        shifted = t + _MAGIC64
        f = (t - (shifted - _MAGIC64)) * _LN264
        power = np.int64((np.float64(shifted).view(np.int64) << 52) + 0x3FF0000000000000).view(np.float64)
        series = 1.0 + f * (1.0 + f * (_C2 + f * (_C3 + f * (_C4 + f * (_C5 + f * (_C6 + f * _rest(f)))))))
        out[i] = power * series


@inline_kernel
def _rest(f: Any) -> Any:
    """The series of eˣ from x⁷ / 7! on, divided by x⁶."""
    return _C7 + f * (_C8 + f * (_C9 + f * (_C10 + f * (_C11 + f * _C12))))


@fma_kernel
def _transpose_tile(objects: Any, begin: int, columns: int, out: Any) -> None:
    for j in range(TILE):
        for i in range(columns):
            out[i * TILE + j] = objects[begin + j * columns + i]


@kernel
def score_block(
    objects: Reals,
    questions: Reals,
    sizes: Sizes,
    first_tile: int,
    last_tile: int,
    transposed: Reals,
    facts: Facts,
    softmax: Softmax,
) -> None:
    """Score all questions against the objects of some tiles. `transposed` (columns · TILE + LANES,) is scratch."""
    rows, columns = sizes.questions, sizes.columns
    lanes = transposed[TILE * columns :]
    fact = np.searchsorted(facts.answers, first_tile * TILE)
    for tile in range(first_tile, last_tile):
        base = tile * rows * TILE
        _transpose_tile(objects, tile * TILE * columns, columns, transposed)
        softmax.exponentials[base : base + rows * TILE] = _ZERO
        add_product(questions, 0, transposed, 0, rows, columns, TILE, softmax.exponentials, base)
        while fact < sizes.facts and facts.answers[fact] < (tile + 1) * TILE:
            at = base + facts.questions[fact] * TILE + facts.answers[fact] - tile * TILE
            softmax.answer_scores[fact] = softmax.exponentials[at]
            fact += 1
        valid = min(TILE, sizes.objects - tile * TILE)
        for row in range(rows):
            scores = softmax.exponentials[base + row * TILE : base + (row + 1) * TILE]
            for i in range(valid, TILE):
                scores[i] = scores[0]
            top = _largest(scores, lanes)
            softmax.tops[tile * rows + row] = top
            softmax.sums[tile * rows + row] = _exponentials(scores, top, valid, lanes)


@kernel
def normalise(sizes: Sizes, tiles: int, counts: Reals, facts: Facts, softmax: Softmax) -> float:
    """Replace the sums of tiles by the factors of their gradients; return the loss of the batch, in nats.

    `counts` (questions,) are the weights of the answers of a question. The gradient of a score is this weight times its
    share in the softmax, and minus its own weight for an answer.
    """
    rows, loss = sizes.questions, 0.0
    for row in range(rows):
        top = softmax.tops[row]
        for tile in range(tiles):
            top = max(top, softmax.tops[tile * rows + row])
        total = 0.0
        for tile in range(tiles):
            total += softmax.sums[tile * rows + row] * np.exp(np.float64(softmax.tops[tile * rows + row] - top))
        log_total = np.float64(top) + np.log(total)
        loss += counts[row] * log_total
        for tile in range(tiles):
            at = tile * rows + row
            softmax.sums[at] = counts[row] * np.float32(np.exp(np.float64(softmax.tops[at]) - log_total))
    for fact in range(sizes.facts):
        loss -= facts.weights[fact] * softmax.answer_scores[fact]
    return loss


@kernel
def block_gradient(
    objects: Reals,
    questions: Reals,
    sizes: Sizes,
    first_tile: int,
    last_tile: int,
    facts: Facts,
    softmax: Softmax,
    object_gradient: Reals,
    question_gradient: Reals,
) -> None:
    """Write the gradient of the objects of some tiles, and their part of that of questions (questions, columns)."""
    rows, columns = sizes.questions, sizes.columns
    fact = np.searchsorted(facts.answers, first_tile * TILE)
    question_gradient[: rows * columns] = _ZERO
    for tile in range(first_tile, last_tile):
        base, begin = tile * rows * TILE, tile * TILE * columns
        for row in range(rows):
            factor = softmax.sums[tile * rows + row]
            shares = softmax.exponentials[base + row * TILE : base + (row + 1) * TILE]
            for i in range(len(shares)):
                shares[i] *= factor
        while fact < sizes.facts and facts.answers[fact] < (tile + 1) * TILE:
            at = base + facts.questions[fact] * TILE + facts.answers[fact] - tile * TILE
            softmax.exponentials[at] -= facts.weights[fact]
            fact += 1
        object_gradient[begin : begin + TILE * columns] = _ZERO
        add_product(softmax.exponentials, base, objects, begin, rows, TILE, columns, question_gradient, 0)
        for row in range(0, rows, QUESTIONS_AT_ONCE):
            count = min(QUESTIONS_AT_ONCE, rows - row)
            add_transposed_product(
                softmax.exponentials,
                base + row * TILE,
                questions,
                row * columns,
                count,
                TILE,
                columns,
                object_gradient,
                begin,
            )


@kernel
def turn_gradient(
    objects: Reals,
    relations: Reals,
    fixed: Ints,
    codes: Ints,
    columns: int,
    blocks: int,
    question_gradients: Reals,
    object_gradient: Reals,
    relation_gradient: Reals,
) -> None:
    """Add the gradient of fixed objects and relations, from those parts of the gradient of questions that blocks wrote.

    `question_gradients` has shape (blocks, questions, columns).
    """
    k, rows = columns // 2, len(fixed)
    for block in range(1, blocks):
        part = question_gradients[block * rows * columns : (block + 1) * rows * columns]
        for i in range(rows * columns):
            question_gradients[i] += part[i]
    for row in range(rows):
        h, r, q = fixed[row] * columns, codes[row] * columns, row * columns
        for i in range(k):
            a, b, c, d = objects[h + i], objects[h + k + i], relations[r + i], relations[r + k + i]
            x, y = question_gradients[q + i], question_gradients[q + k + i]
            object_gradient[h + i] += x * c + y * d
            object_gradient[h + k + i] += y * c - x * d
            relation_gradient[r + i] += x * a + y * b
            relation_gradient[r + k + i] += y * a - x * b


@kernel
def add_cubes(rows: Ints, counts: Reals, weights: Reals, columns: int, strength: float, gradient: Reals) -> float:
    """Add the gradient of `strength` · Σ count · |number|³ over the complex numbers of some rows; return the sum."""
    k, total, three = columns // 2, 0.0, np.float32(3.0 * strength)
    for row in range(len(rows)):
        begin, factor, own = rows[row] * columns, three * counts[row], _ZERO
        for i in range(begin, begin + k):
            size = np.sqrt(weights[i] * weights[i] + weights[i + k] * weights[i + k])
            own += size * size * size
            gradient[i] += factor * size * weights[i]
            gradient[i + k] += factor * size * weights[i + k]
        total += own * counts[row]
    return strength * total


@kernel
def adagrad_step(weights: Reals, gradient: Reals, squares: Reals, scale: float, rate: float) -> None:
    """Take one step with `scale` times the gradient, which is set to zero."""
    factor, step = np.float32(scale), np.float32(rate)
    for i in range(len(weights)):
        slope = gradient[i] * factor
        squares[i] += slope * slope
        weights[i] -= step * slope / (np.sqrt(squares[i]) + _TINY)
        gradient[i] = _ZERO


@kernel
def add_similar(
    tiles: Reals,
    question: Reals,
    weight: float,
    own: Floats,
    products: Reals,
    exponentials: Floats,
    out: Floats,
) -> float:
    """Write `own` (objects,) + weight · (object · question); return the sum of the exponentials.

    `tiles` has shape (tiles, columns, TILE): the columns of the objects of each tile. `products` and `exponentials`
    (TILE,) are scratch space.
    """
    total, columns, objects = 0.0, len(question), len(own)
    for begin in range(0, objects, TILE):
        products[:] = _ZERO
        add_product(question, 0, tiles, begin * columns, 1, columns, TILE, products, 0)
        end = min(begin + TILE, objects)
        for i in range(begin, end):
            out[i] = own[i] + weight * products[i - begin]
        exp_of(out[begin:end], exponentials)
        for i in range(end - begin):
            total += exponentials[i]
    return total


@kernel
def weight_losses(
    scores: Floats, similar: Floats, known: Ints, answer: int, mixtures: Floats, exponentials: Floats, out: Floats
) -> None:
    """Write the loss of one question, in nats, for each of some mixtures (mixtures, 2): scale and weight.

    It is that of softmax(scale · scores + weight · similar) at the answer. Known answers are no candidates.
    `exponentials` has shape (objects,), scratch space.
    """
    for number in range(len(mixtures)):
        scale, weight = mixtures[number, 0], mixtures[number, 1]
        own = scale * scores[answer] + weight * similar[answer]
        top = own
        for obj in range(len(scores)):
            exponentials[obj] = scale * scores[obj] + weight * similar[obj]
        for i in range(len(known)):
            exponentials[known[i]] = -1e9
        for obj in range(len(scores)):
            top = max(top, exponentials[obj])
        for obj in range(len(scores)):
            exponentials[obj] -= top
        exp_of(exponentials, exponentials)
        total = 0.0
        for obj in range(len(scores)):
            total += exponentials[obj]
        out[number] = top + np.log(total) - own
