"""What a run did: its steps on an axis of time, the tool calls of each with their arguments and
results, agents and handoffs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay import exact
from assay.errors import count
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


def tool_calls(run: Mapping[str, Any], digest: str = "") -> list[Section]:
    """Every call with its arguments and its result; one that nobody checked is not valid, it is
    unchecked. No section where nobody looked for calls.
    """
    calls: Sequence[Mapping[str, Any]] | None = run.get("tool_calls")
    if calls is None:
        return []
    if not calls:
        return [section("Tool calls", Paragraph("The run called no tools.", "absent"), id="tools")]
    late = [place for place in range(CALLS, len(calls)) if _went_wrong(calls[place])][:FAILED]
    places = [*range(min(CALLS, len(calls))), *late]
    view = ValueView(digest, Room(ROOM), most=LONGEST)
    entries = [_call(place, calls[place], view) for place in places if view.room.left > 0]
    wrong = sum(map(_went_wrong, calls))
    valid = sum(call.get("valid") is True for call in calls)
    hint = f"{count(len(calls), 'call')}, {valid:,} known to be valid"
    hint += f", {wrong:,} failed or invalid." if wrong else "."
    if len(entries) < len(calls):
        hint += f" {len(entries):,} are shown, later ones only if they failed."
    return [section("Tool calls", Entries(entries, "Tool calls", "call"), id="tools", hint=hint)]


def _went_wrong(call: Mapping[str, Any]) -> bool:
    return call.get("valid") is False or call.get("error") is not None


def _call(place: int, call: Mapping[str, Any], view: ValueView) -> ListEntry:
    at, metadata = f"/tool_calls/{place}", call.get("metadata") or {}
    marks: list[str] = [verdict(*VALIDITY.get(call.get("valid"), VALIDITY[None]))]
    if call.get("step"):
        marks.append(phrase("step ", view.room.clip(call["step"], 80)))
    pairs: list[tuple[str, Sequence[Part]]] = []
    if call.get("arguments") is not None:
        pairs.append(("Arguments", view.parts(call["arguments"], at=f"{at}/arguments")))
    else:
        pairs.append(("Arguments", [Paragraph(absent("none recorded"))]))
    key = next((name for name in RESULTS if name in metadata), None)
    if key is not None:
        pairs.append(("Result", view.parts(metadata[key], at=f"{at}/metadata/{key}")))
    rest = {name: value for name, value in metadata.items() if name != key}
    if rest:
        pairs.append(("Also recorded", view.parts(rest, at=f"{at}/metadata")))
    if call.get("error") is not None:
        pairs.append(("Error", view.parts(call["error"], at=f"{at}/error")))
    return ListEntry(
        phrase(
            strong(f"{place + 1}"),
            " ",
            code(view.room.clip(call.get("name"), 120)),
            " ",
            listed(marks, " · "),
        ),
        [Fields(pairs)],
        kind="bad" if _went_wrong(call) else "",
    )


def timeline(
    run: Mapping[str, Any] | None, result: Mapping[str, Any] | None, url: str = ""
) -> list[Section]:
    """Steps on an axis of time and as a list, then agents and handoffs. No section where the run
    reports none of it.
    """
    steps = (run or {}).get("steps") or (result or {}).get("step_scores") or ()
    handoffs = (run or {}).get("handoffs")
    if not steps and not handoffs:
        return []
    calls: dict[Any, int] = {}
    for call in (run or {}).get("tool_calls") or ():
        calls[call.get("step")] = calls.get(call.get("step"), 0) + 1
    parts: list[Part] = []
    if steps:
        chart = step_charts.timeline(result or run or {})
        if chart.spec is not None and url:
            parts.append(Figure(chart._replace(rows=chart.rows[:STEPS]), f"{url}/timeline"))
        room = Room(ROOM // 2)
        wrong = [step for step in steps if step.get("status") not in ("success", "skipped")]
        entries = Entries(
            [_step(number, step, calls, room) for number, step in enumerate(steps[:STEPS], 1)],
            "Steps",
            "step",
        )
        more = len(steps) - STEPS
        rest: list[Part] = (
            [Paragraph(f"… and {count(more, 'step')} more.", "hint")] if more > 0 else []
        )
        few = len(steps) <= 6 or chart.spec is None
        parts.append(
            Group([entries, *rest])
            if few or wrong
            else Details(f"{count(len(steps), 'step')} as a list", [entries, *rest])
        )
    agents = (result or {}).get("agent_scores") or ()
    if len(agents) > 1:
        parts.append(Details("Agents in numbers", [agent_table(agents[:STEPS])]))
    if handoffs:
        parts += [Heading("Handoffs"), _handoffs(handoffs)]
    return [section("Timeline", *parts, id="timeline")]


def _step(number: int, step: Mapping[str, Any], calls: Mapping[Any, int], room: Room) -> ListEntry:
    spent = [
        duration(step.get("duration_ms")),
        room.clip(step["agent"], 60) if step.get("agent") else "",
        room.clip(step["model"], 60) if step.get("model") else "",
        count(step["tokens"], "token") if isinstance(step.get("tokens"), int) else "",
        f"${step['cost_usd']}" if exact.is_number(step.get("cost_usd")) else "",
        count(step["retries"], "retry", "retries") if step.get("retries") else "",
        count(calls[step.get("name")], "tool call") if step.get("name") in calls else "",
        "not critical" if step.get("critical") is False else "",
    ]
    scores = [
        phrase(room.clip(name, 60), " ", room.clip(_raw(score), 60))
        for name, score in list((step.get("scores") or {}).items())[:5]
    ]
    bad = step.get("status") not in ("success", "skipped")
    name = room.clip(step.get("name"), 120)
    head = phrase(strong(f"{number}"), " ", name, " ", verdict(step.get("status")))
    return ListEntry(
        listed([head, *filter(None, spent), *scores], " · "),
        [Paragraph(room.clip(step["error"], 600), "words bad")] if step.get("error") else [],
        kind="bad" if bad else "",
    )


def _raw(score: Any) -> Any:
    return score.get("raw") if isinstance(score, Mapping) and "raw" in score else score


def _handoffs(handoffs: Sequence[Mapping[str, Any]]) -> Part:
    entries = []
    for handoff in handoffs[:STEPS]:
        expected = handoff.get("expected")
        wrong = expected is not None and expected != handoff.get("to")
        head = phrase(clip(handoff.get("from"), 80), " → ", clip(handoff.get("to"), 80))
        foot = phrase(verdict("fail", "expected "), clip(expected, 80)) if wrong else ""
        entries.append(ListEntry(head, (), foot, kind="bad" if wrong else ""))
    return Entries(entries, "Handoffs", "handoff")
