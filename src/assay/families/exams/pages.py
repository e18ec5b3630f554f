"""Graded exams: a list, and one result with everything that shows which of the four axes lost the
points; exams by HTTP; their gates among the decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from fastapi import APIRouter, Request
from msgspec.structs import replace
from starlette.responses import Response

from assay import exact
from assay.canon import number_text
from assay.errors import AssayError
from assay.families.exams import views
from assay.families.exams.answers import collect
from assay.families.exams.exam import CAPSTONE, make_exam
from assay.families.exams.gate import decide, drop_check, soft_schema, soft_score
from assay.families.exams.marking import Marking, grade_exam, lost_marks
from assay.families.exams.policy import ExamPolicy, ExamRules
from assay.families.exams.records import (
    EXAM_GATE,
    ExamDigests,
    ExamFileCount,
    ExamGate,
    ExamResult,
    ExamSet,
    LostMark,
)
from assay.families.exams.results import (
    CheckedExam,
    check_result,
    exam_result,
    pass_line,
    read_result,
)
from assay.families.exams.rubric import ExamRubric
from assay.families.exams.stored import EXAM_EVIDENCE_SCHEMA, answered_exam, exam_drafts
from assay.families.exams.views import (
    RAW,
    CheckRow,
    ExamPoint,
    GateView,
    HistoryView,
    PageLinks,
    check_row,
    exam_name,
    exam_parts,
    exam_view,
    gate_rows,
    gate_table,
    gates_of,
)
from assay.files.json_files import Document, parse_json
from assay.records.evidence import Number
from assay.records.typed import convert
from assay.server import bodies, lookup, openapi
from assay.server.auth import READ, WRITE, Principal
from assay.server.pages.gate_parts import passed, rests_on
from assay.server.pages.layout import Cursor, PageRoute, RecordList, Text, page, record_page
from assay.server.requests import ExamRequest
from assay.server.routing import Route
from assay.server.served import GatePage, Line, Served
from assay.server.state import SERVICES, Services, check_name
from assay.services.samples import NamedBaseline, read_named_baseline
from assay.store.drafts import Draft, Item
from assay.views.blocks import Column, Decided, Empty, Facts, Field, Part, Sentences, Table, section
from assay.views.charts import Chart
from assay.views.charts.chart import shown as stated
from assay.views.pieces import (
    absent,
    address,
    link,
    moment,
    number,
    phrase,
    sentence,
    short_digest,
    shown,
    verdict,
    words,
)

LOOKED_AT = 200
"""How many results are searched for those of the same exam."""
BASELINES = 50


class SameExam(NamedTuple):
    """What the results of one history share: the digest of the questions with their expectations,
    and the set.
    """

    exam: str
    set: str


class ExamBrief(msgspec.Struct):
    """The fields of a graded exam that its history shows."""

    rubric: str
    score: Number
    n: int
    digests: ExamDigests
    set: ExamSet = "capstone"
    exams: list[ExamFileCount] = []

    @property
    def same(self) -> SameExam:
        """The key of the exam's history."""
        return SameExam(self.digests.exam, self.set)

    @property
    def name(self) -> str:
        """The exam by its files."""
        return exam_name(self.exams)


brief = msgspec.json.Decoder(ExamBrief).decode


class StoredExam(NamedTuple):
    """The baseline of an exam: its name, and the result."""

    name: str
    digest: str
    result: ExamResult


def baseline_of(services: Services, project: str, exam: SameExam) -> StoredExam | None:
    """The newest baseline that is a result of this exam."""
    for item in services.ledger.find(
        "baseline", project=project, limit=BASELINES, newest_first=True
    ).items:
        kept = read_named_baseline(item.body) if item.body is not None else NamedBaseline()
        for digest in kept.evidence_digests[:1] if kept.kind == "exam" else ():
            stored = services.ledger.get(digest, project=project)
            if stored is not None and stored.body is not None and brief(stored.body).same == exam:
                return StoredExam(kept.name, digest, read_result(Document(stored.tree(), digest)))
    return None


def history_of(
    services: Services, project: str, exam: SameExam, stored: StoredExam | None, name: str = ""
) -> HistoryView:
    """The results of an exam among the newest of all exams; with the exam's `name`, also how many
    results of that name have other questions: an exam that was made easier keeps its name.
    """
    page = services.ledger.find("exam", project=project, limit=LOOKED_AT, newest_first=True)
    points, others = [], 0
    for item in reversed(page.items):
        result = brief(item.body) if item.body is not None else None
        if result is not None and result.same == exam:
            points.append(
                ExamPoint(item.created_at, result.score, result.n, result.rubric, item.digest)
            )
        elif result is not None and (result.name, result.set) == (name, exam.set):
            others += 1
    more = "" if page.next_cursor is None else f"Of the last {LOOKED_AT} results of all exams. "
    return HistoryView(
        points,
        stored.result.distribution if stored is not None else None,
        stored.name if stored is not None else "",
        f"{more}Identical results are stored once.",
        others,
    )


router = APIRouter(route_class=PageRoute, include_in_schema=False)
FIRST = (
    "assay init --example exam exam && assay exam grade exam/exam.yaml --command"
    ' "python3 exam/tutor.py" --store'
)
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
UNKNOWN = "the exam's own pass score is unknown, because its questions are not stored"


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
    return record_page(
        request,
        services,
        principal.project,
        RecordList("exam", "Exams", "/exams", 25, noun="graded exam"),
        lambda items: Table(
            "Graded exams, the newest first",
            COLUMNS,
            [_row(services, principal.project, item) for item in items],
            kind="stack runs",
            absent="No exam matches this filter.",
        ),
        after=after,
        before=before,
        empty=lambda: Empty(
            "No graded exam is stored in this project yet. To grade the answers to the example"
            " exam and store the result:",
            FIRST,
            "Or post to /api/v1/exams/grade.",
        ),
        query=query,
        filters={key: value for key, value in query.items() if value},
        fields=lambda: [Field("policy", "Policy", choices=_policies(services))],
    )


def _policies(services: Services) -> list[str]:
    return [
        entry.id
        for entry in services.shelf.entries("policies")
        if isinstance(services.shelf.load("policies", entry), ExamPolicy)
    ]


def _row(services: Services, project: str, item: Item) -> list[str]:
    if item.body is None:
        gone = link("forgotten exam", address("exams", item.digest))
        return [gone, *[absent("forgotten")] * 6, moment(item.created_at)]
    exam = read_result(Document(item.tree(), item.digest))
    return [
        link(exam_name(exam.exams), address("exams", item.digest)),
        number(exam.score, n=exam.n, digits=4),
        _gate(services, project, exam, item.digest),
        exam.set,
        f"{len(exam.missing):,}",
        exam.rubric,
        shown(exam.policy),
        moment(item.created_at),
    ]


def _gate(services: Services, project: str, exam: ExamResult, digest: str) -> str:
    """Whether the hard gate passed, as on the exam's own page."""
    if exam.set != CAPSTONE:
        return verdict("none", "not for a regression set")
    holds = _gates(services, exam, digest, None, _evidence(services, project, digest)).holds
    words = {True: ("passed",), False: ("failed",), None: ("undetermined", "can't be judged")}
    return verdict(*words[holds])


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
    answered = evidence[0] if evidence else {}
    parts = exam_parts(
        view,
        _gates(services, result, digest, stored, evidence),
        links=links,
        history=history_of(services, project, same, stored, exam_name(result.exams)),
        answers={
            answer["item"]: _parsed(answer["response"]) for answer in answered.get("answers", ())
        },
        lost=_lost(services, result, answered),
        axis=axis if axis in result.axis_names else "",
        more=phrase(
            short_digest(digest), " stored ", moment(item.created_at), ", by ", by, ". ", whole
        ),
    )
    return page(request, view.title[:200], *parts, nav="/exams")


def _evidence(services: Services, project: str, digest: str) -> list[dict[str, Any]]:
    """The questions and answers of a result, as far as they are stored: several exams may give the
    same result.
    """
    sources = services.ledger.made_of(digest, project=project)
    return [
        item.tree()
        for item in services.ledger.get_many(sources, project=project).values()
        if item.body is not None and item.schema == EXAM_EVIDENCE_SCHEMA
    ]


def _pass_score(evidence: Sequence[dict[str, Any]]) -> Any:
    """The highest pass score of the exams that were answered; 0 if none has one."""
    named = [file.get("pass_score") for record in evidence for file in record.get("exam", ())]
    return max(filter(exact.is_amount, named), default=0)


def _lost(services: Services, result: ExamResult, evidence: dict[str, Any]) -> list[LostMark]:
    """What was expected and answered where a mark was lost; empty if the shelf doesn't have the
    rubric of the result.
    """
    marking = _on_shelf(services, "rubrics", result.rubric, result.digests.rubric, ExamRubric)
    if isinstance(marking, str) or not evidence:
        return []
    try:
        exam, answers = answered_exam(evidence, "the exam")
    except AssayError:
        return []
    return lost_marks(result, exam, answers, marking)


def _parsed(response: Any) -> Any:
    """An answer that is JSON in a text, as its tree."""
    if isinstance(response, str):
        with suppress(ValueError, RecursionError):
            return parse_json(response.encode())
    return response


def _on_shelf(services: Services, kind: str, name: Any, digest: Any, record: type) -> Any:
    """A policy or rubric that a result names, if the shelf has exactly that one; else a sentence.
    Only names on the shelf are looked up: no file is opened.
    """
    known = {entry.id for entry in services.shelf.entries(kind)}
    loaded = services.shelf.load(kind, name) if name in known else None
    if not isinstance(loaded, record):
        return f"{name} is not in this server's library; `assay serve --library DIR` adds yours"
    made = ExamRules(loaded) if isinstance(loaded, ExamPolicy) else Marking(loaded)  # type: ignore[arg-type]
    return (
        made
        if made.digest == digest
        else f"{name} in the library is not the one that the result was made with"
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
    where: str,
    stored: StoredExam | None,
    evidence: Sequence[dict[str, Any]],
) -> GateView:
    """The gates that a result can be held to by itself, and for a regression set the drop against
    the stored baseline. No gate holds if the exam's own pass score is unknown.
    """
    name = "hard gate" if result.set == CAPSTONE else "regression gate"
    rules = _on_shelf(services, "policies", result.policy, result.digests.policy, ExamPolicy)
    exam = _checked(services, result, where)
    if isinstance(rules, str) or isinstance(exam, str):
        why_not = exam if isinstance(exam, str) else str(rules)
        return GateView(name, [], None, f"{why_not}.", why_not=why_not)
    exam, limit = exam.held_to(_pass_score(evidence)), None
    if result.set == CAPSTONE:
        held = decide(exam, rules)
        rows = [check_row(check) for check in (held.capstone, held.target, held.soft[0])]
        limit = held.capstone.limit
    else:
        soft = (soft_schema(exam, rules), soft_score(exam.score, rules))
        rows = [_drop(services, exam, rules, stored), *map(check_row, soft)]
    if not evidence and rows[0].state == "holds":
        text = f"{rows[0].text}; {UNKNOWN}"
        rows[0] = rows[0]._replace(state="undetermined", text=text)
    return gates_of(name, rows, limit=limit)


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


def exam_chart(services: Services, project: str, digest: str, name: str) -> Chart | None:
    """A chart of a graded exam by its name; None if the name is unknown."""
    item = lookup.record(services, project, "exam", digest)
    result = read_result(Document(item.tree(), digest))
    if name in ("axes", "axes-raw"):
        return views.axes(result, weighted=name == "axes")
    if name == "exam-history":
        same = SameExam(result.digests.exam, result.set)
        past = history_of(services, project, same, baseline_of(services, project, same))
        evidence = _evidence(services, project, digest)
        limit = _gates(services, result, digest, None, evidence).limit
        return views.exam_history_chart(past.points, past.distribution, limit=limit)
    draw = {"heatmap": views.heatmap, "patterns": views.patterns}.get(name)
    return None if draw is None else draw(result)


class _GateBrief(msgspec.Struct):
    policy: Any = None
    passed: Any = None
    capstone: dict[str, Any] | None = None
    reasons: list[str] = []


_read_gate = msgspec.json.Decoder(_GateBrief).decode


def _gate_line(body: bytes) -> Line:
    gate = _read_gate(body)
    score = gate.capstone or {}
    return Line(
        f"Exam gate, score {stated(score.get('score'))} of {stated(score.get('n'))} items",
        passed(gate.passed),
        "; ".join(gate.reasons) or "no reason given",
        "exam gate",
    )


def _gate_page(
    services: Services, project: str, item: Item, decision: dict[str, Any]
) -> list[Part]:
    """The gate of an exam: what blocks, what only warns, and the results it was decided on."""
    gate = convert(decision, ExamGate)
    moved = {} if gate.regression is None else gate.regression.axes
    changes = [(words(axis), shown(change)) for axis, change in moved.items()]
    outcome = verdict("passed", "Passed") if gate.passed else verdict("failed", "Failed")
    checked = [] if gate.verify_rubric is None else [gate.verify_rubric]
    title = "Change of each axis against the baseline"
    return [
        Decided(
            outcome,
            shown(gate.policy, "no policy"),
            " ".join(map(sentence, gate.reasons)) or "No reason given.",
        ),
        section("Gates", gate_table([*gate_rows(gate), *map(check_row, checked)]), id="rules"),
        *([section(title, Facts(changes), id="axes")] if changes else []),
        *([section("Notes", Sentences(gate.notes), id="notes")] if gate.notes else []),
        rests_on(services, project, item, "exams", decision),
    ]


routes = APIRouter(route_class=Route, prefix="/api/v1", tags=["records"], responses=openapi.EVERY)


@routes.post(
    "/exams/grade",
    status_code=201,
    summary="Grade the answers to an exam",
    responses=openapi.POSTED,
    openapi_extra=openapi.body(ExamRequest),
)
async def grade_an_exam(
    request: Request, principal: Principal = WRITE, services: Services = SERVICES
) -> Response:
    """The same evaluator as `assay exam grade`; the result is stored, and every result of an exam
    stays.
    """
    body = await bodies.read(request, services.settings, ExamRequest)

    def work() -> tuple[ExamResult, list[Draft]]:
        files = body.exam if isinstance(body.exam, list) else [body.exam]
        exam = make_exam(
            [bodies.document(file, at=f"exam[{index}]") for index, file in enumerate(files)]
        )
        rules = ExamRules(services.shelf.policy_of("exam", check_name(body.policy)))
        marking = Marking(
            services.shelf.rubric_of(
                "exam", check_name(body.rubric or exam.rubric or rules.policy.default_rubric)
            )
        )
        lines = [
            bodies.document(line, at=f"answers[{index}]") for index, line in enumerate(body.answers)
        ]
        answers = collect(lines, (item.id for item in exam.items), where="answers")
        graded = grade_exam(exam, answers.by_item, marking)
        result = replace(
            exam_result(graded, rules, unknown=answers.unknown, faults=answers.faults),
            pass_line=pass_line(exam.pass_score, graded.score),
        )
        return result, exam_drafts(result, exam, answers.by_item.values(), author=principal.author)

    document, drafts = await services.in_turn(principal.project, work)
    stored = (await services.writer.put(principal.project, drafts))[-1]
    return bodies.created(request, stored, "exams", result=document)


SERVED = Served(
    pages=(router,),
    routes=(routes,),
    menu={"/exams": "Exams"},
    charts={"exams": exam_chart},
    gates={EXAM_GATE: GatePage("exam gate", "The last exam gate", _gate_line, _gate_page)},
)
