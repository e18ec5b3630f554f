"""Sends one request to a judge's endpoint and returns the reply, with the key masked.

Redirects are not followed: they would carry the key and the texts to another host. A reply is read
up to a limit. Retries, pacing and costs are the task of `client`.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import UsageError
from assay.installing import import_extra
from assay.judging.apis import JUDGE_APIS as JUDGES
from assay.judging.config import JudgeSpec, key_of
from assay.judging.endpoints import JudgeApi, JudgeRequest, OpenAI, Prompt, Reply, as_bytes, encode

if TYPE_CHECKING:
    import aiohttp


MAX_REPLY = 1024 * 1024
SHORTEST_KEY = 8
"""A shorter key is a placeholder of a local server ("none", "EMPTY"): masking it would corrupt
replies.
"""
_CHUNK = 64 * 1024


class Exchange(NamedTuple):
    """One request and what came back."""

    body: dict[str, Any]
    status: int
    headers: Any
    data: bytes


class UnreachableError(Exception):
    """No reply came; the message is the reason."""

    def __init__(self, reason: str, *, timed_out: bool) -> None:
        super().__init__(reason)
        self.timed_out = timed_out


class Transport:
    """Sends requests to one endpoint."""

    def __init__(self, spec: JudgeSpec) -> None:
        self.spec = spec
        self.requests = 0
        self._api: JudgeApi = JUDGES[spec.api]
        self._dialect = self._api.dialect
        self._key: str | None = None
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Take the key from the environment."""
        self._key = key_of(self.spec)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def post(self, prompt: Prompt, *, without: frozenset[str], timeout_s: float) -> Exchange:
        """One exchange. Raises UnreachableError if there was no reply."""
        send = (
            self._http
            if self._dialect is not None
            else self._litellm
            if self._api.answer is None
            else self._answer
        )
        try:
            exchange = await send(prompt, without=without, timeout_s=timeout_s)
        except UsageError:
            raise
        except TimeoutError:
            reason = f"{self.spec.base_url}: no answer within {timeout_s:g} s"
            raise UnreachableError(reason, timed_out=True) from None
        except Exception as error:
            if not isinstance(error, (OSError, ValueError, *_client_errors())):
                raise
            words = f"{self.spec.base_url}: {type(error).__name__}: {error}".rstrip(": ")
            masked = self._masked(words.encode("utf-8", "replace")).decode("utf-8", "replace")
            raise UnreachableError(masked, timed_out=False) from None
        return exchange._replace(data=self._masked(exchange.data))

    async def _http(self, prompt: Prompt, *, without: frozenset[str], timeout_s: float) -> Exchange:
        assert self._dialect is not None
        aiohttp = import_extra(
            "aiohttp", "judge", "asking a model needs the package aiohttp.", code="JDG-003"
        )
        if self._session is None:  # what the journal answers needs no network and no aiohttp
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self.spec.limits.concurrency),
                timeout=aiohttp.ClientTimeout(total=self.spec.limits.timeout_s),
                headers={"Content-Type": "application/json", **self._dialect.headers(self._key)},
                trust_env=self.spec.proxy_from_environment,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        body = self._dialect.body(
            self.spec, prompt.messages, prompt.schema, without=without, sample=prompt.sample
        )
        async with self._session.post(
            self.spec.base_url.rstrip("/") + self._dialect.path,
            data=as_bytes(body),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        ) as response:
            self.requests += 1
            data = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK):
                data += chunk
                if len(data) > MAX_REPLY:
                    raise ValueError(f"the reply is longer than {MAX_REPLY // 2**20} MiB")
            return Exchange(body, response.status, response.headers, bytes(data))

    async def _litellm(
        self, prompt: Prompt, *, without: frozenset[str], timeout_s: float
    ) -> Exchange:

        return Exchange(
            *await post(self.spec, prompt, key=self._key, without=without, timeout_s=timeout_s)
        )

    async def _answer(
        self, prompt: Prompt, *, without: frozenset[str], timeout_s: float
    ) -> Exchange:
        """Ask a plugin, and put its answer into the form of a chat completion."""
        assert self._api.answer is not None
        spec = self.spec
        request = JudgeRequest(
            spec.model,
            prompt.messages,
            prompt.schema,
            spec.base_url,
            self._key,
            spec.temperature,
            spec.max_tokens,
            None if spec.seed is None else spec.seed + prompt.sample,
            timeout_s,
        )
        self.requests += 1
        try:
            answered = await asyncio.wait_for(self._api.answer(request), timeout_s)
        except TimeoutError:
            raise
        except (Exception, SystemExit) as error:  # a plugin must not end the process
            raise OSError(f"{spec.api}: {type(error).__name__}: {error}") from error
        reply = (
            answered
            if isinstance(answered, Reply)
            else Reply(answered, None, None, None, None, None)
        )
        body = {
            "model": reply.model or spec.model,
            "choices": [
                {
                    "message": {"content": reply.text, "refusal": reply.refusal},
                    "finish_reason": reply.finish,
                }
            ],
            "usage": {
                "prompt_tokens": reply.input_tokens,
                "completion_tokens": reply.output_tokens,
            },
        }
        return Exchange({"model": spec.model, "messages": prompt.messages}, 200, {}, as_bytes(body))

    def _masked(self, data: bytes) -> bytes:
        """The data with the key masked: an endpoint may send it back."""
        if self._key is None or len(self._key) < SHORTEST_KEY:
            return data
        key = self._key.encode()
        return data.replace(key, b"[key]").replace(key.replace(b"/", b"\\/"), b"[key]")


def _client_errors() -> tuple[type[Exception], ...]:
    try:
        from aiohttp import ClientError
    except ImportError:
        return ()
    return (ClientError,)


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
