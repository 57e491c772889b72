"""Labels are shown wherever a person sees names; fields for programs keep names, and have labels beside them."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path

import pytest

import gaifman
from gaifman.completion import Completion
from gaifman.explain.explanation import Explanation
from gaifman.kb.knowledge_base import Fact, KnowledgeBase

COUNT = 24


def people() -> KnowledgeBase:
    """Persons p0 … who live and work in towns; two towns have the label Springfield."""
    facts: list[tuple[str, ...]] = [("town", f"t{i}") for i in range(4)]
    for i in range(COUNT):
        facts += [("person", f"p{i}"), ("lives_in", f"p{i}", f"t{i % 4}")]
        facts += [("works_in", f"p{i}", f"t{i % 4}")] if i else []
    labels = {f"p{i}": f"Person {i}" for i in range(COUNT)}
    towns = {"t0": "Springfield", "t1": "Springfield", "t2": "Shelbyville"}  # t3 has no label
    return KnowledgeBase.from_facts(facts, {("age", "p1"): 40}, labels=labels | towns)


@cache
def model() -> Completion:
    return gaifman.complete(people(), ["works_in"], seed=1)


@cache
def explanation() -> Explanation:
    return model().explain_answer("works_in('Person 1', y)", {}, ["Springfield (t1)"])


def test_ranked_answers() -> None:
    found = model().answers("works_in('Person 0', y)", top=4)
    shown = {row.names[0]: row.shown[0] for row in found}
    assert shown == {"t0": "Springfield (t0)", "t1": "Springfield (t1)", "t2": "Shelbyville", "t3": "t3"}
    assert "Springfield (t0)" in str(found)
    assert str(found).startswith("works_in('Person 0', y)\n")
    assert "Shelbyville" in found._repr_html_()
    body = found.as_dict()
    assert body["query"] == "works_in('p0', y)"
    assert body["query_labels"] == "works_in('Person 0', y)"
    assert {row["names"][0] for row in body["answers"]} == {"t0", "t1", "t2", "t3"}
    assert body["labels"]["p0"] == "Person 0"
    assert body["labels"]["t0"] == "Springfield (t0)"
    assert "t3" not in body["labels"]


def test_bindings_may_be_labels() -> None:
    found = model().answers("works_in(x, y)", {"x": "Person 0"}, top=1)
    assert found.bracketed == "works_in('p0', y)"
    assert model().probability("works_in", "Person 0", "Springfield (t0)").value == found[0].probability


def test_explanations() -> None:
    found = explanation()
    text = str(found)
    assert text.startswith("works_in('Person 1', 'Springfield (t1)')")
    assert "lives_in('Person 1', 'Springfield (t1)')" in text
    assert "p1" not in text
    assert "Springfield (t1)" in found._repr_html_()
    picture = found.svg()
    assert ">Springfield (t1)</text>" in picture
    assert "<title>Person 1 (p1)</title>" in picture
    assert found.objects == ("p1", "t1")


def test_fields_of_explanations_keep_names() -> None:
    body = explanation().as_dict()
    assert body["query"] == "works_in('p1', 't1')"
    assert body["query_labels"] == "works_in('Person 1', 'Springfield (t1)')"
    assert body["labels"]["t1"] == "Springfield (t1)"
    [reason] = [one for one in body["reasons"] if one["formula"] == "lives_in('p1', 't1')"]
    assert reason["labelled"] == "lives_in('Person 1', 'Springfield (t1)')"
    assert reason["facts"] == [Fact("lives_in", ("p1", "t1")).as_dict()]
    json.dumps(body)


def test_networks_show_labels_too() -> None:
    kb = people()
    trained = gaifman.fit(kb, "works_in(x, y)", base="mlp", size=5, options={"epochs": 1}, seed=1)
    found = trained.explain_answer("works_in('p1', y)", {}, ["t1"])
    assert str(found).startswith("works_in('Person 1', 'Springfield (t1)')")
    assert all("p1" not in reason.shown.replace("Springfield (t1)", "") for reason in found.reasons)


def test_conflicts() -> None:
    found = model().answers("works_in('Person 1', y)", top=4)
    messages = [conflict.message for row in found for conflict in row.conflicts]
    assert messages
    assert all(message.startswith("conflicts with works_in('Person 1',") for message in messages)
    conflict = next(conflict for row in found for conflict in row.conflicts)
    assert conflict.facts == (Fact("works_in", ("p1", "t1")),)


def test_missing_facts(tmp_path: Path) -> None:
    found = model().missing(above=0.5, why=True)
    first = found[0]
    assert first.objects == ("p0", "t0")
    assert first.statement == "works_in('Person 0', 'Springfield (t0)')"
    assert "lives_in('Person 0', 'Springfield (t0)')" in first.note
    assert first.as_dict()["labels"] == {"p0": "Person 0", "t0": "Springfield (t0)"}
    assert "Springfield (t0)" in found._repr_html_()
    found.save(tmp_path / "missing.csv")
    with (tmp_path / "missing.csv").open() as file:
        [row] = csv.DictReader(file)
    assert (row["head"], row["head_label"], row["tail"], row["tail_label"]) == (
        "p0",
        "Person 0",
        "t0",
        "Springfield (t0)",
    )
    assert row["facts"] == "lives_in(p0, t0)"
    assert row["facts_labels"] == "lives_in('Person 0', 'Springfield (t0)')"
    found.save(tmp_path / "missing.jsonl")
    again = gaifman.read(tmp_path / "missing.jsonl")
    assert again.labels == {"p0": "Person 0"}
    assert [fact.objects for fact in again.facts()] == [("p0", "t0")]


def test_missing_facts_as_rdf_have_whole_iris(tmp_path: Path) -> None:
    text = "@prefix ex: <http://e/> .\n" + "".join(
        f"ex:p{i} ex:lives ex:t{i % 3} . ex:p{i} a ex:P . {f'ex:p{i} ex:works ex:t{i % 3} .' if i else ''}\n"
        for i in range(18)
    )
    (tmp_path / "x.ttl").write_text(text)
    kb = gaifman.read(tmp_path / "x.ttl")
    found = gaifman.complete(kb, ["ex:works"], seed=1).missing(above=0.3)
    assert found[0].statement == "'ex:works'('ex:p0', 'ex:t0')"
    found.save(tmp_path / "missing.nt")
    assert (tmp_path / "missing.nt").read_text().startswith("<http://e/p0> <http://e/works> <http://e/t0> . # ")
    assert ("ex:works", "ex:p0", "ex:t0") in gaifman.read(tmp_path / "x.ttl", tmp_path / "missing.nt")


def test_without_labels_there_are_no_fields_for_them() -> None:
    kb = KnowledgeBase(people().content)
    bare = model().with_kb(kb)
    body = bare.answers("works_in('p0', y)", top=1).as_dict()
    assert not {"labels", "query_labels"} & set(body)
    explained = bare.explain_answer("works_in('p1', y)", {}, ["t1"]).as_dict()
    assert not {"labels", "query_labels"} & set(explained)
    assert not any({"labels", "labelled"} & set(reason) for reason in explained["reasons"])
    found = bare.missing(above=0.5)
    assert not any(name.endswith("_label") for name in found.columns())
    assert "labels" not in found[0].as_dict()


@pytest.mark.parametrize("html", [True, False])
def test_exact_answers_and_facts(html: bool) -> None:
    kb = people()
    found = gaifman.query(kb, "lives_in('Person 2', y)")
    assert "Shelbyville" in (found._repr_html_() if html else str(found))
    assert "Springfield (t0)" in kb._repr_html_()
