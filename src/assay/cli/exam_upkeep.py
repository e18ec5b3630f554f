"""`assay exam lint`, `recalibrate`, `export-sm2` and `review`: the upkeep of exams, their rubrics
and their schedules.
"""

from __future__ import annotations

import os

from assay.cli import exam as common
from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg, flag, policy_option
from assay.errors import ExitCode, NotEnoughEvidence, UsageError
from assay.exams import sm2
from assay.exams.answers import Answers
from assay.exams.exam import named_rubric
from assay.exams.lint import lint_document, lint_exam
from assay.exams.recalibration import recalibrated, recalibration_document, reweigh
from assay.exams.reviewing import due_items, hold_review, review_document
from assay.files.atomic import write_file
from assay.files.json_files import read_json
from assay.views.documents import pretty
from assay.views.exam_text import recalibration_lines, review_lines


def _lint(options: Options) -> int:
    opt.outputs(options)
    rubric = options.rubric or named_rubric(options.files)
    rubric = rubric or common.rules_of(options).policy.default_rubric
    findings = lint_exam(options.files, common.marking_of(options, rubric))
    document = lint_document(findings, options.files)
    errors = any(finding.level == "error" for finding in findings)
    code = ExitCode.MALFORMED if errors else ExitCode.FAILED if findings else ExitCode.PASSED
    rows = ((finding.file, f"{finding.level:<7}  {finding.text()}") for finding in findings)
    lines = opt.found_lines(rows, len(options.files), "finding")
    return opt.give(options, document, lines, code)


def _recalibrate(options: Options) -> int:
    opt.outputs(options, *options.history)
    rules, marking = common.rules_of(options), common.marking_of(options, options.rubric)
    written = (
        [os.path.join(options.write, os.path.basename(path)) for path in options.history]
        if options.write
        else []
    )
    if len(set(written)) != len(written) or {os.path.realpath(path) for path in written} & {
        os.path.realpath(path) for path in options.history
    }:
        raise UsageError(
            "CLI-001",
            "--write would overwrite a result: one of the history, or one of the same name.",
            fix="Write into another folder.",
        )
    results = [
        reweigh(common.outcome_of(options, read_json(path)), marking) for path in options.history
    ]
    document = recalibration_document(results, marking, rules)
    if written:
        document["written"] = written
        for path, (past, score) in zip(written, results, strict=True):
            write_file(path, pretty(recalibrated(past, score, marking)))
    return opt.give(options, document, recalibration_lines(document))


def _export(options: Options) -> int:
    paths = opt.outputs(options, options.result, options.state)
    day = common.day_of(options.date)
    rules = common.rules_of(options)
    outcome, _ = common.result_of(options, options.result)
    sm2.check_qualities(outcome.marking, rules)
    state = sm2.read_state(read_json(options.state)) if options.state else {}
    cards = sm2.schedule(outcome.bits, outcome.marking, rules.policy.sm2, on=day, state=state)
    document = sm2.sm2_document(cards, outcome.marking, rules)
    versions = {name: document[name] for name in ("scoringSystem", "gradingSystem")}
    table = sm2.table(cards, versions)
    lines = [] if paths else table.decode().splitlines()
    return opt.give(options, document, lines, forms={".csv": lambda _: table})


def _review(options: Options) -> int:
    opt.outputs(options, options.answers, options.schedule)
    day = common.day_of(options.date)
    exam, marking, rules = common.exam_of(options)
    document = read_json(options.schedule)
    state = sm2.read_state(document)
    if not state and not options.new:
        raise NotEnoughEvidence(
            "EXM-016",
            "the schedule has no cards, so nothing can be due.",
            where=options.schedule,
            fix="Add --new to review every item of the exam, or export a schedule with"
            " `assay exam export-sm2`.",
        )
    due = due_items(exam, state, on=day, where=options.schedule, with_new=options.new)
    answers = common.answers_of(options, exam, only=due.names) if due.names else Answers({})
    graded, cards = hold_review(due, answers.by_item, marking, rules, on=day, state=state)
    moved = pretty(sm2.sm2_document(cards, marking, rules))
    found = review_document(graded, cards, due, state, marking, rules, on=day, schedule=moved)
    if due.names:
        if read_json(options.schedule).source != document.source:
            raise UsageError(
                "CLI-001",
                f"{options.schedule} was changed by another process during the review.",
                fix="Run the review again.",
            )
        write_file(options.schedule, moved)
    for text in (
        *(graded.notes if graded is not None else ()),
        *(fault.text() for fault in answers.faults),
    ):
        opt.note(text)
    code = ExitCode.MALFORMED if answers.faults else ExitCode.PASSED
    return opt.give(options, found, review_lines(found), code)


COMMANDS = {
    "exam lint": Command(
        _lint,
        "Find faults and traps in the files of one exam. Exit 0 when there are none, 1 with"
        " warnings only, 3 with errors.",
        "assay exam lint exam.yaml",
        (
            arg(
                "files",
                nargs="+",
                metavar="EXAM",
                help="exam files (.yaml or .json); several are one exam",
            ),
            *common.rule_options("the exam's, else the policy's"),
        ),
        formats=(".json",),
    ),
    "exam recalibrate": Command(
        _recalibrate,
        "Show what the weights of another rubric would have done to past exams. It exits 0"
        " whatever the result.",
        "assay exam recalibrate --history results/*.json --rubric tutor-2.yaml",
        (
            arg(
                "--history",
                kind="path",
                metavar="FILE",
                nargs="+",
                required=True,
                help="past results, as `assay exam grade -o` writes them",
            ),
            arg(
                "--write",
                kind="path",
                metavar="DIR",
                help=(
                    "write each past result under the new rubric into this folder, so that it can"
                    " be compared again"
                ),
            ),
            arg(
                "--rubric",
                heading="grading",
                offers="rubrics",
                kind="name",
                metavar="R",
                required=True,
                help="the new rubric, by name, name@version or YAML file",
            ),
            policy_option(common.POLICY),
            "--library",
        ),
        formats=(".json",),
    ),
    "exam export-sm2": Command(
        _export,
        "Write a review schedule for the items of a graded exam: item, quality and due date by"
        " SM-2, from the day you name.",
        "assay exam export-sm2 result.json --date 2026-05-18 -o schedule.csv",
        (
            arg(
                "result", metavar="RESULT", help="a graded exam, as `assay exam grade -o` writes it"
            ),
            arg(
                "--date",
                kind="text",
                trust="freely",
                metavar="DAY",
                required=True,
                help="the day of the review, as 2026-05-18",
            ),
            arg(
                "--state",
                kind="path",
                metavar="FILE",
                help="an earlier schedule (.json) to continue; items it lacks start as new",
            ),
            *common.rule_options("the result's own"),
        ),
        formats=(".csv", ".json"),
    ),
    "exam review": Command(
        _review,
        "Grade the items of an exam that are due in a review schedule, and move the schedule. A due"
        " item without an answer counts as failed. This is not a gate: it exits 0 once reviewed,"
        " however many failed, and if nothing is due; 4 if the schedule has no cards.",
        "assay exam review exam.yaml --schedule schedule.json --date 2026-05-19"
        " --answers answers.jsonl",
        (
            arg(
                "--schedule",
                kind="path",
                metavar="FILE",
                required=True,
                help="the schedule (.json) that `assay exam export-sm2 -o` wrote; it is updated",
            ),
            arg(
                "--date",
                kind="text",
                trust="freely",
                metavar="DAY",
                required=True,
                help="the day, as 2026-05-19",
            ),
            flag("--new", "also review items of the exam that the schedule doesn't have yet"),
            *common.ANSWERS,
            *common.rule_options("the exam's, else the policy's"),
        ),
        formats=(".json",),
    ),
}
