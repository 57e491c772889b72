"""Links of relations, leakage and splits equal their definitions, on generated knowledge bases."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaifman
from gaifman.errors import KnowledgeBaseError
from gaifman.kb.knowledge_base import KnowledgeBase, merge
from gaifman.kb.leakage import find_leakage
from gaifman.kb.links import find_links
from linked_kbs import KINDS, linked_kb, reference_leaks, reference_links

KBS = st.builds(
    linked_kb,
    st.lists(st.sampled_from(KINDS), max_size=4),
    st.integers(4, 60),
    st.integers(0, 6),
    st.integers(0, 2**32),
)


def keys_of(kb: KnowledgeBase) -> set[tuple[str, str, str, tuple[int, ...]]]:
    """The links that are found, without their counts."""
    return {(link.kind, link.relation, link.other, link.order) for link in find_links(kb.content)}


@given(KBS)
def test_links_equal_their_definition(kb: KnowledgeBase) -> None:
    found, expected = keys_of(kb), reference_links(kb)
    assert found <= expected
    symmetric = {relation for kind, relation, _, _ in expected if kind == "symmetric"}
    for kind, one, two, _ in expected - found:  # they follow from the link without an exchange
        assert kind.startswith("inverse")
        assert symmetric & {one, two}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("symmetric", "symmetric"), ("inverse", "inverse"), ("copy", "duplicate"), ("part", "subset")],
)
def test_each_kind_is_found(kind: str, expected: str) -> None:
    kb = linked_kb([kind], 200, 2, 3)
    assert expected in {link.kind for link in find_links(kb.content)}


def test_random_relations_are_not_linked_however_dense() -> None:
    rng = random.Random(1)
    objects = [f"o{i}" for i in range(20)]
    facts = [(f"r{n}", a, b) for n in range(4) for a in objects for b in objects if rng.random() < 0.8]
    assert find_links(KnowledgeBase.from_facts(facts).content) == []


@given(KBS, st.floats(0, 0.4), st.floats(0, 0.4), st.integers(0, 9), st.booleans(), st.booleans())
def test_a_split_is_a_partition_that_keeps_what_it_promises(
    kb: KnowledgeBase, valid: float, test: float, seed: int, inverses: bool, new_objects: bool
) -> None:
    split = kb.split(valid, test, seed=seed, inverses=inverses, new_objects=new_objects)
    parts = [set(part.facts()) for part in split]
    assert sum(map(len, parts)) == len(kb)
    assert set().union(*parts) == set(kb.facts())
    assert list(split.train.values()) == list(kb.values())
    assert split.requested == {"valid": round(valid * len(kb)), "test": round(test * len(kb))}
    assert len(split.valid) <= split.requested["valid"]
    assert len(split.test) <= split.requested["test"]
    assert {fact.relation for fact in parts[0]} == {fact.relation for fact in kb.facts()}
    if new_objects and inverses and all(info.count > 50 for info in kb.relations.values()):
        assert len(split.test) == split.requested["test"]
    if not new_objects:
        kept = {name for fact in parts[0] for name in fact.objects}
        assert {name for fact in parts[1] | parts[2] for name in fact.objects} <= kept
        assert split.train.objects == kb.objects
    if not inverses:
        links = keys_of(kb)
        assert {(link.kind, link.relation, link.other, link.order) for link in split.links} == links
        for one in split:
            for other in split:
                assert one is other or not reference_leaks(one, other, links)


@given(KBS, st.integers(0, 5), st.booleans())
def test_a_split_does_not_depend_on_the_order_of_the_input(kb: KnowledgeBase, seed: int, inverses: bool) -> None:
    values = {(attribute, obj): value for attribute, obj, value in kb.values()}
    shuffled = KnowledgeBase.from_facts([*kb.facts()][::-1], values)
    one, two = (each.split(0.2, 0.2, seed=seed, inverses=inverses) for each in (kb, shuffled))
    assert list(one) == list(two)


def test_each_relation_gives_its_share() -> None:
    kb = linked_kb(["random", "triple", "inverse"], 400, 0, 1)
    split = kb.split(0.1, 0.2, new_objects=True)
    columns = split.columns()
    for whole, valid, test in zip(columns["facts"], columns["valid"], columns["test"], strict=True):
        assert abs(valid - 0.1 * whole) <= 1
        assert abs(test - 0.2 * whole) <= 1
    assert (len(kb.split(7, 11).valid), len(kb.split(7, 11).test)) == (7, 11)
    only = kb.split(0.1, 0.1, relations=["base"])
    assert set(only.test.relations) == {"base"}
    assert [part.fingerprint for part in kb.split(seed=1)] != [part.fingerprint for part in kb.split(seed=2)]


def test_a_new_fact_changes_few_choices() -> None:
    kb = linked_kb(["random"], 400, 0, 1)
    before, after = kb.split(), kb.with_facts([("base", "a new object", "o01")]).split()
    assert len(set(before.test.facts()) ^ set(after.test.facts())) <= 4


@given(KBS, st.integers(0, 5))
def test_leakage_equals_its_definition(kb: KnowledgeBase, seed: int) -> None:
    split = kb.split(0.2, 0.3, seed=seed, new_objects=True)
    if not len(split.test):
        return
    links, (found,) = find_leakage({"train": split.train, "test": split.test})
    kinds = {(link.kind, link.relation, link.other, link.order) for link in links}
    leaks = reference_leaks(split.train, split.test, kinds)
    assert {kind: count for kind, count in found.by_kind.items() if count} == {k: len(v) for k, v in leaks.items()}
    assert found.following == len(set().union(*leaks.values()))
    assert found.inverse_or_duplicate == len(leaks.get("inverse", set()) | leaks.get("duplicate", set()))
    seen = {name for fact in split.train.facts() for name in fact.objects}
    new = {name for fact in split.test.facts() for name in fact.objects} - seen
    assert found.new_objects == len(new)
    assert found.facts_of_new_objects == sum(bool(new.intersection(fact.objects)) for fact in split.test.facts())
    assert found.repeated == 0
    assert merge([split.train, split.test, split.valid]).fingerprint == merge([kb]).fingerprint


def test_repeated_facts_are_leakage() -> None:
    kb = linked_kb(["random"], 60, 0, 1)
    found = gaifman.describe(kb, test=KnowledgeBase.from_facts([*kb.facts("base")][:10])).leakage[0]
    assert (found.repeated, found.is_likely) == (10, True)
    assert "100 % of test facts are facts of train" in str(found)


def test_wrong_sizes_are_refused() -> None:
    kb = linked_kb(["random"], 60, 0, 1)
    for sizes in ((0.5, 0.5), (1.0, 0.1), (-0.1, 0.1), (len(kb), 1), (-1, 0)):
        with pytest.raises(KnowledgeBaseError):
            kb.split(*sizes)
    with pytest.raises(KnowledgeBaseError, match="relations must be a sequence"):
        kb.split(relations="base")
    with pytest.raises(KnowledgeBaseError, match="there is no relation bas") as caught:
        kb.split(relations=["bas"])
    assert caught.value.suggestions == ("base",)
