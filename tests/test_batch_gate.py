"""`assay gate` over two batches gives the decision that it gives over the same scorecards."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec import json as msgjson
from msgspec import to_builtins

from assay import grade_table
from assay.files.json_files import file_digest
from assay.files.own_files import is_batch_output
from assay.library.shelf import Shelf
from assay.pipeline.batching import plan_batch, scoring_plan
from assay.records.batch import BatchCounts, BatchEngineUsed, BatchFile, BatchRecord
from examples import CAMPAIGN

duckdb = pytest.importorskip("duckdb")
PROFILE = "dag-review@2"
PLAN = plan_batch(Shelf(), profile=PROFILE)
SCORING = scoring_plan(Shelf(), profile=PROFILE)
DECIDED = (
    "looks",
    "outcome",
    "reason",
    "rules",
    "comparison",
    "would_change",
    "missing",
    "worse",
    "policy",
)


def runs(seed: int, *, drop: float, groups: int = 0, tags: int = 0) -> list[dict[str, Any]]:
    """Runs of forty samples, with what each criterion and gate came to; some samples have no
    tag, and some no group.
    """
    found = []
    for n in range(40):
        drawn = random.Random(f"{n}")
        own = random.Random(f"{seed} {n}")
        raws = {
            one.spec.id: max(1, drawn.choice([4, 5, 5]) - (own.random() < drop))
            for one in SCORING.criteria
        }
        gates = {one.id: own.random() > drop / 20 for one in SCORING.gates}
        group = f"g{n % groups}" if groups and not (tags and n > 36) else None
        found.append(
            {
                "run": f"{seed}-{n}",
                "sample": f"s{n:02}",
                "group": group,
                "tag": f"t{n % tags}" if tags and n % 7 else None,
                "raws": raws,
                "gates": gates,
            }
        )
    return found


def cards(path: Path, rows: list[dict[str, Any]]) -> Path:
    lines = []
    for row in rows:
        card = {
            "schema": "assay.scorecard/1",
            "run_id": row["run"],
            "sample_id": row["sample"],
            "hard_gates": row["gates"],
            "criteria": [
                to_builtins(one.spec.scored(row["raws"][one.spec.id], n=1))
                for one in SCORING.criteria
            ],
        }
        if row["group"] is not None:
            card["group"] = row["group"]
        if row["tag"] is not None:
            card["tags"] = [row["tag"]]
        lines.append(json.dumps(card, default=float))
    path.write_text("\n".join(lines) + "\n")
    return path


def evidence(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The same runs as rows: scores and the profile's gates wide, other gates long."""
    known = {one.id for one in SCORING.gates}
    lines: list[dict[str, Any]] = []
    for row in rows:
        gates = {gate: row["gates"][gate] for gate in known}
        names = ("run", "sample", "group", "tag")
        lines.append({name: row[name] for name in names} | row["raws"] | gates)
        lines += [
            {"run": row["run"], "gate": gate, "verdict": row["gates"][gate]}
            for gate in row["gates"].keys() - known
        ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


MADE: dict[bytes, bytes] = {}
"""The output of a batch by its evidence: tests take the same runs again and again."""


def batch(path: Path, rows: list[dict[str, Any]], **changes: Any) -> Path:
    """The same runs as the output of a batch, with its record."""
    wide = evidence(path.with_suffix(".jsonl"), rows)
    keep = ["sample", *(name for name in ("group", "tag") if any(row[name] for row in rows))]
    if (given := wide.read_bytes()) not in MADE:
        source = duckdb.connect()
        grades = grade_table(str(wide), profile=PROFILE, connection=source, keep=keep)
        grades.write_parquet(str(path))
        MADE[given] = path.read_bytes()
    path.write_bytes(MADE[given])
    record = BatchRecord(
        profile=PLAN.profile,
        scoring_system=PLAN.scoring_system,
        grading_system=PLAN.grading_system,
        **{
            "policy": PLAN.policy,
            "plan": PLAN.digest,
            "digests": dict(PLAN.digests),
            "engine": BatchEngineUsed(name="duckdb", version="1"),
            "sql": PLAN.digest,
            "keep": keep,
            "inputs": [],
            "outputs": [BatchFile(name=path.name, digest=f"sha256:{file_digest(str(path))}")],
            "counts": BatchCounts(
                rows=1, runs=len(rows), passed=0, invalid=0, grades={}, rejects={}
            ),
            **changes,
        },
    )
    path.with_suffix(".batch.json").write_bytes(msgjson.encode(record))
    assert is_batch_output(str(path))
    return path


@pytest.mark.req("W-033")
def test_a_decision_over_batches_is_that_over_scorecards(tmp_path: Path, assay: Any) -> None:
    outcomes = set()
    for place, (drop, lost, groups) in enumerate(
        [(0.0, 0, 0), (0.1, 0, 0), (0.4, 0, 8), (0.05, 2, 8), (0.0, 1, 0)]
    ):
        if not CAMPAIGN and place in (1, 3):  # each thing once: groups, lost samples, looks
            continue
        ours, theirs = runs(2, drop=drop, groups=groups)[lost:], runs(1, drop=0.05, groups=groups)
        if lost:
            theirs = theirs[:-1]
        made = []
        for kind, maker in (("cards", cards), ("batch", batch)):
            suffix = "jsonl" if kind == "cards" else "parquet"
            files = [
                str(maker(tmp_path / f"{kind}{place}{name}.{suffix}", rows))
                for name, rows in (("ours", ours), ("theirs", theirs))
            ]
            more = ("--looks", "3") if place == 1 or lost == 1 else ()
            more += ("--slice", "group") if groups else ()
            done = assay(
                *("gate", files[0], "--baseline", files[1], "--profile", PROFILE, "--json", *more)
            )
            assert done.out, done.err
            made.append(done.json())
            assert done.code == {"promote": 0, "not_enough_evidence": 4}.get(made[-1]["outcome"], 1)
        for name in (*DECIDED, *(("slices",) if groups else ())):
            assert made[1][name] == made[0][name], name
        assert not groups or len(made[1]["slices"]["slices"]) == groups
        for side in ("candidate", "baseline"):
            for name in ("n", "pass_rate", "grades", "criteria", "gates"):
                if not groups:
                    assert made[1][side][name] == made[0][side][name], name
        outcomes.add(made[0]["outcome"])
    assert len(outcomes) > 1


@pytest.mark.req("W-033")
def test_slices_by_any_kept_column_are_those_over_scorecards(tmp_path: Path, assay: Any) -> None:
    """A slice may hold whole groups, parts of them, and samples without one."""
    violated = set()
    cases = ((0, 2, 0.0), (12, 2, 0.3), (3, 2, 0.3), (6, 3, 0.9))
    for groups, tags, drop in cases if CAMPAIGN else cases[:3]:
        ours = runs(2, drop=drop, groups=groups, tags=tags)[1:]
        theirs = runs(1, drop=0.05, groups=groups, tags=tags)[:-1]
        made = []
        for suffix, maker in (("jsonl", cards), ("parquet", batch)):
            files = [
                str(maker(tmp_path / f"{groups}{tags}{name}.{suffix}", rows))
                for name, rows in (("ours", ours), ("theirs", theirs))
            ]
            more = ("--slice", "group") if groups else ()
            done = assay(
                *("gate", files[0], "--baseline", files[1], "--profile", PROFILE, "--json"),
                *("--slice", "tag", *more),
            )
            made.append(done.json())
        for name in (*DECIDED, "slices"):
            assert made[1][name] == made[0][name], name
        assert made[1]["slices"]["kinds"] == (["group", "tag"] if groups else ["tag"])
        unnamed = {"no tag", "no group"} if groups else {"no tag"}
        assert unnamed <= {one["slice"] for one in made[1]["slices"]["slices"]}
        assert len(made[1]["slices"]["slices"]) == groups + tags + len(unnamed)
        violated |= {name.split(":")[0] for name in made[1]["slices"]["violated"]}
    assert "tag" in violated


def test_a_slice_column_that_repeats_disagree_on_is_refused(tmp_path: Path, assay: Any) -> None:
    rows = [{**row, "attempt": 1} for row in runs(1, drop=0.0, tags=2)]
    source = tmp_path / "runs.jsonl"
    evidence(source, rows)
    lines = [json.loads(line) for line in source.read_text().splitlines()]
    again = [{**line, "run": f"{line['run']}b", "attempt": 2} for line in lines]
    for name, tag in (("same", lines[1]["tag"]), ("other", "elsewhere"), ("none", None)):
        again[1]["tag"] = tag
        given = [{**line, "attempt": 1} for line in lines] + again
        source.write_text("".join(json.dumps(line) + "\n" for line in given))
        made = tmp_path / f"{name}.parquet"
        done = assay(
            *("batch", source, "-o", made, "--profile", PROFILE, "--keep", "sample,attempt,tag")
        )
        assert made.exists(), done.err
        done = assay("gate", made, "--baseline", made, "--slice", "tag")
        assert ("1 sample of the baseline differ in 'tag'" in done.err) == (name != "same")
        assert done.code == (0 if name == "same" else 3), done.err


@pytest.mark.req("W-033")
def test_a_gate_that_the_profile_lacks_cannot_be_dropped(tmp_path: Path, assay: Any) -> None:
    theirs = [{**row, "gates": {**row["gates"], "polite": True}} for row in runs(1, drop=0.0)]
    ours = [{**row, "gates": {**row["gates"], "polite": n > 1}} for n, row in enumerate(theirs)]
    for name, candidate in (("dropped", runs(1, drop=0.0)), ("failed", ours), ("kept", theirs)):
        made = []
        for suffix, maker in (("jsonl", cards), ("parquet", batch)):
            files = [
                maker(tmp_path / f"{name}-{suffix}-{side}.{suffix}", rows)
                for side, rows in (("ours", candidate), ("theirs", theirs))
            ]
            done = assay("gate", files[0], "--baseline", files[1], "--profile", PROFILE, "--json")
            made.append(done.json())
            assert (done.code == 0) == (name == "kept"), done.err
        for field in DECIDED:
            assert made[1][field] == made[0][field], field
        for side in ("candidate", "baseline"):
            assert made[1][side]["gates"] == made[0][side]["gates"]
        lost = "the candidate lost the gate polite in s00 and 39 more samples"
        assert (lost in made[1]["reason"]) == (name == "dropped")


@pytest.mark.req("W-033")
def test_a_batch_that_cannot_be_trusted_or_compared_opens_no_gate(
    tmp_path: Path, assay: Any
) -> None:
    rows = runs(1, drop=0.0)
    theirs = batch(tmp_path / "theirs.parquet", rows)
    ours = batch(tmp_path / "ours.parquet", runs(2, drop=0.0))
    other = "sha256:" + 64 * "0"

    def refused(candidate: object, code: str, exit_code: int, *more: str) -> str:
        done = assay("gate", candidate, "--baseline", theirs, *more)
        assert (done.code, code in done.err) == (exit_code, True), done.err
        return str(done.err)

    assert assay("gate", ours, "--baseline", theirs).code in (0, 1)
    for column in ("group", "language"):
        assert f"--keep {column}" in refused(ours, "BAT-061", 2, "--slice", column)
    for option in (["--allow-unpaired"], ["--store"], ["-o", "d.sarif"]):
        assert option[0] in refused(ours, "BAT-061", 2, *option)
    refused(cards(tmp_path / "cards.jsonl", rows), "BAT-061", 2)
    refused(ours, "CLI-001", 2, "--master", "local[1]")
    done = assay("gate", tmp_path / "cards.jsonl", "--baseline", "c.jsonl", "--engine", "spark")
    assert (done.code, "--engine is for outputs of `assay batch`" in done.err) == (2, True)
    refused(ours, "CLI-001", 2, "--quarantine", "nobody")
    twice = batch(tmp_path / "twice.parquet", [*rows, {**rows[0], "run": "again"}])
    assert "'s00' appears twice in the candidate" in refused(twice, "REL-004", 3)
    invalid = [{**rows[0], "raws": {**rows[0]["raws"], SCORING.criteria[0].spec.id: 99}}, *rows[1:]]
    refused(batch(tmp_path / "invalid.parquet", invalid), "BAT-060", 3)
    grouped = batch(tmp_path / "grouped.parquet", runs(1, drop=0.0, groups=8))
    done = assay("gate", grouped, "--baseline", grouped, "--looks", "2")
    assert (done.code, "share groups" in done.err) == (2, True)
    strangers = [{**row, "sample": f"x{row['sample']}"} for row in rows]
    refused(batch(tmp_path / "strangers.parquet", strangers), "REL-002", 3)
    drawn = batch(tmp_path / "drawn.parquet", rows, sample=40)
    assert "--sample" in refused(drawn, "BAT-060", 3)
    refused(batch(tmp_path / "planned.parquet", rows, plan=other), "REL-002", 3)
    refused(batch(tmp_path / "graded.parquet", rows, policy="workflow@9"), "REL-002", 3)
    outside = [BatchFile(name="../theirs.parquet", digest=other)]
    refused(batch(tmp_path / "outside.parquet", rows, outputs=outside), "BAT-060", 3)
    fails = runs(2, drop=0.9)
    for index, lie in enumerate(
        (
            *("true AS passed", "100.0 AS score", "[] AS failed_floors"),
            *("1.0 AS norm_correctness", "'A' AS grade"),
        )
    ):
        forged = batch(tmp_path / "forging.parquet", fails)
        made = tmp_path / f"forged{index}.parquet"
        lied = f"SELECT * REPLACE ({lie}) FROM '{forged}'"
        duckdb.sql(lied).write_parquet(str(made))
        record = json.loads(forged.with_suffix(".batch.json").read_text())
        record["outputs"] = [{"name": made.name, "digest": f"sha256:{file_digest(str(made))}"}]
        made.with_suffix(".batch.json").write_text(json.dumps(record))
        assert "contradicts its norms" in refused(made, "BAT-060", 3), lie
    ours.write_bytes(theirs.read_bytes())
    assert "isn't the file that the batch wrote" in refused(ours, "BAT-060", 3)


def test_a_record_that_names_other_files_opens_no_gate(tmp_path: Path, assay: Any) -> None:
    theirs, good = (batch(tmp_path / f"{one}.parquet", runs(1, drop=0.0)) for one in "ab")
    bad = batch(tmp_path / "bad.parquet", runs(2, drop=0.9))
    assert assay("gate", good, "--baseline", theirs).code == 0
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


def test_rows_that_a_batch_ignored_are_counted_in_a_note(tmp_path: Path, assay: Any) -> None:
    rows = runs(1, drop=0.0)
    counts = BatchCounts(
        rows=41, runs=40, passed=40, invalid=0, grades={}, rejects={"BAT-012": 1200}
    )
    ours = batch(tmp_path / "ours.parquet", runs(2, drop=0.0), counts=counts)
    done = assay("gate", ours, "--baseline", batch(tmp_path / "theirs.parquet", rows))
    assert done.code == 0, done.err
    assert "`assay batch` rejected 1,200 entries of the candidate and graded" in done.out
    assert "BAT-012 1,200" in done.out


def test_a_profile_that_changed_since_a_batch_was_graded_is_refused(
    tmp_path: Path, assay: Any
) -> None:
    changed = {"plan": "sha256:" + 64 * "1"}
    files = [
        batch(tmp_path / f"{name}.parquet", runs(seed, drop=0.0), **changed)
        for seed, name in enumerate(("ours", "theirs"))
    ]
    done = assay("gate", files[0], "--baseline", files[1])
    assert done.code == 3
    assert "other numbers than dag-review@2" in done.err


def test_the_same_batch_on_both_sides_is_named(tmp_path: Path, assay: Any) -> None:
    file = batch(tmp_path / "one.parquet", runs(1, drop=0.0))
    done = assay("gate", file, "--baseline", file, "--json")
    assert any(note.startswith("SAME EVIDENCE") for note in done.json()["notes"])


@pytest.mark.req("W-033")
def test_outputs_of_assay_batch_are_decided_on_as_their_scorecards(
    tmp_path: Path, assay: Any
) -> None:
    polite = {n: {"polite": n != 3} for n in range(40)}
    sides = {
        "theirs": [{**r, "gates": r["gates"] | polite[n]} for n, r in enumerate(runs(1, drop=0.1))],
        "ours": [
            {**r, "gates": r["gates"] | (polite[n] if n != 7 else {})}
            for n, r in enumerate(runs(2, drop=0.05))
        ],
    }
    made: dict[str, list[Path]] = {"cards": [], "file": [], "folder": [], "regraded": []}
    for name, rows in sides.items():
        made["cards"].append(cards(tmp_path / f"{name}.cards.jsonl", rows))
        table, parts = tmp_path / f"{name}.in.parquet", tmp_path / f"{name}.parts"
        source = evidence(tmp_path / f"{name}.jsonl", rows)
        duckdb.sql(f"COPY (FROM read_json('{source}', sample_size = -1)) TO '{table}'")
        duckdb.sql(
            f"COPY (SELECT *, hash(run) % 3 AS part FROM '{table}') TO '{parts}' (FORMAT parquet,"
            " PARTITION_BY part)"
        )
        for kind, given, more in (
            ("file", table, ("--keep", "sample")),
            ("folder", parts, ("--keep", "sample")),
            ("regraded", tmp_path / f"{name}.file.parquet", ()),
        ):
            target = tmp_path / f"{name}.{kind}{'' if kind == 'folder' else '.parquet'}"
            done = assay("batch", given, "-o", target, "--profile", PROFILE, *more)
            assert done.code == 1, done.err
            made[kind].append(target)
    found = {}
    for kind, (theirs, ours) in made.items():
        done = assay("gate", ours, "--baseline", theirs, "--profile", PROFILE, "--json")
        found[kind] = done.json()
        assert done.code == 1
        assert "lost the gate polite in s07" in found[kind]["reason"]
        for field in DECIDED:
            assert found[kind][field] == found["cards"][field], (kind, field)


@pytest.mark.req("W-033")
def test_runs_that_a_batch_rejected_open_no_gate(tmp_path: Path, assay: Any) -> None:
    rows, made = runs(1, drop=0.0), []
    worst = {**rows[0], "raws": {**rows[0]["raws"], SCORING.criteria[0].spec.id: 99}}
    for name, given in (("theirs", rows), ("ours", [worst, *rows[1:]])):
        source = evidence(tmp_path / f"{name}.jsonl", given)
        made.append(tmp_path / f"{name}.parquet")
        assay("batch", source, "-o", made[-1], "--profile", PROFILE, "--keep", "sample")
    for ours, theirs in (made, made[::-1]):
        done = assay("gate", ours, "--baseline", theirs)
        assert (done.code, "couldn't be graded" in done.err) == (3, True), done.err
