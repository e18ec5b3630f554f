"""The bodies and answers in the OpenAPI document. Records are described by their published schemas,
never by hand.
"""

from __future__ import annotations

from typing import Any

from assay.records.evidence import Run
from assay.records.scorecard import Scorecard
from assay.server.bodies import JSON, LINES
from assay.server.problems import MEDIA_TYPE
from assay.views.events import inlined

PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "where": {"type": "string"},
        "fix": {"type": "string"},
        "faults": {"type": "array", "items": {"type": "object"}},
        "message": {"type": "string"},
        "reasons": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["type", "title", "status", "detail", "code", "where", "fix"],
}
_WORDS = {
    400: "The body or a parameter can't be read.",
    401: "A token is needed.",
    403: "The token lacks the required scope.",
    404: "Not found in this project.",
    408: "The body came too slowly.",
    409: "It conflicts with what is already stored.",
    413: "The body is too large.",
    415: "The media type is not supported.",
    422: "The input doesn't match its schema, or can't be graded.",
    429: "Too many requests; `Retry-After` says when to retry.",
    503: "The database is unavailable or busy; try again.",
    507: "The disk of the database is full; retrying doesn't help until space is freed.",
}


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route may answer with."""
    return {
        code: {"description": _WORDS[code], "content": {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA}}}
        for code in codes
    }


EVERY = problems(400, 401, 403, 404, 422, 429, 503, 507)
"""Problems of every route that needs a token."""
POSTED = problems(408, 409, 413, 415)
"""Additional problems of every route that takes a body."""


RUN = inlined(Run)
SCORECARD = inlined(Scorecard)


def body(schema: Any, *, lines: bool = False) -> dict[str, Any]:
    """The request body of a route: a JSON Schema, or a class of `requests`; with `lines`, also as
    lines.
    """
    content: dict[str, Any] = {
        JSON: {"schema": schema if isinstance(schema, dict) else inlined(schema)}
    }
    if lines:
        content[LINES] = {
            "schema": {"type": "string", "description": "one JSON document on each line"}
        }
    return {"requestBody": {"required": True, "content": content}}
