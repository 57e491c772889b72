"""RDF/XML, JSON-LD, TriG and N-Quads; names with prefixes; crafted files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gaifman.errors import InputError
from gaifman.io import read
from gaifman.kb.knowledge_base import KnowledgeBase

RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:ex="http://e/">'
FILES = {
    "x.nt": """<http://e/ann> <http://e/parent> <http://e/bob> .
<http://e/ann> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/Person> .
<http://e/ann> <http://e/age> "80"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/ann> <http://www.w3.org/2000/01/rdf-schema#label> "Ann"@en .
""",
    "x.nq": """<http://e/ann> <http://e/parent> <http://e/bob> <http://e/graph> .
<http://e/ann> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/Person> .
<http://e/ann> <http://e/age> "80"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/ann> <http://www.w3.org/2000/01/rdf-schema#label> "Ann"@en _:graph .
""",
    "x.ttl": """@prefix ex: <http://e/> .
ex:ann a ex:Person ; ex:parent ex:bob ; ex:age 80 ; <http://www.w3.org/2000/01/rdf-schema#label> "Ann"@en .
""",
    "x.trig": """@prefix ex: <http://e/> .
ex:graph { ex:ann a ex:Person ; ex:parent ex:bob }
{ ex:ann ex:age 80 ; <http://www.w3.org/2000/01/rdf-schema#label> "Ann"@en }
""",
    "x.rdf": f"""<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE rdf:RDF [<!ENTITY e "http://e/">]>
{RDF}
<ex:Person rdf:about="&e;ann">
  <ex:parent rdf:resource="http://e/bob"/>
  <ex:age rdf:datatype="http://www.w3.org/2001/XMLSchema#integer">80</ex:age>
  <label xmlns="http://www.w3.org/2000/01/rdf-schema#" xml:lang="en">Ann</label>
</ex:Person>
</rdf:RDF>
""",
    "x.jsonld": """{
  "@context": {"ex": "http://e/", "label": "http://www.w3.org/2000/01/rdf-schema#label"},
  "@id": "ex:ann", "@type": "ex:Person", "ex:age": 80, "ex:parent": {"@id": "ex:bob"},
  "label": {"@value": "Ann", "@language": "en"}
}
""",
}
FORMATS = {"nt": "ntriples", "nq": "nquads", "ttl": "turtle", "trig": "trig", "rdf": "rdfxml", "jsonld": "jsonld"}
FULL = KnowledgeBase.from_facts(
    [("http://e/Person", "http://e/ann"), ("http://e/parent", "http://e/ann", "http://e/bob")],
    {("http://e/age", "http://e/ann"): 80},
)


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name])
    kb = read(tmp_path / name, iris="full")
    assert kb == FULL
    assert kb.labels == {"http://e/ann": "Ann"}
    assert str(kb.notes[-1]).startswith(f"1 file read as {FORMATS[name.partition('.')[2]]}, such as")
    graphs = {"x.nq": 2, "x.trig": 2}.get(name)
    assert [note.count for note in kb.notes if "named graphs" in note.text] == ([graphs] if graphs else [])


@pytest.mark.parametrize("name", FILES)
def test_formats_are_detected_by_content(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.txt").write_text(FILES[name])
    (tmp_path / "x.gz").write_bytes(gzip.compress(FILES[name].encode()))
    for path in (tmp_path / "x.txt", tmp_path / "x.gz"):
        kb = read(path, iris="full")
        assert kb == FULL
        assert FORMATS[name.partition(".")[2]] in str(kb.notes[-1])


@pytest.mark.parametrize("name", ["x.ttl", "x.trig", "x.rdf", "x.jsonld"])
def test_names_keep_the_prefixes_of_their_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name])
    kb = read(tmp_path / name)
    assert kb == KnowledgeBase.from_facts(
        [("ex:Person", "ex:ann"), ("ex:parent", "ex:ann", "ex:bob")], {("ex:age", "ex:ann"): 80}
    )
    assert kb.prefixes == {"ex": "http://e/"}
    assert kb.labels == {"ex:ann": "Ann"}


def test_files_with_and_without_prefixes_share_names(tmp_path: Path) -> None:
    for name in ("x.nt", "x.ttl"):
        (tmp_path / name).write_text(FILES[name])
    (tmp_path / "y.tsv").write_text("http://e/bob\thttp://e/parent\thttp://e/cleo\n")
    paths = [tmp_path / name for name in ("x.nt", "x.ttl", "y.tsv")]
    kb = read(*paths)
    assert [str(fact) for fact in kb.facts()] == [
        "'ex:Person'('ex:ann').",
        "'ex:parent'('ex:ann', 'ex:bob').",
        "'ex:parent'('ex:bob', 'ex:cleo').",
    ]
    assert read(*paths[::-1]) == kb


def test_prefixes_that_would_make_names_ambiguous_are_not_used(tmp_path: Path) -> None:
    (tmp_path / "x.ttl").write_text(
        "@prefix urn: <http://e/> . @prefix a: <http://a/> .\nurn:x a:r <urn:y> .\n"
        "@prefix a: <http://b/> .\na:x a:r <http://a/x> .\n"
    )
    (tmp_path / "y.ttl").write_text("@prefix b: <http://b/> . @prefix a: <http://c/> .\na:x b:r a:y .\n")
    kb = read(tmp_path / "x.ttl", tmp_path / "y.ttl")
    assert kb.prefixes == {"a": "http://b/"}
    notes = {note.text: note.example for note in kb.notes}
    assert notes["prefixes not used, because names begin with them"] == "urn of urn:y"
    assert notes["prefixes with two meanings, the first kept"] == "a"
    assert {"http://e/x", "urn:y", "a:x", "http://a/x", "http://c/x"} <= set(kb.objects)


def test_relative_iris_are_names(tmp_path: Path) -> None:
    (tmp_path / "x.jsonld").write_text('{"@context": {"p": "http://p/q"}, "@id": "ann", "p": {"@id": "bob"}}')
    (tmp_path / "x.rdf").write_text(
        f'{RDF}<rdf:Description rdf:about="ann"><ex:p rdf:resource="#bob"/></rdf:Description></rdf:RDF>'
    )
    assert [str(fact) for fact in read(tmp_path / "x.jsonld").facts()] == ["'http://p/q'(ann, bob)."]
    assert [str(fact) for fact in read(tmp_path / "x.rdf").facts()] == ["'ex:p'(ann, '#bob')."]


LAUGHS = "".join(f'<!ENTITY {one} "{f"&{other};" * 10}">' for other, one in zip("abcdefgh", "bcdefghi", strict=True))
TERMS = "<<( <http://a> <http://b> "
CRAFTED = {
    "laughs.rdf": (f'<!DOCTYPE r [<!ENTITY a "ha">{LAUGHS}]>\n{RDF}&i;</rdf:RDF>', "the entity b refers to other"),
    "cycle.rdf": (f'<!DOCTYPE r [<!ENTITY a "&b;"><!ENTITY b "&a;">]>\n{RDF}&a;</rdf:RDF>', "the entity a refers"),
    "file.rdf": (f'<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n{RDF}&a;</rdf:RDF>', "the entity a refers"),
    "parameter.rdf": (f'<!DOCTYPE r [<!ENTITY % a "x">]>\n{RDF}</rdf:RDF>', "the entity a refers"),
    "long.rdf": (f'<!DOCTYPE r [<!ENTITY a "{"x" * 1001}">]>\n{RDF}&a;</rdf:RDF>', "the entity a refers"),
    "deep.rdf": (RDF + "<ex:C><ex:p>\n" * 100_000, "line 500, column 7: elements are nested deeper than 1,000"),
    "ends.rdf": (f"{RDF}\n<ex:C>", "line 2, column 7: not XML: no element found"),
    "tags.rdf": (f"{RDF}\n<ex:C></ex:D>", "line 2, column 9: not XML: mismatched tag\n  <ex:C></ex:D>\n          ^"),
    "iri.rdf": (f'{RDF}<ex:C rdf:about="http://[x"/></rdf:RDF>', "error while parsing IRI"),
    "latin.rdf": (f'<?xml version="1.0" encoding="latin-1"?>\n{RDF}</rdf:RDF>', "Only UTF-8 is supported"),
    "unknown.rdf": (f'<?xml version="1.0" encoding="foo"?>\n{RDF}</rdf:RDF>', "unknown encoding: foo"),
    "remote.jsonld": ('{"@context": "https://schema.org/", "name": "A"}', "nothing is fetched"),
    "import.jsonld": ('{"@context": {"@version": 1.1, "@import": "http://x/y"}, "a": 1}', "nothing is fetched"),
    "cycle.jsonld": ('{"@context": {"a": "b:x", "b": "a:x"}, "@id": "http://x", "a": 1}', "Cyclic IRI mapping"),
    "deep.jsonld": ("[" * 100_000, "Max stack size"),
    "none.jsonld": ('{"head": "ann"}', "none.jsonld has no fact: none of its keys stands for an IRI"),
    "colon.jsonld": ('{"@context": {},\n "@id" "x"}', 'line 2, column 8: Object keys must be strings\n   "@id" "x"}'),
    "terms.nt": (f"<http://d> <http://e> {TERMS * 20_000}<http://c>", "triples are nested deeper than 100"),
    "terms.ttl": (f"<http://d> <http://e> {(TERMS + chr(10)) * 20_000}", "line 101, column 1: triples are nested"),
    "terms.trig": (f"{{ <http://d> <http://e> {TERMS * 20_000}", "triples are nested deeper than 100"),
    "terms.nq": (f"<http://d> <http://e> {TERMS * 20_000}", "triples are nested deeper than 100"),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_file_is_one_error(tmp_path: Path, name: str) -> None:
    text, message = CRAFTED[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as caught:
        read(tmp_path / name)
    assert message in str(caught.value)
    assert name in str(caught.value)


def test_a_few_nested_triples_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "x.nt").write_text(f"<http://d> <http://e> {TERMS * 3}<http://c>{' )>>' * 3} .\n" * 50)
    assert read(tmp_path / "x.nt").notes[0].count == 50
