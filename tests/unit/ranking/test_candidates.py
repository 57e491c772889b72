"""Candidates: strategies, restrictions, types of positions, limits."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.errors import FormulaError, KnowledgeBaseError, LimitError
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import relation_query
from gaifman.logic.parser import parse_query
from gaifman.ranking.candidates import (
    MAX_TYPES,
    STRATEGIES,
    Candidates,
    RankingOptions,
    atom_pattern,
    model_pattern,
    objects_of_type,
    position_types,
    select_candidates,
)
from kbs import knowledge_bases, plain_names
from trained import demo, towns

KB = KnowledgeBase.from_facts(
    tuple(text.split())
    for text in ("likes a b", "likes b c", "likes c c", "knows c d", "man a", "man d", "sold a b e", "sold b a f")
)
"""The graph is a — b — c — d; `sold` links e and f."""


def found(
    text: str,
    kb: KnowledgeBase = KB,
    way: str = "auto",
    limit: int = 1_000,
    known: str = "mark",
    **restrict_to: str | list[str],
) -> Candidates:
    relation, pattern = atom_pattern(text, kb, list(kb.relations))
    options = RankingOptions(10, known, restrict_to, way, limit)
    query = relation_query(relation, kb.relations[relation].arity)
    return select_candidates(kb, query, pattern, kb.tuples(relation), options)


def named(one: Candidates, kb: KnowledgeBase = KB) -> list[str]:
    return ["".join(kb.object_name(number) for number in row) for row in one.values.tolist()]


def pairs(first: str, second: str) -> list[str]:
    return ["".join(pair) for pair in product(first, second)]


# One variable


def test_one_variable_without_a_type_ranges_over_all_objects() -> None:
    assert named(found("likes('a', y)")) == list("abcdef")
    assert named(found("likes(x, x)", limit=1)) == list("abcdef"), "one variable has no limit"
    assert found("likes('a', y)").description == "all objects"


def test_one_variable_restricted_to_a_type_or_a_list() -> None:
    one, other = found("likes('a', y)", y="man"), found("likes('a', y)", y=["d", "b", "d"])
    assert (named(one), one.description) == (["a", "d"], "man")
    assert (named(other), other.description) == (["b", "d"], "named objects")


def test_one_variable_over_seen_objects() -> None:
    assert named(found("likes('a', y)", way="seen")) == ["b", "c"]
    assert named(found("likes(x, x)", way="seen")) == ["b", "c"], "at both positions"
    assert named(found("man(x)", way="near")) == ["a", "d"]
    assert named(found("man(x)", way="typed")) == list("abcdef"), "who else could be a man?"
    assert found("man(x)", way="seen").description == "objects seen at this position"


def test_no_variable() -> None:
    nothing = found("likes('a', 'b')")
    assert nothing.values.shape == (1, 0)
    assert nothing.description == "the tuple itself"


# Several


def test_all_pairs_within_the_limit() -> None:
    both = found("likes(x, y)")
    assert named(both) == pairs("abcdef", "abcdef")
    assert both.description == "all pairs of objects"


def test_seen_then_near_above_the_limit() -> None:
    assert named(found("likes(x, y)", limit=6)) == pairs("abc", "bc")
    near = found("likes(x, y)", limit=5)
    assert near.description == "pairs of objects seen at these positions, at most 1 step apart in the graph"
    assert named(near) == ["ab", "bb", "bc", "cb", "cc"]
    with pytest.raises(LimitError, match="there are more than 4 candidates for x, y") as caught:
        found("likes(x, y)", limit=4)
    assert "bind x to an object" in caught.value.hint


def test_types_are_those_that_the_objects_at_a_position_have_in_common() -> None:
    kb = KB.with_facts([("toy", "e"), ("toy", "f"), ("toy", "g"), ("blue", "e"), ("blue", "h")])
    typed = found("sold('a', 'b', z)", kb)
    assert (named(typed, kb), typed.description) == (["e", "f", "g"], "toy")
    assert named(found("sold(x, 'b', z)", kb, z=["g", "a"]), kb) == ["ag", "aa"][::-1] + pairs("bcdefgh", "ag"), "any x"
    assert named(found("likes('a', y)", kb), kb) == list("abcdefgh"), "b and c have no type"
    untyped = KnowledgeBase.from_facts([("likes", "a", "b"), ("likes", "b", "c")])
    assert named(found("likes(x, y)", untyped), untyped) == pairs("abc", "abc")


def test_objects_seen_at_a_position_are_candidates_without_its_type() -> None:
    facts = [("owns", f"p{i}", f"t{i}") for i in range(10)] + [("toy", f"t{i}") for i in (*range(9), 20)]
    kb = KnowledgeBase.from_facts(facts)
    assert position_types(kb, "owns") == {1: "toy"}
    assert named(found("owns('p0', y)", kb), kb) == sorted([f"t{i}" for i in (*range(10), 20)])
    assert position_types(kb.without_facts([("toy", "t8")]), "owns") == {}, "fewer than nine in ten"


def test_a_position_of_several_types_has_candidates_of_each() -> None:
    """The first facts of `separates` are of mountain ranges; others are of rivers and straits."""
    assert position_types(demo(), "separates") == {1: "country", 2: "country"}
    candidates = found("separates(x, 'france', 'spain')", demo())
    assert candidates.description == "lake or mountain_range or river or strait"
    assert len(candidates.values) == sum(demo().relations[name].count for name in candidates.description.split(" or "))


def test_a_position_of_too_many_types_or_none_has_all_objects() -> None:
    for types in (1, MAX_TYPES, MAX_TYPES + 1):
        facts = [("r", f"a{number}", f"b{number}") for number in range(types)]
        kb = KnowledgeBase.from_facts([*facts, *((f"t{number}", f"b{number}") for number in range(types)), ("s", "c")])
        expected = types if types <= MAX_TYPES else len(kb.objects)
        assert len(found("r('a0', y)", kb).values) == expected
    untyped = KnowledgeBase.from_facts([("r", "a", f"b{number}") for number in range(20)] + [("t", "b0"), ("t", "c")])
    assert found("r('a', y)", untyped).description == "all objects"


def test_all_ranks_all_objects() -> None:
    assert (found("capital('france', y)", demo()).description, len(found("capital('france', y)", demo()).values)) == (
        "city",
        735,
    )
    every = found("capital('france', y)", demo(), "all")
    assert (every.description, len(every.values)) == ("all objects", len(demo().objects))


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("capital(x, y)", "pairs of country and city"),
        ("exists z. borders(x, z) & capital(z, y)", "pairs of country and city"),
        ("capital(x, y) | flows_through(y, x)", "pairs of country and city or river"),
        ("capital(x, y) | x = y", "all pairs of objects"),
        ("~capital(x, y) & borders(x, z)", "combinations of country, any object and country"),
        ("exists x. borders(x, y) & (exists y. capital(x, y))", "country"),
        ("monarchy(x) & country(x)", "country"),
        ("country(x)", "all objects"),
        ("exists r. r(x, 'danube')", "all objects"),
    ],
)
def test_the_atoms_of_a_query_choose_the_types(text: str, description: str) -> None:
    kb = demo().induced([*list(demo().objects)[:150], "france", "paris", "danube", "rhine", "spain", "madrid"])
    query = parse_query(text, demo())
    options = RankingOptions(candidates="typed", max_candidates=10**9)
    known = np.zeros((0, len(query.variables)), np.int32)
    assert select_candidates(kb, query, model_pattern(query, kb), known, options).description == description


def test_a_query_with_connectives_has_candidates_by_its_atoms() -> None:
    query = parse_query("exists z. borders(x, z) & capital(z, y)", demo())
    pattern = model_pattern(query, demo(), bindings={"x": "france"})
    candidates = select_candidates(demo(), query, pattern, np.zeros((0, 2), np.int32))
    assert (candidates.description, len(candidates.values)) == ("city", 735)


def test_explicit_strategies() -> None:
    assert named(found("likes(x, y)", way="near")) == pairs("abc", "bc"), "two steps reach all"
    assert named(found("likes(x, y)", way="seen")) == pairs("abc", "bc")
    for way in ("all", "seen"):
        with pytest.raises(LimitError):
            found("likes(x, y)", way=way, limit=5)


def test_types_and_lists_of_several_variables() -> None:
    one = found("likes(x, y)", x="man", y=["b", "c"])
    assert named(one) == pairs("ad", "bc")
    assert one.description == "pairs of man and named objects"
    assert named(found("likes(x, y)", way="seen", x="man")) == pairs("a", "bc")
    assert len(found("likes(x, y)", x=[]).values) == 0


def test_near_starts_from_fixed_objects() -> None:
    three = found("sold(x, y, 'e')", way="near")
    assert named(three) == ["aa", "ab", "ba", "bb"]
    assert three.description == "pairs of objects seen at these positions, at most 2 steps apart in the graph"
    assert named(found("sold(x, y, 'e')", way="near", limit=3, x=["a"])) == ["aa", "ab"]
    assert found("sold(x, y, z)", way="seen").description == "combinations of 3 objects seen at these positions"
    assert len(found("sold(x, y, z)", way="near").values) == 8


def test_the_order_of_answers_names() -> None:
    assert named(found("q(y, x) :- likes(x, y)", way="seen")) == pairs("bc", "abc")


def test_on_the_demo_pairs_of_countries_that_border_some() -> None:
    several = found("borders(x, y)", demo(), limit=100_000)
    assert len(several.values) == 197**2, "countries without neighbours are countries too"
    assert several.description == "pairs of country and country"
    assert len(found("borders(x, y)", demo(), limit=30_000).values) == len(np.unique(demo().tuples("borders"))) ** 2
    near = found("borders(x, y)", demo(), way="near", limit=2_000)
    assert 600 < len(near.values) <= 2_000
    assert "1 step apart" in near.description


@given(knowledge_bases(names=plain_names, attributes=False, largest_arity=2, facts=12))
def test_near_by_its_definition(kb: KnowledgeBase) -> None:
    graph = build_graph(kb)
    for relation in (name for name, own in kb.relations.items() if own.arity == 2 and own.count):
        near = found(f"'{relation}'(x, y)" if not relation.isidentifier() else f"{relation}(x, y)", kb, "near")
        facts = kb.tuples(relation)
        wanted = [
            [x, y]
            for x in np.unique(facts[:, 0]).tolist()
            for y in np.unique(facts[:, 1]).tolist()
            if 0 <= graph.distances([x])[y] <= 2
        ]
        assert near.values.tolist() == wanted


# Known answers


def test_known_answers_that_match() -> None:
    def known(text: str, x: str = "") -> list[str]:
        return named(found(text, known="only", x=x) if x else found(text, known="only"))

    assert known("likes(x, y)") == ["ab", "bc", "cc"]
    assert known("likes(x, x)") == ["c"]
    assert known("likes('b', y)") == ["c"]
    assert known("likes(x, y)", x="man") == ["ab"]
    assert known("likes('a', 'c')") == []
    assert known("likes('a', 'b')") == [""]


# Errors


def test_errors() -> None:
    with pytest.raises(KnowledgeBaseError, match="there is no type men") as caught:
        found("likes(x, y)", x="men")
    assert "man" in caught.value.suggestions
    with pytest.raises(KnowledgeBaseError, match="there is no type likes"):
        objects_of_type(KB, "likes")
    with pytest.raises(KnowledgeBaseError, match="there is no object z"):
        found("likes(x, y)", x=["z"])
    with pytest.raises(FormulaError, match="there is no variable z to restrict") as other:
        found("likes('a', y)", z="man")
    assert other.value.hint == "variables without an object: y"
    with pytest.raises(FormulaError, match="no variable x") as other:
        found("likes('a', 'b')", x="man")
    assert other.value.hint == "every variable has an object"


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "many"])
def test_the_limit_is_an_integer(limit: object) -> None:
    with pytest.raises(KnowledgeBaseError, match="max_candidates must be an integer"):
        RankingOptions(max_candidates=limit)  # type: ignore[arg-type]


def test_strategies_are_checked() -> None:
    for way in STRATEGIES:
        assert RankingOptions(candidates=way).candidates == way
    with pytest.raises(
        KnowledgeBaseError, match="candidates must be one of auto, all, typed, seen, near, got 'sean'"
    ) as caught:
        RankingOptions(candidates="sean")
    assert caught.value.suggestions == ("seen",)


@given(st.integers(0, 4))
def test_a_type_without_objects(count: int) -> None:
    kb = towns().with_facts([("ghost", f"g{i}") for i in range(count + 1)]).without_facts([("ghost", "g0")])
    assert [kb.object_name(i) for i in objects_of_type(kb, "ghost").tolist()] == [f"g{i}" for i in range(1, count + 1)]
