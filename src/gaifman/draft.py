"""A knowledge base in the making: what readers fill, block by block, and where errors get their place.

>>> draft = Draft()
>>> where = lambda row, field: Place("family.tsv", row + 1, 1, "")
>>> numbers = draft.numbers(["ann", "parent", "bob"], lambda position: where(0, position)).reshape(1, 3)
>>> draft.facts(numbers[:, 1], numbers[:, [0, 2]], None, where)
>>> print(*draft.finish().facts())
parent(ann, bob).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gaifman.errors import InputError, Place, shorten
from gaifman.facts import Note, dropped_notes, some, written
from gaifman.interning import Interner
from gaifman.kb import KnowledgeBase
from gaifman.tables import Floats, Heap, Index, Ints, Longs, Rows, assemble, bad_name

Where = Callable[[int, int], Place]
"""The place of a row's field: 0 is the relation or attribute, 1 and on are the objects, `NUMBER` is the number."""

NUMBER = -1
"""The field of the confidence or value."""


class Draft:
    """Collects facts and values as numbers of names, over one numbering of all names.

    One numbering, because a reader then looks each word of a text up once, whatever the word is.
    """

    def __init__(self) -> None:
        self._names = Index()
        self._interner = Interner()
        self._arity = np.zeros(0, np.int8)  # by number of name; 0 where it is no relation
        self._attribute = np.zeros(0, bool)  # by number of name
        self._first: dict[tuple[str, int], str] = {}
        self._objects: list[Ints] = []
        self._facts: dict[int, list[Rows]] = {}
        self._values: list[tuple[Ints, Ints, Floats]] = []
        self._notes: dict[str, Note] = {}

    def note(self, count: int, what: str, example: str = "", one: str = "") -> None:
        """Count something worth telling; the first example stays. `one` is what is said of a single one."""
        known = self._notes.get(what, Note(0, what, example, one))
        self._notes[what] = replace(known, count=known.count + count, example=known.example or example)

    def numbers(self, names: Sequence[str], where: Callable[[int], Place]) -> Ints:
        """Numbers of names, shape (names,); `where` is the place of one of them."""
        numbers = self._names.numbers(names)
        self._check(lambda name: where(names.index(name)))
        return numbers

    def cut_numbers(self, data: bytes, starts: Longs, ends: Longs, where: Callable[[str], Place]) -> Ints:
        """Numbers of the names `data[start:end]`, shape (starts,); `where` is the place of one of them."""
        numbers = self._interner.numbers(data, starts, ends, self._names)
        self._check(where)
        return numbers

    def _check(self, where: Callable[[str], Place]) -> None:
        """Refuse new names that cannot be names, and count what looks like a mistake."""
        fresh = self._names.fresh()
        wrong = bad_name(fresh)
        if wrong:
            raise InputError(wrong[1], place=where(wrong[0]))
        spaced = [name for name in fresh if name[0].isspace() or name[-1].isspace()]
        if spaced:
            example, one = shorten(repr(spaced[0])), "name that begins or ends with a space"
            self.note(len(spaced), "names that begin or end with a space", example, one)

    def facts(self, relation: Ints, objects: Ints, confidence: Floats | None, where: Where) -> None:
        """Add facts: relation (facts,), objects (facts, arity), confidence (facts,) or None, over `numbers`."""
        self._relations(relation, objects.shape[1], where)
        if confidence is not None:
            wrong = ~((confidence > 0) & (confidence <= 1))
            if wrong.any():
                place = where(int(np.argmax(wrong)), NUMBER)
                raise InputError("a confidence is above 0 and at most 1", place=place)
        self._facts.setdefault(objects.shape[1], []).append((relation, objects, confidence))

    def values(self, attribute: Ints, holder: Ints, value: Floats, where: Where) -> None:
        """Add values of attributes, all of shape (values,), over `numbers`."""
        self._attributes(attribute, where)
        wrong = ~np.isfinite(value)
        if wrong.any():
            raise InputError("a value must be a finite number", place=where(int(np.argmax(wrong)), NUMBER))
        self._values.append((attribute, holder, value))

    def declare(self, objects: Ints, relations: Ints, arities: Ints, attributes: Ints, where: Where) -> None:
        """Add objects, relations with their arities and attributes of which nothing need be known."""
        self._objects.append(objects)
        for arity in np.unique(arities).tolist():
            chosen = np.flatnonzero(arities == arity).tolist()
            self._relations(relations[chosen], arity, lambda row, field, at=chosen: where(at[row], field))  # type: ignore[misc]
        self._attributes(attributes, where)

    def check_arities(self, relation: Ints, arity: Longs, where: Where) -> None:
        """Refuse rows in which a relation has another arity than before, in their order; all of shape (rows,)."""
        self._grow()
        names, first, which = np.unique(relation, return_index=True, return_inverse=True)
        known = self._arity[names]
        wrong = np.where(known == 0, arity[first], known)[which] != arity
        if wrong.any():
            row = int(np.argmax(wrong))
            for number, at in zip(names[known == 0].tolist(), first[known == 0].tolist(), strict=True):
                self._first["relation", number] = str(where(at, 0))
                self._arity[number] = arity[at]
            self._refuse_arity(wrong, relation, int(arity[row]), where)

    def _relations(self, relation: Ints, arity: int, where: Where) -> None:
        """Check that the relations can have this arity, and remember that they do."""
        self._grow()
        known = self._arity[relation]
        self._refuse_arity((known != 0) & (known != arity), relation, arity, where)
        if arity == 1:
            self._refuse_kind(self._attribute[relation], relation, "an attribute", where)
        new = np.flatnonzero(known == 0)
        self._remember("relation", relation[new], new, where)
        self._arity[relation] = arity

    def _attributes(self, attribute: Ints, where: Where) -> None:
        """Check that the names can be attributes, and remember that they are."""
        self._grow()
        self._refuse_kind(self._arity[attribute] == 1, attribute, "a type", where)
        new = np.flatnonzero(~self._attribute[attribute])
        self._remember("attribute", attribute[new], new, where)
        self._attribute[attribute] = True

    def finish(self) -> KnowledgeBase:
        """The knowledge base; the draft is used up."""
        self._grow()
        names = np.array([*self._names, *[""] * (len(self._arity) - len(self._names))], object)
        used = np.zeros(len(names), bool)
        for objects in self._objects:
            used[objects] = True
        for _, objects, _ in (chunk for chunks in self._facts.values() for chunk in chunks):
            used[objects] = True
        for _, holder, _ in self._values:
            used[holder] = True
        relation, holder, attribute = map(_renumber, (self._arity > 0, used, self._attribute))
        heap = Heap(
            names[used].tolist(),
            names[self._arity > 0].tolist(),
            self._arity[self._arity > 0].tolist(),
            names[self._attribute].tolist(),
        )
        for chunks in self._facts.values():
            while chunks:  # one after the other, so that two copies of all are never there
                rows, objects, confidence = chunks.pop()
                heap.add(relation[rows], holder[objects], confidence)
        heap.values = [(attribute[a], holder[o], value) for a, o, value in self._values]
        tables, dropped = assemble(heap)
        return KnowledgeBase(tables, (*self._notes.values(), *dropped_notes(tables, dropped)))

    def _grow(self) -> None:
        """Make room for the names known so far, and as many again: seldom is cheap."""
        if len(self._names) > len(self._arity):
            more = 2 * len(self._names) - len(self._arity)
            self._arity = np.concatenate([self._arity, np.zeros(more, np.int8)])
            self._attribute = np.concatenate([self._attribute, np.zeros(more, bool)])

    def _name(self, number: int) -> str:
        return next(name for name, known in self._names.items() if known == number)

    def _remember(self, kind: str, numbers: Ints, rows: npt.NDArray[np.int64], where: Where) -> None:
        """Note where each new relation or attribute was first met."""
        for number, at in zip(*np.unique(numbers, return_index=True), strict=True):
            self._first[kind, int(number)] = str(where(int(rows[at]), 0))

    def _refuse_arity(self, wrong: npt.NDArray[np.bool_], relation: Ints, arity: int, where: Where) -> None:
        if not wrong.any():
            return
        row = int(np.argmax(wrong))
        number = int(relation[row])
        raise InputError(
            f"{shorten(written(self._name(number)))} has {some(int(self._arity[number]), 'place')}, not {arity}",
            place=where(row, 0),
            hint=f"it was first met in {self._first['relation', number]}",
        )

    def _refuse_kind(self, wrong: npt.NDArray[np.bool_], numbers: Ints, kind: str, where: Where) -> None:
        if not wrong.any():
            return
        row = int(np.argmax(wrong))
        number = int(numbers[row])
        first = self._first["attribute" if kind == "an attribute" else "relation", number]
        raise InputError(
            f"{shorten(written(self._name(number)))} cannot be both a type and an attribute",
            place=where(row, 0),
            hint=f"it was {kind} in {first}",
        )


def _renumber(used: npt.NDArray[np.bool_]) -> Ints:
    """For each number that is used, its place among the used ones."""
    return np.cumsum(used, dtype=np.int32) - np.int32(1)
