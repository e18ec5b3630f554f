"""`assay gate` as a command: the document of the contract, exit codes, reports, attestation, and
input that is refused.
"""

from __future__ import annotations

import json
import os
import random
import threading
from base64 import b64decode
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from documents import run
from sides import card, cards, drawn, write

BASE = drawn(60, low=84, high=90)
CONTRACT = {
    "schema",
    "outcome",
    "rules",
    "comparison",
    "candidate",
    "baseline",
    "fingerprint",
    "plan",
    "scoringSystem",
    "gradingSystem",
    "policy",
    "digests",
    "confirmation",
    "errors",
    "criteria",
    "operations",
    "expectation",
}
RAG = ("faithfulness", "response_relevance", "context_precision", "context_recall", "safety")
SUMMARY = {
    "n",
    "coverage",
    "pass_rate",
    "weighted_score",
    "gates",
    "criteria",
    "slices",
    "grades",
    "top_failure_reasons",
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A baseline, a better candidate, a worse one, one that cannot be told apart, and one with too
    few samples.
    """
    noise = random.Random(3)
    write(tmp_path / "base.jsonl", cards(BASE))
    write(
        tmp_path / "better.jsonl",
        cards([min(100, round(score + 2 + noise.uniform(-1, 1), 2)) for score in BASE]),
    )
    write(
        tmp_path / "worse.jsonl",
        cards([round(score - 4.3 + noise.uniform(-1, 1), 2) for score in BASE]),
    )
    write(
        tmp_path / "unclear.jsonl",
        cards([round(score - 1 + (9 if at % 2 else -9), 2) for at, score in enumerate(BASE)]),
    )
    write(tmp_path / "few.jsonl", cards(BASE[:5]))
    return tmp_path


def test_a_decision_names_the_command_that_explains_the_largest_drop(
    assay: Any, files: Path
) -> None:
    done = assay("gate", "worse.jsonl", "--baseline", "base.jsonl")
    line = done.out.splitlines()[-1]
    fell = assay("gate", "worse.jsonl", "--baseline", "base.jsonl", "--json").json()["worse"][0]
    assert line == f"assay explain worse.jsonl --run {fell['sample']}  # why"
    assert assay(*line.split()[1:5]).code == 0
    for other in ("better.jsonl", "unclear.jsonl", "few.jsonl"):
        assert "assay explain" not in assay("gate", other, "--baseline", "base.jsonl").out
    stream = (files / "worse.jsonl").read_text()
    assert "assay explain" not in assay("gate", "-", "--baseline", "base.jsonl", stdin=stream).out


def test_intervals_of_few_samples_stay_on_the_scale(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "new.jsonl", cards([99.0, 5.0, 50.0]))
    write(tmp_path / "old.jsonl", cards([2.0, 97.0, 60.0]))
    made = assay("gate", "new.jsonl", "--baseline", "old.jsonl", "--slice", "tag", "--json").json()
    difference = made["comparison"]["difference"]
    assert (difference["low"], difference["high"]) == (-100.0, 100.0)
    for side in ("candidate", "baseline"):
        mean = made[side]["weighted_score"]["mean"]
        assert (mean["low"], mean["high"]) == (0.0, 100.0)
    done = assay("gate", "new.jsonl", "--baseline", "old.jsonl", "-o", "decision.html")
    (scale,) = (line for line in done.out.splitlines() if line.startswith(" " * 12 + "-105.0"))
    assert len(scale) <= 80, "it would wrap in a terminal"
    page = (tmp_path / "decision.html").read_text()
    assert "new.jsonl against old.jsonl</h1>" in page
    for text in (done.out, page):
        assert "no minimum is set" in text  # of the pass rate, which nothing else here judges
        assert "no sample passed" not in text
    write(tmp_path / "bad.jsonl", cards([9.0, 5.0, 50.0]))
    failing = assay("gate", "bad.jsonl", "--baseline", "bad.jsonl")
    assert "no sample passed, and no minimum is set (--min-pass-rate)" in failing.out
    barred = assay("gate", "new.jsonl", "--baseline", "old.jsonl", "--min-pass-rate", "0.5")
    assert "no minimum is set" not in barred.out


@pytest.mark.req("W-075")
@pytest.mark.parametrize(
    ("candidate", "baseline", "outcome", "code"),
    [
        ("better.jsonl", "base.jsonl", "promote", 0),
        ("unclear.jsonl", "base.jsonl", "hold", 1),
        ("worse.jsonl", "base.jsonl", "reject", 1),
        ("few.jsonl", "few.jsonl", "not_enough_evidence", 4),
    ],
)
def test_each_outcome_has_its_exit_code_and_the_document_of_the_contract(
    assay: Any, files: Path, candidate: str, baseline: str, outcome: str, code: int
) -> None:
    done = assay("gate", candidate, "--baseline", baseline, "--json")
    assert done.code == code
    document = done.json()
    assert (document["schema"], document["outcome"]) == ("assay.decision/1", outcome)
    assert set(document) >= CONTRACT
    assert [one["id"] for one in document["rules"]] == [
        "complete",
        "new_failures",
        "gate_failure_rate",
        "score_non_inferiority",
        "criterion_regression",
        "floor_regression",
        "severe_failures",
    ]
    for one in document["rules"]:
        assert set(one) >= {"id", "holds", "violated", "reason", "evidence"}
        assert one["holds"] in (True, False, None)
        assert one["reason"]
    comparison = document["comparison"]
    assert set(comparison) >= {
        "n_candidate",
        "n_baseline",
        "n_paired",
        "difference",
        "margin",
        "non_inferior",
        "superior",
        "equivalent",
        "mcnemar_p",
        "minimum_detectable_effect",
    }
    assert set(comparison["difference"]) >= {"estimate", "low", "high", "level", "method"}
    assert (comparison["margin"], comparison["difference"]["level"]) == (3.0, 0.95)
    for side in ("candidate", "baseline"):
        assert set(document[side]) >= SUMMARY
    assert (document["policy"], document["scoringSystem"], document["gradingSystem"]) == (
        "release@1",
        "scoringSystem/1.0.0",
        "gradingSystem/1.0.0",
    )
    assert set(document["digests"]) == {"policy", "candidate", "baseline", "decision"}
    text = assay("gate", candidate, "--baseline", baseline)
    assert (text.code, text.out.split(":")[0]) == (code, outcome.replace("_", " ").upper())


def test_the_same_files_give_the_same_bytes_in_any_order_of_their_lines(
    assay: Any, files: Path
) -> None:
    lines = (files / "better.jsonl").read_text().splitlines(keepends=True)
    (files / "shuffled.jsonl").write_text("".join(reversed(lines)))
    one, other = (
        assay("gate", name, "--baseline", "base.jsonl", "--json")
        for name in ("better.jsonl", "shuffled.jsonl")
    )
    assert one.out == other.out


def test_reports_are_written_beside_the_decision(assay: Any, files: Path) -> None:
    done = assay(
        "gate",
        "worse.jsonl",
        "--baseline",
        "base.jsonl",
        "--json",
        "-o",
        "d.json",
        "-o",
        "d.md",
        "-o",
        "d.xml",
        "--step-summary",
        env={"GITHUB_STEP_SUMMARY": str(files / "steps.md")},
    )
    assert json.loads((files / "d.json").read_text()) == done.json()
    page = (files / "d.md").read_text()
    assert page.startswith("## Assay: reject")
    assert (files / "steps.md").read_text() == page
    suite = ElementTree.fromstring((files / "d.xml").read_text())[0]
    assert (suite.get("tests"), suite.get("failures")) == ("7", "1")


def test_a_decision_is_attested_and_the_attestation_verified(assay: Any, files: Path) -> None:
    pytest.importorskip("cryptography", reason="signing needs assaykit[sign]")
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    (files / "key.pem").write_bytes(
        key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    )
    (files / "key.pub").write_bytes(
        key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    )
    for candidate, code in (("better.jsonl", 0), ("worse.jsonl", 1)):
        done = assay(
            "gate",
            candidate,
            "--baseline",
            "base.jsonl",
            "--attest",
            "d.intoto.json",
            "--sign",
            "key.pem",
            "--now",
            "2026-11-15T10:00:00Z",
        )
        assert done.code == code
        checked = assay(
            "verify-attestation",
            "d.intoto.json",
            "--key",
            "key.pub",
            "--evidence",
            candidate,
            "--json",
        )
        assert checked.code == code
        assert checked.json()["outcome"] == ("promote" if code == 0 else "reject")
    (files / "better.jsonl").write_text((files / "worse.jsonl").read_text() + "\n")
    assert (
        assay(
            "verify-attestation", "d.intoto.json", "--key", "key.pub", "--evidence", "better.jsonl"
        ).code
        == 1
    )


def attested(
    assay: Any, folder: Path, *candidate: str, baseline: str = "base.jsonl", **how: Any
) -> dict[str, Any]:
    """The payload of the unsigned attestation of a decision that promotes."""
    done = assay("gate", *candidate, "--baseline", baseline, "--attest", "d.intoto.json", **how)
    assert done.code == 0, done.err
    assert verified(assay) == 0
    return json.loads(b64decode(json.loads((folder / "d.intoto.json").read_text())["payload"]))


def verified(assay: Any, *evidence: str) -> int:
    return assay(
        "verify-attestation",
        "d.intoto.json",
        "--unsigned",
        *(part for file in evidence for part in ("--evidence", file)),
    ).code


def test_an_attestation_vouches_for_the_whole_candidate_and_for_nothing_else(
    assay: Any, files: Path
) -> None:
    lines = (files / "better.jsonl").read_text().splitlines(keepends=True)
    (files / "one.jsonl").write_text("".join(lines[:20]))
    (files / "two.jsonl").write_text("".join(lines[20:]))
    (files / "empty.jsonl").write_text("")
    found = attested(assay, files, "one.jsonl", "two.jsonl")
    assert [one["name"] for one in found["subject"]] == ["one.jsonl", "two.jsonl"]
    assert [one["name"] for one in found["predicate"]["assay:baseline"]] == ["base.jsonl"]
    assert verified(assay, "two.jsonl", "one.jsonl") == 0
    others = (
        "base.jsonl",
        "better.jsonl",
        "worse.jsonl",
        "empty.jsonl",
        "one.jsonl",
        "d.intoto.json",
    )
    for wrong in (
        *((one,) for one in others),
        ("one.jsonl", "one.jsonl"),
        *(("one.jsonl", "two.jsonl", one) for one in others),
    ):
        assert verified(assay, *wrong) == 1, wrong
    said = assay(
        "verify-attestation", "d.intoto.json", "--unsigned", "--evidence", "base.jsonl"
    ).out
    assert (
        "base.jsonl is the baseline base.jsonl, with which the candidate was compared; it is not"
        " the candidate" in said
    )
    assert "the candidate also consists of one.jsonl, two.jsonl" in said


def test_an_empty_file_is_not_attested(assay: Any, files: Path) -> None:
    (files / "empty.jsonl").write_text("")
    done = assay(
        "gate",
        "better.jsonl",
        "empty.jsonl",
        "--baseline",
        "base.jsonl",
        "--attest",
        "d.intoto.json",
    )
    assert (done.code, (files / "d.intoto.json").exists()) == (4, False)


def test_what_comes_through_a_pipe_is_attested_as_it_was_read(assay: Any, files: Path) -> None:
    text = (files / "better.jsonl").read_text()
    expected = [{"name": "<stdin>", "digest": {"sha256": sha256(text.encode()).hexdigest()}}]
    assert attested(assay, files, "-", stdin=text)["subject"] == expected
    assert verified(assay, "better.jsonl") == 0
    assert verified(assay, "base.jsonl") == 1
    os.mkfifo(files / "pipe")
    for candidate, baseline, piped in (
        ("./pipe", "base.jsonl", "better.jsonl"),
        ("better.jsonl", "./pipe", "base.jsonl"),
    ):
        writer = threading.Thread(
            target=(files / "pipe").write_text, args=((files / piped).read_text(),)
        )
        writer.start()
        attested(assay, files, candidate, baseline=baseline)
        writer.join()
        assert (verified(assay, "better.jsonl"), verified(assay, "base.jsonl")) == (0, 1)


def test_a_file_that_is_swapped_after_it_was_read_is_not_attested(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.cli import deciding
    from assay.cli.main import run as command

    monkeypatch.chdir(files)
    judged = sha256((files / "better.jsonl").read_bytes()).hexdigest()
    real = deciding.compare

    def swapping(*args: Any, **options: Any) -> Any:
        (files / "better.jsonl").write_text((files / "worse.jsonl").read_text())
        (files / "base.jsonl").write_text("")
        return real(*args, **options)

    monkeypatch.setattr(deciding, "compare", swapping)
    assert (
        command(["gate", "better.jsonl", "--baseline", "base.jsonl", "--attest", "d.intoto.json"])
        == 0
    )
    found = json.loads(b64decode(json.loads((files / "d.intoto.json").read_text())["payload"]))
    assert found["subject"][0]["digest"]["sha256"] == judged
    assert (
        command(["verify-attestation", "d.intoto.json", "--unsigned", "--evidence", "better.jsonl"])
        == 1
    )


@pytest.mark.parametrize("swapped", ["better.jsonl", "base.jsonl"])
def test_a_file_that_is_swapped_before_it_is_read_again_is_refused(
    files: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    """As where the candidate was asked something else than the baseline."""
    from assay.cli import deciding
    from assay.cli.main import run as command

    monkeypatch.chdir(files)
    eased = [{**one, "pass_threshold": 0} for one in cards([score + 1 for score in BASE])]
    write(files / "better.jsonl", eased)
    real = deciding.compare

    def swapping(*args: Any, **options: Any) -> Any:
        write(files / swapped, cards([99.0] * len(BASE), pass_threshold=1))
        return real(*args, **options)

    assert command(["gate", "better.jsonl", "--baseline", "base.jsonl"]) == 0
    monkeypatch.setattr(deciding, "compare", swapping)
    assert command(["gate", "better.jsonl", "--baseline", "base.jsonl"]) == 3


def test_a_stored_baseline_that_is_swapped_after_it_was_found_is_refused(
    assay: Any, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.cli.main import run as command
    from assay.services import named_baselines

    assert assay("baseline", "set", "production", "base.jsonl").code == 0
    found = attested(assay, files, "better.jsonl", baseline="production")
    assert [one["name"] for one in found["predicate"]["assay:baseline"]] == ["production@1"]
    monkeypatch.chdir(files)
    real = named_baselines.find_named

    def swapping(*args: Any) -> Any:
        stored = real(*args)
        Path(stored.stored.path).write_text((files / "worse.jsonl").read_text())
        return stored

    monkeypatch.setattr("assay.cli.deciding.find_named", swapping)
    assert command(["gate", "better.jsonl", "--baseline", "production"]) == 3


def test_a_policy_that_allows_more_than_the_published_one_and_a_baseline_of_the_file_are_named(
    assay: Any, files: Path
) -> None:
    """It may come with the candidate, in the folder that its assay.yaml names."""
    text = (resources.files("assay.library") / "policies" / "release@1.yaml").read_text()
    for before, after in (
        ("version: 1", "version: 2"),
        ("increase: 0.00", "increase: 0.5"),
        ("  margin: 3.0", "  margin: 90"),
        ("no_policy_violation, ", ""),
    ):
        assert before in text
        text = text.replace(before, after)
    (files / "loose.yaml").write_text(text)
    (files / "assay.yaml").write_text("release: {policy: loose.yaml}\n")
    deciding = ("gate", "worse.jsonl", "--baseline", "base.jsonl")
    eased = (
        "EASED: the release policy release@2 allows more than release@1: gate_failure_increase 0.5"
        " instead of 0; margin 90 instead of 3; not severe: no_policy_violation"
    )
    done = assay(*deciding, "-o", "d.md", "-o", "d.html", "--attest", "d.intoto.json")
    assert eased in done.out
    assert all(eased in (files / name).read_text() for name in ("d.md", "d.html"))
    payload = b64decode(json.loads((files / "d.intoto.json").read_text())["payload"])
    assert json.loads(payload)["predicate"]["assay:terms"] == {"eased_policy": eased}
    assert verified(assay) == 0
    shown = assay(*deciding, "--json")
    assert shown.json()["notes"] == [eased]
    assert eased in shown.err
    own = assay(*deciding, "--tolerance", "80", "--json").json()
    assert own["overrides"][0]["used"] == 80
    for policy in ("release@1", "release-strict"):
        assert "EASED" not in assay(*deciding, "--release-policy", policy).out
    (files / "assay.yaml").write_text("project: desk\nbaseline: base.jsonl\n")
    named = "the baseline is base.jsonl, which assay.yaml:2 names."
    assert named in assay(*deciding[:2]).err
    assert named not in assay(*deciding).err


def test_an_attestation_names_both_policies_and_what_made_the_decision_easier(
    assay: Any, files: Path
) -> None:
    predicate = attested(assay, files, "better.jsonl")["predicate"]
    assert predicate["policy"]["uri"] == "assay:policy/release@1"
    assert predicate["assay:gradedBy"]["policy"] == ["workflow@1"]
    assert predicate["assay:gradedBy"]["policy_digest"][0].startswith("sha256:")
    assert predicate["assay:terms"] == {}
    done = assay(
        "gate",
        "better.jsonl",
        "--baseline",
        "base.jsonl",
        "--quarantine",
        "s-0003",
        "--attest",
        "d.intoto.json",
    )
    assert done.code == 0, done.err
    assert (
        "NOTE quarantined: ['s-0003']"
        in assay("verify-attestation", "d.intoto.json", "--unsigned").out
    )
    short = (files / "base.jsonl").read_text().splitlines(keepends=True)[1:]
    (files / "short.jsonl").write_text("".join(short))
    assay("gate", "--plan", "--baseline", "short.jsonl", "-o", "plan.json")
    sides = ("better.jsonl", "--baseline", "base.jsonl")
    assay("gate", *sides, "--with-plan", "plan.json", "--attest", "d.intoto.json")
    assert (
        "NOTE not_in_plan: ['s-0000']"
        in assay("verify-attestation", "d.intoto.json", "--unsigned").out
    )


# --- names and files


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_file_or_folder_with_the_name_of_a_baseline_is_not_taken_for_it(
    assay: Any, files: Path, kind: str
) -> None:
    if kind == "file":
        (files / "production").write_text((files / "worse.jsonl").read_text())
    else:
        (files / "production").mkdir()
    absent = assay("gate", "better.jsonl", "--baseline", "production", "--json")
    assert (absent.code, json.loads(absent.err)["error"]["code"]) == (4, "REL-005")
    assert "write ./production" in absent.err
    assert assay("baseline", "set", "production", "base.jsonl").code == 0
    found = assay("gate", "unclear.jsonl", "--baseline", "production", "--json")
    assert (found.code, found.json()["baseline"]["name"]) == (1, "baseline production@1")
    assert (
        assay("gate", "better.jsonl", "--baseline", "production", "--baseline", "base.jsonl").code
        == 2
    )
    assert assay("gate", "better.jsonl", "--baseline", "./production").code == (
        0 if kind == "file" else 3
    )


# --- grades as input


def test_grades_say_the_same_as_the_evidence_they_were_made_from(assay: Any, files: Path) -> None:
    for name in ("better", "base"):
        assay("grade", f"{name}.jsonl", "-o", f"{name}.grades.json")
        assay("grade", f"{name}.jsonl", "-o", f"{name}.grades.jsonl")
    plain = assay("gate", "better.jsonl", "--baseline", "base.jsonl", "--json").json()
    for candidate, baseline in (
        ("better.grades.json", "base.grades.json"),
        ("better.grades.jsonl", "base.jsonl"),
    ):
        done = assay("gate", candidate, "--baseline", baseline, "--json")
        assert (done.code, done.json()["comparison"], done.json()["rules"]) == (
            0,
            plain["comparison"],
            plain["rules"],
        )


@pytest.mark.parametrize(
    "forge",
    [
        lambda one: one.update(weighted_score=100.0),
        lambda one: one.update(grade="A", passed=not one["passed"]),
        lambda one: one["criteria"][0].update(raw_score=1),
        lambda one: one["hard_gates"]["looks_right"].update(status="fail"),
        lambda one: one.pop("criteria"),
        lambda one: one.update(criteria="none"),
        lambda one: one.update(weighted_score=10**300),
    ],
)
def test_forged_grades_are_refused(assay: Any, files: Path, forge: Any) -> None:
    assay("grade", "worse.jsonl", "-o", "grades.json")
    document = json.loads((files / "grades.json").read_text())
    forge(document["results"][0])
    (files / "grades.json").write_text(json.dumps(document))
    done = assay("gate", "grades.json", "--baseline", "base.jsonl", "--json")
    assert (done.code, done.out) == (3, "")
    assert json.loads(done.err)["error"]["code"] == "REL-008"


def test_grades_that_were_made_although_inputs_were_malformed_are_refused(
    assay: Any, files: Path
) -> None:
    assay("grade", "better.jsonl", "-o", "grades.json")
    document = json.loads((files / "grades.json").read_text())
    document["faults"] = [{"file": "x", "line": 1, "message": "broken"}]
    (files / "grades.json").write_text(json.dumps(document))
    done = assay("gate", "grades.json", "--baseline", "base.jsonl")
    assert (done.code, "REL-008" in done.err, "x: broken" in done.err) == (3, True, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"faults": 3}, "`results` and `faults` of the grades must be lists"),
        ({"results": [{"digests": {"rubric": [1]}}]}, "digests.rubric: must be a string"),
        (
            {"results": [{"criteria": [{"critical_floor": {"from": "criterion", "norm": "x"}}]}]},
            "criteria[0].critical_floor: a floor must be a number",
        ),
    ],
)
def test_a_fault_of_malformed_grades_is_reported_with_its_file(
    assay: Any, files: Path, change: dict[str, Any], message: str
) -> None:
    assay("grade", "better.jsonl", "-o", "grades.json")
    document = json.loads((files / "grades.json").read_text())
    (files / "grades.json").write_text(json.dumps(_changed(document, change)))
    done = assay("gate", "grades.json", "--baseline", "base.jsonl")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("assay: grades.json: 1 fault")
    assert message in done.err


def _changed(tree: Any, change: Any) -> Any:
    """The tree with the values of another one in the same places."""
    if isinstance(change, dict):
        tree = tree or {}
        return {**tree, **{key: _changed(tree.get(key), change[key]) for key in change}}
    if isinstance(change, list) and isinstance(tree, list):
        return [_changed(*pair) for pair in zip(tree, change, strict=False)]
    return change


# --- slices, flaky samples and quarantine


def test_slices_stand_in_the_decision_on_the_terminal_and_on_the_page(
    assay: Any, tmp_path: Path
) -> None:
    base = [80.0 + index % 7 for index in range(200)]
    worse = [
        score - 6 if index % 5 == 0 else score + 2 + index % 2 for index, score in enumerate(base)
    ]
    for name, scores in (("base", base), ("cand", worse)):
        write(
            tmp_path / f"{name}.jsonl",
            [
                {**one, "tags": ["hard" if index % 5 == 0 else "easy"]}
                for index, one in enumerate(cards(scores))
            ],
        )
    deciding = ("gate", "cand.jsonl", "--baseline", "base.jsonl")
    assert assay(*deciding).code == 0  # as a whole it is better
    done = assay(*deciding, "--slice", "tag", "--json", "-o", "d.md")
    document = done.json()
    assert (done.code, document["outcome"]) == (1, "reject")
    assert [(one["slice"], one["worse"]) for one in document["slices"]] == [
        ("tag: easy", False),
        ("tag: hard", True),
    ]
    assert document["reason"].startswith("slices: tag: hard fell by 6.00 points")
    assert document["plan"]["slices"] == ["tag"]


def test_flaky_samples_are_listed_and_left_out_only_by_name(assay: Any, tmp_path: Path) -> None:
    def side(flaky: bool) -> list[dict[str, Any]]:
        return [
            run(
                "rag",
                run_id=f"{index}-{attempt}",
                dataset={"id": "d", "version": "1", "sample_id": f"s{index}"},
                attempt=attempt,
                status="failed" if flaky and (index, attempt) == (3, 2) else "success",
            )
            for index in range(60)
            for attempt in (1, 2)
        ]

    write(tmp_path / "cand.jsonl", side(True))
    write(tmp_path / "base.jsonl", side(False))
    deciding = ("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json")
    done = assay(*deciding)
    document = done.json()
    assert (done.code, document["outcome"]) == (1, "hold")  # half of its runs fail, and none before
    assert [(one["sample"], one["side"], one["passed"]) for one in document["flaky"]] == [
        ("d/s3", "candidate", 1)
    ]
    out = assay(*deciding, "--quarantine", "d/s3")
    assert (out.code, out.json()["missing"]["quarantined"]) == (0, ["d/s3"])
    write(tmp_path / "once.jsonl", side(False)[::2])
    for candidate, baseline in (("base", "once"), ("once", "base")):
        found = assay("gate", f"{candidate}.jsonl", "--baseline", f"{baseline}.jsonl", "--json")
        assert found.json()["outcome"] == "promote"  # unequal numbers of repeats are no loss
    unknown = assay(*deciding[:-1], "--quarantine", "d/s333")
    assert (unknown.code, "there is no sample 'd/s333'" in unknown.err) == (2, True)


@pytest.mark.parametrize(
    ("tolerance", "outcome", "numbers"),
    [("5.5", "promote", (5.5, 5.5, 0.055)), ("3", "reject", (3, 3, 0.03)), (None, "reject", None)],
)
def test_a_tolerance_is_of_scores_criteria_and_rates(
    assay: Any, tmp_path: Path, tolerance: str | None, outcome: str, numbers: Any
) -> None:
    scores = [90.0 + at % 3 for at in range(100)]
    write(tmp_path / "base.jsonl", cards(scores))
    write(tmp_path / "cand.jsonl", cards([score - 4.5 for score in scores]))
    more = () if tolerance is None else ("--tolerance", tolerance)
    done = assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json", *more)
    found = done.json()
    assert (found["outcome"], found["comparison"]["margin"]) == (
        outcome,
        3 if numbers is None else numbers[0],
    )
    if numbers is not None:
        (override,) = found["overrides"]
        eases = tolerance == "5.5"
        assert (override["field"], override["used"]) == ("tolerance", float(tolerance or 0))
        assert override["eases"] is eases
        assert found["policy"].startswith("release@1+")
        rules = {rule["id"]: rule["evidence"] for rule in found["rules"]}
        assert rules["gate_failure_rate"]["allowed"] == numbers[2]


@pytest.mark.parametrize("tolerance", ["-1", "101", "nan", "x"])
def test_a_tolerance_that_is_none_is_refused(assay: Any, files: Path, tolerance: str) -> None:
    deciding = ("gate", "better.jsonl", "--baseline", "base.jsonl", f"--tolerance={tolerance}")
    assert assay(*deciding).code == 2


@pytest.mark.parametrize(
    "option",
    ["--looks=2", "--allow-unpaired", "--margin=2", "--effect=1", "--sd=4", "--power=0.8"],
)
def test_an_option_of_the_old_gate_is_unknown(assay: Any, files: Path, option: str) -> None:
    assert assay("gate", "better.jsonl", "--baseline", "base.jsonl", option).code == 2


# --- refused


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("gate", "better.jsonl"), 2, "CLI-001"),
        (("gate", "--baseline", "base.jsonl"), 2, "CLI-001"),
        (
            ("gate", "better.jsonl", "--baseline", "base.jsonl", "--release-policy", "releese"),
            3,
            "LIB-",
        ),
        (("gate", "better.jsonl", "--baseline", "base.jsonl", "--sign", "key.pem"), 2, "CLI-001"),
        (("gate", "better.jsonl", "--baseline", "base.jsonl", "-o", "x.csv"), 2, "CLI-001"),
        (
            ("gate", "better.jsonl", "--baseline", "base.jsonl", "--with-plan", "base.jsonl"),
            3,
            "FIL-",
        ),
        (("gate", "better.jsonl", "--baseline", "nowhere.jsonl"), 3, "FIL-001"),
        (("gate", "better.jsonl", "--baseline", "production"), 4, "REL-005"),
        (("gate", "empty.jsonl", "--baseline", "base.jsonl"), 4, "REL-003"),
        (("gate", "better.jsonl", "--baseline", "empty.jsonl"), 4, "REL-003"),
        (("gate", "better.jsonl", "empty.jsonl", "--baseline", "base.jsonl"), 4, "REL-003"),
        (
            ("gate", "better.jsonl", "--baseline", "base.jsonl", "--baseline", "empty.jsonl"),
            4,
            "REL-003",
        ),
        (("baseline", "set", "production", "base.jsonl", "empty.jsonl"), 4, "REL-003"),
        (("gate", "broken.jsonl", "--baseline", "base.jsonl"), 3, "FIL-002"),
        (("gate", "half.jsonl", "--baseline", "base.jsonl"), 3, "GRD-"),
        (("gate", "twice.jsonl", "--baseline", "base.jsonl"), 3, "REL-004"),
    ],
)
def test_what_cannot_be_decided_on_is_refused_with_its_code(
    assay: Any, files: Path, arguments: tuple[str, ...], code: int, word: str
) -> None:
    (files / "empty.jsonl").write_text("")
    (files / "broken.jsonl").write_text((files / "better.jsonl").read_text() + '{"schema": \n')
    write(files / "half.jsonl", [*cards(BASE), {"schema": "assay.scorecard/1", "run_id": "x"}])
    write(files / "twice.jsonl", [*cards(BASE), card("0001", 80, run_id="again")])
    done = assay(*arguments, "--json")
    assert (done.code, done.out) == (code, "")
    assert json.loads(done.err)["error"]["code"].startswith(word)
