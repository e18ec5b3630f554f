"""`assay report`: rank runs, summarise them, comment on a pull request, export grades."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import msgspec

from assay import __version__
from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.family_inputs import own_options, own_reader, refuse_own_options
from assay.cli.frame import CHOICES, COMMON, STORE, Command, Options, arg, repeated
from assay.cli.grade import (
    Stopped,
    choice_of,
    faults_error,
    grade_stream,
    output_of,
    run_id_digest,
    twice,
)
from assay.cli.hints import GRADED_BY, given
from assay.cli.imported_inputs import MADE
from assay.cli.ledger import storing_result
from assay.cli.references import STORED
from assay.errors import InputError, NotEnoughEvidence, UsageError, count, printable
from assay.files.inputs import listed, open_input
from assay.files.json_files import read_documents
from assay.registry import is_path
from assay.release.ranking import Place, candidates, contender, rank, shown
from assay.release.summary import Summary
from assay.services.given_grades import grades_of
from assay.views.exporters import EXPORTERS, Exporter
from assay.views.grade_line import totals_text, versions_text
from assay.views.summary import summary_view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.files.inputs import Source
    from assay.records.grade import Grade
    from assay.records.summary import SummaryBlock
    from assay.services.choice import Choice
    from assay.services.grading import Grader
    from assay.services.storing import Result


def grades(
    files: Sequence[Source], grader: Grader, *, result: Result | None = None
) -> Iterator[Grade]:
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
                where=file.name,
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
    if summarise := own_reader("report summary", [source.path for source in options.files]):
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


MAX_FILE = 4 * 1024 * 1024
MAX_BODY = 65_000
"""GitHub refuses a comment of more than 65,536 characters."""
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_COMMIT = re.compile(r"([0-9a-f]{7,64})?")


def _comment(options: Options) -> int:
    if not _KEY.fullmatch(options.key):
        raise UsageError(
            "CLI-001",
            f"--key is {options.key!r}; it may contain letters, digits and . _ - only.",
            fix="Such as --key nightly.",
        )
    if not _COMMIT.fullmatch(options.commit):
        raise UsageError("CLI-001", f"--commit is {options.commit!r}; write its SHA.")
    body = _body(f"<!-- assay:{options.key} -->\n", _read(options.file), options.commit)
    return opt.give(
        options,
        {"body": body},
        [] if options.output else body.splitlines(),
        forms={".md": lambda document: str(document["body"]).encode()},
    )


def _read(path: str) -> str:
    with open_input(path) as stream:
        data = stream.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise InputError("FIL-004", f"is larger than {MAX_FILE:,} bytes.", where=path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("FIL-002", "is not UTF-8 text.", where=path) from None
    if not text.strip():
        raise InputError(
            "FIL-005", "is empty.", where=path, fix="`assay gate ... -o decision.md` writes one."
        )
    return text


def _body(marker: str, text: str, commit: str) -> str:
    """The comment: marker, text, and the commit it is about, so that a stale comment is
    recognisable.
    """
    about = [f"Assay {__version__}", *([f"commit {commit[:10]}"] if commit else [])]
    footer = f"\n\n<sub>{' · '.join(about)}</sub>\n"
    room = MAX_BODY - len(marker) - len(footer) - 80
    text = text.strip()
    if len(text) > room:
        kept = text[:room].rpartition("\n")[0] or text[:room]
        text = f"{kept}\n\n**Cut here: the whole text is too long for a comment.**"
    return f"{marker}{text}{footer}"


NAMED = ("inspect", "mlflow", "promptfoo", "otel")
"""The exporters that no extension picks."""


def run(options: Options) -> int:
    """Write one file in the format that is asked for."""
    formats = exporter_of(options.to).extensions
    options = options.with_values(output=[options.output], formats=formats)
    (path,) = opt.outputs(options)
    output = output_of(path, options.to)
    choice = choice_of(options)
    output.form.prepare(
        path=path,
        graded_by=_graded_by(options),
        reported=lambda workflow: choice.grader().plan_for(workflow).reported,
    )
    try:
        totals = grade_stream(
            options.files,
            choice,
            [output],
            spool=io.BytesIO(),
            spool_format="text",
            spool_limit=0,
            keep_going=False,
            jobs=options.jobs,
        )
    except Stopped as end:
        if end.totals.fault_count:
            raise faults_error(end.totals, stopped=True) from None
        raise NotEnoughEvidence(
            "FIL-005", "there is nothing to export.", where=listed(options.files)
        ) from None
    counts = totals.counts()
    document = {"exporter": options.to, "output": path, "counts": counts}
    lines = [totals_text(counts), versions_text(counts)]
    return opt.give(options, document, lines, written=[path])


def _graded_by(options: Options) -> list[str] | None:
    """The options that grade other runs as these are graded; None if their profile lives only as
    long as this command.
    """
    words = [word for name in GRADED_BY for word in given(options, name)]
    if options.sources.get("profile") in (MADE, STORED):
        return None if is_path(options.profile) else [*words, "--profile", options.profile]
    return words


def exporter_of(name: str) -> Exporter:
    """The exporter of that name, shipped or of a plugin."""
    exporter = EXPORTERS.get(name)
    if exporter is None:
        raise UsageError(
            "CLI-001",
            f"no exporter is named '{name}'.{EXPORTERS.near(name)}",
            fix="`assay library list exporters` shows them.",
        )
    return exporter


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
    "report comment": Command(
        _comment,
        "Write the body of a comment on a pull request: the text, cut to what a comment can hold,"
        " with the version and the commit. `gh` or `glab` posts it.",
        "assay report comment decision.md -o comment.md",
        (
            arg("file", metavar="FILE", help="the text, such as `assay gate ... -o decision.md`"),
            arg(
                "--key",
                kind="text",
                trust="freely",
                metavar="NAME",
                default="gate",
                help="the name of the comment, in a marker on its first line (default: gate)",
            ),
            arg(
                "--commit",
                kind="text",
                trust="freely",
                metavar="SHA",
                default="",
                help="the commit that the text is about",
            ),
        ),
        formats=(".md",),
        configured=False,
    ),
    "report export": Command(
        run,
        "Grade runs and write the grades in the format of another tool. It exits 0 even if"
        " runs fail.",
        "assay report export runs.jsonl --to inspect -o grades.json",
        (
            "files",
            arg(
                "--to",
                kind="text",
                trust="freely",
                metavar="NAME",
                required=True,
                help=(
                    f"{', '.join(NAMED)}, or an exporter of a plugin; `assay library list"
                    " exporters` shows them all"
                ),
            ),
            arg(
                "-o",
                "--output",
                kind="path",
                metavar="FILE",
                required=True,
                help="the file to write, with the extension of the format",
            ),
            *CHOICES,
            "--jobs",
        ),
    ),
}
