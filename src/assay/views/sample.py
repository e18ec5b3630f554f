"""One sample as a person reads it: what was asked, answered and expected, the grade with its bars,
and the same sample in other versions. What the answer rests on is in `run`, as is what the run
did.

The parts of the page are made of a run and of its result as a plain tree. Nothing here knows a
ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from assay.canon import encode_any
from assay.errors import count
from assay.records.evidence import Run
from assay.records.grade_line import as_line
from assay.records.samples import ANSWERS, QUESTIONS, SampleRow, SampleRun, judge_reason
from assay.views.blocks import (
    Block,
    Chip,
    Chips,
    Column,
    Control,
    Details,
    Entries,
    Facts,
    Group,
    Heading,
    ListEntry,
    Paragraph,
    Part,
    Section,
    Sentences,
    Table,
    Verbatim,
    section,
)
from assay.views.grade import (
    GATE_COLUMNS,
    Result,
    change_facts,
    criterion_name,
    floor_of,
    gate_rows,
    grade_sections,
    lost_points,
    raw_score,
)
from assay.views.grade_line import outcome
from assay.views.pieces import (
    absent,
    clip,
    code,
    coded,
    letter,
    link,
    listed,
    meter,
    phrase,
    points,
    shown,
    small,
    strong,
    verdict,
)
from assay.views.run import RELEVANCE, SUPPORT, VALIDITY, about_facts, digest_facts, part_tables
from assay.views.times import duration
from assay.views.values import Room, ValueView, pointer
from assay.views.word_diff import marked, shortened, word_diff

ROOMS = {"inputs": 14_000, "outputs": 16_000, "expected": 10_000}
"""Bytes that the page has for each."""
NO_INPUTS = "The run states no inputs."
NOTHING_EXPECTED = "Nothing was expected of this sample."
CRITERIA = 100
CHARTED = 40
"""Criteria up to which charts and tables of them are on the page too: it must stay small."""
LONGEST = 500_000
"""Characters of an answer that are compared."""
DIFFERENCE = 3_000
"""Characters that the page shows of a difference."""
CONTEXT = 40
"""Words around each difference."""


class Walk(Control, frozen=True):
    """The way to the evaluation and to the samples before and after; a way that is not there is
    left out.
    """

    home: str = ""
    name: str = ""
    previous: str = ""
    following: str = ""
    place: str = ""


# --- the first screen


def verdict_line(run: Run | None, result: Result | None) -> list[Part]:
    """Letter, verdict, score, why, and what the run spent, in one line."""
    parts: list[str] = []
    if result is not None:
        line = as_line(result)
        parts += [
            letter(line.grade, result.get("policy")),
            outcome(line.passed),
            phrase(
                strong(points(line.weighted_score)),
                small(f" of 100, passing score {points(line.pass_threshold, 'not stated')}"),
            ),
        ]
        if line.passed is not True:
            parts.append(coded(clip(line.why, 300)))
    if run is not None and run.status != "success":
        parts.append(verdict(run.status, f"run status: {run.status}"))
    operations = (result or {}).get("operations") or {}
    if spent := _spent(*(getattr(run, name) if run else operations.get(name) for name in SPENT)):
        parts.append(small(listed(spent, " · ")))
    return [Strip(parts)] if parts else []


class Strip(Block, frozen=True):
    """Short facts in one line."""

    parts: Sequence[str]

    def simpler(self) -> Sequence[Part]:
        """The same in a paragraph."""
        return [Paragraph(listed(self.parts, " · "))]


SPENT = ("latency_ms", "cost_usd", "tokens", "retries")
"""What a run spent, in a run and in the operations of its grade."""


def _spent(latency_ms: Any, cost: Any, tokens: int | None, retries: int | None) -> list[str]:
    texts = (
        duration(latency_ms),
        "" if cost is None else f"${cost}",
        "" if tokens is None else count(tokens, "token"),
        count(retries, "retry", "retries") if retries else "",
    )
    return [text for text in texts if text]


def texts(run: Run, digest: str) -> Part:
    """Inputs, answer and expected, side by side where there is room."""
    nothing = no_answer(run.status, run.metadata.get("error"))
    return Group(
        [
            _panel("Input", "inputs", run.inputs, QUESTIONS, digest, NO_INPUTS),
            _panel("Answer", "outputs", run.outputs, ANSWERS, digest, nothing),
            _panel("Expected", "expected", run.expected, ANSWERS, digest, NOTHING_EXPECTED),
        ],
        "split texts",
    )


def _panel(
    title: str, name: str, value: Any, first: Sequence[str], digest: str, nothing: str
) -> Section:
    if value in (None, {}, "", []):
        return section(title, Paragraph(nothing, "absent"), id=name, kind="panel")
    view = ValueView(digest, Room(ROOMS[name]))
    at = f"/{name}"
    if isinstance(value, Mapping) and len(value) == 1:
        key, inner = next(iter(value.items()))
        parts = view.parts(inner, at=pointer(at, key))
        label = "" if key in first[:1] else key[:80]
        return section(title, *parts, id=name, hint=label, kind="panel")
    return section(title, *view.parts(value, at=at, first=first), id=name, kind="panel")


def no_answer(status: object, error: object) -> str:
    """Why a run has no answer."""
    ended = f"No answer; the run ended with status {shown(status, 'unknown')}"
    return f"{ended}: {clip(error, 600)}" if error else f"{ended}."


def repeats(runs: Sequence[SampleRun], current: str, addresses: Sequence[str]) -> list[Part]:
    """The other runs of the same sample, to step through."""
    if len(runs) < 2:
        return []
    passed = sum(run.passed for run in runs)
    chips = [
        Chip(
            f"{number} {'✓' if run.passed else '✗'} {points(run.score)}",
            href,
            chosen=run.digest == current,
        )
        for number, (run, href) in enumerate(zip(runs, addresses, strict=True), 1)
    ]
    return [Chips(f"Repeats, {passed} of {len(runs)} passed", chips)]


# --- the grade


def grade_section(result: Result, url: str = "", metadata: Mapping[str, Any] = {}) -> Section:
    """Gates, criteria with bars, and what would change the grade; numbers and sentences are
    folded. The run's metadata has a judge's reasons.
    """
    made = {part.id: part for part in grade_sections(result, url=url)}
    few = len(result.get("criteria") or ()) <= CHARTED
    charts = Details("Points and floors as charts", [made["points"], made["floors"]])
    return section(
        "Grade",
        made["gates"],
        _criteria(result, metadata),
        made["change"],
        Details("Why, in sentences", [made["why"]]),
        charts if few else "",
        id="grade",
    )


def _criteria(result: Result, metadata: Mapping[str, Any]) -> Section:
    """Each criterion as a bar with its floor; those that lost the most points come first."""
    criteria = sorted(result.get("criteria") or (), key=lost_points, reverse=True)
    rows = []
    for item in criteria[:CRITERIA]:
        floor = (item.get("critical_floor") or {}).get("norm")
        measured = item.get("raw_score") is not None
        rows.append(
            [
                criterion_name(item),
                meter(item.get("norm") if measured else 0, floor=floor),
                phrase(
                    points(item.get("contribution")), small(" of ", points(item.get("maximum")))
                ),
                raw_score(item, 600, judge_reason(metadata, str(item.get("name")))),
                floor_of(item),
            ]
        )
    hint = (
        f"The {CRITERIA} of {len(criteria):,} criteria that lost the most points."
        if len(criteria) > CRITERIA
        else ""
    )
    columns = (
        Column("Criterion", "wide"),
        "Score, 0 to 1",
        Column("Points", "n"),
        Column("Raw score", "wide"),
        Column("Floor", "wide"),
    )
    table = Table(
        "Criteria as bars", columns, rows, absent="No criterion was scored.", kind="stack"
    )
    return section("Criteria", table, hint=hint, level=3)


# --- other versions


class OtherAnswer(NamedTuple):
    """The same sample in another evaluation."""

    name: str
    version: str
    href: str
    """Of its run."""
    evaluation: str
    compare: str
    older: bool
    answer: str | None
    """None if the run did not answer."""
    run: SampleRun
    forgotten: bool = False
    same_outputs: bool = False
    remark: str = ""


def versions(answer: str | None, others: Sequence[OtherAnswer]) -> list[Section]:
    """The same sample in other evaluations, the difference of the answers marked."""
    if not others:
        return []
    entries = []
    for other in others:
        grade = other.run.grade
        head = phrase(
            link(other.name, other.evaluation),
            " ",
            small("version ", other.version, ", older" if other.older else ", newer"),
            " ",
            letter(grade.grade, grade.policy) if grade else absent("not graded"),
            " ",
            points(other.run.score) if grade else "",
        )
        foot = [link("Open this run", other.href)]
        if other.compare:
            foot.append(link("Compare the evaluations", other.compare))
        entries.append(ListEntry(head, [_difference(answer, other)], listed(foot, " · ")))
    hint = "Underlined: only in the newer answer. Struck through: only in the older one."
    return [
        section(
            "The same sample in other versions",
            Entries(entries, "Other versions", "version"),
            id="versions",
            hint=hint,
        )
    ]


def _difference(answer: str | None, other: OtherAnswer) -> Part:
    if other.forgotten:
        return Paragraph(absent("That run was forgotten, so the answers can't be compared."))
    if answer is None or other.answer is None:
        if answer == other.answer:
            return Paragraph(absent("Neither run answered."))
        words = (
            "This run did not answer. That one did: "
            if answer is None
            else ("That run did not answer. This one did: ")
        )
        return Paragraph(phrase(words, clip(answer or other.answer, DIFFERENCE)), "words")
    before, after = (other.answer, answer) if other.older else (answer, other.answer)
    diff = word_diff(before, after, context=CONTEXT)
    remark = f"{other.remark} " if other.remark else ""
    if diff.identical and other.same_outputs:
        return Paragraph(phrase(remark, verdict("same", "The answers are identical.")))
    if diff.identical:
        return Paragraph(f"{remark}The texts are identical, but other parts of the output differ.")
    return Paragraph(phrase(remark, marked(shortened(diff, DIFFERENCE))), "words")


# --- the evidence in a report


TEXT = 3_000
"""Characters of an input, an answer or an expected value."""
SHORT = 500
"""Characters of a passage, a claim, an argument or a reason."""
FEW = 8
"""Passages, claims, tool calls, gates, criteria and sentences of a sample."""
MANY = 30
"""Steps and agents."""


def kept_evidence(run: Run | None) -> dict[str, Any]:
    """What a report keeps of a run, cut to a bound; nothing if only the grade is known."""
    if run is None:
        return {}
    texts = {
        "Input": run.inputs,
        "Answer": run.outputs,
        "Expected": run.expected,
    }
    return {
        "status": run.status,
        "error": clip(run.metadata.get("error"), SHORT) if run.metadata.get("error") else None,
        "texts": {name: _text(value) for name, value in texts.items()},
        "passages": _some(
            run.retrieval,
            lambda passage: [passage.id[:100], passage.relevant, clip(passage.text, SHORT)],
        ),
        "claims": _some(
            run.claims,
            lambda claim: [clip(claim.text, SHORT), claim.supported, clip(claim.citations, SHORT)],
        ),
        "calls": _some(
            run.tool_calls,
            lambda call: [
                call.name[:100],
                call.valid,
                _text(call.arguments)[:SHORT],
                "" if call.error is None else _text(call.error)[:SHORT],
            ],
        ),
    }


def _some(values: Sequence[Any] | None, keep: Any) -> list[Any] | None:
    """The first of a list, and how many there are."""
    return None if values is None else [len(values), [keep(value) for value in values[:FEW]]]


def _text(value: Any) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, Mapping) and len(value) == 1:
        value = next(iter(value.values()))
    text = value if isinstance(value, str) else msgspec.json.format(encode_any(value)).decode()
    if len(text) <= TEXT:
        return text
    return f"{text[:TEXT]} … ({len(text):,} characters)"


def evidence_block(
    row: SampleRow, kept: Mapping[str, Any], result: Mapping[str, Any], place: int, *, opened: bool
) -> Details:
    """The evidence of a row, from what was kept of its worst run."""
    name = clip(row.name, 80)
    return Details(
        phrase(
            letter(row.letter or "–", result.get("policy")),
            " ",
            strong(clip(row.name, 120)),
            f" {points(row.score)} ",
            small(clip(row.why or "passed", 300)),
        ),
        [
            *_repeats(row),
            *_texts(kept, name),
            *_grounding(kept, name),
            *_calls(kept, name),
            *_why(result, name),
            _provenance(result, name),
        ],
        opened=opened,
        id=f"s-{place}",
        kind="sample",
    )


def _repeats(row: SampleRow) -> list[Part]:
    if len(row.runs) < 2:
        return []
    passed = sum(run.passed for run in row.runs)
    return [
        Paragraph(
            f"{passed:,} of {len(row.runs):,} repeats passed; this is the worst, "
            f"{clip(row.worst.run_id, 120)}.",
            "hint",
        )
    ]


def _texts(kept: Mapping[str, Any], sample: str) -> list[Part]:
    if not kept:
        return [Paragraph("The file has the grade of this run, but not the run itself.", "absent")]
    nothing = {
        "Input": NO_INPUTS,
        "Answer": no_answer(kept["status"], kept["error"]),
        "Expected": NOTHING_EXPECTED,
    }
    return [
        Group(
            [
                Group(
                    [
                        Heading(name),
                        Verbatim(text, f"{name} of {sample}")
                        if text
                        else Paragraph(nothing[name], "absent"),
                    ]
                )
                for name, text in kept["texts"].items()
            ],
            "split",
        )
    ]


def _grounding(kept: Mapping[str, Any], sample: str) -> list[Part]:
    made: list[Part] = []
    if kept.get("claims"):
        rows = [
            [text, verdict(*SUPPORT[supported]), cited]
            for text, supported, cited in kept["claims"][1]
        ]
        heads = (Column("Claim", "wide"), "Support", "Citations")
        made += _listed("Claims", sample, heads, rows, kept["claims"][0])
    if kept.get("passages"):
        rows = [
            [code(name), RELEVANCE[relevant], text] for name, relevant, text in kept["passages"][1]
        ]
        columns = ("Passage", "Relevance", Column("Text", "wide"))
        made += _listed("Passages", sample, columns, rows, kept["passages"][0])
    return made


def _calls(kept: Mapping[str, Any], sample: str) -> list[Part]:
    if not kept.get("calls"):
        return []
    rows = [
        [code(name), verdict(*VALIDITY[valid]), code(arguments), shown(error, "none")]
        for name, valid, arguments, error in kept["calls"][1]
    ]
    columns = ("Tool", "Validity", Column("Arguments", "wide"), Column("Error", "wide"))
    return _listed("Tool calls", sample, columns, rows, kept["calls"][0])


def _listed(
    title: str, sample: str, columns: Sequence[str | Column], rows: Sequence[Sequence[str]], n: int
) -> list[Part]:
    """A table under its heading. Its caption names the sample: a page has many."""
    more = [Paragraph(f"The first {len(rows)} of {n:,}.", "hint")] if n > len(rows) else []
    return [Heading(title), Table(f"{title}: {sample}", columns, rows, kind="stack"), *more]


def _why(result: Mapping[str, Any], sample: str) -> list[Part]:
    """The verdict sentence, gates that fail, criteria that lost most, and what would change it."""
    explanation = [clip(text, SHORT) for text in (result.get("explanation") or ())]
    gates = gate_rows(
        {
            name: gate
            for name, gate in (result.get("hard_gates") or {}).items()
            if gate.get("status") != "pass"
        }
    )
    criteria = sorted(result.get("criteria") or (), key=lost_points, reverse=True)
    losing = [criterion for criterion in criteria if lost_points(criterion) > 0]
    rows = [
        [
            criterion_name({**criterion, "name": clip(criterion.get("name"), 100)}),
            phrase(
                points(criterion.get("contribution")),
                small(" of ", points(criterion.get("maximum"))),
            ),
            raw_score(criterion, 200),
            floor_of(criterion),
        ]
        for criterion in losing[:FEW]
    ]
    columns = ("Criterion", Column("Points", "n"), "Raw score", Column("Floor", "wide"))
    made: list[Part] = [Heading("Why"), Sentences(explanation[:1], absent="No reason given.")]
    if gates:
        title = "Gates that did not pass"
        made += _listed(title, sample, GATE_COLUMNS, gates[:FEW], len(gates))
    if rows:
        made += _listed("Criteria that lost points", sample, columns, rows, len(losing))
    return [*made, Heading("What would change the grade"), change_facts(result)]


def _provenance(result: Mapping[str, Any], sample: str) -> Details:
    """Steps, agents, and what made the grade; folded, because few readers want it."""
    tables = [table for table in part_tables(result) if table.rows]
    parts: list[Part] = []
    for table in tables:
        caption = f"{table.caption}: {sample}"
        shown_rows = structs.replace(table, caption=caption, rows=table.rows[:MANY])
        parts += [Heading(table.caption), shown_rows]
    return Details(
        "Steps, agents and provenance",
        [
            *parts,
            Facts([("Run", shown(result.get("run_id"))), *about_facts(result)]),
            Facts(digest_facts(result), "small"),
        ],
    )
