"""All candidates for one place of a tuple: what their neighbourhoods share is added, not computed again.

Where a candidate and the fixed object do not touch, the first layer's sums are those of each by itself, added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gaifman.kernels.compiling import compiled
from gaifman.kernels.learning import Entries, Net, Shape, further
from gaifman.kernels.sets import Ints, Longs
from gaifman.kernels.vectors import gather


@compiled
def first_sums(net: Net, units: int, entries: Entries, sums: Any) -> None:
    """Add to `sums` (rows · units) what the inputs of each row give to the units of the first layer."""
    for i in range(len(entries.starts) - 1):
        low = entries.starts[i]
        gather(
            entries.values, low, entries.columns, low, entries.starts[i + 1] - low, net.first, units, sums, i * units
        )


@compiled
def touching(
    starts: Longs,
    neighbours: Ints,
    one: int,
    own_starts: Longs,
    own: Ints,
    other_starts: Longs,
    others: Ints,
    needed: Ints,
    near: Any,
    touched: Any,
) -> int:
    """Which candidates touch an object: are adjacent to it, or have a member of either's draw adjacent to both.

    `own` are the members drawn around the object, one list for each length of the draw, without those of shorter ones;
    `needed` (candidates,) is the length that goes with a candidate. `others` are the members around each candidate.
    `near` is 0 before and after. How many touch.
    """
    count = len(touched)
    for c in range(count):
        touched[c] = 0
    for v in range(len(own_starts) - 1):
        for at in range(own_starts[v], own_starts[v + 1]):
            x = own[at]
            for edge in range(starts[x], starts[x + 1]):
                c = neighbours[edge]
                if c < count and needed[c] >= v:
                    touched[c] = 1
    for edge in range(starts[one], starts[one + 1]):
        near[neighbours[edge]] = 1
    total = 0
    for c in range(count):
        found = touched[c] | near[c]
        for at in range(other_starts[c], other_starts[c + 1]):
            found |= near[others[at]]
        if c == one:
            found = np.uint8(1)
        touched[c] = found
        total += 1 if found else 0
    for edge in range(starts[one], starts[one + 1]):
        near[neighbours[edge]] = 0
    return total


@compiled
def rank(
    net: Net, shape: Shape, own: Any, needed: Ints, others: Any, touched: Any, batch: int, active: Any, logits: Any
) -> None:
    """Log-odds of all candidates that do not touch, from the sums of the object's draws and of the candidates."""
    units, total = shape.sizes[0], 0
    for level in range(len(shape.sizes)):
        total += shape.sizes[level]
    c, count = 0, len(logits)
    while c < count:
        first, rows = c, 0
        while c < count and rows < batch:
            if touched[c] == 0:
                row = active[rows * units : (rows + 1) * units]
                mine = own[needed[c] * units : (needed[c] + 1) * units]
                theirs = others[c * units : (c + 1) * units]
                for j in range(units):
                    row[j] = net.biases[j] + mine[j] + theirs[j]
                rows += 1
            c += 1
        further(net, shape, rows, active)
        at = rows * (total - 1)
        for i in range(first, c):
            if touched[i] == 0:
                logits[i] = active[at]
                at += 1
