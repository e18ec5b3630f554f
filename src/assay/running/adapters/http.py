"""An HTTP endpoint as a workflow: the task is posted as JSON, the answer is the reply.

Redirects are not followed: they could lead the inputs of a sample to another host. The answer must
say that it is JSON, and is read up to a limit. Keys come from the environment, never from the file,
and no header is ever written down.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from assay.errors import InputError
from assay.running.adapters import CallFailed
from assay.running.adapters.replies import read_reply

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from assay.running.adapters import Task
    from assay.running.recorder import Recorder

KEYS = ("url", "headers", "headers_from_env", "max_reply_bytes")
MAX_REPLY = 64 * 1024 * 1024
_encode = msgspec.json.Encoder(decimal_format="number").encode


def make(spec: Mapping[str, Any], folder: Path, where: str) -> Http:
    """The adapter for an endpoint."""
    unknown = sorted(set(spec) - set(KEYS))
    if unknown:
        raise InputError(
            "RUN-001",
            f"adapter has the key {unknown[0]!r}; an http adapter has {', '.join(KEYS)}.",
            where=where,
        )
    url = spec.get("url")
    parts = urlsplit(url) if isinstance(url, str) else None
    if (
        parts is None
        or parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.username
        or parts.password
    ):
        raise InputError(
            "RUN-001",
            "adapter.url is an http or https address without a name or password in it.",
            where=where,
        )
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        **_texts(spec.get("headers", {}), where),
    }
    for header, name in _texts(spec.get("headers_from_env", {}), where).items():
        value = os.environ.get(name)
        if not value:
            raise InputError(
                "RUN-004",
                f"the environment has no {name}, from which the header {header} comes.",
                where=where,
            )
        headers[header] = value
    limit = spec.get("max_reply_bytes", MAX_REPLY)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InputError(
            "RUN-001", "adapter.max_reply_bytes is a whole number from 1.", where=where
        )
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        raise InputError(
            "RUN-004",
            "calling an endpoint needs aiohttp.",
            where=where,
            fix="pip install 'assay[run]'",
        ) from None
    return Http(str(url), headers, limit)


def _texts(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise InputError(
            "RUN-001",
            "adapter.headers and adapter.headers_from_env map names to texts.",
            where=where,
        )
    return dict(value)


class Http:
    """An endpoint, asked over connections that are kept."""

    def __init__(self, url: str, headers: Mapping[str, str], limit: int) -> None:
        self._url = url
        self._headers = headers
        self._limit = limit
        self._session: Any = None

    async def call(self, task: Task, record: Recorder) -> Mapping[str, Any]:
        """The endpoint's answer."""
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None)  # the runner keeps the time
            self._session = aiohttp.ClientSession(
                timeout=timeout, connector=aiohttp.TCPConnector(limit=0), headers=self._headers
            )
        try:
            async with self._session.post(
                self._url, data=_encode(task.document()), allow_redirects=False
            ) as answer:
                self._refuse(answer)
                return read_reply(await self._body(answer), record)
        except (aiohttp.ClientError, OSError) as error:
            words = " ".join(str(error).split()) or type(error).__name__
            raise CallFailed(f"the endpoint cannot be reached: {words[:300]}.") from None

    def _refuse(self, answer: Any) -> None:
        if 300 <= answer.status < 400:
            raise CallFailed(
                f"the endpoint answers {answer.status}, a redirect, which is not followed.",
                again=False,
            )
        if answer.status == 429 or answer.status >= 500:
            raise CallFailed(f"the endpoint answers {answer.status}.")
        if answer.status >= 400:
            raise CallFailed(f"the endpoint answers {answer.status}.", again=False)
        kind = str(answer.content_type)
        if kind != "application/json" and not kind.endswith("+json"):
            raise CallFailed(f"the endpoint answers {kind}, not JSON.", again=False)

    async def _body(self, answer: Any) -> bytes:
        parts = []
        size = 0
        async for block in answer.content.iter_chunked(65536):
            size += len(block)
            if size > self._limit:
                raise CallFailed(
                    f"the endpoint answers more than {self._limit:,} bytes.", again=False
                )
            parts.append(block)
        return b"".join(parts)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)
