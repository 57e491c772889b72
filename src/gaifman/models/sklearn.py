"""Classifiers with scikit-learn's interface as base models."""

from __future__ import annotations

import copy
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.errors import InputError, KnowledgeBaseError, OutputError, shorten
from gaifman.features.evaluator import Reals
from gaifman.io.model_file import require_array
from gaifman.kb.tables import Floats
from gaifman.models.base import BaseModel, Batch, SparseRows, State, import_extra
from gaifman.models.calibration import log_odds, logistic

MAX_ROWS = 2_000_000
"""Default maximum number of training rows: the classifier needs them all in memory."""

SAVABLE_ESTIMATORS = {
    "LogisticRegression": ("sklearn.linear_model", "sklearn"),
    "LogisticRegressionCV": ("sklearn.linear_model", "sklearn"),
    "SGDClassifier": ("sklearn.linear_model", "sklearn"),
    "LGBMClassifier": ("lightgbm", "lightgbm"),
}
"""Estimators that model files can hold: their module, and the extra to install."""


class _Fitted(ABC):
    """Fitted parameters. They score rows in the same way before saving and after loading."""

    @abstractmethod
    def scores(self, rows: SparseRows) -> Floats:
        """Return the log-odds of each row."""

    def probabilities(self, rows: SparseRows) -> Floats:
        """Return the probability of each row."""
        return logistic(self.scores(rows))

    @abstractmethod
    def state(self) -> State:
        """Return the parameters as arrays."""


@dataclass(frozen=True, slots=True)
class _FittedConstant(_Fitted):
    """One probability for every row: all examples had one class, or the rows have no columns."""

    probability: float

    def scores(self, rows: SparseRows) -> Floats:
        return np.full(len(rows), float(log_odds(self.probability)))

    def probabilities(self, rows: SparseRows) -> Floats:
        return np.full(len(rows), self.probability)

    def state(self) -> State:
        return {"constant": np.array([self.probability])}


@dataclass(frozen=True, slots=True)
class _FittedLinear(_Fitted):
    """Logistic regression."""

    weights: Floats
    """Shape (width,), float64."""
    offset: float

    def scores(self, rows: SparseRows) -> Floats:
        # Summed in the order of a row's entries, so that other rows cannot change the last bits.
        rows = rows.slice()
        products = self.weights[rows.columns] * rows.values
        return np.bincount(rows.entry_rows(), products, len(rows)).astype(np.float64) + self.offset

    def state(self) -> State:
        return {"weights": self.weights, "offset": np.array([self.offset])}


class _FittedTrees(_Fitted):
    """LightGBM's trees, always read from the text that model files hold."""

    def __init__(self, text: str, width: int | None = None) -> None:
        lightgbm = import_extra("lightgbm", "lightgbm")
        self._text, self._booster = text, lightgbm.Booster(model_str=text)
        if width is not None and self._booster.num_feature() != width:
            raise lightgbm.basic.LightGBMError(f"the trees have {self._booster.num_feature():,} columns")

    def scores(self, rows: SparseRows) -> Floats:
        return np.asarray(self._booster.predict(rows.to_csr(), raw_score=True), np.float64)

    def probabilities(self, rows: SparseRows) -> Floats:
        return np.asarray(self._booster.predict(rows.to_csr()), np.float64)

    def state(self) -> State:
        return {"trees": np.frombuffer(self._text.encode(), np.uint8)}


@dataclass(frozen=True, slots=True)
class _FittedOther(_Fitted):
    """Any estimator with `predict_proba`."""

    estimator: Any

    def scores(self, rows: SparseRows) -> Floats:
        if hasattr(self.estimator, "decision_function"):
            found = np.asarray(self.estimator.decision_function(rows.to_csr()), np.float64)
            if found.shape == (len(rows),):
                return found
        return log_odds(self.probabilities(rows))

    def probabilities(self, rows: SparseRows) -> Floats:
        return _positive_probability(self.estimator, rows.to_csr())

    def state(self) -> State:
        raise _not_savable(self.estimator)


class SklearnModel(BaseModel):
    """A classifier with `fit(X, y)` and `predict_proba(X)` that takes sparse X.

    It collects the examples of one epoch, then fits. A target t between 0 and 1 becomes two rows with weights t and
    1 − t. Logistic regression (also by SGD) and LightGBM can be saved; other estimators cannot.
    """

    kind = "classifier"
    epochs = 1

    def __init__(self, estimator: Any, max_rows: int = MAX_ROWS) -> None:
        """Create an untrained model.

        `estimator` is an estimator or its entry in `settings`, `max_rows` the maximum number of training rows.
        """
        self._estimator = estimator
        self._max_rows = max_rows
        self._width = -1
        self._seed = 0
        self._blocks: list[Batch] = []
        self._count = 0
        self._fitted: _Fitted | None = None

    def reset(self, width: int, seed: int) -> None:
        self._width, self._seed = width, seed
        self._blocks, self._count, self._fitted = [], 0, None

    def fit_batch(self, batch: Batch) -> float:
        """Collect the examples. Their cross-entropy is not known yet: return NaN."""
        self._check_width(batch.rows)
        if self._fitted is not None:
            raise KnowledgeBaseError(
                "a classifier is trained in one epoch, which has ended", hint="call reset() to train again"
            )
        self._blocks.append(batch)
        self._count += _count_expanded(batch.targets)
        if self._count > self._max_rows:
            raise KnowledgeBaseError(
                f"too many training rows for a classifier: more than {self._max_rows:,}",
                hint="lower positives or negatives, take the mlp, or pass SklearnModel(…, max_rows=…)",
            )
        return float("nan")

    def end_epoch(self) -> None:
        """Fit the estimator to the collected examples."""
        self._check_width(None)
        rows, targets = _concatenate(self._blocks, self._width)
        if not self._width or not (targets > 0).any() or not (targets < 1).any():
            self._fitted = _FittedConstant(float(targets.mean(dtype=np.float64)) if len(targets) else 0.5)
        else:
            self._fitted = _fit_estimator(self._new_estimator(), rows, targets)
        self._blocks = []

    def probabilities(self, rows: SparseRows) -> Floats:
        fitted = self._require_fitted(rows)
        return np.clip(fitted.probabilities(rows), 0, 1) if len(rows) else np.zeros(0)

    def embed(self, rows: SparseRows) -> Reals:
        """Return shape (rows, 1): the log-odds, or the estimator's decision function."""
        fitted = self._require_fitted(rows)
        return (fitted.scores(rows) if len(rows) else np.zeros(0)).astype(np.float32)[:, None]

    def settings(self) -> Mapping[str, Any]:
        estimator = self._estimator
        if not isinstance(estimator, Mapping):
            if not _is_savable(estimator):
                raise _not_savable(estimator)
            estimator = {"name": type(estimator).__name__, "parameters": _json_parameters(estimator)}
        return {"estimator": dict(estimator), "max_rows": self._max_rows}

    def state(self, *, resumable: bool = False) -> State:
        """Return the fitted parameters or, before fitting and if `resumable`, the collected examples."""
        common: State = {"width": np.array([self._width]), "seed": np.array([self._seed], np.uint64)}
        if self._fitted is not None:
            return common | self._fitted.state()
        self._check_width(None)
        if not resumable:
            raise OutputError("the classifier is not trained yet", hint="state(resumable=True)")
        rows, targets = _concatenate(self._blocks, self._width)
        return common | {"starts": rows.starts, "columns": rows.columns, "values": rows.values, "targets": targets}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        if "width" not in state or "seed" not in state:
            raise InputError(f"not the state of a classifier: {', '.join(sorted(state)) or 'no arrays'}")
        width = int(require_array(state, "width", np.int64, (1,))[0])
        self.reset(width, int(require_array(state, "seed", np.uint64, (1,))[0]))
        if "constant" in state:
            self._fitted = _FittedConstant(float(require_array(state, "constant", np.float64, (1,))[0]))
        elif "weights" in state:
            weights = require_array(state, "weights", np.float64, (width,)).copy()
            self._fitted = _FittedLinear(weights, float(require_array(state, "offset", np.float64, (1,))[0]))
        elif "trees" in state:
            self._fitted = _trees_from_text(require_array(state, "trees", np.uint8, (None,)).tobytes(), width)
        else:
            rows = _rows_from_state(state, width)
            self.fit_batch(Batch(rows, require_array(state, "targets", np.float32, (len(rows),)).copy()))

    def _new_estimator(self) -> Any:
        """Return an untrained estimator with our seed."""
        fresh = (
            _make_estimator(self._estimator)
            if isinstance(self._estimator, Mapping)
            else _clone_estimator(self._estimator)
        )
        if hasattr(fresh, "get_params"):
            known = fresh.get_params(deep=True)
            # Seeds of scikit-learn and LightGBM have 31 bits.
            chosen = {n: self._seed % (1 << 31) for n in known if n == "random_state" or n.endswith("__random_state")}
            if type(fresh).__name__ == "LGBMClassifier":  # without these the trees depend on the number of threads
                chosen |= {n: True for n in ("deterministic", "force_row_wise") if n not in known}
            fresh.set_params(**chosen)
        return fresh

    def _require_fitted(self, rows: SparseRows) -> _Fitted:
        self._check_width(rows)
        if self._fitted is None:
            raise KnowledgeBaseError("the classifier is not trained yet", hint="end_epoch() fits it")
        return self._fitted

    def _check_width(self, rows: SparseRows | None) -> None:
        if self._width < 0:
            raise KnowledgeBaseError("the classifier is not initialised", hint="call reset(width, seed) first")
        if rows is not None and rows.width != self._width:
            raise KnowledgeBaseError(f"the classifier takes rows of {self._width:,} columns, got {rows.width:,}")


def _trees_from_text(text: bytes, width: int) -> _FittedTrees:
    """Return the trees of a model file; refuse text that LightGBM does not read."""
    error = import_extra("lightgbm", "lightgbm").basic.LightGBMError
    try:
        return _FittedTrees(text.decode(), width)
    except (error, UnicodeDecodeError) as cause:
        raise InputError(f"not the trees of a classifier of {width:,} columns: {shorten(str(cause), 100)}") from None


def _rows_from_state(state: Mapping[str, npt.NDArray[Any]], width: int) -> SparseRows:
    """Return the collected examples of a checkpoint."""
    starts = require_array(state, "starts", np.int64, (None,))
    columns = require_array(state, "columns", np.int32, (None,))
    values = require_array(state, "values", np.float32, (len(columns),))
    good = len(starts) and starts[0] == 0 and starts[-1] == len(columns) and (np.diff(starts) >= 0).all()
    if not good or ((columns < 0) | (columns >= width)).any():
        raise InputError(f"not the rows of a classifier of {width:,} columns")
    return SparseRows(starts.copy(), columns.copy(), values.copy(), width)


def _fit_estimator(estimator: Any, rows: SparseRows, targets: Reals) -> _Fitted:
    """Fit the estimator and extract its parameters where possible."""
    inputs = rows.to_csr()
    soft = (targets > 0) & (targets < 1)
    if not soft.any():
        estimator.fit(inputs, targets.astype(np.int64))
    elif "sample_weight" not in inspect.signature(estimator.fit).parameters:
        raise KnowledgeBaseError(
            f"{type(estimator).__name__} takes no sample_weight, but {int(soft.sum()):,} of {len(targets):,} targets "
            "are uncertain",
            hint="remove the uncertain facts, or take an estimator whose fit has sample_weight",
        )
    else:
        twice = np.repeat(np.arange(len(targets)), 1 + soft)
        second = np.diff(twice, prepend=-1) == 0
        labels = np.where(soft[twice], ~second, targets[twice] > 0).astype(np.int64)
        weights = np.where(labels == 1, targets[twice], 1 - targets[twice]).astype(np.float64)
        estimator.fit(inputs[twice], labels, sample_weight=weights)
    if hasattr(estimator, "booster_"):
        return _FittedTrees(estimator.booster_.model_to_string())
    return _fitted_linear(estimator, rows) or _FittedOther(estimator)


def _fitted_linear(estimator: Any, rows: SparseRows) -> _FittedLinear | None:
    """Return the weights if the estimator is a logistic regression with logistic probabilities."""
    if not _is_savable(estimator) or not hasattr(estimator, "coef_"):
        return None
    found = _FittedLinear(np.array(estimator.coef_[0], np.float64), float(np.ravel(estimator.intercept_)[0]))
    few = rows.slice(0, min(len(rows), 100))
    same = np.allclose(found.probabilities(few), _positive_probability(estimator, few.to_csr()), atol=1e-6)
    return found if same and list(estimator.classes_) == [0, 1] else None


def _positive_probability(estimator: Any, inputs: Any) -> Floats:
    """Return the probability of class 1."""
    return np.asarray(estimator.predict_proba(inputs)[:, list(estimator.classes_).index(1)], np.float64)


def _concatenate(blocks: list[Batch], width: int) -> tuple[SparseRows, Reals]:
    targets = [np.zeros(0, np.float32), *(block.targets for block in blocks)]
    return SparseRows.concatenate([block.rows for block in blocks], width), np.concatenate(targets)


def _count_expanded(targets: Reals) -> int:
    """Return the number of training rows: two for an uncertain target."""
    return len(targets) + int(((targets > 0) & (targets < 1)).sum())


def _is_savable(estimator: Any) -> bool:
    """Return whether the estimator's parameters can be saved as arrays."""
    home = SAVABLE_ESTIMATORS.get(type(estimator).__name__, ("", ""))[0]
    return (
        bool(home)
        and type(estimator).__module__.startswith(home)
        and getattr(estimator, "loss", "log_loss") == "log_loss"  # SGDClassifier's
    )


def _not_savable(estimator: Any) -> OutputError:
    return OutputError(
        f"{type(estimator).__name__} cannot be saved: it needs pickle, which runs code on loading",
        expected=("LogisticRegression", "LogisticRegressionCV", "SGDClassifier(loss='log_loss')", "LGBMClassifier"),
        hint="use the model without saving it, or take one of these",
    )


def _json_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters; refuse those that JSON does not preserve."""
    parameters = estimator.get_params(deep=False)
    for name, value in parameters.items():
        try:
            same = json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            same = False
        if not same:
            raise OutputError(
                f"{type(estimator).__name__} cannot be saved: {name}={value!r} is not a JSON value",
                hint="use a number, a string or a list",
            )
    return dict(parameters)


def _make_estimator(settings: Mapping[str, Any]) -> Any:
    """Create the estimator of `settings`: a known one only, because a model file may come from anyone."""
    name = str(settings.get("name"))
    if name not in SAVABLE_ESTIMATORS:
        raise InputError(f"unknown estimator {name}", expected=tuple(SAVABLE_ESTIMATORS))
    return getattr(import_extra(*SAVABLE_ESTIMATORS[name]), name)(**settings.get("parameters", {}))


def _clone_estimator(estimator: Any) -> Any:
    """Return an untrained copy."""
    if hasattr(estimator, "get_params"):
        return import_extra("sklearn.base", "sklearn").clone(estimator)
    return copy.deepcopy(estimator)
