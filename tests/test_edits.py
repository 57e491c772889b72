"""Facts that were added, and their file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gaifman
from gaifman.edits import Edits, checked
from gaifman.errors import GaifmanError, InputError, KnowledgeError, OutputError
from gaifman.facts import Fact
from gaifman.io.files import _short
from gaifman.kb import KnowledgeBase
from gaifman.names import fault

KB = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("person", "ann")])


def test_what_is_added_is_there_when_the_file_is_read_again(tmp_path: Path) -> None:
    edits = Edits(tmp_path / "new.facts")
    assert edits, "it is there, though it holds nothing"
    assert edits.put(KB) is KB
    edits.add([Fact("parent", ("bob", "cleo"), 0.5)])
    edits.add([Fact("person", ("bob",))])
    again = Edits(tmp_path / "new.facts")
    assert len(again) == 2
    whole = again.put(KB)
    assert sorted(map(str, whole.facts())) == sorted(
        ["parent(ann, bob).", "0.5::parent(bob, cleo).", "person(ann).", "person(bob)."]
    )
    assert gaifman.read(tmp_path / "new.facts") == edits.facts, "other commands read it too"


@settings(deadline=None)  # the disk is not ours alone
@given(name=st.text(min_size=1, max_size=30).filter(lambda name: not fault(name)))
def test_any_name_survives_the_file(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("edits") / "new.facts"
    edits = Edits(path)
    edits.add(checked(KB, [Fact("person", (name,))], fresh=True))
    assert [*Edits(path).facts.objects] == [name]


def test_what_cannot_be_written_is_not_added(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    edits = Edits(folder / "new.facts")
    with pytest.raises(OutputError):
        edits.add([Fact("person", ("bob",))])
    assert len(edits) == 0


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.facts"
    path.write_text("parent(ann,")
    with pytest.raises(InputError):
        Edits(path)


def test_only_one_process_writes(tmp_path: Path) -> None:
    one, two = Edits(tmp_path / "new.facts"), Edits(tmp_path / "new.facts")
    one.hold()
    with pytest.raises(OutputError, match="another server"):
        two.hold()
    one.close()
    two.hold()
    two.close()
    with pytest.raises(OutputError, match="cannot be written"):
        Edits(tmp_path / "gone" / "new.facts").hold()


def test_what_another_added_until_it_let_go_is_read_again(tmp_path: Path) -> None:
    """The facts of the first were lost: the second wrote the file anew from what it had read before."""
    one = Edits(tmp_path / "new.facts")
    one.hold()
    two = Edits(tmp_path / "new.facts")
    one.add([Fact("person", ("bob",))])
    one.close()
    two.hold()
    two.hold()  # once more does no harm
    assert len(two) == 1
    two.add([Fact("person", ("cleo",))])
    two.close()
    assert (tmp_path / "new.facts").read_text() == "person(bob).\nperson(cleo).\n"


def test_a_file_that_is_broken_when_it_is_held_is_not_held(tmp_path: Path) -> None:
    edits = Edits(tmp_path / "new.facts")
    edits.path.write_text("parent(ann,")
    with pytest.raises(InputError):
        edits.hold()
    edits.path.unlink()
    other = Edits(edits.path)
    other.hold()
    other.close()


def test_two_links_to_one_file_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "new.facts").write_text("person(bob).\n")
    (tmp_path / "link.facts").symlink_to("new.facts")
    one, two = Edits(tmp_path / "new.facts"), Edits(tmp_path / "link.facts")
    one.hold()
    with pytest.raises(OutputError, match="another server"):
        two.hold()
    one.close()


def test_what_a_kill_left_half_written_is_removed_and_nothing_else(tmp_path: Path) -> None:
    long = f"{'k' * 60}.facts"
    left = [".new.facts.0123abcd.part", ".new.facts.89abcdef.part"]
    others = [".new.facts.0123abcd.parts", ".old.facts.0123abcd.part", "new.facts.0123abcd.part", ".new.facts.x.part"]
    others += [f".{_short(f'{long}2')}.0123abcd.part"]  # of another file, whose name begins alike
    for name in (*left, *others):
        (tmp_path / name).write_text("half")
    for name in ("new.facts", long):
        edits = Edits(tmp_path / name)
        assert not set(left) - {path.name for path in tmp_path.iterdir()} or name == long, "only who writes removes"
        edits.hold()
        edits.close()
    assert {path.name for path in tmp_path.iterdir()} == {*others, ".new.facts.lock", f".{long}.lock"}


@pytest.mark.parametrize(
    ("fact", "message", "near"),
    [
        (Fact("parnt", ("ann", "bob")), "fact 1: there is no relation parnt", ("parent",)),
        (Fact("parent", ("ann",)), "parent has 2 places, not 1", ()),
        (Fact("parent", ("ann", "bobb")), "there is no object bobb", ("bob",)),
        (Fact("parent", ("ann", "bob"), 1.5), "a confidence is above 0 and at most 1", ()),
        (Fact("parent", ()), "1 to 8 places", ()),
    ],
)
def test_mistakes(fact: Fact, message: str, near: tuple[str, ...]) -> None:
    with pytest.raises(KnowledgeError) as caught:
        checked(KB, [fact])
    assert message in caught.value.message
    assert caught.value.near == near


def test_where_no_relation_is_near_it_is_said_how_to_find_them() -> None:
    for relation, words in (("parnt", ""), ("xyzzy", "GET /api/relations")):
        with pytest.raises(KnowledgeError) as caught:
            checked(KB, [Fact(relation, ("ann", "bob"))])
        assert caught.value.hint.startswith(words)
        assert bool(caught.value.hint) != bool(caught.value.near)


@pytest.mark.parametrize(
    ("name", "message"), [("", "empty"), ("a\0", "NUL"), ("\ud800", "surrogate"), ("x" * 11, "at most 10")]
)
def test_names_that_cannot_be_new(name: str, message: str) -> None:
    with pytest.raises(GaifmanError, match=message):
        checked(KB, [Fact("person", (name,))], fresh=True, longest=10)
