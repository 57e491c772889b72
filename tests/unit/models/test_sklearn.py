"""Classifiers of scikit-learn and LightGBM as base models."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.naive_bayes import BernoulliNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from gaifman.errors import InputError, KnowledgeBaseError, OutputError
from gaifman.models import SklearnModel
from gaifman.models.base import Batch, SparseRows
from gaifman.models.calibration import log_odds
from gaifman.models.testing import check_base_model
from model_cases import batch_of, examples, rows_of
from processes import run


def trees() -> LGBMClassifier:
    """LightGBM, small and quiet, on one thread: the tests run side by side."""
    return LGBMClassifier(n_estimators=20, num_leaves=7, verbosity=-1, n_jobs=1)


def trained(estimator: Any, *batches: Batch, seed: int = 0, **options: Any) -> SklearnModel:
    """A trained classifier."""
    model = SklearnModel(estimator, **options)
    model.reset(batches[0].rows.width, seed)
    for batch in batches:
        assert np.isnan(model.fit_batch(batch))
    model.end_epoch()
    return model


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "logistic": LogisticRegression,
    "strong": lambda: LogisticRegression(C=100, solver="liblinear"),
    "sgd": lambda: SGDClassifier(loss="log_loss", max_iter=200),
    "trees": trees,
    "forest": lambda: RandomForestClassifier(20, min_samples_leaf=20),
    "bayes": BernoulliNB,
}


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_estimators_keep_the_rules(name: str) -> None:
    check_base_model(lambda: SklearnModel(ESTIMATORS[name]()))


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_what_it_says_is_what_the_estimator_says(name: str) -> None:
    batch = examples(1)
    model = trained(ESTIMATORS[name](), batch, seed=5)
    plain = ESTIMATORS[name]()
    if "random_state" in plain.get_params():
        plain.set_params(random_state=5)
    plain.fit(batch.rows.to_csr(), batch.targets.astype(int))
    wanted = plain.predict_proba(batch.rows.to_csr())[:, 1]
    np.testing.assert_allclose(model.probabilities(batch.rows), wanted, atol=1e-9)


def test_the_matrix_is_the_rows() -> None:
    table = [[0.0, 2, 0], [0.0, 0, 0], [1.0, 0, 3]]
    np.testing.assert_array_equal(rows_of(table).to_csr().toarray(), table)
    later = SparseRows(rows_of(table).starts[1:], rows_of(table).columns, rows_of(table).values, 3)
    np.testing.assert_array_equal(later.to_csr().toarray(), table[1:])


def test_blocks_are_as_good_as_one() -> None:
    whole = examples(2, 300)
    cuts = [(0, 100), (100, 101), (101, 300)]
    parts = [
        Batch(SparseRows(whole.rows.starts[i : j + 1], whole.rows.columns, whole.rows.values, 6), whole.targets[i:j])
        for i, j in cuts
    ]
    one, other = trained(LogisticRegression(), whole), trained(LogisticRegression(), *parts)
    np.testing.assert_array_equal(one.probabilities(whole.rows), other.probabilities(whole.rows))


@pytest.mark.parametrize("name", ["logistic", "sgd", "trees", "forest", "bayes"])
def test_a_soft_target_is_two_weighted_rows(name: str) -> None:
    batch = examples(3, 200)
    soft = Batch(batch.rows, (0.1 + 0.7 * batch.targets).astype(np.float32))
    found = trained(ESTIMATORS[name](), soft, seed=1).probabilities(batch.rows)
    plain = ESTIMATORS[name]()
    if "random_state" in plain.get_params():
        plain.set_params(random_state=1)
    twice = np.repeat(np.arange(200), 2)
    labels = np.tile([1, 0], 200)
    weights = np.where(labels == 1, soft.targets[twice], 1 - soft.targets[twice])
    plain.fit(batch.rows.to_csr()[twice], labels, sample_weight=weights)
    np.testing.assert_allclose(found, plain.predict_proba(batch.rows.to_csr())[:, 1], atol=1e-7)


def test_hard_and_soft_targets_together() -> None:
    found = trained(LogisticRegression(C=1e6), batch_of([[1, 0], [1, 0], [0, 1], [0, 1]], [1, 0.5, 0, 0.5]))
    p = found.probabilities(rows_of([[1, 0], [0, 1]]))
    np.testing.assert_allclose(p, [0.75, 0.25], atol=0.01)


def test_without_weights_soft_targets_are_refused() -> None:
    batch = batch_of([[1, 0], [0, 1], [1, 1], [0, 0], [1, 0], [0, 1]], [1, 0, 0.5, 0, 1, 0])
    with pytest.raises(
        KnowledgeBaseError, match=r"KNeighborsClassifier takes no sample_weight, but 1 of 6 targets"
    ) as caught:
        trained(KNeighborsClassifier(1), batch)
    assert "sample_weight" in caught.value.hint


def test_an_estimator_without_weights_takes_hard_targets() -> None:
    batch = batch_of([[1, 0], [0, 1]], [1, 0])
    assert trained(KNeighborsClassifier(1), batch).probabilities(batch.rows).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_one_class_gives_a_constant(target: float) -> None:
    model = trained(LogisticRegression(), batch_of([[1, 0], [0, 1]], [target, target]))
    assert model.probabilities(rows_of([[1, 1], [0, 0]])).tolist() == [target, target]
    assert np.isfinite(model.embed(rows_of([[1, 1]]))).all()


def test_no_examples_say_one_half() -> None:
    model = SklearnModel(LogisticRegression())
    model.reset(3, 0)
    model.end_epoch()
    assert model.probabilities(rows_of([[1, 1, 1]])).tolist() == [0.5]


def test_too_many_rows_are_refused_before_they_fill_the_memory() -> None:
    model = SklearnModel(LogisticRegression(), max_rows=3)
    model.reset(1, 0)
    model.fit_batch(batch_of([[1], [0]], [1, 0]))
    with pytest.raises(KnowledgeBaseError, match=r"too many training rows for a classifier: more than 3") as caught:
        model.fit_batch(batch_of([[1]], [0.5]))
    assert "max_rows=" in caught.value.hint


def test_the_given_estimator_is_left_as_it_is() -> None:
    given = LogisticRegression()
    trained(given, examples(4))
    assert not hasattr(given, "coef_")
    assert given.random_state is None


def test_the_seed_reaches_every_step_of_a_pipeline() -> None:
    def forest() -> Any:
        return make_pipeline(MaxAbsScaler(), RandomForestClassifier(5))

    batch = examples(5)
    one, same, other = (trained(forest(), batch, seed=seed).probabilities(batch.rows) for seed in (1, 1, 2))
    assert one.tolist() == same.tolist()
    assert one.tolist() != other.tolist()


def test_an_estimator_of_anyone_will_do() -> None:
    class Mine:
        """Fits nothing but the mean, and has no parameters."""

        def fit(self, inputs: Any, targets: Any) -> None:
            self.classes_, self.mean = [0, 1], float(np.mean(targets))

        def predict_proba(self, inputs: Any) -> Any:
            return np.tile([1 - self.mean, self.mean], (inputs.shape[0], 1))

    batch = batch_of([[1], [0], [1], [0]], [1, 0, 0, 0])
    model = trained(Mine(), batch)
    assert model.probabilities(batch.rows).tolist() == [0.25] * 4
    np.testing.assert_allclose(model.embed(batch.rows)[:, 0], log_odds([0.25] * 4), rtol=1e-6)


@pytest.mark.parametrize("name", ["logistic", "sgd", "trees"])
def test_the_embedding_is_the_log_odds(name: str) -> None:
    batch = examples(6)
    model = trained(ESTIMATORS[name](), batch)
    np.testing.assert_allclose(model.embed(batch.rows)[:, 0], log_odds(model.probabilities(batch.rows)), atol=1e-4)


def test_trees_do_not_depend_on_the_number_of_threads() -> None:
    batch = examples(7, 3_000)
    found = [trained(LGBMClassifier(verbosity=-1, n_jobs=n, n_estimators=2), batch).state()["trees"] for n in (1, 2)]
    texts = [b"".join(line for line in state.tobytes().splitlines(True) if b"threads" not in line) for state in found]
    assert texts[0] == texts[1]


# Files


@pytest.mark.parametrize("name", ["logistic", "sgd"])
def test_linear_models_are_restored_without_scikit_learn(name: str) -> None:
    batch = examples(8)
    model = trained(ESTIMATORS[name](), batch)
    state = {key: (array.tolist(), array.dtype.str) for key, array in model.state().items()}
    rows = [batch.rows.starts.tolist(), batch.rows.columns.tolist(), batch.rows.values.tolist()]
    code = (
        "import sys, json; sys.modules['sklearn'] = sys.modules['scipy'] = None\n"
        "import numpy as np; from gaifman.models import SklearnModel, SparseRows\n"
        "settings, state, rows = json.load(sys.stdin)\n"
        "model = SklearnModel(**settings)\n"
        "model.restore({name: np.array(values, dtype) for name, (values, dtype) in state.items()})\n"
        "starts, columns, values = rows\n"
        "rows = SparseRows(np.array(starts), np.array(columns, np.int32), np.array(values, np.float32), 6)\n"
        "print(json.dumps(model.probabilities(rows).tolist()))"
    )
    given = json.dumps([dict(model.settings()), state, rows])
    done = run([sys.executable, "-c", code], input=given, check=True)
    assert json.loads(done.stdout) == model.probabilities(batch.rows).tolist()


def test_cross_validated_regression_is_linear_too() -> None:
    batch = examples(9)
    estimator = LogisticRegressionCV(Cs=3, cv=3, use_legacy_attributes=False, scoring="neg_log_loss", l1_ratios=(0.0,))
    assert "weights" in trained(estimator, batch).state()


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(3),
        SGDClassifier(loss="modified_huber"),
        BernoulliNB(),
        make_pipeline(MaxAbsScaler(), LogisticRegression()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_other_estimators_are_used_but_not_kept(estimator: Any) -> None:
    batch = examples(10)
    model = trained(estimator, batch)
    assert model.probabilities(batch.rows).shape == (400,)
    for keep in (model.state, model.settings):
        with pytest.raises(OutputError, match="cannot be saved: it needs pickle") as caught:
            keep()
        assert "LogisticRegression" in caught.value.expected


def test_an_estimator_that_only_has_the_name_is_not_kept() -> None:
    class Doubling(LogisticRegression):  # type: ignore[misc]
        """Twice as sure."""

        def predict_proba(self, inputs: Any) -> Any:
            p = super().predict_proba(inputs) ** 2
            return p / p.sum(axis=1, keepdims=True)

    Doubling.__name__, Doubling.__module__ = "LogisticRegression", "sklearn.linear_model"
    with pytest.raises(OutputError, match="cannot be saved"):
        trained(Doubling(), examples(11)).state()


def test_parameters_that_json_changes_are_refused() -> None:
    with pytest.raises(OutputError, match=r"class_weight=.* is not a JSON value"):
        SklearnModel(LogisticRegression(class_weight={0: 1.0, 1: 2.0})).settings()
    with pytest.raises(OutputError, match=r"random_state=.* is not a JSON value"):
        SklearnModel(SGDClassifier(loss="log_loss", random_state=np.random.RandomState(0))).settings()


def test_settings_make_it_anew_to_learn_again() -> None:
    batch = examples(12)
    model = trained(LogisticRegression(C=3), batch, max_rows=1_000)
    again = SklearnModel(**json.loads(json.dumps(dict(model.settings()))))
    again.reset(6, 0)
    again.fit_batch(batch)
    again.end_epoch()
    np.testing.assert_array_equal(again.probabilities(batch.rows), model.probabilities(batch.rows))
    assert again.settings() == model.settings()
    assert model.settings()["max_rows"] == 1_000


def test_a_file_cannot_name_any_class() -> None:
    model = SklearnModel({"name": "Popen", "parameters": {"args": "true"}})
    model.reset(2, 0)
    model.fit_batch(batch_of([[1, 0], [0, 1]], [1, 0]))
    with pytest.raises(InputError, match="unknown estimator Popen"):
        model.end_epoch()


def test_what_was_gathered_is_its_whole_state() -> None:
    batch = examples(13)
    model = SklearnModel(LogisticRegression())
    model.reset(6, 3)
    model.fit_batch(batch)
    with pytest.raises(OutputError, match="is not trained yet"):
        model.state()
    again = SklearnModel(LogisticRegression())
    again.restore(model.state(resumable=True))
    for one in (model, again):
        one.fit_batch(examples(14))
        one.end_epoch()
    np.testing.assert_array_equal(again.probabilities(batch.rows), model.probabilities(batch.rows))


def test_another_state_is_refused() -> None:
    with pytest.raises(InputError, match="not the state of a classifier: kernel"):
        SklearnModel(LogisticRegression()).restore({"kernel": np.zeros(3)})


# Calls out of turn


def test_calls_out_of_turn_say_what_is_missing() -> None:
    model = SklearnModel(LogisticRegression())
    batch = examples(15)
    for call in (lambda: model.fit_batch(batch), model.end_epoch, lambda: model.probabilities(batch.rows), model.state):
        with pytest.raises(KnowledgeBaseError, match="is not initialised"):
            call()
    model.reset(6, 0)
    with pytest.raises(KnowledgeBaseError, match="is not trained yet"):
        model.embed(batch.rows)
    with pytest.raises(KnowledgeBaseError, match="rows of 6 columns, got 2"):
        model.fit_batch(batch_of([[1, 1]], [1]))
    model.fit_batch(batch)
    model.end_epoch()
    with pytest.raises(KnowledgeBaseError, match="is trained in one epoch"):
        model.fit_batch(batch)


@pytest.mark.parametrize(
    ("hidden", "name", "extra"),
    [("sklearn", "LogisticRegression", "sklearn"), ("lightgbm", "LGBMClassifier", "lightgbm")],
)
def test_without_the_library_the_message_says_what_to_install(hidden: str, name: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules[{hidden!r}] = None\n"
        "import numpy as np; from gaifman.models import Batch, SklearnModel, SparseRows\n"
        f"model = SklearnModel({{'name': {name!r}}}); model.reset(1, 0)\n"
        "rows = SparseRows(np.array([0, 1, 1]), np.zeros(1, np.int32), np.ones(1, np.float32), 1)\n"
        "model.fit_batch(Batch(rows, np.array([1, 0], np.float32))); model.end_epoch()"
    )
    done = run([sys.executable, "-c", code])
    assert f"pip install 'gaifman[{extra}]'" in done.stderr
