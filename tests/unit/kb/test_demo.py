"""The knowledge base that comes with gaifman."""

from __future__ import annotations

from gaifman.io.demo import demo


def test_the_demo_is_read_once() -> None:
    assert demo() is demo()
    assert len(demo()) > 1000


def test_the_demo_is_read_without_a_word_of_warning() -> None:
    assert [note.text for note in demo().notes] == ["read as facts"]
