"""exp, log and sums with the same bits on every processor.

numpy's `exp` and `log` differ in the last bit between AVX-512 and others, BLAS sums in another order on each kind of
processor, and the C library has versions with and without fused multiply-add. These functions use only operations that
are exact to the last bit everywhere (+, −, ×, ÷, rounding, powers of two), one by one and in a fixed order.

>>> float(exp(-0.5)), float(log(10.0)), float(log1p(1e-20))
(0.6065306597126334, 2.302585092994046, 1e-20)
>>> add_up(np.array([0.1, 0.2, 0.3]))
0.6000000000000001
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gaifman.kb.tables import Floats

_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
"""log 2 in two parts: an exponent times the first one is exact."""
_PER_LN2 = 1.0 / (_LN2_HIGH + _LN2_LOW)
_EXP_SERIES = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))
"""Coefficients of exp for |x| ≤ ½ log 2, highest power first; the next term is below 1e-17."""
_LOG_SERIES = tuple(1.0 / (2 * n + 1) for n in range(11, 0, -1))
"""Coefficients of artanh(f) / f − 1 in f² for |f| ≤ 0.172, highest power first; the next term is below 1e-17."""
_SMALLEST, _LARGEST = -746.0, 709.0
"""exp is 0 below the first; the second is the largest argument."""


def exp(x: npt.ArrayLike) -> Floats:
    """Return e to the power of x, at most 709, in the shape of x; NaN stays NaN."""
    given = np.clip(np.asarray(x, np.float64), _SMALLEST, _LARGEST)
    power = np.rint(given * _PER_LN2)
    rest = (given - power * _LN2_HIGH) - power * _LN2_LOW
    series = np.zeros_like(rest)
    for coefficient in _EXP_SERIES:
        series *= rest
        series += coefficient
    with np.errstate(invalid="ignore"):  # NaN has no power
        return np.asarray(np.ldexp(series, power.astype(np.int32)))


def log(x: npt.ArrayLike) -> Floats:
    """Return the natural logarithm of finite numbers above 0, in their shape."""
    fraction, power = np.frexp(np.asarray(x, np.float64))
    low = fraction < np.sqrt(0.5)
    fraction, power = np.where(low, 2.0 * fraction, fraction), power - low
    rest = _log_series((fraction - 1.0) / (fraction + 1.0))
    return np.asarray(power * _LN2_HIGH + (rest + power * _LN2_LOW))


def log1p(x: npt.ArrayLike) -> Floats:
    """Return log(1 + x) of finite numbers above −1, precise near 0."""
    given = np.asarray(x, np.float64)
    near = np.abs(given) < 0.25
    small = np.where(near, given, 0.0)
    return np.where(near, _log_series(small / (2.0 + small)), log(np.where(near, 1.0, 1.0 + given)))


def add_up(numbers: Floats) -> float:
    """Return the sum of an array, added from first to last."""
    return float(np.cumsum(numbers)[-1]) if len(numbers) else 0.0


def _log_series(f: Floats) -> Floats:
    """Return log((1 + f) / (1 − f)) = 2 (f + f³/3 + f⁵/5 + …)."""
    square, series = f * f, np.zeros_like(f)
    for coefficient in _LOG_SERIES:
        series += coefficient
        series *= square
    return np.asarray(2.0 * (f + f * series))
