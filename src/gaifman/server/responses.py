"""Error replies: JSON for every status."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

from gaifman.server.schemas import ErrorDetail, ErrorResponse


def encode_json(body: object) -> bytes:
    """Return JSON in UTF-8; lone surrogates, which UTF-8 cannot hold, are escaped."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")


def error_response(status: int, error: ErrorDetail, headers: Mapping[str, str] | None = None) -> Response:
    """Return the reply of an error."""
    body = encode_json(ErrorResponse(error=error).model_dump())
    return Response(body, status, headers, media_type="application/json")
