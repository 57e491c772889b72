"""Features into inputs: every row equals what the dense matrix gives, by the definition."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaifman.config import SamplingConfig
from gaifman.features.compiler import FeaturePlan, compile_features
from gaifman.features.evaluator import FeatureEvaluator, FeatureMatrix
from gaifman.features.feature_sets import FeatureSet, parse_phi
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kernels.inputs import COUNT, NUMBER, TRUTH
from gaifman.logic.parser import parse_feature
from gaifman.models.base import SparseRows
from gaifman.models.mlp import MLP
from gaifman.models.scaling import KIND_NAMES, FeatureScaler, FeatureStatistics, feature_kind, feature_kinds
from long_features import features, hide, knowledge

Dense = npt.NDArray[np.float64]

_USUAL = (
    "not r(s1, s2)|forall x. r(s1, x) -> q(x)|count not r(s1, x)|not r(x, s2)|forall x, y. r(x, y) -> r(y, x)|"
    "not exists x. r(s1, x) & r(x, s2)|count not p(x) & not q(x)|s1 = x or r(s1, x)"
)
USUAL = [parse_feature(text) for text in _USUAL.split("|")]
"""Features that are other than 0 in a neighbourhood without facts."""


def case(seed: int, count: int = 12, rows: int = 14) -> tuple[FeaturePlan, FeatureMatrix]:
    """Random features of every kind in neighbourhoods of a random knowledge base."""
    rng = random.Random(seed)
    kb = knowledge(rng)
    graph = build_graph(kb)
    plan = compile_features(FeatureSet((*features(rng, 2, count).features, *rng.sample(USUAL, 3))), kb, 2)
    tuples = [[rng.randrange(len(graph)) for _ in range(2)] for _ in range(rows)]
    hidden = hide(rng, graph, rows)
    sampling = SamplingConfig(rng.randint(0, 2), rng.choice([1, 4, 9, None]), draws=2, seed=seed)
    return plan, FeatureEvaluator(graph, plan).sample_and_evaluate(tuples, sampling, hidden)


def surveyed(plan: FeaturePlan, *matrices: FeatureMatrix, rare: int = 1) -> FeatureScaler:
    surveyor = FeatureStatistics(feature_kinds(plan.features))
    for matrix in matrices:
        surveyor.update(matrix)
    return surveyor.make_scaler(rare)


def away(plan: FeaturePlan, matrix: FeatureMatrix) -> Dense:
    """Shape (rows, features): how far each value is from its default, NaN if missing; counts and numbers are bent."""
    dense, default = matrix.to_dense().astype(np.float64), np.zeros(matrix.to_dense().shape)
    for feature, shape in enumerate(matrix.default_rows.tolist()):
        if shape >= 0:
            default[:, feature] = matrix.defaults[shape, matrix.sizes]
    bending = [feature_kind(feature) != TRUTH for feature in plan.features]
    for array in (dense, default):
        array[:, bending] = np.sign(array[:, bending]) * np.log1p(np.abs(array[:, bending]))
    return dense - default


def seen(plan: FeaturePlan, matrix: FeatureMatrix) -> npt.NDArray[np.bool_]:
    """Shape (rows, features): whether a number is known, or another feature differs from its default."""
    far = away(plan, matrix)
    return np.where(feature_kinds(plan.features) == NUMBER, ~np.isnan(far), far != 0)


def unpacked(rows: SparseRows) -> Dense:
    whole = np.zeros((len(rows), rows.width))
    whole[np.repeat(np.arange(len(rows)), np.diff(rows.starts)), rows.columns] = rows.values
    return whole


def plain(plan: FeaturePlan, inputs: FeatureScaler, matrix: FeatureMatrix) -> Dense:
    """The inputs by their definition."""
    far, there = away(plan, matrix)[:, inputs.features()], seen(plan, matrix)[:, inputs.features()]
    known = np.isin(np.arange(inputs.width), inputs.known_columns)
    return np.where(there, np.where(known, 1.0, (far - inputs.centres) / inputs.scales), 0)


# Kinds

KIND = {
    "r(s1, s2)": TRUTH,
    "exists x. r(s1, x)": TRUTH,
    "forall x. r(s1, x)": TRUTH,
    "not r(s1, s2)": TRUTH,
    "true": TRUTH,
    "age(s1) > 3": TRUTH,
    "r(s1, x)": COUNT,
    "not r(s1, x)": COUNT,
    "count r(s1, x)": COUNT,
    "count r(s1, s2)": COUNT,
    "age(s1)": NUMBER,
    "age(s1) - age(s2)": NUMBER,
    "mean age(x) for r(s1, x)": NUMBER,
    "sum age(x) for r(s1, x)": COUNT,
    "count age(x) for r(s1, x)": COUNT,
    "min age(x) for r(s1, x)": NUMBER,
    "max age(x) for r(s1, x)": NUMBER,
    "count r(s1, x) - count r(x, s1)": COUNT,
    "count r(s1, x) - age(s2)": NUMBER,
}


@pytest.mark.parametrize("text", KIND)
def test_every_feature_has_its_kind(text: str) -> None:
    kb = KnowledgeBase.from_facts([("r", "a", "b")], {("age", "a"): 3.0})
    feature = parse_feature(text, kb)
    assert feature_kind(feature) == KIND[text]
    assert feature_kinds([feature, feature]).tolist() == [KIND[text]] * 2


def test_kinds_have_names() -> None:
    assert [KIND_NAMES[kind] for kind in (TRUTH, COUNT, NUMBER)] == ["truth", "count", "number"]


# Numbers


def numbers(*values: float | None) -> tuple[FeaturePlan, FeatureMatrix]:
    """The attribute of some objects, one row each; None for a missing value."""
    names = [f"o{i}" for i in range(len(values))]
    known = {("age", name): value for name, value in zip(names, values, strict=True) if value is not None}
    kb = KnowledgeBase.from_facts([], known, names)
    plan = compile_features(parse_phi("age(s1)", kb), kb, 1)
    tuples = np.arange(len(values), dtype=np.int32)[:, None]
    return plan, FeatureEvaluator(build_graph(kb), plan).sample_and_evaluate(tuples, SamplingConfig())


def test_a_number_that_is_0_is_not_missing() -> None:
    """It was no entry, as a missing one, and its input 0, the mean of the others."""
    plan, matrix = numbers(0.0, 1.0, None, 0.0)
    assert matrix.values.tolist() == [0, 1, 0]
    assert np.isnan(matrix.to_dense()[:, 0]).tolist() == [False, False, True, False]
    inputs = surveyed(plan, matrix)
    found = unpacked(inputs.transform(matrix))
    assert found[:, 1].tolist() == [1, 1, 0, 1]
    assert found[0, 0] == found[3, 0] < 0 < found[1, 0]
    assert found[2, 0] == 0


def test_numbers_are_centred_over_the_known_ones() -> None:
    plan, matrix = numbers(*[0.0] * 3, *[None] * 50, *[7.0] * 3)
    inputs = surveyed(plan, matrix)
    assert inputs.centres[0] == pytest.approx(np.log(8) / 2)
    assert np.unique(unpacked(inputs.transform(matrix))[:, 0]) == pytest.approx([-1, 0, 1])


def test_the_mean_is_told_from_a_missing_number() -> None:
    plan, matrix = numbers(1.0, 1.0, None, 1.0)
    found = unpacked(surveyed(plan, matrix).transform(matrix))
    assert found == pytest.approx(np.array([[0, 1], [0, 1], [0, 0], [0, 1]]), abs=1e-6)


def test_a_number_that_is_always_known_needs_no_second_column() -> None:
    plan, matrix = numbers(0.0, 1.0, 2.0)
    inputs = surveyed(plan, matrix)
    assert (inputs.width, inputs.known_columns.tolist()) == (1, [-1])
    _, missing = numbers(None, 1.0, None)
    assert unpacked(inputs.transform(missing))[[0, 2]].tolist() == [[0], [0]], "the mean"


def test_a_sum_of_nothing_is_0_and_not_missing() -> None:
    kb = KnowledgeBase.from_facts([("r", "a", "b"), ("r", "b", "c")], {("age", "b"): -2.0, ("age", "c"): 2.0})
    plan = compile_features(parse_phi("sum age(x) for r(s1, x)\nmean age(x) for r(s1, x)", kb), kb, 1)
    matrix = FeatureEvaluator(build_graph(kb), plan).sample_and_evaluate([[0], [1], [2]], SamplingConfig())
    found = matrix.to_dense()
    assert found[:, 0].tolist() == [-2, 2, 0]
    assert found[:2, 1].tolist() == [-2, 2]
    assert np.isnan(found[2, 1])
    inputs = unpacked(surveyed(plan, matrix).transform(matrix))
    assert inputs == pytest.approx(np.array([[-1, -1, 1], [1, 1, 1], [0, 0, 0]]))


# Rows


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_rows_are_what_the_dense_matrix_gives(seed: int) -> None:
    plan, matrix = case(seed)
    inputs = surveyed(plan, matrix)
    rows = inputs.transform(matrix)
    assert rows.width == inputs.width == len(inputs.features())
    assert np.abs(unpacked(rows) - plain(plan, inputs, matrix)).max(initial=0) < 1e-4
    assert np.isfinite(rows.values).all()
    assert (rows.values != 0).all()
    for i in range(len(rows)):
        assert (np.diff(rows.columns[rows.starts[i] : rows.starts[i + 1]]) > 0).all(), "columns ascend"


def test_random_cases_have_features_of_every_kind_and_defaults_other_than_0() -> None:
    """What the test above is worth."""
    kinds, defaults, changed = set(), 0, 0
    for seed in range(30):
        plan, matrix = case(seed)
        inputs = surveyed(plan, matrix)
        kinds |= set(inputs.kinds[inputs.features()].tolist())
        usual = matrix.defaults[:, np.unique(matrix.sizes)] if len(matrix.defaults) else np.zeros((0, 1))
        other = np.flatnonzero((usual != 0).any(axis=1))
        defaults += len(other)
        changed += int(np.isin(matrix.default_rows[inputs.features()], other).sum())
    assert kinds == {TRUTH, COUNT, NUMBER}
    assert defaults > 40
    assert changed > 40


def test_an_absent_feature_is_0_whatever_its_default() -> None:
    kb = KnowledgeBase.from_facts([("r", "a", "b"), ("r", "c", "d"), ("q", "a", "b")])
    plan = compile_features(parse_phi("forall x. q(s1, x) -> r(x, s1)\nnot q(s1, s2)\ncount not r(s1, x)"), kb, 2)
    tuples = [[kb.object_id(x) for x in pair] for pair in (("a", "b"), ("c", "d"))]
    matrix = FeatureEvaluator(build_graph(kb), plan).sample_and_evaluate(tuples, SamplingConfig(size=None))
    assert matrix.to_dense().tolist() == [[0, 0, 1], [1, 1, 1]]
    inputs = surveyed(plan, matrix)
    found = unpacked(inputs.transform(matrix))
    assert found[:, :2].tolist() == [[-1, -1], [0, 0]]
    assert found[:, 2] == pytest.approx([-1, -1]), "one less than both of a neighbourhood without facts"


def test_a_count_that_is_its_default_is_absent() -> None:
    """Compiled, its logarithm was once taken in float32 and the default's in float64: they differed by 4 · 10⁻⁹."""
    sizes, values = np.array([1, 2], np.int32), np.array([2, 3], np.float32)
    defaults = np.array([[0, 2, 3]], np.float32)
    matrix = FeatureMatrix(np.arange(3), np.zeros(2, np.int32), values, sizes, np.zeros(1, np.int32), defaults)
    surveyor = FeatureStatistics(feature_kinds([parse_feature("r(s1, x)")]))
    surveyor.update(matrix)
    assert surveyor.make_scaler(1).width == 0
    given = FeatureScaler(
        np.zeros(1, np.int32),
        np.full(1, -1, np.int32),
        surveyor.kinds,
        np.zeros(1, np.float32),
        np.ones(1, np.float32),
    )
    assert len(given.transform(matrix).columns) == 0


def test_numbers_too_large_for_float32_are_inputs_like_others() -> None:
    """They were infinite, and made the whole network so."""
    values = {("age", "a"): 1e300, ("age", "b"): -1e300, ("age", "c"): 5.0}
    kb = KnowledgeBase.from_facts([("r", "a", "b"), ("r", "b", "c"), ("r", "c", "a")], values)
    plan = compile_features(parse_phi("age(s1)\nsum age(x) for r(s1, x)\nage(s1) - age(s2)", kb), kb, 2)
    matrix = FeatureEvaluator(build_graph(kb), plan).sample_and_evaluate(
        [[0, 1], [1, 2], [2, 0]], SamplingConfig(size=None)
    )
    assert np.isinf(matrix.values).any()
    inputs = surveyed(plan, matrix)
    rows = inputs.transform(matrix)
    assert inputs.width == 3
    assert np.abs(rows.values).max() < 2
    network = MLP([3])
    network.reset(3, 0)
    assert np.isfinite(network.probabilities(rows)).all()


# Which rows


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 27), max_size=80))
def test_rows_come_in_the_order_that_is_asked_for_also_more_than_once(seed: int, order: list[int]) -> None:
    plan, matrix = case(seed)
    inputs = surveyed(plan, matrix)
    found = inputs.transform(matrix, np.array(order, np.int64))
    assert len(found) == len(order)
    assert unpacked(found).tolist() == unpacked(inputs.transform(matrix))[order].tolist()


def test_the_fullest_row_again_and_again_has_room() -> None:
    """As many rows as there are, but all of them the longest: their entries are more than the matrix has."""
    starts = np.array([0, 50, 50, 50, 50], np.int64)
    ids, values = np.arange(50, dtype=np.int32), np.ones(50, np.float32)
    none, nowhere = np.full(50, -1, np.int32), np.zeros((0, 2), np.float32)
    matrix = FeatureMatrix(starts, ids, values, np.ones(4, np.int32), none, nowhere)
    surveyor = FeatureStatistics(feature_kinds([parse_feature("r(s1, s2)")] * 50))
    surveyor.update(matrix)
    rows = surveyor.make_scaler(1).transform(matrix, np.zeros(4, np.int32))
    assert rows.starts.tolist() == [0, 50, 100, 150, 200]
    assert rows.columns.tolist() == [*range(50)] * 4
    with pytest.raises(IndexError):
        surveyor.make_scaler(1).transform(matrix, np.array([4]))


def test_no_rows_and_no_features_are_right_too() -> None:
    plan, matrix = case(3)
    inputs = surveyed(plan, matrix)
    none = inputs.transform(matrix, np.zeros(0, np.int64))
    assert (len(none), len(none.columns), none.width) == (0, 0, inputs.width)
    bare = FeatureStatistics(feature_kinds(plan.features)).make_scaler(1)
    assert (bare.width, len(bare.transform(matrix)), len(bare.transform(matrix).columns)) == (0, len(matrix), 0)


# What is surveyed


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(0, 12))
def test_features_seen_less_often_than_rare_have_no_column(seed: int, rare: int) -> None:
    plan, matrix = case(seed)
    inputs = surveyed(plan, matrix, rare=rare)
    counts, numbers = seen(plan, matrix).sum(axis=0), feature_kinds(plan.features) == NUMBER
    assert np.unique(inputs.features()).tolist() == np.flatnonzero(counts >= max(rare, 1)).tolist()
    missing = numbers & (counts >= max(rare, 1)) & (len(matrix) - counts >= max(rare, 1))
    assert np.flatnonzero(inputs.known_columns >= 0).tolist() == np.flatnonzero(missing).tolist()
    kept = [inputs.columns[inputs.columns >= 0], inputs.known_columns[inputs.known_columns >= 0]]
    assert sorted(np.concatenate(kept).tolist()) == [*range(inputs.width)]
    assert (inputs.known_columns[missing] == inputs.columns[missing] + 1).all()


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_counts_and_numbers_are_standardised_where_they_are(seed: int) -> None:
    plan, matrix = case(seed, rows=30)
    inputs = surveyed(plan, matrix)
    far, found = away(plan, matrix), unpacked(inputs.transform(matrix))
    for feature in np.flatnonzero(inputs.columns >= 0).tolist():
        rows = seen(plan, matrix)[:, feature]
        there, kind = found[rows, inputs.columns[feature]], inputs.kinds[feature]
        assert len(there)
        if inputs.known_columns[feature] >= 0:
            assert found[:, inputs.known_columns[feature]].tolist() == rows.tolist()
        if kind == TRUTH:
            assert set(np.abs(there).tolist()) == {1.0}
        elif kind == COUNT:
            assert (there**2).mean() == pytest.approx(1, abs=1e-3)
        else:
            assert there.mean() == pytest.approx(0, abs=1e-3)
            same = np.ptp(far[rows, feature]) < 1e-5
            assert there.var() == pytest.approx(0 if same else 1, abs=1e-3)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 27))
def test_it_does_not_matter_in_how_many_parts_they_are_seen(seed: int, cut: int) -> None:
    plan, matrix = case(seed)
    whole, parts = surveyed(plan, matrix), surveyed(plan, part(matrix, 0, cut), part(matrix, cut, len(matrix)))
    assert whole.columns.tolist() == parts.columns.tolist()
    assert whole.centres == pytest.approx(parts.centres, rel=1e-5, abs=1e-6)
    assert whole.scales == pytest.approx(parts.scales, rel=1e-5)


def part(matrix: FeatureMatrix, begin: int, end: int) -> FeatureMatrix:
    first, last = matrix.starts[begin], matrix.starts[end]
    return replace(
        matrix,
        starts=matrix.starts[begin : end + 1] - first,
        ids=matrix.ids[first:last],
        values=matrix.values[first:last],
        sizes=matrix.sizes[begin:end],
    )


# Files


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_arrays_give_the_same_inputs_back(seed: int, rare: int) -> None:
    plan, matrix = case(seed)
    inputs = surveyed(plan, matrix, rare=rare)
    arrays = inputs.arrays()
    assert {name: array.dtype.name for name, array in arrays.items()} == {
        "features": "int32",
        "centres": "float32",
        "scales": "float32",
    }
    again = FeatureScaler.from_arrays(arrays, feature_kinds(plan.features))
    for one, other in zip(fields(inputs), fields(again), strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()
    first, second = inputs.transform(matrix), again.transform(matrix)
    assert first.values.tobytes() == second.values.tobytes()
    assert first.columns.tobytes() == second.columns.tobytes()


def fields(inputs: FeatureScaler) -> list[npt.NDArray[np.generic]]:
    return [inputs.columns, inputs.known_columns, inputs.kinds, inputs.centres, inputs.scales]


def test_features_can_be_numbered_anew() -> None:
    """A file keeps only the features that have a column, and reads them as features 0, 1, 2 …"""
    plan, matrix = case(8)
    inputs = surveyed(plan, matrix, rare=2)
    used, numbered = np.unique(inputs.features(), return_inverse=True)
    own = [plan.features[feature] for feature in used.tolist()]
    arrays = inputs.arrays() | {"features": numbered.astype(np.int32)}
    again, selected = FeatureScaler.from_arrays(arrays, feature_kinds(own)), inputs.select(used)
    for one, other in zip(fields(again), fields(selected), strict=True):
        assert one.tolist() == other.tolist()
    assert again.columns.tolist() == inputs.columns[used].tolist()
    assert again.known_columns.tolist() == inputs.known_columns[used].tolist()
    assert again.kinds.tolist() == inputs.kinds[used].tolist()
    assert 0 < len(own) < len(plan.features)


def test_kinds_that_are_known_need_not_be_found_again() -> None:
    kinds = feature_kinds([parse_feature("r(s1, s2)"), parse_feature("r(s1, x)")])
    assert FeatureStatistics(kinds).kinds is kinds
    assert kinds.tolist() == [TRUTH, COUNT]
