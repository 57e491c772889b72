"""Instructions that Python has no words for: sums of scaled rows in vector registers, and the bits of a float.

`add_scaled_rows` is what every layer of a network is made of. Written as loops, the compiler would check at each row whether
the arrays overlap and whether an index is negative, and keep the sums in memory: that took ten times as long.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

CHUNKS = ((16,) * 6 + (4,), (16,) * 6, (16, 16), (16,), (4,), (1,))
"""Vectors that are summed at once, by their lanes; the largest first. A hundred columns, the paper's, are just one."""
ROWS_AT_ONCE = 3
"""Rows of `out` that `add_scaled_rows` sums at once: each row of the table is then read once for three. Four need
more registers than there are where other code stands around, and take a fifth longer."""

_WORD, _SHORT, _REAL = ir.IntType(64), ir.IntType(32), ir.FloatType()


def _reinterpreted(signature: Any, target: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.bitcast(args[0], target)

    return signature, generate


def _bits(_: Any, __: Any) -> Any:
    return _reinterpreted(types.int32(types.float32), _SHORT)


def _real(_: Any, __: Any) -> Any:
    return _reinterpreted(types.float32(types.int32), _REAL)


def _add_scaled_rows_intrinsic(
    _: Any,
    values: Any,
    v0: Any,
    step: Any,
    stride: Any,
    count: Any,
    table: Any,
    t0: Any,
    columns: Any,
    out: Any,
    o0: Any,
    rows: Any,
) -> Any:
    whole = types.int64
    signature = types.void(values, whole, whole, whole, whole, table, whole, whole, out, whole, whole)

    def generate(context: Any, builder: Any, own: Any, args: Any) -> Any:
        _, v0, step, stride, count, _, t0, columns, _, o0, rows = args
        data = [context.make_array(own.args[i])(context, builder, args[i]).data for i in (0, 5, 8)]
        source = builder.gep(data[1], [t0])
        done = _counter(builder)
        for together in (ROWS_AT_ONCE, 1):
            left = builder.sub(rows, builder.load(done))
            with cgutils.for_range(builder, builder.sdiv(left, _WORD(together))):
                row = builder.load(done)
                first = builder.gep(data[0], [builder.add(v0, builder.mul(row, step))])
                target = builder.gep(data[2], [builder.add(o0, builder.mul(row, columns))])
                scaled = _Scaled(first, step, stride, count, None)
                _sums(builder, together, scaled, source, columns, target)
                builder.store(builder.add(row, _WORD(together)), done)
        return context.get_dummy_value()

    return signature, generate


def _add_gathered_rows_intrinsic(
    _: Any, values: Any, v0: Any, places: Any, p0: Any, count: Any, table: Any, columns: Any, out: Any, o0: Any
) -> Any:
    whole = types.int64
    signature = types.void(values, whole, places, whole, whole, table, whole, out, whole)

    def generate(context: Any, builder: Any, own: Any, args: Any) -> Any:
        _, v0, _, p0, count, _, columns, _, o0 = args
        data = [context.make_array(own.args[i])(context, builder, args[i]).data for i in (0, 2, 5, 7)]
        scaled = _Scaled(builder.gep(data[0], [v0]), _WORD(0), _WORD(1), count, builder.gep(data[1], [p0]))
        _sums(builder, 1, scaled, data[2], columns, builder.gep(data[3], [o0]))
        return context.get_dummy_value()

    return signature, generate


class _Scaled(NamedTuple):
    """Which rows of the table are added, and what they are multiplied by."""

    first: Any
    """Where the first value is."""
    step: Any
    """From the values of one row of `out` to those of the next."""
    stride: Any
    """From one value to the next."""
    count: Any
    places: Any
    """Where the numbers of the rows are; None for one after another."""


def _counter(builder: Any) -> Any:
    return cast(Any, cgutils).alloca_once_value(builder, _WORD(0))


def _sums(builder: Any, together: int, scaled: _Scaled, source: Any, columns: Any, target: Any) -> None:
    """Some rows of `out`, all columns: chunk by chunk."""
    done = _counter(builder)
    builder.store(_WORD(0), done)
    for lanes in CHUNKS:
        width = _WORD(sum(lanes))
        left = builder.sub(columns, builder.load(done))
        with cgutils.for_range(builder, builder.sdiv(left, width)):
            at = builder.load(done)
            _chunk(builder, lanes, together, scaled, source, columns, target, at)
            builder.store(builder.add(at, width), done)


def _chunk(
    builder: Any,
    lanes: tuple[int, ...],
    together: int,
    scaled: _Scaled,
    source: Any,
    columns: Any,
    target: Any,
    at: Any,
) -> None:
    """Some columns: sums in registers while the rows of the table are gone through."""
    vectors = [(sum(lanes[:i]), ir.VectorType(_REAL, n) if n > 1 else _REAL) for i, n in enumerate(lanes)]

    def place(base: Any, offset: int, kind: Any) -> Any:
        return builder.bitcast(builder.gep(base, [_WORD(offset)]), kind.as_pointer())

    begins = [builder.gep(target, [builder.add(at, builder.mul(columns, _WORD(row)))]) for row in range(together)]
    sums = [[cast(Any, cgutils).alloca_once(builder, kind) for _, kind in vectors] for _ in begins]
    for begin, own in zip(begins, sums, strict=True):
        for (offset, kind), total in zip(vectors, own, strict=True):
            builder.store(builder.load(place(begin, offset, kind), align=4), total)
    with cgutils.for_range(builder, scaled.count) as loop:
        number = loop.index
        if scaled.places is not None:
            number = builder.sext(builder.load(builder.gep(scaled.places, [number])), _WORD)
        line = builder.gep(source, [builder.add(builder.mul(number, columns), at)])
        read = [builder.load(place(line, offset, kind), align=4) for offset, kind in vectors]
        value = builder.gep(scaled.first, [builder.mul(loop.index, scaled.stride)])
        for row, own in enumerate(sums):
            factor = builder.load(builder.gep(value, [builder.mul(scaled.step, _WORD(row))]))
            for (_, kind), one, total in zip(vectors, read, own, strict=True):
                product = builder.fmul(_broadcast(builder, factor, kind), one, flags=("contract",))
                builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
    for begin, own in zip(begins, sums, strict=True):
        for (offset, kind), total in zip(vectors, own, strict=True):
            builder.store(builder.load(total), place(begin, offset, kind), align=4)


def _broadcast(builder: Any, number: Any, kind: Any) -> Any:
    """A number in every lane."""
    if kind is _REAL:
        return number
    alone = builder.insert_element(ir.Constant(kind, ir.Undefined), number, _SHORT(0))
    return builder.shuffle_vector(alone, alone, ir.Constant(ir.VectorType(_SHORT, kind.count), [0] * kind.count))


def _plain_bits(one: Any) -> Any:
    return np.float32(one).view(np.int32)


def _plain_real(one: Any) -> Any:
    return np.int32(np.int64(one) & 0xFFFFFFFF).view(np.float32)


def _plain_add_scaled_rows(
    values: Any,
    v0: Any,
    step: Any,
    stride: Any,
    count: Any,
    table: Any,
    t0: Any,
    columns: Any,
    out: Any,
    o0: Any,
    rows: Any,
) -> None:
    for row in range(rows):
        at = o0 + row * columns
        for e in range(count):
            begin = t0 + e * columns
            out[at : at + columns] += values[v0 + row * step + e * stride] * table[begin : begin + columns]


def _plain_add_gathered_rows(
    values: Any, v0: Any, places: Any, p0: Any, count: Any, table: Any, columns: Any, out: Any, o0: Any
) -> None:
    for e in range(count):
        begin = int(places[p0 + e]) * columns
        out[o0 : o0 + columns] += values[v0 + e] * table[begin : begin + columns]


_jit_disabled = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
float_bits: Callable[[Any], Any] = _plain_bits if _jit_disabled else cast(Any, intrinsic(_bits))
"""The bits of a float32, as an int32."""
float_from_bits: Callable[[Any], Any] = _plain_real if _jit_disabled else cast(Any, intrinsic(_real))
"""The float32 of some bits."""
add_scaled_rows: Callable[..., None] = (
    _plain_add_scaled_rows if _jit_disabled else cast(Any, intrinsic(_add_scaled_rows_intrinsic))
)
"""Add to `rows` rows of `out`, from `o0` on, `count` rows of a table from `t0` on.

To row i row e is added times `values[v0 + i * step + e * stride]`.
"""
add_gathered_rows: Callable[..., None] = (
    _plain_add_gathered_rows if _jit_disabled else cast(Any, intrinsic(_add_gathered_rows_intrinsic))
)
"""Add to a row of `out` the rows `places[p0 + e]` of a table, each times `values[v0 + e]`."""
