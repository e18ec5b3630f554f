"""Stored baselines: never overwritten, checked by digest, refused when too old, and compared sample
by sample.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import run
from assay.errors import ExitCode, InputError, NotEnoughEvidence, UsageError
from assay.release.baseline import check_age, check_name, find, names, store, versions
from documents import run as evidence
from sides import RULES, card, cards, drawn, write

NOW = datetime(2026, 11, 15, 10, tzinfo=UTC)
BASE = drawn(60, seed=9, low=75)


@pytest.fixture
def base(assay: Any, tmp_path: Path) -> Path:
    """A folder with a baseline that was stored in it."""
    write(tmp_path / "base.jsonl", cards(BASE))
    write(
        tmp_path / "cand.jsonl",
        cards([round(min(100, score + 1 + index % 2), 2) for index, score in enumerate(BASE)]),
    )
    assert assay("baseline", "set", "prod", "base.jsonl", "--now", "2026-11-01T00:00:00Z").code == 0
    hint = assay("gate", "cand.jsonl")
    assert (hint.code, "Run `assay gate cand.jsonl --baseline prod`." in hint.err) == (2, True)
    return tmp_path


def test_a_stored_baseline_decides_as_its_files_do(assay: Any, base: Path) -> None:
    by_name = assay(
        "gate", "cand.jsonl", "--baseline", "prod", "--now", "2026-11-15T00:00:00Z", "--json"
    )
    by_file = assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json").json()
    assert (by_name.code, by_name.json()["comparison"], by_name.json()["digests"]["baseline"]) == (
        0,
        by_file["comparison"],
        by_file["digests"]["baseline"],
    )
    assert by_name.json()["baseline"]["name"] == "baseline prod@1"


def test_a_folder_below_has_the_baselines_of_its_project(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (below := base / "service").mkdir()
    monkeypatch.chdir(below)
    now = "2026-11-15T00:00:00Z"
    assert run(["gate", "../cand.jsonl", "--baseline", "prod", "--now", now]) == ExitCode.PASSED
    assert run(["baseline", "set", "next", "../cand.jsonl"]) == ExitCode.PASSED
    # an .assay here would also hide the ledger above
    assert list(below.iterdir()) == []
    assert names(str(base / ".assay" / "baselines")) == ["next", "prod"]


def test_a_baseline_says_what_it_is_made_of(assay: Any, base: Path) -> None:
    record = assay("baseline", "show", "prod", "--json").json()
    assert (
        record["schema"],
        record["name"],
        record["version"],
        record["kind"],
        record["made_at"],
    ) == (
        "assay.baseline/1",
        "prod",
        1,
        "runs",
        "2026-11-01T00:00:00Z",
    )
    assert (record["samples"], record["runs"], record["versions"]) == (60, 60, [1])
    assert record["summary"]["n"] == 60
    assert record["summary"]["weighted_score"]["mean"]["value"] == pytest.approx(sum(BASE) / 60)
    assert record["fingerprint"]["fields"]["policy"] == ["workflow@1"]
    head, *lines = assay("baseline", "show", "prod").out.splitlines()
    assert head.startswith("prod@1, made ")
    assert lines[0] == "  samples        60 in 60 runs"
    assert {line[17:].strip() == line[17:] and line[15:17] == "  " for line in lines} == {True}


def test_storing_again_keeps_the_old_one(assay: Any, base: Path) -> None:
    folder = base / ".assay" / "baselines"
    before = {path.name: path.read_bytes() for path in folder.iterdir() if "@" in path.name}
    assert assay("baseline", "set", "prod", "cand.jsonl", "--now", "2026-11-10T00:00:00Z").code == 0
    for name, data in before.items():
        assert (folder / name).read_bytes() == data
    assert [one["name"] for one in assay("baseline", "list", "--json").json()["baselines"]] == [
        "prod@1",
        "prod@2",
    ]
    assert assay("baseline", "show", "prod", "--json").json()["version"] == 2
    assert assay("baseline", "show", "prod@1", "--json").json()["version"] == 1
    same = assay(
        "gate", "cand.jsonl", "--baseline", "prod", "--now", "2026-11-15T00:00:00Z", "--json"
    ).json()
    older = assay(
        "gate", "cand.jsonl", "--baseline", "prod@1", "--now", "2026-11-15T00:00:00Z", "--json"
    ).json()
    assert (same["comparison"]["difference"]["estimate"], older["comparison"]["superior"]) == (
        0,
        True,
    )


@pytest.mark.parametrize(
    "how", ["evidence", "line", "record", "unlisted", "digest", "gone", "older", "swapped"]
)
def test_a_baseline_that_was_changed_is_refused(assay: Any, base: Path, how: str) -> None:
    folder = base / ".assay" / "baselines"
    evidence, record = folder / "prod@1.jsonl", folder / "prod.json"
    if how == "evidence":
        evidence.write_bytes(evidence.read_bytes().replace(b"0.8", b"0.7", 1))
    elif how == "line":
        evidence.write_text("".join(evidence.read_text().splitlines(keepends=True)[1:]))
    elif how == "record":
        record.write_text(record.read_text().replace("2026-11-01", "2026-11-14"))
    elif how == "digest":
        tree = json.loads(record.read_text())
        record.write_text(json.dumps({**tree, "evidence": "../../cand.jsonl"}))
    elif how == "unlisted":
        record.unlink()
    elif how == "gone":
        evidence.unlink()
    elif how == "older":
        assay("baseline", "set", "prod", "cand.jsonl", "--now", "2026-11-02T00:00:00Z")
        record.write_bytes((folder / "prod@1.json").read_bytes())
    else:
        assay("baseline", "set", "other", "cand.jsonl")
        record.write_bytes((folder / "other.json").read_bytes())
    done = assay(
        "gate", "cand.jsonl", "--baseline", "prod", "--now", "2026-11-15T00:00:00Z", "--json"
    )
    assert (done.code, done.out) == (3, "")
    assert json.loads(done.err)["error"]["code"] == "REL-005"
    listed = assay("baseline", "list", "--json")
    if how in ("evidence", "line", "gone"):
        assert (listed.code, [one["name"] for one in listed.json()["broken"]]) == (3, ["prod@1"])


def test_a_record_that_gives_itself_a_digest_still_names_no_other_evidence(tmp_path: Path) -> None:
    from assay.canon import digest

    store(
        str(tmp_path),
        "prod",
        kind="runs",
        facts={"runs": 1, "samples": 1},
        write=lambda stream: stream.write(b"{}\n"),
        now=NOW,
    )
    (tmp_path.parent / "secret.jsonl").write_text("{}\n")
    tree = {
        key: value
        for key, value in json.loads((tmp_path / "prod.json").read_text()).items()
        if key != "digest"
    }
    tree["evidence"] = "../secret.jsonl"
    (tmp_path / "prod.json").write_text(json.dumps({**tree, "digest": digest(tree)}))
    with pytest.raises(InputError, match="of another baseline"):
        find(str(tmp_path), "prod")


@pytest.mark.parametrize(
    "fingerprint",
    [[None], {"fields": [[]]}, {"fields": {"policy_digest": 1.5}}, {"fields": {"profile": {}}}],
)
def test_a_forged_fingerprint_is_refused(assay: Any, base: Path, fingerprint: Any) -> None:
    from assay.canon import digest

    path = base / ".assay" / "baselines" / "prod.json"
    tree = {**json.loads(path.read_text()), "fingerprint": fingerprint}
    del tree["digest"]
    path.write_text(json.dumps({**tree, "digest": digest(tree)}))
    done = assay("gate", "cand.jsonl", "--baseline", "prod", "--now", "2026-11-15T00:00:00Z")
    assert done.code == 3, done.err


@pytest.mark.parametrize(
    "part", [{"summary": 3}, {"summary": {"pass_rate": {}}}, {"samples": []}, {"runs": None}]
)
def test_a_forged_record_is_refused_where_it_is_shown(
    assay: Any, base: Path, part: dict[str, Any]
) -> None:
    from assay.canon import digest

    for path in (base / ".assay" / "baselines").glob("prod*.json"):
        tree = {**json.loads(path.read_text()), **part}
        del tree["digest"]
        path.write_text(json.dumps({**tree, "digest": digest(tree)}))
    shown = assay("baseline", "show", "prod")
    assert (shown.code, "its record lacks what" in shown.err) == (3, True)
    listed = assay("baseline", "list", "--json")
    assert (listed.code, [one["name"] for one in listed.json()["broken"]]) == (3, ["prod@1"])


@pytest.mark.parametrize(("days", "code"), [(0, 0), (90, 0), (90.01, 4), (-0.01, 4)])
def test_a_baseline_is_used_only_as_long_as_the_policy_allows(
    assay: Any, base: Path, days: float, code: int
) -> None:
    moment = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=days)
    done = assay("gate", "cand.jsonl", "--baseline", "prod", "--now", moment.isoformat())
    assert done.code == code
    if code:
        assert "REL-005" in done.err
        assert ("days old; release@1 allows 90" in done.err) is (days > 0)
        assert ("from the future" in done.err) is (days < 0)
    stored = find(str(base / ".assay" / "baselines"), "prod")
    if not code:
        check_age(stored, RULES, now=moment)
    else:
        with pytest.raises(NotEnoughEvidence):
            check_age(stored, RULES, now=moment)


def test_old_runs_in_a_file_or_stored_now_are_warned_of(assay: Any, tmp_path: Path) -> None:
    for name, day in (("old", "2026-01-10"), ("new", "2026-11-01")):
        runs = [
            evidence(
                "rag",
                run_id=f"r-{n}",
                dataset={"id": "d", "version": "1", "sample_id": f"s-{n}"},
                started_at=f"{day}T00:00:00Z",
            )
            for n in range(60)
        ]
        write(tmp_path / f"{name}.jsonl", runs)
    for now, is_old in (("2026-03-01T00:00:00Z", False), ("2026-11-15T00:00:00Z", True)):
        done = assay("gate", "new.jsonl", "--baseline", "old.jsonl", "--now", now)
        said = (
            "old.jsonl is 309.0 days old; release@1 allows 90."
            " A stored baseline of that age is refused."
        )
        assert done.code == 0
        assert (said in done.err) is is_old
        done = assay("baseline", "set", "prod", "old.jsonl", "--now", now)
        assert done.code == 0
        assert ("days old; release@1 allows 90. `assay gate` refuses it." in done.err) is is_old


def test_a_missing_baseline_is_not_enough_evidence_and_names_the_near_miss(
    assay: Any, base: Path
) -> None:
    for arguments in (
        ("gate", "cand.jsonl", "--baseline", "prodd"),
        ("baseline", "show", "prodd"),
        ("baseline", "diff", "prodd", "cand.jsonl"),
    ):
        done = assay(*arguments)
        assert (done.code, "there is no baseline 'prodd'. Did you mean 'prod'?" in done.err) == (
            4,
            True,
        )
    assert assay("baseline", "show", "prod@9").code == 4
    assert assay("baseline", "show", "x", "--dir", "nowhere").code == 4
    assert assay("baseline", "list", "--dir", "nowhere", "--json").json()["baselines"] == []


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/b",
        "",
        ".hidden",
        "a b",
        "-x",
        "x@2",
        "a\\b",
        "con",
        "latest",
        "x" * 101,
        "runs.jsonl",
        "prod.json",
        "prod.v2",
        "x\n",
        "ä",
        "x.",
    ],
)
def test_a_name_is_plain(assay: Any, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        check_name(name)
    write(tmp_path / "base.jsonl", cards(BASE[:2]))
    assert assay("baseline", "set", "--", name, "base.jsonl").code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base.jsonl"]


def test_evidence_that_cannot_be_graded_is_not_stored(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "twice.jsonl", [*cards(BASE[:3]), card("0001", 80, run_id="again")])
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "broken.jsonl").write_text("{")
    for name, code in (
        ("twice.jsonl", 3),
        ("empty.jsonl", 4),
        ("broken.jsonl", 3),
        ("nowhere.jsonl", 3),
        ("-", 2),
    ):
        assert assay("baseline", "set", "prod", name).code == code
    assert not (tmp_path / ".assay").exists()


def test_two_that_store_at_once_get_two_versions(tmp_path: Path) -> None:
    folder = str(tmp_path)
    store(folder, "a", kind="runs", facts={}, write=lambda stream: stream.write(b"1\n"), now=NOW)
    (tmp_path / "a@2.jsonl").write_text("half of another\n")  # its record was never written
    second = store(
        folder, "a", kind="runs", facts={}, write=lambda stream: stream.write(b"2\n"), now=NOW
    )
    assert (second.name, versions(folder, "a"), names(folder)) == ("a@3", [1, 3], ["a"])
    assert find(folder, "a").name == "a@3"


def test_diff_shows_each_sample_that_changed_and_decides_nothing(assay: Any, base: Path) -> None:
    changed = cards(BASE)
    changed[3]["hard_gates"]["looks_right"] = False
    changed[5] = card("0005", BASE[5] - 7)
    write(base / "other.jsonl", changed[:-1])
    done = assay("baseline", "diff", "prod", "other.jsonl", "--json", "-o", "diff.json")
    assert done.code == 0
    document = done.json()
    assert json.loads((base / "diff.json").read_text()) == document
    assert [
        (one["sample"], one["difference"], one["newly_failed_gates"]) for one in document["changed"]
    ] == [
        ("s-0003", 0, ["looks_right"]),
        ("s-0005", -7, []),
    ]
    assert document["missing"] == {"other": ["s-0059"], "baseline": []}
    assert "outcome" not in document
    assert "s-0005" in assay("baseline", "diff", "prod", "other.jsonl").out
    assay("baseline", "set", "next", "cand.jsonl")
    against = assay("baseline", "diff", "prod", "next", "--json").json()
    assert (
        against["other"],
        against["comparison"]["n_paired"],
        against["comparison"]["superior"],
    ) == ("baseline next@1", 60, True)
    assert assay("baseline", "diff", "prod", "next", "--grading-policy", "nonsense").code == 3


def test_a_graded_exam_is_stored_too_and_is_no_side_of_a_decision(
    assay: Any, tmp_path: Path
) -> None:
    exam = {
        "exam": "e",
        "version": 1,
        "rubric": "tutor@1",
        "set": "regression",
        "items": [
            {"id": "i1", "prompt": "p", "expected_contains": ["went"], "gloss_contains": ["fue"]}
        ],
    }
    (tmp_path / "exam.json").write_text(json.dumps(exam))
    answer = {
        "item": "i1",
        "response": {
            "correction": "She went.",
            "gloss": "Ella fue.",
            "explanation": "The past of go.",
        },
        "latency_ms": 5,
    }
    (tmp_path / "answers.jsonl").write_text(json.dumps(answer) + "\n")
    assert (
        assay("exam", "grade", "exam.json", "--answers", "answers.jsonl", "-o", "result.json").code
        == 0
    )
    stored = assay("baseline", "set", "tutor", "result.json", "--json").json()
    assert (stored["kind"], stored["summary"]["n"]) == ("exam", 1)
    path = assay("baseline", "show", "tutor", "--json").json()["path"]
    assert (tmp_path / path).read_bytes() == (tmp_path / "result.json").read_bytes()
    write(tmp_path / "cand.jsonl", cards(BASE))
    done = assay("gate", "cand.jsonl", "--baseline", "tutor")
    assert (done.code, "is a graded exam" in done.err) == (3, True)
    forged = json.loads((tmp_path / "result.json").read_text())
    forged["score"] = 0.123
    (tmp_path / "forged.json").write_text(json.dumps(forged))
    assert assay("baseline", "set", "tutor", "forged.json").code == 3


def test_help_and_unknown_actions(assay: Any) -> None:
    assert assay("baseline", "--help").code == 0
    assert assay("baseline", "sett").code == 2
    assert assay("baseline").code == 2
