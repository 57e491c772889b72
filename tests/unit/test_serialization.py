"""Features as texts, scorers as arrays, metadata, and reports on held-out tuples."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman._serialization import (
    base_from_metadata,
    feature_metadata,
    features_from_metadata,
    losses_as_json,
    scorer_arrays,
    scorer_from_arrays,
    untrained_copy,
)
from gaifman.errors import InputError
from gaifman.features.feature_sets import parse_phi
from gaifman.io.model_file import canonical_json, read_model_state, strip_prefix, write_model
from gaifman.logic.ast import Feature, used_symbols
from gaifman.logic.parser import Schema, parse_feature, parse_query
from gaifman.model_card import training_metadata
from gaifman.models import SklearnModel
from gaifman.models.base import BaseModel, SparseRows
from gaifman.models.calibration import CALIBRATION_FOLDS, HeldOut, HeldOutReport, auc, fit_calibration, reliability
from gaifman.models.mlp import MLP, Logistic
from gaifman.models.scaling import FeatureScaler, feature_kinds
from gaifman.training import Scorer, TrainingConfig
from trained import little, towns

TEXTS = ("likes(s1, s2)", "likes(s1, x)", "age(s1)", "∃x likes(s1, x) ∧ likes(x, 'bob')", "∃r r(s1, s2)")


def features() -> tuple[Feature, ...]:
    return parse_phi("\n".join(TEXTS), Schema({"likes": 2}, {"age"}, {"bob"})).features


def scorer(columns: list[int], base: BaseModel | None = None, known: int = -1) -> Scorer:
    """A scorer that uses only some features; the age may have a second column, for whether it is known."""
    own, known_columns = np.array(columns, np.int32), np.array([-1, -1, known, -1, -1], np.int32)
    width = int((own >= 0).sum() + (known_columns >= 0).sum())
    base = base or MLP(hidden=(3,), epochs=1)
    base.reset(width, 7)
    centres, scales = np.arange(width, dtype=np.float32), np.arange(1, width + 1, dtype=np.float32)
    scaler = FeatureScaler(own, known_columns, feature_kinds(features()), centres, scales)
    return Scorer(scaler, base, (0.5, float("nan")))


# Features and scorers


def test_only_features_with_a_column_are_kept() -> None:
    kept, found = scorer([-1, 0, 1, -1, 3], known=2).prune(features())
    assert [str(feature) for feature in kept] == [TEXTS[1], TEXTS[2], TEXTS[4]]
    assert found.scaler.columns.tolist() == [0, 1, 3]
    assert found.scaler.known_columns.tolist() == [-1, 2, -1]
    assert found.scaler.features().tolist() == [0, 1, 1, 2]
    assert found.scaler.kinds.tolist() == feature_kinds(kept).tolist()
    assert found.scaler.centres.tolist() == [0, 1, 2, 3]
    assert found.losses[0] == 0.5


def test_all_features_can_be_pruned() -> None:
    kept, found = scorer([-1] * 5).prune(features())
    assert (kept, found.scaler.width) == ((), 0)


def test_a_scorer_survives_its_arrays() -> None:
    one = scorer([0, -1, 1, 3, -1], known=2)
    arrays = scorer_arrays(one, "3/")
    assert all(name.startswith("3/") for name in arrays)
    again = scorer_from_arrays(strip_prefix(arrays, "3/"), feature_kinds(features()), MLP(hidden=(3,), epochs=1))
    for field in ("columns", "known_columns", "kinds", "centres", "scales"):
        assert np.array_equal(getattr(one.scaler, field), getattr(again.scaler, field))
    rows = SparseRows(np.array([0, 2, 3]), np.array([0, 2, 1], np.int32), np.ones(3, np.float32), 4)
    assert np.array_equal(one.base.probabilities(rows), again.base.probabilities(rows))


def test_arrays_below_a_prefix() -> None:
    one = np.zeros(1)
    assert strip_prefix({"a/b": one, "a/b/c": one, "ab": one, "b/a/b": one}, "a/") == {"b": one, "b/c": one}
    assert strip_prefix({}, "a/") == {}


def test_symbols_of_features_and_query() -> None:
    relations, attributes = used_symbols(features(), parse_query("q(x, y) :- hates(x, y, z), age(z) > 3"))
    assert relations == {"hates": 3, "likes": 2}
    assert attributes == ["age"]
    assert used_symbols((), parse_query("x = y")) == ({}, [])


def test_features_survive_their_texts() -> None:
    meta = feature_metadata(features(), parse_query("likes(x, y)"))
    assert meta["feature_texts"] == list(TEXTS)
    assert features_from_metadata(meta, 2) == features()


def test_attributes_and_types_are_distinguished() -> None:
    """`old(s1)` is a relation, `age(s1)` an attribute: only the schema says which."""
    meta = {"feature_texts": ["old(s1)", "age(s1)"], "relations_used": {"old": 1}, "attributes_used": ["age"]}
    assert feature_kinds(features_from_metadata(meta, 2)).tolist() == [0, 2]


def test_second_order_features_need_no_relation_of_the_file() -> None:
    meta = feature_metadata([parse_feature("exists r. r(s1, s2)")], parse_query("x = y"))
    assert meta["relations_used"] == {}
    assert list(map(str, features_from_metadata(meta, 2))) == ["∃r r(s1, s2)"]


# Metadata


def test_training_metadata_is_json() -> None:
    config = TrainingConfig(radius=2, size=None, negatives=7, options={"epochs": 1}, seed=3)
    found = training_metadata(config, config.make_base_model(), [towns()])
    assert canonical_json(found)
    assert TrainingConfig.from_settings(found["config"]) == config
    assert found["base"]["kind"] == "mlp"
    assert found["base"]["settings"]["epochs"] == 1
    assert found["kb"] == {
        "fingerprint": towns().fingerprint,
        "objects": len(towns().objects),
        "relations": 6,
        "facts": len(towns()),
    }
    assert TrainingConfig.from_settings(found["config"]) == config
    assert len(training_metadata(config, config.make_base_model(), [towns(), towns(9)])["kb"]["collection"]) == 2


def test_metadata_of_a_base_model_that_cannot_be_saved() -> None:
    from sklearn.tree import DecisionTreeClassifier

    found = training_metadata(TrainingConfig(), SklearnModel(DecisionTreeClassifier()), [towns()])
    assert found["base"] == {"kind": "classifier", "settings": {}}


def test_an_untrained_copy_has_the_same_settings() -> None:
    from sklearn.tree import DecisionTreeClassifier

    taught = scorer([0, 1, 2, 3, 4]).base
    fresh = untrained_copy(taught)
    assert fresh is not taught
    assert fresh.settings() == taught.settings()
    assert fresh.state()["weights/1"].shape == (0, 3)
    other = SklearnModel(DecisionTreeClassifier(max_depth=3))
    assert untrained_copy(other) is not other


def test_unknown_losses_are_none() -> None:
    assert losses_as_json(scorer([-1] * 5)) == [0.5, None]


def test_base_models_of_a_file() -> None:
    meta = {"base": {"kind": "logistic", "settings": {"epochs": 4}}}
    assert base_from_metadata(meta, None).settings()["epochs"] == 4
    given = Logistic()
    assert base_from_metadata(meta, given) is given
    with pytest.raises(InputError, match="of kind logistic, not mlp"):
        base_from_metadata(meta, MLP())
    with pytest.raises(InputError, match="needs a base model of kind classifier"):
        base_from_metadata({"base": {"kind": "classifier", "settings": {}}}, None)


def test_only_models_and_completions_are_opened(tmp_path: Path) -> None:
    path = tmp_path / "m.gaifman"
    for kind in ("model", "completion"):
        write_model(path, {}, {"kind": kind})
        assert read_model_state(path) == ({}, {"kind": kind})
    for meta in ({"kind": "run"}, {}):
        write_model(path, {}, meta)
        with pytest.raises(InputError, match="is not a model"):
            read_model_state(path)


# Reports on held-out tuples

scored = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), max_size=12
)


@given(scored)
def test_the_auc_is_the_probability_that_an_answer_scores_above_a_negative(rows: list[tuple[float, float]]) -> None:
    answers, others = [s for s, t in rows if t > 0], [s for s, t in rows if t == 0]
    found = auc(np.array([s for s, _ in rows]), np.array([t for _, t in rows]))
    if not answers or not others:
        assert found is None
        return
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in product(answers, others)]
    assert found == pytest.approx(sum(wins) / len(wins))


def held(count: int, seed: int = 0) -> HeldOut:
    rng = np.random.default_rng(seed)
    means = rng.random(count)
    return HeldOut(means, (rng.random(count) < means**2).astype(np.float64))


@pytest.mark.parametrize("count", [1, 4, 50, 400])
def test_calibration_is_cross_validated(count: int) -> None:
    given = held(count)
    trust = HeldOutReport.from_held_out(given, ratio=2.0)
    values = np.empty(count)
    for row in range(count):
        others = [i for i in range(count) if i % CALIBRATION_FOLDS != row % CALIBRATION_FOLDS]
        fitted = fit_calibration(given.means[others], given.targets[others], ratio=2.0)
        values[row] = fitted.apply(given.means[row])
    expected = reliability(values, given.targets)
    assert trust.calibrated is not None
    assert trust.calibrated.brier == pytest.approx(expected.brier)
    assert trust.calibrated.ece == pytest.approx(expected.ece)
    assert trust.uncalibrated is not None
    assert trust.uncalibrated.brier == pytest.approx(float(((given.means - given.targets) ** 2).mean()))


def test_calibration_does_not_fit_noise() -> None:
    """A calibration that is measured on the tuples it was fitted to would look better than chance."""
    rng = np.random.default_rng(1)
    losses = []
    for _ in range(20):
        given = HeldOut(rng.random(60), rng.integers(0, 2, 60).astype(np.float64))
        trust = HeldOutReport.from_held_out(given, 1.0)
        assert trust.calibrated is not None
        losses.append(trust.calibrated.brier)
    assert np.mean(losses) > 0.25


def test_the_metrics_of_a_model() -> None:
    found = HeldOutReport.from_held_out(held(400), 1.0).metrics(4_000)
    assert found["held_out"] == 400
    assert set(found) == {"held_out", "prior", "ece_before", "ece_after", "brier", "loss", "auc"}
    assert found["ece_after"] < found["ece_before"]
    assert canonical_json(found)
    assert HeldOutReport.from_held_out(HeldOut(np.ones(3) / 2, np.ones(3)), 1.0).metrics(9)["auc"] is None


def test_the_table_of_a_model_has_every_tuple_once() -> None:
    table = HeldOutReport.from_held_out(held(400), 1.0).reliability_table()
    assert sum(row["count"] for row in table) == 400
    assert all(0 <= row["observed"] <= 1 for row in table)
    assert canonical_json(table)


def test_without_held_out_tuples_there_are_no_metrics() -> None:
    trust = HeldOutReport.from_held_out(HeldOut(np.zeros(0), np.zeros(0)), 5.0)
    assert (trust.uncalibrated, trust.calibrated, trust.reliability_table()) == (None, None, [])
    reason = {"auc_reason": "a single answer: none can be held out"}
    assert trust.metrics(1) == {
        **dict.fromkeys(("prior", "ece_before", "ece_after", "brier", "loss", "auc")),
        "held_out": 0,
        **reason,
    }


def test_the_report_is_in_the_metadata() -> None:
    trust = little().held_out_report
    assert trust is not None
    assert trust.metrics(40).items() <= little().meta["metrics"].items()
    assert little().meta["calibration"] == trust.reliability_table()
    assert len(trust.held_out.means) == little().meta["metrics"]["held_out"] == 8
