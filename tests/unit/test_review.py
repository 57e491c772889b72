"""Reviewed tables: what they may look like, and what they change."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaifman
from gaifman.errors import GaifmanError, InputError
from gaifman.io.proposals import ProposalTable, read_proposals
from gaifman.kb.reviews import Provenance
from gaifman.review import add_reviewed, plan_additions

COUNTRIES = [(f"country{i}", f"city{i}") for i in range(20)]
KB = gaifman.KnowledgeBase.from_facts(
    [
        *(("capital", *pair) for pair in COUNTRIES),
        *(("country", country) for country, _ in [*COUNTRIES, ("peru", "")]),
        *(("city", city) for city in ["lima", "cusco", *(city for _, city in COUNTRIES)]),
        ("flight", "lima", "cusco", "monday"),
    ]
)
LIMA, CUSCO = ("capital", "peru", "lima"), ("capital", "peru", "cusco")
TABLE = {
    "head": ["peru", "peru"],
    "relation": ["capital", "capital"],
    "tail": ["lima", "cusco"],
    "probability": ["0.93", "0.4"],
    "accept": ["yes", "no"],
}


def save(folder: Path, text: str, name: str = "reviewed.csv", encoding: str = "utf-8") -> Path:
    (folder / name).write_bytes(text.encode(encoding))
    return folder / name


def is_as_decided(kb: gaifman.KnowledgeBase) -> bool:
    return {*kb.provenance} == {LIMA} and {*kb.rejected} == {CUSCO} and len(kb) == len(KB) + 1


def test_accepted_facts_are_added_and_rejected_ones_kept_as_false() -> None:
    new = add_reviewed(KB, TABLE, model="m.gaifman", date="2026-05-01")
    assert is_as_decided(new)
    assert new.provenance[LIMA] == Provenance("m.gaifman", "2026-05-01", 0.93)
    assert new.rejected[CUSCO] == Provenance("m.gaifman", "2026-05-01", 0.4)
    assert not KB.rejected
    before = datetime.date.today().isoformat()
    assert before <= add_reviewed(KB, TABLE).provenance[LIMA].date <= datetime.date.today().isoformat()


@pytest.mark.parametrize(
    "make", [dict, pandas.DataFrame, polars.DataFrame, pyarrow.table], ids=lambda kind: kind.__module__
)
def test_tables_of_packages(make: Callable[[dict[str, list[str]]], Any]) -> None:
    assert is_as_decided(add_reviewed(KB, make(TABLE)))
    typed: dict[str, Any] = {**TABLE, "probability": [0.93, 0.4], "accept": [True, False]}
    assert is_as_decided(add_reviewed(KB, make(typed)))


def test_a_missing_cell_of_pandas_is_no_decision() -> None:
    table = pandas.DataFrame({**TABLE, "accept": ["yes", None]})
    additions = plan_additions(KB, ProposalTable.from_columns({name: table[name].to_list() for name in table}))
    assert (len(additions.accepted), len(additions.rejected), additions.undecided) == (1, 0, 1)


JSON_LINES = """{"head": "peru", "relation": "capital", "tail": "lima", "accept": true}

{"tail": "cusco", "relation": "capital", "head": "peru", "accept": 0}
"""


@pytest.mark.parametrize(
    ("text", "name", "encoding"),
    [
        ("head,relation,tail,accept\nperu,capital,lima,yes\nperu,capital,cusco,no\n", "r.csv", "utf-8"),
        ("head;relation;tail;accept\r\nperu;capital;lima;TRUE\r\nperu;capital;cusco;FALSE\r\n", "r.csv", "utf-8-sig"),
        ("Accept\tTail\tRelation\tHead\n X \tlima\tcapital\tperu\nNo\tcusco\tcapital\tperu\n", "r.tsv", "utf-8"),
        ('note,"accept",relation,arg1,arg2\n"a, b",1,capital,peru,lima\n,0,capital,peru,cusco\n', "r.csv", "utf-8"),
        ("relation,arg1,arg2,arg3,accept\ncapital,peru,lima,,y\ncapital,peru,cusco,,n\n", "r.csv", "utf-8"),
        (
            "head,relation,tail,accept,comment\n\nperu,capital,lima,yes\n,,,,\nperu,capital,cusco,no,,,\n\n",
            "r.csv",
            "utf-8",
        ),
        (
            JSON_LINES,
            "r.jsonl",
            "utf-8",
        ),
    ],
)
def test_what_spreadsheets_and_people_write(tmp_path: Path, text: str, name: str, encoding: str) -> None:
    assert is_as_decided(add_reviewed(KB, save(tmp_path, text, name, encoding)))


def test_every_format_of_results_can_be_reviewed(tmp_path: Path) -> None:
    table = ProposalTable.from_columns(TABLE)
    for name in ("r.csv", "r.tsv.gz", "r.jsonl", "r.parquet"):
        table.save(tmp_path / name)
        assert read_proposals(tmp_path / name).rows == table.rows
        assert is_as_decided(add_reviewed(KB, tmp_path / name))


def test_a_decimal_comma_is_a_point(tmp_path: Path) -> None:
    path = save(tmp_path, "head;relation;tail;probability;accept\nperu;capital;lima;0,93;x\n")
    assert add_reviewed(KB, path).provenance[LIMA].probability == 0.93


def test_a_column_of_models_comes_before_the_name_that_is_given() -> None:
    new = add_reviewed(KB, {**TABLE, "model": ["own.gaifman", ""]}, model="given.gaifman")
    assert new.provenance[LIMA].model == "own.gaifman"
    assert new.rejected[CUSCO].model == "given.gaifman"


HEAD = "head,relation,tail,probability,accept\n"


@pytest.mark.parametrize(
    ("text", "words", "place"),
    [
        (HEAD + "peru,capital,lima,0.9,yes\nperu,capital,cusco,0.4,maybe\n", "accept is yes or no, not maybe", (3, 24)),
        (HEAD + "peru,capital,lima,high,yes\n", "a probability is a number from 0 to 1, not 'high'", (2, 19)),
        (HEAD + "peru,capital,lina,0.9,yes\n", "there is no object 'lina' in the knowledge base", (2, 14)),
        (HEAD + "peru,capitol,lima,0.9,yes\n", "there is no relation 'capitol'", (2, 6)),
        (HEAD + "peru,city,lima,0.9,yes\n", "city has 1 argument, not 2", (2, 6)),
        (HEAD + ",capital,lima,0.9,yes\n", "the relation or an object is missing", (2, 1)),
        (HEAD + "peru,capital,lima,0.9,yes,more\n", "expected 5 columns", (2, 27)),
        (HEAD + "country1,capital,city1,0.9,no\n", "is rejected, and the knowledge base has it", (2, 28)),
        (HEAD + "peru,capital,lima,0.9,yes\n\nperu,capital,lima,0.9,no\n", "is accepted and rejected", (4, 23)),
        (HEAD.replace("accept", "note") + "peru,capital,lima,0.9,yes\n", "has no column accept", (1, 1)),
        (HEAD.replace("relation", "note") + "peru,capital,lima,0.9,yes\n", "there are no columns of facts", (1, 1)),
        ("accept," + HEAD + "yes,peru,capital,lima,0.9,yes\n", "there are two columns accept", (1, 39)),
    ],
)
def test_wrong_tables_are_refused_with_the_place(tmp_path: Path, text: str, words: str, place: tuple[int, int]) -> None:
    with pytest.raises(GaifmanError, match=words) as caught:
        add_reviewed(KB, save(tmp_path, text))
    location = caught.value.location
    assert location is not None
    assert (location.line, location.column) == place


def test_places_are_right_after_empty_rows(tmp_path: Path) -> None:
    path = save(tmp_path, HEAD + "peru,capital,lima,0.9,yes\n,,,,\n\nperu,capital,cusco,0.4,?\n")
    with pytest.raises(InputError, match="accept is yes or no") as caught:
        add_reviewed(KB, path)
    assert caught.value.location is not None
    assert caught.value.location.line == 5


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({**TABLE, "accept": ["yes", "perhaps"]}, "the table, row 2, column accept: accept is yes or no"),
        ({**TABLE, "tail": ["lima"]}, "different lengths"),
        ({"a": ["b"]}, "there are no columns of facts in the table"),
        (5, "not int"),
        ("none.csv", "there is no file none.csv"),
        ("none.xlsx", "there is no file none.xlsx"),
    ],
)
def test_wrong_arguments(table: object, words: str) -> None:
    with pytest.raises(GaifmanError, match=words):
        add_reviewed(KB, table)
    with pytest.raises(InputError, match="a date is written like 2026-05-01, not 'today'"):
        add_reviewed(KB, TABLE, date="today")


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("", "r.csv", "is empty"),
        ("\n\n", "r.csv", "is empty"),
        ("{", "r.jsonl", "expected a JSON object"),
        ("no", "r.parquet", "is not a Parquet file"),
        ("p(a).", "r.facts", "would have facts without decisions"),
        ("a", "r.xlsx", "does not say its format"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, name: str, words: str) -> None:
    with pytest.raises(GaifmanError, match=words):
        read_proposals(save(tmp_path, text, name))


def test_a_plan_says_what_changes() -> None:
    before = KB.with_reviews({}, {CUSCO: Provenance(), ("capital", "country1", "lima"): Provenance()})
    columns = {
        "head": ["peru", "peru", "country1", "country2", "country3", "country3"],
        "relation": ["capital"] * 6,
        "tail": ["lima", "cusco", "city1", "lima", "lima", "lima"],
        "accept": ["yes", "no", "yes", "yes", "no", ""],
    }
    plan = plan_additions(before, ProposalTable.from_columns(columns), "m", "2026-05-01")
    assert {*plan.accepted} == {LIMA, ("capital", "country2", "lima")}
    assert (plan.known, plan.known_negatives) == ([("capital", "country1", "city1")], [CUSCO])
    assert {*plan.rejected} == {("capital", "country3", "lima")}
    assert plan.undecided == 1
    assert plan.to_pandas().change.tolist() == [
        "new fact",
        "new fact",
        "already known",
        "known negative",
        "already rejected",
    ]
    body = plan.as_dict()
    assert (body["new_facts"], body["rejected"], len(body["changes"])) == (2, 1, 5)
    again = plan_additions(before, ProposalTable.from_columns(TABLE | {"accept": ["yes", "yes"]}))
    assert again.reconsidered == [CUSCO]
    assert not again.apply(before).rejected.get(CUSCO)


def test_a_plan_finds_conflicts_with_facts_and_among_accepted_ones() -> None:
    columns = {
        "head": ["country1", "peru", "peru"],
        "relation": ["capital"] * 3,
        "tail": ["lima", "cusco", "city2"],
        "accept": ["yes"] * 3,
    }
    conflicts = plan_additions(KB, ProposalTable.from_columns(columns)).conflicts
    messages = {key: [one.message for one in found] for key, found in conflicts.items()}
    assert "conflicts with capital(country1, city1)" in messages["capital", "country1", "lima"]
    assert "conflicts with capital(peru, city2)" in messages[CUSCO]
    assert plan_additions(KB, ProposalTable.from_columns(TABLE)).conflicts == {}


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=6)


@given(st.lists(st.tuples(cells, st.sampled_from([True, False, None])), min_size=1, max_size=5))
def test_a_saved_table_is_read_again(tmp_path_factory, rows: list[tuple[str, bool | None]]) -> None:  # type: ignore[no-untyped-def]
    columns = {"relation": ["r"] * len(rows), "arg1": ["a"] * len(rows), "note": [note for note, _ in rows]}
    table = ProposalTable.from_columns(columns).with_decisions([own for _, own in rows])
    for suffix in ("csv", "tsv", "jsonl"):
        table.save(path := tmp_path_factory.mktemp("table") / f"t.{suffix}")
        found = read_proposals(path)
        assert (found.names, found.rows) == (table.names, table.rows)
        assert [found.decision(row) for row in range(len(found))] == [own for _, own in rows]
