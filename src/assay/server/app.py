"""The application: routes, errors, limits, startup and shutdown.

`create_app(settings)` builds everything; applications share only their routes. Startup opens the
ledger and finishes the work of a crashed server. Shutdown takes no new work, closes streams,
returns executions to the queue and stores queued records.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI

from assay import __version__
from assay.server import pages, problems
from assay.server.evaluating import Leftovers
from assay.server.executing import Executor
from assay.server.guard import Guard
from assay.server.logs import Log
from assay.server.routes import (
    decisions,
    evaluations,
    executions,
    library,
    live,
    records,
    runs,
    system,
    telemetry,
)
from assay.server.served import served
from assay.server.settings import ServerSettings, from_environment
from assay.server.state import Services

MODULES = (
    runs,  # first, because most requests post a run, and routes are tried in order
    live,
    system,
    executions,
    decisions,
    evaluations,
    records,
    library,
    telemetry,
)
"""Every file with routes of the API. An application takes the routes themselves: FastAPI would
search an included router for each request again.
"""


def _routers() -> list[APIRouter]:
    own = [module.router for module in MODULES]
    return [*own, *(router for family in served() for router in family.routes), *pages.routers()]


def create_app(settings: ServerSettings, *, log: Log | None = None) -> FastAPI:
    """A server for one ledger."""
    services = Services(settings, log=log)
    executor = Executor(services)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        leftovers = Leftovers(services)
        services.owner.hold()
        services.writer.start()
        services.hub.start()
        leftovers.start()
        executor.start()
        restore = _handle_signals(services)
        services.log.write("started", version=__version__, ledger=services.ledger.where)
        try:
            async with telemetry.trace_assembly(app):
                yield
        finally:
            restore()
            stop(services)
            await executor.close()
            await leftovers.close()
            await asyncio.to_thread(services.wait)
            await asyncio.to_thread(services.writer.close)
            await asyncio.to_thread(services.exporter.close, within_s=settings.shutdown_s / 4)
            services.ledger.close()
            services.owner.release()
            services.log.write("stopped")

    app = FastAPI(
        title="Assay",
        version=__version__,
        summary=(
            "The release gate for AI workflows: evidence in; scores, a grade and a decision out."
        ),
        openapi_url=None,  # it needs a token like the rest: see `routes.system`
        # The variables of OpenTelemetry name where grades go, not spans of this server's requests.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        docs_url=None,
        redoc_url=None,
        lifespan=life,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        routes=[route for router in _routers() for route in router.routes],
    )
    app.state.services = services
    app.state.executor = executor
    problems.install(app)
    pages.install(app)
    app.add_middleware(Guard, services=services)
    return app


def stop(services: Services) -> None:
    """Begin the shutdown: report "not ready", and close streams so that they don't delay it."""
    services.stopping = True
    services.close()
    services.hub.close()


def _handle_signals(services: Services) -> Any:
    """Close streams on SIGTERM and SIGINT, before the web server starts waiting for its
    connections. Returns a function that restores the previous handlers.
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
    """The application in a worker process, with the settings that its parent put into the
    environment.
    """
    return create_app(from_environment())
