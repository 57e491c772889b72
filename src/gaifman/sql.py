"""Queries into SQL over the tables of a saved knowledge base.

>>> from gaifman.kb import KnowledgeBase
>>> from gaifman.parser import parse_query
>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo")])
>>> print(translate(parse_query("parent(x, z) & parent(z, y)", kb), kb).ordered())
SELECT f1.a1 AS "x", f1.a2 AS "z", f2.a2 AS "y"
FROM facts2 f1
JOIN facts2 f2 ON f2.relation = 0 /* parent */ AND f2.a1 = f1.a2
WHERE f1.relation = 0 /* parent */
ORDER BY ALL
>>> ranging = translate(parse_query("~parent(x, y)", kb), kb)
>>> ranging.ranging, ranging.size
(('x', 'y'), 9)

Atoms and comparisons become joined tables, ∨ that ties its variables a UNION, ¬ an anti-join, and the rest conditions
with EXISTS. A variable that nothing ties ranges over `objects`, and the statement says so. No name of the knowledge
base is put into the text but in comments; no value is NULL, so that NOT means ¬.
"""

# ruff: noqa: S608 - the text is made of numbers and of names of our own

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gaifman.formulas import (
    And,
    Atom,
    Comparison,
    Constant,
    Equal,
    Exists,
    Formula,
    Iff,
    Not,
    Number,
    Or,
    RelationVariable,
    Term,
    Truth,
    Variable,
    walk,
)
from gaifman.frames import Env, Frame, columns_of
from gaifman.kb import KnowledgeBase
from gaifman.questions import Query
from gaifman.safety import AnyVariable, Domain, Variables, by_name, conjuncts, restricted, tidy, unbound
from gaifman.semijoins import Split, split

GAP = "\n"
_SIGNS = {"=": "=", "≠": "<>", "<": "<", "≤": "<=", ">": ">", "≥": ">="}


@dataclass(frozen=True, slots=True)
class Statement:
    """A query in SQL, and what it ranges over."""

    text: str
    """Gives each answer once, as numbers of objects, one column for each variable."""
    columns: int
    """Variables of the query; a sentence has none, and its statement one row where it is true."""
    ranging: tuple[str, ...]
    """Variables that nothing ties to facts: they range over the whole domain."""
    size: int
    """Combinations of objects that these imply."""

    def ordered(self, rows: int | None = None, skip: int = 0) -> str:
        """The answers by number of the first object, then of the second and so on: all, or some of them."""
        text = f"{self.text}\nORDER BY ALL" if self.columns else self.text
        text += "" if rows is None else f"\nLIMIT {rows:d}"
        return text + (f"\nOFFSET {skip:d}" if skip else "")

    def counted(self) -> str:
        """How many answers there are."""
        return f"SELECT count(*) FROM (\n{self.text}\n) answers"


def translate(
    query: Query, kb: KnowledgeBase, given: Mapping[Variable, int] | None = None, *, sentence: bool = False
) -> Statement:
    """The query over the tables of the knowledge base; some variables can be given as numbers of objects.

    As a `sentence` it asks only whether there is an answer.
    """
    env: Env = {variable: str(number) for variable, number in (given or {}).items()}
    out = () if sentence else query.free
    asked = tuple(v for v in query.free if v not in out and v not in env)
    formula = plain(Exists(asked, query.formula) if asked else query.formula, kb)
    translator = Translator(kb, formula)
    frame = translator.frame([formula], out, env)
    if out:
        chosen = [f"{frame.env[v]} AS {name}" for v, name in zip(out, columns_of(out), strict=True)]
        text = frame.text(chosen, GAP, distinct=frame.repeats(out))
    else:
        rows = frame.text(["1"], GAP)
        text = f'SELECT true AS "true"\nWHERE {_some(rows, GAP)}'
    return Statement(text, len(out), tuple(dict.fromkeys(translator.ranging)), frame.size)


def plain(formula: Formula, kb: KnowledgeBase) -> Formula:
    """The formula tidied for a knowledge base."""
    return tidy(formula, Domain(kb.vocabulary.relations, kb.objects, kb.tables.keys()))


class Translator:
    """Makes the frames of one statement; aliases are numbered through."""

    def __init__(self, kb: KnowledgeBase, formula: Formula) -> None:
        self._kb = kb
        self._made = 0
        self._formula = formula
        self.ranging: list[str] = []

    def frame(
        self,
        formulas: Sequence[Formula],
        out: Sequence[AnyVariable],
        env: Env,
        *,
        correlated: bool = False,
        begun: Frame | None = None,
    ) -> Frame:
        """A SELECT of tidy formulas that all hold, in which `out` and every variable that is used have a column.

        One that is `begun` is gone on with, and joins every atom, also those that need only be tried.
        """
        frame = begun or Frame(dict(env), correlated)
        pieces: list[Formula] = []
        for formula in formulas:
            pieces += [piece for piece in conjuncts(formula) if piece not in pieces]
        if Truth(False) in pieces:
            frame.where.append("false")
            frame.env |= {variable: "NULL" for variable in out if variable not in frame.env}
            return frame
        parts = Split(pieces, [], []) if begun else split(pieces, frozenset(out), frozenset(env))
        waiting = self._tie(frame, parts.joined)
        self._range(frame, waiting, [*out, *(v for piece in waiting for v in by_name(unbound(piece)))])
        for ear in parts.ears:
            self._ear(frame, ear)
        for test in (*waiting, *parts.tests):
            self._test(frame, test)
        frame.size *= frame.within
        return frame

    def _tie(self, frame: Frame, pieces: list[Formula]) -> list[Formula]:
        """Join what ties variables by itself; the rest."""
        waiting = self._settle(frame, [piece for piece in pieces if not isinstance(piece, Atom | Comparison)])
        tables = [piece for piece in pieces if isinstance(piece, Atom | Comparison)]
        while tables:
            near = next((t for t in tables if not unbound(t).isdisjoint(frame.own)), tables[0])
            tables.remove(near)
            self._table(frame, near)
        constants = frame.constants()
        known = frozenset(constants)
        for piece in [p for p in waiting if isinstance(p, Or)]:
            if unbound(piece) - known and unbound(piece) <= restricted(piece, known) | known:
                waiting.remove(piece)
                self._union(frame, piece, unbound(piece) - known, constants, alone=True)
        return self._settle(frame, waiting)

    def _settle(self, frame: Frame, pieces: list[Formula]) -> list[Formula]:
        """Equalities that give a variable a value; the rest."""
        left = list(pieces)
        found = True
        while found:
            found = False
            for piece in [p for p in left if isinstance(p, Equal)]:
                sides = [self._term(piece.left, frame.env), self._term(piece.right, frame.env)]
                if sides[0] is None and sides[1] is None:
                    continue
                left.remove(piece)
                found = True
                if sides[0] is not None and sides[1] is not None:
                    frame.where.append(f"{sides[0]} = {sides[1]}")
                for term, other in ((piece.left, sides[1]), (piece.right, sides[0])):
                    if isinstance(term, Variable) and term not in frame.env and other is not None:
                        frame.env[term] = other
        return left

    def _range(self, frame: Frame, waiting: list[Formula], wanted: Sequence[AnyVariable]) -> None:
        """Columns for the variables that have none yet: from ∨ where that helps, else the whole domain."""
        for variable in dict.fromkeys(wanted):
            while variable not in frame.env:
                if not self._lateral(frame, waiting):
                    self._domain(frame, variable)
                waiting[:] = self._settle(frame, waiting)

    def _lateral(self, frame: Frame, waiting: list[Formula]) -> bool:
        """Join an ∨ that ties all its variables where others have a value; whether there was one."""
        for piece in waiting:
            missing = unbound(piece).difference(frame.env)
            if isinstance(piece, Or) and missing and missing <= restricted(piece, frozenset(frame.env)):
                waiting.remove(piece)
                self._union(frame, piece, missing, frame.env, alone=False)
                return True
        return False

    def _domain(self, frame: Frame, variable: AnyVariable) -> None:
        """Let a variable range over all objects, or all relations with so many places."""
        if isinstance(variable, RelationVariable):
            alias = self._alias("r")
            arity = next(len(a.terms) for a in walk(self._formula) if isinstance(a, Atom) and a.relation == variable)
            frame.add(f"relations {alias}", [f"{alias}.arity = {arity}"])
            frame.size *= sum(arity == places for places in self._kb.content.arities)
        else:
            alias = self._alias("o")
            frame.add(f"objects {alias}", [])
            frame.size *= len(self._kb.objects)
        frame.env[variable] = f"{alias}.id"
        frame.own.add(variable)
        self.ranging.append(variable.name)

    def _table(self, frame: Frame, piece: Atom | Comparison) -> None:
        """Join the table of an atom or the numbers of a comparison."""
        if isinstance(piece, Comparison):
            for table, conditions, found in self._numbers(piece, frame.env):
                frame.add(table, conditions)
                frame.own.update(found)
                frame.env |= found
            return
        table, conditions, found = self._facts(piece, frame.env)
        frame.facts.append((len(piece.terms), table.split()[1]))
        frame.add(table, conditions)
        frame.own.update(found)
        frame.env |= found

    def _facts(self, atom: Atom, env: Env) -> Source:
        alias = self._alias("f")
        conditions: list[str] = []
        found: Env = {}
        if isinstance(atom.relation, str):
            number = self._kb.content.relations.number(atom.relation)
            conditions.append(f"{alias}.relation = {number}{_comment(atom.relation)}")
        else:
            self._match(atom.relation, f"{alias}.relation", env, conditions, found)
        for place, term in enumerate(atom.terms, start=1):
            self._match(term, f"{alias}.a{place}", env, conditions, found)
        return f"facts{len(atom.terms)} {alias}", conditions, found

    def _numbers(self, comparison: Comparison, env: Env) -> list[Source]:
        """The numbers of one or two attributes, the last with the comparison among its conditions."""
        sources: list[Source] = []
        sides: list[str] = []
        known = dict(env)
        for quantity in (comparison.left, comparison.right):
            if isinstance(quantity, Number):
                sides.append(_number(quantity.value))
                continue
            alias = self._alias("n")
            number = self._kb.content.attributes.number(quantity.name)
            conditions = [f"{alias}.attribute = {number}{_comment(quantity.name)}"]
            found: Env = {}
            self._match(quantity.term, f"{alias}.object", known, conditions, found)
            known |= found
            sides.append(f"{alias}.value")
            sources.append((f"attribute_values {alias}", conditions, found))
        sources[-1][1].append(f"{sides[0]} {_SIGNS[comparison.operator]} {sides[1]}")
        return sources

    def _match(self, term: Term | RelationVariable, column: str, env: Env, conditions: list[str], found: Env) -> None:
        """A column that a term stands for: a condition where its value is known, a value for it where not."""
        known = found.get(term) if isinstance(term, Variable | RelationVariable) else None
        known = known or self._term(term, env)
        if known is not None:
            conditions.append(f"{column} = {known}")
        else:
            assert not isinstance(term, Constant)
            found[term] = column

    def _term(self, term: Term | RelationVariable, env: Env) -> str | None:
        return str(self._kb.id(term.name)) if isinstance(term, Constant) else env.get(term)

    def _union(self, frame: Frame, piece: Or, columns: Variables, env: Env, *, alone: bool) -> None:
        """Join the rows of all parts of an ∨."""
        alias, out = self._alias("u"), by_name(columns)
        names = [f"c{place}" for place in range(1, len(out) + 1)]
        texts = []
        for part in piece.parts:
            inner = self.frame([part], out, env, correlated=not alone)
            frame.within = max(frame.within, inner.size)
            texts.append(inner.text([f"{inner.env[v]} AS {name}" for v, name in zip(out, names, strict=True)]))
        table = f"({' UNION '.join(texts)}) {alias}"
        found = {v: f"{alias}.{name}" for v, name in zip(out, names, strict=True)}
        conditions = [f"{column} = {frame.env[v]}" for v, column in found.items() if v in frame.env]
        frame.add(table if alone or not frame.joins else f"LATERAL {table}", conditions)
        new = {v: column for v, column in found.items() if v not in frame.env}
        frame.own.update(new)
        frame.env |= new

    def _ear(self, frame: Frame, piece: Formula) -> None:
        """A semi-join with what is found by itself."""
        constants = frame.constants()
        shared = by_name(unbound(piece).difference(constants))
        if frame.correlated or not frame.joins or not shared or len(conjuncts(piece)) == 1:
            self._test(frame, piece)
            return
        alias = self._alias("s")
        names = [f"c{place}" for place in range(1, len(shared) + 1)]
        inner = self.frame([piece], shared, constants)
        text = inner.text([f"{inner.env[v]} AS {name}" for v, name in zip(shared, names, strict=True)])
        conditions = [f"{alias}.{name} = {frame.env[v]}" for v, name in zip(shared, names, strict=True)]
        frame.add(f"({text}) {alias}", conditions, "SEMI")

    def _test(self, frame: Frame, piece: Formula) -> None:
        """A condition on rows: a semi- or anti-join with one table where that says it, else in WHERE."""
        body, kind = (piece.body, "ANTI") if isinstance(piece, Not) else (piece, "SEMI")
        inside = conjuncts(body) if isinstance(body, Exists) else [body]
        single = inside[0] if len(inside) == 1 else None
        # Not without a column on either side of an equality: such a semi-join loses rows in DuckDB 2.0.
        linked = not unbound(body).isdisjoint(frame.env.keys() - frame.constants().keys())
        if linked and frame.joins and not frame.correlated and isinstance(single, Atom | Comparison):
            sources = [self._facts(single, frame.env)] if isinstance(single, Atom) else self._numbers(single, frame.env)
            if len(sources) == 1:
                frame.add(*sources[0][:2], kind)
                return
        frame.where.append(self._condition(frame, piece))

    def _condition(self, frame: Frame, piece: Formula) -> str:
        """A formula whose variables all have a value, as a condition."""
        match piece:
            case Truth(value):
                return "true" if value else "false"
            case Equal(left, right):
                return f"{self._term(left, frame.env)} = {self._term(right, frame.env)}"
            case Not(Equal(left, right)):
                return f"{self._term(left, frame.env)} <> {self._term(right, frame.env)}"
            case Not(body):
                return f"NOT {self._condition(frame, body)}"
            case And(parts) | Or(parts):
                word = " AND " if isinstance(piece, And) else " OR "
                return f"({word.join(self._condition(frame, part) for part in parts)})"
            case Iff(left, right):
                return f"(({self._condition(frame, left)}) = ({self._condition(frame, right)}))"
        constants = frame.constants()
        alone = unbound(piece) <= constants.keys()
        inner = self.frame([piece], (), constants if alone else frame.env, correlated=not alone)
        frame.within = max(frame.within, inner.size)
        return _some(inner.text(["1"])) if alone else f"EXISTS ({inner.text(['1'])})"

    def _alias(self, letter: str) -> str:
        self._made += 1
        return f"{letter}{self._made}"


Source = tuple[str, list[str], Env]
"""A table with its alias, conditions on its rows, and the variables it has columns for."""


def _some(rows: str, gap: str = " ") -> str:
    """Whether there is a row, of a SELECT that uses no columns of others.

    Not with EXISTS: DuckDB 2.0 reads that as a count of 1 behind LIMIT 1, and now and then forgets the LIMIT.
    """
    inside = gap if gap != " " else ""
    return f"(SELECT count(*) FROM ({inside}{rows}{gap}LIMIT 1{inside}) found) > 0"


def _comment(name: str) -> str:
    """A name beside its number, for whoever reads the statement."""
    return f" /* {name} */" if name.isprintable() and "*" not in name and len(name) <= 40 else ""


def _number(value: float) -> str:
    if math.isinf(value):
        return f"'{'-' if value < 0 else ''}infinity'::DOUBLE"
    text = repr(value)
    return text if "e" in text else f"{text}e0"  # with an exponent it is a DOUBLE, not a decimal number
