"""Graded exams: a list, and one result with everything that says which of the four axes lost the
points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.exams.gate import opens
from assay.exams.policy import ExamPolicy, ExamRules, fraction
from assay.server import lookup
from assay.server.auth import Principal
from assay.server.pages import exam_parts as parts
from assay.server.pages.decision_parts import contents
from assay.server.pages.exam_history import Brief, Same, baseline_of, brief, history_of
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
from assay.server.pages.paging import Cursor, Text, listed, mapped, plain, rows_of, texts, ways
from assay.server.pages.routing import READER, PageRoute
from assay.views.charts import Chart
from assay.views.charts import exams as charts
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
    n = one.n if isinstance(one.n, int) else None
    lost = len(texts(one.missing))
    return [
        link(name_of(one), address("exams", item.digest)),
        number(one.score, n=n, digits=4, absent="no score"),
        _gate(one, rules.get(str(one.policy))),
        say(one.set),
        f"{lost:,}",
        say(one.rubric),
        say(one.policy),
        when(item.created_at),
    ]


def name_of(one: Brief) -> str:
    """An exam by its files."""
    names = [
        f"{file.get('exam')} {plain(file.get('version'), '')}".strip()
        for file in rows_of(one.exams)
    ]
    return (
        ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        if names
        else "an exam without a name"
    )


def _gate(one: Brief, rules: ExamRules | None) -> Html:
    """Whether the hard gate holds. The mean is made from the counts of each score: the score in a
    result is rounded.
    """
    if one.set == "regression":
        return verdict("none", "not for a regression set")
    if rules is None or rules.digest != mapped(one.digests).get("policy"):
        return verdict("undetermined", "its policy is not on the shelf")
    spread = [
        (fraction(part["score"]), part["items"])
        for part in rows_of(one.distribution)
        if isinstance(part.get("items"), int) and part.get("score") is not None
    ]
    total = sum(n for _, n in spread)
    if not total:
        return verdict("undetermined", "cannot be told")
    return (
        verdict("holds")
        if opens(sum(score * n for score, n in spread) / total, rules)
        else verdict("fails", "does not hold")
    )


# --- one exam


@router.get("/exams/{digest}")
def show_exam(
    request: Request, digest: str, principal: Principal = READER, bars: Text = None
) -> Response:
    """One graded exam."""
    services: Services = request.app.state.services
    project = principal.project
    item = lookup.record(services, project, "exam", digest)
    exam: dict[str, Any] = parts.ordered(mapped(item.tree()))
    key = Same(mapped(exam.get("digests")).get("exam"), exam.get("set"))
    stored = baseline_of(services, project, key)
    gates = parts.gates(
        services,
        exam,
        digest,
        (stored.item.tree(), stored.item.digest) if stored is not None else None,
    )
    url, here = address("charts", "exams", digest), address("exams", digest)
    whole = address("api", "v1", "records", digest)
    body = [
        parts.head(exam, gates),
        contents(SECTIONS),
        parts.gate_table(gates),
        parts.axes(exam, url, here, raw=bars == parts.RAW),
        parts.shape(exam, url),
        parts.history(history_of(services, project, key, stored), gates.limit, url),
        parts.items(exam, _answers(services, project, digest), whole),
        parts.origin(exam),
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
    return page(request, name_of(brief(item.body or b"{}"))[:200], *body, nav="/exams")


def _answers(services: Services, project: str, digest: str) -> dict[str, Any]:
    """The answers that the result was made of, by item; empty where they are not stored."""
    links = services.ledger.links_of(digest, project=project, relation="evidence_of", limit=50)
    found = services.ledger.get_many(
        [link.source for link in links if link.source is not None and link.target == digest],
        project=project,
    )
    for item in found.values():
        if item.body is not None and item.schema == EVIDENCE:
            return {
                str(one.get("item")): one.get("response")
                for one in rows_of(mapped(item.tree()).get("answers"))
            }
    return {}


def exam_chart(services: Services, project: str, digest: str, name: str) -> Chart | None:
    """A chart of a graded exam by its name; None where there is none of that name."""
    exam = parts.ordered(mapped(lookup.record(services, project, "exam", digest).tree()))
    if name in ("axes", "axes-raw"):
        return charts.axes(exam, weighted=name == "axes")
    if name == "exam-history":
        key = Same(mapped(exam.get("digests")).get("exam"), exam.get("set"))
        stored = baseline_of(services, project, key)
        found = history_of(services, project, key, stored)
        limit = parts.gates(services, exam, digest, None).limit
        return charts.history(found.points, found.distribution, limit=limit)
    return (
        charts.heatmap(exam)
        if name == "heatmap"
        else charts.patterns(exam)
        if name == "patterns"
        else None
    )
