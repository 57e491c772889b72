"""What a query need not join: parts of which it is enough that they are there.

>>> from gaifman.logic.parser import parse
>>> from gaifman.logic.ast import Variable
>>> from gaifman.safety import conjuncts
>>> pieces = conjuncts(parse("person(x) & parent(x, y) & parent(y, z)"))
>>> parts = split_semijoins(pieces, frozenset({Variable("x")}), frozenset())
>>> print(*parts.joined), print(*parts.ears)
person(x)
∃y parent(x, y) ∧ (∃z parent(y, z))
(None, None)

Joined, these would make a row for each y and z, only to be thrown away again; tried, they make one row for each x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gaifman.logic.ast import And, Atom, Comparison, Equal, Exists, Formula, Truth
from gaifman.safety import Variables, free_variables, restricted_variables, sort_by_name


@dataclass(frozen=True, slots=True)
class SemijoinSplit:
    """The parts of a query."""

    joins: list[Formula]
    ears: list[Formula]
    """∃ over what hangs on one joined table, and can be found without looking at it."""
    filters: list[Formula]
    """∃ over the rest that need only be there."""


def split_semijoins(pieces: list[Formula], outputs: Variables, bound: Variables) -> SemijoinSplit:
    """Split what is joined from what need only be there; `out` is asked for, `visible` has values already.

    First go tables of whose variables one other table has all that they share with anything, as long as there are such:
    of a query without cycles no more is left than what is asked for. Then go whole components of the rest that share
    nothing with others but what these tie: those with a ¬, ∨ or ↔, and those that share nothing at all. Cycles of
    atoms through what is asked for stay joined.
    """
    if len(pieces) < 2 or not frozenset().union(*map(free_variables, pieces)) - outputs - bound:
        return SemijoinSplit(pieces, [], [])
    joined, hung = list(pieces), dict[Formula, list[Formula]]()
    while found := _find_ear(joined, outputs, bound):
        ear, private, host = found
        joined.remove(ear)
        hung.setdefault(host, []).append(Exists(sort_by_name(private), _conjunction([ear, *hung.pop(ear, ())])))
    tests: list[Formula] = []
    for group in _groups(joined, outputs | bound):
        rest = [piece for piece in joined if piece not in group]
        inside = frozenset().union(*map(free_variables, group)) - bound
        plain = inside & outputs and all(isinstance(piece, Atom | Comparison | Equal) for piece in group)
        if (
            rest
            and not plain
            and inside - outputs
            and inside & outputs <= restricted_variables(_conjunction(rest), bound)
        ):
            joined = rest
            below = [test for piece in group for test in hung.pop(piece, ())]
            tests.append(Exists(sort_by_name(inside - outputs), _conjunction([*group, *below])))
    return SemijoinSplit(joined, [ear for ears in hung.values() for ear in ears], tests)


def _groups(pieces: list[Formula], apart: Variables) -> list[list[Formula]]:
    groups: list[tuple[Variables, list[Formula]]] = []
    for piece in pieces:
        variables, members = free_variables(piece) - apart, [piece]
        for other in [group for group in groups if group[0] & variables]:
            groups.remove(other)
            variables, members = variables | other[0], [*other[1], *members]
        groups.append((variables, members))
    return [members for _, members in groups]


def _find_ear(pieces: list[Formula], out: Variables, visible: Variables) -> tuple[Formula, Variables, Formula] | None:
    """A table with variables that nothing else uses, and another that has all the others that it has."""
    tables = [piece for piece in pieces if isinstance(piece, Atom)]
    for ear in reversed(tables):  # the last hangs on the first: a star is flat, a chain nested
        elsewhere = out.union(*(free_variables(piece) for piece in pieces if piece is not ear))
        private = free_variables(ear) - elsewhere - visible
        shared = free_variables(ear) - private - visible
        host = next((t for t in tables if t is not ear and shared <= free_variables(t)), None) if private else None
        if host:
            return ear, private, host
    return None


def _conjunction(pieces: Sequence[Formula]) -> Formula:
    return pieces[0] if len(pieces) == 1 else And(tuple(pieces)) if pieces else Truth(True)
