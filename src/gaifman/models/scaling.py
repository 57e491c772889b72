r"""Feature scaling: from feature values to the columns of a base model.

>>> import gaifman
>>> from gaifman.features.compiler import compile_features
>>> from gaifman.features.evaluator import FeatureEvaluator
>>> from gaifman.features.feature_sets import parse_phi
>>> from gaifman.kb.gaifman_graph import build_graph
>>> from gaifman.config import SamplingConfig
>>> kb = gaifman.KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "ann", "cleo"), ("likes", "bob", "ann")])
>>> plan = compile_features(parse_phi("likes(s1, x)\nlikes(s1, 'dan')\nlikes(s1, s2)"), kb, 2)
>>> evaluator = FeatureEvaluator(build_graph(kb), plan)
>>> matrix = evaluator.sample_and_evaluate([[0, 1], [1, 0], [2, 0]], SamplingConfig(size=None))
>>> statistics = FeatureStatistics(feature_kinds(plan.features))
>>> statistics.update(matrix)
>>> scaler = statistics.make_scaler(min_feature_count=1)
>>> scaler.columns.tolist(), scaler.transform(matrix).columns.tolist()
([0, -1, 1], [0, 1, 0, 1])

A feature that never occurs in training has no column. A truth value is 0 or 1. A count or sum c becomes log(1 + c),
scaled to a mean square of 1 over its non-zero values. The feature's default, its value in a neighbourhood of the same
size without facts, is subtracted first, so an absent feature is 0.

A number that can be missing is centred as well, over its known values. If it is sometimes missing, a second column is 1
where it is known: then 0, the mean and a missing number are three different inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.errors import InputError
from gaifman.features.evaluator import FeatureMatrix, Reals
from gaifman.io.model_file import require_array
from gaifman.kb.tables import Ints, Longs, freeze
from gaifman.kernels.candidate_pairs import PairFeatures
from gaifman.kernels.inputs import (
    COUNT,
    NUMBER,
    TRUTH,
    FeatureArrays,
    Moments,
    Scales,
    accumulate_moments,
    write_inputs,
)
from gaifman.kernels.ranking import write_input_changes
from gaifman.logic.ast import Aggregate, Attribute, Difference, Feature, can_be_missing, free_variables, query_position
from gaifman.models.base import SparseRows

KIND_NAMES = {TRUTH: "truth", COUNT: "count", NUMBER: "number"}


def feature_kind(feature: Feature) -> int:
    """Return whether a feature is a truth value, a count (or sum), or a number that can be missing.

    >>> from gaifman.logic.parser import parse_feature
    >>> texts = ("r(s1, s2)", "r(s1, x)", "sum age(x) for r(s1, x)", "mean age(x) for r(s1, x)", "age(s1) - age(s2)")
    >>> [KIND_NAMES[feature_kind(parse_feature(text))] for text in texts]
    ['truth', 'count', 'count', 'number', 'number']
    """
    body = feature.body
    if isinstance(body, Aggregate | Attribute | Difference):
        return NUMBER if can_be_missing(body) else COUNT
    return TRUTH if all(query_position(variable) for variable in free_variables(body)) else COUNT


@dataclass(frozen=True, slots=True)
class FeatureScaler:
    """Maps features to scaled columns."""

    columns: Ints
    """Shape (features,), int32: the column of each feature, ascending; −1 if it has none."""
    known_columns: Ints
    """Shape (features,), int32: the column, after the feature's own, that is 1 where it is known; −1 for none."""
    kinds: Ints
    """Shape (features,), int32: the kind of each feature."""
    centres: Reals
    """Shape (columns,), float32: subtracted from the value."""
    scales: Reals
    """Shape (columns,), float32: then divides it."""

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.scales)

    def transform(self, matrix: FeatureMatrix, order: Longs | None = None) -> SparseRows:
        """Return the inputs of all neighbourhoods, or of some in the given order."""
        order = np.arange(len(matrix)) if order is None else np.asarray(order, np.int64)
        starts = np.zeros(len(order) + 1, np.int64)
        capacity = int((matrix.starts[order + 1] - matrix.starts[order]).sum())  # a row may come more than once
        capacity *= 2 if (self.known_columns >= 0).any() else 1
        columns, values = np.empty(capacity, np.int32), np.empty(capacity, np.float32)
        count = write_inputs(_matrix_arrays(matrix), freeze(order), self._scales(), starts, columns, values)
        return SparseRows(freeze(starts), freeze(columns[:count]), freeze(values[:count]), self.width)

    def transform_changes(self, more: PairFeatures) -> SparseRows:
        """Return the changes of the inputs by the features of pairs, see `gaifman.ranking.fast_scoring`."""
        starts = np.zeros(len(more.starts), np.int64)
        capacity = int(more.starts[-1])
        columns, values = np.empty(capacity, np.int32), np.empty(capacity, np.float32)
        write_input_changes(more, self._scales(), starts, columns, values)
        return SparseRows(freeze(starts), freeze(columns[: starts[-1]]), freeze(values[: starts[-1]]), self.width)

    def _scales(self) -> Scales:
        return Scales(*map(freeze, (self.columns, self.known_columns, self.kinds, self.centres, self.scales)))

    def features(self) -> Longs:
        """Return the feature of each column, ascending; twice for a feature with a column for whether it is known."""
        return np.repeat(np.arange(len(self.columns)), (self.columns >= 0).astype(np.int64) + (self.known_columns >= 0))

    def select(self, features: Longs) -> FeatureScaler:
        """Return the scaler for some features alone, ascending, which must be all that have a column."""
        return FeatureScaler(
            self.columns[features], self.known_columns[features], self.kinds[features], self.centres, self.scales
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return arrays by name, for model files: of each column the feature, centre and scale.

        The kinds follow from the features. If a feature comes twice, its second column says whether it is known.
        """
        return {"features": self.features().astype(np.int32), "centres": self.centres, "scales": self.scales}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], kinds: Ints) -> FeatureScaler:
        """Load what `arrays` returned, for features of these kinds."""
        of_columns = require_array(arrays, "features", np.int32, (None,))
        centres, scales = (require_array(arrays, name, np.float32, of_columns.shape) for name in ("centres", "scales"))
        features, first, counts = np.unique(of_columns, return_index=True, return_counts=True)
        second = np.diff(of_columns, prepend=-1) == 0
        rising = (np.diff(of_columns) >= 0).all() and (features >= 0).all() and (features < len(kinds)).all()
        if not rising or not (scales > 0).all():
            raise InputError(f"features must be ascending numbers below {len(kinds):,}, and their scales above 0")
        if (counts > 1 + (kinds[features] == NUMBER)).any():
            raise InputError("only a number has a second column, for whether it is known")
        columns, known_columns = np.full(len(kinds), -1, np.int32), np.full(len(kinds), -1, np.int32)
        columns[features], known_columns[of_columns[second]] = first, np.flatnonzero(second)
        return cls(columns, known_columns, kinds, centres, scales)


def feature_kinds(features: Sequence[Feature]) -> Ints:
    """Return the kind of each feature."""
    return np.array([feature_kind(feature) for feature in features], np.int32)


class FeatureStatistics:
    """Counts and moments of feature values, collected before training."""

    def __init__(self, kinds: Ints) -> None:
        self.kinds, self._rows, count = kinds, 0, len(kinds)
        self._sums = Moments(np.zeros(count, np.int64), np.zeros(count), np.zeros(count))

    def update(self, matrix: FeatureMatrix) -> None:
        """Add the values of a matrix."""
        self._rows += len(matrix)
        accumulate_moments(_matrix_arrays(matrix), freeze(self.kinds), self._sums)

    def make_scaler(self, min_feature_count: int) -> FeatureScaler:
        """Return a scaler with a column for each feature that differs from its default, or is known, often enough.

        A number that is missing as often has a second column.
        """
        least = max(min_feature_count, 1)
        has_column = self._sums.counts >= least
        has_known_column = has_column & (self.kinds == NUMBER) & (self._rows - self._sums.counts >= least)
        chosen, ends = np.flatnonzero(has_column), np.cumsum(has_column.astype(np.int32) + has_known_column)
        columns = np.where(has_column, ends - 1 - has_known_column, -1).astype(np.int32)
        known_columns = np.where(has_known_column, ends - 1, -1).astype(np.int32)
        count, kinds = self._sums.counts[chosen], self.kinds[chosen]
        mean, square = self._sums.sums[chosen] / count, self._sums.squares[chosen] / count
        centres = np.where(kinds == NUMBER, mean, 0.0)
        spread = np.sqrt(np.maximum(square - centres**2, 0.0))
        scales = np.where((kinds == TRUTH) | (spread < 1e-6), 1.0, spread)
        width = int(ends[-1]) if len(ends) else 0
        all_centres, all_scales = np.zeros(width, np.float32), np.ones(width, np.float32)
        all_centres[columns[chosen]], all_scales[columns[chosen]] = centres, scales
        return FeatureScaler(columns, known_columns, self.kinds, all_centres, all_scales)


def _matrix_arrays(matrix: FeatureMatrix) -> FeatureArrays:
    fields: tuple[npt.NDArray[Any], ...] = (
        matrix.starts,
        matrix.ids,
        matrix.values,
        matrix.sizes,
        matrix.default_rows,
        matrix.defaults,
    )
    return FeatureArrays(*(freeze(array) for array in fields))
