"""What goes over the wire."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gaifman.errors import FormulaError, GaifmanError
from gaifman.logic.parser import parse_query
from gaifman.server.schemas import (
    AddFactsRequest,
    AnswersRequest,
    ErrorResponse,
    QueryRequest,
    encode_json,
    error_body,
    http_error_body,
)
from trained import demo


def test_an_error_has_its_place_as_fields() -> None:
    with pytest.raises(FormulaError) as caught:
        parse_query("borders(x, 'frnce')", demo())
    found = error_body(caught.value)["error"]
    assert (found["kind"], found["line"], found["column"]) == ("FormulaError", 1, 12)
    assert found["caret"] == "borders(x, 'frnce')\n           ^^^^^^^"
    assert "france" in found["suggestions"]


def test_every_error_has_the_same_fields() -> None:
    for body in (error_body(GaifmanError("no")), http_error_body("no", hint="yes")):
        ErrorResponse.model_validate(body, strict=True)
        assert set(body["error"]) == set(ErrorResponse.model_fields["error"].annotation.model_fields)  # type: ignore[union-attr]


def test_what_does_not_print_is_shown_in_errors() -> None:
    assert http_error_body("a\u202eb\n")["error"]["message"] == "a\\u202eb\\n"


@given(st.text(st.characters(categories=("L", "Cs", "Cc", "Cf", "P"))))
def test_any_text_survives(text: str) -> None:
    assert json.loads(encode_json({"name": text})) == {"name": text}


def test_no_number_that_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode_json({"value": float("nan")})


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (QueryRequest, {}),
        (QueryRequest, {"query": "p(x)", "qury": 1}),
        (QueryRequest, {"query": "p(x)", "rows": 0}),
        (QueryRequest, {"query": "p(x)", "skip": -1}),
        (QueryRequest, {"query": "p(x)", "skip": 2**60}),
        (QueryRequest, {"query": "p(x)", "rows": "1"}),
        (QueryRequest, {"query": "p(x)", "bindings": {"x": 1}}),
        (AnswersRequest, {"prior": 0}),
        (AnswersRequest, {"prior": float("nan")}),
        (AnswersRequest, {"draws": True}),
        (AddFactsRequest, {"facts": []}),
        (AddFactsRequest, {"facts": [{"relation": "p", "objects": []}]}),
        (AddFactsRequest, {"facts": [{"relation": "", "objects": ["a"]}]}),
        (AddFactsRequest, {"facts": [{"relation": "p", "objects": ["a"], "confidence": 2}]}),
    ],
)
def test_what_is_no_request(kind: type[QueryRequest | AnswersRequest | AddFactsRequest], body: object) -> None:
    with pytest.raises(ValidationError):
        kind.model_validate(body)
