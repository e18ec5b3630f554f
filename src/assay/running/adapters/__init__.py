"""Adapters call a workflow: each takes a task, reports what happens and returns the outputs. The
runner does the rest.

An adapter decides nothing about scores, and writes evidence only through `assay.tracing` (an import
contract in pyproject.toml checks that). Each kind is one module, loaded when a workflow names it,
with a record of its keys and a function `make(spec, folder, where)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import msgspec

from assay.errors import InputError
from assay.files.json_files import Document
from assay.records.reading import read_record
from assay.registry import Registry
from assay.tracing.failures import CallFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Mapping
    from pathlib import Path

    from assay.tracing.recorder import Recorder

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
"""The function that makes an adapter of each kind that a workflow file may name."""
BLOCK = 65536
_encode = msgspec.json.Encoder(decimal_format="number").encode
S = TypeVar("S")


class WorkflowTask(NamedTuple):
    """One call of a workflow: all that it sees of the sample."""

    run_id: str
    attempt: int
    inputs: Mapping[str, Any]

    def encoded(self) -> bytes:
        """The task as a command or an endpoint gets it."""
        return _encode(
            {
                "schema": "assay.task/1",
                "run_id": self.run_id,
                "attempt": self.attempt,
                "inputs": dict(self.inputs),
            }
        )


class AdapterSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The keys of an adapter in a workflow file, besides `kind`."""


class ReplySpec(AdapterSpec, frozen=True, kw_only=True):
    """The keys of an adapter that gets a reply in bytes."""

    max_reply_bytes: Annotated[int, msgspec.Meta(ge=1)] = 64 * 1024 * 1024


class Adapter:
    """One way to call a workflow."""

    async def call(self, task: WorkflowTask, record: Recorder) -> Any:
        """The outputs for a task, as the workflow returned them; the runner checks them. Raises
        `CallFailed`, or whatever the workflow raises.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Close connections and processes. Most adapters keep none."""


def make_adapter(spec: Mapping[str, Any], folder: Path, *, where: str) -> Adapter:
    """The adapter that a workflow file describes; `folder` is where that file is."""
    kind = str(spec.get("kind"))
    make = ADAPTERS.get(kind)
    if make is None:
        raise InputError(
            "RUN-001",
            f"adapter.kind is {spec.get('kind')!r}.{ADAPTERS.near(kind)}",
            where=where,
            fix=f"Use one of {', '.join(_MODULES)}, or an adapter of a plugin.",
        )
    return make({key: value for key, value in spec.items() if key != "kind"}, folder, where)


def read_spec(given: Mapping[str, Any], kind: type[S], where: str) -> S:
    """The keys of an adapter as a record, or every fault of them."""
    part = msgspec.defstruct("AdapterPart", [("adapter", kind)])
    read: Any = read_record(Document({"adapter": dict(given)}, where), part, "RUN-001")
    spec: S = read.adapter
    return spec


async def read_limited(blocks: AsyncIterable[bytes], limit: int, too_long: str) -> bytes:
    """All blocks together. Raises `CallFailed` as soon as they exceed the limit."""
    data = bytearray()
    async for block in blocks:
        data += block
        if len(data) > limit:
            raise CallFailed(f"{too_long} more than {limit:,} bytes.", again=False)
    return bytes(data)
