"""Formulas added to the mined ones: what they are good for, what is stored, what is refused, what is explained."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.config import Deadline
from gaifman.errors import FormulaError, GaifmanError, InputError, LimitError, StoppedError
from gaifman.explain.ranking import _formula_key
from gaifman.features.feature_sets import FeatureSet, Phi, added_features, parse_phi
from gaifman.io.model_file import Arrays, model_bytes, read_model, write_model
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.listwise import added
from gaifman.listwise.added import AddedFormulas
from gaifman.listwise.ranker import ListwiseConfig, fit_ranker
from gaifman.listwise.scoring import ListwisePredictor, Scorer
from gaifman.listwise.steps import build_steps
from gaifman.logic.parser import parse_feature
from gaifman.predict import NetworkPredictor
from gaifman.training import Callback

LARGEST = parse_phi("shares_border(s1, s2) & ~(exists x. shares_border(s1, x) & size(x) > size(s2))")


def lands(count: int = 40, seed: int = 0) -> tuple[KnowledgeBase, list[tuple[str, str]]]:
    """The largest neighbour of each land, of which every other is missing."""
    rng = random.Random(seed)
    names = [f"land{i}" for i in range(count)]
    sizes = {("size", name): float(rng.randrange(10_000)) for name in names}
    borders = {tuple(rng.sample(names, 2)) for _ in range(3 * count)}
    near: dict[str, set[str]] = {name: set() for name in names}
    for one, other in borders:
        near[one].add(other)
        near[other].add(one)
    facts = [("shares_border", one, other) for one in names for other in sorted(near[one])]
    largest = [(one, max(near[one], key=lambda name: sizes["size", name])) for one in names if near[one]]
    known = [("largest", *pair) for pair in largest[::2]]
    return KnowledgeBase.from_facts([*facts, *known], sizes), largest[1::2]


def first_answers(model: gaifman.GaifmanModel, missing: list[tuple[str, str]]) -> float:
    return float(np.mean([model.answers(x=one, top=1)[0].names == (other,) for one, other in missing]))


@pytest.fixture(scope="module")
def kb() -> KnowledgeBase:
    return lands()[0]


@pytest.fixture(scope="module")
def model(kb: KnowledgeBase) -> gaifman.GaifmanModel:
    return gaifman.fit(kb, "largest(x, y)", phi=LARGEST)


def test_a_formula_that_no_path_can_say_finds_the_missing_facts(model: gaifman.GaifmanModel) -> None:
    kb, missing = lands()
    mined = gaifman.fit(kb, "largest(x, y)")
    assert first_answers(mined, missing) < 0.9 < first_answers(model, missing)
    assert model.meta["features"] == mined.meta["features"] + 2
    assert (model.config.base, model.config.phi) == ("listwise", "custom")


def test_an_explanation_names_the_formula_with_its_facts_and_adds_up(model: gaifman.GaifmanModel) -> None:
    _, missing = lands()
    one, other = missing[0]
    found = model.explain(one, other)
    [reason] = [reason for reason in found.reasons if "size(x) >" in reason.feature]
    assert reason.effect is not None
    assert reason.effect > 0
    assert [str(fact) for fact in reason.facts] == [f"shares_border({one}, {other})."]
    total = sum(each.effect or 0.0 for each in found.reasons) + found.parts.total
    assert total == pytest.approx(found.log_odds, abs=1e-9)


def test_a_formula_is_explained_together_with_the_mined_one_that_says_the_same() -> None:
    facts: list[tuple[str, ...]] = [("parent", f"old{i}", f"young{i}") for i in range(40)]
    facts += [("child", f"young{i}", f"old{i}") for i in range(30)]
    facts += [("old", f"old{i}") for i in range(40)]
    phi = parse_phi("parent(s2, s1)\nold(s2)\nexists x. parent(s2, x)")
    model = gaifman.fit(KnowledgeBase.from_facts(facts), "child(x, y)", phi=phi)
    found = model.explain("young35", "old35", top=50)
    features = [reason.feature for reason in found.reasons]
    assert len(features) == len(set(features))
    assert sum("parent(s2, s1)" in feature for feature in features) == 1


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("p(s2)", ("type", "p", 1)),
        ("exists x. r(x, s1)", ("mark", "r", 1, 0)),
        ("exists x. t(x, s1, x)", None),
        ("age(s2) >= 5", ("threshold", "age", 5.0, 1)),
        ("age(s2) > 5", None),
        ("exists x. r(s1, x) & r(x, s2)", None),
        ("r(s1, x) & r(s1, s2)", None),
        ("r(s1, 'a') & r(x, s2)", None),
    ],
)
def test_what_says_the_same_has_the_same_key(text: str, key: tuple[object, ...] | None) -> None:
    feature = parse_feature(text)
    assert _formula_key(feature) == (key or ("added", str(feature)))


def test_formulas_leave_random_facts_at_chance() -> None:
    texts = (
        "r(s1, x) & r(x, s2); r(s2, s1); r(x, s2); ~(exists x. r(s2, x)); r(x, s1) & r(x, s2); r(s1, s1) & r(s2, s2)"
    )
    formulas, shares = [parse_feature(text) for text in texts.split(";")], []
    for seed in range(4):
        rng = random.Random(seed)
        pairs = sorted({(f"o{rng.randrange(60)}", f"o{rng.randrange(60)}") for _ in range(400)})
        rng.shuffle(pairs)
        kb = KnowledgeBase.from_facts([("r", *pair) for pair in pairs[40:]], objects=[f"o{i}" for i in range(60)])
        index = build_steps(kb)
        ranker = fit_ranker(index, "r", 1, None, formulas)
        assert ranker.held_out_loss is not None
        assert ranker.held_out_loss > np.log(50)
        scorer = Scorer(index, ranker, ListwiseConfig())
        for one, other in pairs[:40]:
            scores = scorer.scores([kb.object_id(one), 0])
            known = index.targets(kb.object_id(one), index.label_id("r", 0, 1))
            shares.append(np.mean(np.delete(scores, known) < scores[kb.object_id(other)]))
    assert abs(np.mean(shares) - 0.5) < 0.1


# Files


def test_a_file_gives_the_same_model(kb: KnowledgeBase, model: gaifman.GaifmanModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model.gaifman")
    again = gaifman.load(tmp_path / "model.gaifman", kb)
    assert isinstance(again, gaifman.GaifmanModel)
    assert again.probability("land1", "land2") == model.probability("land1", "land2")
    assert model_bytes(*again.state()) == model_bytes(*model.state())
    assert str(again.explain("land1", "land2")) == str(model.explain("land1", "land2"))


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("added", None, "'added' is missing"),
        ("added", np.full(1, 7, np.int32), "'added' has numbers outside"),
        ("added", np.zeros(2, np.int32), "has a formula twice"),
        ("added_weights", np.zeros(5), "added_weights"),
    ],
)
def test_crafted_arrays_are_refused(
    model: gaifman.GaifmanModel, tmp_path: Path, name: str, array: Any, message: str
) -> None:
    model.save(tmp_path / "model.gaifman")
    arrays, meta = read_model(tmp_path / "model.gaifman")
    arrays.pop(f"listwise/1/{name}")
    arrays |= {} if array is None else {f"listwise/1/{name}": array}
    write_model(tmp_path / "crafted.gaifman", arrays, meta)
    with pytest.raises(InputError, match=message):
        gaifman.load(tmp_path / "crafted.gaifman")


@pytest.mark.parametrize(
    ("formulas", "message"),
    [
        (["size(("], "not a valid model"),
        (["other(s1, s2)"], "no relation other"),
        (["largest(s2)"], "no relation largest of 1"),
        (["each r. r(s1, s2)"], "several formulas"),
        (["sum size(x) for largest(x, s2)"], "is a number"),
        (["largest(s1, s3)"], "does not fit"),
        ([5], "not a valid model"),
        (5, "not a valid model"),
    ],
)
def test_crafted_formulas_are_refused(model: gaifman.GaifmanModel, tmp_path: Path, formulas: Any, message: str) -> None:
    model.save(tmp_path / "model.gaifman")
    arrays, meta = read_model(tmp_path / "model.gaifman")
    meta["added_formulas"] = formulas
    write_model(tmp_path / "crafted.gaifman", arrays, meta)
    with pytest.raises(InputError, match=message):
        gaifman.load(tmp_path / "crafted.gaifman")


class StopAfterFirstPosition(Callback):
    """Keeps the checkpoint of the first position and stops."""

    def __init__(self) -> None:
        self.saved: tuple[Arrays, dict[str, Any]] | None = None
        self.stop = True

    def load_checkpoint(self) -> Any:
        return self.saved

    def on_block(self, examples: int, state: Callable[[], tuple[Arrays, dict[str, Any]]]) -> None:
        if self.stop:
            self.saved, self.stop = state(), False
            raise KeyboardInterrupt


def test_a_stopped_training_is_resumed_to_the_same_model(kb: KnowledgeBase, model: gaifman.GaifmanModel) -> None:
    callback = StopAfterFirstPosition()
    with pytest.raises(KeyboardInterrupt):
        gaifman.fit(kb, "largest(x, y)", phi=LARGEST, callback=callback)
    resumed = gaifman.fit(kb, "largest(x, y)", phi=LARGEST, callback=callback)
    assert model_bytes(*resumed.state()) == model_bytes(*model.state())


def test_threads_and_the_order_of_facts_do_not_matter(kb: KnowledgeBase) -> None:
    facts = [(fact.relation, *fact.objects) for fact in kb.facts()]
    values = {(name, obj): value for name, obj, value in kb.values()}
    turned = KnowledgeBase.from_facts(facts[::-1], values)
    phi: Phi = ["default", parse_phi("each r. r(s2, x)\nsize(s1) > size(s2)"), LARGEST]
    one, two, three = (
        model_bytes(*gaifman.complete(each, phi=phi, threads=threads).state())
        for each, threads in ((kb, 1), (kb, 2), (turned, 2))
    )
    assert one == two == three


# Other knowledge bases


def test_another_knowledge_base_and_new_facts_are_answered_without_training(model: gaifman.GaifmanModel) -> None:
    other, _ = lands(seed=5)
    facts = [fact for fact in other.facts() if fact.relation == "shares_border"]
    rest = KnowledgeBase.from_facts(facts, {(name, obj): value for name, obj, value in other.values()})
    largest = {fact.objects for fact in other.facts("largest")}
    moved = model.with_kb(rest)
    assert first_answers(moved, sorted((one, two) for one, two in largest)) > 0.9
    one = sorted(largest)[0][0]
    more = rest.with_facts([("shares_border", one, "giant"), ("shares_border", "giant", one)], {("size", "giant"): 1e9})
    assert model.with_kb(more).answers(x=one, top=1)[0].names == ("giant",)


def test_a_knowledge_base_without_the_attribute_is_answered(model: gaifman.GaifmanModel) -> None:
    bare = model.with_kb(KnowledgeBase.from_facts([("shares_border", "a", "b"), ("largest", "a", "c")]))
    assert 0 < bare.probability("a", "b").value < 1


def test_relations_of_one_and_three_places_add_what_fits() -> None:
    facts: list[tuple[str, ...]] = [("met", f"a{i}", f"b{i % 7}", f"c{i % 5}") for i in range(30)]
    facts += [("link", f"b{i}", f"c{i}") for i in range(8)] + [("person", f"b{i}") for i in range(6)]
    phi = parse_phi("link(s2, s3)\nmet(s1, s2, x)\nperson(s1)\nmet(x, s1, y)\nlink(s1, s2)")
    kb = KnowledgeBase.from_facts(facts)
    found = gaifman.complete(kb, phi=phi)
    assert 0 < found.probability("met", "a1", "b1", "c1").value < 1
    assert 0 < found.probability("person", "b1").value < 1
    for relation, names in (("met", ("a1", "b1", "c1")), ("person", ("b1",)), ("link", ("b2", "c2"))):
        explained = found.explain(relation, *names)
        assert explained.log_odds == pytest.approx(np.log(explained.probability / (1 - explained.probability)))


def test_a_collection_adds_formulas_without_constants() -> None:
    kbs = [lands(20, seed)[0] for seed in (1, 2)]
    model = gaifman.fit(kbs, "largest(x, y)", phi=LARGEST)
    kb, missing = lands(20, 3)
    assert first_answers(model.with_kb(kb), missing) > 0.8
    with pytest.raises(FormulaError, match="names the object 'land1'"):
        gaifman.fit(kbs, "largest(x, y)", phi=parse_phi("shares_border(s2, 'land1')"))


# What is chosen


@pytest.mark.parametrize(
    ("settings", "name", "network"),
    [
        ({"phi": "paper"}, "paper", True),
        ({"phi": ["paper"]}, "paper", True),
        ({"phi": "universal-schema"}, "universal-schema", True),
        ({"phi": FeatureSet(LARGEST.features, "paper")}, "custom paper", False),
        ({"phi": ["default", LARGEST]}, "default + custom", False),
        ({"phi": ["paper", LARGEST]}, "paper + custom", False),
        ({"phi": "paper", "base": "listwise"}, "paper", False),
        ({"phi": LARGEST, "base": "mlp"}, "custom", True),
        ({"phi": ["default", LARGEST], "base": "mlp"}, "default + custom", True),
        ({"phi": LARGEST, "size": 5}, "custom", True),
    ],
)
def test_which_base_model_takes_which_feature_set(
    kb: KnowledgeBase, settings: dict[str, Any], name: str, network: bool
) -> None:
    model = gaifman.fit(kb, "largest(x, y)", min_examples=0, **settings)
    assert model.config.phi == name
    assert isinstance(model.predictor, NetworkPredictor if network else ListwisePredictor)
    if network and len(settings) > 1:
        texts = " ".join(map(str, model.features))
        assert ("size(x) > size(s2)" in texts, "∃x" in texts) == (True, True)


def test_a_phi_file_is_read_by_its_path(kb: KnowledgeBase, tmp_path: Path) -> None:
    (tmp_path / "mine.phi").write_text(LARGEST.to_text())
    one = gaifman.complete(kb, ["largest"], phi=str(tmp_path / "mine.phi"))
    two = gaifman.complete(kb, ["largest"], phi=LARGEST)
    assert one.probability("largest", "land1", "land2") == two.probability("largest", "land1", "land2")


def test_the_paper_set_is_added_for_all_arities() -> None:
    found = added_features("paper", [1, 2], {"r": 2, "p": 1})
    assert {str(feature) for feature in found} >= {"p(s1)", "p(s2)", "∃x r(s1, x)", "r(s1, s2)"}
    assert added_features("default", [2], {"r": 2}) == ()


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("size(s2)", FormulaError, "is a number"),
        ("size(s1) - size(s2)", FormulaError, "base='mlp'"),
        ("mean size(x) for shares_border(s2, x)", FormulaError, "is a number"),
        ("shares_border(s1, s3)", FormulaError, "uses s3"),
        ("shares_bordr(s1, s2)", FormulaError, "no relation"),
        ("shares_border(s1, s2) | (x = y & y = z & z = z)", LimitError, "cannot be added"),
    ],
)
def test_what_cannot_be_added_is_said(
    kb: KnowledgeBase,
    text: str,
    kind: type[GaifmanError],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("gaifman.listwise.groundings.MAX_COMBINATIONS", 1_000)
    (tmp_path / "mine.phi").write_text(text)
    with pytest.raises(kind) as caught:
        gaifman.fit(kb, "largest(x, y)", phi=str(tmp_path / "mine.phi"))
    assert message in f"{caught.value.message} {caught.value.hint}"


def test_too_many_formulas_are_refused(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(added, "MAX_FORMULAS", 3)
    with pytest.raises(LimitError, match="ranked lists add at most 3"):
        gaifman.fit(kb, "largest(x, y)", phi="paper", base="listwise")


def test_counting_stops_when_a_request_is_cancelled(kb: KnowledgeBase) -> None:
    deadline = Deadline()
    deadline.cancel()
    formulas = AddedFormulas(build_steps(kb.with_facts([("more", "a")])), 2, 1, LARGEST.features)
    with deadline.activate(), pytest.raises(StoppedError):
        formulas.prepare()
    formulas.prepare()
    assert len(formulas) == 1


def test_the_relations_of_a_model_share_what_is_looked_up(kb: KnowledgeBase) -> None:
    features = [*LARGEST.features, parse_feature("shares_border(s1, x) & shares_border(x, s2)")]
    index = build_steps(kb)
    every, some = AddedFormulas(index, 2, 1, features), AddedFormulas(index, 2, 1, features, [1])
    assert some._lookups[0,] is every._lookups[0,]
    nothing = np.zeros(0, np.int64)
    [all_entries], [own_entries] = every.answer([((0, 0), nothing)]), some.answer([((0, 0), nothing)])
    rows = all_entries.formulas == 1
    assert own_entries.objects.tolist() == all_entries.objects[rows].tolist()
    assert own_entries.values.tolist() == all_entries.values[rows].tolist()
    assert set(own_entries.formulas.tolist()) == {0}
