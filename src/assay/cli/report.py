"""`assay report rank` and `assay report summary`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.family_inputs import own_options, own_reader, refuse_own_options
from assay.cli.frame import CHOICES, COMMON, STORE, Command, Options, arg, repeated
from assay.cli.grade import choice_of
from assay.cli.ledger import storing_result
from assay.cli.stream import run_id_digest, twice
from assay.errors import InputError, NotEnoughEvidence, count, printable
from assay.files.json_files import read_documents
from assay.release.ranking import Place, candidates, contender, rank, shown
from assay.release.summary import Summary
from assay.services.given_grades import grades_of
from assay.views.summary import summary_view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.records.grade import Grade
    from assay.records.summary import SummaryBlock
    from assay.services.choice import Choice
    from assay.services.grading import Grader
    from assay.services.storing import Result


def grades(files: list[str], grader: Grader, *, result: Result | None = None) -> Iterator[Grade]:
    """Grade every document of the files; the first fault or empty file ends it. A run id may appear
    only once. A result that is stored records its inputs.
    """
    seen: set[bytes] = set()
    for file in files:
        before = len(seen)
        for document in read_documents(file):
            for graded in grades_of(document, grader):
                digest = run_id_digest(graded.grade.run_id)
                if digest in seen:
                    fault = twice(graded.grade.run_id, document.file, document.line)
                    raise InputError(fault.code, fault.message, where=document.file, faults=[fault])
                seen.add(digest)
                if result is not None and graded.evidence is not None:
                    result.made_of(graded.evidence)
                yield graded.grade
        if len(seen) == before:  # the job that was to fill it did not run
            raise NotEnoughEvidence(
                "FIL-005",
                "the file is empty.",
                where=file,
                fix="Leave it out if nothing belongs in it.",
            )


def _chosen(options: Options, result: Result | None) -> Choice:
    """The choice of the options. The cards of judges that it grades by are part of what a result is
    made of.
    """
    choice = choice_of(options)
    if result is not None:
        for card in choice.read_cards():
            result.made_of(card)
    return choice


def _rank(options: Options) -> int:
    with storing_result(options, "report rank") as result:
        return _ranked(options, result)


def _ranked(options: Options, result: Result | None) -> int:
    grader = _chosen(options, result).grader()
    scoring: set[str] = set()

    def noted() -> Iterator[Grade]:
        for grade in grades(options.files, grader, result=result):
            scoring.add(grade.scoring_system)
            yield grade

    pool = list(map(contender, noted())) if options.by == "run" else candidates(noted())
    places = rank(pool, tie_window=grader.rules.tie_window)
    document = {
        "order": shown(places),
        "by": options.by,
        "tie_window": grader.rules.tie_window / 100,
        "policy": grader.rules.policy,
        "scoringSystem": ", ".join(sorted(scoring)),
        "gradingSystem": grader.rules.grading_system,
    }
    if result is not None:
        result.put(document)
    return opt.give(options, document, _rank_lines(places))


def _rank_lines(places: Sequence[Place]) -> Iterator[str]:
    width = min(60, max(len(place.contender.id) for place in places))
    for place in places:
        who = place.contender
        gates = f"{count(who.gate_failures, 'gate')} failed" if who.gate_failures else "gates pass"
        decided = f"  decided by {place.decided_by}" if place.decided_by else ""
        verdict = (
            f"{who.passed} of {who.runs} passed"
            if who.grade is None
            else f"{who.grade} {'passed' if who.passed else 'FAILED'}"
        )
        yield (
            f"{place.rank:>4}  {printable(who.id):<{width}}  {who.score / 100:6.2f}  {verdict:<8} "
            f" {gates:<14}  tie group {place.tie_group}{decided}"
        )


def _summary(options: Options) -> int:
    opt.outputs(options)
    if summarise := own_reader("report summary", options.files):
        return _give_summary(options, summarise(options))
    refuse_own_options("report summary", options)
    with storing_result(options, "report summary") as result:
        return _summed(options, result)


def _summed(options: Options, result: Result | None) -> int:
    summary = Summary()
    for grade in grades(options.files, _chosen(options, result).grader(), result=result):
        summary.add(grade)
    block = summary.block()
    if result is not None:
        result.put(msgspec.to_builtins(block))
    return _give_summary(options, block)


def _give_summary(options: Options, block: SummaryBlock) -> int:
    return opt.give(options, block, lambda: terminal.show(summary_view(block, options.slice)))


COMMANDS = {
    "report rank": Command(
        _rank,
        "Order runs, or candidates made of many runs, best first; tie-break rules decide"
        " near-equal scores. It exits 0 whatever the result.",
        "assay report rank runs.jsonl",
        (
            "files",
            arg(
                "--by",
                choices=("run", "candidate"),
                default="run",
                help="candidate: rank workflow versions, each by all its runs (default: run)",
            ),
            *CHOICES,
            *STORE,
        ),
    ),
    "report summary": Command(
        _summary,
        "The reporting bundle: pass rate, score, gates, criteria and top failure reasons, each rate"
        " with its interval. It exits 0 whatever the result.",
        "assay report summary runs.jsonl",
        (
            arg(
                "files",
                nargs="+",
                metavar="FILE",
                help=f"{COMMON['files'].settings['help']}; or one output of `assay batch`",
            ).of_runs(),
            repeated(
                "--slice",
                "KIND",
                "also show pass rate and score by tag, group or family; of a batch, by a column"
                " that it kept; may be repeated",
                kind="text",
                trust="freely",
            ),
            *CHOICES,
            *STORE,
            *own_options("report summary"),
        ),
        formats=(".json",),
    ),
}
