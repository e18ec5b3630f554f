"""Idempotency keys: the same key with the same request gets the same answer, even from another
server or after a restart.

A record is identified by its digest, so even without a key nothing is stored twice; the key makes
the answer the same as well. Errors are not stored, so a fixed request can succeed.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from hashlib import sha256

from fastapi import Request
from starlette.responses import Response

from assay.server.auth import Principal
from assay.server.bodies import JSON, header
from assay.server.problems import Problem
from assay.server.state import Services
from assay.store.access import StoredAnswer, find_answer, keep_answer

MAX_KEY = 200


async def answered_once(
    request: Request,
    services: Services,
    principal: Principal,
    data: bytes,
    work: Callable[[], Awaitable[Response]],
) -> Response:
    """Do the work, or return the stored answer for the key."""
    key = header(request, "idempotency-key")
    if key is None:
        return await work()
    if not 0 < len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise Problem(
            422,
            "an idempotency key is up to 200 printable ASCII characters.",
            where="Idempotency-Key",
        )
    request_digest = sha256(
        f"{request.method} {request.url.path}?{request.url.query}\n".encode() + data
    ).hexdigest()
    database = services.ledger.database
    known = await asyncio.to_thread(find_answer, database, principal.project, key)
    if known is None:
        response = await work()
        if response.status_code >= 300:
            return response
        plain = (
            zlib.decompress(bytes(response.body), 31)
            if response.headers.get("content-encoding") == "gzip"
            else bytes(response.body)
        )
        first = StoredAnswer(
            request_digest, response.status_code, response.headers.get("location"), plain
        )
        known = await asyncio.to_thread(keep_answer, database, principal.project, key, first)
        if known is first:
            return response
    if known.request != request_digest:
        raise Problem(
            409,
            "this idempotency key was used for another request.",
            where="Idempotency-Key",
            fix="Use a new key for each new request.",
        )
    headers = {
        "Idempotency-Replayed": "true",
        **({"Location": known.location} if known.location else {}),
    }
    return Response(known.body, known.status, headers=headers, media_type=JSON)
