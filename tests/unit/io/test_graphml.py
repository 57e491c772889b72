"""GraphML: edges are facts; data of nodes are types, numbers and labels; crafted files are one error."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gaifman.config import Limits
from gaifman.errors import InputError
from gaifman.io import read
from gaifman.kb.knowledge_base import KnowledgeBase

START = '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'


def key(own: str, scope: str, name: str, kind: str = "string", default: str = "") -> str:
    inside = f"<default>{default}</default>" if default else ""
    return f'<key id="{own}" for="{scope}" attr.name="{name}" attr.type="{kind}">{inside}</key>\n'


def data(**values: str) -> str:
    return "".join(f'<data key="{own}">{text}</data>' for own, text in values.items())


def graph(tmp_path: Path, *parts: str, directed: bool = True, name: str = "x.graphml") -> KnowledgeBase:
    keys = "".join(part for part in parts if part.startswith("<key"))
    rest = "\n".join(part for part in parts if not part.startswith("<key"))
    default = "directed" if directed else "undirected"
    text = f'{START}{keys}<graph id="G" edgedefault="{default}">\n{rest}\n</graph>\n</graphml>\n'
    (tmp_path / name).write_text(text)
    return read(tmp_path / name)


def facts(kb: KnowledgeBase) -> list[str]:
    return [str(fact) for fact in kb.facts()]


def test_nodes_and_edges(tmp_path: Path) -> None:
    kb = graph(
        tmp_path,
        key("d0", "node", "label"),
        key("d1", "node", "age", "int"),
        key("d2", "node", "type"),
        key("d3", "node", "rich", "boolean"),
        key("d4", "edge", "relation", default="knows"),
        key("d5", "edge", "confidence", "double"),
        key("d6", "node", "comment"),
        f'<node id="n0">{data(d0="Ann &amp; Co", d1="80", d2="person", d3="true", d6="x")}</node>',
        f'<node id="n1">{data(d3="false")}</node><node id="n2"/>',
        f'<edge source="n0" target="n1">{data(d4="parent", d5="0.5")}</edge>',
        '<edge source="n1" target="n0"/>',
    )
    assert facts(kb) == ["knows(n1, n0).", "0.5::parent(n0, n1).", "person(n0).", "rich(n0)."]
    assert kb.value("age", "n0") == 80
    assert kb.labels == {"n0": "Ann & Co"}
    assert list(kb.objects) == ["n0", "n1", "n2"]
    assert str(kb.notes[0]) == "1 text of a node skipped, such as comment: x"


def test_edges_without_a_relation_or_direction(tmp_path: Path) -> None:
    kb = graph(
        tmp_path,
        '<edge source="a" target="b"/><edge source="c" target="c"/><edge source="a" target="c" directed="true"/>',
        directed=False,
    )
    assert facts(kb) == ["edge(a, b).", "edge(a, c).", "edge(b, a).", "edge(c, c)."]
    assert str(kb.notes[0]) == "1 edge without a direction, read in both directions, such as a – b"
    assert facts(graph(tmp_path, '<edge source="a" target="b" directed="false"/>')) == ["edge(a, b).", "edge(b, a)."]


def test_files_of_neo4j(tmp_path: Path) -> None:
    kb = graph(
        tmp_path,
        key("labels", "node", "labels"),
        key("name", "node", "name"),
        key("label", "edge", "label"),
        f'<node id="n0" labels=":Person:Actor">{data(labels=":Person:Actor", name="Ann")}</node>',
        f'<edge id="e0" source="n0" target="n0" label="ACTED_IN">{data(label="ACTED_IN")}</edge>',
        '<edge id="e1" source="n0" target="n0" label="KNOWS"/>',
    )
    assert facts(kb) == ["ACTED_IN(n0, n0).", "Actor(n0).", "KNOWS(n0, n0).", "Person(n0)."]
    assert kb.labels == {"n0": "Ann"}


def test_nested_graphs_and_hyperedges(tmp_path: Path) -> None:
    kb = graph(
        tmp_path,
        '<node id="a"><graph edgedefault="undirected"><node id="b"/><edge source="b" target="a"/></graph></node>',
        f'<hyperedge>{data(relation="gave")}<endpoint node="a"/><endpoint node="b"/><endpoint node="c"/></hyperedge>',
        '<edge source="a" target="c"/>',
    )
    assert facts(kb) == ["edge(a, b).", "edge(a, c).", "edge(b, a).", "gave(a, b, c)."]


def test_detected_by_content(tmp_path: Path) -> None:
    kb = graph(tmp_path, '<edge source="a" target="b"/>')
    text = (tmp_path / "x.graphml").read_text()
    (tmp_path / "x.xml").write_text(text)
    (tmp_path / "x.gz").write_bytes(gzip.compress(text.removeprefix('<?xml version="1.0" encoding="UTF-8"?>').encode()))
    (tmp_path / "y.xml").write_text('<g:graphml xmlns:g="http://g"><g:edge source="a" target="b"/></g:graphml>')
    assert read(tmp_path / "x.xml") == read(tmp_path / "x.gz") == read(tmp_path / "y.xml") == kb


def test_files_of_networkx(tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx")
    found = networkx.DiGraph()
    found.add_node("ann", type="person", age=80)
    found.add_edge("ann", "bob", relation="parent", confidence=0.5)
    networkx.write_graphml(found, tmp_path / "x.graphml")
    kb = read(tmp_path / "x.graphml")
    assert facts(kb) == ["0.5::parent(ann, bob).", "person(ann)."]
    assert kb.value("age", "ann") == 80


LAUGHS = "".join(f'<!ENTITY {one} "{f"&{other};" * 10}">' for other, one in zip("abcdefgh", "bcdefghi", strict=True))
G = "<graphml><graph>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'<!DOCTYPE g [<!ENTITY a "ha">{LAUGHS}]>\n<graphml>&i;</graphml>', "the entity b refers to other entities"),
        ('<!DOCTYPE g [<!ENTITY a SYSTEM "/etc/passwd">]>\n<graphml>&a;</graphml>', "the entity a refers to other"),
        (G + "<node id='a'><graph>\n" * 50_000, "elements are nested deeper than 1,000"),
        (f"{G}\n<edge target='a'/>", "line 2, column 1: the edge has no source\n  <edge target='a'/>\n  ^"),
        (f"{G}\n<node/>", "line 2, column 1: the node has no id"),
        (f"{G}<node id='a'><data>x</data></node>", "the data has no key"),
        (f"{G}\n<node id='a'>", "line 2, column 14: not XML: no element found"),
        (f"{G}</node>", "not XML: mismatched tag"),
        ("<other/>", "this is not GraphML: its first element is other, not graphml"),
        (
            f"<graphml>{key('k', 'node', 'age', 'int')}<graph><node id='a'>{data(k='old')}</node>",
            "age must be a finite",
        ),
        (
            f"<graphml>{key('k', 'node', 'age', 'int')}<graph><node id='a'>{data(k='9e999')}</node>",
            "age must be a finite",
        ),
        (
            f"{G}<edge source='a' target='b'>{data(confidence='2')}</edge></graph></graphml>",
            "a confidence must be above 0",
        ),
        (f"{G}<edge source='a' target='b'/><hyperedge><endpoint node='a'/></hyperedge>", "edge has 2 arguments, not 1"),
        (f"{G}<hyperedge/>", "a fact has 1 to 8 objects, not 0"),
        (f"{G}<node id='a'>{data(k='x' * 300)}</node>", "the text is longer than 200 characters"),
        ('<?xml version="1.0" encoding="foo"?><graphml/>', "unknown encoding: foo"),
    ],
)
def test_a_crafted_file_is_one_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.graphml").write_text(text.replace("><data", ">\n<data") + "\n")
    with pytest.raises(InputError) as caught:
        read(tmp_path / "x.graphml", limits=Limits(line=200) if "200 char" in message else Limits())
    assert message in str(caught.value) or "line is longer" in str(caught.value)


def test_limits(tmp_path: Path) -> None:
    (tmp_path / "x.graphml").write_text(G + "<edge source='a' target='b'/>\n" * 10 + "</graph></graphml>")
    with pytest.raises(InputError, match="there are more than 4 facts and values"):
        read(tmp_path / "x.graphml", limits=Limits(facts=4))
    with pytest.raises(InputError, match="has more than 100 bytes"):
        read(tmp_path / "x.graphml", limits=Limits(bytes=100))
