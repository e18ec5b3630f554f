"""Graded exams: a list, and one result with everything that shows which of the four axes lost the
points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import Response

from assay import exact
from assay.canon import number_text
from assay.errors import AssayError, count
from assay.exams.answers import Answer
from assay.exams.document import CheckedExam, check_result, read_result
from assay.exams.exam import CAPSTONE, make_exam
from assay.exams.gate import decide, drop_check, opens, soft_schema, soft_score
from assay.exams.lost_marks import lost_marks
from assay.exams.marking import Marking
from assay.exams.policy import ExamPolicy, ExamRules, fraction
from assay.exams.rubric import ExamRubric
from assay.files.json_files import Document, parse_json
from assay.records.exam import ExamResult, LostMark
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages.exam_history import (
    ExamBrief,
    SameExam,
    StoredExam,
    baseline_of,
    brief,
    history_of,
)
from assay.server.pages.layout import page
from assay.server.pages.paging import Cursor, Text, listed, ways
from assay.server.pages.routing import PageRoute
from assay.server.state import SERVICES, Services
from assay.store.drafts import Item
from assay.views.blocks import Column, Empty, Field, Filters, Table
from assay.views.charts import Chart, exam_history
from assay.views.charts import exams as charts
from assay.views.exam import CheckRow, GateView, axes_of, check_row, exam_name, exam_view, gates_of
from assay.views.exam_page import RAW, PageLinks, exam_parts
from assay.views.pieces import (
    absent,
    address,
    link,
    moment,
    number,
    phrase,
    short_digest,
    shown,
    verdict,
)

router = APIRouter(route_class=PageRoute, include_in_schema=False)
ON_A_PAGE = 25
FIRST = "assay init --example exam && assay exam grade exam.yaml --store .assay/ledger.db"
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
EVIDENCE = "assay.exam-evidence/1"


@router.get("/exams")
def list_exams(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    policy: Text = None,
    after: Cursor = None,
    before: Cursor = None,
) -> Response:
    """Graded exams, the newest first."""
    query = {"policy": (policy or "").strip() or None}
    wanted = {key: value for key, value in query.items() if value}
    records = listed(
        services, principal.project, "exam", wanted, after=after, before=before, limit=ON_A_PAGE
    )
    if not records.items and not wanted and not after and not before:
        nothing = Empty(
            "No graded exam is stored in this project yet. To grade the answers to the example"
            " exam and store the result:",
            FIRST,
            "Or post to /api/v1/exams/grade.",
        )
        return page(request, "Exams", nothing, nav="/exams")
    rules = _rules(services)
    least = _pass_scores(services, principal.project, [item.digest for item in records.items])
    table = Table(
        "Graded exams, the newest first",
        COLUMNS,
        [_row(item, rules, least.get(item.digest, 0)) for item in records.items],
        kind="stack runs",
        absent="No exam matches this filter.",
    )
    tally = services.ledger.count("exam", project=principal.project)
    return page(
        request,
        "Exams",
        Filters("/exams", [Field("policy", "Policy", choices=list(rules))], query),
        table,
        ways("exams", query, records, what="exam", paged=bool(after or before)),
        nav="/exams",
        lead=f"{count(tally.n, 'graded exam')} stored, the newest first.",
    )


def _rules(services: Services) -> dict[str, ExamRules]:
    loaded = {
        entry.id: services.shelf.load("policies", entry.id)
        for entry in services.shelf.entries("policies")
    }
    return {
        name: ExamRules(policy) for name, policy in loaded.items() if isinstance(policy, ExamPolicy)
    }


def _row(item: Item, rules: dict[str, ExamRules], pass_score: Any) -> list[str]:
    if item.body is None:
        gone = link("forgotten exam", address("exams", item.digest))
        return [gone, *[absent("forgotten")] * 6, moment(item.created_at)]
    exam = brief(item.body)
    return [
        link(exam.name, address("exams", item.digest)),
        number(exam.score, n=exam.n, digits=4),
        _gate(exam, rules.get(exam.policy), pass_score),
        exam.set,
        f"{len(exam.missing):,}",
        exam.rubric,
        shown(exam.policy),
        moment(item.created_at),
    ]


def _gate(exam: ExamBrief, rules: ExamRules | None, pass_score: Any) -> str:
    """Whether the hard gate passed, with the exam's own pass score. The mean is computed from the
    counts of each score, because the score in a result is rounded.
    """
    if exam.set == "regression":
        return verdict("none", "not for a regression set")
    if rules is None or rules.digest != exam.digests.policy:
        return verdict("undetermined", "its policy is not on the shelf")
    total = sum(part.items for part in exam.distribution)
    if not total:
        return verdict("undetermined", "cannot be judged")
    mean = sum(fraction(part.score) * part.items for part in exam.distribution) / Fraction(total)
    passed = opens(mean, rules) and mean >= fraction(pass_score)
    return verdict("passed" if passed else "failed")


# --- one exam


@router.get("/exams/{digest}")
def show_exam(
    request: Request,
    digest: str,
    principal: Principal = READ,
    services: Services = SERVICES,
    bars: Text = None,
    axis: Text = None,
) -> Response:
    """One graded exam."""
    project = principal.project
    item = lookup.record(services, project, "exam", digest)
    result = read_result(Document(item.tree(), digest))
    view, same = exam_view(result), SameExam(result.digests.exam, result.set)
    stored = baseline_of(services, project, same)
    links = PageLinks(address("exams", digest), address("charts", "exams", digest), bars == RAW)
    whole = link("The whole record", address("api", "v1", "records", digest))
    by = shown(item.author, "not recorded")
    evidence = _evidence(services, project, digest)
    parts = exam_parts(
        view,
        _gates(services, result, digest, stored, _pass_scores(services, project, [digest])),
        links=links,
        history=history_of(services, project, same, stored, exam_name(result.exams)),
        answers={one["item"]: _parsed(one["response"]) for one in evidence.get("answers", ())},
        lost=_lost(services, result, evidence),
        axis=axis if axis in axes_of(result) else "",
        more=phrase(
            short_digest(digest), " stored ", moment(item.created_at), ", by ", by, ". ", whole
        ),
    )
    return page(request, view.title[:200], *parts, nav="/exams")


def _evidence(services: Services, project: str, digest: str) -> dict[str, Any]:
    """The questions and answers of a result; empty if they are not stored."""
    sources = services.ledger.made_of(digest, project=project)[:50]
    for item in services.ledger.get_many(sources, project=project).values():
        if item.body is not None and item.schema == EVIDENCE:
            evidence: dict[str, Any] = item.tree()
            return evidence
    return {}


class _ExamFile(Struct):
    pass_score: Any = 0


class _AnsweredExam(Struct):
    exam: list[_ExamFile] = []


def _pass_scores(services: Services, project: str, digests: Sequence[str]) -> dict[str, Any]:
    """The pass score of the exam of each result, if it has one; the highest where several exams
    gave the same result.
    """
    made_of = [
        (str(one.source), one.target)
        for one in services.ledger.links_of_many(digests, project=project)
        if one.relation == "evidence_of" and one.target in digests
    ]
    sources = services.ledger.get_many({source for source, _ in made_of}, project=project)
    found: dict[str, Any] = {}
    for source, result in made_of:
        item = sources.get(source)
        if item is not None and item.body is not None and item.schema == EVIDENCE:
            named = [file.pass_score for file in _answered(item.body).exam]
            found[result] = max(found.get(result, 0), *filter(exact.is_amount, named), 0)
    return found


_answered = msgspec.json.Decoder(_AnsweredExam).decode


def _lost(services: Services, result: ExamResult, evidence: dict[str, Any]) -> list[LostMark]:
    """What was expected and answered where a mark was lost; empty if the shelf doesn't have the
    rubric of the result.
    """
    marking = _on_shelf(services, "rubrics", result.rubric, result.digests.rubric, ExamRubric)
    if isinstance(marking, str) or not evidence:
        return []
    try:
        exam = make_exam([Document(file, "the exam") for file in evidence["exam"]])
    except AssayError:
        return []
    answers = {one["item"]: Answer(**one) for one in evidence["answers"]}
    return lost_marks(result, exam, answers, marking)


def _parsed(response: Any) -> Any:
    """An answer that is JSON in a text, as its tree."""
    if isinstance(response, str):
        with suppress(ValueError, RecursionError):
            return parse_json(response.encode())
    return response


# --- its gates, decided again from its marks by what is on the shelf


def _on_shelf(services: Services, kind: str, name: Any, digest: Any, record: type) -> Any:
    """A policy or rubric that a result names, if the shelf has exactly that one; else a sentence.
    Only names on the shelf are looked up: no file is opened.
    """
    known = {entry.id for entry in services.shelf.entries(kind)}
    loaded = services.shelf.load(kind, name) if name in known else None
    if not isinstance(loaded, record):
        return f"{name} is not on the shelf of this server; `assay serve --library DIR` adds yours"
    made = ExamRules(loaded) if isinstance(loaded, ExamPolicy) else Marking(loaded)  # type: ignore[arg-type]
    return (
        made
        if made.digest == digest
        else f"{name} on the shelf is not the one that the result was made with"
    )


def _checked(services: Services, result: ExamResult, where: str) -> CheckedExam | str:
    """A result with every number recomputed from its marks; a sentence if that can't be done."""
    marking = _on_shelf(services, "rubrics", result.rubric, result.digests.rubric, ExamRubric)
    if isinstance(marking, str):
        return marking
    try:
        return check_result(result, marking, where=where)
    except AssayError as error:
        return error.message


def _gates(
    services: Services,
    result: ExamResult,
    digest: str,
    stored: StoredExam | None,
    pass_scores: Mapping[str, Any],
) -> GateView:
    """The gates that a result can be held to by itself, and for a regression set the drop against
    the stored baseline.
    """
    name = "hard gate" if result.set == CAPSTONE else "regression gate"
    rules = _on_shelf(services, "policies", result.policy, result.digests.policy, ExamPolicy)
    exam = _checked(services, result, digest)
    if isinstance(rules, str) or isinstance(exam, str):
        why_not = exam if isinstance(exam, str) else str(rules)
        return GateView(name, [], None, f"{why_not}.", why_not=why_not)
    exam = exam.held_to(pass_scores.get(digest, 0))
    if result.set == CAPSTONE:
        held = decide(exam, rules)
        rows = [check_row(one) for one in (held.capstone, held.target, held.soft[0])]
        return gates_of(name, rows, limit=held.capstone.limit)
    soft = (soft_schema(exam, rules), soft_score(exam.score, rules))
    return gates_of(name, [_drop(services, exam, rules, stored), *map(check_row, soft)])


def _drop(
    services: Services, exam: CheckedExam, rules: ExamRules, stored: StoredExam | None
) -> CheckRow:
    before = (
        _checked(services, stored.result, stored.digest)
        if stored is not None
        else "no baseline of this exam is stored: assay baseline set NAME result.json --store"
    )
    if not isinstance(before, str):
        try:
            row = check_row(drop_check(exam, before, rules))
            least = f"; below the pass score of {number_text(exam.pass_score)}"
            return row if exam.passes else row._replace(text=row.text + least)
        except AssayError as error:
            before = error.message
    return CheckRow("Drop against the baseline", "undetermined", "blocks", before)


# --- its charts


def exam_chart(services: Services, project: str, digest: str, name: str) -> Chart | None:
    """A chart of a graded exam by its name; None if the name is unknown."""
    item = lookup.record(services, project, "exam", digest)
    result = read_result(Document(item.tree(), digest))
    if name in ("axes", "axes-raw"):
        return charts.axes(result, weighted=name == "axes")
    if name == "exam-history":
        same = SameExam(result.digests.exam, result.set)
        past = history_of(services, project, same, baseline_of(services, project, same))
        scores = _pass_scores(services, project, [digest])
        limit = _gates(services, result, digest, None, scores).limit
        return exam_history.history(past.points, past.distribution, limit=limit)
    draw = {"heatmap": charts.heatmap, "patterns": charts.patterns}.get(name)
    return None if draw is None else draw(result)
