"""N-Triples and Turtle, parsed by pyoxigraph: numbers become attributes, `rdf:type` types, the rest is counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np

from gaifman.errors import InputError, Location, shorten
from gaifman.io.files import TextBlock
from gaifman.io.tabular import DECIMAL, DEFAULT_LAYOUTS, RowBatch, add_rows
from gaifman.kb.builder import KnowledgeBaseBuilder

if TYPE_CHECKING:
    import pyoxigraph

IriStyle = Literal["full", "local"]
"""Whether objects are named by whole IRIs, or by what follows their last `#` or `/`."""

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
BATCH_SIZE = 50_000
"""Triples that are handed on at once."""

_ANONYMOUS = re.compile(r"[0-9a-f]{24,32}")


def read_rdf(
    blocks: Iterator[TextBlock], source: str, form: str, namer: NodeNamer, builder: KnowledgeBaseBuilder
) -> None:
    """Put an RDF file into a draft."""
    import pyoxigraph

    kind = pyoxigraph.RdfFormat.N_TRIPLES if form == "ntriples" else pyoxigraph.RdfFormat.TURTLE
    stream, sink = _Stream(blocks), _TripleBuffer(source, builder)
    namer.start_file(source, anonymous=form == "turtle")
    try:
        # pyoxigraph asks only for read().
        for triple in pyoxigraph.parse(stream, format=kind):  # type: ignore[arg-type]
            _add_triple(triple, namer, sink)
    except SyntaxError as error:
        raise _syntax_error(source, error, stream) from None
    except ValueError as error:
        raise InputError(f"{source}: {error}") from None
    sink.flush()


def _add_triple(triple: pyoxigraph.Quad, names: NodeNamer, sink: _TripleBuffer) -> None:
    """Sort one triple into facts, types, values and what is left out."""
    import pyoxigraph

    subject, predicate, target = triple.subject, triple.predicate, triple.object
    sink.count += 1
    if isinstance(subject, pyoxigraph.Triple) or isinstance(target, pyoxigraph.Triple):
        sink.skip("statement", "about triples left out", str(predicate))
    elif isinstance(target, pyoxigraph.Literal):
        _add_literal(names(subject), names(predicate), target, sink)
    elif predicate.value == RDF_TYPE:
        sink.add("types", names(subject), names(target))
    else:
        sink.add("triples", names(subject), names(predicate), names(target))


def _add_literal(subject: str, predicate: str, literal: pyoxigraph.Literal, sink: _TripleBuffer) -> None:
    datatype, text = literal.datatype.value, literal.value.strip()
    if datatype in NUMERIC_DATATYPES and DECIMAL.fullmatch(text) and np.isfinite(float(text)):
        sink.add("attributes", subject, predicate, text)
        return
    sink.add_object(subject)
    if literal.language:
        sink.skip("literal", f"in language {literal.language} left out", str(literal))
    elif datatype not in NUMERIC_DATATYPES:
        sink.skip("literal", f"of type {datatype.removeprefix(XSD)} left out", str(literal))
    else:
        sink.skip("literal", "without a finite number left out", str(literal))


class NodeNamer:
    """Names of IRIs and blank nodes, in all files of one reading.

    A blank node is another in each file, and has a form that none of their labels can have: in the second file `_:a`
    becomes `_:a#2`; one without a label is `_:anon/1`.
    """

    def __init__(self, iris: IriStyle) -> None:
        self._local = iris == "local"
        self._files = 0
        self._whole: dict[str, str] = {}

    def start_file(self, source: str, anonymous: bool) -> None:
        """Go on with the next file; `anonymous` where nodes without labels can stand in it."""
        self._files += 1
        self._source = source
        self._end = f"#{self._files}" if self._files > 1 else ""
        self._anonymous: dict[str, str] | None = {} if anonymous else None

    def __call__(self, node: object) -> str:
        """The name of a node."""
        value = str(getattr(node, "value", node))
        if type(node).__name__ != "BlankNode":
            return self._check_unique(re.split(r"[#/]", value)[-1] or value, value) if self._local else value
        if self._anonymous is not None and _ANONYMOUS.fullmatch(value):  # drawn at random by the parser
            value = self._anonymous.setdefault(value, f"anon/{len(self._anonymous) + 1}")
        name = f"_:{value}{self._end}"
        return self._check_unique(name, f"the blank node {name}") if self._local else name

    def _check_unique(self, short: str, whole: str) -> str:
        """The short name, unless another has it."""
        if self._whole.setdefault(short, whole) != whole:
            raise InputError(
                f"{self._source}: {shorten(self._whole[short], 90)} and {shorten(whole, 90)} have one short name",
                hint='read it with iris="full"',
            )
        return short


class _TripleBuffer:
    """Collects triples by kind and hands them on in batches."""

    def __init__(self, source: str, draft: KnowledgeBaseBuilder) -> None:
        self.count = 0
        self._source = source
        self._draft = draft
        self._fields: dict[str, list[str]] = {"triples": [], "types": [], "attributes": []}
        self._lines: dict[str, list[int]] = {"triples": [], "types": [], "attributes": []}
        self._alone: dict[str, int] = {}

    def add(self, form: str, *fields: str) -> None:
        """Take one row of a form."""
        self._fields[form] += fields
        self._lines[form].append(self.count)
        if len(self._lines[form]) >= BATCH_SIZE:
            self.flush()

    def add_object(self, subject: str) -> None:
        """Take an object of which perhaps nothing else is said."""
        self._alone.setdefault(subject, self.count)
        if len(self._alone) >= BATCH_SIZE:
            self.flush()

    def skip(self, noun: str, what: str, example: str) -> None:
        """Count what has no place in a knowledge base."""
        self._draft.add_note(1, f"{noun}s {what}", shorten(example, 60), f"{noun} {what}")

    def flush(self) -> None:
        """Hand on what is collected."""
        source = f"{self._source} (counting triples as lines)"
        names, none = list(self._alone), np.zeros(0, np.int32)
        numbers = self._draft.encode_names(names, lambda row: Location(source, self._alone[names[row]], 1, names[row]))
        self._draft.declare(numbers, none, none, none, lambda row, _: Location(source, row + 1, 1, ""))
        self._alone = {}
        for form, fields in self._fields.items():
            lines = np.array(self._lines[form], np.int64)
            if len(lines):
                widths = np.full(len(lines), len(fields) // len(lines), np.int64)
                add_rows(RowBatch(source, fields, widths, lines, " "), DEFAULT_LAYOUTS[form], self._draft)
            self._fields[form], self._lines[form] = [], []


class _Stream:
    """Blocks as something to read from; keeps the last lines for error messages."""

    def __init__(self, blocks: Iterator[TextBlock]) -> None:
        self._blocks = blocks
        self._rest = b""
        self._kept: list[TextBlock] = []

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; none at the end."""
        if not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return b""
            block.decode()  # refuses what is no text with the same words and place as in every other format
            self._kept = [*self._kept[-1:], block]
            self._rest = block.normalise_newlines().data
        taken = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(taken) :]
        return taken

    def line(self, number: int) -> str:
        """The text of a line, where it is still known."""
        for block in self._kept:
            lines = block.data.split(b"\n")
            if 0 <= number - block.line < len(lines):
                return lines[number - block.line].decode(errors="replace")
        return ""


def _syntax_error(source: str, error: SyntaxError, stream: _Stream) -> InputError:
    line, column = error.lineno or 1, error.offset or 1
    end = error.end_offset if error.end_lineno == line and error.end_offset else column + 1
    message = re.sub(r"^Parser error at [^:]*: ", "", error.msg)
    place = Location(source, line, column, stream.line(line), max(1, end - column))
    return InputError(message, location=place)
