"""What a run did, and what its answer rests on: steps, tool calls and agents; each claim with the
passages it cites, each passage with the claims that rest on it. A claim that nothing supports, or
that cites nothing, stands out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import to_builtins

from assay.errors import count
from assay.grouping import grouped
from assay.records.evidence import Claim, Handoff, Retrieved, Run, Score, Step, ToolCall
from assay.records.scorecard import StepScore
from assay.records.typed import convert
from assay.views.blocks import (
    Column,
    Details,
    Entries,
    Figure,
    Group,
    Heading,
    ListEntry,
    Paragraph,
    Part,
    Section,
    Table,
    parts_of,
    section,
)
from assay.views.charts import steps as step_charts
from assay.views.grade import MAX_ROWS, Result
from assay.views.pieces import (
    absent,
    clip,
    code,
    line,
    link,
    listed,
    phrase,
    shown,
    small,
    strong,
    verdict,
)
from assay.views.times import duration
from assay.views.values import Fields, Room, ValueView

SYSTEMS = {"scoringSystem": "Scoring system", "gradingSystem": "Grading system", "policy": "Policy"}
SPENT = {"retries": "Retries", "tokens": "Tokens", "cost_usd": "Cost, USD"}
TIMED = {"duration_ms": "Duration, ms", **SPENT}
STEP_COLUMNS = {
    "name": "Step",
    "agent": "Agent",
    "status": "Status",
    "critical": "Critical",
    "model": "Model",
    "tier": "Tier",
    **TIMED,
    "scores": "Scores",
}
AGENT_COLUMNS = {
    "agent": "Agent",
    "steps": "Steps",
    "succeeded": "Succeeded",
    "failed": "Failed",
    "skipped": "Skipped",
    "success_rate": "Success rate",
    **TIMED,
    "scores": "Scores",
}


def workflow_of(result: Result) -> str:
    """The workflow, its version and its family."""
    workflow = result.get("workflow")
    if not workflow:
        return absent("none, a bare scorecard")
    return phrase(
        shown(workflow.get("id")),
        small(" version ", shown(workflow.get("version"))),
        line(small(shown(workflow.get("family"), "no family"))),
    )


def part_tables(result: Result) -> list[Table]:
    """Steps and agents as tables."""
    return [
        _part_table("Steps", STEP_COLUMNS, result.get("step_scores") or ()),
        agent_table(result.get("agent_scores") or ()),
    ]


def agent_table(agents: Sequence[Result]) -> Table:
    """What each agent did, as a table."""
    return _part_table("Agents", AGENT_COLUMNS, agents)


def _part_table(title: str, columns: Mapping[str, str], parts: Sequence[Result]) -> Table:
    numeric = {*TIMED, "steps", "succeeded", "failed", "skipped", "success_rate"}
    return Table(
        title,
        [Column(name, "n" if key in numeric else "") for key, name in columns.items()],
        [[_cell(part, key) for key in columns] for part in parts[:MAX_ROWS]],
        absent="none reported",
    )


def _cell(part: Result, key: str) -> str:
    value, unreported = part.get(key), part.get("unreported") or {}
    if key == "status":
        return verdict(value)
    if key == "scores":
        lines = [line(f"{name}: ", shown(score)) for name, score in (value or {}).items()]
        return phrase(*lines) if lines else absent("none")
    missing = f"not reported by {shown(unreported[key])} of its steps" if key in unreported else ""
    return shown(value, missing or "not reported")


def about_facts(result: Result) -> list[tuple[str, str]]:
    """What was graded, and with what."""
    dataset, spent = result.get("dataset") or {}, result.get("operations") or {}
    version = small(" version ", shown(dataset.get("version"))) if dataset else ""
    names = {"sample_id": "Sample", "group": "Group", "tags": "Tags", "status": "Status"}
    facts = [
        ("Workflow", workflow_of(result)),
        ("Dataset", phrase(shown(dataset.get("id")), version)),
        *((label, shown(result.get(key), "none")) for key, label in names.items()),
        ("Judge", shown(result.get("judge"), "none")),
    ]
    for kind in ("profile", "rubric"):
        why = ((result.get("selection") or {}).get(kind) or {}).get("why")
        chosen = [shown(result.get(kind), "none"), *([why] if why else [])]
        facts.append((kind.capitalize(), listed(chosen)))
    labels = {"latency_ms": "Latency, ms", **SPENT}
    facts += [(label, shown(spent.get(key), "not reported")) for key, label in labels.items()]
    return [*facts, *((label, shown(result.get(key))) for key, label in SYSTEMS.items())]


def digest_facts(result: Result) -> list[tuple[str, str]]:
    """The digests of everything that made a grade."""
    digests: Mapping[str, str] = result.get("digests") or {}
    return [(f"Digest of the {name}", code(value)) for name, value in digests.items()]


# --- claims and passages


CLAIMS = 30
PASSAGES = 20
CLAIM = 400
PASSAGE = 800
"""Characters of a claim, and of a passage."""
GROUNDING = 12_000
"""Bytes of all claims, and of all passages."""
SUPPORT = {
    True: ("pass", "supported"),
    False: ("fail", "not supported"),
    None: ("undetermined", "support not judged"),
}
RELEVANCE = {True: "relevant", False: "not relevant", None: "relevance not judged"}


def grounding(run: Run, digest: str) -> list[Section]:
    """The section on claims and passages; none if the run reports neither."""
    claims, passages = run.claims, run.retrieval
    if claims is None and passages is None:
        return []
    places = _places(passages or ())
    cited = grouped(
        (name, number)
        for number, claim in enumerate(claims or (), 1)
        for name in dict.fromkeys(claim.citations)
    )
    room = Room(GROUNDING)
    chosen = _worst(claims or (), places)[:CLAIMS]
    shown_claims = [
        _claim(number, claim, places, room, checked=passages is not None)
        for number, claim in chosen
        if room.left > 0
    ]
    numbers = {number for number, _ in chosen[: len(shown_claims)]}
    view = ValueView(digest, Room(GROUNDING), most=PASSAGE)
    shown_passages = [
        _passage(number, passage, cited, numbers, view, claimed=claims is not None)
        for number, passage in enumerate((passages or ())[:PASSAGES], 1)
    ]
    sides: list[Part] = [
        Group(
            [
                Heading("Claims"),
                *_listed(shown_claims, claims, "claim", "No claims were extracted."),
            ]
        ),
        Group(
            [
                Heading("Passages"),
                *_listed(shown_passages, passages, "passage", "No retrieval was recorded."),
            ]
        ),
    ]
    return [
        section(
            "Claims and passages",
            Group(sides, "split"),
            *_expected(run),
            id="grounding",
            hint=_hint(claims),
        )
    ]


def _places(passages: Sequence[Retrieved]) -> dict[str, int]:
    """The number of each passage by its id; the first of an id counts."""
    numbers: dict[str, int] = {}
    for number, passage in enumerate(passages, 1):
        numbers.setdefault(passage.id, number)
    return numbers


def _trouble(claim: Claim, places: Mapping[str, int]) -> str:
    """How a claim stands out: `bad` for one without support or citations, or one that cites what
    was not retrieved; `open` for one that nobody judged.
    """
    if claim.supported is False or not claim.citations:
        return "bad"
    if places and any(name not in places for name in claim.citations):
        return "bad"
    return "" if claim.supported else "open"


def _worst(claims: Sequence[Claim], places: Mapping[str, int]) -> list[tuple[int, Claim]]:
    """The claims with their numbers. Where there are too many, those that stand out come first."""
    numbered = list(enumerate(claims, 1))
    if len(numbered) > CLAIMS:
        numbered.sort(key=lambda pair: ("bad", "open", "").index(_trouble(pair[1], places)))
    return numbered


def _claim(
    number: int, claim: Claim, places: Mapping[str, int], room: Room, *, checked: bool
) -> ListEntry:
    citations = list(dict.fromkeys(claim.citations))
    marks: list[str] = [verdict(*SUPPORT[claim.supported])]
    if claim.severity not in (None, "none"):
        marks.append(f"{claim.severity} severity")
    if not citations:
        marks.append(verdict("fail", "cites nothing"))
    foot: list[str] = []
    for name in citations[:PASSAGES]:
        named = code(room.clip(name, 80))
        place = places.get(name)
        if place is None:
            missing = verdict("fail", "not retrieved") if checked else absent("no passages known")
            foot.append(phrase(named, " ", missing))
        elif place <= PASSAGES:
            foot.append(link(named, f"#passage-{place}"))
        else:
            foot.append(named)
    return ListEntry(
        phrase(strong(f"{number}"), " ", listed(marks, " · ")),
        [Paragraph(room.clip(claim.text, CLAIM), "words")],
        phrase("Cites ", listed(foot)) if foot else "",
        f"claim-{number}",
        _trouble(claim, places),
    )


def _passage(
    number: int,
    passage: Retrieved,
    cited: Mapping[str, Sequence[int]],
    linked: Collection[int],
    view: ValueView,
    *,
    claimed: bool,
) -> ListEntry:
    marks = [RELEVANCE[passage.relevant]]
    if passage.rank is not None:
        marks.insert(0, f"rank {passage.rank}")
    claims = cited.get(passage.id, ())
    rests = [
        link(f"{claim}", f"#claim-{claim}") if claim in linked else f"{claim}" for claim in claims
    ]
    if len(rests) > PASSAGES:
        rests[PASSAGES:] = [f"and {len(rests) - PASSAGES:,} more"]
    foot = (
        phrase("Cited by ", "claim " if len(claims) == 1 else "claims ", listed(rests))
        if rests
        else absent("No claim cites it.")
        if claimed
        else ""
    )
    return ListEntry(
        phrase(code(view.room.clip(passage.id, 120)), " ", listed(marks, " · ")),
        view.parts(passage.text, at=f"/retrieval/{number - 1}/text")
        if passage.text
        else [Paragraph(absent("The passage has no text."))],
        foot,
        f"passage-{number}",
    )


def _listed(
    entries: Sequence[ListEntry],
    values: Sequence[Claim] | Sequence[Retrieved] | None,
    noun: str,
    unknown: str,
) -> list[Part]:
    if not values:
        return [Paragraph(unknown if values is None else f"No {noun}s.", "absent")]
    more = len(values) - len(entries)
    return [
        Entries(entries, f"{noun.capitalize()}s", noun),
        *([Paragraph(f"… and {count(more, noun)} more.", "hint")] if more else []),
    ]


def _hint(claims: Sequence[Claim] | None) -> str:
    if not claims:
        return ""
    good = sum(claim.supported is True for claim in claims)
    unjudged = sum(claim.supported is None for claim in claims)
    uncited = sum(not claim.citations for claim in claims)
    parts = [f"{good:,} of {count(len(claims), 'claim')} supported"]
    parts += [f"{unjudged:,} not judged"] if unjudged else []
    parts += [f"{uncited:,} without a citation"] if uncited else []
    return f"{', '.join(parts)}."


def _expected(run: Run) -> list[Part]:
    """The claims that the answer should have made."""
    if not run.expected_claims:
        return []
    room = Room(GROUNDING // 2)
    entries = [
        ListEntry(
            verdict(*SUPPORT[claim.supported]),
            [Paragraph(room.clip(claim.text, CLAIM), "words")],
        )
        for claim in run.expected_claims[:PASSAGES]
    ]
    return [
        Heading("Claims of the expected answer"),
        *_listed(entries, run.expected_claims, "expected claim", ""),
    ]


# --- steps and tool calls


STEPS = 25
CALLS = 20
FAILED = 10
"""Calls that went wrong and are shown though they come after the first CALLS."""
LONGEST = 500
"""Characters of one text in the arguments or the result of a call."""
CALLS_ROOM = 18_000
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
    view = ValueView(digest, Room(CALLS_ROOM), most=LONGEST)
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
    room = Room(CALLS_ROOM // 2)
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
