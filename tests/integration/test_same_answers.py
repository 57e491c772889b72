"""Python, the command and HTTP rank the same candidates and give the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import gaifman
from cli_runner import json_output
from gaifman.server.service import Service
from gaifman.server.state import ServerState
from http_client import PATIENT, Client, serving
from trained import FEW, demo

QUERIES: list[tuple[str, dict[str, Any], str]] = [
    ("capital('france', y)", {}, "735 candidates: city"),
    ("capital('france', y)", {"candidates": "all"}, "1,833 candidates: all objects"),
    ("capital(x, 'paris')", {"known": "exclude"}, "196 candidates: country, without known answers"),
    ("borders('france', y)", {"prior": 0.01, "top": 3}, "196 candidates: country, 1 left out by constraints"),
    ("borders(x, y)", {"known": "exclude", "top": 4}, "37,982 candidates: pairs of country and country"),
    ("capital(x, 'istanbul')", {}, "197 candidates: country"),
]


@pytest.fixture(scope="module", params=["default", "network"])
def completion(request: pytest.FixtureRequest) -> gaifman.Completion:
    return gaifman.complete(demo(), ["capital", "borders"], **FEW if request.param == "network" else {})


@pytest.fixture(scope="module")
def client(completion: gaifman.Completion) -> Iterator[Client]:
    with serving(ServerState(Service(demo(), completion, PATIENT))) as running:
        yield running


@pytest.mark.parametrize(("query", "options", "considered"), QUERIES)
def test_three_interfaces_give_the_same_answers(
    query: str, options: dict[str, Any], considered: str, tmp_path: Path, completion: gaifman.Completion, client: Client
) -> None:
    answers = completion.answers(query, **options)
    assert str(answers.considered).startswith(considered)
    completion.save(tmp_path / "demo.gaifman")
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    assert json_output("answer", str(tmp_path / "demo.gaifman"), "demo", query, *words) == answers.as_dict()
    for reply in (
        client.get(f"/api/answers?{urlencode({'query': query, **options})}"),
        client.post("/api/answers", {"query": query, **options}),
    ):
        assert reply.json == answers.as_dict() | {"truncated": answers.considered.count > len(answers)}


def test_three_interfaces_leave_out_the_same_answers(
    tmp_path: Path, completion: gaifman.Completion, client: Client
) -> None:
    query = "capital(x, 'istanbul')"
    answers = completion.answers(query, covered=True)
    assert all(answer.covered for answer in answers)
    completion.save(tmp_path / "demo.gaifman")
    assert json_output("answer", str(tmp_path / "demo.gaifman"), "demo", query, "--covered") == answers.as_dict()
    reply = client.get(f"/api/answers?{urlencode({'query': query, 'covered': 'true'})}")
    assert reply.json == answers.as_dict() | {"truncated": answers.considered.count > len(answers)}


@pytest.mark.parametrize("city", ["paris", "chamonix"])
def test_three_interfaces_give_the_same_explanation(
    city: str, tmp_path: Path, completion: gaifman.Completion, client: Client
) -> None:
    explanation = completion.explain("capital", "france", city)
    assert [str(one) for one in explanation.conflicts] == ["conflicts with capital(france, paris)"] * (city != "paris")
    completion.save(tmp_path / "demo.gaifman")
    words = ("explain", str(tmp_path / "demo.gaifman"), "demo", "capital('france', y)", "--answer", city)
    assert json_output(*words) == explanation.as_dict()
    body = client.post("/api/explanations", {"query": "capital('france', y)", "answer": [city]}).json
    assert {name: body[name] for name in explanation.as_dict()} == explanation.as_dict()
