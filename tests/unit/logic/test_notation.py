"""Quoting of names, similar names, and the styles in which formulas print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.errors import similar_names
from gaifman.logic.ast import (
    ASCII,
    BRACKETED,
    UNICODE,
    fold_subscripts,
    format_relation,
    is_path,
    is_word,
    name_problem,
    quote,
    unquote,
)
from gaifman.logic.parser import parse

NAMES = st.text(min_size=1).filter(lambda name: not name_problem(name))


@given(NAMES)
def test_unquote_undoes_quote(name: str) -> None:
    assert unquote(quote(name)) == name


@given(NAMES)
def test_a_quoted_name_is_one_printable_line(name: str) -> None:
    assert quote(name).isprintable()


@pytest.mark.parametrize("name", ["x", "born_in", "Ünïcode", "r2", "_a"])
def test_words(name: str) -> None:
    assert is_word(name)
    assert not is_path(name)


@pytest.mark.parametrize("name", ["/m/01", "7", "2010-01-01", "/a/b./c", "3.14"])
def test_paths(name: str) -> None:
    assert is_path(name)
    assert not is_word(name)


@pytest.mark.parametrize("name", ["", "a b", "for", "-1", "/", "/a.", "a.b", "x'"])
def test_neither(name: str) -> None:
    assert not is_word(name)
    assert not is_path(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [("", "empty"), ("a\0b", "NUL"), ("\ud800", "surrogate")],
)
def test_invalid_names_and_the_reasons(name: str, words: str) -> None:
    assert words in name_problem(name)


@pytest.mark.parametrize("quoted", [r"''", r"'\u0000'", r"'\ud800'", r"'\U00110000'"])
def test_unquoting_an_invalid_name_is_an_error(quoted: str) -> None:
    with pytest.raises(ValueError, match=r"name cannot|not a character"):
        unquote(quoted)


@pytest.mark.parametrize("quoted", [r"'a\qb'", r"'C:\Users'", r"'\u00'", r"'\x41'"])
def test_an_unknown_escape_is_an_error(quoted: str) -> None:
    with pytest.raises(ValueError, match="is not an escape sequence"):
        unquote(quoted)


@pytest.mark.parametrize(("name", "plain"), [("s₁", "s1"), ("x₁₂", "x12"), ("₁", "₁"), ("x½", "x½"), ("x²", "x²")])
def test_only_subscript_digits_are_folded_and_only_into_words(name: str, plain: str) -> None:
    assert fold_subscripts(name) == plain


def test_similar_names_come_first_and_others_not_at_all() -> None:
    names = ["borders", "border_crossing", "capital", "Borders"]
    assert similar_names("boarders", names)[0] in ("borders", "Borders")
    assert "capital" not in similar_names("boarders", names)
    assert similar_names("zzzzzz", names) == ()


def test_similar_names_ignore_case_and_punctuation() -> None:
    assert similar_names("United States", ["united_states", "united_kingdom"])[0] == "united_states"


def test_the_names_of_a_mapping_are_its_keys() -> None:
    """Relations by name were taken for what they are mapped to, and the error about one was another error."""
    assert similar_names("bordrs", {"borders": 2, "capital": 2}) == ("borders",)
    assert similar_names("bordrs", (name for name in ("borders",))) == ("borders",)


# Signs and brackets


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("borders", "borders"),
        ("naïve", "naïve"),
        ("_hypernym", "_hypernym"),
        ("_", "'_'"),
        ("not", "'not'"),
        ("count", "'count'"),
        ("has part", "'has part'"),
        ("/a/b./c/d", "/a/b./c/d"),
        ("/a/b.", "'/a/b.'"),
        ("1st", "1st"),
        ("a-b", "'a-b'"),
        ("it's", r"'it\'s'"),
        ("\u202ex", r"'\u202ex'"),
    ],
)
def test_relations_are_quoted_only_where_necessary(name: str, text: str) -> None:
    assert format_relation(name) == text
    assert str(parse(f"{text}(x)")) == f"{text}(x)"


def test_one_tree_in_three_styles() -> None:
    formula = parse("forall x. p(x) -> exists y. r(x, y) & x != y")
    assert formula.render(UNICODE) == "∀x p(x) → (∃y r(x, y) ∧ x ≠ y)"
    assert formula.render(ASCII) == "forall x. p(x) -> (exists y. r(x, y) & x != y)"
    assert formula.render(BRACKETED) == "∀x (p(x) → (∃y (r(x, y) ∧ x ≠ y)))"
