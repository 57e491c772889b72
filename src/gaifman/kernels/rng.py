"""Random numbers without a state: the i-th number of a key is a function of both (SplitMix64, read at any place).

A key is mixed from what the number is for: seed, purpose, draw, objects, position. Whoever asks for it, on whichever
thread and in whatever order, gets the same.

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
    """A bijection of 64 bits in which every bit of the result hangs on every bit of `z`."""
    z = (z ^ (z >> _30)) * _A
    z = (z ^ (z >> _27)) * _B
    return z ^ (z >> _31)


@kernel
def fold_in(key: np.uint64, value: int | np.uint64) -> np.uint64:
    """The key of `key` and then `value`: joining 1 and then 2 is not joining 2 and then 1."""
    return mix((key ^ mix(np.uint64(value) + GAMMA)) + GAMMA)


@kernel
def random_word(key: np.uint64, i: int) -> np.uint64:
    """The i-th number of a key, from 0: 64 bits."""
    return mix(key + (np.uint64(i) + _ONE) * GAMMA)


@kernel
def random_below(key: np.uint64, i: int, bound: int) -> np.int64:
    """The i-th number of a key, exactly uniform over 0 … bound − 1, for bounds under 2³².

    Lemire's way: multiply 32 bits by the bound and keep the upper half; the few products that would favour some
    results are drawn again, from the word itself, so that the (i + 1)-th number does not shift.
    """
    wide = np.uint64(bound)
    bits = random_word(key, i)
    product = (bits >> _32) * wide
    if product & _LOW < wide:
        unfair = ((_LOW - wide) + _ONE) % wide
        while product & _LOW < unfair:
            bits = mix(bits + GAMMA)
            product = (bits >> _32) * wide
    return np.int64(product >> _32)
