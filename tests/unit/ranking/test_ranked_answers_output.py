"""Ranked answers as tables and JSON, and errors."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.errors import FormulaError, KnowledgeBaseError, LimitError
from gaifman.kb.tables import rows_in
from gaifman.model import GaifmanModel
from gaifman.predict import Estimate
from gaifman.ranking.candidates import RankingOptions
from gaifman.ranking.ranked_answers import Answer, CandidateSummary
from trained import completion_with_likes as completed
from trained import little, towns, worker

# Output


def test_as_a_table() -> None:
    found = worker().answers(x="p03", top=2)
    lines = str(found).splitlines()
    assert lines[0] == found.bracketed == "works_in('p03', y)"
    assert lines[1].split() == ["y", "probability"]
    assert lines[2].startswith("t3 ")
    assert lines[2].endswith("known")
    assert lines[-1] == f"{len(towns().objects) - 1} candidates: all objects, 1 left out by constraints"
    assert len(lines) == 5
    assert repr(found) == f"<RankedAnswers: 2 answers to works_in('p03', y), of {lines[-1]}>"


def test_a_long_table_is_cut() -> None:
    text = str(worker().answers(top=60))
    assert "… and 10 more" in text
    assert len(text.splitlines()) == 2 + 50 + 2


def test_as_fields() -> None:
    found = worker().answers(x="p03", top=2)
    body = json.loads(json.dumps(found.as_dict()))
    assert body["variables"] == ["y"]
    assert body["query"] == "works_in('p03', y)"
    first = body["answers"][0]
    assert (first["names"], first["known"], first["draws"]) == (["t3"], True, 4)
    assert first["probability"] == found[0].probability == found[0].estimate.value
    wanted = {
        "count": len(towns().objects) - 1,
        "description": "all objects",
        "draws": 4,
        "shortlisted": len(towns().objects) - 1,
        "first_pass_draws": 0,
        "left_out": 1,
        "uncovered": 0,
    }
    assert body["considered"] == wanted


def test_rows() -> None:
    found = worker().answers(x="p03", top=3)
    assert [found[i] for i in range(3)] == list(found)
    assert found[-1] == found[2]
    with pytest.raises(IndexError, match="there are 3 answers"):
        found[3]
    assert found[0].probability == found.probabilities[0]
    hidden = replace(found[0], names=("a\u202eb",), known=False)
    assert str(hidden).startswith("a\\u202eb  ")
    assert "known" not in str(hidden)


def test_the_description_of_candidates() -> None:
    assert str(CandidateSummary(1, "all objects", 10, 1)) == "1 candidate: all objects"
    assert (
        str(CandidateSummary(9, "all objects", 3, 3, 1))
        == "9 candidates: all objects; the best 3 by 1 draw got 3 draws"
    )
    assert (
        str(CandidateSummary(9, "all objects", 1, 3, 1))
        == "9 candidates: all objects; the best 3 of a first pass were scored in full"
    ), "ranked lists draw nothing"
    assert str(Answer(("a", "b"), Estimate(0.5, 0.1, 3), known=False)) == "a  b  0.500 ± 0.100"


def test_no_candidates() -> None:
    found = worker().answers(x="p03", restrict_to={"y": []})
    assert len(found) == 0
    assert str(found).splitlines()[-1] == "0 candidates: named objects"
    assert found.as_dict()["answers"] == []


# Membership


@given(st.integers(0, 5), st.integers(0, 30), st.integers(0, 30), st.integers(0, 1_000), st.booleans())
def test_which_tuples_are_among_others(width: int, count: int, others: int, seed: int, large: bool) -> None:
    rng = np.random.default_rng(seed)
    numbers = [2**31 - 1, 2**31 - 2, 0] if large else [0, 1, 2]
    one, other = (rng.choice(numbers, (rows, width)).astype(np.int32) for rows in (count, others))
    known = {tuple(row) for row in other.tolist()}
    assert rows_in(one, other).tolist() == [tuple(row) in known for row in one.tolist()]


# Errors


@pytest.mark.parametrize("top", [0, -3, 1.5, True, "all"])
def test_top_is_an_integer(top: object) -> None:
    with pytest.raises(KnowledgeBaseError, match="top must be an integer"):
        RankingOptions(top)  # type: ignore[arg-type]


def test_errors() -> None:
    with pytest.raises(KnowledgeBaseError, match="known must be one of") as caught:
        worker().answers(known="excluded")
    assert caught.value.suggestions == ("exclude",)
    with pytest.raises(KnowledgeBaseError, match="draws must be an integer"):
        worker().answers(x="p03", draws=0)
    with pytest.raises(KnowledgeBaseError, match="prior must be a number, above 0"):
        worker().answers(x="p03", prior=0.0)
    with pytest.raises(FormulaError, match="the query has no variable z"):
        worker().answers(z="p03")
    with pytest.raises(KnowledgeBaseError, match="there is no object p3") as other:
        worker().answers(x="p3")
    assert other.value.suggestions
    with pytest.raises(FormulaError, match="the model was trained on"):
        worker().answers("citizen(x, y)")
    with pytest.raises(FormulaError, match="there is no model of lives_in"):
        completed().answers("lives_in(x, y)")
    with pytest.raises(LimitError, match="more than 10 candidates"):
        worker().answers(max_candidates=10)
    with pytest.raises(KnowledgeBaseError, match="not trained yet"):
        GaifmanModel("works_in(x, y)").answers(x="p03")


def test_a_caret_marks_the_error() -> None:
    with pytest.raises(FormulaError) as caught:
        completed().answers("works_in('p03', t3)")
    assert str(caught.value).splitlines()[:3] == [
        "query, line 1, column 17: t3 is a variable here, but also the name of an object",
        "  works_in('p03', t3)",
        "                  ^^",
    ]


def test_a_barely_trained_model_ranks() -> None:
    assert len(little().answers(top=7)) == 7
