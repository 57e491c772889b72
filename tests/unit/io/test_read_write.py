"""Round trips of reading and writing, detection of formats, and atomic writes."""

from __future__ import annotations

import gzip
import random
import stat
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaifman.errors import InputError, OutputError
from gaifman.io import READ_FORMATS, detect_format, read, write
from gaifman.io.files import InputFile
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from kbs import HOSTILE, knowledge_bases, names, plain_names

FAMILY = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo")])
NOTHING = "3 objects without facts, such as ann; 1 relation or attributes without facts, such as parent"
TABBED = names.filter(lambda name: not set("\t\n") & set(name) and not name.endswith("\r"))


def back(kb: KnowledgeBase, path: Path, **how: str) -> KnowledgeBase:
    write(kb, path)
    found = read(path, **how)  # type: ignore[arg-type]
    path.unlink()
    return found


def listed(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


# What goes out comes back


@given(knowledge_bases())
@settings(max_examples=40)
def test_facts_files_hold_facts_confidences_and_values(tmp_path_factory, kb: KnowledgeBase) -> None:  # type: ignore[no-untyped-def]
    assert back(kb, tmp_path_factory.mktemp("io", numbered=True) / "kb.facts") == kb


@given(kb=knowledge_bases(attributes=False, smallest_arity=2, largest_arity=2, names=TABBED))
@settings(max_examples=40)
def test_triples_hold_binary_facts_and_confidences(tmp_path_factory, kb: KnowledgeBase) -> None:  # type: ignore[no-untyped-def]
    kb = kb.with_facts([("p", "x", "y")]) if "p" not in kb.relations else kb
    assert back(kb, tmp_path_factory.mktemp("io") / "kb.tsv") == _without_empty(kb)


@given(kb=knowledge_bases(attributes=False, names=TABBED))
@settings(max_examples=40)
def test_tables_hold_facts_of_any_arity(tmp_path_factory, kb: KnowledgeBase) -> None:  # type: ignore[no-untyped-def]
    assert back(kb, tmp_path_factory.mktemp("io") / "kb.tsv.gz") == kb


@given(kb=knowledge_bases(attributes=False))
@settings(max_examples=40)
def test_csv_holds_any_name(tmp_path_factory, kb: KnowledgeBase) -> None:  # type: ignore[no-untyped-def]
    assert back(kb, tmp_path_factory.mktemp("io") / "kb.csv") == kb


@given(kb=knowledge_bases())
@settings(max_examples=25)
def test_parquet_holds_facts_confidences_and_values(tmp_path_factory, kb: KnowledgeBase) -> None:  # type: ignore[no-untyped-def]
    assert back(kb, tmp_path_factory.mktemp("io") / "kb.parquet") == kb


@given(kb=knowledge_bases(isolated=True))
@settings(max_examples=25)
def test_duckdb_holds_everything(tmp_path_factory, kb: KnowledgeBase) -> None:  # type: ignore[no-untyped-def]
    assert back(kb, tmp_path_factory.mktemp("io") / "kb.duckdb") == kb


def _without_empty(kb: KnowledgeBase) -> KnowledgeBase:
    return KnowledgeBase.from_facts(kb.facts())


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("end", [".facts", ".csv"])
def test_each_hostile_name_survives(tmp_path: Path, name: str, end: str) -> None:
    kb = KnowledgeBase.from_facts([(name, name, "x"), (name, "x", name)])
    assert back(kb, tmp_path / f"kb{end}") == kb


def test_all_hostile_names_survive_databases(tmp_path: Path) -> None:
    kb = KnowledgeBase.from_facts([(name, name, "x") for name in HOSTILE], {("v", name): 1.5 for name in HOSTILE})
    assert back(kb, tmp_path / "kb.duckdb") == back(kb, tmp_path / "kb.parquet") == kb


@pytest.mark.parametrize("end", [".facts", ".tsv", ".csv", ".parquet", ".duckdb"])
def test_an_empty_knowledge_base_comes_back(tmp_path: Path, end: str) -> None:
    kb = KnowledgeBase.from_facts([])
    assert back(kb, tmp_path / f"kb{end}") == kb


def test_wide_facts_come_back_from_every_format(tmp_path: Path) -> None:
    kb = KnowledgeBase.from_facts([("p", *"abcdefgh"), ("q", "a"), Fact("r", ("a", "b", "c"), 0.25)])
    for end in (".facts", ".tsv", ".csv", ".parquet", ".duckdb", ".tsv.gz", ".facts.gz"):
        assert back(kb, tmp_path / f"kb{end}") == kb, end


# The order of a file, its packing and its line ends change nothing


@given(knowledge_bases(attributes=False, smallest_arity=2, largest_arity=2, names=plain_names), st.randoms())
@settings(max_examples=30)
def test_order_gzip_and_crlf_change_nothing(tmp_path_factory, kb: KnowledgeBase, order: random.Random) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("io")
    write(kb, folder / "kb.facts")
    lines = (folder / "kb.facts").read_bytes().splitlines()
    order.shuffle(lines)
    shuffled = folder / "shuffled.facts"
    for text in (b"\n".join(lines), b"\r\n".join(lines), b"\xef\xbb\xbf" + b"\n\n".join(lines) + b"\n"):
        shuffled.write_bytes(text)
        assert read(shuffled) == kb
        shuffled.write_bytes(gzip.compress(text))
        assert read(shuffled) == kb


def test_several_files_make_one(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("ann\tparent\tbob\n")
    (tmp_path / "b.tsv").write_text("ann\tage\t80\n")
    (tmp_path / "c.tsv").write_text("ann\tperson\n")
    (tmp_path / "d.facts").write_text("gave(ann, book, bob).")
    kb = read(*(tmp_path / f"{name}" for name in ("a.tsv", "b.tsv", "c.tsv", "d.facts")))
    assert kb == KnowledgeBase.from_facts(
        [("parent", "ann", "bob"), ("person", "ann"), ("gave", "ann", "book", "bob")], {("age", "ann"): 80}
    )
    assert [note.text for note in kb.notes] == [
        "files read as triples",
        "files read as attributes",
        "files read as types",
        "files read as facts",
    ]
    assert kb.notes[0].example == str(tmp_path / "a.tsv")


def test_a_relation_has_one_arity_in_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("ann\tparent\tbob\n")
    (tmp_path / "b.facts").write_text("% more\nparent(ann, bob, cleo).")
    with pytest.raises(InputError) as caught:
        read(tmp_path / "a.tsv", tmp_path / "b.facts")
    error = caught.value
    assert error.message == "parent has 2 arguments, not 3"
    assert error.location
    assert (error.location.line, error.location.column, error.location.width) == (2, 1, 6)
    assert error.hint == f"its first fact is in {tmp_path / 'a.tsv'}, line 1, column 5"


# Formats are guessed, and can be said


@pytest.mark.parametrize(
    ("name", "text", "format"),
    [
        ("x.tsv", "a\tr\tb\n", "triples"),
        ("x.txt", "a\tr\tb\t0.5\n", "triples"),
        ("x", "a\tr\tb\tc\n", "nary"),
        ("x", "r\ta\tb\nq\tc\nr\td\te\n", "nary"),
        ("x", "r\ta\tb\tc\td\n", "nary"),
        ("x", "a\tt\n", "types"),
        ("x", "a\tsize\t3.5\nb\tsize\t-1e3\n", "attributes"),
        ("x", "1\tr\t2\n3\tr\t4\n", "triples"),
        ("x", "a\tr\tb\t1000\n", "nary"),
        ("x.csv", "a,r,b\n", "triples"),
        ("x.csv", "a;r;b\n", "triples"),
        ("x", "a,r,b\n", "triples"),
        ("x", "subject\tpredicate\tobject\na\tr\t5\n", "triples"),
        ("x", "Relation\tArg1\na\tr\n", "nary"),
        ("x", "object\ttype\na\tt\n", "types"),
        ("x", "entity,attribute,value\na,v,1\n", "attributes"),
        ("x", "p(a, b).\n", "facts"),
        ("x", "0.9::p(a).\n", "facts"),
        ("x.nt", "<http://a> <http://b> <http://c> .\n", "ntriples"),
        ("x", "<http://a> <http://b> <http://c> .\n", "ntriples"),
        ("x", "@prefix a: <http://a/> .\na:b a:c a:d .\n", "turtle"),
        ("x.ttl", "<http://a> <http://b> <http://c> .\n", "turtle"),
    ],
)
def test_the_format_is_detected_by_name_and_content(tmp_path: Path, name: str, text: str, format: str) -> None:  # noqa: A002
    (tmp_path / name).write_text(text)
    assert f"files read as {format}" in [note.text for note in read(tmp_path / name).notes]
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    assert read(tmp_path / f"{name}.gz") == read(tmp_path / name)


def test_databases_are_known_by_content(tmp_path: Path) -> None:
    write(FAMILY, tmp_path / "a.duckdb")
    write(FAMILY, tmp_path / "a.parquet")
    for kind in ("duckdb", "parquet"):
        (tmp_path / f"a.{kind}").rename(tmp_path / f"{kind}.tsv")
        assert detect_format(InputFile.from_path(tmp_path / f"{kind}.tsv")) == kind
        assert read(tmp_path / f"{kind}.tsv") == FAMILY


def test_a_given_format_is_used(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a\tb\n")
    assert read(path).types("a") == ("b",)
    assert read(path, format="nary").types("b") == ("a",)
    path.write_text("a\tr\t5\n")
    assert ("r", "a", "5") in read(path, format="triples")
    path.write_text("a\tr\tb\t0.5\n")
    assert next(read(path, format="triples").facts()).confidence == 0.5
    with pytest.raises(InputError, match="expected 2 columns"):
        read(path, format="types")


def test_an_unknown_format_is_an_error_with_suggestions(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path / "x", format="tripels")
    assert caught.value.suggestions[0] == "triples"
    assert all(name in caught.value.hint for name in READ_FORMATS)
    with pytest.raises(OutputError, match="there is no format trig"):
        write(FAMILY, tmp_path / "x", format="trig")


# Files that are not there


def test_a_missing_file_is_an_error_with_suggestions(tmp_path: Path) -> None:
    (tmp_path / "family.tsv").write_text("")
    with pytest.raises(InputError) as caught:
        read(tmp_path / "famly.tsv")
    assert "there is no file" in caught.value.message
    assert caught.value.suggestions == ("family.tsv",)
    with pytest.raises(InputError, match="there is no folder"):
        read(tmp_path / "nowhere" / "x.tsv")
    with pytest.raises(InputError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(InputError, match="nothing to read"):
        read()


def test_a_table_of_a_text_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tr\tb\n")
    with pytest.raises(InputError, match="is not a database"):
        read(tmp_path / "x.tsv", table="t")


def test_progress_is_reported_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tr\tb\n" * 10)
    told: list[tuple[str, int, int | None]] = []
    read(tmp_path / "x.tsv", progress=lambda *news: told.append(news))
    assert told == [("reading x.tsv", 60, 60)]


# Nothing is lost unsaid, and nothing is half-written


@pytest.mark.parametrize(
    ("kb", "name", "lost"),
    [
        (KnowledgeBase.from_facts([("p", "a", "b")], objects=["z"]), "x.facts", "1 object without facts, such as z"),
        (FAMILY.without_facts(list(FAMILY.facts())), "x.tsv", NOTHING),
        (KnowledgeBase.from_facts([("p", "a", "b")], {("v", "a"): 1}), "x.csv", "1 value of attributes"),
        (KnowledgeBase.from_facts([("p", "a\tb", "b")]), "x.tsv", "1 name with a tab or newline, such as a\\tb"),
        (KnowledgeBase.from_facts([("p", "a")], objects=["z"]), "x.parquet", "1 object without facts, such as z"),
    ],
)
def test_what_a_format_cannot_hold_is_an_error(tmp_path: Path, kb: KnowledgeBase, name: str, lost: str) -> None:
    with pytest.raises(OutputError) as caught:
        write(kb, tmp_path / name)
    assert caught.value.message == f"{tmp_path / name} cannot hold {lost}"
    assert ".duckdb" in caught.value.hint
    assert listed(tmp_path) == []
    write(kb, tmp_path / name, lossy=True)
    assert len(read(tmp_path / name)) <= len(kb)


def test_triples_skip_other_facts_only_if_lossy(tmp_path: Path) -> None:
    kb = KnowledgeBase.from_facts([("p", "a", "b"), ("q", "a")])
    with pytest.raises(OutputError, match="1 fact of relations that are not binary"):
        write(kb, tmp_path / "x.tsv", format="triples")
    write(kb, tmp_path / "x.tsv", format="triples", lossy=True)
    assert (tmp_path / "x.tsv").read_text() == "a\tp\tb\n"


def test_a_header_is_written_only_where_it_is_needed(tmp_path: Path) -> None:
    write(FAMILY, tmp_path / "x.tsv")
    assert (tmp_path / "x.tsv").read_text() == "ann\tparent\tbob\nbob\tparent\tcleo\n"
    write(KnowledgeBase.from_facts([("age", "ann", "80")]), tmp_path / "x.tsv")
    assert (tmp_path / "x.tsv").read_text() == "head\trelation\ttail\nann\tage\t80\n"
    write(KnowledgeBase.from_facts([("person", "ann"), Fact("person", ("bob",), 0.5)]), tmp_path / "x.tsv")
    assert (tmp_path / "x.tsv").read_text().startswith("relation\tconfidence\targ1\nperson\t1.0\tann\n")


def test_an_unknown_suffix_is_an_error(tmp_path: Path) -> None:
    for name in ("x", "x.trig", "x.sqlite"):
        with pytest.raises(OutputError, match="does not determine a format"):
            write(FAMILY, tmp_path / name)
    write(FAMILY, tmp_path / "x", format="facts")
    assert (tmp_path / "x").read_text() == "parent(ann, bob).\nparent(bob, cleo).\n"
    with pytest.raises(OutputError, match="cannot be compressed"):
        write(FAMILY, tmp_path / "x.duckdb.gz")


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.facts").write_text("old")

    def fail(_: KnowledgeBase) -> list[str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gaifman.io.fact_lines", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        write(FAMILY, tmp_path / "x.facts")
    assert listed(tmp_path) == ["x.facts"]
    assert (tmp_path / "x.facts").read_text() == "old"


def test_folders_that_cannot_be_written_are_errors(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="there is no folder"):
        write(FAMILY, tmp_path / "nowhere" / "x.facts")
    with pytest.raises(OutputError, match="is a folder"):
        write(FAMILY, tmp_path, format="facts")


def test_files_are_as_readable_as_any_and_the_same_each_time(tmp_path: Path) -> None:
    write(FAMILY, tmp_path / "x.facts")
    (tmp_path / "other").touch()
    assert stat.S_IMODE((tmp_path / "x.facts").stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)
    write(FAMILY, tmp_path / "a.tsv.gz")
    write(FAMILY, tmp_path / "b.tsv.gz")
    assert (tmp_path / "a.tsv.gz").read_bytes() == (tmp_path / "b.tsv.gz").read_bytes()


def test_a_written_database_replaces_another(tmp_path: Path) -> None:
    write(FAMILY, tmp_path / "x.duckdb")
    write(FAMILY.with_facts([("p", "a")]), tmp_path / "x.duckdb")
    assert ("p", "a") in read(tmp_path / "x.duckdb")
    assert listed(tmp_path) == ["x.duckdb"]


def test_plain_duckdb_opens_our_file(tmp_path: Path) -> None:
    kb = KnowledgeBase.from_facts([Fact("parent", ("ann", "bob"), 0.5), ("person", "ann")], {("age", "ann"): 80})
    write(kb, tmp_path / "x.duckdb")
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as connection:
        facts = connection.execute("SELECT * FROM facts ORDER BY relation").fetchall()
        assert facts == [("parent", ["ann", "bob"], 0.5), ("person", ["ann"], 1.0)]
        assert connection.execute('SELECT * FROM "values"').fetchall() == [("age", "ann", 80.0)]
        about = dict(connection.execute("SELECT key, value FROM gaifman").fetchall())
        assert about["fingerprint"] == kb.fingerprint
        assert connection.execute("SELECT name FROM objects ORDER BY id").fetchall() == [("ann",), ("bob",)]
