"""Explanations of ranked lists: weights times values, which add up to the log-odds.

Each position of a tuple has a ranker, and each ranker has formulas that lead to the object at that position and
formulas about this object alone. Each is evidence, with its value, effect and facts. A formula that several rankers
have is told once, with the sum of its effects. The effects, the base of the odds and the competition of other
candidates add up to the log-odds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from heapq import nlargest

import numpy as np

from gaifman.config import current_deadline, no_deadline
from gaifman.errors import LimitError
from gaifman.explain.explanation import (
    MAX_COUNTERFACTUAL_FACTS,
    MAX_COUNTERFACTUAL_FORMULAS,
    Counterfactual,
    Decomposition,
    ExplainedTuple,
    Explanation,
    OtherFormulas,
    Reason,
    best_of,
    conflict_reasons,
    draw_diagram,
    estimate_hiding,
    find_counterfactual,
    highlighted_facts,
    query_text,
    with_labels,
    without_conflicting_facts,
)
from gaifman.explain.svg import Diagram
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.labels import label_fact, label_formula, label_names
from gaifman.kb.tables import Ints, Longs, freeze
from gaifman.listwise.added import AddedFormulas
from gaifman.listwise.groundings import Countable, exclude_facts
from gaifman.listwise.mining import COMPARISONS, MinedComparisons, MinedConstants, MinedFormulas
from gaifman.listwise.odds import Odds
from gaifman.listwise.scoring import ListwisePredictor, RelationScorer, Scorer
from gaifman.listwise.steps import (
    Label,
    StepIndex,
    as_path,
    comparison_feature,
    constant_feature,
    forward_path,
    path_feature,
    without_differences,
)
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
    substitute,
)
from gaifman.logic.verbalize import describe_feature
from gaifman.models.calibration import log_odds
from gaifman.predict import DrawBudget
from gaifman.queries.witnesses import witness_facts
from gaifman.sampling.constraints import hide_nothing
from gaifman.sampling.hiding import HiddenFacts

MAX_FACTS = 100
"""Facts of one formula."""
MAX_WAYS = 10
"""Ways to make an added formula true whose facts are named."""
MAX_DRAWN = 24
"""Objects of a diagram."""
TRIED_REASONS = 10
"""The formulas with the largest effects, of which one is the best reason."""
MIN_RISE = 0.05
"""By how much a probability rises without the known answers that are named as decisive."""


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
    labelled: str = ""
    """The text with labels for the objects in it; empty for a formula, and if the knowledge base has no labels."""


@dataclass(slots=True)
class _Merged:
    """What several rankers say about one formula."""

    first: Evidence
    effect: float = 0.0
    facts: list[int] = field(default_factory=list)

    def add(self, evidence: Evidence) -> None:
        self.effect += evidence.effect
        self.facts += [fact for fact in evidence.facts if fact not in self.facts]


def explain_ranking(
    predictor: ListwisePredictor, tuples: Ints, hidden: HiddenFacts, top: int, budget: DrawBudget
) -> Explanation:
    """Explain the probability of one tuple (1, arity)."""
    explained = _estimate(predictor, tuples, hidden, budget)
    with budget.deadline.activate():
        formulas = _merge(
            collect_evidence(predictor.scorer, predictor.odds, tuples[0].tolist(), hidden.of(0)), explained
        )
    budget.deadline.check()
    order = sorted(formulas, key=lambda one: -abs(one.effect))
    supporting = [one for one in order if one.effect > 0]
    always = [one for one in order if one.first.key == ("expert",)]
    chosen = {id(one) for one in (*supporting[:top], *[one for one in order if one.effect < 0][:top], *always)}
    shown, others = [one for one in order if id(one) in chosen], [one for one in order if id(one) not in chosen]
    joining = [one for one in supporting if one.first.joins and one.facts]
    helping = [frozenset(one.facts) for one in joining or supporting]
    counterfactual = (
        without_conflicting_facts(explained)
        or _without_known_answers(explained, order)
        or find_counterfactual(explained, helping[:MAX_COUNTERFACTUAL_FORMULAS])
    )
    reasons = (*conflict_reasons(explained), *(_reason(explained, one) for one in shown))
    explanation = Explanation(
        query_text(predictor.query, explained.names),
        tuple(variable.name for variable in predictor.query.variables),
        explained.names,
        len(hidden.facts) > 0,
        explained.estimate,
        reasons,
        _decompose(explained, predictor.odds, formulas, others),
        counterfactual,
        _diagram(predictor.scorer.index, explained, reasons, counterfactual),
        len(hidden.facts) > 0,
        explained.conflicts,
        predictor.uncovered_reasons(tuples, hidden, budget.deadline)[0],
    )
    return with_labels(explanation, explained)


def best_reason(predictor: ListwisePredictor, tuples: Ints) -> Reason | None:
    """The formula that speaks most for one tuple (1, arity) that is not known: much faster than an explanation."""
    hidden, budget = hide_nothing(1), predictor.budget()
    explained = _estimate(predictor, tuples, hidden, budget)
    evidence = collect_evidence(predictor.scorer, predictor.odds, tuples[0].tolist(), hidden.of(0), TRIED_REASONS)
    order = sorted(_merge(evidence, explained), key=lambda one: -one.effect)[:TRIED_REASONS]
    return best_of([_reason(explained, one) for one in order if one.effect > 0], explained.names)


def _estimate(predictor: ListwisePredictor, tuples: Ints, hidden: HiddenFacts, budget: DrawBudget) -> ExplainedTuple:
    estimates = predictor.model_estimates(tuples, hidden, budget)
    return ExplainedTuple(
        predictor,
        tuples,
        tuple(predictor.kb.object_name(number) for number in tuples[0].tolist()),
        hidden,
        budget,
        estimates[0],
        predictor.constrain(estimates, tuples, hidden, budget.deadline)[0],
        predictor.conflicts(tuples, hidden),
        cache(predictor.kb.fact_by_id),
    )


def _merge(found: Iterator[Evidence], explained: ExplainedTuple) -> list[_Merged]:
    """The evidence by formula; what has no effect is left out.

    That two objects are linked, by the facts of a formula that is there too, is part of that formula. A formula with a
    constant is part of another one if both say the same of the tuple, or if the same facts make it true.
    """
    merged: dict[tuple[object, ...], _Merged] = {}
    for evidence in found:
        merged.setdefault(evidence.key, _Merged(evidence)).add(evidence)
    steps = {frozenset(one.facts): one for one in reversed(merged.values()) if one.first.is_step}
    for key, link in list(merged.items()):
        same = steps.get(frozenset(link.facts))
        if key[0] in ("linked", "ordered") and same is not None:
            same.effect += merged.pop(key).effect
    told = dict[object, _Merged]()
    for key, one in sorted(merged.items(), key=lambda item: _telling_order(*item)):
        text = None if isinstance(one.first.formula, str) else str(_ground(one.first.formula, explained))
        has_constant = key[0] == "constant"
        facts = frozenset(one.facts) if has_constant or one.first.is_step else None
        earlier = (told.get(text) or told.get(facts)) if has_constant else None
        if earlier is not None:
            earlier.add(replace(one.first, effect=one.effect, facts=tuple(one.facts)))
            del merged[key]
            continue
        told |= {sign: one for sign in (text, facts) if sign and sign not in told}
    return [one for one in merged.values() if one.effect]


def _telling_order(key: tuple[object, ...], one: _Merged) -> tuple[bool, bool, float]:
    """Formulas with constants come last, and among the others paths of one step first."""
    return key[0] == "constant", not one.first.is_step, -abs(one.effect)


def _without_known_answers(explained: ExplainedTuple, order: Sequence[_Merged]) -> Counterfactual | None:
    """The probability without the known answers, if these are what makes the tuple improbable."""
    strongest = next((one for one in order if one.effect < 0), None)
    if strongest is None or strongest.first.key[0] not in ("known", "count"):
        return None
    facts = sorted(strongest.facts)
    if not 0 < len(facts) <= MAX_COUNTERFACTUAL_FACTS:
        return None
    hidden = np.union1d(explained.hidden.facts, facts).astype(np.int64)
    [estimate] = estimate_hiding(explained.predictor, explained.tuples, [hidden], explained.budget)
    if estimate.value < explained.estimate.value + MIN_RISE:
        return None
    return Counterfactual(tuple(explained.fact(fact) for fact in facts), estimate)


def _reason(explained: ExplainedTuple, merged: _Merged) -> Reason:
    evidence, labels = merged.first, explained.display
    facts = tuple(explained.fact(fact) for fact in merged.facts)
    if isinstance(evidence.formula, str):
        text, feature = (evidence.formula.format(*names) for names in (explained.names, _variables(explained)))
        shown = (evidence.labelled or evidence.formula).format(*label_names(explained.names, labels))
        words = shown
    else:
        grounded = _ground(evidence.formula, explained)
        text, feature = str(grounded), str(evidence.formula)
        shown, words = str(label_formula(grounded, labels)), describe_feature(label_formula(grounded, labels))
    labelled = shown if labels else ""
    return Reason(
        text,
        feature,
        merged.effect,
        1,
        evidence.value,
        facts,
        words,
        labelled=labelled,
        labels=explained.labels_of(facts),
    )


def _ground(formula: Feature, explained: ExplainedTuple) -> Feature:
    """The formula with the names of the objects, without what is trivially true."""
    names = {Variable(f"s{i}"): Constant(name) for i, name in enumerate(explained.names, start=1)}
    return without_differences(substitute(formula, names))


def _variables(explained: ExplainedTuple) -> list[str]:
    return [f"s{i}" for i in range(1, len(explained.names) + 1)]


def _decompose(
    explained: ExplainedTuple, odds: Odds, formulas: Sequence[_Merged], others: Sequence[_Merged]
) -> Decomposition:
    """The parts that add up with the effects of the reasons to the log-odds of the estimate."""
    rest = OtherFormulas(len(others), sum(one.effect for one in others))
    total = float(log_odds(explained.model_estimate.value))
    linear, base = odds.linear_of(total), odds.base
    competition = linear - base - sum(one.effect for one in formulas)
    return Decomposition(base, rest, calibration=total - linear, competition=competition)


def _diagram(
    index: StepIndex, explained: ExplainedTuple, reasons: Sequence[Reason], counterfactual: Counterfactual | None
) -> Diagram:
    """The objects of the facts in the explanation, and the facts among them."""
    signs, members = highlighted_facts(reasons, counterfactual), dict.fromkeys(explained.names)
    for fact in signs:
        if len({*members, *fact.objects}) <= MAX_DRAWN:
            members |= dict.fromkeys(fact.objects)
    numbers = np.array(sorted(explained.predictor.kb.object_id(name) for name in members), np.int32)
    inside = index.facts_among(numbers, explained.hidden.facts)
    return draw_diagram(explained, tuple(members), [*map(explained.fact, inside.tolist())], signs, counterfactual)


# The evidence of a tuple


def collect_evidence(
    scorer: RelationScorer, odds: Odds, objects: Sequence[int], hidden: Longs, most: int | None = None
) -> Iterator[Evidence]:
    """The evidence of one tuple, position by position; of walks only so many with the largest effects."""
    hidden = freeze(hidden)
    for position, own in enumerate(scorer.scorers):
        weight = float(odds.weights[position])
        if weight:
            yield from _walked(own, objects, hidden, weight, most)
            if own.ranker.added is not None:
                yield from _added(own, own.ranker.added, objects, hidden, weight)
            yield from _own(own, objects[position], hidden, weight)
        yield from _known(scorer, float(odds.weights[scorer.arity + position]), objects, hidden, position)
    yield from _similar(scorer, odds, objects, hidden)


def _walked(
    scorer: Scorer, objects: Sequence[int], hidden: Longs, weight: float, most: int | None
) -> Iterator[Evidence]:
    """The formulas that lead from the other objects to the candidate; only `most` with the largest effects."""
    ranker, index = scorer.ranker, scorer.index
    arities = {name: info.arity for name, info in index.kb.relations.items()}
    fixed, position = [i for i in range(len(objects)) if i != ranker.position], ranker.position
    draws = [None if members is None else set(members.tolist()) for members in scorer.member_sets(objects, hidden)]
    counts = scorer.formula_counts(objects, hidden)
    effects = {
        formula: weight * float(ranker.formula_weights[formula]) * value for formula, (value, _) in counts.items()
    }
    for formula in effects if most is None else nlargest(most, effects, key=effects.__getitem__):
        effect, count = effects[formula], counts[formula][1]
        number, row = _locate(ranker.mined, formula)
        start, mined = fixed[number], ranker.mined[number]
        ends = start, position
        if row >= mined.first_comparison:
            yield _compared(index, mined.comparisons, row - mined.first_comparison, ends, effect)
            continue
        if row >= mined.first_constant:
            row -= mined.first_constant
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


def _added(
    scorer: Scorer, added: AddedFormulas, objects: Sequence[int], hidden: Longs, weight: float
) -> Iterator[Evidence]:
    """The added formulas that the tuple satisfies."""
    ranker, index = scorer.ranker, scorer.index
    for at, (value, count) in added.values_at(objects, hidden).items():
        effect = weight * float(ranker.added_weights[at]) * value
        if effect:
            formula = added.formulas[at]
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
        case Comparison(Attribute(name, Variable() as one), operator, Attribute(other, Variable() as two)) if (
            name == other
        ):
            return "added", str(comparison_feature(name, operator, query_position(one), query_position(two)))
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


def _compared(
    index: StepIndex, comparisons: MinedComparisons, row: int, ends: tuple[int, int], effect: float
) -> Evidence:
    """How a number of the object at one end compares with that of the object at the other end."""
    start, position = ends
    attribute = index.attributes[int(comparisons.attributes[row])]
    operator = COMPARISONS[int(comparisons.operators[row])]
    feature = comparison_feature(attribute, operator, start + 1, position + 1)
    return Evidence(_formula_key(feature), feature, 1.0, effect, joins=True)


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
    kb = scorer.index.kb
    facts = [kb.fact_by_id(fact) for fact in bound.similar_facts(kb, scorer.relation, objects, hidden)]
    labelled = _similar_text([label_fact(fact, kb.display) for fact in facts]) if kb.labels else ""
    yield Evidence(("expert",), _similar_text(facts), total, effect, labelled=labelled)


def _similar_text(facts: Sequence[Fact]) -> str:
    """The text about similar objects, with the facts that they are in; braces are doubled."""
    told = [str(fact._replace(confidence=1.0)).removesuffix(".") for fact in facts]
    text = f"similar objects, as in {' and '.join(told)}" if told else "similar objects"
    return text.replace("{", "{{").replace("}", "}}")


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
