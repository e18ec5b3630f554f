"""`assay exam lint`, `recalibrate` and `export-sm2`: the upkeep of exams and their rubrics."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

from assay.cli import exam as common
from assay.cli import options as opt
from assay.cli.exam import say, write
from assay.cli.frame import Command, arg
from assay.errors import ExitCode, UsageError, count, printable
from assay.exams import sm2
from assay.exams.exam import named_rubric
from assay.exams.lint import LintFinding, lint_document, lint_exam
from assay.exams.recalibration import recalibrated, recalibration_document, reweigh
from assay.files.atomic import atomic_write
from assay.files.json_files import read_json
from assay.views.documents import pretty
from assay.views.exam_text import recalibration_lines


def _lint(options: argparse.Namespace) -> int:
    paths = opt.outputs(options)
    rubric = options.rubric or named_rubric(options.files)
    rubric = rubric or common.rules_of(options).policy.default_rubric
    findings = lint_exam(options.files, common.marking_of(options, rubric))
    document = lint_document(findings, options.files)
    write(paths, document)
    if options.json:
        opt.print_json(document)
    else:
        say(_lint_lines(findings, len(options.files)))
    errors = any(one.level == "error" for one in findings)
    return ExitCode.MALFORMED if errors else ExitCode.FAILED if findings else ExitCode.PASSED


def _lint_lines(findings: list[LintFinding], files: int) -> Iterator[str]:
    for path in dict.fromkeys(one.file for one in findings):
        rows = [one for one in findings if one.file == path]
        yield f"{printable(path)}: {count(len(rows), 'finding')}"
        yield from (f"  {one.level:<7}  {printable(one.text())}" for one in rows)
    if not findings:
        yield f"{count(files, 'file')} checked, nothing found."


def _recalibrate(options: argparse.Namespace) -> int:
    paths = common.outputs_of(options, *options.history)
    if not options.rubric:
        raise UsageError("CLI-001", "name the new rubric with --rubric.")
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
    found = recalibration_document(results, marking, rules)
    if written:
        found["written"] = written
        for path, one in zip(written, results, strict=True):
            write([path], recalibrated(one))
    write(paths, found)
    if options.json:
        opt.print_json(found)
    else:
        say(recalibration_lines(found))
    return ExitCode.PASSED


def _export(options: argparse.Namespace) -> int:
    paths = common.outputs_of(options, options.result, options.state)
    day = common.day_of(options.date)
    rules = common.rules_of(options)
    outcome, _ = common.result_of(options, options.result)
    sm2.check_qualities(outcome.marking, rules)
    state = sm2.read_state(read_json(options.state)) if options.state else {}
    cards = sm2.schedule(outcome.bits, outcome.marking, rules.policy.sm2, on=day, state=state)
    document = sm2.sm2_document(cards, outcome.marking, rules)
    versions = {name: document[name] for name in ("scoringSystem", "gradingSystem")}
    for path in paths:
        with atomic_write(path) as stream:
            stream.write(sm2.table(cards, versions) if path.endswith(".csv") else pretty(document))
    if options.json:
        opt.print_json(document)
    elif not paths:
        sys.stdout.write(sm2.table(cards, versions).decode().replace("\r\n", "\n"))
    return ExitCode.PASSED


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
                metavar="FILE",
                nargs="+",
                required=True,
                help="past results, as `assay exam grade -o` writes them",
            ),
            arg(
                "--write",
                metavar="DIR",
                help=(
                    "write each past result under the new rubric into this folder, so that it can"
                    " be compared again"
                ),
            ),
            *common.rule_options("none: name it"),
        ),
        formats=(".json",),
    ),
    "exam export-sm2": Command(
        _export,
        "A review schedule for the items of a graded exam: item, quality and due date by SM-2, from"
        " the day you name.",
        "assay exam export-sm2 result.json --date 2026-05-18 -o schedule.csv",
        (
            arg(
                "result", metavar="RESULT", help="a graded exam, as `assay exam grade -o` writes it"
            ),
            arg(
                "--date", metavar="DAY", required=True, help="the day of the review, as 2026-05-18"
            ),
            arg(
                "--state",
                metavar="FILE",
                help="an earlier schedule (.json) to continue; items it lacks start as new",
            ),
            *common.rule_options("the result's own", common.DECIDED_UNDER),
        ),
        formats=(".csv", ".json"),
    ),
}
