"""The file of added facts."""

from __future__ import annotations

import errno
import os
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaifman
from gaifman.errors import GaifmanError, InputError, KnowledgeBaseError, OutputError
from gaifman.io.files import _short_name
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.logic.ast import name_problem
from gaifman.server.edits import EditsFile
from gaifman.server.state import validate_facts
from processes import child, python

KB = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("person", "ann")])


def facts_of(path: Path) -> list[str]:
    """The facts of a file, as lines."""
    return [str(fact) for fact in EditsFile(path).kb.facts()]


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
    assert facts_of(tmp_path / "new.facts") == ["person(bob).", "person(cleo)."]


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
    assert {path.name for path in tmp_path.iterdir()} == set(others)


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


# Checksums


def written(path: Path, *names: str) -> bytes:
    """Write a file of people, each added on its own; return its content."""
    edits = EditsFile(path)
    edits.lock()
    for name in names:
        edits.add([Fact("person", (name,))])
    edits.close()
    return path.read_bytes()


def test_each_line_has_a_checksum_that_covers_the_lines_before(tmp_path: Path) -> None:
    one = written(tmp_path / "one.facts", "ann", "bob").decode().splitlines()
    other = written(tmp_path / "other.facts", "cleo", "bob").decode().splitlines()
    assert one[2].startswith("person(bob). % 2 ")
    assert one[2] != other[2]
    assert one[0] == f"% gaifman edits 1: 0000000002 lines, checksum {one[2][-16:]}"
    assert gaifman.read(tmp_path / "one.facts") == EditsFile(tmp_path / "one.facts").kb, "other commands read it"


def test_any_cut_of_the_file_is_noticed(tmp_path: Path) -> None:
    """A cut at the end of a line once lost the facts after it silently."""
    path = tmp_path / "new.facts"
    whole = written(path, "ann", "bob", "cleo")
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError) as caught:
            EditsFile(path)
        assert "backup" in caught.value.hint
    path.write_bytes(whole[: whole.rindex(b"person(cleo)")])
    with pytest.raises(InputError, match="ends after 2 of 3 added lines"):
        EditsFile(path)
    path.write_bytes(whole)
    assert facts_of(path) == ["person(ann).", "person(bob).", "person(cleo)."]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [*lines[:1], *lines[2:]], "line 2, .* wrong checksum"),
        (lambda lines: [*lines[:1], lines[2], lines[1], lines[3]], "line 2, .* wrong checksum"),
        (lambda lines: [lines[0], lines[1].replace(b"ann", b"amy"), *lines[2:]], "line 2, .* wrong checksum"),
        (lambda lines: [lines[0].replace(b"3 lines", b"2 lines"), *lines[1:]], "the first line has a wrong checksum"),
        (lambda lines: [lines[0].replace(b"lines", b"facts"), *lines[1:]], "the first line is damaged"),
        (lambda lines: [lines[0].replace(b"edits 1", b"edits 2"), *lines[1:]], "has version 2"),
        (lambda lines: [*lines, b"person(dan).\n"], "line 5, .* no checksum"),
        (lambda lines: [*lines[:2], b"person(dan).\n", *lines[2:]], "line 3, .* no checksum"),
    ],
)
def test_any_change_of_a_line_is_noticed(change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "new.facts"
    whole = written(path, "ann", "bob", "cleo")
    path.write_bytes(b"".join(change(whole.splitlines(keepends=True))))
    with pytest.raises(InputError, match=message):
        EditsFile(path)


@pytest.mark.parametrize("later", [b"", b"\0\0\0\n\0", b"person(d"])
@pytest.mark.parametrize("kept", [1.0, 0.5])
def test_an_addition_that_was_interrupted_is_left_out(later: bytes, kept: float, tmp_path: Path) -> None:
    """Its lines may be on disk, but the first line does not confirm them."""
    path = tmp_path / "new.facts"
    before = written(path, "ann", "bob")
    edits = EditsFile(path)
    edits.add([Fact("person", ("cleo",)), Fact("person", ("dan",))])
    added = path.read_bytes()[len(before) :]
    part = added[: int(kept * len(added))]
    path.write_bytes(before + part + (later if part.endswith(b"\n") else b""))
    again = EditsFile(path)
    assert [str(fact) for fact in again.kb.facts()] == ["person(ann).", "person(bob)."]
    assert "was not completed" in again.notes[0]
    again.lock()
    assert path.read_bytes() == before
    again.add([Fact("person", ("eve",))])
    again.close()
    assert facts_of(path) == ["person(ann).", "person(bob).", "person(eve)."]


@pytest.mark.parametrize("fail", range(1, 5))
def test_a_full_disk_takes_an_addition_back(fail: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new.facts"
    before = written(path, "ann")
    edits, calls = EditsFile(path), count(1)
    edits.lock()
    for name in ("pwrite", "fsync"):
        original = getattr(os, name)

        def failing(*arguments: Any, original: Any = original) -> Any:
            if next(calls) == fail:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return original(*arguments)

        monkeypatch.setattr(os, name, failing)
    with pytest.raises(OutputError, match="No space left"):
        edits.add([Fact("person", ("bob",))])
    assert path.read_bytes() == before
    assert len(edits) == 1
    edits.add([Fact("person", ("cleo",))])
    edits.close()
    assert facts_of(path) == ["person(ann).", "person(cleo)."]


def test_a_file_without_checksums_is_read_with_a_note_and_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "new.facts"
    path.write_bytes(b"\xef\xbb\xbf% mine\nperson(ann). parent(ann,\r\n bob).\nperson(ann).\nage(ann) = 5.")
    edits = EditsFile(path)
    assert edits.notes == [f"{path} has no checksums: it is read as it is"]
    kb, before = edits.kb, path.read_bytes()
    assert path.read_bytes() == before, "reading changes nothing"
    edits.lock()
    with pytest.raises(OutputError, match="in use by another server"):
        EditsFile(path).lock()
    edits.add([Fact("person", ("bob",))])
    edits.close()
    again = EditsFile(path)
    assert not again.notes
    assert again.kb == kb.with_facts([Fact("person", ("bob",))])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines[1:] if b"bob" not in line))
    assert "no checksums" in EditsFile(path).notes[0], "a file edited by hand is accepted without its first line"


# The lock


def test_removing_files_beside_it_does_not_let_a_second_server_write(tmp_path: Path) -> None:
    """There was once a lock file: without it, two servers wrote over each other's facts."""
    one = EditsFile(tmp_path / "new.facts")
    one.lock()
    for path in tmp_path.iterdir():
        if path.name != "new.facts":
            path.unlink()
    with pytest.raises(OutputError, match="in use by another server"):
        EditsFile(tmp_path / "new.facts").lock()
    one.close()


@pytest.mark.parametrize("replaced", [True, False])
def test_a_server_does_not_write_over_another_file(replaced: bool, tmp_path: Path) -> None:
    path = tmp_path / "new.facts"
    one = EditsFile(path)
    one.lock()
    one.add([Fact("person", ("ann",))])
    path.unlink()
    if replaced:
        two = EditsFile(path)
        two.add([Fact("person", ("bob",))])
    with pytest.raises(OutputError, match="removed or replaced"):
        one.add([Fact("person", ("cleo",))])
    assert len(one) == 1
    one.close()
    assert (facts_of(path) == ["person(bob)."]) == replaced


def test_a_fact_whose_file_disappears_meanwhile_is_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new.facts"
    one = EditsFile(path)
    one.lock()
    fsync = os.fsync

    def slow_fsync(file: int) -> None:
        path.unlink(missing_ok=True)
        fsync(file)

    monkeypatch.setattr(os, "fsync", slow_fsync)
    with pytest.raises(OutputError, match="removed or replaced"):
        one.add([Fact("person", ("ann",))])
    assert len(one) == 0
    one.close()


def test_a_file_that_another_program_appends_to_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "new.facts"
    edits = EditsFile(path)
    edits.lock()
    with path.open("a") as file:
        file.write("person(ann).\n")
    with pytest.raises(OutputError, match="changed by another program"):
        edits.add([Fact("person", ("bob",))])
    edits.close()
    assert b"person(ann)" in path.read_bytes()


def locked_at_once(path: Path, number: int) -> tuple[list[EditsFile], list[str]]:
    """Let several servers lock a file at the same time; return those that hold it, and the errors of the others."""
    start, held, refused = threading.Barrier(number), list[EditsFile](), list[str]()

    def lock() -> None:
        edits = EditsFile(path)
        start.wait()
        try:
            edits.lock()
            held.append(edits)
        except OutputError as error:
            refused.append(error.message)

    racers = [threading.Thread(target=lock) for _ in range(number)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    return held, refused


def test_servers_that_start_at_once_agree_on_one(tmp_path: Path) -> None:
    """Each would create the file."""
    for trial in range(20):
        held, refused = locked_at_once(tmp_path / f"{trial}.facts", 4)
        assert len(held) == 1, refused
        assert all("in use" in message for message in refused)
        held[0].close()
    assert not list(tmp_path.iterdir()), "files made for nothing are removed"


ADDING = """
import sys
from gaifman.kb.knowledge_base import Fact
from gaifman.server.edits import EditsFile
edits = EditsFile(sys.argv[1])
edits.lock()
for number in range(int(sys.argv[2]), 10**9):
    edits.add([Fact("person", (f"p{number}",)), Fact("person", (f"q{number}",))])
    print(number, flush=True)
"""


def test_a_killed_server_loses_no_confirmed_fact(tmp_path: Path) -> None:
    path, confirmed = tmp_path / "new.facts", -1
    for _ in range(6):
        with child(python("-c", ADDING, str(path), str(confirmed + 1))) as running:
            assert running.stdout
            for _ in range(5):
                confirmed = int(running.stdout.readline())
            running.kill()
            rest = running.stdout.read().split()
            confirmed = int(rest[-1]) if rest else confirmed
        names = {int(name[1:]) for name in EditsFile(path).kb.objects}
        assert set(range(confirmed + 1)) <= names
        assert len(EditsFile(path)) == 2 * len(names), "each addition is there as a whole"
        confirmed = max(names)
