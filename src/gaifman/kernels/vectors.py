"""Instructions that Python has no words for: sums of scaled rows in vector registers, and the bits of a float.

`combine` is what every layer of a network is made of. Written as loops, the compiler would check at each row whether
the arrays overlap and whether an index is negative, and keep the sums in memory: that took ten times as long.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

CHUNKS = ((16, 6), (16, 2), (16, 1), (4, 1), (1, 1))
"""Lanes of a vector and vectors at once, the largest first: 100 columns are one of the first kind and one of four."""

_WORD, _SHORT, _REAL = ir.IntType(64), ir.IntType(32), ir.FloatType()


def _reinterpreted(signature: Any, target: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.bitcast(args[0], target)

    return signature, generate


def _bits(_: Any, __: Any) -> Any:
    return _reinterpreted(types.int32(types.float32), _SHORT)


def _real(_: Any, __: Any) -> Any:
    return _reinterpreted(types.float32(types.int32), _REAL)


def _combined(
    _: Any, values: Any, v0: Any, stride: Any, count: Any, table: Any, t0: Any, columns: Any, out: Any, o0: Any
) -> Any:
    return _sums(values, table, out, None)


def _gathered(
    _: Any, values: Any, v0: Any, places: Any, p0: Any, count: Any, table: Any, columns: Any, out: Any, o0: Any
) -> Any:
    return _sums(values, table, out, places)


def _sums(values: Any, table: Any, out: Any, places: Any) -> Any:
    """Signature and code of `combine` (without places) or `gather` (with)."""
    whole = types.int64
    if places is None:
        signature = types.void(values, whole, whole, whole, table, whole, whole, out, whole)
    else:
        signature = types.void(values, whole, places, whole, whole, table, whole, out, whole)

    def generate(context: Any, builder: Any, own: Any, args: Any) -> Any:
        def data(number: int) -> Any:
            return context.make_array(own.args[number])(context, builder, args[number]).data

        if places is None:
            _, v0, stride, count, _, t0, columns, _, o0 = args
            source, target = builder.gep(data(4), [t0]), builder.gep(data(7), [o0])
            rows = None
        else:
            _, v0, _, p0, count, _, columns, _, o0 = args
            source, target, stride = data(5), builder.gep(data(7), [o0]), _WORD(1)
            rows = builder.gep(data(2), [p0])
        first = builder.gep(data(0), [v0])
        done = cast(Any, cgutils).alloca_once_value(builder, _WORD(0))
        for lanes, vectors in CHUNKS:
            width = _WORD(lanes * vectors)
            left = builder.sub(columns, builder.load(done))
            with cgutils.for_range(builder, builder.sdiv(left, width)):
                at = builder.load(done)
                _chunk(builder, lanes, vectors, first, stride, count, rows, source, columns, target, at)
                builder.store(builder.add(at, width), done)
        return context.get_dummy_value()

    return signature, generate


def _chunk(
    builder: Any,
    lanes: int,
    vectors: int,
    first: Any,
    stride: Any,
    count: Any,
    rows: Any,
    source: Any,
    columns: Any,
    target: Any,
    at: Any,
) -> None:
    """Some columns: sums in registers while the rows are gone through."""
    kind = ir.VectorType(_REAL, lanes) if lanes > 1 else _REAL

    def place(base: Any, number: int) -> Any:
        return builder.bitcast(builder.gep(base, [_WORD(number * lanes)]), kind.as_pointer())

    begin = builder.gep(target, [at])
    sums = [cast(Any, cgutils).alloca_once(builder, kind) for _ in range(vectors)]
    for number, total in enumerate(sums):
        builder.store(builder.load(place(begin, number), align=4), total)
    with cgutils.for_range(builder, count) as loop:
        value = builder.load(builder.gep(first, [builder.mul(loop.index, stride)]))
        row = loop.index if rows is None else builder.sext(builder.load(builder.gep(rows, [loop.index])), _WORD)
        line = builder.gep(source, [builder.add(builder.mul(row, columns), at)])
        if lanes > 1:
            alone = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _SHORT(0))
            value = builder.shuffle_vector(alone, alone, ir.Constant(ir.VectorType(_SHORT, lanes), [0] * lanes))
        for number, total in enumerate(sums):
            scaled = builder.fmul(value, builder.load(place(line, number), align=4), flags=("contract",))
            builder.store(builder.fadd(builder.load(total), scaled, flags=("contract",)), total)
    for number, total in enumerate(sums):
        builder.store(builder.load(total), place(begin, number), align=4)


def _plain_bits(one: Any) -> Any:
    return np.float32(one).view(np.int32)


def _plain_real(one: Any) -> Any:
    return np.int32(np.int64(one) & 0xFFFFFFFF).view(np.float32)


def _plain_combine(
    values: Any, v0: Any, stride: Any, count: Any, table: Any, t0: Any, columns: Any, out: Any, o0: Any
) -> None:
    for e in range(count):
        begin = t0 + e * columns
        out[o0 : o0 + columns] += values[v0 + e * stride] * table[begin : begin + columns]


def _plain_gather(
    values: Any, v0: Any, places: Any, p0: Any, count: Any, table: Any, columns: Any, out: Any, o0: Any
) -> None:
    for e in range(count):
        begin = int(places[p0 + e]) * columns
        out[o0 : o0 + columns] += values[v0 + e] * table[begin : begin + columns]


_plain = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
bits_of: Callable[[Any], Any] = _plain_bits if _plain else cast(Any, intrinsic(_bits))
"""The bits of a float32, as an int32."""
real_of: Callable[[Any], Any] = _plain_real if _plain else cast(Any, intrinsic(_real))
"""The float32 of some bits."""
combine: Callable[..., None] = _plain_combine if _plain else cast(Any, intrinsic(_combined))
"""Add to a row of `out`, from `o0` on, rows of a table from `t0` on: row e times `values[v0 + e * stride]`."""
gather: Callable[..., None] = _plain_gather if _plain else cast(Any, intrinsic(_gathered))
"""Add to a row of `out` the rows `places[p0 + e]` of a table, each times `values[v0 + e]`."""
