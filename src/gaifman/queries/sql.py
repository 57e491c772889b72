"""Translation of queries into SQL.

>>> import gaifman
>>> kb = gaifman.KnowledgeBase.from_facts([("parent", "ann", "bob"), ("female", "ann")])
>>> print(translate(gaifman.parse_query("exists y. parent(x, y) & ~female(x)"), kb).sql)
SELECT DISTINCT f1.a1 AS "x"
FROM facts2 f1
ANTI JOIN facts1 f2 ON f2.relation = 0 /* female */ AND f2.a1 = f1.a1
WHERE f1.relation = 1 /* parent */
"""

# ruff: noqa: S608 - the text consists of numbers and our own names
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import (
    And,
    AnyVariable,
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
    Query,
    RelationVariable,
    Term,
    Truth,
    Variable,
    all_free_variables,
    walk,
)
from gaifman.queries.normalize import Domain, Variables, conjuncts, normalize, restricted_variables, sort_by_name

Env = dict[AnyVariable, str]
"""Variable → SQL expression."""


@dataclass(slots=True)
class SelectBuilder:
    """A SELECT under construction."""

    env: Env
    correlated: bool = False
    """Whether it uses columns of an outer SELECT."""
    own_variables: set[AnyVariable] = field(default_factory=set)
    """Variables with a column of its tables."""
    joins: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    combinations: int = 1
    """Combinations of objects that its unrestricted variables imply, with those of inner conditions."""
    inner_combinations: int = 1
    fact_tables: list[tuple[int, str]] = field(default_factory=list)
    """Arity and alias of the table of each atom."""
    value_tables: list[str] = field(default_factory=list)
    """Alias of the table of each compared attribute."""

    def join(self, table: str, conditions: Sequence[str], kind: str = "") -> None:
        """Join a table; `kind` is empty, SEMI or ANTI."""
        joined = " AND ".join(conditions)
        if not self.joins and not kind:
            self.joins.append(f"FROM {table}")
            self.where[:0] = conditions
        elif not kind:
            self.joins.append(f"JOIN {table} ON {joined}" if joined else f"CROSS JOIN {table}")
        else:
            self.joins.append(f"{kind} JOIN {table} ON {joined or 'true'}")

    def bind(self, columns: Env) -> None:
        """Set the columns of variables."""
        self.own_variables.update(columns)
        self.env |= columns

    def constants(self) -> Env:
        """Return the variables bound to one object, which inner SELECTs may use."""
        return {variable: text for variable, text in self.env.items() if text.isdigit()}

    def may_repeat(self, variables: Iterable[AnyVariable]) -> bool:
        """Return whether the values of some variables may come in several rows."""
        columns = {self.env[variable] for variable in variables}
        return any(self.env[variable] not in columns for variable in self.own_variables)

    def to_sql(self, columns: Sequence[str], *, distinct: bool = False) -> str:
        """Return the statement."""
        lines = [f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(columns)}", *self.joins]
        if self.where:
            lines.append(f"WHERE {' AND '.join(self.where)}")
        return "\n".join(lines)

    def to_named_sql(self, variables: Sequence[AnyVariable], names: Sequence[str], *, distinct: bool = False) -> str:
        """Return the statement that selects variables under names."""
        columns = [f"{self.env[variable]} AS {name}" for variable, name in zip(variables, names, strict=True)]
        return self.to_sql(columns, distinct=distinct)


def quoted_columns(variables: Iterable[Variable]) -> list[str]:
    """Return quoted column names of variables, numbered where they differ only by case.

    >>> quoted_columns([Variable("x"), Variable("X"), Variable("born in")])
    ['"x"', '"X_2"', '"born in"']
    """
    names: list[str] = []
    seen: set[str] = set()
    for position, variable in enumerate(variables, start=1):
        name = variable.name
        while name.casefold() in seen:
            name = f"{name}_{position}"
        seen.add(name.casefold())
        names.append('"{}"'.format(name.replace('"', '""')))
    return names


@dataclass(frozen=True, slots=True)
class SemijoinSplit:
    """A conjunction, split into joins and conditions."""

    joins: list[Formula]
    ears: list[Formula]
    """∃ over parts that share variables with one joined table only: semi-joins, evaluated on their own."""
    filters: list[Formula]
    """∃ over the other parts that need only have a match."""


def split_semijoins(pieces: list[Formula], outputs: Variables, bound: Variables) -> SemijoinSplit:
    """Split what must be joined from what need only have a match. `outputs` are selected, `bound` have values.

    First, ears are removed as long as there are any: tables whose shared variables all occur in one other table. Of an
    acyclic query only the outputs remain. Then components are removed that share only restricted variables with the
    rest: those with ¬, ∨ or ↔, and those that share nothing. Cycles of atoms through the outputs stay joined.
    """
    if len(pieces) < 2 or not frozenset().union(*map(all_free_variables, pieces)) - outputs - bound:
        return SemijoinSplit(pieces, [], [])
    joined, ears = list(pieces), dict[Formula, list[Formula]]()
    while found := _find_ear(joined, outputs, bound):
        ear, private, host = found
        joined.remove(ear)
        ears.setdefault(host, []).append(Exists(sort_by_name(private), _conjunction([ear, *ears.pop(ear, ())])))
    filters: list[Formula] = []
    for group in _groups(joined, outputs | bound):
        rest = [piece for piece in joined if piece not in group]
        inside = frozenset().union(*map(all_free_variables, group)) - bound
        plain = inside & outputs and all(isinstance(piece, Atom | Comparison | Equal) for piece in group)
        if (
            rest
            and not plain
            and inside - outputs
            and inside & outputs <= restricted_variables(_conjunction(rest), bound)
        ):
            joined = rest
            below = [ear for piece in group for ear in ears.pop(piece, ())]
            filters.append(Exists(sort_by_name(inside - outputs), _conjunction([*group, *below])))
    return SemijoinSplit(joined, [ear for own in ears.values() for ear in own], filters)


def _groups(pieces: list[Formula], apart: Variables) -> list[list[Formula]]:
    groups: list[tuple[Variables, list[Formula]]] = []
    for piece in pieces:
        variables, members = all_free_variables(piece) - apart, [piece]
        for other in [group for group in groups if group[0] & variables]:
            groups.remove(other)
            variables, members = variables | other[0], [*other[1], *members]
        groups.append((variables, members))
    return [members for _, members in groups]


def _find_ear(pieces: list[Formula], out: Variables, visible: Variables) -> tuple[Formula, Variables, Formula] | None:
    """Return a table, its private variables, and another table that has all its other variables."""
    tables = [piece for piece in pieces if isinstance(piece, Atom)]
    for ear in reversed(tables):  # the last first: a star stays flat, a chain is nested
        elsewhere = out.union(*(all_free_variables(piece) for piece in pieces if piece is not ear))
        private = all_free_variables(ear) - elsewhere - visible
        shared = all_free_variables(ear) - private - visible
        host = next((t for t in tables if t is not ear and shared <= all_free_variables(t)), None) if private else None
        if host:
            return ear, private, host
    return None


def _conjunction(pieces: Sequence[Formula]) -> Formula:
    return pieces[0] if len(pieces) == 1 else And(tuple(pieces)) if pieces else Truth(True)


_SIGNS = {"=": "=", "≠": "<>", "<": "<", "≤": "<=", ">": ">", "≥": ">="}


@dataclass(frozen=True, slots=True)
class Statement:
    """A query in SQL, and its unrestricted variables."""

    sql: str
    """Selects each answer once, as numbers of objects, with a column for each variable."""
    n_columns: int
    """Number of variables. A sentence has none, and its statement returns one row if it is true."""
    unrestricted: tuple[str, ...]
    """Variables that no fact restricts: they range over the whole domain."""
    combinations: int
    """Combinations of objects that they imply."""

    def ordered_sql(self, rows: int | None = None, skip: int = 0) -> str:
        """Return the statement with the answers in order, all or a page of them."""
        text = f"{self.sql}\nORDER BY ALL" if self.n_columns else self.sql
        text += "" if rows is None else f"\nLIMIT {rows:d}"
        return text + (f"\nOFFSET {skip:d}" if skip else "")

    def count_sql(self) -> str:
        """Return a statement that counts the answers."""
        return f"SELECT count(*) FROM (\n{self.sql}\n) answers"


def translate(
    query: Query, kb: KnowledgeBase, bindings: Mapping[Variable, int] | None = None, *, sentence: bool = False
) -> Statement:
    """Translate a query; `bindings` gives variables the number of an object.

    With `sentence`, the statement only tests whether there is an answer.
    """
    env: Env = {variable: str(number) for variable, number in (bindings or {}).items()}
    out = () if sentence else query.variables
    quantified = tuple(v for v in query.variables if v not in out and v not in env)
    formula = normalize_for_kb(Exists(quantified, query.formula) if quantified else query.formula, kb)
    translator = Translator(kb, formula)
    frame = translator.select([formula], out, env)
    if out:
        text = frame.to_named_sql(out, quoted_columns(out), distinct=frame.may_repeat(out))
    else:
        text = f'SELECT true AS "true"\nWHERE {_any_row(frame.to_sql(["1"]))}'
    return Statement(text, len(out), tuple(dict.fromkeys(translator.unrestricted)), frame.combinations)


def normalize_for_kb(formula: Formula, kb: KnowledgeBase) -> Formula:
    """Return the normal form of a formula for a knowledge base."""
    return normalize(formula, Domain(kb.schema.relations, kb.objects, kb.fact_tables.keys()))


class Translator:
    """Builds the SELECTs of one statement, with aliases that are unique in it."""

    def __init__(self, kb: KnowledgeBase, formula: Formula) -> None:
        self._kb = kb
        self._alias_count = 0
        self._formula = formula
        self.unrestricted: list[str] = []

    def select(
        self,
        formulas: Sequence[Formula],
        outputs: Sequence[AnyVariable],
        env: Env,
        *,
        correlated: bool = False,
        base: SelectBuilder | None = None,
    ) -> SelectBuilder:
        """Return a SELECT of normal formulas that all hold; the outputs and all used variables have a column.

        A given `base` is extended, and joins every atom, also those that need only have a match.
        """
        frame = base or SelectBuilder(dict(env), correlated)
        pieces: list[Formula] = []
        for formula in formulas:
            pieces += [piece for piece in conjuncts(formula) if piece not in pieces]
        if Truth(False) in pieces:
            frame.where.append("false")
            frame.env |= {variable: "NULL" for variable in outputs if variable not in frame.env}
            return frame
        parts = SemijoinSplit(pieces, [], []) if base else split_semijoins(pieces, frozenset(outputs), frozenset(env))
        waiting = self._join_tables(frame, parts.joins)
        self._bind_remaining(
            frame, waiting, [*outputs, *(v for piece in waiting for v in sort_by_name(all_free_variables(piece)))]
        )
        for ear in parts.ears:
            self._join_ear(frame, ear)
        for condition in (*waiting, *parts.filters):
            self._add_filter(frame, condition)
        frame.combinations *= frame.inner_combinations
        return frame

    def _join_tables(self, frame: SelectBuilder, pieces: list[Formula]) -> list[Formula]:
        """Join the parts that restrict variables by themselves; return the others."""
        waiting = self._apply_equalities(frame, [piece for piece in pieces if not isinstance(piece, Atom | Comparison)])
        tables = [piece for piece in pieces if isinstance(piece, Atom | Comparison)]
        while tables:
            linked = next((t for t in tables if not all_free_variables(t).isdisjoint(frame.own_variables)), tables[0])
            tables.remove(linked)
            self._join_table(frame, linked)
        constants = frame.constants()
        known = frozenset(constants)
        for piece in [p for p in waiting if isinstance(p, Or)]:
            if (
                all_free_variables(piece) - known
                and all_free_variables(piece) <= restricted_variables(piece, known) | known
            ):
                waiting.remove(piece)
                self._join_union(frame, piece, all_free_variables(piece) - known, constants, alone=True)
        return self._apply_equalities(frame, waiting)

    def _apply_equalities(self, frame: SelectBuilder, pieces: list[Formula]) -> list[Formula]:
        """Bind variables by equalities; return the other parts."""
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

    def _bind_remaining(self, frame: SelectBuilder, waiting: list[Formula], variables: Sequence[AnyVariable]) -> None:
        """Give the remaining variables a column: from ∨ if possible, else the whole domain."""
        for variable in dict.fromkeys(variables):
            while variable not in frame.env:
                if not self._join_lateral(frame, waiting):
                    self._join_domain(frame, variable)
                waiting[:] = self._apply_equalities(frame, waiting)

    def _join_lateral(self, frame: SelectBuilder, waiting: list[Formula]) -> bool:
        """Join an ∨ that restricts its unbound variables; return whether there was one."""
        for piece in waiting:
            missing = all_free_variables(piece).difference(frame.env)
            if isinstance(piece, Or) and missing and missing <= restricted_variables(piece, frozenset(frame.env)):
                waiting.remove(piece)
                self._join_union(frame, piece, missing, frame.env, alone=False)
                return True
        return False

    def _join_domain(self, frame: SelectBuilder, variable: AnyVariable) -> None:
        """Let a variable range over all objects, or over all relations of its arity."""
        if isinstance(variable, RelationVariable):
            alias = self._alias("r")
            arity = next(len(a.terms) for a in walk(self._formula) if isinstance(a, Atom) and a.relation == variable)
            frame.join(f"relations {alias}", [f"{alias}.arity = {arity}"])
            frame.combinations *= sum(arity == other for other in self._kb.content.arities)
        else:
            alias = self._alias("o")
            frame.join(f"objects {alias}", [])
            frame.combinations *= len(self._kb.objects)
        frame.bind({variable: f"{alias}.id"})
        self.unrestricted.append(variable.name)

    def _join_table(self, frame: SelectBuilder, piece: Atom | Comparison) -> None:
        """Join the table of an atom or the numbers of a comparison."""
        if isinstance(piece, Comparison):
            for table, conditions, found in self._numbers(piece, frame.env):
                frame.value_tables.append(table.split()[1])
                frame.join(table, conditions)
                frame.bind(found)
            return
        table, conditions, found = self._facts(piece, frame.env)
        frame.fact_tables.append((len(piece.terms), table.split()[1]))
        frame.join(table, conditions)
        frame.bind(found)

    def _facts(self, atom: Atom, env: Env) -> Source:
        alias = self._alias("f")
        conditions: list[str] = []
        found: Env = {}
        if isinstance(atom.relation, str):
            number = self._kb.content.relations.find(atom.relation)
            conditions.append(f"{alias}.relation = {number}{_comment(atom.relation)}")
        else:
            self._match(atom.relation, f"{alias}.relation", env, conditions, found)
        for position, term in enumerate(atom.terms, start=1):
            self._match(term, f"{alias}.a{position}", env, conditions, found)
        return f"facts{len(atom.terms)} {alias}", conditions, found

    def _numbers(self, comparison: Comparison, env: Env) -> list[Source]:
        """Return the tables of one or two attributes, the last with the comparison among its conditions."""
        sources: list[Source] = []
        sides: list[str] = []
        known = dict(env)
        for quantity in (comparison.left, comparison.right):
            if isinstance(quantity, Number):
                sides.append(_number(quantity.value))
                continue
            alias = self._alias("n")
            number = self._kb.content.attributes.find(quantity.name)
            conditions = [f"{alias}.attribute = {number}{_comment(quantity.name)}"]
            found: Env = {}
            self._match(quantity.term, f"{alias}.object", known, conditions, found)
            known |= found
            sides.append(f"{alias}.value")
            sources.append((f"attribute_values {alias}", conditions, found))
        sources[-1][1].append(f"{sides[0]} {_SIGNS[comparison.operator]} {sides[1]}")
        return sources

    def _match(self, term: Term | RelationVariable, column: str, env: Env, conditions: list[str], found: Env) -> None:
        """Match a term with a column: a condition if its value is known, else the column becomes its value."""
        known = found.get(term) if isinstance(term, Variable | RelationVariable) else None
        known = known or self._term(term, env)
        if known is not None:
            conditions.append(f"{column} = {known}")
        else:
            assert not isinstance(term, Constant)
            found[term] = column

    def _term(self, term: Term | RelationVariable, env: Env) -> str | None:
        return str(self._kb.object_id(term.name)) if isinstance(term, Constant) else env.get(term)

    def _join_union(self, frame: SelectBuilder, piece: Or, columns: Variables, env: Env, *, alone: bool) -> None:
        """Join the union of the parts of an ∨."""
        alias, out = self._alias("u"), sort_by_name(columns)
        names = [f"c{position}" for position in range(1, len(out) + 1)]
        texts = []
        for part in piece.parts:
            inner = self.select([part], out, env, correlated=not alone)
            frame.inner_combinations = max(frame.inner_combinations, inner.combinations)
            texts.append(inner.to_named_sql(out, names))
        table = "({}) {}".format("\nUNION ".join(texts), alias)
        found = {v: f"{alias}.{name}" for v, name in zip(out, names, strict=True)}
        conditions = [f"{column} = {frame.env[v]}" for v, column in found.items() if v in frame.env]
        frame.join(table if alone or not frame.joins else f"LATERAL {table}", conditions)
        frame.bind({v: column for v, column in found.items() if v not in frame.env})

    def _join_ear(self, frame: SelectBuilder, piece: Formula) -> None:
        """Add a semi-join with a subquery, or a condition where that is simpler."""
        constants = frame.constants()
        shared = sort_by_name(all_free_variables(piece).difference(constants))
        if frame.correlated or not frame.joins or not shared or len(conjuncts(piece)) == 1:
            self._add_filter(frame, piece)
            return
        alias = self._alias("s")
        names = [f"c{position}" for position in range(1, len(shared) + 1)]
        inner = self.select([piece], shared, constants)
        text = inner.to_named_sql(shared, names)
        conditions = [f"{alias}.{name} = {frame.env[v]}" for v, name in zip(shared, names, strict=True)]
        frame.join(f"({text}) {alias}", conditions, "SEMI")

    def _add_filter(self, frame: SelectBuilder, piece: Formula) -> None:
        """Add a condition: a semi- or anti-join with one table if possible, else in WHERE."""
        body, kind = (piece.body, "ANTI") if isinstance(piece, Not) else (piece, "SEMI")
        inside = conjuncts(body) if isinstance(body, Exists) else [body]
        single = inside[0] if len(inside) == 1 else None
        # An equality without a column on either side loses rows of a semi-join in DuckDB 2.0.
        linked = not all_free_variables(body).isdisjoint(frame.env.keys() - frame.constants().keys())
        if linked and frame.joins and not frame.correlated and isinstance(single, Atom | Comparison):
            sources = [self._facts(single, frame.env)] if isinstance(single, Atom) else self._numbers(single, frame.env)
            if len(sources) == 1:
                frame.join(*sources[0][:2], kind)
                return
        frame.where.append(self._condition(frame, piece))

    def _condition(self, frame: SelectBuilder, piece: Formula) -> str:
        """Return the condition of a formula whose variables all have a value."""
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
        alone = all_free_variables(piece) <= constants.keys()
        inner = self.select([piece], (), constants if alone else frame.env, correlated=not alone)
        frame.inner_combinations = max(frame.inner_combinations, inner.combinations)
        return _any_row(inner.to_sql(["1"])) if alone else f"EXISTS ({inner.to_sql(['1'])})"

    def _alias(self, letter: str) -> str:
        self._alias_count += 1
        return f"{letter}{self._alias_count}"


Source = tuple[str, list[str], Env]
"""A table with its alias, conditions on its rows, and the columns of variables."""


def _any_row(rows: str) -> str:
    """Return the condition that an uncorrelated SELECT has a row.

    Not EXISTS: DuckDB 2.0 turns that into a count with LIMIT 1, and sometimes drops the LIMIT.
    """
    return f"(SELECT count(*) FROM (\n{rows}\nLIMIT 1\n) found) > 0"


def _comment(name: str) -> str:
    """Return the name of a number as a comment."""
    return f" /* {name} */" if name.isprintable() and "*" not in name and len(name) <= 40 else ""


def _number(value: float) -> str:
    if math.isinf(value):
        return f"'{'-' if value < 0 else ''}infinity'::DOUBLE"
    text = repr(value)
    return text if "e" in text else f"{text}e0"  # a number with an exponent is a DOUBLE, not a DECIMAL
