"""Every result is a table for pandas, Arrow and polars."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import gaifman
from gaifman._tables import TableResult, csv_lines, json_lines
from gaifman.errors import InputError


@cache
def held_out() -> gaifman.KnowledgeBase:
    return gaifman.KnowledgeBase.from_facts([*gaifman.demo().facts("capital")][::9])


@cache
def visible() -> gaifman.KnowledgeBase:
    return gaifman.demo().without_facts(held_out().facts())


@cache
def completion() -> gaifman.Completion:
    return gaifman.complete(visible(), ["capital"], seed=1)


RESULTS: dict[str, Callable[[], TableResult]] = {
    "ranked answers": lambda: completion().answers("capital('france', y)", top=5),
    "exact answers": lambda: gaifman.query(gaifman.demo(), "borders('france', y)"),
    "a sentence": lambda: gaifman.query(gaifman.demo(), "exists x. borders('france', x)"),
    "evaluation": lambda: gaifman.evaluate(completion(), visible(), held_out()),
    "explanation": lambda: completion().explain("capital", "france", "paris"),
    "proposals": lambda: gaifman.measure_proposals(completion(), visible(), held_out()),
    "estimates": lambda: completion().probabilities("capital", [("france", "paris"), ("france", "lyon")]),
    "missing facts": lambda: completion().missing(0.2, why=True),
}


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_a_table_of_each_package(name: str) -> None:
    result = RESULTS[name]()
    columns = result.columns()
    rows = len(next(iter(columns.values())))
    assert rows > 0
    assert {len(values) for values in columns.values()} == {rows}
    pandas, arrow, polars = result.to_pandas(), result.to_arrow(), result.to_polars()
    assert list(pandas.columns) == arrow.column_names == polars.columns == [*columns]
    assert (len(pandas), arrow.num_rows, polars.height) == (rows, rows, rows)
    first = next(iter(columns))
    assert pandas[first].tolist() == arrow[first].to_pylist() == polars[first].to_list() == [*columns[first]]
    assert len(result.to_csv().splitlines()) == len(result.to_jsonl().splitlines()) + 1 == rows + 1


def test_the_numbers_are_those_of_the_result() -> None:
    answers = completion().answers("capital('france', y)", top=5)
    assert answers.columns()["y"] == [one.names[0] for one in answers]
    assert answers.columns()["probability"] == [one.probability for one in answers]
    evaluation = gaifman.evaluate(completion(), visible(), held_out())
    table = evaluation.to_pandas()
    overall = table[(table.candidates == "filtered") & (table.ties == "realistic") & (table.grouping == "all")]
    assert overall.mrr.tolist() == [evaluation.metrics().mrr.value]
    assert overall["hits@10_low"].tolist() == [evaluation.metrics().hits[10].low]
    explanation = completion().explain("capital", "france", "paris")
    assert explanation.columns()["effect"] == [reason.effect for reason in explanation.reasons]


def test_a_variable_may_have_the_name_of_a_column() -> None:
    answers = completion().answers("capital('france', probability)", top=2)
    assert [*answers.columns()][:2] == ["?probability", "probability"]


@pytest.mark.parametrize("package", ["pandas", "pyarrow", "polars"])
def test_a_missing_package_is_one_clear_error(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = RESULTS["exact answers"]()
    monkeypatch.setitem(sys.modules, package, None)
    convert: Callable[[], object] = {
        "pandas": result.to_pandas,
        "pyarrow": result.to_arrow,
        "polars": result.to_polars,
    }[package]
    with pytest.raises(InputError, match=f"{package} is not installed") as caught:
        convert()
    assert caught.value.hint == f"pip install {package}"


def test_text_keeps_what_numbers_and_names_are() -> None:
    columns: dict[str, list[Any]] = {"name": ['a,"b"', "c"], "p": [0.5, None], "n": [1000, 2]}
    assert "".join(csv_lines(columns)) == 'name,p,n\n"a,""b""",0.5,1000\nc,,2\n'
    assert [*json_lines(columns)][1] == '{"name": "c", "p": null, "n": 2}\n'
