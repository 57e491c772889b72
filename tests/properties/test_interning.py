"""The interner numbers names as a dictionary does, even if hashes collide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.kb.builder import Interner
from gaifman.kb.tables import NameEncoder
from kbs import names

words = st.lists(
    st.one_of(names, st.sampled_from(["a", "b" * 8, "b" * 9, "c" * 16, "d" * 40, "d" * 39 + "e"])), max_size=40
)


def cut(texts: list[str]) -> tuple[bytes, list[int], list[int]]:
    """Texts as one block, with where each begins and ends."""
    pieces = [text.encode() for text in texts]
    ends = np.cumsum([len(piece) + 1 for piece in pieces]).astype(int) - 1 if pieces else np.zeros(0, int)
    return b"".join(piece + b"\t" for piece in pieces), [e - len(p) for e, p in zip(ends, pieces, strict=True)], [*ends]


def numbers(interner: Interner, index: NameEncoder, texts: list[str]) -> list[int]:
    data, starts, ends = cut(texts)
    found: list[int] = interner.encode(data, np.array(starts, np.int64), np.array(ends, np.int64), index).tolist()
    return found


@given(st.lists(words, max_size=4))
def test_it_numbers_names_as_a_dictionary_does(blocks: list[list[str]]) -> None:
    interner, index, plain = Interner(), NameEncoder(), NameEncoder()
    for texts in blocks:
        assert numbers(interner, index, texts) == plain.encode(texts).tolist()
    assert index == plain


@given(st.lists(words, max_size=4))
def test_it_is_exact_where_all_hashes_collide(blocks: list[list[str]]) -> None:
    interner, index, plain = Interner(), NameEncoder(), NameEncoder()
    interner._factor = np.uint64(0)
    for texts in blocks:
        assert numbers(interner, index, texts) == [index[text] for text in texts]
        plain.encode(texts)
    assert set(index) == set(plain)


@given(words, words)
def test_the_encoder_may_know_names_already(ours: list[str], others: list[str]) -> None:
    interner, index = Interner(), NameEncoder()
    index.encode(others)
    assert numbers(interner, index, ours) == index.encode(ours).tolist()


def test_many_names_grow_the_table() -> None:
    interner, index = Interner(), NameEncoder()
    texts = [f"name {number}" for number in range(20_000)]
    for _ in range(2):
        assert numbers(interner, index, texts) == list(range(20_000))
    assert numbers(interner, index, texts[::-1]) == list(range(20_000))[::-1]


def test_an_empty_name_is_a_name_here() -> None:
    interner, index = Interner(), NameEncoder()
    assert numbers(interner, index, ["a", "", "a", "b"]) == [0, 1, 0, 2]


def test_invalid_utf_8_raises() -> None:
    with pytest.raises(UnicodeDecodeError):
        Interner().encode(b"\xff\t", np.array([0]), np.array([1]), NameEncoder())


def test_two_interners_hash_differently() -> None:
    assert len({int(Interner()._factor) for _ in range(3)}) == 3
