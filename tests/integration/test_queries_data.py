"""The Query2box queries on FB15k-237; needs the folder named by GAIFMAN_DATA."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import q2b
from benchmark_data import DATA, NEEDED
from gaifman.queries.answers import count
from gaifman.queries.engine import Engine

EACH = 1_000

pytestmark = NEEDED


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """The training graph."""
    with Engine(q2b.graph(DATA)) as made:
        yield made


@pytest.mark.parametrize("shape", q2b.SHAPES)
def test_a_thousand_queries_of_each_shape_have_exactly_their_easy_answers(engine: Engine, shape: str) -> None:
    asked = list(q2b.queries(DATA, shape, EACH))
    assert len(asked) == EACH
    wrong = [query for query in asked if count(engine, query.text) != query.easy]
    assert not wrong, wrong[:3]


@pytest.mark.parametrize("shape", q2b.SHAPES)
def test_the_answers_themselves_are_as_many(engine: Engine, shape: str) -> None:
    from gaifman.queries.answers import answers

    for query in q2b.queries(DATA, shape, 20):
        found = answers(engine, query.text)
        assert len(found) == len(set(found)) == query.easy
        assert not found.prepared.statement.unrestricted
