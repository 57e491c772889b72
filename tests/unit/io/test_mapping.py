"""Mappings: the small language that says what columns are."""

from __future__ import annotations

from contextlib import suppress
from inspect import signature

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.errors import InputError
from gaifman.io import NO_MAPPING, read
from gaifman.io.mapping import Clause, Column, make_mapping, parse_clause
from gaifman.logic.ast import name_problem

SAYS = {
    "employee works_in dept": "works_in(employee, dept)",
    "employee is person": "person(employee)",
    "employee is [job]": "[job](employee)",
    "employee age": "age(employee) = age",
    "employee age = years": "age(employee) = years",
    "age(employee) = years": "age(employee) = years",
    "person [what] = value": "[what](person) = value",
    "gave(giver, gift, receiver)": "gave(giver, gift, receiver)",
    "person(employee)": "person(employee)",
    "head [link] tail": "[link](head, tail)",
    "[link](head, tail)": "[link](head, tail)",
    "trust :: buyer rates seller": "trust :: rates(buyer, seller)",
    "trust::rates(buyer,seller)": "trust :: rates(buyer, seller)",
    "employee:person boss boss:person": "boss(employee:person, boss:person)",
    "user:- likes item : product": "likes(user:-, item:product)",
    '"Full Name" \'works in\' "Dept (EU)"': '"works in"("Full Name", "Dept (EU)")',
    '"is" is "is"': '"is"("is")',
    "is is is": '"is"("is")',
    r'"a \"b\"" r c': r'r("a \"b\"", c)',
    "1 related 2": "related(1, 2)",
    "staff.name boss staff.boss": "boss(staff.name, staff.boss)",
}


@pytest.mark.parametrize("text", SAYS)
def test_clauses_are_read_and_written(text: str) -> None:
    clause = parse_clause(text)
    assert str(clause) == SAYS[text]
    assert parse_clause(str(clause)) == clause


names = st.text(min_size=1, max_size=6).filter(lambda name: not name_problem(name))
columns = st.builds(Column, names, st.none() | st.just("") | names)
clauses = st.builds(Clause, names | st.builds(Column, names), st.lists(columns, min_size=1, max_size=8).map(tuple))


@given(clauses)
def test_what_is_written_is_read(clause: Clause) -> None:
    assert parse_clause(str(clause)) == clause


@given(st.text(st.sampled_from("ab:=()[],\"'\\ \n\0"), max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InputError):
        parse_clause(text)


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("", "expected the name of a column, the mapping ends", 1),
        ("employee", "expected the name of a relation, the mapping ends", 9),
        ("employee works_in dept city", "expected the end of the mapping, got city", 24),
        ("employee is person here", "expected the end of the mapping, got here", 20),
        ("gave(a, b", "expected , or ), the mapping ends", 10),
        ("gave(a b)", "expected , or ), got b", 8),
        ("gave()", "expected the name of a column, got )", 6),
        ("gave(a, b) = c", "an attribute has one object", 6),
        ("r(a, b, c, d, e, f, g, h, i)", "a relation has at most 8 arguments, not 9", 3),
        ("a [link b", "expected ], got b", 9),
        ("a [link]", "expected = and the column of the values, or a column of objects, the mapping ends", 9),
        ("a r b:", "expected the kind of the objects, the mapping ends", 7),
        ('a "r b', "the quotation mark is not closed", 3),
        ('a "" b', "a name cannot be empty", 3),
        ("w :: a age = b", "an attribute has no confidence", 1),
    ],
)
def test_a_mistake_has_its_place(text: str, message: str, column: int) -> None:
    with pytest.raises(InputError) as caught:
        parse_clause(text)
    assert caught.value.message == message
    assert caught.value.location
    assert caught.value.location.column == column


def test_options_that_say_nothing_are_refused() -> None:
    assert not make_mapping()
    for options, name in (({"id": "a"}, "id"), ({"separator": ";"}, "separator"), ({"ignore": "a"}, "ignore")):
        with pytest.raises(InputError, match=f"{name} says nothing without a mapping"):
            make_mapping(**options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the separator is empty"):
        make_mapping(wide=True, separator=" ")
    with pytest.raises(InputError, match="expected the end of the mapping"):
        make_mapping(wide=True, id="employee id")


def test_the_defaults_of_read_are_no_mapping() -> None:
    """`read` makes a mapping only for other arguments."""
    defaults = signature(read).parameters
    assert tuple(defaults[name].default for name in ("map", "id", "wide", "separator", "ignore")) == NO_MAPPING
    assert not make_mapping(*NO_MAPPING)
    with pytest.raises(InputError, match="the mapping ends"):
        read([("r", "a", "b")], map="")


def test_one_text_is_one_clause() -> None:
    assert make_mapping("a r b") == make_mapping(["a r b"])
    assert make_mapping(wide=True, id='"Full Name":person').id == Column("Full Name", "person")
