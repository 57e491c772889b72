"""Scores of all candidates for one position: what neighbourhoods share is added, not recomputed.

If a candidate and the fixed object do not touch, the first-layer sums of the pair are those of each object alone,
added. If they touch, the changes are added too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gaifman.kernels.candidate_pairs import FULL_PATH, SEPARATE, ObjectRows, PairFeatures
from gaifman.kernels.collections import Bytes, Ints, Longs
from gaifman.kernels.inputs import Scales, transform_value
from gaifman.kernels.jit import inner_kernel, kernel, sum_kernel
from gaifman.kernels.mlp import Architecture, Entries, Weights, activate, add_product, broadcast_row
from gaifman.kernels.rng import fold_in
from gaifman.kernels.simd import add_gathered_rows


@kernel
def first_layer_sums(net: Weights, units: int, entries: Entries, sums: Any) -> None:
    """Add the contributions of each row's inputs to the first-layer sums `sums` (rows · units)."""
    for i in range(len(entries.starts) - 1):
        low = entries.starts[i]
        add_gathered_rows(
            entries.values, low, entries.columns, low, entries.starts[i + 1] - low, net.first, units, sums, i * units
        )


@kernel
def write_input_changes(pair_features: PairFeatures, scales: Scales, starts: Longs, columns: Any, values: Any) -> None:
    """Write how the changed features of pairs change their inputs."""
    at = 0
    for pair in range(len(starts) - 1):
        for entry in range(pair_features.starts[pair], pair_features.starts[pair + 1]):
            feature = pair_features.ids[entry]
            column, kind = scales.columns[feature], scales.kinds[feature]
            if column >= 0:
                change = transform_value(kind, np.float64(pair_features.after[entry])) - transform_value(
                    kind, np.float64(pair_features.before[entry])
                )
                columns[at], values[at] = column, np.float32(change / scales.scales[column])
                at += 1
        starts[pair + 1] = at


@kernel
def group_equal_rows(rows: ObjectRows, table: Ints, groups: Ints, firsts: Longs) -> int:
    """Number the different rows among those that are meant, each by the first that is like it; how many there are.

    The table is all −1, of a power of two that is more than the rows.
    """
    count, last = 0, len(table) - 1
    for i in range(len(rows.rows)):
        low, high = rows.starts[rows.rows[i]], rows.starts[rows.rows[i] + 1]
        key = np.uint64(high - low)
        for entry in range(low, high):
            key = fold_in(fold_in(key, rows.ids[entry]), int(rows.values[entry]))
        slot = np.int64(key) & last
        while table[slot] >= 0 and not _rows_equal(rows, firsts[table[slot]], rows.rows[i]):
            slot = (slot + 1) & last
        if table[slot] < 0:
            table[slot], firsts[count] = count, rows.rows[i]
            count += 1
        groups[i] = table[slot]
    return count


@inner_kernel
def _rows_equal(rows: ObjectRows, one: int, other: int) -> bool:
    """Whether two rows are the same."""
    low, count = rows.starts[one], rows.starts[one + 1] - rows.starts[one]
    begin = rows.starts[other]
    if rows.starts[other + 1] - begin != count:
        return False
    for e in range(count):
        if rows.ids[low + e] != rows.ids[begin + e] or rows.values[low + e] != rows.values[begin + e]:
            return False
    return True


@inner_kernel
def _hidden_layers(net: Weights, shape: Architecture, rows: int, active: Any) -> int:
    """Compute the hidden layers from the first-layer sums. Return the offset of the last one."""
    sizes = shape.sizes
    before, weights, biases = 0, 0, sizes[0]
    for level in range(1, len(sizes)):
        inner, units = sizes[level - 1], sizes[level]
        activate(shape.activation, active[before : before + rows * inner])
        if level + 1 < len(sizes):
            after = before + rows * inner
            broadcast_row(net.biases[biases : biases + units], rows, active[after : after + rows * units])
            add_product(active, before, net.dense, weights, rows, inner, units, active, after)
            before, weights, biases = after, weights + inner * units, biases + units
    return int(before)


@sum_kernel
def _dot(one: Any, other: Any) -> Any:
    """Return a dot product, summed in any order."""
    total = np.float32(0.0)
    for j in range(len(one)):
        total += one[j] * other[j]
    return total


@kernel
def score_candidates(
    net: Weights,
    shape: Architecture,
    own: Any,
    extra_size: Ints,
    others: Any,
    groups: Ints,
    representatives: Ints,
    kinds: Bytes,
    pair_inputs: Entries,
    batch: int,
    chosen: Ints,
    active: Any,
    logits: Any,
) -> None:
    """Write the log-odds of all candidates except those evaluated in full.

    They come from the first-layer sums of both objects. The sums of candidate c are those of its group of equal rows.
    Separate candidates of one group and length share their log-odds: `representatives` (groups · lengths,), −1 before,
    holds the first of them. Pairs that touch have more inputs, one pair after another. `chosen` (batch,) is a buffer.
    """
    units, pair, lengths = shape.sizes[0], 0, len(own) // shape.sizes[0]
    last = shape.sizes[-2] if len(shape.sizes) > 1 else 1
    c, count = 0, len(logits)
    while c < count:
        rows = 0
        while c < count and rows < batch:
            representative = groups[c] * lengths + extra_size[c]
            if kinds[c] != FULL_PATH and (kinds[c] != SEPARATE or representatives[representative] < 0):
                row = active[rows * units : (rows + 1) * units]
                fixed_sums = own[extra_size[c] * units : (extra_size[c] + 1) * units]
                candidate_sums = others[groups[c] * units : (groups[c] + 1) * units]
                for j in range(units):
                    row[j] = net.biases[j] + fixed_sums[j] + candidate_sums[j]
                if kinds[c] != SEPARATE:
                    low, high = pair_inputs.starts[pair], pair_inputs.starts[pair + 1]
                    entries = pair_inputs.values, low, pair_inputs.columns, low, high - low
                    add_gathered_rows(*entries, net.first, units, active, rows * units)
                    pair += 1
                else:
                    representatives[representative] = c
                chosen[rows] = c
                rows += 1
            c += 1
        at = _hidden_layers(net, shape, rows, active)
        for i in range(rows):
            logits[chosen[i]] = active[at]
            if len(shape.sizes) > 1:
                logits[chosen[i]] = net.biases[-1] + _dot(active[at : at + last], net.dense[len(net.dense) - last :])
            at += last
    for c in range(count):
        if kinds[c] == SEPARATE:
            logits[c] = logits[representatives[groups[c] * lengths + extra_size[c]]]
