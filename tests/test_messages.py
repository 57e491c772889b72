"""What goes over the wire."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gaifman.errors import FormulaError, GaifmanError
from gaifman.messages import AnswersBody, ErrorBody, FactsBody, QueryBody, encoded, failure, refusal
from gaifman.parser import parse_query
from learnt import demo


def test_an_error_has_its_place_as_fields() -> None:
    with pytest.raises(FormulaError) as caught:
        parse_query("borders(x, 'frnce')", demo())
    found = refusal(caught.value)["error"]
    assert (found["kind"], found["line"], found["column"]) == ("FormulaError", 1, 12)
    assert found["caret"] == "borders(x, 'frnce')\n           ^^^^^^^"
    assert "france" in found["near"]


def test_every_error_has_the_same_fields() -> None:
    for body in (refusal(GaifmanError("no")), failure("no", hint="yes")):
        ErrorBody.model_validate(body, strict=True)
        assert set(body["error"]) == set(ErrorBody.model_fields["error"].annotation.model_fields)  # type: ignore[union-attr]


def test_what_does_not_print_is_shown_in_errors() -> None:
    assert failure("a\u202eb\n")["error"]["message"] == "a\\u202eb\\n"


@given(st.text(st.characters(categories=("L", "Cs", "Cc", "Cf", "P"))))
def test_any_text_survives(text: str) -> None:
    assert json.loads(encoded({"name": text})) == {"name": text}


def test_no_number_that_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encoded({"value": float("nan")})


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (QueryBody, {}),
        (QueryBody, {"query": "p(x)", "qury": 1}),
        (QueryBody, {"query": "p(x)", "rows": 0}),
        (QueryBody, {"query": "p(x)", "skip": -1}),
        (QueryBody, {"query": "p(x)", "skip": 2**60}),
        (QueryBody, {"query": "p(x)", "rows": "1"}),
        (QueryBody, {"query": "p(x)", "given": {"x": 1}}),
        (AnswersBody, {"prior": 0}),
        (AnswersBody, {"prior": float("nan")}),
        (AnswersBody, {"draws": True}),
        (FactsBody, {"facts": []}),
        (FactsBody, {"facts": [{"relation": "p", "objects": []}]}),
        (FactsBody, {"facts": [{"relation": "", "objects": ["a"]}]}),
        (FactsBody, {"facts": [{"relation": "p", "objects": ["a"], "confidence": 2}]}),
    ],
)
def test_what_is_no_request(kind: type[QueryBody | AnswersBody | FactsBody], body: object) -> None:
    with pytest.raises(ValidationError):
        kind.model_validate(body)
