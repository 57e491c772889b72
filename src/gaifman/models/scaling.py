r"""Feature scaling: from feature values to the columns of a base model.

>>> import gaifman
>>> from gaifman.features.compiler import compile_features
>>> from gaifman.features.evaluator import FeatureEvaluator
>>> from gaifman.features.feature_sets import parse_phi
>>> from gaifman.kb.gaifman_graph import build_graph
>>> from gaifman.sampling.neighbourhoods import SamplingConfig
>>> kb = gaifman.KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "ann", "cleo"), ("likes", "bob", "ann")])
>>> plan = compile_features(parse_phi("likes(s1, x)\nlikes(s1, 'dan')\nlikes(s1, s2)"), kb, 2)
>>> evaluator = FeatureEvaluator(build_graph(kb), plan)
>>> matrix = evaluator.sample_and_evaluate([[0, 1], [1, 0], [2, 0]], SamplingConfig(size=None))
>>> statistics = FeatureStatistics(feature_kinds(plan.features))
>>> statistics.update(matrix)
>>> scaler = statistics.make_scaler(min_feature_count=1)
>>> scaler.columns.tolist(), scaler.transform(matrix).columns.tolist()
([0, -1, 1], [0, 1, 0, 1])

A feature that never occurs in training has no column. A truth value is 0 or 1. A count c becomes log(1 + c), scaled to
a mean square of 1 over its non-zero values. A number is centred as well. The feature's default, its value in a
neighbourhood of the same size without facts, is subtracted first, so an absent feature is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.features.evaluator import FeatureMatrix, Reals
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
from gaifman.logic.ast import Aggregate, Attribute, Difference, Feature, free_variables, query_position
from gaifman.models.base import SparseRows

KIND_NAMES = {TRUTH: "truth", COUNT: "count", NUMBER: "number"}


def feature_kind(feature: Feature) -> int:
    """Return whether a feature is a truth value, a count or a number.

    >>> from gaifman.logic.parser import parse_feature
    >>> texts = ("r(s1, s2)", "r(s1, x)", "count r(s1, x)", "mean age(x) for r(s1, x)", "age(s1) - age(s2)")
    >>> [KIND_NAMES[feature_kind(parse_feature(text))] for text in texts]
    ['truth', 'count', 'count', 'number', 'number']
    """
    body = feature.body
    if isinstance(body, Aggregate):
        return COUNT if body.kind == "count" else NUMBER
    if isinstance(body, Attribute | Difference):
        return NUMBER
    return TRUTH if all(query_position(variable) for variable in free_variables(body)) else COUNT


@dataclass(frozen=True, slots=True)
class FeatureScaler:
    """Maps features to scaled columns."""

    columns: Ints
    """Shape (features,), int32: the column of each feature, ascending; −1 if it has none."""
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
        return Scales(*map(freeze, (self.columns, self.kinds, self.centres, self.scales)))

    def features(self) -> Longs:
        """Return the feature of each column."""
        return np.flatnonzero(self.columns >= 0)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return arrays by name, for model files; the kinds follow from the features."""
        return {"features": self.features().astype(np.int32), "centres": self.centres, "scales": self.scales}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], kinds: Ints) -> FeatureScaler:
        """Load what `arrays` returned, for features of these kinds."""
        columns = np.full(len(kinds), -1, np.int32)
        columns[arrays["features"]] = np.arange(len(arrays["features"]), dtype=np.int32)
        return cls(columns, kinds, arrays["centres"], arrays["scales"])


def feature_kinds(features: Sequence[Feature]) -> Ints:
    """Return the kind of each feature."""
    return np.array([feature_kind(feature) for feature in features], np.int32)


class FeatureStatistics:
    """Counts and moments of feature values, collected before training."""

    def __init__(self, kinds: Ints) -> None:
        self.kinds, count = kinds, len(kinds)
        self._sums = Moments(np.zeros(count, np.int64), np.zeros(count), np.zeros(count))

    def update(self, matrix: FeatureMatrix) -> None:
        """Add the values of a matrix."""
        accumulate_moments(_matrix_arrays(matrix), freeze(self.kinds), self._sums)

    def make_scaler(self, min_feature_count: int) -> FeatureScaler:
        """Return a scaler with a column for each feature that differs from its default often enough."""
        chosen = np.flatnonzero(self._sums.counts >= max(min_feature_count, 1))
        columns = np.full(len(self.kinds), -1, np.int32)
        columns[chosen] = np.arange(len(chosen), dtype=np.int32)
        count, kinds = self._sums.counts[chosen], self.kinds[chosen]
        mean, square = self._sums.sums[chosen] / count, self._sums.squares[chosen] / count
        centres = np.where(kinds == NUMBER, mean, 0.0)
        spread = np.sqrt(np.maximum(square - centres**2, 0.0))
        scales = np.where((kinds == TRUTH) | (spread < 1e-6), 1.0, spread)
        return FeatureScaler(columns, self.kinds, centres.astype(np.float32), scales.astype(np.float32))


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
