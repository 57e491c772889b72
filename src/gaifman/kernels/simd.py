"""Vector instructions that numba cannot express: sums of scaled rows in registers.

`add_scaled_rows` is the building block of every layer. As plain loops it took ten times as long: the compiler checks
for overlapping arrays and negative indices at each row, and keeps the sums in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gaifman.kernels.jit import JIT_DISABLED

CHUNKS = ((16,) * 6 + (4,), (16,) * 6, (16, 16), (16,), (4,), (1,))
"""Lanes of the vectors that are summed at once, largest chunk first. 100 columns, as in the paper, are one chunk."""
ROWS_AT_ONCE = 3
"""Rows of `out` that `add_scaled_rows` sums at once, so that each row of the table is read once for three. Four run out
of registers and take a fifth longer.
"""

_WORD, _SHORT, _REAL = ir.IntType(64), ir.IntType(32), ir.FloatType()


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
    int64 = types.int64
    signature = types.void(values, int64, int64, int64, int64, table, int64, int64, out, int64, int64)

    def generate(context: Any, builder: Any, typed: Any, args: Any) -> Any:
        _, v0, step, stride, count, _, t0, columns, _, o0, rows = args
        data = [context.make_array(typed.args[i])(context, builder, args[i]).data for i in (0, 5, 8)]
        source = builder.gep(data[1], [t0])
        done = _counter(builder)
        for row_count in (ROWS_AT_ONCE, 1):
            remaining = builder.sub(rows, builder.load(done))
            with cgutils.for_range(builder, builder.sdiv(remaining, _WORD(row_count))):
                row = builder.load(done)
                first = builder.gep(data[0], [builder.add(v0, builder.mul(row, step))])
                target = builder.gep(data[2], [builder.add(o0, builder.mul(row, columns))])
                scaled = _Scaled(first, step, stride, count, None)
                _sums(builder, row_count, scaled, source, columns, target)
                builder.store(builder.add(row, _WORD(row_count)), done)
        return context.get_dummy_value()

    return signature, generate


def _add_gathered_rows_intrinsic(
    _: Any, values: Any, v0: Any, gathered: Any, p0: Any, count: Any, table: Any, columns: Any, out: Any, o0: Any
) -> Any:
    int64 = types.int64
    signature = types.void(values, int64, gathered, int64, int64, table, int64, out, int64)

    def generate(context: Any, builder: Any, typed: Any, args: Any) -> Any:
        _, v0, _, p0, count, _, columns, _, o0 = args
        data = [context.make_array(typed.args[i])(context, builder, args[i]).data for i in (0, 2, 5, 7)]
        scaled = _Scaled(builder.gep(data[0], [v0]), _WORD(0), _WORD(1), count, builder.gep(data[1], [p0]))
        _sums(builder, 1, scaled, data[2], columns, builder.gep(data[3], [o0]))
        return context.get_dummy_value()

    return signature, generate


class _Scaled(NamedTuple):
    """Which rows of the table are added, and their factors."""

    first: Any
    """Pointer to the first factor."""
    step: Any
    """Distance between the factors of one row of `out` and those of the next."""
    stride: Any
    """Distance between two factors."""
    count: Any
    rows: Any
    """Pointer to the numbers of the rows; None for consecutive rows."""


def _counter(builder: Any) -> Any:
    return cast(Any, cgutils).alloca_once_value(builder, _WORD(0))


def _sums(builder: Any, row_count: int, scaled: _Scaled, source: Any, columns: Any, target: Any) -> None:
    """Generate the sums of some rows of `out`, chunk by chunk."""
    done = _counter(builder)
    builder.store(_WORD(0), done)
    for lanes in CHUNKS:
        chunk_width = _WORD(sum(lanes))
        remaining = builder.sub(columns, builder.load(done))
        with cgutils.for_range(builder, builder.sdiv(remaining, chunk_width)):
            at = builder.load(done)
            _chunk(builder, lanes, row_count, scaled, source, columns, target, at)
            builder.store(builder.add(at, chunk_width), done)


def _chunk(
    builder: Any,
    lanes: tuple[int, ...],
    row_count: int,
    scaled: _Scaled,
    source: Any,
    columns: Any,
    target: Any,
    at: Any,
) -> None:
    """Generate the sums of some columns, kept in registers over all rows of the table."""
    vectors = [(sum(lanes[:i]), ir.VectorType(_REAL, n) if n > 1 else _REAL) for i, n in enumerate(lanes)]

    def pointer(base: Any, offset: int, vector_type: Any) -> Any:
        return builder.bitcast(builder.gep(base, [_WORD(offset)]), vector_type.as_pointer())

    begins = [builder.gep(target, [builder.add(at, builder.mul(columns, _WORD(row)))]) for row in range(row_count)]
    sums = [[cast(Any, cgutils).alloca_once(builder, vector_type) for _, vector_type in vectors] for _ in begins]
    for begin, totals in zip(begins, sums, strict=True):
        for (offset, vector_type), total in zip(vectors, totals, strict=True):
            builder.store(builder.load(pointer(begin, offset, vector_type), align=4), total)
    with cgutils.for_range(builder, scaled.count) as loop:
        number = loop.index
        if scaled.rows is not None:
            number = builder.sext(builder.load(builder.gep(scaled.rows, [number])), _WORD)
        table_row = builder.gep(source, [builder.add(builder.mul(number, columns), at)])
        loaded = [builder.load(pointer(table_row, offset, vector_type), align=4) for offset, vector_type in vectors]
        value = builder.gep(scaled.first, [builder.mul(loop.index, scaled.stride)])
        for row, totals in enumerate(sums):
            factor = builder.load(builder.gep(value, [builder.mul(scaled.step, _WORD(row))]))
            for (_, vector_type), loaded_vector, total in zip(vectors, loaded, totals, strict=True):
                product = builder.fmul(_broadcast(builder, factor, vector_type), loaded_vector, flags=("contract",))
                builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
    for begin, totals in zip(begins, sums, strict=True):
        for (offset, vector_type), total in zip(vectors, totals, strict=True):
            builder.store(builder.load(total), pointer(begin, offset, vector_type), align=4)


def _broadcast(builder: Any, number: Any, vector_type: Any) -> Any:
    """Generate a vector with a number in every lane."""
    if vector_type is _REAL:
        return number
    single = builder.insert_element(ir.Constant(vector_type, ir.Undefined), number, _SHORT(0))
    return builder.shuffle_vector(
        single, single, ir.Constant(ir.VectorType(_SHORT, vector_type.count), [0] * vector_type.count)
    )


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
    values: Any, v0: Any, gathered: Any, p0: Any, count: Any, table: Any, columns: Any, out: Any, o0: Any
) -> None:
    for e in range(count):
        begin = int(gathered[p0 + e]) * columns
        out[o0 : o0 + columns] += values[v0 + e] * table[begin : begin + columns]


add_scaled_rows: Callable[..., None] = (
    _plain_add_scaled_rows if JIT_DISABLED else cast(Any, intrinsic(_add_scaled_rows_intrinsic))
)
"""Add `count` scaled rows of a table, from `t0` on, to each of `rows` rows of `out`, from `o0` on.

Row e is added to row i with the factor `values[v0 + i * step + e * stride]`.
"""
add_gathered_rows: Callable[..., None] = (
    _plain_add_gathered_rows if JIT_DISABLED else cast(Any, intrinsic(_add_gathered_rows_intrinsic))
)
"""Add the rows `gathered[p0 + e]` of a table to a row of `out`, each times `values[v0 + e]`."""
