"""Builds runs from traces received over OTLP, in the background of every server; one server builds
each trace.

A trace is built when its root has arrived and nothing has followed for a moment, and again if a
span follows later. If the root doesn't arrive in time, the trace becomes a broken run. If a run
can't be built or graded, its trace is `failed`, with the reason. Spans stay for a while.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from assay.archive.grades import links_draft
from assay.canon import encode
from assay.errors import AssayError
from assay.files.json_files import Document, parse_json
from assay.importers.importer import NameVersion, Wanted
from assay.importers.otlp import run_of
from assay.server.background import Background, is_dead
from assay.server.graded_by import grader_of
from assay.server.grading import StoredGrade, make
from assay.server.problems import Problem
from assay.server.state import Services
from assay.store import queue
from assay.store import traces as stored
from assay.store.databases import is_away
from assay.store.drafts import Link
from assay.store.traces import Due
from assay.tracing.genai import is_run
from assay.tracing.spans import Span

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
