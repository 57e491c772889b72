"""A multilayer perceptron over blocks of sparse rows: forward and backward passes, Adagrad.

Matrices lie row by row in flat arrays, from an offset on. A network of any depth has the same types of array, so that
kernels are compiled once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gaifman.kernels.jit import ZERO, fma_kernel, kernel
from gaifman.kernels.rng import fold_in, random_word
from gaifman.kernels.simd import add_gathered_rows, add_scaled_rows

SIGMOID, RELU = 0, 1

_LOG2E = np.float32(1.4426950408889634)
_MAGIC = np.float32(12582912.0)
"""1.5 · 2²³: added to a small number it leaves the nearest integer in the low bits."""
_MAX_EXPONENT = np.float32(125.0)
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)
_P1, _P2, _P3 = np.float32(0.6931471805599453), np.float32(0.2402265069591007), np.float32(0.05550410866482158)
_P4, _P5, _P6 = np.float32(0.009618129107628477), np.float32(0.0013333558146428443), np.float32(0.00015403530393381608)
"""ln(2)ⁱ / i!: coefficients of the series of 2ˣ."""


@fma_kernel
def activate(kind: int, numbers: Any) -> None:
    """Apply the activation in place.

    The sigmoid is 1 / (1 + 2ᵗ). 2ᵗ is a power of two, made of bits, times a short series: within 2 · 10⁻⁷, and
    vectorised, because nothing is called.
    """
    if kind == RELU:
        for i in range(len(numbers)):
            numbers[i] = max(numbers[i], _ZERO)
        return
    for i in range(len(numbers)):
        t = min(max(-numbers[i] * _LOG2E, -_MAX_EXPONENT), _MAX_EXPONENT)
        shifted = t + _MAGIC
        f = t - (shifted - _MAGIC)
        power = np.int32((np.float32(shifted).view(np.int32) << 23) + 0x3F800000).view(np.float32)
        series = _ONE + f * (_P1 + f * (_P2 + f * (_P3 + f * (_P4 + f * (_P5 + f * _P6)))))
        numbers[i] = _ONE / (_ONE + power * series)


@fma_kernel
def backprop_activation(kind: int, active: Any, deltas: Any) -> None:
    """Multiply deltas by the derivative of the activation, a function of its output."""
    if kind == RELU:
        for i in range(len(active)):
            deltas[i] = deltas[i] if active[i] > _ZERO else _ZERO
        return
    for i in range(len(active)):
        deltas[i] *= active[i] * (_ONE - active[i])


@fma_kernel
def add_product(a: Any, a0: int, w: Any, w0: int, rows: int, inner: int, columns: int, out: Any, o0: int) -> None:
    """Add A (rows, inner) times W (inner, columns) to `out` (rows, columns)."""
    add_scaled_rows(a, a0, inner, 1, inner, w, w0, columns, out, o0, rows)


@fma_kernel
def add_transposed_product(
    a: Any, a0: int, d: Any, d0: int, rows: int, inner: int, columns: int, out: Any, o0: int
) -> None:
    """Add Aᵀ (inner, rows) times D (rows, columns) to `out` (inner, columns): a gradient of weights."""
    add_scaled_rows(a, a0, 1, inner, rows, d, d0, columns, out, o0, inner)


@fma_kernel
def transpose(w: Any, w0: int, inner: int, columns: int, out: Any) -> None:
    """Write W (inner, columns) as (columns, inner)."""
    for m in range(inner):
        row = w[w0 + m * columns : w0 + (m + 1) * columns]
        for j in range(columns):
            out[j * inner + m] = row[j]


@fma_kernel
def broadcast_row(row: Any, rows: int, out: Any) -> None:
    """Write the same row into `out`, `rows` times."""
    for i in range(rows):
        target = out[i * len(row) : (i + 1) * len(row)]
        for j in range(len(row)):
            target[j] = row[j]


@fma_kernel
def fill_zeros(numbers: Any) -> None:
    """Set all numbers to 0."""
    for i in range(len(numbers)):
        numbers[i] = _ZERO


@kernel
def fill_uniform(key: Any, bound: float, out: Any) -> None:
    """Fill an array with random numbers from −bound to bound, keyed by index, 24 bits each."""
    for i in range(len(out)):
        unit = np.float32(np.int64(random_word(key, i) >> np.uint64(40))) * np.float32(1.0 / (1 << 24))
        out[i] = (unit * np.float32(2.0) - _ONE) * np.float32(bound)


ADAGRAD, GRADIENTS = 0, 1
"""What happens to a gradient: a step of Adagrad, or it is added to `squares`."""

_ZERO, _ONE, _TINY = np.float32(0.0), np.float32(1.0), np.float32(1e-10)
_LOW = np.uint64(0xFFFF)


class Weights(NamedTuple):
    """The weights of a network, or one number per weight. The last layer has one unit: the log-odds."""

    first: Any
    """Shape (columns · sizes[0],), float32: the weights of each input column, one row after another."""
    dense: Any
    """Shape (weights between layers,), float32: for each later layer a matrix (units before, units)."""
    biases: Any
    """Shape (all units,), float32."""


class Architecture(NamedTuple):
    """Layer sizes and activation."""

    sizes: Any
    """Shape (layers,), int64: the units of each layer; the last is 1."""
    activation: int


class Entries(NamedTuple):
    """Sparse rows of inputs."""

    starts: Any
    columns: Any
    values: Any


class Workspace(NamedTuple):
    """Buffers for one mini-batch."""

    active: Any
    """Shape (batch · all units,), float32: layer by layer, row by row."""
    deltas: Any
    """Shape of `active`."""
    transposed: Any
    """Shape (largest matrix between layers,), float32."""
    gradient: Weights
    """Gradients of `dense` and `biases`, and of one row of `first`."""
    slots: Any
    """Shape (columns,), int32: the index of a column among those of the mini-batch; −1 between mini-batches."""
    present: Any
    """Shape (entries,), int32: the columns of the mini-batch."""
    ends: Any
    """Shape (entries + 1,), int32: the end of the entries of each such column."""
    entry_rows: Any
    """Shape (entries,), int32: the row of each entry, column by column."""
    ones: Any
    """Shape (1,), float32: 1."""
    kept_values: Any
    """Shape (2 · entries,), float32: values after dropout, row by row, then column by column."""


class UpdateSettings(NamedTuple):
    """Settings of a training step."""

    batch_size: int
    learning_rate: float
    kind: int
    dropout_threshold: int
    """An input is dropped if its 16 random bits are below this number."""
    dropout_scale: float
    """The factor of the inputs that remain."""
    key: Any
    examples_seen: int
    """The number of examples trained on before."""


@fma_kernel
def _forward(
    net: Weights, shape: Architecture, starts: Any, begin: int, rows: int, columns: Any, values: Any, active: Any
) -> None:
    """Compute the units of all layers for some rows; the last layer gives log-odds.

    `values` begin with the first row's.
    """
    sizes = shape.sizes
    units, first = sizes[0], starts[begin]
    broadcast_row(net.biases[:units], rows, active)
    for i in range(rows):
        low, count = starts[begin + i], starts[begin + i + 1] - starts[begin + i]
        add_gathered_rows(values, low - first, columns, low, count, net.first, units, active, i * units)
    forward_from_first_layer(net, shape, rows, active)


@fma_kernel
def forward_from_first_layer(net: Weights, shape: Architecture, rows: int, active: Any) -> None:
    """Compute the later layers and the log-odds from the sums of the first layer."""
    sizes = shape.sizes
    units = sizes[0]
    before, weights, biases = ZERO, ZERO, units
    for level in range(1, len(sizes)):
        inner, units = sizes[level - 1], sizes[level]
        activate(shape.activation, active[before : before + rows * inner])
        after = before + rows * inner
        broadcast_row(net.biases[biases : biases + units], rows, active[after : after + rows * units])
        add_product(active, before, net.dense, weights, rows, inner, units, active, after)
        before, weights, biases = after, weights + inner * units, biases + units


@fma_kernel
def _backward(net: Weights, shape: Architecture, rows: int, workspace: Workspace) -> None:
    """Compute the deltas of all layers from the last, and the gradients of all but the first weights."""
    sizes, active, deltas = shape.sizes, workspace.active, workspace.deltas
    last = len(sizes) - 1
    total = 0
    for level in range(last + 1):
        total += sizes[level]
    at, weights, biases = rows * (total - 1), len(net.dense), total - 1
    fill_zeros(workspace.gradient.dense)
    fill_zeros(workspace.gradient.biases)
    for level in range(last, -1, -1):
        units = sizes[level]
        add_scaled_rows(workspace.ones, 0, 0, 0, rows, deltas, at, units, workspace.gradient.biases, biases, 1)
        if level == 0:
            break
        inner = sizes[level - 1]
        before, weights = at - rows * inner, weights - inner * units
        add_transposed_product(active, before, deltas, at, rows, inner, units, workspace.gradient.dense, weights)
        transpose(net.dense, weights, inner, units, workspace.transposed)
        fill_zeros(deltas[before:at])
        add_product(deltas, at, workspace.transposed, ZERO, rows, units, inner, deltas, before)
        backprop_activation(shape.activation, active[before:at], deltas[before:at])
        at, biases = before, biases - inner


@fma_kernel
def _update_weights(kind: int, rate: Any, gradient: Any, weights: Any, squares: Any) -> None:
    """Update some weights with a gradient."""
    if kind == GRADIENTS:
        for i in range(len(weights)):
            squares[i] += gradient[i]
        return
    for i in range(len(weights)):
        g = gradient[i]
        s = squares[i] + g * g
        squares[i] = s
        weights[i] -= rate * g / (np.sqrt(s) + _TINY)


@fma_kernel
def _apply_dropout(settings: UpdateSettings, entries: Entries, begin: int, rows: int, done: int, kept: Any) -> None:
    """Write the values of some rows after dropout, keyed by row."""
    first, scale = entries.starts[begin], np.float32(settings.dropout_scale)
    for i in range(rows):
        low, high = entries.starts[begin + i], entries.starts[begin + i + 1]
        key = fold_in(settings.key, done + i)
        bits = np.uint64(0)
        for e in range(low, high):
            at = (e - low) & 3
            if at == 0:
                bits = random_word(key, (e - low) >> 2)
            drawn = (bits >> np.uint64(16 * at)) & _LOW
            kept[e - first] = _ZERO if drawn < np.uint64(settings.dropout_threshold) else entries.values[e] * scale


@fma_kernel
def _sort_by_column(entries: Entries, begin: int, rows: int, workspace: Workspace) -> int:
    """Sort the entries of some rows by column. Return the number of columns."""
    first, last = entries.starts[begin], entries.starts[begin + rows]
    slots, present, ends, count = workspace.slots, workspace.present, workspace.ends, 0
    for e in range(first, last):
        column = entries.columns[e]
        slot = slots[column]
        if slot < 0:
            slots[column] = slot = np.int32(count)
            present[count] = column
            ends[count + 1] = 0
            count += 1
        ends[slot + 1] += 1
    ends[0] = 0
    for c in range(count):
        ends[c + 1] += ends[c]
    entry_count = last - first
    for i in range(rows):
        for e in range(entries.starts[begin + i], entries.starts[begin + i + 1]):
            slot = slots[entries.columns[e]]
            at = ends[slot]
            ends[slot] = at + 1
            workspace.entry_rows[at] = i
            workspace.kept_values[entry_count + at] = workspace.kept_values[e - first]
    for c in range(count):
        slots[present[c]] = -1
    return count


@fma_kernel
def _update_first_layer(
    net: Weights,
    squares: Weights,
    units: int,
    count: int,
    entry_count: int,
    settings: UpdateSettings,
    workspace: Workspace,
) -> None:
    """Update the first-layer weights of the columns of the mini-batch."""
    row, rate = workspace.gradient.first, np.float32(settings.learning_rate)
    begin = 0
    for c in range(count):
        end = workspace.ends[c]
        fill_zeros(row)
        add_gathered_rows(
            workspace.kept_values,
            entry_count + begin,
            workspace.entry_rows,
            begin,
            end - begin,
            workspace.deltas,
            units,
            row,
            0,
        )
        at = np.int64(workspace.present[c]) * units
        _update_weights(settings.kind, rate, row, net.first[at : at + units], squares.first[at : at + units])
        begin = end


@kernel
def train_block(
    net: Weights,
    squares: Weights,
    shape: Architecture,
    entries: Entries,
    targets: Any,
    settings: UpdateSettings,
    workspace: Workspace,
) -> float:
    """Train on all rows in mini-batches. Return the sum of their cross-entropies in nats, each before its update."""
    count, loss, total = len(targets), 0.0, 0
    for level in range(len(shape.sizes)):
        total += shape.sizes[level]
    rate = np.float32(settings.learning_rate)
    for begin in range(0, count, settings.batch_size):
        rows = min(settings.batch_size, count - begin)
        _apply_dropout(settings, entries, begin, rows, settings.examples_seen + begin, workspace.kept_values)
        _forward(net, shape, entries.starts, begin, rows, entries.columns, workspace.kept_values, workspace.active)
        at = rows * (total - 1)
        for i in range(rows):
            z, t = np.float64(workspace.active[at + i]), np.float64(targets[begin + i])
            exp_z = math.exp(-abs(z))
            p = 1.0 / (1.0 + exp_z) if z >= 0 else exp_z / (1.0 + exp_z)
            loss += math.log1p(exp_z) + max(z, 0.0) - z * t
            workspace.deltas[at + i] = np.float32((p - t) / rows)
        _backward(net, shape, rows, workspace)
        entry_count = entries.starts[begin + rows] - entries.starts[begin]
        present = _sort_by_column(entries, begin, rows, workspace)
        _update_first_layer(net, squares, shape.sizes[0], present, entry_count, settings, workspace)
        _update_weights(settings.kind, rate, workspace.gradient.dense, net.dense, squares.dense)
        _update_weights(settings.kind, rate, workspace.gradient.biases, net.biases, squares.biases)
    return loss


@kernel
def infer(
    net: Weights, shape: Architecture, entries: Entries, batch: int, active: Any, logits: Any, hidden: Any
) -> None:
    """Write the log-odds of all rows, and the last hidden layer if `hidden` is not empty."""
    total, last = 0, shape.sizes[len(shape.sizes) - 2] if len(shape.sizes) > 1 else 0
    for level in range(len(shape.sizes)):
        total += shape.sizes[level]
    for begin in range(0, len(logits), batch):
        rows = min(batch, len(logits) - begin)
        _forward(
            net, shape, entries.starts, begin, rows, entries.columns, entries.values[entries.starts[begin] :], active
        )
        at = rows * (total - 1)
        for i in range(rows):
            logits[begin + i] = active[at + i]
        if len(hidden):
            for i in range(rows * last):
                hidden[begin * last + i] = active[at - rows * last + i]
