"""Read GraphML: edges are facts, and the data of nodes are types, numbers and labels.

    an edge         a fact; its relation is its data `relation`, `label` or `type`, or else `edge`
    `confidence`    the confidence of an edge
    `type`, …       types of a node: `type`, `class`, `kind`, `category`, and `labels` with colons between them
    `label`, …      the label of a node: `label`, `name` or `title`
    numbers         attributes of a node
    true            a type with the name of the key

An edge without a direction is a fact in both directions. A hyperedge is a fact with all its endpoints in order. The
file is read as a stream; entities that refer to others are refused, and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

from gaifman.config import raise_limit_hint
from gaifman.errors import InputError, shorten
from gaifman.io.cells import DECIMAL
from gaifman.io.files import TextBlock
from gaifman.io.rdf_guards import MAX_XML_DEPTH, feed_xml, safe_xml_parser
from gaifman.io.records import Place, RecordBuffer
from gaifman.kb.builder import KnowledgeBaseBuilder

RELATION_KEYS = ("relation", "label", "type", "predicate", "interaction")
"""Data of an edge that name its relation; the first that is there."""
CONFIDENCE_KEYS = ("confidence", "probability")
TYPE_KEYS = frozenset({"type", "class", "kind", "category", "labels"})
LABEL_KEYS = ("label", "name", "title")
"""Data of a node that are its label; the first that is there."""
NUMBER_TYPES = frozenset({"int", "long", "float", "double"})
DEFAULT_RELATION = "edge"
EDGES = ("edge", "hyperedge")


@dataclass(frozen=True, slots=True)
class _Key:
    """A declared kind of data."""

    name: str
    type: str
    default: str | None = None
    scope: str = "all"
    """`node`, `edge` or `all`, to which the default belongs."""


@dataclass(slots=True)
class _Element:
    """A node, edge or hyperedge that is being read."""

    kind: str
    place: Place
    objects: list[str]
    """The node, or the nodes that an edge links."""
    directed: bool = True
    data: dict[str, str] = field(default_factory=dict)
    """Key → its text."""


def read_graphml(blocks: Iterator[TextBlock], source: str, max_text: int, builder: KnowledgeBaseBuilder) -> None:
    """Read a GraphML file into the builder; `max_text` bounds the characters of one text."""
    reader = _GraphReader(source, max_text, builder)
    for block in blocks:
        block.decode()  # raises for binary data with the same message as the other formats
        reader.feed(block)
    reader.finish()


class _GraphReader:
    """Handles the events of the XML parser."""

    def __init__(self, source: str, max_text: int, builder: KnowledgeBaseBuilder) -> None:
        self._source, self._max_text = source, max_text
        self._buffer = RecordBuffer(source, builder)
        self._keys: dict[str, _Key] = {}
        self._open: list[_Element] = []
        """Nodes and edges around the present place; a node can hold a graph."""
        self._directed: list[bool] = []
        self._depth = 0
        self._key: _Key | None = None
        self._data_key: str | None = None
        self._text: list[str] | None = None
        self._length = 0
        self._lines: list[TextBlock] = []
        self._parser = safe_xml_parser(source, self._line_text)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    def feed(self, block: TextBlock) -> None:
        """Read some lines."""
        self._lines = [*self._lines[-1:], block]
        feed_xml(self._parser, block.data, False, self._source, self._line_text)

    def finish(self) -> None:
        """Read the end."""
        feed_xml(self._parser, b"", True, self._source, self._line_text)
        self._buffer.flush()

    def _line_text(self, number: int) -> str:
        return next((text for block in self._lines if (text := block.text_of_line(number)) is not None), "")

    def _place(self) -> Place:
        return Place(self._parser.CurrentLineNumber, "", self._parser.CurrentColumnNumber + 1)

    def _error(self, message: str, hint: str = "", place: Place | None = None) -> InputError:
        """Return an error at a place, with the text of its line; by default where the parser is."""
        at = place or self._place()
        return self._buffer.error(message, Place(at.line, self._line_text(at.line), at.column), hint)

    # Events

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_XML_DEPTH:
            raise self._error(f"elements are nested deeper than {MAX_XML_DEPTH:,}")
        name = _local(tag)
        if self._depth == 1 and name != "graphml":
            raise self._error(f"this is not GraphML: its first element is {shorten(name)}, not graphml")
        match name:
            case "key":
                self._declare(attributes)
            case "graph":
                self._directed.append(attributes.get("edgedefault", "directed") != "undirected")
            case "node" | "edge" | "hyperedge":
                self._open.append(self._element(name, attributes))
            case "endpoint" if self._open and self._open[-1].kind == "hyperedge":
                self._open[-1].objects.append(self._required(attributes, "node", "endpoint"))
            case "data" if self._open:
                self._data_key, self._text, self._length = self._required(attributes, "key", "data"), [], 0
            case "default":
                self._text, self._length = [], 0

    def _declare(self, attributes: dict[str, str]) -> None:
        own = self._required(attributes, "id", "key")
        name, kind = attributes.get("attr.name") or own, attributes.get("attr.type", "string").lower()
        self._key = _Key(name, kind, None, attributes.get("for", "all"))
        self._keys[own] = self._key

    def _element(self, kind: str, attributes: dict[str, str]) -> _Element:
        names = {"node": ("id",), "edge": ("source", "target")}.get(kind, ())
        objects = [self._required(attributes, name, kind) for name in names]
        directed = self._directed[-1] if self._directed else True
        if "directed" in attributes:
            directed = attributes["directed"] != "false"
        own = attributes.get("label" if kind != "node" else "labels")
        data = {} if own is None else {"label" if kind != "node" else "labels": own}  # as Neo4j writes them
        return _Element(kind, self._place(), objects, directed, data)

    def _required(self, attributes: dict[str, str], name: str, element: str) -> str:
        if not attributes.get(name):
            raise self._error(f"the {element} has no {name}")
        return attributes[name]

    def _characters(self, text: str) -> None:
        if self._text is None:
            return
        self._length += len(text)
        if self._length > self._max_text:
            raise self._error(f"the text is longer than {self._max_text:,} characters", raise_limit_hint("line"))
        self._text.append(text)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        name = _local(tag)
        match name:
            case "data" if self._data_key is not None:
                self._open[-1].data[self._data_key], self._data_key, self._text = self._taken_text(), None, None
            case "default" if self._key is not None:
                own = next(key for key, kind in self._keys.items() if kind is self._key)
                self._key = _Key(self._key.name, self._key.type, self._taken_text(), self._key.scope)
                self._keys[own], self._text = self._key, None
            case "graph" if self._directed:
                self._directed.pop()
            case "node" if self._open:
                self._add_node(self._open.pop())
            case "edge" | "hyperedge" if self._open:
                self._add_edge(self._open.pop())

    def _taken_text(self) -> str:
        return "".join(self._text or ()).strip()

    # Facts

    def _named_data(self, element: _Element) -> Iterator[tuple[str, str, str]]:
        """Yield the name, the type and the text of an element's data, with defaults."""
        scope = "node" if element.kind == "node" else "edge"
        for own, text in element.data.items():
            key = self._keys.get(own, _Key(own, "string"))
            if text:
                yield key.name, key.type, text
        for own, key in self._keys.items():
            if key.default and own not in element.data and key.scope in (scope, element.kind, "all"):
                yield key.name, key.type, key.default

    def _add_node(self, node: _Element) -> None:
        name, place = node.objects[0], node.place
        self._buffer.add_object(name, place)
        labels: dict[str, str] = {}
        for key, kind, text in self._named_data(node):
            if kind in NUMBER_TYPES:
                self._buffer.add_value(key, name, self._number(key, text, place), place)
            elif key.lower() in TYPE_KEYS:
                for one in text.split(":") if key.lower() == "labels" else [text]:
                    if one:
                        self._buffer.add_fact(one, [name], 1.0, place)
            elif key.lower() in LABEL_KEYS:
                labels[key.lower()] = text
            elif kind == "boolean":
                if text.lower() in ("true", "1"):
                    self._buffer.add_fact(key, [name], 1.0, place)
            else:
                self._buffer.note("texts of nodes skipped", f"{key}: {shorten(text)}", "text of a node skipped")
        if label := next((labels[key] for key in LABEL_KEYS if key in labels), ""):
            self._buffer.add_label(name, label)

    def _add_edge(self, edge: _Element) -> None:
        relation, confidence, rank = DEFAULT_RELATION, 1.0, len(RELATION_KEYS)
        for key, _, text in self._named_data(edge):
            word = key.lower()
            if word in CONFIDENCE_KEYS:
                confidence = self._number(key, text, edge.place)
            elif word in RELATION_KEYS:
                if RELATION_KEYS.index(word) < rank:
                    relation, rank = text, RELATION_KEYS.index(word)
            else:
                self._buffer.note("data of edges skipped", f"{key}: {shorten(text)}", "datum of an edge skipped")
        self._buffer.add_fact(relation, edge.objects, confidence, edge.place)
        if not edge.directed and edge.kind == "edge" and edge.objects[0] != edge.objects[1]:
            self._buffer.add_fact(relation, edge.objects[::-1], confidence, edge.place)
            text = "edges without a direction, read in both directions"
            self._buffer.note(text, f"{edge.objects[0]} – {edge.objects[1]}", text.replace("edges", "edge", 1))

    def _number(self, key: str, text: str, place: Place) -> float:
        if not DECIMAL.fullmatch(text) or not isfinite(float(text)):
            raise self._error(f"{key} must be a finite number, got {shorten(text)}", place=place)
        return float(text)


def _local(tag: str) -> str:
    """Return a tag without its prefix."""
    return tag.rpartition(":")[2]
