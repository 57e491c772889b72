"""Signs and brackets."""

from __future__ import annotations

import pytest

from gaifman.logic.notation import ASCII, BRACKETED, UNICODE, format_relation
from gaifman.logic.parser import parse


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
