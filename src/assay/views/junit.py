"""Grades and decisions as JUnit XML, the form in which every CI system shows tests: one case for
each run or rule. Families write their own results with `Case` and `document_xml`.

A case is green only if the result explicitly passed. What failed, what is undetermined and what has
no evidence is a failure or an error, never `skipped`: most systems show a skipped test as harmless.
Characters that XML can't contain are written as escapes. Grades are written as a stream: the head,
which has the counts, keeps its place in front and is filled in at the end.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, NamedTuple

from assay.canon import canonical
from assay.errors import count, printable
from assay.records.grade_line import NAMED
from assay.records.samples import NO_TEXTS, SampleTexts, Texts
from assay.views.charts.decisions import rule_word
from assay.views.decision import (
    USED,
    NewFailure,
    confidence,
    failure_facts,
    new_failures,
    operation_text,
    sample_label,
)
from assay.views.exporters import Exporter, Format
from assay.views.grade_line import bar_text, causes, score_text, versions_text
from assay.views.pieces import points

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from assay.records.decision import Decision, RuleResult
    from assay.records.grade import Payload

HEAD = 1024
"""Bytes kept free in front of the cases for a head whose counts are not known yet."""
MAX_TEXT = 500
"""Characters of a foreign text that a message shows; the JSON document has all of it."""
NOT_ENOUGH = "not enough evidence"


class Case(NamedTuple):
    """One test case. `kind` is empty for one that passed, else `failure` or `error`."""

    name: str
    classname: str
    kind: str = ""
    type: str = ""
    message: str = ""
    lines: Sequence[str] = ()
    """The text under a failure or an error; for a case that passed, its output."""
    seconds: float | None = None


def text_of(text: object) -> str:
    r"""Text as XML contains it, on one line: markup is escaped, and so is every
    character that XML 1.0 forbids or a terminal would interpret.

    >>> text_of('<b> & "x"\n\x00\ud800')
    '&lt;b&gt; &amp; &quot;x&quot;\\n\\x00\\ud800'
    """
    shown = printable(str(text))
    return (
        shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    )


def clipped(text: object) -> str:
    """A foreign text, cut to what a message shows."""
    shown = str(text)
    return shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]}..."


def case_xml(case: Case) -> str:
    """One case."""
    time = "" if case.seconds is None else f' time="{case.seconds:.3f}"'
    head = f'  <testcase name="{text_of(case.name)}" classname="{text_of(case.classname)}"{time}'
    body = "\n".join(text_of(line) for line in case.lines)
    if case.kind:
        return (
            f'{head}>\n    <{case.kind} type="{text_of(case.type)}"'
            f' message="{text_of(case.message)}">{body}</{case.kind}>\n  </testcase>\n'
        )
    return (
        f"{head}>\n    <system-out>{body}</system-out>\n  </testcase>\n" if body else f"{head}/>\n"
    )


def head_xml(
    name: str, *, tests: int, failures: int, errors: int, properties: Mapping[str, object]
) -> str:
    """Everything in front of the first case."""
    numbers = f'tests="{tests}" failures="{failures}" errors="{errors}"'
    listed = "".join(
        f'<property name="{text_of(key)}" value="{text_of(str(value)[:200])}"/>'
        for key, value in properties.items()
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="assay" {numbers}>\n <testsuite'
        f' name="{text_of(name)}" {numbers} skipped="0">\n  <properties>{listed}</properties>\n'
    )


_END = " </testsuite>\n</testsuites>\n"


def document_xml(name: str, cases: Sequence[Case], properties: Mapping[str, object]) -> bytes:
    """A whole document with one suite."""
    failures, errors = (sum(case.kind == kind for case in cases) for kind in ("failure", "error"))
    head = head_xml(name, tests=len(cases), failures=failures, errors=errors, properties=properties)
    return (head + "".join(map(case_xml, cases)) + _END).encode()


def _versions(document: Mapping[str, Any]) -> dict[str, object]:
    return {
        key: document[key]
        for key in ("policy", "rubric", "scoringSystem", "gradingSystem")
        if document.get(key) is not None
    }


# --- grades


def grade_case(result: Payload) -> Case:
    """One run: green if it passed, else a failure with every gate and floor that it missed."""
    classname = f"assay.{result['profile'] or 'scorecard'}"
    latency = result["operations"]["latency_ms"]
    seconds = None if latency is None else float(latency) / 1000
    if result["passed"] is True:
        return Case(result["run_id"], classname, seconds=seconds)
    why = [clipped(cause) for cause in causes(result)]
    lines = [f"{result['reason']}: {score_text(result)}", *why, versions_text(result)]
    message = "; ".join(why[:NAMED])
    return Case(result["run_id"], classname, "failure", result["reason"], message, lines, seconds)


def fault_cases(faults: Iterable[Mapping[str, Any]], counts: Mapping[str, Any]) -> list[Case]:
    """What could not be read, each as an error; so is a bar that the runs are too few for."""
    cases, total = [], counts["faults"]
    for fault in faults:
        line = "" if fault.get("line") is None else f" line {fault['line']}"
        where = f"{fault.get('file', '')}{line}".strip() or "input"
        text = f"{fault.get('path') or ''} {fault.get('message', '')}".strip()
        cases.append(
            Case(
                where,
                "assay.input",
                "error",
                str(fault.get("code") or "fault"),
                clipped(text),
                [text],
            )
        )
    if total > len(cases):
        more = f"{count(total - len(cases), 'more fault')} in the input"
        cases.append(Case(more, "assay.input", "error", "fault", more))
    bar = counts.get("bar")
    if bar is not None and bar["holds"] is None:  # every run may have passed
        text = bar_text(bar)
        cases.append(Case("minimum pass rate", "assay.grades", "error", NOT_ENOUGH, text))
    return cases


class JUnit(Format):
    """Grades as a stream of cases."""

    def head(self) -> bytes:
        """Room for the head."""
        return b" " * HEAD

    def piece(self, result: Payload) -> bytes:
        """One case."""
        return case_xml(grade_case(result)).encode()

    def foot(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any]) -> bytes:
        """The faults, each as an error, and the end."""
        return ("".join(map(case_xml, fault_cases(faults, counts))) + _END).encode()

    def finish(
        self, stream: IO[bytes], faults: Sequence[dict[str, Any]], counts: dict[str, Any]
    ) -> None:
        """Write the foot, and the head with the counts into its room."""
        stream.write(self.foot(faults, counts))
        errors = len(fault_cases(faults, counts))
        head = _grades_head(counts, errors, _versions(counts))
        if len(head) >= HEAD:  # a very long policy name may not run over the first case
            head = _grades_head(counts, errors, {})
        stream.seek(0)
        stream.write(head.ljust(HEAD - 1) + b"\n")


def _grades_head(counts: dict[str, Any], errors: int, properties: Mapping[str, object]) -> bytes:
    return head_xml(
        "assay.grades",
        tests=counts["graded"] + errors,
        failures=counts["failed"],
        errors=errors,
        properties=properties,
    ).encode()


EXPORTER = Exporter("junit", "JUnit XML: one test case for each run", (".xml",), JUnit)


# --- decisions


def decision(document: Decision, texts: Texts = NO_TEXTS) -> bytes:
    """A decision: one case for each rule, and one for each sample that newly fails. A closed gate
    is never all green, and a promoted one shows what it allowed in the output of its cases.
    """
    outcome = document.outcome
    promoted = outcome == "promote"
    cases = [_rule_case(rule, promoted=promoted) for rule in document.rules]
    cases += [
        _failure_case(document, item, texts.get(item.sample), promoted=promoted)
        for item in new_failures(document)
    ]
    if not promoted and not any(case.kind for case in cases):
        text = f"the decision is {outcome.replace('_', ' ')}"
        cases.append(Case("outcome", "assay.decision", "failure", outcome, text))
    if not document.rules and promoted:
        text = f"{NOT_ENOUGH}: the decision names no rule"
        cases.append(Case("outcome", "assay.decision", "error", NOT_ENOUGH, text))
    properties = {
        "outcome": outcome,
        "confidence": confidence(document),
        **_versions(document.tree()),
        **{
            f"criterion {name}": f"{points(item.baseline)} before, {points(item.candidate)} now"
            for name, item in document.criteria.items()
        },
        **{
            USED.get(name, name): operation_text(name, item)
            for name, item in document.operations.items()
        },
    }
    return document_xml("assay.decision", cases, properties)


def _rule_case(rule: RuleResult, *, promoted: bool) -> Case:
    reason = clipped(rule.reason)
    word = rule_word(rule)
    if word == "holds":
        return Case(rule.id, "assay.decision", lines=[reason])
    facts = ((key, canonical(value).decode()) for key, value in rule.evidence.items())
    lines = [reason, *(f"{key}: {clipped(value)}" for key, value in facts)]
    if word == "violated":
        return Case(rule.id, "assay.decision", "failure", "rule_violated", reason, lines)
    if promoted:  # under a policy that asks only for what is shown to be worse
        return Case(rule.id, "assay.decision", lines=[f"{word}: {reason}"])
    return Case(rule.id, "assay.decision", "error", "rule_open", f"{word}: {reason}", lines)


def _failure_case(
    document: Decision, item: NewFailure, texts: SampleTexts | None, *, promoted: bool
) -> Case:
    """A sample that newly fails; where that is not shown, or accepted, it is an error or passes."""
    name, classname = sample_label(document, item.sample), "assay.decision.samples"
    facts = [(label, str(text)) for label, text in failure_facts(item, texts, most=MAX_TEXT).pairs]
    lines = [f"sample: {item.sample}", *(f"{label}: {text}" for label, text in facts)]
    if item.accepted or promoted:
        return Case(name, classname, lines=[str(item.verdict), *lines])
    message = f"{item.verdict.values[2]}: {item.checks}"
    if item.counts:
        message += f"; {item.counts}"
    if item.shown:
        kind = "severe_failure" if item.severe else "new_failure"
        return Case(name, classname, "failure", kind, message, lines)
    return Case(name, classname, "error", "new_failure_open", message, lines)
