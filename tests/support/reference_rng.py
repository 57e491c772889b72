"""SplitMix64 in plain Python integers."""

from __future__ import annotations

from hypothesis import strategies as st

WORDS = st.integers(0, 2**64 - 1)


MASK = 2**64 - 1


def plain_mix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)
