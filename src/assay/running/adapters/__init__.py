"""How a workflow is called. An adapter takes a task, writes what happens into a recorder and
returns the outputs; the rest is the runner's.

An adapter decides nothing about scores. Each kind is one module, loaded when a workflow asks for
it, with a function `make(spec, folder)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from assay.errors import InputError
from assay.registry import Registry, near_miss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from assay.running.recorder import Recorder

_MODULES = {
    "python": "callable",
    "command": "command",
    "http": "http",
    "langgraph": "langgraph",
    "agent_framework": "agent_framework",
}
ADAPTERS: Registry[Callable[[Mapping[str, Any], Path, str], Adapter]] = Registry(
    "adapter",
    homes={f"assay.running.adapters.{module}:make": (kind,) for kind, module in _MODULES.items()},
    group="assay.adapters",
)
"""What makes an adapter of each kind that a workflow file may name."""


class Task(NamedTuple):
    """One call of a workflow: what it gets, and nothing else of the sample."""

    run_id: str
    attempt: int
    inputs: Mapping[str, Any]

    def document(self) -> dict[str, Any]:
        """The task as a command or an endpoint gets it."""
        return {
            "schema": "assay.task/1",
            "run_id": self.run_id,
            "attempt": self.attempt,
            "inputs": dict(self.inputs),
        }


class CallFailed(Exception):  # no fault of ours, and it never leaves the runner
    """The workflow did not give outputs. `again` says whether another try may help; `status` is how
    the run ends if it does not.
    """

    def __init__(self, message: str, *, again: bool = True, status: str = "error") -> None:
        super().__init__(message)
        self.again = again
        self.status = status


class Adapter(Protocol):
    """One way to call a workflow."""

    async def call(self, task: Task, record: Recorder) -> Any:
        """The outputs for a task, as the workflow gave them; the runner checks what they are.
        Raises `CallFailed`, or whatever the workflow raises.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and processes."""
        ...


def make_adapter(spec: Mapping[str, Any], folder: Path, *, where: str) -> Adapter:
    """The adapter that a workflow file describes; `folder` is where that file is."""
    kind = str(spec.get("kind"))
    make = ADAPTERS.get(kind)
    if make is None:
        raise InputError(
            "RUN-001",
            f"adapter.kind is {spec.get('kind')!r}.{near_miss(kind, _MODULES)}",
            where=where,
            fix=f"It is one of {', '.join(_MODULES)}.",
        )
    return make({key: value for key, value in spec.items() if key != "kind"}, folder, where)
