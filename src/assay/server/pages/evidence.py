"""What was seen of a run: its steps and agents, its tool calls, what went in and what came out.
Everything is shown as text, whatever it holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from assay.views.blocks import (
    Column,
    Details,
    Facts,
    Figure,
    Group,
    Heading,
    Paragraph,
    Part,
    Table,
    Verbatim,
    section,
)
from assay.views.charts import steps as step_charts
from assay.views.grade import MAX_ROWS
from assay.views.pieces import (
    address,
    clip,
    code,
    line,
    link,
    phrase,
    verdict,
)
from assay.views.pieces import shown as say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Tree = dict[str, Any]
MAX_TEXT = 8_000
"""Signs of one text on a page; the record itself has them all."""
_encode = msgspec.json.Encoder(decimal_format="number").encode
_TESTS = {
    "fail_to_pass": "Broken tests that must pass now",
    "pass_to_pass": "Tests that must still pass",
}
_SPENT = {
    "latency_ms": "Latency, ms",
    "cost_usd": "Cost, USD",
    "tokens": "Tokens",
    "retries": "Retries",
}
_STEPS = (
    Column("Step"),
    Column("Agent"),
    Column("Status"),
    Column("Critical"),
    Column("Duration, ms", "n"),
    Column("Retries", "n"),
    Column("Model"),
    Column("Tokens", "n"),
    Column("Cost, USD", "n"),
    Column("Scores"),
    Column("Error", "wide"),
)
_AGENTS = (
    Column("Agent"),
    Column("Steps", "n"),
    Column("Succeeded", "n"),
    Column("Failed", "n"),
    Column("Skipped", "n"),
    Column("Duration, ms", "n"),
    Column("Retries", "n"),
    Column("Tokens", "n"),
    Column("Cost, USD", "n"),
)


def text(value: Any) -> str:
    """A value as text: a text as it is, anything else as JSON."""
    return (
        value if isinstance(value, str) else msgspec.json.format(_encode(value), indent=2).decode()
    )


def block(title: str, value: Any, whole: str) -> Part:
    """A value under its name. A long one is cut, and says where the rest is."""
    found = text(value)
    parts: list[Part] = [Heading(title), Verbatim(found[:MAX_TEXT], title)]
    if len(found) > MAX_TEXT:
        cut = f"The first {MAX_TEXT:,} of {len(found):,} characters. "
        parts.append(Paragraph(phrase(cut, link("The whole record", whole)), "hint"))
    return Group(parts, "text")


def steps(run: Tree | None, result: Tree | None, url: str) -> Part:
    """Steps on an axis of time and as a table, and what each agent did."""
    told = (run or {}).get("steps") or (result or {}).get("step_scores") or ()
    if not told:
        return section(
            "Steps and agents", Paragraph("This run reports no step.", "absent"), id="steps"
        )
    rows = [_step(step) for step in told[:MAX_ROWS]]
    agents = [_agent(one) for one in ((result or {}).get("agent_scores") or ())[:MAX_ROWS]]
    more = (
        [Paragraph(f"The first {MAX_ROWS} of {len(told):,} steps.", "hint")]
        if len(told) > MAX_ROWS
        else []
    )
    picture = [Figure(step_charts.timeline(result), f"{url}/timeline")] if result and url else []
    numbers = Details("Steps in numbers", [Table("Steps", _STEPS, rows), *more])
    return section(
        "Steps and agents",
        *picture,
        numbers,
        Heading("Agents"),
        Table("Agents", _AGENTS, agents, absent="No step names its agent."),
        id="steps",
    )


def _step(step: Mapping[str, Any]) -> list[str]:
    scores = step.get("scores") or {}
    shown = phrase(
        *[
            line(clip(name, 100), ": ", clip(_raw(score), 100))
            for name, score in list(scores.items())[:10]
        ]
    ) or say(None, "none")
    return [
        clip(step.get("name")),
        clip(step.get("agent"), absent_as="none"),
        verdict(step.get("status")),
        say(step.get("critical", True)),
        *(
            clip(step.get(name), 60, absent_as="not reported")
            for name in ("duration_ms", "retries", "model", "tokens", "cost_usd")
        ),
        shown,
        clip(step.get("error"), absent_as="none"),
    ]


def _raw(score: Any) -> Any:
    return score.get("raw") if isinstance(score, dict) and "raw" in score else score


def _agent(one: Mapping[str, Any]) -> list[str]:
    unreported = one.get("unreported") or {}
    spent = [
        say(
            one.get(name),
            (
                f"not reported by {unreported[name]} of its steps"
                if name in unreported
                else "not reported"
            ),
        )
        for name in ("duration_ms", "retries", "tokens", "cost_usd")
    ]
    return [
        clip(one.get("agent"), absent_as="none"),
        *(say(one.get(name)) for name in ("steps", "succeeded", "failed", "skipped")),
        *spent,
    ]


def tool_calls(run: Tree) -> Part:
    """Each call with its arguments and whether they were valid. One that nobody checked is not
    valid, it is unchecked.
    """
    calls: Sequence[Mapping[str, Any]] | None = run.get("tool_calls")
    if not calls:
        said = (
            "This run says nothing of tool calls." if calls is None else "This run called no tool."
        )
        return section("Tool calls", Paragraph(said, "absent"), id="tools")
    words = {
        True: ("valid", "valid"),
        False: ("invalid", "invalid"),
        None: ("undetermined", "not checked"),
    }
    rows = []
    for call in calls[:MAX_ROWS]:
        arguments = (
            code(clip(text(call["arguments"])))
            if call.get("arguments") is not None
            else say(None, "none")
        )
        rows.append(
            [
                code(clip(call.get("name"))),
                clip(call.get("step"), absent_as="none"),
                verdict(*words.get(call.get("valid"), words[None])),
                arguments,
                _error(call),
            ]
        )
    valid = sum(call.get("valid") is True for call in calls)
    hint = f"{valid} of {len(calls):,} are known to be valid." + (
        f" The first {MAX_ROWS} are shown." if len(calls) > MAX_ROWS else ""
    )
    columns = (
        "Tool",
        "Step",
        "Arguments are",
        Column("Arguments", "wide"),
        Column("Error", "wide"),
    )
    return section("Tool calls", Table("Tool calls", columns, rows), id="tools", hint=hint)


def _error(call: Mapping[str, Any]) -> str:
    return clip(text(call["error"])) if call.get("error") is not None else say(None, "none")


def evidence(run: Tree, digest: str) -> Part:
    """What went in, what came out and what was expected, then the rest of what was seen."""
    whole = address("api", "v1", "records", digest)
    parts: list[Part] = []
    for title, name, nothing in (
        ("Inputs", "inputs", "The run states no inputs."),
        ("Outputs", "outputs", "The run states no outputs."),
        ("Expected", "expected", "The run states nothing that was expected."),
    ):
        value = run.get(name)
        parts.append(
            block(title, value, whole)
            if value not in (None, {})
            else Group([Heading(title), Paragraph(nothing, "absent")])
        )
    spent = [(label, say(run.get(name), "not reported")) for name, label in _SPENT.items()]
    tests = (
        [
            (label, say((run.get("tests") or {}).get(name), "not run"))
            for name, label in _TESTS.items()
        ]
        if run.get("tests")
        else []
    )
    return section(
        "Evidence",
        Group(parts, "columns"),
        Facts([*spent, *tests]),
        *_claims(run),
        *_retrieval(run),
        *_handoffs(run),
        id="evidence",
    )


def _claims(run: Tree) -> list[Part]:
    claims = run.get("claims")
    if claims is None:
        return []
    words = {
        True: ("pass", "supported"),
        False: ("fail", "not supported"),
        None: ("undetermined", "not judged"),
    }
    rows = [
        [
            clip(one.get("text")),
            verdict(*words[one.get("supported")]),
            clip(one.get("citations"), absent_as="none"),
            say(one.get("severity")),
        ]
        for one in claims[:MAX_ROWS]
    ]
    return [
        Heading("Claims"),
        Table(
            "Claims",
            (Column("Claim", "wide"), "Support", "Citations", "Severity"),
            rows,
            absent="The answer makes no claim.",
        ),
    ]


def _retrieval(run: Tree) -> list[Part]:
    found = run.get("retrieval")
    if found is None:
        return []
    words = {
        True: ("pass", "relevant"),
        False: ("fail", "not relevant"),
        None: ("undetermined", "not judged"),
    }
    rows = [
        [
            code(clip(one.get("id"))),
            say(one.get("rank")),
            verdict(*words[one.get("relevant")]),
            clip(one.get("text"), absent_as="no text"),
        ]
        for one in found[:MAX_ROWS]
    ]
    return [
        Heading("Retrieved"),
        Table(
            "Retrieved passages",
            ("Passage", Column("Rank", "n"), "Relevance", Column("Text", "wide")),
            rows,
            absent="Nothing was retrieved.",
        ),
    ]


def _handoffs(run: Tree) -> list[Part]:
    found = run.get("handoffs")
    if found is None:
        return []
    rows = [
        [clip(one.get("from")), clip(one.get("to")), clip(one.get("expected"))]
        for one in found[:MAX_ROWS]
    ]
    return [
        Heading("Handoffs"),
        Table("Handoffs", ("From", "To", "Expected"), rows, absent="No agent handed over."),
    ]
