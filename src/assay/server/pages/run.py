"""The page of one sample: the verdict in one line, what was asked, answered and expected, then
everything behind it, down to digests; and a button that recomputes the grade.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.errors import AssayError
from assay.files.json_files import Document
from assay.records.evidence import Run, title_of
from assay.records.grade_line import GradeLine
from assay.records.reading import read_run
from assay.records.samples import (
    QUESTIONS,
    SampleEvidence,
    SampleQuery,
    SampleRow,
    SampleRun,
    answer_text,
    main_text,
    neighbours,
    read_query,
    sample_evidence,
    select_samples,
)
from assay.server.auth import READ, Principal
from assay.server.lookup import RunWithGrades, run_with_grades
from assay.server.pages.layout import SENT, PageRoute, page
from assay.server.problems import Problem
from assay.server.routing import reads
from assay.server.run_pages import briefly
from assay.server.served import served
from assay.server.state import SERVICES, Services
from assay.services.evaluations import StoredEvaluation, find_evaluation
from assay.services.replay import replay
from assay.services.samples import evaluations_of, other_versions, sample_rows, view_samples
from assay.store import events
from assay.store.drafts import Item, Link, key
from assay.store.reading import grades_of
from assay.views.blocks import (
    Button,
    Column,
    Details,
    Facts,
    Group,
    Heading,
    Note,
    Paragraph,
    Part,
    Section,
    Table,
    contents,
    parts_of,
    section,
)
from assay.views.grade_line import outcome
from assay.views.pieces import (
    Piece,
    absent,
    address,
    clip,
    code,
    letter,
    line,
    link,
    listed,
    moment,
    phrase,
    points,
    short_digest,
    shown,
    small,
    verdict,
)
from assay.views.run import grounding, timeline, tool_calls
from assay.views.sample import (
    LONGEST,
    OtherAnswer,
    Walk,
    grade_section,
    repeats,
    texts,
    verdict_line,
    versions,
)
from assay.views.values import json_text

SHOWN = 20
PAGE_OF = {
    "run": "runs",
    "scorecard": "runs",
    "grade": "runs",
    "decision": "decisions",
    "exam": "exams",
    "card": "judges",
    "audit": "judges",
    "calibration": "judges",
    "index": "schemas",
    "entry": "schemas",
    "check": "schemas",
    "labelset": "label",
}
"""Where records of a kind are shown; others are shown by the API."""
RELATIONS = {
    ("evidence_of", True): "is the evidence of",
    ("evidence_of", False): "was made from",
    ("graded_from", True): "was graded from",
    ("graded_from", False): "was graded as",
    ("decides", True): "decides on",
    ("decides", False): "was decided on by",
    ("supersedes", True): "supersedes",
    ("supersedes", False): "is superseded by",
    ("corrects", True): "corrects",
    ("corrects", False): "is corrected by",
    ("candidate_of", True): "is part of the candidate in",
    ("candidate_of", False): "has as its candidate",
    ("baseline_of", True): "is part of the baseline in",
    ("baseline_of", False): "has as its baseline",
    ("fresh_candidate_of", True): "is a fresh run of the candidate in",
    ("fresh_candidate_of", False): "has as a fresh run of its candidate",
    ("fresh_baseline_of", True): "is a fresh run of the baseline in",
    ("fresh_baseline_of", False): "has as a fresh run of its baseline",
}


def lineage(
    services: Services, project: str, graded_run: RunWithGrades, result: dict[str, Any] | None
) -> Part:
    """What a run and its grade come from, and what was made from them."""
    grades = [
        [
            link(
                short_digest(grade.digest),
                address("runs", grade.digest),
                aria_current=(
                    "true"
                    if graded_run.grade is not None and grade.digest == graded_run.grade.digest
                    else ""
                ),
            ),
            letter(grade.grade, grade.policy),
            outcome(grade.passed),
            shown(grade.profile, "none"),
            (
                "shown here"
                if graded_run.grade is not None and grade.digest == graded_run.grade.digest
                else "the newest"
                if grade is graded_run.grades[-1]
                else "earlier"
            ),
        ]
        for grade in graded_run.grades[::-1][:SHOWN]
    ]
    parts: list[Part] = [
        Heading("Grades of this evidence"),
        Table(
            "Grades of this evidence",
            ("Grade record", "Grade", "Verdict", "Profile", "Which"),
            grades,
            absent="None is stored.",
        ),
        Heading("Linked records"),
        _links(services, project, graded_run),
        *_same_id(services, project, graded_run),
    ]
    if result is not None:
        made_by = [
            (name, shown(result.get(key)))
            for key, name in (
                ("policy", "Policy"),
                ("profile", "Profile"),
                ("rubric", "Rubric"),
                ("scoringSystem", "Scoring system"),
                ("gradingSystem", "Grading system"),
            )
        ]
        why = [
            (f"Why this {kind}", shown((chosen or {}).get("why")))
            for kind, chosen in (result.get("selection") or {}).items()
            if chosen
        ]
        digests = [
            (f"Digest of the {name}", code(shown(value)))
            for name, value in (result.get("digests") or {}).items()
        ]
        parts += [
            Heading("Made by"),
            Facts([*_shelf(made_by), *why]),
            Heading("Digests"),
            Facts(digests, kind="small"),
        ]
    records = [
        (
            f"Record of the {item.kind}",
            phrase(
                *[
                    code(item.digest),
                    " ",
                    link("JSON", address("api", "v1", "records", item.digest)),
                ]
            ),
        )
        for item in (graded_run.item, graded_run.grade)
        if item is not None
    ]
    return section(
        "Lineage", *parts, Facts(records, kind="small"), *_button(graded_run), id="lineage"
    )


def _shelf(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    kinds = {"Policy": "policies", "Profile": "profiles", "Rubric": "rubrics"}
    return [
        (
            name,
            (
                link(value, address("library", kinds[name], value))
                if name in kinds and not isinstance(value, Piece)
                else value
            ),
        )
        for name, value in pairs
    ]


def _button(graded_run: RunWithGrades) -> list[Part]:
    if graded_run.grade is None or graded_run.grade.body is None:
        return []
    text = (
        "Replay recomputes this grade from the stored evidence, with the versions recorded in it,"
        " and compares the bytes. Nothing is stored."
    )
    action = address("runs", graded_run.grade.digest, "replay")
    return [
        Heading("Replay"),
        Paragraph(text, "hint"),
        Button("Replay this grade", action, {"grade": graded_run.grade.digest}),
    ]


def _links(services: Services, project: str, graded_run: RunWithGrades) -> Part:
    """The records that the run and its grade are linked to, with the relation in words."""
    own = {
        item.digest: item.kind for item in (graded_run.item, graded_run.grade) if item is not None
    }
    listed: list[tuple[str, Link]] = [
        (digest, linked)
        for digest in own
        for linked in services.ledger.links_of(digest, project=project, limit=SHOWN)
    ]
    others = {
        linked.target if linked.source == digest else str(linked.source)
        for digest, linked in listed
    }
    kinds = {
        digest: item.kind
        for digest, item in services.ledger.get_many(others, project=project).items()
    }
    rows = []
    for digest, linked in listed:
        other = linked.target if linked.source == digest else str(linked.source)
        where = PAGE_OF.get(kinds.get(other, ""), "")
        href = address(where, other) if where else address("api", "v1", "records", other)
        rows.append(
            [
                f"This {own[digest]}",
                RELATIONS.get((linked.relation, linked.source == digest), linked.relation),
                phrase(*[kinds.get(other, "record"), " ", short_digest(other, href)]),
            ]
        )
    return Table(
        "Linked records",
        ("Record", "Relation", "Other record"),
        rows,
        absent="Nothing is linked to this run.",
    )


def _same_id(services: Services, project: str, graded_run: RunWithGrades) -> list[Part]:
    """Other runs with the same id: ids need not be unique."""
    tree = (
        graded_run.item if graded_run.item.body is not None else graded_run.grade
    ) or graded_run.item
    if tree.body is None:
        return []
    run_id = str(tree.tree().get("run_id"))
    runs = services.ledger.find(
        "run", {"run_id": run_id}, project=project, limit=SHOWN, newest_first=True
    ).items
    rows = [
        [
            short_digest(item.digest, address("runs", item.digest)),
            moment(item.created_at),
            shown(item.author, "not stated"),
            shown(item.reason, "none"),
        ]
        for item in runs
        if item.digest != graded_run.item.digest
    ]
    return (
        [
            Heading("Other runs of this id"),
            Table("Other runs of this id", ("Run", "Stored", "By", "Reason"), rows),
        ]
        if rows
        else []
    )


LONGEST_NAME = 200
READS = reads("in", *SampleQuery.__struct_fields__)
"""The parameters of an address that names a context."""


class SampleContext(NamedTuple):
    """The evaluation that a run is shown in, if there is one."""

    stored: StoredEvaluation | None
    query: SampleQuery
    note: str = ""
    """Why the run is not shown in the evaluation that the address names."""

    def of(self, run: SampleRun) -> str:
        """The address of another run in the same view."""
        assert self.stored is not None, "a run is only next to others within an evaluation"
        return address("runs", run.digest, in_=self.stored.evaluation.id, **self.query.pairs())


def opened(
    services: Services, project: str, request: Request, name: str
) -> tuple[RunWithGrades | None, SampleContext]:
    """The run that a name means in the evaluation of `?in=`, and that evaluation: many evaluations
    may have the id. None if the address names no evaluation that has the run.
    """
    query = read_query(request.query_params.getlist)
    reference = request.query_params.get("in", "")
    if not reference:
        return None, SampleContext(None, query)
    stored = find_evaluation(services.ledger, reference[:LONGEST_NAME], project=project)
    if stored is None:
        note = f"This project has no evaluation {reference[:LONGEST_NAME]!r}."
        return None, SampleContext(None, query, note)
    runs = stored.evaluation.runs
    run = next((run for run in runs if name in (run.digest, run.run_id, run.grade)), None)
    if run is None:
        note = f"The evaluation {stored.evaluation.name} does not contain this run."
        return None, SampleContext(None, query, note)
    graded_run = run_with_grades(services, project, run.grade or run.digest)
    return graded_run, SampleContext(stored, query)


def placed(
    services: Services, project: str, graded_run: RunWithGrades, context: SampleContext
) -> SampleContext:
    """The context of a run; if the address names no evaluation, the newest that has the run."""
    if context.stored is not None:
        return context
    newest = next(evaluations_of(services.ledger, graded_run.item.digest, project=project), None)
    return context._replace(stored=newest)


def around(
    services: Services, project: str, graded_run: RunWithGrades, context: SampleContext
) -> tuple[Walk | None, list[Part]]:
    """Links to the samples before and after, in the view of the address, and the repeats of this
    one.
    """
    notes: list[Part] = [Note(context.note)] if context.note else []
    if context.stored is None:
        return None, notes
    stored, query = context.stored, context.query
    chosen: Sequence[SampleRow]
    if query.needs_baseline:
        view = view_samples(services.ledger, stored, query, project=project)
        rows, chosen = view.rows, view.chosen
    else:
        rows = sample_rows(services.ledger, stored, project=project, texts=query.needs_texts)
        chosen = select_samples(rows, query)
    near = neighbours(chosen, graded_run.item.digest)
    place = f"{near.place:,} of {near.total:,}" if near.place else f"not among the {near.total:,}"
    walk = Walk(
        address("evaluations", stored.evaluation.id, **query.pairs()),
        stored.evaluation.name,
        context.of(near.previous.worst) if near.previous else "",
        context.of(near.following.worst) if near.following else "",
        f"{place} in this view" if query.filters else place,
    )
    own = [row for row in rows if any(run.digest == graded_run.item.digest for run in row.runs)]
    runs = sorted(own[0].runs, key=lambda run: run.run_id) if own else []
    return walk, [*notes, *repeats(runs, graded_run.item.digest, [context.of(run) for run in runs])]


def elsewhere(
    services: Services,
    project: str,
    graded_run: RunWithGrades,
    run: Run,
    context: SampleContext,
) -> list[Section]:
    """The same sample in other evaluations of its workflow, with the differences marked."""
    if not run.dataset.sample_id:
        return []
    stored = context.stored
    evidence = sample_evidence(graded_run.item.checked())
    others = []
    for version in other_versions(
        services.ledger,
        project=project,
        workflow=run.workflow.id,
        dataset=run.dataset.id,
        sample=run.dataset.sample_id,
        but=stored.digest if stored else "",
    ):
        if version.run.digest == graded_run.item.digest:
            continue
        older = version.seq < (stored.seq if stored else graded_run.item.seq)
        pair = [version.evaluation.id, stored.evaluation.id if stored else ""]
        remarks = [
            f"Worst of {version.repeats} repeats." if version.repeats > 1 else "",
            "Its inputs differ."
            if version.evidence and version.evidence.inputs != evidence.inputs
            else "",
        ]
        others.append(
            OtherAnswer(
                version.evaluation.name,
                version.evaluation.workflow.version or "not stated",
                address("runs", version.run.digest, in_=version.evaluation.id),
                address("evaluations", version.evaluation.id),
                address("compare", of=pair if older else pair[::-1]) if stored else "",
                older,
                _answer(version.evidence),
                version.run,
                version.evidence is None,
                version.evidence is not None and version.evidence.outputs == evidence.outputs,
                " ".join(filter(None, remarks)),
            )
        )
    return versions(_answer(evidence), others)


def _answer(evidence: SampleEvidence | None) -> str | None:
    """A run's answer; None if it has none or was forgotten."""
    return answer_text(evidence, most=LONGEST) if evidence and evidence.outputs else None


router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.post("/runs/{run_id:path}/replay", dependencies=[SENT], openapi_extra=READS)
async def replay_grade(
    request: Request, run_id: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """Recompute the stored grade from its stored evidence, and show whether it is the same, byte
    for byte. Nothing is stored.
    """
    graded_run = await asyncio.to_thread(run_with_grades, services, principal.project, run_id)
    if graded_run.grade is None:
        raise Problem(404, "this run has no grade to recompute.", where=run_id[:100])
    grade = graded_run.grade
    replayed = await services.in_turn(
        principal.project, lambda: _replayed(services, principal.project, grade)
    )
    _, context = opened(services, principal.project, request, run_id)
    return await asyncio.to_thread(
        _page, request, services, principal.project, graded_run, context, replayed
    )


def _replayed(services: Services, project: str, grade: Item) -> Part:
    try:
        replayed = replay(services.ledger, grade, services.shelf, project=project)
    except AssayError as error:
        text = f"Replay: this grade cannot be recomputed. {error.message} {error.fix or ''}".strip()
        return Note(text, "bad")
    if replayed.same:
        same = "Replay: recomputed from the stored evidence, the grade is the same, byte for byte. "
        return Note(phrase(same, short_digest(grade.digest)), "good")
    gap = replayed.difference
    failed = Note(verdict("fail", "Replay: recomputed, the grade is not the same."), "bad")
    if gap is None:
        return failed
    where = [
        ("First difference at", code(gap.path or "the whole")),
        ("Stored", code(json_text(gap.stored)[:2000])),
        ("Recomputed", code(json_text(gap.recomputed)[:2000])),
    ]
    return Group([failed, Facts(where, "pairs")])


@router.get("/runs/{run_id:path}", openapi_extra=READS)
def show_run(
    request: Request, run_id: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """A run, in the evaluation that `?in=` names or in the newest that has it."""
    graded_run, context = opened(services, principal.project, request, run_id)
    if graded_run is None:
        graded_run = _or_live(services, principal.project, run_id)
    return _page(request, services, principal.project, graded_run, context)


def _or_live(services: Services, project: str, run_id: str) -> RunWithGrades:
    try:
        return run_with_grades(services, project, run_id)
    except Problem as problem:
        if (
            problem.status != 404
            or events.find(services.ledger.database, project, key(run_id)) is None
        ):
            raise
    raise Problem(
        404,
        "this run is not stored yet: it is in progress.",
        where=run_id[:100],
        fix=f"Watch it at {address('runs', run_id, 'live')}",
    )


def _page(
    request: Request,
    services: Services,
    project: str,
    graded_run: RunWithGrades,
    context: SampleContext,
    replayed: Part = "",
) -> Response:
    run_tree = (
        graded_run.item.tree()
        if graded_run.item.body is not None and graded_run.item.kind == "run"
        else None
    )
    run = None if run_tree is None else read_run(Document(run_tree, graded_run.item.digest))
    result = (
        graded_run.grade.tree()
        if graded_run.grade is not None and graded_run.grade.body is not None
        else None
    )
    tree = run_tree or result or {}
    url = (
        address("charts", "grades", graded_run.grade.digest) if graded_run.grade is not None else ""
    )
    context = placed(services, project, graded_run, context)
    walk, neighbours = around(services, project, graded_run, context)
    digest = graded_run.item.digest
    sections = parts_of(
        *([] if run is None else [*grounding(run, digest), *tool_calls(run, digest)]),
        *timeline(run, result, url),
        None if result is None else grade_section(result, url, {} if run is None else run.metadata),
        *(
            family.of_run(services, project, digest, context)
            for family in served()
            if run is not None and family.of_run is not None
        ),
        *([] if run is None else elsewhere(services, project, graded_run, run, context)),
        section(
            "Provenance",
            _about(graded_run, run_tree, result),
            Details(
                "Grades, linked records, digests and replay",
                [lineage(services, project, graded_run, result)],
                opened=replayed != "",
            ),
            id="provenance",
        ),
    )
    sample = (result or {}).get("sample_id") or (tree.get("dataset") or {}).get("sample_id")
    title = title_of(run.metadata) if run is not None else ""
    return page(
        request,
        str((context.stored and (title or sample)) or tree.get("run_id") or digest),
        walk,
        *verdict_line(run, result),
        replayed,
        *_warnings(graded_run),
        *neighbours,
        None if run is None else texts(run, digest),
        contents(sections),
        *sections,
        nav="/evaluations" if context.stored else "/runs",
    )


def _warnings(graded_run: RunWithGrades) -> list[Part]:
    grade, newest = graded_run.grade, next(reversed(graded_run.grades), None)
    is_earlier = grade and newest and grade.digest != newest.digest
    return parts_of(
        Note("The content of this record was forgotten; only its digest is left.", kind="bad")
        if graded_run.item.body is None
        else None,
        Note(
            "No grade of this run is stored, so there is no verdict. That is not a pass.",
            kind="bad",
        )
        if grade is None
        else None,
        Note(
            phrase(
                "This is an earlier grade. The newest is ",
                letter(newest.grade, newest.policy),
                " ",
                link("show it", address("runs", newest.digest)),
            )
        )
        if newest and is_earlier
        else None,
    )


def _about(
    graded_run: RunWithGrades, run: dict[str, Any] | None, result: dict[str, Any] | None
) -> Part:
    tree = run or result or {}
    workflow, dataset = tree.get("workflow") or {}, tree.get("dataset") or {}
    moments = (
        [("Started", moment(tree.get("started_at"))), ("Finished", moment(tree.get("finished_at")))]
        if run is not None
        else []
    )
    pairs = [
        ("Run", clip(tree.get("run_id"), absent_as="forgotten")),
        (
            "Workflow",
            phrase(
                *[
                    clip(workflow.get("id"), absent_as="a bare scorecard"),
                    *([" ", small("version ", clip(workflow.get("version")))] if workflow else []),
                ]
            ),
        ),
        ("Family", clip(workflow.get("family"), absent_as="none")),
        (
            "Dataset",
            phrase(
                *[
                    clip(dataset.get("id")),
                    *([" ", small("version ", clip(dataset.get("version")))] if dataset else []),
                ]
            ),
        ),
        (
            "Sample",
            clip((result or {}).get("sample_id") or dataset.get("sample_id"), absent_as="none"),
        ),
        ("Status of the run", verdict(tree["status"]) if tree.get("status") else shown(None)),
        *moments,
        ("Stored", moment(graded_run.item.created_at)),
        ("Tags", _tags(tree)),
    ]
    return Facts(pairs)


def _tags(tree: dict[str, Any]) -> str:
    names = [str(name) for name in tree.get("tags") or ()][:SHOWN]
    return listed(
        (
            link(name, address("runs", tag=name)) if len(name) <= 500 else clip(name)
            for name in names
        ),
        " ",
    ) or absent("none")


COLUMNS = (
    Column("Run"),
    Column("Question", "text"),
    Column("Answer", "text"),
    Column("Grade"),
    Column("Score", "n"),
    Column("Verdict", "wide"),
    Column("Workflow and dataset"),
    Column("Started", "tight"),
)
MAX_TEXT = 240
"""How many characters of a question or an answer a row shows."""


_reason = msgspec.json.Decoder(GradeLine).decode


def brief_runs(services: Services, project: str, digests: Sequence[str]) -> list[dict[str, Any]]:
    """Runs as the list shows them, by their digests and in their order."""
    there = services.ledger.get_many(digests, project=project)
    runs = [there[digest] for digest in digests if digest in there]
    rows: list[dict[str, Any]] = briefly(
        runs, grades_of(services.ledger.database, project, list(there)), None
    )["items"]
    return rows


def part_of(item: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The workflow or the dataset of a run; empty if none is stated."""
    part = item.get(name)
    return part if isinstance(part, dict) else {}


def reasons(
    services: Services, project: str, items: Sequence[Mapping[str, Any]]
) -> dict[str, GradeLine]:
    """The grades of these runs in brief, by the digest of the grade."""
    wanted = [item["grade"]["digest"] for item in items if item["grade"]]
    return {
        digest: _reason(grade.body)
        for digest, grade in services.ledger.get_many(wanted, project=project).items()
        if grade.body is not None
    }


def rows_of_runs(
    services: Services, project: str, items: Sequence[Mapping[str, Any]]
) -> list[list[str]]:
    """A row for each run."""
    lines = reasons(services, project, items)
    runs = services.ledger.get_many([item["digest"] for item in items], project=project)
    rows: list[list[str]] = []
    for item in items:
        run = runs.get(item["digest"])
        grade = item["grade"]
        why = lines.get(grade["digest"]) if grade else None
        rows.append(
            [
                run_link(item),
                *_texts(None if run is None else run.body),
                letter(grade["grade"], grade["policy"]) if grade else shown(None, "not graded"),
                points(why.weighted_score) if why else shown(None, "no score"),
                _verdict(grade, why),
                phrase(line(workflow_of(item)), line(sample_of(item))),
                moment(item["started_at"] or None, "not stated"),
            ]
        )
    return rows


def _texts(body: bytes | None) -> tuple[str, str]:
    """The question and the answer of a run."""
    if body is None:
        return absent("forgotten"), absent("forgotten")
    evidence = sample_evidence(body)
    question = main_text(evidence.inputs, QUESTIONS)
    question_line = line(clip(question, MAX_TEXT)) if question else absent("no inputs")
    return question_line, line(clip(answer_text(evidence), MAX_TEXT))


def run_link(item: Mapping[str, Any]) -> str:
    """A run by its id, at the address of its digest: ids need not be unique."""
    name = "forgotten run" if item["forgotten"] else str(item["run_id"] or "without an id")
    return link(name, address("runs", item["digest"]))


def _verdict(grade: Mapping[str, Any] | None, why: GradeLine | None) -> str:
    if grade is None:
        return absent("no grade is stored")
    reason = clip(why.why) if why and why.why else "" if why else "its grade was forgotten"
    verdict = outcome(grade["passed"])
    return phrase(verdict, " ", small(reason)) if reason else verdict


def workflow_of(item: Mapping[str, Any]) -> str:
    """The workflow with its version."""
    workflow = part_of(item, "workflow")
    if not workflow:
        return shown(None, "not stated")
    return phrase(
        *[
            clip(workflow.get("id")),
            " ",
            small("version ", clip(workflow.get("version"), 60)),
        ]
    )


def sample_of(item: Mapping[str, Any]) -> str:
    """The dataset with the sample."""
    dataset = part_of(item, "dataset")
    if not dataset:
        return shown(None, "not stated")
    return phrase(
        *[
            clip(dataset.get("id")),
            " ",
            small(clip(dataset.get("sample_id"), absent_as="no sample")),
        ]
    )
