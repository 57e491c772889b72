"""Formulas with constants: when they are used, in files, on other knowledge bases, and in explanations."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.errors import InputError
from gaifman.io.model_file import Arrays, model_bytes, read_model, write_model
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.listwise.mining import MiningConfig
from gaifman.listwise.ranker import ListwiseConfig, fit_ranker
from gaifman.listwise.rules import mine_rules
from gaifman.listwise.scoring import Scorer
from gaifman.listwise.steps import build_steps
from gaifman.training import Callback

LATIN_CLUBS = ("club0", "club1", "club2")
LABELS = "0/listwise/1/constants/0/labels"


def clubs(people: int = 150, founded: bool = False) -> KnowledgeBase:
    """In three clubs of ten nearly all members speak Latin; elsewhere the club says nothing.

    The year is any, or that of the club.
    """
    rng = random.Random(0)
    facts: list[tuple[str, ...]] = []
    for i in range(people):
        club = rng.randrange(10)
        facts.append(("joined", f"person{i}", f"club{club}", f"year{club if founded else rng.randrange(40)}"))
        language = "latin" if club < 3 and rng.random() < 0.95 else f"language{rng.randrange(8)}"
        if i % 10:
            facts.append(("speaks", f"person{i}", language))
    return KnowledgeBase.from_facts(facts)


class StopAfterEachPosition(Callback):
    """Keeps the checkpoint of every position and stops."""

    def __init__(self) -> None:
        self.saved: tuple[Arrays, dict[str, Any]] | None = None

    def load_checkpoint(self) -> Any:
        return self.saved

    def on_block(self, examples: int, state: Callable[[], tuple[Arrays, dict[str, Any]]]) -> None:
        self.saved = state()
        raise KeyboardInterrupt


def asked(kb: KnowledgeBase) -> str:
    """A member of a club of Latin speakers whose language is not known."""
    [*known] = kb.facts("joined")
    speakers = {fact.objects[0] for fact in kb.facts("speaks")}
    return next(f.objects[0] for f in known if f.objects[0] not in speakers and f.objects[1] in LATIN_CLUBS)


@pytest.fixture(scope="module")
def completion() -> gaifman.Completion:
    return gaifman.complete(clubs(), ["speaks"])


def test_constants_are_used_where_they_make_held_out_facts_likelier(completion: gaifman.Completion) -> None:
    arrays, _ = completion.state()
    assert len(arrays[LABELS])
    best = completion.answers(f"speaks('{asked(completion.kb)}', y)", top=1)
    assert best[0].names == ("latin",)


def test_none_are_used_with_max_constants_0() -> None:
    arrays, _ = gaifman.complete(clubs(), ["speaks"], options={"max_constants": 0}).state()
    assert not any(len(array) for name, array in arrays.items() if name.endswith("/labels"))
    rules = mine_rules(clubs(), "speaks", MiningConfig(max_constants=0))
    assert rules
    assert not any("'" in rule.formula for rule in rules)


def test_random_facts_of_few_objects_stay_at_chance() -> None:
    rng = random.Random(1)
    facts = [(f"r{rng.randrange(4)}", f"p{i}", f"c{rng.randrange(6)}") for i in range(400) for _ in range(5)]
    liked = [f"d{rng.randrange(5)}" for _ in range(400)]
    kb = KnowledgeBase.from_facts([*facts, *(("likes", f"p{i}", liked[i]) for i in range(280))])
    index = build_steps(kb)
    ranker = fit_ranker(index, "likes", 1)
    assert ranker.held_out_loss is not None
    assert ranker.held_out_loss > np.log(5) - 0.05
    scorer, candidates = Scorer(index, ranker, ListwiseConfig()), [kb.object_id(f"d{i}") for i in range(5)]
    shares = []
    for i in range(280, 400):
        scores = scorer.scores([kb.object_id(f"p{i}"), 0])
        others = scores[[c for c in candidates if c != kb.object_id(liked[i])]]
        shares.append(np.mean(others < scores[kb.object_id(liked[i])]))
    assert np.mean(shares) == pytest.approx(0.5, abs=0.1)


def test_threads_and_the_order_of_facts_do_not_matter(completion: gaifman.Completion) -> None:
    turned = KnowledgeBase.from_facts([(fact.relation, *fact.objects) for fact in completion.kb.facts()][::-1])
    others = (gaifman.complete(kb, ["speaks"], threads=n) for kb, n in ((completion.kb, 2), (turned, 1)))
    assert {model_bytes(*other.state()) for other in others} == {model_bytes(*completion.state())}


def test_a_file_gives_the_same_model(completion: gaifman.Completion, tmp_path: Path) -> None:
    completion.save(tmp_path / "model.gaifman")
    again = gaifman.load(tmp_path / "model.gaifman", completion.kb)
    person = asked(completion.kb)
    assert again.probability("speaks", person, "latin") == completion.probability("speaks", person, "latin")
    assert model_bytes(*again.state()) == model_bytes(*completion.state())


def test_formulas_about_objects_that_are_not_there_are_left_out(completion: gaifman.Completion) -> None:
    facts = [("joined", "ann", "club0", "year1"), ("speaks", "bob", "latin"), ("joined", "bob", "atlantis", "year1")]
    few = completion.with_kb(KnowledgeBase.from_facts(facts))
    told = {reason.feature for reason in few.explain("speaks", "ann", "latin", top=50).reasons}
    assert any("'club0'" in formula for formula in told)
    other = completion.with_kb(KnowledgeBase.from_facts([("joined", "ann", "x", "y"), ("speaks", "bob", "greek")]))
    told = {reason.feature for reason in other.explain("speaks", "ann", "greek", top=50).reasons}
    assert not any("'" in formula for formula in told)
    assert 0 < other.probability("speaks", "ann", "greek").value < 1


def change_array(name: str, change: Callable[[Any], Any]) -> Callable[[Arrays], None]:
    def apply(arrays: Arrays) -> None:
        key = f"0/listwise/1/constants/0/{name}"
        arrays[key] = np.ascontiguousarray(change(arrays[key].copy()))

    return apply


def set_first(value: int) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array.flat[0] = value
        return array

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_array("labels", set_first(9_999)), "constants/0/labels.*outside"),
        (change_array("labels", set_first(-1)), "constants/0/labels.*outside"),
        (change_array("objects", set_first(9_999)), "constants/0/objects.*outside"),
        (change_array("objects", set_first(-1)), "constants/0/objects.*outside"),
        (change_array("objects", lambda array: array[:1]), "constants/0/objects"),
        (change_array("support", lambda array: array[1:]), "constants/0/support"),
        (change_array("confidence", lambda array: array.astype(np.float32)), "constants/0/confidence"),
        (change_array("names", set_first(0xFF)), "constants/0/names.*UTF-8"),
        (change_array("names", lambda array: array[1:]), "constants/0/name_ends.*fit"),
        (change_array("name_ends", set_first(-1)), "constants/0/name_ends.*fit"),
        (change_array("name_ends", lambda array: array[::-1]), "constants/0/name_ends.*fit"),
        (change_array("name_ends", lambda array: array[:0]), "constants/0/name_ends.*fit"),
        (lambda arrays: arrays.pop("0/listwise/1/constants/0/labels"), "constants/0/labels.*missing"),
        (lambda arrays: arrays.update({"0/listwise/1/formula_weights": np.zeros(2)}), "formulas"),
    ],
)
def test_a_crafted_file_is_refused(
    completion: gaifman.Completion, tmp_path: Path, change: Callable[[Arrays], Any], message: str
) -> None:
    completion.save(tmp_path / "model.gaifman")
    arrays, meta = read_model(tmp_path / "model.gaifman")
    changed = dict(arrays)
    change(changed)
    write_model(tmp_path / "crafted.gaifman", changed, meta)
    with pytest.raises(InputError, match=message):
        gaifman.load(tmp_path / "crafted.gaifman", completion.kb)


def test_a_reason_with_a_constant_is_told_plainly_and_once(completion: gaifman.Completion) -> None:
    person = asked(completion.kb)
    [club, year] = next(fact.objects[1:] for fact in completion.kb.facts("joined") if fact.objects[0] == person)
    reasons = completion.explain("speaks", person, "latin", top=100).reasons
    [reason] = [reason for reason in reasons if f"'{club}'" in reason.formula]
    assert reason.formula == f"∃x3 joined('{person}', '{club}', x3)"
    assert reason.feature == f"(∃x3 joined(s1, '{club}', x3)) ∧ s2 = 'latin'"
    assert reason.description == f"{person} joined {club}, something"
    assert [fact.objects for fact in reason.facts] == [(person, club, year)]
    assert not any("'latin' = 'latin'" in reason.formula for reason in reasons)


def test_constants_of_one_fact_are_told_once() -> None:
    kb = clubs(founded=True)  # every club has its year: both constants of a fact say the same
    person = asked(kb)
    explanation = gaifman.complete(kb, ["speaks"]).explain("speaks", person, "latin", top=100)
    told = [reason for reason in explanation.reasons if "= 'latin'" in reason.feature]
    assert len(told) == 1
    parts = explanation.parts
    total = parts.total + sum(each.effect for each in explanation.reasons)
    assert total == pytest.approx(explanation.log_odds, abs=1e-6)


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_of_dropped_facts_must_be_below_1(share: float) -> None:
    with pytest.raises(gaifman.GaifmanError, match="fact_dropout"):
        gaifman.complete(clubs(20), ["speaks"], options={"fact_dropout": share})


def test_a_number_of_constants_must_not_be_negative() -> None:
    with pytest.raises(gaifman.GaifmanError, match="max_constants"):
        MiningConfig(max_constants=-1)


def test_a_model_of_several_knowledge_bases_names_no_objects() -> None:
    parts = [clubs(), clubs(100)]
    for state in (gaifman.complete(parts, ["speaks"]).state(), gaifman.fit(parts, "speaks(x, y)").state()):
        assert not any(len(array) for name, array in state[0].items() if name.endswith("/labels"))


def test_a_stopped_training_is_resumed_to_the_same_model() -> None:
    kb, callback = clubs(), StopAfterEachPosition()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            gaifman.fit(kb, "speaks(x, y)", callback=callback)
    resumed = gaifman.fit(kb, "speaks(x, y)", callback=callback)
    assert model_bytes(*resumed.state()) == model_bytes(*gaifman.fit(kb, "speaks(x, y)").state())
