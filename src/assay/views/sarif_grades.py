"""Grades and decisions as SARIF: one result for each gate, floor or rule that kept a run, or a
candidate, from passing, at the line where the run is.

A run that passed has no result. A document that can't be read has one, so that an empty list never
looks like a pass. Nothing is decided here: every sentence comes from the grade or the decision.
"""

from __future__ import annotations

import io
import os
from typing import IO, TYPE_CHECKING, Any

from assay.canon import encode_any
from assay.errors import count, printable
from assay.records.grade_line import as_line
from assay.records.samples import NO_TEXTS, Texts
from assay.registry import home_value, is_path
from assay.views.charts.decisions import rule_word
from assay.views.decision import USED, confidence, operation_text
from assay.views.decision_samples import failure_facts, new_failures, sample_label
from assay.views.exporters import Exporter, ResultSource
from assay.views.grade_line import bar_text, gate_text, score_text
from assay.views.sarif import (
    FINGERPRINT,
    NO_FILE,
    SCHEMA_URI,
    VERSION,
    descriptor,
    file_place,
    fingerprint,
    message,
    tool,
)
from assay.views.spooled import Spooled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from assay.records.decision import Decision
    from assay.records.grade import Payload

MAX_TEXT = 1000
"""Characters of a message; the whole is in the JSON document."""
RELATED = 20
"""Places that one result shows."""
UNREAD = "input/unreadable"
NOT_PASSED = "not-passed"
_HELP = {
    "gate": (
        "The hard gate {} passes",
        "Fix what the message names. A gate without evidence counts as failed: add the evidence.",
    ),
    "floor": (
        "{} meets its critical floor",
        "Raise this criterion above its floor; no other score makes up for it.",
    ),
    "score": (
        "{} has a score",
        "Add the missing evidence or score. Until then the criterion counts as 0.",
    ),
    "judge": (
        "The judge of {} may gate",
        "Calibrate the judge and pass its card with --judge-card.",
    ),
    "threshold": (
        "The score reaches the passing score",
        "Run `assay explain` on the file: it shows the smallest change that would be enough.",
    ),
    "rule": (
        "The promotion rule {} holds",
        "Fix what the message names. The decision in JSON lists what would change it.",
    ),
    "new-failure": (
        "No sample newly fails",
        "Fix what the sample newly fails. If it may be noise, run it again with --confirm.",
    ),
    "decision": (
        "The candidate may replace the baseline",
        "The decision in JSON lists what would change it.",
    ),
    "input": (
        "Every document can be read and graded",
        "Fix the document at this line. An unreadable document is not graded and never passes.",
    ),
    "pass-rate": (
        "The minimum pass rate is met",
        "Grade more samples, or lower what is required.",
    ),
    NOT_PASSED: ("The run passes", "Run `assay explain` on the file: it explains why."),
}
_RULES = {"critical_floors": "floor", "missing_score": "score", "uncalibrated_judge": "judge"}


class Sarif(Spooled):
    """Grades as SARIF."""

    def row(self, result: Payload, source: ResultSource) -> Any:
        """The results of one run; None if it passed."""
        if result["passed"] is True:
            return None
        return [
            _result(rule, f"{result['run_id']}: {text}", source, run=result["run_id"])
            for rule, text in _failures(result)
        ]

    def write_all(self, stream: IO[bytes], counts: dict[str, Any]) -> None:
        """The document, its rules last: they are those that the results name."""
        properties: dict[str, Any] = {
            key: counts[key]
            for key in ("policy", "scoringSystem", "gradingSystem", "graded", "passed")
            if key in counts
        }
        unread = list(_unread(counts["unread"], counts["faults"]))
        if (bar := counts.get("bar")) is not None and bar["holds"] is None:
            unread.append(_result("pass-rate", bar_text(bar), _place(None, None)))
        _write(stream, (entry for row in (*self.rows(), unread) for entry in row), properties)


def _failures(result: Payload) -> list[tuple[str, str]]:
    """Each rule that kept a run from passing, and what it found."""
    found = [
        (f"gate/{name}", gate_text(name, gate))
        for name, gate in result["hard_gates"].items()
        if gate["status"] != "pass"
    ]
    found += [
        (f"{_RULES[finding['rule']]}/{finding['subject']}", finding["text"])
        for finding in result["findings"]
        if finding["rule"] in _RULES and finding["fired"]
    ]
    if result["weighted_score"] < result["pass_threshold"]:
        found.append(("threshold", score_text(result)))
    return found or [(NOT_PASSED, as_line(result).because)]


def _unread(faults: Sequence[Mapping[str, Any]], total: int) -> Iterator[dict[str, Any]]:
    for fault in faults:
        text = " ".join(
            str(fault[key]) for key in ("path", "message", "fix") if fault.get(key) is not None
        )
        yield _result(UNREAD, text, _place(str(fault.get("file") or ""), fault.get("line")))
    if total > len(faults):
        text = f"{count(total - len(faults), 'more unreadable document')}."
        yield _result(UNREAD, text, _place(None, None))


def _place(file: str | None, line: int | None) -> dict[str, Any]:
    """A line of a file. What came from standard input or the ledger is in none."""
    if not file or file in ("-", "<stdin>") or not is_path(file):
        return file_place(NO_FILE, 1)
    own = os.path.relpath(file)  # code hosts know files by their path in the repository
    return file_place(file if own.startswith(os.pardir) else own, line)


def _result(
    rule: str, text: str, source: ResultSource | dict[str, Any], *, run: str = ""
) -> dict[str, Any]:
    """One result, at its place."""
    place = _place(source.file, source.line) if isinstance(source, ResultSource) else dict(source)
    if run:
        place["logicalLocations"] = [{"fullyQualifiedName": printable(run), "kind": "member"}]
    shown = printable(text)
    return {
        "ruleId": printable(rule),
        "level": "error",
        "message": message(shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]}..."),
        "locations": [place],
        "partialFingerprints": {FINGERPRINT: fingerprint(rule, run or text)},
    }


def _write(
    stream: IO[bytes], results: Iterable[dict[str, Any]], properties: Mapping[str, Any]
) -> None:
    """A document of results of any number."""
    rules: dict[str, None] = {}
    stream.write(
        b'{"$schema":'
        + encode_any(SCHEMA_URI)
        + b',"version":'
        + encode_any(VERSION)
        + b',"runs":[{'
        b'"columnKind":"utf16CodeUnits","properties":' + encode_any(properties) + b',"results":[\n'
    )
    for index, result in enumerate(results):
        rules.setdefault(result["ruleId"])
        stream.write((b",\n" if index else b"") + encode_any(result))
    made = tool([*map(_descriptor, rules)], home_value("assay:__version__"))
    stream.write(b'\n],"tool":' + encode_any(made) + b"}]}\n")


def _descriptor(rule: str) -> dict[str, Any]:
    kind, _, name = rule.partition("/")
    holds, fix = _HELP[kind]
    return descriptor(rule, holds.format(name), fix)


EXPORTER = Exporter(
    "sarif", "SARIF 2.1.0: failures at their lines, for code scanning", (".sarif",), Sarif
)


# --- decisions


def decision(
    document: Decision,
    *,
    places: Mapping[str, ResultSource],
    file: str | None,
    texts: Texts = NO_TEXTS,
) -> bytes:
    """A decision: one result for each rule that does not hold, and for each sample that newly
    fails. `places` says where the run of a sample is, `file` is the candidate's; a rule is shown at
    the first sample that it names. A rule that is open under a promotion is a note.
    """
    made = io.BytesIO()
    properties = {
        "outcome": document.outcome,
        "confidence": confidence(document),
        **{
            USED.get(name, name): operation_text(name, item)
            for name, item in document.operations.items()
        },
        "criteria": {
            name: {"baseline": item.baseline, "candidate": item.candidate}
            for name, item in document.criteria.items()
        },
        "policy": document.policy,
        "scoringSystem": document.scoring_system,
        "gradingSystem": document.grading_system,
    }
    results = [*_rules(document, places, file), *_failures_of(document, places, file, texts)]
    if document.outcome == "promote":
        for result in results:
            if not result.pop("violated", False):
                result["level"] = "note"
    elif not results:
        text = f"{document.outcome.replace('_', ' ')}: {document.reason}"
        results.append(_result("decision", text, _place(file, 1)))
    for result in results:
        result.pop("violated", None)
    _write(made, results, properties)
    return made.getvalue()


def named_samples(document: Decision) -> set[str]:
    """The samples that a decision names."""
    named = {name for rule in document.rules for name in _samples(rule.evidence)}
    failing = {item.sample for item in new_failures(document)}
    return named | failing | {worse.sample for worse in document.worse}


def _samples(evidence: Any) -> Iterator[str]:
    if isinstance(evidence, str):
        yield evidence
    elif isinstance(evidence, dict):
        for value in evidence.values():
            yield from _samples(value)
    elif isinstance(evidence, list | tuple):
        for value in evidence:
            yield from _samples(value)


def _rules(
    document: Decision, places: Mapping[str, ResultSource], file: str | None
) -> Iterator[dict[str, Any]]:
    whole = _place(file, 1)
    for rule in document.rules:
        word = rule_word(rule)
        if word == "holds":
            continue
        made = _result(f"rule/{rule.id}", f"{rule.id} {_IS[word]}: {rule.reason}", whole)
        made["violated"] = word == "violated"
        named = [name for name in dict.fromkeys(_samples(rule.evidence)) if name in places]
        locations = [
            _place(places[name].file or "", places[name].line)
            for name in named
            or [sample.sample for sample in document.worse if sample.sample in places]
        ]
        if locations:
            made["locations"] = locations[:1]
            made["relatedLocations"] = [
                {"id": number, **place} for number, place in enumerate(locations[1:RELATED], 1)
            ]
        yield made


_IS = {"open": "is open", "violated": "is violated"}


def _failures_of(
    document: Decision, places: Mapping[str, ResultSource], file: str | None, texts: Texts
) -> Iterator[dict[str, Any]]:
    """A result for each sample that newly fails, at its run."""
    for item in new_failures(document):
        facts = failure_facts(item, texts.get(item.sample)).pairs
        told = "; ".join(f"{label}: {text}" for label, text in facts)
        text = f"{sample_label(document, item.sample)} {item.verdict.values[2]}. {told}"
        place = places.get(item.sample) or _place(file, 1)
        made = _result("new-failure", text, place, run=item.sample)
        made["violated"] = item.shown and not item.accepted
        yield made
