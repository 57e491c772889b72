"""Comparisons of numbers: when they are used, in files, on other knowledge bases, and in explanations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from comparison_cases import Pairs, mentors
from gaifman.errors import InputError
from gaifman.io.model_file import Arrays, model_bytes, read_model, write_model
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.listwise.mining import MAX_COMPARED, MiningConfig, mine_comparisons, mine_formulas
from gaifman.listwise.rules import mine_comparison_rules
from gaifman.listwise.steps import build_steps
from gaifman.training import Callback

WITHOUT = {"max_comparisons": 0}


@pytest.fixture(scope="module")
def case() -> tuple[gaifman.Completion, Pairs]:
    kb, missing = mentors()
    return gaifman.complete(kb, ["mentors"]), missing


def values_of(kb: KnowledgeBase) -> dict[tuple[str, str], float]:
    """(attribute, object) → number."""
    return {(name, str(obj)): value for name, own in kb.structure().attributes.items() for obj, value in own.items()}


def names_of(completion: gaifman.Completion) -> list[str]:
    return [name for name in completion.state()[0] if "/comparisons/" in name]


def mean_reciprocal_rank(completion: gaifman.Completion, missing: Pairs) -> float:
    """Of some missing facts, among candidates that are not true."""
    found = []
    for one, other in sorted(missing)[::20]:
        answers = [answer.names[0] for answer in completion.answers(f"mentors('{one}', y)", top=200)]
        rivals = [name for name in answers if name == other or (one, name) not in missing]
        found.append(1 / (1 + rivals.index(other)) if other in rivals else 0.0)
    return float(np.mean(found))


def test_comparisons_rank_missing_facts_higher(case: tuple[gaifman.Completion, Pairs]) -> None:
    completion, missing = case
    assert names_of(completion)
    plain = gaifman.complete(completion.kb, ["mentors"], options=WITHOUT)
    assert not names_of(plain)
    assert mean_reciprocal_rank(completion, missing) > mean_reciprocal_rank(plain, missing) + 0.1


def test_who_is_younger_is_improbable(case: tuple[gaifman.Completion, Pairs]) -> None:
    completion, missing = case
    forward, back = ([completion.probability("mentors", *pair[::by]).value for pair in missing] for by in (1, -1))
    assert np.median(forward) > 4 * np.median(back)


def test_a_comparison_is_told_once_and_all_effects_add_up(case: tuple[gaifman.Completion, Pairs]) -> None:
    completion, missing = case
    one, other = min(missing)
    explanation = completion.explain("mentors", one, other, top=100)
    [reason] = [reason for reason in explanation.reasons if reason.feature.count("age(") == 2]
    assert reason.feature == "age(s1) > age(s2)"
    assert reason.formula == f"age('{one}') > age('{other}')"
    assert reason.description == f"the age of {one} > the age of {other}"
    assert reason.effect > 0
    assert reason.facts == ()
    parts = explanation.parts
    total = parts.total + sum(each.effect for each in explanation.reasons)
    assert total == pytest.approx(explanation.log_odds, abs=1e-6)


def test_an_added_comparison_is_told_with_the_mined_one(case: tuple[gaifman.Completion, Pairs]) -> None:
    completion, missing = case
    both = gaifman.complete(completion.kb, ["mentors"], phi=gaifman.parse_phi("age(s2) < age(s1)", completion.kb))
    told = [reason.feature for reason in both.explain("mentors", *min(missing), top=100).reasons]
    assert sum(feature in ("age(s1) > age(s2)", "age(s2) < age(s1)") for feature in told) == 1


def test_threads_and_the_order_of_facts_do_not_matter(case: tuple[gaifman.Completion, Pairs]) -> None:
    completion, _ = case
    facts = [(fact.relation, *fact.objects) for fact in completion.kb.facts()]
    turned = KnowledgeBase.from_facts(facts[::-1], dict([*values_of(completion.kb).items()][::-1]))
    others = (gaifman.complete(kb, ["mentors"], threads=n) for kb, n in ((completion.kb, 2), (turned, 1)))
    assert {model_bytes(*other.state()) for other in others} == {model_bytes(*completion.state())}


def test_a_file_gives_the_same_model(case: tuple[gaifman.Completion, Pairs], tmp_path: Path) -> None:
    completion, missing = case
    completion.save(tmp_path / "model.gaifman")
    again = gaifman.load(tmp_path / "model.gaifman", completion.kb)
    pair = min(missing)
    assert again.probability("mentors", *pair) == completion.probability("mentors", *pair)
    assert model_bytes(*again.state()) == model_bytes(*completion.state())


class StopAfterEachPosition(Callback):
    """Keeps the checkpoint of every position and stops."""

    def __init__(self) -> None:
        self.saved: tuple[Arrays, dict[str, Any]] | None = None

    def load_checkpoint(self) -> Any:
        return self.saved

    def on_block(self, examples: int, state: Callable[[], tuple[Arrays, dict[str, Any]]]) -> None:
        self.saved = state()
        raise KeyboardInterrupt


def test_an_interrupted_training_ends_with_the_same_model() -> None:
    kb, _ = mentors(60, 3, 0.3)
    callback, found = StopAfterEachPosition(), None
    for _ in range(3):
        try:
            found = gaifman.fit(kb, "mentors(x, y)", callback=callback)
        except KeyboardInterrupt:
            continue
    assert found is not None
    assert any("/comparisons/" in name for name in found.state()[0])
    assert model_bytes(*found.state()) == model_bytes(*gaifman.fit(kb, "mentors(x, y)").state())


def test_other_objects_are_compared_and_without_numbers_nothing_is(case: tuple[gaifman.Completion, Pairs]) -> None:
    completion, _ = case
    facts = [("in_team", name, "crew") for name in ("ann", "bob", "cleo")]
    some = KnowledgeBase.from_facts([*facts, ("mentors", "cleo", "dan")], {("age", "ann"): 60, ("age", "bob"): 30})
    told = {reason.feature for reason in completion.with_kb(some).explain("mentors", "ann", "bob", top=50).reasons}
    assert "age(s1) > age(s2)" in told
    for pair in (("bob", "ann"), ("ann", "cleo")):
        told = {reason.feature for reason in completion.with_kb(some).explain("mentors", *pair, top=50).reasons}
        assert "age(s1) > age(s2)" not in told


def change_array(name: str, change: Callable[[Any], Any]) -> Callable[[Arrays], None]:
    def apply(arrays: Arrays) -> None:
        key = f"0/listwise/1/comparisons/0/{name}"
        arrays[key] = np.ascontiguousarray(change(arrays[key].copy()))

    return apply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_array("formulas", lambda array: array + np.array([1, 0], np.int32)), "comparisons/0/formulas.*not"),
        (change_array("formulas", lambda array: array + np.array([0, 5], np.int32)), "comparisons/0/formulas"),
        (change_array("formulas", lambda array: array - 9), "comparisons/0/formulas.*not"),
        (change_array("formulas", lambda array: array[:, :1]), "comparisons/0/formulas"),
        (change_array("support", lambda array: array[:0]), "comparisons/0/support"),
        (change_array("expected", lambda array: array.astype(np.float32)), "comparisons/0/expected"),
        (lambda arrays: arrays.pop("0/listwise/1/comparisons/0/formulas"), "formulas"),
        (lambda arrays: arrays.pop("0/listwise/1/comparisons/0/support"), "comparisons/0/support.*missing"),
    ],
)
def test_a_crafted_file_is_refused(
    case: tuple[gaifman.Completion, Pairs], tmp_path: Path, change: Callable[[Arrays], Any], message: str
) -> None:
    completion, _ = case
    completion.save(tmp_path / "model.gaifman")
    arrays, meta = read_model(tmp_path / "model.gaifman")
    changed = dict(arrays)
    change(changed)
    write_model(tmp_path / "crafted.gaifman", changed, meta)
    with pytest.raises(InputError, match=message):
        gaifman.load(tmp_path / "crafted.gaifman", completion.kb)


def test_the_rules_of_a_relation_list_a_comparison_once() -> None:
    kb, _ = mentors()
    [rule] = mine_comparison_rules(kb, "mentors")
    assert rule.formula == "age(s1) > age(s2)"
    assert rule.support == rule.answers == len(kb.tuples("mentors"))
    assert rule.expected < 0.9
    assert not mine_comparison_rules(kb, "in_team")


def test_larger_neighbours_of_the_demo_are_compared() -> None:
    demo = gaifman.demo()
    values, pairs = values_of(demo), [fact.objects for fact in demo.facts("borders")]
    larger = [pair for pair in pairs if values["population", pair[1]] > values["population", pair[0]]]
    kb = KnowledgeBase.from_facts([("larger_neighbour", *pair) for pair in larger], values)
    rules = {rule.formula: rule for rule in mine_comparison_rules(kb, "larger_neighbour")}
    assert rules["population(s1) < population(s2)"].support == len(larger)
    assert not mine_comparison_rules(demo, "borders")


def test_random_numbers_are_rarely_compared() -> None:
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        facts = {("r", f"o{a}", f"o{b}") for a, b in rng.integers(0, 60, (200, 2)).tolist()}
        values = {("age", f"o{i}"): float(value) for i, value in enumerate(rng.integers(0, 30, 60))}
        found += len(mine_comparison_rules(KnowledgeBase.from_facts(sorted(facts), values), "r"))
    assert found <= 3


def test_nothing_is_compared_without_numbers_or_with_too_many() -> None:
    kb, _ = mentors(ages=False)
    index = build_steps(kb)
    assert index.values == ()
    assert not len(mine_formulas(index, "mentors", 0, 1).comparisons)
    objects = MAX_COMPARED + 1
    chain = [("next", f"o{i}", f"o{i + 1}") for i in range(40)]
    for count, expected in ((objects, 0), (objects - 1, 1)):
        many = KnowledgeBase.from_facts(chain, {("year", f"o{i}"): i for i in range(count)})
        assert len(mine_comparisons(build_steps(many), "next", 0, 1, 3)) == expected


def test_a_number_of_comparisons_must_not_be_negative() -> None:
    with pytest.raises(gaifman.GaifmanError, match="max_comparisons"):
        MiningConfig(max_comparisons=-1)
