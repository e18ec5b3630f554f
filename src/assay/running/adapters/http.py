"""An HTTP endpoint as a workflow: the task is posted as JSON, the answer is the reply.

Redirects are not followed: they could send the inputs of a sample to another host. The answer must
be declared as JSON, and is read up to a limit. Keys come from the environment, never from the file,
and headers are never stored.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from assay.errors import InputError
from assay.running.adapters import BLOCK, Adapter, ReplySpec, WorkflowTask, read_limited, read_spec
from assay.running.adapters.targets import framework
from assay.tracing.failures import CallFailed
from assay.tracing.replies import read_reply

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from assay.tracing.recorder import Recorder


class HttpSpec(ReplySpec, frozen=True, kw_only=True):
    """The keys of an http adapter."""

    url: str
    headers: dict[str, str] = {}
    headers_from_env: dict[str, str] = {}


def make(given: Mapping[str, Any], folder: Path, where: str) -> HttpAdapter:
    """An HTTP endpoint."""
    spec = read_spec(given, HttpSpec, where)
    url = urlsplit(spec.url)
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.password:
        raise InputError(
            "RUN-001",
            "adapter.url must be an http or https URL without a user name or password.",
            where=where,
        )
    headers = {"Content-Type": "application/json", "Accept": "application/json", **spec.headers}
    for header, name in spec.headers_from_env.items():
        value = os.environ.get(name)
        if not value:
            raise InputError(
                "RUN-004",
                f"the environment has no {name}, from which the header {header} comes.",
                where=where,
            )
        headers[header] = value
    framework("aiohttp", "run", where)
    return HttpAdapter(spec.url, headers, spec.max_reply_bytes)


class HttpAdapter(Adapter):
    """An endpoint, called over connections that are kept open."""

    def __init__(self, url: str, headers: Mapping[str, str], limit: int) -> None:
        self._url = url
        self._headers = headers
        self._limit = limit
        self._session: Any = None

    async def call(self, task: WorkflowTask, record: Recorder) -> Mapping[str, Any]:
        """The endpoint's answer."""
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None)  # the runner keeps the time
            self._session = aiohttp.ClientSession(
                timeout=timeout, connector=aiohttp.TCPConnector(limit=0), headers=self._headers
            )
        try:
            async with self._session.post(
                self._url, data=task.encoded(), allow_redirects=False
            ) as answer:
                _refuse(answer.status, str(answer.content_type))
                blocks = answer.content.iter_chunked(BLOCK)
                return read_reply(
                    await read_limited(blocks, self._limit, "the endpoint answers"), record
                )
        except (aiohttp.ClientError, OSError) as error:
            words = " ".join(str(error).split()) or type(error).__name__
            raise CallFailed(f"the endpoint cannot be reached: {words[:300]}.") from None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)


def _refuse(status: int, kind: str) -> None:
    if 300 <= status < 400:
        raise CallFailed(
            f"the endpoint answers {status}, a redirect, which is not followed.", again=False
        )
    if status >= 400:
        raise CallFailed(f"the endpoint answers {status}.", again=status == 429 or status >= 500)
    if kind != "application/json" and not kind.endswith("+json"):
        raise CallFailed(f"the endpoint answers {kind}, not JSON.", again=False)
