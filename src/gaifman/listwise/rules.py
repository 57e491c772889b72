"""Mined formulas in the language of formulas, and the rules of a relation, to read.

>>> path = (Label("born_in", 0, 1), Label("city_of", 0, 1))
>>> print(path_feature(path, {"born_in": 2, "city_of": 2}))
born_in(s1, x1) ∧ city_of(x1, s2) ∧ x1 ≠ s1 ∧ s2 ≠ s1
>>> print(path_feature((Label("plays", 2, 0),), {"plays": 3}, start=3, end=1))
plays(s1, z1, s3) ∧ s1 ≠ s3

>>> print(constant_feature(Label("lives_in", 0, 1), 2, "oslo", "norwegian", start=1, end=2))
lives_in(s1, 'oslo') ∧ s2 = 'norwegian'

A path counts its groundings: the ways to walk from one object of the tuple to another without a return to the first.

>>> import gaifman
>>> best = mine_rules(gaifman.demo(), "capital")[0]
>>> print(best)
city_in(s2, s1)  # 197 of 197 answers; confidence 0.91 for s1, 0.68 for s2
>>> print(best.feature)
city_in(s2, s1) ∧ s2 ≠ s1

A rule is a path between two positions, or a fact with a constant that speaks for one candidate. Its support is the
number of sampled answers that it leads to. Its confidence for a position is the share of objects that it reaches there
which are answers, on sampled objects; five objects that are none are added, so that rare rules need evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gaifman.errors import KnowledgeBaseError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.listwise.constants import MinedConstants
from gaifman.listwise.mining import MiningConfig, mine_formulas
from gaifman.listwise.steps import Label, StepIndex, build_steps
from gaifman.logic.ast import (
    And,
    Atom,
    Constant,
    Equal,
    Exists,
    Feature,
    Formula,
    Not,
    Variable,
    free_variables,
    query_position,
    walk,
)


def forward_path(path: Sequence[Label], start: int, end: int) -> tuple[int, int, tuple[Label, ...]]:
    """A path from a lower position to a higher one: the path itself, or the path back."""
    if start < end:
        return start, end, tuple(path)
    return end, start, tuple(Label(relation, target, source) for relation, source, target in reversed(path))


def as_path(formula: Formula) -> tuple[int, int, tuple[Label, ...]] | None:
    """The path that a formula counts, from a lower position to a higher one; None if it is no path.

    >>> from gaifman.logic.parser import parse
    >>> as_path(parse("city_of(x, s2) & born_in(s1, x)"))
    (0, 1, (Label(relation='born_in', source=0, target=1), Label(relation='city_of', source=0, target=1)))
    >>> as_path(parse("born_in(s1, x) & city_of(x, y)")) is None
    True
    """
    parts = formula.parts if isinstance(formula, And) else (formula,)
    atoms = [part for part in parts if isinstance(part, Atom)]
    ends = sorted({v for v in free_variables(formula) if query_position(v)}, key=query_position)
    if len(atoms) != len(parts) or len(ends) != 2:
        return None
    stop, path, left = ends[0], list[Label](), list(atoms)
    while left:
        near = [atom for atom in left if stop in atom.terms]
        if len(near) != 1 or not isinstance(near[0].relation, str) or len(set(near[0].terms)) != len(near[0].terms):
            return None
        left.remove(near[0])
        onward = [v for v in near[0].terms if v != stop and (v == ends[1] or any(v in atom.terms for atom in left))]
        if len(onward) != 1 or not isinstance(onward[0], Variable) or (onward[0] == ends[1]) != (not left):
            return None
        path.append(Label(near[0].relation, near[0].terms.index(stop), near[0].terms.index(onward[0])))
        stop = onward[0]
    if any(isinstance(term, Constant) for atom in atoms for term in atom.terms):
        return None
    return query_position(ends[0]) - 1, query_position(ends[1]) - 1, tuple(path)


def without_differences(feature: Feature) -> Feature:
    """The feature without `a ≠ b`, and without `'a' = 'a'`: its atoms, for people to read."""
    if not isinstance(feature.body, And):
        return feature
    kept = [part for part in feature.body.parts if not _is_plain(part)] or [*feature.body.parts]
    return Feature(kept[0] if len(kept) == 1 else And(tuple(kept)))


def _is_plain(part: Formula) -> bool:
    """Whether a part says that objects differ, or that an object is itself."""
    if isinstance(part, Equal):
        return part.left == part.right
    return isinstance(part, Not) and isinstance(part.body, Equal)


def path_feature(path: Sequence[Label], arities: Mapping[str, int], start: int = 1, end: int = 2) -> Feature:
    """The feature that counts the walks along a path from s_start to s_end."""
    stops = [Variable(f"s{start}"), *(Variable(f"x{i}") for i in range(1, len(path))), Variable(f"s{end}")]
    atoms: list[Formula] = []
    others = 0
    for number, (relation, source, target) in enumerate(path):
        terms = {source: stops[number], target: stops[number + 1]}
        for position in range(arities[relation]):
            if position not in terms:
                others += 1
                terms[position] = Variable(f"z{others}")
        atoms.append(Atom(relation, tuple(terms[position] for position in range(arities[relation]))))
    return Feature(And((*atoms, *(Not(Equal(stop, stops[0])) for stop in stops[1:]))))


def constant_feature(fact: Label, arity: int, constant: str, candidate: str, start: int, end: int) -> Feature:
    """The feature that s_start is in a fact with a constant, and s_end is the candidate."""
    others = tuple(Variable(f"x{i + 1}") for i in range(arity) if i not in (fact.source, fact.target))
    rest = iter(others)
    fixed: dict[int, Variable | Constant] = {fact.source: Variable(f"s{start}"), fact.target: Constant(constant)}
    atom = Atom(fact.relation, tuple(fixed[i] if i in fixed else next(rest) for i in range(arity)))
    body: Formula = Exists(others, atom) if others else atom
    return Feature(And((body, Equal(Variable(f"s{end}"), Constant(candidate)))))


@dataclass(frozen=True, slots=True)
class Rule:
    """A mined formula that leads from one position of a relation to another."""

    feature: Feature
    support: int
    """Sampled answers that it leads to."""
    answers: int
    """Sampled answers."""
    confidence: Mapping[int, float]
    """Open position, from 1 → share of reached objects that are answers."""

    @property
    def best(self) -> float:
        """The highest confidence."""
        return max(self.confidence.values())

    @property
    def has_constant(self) -> bool:
        """Whether it names objects; otherwise it is a path."""
        return any(isinstance(part, Constant) for part in walk(self.feature))

    @property
    def formula(self) -> str:
        """The atoms."""
        return str(without_differences(self.feature))

    def __str__(self) -> str:
        """A line of a `.phi` file."""
        each = ", ".join(f"{value:.2f} for s{position}" for position, value in sorted(self.confidence.items()))
        return f"{self.formula}  # {self.support:,} of {self.answers:,} answers; confidence {each}"


def mine_rules(kb: KnowledgeBase, relation: str, config: MiningConfig | None = None) -> list[Rule]:
    """The rules of a relation, the most confident first; those that lead both ways are listed once."""
    config = config or MiningConfig()
    info = kb.relations[relation]
    if info.arity < 2:
        raise KnowledgeBaseError(f"{relation} is a type: there are no paths between its positions")
    if not info.count:
        raise KnowledgeBaseError(f"{relation} has no facts to mine")
    index, arities = build_steps(kb), {name: each.arity for name, each in kb.relations.items()}
    found: dict[tuple[int, int, tuple[Label, ...]], dict[int, tuple[int, float]]] = {}
    rules = list[Rule]()
    for position in range(info.arity):
        for fixed in range(info.arity):
            if fixed == position:
                continue
            mined = mine_formulas(index, relation, fixed, position, config)
            rules += _constant_rules(index, mined.constants, fixed, position, info.count)
            for row in range(len(mined.paths)):
                key = forward_path(mined.path(row), fixed, position)
                figures = int(mined.support[row]), float(mined.confidence[row])
                found.setdefault(key, {})[position + 1] = figures
    rules += [
        Rule(
            path_feature(path, arities, low + 1, high + 1),
            max(support for support, _ in sides.values()),
            min(info.count, config.answers),
            {position: confidence for position, (_, confidence) in sides.items()},
        )
        for (low, high, path), sides in found.items()
    ]
    return sorted(rules, key=lambda rule: (-rule.best, -rule.support, rule.formula))


def choose_rules(rules: Sequence[Rule], count: int) -> list[Rule]:
    """The first rules, at most half of them with constants if there are enough paths: of constants there are many."""
    paths = sum(not rule.has_constant for rule in rules)
    left = {True: max(count // 2, count - paths), False: count}
    left[False] = count - min(left[True], len(rules) - paths)
    chosen = list[Rule]()
    for rule in rules:
        left[rule.has_constant] -= 1
        if left[rule.has_constant] >= 0:
            chosen.append(rule)
    return chosen


def _constant_rules(index: StepIndex, mined: MinedConstants, fixed: int, position: int, answers: int) -> Iterator[Rule]:
    for row in range(len(mined)):
        fact, name = index.labels[int(mined.labels[row])], index.kb.object_name
        constants = name(int(mined.constants[row])), name(int(mined.candidates[row]))
        arity = index.kb.relations[fact.relation].arity
        feature = constant_feature(fact, arity, *constants, fixed + 1, position + 1)
        yield Rule(feature, int(mined.support[row]), answers, {position + 1: float(mined.confidence[row])})
