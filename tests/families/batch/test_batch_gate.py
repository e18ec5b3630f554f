"""`assay gate` over two batches gives the decision that it gives over the same scorecards."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assay.families.batch.compare import BatchGrading, compare_batches, read_batch_output
from assay.families.batch.duckdb_engine import DuckDBEngine
from assay.families.batch.records import BatchCounts, BatchFile
from assay.files.inputs import file_digest
from assay.files.json_files import stream_documents
from assay.library.shelf import Shelf
from assay.records.decision import Decision
from assay.release.policy import make_release_rules
from assay.services.compare import Asked, compare
from assay.services.grading import Grader
from assay.services.sides import Rereadable, severe_of, side_of
from batch_outputs import (
    NOISY,
    PLAN,
    PROFILE,
    SCORING,
    SIDES,
    batch,
    cards,
    evidence,
    project,
    runs,
)

__all__ = ["project"]

GRADED = BatchGrading(
    PLAN,
    Grader(Shelf()),
    {one.spec.id: one.spec.role for one in SCORING.criteria if one.spec.role is not None},
)
RULES = [
    make_release_rules(Shelf().policy_of("release", name)) for name in ("release", "release-strict")
]
DECIDED = (
    "outcome",
    "reason",
    "rules",
    "comparison",
    "would_change",
    "missing",
    "worse",
    "confirmation",
    "criteria",
    "expectation",
    "errors",
    "flaky",
    "slices",
    "policy",
)


def over_cards(folder: Path, seed: int, asked: Asked, **how: Any) -> Decision:
    """The decision over the scorecards of a random comparison."""
    grader, rules = Grader(Shelf(), profile=PROFILE), RULES[seed % 2]
    sides = []
    for name, side in (("candidate", f"ours r{seed}"), ("baseline", f"theirs r{seed}")):
        path = cards(folder / f"{side}.jsonl", side)

        def documents(path: Path = path) -> Any:
            return stream_documents(str(path))

        side_read = side_of(documents(), grader, name=name, severe=severe_of(rules))
        sides.append(Rereadable(side_read, documents))
    return compare(*sides, rules, grader, asked)


def over_batches(folder: Path, seed: int, asked: Asked) -> Decision:
    """The decision over the outputs of a batch of the same runs."""
    outputs = [
        read_batch_output(str(batch(folder / f"{side}.parquet", side)))
        for side in (f"ours r{seed}", f"theirs r{seed}")
    ]
    with closing(DuckDBEngine()) as engine:
        return compare_batches(engine, *outputs, GRADED, RULES[seed % 2], asked)


@pytest.mark.req("W-075")
@pytest.mark.parametrize("seed", range(NOISY))
def test_two_batches_are_decided_on_as_their_scorecards(tmp_path: Path, seed: int) -> None:
    """Also with repeats, groups, slices, lost runs, and missing scores and verdicts."""
    asked = Asked(
        slices=((), ("tag",), ("tag", "group"))[seed % 3] if _has_groups(seed) else ("tag",),
        quarantine=("s03",) if seed % 4 == 3 else (),
    )
    expected, made = over_cards(tmp_path, seed, asked), over_batches(tmp_path, seed, asked)
    for field in DECIDED:
        assert getattr(made, field) == getattr(expected, field), field


def _has_groups(seed: int) -> bool:
    return any(row["group"] for row in SIDES[f"theirs r{seed}"])


def test_the_random_comparisons_have_every_outcome(tmp_path: Path) -> None:
    found = {over_batches(tmp_path, seed, Asked()).outcome for seed in range(NOISY)}
    assert found >= {"promote", "hold", "reject"}


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome", "words"),
    [
        ("bad", "good", "reject", ""),
        ("also good", "half", "hold", ""),
        ("broken", "good", "hold", "1 sample may newly fail"),
        ("good", "polite", "hold", "50 samples lack results"),
        ("strangers", "good", "not_enough_evidence", "0 paired samples"),
    ],
)
def test_a_batch_that_is_not_shown_to_be_as_good_is_not_promoted(
    tmp_path: Path, assay: Any, ours: str, theirs: str, outcome: str, words: str
) -> None:
    files = [batch(tmp_path / f"{side}.parquet", side) for side in (ours, theirs)]
    given = ("--baseline", files[1], "--profile", PROFILE, "--json")
    done = assay("gate", files[0], *given)
    made = done.json()
    assert (made["outcome"], words in made["reason"]) == (outcome, True), made["reason"]
    assert done.code == {"not_enough_evidence": 4}.get(outcome, 1)


def test_fresh_runs_of_a_suspect_may_come_as_batches(tmp_path: Path, assay: Any) -> None:
    made = {
        side: batch(tmp_path / f"{side}.parquet", side)
        for side in ("broken", "good", "fresh broken", "fresh good", "fresh fixed")
    }
    words = ("gate", made["broken"], "--baseline", made["good"], "--fresh-baseline")
    done = assay(*words, made["fresh good"], "--fresh", made["fresh broken"], "--json")
    assert done.out, done.err
    found = done.json()
    assert (found["outcome"], "newly fails, confirmed" in found["reason"]) == ("reject", True)
    found = assay(*words, made["fresh good"], "--fresh", made["fresh fixed"], "--json").json()
    assert {one["verdict"] for one in found["confirmation"]["suspects"]} == {"flaky"}
    done = assay(*words, made["fresh good"], "--fresh", made["broken"])
    assert (done.code, "are not fresh" in done.err) == (3, True), done.err


@pytest.mark.parametrize(
    ("attempt", "first"),
    [
        ("'second'", "'1'"),
        ("'NaN'::DOUBLE", "1::DOUBLE"),
        ("1.5::DOUBLE", "1::DOUBLE"),
        ("1e300::DOUBLE", "1::DOUBLE"),
        ("0", "1"),
    ],
)
def test_an_attempt_that_is_not_a_whole_number_is_refused_by_name(
    tmp_path: Path, assay: Any, attempt: str, first: str
) -> None:
    some = f"CASE WHEN sample < 's02' THEN {attempt} ELSE {first} END"
    files = [
        batch(tmp_path / f"{name}.parquet", "good", columns_sql={"attempt": sql})
        for name, sql in (("ours", some), ("theirs", first))
    ]
    done = assay("gate", files[0], "--baseline", files[1])
    assert "the candidate has 2 runs whose `attempt` isn't a whole number from 1" in done.err
    assert done.code == 3


OTHER = "sha256:" + 64 * "0"
REFUSED: dict[str, tuple[str, dict[str, Any], tuple[str, ...], str, int]] = {
    "other columns": (
        "also good",
        {"columns": {"raw": "best_of_five"}},
        (),
        "raw is the column 'raw' in the baseline's batch, and 'best_of_five' in",
        3,
    ),
    "a group that was not kept": ("also good", {}, ("--slice", "group"), "--keep group", 2),
    "an unknown column": ("also good", {}, ("--slice", "language"), "--keep language", 2),
    "store": ("also good", {}, ("--store",), "--store can't be used over batches", 2),
    "charts": ("also good", {}, ("--charts", "charts"), "--charts can't be used", 2),
    "sarif": ("also good", {}, ("-o", "d.sarif"), "-o FILE.sarif can't be used", 2),
    "an engine": ("also good", {}, ("--engine", "spark"), "--engine", 2),
    "an unknown sample": ("also good", {}, ("--quarantine", "nobody"), "no sample 'nobody'", 2),
    "a sample that is there twice": (
        "twice",
        {},
        (),
        "'s00' appears twice in the candidate. Keep one run for each sample, or number the",
        3,
    ),
    "runs that were not graded": ("invalid", {}, (), "couldn't be graded", 3),
    "other groups": ("regrouped", {}, (), "of 1 samples are in different groups", 3),
    "a part": ("good", {"sample": 40}, (), "--sample", 3),
    "another plan": ("good", {"plan": OTHER}, (), "plan: sha256:000", 3),
    "another policy": ("good", {"policy": "workflow@9"}, (), "policy: workflow@9 here", 3),
    "a file elsewhere": (
        "good",
        {"outputs": [BatchFile(name="../theirs.parquet", digest=OTHER)]},
        (),
        "which isn't a file next to it with a digest",
        3,
    ),
}


@pytest.mark.req("W-003")
@pytest.mark.parametrize("case", REFUSED)
def test_a_batch_that_cannot_be_compared_opens_no_gate(
    tmp_path: Path, assay: Any, case: str
) -> None:
    side, changes, more, words, code = REFUSED[case]
    theirs = batch(tmp_path / "theirs.parquet", "good")
    ours = batch(tmp_path / "ours.parquet", side, **changes)
    done = assay("gate", ours, "--baseline", theirs, *more)
    assert (done.code, words in done.err) == (code, True), done.err


def test_a_column_of_another_name_is_no_slice(tmp_path: Path, assay: Any) -> None:
    files = [
        batch(tmp_path / f"{side}.parquet", side, columns_sql={"team": "'a'"})
        for side in ("also good", "good")
    ]
    done = assay("gate", files[0], "--baseline", files[1], "--slice", "team")
    assert (done.code, "can't be sliced by the column 'team'" in done.err) == (2, True), done.err


def test_a_batch_is_compared_with_a_batch(tmp_path: Path, assay: Any) -> None:
    theirs = batch(tmp_path / "theirs.parquet", "good")
    done = assay("gate", cards(tmp_path / "cards.jsonl", "good"), "--baseline", theirs)
    assert (done.code, "isn't an output of `assay batch`" in done.err) == (2, True), done.err


def test_rejected_rows_are_said(tmp_path: Path, assay: Any) -> None:
    theirs = batch(tmp_path / "theirs.parquet", "good")
    counts = BatchCounts(
        rows=41, runs=40, passed=40, invalid=0, grades={}, rejects={"BAT-012": 1200}
    )
    ours = batch(tmp_path / "ours.parquet", "also good", counts=counts, columns={"run": "id"})
    done = assay("gate", ours, "--baseline", theirs)
    assert done.code == 0, done.err
    assert "`assay batch` rejected 1,200 entries of the candidate and graded" in done.out
    assert "BAT-012 1,200" in done.out


CONTRARY, OTHER_TYPE = "contradicts its norms", "so it isn't what `assay batch` writes"


@pytest.mark.req("W-003")
@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("true AS passed", CONTRARY),
        ("100e0 AS score", CONTRARY),
        ("'A' AS grade", CONTRARY),
        ("[]::VARCHAR[] AS failed_floors", CONTRARY),
        ("1e0 AS norm_correctness", CONTRARY),
        ("'NaN'::DOUBLE AS score", "couldn't be graded"),
        ("'NaN'::DOUBLE AS norm_safety", "couldn't be graded"),
        ("'x' AS score", OTHER_TYPE),
        ("'x' AS norm_safety", OTHER_TYPE),
        ("'x' AS passed", OTHER_TYPE),
        ("'x' AS failed_gates", OTHER_TYPE),
        ("'x' AS extra_gates", OTHER_TYPE),
    ],
)
def test_forged_rows_open_no_gate(tmp_path: Path, assay: Any, lie: str, words: str) -> None:
    theirs = batch(tmp_path / "theirs.parquet", "good")
    forged = batch(tmp_path / "forging.parquet", "bad")
    made = tmp_path / "forged.parquet"
    duckdb.sql(f"SELECT * REPLACE ({lie}) FROM '{forged}'").write_parquet(str(made))
    record = json.loads(forged.with_suffix(".batch.json").read_text())
    record["outputs"] = [{"name": made.name, "digest": f"sha256:{file_digest(str(made))}"}]
    made.with_suffix(".batch.json").write_text(json.dumps(record))
    done = assay("gate", made, "--baseline", theirs)
    assert (done.code, "BAT-060" in done.err, words in done.err) == (3, True, True), done.err


def test_a_file_that_was_changed_opens_no_gate(tmp_path: Path, assay: Any) -> None:
    theirs, ours = (batch(tmp_path / f"{side}.parquet", side) for side in ("good", "also good"))
    ours.write_bytes(theirs.read_bytes())
    done = assay("gate", ours, "--baseline", theirs)
    assert (done.code, "isn't the file that the batch wrote" in done.err) == (3, True), done.err
    ours.with_suffix(".batch.json").unlink()
    done = assay("gate", ours, "--baseline", theirs)
    assert done.code in (2, 3), done.err


def test_a_record_that_names_other_files_opens_no_gate(tmp_path: Path, assay: Any) -> None:
    theirs, good = (batch(tmp_path / f"{one}.parquet", "good") for one in "ab")
    bad = batch(tmp_path / "bad.parquet", "bad")
    bad.with_suffix(".batch.json").write_bytes(good.with_suffix(".batch.json").read_bytes())
    folder = tmp_path / "folder"
    (folder / "grades").mkdir(parents=True)
    record = json.loads(good.with_suffix(".batch.json").read_text())
    record["outputs"][0]["name"] = "grades/part-0.parquet"
    (folder / "batch.json").write_text(json.dumps(record))
    (folder / "grades" / "part-0.parquet").write_bytes(good.read_bytes())
    assert assay("gate", folder, "--baseline", theirs).code == 0
    (folder / "grades" / "part-1.parquet").write_bytes(bad.read_bytes())
    for side in (bad, folder):
        done = assay("gate", side, "--baseline", theirs)
        assert (done.code, "isn't a file of the batch" in done.err) == (3, True), done.err


def test_a_profile_that_changed_since_a_batch_was_graded_is_refused(
    tmp_path: Path, assay: Any
) -> None:
    (tmp_path / "assay.yaml").unlink()
    changed = {"plan": "sha256:" + 64 * "1", "profile": "dag-review@1"}
    files = [batch(tmp_path / f"{side}.parquet", side, **changed) for side in ("also good", "good")]
    done = assay("gate", files[0], "--baseline", files[1])
    assert done.code == 3
    assert "other numbers than dag-review@1" in done.err


def test_a_batch_by_a_profile_outside_the_library_is_refused_with_the_command_to_run(
    tmp_path: Path, assay: Any
) -> None:
    (tmp_path / "assay.yaml").unlink()
    for side in ("also good", "good"):
        batch(tmp_path / f"{side.split()[0]}.parquet", side)
    done = assay("gate", "also.parquet", "--baseline", "good.parquet")
    words = "assay gate also.parquet --baseline good.parquet --profile FILE"
    assert (done.code, f"`{words}`" in done.err) == (3, True), done.err
    assert assay(*words.replace("FILE", PROFILE).split()[1:]).code != 3


def test_the_records_of_batches_do_not_overrule_the_project(tmp_path: Path, assay: Any) -> None:
    """Both sides may have been graded before the project asked for more."""
    files = [batch(tmp_path / f"{side}.parquet", side) for side in ("also good", "good")]
    for text, option in (
        ("profile: dag-review@1\n", ("--profile", PROFILE)),
        ("profile: own.yaml\npolicy: workflow-judged\n", ("--grading-policy", "workflow")),
    ):
        (tmp_path / "assay.yaml").write_text(text)
        done = assay("gate", files[0], "--baseline", files[1])
        assert (done.code, "with other numbers" in done.err) == (3, True), text
        assert assay("gate", files[0], "--baseline", files[1], *option).code == 0
        again = tmp_path / "again.parquet"
        if option[0] == "--profile":
            done = assay("batch", files[1], "-o", again)
            assert (done.code, "BAT-027" in done.err, again.exists()) == (3, True, False)


@pytest.mark.req("W-075")
def test_outputs_of_assay_batch_are_decided_on_as_their_scorecards(
    tmp_path: Path, assay: Any
) -> None:
    made: dict[str, dict[str, Path]] = {}
    for side in ("their outputs", "our outputs"):
        table = evidence(tmp_path / f"{side}.in.parquet", SIDES[side])
        parts = tmp_path / f"{side}.parts"
        duckdb.sql(
            f"COPY (SELECT *, hash(run) % 2 AS part FROM '{table}') TO '{parts}' (FORMAT parquet,"
            " PARTITION_BY part)"
        )
        made[side] = {"cards": cards(tmp_path / f"{side}.cards.jsonl", side)}
        for kind, given, more in (
            ("file", table, ("--keep", "sample")),
            ("folder", parts, ("--keep", "sample")),
            ("regraded", tmp_path / f"{side}.file.parquet", ()),
        ):
            if kind == "file" or side == "our outputs":
                target = tmp_path / f"{side}.{kind}{'' if kind == 'folder' else '.parquet'}"
                done = assay("batch", given, "-o", target, "--profile", PROFILE, *more)
                assert done.code == 1, done.err
                made[side][kind] = target
    found = {}
    for kind, ours in made["our outputs"].items():
        theirs = made["their outputs"]["cards" if kind == "cards" else "file"]
        done = assay("gate", ours, "--baseline", theirs, "--profile", PROFILE, "--json")
        found[kind] = done.json()
        assert done.code == 1
        lacking = found[kind]["rules"][0]["evidence"]["missing"]
        assert {"sample": "s07", "what": "gate polite"} in lacking
        for field in DECIDED:
            assert found[kind].get(field) == found["cards"].get(field), (kind, field)


def test_batches_on_another_dataset_or_by_another_judge_are_not_compared(
    tmp_path: Path, assay: Any
) -> None:
    """As over runs, where both are known: here, where the baseline kept the columns, in capitals or
    not.
    """
    made = {
        name: batch(
            tmp_path / f"{name}.parquet",
            "good",
            columns_sql={"Dataset_Version": f"{version}", column: f"'{judge}'"},
        )
        for name, version, column, judge in (
            ("old", 1, "Judge", "m-1"),
            ("easier", 2, "Judge", "m-1"),
            ("kinder", 1, "judge", "m-2"),
        )
    }
    assert assay("gate", made["old"], "--baseline", made["old"]).code == 0
    bare = batch(tmp_path / "bare.parquet", "good")
    assert assay("gate", made["easier"], "--baseline", bare).code == 0
    for ours, words in (
        (made["easier"], "dataset_version: 2 here, 1 in the baseline"),
        (made["kinder"], "judge: m-2 here, m-1 in the baseline"),
        (bare, "dataset_version: none here, 1 in the baseline"),
    ):
        done = assay("gate", ours, "--baseline", made["old"])
        assert (done.code, words in done.err) == (3, True), done.err


def test_a_column_that_a_decision_reads_and_a_batch_left_out_is_shown(
    tmp_path: Path, assay: Any
) -> None:
    """Without groups the samples count as independent, and the interval narrows."""
    source = evidence(tmp_path / "in.parquet", SIDES["good"])
    made = {}
    for keep in ("sample", "sample,group,attempt"):
        made[keep] = tmp_path / f"{keep}.parquet"
        done = assay("batch", source, "-o", made[keep], "--profile", PROFILE, "--keep", keep)
        line = "not kept    attempt, group, which `assay gate` reads: --keep attempt,group\n"
        shown = [one for one in done.out.splitlines() if one.startswith("not kept")]
        assert [sorted(one.split()) for one in shown] == (
            [sorted(line.split())] if keep == "sample" else []
        ), done.out
    forgot, whole = made.values()
    pairs = (((whole, forgot), 1), ((forgot, forgot), 0), ((whole, whole), 0))
    for pair, n in pairs:
        notes = assay("gate", pair[0], "--baseline", pair[1], "--json").json()["notes"]
        assert sum("kept `group` and the baseline's didn't" in one for one in notes) == n


@pytest.mark.req("W-003")
def test_runs_that_a_batch_rejected_open_no_gate(tmp_path: Path, assay: Any) -> None:
    theirs, ours = batch(tmp_path / "theirs.parquet", "good"), tmp_path / "ours.parquet"
    source = evidence(tmp_path / "in.parquet", SIDES["invalid"])
    done = assay("batch", source, "-o", ours, "--profile", PROFILE, "--keep", "sample")
    assert done.code == 3, done.err
    for pair in ((ours, theirs), (theirs, ours)):
        done = assay("gate", pair[0], "--baseline", pair[1])
        assert (done.code, "couldn't be graded" in done.err) == (3, True), done.err


@pytest.mark.req("W-091")
def test_batches_under_a_policy_with_terms_for_judges_are_refused(
    tmp_path: Path, assay: Any
) -> None:
    """Rows don't show the judge, so both sides miss every floor alike, and no rule notices."""
    given = []
    for name in ("ours", "theirs"):
        table = evidence(tmp_path / f"{name}.in.parquet", runs(1, drop=0.0))
        given.append(tmp_path / f"{name}.parquet")
        keep = ("--profile", PROFILE, "--policy", "workflow-judged", "--keep", "sample")
        assert assay("batch", table, "-o", given[-1], *keep).code == 1
    by = ("--profile", PROFILE, "--grading-policy", "workflow-judged")
    done = assay("gate", given[0], "--baseline", given[1], *by)
    assert (done.code, "don't show which judge gave a score" in done.err) == (3, True), done.out
