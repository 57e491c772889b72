"""The evidence of tuples: hiding facts is removing them, shares are a softmax, explanations add up."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from comparison_cases import make_comparisons
from gaifman.explain.ranking import collect_evidence, explain_ranking
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.tables import freeze
from gaifman.listwise import scoring
from gaifman.listwise.added import AddedFormulas
from gaifman.listwise.mining import COMPARISONS, MinedComparisons, MinedConstants, MinedFormulas, WalkBound
from gaifman.listwise.odds import MIN_LOG_SHARE, Odds, OddsTable
from gaifman.listwise.ranker import ListwiseConfig, Ranker
from gaifman.listwise.scoring import OTHERS_WEIGHT, ListwisePredictor, ReachCache, RelationScorer
from gaifman.listwise.steps import StepIndex, build_steps
from gaifman.logic.ast import Feature, relation_query
from gaifman.models.calibration import log_odds
from gaifman.predict import DrawBudget
from gaifman.sampling.hiding import HiddenFacts
from gaifman.training import TrainingConfig
from generators import ATTRIBUTES, Generator

RELATIONS = {"r": 2, "q": 2, "t": 3, "u": 1}
SEEDS = range(60)


class Case:
    """A random knowledge base with repeated objects, numbers and uncertain facts; random rankers; hidden facts."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        names = [f"o{i}" for i in range(7)]
        facts = {
            (relation, *(self.rng.choice(names) for _ in range(RELATIONS[relation])))
            for relation in self.rng.choices(list(RELATIONS), k=30)
        }
        sure = seed % 3 > 0
        self.kb = KnowledgeBase.from_facts(
            [Fact(name, tuple(rest), 1.0 if sure else self.rng.random() + 1e-9) for name, *rest in sorted(facts)],
            {("age", name): self.rng.randrange(5) for name in names[:5]},
            objects=names,
        ).extend_schema(RELATIONS, ATTRIBUTES)
        self.index = build_steps(self.kb).with_thresholds((("age", 1.0), ("age", 3.0)))
        self.relation = self.rng.choice(["r", "t", "u"])
        self.arity = RELATIONS[self.relation]
        self.weights = np.random.default_rng(seed)
        self.features = self.random_features() if seed % 2 else []
        self.rankers = [self.ranker(self.index, position) for position in range(self.arity)]
        self.objects = [self.rng.randrange(7) for _ in range(self.arity)]
        own = self.kb.fact_ids(self.kb.content.relations.find(self.relation) or 0, np.array([self.objects], np.int32))
        more = self.rng.sample(range(len(self.kb)), self.rng.randrange(3))
        self.config = ListwiseConfig(bound=WalkBound(size=2, draws=3) if seed % 2 else None)
        self.hidden = freeze(np.unique([*own[own >= 0].tolist(), *more]).astype(np.int64))

    def ranker(self, index: StepIndex, position: int) -> Ranker:
        mined = []
        for _ in range(self.arity - 1):
            paths = {tuple(self.rng.choices(range(len(index.labels)), k=self.rng.randint(1, 3))) for _ in range(8)}
            rows = np.array(sorted([*path, *[-1] * (3 - len(path))] for path in paths), np.int32)
            mined_paths = MinedFormulas(index.labels, freeze(rows), np.ones(len(rows), np.int64), np.ones(len(rows)))
            comparisons = self.comparisons(index) if self.rng.random() < 0.7 else MinedComparisons.none()
            mined.append(replace(mined_paths, constants=self.constants(index), comparisons=comparisons))
        formulas = self.weights.normal(size=sum(map(len, mined)))
        marks = self.weights.normal(size=index.mark_count)
        added = AddedFormulas(index, self.arity, position, self.features)
        statistics, of_added = self.weights.normal(size=3), self.weights.normal(size=len(added))
        return Ranker(self.relation, position, tuple(mined), formulas, marks, statistics, 0.1, 1, None, added, of_added)

    def constants(self, index: StepIndex) -> MinedConstants:
        """Random formulas with constants, sorted."""
        labels, count = range(len(index.labels)), len(index.kb.objects)
        drawn = {(self.rng.choice(labels), *self.rng.sample(range(count), 2)) for _ in range(60)}
        rows = np.array(sorted(drawn), np.int64)
        ones = np.ones(len(rows))
        codes, candidates = rows[:, 0] * count + rows[:, 1], rows[:, 2].astype(np.int32)
        return MinedConstants(freeze(codes), freeze(candidates), ones.astype(np.int64), ones, count)

    def comparisons(self, index: StepIndex) -> MinedComparisons:
        """Some comparisons of every attribute."""
        every = product(range(len(index.attributes)), range(len(COMPARISONS)))
        return make_comparisons(pair for pair in every if self.rng.random() < 0.7)

    def random_features(self) -> list[Feature]:
        """Added formulas of all kinds: with ¬, ∀, counted variables, constants, comparisons, relation variables."""
        generator = Generator(self.rng, relations=RELATIONS)
        variables = (*(f"s{i + 1}" for i in range(self.arity)), "x")
        return [Feature(generator.formula(variables, self.rng.randint(1, 3))) for _ in range(6)]

    def bound_to(self, index: StepIndex) -> list[Ranker]:
        """The rankers on another knowledge base."""
        return [
            replace(ranker, added=AddedFormulas(index, self.arity, ranker.position, self.features))
            for ranker in self.rankers
        ]

    def without_hidden(self) -> StepIndex:
        facts = [self.kb.fact_by_id(number) for number in self.hidden.tolist()]
        return build_steps(self.kb.without_facts(facts).extend_schema(RELATIONS, ATTRIBUTES)).with_thresholds(
            self.index.thresholds
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_hidden_facts_are_removed_facts(seed: int) -> None:
    case = Case(seed)
    whole = ListwiseConfig(bound=WalkBound(size=50) if seed % 2 else None)  # draws depend on edges that are hidden
    hiding = RelationScorer(case.index, case.rankers, whole)
    index = case.without_hidden()
    removed = RelationScorer(index, case.bound_to(index), whole)
    nothing = np.zeros(0, np.int64)
    for position in range(case.arity):
        with_hidden = hiding.share(case.objects, case.hidden, position).score + hiding.scorers[position].shift
        without = removed.share(case.objects, nothing, position).score + removed.scorers[position].shift
        assert with_hidden == pytest.approx(without, abs=1e-5)
        assert sorted(hiding.known_answers(case.objects, case.hidden, position)) == sorted(
            removed.known_answers(case.objects, nothing, position)
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_share_is_a_softmax_over_all_candidates(seed: int) -> None:
    case = Case(seed)
    scorer = RelationScorer(case.index, case.rankers, case.config)
    for position in range(case.arity):
        found = scorer.share(case.objects, case.hidden, position)
        scores = scorer.scorers[position].scores(case.objects, case.hidden)
        scores[case.objects[position]] = found.score
        known = scorer.known_answers(case.objects, case.hidden, position)
        candidates = np.setdiff1d(np.arange(7), np.setdiff1d(known, [case.objects[position]]))
        assert found.competition == pytest.approx(np.log(np.exp(scores[candidates]).sum()), abs=1e-6)


def predictor_of(case: Case) -> ListwisePredictor:
    scorer = RelationScorer(case.index, case.rankers, case.config)
    odds = Odds(0.3, np.abs(case.weights.normal(size=2 * case.arity)) * 0.1)
    query = relation_query(case.relation, case.arity)
    return ListwisePredictor(query, case.kb, TrainingConfig(), scorer, OddsTable.unfitted(case.arity), odds)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_explanation_adds_up_and_leaves_only_the_competition(seed: int) -> None:
    case = Case(seed)
    predictor = predictor_of(case)
    tuples = np.array([case.objects], np.int32)
    hidden = HiddenFacts(np.array([0, len(case.hidden)]), case.hidden)
    found = explain_ranking(predictor, tuples, hidden, 5, DrawBudget(1))
    assert found.log_odds == pytest.approx(float(log_odds(found.probability)), abs=1e-9)
    shares = [predictor.scorer.share(case.objects, case.hidden, position) for position in range(case.arity)]
    shifts = [own.shift for own in predictor.scorer.scorers]
    weights = predictor.odds.weights[: case.arity]
    competition = -sum(w * (s.competition + shift) for w, s, shift in zip(weights, shares, shifts, strict=True))
    assert found.parts.competition == pytest.approx(competition, abs=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_evidence_is_told_once_and_its_facts_are_visible(seed: int) -> None:
    case = Case(seed)
    predictor = predictor_of(case)
    for evidence in collect_evidence(predictor.scorer, predictor.odds, case.objects, case.hidden):
        assert not set(evidence.facts) & set(case.hidden.tolist())
    tuples = np.array([case.objects], np.int32)
    hidden = HiddenFacts(np.array([0, len(case.hidden)]), case.hidden)
    reasons = explain_ranking(predictor, tuples, hidden, 200, DrawBudget(1)).reasons
    assert len({reason.feature for reason in reasons}) == len(reasons)
    told = [reason for reason in reasons if " = 'o" in reason.feature and not case.features]
    assert len({reason.formula for reason in told}) == len({reason.facts for reason in told}) == len(told)


@pytest.mark.parametrize("seed", SEEDS)
def test_tuples_are_scored_alike_alone_and_together(seed: int) -> None:
    case = Case(seed)
    scorer = RelationScorer(case.index, case.rankers, case.config)
    tuples = np.array([[case.rng.randrange(7) for _ in range(case.arity)] for _ in range(20)], np.int32)
    ids = case.kb.fact_ids(case.kb.content.relations.find(case.relation) or 0, tuples)
    hidden = HiddenFacts.one_per_tuple(ids)
    together = scorer.evidence(tuples, hidden)
    for row in range(len(tuples)):
        alone = scorer.evidence(tuples[row : row + 1], hidden.select(np.array([row])))
        assert together[row].tolist() == alone[0].tolist()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("entries", [1, 10_000])
def test_what_is_kept_of_single_objects_changes_no_score(
    seed: int, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "MAX_CACHED_ENTRIES", entries)
    case = Case(seed)
    scorer = RelationScorer(case.index, case.rankers, replace(case.config, bound=None))
    if not scorer.can_cache():
        assert case.arity < 3
        return
    cache, nothing = ReachCache(), HiddenFacts.one_per_tuple(np.full(20, -1, np.int64))
    tuples = np.array([[case.rng.randrange(7) for _ in range(case.arity)] for _ in range(20)], np.int32)
    for position in (*range(case.arity), 0):
        plain = scorer.position_evidence(tuples, nothing, position)
        kept = scorer.position_evidence(tuples, nothing, position, cache=cache)
        assert all(one.tolist() == other.tolist() for one, other in zip(plain, kept, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_candidates_are_scored_at_all_positions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SHORTLIST", 3)
    case = Case(seed)
    scorer = RelationScorer(case.index, case.rankers, case.config)
    tuples = np.array([case.objects, case.objects[::-1], case.objects], np.int32)
    nothing = np.zeros(0, np.int64)
    for position in range(case.arity):
        found = scorer.candidate_scores(tuples, position)
        for objects, scores in zip(tuples.tolist(), found, strict=True):
            forward = scorer.scorers[position].scores(objects)
            known = set(scorer.known_answers(objects, nothing, position).tolist())
            assert all(scores[one] == forward[one] for one in known)
            rivals = sorted(set(range(7)) - known, key=lambda one: -forward[one])
            best = [one for one in rivals if len(rivals) <= 3 or forward[one] > forward[rivals[3]]]
            wanted = forward.copy()
            for one in best:
                filled = [*objects[:position], one, *objects[position + 1 :]]
                shares = [scorer.share(filled, nothing, other) for other in range(case.arity) if other != position]
                logs = [max(share.score - share.competition, MIN_LOG_SHARE) for share in shares]
                wanted[one] += OTHERS_WEIGHT * float(np.mean(logs)) if logs else 0.0
            for group in (best, sorted(set(rivals) - set(best))):
                assert np.ptp((scores - wanted)[group] if group else [0.0]) == pytest.approx(0, abs=1e-4)
            others = [scores[one] for one in rivals if one not in best]
            if case.arity > 1 and best and others:
                assert scores[best].min() > max(others)


# Coverage: formulas that join the objects, and positions that were seen


def random_predictor(case: Case) -> ListwisePredictor:
    """The predictor; of some cases, the formulas of a position do not count, or have no weight."""
    predictor = predictor_of(case)
    weights = predictor.odds.weights.copy()
    weights[: case.arity] *= case.weights.integers(0, 2, case.arity)
    return replace(predictor, odds=replace(predictor.odds, weights=weights))


def is_seen(case: Case, objects: tuple[int, ...], position: int, hidden: set[int]) -> bool:
    """Whether a visible fact has the object at the position."""
    name = case.kb.object_name(objects[position])
    hidden_facts = {case.kb.fact_by_id(number) for number in hidden}
    return any(fact.objects[position] == name for fact in case.kb.facts(case.relation) if fact not in hidden_facts)


@pytest.mark.parametrize("seed", SEEDS)
def test_coverage_equals_its_definition(seed: int) -> None:
    case = Case(seed)
    predictor = random_predictor(case)
    tuples = np.array([*product(range(7), repeat=case.arity)], np.int32)[:: 1 if case.arity < 3 else 17]
    own = case.kb.fact_ids(case.kb.content.relations.find(case.relation) or 0, tuples)
    more = case.hidden.tolist()
    unseen = [sorted({*more, *([int(fact)] if fact >= 0 else [])}) for fact in own]
    starts = np.append(0, np.cumsum([len(facts) for facts in unseen])).astype(np.int64)
    hidden = HiddenFacts(starts, np.array([fact for facts in unseen for fact in facts], np.int64))
    uncovered, reasons = predictor.uncovered(tuples, hidden), predictor.uncovered_reasons(tuples, hidden)
    for row, objects in enumerate(map(tuple, tuples.tolist())):
        evidence = [*collect_evidence(predictor.scorer, predictor.odds, list(objects), hidden.of(row))]
        reached = any(one.joins and one.effect for one in evidence)
        if case.arity == 1:
            statistics = ("count", 0), ("facts", 0), ("known", 0), ("mark", case.relation, 0, 0)
            assert uncovered[row] == (not any(one.effect for one in evidence if one.key not in statistics))
            assert reasons[row] == ("no formula is true of it" if uncovered[row] else "")
            continue
        seen = [is_seen(case, objects, position, set(unseen[row])) for position in range(case.arity)]
        assert uncovered[row] == (not reached and not all(seen))
        assert bool(reasons[row]) == uncovered[row]
        if uncovered[row]:
            told = [f"never seen at position {position + 1}" in reasons[row] for position in range(case.arity)]
            assert told == [not each for each in seen]


@pytest.mark.parametrize("seed", range(10))
def test_coverage_is_the_same_alone_and_together(seed: int) -> None:
    case = Case(seed)
    predictor = random_predictor(case)
    tuples = np.array([[case.rng.randrange(7) for _ in range(case.arity)] for _ in range(20)], np.int32)
    hidden = predictor.hidden_facts(tuples)
    together = predictor.uncovered_reasons(tuples, hidden)
    rows = [np.array([row]) for row in range(len(tuples))]
    assert together == [predictor.uncovered_reasons(tuples[row], hidden.select(row))[0] for row in rows]
