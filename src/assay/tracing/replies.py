"""The reply of a command or an endpoint: outputs alone, or `assay.reply/1` with evidence.

A reply reports what the workflow did, not how well: it has no run scores, gates or test results,
because a workflow doesn't grade itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from assay.files.json_files import parse_json
from assay.records.evidence import Claim, Handoff, Retrieved, Status, Step, ToolCall
from assay.records.typed import convert
from assay.tracing.failures import CallFailed
from assay.tracing.recorder import Recorder

REPLY_SCHEMA = "assay.reply/1"
SHOWN = 300


class WorkflowReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Outputs with evidence. A list that is present is complete; an absent one means that nobody
    looked.
    """

    schema: str
    outputs: dict[str, Any] = {}
    status: Status = "success"
    error: str | None = None
    steps: list[Step] | None = None
    tool_calls: list[ToolCall] | None = None
    handoffs: list[Handoff] | None = None
    retrieval: list[Retrieved] | None = None
    claims: list[Claim] | None = None


def read_reply(data: bytes, record: Recorder) -> Mapping[str, Any]:
    """The outputs of a reply; its evidence goes into the recorder. Raises `CallFailed` if the reply
    is malformed or reports a failure.
    """
    try:
        tree = parse_json(data)
    except (ValueError, RecursionError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        shown = repr(data[:SHOWN].decode("utf-8", "replace")) if data.strip() else "it is empty."
        raise CallFailed(f"the reply is not JSON ({reason}): {shown}", again=False) from None
    if not isinstance(tree, dict):
        kind = {list: "list", str: "text", type(None): "null"}.get(type(tree), "value")
        raise CallFailed(f"the reply is a JSON {kind}, not an object.", again=False)
    if tree.get("schema") != REPLY_SCHEMA:
        return tree
    try:
        reply = convert(tree, WorkflowReply)
    except msgspec.ValidationError as error:
        raise CallFailed(
            f"the reply is not of the shape {REPLY_SCHEMA}: {error}.", again=False
        ) from None
    _record(reply, record)
    if reply.status != "success" or reply.error:  # a reply with an error may forget its status
        raise CallFailed(
            reply.error or f"the workflow reports that it ended with status '{reply.status}'.",
            again=False,
            status="error" if reply.status == "success" else reply.status,
        )
    return reply.outputs


def _record(reply: WorkflowReply, record: Recorder) -> None:
    for call in reply.tool_calls or ():
        error = call.error
        if error is not None and not isinstance(error, str):
            error = msgspec.json.encode(error).decode()
        record.tool(call.name, call.arguments, step=call.step, valid=call.valid, error=error)
    for step in reply.steps or ():
        opened = record.begin(step.name, agent=step.agent, critical=step.critical)
        opened.used(model=step.model, tier=step.tier, tokens=step.tokens, cost_usd=step.cost_usd)
        opened.retry(step.retries or 0)
        opened.metadata = dict(step.metadata)
        opened.scores = msgspec.to_builtins(step.scores, builtin_types=(Decimal,))
        opened.end(step.status, error=step.error, duration_ms=step.duration_ms)
    for handoff in reply.handoffs or ():
        record.handoff(handoff.source, handoff.to)
    for passage in reply.retrieval or ():
        record.retrieved(passage.id, passage.text, rank=passage.rank)
    for claim in reply.claims or ():
        record.claim(claim.text, citations=claim.citations)
    lists = ("tool_calls", "handoffs", "retrieval", "claims")
    record.watched(*(name for name in lists if getattr(reply, name) is not None))
