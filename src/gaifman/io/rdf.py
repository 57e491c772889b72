"""Read RDF with pyoxigraph: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD.

Numeric literals become attributes, `rdf:type` becomes types, and `rdfs:label` and `skos:prefLabel` give labels. Other
literals are skipped and counted in a note. The facts of all named graphs are read.

A reified statement whose IRI begins with `urn:gaifman:review:` is no fact, but says that a fact was predicted and
accepted, or that a proposal was rejected, with the name of the model, the day and the probability.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

import numpy as np

from gaifman.errors import InputError, Location, shorten
from gaifman.io.cells import DECIMAL
from gaifman.io.files import BATCH_SIZE, TextBlock
from gaifman.io.labels import LABEL_PROPERTIES, LabelLanguages, clean_label
from gaifman.io.rdf_guards import TripleGuard, XmlGuard
from gaifman.io.tabular import DEFAULT_LAYOUTS, RowBatch, add_rows
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.reviews import PREDICTED, REJECTED, FactKey, Provenance

if TYPE_CHECKING:
    import pyoxigraph

IriStyle = Literal["prefixed", "full", "local"]
"""Whether names have the prefixes of their file, are full IRIs, or only the part after the last `#` or `/`."""

PARSERS = {
    "ntriples": "N_TRIPLES",
    "nquads": "N_QUADS",
    "turtle": "TURTLE",
    "trig": "TRIG",
    "rdfxml": "RDF_XML",
    "jsonld": "JSON_LD",
}
"""Format → its name in pyoxigraph."""
BASE = "gaifman-base:/"
"""What relative IRIs of RDF/XML and JSON-LD are relative to; it is removed from names."""
NAME_URN = "urn:gaifman:"
"""Start of the IRI of a name that is none."""

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
XSD = "http://www.w3.org/2001/XMLSchema#"
NUMERIC_DATATYPES = frozenset(
    XSD + name
    for name in (
        *("decimal", "double", "float", "integer", "long", "int", "short", "byte"),
        *("unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
        *("nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger"),
    )
)

RDF = RDF_TYPE.removesuffix("type")
REVIEW = "urn:gaifman:review:"
"""Start of the IRI of a reified statement about a proposed fact."""
STATEMENT_TERMS = ("subject", "predicate", "object")
"""Its properties in the namespace of RDF."""
REVIEW_TERMS = ("provenance", "model", "date", "probability")
"""Its properties in ours, `urn:gaifman:`."""

_ANONYMOUS = re.compile(r"[0-9a-f]{24,32}")


@dataclass
class RdfOptions:
    """How RDF files that are read together are read."""

    namer: NodeNamer
    languages: LabelLanguages
    labels_only: bool = False
    """Whether only labels are read."""


def read_rdf(
    blocks: Iterator[TextBlock], source: str, file_format: str, options: RdfOptions, builder: KnowledgeBaseBuilder
) -> None:
    """Read an RDF file into the builder."""
    import pyoxigraph

    stream, buffer = _Stream(blocks, source, file_format), _TripleBuffer(source, builder, options)
    base = BASE if file_format in ("rdfxml", "jsonld") else None
    options.namer.start_file(source, anonymous=file_format not in ("ntriples", "nquads"), base=base or "")
    own_format = getattr(pyoxigraph.RdfFormat, PARSERS[file_format])
    try:
        # pyoxigraph needs only read().
        parser = pyoxigraph.parse(stream, format=own_format, base_iri=base)  # type: ignore[arg-type]
        for quad in parser:
            _add_quad(quad, options.namer, buffer)
    except SyntaxError as error:
        raise _syntax_error(source, error, stream) from None
    except ValueError as error:
        raise InputError(f"{source}: {error}") from None
    if file_format == "jsonld" and not buffer.count:
        raise InputError(f"{source} has no fact: none of its keys stands for an IRI", hint="add a @context")
    if options.namer.style == "prefixed":
        builder.add_prefixes(parser.prefixes | stream.xml_prefixes())
    buffer.flush()
    if not options.labels_only:
        buffer.reviews.add_to(builder, options.namer, source)


class _ReifiedReviews:
    """Collects the properties of reified statements about proposed facts."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, object]] = {}

    def take(self, triple: pyoxigraph.Quad) -> bool:
        """Whether the triple is a property of such a statement; it is kept then."""
        subject = str(getattr(triple.subject, "value", ""))
        if not subject.startswith(REVIEW):
            return False
        name = re.split("[#:]", triple.predicate.value)[-1]
        self._found.setdefault(subject, {})[name] = triple.object
        return True

    def add_to(self, builder: KnowledgeBaseBuilder, namer: NodeNamer, source: str) -> None:
        """Add the decisions to the builder."""
        for iri, terms in self._found.items():
            builder.add_review(*self._decision(iri, terms, namer, source))

    def _decision(
        self, iri: str, terms: dict[str, object], namer: NodeNamer, source: str
    ) -> tuple[FactKey, Provenance, bool, Callable[[], Location]]:
        location = Location(source, 1, 1, iri)
        values = {name: str(getattr(terms.get(name), "value", "")) for name in REVIEW_TERMS}
        p = values["probability"]
        named = all(name in terms for name in STATEMENT_TERMS) and values["provenance"] in (PREDICTED, REJECTED)
        if not named or (p and not (DECIMAL.fullmatch(p) and 0 <= float(p) <= 1)):
            raise InputError(
                f"{shorten(iri)} is not a decision about a proposed fact",
                location=location,
                hint="it needs rdf:subject, rdf:predicate, rdf:object and urn:gaifman:provenance, which is "
                f"{PREDICTED} or {REJECTED}",
            )
        subject, predicate, target = (terms[name] for name in STATEMENT_TERMS)
        typed = str(getattr(predicate, "value", "")) == RDF_TYPE
        key = (namer(target), namer(subject)) if typed else (namer(predicate), namer(subject), namer(target))
        provenance = Provenance(values["model"], values["date"], float(p) if p else None)
        return key, provenance, values["provenance"] == PREDICTED, lambda: location


def _add_quad(quad: pyoxigraph.Quad, names: NodeNamer, buffer: _TripleBuffer) -> None:
    """Add a triple as a fact, type, value or label, or skip it."""
    import pyoxigraph

    subject, predicate, target = quad.subject, quad.predicate, quad.object
    buffer.count += 1
    if buffer.reviews.take(quad):
        return
    if not isinstance(quad.graph_name, pyoxigraph.DefaultGraph):
        buffer.note_graph(str(quad.graph_name))
    if isinstance(subject, pyoxigraph.Triple) or isinstance(target, pyoxigraph.Triple):
        buffer.skip("statement", "about triples skipped", str(predicate))
    elif isinstance(target, pyoxigraph.Literal):
        if predicate.value in LABEL_PROPERTIES:
            buffer.add_label(names(subject), predicate.value, target)
        else:
            _add_literal(names(subject), names(predicate), target, buffer)
    elif predicate.value == RDF_TYPE:
        buffer.add("types", names(subject), names(target))
    else:
        buffer.add("triples", names(subject), names(predicate), names(target))


def _add_literal(subject: str, predicate: str, literal: pyoxigraph.Literal, buffer: _TripleBuffer) -> None:
    datatype, text = literal.datatype.value, literal.value.strip()
    if datatype in NUMERIC_DATATYPES and DECIMAL.fullmatch(text) and np.isfinite(float(text)):
        buffer.add("attributes", subject, predicate, text)
        return
    buffer.add_object(subject)
    if literal.language:
        buffer.skip("literal", f"in language {literal.language} skipped", str(literal))
    elif datatype not in NUMERIC_DATATYPES:
        buffer.skip("literal", f"of type {datatype.removeprefix(XSD)} skipped", str(literal))
    else:
        buffer.skip("literal", "without a finite number skipped", str(literal))


class NodeNamer:
    """Names of IRIs and blank nodes, over all files that are read together.

    Blank nodes of different files are different objects: in the second file `_:a` becomes `_:a#2`. A node without a
    label becomes `_:anon/1`. No label can have these forms.
    """

    def __init__(self, iris: IriStyle) -> None:
        self.style = iris
        self._local = iris == "local"
        self._files = 0
        self._full_names: dict[str, str] = {}

    def start_file(self, source: str, anonymous: bool, base: str = "") -> None:
        """Start the next file; `anonymous` says whether it may have nodes without labels, `base` is removed."""
        self._files += 1
        self._base = base
        self._source = source
        self._end = f"#{self._files}" if self._files > 1 else ""
        self._anonymous: dict[str, str] | None = {} if anonymous else None

    def __call__(self, node: object) -> str:
        """Return the name of a node."""
        value = str(getattr(node, "value", node))
        if type(node).__name__ != "BlankNode":
            value = (
                unquote(value.removeprefix(NAME_URN)) if value.startswith(NAME_URN) else value.removeprefix(self._base)
            )
            return self._check_unique(re.split(r"[#/]", value)[-1] or value, value) if self._local else value
        if self._anonymous is not None and _ANONYMOUS.fullmatch(value):  # a random label of the parser
            value = self._anonymous.setdefault(value, f"anon/{len(self._anonymous) + 1}")
        name = f"_:{value}{self._end}"
        return self._check_unique(name, f"the blank node {name}") if self._local else name

    def _check_unique(self, short: str, full: str) -> str:
        """Return the short name; raise if another node has it."""
        if self._full_names.setdefault(short, full) != full:
            other = shorten(self._full_names[short], 90)
            raise InputError(
                f"{self._source}: {other} and {shorten(full, 90)} have the same short name",
                hint='read the file with iris="full"',
            )
        return short


class _TripleBuffer:
    """Collects triples by kind and adds them to the builder in batches."""

    def __init__(self, source: str, builder: KnowledgeBaseBuilder, options: RdfOptions) -> None:
        self.count = 0
        self.reviews = _ReifiedReviews()
        self._source = source
        self._builder = builder
        self._languages, self._labels_only = options.languages, options.labels_only
        self._fields: dict[str, list[str]] = {"triples": [], "types": [], "attributes": []}
        self._lines: dict[str, list[int]] = {"triples": [], "types": [], "attributes": []}
        self._alone: dict[str, int] = {}

    def add(self, kind: str, *fields: str) -> None:
        """Add a row of triples, types or attributes."""
        if self._labels_only:
            return
        self._fields[kind] += fields
        self._lines[kind].append(self.count)
        if len(self._lines[kind]) >= BATCH_SIZE:
            self.flush()

    def add_object(self, subject: str) -> None:
        """Add an object, which may have no fact."""
        if self._labels_only:
            return
        self._alone.setdefault(subject, self.count)
        if len(self._alone) >= BATCH_SIZE:
            self.flush()

    def add_label(self, subject: str, label_property: str, literal: pyoxigraph.Literal) -> None:
        """Add a label of a name."""
        label = clean_label(literal.value)
        if not label:
            self.skip("label", "without a text skipped", subject)
            return
        self._builder.count_rows(1, lambda: Location(self._where, self.count, 1, ""))
        rank = self._languages.rank(literal.language or "", LABEL_PROPERTIES.index(label_property))
        self._builder.add_label(subject, label, rank)

    def note_graph(self, graph: str) -> None:
        """Count a triple of a named graph."""
        text, singular = "triples of named graphs, read as all others", "triple of a named graph, read as all others"
        self._builder.add_note(1, text, shorten(graph, 60), singular)

    def skip(self, noun: str, what: str, example: str) -> None:
        """Count a skipped triple."""
        if self._labels_only:
            return
        self._builder.add_note(1, f"{noun}s {what}", shorten(example, 60), f"{noun} {what}")

    @property
    def _where(self) -> str:
        return f"{self._source} (counting triples as lines)"

    def flush(self) -> None:
        """Add the collected triples to the builder."""
        source = self._where
        names, none = list(self._alone), np.zeros(0, np.int32)
        ids = self._builder.encode_names(names, lambda row: Location(source, self._alone[names[row]], 1, names[row]))
        self._builder.declare(ids, none, none, none, lambda row, _: Location(source, row + 1, 1, ""))
        self._alone = {}
        for kind, fields in self._fields.items():
            lines = np.array(self._lines[kind], np.int64)
            if len(lines):
                widths = np.full(len(lines), len(fields) // len(lines), np.int64)
                add_rows(RowBatch(source, fields, widths, lines, " "), DEFAULT_LAYOUTS[kind], self._builder)
            self._fields[kind], self._lines[kind] = [], []


class _Stream:
    """A stream of checked blocks; keeps the last lines for error messages."""

    def __init__(self, blocks: Iterator[TextBlock], source: str, file_format: str) -> None:
        self._blocks = blocks
        self._rest = b""
        self._last: list[TextBlock] = []
        self._guard = XmlGuard(source, self.line) if file_format == "rdfxml" else TripleGuard(source)

    def xml_prefixes(self) -> dict[str, str]:
        """Return the prefixes of an XML file."""
        return self._guard.prefixes if isinstance(self._guard, XmlGuard) else {}

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes; none at the end."""
        if not self._rest:
            block = next(self._blocks, None)
            if block is None:
                self._guard.check(b"", 0)
                return b""
            block.decode()  # raises for binary data with the same message as the other formats
            self._last = [*self._last[-1:], block]
            self._rest = block.normalise_newlines().data
            self._guard.check(self._rest, block.line)
        taken = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(taken) :]
        return taken

    def line(self, number: int) -> str:
        """Return the text of a line, if it is still kept."""
        return next((text for block in self._last if (text := block.text_of_line(number)) is not None), "")


REMOTE_CONTEXT = "LoadDocumentCallback"
"""Part of the parser's message about a context in another document."""


def _syntax_error(source: str, error: SyntaxError, stream: _Stream) -> InputError:
    if REMOTE_CONTEXT in error.msg:
        return InputError(
            f"{source}: its @context is in another document, and nothing is fetched",
            hint="write the content of the context into the file",
        )
    message = re.sub(r"^Parser error at [^:]*: ", "", error.msg)
    if error.lineno is None:
        return InputError(f"{source}: {message}")
    line, column = error.lineno, error.offset or 1
    end = error.end_offset if error.end_lineno == line and error.end_offset else column + 1
    location = Location(source, line, column, stream.line(line), max(1, end - column))
    return InputError(message, location=location)
