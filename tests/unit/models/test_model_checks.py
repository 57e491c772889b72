"""The suite for base models: it lets good ones pass, and catches each way to be wrong."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from broken_models import BROKEN, Narrow
from gaifman.errors import KnowledgeBaseError, OutputError
from gaifman.kb.tables import Floats
from gaifman.models import testing
from gaifman.models.mlp import BaseModel, SparseRows, State
from gaifman.models.testing import check_base_model
from reference_model import Plain


def test_a_good_model_passes() -> None:
    check_base_model(Plain)
    check_base_model(lambda: Plain(rate=0.5, passes=1))


@pytest.mark.parametrize(("broken", "words"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_model_is_caught(broken: type[BaseModel], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_base_model(broken)


def test_what_is_no_model_is_told_so() -> None:
    with pytest.raises(AssertionError, match="int, which is no BaseModel"):
        check_base_model(lambda: 3)  # type: ignore[arg-type, return-value]


def test_errors_of_the_model_itself_come_through() -> None:
    with pytest.raises(OverflowError):
        check_base_model(Narrow)


class Refusing(Plain):
    """Cannot be kept, and says so."""

    def settings(self) -> Mapping[str, Any]:
        raise OutputError("not to be kept")

    def state(self, *, resumable: bool = False) -> State:
        raise OutputError("not to be kept")


class Late(Plain):
    """Knows nothing before the end of the last pass, and says so."""

    done = 0

    def reset(self, width: int, seed: int) -> None:
        super().reset(width, seed)
        self.done = 0

    def end_epoch(self) -> None:
        self.done += 1

    def probabilities(self, rows: SparseRows) -> Floats:
        if self.done < self.epochs:
            raise KnowledgeBaseError("not yet")
        return super().probabilities(rows)

    def state(self, *, resumable: bool = False) -> State:
        return super().state(resumable=resumable) | {"done": np.array([self.done])}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(state)
        self.done = int(state["done"][0])


@pytest.mark.parametrize("good", [Refusing, Late])
def test_what_is_allowed_passes(good: type[BaseModel]) -> None:
    check_base_model(good)


def test_the_random_numbers_of_the_process_are_as_before() -> None:
    random.seed(5)
    np.random.seed(5)
    check_base_model(Plain)
    found = random.random(), np.random.random()
    random.seed(5)
    np.random.seed(5)
    assert found == (random.random(), np.random.random())


def test_every_check_catches_something() -> None:
    """No check may be idle: each fails for one of the broken models at least."""
    caught = set()
    for broken, _ in BROKEN:
        for check in testing.CHECKS:
            try:
                check(broken)
            except AssertionError:
                caught.add(check.__name__)
                break
    assert caught == {check.__name__ for check in testing.CHECKS}
