"""Rankers: what they find, what they must not see, and that nothing but data and seed decides."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import gaifman
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, freeze
from gaifman.listwise.mining import NOTHING, MiningConfig, Reacher, choose_mining, mine_formulas
from gaifman.listwise.ranker import (
    DIRECT_PRIOR_STRENGTH,
    PRIOR_STRENGTH,
    ListwiseConfig,
    Ranker,
    fit_ranker,
    prior_weights,
)
from gaifman.listwise.scoring import Scorer
from gaifman.listwise.steps import Label, build_steps

CONFIG = ListwiseConfig()


def ranked(
    kb: KnowledgeBase, relation: str, position: int, objects: list[str], config: ListwiseConfig = CONFIG
) -> list[str]:
    """All objects, the best candidate first."""
    index = build_steps(kb)
    scores = Scorer(index, fit_ranker(index, relation, position, config), config).scores(ids(kb, objects))
    return [kb.object_name(number) for number in np.argsort(-scores, kind="stable").tolist()]


def ids(kb: KnowledgeBase, objects: list[str]) -> list[int]:
    return [kb.object_id(name) for name in objects]


def families(count: int = 60) -> KnowledgeBase:
    """Grandparents by two steps: one in ten is missing."""
    facts = []
    for i in range(count):
        old, middle, young = f"old{i}", f"middle{i}", f"young{i}"
        facts += [("parent", old, middle), ("parent", middle, young), ("person", old), ("person", young)]
        if i % 10:
            facts.append(("grandparent", old, young))
    return KnowledgeBase.from_facts(facts)


def test_a_rule_of_two_steps_is_found_and_finds_the_missing_fact() -> None:
    kb = families()
    mined = mine_formulas(build_steps(kb), "grandparent", 0, 1)
    assert mined.path(int(mined.confidence.argmax())) == (Label("parent", 0, 1),) * 2
    assert ranked(kb, "grandparent", 1, ["old10", "old10"])[0] == "young10"
    assert ranked(kb, "grandparent", 0, ["young20", "young20"])[0] == "old20"


def test_a_relation_with_five_facts_is_ranked_by_its_rule() -> None:
    facts = [("parent", f"old{i}", f"young{i}") for i in range(40)]
    facts += [("child", f"young{i}", f"old{i}") for i in range(5)]
    assert ranked(KnowledgeBase.from_facts(facts), "child", 1, ["young30", "old30"])[0] == "old30"


def test_facts_of_three_places_are_steps() -> None:
    taught = [("taught", f"teacher{i}", f"course{i}", f"pupil{i}") for i in range(40)]
    kb = KnowledgeBase.from_facts([*taught, *(("knows", f"pupil{i}", f"teacher{i}") for i in range(20))])
    assert ranked(kb, "knows", 1, ["pupil30", "pupil30"])[0] == "teacher30"


def test_an_open_place_of_a_fact_of_three_places_is_ranked_from_both_others() -> None:
    met = [("met", f"a{i}", f"b{i}", f"c{i}") for i in range(20)]
    kb = KnowledgeBase.from_facts([*met, *(("link", f"b{i}", f"c{i}") for i in range(30))])
    assert ranked(kb, "met", 2, ["a0", "b25", "a0"])[0] == "c25"


def test_a_type_is_ranked_by_marks() -> None:
    facts = [("writes", f"author{i}", f"book{i}") for i in range(40)] + [("author", f"author{i}") for i in range(30)]
    best = ranked(KnowledgeBase.from_facts(facts), "author", 0, ["book0"])
    assert all(name.startswith("author") for name in best[:40])


def random_facts(seed: int, objects: int = 60, facts: int = 400) -> tuple[KnowledgeBase, list[tuple[str, str]]]:
    """Random pairs; a tenth is held out."""
    rng = random.Random(seed)
    pairs = sorted({(f"o{rng.randrange(objects)}", f"o{rng.randrange(objects)}") for _ in range(facts)})
    rng.shuffle(pairs)
    cut = len(pairs) // 10
    return KnowledgeBase.from_facts(
        [("r", *pair) for pair in pairs[cut:]], objects=[f"o{i}" for i in range(objects)]
    ), pairs[:cut]


@pytest.mark.parametrize("hide", ["facts", "links"])
def test_random_facts_are_ranked_by_chance(hide: str) -> None:
    shares = []
    for seed in range(4):
        kb, missing = random_facts(seed)
        index, config = build_steps(kb), ListwiseConfig(hide=hide)
        scorer = Scorer(index, fit_ranker(index, "r", 1, config), config)
        for pair in missing:
            scores = scorer.scores(ids(kb, list(pair)))
            other = np.delete(scores, [*index.targets(kb.object_id(pair[0]), index.label_id("r", 0, 1)).tolist()])
            shares.append(np.mean(other < scores[kb.object_id(pair[1])]))
    assert abs(np.mean(shares) - 0.5) < 0.1


def test_the_claimed_loss_on_random_facts_is_no_better_than_chance() -> None:
    kb, _ = random_facts(7)
    ranker = fit_ranker(build_steps(kb), "r", 1)
    assert ranker.held_out_loss is not None
    assert ranker.held_out_loss > np.log(50)  # of 60 objects, those already known are no candidates


def parts(ranker: Ranker) -> list[Floats]:
    return [ranker.formula_weights, ranker.mark_weights, ranker.statistic_weights]


def test_the_order_of_facts_does_not_matter() -> None:
    facts = list(gaifman.demo().facts())
    shuffled = random.Random(1).sample(facts, len(facts))
    first, second = (
        fit_ranker(build_steps(KnowledgeBase.from_facts(each)), "borders", 1) for each in (facts, shuffled)
    )
    for one, other in zip(parts(first), parts(second), strict=True):
        assert one.tobytes() == other.tobytes()


def test_fewer_values_in_memory_make_fewer_questions() -> None:
    config = ListwiseConfig(max_entries=1_000, mining=MiningConfig(max_formulas=5))
    assert ranked(gaifman.demo(), "borders", 1, ["france", "france"], config)


def test_paths_are_long_where_objects_have_few_steps_and_labels_are_few() -> None:
    chain = [("next", f"o{i}", f"o{i + 1}") for i in range(50)]
    dense = [*chain, *(("next", f"o{i}", f"o{j}") for i in range(0, 50, 2) for j in range(50))]
    varied = [(f"next{i}", f"o{i}", f"o{i + 1}") for i in range(60)]
    chosen = [choose_mining(build_steps(KnowledgeBase.from_facts(facts))) for facts in (chain, dense, varied)]
    assert [each.max_steps for each in chosen] == [5, 3, 3]


def test_a_link_in_the_asked_direction_excludes_and_one_in_the_other_does_not() -> None:
    rng = random.Random(0)
    names = [f"o{i}" for i in range(25)]
    facts = [(rng.choice(["likes", "hates"]), first, second) for first in names for second in names]
    hidden = [fact for fact in facts[::10] if fact[0] == "likes"]
    kb, config = KnowledgeBase.from_facts([fact for fact in facts if fact not in hidden]), MiningConfig(max_steps=1)
    index = build_steps(kb)
    ranker = fit_ranker(index, "likes", 1, ListwiseConfig(config))
    scorer = Scorer(index, ranker, ListwiseConfig(config))
    places = []
    for _, first, second in hidden:
        scores = scorer.scores(ids(kb, [first, second]))
        places.append(int((scores > scores[kb.object_id(second)]).sum()))
    assert np.mean(places) < 4
    _, asked, other = ranker.formula_weights[len(ranker.mined[0].paths) :][:3]
    assert asked < other


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(gaifman.GaifmanError, match="hide"):
        ListwiseConfig(hide="nothing")
    with pytest.raises(gaifman.GaifmanError, match="max_steps"):
        MiningConfig(max_steps=0)


def chains(known: int) -> KnowledgeBase:
    """Heirs by three steps; the first two lead nowhere else. All chains share a house, so short paths tell nothing."""
    facts = []
    for i in range(100):
        names = [f"{letter}{i}" for letter in "abcd"]
        facts += [("child", *pair) for pair in itertools.pairwise(names)]
        facts += [("lives", name, "house") for name in names]
        if i < known:
            facts.append(("heir", names[0], names[3]))
    return KnowledgeBase.from_facts(facts)


def longest(kb: KnowledgeBase, relation: str) -> int:
    found = fit_ranker(build_steps(kb), relation, 1)
    return max(int((one.paths >= 0).sum(axis=1).max()) for one in found.mined)


def test_long_paths_are_used_where_held_out_facts_need_them() -> None:
    assert longest(chains(90), "heir") == longest(chains(40), "heir") == 3
    assert ranked(chains(90), "heir", 1, ["a95", "a95"])[0] == "d95"


def test_with_few_facts_long_paths_are_used_only_if_there_are_no_short_ones() -> None:
    assert longest(chains(20), "heir") == 2  # lives in the same house
    facts = [fact for fact in chains(20).facts() if fact.relation != "lives"]
    assert longest(KnowledgeBase.from_facts(facts), "heir") == 3


def test_scratch_space_grows_with_the_paths() -> None:
    index = build_steps(chains(40))
    child = index.label_id("child", 0, 1)
    found = []
    for steps in (1, 3):
        reacher = Reacher(index, steps, 100)
        end = reacher.walk(index.kb.object_id("a1"), NOTHING, freeze(np.array([[child] * 3], np.int32)))
        found.append(reacher.objects[:end].tolist())
    assert found == [[index.kb.object_id("d1")]] * 2


def citizens(count: int = 400) -> KnowledgeBase:
    """People live where their company is, three in four of them; nearly every fact has its inverse."""
    rng, facts = random.Random(0), []
    facts += [("located_in", f"company{i}", f"town{i % 20}") for i in range(40)]
    for i in range(count):
        company = rng.randrange(40)
        town = company % 20 if rng.random() < 0.75 else rng.randrange(20)
        facts.append(("works_at", f"person{i}", f"company{company}"))
        if i % 10:
            facts.append(("lives_in", f"person{i}", f"town{town}"))
            facts += [("inhabitant", f"town{town}", f"person{i}")] * (rng.random() < 0.98)
    return KnowledgeBase.from_facts(facts)


def test_longer_paths_have_one_label_for_each_pair_of_inverses_and_each_symmetric_relation() -> None:
    kb = citizens()
    facts = [("married", f"person{i}", f"person{i + 200}") for i in range(100)]
    kb = kb.with_facts([*facts, *(("married", wife, husband) for _, husband, wife in facts)])
    index = build_steps(kb)
    redundant = [index.describe(label) for label in np.flatnonzero(index.redundant).tolist()]
    assert redundant == ["lives_in 1→2", "lives_in 2→1", "married 2→1"]
    mined = mine_formulas(index, "lives_in", 0, 1)
    paths = [mined.path(row) for row in range(len(mined.paths))]
    assert (Label("inhabitant", 1, 0),) in paths
    assert not any(label.relation == "lives_in" for path in paths for label in path if len(path) > 1)
    assert any(len(path) > 1 for path in paths)


def of_company(kb: KnowledgeBase, share: float) -> tuple[float, dict[tuple[Label, ...], float]]:
    """The mean log share of the town of the company for people whose town is missing, and the weights of paths."""
    index, config = build_steps(kb), ListwiseConfig(MiningConfig(max_steps=2), blind_share=share)
    ranker, found = fit_ranker(index, "lives_in", 1, config), []
    scorer, [mined] = Scorer(index, ranker, config), ranker.mined
    for i in range(0, 400, 10):
        person = kb.object_id(f"person{i}")
        [company] = index.targets(person, index.label_id("works_at", 0, 1)).tolist()
        scores = scorer.scores([person, person])
        town = index.targets(company, index.label_id("located_in", 0, 1))
        found.append(float(scores[town[0]] - np.log(np.exp(scores).sum())))
    weights = ranker.formula_weights[: len(mined.paths)].tolist()
    return float(np.mean(found)), {mined.path(row): weight for row, weight in enumerate(weights)}


def test_blind_questions_give_weight_to_what_is_left_where_the_inverse_is_missing() -> None:
    """Nearly every fact had its inverse, so that hardly any question needed another path."""
    kb, path, inverse = citizens(), (Label("works_at", 0, 1), Label("located_in", 0, 1)), (Label("inhabitant", 1, 0),)
    (seen, own), (blind, own_blind) = (of_company(kb, share) for share in (0.0, 0.3))
    assert own_blind[path] > 1.5 * own[path]
    assert own_blind[inverse] > 0.8 * own[inverse] > own[path]
    assert blind > seen + 0.5


def test_an_inverse_begins_with_a_larger_weight_than_a_path_that_is_as_good() -> None:
    facts = [("r", f"a{i}", f"b{i}") for i in range(30)] + [("s", f"b{i}", f"a{i}") for i in range(30)]
    facts += [("first", f"a{i}", f"m{i}") for i in range(30)] + [("second", f"m{i}", f"b{i}") for i in range(30)]
    mined = mine_formulas(build_steps(KnowledgeBase.from_facts(facts)), "r", 0, 1)
    weights = {mined.path(row): prior_weights(mined)[row] for row in range(len(mined.paths))}
    confidences = {mined.path(row): mined.confidence[row] for row in range(len(mined.paths))}
    inverse, path = (Label("s", 1, 0),), (Label("first", 0, 1), Label("second", 0, 1))
    assert confidences[inverse] == confidences[path]
    assert weights[inverse] == pytest.approx(DIRECT_PRIOR_STRENGTH / PRIOR_STRENGTH * weights[path])
    assert not prior_weights(mined)[len(mined.paths) :].any()


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "half", True])
def test_a_share_of_blind_questions_that_is_none_is_one_clear_error(share: object) -> None:
    with pytest.raises(gaifman.GaifmanError) as caught:
        gaifman.complete(families(20), ["grandparent"], options={"blind_share": share})
    assert str(caught.value).startswith("blind_share must be a number, at least 0 and at most 1, got ")
