"""`assay demo`: the main features on bundled examples, without network, key or server."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from assay.cli import demo_noise, demo_run
from assay.cli import demo_parts as parts
from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg
from assay.errors import InputError, count
from assay.exams.answers import read_answers
from assay.exams.document import check_result, exam_result
from assay.exams.exam import read_exam
from assay.exams.gate import decide
from assay.exams.marking import Marking, grade_exam
from assay.exams.policy import ExamRules
from assay.files.atomic import write_file
from assay.files.json_files import read_documents, read_json
from assay.installing import install_hint
from assay.judging.card import read_card
from assay.library.shelf import Shelf
from assay.pipeline.grading import Graded, Grader
from assay.records.exam import ExamGate, ExamResult
from assay.records.summary import SummaryBlock
from assay.release.ranking import contender, rank
from assay.release.summary import Summary
from assay.tools.checks import ModuleLists, run_checks, veto_of
from assay.tools.ecma import document_bytes, hash8
from assay.tools.legibility import assess
from assay.tools.names import slug
from assay.tools.policy import SchemaRules
from assay.tools.protocol import check_scores
from assay.tools.reading import read_schema
from assay.tools.report import report_document, shown_text_of
from assay.views.documents import JsonDocument, plain, pretty
from assay.views.grade_line import as_line, surprises
from assay.views.html import render
from assay.views.judge_card import judge_page
from assay.views.pieces import number

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "examples")
STORIES = {
    "code-repair": "Code repair: a bot fixes bugs in a repository",
    "dag-review": "DAG review: agents review data pipelines",
    "rag": "RAG: a support assistant answers from its documents",
    "tool-use": "Tool use: an agent books and rebooks travel",
    "scorecards": "Bare scorecards: scores a team took with its own scripts",
}
NOW = "2026-11-15T10:00:00Z"
"""The clock of what runs in the demo."""
SUBTITLE = "Twelve bundled runs from four families of AI workflows, and three bare scorecards"


def run(options: Options) -> int:
    """Grade the bundled examples, explain each, and write a report."""
    grader = Grader(Shelf())
    groups = {
        name: [
            grader.grade(document)
            for document in read_documents(os.path.join(EXAMPLES, f"{name}.jsonl"))
        ]
        for name in STORIES
    }
    everything = [graded for group in groups.values() for graded in group]
    results = [plain(graded.payload()) for graded in everything]
    summary = Summary()
    for graded in everything:
        summary.add(graded.grade)
    block = summary.block()
    grades = _grades(results, block)
    # a folder that can't be written is refused before the work that takes seconds
    write_file(os.path.join(options.out, "grades.json"), grades)
    tools = graded_tools()
    exam, gate = _graded_exam()
    card = parts.carded(
        os.path.join(EXAMPLES, "judge"), now=datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
    )
    decisions = parts.decided(os.path.join(EXAMPLES, "release"))
    noisy = demo_noise.decided(os.path.join(EXAMPLES, "projects", "noisy"), now=NOW)
    imported = parts.imported(os.path.join(EXAMPLES, "results", "promptfoo.csv"))
    judge = read_card(card)
    files = {
        "report.html": render(
            results,
            title="Assay demo",
            subtitle=SUBTITLE,
            runs=[graded.run for graded in everything],
        ).encode(),
        "grades.json": grades,
        **({"tool-reports.json": document_bytes({"reports": tools})} if tools else {}),
        "exam.json": document_bytes({**plain(exam), "gate": plain(gate)}),
        "judge.html": judge_page(judge).encode(),
        "decisions.json": pretty({"decisions": [*(one.decision for one in noisy), *decisions]}),
    }
    for name, data in files.items():
        write_file(os.path.join(options.out, name), data)
    repairs = demo_run.repaired(
        os.path.join(EXAMPLES, "repair"),
        os.path.join(options.out, "repair"),
        now=NOW,
    )
    written = [*(os.path.join(options.out, name) for name in files), repairs["grades"]]
    document = {
        "schema": "assay.grades/1",
        "results": results,
        "faults": [],
        "counts": {"graded": len(results)},
        "summary": block,
        "tools": tools,
        "exam": {**plain(exam), "gate": plain(gate)},
        "decisions": decisions,
        "noise": demo_noise.document_of(noisy),
        "imported": imported,
        "repairs": repairs,
        "judge": card,
        "written": written,
    }
    lines = chain(
        _grade_lines(groups, grader, block),
        _tool_lines(tools),
        _exam_lines(exam, gate),
        parts.judge_lines(judge),
        demo_noise.lines(noisy),
        parts.decision_lines(decisions),
        parts.import_lines(imported),
        demo_run.repair_lines(repairs),
        _next_lines(written),
    )
    return opt.give(options, document, lines)


def graded_tools() -> list[dict[str, Any]]:
    """The bundled tool schemas and MCP snapshot, graded from recorded scores; nothing if the engine
    that reads modules is not installed.
    """
    rules = SchemaRules(Shelf().policy_of("flowmcp", "flowmcp"))
    scores = read_json(os.path.join(EXAMPLES, "tools", "scores.json")).tree
    moment = datetime(2026, 11, 1, 10, 0, tzinfo=UTC)
    graded = []
    for name in ("harbours.mjs", "alarms.mjs", "ferries.json"):
        try:
            schema = read_schema(os.path.join(EXAMPLES, "tools", name))
        except InputError as error:
            if error.code != "FMC-006":
                raise
            return []
        findings, checks = assess(schema), run_checks(schema, lists=ModuleLists({}))
        given = check_scores(scores[slug(schema.schema_id)], expected_slug=slug(schema.schema_id))
        report = report_document(
            schema,
            given,
            findings,
            rules,
            now=moment,
            started_at=None,
            hash8=hash8(schema.main),
            veto=veto_of(checks, now=moment),
            checks=[check._asdict() for check in checks],
        )
        graded.append({**report, "schemaPath": f"examples/tools/{name}"})
    return graded


def _graded_exam() -> tuple[ExamResult, ExamGate]:
    """The bundled exam with its bundled answers, and the verdict of the hard gate."""
    folder = os.path.join(EXAMPLES, "exams")
    shelf = Shelf()
    rules = ExamRules(shelf.policy_of("exam", "exam@1"))
    exam = read_exam([os.path.join(folder, name) for name in ("verbs.yaml", "verbs-extra.yaml")])
    marking = Marking(shelf.rubric_of("exam", exam.rubric or rules.policy.default_rubric))
    answers = read_answers(os.path.join(folder, "answers.jsonl"), [item.id for item in exam.items])
    result = exam_result(grade_exam(exam, answers.by_item, marking), rules)
    return result, decide(check_result(result, marking, where="exam.json"), rules)


def _exam_lines(exam: ExamResult, gate: ExamGate) -> Iterator[str]:
    yield opt.paint("\nAn exam: a tutor corrects English verbs and glosses them in Spanish", "bold")
    head = (
        f"  {exam.score}  {'passes' if gate.passed else 'FAILS'} the hard gate of"
        f" {gate.capstone.limit}, {exam.n} items"
    )
    yield opt.paint(head, "green" if gate.passed else "red")
    yield from (f"       {line}" for line in exam.diagnosis[:4])
    yield (
        f"  rubric {exam.rubric} · policy {exam.policy} · {exam.scoring_system} ·"
        f" {exam.grading_system} (of this family)"
    )


def _grades(results: list[dict[str, Any]], block: SummaryBlock) -> bytes:
    form = JsonDocument()
    counts = {
        "graded": len(results),
        "passed": sum(result["passed"] for result in results),
        "grades": block.grades,
    }
    pieces = form.joint().join(form.piece(result) for result in results)
    return form.head() + pieces + form.foot([], counts)


def _tool_lines(tools: list[dict[str, Any]]) -> Iterator[str]:
    yield opt.paint(
        "\nTool schemas: can a model use these tools? (a model's recorded scores, and"
        " Assay's own checks)",
        "bold",
    )
    if not tools:
        yield f"  The engine that reads schema modules is not installed: {install_hint('flowmcp')}"
    for report in tools:
        good = report["grade"] in ("A", "B")
        raw = f" (raw {report['rawGrade']})" if report["rawGrade"] != report["grade"] else ""
        head = (
            f"  {report['grade']}{raw}  {shown_text_of(report['score'])}  {report['schemaId']}:"
            f" {report['reason']}"
        )
        yield opt.paint(head, "green" if good else "red")
        for check in report["checks"]:
            if check["outcome"] == "veto":
                yield f"       {check['reason']}."
        listed = [
            *report["validationErrors"],
            *(
                f"{item['rule']} {item['path']}: {item['message']} {item['fix']}"
                for item in report["findings"]
                if item["level"] == "warning"
            ),
        ]
        yield from (f"       {text}" for text in listed[:4])
        if len(listed) > 4:
            yield f"       ... and {count(len(listed) - 4, 'more finding')}"
    if tools:
        yield (
            f"  policy {tools[0]['policy']} · {tools[0]['scoringSystem']} ·"
            f" {tools[0]['gradingSystem']} (of this family)"
        )


def _grade_lines(
    groups: dict[str, list[Graded]], grader: Grader, block: SummaryBlock
) -> Iterator[str]:
    for name, group in groups.items():
        yield opt.paint(f"\n{STORIES[name]}", "bold")
        for graded in group:
            yield from _run_lines(graded)
    places = rank(
        [contender(graded.grade) for group in groups.values() for graded in group],
        tie_window=grader.rules.tie_window,
    )
    best = ", ".join(place.contender.id for place in places[:2])
    rate, mean = block.pass_rate, block.weighted_score.mean
    yield opt.paint("\nOverview", "bold")
    passed = number(rate.value, interval=rate, percent=True)
    yield f"  pass rate {passed}; mean score {number(mean.value, interval=mean)}"
    letters = " · ".join(f"{letter} {count}" for letter, count in block.grades.items())
    yield f"  grades {letters}; ranked first: {best}"
    yield f"  policy {grader.rules.policy} · {block.scoring_system} · {block.grading_system}"


def _next_lines(written: list[str]) -> list[str]:
    path = sys.argv[0]
    on_path = os.path.basename(path) != "assay" or path == shutil.which("assay")
    shown = "assay" if on_path else os.path.relpath(path)
    return [
        f"\nThe report is {written[0]} (open it in a browser); the grades are in {written[1]}.",
        f"Set up your own project: {shown} init",
        f"Grade another tool's results: {shown} grade results.json",
        f"Decide between two versions: {shown} gate candidate.jsonl --baseline baseline.jsonl",
        f"Check the tools of an MCP server: {shown} tools check --mcp 'python server.py'",
    ]


def _run_lines(graded: Graded) -> Iterator[str]:
    grade, result = graded.grade, graded.payload()
    yield opt.paint(f"  {as_line(grade).head}", "green" if grade.passed else "red")
    yield from (f"       {sentence}" for sentence in surprises(result))
    yield from (f"       Note: {note.rstrip('.')}." for note in result["notes"])


COMMANDS = {
    "demo": Command(
        run,
        "Grade bundled example runs of all four families, good and bad, explain each, and write a"
        " report.",
        "assay demo",
        (
            arg(
                "--out",
                kind="path",
                metavar="DIR",
                default="demo",
                help="the folder for report.html and grades.json (default: demo)",
            ),
        ),
        configured=False,
    ),
}
