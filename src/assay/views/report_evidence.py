"""The evidence of one sample in a report: what went in, what came out, what it rests on, why it got
its grade and what would change that. Everything is cut to a bound, whatever the run contains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import structs

from assay.canon import encode_any
from assay.records.evidence import Run
from assay.records.samples import SampleRow
from assay.views.blocks import (
    Column,
    Details,
    Facts,
    Group,
    Heading,
    Paragraph,
    Part,
    Sentences,
    Table,
    Verbatim,
)
from assay.views.grade import (
    GATE_COLUMNS,
    change_facts,
    criterion_name,
    floor_of,
    gate_rows,
    lost_points,
    raw_score,
)
from assay.views.grounding import RELEVANCE, SUPPORT
from assay.views.pieces import (
    clip,
    code,
    letter,
    phrase,
    points,
    shown,
    small,
    strong,
    verdict,
)
from assay.views.run import about_facts, digest_facts, part_tables
from assay.views.sample import NO_INPUTS, NOTHING_EXPECTED, no_answer
from assay.views.trace import VALIDITY

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


class SpooledEvidence(msgspec.Struct):
    """The evidence of a run as it waits: its grade, and what was kept of the run."""

    result: msgspec.Raw
    kept: dict[str, Any]


read_evidence = msgspec.json.Decoder(SpooledEvidence).decode
_read_result = msgspec.json.Decoder(float_hook=Decimal).decode


# --- on the page


def drawn_evidence(row: SampleRow, spooled: bytes, place: int, *, opened: bool) -> str:
    """The evidence of a sample, drawn at once: its size counts."""
    evidence = read_evidence(spooled)
    result = _read_result(evidence.result)
    return evidence_block(row, evidence.kept, result, place, opened=opened).__html__()


def evidence_hint(n: int, failed: int) -> str:
    """Of which samples the page has the evidence, and what shows the others."""
    if failed <= n:
        more = ", and the worst of those that did" if n > failed else ""
        if not failed:
            return "The samples with the lowest scores."
        return f"Every sample that did not pass{more}."
    return (
        f"The worst {n:,} of {failed:,} samples that did not pass. `assay view` shows the others,"
        " and `assay explain FILE --run ID` explains one."
    )


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
