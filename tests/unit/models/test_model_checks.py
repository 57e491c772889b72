"""The conformity checks pass good base models, and each check fails for a broken one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gaifman.errors import OutputError
from gaifman.models import Batch, SparseRows
from gaifman.models.testing import check_base_model
from reference_model import Plain

Method = Callable[..., Any]


def refuse(*_: object, **__: object) -> Any:
    raise OutputError("cannot be saved")


@pytest.mark.parametrize(
    "changes",
    [{}, {"settings": refuse, "state": refuse}],
    ids=["plain", "not savable"],
)
def test_a_good_model_passes(changes: dict[str, Method]) -> None:
    random.seed(5)
    np.random.seed(5)
    check_base_model(type("Good", (Plain,), changes))
    drawn = random.random(), np.random.random()
    random.seed(5)
    np.random.seed(5)
    assert drawn == (random.random(), np.random.random())


def change_output(name: str, change: Method) -> dict[str, Any]:
    """Return a model's method with a changed result."""
    return {name: lambda self, rows: change(getattr(Plain, name)(self, rows))}


def reset_with(change: Method) -> dict[str, Any]:
    def reset(self: Plain, width: int, seed: int) -> None:
        Plain.reset(self, width, seed)
        self.weights[-1] += change(self)

    return {"reset": reset}


def keep_weights(self: Plain, width: int, seed: int) -> None:
    old = getattr(self, "weights", np.zeros(0))
    Plain.reset(self, width, seed)
    self.weights = old.copy() if len(old) == len(self.weights) else self.weights


def nudge_when_asked(self: Plain, rows: SparseRows) -> Any:
    self.squares[-1] += len(rows) == 200
    return Plain.probabilities(self, rows)


def bias_only(self: Plain, batch: Batch) -> float:
    loss = Plain.fit_batch(self, batch)
    self.weights[:-1] = 0
    return loss


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"kind": ""}, "kind must be a name"),
    ({"__init__": lambda self: Plain.__init__(self, epochs=2.5)}, "epochs must be an integer"),  # type: ignore[arg-type]
    ({"settings": lambda self: {"learning_rate": self.learning_rate + 1}}, "must have the same settings"),
    ({"fit_batch": lambda self, batch: -Plain.fit_batch(self, batch)}, "must return a loss or NaN"),
    (change_output("probabilities", np.float32), r"probabilities\(\) must be float64"),
    (change_output("probabilities", lambda p: p + np.nan), r"probabilities\(\) must be float64"),
    (change_output("embed", lambda rows: rows[:, 0]), r"embed\(\) must be finite float32"),
    ({"probabilities": nudge_when_asked}, "must not change further training"),
    (change_output("probabilities", lambda p: p * random.uniform(0.9, 1)), "the same outputs the second time"),
    (change_output("probabilities", lambda p: p / max(1, len(p) / 250)), "must not depend on the other rows"),
    (change_output("probabilities", lambda p: p - (np.arange(len(p)) == 5) * p / 9), "must not depend on"),
    ({"fit_batch": bias_only}, "the AUC is only"),
    (change_output("probabilities", lambda p: 0.5 + (p - 0.5) / 100), "the mean probability is only"),
    (change_output("probabilities", np.round), "targets of 0 and 1: the mean probability"),
    (
        {"fit_batch": lambda self, batch: Plain.fit_batch(self, Batch(batch.rows, np.round(batch.targets)))},
        "soft targets: the mean probability",
    ),
    (reset_with(lambda _: np.random.random() / 1000), "global random numbers"),
    (reset_with(lambda self: id(self) % 9973 / 1e6), "same seed and batches"),
    ({"reset": keep_weights}, r"reset\(\) must drop all parameters"),
    ({"state": lambda self, **_: {"model": np.array([self], object)}}, "arrays of numbers"),
    ({"state": lambda self, **_: {"weights": self.weights, "squares": self.squares}}, "must not change in further"),
    ({"state": lambda self, **_: Plain.state(self)}, "resumed from a state must give the same model"),
]


@pytest.mark.parametrize(("changes", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_a_broken_model_fails(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_base_model(type("Broken", (Plain,), changes))


def test_what_is_not_a_model_fails() -> None:
    with pytest.raises(AssertionError, match="returns int, not a BaseModel"):
        check_base_model(lambda: 3)  # type: ignore[arg-type, return-value]


def test_a_model_that_writes_into_its_batch_fails() -> None:
    def write(_: Plain, batch: Batch) -> float:
        batch.rows.values[...] = 0
        return 0.0

    with pytest.raises(ValueError, match="read-only"):
        check_base_model(type("Writing", (Plain,), {"fit_batch": write}))
