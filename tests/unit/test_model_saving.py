"""Models in files, and on other knowledge bases than the one they were trained on."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.errors import GaifmanError, InputError, KnowledgeBaseError
from gaifman.features.feature_sets import FeatureSet
from gaifman.io.model_file import write_model
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.model import GaifmanModel
from gaifman.models.mlp import Logistic
from trained import FEW, demo, little, neighbour, same, towns, worker

PAIRS = [("p00", "t0"), ("p01", "t1"), ("p01", "t2"), ("p39", "t0"), ("t0", "p01")]


def loaded(path: Path, kb: KnowledgeBase | None = None) -> GaifmanModel:
    found = gaifman.load(path, kb)
    assert isinstance(found, GaifmanModel)
    return found


def saved(model: GaifmanModel, folder: Path, name: str = "a.gaifman") -> bytes:
    model.save(folder / name)
    return (folder / name).read_bytes()


# Save and load


def test_a_loaded_model_predicts_the_same_bits(tmp_path: Path) -> None:
    data = saved(worker(), tmp_path)
    found = loaded(tmp_path / "a.gaifman", towns())
    assert same(found.probabilities(PAIRS, max_error=0.01), worker().probabilities(PAIRS, max_error=0.01))
    assert np.array_equal(found.embed(PAIRS), worker().embed(PAIRS))
    assert found.meta == worker().meta
    assert repr(found) == repr(worker())
    assert saved(found, tmp_path, "b.gaifman") == data, "what was loaded is saved as it was"


def test_a_fitted_calibration_is_saved(tmp_path: Path) -> None:
    saved(neighbour(), tmp_path)
    found = loaded(tmp_path / "a.gaifman", demo())
    assert found.calibration.fitted
    pairs = [("france", "spain"), ("france", "portugal")]
    assert same(found.probabilities(pairs, prior=0.1), neighbour().probabilities(pairs, prior=0.1))


@pytest.mark.parametrize(
    "query",
    [
        "person(x)",
        "moved(x, y, z)",
        "q(b, a) :- works_in(a, b), person(a)",
        "lives_in(x, y) & ~works_in(x, y)",
        "forall y. works_in(x, y) -> lives_in(x, y)",
        "age(x) > 30 & exists y. works_in(x, y)",
        "works_in(x, 't1')",
    ],
)
@pytest.mark.parametrize("settings", [FEW, {"min_examples": 0}], ids=["network", "default"])
def test_any_query_survives_a_file(query: str, settings: dict[str, Any], tmp_path: Path) -> None:
    model = gaifman.fit(towns(), query, **settings)
    saved(model, tmp_path)
    found = loaded(tmp_path / "a.gaifman", towns())
    assert found.query == model.query
    assert found.features == model.features
    names = [("p03", "t1", "t3"), ("t1", "p04", "p04")]
    tuples = [row[: len(model.query.variables)] for row in names]
    assert same(found.probabilities(tuples), model.probabilities(tuples))


@pytest.mark.parametrize("settings", [{**FEW, "min_feature_count": 1}, {}], ids=["network", "default"])
def test_hostile_names_survive_a_file(settings: dict[str, Any], tmp_path: Path) -> None:
    """Relations named like keywords, like variables of features, or with quotes."""
    names = ("r", "x", "s1", "exists", "it's", 'say "hi"', "a b")
    facts = [(names[(i + j) % 7], f"o{i}", f"o{(i + j) % 9}") for i in range(9) for j in (1, 3, 4)]
    kb = KnowledgeBase.from_facts(facts, {("an age", f"o{i}"): i for i in range(9)})
    model = gaifman.fit(kb, "'it\\'s'(x, y)", **settings)
    saved(model, tmp_path)
    found = loaded(tmp_path / "a.gaifman", kb)
    assert found.features == model.features
    pairs = [("o0", "o1"), ("o3", "o8")]
    assert same(found.probabilities(pairs), model.probabilities(pairs))


def test_a_second_order_feature_survives_a_file(tmp_path: Path) -> None:
    """No single relation is frequent enough: only `∃r r(s1, s2)` has a column."""
    facts: list[tuple[str, ...]] = [(f"r{i}", f"a{i}", f"b{i}") for i in range(8)]
    facts += [("good", f"{letter}{i}") for i in range(8) for letter in "ab"]
    phi = gaifman.parse_feature("exists r. r(s1, s2)")
    kb = KnowledgeBase.from_facts(facts)
    model = gaifman.fit(kb, "good(x) & good(y)", phi=FeatureSet((phi,)), **{**FEW, "negatives": 0})
    assert len(model.features) == 1
    saved(model, tmp_path)
    found = loaded(tmp_path / "a.gaifman", kb)
    assert same(found.probabilities([("a1", "b1"), ("a1", "b2")]), model.probabilities([("a1", "b1"), ("a1", "b2")]))


def test_a_model_without_a_knowledge_base_raises(tmp_path: Path) -> None:
    saved(little(), tmp_path)
    found = loaded(tmp_path / "a.gaifman")
    with pytest.raises(KnowledgeBaseError, match="no knowledge base to answer from") as caught:
        found.probability("p00", "t0")
    assert "with_kb(kb)" in caught.value.hint
    assert same(found.with_kb(towns()).probabilities(PAIRS), little().probabilities(PAIRS))


def test_the_same_bytes_for_any_threads_and_order(tmp_path: Path) -> None:
    kb = towns(sure=False)
    facts, values = list(kb.facts()), {(name, obj): value for name, obj, value in kb.values()}
    random.Random(3).shuffle(facts)
    shuffled = KnowledgeBase.from_facts(facts, dict(reversed(values.items())))
    query = "exists z. works_in(x, z) & town_of(z, y)"
    found = {
        saved(gaifman.fit(given, query, threads=threads, **FEW), tmp_path)
        for given in (kb, shuffled)
        for threads in (1, 2, None)
    }
    assert len(found) == 1
    assert saved(gaifman.fit(kb, query, seed=1, **FEW), tmp_path) not in found


def test_one_changed_byte_is_refused(tmp_path: Path) -> None:
    """Some bytes; test_model_file.py tries all."""
    data, path = saved(little(), tmp_path), tmp_path / "bad.gaifman"
    rng = random.Random(0)
    for at in [*range(9), *rng.sample(range(len(data)), 80), len(data) - 1]:
        wrong = bytearray(data)
        wrong[at] ^= rng.randrange(1, 256)
        path.write_bytes(wrong)
        with pytest.raises(GaifmanError):
            gaifman.load(path)


def test_a_truncated_or_longer_file_is_refused(tmp_path: Path) -> None:
    data, path = saved(little(), tmp_path), tmp_path / "bad.gaifman"
    rng = random.Random(1)
    for length in [0, 1, 7, 8, 9, *rng.sample(range(len(data)), 30), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(GaifmanError):
            gaifman.load(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(InputError, match="bytes too many"):
        gaifman.load(path)


def test_files_of_other_things_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.gaifman"
    with pytest.raises(InputError, match="there is no file"):
        gaifman.load(path)
    path.write_text("ann\tparent\tbob\n")
    with pytest.raises(InputError, match="not a model file"):
        gaifman.load(path)
    write_model(path, {}, {"kind": "task"})
    with pytest.raises(InputError, match="is not a model or a completion, but 'task'"):
        gaifman.load(path)
    for kind in ("model", "completion"):
        write_model(path, {}, {"kind": kind})
        with pytest.raises(InputError, match=f"is not a valid {kind}"):
            gaifman.load(path)


def test_a_base_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    saved(little(), tmp_path)
    with pytest.raises(InputError, match="of kind mlp, not logistic"):
        gaifman.load(tmp_path / "a.gaifman", base=Logistic())


# Other knowledge bases


def test_it_predicts_for_new_objects() -> None:
    other = worker().with_kb(towns(30, "new "))
    values = other.probabilities([("new p03", "new t3"), ("new p03", "new t1"), ("new p04", "new t4")]).values
    assert values[0] > 0.5 > values[1]
    assert values[2] > 0.5
    assert values[0] == pytest.approx(worker().probability("p03", "t3").value, abs=0.2)


def test_other_relations_are_ignored() -> None:
    """Also relations named like variables of its features."""
    more = [(name, "p00", "t3") for name in ("r", "x", "s1", "q")] + [("r1", "p00"), ("r2", "p00", "t1", "t2", "t3")]
    found = little().with_kb(towns().with_facts(more)).probabilities(PAIRS)
    assert ((found.values > 0) & (found.values < 1)).all()
    isolated = towns().with_facts([("r", "far away", "farther")])
    alone = little().with_kb(isolated).probabilities(PAIRS)
    assert alone.values.shape == (5,)


def test_missing_relations_have_no_facts() -> None:
    kb = towns()
    fewer = KnowledgeBase.from_facts(
        [fact for fact in kb.facts() if fact.relation not in ("lives_in", "works_in")],
        {(name, obj): value for name, obj, value in kb.values()},
        kb.objects,
    )
    emptied = kb.without_facts([*kb.facts("lives_in"), *kb.facts("works_in")])
    assert "lives_in" not in fewer.relations
    assert emptied.relations["lives_in"].count == 0
    assert same(worker().with_kb(fewer).probabilities(PAIRS), worker().with_kb(emptied).probabilities(PAIRS))
    without_numbers = KnowledgeBase.from_facts(kb.facts())
    assert len(worker().with_kb(without_numbers).probabilities(PAIRS)) == 5


def test_a_knowledge_base_without_any_of_its_relations_is_refused() -> None:
    other = KnowledgeBase.from_facts([("works_on", "ann", "mars")])
    with pytest.raises(KnowledgeBaseError, match=r"none of the .* relations of the model"):
        worker().with_kb(other).probability("ann", "mars")


def test_a_relation_of_another_arity_is_refused() -> None:
    other = KnowledgeBase.from_facts([("works_in", "ann", "mars", "today"), ("lives_in", "ann", "mars")])
    with pytest.raises(KnowledgeBaseError, match="works_in has 3 arguments in the knowledge base and 2 in the model"):
        worker().with_kb(other).probability("ann", "mars")


def test_a_constant_of_the_query_can_be_missing() -> None:
    model = gaifman.fit(towns(), "works_in(x, 't1')", **FEW)
    other = model.with_kb(towns(20, "new "))
    assert 0 < other.probability("new p01").value < 1


def test_confidences_may_differ() -> None:
    """A model answers from a knowledge base whose facts are uncertain, and from one whose confidences are all 1."""
    doubtful = KnowledgeBase.from_facts(
        [Fact(fact.relation, fact.objects, 0.5) for fact in towns().facts()],
        {(name, obj): value for name, obj, value in towns().values()},
    )
    assert not same(worker().with_kb(doubtful).probabilities(PAIRS), worker().probabilities(PAIRS))
    certain = KnowledgeBase.from_facts(
        [Fact(fact.relation, fact.objects, 1.0) for fact in towns().facts()],
        {(name, obj): value for name, obj, value in towns().values()},
    )
    assert same(worker().with_kb(certain).probabilities(PAIRS), worker().probabilities(PAIRS))
