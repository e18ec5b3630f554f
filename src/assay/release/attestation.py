"""A decision or a set of grades as an in-toto statement that others can check: what was judged, by
which policies, with which result.

The statement is a verification summary; its envelope is DSSE, signed with a local Ed25519 key or
not at all (see `signing`). The subject is the candidate and nothing else: the baseline is named
separately, as what the candidate was compared with. The result is derived from the parts of the
document, and a document whose parts disagree is refused. `attestation_check` verifies one.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote

from assay.canon import canonical, digest, time_text
from assay.errors import InputError
from assay.records.decision import DECISION_SCHEMA, EASED, MIXED_VERSIONS, SAME_EVIDENCE
from assay.records.grade import GRADES_SCHEMA
from assay.release.signing import PAYLOAD_TYPE, sign

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/verification_summary/v1"
VERIFIER = "pkg:generic/assay"
PASSED, FAILED = "PASSED", "FAILED"
OUTCOMES = {
    "promote": PASSED,
    "hold": FAILED,
    "reject": FAILED,
    "not_enough_evidence": FAILED,
    "passed": PASSED,
    "failed": FAILED,
}
"""The verification result of each outcome."""

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
CODE = "REL-007"


class Subject(NamedTuple):
    """A file that was judged, or a baseline: its name, and the SHA-256 of the bytes that were
    read.
    """

    name: str
    sha256: str


EMPTY = sha256(b"").hexdigest()


def statement(
    document: Mapping[str, Any],
    *,
    subjects: Sequence[Subject],
    now: datetime,
    baseline: Sequence[Subject] = (),
) -> dict[str, Any]:
    """The in-toto statement of a decision (`assay.decision/1`) or of grades (`assay.grades/1`).

    `subjects` are the files that were judged, `baseline` what they were compared with, `now` is
    when. The result is PASSED only where every part of the document says so; a document that
    contradicts itself, or names no policy with its digest, is refused.

    >>> from datetime import datetime, UTC
    >>> made = statement(
    ...     {
    ...         "schema": "assay.decision/1",
    ...         "outcome": "hold",
    ...         "rules": [{"id": "score_non_inferiority", "holds": None}],
    ...         "policy": "release@1",
    ...         "digests": {"policy": "sha256:" + 64 * "0"},
    ...         "scoringSystem": "scoringSystem/1.0.0",
    ...         "gradingSystem": "gradingSystem/1.0.0",
    ...     },
    ...     subjects=[Subject("runs.jsonl", 64 * "a")],
    ...     now=datetime(2026, 1, 2, tzinfo=UTC),
    ... )
    >>> made["predicate"]["verificationResult"], made["predicate"]["timeVerified"]
    ('FAILED', '2026-01-02T00:00:00Z')
    """
    if not subjects:
        raise InputError(
            CODE, "an attestation must name the files that were judged, and none is given."
        )
    if now.tzinfo is None:
        raise InputError(CODE, "the time has no time zone.", fix="Pass one with a time zone.")
    if len({subject.name for subject in subjects}) != len(subjects):
        raise InputError(CODE, "two of the judged files have the same name.")
    if empty := next((subject.name for subject in subjects if subject.sha256 == EMPTY), None):
        raise InputError(
            CODE,
            "is empty, so there is nothing to attest.",
            where=empty,
            fix="Leave it out, or find out what it should contain.",
        )
    return {
        "_type": STATEMENT_TYPE,
        "subject": list(map(_resource, subjects)),
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "timeVerified": time_text(now),
            "resourceUri": quote(subjects[0].name, safe="/:@._-~"),
            "assay:baseline": list(map(_resource, baseline)),
            **stated(document),
        },
    }


def stated(document: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the predicate that follows from the document alone."""
    schema = document.get("schema")
    if schema == DECISION_SCHEMA:
        outcome, source = _decided(document), document
        digests = dict(_digests(document.get("digests")))
    elif schema == GRADES_SCHEMA:
        results = document.get("results") or []
        source = document.get("counts") or {}
        clean = not document.get("faults") and not source.get("faults")
        outcome = (
            "passed"
            if results and clean and all(result.get("passed") is True for result in results)
            else "failed"
        )
        policies = {(result.get("digests") or {}).get("policy") for result in results}
        if len(policies) > 1:
            raise InputError(
                "REL-008",
                "the grades were made under several policies.",
                fix="Attest each set separately.",
            )
        digests = dict(_digests({"policy": next(iter(policies), None)}))
    else:
        raise InputError(
            "REL-008", f"only decisions and grades can be attested, not {str(schema)[:60]!r}."
        )
    texts = [source.get(name) for name in ("policy", "scoringSystem", "gradingSystem")]
    if not all(isinstance(text, str) and text for text in texts) or "policy" not in digests:
        raise InputError(
            "REL-008",
            "the document does not name the policy, its digest and the systems it was made under.",
        )
    policy, scoring, grading = map(str, texts)
    result = OUTCOMES[outcome]
    return {
        "verifier": {
            "id": VERIFIER,
            "version": {"scoringSystem": scoring, "gradingSystem": grading},
        },
        "policy": {
            "uri": f"assay:policy/{quote(policy, safe='@._-')}",
            "digest": {"sha256": digests["policy"]},
        },
        "inputAttestations": [
            {"uri": f"assay:digest/{quote(name, safe='._-')}", "digest": {"sha256": digest_text}}
            for name, digest_text in sorted(digests.items())
            if name != "policy"
        ],
        "verificationResult": result,
        # We don't verify an SLSA level; the specification allows a custom name that says so.
        "verifiedLevels": [f"ASSAY_{outcome.upper()}" if result == PASSED else FAILED],
        "assay:outcome": outcome,
        "assay:gradedBy": dict((document.get("fingerprint") or {}).get("fields") or {}),
        "assay:terms": _terms(document),
        "assay:result": {
            "schema": schema,
            "digest": {"sha256": digest(document).removeprefix("sha256:")},
        },
    }


def _resource(subject: Subject) -> dict[str, Any]:
    return {"name": subject.name, "digest": {"sha256": subject.sha256}}


def _terms(document: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that made the decision more lenient, so that readers of the attestation see it
    without opening the decision.
    """
    notes = [str(note) for note in document.get("notes") or []]
    terms = {
        "same_evidence": next((note for note in notes if note.startswith(SAME_EVIDENCE)), None),
        "mixed_versions": next((note for note in notes if note.startswith(MIXED_VERSIONS)), None),
        "eased_policy": next((note for note in notes if note.startswith(EASED)), None),
        "unpaired": document.get("paired") is False,
        "quarantined": (document.get("missing") or {}).get("quarantined") or [],
        "not_in_plan": document.get("unplanned") or [],
        "plan_changed": (document.get("plan") or {}).get("changed") or [],
        "overrides": document.get("overrides") or [],
        "changed_samples_left_out": _left_out(document.get("overlap") or {}),
    }
    return {name: value for name, value in terms.items() if value}


def _left_out(overlap: Mapping[str, Any]) -> list[str]:
    return list(overlap.get("changed") or []) if overlap.get("changed_set_aside") else []


def _decided(document: Mapping[str, Any]) -> str:
    outcome, rules = document.get("outcome"), document.get("rules")
    if outcome not in OUTCOMES or outcome in ("passed", "failed"):
        raise InputError("REL-008", f"unknown outcome {str(outcome)[:60]!r}.")
    if outcome == "promote" and (not rules or not all(rule.get("holds") is True for rule in rules)):
        raise InputError(
            "REL-008", "the decision promotes although a rule does not hold, or no rule is listed."
        )
    return str(outcome)


def _digests(tree: Any, name: str = "") -> list[tuple[str, str]]:
    """Every digest of a document, by its dotted name."""
    if isinstance(tree, Mapping):
        return [
            pair
            for key, value in tree.items()
            for pair in _digests(value, f"{name}.{key}" if name else str(key))
        ]
    match = _DIGEST.fullmatch(tree) if isinstance(tree, str) else None
    return [(name, match[1])] if match else []


def envelope(statement: Mapping[str, Any], *, key: str | None) -> dict[str, Any]:
    """The DSSE envelope of a statement, signed with the Ed25519 private key in the PEM file `key`;
    None leaves it unsigned.
    """
    payload = canonical(dict(statement))
    signatures = [] if key is None else [sign(payload, key)]
    return {
        "payload": b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": signatures,
    }
