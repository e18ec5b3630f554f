"""The application: routes, errors, limits and the life of the process.

`create_app(settings)` makes everything anew; nothing is global. Starting opens the ledger and
finishes what a dead server left; ending stops new work, lets streams go, gives jobs back and stores
what waits.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import sys
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from assay import __version__
from assay.server import pages, problems
from assay.server.executing import Executor
from assay.server.guard import Guard
from assay.server.jobs import Worker
from assay.server.routes import (
    decisions,
    executions,
    jobs,
    library,
    live,
    records,
    runs,
    system,
    telemetry,
)
from assay.server.settings import Settings, from_environment
from assay.server.side import Side
from assay.server.state import Services

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from assay.server.logs import Log

PREFIX = "/api/v1"
SWITCH_S = 0.0005
"""How long the thread that stores waits for the interpreter's lock while requests are worked on; it
needs it some twenty times for a commit.
"""


def create_app(settings: Settings, *, log: Log | None = None, beside: bool = False) -> FastAPI:
    """A server for one ledger; with `beside` it grades and stores in processes of their own."""
    services = Services(settings, log=log)
    if beside:
        services.side = Side(settings, services.log, services.library)
    executor = Executor(services)

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        worker = Worker(services)
        services.metrics.start()
        services.writer.start()
        services.hub.start()
        if services.side is not None:
            await services.side.start()
        worker.start()
        executor.start()
        restore = _hear_the_end(services)
        services.log.write("started", version=__version__, ledger=services.ledger.where)
        try:
            yield
        finally:
            restore()
            stop(services)
            await executor.close()
            await worker.close()
            if services.side is not None:
                await services.side.close()
            await asyncio.to_thread(services.wait)
            await asyncio.to_thread(services.writer.close)
            await asyncio.to_thread(services.teller.close, within_s=settings.shutdown_s / 4)
            services.ledger.close()
            await asyncio.to_thread(services.metrics.close)
            services.log.write("stopped")

    app = Server(
        title="Assay",
        version=__version__,
        summary=(
            "The release gate for AI workflows: evidence in; scores, a grade and a decision out."
        ),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    app.state.services = services
    app.state.executor = executor
    problems.install(app)
    for module in (system, live, runs, executions, decisions, records, jobs, library):
        app.include_router(module.router, prefix=PREFIX)
    app.include_router(telemetry.router)
    pages.install(app)
    # every run comes this way: what FastAPI adds around a route costs more than reading and
    # answering it
    quick = {("POST", f"{PREFIX}/runs"): problems.answering(app, runs.post_runs, "/runs")}
    app.short_ways = {way: Guard(answer, services=services) for way, answer in quick.items()}
    app.add_middleware(Guard, services=services)
    return app


class Server(FastAPI):
    """FastAPI with short ways: what is asked for by its very method and path goes past every layer
    but the guard.
    """

    short_ways: Mapping[tuple[str, str], ASGIApp] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        way = (
            self.short_ways.get((scope["method"], scope["path"]))
            if scope["type"] == "http"
            else None
        )
        if way is None:
            await super().__call__(scope, receive, send)
        else:
            await way(scope, receive, send)


def stop(services: Services) -> None:
    """The end begins: not ready any more, and no stream holds the server up."""
    services.stopping = True
    services.close()
    services.hub.close()
    if services.side is not None:
        services.side.hurry(services.settings.shutdown_s * 0.75)


def _hear_the_end(services: Services) -> Any:
    """Hear of a SIGTERM before the web server waits for its connections: streams would keep it
    waiting. Returns what undoes this.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def heard(number: int, frame: Any) -> None:
        loop.call_soon_threadsafe(stop, services)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    chained = [
        number
        for number, handler in before.items()
        if callable(handler) and handler is not signal.default_int_handler
    ]
    for number in chained:
        signal.signal(number, heard)

    def restore() -> None:
        for number in chained:
            signal.signal(number, before[number])

    return restore


def from_parent() -> FastAPI:
    """The application in a worker process, with the settings that its parent left.

    A worker that is alone gets processes beside it, so that several cores work; several workers
    have the cores between them.
    """
    gc.freeze()  # what was loaded stays for good, and need not be looked through for garbage
    gc.set_threshold(10_000, 20, 20)
    sys.setswitchinterval(SWITCH_S)
    alone = multiprocessing.parent_process() is None and (os.cpu_count() or 1) > 1
    return create_app(from_environment(), beside=alone)
