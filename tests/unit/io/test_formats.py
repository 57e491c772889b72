"""Formats are detected by content and name, the same way by the reader and the writer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from gaifman.config import DEFAULT_LIMITS
from gaifman.errors import InputError, OutputError
from gaifman.io import read, write
from gaifman.io.files import detect_format_of, file_suffix
from gaifman.io.tabular import detect_delimiter
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from kbs import HOSTILE, knowledge_bases, names

TABBED = names.filter(lambda name: not set("\t\n") & set(name) and not name.endswith("\r"))


@pytest.mark.parametrize(
    ("begin", "end", "form"),
    [
        (b"%foo\tp\tb\n", ".txt", "table"),
        (b"% a comment\np(a).\n", ".txt", "facts"),
        (b"p(a,\tb).\n", ".txt", "table"),
        (b"# a comment\n\n  # another\np(a).\n", ".txt", "facts"),
        (b"# a comment\n<http://a> <http://b> <http://c> .\n", ".txt", "ntriples"),
        (b"# a comment\n@prefix a: <http://a/> .\n", "", "turtle"),
        (b"\xef\xbb\xbf# a comment\np(a).\n", "", "facts"),
        (b"#ann\tparent\tbob\n", ".txt", "table"),
        (b"<http://a>\t<http://b>\t<http://c>\t.\n", ".txt", "ntriples"),
        (b"<http://a>\t<http://b>\t<http://c>\n", ".txt", "table"),
        (b"PAR1\tbinds\tPAR2\n", ".tsv", "table"),
        (b"PAR1\tbinds\tPAR2\n", "", "table"),
        (b"goldfishDUCK\tis\tx\n", ".tsv", "table"),
        (b"12345678DUCK\0\0", ".tsv", "duckdb"),
        (b"PAR1\x15\0", ".csv", "parquet"),
        (b"", ".txt", "table"),
    ],
)
def test_formats_are_detected_by_content_and_name(begin: bytes, end: str, form: str) -> None:
    assert detect_format_of(begin, end) == form


@pytest.mark.parametrize(
    ("name", "end"),
    [("a/x.tsv", ".tsv"), ("X.CSV.GZ", ".csv"), ("a.b/x", ""), ("x.tar.ttl", ".ttl"), ("-", ""), (".gz", "")],
)
def test_suffixes(name: str, end: str) -> None:
    assert file_suffix(name) == end


# What we write as a table is read as that table


@pytest.mark.parametrize("name", ["%foo", "<a>", "_:x", "p(a).", "@prefix a: <b", "# x", "0.9::p", "PAR1", *HOSTILE])
@pytest.mark.parametrize("end", [".txt", ".tsv", ".csv"])
def test_any_first_name_comes_back(tmp_path: Path, name: str, end: str) -> None:
    if end != ".csv" and (set("\t\n") & set(name) or name.endswith("\r")):
        return
    for other in ("<b>", "head", "5", name):
        kb = KnowledgeBase.from_facts([("p", name, other), (other, name, "tail .")])
        write(kb, tmp_path / f"x{end}")
        assert read(tmp_path / f"x{end}") == kb


@given(kb=knowledge_bases(attributes=False, names=TABBED))
@settings(max_examples=60)
def test_txt_comes_back(tmp_path_factory, kb: KnowledgeBase) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("io") / "kb.txt"
    write(kb, path)
    assert read(path) == kb


def test_long_rows_do_not_hide_from_the_writer_what_the_reader_sees(tmp_path: Path) -> None:
    # The reader guesses by the rows of the first two megabytes, all of which look like values here.
    facts = [(f"p{'x' * 600_000}", f"a{number}", str(number)) for number in range(9)]
    kb = KnowledgeBase.from_facts([*facts, ("q", "z", "no number")])
    for end in (".tsv", ".csv"):
        if end == ".csv":
            kb = KnowledgeBase.from_facts((r[:100_000], *o) for r, o, _ in kb.facts())
        write(kb, tmp_path / f"x{end}")
        assert read(tmp_path / f"x{end}") == kb


def test_a_table_of_several_widths_always_has_a_header(tmp_path: Path) -> None:
    write(
        KnowledgeBase.from_facts([("gave", "ann", "book", "bob"), ("gave", "cleo", "ball", "bob")]), tmp_path / "x.tsv"
    )
    assert (tmp_path / "x.tsv").read_text().startswith("relation\targ1\targ2\targ3\n")


# The delimiter


@pytest.mark.parametrize(
    ("text", "end", "mark"),
    [
        (b"ann;age;80,5\nbob;age;70,2\n", ".csv", ";"),
        (b"ann,age;x,80\nbob,age,70\n", ".csv", ","),
        (b'"a;\nb";r;c\nd;r;e\n', ".csv", ";"),
        (b'"a\t\nb",r,c\n', ".csv", ","),
        (b'"a;\nb",r,c\nd,r,"e;;;"\n', "", ","),
        (b"a\tb,c\nd\te,f\n", ".csv", ","),
        (b"a\tr\tb\n", ".csv", "\t"),
        (b"p\ta,b\nq\ta,b\tc\n", ".txt", "\t"),
        (b'5" disk\tpart\t3" disk\n', ".tsv", "\t"),
        (b"p,a\nq,a,b\n", ".csv", ","),
        (b'"' + b"x;\n" * 50_000 + b'",r,b\n', ".csv", ","),
        (b"\r\n\na;b;c\r\n", ".csv", ";"),
        (b"word\n", ".csv", ","),
        (b"", ".tsv", "\t"),
    ],
)
def test_the_delimiter_gives_all_rows_equally_many_columns(text: bytes, end: str, mark: str) -> None:
    assert detect_delimiter(text, end) == mark


def test_decimal_commas_are_neither_delimiters_nor_names(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("ann;age;80,5\nbob;age;70,2\n")
    with pytest.raises(InputError, match="the numbers have commas"):
        read(tmp_path / "x.csv")
    kb = read(tmp_path / "x.csv", format="triples")
    assert [str(fact) for fact in kb.facts()] == ["age(ann, '80,5').", "age(bob, '70,2')."]


def test_our_csv_with_a_newline_in_its_first_cell_comes_back(tmp_path: Path) -> None:
    for first in ("a\tb\nc", "a;b\nc", ";\n", "\t\n\t"):
        kb = KnowledgeBase.from_facts([("p", first, "b"), ("q", "x;y", first)])
        write(kb, tmp_path / "x.csv")
        assert read(tmp_path / "x.csv") == kb


# Names that are too long to come back


def test_a_quoted_field_that_is_too_long_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('a,r,b\n"' + "x\n" * 100_000)
    with pytest.raises(InputError, match="a field is longer than 131,072 characters") as caught:
        read(tmp_path / "x.csv")
    assert caught.value.location
    assert caught.value.location.line == 2


@pytest.mark.parametrize(
    ("end", "size"), [(".csv", 131_073), (".tsv", DEFAULT_LIMITS.line), (".facts", DEFAULT_LIMITS.line)]
)
def test_names_too_long_for_a_reader_are_losses(tmp_path: Path, end: str, size: int) -> None:
    kb = KnowledgeBase.from_facts([Fact("p", ("a,b" + "x" * size, "b")), ("p", "a", "b")])
    path = tmp_path / f"x{end}"
    with pytest.raises(OutputError, match="1 fact with names that are too long to be read"):
        write(kb, path)
    write(kb, path, lossy=True)
    assert list(read(path).facts()) == [Fact("p", ("a", "b"))]


def test_the_longest_line_that_is_written_is_read(tmp_path: Path) -> None:
    for size in range(DEFAULT_LIMITS.line - 6, DEFAULT_LIMITS.line + 1):
        kb = KnowledgeBase.from_facts([("p", "é" * (size // 2) + "x" * (size % 2), "b")])
        try:
            write(kb, tmp_path / "x.tsv")
        except OutputError:
            continue
        assert read(tmp_path / "x.tsv") == kb


# Options that are none


@pytest.mark.parametrize("form", ["tsv", "", "Triples"])
def test_unknown_formats_are_our_errors(tmp_path: Path, form: str) -> None:
    (tmp_path / "x.tsv").write_text("a\tp\tb\n")
    with pytest.raises(InputError, match="there is no format"):
        read(tmp_path / "x.tsv", format=form)
    with pytest.raises(OutputError, match="there is no format"):
        write(KnowledgeBase.from_facts([]), tmp_path / "y.tsv", format=form)


def test_an_unknown_iri_style_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.nt").write_text("<http://a> <http://b> <http://c> .\n")
    with pytest.raises(InputError, match="iris must be one of prefixed, full, local, got 'foo'"):
        read(tmp_path / "x.nt", iris="foo")  # type: ignore[arg-type]
