"""What a command or an endpoint answers: the outputs alone, or `assay.reply/1`, which also says
what happened.

A reply says what was done and never how well: it has no scores, gates or test results of its own,
because a workflow does not grade itself.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from assay.files.json_files import parse_json
from assay.records.evidence import Claim, Handoff, Retrieved, Status, Step, ToolCall
from assay.records.typed import convert
from assay.running.adapters import CallFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.running.recorder import Recorder

REPLY_SCHEMA = "assay.reply/1"
SHOWN = 300


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An answer with evidence. A list that is there is complete; one that is absent says that
    nobody looked.
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
    """The outputs of a reply; what it says beside them goes into the recorder. Raises `CallFailed`
    for what is no reply.
    """
    try:
        tree = parse_json(data)
    except (ValueError, RecursionError) as error:
        raise CallFailed(
            f"the reply is no JSON ({_first_line(error)}): {_start(data)}", again=False
        ) from None
    if not isinstance(tree, dict):
        raise CallFailed(f"the reply is a JSON {_kind(tree)}, not an object.", again=False)
    if tree.get("schema") != REPLY_SCHEMA:
        return tree
    try:
        reply = convert(tree, Reply)
    except msgspec.ValidationError as error:
        raise CallFailed(
            f"the reply is not of the shape {REPLY_SCHEMA}: {error}.", again=False
        ) from None
    _take(reply, record)
    if reply.status != "success":
        raise CallFailed(
            reply.error or f"the workflow says that it ended with status '{reply.status}'.",
            again=False,
            status=reply.status,
        )
    return reply.outputs


def _take(reply: Reply, record: Recorder) -> None:
    for call in reply.tool_calls or ():
        record.tool(
            call.name, call.arguments, step=call.step, valid=call.valid, error=_text(call.error)
        )
    for step in reply.steps or ():
        opened = record.begin(step.name, agent=step.agent, critical=step.critical)
        opened.used(model=step.model, tier=step.tier, tokens=step.tokens, cost_usd=step.cost_usd)
        opened.retry(step.retries or 0)
        opened.metadata = dict(step.metadata)
        opened.scores = msgspec.to_builtins(step.scores, builtin_types=(Decimal,))
        opened.end(step.status, error=step.error, duration_ms=step.duration_ms)
    for handoff in reply.handoffs or ():
        record.handoff(handoff.source, handoff.to)
    for found in reply.retrieval or ():
        record.retrieved(found.id, found.text, rank=found.rank)
    for claim in reply.claims or ():
        record.claim(claim.text, citations=claim.citations)
    record.watched(
        *(
            name
            for name in ("tool_calls", "handoffs", "retrieval", "claims")
            if getattr(reply, name) is not None
        )
    )


def _text(value: Any) -> str | None:
    return (
        None
        if value is None
        else value
        if isinstance(value, str)
        else msgspec.json.encode(value).decode()
    )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


def _kind(tree: Any) -> str:
    return (
        "list"
        if isinstance(tree, list)
        else "null"
        if tree is None
        else "text"
        if isinstance(tree, str)
        else "value"
    )


def _start(data: bytes) -> str:
    if not data.strip():
        return "it is empty."
    return repr(data[:SHOWN].decode("utf-8", "replace"))
