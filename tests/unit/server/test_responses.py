"""Error replies."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.server.middleware import encode_json, error_response
from gaifman.server.schemas import ErrorDetail


def test_every_error_has_all_fields() -> None:
    response = error_response(422, ErrorDetail(message="no"), {"retry-after": "1"})
    assert (response.status_code, response.headers["retry-after"]) == (422, "1")
    assert json.loads(bytes(response.body)) == {"error": ErrorDetail(message="no").model_dump()}


@given(st.text(st.characters(categories=("L", "Cs", "Cc", "Cf", "P"))))
def test_any_text_survives(text: str) -> None:
    assert json.loads(encode_json({"name": text})) == {"name": text}
    assert json.loads(bytes(error_response(422, ErrorDetail(message=text)).body))["error"]["message"] == text


def test_json_has_no_nan() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode_json({"value": float("nan")})
