"""The operations of the tool-schema vectors under odd inputs: the published vectors, a table of our
own, and no input that makes one fall over.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from assay.cli.conform import OPS, REQUIRED, differs
from assay.errors import AssayError
from checkout import SHARED
from examples import repeats

GRADER = {"kind": "human", "name": "ada", "version": "1"}
WHEN = "2026-05-30T10-15-00Z"
INDEX = {
    "indexVersion": 2,
    "namespace": "a",
    "updatedAt": "any text",
    "status": "pending",
    "description": {"status": "pending"},
    "skills": {},
}
ANY_ERROR = {"error": True}


def actual(op: str, given: Any) -> Any:
    """What an operation gives; a refusal as `assay conform` shows it. Anything else that it raises
    is a fault and fails the test.
    """
    try:
        return OPS[op](given)
    except AssayError as error:
        return {"error": error.code}


def number(text: str) -> Decimal:
    return Decimal(text)


@cache
def annex_base() -> dict[str, Any]:
    return json.loads((SHARED / "vectors" / "annex-base.json").read_text(), parse_float=Decimal)


@cache
def vectors() -> list[dict[str, Any]]:
    return json.loads((SHARED / "vectors" / "flowmcp.json").read_text(), parse_float=Decimal)


def mode(*pairs: tuple[Any, Any]) -> dict[str, Any]:
    return {"entries": [{"gradingMode": mode_, "aggregateGrade": grade} for mode_, grade in pairs]}


# --- the published vectors


@pytest.mark.req(
    "F-014",
    "F-018",
    "F-028",
    "F-046",
    "F-070",
    "F-072",
    "F-083",
    "F-089",
    "F-091",
    "F-104",
    "F-105",
    "F-106",
    "F-117",
    "F-131",
)
def test_every_tool_schema_vector_of_a_required_operation_is_met(shared: Path, assay: Any) -> None:
    done = assay("conform", shared / "vectors" / "flowmcp.json", "--json")
    found = done.json()
    assert [
        (one["name"], one["difference"]) for one in found["cases"] if one["status"] == "failed"
    ] == []
    assert (done.code, found["unsupported_required"]) == (0, [])
    assert not {one["op"] for one in found["cases"] if one["status"] == "unsupported"} & set(
        REQUIRED
    )


# --- a table of odd inputs

TABLE: list[tuple[str, Any, Any]] = [
    # scores
    ("score.validate", {"score": 1}, {"valid": True, "error": None}),
    ("score.validate", {"score": number("5.000")}, {"valid": True}),
    (
        "score.validate",
        {"score": number("5.00000000000000000000001")},
        {"valid": False, "error": "SCO-001"},
    ),
    (
        "score.validate",
        {"score": number("0.99999999999999999999999")},
        {"valid": False, "error": "SCO-001"},
    ),
    ("score.validate", {"score": number("1e400")}, {"valid": False, "error": "SCO-001"}),
    ("score.validate", {"score": 10**120}, {"valid": False, "error": "SCO-001"}),
    ("score.validate", {"score": -0.0}, {"valid": False, "error": "SCO-001"}),
    ("score.validate", {"score": "3.0"}, {"valid": False, "error": "SCO-003"}),
    ("score.validate", {"score": "Pass"}, {"valid": False, "error": "SCO-003"}),
    ("score.validate", {"score": "\ud800"}, {"valid": False, "error": "SCO-003"}),
    ("score.validate", {"score": True}, {"valid": False, "error": True}),
    ("score.validate", {"score": None}, {"valid": False, "error": True}),
    ("score.validate", {"score": [4]}, {"valid": False, "error": True}),
    ("score.validate", {}, {"valid": False, "error": True}),
    (
        "score.weighted_sum",
        {"answers": []},
        {"sum": 0, "weightSum": 0, "normalizedScore": None, "warning": None, "error": None},
    ),
    (
        "score.weighted_sum",
        {"answers": [{"score": "stale", "weight": 3}]},
        {"sum": 0, "weightSum": 0, "normalizedScore": None, "warning": True, "error": None},
    ),
    (
        "score.weighted_sum",
        {"answers": [{"score": 4, "weight": 0}]},
        {"sum": 0, "weightSum": 0, "normalizedScore": None},
    ),
    (
        "score.weighted_sum",
        {
            "answers": [
                {"score": 4, "weight": number("1e-300")},
                {"score": 2, "weight": number("1e-300")},
            ]
        },
        {"normalizedScore": 3},
    ),
    (
        "score.weighted_sum",
        {"answers": [{"score": 4, "weight": number("1e300")}, {"score": 1, "weight": 1}]},
        {"normalizedScore": 4},
    ),
    ("score.weighted_sum", {"answers": [{"score": "n/a", "weight": -1}]}, {"error": "SCO-004"}),
    ("score.weighted_sum", {"answers": [{"score": 4, "weight": True}]}, ANY_ERROR),
    ("score.weighted_sum", {"answers": [{"score": 4}]}, ANY_ERROR),
    ("score.weighted_sum", {"answers": [4]}, ANY_ERROR),
    ("score.weighted_sum", {"answers": {}}, ANY_ERROR),
    ("score.weighted_sum", {}, ANY_ERROR),
    (
        "na.validate",
        {"score": "n/a", "naReason": "requires-private-data"},
        {"valid": True, "error": None},
    ),
    (
        "na.validate",
        {"score": "n/a", "naReason": "Requires-Private-Data"},
        {"valid": False, "error": "NA-001"},
    ),
    (
        "na.validate",
        {"score": "n/a", "naReason": ["requires-private-data"]},
        {"valid": False, "error": "NA-001"},
    ),
    ("na.validate", {"score": "n/a", "naReason": True}, {"valid": False, "error": "NA-001"}),
    ("na.validate", {"score": "n/a"}, {"valid": False, "error": "NA-001"}),
    ("na.validate", {"score": 4, "naReason": None}, {"valid": True}),
    # grades
    (
        "grade.aggregate",
        {
            "scores": [number("4.5")] * 3,
            "weights": [number(x) for x in (".1", ".2", ".34")],
            "gradingTier": "group-bound",
        },
        {"rawGrade": "A"},
    ),
    (
        "grade.aggregate",
        {"scores": [4.5] * 3, "weights": [0.1, 0.2, 0.34], "gradingTier": "group-bound"},
        {"aggregateGrade": "A", "normalizedScore": 4.5},
    ),
    (
        "grade.aggregate",
        {"scores": [], "weights": None, "gradingTier": "autonomous"},
        {"aggregateGrade": None, "rawGrade": None, "status": "pending"},
    ),
    (
        "grade.aggregate",
        {"scores": [5, 1], "weights": [0, 0], "gradingTier": "autonomous"},
        {"aggregateGrade": None, "status": "pending"},
    ),
    (
        "grade.aggregate",
        {
            "scores": ["x"],
            "gradingTier": "autonomous",
            "categoricalVeto": {"triggeredBy": "illegal-content"},
        },
        {"status": "rejected"},
    ),
    (
        "grade.aggregate",
        {
            "scores": [5],
            "gradingTier": "autonomous",
            "categoricalVeto": {"triggeredBy": "x", "evidence": "e"},
        },
        ANY_ERROR,
    ),
    (
        "grade.aggregate",
        {"scores": [5], "gradingTier": "autonomous", "categoricalVeto": False},
        ANY_ERROR,
    ),
    ("grade.aggregate", {"scores": [5], "gradingTier": "Autonomous"}, ANY_ERROR),
    ("grade.aggregate", {"scores": [5]}, ANY_ERROR),
    ("grade.aggregate", {"scores": [5, 5], "weights": [1], "gradingTier": "autonomous"}, ANY_ERROR),
    ("grade.aggregate", {"scores": [5], "weights": [None], "gradingTier": "autonomous"}, ANY_ERROR),
    ("grade.aggregate", {"scores": 5, "gradingTier": "autonomous"}, ANY_ERROR),
    (
        "veto.apply",
        {"triggeredBy": ["malicious-module"], "evidence": "e", "graderIdentity": GRADER},
        {"error": "VET-001"},
    ),
    ("veto.apply", {}, {"error": "VET-001"}),
    ("veto.apply", {"triggeredBy": "ai-security-veto"}, {"error": "VET-002"}),
    (
        "veto.apply",
        {"triggeredBy": "ai-security-veto", "evidence": "e", "reasoning": "  "},
        {"error": "VET-003"},
    ),
    (
        "veto.apply",
        {
            "triggeredBy": "ai-security-veto",
            "evidence": "e",
            "reasoning": "r",
            "graderIdentity": "ada",
        },
        {"error": "VET-004"},
    ),
    (
        "veto.apply",
        {"triggeredBy": "malicious-module", "evidence": {"a": 1}, "graderIdentity": GRADER},
        {"aggregateGrade": "REJECTED"},
    ),
    (
        "veto.triggers",
        {"anything": 1},
        {
            "triggers": [
                "malicious-module",
                "api-key-domain-mismatch",
                "illegal-content",
                "ai-security-veto",
            ]
        },
    ),
    # statuses
    ("node.status", {"entries": []}, {"status": "pending"}),
    ("node.status", mode(("partial", "A"), ("partial", "F")), {"status": "pending"}),
    (
        "node.status",
        {
            "entries": [
                {
                    "gradingMode": "full",
                    "aggregateGrade": "REJECTED",
                    "schemaHashMatchesCurrent": False,
                }
            ]
        },
        {"status": "rejected"},
    ),
    (
        "node.status",
        {
            "entries": [
                {"gradingMode": "full", "aggregateGrade": "A", "schemaHashMatchesCurrent": None}
            ]
        },
        {"status": "pending"},
    ),
    (
        "node.status",
        {
            "entries": [
                {"gradingMode": "full", "aggregateGrade": "A", "schemaHashMatchesCurrent": 1}
            ]
        },
        {"status": "pending"},
    ),
    (
        "node.status",
        {
            "entries": [
                {"gradingMode": "full", "aggregateGrade": "E", "schemaHashMatchesCurrent": True}
            ]
        },
        ANY_ERROR,
    ),
    ("node.status", {"entries": [5]}, ANY_ERROR),
    ("node.status", {"entries": None}, ANY_ERROR),
    ("index.node_status", {"aggregateGrade": "B"}, {"status": "stable"}),
    ("index.node_status", {}, {"error": "IDX-001"}),
    ("index.node_status", {"aggregateGrade": "rejected"}, {"error": "IDX-007"}),
    ("index.node_status", {"aggregateGrade": ["A"]}, {"error": "IDX-007"}),
    ("index.node_status", {"aggregateGrade": True}, {"error": "IDX-007"}),
    ("stable.eligibility", {"entries": [], "threshold": "E"}, ANY_ERROR),
    ("stable.eligibility", {"entries": [], "threshold": ["B"]}, ANY_ERROR),
    (
        "stable.eligibility",
        {"entries": []},
        {"eligible": False, "reason": "no-gradings", "nodeStatus": "pending"},
    ),
    (
        "stable.eligibility",
        mode(("full", "REJECTED"), ("partial", "REJECTED")),
        {"eligible": False, "reason": "last-not-full", "nodeStatus": "rejected"},
    ),
    (
        "stable.eligibility",
        {**mode(("full", "F")), "threshold": "F"},
        {"eligible": True, "reason": "ok", "nodeStatus": "stable"},
    ),
    (
        "stable.eligibility",
        mode((None, "A")),
        {"eligible": False, "reason": "sequence-invalid", "nodeStatus": "blocked"},
    ),
    ("partial.sequence", {"entries": []}, {"valid": True, "error": None}),
    ("partial.sequence", mode(("FULL", "A")), {"valid": False, "error": "PRT-002"}),
    ("partial.sequence", mode((["full"], "A")), {"valid": False, "error": "PRT-002"}),
    (
        "partial.sequence",
        mode(("partial", "A"), ("half", "A")),
        {"valid": False, "error": "PRT-003"},
    ),
    ("partial.sequence", mode(("full", None), ("partial", None)), {"valid": True}),
    (
        "partial.build",
        {"base": {"gradingMode": "full", "aggregateGrade": "C"}, "answers": [{"score": 5}]},
        {"gradingMode": "partial", "aggregateGrade": "C"},
    ),
    (
        "partial.build",
        {"base": {"gradingMode": "partial", "aggregateGrade": "C"}, "answers": []},
        ANY_ERROR,
    ),
    ("partial.build", {"answers": []}, ANY_ERROR),
    ("index.rollup_status", {"nodeStatuses": []}, {"status": "pending"}),
    ("index.rollup_status", {"nodeStatuses": ["stable", "operational"]}, ANY_ERROR),
    ("index.rollup_status", {"nodeStatuses": [None]}, ANY_ERROR),
    ("index.rollup_status", {"nodeStatuses": "stable"}, ANY_ERROR),
    ("index.rollup_grade", {"grades": []}, {"grade": None}),
    ("index.rollup_grade", {"grades": ["A", "F", "REJECTED"]}, {"grade": "REJECTED"}),
    ("index.rollup_grade", {"grades": [["A"]]}, ANY_ERROR),
    (
        "index.schema_status",
        {"toolStatuses": [], "aggregateStatus": "stable"},
        {"status": "stable"},
    ),
    (
        "index.schema_status",
        {"toolStatuses": [], "aggregateStatus": "blocked"},
        {"status": "pending"},
    ),
    (
        "index.schema_status",
        {"toolStatuses": ["blocked"], "aggregateStatus": "rejected"},
        {"status": "rejected"},
    ),
    ("index.schema_status", {"toolStatuses": ["stable"]}, ANY_ERROR),
    ("precondition", {"members": ["stable"]}, {"passed": True, "error": None}),
    ("precondition", {"members": []}, {"passed": False, "error": "PRE-004"}),
    ("precondition", {}, {"passed": False, "error": "PRE-004"}),
    ("precondition", {"members": "stable"}, {"passed": False, "error": "PRE-004"}),
    ("precondition", {"members": ["stable", ["stable"]]}, {"passed": False, "error": "PRE-004"}),
    # the index
    ("index.validate", INDEX, {"valid": True, "error": None}),
    ("index.validate", {**INDEX, "indexVersion": number("2.0")}, {"valid": True}),
    ("index.validate", {**INDEX, "indexVersion": True}, {"valid": False, "error": "IDX-003"}),
    (
        "index.validate",
        {"indexVersion": 3, "status": "graded"},
        {"valid": False, "error": "IDX-003"},
    ),
    (
        "index.validate",
        {"indexVersion": 2, "status": "graded"},
        {"valid": False, "error": "IDX-007"},
    ),
    (
        "index.validate",
        {"indexVersion": 2, "namespace": "a", "about": {"status": "operational"}},
        {"valid": False, "error": "IDX-007"},
    ),
    ("index.validate", {"indexVersion": 2}, {"valid": False, "error": "IDX-001"}),
    (
        "index.validate",
        {"indexVersion": 2, "selectionId": "s", "updatedAt": "", "status": "operational"},
        {"valid": True},
    ),
    (
        "index.validate",
        {**INDEX, "schemas": [], "members": 5, "skills": None, "lockSnapshot": "x"},
        {"valid": True},
    ),
    # names
    ("selection.size", {"distinctNamespaces": 4}, {"outcome": "n/a"}),
    ("selection.size", {"distinctNamespaces": 10**30}, {"outcome": "A allowed"}),
    ("selection.size", {"distinctNamespaces": True}, ANY_ERROR),
    ("selection.size", {"distinctNamespaces": -1}, ANY_ERROR),
    ("selection.size", {"distinctNamespaces": "7"}, ANY_ERROR),
    ("selection.size", {}, ANY_ERROR),
    (
        "aging",
        {
            "dimension": "apiAvailability",
            "ageDays": number("14.000000000000000000001"),
            "score": "pass",
        },
        {"score": "stale"},
    ),
    (
        "aging",
        {"dimension": "apiAvailability", "ageDays": 14, "score": "fail"},
        {"score": "fail", "warning": None},
    ),
    (
        "aging",
        {"dimension": "apiAvailability ", "ageDays": 1000, "score": 4},
        {"score": 4, "warning": "GRD-WARN-001"},
    ),
    ("aging", {"dimension": None, "ageDays": 180, "score": 4}, {"score": 4, "warning": None}),
    ("aging", {"dimension": ["tosMatch"], "ageDays": 31, "score": 4}, {"score": 4}),
    ("aging", {"dimension": "tosMatch", "ageDays": -1, "score": 4}, ANY_ERROR),
    ("aging", {"dimension": "tosMatch", "ageDays": "31", "score": 4}, ANY_ERROR),
    ("aging", {"dimension": "tosMatch", "ageDays": True, "score": 4}, ANY_ERROR),
    ("aging", {"dimension": "tosMatch", "ageDays": 31, "score": 9}, ANY_ERROR),
    ("hash8", {"value": None}, {"canonical": "null"}),
    ("hash8", {"value": number("-0.0")}, {"canonical": "0"}),
    ("hash8", {"value": 2**53 + 1}, {"canonical": "9007199254740992"}),
    (
        "hash8",
        {"value": [1.0, number("1e21"), number("1e-7"), True]},
        {"canonical": "[1,1e+21,1e-7,true]"},
    ),
    (
        "hash8",
        {"value": {"schemaHash": 1, "selectionHash": 2, "aboutHash": 3, "a": {"schemaHash": 4}}},
        {"canonical": '{"a":{"schemaHash":4},"aboutHash":3}'},
    ),
    ("hash8", {"value": {"😀": 1, "ﬀ": 2, "z": 3}}, {"canonical": '{"z":3,"😀":1,"ﬀ":2}'}),
    ("hash8", {"value": "\ud800"}, {"canonical": '"\\ud800"'}),
    ("hash8", {"value": '\u2028\u0000"\\/'}, {"canonical": '"\u2028\\u0000\\"\\\\/"'}),
    ("hash8", {"value": 10**400}, ANY_ERROR),
    ("hash8", {}, ANY_ERROR),
    ("hash8.compare", {"a": {"x": 1.0}, "b": {"x": 1, "schemaHash": "y"}}, {"equal": True}),
    ("hash8.compare", {"a": True, "b": 1}, {"equal": False}),
    ("hash8.compare", {"a": 1}, ANY_ERROR),
    ("slug", {"schemaId": "a/b/c"}, {"slug": "a_b_c"}),
    ("slug", {"schemaId": ""}, ANY_ERROR),
    ("slug", {"schemaId": None}, ANY_ERROR),
    ("filename.grading", {"area": "x", "timestamp": "x", "basePersona": "X"}, {"error": "GRD-043"}),
    (
        "filename.grading",
        {"area": "single-test", "timestamp": "x", "basePersona": "X"},
        {"error": "GRD-041"},
    ),
    (
        "filename.grading",
        {"area": "single-test", "timestamp": "2026-02-30T10-15-00Z"},
        {"error": "GRD-041"},
    ),
    ("filename.grading", {"area": "single-test", "timestamp": f"{WHEN}\n"}, {"error": "GRD-041"}),
    (
        "filename.grading",
        {"area": "single-test", "timestamp": WHEN, "basePersona": "", "lens": ""},
        {"error": "GRD-042"},
    ),
    (
        "filename.grading",
        {"area": "single-test", "timestamp": WHEN, "basePersona": "a", "lens": "b/.."},
        {"error": "GRD-042"},
    ),
    (
        "filename.grading",
        {"area": "single-test", "timestamp": WHEN, "basePersona": None, "lens": None},
        {"filename": f"single-test--{WHEN}.json"},
    ),
    (
        "path.gradings",
        {"area": "namespace-description", "namespace": "n", "schema": "../x", "tool": 5},
        {"dir": "providers/n/_gradings"},
    ),
    ("path.gradings", {"area": "namespace-description", "namespace": ".."}, ANY_ERROR),
    ("path.gradings", {"area": "namespace-description", "namespace": "a/b"}, ANY_ERROR),
    ("path.gradings", {"area": "single-test", "namespace": "n", "schema": "s"}, ANY_ERROR),
    ("path.gradings", {"namespace": "n"}, ANY_ERROR),
    ("report.schema_id", {"schemaId": "a/b"}, {"valid": True}),
    ("report.schema_id", {"schemaId": "a//b"}, {"valid": False}),
    ("report.schema_id", {"schemaId": "/b"}, {"valid": False}),
    ("report.schema_id", {"schemaId": "a/"}, {"valid": False}),
    ("report.schema_id", {"schemaId": ["a/b"]}, {"valid": False}),
    ("report.schema_id", {}, {"valid": False}),
    (
        "report.filename",
        {"schemaId": "a/b", "date": "2026-05-30"},
        {"filename": "a_b-2026-05-30.json"},
    ),
    ("report.filename", {"schemaId": "a/b", "date": "2026-02-30"}, ANY_ERROR),
    ("report.filename", {"schemaId": "ab", "date": "2026-05-30"}, ANY_ERROR),
    ("report.filename", {"schemaId": "a/b"}, ANY_ERROR),
    ("resolve.latest", {"files": [], "logicalName": "a"}, {"file": None, "reason": "no-version"}),
    (
        "resolve.latest",
        {"files": [f"a--{WHEN}--00000000.json", f"ab--{WHEN}--00000000.json"], "logicalName": "ab"},
        {"file": f"ab--{WHEN}--00000000.json"},
    ),
    (
        "resolve.latest",
        {
            "files": ["a--2026-05-30T10-15Z.json", "a--2026-05-30T10-15-01Z.json"],
            "logicalName": "a",
        },
        {"file": "a--2026-05-30T10-15-01Z.json"},
    ),
    (
        "resolve.latest",
        {"files": ["a--z--2026-01-01T00-00-00Z.json", f"a--a--{WHEN}.json"], "logicalName": "a"},
        {"file": f"a--a--{WHEN}.json"},
    ),
    ("resolve.latest", {"files": [5], "logicalName": "a"}, ANY_ERROR),
    ("resolve.latest", {"files": []}, ANY_ERROR),
    (
        "schemahash.report",
        {"fileBytesUtf8": ""},
        {"schemaHash": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    ),
    ("schemahash.report", {}, ANY_ERROR),
    ("schemahash.report", {"fileBytesUtf8": 5}, ANY_ERROR),
    # the protocol
    ("prompts.build", {"schema": []}, ANY_ERROR),
    ("prompts.build", {}, ANY_ERROR),
    (
        "prompts.build",
        {"schema": {"description": None, "tools": None}, "skill": 5},
        {"dimensions": ["whenToUse", "parameters"]},
    ),
    (
        "cli.consume",
        {"scoringProtocol": "v1", "scores": [5, 5], "validationPassed": True},
        {"status": True, "grade": "B", "rawGrade": "A", "score": 5},
    ),
    (
        "cli.consume",
        {"scoringProtocol": "v1", "scores": [5, 5], "validationPassed": "yes"},
        {"grade": "F"},
    ),
    (
        "cli.consume",
        {"scoringProtocol": "v1", "scores": [5, 5], "validationPassed": 1},
        {"grade": "F"},
    ),
    ("cli.consume", {"scoringProtocol": "v1", "scores": [5, 5]}, {"grade": "F"}),
    (
        "cli.consume",
        {
            "scoringProtocol": "v1",
            "scores": [number("4.5"), number("3.5")],
            "validationPassed": True,
        },
        {"score": 4, "grade": "B"},
    ),
    (
        "cli.consume",
        {"scoringProtocol": "V1", "scores": [5, 5], "validationPassed": True},
        {"status": False, "reportWritten": False, "error": True},
    ),
    (
        "cli.consume",
        {"scores": [5, 5], "validationPassed": True},
        {"status": False, "reportWritten": False, "error": True},
    ),
    (
        "cli.consume",
        {"scoringProtocol": ["v1"], "scores": [5, 5], "validationPassed": True},
        {"status": False, "reportWritten": False, "error": True},
    ),
    (
        "cli.consume",
        {"scoringProtocol": "v1", "scores": [], "validationPassed": True},
        {"status": False, "error": True},
    ),
    (
        "cli.consume",
        {"scoringProtocol": "v1", "scores": [True, 5], "validationPassed": True},
        {"status": False, "error": True},
    ),
    (
        "cli.consume",
        {"scoringProtocol": "v1", "scores": ["5", 5], "validationPassed": True},
        {"status": False, "error": True},
    ),
    (
        "cli.consume",
        {
            "scoringProtocol": "v1",
            "scores": [number("5.0000000000000000001"), 5],
            "validationPassed": True,
        },
        {"status": False, "error": True},
    ),
    ("cli.consume", {"scoresDoc": None}, {"status": False, "reportWritten": False, "error": True}),
    ("cli.consume", {"file": "{"}, {"status": False, "reportWritten": False, "error": True}),
    (
        "cli.consume",
        {"file": '{"scoringProtocol": "v1", "scoringProtocol": "v1"}'},
        {"status": False, "error": True},
    ),
    ("cli.consume", {"file": None}, {"status": False, "error": True}),
    ("cli.consume", {}, {"status": False, "reportWritten": False, "error": True}),
    (
        "entry.add_answer",
        {"determinism": "deterministic", "score": "n/a", "naReason": "out-of-scope-prompt"},
        {"error": None},
    ),
    (
        "entry.add_answer",
        {"determinism": "non-deterministic", "score": "n/a", "naReason": "x"},
        {"error": "NA-001"},
    ),
    (
        "entry.add_answer",
        {
            "determinism": "non-deterministic",
            "score": 4,
            "selectionContext": {"groupId": "g", "personaIds": "neutral"},
        },
        {"error": "GRD-005"},
    ),
    (
        "entry.add_answer",
        {
            "determinism": "non-deterministic",
            "score": 4,
            "selectionContext": {"groupId": "g", "personaIds": [None]},
        },
        {"error": "GRD-005"},
    ),
    (
        "entry.add_answer",
        {
            "determinism": "non-deterministic",
            "score": 4,
            "selectionContext": {"personaIds": ["neutral"]},
        },
        ANY_ERROR,
    ),
    (
        "entry.add_answer",
        {
            "determinism": "non-deterministic",
            "score": 4,
            "selectionContext": {"groupId": "g", "personaIds": ["neutral"]},
        },
        {"error": None},
    ),
]


@pytest.mark.parametrize(("op", "given", "expected"), TABLE)
def test_an_operation_follows_its_row_to_the_letter(op: str, given: Any, expected: Any) -> None:
    before = copy.deepcopy(given)
    assert differs(expected, actual(op, given)) is None
    assert given == before


def test_the_table_leaves_out_no_required_operation_of_this_family(shared: Path) -> None:
    wanted = {case["op"] for case in vectors()} & set(REQUIRED)
    assert wanted - {op for op, _, _ in TABLE} == {"annex.validate"}


ANNEX: list[tuple[dict[str, Any], tuple[bool, bool]]] = [
    ({}, (True, True)),
    ({"aggregateGrade": "REJECTED"}, (True, False)),
    ({"aggregateGrade": "A"}, (True, False)),
    ({"aggregateGrade": None}, (False, False)),
    ({"form": "assay.grading-entry/1"}, (False, False)),
    ({"form": "assay.grading-entry/1", "harness": "assay"}, (False, False)),
    ({"harness": "assay"}, (False, False)),
    ({"area": "selection-aggregate"}, (False, False)),
    ({"scoringSystem": "scoringSystem/١.0.0"}, (False, False)),
    ({"scoringSystem": "scoringSystem/1.0.0\n"}, (False, False)),
    ({"gradings": []}, (False, False)),
    ({"gradings": None}, (False, False)),
    ({"gradings": [5]}, (False, False)),
    ({"categoricalVeto": False}, (False, False)),
    ({"unknown": 1}, (False, False)),
]


@pytest.mark.req("F-036", "F-044", "F-059", "X-18")
@pytest.mark.parametrize(("change", "expected"), ANNEX)
def test_an_entry_is_valid_by_its_form_and_then_by_the_rules_beyond_it(
    shared: Path, change: dict[str, Any], expected: tuple[bool, bool]
) -> None:
    found = actual("annex.validate", {"change": change, "$base": annex_base()})
    assert (found["schemaValid"], found["semanticallyValid"]) == expected


@pytest.mark.req("X-18")
@pytest.mark.parametrize(
    "change",
    [
        {"score": True},
        {"score": 5.1},
        {"weight": -1},
        {"timestamp": "2026-02-30T00:00:00Z"},
        {"questionId": "Q-"},
        {"naReason": "requires-private-data"},
    ],
)
def test_an_answer_out_of_form_or_rule_spoils_its_entry(
    shared: Path, change: dict[str, Any]
) -> None:
    answers = annex_base()["gradings"]
    found = actual(
        "annex.validate",
        {"change": {"gradings": [{**answers[0], **change}, *answers[1:]]}, "$base": annex_base()},
    )
    assert found["semanticallyValid"] is False


@pytest.mark.parametrize("entry", [5, "x", [], True])
def test_what_is_no_entry_is_not_valid(entry: Any) -> None:
    assert actual("annex.validate", {"entry": entry}) == {
        "schemaValid": False,
        "semanticallyValid": False,
    }


# --- what is wrong today

WRONG: list[tuple[str, str, Any, Any]] = [
    (
        "other digits are not timestamp",
        "filename.grading",
        {"area": "single-test", "timestamp": "٢٠٢٦-05-30T10-15-00Z"},
        {"error": "GRD-041"},
    ),
    (
        "other digits are not date",
        "report.filename",
        {"schemaId": "a/b", "date": "٢٠٢٦-05-30"},
        ANY_ERROR,
    ),
    (
        "other digits are not version",
        "resolve.latest",
        {"files": ["a--٢٠٢٧-05-30T10-15-00Z--bbbbbbbb.json"], "logicalName": "a"},
        {"file": None, "reason": "no-version"},
    ),
    (
        "a refused sequence keeps its verdict",
        "partial.sequence",
        {},
        {"valid": False, "error": True},
    ),
    (
        "an entry that is not an object has no known mode",
        "partial.sequence",
        {"entries": [5]},
        {"valid": False, "error": "PRT-002"},
    ),
    (
        "a sequence of no objects is invalid",
        "stable.eligibility",
        {"entries": [5]},
        {"eligible": False, "reason": "sequence-invalid", "nodeStatus": "blocked"},
    ),
    (
        "a veto is an object",
        "grade.aggregate",
        {"scores": [5], "gradingTier": "autonomous", "categoricalVeto": "malicious-module"},
        ANY_ERROR,
    ),
    (
        "blanks are not evidence",
        "veto.apply",
        {"triggeredBy": "illegal-content", "evidence": "  ", "graderIdentity": GRADER},
        {"error": "VET-002"},
    ),
    (
        "updatedAt is a string",
        "index.validate",
        {**INDEX, "updatedAt": 5},
        {"valid": False, "error": True},
    ),
    (
        "a namespace is a string",
        "index.validate",
        {**INDEX, "namespace": None},
        {"valid": False, "error": True},
    ),
    (
        "an aged n/a is stale by the table",
        "aging",
        {"dimension": "apiAvailability", "ageDays": 15, "score": "n/a"},
        {"score": "stale"},
    ),
    ("7.0 is 7", "selection.size", {"distinctNamespaces": number("7.0")}, {"outcome": "A allowed"}),
]


@pytest.mark.parametrize(("op", "given", "expected"), [row[1:] for row in WRONG])
def test_an_operation_follows_its_row_also_here(op: str, given: Any, expected: Any) -> None:
    assert differs(expected, actual(op, given)) is None


FAULTS: list[tuple[str, str, Any]] = [
    (
        "scores beside a document without any",
        "cli.consume",
        {
            "scoresDoc": {"scoringProtocol": "v1", "scores": []},
            "scores": [4, 4],
            "validationPassed": True,
        },
    ),
    (
        "a number that no double holds",
        "prompts.build",
        {"schema": {"description": "x", "tools": {"a": number("1e400")}}},
    ),
    ("half a surrogate pair in a file", "schemahash.report", {"fileBytesUtf8": "\ud800"}),
    ("a change that is a number", "annex.validate", {"change": 5}),
    ("a change that is a list", "annex.validate", {"change": [1]}),
    ("a key that is half a surrogate pair", "annex.validate", {"change": {"\ud800": 1}}),
    ("an override that is a number", "lock.build", {"override": 5}),
    ("skills that are not object", "skills.crossref", {"L1": None, "L2": {}, "L3": []}),
]


@pytest.mark.parametrize(("op", "given"), [row[1:] for row in FAULTS])
def test_no_input_makes_an_operation_fall_over(shared: Path, op: str, given: Any) -> None:
    actual(op, {**given, "$base": annex_base()} if op == "annex.validate" else given)


@pytest.mark.parametrize(
    ("op", "given"),
    [
        ("slug", '{"schemaId": "a/\\ud800"}'),
        ("prompts.build", '{"schema": {"description": "\\ud800", "tools": {}}}'),
        (
            "veto.apply",
            (
                '{"triggeredBy": "illegal-content", "evidence": "\\ud800", "graderIdentity":'
                ' {"kind": "human", "name": "a", "version": "1"}}'
            ),
        ),
    ],
)
def test_half_a_surrogate_pair_in_one_case_costs_no_other_case(
    assay: Any, tmp_path: Path, op: str, given: str
) -> None:
    (tmp_path / "cases.json").write_text(
        f'[{{"name": "x", "op": "{op}", "input": {given}}}, {{"name": "y", "op": "veto.triggers",'
        ' "input": {}}]'
    )
    done = assay("conform", "cases.json", "--json")
    assert [one["status"] for one in done.json()["cases"]] == ["computed", "computed"]


# --- every operation, with anything anywhere

ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    10**120,
    number("1e400"),
    1.5,
    "",
    "x",
    "n/a",
    "A",
    "é\u0000",
    "../..",
    [],
    [1],
    [None],
    [[]],
    [{}],
    {},
    {"a": 1},
    ["full"],
    [{"gradingMode": ["full"]}],
]


def twisted(value: Any) -> Iterator[Any]:
    """A value with one part of it left out or replaced by something odd, each in turn."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {name: other for name, other in value.items() if name != key}
            for changed in (*ODD, *twisted(inner)):
                yield {**value, key: changed}
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            for changed in (*ODD, *twisted(inner)):
                yield [*value[:index], changed, *value[index + 1 :]]


def _operations() -> list[str]:
    if not SHARED.is_dir():
        return []
    return sorted({case["op"] for case in vectors()} & set(REQUIRED))


@pytest.mark.parametrize("op", _operations())
def test_whatever_stands_in_a_vector_an_operation_answers_or_refuses(op: str) -> None:
    given = [case["input"] for case in vectors() if case["op"] == op][: repeats(1, 4)]
    for case in given:
        for changed in ({}, *twisted(case)):
            found = actual(
                op, {**changed, "$base": annex_base()} if op == "annex.validate" else changed
            )
            assert isinstance(found, dict)
