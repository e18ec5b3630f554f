"""One file for each group of routes. Each route declares the scope it needs; only health and
readiness need none.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import signature
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response


class DirectRoute(APIRoute):
    """A route for posted evidence. If its function takes only the request, it is called directly:
    FastAPI has no parameter to read, and looking for them takes longer than parsing a run.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The function itself, or FastAPI's handler around it."""
        if list(signature(self.endpoint).parameters) == ["request"]:
            handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
            return handler
        return super().get_route_handler()
