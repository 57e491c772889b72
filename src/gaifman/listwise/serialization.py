"""Rankers as arrays, and back. Labels and types are numbered in a vocabulary that is stored with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gaifman.config import MAX_ARITY, check_int
from gaifman.errors import InputError, shorten
from gaifman.io.model_file import Arrays, require_array
from gaifman.kb.tables import Floats, Ints, Longs, freeze
from gaifman.listwise.added import AddedFormulas, check_formulas
from gaifman.listwise.constants import constants_from_arrays
from gaifman.listwise.mining import LINKS, MinedFormulas
from gaifman.listwise.ranker import STATISTICS, Ranker
from gaifman.listwise.steps import Label, StepIndex, labels_of
from gaifman.logic.ast import Atom, Attribute, Feature, free_relation_variables, walk
from gaifman.logic.parser import parse_feature


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The relations that labels and types are numbered by."""

    relations: tuple[tuple[str, int], ...]
    """Relations with their arities."""
    thresholds: tuple[tuple[str, float], ...] = ()
    """Attributes with values."""
    formulas: tuple[Feature, ...] = ()
    """Formulas that were added to the mined ones."""

    @classmethod
    def of(cls, index: StepIndex, formulas: Sequence[Feature] = ()) -> Vocabulary:
        """All relations and thresholds of a knowledge base, and added formulas."""
        content = index.kb.content
        return cls(tuple(zip(content.relations, content.arities, strict=True)), index.thresholds, tuple(formulas))

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels, by number."""
        return labels_of(self.relations)

    @property
    def types(self) -> tuple[str, ...]:
        """The types, by number."""
        return tuple(name for name, arity in self.relations if arity == 1)

    @property
    def attributes(self) -> list[str]:
        """The attributes of thresholds and formulas."""
        compared = {part.name for formula in self.formulas for part in walk(formula) if isinstance(part, Attribute)}
        return sorted({name for name, _ in self.thresholds} | compared)

    def as_json(self) -> dict[str, Any]:
        """The vocabulary for the metadata of a file, without its formulas."""
        return {
            "relations": [[name, int(arity)] for name, arity in self.relations],
            "thresholds": [[name, value] for name, value in self.thresholds],
        }

    @classmethod
    def from_json(cls, meta: Any, formulas: Any = ()) -> Vocabulary:
        """The vocabulary of a file, and the texts of its added formulas."""
        for name, arity in meta["relations"]:
            check_int(f"the arity of {name}", arity, 1, MAX_ARITY)
        thresholds = tuple((name, float(value)) for name, value in meta["thresholds"])
        if not all(isinstance(name, str) for name, _ in (*meta["relations"], *thresholds)):
            raise InputError("the names of relations and attributes must be texts")
        relations = tuple((name, arity) for name, arity in meta["relations"])
        return cls(relations, thresholds, tuple(_formula_from_text(text, dict(relations)) for text in formulas))

    def numbers_in(self, index: StepIndex) -> tuple[Ints, Ints]:
        """The number of each label, and of each mark, in a knowledge base; −1 for those that it does not have."""
        labels = np.array([index.label_id(*label) for label in self.labels], np.int32).reshape(-1)
        types = np.array([index.type_mark(name) for name in self.types], np.int32).reshape(-1)
        first = len(index.labels) + len(index.types)
        thresholds = np.arange(first, first + len(self.thresholds), dtype=np.int32)
        return labels, np.concatenate([labels, types, thresholds])


def _formula_from_text(text: str, relations: Mapping[str, int]) -> Feature:
    """An added formula of a file, which must use the relations of the vocabulary."""
    formula = parse_feature(text)
    check_formulas([formula])
    for part in walk(formula):
        if (
            isinstance(part, Atom)
            and isinstance(part.relation, str)
            and relations.get(part.relation) != len(part.terms)
        ):
            raise InputError(f"the vocabulary has no relation {shorten(part.relation)} of {len(part.terms)} places")
    if formula.each or free_relation_variables(formula):
        raise InputError(f"{shorten(text)} stands for several formulas")
    return formula


def ranker_arrays(ranker: Ranker, index: StepIndex) -> Arrays:
    """The arrays of a ranker, with labels and marks of the knowledge base that it is bound to."""
    added = np.flatnonzero(ranker.added_weights)
    marks = np.flatnonzero(ranker.mark_weights).astype(np.int32)
    loss = np.nan if ranker.held_out_loss is None else ranker.held_out_loss
    arrays: Arrays = {
        "formula_weights": ranker.formula_weights,
        "marks": marks,
        "mark_weights": ranker.mark_weights[marks],
        "statistic_weights": ranker.statistic_weights,
        "added": ranker.added.numbers[added],
        "added_weights": ranker.added_weights[added],
        "fit": np.array([ranker.penalty, ranker.epochs, -1.0 if np.isnan(loss) else loss]),
    }
    for number, mined in enumerate(ranker.mined):
        own: Arrays = {
            f"paths/{number}": mined.paths,
            f"support/{number}": mined.support,
            f"confidence/{number}": mined.confidence,
        }
        arrays |= own | mined.constants.arrays(index, number)
    return arrays


def ranker_from_arrays(
    arrays: Arrays, relation: str, position: int, arity: int, index: StepIndex, vocabulary: Vocabulary | None = None
) -> Ranker:
    """The ranker of arrays, bound to a knowledge base; paths with labels that it does not have are left out.

    The index has the thresholds of the vocabulary.
    """
    own = vocabulary or Vocabulary.of(index)
    labels, marks = own.numbers_in(index)
    weights = require_array(arrays, "formula_weights", np.float64, (None,))
    mined, kept, first = list[MinedFormulas](), list[Floats](), 0
    for number in range(arity - 1):
        found = _paths_from_arrays(arrays, number, len(own.labels), index)
        constants, others = constants_from_arrays(arrays, number, labels, index)
        paths, count = len(found.paths), len(arrays[f"constants/{number}/labels"])
        part = weights[first : first + paths + len(LINKS) + count]
        if len(part) != paths + len(LINKS) + count:
            raise InputError(f"there are {len(weights):,} weights of formulas, and more formulas")
        first += len(part)
        bound, order = _bind_paths(found, labels)
        mined.append(replace(bound, constants=constants))
        kept += [part[:paths][order], part[paths : paths + len(LINKS)], part[paths + len(LINKS) :][others]]
    if first != len(weights):
        raise InputError(f"there are {len(weights):,} weights of formulas, and {first:,} formulas")
    mark_weights = np.zeros(index.mark_count)
    used = require_array(arrays, "marks", np.int32, (None,))
    values = require_array(arrays, "mark_weights", np.float64, (len(used),))
    _check_range("marks", used, len(marks))
    present = marks[used] >= 0
    mark_weights[marks[used][present]] = values[present]
    numbers = require_array(arrays, "added", np.int32, (None,))
    _check_range("added", numbers, len(own.formulas))
    if len(np.unique(numbers)) != len(numbers):
        raise InputError("the array 'added' has a formula twice")
    added = AddedFormulas(index, arity, position, own.formulas, numbers.tolist())
    if len(added) != len(numbers):
        raise InputError(f"a formula of {relation} does not fit its position {position + 1}")
    penalty, epochs, loss = require_array(arrays, "fit", np.float64, (3,)).tolist()
    return Ranker(
        relation,
        position,
        tuple(mined),
        np.concatenate([np.zeros(0), *kept]),
        mark_weights,
        require_array(arrays, "statistic_weights", np.float64, (len(STATISTICS),)),
        penalty,
        int(epochs),
        None if loss < 0 else loss,
        added,
        require_array(arrays, "added_weights", np.float64, (len(numbers),)),
    )


def _paths_from_arrays(arrays: Arrays, number: int, labels: int, index: StepIndex) -> MinedFormulas:
    paths = require_array(arrays, f"paths/{number}", np.int32, (None, None))
    if paths.size and (paths.min() < -1 or paths.max() >= labels or (paths[:, 0] < 0).any()):
        raise InputError(f"the array 'paths/{number}' has labels outside of 0 to {labels - 1}")
    if paths.shape[1] < 1 or (np.diff((paths < 0).astype(np.int8), axis=1) < 0).any():
        raise InputError(f"the array 'paths/{number}' has a path with a gap")
    support = require_array(arrays, f"support/{number}", np.int64, (len(paths),))
    confidence = require_array(arrays, f"confidence/{number}", np.float64, (len(paths),))
    return MinedFormulas(index.labels, paths, support, confidence)


def _bind_paths(mined: MinedFormulas, labels: Ints) -> tuple[MinedFormulas, Longs]:
    """The paths with labels of another numbering, sorted again, and the rows they come from."""
    renumbered = np.where(mined.paths < 0, -1, np.append(labels, -1)[mined.paths])
    possible = ((renumbered >= 0) == (mined.paths >= 0)).all(axis=1)
    rows: Longs = np.flatnonzero(possible)
    order: Longs = rows[np.lexsort(renumbered[rows].T[::-1])] if len(rows) else rows
    return (
        replace(
            mined,
            paths=freeze(renumbered[order].astype(np.int32)),
            support=freeze(mined.support[order]),
            confidence=freeze(mined.confidence[order]),
        ),
        order,
    )


def _check_range(name: str, numbers: Ints, end: int) -> None:
    if numbers.size and (numbers.min() < 0 or numbers.max() >= end):
        raise InputError(f"the array {name!r} has numbers outside of 0 to {end - 1}")
