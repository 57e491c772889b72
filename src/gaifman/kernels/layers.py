"""Layers of a network over a block of rows: sparse and dense products, activations, and their gradients.

Matrices lie in flat arrays, row after row, from an offset on: a network of any depth is the same kinds of arrays, so
the kernels are compiled once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gaifman.kernels.compiling import fma_kernel, kernel
from gaifman.kernels.random import random_word
from gaifman.kernels.vectors import add_scaled_rows, float_bits, float_from_bits

SIGMOID, RELU = 0, 1

_LOG2E = np.float32(1.4426950408889634)
_MAGIC = np.float32(12582912.0)
"""1.5 · 2²³: added to a small number it leaves the nearest whole number in the last bits."""
_MAX_EXPONENT = np.float32(125.0)
_HALF, _ONE, _ZERO = np.float32(0.5), np.float32(1.0), np.float32(0.0)
_P1, _P2, _P3 = np.float32(0.6931471805599453), np.float32(0.2402265069591007), np.float32(0.05550410866482158)
_P4, _P5, _P6 = np.float32(0.009618129107628477), np.float32(0.0013333558146428443), np.float32(0.00015403530393381608)
"""ln(2)ⁱ / i!: the series of 2ˣ."""


@fma_kernel
def activate(kind: int, numbers: Any) -> None:
    """Put numbers through the activation, in place.

    The sigmoid is 1 / (1 + 2ᵗ), where 2ᵗ is the power of the nearest whole number, made of bits, times a short series:
    right to 2 · 10⁻⁷, and without a call, so that several are computed at once.
    """
    if kind == RELU:
        for i in range(len(numbers)):
            numbers[i] = max(numbers[i], _ZERO)
        return
    for i in range(len(numbers)):
        t = min(max(-numbers[i] * _LOG2E, -_MAX_EXPONENT), _MAX_EXPONENT)
        shifted = t + _MAGIC
        f = t - (shifted - _MAGIC)
        power = float_from_bits((float_bits(shifted) << 23) + np.int32(0x3F800000))
        series = _ONE + f * (_P1 + f * (_P2 + f * (_P3 + f * (_P4 + f * (_P5 + f * _P6)))))
        numbers[i] = _ONE / (_ONE + power * series)


@fma_kernel
def backprop_activation(kind: int, active: Any, deltas: Any) -> None:
    """Take deltas back through the activation: times its derivative, which is a function of what it gave."""
    if kind == RELU:
        for i in range(len(active)):
            deltas[i] = deltas[i] if active[i] > _ZERO else _ZERO
        return
    for i in range(len(active)):
        deltas[i] *= active[i] * (_ONE - active[i])


@fma_kernel
def add_product(a: Any, a0: int, w: Any, w0: int, rows: int, inner: int, columns: int, out: Any, o0: int) -> None:
    """Add A (rows, inner) times W (inner, columns) to what stands in `out` (rows, columns)."""
    add_scaled_rows(a, a0, inner, 1, inner, w, w0, columns, out, o0, rows)


@fma_kernel
def add_transposed_product(
    a: Any, a0: int, d: Any, d0: int, rows: int, inner: int, columns: int, out: Any, o0: int
) -> None:
    """Add Aᵀ (inner, rows) times D (rows, columns) to what stands in `out` (inner, columns): a gradient of weights."""
    add_scaled_rows(a, a0, 1, inner, rows, d, d0, columns, out, o0, inner)


@fma_kernel
def transpose(w: Any, w0: int, inner: int, columns: int, out: Any) -> None:
    """W (inner, columns) as (columns, inner)."""
    for m in range(inner):
        row = w[w0 + m * columns : w0 + (m + 1) * columns]
        for j in range(columns):
            out[j * inner + m] = row[j]


@fma_kernel
def broadcast_row(row: Any, rows: int, out: Any) -> None:
    """Write the same row into `out`, several times."""
    for i in range(rows):
        target = out[i * len(row) : (i + 1) * len(row)]
        for j in range(len(row)):
            target[j] = row[j]


@fma_kernel
def fill_zeros(numbers: Any) -> None:
    """Put 0 everywhere."""
    for i in range(len(numbers)):
        numbers[i] = _ZERO


@kernel
def fill_uniform(key: Any, bound: float, out: Any) -> None:
    """Fill an array with random numbers from −bound to bound, keyed by place: 24 bits each."""
    for i in range(len(out)):
        unit = np.float32(np.int64(random_word(key, i) >> np.uint64(40))) * np.float32(1.0 / (1 << 24))
        out[i] = (unit * np.float32(2.0) - _ONE) * np.float32(bound)
