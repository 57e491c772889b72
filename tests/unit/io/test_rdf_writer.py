"""Writing RDF: whole IRIs, prefixes in Turtle, names that are no IRIs, and what RDF cannot hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaifman.errors import OutputError
from gaifman.io import read, write
from gaifman.io.rdf_writer import rdf_node
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.logic.ast import name_problem

names = st.one_of(
    st.text(min_size=1, max_size=8).filter(lambda text: not name_problem(text) and not text.startswith("_:")),
    st.sampled_from(
        ["http://e/x", "urn:gaifman:x", "ex:y", "New York", "mailto:a@b", "a:", ":", "x:é", "gaifman-base:/x"]
    ),
)


@pytest.mark.parametrize("suffix", [".nt", ".ttl", ".nt.gz"])
def test_prefixes_are_written_as_whole_iris(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "a.ttl").write_text(
        "@prefix ex: <http://e/> .\nex:a ex:r ex:b ; a ex:C ; ex:n 2.5 .\nex:b ex:r ex:é .\n"
        'ex:a <http://www.w3.org/2000/01/rdf-schema#label> "A \\"a\\" \\\\ b" .\n'
    )
    kb = read(tmp_path / "a.ttl")
    write(kb, tmp_path / f"b{suffix}")
    again, full = read(tmp_path / f"b{suffix}"), read(tmp_path / "a.ttl", iris="full")
    assert again == (kb if suffix == ".ttl" else full)
    assert list(again.labels.values()) == ['A "a" \\ b']
    if suffix == ".nt":
        text = (tmp_path / "b.nt").read_text()
        assert "ex:" not in text
        assert "<http://e/a> <http://e/r> <http://e/b> .\n" in text
    if suffix == ".ttl":
        text = (tmp_path / "b.ttl").read_text()
        assert text.startswith("@prefix ex: <http://e/> .\n")
        assert "ex:b ex:r <http://e/é> .\n" in text


@given(st.lists(st.tuples(names, names, names), min_size=1, max_size=4), st.sampled_from(["nt", "ttl"]))
@settings(max_examples=60, deadline=None)
def test_any_names_come_back(
    tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[str, str, str]], end: str
) -> None:
    path = tmp_path_factory.mktemp("rdf") / f"x.{end}"
    kb = KnowledgeBase.from_facts([("rel " + relation, head, tail) for relation, head, tail in facts])
    write(kb, path)
    assert read(path, iris="full") == kb


def test_blank_nodes_stay_blank_nodes(tmp_path: Path) -> None:
    assert rdf_node("_:n") == "_:n"
    kb = KnowledgeBase.from_facts([("r", "_:n", "_:anon/1"), ("r", "_:a#2", "_:n")])
    write(kb, tmp_path / "x.nt")
    assert len(read(tmp_path / "x.nt").objects) == 3


def test_what_rdf_cannot_hold_is_an_error(tmp_path: Path) -> None:
    kb = KnowledgeBase.from_facts([Fact("r", ("a", "b"), 0.5), ("s", "a", "b", "c"), ("t", "a", "c")], objects=["d"])
    with pytest.raises(OutputError) as caught:
        write(kb, tmp_path / "x.nt")
    assert "1 object without facts, such as d" in caught.value.message
    assert "1 fact of relations with more than two arguments; 1 confidence below 1" in caught.value.message
    write(kb, tmp_path / "x.nt", lossy=True)
    assert [str(fact) for fact in read(tmp_path / "x.nt").facts()] == ["r(a, b).", "t(a, c)."]
