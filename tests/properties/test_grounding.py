"""Groundings: facts that make a feature true, by the definition; none hidden, none from outside."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings

from feature_cases import visible
from gaifman.config import SamplingConfig
from gaifman.features.grounding import MAX_GROUNDINGS, LocalStructure, find_groundings, local_structure
from gaifman.kb.gaifman_graph import build_graph, induced_facts
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.logic.ast import Aggregate, Atom, Feature, Forall, Formula, Iff, Implies, Not, Or, Variable, walk
from gaifman.logic.parser import parse_feature
from gaifman.logic.semantics import Extension, Structure, count, holds
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import draw_neighbourhoods
from generators import RELATIONS, Generator, over_seeds
from kbs import knowledge_bases
from long_features import hide, knowledge

FAMILY = KnowledgeBase.from_facts(
    [("parent", "ann", "bob"), ("parent", "ann", "bea"), ("parent", "bob", "cleo"), ("old", "ann")],
    {("age", "ann"): 80},
)


def only(structure: Structure, facts: tuple[Fact, ...]) -> Structure:
    """The same members, and these facts alone."""
    return Structure(
        structure.domain,
        {
            name: Extension(r.arity, frozenset(f.objects for f in facts if f.relation == name))
            for name, r in structure.relations.items()
        },
        structure.attributes,
    )


def neighbourhood(seed: int) -> tuple[LocalStructure, Structure, tuple[str, ...]]:
    """A drawn neighbourhood from which facts are hidden, as it is found and by definition, and the pair."""
    rng = random.Random(seed)
    graph = build_graph(knowledge(rng))
    tuples = np.array([[rng.randrange(len(graph)) for _ in range(2)]], np.int32)
    hidden = hide(rng, graph, 1)
    drawn = draw_neighbourhoods(graph, tuples, SamplingConfig(rng.randint(0, 2), 5, seed=seed), hidden)
    names = [graph.kb.object_name(int(member)) for member in drawn.members_of(0)]
    inside = local_structure(graph, drawn.members_of(0), hidden.facts)
    return inside, visible(graph.kb, hidden, 0).induced(names), tuple(names[place] for place in drawn.own_positions[0])


@over_seeds(120)
def test_the_inside_of_a_neighbourhood_is_the_induced_structure_without_what_is_hidden(seed: int) -> None:
    inside, wanted, _ = neighbourhood(seed)
    assert inside.structure == wanted
    assert {Fact(name, objects) for name, objects in inside.fact_numbers} == set(inside.facts)


@settings(max_examples=50)
@given(knowledge_bases(isolated=True))
def test_whatever_the_names_and_arities(kb: KnowledgeBase) -> None:
    graph = build_graph(kb)
    members = np.arange(0, len(graph), 2, dtype=np.int32)
    inside = local_structure(graph, members, np.zeros(0, np.int64))
    assert inside.structure == kb.induced([kb.object_name(int(member)) for member in members]).structure()
    found = induced_facts(graph, members, np.array(sorted(inside.fact_numbers.values())[:1], np.int64))
    assert found.tolist() == sorted(inside.fact_numbers.values())[1:]


def positive(formula: Formula) -> bool:
    return not any(isinstance(part, Not | Implies | Iff | Forall) for part in walk(formula))


@over_seeds(400)
def test_a_grounding_suffices_and_without_all_of_them_the_formula_is_false(seed: int) -> None:
    inside, _, pair = neighbourhood(seed)
    formula = Generator(random.Random(seed), numbers=False).formula(("s1", "s2"), 3)
    env = {"s1": pair[0], "s2": pair[1]}
    found = find_groundings(inside, Feature(formula), pair)
    everything = {fact for facts in found for fact in facts}
    assert everything <= set(inside.facts)
    if not positive(formula) or len(found) == MAX_GROUNDINGS:
        return
    if not holds(inside.structure, formula, env):
        assert not found
    for facts in found:
        assert holds(only(inside.structure, facts), formula, env), (str(formula), facts)
    rest = tuple(fact for fact in inside.facts if fact not in everything)
    nothing = holds(only(inside.structure, ()), formula, env)  # true without facts, as s1 = s1 is
    assert holds(only(inside.structure, rest), formula, env) == nothing


@over_seeds(200)
def test_what_makes_a_formula_false_makes_its_negation_true(seed: int) -> None:
    inside, _, pair = neighbourhood(seed)
    formula = Generator(random.Random(seed)).formula(("s1", "s2", "x"), 3)
    assert find_groundings(inside, Feature(formula), pair, above_default=False) == find_groundings(
        inside, Feature(Not(formula)), pair
    )


def test_every_way_of_a_count_has_its_facts() -> None:
    inside = LocalStructure(FAMILY.structure())
    found = find_groundings(inside, parse_feature("parent(s1, x)"), ("ann",))
    assert [str(fact) for facts in found for fact in facts] == ["parent(ann, bea).", "parent(ann, bob)."]
    assert find_groundings(inside, parse_feature("count parent(s1, x)"), ("ann",)) == found
    assert len(found) == count(FAMILY.structure(), Atom("parent", (Variable("s1"), Variable("x"))), {"s1": "ann"})
    assert len(find_groundings(inside, parse_feature("parent(s1, x)"), ("ann",), limit=1)) == 1


@pytest.mark.parametrize(
    ("text", "above", "facts"),
    [
        ("¬old(s1)", False, ["old(ann)."]),
        ("¬old(s1)", True, []),
        ("∀x parent(s1, x) → old(x)", False, ["parent(ann, bea)."]),
        ("∃x parent(s1, x) ∧ ¬old(x)", True, ["parent(ann, bea)."]),
        ("∃r ¬r(s1, s1)", True, []),
        ("∃r r(s1, 'bob') ∧ ¬r(s1, 'cleo')", True, ["parent(ann, bob)."]),
        ("age(s1)", True, []),
        ("sum age(x) for old(x)", True, ["old(ann)."]),
        ("age(s1) - age(s1)", True, []),
        ("∃x age(x) > 70 ∧ old(x)", True, ["old(ann)."]),
        ("old('nobody')", True, []),
    ],
)
def test_what_facts_say(text: str, above: bool, facts: list[str]) -> None:
    feature = parse_feature(text, FAMILY, allow_unknown_objects=True)
    found = find_groundings(LocalStructure(FAMILY.structure()), feature, ("ann",), above_default=above)
    assert [str(fact) for fact in found[0]] if found else facts == []


def test_a_fact_used_twice_is_listed_once() -> None:
    feature = parse_feature("parent(s1, 'bob') ∧ (∃x parent(x, 'bob'))", FAMILY)
    assert find_groundings(LocalStructure(FAMILY.structure()), feature, ("ann",)) == [(Fact("parent", ("ann", "bob")),)]


def test_a_search_that_takes_too_long_gives_what_it_has_found() -> None:
    variables = tuple(Variable(f"x{i}") for i in range(30))
    old = Atom("old", (Variable("s1"),))
    endless = Forall(variables, Atom("old", variables[:1]))  # 4 ** 30 assignments, were they all tried
    inside = LocalStructure(FAMILY.structure())
    assert find_groundings(inside, Feature(Or((old, endless))), ("ann",)) == [(Fact("old", ("ann",)),)]
    assert find_groundings(inside, Feature(Or((endless, old))), ("ann",)) == []
    assert find_groundings(inside, Feature(Not(Atom("old", variables[:1]))), ("ann",), limit=1) == []


def test_a_formula_too_large_without_iff_has_no_facts() -> None:
    large: Formula = Atom("old", (Variable("s1"),))
    for _ in range(40):
        large = Iff(large, Atom("old", (Variable("s1"),)))
    assert find_groundings(LocalStructure(FAMILY.structure()), Feature(large), ("ann",)) == []


def test_aggregates_of_random_kinds_have_known_facts() -> None:
    compared = 0
    for seed in range(60):
        inside, _, pair = neighbourhood(seed)
        body: Aggregate = Generator(random.Random(seed)).aggregate(("s1", "s2", "x"), 2)
        for above in (True, False):
            facts = {fact for one in find_groundings(inside, Feature(body), pair, above_default=above) for fact in one}
            assert facts <= set(inside.facts)
            compared += len(facts) > 0
    assert compared > 10
    assert set(RELATIONS) >= {"p", "r"}


def test_a_negative_sum_has_the_facts_of_its_numbers() -> None:
    """Below its default of 0 it was shown with what makes the formula false."""
    kb = KnowledgeBase.from_facts([("r", "ann", "bob"), ("r", "bob", "ann")], {("debt", "bob"): -3.0})
    feature, inside = parse_feature("sum debt(x) for r(s1, x)", kb), LocalStructure(kb.structure())
    for above in (True, False):
        found = find_groundings(inside, feature, ("ann",), above_default=above)
        assert [str(fact) for facts in found for fact in facts] == ["r(ann, bob)."]


def test_hidden_facts_are_in_no_grounding() -> None:
    graph = build_graph(FAMILY)
    hidden = HiddenFacts.one_per_tuple(np.array([0]))
    drawn = draw_neighbourhoods(graph, [[0, 1]], SamplingConfig(size=None), hidden)
    inside = local_structure(graph, drawn.members_of(0), hidden.facts)
    assert graph.kb.fact_by_id(0) not in inside.facts
