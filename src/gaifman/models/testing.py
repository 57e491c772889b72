"""For whoever writes a base model: one call that tells whether it keeps the rules of `gaifman.models.mlp.BaseModel`.

>>> from sklearn.linear_model import LogisticRegression
>>> from gaifman.adapters import Classifier
>>> check_base_model(lambda: Classifier(LogisticRegression()))

Nothing is said where all is well; otherwise an AssertionError says what is wrong.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.errors import GaifmanError, OutputError
from gaifman.kb.tables import Floats
from gaifman.models.mlp import BaseModel, Batch, Reals, SparseRows

Make = Callable[[], BaseModel]

WIDTH, SEED = 12, 7
EXAMPLES, BLOCK = 2_000, 400
LABEL_NOISE = 0.25
"""In the noisy problem so many rows are not what they look like."""
CALIBRATION_TOLERANCE = 0.12
"""By so much mean probabilities may be off there. Input dropout of 0.2, as the paper has it, makes 0.08 of it."""


def check_base_model(make: Make) -> None:
    """Raise an AssertionError unless what `make` makes is a base model. `make` is called many times.

    A model that cannot be kept may refuse `settings` or `state` with an OutputError; all else is required.
    """
    for check in CHECKS:
        check(make)


def _check_settings(make: Make) -> None:
    """A name, passes, and settings that JSON can hold."""
    model = make()
    _require(isinstance(model, BaseModel), f"make() gives {type(model).__name__}, which is no BaseModel")
    _require(isinstance(getattr(model, "kind", None), str) and bool(model.kind), "kind is a name, and not empty")
    passes = getattr(model, "epochs", None)
    _require(type(passes) is int and passes >= 1, f"passes is a whole number, 1 or more, not {passes!r}")
    _remake(model)


def _check_probabilities(make: Make) -> None:
    """Shapes, types and bounds, also for no rows and rows of nothing."""
    model = make()
    model.reset(WIDTH, SEED)
    for batch in _noisy(hard=True):
        loss = _fit_batch(model, batch)
        good = isinstance(loss, float) and (math.isnan(loss) or 0 <= loss < math.inf)
        _require(good, f"learn() gives the mean cross-entropy as a float, or NaN, not {loss!r}")
    _run_steps(model, [None, *[*_noisy(hard=True), None] * (model.epochs - 1)])
    rows, _ = _random_rows(300, 1)
    sizes = {
        _check_output(model, given)[1]
        for given in (rows, _slice_rows(rows, 0, 1), _slice_rows(rows, 5, 5), _empty(9, WIDTH))
    }
    _require(len(sizes) == 1, f"embed() gives {sorted(sizes)} columns: their number depends on the rows")


def _check_degenerate_input(make: Make) -> None:
    """No columns, no examples, examples of one class alone."""
    cases: list[tuple[str, int, list[Batch]]] = [
        ("of rows without columns", 0, [Batch(_empty(90, 0), _freeze(np.arange(90) % 3 == 0))]),
        ("of no examples", WIDTH, []),
        ("of a block without rows", WIDTH, [Batch(_empty(0, WIDTH), _freeze(np.zeros(0)))]),
    ]
    for name, width, batches in cases:
        model = _make_trained(make, batches, width=width)
        p = _check_output(model, _empty(4, width))[0]
        _require(len(set(p.tolist())) == 1, f"{name}, equal rows get different probabilities: {p.tolist()}")
    rows, _ = _random_rows(200, 2)
    for target in (0.0, 1.0):
        p = _check_output(_make_trained(make, [Batch(rows, _freeze(np.full(200, target)))]), rows)[0]
        good = abs(p.mean() - target) < 0.5
        _require(good, f"where every target is {target:g}, the mean probability is {p.mean():.2f}")


def _check_rows_independent(make: Make) -> None:
    """The other rows, their order and number do not matter, to the last bit."""
    model, (rows, _) = _make_trained(make, _noisy(hard=True)), _random_rows(300, 3)
    order = np.random.default_rng(0).permutation(len(rows))
    backward = np.argsort(order)
    for name, function in (("probabilities", model.probabilities), ("embed", model.embed)):
        whole = function(rows)
        _require_same_bits(whole, function(rows), f"{name}(): the same rows give another result the second time")
        parts = np.concatenate([function(_slice_rows(rows, i, j)) for i, j in ((0, 1), (1, 8), (8, 137), (137, 300))])
        _require_same_bits(whole, parts, f"{name}(): a row's result changes with the rows beside it")
        _require_same_bits(
            whole,
            function(_take_rows(rows, order))[backward],
            f"{name}(): a row's result changes with the order of rows",
        )


def _check_learns(make: Make) -> None:
    """A problem that one column decides."""
    model = _make_trained(make, _separable())
    rows, truth = _random_rows(1_000, 4)
    p = model.probabilities(rows)
    area = _auc(p, truth)
    inside = np.clip(p, 1e-12, 1 - 1e-12)
    loss = float(-np.log(np.where(truth, inside, 1 - inside)).mean())
    _require(area >= 0.95, f"it does not learn what one column decides: the area under the curve is {area:.3f}")
    _require(loss <= 0.5, f"it learns what one column decides, but not to say so: the cross-entropy is {loss:.3f} nats")


def _check_calibration(make: Make) -> None:
    """A noisy problem, told by targets of 0 and 1, then by how sure each is."""
    rows, truth = _random_rows(1_000, 5)
    for hard, name in ((True, "targets of 0 and 1"), (False, "soft targets")):
        p = _make_trained(make, _noisy(hard=hard)).probabilities(rows)
        for group, wanted in ((truth, 1 - LABEL_NOISE), (~truth, LABEL_NOISE)):
            found = float(p[group].mean())
            words = f"with {name}, rows of which {wanted:.0%} are answers get {found:.2f} on average"
            _require(abs(found - wanted) <= CALIBRATION_TOLERANCE, words)


def _check_seeded(make: Make) -> None:
    """The same seed gives the same bits, whatever the random numbers of the process are; and these stay."""
    rows, _ = _random_rows(200, 6)
    found = []
    kept = _global_random_state()
    try:
        for other in (1, 2):
            random.seed(other)
            np.random.seed(other)  # those that are not to be used
            before = repr(_global_random_state())
            found.append(_outputs(_make_trained(make, _noisy(hard=True)), rows))
            _require(repr(_global_random_state()) == before, "it draws from the random numbers of the whole process")
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])
    _require_same_bits(found[0], found[1], "the same seed and examples give different models")
    _check_output(_make_trained(make, _noisy(hard=True), seed=2**63 + 11), rows)


def _check_reset(make: Make) -> None:
    """After begin() nothing is left of what was learnt before."""
    rows, _ = _random_rows(200, 7)
    model = _make_trained(make, _separable(), width=WIDTH)
    _train(model, _noisy(hard=True), WIDTH, SEED)
    fresh = _make_trained(make, _noisy(hard=True))
    _require_same_bits(
        model.probabilities(rows), fresh.probabilities(rows), "begin() does not forget what was learnt before"
    )


def _check_predict_while_training(make: Make) -> None:
    """Asking for probabilities while it learns changes nothing."""
    rows, _ = _random_rows(200, 8)
    model = make()
    model.reset(WIDTH, SEED)
    for step in [*_noisy(hard=True), None] * model.epochs:
        _run_steps(model, [step])
        _try_predict(model, rows)
    quiet = _make_trained(make, _noisy(hard=True))
    _require_same_bits(
        model.probabilities(rows), quiet.probabilities(rows), "probabilities() changes what is learnt afterwards"
    )


def _check_state(make: Make) -> None:
    """State into a fresh one: the same bits. Or it says that it cannot be kept."""
    rows, _ = _random_rows(200, 9)
    model = _make_trained(make, _noisy(hard=True))
    wanted = _outputs(model, rows)
    try:
        state = model.state()
    except OutputError:
        return
    for name, array in state.items():
        good = isinstance(name, str) and isinstance(array, np.ndarray) and array.dtype.kind in "biuf"
        _require(good, f"state() gives arrays of numbers by name, not {name!r}: {type(array).__name__}")
    kept = {name: _freeze(np.array(array), array.dtype) for name, array in state.items()}
    for fresh in (make(), _remake(model)):
        if fresh is None:
            continue
        fresh.restore(kept)
        _require_same_bits(wanted, _outputs(fresh, rows), "restored from its state, it gives other results")
        _equal_states(kept, fresh.state(), "restored from its state, it has another state")
    _train(model, _separable(), WIDTH, SEED + 1)
    _equal_states(kept, state, "a state that was given changes when the model learns on")


def _check_resume(make: Make) -> None:
    """Its whole state, taken while it learns, goes on in a fresh one as if nothing had happened."""
    rows, _ = _random_rows(200, 10)
    batches = _noisy(hard=True)
    wanted = _make_trained(make, batches).probabilities(rows)
    steps = [*batches, None] * make().epochs
    for cut in {len(steps) // 2, len(steps) - 1, len(batches) - 1}:
        model = make()
        model.reset(WIDTH, SEED)
        _run_steps(model, steps[:cut])
        try:
            state = model.state(resumable=True)
        except OutputError:
            return
        kept = {name: _freeze(np.array(array), array.dtype) for name, array in state.items()}
        fresh = make()
        fresh.restore(kept)
        _run_steps(fresh, steps[cut:])
        words = f"interrupted after {cut} of {len(steps)} calls and restored from its whole state, it ends elsewhere"
        _require_same_bits(wanted, fresh.probabilities(rows), words)


CHECKS: tuple[Callable[[Make], None], ...] = (
    _check_settings,
    _check_probabilities,
    _check_degenerate_input,
    _check_rows_independent,
    _check_learns,
    _check_calibration,
    _check_seeded,
    _check_reset,
    _check_predict_while_training,
    _check_state,
    _check_resume,
)


# Problems: column 0 tells the answers, the others tell nothing. All arrays are read-only: a model may not write there.


def _random_rows(count: int, seed: int) -> tuple[SparseRows, npt.NDArray[np.bool_]]:
    """Random rows, and which of them have column 0."""
    rng = np.random.default_rng(seed)
    stored = rng.random((count, WIDTH)) < 0.2
    stored[:, 0] = rng.random(count) < 0.5
    at, columns = np.nonzero(stored)
    values = np.where(columns == 0, 1, rng.uniform(0.5, 1.5, len(columns)))
    starts = np.searchsorted(at, np.arange(count + 1))
    return _rows(starts, columns, values, WIDTH), stored[:, 0]


def _separable() -> list[Batch]:
    rows, truth = _random_rows(EXAMPLES, 20)
    return _blocks(rows, _freeze(truth))


def _noisy(*, hard: bool) -> list[Batch]:
    """Targets that are as sure as can be known, or drawn so."""
    rows, truth = _random_rows(EXAMPLES, 21)
    soft = np.where(truth, 1 - LABEL_NOISE, LABEL_NOISE)
    return _blocks(rows, _freeze(np.random.default_rng(22).random(EXAMPLES) < soft if hard else soft))


def _blocks(rows: SparseRows, targets: Reals) -> list[Batch]:
    cuts = [(begin, begin + BLOCK) for begin in range(0, len(rows), BLOCK)]
    return [Batch(_slice_rows(rows, begin, end), targets[begin:end]) for begin, end in cuts]


def _rows(starts: npt.ArrayLike, columns: npt.ArrayLike, values: npt.ArrayLike, width: int) -> SparseRows:
    return SparseRows(_freeze(starts, np.int64), _freeze(columns, np.int32), _freeze(values), width)


def _empty(count: int, width: int) -> SparseRows:
    return _rows(np.zeros(count + 1), [], [], width)


def _slice_rows(rows: SparseRows, begin: int, end: int) -> SparseRows:
    first, last = int(rows.starts[begin]), int(rows.starts[end])
    starts = rows.starts[begin : end + 1] - first
    return _rows(starts, rows.columns[first:last], rows.values[first:last], rows.width)


def _take_rows(rows: SparseRows, order: npt.NDArray[np.int64]) -> SparseRows:
    parts = [np.arange(rows.starts[row], rows.starts[row + 1]) for row in order.tolist()]
    entries = np.concatenate(parts)
    starts = np.append(0, np.cumsum([len(part) for part in parts]))
    return _rows(starts, rows.columns[entries], rows.values[entries], rows.width)


def _freeze(array: npt.ArrayLike, dtype: Any = np.float32) -> npt.NDArray[Any]:
    found = np.array(array, dtype)
    found.setflags(write=False)
    return found


# Learning


def _make_trained(make: Make, batches: list[Batch], *, width: int = WIDTH, seed: int = SEED) -> BaseModel:
    model = make()
    _train(model, batches, width, seed)
    return model


def _train(model: BaseModel, batches: list[Batch], width: int, seed: int) -> None:
    model.reset(width, seed)
    _run_steps(model, [*batches, None] * model.epochs)


def _run_steps(model: BaseModel, steps: list[Batch | None]) -> None:
    """Learn, and where there is no batch end a pass."""
    for batch in steps:
        if batch is None:
            model.end_epoch()
        else:
            _fit_batch(model, batch)


def _fit_batch(model: BaseModel, batch: Batch) -> float:
    try:
        return model.fit_batch(batch)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise AssertionError("it writes into the arrays it is given") from error


def _try_predict(model: BaseModel, rows: SparseRows) -> None:
    try:
        model.probabilities(rows)
    except GaifmanError:
        return  # one that fits at the end of the pass knows nothing yet, and says so


def _remake(model: BaseModel) -> BaseModel | None:
    """Made from its own settings, as from a file; nothing where it says that it cannot be kept."""
    try:
        settings = dict(model.settings())
    except OutputError:
        return None
    try:
        text = json.dumps(settings)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"settings() cannot be written as JSON: {error}") from error
    try:
        again = type(model)(**json.loads(text))
    except TypeError as error:
        raise AssertionError(f"settings() do not make it anew: {error}") from error
    _require(json.dumps(dict(again.settings())) == text, "made anew from its settings, it has other settings")
    return again


# Saying what is wrong


def _require(good: bool, words: str) -> None:
    if not good:
        raise AssertionError(words)  # not an assert statement, which Python may be told to leave out


def _check_output(model: BaseModel, rows: SparseRows) -> tuple[Floats, int]:
    """The probabilities and the number of columns of the embedding, both as they should be."""
    p, embedding = model.probabilities(rows), model.embed(rows)
    shaped = isinstance(p, np.ndarray) and p.dtype == np.float64 and p.shape == (len(rows),)
    found = f"{getattr(p, 'dtype', type(p).__name__)} of shape {getattr(p, 'shape', '?')}"
    _require(shaped, f"probabilities() gives float64 of shape ({len(rows)},), not {found}")
    _require(
        bool(((p >= 0) & (p <= 1)).all()),
        f"probabilities() are from 0 to 1, not {p.min(initial=1)} to {p.max(initial=0)}",
    )
    shaped = isinstance(embedding, np.ndarray) and embedding.dtype == np.float32
    shaped = shaped and embedding.ndim == 2 and len(embedding) == len(rows)
    found = f"{getattr(embedding, 'dtype', type(embedding).__name__)} of shape {getattr(embedding, 'shape', '?')}"
    _require(shaped, f"embed() gives float32 of shape ({len(rows)}, some size), not {found}")
    _require(bool(np.isfinite(embedding).all()), "embed() gives numbers that are not finite")
    return p, embedding.shape[1]


def _require_same_bits(one: npt.NDArray[Any], other: npt.NDArray[Any], words: str) -> None:
    """Bit for bit."""
    _require(one.shape == other.shape, f"{words}: shapes {one.shape} and {other.shape}")
    far = np.abs(one - other)
    differ = f"{np.count_nonzero(far):,} of {far.size:,} numbers differ, by up to {far.max(initial=0):.3g}"
    _require(one.tobytes() == other.tobytes(), f"{words}: {differ}")


def _outputs(model: BaseModel, rows: SparseRows) -> Floats:
    """Shape (rows, 1 + columns of the embedding): all that it says of them; float64 holds float32 exactly."""
    return np.column_stack([model.probabilities(rows), model.embed(rows).astype(np.float64)])


def _equal_states(one: dict[str, npt.NDArray[Any]], other: dict[str, npt.NDArray[Any]], words: str) -> None:
    _require(sorted(one) == sorted(other), f"{words}: {sorted(one)} and {sorted(other)}")
    for name, array in one.items():
        same = array.dtype == other[name].dtype and array.shape == other[name].shape
        _require(same and array.tobytes() == other[name].tobytes(), f"{words}: {name}")


def _auc(p: Floats, truth: npt.NDArray[np.bool_]) -> float:
    """The share of pairs of an answer and another row in which the answer has the larger probability."""
    others = np.sort(p[~truth])
    below, through = (np.searchsorted(others, p[truth], side=side) for side in ("left", "right"))
    return float((below + through).mean() / 2 / len(others))


def _global_random_state() -> tuple[Any, Any]:
    """The random numbers of the process, as they stand."""
    return random.getstate(), np.random.get_state()
