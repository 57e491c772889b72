"""Files in blocks of whole lines, and atomic writes."""

from __future__ import annotations

import gzip
import io
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.config import Limits
from gaifman.errors import ArgumentError, InputError, OutputError
from gaifman.io import read, write
from gaifman.io.files import InputFile, TextBlock, atomic_write, check_exists, check_writable, read_blocks, read_head
from gaifman.kb.knowledge_base import KnowledgeBase
from kbs import HOSTILE  # noqa: F401  # its settings: a disk may be slow


@given(st.binary(max_size=80).map(lambda data: data.replace(b"\xff", b"\n")), st.integers(1, 30), st.booleans())
def test_blocks_are_the_file_in_whole_lines(tmp_path_factory, data: bytes, size: int, packed: bool) -> None:  # type: ignore[no-untyped-def]
    if data[:2] in (b"\x1f\x8b", b"\xfe\xff") or data[:3] == b"\xef\xbb\xbf":
        return
    path = tmp_path_factory.mktemp("io") / "x"
    path.write_bytes(gzip.compress(data) if packed else data)
    found = list(read_blocks(InputFile.from_path(path), Limits(), size=size))
    whole = b"".join(block.data for block in found)
    data = data if b"\n" in data else data.replace(b"\r", b"\n")
    assert whole == data + b"\n" * (bool(data) and not data.endswith(b"\n"))
    assert all(block.data.endswith(b"\n") for block in found)
    line = 1
    for block in found:
        assert block.line == line
        line += block.data.count(b"\n")


@pytest.mark.parametrize(
    ("offset", "line", "column", "text"),
    [(0, 7, 1, "été"), (2, 7, 2, "été"), (3, 7, 3, "été"), (6, 8, 1, "a\tb"), (8, 8, 3, "a\tb")],
)
def test_the_location_of_a_byte_counts_characters(offset: int, line: int, column: int, text: str) -> None:
    place = TextBlock("x", 7, "été\na\tb\r\n".encode()).location(offset)
    assert (place.line, place.column, place.text) == (line, column, text)


def test_only_line_ends_lose_their_carriage_return() -> None:
    block = TextBlock("x", 1, b"a\rb\r\nc\n")
    assert block.normalise_newlines().data == b"a\rb\nc\n"
    plain = TextBlock("x", 1, b"a\n")
    assert plain.normalise_newlines() is plain


def test_text_is_checked_for_nul_and_utf_8() -> None:
    assert TextBlock("x", 1, "é\n".encode()).decode() == "é\n"
    with pytest.raises(InputError, match="NUL"):
        TextBlock("x", 1, b"a\0\n").decode()
    with pytest.raises(InputError, match="0xe9"):
        TextBlock("x", 1, b"a\n\xe9\n").decode()


@pytest.mark.parametrize("size", [1, 3, 10, 100])
def test_the_longest_line_is_found_in_any_block(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"short\n" * 3 + b"x" * 21 + b"\nshort\n")
    assert (
        len(b"".join(block.data for block in read_blocks(InputFile.from_path(path), Limits(line=21), size=size))) == 46
    )
    with pytest.raises(InputError, match="longer than 20 bytes") as caught:
        list(read_blocks(InputFile.from_path(path), Limits(line=20), size=size))
    assert caught.value.location
    assert (caught.value.location.line, caught.value.location.column) == (4, 1)


def test_the_head_of_a_gzip_file_is_decompressed(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(b"hello, world"))
    assert read_head(InputFile.from_path(tmp_path / "x"), 5) == b"hello"


def test_missing_files(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").touch()
    check_exists(tmp_path / "train.tsv")
    with pytest.raises(InputError) as caught:
        check_exists(tmp_path / "trian.tsv")
    assert caught.value.suggestions == ("train.tsv",)


def write_half(target: Path, failure: Exception) -> None:
    with atomic_write(target) as temporary:
        temporary.write_text("half")
        temporary.with_name(temporary.name + ".wal").write_text("log")
        raise failure


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "x"
    with atomic_write(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
        assert temporary.parent == tmp_path
    assert target.read_text() == "new"
    for failure in (KeyError(), OSError(28, "No space left")):
        with pytest.raises((KeyError, OutputError)):
            write_half(target, failure)
    assert target.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_long_names_of_files_have_room_for_the_temporary_one(tmp_path: Path) -> None:
    target = tmp_path / ("x" * 250)
    with atomic_write(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"


# Only regular files are replaced


def test_a_link_stays_a_link_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with atomic_write(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    (tmp_path / "ahead").symlink_to("later")
    with atomic_write(tmp_path / "ahead") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "later").read_text() == "new"


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="is not a regular file"):
        write_half(tmp_path / "pipe", KeyError())
    assert (tmp_path / "pipe").is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "secret"
    target.touch(0o600)
    with atomic_write(target) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
        temporary.write_text("new")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_failed_database_leaves_no_log(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        write_half(tmp_path / "x", KeyError())  # with a log beside it
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a" * 300, "a" * 5000, "a\0b", "a/b/c", "loop"])
def test_invalid_file_names_are_our_errors(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match=r"cannot be written|there is no folder") as caught:
        write_half(tmp_path / name, KeyError())
    assert len(str(caught.value)) < 300
    with pytest.raises(InputError, match=r"cannot be read|there is no f") as refused:
        check_exists(tmp_path / name)
    assert len(str(refused.value)) < 300


def test_an_unreadable_folder_is_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        check_exists(tmp_path / "x")


# Pipes and standard input are read whole


def through_a_pipe(path: Path, data: bytes) -> KnowledgeBase:
    os.mkfifo(path)
    feeder = threading.Thread(target=path.write_bytes, args=(data,))
    feeder.start()
    try:
        return read(path)
    finally:
        feeder.join()


@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_is_read_whole(tmp_path: Path, packed: bool) -> None:
    data = b"".join(b"a%d\tparent\tb\n" % number for number in range(50_000))
    kb = through_a_pipe(tmp_path / "pipe", gzip.compress(data) if packed else data)
    assert len(kb) == 50_000
    assert kb.notes[0].example == str(tmp_path / "pipe")


def test_a_database_comes_through_a_pipe(tmp_path: Path) -> None:
    write(KnowledgeBase.from_facts([("p", "a")]), tmp_path / "x.duckdb")
    assert ("p", "a") in through_a_pipe(tmp_path / "pipe", (tmp_path / "x.duckdb").read_bytes())


def test_an_error_in_a_pipe_names_the_pipe(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        through_a_pipe(tmp_path / "pipe", b"a\tp\tb\na\tp\n")
    assert caught.value.location
    assert (caught.value.location.source, caught.value.location.line) == (str(tmp_path / "pipe"), 2)


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"ann\tparent\tbob\n")))
    kb = read("-")
    assert ("parent", "ann", "bob") in kb
    assert kb.notes[0].example == "standard input"
    with pytest.raises(InputError, match="only once"):
        read("-", "-")
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="no standard input"):
        read("-")


@pytest.mark.parametrize("name", [None, 5, b"x"])
def test_other_types_than_paths_are_refused(name: object) -> None:
    with pytest.raises(ArgumentError, match=f"{name} cannot be read"):
        read(name)
    with pytest.raises(ArgumentError, match="path must be a string or a path"):
        write(KnowledgeBase.from_facts([]), name)  # type: ignore[arg-type]


def test_check_writable_refuses_unwritable_paths(tmp_path: Path) -> None:
    check_writable(tmp_path / "new")
    (tmp_path / "old").touch()
    check_writable(tmp_path / "old")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["old"]
    for path, why in (
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "new", "no folder"),
        (Path("/dev/null"), "regular"),
    ):
        with pytest.raises(OutputError, match=why):
            check_writable(path)
