"""Make an answer of any query false by hiding facts and values: for queries with ¬, ∀ or ↔.

>>> import gaifman
>>> kb = gaifman.KnowledgeBase.from_facts([("r", "a", "b"), ("r", "a", "c"), ("s", "b"), ("s", "c")])
>>> refuter = Refuter(kb, gaifman.parse_query("forall y. r(x, y) -> s(y)", kb))
>>> numbers = refuter.refute([kb.object_id("a")], key=1)
>>> [str(kb.fact_by_id(number)) for number in numbers]
['s(b).']
>>> refuter.refute([kb.object_id("b")], key=1) is None  # true without any fact
True

A formula is compiled to ways to be true. A way is a conjunction of atoms and comparisons that hold, equalities, and
formulas that must not hold. It is false when one of its facts or values is hidden, or when one of the latter formulas
is made true, that is, when what stands in *its* way is hidden. Hiding may open a way that was closed. So the search
repeats on what is left until no way is open.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from gaifman.errors import LimitError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import (
    And,
    AnyVariable,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Equal,
    Exists,
    Formula,
    Iff,
    Not,
    Number,
    Or,
    Quantity,
    Query,
    RelationVariable,
    Term,
    Truth,
    walk,
)
from gaifman.logic.semantics import COMPARISONS
from gaifman.queries.normalize import negate
from gaifman.queries.sql import normalize_for_kb
from gaifman.sampling.hitting_sets import minimum_hitting_set
from gaifman.sampling.rng import fold_in_int

MAX_WAYS = 256
"""Number of ways up to which the parts of ∨ in a conjunction are told apart."""
MAX_EQUIVALENCES = 8
"""Maximum number of ↔: each doubles the formula."""
MAX_STEPS = 100_000
"""Facts and objects that are tried for one tuple before it is given up."""
MAX_ROUNDS = 100
"""Rounds of hiding for one tuple before it is given up."""

Env = dict[AnyVariable, int]
"""Variable → number of an object or relation."""
Numbers = frozenset[int]
"""Numbers of facts and values."""
NOTHING: Numbers = frozenset()


@dataclass(frozen=True, slots=True)
class Way:
    """One way to make a formula true: objects for the variables, for which all parts hold."""

    variables: tuple[AnyVariable, ...]
    """Variables that ∃ binds."""
    literals: tuple[Atom | Comparison, ...]
    equalities: tuple[tuple[Equal, bool], ...]
    """Each with whether it holds, or must not."""
    denied: tuple[Ways, ...]
    """Formulas that must not hold."""


Ways = tuple[Way, ...]
"""A formula: one of these holds."""


def expand_equivalences(formula: Formula) -> Formula:
    """Return a normal formula without ↔: both sides hold, or neither does. Refuse many ↔."""
    if sum(isinstance(part, Iff) for part in walk(formula)) > MAX_EQUIVALENCES:
        raise LimitError(f"the query has more than {MAX_EQUIVALENCES} ↔")
    return _expand(formula)


def _expand(formula: Formula) -> Formula:
    match formula:
        case Iff(left, right):
            both = And((_expand(left), _expand(right)))
            return Or((both, And((_expand(negate(left)), _expand(negate(right))))))
        case And(parts):
            return And(tuple(map(_expand, parts)))
        case Or(parts):
            return Or(tuple(map(_expand, parts)))
        case Exists(variables, body):
            return Exists(variables, _expand(body))
        case Not(body):
            return Not(_expand(body))
    return formula


def compile_ways(formula: Formula) -> Ways:
    """Return the ways to make a normal formula without ↔ true."""
    return tuple(_make_way(variables, parts) for variables, parts in _alternatives(formula))


Alternative = tuple[tuple[AnyVariable, ...], tuple[Formula, ...]]


def _alternatives(formula: Formula) -> list[Alternative]:
    """Return for each choice of a part of every ∨ the bound variables and the parts that must hold."""
    match formula:
        case Truth(value):
            return [((), ())] if value else []
        case Or(parts):
            return [choice for part in parts for choice in _alternatives(part)]
        case And(parts):
            found: list[Alternative] = [((), ())]
            for part in parts:
                choices = _alternatives(part)
                if len(found) * len(choices) > MAX_WAYS:  # keep it whole: its negation must not hold
                    choices = [((), (Not(negate(part)),))]
                found = [(v + w, p + q) for v, p in found for w, q in choices]
            return found
        case Exists(variables, body):
            return [(variables + inner, parts) for inner, parts in _alternatives(body)]
    return [((), (formula,))]


def _make_way(variables: tuple[AnyVariable, ...], parts: tuple[Formula, ...]) -> Way:
    literals, equalities, denied = [], [], []
    for part in dict.fromkeys(parts):
        match part:
            case Atom() | Comparison():
                literals.append(part)
            case Equal():
                equalities.append((part, True))
            case Not(Equal() as body):
                equalities.append((body, False))
            case Not(body):
                denied.append(compile_ways(body))
    return Way(tuple(dict.fromkeys(variables)), tuple(literals), tuple(equalities), tuple(denied))


class Refuter:
    """Finds what to hide from tuples so that a query is false for them."""

    def __init__(self, kb: KnowledgeBase, query: Query) -> None:
        self._kb, self._variables = kb, query.variables
        formula = expand_equivalences(normalize_for_kb(query.formula, kb))
        self._ways = compile_ways(formula)
        atoms = (part for part in walk(formula) if isinstance(part, Atom))
        self._arities = {a.relation: len(a.terms) for a in atoms if isinstance(a.relation, RelationVariable)}
        self._lookup = _Lookup(kb)

    def refute(self, row: Sequence[int], key: int) -> list[int] | None:
        """Return numbers of facts and values, ascending, without which a tuple is no answer; None if there are none.

        No part of the result would do. The key decides between equal choices.
        """
        search = _Search(self._kb, self._lookup, self._arities, key)
        env: Env = dict(zip(self._variables, row, strict=True))
        try:
            found = search.falsify(self._ways, env, NOTHING)
            return None if found is None else sorted(search.drop_superfluous(self._ways, env, found))
        except _TooManyStepsError:
            return None


class _TooManyStepsError(Exception):
    """The search for one tuple takes too long."""


class _Search:
    """The search for one tuple."""

    def __init__(self, kb: KnowledgeBase, lookup: _Lookup, arities: dict[RelationVariable, int], key: int) -> None:
        self._kb, self._lookup, self._arities, self._key, self._steps = kb, lookup, arities, key, 0

    def falsify(self, ways: Ways, env: Env, hidden: Numbers) -> Numbers | None:
        """Return what else to hide so that no way is open; None if some way cannot be closed."""
        added = NOTHING
        for _ in range(MAX_ROUNDS):
            choices = []
            for way in ways:
                for found, numbers in self._open(way, env, hidden | added):
                    options = [frozenset((number,)) for number in numbers]
                    options += self._openings(way.denied, found, hidden | added)
                    if not options:
                        return None
                    choices.append(options)
            if not choices:
                return added
            added |= self._choose(choices)
        return None

    def _openings(self, denied: tuple[Ways, ...], env: Env, hidden: Numbers) -> list[Numbers]:
        """Return what to hide so that one of these formulas, which are false, becomes true."""
        found = (self.verify(ways, env, hidden) for ways in denied)
        return [numbers for numbers in found if numbers is not None]

    def verify(self, ways: Ways, env: Env, hidden: Numbers) -> Numbers | None:
        """Return the fewest numbers to hide so that a way is open; None if there are none."""
        found = (
            numbers
            for way in ways
            for inner, support in self._instances(way, env, hidden)
            if (numbers := self._deny(way.denied, inner, hidden)) is not None and numbers.isdisjoint(support)
        )
        return min(found, key=self._order, default=None)

    def _deny(self, denied: tuple[Ways, ...], env: Env, hidden: Numbers) -> Numbers | None:
        """Return what to hide so that none of these formulas holds."""
        added = NOTHING
        for ways in denied:
            more = self.falsify(ways, env, hidden | added)
            if more is None:
                return None
            added |= more
        return None if any(self.holds(ways, env, hidden | added) for ways in denied) else added

    def drop_superfluous(self, ways: Ways, env: Env, found: Numbers) -> Numbers:
        """Return the numbers without those that need not be hidden."""
        kept = found
        for number in sorted(found, key=self._word):
            if not self.holds(ways, env, kept - {number}):
                kept -= {number}
        return kept

    def holds(self, ways: Ways, env: Env, hidden: Numbers) -> bool:
        """Return whether a way is open."""
        return any(True for way in ways for _ in self._open(way, env, hidden))

    def _choose(self, choices: list[list[Numbers]]) -> Numbers:
        """Return a small set that contains an option of each choice."""
        sizes = [min(map(len, options)) for options in choices]
        small = [[o for o in options if len(o) == size] for options, size in zip(choices, sizes, strict=True)]
        if max(sizes) == 1:
            sets = [frozenset().union(*options) for options in small]
            return frozenset(minimum_hitting_set(sets, {n: self._word(n) for one in sets for n in one}))
        chosen = NOTHING
        for options in small:
            best: Numbers = min((option - chosen for option in options), key=self._order)
            chosen |= best
        return chosen

    def _order(self, numbers: Numbers) -> tuple[int, list[int]]:
        """Sort by size, then at random."""
        return len(numbers), sorted(map(self._word, numbers))

    def _word(self, number: int) -> int:
        return fold_in_int(self._key, number)

    # The objects for which a way is open

    def _open(self, way: Way, env: Env, hidden: Numbers) -> Iterator[tuple[Env, tuple[int, ...]]]:
        """Yield the objects for which all parts of a way hold, with the numbers of its facts and values."""
        for found, numbers in self._instances(way, env, hidden):
            if not any(self.holds(ways, found, hidden) for ways in way.denied):
                yield found, numbers

    def _instances(self, way: Way, env: Env, hidden: Numbers) -> Iterator[tuple[Env, tuple[int, ...]]]:
        """Yield the objects for which the literals and equalities of a way hold."""
        for found, numbers in self._join(way.literals, env, hidden):
            unbound = [variable for variable in way.variables if variable not in found]
            for values in itertools.product(*map(self._range, unbound)):
                self._count_step()
                full = found | dict(zip(unbound, values, strict=True))
                if all((self._term(e.left, full) == self._term(e.right, full)) == sign for e, sign in way.equalities):
                    yield full, numbers

    def _join(
        self, literals: tuple[Atom | Comparison, ...], env: Env, hidden: Numbers
    ) -> Iterator[tuple[Env, tuple[int, ...]]]:
        """Yield the objects for which atoms and comparisons hold: the one with most known terms first."""
        if not literals:
            yield env, ()
            return
        first = min(literals, key=lambda literal: self._unknown_terms(literal, env))
        rest = tuple(literal for literal in literals if literal is not first)
        matches = self._match_atom(first, env) if isinstance(first, Atom) else self._match_comparison(first, env)
        for found, numbers in matches:
            self._count_step()
            if hidden.isdisjoint(numbers):
                for full, others in self._join(rest, found, hidden):
                    yield full, numbers + others

    def _unknown_terms(self, literal: Atom | Comparison, env: Env) -> int:
        terms: Iterable[object] = _terms(literal)
        return sum(not isinstance(term, Constant) and term not in env for term in terms)

    def _match_atom(self, atom: Atom, env: Env) -> Iterator[tuple[Env, tuple[int, ...]]]:
        for relation in self._relations(atom, env):
            known = [(at, self._term(term, env)) for at, term in enumerate(atom.terms)]
            bound = [(at, obj) for at, obj in known if obj is not None]
            for number, objects in self._lookup.facts(relation, bound):
                found = dict(env)
                if isinstance(atom.relation, RelationVariable):
                    found[atom.relation] = relation
                if _bind(found, atom.terms, objects):
                    yield found, (number,)

    def _match_comparison(self, comparison: Comparison, env: Env) -> Iterator[tuple[Env, tuple[int, ...]]]:
        for inner, left, one in self._quantities(comparison.left, env):
            for found, right, other in self._quantities(comparison.right, inner):
                if COMPARISONS[comparison.operator](left, right):
                    yield found, tuple(dict.fromkeys(one + other))

    def _quantities(self, quantity: Quantity, env: Env) -> Iterator[tuple[Env, float, tuple[int, ...]]]:
        """Yield the values of a quantity with the numbers of values."""
        if isinstance(quantity, Number):
            yield env, quantity.value, ()
            return
        values, known = self._lookup.values(quantity.name), self._term(quantity.term, env)
        for obj in values if known is None else [known]:
            if obj in values and not isinstance(quantity.term, Constant):
                yield env | {quantity.term: obj}, values[obj][1], (values[obj][0],)
            elif obj in values:
                yield env, values[obj][1], (values[obj][0],)

    def _term(self, term: Term, env: Env) -> int | None:
        return self._lookup.object_id(term.name) if isinstance(term, Constant) else env.get(term)

    def _relations(self, atom: Atom, env: Env) -> list[int]:
        if isinstance(atom.relation, str):
            return [self._lookup.relation_id(atom.relation)]
        return [env[atom.relation]] if atom.relation in env else self._range(atom.relation)

    def _range(self, variable: AnyVariable) -> list[int]:
        """Return the objects, or the relations, that a variable can stand for."""
        if not isinstance(variable, RelationVariable):
            return self._lookup.objects
        arity = self._arities.get(variable)
        return [number for number, own in enumerate(self._kb.content.arities) if arity in (None, own)]

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _TooManyStepsError


def _terms(literal: Atom | Comparison) -> tuple[Term | RelationVariable, ...]:
    if isinstance(literal, Comparison):
        return tuple(q.term for q in (literal.left, literal.right) if isinstance(q, Attribute))
    return (*literal.terms, literal.relation) if isinstance(literal.relation, RelationVariable) else literal.terms


def _bind(env: Env, terms: tuple[Term, ...], objects: Sequence[int]) -> bool:
    """Bind the variables among the terms; return False where one has another object."""
    return all(isinstance(t, Constant) or env.setdefault(t, obj) == obj for t, obj in zip(terms, objects, strict=True))


class _Lookup:
    """The facts and values of a knowledge base by their objects."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        self.objects = list(range(len(kb.objects)))
        self.object_id, self.relation_id = cache(kb.object_id), cache(self._find_relation)
        self._rows, self._index, self.values = cache(self._load_rows), cache(self._load_index), cache(self._load_values)

    def facts(self, relation: int, bound: list[tuple[int, int]]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the number and objects of the facts with these objects at these positions."""
        rows = self._rows(relation)
        if not bound:
            yield from rows
            return
        lists = [self._index(relation, position).get(obj, ()) for position, obj in bound]
        for at in min(lists, key=len):
            number, objects = rows[at]
            if all(objects[position] == obj for position, obj in bound):
                yield number, objects

    def _find_relation(self, name: str) -> int:
        number = self._kb.content.relations.find(name)
        assert number is not None, "the query was checked"
        return number

    def _load_rows(self, relation: int) -> list[tuple[int, tuple[int, ...]]]:
        arity = self._kb.content.arities[relation]
        table = self._kb.fact_tables.get(arity)
        if table is None:
            return []
        first, last = table.starts[relation : relation + 2].tolist()
        offset = self._kb.fact_offsets[arity]
        return [(first + offset + at, tuple(row)) for at, row in enumerate(table.objects[first:last].tolist())]

    def _load_index(self, relation: int, position: int) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for at, (_, objects) in enumerate(self._rows(relation)):
            found[objects[position]].append(at)
        return found

    def _load_values(self, attribute: str) -> dict[int, tuple[int, float]]:
        """Return object → number and value."""
        table, first = self._kb.value_table, self._kb.value_offsets[attribute]
        number = self._kb.content.attributes.find(attribute)
        assert number is not None, "the query was checked"
        rows = table.rows(number)
        pairs = zip(table.objects[rows].tolist(), table.value[rows].tolist(), strict=True)
        return {obj: (first + at, value) for at, (obj, value) in enumerate(pairs)}
