"""Decisions: what may replace what, in a list and one by one. A gate on an exam or on tool schemas
is a decision too, with its own rules and letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.archive.compared import evaluation_of_runs
from assay.archive.evaluations import StoredEvaluation, evaluation_label, list_evaluations
from assay.archive.sides import DecisionEvidence, evidence_of_decision
from assay.records.decision import DECISION_SCHEMA, Decision, read_decision
from assay.records.exam import EXAM_GATE
from assay.records.tool_gate import SCHEMA_GATE, ToolGate
from assay.records.typed import convert
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages import gate_parts
from assay.server.pages.decision_pairs import pairs_of
from assay.server.pages.layout import block, page
from assay.server.pages.paging import Cursor, RecordList, Text, record_page
from assay.server.pages.routing import PageRoute
from assay.server.state import SERVICES, Services
from assay.store.drafts import Item
from assay.store.reading import SIDES, SideWorkflows, sides_of
from assay.views.blocks import (
    Column,
    Empty,
    Facts,
    Field,
    Paragraph,
    Part,
    Section,
    Table,
    section,
)
from assay.views.charts import Chart
from assay.views.charts.chart import shown as stated
from assay.views.decision import OUTCOMES
from assay.views.decision_sections import MAX_ROWS, decision_charts, decision_view
from assay.views.pieces import (
    Piece,
    address,
    clip,
    code,
    link,
    moment,
    phrase,
    short_digest,
    shown,
    verdict,
)
from assay.views.pieces import listed as listed_pieces
from assay.views.tool_gate import first_reason, gate_outcome, gate_title

router = APIRouter(route_class=PageRoute, include_in_schema=False)
LIST = RecordList("decision", "Decisions", "/decisions")
NAMED = {DECISION_SCHEMA: "release", EXAM_GATE: "exam gate", SCHEMA_GATE: "tool schemas"}
_GATES = {"gate-passed": True, "gate-not-passed": False}
CHOICES = (
    *((name, word) for name, (word, _) in OUTCOMES.items()),
    ("gate-passed", "exam or tool gate: passed"),
    ("gate-not-passed", "exam or tool gate: failed"),
)
COLUMNS = (
    Column("Decision"),
    Column("Outcome"),
    Column("Why", "wide"),
    Column("Kind"),
    Column("Policy"),
    Column("Decided"),
)


class _Side(msgspec.Struct):
    name: Any = None
    n: Any = None


class _DecisionBrief(msgspec.Struct):
    """The fields of a decision that a list shows."""

    schema: Any = None
    outcome: Any = None
    reason: Any = None
    policy: Any = None
    passed: Any = None
    candidate: _Side | None = None
    baseline: _Side | None = None
    capstone: dict[str, Any] | None = None
    reasons: list[str] = []
    results: Any = None


read_brief = msgspec.json.Decoder(_DecisionBrief).decode
"""The fields of a stored decision that a list shows."""


class Line(NamedTuple):
    """A decision in a list."""

    name: str
    outcome: Piece
    why: str
    kind: str
    version: str = ""
    """The version of a workflow that both sides are."""


def _first_command(services: Services, project: str) -> str:
    """The command that decides on the newest evaluation and the one of its workflow before it. They
    may have the same version, so `latest~1` may mean neither.
    """
    candidate, baseline = "latest", "latest~1"

    def whole(**of: str) -> Iterator[StoredEvaluation]:
        listed = list_evaluations(services.ledger, project=project, **of)
        return (stored for stored in listed if not stored.evaluation.only)

    for newest in islice(whole(), 1):
        for before in islice(whole(workflow=newest.evaluation.workflow.id), 1, 2):
            named = newest.evaluation.name != before.evaluation.name
            baseline = before.evaluation.name if named else before.evaluation.id
            candidate = newest.evaluation.name
    return f"assay gate {candidate} --baseline {baseline}"


@router.get("/decisions")
def list_decisions(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    outcome: Text = None,
    policy: Text = None,
    after: Cursor = None,
    before: Cursor = None,
) -> Response:
    """Decisions, the newest first."""
    query = {"outcome": (outcome or "").strip() or None, "policy": (policy or "").strip() or None}
    wanted: dict[str, Any] = {"policy": query["policy"]} if query["policy"] else {}
    if query["outcome"] in _GATES:
        wanted["passed"] = _GATES[query["outcome"]]
    elif query["outcome"]:
        wanted["status"] = query["outcome"]
    return record_page(
        request,
        services,
        principal.project,
        LIST,
        lambda items: Table(
            "Decisions, the newest first",
            COLUMNS,
            rows_of_decisions(services, principal.project, items),
            kind="stack runs",
            absent="No decision matches this filter.",
        ),
        after=after,
        before=before,
        empty=lambda: Empty(
            "No decision is stored in this project yet. To decide whether the latest"
            " evaluation may replace the one before it:",
            _first_command(services, principal.project),
            "A gate on files, `assay exam gate` and `assay tools gate` store theirs with `--store`;"
            " programs post to /api/v1/decisions.",
        ),
        query=query,
        filters=wanted,
        fields=lambda: [
            Field("outcome", "Outcome", "select", CHOICES),
            Field(
                "policy",
                "Policy",
                choices=[entry.id for entry in services.shelf.entries("policies")],
            ),
        ],
        head=[Paragraph(phrase(link("Compare evaluations", "/compare"), " to make a decision."))],
    )


def rows_of_decisions(services: Services, project: str, items: Sequence[Item]) -> list[list[str]]:
    """A row of `COLUMNS` for each decision."""
    sides = sides_of(services.ledger.database, project, [item.seq for item in items])
    return [_row(item, sides.get(item.seq, {})) for item in items]


def _row(item: Item, sides: dict[str, SideWorkflows]) -> list[str]:
    decision = read_brief(item.checked()) if item.body is not None else None
    line = (
        _line(decision, sides)
        if decision is not None
        else Line(
            "forgotten decision",
            verdict("none", "forgotten"),
            "its content was forgotten",
            "not known",
        )
    )
    policy = shown(decision.policy if decision is not None else None)
    return [
        link(clip(line.name, 120), address("decisions", item.digest)),
        line.outcome,
        clip(line.why, 500),
        line.kind,
        policy,
        moment(item.created_at),
    ]


def _line(decision: _DecisionBrief, sides: dict[str, SideWorkflows]) -> Line:
    kind = NAMED.get(str(decision.schema), "of an unknown kind")
    if decision.schema == EXAM_GATE:
        score = decision.capstone or {}
        return Line(
            f"Exam gate, score {stated(score.get('score'))} of {stated(score.get('n'))} items",
            gate_parts.passed(decision.passed),
            "; ".join(decision.reasons) or "no reason given",
            kind,
        )
    if decision.schema == SCHEMA_GATE:
        with suppress(msgspec.ValidationError):
            given = {"passed": decision.passed, "results": decision.results}
            gate = convert(given, ToolGate)
            return Line(gate_title(gate), gate_outcome(gate), first_reason(gate), kind)
    first, other = (side_name(sides.get(side), getattr(decision, side), side) for side in SIDES)
    outcome, reason = verdict(decision.outcome), str(decision.reason or "no reason given")
    if first == other:
        return Line(f"{first}: candidate against baseline", outcome, reason, kind, version=first)
    return Line(f"{first} against {other}", outcome, reason, kind)


def side_name(named: SideWorkflows | None, summary: _Side | None, side: str) -> str:
    """A side by its workflows; by its name in the decision if its evidence is not stored or names
    no workflow.
    """
    if not named:
        return str(summary.name) if summary is not None and summary.name else side
    workflow, version = named[0]
    more = len(named) - 1
    return f"{workflow} {version or ''}".strip() + (
        f" and {more} other{'s' if more > 1 else ''}" if more else ""
    )


# --- one decision


@router.get("/decisions/{digest}")
def show_decision(
    request: Request, digest: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """One decision."""
    item = lookup.record(services, principal.project, "decision", digest)
    sides = sides_of(services.ledger.database, principal.project, [item.seq], look_at=MAX_ROWS).get(
        item.seq, {}
    )
    line = _line(read_brief(item.checked()), sides)
    parts = _parts(services, principal.project, item)
    title = line.name
    if line.version:  # then the names of the evaluations tell the sides apart
        evidence = evidence_of_decision(services.ledger, item.digest, project=principal.project)
        first, other = _names(services, principal.project, evidence).values()
        title = f"{first} against {other}, {line.version}" if first and other else title
    return page(request, title[:200], *parts, _stored(item), nav="/decisions")


def _parts(services: Services, project: str, item: Item) -> list[Part]:
    release = _release(item)
    if release is not None:
        return _release_parts(services, project, item, release)
    tree: dict[str, Any] = item.tree()
    gate = {EXAM_GATE: gate_parts.exam, SCHEMA_GATE: gate_parts.schemas}.get(
        str(tree.get("schema"))
    )
    if gate is not None:
        with suppress(msgspec.ValidationError):
            return gate(services, project, item, tree)
    whole = address("api", "v1", "records", item.digest)
    return [section("The record", block("As stored", tree, whole))]


def _release_parts(services: Services, project: str, item: Item, release: Decision) -> list[Part]:
    ledger = services.ledger
    evidence = evidence_of_decision(ledger, item.digest, project=project)
    names = _names(services, project, evidence)
    pairs = pairs_of(services, project, evidence, release, within=names)
    url = address("charts", "decisions", item.digest)
    head, *rest = decision_view(
        release,
        pairs=pairs.pairs,
        url=url,
        runs=pairs.runs,
        before=pairs.before,
        texts=pairs.texts,
    )
    return [head, _compared(names), *rest]


def _names(services: Services, project: str, evidence: DecisionEvidence) -> dict[str, str | None]:
    """The name of the evaluation of each side; None if its runs are of none."""
    ledger, names = services.ledger, dict[str, str | None]()
    for side in SIDES:
        stored = evaluation_of_runs(ledger, getattr(evidence, side), project=project)
        names[side] = None if stored is None else evaluation_label(ledger, stored, project=project)
    return names


def _compared(names: Mapping[str, str | None]) -> Part:
    """The evaluations of both sides, and a link to their comparison."""
    candidate, baseline = (names[side] for side in SIDES)
    parts = [
        phrase(f"{side.capitalize()}: ", link(name, address("evaluations", name)))
        for side, name in names.items()
        if name is not None
    ]
    if candidate is not None and baseline is not None:
        compare = address("compare", of=(baseline, candidate))
        parts.append(link("Compare them sample by sample", compare))
    return Paragraph(listed_pieces(parts, " · "))


def _release(item: Item) -> Decision | None:
    """A release decision; None if the record is something else."""
    try:
        return read_decision(item.checked())
    except msgspec.ValidationError:
        return None


def _stored(item: Item) -> Section:
    pairs = [
        ("Record", short_digest(item.digest)),
        ("Decided", moment(item.created_at)),
        ("By", shown(item.author)),
        ("Full record", link("The whole record", address("api", "v1", "records", item.digest))),
        ("Recompute it from its evidence with", code(f"assay ledger replay {item.digest}")),
    ]
    return section("Record", Facts(pairs, "small"), id="record")


def decision_chart(services: Services, project: str, digest: str, name: str) -> Chart | None:
    """A chart of a stored release decision by its name; None if the name is unknown."""
    item = lookup.record(services, project, "decision", digest)
    release = _release(item)
    if release is None:
        return None
    pairs = None
    if name == "paired-scatter":
        evidence = evidence_of_decision(services.ledger, item.digest, project=project)
        pairs = pairs_of(services, project, evidence, release).pairs
    return next((chart for chart in decision_charts(release, pairs) if chart.name == name), None)
