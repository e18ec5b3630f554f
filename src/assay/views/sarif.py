"""SARIF 2.1.0, the form in which code hosts show results at the line they belong to: its parts, and
grades and decisions.

Rules, findings and sentences are made elsewhere; this module only writes them. Code scanning
refuses a document with a result that has no line in a file. A finding that belongs to no file, such
as one of a live server, is placed at the first line of assay.yaml, with its name. A run that passed
has no result. A document that can't be read has one, so that an empty list never looks like a pass.
"""

from __future__ import annotations

import io
import os
import re
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from assay.canon import encode_any
from assay.errors import count, printable
from assay.records.grade_line import as_line
from assay.records.samples import NO_TEXTS, Texts
from assay.registry import home_value, is_path
from assay.views.charts.decisions import rule_word
from assay.views.decision import (
    USED,
    confidence,
    failure_facts,
    new_failures,
    operation_text,
    sample_label,
)
from assay.views.exporters import Exporter, ResultSource
from assay.views.grade_line import bar_text, gate_text, score_text
from assay.views.spooled import Spooled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from assay.records.decision import Decision
    from assay.records.grade import Payload

SCHEMA_URI = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
VERSION = "2.1.0"
LEVELS = ("error", "warning", "note")
"""How much a result matters, most first."""
FINGERPRINT = "assay/v1"
"""The name under which a result is known from run to run; a new way to compute it gets a new
name.
"""
NO_FILE = "assay.yaml"
"""The file in which results of no file are placed."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def tool(rules: list[dict[str, Any]], version: str) -> dict[str, Any]:
    """Assay, as the tool that found the results, with the rules it looked at."""
    driver = {"name": "Assay", "semanticVersion": version, "version": version, "rules": rules}
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", version):
        del driver["semanticVersion"]
    return {"driver": driver}


def is_file(source: str) -> bool:
    """Whether findings come from a file; a URL or the command of a server is none.

    >>> [
    ...     is_file(source)
    ...     for source in ("schemas/a.mjs", "https://example.com/mcp", "npx some-server --stdio")
    ... ]
    [True, False, False]
    """
    return not _SCHEME.match(source) and (
        " " not in source or bool(re.search(r"\.(mjs|js|json|ya?ml|md)$", source))
    )


def file_uri(source: str) -> str:
    r"""A file as a relative reference: `/` between folders, everything else that a URI does not
    allow percent-encoded.

    >>> file_uri("a b\\ü:1.mjs")
    'a%20b/%C3%BC%3A1.mjs'
    """
    plain = os.fsencode(source.replace("\\", "/"))  # a name may be bytes that are not UTF-8
    if _DRIVE.match(source):
        return "file:///" + quote(plain, safe="/:")
    if plain.startswith(b"/"):
        return "file://" + quote(plain, safe="/")
    return quote(plain.removeprefix(b"./"), safe="/")


def descriptor(name: str, holds: str, fix: str, level: str = "error") -> dict[str, Any]:
    """A rule: what holds where it is kept, and what to do where it is not."""
    return {
        "id": name,
        "name": "".join(part.capitalize() for part in re.split(r"[^A-Za-z0-9]+", name)),
        "shortDescription": message(holds),
        "help": message(fix),
        "defaultConfiguration": {"level": checked_level(level)},
    }


def message(text: str) -> dict[str, str]:
    """A message without links: text in which a viewer would find one (SARIF 2.1.0, section 3.11.6)
    is escaped.
    """
    return {"text": re.sub(r"[\\\[\]]", r"\\\g<0>", text) if "](" in text else text}


def file_place(file: str, line: int | None) -> dict[str, Any]:
    """A location in a file: at its first line where no other is known."""
    region = {"startLine": line if line is not None and line > 0 else 1}
    return {"physicalLocation": {"artifactLocation": {"uri": file_uri(file)}, "region": region}}


def fingerprint(*names: str) -> str:
    """What a result is known by from run to run. Neither its line nor its wording goes in: it stays
    the same one when something above it moves or a message is put better.
    """
    return sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def checked_level(level: str) -> str:
    """The level, if SARIF knows it."""
    if level not in LEVELS:
        raise ValueError(f"{level!r} is not one of {', '.join(LEVELS)}")
    return level


# --- grades and decisions


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
