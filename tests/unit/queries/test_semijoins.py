"""What is joined, what hangs on it, what is tried."""

from __future__ import annotations

import pytest

from gaifman.logic.ast import Variable
from gaifman.logic.parser import parse
from gaifman.queries.normalize import Domain, conjuncts, normalize
from gaifman.queries.sql import split_semijoins

DOMAIN = Domain({"p": 1, "q": 1, "r": 2, "s": 2, "t": 2})


@pytest.mark.parametrize(
    ("text", "out", "joined", "ears", "tests"),
    [
        ("p(x)", "x", 1, 0, 0),
        ("r(x, y) & s(y, z)", "xyz", 2, 0, 0),
        ("r(x, y) & s(y, z)", "xz", 2, 0, 0),
        ("r(x, y) & s(y, z)", "x", 1, 1, 0),
        ("r(x, y) & s(y, z)", "", 1, 1, 0),
        ("r(x, y) & s(x, z) & t(x, u)", "x", 1, 2, 0),
        ("r(x, y) & s(y, z) & t(z, u)", "x", 1, 1, 0),
        ("r(x, y) & s(y, z) & t(z, x)", "x", 3, 0, 0),
        ("p(x) & r(x, y) & s(y, z) & t(z, x)", "x", 4, 0, 0),
        ("p(x) & r(u, y) & s(y, z) & t(z, u)", "x", 1, 0, 1),
        ("p(x) & q(z)", "x", 1, 1, 0),
        ("p(x) & r(y, z) & ~s(y, z)", "x", 1, 0, 1),
        ("p(x) & ~r(x, y)", "x", 1, 0, 1),
        ("p(x) & r(x, y) & ~s(y, x)", "x", 1, 0, 1),
    ],
)
def test_the_parts_of_a_query(text: str, out: str, joined: int, ears: int, tests: int) -> None:
    pieces = conjuncts(normalize(parse(text), DOMAIN))
    parts = split_semijoins(pieces, frozenset(map(Variable, out)), frozenset())
    assert (len(parts.joins), len(parts.ears), len(parts.filters)) == (joined, ears, tests)


def test_what_has_a_value_already_holds_nothing_together() -> None:
    pieces = conjuncts(normalize(parse("r(x, y) & s(x, z)"), DOMAIN))
    x, y, z = map(Variable, "xyz")
    parts = split_semijoins(pieces, frozenset({y}), frozenset({x}))
    assert [str(piece) for piece in parts.joins] == ["r(x, y)"]
    assert [str(piece) for piece in (*parts.ears, *parts.filters)] == ["∃z s(x, z)"]
    assert split_semijoins(pieces, frozenset({y, z}), frozenset({x})).joins == pieces
