"""What speaks for and against a tuple: formulas with their values, effects and facts.

The effects of a tuple's evidence, the base of its odds and the competition of other candidates add up to its log-odds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gaifman.config import current_deadline, no_deadline
from gaifman.errors import LimitError
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.tables import Longs, freeze
from gaifman.listwise.constants import MinedConstants
from gaifman.listwise.groundings import Countable, exclude_facts
from gaifman.listwise.mining import LINKS, MinedFormulas
from gaifman.listwise.odds import Odds
from gaifman.listwise.rules import as_path, constant_feature, forward_path, path_feature
from gaifman.listwise.scoring import RelationScorer, Scorer
from gaifman.listwise.steps import Label, StepIndex
from gaifman.logic.ast import (
    And,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Exists,
    Feature,
    Formula,
    Number,
    Query,
    Variable,
    free_variables,
    query_position,
)
from gaifman.queries.witnesses import witness_facts

MAX_FACTS = 100
"""Facts of one formula."""
MAX_WAYS = 10
"""Ways to make an added formula true whose facts are named."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A formula that is true of a tuple."""

    key: tuple[object, ...]
    """Its kind, and more; the same for formulas that say the same."""
    formula: Feature | str
    """The formula over s1, s2 …; or a text with {0}, {1} … for the objects, where the language has no formula."""
    value: float
    """The number of groundings."""
    effect: float
    """Weight times value, in the log-odds of the tuple."""
    facts: tuple[int, ...] = ()
    """Facts that make it true, by id; none for counts."""
    joins: bool = False
    """Whether it is about several objects of the tuple, not about one alone."""
    is_step: bool = False
    """Whether it is a path of one step."""


def collect_evidence(scorer: RelationScorer, odds: Odds, objects: Sequence[int], hidden: Longs) -> Iterator[Evidence]:
    """The evidence of one tuple, position by position."""
    hidden = freeze(hidden)
    for position, own in enumerate(scorer.scorers):
        weight = float(odds.weights[position])
        if weight:
            yield from _walked(own, objects, hidden, weight)
            yield from _added(own, objects, hidden, weight)
            yield from _own(own, objects[position], hidden, weight)
        yield from _known(scorer, float(odds.weights[scorer.arity + position]), objects, hidden, position)
    yield from _similar(scorer, odds, objects, hidden)


def _walked(scorer: Scorer, objects: Sequence[int], hidden: Longs, weight: float) -> Iterator[Evidence]:
    """The formulas that lead from the other objects to the candidate."""
    ranker, index = scorer.ranker, scorer.index
    arities = {name: info.arity for name, info in index.kb.relations.items()}
    fixed, position = [i for i in range(len(objects)) if i != ranker.position], ranker.position
    draws = [None if members is None else set(members.tolist()) for members in scorer.member_sets(objects, hidden)]
    for formula, (value, count) in scorer.formula_counts(objects, hidden).items():
        effect = weight * float(ranker.formula_weights[formula]) * value
        number, row = _locate(ranker.mined, formula)
        start, mined = fixed[number], ranker.mined[number]
        ends = start, position
        if row >= len(mined.paths) + len(LINKS):
            row -= len(mined.paths) + len(LINKS)
            yield _with_constant(index, mined.constants, row, ends, objects, hidden, draws, effect)
            continue
        if row >= len(mined.paths):
            yield _linked(index, objects, ends, hidden, draws, (row - len(mined.paths), effect))
            continue
        path = mined.path(row)
        facts = walk_facts(index, path, objects[start], objects[position], hidden, draws)
        low, high, forward = forward_path(path, start, position)
        feature = path_feature(forward, arities, low + 1, high + 1)
        yield Evidence(("path", low, high, forward), feature, count, effect, facts, joins=True, is_step=len(path) == 1)


def _added(scorer: Scorer, objects: Sequence[int], hidden: Longs, weight: float) -> Iterator[Evidence]:
    """The added formulas that the tuple satisfies."""
    ranker, index = scorer.ranker, scorer.index
    for at, (value, count) in ranker.added.values_at(objects, hidden).items():
        effect = weight * float(ranker.added_weights[at]) * value
        if effect:
            formula = ranker.added.formulas[at]
            facts = ground_facts(index, formula.countable, objects, hidden)
            key = _formula_key(formula.shown)
            yield Evidence(key, formula.shown, count, effect, facts, joins=not formula.own, is_step=_is_step(key))


def _is_step(key: tuple[object, ...]) -> bool:
    return key[0] == "path" and isinstance(key[3], tuple) and len(key[3]) == 1


def ground_facts(index: StepIndex, countable: Countable, objects: Sequence[int], hidden: Longs) -> tuple[int, ...]:
    """The facts of some ways to make a formula true of a tuple, ascending; at most `MAX_FACTS`."""
    kb, facts = index.kb, [index.fact(number) for number in hidden.tolist()]
    excluded: dict[str, list[tuple[Constant, ...]]] = {}
    for relation, members in facts:
        excluded.setdefault(relation, []).append(tuple(Constant(kb.object_name(each)) for each in members))
    body = countable.formula
    body = exclude_facts(body, excluded, kb.schema.relations)
    body = Exists(countable.counted, body) if countable.counted else body
    row = [[int(objects[query_position(v) - 1]) for v in countable.places]]
    deadline = current_deadline() or no_deadline()
    try:
        [ways] = witness_facts(
            kb, Query(countable.places, body), row, max_witnesses=MAX_WAYS, budget=deadline.limit_budget()
        )
    except LimitError:  # too many ways to count
        return ()
    found = {number for way in ways for fact in way for number in _fact_numbers(kb, fact)}
    return tuple(sorted(found)[:MAX_FACTS])


def _fact_numbers(kb: KnowledgeBase, fact: Fact) -> list[int]:
    number = kb.content.relations.find(fact.relation)
    members = np.array([[kb.object_id(name) for name in fact.objects]], np.int32)
    return [] if number is None else kb.fact_ids(number, members).tolist()


def _formula_key(feature: Feature) -> tuple[object, ...]:
    """The key of evidence for an added formula: that of a mined path or a mark that says the same."""
    match feature.body:
        case Atom(str(name), (Variable() as term,)):
            return "type", name, query_position(term) - 1
        case Comparison(Attribute(name, Variable() as term), "≥", Number(least)):
            return "threshold", name, least, query_position(term) - 1
        case Exists(_, Atom(str(name), terms) as atom) if len(free_variables(feature)) == 1:
            if len(set(terms)) == len(terms) and all(isinstance(term, Variable) for term in terms):
                [own] = free_variables(feature)
                return "mark", name, atom.terms.index(own), query_position(own) - 1
        case Atom() | And():
            path = as_path(feature.body)
            if path:
                return "path", *path
    return "added", str(feature)


def _locate(mined: Sequence[MinedFormulas], formula: int) -> tuple[int, int]:
    """The fixed position, by number, and the row of its formulas."""
    for number, one in enumerate(mined):
        if formula < len(one):
            return number, formula
        formula -= len(one)
    raise IndexError(formula)


def walk_facts(
    index: StepIndex,
    path: Sequence[Label],
    start: int,
    end: int,
    hidden: Longs,
    draws: Sequence[set[int] | None] = (None,),
) -> tuple[int, ...]:
    """The facts on walks along a path from one object to another, ascending; at most `MAX_FACTS`.

    The walks keep to the members of a draw, if there are some.
    """
    found = set[int]()
    for members in draws:
        found |= _draw_facts(index, path, start, end, hidden, members)
    return tuple(sorted(found)[:MAX_FACTS])


def _draw_facts(
    index: StepIndex,
    path: Sequence[Label],
    start: int,
    end: int,
    hidden: Longs,
    members: set[int] | None,
) -> set[int]:
    layers: list[dict[int, list[tuple[int, int]]]] = []  # target → (source, fact), step by step
    sources, deadline = {start}, current_deadline()
    for number, label in enumerate(path, start=1):
        layer: dict[int, list[tuple[int, int]]] = {}
        for source in sources:
            if deadline is not None:
                deadline.check()
            targets, facts = index.steps(source, index.label_id(*label))
            for target, fact in zip(targets.tolist(), facts.tolist(), strict=True):
                seen = members if members is None or number < len(path) else members | {target}
                if target != start and fact not in hidden and _is_inside(index, fact, target, seen):
                    layer.setdefault(target, []).append((source, fact))
        layers.append(layer)
        sources = set(layer)
    found, needed = set[int](), {end}
    for layer in reversed(layers):
        used = [step for target in needed for step in layer.get(target, ())]
        found |= {fact for _, fact in used}
        needed = {source for source, _ in used}
    return found


def _is_inside(index: StepIndex, fact: int, target: int, members: set[int] | None) -> bool:
    """Whether a step leads to a member by a fact whose objects are members."""
    if members is None:
        return True
    return target in members and (not len(index.long_facts[0]) or members.issuperset(index.fact(fact)[1]))


def _linked(
    index: StepIndex,
    objects: Sequence[int],
    ends: tuple[int, int],
    hidden: Longs,
    draws: Sequence[set[int] | None],
    link: tuple[int, float],
) -> Evidence:
    """That two objects are in one fact: in any, or in one that has them in this order."""
    (start, position), (kind, effect) = ends, link
    table = index.table
    steps = slice(*table.group_starts[table.starts[[objects[start], objects[start] + 1]]].tolist())
    there = table.targets[steps] == objects[position]
    low, high = sorted(ends)
    key: tuple[object, ...] = "linked", low, high
    text = f"{{{low}}} and {{{high}}} are in one fact"
    if kind:
        forwards = kind == 1
        there &= index.forwards[index.step_labels[steps]] == forwards
        first, second = ends if forwards else (position, start)
        key, text = ("ordered", first, second), f"{{{first}}} stands before {{{second}}} in one fact"
    target, visible = objects[position], np.setdiff1d(table.facts[steps][there], hidden).tolist()
    sets = [members if members is None else members | {target} for members in draws]
    facts = [fact for fact in visible if any(_is_inside(index, fact, target, members) for members in sets)]
    return Evidence(key, text, 1.0, effect, tuple(facts[:MAX_FACTS]), joins=True)


def _with_constant(
    index: StepIndex,
    constants: MinedConstants,
    row: int,
    ends: tuple[int, int],
    objects: Sequence[int],
    hidden: Longs,
    draws: Sequence[set[int] | None],
    effect: float,
) -> Evidence:
    """That the object at one end is in a fact with a constant, and the object at the other end is the candidate."""
    start, position = ends
    code, candidate = int(constants.codes[row]), int(constants.candidates[row])
    label, constant = divmod(code, constants.objects)
    targets, facts = index.steps(objects[start], label)
    visible = np.setdiff1d(facts[targets == constant], hidden).tolist()
    shown = [fact for fact in visible if any(_is_inside(index, fact, constant, members) for members in draws)]
    fact, names = index.labels[label], (index.kb.object_name(constant), index.kb.object_name(candidate))
    feature = constant_feature(fact, index.kb.relations[fact.relation].arity, *names, start + 1, position + 1)
    return Evidence(
        ("constant", code, candidate, start, position),
        feature,
        1.0,
        effect,
        tuple(sorted(shown)[:MAX_FACTS]),
        joins=True,
    )


def _own(scorer: Scorer, obj: int, hidden: Longs, weight: float) -> Iterator[Evidence]:
    """The formulas about the candidate alone."""
    ranker, index, position = scorer.ranker, scorer.index, scorer.ranker.position
    marks, statistics = scorer.own_features(obj, hidden)
    for mark, value in marks.items():
        effect = weight * float(ranker.mark_weights[mark]) * value
        if effect:
            yield _mark_evidence(index, mark, obj, position, hidden, effect)
    counted_effect, seen, steps = (
        weight * float(w) * value for w, value in zip(ranker.statistic_weights, statistics, strict=True)
    )
    count = float(np.expm1(statistics[0]))
    arity = len(ranker.mined) + 1
    counted = Feature(_atom_at(ranker.relation, arity, position))
    yield Evidence(("count", position), counted, float(round(count)), counted_effect)
    exists = _mark_feature(Label(ranker.relation, position, 0), arity, position)
    yield Evidence(("mark", ranker.relation, position, position), exists, 1.0, seen)
    degree = float(round(np.expm1(statistics[2])))
    yield Evidence(("facts", position), f"number of facts of {{{position}}}", degree, steps)


def _mark_evidence(index: StepIndex, mark: int, obj: int, position: int, hidden: Longs, effect: float) -> Evidence:
    """What a mark says about the object at a position."""
    variable = Variable(f"s{position + 1}")
    if mark < len(index.labels):
        label = index.labels[mark]
        facts = np.setdiff1d(index.steps(obj, mark)[1], hidden)[:3]
        feature = _mark_feature(label, index.kb.relations[label.relation].arity, position)
        return Evidence(("mark", label.relation, label.source, position), feature, 1.0, effect, tuple(facts.tolist()))
    number = mark - len(index.labels)
    if number < len(index.types):
        name = index.types[number]
        own = index.kb.fact_ids(index.kb.content.relations.find(name) or 0, np.array([[obj]], np.int32))
        return Evidence(
            ("type", name, position), Feature(Atom(name, (variable,))), 1.0, effect, tuple(own[own >= 0].tolist())
        )
    attribute, least = index.thresholds[number - len(index.types)]
    compared = Feature(Comparison(Attribute(attribute, variable), "≥", Number(least)))
    return Evidence(("threshold", attribute, least, position), compared, 1.0, effect)


def _atom_at(relation: str, arity: int, source: int, position: int | None = None) -> Atom:
    """The atom with s_position at the source, and other variables elsewhere."""
    own = Variable(f"s{(source if position is None else position) + 1}")
    others = iter(range(1, arity + 1))
    return Atom(relation, tuple(own if i == source else Variable(f"x{next(others)}") for i in range(arity)))


def _mark_feature(label: Label, arity: int, position: int) -> Feature:
    """That the object at a position is at the source of some fact of the label's relation."""
    atom = _atom_at(label.relation, arity, label.source, position)
    body: Formula = atom
    variables = tuple(term for term in atom.terms if isinstance(term, Variable) and term.name.startswith("x"))
    if variables:
        body = Exists(variables, atom)
    return Feature(body)


def _similar(scorer: RelationScorer, odds: Odds, objects: Sequence[int], hidden: Longs) -> Iterator[Evidence]:
    """What the expert says, at all positions together. It does not see which facts are hidden."""
    effect, total, bound = 0.0, 0.0, None
    for position, own in enumerate(scorer.scorers):
        score = None if own.expert is None else own.expert.score(objects[1 - position], objects[position])
        if own.expert is not None and score is not None:
            effect += float(odds.weights[position]) * own.expert.weight * score
            total, bound = total + score, own.expert.bound
    if bound is None or not effect:
        return
    kb, text = scorer.index.kb, "similar objects"
    facts = bound.similar_facts(kb, scorer.relation, objects, hidden)
    if facts:
        told = [str(kb.fact_by_id(fact)._replace(confidence=1.0)).removesuffix(".") for fact in facts]
        text += f", as in {' and '.join(told)}"
    yield Evidence(("expert",), text.replace("{", "{{").replace("}", "}}"), total, effect)


def _known(
    scorer: RelationScorer, weight: float, objects: Sequence[int], hidden: Longs, position: int
) -> Iterator[Evidence]:
    """The answers that are known already."""
    known = scorer.known_answers(objects, hidden, position)
    if not len(known) or not weight:
        return
    tuples = np.tile(np.array(objects, np.int32), (len(known[:MAX_FACTS]), 1))
    tuples[:, position] = known[:MAX_FACTS]
    facts = scorer.index.kb.fact_ids(scorer.index.kb.content.relations.find(scorer.relation) or 0, tuples)
    terms = tuple(Variable("x1" if i == position else f"s{i + 1}") for i in range(len(objects)))
    feature = Feature(Atom(scorer.relation, terms))
    # of two objects, the known answers for one are the facts that the other is in
    key = ("count", 1 - position) if len(objects) == 2 else ("known", position)
    yield Evidence(key, feature, float(len(known)), weight * float(np.log1p(len(known))), tuple(facts.tolist()))
