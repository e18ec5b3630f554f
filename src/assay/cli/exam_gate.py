"""`assay exam gate`: the hard gate, the regression check and the soft gates on graded exams."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec.structs import replace

from assay.cli import exam as common
from assay.cli import options as opt
from assay.cli.frame import STORE, Command, Options, arg, repeated
from assay.cli.ledger import stored
from assay.errors import ExitCode, InputError, NotEnoughEvidence, UsageError
from assay.exams.document import CheckedExam, read_result
from assay.exams.exam import CAPSTONE, REGRESSION, Exam, make_exam, named_rubric, read_document
from assay.exams.gate import decide, unchecked
from assay.exams.held_results import check_baseline, hold_against
from assay.files.atomic import write_file
from assay.files.json_files import Document, read_json
from assay.project.baselines import find_named
from assay.registry import is_path
from assay.release.baseline import changed
from assay.views import junit
from assay.views.exam_text import gate_lines

if TYPE_CHECKING:
    from assay.archive.store import Store
    from assay.exams.policy import ExamRules


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
    from assay.store.baselines import evidence_of_baseline

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
    rules = common.rules_of(options)
    if options.exam and not options.rubric:
        # a rubric that is a file has no name to find it by; the exam says where it is
        named = named_rubric(options.exam)
        is_file = named is not None and is_path(named)
        options = options.with_values(rubric=named if is_file else None)
    capstone, first = common.result_of(options, options.result)
    regression, source = (
        common.result_of(options, options.regression) if options.regression else (None, None)
    )
    baseline = None if before is None else common.outcome_of(options, before, rubric=options.rubric)
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
        from assay.archive.records import exam_gate_drafts

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
    lines = [opt.paint(word, hue, "bold"), *gate_lines(verdict)]
    failed = ExitCode.NOT_ENOUGH if first_baseline else ExitCode.FAILED
    code = ExitCode.PASSED if verdict.passed else failed
    return opt.give(options, verdict, lines, code, forms={".xml": junit.exam_gate})


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
                common.marking_of(
                    options, options.rubric or exam.rubric or rules.policy.default_rubric
                ),
            )
    return exams


def _report_notes(options: Options, *outcomes: CheckedExam | None) -> None:
    """Print what the results note about themselves, and what the gate could not see."""
    for outcome in filter(None, outcomes):
        for text in outcome.result.notes:
            opt.note(f"{outcome.where}: {text}")
    if options.regression and not options.baseline:
        opt.note("the regression set was not judged; give its baseline with --baseline")


COMMANDS = {
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
            *common.rule_options("the result's own"),
            *STORE,
        ),
        formats=(".json", ".xml"),
    ),
}
