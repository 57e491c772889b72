"""Constraints: parsed with located errors, printed, and mapped to the positions of a query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.errors import FormulaError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.parser import Schema, parse_query
from gaifman.sampling.constraints import (
    Constraints,
    FunctionalConstraint,
    QueryConstraints,
    TypeConstraint,
    parse_constraints,
)
from kbs import names

WORDS = Schema({"born_in": 2, "has part": 2, "/people/born": 2, "gave": 3, "person": 1, "place": 1, "/t/thing": 1})
BOTH = "functional: born_in 1→2\ntypes: born_in person, place\n"


def own(text: str, query: str) -> QueryConstraints:
    return parse_constraints(text, WORDS).for_query(parse_query(query))


def test_both_kinds_are_read() -> None:
    found = parse_constraints(BOTH, WORDS)
    assert found.functional == (FunctionalConstraint("born_in", (0,), 1),)
    assert found.types == (TypeConstraint("born_in", ("person", "place")),)
    assert found.to_text() == BOTH


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("functional: born_in 1->2", "functional: born_in 1→2"),
        ("  functional :born_in   1 → 2  ", "functional: born_in 1→2"),
        ("functional: gave 2,1→3", "functional: gave 1,2→3"),
        ("functional: gave 3 , 1 -> 2", "functional: gave 1,3→2"),
        ("functional: 'has part' 2→1", "functional: 'has part' 2→1"),
        ('functional: "has part" 2→1 # "why" not', "functional: 'has part' 2→1"),
        ("functional: /people/born 1→2", "functional: /people/born 1→2"),
        ("functional: 'born_in' 1→2", "functional: born_in 1→2"),
        ("types: born_in person,place", "types: born_in person, place"),
        ("types: gave person, _, /t/thing", "types: gave person, _, /t/thing"),
        ("types: person person", "types: person person"),
        ("functional: born_in", "functional: born_in 1→2"),
        ("inverse-functional: born_in", "functional: born_in 2→1"),
        ("symmetric: 'has part'", "symmetric: 'has part'"),
        ("asymmetric: born_in 2,1", "asymmetric: born_in"),
        ("irreflexive : gave 3,1 # no gift to oneself", "irreflexive: gave 1,3"),
    ],
)
def test_spellings(line: str, written: str) -> None:
    found = parse_constraints(line, WORDS)
    assert found.to_text() == f"{written}\n"
    assert parse_constraints(found.to_text(), WORDS) == found


def test_comments_and_empty_lines_are_nothing() -> None:
    found = parse_constraints("# all\n\n   \nfunctional: born_in 1→2 # one place\n\t# end", WORDS)
    assert found == parse_constraints("functional: born_in 1→2", WORDS)
    assert parse_constraints("", WORDS) == Constraints()
    assert Constraints().to_text() == ""


def test_what_is_written_twice_is_one() -> None:
    assert parse_constraints(BOTH + BOTH, WORDS).to_text() == BOTH
    assert len(parse_constraints("functional: gave 1,2→3\nfunctional: gave 2,1→3", WORDS).functional) == 1


@pytest.mark.parametrize(
    ("line", "message", "marked"),
    [
        ("functional: born_inn 1→2", "there is no relation born_inn", "born_inn"),
        ("functional: born_in 1→3", "born_in has only 2 arguments", "3"),
        ("functional: born_in 0→2", "born_in has only 2 arguments", "0"),
        ("functional: gave 1,4→3", "gave has only 3 arguments", "4"),
        ("functional: gave 1,99999999999999999999→3", "gave has only 3 arguments", "99999999999999999999"),
        ("functional: gave 1,1→3", "position 1 is repeated", "1,1→3"),
        ("functional: gave 1,3→3", "position 3 is repeated", "1,3→3"),
        ("functional: gave 1→2,3", "only one position can be determined", ",3"),
        ("functional: gave 1 2", "expected an arrow after", "2"),
        ("functional: gave 1=>2", "expected an arrow after", "="),
        ("functional: gave x→2", "expected the number of a position", "x"),
        ("functional: gave 1→", "expected the number of a position", ""),
        ("functional: gave 1→2 3", "unexpected text after the constraint", "3"),
        ("functional gave 1→2", "expected a colon after functional", "g"),
        ("functional:", "expected a relation", ""),
        ("functional: (gave) 1→2", "expected a relation", "("),
        ("functional: 'gave\\q' 1→2", "is not an escape sequence", "'gave\\q'"),
        ("functions: gave 1→2", "a constraint must begin with functional, inverse-functional, types,", "functions"),
        ("→", "a constraint must begin with functional, inverse-functional, types,", "→"),
        ("types: born_in person", "born_in has 2 arguments, not 1", "born_in"),
        ("types: born_in person, place, _", "born_in has 2 arguments, not 3", "born_in"),
        ("types: born_in persn, place", "there is no type persn", "persn"),
        ("types: born_in '_', place", "there is no type '_'", "'_'"),
        ("types: born_in person, gave", "gave has 3 arguments; a type is a unary relation", "gave"),
        ("types: born_in person,", "expected a type, or _", ""),
        ("types: born_in person place", "expected a comma between two types", "place"),
        ("functional: gave", "gave has 3 arguments: name positions", "gave"),
        ("inverse-functional: gave", "gave has 3 arguments: name positions", "gave"),
        ("inverse-functional: born_in 2→1", "unexpected text after the constraint", "2→1"),
        ("symmetric: gave", "gave has 3 arguments: name positions", "gave"),
        ("asymmetric: gave 1", "expected a comma between two positions", ""),
        ("irreflexive: gave 2,2", "position 2 is repeated", "2,2"),
        ("irreflexive: born_in 1,3", "born_in has only 2 arguments", "3"),
        ("reflexive: born_in", "a constraint must begin with", "reflexive"),
    ],
)
def test_a_mistake_is_marked_in_its_line(line: str, message: str, marked: str) -> None:
    with pytest.raises(FormulaError) as error:
        parse_constraints(f"{BOTH}{line} # so", WORDS, source="mine.txt")
    assert message in error.value.message
    place = error.value.location
    assert place is not None
    assert (place.source, place.line) == ("mine.txt", 3)
    assert place.text[place.column - 1 :][: place.width].strip() == marked
    assert "^" in str(error.value)


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("functional: bornin 1→2", ("born_in",)),
        ("types: born_in persons, place", ("person",)),
        ("type: born_in person, place", ("types",)),
    ],
)
def test_errors_have_suggestions(line: str, near: tuple[str, ...]) -> None:
    with pytest.raises(FormulaError) as error:
        parse_constraints(line, WORDS)
    assert error.value.suggestions == near


def test_other_types_for_the_same_relation_are_an_error() -> None:
    with pytest.raises(FormulaError, match="born_in already has types: types: born_in person, place"):
        parse_constraints(BOTH + "types: born_in person, _", WORDS)


def test_without_a_schema_any_name_is_accepted() -> None:
    text = "functional: likes 1→8\ntypes: likes this, that\n"
    assert parse_constraints(text).to_text() == text
    with pytest.raises(FormulaError, match="a relation has at most 8 arguments"):
        parse_constraints("functional: likes 1→9")


def test_a_knowledge_base_is_a_schema() -> None:
    kb = KnowledgeBase.from_facts([("born_in", "ann", "rome"), ("person", "ann"), ("place", "rome")])
    assert parse_constraints(BOTH, kb).to_text() == BOTH
    with pytest.raises(FormulaError, match="no relation gave"):
        parse_constraints("functional: gave 1→2", kb)


@given(st.lists(st.tuples(names, names, names), max_size=4))
def test_any_names_are_read_back(rows: list[tuple[str, str, str]]) -> None:
    found = Constraints(
        tuple(dict.fromkeys(FunctionalConstraint(relation, (0,), 1) for relation, _, _ in rows)),
        tuple({relation: TypeConstraint(relation, (one, None, other)) for relation, one, other in rows}.values()),
    )
    assert parse_constraints(found.to_text()) == found


# Of a query


def test_an_atom_has_the_constraints_of_its_relation() -> None:
    assert own(BOTH, "born_in(x, y)") == QueryConstraints((((0,), 1),), ("person", "place"))
    assert own(BOTH, "gave(x, y, z)") == QueryConstraints((), (None, None, None))
    assert own("functional: gave 1,3→2\nfunctional: gave 2→1", "gave(x, y, z)").functional == (((0, 2), 1), ((1,), 0))


def test_permuted_variables_permute_the_constraints() -> None:
    assert own(BOTH, "q(y, x) :- born_in(x, y)") == QueryConstraints((((1,), 0),), ("place", "person"))
    turned = own("functional: gave 1,2→3\ntypes: gave person, _, place", "q(z, x, y) :- gave(x, y, z)")
    assert turned == QueryConstraints((((1, 2), 0),), ("place", "person", None))


@pytest.mark.parametrize(
    "query",
    ["born_in(x, x)", "born_in(x, 'rome')", "born_in(x, y) & person(x)", "exists y. born_in(x, y)", "~born_in(x, y)"],
)
def test_nothing_is_known_of_other_queries(query: str) -> None:
    found = own(BOTH, query)
    assert found.functional == ()
    assert set(found.types) == {None}


def test_a_constraint_can_name_the_head() -> None:
    query = parse_query("lives(x, z) :- born_in(x, y), born_in(z, y)")
    text = "functional: lives 1→2\ntypes: lives person, _"
    assert parse_constraints(text, WORDS, query=query).for_query(query) == QueryConstraints(
        (((0,), 1),), ("person", None)
    )
    with pytest.raises(FormulaError, match="no relation lives"):
        parse_constraints(text, WORDS)
    with pytest.raises(FormulaError, match="lives has only 2 arguments"):
        parse_constraints("functional: lives 1→3", WORDS, query=query)


def test_a_head_of_an_atom_adds_to_its_relation() -> None:
    query = parse_query("birthplace(y, x) :- born_in(x, y)")
    found = parse_constraints(f"{BOTH}functional: birthplace 1→2\ntypes: birthplace _, /t/thing", WORDS, query=query)
    assert found.for_query(query) == QueryConstraints((((1,), 0), ((0,), 1)), ("place", "/t/thing"))


def test_a_head_of_its_relations_name_does_not_count_twice() -> None:
    query = parse_query("born_in(y, x) :- born_in(x, y)")
    assert parse_constraints(BOTH, WORDS, query=query).for_query(query) == QueryConstraints(
        (((1,), 0),), ("place", "person")
    )


def test_a_constraint_that_does_not_fit_the_head_is_an_error() -> None:
    query = parse_query("gave(x, y) :- born_in(x, z), born_in(y, z)")
    for line in ("functional: gave 1→3", "types: gave person, person, place"):
        with pytest.raises(FormulaError, match="names 3 positions, but the query has 2 variables"):
            parse_constraints(line, WORDS, query=query).for_query(query)


def test_a_mistake_names_its_source() -> None:
    with pytest.raises(FormulaError, match=r"mine.constraints, line 2, column 13: there is no relation bornin"):
        parse_constraints("\nfunctional: bornin 1→2\n", WORDS, source="mine.constraints")
