"""`assay demo`: the main features on bundled examples, without network, key or server."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from datetime import UTC, datetime
from typing import Any

from assay.cli import demo_import, demo_judge, demo_release, demo_run
from assay.cli import options as opt
from assay.cli.frame import Command, arg
from assay.errors import ExitCode, InputError, count
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
from assay.records.summary import SummaryBlock
from assay.release.ranking import contender, rank
from assay.release.summary import Summary
from assay.tools.checks import ModuleLists, veto_of
from assay.tools.ecma import document_bytes, hash8
from assay.tools.names import slug
from assay.tools.policy import SchemaRules
from assay.tools.protocol import check_scores
from assay.tools.reading.files import read_schema
from assay.tools.report import report_document, shown_text_of
from assay.tools.server_checks import run_checks
from assay.tools.validation import assess
from assay.views.documents import JsonDocument, plain, pretty
from assay.views.grade_line import as_line
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
SUBTITLE = "Twelve bundled runs from four families of AI workflows, and three bare scorecards"


def run(options: argparse.Namespace) -> int:
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
    tools = _graded_tools()
    exam = _graded_exam()
    card = demo_judge.carded(
        os.path.join(EXAMPLES, "judge"), now=datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
    )
    decisions = demo_release.decided(os.path.join(EXAMPLES, "release"))
    imported = demo_import.imported(os.path.join(EXAMPLES, "results", "promptfoo.csv"))
    files = {
        "report.html": render(
            results,
            title="Assay demo",
            subtitle=SUBTITLE,
            runs=[graded.run for graded in everything],
        ).encode(),
        "grades.json": grades,
        **({"tool-reports.json": document_bytes({"reports": tools})} if tools else {}),
        "exam.json": document_bytes(exam),
        "judge.html": judge_page(read_card(card)).encode(),
        "decisions.json": pretty({"decisions": decisions}),
    }
    for name, data in files.items():
        write_file(os.path.join(options.out, name), data)
    repairs = demo_run.repaired(
        os.path.join(EXAMPLES, "repair"),
        os.path.join(options.out, "repair"),
        now="2026-11-15T10:00:00Z",
    )
    written = [*(os.path.join(options.out, name) for name in files), repairs["grades"]]
    if options.json:
        opt.print_json(
            {
                "schema": "assay.grades/1",
                "results": results,
                "faults": [],
                "counts": {"graded": len(results)},
                "summary": block,
                "tools": tools,
                "exam": exam,
                "decisions": decisions,
                "imported": imported,
                "repairs": repairs,
                "judge": card,
                "written": written,
            }
        )
        return ExitCode.PASSED
    _tell(groups, grader, block, tools, exam)
    demo_judge.tell(card, on=opt.colour())
    demo_release.tell(decisions, on=opt.colour())
    demo_import.tell(imported, on=opt.colour())
    demo_run.tell(repairs, on=opt.colour())
    _tell_where(written)
    return ExitCode.PASSED


def _graded_tools() -> list[dict[str, Any]]:
    """The bundled tool schemas and MCP snapshot, graded from recorded scores; nothing if the engine
    that reads modules is not installed.
    """
    rules = SchemaRules(Shelf().policy_of("flowmcp", "flowmcp"))
    scores = read_json(os.path.join(EXAMPLES, "tools", "scores.json")).tree
    moment = datetime(2026, 11, 1, 10, 0, tzinfo=UTC)
    found = []
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
            checks=[check.document() for check in checks],
        )
        found.append({**report, "schemaPath": f"examples/tools/{name}"})
    return found


def _graded_exam() -> dict[str, Any]:
    """The bundled exam with its bundled answers, and the verdict of the hard gate."""
    folder = os.path.join(EXAMPLES, "exams")
    shelf = Shelf()
    rules = ExamRules(shelf.policy_of("exam", "exam@1"))
    exam = read_exam([os.path.join(folder, name) for name in ("verbs.yaml", "verbs-extra.yaml")])
    marking = Marking(shelf.rubric_of("exam", exam.rubric or rules.policy.default_rubric))
    answers = read_answers(os.path.join(folder, "answers.jsonl"), [item.id for item in exam.items])
    result = exam_result(grade_exam(exam, answers.by_item, marking), rules)
    gate = decide(check_result(result, marking, where="exam.json"), rules)
    return {**plain(result), "gate": plain(gate)}


def _tell_exam(exam: dict[str, Any], *, on: bool) -> None:
    out = sys.stdout
    gate = exam["gate"]
    out.write(
        opt.paint(
            "\nAn exam: a tutor corrects English verbs and glosses them in Spanish\n", "bold", on=on
        )
    )
    head = (
        f"  {exam['score']}  {'passes' if gate['passed'] else 'FAILS'} the hard gate of"
        f" {gate['capstone']['limit']}, {exam['n']} items"
    )
    out.write(opt.paint(head, "green" if gate["passed"] else "red", on=on) + "\n")
    for line in exam["diagnosis"][:4]:
        out.write(f"       {line}\n")
    out.write(
        f"  rubric {exam['rubric']} · policy {exam['policy']} · {exam['scoringSystem']} ·"
        f" {exam['gradingSystem']} (of this family)\n"
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


def _tell_tools(tools: list[dict[str, Any]], *, on: bool) -> None:
    out = sys.stdout
    out.write(
        opt.paint(
            "\nTool schemas: can a model use these tools? (recorded scores of a model, checks of"
            " our own)\n",
            "bold",
            on=on,
        )
    )
    if not tools:
        out.write(
            f"  The engine that reads schema modules is not installed: {install_hint('flowmcp')}\n"
        )
    for report in tools:
        good = report["grade"] in ("A", "B")
        raw = f" (raw {report['rawGrade']})" if report["rawGrade"] != report["grade"] else ""
        head = (
            f"  {report['grade']}{raw}  {shown_text_of(report['score'])}  {report['schemaId']}:"
            f" {report['reason']}"
        )
        out.write(opt.paint(head, "green" if good else "red", on=on) + "\n")
        for check in report["checks"]:
            if check["outcome"] == "veto":
                out.write(f"       {check['reason']}.\n")
        listed = [
            *report["validationErrors"],
            *(
                f"{item['rule']} {item['path']}: {item['message']} {item['fix']}"
                for item in report["findings"]
                if item["level"] == "warning"
            ),
        ]
        for text in listed[:4]:
            out.write(f"       {text}\n")
        if len(listed) > 4:
            out.write(f"       ... and {count(len(listed) - 4, 'more finding')}\n")
    if tools:
        out.write(
            f"  policy {tools[0]['policy']} · {tools[0]['scoringSystem']} ·"
            f" {tools[0]['gradingSystem']} (of this family)\n"
        )


def _tell(
    groups: dict[str, list[Graded]],
    grader: Grader,
    block: SummaryBlock,
    tools: list[dict[str, Any]],
    exam: dict[str, Any],
) -> None:
    on = opt.colour()
    out = sys.stdout
    for name, group in groups.items():
        out.write(opt.paint(f"\n{STORIES[name]}\n", "bold", on=on))
        for graded in group:
            _tell_one(graded, on=on)
    places = rank(
        [contender(graded.grade) for group in groups.values() for graded in group],
        tie_window=grader.rules.tie_window,
    )
    best = ", ".join(place.contender.id for place in places[:2])
    rate, mean = block.pass_rate, block.weighted_score.mean
    out.write(opt.paint("\nOverview\n", "bold", on=on))
    passed = number(rate.value, interval=rate, percent=True)
    out.write(f"  pass rate {passed}; mean score {number(mean.value, interval=mean)}\n")
    letters = " · ".join(f"{letter} {count}" for letter, count in block.grades.items())
    out.write(f"  grades {letters}; ranked first: {best}\n")
    out.write(f"  policy {grader.rules.policy} · {block.scoring_system} · {block.grading_system}\n")
    _tell_tools(tools, on=on)
    _tell_exam(exam, on=on)


def _tell_where(written: list[str]) -> None:
    path = sys.argv[0]
    found = os.path.basename(path) != "assay" or path == shutil.which("assay")
    shown = "assay" if found else os.path.relpath(path)
    opt.print_lines(
        [
            f"\nThe report is {written[0]} (open it in a browser); the grades are in {written[1]}.",
            f"Grade your own: {shown} grade runs.jsonl",
            f"Decide on your own: {shown} gate candidate.jsonl --baseline baseline.jsonl",
            f"Bring another tool's results: {shown} grade results.json",
            (
                f"Keep and watch: {shown} grade runs.jsonl --store .assay/ledger.db, then {shown}"
                " serve --db sqlite:///.assay/ledger.db --allow-anonymous"
            ),
            (
                f"Grade your own tools: {shown} tools check --mcp 'python server.py', or {shown}"
                " tools grade schema.mjs --emit-prompts"
            ),
        ]
    )


def _tell_one(graded: Graded, *, on: bool) -> None:
    grade = graded.grade
    result = graded.payload()
    head = f"  {as_line(grade).head}"
    sys.stdout.write(opt.paint(head, "green" if grade.passed else "red", on=on) + "\n")
    for sentence in result["explanation"]:
        if not sentence.startswith(("Grade ", "All ")) and " contributes " not in sentence:
            sys.stdout.write(f"       {sentence}\n")
    for note in result["notes"]:
        sys.stdout.write(f"       Note: {note.rstrip('.')}.\n")


COMMANDS = {
    "demo": Command(
        run,
        "Grade bundled example runs of all four families, good and bad, explain each, and write a"
        " report.",
        "assay demo",
        (
            arg(
                "--out",
                metavar="DIR",
                default="demo",
                help="the folder for report.html and grades.json (default: demo)",
            ),
        ),
        configured=False,
    ),
}
