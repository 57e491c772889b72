"""Labels of RDF and of label files: which is shown, and what is no label."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gaifman.config import Limits
from gaifman.errors import InputError
from gaifman.io import read, write
from gaifman.kb.knowledge_base import KnowledgeBase

PREFIXES = """@prefix ex: <http://e/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
"""


def turtle(tmp_path: Path, text: str, **how: str) -> KnowledgeBase:
    (tmp_path / "x.ttl").write_text(PREFIXES + "ex:a ex:r ex:b .\n" + text)
    return read(tmp_path / "x.ttl", **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("literals", "language", "label"),
    [
        ('"A"@de, "B"@en', "", "B"),
        ('"A"@de, "B"@en, "C"', "", "C"),
        ('"A"@de, "B"@en-GB', "", "B"),
        ('"A"@fr, "B"@de', "", "B"),
        ('"A"@de, "B"@en, "C"', "de", "A"),
        ('"A"@de-AT, "B"@de, "C"', "de", "B"),
        ('"A"@de-AT, "C"', "DE", "A"),
        ('"A"@it, "B"@fr, "C"', "de,fr", "B"),
        ('"A"@it, "B"@en', "de,fr", "B"),
        ('" New\\n  York "', "", "New York"),
    ],
)
def test_the_language_of_a_label(tmp_path: Path, literals: str, language: str, label: str) -> None:
    kb = turtle(tmp_path, f"ex:a rdfs:label {literals} .", language=language)
    assert kb.labels == {"ex:a": label}


def test_a_preferred_label_comes_before_another_of_its_language(tmp_path: Path) -> None:
    kb = turtle(tmp_path, 'ex:a rdfs:label "B"@en, "D"@de ; skos:prefLabel "A"@en .')
    assert kb.labels == {"ex:a": "A"}
    assert turtle(tmp_path, 'ex:a rdfs:label "B"@en, "D"@de ; skos:prefLabel "A"@en .', language="de").labels == {
        "ex:a": "D"
    }


def test_the_order_of_labels_does_not_matter(tmp_path: Path) -> None:
    labels = [turtle(tmp_path, f"ex:a rdfs:label {order} .").labels for order in ('"A", "B"', '"B", "A"')]
    assert labels == [{"ex:a": "A"}, {"ex:a": "A"}]


def test_labels_make_no_relations_objects_or_attributes(tmp_path: Path) -> None:
    kb = turtle(tmp_path, 'ex:a rdfs:label "A", 5 . ex:r rdfs:label "R" . ex:c rdfs:label "C" . ex:b rdfs:label " " .')
    assert list(kb.relations) == ["ex:r"]
    assert not kb.attributes
    assert list(kb.objects) == ["ex:a", "ex:b"]
    notes = {note.text: note.count for note in kb.notes}
    assert notes["labels of names that are no objects, left out"] == 2
    assert notes["labels without a text skipped"] == 1


def test_a_label_file_comes_before_labels_of_rdf(tmp_path: Path) -> None:
    (tmp_path / "names.tsv").write_text("object\tlabel\thttp\nex:a\tOne\tQ1\n\nhttp://e/b\tTwo\n")
    kb = turtle(tmp_path, 'ex:a rdfs:label "A" .', labels=str(tmp_path / "names.tsv"))
    assert kb.labels == {"ex:a": "One", "ex:b": "Two"}


def test_label_files(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tr\tb\n")
    facts = tmp_path / "x.tsv"
    (tmp_path / "l.csv").write_text('a,"An, A"\nid,label\n')
    assert read(facts, labels=tmp_path / "l.csv").labels == {"a": "An, A"}
    (tmp_path / "l.tsv.gz").write_bytes(gzip.compress(b"a\tA\r\nb\tB\r\n"))
    assert read(facts, labels=tmp_path / "l.tsv.gz").labels == {"a": "A", "b": "B"}
    (tmp_path / "l.nt").write_text(
        '<urn:gaifman:a> <http://www.w3.org/2000/01/rdf-schema#label> "A" .\n<x:a> <x:b> 5 .\n'.replace("5", "<x:c>")
    )
    kb = read(facts, labels=tmp_path / "l.nt")
    assert kb.labels == {"a": "A"}
    assert len(kb) == 1
    assert read(facts, labels={"a": "A", "c": "C"}).labels == {"a": "A"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tA\nb\n", "l.tsv, line 2, column 1: expected an object and its label, with a tab between them\n  b\n  ^"),
        ("a\tA\nb\t \n", "l.tsv, line 2, column 1: the label is empty"),
        ("\tA\n", "l.tsv, line 1, column 1: the object is empty"),
        ("a\tA\na\tB\n", "l.tsv, line 2, column 1: a has a second label"),
        ("a\tA\nb\tB\nc\tC\nd\tD\n", "there are more than 4 facts and values, repeated ones included"),
        ("a\t" + "A" * 200 + "\n", "the line is longer than 100 bytes"),
    ],
)
def test_mistakes_in_a_label_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.tsv").write_text("a\tr\tb\n")
    (tmp_path / "l.tsv").write_text(text)
    with pytest.raises(InputError) as caught:
        read(tmp_path / "x.tsv", labels=tmp_path / "l.tsv", limits=Limits(facts=4, line=100))
    assert message in str(caught.value)


def test_other_mistakes(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tr\tb\n")
    with pytest.raises(InputError, match="'a_b' is not the tag of a language"):
        read(tmp_path / "x.tsv", language="a_b")
    with pytest.raises(InputError, match="there is no file"):
        read(tmp_path / "x.tsv", labels=tmp_path / "none.tsv")
    with pytest.raises(InputError, match="labels must map an object to a text"):
        read(tmp_path / "x.tsv", labels={"a": " "})
    write(KnowledgeBase.from_facts([("r", "a")]), tmp_path / "x.duckdb")
    with pytest.raises(InputError, match="labels are not read from duckdb files"):
        read(tmp_path / "x.tsv", labels=tmp_path / "x.duckdb")


def test_a_database_keeps_labels_and_prefixes(tmp_path: Path) -> None:
    kb = turtle(tmp_path, 'ex:a rdfs:label "A" . ex:b rdfs:label "A" .')
    write(kb, tmp_path / "x.duckdb")
    again = read(tmp_path / "x.duckdb")
    assert (again, again.labels, again.prefixes) == (kb, kb.labels, {"ex": "http://e/"})
    assert len(again.notes) == 1
    full = read(tmp_path / "x.duckdb", iris="full")
    assert list(full.objects) == ["http://e/a", "http://e/b"]
    assert full.labels == {"http://e/a": "A", "http://e/b": "A"}
    (tmp_path / "l.tsv").write_text("ex:a\tOther\n")
    assert read(tmp_path / "x.duckdb", labels=tmp_path / "l.tsv").labels == {"ex:a": "Other", "ex:b": "A"}


def test_a_database_without_labels_has_no_tables_for_them(tmp_path: Path) -> None:
    import duckdb

    write(KnowledgeBase.from_facts([("r", "a")]), tmp_path / "x.duckdb")
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as connection:
        tables = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
    assert not tables & {"labels", "prefixes"}


def test_a_damaged_table_of_labels_is_an_error(tmp_path: Path) -> None:
    import duckdb

    write(KnowledgeBase.from_facts([("r", "a")], labels={"a": "A"}), tmp_path / "x.duckdb")
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("INSERT INTO labels VALUES ('b', '')")
    with pytest.raises(InputError, match="the columns object and label must hold text"):
        read(tmp_path / "x.duckdb")
