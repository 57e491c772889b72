"""The kernels of the network and its inputs, each beside numpy; and all of them uncompiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numba import njit

from gaifman.kb.tables import freeze
from gaifman.kernels.inputs import COUNT, NUMBER, TRUTH, transform_value
from gaifman.kernels.mlp import (
    RELU,
    SIGMOID,
    activate,
    add_product,
    add_transposed_product,
    backprop_activation,
    fill_uniform,
    transpose,
)
from gaifman.kernels.simd import add_gathered_rows, add_scaled_rows
from uncompiled import both

Reals = npt.NDArray[np.float32]

# Inner kernels have no way in from Python: each gets one here.


@njit
def _combined(values: Any, table: Any, out: Any, at: tuple[int, ...]) -> None:
    v0, step, stride, count, t0, columns, o0, rows = at
    add_scaled_rows(values, v0, step, stride, count, table, t0, columns, out, o0, rows)


@njit
def _gathered(values: Any, places: Any, table: Any, out: Any, at: tuple[int, ...]) -> None:
    v0, p0, count, columns, o0 = at
    add_gathered_rows(values, v0, places, p0, count, table, columns, out, o0)


@njit
def _activated(kind: int, numbers: Any) -> None:
    activate(kind, numbers)


@njit
def _through(kind: int, active: Any, deltas: Any) -> None:
    backprop_activation(kind, active, deltas)


@njit
def _products(a: Any, w: Any, d: Any, sizes: tuple[int, int, int], out: Any, crossing: Any, turned: Any) -> None:
    rows, inner, columns = sizes
    add_product(a, 3, w, 2, rows, inner, columns, out, 1)
    add_transposed_product(a, 3, d, 4, rows, inner, columns, crossing, 5)
    transpose(w, 2, inner, columns, turned)


def whole(rng: np.random.Generator, *shape: int) -> Reals:
    """Small whole numbers: their sums are exact in float32, whatever is added first."""
    return rng.integers(-8, 9, shape).astype(np.float32)


# Sums of scaled rows


@pytest.mark.parametrize("readonly", [False, True])
def test_combine_equals_numpy_for_every_number_of_columns(readonly: bool) -> None:
    rng = np.random.default_rng(0)
    for columns in range(1, 131):
        for step, stride, count, rows in ((9, 1, 5, 1), (1, 3, 4, 3), (2, 7, 1, 4), (5, 2, 0, 2), (4, 1, 3, 9)):
            values, table = whole(rng, 2 + step * rows + stride * count), whole(rng, 3 + count * columns)
            out = whole(rng, rows * columns + 9)
            expected = out.copy()
            factors = values[2 + step * np.arange(rows)[:, None] + stride * np.arange(count)]
            expected[4 : 4 + rows * columns] += (factors @ table[3:].reshape(count, columns)).ravel()
            given = (freeze(values), freeze(table)) if readonly else (values, table)
            _combined(*given, out, (2, step, stride, count, 3, columns, 4, rows))
            assert out.tolist() == expected.tolist(), f"{columns} columns, stride {stride}, {count} for {rows} rows"


@pytest.mark.parametrize("readonly", [False, True])
def test_gather_equals_numpy_for_every_number_of_columns(readonly: bool) -> None:
    rng = np.random.default_rng(1)
    for columns in range(1, 131):
        for count in (0, 1, 6):
            values, table = whole(rng, 3 + count), whole(rng, 9 * columns)
            places = rng.integers(0, 9, 2 + count).astype(np.int32)
            out = whole(rng, columns + 9)
            expected = out.copy()
            expected[4 : 4 + columns] += values[3:] @ table.reshape(9, columns)[places[2:]]
            # In learning values and places are scratch, or rows that are read only; the table is always the weights.
            given = (freeze(values), freeze(places)) if readonly else (values, places)
            _gathered(*given, table, out, (3, 2, count, columns, 4))
            assert out.tolist() == expected.tolist(), f"{columns} columns, {count} rows"


def test_sums_are_rounded_no_worse_than_numpys() -> None:
    rng = np.random.default_rng(2)
    values, table = rng.normal(size=200).astype(np.float32), rng.normal(size=(200, 100)).astype(np.float32)
    out = np.zeros(100, np.float32)
    _combined(values, table.ravel(), out, (0, 0, 1, 200, 0, 100, 0, 1))
    assert np.abs(out - values.astype(np.float64) @ table.astype(np.float64)).max() < 2e-5


@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 1, 1), (4, 3, 5), (7, 20, 1), (3, 100, 100), (9, 17, 33)])
def test_products_equal_numpys(rows: int, inner: int, columns: int) -> None:
    rng = np.random.default_rng(3)
    a, w, d = whole(rng, 3 + rows * inner), whole(rng, 2 + inner * columns), whole(rng, 4 + rows * columns)
    out, crossing, turned = whole(rng, 1 + rows * columns), whole(rng, 5 + inner * columns), whole(rng, inner * columns)
    matrix, weights, deltas = a[3:].reshape(rows, inner), w[2:].reshape(inner, columns), d[4:].reshape(rows, columns)
    expected = out[1:] + (matrix @ weights).ravel(), crossing[5:] + (matrix.T @ deltas).ravel(), weights.T.ravel()
    _products(a, w, d, (rows, inner, columns), out, crossing, turned)
    for found, right in zip((out[1:], crossing[5:], turned), expected, strict=True):
        assert found.tolist() == right.tolist()


# Activations


def every(step: int) -> Reals:
    """Numbers of all sizes float32 has, and those at the edges."""
    bits = np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32)
    edges = np.array([0, -0.0, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38, np.inf, -np.inf, 88.8, -88.8], np.float32)
    numbers: Reals = np.concatenate([bits.view(np.float32), edges, np.linspace(-130, 130, 300_001, dtype=np.float32)])
    return np.asarray(numbers[~np.isnan(numbers)], np.float32)


def test_the_sigmoid_is_right_to_two_in_ten_million_everywhere() -> None:
    numbers = np.sort(every(4099))
    found = numbers.copy()
    _activated(SIGMOID, found)
    wide = numbers.astype(np.float64)
    small = np.exp(-np.abs(wide))
    expected = np.where(wide >= 0, 1, small) / (1 + small)
    assert np.abs(found - expected).max() <= 2e-7
    assert (found >= 0).all()
    assert (found <= 1).all()
    assert found[numbers == 0].tolist() == [0.5] * int((numbers == 0).sum())


def test_the_relu_is_the_larger_of_a_number_and_0() -> None:
    numbers = every(65_537)
    found = numbers.copy()
    _activated(RELU, found)
    assert (found == np.maximum(numbers, 0)).all()


def test_deltas_go_back_through_the_slope() -> None:
    rng = np.random.default_rng(4)
    deltas = rng.normal(size=500).astype(np.float32)
    for kind in (SIGMOID, RELU):
        numbers = rng.normal(size=500).astype(np.float32)
        active, found = numbers.copy(), deltas.copy()
        _activated(kind, active)
        _through(kind, active, found)
        up, down = numbers.astype(np.float64) + 1e-5, numbers.astype(np.float64) - 1e-5
        rise = _exact(kind, up) - _exact(kind, down)
        assert np.abs(found - deltas * rise / 2e-5).max() < 1e-5


def _exact(kind: int, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-numbers)) if kind == SIGMOID else np.maximum(numbers, 0))


def test_spread_numbers_are_uniform_between_the_bounds_and_keyed_by_place() -> None:
    one, longer, other = (np.empty(count, np.float32) for count in (40_000, 50_000, 40_000))
    fill_uniform(np.uint64(1), 0.25, one)
    fill_uniform(np.uint64(1), 0.25, longer)
    fill_uniform(np.uint64(2), 0.25, other)
    assert one.tobytes() == longer[:40_000].tobytes()
    assert (one != other).mean() > 0.99
    assert np.abs(one).max() <= 0.25
    counts = np.histogram(one, 20, (-0.25, 0.25))[0]
    assert np.abs(counts - 2_000).max() < 5.5 * np.sqrt(2_000)


# Inputs


def test_counts_and_numbers_are_bent_and_truth_is_not() -> None:
    assert [transform_value(TRUTH, value) for value in (0.0, 1.0)] == [0, 1]
    for kind in (COUNT, NUMBER):
        assert transform_value(kind, 0.0) == 0
        assert transform_value(kind, 6.0) == pytest.approx(np.log(7))
        assert transform_value(kind, -6.0) == pytest.approx(-np.log(7))


# All of them as plain Python

SCRIPT = """
import json, warnings
import numpy as np
warnings.simplefilter("ignore")  # 64-bit overflow is intended
from gaifman.features.evaluator import FeatureMatrix
from gaifman.models.scaling import FeatureStatistics, feature_kinds
from gaifman.models import MLP, Batch, Logistic
from gaifman.logic.parser import parse_feature
rng = np.random.default_rng(0)
stored = rng.random((90, 8)) < 0.4
at, ids = np.nonzero(stored)
starts = np.searchsorted(at, np.arange(91)).astype(np.int64)
values = np.where(ids < 3, 1, rng.integers(-2, 9, len(ids))).astype(np.float32)
shapes, defaults = np.array([-1, 0, -1, -1, 1, -1, -1, -1], np.int32), np.array([[0, 1, 1], [0, 2, 3]], np.float32)
sizes = rng.integers(1, 3, 90).astype(np.int32)
matrix = FeatureMatrix(starts, ids.astype(np.int32), values, sizes, shapes, defaults)
texts = 3 * ["r(s1, s2)"] + 3 * ["r(s1, x)"] + 2 * ["mean age(x) for r(s1, x)"]
statistics = FeatureStatistics(feature_kinds([parse_feature(text) for text in texts]))
statistics.update(matrix)
rows = statistics.make_scaler(1).transform(matrix, rng.permutation(90))
targets = rng.random(90).astype(np.float32)
out = [rows.starts.tolist(), rows.columns.tolist(), rows.values.tolist()]
for model in (MLP([7, 5], batch_size=16), MLP([20], "relu", batch_size=25), Logistic(batch_size=8)):
    model.reset(rows.width, 3)
    losses = [model.fit_batch(Batch(rows, targets)) for _ in range(3)]
    out += [losses, model.probabilities(rows).tolist(), model.embed(rows).ravel().tolist()]
    out += [array.ravel().tolist() for array in model.gradients(Batch(rows, targets)).values()]
print(json.dumps(out))
"""


def test_the_network_and_its_inputs_run_uncompiled_and_give_the_same() -> None:
    """So that they can be debugged: NUMBA_DISABLE_JIT=1 makes them plain Python."""
    compiled, plain = both(SCRIPT)
    assert len(compiled) == len(plain) == 3 + 3 * 3 + 6 + 4 + 2
    for one, other in zip(compiled, plain, strict=True):
        assert one == pytest.approx(other, abs=1e-5)
