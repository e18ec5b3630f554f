"""Graded exams: a list, and one result with everything that says which of the four axes lost the
points.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.exams.document import read_result
from assay.exams.gate import opens
from assay.exams.policy import ExamPolicy, ExamRules, fraction
from assay.files.json_files import Document
from assay.server import lookup
from assay.server.auth import Principal
from assay.server.pages import exam_parts as parts
from assay.server.pages.decision_parts import contents
from assay.server.pages.exam_history import ExamBrief, SameExam, baseline_of, brief, history_of
from assay.server.pages.layout import (
    Column,
    Field,
    address,
    empty,
    filters,
    link,
    number,
    page,
    section,
    short,
    table,
    verdict,
    when,
)
from assay.server.pages.paging import Cursor, Text, listed, ways
from assay.server.pages.routing import READER, PageRoute
from assay.views.charts import Chart
from assay.views.charts import exams as charts
from assay.views.exam import exam_view
from assay.views.markup import Html, say, tag

if TYPE_CHECKING:
    from assay.server.state import Services
    from assay.store.drafts import Item

router = APIRouter(route_class=PageRoute, include_in_schema=False)
ON_A_PAGE = 25
FIRST = "assay exam grade exam.yaml --answers answers.jsonl --store .assay/ledger.db"
COLUMNS = (
    Column("Exam"),
    Column("Score"),
    Column("Hard gate"),
    Column("Set"),
    Column("No answer", "n"),
    Column("Rubric"),
    Column("Policy"),
    Column("Stored"),
)
SECTIONS = (
    ("gates", "Gates"),
    ("axes", "Where the points went"),
    ("diagnosis", "Diagnosis"),
    ("patterns", "Patterns"),
    ("history", "History"),
    ("items", "Items"),
    ("origin", "What it rests on"),
)
EVIDENCE = "assay.exam-evidence/1"


@router.get("/exams")
def list_exams(
    request: Request,
    principal: Principal = READER,
    policy: Text = None,
    after: Cursor = None,
    before: Cursor = None,
) -> Response:
    """Graded exams, the newest first."""
    services: Services = request.app.state.services
    asked = {"policy": (policy or "").strip() or None}
    wanted = {key: value for key, value in asked.items() if value}
    found = listed(
        services, principal.project, "exam", wanted, after=after, before=before, limit=ON_A_PAGE
    )
    if not found.items and not wanted and not after and not before:
        nothing = empty(
            "No graded exam is stored in this project yet. The answers to an exam are graded and"
            " stored with:",
            FIRST,
            more="Or post to /api/v1/exams/grade.",
        )
        return page(request, "Exams", nothing, nav="/exams")
    rules = _rules(services)
    rows = [_row(item, rules) for item in found.items]
    form = filters("/exams", [Field("policy", "Policy", choices=list(rules))], asked)
    shown = table(
        "Graded exams, the newest first",
        COLUMNS,
        rows,
        kind="stack runs",
        absent="No exam fits this filter.",
    )
    tally = services.ledger.count("exam", project=principal.project)
    lead = f"{tally.n:,} graded exam{'' if tally.n == 1 else 's'} stored, the newest first."
    return page(
        request,
        "Exams",
        form,
        shown,
        ways("exams", asked, found, what="exam", paged=bool(after or before)),
        nav="/exams",
        lead=lead,
    )


def _rules(services: Services) -> dict[str, ExamRules]:
    loaded = {
        entry.id: services.shelf.load("policies", entry.id)
        for entry in services.shelf.entries("policies")
    }
    return {
        name: ExamRules(policy) for name, policy in loaded.items() if isinstance(policy, ExamPolicy)
    }


def _row(item: Item, rules: dict[str, ExamRules]) -> list[str]:
    if item.body is None:
        return [
            link("forgotten exam", address("exams", item.digest)),
            *[say(None, "forgotten")] * 6,
            when(item.created_at),
        ]
    one = brief(item.body)
    return [
        link(one.name, address("exams", item.digest)),
        number(one.score, n=one.n, digits=4),
        _gate(one, rules.get(one.policy)),
        one.set,
        f"{len(one.missing):,}",
        one.rubric,
        say(one.policy),
        when(item.created_at),
    ]


def _gate(one: ExamBrief, rules: ExamRules | None) -> Html:
    """Whether the hard gate holds. The mean is made from the counts of each score: the score in a
    result is rounded.
    """
    if one.set == "regression":
        return verdict("none", "not for a regression set")
    if rules is None or rules.digest != one.digests.policy:
        return verdict("undetermined", "its policy is not on the shelf")
    total = sum(part.items for part in one.distribution)
    if not total:
        return verdict("undetermined", "cannot be judged")
    mean = sum(fraction(part.score) * part.items for part in one.distribution) / Fraction(total)
    return verdict("holds") if opens(mean, rules) else verdict("fails", "does not hold")


# --- one exam


@router.get("/exams/{digest}")
def show_exam(
    request: Request, digest: str, principal: Principal = READER, bars: Text = None
) -> Response:
    """One graded exam."""
    services: Services = request.app.state.services
    project = principal.project
    item = lookup.record(services, project, "exam", digest)
    result = read_result(Document(item.tree(), digest))
    view, same = exam_view(result), SameExam(result.digests.exam, result.set)
    stored = baseline_of(services, project, same)
    gates = parts.gates(services, result, digest, stored)
    url, here = address("charts", "exams", digest), address("exams", digest)
    whole = address("api", "v1", "records", digest)
    body = [
        parts.head(view, gates),
        contents(SECTIONS),
        parts.gate_table(gates),
        parts.axes(result, url, here, raw=bars == parts.RAW),
        parts.shape(view, url),
        parts.history(history_of(services, project, same, stored), gates.limit, url),
        parts.items(view, _answers(services, project, digest), whole),
        parts.origin(view),
        section(
            "Record",
            tag(
                "p",
                short(digest),
                " stored ",
                when(item.created_at),
                ", by ",
                say(item.author, "nobody named"),
                ". ",
                link("The whole record", whole),
            ),
            id="record",
        ),
    ]
    return page(request, view.title[:200], *body, nav="/exams")


def _answers(services: Services, project: str, digest: str) -> dict[str, Any]:
    """The answers that the result was made of, by item; empty where they are not stored."""
    links = services.ledger.links_of(digest, project=project, relation="evidence_of", limit=50)
    found = services.ledger.get_many(
        [link.source for link in links if link.source is not None and link.target == digest],
        project=project,
    )
    for item in found.values():
        if item.body is not None and item.schema == EVIDENCE:
            return {one["item"]: one["response"] for one in item.tree()["answers"]}
    return {}


def exam_chart(services: Services, project: str, digest: str, name: str) -> Chart | None:
    """A chart of a graded exam by its name; None where there is none of that name."""
    item = lookup.record(services, project, "exam", digest)
    result = read_result(Document(item.tree(), digest))
    if name in ("axes", "axes-raw"):
        return charts.axes(result, weighted=name == "axes")
    if name == "exam-history":
        same = SameExam(result.digests.exam, result.set)
        found = history_of(services, project, same, baseline_of(services, project, same))
        limit = parts.gates(services, result, digest, None).limit
        return charts.history(found.points, found.distribution, limit=limit)
    made = {"heatmap": charts.heatmap, "patterns": charts.patterns}.get(name)
    return None if made is None else made(result)
