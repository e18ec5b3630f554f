"""`assay exam grade` and `break`, and what the actions of `assay exam` share."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import date
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from assay.cli import options as opt
from assay.cli.frame import (
    STORE,
    Argument,
    Bounds,
    Command,
    Options,
    arg,
    flag,
    policy_option,
    repeated,
)
from assay.cli.ledger import stored
from assay.cli.memory import uncollected
from assay.cli.progress import Progress
from assay.errors import ExitCode, InputError, ShelfError, UsageError
from assay.exams.ablation import break_step
from assay.exams.answers import Answers, read_answers
from assay.exams.asking import answer_lines, ask_all, command_tutor, http_tutor, read_headers
from assay.exams.document import CheckedExam, check_result, exam_result, pass_line, read_result
from assay.exams.exam import Exam, left_out, read_exam
from assay.exams.lost_marks import lost_marks
from assay.exams.marking import Marking, grade_exam
from assay.exams.normal import step_name, unknown_step
from assay.exams.policy import ExamRules
from assay.files.atomic import write_file
from assay.files.json_files import Document, read_json
from assay.files.yaml_files import is_yaml_name
from assay.records.exam import ExamResult, LostMark
from assay.records.systems import Systems
from assay.registry import is_path
from assay.views import exam_text, junit

if TYPE_CHECKING:
    from collections.abc import Collection

    from assay.archive.store import Store

TIMEOUT_S = 30.0
POLICY = "exam@1"


def rule_options(rubric: str) -> tuple[Argument | str, ...]:
    """The options that choose rubric, policy and library; `rubric` says which one is taken without
    `--rubric`.
    """
    text = f"rubric by name, name@version or YAML file (default: {rubric})"
    return (
        arg("--rubric", heading="grading", offers="rubrics", kind="name", metavar="R", help=text),
        policy_option(POLICY),
        "--library",
    )


def rules_of(options: Options) -> ExamRules:
    """The rules that the options ask for."""
    return ExamRules(opt.shelf_of(options).policy_of("exam", options.policy))


def marking_of(options: Options, name: str) -> Marking:
    """The rubric of a name, ready to mark."""
    return Marking(opt.shelf_of(options).rubric_of("exam", name))


def exam_of(options: Options) -> tuple[Exam, Marking, ExamRules]:
    """The exam with the rubric and the policy it is graded by."""
    exam, rules = read_exam(options.files), rules_of(options)
    return (
        exam,
        marking_of(options, options.rubric or exam.rubric or rules.policy.default_rubric),
        rules,
    )


def day_of(text: str) -> date:
    """The day that an option names."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(
            "CLI-001", f"--date {text!r} is not a date.", fix="Write 2026-05-18."
        ) from None


def answers_of(options: Options, exam: Exam, *, only: Collection[str] | None = None) -> Answers:
    """The answers, from a file or from a tutor that is asked; `only` these items are asked."""
    given, options = opt.given_of(options, "answers", "command", "url")
    if len(given) != 1:
        both = " and ".join(f"--{name}" for name in given)
        problem = f"{both} are both set" if given else "no answers are given"
        raise UsageError(
            "CLI-001",
            f"{problem}: use one of --answers, --command and --url.",
            fix="`assay config exam grade` shows what assay.yaml sets." if given else "",
        )
    if options.answers:
        return read_answers(
            options.answers, (item.id for item in exam.items), keep_going=options.keep_going
        )
    if options.command:
        tutor = command_tutor(options.command, timeout_s=options.timeout)
    else:
        tutor = http_tutor(
            options.url, timeout_s=options.timeout, headers=read_headers(options.header)
        )
    items = [item for item in exam.items if only is None or item.id in only]
    progress = Progress(len(items), "asking", unit="answers")
    answers = ask_all(items, tutor, progress=lambda item: progress.add(1))
    progress.end()
    if options.save_answers:
        write_file(options.save_answers, answer_lines(answers.values()))
    return Answers(answers)


def outcome_of(options: Options, document: Document, *, rubric: str | None = None) -> CheckedExam:
    """A graded exam with every number recomputed. A result can only name a rubric on the shelf: it
    never brings its own file.
    """
    result = read_result(document)
    if rubric is None and is_path(result.rubric):
        raise InputError(
            "EXM-012",
            f"names the rubric {result.rubric[:60]!r}, which is a file.",
            where=document.file,
            fix="Name that file with --rubric.",
        )
    try:
        marking = marking_of(options, rubric or result.rubric)
    except ShelfError as error:
        if rubric is not None or error.code != "LIB-001":
            raise
        raise InputError(
            "EXM-012",
            f"was graded with {result.rubric}, which is not in the library.",
            where=document.file,
            fix="Name the rubric's file with --rubric, or its folder with --library.",
        ) from None
    return check_result(result, marking, where=document.file)


def result_of(options: Options, path: str) -> tuple[CheckedExam, Document]:
    """A graded exam from its file, with every number recomputed."""
    if is_yaml_name(path):
        raise InputError(
            "FIL-006",
            "is YAML, not a graded exam.",
            where=path,
            fix="Name the file that `assay exam grade ... -o result.json` wrote.",
        )
    document = read_json(path)
    return outcome_of(options, document, rubric=options.rubric), document


# --- grade and break


def _grade(options: Options, store: Store | None) -> int:
    with uncollected() if options.answers else nullcontext():
        return _graded(options, store)


def _graded(options: Options, store: Store | None) -> int:
    opt.outputs(options, options.answers)
    exam, marking, rules = exam_of(options)
    steps = _steps(options.steps, marking)
    answers = answers_of(options, exam)
    graded = grade_exam(exam, answers.by_item, marking)
    notes = tuple(left_out(options.files))
    cascades = _cascades(exam, answers, marking, rules, steps)
    result = replace(
        exam_result(graded, rules, unknown=answers.unknown, faults=answers.faults, notes=notes),
        broken=cascades or UNSET,
        pass_line=pass_line(
            exam.pass_score if options.min_score is None else options.min_score, graded.score
        ),
    )
    if store is not None:
        from assay.archive.records import exam_drafts

        store.put(exam_drafts(result, exam, answers.by_item.values()))
    forms = {
        ".xml": junit.exam,
        ".md": lambda exam: exam_text.exam_markdown(exam).encode(),
        ".html": lambda made: _html(made, lost_marks(made, exam, answers.by_item, marking)),
    }
    if options.charts:
        from assay.views.drawing import write_charts
        from assay.views.exam_page import exam_charts

        write_charts(exam_charts(result), options.charts)
    for text in (
        *notes,
        *graded.notes,
        *(f"{fault.file}: {fault.text()}" for fault in answers.faults),
    ):
        opt.note(text)
    lines = chain(
        exam_text.exam_lines(result, raw=options.raw_bars),
        *map(exam_text.cascade_lines, cascades),
    )
    passed = result.pass_line is UNSET or result.pass_line.holds
    code = ExitCode.MALFORMED if answers.faults else ExitCode.of(passed)
    return opt.give(options, result, lines, code, forms=forms)


def _cascades(
    exam: Exam, answers: Answers, marking: Marking, rules: ExamRules, steps: list[str]
) -> list[dict[str, Any]]:
    return [break_step(exam, answers.by_item, marking, step, rules) for step in steps]


def _html(result: ExamResult, lost: list[LostMark]) -> bytes:
    from assay.views.exam_page import exam_page

    return exam_page(result, lost=lost).encode("utf-8", "replace")


def _steps(names: list[str], marking: Marking) -> list[str]:
    steps = []
    for name in names:
        step = step_name(name)
        if step is None:
            raise UsageError("CLI-001", unknown_step(name))
        if step not in marking.normal.names:
            raise UsageError(
                "CLI-001",
                f"{marking.id} does not take the step '{step}', so it cannot be left out.",
            )
        steps.append(step)
    return list(dict.fromkeys(steps))


def _break(options: Options) -> int:
    opt.outputs(options, options.answers)
    exam, marking, rules = exam_of(options)
    steps = _steps(options.steps, marking) or list(marking.normal.names)
    answers = answers_of(options, exam)
    cascades = _cascades(exam, answers, marking, rules, steps)
    versions = Systems(marking.scoring_system, rules.grading_system).document()
    document = {
        "rubric": marking.id,
        "policy": rules.id,
        **versions,
        "steps": cascades,
        "faults": [fault.as_dict() for fault in answers.faults],
    }
    code = ExitCode.MALFORMED if answers.faults else ExitCode.PASSED
    lines = chain.from_iterable(map(exam_text.cascade_lines, cascades))
    return opt.give(options, document, lines, code)


ANSWERS: tuple[Argument | str, ...] = (
    arg(
        "files",
        nargs="+",
        metavar="EXAM",
        help="exam files (.yaml or .json); several are one exam, their items one after another",
    ),
    arg(
        "--answers",
        kind="path",
        metavar="FILE",
        help=(
            '.jsonl of {"item", "response", "latency_ms"}, .csv with these columns, or - for'
            " standard input"
        ),
    ),
    arg(
        "--command",
        kind="text",
        trust="trusted",
        metavar="COMMAND",
        help=(
            "ask a command: each prompt on its standard input, the response on its standard output"
        ),
    ),
    arg(
        "--url",
        kind="address",
        metavar="URL",
        help='ask an endpoint: POST {"prompt": ...}, JSON back',
    ),
    repeated(
        "--header",
        "'NAME: VALUE'",
        "with --url: a header to send; $NAME in it is taken from the environment",
        kind="text",
        trust="trusted",
    ),
    arg(
        "--timeout",
        within=Bounds(above=0, most=86_400),
        metavar="S",
        type=float,
        default=TIMEOUT_S,
        help=f"seconds for one answer of a command or endpoint (default: {TIMEOUT_S:g})",
    ),
    arg(
        "--save-answers",
        kind="path",
        metavar="FILE",
        help="with --command or --url: save the answers in the form that --answers reads",
    ),
    flag("--keep-going", "list malformed answers and grade the rest; still exits 3"),
)
_RULES = rule_options("the exam's, else the policy's")

COMMANDS = {
    "exam grade": Command(
        stored(_grade),
        "Mark the answers to an exam on the axes of its rubric, with a diagnosis in words."
        " Exit 0 once graded; 1 below --min-score, or the pass_score of the exam.",
        "assay exam grade exam.yaml --answers answers.jsonl -o result.json",
        (
            *ANSWERS,
            *_RULES,
            repeated(
                "--break",
                "STEP",
                "also mark with this step of normalisation left out; may be repeated",
                kind="text",
                trust="freely",
                dest="steps",
            ),
            arg(
                "--min-score",
                within=Bounds(0, 1),
                metavar="X",
                type=float,
                help="the passing score, 0 to 1 (default: the exam's `pass_score`, if any)",
            ),
            flag("--raw-bars", "draw bars of the same length for each axis, instead of by weight"),
            "--charts",
            *STORE,
        ),
        formats=(".json", ".xml", ".md", ".html"),
    ),
    "exam break": Command(
        _break,
        "Mark the answers again with a step of normalisation left out, and show every mark that is"
        " lost. It exits 0 whatever the result.",
        "assay exam break exam.yaml --answers answers.jsonl --step case-fold",
        (
            *ANSWERS,
            *_RULES,
            repeated(
                "--step",
                "STEP",
                "nfc, strip, case-fold or trailing-period (default: each in turn)",
                kind="text",
                trust="freely",
                dest="steps",
            ),
        ),
        formats=(".json",),
    ),
}
