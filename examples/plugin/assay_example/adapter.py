"""An adapter: calls a workflow. Here the answer is in the workflow file."""

from __future__ import annotations

from typing import Any

from assay.plugins import Adapter, AdapterSpec, read_spec


class CannedSpec(AdapterSpec, frozen=True, kw_only=True):
    """The keys of the adapter in a workflow file, besides `kind`."""

    answer: str


class CannedAdapter(Adapter):
    """Gives the same answer to everything."""

    def __init__(self, answer: str) -> None:
        self._answer = answer

    async def call(self, task: Any, record: Any) -> Any:
        """The outputs for a task."""
        return {"answer": self._answer}


def make(given: Any, folder: Any, where: str) -> CannedAdapter:
    """The same answer to everything."""
    return CannedAdapter(read_spec(given, CannedSpec, where).answer)
