"""Values of numeric attributes: of the tuple's objects and of members, without those that are hidden."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.collections import Ints, Longs, binary_search
from gaifman.kernels.jit import inline_kernel, inner_kernel
from gaifman.kernels.local_facts import NeighbourhoodView, is_hidden
from gaifman.kernels.rows import RowBuffer, set_number
from gaifman.kernels.templates import TemplateIndex

Floats = npt.NDArray[np.float64]


class AttributeArrays(NamedTuple):
    """All values, sorted by attribute and object, as in `gaifman.kb.tables`, and by object."""

    starts: Longs
    """Shape (attributes + 1,): the values of attribute `a` are the rows `starts[a]` to `starts[a + 1]`."""
    objects: Ints
    """Shape (values,)."""
    values: Floats
    """Shape (values,)."""
    attributes: Ints
    """Shape (values,)."""
    object_starts: Longs
    """Shape (objects + 1,): the values of object `d` are the rows `object_rows[object_starts[d] : …]`."""
    object_rows: Ints
    """Shape (values,)."""
    first: int
    """The number of the first value among what can be hidden: the number of facts."""


@inner_kernel
def find_value(values: AttributeArrays, attribute: int, obj: int, hidden: Longs) -> float:
    """Return an object's value of an attribute; NaN if it has none or if it is hidden."""
    at = binary_search(values.objects, values.starts[attribute], values.starts[attribute + 1], obj)
    if at < 0 or is_hidden(hidden, values.first + at):
        return np.nan
    return float(values.values[at])


@inline_kernel
def set_numbers(
    templates: TemplateIndex, values: AttributeArrays, view: NeighbourhoodView, known: Floats, buffer: RowBuffer
) -> None:
    """Set the features a(s_i) and a(s_i) − b(s_j) whose values are known, also those that are 0.

    Visits only the values of the tuple's objects. `known` (n, attributes) is a buffer that holds NaN between two rows.
    """
    attributes = known.shape[1]
    for i in range(len(view.own)):
        obj = view.members[view.own[i]]
        for q in range(values.object_starts[obj], values.object_starts[obj + 1]):
            row = values.object_rows[q]
            if not is_hidden(view.hidden, values.first + row):
                known[i, values.attributes[row]] = values.values[row]
    for i in range(len(view.own)):
        obj = view.members[view.own[i]]
        for q in range(values.object_starts[obj], values.object_starts[obj + 1]):
            attribute = values.attributes[values.object_rows[q]]
            number, at = known[i, attribute], i * attributes + attribute
            if np.isnan(number):
                continue
            if templates.value[i, attribute] >= 0:
                set_number(buffer, templates.value[i, attribute], number)
            for d in range(templates.difference_starts[at], templates.difference_starts[at + 1]):
                other = known[templates.differences[d, 1], templates.differences[d, 2]]
                if not np.isnan(other):
                    set_number(buffer, templates.differences[d, 0], number - other)
    for i in range(len(view.own)):
        obj = view.members[view.own[i]]
        for q in range(values.object_starts[obj], values.object_starts[obj + 1]):
            known[i, values.attributes[values.object_rows[q]]] = np.nan
