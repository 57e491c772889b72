"""The file of added facts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaifman
from gaifman.errors import GaifmanError, InputError, KnowledgeBaseError, OutputError
from gaifman.io.files import _short_name
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.logic.names import name_problem
from gaifman.server.state import EditsFile, validate_facts

KB = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("person", "ann")])


def test_added_facts_are_read_again(tmp_path: Path) -> None:
    edits = EditsFile(tmp_path / "new.facts")
    assert edits, "an empty file is true"
    assert edits.apply_to(KB) is KB
    edits.add([Fact("parent", ("bob", "cleo"), 0.5)])
    edits.add([Fact("person", ("bob",))])
    again = EditsFile(tmp_path / "new.facts")
    assert len(again) == 2
    whole = again.apply_to(KB)
    assert sorted(map(str, whole.facts())) == sorted(
        ["parent(ann, bob).", "0.5::parent(bob, cleo).", "person(ann).", "person(bob)."]
    )
    assert gaifman.read(tmp_path / "new.facts") == edits.kb, "other commands read it too"


@given(name=st.text(min_size=1, max_size=30).filter(lambda name: not name_problem(name)))
def test_any_name_survives_the_file(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("edits") / "new.facts"
    edits = EditsFile(path)
    edits.add(validate_facts(KB, [Fact("person", (name,))], allow_new_objects=True))
    assert [*EditsFile(path).kb.objects] == [name]


def test_facts_that_cannot_be_written_are_not_added(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    edits = EditsFile(folder / "new.facts")
    with pytest.raises(OutputError):
        edits.add([Fact("person", ("bob",))])
    assert len(edits) == 0


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.facts"
    path.write_text("parent(ann,")
    with pytest.raises(InputError):
        EditsFile(path)


def test_only_one_process_writes(tmp_path: Path) -> None:
    one, two = EditsFile(tmp_path / "new.facts"), EditsFile(tmp_path / "new.facts")
    one.lock()
    with pytest.raises(OutputError, match="in use by another server"):
        two.lock()
    one.close()
    two.lock()
    two.close()
    with pytest.raises(OutputError, match="cannot write"):
        EditsFile(tmp_path / "gone" / "new.facts").lock()
    assert not (tmp_path / "gone").exists()


def test_locking_reads_what_another_server_added(tmp_path: Path) -> None:
    """The facts of the first server were once lost."""
    one = EditsFile(tmp_path / "new.facts")
    one.lock()
    two = EditsFile(tmp_path / "new.facts")
    one.add([Fact("person", ("bob",))])
    one.close()
    two.lock()
    two.lock()  # once more does no harm
    assert len(two) == 1
    two.add([Fact("person", ("cleo",))])
    two.close()
    assert (tmp_path / "new.facts").read_text() == "person(bob).\nperson(cleo).\n"


def test_a_broken_file_is_not_locked(tmp_path: Path) -> None:
    edits = EditsFile(tmp_path / "new.facts")
    edits.path.write_text("parent(ann,")
    with pytest.raises(InputError):
        edits.lock()
    edits.path.unlink()
    other = EditsFile(edits.path)
    other.lock()
    other.close()


def test_links_to_one_file_share_its_lock(tmp_path: Path) -> None:
    (tmp_path / "new.facts").write_text("person(bob).\n")
    (tmp_path / "link.facts").symlink_to("new.facts")
    one, two = EditsFile(tmp_path / "new.facts"), EditsFile(tmp_path / "link.facts")
    one.lock()
    with pytest.raises(OutputError, match="in use by another server"):
        two.lock()
    one.close()


def test_temporary_files_of_a_killed_server_are_removed(tmp_path: Path) -> None:
    long = f"{'k' * 60}.facts"
    left = [".new.facts.0123abcd.part", ".new.facts.89abcdef.part"]
    others = [".new.facts.0123abcd.parts", ".old.facts.0123abcd.part", "new.facts.0123abcd.part", ".new.facts.x.part"]
    others += [f".{_short_name(f'{long}2')}.0123abcd.part"]  # of another file, whose name begins alike
    for name in (*left, *others):
        (tmp_path / name).write_text("half")
    for name in ("new.facts", long):
        edits = EditsFile(tmp_path / name)
        assert not set(left) - {path.name for path in tmp_path.iterdir()} or name == long, "only lock() removes them"
        edits.lock()
        edits.close()
    assert {path.name for path in tmp_path.iterdir()} == {*others, ".new.facts.lock", f".{long}.lock"}


@pytest.mark.parametrize(
    ("fact", "message", "near"),
    [
        (Fact("parnt", ("ann", "bob")), "fact 1: there is no relation parnt", ("parent",)),
        (Fact("parent", ("ann",)), "parent has 2 arguments, not 1", ()),
        (Fact("parent", ("ann", "bobb")), "there is no object bobb", ("bob",)),
        (Fact("parent", ("ann", "bob"), 1.5), "a confidence must be above 0 and at most 1", ()),
        (Fact("parent", ()), "1 to 8 arguments", ()),
    ],
)
def test_mistakes(fact: Fact, message: str, near: tuple[str, ...]) -> None:
    with pytest.raises(KnowledgeBaseError) as caught:
        validate_facts(KB, [fact])
    assert message in caught.value.message
    assert caught.value.suggestions == near


def test_an_unknown_relation_has_suggestions_or_a_hint() -> None:
    for relation, words in (("parnt", ""), ("xyzzy", "GET /api/relations")):
        with pytest.raises(KnowledgeBaseError) as caught:
            validate_facts(KB, [Fact(relation, ("ann", "bob"))])
        assert caught.value.hint.startswith(words)
        assert bool(caught.value.hint) != bool(caught.value.suggestions)


@pytest.mark.parametrize(
    ("name", "message"), [("", "empty"), ("a\0", "NUL"), ("\ud800", "surrogate"), ("x" * 11, "at most 10")]
)
def test_invalid_new_names(name: str, message: str) -> None:
    with pytest.raises(GaifmanError, match=message):
        validate_facts(KB, [Fact("person", (name,))], allow_new_objects=True, max_name_length=10)
