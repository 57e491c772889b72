"""The definition: small cases worked out by hand, and the laws that any definition must keep."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import pytest

from gaifman.errors import FormulaError
from gaifman.logic.ast import (
    And,
    Exists,
    Feature,
    Forall,
    Formula,
    Implies,
    Not,
    Or,
    RelationVariable,
    Truth,
    Variable,
    free_variables,
    negation_normal_form,
    relativise,
    substitute,
)
from gaifman.logic.parser import Schema, parse, parse_feature, parse_query
from gaifman.logic.semantics import Element, Extension, Structure, answers, count, feature_value, holds
from generators import Generator, assignment, over_seeds

CASES = sorted((Path(__file__).parents[1] / "support" / "cases").glob("*.txt"))
FACT = re.compile(r"(\w+)\(([^)]*)\)(?: = ([\d.]+))?\.(?:\s|$)")


def read_case(path: Path) -> tuple[Structure, list[tuple[str, str]]]:
    """A case file: the structure, and formulas with the value written beside them."""
    head, _, body = path.read_text().partition("---\n")
    relations: dict[str, set[tuple[Element, ...]]] = {}
    arities: dict[str, int] = {}
    attributes: dict[str, dict[Element, float]] = {}
    domain: set[Element] = set(_field(head, "object"))
    for name, listed, number in FACT.findall("\n".join(line for line in head.splitlines() if line[:1] != "#")):
        objects = tuple(listed.split(", "))
        domain.update(objects)
        if number:
            attributes.setdefault(name, {})[objects[0]] = float(number)
        else:
            relations.setdefault(name, set()).add(objects)
            arities[name] = len(objects)
    arities |= {name: int(arity) for name, _, arity in (r.partition("/") for r in _field(head, "relations"))}
    extensions = {name: Extension(arity, frozenset(relations.get(name, ()))) for name, arity in arities.items()}
    structure = Structure(frozenset(domain), extensions, attributes)
    members = _field(head, "members")
    lines = [line.rpartition(" = ") for line in body.splitlines() if line]
    return structure.induced(set(members)) if members else structure, [(text.strip(), v) for text, _, v in lines]


def _field(head: str, name: str) -> list[str]:
    found = re.search(rf"^{name}: (.*)$", head, re.MULTILINE)
    return found[1].split() if found else []


def words(structure: Structure) -> Schema:
    """What formulas may speak of in a case."""
    arities = {name: extension.arity for name, extension in structure.relations.items()}
    return Schema(arities, structure.attributes.keys())


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [pytest.param(p, t, v, id=f"{p.stem}: {t}") for p in CASES for t, v in read_case(p)[1]],
)
def test_a_case_worked_out_by_hand(path: Path, text: str, expected: str) -> None:
    structure, _ = read_case(path)
    if text.startswith("feature: "):
        feature = parse_feature(text.removeprefix("feature: "), words(structure), allow_unknown_objects=True)
        assert feature_value(structure, feature, ("ann", "bob")) == pytest.approx(float(expected), abs=0, nan_ok=True)
    elif expected in ("true", "false"):
        assert holds(structure, parse(text)) == (expected == "true")
    else:
        assert count(structure, parse(text)) == int(expected)


# Laws


def case(
    seed: int, *, constants: bool = True, second_order: bool = True
) -> tuple[random.Random, Structure, Formula, Formula]:
    """A random structure and two formulas of x and y."""
    generator = Generator(random.Random(seed), constants=constants, second_order=second_order)
    structure = generator.structure()
    return generator.rng, structure, generator.formula(), generator.formula()


@over_seeds(300)
def test_de_morgan(seed: int) -> None:
    rng, structure, one, other = case(seed)
    objects = assignment(rng, structure, And((one, other)))
    assert holds(structure, Not(And((one, other))), objects) == holds(structure, Or((Not(one), Not(other))), objects)


@over_seeds(300)
def test_a_count_is_the_sum_over_the_cases_of_another_formula(seed: int) -> None:
    _, structure, one, other = case(seed)
    both, only = And((one, other)), And((one, Not(other)))
    extra = [v for v in free_variables(other) if v not in free_variables(one)]
    expected = count(structure, one) * len(structure.domain) ** len(extra)
    assert count(structure, both) + count(structure, only) == expected


@over_seeds(300)
def test_the_quantifiers_are_each_others_dual(seed: int) -> None:
    rng, structure, formula, _ = case(seed)
    x = (Variable("x"),)
    objects = assignment(rng, structure, formula)
    assert holds(structure, Not(Exists(x, formula)), objects) == holds(structure, Forall(x, Not(formula)), objects)


@over_seeds(300)
def test_negation_normal_form_keeps_the_meaning_and_has_the_form(seed: int) -> None:
    rng, structure, formula, _ = case(seed)
    normal = negation_normal_form(formula)
    objects = assignment(rng, structure, formula)
    assert holds(structure, normal, objects) == holds(structure, formula, objects)
    assert not re.search(r"[→↔]|¬[¬∃∀]|¬(true|false)", str(normal))


@over_seeds(300)
def test_relativised_quantifiers_mean_the_induced_substructure(seed: int) -> None:
    """⟨S⟩ ⊨ φ exactly if D ⊨ φ with its quantifiers bounded by S, for objects of S.

    Not so for quantifiers over relations: they would range over the relation that marks S, too.
    """
    rng, structure, formula, _ = case(seed, constants=False, second_order=False)
    members = {o for o in structure.domain if rng.random() < 0.6} or set(structure.domain)
    marked = {**structure.relations, "near": Extension(1, frozenset((o,) for o in members))}
    wider = Structure(structure.domain, marked, structure.attributes)
    inside = structure.induced(members)
    objects = assignment(rng, inside, formula)
    assert holds(inside, formula, objects) == holds(wider, relativise(formula, "near"), objects)


@over_seeds(300)
def test_substitution_means_assignment(seed: int) -> None:
    rng, structure, formula, _ = case(seed)
    objects = sorted(map(str, structure.domain))
    x, y, z = map(Variable, "xyz")
    at: dict[Variable, Element] = {y: rng.choice(objects), z: rng.choice(objects)}
    for term in (y, z):
        expected = holds(structure, formula, {**at, x: at[term]})
        assert holds(structure, substitute(formula, {x: term}), at) == expected


@over_seeds(100)
def test_answers_are_the_tuples_that_satisfy(seed: int) -> None:
    generator = Generator(random.Random(seed))
    structure, query = generator.structure(size=3), generator.query()
    found = answers(structure, query)
    for candidate in itertools.product(structure.domain, repeat=len(query.variables)):
        satisfied = holds(structure, query.formula, dict(zip(query.variables, candidate, strict=True)))
        assert (candidate in found) == satisfied


@over_seeds(200)
def test_facts_outside_the_members_never_change_a_value(seed: int) -> None:
    generator = Generator(random.Random(seed))
    structure = generator.structure(size=4)
    members = frozenset(list(structure.domain)[:2])
    feature = Feature(generator.formula(("s1", "s2", "x")))
    pair = tuple(sorted(members, key=str))
    other = Structure(structure.domain, _changed_outside(generator, structure, members), structure.attributes)
    assert feature_value(structure.induced(members), feature, pair) == feature_value(
        other.induced(members), feature, pair
    )


def _changed_outside(generator: Generator, structure: Structure, members: frozenset[Element]) -> dict[str, Extension]:
    fresh = generator.structure(size=4).relations
    return {
        name: Extension(
            extension.arity,
            frozenset(t for t in extension.tuples if members.issuperset(t))
            | frozenset(t for t in fresh[name].tuples if not members.issuperset(t)),
        )
        for name, extension in structure.relations.items()
    }


# Mistakes

FAMILY = read_case(CASES[0].parent / "family.txt")[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sibling(x, y)", "there is no relation sibling"),
        ("parent('ann')", "parent has 2 arguments, not 1"),
        ("height('ann') > 3", "there is no attribute height"),
    ],
)
def test_unknown_names_are_errors(text: str, message: str) -> None:
    with pytest.raises(FormulaError, match=re.escape(message)):
        count(FAMILY, parse(text))


def test_a_free_variable_needs_an_object() -> None:
    with pytest.raises(FormulaError, match="the free variable x has no object assigned"):
        holds(FAMILY, parse("female(x)"))


def test_a_feature_cannot_use_more_objects_than_the_tuple_has() -> None:
    with pytest.raises(FormulaError, match="s3 is out of range: the tuple has 2 objects"):
        feature_value(FAMILY, parse_feature("female(s3)"), ("ann", "bob"))


def test_a_template_has_no_value() -> None:
    with pytest.raises(FormulaError, match="is a template"):
        feature_value(FAMILY, parse_feature("each r. r(s1, s2)"), ("ann", "bob"))


def test_variables_can_be_given_by_name() -> None:
    assert count(FAMILY, parse("parent(x, y)"), {"x": "bob"}) == count(FAMILY, parse("parent('bob', y)")) == 1


def test_a_string_is_not_a_tuple_of_objects() -> None:
    with pytest.raises(FormulaError, match="objects must be a tuple"):
        feature_value(FAMILY, parse_feature("female(s1)"), "ann")


def test_a_relation_variable_that_is_not_used_ranges_over_all_relations() -> None:
    assert holds(FAMILY, Exists((RelationVariable("r"),), Truth(True)))


def test_any_collection_induces_a_substructure() -> None:
    assert FAMILY.induced(["ann", "bob"]) == FAMILY.induced({"bob", "ann"})


def test_the_answer_to_a_true_sentence_is_the_empty_tuple() -> None:
    assert answers(FAMILY, parse_query("exists x. female(x)")) == {()}
    assert answers(FAMILY, parse_query("forall x. female(x)")) == set()


def test_implication_by_its_truth_table() -> None:
    for left, right in itertools.product(["true", "false"], repeat=2):
        formula = parse(f"{left} -> {right}")
        assert isinstance(formula, Implies)
        assert holds(FAMILY, formula) == (left == "false" or right == "true")
