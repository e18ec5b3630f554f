"""`assay exam`: grade, gate, lint, break, recalibrate, export-sm2 and review."""

from __future__ import annotations

import os
from contextlib import nullcontext
from datetime import date, datetime
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from assay.canon import pretty
from assay.cli import options as opt
from assay.cli.frame import STORE, Argument, Bounds, Command, arg, flag, policy_option, repeated
from assay.cli.ledger import stored
from assay.cli.memory import uncollected
from assay.cli.parsing import Options
from assay.cli.progress import Progress
from assay.errors import ExitCode, InputError, NotEnoughEvidence, ShelfError, UsageError
from assay.families.exams import schedule, views
from assay.families.exams.answers import (
    Answers,
    answer_lines,
    ask_all,
    command_tutor,
    http_tutor,
    read_answers,
    read_headers,
)
from assay.families.exams.exam import (
    CAPSTONE,
    REGRESSION,
    Exam,
    left_out,
    make_exam,
    named_rubric,
    read_document,
    read_exam,
)
from assay.families.exams.gate import check_baseline, decide, hold_against, unchecked
from assay.families.exams.lint import lint_document, lint_exam
from assay.families.exams.marking import Marking, grade_exam, lost_marks, made_by
from assay.families.exams.policy import ExamRules
from assay.families.exams.recalibration import (
    break_step,
    recalibrated,
    recalibration_document,
    reweigh,
)
from assay.families.exams.results import (
    CheckedExam,
    check_result,
    exam_result,
    pass_line,
    read_result,
)
from assay.families.exams.schedule import due_items, hold_review, review_document
from assay.files.atomic import write_file
from assay.files.json_files import Document, read_json
from assay.files.yaml_files import is_yaml_name
from assay.registry import is_path
from assay.release.baseline import StoredBaseline, changed, store
from assay.scoring.checks import step_name, unknown_step
from assay.services.named_baselines import find_named
from assay.store.baselines import evidence_of_baseline

if TYPE_CHECKING:
    from collections.abc import Collection

    from assay.services.storing import Store


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
        from assay.families.exams.stored import exam_drafts

        store.put(exam_drafts(result, exam, answers.by_item.values()))
    forms = {
        ".xml": views.exam_xml,
        ".md": lambda exam: views.exam_markdown(exam).encode(),
        ".html": lambda made: views.exam_page(
            made, lost=lost_marks(made, exam, answers.by_item, marking)
        ).encode("utf-8", "replace"),
    }
    if options.charts:
        from assay.views.drawing import write_charts

        write_charts(views.exam_charts(result), options.charts)
    for text in (
        *notes,
        *graded.notes,
        *(f"{fault.file}: {fault.text()}" for fault in answers.faults),
    ):
        opt.note(text)
    lines = chain(
        views.exam_lines(result, raw=options.raw_bars),
        *map(views.cascade_lines, cascades),
    )
    passed = result.pass_line is UNSET or result.pass_line.holds
    code = ExitCode.MALFORMED if answers.faults else ExitCode.of(passed)
    return opt.give(options, result, lines, code, forms=forms)


def _cascades(
    exam: Exam, answers: Answers, marking: Marking, rules: ExamRules, steps: list[str]
) -> list[dict[str, Any]]:
    return [break_step(exam, answers.by_item, marking, step, rules) for step in steps]


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
    document = {
        **made_by(marking, rules),
        "steps": cascades,
        "faults": [fault.as_dict() for fault in answers.faults],
    }
    code = ExitCode.MALFORMED if answers.faults else ExitCode.PASSED
    lines = chain.from_iterable(map(views.cascade_lines, cascades))
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


def _baseline(options: Options, store: Store | None) -> Document:
    """The baseline: a file, or a graded exam that is stored under a name."""
    message, where, extra = "there is no such baseline.", options.baseline, ""
    if not is_path(options.baseline):
        try:
            return _named(options, store)
        except NotEnoughEvidence as error:
            if error.code != "REL-005":
                raise
            message, where = error.message, error.where
            extra = (
                f"To read the file of that name, write ./{options.baseline}. "
                if os.path.lexists(options.baseline)
                else ""
            )
    elif os.path.exists(options.baseline):
        return read_json(options.baseline)
    fix = (
        f"{extra}Grade the production tutor on the regression set, and keep that result as the"
        " baseline: `assay baseline set NAME RESULT.json`."
    )
    raise NotEnoughEvidence("EXM-014", message, where=where, fix=fix)


def _named(options: Options, store: Store | None) -> Document:
    baseline, kept = find_named(options.baselines, options.baseline, store)
    if baseline.kind != "exam":
        raise InputError(
            "EXM-010",
            f"the baseline {baseline.name} contains runs, not a graded exam.",
            where=baseline.path,
            fix="Use `assay gate`.",
        )
    if kept is None or store is None:
        document = read_json(baseline.path)
        if (
            sha256(document.source or b"").hexdigest() != baseline.record["evidence_digest"]
        ):  # of the bytes that count: a file can be swapped after it was found
            raise changed(baseline.path, "the evidence is not what was stored")
        return document

    items = list(evidence_of_baseline(store.ledger, kept, kinds=("exam",), project=store.project))
    store.ledger.close()
    if len(items) != 1:
        raise InputError(
            "EXM-010",
            f"the baseline {baseline.name} names {len(items)} graded exams; it must name one.",
            where=kept.digest,
        )
    return Document(items[0].tree(), items[0].digest)


def _gate(options: Options, store: Store | None) -> int:
    opt.outputs(options, options.result, options.regression, options.baseline)
    before = _baseline(options, store) if options.baseline else None
    if options.baseline and not options.regression:
        raise UsageError(
            "CLI-001",
            "--baseline needs the regression set to compare.",
            fix="Give it with --regression R.",
        )
    if options.set_baseline and not options.regression:
        raise UsageError(
            "CLI-001",
            "--set-baseline stores the regression result, and none is given.",
            fix="Give it with --regression R.",
        )
    rules = rules_of(options)
    if options.exam and not options.rubric:
        # a rubric that is a file has no name to find it by; the exam says where it is
        named = named_rubric(options.exam)
        is_file = named is not None and is_path(named)
        options = options.with_values(rubric=named if is_file else None)
    capstone, first = result_of(options, options.result)
    regression, source = (
        result_of(options, options.regression) if options.regression else (None, None)
    )
    baseline = None if before is None else outcome_of(options, before, rubric=options.rubric)
    if options.set_baseline and regression is not None:
        check_baseline(regression)
        if os.path.lexists(options.set_baseline):
            _check_replaced(options.set_baseline, baseline)
    exams = _hold_all(options, rules, capstone, regression) if options.exam else {}
    if CAPSTONE in exams:
        capstone = capstone.held_to(exams[CAPSTONE].pass_score or 0)
    if regression is not None and REGRESSION in exams:
        regression = regression.held_to(exams[REGRESSION].pass_score or 0)
    verdict = decide(capstone, rules, regression=regression, baseline=baseline)
    if CAPSTONE not in exams:
        verdict = unchecked(verdict)
    if store is not None:
        from assay.families.exams.stored import exam_gate_drafts

        store.put(
            exam_gate_drafts(
                verdict,
                {"capstone": first, "regression": source, "baseline": before},
                pass_score=0 if regression is None else regression.pass_score,
            )
        )
    first_baseline = (
        verdict.capstone.holds and regression is not None and verdict.regression is None
    )
    if options.set_baseline and (verdict.passed or first_baseline):
        if source is not None and source.source is not None:
            write_file(options.set_baseline, source.source)
            verdict = replace(verdict, baseline_written=options.set_baseline)
    elif options.set_baseline and not options.json:
        opt.note("the gate did not pass; the baseline was not written.")
    _report_notes(options, capstone, regression)
    word, hue = ("PASSED", "green") if verdict.passed else ("FAILED", "red")
    lines = [opt.paint(word, hue, "bold"), *views.gate_lines(verdict)]
    failed = ExitCode.NOT_ENOUGH if first_baseline else ExitCode.FAILED
    code = ExitCode.PASSED if verdict.passed else failed
    return opt.give(options, verdict, lines, code, forms={".xml": views.gate_xml})


def _check_replaced(path: str, baseline: CheckedExam | None) -> None:
    """Refuse to replace another baseline than the one that the result is compared with."""
    if baseline is not None and read_result(read_json(path)).items == baseline.result.items:
        return
    raise UsageError(
        "CLI-001",
        f"'{path}' exists and would be replaced without a comparison.",
        fix=f"Compare with it: --baseline {path}",
    )


def _hold_all(
    options: Options,
    rules: ExamRules,
    capstone: CheckedExam,
    regression: CheckedExam | None,
) -> dict[str, Exam]:
    """Check each result against the files of its set. Return the exams by their set."""
    documents = [read_document(path) for path in options.exam]
    of_regression = [
        document
        for document in documents
        if isinstance(document.tree, dict) and document.tree.get("set") == REGRESSION
    ]
    of_capstone = [document for document in documents if document not in of_regression]
    if of_regression and of_capstone and regression is None:
        raise UsageError(
            "CLI-001",
            f"{of_regression[0].file} belongs to the regression set, whose result is missing.",
            fix="Give it with --regression R.",
        )
    exams: dict[str, Exam] = {}
    for outcome, files in (
        (capstone, of_capstone or ([] if regression else documents)),
        (regression, of_regression),
    ):
        if outcome is not None and files:
            exam = exams[outcome.result.set] = make_exam(files)
            hold_against(
                outcome,
                exam,
                marking_of(options, options.rubric or exam.rubric or rules.policy.default_rubric),
            )
    return exams


def _report_notes(options: Options, *outcomes: CheckedExam | None) -> None:
    """Print what the results note about themselves, and what the gate could not see."""
    for outcome in filter(None, outcomes):
        for text in outcome.result.notes:
            opt.note(f"{outcome.where}: {text}")
    if options.regression and not options.baseline:
        opt.note("the regression set was not judged; give its baseline with --baseline")


def _lint(options: Options) -> int:
    opt.outputs(options)
    rubric = options.rubric or named_rubric(options.files)
    rubric = rubric or rules_of(options).policy.default_rubric
    findings = lint_exam(options.files, marking_of(options, rubric))
    document = lint_document(findings, options.files)
    errors = any(finding.level == "error" for finding in findings)
    code = ExitCode.MALFORMED if errors else ExitCode.FAILED if findings else ExitCode.PASSED
    rows = ((finding.file, f"{finding.level:<7}  {finding.text()}") for finding in findings)
    lines = opt.found_lines(rows, len(options.files), "finding")
    return opt.give(options, document, lines, code)


def _recalibrate(options: Options) -> int:
    opt.outputs(options, *options.history)
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
    document = recalibration_document(results, marking, rules)
    if written:
        document["written"] = written
        for path, (past, score) in zip(written, results, strict=True):
            write_file(path, pretty(recalibrated(past, score, marking)))
    return opt.give(options, document, views.recalibration_lines(document))


def _export(options: Options) -> int:
    paths = opt.outputs(options, options.result, options.state)
    day = day_of(options.date)
    rules = rules_of(options)
    outcome, _ = result_of(options, options.result)
    schedule.check_qualities(outcome.marking, rules)
    state = schedule.read_state(read_json(options.state)) if options.state else {}
    cards = schedule.schedule(outcome.bits, outcome.marking, rules.policy.sm2, on=day, state=state)
    document = schedule.sm2_document(cards, outcome.marking, rules)
    versions = {name: document[name] for name in ("scoringSystem", "gradingSystem")}
    table = schedule.table(cards, versions)
    lines = [] if paths else table.decode().splitlines()
    return opt.give(options, document, lines, forms={".csv": lambda _: table})


def _review(options: Options) -> int:
    opt.outputs(options, options.answers, options.schedule)
    day = day_of(options.date)
    exam, marking, rules = exam_of(options)
    document = read_json(options.schedule)
    state = schedule.read_state(document)
    if not state and not options.new:
        raise NotEnoughEvidence(
            "EXM-016",
            "the schedule has no cards, so nothing can be due.",
            where=options.schedule,
            fix="Add --new to review every item of the exam, or export a schedule with"
            " `assay exam export-sm2`.",
        )
    due = due_items(exam, state, on=day, where=options.schedule, with_new=options.new)
    answers = answers_of(options, exam, only=due.names) if due.names else Answers({})
    graded, cards = hold_review(due, answers.by_item, marking, rules, on=day, state=state)
    moved = pretty(schedule.sm2_document(cards, marking, rules))
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
    return opt.give(options, found, views.review_lines(found), code)


def set_exam(options: Options, now: datetime, ledger: Store | None) -> StoredBaseline:
    """Store a graded exam under its name. Every number of it is recomputed first."""
    path = options.files[0].path
    document = read_json(path)
    outcome = outcome_of(options, document, rubric=options.rubric)
    check_baseline(outcome)
    data = document.source
    if data is None:
        raise InputError("FIL-001", "cannot be read again.", where=path)
    tree = document.tree
    fields = {
        name: [str(tree[name])]
        for name in ("exam", "rubric", "set", "policy", "scoringSystem", "gradingSystem")
        if tree.get(name) is not None
    }
    facts = {
        "runs": tree["n"],
        "samples": tree["n"],
        "fingerprint": {"digest": tree.get("digests", {}).get("exam"), "fields": fields},
        "digests": tree.get("digests", {}),
        "summary": {"n": tree["n"], "score": tree["score"]},
        "scoringSystem": outcome.result.scoring_system,
        "gradingSystem": outcome.result.grading_system,
    }
    stored = store(
        options.dir,
        options.name,
        kind="exam",
        facts=facts,
        write=lambda stream: stream.write(data),
        now=now,
    )
    if ledger is not None:
        from assay.families.exams.stored import exam_baseline_drafts

        ledger.put(exam_baseline_drafts(stored.record, tree))
    return stored


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
    "exam gate": Command(
        stored(_gate),
        "Decide on graded exams: the hard gate on the capstone, the drop on the regression set"
        " against a stored baseline; soft gates warn. Exit 0 or 1; 4 if the regression set"
        " has no baseline.",
        "assay exam gate result.json --regression regression.json --baseline baseline.json",
        (
            arg(
                "result",
                metavar="RESULT",
                help="the capstone exam, as `assay exam grade -o` writes it",
            ),
            repeated(
                "--exam",
                "EXAM",
                "a file of the exam that a result must answer, of the capstone or of the regression"
                " set; may be repeated",
                kind="path",
            ),
            arg(
                "--regression",
                kind="name",
                metavar="R",
                help="the regression set, graded the same way",
            ),
            arg(
                "--baseline",
                kind="name",
                metavar="B",
                help=(
                    "the regression set as the production tutor answered it, graded the same way: a"
                    " file, or the name of a stored baseline, in the folder and with --store also"
                    " in the ledger; exit 4 when it is missing"
                ),
            ),
            "--baselines",
            arg(
                "--set-baseline",
                kind="path",
                metavar="FILE",
                help=(
                    "when the gate passes, or there is no baseline yet, store the regression result"
                    " there"
                ),
            ),
            *rule_options("the result's own"),
            *STORE,
        ),
        formats=(".json", ".xml"),
    ),
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
            *rule_options("the exam's, else the policy's"),
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
            policy_option(POLICY),
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
            *rule_options("the result's own"),
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
            *ANSWERS,
            *rule_options("the exam's, else the policy's"),
        ),
        formats=(".json",),
    ),
}
