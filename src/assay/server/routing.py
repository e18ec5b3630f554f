"""What all routes have in common: they refuse query parameters that they don't declare. A filter
that is misspelt would otherwise find everything.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from assay.registry import near_miss
from assay.server.problems import Problem


class Route(APIRoute):
    """A route of the API, or, as a `PageRoute`, of a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, for requests whose parameters it knows."""
        handler, known = super().get_route_handler(), sorted(self._parameters())

        async def answer(request: Request) -> Response:
            if request.scope["query_string"]:
                for name in request.query_params:
                    if name not in known:
                        raise _unknown(name, known)
            return await handler(request)

        return answer

    def _parameters(self) -> set[str]:
        """The names in the signatures of the handler and its dependencies, and those in
        `openapi_extra`, which the handler reads itself.
        """
        names = {given["name"] for given in (self.openapi_extra or {}).get("parameters", ())}
        left = [self.dependant]
        while left:
            dependant = left.pop()
            names |= {field.alias for field in dependant.query_params}
            left += dependant.dependencies
        return names


def reads(*names: str, **described: str) -> dict[str, Any]:
    """For `openapi_extra`: query parameters that a handler reads itself."""
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": False,
                "schema": {"type": "string", "maxLength": 200},
                **({"description": described[name]} if name in described else {}),
            }
            for name in (*names, *described)
        ]
    }


def _unknown(name: str, known: list[str]) -> Problem:
    listed = f"The parameters here are {', '.join(known)}." if known else "Send none here."
    return Problem(
        422,
        f"unknown parameter {name[:80]!r}.{near_miss(name[:80], known)}",
        where=f"query.{name[:80]}",
        fix=listed,
    )
