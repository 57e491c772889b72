"""Text into tokens."""

from __future__ import annotations

import pytest

from gaifman.config import DEFAULT_LIMITS, Limits
from gaifman.errors import FormulaError, LimitError
from gaifman.logic.parser import FOREIGN_SYMBOLS, SPELLINGS, TokenStream, tokenise


@pytest.mark.parametrize(("kind", "spelling"), [(kind, s) for kind, spellings in SPELLINGS.items() for s in spellings])
def test_every_spelling_gives_the_canonical_symbol(kind: str, spelling: str) -> None:
    assert [token.kind for token in tokenise(f"a {spelling} b")] == ["word", kind, "word", "end"]


@pytest.mark.parametrize("sign", FOREIGN_SYMBOLS)
def test_symbols_of_other_languages_get_a_hint(sign: str) -> None:
    with pytest.raises(FormulaError) as caught:
        tokenise(f"a {sign} b")
    assert caught.value.message == f"{sign} is not used here"
    assert caught.value.hint == FOREIGN_SYMBOLS[sign]


def test_longest_symbol_first() -> None:
    assert [t.kind for t in tokenise("a<->b<=c!=d:-e")] == [
        "word",
        "↔",
        "word",
        "≤",
        "word",
        "≠",
        "word",
        ":-",
        "word",
        "end",
    ]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("/m/01.", ["path", ".", "end"]),
        ("1.5.", ["path", ".", "end"]),
        ("5->6", ["path", "→", "path", "end"]),
        ("x-y", ["word", "-", "word", "end"]),
        ("?x.", ["variable", ".", "end"]),
        ("exists_x", ["word", "end"]),
        ("format", ["word", "end"]),
    ],
)
def test_where_names_end(text: str, kinds: list[str]) -> None:
    assert [token.kind for token in tokenise(text)] == kinds


def test_spans_point_into_the_text() -> None:
    text = "  p ( 'a b' )"
    assert [text[slice(*token.span)] for token in tokenise(text)] == ["p", "(", "'a b'", ")", ""]


def test_names_lose_their_quotes_and_question_marks() -> None:
    assert [token.name for token in tokenise("'a\\'b' ?x y")][:3] == ["a'b", "x", "y"]


def test_too_many_tokens_are_refused_at_the_first_one_too_many() -> None:
    with pytest.raises(LimitError) as caught:
        tokenise("p(x) & q(y)", Limits(nodes=3))
    assert caught.value.location is not None
    assert caught.value.location.column == 8


def test_a_stream_reads_from_left_to_right_and_stays_at_the_end() -> None:
    cursor = TokenStream("p(x)", DEFAULT_LIMITS, "formula")
    assert cursor.next_token.kind == "("
    assert [cursor.advance().kind for _ in range(6)] == ["word", "(", "word", ")", "end", "end"]
    assert cursor.next_token.kind == "end"
