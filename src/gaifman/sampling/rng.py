"""Random keys for whole arrays, equal to those of `gaifman.kernels.rng`.

>>> key = make_key(0, "shuffle", 3)                # a seed, a purpose and an epoch
>>> rows = np.array([[4, 7], [7, 4]])
>>> np.argsort(fold_in_rows(key, rows)).tolist()   # a random order that depends on the rows, not on their positions
[1, 0]

A key is mixed from the values it stands for, in order (SplitMix64). There is no state.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from gaifman.config import SamplingConfig

Keys = npt.NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ALL = 0xFFFFFFFFFFFFFFFF
_27, _30, _31 = np.uint64(27), np.uint64(30), np.uint64(31)


def mix(z: Keys) -> Keys:
    """Mix 64 bits: a bijection in which every output bit depends on every input bit."""
    z = (z ^ (z >> _30)) * _A
    z = (z ^ (z >> _27)) * _B
    mixed: Keys = z ^ (z >> _31)
    return mixed


def fold_in(key: Keys | np.uint64, values: npt.NDArray[np.integer]) -> Keys:
    """Return the keys derived from `key` and each of some integers; shapes are broadcast.

    >>> fold_in(np.uint64(0), np.array([1, 2])).tolist() == [int(make_key(1)), int(make_key(2))]
    True
    """
    # As arrays: numpy warns of the intended overflow only for scalars.
    wide = np.atleast_1d(values).astype(np.uint64)
    return mix((np.atleast_1d(key) ^ mix(wide + _GAMMA)) + _GAMMA)


def fold_in_rows(key: Keys | np.uint64, rows: npt.NDArray[np.integer]) -> Keys:
    """Return the keys (b,) derived from `key` and then the numbers of each row (b, n)."""
    keys = np.broadcast_to(np.atleast_1d(key), len(rows))
    for column in rows.T:
        keys = fold_in(keys, column)
    return keys


def make_key(seed: int, *parts: int | str) -> np.uint64:
    """Return the key of a seed and a purpose: texts and integers, in order."""
    key = 0  # Python integers: for one key arrays take ten times as long
    for part in (seed, *parts):
        number = _hash_text(part) if isinstance(part, str) else int(part)
        key = fold_in_int(key, number)
    return np.uint64(key)


def fold_in_int(key: int, number: int) -> int:
    """Return the key derived from `key` and one integer, as `fold_in` does for arrays."""
    return _mix_int((key ^ _mix_int((number + int(_GAMMA)) & _ALL)) + int(_GAMMA) & _ALL)


def _mix_int(z: int) -> int:
    """Mix one Python integer."""
    z = (z ^ (z >> 30)) * int(_A) & _ALL
    z = (z ^ (z >> 27)) * int(_B) & _ALL
    return z ^ (z >> 31)


def draw_keys(sampling: SamplingConfig) -> Keys:
    """Return the keys (w,), uint64, of the draws, derived from seed, purpose and number."""
    return fold_in(make_key(sampling.seed, sampling.purpose), np.arange(sampling.draws))


def _hash_text(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
