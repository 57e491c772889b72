"""Graphs of networkx and rdflib.

A networkx edge is a fact of the relation that its attribute `relation`, `predicate`, `label` or `type` names, or its
key in a multigraph. The `type` of a node is a type, its numbers are attributes, its texts are relations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from gaifman.errors import InputError, Location, shorten
from gaifman.io.files import BATCH_SIZE, InputFile, ScratchFolder
from gaifman.io.objects import is_of
from gaifman.io.tabular import DEFAULT_LAYOUTS, RowBatch, TableLayout, add_rows
from gaifman.kb.builder import KnowledgeBaseBuilder

EDGE_NAMES = ("relation", "predicate", "label", "type")
"""Attributes of an edge that name its relation, the first that it has."""
DEFAULT_RELATION = "edge"
"""Relation of edges that name none."""
TYPE_NAMES = ("type", "types", "class")
"""Attributes of a node that are its types."""

_CONFIDENCE = "confidence"
_FACTS = replace(DEFAULT_LAYOUTS["nary"], number_column=1)


def is_networkx(found: object) -> bool:
    """Whether an object is a graph of networkx."""
    return is_of(found, "networkx") and hasattr(found, "is_multigraph")


def is_rdflib(found: object) -> bool:
    """Whether an object is a graph or dataset of rdflib."""
    return is_of(found, "rdflib") and hasattr(found, "serialize")


def serialize_rdflib(graph: Any, source: str, scratch: ScratchFolder) -> InputFile:
    """Write a graph of rdflib, or all graphs of a dataset, to a file of N-Triples in a temporary folder."""
    path = scratch.path / "graph.nt"
    graphs = graph.graphs() if hasattr(graph, "graphs") else [graph]
    try:
        with path.open("wb") as file:
            for one in graphs:
                one.serialize(destination=file, format="nt", encoding="utf-8")
    except Exception as error:
        raise InputError(f"{source} cannot be written as N-Triples: {shorten(str(error), 200)}") from error
    return InputFile(source, path)


def prefixes_of(graph: Any) -> dict[str, str]:
    """Return the prefixes of a graph of rdflib, those of rdflib itself included."""
    return {str(prefix): str(start) for prefix, start in graph.namespaces()}


def read_networkx(graph: Any, source: str, builder: KnowledgeBaseBuilder) -> None:
    """Read a graph of networkx into the builder."""
    rows = _GraphRows(source, builder)
    for number, (node, data) in enumerate(graph.nodes(data=True), start=1):
        _add_node(rows, rows.name(node, "node", number), number, data)
    both = not graph.is_directed()
    for number, edge in enumerate(_edges(graph), start=1):
        _add_edge(rows, number, edge, both=both)
    rows.flush()
    edges = graph.number_of_edges()
    if both and edges:
        text = "undirected edges read in both directions"
        builder.add_note(edges, text, source, "undirected edge read in both directions")


@dataclass(frozen=True, slots=True)
class _Edge:
    head: object
    tail: object
    key: object
    """Key of a multigraph; integers are the default of networkx."""
    data: Mapping[str, object]


def _edges(graph: Any) -> Iterator[_Edge]:
    if graph.is_multigraph():
        yield from (_Edge(head, tail, key, data) for head, tail, key, data in graph.edges(keys=True, data=True))
    else:
        yield from (_Edge(head, tail, None, data) for head, tail, data in graph.edges(data=True))


def _add_edge(rows: _GraphRows, number: int, edge: _Edge, *, both: bool) -> None:
    named = next((name for name in EDGE_NAMES if edge.data.get(name) is not None), None)
    if named:
        relation = rows.name(edge.data[named], f"{named} of edge", number)
    elif isinstance(edge.key, str):
        relation = edge.key
    else:
        relation = DEFAULT_RELATION
        what = f"without a relation read as {DEFAULT_RELATION}"
        rows.builder.add_note(1, f"edges {what}", rows.source, f"edge {what}")
    confidence = edge.data.get(_CONFIDENCE)
    if isinstance(confidence, bool) or not isinstance(confidence, int | float | np.number | None):
        raise rows.error(f"the confidence of edge {number:,} is not a number", number, repr(confidence))
    ends = rows.name(edge.head, "head of edge", number), rows.name(edge.tail, "tail of edge", number)
    weight = 1.0 if confidence is None else float(confidence)
    rows.add_fact(number, relation, weight, *ends)
    if both and ends[0] != ends[1]:
        rows.add_fact(number, relation, weight, *reversed(ends))
    for name in edge.data:
        if name not in (named, _CONFIDENCE):
            rows.builder.add_note(1, "attributes of edges skipped", shorten(str(name)), "attribute of an edge skipped")


def _add_node(rows: _GraphRows, node: str, number: int, data: Mapping[str, object]) -> None:
    rows.add_object(number, node)
    for name, value in data.items():
        attribute = rows.name(name, "attribute of node", number)
        if name in TYPE_NAMES:
            listed = value if isinstance(value, list | tuple | set | frozenset) else [value]
            for one in sorted(rows.name(kind, f"{name} of node", number) for kind in listed if kind is not None):
                rows.add_fact(number, one, 1.0, node)
        elif isinstance(value, bool | np.bool_):
            if value:
                rows.add_fact(number, attribute, 1.0, node)
        elif isinstance(value, int | float | np.number | Decimal) and np.isfinite(float(value)):
            rows.add_value(number, node, attribute, float(value))
        elif isinstance(value, str) and value:
            rows.add_fact(number, attribute, 1.0, node, value)
        else:
            rows.builder.add_note(1, "attributes of nodes skipped", shorten(str(name)), "attribute of a node skipped")


class _GraphRows:
    """Collects the facts and values of a graph and adds them to the builder in batches."""

    def __init__(self, source: str, builder: KnowledgeBaseBuilder) -> None:
        self.source, self.builder = source, builder
        self._rows: dict[TableLayout, list[tuple[int, tuple[str, ...]]]] = {}
        self._alone: dict[str, int] = {}

    def name(self, value: object, what: str, number: int) -> str:
        """Return the name of a node, relation or type; `what` and `number` say where it stands."""
        if isinstance(value, bytes):
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise self.error(f"the {what} {number:,} is not UTF-8", number, repr(value)) from None
        if isinstance(value, str | int | np.integer) and not isinstance(value, bool):
            return str(value)
        hint = "rename the nodes with networkx.relabel_nodes(graph, str)"
        message = f"the {what} {number:,} is neither text nor an integer: {shorten(repr(value))}"
        raise InputError(message, location=self.location(number, repr(value)), hint=hint)

    def location(self, number: int, text: str) -> Location:
        """Return the location of a node or edge, which are numbered as lines."""
        return Location(self.source, number, 1, text, max(len(text), 1))

    def error(self, message: str, number: int, text: str) -> InputError:
        return InputError(message, location=self.location(number, text))

    def add_object(self, number: int, name: str) -> None:
        """Add an object, which may have no fact."""
        self._alone[name] = number

    def add_fact(self, number: int, relation: str, confidence: float, *objects: str) -> None:
        """Add a fact."""
        self._add(_FACTS, number, relation, repr(confidence), *objects)

    def add_value(self, number: int, node: str, attribute: str, value: float) -> None:
        """Add the value of an attribute."""
        self._add(DEFAULT_LAYOUTS["attributes"], number, node, attribute, repr(value))

    def _add(self, layout: TableLayout, number: int, *fields: str) -> None:
        rows = self._rows.setdefault(layout, [])
        rows.append((number, fields))
        if len(rows) >= BATCH_SIZE:
            self.flush()

    def flush(self) -> None:
        """Add the collected rows to the builder."""
        names, none = list(self._alone), np.zeros(0, np.int32)
        ids = self.builder.encode_names(names, lambda row: self.location(self._alone[names[row]], names[row]))
        self.builder.declare(ids, none, none, none, lambda row, _: self.location(row + 1, ""))
        self._alone = {}
        for layout, rows in self._rows.items():
            widths = np.array([len(fields) for _, fields in rows], np.int64)
            lines = np.array([number for number, _ in rows], np.int64)
            flat = [field for _, fields in rows for field in fields]
            add_rows(RowBatch(self.source, flat, widths, lines, "\t"), layout, self.builder)
        self._rows = {}
