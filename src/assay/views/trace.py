"""What a run did: its steps on an axis of time, the tool calls of each with their arguments and
results, agents and handoffs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import to_builtins

from assay.errors import count
from assay.records.evidence import Handoff, Run, Score, Step, ToolCall
from assay.records.scorecard import StepScore
from assay.records.typed import convert
from assay.views.blocks import (
    Details,
    Entries,
    Figure,
    Group,
    Heading,
    ListEntry,
    Paragraph,
    Part,
    Section,
    parts_of,
    section,
)
from assay.views.charts import steps as step_charts
from assay.views.pieces import absent, clip, code, listed, phrase, strong, verdict
from assay.views.run import agent_table
from assay.views.times import duration
from assay.views.values import Fields, Room, ValueView

STEPS = 25
CALLS = 20
FAILED = 10
"""Calls that went wrong and are shown though they come after the first CALLS."""
LONGEST = 500
"""Characters of one text in the arguments or the result of a call."""
ROOM = 18_000
"""Bytes of all calls."""
RESULTS = ("result", "output", "response", "content")
"""Names in the metadata of a call under which its result is found."""
VALIDITY = {
    True: ("valid", "valid arguments"),
    False: ("invalid", "invalid arguments"),
    None: ("undetermined", "arguments not checked"),
}


def tool_calls(run: Run, digest: str) -> list[Section]:
    """Every call with its arguments and its result; one that nobody checked is not valid, it is
    unchecked. No section where nobody looked for calls.
    """
    calls = run.tool_calls
    if calls is None:
        return []
    if not calls:
        return [section("Tool calls", Paragraph("The run called no tools.", "absent"), id="tools")]
    late = [place for place in range(CALLS, len(calls)) if _went_wrong(calls[place])][:FAILED]
    places = [*range(min(CALLS, len(calls))), *late]
    view = ValueView(digest, Room(ROOM), most=LONGEST)
    entries = [_call(place, calls[place], view) for place in places if view.room.left > 0]
    wrong = sum(map(_went_wrong, calls))
    valid = sum(call.valid is True for call in calls)
    hint = f"{count(len(calls), 'call')}, {valid:,} known to be valid"
    hint += f", {wrong:,} failed or invalid." if wrong else "."
    if len(entries) < len(calls):
        hint += f" {len(entries):,} are shown, later ones only if they failed."
    return [section("Tool calls", Entries(entries, "Tool calls", "call"), id="tools", hint=hint)]


def _went_wrong(call: ToolCall) -> bool:
    return call.valid is False or call.error is not None


def _call(place: int, call: ToolCall, view: ValueView) -> ListEntry:
    at, metadata = f"/tool_calls/{place}", call.metadata
    marks: list[str] = [verdict(*VALIDITY[call.valid])]
    if call.step:
        marks.append(phrase("step ", view.room.clip(call.step, 80)))
    pairs: list[tuple[str, Sequence[Part]]] = []
    if call.arguments is not None:
        pairs.append(("Arguments", view.parts(call.arguments, at=f"{at}/arguments")))
    else:
        pairs.append(("Arguments", [Paragraph(absent("none recorded"))]))
    key = next((name for name in RESULTS if name in metadata), None)
    if key is not None:
        pairs.append(("Result", view.parts(metadata[key], at=f"{at}/metadata/{key}")))
    rest = {name: value for name, value in metadata.items() if name != key}
    if rest:
        pairs.append(("Also recorded", view.parts(rest, at=f"{at}/metadata")))
    if call.error is not None:
        pairs.append(("Error", view.parts(call.error, at=f"{at}/error")))
    return ListEntry(
        phrase(
            strong(f"{place + 1}"),
            " ",
            code(view.room.clip(call.name, 120)),
            " ",
            listed(marks, " · "),
        ),
        [Fields(pairs)],
        kind="bad" if _went_wrong(call) else "",
    )


def timeline(run: Run | None, result: Mapping[str, Any] | None, url: str) -> list[Section]:
    """Steps on an axis of time and as a list, then agents and handoffs. No section where the run
    reports none of it.
    """
    steps: Sequence[Step | StepScore] = (run and run.steps) or convert(
        (result or {}).get("step_scores") or [], list[StepScore]
    )
    handoffs = run and run.handoffs
    if not steps and not handoffs:
        return []
    calls = Counter(call.step for call in (run and run.tool_calls) or ())
    agents = (result or {}).get("agent_scores") or ()
    parts = parts_of(
        *(_steps(steps, calls, result, url) if steps else []),
        Details("Agents in numbers", [agent_table(agents[:STEPS])]) if len(agents) > 1 else None,
        *([Heading("Handoffs"), _handoffs(handoffs)] if handoffs else []),
    )
    return [section("Timeline", *parts, id="timeline")]


def _steps(
    steps: Sequence[Step | StepScore],
    calls: Mapping[str | None, int],
    result: Mapping[str, Any] | None,
    url: str,
) -> list[Part]:
    chart = step_charts.timeline(result or {"steps": to_builtins(steps, builtin_types=(Decimal,))})
    drawn = Figure(chart._replace(rows=chart.rows[:STEPS]), f"{url}/timeline")
    room = Room(ROOM // 2)
    shown = [_step(number, step, calls, room) for number, step in enumerate(steps[:STEPS], 1)]
    more = Paragraph(f"… and {count(len(steps) - STEPS, 'step')} more.", "hint")
    listed = parts_of(Entries(shown, "Steps", "step"), more if len(steps) > STEPS else None)
    is_open = len(steps) <= 6 or chart.spec is None
    wrong = any(step.status not in ("success", "skipped") for step in steps)
    return parts_of(
        drawn if chart.spec is not None and url else None,
        Group(listed)
        if is_open or wrong
        else Details(f"{count(len(steps), 'step')} as a list", listed),
    )


def _step(
    number: int, step: Step | StepScore, calls: Mapping[str | None, int], room: Room
) -> ListEntry:
    spent = [
        duration(step.duration_ms),
        room.clip(step.agent, 60) if step.agent else "",
        room.clip(step.model, 60) if step.model else "",
        "" if step.tokens is None else count(step.tokens, "token"),
        "" if step.cost_usd is None else f"${step.cost_usd}",
        count(step.retries, "retry", "retries") if step.retries else "",
        count(calls[step.name], "tool call") if step.name in calls else "",
        "" if step.critical else "not critical",
    ]
    scores = [
        phrase(room.clip(name, 60), " ", room.clip(_raw(score), 60))
        for name, score in list(step.scores.items())[:5]
    ]
    head = phrase(strong(f"{number}"), " ", room.clip(step.name, 120), " ", verdict(step.status))
    error = step.error if isinstance(step, Step) else None
    return ListEntry(
        listed([head, *filter(None, spent), *scores], " · "),
        [Paragraph(room.clip(error, 600), "words bad")] if error else [],
        kind="" if step.status in ("success", "skipped") else "bad",
    )


def _raw(score: Any) -> Any:
    """The raw score, of a run's step or of a scorecard's, which may have any form."""
    if isinstance(score, Score):
        return score.raw
    return score["raw"] if isinstance(score, Mapping) and "raw" in score else score


def _handoffs(handoffs: Sequence[Handoff]) -> Part:
    entries = []
    for handoff in handoffs[:STEPS]:
        expected = handoff.expected
        wrong = expected is not None and expected != handoff.to
        head = phrase(clip(handoff.source, 80), " → ", clip(handoff.to, 80))
        foot = phrase(verdict("fail", "expected "), clip(expected, 80)) if wrong else ""
        entries.append(ListEntry(head, (), foot, kind="bad" if wrong else ""))
    return Entries(entries, "Handoffs", "handoff")
