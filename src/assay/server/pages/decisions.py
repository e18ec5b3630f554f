"""Decisions: what may replace what, in a list and one by one. A gate on an exam or on tool schemas
is a decision too, with its own rules and letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from assay import exact
from assay.records.decision import DECISION_SCHEMA, Decision, read_decision
from assay.records.samples import (
    NO_TEXTS,
    SideName,
    TextCollector,
    Texts,
    sample_evidence,
    sample_grade,
)
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages.layout import Cursor, PageRoute, RecordList, Text, block, page, record_page
from assay.server.served import Line, gate_pages
from assay.server.state import SERVICES, Services
from assay.services.evaluations import StoredEvaluation, evaluation_label, list_evaluations
from assay.services.samples import evaluation_of_runs
from assay.services.stored_sides import DecisionEvidence, evidence_of_decision
from assay.store.drafts import Item
from assay.store.reading import SIDES, SideWorkflows, grades_of, sides_of
from assay.views.blocks import Column, Empty, Facts, Field, Paragraph, Part, Section, Table, section
from assay.views.charts import Chart
from assay.views.charts.decisions import ScorePair
from assay.views.decision import (
    MAX_ROWS,
    OUTCOMES,
    decision_charts,
    decision_view,
    samples_to_show,
    title_in,
)
from assay.views.pieces import (
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

MOST = 1000
"""Up to this many runs of a side, every pair is shown."""


class _Grade(msgspec.Struct):
    run_id: Any = None
    sample_id: Any = None
    dataset: dict[str, Any] | None = None
    weighted_score: Any = None


_read = msgspec.json.Decoder(_Grade).decode


class Pairs(NamedTuple):
    """The scores of every pair, and the address of each sample's run on either side."""

    pairs: Sequence[ScorePair] | None
    """None if there are too many, or no evidence is stored."""
    runs: dict[str, str]
    """The addresses of the candidate's runs, by sample."""
    before: dict[str, str]
    """The addresses of the baseline's runs, by sample."""
    texts: Texts = NO_TEXTS
    """Question and answers of the samples that the decision names."""


def pairs_of(
    services: Services,
    project: str,
    decided_on: DecisionEvidence,
    decision: Decision,
    *,
    within: Mapping[str, str | None] | None = None,
) -> Pairs:
    """Every pair of a decision. `within` names the evaluation of each side, if it has one."""
    sides: dict[SideName, list[str]] = {
        "candidate": decided_on.candidate,
        "baseline": decided_on.baseline,
    }
    runs: dict[str, dict[str, str]] = {name: {} for name in sides}
    named, collector = set(samples_to_show(decision)), TextCollector()
    if not all(sides.values()) or any(len(side_pairs) > MOST for side_pairs in sides.values()):
        return Pairs(None, {}, {})
    scores: dict[str, dict[str, list[float]]] = {}
    for name, evidence in sides.items():
        shown: list[tuple[str, str, bytes]] = []
        for digest, body in _grades(services, project, evidence, set(decided_on.decided)):
            grade = _read(body)
            sample = _sample(grade)
            if sample in named:
                shown.append((digest, sample, body))
            if exact.is_number(grade.weighted_score):
                scores.setdefault(sample, {}).setdefault(name, []).append(
                    float(grade.weighted_score)
                )
            runs[name][sample] = address("runs", digest, in_=(within or {}).get(name))
        _collect(services, project, name, shown, collector)
    means = {
        sample: {name: sum(values) / len(values) for name, values in by_side.items()}
        for sample, by_side in scores.items()
        if sample not in decision.missing.quarantined
    }
    pairs = [
        ScorePair(
            sample,
            by_side.get("candidate"),
            by_side.get("baseline"),
            title_in(decision, sample),
        )
        for sample, by_side in means.items()
    ]
    return Pairs(pairs, runs["candidate"], runs["baseline"], collector.texts())


def _collect(
    services: Services,
    project: str,
    side: SideName,
    shown: Sequence[tuple[str, str, bytes]],
    into: TextCollector,
) -> None:
    """The texts of these runs of a side: their digests, their samples and their grades."""
    bodies = services.ledger.get_many({digest for digest, _, _ in shown}, project=project)
    for digest, sample, graded in shown:
        item = bodies.get(digest)
        if item is not None and item.body is not None and item.kind == "run":
            into.add(side, sample, sample_grade(graded), sample_evidence(item.checked()))


def _grades(
    services: Services, project: str, evidence: list[str], decided: set[str]
) -> Iterable[tuple[str, bytes]]:
    """The grade of each record that the decision is based on, with that record. Runs with the same
    scorecard share its grades.
    """
    known = grades_of(services.ledger.database, project, evidence)
    chosen = {
        digest: next(
            (grade.digest for grade in known.get(digest, ()) if grade.digest in decided), None
        )
        for digest in evidence
    }
    bodies = services.ledger.get_many(
        {grade for grade in chosen.values() if grade is not None}, project=project
    )
    for digest, grade in chosen.items():
        item = bodies.get(grade or "")
        if item is not None and item.body is not None:
            yield digest, item.body


def _sample(grade: _Grade) -> str:
    dataset = grade.dataset or {}
    if dataset.get("id") is not None:
        return f"{dataset['id']}/{dataset.get('sample_id')}"
    return str(grade.sample_id if grade.sample_id is not None else grade.run_id)


router = APIRouter(route_class=PageRoute, include_in_schema=False)
LIST = RecordList("decision", "Decisions", "/decisions")
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


read_brief = msgspec.json.Decoder(_DecisionBrief).decode
"""The fields of a stored decision that a list shows."""


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
        _line(item.checked(), sides)
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


def _line(body: bytes, sides: dict[str, SideWorkflows]) -> Line:
    decision = read_brief(body)
    gate = gate_pages().get(str(decision.schema))
    if gate is not None:
        with suppress(msgspec.ValidationError):
            return gate.line(body)
    kind = "release" if decision.schema == DECISION_SCHEMA else "of an unknown kind"
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


@router.get("/decisions/{digest}")
def show_decision(
    request: Request, digest: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """One decision."""
    item = lookup.record(services, principal.project, "decision", digest)
    sides = sides_of(services.ledger.database, principal.project, [item.seq], look_at=MAX_ROWS).get(
        item.seq, {}
    )
    line = _line(item.checked(), sides)
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
    gate = gate_pages().get(str(tree.get("schema")))
    if gate is not None:
        with suppress(msgspec.ValidationError):
            return gate.parts(services, project, item, tree)
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
