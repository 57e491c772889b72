"""Errors say what, where, why and what to write instead."""

from __future__ import annotations

import json

import pytest

from gaifman import errors
from gaifman.errors import EXCERPT_LENGTH, FormulaError, GaifmanError, Location, escape_unprintable, shorten

ALL = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)]


@pytest.mark.parametrize("error", ALL)
def test_every_error_is_drawn_in_the_docstring_and_has_one_base(error: type[Exception]) -> None:
    assert issubclass(error, GaifmanError)
    assert errors.__doc__ is not None
    assert error.__name__ in errors.__doc__


def test_an_error_prints_location_caret_expected_suggestions_and_hint() -> None:
    place = Location.from_offset("query", "p(x)\nbordrs(x, y)", 5, 6)
    error = FormulaError(
        "no such relation", location=place, expected=("(",), suggestions=("borders",), hint="write borders"
    )
    assert str(error).splitlines() == [
        "query, line 2, column 1: no such relation",
        "  bordrs(x, y)",
        "  ^^^^^^",
        "expected: (",
        "did you mean: borders",
        "hint: write borders",
    ]


def test_an_error_as_json() -> None:
    error = FormulaError("what", location=Location("query", 1, 2, "abc"), suggestions=("b",))
    body = json.loads(json.dumps(error.as_dict()))
    assert body["error"] == "FormulaError"
    assert body["message"] == "what"
    assert body["location"] == {"source": "query", "line": 1, "column": 2, "text": "abc", "width": 1}
    assert body["suggestions"] == ["b"]


def test_an_error_without_location_is_one_line() -> None:
    assert str(GaifmanError("wrong")) == "wrong"
    assert GaifmanError("wrong").as_dict()["location"] is None


@pytest.mark.parametrize("column", [1, 50, 500, 1000])
def test_a_long_line_is_shortened_around_the_column(column: int) -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(1000))
    line, caret = Location("file", 1, column, text).excerpt().split("\n")
    assert len(line) <= EXCERPT_LENGTH + 2
    assert line[caret.index("^")] == text[column - 1]


def test_the_caret_stands_under_wide_and_combining_characters() -> None:
    _, caret = Location("query", 1, 3, "日本x").excerpt().split("\n")
    assert caret == "    ^"
    _, caret = Location("query", 1, 3, "e\u0301x").excerpt().split("\n")
    assert caret == " ^"


def test_the_location_at_the_end_of_a_text() -> None:
    place = Location.from_offset("query", "p(x", 3)
    assert (place.line, place.column) == (1, 4)
    assert place.excerpt() == "p(x\n   ^"


def test_control_and_bidirectional_characters_are_escaped() -> None:
    assert escape_unprintable("a\x00\x1b[31m\u202eb") == r"a\x00\x1b[31m\u202eb"


def test_shortening_keeps_both_ends() -> None:
    assert shorten("a" * 100 + "z", 20) == "a" * 10 + "…" + "a" * 8 + "z"
    assert shorten("short") == "short"
