"""Graphs of networkx and rdflib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import rdflib

from database_files import contents
from gaifman import InputError, read

TURTLE = """@prefix : <http://example.org/> .
:ann a :Person ; :parent :bob ; :age 80 ; :name "Ann"@en ; :knows [ :age 5 ] .
"""


def test_edges_are_facts_of_the_relation_that_they_name() -> None:
    graph = nx.DiGraph()
    graph.add_edge("ann", "bob", relation="parent", confidence=0.5)
    graph.add_edge("bob", "cleo", label="parent", weight=3)
    graph.add_edge("cleo", "dan", type="friend")
    graph.add_edge(b"dan", 5, predicate=7)
    kb = read(graph)
    assert contents(kb) == ["7(dan, 5).", "friend(cleo, dan).", "0.5::parent(ann, bob).", "parent(bob, cleo)."]
    assert [str(note) for note in kb.notes] == [
        "1 graph read as networkx, such as networkx DiGraph",
        "1 attribute of an edge skipped, such as weight",
    ]


def test_keys_of_a_multigraph_are_relations() -> None:
    graph = nx.MultiDiGraph()
    graph.add_edge("ann", "bob", key="parent")
    graph.add_edge("ann", "bob", key="friend")
    graph.add_edge("ann", "bob")
    kb = read(graph)
    assert contents(kb) == ["edge(ann, bob).", "friend(ann, bob).", "parent(ann, bob)."]
    assert "1 edge without a relation read as edge, such as networkx MultiDiGraph" in map(str, kb.notes)


@pytest.mark.parametrize("make", [nx.Graph, nx.MultiGraph])
def test_undirected_edges_hold_in_both_directions(make: Any) -> None:
    graph = make()
    graph.add_edge("france", "spain", relation="borders", confidence=0.5)
    graph.add_edge("france", "france", relation="borders")
    assert contents(read(graph)) == [
        "borders(france, france).",
        "0.5::borders(france, spain).",
        "0.5::borders(spain, france).",
    ]


def test_nodes_have_types_and_attributes() -> None:
    graph = nx.Graph()
    graph.add_node("ann", type="Person", age=80, city="rome", retired=True, cook=False, photo=b"x", size=float("nan"))
    graph.add_node(5, types=["Thing", "Number"])
    graph.add_node("alone")
    kb = read(graph)
    assert contents(kb) == [
        "Number(5).",
        "Person(ann).",
        "Thing(5).",
        "city(ann, rome).",
        "retired(ann).",
        "age(ann) = 80.0",
    ]
    assert [*kb.objects] == ["5", "alone", "ann", "rome"]
    assert "2 attributes of nodes skipped, such as photo" in map(str, kb.notes)


def test_a_graph_of_many_edges() -> None:
    kb = read(nx.path_graph(30_000, create_using=nx.DiGraph))
    assert len(kb) == 29_999


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        ((("x", 1), "b", {}), r"the node 1 is neither text nor an integer: \('x', 1\)\n.*\n.*\nhint: rename the nodes"),
        ((b"\xff", "b", {}), "the node 1 is not UTF-8"),
        (("a", "b", {"relation": 0.5}), "the relation of edge 1 is neither text nor an integer: 0.5"),
        (("a", "b", {"confidence": "high"}), "the confidence of edge 1 is not a number"),
        (("a", "b", {"confidence": 2}), "networkx DiGraph, line 1, .*a confidence must be above 0 and at most 1"),
        (("a", "", {}), "a name cannot be empty"),
    ],
)
def test_bad_edges(edge: Any, message: str) -> None:
    graph = nx.DiGraph()
    graph.add_edges_from([edge])
    with pytest.raises(InputError, match=message):
        read(graph)


def test_rdflib_graphs_read_as_their_files(tmp_path: Path) -> None:
    (tmp_path / "x.ttl").write_text(TURTLE)
    graph = rdflib.Graph().parse(data=TURTLE, format="turtle")
    expected, found = read(tmp_path / "x.ttl", iris="local"), read(graph, iris="local")
    assert len(found) == len(expected) == 3
    assert ("parent", "ann", "bob") in found
    assert found.value("age", "ann") == 80
    assert [note.text for note in found.notes] == ["graphs read as rdflib", "literals in language en skipped"]


def test_rdflib_graphs_keep_prefixes_and_labels() -> None:
    prefix = "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    text = TURTLE + prefix + ':ann rdfs:label "Anne"@fr, "Ann"@en .\n'
    graph = rdflib.Graph().parse(data=text, format="turtle")
    kb = read(graph, language="fr")
    assert (":parent", ":ann", ":bob") in kb
    assert (dict(kb.prefixes), dict(kb.labels)) == ({"": "http://example.org/"}, {":ann": "Anne"})
    assert dict(read(graph, iris="full").prefixes) == {}


def test_labels_of_objects_in_python() -> None:
    kb = read([("Q64", "capital_of", "Q183")], labels={"Q64": "Berlin"})
    assert kb.show("Q64") == "Berlin"


def test_all_graphs_of_a_dataset() -> None:
    dataset = rdflib.Dataset()
    a, p, b, c, g = (rdflib.URIRef(f"http://e/{name}") for name in "apbcg")
    dataset.graph(g).add((a, p, b))
    dataset.default_graph.add((a, p, c))
    assert contents(read(dataset, iris="local")) == ["p(a, b).", "p(a, c)."]


def test_options_of_other_sources() -> None:
    with pytest.raises(InputError, match="networkx Graph is not a database"):
        read(nx.Graph(), table="x")
    with pytest.raises(InputError, match="rdflib Graph has no format; format=turtle is for files"):
        read(rdflib.Graph(), format="turtle")
