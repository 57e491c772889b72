"""Models of ranked lists: predictions, files, other knowledge bases, resumed training, small relations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.completion import train_completion
from gaifman.errors import FormulaError, InputError, KnowledgeBaseError
from gaifman.io.model_file import Arrays, model_bytes, read_model, write_model
from gaifman.kb import gaifman_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.predict import NetworkPredictor
from gaifman.training import Callback, TrainingConfig


def geography(countries: int = 40) -> KnowledgeBase:
    """Every country has cities, one of which is its capital; some capitals are not known."""
    facts: list[tuple[str, ...]] = []
    for i in range(countries):
        facts += [("country", f"land{i}")]
        facts += [
            fact for j in range(3) for fact in (("city", f"city{i}.{j}"), ("city_in", f"city{i}.{j}", f"land{i}"))
        ]
        facts += [("seat", f"city{i}.0", f"parliament{i}")]
        if i % 8:
            facts.append(("capital", f"land{i}", f"city{i}.0"))
    return KnowledgeBase.from_facts(facts)


@pytest.fixture(scope="module")
def completion() -> gaifman.Completion:
    return gaifman.complete(geography(), ["capital", "city", "city_in"], seed=1)


def test_answers_and_reasons_build_no_graph_and_distances_build_one(
    completion: gaifman.Completion, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, build = list[str](), gaifman_graph.build_graph

    def count(kb: KnowledgeBase) -> gaifman_graph.GaifmanGraph:
        built.append("graph")
        return build(kb)

    monkeypatch.setattr(gaifman_graph, "build_graph", count)
    model = completion.with_kb(geography())
    assert len(model.answers("capital('land8', y)"))
    assert model.explain("capital", "land9", "city9.0").reasons
    assert built == []
    for _ in range(2):
        assert len(model.answers("capital(x, y)", candidates="near"))
        assert built == ["graph"]


def test_the_missing_fact_comes_first_and_a_second_capital_is_improbable(completion: gaifman.Completion) -> None:
    missing, known = (completion.answers(f"capital('land{i}', y)", top=3) for i in (8, 9))
    assert missing[0].names == ("city8.0",)
    assert known[0].names == ("city9.0",)
    assert known[0].known
    second = completion.probability("capital", "land9", "city9.1").value
    assert second < 0.1 < missing[0].probability


def test_answers_and_single_probabilities_agree_to_the_last_bit(completion: gaifman.Completion) -> None:
    for answer in completion.answers("capital('land9', y)", top=5):
        assert answer.probability == completion.probability("capital", "land9", *answer.names).value
        assert answer.probability == completion.explain("capital", "land9", *answer.names).probability
    pairs = completion.answers("capital(x, y)", top=5)
    assert all(one.probability == completion.probability("capital", *one.names).value for one in pairs)


def test_nothing_is_drawn(completion: gaifman.Completion) -> None:
    found = completion.probability("capital", "land9", "city9.0")
    assert found.draws == 1
    assert np.isnan(found.error)
    assert "±" not in str(found)


def test_a_file_gives_the_same_model(completion: gaifman.Completion, tmp_path: Path) -> None:
    completion.save(tmp_path / "model.gaifman")
    again = gaifman.load(tmp_path / "model.gaifman", completion.kb)
    assert again.probability("capital", "land9", "city9.0") == completion.probability("capital", "land9", "city9.0")
    assert model_bytes(*again.state()) == model_bytes(*completion.state())
    alone = completion.model("capital")
    alone.save(tmp_path / "one.gaifman")
    loaded = gaifman.load(tmp_path / "one.gaifman", completion.kb)
    assert isinstance(loaded, gaifman.GaifmanModel)
    assert loaded.probability("land9", "city9.0") == completion.probability("capital", "land9", "city9.0")
    assert "ranked lists" in repr(loaded)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("0/listwise/odds"), "'odds' is missing"),
        (lambda arrays: arrays.update({"0/listwise/0/marks": np.full(1, 9_999, np.int32)}), "mark"),
        (lambda arrays: arrays.update({"0/listwise/0/paths/0": np.full((1, 3), 9_999, np.int32)}), "labels outside"),
        (lambda arrays: arrays.update({"0/listwise/0/formula_weights": np.zeros(1)}), "formulas"),
    ],
)
def test_a_crafted_file_is_refused(
    completion: gaifman.Completion, tmp_path: Path, change: Callable[[Arrays], Any], message: str
) -> None:
    completion.save(tmp_path / "model.gaifman")
    arrays, meta = read_model(tmp_path / "model.gaifman")
    change(arrays)
    write_model(tmp_path / "crafted.gaifman", arrays, meta)
    with pytest.raises(InputError, match=message):
        gaifman.load(tmp_path / "crafted.gaifman", completion.kb)


def test_new_objects_are_ranked_without_training(completion: gaifman.Completion) -> None:
    facts: list[tuple[str, ...]] = [("country", "new"), *(("city", name) for name in ("a", "b", "c"))]
    facts += [("city_in", name, "new") for name in ("a", "b", "c")]
    facts += [("seat", "b", "house")]
    other = completion.with_kb(KnowledgeBase.from_facts(facts))
    assert other.answers("capital('new', y)", top=1)[0].names == ("b",)


def test_a_knowledge_base_without_some_relations_is_answered(completion: gaifman.Completion) -> None:
    bare = completion.with_kb(KnowledgeBase.from_facts([("city_in", "a", "new"), ("borders", "new", "a")]))
    assert 0 < bare.probability("capital", "new", "a").value < 1


def test_threads_and_the_order_of_facts_do_not_matter() -> None:
    kb = geography(20)
    facts = [(fact.relation, *fact.objects) for fact in kb.facts()]
    turned = KnowledgeBase.from_facts(facts[::-1])
    one, two, three = (
        model_bytes(*gaifman.complete(each, ["capital", "city_in"], threads=threads).state())
        for each, threads in ((kb, 1), (kb, 2), (turned, 2))
    )
    assert one == two == three


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


def test_a_stopped_training_is_resumed_to_the_same_model() -> None:
    kb, callback = geography(20), StopAfterFirstPosition()
    with pytest.raises(KeyboardInterrupt):
        gaifman.fit(kb, "capital(x, y)", callback=callback)
    resumed = gaifman.fit(kb, "capital(x, y)", callback=callback)
    assert model_bytes(*resumed.state()) == model_bytes(*gaifman.fit(kb, "capital(x, y)").state())


def test_relations_of_one_and_three_places_have_models() -> None:
    facts: list[tuple[str, ...]] = [("met", f"a{i}", f"b{i}", f"c{i}") for i in range(30)]
    facts += [("link", f"b{i}", f"c{i}") for i in range(40)]
    facts += [("person", f"b{i}") for i in range(25)]
    model = gaifman.complete(KnowledgeBase.from_facts(facts), ["met", "person"])
    assert model.answers("met('a0', 'b35', z)", candidates="all", top=1)[0].names == ("c35",)
    assert model.probability("person", "b28").value > model.probability("person", "c28").value
    assert model.explain("met", "a0", "b35", "c35").supporting


def test_without_a_relation_that_can_be_trained_there_is_the_fallback(tmp_path: Path) -> None:
    kb = KnowledgeBase.from_facts([("p", "a"), ("p", "b"), ("q", "a")])
    found = gaifman.complete(kb)
    assert (found.trained_relations, found.meta["features"]) == ([], 0)
    assert [row["reason"] for row in found.meta["relations"]] == ["every tuple is known", "fewer than two facts"]
    found.save(tmp_path / "model.gaifman")
    loaded = gaifman.load(tmp_path / "model.gaifman", kb)
    assert isinstance(loaded, gaifman.Completion)
    assert loaded.probability("q", "b") == found.probability("q", "b")


def test_other_queries_and_other_settings_take_the_network() -> None:
    kb = geography(12)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("exists z. city_in(z, x) & seat(z, y)", {}),
        ("capital(x, y)", {"size": 5}),
        ("capital(x, y)", {"phi": "paper"}),
        ("capital(x, y)", {"base": "mlp"}),
    ]
    for query, settings in cases:
        model = gaifman.fit(kb, query, min_examples=0, **settings)
        assert isinstance(model.predictor, NetworkPredictor)


def test_what_ranked_lists_cannot_do_is_said() -> None:
    kb = geography(12)
    with pytest.raises(FormulaError, match="which ranked lists need"):
        gaifman.fit(kb, "exists z. city_in(z, x) & seat(z, y)", base="listwise")
    with pytest.raises(KnowledgeBaseError, match="ranked lists have no option hidden"):
        gaifman.fit(kb, "capital(x, y)", base="listwise", options={"hidden": [5]})
    model = gaifman.fit(kb, "capital(x, y)")
    with pytest.raises(KnowledgeBaseError, match="no hidden layer"):
        model.embed([("land1", "city1.0")])


def test_a_collection_is_trained_on_all_its_knowledge_bases() -> None:
    model = gaifman.fit([geography(20), geography(12)], "capital(x, y)")
    assert model.with_kb(geography(16)).answers(x="land8", top=1)[0].names == ("city8.0",)


def test_the_settings_say_what_was_chosen() -> None:
    model = train_completion(geography(12), TrainingConfig(), ["capital"])
    assert (model.config.base, model.config.size, model.meta["base"]["kind"]) == ("listwise", None, "listwise")
