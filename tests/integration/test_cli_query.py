"""`gaifman query`: answers as a table, as JSON, as lines; the SQL; what it says to bad input."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

import gaifman
from cli_runner import output, run

GRANDPARENT = "grandparent(x, y) :- parent(x, z), parent(z, y)"


@pytest.fixture
def family(tmp_path: Path) -> str:
    """Three generations."""
    path = tmp_path / "family.tsv"
    path.write_text("ann\tparent\tbob\nbob\tparent\tcleo\nbob\tparent\tdan\nann\tparent\tbea\n")
    return str(path)


def test_a_table_with_the_bracketed_reading(family: str) -> None:
    text = output("query", family, GRANDPARENT, "--bind", "x=ann")
    assert "read as  grandparent(x, y) :- ∃z (parent(x, z) ∧ parent(z, y))\n" in text
    assert "answers  2\n" in text
    assert [line.split() for line in text.splitlines()[-2:]] == [["ann", "cleo"], ["ann", "dan"]]


def test_json_has_all_of_it(family: str) -> None:
    body = json.loads(output("query", family, GRANDPARENT, "--bind", "x=ann", "--json", "--rows", "1"))
    assert body == {
        "query": "grandparent(x, y) :- ∃z parent(x, z) ∧ parent(z, y)",
        "bracketed": "grandparent(x, y) :- ∃z (parent(x, z) ∧ parent(z, y))",
        "variables": ["x", "y"],
        "bindings": {"x": "ann"},
        "unrestricted": [],
        "combinations": 1,
        "answers": [["ann", "cleo"]],
        "skipped": 0,
        "truncated": True,
    }


def test_the_facts_behind_an_answer(family: str) -> None:
    assert "parent(ann, bob). parent(bob, cleo)." in output("query", family, GRANDPARENT, "--why")
    body = json.loads(output("query", family, "exists z. parent(x, z)", "--why", "--json"))
    assert body["witnesses"][0] == [["parent(ann, bea)."], ["parent(ann, bob)."]]
    assert "no single fact" in output("query", family, "x = 'ann'", "--why")


def test_a_sentence_is_true_or_false(family: str) -> None:
    assert "answer   true" in output("query", family, "exists x. parent(x, 'dan')")
    assert "answer   false" in output("query", family, "parent('dan', 'ann')")


def test_counting_and_pages(family: str) -> None:
    assert "answers  4" in output("query", family, "parent(x, y)", "--count")
    assert json.loads(output("query", family, "parent(x, y)", "--count", "--json"))["count"] == 4
    done = run("query", family, "parent(x, y)", "--rows", "2", "--skip", "1")
    assert "answers  2 (more exist)" in done.stdout
    assert "--skip 3 for the next" in done.stderr
    assert "answers  1\n" in output("query", family, "parent(x, y)", "--rows", "2", "--skip", "3")


def test_lines_between_tabs(family: str) -> None:
    lines = output("query", family, "parent(x, y)", "--tsv", "--rows", "all")
    assert lines == "ann\tbea\nann\tbob\nbob\tcleo\nbob\tdan\n"
    assert output("query", family, "parent(x, y)", "--tsv", "--skip", "1", "--rows", "1") == "ann\tbob\n"
    assert output("query", family, "parent(x, x)", "--tsv") == ""


def test_long_tables_count_the_rows_left_out() -> None:
    text = output("query", "demo", "borders(x, y)", "--rows", "150")
    assert "… 50 more answers (--tsv and --json print them)" in text


def test_the_sql_runs_unchanged_on_the_saved_file(family: str, tmp_path: Path) -> None:
    saved = str(tmp_path / "family.duckdb")
    output("convert", family, saved)
    for options in ([], ["--rows", "1"], ["--skip", "1"], ["--bind", "x=ann"]):
        sql = output("query", saved, GRANDPARENT, "--sql", *options)
        body = json.loads(output("query", saved, GRANDPARENT, "--json", *options))
        names = "SELECT a.name, b.name FROM answers JOIN objects a ON a.id = x JOIN objects b ON b.id = y ORDER BY x, y"
        with duckdb.connect(saved, read_only=True) as connection:
            wrapped = f"WITH answers AS ({sql.rstrip().rstrip(';')}) {names}"
            assert [list(row) for row in connection.execute(wrapped).fetchall()] == body["answers"]
            connection.execute(sql)
    assert json.loads(output("query", saved, GRANDPARENT, "--sql", "--json"))["sql"].startswith("SELECT")


def test_unrestricted_variables_are_noted_on_standard_error(family: str) -> None:
    done = run("query", family, "~parent(x, y)", "--count")
    assert done.stderr == "note: x, y range over the whole domain: 25 combinations\n"
    assert "answers  21" in done.stdout
    refused = run("query", family, "~parent(x, y)", "--max-combinations", "24")
    assert refused.returncode == 1
    assert "25 combinations, more than 24" in refused.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["parnt(x, y)"], "there is no relation parnt"),
        (["parent(x, y)", "--bind", "x"], "--bind needs VARIABLE=OBJECT"),
        (["parent(x, y)", "--bind", "x=ann", "--bind", "x=bob"], "--bind has two values for x"),
        (["parent(x, y)", "--bind", "x=an"], "there is no object an"),
        (["parent(x, y)", "--bind", "w=ann"], "no variable w"),
        (["parent(x, y)", "--rows", "0"], "Budget.rows must be an integer"),
        (["parent(x, y)", "--skip", "-1"], "skip must be"),
        (["parent(x, y)", "--seconds", "0"], "Budget.seconds must be a number"),
        (["parent(x, y)", "--memory", "1"], "of at least 64"),
    ],
)
def test_bad_input_is_one_message(family: str, words: list[str], message: str) -> None:
    done = run("query", family, *words)
    assert done.returncode == 1
    assert done.stdout == ""
    assert message in done.stderr
    failed = run("query", family, *words, "--json")
    assert message in json.loads(failed.stderr)["message"]


def test_a_query_that_takes_too_long_is_stopped_with_a_message(tmp_path: Path) -> None:
    from worst_queries import crowded

    path = str(tmp_path / "crowd.duckdb")
    gaifman.write(crowded(), path)
    done = run("query", path, "r(x, y) & s(z, u) & t(v, w)", "--seconds", "0.3")
    assert done.returncode == 1
    assert done.stderr.startswith("error: the query was stopped after 0.3 seconds")
