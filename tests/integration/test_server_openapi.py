"""The server conforms to its OpenAPI document: schemathesis generates the requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS

from gaifman.server.app import create_app
from gaifman.server.edits import EditsFile
from gaifman.server.service import Service
from gaifman.server.state import ServerState
from http_client import PATIENT, TOKEN, Client, serving
from trained import towns, worker

HELD = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "missing_required_header",
)
"""Checks. That valid data is accepted is not one: most texts are not formulas."""


DOCUMENT = create_app(ServerState(Service(towns()))).openapi()
schema = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server that can add facts."""
    edits = EditsFile(tmp_path_factory.mktemp("schema") / "new.facts")
    with serving(ServerState(Service(towns(), worker(), PATIENT), edits, TOKEN)) as found:
        yield found


@schema.parametrize()
@settings(
    max_examples=50,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_the_server_conforms_to_its_document(case: Any, client: Client) -> None:
    checks = [CHECKS.get_one(name) for name in HELD]
    where = f"http://127.0.0.1:{client.port}"
    case.call_and_validate(where, checks=checks, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=300)


def test_every_route_is_described() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (path, method)
            assert operation["responses"]["503"]["content"]["application/json"]["schema"]["$ref"].endswith(
                "ErrorResponse"
            )
    assert "HTTPValidationError" not in DOCUMENT["components"]["schemas"], "all errors have one body"
