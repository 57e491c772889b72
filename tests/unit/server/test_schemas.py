"""Request and response models."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from gaifman.errors import FormulaError, GaifmanError
from gaifman.logic.parser import parse_query
from gaifman.server import schemas
from gaifman.server.schemas import (
    LABEL_FIELDS,
    AddFactsRequest,
    AnswerRow,
    AnswersParameters,
    AnswersRequest,
    ErrorDetail,
    ExplanationParameters,
    ExplanationRequest,
    FactRow,
    ParseRequest,
    QueryRequest,
    ResponseModel,
)
from trained import demo

ANSWER = {"names": ["t1"], "probability": 0.5, "standard_error": None, "draws": 1, "known": False, "conflicts": []}
ANSWER |= {"covered": True, "uncovered_reason": ""}


def test_an_error_has_its_location_as_fields() -> None:
    with pytest.raises(FormulaError) as caught:
        parse_query("borders(x, 'frnce')", demo())
    found = ErrorDetail.from_error(caught.value)
    assert (found.kind, found.line, found.column) == ("FormulaError", 1, 12)
    assert found.caret == "borders(x, 'frnce')\n           ^^^^^^^"
    assert "france" in found.suggestions
    assert ErrorDetail.from_error(GaifmanError("a\u202eb\n")).message == "a\\u202eb\\n"


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (QueryRequest, {}),
        (QueryRequest, {"query": "p(x)", "qury": 1}),
        (QueryRequest, {"query": "p(x)", "rows": 0}),
        (QueryRequest, {"query": "p(x)", "skip": -1}),
        (QueryRequest, {"query": "p(x)", "skip": 2**60}),
        (QueryRequest, {"query": "p(x)", "rows": "1"}),
        (QueryRequest, {"query": "p(x)", "bindings": {"x": 1}}),
        (ParseRequest, {"query": "p(x)", "more": 1}),
        (ParseRequest, {"query": 1}),
        (AnswersRequest, {"prior": 0}),
        (AnswersRequest, {"prior": float("nan")}),
        (AnswersRequest, {"draws": True}),
        (AnswersRequest, {"top": "3"}),
        (ExplanationRequest, {"top": 0}),
        (ExplanationRequest, {"draws": 0}),
        (ExplanationRequest, {"answer": "p"}),
        (ExplanationRequest, {"query": "p(x)", "bindings": {"x": 1}}),
        (AddFactsRequest, {"facts": []}),
        (AddFactsRequest, {"facts": [{"relation": "p", "objects": []}]}),
        (AddFactsRequest, {"facts": [{"relation": "", "objects": ["a"]}]}),
        (AddFactsRequest, {"facts": [{"relation": "p", "objects": ["a"], "confidence": 2}]}),
    ],
)
def test_wrong_requests_are_refused(model: type[BaseModel], body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(body)


def test_parameters_are_a_part_of_the_body() -> None:
    """GET and POST of a route take the same request."""
    for parameters, body in ((AnswersParameters, AnswersRequest), (ExplanationParameters, ExplanationRequest)):
        given = parameters.model_validate({"query": "p(x)", "top": "3"})
        assert body(**dict(given)).model_dump(include=set(parameters.model_fields)) == given.model_dump()


@pytest.mark.parametrize(
    "wrong",
    [
        {"names": ("t1",)},
        {"names": [1]},
        {"probability": "0.5"},
        {"probability": float("nan")},
        {"draws": 1.0},
        {"known": 1},
        {"error": 0.1},
    ],
)
def test_a_wrong_type_in_a_response_is_an_error(wrong: dict[str, Any]) -> None:
    assert AnswerRow.model_validate(ANSWER).model_dump() == ANSWER
    with pytest.raises(ValidationError):
        AnswerRow.model_validate(ANSWER | wrong)
    with pytest.raises(ValidationError):
        AnswerRow.model_validate({name: value for name, value in ANSWER.items() if name != "known"})


def test_every_response_is_strict_and_complete() -> None:
    models = [one for one in vars(schemas).values() if isinstance(one, type) and issubclass(one, ResponseModel)]
    assert FactRow in models
    for model in models:
        assert (model.model_config["strict"], model.model_config["extra"]) == (True, "forbid")
        if model is not ErrorDetail:
            optional = {name for name, field in model.model_fields.items() if not field.is_required()}
            assert optional <= LABEL_FIELDS, model
