"""Conformity checks for base models.

>>> from sklearn.linear_model import LogisticRegression
>>> from gaifman.models import SklearnModel
>>> check_base_model(lambda: SklearnModel(LogisticRegression()))
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gaifman.errors import GaifmanError, OutputError
from gaifman.kb.tables import Floats, freeze
from gaifman.models.base import BaseModel, Batch, SparseRows
from gaifman.models.calibration import auc

WIDTH, SEED = 12, 7
LABEL_NOISE, TOLERANCE = 0.25, 0.12
"""Fraction of wrong labels, and the allowed error of mean probabilities: input dropout of 0.2 alone causes 0.08."""

Make = Callable[[], BaseModel]


def check_base_model(make: Make) -> None:
    """Raise an error unless the models that `make` returns keep the rules of `BaseModel`.

    A model that cannot be saved may raise an OutputError from `settings` and `state`.
    """
    for check in CHECKS:
        check(make)


def _check_settings(make: Make) -> None:
    model = make()
    _require(isinstance(model, BaseModel), f"make() returns {type(model).__name__}, not a BaseModel")
    _require(isinstance(getattr(model, "kind", None), str) and model.kind != "", "kind must be a name")
    epochs = getattr(model, "epochs", None)
    _require(type(epochs) is int and epochs > 0, f"epochs must be an integer of at least 1, got {epochs!r}")
    try:
        settings = json.dumps(dict(model.settings()))
    except OutputError:
        return
    copy = type(model)(**json.loads(settings))
    _require(json.dumps(dict(copy.settings())) == settings, "a model made from settings() must have the same settings")


def _check_outputs(make: Make) -> None:
    rows, _ = _problem(300, 1)
    model, order = _train(make(), _batches()), np.random.default_rng(0).permutation(300)
    whole = _outputs(model, rows)
    _require_equal(_outputs(model, rows), whole, "the same rows must have the same outputs the second time")
    parts = [_outputs(model, rows.slice(*cut)) for cut in ((0, 1), (1, 8), (8, 8), (8, 137), (137, 300))]
    _require_equal(np.concatenate(parts), whole, "the output of a row must not depend on the other rows")
    _require_equal(_outputs(model, rows.take(order)), whole[order], "an output must not depend on the order of rows")
    for width, batches in ((0, [Batch(SparseRows.empty(9, 0), np.arange(9, dtype=np.float32) % 2)]), (WIDTH, [])):
        equal = _outputs(_train(make(), batches, width), SparseRows.empty(4, width))
        _require_equal(equal, equal[[0, 0, 0, 0]], "equal rows must have equal outputs")


def _check_accuracy(make: Make) -> None:
    rows, labels = _problem(1_000, 4)
    p = _train(make(), _batches(noise=0.0)).probabilities(rows)
    area, mean = auc(p, labels.astype(np.float64)) or 0.0, float(np.where(labels, p, 1 - p).mean())
    _require(area >= 0.95, f"on a problem that one column decides, the AUC is only {area:.3f}")
    _require(mean >= 0.6, f"on a problem that one column decides, the mean probability is only {mean:.3f}")
    for name, batches in (("targets of 0 and 1", _batches()), ("soft targets", _batches(soft=True))):
        p = _train(make(), batches).probabilities(rows)
        for label, expected in ((True, 1 - LABEL_NOISE), (False, LABEL_NOISE)):
            mean = float(p[labels == label].mean())
            _require(abs(mean - expected) < TOLERANCE, f"{name}: the mean probability is {mean:.2f}, not {expected}")
    for target in (0.0, 1.0):
        mean = float(_train(make(), [Batch(rows, np.full(1_000, target, np.float32))]).probabilities(rows).mean())
        _require(abs(mean - target) < 0.5, f"if all targets are {target:g}, the mean probability is {mean:.2f}")


def _check_deterministic(make: Make) -> None:
    rows, _ = _problem(200, 6)
    expected, saved = _outputs(_train(make(), _batches()), rows), (random.getstate(), np.random.get_state())
    random.seed(1)
    np.random.seed(1)
    try:
        found, drawn = _outputs(_train(make(), _batches()), rows), (random.random(), np.random.random())  # noqa: S311
    finally:
        random.setstate(saved[0])
        np.random.set_state(saved[1])
    _require(drawn == (random.Random(1).random(), np.random.RandomState(1).random()), "it uses global random numbers")  # noqa: S311
    _require_equal(found, expected, "the same seed and batches must give the same model")
    found = _outputs(_train(_train(make(), _batches(noise=0.0)), _batches()), rows)
    _require_equal(found, expected, "reset() must drop all parameters")
    found = _outputs(_train(make(), _batches(), queries=rows), rows)
    _require_equal(found, expected, "probabilities() must not change further training")
    _train(make(), _batches(), seed=2**63 + 11)


def _check_state(make: Make) -> None:
    rows, _ = _problem(200, 9)
    expected, steps = _outputs(_train(make(), _batches()), rows), [*_batches(), None] * make().epochs
    for cut in (len(_batches()) - 1, len(steps) // 2, len(steps) - 1, len(steps)):
        model, other = make(), make()
        model.reset(WIDTH, SEED)
        _run(model, steps[:cut])
        try:
            state = model.state(resumable=cut < len(steps))
        except OutputError:
            return
        good = all(isinstance(array, np.ndarray) and array.dtype.kind in "biuf" for array in state.values())
        _require(good, "state() must return arrays of numbers")
        saved = {name: freeze(array.copy()) for name, array in state.items()}
        other.restore(saved)
        _run(model, steps[cut:])
        same = all(array.tobytes() == saved[name].tobytes() for name, array in state.items())
        _require(same, "a returned state must not change in further training")
        _run(other, steps[cut:])
        _require_equal(_outputs(other, rows), expected, "training resumed from a state must give the same model")


CHECKS = (_check_settings, _check_outputs, _check_accuracy, _check_deterministic, _check_state)


def _problem(count: int, seed: int) -> tuple[SparseRows, npt.NDArray[np.bool_]]:
    """Return random read-only rows and their labels: whether column 0 has an entry."""
    rng = np.random.default_rng(seed)
    stored = rng.random((count, WIDTH)) < 0.2
    stored[:, 0] = rng.random(count) < 0.5
    at, columns = np.nonzero(stored)
    values = np.where(columns == 0, 1, rng.uniform(0.5, 1.5, len(columns))).astype(np.float32)
    starts = np.searchsorted(at, np.arange(count + 1)).astype(np.int64)
    return SparseRows(freeze(starts), freeze(columns.astype(np.int32)), freeze(values), WIDTH), stored[:, 0]


def _batches(*, noise: float = LABEL_NOISE, soft: bool = False) -> list[Batch]:
    rows, labels = _problem(2_000, 21)
    certainty = np.where(labels, 1 - noise, noise)
    targets = certainty if soft else np.random.default_rng(22).random(2_000) < certainty
    frozen = freeze(targets.astype(np.float32))
    return [Batch(rows.slice(at, at + 400), frozen[at : at + 400]) for at in range(0, 2_000, 400)]


def _train(
    model: BaseModel, batches: list[Batch], width: int = WIDTH, seed: int = SEED, queries: SparseRows | None = None
) -> BaseModel:
    model.reset(width, seed)
    _run(model, [*batches, None] * model.epochs, queries)
    return model


def _run(model: BaseModel, steps: list[Batch | None], queries: SparseRows | None = None) -> None:
    """Train on batches, where None ends an epoch, and predict queries in between."""
    for batch in steps:
        if batch is None:
            model.end_epoch()
        else:
            loss = model.fit_batch(batch)
            _require(isinstance(loss, float) and not loss < 0, f"fit_batch() must return a loss or NaN, got {loss!r}")
        if queries is not None:
            try:
                model.probabilities(queries)
            except GaifmanError:
                continue  # it is not fitted before the end of an epoch


def _outputs(model: BaseModel, rows: SparseRows) -> Floats:
    """Return the probabilities and, in the other columns, the embeddings."""
    p, embedding = model.probabilities(rows), model.embed(rows)
    good = p.dtype == np.float64 and p.shape == (len(rows),) and bool(((p >= 0) & (p <= 1)).all())
    _require(good, f"probabilities() must be float64 of shape ({len(rows)},), from 0 to 1")
    good = embedding.dtype == np.float32 and embedding.shape[:-1] == (len(rows),) and bool(np.isfinite(embedding).all())
    _require(good, f"embed() must be finite float32 of shape ({len(rows)}, any)")
    return np.column_stack([p, embedding.astype(np.float64)])


def _require(good: bool, words: str) -> None:
    if not good:
        raise AssertionError(words)  # not an assert statement, which `python -O` removes


def _require_equal(one: Floats, other: Floats, words: str) -> None:
    _require(one.shape == other.shape and one.tobytes() == other.tobytes(), words)
