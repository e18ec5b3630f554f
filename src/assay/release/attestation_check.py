"""Check an attestation: its envelope and signature, that its parts agree, and that the evidence and
the decision at hand are those it names. Only a key chosen by the checker vouches for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, field

from assay.canon import digest
from assay.errors import Fault, InputError
from assay.files.inputs import file_digest
from assay.files.json_files import Document, json_fault, parse_json, read_json
from assay.records.reading import read_record
from assay.release.attestation import CODE, EMPTY, FAILED, OUTCOMES, PASSED, stated
from assay.release.signing import Signature, check_signatures, decoded


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
