"""For whoever writes a base model: one call that tells whether it keeps the rules of `gaifman.network.BaseModel`.

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
from gaifman.network import BaseModel, Batch, Reals, Rows
from gaifman.tables import Floats

Make = Callable[[], BaseModel]

WIDTH, SEED = 12, 7
EXAMPLES, BLOCK = 2_000, 400
NOISE = 0.25
"""In the noisy problem so many rows are not what they look like."""
ROUGHLY = 0.12
"""By so much mean probabilities may be off there. Input dropout of 0.2, as the paper has it, makes 0.08 of it."""


def check_base_model(make: Make) -> None:
    """Raise an AssertionError unless what `make` makes is a base model. `make` is called many times.

    A model that cannot be kept may refuse `settings` or `state` with an OutputError; all else is required.
    """
    for check in CHECKS:
        check(make)


def _outside(make: Make) -> None:
    """A name, passes, and settings that JSON can hold."""
    model = make()
    _require(isinstance(model, BaseModel), f"make() gives {type(model).__name__}, which is no BaseModel")
    _require(isinstance(getattr(model, "kind", None), str) and bool(model.kind), "kind is a name, and not empty")
    passes = getattr(model, "passes", None)
    _require(type(passes) is int and passes >= 1, f"passes is a whole number, 1 or more, not {passes!r}")
    _anew(model)


def _gives_probabilities(make: Make) -> None:
    """Shapes, types and bounds, also for no rows and rows of nothing."""
    model = make()
    model.begin(WIDTH, SEED)
    for batch in _noisy(hard=True):
        loss = _learnt(model, batch)
        good = isinstance(loss, float) and (math.isnan(loss) or 0 <= loss < math.inf)
        _require(good, f"learn() gives the mean cross-entropy as a float, or NaN, not {loss!r}")
    _go(model, [None, *[*_noisy(hard=True), None] * (model.passes - 1)])
    rows, _ = _drawn(300, 1)
    sizes = {_checked(model, given)[1] for given in (rows, _cut(rows, 0, 1), _cut(rows, 5, 5), _empty(9, WIDTH))}
    _require(len(sizes) == 1, f"embed() gives {sorted(sizes)} columns: their number depends on the rows")


def _takes_little(make: Make) -> None:
    """No columns, no examples, examples of one class alone."""
    cases: list[tuple[str, int, list[Batch]]] = [
        ("of rows without columns", 0, [Batch(_empty(90, 0), _frozen(np.arange(90) % 3 == 0))]),
        ("of no examples", WIDTH, []),
        ("of a block without rows", WIDTH, [Batch(_empty(0, WIDTH), _frozen(np.zeros(0)))]),
    ]
    for name, width, batches in cases:
        model = _trained(make, batches, width=width)
        p = _checked(model, _empty(4, width))[0]
        _require(len(set(p.tolist())) == 1, f"{name}, equal rows get different probabilities: {p.tolist()}")
    rows, _ = _drawn(200, 2)
    for target in (0.0, 1.0):
        p = _checked(_trained(make, [Batch(rows, _frozen(np.full(200, target)))]), rows)[0]
        good = abs(p.mean() - target) < 0.5
        _require(good, f"where every target is {target:g}, the mean probability is {p.mean():.2f}")


def _judges_each_row_alone(make: Make) -> None:
    """The other rows, their order and number do not matter, to the last bit."""
    model, (rows, _) = _trained(make, _noisy(hard=True)), _drawn(300, 3)
    order = np.random.default_rng(0).permutation(len(rows))
    backward = np.argsort(order)
    for name, function in (("probabilities", model.probabilities), ("embed", model.embed)):
        whole = function(rows)
        _same(whole, function(rows), f"{name}(): the same rows give another result the second time")
        parts = np.concatenate([function(_cut(rows, i, j)) for i, j in ((0, 1), (1, 8), (8, 137), (137, 300))])
        _same(whole, parts, f"{name}(): a row's result changes with the rows beside it")
        _same(
            whole, function(_taken(rows, order))[backward], f"{name}(): a row's result changes with the order of rows"
        )


def _learns(make: Make) -> None:
    """A problem that one column decides."""
    model = _trained(make, _separable())
    rows, truth = _drawn(1_000, 4)
    p = model.probabilities(rows)
    area = _area(p, truth)
    inside = np.clip(p, 1e-12, 1 - 1e-12)
    loss = float(-np.log(np.where(truth, inside, 1 - inside)).mean())
    _require(area >= 0.95, f"it does not learn what one column decides: the area under the curve is {area:.3f}")
    _require(loss <= 0.5, f"it learns what one column decides, but not to say so: the cross-entropy is {loss:.3f} nats")


def _is_roughly_calibrated(make: Make) -> None:
    """A noisy problem, told by targets of 0 and 1, then by how sure each is."""
    rows, truth = _drawn(1_000, 5)
    for hard, name in ((True, "targets of 0 and 1"), (False, "soft targets")):
        p = _trained(make, _noisy(hard=hard)).probabilities(rows)
        for group, wanted in ((truth, 1 - NOISE), (~truth, NOISE)):
            found = float(p[group].mean())
            words = f"with {name}, rows of which {wanted:.0%} are answers get {found:.2f} on average"
            _require(abs(found - wanted) <= ROUGHLY, words)


def _has_no_chance_but_the_seed(make: Make) -> None:
    """The same seed gives the same bits, whatever the random numbers of the process are; and these stay."""
    rows, _ = _drawn(200, 6)
    found = []
    kept = _global()
    try:
        for other in (1, 2):
            random.seed(other)
            np.random.seed(other)  # those that are not to be used
            before = repr(_global())
            found.append(_results(_trained(make, _noisy(hard=True)), rows))
            _require(repr(_global()) == before, "it draws from the random numbers of the whole process")
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])
    _same(found[0], found[1], "the same seed and examples give different models")
    _checked(_trained(make, _noisy(hard=True), seed=2**63 + 11), rows)


def _forgets(make: Make) -> None:
    """After begin() nothing is left of what was learnt before."""
    rows, _ = _drawn(200, 7)
    model = _trained(make, _separable(), width=WIDTH)
    _train(model, _noisy(hard=True), WIDTH, SEED)
    fresh = _trained(make, _noisy(hard=True))
    _same(model.probabilities(rows), fresh.probabilities(rows), "begin() does not forget what was learnt before")


def _can_be_looked_at(make: Make) -> None:
    """Asking for probabilities while it learns changes nothing."""
    rows, _ = _drawn(200, 8)
    model = make()
    model.begin(WIDTH, SEED)
    for step in [*_noisy(hard=True), None] * model.passes:
        _go(model, [step])
        _looked(model, rows)
    quiet = _trained(make, _noisy(hard=True))
    _same(model.probabilities(rows), quiet.probabilities(rows), "probabilities() changes what is learnt afterwards")


def _can_be_kept(make: Make) -> None:
    """State into a fresh one: the same bits. Or it says that it cannot be kept."""
    rows, _ = _drawn(200, 9)
    model = _trained(make, _noisy(hard=True))
    wanted = _results(model, rows)
    try:
        state = model.state()
    except OutputError:
        return
    for name, array in state.items():
        good = isinstance(name, str) and isinstance(array, np.ndarray) and array.dtype.kind in "biuf"
        _require(good, f"state() gives arrays of numbers by name, not {name!r}: {type(array).__name__}")
    kept = {name: _frozen(np.array(array), array.dtype) for name, array in state.items()}
    for fresh in (make(), _anew(model)):
        if fresh is None:
            continue
        fresh.restore(kept)
        _same(wanted, _results(fresh, rows), "restored from its state, it gives other results")
        _equal_states(kept, fresh.state(), "restored from its state, it has another state")
    _train(model, _separable(), WIDTH, SEED + 1)
    _equal_states(kept, state, "a state that was given changes when the model learns on")


def _can_be_interrupted(make: Make) -> None:
    """Its whole state, taken while it learns, goes on in a fresh one as if nothing had happened."""
    rows, _ = _drawn(200, 10)
    batches = _noisy(hard=True)
    wanted = _trained(make, batches).probabilities(rows)
    steps = [*batches, None] * make().passes
    for cut in {len(steps) // 2, len(steps) - 1, len(batches) - 1}:
        model = make()
        model.begin(WIDTH, SEED)
        _go(model, steps[:cut])
        try:
            state = model.state(whole=True)
        except OutputError:
            return
        kept = {name: _frozen(np.array(array), array.dtype) for name, array in state.items()}
        fresh = make()
        fresh.restore(kept)
        _go(fresh, steps[cut:])
        words = f"interrupted after {cut} of {len(steps)} calls and restored from its whole state, it ends elsewhere"
        _same(wanted, fresh.probabilities(rows), words)


CHECKS: tuple[Callable[[Make], None], ...] = (
    _outside,
    _gives_probabilities,
    _takes_little,
    _judges_each_row_alone,
    _learns,
    _is_roughly_calibrated,
    _has_no_chance_but_the_seed,
    _forgets,
    _can_be_looked_at,
    _can_be_kept,
    _can_be_interrupted,
)


# Problems: column 0 tells the answers, the others tell nothing. All arrays are read-only: a model may not write there.


def _drawn(count: int, seed: int) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Random rows, and which of them have column 0."""
    rng = np.random.default_rng(seed)
    stored = rng.random((count, WIDTH)) < 0.2
    stored[:, 0] = rng.random(count) < 0.5
    at, columns = np.nonzero(stored)
    values = np.where(columns == 0, 1, rng.uniform(0.5, 1.5, len(columns)))
    starts = np.searchsorted(at, np.arange(count + 1))
    return _rows(starts, columns, values, WIDTH), stored[:, 0]


def _separable() -> list[Batch]:
    rows, truth = _drawn(EXAMPLES, 20)
    return _blocks(rows, _frozen(truth))


def _noisy(*, hard: bool) -> list[Batch]:
    """Targets that are as sure as can be known, or drawn so."""
    rows, truth = _drawn(EXAMPLES, 21)
    soft = np.where(truth, 1 - NOISE, NOISE)
    return _blocks(rows, _frozen(np.random.default_rng(22).random(EXAMPLES) < soft if hard else soft))


def _blocks(rows: Rows, targets: Reals) -> list[Batch]:
    cuts = [(begin, begin + BLOCK) for begin in range(0, len(rows), BLOCK)]
    return [Batch(_cut(rows, begin, end), targets[begin:end]) for begin, end in cuts]


def _rows(starts: npt.ArrayLike, columns: npt.ArrayLike, values: npt.ArrayLike, width: int) -> Rows:
    return Rows(_frozen(starts, np.int64), _frozen(columns, np.int32), _frozen(values), width)


def _empty(count: int, width: int) -> Rows:
    return _rows(np.zeros(count + 1), [], [], width)


def _cut(rows: Rows, begin: int, end: int) -> Rows:
    first, last = int(rows.starts[begin]), int(rows.starts[end])
    starts = rows.starts[begin : end + 1] - first
    return _rows(starts, rows.columns[first:last], rows.values[first:last], rows.width)


def _taken(rows: Rows, order: npt.NDArray[np.int64]) -> Rows:
    parts = [np.arange(rows.starts[row], rows.starts[row + 1]) for row in order.tolist()]
    entries = np.concatenate(parts)
    starts = np.append(0, np.cumsum([len(part) for part in parts]))
    return _rows(starts, rows.columns[entries], rows.values[entries], rows.width)


def _frozen(array: npt.ArrayLike, dtype: Any = np.float32) -> npt.NDArray[Any]:
    found = np.array(array, dtype)
    found.setflags(write=False)
    return found


# Learning


def _trained(make: Make, batches: list[Batch], *, width: int = WIDTH, seed: int = SEED) -> BaseModel:
    model = make()
    _train(model, batches, width, seed)
    return model


def _train(model: BaseModel, batches: list[Batch], width: int, seed: int) -> None:
    model.begin(width, seed)
    _go(model, [*batches, None] * model.passes)


def _go(model: BaseModel, steps: list[Batch | None]) -> None:
    """Learn, and where there is no batch end a pass."""
    for batch in steps:
        if batch is None:
            model.pass_done()
        else:
            _learnt(model, batch)


def _learnt(model: BaseModel, batch: Batch) -> float:
    try:
        return model.learn(batch)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise AssertionError("it writes into the arrays it is given") from error


def _looked(model: BaseModel, rows: Rows) -> None:
    try:
        model.probabilities(rows)
    except GaifmanError:
        return  # one that fits at the end of the pass knows nothing yet, and says so


def _anew(model: BaseModel) -> BaseModel | None:
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


def _checked(model: BaseModel, rows: Rows) -> tuple[Floats, int]:
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


def _same(one: npt.NDArray[Any], other: npt.NDArray[Any], words: str) -> None:
    """Bit for bit."""
    _require(one.shape == other.shape, f"{words}: shapes {one.shape} and {other.shape}")
    far = np.abs(one - other)
    differ = f"{np.count_nonzero(far):,} of {far.size:,} numbers differ, by up to {far.max(initial=0):.3g}"
    _require(one.tobytes() == other.tobytes(), f"{words}: {differ}")


def _results(model: BaseModel, rows: Rows) -> Floats:
    """Shape (rows, 1 + columns of the embedding): all that it says of them; float64 holds float32 exactly."""
    return np.column_stack([model.probabilities(rows), model.embed(rows).astype(np.float64)])


def _equal_states(one: dict[str, npt.NDArray[Any]], other: dict[str, npt.NDArray[Any]], words: str) -> None:
    _require(sorted(one) == sorted(other), f"{words}: {sorted(one)} and {sorted(other)}")
    for name, array in one.items():
        same = array.dtype == other[name].dtype and array.shape == other[name].shape
        _require(same and array.tobytes() == other[name].tobytes(), f"{words}: {name}")


def _area(p: Floats, truth: npt.NDArray[np.bool_]) -> float:
    """The share of pairs of an answer and another row in which the answer has the larger probability."""
    others = np.sort(p[~truth])
    below, through = (np.searchsorted(others, p[truth], side=side) for side in ("left", "right"))
    return float((below + through).mean() / 2 / len(others))


def _global() -> tuple[Any, Any]:
    """The random numbers of the process, as they stand."""
    return random.getstate(), np.random.get_state()
