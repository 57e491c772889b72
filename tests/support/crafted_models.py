"""Model files whose content was changed and whose checksum is right."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

State = tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    3,
    10**9,
    2**62,
    0.5,
    1e308,
    "",
    "borders",
    "each r. r(s1, s2)",
    "r(s1, s9)",
    "count r(s1, x)",
    "each r. exists x. r(s1, x)",
    [],
    [10**9],
    [10**5] * 3,
    [[]],
    {},
    {"hidden": [10**9]},
    {"r": 10**9},
)
"""What a value of the metadata is replaced by."""
NUMBERS = (0, 1, -1, 5, 2**31 - 1, -(2**31), 2**62, 1e30, 1e308, float("nan"), float("inf"))
"""What a number of an array is replaced by."""
DTYPES = ("f4", "f8", "i4", "i8", "u1", "u8", "?")


def crafted(state: State, seed: int) -> State:
    """A copy of a model's state with one to three changes of arrays or metadata."""
    arrays, meta = dict(state[0]), copy.deepcopy(state[1])
    rng = random.Random(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.5 and arrays:
            _change_array(arrays, rng)
        else:
            _change_value(meta, rng)
    return arrays, meta


def _change_array(arrays: dict[str, npt.NDArray[Any]], rng: random.Random) -> None:
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    match rng.randrange(7):
        case 0:
            del arrays[name]
        case 1:
            arrays[rng.choice((*sorted(arrays), "9/scaler/features", "base/weights/7"))] = array
        case 2:
            with np.errstate(all="ignore"):
                arrays[name] = np.nan_to_num(array).astype(rng.choice(DTYPES))
        case 3:
            flat = array.reshape(-1)
            arrays[name] = rng.choice((flat, array[None], flat[:0], np.zeros((), array.dtype)))
        case 4:
            flat = np.tile(array.reshape(-1), 2)
            arrays[name] = flat[: rng.randrange(len(flat) + 1)]
        case 5:
            arrays[name] = array[::-1].copy() if array.ndim else array
        case _:
            changed = array.copy().reshape(-1)
            if changed.size:
                with np.errstate(all="ignore"):
                    changed[rng.randrange(changed.size)] = np.array(rng.choice(NUMBERS)).astype(array.dtype)
            arrays[name] = changed.reshape(array.shape)


def _change_value(meta: dict[str, Any], rng: random.Random) -> None:
    holder, key = rng.choice(list(_places(meta)))
    match rng.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        case 1:
            holder[rng.choice(("more", "2", "query"))] = copy.deepcopy(holder[key])
        case _:
            holder[key] = copy.deepcopy(rng.choice(VALUES))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON value: its list or object, and the index or key."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)
