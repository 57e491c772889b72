"""What a query need not join: parts of which it is enough that they are there.

>>> from gaifman.parser import parse
>>> from gaifman.formulas import Variable
>>> from gaifman.safety import conjuncts
>>> pieces = conjuncts(parse("person(x) & parent(x, y) & parent(y, z)"))
>>> joined, tests = tried(pieces, frozenset({Variable("x")}), frozenset())
>>> print(*joined), print(*tests)
person(x)
∃y, z parent(x, y) ∧ parent(y, z)
(None, None)

Joined, these would make a row for each y and z, only to be thrown away again; tried, they make one row for each x.
"""

from __future__ import annotations

from collections.abc import Sequence

from gaifman.formulas import And, Atom, Exists, Formula, Truth
from gaifman.safety import Variables, by_name, restricted, unbound


def tried(pieces: list[Formula], out: Variables, visible: Variables) -> tuple[list[Formula], list[Formula]]:
    """Split what is joined from what need only be there: no answer hangs on how often.

    In `p(x) ∧ ∃y, z (r(x, y) ∧ s(y, z))` it is enough that there are a y and a z. First whole components go that share
    no variable with the rest but those that it ties, then single tables of which one other has all that they share.
    """
    joined, tests = _components(pieces, out, visible)
    hung: dict[Formula, list[Formula]] = {}
    while found := _ear(joined, out | visible):
        ear, private, host = found
        joined.remove(ear)
        hung.setdefault(host, []).append(Exists(by_name(private), _all([ear, *hung.pop(ear, ())])))
    return joined, [*tests, *(test for found_tests in hung.values() for test in found_tests)]


def _components(pieces: list[Formula], out: Variables, visible: Variables) -> tuple[list[Formula], list[Formula]]:
    """Pieces that hang together by variables that are not asked for: those that stay, and the rest as ∃."""
    joined, tests = list(pieces), []
    for group in _groups(pieces, out | visible):
        rest = [piece for piece in joined if piece not in group]
        inside = frozenset().union(*map(unbound, group)) - visible
        if rest and inside - out and inside & out <= restricted(_all(rest), visible):
            joined = rest
            tests.append(Exists(by_name(inside - out), _all(group)))
    return joined, tests


def _groups(pieces: list[Formula], apart: Variables) -> list[list[Formula]]:
    groups: list[tuple[Variables, list[Formula]]] = []
    for piece in pieces:
        variables, members = unbound(piece) - apart, [piece]
        for other in [group for group in groups if group[0] & variables]:
            groups.remove(other)
            variables, members = variables | other[0], [*other[1], *members]
        groups.append((variables, members))
    return [members for _, members in groups]


def _ear(pieces: list[Formula], out: Variables) -> tuple[Formula, Variables, Formula] | None:
    """A table with variables that nothing else uses, and another that has all that it shares."""
    tables = [piece for piece in pieces if isinstance(piece, Atom)]
    for ear in tables:
        elsewhere = frozenset().union(*(unbound(piece) for piece in pieces if piece is not ear))
        private = unbound(ear) - elsewhere - out
        if private:
            shared = unbound(ear) & elsewhere
            host = next((t for t in tables if t is not ear and shared <= unbound(t)), None)
            if host and not (unbound(ear) & out) - unbound(host):
                return ear, private, host
    return None


def _all(pieces: Sequence[Formula]) -> Formula:
    return pieces[0] if len(pieces) == 1 else And(tuple(pieces)) if pieces else Truth(True)
