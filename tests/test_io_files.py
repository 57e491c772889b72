"""Files in blocks of whole lines, and files that are written whole or not at all."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.config import Limits
from gaifman.errors import InputError, OutputError
from gaifman.io.files import Block, blocks, exists, head, replaced
from kbs import HOSTILE  # noqa: F401  # its settings: a disk may be slow


@given(st.binary(max_size=80).map(lambda data: data.replace(b"\xff", b"\n")), st.integers(1, 30), st.booleans())
def test_blocks_are_the_file_in_whole_lines(tmp_path_factory, data: bytes, size: int, packed: bool) -> None:  # type: ignore[no-untyped-def]
    if data[:2] in (b"\x1f\x8b", b"\xfe\xff") or data[:3] == b"\xef\xbb\xbf":
        return
    path = tmp_path_factory.mktemp("io") / "x"
    path.write_bytes(gzip.compress(data) if packed else data)
    found = list(blocks(path, Limits(), size=size))
    whole = b"".join(block.data for block in found)
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
def test_the_place_of_a_byte_counts_characters(offset: int, line: int, column: int, text: str) -> None:
    place = Block("x", 7, "été\na\tb\r\n".encode()).place(offset)
    assert (place.line, place.column, place.text) == (line, column, text)


def test_only_line_ends_lose_their_carriage_return() -> None:
    block = Block("x", 1, b"a\rb\r\nc\n")
    assert block.plain().data == b"a\rb\nc\n"
    plain = Block("x", 1, b"a\n")
    assert plain.plain() is plain


def test_text_is_checked_for_nul_and_utf_8() -> None:
    assert Block("x", 1, "é\n".encode()).text() == "é\n"
    with pytest.raises(InputError, match="NUL"):
        Block("x", 1, b"a\0\n").text()
    with pytest.raises(InputError, match="0xe9"):
        Block("x", 1, b"a\n\xe9\n").text()


@pytest.mark.parametrize("size", [1, 3, 10, 100])
def test_the_longest_line_is_found_in_any_block(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"short\n" * 3 + b"x" * 21 + b"\nshort\n")
    assert len(b"".join(block.data for block in blocks(path, Limits(line=21), size=size))) == 46
    with pytest.raises(InputError, match="longer than 20 bytes") as caught:
        list(blocks(path, Limits(line=20), size=size))
    assert caught.value.place
    assert (caught.value.place.line, caught.value.place.column) == (4, 1)


def test_the_head_of_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(b"hello, world"))
    assert head(tmp_path / "x", 5) == b"hello"


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").touch()
    exists(tmp_path / "train.tsv")
    with pytest.raises(InputError) as caught:
        exists(tmp_path / "trian.tsv")
    assert caught.value.near == ("train.tsv",)


def write_half(target: Path, failure: Exception) -> None:
    with replaced(target) as temporary:
        temporary.write_text("half")
        raise failure


def test_a_file_takes_its_place_only_when_all_went_well(tmp_path: Path) -> None:
    target = tmp_path / "x"
    with replaced(target) as temporary:
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
    with replaced(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"
