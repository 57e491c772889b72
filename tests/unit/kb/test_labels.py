"""Labels and prefixes: what is shown finds the object again, and no two objects are shown alike."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaifman
from gaifman.errors import FormulaError, KnowledgeBaseError
from gaifman.kb.knowledge_base import Fact, KnowledgeBase, union
from gaifman.kb.labels import Display, compact, expand, usable_prefixes
from gaifman.kb.reviews import Provenance
from gaifman.kb.tables import SortedNames

LABELS = {"Q142": "France", "Q90": "Paris", "Q230": "Georgia", "Q1428": "Georgia", "Q994": "Tbilisi"}
KB = KnowledgeBase.from_facts(
    [("capital", "Q142", "Q90"), ("capital", "Q230", "Q994"), ("state", "Q1428"), ("near", "Q142", "o")],
    {("age", "Q142"): 5},
    labels=LABELS,
)

texts = st.text("ab ()Q", min_size=1, max_size=6)
prefixes_of = st.dictionaries(st.sampled_from(["a", "b", "ex", ""]), st.sampled_from(["h:/", "h:/a", "h:/a#", "i:"]))


@given(st.sets(texts, min_size=1, max_size=8), st.data())
def test_what_is_shown_finds_the_object_and_only_it(names: set[str], data: st.DataObject) -> None:
    labels = data.draw(st.dictionaries(st.sampled_from(sorted(names)), texts))
    display = Display(SortedNames(names), labels, {})
    shown = [display.show(name) for name in names]
    assert len(set(shown)) == len(names)
    assert [display.find(text) for text in shown] == [(name,) for name in names]


@given(st.sets(st.builds("".join, st.lists(st.sampled_from(["h:/", "a", "#", "b:", "ex:", ".", "é"])))), prefixes_of)
def test_short_names_are_expanded_again(iris: set[str], declared: dict[str, str]) -> None:
    prefixes, _ = usable_prefixes(declared.items(), iris)
    short = {iri: compact(iri, prefixes) for iri in iris}
    assert len(set(short.values())) == len(iris)
    assert all(expand(name, prefixes) == iri for iri, name in short.items())


def test_the_longest_prefix_is_taken() -> None:
    prefixes = {"a": "http://e/", "b": "http://e/x/", "long": "http://e/x/"}
    assert compact("http://e/x/y", prefixes) == "b:y"
    assert compact("http://e/y", prefixes) == "a:y"
    assert compact("http://e/x/", prefixes) == "http://e/x/"
    assert compact("http://e/y/z", prefixes) == "http://e/y/z"


def test_an_object_is_found_by_its_label() -> None:
    assert KB.object_name(KB.object_id("France")) == "Q142"
    assert KB.object_name(KB.object_id("Georgia (Q230)")) == "Q230"
    assert KB.types("Georgia (Q1428)") == ("state",)
    assert KB.value("age", "France") == 5
    assert [str(fact) for fact in KB.facts(obj="Paris")] == ["capital(Q142, Q90)."]
    assert KB.show("France") == "France"
    assert KB.show("Q230") == "Georgia (Q230)"


def test_an_ambiguous_label_lists_its_objects() -> None:
    with pytest.raises(KnowledgeBaseError) as caught:
        KB.object_id("Georgia")
    assert str(caught.value) == (
        "'Georgia' is the label of 2 objects\n"
        "did you mean: Georgia (Q1428), Georgia (Q230)\n"
        "hint: write the name of the object, or its label and name as listed"
    )
    with pytest.raises(FormulaError, match=re.escape("query, line 1, column 9: 'Georgia' is the label of 2 objects")):
        gaifman.query(KB, "capital('Georgia', y)")


def test_near_labels_are_suggested() -> None:
    with pytest.raises(KnowledgeBaseError) as caught:
        KB.object_id("Frnace")
    assert caught.value.suggestions == ("France",)
    with pytest.raises(FormulaError) as query:
        gaifman.query(KB, "capital('Georgja', y)")
    assert query.value.suggestions == ("Georgia (Q1428)", "Georgia (Q230)")


def test_a_name_comes_before_a_label() -> None:
    kb = KnowledgeBase.from_facts([("r", "a", "b")], labels={"a": "b", "b": "a"})
    assert kb.object_name(kb.object_id("a")) == "a"
    assert (kb.show("a"), kb.show("b")) == ("b (a)", "a (b)")


def test_queries_take_labels_and_show_them() -> None:
    found = gaifman.query(KB, "capital('France', y)")
    assert list(found) == [("Q90",)]
    assert str(found) == "capital('France', y)\ny\nParis"
    assert found.bracketed == "capital('Q142', y)"
    assert found.labels == {"Q142": "France", "Q90": "Paris"}
    assert list(gaifman.query(KB, "capital(x, y)", x="France").shown()) == [("France", "Paris")]
    assert gaifman.exists(KB, "capital('France', 'Paris')")
    assert gaifman.parse("capital('France', 'Paris')", KB) == gaifman.parse("capital('Q142', 'Q90')", KB)


def test_labels_are_no_facts() -> None:
    bare = KnowledgeBase.from_facts(
        [("capital", "Q142", "Q90"), ("capital", "Q230", "Q994"), ("state", "Q1428"), ("near", "Q142", "o")],
        {("age", "Q142"): 5},
    )
    assert bare == KB
    assert bare.fingerprint == KB.fingerprint
    assert not bare.labels


def test_labels_are_kept_by_transformations() -> None:
    assert KB.without_facts([("capital", "Q142", "Q90")]).labels == LABELS
    assert KB.with_facts([("capital", "o", "y")]).labels == LABELS
    assert KB.induced(["France", "Q90"]).labels == {"Q142": "France", "Q90": "Paris"}
    assert KB.extend_schema({"capital": 2, "other": 1}).labels == LABELS
    assert pickle.loads(pickle.dumps(KB)).labels == LABELS
    other = KnowledgeBase.from_facts([("capital", "y", "z")], labels={"y": "Why"})
    assert union([KB, other], ["1/", "2/"]).labels == {f"1/{k}": v for k, v in LABELS.items()} | {"2/y": "Why"}
    train, valid, test = KB.split(valid=0, test=1)
    assert train.labels == LABELS
    assert not valid.labels
    assert test.labels == {name: LABELS[name] for name in test.objects if name in LABELS}


def test_labels_can_be_added() -> None:
    kb = KnowledgeBase.from_facts([("r", "a", "b")]).with_labels({"a": "A"}).with_labels({"b": "B"})
    assert kb.labels == {"a": "A", "b": "B"}
    assert kb.with_labels({}) is kb
    with pytest.raises(KnowledgeBaseError, match="there is no object c"):
        kb.with_labels({"c": "C"})
    with pytest.raises(KnowledgeBaseError, match="the label of 'a': a name cannot be empty"):
        kb.with_labels({"a": ""})
    with pytest.raises(KnowledgeBaseError, match="labels must be a mapping of strings to strings"):
        KnowledgeBase.from_facts([("r", "a")], labels={"a": 1})  # type: ignore[dict-item]


def test_facts_of_iris_are_found_and_added_by_prefix() -> None:
    facts = [("ex:r", "ex:a", "ex:b")]
    kb = KnowledgeBase(KnowledgeBase.from_facts(facts).content, prefixes={"ex": "http://e/"})
    assert ("http://e/r", "http://e/a", "ex:b") in kb
    assert kb.object_id("http://e/b") == 1
    assert [*kb.with_facts([Fact("http://e/r", ("http://e/b", "http://e/c"), 0.5)]).facts()][1] == Fact(
        "ex:r", ("ex:b", "ex:c"), 0.5
    )
    assert [*kb.facts("http://e/r")] == [*kb.facts("ex:r")]
    assert kb.iri("ex:a") == "http://e/a"
    assert list(gaifman.query(kb, "'http://e/r'('http://e/a', y)")) == [("ex:b",)]
    with pytest.raises(KnowledgeBaseError) as caught:
        kb.object_id("ex:c")
    assert set(caught.value.suggestions) == {"ex:a", "ex:b"}


def test_prefixes_of_a_union() -> None:
    one, two = (
        KnowledgeBase(KnowledgeBase.from_facts([("r", name)]).content, prefixes={"e": "http://e/", "p": start})
        for name, start in (("e:a", "http://1/"), ("e:b", "http://2/"))
    )
    assert union([one, two]).prefixes == {"e": "http://e/"}


def test_every_change_keeps_labels_prefixes_and_reviews() -> None:
    facts = [("r", "e:a", "e:b"), ("r", "e:b", "e:c"), ("r", "e:c", "e:a"), ("r", "e:a", "e:c")]
    plain = KnowledgeBase(KnowledgeBase.from_facts(facts).content, prefixes={"e": "http://e/"})
    kb = plain.with_labels({"e:a": "A"}).with_reviews(
        {("r", "http://e/a", "http://e/b"): Provenance("m")}, {("r", "http://e/b", "http://e/a"): Provenance("m")}
    )
    split = kb.split(valid=1, test=0, new_objects=True)
    changed = [
        kb.with_labels({"e:b": "B"}),
        kb.with_facts([("r", "http://e/c", "e:b")]),
        kb.without_facts([("r", "e:c", "e:a")]),
        kb.extend_schema({"r": 2, "s": 1}),
        kb.induced(["e:a", "e:b"]),
        union([kb, KnowledgeBase.from_facts([("r", "x", "y")])]),
        pickle.loads(pickle.dumps(kb)),
        split.train,
    ]
    for one in changed:
        assert one.labels["e:a"] == "A"
        assert one.prefixes == {"e": "http://e/"}
        assert list(one.rejected) == [("r", "e:b", "e:a")]
    assert all(("r", "e:a", "e:b") in one.provenance for one in changed[:-1])
    assert [*split.train.provenance, *split.valid.provenance] == [("r", "e:a", "e:b")]
