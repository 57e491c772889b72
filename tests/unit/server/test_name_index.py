"""Search of names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gaifman.server.service import NameIndex

NAMES = st.lists(st.text(st.sampled_from("abAB ßİ\n"), min_size=1, max_size=5), unique=True).map(sorted)


def plain(names: list[str], text: str) -> list[int]:
    """The definition."""
    wanted = text.casefold()
    inside = [number for number, name in enumerate(names) if wanted in name.casefold()]
    return sorted(inside, key=lambda number: not names[number].casefold().startswith(wanted))


@given(NAMES, st.text(st.sampled_from("abAB ßİ\n"), max_size=3))
def test_it_finds_what_a_plain_search_finds(names: list[str], text: str) -> None:
    assert list(NameIndex(names).search(text)) == plain(names, text)


def test_an_empty_text_is_in_every_name() -> None:
    assert list(NameIndex(["ann", "bob"]).search("")) == [0, 1]
    assert list(NameIndex([]).search("")) == []
    assert list(NameIndex([]).search("a")) == []


def test_what_stands_between_names_is_in_none() -> None:
    assert list(NameIndex(["a", "b"]).search("a\0b")) == []
