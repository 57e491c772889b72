"""The knowledge base that comes with gaifman."""

from __future__ import annotations

from gaifman.io import demo


def test_the_demo_is_the_same_each_time() -> None:
    assert demo() == demo()
    assert len(demo()) > 1000


def test_the_demo_has_no_warnings() -> None:
    assert [note.text for note in demo().notes] == ["files read as facts"]
