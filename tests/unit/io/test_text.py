"""Text tables: the fast reader equals a plain one, and every bad input is one error with its location."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaifman.config import Limits
from gaifman.errors import GaifmanError, InputError
from gaifman.io import read
from gaifman.io.files import InputFile, TextBlock, read_blocks
from gaifman.io.tabular import parse_header, read_csv_rows, read_table, split_rows
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.knowledge_base import KnowledgeBase
from kbs import TAME

# The fast reader is the plain one


def plain_twin(text: str) -> list[tuple[int, list[str]]]:
    """The rows of a tab-separated text, by definition; without newlines, carriage returns end the lines."""
    rows = []
    text = text if "\n" in text else text.replace("\r", "\n")
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        fields = line.removesuffix("\r").split("\t")
        if fields != [""]:
            rows.append((number, fields))
    return rows


texts = st.text(st.sampled_from("ab é漢\t\t\n\n\r\u2028🜁"), max_size=60)


@given(texts, st.integers(1, 40))
def test_rows_of_blocks_are_those_of_the_plain_reader(tmp_path_factory, text: str, size: int) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("io") / "x.tsv"
    path.write_bytes(text.encode())
    found = []
    for block in read_blocks(InputFile.from_path(path), Limits(), size=size):
        rows = split_rows(block, "\t")
        found += [(int(rows.lines[number]), rows.row(number)) for number in range(len(rows))]
        assert rows.fields == [field for number in range(len(rows)) for field in rows.row(number)]
    assert found == plain_twin(text)


triples = st.lists(st.tuples(*[st.sampled_from([*TAME, "é漢", "a longer name", "🜁" * 9])] * 3), min_size=1, max_size=30)


@given(triples, st.sampled_from(["\n", "\r\n", "\n\n"]), st.integers(5, 200))
@settings(max_examples=60)
def test_triples_are_those_of_the_plain_reader(tmp_path_factory, rows, end: str, size: int) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("io") / "x.tsv"
    path.write_bytes("".join("\t".join(row) + end for row in rows).encode())
    expected = KnowledgeBase.from_facts([(relation, head, tail) for head, relation, tail in rows])
    assert read(path, format="triples") == expected
    builder = KnowledgeBaseBuilder()
    read_table(read_blocks(InputFile.from_path(path), Limits(), size=size), ".tsv", "triples", builder)
    found = builder.build()
    assert found == expected
    assert sum(note.count for note in found.notes) == len(rows) - len(expected)


@given(
    st.lists(st.lists(st.sampled_from(["a", 'b"', "c,d", "e\nf", "", "g\r\nh"]), min_size=2, max_size=4), max_size=9)
)
def test_quoted_csv(rows: list[list[str]]) -> None:
    text = "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\r\n" for row in rows)
    data = [TextBlock("x.csv", 1, line.encode()) for line in [text] if line]
    found = [part.row(number) for part in read_csv_rows(iter(data), ",") for number in range(len(part))]
    assert found == rows


# Bad input: one error with file, line, column and text


def refused(tmp_path: Path, text: bytes, name: str = "x.tsv", **how: object) -> InputError:
    path = tmp_path / name
    path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        read(path, **how)  # type: ignore[arg-type]
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert str(path) in str(caught.value)
    return caught.value


GOOD = b"ann\tparent\tbob\n"


@pytest.mark.parametrize(
    ("text", "message", "line", "column", "width"),
    [
        (GOOD + b"ann\tparent\n", "expected 3 columns (head, relation, tail), got 2", 2, 5, 6),
        (GOOD * 1200 + b"a\tb\tc\td\te\n", "expected 3 columns (head, relation, tail), got 5", 1201, 7, 1),
        (GOOD + b"ann\t\tbob\n", "a name cannot be empty", 2, 5, 1),
        (GOOD + b"\tparent\tbob\n", "a name cannot be empty", 2, 1, 1),
        (GOOD + b"ann\tparent\t\n", "a name cannot be empty", 2, 12, 1),
        (GOOD + b"ann\tpar\xffent\tbob\n", "the byte 0xff is not UTF-8", 2, 8, 1),
        (GOOD + "é\tpar".encode() + b"\0ent\tbob\n", "the file contains a NUL character; it is not text", 2, 6, 1),
        (b"\xff\xfea\0b\0", "the file is UTF-16, not UTF-8", 1, 1, 1),
        (b"\n\nword\n", "one column, but facts need at least two", 3, 1, 4),
        (b"a\tr\tb\t0.5\na\tr\tc\t1.5\n", "a confidence must be above 0 and at most 1", 2, 7, 3),
        (b"a\tr\tb\t0.5\na\tr\tc\t0\n", "a confidence must be above 0 and at most 1", 2, 7, 1),
        (b"a\tr\tb\t0.5\na\tr\tc\tnan\n", "not a finite number: 'nan'", 2, 7, 3),
        (b"a\tr\tb\t0.5\n" * 1001 + b"a\tr\tc\tsure\n", "not a finite number: 'sure'", 1002, 7, 4),
        (b"a\tr\tb\t0.5\n" * 1001 + b"a\tr\tc\t1_0\n", "not a finite number: '1_0'", 1002, 7, 3),
        (b"a\tv\t1\n" * 1001 + b"a\tv\t1e999\n", "not a finite number: '1e999'", 1002, 5, 5),
        (b"a\tv\t1\n" * 1001 + b"a\tv\t\xff\n", "the byte 0xff is not UTF-8", 1002, 5, 1),
        (b"r\ta\tb\nr\ta\n", "expected 3 columns (head, relation, tail), got 2", 2, 3, 1),
        (b"a\tr\tb\t0.5\na\tr\tc\t-0.5\n", "a confidence must be above 0 and at most 1", 2, 7, 4),
        (b"a\tr\tb\t0.5\na\tr\tc\tinf\n", "not a finite number: 'inf'", 2, 7, 3),
        (b"a\tr\tb\t3\na\tr\tc\t7\n", "a confidence must be above 0 and at most 1", 1, 7, 1),
        (b"r\ta\n" * 1001 + b"q\n" + b"r\ta\n", "expected 2 columns (object, type), got 1", 1002, 1, 1),
        (b"r\ta\nq\ta\tb\tc\td\te\tf\tg\th\ti\n", "expected 2 to 9 columns (relation, objects), got 10", 2, 19, 1),
    ],
)
def test_bad_lines(tmp_path: Path, text: bytes, message: str, line: int, column: int, width: int) -> None:
    error = refused(tmp_path, text)
    assert message in error.message
    assert error.location
    assert (error.location.line, error.location.column, error.location.width) == (line, column, width)


def test_the_offending_text_is_shown_shortened(tmp_path: Path) -> None:
    error = refused(tmp_path, GOOD + b"x" * 500 + b"\t\t" + b"y" * 500 + b"\n")
    shown = str(error).splitlines()[1]
    assert len(shown) < 90
    assert "x\\t\\ty" in shown


def test_a_location_after_blank_lines_and_crlf_is_right(tmp_path: Path) -> None:
    error = refused(tmp_path, b"\xef\xbb\xbfann\tparent\tbob\r\n\r\n\r\nann\tparent\t\r\n")
    assert error.location
    assert (error.location.line, error.location.column, error.location.text) == (4, 12, "ann\tparent\t")


def test_a_second_arity_is_an_error_with_the_location_of_the_first(tmp_path: Path) -> None:
    error = refused(tmp_path, b"q\ta\nr\ta\tb\nr\ta\n", format="nary")
    assert error.message == "r has 2 arguments, not 1"
    assert error.location
    assert error.location.line == 3
    assert error.hint.endswith("x.tsv, line 2, column 1")
    error = refused(tmp_path, b"r\ta\n" * 1001 + b"q\ta\tb\nr\ta\tb\nr\ta\n", format="nary")
    assert error.hint.endswith("x.tsv, line 1, column 1")


def test_a_type_cannot_be_an_attribute(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("ann\tage\n")
    (tmp_path / "v.tsv").write_text("bob\tage\t5\n")
    for first, second in (("t", "v"), ("v", "t")):
        with pytest.raises(InputError) as caught:
            read(tmp_path / f"{first}.tsv", tmp_path / f"{second}.tsv")
        assert caught.value.message == "age cannot be both a type and an attribute"
        assert f"{first}.tsv, line 1, column 5" in caught.value.hint


def test_a_long_line_is_refused_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "long.tsv"
    with path.open("wb") as file:
        file.write(GOOD)
        file.seek(100_000_000)
        file.write(b"\n")
    told: list[int] = []
    with pytest.raises(InputError) as caught:
        read(path, progress=lambda _phase, done, _total: told.append(done))
    assert "NUL" in caught.value.message or "longer than" in caught.value.message
    assert max(told, default=0) < 10_000_000


@pytest.mark.parametrize("name", ["x.tsv", "x.facts", "x.nt", "x.csv"])
def test_a_100_mb_line_is_refused_in_every_text_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(10):
            file.write(b"x" * 10_000_000)
    error = refused(tmp_path, path.read_bytes(), f"{name}.gz")
    assert error.message == "the line is longer than 1,048,576 bytes"
    assert error.location
    assert (error.location.line, error.location.column) == (1, 1)
    assert len(str(error)) < 500


def test_the_limit_of_a_line_is_a_setting(tmp_path: Path) -> None:
    text = GOOD + b"a" * 30 + b"\tr\tb\n" + GOOD
    error = refused(tmp_path, text, limits=Limits(line=33))
    assert error.location
    assert error.location.line == 2
    assert len(read(tmp_path / "x.tsv", limits=Limits(line=34))) == 2


# Damaged packing


def test_a_cut_gzip_file_is_a_clear_error(tmp_path: Path) -> None:
    whole = gzip.compress(os.urandom(5000) + GOOD)
    error = refused(tmp_path, whole[:-2000], "x.tsv.gz")
    assert "is truncated: the gzip data has no end" in error.message


def test_a_damaged_gzip_file_is_a_clear_error(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(GOOD * 1000))
    whole[30] ^= 0xFF
    error = refused(tmp_path, bytes(whole), "x.tsv.gz")
    assert "is damaged" in error.message or "cannot be read" in error.message


def test_two_gzip_members_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "x.tsv.gz").write_bytes(gzip.compress(GOOD) + gzip.compress(b"bob\tparent\tcleo\n"))
    assert len(read(tmp_path / "x.tsv.gz")) == 2


# Reading goes on, and counts


def test_repeated_facts_are_counted(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_bytes(GOOD * 3 + b"bob\tparent\tann\n")
    kb = read(tmp_path / "x.tsv")
    assert len(kb) == 2
    assert [(note.count, note.text, note.example) for note in kb.notes][1:] == [
        (2, "repeated facts, kept once", "parent(ann, bob).")
    ]


def test_the_largest_of_several_values_is_kept_and_counted(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tv\t1\na\tv\t3\na\tv\t2\n")
    kb = read(tmp_path / "x.tsv")
    assert kb.value("v", "a") == 3
    assert kb.notes[1].count == 2


def test_names_with_spaces_around_are_kept_and_counted(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(" ann\tparent\tbob \nbob \tparent\tcleo\n")
    kb = read(tmp_path / "x.tsv")
    assert " ann" in kb.objects
    assert [(note.count, note.text) for note in kb.notes] == [
        (2, "names that begin or end with a space"),
        (1, "files read as triples"),
    ]


@pytest.mark.parametrize("text", [b"", b"\n", b"\r\n\n", b"\xef\xbb\xbf", b"head\trelation\ttail\n"])
def test_a_file_without_facts_is_an_empty_knowledge_base(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "x.tsv").write_bytes(text)
    assert read(tmp_path / "x.tsv") == KnowledgeBase.from_facts([])


# Headers


@pytest.mark.parametrize(
    ("row", "format", "objects", "number"),
    [
        ("head relation tail", "triples", (0, 2), None),
        ("tail relation head", "triples", (2, 0), None),
        ("Subject Predicate Object Weight", "triples", (0, 2), 3),
        ("confidence source relation target", "triples", (1, 3), 0),
        ("object type", "types", (0,), None),
        ("class entity", "types", (1,), None),
        ("object attribute value", "attributes", (0,), 2),
        ("relation arg1 arg2 arg3", "nary", None, None),
        ("relation confidence a1 a2", "nary", None, 1),
        ("ann parent bob", None, None, None),
        ("head head head", None, None, None),
        ("relation arg2 arg1", "nary", (2, 1), None),
        ("arg1 relation arg2", "nary", (0, 2), None),
        ("relation arg1 arg2 confidence", "nary", (1, 2), 3),
        ("Score A_2 Predicate A_1", "nary", (3, 1), 0),
        ("h r t", "triples", (0, 2), None),
        ("O P S", "triples", (2, 0), None),
        ("h r t score", "triples", (0, 2), 3),
        ("src rel dst", "triples", (0, 2), None),
        ("subj pred obj", "triples", (0, 2), None),
        ("h p o", None, None, None),
        ("relation arg1 arg3", None, None, None),
        ("relation a1 a2 a3 a4 a5 a6 a7 a8 a9", None, None, None),
    ],
)
def test_headers_are_detected(row: str, format: str | None, objects, number) -> None:  # type: ignore[no-untyped-def]  # noqa: A002
    found = parse_header(row.split())
    assert (found and found.format) == format
    if found:
        assert (found.objects, found.number_column, found.header) == (objects, number, True)


def test_columns_in_another_order_are_read_by_their_header(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("weight\ttail\trelation\thead\n0.5\tbob\tparent\tann\n")
    assert [str(fact) for fact in read(tmp_path / "x.tsv").facts()] == ["0.5::parent(ann, bob)."]


# Quoted CSV


def test_locations_in_quoted_csv_count_lines_inside_quotes(tmp_path: Path) -> None:
    text = b'"an\nn",parent,bob\r\n"a ""b""",parent,"c,d"\r\nann,,bob\r\n'
    error = refused(tmp_path, text, "x.csv")
    assert error.message == "a name cannot be empty"
    assert error.location
    assert (error.location.line, error.location.column, error.location.text) == (4, 5, "ann,,bob")
    error = refused(tmp_path, b'a,r,b\n"x\ny","r",""\n', "x.csv")
    assert error.location
    assert (error.location.line, error.location.column) == (3, 8)


@pytest.mark.parametrize("text", [b'a,r,"b\n', b'a,r,"b"c\n'])
def test_invalid_quotation_marks_are_errors(tmp_path: Path, text: bytes) -> None:
    error = refused(tmp_path, text, "x.csv")
    assert error.message.startswith("invalid quotation marks")
    assert error.location


def test_quotes_in_tab_separated_files_are_letters(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text('"ann\tparent\t"bob"\n')
    assert ("parent", '"ann', '"bob"') in read(tmp_path / "x.tsv")


# Nothing but our own errors


def outcome(path: Path) -> str:
    """What a reader makes of a file: its fingerprint, or an error of ours."""
    try:
        return read(path).fingerprint
    except GaifmanError as error:
        return str(error)


@pytest.mark.parametrize("name", ["x.tsv", "x.csv", "x.facts", "x.nt", "x.ttl", "x.tsv.gz", "x"])
def test_damaged_files_raise_only_our_errors(tmp_path: Path, name: str) -> None:
    draw = random.Random(name)
    seeds = {
        ".csv": b'a,"r ""x""",b\nc,r,"d\ne"\n' * 5,
        ".facts": b"0.9::p(a, 'b c').\nq(\"x\\u00e9\") = 3.5.\n% note\np(/m/1, Z).\n" * 4,
        ".nt": b'<http://a/b> <http://a/c> "4.5"^^<http://www.w3.org/2001/XMLSchema#double> .\n_:x <http://a/d> _:y .\n'
        * 3,
        ".ttl": b'@prefix a: <http://a/> .\na:b a a:C ; a:d 4.5, "x"@en, [ a:e a:f ] .\n' * 3,
    }
    text = next((seed for end, seed in seeds.items() if name.endswith(end)), b"ann\tparent\tbob\t0.5\n" * 8)
    whole = gzip.compress(text) if name.endswith(".gz") else text
    path = tmp_path / name
    for _ in range(250):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(damaged))
            match draw.randrange(4):
                case 0:
                    damaged[at] = draw.randrange(256)
                case 1:
                    damaged[at] ^= 1 << draw.randrange(8)
                case 2:
                    del damaged[at : at + draw.randint(1, 9)]
                    damaged = damaged or bytearray(b"x")
                case _:
                    damaged[at:at] = bytes(draw.randrange(256) for _ in range(draw.randint(1, 3)))
        path.write_bytes(damaged)
        assert 0 < len(outcome(path)) < 1500
