"""Locations of the fields of rows: bytes, texts and quoted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.errors import InputError
from gaifman.io.files import TextBlock
from gaifman.io.tabular import RowBatch, read_csv_rows, split_rows
from gaifman.kb.builder import KnowledgeBaseBuilder

NONE = np.zeros(0, np.int64)


def as_texts(rows: RowBatch) -> RowBatch:
    """The same rows, with all fields decoded."""
    return RowBatch(rows.source, list(rows.fields), rows.widths, rows.lines, rows.delimiter)


cells = st.sampled_from(["a", "é", "漢字", "a longer one", "x" * 20])
tables = st.lists(st.lists(cells, min_size=1, max_size=4), min_size=1, max_size=8)


@given(tables)
def test_every_field_has_its_location(table: list[list[str]]) -> None:
    text = "".join("\t".join(row) + "\n" for row in table)
    rows = split_rows(TextBlock("x", 1, text.encode()), "\t")
    for number, row in enumerate(table):
        for field, cell in enumerate(row):
            for place in (rows.location(number, field), as_texts(rows).location(number, field)):
                line = text.split("\n")[place.line - 1]
                assert line[place.column - 1 : place.column - 1 + place.width] == cell
                assert place.text == line
        end = rows.location(number, len(row))
        assert (end.column, end.width) == (len("\t".join(row)) + 2, 1)


@given(tables, st.integers(0, 3))
def test_the_tail_of_rows_is_the_rest_of_them(table: list[list[str]], first: int) -> None:
    rows = split_rows(TextBlock("x", 1, "".join("\t".join(row) + "\n" for row in table).encode()), "\t")
    for kind in (rows, as_texts(rows)):
        tail = kind.tail(first)
        assert [tail.row(number) for number in range(len(tail))] == table[first:]
        assert tail.lines.tolist() == rows.lines[first:].tolist()
        assert list(tail.fields) == [cell for row in table[first:] for cell in row]


@given(tables)
def test_bytes_and_texts_get_the_same_numbers(table: list[list[str]]) -> None:
    rows = split_rows(TextBlock("x", 1, "".join("\t".join(row) + "\n" for row in table).encode()), "\t")
    found = [kind.encode_names(KnowledgeBaseBuilder(), NONE, NONE).tolist() for kind in (rows, as_texts(rows))]
    assert found[0] == found[1]


def test_a_skipped_field_gets_the_number_of_its_replacement() -> None:
    rows = split_rows(TextBlock("x", 1, b"a\t0.5\nb\t0.7\n"), "\t")
    for kind in (rows, as_texts(rows)):
        assert kind.encode_names(KnowledgeBaseBuilder(), np.array([1, 3]), np.array([0, 2])).tolist() == [0, 0, 1, 1]
        assert kind.fields_at(np.array([1, 3])) == ["0.5", "0.7"]
        assert kind.fields == ["a", "0.5", "b", "0.7"]


@pytest.mark.parametrize(
    ("row", "field", "line", "column", "width"),
    [(0, 0, 5, 1, 3), (0, 1, 5, 5, 8), (1, 0, 6, 1, 6), (1, 1, 7, 5, 3), (2, 0, 8, 1, 1), (2, 1, 8, 3, 1)],
)
def test_locations_of_quoted_fields(row: int, field: int, line: int, column: int, width: int) -> None:
    text = b'"a",""",b"""\n"x\n y",\'z\'\na,b\n'
    place = next(read_csv_rows(iter([TextBlock("x", 5, text)]), ",")).location(row, field)
    assert (place.line, place.column, place.width) == (line, column, width)


def test_quotes_may_begin_in_a_later_block_and_end_in_the_next() -> None:
    parts = [b"a,b\n", b'"c\n', b'd",e\n', b"f,g\n"]
    found = []
    line = 1
    blocks = []
    for part in parts:
        blocks.append(TextBlock("x", line, part))
        line += part.count(b"\n")
    for rows in read_csv_rows(iter(blocks), ","):
        found += [(int(rows.lines[number]), rows.row(number)) for number in range(len(rows))]
    assert found == [(1, ["a", "b"]), (2, ["c\nd", "e"]), (4, ["f", "g"])]


def test_bytes_that_are_not_text_are_refused_with_their_location() -> None:
    rows = split_rows(TextBlock("x", 3, b"a\tb\nc\t\xff\n"), "\t")
    for ask in (
        lambda: rows.encode_names(KnowledgeBaseBuilder(), NONE, NONE),
        lambda: rows.fields,
        lambda: rows.fields_at(np.array([3])),
    ):
        with pytest.raises(InputError) as caught:
            ask()
        assert caught.value.location
        assert (caught.value.location.line, caught.value.location.column) == (4, 3)
