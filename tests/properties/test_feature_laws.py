"""Laws of features for any knowledge base: counting, logic, names, order."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest

import long_features as features_long
from feature_cases import equal
from gaifman.config import SamplingConfig
from gaifman.errors import KnowledgeBaseError
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet, named_feature_set, parse_phi
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.logic.ast import (
    And,
    Equal,
    Exists,
    Feature,
    Forall,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Variable,
    negation_normal_form,
    substitute,
)
from gaifman.logic.semantics import feature_value
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import NeighbourhoodBatch, draw_neighbourhoods
from generators import Generator, over_seeds
from long_features import Tally, features, hide, knowledge

Dense = npt.NDArray[np.float32]
VARIABLES = ("s1", "s2", "x")


def values(kb: KnowledgeBase, *formulas: Formula, seed: int = 0) -> list[Dense]:
    """A column for each formula: its values in some neighbourhoods of some pairs."""
    graph = build_graph(kb)
    rng = random.Random(seed)
    tuples = [[rng.randrange(len(graph)) for _ in range(2)] for _ in range(5)]
    hidden = hide(rng, graph, len(tuples))
    drawn = draw_neighbourhoods(graph, tuples, SamplingConfig(rng.randint(0, 2), 9, draws=2, seed=seed), hidden)
    wanted = [Feature(formula) for formula in formulas]
    plan = compile_features(FeatureSet(tuple(wanted)), kb, 2)
    found = FeatureEvaluator(graph, plan).evaluate(drawn, hidden).to_dense()
    return [found[:, plan.features.index(feature)] for feature in wanted]


def pair(seed: int) -> tuple[KnowledgeBase, Formula, Formula]:
    rng = random.Random(seed)
    generator = Generator(rng)
    return knowledge(rng), generator.formula(VARIABLES, 3), generator.formula(VARIABLES, 3)


def counted(formula: Formula) -> Formula:
    """The same with x counted, whether it speaks of x or not, so that two formulas count the same groundings."""
    return And((formula, Equal(Variable("x"), Variable("x"))))


@pytest.mark.parametrize("block", range(4))
def test_random_features_of_tuples_of_one_two_and_three_are_what_the_definition_says(block: int) -> None:
    tally = Tally()
    for seed in range(block, 120, 4):
        features_long.case(seed, tally)
    assert tally.worst == []
    assert tally.values > 1500
    assert tally.other_than_zero > 300


@over_seeds(60)
def test_a_count_is_split_by_any_other_formula(seed: int) -> None:
    kb, f, g = pair(seed)
    whole, both, only = values(kb, counted(f), counted(And((f, g))), counted(And((f, Not(g)))), seed=seed)
    assert (whole == both + only).all()


@over_seeds(60)
def test_de_morgan_and_the_meaning_of_the_arrows(seed: int) -> None:
    kb, f, g = pair(seed)
    x = Variable("x")
    same: list[tuple[Formula, Formula]] = [
        (Not(And((f, g))), Or((Not(f), Not(g)))),
        (Not(Or((f, g))), And((Not(f), Not(g)))),
        (Implies(f, g), Or((Not(f), g))),
        (Iff(f, g), And((Implies(f, g), Implies(g, f)))),
        (Not(Exists((x,), f)), Forall((x,), Not(f))),
        (f, negation_normal_form(f)),
    ]
    columns = values(kb, *(counted(side) for sides in same for side in sides), seed=seed)
    for one, other, sides in zip(columns[::2], columns[1::2], same, strict=True):
        assert (one == other).all(), f"{sides[0]} and {sides[1]}"


@over_seeds(40)
def test_the_names_of_variables_do_not_matter(seed: int) -> None:
    kb, f, _ = pair(seed)
    x, z, w = Variable("x"), Variable("z"), Variable("w9")
    free_one, free_other = values(kb, counted(f), substitute(counted(f), {x: w}), seed=seed)
    assert (free_one == free_other).all()
    bound = [Exists((x,), f), Exists((w,), substitute(f, {x: w})), Exists((z,), substitute(f, {x: z}))]
    one, other, third = values(kb, *bound, seed=seed)
    assert (one == other).all()
    assert (one == third).all()


@over_seeds(30)
def test_the_order_of_facts_does_not_matter(seed: int) -> None:
    kb, f, g = pair(seed)
    facts = list(kb.facts())
    random.Random(seed).shuffle(facts)
    told = {(attribute, obj): number for attribute, obj, number in kb.values()}
    empty = [r.name for r in kb.relations.values() if not r.count]
    dummies = [(name, *[kb.objects[0]] * kb.relations[name].arity) for name in empty]
    again = KnowledgeBase.from_facts([*facts, *dummies], told, reversed(kb.objects)).without_facts(dummies)
    for one, other in zip(values(kb, f, g, seed=seed), values(again, f, g, seed=seed), strict=True):
        assert one.tobytes() == other.tobytes()


@over_seeds(60)
def test_facts_with_an_object_outside_never_change_a_value(seed: int) -> None:
    """Locality: the members stay, everything that speaks of anything else goes, or more of it comes."""
    rng = random.Random(seed)
    kb = knowledge(rng)
    graph = build_graph(kb)
    drawn = draw_neighbourhoods(
        graph, [[rng.randrange(len(graph)) for _ in range(2)]], SamplingConfig(rng.randint(0, 1), 4, seed=seed)
    )
    members = {kb.object_name(int(member)) for member in drawn.members_of(0)}
    phi = features(rng, 2, 8)
    before = FeatureEvaluator(graph, compile_features(phi, kb, 2)).evaluate(drawn)
    less = kb.without_facts([fact for fact in kb.facts() if not members.issuperset(fact.objects)])
    assert less.objects == kb.objects
    assert equal(FeatureEvaluator(build_graph(less), compile_features(phi, less, 2)).evaluate(drawn), before)
    outside = [name for name in kb.objects if name not in members]
    if outside:
        names = [(r.name, *rng.choices(kb.objects, k=r.arity - 1), rng.choice(outside)) for r in kb.relations.values()]
        more = kb.with_facts(names)
        assert equal(FeatureEvaluator(build_graph(more), compile_features(phi, more, 2)).evaluate(drawn), before)


def test_an_object_twice_in_the_tuple_is_one_member_with_two_names() -> None:
    kb = KnowledgeBase.from_facts([("likes", "ann", "ann"), ("likes", "ann", "bob")])
    graph = build_graph(kb)
    phi = parse_phi("s1 = s2\nlikes(s1, s2)\nlikes(s1, x)\n¬likes(s2, x)\nx = x\nlikes(s1, 'bob')")
    drawn = draw_neighbourhoods(graph, [[0, 0], [0, 1], [1, 1]], SamplingConfig(size=None))
    assert FeatureEvaluator(graph, compile_features(phi, kb, 2)).evaluate(drawn).to_dense().tolist() == [
        [1, 1, 2, 0, 2, 1],
        [0, 1, 2, 2, 2, 1],
        [1, 0, 0, 2, 2, 0],
    ]


def test_an_object_without_facts_has_the_defaults() -> None:
    kb = KnowledgeBase.from_facts([("likes", "ann", "bob")], {("age", "eve"): 7}, ["eve"])
    graph = build_graph(kb)
    phi = parse_phi("likes(s1, x)\n¬likes(s1, x)\n∀x, y likes(x, y) → likes(y, x)\nage(s1)\nx = s1", kb)
    found = FeatureEvaluator(graph, compile_features(phi, kb, 1)).evaluate(
        draw_neighbourhoods(graph, [[kb.object_id("eve")]], SamplingConfig(2, None))
    )
    assert found.to_dense().tolist() == [[0, 1, 1, 7, 1]]
    assert found.ids.tolist() == [3, 4], "what differs from the default, or has none"


def star(members: int) -> KnowledgeBase:
    """A hub that likes everyone, in a ring that likes the next, everyone of a known age."""
    others = [f"o{i:04}" for i in range(members - 1)]
    ring = [("next", one, other) for one, other in zip(others, [*others[1:], others[0]], strict=True)]
    hub = [("likes", "hub", name) for name in others]
    odd = [("odd", name) for name in others[1::2]]
    return KnowledgeBase.from_facts([*hub, *ring, *odd], {("age", name): float(i) for i, name in enumerate(others)})


def whole(kb: KnowledgeBase) -> NeighbourhoodBatch:
    return draw_neighbourhoods(
        build_graph(kb), [[kb.object_id("hub"), kb.object_id("o0001")]], SamplingConfig(size=None)
    )


@pytest.mark.parametrize("members", [3, 62, 63, 64, 65, 66, 127, 128, 129])
def test_a_word_has_64_members_and_nothing_happens_at_its_edges(members: int) -> None:
    kb = star(members)
    phi = parse_phi(
        "likes(s1, x)\n¬likes(s1, x)\n∃x next(s2, x)\n∀x likes(s1, x) ∨ x = s1\n∀x likes(s1, x)\n"
        "¬odd(x)\nnext(x, y)\n∃y next(x, y)\n∃x next(s2, x) ∧ likes(s1, x)\n∀x, y next(x, y) → likes(s1, y)\n"
        "max age(x) for likes(s1, x)\nsum age(x) for odd(x)\nx ≠ y ∧ odd(x) ∧ odd(y)",
        kb,
    )
    plan = compile_features(phi, kb, 2)
    drawn = whole(kb)
    assert len(drawn.members_of(0)) == members
    found = FeatureEvaluator(build_graph(kb), plan).evaluate(drawn).to_dense()[0]
    structure = kb.structure()
    for column, feature in enumerate(plan.features):
        assert found[column] == feature_value(structure, feature, ("hub", "o0001")), str(feature)


@pytest.mark.parametrize("members", [70, 1024, 1025, 1500])
def test_everything_around_an_object_can_be_taken(members: int) -> None:
    """More than a thousand members: values by arithmetic, because the definition would take minutes."""
    kb = star(members)
    rest = members - 1
    expected = {
        "likes(s1, x)": rest,
        "¬likes(s1, x)": 1,
        "∃x next(s2, x)": 1,
        "next(x, y)": rest,
        "¬next(x, y)": members**2 - rest,
        "∃y next(x, y)": rest,
        "next(x, y) ∧ odd(x)": rest // 2,
        "∀x likes(s1, x) ∨ x = s1": 1,
        "∀x likes(s1, x)": 0,
        "∀x, y next(x, y) → likes(s1, y)": 1,
        "∀x, y next(x, y) → next(y, x)": 0,
        "max age(x) for likes(s1, x)": rest - 1,
        "count odd(x)": rest // 2,
        "x = y": members,
        "x ≠ s1": members - 1,
        "∃r r(x, y)": 2 * rest,
    }
    plan = compile_features(parse_phi("\n".join(expected), kb), kb, 2)
    found = FeatureEvaluator(build_graph(kb), plan).evaluate(whole(kb)).to_dense()[0]
    assert dict(zip(map(str, plan.features), found.tolist(), strict=True)) == expected


@over_seeds(20)
def test_rows_do_not_depend_on_each_other(seed: int) -> None:
    rng = random.Random(seed)
    kb = knowledge(rng)
    graph = build_graph(kb)
    plan = compile_features(
        named_feature_set("default", 2, {n: r.arity for n, r in kb.relations.items()}, kb.attributes), kb, 2
    )
    tuples = np.array([[rng.randrange(len(graph)) for _ in range(2)] for _ in range(6)])
    sampling = SamplingConfig(1, 5, seed=seed)
    together = FeatureEvaluator(graph, plan).evaluate(draw_neighbourhoods(graph, tuples, sampling)).to_dense()
    for t, one in enumerate(tuples):
        alone = FeatureEvaluator(graph, plan).evaluate(draw_neighbourhoods(graph, one[None], sampling)).to_dense()
        assert np.array_equal(alone[0], together[t], equal_nan=True)


def test_the_matrix_is_sparse_sorted_and_cannot_be_written() -> None:
    kb = star(30)
    graph = build_graph(kb)
    plan = compile_features(named_feature_set("paper", 2, {n: r.arity for n, r in kb.relations.items()}), kb, 2)
    found = FeatureEvaluator(graph, plan).evaluate(
        draw_neighbourhoods(graph, [[0, 1], [1, 2], [2, 2]], SamplingConfig(draws=3))
    )
    assert [array.dtype.name for array in (found.starts, found.ids, found.values)] == ["int64", "int32", "float32"]
    assert len(found) == 9
    for start, end in zip(found.starts[:-1], found.starts[1:], strict=True):
        assert (np.diff(found.ids[start:end]) > 0).all()
    for array in (found.starts, found.ids, found.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_a_plan_for_pairs_is_not_for_single_objects() -> None:
    kb = star(5)
    graph = build_graph(kb)
    with pytest.raises(KnowledgeBaseError, match="tuples of 2 objects, these have 1"):
        FeatureEvaluator(graph, compile_features(parse_phi("likes(s1, s2)"), kb, 2)).evaluate(
            draw_neighbourhoods(graph, [[0]])
        )


def test_no_features_and_no_tuples_give_empty_matrices() -> None:
    kb = star(5)
    graph = build_graph(kb)
    drawn = draw_neighbourhoods(graph, [[0, 1]])
    assert FeatureEvaluator(graph, compile_features(parse_phi(""), kb, 2)).evaluate(drawn).to_dense().shape == (1, 0)
    none = draw_neighbourhoods(graph, np.zeros((0, 2), np.int32))
    assert FeatureEvaluator(graph, compile_features(parse_phi("likes(s1, s2)"), kb, 2)).evaluate(
        none
    ).to_dense().shape == (0, 1)


def test_hiding_the_same_fact_twice_or_one_that_is_elsewhere_is_harmless() -> None:
    kb = star(6)
    graph = build_graph(kb)
    plan = compile_features(parse_phi("likes(s1, x)\nnext(x, y)"), kb, 2)
    drawn = whole(kb)
    likes = [i for i in range(len(kb)) if graph.kb.fact_by_id(i).relation == "likes"]
    hidden = HiddenFacts(np.array([0, 3]), np.array([likes[0], likes[0], likes[2]]))
    assert FeatureEvaluator(graph, plan).evaluate(drawn, hidden).to_dense().tolist() == [[3, 5]]


def test_uncertain_facts_count_unless_they_are_to_drop_out() -> None:
    facts = [Fact("likes", ("hub", f"o{i:03}"), 0.25) for i in range(200)]
    kb = KnowledgeBase.from_facts([*facts, Fact("likes", ("hub", "sure"))])
    graph = build_graph(kb)
    sampling = SamplingConfig(size=None, draws=40, seed=1)
    drawn = draw_neighbourhoods(graph, [[kb.object_id("hub")]], sampling)
    for specialised in (True, False):
        evaluator = FeatureEvaluator(
            graph, compile_features(parse_phi("likes(s1, x)\nlikes(s1, 'sure')"), kb, 1), use_templates=specialised
        )
        assert evaluator.evaluate(drawn).to_dense().tolist() == [[201, 1]] * 40
        dropped = evaluator.evaluate(drawn, drop_uncertain=sampling).to_dense()
        assert (dropped[:, 1] == 1).all(), "what is certain stays"
        assert len(set(dropped[:, 0].tolist())) > 5, "each draw drops others"
        assert dropped[:, 0].mean() == pytest.approx(51, abs=5 * (200 * 0.25 * 0.75 / 40) ** 0.5)
        assert (evaluator.evaluate(drawn, drop_uncertain=sampling).to_dense() == dropped).all()


@over_seeds(12)
def test_templates_threads_and_programs_agree_to_the_bit(seed: int) -> None:
    rng = random.Random(seed)
    kb = knowledge(rng)
    graph = build_graph(kb)
    plan = compile_features(
        named_feature_set("default", 2, {n: r.arity for n, r in kb.relations.items()}, kb.attributes), kb, 2
    )
    tuples = [[rng.randrange(len(graph)) for _ in range(2)] for _ in range(3000)]
    hidden = hide(rng, graph, len(tuples))
    drawn = draw_neighbourhoods(graph, tuples, SamplingConfig(rng.randint(0, 2), 7, draws=3, seed=seed), hidden)
    one = FeatureEvaluator(graph, plan).evaluate(drawn, hidden, threads=1)
    for other in (
        FeatureEvaluator(graph, plan).evaluate(drawn, hidden, threads=3),
        FeatureEvaluator(graph, plan, use_templates=False).evaluate(drawn, hidden),
    ):
        assert other.starts.tobytes() == one.starts.tobytes()
        assert other.ids.tobytes() == one.ids.tobytes()
        assert other.values.tobytes() == one.values.tobytes()
