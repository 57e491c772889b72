"""A network over sparse rows: what it gives, and how it learns from a block of examples, mini-batch by mini-batch.

The first layer has a row of weights for each column and meets only the columns that are there; its gradient is gathered
column by column, so each row of weights is read and written once in a mini-batch.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gaifman.kernels.compiling import arithmetic, compiled
from gaifman.kernels.layers import activate, cleared, copied, crossed, product, through, transposed
from gaifman.kernels.random import join, word
from gaifman.kernels.vectors import combine, gather

ADAGRAD, GRADIENTS = 0, 1
"""What is done with a gradient: a step of Adagrad, or it is added up where the squares would be."""

_ZERO, _ONE, _TINY = np.float32(0.0), np.float32(1.0), np.float32(1e-10)
_LOW = np.uint64(0xFFFF)


class Net(NamedTuple):
    """Weights, or one number for each weight. The last layer has one unit: the log-odds."""

    first: Any
    """Shape (columns · sizes[0],), float32: the row of weights of each column, one after another."""
    dense: Any
    """Shape (all weights between layers,), float32: for each further layer (units before, units)."""
    biases: Any
    """Shape (all units,), float32."""


class Shape(NamedTuple):
    """What kind of network it is."""

    sizes: Any
    """Shape (layers,), int64: units of each layer; the last is 1."""
    activation: int


class Entries(NamedTuple):
    """Sparse rows."""

    starts: Any
    columns: Any
    values: Any


class Space(NamedTuple):
    """Room for one mini-batch."""

    active: Any
    """Shape (batch · all units,), float32: layer after layer, row after row."""
    deltas: Any
    """The same."""
    turned: Any
    """Shape (largest matrix between layers,), float32."""
    gradient: Net
    """Room for `dense` and `biases`; of `first` for one row."""
    slots: Any
    """Shape (columns,), int32: where a column stands among those of the mini-batch; −1 between mini-batches."""
    present: Any
    """Shape (entries,), int32: the columns of the mini-batch."""
    ends: Any
    """Shape (entries + 1,), int32: where the entries of each such column end."""
    places: Any
    """Shape (entries,), int32: the row of each entry, column by column."""
    ones: Any
    """Shape (1,), float32: 1."""
    kept: Any
    """Shape (2, entries) flat, float32: values after dropout, row by row, then column by column."""


class Steps(NamedTuple):
    """How it learns."""

    batch: int
    rate: float
    kind: int
    threshold: int
    """Inputs are dropped whose 16 random bits are below it."""
    gain: float
    """What the other inputs are multiplied by."""
    key: Any
    done: int
    """Examples that were learnt from before."""


@arithmetic
def _forward(
    net: Net, shape: Shape, starts: Any, begin: int, rows: int, columns: Any, values: Any, active: Any
) -> None:
    """Units of all layers for some rows; the last layer keeps its log-odds. `values` begin with the first row's."""
    sizes = shape.sizes
    units, first = sizes[0], starts[begin]
    copied(net.biases[:units], rows, active)
    for i in range(rows):
        low, count = starts[begin + i], starts[begin + i + 1] - starts[begin + i]
        gather(values, low - first, columns, low, count, net.first, units, active, i * units)
    further(net, shape, rows, active)


@arithmetic
def further(net: Net, shape: Shape, rows: int, active: Any) -> None:
    """From the sums of the first layer's units to the log-odds: the layers after the first."""
    sizes = shape.sizes
    units = sizes[0]
    before, weights, biases = 0, 0, units
    for level in range(1, len(sizes)):
        inner, units = sizes[level - 1], sizes[level]
        activate(shape.activation, active[before : before + rows * inner])
        after = before + rows * inner
        copied(net.biases[biases : biases + units], rows, active[after : after + rows * units])
        product(active, before, net.dense, weights, rows, inner, units, active, after)
        before, weights, biases = after, weights + inner * units, biases + units


@arithmetic
def _backward(net: Net, shape: Shape, rows: int, space: Space) -> None:
    """From the deltas of the last layer: those of all layers, and the gradients of all but the first weights."""
    sizes, active, deltas = shape.sizes, space.active, space.deltas
    last = len(sizes) - 1
    total = 0
    for level in range(last + 1):
        total += sizes[level]
    at, weights, biases = rows * (total - 1), len(net.dense), total - 1
    cleared(space.gradient.dense)
    cleared(space.gradient.biases)
    for level in range(last, -1, -1):
        units = sizes[level]
        combine(space.ones, 0, 0, 0, rows, deltas, at, units, space.gradient.biases, biases, 1)
        if level == 0:
            break
        inner = sizes[level - 1]
        before, weights = at - rows * inner, weights - inner * units
        crossed(active, before, deltas, at, rows, inner, units, space.gradient.dense, weights)
        transposed(net.dense, weights, inner, units, space.turned)
        cleared(deltas[before:at])
        product(deltas, at, space.turned, 0, rows, units, inner, deltas, before)
        through(shape.activation, active[before:at], deltas[before:at])
        at, biases = before, biases - inner


@arithmetic
def _step(kind: int, rate: Any, gradient: Any, weights: Any, squares: Any) -> None:
    """Take a step with some weights."""
    if kind == GRADIENTS:
        for i in range(len(weights)):
            squares[i] += gradient[i]
        return
    for i in range(len(weights)):
        g = gradient[i]
        s = squares[i] + g * g
        squares[i] = s
        weights[i] -= rate * g / (np.sqrt(s) + _TINY)


@arithmetic
def _dropped(steps: Steps, entries: Entries, begin: int, rows: int, done: int, kept: Any) -> None:
    """The values of some rows after dropout: each row by a key of its own."""
    first, gain = entries.starts[begin], np.float32(steps.gain)
    for i in range(rows):
        low, high = entries.starts[begin + i], entries.starts[begin + i + 1]
        key = join(steps.key, done + i)
        bits = np.uint64(0)
        for e in range(low, high):
            at = (e - low) & 3
            if at == 0:
                bits = word(key, (e - low) >> 2)
            drawn = (bits >> np.uint64(16 * at)) & _LOW
            kept[e - first] = _ZERO if drawn < np.uint64(steps.threshold) else entries.values[e] * gain


@arithmetic
def _by_column(entries: Entries, begin: int, rows: int, space: Space) -> int:
    """Put the entries of some rows in the order of their columns; how many columns there are."""
    first, last = entries.starts[begin], entries.starts[begin + rows]
    slots, present, ends, count = space.slots, space.present, space.ends, 0
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
    room = last - first
    for i in range(rows):
        for e in range(entries.starts[begin + i], entries.starts[begin + i + 1]):
            slot = slots[entries.columns[e]]
            at = ends[slot]
            ends[slot] = at + 1
            space.places[at] = i
            space.kept[room + at] = space.kept[e - first]
    for c in range(count):
        slots[present[c]] = -1
    return count


@arithmetic
def _learn_first(net: Net, squares: Net, units: int, count: int, room: int, steps: Steps, space: Space) -> None:
    """Gradient and step of the rows of weights of the columns that are there."""
    row, rate = space.gradient.first, np.float32(steps.rate)
    begin = 0
    for c in range(count):
        end = space.ends[c]
        cleared(row)
        gather(space.kept, room + begin, space.places, begin, end - begin, space.deltas, units, row, 0)
        at = np.int64(space.present[c]) * units
        _step(steps.kind, rate, row, net.first[at : at + units], squares.first[at : at + units])
        begin = end


@compiled
def learn(net: Net, squares: Net, shape: Shape, entries: Entries, targets: Any, steps: Steps, space: Space) -> float:
    """Learn from all rows, a mini-batch at a time; the sum of their cross-entropies in nats, each before its step."""
    count, loss, total = len(targets), 0.0, 0
    for level in range(len(shape.sizes)):
        total += shape.sizes[level]
    rate = np.float32(steps.rate)
    for begin in range(0, count, steps.batch):
        rows = min(steps.batch, count - begin)
        _dropped(steps, entries, begin, rows, steps.done + begin, space.kept)
        _forward(net, shape, entries.starts, begin, rows, entries.columns, space.kept, space.active)
        at = rows * (total - 1)
        for i in range(rows):
            z, t = np.float64(space.active[at + i]), np.float64(targets[begin + i])
            small = math.exp(-abs(z))
            p = 1.0 / (1.0 + small) if z >= 0 else small / (1.0 + small)
            loss += math.log1p(small) + max(z, 0.0) - z * t
            space.deltas[at + i] = np.float32((p - t) / rows)
        _backward(net, shape, rows, space)
        room = entries.starts[begin + rows] - entries.starts[begin]
        present = _by_column(entries, begin, rows, space)
        _learn_first(net, squares, shape.sizes[0], present, room, steps, space)
        _step(steps.kind, rate, space.gradient.dense, net.dense, squares.dense)
        _step(steps.kind, rate, space.gradient.biases, net.biases, squares.biases)
    return loss


@compiled
def infer(net: Net, shape: Shape, entries: Entries, batch: int, active: Any, logits: Any, hidden: Any) -> None:
    """Log-odds of all rows, and the units of the last hidden layer where `hidden` has room for them."""
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
