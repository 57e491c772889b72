"""The rules of a relation, to read.

>>> import gaifman
>>> best = mine_rules(gaifman.demo(), "capital")[0]
>>> print(best)
city_in(s2, s1)  # 197 of 197 answers; confidence 0.91 for s1, 0.31 for s2
>>> print(best.feature)
city_in(s2, s1) ∧ s2 ≠ s1

A rule is a path between two positions, or a fact with a constant that speaks for one candidate. Its support is the
number of sampled answers that it leads to. Its confidence for a position is the share of objects that it reaches there
which are answers, on sampled objects; five objects that are none are added, so that rare rules need evidence.
Comparisons of numbers are told by themselves: they speak for many candidates, and decide among those of other rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from gaifman.errors import KnowledgeBaseError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.listwise.mining import COMPARISONS, MinedConstants, MiningConfig, mine_comparisons, mine_formulas
from gaifman.listwise.steps import (
    Label,
    StepIndex,
    build_steps,
    comparison_feature,
    constant_feature,
    forward_path,
    path_feature,
    without_differences,
)
from gaifman.logic.ast import (
    Constant,
    Feature,
    walk,
)


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


@dataclass(frozen=True, slots=True)
class ComparisonRule:
    """A mined comparison of a number of the objects at two positions of a relation."""

    feature: Feature
    support: int
    """Answers that it is true of."""
    answers: int
    """Answers of which both objects have the number."""
    expected: float
    """The share of these that it would be true of if their objects were independent."""

    @property
    def formula(self) -> str:
        """The comparison."""
        return str(self.feature)

    def __str__(self) -> str:
        """A line of a `.phi` file."""
        return f"{self.formula}  # {self.support:,} of {self.answers:,} answers; expected {self.expected:.2f} of them"


def mine_comparison_rules(kb: KnowledgeBase, relation: str, config: MiningConfig | None = None) -> list[ComparisonRule]:
    """The comparisons of numbers that ranked lists of a relation can use; those of both directions are listed once.

    >>> years = {("year", f"edition{i}"): 1900 + i for i in range(21)}
    >>> facts = [("replaced", f"edition{i + 1}", f"edition{i}") for i in range(20)]
    >>> [rule] = mine_comparison_rules(KnowledgeBase.from_facts(facts, years), "replaced")
    >>> print(rule)
    year(s1) > year(s2)  # 20 of 20 answers; expected 0.55 of them
    """
    most = (config or MiningConfig()).max_comparisons
    index, arity = build_steps(kb), kb.relations[relation].arity
    found = dict[str, ComparisonRule]()
    for fixed, position in permutations(range(arity), 2):
        mined = mine_comparisons(index, relation, fixed, position, most)
        for row in range(len(mined)):
            attribute = index.attributes[int(mined.attributes[row])]
            operator = COMPARISONS[int(mined.operators[row])]
            feature = comparison_feature(attribute, operator, fixed + 1, position + 1)
            figures = int(mined.support[row]), int(mined.answers[row]), float(mined.expected[row])
            found.setdefault(str(feature), ComparisonRule(feature, *figures))
    return list(found.values())


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
