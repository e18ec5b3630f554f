"""Grades inside a test suite: `assert assay.grade(run)`.

The fixture `assay` grades runs, scorecards and files; the marker `assay` gives a test its defaults.
Everything that was graded is reported at the end, also what failed without failing its test, and
also under xdist: results travel with the reports of the tests, so a worker that dies loses only the
test it was in. Nothing of Assay is imported before the fixture is first used: a suite that does not
use it must not notice the plugin.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from assay.files.json_files import Document
    from assay.records.evidence import Run
    from assay.records.grade import Grade
    from assay.records.scorecard import Scorecard
    from assay.services.grading import Graded, Grader

SHOWN = 20
"""Failed runs that the terminal lists."""
_GRADED = pytest.StashKey[list[dict[str, Any]]]()
_MARK = (
    "assay(profile=None, policy=None): the profile and policy with which the fixture `assay` grades"
    " in this test"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option."""
    group = parser.getgroup("assay", "grades of AI workflows")
    group.addoption(
        "--assay-report",
        metavar="FILE",
        help=(
            "write the grades of all tests to FILE; the extension picks the format (.json .jsonl"
            " .csv .md .xml .html .sarif .parquet)"
        ),
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and, outside xdist's workers, the collector of results."""
    config.addinivalue_line("markers", _MARK)
    report = config.getoption("assay_report")
    if report:
        from assay.views.exporters import FORMATS

        if os.path.splitext(report)[1] not in FORMATS:
            raise pytest.UsageError(
                f"--assay-report {report}: can't write this extension; use {', '.join(FORMATS)}"
            )
    if not hasattr(config, "workerinput"):  # a worker of xdist only sends its reports
        config.pluginmanager.register(SessionGrades(report), "assay-ledger")


# --- grading


class Grades(list["Grade"]):
    """The grades of a file. They are true only if all passed, so that `assert
    assay.grade_file(path)` fails where a run did not.
    """

    def __bool__(self) -> bool:
        return len(self) > 0 and all(self)

    def __repr__(self) -> str:
        from assay.records.grade_line import as_line

        failed = [f"{grade.run_id}: {as_line(grade).why}" for grade in self if not grade.passed]
        return "; ".join([f"{len(failed):,} of {len(self):,} runs did not pass", *failed[:3]])


class Assay:
    """The value of the fixture `assay`."""

    def __init__(
        self, graded: list[dict[str, Any]], *, profile: str | None, policy: str | None, whole: bool
    ) -> None:
        self._graded = graded
        self._profile = profile
        self._policy = policy
        self._whole = whole
        self._graders: dict[tuple[str | None, str | None], Grader] = {}

    def grade(
        self,
        evidence: Run | Scorecard | Mapping[str, Any],
        *,
        profile: str | None = None,
        policy: str | None = None,
    ) -> Grade:
        """Grade a run or a scorecard, given as a record or as a mapping of its published shape.

        Without `profile` the marker's applies, else that of the nearest `assay.yaml`, else the
        run's `workflow.family` selects one. The scorers and gates of `assay.yaml` are always
        required. Malformed evidence raises `assay.AssayError`.
        """
        from assay.records.evidence import Run
        from assay.records.scorecard import Scorecard
        from assay.services.grading import Graded

        grader = self._grader(profile, policy)
        if isinstance(evidence, Run):
            card = grader.scorecard(evidence)
            return self._keep(Graded(grader.grade_card(card, scored=True), evidence))
        if isinstance(evidence, Scorecard):
            return self._keep(Graded(grader.grade_card(grader.required(evidence)), None))
        return self._keep(grader.grade(_document(evidence)))

    def grade_file(
        self, path: str | os.PathLike[str], *, profile: str | None = None, policy: str | None = None
    ) -> Grades:
        """Grade every run or scorecard of a .json or .jsonl file; the result is true only if all
        passed. One malformed line, a run id that appears twice, or an empty file raises.
        """
        from assay.errors import InputError, NotEnoughEvidence
        from assay.files.json_files import read_documents

        grader = self._grader(profile, policy)
        grades: dict[str, Grade] = {}
        name = os.fspath(path)
        for document in read_documents(name):
            graded = grader.grade(document)
            if graded.grade.run_id in grades:
                raise InputError(
                    "FIL-007",
                    f"the run id {graded.grade.run_id!r} appears more than once.",
                    where=name,
                )
            grades[graded.grade.run_id] = self._keep(graded)
        if not grades:
            raise NotEnoughEvidence(
                "FIL-005",
                "there is nothing to grade.",
                where=name,
                fix="An empty input never passes.",
            )
        return Grades(grades.values())

    def _grader(self, profile: str | None, policy: str | None) -> Grader:
        from assay.api.comparing import project_grader

        key = (profile or self._profile, policy or self._policy)
        if key not in self._graders:
            self._graders[key] = project_grader(*key, os.environ.get("ASSAY_LIBRARY"))
        return self._graders[key]

    def _keep(self, graded: Graded) -> Grade:
        from assay.records.grade_line import as_line

        grade = graded.grade
        kept = {
            "run_id": grade.run_id,
            "passed": grade.passed,
            "grade": grade.grade,
            "score": grade.weighted_score,
            "why": as_line(grade).why,
            "policy": grade.policy,
            "scoringSystem": grade.scoring_system,
            "gradingSystem": grade.grading_system,
        }
        if self._whole:
            from assay.canon import encode

            kept["result"] = encode(graded.payload()).decode()
        self._graded.append(kept)
        return grade


def _document(evidence: Any) -> Document:
    """A mapping as a document; a value that JSON can't express is refused."""
    from assay.canon import encode
    from assay.errors import EvidenceError
    from assay.files.json_files import Document

    try:
        encode(evidence)
        return Document(dict(evidence), "evidence")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise EvidenceError(
            "API-001",
            "the evidence is neither a run nor a scorecard, or contains a value that JSON can't"
            " express:"
            f" {error}.",
        ) from None


@pytest.fixture
def assay(request: pytest.FixtureRequest) -> Assay:
    """Grade runs and scorecards: `assay.grade(run)`, `assay.grade_file("runs.jsonl")`."""
    chosen: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("assay"))):  # the nearest mark comes last
        if mark.args or not mark.kwargs.keys() <= {"profile", "policy"}:
            raise pytest.UsageError(
                "@pytest.mark.assay takes profile= and policy=, not"
                f" {mark.args or ', '.join(mark.kwargs)}"
            )
        chosen.update(mark.kwargs)
    graded = request.node.stash.setdefault(_GRADED, [])
    whole = bool(request.config.getoption("assay_report"))
    return Assay(graded, profile=chosen.get("profile"), policy=chosen.get("policy"), whole=whole)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach what was graded to the report of the phase. An empty list shows that the test used the
    fixture, or was skipped or failed before it got it.
    """
    report = yield
    graded = item.stash.get(_GRADED, None)
    if graded is None and report.when == "setup" and not report.passed and _asks(item):
        graded = []
    if graded is not None:
        # reports carry what is set on them from worker to controller
        report.assay = list(graded)  # type: ignore[attr-defined]
        graded.clear()
    return report


def _asks(item: pytest.Item) -> bool:
    """Whether a test asks for grades."""
    return "assay" in getattr(item, "fixturenames", ())


# --- reporting


class SessionGrades:
    """Everything that was graded in the session, in the process that reports it."""

    def __init__(self, report: str | None) -> None:
        self.report = report
        self.tests: dict[str, list[dict[str, Any]]] = {}
        self.passed_tests: set[str] = set()
        self.lost: dict[str, str] = {}
        """What may have made grades and did not run, with the reason."""

    def pytest_sessionstart(self) -> None:
        """Remove an earlier report: a session that is killed must not leave it as its own."""
        if self.report and os.path.isfile(self.report):
            os.remove(self.report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file whose tests can't be collected."""
        if report.failed:
            self.lost[report.nodeid or "."] = "its tests could not be collected."

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the grades in a report."""
        graded = getattr(report, "assay", None)
        if graded is None:
            if report.when not in ("setup", "call", "teardown"):  # what xdist reports of a crash
                self.lost[report.nodeid] = "the process that ran this test died."
            return
        self.tests.setdefault(report.nodeid, []).extend(graded)
        if report.when == "call" and report.passed:
            self.passed_tests.add(report.nodeid)

    def ordered(self) -> list[tuple[str, dict[str, Any]]]:
        """Every grade with its test, in an order that does not depend on which worker came
        first.
        """
        return [(test, graded) for test in sorted(self.tests) for graded in self.tests[test]]

    def missing(self) -> dict[str, str]:
        """What asked for grades and made none, or may have, and the reason."""
        none = "the test asked for grades and made none."
        empty = {test: none for test, graded in self.tests.items() if not graded}
        return dict(sorted({**empty, **self.lost}.items()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the report."""
        for item in getattr(session, "items", ()):
            if item.nodeid not in self.tests and _asks(item):
                self.lost[item.nodeid] = "the test asks for grades and did not run."
        if exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
            self.lost["pytest"] = "the session ended before all tests had run."
        if self.report:
            from assay.errors import AssayError

            try:
                self._write(self.report)
            except AssayError as error:  # a report that can't be written is a failure
                pytest.exit(f"--assay-report: {error}", returncode=pytest.ExitCode.USAGE_ERROR)

    def _write(self, path: str) -> None:
        from assay.errors import Fault
        from assay.files.atomic import atomic_write
        from assay.files.json_files import parse_json
        from assay.views.exporters import ResultSource, format_of

        form = format_of(path)
        results = [parse_json(graded_run["result"].encode()) for _, graded_run in self.ordered()]
        faults = [
            Fault(reason, code="FIL-005", file=place).as_dict()
            for place, reason in self.missing().items()
        ]
        with closing(form), atomic_write(path) as stream:
            stream.write(form.head())
            sink = form.onto(stream)
            for index, result in enumerate(results):
                if index:
                    sink.write(form.joint())
                sink.write(form.piece_of(result, ResultSource()))
            form.finish(stream, faults, self._counts(len(faults)))

    def _counts(self, faults: int) -> dict[str, Any]:
        from assay.records.grade import ENGINE, LETTERS

        graded = [graded_run for _, graded_run in self.ordered()]
        passed = sum(graded_run["passed"] for graded_run in graded)
        return {
            "documents": len(graded) + faults,
            "graded": len(graded),
            "passed": passed,
            "failed": len(graded) - passed,
            "faults": faults,
            "grades": {
                letter: sum(graded_run["grade"] == letter for graded_run in graded)
                for letter in LETTERS
            },
            "policy": ", ".join(sorted({graded_run["policy"] for graded_run in graded})),
            "scoringSystem": (
                ", ".join(sorted({graded_run["scoringSystem"] for graded_run in graded}))
                or ENGINE["scoringSystem"]
            ),
            "gradingSystem": (
                ", ".join(sorted({graded_run["gradingSystem"] for graded_run in graded}))
                or ENGINE["gradingSystem"]
            ),
        }

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was graded, what failed and why, and under which versions."""
        if not self.tests:
            return
        from assay.errors import printable
        from assay.views.grade_line import totals_text, versions_text

        missing = self.missing()
        counts = self._counts(len(missing))
        failed = [(test, run) for test, run in self.ordered() if not run["passed"]]
        out = terminalreporter
        out.section("assay")
        for test, run in failed[:SHOWN]:
            quiet = " (its test passed)" if test in self.passed_tests else ""
            out.write_line(
                printable(
                    f"{run['grade']}  {run['score']:6.2f}  {run['run_id']}  {run['why']} "
                    f" {test}{quiet}"
                ),
                red=True,
            )
        if len(failed) > SHOWN:
            out.write_line(f"... and {len(failed) - SHOWN:,} more")
        for place, reason in list(missing.items())[:SHOWN]:
            out.write_line(printable(f"no grade from {place}: {reason}"), yellow=True)
        out.write_line(totals_text(counts))
        if counts["graded"]:
            out.write_line(versions_text(counts))
        if self.report:
            out.write_line(f"wrote {printable(self.report)}")
