"""Compiled features: programs, limits, memory, defaults."""

from __future__ import annotations

import random

import pytest

from feature_cases import check
from gaifman.config import SamplingConfig
from gaifman.errors import FormulaError, LimitError
from gaifman.features import evaluator as features
from gaifman.features.compiler import FeaturePlan, compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import named_feature_set, parse_phi
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kernels import bitset_vm as vm
from gaifman.sampling.neighbourhoods import draw_neighbourhoods

KB = KnowledgeBase.from_facts(
    [("likes", "ann", "bob"), ("knows", "ann", "bob"), ("old", "ann"), ("gave", "ann", "book", "bob")],
    {("age", "ann"): 80},
)
LISTINGS = {
    "likes(s1, x)": ["r0(x1) = likes(s1, x1)", "result 0 = count r0"],
    "count likes(s1, x)": ["r0(x1) = likes(s1, x1)", "result 0 = count r0"],
    "∃x gave(s1, x, s2)": ["r0() = gave(s1, x1, s2)", "result 0 = count r0"],
    "∃x gave(s1, x, y)": ["r0(x1) = gave(s1, x2, x1)", "result 0 = count r0"],
    "likes(s1, 'bob') ↔ likes(s2, x)": [
        "r0() = likes(s1, object 1)",
        "r1(x1) = likes(s2, x1)",
        "r2(x1) = r0 ↔ r1",
        "result 0 = count r2",
    ],
    "age(s1) > 5": ["r0() = quantity 0 > quantity 1", "result 0 = count r0"],
    "∀x likes(s1, x) → likes(x, s1)": [
        "r0(x1) = likes(s1, x1)",
        "r1(x1) = ¬r0",
        "r2(x1) = likes(x1, s1)",
        "r3(x1) = r1 ∨ r2",
        "r4() = ∀x1 r3",
        "result 0 = count r4",
    ],
    "old(s1) ∧ s1 = x": ["r0() = old(s1)", "r1(x1) = s1 = x1", "r2(x1) = r0 ∧ r1", "result 0 = count r2"],
    "true": ["r0() = true", "result 0 = count r0"],
    "∃r r(s1, s2)": ["r1() = ∃R1:", "r0() = R1(s1, s2)", "again for r0", "result 0 = count r1"],
    "age(s1) - age(s2)": ["result 1 = quantity 0", "result 2 = quantity 1", "result 0 = result 1 - result 2"],
    "mean age(x) for likes(s1, x)": ["r0(x1) = likes(s1, x1)", "result 0 = mean of quantity 0 for r0"],
}


def planned(text: str, width: int = 2) -> FeaturePlan:
    return compile_features(parse_phi(text, KB), KB, width)


@pytest.mark.parametrize("text", LISTINGS)
def test_a_program_can_be_read(text: str) -> None:
    assert planned(text).listing(0).split("\n") == LISTINGS[text]


def test_a_quantified_variable_that_is_not_used_costs_nothing() -> None:
    assert planned("∃x, y likes(s1, s2)").listing(0).split("\n") == ["r0() = likes(s1, s2)", "result 0 = count r0"]


def test_one_variable_has_one_name_however_often_it_is_bound() -> None:
    plan = planned("(∃x likes(s1, x)) ∧ (∃x likes(x, s2))")
    assert plan.listing(0).split("\n")[2] == "r2(x2) = likes(x2, s2)"


def test_programs_stand_one_after_another_in_the_order_of_the_features() -> None:
    plan = planned("likes(s1, s2)\neach r. r(s1, x)\nold(s1)")
    assert [str(f) for f in plan.features] == ["likes(s1, s2)", "knows(s1, x)", "likes(s1, x)", "old(s1)"]
    assert plan.listing(1).split("\n")[0] == "r0(x1) = knows(s1, x1)"
    assert plan.programs.starts.tolist() == [0, 2, 4, 6, 8]
    assert planned("").programs.code.shape == (0, vm.INSTRUCTION_WIDTH)


# Limits


def atoms(count: int) -> str:
    """A chain with so many free variables, all of them at once."""
    return " & ".join(f"likes(x{i}, x{i + 1})" for i in range(1, count))


def test_a_part_with_too_many_free_variables_is_refused() -> None:
    planned(atoms(vm.MAX_AXES))
    with pytest.raises(LimitError, match=f"{vm.MAX_AXES + 1} free variables; the limit is {vm.MAX_AXES}"):
        planned(atoms(vm.MAX_AXES + 1))


def test_a_long_path_written_inside_out_needs_few_free_variables() -> None:
    path = "likes(x9, s2)"
    for i in range(8, 0, -1):
        path = f"likes(x{i}, x{i + 1}) ∧ (∃x{i + 2} {path})" if i < 8 else f"likes(x{i}, x9) ∧ {path}"
    assert planned(f"∃x1 likes(s1, x1) ∧ (∃x2 {path})").programs.counts.max() <= vm.MAX_AXES


def test_too_many_variables_in_all_are_refused() -> None:
    one = "(∃x likes(s1, x))"
    planned(" ∧ ".join([one] * vm.MAX_VARIABLES))
    with pytest.raises(LimitError, match=f"more than {vm.MAX_VARIABLES} variables"):
        planned(" ∧ ".join([one] * (vm.MAX_VARIABLES + 1)))


def test_too_many_quantifiers_over_relations_are_refused() -> None:
    one = "(∃r r(s1, s2))"
    planned(" ∧ ".join([one] * vm.MAX_RELATION_VARIABLES))
    with pytest.raises(LimitError, match=f"more than {vm.MAX_RELATION_VARIABLES} relations"):
        planned(" ∧ ".join([one] * (vm.MAX_RELATION_VARIABLES + 1)))


def test_names_that_the_knowledge_base_does_not_have_are_refused() -> None:
    for text in ("hates(s1, s2)", "likes(s1, s2, x)", "weight(s1) > 5", "age(s1)"):
        with pytest.raises(FormulaError):
            compile_features(parse_phi(text), KB, 2)  # read without a vocabulary, so that the plan is the first to see
    with pytest.raises(FormulaError, match="the query has 1 variable"):
        planned("likes(s1, s2)", width=1)


# Room


@pytest.mark.parametrize(
    ("text", "members", "words"),
    [
        ("likes(s1, s2)", 1000, 1),
        ("likes(s1, x)", 64, 1),
        ("likes(s1, x)", 65, 2),
        ("likes(x, y)", 64, 64),
        ("likes(x, y)", 65, 130),
        ("likes(x, y) ∧ likes(y, z)", 100, 200 + 200 + 100 * 100 * 2),
    ],
)
def test_a_table_takes_a_bit_for_each_way_to_put_members(text: str, members: int, words: int) -> None:
    assert planned(text).table_words(members).tolist() == [words]


def test_memory_is_estimated_for_each_feature() -> None:
    assert planned("likes(s1, x)\nold(s1) ∧ old(s2)\nlikes(x, y)").table_words(10).tolist() == [1, 3, 10]
    assert planned("").table_words(10).tolist() == []
    assert planned(atoms(6)).table_words(1 << 30).tolist() == [1 << 62]


def test_tables_that_would_not_fit_are_refused_with_the_estimate() -> None:
    everyone = [f"o{i:04}" for i in range(1100)]
    kb = KnowledgeBase.from_facts([("likes", "hub", name) for name in everyone])
    graph = build_graph(kb)
    drawn = draw_neighbourhoods(graph, [[kb.object_id("hub")]], SamplingConfig(size=None))
    plan = compile_features(parse_phi("likes(s1, x)\nlikes(x, y) ∧ likes(y, z) ∧ likes(z, u)"), kb, 1)
    with pytest.raises(LimitError) as error:
        FeatureEvaluator(graph, plan).evaluate(drawn)
    assert "1,101 members" in error.value.message
    assert "likes(x, y) ∧ likes(y, z) ∧ likes(z, u) needs 192." in error.value.message
    assert f"the limit is {features.MAX_TABLE_WORDS * 8 / 1e9:.1f} GB" in error.value.message
    assert "smaller neighbourhoods" in error.value.hint
    few = FeatureEvaluator(graph, compile_features(parse_phi("likes(s1, x)"), kb, 1)).evaluate(drawn)
    assert few.to_dense().tolist() == [[1100.0]]


# Defaults


def test_what_depends_on_more_than_relations_is_always_run() -> None:
    plan = planned("likes(s1, x)\ns1 = s2\nage(s1) > 1\nage(s1)\n∃r r(s1, s2)\nlikes(s1, x) ∨ knows(x, s1)")
    likes, knows = KB.content.relations.index("likes"), KB.content.relations.index("knows")
    assert plan.relations == ((likes,), (), (), (), (), (knows, likes))
    assert [shape >= 0 for shape in plan.default_groups] == [True, False, False, False, False, True]


def test_features_that_differ_only_in_relations_share_a_default_group() -> None:
    plan = planned("each r. r(s1, x)\neach r. ∃x r(s1, x)\neach r. ¬r(s1, x)")
    assert plan.default_groups.tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("members", [1, 2, 5])
def test_a_default_is_the_value_without_facts(members: int) -> None:
    near = [("near", "o0", f"o{i}") for i in range(members)]
    kb = KnowledgeBase.from_facts([*near, ("likes", "o0", "o0")]).without_facts([("likes", "o0", "o0")])
    phi = parse_phi("likes(s1, x)\n¬likes(s1, x)\n∀x, y likes(x, y) → likes(y, x)\n¬likes(x, y)\n∃x likes(x, x)")
    graph = build_graph(kb)
    found = FeatureEvaluator(graph, compile_features(phi, kb, 1)).evaluate(
        draw_neighbourhoods(graph, [[0]], SamplingConfig(size=None))
    )
    assert len(found.ids) == 0, "only defaults"
    assert found.to_dense().tolist() == [[0, members, 1, members**2, 0]]


WIDE = """
∃a, b, c, d, e, f, g wide(s1, a, b, c, d, e, f, g)
∃a, b, c, d, e, f wide(a, b, s2, c, d, s1, e, f)
∃a, b, c, d, e, f wide(s1, a, a, b, c, d, e, f)
∃a, b, c, d, e, f, g wide(s1, a, b, c, d, e, f, g) ∧ wide(s2, a, b, c, d, e, f, g)
wide(s1, x, y, s2, s2, s1, z, u)
¬∃a, b, c, d, e, f, g wide(a, b, c, d, e, f, g, s2)
"""


def test_a_relation_of_eight_places_has_features_with_the_values_of_the_definition() -> None:
    """∃ over seven places was once a table of seven dimensions, which is one more than there are."""
    rng = random.Random(1)
    facts = [("wide", *(f"o{rng.randrange(4)}" for _ in range(8))) for _ in range(40)]
    graph = build_graph(KnowledgeBase.from_facts(facts))
    texts = WIDE.replace("∃a, b, c, d, e, f, g wide(s1, a, b, c, d, e, f, g) ∧ wide(s2, a, b, c, d, e, f, g)\n", "")
    phi, pairs = parse_phi(texts), [[one, other] for one in range(4) for other in range(4)]
    plan = compile_features(phi, graph.kb, 2)
    for sampling in (SamplingConfig(size=1, draws=2), SamplingConfig(size=None)):
        drawn = draw_neighbourhoods(graph, pairs, sampling)
        check(graph, drawn, phi)
        fast, slow = (FeatureEvaluator(graph, plan, use_templates=use).evaluate(drawn) for use in (True, False))
        assert (fast.to_dense() == slow.to_dense()).all()
    with pytest.raises(LimitError, match="7 free variables; the limit is 6"):
        compile_features(parse_phi(WIDE), graph.kb, 2)


def test_the_default_features_of_eight_places_are_bounded() -> None:
    relations = {"wide": 8, "borders": 2, "country": 1}
    for arity in range(1, 9):
        for name in ("default", "paper"):
            found = named_feature_set(name, arity, relations).expand(relations, arity)
            assert len(found) <= 8 * arity + 56 * arity * (arity - 1) // 2 + 300 + arity
