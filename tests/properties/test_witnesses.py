"""Witnesses: what makes an answer true, and that nothing else does."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import long_queries as queries_long
from gaifman.config import Budget
from gaifman.errors import KnowledgeBaseError, LimitError, StoppedError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import Atom, Query, Truth, free_variables
from gaifman.logic.parser import parse_query
from gaifman.logic.semantics import holds
from gaifman.queries.answers import answers
from gaifman.queries.engine import Engine
from gaifman.queries.normalize import Domain, normalize
from gaifman.queries.witnesses import (
    alternatives,
    are_answers,
    is_monotone,
    why,
    witness_facts,
    witnesses,
)
from gaifman.sampling.hiding import hide
from generators import RELATIONS, Generator, over_seeds
from witness_cases import FAMILY, positive


@over_seeds(120)
def test_an_answer_holds_exactly_as_long_as_a_witness_is_known(seed: int) -> None:
    rng = random.Random(seed)
    kb, query = queries_long.knowledge(rng), positive(rng)
    with Engine(kb, threads=1) as engine:
        found = answers(engine, query, budget=Budget(combinations=10**9))
        ways = witness_facts(engine, query, found.tuples, max_witnesses=10**6)
    for names, sets in zip(list(found)[:6], ways, strict=False):
        env = dict(zip(query.variables, names, strict=True))
        known = {fact for facts in sets for fact in facts}
        for facts in sets[:5]:
            alone = kb.without_facts([fact for fact in kb.facts() if fact not in facts])
            assert holds(alone.structure(), query.formula, env), f"{facts} do not make {query} true of {names}"
        for _ in range(3):
            hidden = [fact for fact in kb.facts() if fact in known and rng.random() < 0.5]
            left = any(not set(facts) & set(hidden) for facts in sets)
            assert holds(kb.without_facts(hidden).structure(), query.formula, env) == left


def test_witnesses_of_many_answers_at_once() -> None:
    text = "exists z. parent(x, z) & parent(z, y)"
    found = witnesses(
        FAMILY,
        text,
        [
            [FAMILY.object_id("ann"), FAMILY.object_id("cleo")],
            [0, 0],
            [FAMILY.object_id("ann"), FAMILY.object_id("cleo")],
        ],
    )
    assert found.answer.tolist() == [0, 0, 2, 2]
    assert found.facts.dtype == np.int64
    assert found.facts[0].tolist() == sorted(found.facts[0].tolist())


def test_why_names_the_facts() -> None:
    shown = [
        " ".join(map(str, facts)) for facts in why(FAMILY, "exists z. parent(x, z) & parent(z, y)", ("ann", "cleo"))
    ]
    assert shown == ["parent(ann, bea). parent(bea, cleo).", "parent(ann, bob). parent(bob, cleo)."]
    assert why(FAMILY, "parent(x, y)", ("cleo", "ann")) == []
    assert why(FAMILY, "x = 'ann'", ("ann",)) == [()]
    assert [len(facts) for facts in why(FAMILY, "person(x) & age(x) > 3 & ~parent(x, x)", ("ann",))] == [1]
    assert len(why(FAMILY, "exists z. parent(x, z)", ("ann",), max_witnesses=1)) == 1
    assert why(FAMILY, "parent('ann', 'bob')", ()) == [tuple(FAMILY.facts("parent", "bob"))[:1]]


def test_an_answer_has_as_many_objects_as_the_query_has_variables() -> None:
    for answer in (("ann",), ("ann", "bob", "cleo")):
        with pytest.raises(KnowledgeBaseError, match="must have 2 objects, got"):
            why(FAMILY, "parent(x, y)", answer)
    with pytest.raises(KnowledgeBaseError, match="answer must be a sequence of strings"):
        why(FAMILY, "parent(x, y)", "ann")
    with pytest.raises(KnowledgeBaseError, match="must be integers of shape"):
        witnesses(FAMILY, "parent(x, y)", [[1, 2, 3]])
    with pytest.raises(KnowledgeBaseError, match="must be integers of shape"):
        witnesses(FAMILY, "parent(x, y)", [[1.5, 2]])


def test_too_many_witnesses_are_refused() -> None:
    with pytest.raises(StoppedError, match="more than 1 witnesses"):
        witnesses(FAMILY, "exists z. parent(x, z)", [[0]], max_witnesses=1)
    eight = " & ".join(f"(p(x) | q(x) | r(x, x{i}))" for i in range(6))
    with pytest.raises(LimitError, match="729 ways"):
        list(alternatives(normalize(parse_query(eight).formula, Domain(RELATIONS))))


def test_the_ways_to_make_a_formula_true() -> None:
    plain = normalize(parse_query("(p(x) | q(x)) & (r(x, y) | exists z. r(y, z))").formula, Domain(RELATIONS))
    shown = [" ".join(map(str, way)) for way in alternatives(plain)]
    assert shown == [" ".join(pair) for pair in itertools.product(["p(x)", "q(x)"], ["r(x, y)", "r(y, z)"])]
    assert list(alternatives(Truth(True))) == [[]]
    assert list(alternatives(Truth(False))) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exists z. parent(x, z) | parent(z, x)", True),
        ("parent(x, y) & x != y & ~(age(x) > 3)", True),
        ("~~parent(x, y)", True),
        ("person(x) & ~parent(x, x)", False),
        ("forall y. parent(x, y)", False),
        ("person(x) <-> parent(x, x)", False),
    ],
)
def test_whether_facts_decide(text: str, expected: bool) -> None:
    assert is_monotone(parse_query(text, FAMILY), FAMILY) == expected


def test_atoms_are_found_with_facts_of_one_relation_only() -> None:
    (facts,) = why(FAMILY, "gave(x, y, z)", ("ann", "ring", "bob"))
    assert [str(fact) for fact in facts] == ["gave(ann, ring, bob)."]
    assert isinstance(parse_query("gave(x, y, z)", FAMILY).formula, Atom)


@over_seeds(60)
def test_the_first_witnesses_are_the_first_of_all(seed: int) -> None:
    rng = random.Random(seed)
    kb, query = queries_long.knowledge(rng), positive(rng)
    with Engine(kb, threads=1) as engine:
        found = answers(engine, query, budget=Budget(combinations=10**9)).tuples
        every = witness_facts(engine, query, found, max_witnesses=10**6)
        assert all(
            witness_facts(engine, query, found, max_witnesses=most) == [own[:most] for own in every] for most in (1, 3)
        )


def test_one_set_of_facts_that_comes_in_very_many_rows_hides_no_other() -> None:
    """A variable that no fact is about multiplies the rows of every witness."""
    kb = KnowledgeBase.from_facts([("likes", "ann", f"b{i:03}") for i in range(200)])
    query = "exists y, z, w. likes(x, y) & z != w"
    (found,) = witness_facts(kb, query, [[kb.object_id("ann")]], max_witnesses=3)
    assert [str(fact) for (fact,) in found] == ["likes(ann, b000).", "likes(ann, b001).", "likes(ann, b002)."]


def test_the_time_of_witnesses_is_for_all_ways_together() -> None:
    """A query of many ways once had the whole time for each of them, and no end while it sorted what it found."""
    kb = KnowledgeBase.from_facts([("likes", f"a{i:02}", f"a{j:02}") for i in range(50) for j in range(50)])
    chain = "exists a, b, c, d, e. likes(x, a) & likes(a, b) & likes(b, c) & likes(c, d) & likes(d, e)"
    query = " | ".join([f"({chain})"] * 8)
    for most in (3, 10**6):
        with Engine(kb) as engine, pytest.raises(StoppedError):
            witness_facts(engine, query, [[0]], max_witnesses=most, budget=Budget(seconds=0.5))


@over_seeds(120)
def test_which_tuples_are_answers_whatever_the_query_is_made_of(seed: int) -> None:
    rng = random.Random(seed)
    kb = queries_long.knowledge(rng)
    formula = Generator(rng, numbers=True, second_order=True).formula(("x", "y"), rng.randint(1, 4))
    query = Query(free_variables(formula), formula)
    rows = np.array(list(itertools.product(range(len(kb.objects)), repeat=len(query.variables))), np.int32)
    if not query.variables:
        return
    with Engine(kb, threads=1) as engine:
        found = are_answers(engine, query, rows, budget=Budget(combinations=10**9)).tolist()
    structure = kb.structure()
    named = [
        {v: kb.object_name(number) for v, number in zip(query.variables, row, strict=True)} for row in rows.tolist()
    ]
    assert found == [holds(structure, formula, env) for env in named]


def test_which_tuples_are_answers_of_a_query_of_very_many_ways() -> None:
    """A query with ¬ can be trained, although its witnesses cannot be listed."""
    parts = "parent(x, y) | parent(y, x) | person(x) | person(y)"
    either = " & ".join(f"({parts} | gave(x, '{name}', y))" for name in ("ann", "bea", "bob", "cleo"))
    text, names = f"parent(x, y) & ~parent(y, x) & {either}", ("ann", "bob")
    rows = [[FAMILY.object_id(name) for name in names], [FAMILY.object_id(name) for name in reversed(names)]]
    assert are_answers(FAMILY, text, rows).tolist() == [True, False]
    hidden = hide(FAMILY, text, rows)
    assert [str(FAMILY.fact_by_id(number)) for number in hidden.facts.tolist()] == ["parent(ann, bob)."]
    with pytest.raises(LimitError):
        witnesses(FAMILY, text, rows)
