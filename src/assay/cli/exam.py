"""`assay exam`: grade a tutor's answers, gate them, and look at the exam and its rubric."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext
from datetime import date
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from assay.cli import options as opt
from assay.cli.ledger import add_store, storing
from assay.cli.memory import uncollected
from assay.cli.progress import Progress
from assay.errors import ExitCode, InputError, UsageError, printable
from assay.exams import sm2
from assay.exams.ablation import break_step, cascade_document
from assay.exams.answers import Answers, read_answers
from assay.exams.asking import CommandTutor, HttpTutor, Tutor, answer_lines, ask_all, read_headers
from assay.exams.document import CheckedExam, check_result, exam_result, read_result
from assay.exams.exam import Exam, left_out, read_exam
from assay.exams.lint import lint_document, lint_exam
from assay.exams.marking import Marking, grade_exam
from assay.exams.normal import step_name, unknown_step
from assay.exams.policy import ExamRules
from assay.exams.recalibration import recalibrated, recalibration_document, reweigh
from assay.exams.versions import Systems
from assay.files.atomic import atomic_write
from assay.files.json_files import Document, read_json
from assay.registry import is_path
from assay.views import exam_text, junit
from assay.views.documents import pretty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assay.archive.store import Store
    from assay.records.exam import ExamResult

TIMEOUT_S = 30.0
ACTIONS: dict[str, str] = {
    "grade": (
        "marks on four axes, the exam's score, a diagnosis; answers from a file, a command or an"
        " endpoint"
    ),
    "gate": "the hard gate, the regression check and the soft gates on graded exams; exit 0 or 1",
    "lint": (
        "faults and traps of exam files: wrong forms that would be accepted, empty lists, ids that"
        " stand twice"
    ),
    "break": (
        "mark again with a step of normalisation left out, and show the marks that fall with it"
    ),
    "recalibrate": "what the weights of another rubric would have done to past exams",
    "export-sm2": "items, qualities and due dates for a spaced-repetition scheduler",
}


def run(verb: str, argv: list[str]) -> int:
    """Run one action."""
    action = opt.choose(
        "exam",
        argv,
        ACTIONS,
        what="Grade the answers of a tutor model on an exam, and gate its release.",
        example="assay exam grade exam.yaml --answers answers.jsonl -o result.json",
    )
    if isinstance(action, ExitCode):
        return action
    from assay.cli.exam_gate import gate

    actions: dict[str, Callable[[list[str]], int]] = {
        "grade": _grade,
        "gate": gate,
        "lint": _lint,
        "break": _break,
        "recalibrate": _recalibrate,
        "export-sm2": _export,
    }
    return actions[action](argv[1:])


# --- what the actions share


def add_rules(made: argparse.ArgumentParser, rubric: str) -> None:
    """The options that choose rubric, policy and library."""
    made.add_argument(
        "--rubric",
        metavar="R",
        help=f"rubric by name, name@version or YAML file (default: {rubric})",
    )
    made.add_argument(
        "--policy",
        metavar="Q",
        default="exam",
        help="policy by name, name@version or YAML file (default: exam)",
    )
    opt.add_library(made)


def rules_of(options: argparse.Namespace) -> ExamRules:
    """The rules that the options ask for."""
    return ExamRules(opt.shelf_of(options).policy_of("exam", options.policy))


def marking_of(options: argparse.Namespace, name: str) -> Marking:
    """The rubric of a name, ready to mark."""
    return Marking(opt.shelf_of(options).rubric_of("exam", name))


def _add_answers(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "files",
        nargs="+",
        metavar="EXAM",
        help="exam files (.yaml or .json); several are one exam, their items one after another",
    )
    made.add_argument(
        "--answers",
        metavar="FILE",
        help='.jsonl of {"item", "response", "latency_ms"}, or - for standard input',
    )
    made.add_argument(
        "--command",
        metavar="COMMAND",
        help=(
            "ask a command: each prompt on its standard input, the response on its standard output"
        ),
    )
    made.add_argument(
        "--url", metavar="URL", help='ask an endpoint: POST {"prompt": ...}, JSON back'
    )
    made.add_argument(
        "--header",
        metavar="'NAME: VALUE'",
        action="append",
        default=[],
        help="with --url: a header to send; $NAME is taken from the environment",
    )
    made.add_argument(
        "--timeout",
        metavar="S",
        type=float,
        default=TIMEOUT_S,
        help=f"seconds for one answer of a command or endpoint (default: {TIMEOUT_S:g})",
    )
    made.add_argument(
        "--save-answers",
        metavar="FILE",
        help="with --command or --url: keep what was answered, as --answers reads it",
    )
    made.add_argument(
        "--keep-going",
        action="store_true",
        help="list answers that are at fault and grade the rest; still exits 3",
    )
    add_rules(made, "the exam's, else the policy's")


def _exam_of(options: argparse.Namespace) -> tuple[Exam, Marking, ExamRules]:
    exam, rules = read_exam(options.files), rules_of(options)
    return (
        exam,
        marking_of(options, options.rubric or exam.rubric or rules.policy.default_rubric),
        rules,
    )


def _answers_of(options: argparse.Namespace, exam: Exam) -> Answers:
    given = [name for name in ("answers", "command", "url") if getattr(options, name)]
    if len(given) != 1:
        raise UsageError(
            "CLI-001", "say where the answers come from: one of --answers, --command and --url."
        )
    if options.answers:
        return read_answers(
            options.answers, (item.id for item in exam.items), keep_going=options.keep_going
        )
    if not 0 < options.timeout < 86_400:
        raise UsageError(
            "CLI-001", f"--timeout {options.timeout:g} is no number of seconds up to a day."
        )
    tutor: Tutor
    if options.command:
        tutor = CommandTutor(options.command, timeout_s=options.timeout)
    else:
        tutor = HttpTutor(
            options.url, timeout_s=options.timeout, headers=read_headers(options.header)
        )
    progress = Progress(len(exam.items), "asking", unit="answers")
    found = ask_all(exam.items, tutor, progress=lambda item: progress.add(1))
    progress.end()
    if options.save_answers:
        with atomic_write(options.save_answers) as stream:
            stream.write(answer_lines(found.values()))
    return Answers(found)


def outcome_of(
    options: argparse.Namespace, document: Document, *, rubric: str | None = None
) -> CheckedExam:
    """A graded exam, every number of it made again. The rubric that a result names is a name: no
    result brings its own file to be measured by.
    """
    result = read_result(document)
    if rubric is None and is_path(result.rubric):
        raise InputError(
            "EXM-012",
            f"names the rubric {result.rubric[:60]!r}, which is a file.",
            where=document.file,
            fix="Name that file with --rubric.",
        )
    return check_result(result, marking_of(options, rubric or result.rubric), where=document.file)


def result_of(options: argparse.Namespace, path: str) -> tuple[CheckedExam, Document]:
    """A graded exam from its file, every number of it made again."""
    document = read_json(path)
    return outcome_of(options, document, rubric=options.rubric), document


def outputs_of(options: argparse.Namespace, *inputs: str | None) -> list[str]:
    """The output files, none of which is an input."""
    return opt.outputs(
        argparse.Namespace(**{**vars(options), "files": [path for path in inputs if path]})
    )


def write(
    paths: list[str], document: Any, *, forms: Mapping[str, Callable[[Any], bytes]] | None = None
) -> None:
    """The document as JSON; into an .xml file as JUnit, where the action has a form for that."""
    for path in paths:
        with atomic_write(path) as stream:
            stream.write((forms or {}).get(os.path.splitext(path)[1], pretty)(document))


def say(lines: Any) -> None:
    """Lines on standard output."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


# --- grade and break


def _grade(argv: list[str]) -> int:
    made = opt.parser(
        "exam grade",
        "Mark the answers to an exam on four axes, with a diagnosis in words. No gate: it exits 0"
        " once graded.",
        "assay exam grade exam.yaml --answers answers.jsonl -o result.json",
    )
    _add_answers(made)
    made.add_argument(
        "--break",
        dest="steps",
        metavar="STEP",
        action="append",
        default=[],
        help="also mark with this step of normalisation left out; may be repeated",
    )
    made.add_argument(
        "--raw-bars",
        action="store_true",
        help="bars with the same length for each axis, not its weight",
    )
    opt.add_output(made, (".json", ".xml", ".md", ".html"))
    made.add_argument(
        "--charts",
        metavar="DIR",
        help="also write every chart of the exam into a folder, as SVG and as PNG",
    )
    add_store(made)
    options = made.parse_args(argv)
    with storing(options) as store, uncollected() if options.answers else nullcontext():
        return _graded(options, store)


def _graded(options: argparse.Namespace, store: Store | None) -> int:
    paths = outputs_of(options, *options.files, options.answers)
    exam, marking, rules = _exam_of(options)
    steps = _steps(options.steps, marking)
    answers = _answers_of(options, exam)
    graded = grade_exam(exam, answers.by_item, marking)
    notes = tuple(left_out(options.files))
    cascades = _cascades(exam, answers, marking, rules, steps)
    result = replace(
        exam_result(graded, rules, unknown=answers.unknown, faults=answers.faults, notes=notes),
        broken=cascades or UNSET,
    )
    if store is not None:
        from assay.archive.records import exam_drafts

        store.put(exam_drafts(result, exam, answers.by_item.values()))
    forms = {
        ".xml": junit.exam,
        ".md": lambda exam: exam_text.exam_markdown(exam).encode(),
        ".html": _html,
    }
    write(paths, result, forms=forms)
    if options.charts:
        from assay.views.drawing import write_charts
        from assay.views.exam_page import exam_charts

        write_charts(exam_charts(result), options.charts)
    for text in (*notes, *(fault.text() for fault in answers.faults)):
        sys.stderr.write(f"assay: {printable(text)}\n")
    if options.json:
        opt.print_json(result)
    else:
        say(exam_text.exam_lines(result, raw=options.raw_bars))
        for cascade in cascades:
            say(exam_text.cascade_lines(cascade))
    return ExitCode.MALFORMED if answers.faults else ExitCode.PASSED


def _cascades(
    exam: Exam, answers: Answers, marking: Marking, rules: ExamRules, steps: list[str]
) -> list[dict[str, Any]]:
    return [
        cascade_document(break_step(exam, answers.by_item, marking, step), rules) for step in steps
    ]


def _html(result: ExamResult) -> bytes:
    from assay.views.exam_page import exam_page

    return exam_page(result).encode("utf-8", "replace")


def _steps(names: list[str], marking: Marking) -> list[str]:
    found = []
    for name in names:
        step = step_name(name)
        if step is None:
            raise UsageError("CLI-001", unknown_step(name))
        if step not in marking.normal.names:
            raise UsageError(
                "CLI-001",
                f"{marking.id} does not take the step '{step}', so it cannot be left out.",
            )
        found.append(step)
    return list(dict.fromkeys(found))


def _break(argv: list[str]) -> int:
    made = opt.parser(
        "exam break",
        "Mark the answers again with a step of normalisation left out, and show every mark that"
        " falls with it. No gate: it exits 0 once done.",
        "assay exam break exam.yaml --answers answers.jsonl --step case-fold",
    )
    _add_answers(made)
    made.add_argument(
        "--step",
        dest="steps",
        metavar="STEP",
        action="append",
        default=[],
        help="nfc, strip, case-fold or trailing-period (default: each in turn)",
    )
    opt.add_output(made, (".json",))
    options = made.parse_args(argv)
    paths = outputs_of(options, *options.files, options.answers)
    exam, marking, rules = _exam_of(options)
    steps = _steps(options.steps, marking) or list(marking.normal.names)
    answers = _answers_of(options, exam)
    cascades = _cascades(exam, answers, marking, rules, steps)
    versions = Systems(marking.scoring_system, rules.grading_system).document()
    document = {
        "rubric": marking.id,
        "policy": rules.id,
        **versions,
        "steps": cascades,
        "faults": [fault.as_dict() for fault in answers.faults],
    }
    write(paths, document)
    if options.json:
        opt.print_json(document)
    else:
        for cascade in cascades:
            say(exam_text.cascade_lines(cascade))
    return ExitCode.MALFORMED if answers.faults else ExitCode.PASSED


# --- lint, recalibrate, export


def _lint(argv: list[str]) -> int:
    made = opt.parser(
        "exam lint",
        "Find faults and traps in the files of one exam. Exit 0 when there are none, 1 with"
        " warnings only, 3 with errors.",
        "assay exam lint exam.yaml",
    )
    made.add_argument(
        "files", nargs="+", metavar="EXAM", help="exam files (.yaml or .json); several are one exam"
    )
    add_rules(made, "the policy's")
    opt.add_output(made, (".json",))
    options = made.parse_args(argv)
    paths = opt.outputs(options)
    findings = lint_exam(
        options.files,
        marking_of(options, options.rubric or rules_of(options).policy.default_rubric),
    )
    document = lint_document(findings, options.files)
    write(paths, document)
    if options.json:
        opt.print_json(document)
    else:
        for path in dict.fromkeys(one.file for one in findings):
            rows = [one for one in findings if one.file == path]
            say(
                [
                    f"{printable(path)}: {len(rows)} finding{'s' if len(rows) != 1 else ''}",
                    *(f"  {one.level:<7}  {printable(one.text())}" for one in rows),
                ]
            )
        if not findings:
            say(
                [
                    (
                        f"{len(options.files)} file{'s' if len(options.files) != 1 else ''} checked,"  # noqa: E501
                        " nothing found."
                    )
                ]
            )
    errors = any(one.level == "error" for one in findings)
    return ExitCode.MALFORMED if errors else ExitCode.FAILED if findings else ExitCode.PASSED


def _recalibrate(argv: list[str]) -> int:
    made = opt.parser(
        "exam recalibrate",
        "What the weights of another rubric would have done to past exams. No gate: it exits 0 once"
        " done.",
        "assay exam recalibrate --history results/*.json --rubric tutor-2.yaml",
    )
    made.add_argument(
        "--history",
        metavar="FILE",
        nargs="+",
        required=True,
        help="past results, as `assay exam grade -o` writes them",
    )
    made.add_argument(
        "--write",
        metavar="DIR",
        help=(
            "write each past result under the new rubric into this folder, so that it can be"
            " compared again"
        ),
    )
    add_rules(made, "none: name it")
    opt.add_output(made, (".json",))
    options = made.parse_args(argv)
    paths = outputs_of(options, *options.history)
    if not options.rubric:
        raise UsageError("CLI-001", "name the new rubric with --rubric.")
    rules, marking = rules_of(options), marking_of(options, options.rubric)
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
    results = [reweigh(outcome_of(options, read_json(path)), marking) for path in options.history]
    found = recalibration_document(results, marking, rules)
    if written:
        found["written"] = written
        for path, one in zip(written, results, strict=True):
            write([path], recalibrated(one))
    write(paths, found)
    if options.json:
        opt.print_json(found)
    else:
        say(exam_text.recalibration_lines(found))
    return ExitCode.PASSED


def _export(argv: list[str]) -> int:
    made = opt.parser(
        "exam export-sm2",
        "A review schedule for the items of a graded exam: item, quality and due date by SM-2, from"
        " the day you name.",
        "assay exam export-sm2 result.json --date 2026-05-18 -o schedule.csv",
    )
    made.add_argument(
        "result", metavar="RESULT", help="a graded exam, as `assay exam grade -o` writes it"
    )
    made.add_argument(
        "--date", metavar="DAY", required=True, help="the day of the review, as 2026-05-18"
    )
    made.add_argument(
        "--state",
        metavar="FILE",
        help="an earlier schedule (.json) to go on from; an item it does not have begins anew",
    )
    add_rules(made, "the result's own")
    opt.add_output(made, (".csv", ".json"))
    options = made.parse_args(argv)
    paths = outputs_of(options, options.result, options.state)
    try:
        day = date.fromisoformat(options.date)
    except ValueError:
        raise UsageError(
            "CLI-001", f"--date {options.date!r} is no day.", fix="Write 2026-05-18."
        ) from None
    rules = rules_of(options)
    outcome, _ = result_of(options, options.result)
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
