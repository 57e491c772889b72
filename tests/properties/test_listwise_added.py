"""Added formulas: their numbers of groundings are those of the definition, on the facts that are not hidden."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.tables import Longs, freeze
from gaifman.listwise import added as added_module
from gaifman.listwise import groundings
from gaifman.listwise.added import SCALE, AddedFormulas, countable_formula
from gaifman.listwise.groundings import Asked, Countable, GroundingCounter, VisibleFact
from gaifman.listwise.mining import formula_values, own_values
from gaifman.listwise.steps import build_steps
from gaifman.logic.ast import Aggregate, Attribute, Feature, Formula, Variable, query_position
from gaifman.logic.parser import parse, parse_feature
from gaifman.logic.semantics import Structure, feature_value
from generators import ATTRIBUTES, RELATIONS, Generator, over_seeds

OBJECTS = 4


class Case:
    """A random knowledge base with self-loops and numbers, and some of its facts to hide."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.generator = Generator(self.rng)
        structure = self.generator.structure(OBJECTS, density=0.6)
        facts = [(name, *map(str, row)) for name, each in structure.relations.items() for row in each.tuples]
        values = {(name, str(obj)): v for name, own in structure.attributes.items() for obj, v in own.items()}
        facts = sorted(facts) or [("p", "ann")]
        self.kb = KnowledgeBase.from_facts(facts, values, [str(obj) for obj in structure.domain]).extend_schema(
            RELATIONS, ATTRIBUTES
        )
        known = list(self.kb.facts())
        self.hidden = self.rng.sample(known, min(len(known), self.rng.choice([0, 1, 1, 2, 3])))
        self.visible = self.kb.without_facts(self.hidden).structure()

    @property
    def hidden_objects(self) -> tuple[VisibleFact, ...]:
        return tuple(VisibleFact(f.relation, tuple(map(self.kb.object_id, f.objects))) for f in self.hidden)

    @property
    def hidden_ids(self) -> Longs:
        facts = [self.kb.fact_by_id(number) for number in range(len(self.kb))]
        return freeze(np.array(sorted(map(facts.index, self.hidden)), np.int64))

    def formula(self) -> Formula:
        variables = ("s1", "s2", "x") if self.rng.random() < 0.6 else ("s1", "s2")
        return self.generator.formula(variables, self.rng.randint(1, 3))

    def value(self, structure: Structure, formula: Formula, objects: tuple[int, ...]) -> float:
        names = tuple(map(self.kb.object_name, objects))
        return float(feature_value(structure, Feature(formula), names) or 0.0)


def pairs() -> list[tuple[int, int]]:
    return [(one, other) for one in range(OBJECTS) for other in range(OBJECTS)]


@over_seeds(160)
def test_groundings_are_counted_as_defined(seed: int) -> None:
    case = Case(seed)
    countable = Countable.of(case.formula())
    if not countable.places:
        return
    counter, everything = GroundingCounter.of(case.kb), case.kb.structure()
    table = counter.table(countable)
    assert table is not None
    found = dict(zip(map(tuple, table.objects.tolist()), table.counts.tolist(), strict=True))
    candidate = case.rng.choice(countable.places)
    fixed = [v for v in countable.places if v != candidate]
    asked = [Asked((obj,) * len(fixed), case.hidden_objects) for obj in range(OBJECTS)]
    hidden = counter.count(countable, candidate, asked)
    rows = zip(hidden.questions.tolist(), hidden.candidates.tolist(), strict=True)
    counts = dict(zip(rows, hidden.counts.tolist(), strict=True))
    single = [Asked((obj,) * len(fixed) + (other,), case.hidden_objects) for obj, other in pairs()]
    alone = counter.count(countable, candidate, single)
    assert [row // OBJECTS for row in alone.questions.tolist()] == hidden.questions.tolist()
    assert (alone.candidates.tolist(), alone.counts.tolist()) == (hidden.candidates.tolist(), hidden.counts.tolist())
    for one, other in pairs():
        objects = (one, other)
        key = tuple(objects[query_position(v) - 1] for v in countable.places)
        assert found.get(key, 0.0) == case.value(everything, countable.formula, objects)
        asked_for = {query_position(v) - 1: one for v in fixed} | {query_position(candidate) - 1: other}
        whole = (asked_for.get(0, 0), asked_for.get(1, 0))
        assert counts.get((one, other), 0.0) == case.value(case.visible, countable.formula, whole)


@over_seeds(60)
def test_entries_are_the_values_without_the_hidden_facts(seed: int) -> None:
    check_entries(seed, groundings.MAX_TABLE)


@over_seeds(60)
def test_without_tables_each_question_is_evaluated(seed: int) -> None:
    check_entries(seed, 0)


def check_entries(seed: int, largest_table: int) -> None:
    case = Case(1_000 + seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groundings, "MAX_TABLE", largest_table)
        index = build_steps(case.kb)
        features = [Feature(case.formula()) for _ in range(5)]
        position = case.rng.randrange(2)
        added = AddedFormulas(index, 2, position, features)
        objects = [case.rng.randrange(OBJECTS), case.rng.randrange(OBJECTS)]
        nothing = np.zeros(0, np.int64)
        whole, hidden = added.answer([(objects, nothing), (objects, case.hidden_ids)])
        assert not len(np.intersect1d(whole.formulas, added.own))
    for at, formula in enumerate(added.formulas):
        counts = []
        for structure in (case.kb.structure(), case.visible):
            filled = [[*objects[:position], obj, *objects[position + 1 :]] for obj in range(OBJECTS)]
            body = formula.countable.formula
            counts.append(np.array([case.value(structure, body, (row[0], row[1])) for row in filled]))
        before, after = counts
        for entries, count in ((whole, before), (hidden, after)):
            values = np.zeros(OBJECTS)
            rows = entries.formulas == at
            values[entries.objects[rows]] = entries.values[rows]
            if formula.own:
                wanted = SCALE * (own_values(count) - own_values(before))
            else:
                wanted = SCALE * formula_values(count, count / max(1.0, count.sum()))
            assert values == pytest.approx(wanted, abs=1e-5)
        answer = [*objects]
        found = added.values_at(answer, case.hidden_ids).get(at, (0.0, 0.0))
        assert found[1] == after[objects[position]]


@over_seeds(60)
def test_a_formula_and_the_one_that_is_counted_order_candidates_alike(seed: int) -> None:
    """Instead of φ, ¬φ can be counted: for each fixed object, one is 1 where the other is 0."""
    case = Case(2_000 + seed)
    feature = Feature(case.generator.formula(("s1", "s2"), 3))
    structure = case.kb.structure()
    for formula in AddedFormulas(build_steps(case.kb), 2, 1, [feature]).formulas:
        for objects in pairs():
            given = case.value(structure, countable_formula(feature), objects)
            counted = case.value(structure, formula.countable.formula, objects)
            assert counted == (given if formula.shown == feature else 1 - given)


def expected_count(kb: KnowledgeBase, formula: Formula, names: tuple[str, ...]) -> float:
    """The mean number of groundings over all possible worlds."""
    facts, total = list(kb.facts()), 0.0
    for present in itertools.product([False, True], repeat=len(facts)):
        chance = np.prod([f.confidence if here else 1 - f.confidence for f, here in zip(facts, present, strict=True)])
        world = kb.without_facts([f for f, here in zip(facts, present, strict=True) if not here])
        total += float(chance) * float(feature_value(world.structure(), Feature(formula), names) or 0.0)
    return total


UNCERTAIN = [
    Fact("r", ("a", "b"), 0.1),
    Fact("r", ("b", "c"), 0.7),
    Fact("q", ("b", "c"), 0.4),
    Fact("r", ("a", "a"), 0.5),
]


@pytest.mark.parametrize(
    "text",
    [
        "r(s1, s2)",
        "r(s1, x) & q(x, s2)",
        "r(s1, x) & r(x, s2)",
        "exists x. r(s1, x) & q(x, s2)",
        "r(s1, s2) | q(s1, s2)",
        "r(x, s2)",
    ],
)
def test_uncertain_facts_count_by_expectation(text: str) -> None:
    kb, formula = KnowledgeBase.from_facts(UNCERTAIN), parse(text)
    countable = Countable.of(formula)
    counter = GroundingCounter.of(kb)
    table = counter.table(countable)
    assert table is not None
    found = dict(zip(map(tuple, table.objects.tolist()), table.counts.tolist(), strict=True))
    for names in itertools.product("abc", repeat=2):
        key = tuple(kb.object_id(names[query_position(v) - 1]) for v in countable.places)
        assert found.get(key, 0.0) == pytest.approx(expected_count(kb, formula, names), abs=1e-9)
    hidden = VisibleFact("r", (kb.object_id("b"), kb.object_id("c")))
    less = kb.without_facts([("r", "b", "c")])
    fixed = tuple(kb.object_id("a") for v in countable.places if v != Variable("s2"))
    counted = counter.count(countable, Variable("s2"), [Asked(fixed, (hidden,))])
    after = dict(zip(counted.candidates.tolist(), counted.counts.tolist(), strict=True))
    for name in "abc":
        assert after.get(kb.object_id(name), 0.0) == pytest.approx(expected_count(less, formula, ("a", name)), abs=1e-9)


def test_a_negation_over_uncertain_facts_sees_the_most_probable_world() -> None:
    kb = KnowledgeBase.from_facts([*UNCERTAIN, Fact("p", ("b",)), Fact("p", ("c",))])
    table = GroundingCounter.of(kb).table(Countable.of(parse("p(s2) & ~r(s1, s2)")))
    assert table is not None
    found = {tuple(map(kb.object_name, row)) for row in table.objects.tolist()}
    assert ("a", "b") in found  # r(a, b) has confidence 0.1
    assert ("b", "c") not in found


def test_questions_are_remembered_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(added_module, "MAX_CACHED", 4)
    kb = KnowledgeBase.from_facts([("r", "a", f"b{i}") for i in range(3)])
    added = AddedFormulas(build_steps(kb), 2, 1, [parse_feature("r(s1, s2)")])
    hidden = freeze(np.zeros(1, np.int64))
    for _ in range(3):
        for first in range(4):
            [entries] = added.answer([((first, 0), hidden)])
            assert len(entries.objects) == (2 if kb.object_name(first) == "a" else 0)


def test_a_number_that_exists_is_counted() -> None:
    feature = Feature(Aggregate("count", Attribute("age", Variable("x")), parse("r(s2, x)")))
    kb = KnowledgeBase.from_facts([("r", "a", "b"), ("r", "a", "c")], {("age", "b"): 5.0})
    added = AddedFormulas(build_steps(kb), 2, 1, [feature])
    assert added.values_at((0, kb.object_id("a")), np.zeros(0, np.int64))[0][1] == 1.0
