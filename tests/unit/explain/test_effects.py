"""Effects of inputs: equal to brute force, parts that add up, for every kind of base model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from gaifman.explain import attribution as effects
from gaifman.explain.attribution import compute_effects
from gaifman.features.evaluator import Reals
from gaifman.kb.tables import Floats
from gaifman.models import SklearnModel
from gaifman.models.base import BaseModel, Batch, SparseRows, State
from gaifman.models.calibration import log_odds
from gaifman.models.mlp import MLP, Logistic
from reference_model import Plain

WIDTH = 12


class Bare(BaseModel):
    """A base model without log-odds: inputs 0 and 1 count only together."""

    kind = "bare"
    epochs = 1

    def reset(self, width: int, seed: int) -> None:
        pass

    def fit_batch(self, batch: Batch) -> float:
        return float("nan")

    def probabilities(self, rows: SparseRows) -> Floats:
        dense = dense_of(rows)
        return np.where((dense[:, 0] != 0) & (dense[:, 1] != 0), 0.9, 0.5)

    def embed(self, rows: SparseRows) -> Reals:
        return self.probabilities(rows).astype(np.float32)[:, None]

    def settings(self) -> Mapping[str, Any]:
        return {}

    def state(self, *, resumable: bool = False) -> State:
        return {}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        pass


def dense_of(rows: SparseRows) -> Reals:
    whole = np.zeros((len(rows), rows.width), np.float32)
    whole[np.repeat(np.arange(len(rows)), np.diff(rows.starts)), rows.columns] = rows.values
    return whole


def rows_of(dense: npt.ArrayLike) -> SparseRows:
    table = np.asarray(dense, np.float32)
    at, columns = np.nonzero(table)
    starts = np.searchsorted(at, np.arange(len(table) + 1)).astype(np.int64)
    return SparseRows(starts, columns.astype(np.int32), table[at, columns], table.shape[1])


def random_rows(seed: int, draws: int, share: float = 0.4) -> SparseRows:
    rng = np.random.default_rng(seed)
    return rows_of(rng.normal(1, 0.5, (draws, WIDTH)) * (rng.random((draws, WIDTH)) < share))


def taught(base: BaseModel, seed: int = 0) -> BaseModel:
    rows = random_rows(seed + 100, 64)
    targets = (dense_of(rows)[:, :3].sum(axis=1) > 1).astype(np.float32)
    base.reset(WIDTH, seed)
    for _ in range(base.epochs):
        base.fit_batch(Batch(rows, targets))
        base.end_epoch()
    return base


MODELS: dict[str, Callable[[], BaseModel]] = {
    "mlp": lambda: MLP((16, 8), "relu", 0.2, 20, 0.0, 16),
    "sigmoid": lambda: MLP((16, 8), "sigmoid", 0.2, 5),
    "logistic": lambda: Logistic(learning_rate=0.3, epochs=10),
    "plain": Plain,
    "classifier": lambda: SklearnModel(LogisticRegression()),
    "forest": lambda: SklearnModel(RandomForestClassifier(10, random_state=0)),
    "bare": Bare,
}


def brute(base: BaseModel, rows: SparseRows) -> tuple[float, dict[int, float], float]:
    """One input of one row after another."""
    dense, found = dense_of(rows), dict[int, float]()
    for column in range(rows.width):
        lost = 0.0
        for row in dense:
            if row[column]:
                off = row.copy()
                off[column] = 0
                lost += float(base.scores(rows_of([row]))[0] - base.scores(rows_of([off]))[0])
        if dense[:, column].any():
            found[column] = lost / len(dense)
    return float(base.scores(rows_of(np.zeros((1, WIDTH))))[0]), found, float(np.mean(base.scores(rows)))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_effects_equal_brute_force(name: str, seed: int) -> None:
    base, rows = taught(MODELS[name](), seed), random_rows(seed, 7)
    found = compute_effects(base, rows)
    start, each, total = brute(base, rows)
    assert found.base == pytest.approx(start, abs=1e-12)
    assert found.total == pytest.approx(total, abs=1e-12)
    assert dict(zip(found.features.tolist(), found.effects.tolist(), strict=True)) == pytest.approx(each, abs=1e-12)
    assert found.draws.tolist() == [int((dense_of(rows)[:, column] != 0).sum()) for column in found.features]


@pytest.mark.parametrize("name", ["logistic", "mlp"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_columns_of_a_feature_are_switched_off_together(name: str, share: float) -> None:
    """A number and whether it is known are two inputs, and one reason."""
    base, rows = TAUGHT[name], random_rows(2, 9, share)
    features = np.sort(np.random.default_rng(0).integers(0, 7, WIDTH)) * 3
    found, dense = compute_effects(base, rows, features), dense_of(rows)
    for feature, effect, draws in zip(found.features, found.effects, found.draws, strict=True):
        off = np.where(features == feature, 0, dense)
        assert draws == int((off != dense).any(axis=1).sum()) > 0
        assert effect == pytest.approx(float(np.mean(base.scores(rows) - base.scores(rows_of(off)))), abs=1e-12)
    assert set(found.features.tolist()) == set(features[np.unique(rows.columns)].tolist())


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(0, 1), st.sampled_from(["logistic", "mlp"]))
def test_the_parts_add_up(seed: int, draws: int, share: float, name: str) -> None:
    base, rows = TAUGHT[name], random_rows(seed, draws, share)
    found = compute_effects(base, rows)
    assert found.base + found.effects.sum() + found.interactions == pytest.approx(np.mean(base.scores(rows)), abs=1e-9)


TAUGHT: dict[str, BaseModel] = {name: taught(MODELS[name]()) for name in ("logistic", "mlp")}


def test_a_linear_model_has_no_interactions() -> None:
    for name in ("logistic", "plain", "classifier"):
        found = compute_effects(taught(MODELS[name]()), random_rows(5, 10))
        assert found.interactions == pytest.approx(0, abs=1e-4)


def test_interactions_of_inputs_that_count_together() -> None:
    found = compute_effects(Bare(), rows_of([[1, 1, *[0] * 10]]))
    worth = float(log_odds(0.9))
    assert found.effects.tolist() == pytest.approx([worth, worth])
    assert found.interactions == pytest.approx(-worth)
    assert (found.base, found.total) == pytest.approx((0.0, worth))


def test_rows_without_entries() -> None:
    found = compute_effects(TAUGHT["logistic"], rows_of(np.zeros((3, WIDTH))))
    assert (len(found.features), found.interactions, found.total) == (0, 0.0, found.base)


def test_blocks_do_not_change_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    base, rows = taught(MLP((16, 8), "relu", 0.2, 5)), random_rows(1, 9)
    whole = compute_effects(base, rows)
    for entries in (1, 7, 40):
        monkeypatch.setattr(effects, "MAX_ENTRIES", entries)
        part = compute_effects(base, rows)
        assert part.effects.tolist() == whole.effects.tolist()


def test_large_log_odds_keep_their_digits() -> None:
    base = taught(MLP((16, 8), "relu", 0.2, 20, 0.0, 16))
    dense = dense_of(random_rows(3, 4)) * 400
    far = base.scores(rows_of(dense))
    assert np.abs(far).max() > 40  # where probabilities are 0 or 1 as far as float64 can tell
    assert compute_effects(base, rows_of(dense)).total == pytest.approx(float(far.mean()))
