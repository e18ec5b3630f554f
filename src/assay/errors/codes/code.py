"""What a table of error codes is made of."""

from __future__ import annotations

from typing import NamedTuple


class ErrorCode(NamedTuple):
    """Why an error with this code is raised, and how to fix it."""

    cause: str
    fix: str
