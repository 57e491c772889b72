"""N-Triples and Turtle: numbers are attributes, rdf:type gives types, and skipped literals are counted."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gaifman.errors import InputError
from gaifman.io import read
from gaifman.io.rdf import IriStyle
from gaifman.kb.knowledge_base import KnowledgeBase

XSD = "http://www.w3.org/2001/XMLSchema#"
PREFIXES = f"@prefix a: <http://a/> .\n@prefix xsd: <{XSD}> .\n"


def turtle(tmp_path: Path, text: str, **how: str) -> KnowledgeBase:
    (tmp_path / "x.ttl").write_text(PREFIXES + text)
    return read(tmp_path / "x.ttl", **{"iris": "full", **how})  # type: ignore[arg-type]


def notes(kb: KnowledgeBase) -> dict[str, int]:
    return {note.text: note.count for note in kb.notes}


def test_triples_types_and_values(tmp_path: Path) -> None:
    kb = turtle(tmp_path, "a:ann a a:Person ; a:parent a:bob ; a:age 80 .")
    assert kb == KnowledgeBase.from_facts(
        [("http://a/Person", "http://a/ann"), ("http://a/parent", "http://a/ann", "http://a/bob")],
        {("http://a/age", "http://a/ann"): 80},
    )
    assert notes(kb) == {"files read as turtle": 1}


def test_n_triples_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "x.nt").write_text(
        "# a comment\n<http://a/ann> <http://a/parent> <http://a/bob> .\n"
        "<http://a/ann> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://a/Person> .\n"
        f'<http://a/ann> <http://a/age> "80"^^<{XSD}integer> .\n'
    )
    assert read(tmp_path / "x.nt") == turtle(tmp_path, "a:ann a a:Person ; a:parent a:bob ; a:age 80 .")
    (tmp_path / "y.nt.gz").write_bytes(gzip.compress((tmp_path / "x.nt").read_bytes()))
    assert read(tmp_path / "y.nt.gz") == read(tmp_path / "x.nt")


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("80", 80),
        ("-8.5", -8.5),
        ("1e3", 1000),
        *((f'"7"^^xsd:{kind}', 7) for kind in ("int", "long", "short", "byte", "float", "unsignedByte")),
        *((f'"7"^^xsd:{kind}', 7) for kind in ("nonNegativeInteger", "positiveInteger", "unsignedLong")),
        ('" 7 "^^xsd:integer', 7),
    ],
)
def test_every_kind_of_number_is_a_value(tmp_path: Path, literal: str, value: float) -> None:
    kb = turtle(tmp_path, f"a:ann a:age {literal} .")
    assert kb.value("http://a/age", "http://a/ann") == value


@pytest.mark.parametrize(
    ("literal", "what"),
    [
        ('"Ann"', "literals of type string skipped"),
        ('"Ann"@en', "literals in language en skipped"),
        ("true", "literals of type boolean skipped"),
        ('"2020-01-01"^^xsd:date', "literals of type date skipped"),
        ('"x"^^a:own', "literals of type http://a/own skipped"),
        ('"NaN"^^xsd:double', "literals without a finite number skipped"),
        ('"INF"^^xsd:float', "literals without a finite number skipped"),
        ('"many"^^xsd:integer', "literals without a finite number skipped"),
    ],
)
def test_other_literals_are_counted(tmp_path: Path, literal: str, what: str) -> None:
    kb = turtle(tmp_path, f"a:ann a:name {literal} ; a:likes a:bob . a:bob a:name {literal} .")
    assert notes(kb)[what] == 2
    assert len(kb) == 1
    example = next(note.example for note in kb.notes if note.text == what)
    assert example


def test_a_property_may_have_objects_and_numbers(tmp_path: Path) -> None:
    kb = turtle(tmp_path, "a:x a:size a:big, 5 .")
    assert ("http://a/size", "http://a/x", "http://a/big") in kb
    assert kb.value("http://a/size", "http://a/x") == 5


def test_several_values_are_counted_and_the_largest_kept(tmp_path: Path) -> None:
    kb = turtle(tmp_path, "a:x a:size 5, 7, 6 .")
    assert kb.value("http://a/size", "http://a/x") == 7
    assert notes(kb)["repeated values of an attribute, the largest kept"] == 2


def test_blank_nodes_have_names_that_do_not_change(tmp_path: Path) -> None:
    text = "_:n a:knows a:bob . a:bob a:owns [ a:in a:town ], [ a:in a:wood ] ."
    kb = turtle(tmp_path, text)
    assert "_:n" in kb.objects
    assert {name for name in kb.objects if name.startswith("_:anon")} == {"_:anon/1", "_:anon/2"}
    assert turtle(tmp_path, text) == kb


def test_blank_nodes_of_several_files_are_different(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / f"{name}.nt").write_text(f"_:n <http://a/in> <http://a/{name}> .\n")
    kb = read(tmp_path / "x.nt", tmp_path / "y.nt")
    assert {"_:n", "_:n#2"} <= set(kb.objects)


def test_local_names(tmp_path: Path) -> None:
    kb = turtle(tmp_path, "a:ann a:parent <http://b/people#bob> . <http://c/> a:parent a:ann .", iris="local")
    assert [str(fact) for fact in kb.facts()] == ["parent(ann, bob).", "parent('http://c/', ann)."]


def test_local_names_that_collide_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        turtle(tmp_path, "a:ann a:parent <http://b#ann> .", iris="local")
    assert "http://a/ann and http://b#ann have the same short name" in caught.value.message
    assert "full" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "text", "line", "column"),
    [
        ("x.nt", "<http://a> <http://b> <http://c> .\n<http://a> <b b> <http://c> .\n", 2, 12),
        ("x.nt", "<http://a> <http://b> .\n", 1, 23),
        ("x.ttl", "@prefix a: <http://a/> .\na:b a:c a:d .\nx:y a:c a:d .\n", 3, 1),
        ("x.ttl", '<http://a> <http://b> "open .\n', 1, 23),
    ],
)
def test_syntax_errors_have_a_location(tmp_path: Path, name: str, text: str, line: int, column: int) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as caught:
        read(tmp_path / name)
    place = caught.value.location
    assert place
    assert (place.source, place.line, place.column) == (str(tmp_path / name), line, column)
    assert place.text == text.splitlines()[line - 1]


@pytest.mark.parametrize(
    "text", [b"<http://a> <http://b\xff> <http://c> .\n", b"<http://a> <http://b\0> <http://c> .\n"]
)
def test_bytes_that_are_not_text_are_errors(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "x.nt").write_bytes(text)
    with pytest.raises(InputError) as caught:
        read(tmp_path / "x.nt")
    assert caught.value.location
    assert (caught.value.location.line, caught.value.location.column) == (1, 21)


def test_a_type_that_is_also_an_attribute_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="both a type and an attribute"):
        turtle(tmp_path, "a:ann a a:age . a:ann a:age 5 .")


def test_more_triples_than_one_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"<http://a/{n}> <http://a/next> <http://a/{n + 1}> .\n" for n in range(50))
    (tmp_path / "x.nt").write_text(text)
    whole = read(tmp_path / "x.nt")
    monkeypatch.setattr("gaifman.io.rdf.BATCH_SIZE", 7)
    assert read(tmp_path / "x.nt") == whole
    assert len(whole) == 50


# Names never make one object of two


def two_files(tmp_path: Path, one: str, two: str, iris: IriStyle = "full") -> KnowledgeBase:
    (tmp_path / "x.ttl").write_text(one)
    (tmp_path / "y.ttl").write_text(two)
    return read(tmp_path / "x.ttl", tmp_path / "y.ttl", iris=iris)


def test_local_names_that_collide_in_two_files_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="http://a/bob and http://b/bob have the same short name") as caught:
        two_files(tmp_path, "<http://a/ann> <http://a/p> <http://a/bob> .", "<http://b/bob> a <http://a/T> .", "local")
    assert str(tmp_path / "y.ttl") in caught.value.message
    same = "<http://a/ann> <http://a/p> <http://a/bob> ."
    assert len(two_files(tmp_path, same, same, "local")) == 1


def test_a_local_name_that_looks_like_a_blank_node_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the blank node _:x and http://a/_:x have the same short name"):
        turtle(tmp_path, "_:x a:p <http://a/_:x> .", iris="local")


@pytest.mark.parametrize("end", [".nt", ".ttl"])
def test_a_label_of_hexadecimal_digits_is_not_the_label_anon1(tmp_path: Path, end: str) -> None:
    path = tmp_path / f"x{end}"
    path.write_text("_:0123456789abcdef0123456789 <http://a/p> _:anon1 .\n")
    assert len(read(path).objects) == 2


def test_a_label_with_a_dot_is_not_that_of_another_file(tmp_path: Path) -> None:
    kb = two_files(tmp_path, "_:a.2 <http://a/p> <http://a/x> .", "_:a <http://a/p> <http://a/y> .")
    assert list(kb.objects) == ["_:a#2", "_:a.2", "http://a/x", "http://a/y"]


def test_a_subject_with_only_skipped_literals_is_an_object(tmp_path: Path) -> None:
    kb = turtle(tmp_path, 'a:ann a:name "Ann" . a:bob a:likes a:cleo .')
    assert "http://a/ann" in kb.objects
    assert len(kb) == 1
