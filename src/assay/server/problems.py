"""Errors as `application/problem+json` (RFC 9457).

A client's mistake is a 4xx with our code, the place and the fix; only an internal or a database
error is a 5xx. No message ever contains a header.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from assay.canon import encode
from assay.errors import AssayError, InputError, NotEnoughEvidence, UsageError, printable
from assay.errors.codes import CODES as CODES
from assay.store.databases import NoRoom

MEDIA_TYPE = "application/problem+json"
MAX_FAULTS = 100

CODE_OF: dict[int, str] = {
    400: "SRV-400",
    401: "SRV-401",
    403: "SRV-403",
    404: "SRV-404",
    405: "SRV-405",
    408: "SRV-408",
    409: "SRV-409",
    413: "SRV-413",
    415: "SRV-415",
    422: "SRV-422",
    429: "SRV-429",
    431: "SRV-431",
    500: "SRV-500",
    503: "SRV-503",
}
"""The code of an error that has an HTTP status but no error code of ours."""


class Problem(Exception):  # named as the standard names it
    """An answer that is an error. Without a fix it has that of its code."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str = "",
        where: str = "",
        fix: str = "",
        faults: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code or CODE_OF.get(status, "SRV-500" if status >= 500 else "SRV-400")
        self.where = where
        known = CODES.get(self.code)
        self.fix = fix or ("" if known is None else known.fix)
        self.faults = faults
        self.headers = headers
        self.extra = extra

    def document(self) -> dict[str, Any]:
        """The members of the standard, then ours."""
        document: dict[str, Any] = {
            "type": f"urn:assay:error:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": printable(self.detail),
            "code": self.code,
            "where": printable(self.where),
            "fix": printable(self.fix),
        }
        if self.faults:
            document["faults"] = list(self.faults[:MAX_FAULTS])
        return {**document, **(self.extra or {})}

    def response(self) -> Response:
        """The answer."""
        return Response(
            safe(self.document()),
            self.status,
            headers=dict(self.headers or {}),
            media_type=MEDIA_TYPE,
        )


def safe(document: Any) -> bytes:
    """JSON, even of text with a lone surrogate: an error about such text must not fail itself."""
    try:
        return encode(document)
    except UnicodeEncodeError:
        return encode(_escaped(document))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list | tuple) else value


def misfit(reasons: Sequence[str]) -> Problem:
    """A dataset that does not fit its workflow: `422` with `message` and `reasons`, before anything
    runs.
    """
    message = "the dataset does not fit the workflow."
    return Problem(
        422,
        message,
        code="RUN-003",
        where="required_inputs",
        fix="Give the inputs that are missing.",
        extra={"message": message, "reasons": list(reasons)},
    )


def answer_to(error: AssayError) -> Problem:
    """One of our errors as the answer of the API: the result of `problem_of`, except that a full
    disk is a 507.

    OTLP exporters retry after a 503 and drop spans after a 507, so their routes use `problem_of`
    for a full disk too.
    """
    if isinstance(error, NoRoom):
        return Problem(507, error.message, code=error.code, fix=error.fix)
    return problem_of(error)


def problem_of(error: AssayError | Problem) -> Problem:
    """One of our errors as a problem."""
    if isinstance(error, Problem):
        return error
    if error.code in _UNAVAILABLE:
        return Problem(
            503,
            error.message,
            code=error.code,
            fix=error.fix or "Try again.",
            headers={"Retry-After": "1"},
        )
    status, where, faults = _status_of(error), error.where, []
    if status in (400, 422) and isinstance(error, InputError) and error.faults:
        faults = [fault.as_dict() for fault in error.faults[:MAX_FAULTS]]
        where = error.faults[0].path or where
    return Problem(
        status, error.message, code=error.code, where=where, fix=error.fix, faults=faults
    )


def _status_of(error: AssayError) -> int:
    if error.where.startswith("sha256:") and error.code in _OF_RECORDS:
        return _OF_RECORDS[error.code]
    if getattr(error, "of_shelf", False):  # a file of the server is at fault, not the request
        return 500
    if isinstance(error, InputError):
        return 400 if error.code in _MALFORMED else 422
    return (
        422
        if isinstance(error, NotEnoughEvidence)
        else 400
        if isinstance(error, UsageError)
        else 500
    )


_OF_RECORDS = {"STO-007": 500, "STO-008": 404, "STO-009": 409}
"""What can be wrong with a stored record: changed from outside, forgotten, forgotten and sent
again.
"""
_UNAVAILABLE = ("STO-001", "STO-002", "STO-003", "FIL-001", "FIL-008")
"""The server can't read or write its own files: clients never name one."""
_MALFORMED = frozenset({"FIL-002", "FIL-003", "FIL-004", "FIL-005"})


def install(app: FastAPI) -> None:
    """Make the application answer every error with a problem."""

    async def ours(_request: Request, error: Exception) -> Response:
        assert isinstance(error, AssayError)
        return answer_to(error).response()

    async def problem(_request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return error.response()

    async def http(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = {
            404: "there is nothing at this address.",
            405: "this address doesn't support this method.",
        }
        fix = "/api/v1/openapi.json lists every address." if error.status_code in words else ""
        return Problem(
            error.status_code,
            words.get(error.status_code, str(error.detail)),
            fix=fix,
            headers=error.headers,
        ).response()

    async def validation(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        faults = [
            {
                "file": "",
                "line": None,
                "code": "SRV-422",
                "path": ".".join(map(str, fault.get("loc", ()))),
                "message": f"{fault.get('msg')}.",
            }
            for fault in error.errors()[:MAX_FAULTS]
        ]
        first = faults[0] if faults else {"path": "", "message": "a parameter is not valid."}
        return Problem(
            422, str(first["message"]), where=str(first["path"]), faults=faults
        ).response()

    app.add_exception_handler(AssayError, ours)
    app.add_exception_handler(Problem, problem)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, validation)
