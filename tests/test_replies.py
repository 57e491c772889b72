"""The bodies of what the page asks."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gaifman.insights import Doubted
from gaifman.replies import ExplanationBody, ReadingBody


def test_what_is_not_known_is_refused() -> None:
    for body in ({"query": "p(x)", "more": 1}, {"query": 1}, {"query": "p(x)", "given": {"x": 1}}):
        with pytest.raises(ValidationError):
            ReadingBody.model_validate(body)
        with pytest.raises(ValidationError):
            ExplanationBody.model_validate(body)
    for wrong in ({"top": 0}, {"draws": 0}, {"prior": 0.0}, {"answer": "p"}):
        with pytest.raises(ValidationError):
            ExplanationBody.model_validate(wrong)


def test_a_body_is_what_is_to_be_explained() -> None:
    body = ExplanationBody(query="p(x)", answer=["a"])
    assert Doubted(**body.model_dump()) == Doubted("p(x)", {}, ["a"], 10)
