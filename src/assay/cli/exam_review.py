"""`assay exam review`: grade the due items of a schedule and move it on."""

from __future__ import annotations

import argparse
import sys

from assay.cli import exam as common
from assay.cli import options as opt
from assay.cli.frame import Command, arg, flag
from assay.errors import ExitCode, NotEnoughEvidence, UsageError, printable
from assay.exams import sm2
from assay.exams.answers import Answers
from assay.exams.reviewing import due_items, hold_review, review_document
from assay.files.atomic import atomic_write
from assay.files.json_files import read_json
from assay.views.documents import pretty
from assay.views.exam_text import review_lines


def _review(options: argparse.Namespace) -> int:
    paths = common.outputs_of(options, *options.files, options.answers, options.schedule)
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
    held = hold_review(due, answers.by_item, marking, rules, on=day, state=state)
    moved = pretty(sm2.sm2_document(held.cards, marking, rules))
    found = review_document(held, marking, rules, on=day, schedule=moved)
    common.write(paths, found)
    if due.names:
        if read_json(options.schedule).source != document.source:
            raise UsageError(
                "CLI-001",
                f"{options.schedule} was changed by another process during the review.",
                fix="Run the review again.",
            )
        with atomic_write(options.schedule) as stream:
            stream.write(moved)
    for text in (
        *(held.graded.notes if held.graded is not None else ()),
        *(fault.text() for fault in answers.faults),
    ):
        sys.stderr.write(f"assay: {printable(text)}\n")
    if options.json:
        opt.print_json(found)
    else:
        common.say(review_lines(found))
    return ExitCode.MALFORMED if answers.faults else ExitCode.PASSED


COMMANDS = {
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
                metavar="FILE",
                required=True,
                help="the schedule (.json) that `assay exam export-sm2 -o` wrote; it is updated",
            ),
            arg("--date", metavar="DAY", required=True, help="the day, as 2026-05-19"),
            flag("--new", "also review items of the exam that the schedule doesn't have yet"),
            *common.ANSWERS,
            *common.rule_options("the exam's, else the policy's", common.DECIDED_UNDER),
        ),
        formats=(".json",),
    ),
}
