"""Models behind litellm, for endpoints without a dialect in `endpoints`. An extra: litellm is large
and slow to load.
"""

from __future__ import annotations

import os
from typing import Any

from assay.installing import import_extra
from assay.judging.config import JudgeSpec
from assay.judging.endpoints import OpenAI, Prompt, encode


async def post(
    spec: JudgeSpec,
    prompt: Prompt,
    *,
    key: str | None,
    without: frozenset[str],
    timeout_s: float,
) -> tuple[dict[str, Any], int, Any, bytes]:
    """One completion, in the shape of an HTTP exchange: request, status, headers, reply."""
    # otherwise it fetches a price list from the network on import
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = import_extra(
        "litellm",
        "litellm",
        "this judge needs the package litellm.",
        where=spec.judge,
        code="JDG-003",
    )
    litellm.telemetry = False
    litellm.suppress_debug_info = True  # it would print on standard output, next to our document
    body = OpenAI().body(
        spec, prompt.messages, prompt.schema, without=without, sample=prompt.sample
    )
    extra: dict[str, Any] = {"api_base": spec.base_url} if spec.base_url else {}
    if key is not None:
        extra["api_key"] = key
    try:
        reply = await litellm.acompletion(**body, **extra, timeout=timeout_s, num_retries=0)
    except litellm.exceptions.APIConnectionError as error:
        raise OSError(str(error)[:300]) from None
    except Exception as error:
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            raise
        response = getattr(error, "response", None)
        return (
            body,
            status,
            getattr(response, "headers", {}) or {},
            str(error).encode("utf-8", "replace"),
        )
    return body, 200, {}, encode(reply.model_dump()).encode("utf-8", "replace")
