"""Hiding: without the hidden facts the tuple is no answer, and fewer are not enough."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import long_queries as queries_long
from gaifman.config import Budget, SamplingConfig
from gaifman.features.mining import known_answers
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import Query
from gaifman.logic.parser import parse_query
from gaifman.logic.semantics import Structure, holds
from gaifman.queries.answers import answers
from gaifman.queries.engine import Engine
from gaifman.queries.witnesses import are_answers
from gaifman.sampling.hiding import find_hiding, hide
from gaifman.sampling.hitting_sets import minimum_hitting_set
from gaifman.sampling.neighbourhoods import draw_neighbourhoods
from generators import over_seeds
from witness_cases import FAMILY, positive


def fewest(sets: list[frozenset[int]]) -> int:
    """The size of a smallest set that meets all, by trying all."""
    numbers = sorted(set().union(*sets)) if sets else []
    for size in range(len(numbers) + 1):
        if any(all(one & set(choice) for one in sets) for choice in itertools.combinations(numbers, size)):
            return size
    raise AssertionError("a set is empty")


@over_seeds(300)
def test_a_smallest_set_meets_all_and_no_smaller_one_does(seed: int) -> None:
    rng = random.Random(seed)
    most = rng.randint(1, 8)
    sets = [frozenset(rng.choices(range(most), k=rng.randint(1, 3))) for _ in range(rng.randint(1, 8))]
    key = {number: rng.getrandbits(64) for number in range(most)}
    found = minimum_hitting_set(sets, key)
    assert all(one & found for one in sets)
    assert len(found) == fewest(sets)


def test_beyond_the_steps_every_number_is_still_needed() -> None:
    rng = random.Random(7)
    sets = [frozenset(rng.sample(range(60), 3)) for _ in range(120)]
    found = minimum_hitting_set(sets, {number: rng.getrandbits(64) for number in range(60)}, max_steps=1)
    assert all(one & found for one in sets)
    for number in found:
        assert any(not one & (found - {number}) for one in sets)


def test_many_connected_choices_do_not_exceed_the_recursion_limit() -> None:
    sets = [frozenset({i, i + 1}) for i in range(3_000)]
    found = minimum_hitting_set(sets, {i: i * 7919 % 3001 for i in range(3_001)})
    assert all(one & found for one in sets)


def without(kb: KnowledgeBase, numbers: list[int]) -> Structure:
    """What is left when facts and values are hidden."""
    facts = [kb.fact_by_id(number) for number in numbers if number < len(kb)]
    values = list(kb.values())
    hidden = {values[number - len(kb)][:2] for number in numbers if number >= len(kb)}
    rest = kb.without_facts(facts).structure()
    attributes = {
        name: {obj: value for obj, value in own.items() if (name, obj) not in hidden}
        for name, own in rest.attributes.items()
    }
    return Structure(rest.domain, rest.relations, attributes)


def check_hiding(kb: KnowledgeBase, query: Query, seed: int, most: int = 6) -> int:
    """Compare what is hidden from the first answers with the definition; return how many can be hidden."""
    with Engine(kb, threads=1) as engine:
        found = answers(engine, query, budget=Budget(combinations=10**9))
        hiding = find_hiding(engine, query, found.tuples, seed=seed)
        again = hide(engine, query, found.tuples[::-1], seed=seed)
    for t, names in enumerate(list(found)[:most]):
        numbers = hiding.hidden.of(t).tolist()
        env = dict(zip(query.variables, names, strict=True))
        assert numbers == sorted(set(numbers)) == again.of(len(found) - 1 - t).tolist()
        assert holds(without(kb, numbers), query.formula, env) != hiding.complete[t]
        assert hiding.complete[t] or not numbers
        for number in numbers:  # none is superfluous
            assert holds(without(kb, [n for n in numbers if n != number]), query.formula, env)
    return int(hiding.complete.sum())


@over_seeds(80)
def test_what_is_hidden_makes_the_tuple_no_answer(seed: int) -> None:
    rng = random.Random(seed + 5_000)
    check_hiding(queries_long.knowledge(rng), positive(rng), seed)


@over_seeds(300)
def test_queries_with_negation_universal_quantifiers_and_equivalence_read_their_own_answer(seed: int) -> None:
    """Once, only the facts of the tuple's own objects were hidden, and q(d) stayed true."""
    rng = random.Random(seed + 7_000)
    check_hiding(queries_long.knowledge(rng), queries_long.question(rng), seed)


@over_seeds(100)
def test_what_cannot_be_hidden_is_true_whatever_is_hidden(seed: int) -> None:
    """Nearly always: the search does not put back what it has hidden."""
    rng = random.Random(seed + 9_000)
    kb, query = queries_long.knowledge(rng), queries_long.question(rng)
    with Engine(kb, threads=1) as engine:
        found = answers(engine, query, budget=Budget(combinations=10**9))
        hiding = find_hiding(engine, query, found.tuples, seed=seed)
    everything = range(len(kb) + len(kb.value_table))
    for t, names in enumerate(list(found)[:3]):
        env = dict(zip(query.variables, names, strict=True))
        size = len(hiding.hidden.of(t)) if hiding.complete[t] else 3
        smaller = (set(c) for k in range(min(size, 3)) for c in itertools.combinations(everything, k))
        for numbers in itertools.islice(smaller, 400):
            assert holds(without(kb, sorted(numbers)), query.formula, env), (str(query), names, numbers)


def test_one_atom_hides_its_own_fact_as_mining_does() -> None:
    graph = build_graph(FAMILY)
    pairs, own = known_answers(graph, parse_query("parent(x, y)", FAMILY))
    hidden = hide(FAMILY, "parent(x, y)", pairs)
    assert hidden.starts.tolist() == list(range(len(pairs) + 1))
    assert hidden.facts.tolist() == own.facts.tolist()
    assert len(draw_neighbourhoods(graph, pairs, SamplingConfig(), hidden)) == len(pairs)


def test_every_seed_hides_a_fact_of_each_witness() -> None:
    ann, cleo = FAMILY.object_id("ann"), FAMILY.object_id("cleo")
    seen = set()
    for seed in range(40):
        hidden = hide(FAMILY, "exists z. parent(x, z) & parent(z, y)", [[ann, cleo]], seed=seed)
        seen.add(tuple(str(FAMILY.fact_by_id(number)) for number in hidden.facts.tolist()))
    assert {len(facts) for facts in seen} == {2}
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("text", "answer", "facts"),
    [
        ("parent(x, y) & ~parent(y, x)", ("ann", "bob"), ["parent(ann, bob)."]),
        ("person(x) & forall y. parent(x, y) -> ~person(y)", ("ann",), ["person(ann)."]),
        ("forall y. parent(x, y)", ("ann",), []),
        ("x = 'ann'", ("ann",), []),
        ("person(x) | x = 'ann'", ("ann",), []),
        ("parent(x, y) & parent('ann', y)", ("ann", "bob"), ["parent(ann, bob)."]),
    ],
)
def test_own_facts_where_others_do_not_decide(text: str, answer: tuple[str, ...], facts: list[str]) -> None:
    hidden = hide(FAMILY, text, [[FAMILY.object_id(name) for name in answer]])
    assert [str(FAMILY.fact_by_id(number)) for number in hidden.facts.tolist()] == facts


def test_a_hundred_thousand_answers_at_once() -> None:
    rng = np.random.default_rng(0)
    edges = sorted({(int(a), int(b)) for a, b in rng.integers(0, 600, (12_000, 2))})
    kb = KnowledgeBase.from_facts([("r", f"o{a}", f"o{b}") for a, b in edges])
    text = "exists z. r(x, z) & r(z, y)"
    found = answers(kb, text)
    hidden = hide(kb, text, found.tuples)
    assert len(found) > 90_000
    assert len(hidden.starts) == len(found) + 1
    assert (np.diff(hidden.starts) >= 1).all()


@over_seeds(80)
def test_nothing_is_hidden_from_what_is_no_answer(seed: int) -> None:
    """With ¬ or ∀ the facts of any tuple were hidden once; in training those of negatives are seen."""
    rng = random.Random(seed)
    kb = queries_long.knowledge(rng)
    query = parse_query(rng.choice(["r(x, y) & ~r(y, x)", "forall z. r(x, z) -> r(z, y)", "r(x, y) <-> p(x)"]))
    rows = np.array(list(itertools.product(range(len(kb.objects)), repeat=len(query.variables))), np.int32)
    with Engine(kb, threads=1) as engine:
        hidden, true = hide(engine, query, rows), are_answers(engine, query, rows)
    structure = kb.structure()
    for row, answered, count in zip(rows.tolist(), true.tolist(), np.diff(hidden.starts).tolist(), strict=True):
        env = {v: kb.object_name(number) for v, number in zip(query.variables, row, strict=True)}
        assert holds(structure, query.formula, env) == answered
        assert answered or not count
