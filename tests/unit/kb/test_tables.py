"""The canonical form: rows sorted and once, by whichever way they are sorted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.kb.tables import (
    NameEncoder,
    RawFacts,
    SortedNames,
    build_tables,
    find_invalid_name,
    fingerprint,
    unique_rows,
)
from kbs import names

rows_of = st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[st.integers(0, 6)] * width), max_size=20))


@pytest.mark.parametrize("size", [7, 2**31], ids=["packed", "too wide to pack"])
@given(rows=rows_of, weights=st.lists(st.floats(0, 1), min_size=20, max_size=20), weighted=st.booleans())
def test_distinct_rows_are_a_sorted_dictionary(size: int, rows, weights: list[float], weighted: bool) -> None:  # type: ignore[no-untyped-def]
    width = len(rows[0]) if rows else 1
    columns = [np.array([row[place] for row in rows], np.int32) for place in range(width)]
    expected: dict[tuple[int, ...], float] = {}
    for row, weight in zip(rows, weights, strict=False):
        expected[row] = max(weight, expected.get(row, 0))
    found = unique_rows(columns, [size] * width, np.array(weights[: len(rows)]) if weighted else None)
    assert [tuple(row) for row in np.stack(found.columns, axis=1).tolist()] == sorted(expected)
    assert found.duplicates == len(rows) - len(expected)
    assert (found.example is None) == (found.duplicates == 0)
    assert found.example is None or rows.count(found.example) > 1
    if weighted:
        assert found.weight is not None
        assert found.weight.tolist() == [expected[row] for row in sorted(expected)]


@given(st.lists(names), names)
def test_names_are_sorted_by_code_point_and_found(texts: list[str], other: str) -> None:
    known = SortedNames(texts)
    assert list(known) == sorted(set(texts))
    assert [known.find(name) for name in known] == list(range(len(known)))
    assert (other in known) == (other in texts)
    assert known == SortedNames(texts[::-1])
    assert hash(known) == hash(SortedNames(texts[::-1]))
    assert known[1:] == tuple(sorted(set(texts)))[1:]


def test_names_print_short() -> None:
    assert repr(SortedNames("abcde")) == "SortedNames('a', 'b', 'c', … 5)"
    assert repr(SortedNames("ab")) == "SortedNames('a', 'b')"
    assert "c" not in SortedNames("ab")


def test_an_encoder_returns_its_new_names() -> None:
    index = NameEncoder()
    assert index.encode(["b", "a", "b"]).tolist() == [0, 1, 0]
    assert index.take_new() == ["b", "a"]
    assert index.encode(["c", "a"]).tolist() == [2, 1]
    assert index.take_new() == ["c"]
    assert index.take_new() == []


@pytest.mark.parametrize(("name", "reason"), [("", "empty"), ("a\0", "NUL"), ("\udc00", "surrogate")])
def test_invalid_names(name: str, reason: str) -> None:
    found = find_invalid_name(["fine", "é", name])
    assert found
    assert found[0] == name
    assert reason in found[1]
    assert find_invalid_name(["fine", "é"]) is None


def test_raw_facts_become_tables_over_sorted_names() -> None:
    raw = RawFacts(["z", "y", "x"], ["s", "r"], [1, 2], ["w", "v"])
    raw.add_facts(np.array([1], np.int32), np.array([[0, 2]], np.int32), np.array([0.5]))
    raw.add_facts(np.array([0, 0], np.int32), np.array([[1], [1]], np.int32))
    one = np.array([1], np.int32)
    raw.values = [(one, one, np.array([1.5])), (one, one, np.array([2.5]))]
    tables, dropped = build_tables(raw)
    assert (list(tables.objects), list(tables.relations), tables.arities) == (["x", "y", "z"], ["r", "s"], (2, 1))
    assert list(tables.attributes) == ["v", "w"]
    assert tables.facts[2].objects.tolist() == [[2, 0]]
    assert tables.facts[2].starts.tolist() == [0, 1, 1]
    assert tables.facts[1].starts.tolist() == [0, 0, 1]
    assert tables.facts[1].confidence is None
    assert (tables.values.attribute.tolist(), tables.values.objects.tolist()) == ([0], [1])
    assert tables.values.value.tolist() == [2.5]
    assert (dropped.fact_count, dropped.example_fact, dropped.value_count, dropped.example_value) == (
        1,
        (1, 1),
        1,
        (0, 1),
    )


def test_rows_are_found_by_bisection() -> None:
    raw = RawFacts([f"{number:02}" for number in range(50)], ["r", "s"], [2, 2])
    pairs = np.array([(a, b) for a in range(50) for b in range(0, 50, 7)], np.int32)
    raw.add_facts(np.tile(np.array([0, 1], np.int32), len(pairs) // 2), pairs[: len(pairs) // 2 * 2])
    facts = build_tables(raw)[0].facts[2]
    for row in range(len(facts)):
        assert facts.find(int(facts.relation[row]), facts.objects[row].tolist()) == row
    assert facts.find(0, [0, 1]) is None
    assert facts.find(1, [49, 48]) is None
    assert facts.rows_with_object(3).tolist() == [r for r in range(len(facts)) if 3 in facts.objects[r]]


def test_the_fingerprint_is_not_fooled_by_where_names_end() -> None:
    def of(objects: list[str], relations: list[str]) -> str:
        return fingerprint(build_tables(RawFacts(objects, relations, [1] * len(relations)))[0])

    found = {
        of(["a", "b"], ["c"]),
        of(["a"], ["b", "c"]),
        of(["ab"], ["c"]),
        of(["a", "bc"], []),
        of(["a", "b", "c"], []),
    }
    assert len(found) == 5
