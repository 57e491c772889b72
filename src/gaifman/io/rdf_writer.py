"""Write knowledge bases as RDF: N-Triples, and Turtle with prefixes.

A fact of two objects is a triple, one of one object is a type, a value is a number, and labels are `rdfs:label`. A name
that is no IRI becomes a URN of its text, `urn:gaifman:New%20York`, which the reader turns back. What people decided
about proposed facts is reified.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from urllib.parse import quote

from gaifman.errors import plural
from gaifman.io.labels import RDFS_LABEL
from gaifman.io.rdf import NAME_URN, RDF, RDF_TYPE, REVIEW, STATEMENT_TERMS, XSD
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.reviews import PREDICTED, REJECTED, FactKey, Provenance

RDF_WRITE_FORMATS = ("ntriples", "turtle")

_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*")
_TURTLE_LOCAL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
_TURTLE_PREFIX = re.compile(r"(?:[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?)?")
_BLANK = re.compile(r"[A-Za-z0-9_]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}

Node = Callable[[str], str]
"""Name → its text in the file."""


def rdf_node(name: str) -> str:
    """Return a name as an IRI: itself if it is one, else a URN of its text; a blank node stays one.

    >>> rdf_node("http://example.org/berlin"), rdf_node("New York"), rdf_node("_:n"), rdf_node("_:anon/1")
    ('<http://example.org/berlin>', '<urn:gaifman:New%20York>', '_:n', '_:anon-2f-1')
    """
    if name.startswith("_:") and len(name) > 2:
        return "_:" + "".join(c if _BLANK.fullmatch(c) else f"-{ord(c):x}-" for c in name[2:])
    is_iri = _IRI.fullmatch(name) and not name.startswith(NAME_URN)
    return f"<{name}>" if is_iri else f"<{NAME_URN}{quote(name, safe='')}>"


def fact_triple(fact: Fact, node: Node = rdf_node) -> str:
    """Return a fact of one or two objects as a triple; one of one object is a type.

    >>> fact_triple(Fact("city", ("http://example.org/berlin",)))
    '<http://example.org/berlin> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:gaifman:city> .'
    """
    return f"{' '.join(_triple_nodes(fact, node))} ."


def _triple_nodes(fact: Fact, node: Node) -> tuple[str, str, str]:
    subject, *rest = fact.objects
    if not rest:
        return node(subject), f"<{RDF_TYPE}>", node(fact.relation)
    return node(subject), node(fact.relation), node(rest[0])


def review_triples(kind: str, key: FactKey, provenance: Provenance, node: Node = rdf_node) -> Iterator[str]:
    """Yield the triples that say that a fact was predicted and accepted, or that a proposal was rejected."""
    fact = Fact(key[0], key[1:])
    digest = hashlib.blake2b(fact_triple(fact, node).encode(), digest_size=12).hexdigest()
    p = "" if provenance.probability is None else repr(provenance.probability)
    texts = {"provenance": kind, "model": provenance.model}
    typed = {"date": (provenance.date, "date"), "probability": (p, "double")}
    properties = {f"{RDF}type": f"<{RDF}Statement>"}
    properties |= {f"{RDF}{name}": own for name, own in zip(STATEMENT_TERMS, _triple_nodes(fact, node), strict=True)}
    properties |= {f"urn:gaifman:{name}": _literal(text) for name, text in texts.items() if text}
    properties |= {f"urn:gaifman:{name}": f"{_literal(text)}^^<{XSD}{k}>" for name, (text, k) in typed.items() if text}
    return (f"<{REVIEW}{digest}> <{name}> {own} ." for name, own in properties.items())


def find_rdf_losses(kb: KnowledgeBase) -> list[str]:
    """Return what RDF cannot hold of a knowledge base, besides objects and relations without facts."""
    others = sum(relation.count for relation in kb.relations.values() if relation.arity > 2)
    lost = [f"{plural(others, 'fact')} of relations with more than two arguments"] if others else []
    uncertain = int((kb.confidences < 1).sum()) if kb.has_confidences else 0
    lost += [f"{plural(uncertain, 'confidence')} below 1"] if uncertain else []
    wide = sum(len(key) > 3 for key in kb.rejected)
    return lost + ([f"{plural(wide, 'known negative')} of relations with more than two arguments"] if wide else [])


def rdf_lines(kb: KnowledgeBase, file_format: str) -> Iterator[str]:
    """Yield the lines of a file; facts of more than two objects are left out, and so are confidences."""
    node = full = _full_node(kb)
    if file_format == "turtle":
        prefixes = {prefix: start for prefix, start in kb.prefixes.items() if _TURTLE_PREFIX.fullmatch(prefix)}
        yield from (f"@prefix {prefix}: <{start}> .\n" for prefix, start in sorted(prefixes.items()))
        node = _prefixed_node(kb, prefixes)
    yield from (f"{fact_triple(fact, node)}\n" for fact in kb.facts() if len(fact.objects) <= 2)
    for attribute, name, value in kb.values():
        yield f'{node(name)} {node(attribute)} "{value!r}"^^<{XSD}double> .\n'
    for name, label in kb.labels.items():
        yield f"{node(name)} <{RDFS_LABEL}> {_literal(label)} .\n"
    for kind, decided in ((PREDICTED, kb.provenance), (REJECTED, kb.rejected)):
        for key, provenance in sorted(decided.items()):
            if len(key) <= 3:
                yield from (f"{line}\n" for line in review_triples(kind, key, provenance, full))


def _full_node(kb: KnowledgeBase) -> Node:
    return lambda name: rdf_node(kb.iri(name))


def _prefixed_node(kb: KnowledgeBase, prefixes: dict[str, str]) -> Node:
    """Return how Turtle writes names: those with a prefix as they are, if Turtle can read them."""

    def write(name: str) -> str:
        prefix, _, local = name.partition(":")
        short = prefix in prefixes and kb.iri(name) != name and _TURTLE_LOCAL.fullmatch(local)
        return name if short else rdf_node(kb.iri(name))

    return write


def _literal(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c, c) for c in text) + '"'
