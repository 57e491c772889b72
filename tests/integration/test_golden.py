"""Golden outputs: a refactoring changes names, not results.

Each file in `golden` holds one output as JSON. Three tests compare its numbers, its texts and its keys: a renamed key
fails only `test_keys`, a reworded text only `test_texts`. `python tests/golden/record.py` records the outputs again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import gaifman
from golden.record import OUTPUTS, QUICK, RELATIONS, completion, demo, differences, neighbours_capital


@pytest.mark.parametrize("name", OUTPUTS)
def test_numbers(name: str) -> None:
    assert differences(name, "numbers")[:10] == []


@pytest.mark.parametrize("name", OUTPUTS)
def test_texts(name: str) -> None:
    assert differences(name, "texts")[:10] == []


@pytest.mark.parametrize("name", OUTPUTS)
def test_keys(name: str) -> None:
    assert differences(name, "keys")[:10] == []


def test_training_again_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = tmp_path / "one.gaifman", tmp_path / "two.gaifman"
    completion().save(one)
    gaifman.complete(demo(), RELATIONS, threads=1, **QUICK).save(two)
    assert one.read_bytes() == two.read_bytes()


def test_a_loaded_model_gives_the_same_answers(tmp_path: Path) -> None:
    path = tmp_path / "model.gaifman"
    neighbours_capital().save(path)
    loaded = gaifman.load(path, demo())
    assert isinstance(loaded, gaifman.GaifmanModel)
    assert loaded.answers(x="france").as_dict() == neighbours_capital().answers(x="france").as_dict()
