"""Twenty thousand texts through the parser; `make fuzz` runs a million."""

from __future__ import annotations

import pytest

import fuzz


@pytest.mark.parametrize("seed", range(10))
def test_any_text_is_read_and_printed_or_refused_with_our_own_error(seed: int) -> None:
    seen = fuzz.run(seed, 2_000)
    assert seen["accepted"] > 500
    assert seen["refused"] > 500
