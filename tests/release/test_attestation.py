"""An attestation holds only if everything in it does, and a hostile file never does."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import subprocess
import sys
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import assay as product
from assay.canon import canonical, digest, plain
from assay.errors import AssayError, InputError
from assay.files.inputs import file_digest
from assay.installing import install_hint
from assay.release import attestation
from assay.release.attestation import Subject, envelope, signed_bytes, statement, verify
from assay.services.payload import payload
from commands import Result, run_here
from documents import scorecard

NOW = datetime(2026, 5, 18, 12, 30, 1, tzinfo=UTC)
HEX = "ab" * 32
VERSIONS = {
    "policy": "release@1",
    "scoringSystem": "scoringSystem/1.0.0",
    "gradingSystem": "gradingSystem/1.0.0",
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with keys: ours, another's, and keys of other kinds."""
    pytest.importorskip("cryptography", reason="signing is an extra: pip install 'assaykit[sign]'")
    from cryptography.hazmat.primitives import serialization as ser
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    folder = tmp_path_factory.mktemp("keys")
    made = {
        "ours": ed25519.Ed25519PrivateKey.from_private_bytes(b"1" * 32),
        "other": ed25519.Ed25519PrivateKey.from_private_bytes(b"2" * 32),
        "rsa": rsa.generate_private_key(65537, 2048),
        "ec": ec.generate_private_key(ec.SECP256R1()),
    }
    for name, key in made.items():
        (folder / f"{name}.pem").write_bytes(
            key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption())
        )
        (folder / f"{name}.pub").write_bytes(
            key.public_key().public_bytes(ser.Encoding.PEM, ser.PublicFormat.SubjectPublicKeyInfo)
        )
    return folder


def decision(outcome: str = "promote", *holds: bool | None) -> dict[str, Any]:
    rules = [
        {"id": f"rule-{index}", "holds": one, "reason": "r"}
        for index, one in enumerate(holds or (True,))
    ]
    digests = {
        "policy": "sha256:" + "0" * 64,
        "candidate": "sha256:" + "1" * 64,
        "baseline": {"runs": "sha256:" + "2" * 64},
        "note": "none",
    }
    return {
        "schema": "assay.decision/1",
        "outcome": outcome,
        "rules": rules,
        **VERSIONS,
        "digests": digests,
    }


def grades(*norms: float, faults: int = 0) -> dict[str, Any]:
    results = [
        payload(product.grade(scorecard({"norm": norm}, run_id=f"r-{index}")))
        for index, norm in enumerate(norms)
    ]
    return {
        "schema": "assay.grades/1",
        "results": results,
        "faults": [],
        "counts": {**VERSIONS, "policy": "workflow@1", "faults": faults},
    }


def made(document: dict[str, Any] | None = None, *subjects: Subject) -> dict[str, Any]:
    return statement(
        document or decision(), subjects=subjects or [Subject("runs.jsonl", HEX)], now=NOW
    )


def written(path: Path, document: Any) -> str:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def forged(change: Any) -> dict[str, Any]:
    """An unsigned envelope around a statement that was changed."""
    tree = copy.deepcopy(made())
    change(tree)
    return envelope(tree, key=None)


# --- making


def test_the_statement_is_a_verification_summary_of_the_files_that_were_judged() -> None:
    found = made(None, Subject("results/runs.jsonl", HEX), Subject("more runs.jsonl", "cd" * 32))
    assert (found["_type"], found["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/verification_summary/v1",
    )
    assert found["subject"] == [
        {"name": "results/runs.jsonl", "digest": {"sha256": HEX}},
        {"name": "more runs.jsonl", "digest": {"sha256": "cd" * 32}},
    ]
    predicate = found["predicate"]
    assert predicate["timeVerified"] == "2026-05-18T12:30:01Z"
    assert predicate["resourceUri"] == "results/runs.jsonl"
    assert predicate["policy"] == {"uri": "assay:policy/release@1", "digest": {"sha256": "0" * 64}}
    assert predicate["inputAttestations"] == [
        {"uri": "assay:digest/baseline.runs", "digest": {"sha256": "2" * 64}},
        {"uri": "assay:digest/candidate", "digest": {"sha256": "1" * 64}},
    ]
    assert (
        predicate["verificationResult"],
        predicate["verifiedLevels"],
        predicate["assay:outcome"],
    ) == ("PASSED", ["ASSAY_PROMOTE"], "promote")
    assert predicate["verifier"]["version"] == {
        "scoringSystem": "scoringSystem/1.0.0",
        "gradingSystem": "gradingSystem/1.0.0",
    }
    assert predicate["assay:result"]["schema"] == "assay.decision/1"


def test_an_attestation_says_that_both_sides_were_the_same_evidence(tmp_path: Path) -> None:
    note = "SAME EVIDENCE: all 2 shared samples have exactly the same evidence on both sides."
    found = made({**decision(), "notes": ["another note", note]})
    assert found["predicate"]["assay:terms"] == {"same_evidence": note}
    assert (
        f"NOTE same_evidence: {note}"
        in run_verb(written(tmp_path / "x.json", envelope(found, key=None)), "--unsigned").out
    )
    assert made({**decision(), "notes": ["another note"]})["predicate"]["assay:terms"] == {}


def test_a_check_without_evidence_says_that_none_was_checked(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text("{}")
    path = written(
        tmp_path / "x.json",
        envelope(made(None, Subject("runs.jsonl", hashlib.sha256(b"{}").hexdigest())), key=None),
    )
    assert "no evidence was checked" in run_verb(path, "--unsigned").out
    checks = json.loads(run_verb(path, "--unsigned", "--json").out)["checks"]
    assert {
        key: value
        for one in checks
        if one["id"] == "evidence"
        for key, value in one.items()
        if key != "reason"
    } == {"id": "evidence", "holds": None}
    assert (
        "no evidence was checked"
        not in run_verb(path, "--unsigned", "--evidence", tmp_path / "runs.jsonl").out
    )


@pytest.mark.parametrize("outcome", ["hold", "reject", "not_enough_evidence"])
def test_only_promote_passes(outcome: str) -> None:
    predicate = made(decision(outcome, True))["predicate"]
    assert (predicate["verificationResult"], predicate["verifiedLevels"]) == ("FAILED", ["FAILED"])


def test_grades_pass_only_if_all_passed_and_nothing_was_malformed() -> None:
    results = [
        made(document)["predicate"]["verificationResult"]
        for document in (grades(0.9, 0.8), grades(0.9, 0.2), grades(0.9, faults=1))
    ]
    assert results == ["PASSED", "FAILED", "FAILED"]
    believing = grades(0.9, 0.2)
    believing["counts"]["passed"] = 2
    assert made(believing)["predicate"]["verificationResult"] == "FAILED", (
        "the results are read, not the counts"
    )


@pytest.mark.parametrize(
    "document",
    [
        decision("promote", True, None),
        decision("promote", False),
        {**decision(), "rules": []},
        decision("passed"),
        decision("PROMOTE"),
        {**decision(), "digests": {}},
        {**decision(), "policy": None},
        {**decision(), "scoringSystem": ""},
        {"schema": "assay.exam/1"},
        {},
        {**grades(), "results": []},
    ],
)
def test_a_document_that_contradicts_itself_or_names_no_policy_is_refused(
    document: dict[str, Any],
) -> None:
    with pytest.raises(InputError) as caught:
        statement(document, subjects=[Subject("x", HEX)], now=NOW)
    assert caught.value.code == "REL-008"


@pytest.mark.parametrize(
    ("subjects", "now"),
    [
        ([], NOW),
        ([Subject("x", HEX)], NOW.replace(tzinfo=None)),
        ([Subject("x", HEX), Subject("x", "0" * 64)], NOW),
    ],
)
def test_an_attestation_of_nothing_or_at_no_time_is_refused(subjects: Any, now: Any) -> None:
    with pytest.raises(InputError):
        statement(decision(), subjects=subjects, now=now)


def test_the_same_inputs_give_the_same_bytes() -> None:
    later = NOW.astimezone(timezone(timedelta(hours=5)))
    assert made() == statement(decision(), subjects=[Subject("runs.jsonl", HEX)], now=later)
    document = grades(0.9)
    assert canonical(made(document)) == canonical(made(plain(document))), (
        "a document read back attests as the one that was written"
    )


def test_what_is_signed_is_the_type_and_the_payload_with_their_lengths() -> None:
    assert (
        signed_bytes(b"hello world", payload_type="http://example.com/HelloWorld")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


# --- checking


def test_a_signed_attestation_holds_with_its_key_and_with_no_other(
    assay: Any, tmp_path: Path, keys: Path
) -> None:
    (tmp_path / "runs.jsonl").write_text("evidence\n")
    subject = Subject("runs.jsonl", file_digest(str(tmp_path / "runs.jsonl")))
    assert subject.sha256 == sha256(b"evidence\n").hexdigest()
    document = decision()
    written(tmp_path / "decision.json", document)
    written(tmp_path / "a.json", envelope(made(document, subject), key=str(keys / "ours.pem")))
    good = assay(
        "verify-attestation",
        "a.json",
        "--key",
        keys / "ours.pub",
        "--evidence",
        "runs.jsonl",
        "--document",
        "decision.json",
        "--json",
    )
    assert good.code == 0, good.err
    found = good.json()
    assert (found["verified"], found["outcome"], found["verificationResult"]) == (
        True,
        "promote",
        "PASSED",
    )
    assert [check["holds"] for check in found["checks"]] == [True] * 5
    assert assay("verify-attestation", "a.json", "--key", keys / "other.pub").code == 1
    unchecked = assay("verify-attestation", "a.json")
    assert unchecked.code == 4
    assert "signature not checked" in unchecked.out
    accepted = assay("verify-attestation", "a.json", "--unsigned")
    assert accepted.code == 0
    assert "signature not checked" in accepted.out
    assert assay("verify-attestation", "a.json", "--unsigned", "--key", keys / "ours.pub").code == 2
    (tmp_path / "runs.jsonl").write_text("evidence\nmore\n")
    changed = assay(
        "verify-attestation", "a.json", "--key", keys / "ours.pub", "--evidence", "runs.jsonl"
    )
    assert changed.code == 1
    assert "does not name" in changed.out


def run_verb(*arguments: object) -> Result:
    command = ["verify-attestation", *map(str, arguments)]
    return run_here(command, cwd=Path.cwd(), env={"NO_COLOR": "1"})


def test_the_exit_code_opens_a_gate_only_when_everything_asked_for_holds(
    tmp_path: Path, keys: Path
) -> None:
    key, pub = keys / "ours.pem", keys / "ours.pub"
    passed = written(tmp_path / "passed.json", envelope(made(), key=str(key)))
    failed = written(tmp_path / "failed.json", envelope(made(decision("hold")), key=str(key)))
    unsigned = written(tmp_path / "unsigned.json", envelope(made(), key=None))
    cases = {
        (passed, "--key", pub): 0,
        (passed, "--unsigned"): 0,
        (passed,): 4,
        (passed, "--key", keys / "other.pub"): 1,
        (passed, "--key", pub, "--evidence", str(pub)): 1,
        (failed, "--key", pub): 1,
        (failed, "--unsigned"): 1,
        (failed,): 1,
        (unsigned, "--key", pub): 1,
        (unsigned, "--unsigned"): 0,
        (unsigned,): 4,
        (passed, "--key", pub, "--unsigned"): 2,
        (passed, "--key", tmp_path / "none.pub"): 3,
        (passed, "--evidence", tmp_path / "none.jsonl", "--key", pub): 3,
        (tmp_path / "none.json", "--key", pub): 3,
    }
    for arguments, code in cases.items():
        done = run_verb(*arguments)
        assert done.code == code, (arguments, done.out, done.err)
        assert "Traceback" not in done.err
        if "--key" not in arguments and code in (0, 4):
            assert "signature not checked" in done.out


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"PASSED", b"FAILED"),
        (HEX.encode(), b"ba" * 32),
        (b"release@1", b"release@2"),
        (b"runs.jsonl", b"runs.jsonk"),
    ],
)
def test_every_changed_byte_of_the_payload_breaks_the_signature(
    tmp_path: Path, keys: Path, old: Any, new: Any
) -> None:
    made_envelope = envelope(made(), key=str(keys / "ours.pem"))
    body = b64decode(made_envelope["payload"])
    changed = {**made_envelope, "payload": b64encode(body.replace(old, new)).decode()}
    found = verify(written(tmp_path / "x.json", changed), key=str(keys / "ours.pub"))
    assert found.checks[0].id == "signature"
    assert found.checks[0].holds is False
    assert not found.holds


def test_a_signature_over_another_type_or_over_the_bare_payload_does_not_count(
    tmp_path: Path, keys: Path
) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key: Any = load_pem_private_key((keys / "ours.pem").read_bytes(), None)
    body = canonical(made())
    for signed in (
        body,
        b64encode(body),
        signed_bytes(body, payload_type="text/plain"),
        b"DSSEv1" + body,
    ):
        forged_one = {
            **envelope(made(), key=None),
            "signatures": [{"keyid": "", "sig": b64encode(key.sign(signed)).decode()}],
        }
        assert (
            verify(written(tmp_path / "x.json", forged_one), key=str(keys / "ours.pub"))
            .checks[0]
            .holds
            is False
        )


def test_the_key_id_is_believed_neither_way(tmp_path: Path, keys: Path) -> None:
    ours, other = (envelope(made(), key=str(keys / f"{name}.pem")) for name in ("ours", "other"))
    claimed = {
        **other,
        "signatures": [
            {"keyid": ours["signatures"][0]["keyid"], "sig": other["signatures"][0]["sig"]}
        ],
    }
    assert (
        verify(written(tmp_path / "x.json", claimed), key=str(keys / "ours.pub")).checks[0].holds
        is False
    )
    renamed = {
        **ours,
        "signatures": [
            other["signatures"][0],
            {"keyid": "somebody", "sig": ours["signatures"][0]["sig"]},
        ],
    }
    assert (
        verify(written(tmp_path / "x.json", renamed), key=str(keys / "ours.pub")).checks[0].holds
        is True
    )


def test_an_attestation_says_that_it_is_unsigned_signed_by_another_or_signed_once_more(
    tmp_path: Path, keys: Path
) -> None:
    ours, other, none = (
        envelope(made(), key=None if name is None else str(keys / f"{name}.pem"))
        for name in ("ours", "other", None)
    )

    def said(document: dict[str, Any], key: str | None = str(keys / "ours.pub")) -> str:
        return verify(written(tmp_path / "x.json", document), key=key).checks[0].reason

    assert said(none) == "the attestation is not signed"
    assert said(none, None) == "signature not checked: the attestation is not signed"
    assert (
        said(ours, None)
        == f"signature not checked: it claims to be signed by {ours['signatures'][0]['keyid']}"
    )
    assert "someone else signed it, or it was changed since" in said(other)
    assert said({**ours, "signatures": [*other["signatures"], *ours["signatures"]]}).endswith(
        "; other signatures that were not checked: 1"
    )


@pytest.mark.parametrize("name", ["rsa.pub", "ec.pub", "ours.pem", "rsa.pem"])
def test_a_key_of_another_kind_is_refused_before_anything_is_checked(
    tmp_path: Path, keys: Path, name: str
) -> None:
    path = written(tmp_path / "x.json", envelope(made(), key=None))
    with pytest.raises(InputError) as caught:
        verify(path, key=str(keys / name))
    assert caught.value.code == "REL-007"
    if name != "ours.pem":
        with pytest.raises(InputError):
            envelope(made(), key=str(keys / name))


def test_a_signature_made_with_the_public_key_as_a_secret_does_not_count(
    tmp_path: Path, keys: Path
) -> None:
    import hmac

    secret = (keys / "ours.pub").read_bytes()
    mac = hmac.new(secret, signed_bytes(canonical(made())), "sha512").digest()
    confused = {
        **envelope(made(), key=None),
        "signatures": [{"keyid": "HS512", "sig": b64encode(mac).decode()}],
    }
    assert (
        verify(written(tmp_path / "x.json", confused), key=str(keys / "ours.pub")).checks[0].holds
        is False
    )


# --- hostile files

GOOD = json.dumps(envelope(made(), key=None))
PAYLOAD = json.loads(GOOD)["payload"]
OTHER = envelope(made(decision("hold")), key=None)["payload"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        GOOD[: len(GOOD) // 2],
        GOOD[:-1],
        GOOD + GOOD,
        "[]",
        f"[{GOOD}]",
        "null",
        json.dumps(made()),
        GOOD.replace('"payload":', f'"payload": "{OTHER}", "payload":', 1),
        GOOD.replace('"payloadType":', f'"Payload": "{OTHER}", "payloadType":', 1),
        GOOD.replace('"payloadType":', '"payloadTypes":', 1),
        GOOD.replace("vnd.in-toto+json", "json"),
        GOOD.replace('"signatures": []', '"signatures": [{"sig": "AAAA", "alg": "none"}]'),
        GOOD.replace('"signatures": []', '"signatures": {}'),
        GOOD.replace('"signatures": []', '"signatures": null'),
        GOOD.replace(', "signatures": []', ""),
        GOOD.replace('"signatures": []', f'"signatures": {json.dumps([{"sig": ""}] * 17)}'),
        GOOD.replace(PAYLOAD, PAYLOAD[:40] + "\\n" + PAYLOAD[40:]),
        GOOD.replace(PAYLOAD, PAYLOAD[:40] + "!!!!" + PAYLOAD[40:]),
        GOOD.replace(PAYLOAD, PAYLOAD + "===="),
        GOOD.replace(PAYLOAD, PAYLOAD.rstrip("=")[:-1] + "_"),
        GOOD.replace(PAYLOAD, PAYLOAD[:-4]),
        GOOD.replace(PAYLOAD, ""),
        GOOD.replace(PAYLOAD, "é"),
        GOOD.replace(PAYLOAD, b64encode(b"\xff\xfe{}").decode()),
        GOOD.replace(PAYLOAD, b64encode(b"[" * 100_000).decode()),
        GOOD.replace(PAYLOAD, b64encode(canonical(made()) * 2).decode()),
        GOOD.replace(
            PAYLOAD,
            b64encode(
                canonical(made()).replace(
                    b'"assay:outcome"', b'"verificationResult":"FAILED","assay:outcome"'
                )
            ).decode(),
        ),
        GOOD.replace(f'"{PAYLOAD}"', "{}"),
    ],
)
def test_a_hostile_file_is_refused_with_a_code_of_ours(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as caught:
        verify(written(tmp_path / "x.json", text))
    assert caught.value.code in ("REL-007", "FIL-002", "FIL-003", "FIL-004", "FIL-005")


def put(*path: str | int, to: Any) -> Any:
    def change(tree: Any) -> None:
        for part in path[:-1]:
            tree = tree[part]
        if to is None:
            del tree[path[-1]]
        else:
            tree[path[-1]] = to

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("_type", to="https://in-toto.io/Statement/v0.1"),
        put("predicateType", to="https://slsa.dev/provenance/v1"),
        put("subject", to=[]),
        put("subject", to=None),
        put("subject", to=[{"name": "a", "digest": {"sha256": HEX}}] * 2),
        put("subject", 0, "digest", to={"md5": "0" * 32}),
        put("subject", 0, "digest", "sha256", to=HEX.upper()),
        put("subject", 0, "digest", "sha256", to=HEX[:-1]),
        put("subject", 0, "name", to=""),
        put("predicate", to={}),
        put("predicate", "verificationResult", to="passed"),
        put("predicate", "verificationResult", to=None),
        put("predicate", "assay:outcome", to=None),
        put("predicate", "policy", "digest", to={}),
        put("predicate", "timeVerified", to="yesterday"),
        put("predicate", "assay:result", to=None),
        put("predicate", "assay:gradedBy", to={"profile": 5}),
    ],
)
def test_a_statement_that_lacks_something_is_refused(tmp_path: Path, change: Any) -> None:
    with pytest.raises(InputError) as caught:
        verify(written(tmp_path / "x.json", forged(change)))
    assert caught.value.code == "REL-007"


@pytest.mark.parametrize(
    "change",
    [
        put("predicate", "verificationResult", to="FAILED"),
        put("predicate", "assay:outcome", to="hold"),
        put("predicate", "assay:outcome", to="failed"),
        put("predicate", "assay:outcome", to="Promote"),
        put("predicate", "verifiedLevels", to=["FAILED"]),
    ],
)
def test_a_result_and_an_outcome_that_disagree_do_not_hold(tmp_path: Path, change: Any) -> None:
    found = verify(written(tmp_path / "x.json", forged(change)))
    assert not found.holds
    assert next(check for check in found.checks if check.id == "agreement").holds is False


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("policy", {"uri": "assay:policy/other@1", "digest": {"sha256": HEX}}),
        ("assay:gradedBy", {"policy": ["other@1"]}),
        ("assay:terms", {"unpaired": True}),
        ("verifiedLevels", ["SLSA_BUILD_LEVEL_3"]),
        ("inputAttestations", []),
        ("verifier", {"id": "x"}),
    ],
)
def test_an_attestation_that_was_edited_does_not_hold_next_to_its_document(
    tmp_path: Path, key: str, value: Any
) -> None:
    document = written(tmp_path / "decision.json", decision())
    assert verify(written(tmp_path / "x.json", envelope(made(), key=None)), document=document).holds
    edited = written(tmp_path / "x.json", forged(put("predicate", key, to=value)))
    check = next(one for one in verify(edited, document=document).checks if "document" in one.id)
    assert (check.holds, check.reason.rpartition(" ")[2]) == (False, key)


@pytest.mark.parametrize(
    "change", [{"rules": 7}, {"rules": ["x"]}, {"fingerprint": ["x"]}, {"outcome": ["promote"]}]
)
def test_an_attested_document_that_is_malformed_does_not_hold(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    document = {**decision(), **change}
    sha256 = digest(document).removeprefix("sha256:")
    edited = forged(put("predicate", "assay:result", "digest", "sha256", to=sha256))
    written(tmp_path / "x.json", edited)
    found = verify(str(tmp_path / "x.json"), document=written(tmp_path / "decision.json", document))
    assert not found.holds


def test_a_rejected_document_next_to_an_edited_attestation_does_not_hold(tmp_path: Path) -> None:
    rejected = decision("reject", False)
    tree = made(rejected)
    tree["predicate"] |= {
        "verificationResult": "PASSED",
        "verifiedLevels": ["ASSAY_PROMOTE"],
        "assay:outcome": "promote",
    }
    edited = written(tmp_path / "x.json", envelope(tree, key=None))
    assert not verify(edited, document=written(tmp_path / "decision.json", rejected)).holds


def test_a_field_that_a_later_version_adds_is_let_through(tmp_path: Path) -> None:
    assert verify(
        written(tmp_path / "x.json", forged(put("predicate", "dependencyLevels", to={})))
    ).holds


def test_without_the_package_for_signatures_the_error_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    path = written(tmp_path / "x.json", GOOD)
    assert verify(path).holds
    for call in (lambda: verify(path, key="k.pub"), lambda: envelope(made(), key="k.pem")):
        with pytest.raises(AssayError, match=re.escape(install_hint("sign"))):
            call()


def test_the_package_for_signatures_is_loaded_only_when_one_is_made_or_checked() -> None:
    code = "import sys, assay.release.attestation; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert attestation.PAYLOAD_TYPE == "application/vnd.in-toto+json"


def test_another_program_accepts_the_signature(tmp_path: Path, keys: Path) -> None:
    import shutil

    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made_envelope = envelope(made(), key=str(keys / "ours.pem"))
    (tmp_path / "signed").write_bytes(signed_bytes(b64decode(made_envelope["payload"])))
    (tmp_path / "sig").write_bytes(b64decode(made_envelope["signatures"][0]["sig"]))
    command = [
        "openssl",
        "pkeyutl",
        "-verify",
        "-pubin",
        "-rawin",
        "-inkey",
        str(keys / "ours.pub"),
        "-in",
        "signed",
        "-sigfile",
        "sig",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
