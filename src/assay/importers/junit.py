"""JUnit XML, as pytest, Surefire, Gradle, jest-junit, go-junit-report, GoogleTest and others write
it: one test case is one sample, which passed or not.

A skipped test and one that ended in an error are missing evidence: neither is a pass. So is a test
with an element or a status that Assay doesn't know; prefixes and the case of names don't matter. A
test that passed only when it was run again has the share of its attempts that passed as its score.
A failure or an error of a whole suite is a sample too. Counts in the attributes of a suite are
compared with its cases: tests that it counts and doesn't list are samples without a result, and
failures that it counts and doesn't show are refused.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import islice
from typing import Any

from assay.errors import InputError, NotEnoughEvidence
from assay.files.xml_files import XmlEnd, XmlStart, stream_xml
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import UNVERSIONED, ResultOrigin, file_id, sample_run, short_id
from assay.importers.tally import ImportTally

OUTCOMES = ("failure", "error", "skipped")
RERUN = "rerunfailure"
AGAIN = ("flakyfailure", "flakyerror", RERUN, "rerunerror")
HARMLESS = ("system-out", "system-err", "properties", "property", "attachments", "attachment")
"""Elements that report no outcome. An outcome inside one of them counts as if it were next to it;
what nobody knows there is part of a log or of a property, such as Xray's `<item>`.
"""
KNOWN = frozenset((*OUTCOMES, *AGAIN, *HARMLESS))
_STATED = ("status", "result", "outcome", "success", "executed")
_STATUSES = {
    "passed": (
        *("run", "pass", "passed", "ok", "success", "succeeded", "successful", "completed"),
        *("fixed", "true"),
    ),
    "failure": ("fail", "failed", "failure", "false"),
    "error": ("error", "errored", "broken", "aborted"),
    "skipped": ("notrun", "skipped", "disabled", "ignored", "pending", "suppressed", "todo"),
}
"""What some writers say in an attribute of a case, without an element; another word is an error."""


class CaseReport:
    """One test case while it is read."""

    def __init__(self, start: XmlStart) -> None:
        self.start = start
        self.found: dict[str, int] = {}
        """How many elements of each name it has."""
        self.reasons: dict[str, str] = {}

    def child(self, start: XmlStart, text: str) -> None:
        """Add an element of the case."""
        self.found[start.name] = self.found.get(start.name, 0) + 1
        if start.name in HARMLESS:
            return
        message = start.attributes.get("message", "").strip() or text.strip()
        kind = start.attributes.get("type", "").strip()
        self.reasons.setdefault(start.name, message or kind)

    @property
    def unknown(self) -> list[str]:
        """The elements that nobody knows: they may say that the test failed."""
        return [name for name in self.found if name not in KNOWN]

    @property
    def outcome(self) -> str:
        """`failure`, `error`, `skipped` or `passed`; the worst of those reported."""
        stated = {
            next((outcome for outcome, known in _STATUSES.items() if word in known), "error")
            for word in self.words
        }
        for reported in (self.found, stated):
            for outcome in ("error", "failure", "skipped"):
                if outcome in reported:
                    return outcome
        return "error" if self.unknown else "passed"

    @property
    def words(self) -> list[str]:
        """What its attributes state as the outcome, in lower case."""
        given = {key.lower(): text.strip().lower() for key, text in self.start.attributes.items()}
        return [given[key] for key in _STATED if given.get(key)]

    @property
    def reruns(self) -> int:
        """How many of its attempts failed before the last one."""
        return sum(self.found.get(name, 0) for name in AGAIN) if self.found else 0

    def is_again(self, earlier: CaseReport) -> bool:
        """Whether this is another attempt at a test whose last one has no outcome."""
        names = [
            [case.start.attributes.get(key) for key in ("classname", "name")]
            for case in (earlier, self)
        ]
        return names[0] == names[1] and earlier.outcome == "passed"


MAX_MISSING = 100_000
"""Tests that a suite may count and not list."""
_SUITES = ("testsuites", "testsuite")
_ROOT = re.compile(
    r"(?:(?><\?.*?\?>)|(?><!--.*?-->)|\s)*+(?:<!DOCTYPE\b.*?)?<testsuites?[\s>/]", re.S
)
_COUNTED = {
    "passed": "passed tests",
    "failure": "failed tests",
    "error": "tests with errors",
    "skipped": "skipped tests",
}
_PYTEST = ("pytest tests", "pytest")
"""The names of the suites that pytest writes, the outermost first."""
MAX_NAMED = 20
"""Unknown elements that are named in notes."""


class _Counts:
    """What is in a suite, and what its attributes say."""

    def __init__(self, start: XmlStart) -> None:
        self.name = start.attributes.get("name", "").strip()
        self.start = start
        self.own: Counter[str] = Counter()
        self.inner: Counter[str] = Counter()

    def stated(self, *names: str) -> int | None:
        for name in names:
            text = self.start.attributes.get(name, "").replace(",", "").strip()
            if text.isascii() and text.isdigit() and len(text) < 12:
                return int(text)
        return None


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    titles = {_title(path) for path in paths}
    title = titles.pop() if len(titles) == 1 else "junit"
    seen: Counter[str] = Counter()
    stated: list[tuple[int, int] | None] = []
    for path in paths:
        name = NameVersion(short_id(title, 0), UNVERSIONED)
        origin = ResultOrigin("junit", name, name, file_id(path), answers=False, verdicts=True)
        before = tally.samples
        yield from _SuiteReader(origin, wanted, tally, path, seen, stated).runs()
        if tally.samples == before and len(paths) > 1:  # a shard that crashed looks like this
            raise NotEnoughEvidence(
                "FIL-005",
                "the report has no tests.",
                where=path,
                fix="Leave it out if none were to run.",
            )
    for tests, passed in () if None in stated else filter(None, stated):
        tally.state("samples", tests)
        tally.state("passed", passed)
    if tally.read["skipped tests"]:
        tally.note(
            "A skipped test is missing evidence, not a pass. To leave out tests that don't apply,"
            " deselect them, so that the report doesn't list them."
        )


def _title(path: str) -> str:
    """The name of the outermost suite that has one."""
    for event in islice(_events(path), 200):
        if isinstance(event, XmlStart) and event.name in _SUITES:
            name = event.attributes.get("name", "").strip()
            if name:
                return name
    return "junit"


def _events(path: str) -> Iterator[XmlStart | XmlEnd]:
    """The elements by their local names in lower case: <Failure> and <x:failure> are failures."""
    for event in stream_xml(path):
        yield event._replace(name=_local(event.name))


@lru_cache(256)
def _local(name: str) -> str:
    return name.rpartition(":")[2].lower()


class _SuiteReader:
    def __init__(
        self,
        origin: ResultOrigin,
        wanted: Wanted,
        tally: ImportTally,
        path: str,
        seen: Counter[str],
        stated: list[tuple[int, int] | None],
    ) -> None:
        self._origin, self._wanted, self._tally, self._path = origin, wanted, tally, path
        self._seen = seen
        """How often each sample came, over all files."""
        self._stated = stated
        """The tests and passed tests of each suite; None where its attributes don't count so."""
        self._suites: list[_Counts] = []
        self._named: set[str] = set()
        """The unknown elements that notes name."""
        self._held: CaseReport | None = None

    def runs(self) -> Iterator[dict[str, Any]]:
        case: CaseReport | None = None
        inside: list[XmlStart] = []
        for event in _events(self._path):
            if isinstance(event, XmlStart):
                if not self._suites and case is None and event.name not in _SUITES:
                    raise InputError(
                        "FIL-006",
                        f"the document is a <{event.name[:80]}>; JUnit XML is <testsuites> or"
                        " <testsuite>.",
                        where=f"{self._path}:{event.line}",
                    )
                if case is not None:
                    inside.append(event)
                elif event.name in _SUITES:
                    yield from self._take(None)
                    self._suites.append(_Counts(event))
                elif event.name == "testcase":
                    case = CaseReport(event)
                elif event.name in ("failure", "error"):  # of a fixture, say
                    case = CaseReport(event._replace(attributes={"name": f"<{event.name}>"}))
                    case.child(event, "")
            elif case is not None and inside:
                start = inside.pop()
                if not inside or (inside[0].name in HARMLESS and start.name in KNOWN):
                    case.child(start, event.text)
            elif case is not None:
                yield from self._take(case)
                case = None
            elif event.name in _SUITES:
                yield from self._take(None)
                yield from self._close()

    def _take(self, case: CaseReport | None) -> Iterator[dict[str, Any]]:
        """The run of the case before this one. For a test that is run again, pytest lists each
        failed attempt as a case without an outcome, before the last one.
        """
        held, self._held = self._held, case
        is_pytest = any(suite.name in _PYTEST for suite in self._suites)
        if held is not None and case is not None and is_pytest and case.is_again(held):
            case.found[RERUN] = 1 + held.reruns
        elif held is not None:
            yield self._run(held)

    def _run(self, case: CaseReport) -> dict[str, Any]:
        attributes, suite = case.start.attributes, self._suites[-1]
        if not attributes.get("name", "").strip():
            raise InputError(
                "SCO-011",
                "a <testcase> has no name, so it can't be identified.",
                where=f"{self._path}:{case.start.line}",
            )
        outcome, reruns = case.outcome, case.reruns
        suite.own["tests"] += 1
        suite.own["passed"] += outcome == "passed"
        suite.own.update({name: n for name, n in case.found.items() if name in OUTCOMES})
        self._note_unknown(case)
        if outcome != "passed" and outcome not in case.found:
            suite.own[outcome] += 1
        self._tally.read[_COUNTED[outcome]] += 1
        flaky = reruns if outcome == "passed" else 0
        if flaky:
            self._tally.read["tests that passed on another attempt"] += 1
            self._tally.note(
                "Flaky tests keep the verdict of the report, passed; their score is the share of"
                " attempts that passed."
            )
        metadata = {"suite": suite.name, "outcome": outcome}
        metadata |= {key: attributes[key] for key in ("file", "line") if key in attributes}
        return self._sample(
            self._sample_id(attributes, suite),
            outcome,
            score=(Decimal(1) / (1 + flaky)).quantize(Decimal("0.000001")) if flaky else None,
            reason=self._reason(case, outcome),
            latency_ms=self._milliseconds(attributes.get("time")),
            retries=reruns or None,
            tags=["flaky"] if flaky else None,
            metadata={key: value[:500] for key, value in metadata.items() if value},
            line=case.start.line,
        )

    def _note_unknown(self, case: CaseReport) -> None:
        for name in case.unknown:
            if name in self._named or len(self._named) < MAX_NAMED:
                self._named.add(name)
                self._tally.note(
                    f"Assay doesn't know <{name[:40]}> in a test case; a test that has one and no"
                    " other outcome has no result."
                )

    def _sample(
        self, sample_id: str, outcome: str, *, score: Decimal | None = None, **more: Any
    ) -> dict[str, Any]:
        self._seen[sample_id] += 1
        verdict = {"passed": True, "failure": False}.get(outcome)
        status = {"error": "error", "skipped": "cancelled"}.get(outcome, "success")
        return sample_run(
            self._origin,
            self._wanted,
            self._tally,
            sample_id=sample_id,
            status=status,
            verdict=verdict,
            scores={"passed": verdict if score is None else score},
            attempt=self._seen[sample_id],
            **more,
        )

    @staticmethod
    def _sample_id(attributes: dict[str, str], suite: _Counts) -> str:
        name = attributes["name"].strip()
        place = attributes.get("classname", "").strip() or suite.name
        return short_id(name if place in ("", name) else f"{place}::{name}", 0)

    @staticmethod
    def _reason(case: CaseReport, outcome: str) -> str:
        if outcome == "passed":
            return next((case.reasons[name] for name in AGAIN if name in case.reasons), "")
        reason = case.reasons.get(outcome, "")
        if outcome == "error" and outcome not in case.found and case.unknown:
            reason = f"it has <{case.unknown[0][:40]}>, which Assay doesn't know"
        elif outcome == "error" and outcome not in case.found:
            reason = f"its status is {' and '.join(word[:40] for word in case.words)!r}"
        return f"{outcome}: {reason}" if reason else outcome

    def _milliseconds(self, text: str | None) -> Decimal | int | None:
        try:
            seconds = Decimal((text or "").replace(",", "").strip() or "NaN")
        except InvalidOperation:
            seconds = Decimal("NaN")
        if seconds.is_finite() and 0 <= seconds < 10**9:
            milliseconds = seconds.quantize(Decimal("0.000001")) * 1000
            return int(milliseconds) if milliseconds == int(milliseconds) else milliseconds
        if text:
            self._tally.dropped["times that are not seconds"] += 1
        return None

    def _close(self) -> Iterator[dict[str, Any]]:
        """The end of a suite: what it counts and doesn't list."""
        suite = self._suites.pop()
        counts, tests = suite.own + suite.inner, suite.stated("tests")
        listed = counts["tests"]
        missing = 0
        if tests is not None and tests not in (suite.own["tests"], listed):
            # pytest counts a test that passed, and failed to clean up, twice
            missing = tests - listed if tests - listed > counts["error"] else 0
            if missing and [suite.name for suite in self._suites] == [_PYTEST[0]]:
                missing = 0  # it counts what ran, not what was planned
                self._tally.note("pytest counts subtests, and lists only those that fail.")
            self._differ(suite, "tests", tests, listed, missing)
        if missing > MAX_MISSING:
            raise self._refused(suite, f"counts {tests:,} tests and lists {listed:,}.")
        for outcome, *names in (
            ("failure", "failures"),
            ("error", "errors"),
            ("skipped", "skipped", "skip", "skips", "ignored"),
        ):
            stated = suite.stated(*names) or 0
            if stated > counts[outcome] + missing:
                raise self._refused(
                    suite,
                    f"counts {stated:,} in its attribute `{names[0]}` and shows"
                    f" {counts[outcome]:,} such tests.",
                )
        for number in range(1, missing + 1):
            yield self._sample(
                short_id(f"{suite.name or 'suite'}::missing-{number}", 0),
                "skipped",
                reason="the suite counts this test and doesn't list it",
                line=suite.start.line,
            )
        counts["tests"] += missing
        outer = [suite.start.name for suite in self._suites]
        if suite.start.name == "testsuite" and "testsuite" not in outer:
            self._state(suite, counts)
        self._tally.read["suites"] += suite.start.name == "testsuite"
        if self._suites:
            self._suites[-1].inner.update(counts)

    def _state(self, suite: _Counts, counts: Counter[str]) -> None:
        """The totals of the attributes, where they count what the cases show."""
        tests, failures, errors = (suite.stated(name) for name in ("tests", "failures", "errors"))
        self._stated.append(None)
        if tests is None or failures is None:
            return
        skipped = (suite.stated("skipped", "skip", "skips", "ignored") or 0) + (
            suite.stated("disabled") or 0
        )
        passed = tests - failures - (errors or 0) - skipped
        if tests == counts["tests"] and passed == counts["passed"]:
            self._stated[-1] = (tests, passed)
        elif passed != counts["passed"]:
            self._differ(suite, "passed tests", passed, counts["passed"], 0)

    def _differ(self, suite: _Counts, what: str, stated: int, listed: int, missing: int) -> None:
        name = f"The suite {suite.name[:80]!r}" if suite.name else "A suite"
        more = f" The {missing:,} missing ones have no result." if missing else ""
        self._tally.note(f"{name} counts {stated:,} {what} and lists {listed:,}.{more}")

    def _refused(self, suite: _Counts, words: str) -> InputError:
        return InputError(
            "SCO-011",
            f"the suite {(suite.name or suite.start.name)[:80]!r} {words}",
            where=f"{self._path}:{suite.start.line}",
            fix="The file is cut off or was edited. Write the report again.",
        )


def _again(names: Sequence[str], times: int, _workflow: str) -> str:
    """The node ids of pytest: a case names its module or class with dots.

    >>> _again(["tests.test_bot::test_answer[q1]", "tests.test_bot.TestB::test_sum"], 7, "")
    "for i in $(seq 7); do pytest 'tests/test_bot.py::test_answer[q1]' tests/test_bot.py::TestB::test_sum --junitxml=fresh-$i.xml; done"
    """  # noqa: E501
    ids = []
    for name in names:
        place, _, test = name.rpartition("::")
        parts = place.split(".")
        classes = [part for part in parts if part[:1].isupper()]
        path = "/".join(parts[: len(parts) - len(classes)])
        ids.append("::".join([f"{path}.py", *classes, test]) if place else test)
    listed = " ".join(map(shlex.quote, ids))
    return f"for i in $(seq {times}); do pytest {listed} --junitxml=fresh-$i.xml; done"


IMPORTER = Importer(
    "junit",
    "JUnit XML (pytest, Surefire, jest, go test, ...)",
    lambda head: _ROOT.match(head.text) is not None,
    _read,
    again=_again,
)
