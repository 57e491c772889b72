"""Compile features to programs of the bit-set machine (`gaifman.kernels.bitset_vm`).

>>> import gaifman
>>> from gaifman.features.feature_sets import parse_phi
>>> kb = gaifman.demo()
>>> plan = compile_features(parse_phi("∃x borders(s1, x) ∧ borders(x, s2)"), kb, 2)
>>> print(plan.listing(0))
r0(x1) = borders(s1, x1)
r1(x1) = borders(x1, s2)
r2(x1) = r0 ∧ r1
r3() = ∃x1 r2
result 0 = count r3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gaifman.errors import FormulaError, LimitError
from gaifman.features.feature_sets import FeatureSet
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints, Longs, freeze
from gaifman.kernels import bitset_vm as m
from gaifman.kernels.evaluate import MISSING, NO_DEFAULT
from gaifman.logic.ast import (
    AGGREGATES,
    OPERATORS,
    Aggregate,
    And,
    Atom,
    Attribute,
    Comparison,
    Difference,
    Equal,
    Exists,
    Feature,
    Forall,
    Formula,
    Iff,
    Implies,
    Node,
    Not,
    Number,
    Or,
    Quantity,
    RelationVariable,
    Term,
    Truth,
    Variable,
    can_be_missing,
    free_variables,
    query_position,
    relation_arities,
    walk,
)

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FeaturePlan:
    """Features, and the programs that evaluate them in a neighbourhood of a tuple of `arity` objects."""

    features: tuple[Feature, ...]
    arity: int
    programs: m.Programs
    relations: tuple[tuple[int, ...], ...]
    """For each feature the relations without which it has its default value; () if it must always be evaluated."""
    default_groups: Ints
    """Shape (features,), int32: features with the same default, a function of the number of members; or `NO_DEFAULT`,
    or `MISSING` for a number that can be missing.
    """
    names: tuple[str, ...]
    """Relations by number, for `listing`."""

    def table_words(self, members: int) -> Longs:
        """Return the words (features,), int64, that the tables of each program take for `members` members."""
        row_words = (members + 63) >> 6
        counts = self.programs.counts.astype(np.float64)
        sizes = np.where(counts > 0, float(members) ** np.maximum(counts - 1, 0) * row_words, 1.0)
        total = np.diff(np.append(0.0, np.cumsum(sizes))[self.programs.register_starts])
        return np.minimum(total, 2.0**62).astype(np.int64)

    def listing(self, feature: int) -> str:
        """Return a program as text."""
        start, end = self.programs.starts[feature], self.programs.starts[feature + 1]
        base = int(self.programs.register_starts[feature])
        return "\n".join(self._line(self.programs.code[pc].tolist(), base) for pc in range(start, end))

    def _line(self, code: list[int], base: int) -> str:
        op, a, b, c, d = code[:5]
        if op == m.ATOM:
            name = self.names[b] if b >= 0 else f"R{-b}"
            return f"{self._register(a, base)} = {name}({', '.join(self._term(c + i) for i in range(d))})"
        if op in _CONNECTIVES:
            return f"{self._register(a, base)} = r{b} {_CONNECTIVES[op]} r{c}"
        if op in (m.EXISTS, m.FORALL):
            return f"{self._register(a, base)} = {'∃' if op == m.EXISTS else '∀'}x{c + 1} r{b}"
        if op == m.NOT:
            return f"{self._register(a, base)} = ¬r{b}"
        if op == m.TRUTH:
            return f"{self._register(a, base)} = {'true' if b else 'false'}"
        if op == m.EQUAL:
            return f"{self._register(a, base)} = {self._term(b)} = {self._term(b + 1)}"
        if op == m.COMPARE:
            return f"{self._register(a, base)} = quantity {c} {OPERATORS[b]} quantity {c + 1}"
        if op == m.LOOP:
            return f"{self._register(a, base)} = {'∀' if code[5] else '∃'}R{b + 1}:"
        if op == m.END_LOOP:
            return f"again for r{b}"
        kinds = {m.COUNT: f"count r{b}", m.NUMBER: f"quantity {b}", m.MINUS: f"result {b} - result {c}"}
        return f"result {a} = {kinds.get(op) or f'{AGGREGATES[c]} of quantity {d} for r{b}'}"

    def _register(self, register: int, base: int) -> str:
        axes = self.programs.axes[base + register, : self.programs.counts[base + register]]
        return f"r{register}({', '.join(f'x{axis + 1}' for axis in axes)})"

    def _term(self, term: int) -> str:
        kind, which = self.programs.terms[term].tolist()
        return (
            f"x{which + 1}" if kind == m.VARIABLE else f"s{which + 1}" if kind == m.TUPLE_OBJECT else f"object {which}"
        )


_CONNECTIVES = {m.BOTH: "∧", m.EITHER: "∨", m.IFF: "↔"}


def compile_features(features: FeatureSet, kb: KnowledgeBase, arity: int) -> FeaturePlan:
    """Compile a feature set for a knowledge base and a query of `arity` variables."""
    arities = {name: relation.arity for name, relation in kb.relations.items()}
    expanded = features.expand(arities, arity)
    compiler = _Compiler(kb)
    for feature in expanded:
        compiler.check_schema(feature)
        compiler.program(feature)
    return compiler.build(expanded, arity)


@dataclass(slots=True)
class _Compiler:
    """Compiles features one by one."""

    kb: KnowledgeBase
    code: list[list[int]] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    axes: list[Axes] = field(default_factory=list)
    register_starts: list[int] = field(default_factory=lambda: [0])
    terms: list[tuple[int, int]] = field(default_factory=list)
    quantities: list[tuple[int, int, int]] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    unknown_constants: dict[str, int] = field(default_factory=dict)
    """Constants that are no objects, each with a negative number of its own."""
    variables: int = 0
    slots: int = 0

    def check_schema(self, feature: Feature) -> None:
        self.kb.schema.check(feature, allow_unknown_objects=True)

    def program(self, feature: Feature) -> None:
        self.variables = self.slots = 0
        self.value(feature.body, 0)
        self.starts.append(len(self.code))
        self.register_starts.append(len(self.axes))

    def emit(self, *numbers: int) -> int:
        self.code.append([*numbers, *[0] * (m.INSTRUCTION_WIDTH - len(numbers))])
        return len(self.code) - 1 - self.starts[-1]

    def register(self, axes: Axes) -> int:
        if len(axes) > m.MAX_AXES:
            raise LimitError(f"a part of the formula has {len(axes)} free variables; the limit is {m.MAX_AXES}")
        self.axes.append(axes)
        return len(self.axes) - 1 - self.register_starts[-1]

    def axes_of(self, register: int) -> Axes:
        return self.axes[self.register_starts[-1] + register]

    def new_variable(self) -> int:
        self.variables += 1
        if self.variables > m.MAX_VARIABLES:
            raise LimitError(f"a formula has more than {m.MAX_VARIABLES} variables")
        return self.variables - 1

    # Values

    def value(self, body: Node, result: int) -> None:
        env = {
            v: (m.TUPLE_OBJECT, query_position(v) - 1) if query_position(v) else (m.VARIABLE, self.new_variable())
            for v in free_variables(body)
        }
        match body:
            case Attribute():
                self.emit(m.NUMBER, result, self.quantity(body, env))
            case Difference(left, right):
                self.value(left, 1)
                self.value(right, 2)
                self.emit(m.MINUS, result, 1, 2)
            case Aggregate(kind, quantity, formula) if quantity is not None:
                self.aggregate(kind, quantity, formula, result, env)
            case Aggregate(_, _, formula):
                self.emit(m.COUNT, result, self.formula(formula, env, {}))
            case _:
                self.emit(m.COUNT, result, self.formula(body, env, {}))  # type: ignore[arg-type]

    def aggregate(self, kind: str, quantity: Attribute, formula: Formula, result: int, env: _Env) -> None:
        source = self.formula(formula, env, {})
        for variable in free_variables(quantity):  # counted even if the formula does not contain it
            assigned = env[variable]
            if assigned[0] == m.VARIABLE and assigned[1] not in self.axes_of(source):
                source = self.join(m.BOTH, source, self.formula(Equal(variable, variable), env, {}))
        self.emit(m.AGGREGATE, result, source, AGGREGATES.index(kind), self.quantity(quantity, env))

    def quantity(self, quantity: Quantity, env: _Env) -> int:
        if isinstance(quantity, Number):
            self.numbers.append(quantity.value)
            self.quantities.append((-1, len(self.numbers) - 1, 0))
        else:
            number = self.kb.content.attributes.find(quantity.name)
            if number is None:
                raise FormulaError(f"there is no attribute {quantity.name}")
            self.quantities.append((number, *self.term(quantity.term, env)))
        return len(self.quantities) - 1

    def term(self, term: Term, env: _Env) -> tuple[int, int]:
        if isinstance(term, Variable):
            return env[term]
        number = self.kb.objects.find(term.name)
        unknown = -1 - self.unknown_constants.setdefault(term.name, len(self.unknown_constants))
        return m.CONSTANT, unknown if number is None else number

    # Formulas

    def formula(self, formula: Formula, env: _Env, slots: dict[RelationVariable, int]) -> int:
        """Emit code that fills a register with the table of the formula. Return the register."""
        match formula:
            case Truth(value):
                target = self.register(())
                self.emit(m.TRUTH, target, int(value))
                return target
            case Atom():
                return self.atom(formula, env, slots)
            case Equal(left, right):
                return self.equal(left, right, env)
            case Comparison(left, operator, right):
                return self.comparison(left, operator, right, env)
            case Not(body):
                source = self.formula(body, env, slots)
                return self.negate(source)
            case And(parts) | Or(parts):
                return self.junction(m.BOTH if isinstance(formula, And) else m.EITHER, parts, env, slots)
            case Implies(left, right):
                return self.join(m.EITHER, self.negate(self.formula(left, env, slots)), self.formula(right, env, slots))
            case Iff(left, right):
                return self.join(m.IFF, self.formula(left, env, slots), self.formula(right, env, slots))
            case Exists(variables, body) | Forall(variables, body):
                return self.quantify(isinstance(formula, Forall), variables, body, env, slots)

    def negate(self, source: int) -> int:
        target = self.register(self.axes_of(source))
        self.emit(m.NOT, target, source)
        return target

    def join(self, op: int, one: int, other: int) -> int:
        target = self.register(tuple(sorted({*self.axes_of(one), *self.axes_of(other)})))
        self.emit(op, target, one, other)
        return target

    def junction(self, op: int, parts: Sequence[Formula], env: _Env, slots: dict[RelationVariable, int]) -> int:
        source = self.formula(parts[0], env, slots)
        for part in parts[1:]:
            source = self.join(op, source, self.formula(part, env, slots))
        return source

    def atom(
        self, atom: Atom, env: _Env, slots: dict[RelationVariable, int], bound: frozenset[int] = frozenset()
    ) -> int:
        """Emit an atom; its table leaves out the `bound` variables, over which ∃ ranges."""
        terms = [self.term(term, env) for term in atom.terms]
        target = self.register(tuple(sorted({which for kind, which in terms if kind == m.VARIABLE} - bound)))
        if isinstance(atom.relation, str):
            relation = self.kb.content.relations.find(atom.relation)
            assert relation is not None, "the schema was checked"
        else:
            relation = -1 - slots[atom.relation]
        self.emit(m.ATOM, target, relation, len(self.terms), len(terms))
        self.terms.extend(terms)
        return target

    def equal(self, left: Term, right: Term, env: _Env) -> int:
        terms = [self.term(left, env), self.term(right, env)]
        target = self.register(tuple(sorted({which for kind, which in terms if kind == m.VARIABLE})))
        self.emit(m.EQUAL, target, len(self.terms))
        self.terms.extend(terms)
        return target

    def comparison(self, left: Quantity, operator: str, right: Quantity, env: _Env) -> int:
        terms = [side.term for side in (left, right) if isinstance(side, Attribute)]
        assigned = [self.term(term, env) for term in terms]
        target = self.register(tuple(sorted({which for kind, which in assigned if kind == m.VARIABLE})))
        first = self.quantity(left, env)
        self.quantity(right, env)
        self.emit(m.COMPARE, target, OPERATORS.index(operator), first)
        return target

    def quantify(
        self,
        every: bool,
        variables: tuple[Variable | RelationVariable, ...],
        body: Formula,
        env: _Env,
        slots: dict[RelationVariable, int],
    ) -> int:
        if not variables:
            return self.formula(body, env, slots)
        objects = [variable for variable in variables if isinstance(variable, Variable)]
        if not every and isinstance(body, Atom) and len(body.terms) > 2 and len(objects) == len(variables):
            return self.project(objects, body, env, slots)
        variable, rest = variables[0], variables[1:]
        if isinstance(variable, RelationVariable):
            return self.loop(every, variable, rest, body, env, slots)
        axis = self.new_variable()
        source = self.quantify(every, rest, body, {**env, variable: (m.VARIABLE, axis)}, slots)
        if axis not in self.axes_of(source):
            return source  # every neighbourhood has a member
        target = self.register(tuple(other for other in self.axes_of(source) if other != axis))
        self.emit(m.FORALL if every else m.EXISTS, target, source, axis)
        return target

    def project(self, variables: Sequence[Variable], atom: Atom, env: _Env, slots: dict[RelationVariable, int]) -> int:
        """Emit ∃ over an atom of three or more places as one scan of its facts: a table of all places may not fit."""
        axes = {variable: (m.VARIABLE, self.new_variable()) for variable in variables}
        return self.atom(atom, {**env, **axes}, slots, frozenset(axis for _, axis in axes.values()))

    def loop(
        self,
        every: bool,
        variable: RelationVariable,
        rest: tuple[Variable | RelationVariable, ...],
        body: Formula,
        env: _Env,
        slots: dict[RelationVariable, int],
    ) -> int:
        slot, self.slots = self.slots, self.slots + 1
        if self.slots > m.MAX_RELATION_VARIABLES:
            raise LimitError(f"a formula quantifies over more than {m.MAX_RELATION_VARIABLES} relations")
        arity = relation_arities(body).get(variable, -1)
        begin = self.emit(m.LOOP)
        source = self.quantify(every, rest, body, env, {**slots, variable: slot})
        target = self.register(self.axes_of(source))
        again = self.emit(m.END_LOOP, begin, source)
        self.code[self.starts[-1] + begin][:6] = [m.LOOP, target, slot, arity, again, int(every)]
        return target

    # The plan

    def build(self, features: tuple[Feature, ...], arity: int) -> FeaturePlan:
        arities = np.array(self.kb.content.arities, np.int32)
        axes = np.full((len(self.axes), m.MAX_AXES), -1, np.int32)
        for register, own in enumerate(self.axes):
            axes[register, : len(own)] = own
        programs = m.Programs(
            freeze(np.array(self.code, np.int32).reshape(-1, m.INSTRUCTION_WIDTH)),
            freeze(np.array(self.starts, np.int64)),
            freeze(np.array(self.register_starts, np.int64)),
            freeze(axes),
            freeze(np.array([len(own) for own in self.axes], np.int32)),
            freeze(np.array(self.terms, np.int32).reshape(-1, 2)),
            freeze(np.array(self.quantities, np.int32).reshape(-1, 3)),
            freeze(np.array(self.numbers, np.float64)),
            freeze(arities),
            freeze(np.bincount(arities, minlength=9).astype(np.int32)),
        )
        relations = tuple(self._relations(feature) for feature in features)
        return FeaturePlan(
            features, arity, programs, relations, self._default_groups(features, relations), tuple(self.kb.relations)
        )

    def _relations(self, feature: Feature) -> tuple[int, ...]:
        """Return the relations without facts of which a feature has its default; () if it depends on more."""
        parts = list(walk(feature.body))
        if any(isinstance(part, Equal | Comparison | Attribute | RelationVariable) for part in parts):
            return ()
        names = {part.relation for part in parts if isinstance(part, Atom)}
        numbers = (self.kb.content.relations.find(str(name)) for name in names)
        return tuple(sorted(number for number in numbers if number is not None))

    def _default_groups(self, features: tuple[Feature, ...], relations: Sequence[tuple[int, ...]]) -> Ints:
        """Number features by their programs without relation names."""
        seen: dict[object, int] = {}
        groups = []
        for p, feature in enumerate(features):
            code = [tuple(row) for row in self.code[self.starts[p] : self.starts[p + 1]]]
            # An atom is (ATOM, target, relation, first term, …): without relation and terms.
            program = tuple((*row[:2], 0, 0, *row[4:]) if row[0] == m.ATOM else row for row in code)
            axes = tuple(self.axes[self.register_starts[p] : self.register_starts[p + 1]])
            without = MISSING if can_be_missing(feature.body) else NO_DEFAULT
            groups.append(seen.setdefault((program, axes), len(seen)) if relations[p] else without)
        return freeze(np.array(groups, np.int32))


_Env = Mapping[Variable, tuple[int, int]]
