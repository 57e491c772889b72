"""Stateless random numbers: the i-th number of a key is a function of both (SplitMix64 with random access).

A key is mixed from what the number is used for: seed, purpose, draw, objects, position. The same key and index give the
same number on any thread and in any order.

>>> hex(random_word(np.uint64(0), 0))  # the first number of SplitMix64 seeded with 0
'0xe220a8397b1dcdaf'
"""

from __future__ import annotations

import numpy as np

from gaifman.kernels.jit import kernel

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_ONE, _LOW = np.uint64(1), np.uint64(0xFFFFFFFF)
_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31, _32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@kernel
def mix(z: np.uint64) -> np.uint64:
    """Mix 64 bits: a bijection in which every output bit depends on every input bit."""
    z = (z ^ (z >> _30)) * _A
    z = (z ^ (z >> _27)) * _B
    return z ^ (z >> _31)


@kernel
def fold_in(key: np.uint64, value: int | np.uint64) -> np.uint64:
    """Return the key derived from `key` and `value`. The order of several values matters."""
    return mix((key ^ mix(np.uint64(value) + GAMMA)) + GAMMA)


@kernel
def random_word(key: np.uint64, i: int) -> np.uint64:
    """Return the i-th number of a key, from 0, as 64 random bits."""
    return mix(key + (np.uint64(i) + _ONE) * GAMMA)


@kernel
def random_below(key: np.uint64, i: int, bound: int) -> np.int64:
    """Return the i-th number of a key, exactly uniform over 0 … bound − 1, for bounds below 2³².

    Lemire's method: multiply 32 bits by the bound and take the upper half. Biased products are redrawn from the word
    itself, so that the (i + 1)-th number does not change.
    """
    bound64 = np.uint64(bound)
    bits = random_word(key, i)
    product = (bits >> _32) * bound64
    if product & _LOW < bound64:
        rejection_limit = ((_LOW - bound64) + _ONE) % bound64
        while product & _LOW < rejection_limit:
            bits = mix(bits + GAMMA)
            product = (bits >> _32) * bound64
    return np.int64(product >> _32)
