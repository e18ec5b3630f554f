"""A decision or a set of grades as an in-toto statement that others can check: what was judged, by
which policies, with which result.

The statement is a verification summary; its envelope is DSSE, signed with a local Ed25519 key or
not at all. The subject is the candidate and nothing else: the baseline is named
separately, as what the candidate was compared with. The result is derived from the parts of the
document, and a document whose parts disagree is refused; verifying one
repeats that.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote

from msgspec import Meta, Struct, field

from assay.canon import canonical, digest, time_text
from assay.errors import Fault, InputError, UsageError
from assay.files.inputs import file_digest, open_input
from assay.files.json_files import Document, json_fault, parse_json, read_json
from assay.installing import install_hint
from assay.records.decision import DECISION_SCHEMA, EASED, MIXED_VERSIONS, SAME_EVIDENCE
from assay.records.grade import GRADES_SCHEMA
from assay.records.reading import read_record

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_CODE = "REL-007"
_UNSIGNED = "the attestation is not signed"


class Signature(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One signature. The key id is only a hint."""

    sig: str
    keyid: str = ""


def signed_bytes(payload: bytes, *, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """What a DSSE signature is made over: type and payload, each with its length, so that neither
    can pass for a part of the other.

    >>> signed_bytes(b"hi", payload_type="t")
    b'DSSEv1 1 t 2 hi'
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign(payload: bytes, key: str) -> dict[str, str]:
    """The signature over a payload, with the Ed25519 private key in a PEM file."""
    private = _private_key(key)
    return {
        "keyid": _key_id(private.public_key()),
        "sig": b64encode(private.sign(signed_bytes(payload))).decode(),
    }


def check_signatures(
    signatures: Sequence[Signature], payload: bytes, key: str | None, where: str
) -> tuple[bool | None, str]:
    """Whether one of the signatures was made with the key whose public half is in a PEM file, and
    why.

    Without a key nothing is checked; the reason then lists the key ids that the file claims.
    """
    if key is None:
        claimed = ", ".join(signature.keyid[:80] or "without a key id" for signature in signatures)
        state = f"it claims to be signed by {claimed}" if claimed else _UNSIGNED
        return None, f"signature not checked: {state}"
    public = _public_key(key)
    if not signatures:
        return False, _UNSIGNED
    from cryptography.exceptions import InvalidSignature  # `_public_key` reports a missing extra

    own = _key_id(public)
    valid = False
    for signature in signatures:
        try:
            public.verify(decoded(signature.sig, "signature", where), signed_bytes(payload))
            valid = True
        except InvalidSignature:
            continue
    if not valid:
        why = "someone else signed it, or it was changed since"
        return False, f"no signature matches the key {own}: {why}"
    others = len(signatures) - 1
    more = f"; other signatures that were not checked: {others}" if others else ""
    return True, f"signed with the key {own}{more}"


def decoded(text: str, what: str, where: str) -> bytes:
    """Base64, in its one canonical spelling: characters that a lenient reader skips could hide a
    second meaning.
    """
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = None
    if data is None or b64encode(data).decode() != text:
        raise InputError(_CODE, f"the {what} is not base64.", where=where)
    return data


def _crypto() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise UsageError(
            "CLI-001",
            "signatures need the package cryptography.",
            fix=f"Run: {install_hint('sign')}",
        ) from None
    return serialization, ed25519


def _pem(path: str) -> bytes:
    with open_input(path) as stream:
        return stream.read(64 * 1024)


def _private_key(path: str) -> Any:
    serialization, ed25519 = _crypto()
    try:
        key = serialization.load_pem_private_key(_pem(path), password=None)
    except (ValueError, TypeError) as error:
        raise InputError(
            _CODE,
            f"contains no private key in PEM form: {error}.",
            where=path,
            fix="openssl genpkey -algorithm ed25519 makes one.",
        ) from None
    return _checked_kind(key, ed25519.Ed25519PrivateKey, path)


def _public_key(path: str) -> Any:
    serialization, ed25519 = _crypto()
    data = _pem(path)
    if b"PRIVATE KEY" in data:
        raise InputError(
            _CODE,
            "is a private key.",
            where=path,
            fix="Pass the public key: openssl pkey -in KEY -pubout",
        )
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, TypeError) as error:
        raise InputError(
            _CODE, f"contains no public key in PEM form: {error}.", where=path
        ) from None
    return _checked_kind(key, ed25519.Ed25519PublicKey, path)


def _checked_kind(key: Any, kind: type, path: str) -> Any:
    if not isinstance(key, kind):
        raise InputError(
            _CODE,
            f"is a key of another kind ({type(key).__name__}); use an Ed25519 key.",
            where=path,
        )
    return key


def _key_id(public: Any) -> str:
    serialization, _ = _crypto()
    return (
        "sha256:"
        + sha256(
            public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        ).hexdigest()
    )


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


class Envelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A DSSE envelope. Unknown keys are refused: another program could read a second payload under
    a similar name.
    """

    payload: str
    payload_type: Literal["application/vnd.in-toto+json"] = field(name="payloadType")
    signatures: Annotated[list[Signature], Meta(max_length=16)]


class _Digest(Struct, frozen=True, kw_only=True):
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class _Resource(Struct, frozen=True, kw_only=True):
    digest: _Digest
    uri: str = ""
    name: str = ""


class _Result(Struct, frozen=True, kw_only=True):
    schema: str
    digest: _Digest


class Predicate(Struct, frozen=True, kw_only=True):
    """A verification summary, with our outcome."""

    verifier: dict[str, Any]
    time_verified: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")] = (
        field(name="timeVerified")
    )
    resource_uri: str = field(name="resourceUri")
    policy: _Resource
    verification_result: Literal["PASSED", "FAILED"] = field(name="verificationResult")
    verified_levels: list[str] = field(name="verifiedLevels")
    outcome: str = field(name="assay:outcome")
    result: _Result = field(name="assay:result")
    inputs: list[_Resource] = field(name="inputAttestations", default_factory=list)
    baseline: list[_Resource] = field(name="assay:baseline", default_factory=list)
    graded_by: dict[str, Any] = field(name="assay:gradedBy", default_factory=dict)
    terms: dict[str, Any] = field(name="assay:terms", default_factory=dict)


class Statement(Struct, frozen=True, kw_only=True):
    """An in-toto statement of a verification summary."""

    type: Literal["https://in-toto.io/Statement/v1"] = field(name="_type")
    subject: Annotated[list[_Resource], Meta(min_length=1)]
    predicate_type: Literal["https://slsa.dev/verification_summary/v1"] = field(
        name="predicateType"
    )
    predicate: Predicate


class Check(NamedTuple):
    """One check; `holds` is None if it was not asked for."""

    id: str
    holds: bool | None
    reason: str


class Verified(NamedTuple):
    """An attestation and the checks on it."""

    statement: Statement
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether everything that was asked for holds."""
        return all(check.holds is not False for check in self.checks)


def verify(
    path: str, *, key: str | None = None, evidence: Sequence[str] = (), document: str | None = None
) -> Verified:
    """Check an attestation file: its form, its signature if a public key is given, and that it
    agrees with itself. `evidence` must be the candidate's files, all of them and no others;
    `document` the decision or the grades that were attested.

    A file that is not an attestation raises `InputError`; everything else is a check that holds or
    does not.
    """
    wrapped = read_record(read_json(path), Envelope, CODE)
    payload = decoded(wrapped.payload, "payload", path)
    checks = [Check("signature", *check_signatures(wrapped.signatures, payload, key, path))]
    try:
        tree = parse_json(payload)
    except ValueError as error:
        fault = json_fault(error, payload, file=path, line=None)
        raise InputError(
            CODE,
            f"the payload is not JSON: {fault.message}",
            where=path,
            faults=[Fault(f"the payload: {fault.message}", code=CODE, file=path)],
        ) from None
    statement = read_record(Document(tree, path), Statement, CODE)
    names = [subject.name for subject in statement.subject]
    if len(set(names)) != len(names) or "" in names:
        raise InputError(CODE, "a subject appears twice, or has no name.", where=path)
    if not all(isinstance(names, list) for names in statement.predicate.graded_by.values()):
        raise InputError(CODE, "predicate.assay:gradedBy: each value must be a list.", where=path)
    checks.append(_agreement_check(statement.predicate))
    checks += _evidence_checks(evidence, statement)
    if document is not None:
        checks.append(_result_check(document, tree["predicate"]))
    result = statement.predicate.verification_result
    checks.append(
        Check(
            "result",
            result == PASSED,
            f"the verification result is {result}, the outcome {statement.predicate.outcome}",
        )
    )
    return Verified(statement, tuple(checks))


def _agreement_check(predicate: Predicate) -> Check:
    expected = OUTCOMES.get(predicate.outcome)
    if expected is None:
        return Check("agreement", False, f"unknown outcome {predicate.outcome[:60]!r}")
    agrees = expected == predicate.verification_result and (
        FAILED in predicate.verified_levels
    ) == (expected == FAILED)
    return Check(
        "agreement",
        agrees,
        f"the result {predicate.verification_result} and the outcome {predicate.outcome}"
        f" {'agree' if agrees else 'do not agree'}",
    )


def _evidence_checks(paths: Sequence[str], statement: Statement) -> list[Check]:
    """Whether these files are the candidate, by their bytes: each of its files, once, and no
    other.
    """
    due = [(subject.digest.sha256, subject.name) for subject in statement.subject]
    compared = {subject.digest.sha256: subject.name for subject in statement.predicate.baseline}
    checks = (
        []
        if paths
        else [
            Check(
                "evidence",
                None,
                "no evidence was checked: name the candidate's files with --evidence",
            )
        ]
    )
    for path in paths:
        own = file_digest(path)
        match = next((evidence for evidence in due if evidence[0] == own and own != EMPTY), None)
        if match is not None:
            due.remove(match)
            checks.append(
                Check(f"evidence {path}", True, f"{path} is the candidate's file {match[1]}")
            )
            continue
        why = (
            f"{path} has the SHA-256 {own}, which the attestation does not name as the candidate's"
        )
        if own == EMPTY:
            why = f"{path} is empty"
        elif own in compared:
            why = (
                f"{path} is the baseline {compared[own]}, with which the candidate was compared; it"
                " is not the candidate"
            )
        elif any(subject.digest.sha256 == own for subject in statement.subject):
            why = f"{path} was given twice"
        checks.append(Check(f"evidence {path}", False, why))
    if paths and due:
        checks.append(
            Check(
                "evidence",
                False,
                f"the candidate also consists of {', '.join(name for _, name in due)}, which"
                " --evidence does not name",
            )
        )
    return checks


def _result_check(path: str, predicate: Mapping[str, Any]) -> Check:
    """Whether a document is the decision, or the grades, that was attested, by its canonical JSON,
    and the attestation states what follows from it.
    """
    document = read_json(path).tree
    named = predicate["assay:result"]["digest"]["sha256"]
    if digest(document).removeprefix("sha256:") != named:
        return Check(f"document {path}", False, f"{path} is not the document that was attested")
    try:
        follows = stated(document)
    except (AttributeError, TypeError, ValueError):
        return Check(f"document {path}", False, f"{path} is neither a decision nor grades")
    wrong = [
        key
        for key, value in follows.items()
        if digest({key: predicate.get(key)}) != digest({key: value})
    ]
    reason = f"{path} is the document that was attested"
    if wrong:
        reason += f", but the attestation states other values for {', '.join(wrong)}"
    return Check(f"document {path}", not wrong, reason)
