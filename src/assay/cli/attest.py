"""`assay verify-attestation`: check an attestation, and list what was checked."""

from __future__ import annotations

from collections.abc import Iterator

from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg, flag, repeated
from assay.errors import ExitCode, UsageError, printable
from assay.release.attestation import Verified, verify


def run(options: Options) -> int:
    """Check one attestation."""
    if options.key and options.unsigned:
        raise UsageError(
            "CLI-001", "--key and --unsigned contradict each other.", fix="Leave one out."
        )
    verified = verify(
        options.file, key=options.key, evidence=options.evidence, document=options.document
    )
    unchecked = not options.key and not options.unsigned
    document = _document(verified, verified=verified.holds and not unchecked)
    passed = ExitCode.NOT_ENOUGH if unchecked else ExitCode.PASSED
    code = passed if verified.holds else ExitCode.FAILED
    return opt.give(options, document, _lines(verified, unchecked=unchecked), code)


def _document(found: Verified, *, verified: bool) -> dict[str, object]:
    predicate = found.statement.predicate
    versions = predicate.verifier.get("version")
    return {
        "schema": "assay.verification/1",
        "verified": verified,
        "checks": [check._asdict() for check in found.checks],
        "verificationResult": predicate.verification_result,
        "outcome": predicate.outcome,
        "timeVerified": predicate.time_verified,
        "subjects": [
            {"name": subject.name, "sha256": subject.digest.sha256}
            for subject in found.statement.subject
        ],
        "baseline": [
            {"name": subject.name, "sha256": subject.digest.sha256}
            for subject in predicate.baseline
        ],
        "policy": {"uri": predicate.policy.uri, "sha256": predicate.policy.digest.sha256},
        "gradedBy": predicate.graded_by,
        "terms": predicate.terms,
        "result": {"schema": predicate.result.schema, "sha256": predicate.result.digest.sha256},
        **{
            name: versions.get(name) if isinstance(versions, dict) else None
            for name in ("scoringSystem", "gradingSystem")
        },
    }


def _lines(verified: Verified, *, unchecked: bool) -> Iterator[str]:
    verdict = "DOES NOT HOLD" if not verified.holds else "NOT VERIFIED" if unchecked else "HOLDS"
    colour = "green" if verdict == "HOLDS" else "red"
    marks = {True: "ok  ", None: "??  ", False: "FAIL"}
    predicate = verified.statement.predicate
    graded_by = [
        str(name)
        for kind in ("profile", "rubric", "policy")
        for name in predicate.graded_by.get(kind, [])
        if name
    ]
    policies = " · ".join((predicate.policy.uri, *graded_by))
    lines = [
        *(f"{marks[check.holds]}  {check.reason}" for check in verified.checks),
        *(
            f"subject {subject.name} sha256:{subject.digest.sha256}"
            for subject in verified.statement.subject
        ),
        *(
            f"compared with {subject.name} sha256:{subject.digest.sha256}"
            for subject in predicate.baseline
        ),
        *(f"NOTE {name}: {value}" for name, value in predicate.terms.items()),
        f"{policies} · {predicate.time_verified}",
    ]
    yield opt.paint(verdict, colour, "bold")
    yield from (f"  {printable(line)}" for line in lines)
    if unchecked:
        yield "Give the public key with --key, or accept an unchecked signature with --unsigned."


COMMANDS = {
    "verify-attestation": Command(
        run,
        "Check an attestation: its form, its signature, whether these files are the"
        " candidate, and whether it passed. Exit 0 only if every check passes.",
        "assay verify-attestation decision.intoto.json --key release.pub --evidence runs.jsonl",
        (
            arg("file", metavar="FILE", help="a DSSE envelope, as `assay gate --attest` writes it"),
            arg(
                "--key",
                kind="path",
                trust="never",
                metavar="PUB",
                help="the Ed25519 public key that must have signed it, in PEM form",
            ),
            flag(
                "--unsigned",
                "skip the signature check; without --key, exit 0 needs this option",
                trust="never",
            ),
            repeated(
                "--evidence",
                "FILE",
                "a file of the candidate, byte for byte; may be repeated",
                kind="path",
                trust="never",
            ),
            arg(
                "--document",
                kind="path",
                trust="never",
                metavar="FILE",
                help=(
                    "the decision that must be the attested one, as `assay gate -o decision.json`"
                    " writes it"
                ),
            ),
        ),
        configured=False,  # what is verified never says how
    ),
}
