"""Which column holds what: guesses, headers, numbers, and rows put into a draft."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.draft import Draft
from gaifman.errors import InputError, Place
from gaifman.io.interpret import decimals, interpret
from gaifman.io.layouts import DECIMAL, PLAIN, Doubt, Layout, asked, guess, is_number
from gaifman.io.rows import Rows


def rows_of(*lines: str) -> Rows:
    """Rows of words."""
    cells = [line.split() for line in lines]
    widths = np.array([len(row) for row in cells], np.int64)
    return Rows("x", [cell for row in cells for cell in row], widths, np.arange(1, len(cells) + 1), " ")


def contents(rows: Rows, layout: Layout) -> list[str]:
    draft = Draft()
    interpret(rows, layout, draft)
    kb = draft.finish()
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
        (["1 2"], "two columns, and the second holds numbers"),
        (["ann 80", "bob 55.5"], "two columns, and the second holds numbers"),
        (["ann 80", "bob old"], "types"),
        (["ann met bob 2010-01-01", "cleo met bob 2011-01-01"], "four columns, of which the second repeats itself"),
        (["gave ann book cleo", "gave ann ball dan", "gave bob box cleo"], "nary"),
        (["subject predicate object date", "a p b 2010"], "this looks like a header; the column date is unknown"),
        (["head relation tail confidence note"], "this looks like a header; the column note is unknown"),
        (["relation a1 x"], "this looks like a header; the column x is unknown"),
        (["relation arg1 arg3"], "this looks like a header, but its words together name no facts"),
        (["relation arg1 arg1"], "this looks like a header, but its words together name no facts"),
        (["source target weight"], "this looks like a header, but its words together name no facts"),
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
def test_guesses(lines: list[str], form: str) -> None:
    found = guess([line.split() for line in lines])
    if isinstance(found, Doubt):
        assert found.message.startswith(form)
        assert not lines or found.hint
    else:
        assert found.format == form


@given(st.lists(st.lists(st.text("ab1. ", max_size=3), min_size=1, max_size=6), max_size=8))
def test_a_guess_never_fails(rows: list[list[str]]) -> None:
    found = guess(rows)
    assert isinstance(found, Doubt) or found.format in PLAIN


@pytest.mark.parametrize(
    ("lines", "layout", "expected"),
    [
        (["ann parent bob"], PLAIN["triples"], ["parent(ann, bob)."]),
        (["bob parent ann"], Layout("triples", 1, (2, 0)), ["parent(ann, bob)."]),
        (["0.5 ann parent bob"], Layout("triples", 2, (1, 3), 0), ["0.5::parent(ann, bob)."]),
        (["p a", "r a b", "p b", "t a b c"], PLAIN["nary"], ["p(a).", "p(b).", "r(a, b).", "t(a, b, c)."]),
        (["p 0.5 a", "r 1 a b"], Layout("nary", 0, None, 1), ["0.5::p(a).", "r(a, b)."]),
        (["b p a 0.5"], Layout("nary", 1, (2, 0), 3), ["0.5::p(a, b)."]),
        (["ann person"], PLAIN["types"], ["person(ann)."]),
        (["ann age 80"], PLAIN["attributes"], ["age(ann) = 80.0"]),
        (["80 age ann"], Layout("attributes", 1, (2,), 0), ["age(ann) = 80.0"]),
        ([], PLAIN["triples"], []),
    ],
)
def test_rows_become_facts_and_values(lines: list[str], layout: Layout, expected: list[str]) -> None:
    assert contents(rows_of(*lines), layout) == expected


def test_numbers_are_no_names() -> None:
    draft = Draft()
    interpret(rows_of("ann parent bob 0.25"), Layout("triples", 1, (0, 2), 3), draft)
    assert list(draft.finish().objects) == ["ann", "bob"]


@pytest.mark.parametrize(
    ("layout", "says", "width"),
    [
        (PLAIN["triples"], "head, relation, tail", 3),
        (Layout("triples", 1, (0, 2), 3), "head, relation, tail, confidence", 4),
        (Layout("triples", 2, (1, 3), 0), "confidence, head, relation, tail", 4),
        (PLAIN["types"], "object, type", 2),
        (PLAIN["attributes"], "object, attribute, value", 3),
        (PLAIN["nary"], "relation, objects", None),
        (Layout("nary", 0, None, 1), "relation, confidence, objects", None),
        (Layout("nary", 1, (2, 0), 3), "arg2, relation, arg1, confidence", 4),
    ],
)
def test_a_layout_says_its_columns(layout: Layout, says: str, width: int | None) -> None:
    assert (layout.says(), layout.width) == (says, width)


def test_a_format_asked_for_keeps_its_header_and_its_confidence() -> None:
    assert asked("triples", ["a", "r", "b"]) == PLAIN["triples"]
    assert asked("triples", ["a", "r", "b", "0.5"]).number == 3
    assert asked("triples", ["tail", "relation", "head"]).objects == (2, 0)
    assert asked("nary", ["head", "relation", "tail"]) == PLAIN["nary"]


@pytest.mark.parametrize("text", ["1", "-1", "+1.5", ".5", "5.", "1e5", "1E-5", "007"])
def test_decimal_numbers(text: str) -> None:
    assert DECIMAL.fullmatch(text)
    assert is_number(text)
    assert decimals([text], lambda row: Place("x", row, 1, "")).tolist() == [float(text)]


@pytest.mark.parametrize(
    "text", ["", "a", "1_000", "0x10", "1,5", "--1", "1e", ".", "١", "nan", "inf", "-Infinity", "1e999"]
)
def test_what_is_no_finite_number_is_refused_where_it_stands(text: str) -> None:
    if text == "١":
        assert not is_number(text)
        return
    with pytest.raises(InputError) as caught:
        decimals(["1", text, "2"], lambda row: Place("x", row + 1, 1, ""))
    assert caught.value.message == f"not a finite number: {text!r}"
    assert caught.value.place
    assert caught.value.place.line == 2
