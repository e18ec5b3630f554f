"""`assay explain`: why a grade is what it is, of runs in a file, or of what the ledger has under a
name with the grades that were stored.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from assay.canon import plain
from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.configured import COMMAND_LINE, DEFAULT
from assay.cli.frame import CHOICES, Command, Options, arg
from assay.cli.grade import choice_of
from assay.cli.hints import command
from assay.cli.ledger import ledger_options
from assay.errors import ExitCode, NotEnoughEvidence, UsageError
from assay.files.json_files import read_documents
from assay.project.inputs import StoredRuns
from assay.records.evidence import RUN_SCHEMA, Run
from assay.records.reading import KINDS, read_run
from assay.records.samples import names_of
from assay.registry import near_miss
from assay.services.evaluation_choice import CHOSEN
from assay.services.given_grades import grades_of
from assay.services.grading import Grader
from assay.views.evaluation import (
    RunReasons,
    WorstSample,
    evaluation_view,
    keep_worst,
    sample_facts,
    with_texts,
)
from assay.views.grade_line import explanation

STORED = "the evaluation"
KNOWN = 10_000
"""Runs that are remembered, to find the one that was meant."""
_PART = re.compile(r"/|::")


def run(options: Options) -> int:
    """Explain every run of a file, or one of them; an evaluation as a whole."""
    if not _as_stored(options):
        return _explain(options, choice_of(options).grader())
    if options.file.evaluation and options.run is None and not options.json:
        return _whole(options, options.file)
    return _explain(options, None)


def _explain(options: Options, grader: Grader | None) -> int:
    """Explain runs by their stored grades, or by those that this grader gives them."""
    stored = options.file if grader is None else None
    others = OtherRuns()
    graded = _stored(options, options.file) if grader is None else _graded(options, grader, others)
    named_by = _named_by(options) if stored is None else _named_by_settings(stored)
    results: list[Any] = []
    passed = True
    for result, evidence in graded:
        passed = passed and result["passed"] is True
        if not options.json:
            _show(plain(result), first=not results, named_by=named_by, run=evidence)
        results.append(result if options.json else None)
    if not results:
        meant = _meant(options, others) if stored is None else _meant_stored(options, stored)
        return _explain(options.with_values(run=meant), grader)
    document = {
        "schema": "assay.grades/1",
        "results": results,
        "faults": [],
        "counts": {"graded": len(results)},
    }
    return opt.give(options, document, [], ExitCode.of(passed))


def _graded(
    options: Options, grader: Grader, others: OtherRuns
) -> Iterator[tuple[Any, Run | None]]:
    """The requested grades, each with its run if the file has it; `others` takes the rest."""
    for document in read_documents(options.file):
        tree = document.tree
        known = options.run is not None and isinstance(tree, dict) and tree.get("schema") in KINDS
        if known and options.run not in names_of(tree):
            others.add(tree)
            continue
        for graded in grades_of(document, grader):
            payload = graded.payload()
            if options.run is not None and options.run not in names_of(payload):
                others.add(payload)
            else:
                yield payload, graded.run if known else None


def _meant(options: Options, others: OtherRuns) -> str:
    """The only run whose id ends with the requested name; an error if there is none."""
    if not others:
        raise NotEnoughEvidence("FIL-005", "there is nothing to explain.", where=options.file.name)
    meant = others.meant(options.run)
    if meant is None or options.file.path == "-":
        raise others.unknown(options.run, options.file.name)
    return meant


def _show(
    result: Mapping[str, Any],
    *,
    first: bool,
    named_by: Mapping[str, str] | None = None,
    run: Run | None = None,
) -> None:
    """Print why a run got its grade, below those that were printed before; with what it was asked
    and answered, where its evidence is given.
    """
    sys.stdout.write("" if first else "\n")
    sys.stdout.flush()
    head, *rest = explanation(result, named_by=named_by)
    terminal.show([head, *([] if run is None else [sample_facts(run)]), *rest])


def _named_by(options: Options) -> dict[str, str]:
    """Who named the profile and the rubric, where the command line did not."""
    named = {
        kind: options.sources.get(kind, COMMAND_LINE)
        for kind in ("profile", "rubric")
        if getattr(options, kind) is not None
    }
    return {
        kind: STORED if source == DEFAULT else source
        for kind, source in named.items()
        if source != COMMAND_LINE
    }


def _named_by_settings(stored: StoredRuns) -> dict[str, str]:
    return {kind: STORED for kind in ("profile", "rubric") if stored.settings.get(kind)}


def _as_stored(options: Options) -> bool:
    """Whether to show the stored grades: the command names nothing else to grade by."""
    stored = options.file
    if not isinstance(stored, StoredRuns) or options.judge_card or stored.grades is None:
        return False
    return all(
        getattr(options, name) in (default, stored.settings.get(name) or default)
        for name, default in CHOSEN
    )


# --- what the ledger has


def _stored(options: Options, stored: StoredRuns) -> Iterator[tuple[Any, Run | None]]:
    """The requested stored grades; with `--run`, the run comes with its grade."""
    for result in _grades(stored):
        if options.run is None:
            yield result, None
        elif options.run in names_of(result):
            yield result, None if options.json else _evidence(stored, result["run_id"])


def _grades(stored: StoredRuns) -> Iterator[dict[str, Any]]:
    assert stored.grades is not None
    for document in read_documents(stored.grades):
        yield document.tree


def _evidence(stored: StoredRuns, run_id: str) -> Run | None:
    """The run of a grade; None if it was made of a scorecard."""
    wanted = {"schema": RUN_SCHEMA, "run_id": run_id}
    found = (
        document for document in read_documents(stored) if wanted.items() <= document.tree.items()
    )
    return next(map(read_run, found), None)


def _whole(options: Options, stored: StoredRuns) -> int:
    assert stored.evaluation is not None
    evaluation = stored.evaluation.evaluation
    worst: list[WorstSample] = []
    reasons = RunReasons()
    for result in _grades(stored):
        keep_worst(worst, result, None)
        reasons.add(result)
    wanted = {sample.run_id for sample in worst}
    runs: dict[str, Run] = {}
    for document in read_documents(stored) if wanted else ():
        if document.tree["run_id"] in wanted:
            runs[document.tree["run_id"]] = read_run(document)
    totals = evaluation.totals
    left = f"{totals.ungraded:,} of {totals.n:,} runs could not be graded."
    ledger, failed = ledger_options(options), totals.n - totals.ungraded - totals.passed
    commands = [
        *(
            (
                command("explain", stored.name, "--run", sample.run_id, options=options) + ledger,
                "why this run got its grade",
            )
            for sample in worst[:1]
        ),
        *(
            [
                (
                    command("grade", stored.name, options=options) + ledger,
                    "every run on one line, with why it failed",
                )
            ]
            if failed > len(worst)
            else []
        ),
        (command("evals", options=options) + ledger, "the other evaluations"),
    ]
    terminal.show(
        evaluation_view(
            evaluation,
            worst=[
                with_texts(sample, runs[sample.run_id]) if sample.run_id in runs else sample
                for sample in worst
            ],
            notes=[left] if totals.ungraded else [],
            reasons=reasons,
            commands=commands,
        )
    )
    return ExitCode.of(None if totals.ungraded == totals.n else totals.passed == totals.n)


def _meant_stored(options: Options, stored: StoredRuns) -> str:
    """The same among stored runs."""
    if stored.evaluation is None:
        raise NotEnoughEvidence("FIL-005", "the run has no stored grade.", where=stored.name)
    graded = {run.run_id for run in stored.evaluation.evaluation.runs if run.grade is not None}
    others = OtherRuns()
    for document in read_documents(stored) if options.run is not None else ():
        others.add(document.tree)
    meant = None if options.run is None else others.meant(options.run)
    if options.run is not None and meant is None:
        raise others.unknown(options.run, stored.name)
    if meant not in graded:
        raise NotEnoughEvidence("FIL-005", "none of its runs was graded.", where=stored.name)
    assert meant is not None
    return meant


# --- what a run is called


class OtherRuns:
    """The runs that do not have a name exactly."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def add(self, tree: Mapping[str, Any]) -> None:
        """Remember a run, or its grade, by its names and their ends."""
        run_id, *others = (str(name) for name in names_of(tree) if name)
        if len(self._names) >= 4 * KNOWN:
            return
        metadata = tree.get("metadata")
        named = metadata.get("name") if isinstance(metadata, dict) else None
        for name in {run_id, *others, *([named] if isinstance(named, str) else [])}:
            self._names.setdefault(name, set()).add(run_id)
            for part in _PART.finditer(name):
                self._names.setdefault(name[part.end() :], set()).add(run_id)

    def meant(self, text: str) -> str | None:
        """The id of the only run whose name has this ending.

        >>> found = OtherRuns()
        >>> found.add({"run_id": "junit-1/tests.test_bot::test_tone[calm]"})
        >>> found.meant("test_tone[calm]"), found.meant("tone")
        ('junit-1/tests.test_bot::test_tone[calm]', None)
        """
        runs = self._names.get(text, set())
        return next(iter(runs)) if len(runs) == 1 else None

    def unknown(self, text: str, where: str) -> UsageError:
        """The error for a name that no run has, or that several have."""
        several = sorted(self._names.get(text, ()))
        if several:
            return UsageError(
                "CLI-001",
                f"{len(several):,} runs are named {text!r}: {', '.join(several[:3])}"
                f"{', ...' if several[3:] else ''}.",
                where=where,
                fix="Give the whole id.",
            )
        near = near_miss(text, self._names)
        first = next((run for runs in self._names.values() for run in runs), None)
        return UsageError(
            "CLI-001",
            f"no run is named {text!r}.{near}",
            where=where,
            fix="" if near or first is None else f"The first run is {first!r}.",
        )

    def __bool__(self) -> bool:
        return bool(self._names)


COMMANDS = {
    "explain": Command(
        run,
        "Explain why each run got its grade, and the smallest change that would move it.",
        "assay explain runs.jsonl --run r-001",
        (
            arg(
                "file",
                metavar="FILE",
                help=(
                    ".json, .jsonl, - for standard input, another tool's result file, or a name"
                    " from the ledger: an evaluation, latest, latest~1, a run's id"
                ),
            ).of_runs(),
            arg(
                "--run",
                kind="text",
                trust="freely",
                metavar="ID",
                help="explain this run only: its id, its sample, its name, or the end of one",
            ),
            *CHOICES,
        ),
        defaults={"stored_grades": True},
    ),
}
