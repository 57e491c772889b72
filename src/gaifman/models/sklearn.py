"""Any classifier in the manner of scikit-learn as a base model."""

from __future__ import annotations

import copy
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.errors import InputError, KnowledgeBaseError, OutputError
from gaifman.kb.tables import Floats
from gaifman.models.calibration import log_odds, logistic
from gaifman.models.mlp import BaseModel, Batch, Reals, SparseRows, State

MAX_ROWS = 2_000_000
"""Rows that are gathered at most: such a classifier wants them all in memory at once."""

SAVABLE_ESTIMATORS = {
    "LogisticRegression": ("sklearn.linear_model", "sklearn"),
    "LogisticRegressionCV": ("sklearn.linear_model", "sklearn"),
    "SGDClassifier": ("sklearn.linear_model", "sklearn"),
    "LGBMClassifier": ("lightgbm", "lightgbm"),
}
"""The estimators that files can hold: their module, and the extra of gaifman it comes with."""


class _Fitted(ABC):
    """What was learnt, in the form in which rows are scored: the same before a file and after it."""

    @abstractmethod
    def scores(self, rows: SparseRows) -> Floats:
        """Log-odds of each row."""

    def probabilities(self, rows: SparseRows) -> Floats:
        """Of each row."""
        return logistic(self.scores(rows))

    @abstractmethod
    def state(self) -> State:
        """As arrays."""


@dataclass(frozen=True, slots=True)
class _FittedConstant(_Fitted):
    """The same for every row: where all examples were of one class, or rows have no columns."""

    probability: float

    def scores(self, rows: SparseRows) -> Floats:
        return np.full(len(rows), float(log_odds(self.probability)))

    def probabilities(self, rows: SparseRows) -> Floats:
        return np.full(len(rows), self.probability)

    def state(self) -> State:
        return {"constant": np.array([self.probability])}


@dataclass(frozen=True, slots=True)
class _FittedLinear(_Fitted):
    """The logistic function of a weighted sum."""

    weights: Floats
    """Shape (width,), float64."""
    offset: float

    def scores(self, rows: SparseRows) -> Floats:
        # Summed in the order of a row's entries, so that other rows cannot change a bit of it.
        at = np.repeat(np.arange(len(rows)), np.diff(rows.starts))
        entries = slice(int(rows.starts[0]), int(rows.starts[-1]))
        products = self.weights[rows.columns[entries]] * rows.values[entries]
        return np.bincount(at, products, len(rows)).astype(np.float64) + self.offset

    def state(self) -> State:
        return {"weights": self.weights, "offset": np.array([self.offset])}


class _FittedTrees(_Fitted):
    """LightGBM's trees, read from the text that files hold: so they are the same in memory as from a file."""

    def __init__(self, text: str) -> None:
        self._text, self._booster = text, _import_extra("lightgbm", "lightgbm").Booster(model_str=text)

    def scores(self, rows: SparseRows) -> Floats:
        return np.asarray(self._booster.predict(to_csr(rows), raw_score=True), np.float64)

    def probabilities(self, rows: SparseRows) -> Floats:
        return np.asarray(self._booster.predict(to_csr(rows)), np.float64)

    def state(self) -> State:
        return {"trees": np.frombuffer(self._text.encode(), np.uint8)}


@dataclass(frozen=True, slots=True)
class _FittedOther(_Fitted):
    """An estimator of which nothing is known but `predict_proba`."""

    estimator: Any

    def scores(self, rows: SparseRows) -> Floats:
        if hasattr(self.estimator, "decision_function"):
            found = np.asarray(self.estimator.decision_function(to_csr(rows)), np.float64)
            if found.shape == (len(rows),):
                return found
        return log_odds(self.probabilities(rows))

    def probabilities(self, rows: SparseRows) -> Floats:
        return _positive_probability(self.estimator, to_csr(rows))

    def state(self) -> State:
        raise _not_savable(self.estimator)


class SklearnModel(BaseModel):
    """Any classifier with `fit(X, y)` and `predict_proba(X)` that takes sparse X.

    It gathers all examples of one pass, then fits. A target t between 0 and 1 becomes two rows of weights t and 1 − t.
    Logistic regression (also by SGD) and LightGBM can be kept in files; others can be used, but not kept.
    """

    kind = "classifier"
    epochs = 1

    def __init__(self, estimator: Any, max_rows: int = MAX_ROWS) -> None:
        """`estimator` as made by its library, or what `settings` gave for it."""
        self._given = estimator
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
        """Keep the examples until the pass is done; their cross-entropy is not known before."""
        self._check_width(batch.rows)
        if self._fitted is not None:
            raise KnowledgeBaseError(
                "a classifier learns in one pass, which is done", hint="call begin() to learn anew"
            )
        self._blocks.append(batch)
        self._count += _count_expanded(batch.targets)
        if self._count > self._max_rows:
            raise KnowledgeBaseError(
                f"{self._count:,} examples and more are too many to be fitted at once: the limit is {self._max_rows:,}",
                hint="draw fewer neighbourhoods or corruptions, learn with the network, or write Classifier(…, most=…)",
            )
        return float("nan")

    def end_epoch(self) -> None:
        """Fit what was gathered."""
        self._check_width(None)
        rows, targets = _concatenate(self._blocks, self._width)
        if not self._width or not (targets > 0).any() or not (targets < 1).any():
            self._fitted = _FittedConstant(float(targets.mean(dtype=np.float64)) if len(targets) else 0.5)
        else:
            self._fitted = _fit_estimator(self._new_estimator(), rows, targets)
        self._blocks = []

    def probabilities(self, rows: SparseRows) -> Floats:
        learnt = self._require_fitted(rows)
        return np.clip(learnt.probabilities(rows), 0, 1) if len(rows) else np.zeros(0)

    def embed(self, rows: SparseRows) -> Reals:
        """Shape (rows, 1): the log-odds, or what the estimator's decision function says."""
        learnt = self._require_fitted(rows)
        return (learnt.scores(rows) if len(rows) else np.zeros(0)).astype(np.float32)[:, None]

    def settings(self) -> Mapping[str, Any]:
        given = self._given
        if not isinstance(given, Mapping):
            if not _is_savable(given):
                raise _not_savable(given)
            given = {"name": type(given).__name__, "parameters": _json_parameters(given)}
        return {"estimator": dict(given), "max_rows": self._max_rows}

    def state(self, *, resumable: bool = False) -> State:
        """What was fitted; with `whole`, before that, all that was gathered."""
        common: State = {"width": np.array([self._width]), "seed": np.array([self._seed], np.uint64)}
        if self._fitted is not None:
            return common | self._fitted.state()
        self._check_width(None)
        if not resumable:
            raise OutputError("a classifier that has not learnt yet has nothing to keep", hint="state(whole=True)")
        rows, targets = _concatenate(self._blocks, self._width)
        return common | {"starts": rows.starts, "columns": rows.columns, "values": rows.values, "targets": targets}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        if "width" not in state or "seed" not in state:
            raise InputError(f"this is not the state of a classifier: it holds {', '.join(sorted(state)) or 'nothing'}")
        self.reset(int(state["width"][0]), int(state["seed"][0]))
        if "constant" in state:
            self._fitted = _FittedConstant(float(state["constant"][0]))
        elif "weights" in state:
            self._fitted = _FittedLinear(np.array(state["weights"], np.float64), float(state["offset"][0]))
        elif "trees" in state:
            self._fitted = _FittedTrees(np.asarray(state["trees"]).tobytes().decode())
        else:
            starts, columns, values = (np.array(state[name]) for name in ("starts", "columns", "values"))
            self.fit_batch(Batch(SparseRows(starts, columns, values, self._width), np.array(state["targets"])))

    def _new_estimator(self) -> Any:
        """A fresh one, whose random numbers are our seed's."""
        fresh = _make_estimator(self._given) if isinstance(self._given, Mapping) else _clone_estimator(self._given)
        if hasattr(fresh, "get_params"):
            known = fresh.get_params(deep=True)
            # The seeds of sklearn and LightGBM are of 31 bits.
            chosen = {n: self._seed % (1 << 31) for n in known if n == "random_state" or n.endswith("__random_state")}
            if type(fresh).__name__ == "LGBMClassifier":  # without these the trees depend on the number of threads
                chosen |= {n: True for n in ("deterministic", "force_row_wise") if n not in known}
            fresh.set_params(**chosen)
        return fresh

    def _require_fitted(self, rows: SparseRows) -> _Fitted:
        self._check_width(rows)
        if self._fitted is None:
            raise KnowledgeBaseError("the classifier has not learnt yet", hint="it fits in pass_done()")
        return self._fitted

    def _check_width(self, rows: SparseRows | None) -> None:
        if self._width < 0:
            raise KnowledgeBaseError("the classifier was not begun", hint="call begin(width, seed) first")
        if rows is not None and rows.width != self._width:
            raise KnowledgeBaseError(f"the classifier is for rows of {self._width} columns, these have {rows.width}")


def to_csr(rows: SparseRows) -> Any:
    """The rows as scipy's sparse matrix, float64: in float32 some solvers do not converge."""
    sparse = _import_extra("scipy.sparse", "sklearn")
    entries = slice(int(rows.starts[0]), int(rows.starts[-1]))
    parts = rows.values[entries].astype(np.float64), rows.columns[entries], rows.starts - rows.starts[0]
    return sparse.csr_matrix(parts, shape=(len(rows), rows.width))


def _fit_estimator(estimator: Any, rows: SparseRows, targets: Reals) -> _Fitted:
    """Fit, and take over what was learnt where its form is known."""
    inputs = to_csr(rows)
    soft = (targets > 0) & (targets < 1)
    if not soft.any():
        estimator.fit(inputs, targets.astype(np.int64))
    elif "sample_weight" not in inspect.signature(estimator.fit).parameters:
        raise KnowledgeBaseError(
            f"{type(estimator).__name__} takes no weights, and so cannot learn from facts that are uncertain: "
            f"{int(soft.sum()):,} of {len(targets):,} targets are between 0 and 1",
            hint="leave the uncertain facts out, or take an estimator whose fit has sample_weight",
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
    """The weights of a logistic regression; nothing where its probabilities are not the logistic function's."""
    if not _is_savable(estimator) or not hasattr(estimator, "coef_"):
        return None
    found = _FittedLinear(np.array(estimator.coef_[0], np.float64), float(np.ravel(estimator.intercept_)[0]))
    few = SparseRows(rows.starts[:101], rows.columns, rows.values, rows.width)
    same = np.allclose(found.probabilities(few), _positive_probability(estimator, to_csr(few)), atol=1e-6)
    return found if same and list(estimator.classes_) == [0, 1] else None


def _positive_probability(estimator: Any, inputs: Any) -> Floats:
    """The probability of class 1."""
    return np.asarray(estimator.predict_proba(inputs)[:, list(estimator.classes_).index(1)], np.float64)


def _concatenate(blocks: list[Batch], width: int) -> tuple[SparseRows, Reals]:
    """All blocks as one."""
    first = np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.float32)
    columns, values, targets = first
    if blocks:
        spans = [slice(int(b.rows.starts[0]), int(b.rows.starts[-1])) for b in blocks]
        columns = np.concatenate([b.rows.columns[span] for b, span in zip(blocks, spans, strict=True)])
        values = np.concatenate([b.rows.values[span] for b, span in zip(blocks, spans, strict=True)])
        targets = np.concatenate([b.targets for b in blocks])
    lengths = [np.diff(b.rows.starts) for b in blocks]
    starts = np.append(0, np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]))).astype(np.int64)
    return SparseRows(starts, columns, values, width), targets


def _count_expanded(targets: Reals) -> int:
    """Rows that targets become: soft ones two."""
    return len(targets) + int(((targets > 0) & (targets < 1)).sum())


def _is_savable(estimator: Any) -> bool:
    """Whether it is one of those whose arrays say all that was learnt."""
    home = SAVABLE_ESTIMATORS.get(type(estimator).__name__, ("", ""))[0]
    return (
        bool(home)
        and type(estimator).__module__.startswith(home)
        and getattr(estimator, "loss", "log_loss") == "log_loss"  # SGDClassifier's
    )


def _not_savable(estimator: Any) -> OutputError:
    return OutputError(
        f"{type(estimator).__name__} cannot be kept in a file: that would need pickle, which runs code when it is read",
        expected=("LogisticRegression", "LogisticRegressionCV", "SGDClassifier(loss='log_loss')", "LGBMClassifier"),
        hint="use the model while it is in memory, or take one of these",
    )


def _json_parameters(estimator: Any) -> dict[str, Any]:
    """Its parameters, if JSON gives back what it is given."""
    parameters = estimator.get_params(deep=False)
    for name, value in parameters.items():
        try:
            same = json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            same = False
        if not same:
            kept = f"{name}={value!r} of {type(estimator).__name__}"
            raise OutputError(f"{kept} cannot be written as JSON", hint="give it as a number, a text or a list")
    return dict(parameters)


def _make_estimator(settings: Mapping[str, Any]) -> Any:
    """The estimator that settings describe; one of the known, because settings may come from a stranger's file."""
    name = str(settings.get("name"))
    if name not in SAVABLE_ESTIMATORS:
        raise InputError(f"there is no estimator {name} that a file may name", expected=tuple(SAVABLE_ESTIMATORS))
    return getattr(_import_extra(*SAVABLE_ESTIMATORS[name]), name)(**settings.get("parameters", {}))


def _clone_estimator(estimator: Any) -> Any:
    """A fresh one with the same parameters: what it may have learnt is left behind where it knows how."""
    if hasattr(estimator, "get_params"):
        return _import_extra("sklearn.base", "sklearn").clone(estimator)
    return copy.deepcopy(estimator)


def _import_extra(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        missing = module.partition(".")[0]
        raise KnowledgeBaseError(f"{missing} is not installed", hint=f"pip install 'gaifman[{extra}]'") from None
