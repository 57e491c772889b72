"""Names that do not fit the knowledge base."""

from __future__ import annotations

import pytest

from gaifman.errors import FormulaError
from gaifman.logic.parser import Schema, parse, parse_feature, parse_query

WORDS = Schema(
    {"borders": 2, "capital": 2, "country": 1, "separates": 3},
    {"population", "area"},
    {"france", "germany", "paris", "x", "s1"},
)
NEAR_FRANCE = ("france",)


@pytest.mark.parametrize(
    ("text", "column", "message", "suggestions"),
    [
        ("bordrs(x, y)", 1, "there is no relation bordrs", ("borders",)),
        ("country(y) & capitol(y, z)", 14, "there is no relation capitol", ("capital",)),
        ("Borders(y, z)", 1, "there is no relation Borders", ("borders",)),
        ("borders(y, z, u)", 1, "borders has 2 arguments, not 3", ()),
        ("country(y, z)", 1, "country has 1 argument, not 2", ()),
        ("population(y)", 1, "population is an attribute: a number, not true or false", ()),
        ("populatoin(y) > 3", 1, "there is no attribute populatoin", ("population",)),
        ("country(y) > 3", 1, "there is no attribute country", ()),
        ("borders(y, 'frnace')", 12, "there is no object 'frnace'", ("france",)),
        ("capital(france, y)", 9, "france is a variable here, but also the name of an object", ()),
        (
            "exists borders. borders(y, z)",
            8,
            "borders is a relation of the knowledge base and cannot be a variable",
            (),
        ),
        ("exists r. r(y, z, u, v)", 11, "there is no relation with 4 arguments", ()),
    ],
)
def test_unknown_names_are_errors_with_location_and_suggestions(
    text: str, column: int, message: str, suggestions: tuple[str, ...]
) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_query(text, WORDS)
    error = caught.value
    assert error.message == message
    assert error.location is not None
    assert error.location.column == column
    assert error.suggestions[: len(suggestions)] == suggestions


def test_the_hint_for_a_wrong_arity_shows_the_right_one() -> None:
    with pytest.raises(FormulaError) as caught:
        parse("separates(y, z)", WORDS)
    assert caught.value.hint == "write: separates(x, y, z)"


def test_the_hint_for_an_object_name_shows_both_ways_out() -> None:
    with pytest.raises(FormulaError) as caught:
        parse("borders(france, y)", WORDS)
    assert caught.value.hint == "write 'france' for the object, ?france for the variable"


@pytest.mark.parametrize(
    "text",
    [
        "borders(?france, y)",
        "borders('france', y)",
        "exists france. borders(france, y)",
        "h(france) :- country(france)",
        "borders(y, z) & population(y) > area(z)",
        "exists r. r(y, z)",
    ],
)
def test_declared_quoted_or_marked_names_are_accepted(text: str) -> None:
    assert parse_query(text, WORDS)


def test_a_rule_declares_only_the_variables_of_its_head() -> None:
    with pytest.raises(FormulaError, match="x is a variable here"):
        parse_query("h(y) :- borders(x, y)", WORDS)


def test_a_query_variable_of_a_feature_is_no_object() -> None:
    assert parse_feature("country(s1)", WORDS)
    with pytest.raises(FormulaError, match="s1 is a variable here"):
        parse("country(s1)", WORDS)


def test_a_feature_may_have_unknown_objects_if_allowed() -> None:
    assert parse_feature("borders(s1, 'atlantis')", WORDS, allow_unknown_objects=True)
    with pytest.raises(FormulaError, match="there is no object 'atlantis'"):
        parse_feature("borders(s1, 'atlantis')", WORDS)


def test_a_tree_without_text_is_checked_without_location() -> None:
    with pytest.raises(FormulaError) as caught:
        WORDS.check(parse("bordrs(y, z)"))
    assert caught.value.location is None
    assert caught.value.suggestions == ("borders",)
