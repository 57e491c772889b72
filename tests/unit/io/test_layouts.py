"""Layouts of tables: detection, headers, numbers, and rows in the builder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.errors import InputError, Location
from gaifman.io.cells import DECIMAL, is_number, parse_numbers
from gaifman.io.tabular import (
    DEFAULT_LAYOUTS,
    LayoutProblem,
    RowBatch,
    TableLayout,
    add_rows,
    detect_layout,
    layout_for_format,
)
from gaifman.kb.builder import KnowledgeBaseBuilder


def rows_of(*lines: str) -> RowBatch:
    """Rows of words."""
    cells = [line.split() for line in lines]
    widths = np.array([len(row) for row in cells], np.int64)
    return RowBatch("x", [cell for row in cells for cell in row], widths, np.arange(1, len(cells) + 1), " ")


def contents(rows: RowBatch, layout: TableLayout) -> list[str]:
    builder = KnowledgeBaseBuilder()
    add_rows(rows, layout, builder)
    kb = builder.build()
    return [str(fact) for fact in kb.facts()] + [f"{a}({o}) = {v}" for a, o, v in kb.values()]


@pytest.mark.parametrize(
    ("lines", "form"),
    [
        (["ann parent bob"], "triples"),
        (["ann parent bob 0.5", "ann parent cleo 1"], "triples"),
        (["ann parent bob 50"], "triples"),
        (["ann parent bob 0.5", "ann parent cleo -1"], "triples"),
        (["ann parent bob 500"], "nary"),
        (["ann parent bob cleo"], "nary"),
        (["gave ann book cleo dan"], "nary"),
        (["ann person"], "types"),
        (["1 2"], "two columns, of which the second is numeric"),
        (["ann 80", "bob 55.5"], "two columns, of which the second is numeric"),
        (["ann 80", "bob old"], "types"),
        (["ann met bob 2010-01-01", "cleo met bob 2011-01-01"], "four columns: the second has repeated names"),
        (["gave ann book cleo", "gave ann ball dan", "gave bob box cleo"], "nary"),
        (["subject predicate object date", "a p b 2010"], "this looks like a header; the column date is unknown"),
        (["head relation tail confidence note"], "this looks like a header; the column note is unknown"),
        (["relation a1 x"], "this looks like a header; the column x is unknown"),
        (["relation arg1 arg3"], "this looks like a header, but its columns are not those of facts"),
        (["relation arg1 arg1"], "this looks like a header, but its columns are not those of facts"),
        (["source target weight"], "this looks like a header, but it has no column for the relation"),
        (["source target"], "this looks like a header, but it has no column for the relation"),
        (["a1 edge a2"], "triples"),
        (["head parent bob"], "triples"),
        (["ann age 80", "bob age 1e2"], "attributes"),
        (["ann age nan", "bob age 3"], "attributes"),
        (["1 next 2", "2 next 3"], "triples"),
        (["1 next 2", "x next 3"], "attributes"),
        (["parent ann bob", "person ann", "parent bob cleo", "person dan"], "nary"),
        (["ann parent bob", "bob parent cleo", "cleo parent"], "triples"),
        (["ann parent bob", "ann parent"], "triples"),
        (["ann age 80", "bob age 81", "cleo age"], "attributes"),
        (["a"], "one column"),
        ([], "there are no rows"),
    ],
)
def test_layouts_are_detected(lines: list[str], form: str) -> None:
    found = detect_layout([line.split() for line in lines])
    if isinstance(found, LayoutProblem):
        assert found.message.startswith(form)
        assert not lines or found.hint
    else:
        assert found.format == form


@given(st.lists(st.lists(st.text("ab1. ", max_size=3), min_size=1, max_size=6), max_size=8))
def test_detection_never_fails(rows: list[list[str]]) -> None:
    found = detect_layout(rows)
    assert isinstance(found, LayoutProblem) or found.format in DEFAULT_LAYOUTS


@pytest.mark.parametrize(
    ("lines", "layout", "expected"),
    [
        (["ann parent bob"], DEFAULT_LAYOUTS["triples"], ["parent(ann, bob)."]),
        (["bob parent ann"], TableLayout("triples", 1, (2, 0)), ["parent(ann, bob)."]),
        (["0.5 ann parent bob"], TableLayout("triples", 2, (1, 3), 0), ["0.5::parent(ann, bob)."]),
        (["p a", "r a b", "p b", "t a b c"], DEFAULT_LAYOUTS["nary"], ["p(a).", "p(b).", "r(a, b).", "t(a, b, c)."]),
        (["p 0.5 a", "r 1 a b"], TableLayout("nary", 0, None, 1), ["0.5::p(a).", "r(a, b)."]),
        (["b p a 0.5"], TableLayout("nary", 1, (2, 0), 3), ["0.5::p(a, b)."]),
        (["ann person"], DEFAULT_LAYOUTS["types"], ["person(ann)."]),
        (["ann age 80"], DEFAULT_LAYOUTS["attributes"], ["age(ann) = 80.0"]),
        (["80 age ann"], TableLayout("attributes", 1, (2,), 0), ["age(ann) = 80.0"]),
        ([], DEFAULT_LAYOUTS["triples"], []),
    ],
)
def test_rows_become_facts_and_values(lines: list[str], layout: TableLayout, expected: list[str]) -> None:
    assert contents(rows_of(*lines), layout) == expected


def test_numbers_are_not_names() -> None:
    builder = KnowledgeBaseBuilder()
    add_rows(rows_of("ann parent bob 0.25"), TableLayout("triples", 1, (0, 2), 3), builder)
    assert list(builder.build().objects) == ["ann", "bob"]


@pytest.mark.parametrize(
    ("layout", "says", "width"),
    [
        (DEFAULT_LAYOUTS["triples"], "head, relation, tail", 3),
        (TableLayout("triples", 1, (0, 2), 3), "head, relation, tail, confidence", 4),
        (TableLayout("triples", 2, (1, 3), 0), "confidence, head, relation, tail", 4),
        (DEFAULT_LAYOUTS["types"], "object, type", 2),
        (DEFAULT_LAYOUTS["attributes"], "object, attribute, value", 3),
        (DEFAULT_LAYOUTS["nary"], "relation, objects", None),
        (TableLayout("nary", 0, None, 1), "relation, confidence, objects", None),
        (TableLayout("nary", 1, (2, 0), 3), "arg2, relation, arg1, confidence", 4),
    ],
)
def test_a_layout_describes_its_columns(layout: TableLayout, says: str, width: int | None) -> None:
    assert (layout.describe(), layout.column_count) == (says, width)


def test_a_given_format_keeps_its_header_and_confidence() -> None:
    assert layout_for_format("triples", [["a", "r", "b"]]) == DEFAULT_LAYOUTS["triples"]
    assert layout_for_format("triples", [["a", "r", "b", "0.5"]]).number_column == 3
    assert layout_for_format("triples", [["tail", "relation", "head"]]).objects == (2, 0)
    assert layout_for_format("triples", [["head", "relation", "tail"]], header=False) == DEFAULT_LAYOUTS["triples"]
    assert layout_for_format("triples", [["x", "y", "z"]], header=True).header
    assert layout_for_format("nary", [["head", "relation", "tail"]]) == DEFAULT_LAYOUTS["nary"]


@pytest.mark.parametrize("text", ["1", "-1", "+1.5", ".5", "5.", "1e5", "1E-5", "007"])
def test_decimal_numbers(text: str) -> None:
    assert DECIMAL.fullmatch(text)
    assert is_number(text)
    assert parse_numbers([text], lambda row: Location("x", row, 1, "")).tolist() == [float(text)]


@pytest.mark.parametrize(
    "text", ["", "a", "1_000", "0x10", "1,5", "--1", "1e", ".", "١", "nan", "inf", "-Infinity", "1e999"]
)
def test_other_texts_than_finite_numbers_are_refused(text: str) -> None:
    if text == "١":
        assert not is_number(text)
        return
    with pytest.raises(InputError) as caught:
        parse_numbers(["1", text, "2"], lambda row: Location("x", row + 1, 1, ""))
    assert caught.value.message == f"not a finite number: {text!r}"
    assert caught.value.location
    assert caught.value.location.line == 2
