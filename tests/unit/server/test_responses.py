"""The bodies of what the page asks."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gaifman.server.schemas import (
    ExamplesResponse,
    ExplanationRequest,
    ExplanationResponse,
    ParseRequest,
    ParseResponse,
)
from gaifman.server.service import ExplanationQuery, Service
from gaifman.server.state import ServerState
from http_client import serving
from trained import towns, worker


def test_what_is_not_known_is_refused() -> None:
    for body in ({"query": "p(x)", "more": 1}, {"query": 1}, {"query": "p(x)", "bindings": {"x": 1}}):
        with pytest.raises(ValidationError):
            ParseRequest.model_validate(body)
        with pytest.raises(ValidationError):
            ExplanationRequest.model_validate(body)
    for wrong in ({"top": 0}, {"draws": 0}, {"prior": 0.0}, {"answer": "p"}):
        with pytest.raises(ValidationError):
            ExplanationRequest.model_validate(wrong)


def test_a_body_is_what_is_to_be_explained() -> None:
    body = ExplanationRequest(query="p(x)", answer=["a"])
    assert ExplanationQuery(**body.model_dump()) == ExplanationQuery("p(x)", {}, ["a"], 10)


def test_what_the_server_says_has_these_fields() -> None:
    with serving(ServerState(Service(towns(), worker()))) as client:
        ParseResponse.model_validate(client.post("/api/parse", {"query": "works_in(x, y)"}).json, strict=True)
        wrong = client.post("/api/parse", {"query": "works_in(x"})
        assert wrong.status == 200
        assert ParseResponse.model_validate(wrong.json, strict=True).error is not None
        asked = {"query": "works_in('p01', y)", "answer": ["t1"], "top": 2}
        ExplanationResponse.model_validate(client.post("/api/explanations", asked).json, strict=True)
        assert client.post("/api/explanations", asked | {"answer": ["t11"]}).error["suggestions"][0] == "t1"
        ExamplesResponse.model_validate(client.get("/api/examples").json, strict=True)
        assert client.get("/api/examples?object=p01").json["examples"][0]["query"] == "works_in('p01', y)"
