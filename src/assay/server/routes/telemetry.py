"""OTLP/HTTP: spans come in as any exporter sends them, and become runs once their trace is complete
(see `trace_runs`).

Answers follow the protocol: in the encoding of the request, with a count of the rejected spans, and
errors as a `Status`. A span is acknowledged when it is on disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from starlette.responses import Response

from assay.canon import encode
from assay.errors import AssayError, Fault, count
from assay.files.json_files import Document, parse_json
from assay.importers.importer import NameVersion, Wanted, named
from assay.importers.otlp import run_of
from assay.server import bodies, openapi
from assay.server.auth import READ, Principal, admit
from assay.server.background import Background, is_dead
from assay.server.grading import StoredGrade, make
from assay.server.posted_runs import grader_of
from assay.server.problems import Problem, problem_of
from assay.server.routing import Route, reads
from assay.server.state import SERVICES, Services
from assay.services.storing import links_draft
from assay.store import queue
from assay.store import traces as stored
from assay.store.databases import is_away
from assay.store.drafts import Link
from assay.store.traces import Due, TraceSpans
from assay.tracing.genai import MAX_SPANS, is_run
from assay.tracing.spans import Span
from assay.tracing.wire import Refused, from_json, from_protobuf, is_otlp

IDLE_S = 0.25
SWEEP_S = 3600.0
"""How often old spans are deleted."""
STALE_MS = 30_000
"""How long a silent server may keep a trace."""


def packed(span: Span) -> bytes:
    """A span in its stored form."""
    return encode(list(span))


def unpacked(data: bytes) -> Span:
    """A span from its stored form."""
    fields: list[Any] = parse_json(data)
    fields[7] = [(name, attributes) for name, attributes in fields[7]]
    return Span(*fields)


def asked(wanted: Wanted) -> bytes:
    """The names that a request gives to runs whose spans have none, in their stored form."""
    return encode([wanted.workflow, wanted.family, wanted.dataset])


def wanted_of(data: bytes) -> Wanted:
    """The names from their stored form."""
    workflow, family, dataset = parse_json(data)
    return Wanted(
        None if workflow is None else NameVersion(*workflow),
        family,
        None if dataset is None else NameVersion(*dataset),
    )


class TraceBuilder:
    """The background task of one server."""

    def __init__(
        self, services: Services, *, grace_s: float, limit_s: float, keep_s: float
    ) -> None:
        self._services = services
        self._database = services.ledger.database
        self._keep_ms = int(1000 * keep_s)
        self._sweep_s = min(SWEEP_S, max(IDLE_S, keep_s / 4))
        self._sweep_at = time.monotonic()
        self._grace_ms = int(1000 * grace_s)
        self._limit_ms = int(1000 * limit_s)
        self._owner = services.owner.name
        self._background = Background("traces", self._next, services.log, idle_s=IDLE_S)
        self.start, self.close = self._background.start, self._background.close

    async def _next(self) -> bool:
        await self._sweep()
        due = await asyncio.to_thread(
            stored.claim,
            self._database,
            self._owner,
            grace_ms=self._grace_ms,
            limit_ms=self._limit_ms,
            stale_ms=STALE_MS,
            is_dead=is_dead,
        )
        if due is not None:
            await self._build(due)
        return due is not None

    async def _sweep(self) -> None:
        """Delete the spans of traces that ended long ago; the outcome of each trace stays."""
        if time.monotonic() < self._sweep_at:
            return
        self._sweep_at = time.monotonic() + self._sweep_s
        before_ms = queue.now_ms() - self._keep_ms
        gone = await asyncio.to_thread(stored.forget, self._database, before_ms=before_ms)
        if gone:
            self._services.metrics.count("otlp_spans_forgotten", gone)
            self._services.log.write(
                "traces",
                forgotten=gone,
                message="the spans of traces that ended long ago were removed.",
            )

    async def _build(self, due: Due) -> None:
        """Build, grade and store the run of one trace, as if it had been posted."""
        services = self._services
        try:
            run = await asyncio.to_thread(self._run_of, due)
            if run is None:
                lost = f"{due.refused} of its spans could not be read; the others make no run"
                await self._close(
                    due,
                    state=stored.FAILED if due.refused else stored.EMPTY,
                    reason=lost if due.refused else "there is no run in it",
                )
                return
            kept = await self._store(due, run)
        except AssayError as error:
            if is_away(error):
                raise  # the trace is claimed again when the database is back
            services.metrics.count("otlp_traces_failed")
            broken = await self._break(due)
            reason = f"{error.message} {error.fix}".strip()[:2000]
            await self._close(due, state=stored.FAILED, digest=broken, reason=reason)
            services.exporter.refused(due.trace_id, error.code, error.message)
            return
        except Problem as problem:
            services.log.write("trace", level="warning", trace=due.trace_id, message=problem.detail)
            return  # too many records wait to be stored: the trace is claimed again
        services.metrics.count("otlp_runs")
        await self._close(
            due, state=stored.DONE, run_id=kept.made.payload["run_id"], digest=kept.evidence.digest
        )

    async def _store(self, due: Due, run: dict[str, Any]) -> StoredGrade:
        services, document = self._services, Document(run, f"trace {due.trace_id}")
        grader = grader_of(services, due.project)
        graded = await services.at_once(
            due.project, lambda: make(document, grader, author=due.author)
        )
        kept = (await services.store(due.project, [graded]))[0]
        if due.digest not in (None, kept.evidence.digest):  # it has all spans that the other has
            link = Link("supersedes", due.digest, kept.evidence.digest)
            await services.writer.put(due.project, [links_draft([link], author=due.author)])
        return kept

    async def _break(self, due: Due) -> str | None:
        """Store the run that was made of a trace before as a broken one, and return its digest:
        with the spans that came late there is no run in it, and its first grade must open no gate.
        """
        if due.digest is None:
            return None
        ledger = self._services.ledger
        before = await asyncio.to_thread(ledger.get, due.digest, project=due.project)
        if before is None or before.body is None:
            return None
        return (await self._store(due, {**before.tree(), "status": "error"})).evidence.digest

    def _run_of(self, due: Due) -> dict[str, Any] | None:
        bodies = stored.bodies(self._database, due.project, due.trace_id)
        spans = [unpacked(body) for body in bodies]
        return run_of(spans, wanted_of(due.asked), refused=due.refused) if is_run(spans) else None

    async def _close(self, due: Due, **more: Any) -> None:
        await asyncio.to_thread(stored.close, self._database, due.project, due.trace_id, **more)
        level = "info" if more["state"] == stored.DONE else "warning"
        self._services.log.write(
            "trace", level=level, trace=due.trace_id, project=due.project, **more
        )


PROTOBUF = "application/x-protobuf"
ADDRESSES = ("/v1/traces", "/api/v1/otlp/v1/traces")
"""The addresses for exporters: an exporter adds `/v1/traces` to its configured endpoint."""
_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 408: 4, 413: 8, 415: 3, 422: 3, 429: 8, 500: 13, 503: 14}
"""The code of a `google.rpc.Status` for each HTTP status."""


@asynccontextmanager
async def trace_assembly(app: FastAPI) -> AsyncIterator[None]:
    """Build runs from the spans that arrive, as long as the application lives."""
    services: Services = app.state.services
    settings = services.settings
    builder = TraceBuilder(
        services,
        grace_s=settings.otlp_grace_s,
        limit_s=settings.otlp_limit_s,
        keep_s=settings.otlp_keep_s,
    )
    builder.start()
    try:
        yield
    finally:
        await builder.close()


router = APIRouter(route_class=Route, tags=["telemetry"])


async def post_traces(request: Request) -> Response:
    """An `ExportTraceServiceRequest`, as protobuf or as JSON, plain or as gzip. The query may state
    `workflow`, `family` and `dataset` for spans that don't.
    """
    media = (
        PROTOBUF
        if (bodies.header(request, "content-type") or "").startswith(PROTOBUF)
        else bodies.JSON
    )
    try:
        services: Services = request.app.state.services
        principal = await admit(request, "write")
        media = bodies.media_type(request, PROTOBUF, bodies.JSON)
        data = await bodies.content(request, services.settings)
        return await _take(request, services, principal, data, media)
    except Problem as problem:
        return _status(problem, media)
    except AssayError as error:
        return _status(problem_of(error), media)


for _address in ADDRESSES:
    router.add_api_route(
        _address,
        post_traces,
        methods=["POST"],
        include_in_schema=False,
        openapi_extra=reads("workflow", "family", "dataset"),
    )


async def _take(
    request: Request, services: Services, principal: Principal, data: bytes, media: str
) -> Response:
    wanted = _wanted(request)
    received = await asyncio.to_thread(_read, data, media)
    batches, unplaced = _by_trace(received)
    faults = [fault for fault in received if isinstance(fault, Fault)]
    if batches:
        now_ms = time.time_ns() // 10**6
        taken = await asyncio.to_thread(
            stored.keep,
            services.ledger.database,
            principal.project,
            batches,
            asked=asked(wanted),
            author=principal.author,
            now_ms=now_ms,
            limit=MAX_SPANS,
        )
        if taken.closed:
            raise Problem(
                429,
                "too many traces are waiting for their root span.",
                fix="Wait, then try again.",
                headers={"Retry-After": "10"},
            )
    else:
        taken = stored.SpansTaken(0, 0)
    services.metrics.count("otlp_spans", len(received) - len(faults))
    services.metrics.count("otlp_spans_refused", len(faults) + taken.too_many)
    services.metrics.count("otlp_spans_late", taken.late)
    return _answer(
        media, len(faults) + taken.too_many + taken.late, _words(faults, unplaced, taken)
    )


def _wanted(request: Request) -> Wanted:
    query = request.query_params
    workflow, dataset = query.get("workflow"), query.get("dataset")
    family = query.get("family")
    if max(len(text or "") for text in (workflow, dataset, family)) > 500:
        raise Problem(400, "a parameter has at most 500 characters.", where="query")
    return Wanted(
        None if workflow is None else named(workflow, "workflow"),
        family,
        None if dataset is None else named(dataset, "dataset"),
    )


def _read(data: bytes, media: str) -> list[Span | Fault]:
    if media == PROTOBUF:
        return list(from_protobuf(data, file="body"))
    tree = bodies.parsed(data)
    if not is_otlp(tree) and tree != {}:
        raise Problem(
            400,
            "the body is not an export of spans.",
            where="body",
            fix='Send {"resourceSpans": [...]}.',
        )
    return list(from_json(tree, file="body"))


def _by_trace(received: Iterable[Span | Fault]) -> tuple[dict[str, TraceSpans], int]:
    """The spans that arrived for each trace, and how many belong to no known trace."""
    spans: dict[str, list[Span]] = {}
    refused: dict[str, int] = {}
    unplaced = 0
    for item in received:
        if isinstance(item, Span):
            spans.setdefault(item.trace_id, []).append(item)
        elif isinstance(item, Refused) and item.trace_id is not None:
            refused[item.trace_id] = refused.get(item.trace_id, 0) + 1
        else:
            unplaced += 1
    batches = {}
    for trace_id in {**spans, **refused}:
        mine = spans.get(trace_id, [])
        kept = {
            (span.span_id, sha256(body).hexdigest()[:32]): body
            for span, body in ((span, packed(span)) for span in mine)
        }
        # a span with a remote parent is not a root: the parent ends later, and may still arrive
        # from another program
        batches[trace_id] = TraceSpans(
            kept, any(span.parent_id is None for span in mine), refused.get(trace_id, 0)
        )
    return batches, unplaced


def _words(faults: list[Fault], unplaced: int, taken: stored.SpansTaken) -> str:
    parts = (
        [f"{count(len(faults), 'span')} cannot be read, first {faults[0].text()}"] if faults else []
    )
    parts += [f"{unplaced} of them belong to no known trace"] if unplaced else []
    parts += (
        [f"{taken.late} spans came too late: the others of their trace are no longer kept"]
        if taken.late
        else []
    )
    parts += (
        [f"{taken.too_many} spans are beyond the {MAX_SPANS:,} that one trace may have"]
        if taken.too_many
        else []
    )
    return "; ".join(parts)


def _answer(media: str, rejected: int, words: str) -> Response:
    """An `ExportTraceServiceResponse`."""
    if media == PROTOBUF:
        partial = _number(1, rejected) + _bytes(2, words.encode()) if words else b""
        return Response(_bytes(1, partial) if partial else b"", 200, media_type=PROTOBUF)
    partial_success: dict[str, Any] = (
        {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": words}} if words else {}
    )
    return Response(encode(partial_success), 200, media_type=bodies.JSON)


def _status(problem: Problem, media: str) -> Response:
    """A `Status` with the problem's message."""
    words = f"{problem.detail} {problem.fix}".strip().encode("utf-8", "backslashreplace")
    code = _CODES.get(problem.status, 2)
    if media == PROTOBUF:
        return Response(
            _number(1, code) + _bytes(2, words),
            problem.status,
            headers=dict(problem.headers or {}),
            media_type=PROTOBUF,
        )
    body = encode({"code": code, "message": words.decode()})
    return Response(
        body, problem.status, headers=dict(problem.headers or {}), media_type=bodies.JSON
    )


def _varint(number: int) -> bytes:
    """A number as protobuf writes it.

    >>> _varint(300).hex()
    'ac02'
    """
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


@router.get(
    "/api/v1/otlp/traces",
    summary="Traces that came over OTLP and what became of them",
    responses=openapi.EVERY,
)
def list_traces(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    state: Annotated[str | None, Query(pattern="^(gathering|building|done|failed|empty)$")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The newest first: how many spans each has, how many came late or were refused, its run, or
    why there is none.
    """
    traces = stored.listed(services.ledger.database, principal.project, state=state, limit=limit)
    return bodies.answer(request, {"items": [trace._asdict() for trace in traces]})
